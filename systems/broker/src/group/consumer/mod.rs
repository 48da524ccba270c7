//! The consumer groups of KIP-848: members say what they want in heartbeats, the coordinator decides who owns what.
//!
//! ```text
//! heartbeat -> 1. who it is and what it wants           changes the group's epoch, if anything is new
//!              2. a target, if the epoch is newer        who is to own what
//!              3. the member comes nearer to its target  gives up first, then takes what is free
//!              4. what changed goes to the log           the answer waits until it is committed
//! ```
//!
//! A group has at most one change on its way to the log, and everything is decided by what is committed: a heartbeat that
//! would change something while another change is on its way waits for it. So nothing has to be taken back if the log
//! refuses a change: the group is as it was, and who asked is told to ask again.
//!
//! A partition is in a member's hands from when the log has committed that it is assigned to it until the log has committed
//! that the member gave it up, or is no member any more.
//!
//! Left out: groups of members of both protocols. A member of one protocol is turned away as long as there are members of the
//! other; an empty group changes its protocol, and keeps its offsets.
//!
//! Source: KIP-848; Kafka's GroupMetadataManager for which error is given when.

mod assign;
mod coordinate;
mod describe;
mod reconcile;
mod record;
mod state;
mod step;
mod topics;

pub(super) use record::ConsumerEntry;
#[cfg(test)]
pub(super) use record::tests::consumer_entry;
pub(super) use state::Durable;
pub(super) use step::{JOIN, OWN_ID_SINCE};
pub(super) use topics::KnownTopics;
pub use topics::Topics;

use super::outbox::{Then, unavailable};
use super::record::Entry;
use super::state::{Group, State, Turn};
use super::{Caller, ReplyTo, Response};
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use state::Holding;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use topics::Patterns;

/// The pause before a member whose time is up is taken out again, if the log refused that.
const RETRY_MS: u64 = 1000;

/// A heartbeat that is not refused or answered yet.
#[derive(Clone, Debug)]
struct Heard {
    caller: Caller,
    request: ConsumerGroupHeartbeatRequest,
    /// Until when it waits for its turn.
    until_ns: u64,
}

/// Why a heartbeat is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Refusal {
    code: ErrorCode,
    why: String,
}

fn refuse<T>(code: ErrorCode, why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { code, why: why.into() })
}

/// A group of KIP-848 as its coordinator works with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Consumer {
    durable: Durable,
    /// Whether a change is on its way to the log.
    is_changing: bool,
    waiting: VecDeque<Heard>,
    /// When members' sessions end.
    sessions: BTreeMap<String, u64>,
    /// What members were told to give up, and when they must have done it.
    revocations: BTreeMap<String, (Arc<Holding>, u64)>,
    /// Nobody is taken out before.
    not_before_ns: u64,
    /// Whether the log has the group as one of the classic protocol.
    replaces_classic: bool,
    patterns: Patterns,
    /// The topics that the fingerprint was last compared with.
    compared_with: Option<u64>,
}

impl Consumer {
    pub(super) fn has_members(&self) -> bool {
        !self.durable.members.is_empty()
    }

    /// Whether something is under way that may give it members.
    pub(super) fn is_busy(&self) -> bool {
        self.is_changing || !self.waiting.is_empty()
    }

