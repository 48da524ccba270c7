//! The coordinator of the consumer groups that live in one partition of `__consumer_offsets`.
//!
//! A state machine without I/O, and without knowledge of logs and connections. Whoever drives it
//! - replays the partition's records into it when the broker becomes the partition's leader, and calls
//!   [`Coordinator::finish_loading`] **once the partition's high watermark has reached the log's end as it was at the
//!   election**: a record above the high watermark may still vanish, and a fetch must not return what may vanish;
//! - hands it requests, the outcome of appends, and the time at [`Coordinator::wake_at_ns`];
//! - carries out [`Coordinator::take_outputs`] after each of those, in order: the coordinator counts on records of one
//!   output after the other lying in the log in that order, all records of one output in one batch;
//! - says of each append what became of it ([`Coordinator::appended`]): committed (below the high watermark; said in
//!   the order of the log), or refused, which means that it is not in the log and never will be. An append that is in the log and not committed
//!   needs no word: the coordinator itself stops keeping the client waiting after a while, and still takes the commit
//!   in when it comes;
//! - takes the answers of [`Coordinator::resign`] and forgets the coordinator when the broker no longer leads.
//!
//! An answer that promises durability (an offset commit, the assignment of a generation, a deletion) is given only
//! after its records are committed. Each request with a [`ReplyTo`] is answered exactly once.
//!
//! What it cannot see: whether topics and partitions exist (the driver checks commits); that another broker leads
//! already and this one has not heard (a fetch may then return an offset that is no longer the latest: the driver
//! should not serve [`Coordinator::offset_fetch`] when it has lost touch with the rest of the cluster); whether a
//! transaction is open, and when it ends (the driver hands on the markers of the partition).
//!
//! Generations that never became stable are not in the log: the next coordinator may use their numbers again.
//!
//! A group is one of the classic protocol, whose members assign themselves, or one of KIP-848 ([`consumer`]). Both keep
//! their offsets alike.
//!
//! Sources: Kafka's protocol guide; KIP-62 (heartbeats apart from polls), KIP-134 (initial delay), KIP-345 (static
//! members), KIP-394 (member id first), KIP-447 (stable fetch), KIP-814 (static leader skips assignment); Kafka's
//! GroupCoordinator for which error is given when.

mod config;
mod consumer;
mod expire;
mod join;
mod offset_requests;
mod offsets;
mod outbox;
mod rebalance;
mod record;
mod state;
mod sync;

pub use config::GroupConfig;
pub use consumer::Topics;
pub use offsets::{offset_fetch_error, offset_fetch_groups, offset_fetch_response};
pub(crate) use outbox::unavailable;
pub(crate) use record::Cursor;
pub use record::{Record, RecordError};

use crate::schedule::Schedule;
use crate::txn::Producer;
use consumer::KnownTopics;
use offsets::answer_settled_commit;
use outbox::{Outbox, Pending, Then};
use record::{Entry, NO_TIMESTAMP};
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    ConsumerGroupHeartbeatResponse, DescribeGroupsResponseGroup, HeartbeatRequest, HeartbeatResponse,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupRequestMember, LeaveGroupResponse,
    ListGroupsRequest, ListGroupsResponseGroup, OffsetCommitResponse, OffsetDeleteResponse, SyncGroupRequest,
    SyncGroupResponse, TxnOffsetCommitResponse,
};
use state::{Group, State, Turn, WallClock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names a request that waits for its answer; the driver's own number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ReplyTo(pub u64);

/// Names an append that the coordinator asked for. Rises with each, as do the offsets of their records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AppendToken(pub u64);

/// Who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Where the answer goes.
    pub reply_to: ReplyTo,
    /// The request's version.
    pub api_version: i16,
    /// The client's name for itself.
    pub client_id: String,
    /// Where it connects from, for those who describe the group.
    pub client_host: String,
}

