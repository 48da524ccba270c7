//! Requests of transactional producers to their coordinator, and their offsets to that of a group.

use crate::connection::ReplyTo;
use crate::coordinators::OFFSETS_TOPIC;
use crate::ids::PartitionKey;
use crate::node::{Cx, Running};
use crate::requests::groups::PendingGroupRequest;
use crate::transactions::{
    Asked, PendingTxnRequest, Unverified, Verdicts, is_passing, partitions_of, results,
};
use crate::txn::{Epochs, Producer, TopicPartition};
use riprap_protocol::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic, AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse,
    InitProducerIdRequest, InitProducerIdResponse, TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use riprap_protocol::records::TxnResult;
use riprap_protocol::{ApiKey, ErrorCode};
use std::collections::{BTreeMap, BTreeSet};

/// From this version on AddPartitionsToTxn is what brokers ask each other. Source: KIP-890.
const BROKERS_ASK_SINCE: i16 = 4;

/// From this version on each end raises the producer's epoch. Source: KIP-890.
const RAISES_SINCE: i16 = 5;

/// No producer id, and no epoch.
const NONE: i64 = -1;

/// What older versions say for errors that came later. Source: KIP-588 and KIP-1050; Kafka's KafkaApis.
pub(crate) fn for_version(code: ErrorCode, to: ReplyTo) -> ErrorCode {
    let fenced_since = if to.api_key == ApiKey::InitProducerId { 4 } else { 2 };
    let abortable_since = match to.api_key {
        ApiKey::InitProducerId | ApiKey::AddPartitionsToTxn => 5,
        ApiKey::Produce => 11,
        _ => 4,
    };
    match code {
        ErrorCode::PRODUCER_FENCED if to.api_version < fenced_since => ErrorCode::INVALID_PRODUCER_EPOCH,
        ErrorCode::TRANSACTION_ABORTABLE if to.api_version < abortable_since => ErrorCode::INVALID_TXN_STATE,
        code => code,
    }
}

impl Running {
    /// A producer with a transactional id asks who it is to be.
    pub(crate) fn init_transactional(
        &mut self,
        to: ReplyTo,
        request: &InitProducerIdRequest,
        cx: &mut Cx<'_>,
    ) {
        let id = request.transactional_id.as_deref().unwrap_or_default();
        let asks = match (request.producer_id, request.producer_epoch) {
            (NONE, -1) => None,
            (id, epoch) if id >= 0 && epoch >= 0 => Some(Producer { id, epoch }),
            _ => return self.reply_init(to, Err(ErrorCode::INVALID_REQUEST), cx),
        };
        let Some(key) = self.coordinated_transaction(id) else {
            return self.reply_init(to, Err(ErrorCode::NOT_COORDINATOR), cx);
        };
        let reply_to = self.transactions.remember(PendingTxnRequest::Init(to));
        let Running { transactions, producer_ids, .. } = self;
        if let Some(coordinator) = transactions.get_mut(key) {
            let timeout_ms = request.transaction_timeout_ms;
            let mut fresh = || producer_ids.fresh();
            coordinator.init_producer_id(cx.now_ns, reply_to, id, timeout_ms, asks, &mut fresh);
        }
    }

    pub(crate) fn reply_init(&mut self, to: ReplyTo, result: Result<Producer, ErrorCode>, cx: &mut Cx<'_>) {
        let response = match result {
            Ok(Producer { id, epoch }) => {
                InitProducerIdResponse { producer_id: id, producer_epoch: epoch, ..Default::default() }
            }
            Err(code) => InitProducerIdResponse {
                error_code: for_version(code, to),
                producer_epoch: -1,
                ..Default::default()
            },
        };
        self.reply(to, &response, cx);
    }