    /// The topics that its members want.
    pub(super) fn subscribed(&mut self, topics: &KnownTopics) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for member in self.durable.members.values() {
            all.append(&mut self.patterns.subscribed(&member.subscription, topics));
        }
        all
    }

    /// Entries that remove it from the log.
    pub(super) fn tombstones(&self) -> Vec<ConsumerEntry> {
        Durable::default().since(&self.durable)
    }

    /// Whether the log knows nothing of it.
    fn is_unwritten(&self) -> bool {
        self.durable == Durable::default()
    }

    /// Members that were loaded have a whole session to show up.
    pub(super) fn wake_up(&mut self, turn: &Turn<'_>) {
        self.time_sessions(turn);
        self.time_revocations(turn);
    }

    /// Everybody has a session: also who did not get its answer.
    fn time_sessions(&mut self, turn: &Turn<'_>) {
        let members = &self.durable.members;
        self.sessions.retain(|id, _| members.contains_key(id));
        let until_ns = turn.after_ms(turn.config.consumer_session_timeout_ms);
        for id in members.keys() {
            self.sessions.entry(id.clone()).or_insert(until_ns);
        }
    }

    fn touch(&mut self, member_id: &str, turn: &Turn<'_>) {
        let until_ns = turn.after_ms(turn.config.consumer_session_timeout_ms);
        self.sessions.insert(member_id.to_owned(), until_ns);
    }

    /// Members that have begun to give up have their rebalance timeout for it.
    fn time_revocations(&mut self, turn: &Turn<'_>) {
        let mut former = std::mem::take(&mut self.revocations);
        for (id, member) in self.durable.members.iter().filter(|(_, it)| !it.holding.revoking.is_empty()) {
            let timed = former.remove(id).filter(|(holding, _)| *holding == member.holding);
            let timeout_ms = u64::try_from(member.subscription.rebalance_timeout_ms).unwrap_or(0);
            let new = || (Arc::clone(&member.holding), turn.after_ms(timeout_ms));
            self.revocations.insert(id.clone(), timed.unwrap_or_else(new));
        }
    }

    /// When something is to happen by itself.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        let of_waiting = self.waiting.iter().map(|heard| heard.until_ns).min();
        let of_members = if self.is_changing {
            None
        } else {
            let all = self.sessions.values().chain(self.revocations.values().map(|(_, at_ns)| at_ns));
            all.min().map(|at_ns| (*at_ns).max(self.not_before_ns))
        };
        [of_waiting, of_members].into_iter().flatten().min()
    }

    /// Which members' time is up.
    fn expired(&self, now_ns: u64) -> Vec<String> {
        if self.is_changing || self.not_before_ns > now_ns {
            return Vec::new();
        }
        let revocations = self.revocations.iter().map(|(id, (_, at_ns))| (id, at_ns));
        let all = self.sessions.iter().chain(revocations);
        let mut expired: Vec<String> =
            all.filter(|(_, at_ns)| **at_ns <= now_ns).map(|(id, _)| id.clone()).collect();
        expired.sort();
        expired.dedup();
        expired
    }
}

impl Group {
    /// Takes over what the log says.
    pub(super) fn load_consumer(&mut self, entry: ConsumerEntry) {
        if matches!(entry, ConsumerEntry::Group(Some(_))) && !self.members.is_empty() {
            // It changed its protocol since.
            self.load(None);
        }
        let mut consumer = self.consumer.take().unwrap_or_default();
        consumer.durable.apply(entry);
        self.consumer = Some(consumer).filter(|consumer| !consumer.is_unwritten());
    }

    /// Takes in a heartbeat, which is answered at once if it changes nothing, and else once the log has what it changed.
    pub(super) fn consumer_heartbeat(
        &mut self,
        caller: &Caller,
        request: ConsumerGroupHeartbeatRequest,
        topics: &KnownTopics,
        turn: &mut Turn<'_>,
    ) {
        let until_ns = turn.after_ms(turn.config.commit_timeout_ms);
        let heard = Heard { caller: caller.clone(), request, until_ns };
        if self.state == State::Dead {
            turn.refuse_consumer(caller.reply_to, ErrorCode::COORDINATOR_NOT_AVAILABLE, None);
            return;
        }
        if self.consumer.is_none() {
            if !matches!(self.state, State::Empty { .. }) {
                let why = format!("group {} is not a consumer group", self.id);
                turn.refuse_consumer(caller.reply_to, ErrorCode::GROUP_ID_NOT_FOUND, Some(why));
                return;
            }
            self.consumer =
                Some(Box::new(Consumer { replaces_classic: self.generation > 0, ..Consumer::default() }));
        }
        let consumer = self.consumer.as_mut().expect("just made");
        if let Some(response) = consumer.beat(&heard.request, topics, turn) {
            turn.outbox.reply(caller.reply_to, Response::ConsumerGroupHeartbeat(response));
        } else if consumer.is_busy() {
            consumer.wait(heard, turn);
        } else {
            self.change(heard, topics, turn);
        }
        self.drop_unwritten_consumer();
    }