/// An answer.
#[derive(Clone, PartialEq, Debug)]
pub enum Response {
    /// To [`Coordinator::join_group`].
    JoinGroup(JoinGroupResponse),
    /// To [`Coordinator::sync_group`].
    SyncGroup(SyncGroupResponse),
    /// To [`Coordinator::offset_commit`].
    OffsetCommit(OffsetCommitResponse),
    /// To [`Coordinator::txn_offset_commit`].
    TxnOffsetCommit(TxnOffsetCommitResponse),
    /// To [`Coordinator::offset_delete`].
    OffsetDelete(OffsetDeleteResponse),
    /// To [`Coordinator::consumer_group_heartbeat`].
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeatResponse),
    /// To [`Coordinator::delete_group`].
    DeleteGroup(ErrorCode),
}

/// What a coordinator wants done.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Answer a request.
    Reply {
        /// As the request came with.
        to: ReplyTo,
        /// The answer.
        response: Response,
    },
    /// Append records to the partition, and say what became of them.
    Append {
        /// To be given back in [`Coordinator::appended`].
        token: AppendToken,
        /// To be appended as one batch.
        records: Vec<Record>,
        /// Whose transaction they belong to: the batch is transactional, and without sequence number.
        producer: Option<Producer>,
    },
}

/// The coordinator of all groups of one partition.
#[derive(Debug)]
pub struct Coordinator {
    config: GroupConfig,
    is_loading: bool,
    /// How many records were loaded.
    loaded: u64,
    groups: BTreeMap<String, Group>,
    topics: KnownTopics,
    wall: WallClock,
    schedule: Schedule,
    outbox: Outbox,
}

impl Coordinator {
    /// A coordinator that is loading: requests are told to come again, but for heartbeats, so that members stay.
    pub fn new(config: GroupConfig) -> Coordinator {
        Coordinator {
            config,
            is_loading: true,
            loaded: 0,
            groups: BTreeMap::new(),
            topics: KnownTopics::default(),
            wall: WallClock::default(),
            schedule: Schedule::default(),
            outbox: Outbox::default(),
        }
    }

    /// Takes over a record of the partition, in the order of the log; the producer is the one whose transaction its
    /// batch belongs to.
    ///
    /// Errors: a record that is not understood; nothing has changed, and loading may go on without it.
    pub fn replay(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        producer_id: Option<i64>,
    ) -> Result<(), RecordError> {
        assert!(self.is_loading, "records are replayed before loading is finished");
        self.loaded += 1;
        let entry = Entry::from_record(key, value)?;
        let (Entry::Offset { group, .. } | Entry::Group { group, .. } | Entry::Consumer { group, .. }) =
            &entry;
        let turn = Turn { now_ns: 0, wall_ms: NO_TIMESTAMP, config: &self.config, outbox: &mut self.outbox };
        let group = self.groups.entry(group.clone()).or_insert_with_key(|id| Group::new(id, &turn));
        match entry {
            Entry::Offset { partition, committed, .. } => {
                group.offsets.load(partition, committed, self.loaded, producer_id);
            }
            Entry::Group { snapshot, .. } => group.load(snapshot),
            Entry::Consumer { entry, .. } => group.load_consumer(entry),
        }
        Ok(())
    }

    /// Says what the wall's clock says, by which offsets grow old. To be said at the beginning.
    pub fn set_wall_clock(&mut self, now_ns: u64, wall_ms: i64) {
        self.wall = WallClock::new(now_ns, wall_ms);
    }

    /// Says which topics there are now. Groups of KIP-848 that want them are assigned anew as their members are heard.
    pub fn know_topics(&mut self, topics: Arc<Topics>) {
        self.topics = KnownTopics { topics, version: self.topics.version + 1 };
    }

    /// Begins to serve. Members that were loaded have a whole session to show up.
    pub fn finish_loading(&mut self, now_ns: u64) {
        self.is_loading = false;
        for group_id in self.groups.keys().cloned().collect::<Vec<_>>() {
            self.act(now_ns, &group_id, |group, _, turn| group.wake_up(turn));
        }
    }

