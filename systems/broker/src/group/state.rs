//! One group: its members, what state it is in, and what is left of it when its coordinator fails.
//!
//! ```text
//! Empty ------> Preparing ----> Completing ----> Stable
//!   ^  a member   | ^  everybody   |  |  the leader's  |
//!   |  joins      | |  joined, or  |  |  assignment    |
//!   +-------------+ |  time is up  |  |  is committed  |
//!    nobody is left +--------------+--+----------------+
//!                    a member joins anew, leaves or dies
//! ```
//!
//! A generation begins when joining ends. It is stable once its assignment is committed to the log, so that two
//! coordinators cannot disagree about who owns what in it.

use super::GroupConfig;
use super::consumer::{Consumer, KnownTopics};
use super::offsets::Offsets;
use super::outbox::{Outbox, Then};
use super::record::{Entry, MemberSnapshot, NO_TIMESTAMP, Snapshot};
use super::{ReplyTo, Response};
use bytes::Bytes;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    DescribeGroupsResponseGroup, DescribeGroupsResponseMember, JoinGroupResponse, ListGroupsResponseGroup,
    SyncGroupResponse,
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const NS_PER_MS: u64 = 1_000_000;

/// What the wall's clock says: times that outlive coordinators are by it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WallClock {
    /// What it said when the driver's time began.
    began_at_ms: i64,
}

impl WallClock {
    pub(super) fn new(now_ns: u64, wall_ms: i64) -> WallClock {
        WallClock { began_at_ms: wall_ms.saturating_sub((now_ns / NS_PER_MS) as i64) }
    }

    pub(super) fn at_ms(self, now_ns: u64) -> i64 {
        self.began_at_ms.saturating_add((now_ns / NS_PER_MS) as i64)
    }
}

/// What one input's handling may use.
pub(super) struct Turn<'a> {
    pub(super) now_ns: u64,
    pub(super) wall_ms: i64,
    pub(super) config: &'a GroupConfig,
    pub(super) outbox: &'a mut Outbox,
}

impl Turn<'_> {
    pub(super) fn after_ms(&self, ms: u64) -> u64 {
        self.now_ns.saturating_add(ms.saturating_mul(NS_PER_MS))
    }

    /// Appends records of a group; a wait for them is given up after the configured time.
    pub(super) fn append(&mut self, group: &str, entries: &[Entry], then: Then) {
        let give_up_at_ns = self.after_ms(self.config.commit_timeout_ms);
        self.outbox.append(give_up_at_ns, group, entries, then);
    }

    pub(super) fn refuse_join(&mut self, to: ReplyTo, member_id: &str, code: ErrorCode) {
        let response = JoinGroupResponse {
            error_code: code,
            generation_id: -1,
            protocol_name: Some(String::new()),
            member_id: member_id.to_owned(),
            ..JoinGroupResponse::default()
        };
        self.outbox.reply(to, Response::JoinGroup(response));
    }

    pub(super) fn refuse_sync(&mut self, to: ReplyTo, code: ErrorCode) {
        let response = SyncGroupResponse { error_code: code, ..SyncGroupResponse::default() };
        self.outbox.reply(to, Response::SyncGroup(response));
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// No members; there may be offsets.
    Empty {
        since_ms: i64,
    },
    /// Members are asked to join the next generation, and are answered together.
    Preparing {
        until_ns: u64,
        gathering: Option<Gathering>,
    },
    /// The generation's leader is to say who owns what.
    Completing {
        /// Whether it has said so, and the log has not yet.
        is_storing: bool,
    },
    Stable,
    /// Being deleted; refuses everything.
    Dead,
}

/// A group that was empty waits for its first members to come together: each one that comes extends the wait.
/// Source: KIP-134.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gathering {
    /// By how much the wait may still be extended.
    pub(super) left_ns: u64,
    /// Whether somebody came since it was last extended.
    pub(super) has_newcomer: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) instance_id: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) session_timeout_ms: u64,
    pub(super) rebalance_timeout_ms: u64,
    /// What it can do, what it likes most first, with what it wants of each.
    pub(super) protocols: Vec<(String, Bytes)>,
    pub(super) assignment: Bytes,
    /// A join that waits for its answer.
    pub(super) joining: Option<ReplyTo>,
    /// A sync that waits for its answer.
    pub(super) syncing: Option<ReplyTo>,
    /// Whether it has not had its first answer: it cannot send heartbeats.
    pub(super) is_new: bool,
    pub(super) expires_at_ns: u64,
}

