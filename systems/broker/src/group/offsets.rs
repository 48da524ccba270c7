//! Committed offsets of one group.
//!
//! An offset counts once its record is committed to the log, and in the log's order. Between the append and that
//! moment the partition is unstable: a fetch that asks for stability is told to come again, any other gets what was
//! committed before. Source: KIP-447.
//!
//! Offsets of a transaction are staged once their record is committed, and the partition stays unstable until a marker
//! ends the transaction. Then they count, in the place that their records have in the log: a plain commit that came
//! after them is newer, though they count later.

use super::GroupConfig;
use super::outbox::{Then, commit_error};
use super::record::{Committed, Entry, NO_TIMESTAMP, TopicPartition};
use super::state::{Group, State, Turn};
use super::{AppendToken, Producer, ReplyTo, Response};
use crate::defect::DefectKind;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
    OffsetCommitResponsePartition, OffsetCommitResponseTopic, OffsetFetchRequest, OffsetFetchRequestGroup,
    OffsetFetchRequestTopic, OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponseTopic, TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic, TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
};
use riprap_protocol::records::TxnResult;
use std::collections::BTreeMap;

/// What a fetch returns where nothing was committed.
const NO_OFFSET: i64 = -1;
const NO_LEADER_EPOCH: i32 = -1;

#[derive(Clone, Debug, Default)]
pub(super) struct Offsets {
    committed: BTreeMap<TopicPartition, (Order, Committed)>,
    /// Of open transactions, by producer id.
    staged: BTreeMap<i64, BTreeMap<TopicPartition, (Order, Committed)>>,
    /// How many commits of transactions are on their way to the log.
    to_stage: usize,
    /// How many commits of a partition are on their way to the log.
    pending: BTreeMap<TopicPartition, usize>,
}

/// The place of a commit in the log: what was loaded lies before all else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Order {
    /// The number of the record among those loaded.
    Loaded(u64),
    /// The append that it came with.
    Appended(AppendToken),
}

