//! Drives the coordinators of consumer groups: one for each partition of `__consumer_offsets` that this broker leads.
//! [`led`] is what they have in common with those of transactions.

mod committers;
pub(crate) mod led;

use crate::connection::ReplyTo;
use crate::controller::{ControlRequest, ControlResponse};
use crate::defect::DefectKind;
use crate::group::{AppendToken, Coordinator, GroupConfig, Output, Record, Response, Topics};
use crate::ids::PartitionKey;
use crate::node::{Call, Cx, Running};
use crate::requests::groups::PendingGroupRequest;
use crate::requests::produce::Acks;
use crate::txn::Producer;
use bytes::Bytes;
use committers::Committers;
use led::Led;
use riprap_coord::Index;
use riprap_env::{ConnId, log};
use riprap_protocol::messages::{
    CreateTopicsRequest, CreateTopicsRequestConfig, CreateTopicsRequestTopic, ForwardRequestRequest,
};
use riprap_protocol::records::{BatchBuilder, EndTxnMarker, NO_SEQUENCE, RecordBatch};
use riprap_protocol::{ApiKey, ErrorCode, Message};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The topic that keeps committed offsets.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// The topic that keeps transactions.
pub(crate) const TRANSACTIONS_TOPIC: &str = "__transaction_state";

/// The pause before the topic is asked for again, if it could not be made.
const CREATE_RETRY_NS: u64 = 200_000_000;

/// The version in which the topic is asked for.
const CREATE_VERSION: i16 = 7;

/// How many copies such a topic has, where there are as many brokers.
const INTERNAL_REPLICAS: usize = 3;

impl led::Coordinator for Coordinator {
    const KEEPS: &'static str = "groups";

    fn is_loading(&self) -> bool {
        Coordinator::is_loading(self)
    }

    fn replay(&mut self, now_ns: u64, batch: &RecordBatch) -> Vec<String> {
        let header = batch.header();
        if header.is_control() {
            if let Some(marker) = EndTxnMarker::of(batch) {
                self.end_transaction(now_ns, header.producer_id, marker.result);
            }
            return Vec::new();
        }
        let producer_id = header.is_transactional().then_some(header.producer_id);
        let records = batch.records().into_iter().flatten().flatten();
        let skipped = records.filter_map(|record| {
            let key = record.key.unwrap_or_default();
            Coordinator::replay(self, &key, record.value.as_deref(), producer_id).err()
        });
        skipped.map(|e| e.to_string()).collect()
    }

    fn finish_loading(&mut self, now_ns: u64) {
        Coordinator::finish_loading(self, now_ns);
    }

    fn count(&self) -> usize {
        self.group_count()
    }

    fn appended(&mut self, now_ns: u64, token: AppendToken, outcome: Result<(), ErrorCode>) {
        Coordinator::appended(self, now_ns, token, outcome);
    }
}

/// The groups that this broker coordinates.
#[derive(Debug)]
pub(crate) struct Coordinators {
    config: GroupConfig,
    led: BTreeMap<PartitionKey, Led<Coordinator>>,
    /// What the coordinators know of the cluster's topics, and the entry of the metadata log that it goes up to.
    topics: (Option<Index>, Arc<Topics>),
    /// Requests that a coordinator has not answered, by the number that it knows them by.
    pub(crate) pending: BTreeMap<u64, PendingGroupRequest>,
    requests: u64,
    pub(crate) committers: Committers,
    /// Internal topics that were asked for: whether the answer is still to come, and when to ask again.
    creating: BTreeMap<&'static str, (bool, u64)>,
    /// The roles of replicas that the coordinators are there for; see [`Replicas::roles`](crate::replicas::Replicas::roles).
    roles: Option<u64>,
    /// A coordinator did something that may lead to more.
    is_due: bool,
}

impl Coordinators {
    pub(crate) fn new(config: GroupConfig) -> Coordinators {
        Coordinators {
            config,
            led: BTreeMap::new(),
            topics: (None, Arc::default()),
            pending: BTreeMap::new(),
            requests: 0,
            committers: Committers::default(),
            creating: BTreeMap::new(),
            roles: None,
            is_due: false,
        }
    }

    /// The coordinator of a partition, if this broker leads it as far as it knows.
    pub(crate) fn get_mut(&mut self, key: PartitionKey) -> Option<&mut Coordinator> {
        self.is_due = true;
        self.led.get_mut(&key).map(|led| &mut led.coordinator)
    }