    /// Whether [`finish_loading`](Coordinator::finish_loading) has not been called yet.
    pub fn is_loading(&self) -> bool {
        self.is_loading
    }

    /// Answers, by output. `random` is drawn from for member ids.
    pub fn join_group(
        &mut self,
        now_ns: u64,
        caller: &Caller,
        request: JoinGroupRequest,
        random: &mut dyn FnMut() -> u64,
    ) {
        let (to, member_id) = (caller.reply_to, request.member_id.clone());
        if let Err(code) = self.check_join(now_ns, &request) {
            self.turn(now_ns).refuse_join(to, &member_id, code);
            return;
        }
        let group_id = request.group_id.clone();
        let joined = self.act(now_ns, &group_id, |group, _, turn| group.join(caller, request, random, turn));
        if joined.is_none() {
            self.turn(now_ns).refuse_join(to, &member_id, ErrorCode::UNKNOWN_MEMBER_ID);
        }
    }

    fn check_join(&mut self, now_ns: u64, request: &JoinGroupRequest) -> Result<(), ErrorCode> {
        self.check_member_api(&request.group_id)?;
        let sessions = self.config.min_session_timeout_ms..=self.config.max_session_timeout_ms;
        if !u64::try_from(request.session_timeout_ms).is_ok_and(|ms| sessions.contains(&ms)) {
            return Err(ErrorCode::INVALID_SESSION_TIMEOUT);
        }
        if request.member_id.is_empty() { self.make_group(now_ns, &request.group_id) } else { Ok(()) }
    }

    /// Answers, by output.
    pub fn sync_group(&mut self, now_ns: u64, to: ReplyTo, request: SyncGroupRequest) {
        let checked = self.check_member_api(&request.group_id).map_err(|code| match code {
            // What was being rebalanced is lost; older clients do not expect to be told so while they sync.
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => ErrorCode::REBALANCE_IN_PROGRESS,
            code => code,
        });
        if let Err(code) = checked {
            self.turn(now_ns).refuse_sync(to, code);
            return;
        }
        let group_id = request.group_id.clone();
        if self.act(now_ns, &group_id, |group, _, turn| group.sync(to, request, turn)).is_none() {
            self.turn(now_ns).refuse_sync(to, ErrorCode::UNKNOWN_MEMBER_ID);
        }
    }

