//! Committed offsets of one group.
//!
//! An offset counts once its record is committed to the log, and in the log's order. Between the append and that
//! moment the partition is unstable: a fetch that asks for stability is told to come again, any other gets what was
//! committed before. Source: KIP-447.

use super::outbox::{Then, commit_error};
use super::record::{Committed, Entry, TopicPartition};
use super::state::{Group, State, Turn};
use super::{AppendToken, ReplyTo, Response};
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    OffsetCommitRequest, OffsetCommitRequestTopic, OffsetCommitResponse, OffsetCommitResponsePartition,
    OffsetCommitResponseTopic, OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic,
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponseTopic,
};
use std::collections::BTreeMap;

/// What a fetch returns where nothing was committed.
const NO_OFFSET: i64 = -1;
const NO_LEADER_EPOCH: i32 = -1;

#[derive(Clone, Debug, Default)]
pub(super) struct Offsets {
    committed: BTreeMap<TopicPartition, (Order, Committed)>,
    /// How many commits of a partition are on their way to the log.
    pending: BTreeMap<TopicPartition, usize>,
}

/// The place of a commit in the log, as far as it matters: none for what was loaded, which lies before all else.
type Order = Option<AppendToken>;

impl Offsets {
    pub(super) fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending.is_empty()
    }

    /// Takes over what the log says.
    pub(super) fn load(&mut self, partition: TopicPartition, committed: Option<Committed>) {
        match committed {
            Some(committed) => self.committed.insert(partition, (None, committed)),
            None => self.committed.remove(&partition),
        };
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
        is_known || self.committed.len() + self.pending.len() < max_offsets
    }

    fn settle(&mut self, token: AppendToken, commits: Vec<(TopicPartition, Committed)>, is_committed: bool) {
        for (partition, committed) in commits {
            if let Some(count) = self.pending.get_mut(&partition) {
                *count -= 1;
                if *count == 0 {
                    self.pending.remove(&partition);
                }
            }
            let is_newer = self.committed.get(&partition).is_none_or(|(order, _)| *order <= Some(token));
            if is_committed && is_newer {
                self.committed.insert(partition, (Some(token), committed));
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
        if require_stable && self.pending.contains_key(partition) {
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
    /// is accepted.
    pub(super) fn commit(&mut self, to: ReplyTo, request: OffsetCommitRequest, turn: &mut Turn<'_>) {
        let generation = request.generation_id_or_member_epoch;
        let (member_id, instance_id) = (&request.member_id, request.group_instance_id.as_deref());
        if let Err(code) = self.check_commit(generation, member_id, instance_id) {
            answer_commit(to, commit_answer(&request.topics, code), turn);
            return;
        }
        // A member that commits lives.
        self.touch(member_id, turn.now_ns);
        if let State::Empty { since_ns } = &mut self.state {
            *since_ns = turn.now_ns;
        }
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
                    commits.push((partition, Committed { offset, leader_epoch, metadata }));
                }
            }
        }
        if commits.is_empty() {
            answer_commit(to, answer, turn);
            return;
        }
        let entry = |(partition, committed): &(TopicPartition, Committed)| Entry::Offset {
            group: self.id.clone(),
            partition: partition.clone(),
            committed: Some(committed.clone()),
        };
        let entries: Vec<Entry> = commits.iter().map(entry).collect();
        self.in_flight += 1;
        turn.append(&self.id, &entries, Then::Commit { commits, answer: Some((to, answer)) });
    }

    /// Who may commit: members of this generation, and anybody as long as the group has no members.
    fn check_commit(
        &self,
        generation: i32,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<(), ErrorCode> {
        let is_empty = matches!(self.state, State::Empty { .. });
        if self.state == State::Dead {
            Err(ErrorCode::COORDINATOR_NOT_AVAILABLE)
        } else if generation < 0 && is_empty {
            Ok(())
        } else if generation >= 0 || !member_id.is_empty() || instance_id.is_some() {
            self.check_member(member_id, instance_id)?;
            self.check_generation(generation)?;
            match self.state {
                // The member knows of the new generation and does not own anything in it yet.
                State::Completing { .. } => Err(ErrorCode::REBALANCE_IN_PROGRESS),
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
        answer: Option<(ReplyTo, Vec<OffsetCommitResponseTopic>)>,
        outcome: Result<(), ErrorCode>,
        turn: &mut Turn<'_>,
    ) {
        self.offsets.settle(token, commits, outcome.is_ok());
        if let Some((to, answer)) = answer {
            answer_settled_commit(to, answer, outcome, turn);
        }
    }
}

/// Answers a commit by what became of its records.
pub(super) fn answer_settled_commit(
    to: ReplyTo,
    mut answer: Vec<OffsetCommitResponseTopic>,
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
    answer_commit(to, answer, turn);
}

fn answer_commit(to: ReplyTo, topics: Vec<OffsetCommitResponseTopic>, turn: &mut Turn<'_>) {
    let response = OffsetCommitResponse { throttle_time_ms: 0, topics };
    turn.outbox.reply(to, Response::OffsetCommit(response));
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

/// First version of OffsetFetch that asks for several groups. Source: KIP-709.
const SEVERAL_GROUPS_SINCE: i16 = 8;