    /// Works on a heartbeat that may change something, when nothing is changing.
    fn change(&mut self, heard: Heard, topics: &KnownTopics, turn: &mut Turn<'_>) {
        let consumer = self.consumer.as_mut().expect("the heartbeat's group has one");
        let to = heard.caller.reply_to;
        match consumer.step(&heard, topics, turn.config) {
            Err(Refusal { code, why }) => turn.refuse_consumer(to, code, Some(why)),
            Ok((next, response)) => {
                let answer = Some((to, response));
                if next == consumer.durable {
                    consumer.compared_with = Some(topics.version);
                    self.answer_consumer(answer, turn);
                } else {
                    self.write_consumer(next, answer, turn);
                }
            }
        }
    }

    fn write_consumer(
        &mut self,
        next: Durable,
        answer: Option<(ReplyTo, ConsumerGroupHeartbeatResponse)>,
        turn: &mut Turn<'_>,
    ) {
        let consumer = self.consumer.as_mut().expect("who changes it has it");
        let group = || self.id.clone();
        let mut entries = Vec::new();
        if consumer.replaces_classic {
            entries.push(Entry::Group { group: group(), snapshot: None });
        }
        let changes = next.since(&consumer.durable).into_iter();
        entries.extend(changes.map(|entry| Entry::Consumer { group: group(), entry }));
        consumer.is_changing = true;
        self.in_flight += 1;
        turn.append(&self.id, &entries, Then::Consumer { next: Box::new(next), answer });
    }

    /// The log took a change, or refused it.
    pub(super) fn consumer_changed(
        &mut self,
        next: Durable,
        answer: Option<(ReplyTo, ConsumerGroupHeartbeatResponse)>,
        outcome: Result<(), ErrorCode>,
        topics: &KnownTopics,
        turn: &mut Turn<'_>,
    ) {
        let Some(consumer) = self.consumer.as_mut() else { return };
        consumer.is_changing = false;
        match outcome {
            Ok(()) => {
                consumer.durable = next;
                consumer.replaces_classic = false;
                consumer.compared_with = None;
                consumer.time_sessions(turn);
                consumer.time_revocations(turn);
                // What was left of its time with the classic protocol.
                (self.generation, self.protocol_type, self.protocol, self.leader) = (0, None, None, None);
                self.state = State::Empty { since_ms: turn.wall_ms };
                self.answer_consumer(answer, turn);
            }
            Err(code) => {
                consumer.not_before_ns = turn.after_ms(RETRY_MS);
                if let Some((to, _)) = answer {
                    turn.refuse_consumer(to, consumer_error(code), None);
                }
            }
        }
        while let Some(consumer) = self.consumer.as_mut()
            && !consumer.is_changing
            && let Some(heard) = consumer.waiting.pop_front()
        {
            self.change(heard, topics, turn);
        }
        self.drop_unwritten_consumer();
    }

    fn answer_consumer(
        &mut self,
        answer: Option<(ReplyTo, ConsumerGroupHeartbeatResponse)>,
        turn: &mut Turn<'_>,
    ) {
        let Some((to, response)) = answer else { return };
        if let (Some(consumer), Some(member_id)) = (&mut self.consumer, &response.member_id)
            && consumer.durable.members.contains_key(member_id)
        {
            consumer.touch(member_id, turn);
        }
        turn.outbox.reply(to, Response::ConsumerGroupHeartbeat(response));
    }