    /// Answers at once.
    pub fn heartbeat(&mut self, now_ns: u64, request: &HeartbeatRequest) -> HeartbeatResponse {
        let error_code = match self.check_member_api(&request.group_id) {
            // Nothing is known yet of a member to let it go.
            Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) => ErrorCode::NONE,
            Err(code) => code,
            Ok(()) => {
                let (member_id, instance_id) = (&request.member_id, request.group_instance_id.as_deref());
                let beat = self.act(now_ns, &request.group_id, |group, _, turn| {
                    group.heartbeat(request.generation_id, member_id, instance_id, turn)
                });
                beat.unwrap_or(Err(ErrorCode::UNKNOWN_MEMBER_ID)).err().unwrap_or(ErrorCode::NONE)
            }
        };
        HeartbeatResponse { throttle_time_ms: 0, error_code }
    }

    /// Answers at once; others may be answered by output.
    pub fn leave_group(
        &mut self,
        now_ns: u64,
        api_version: i16,
        request: LeaveGroupRequest,
    ) -> LeaveGroupResponse {
        /// First version that takes several members out at once.
        const BATCHES_SINCE: i16 = 3;
        if let Err(error_code) = self.check_member_api(&request.group_id) {
            return LeaveGroupResponse { error_code, ..LeaveGroupResponse::default() };
        }
        let is_batch = api_version >= BATCHES_SINCE;
        let leaving = if is_batch {
            request.members
        } else {
            vec![LeaveGroupRequestMember {
                member_id: request.member_id,
                ..LeaveGroupRequestMember::default()
            }]
        };
        // A group that does not exist has no members to take out: it answers as an empty one, and is forgotten again.
        let wall_ms = self.wall.at_ms(now_ns);
        let turn = Turn { now_ns, wall_ms, config: &self.config, outbox: &mut self.outbox };
        self.groups.entry(request.group_id.clone()).or_insert_with_key(|id| Group::new(id, &turn));
        let left = self.act(now_ns, &request.group_id, |group, _, turn| {
            if group.state == State::Dead {
                return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
            }
            Ok(leaving.into_iter().map(|member| group.leave(member, turn)).collect::<Vec<_>>())
        });
        let (error_code, members) = match left.expect("it was just made sure that there is one") {
            Ok(members) if is_batch => (ErrorCode::NONE, members),
            Ok(members) => (members.first().map_or(ErrorCode::NONE, |member| member.error_code), Vec::new()),
            Err(code) => (code, Vec::new()),
        };
        LeaveGroupResponse { throttle_time_ms: 0, error_code, members }
    }

    /// A member counts as one whose join is not answered; for a defect alone.
    pub(crate) fn goes_on_waiting(&mut self, member_id: &str, to: ReplyTo) {
        for group in self.groups.values_mut() {
            if let Some(member) = group.members.get_mut(member_id) {
                member.joining = Some(to);
                group.unsynced.remove(member_id);
            }
        }
    }

    /// One group as an operator sees it.
    pub fn describe(&self, group_id: &str, api_version: i16) -> DescribeGroupsResponseGroup {
        /// First version that tells a group that does not exist by an error. Source: KIP-1043.
        const NOT_FOUND_SINCE: i16 = 6;
        let unknown = |error_code, state: &str| DescribeGroupsResponseGroup {
            group_id: group_id.to_owned(),
            error_code,
            group_state: state.to_owned(),
            ..DescribeGroupsResponseGroup::default()
        };
        if let Err(code) = self.check_loaded() {
            return unknown(code, "");
        }
        match self.groups.get(group_id).filter(|group| group.consumer.is_none()) {
            Some(group) => group.described(),
            None if api_version >= NOT_FOUND_SINCE => unknown(ErrorCode::GROUP_ID_NOT_FOUND, "Dead"),
            None => unknown(ErrorCode::NONE, "Dead"),
        }
    }

    /// The groups that a request asks for. Errors: the coordinator is loading.
    pub fn list(&self, request: &ListGroupsRequest) -> Result<Vec<ListGroupsResponseGroup>, ErrorCode> {
        self.check_loaded()?;
        let asks_for = |filter: &[String], is: &str| {
            filter.is_empty() || filter.iter().any(|asked| asked.eq_ignore_ascii_case(is))
        };
        let listed = self.groups.values().map(Group::listed).filter(|group| {
            asks_for(&request.states_filter, &group.group_state)
                && asks_for(&request.types_filter, &group.group_type)
        });
        Ok(listed.collect())
    }

    /// Removes an empty group with its offsets; answers, by output.
    pub fn delete_group(&mut self, now_ns: u64, to: ReplyTo, group_id: &str) {
        let checked =
            self.check_loaded().and_then(|()| match self.groups.get(group_id).map(|group| &group.state) {
                Some(State::Empty { .. }) if !self.is_in_use(group_id) => Ok(()),
                Some(State::Dead) | None => Err(ErrorCode::GROUP_ID_NOT_FOUND),
                Some(_) => Err(ErrorCode::NON_EMPTY_GROUP),
            });
        match checked {
            Ok(()) => {
                self.act(now_ns, group_id, |group, _, turn| group.delete(Some(to), turn));
            }
            Err(code) => self.outbox.reply(to, Response::DeleteGroup(code)),
        }
    }

    /// Says what became of an append: committed, or refused for this reason and not in the log.
    pub fn appended(&mut self, now_ns: u64, token: AppendToken, outcome: Result<(), ErrorCode>) {
        let Some(Pending { group: group_id, then }) = self.outbox.take(token) else { return };
        let is_deleted = outcome.is_ok() && matches!(then, Then::Delete { .. });
        self.act(now_ns, &group_id, |group, topics, turn| {
            group.in_flight -= 1;
            match then {
                Then::Forget { partitions, answer } => {
                    if outcome.is_ok() {
                        group.offsets.forget(token, &partitions);
                    }
                    match (answer, outcome) {
                        (Some((to, response)), Ok(())) => {
                            turn.outbox.reply(to, Response::OffsetDelete(response));
                        }
                        (Some((to, _)), Err(code)) => turn.refuse_deletion(to, outbox::commit_error(code)),
                        (None, _) => {}
                    }
                }
                Then::Consumer { next, answer } => {
                    group.consumer_changed(*next, answer, outcome, topics, turn);
                }
                Then::Assign { generation, assignments } => {
                    group.assigned(generation, &assignments, outcome, turn);
                }
                Then::Commit { commits, producer, answer } => {
                    group.committed(token, commits, producer, answer, outcome, turn);
                }
                Then::Replace { generation, member_id, former_leader, can_skip_assignment } => {
                    let who = (generation, member_id.as_str());
                    group.replaced(who, &former_leader, can_skip_assignment, outcome, turn);
                }
                Then::Emptied => {}
                Then::Delete { answer } => {
                    if outcome.is_err() {
                        group.undelete(turn);
                    }
                    if let Some(to) = answer {
                        let code = outcome.map_err(outbox::commit_error).err().unwrap_or(ErrorCode::NONE);
                        turn.outbox.reply(to, Response::DeleteGroup(code));
                    }
                }
            }
        });
        if is_deleted {
            self.groups.remove(&group_id);
            self.schedule.set(&group_id, None);
        }
    }

    /// Does what is due: sessions that end, joins that have waited long enough, clients that wait for the log.
    pub fn tick(&mut self, now_ns: u64) {
        if self.is_loading {
            return;
        }
        while let Some((token, mut pending)) = self.outbox.take_timed_out(now_ns) {
            let group_id = pending.group.clone();
            self.act(now_ns, &group_id, |group, _, turn| give_up_waiting(group, &mut pending.then, turn));
            self.outbox.give_back(token, pending);
        }
        for group_id in self.schedule.due(now_ns) {
            self.act(now_ns, &group_id, Group::tick);
        }
    }

    /// When [`tick`](Coordinator::tick) has something to do.
    pub fn wake_at_ns(&self) -> Option<u64> {
        [self.schedule.first_ns(), self.outbox.next_timeout_ns()].into_iter().flatten().min()
    }

    /// What is to be done since this was last asked, in order.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outbox.outputs)
    }

    /// The broker no longer leads the partition: everybody who waits is sent to look for the new coordinator. What
    /// they waited for may or may not have happened. Appends that were not carried out yet are not among the outputs.
    pub fn resign(mut self) -> Vec<Output> {
        let mut turn =
            Turn { now_ns: 0, wall_ms: NO_TIMESTAMP, config: &self.config, outbox: &mut self.outbox };
        for group in self.groups.values_mut() {
            group.resign(&mut turn);
        }
        for pending in turn.outbox.take_all() {
            match pending.then {
                Then::Commit { answer: Some((to, answer)), producer, .. } => {
                    answer_settled_commit(to, answer, producer, Err(ErrorCode::NOT_COORDINATOR), &mut turn);
                }
                Then::Forget { answer: Some((to, _)), .. } => {
                    turn.refuse_deletion(to, ErrorCode::NOT_COORDINATOR);
                }
                Then::Consumer { answer: Some((to, _)), .. } => {
                    turn.refuse_consumer(to, ErrorCode::NOT_COORDINATOR, None);
                }
                Then::Delete { answer: Some(to) } => {
                    turn.outbox.reply(to, Response::DeleteGroup(ErrorCode::NOT_COORDINATOR));
                }
                _ => {}
            }
        }
        self.outbox.outputs.retain(|output| matches!(output, Output::Reply { .. }));
        self.outbox.outputs
    }

    /// How many groups there are.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    fn turn(&mut self, now_ns: u64) -> Turn<'_> {
        let wall_ms = self.wall.at_ms(now_ns);
        Turn { now_ns, wall_ms, config: &self.config, outbox: &mut self.outbox }
    }

    /// Lets something happen in a group, if there is such a group, and keeps the books about it.
    fn act<R>(
        &mut self,
        now_ns: u64,
        group_id: &str,
        what: impl FnOnce(&mut Group, &KnownTopics, &mut Turn<'_>) -> R,
    ) -> Option<R> {
        let group = self.groups.get_mut(group_id)?;
        let wall_ms = self.wall.at_ms(now_ns);
        let mut turn = Turn { now_ns, wall_ms, config: &self.config, outbox: &mut self.outbox };
        let result = what(group, &self.topics, &mut turn);
        if group.is_forgettable() {
            self.groups.remove(group_id);
            self.schedule.set(group_id, None);
        } else {
            self.schedule.set(group_id, group.deadline_ns());
        }
        Some(result)
    }

    /// A transaction that is not over keeps a group from being deleted: its marker would bring offsets back.
    fn is_in_use(&self, group_id: &str) -> bool {
        let is_in_use = |group: &Group| group.has_consumers() || group.offsets.has_transactional();
        self.groups.get(group_id).is_some_and(is_in_use)
    }

    fn check_loaded(&self) -> Result<(), ErrorCode> {
        if self.is_loading { Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) } else { Ok(()) }
    }

    /// For what members ask. Offsets may be kept under an empty group id; members cannot have one.
    fn check_member_api(&self, group_id: &str) -> Result<(), ErrorCode> {
        if group_id.is_empty() { Err(ErrorCode::INVALID_GROUP_ID) } else { self.check_loaded() }
    }

    fn make_group(&mut self, now_ns: u64, group_id: &str) -> Result<(), ErrorCode> {
        if self.groups.contains_key(group_id) {
            return Ok(());
        }
        if self.groups.len() >= self.config.max_groups {
            return Err(ErrorCode::POLICY_VIOLATION);
        }
        let group = Group::new(group_id, &self.turn(now_ns));
        self.groups.insert(group_id.to_owned(), group);
        Ok(())
    }
}

