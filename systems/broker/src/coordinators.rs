//! Drives the coordinators of consumer groups: one for each partition of `__consumer_offsets` that this broker leads.
//!
//! A coordinator loads its partition when the leadership begins, once all that was in the log by then is committed; what
//! it wants to remember is appended as with acks=all; it resigns when the leadership ends.

use crate::connection::ReplyTo;
use crate::controller::{ControlRequest, ControlResponse};
use crate::group::{AppendToken, Coordinator, GroupConfig, Output, Record, Response};
use crate::ids::{LeaderEpoch, PartitionKey};
use crate::log::ReadLimits;
use crate::node::{Call, Cx, Running};
use crate::requests::groups::PendingGroupRequest;
use crate::txn::Producer;
use bytes::Bytes;
use riprap_env::{ConnId, LogLevel};
use riprap_protocol::messages::{CreateTopicsRequest, CreateTopicsRequestTopic, ForwardRequestRequest};
use riprap_protocol::records::{BatchBuilder, EndTxnMarker, NO_SEQUENCE, split_batches};
use riprap_protocol::{ApiKey, ErrorCode, Message};
use std::collections::{BTreeMap, VecDeque};

/// The topic that keeps committed offsets.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// How much of a partition is loaded in one round. Units: bytes.
const LOAD_BYTES: usize = 1 << 20;

/// The pause before the topic is asked for again, if it could not be made.
const CREATE_RETRY_NS: u64 = 200_000_000;

/// The version in which the topic is asked for.
const CREATE_VERSION: i16 = 7;

/// How many copies the topic has, where there are as many brokers.
const OFFSETS_REPLICAS: usize = 3;

/// A coordinator and the leadership that it belongs to.
#[derive(Debug)]
struct Led {
    epoch: LeaderEpoch,
    coordinator: Coordinator,
    /// Where the log ended when the leadership began: all below is to be loaded.
    load_end: i64,
    loaded_to: i64,
    /// Appended and not known to be committed, in the log's order, each with the offset after its last record.
    appended: VecDeque<(AppendToken, i64)>,
}

/// The groups that this broker coordinates.
#[derive(Debug)]
pub(crate) struct Coordinators {
    config: GroupConfig,
    led: BTreeMap<PartitionKey, Led>,
    /// Requests that a coordinator has not answered, by the number that it knows them by.
    pub(crate) pending: BTreeMap<u64, PendingGroupRequest>,
    requests: u64,
    is_creating: bool,
    create_retry_at_ns: u64,
    /// A coordinator did something that may lead to more.
    is_due: bool,
}

impl Coordinators {
    pub(crate) fn new() -> Coordinators {
        Coordinators {
            config: GroupConfig::default(),
            led: BTreeMap::new(),
            pending: BTreeMap::new(),
            requests: 0,
            is_creating: false,
            create_retry_at_ns: 0,
            is_due: false,
        }
    }

    /// The coordinator of a partition, if this broker leads it as far as it knows.
    pub(crate) fn get_mut(&mut self, key: PartitionKey) -> Option<&mut Coordinator> {
        self.is_due = true;
        self.led.get_mut(&key).map(|led| &mut led.coordinator)
    }

    /// All coordinators.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Coordinator> {
        self.led.values().map(|led| &led.coordinator)
    }

    /// Remembers a request that a coordinator will answer.
    pub(crate) fn remember(&mut self, request: PendingGroupRequest) -> crate::group::ReplyTo {
        let id = self.requests;
        self.requests += 1;
        self.pending.insert(id, request);
        crate::group::ReplyTo(id)
    }

    pub(crate) fn forget(&mut self, conn: ConnId) {
        self.pending.retain(|_, request| request.to().conn != conn);
    }

    pub(crate) fn has_more_to_do(&self) -> bool {
        self.is_due
    }

    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        self.led.values().filter_map(|led| led.coordinator.wake_at_ns()).min()
    }
}

impl Running {
    /// Takes up and lays down coordinators, and does what they want done.
    pub(crate) fn settle_coordinators(&mut self, cx: &mut Cx<'_>) {
        self.coordinators.is_due = false;
        self.follow_offsets_leaderships(cx);
        let keys: Vec<PartitionKey> = self.coordinators.led.keys().copied().collect();
        for key in keys {
            self.load(key, cx);
            self.tell_committed(key, cx);
            let Some(led) = self.coordinators.led.get_mut(&key) else { continue };
            if led.coordinator.wake_at_ns().is_some_and(|at| at <= cx.now_ns) {
                led.coordinator.tick(cx.now_ns);
            }
            self.carry_out(key, cx);
        }
    }