    pub(crate) fn on_add_partitions(
        &mut self,
        to: ReplyTo,
        request: AddPartitionsToTxnRequest,
        cx: &mut Cx<'_>,
    ) {
        if to.api_version >= BROKERS_ASK_SINCE {
            return self.on_asked(to, request, cx);
        }
        let AddPartitionsToTxnRequest { transactional_id: id, producer_id, producer_epoch, topics, .. } =
            request;
        let is_unknown = |topic: &str, index: i32| self.key_of(topic, index).is_err();
        let partitions = partitions_of(&topics);
        let unknown: BTreeSet<TopicPartition> =
            partitions.iter().filter(|p| is_unknown(&p.topic, p.index)).cloned().collect();
        if !unknown.is_empty() {
            let code_of = |topic: &str, index| {
                let is_unknown = unknown.contains(&TopicPartition { topic: topic.to_owned(), index });
                if is_unknown {
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                } else {
                    ErrorCode::OPERATION_NOT_ATTEMPTED
                }
            };
            return self.reply_add_partitions(to, &topics, &code_of, cx);
        }
        let producer = Producer { id: producer_id, epoch: producer_epoch };
        self.add_here(PendingTxnRequest::AddPartitions { to, topics }, &id, producer, &partitions, cx);
    }

    pub(crate) fn reply_add_partitions(
        &mut self,
        to: ReplyTo,
        topics: &[AddPartitionsToTxnRequestTopic],
        code_of: &dyn Fn(&str, i32) -> ErrorCode,
        cx: &mut Cx<'_>,
    ) {
        let results_by_topic = results(topics, &|topic, index| for_version(code_of(topic, index), to));
        self.reply(to, &AddPartitionsToTxnResponse { results_by_topic, ..Default::default() }, cx);
    }

    /// A producer is about to commit offsets of a group: the partition that keeps them takes part in its transaction.
    pub(crate) fn on_add_offsets(&mut self, to: ReplyTo, request: &AddOffsetsToTxnRequest, cx: &mut Cx<'_>) {
        let Some(partition) = self.offsets_partition(&request.group_id) else {
            // There is no topic for offsets yet: who looks for the group's coordinator has it made.
            self.create_internal_topic(OFFSETS_TOPIC, cx);
            return self.reply_add_offsets(to, ErrorCode::COORDINATOR_NOT_AVAILABLE, cx);
        };
        let partitions = BTreeSet::from([offsets_partition_of(partition)]);
        let producer = Producer { id: request.producer_id, epoch: request.producer_epoch };
        let pending = PendingTxnRequest::AddOffsets(to);
        self.add_here(pending, &request.transactional_id, producer, &partitions, cx);
    }

    pub(crate) fn reply_add_offsets(&mut self, to: ReplyTo, code: ErrorCode, cx: &mut Cx<'_>) {
        let error_code = for_version(code, to);
        self.reply(to, &AddOffsetsToTxnResponse { error_code, ..Default::default() }, cx);
    }

    pub(crate) fn on_end_txn(&mut self, to: ReplyTo, request: &EndTxnRequest, cx: &mut Cx<'_>) {
        let id = &request.transactional_id;
        let Some(key) = self.coordinated_transaction(id) else {
            return self.reply_end(to, Err(ErrorCode::NOT_COORDINATOR), cx);
        };
        let reply_to = self.transactions.remember(PendingTxnRequest::End(to));
        let producer = Producer { id: request.producer_id, epoch: request.producer_epoch };
        let result = if request.committed { TxnResult::Commit } else { TxnResult::Abort };
        let epochs = if to.api_version >= RAISES_SINCE { Epochs::Raised } else { Epochs::Kept };
        let Running { transactions, producer_ids, .. } = self;
        if let Some(coordinator) = transactions.get_mut(key) {
            let mut fresh = || producer_ids.fresh();
            coordinator.end(cx.now_ns, reply_to, id, producer, result, epochs, &mut fresh);
        }
    }

    pub(crate) fn reply_end(&mut self, to: ReplyTo, result: Result<Producer, ErrorCode>, cx: &mut Cx<'_>) {
        let response = match result {
            Ok(Producer { id, epoch }) if to.api_version >= RAISES_SINCE => {
                EndTxnResponse { producer_id: id, producer_epoch: epoch, ..Default::default() }
            }
            Ok(_) => EndTxnResponse::default(),
            Err(code) => EndTxnResponse { error_code: for_version(code, to), ..Default::default() },
        };
        self.reply(to, &response, cx);
    }