    /// Whether the coordinator of a partition knows all that is in it.
    pub(crate) fn is_loaded(&self, key: PartitionKey) -> bool {
        self.led.get(&key).is_some_and(|led| !led.coordinator.is_loading())
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
        self.tell_topics();
        self.follow_offsets_leaderships(cx);
        let keys: Vec<PartitionKey> = self.coordinators.led.keys().copied().collect();
        for key in keys {
            let (Some(led), Some(replica)) = (self.coordinators.led.get_mut(&key), self.replicas.get(key))
            else {
                continue;
            };
            self.coordinators.is_due |= led.load(replica, cx);
            led.tell_committed(replica, cx.now_ns);
            if led.coordinator.wake_at_ns().is_some_and(|at| at <= cx.now_ns) {
                led.coordinator.tick(cx.now_ns);
            }
            self.carry_out(key, cx);
        }
    }

    /// Tells the coordinators of the topics that there are, if they are others than before.
    fn tell_topics(&mut self) {
        let (known, topics) = &mut self.coordinators.topics;
        let applied = Some(self.quorum.applied());
        if *known == applied {
            return;
        }
        *known = applied;
        let named = self.quorum.image().topics_by_name();
        let now = Topics::new(
            named.map(|(name, id, topic)| (name.to_owned(), id.0, topic.partitions.len() as i32)),
        );
        if now != **topics {
            *topics = Arc::new(now);
            let topics = Arc::clone(topics);
            for led in self.coordinators.led.values_mut() {
                led.coordinator.know_topics(Arc::clone(&topics));
            }
        }
    }