/// Answers who has waited long enough for the log. What was appended stays: it may still be committed.
fn give_up_waiting(group: &mut Group, then: &mut Then, turn: &mut Turn<'_>) {
    let timed_out = Err(ErrorCode::REQUEST_TIMED_OUT);
    match then {
        Then::Assign { generation, assignments } => group.assigned(*generation, assignments, timed_out, turn),
        Then::Replace { generation, member_id, former_leader, can_skip_assignment } => {
            group.replaced((*generation, member_id), former_leader, *can_skip_assignment, timed_out, turn);
        }
        Then::Commit { answer, producer, .. } => {
            if let Some((to, answer)) = answer.take() {
                answer_settled_commit(to, answer, *producer, timed_out, turn);
            }
        }
        Then::Delete { answer } => {
            if let Some(to) = answer.take() {
                let code = outbox::commit_error(ErrorCode::REQUEST_TIMED_OUT);
                turn.outbox.reply(to, Response::DeleteGroup(code));
            }
        }
        Then::Forget { answer, .. } => {
            if let Some((to, _)) = answer.take() {
                turn.refuse_deletion(to, outbox::commit_error(ErrorCode::REQUEST_TIMED_OUT));
            }
        }
        Then::Consumer { answer, .. } => {
            if let Some((to, _)) = answer.take() {
                let code = consumer::consumer_error(ErrorCode::REQUEST_TIMED_OUT);
                turn.refuse_consumer(to, code, None);
            }
        }
        Then::Emptied => {}
    }
}

#[cfg(test)]
mod tests;