impl Offsets {
    pub(super) fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending.is_empty() && !self.has_transactional()
    }

    /// Whether a transaction has offsets here, or on their way here, that nobody has decided about. Who forgets the
    /// group then forgets them too, and what is consumed next is consumed twice (KAFKA-19163).
    pub(super) fn has_transactional(&self) -> bool {
        self.to_stage > 0 || !self.staged.is_empty()
    }

    /// Takes over what the log says; `number` is the record's among those loaded, and the producer is the one whose
    /// transaction it belongs to.
    pub(super) fn load(
        &mut self,
        partition: TopicPartition,
        committed: Option<Committed>,
        number: u64,
        producer_id: Option<i64>,
    ) {
        let order = Order::Loaded(number);
        match (committed, producer_id) {
            (Some(committed), Some(id)) => {
                self.staged.entry(id).or_default().insert(partition, (order, committed));
            }
            (Some(committed), None) => {
                self.committed.insert(partition, (order, committed));
            }
            (None, _) => {
                self.committed.remove(&partition);
            }
        }
    }

    /// Whether a producer's transaction has offsets here.
    pub(super) fn has_staged(&self, producer_id: i64) -> bool {
        self.staged.contains_key(&producer_id)
    }

    /// A transaction ended: what it staged counts, or never did. It is kept as if it had been committed now; none: as if
    /// it had been when it was staged.
    pub(super) fn end_transaction(&mut self, producer_id: i64, result: TxnResult, now_ms: Option<i64>) {
        let staged = self.staged.remove(&producer_id).unwrap_or_default();
        if result == TxnResult::Commit {
            for (partition, (order, mut committed)) in staged {
                committed.at_ms = now_ms.unwrap_or(committed.at_ms);
                self.take_in(partition, order, committed);
            }
        }
    }

    /// Gives a time to what was loaded without one.
    pub(super) fn date(&mut self, now_ms: i64) {
        let staged = self.staged.values_mut().flat_map(BTreeMap::values_mut);
        for (_, committed) in self.committed.values_mut().chain(staged) {
            if committed.at_ms == NO_TIMESTAMP {
                committed.at_ms = now_ms;
            }
        }
    }

    /// What is committed, and when, but for what is about to change.
    pub(super) fn settled(&self) -> impl Iterator<Item = (&TopicPartition, i64)> {
        let is_settled = |partition: &TopicPartition| {
            let is_staged = self.staged.values().any(|staged| staged.contains_key(partition));
            !is_staged && !self.pending.contains_key(partition)
        };
        let settled = self.committed.iter().filter(move |(partition, _)| is_settled(partition));
        settled.map(|(partition, (_, committed))| (partition, committed.at_ms))
    }

    pub(super) fn contains(&self, partition: &TopicPartition) -> bool {
        self.committed.contains_key(partition) || self.pending.contains_key(partition)
    }

    pub(super) fn count(&self) -> usize {
        self.committed.len() + self.pending.len()
    }

    /// The log removed offsets of partitions: those that came before.
    pub(super) fn forget(&mut self, token: AppendToken, partitions: &[TopicPartition]) {
        for partition in partitions {
            if self.committed.get(partition).is_some_and(|(order, _)| *order < Order::Appended(token)) {
                self.committed.remove(partition);
            }
        }
    }

    fn take_in(&mut self, partition: TopicPartition, order: Order, committed: Committed) {
        if self.committed.get(&partition).is_none_or(|(known, _)| *known <= order) {
            self.committed.insert(partition, (order, committed));
        }
    }

    /// Entries that remove all that is in the log, or on its way there.
    pub(super) fn tombstones(&self, group: &str) -> Vec<Entry> {
        let mut partitions: Vec<&TopicPartition> = self.committed.keys().chain(self.pending.keys()).collect();
        partitions.sort();
        partitions.dedup();
        let tombstone = |partition: &TopicPartition| Entry::Offset {
            group: group.to_owned(),
            partition: partition.clone(),
            committed: None,
        };
        partitions.into_iter().map(tombstone).collect()
    }

    fn has_room_for(&self, partition: &TopicPartition, max_offsets: usize) -> bool {
        let is_known = self.committed.contains_key(partition) || self.pending.contains_key(partition);
        let staged: usize = self.staged.values().map(BTreeMap::len).sum();
        is_known || self.committed.len() + self.pending.len() + staged < max_offsets
    }

    fn settle(
        &mut self,
        token: AppendToken,
        commits: Vec<(TopicPartition, Committed)>,
        producer: Option<Producer>,
        is_committed: bool,
    ) {
        self.to_stage -= usize::from(producer.is_some());
        let order = Order::Appended(token);
        for (partition, committed) in commits {
            if let Some(count) = self.pending.get_mut(&partition) {
                *count -= 1;
                if *count == 0 {
                    self.pending.remove(&partition);
                }
            }
            match producer {
                _ if !is_committed => {}
                None => self.take_in(partition, order, committed),
                Some(producer) => {
                    self.staged.entry(producer.id).or_default().insert(partition, (order, committed));
                }
            }
        }
    }

    fn fetch_one(&self, partition: &TopicPartition, require_stable: bool) -> OffsetFetchResponsePartition {
        let index = partition.partition;
        let nothing = OffsetFetchResponsePartition {
            index,
            committed_offset: NO_OFFSET,
            committed_leader_epoch: NO_LEADER_EPOCH,
            metadata: Some(String::new()),
            error_code: ErrorCode::NONE,
        };
        let is_staged = || self.staged.values().any(|staged| staged.contains_key(partition));
        if require_stable && (self.pending.contains_key(partition) || is_staged()) {
            return OffsetFetchResponsePartition { error_code: ErrorCode::UNSTABLE_OFFSET_COMMIT, ..nothing };
        }
        match self.committed.get(partition) {
            Some((_, committed)) => OffsetFetchResponsePartition {
                index,
                committed_offset: committed.offset,
                committed_leader_epoch: committed.leader_epoch,
                metadata: Some(committed.metadata.clone()),
                error_code: ErrorCode::NONE,
            },
            None => nothing,
        }
    }

    /// What is committed for these partitions, or for all that have something.
    pub(super) fn fetch(
        &self,
        topics: Option<&[OffsetFetchRequestTopic]>,
        require_stable: bool,
    ) -> Vec<OffsetFetchResponseTopic> {
        let Some(topics) = topics else { return self.fetch_all(require_stable) };
        let fetch = |topic: &OffsetFetchRequestTopic| {
            let partitions = topic.partitions.iter().map(|partition| {
                let partition = TopicPartition { topic: topic.name.clone(), partition: *partition };
                self.fetch_one(&partition, require_stable)
            });
            OffsetFetchResponseTopic { name: topic.name.clone(), partitions: partitions.collect() }
        };
        topics.iter().map(fetch).collect()
    }

    fn fetch_all(&self, require_stable: bool) -> Vec<OffsetFetchResponseTopic> {
        let mut topics: BTreeMap<&str, Vec<OffsetFetchResponsePartition>> = BTreeMap::new();
        for partition in self.committed.keys() {
            topics.entry(&partition.topic).or_default().push(self.fetch_one(partition, require_stable));
        }
        let topic =
            |(name, partitions): (&str, _)| OffsetFetchResponseTopic { name: name.to_owned(), partitions };
        topics.into_iter().map(topic).collect()
    }
}