    fn follow_offsets_leaderships(&mut self, cx: &mut Cx<'_>) {
        let image = self.quorum.image();
        let topic = image.topic_id(OFFSETS_TOPIC);
        let mut leads = BTreeMap::new();
        for replica in self.replicas.iter().filter(|replica| Some(replica.key.topic) == topic) {
            if let Some(leader) = replica.leader() {
                leads.insert(replica.key, (leader.epoch, leader.epoch_start, replica.log.log_start_offset()));
            }
        }
        let is_over =
            |key: &PartitionKey, led: &Led| leads.get(key).is_none_or(|(epoch, ..)| *epoch != led.epoch);
        let over: Vec<PartitionKey> = self
            .coordinators
            .led
            .iter()
            .filter(|(key, led)| is_over(key, led))
            .map(|(key, _)| *key)
            .collect();
        for key in over {
            let Some(led) = self.coordinators.led.remove(&key) else { continue };
            cx.env.log(
                LogLevel::Info,
                format_args!("no longer coordinates the groups of partition {}", key.index),
            );
            for output in led.coordinator.resign() {
                if let Output::Reply { to, response } = output {
                    self.answer_group(to, response, cx);
                }
            }
        }
        for (key, (epoch, load_end, log_start)) in leads {
            self.coordinators.led.entry(key).or_insert_with(|| Led {
                epoch,
                coordinator: Coordinator::new(self.coordinators.config.clone()),
                load_end,
                loaded_to: log_start,
                appended: VecDeque::new(),
            });
        }
    }

    /// Replays the next part of a partition that is committed up to where it is to be loaded.
    fn load(&mut self, key: PartitionKey, cx: &mut Cx<'_>) {
        let (Some(led), Some(replica)) = (self.coordinators.led.get_mut(&key), self.replicas.get(key)) else {
            return;
        };
        if !led.coordinator.is_loading() || replica.high_watermark < led.load_end {
            return;
        }
        let name = replica.name();
        if led.loaded_to < led.load_end {
            let limits =
                ReadLimits { below_offset: led.load_end, max_bytes: LOAD_BYTES, at_least_one_batch: true };
            let batches = match replica.log.read(cx.env.disk(), led.loaded_to, limits) {
                Ok(batches) => batches,
                Err(e) => {
                    // It goes on loading, and its clients look for another coordinator.
                    cx.env.log(LogLevel::Error, format_args!("{name}: cannot load groups: {e}"));
                    return;
                }
            };
            let mut loaded_to = led.loaded_to;
            for batch in split_batches(batches).flatten() {
                let header = batch.header();
                loaded_to = header.next_offset();
                if header.is_control() {
                    if let Some(marker) = EndTxnMarker::of(&batch) {
                        led.coordinator.end_transaction(cx.now_ns, header.producer_id, marker.result);
                    }
                    continue;
                }
                let producer_id = header.is_transactional().then_some(header.producer_id);
                for record in batch.records().into_iter().flatten().flatten() {
                    let key = record.key.unwrap_or_default();
                    if let Err(e) = led.coordinator.replay(&key, record.value.as_deref(), producer_id) {
                        cx.env.log(LogLevel::Error, format_args!("{name}: skips a record: {e}"));
                    }
                }
            }
            if loaded_to == led.loaded_to {
                cx.env.log(
                    LogLevel::Error,
                    format_args!("{name}: cannot load groups: no batch at {loaded_to}"),
                );
                return;
            }
            led.loaded_to = loaded_to;
            self.coordinators.is_due = true;
        }
        if led.loaded_to >= led.load_end {
            led.coordinator.finish_loading(cx.now_ns);
            let groups = led.coordinator.group_count();
            cx.env.log(
                LogLevel::Info,
                format_args!("{name}: coordinates {groups} groups in epoch {}", led.epoch),
            );
        }
    }

    /// Tells a coordinator which of its appends are committed.
    fn tell_committed(&mut self, key: PartitionKey, cx: &mut Cx<'_>) {
        let (Some(led), Some(replica)) = (self.coordinators.led.get_mut(&key), self.replicas.get(key)) else {
            return;
        };
        while let Some((token, end)) = led.appended.front().copied()
            && end <= replica.high_watermark
        {
            led.appended.pop_front();
            led.coordinator.appended(cx.now_ns, token, Ok(()));
        }
    }