    /// A group that was to get its first member, and did not, is none of KIP-848.
    fn drop_unwritten_consumer(&mut self) {
        if self.consumer.as_ref().is_some_and(|it| it.is_unwritten() && !it.is_busy()) {
            self.consumer = None;
        }
    }

    /// Does what is due: members that were not heard of, or that do not give up what they should, are members no more.
    pub(super) fn tick_consumer(&mut self, topics: &KnownTopics, turn: &mut Turn<'_>) {
        let Some(consumer) = self.consumer.as_mut() else { return };
        let now_ns = turn.now_ns;
        while let Some(at) = consumer.waiting.iter().position(|heard| heard.until_ns <= now_ns) {
            let heard = consumer.waiting.remove(at).expect("just found");
            turn.refuse_consumer(heard.caller.reply_to, ErrorCode::COORDINATOR_NOT_AVAILABLE, None);
        }
        let expired = consumer.expired(now_ns);
        if !expired.is_empty() {
            let next = consumer.without(&expired, topics);
            if next == consumer.durable {
                consumer.sessions.retain(|id, _| !expired.contains(id));
                consumer.revocations.retain(|id, _| !expired.contains(id));
            } else {
                self.write_consumer(next, None, turn);
            }
        }
        self.drop_unwritten_consumer();
    }

    /// The classic protocol takes over a group without members.
    pub(super) fn leave_consumer_protocol(&mut self, turn: &mut Turn<'_>) {
        let Some(consumer) = self.consumer.take() else { return };
        let entries: Vec<Entry> = consumer
            .tombstones()
            .into_iter()
            .map(|entry| Entry::Consumer { group: self.id.clone(), entry })
            .collect();
        self.in_flight += 1;
        turn.append(&self.id, &entries, Then::Emptied);
    }

    /// Tells those who wait for their turn to look for the new coordinator.
    pub(super) fn resign_consumer(&mut self, turn: &mut Turn<'_>) {
        for heard in self.consumer.iter_mut().flat_map(|consumer| consumer.waiting.drain(..)) {
            turn.refuse_consumer(heard.caller.reply_to, ErrorCode::NOT_COORDINATOR, None);
        }
    }
}

impl Consumer {
    /// Lets a heartbeat wait until the change that is on its way is through.
    fn wait(&mut self, heard: Heard, turn: &mut Turn<'_>) {
        let member_id = &heard.request.member_id;
        let is_same = |it: &Heard| !member_id.is_empty() && it.request.member_id == *member_id;
        if let Some(at) = self.waiting.iter().position(is_same) {
            // The client gave up on it, or it would not have asked again.
            let former = self.waiting.remove(at).expect("just found");
            turn.refuse_consumer(former.caller.reply_to, ErrorCode::COORDINATOR_NOT_AVAILABLE, None);
        }
        // Each member asks one thing at a time.
        if self.waiting.len() >= turn.config.max_members {
            turn.refuse_consumer(heard.caller.reply_to, ErrorCode::COORDINATOR_NOT_AVAILABLE, None);
            return;
        }
        if self.durable.members.contains_key(member_id) {
            let member_id = member_id.clone();
            self.touch(&member_id, turn);
        }
        self.waiting.push_back(heard);
    }
}

/// What a member is told whose change could not be written down.
pub(super) fn consumer_error(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE => ErrorCode::UNKNOWN_SERVER_ERROR,
        code => unavailable(code),
    }
}

impl Turn<'_> {
    pub(super) fn refuse_consumer(&mut self, to: ReplyTo, code: ErrorCode, why: Option<String>) {
        let response = ConsumerGroupHeartbeatResponse {
            error_code: code,
            error_message: why,
            ..ConsumerGroupHeartbeatResponse::default()
        };
        self.outbox.reply(to, Response::ConsumerGroupHeartbeat(response));
    }
}

#[cfg(test)]
mod tests;