impl Group {
    /// Takes in a commit, which is answered when its records are committed to the log, or at once if nothing of it
    /// is accepted. With a producer it belongs to that one's transaction.
    pub(super) fn commit(
        &mut self,
        to: ReplyTo,
        request: OffsetCommitRequest,
        producer: Option<Producer>,
        turn: &mut Turn<'_>,
    ) {
        let generation = request.generation_id_or_member_epoch;
        let (member_id, instance_id) = (&request.member_id, request.group_instance_id.as_deref());
        if let Err(code) =
            self.check_commit(generation, member_id, instance_id, producer.is_some(), turn.config)
        {
            answer_commit(to, commit_answer(&request.topics, code), producer, turn);
            return;
        }
        // A member that commits lives.
        self.touch(member_id, turn.now_ns);
        let mut answer = commit_answer(&request.topics, ErrorCode::NONE);
        let mut commits = Vec::new();
        for (topic, answered) in request.topics.into_iter().zip(&mut answer) {
            for (asked, answered) in topic.partitions.into_iter().zip(&mut answered.partitions) {
                let partition = TopicPartition { topic: topic.name.clone(), partition: asked.index };
                let metadata = asked.committed_metadata.unwrap_or_default();
                if metadata.len() > turn.config.max_offset_metadata_bytes {
                    answered.error_code = ErrorCode::OFFSET_METADATA_TOO_LARGE;
                } else if !self.offsets.has_room_for(&partition, turn.config.max_offsets) {
                    answered.error_code = ErrorCode::POLICY_VIOLATION;
                } else {
                    *self.offsets.pending.entry(partition.clone()).or_default() += 1;
                    let (offset, leader_epoch) = (asked.committed_offset, asked.committed_leader_epoch);
                    let at_ms = turn.wall_ms;
                    commits.push((partition, Committed { offset, leader_epoch, metadata, at_ms }));
                }
            }
        }
        if commits.is_empty() {
            answer_commit(to, answer, producer, turn);
            return;
        }
        self.offsets.to_stage += usize::from(producer.is_some());
        let entry = |(partition, committed): &(TopicPartition, Committed)| Entry::Offset {
            group: self.id.clone(),
            partition: partition.clone(),
            committed: Some(committed.clone()),
        };
        let entries: Vec<Entry> = commits.iter().map(entry).collect();
        self.in_flight += 1;
        turn.append(&self.id, &entries, Then::Commit { commits, producer, answer: Some((to, answer)) });
    }