impl Member {
    /// When it is dead unless something comes. Who waits for an answer cannot send heartbeats.
    fn deadline_ns(&self) -> Option<u64> {
        let waits = self.joining.is_some() || self.syncing.is_some();
        (self.is_new || !waits).then_some(self.expires_at_ns)
    }

    pub(super) fn touch(&mut self, now_ns: u64) {
        self.expires_at_ns = now_ns.saturating_add(self.session_timeout_ms.saturating_mul(NS_PER_MS));
    }

    pub(super) fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|(name, _)| name == protocol)
    }

    /// What it wants of a protocol; nothing if it does not know it.
    pub(super) fn subscription(&self, protocol: Option<&str>) -> Bytes {
        let wanted = self.protocols.iter().find(|(name, _)| Some(name.as_str()) == protocol);
        wanted.map(|(_, subscription)| subscription.clone()).unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) id: String,
    pub(super) state: State,
    pub(super) generation: i32,
    pub(super) protocol_type: Option<String>,
    pub(super) protocol: Option<String>,
    pub(super) leader: Option<String>,
    pub(super) members: BTreeMap<String, Member>,
    /// Static members: instance id -> member id.
    pub(super) statics: BTreeMap<String, String>,
    /// Ids that were given out and not used yet, and when they are forgotten.
    pub(super) promised: BTreeMap<String, u64>,
    /// Members that have not asked for their assignment in this generation, and when they are given up.
    pub(super) unsynced: BTreeSet<String>,
    pub(super) sync_until_ns: u64,
    pub(super) offsets: Offsets,
    /// What it is beside its offsets, if it is a group of KIP-848: then it has no members of its own.
    pub(super) consumer: Option<Box<Consumer>>,
    /// Records of it that are on their way to the log.
    pub(super) in_flight: usize,
    /// When it is next looked for offsets that are too old.
    pub(super) expire_at_ns: u64,
}

impl Group {
    pub(super) fn new(id: &str, turn: &Turn<'_>) -> Group {
        Group {
            id: id.to_owned(),
            state: State::Empty { since_ms: turn.wall_ms },
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            statics: BTreeMap::new(),
            promised: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            sync_until_ns: 0,
            offsets: Offsets::default(),
            consumer: None,
            in_flight: 0,
            expire_at_ns: turn.after_ms(turn.config.retention_check_ms),
        }
    }

    /// Whether nothing would be missed without it: it left nothing in the log either.
    pub(super) fn is_forgettable(&self) -> bool {
        matches!(self.state, State::Empty { .. })
            && self.generation == 0
            && self.consumer.is_none()
            && self.in_flight == 0
            && self.promised.is_empty()
            && self.offsets.is_empty()
    }