    fn follow_offsets_leaderships(&mut self, cx: &mut Cx<'_>) {
        let roles = Some(self.replicas.roles());
        if std::mem::replace(&mut self.coordinators.roles, roles) == roles {
            return;
        }
        let leads = self.leaderships(OFFSETS_TOPIC);
        for key in led::over(&self.coordinators.led, &leads) {
            let Some(led) = self.coordinators.led.remove(&key) else { continue };
            log!(cx.env, Info, "no longer coordinates the groups of partition {}", key.index);
            for output in led.coordinator.resign() {
                if let Output::Reply { to, response } = output {
                    self.answer_group(to, response, cx);
                }
            }
        }
        let Coordinators { led, config, topics: (_, topics), .. } = &mut self.coordinators;
        for (key, leadership) in leads {
            led.entry(key).or_insert_with(|| {
                let mut coordinator = Coordinator::new(config.clone());
                coordinator.set_wall_clock(cx.now_ns, cx.env.wall_clock_ms());
                coordinator.know_topics(Arc::clone(topics));
                leadership.begin(coordinator)
            });
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
                    Output::Reply { to, response } => {
                        // DEFECT unanswered-join: who is gone when its join is answered goes on waiting for the answer, and
                        // who waits is not given up.
                        if self.config.has(DefectKind::UnansweredJoin)
                            && let Response::JoinGroup(body) = &response
                            && !self.coordinators.pending.contains_key(&to.0)
                            && let Some(led) = self.coordinators.led.get_mut(&key)
                        {
                            led.coordinator.goes_on_waiting(&body.member_id, to);
                        }
                        self.answer_group(to, response, cx);
                    }
                    Output::Append { token, records, producer } => {
                        let result = self.append_for_group(key, &records, producer, cx);
                        let Some(led) = self.coordinators.led.get_mut(&key) else { return };
                        led.appended(cx.now_ns, token, result);
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
        let mut batch = BatchBuilder::new();
        if let Some(producer) = producer {
            batch = batch.transactional().producer(producer.id, producer.epoch, NO_SEQUENCE);
        }
        self.append_for_coordinator(key, records, batch, cx)
    }

    /// Appends records as one batch, as with acks=all. Returns the offset after the last.
    ///
    /// Errors: nothing was appended.
    pub(crate) fn append_for_coordinator(
        &mut self,
        key: PartitionKey,
        records: &[Record],
        mut batch: BatchBuilder,
        cx: &mut Cx<'_>,
    ) -> Result<i64, ErrorCode> {
        let now_ms = cx.env.wall_clock_ms();
        for record in records {
            batch = batch.record(now_ms, Some(&record.key), record.value.as_deref());
        }
        let (append, _) = self.append(key, batch.build(), Acks::All, cx).map_err(|(code, _)| code)?;
        Ok(append.end)
    }

    fn answer_group(&mut self, to: crate::group::ReplyTo, response: Response, cx: &mut Cx<'_>) {
        let Some(request) = self.coordinators.pending.remove(&to.0) else { return };
        match (request, response) {
            (PendingGroupRequest::Commit { to, refused }, Response::OffsetCommit(mut body)) => {
                body.topics.extend(refused);
                self.reply(to, &body, cx);
            }
            (PendingGroupRequest::TxnCommit { to, refused }, Response::TxnOffsetCommit(mut body)) => {
                body.topics.extend(refused);
                self.reply(to, &body, cx);
            }
            (PendingGroupRequest::DeleteOffsets { to, refused }, Response::OffsetDelete(mut body)) => {
                if body.error_code.is_none() {
                    body.topics.extend(refused);
                }
                self.reply(to, &body, cx);
            }
            (PendingGroupRequest::Simple(to), Response::JoinGroup(body)) => self.reply(to, &body, cx),
            (PendingGroupRequest::Simple(to), Response::SyncGroup(body)) => self.reply(to, &body, cx),
            (PendingGroupRequest::Simple(to), Response::ConsumerGroupHeartbeat(body)) => {
                self.reply(to, &body, cx)
            }
            (PendingGroupRequest::Delete { to, response, groups }, Response::DeleteGroup(code)) => {
                self.go_on_deleting(to, response, groups, Some(code), cx);
            }
            (request, response) => unreachable!("{response:?} answers no {request:?}"),
        }
    }

    /// Asks for a topic that coordinators keep what they know in, if there is none.
    pub(crate) fn create_internal_topic(&mut self, name: &'static str, cx: &mut Cx<'_>) {
        let (is_asked_for, retry_at_ns) = self.coordinators.creating.entry(name).or_default();
        if *is_asked_for || *retry_at_ns > cx.now_ns {
            return;
        }
        *is_asked_for = true;
        let partitions = match name {
            OFFSETS_TOPIC => self.config.offsets_partitions,
            _ => self.config.transactions_partitions,
        };
        let brokers = self.quorum.image().brokers().count().max(self.config.brokers.len());
        let replicas = INTERNAL_REPLICAS.min(brokers);
        let topic = CreateTopicsRequestTopic {
            name: name.to_owned(),
            num_partitions: partitions as i32,
            replication_factor: replicas as i16,
            // It is kept so whatever is asked for; this is for who looks.
            configs: vec![CreateTopicsRequestConfig {
                name: "cleanup.policy".to_owned(),
                value: Some("compact".to_owned()),
            }],
            ..Default::default()
        };
        let body = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
        let request = ForwardRequestRequest {
            api_key: ApiKey::CreateTopics.code(),
            api_version: CREATE_VERSION,
            body: body.to_bytes(CREATE_VERSION).expect("a request that needs nothing of older versions"),
        };
        self.ask_controller(ControlRequest::Forward(request), Call::CreateInternalTopic(name), cx);
    }

    /// The controller answered, or will not. If the topic is there now, the image says so.
    pub(crate) fn internal_topic_answered(
        &mut self,
        name: &'static str,
        response: &ControlResponse,
        cx: &mut Cx<'_>,
    ) {
        self.coordinators.creating.insert(name, (false, cx.now_ns + CREATE_RETRY_NS));
        if let ControlResponse::Forward(body) = response
            && body.error_code.is_none()
        {
            let mut reader = riprap_protocol::Reader::new(Bytes::clone(&body.body));
            let read =
                riprap_protocol::messages::CreateTopicsResponse::decode_all(&mut reader, CREATE_VERSION);
            let refusals =
                read.into_iter().flat_map(|read| read.topics).filter_map(|topic| topic.error_message);
            for refusal in refusals {
                log!(cx.env, Warn, "topic {name} is not made: {refusal}");
            }
        }
    }
}

impl Running {
    /// The partition of a coordinators' topic that keeps a group or a transactional id.
    pub(crate) fn keeper_of(&self, topic: &str, name: &str) -> Option<PartitionKey> {
        let image = self.quorum.image();
        let topic = image.topic_id(topic)?;
        let partitions = image.topic(topic)?.partitions.len();
        Some(PartitionKey { topic, index: partition_of(name, partitions) })
    }
}

/// Whether a topic belongs to the brokers: coordinators read back what is in it.
pub(crate) fn is_internal(topic: &str) -> bool {
    [OFFSETS_TOPIC, TRANSACTIONS_TOPIC].contains(&topic)
}

/// The partition of a coordinator's topic that keeps a group or a transactional id: as in Kafka, Java's hash of its name.
fn partition_of(name: &str, partitions: usize) -> i32 {
    let hash = name.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    (hash & i32::MAX) % (partitions.max(1) as i32)
}

/// An answer's address; see [`PendingGroupRequest`].
impl PendingGroupRequest {
    pub(crate) fn to(&self) -> ReplyTo {
        match self {
            PendingGroupRequest::Simple(to)
            | PendingGroupRequest::Commit { to, .. }
            | PendingGroupRequest::TxnCommit { to, .. }
            | PendingGroupRequest::DeleteOffsets { to, .. }
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