    /// Who may commit: members of this generation, and anybody as long as the group has no members. In a transaction,
    /// also who does not say that it is a member: a producer of before KIP-447 is fenced by its epoch alone
    /// (KAFKA-18060). Who says so is held to it, or what a former owner of partitions consumed would count.
    fn check_commit(
        &self,
        generation: i32,
        member_id: &str,
        instance_id: Option<&str>,
        is_transactional: bool,
        config: &GroupConfig,
    ) -> Result<(), ErrorCode> {
        let is_anybody = generation < 0 && member_id.is_empty() && instance_id.is_none();
        let is_empty = matches!(self.state, State::Empty { .. }) && !self.has_consumers();
        if self.state == State::Dead {
            Err(ErrorCode::COORDINATOR_NOT_AVAILABLE)
        } else if config.defect == Some(DefectKind::StaleGenerationOwner) {
            // DEFECT stale-generation-owner: whoever says that it is a member, in whatever generation, commits.
            Ok(())
        } else if generation < 0 && is_empty || is_transactional && is_anybody {
            Ok(())
        } else if let Some(consumer) = &self.consumer {
            consumer.check_member(member_id, generation).map_err(|code| match code {
                // Producers know no other word for it. Source: KIP-848, "TxnOffsetCommit API".
                ErrorCode::STALE_MEMBER_EPOCH if is_transactional => ErrorCode::ILLEGAL_GENERATION,
                code => code,
            })
        } else if generation >= 0 || !member_id.is_empty() || instance_id.is_some() {
            self.check_member(member_id, instance_id)?;
            self.check_generation(generation)?;
            match self.state {
                // The member knows of the new generation and does not own anything in it yet.
                State::Completing { .. } if !is_transactional => Err(ErrorCode::REBALANCE_IN_PROGRESS),
                // While others join, a member's last commit of the old generation is still welcome.
                _ => Ok(()),
            }
        } else {
            Err(ErrorCode::UNKNOWN_MEMBER_ID)
        }
    }

    /// The log took a commit, or refused it.
    pub(super) fn committed(
        &mut self,
        token: AppendToken,
        commits: Vec<(TopicPartition, Committed)>,
        producer: Option<Producer>,
        answer: Option<(ReplyTo, Vec<OffsetCommitResponseTopic>)>,
        outcome: Result<(), ErrorCode>,
        turn: &mut Turn<'_>,
    ) {
        self.offsets.settle(token, commits, producer, outcome.is_ok());
        if let Some((to, answer)) = answer {
            answer_settled_commit(to, answer, producer, outcome, turn);
        }
    }
}

/// Answers a commit by what became of its records.
pub(super) fn answer_settled_commit(
    to: ReplyTo,
    mut answer: Vec<OffsetCommitResponseTopic>,
    producer: Option<Producer>,
    outcome: Result<(), ErrorCode>,
    turn: &mut Turn<'_>,
) {
    if let Err(code) = outcome {
        // What was refused at once keeps its own reason.
        let accepted = answer.iter_mut().flat_map(|topic| &mut topic.partitions);
        for partition in accepted.filter(|partition| partition.error_code.is_none()) {
            partition.error_code = commit_error(code);
        }
    }
    answer_commit(to, answer, producer, turn);
}

fn answer_commit(
    to: ReplyTo,
    topics: Vec<OffsetCommitResponseTopic>,
    producer: Option<Producer>,
    turn: &mut Turn<'_>,
) {
    turn.outbox.reply(to, commit_response(topics, producer));
}

/// The answer to a commit, in a transaction or not.
pub(super) fn commit_response(
    topics: Vec<OffsetCommitResponseTopic>,
    producer: Option<Producer>,
) -> Response {
    if producer.is_none() {
        return Response::OffsetCommit(OffsetCommitResponse { throttle_time_ms: 0, topics });
    }
    let partition = |it: OffsetCommitResponsePartition| TxnOffsetCommitResponsePartition {
        index: it.index,
        error_code: it.error_code,
    };
    let topic = |it: OffsetCommitResponseTopic| TxnOffsetCommitResponseTopic {
        name: it.name,
        partitions: it.partitions.into_iter().map(partition).collect(),
    };
    let topics = topics.into_iter().map(topic).collect();
    Response::TxnOffsetCommit(TxnOffsetCommitResponse { throttle_time_ms: 0, topics })
}

