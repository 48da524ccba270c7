//! What a coordinator wants done, and what it remembers until it is.

use super::consumer::Durable;
use super::record::{Committed, Entry, Record, TopicPartition};
use super::{AppendToken, Output, Producer, ReplyTo, Response};
use bytes::Bytes;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    ConsumerGroupHeartbeatResponse, OffsetCommitResponseTopic, OffsetDeleteResponse,
};
use std::collections::{BTreeMap, VecDeque};

/// What an append is for.
#[derive(Clone, Debug)]
pub(super) enum Then {
    /// The leader's assignment of a generation becomes what the members get.
    Assign { generation: i32, assignments: BTreeMap<String, Bytes> },
    /// Offsets become what a fetch returns; the answer is none once it was given.
    Commit {
        commits: Vec<(TopicPartition, Committed)>,
        /// Whose transaction they belong to.
        producer: Option<Producer>,
        answer: Option<(ReplyTo, Vec<OffsetCommitResponseTopic>)>,
    },
    /// A static member took the place of its former life without a rebalance.
    Replace { generation: i32, member_id: String, former_leader: String, can_skip_assignment: bool },
    /// A group without members was written down: nobody waits for it.
    Emptied,
    /// Offsets are forgotten; the answer is none if they had grown too old.
    Forget { partitions: Vec<TopicPartition>, answer: Option<(ReplyTo, OffsetDeleteResponse)> },
    /// A group of KIP-848 becomes this; the answer is none once it was given, or if nobody asked.
    Consumer { next: Box<Durable>, answer: Option<(ReplyTo, ConsumerGroupHeartbeatResponse)> },
    /// A group is deleted; the answer is none once it was given, or if the group grew too old.
    Delete { answer: Option<ReplyTo> },
}

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) group: String,
    pub(super) then: Then,
}

#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) outputs: Vec<Output>,
    last_token: u64,
    /// Appends of which nothing was heard.
    pending: BTreeMap<AppendToken, Pending>,
    /// When to stop keeping somebody waiting for an append. All wait equally long, so the first is due first.
    timeouts: VecDeque<(u64, AppendToken)>,
}

impl Outbox {
    pub(super) fn reply(&mut self, to: ReplyTo, response: Response) {
        self.outputs.push(Output::Reply { to, response });
    }

    pub(super) fn append(&mut self, give_up_at_ns: u64, group: &str, entries: &[Entry], then: Then) {
        self.last_token += 1;
        let token = AppendToken(self.last_token);
        let records: Vec<Record> = entries.iter().map(Entry::to_record).collect();
        self.timeouts.push_back((give_up_at_ns, token));
        let producer = match &then {
            Then::Commit { producer, .. } => *producer,
            Then::Assign { .. }
            | Then::Replace { .. }
            | Then::Emptied
            | Then::Forget { .. }
            | Then::Consumer { .. }
            | Then::Delete { .. } => None,
        };
        self.outputs.push(Output::Append { token, records, producer });
        self.pending.insert(token, Pending { group: group.to_owned(), then });
    }

    pub(super) fn in_flight(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn take(&mut self, token: AppendToken) -> Option<Pending> {
        let pending = self.pending.remove(&token);
        // What is at the front and done would keep a wake-up that nobody needs.
        while self.timeouts.front().is_some_and(|(_, token)| !self.pending.contains_key(token)) {
            self.timeouts.pop_front();
        }
        pending
    }

    pub(super) fn next_timeout_ns(&self) -> Option<u64> {
        self.timeouts.front().map(|(at_ns, _)| *at_ns)
    }

    /// Takes out the first append that somebody waited for long enough. It may still come true: give it back.
    pub(super) fn take_timed_out(&mut self, now_ns: u64) -> Option<(AppendToken, Pending)> {
        while let Some((at_ns, token)) = self.timeouts.front().copied()
            && at_ns <= now_ns
        {
            self.timeouts.pop_front();
            if let Some(pending) = self.pending.remove(&token) {
                return Some((token, pending));
            }
        }
        None
    }

    pub(super) fn give_back(&mut self, token: AppendToken, pending: Pending) {
        self.pending.insert(token, pending);
    }

    /// Everything that is pending, to be answered when the coordinator resigns.
    pub(super) fn take_all(&mut self) -> Vec<Pending> {
        self.timeouts.clear();
        std::mem::take(&mut self.pending).into_values().collect()
    }
}

/// What a client that commits offsets is told of an append that failed.
/// Source: Kafka's GroupMetadataManager, maybeConvertOffsetCommitError; CoordinatorOperationExceptionHelper for 7.
pub(super) fn commit_error(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE => {
            ErrorCode::INVALID_COMMIT_OFFSET_SIZE
        }
        code => unavailable(code),
    }
}

/// What members are told when their group could not be written down. Source: Kafka's GroupMetadataManager, storeGroup.
pub(super) fn store_error(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::REQUEST_TIMED_OUT => ErrorCode::REBALANCE_IN_PROGRESS,
        ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE => ErrorCode::UNKNOWN_SERVER_ERROR,
        code => unavailable(code),
    }
}

/// What a client of a coordinator is told of an append that failed, so that it asks again or elsewhere.
pub(crate) fn unavailable(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        | ErrorCode::NOT_ENOUGH_REPLICAS
        | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND
        | ErrorCode::REQUEST_TIMED_OUT => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::KAFKA_STORAGE_ERROR => ErrorCode::NOT_COORDINATOR,
        code => code,
    }
}