    /// Does what a coordinator wants done, until it wants no more.
    fn carry_out(&mut self, key: PartitionKey, cx: &mut Cx<'_>) {
        loop {
            let Some(led) = self.coordinators.led.get_mut(&key) else { return };
            let outputs = led.coordinator.take_outputs();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                match output {
                    Output::Reply { to, response } => self.answer_group(to, response, cx),
                    Output::Append { token, records, producer } => {
                        let result = self.append_for_group(key, &records, producer, cx);
                        let Some(led) = self.coordinators.led.get_mut(&key) else { return };
                        match result {
                            Ok(end) => led.appended.push_back((token, end)),
                            Err(code) => led.coordinator.appended(cx.now_ns, token, Err(code)),
                        }
                    }
                }
            }
        }
    }

    /// Appends a coordinator's records as one batch. Errors: nothing was appended.
    fn append_for_group(
        &mut self,
        key: PartitionKey,
        records: &[Record],
        producer: Option<Producer>,
        cx: &mut Cx<'_>,
    ) -> Result<i64, ErrorCode> {
        let now_ms = cx.env.wall_clock_ms();
        let mut batch = BatchBuilder::new();
        if let Some(producer) = producer {
            batch = batch.transactional().producer(producer.id, producer.epoch, NO_SEQUENCE);
        }
        for record in records {
            batch = batch.record(now_ms, Some(&record.key), record.value.as_deref());
        }
        let (append, _) = self
            .append(key, batch.build(), crate::requests::produce::Acks::All, cx)
            .map_err(|(code, _)| code)?;
        Ok(append.end)
    }

    fn answer_group(&mut self, to: crate::group::ReplyTo, response: Response, cx: &mut Cx<'_>) {
        let Some(request) = self.coordinators.pending.remove(&to.0) else { return };
        match (request, response) {
            (PendingGroupRequest::Commit { to, refused }, Response::OffsetCommit(mut body)) => {
                body.topics.extend(refused);
                self.reply(to, &body, cx);
            }
            (PendingGroupRequest::Simple(to), Response::JoinGroup(body)) => self.reply(to, &body, cx),
            (PendingGroupRequest::Simple(to), Response::SyncGroup(body)) => self.reply(to, &body, cx),
            (PendingGroupRequest::Delete { to, response, groups }, Response::DeleteGroup(code)) => {
                self.go_on_deleting(to, response, groups, Some(code), cx);
            }
            (request, response) => unreachable!("{response:?} answers no {request:?}"),
        }
    }

    /// Asks for the topic that keeps committed offsets, if there is none.
    pub(crate) fn create_offsets_topic(&mut self, cx: &mut Cx<'_>) {
        let coordinators = &mut self.coordinators;
        if coordinators.is_creating || coordinators.create_retry_at_ns > cx.now_ns {
            return;
        }
        coordinators.is_creating = true;
        let replicas = OFFSETS_REPLICAS.min(self.config.brokers.len());
        let topic = CreateTopicsRequestTopic {
            name: OFFSETS_TOPIC.to_owned(),
            num_partitions: self.config.offsets_partitions as i32,
            replication_factor: replicas as i16,
            ..Default::default()
        };
        let body = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
        let request = ForwardRequestRequest {
            api_key: ApiKey::CreateTopics.code(),
            api_version: CREATE_VERSION,
            body: body.to_bytes(CREATE_VERSION).expect("a request that needs nothing of older versions"),
        };
        self.ask_controller(ControlRequest::Forward(request), Call::CreateOffsetsTopic, cx);
    }

    /// The controller answered, or will not. If the topic is there now, the image says so.
    pub(crate) fn offsets_topic_answered(&mut self, response: &ControlResponse, cx: &mut Cx<'_>) {
        self.coordinators.is_creating = false;
        self.coordinators.create_retry_at_ns = cx.now_ns + CREATE_RETRY_NS;
        if let ControlResponse::Forward(body) = response
            && body.error_code.is_none()
        {
            let mut reader = riprap_protocol::Reader::new(Bytes::clone(&body.body));
            let read =
                riprap_protocol::messages::CreateTopicsResponse::decode_all(&mut reader, CREATE_VERSION);
            let refusals =
                read.into_iter().flat_map(|read| read.topics).filter_map(|topic| topic.error_message);
            for refusal in refusals {
                cx.env.log(
                    LogLevel::Warn,
                    format_args!("the topic of committed offsets is not made: {refusal}"),
                );
            }
        }
    }
}

/// The partition that keeps a group's offsets: as in Kafka, Java's hash of its name.
pub(crate) fn partition_of(group: &str, partitions: usize) -> i32 {
    let hash = group.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    (hash & i32::MAX) % (partitions.max(1) as i32)
}

/// An answer's address; see [`PendingGroupRequest`].
impl PendingGroupRequest {
    pub(crate) fn to(&self) -> ReplyTo {
        match self {
            PendingGroupRequest::Simple(to)
            | PendingGroupRequest::Commit { to, .. }
            | PendingGroupRequest::Delete { to, .. } => *to,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hash_as_in_java() {
        // The hashes are those of Java's String.hashCode: "abc" 96354, "polygenelubricants" i32::MIN.
        for (group, expect) in [("", 0), ("abc", 96354 % 50), ("polygenelubricants", 0), ("a", 97 % 50)] {
            assert_eq!(partition_of(group, 50), expect, "{group}");
        }
    }
}