/// What a transaction commits, as a commit without one.
pub(super) fn plain_commit(request: TxnOffsetCommitRequest) -> OffsetCommitRequest {
    let partition = |it: TxnOffsetCommitRequestPartition| OffsetCommitRequestPartition {
        index: it.index,
        committed_offset: it.committed_offset,
        committed_leader_epoch: it.committed_leader_epoch,
        committed_metadata: it.committed_metadata,
    };
    let topic = |it: TxnOffsetCommitRequestTopic| OffsetCommitRequestTopic {
        name: it.name,
        partitions: it.partitions.into_iter().map(partition).collect(),
    };
    OffsetCommitRequest {
        group_id: request.group_id,
        generation_id_or_member_epoch: request.generation_id,
        member_id: request.member_id,
        group_instance_id: request.group_instance_id,
        topics: request.topics.into_iter().map(topic).collect(),
        ..OffsetCommitRequest::default()
    }
}

/// The answer that gives every partition this code.
pub(super) fn commit_answer(
    topics: &[OffsetCommitRequestTopic],
    code: ErrorCode,
) -> Vec<OffsetCommitResponseTopic> {
    let answer = |topic: &OffsetCommitRequestTopic| {
        let partition = |index: i32| OffsetCommitResponsePartition { index, error_code: code };
        OffsetCommitResponseTopic {
            name: topic.name.clone(),
            partitions: topic.partitions.iter().map(|asked| partition(asked.index)).collect(),
        }
    };
    topics.iter().map(answer).collect()
}

/// The groups that a fetch asks for, whichever version it has.
pub fn offset_fetch_groups(request: OffsetFetchRequest, api_version: i16) -> Vec<OffsetFetchRequestGroup> {
    if api_version >= SEVERAL_GROUPS_SINCE {
        return request.groups;
    }
    let group = OffsetFetchRequestGroup {
        group_id: request.group_id,
        topics: request.topics,
        ..OffsetFetchRequestGroup::default()
    };
    vec![group]
}

/// The answer to a fetch from the answers of its groups, in the order of [`offset_fetch_groups`].
pub fn offset_fetch_response(
    mut groups: Vec<OffsetFetchResponseGroup>,
    api_version: i16,
) -> OffsetFetchResponse {
    if api_version >= SEVERAL_GROUPS_SINCE {
        return OffsetFetchResponse { groups, ..OffsetFetchResponse::default() };
    }
    let OffsetFetchResponseGroup { topics, error_code, .. } =
        if groups.is_empty() { OffsetFetchResponseGroup::default() } else { groups.remove(0) };
    OffsetFetchResponse { topics, error_code, ..OffsetFetchResponse::default() }
}

/// The answer for a group that this broker cannot look into. Versions 0 and 1 have no error of the whole answer: each
/// partition carries it.
pub fn offset_fetch_error(
    request: &OffsetFetchRequestGroup,
    error_code: ErrorCode,
) -> OffsetFetchResponseGroup {
    let partition = |index: &i32| OffsetFetchResponsePartition {
        index: *index,
        committed_offset: NO_OFFSET,
        committed_leader_epoch: NO_LEADER_EPOCH,
        metadata: Some(String::new()),
        error_code,
    };
    let topics = request.topics.iter().flatten().map(|topic| OffsetFetchResponseTopic {
        name: topic.name.clone(),
        partitions: topic.partitions.iter().map(partition).collect(),
    });
    OffsetFetchResponseGroup { group_id: request.group_id.clone(), topics: topics.collect(), error_code }
}

/// First version of OffsetCommit whose generation may be a member's epoch. Source: KIP-848.
pub(super) const MEMBER_EPOCH_SINCE: i16 = 9;

/// First version of OffsetFetch that asks for several groups. Source: KIP-709.
const SEVERAL_GROUPS_SINCE: i16 = 8;