    pub(crate) fn on_txn_offset_commit(
        &mut self,
        to: ReplyTo,
        request: TxnOffsetCommitRequest,
        cx: &mut Cx<'_>,
    ) {
        self.commit_in_transaction(to, request, Verdicts::default(), cx);
    }

    /// Stages offsets, once the partition that keeps them is known to take part in the transaction.
    pub(crate) fn commit_in_transaction(
        &mut self,
        to: ReplyTo,
        mut request: TxnOffsetCommitRequest,
        verdicts: Verdicts,
        cx: &mut Cx<'_>,
    ) {
        let Some(key) = self.coordinated(&request.group_id) else {
            return self.refuse_commit(to, &request, ErrorCode::NOT_COORDINATOR, cx);
        };
        let producer = Producer { id: request.producer_id, epoch: request.producer_epoch };
        if let Some(asked) = self.begins_transaction_with(key, producer) {
            let name = offsets_partition_of(key);
            match verdicts.of(&name, asked) {
                Some(ErrorCode::NONE) => {}
                Some(code) => return self.refuse_commit(to, &request, commit_refusal_of(code), cx),
                None if verdicts.deadline_ns.is_some_and(|at_ns| at_ns <= cx.now_ns) => {
                    let code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS;
                    return self.refuse_commit(to, &request, code, cx);
                }
                None => {
                    let about = BTreeMap::from([(producer, BTreeMap::from([(name, asked)]))]);
                    let request = Unverified::Commit(request);
                    self.ask_coordinator(to, request, about, verdicts, cx.now_ns);
                    return;
                }
            }
        }
        let mut refused = Vec::new();
        for topic in &mut request.topics {
            let (known, unknown) = std::mem::take(&mut topic.partitions)
                .into_iter()
                .partition(|partition| self.key_of(&topic.name, partition.index).is_ok());
            topic.partitions = unknown;
            if !topic.partitions.is_empty() {
                refused.push(refused_commit(topic, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
            }
            topic.partitions = known;
        }
        request.topics.retain(|topic| !topic.partitions.is_empty());
        let pending = self.coordinators.remember(PendingGroupRequest::TxnCommit { to, refused });
        if let Some(coordinator) = self.coordinators.get_mut(key) {
            coordinator.txn_offset_commit(cx.now_ns, pending, request);
        }
    }

    /// What this leader of a partition knows of a producer that has no transaction open there: its coordinator has to be
    /// asked before it begins one. None if it has.
    pub(crate) fn begins_transaction_with(&self, key: PartitionKey, producer: Producer) -> Option<Asked> {
        let replica = self.replicas.get(key)?;
        let epoch = replica.leader()?.epoch;
        let is_open = replica.log.open_transaction(producer.id, producer.epoch).is_some();
        (!is_open).then(|| Asked { key, epoch, last_offset: replica.log.last_offset_of(producer.id) })
    }

    fn refuse_commit(
        &mut self,
        to: ReplyTo,
        request: &TxnOffsetCommitRequest,
        code: ErrorCode,
        cx: &mut Cx<'_>,
    ) {
        let code = for_version(code, to);
        let topics = request.topics.iter().map(|topic| refused_commit(topic, code)).collect();
        self.reply(to, &TxnOffsetCommitResponse { topics, ..Default::default() }, cx);
    }
}

fn offsets_partition_of(key: PartitionKey) -> TopicPartition {
    TopicPartition { topic: OFFSETS_TOPIC.to_owned(), index: key.index }
}

/// What a producer is told of offsets that its coordinator did not let in: what may be otherwise in a moment, by an error
/// after which every producer tries again with the same coordinator.
fn commit_refusal_of(code: ErrorCode) -> ErrorCode {
    match code {
        code if is_passing(code) => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode::PRODUCER_FENCED => ErrorCode::INVALID_PRODUCER_EPOCH,
        code => code,
    }
}

fn refused_commit(
    topic: &TxnOffsetCommitRequestTopic,
    error_code: ErrorCode,
) -> TxnOffsetCommitResponseTopic {
    let partitions =
        topic.partitions.iter().map(|p| TxnOffsetCommitResponsePartition { index: p.index, error_code });
    TxnOffsetCommitResponseTopic { name: topic.name.clone(), partitions: partitions.collect() }
}