    /// Checks that a request comes from a member, and not from a former life of one.
    pub(super) fn check_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.statics.get(instance_id) {
                Some(current) if current != member_id => return Err(ErrorCode::FENCED_INSTANCE_ID),
                Some(_) => {}
                None => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(ErrorCode::UNKNOWN_MEMBER_ID) }
    }

    pub(super) fn check_generation(&self, generation: i32) -> Result<(), ErrorCode> {
        if generation == self.generation { Ok(()) } else { Err(ErrorCode::ILLEGAL_GENERATION) }
    }

    pub(super) fn touch(&mut self, member_id: &str, now_ns: u64) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.touch(now_ns);
        }
    }

    /// How long members may take to join: as long as the slowest asks for.
    pub(super) fn rebalance_timeout_ms(&self) -> u64 {
        self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0)
    }

    /// Takes a member or a promised id out; whoever waits there is told.
    pub(super) fn take_out(&mut self, member_id: &str, turn: &mut Turn<'_>) {
        self.promised.remove(member_id);
        self.unsynced.remove(member_id);
        let Some(member) = self.members.remove(member_id) else { return };
        if let Some(instance_id) = &member.instance_id {
            self.statics.remove(instance_id);
        }
        if let Some(to) = member.joining {
            turn.refuse_join(to, "", ErrorCode::UNKNOWN_MEMBER_ID);
        }
        if let Some(to) = member.syncing {
            turn.refuse_sync(to, ErrorCode::UNKNOWN_MEMBER_ID);
        }
        if self.leader.as_deref() == Some(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
    }

    /// Takes a member out and does what follows from it.
    pub(super) fn remove(&mut self, member_id: &str, turn: &mut Turn<'_>) {
        let was_member = self.members.contains_key(member_id);
        self.take_out(member_id, turn);
        match self.state {
            State::Preparing { .. } => self.advance_join(turn),
            State::Completing { .. } | State::Stable if was_member => self.prepare(turn),
            _ => {}
        }
    }

    /// Writes the group down, with these assignments.
    pub(super) fn store(&mut self, then: Then, assignments: &BTreeMap<String, Bytes>, turn: &mut Turn<'_>) {
        let members = self.members.iter().map(|(id, member)| {
            let snapshot = MemberSnapshot {
                instance_id: member.instance_id.clone(),
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                rebalance_timeout_ms: i32::try_from(member.rebalance_timeout_ms).unwrap_or(i32::MAX),
                session_timeout_ms: i32::try_from(member.session_timeout_ms).unwrap_or(i32::MAX),
                subscription: member.subscription(self.protocol.as_deref()),
                assignment: assignments.get(id).cloned().unwrap_or_default(),
            };
            (id.clone(), snapshot)
        });
        let snapshot = Snapshot {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            since_ms: turn.wall_ms,
            members: members.collect(),
        };
        self.in_flight += 1;
        turn.append(&self.id, &[Entry::Group { group: self.id.clone(), snapshot: Some(snapshot) }], then);
    }

    /// Takes over what the log says; none is that the group was deleted.
    pub(super) fn load(&mut self, snapshot: Option<Snapshot>) {
        if snapshot.is_some() {
            // It changed its protocol since.
            self.consumer = None;
        }
        let snapshot = snapshot.unwrap_or_default();
        self.generation = snapshot.generation;
        self.protocol_type = Some(snapshot.protocol_type).filter(|it| !it.is_empty());
        self.protocol = snapshot.protocol;
        self.leader = snapshot.leader;
        let ms = |ms: i32| u64::try_from(ms).unwrap_or(0);
        let members = snapshot.members.into_iter().map(|(id, member)| {
            let member = Member {
                instance_id: member.instance_id,
                client_id: member.client_id,
                client_host: member.client_host,
                session_timeout_ms: ms(member.session_timeout_ms),
                rebalance_timeout_ms: ms(member.rebalance_timeout_ms),
                protocols: vec![(self.protocol.clone().unwrap_or_default(), member.subscription)],
                assignment: member.assignment,
                joining: None,
                syncing: None,
                is_new: false,
                expires_at_ns: 0,
            };
            (id, member)
        });
        self.members = members.collect();
        let instances = self.members.iter().filter_map(|(id, m)| Some((m.instance_id.clone()?, id.clone())));
        self.statics = instances.collect();
        let since_ms = snapshot.since_ms;
        self.state = if self.members.is_empty() { State::Empty { since_ms } } else { State::Stable };
    }

    /// Starts the clocks of a group that was loaded.
    pub(super) fn wake_up(&mut self, turn: &mut Turn<'_>) {
        if let State::Empty { since_ms } = &mut self.state
            && *since_ms == NO_TIMESTAMP
        {
            *since_ms = turn.wall_ms;
        }
        self.offsets.date(turn.wall_ms);
        self.expire_at_ns = turn.after_ms(turn.config.retention_check_ms);
        for member in self.members.values_mut() {
            member.touch(turn.now_ns);
        }
        if let Some(consumer) = &mut self.consumer {
            consumer.wake_up(turn);
        }
        if self.members.len() > turn.config.max_members {
            self.prepare(turn);
        }
    }

    /// When something is to happen by itself.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        let of_state = match self.state {
            State::Preparing { until_ns, .. } => Some(until_ns),
            _ => None,
        };
        let of_members = self.members.values().filter_map(Member::deadline_ns).min();
        let of_promises = self.promised.values().copied().min();
        let of_syncs = (!self.unsynced.is_empty()).then_some(self.sync_until_ns);
        let of_consumer = self.consumer.as_ref().and_then(|consumer| consumer.deadline_ns());
        let of_offsets = (self.in_flight == 0).then_some(self.expire_at_ns);
        [of_state, of_members, of_promises, of_syncs, of_consumer, of_offsets].into_iter().flatten().min()
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, topics: &KnownTopics, turn: &mut Turn<'_>) {
        self.tick_consumer(topics, turn);
        let due = |at_ns: u64| at_ns <= turn.now_ns;
        let promises = self.promised.iter().filter(|(_, at_ns)| due(**at_ns)).map(|(id, _)| id.clone());
        let members = self.members.iter().filter(|(_, m)| m.deadline_ns().is_some_and(due));
        let expired: Vec<String> = promises.chain(members.map(|(id, _)| id.clone())).collect();
        for member_id in expired {
            // The end of one session may have answered others, and an answer begins a new session.
            let is_still =
                self.members.get(&member_id).is_none_or(|m| m.deadline_ns().is_some_and(due_at(turn)));
            if is_still {
                self.remove(&member_id, turn);
            }
        }
        if !self.unsynced.is_empty() && self.sync_until_ns <= turn.now_ns {
            for member_id in std::mem::take(&mut self.unsynced) {
                self.take_out(&member_id, turn);
            }
            self.prepare(turn);
        }
        self.advance_join(turn);
        if self.expire_at_ns <= turn.now_ns {
            self.expire(topics, turn);
        }
    }

    /// Removes the group and its offsets from the log, and from memory once that is committed.
    pub(super) fn delete(&mut self, answer: Option<ReplyTo>, turn: &mut Turn<'_>) {
        let mut entries = self.offsets.tombstones(&self.id);
        entries.push(Entry::Group { group: self.id.clone(), snapshot: None });
        let of_consumer = self.consumer.iter().flat_map(|consumer| consumer.tombstones());
        entries.extend(of_consumer.map(|entry| Entry::Consumer { group: self.id.clone(), entry }));
        self.state = State::Dead;
        self.in_flight += 1;
        turn.append(&self.id, &entries, Then::Delete { answer });
    }

    /// A deletion could not be written down: the group lives on.
    pub(super) fn undelete(&mut self, turn: &Turn<'_>) {
        self.state = State::Empty { since_ms: turn.wall_ms };
    }

    /// Tells everybody who waits in it that this is no longer the place to ask.
    pub(super) fn resign(&mut self, turn: &mut Turn<'_>) {
        self.resign_consumer(turn);
        for (id, member) in &mut self.members {
            if let Some(to) = member.joining.take() {
                turn.refuse_join(to, id, ErrorCode::NOT_COORDINATOR);
            }
            if let Some(to) = member.syncing.take() {
                turn.refuse_sync(to, ErrorCode::NOT_COORDINATOR);
            }
        }
    }

    /// Whether it has members of KIP-848, or is about to have some.
    pub(super) fn has_consumers(&self) -> bool {
        self.consumer.as_ref().is_some_and(|consumer| consumer.has_members() || consumer.is_busy())
    }

    pub(super) fn name_of_state(&self) -> &'static str {
        if let (State::Empty { .. }, Some(consumer)) = (&self.state, &self.consumer) {
            return consumer.name_of_state();
        }
        match self.state {
            State::Empty { .. } => "Empty",
            State::Preparing { .. } => "PreparingRebalance",
            State::Completing { .. } => "CompletingRebalance",
            State::Stable => "Stable",
            State::Dead => "Dead",
        }
    }

    pub(super) fn listed(&self) -> ListGroupsResponseGroup {
        let (protocol_type, group_type) = match &self.consumer {
            Some(_) => ("consumer".to_owned(), "consumer"),
            None => (self.protocol_type.clone().unwrap_or_default(), "classic"),
        };
        ListGroupsResponseGroup {
            group_id: self.id.clone(),
            protocol_type,
            group_state: self.name_of_state().to_owned(),
            group_type: group_type.to_owned(),
        }
    }

    pub(super) fn described(&self) -> DescribeGroupsResponseGroup {
        let stable = self.protocol.as_deref().filter(|_| self.state == State::Stable);
        let members = self.members.iter().map(|(id, member)| DescribeGroupsResponseMember {
            member_id: id.clone(),
            group_instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            member_metadata: member.subscription(stable),
            member_assignment: stable.map(|_| member.assignment.clone()).unwrap_or_default(),
        });
        DescribeGroupsResponseGroup {
            group_id: self.id.clone(),
            group_state: self.name_of_state().to_owned(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol_data: stable.unwrap_or_default().to_owned(),
            members: members.collect(),
            ..DescribeGroupsResponseGroup::default()
        }
    }
}

/// Whether a time has come.
fn due_at(turn: &Turn<'_>) -> impl Fn(u64) -> bool + use<> {
    let now_ns = turn.now_ns;
    move |at_ns| at_ns <= now_ns
}
