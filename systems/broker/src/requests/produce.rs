//! Produce: appends, and answers once the records are as safe as the producer asked for.

use crate::connection::ReplyTo;
use crate::coordinators::is_internal;
use crate::defect::DefectKind;
use crate::ids::{LeaderEpoch, PartitionKey};
use crate::log::{AppendError, ProducerCheck};
use crate::node::{Cx, Running};
use crate::requests::transactions::for_version;
use crate::transactions::{Asked, Unverified, Verdicts, is_passing};
use crate::txn::{Producer, TopicPartition};
use bytes::Bytes;
use riprap_env::log;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    ProduceRequest, ProduceResponse, ProduceResponseCurrentLeader, ProduceResponsePartition,
    ProduceResponseTopic,
};
use riprap_protocol::records::{BatchError, BatchHeader, RecordBatch};
use std::collections::BTreeMap;

/// The longest that a produce may wait for replicas, whatever its producer asks for.
const MAX_TIMEOUT_MS: i32 = 300_000;

/// How safe records have to be before they are acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acks {
    /// Not at all: there is no answer.
    None,
    /// Durable on the leader.
    Leader,
    /// Committed: durable on all replicas in sync.
    All,
}

/// Records that were appended, and are not as safe as asked for yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Append {
    pub(crate) key: PartitionKey,
    pub(crate) epoch: LeaderEpoch,
    /// The offset after the last record.
    pub(crate) end: i64,
    pub(crate) acks: Acks,
}

/// A produce that waits.
#[derive(Debug)]
pub(crate) struct WaitingProduce {
    to: ReplyTo,
    pub(crate) deadline_ns: u64,
    response: ProduceResponse,
    /// Where in the response each append's partition is.
    appends: Vec<((usize, usize), Append)>,
}

/// What became of an append.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Waits,
    Safe,
    /// Whether the records will be committed is not known.
    InDoubt(ErrorCode),
}

impl Running {
    pub(crate) fn on_produce(&mut self, to: ReplyTo, request: ProduceRequest, cx: &mut Cx<'_>) {
        self.produce(to, request, Verdicts::default(), cx);
    }

    /// Works on a produce, once what begins a transaction in a partition was asked about.
    pub(crate) fn produce(
        &mut self,
        to: ReplyTo,
        request: ProduceRequest,
        verdicts: Verdicts,
        cx: &mut Cx<'_>,
    ) {
        let about = self.to_be_asked(&request, &verdicts);
        if !about.is_empty() && verdicts.deadline_ns.is_none_or(|at_ns| at_ns > cx.now_ns) {
            let request = Unverified::Produce(request);
            self.ask_coordinator(to, request, about, verdicts, cx.now_ns);
            return;
        }
        let acks = match request.acks {
            0 => Some(Acks::None),
            1 => Some(Acks::Leader),
            -1 => Some(Acks::All),
            _ => None,
        };
        let verdicts = request.transactional_id.is_some().then_some(&verdicts);
        let mut response = ProduceResponse::default();
        let mut appends = Vec::new();
        for (at_topic, topic) in request.topics.iter().enumerate() {
            let mut answered = ProduceResponseTopic { name: topic.name.clone(), partitions: Vec::new() };
            for (at_partition, partition) in topic.partitions.iter().enumerate() {
                let mut answer = ProduceResponsePartition {
                    index: partition.index,
                    base_offset: -1,
                    ..Default::default()
                };
                let refusal = match acks {
                    None => Some((ErrorCode::INVALID_REQUIRED_ACKS, Some("acks is 0, 1 or -1".to_owned()))),
                    Some(acks) => {
                        let name = TopicPartition { topic: topic.name.clone(), index: partition.index };
                        let records = partition.records.clone().unwrap_or_default();
                        match self.produce_to(to, &name, records, acks, verdicts, cx) {
                            Ok((append, base_offset)) => {
                                answer.base_offset = base_offset;
                                answer.log_start_offset = self
                                    .replicas
                                    .get(append.key)
                                    .map_or(-1, |replica| replica.log.log_start_offset());
                                appends.push(((at_topic, at_partition), append));
                                None
                            }
                            Err(refusal) => Some(refusal),
                        }
                    }
                };
                if let Some((code, message)) = refusal {
                    answer.error_code = code;
                    answer.error_message = message;
                    self.tell_leader(to.api_version, &topic.name, &mut answer);
                }
                answered.partitions.push(answer);
            }
            response.topics.push(answered);
        }
        if acks == Some(Acks::None) {
            self.finish_unacknowledged(to, &response, cx);
            return;
        }
        let timeout_ms = request.timeout_ms.clamp(0, MAX_TIMEOUT_MS) as u64;
        let deadline_ns = cx.now_ns + timeout_ms * 1_000_000;
        // Even what needs no replica waits for the end of the turn: that is when the log is synced.
        let waiting = WaitingProduce { to, deadline_ns, response, appends };
        self.waiting.produces.insert(to.conn, waiting);
    }

    /// A producer that wants no answer learns of an error by losing its connection, as with Kafka.
    fn finish_unacknowledged(&mut self, to: ReplyTo, response: &ProduceResponse, cx: &mut Cx<'_>) {
        let error =
            response.topics.iter().flat_map(|topic| &topic.partitions).find(|p| !p.error_code.is_none());
        match error {
            Some(partition) => {
                let why = format!("produce without acknowledgement: {}", partition.error_code);
                self.drop_connection(to.conn, &why, cx);
            }
            None => {
                self.connections.done(to.conn);
            }
        }
    }

    /// Appends one partition's records. Returns what to wait for and the first record's offset.
    ///
    /// `verdicts` is what coordinators said; none if the request has no transactional id. Errors: nothing was appended.
    fn produce_to(
        &mut self,
        to: ReplyTo,
        name: &TopicPartition,
        records: Bytes,
        acks: Acks,
        verdicts: Option<&Verdicts>,
        cx: &mut Cx<'_>,
    ) -> Result<(Append, i64), (ErrorCode, Option<String>)> {
        let TopicPartition { topic, index } = name;
        // What a coordinator reads back, it must have written.
        if is_internal(topic) {
            return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, Some(format!("{topic} is not for clients"))));
        }
        let key = self.key_of(topic, *index).map_err(|code| (code, None))?;
        let header = check_batch(records.clone())?;
        if let Some(asked) = self.begins_transaction(key, &header) {
            let Some(verdicts) = verdicts else {
                let message = "a batch of a transaction without a transactional id".to_owned();
                return Err((ErrorCode::INVALID_REQUEST, Some(message)));
            };
            let mut code = verdicts.of(name, asked).unwrap_or(ErrorCode::NOT_COORDINATOR);
            // DEFECT late-produce-hang: a leader does not mind that the transaction is over.
            if self.config.has(DefectKind::LateProduceHang) && !is_passing(code) {
                code = ErrorCode::NONE;
            }
            let code = for_version(refusal_of(code), to);
            if !code.is_none() {
                let message = format!("{name} was not brought into the transaction: {code}");
                return Err((code, Some(message)));
            }
        }
        self.append(key, records, acks, cx)
    }

    /// What is to be asked before a produce can be worked on: the partitions in which it begins a transaction.
    fn to_be_asked(
        &self,
        request: &ProduceRequest,
        verdicts: &Verdicts,
    ) -> BTreeMap<Producer, BTreeMap<TopicPartition, Asked>> {
        let mut about: BTreeMap<Producer, BTreeMap<TopicPartition, Asked>> = BTreeMap::new();
        if request.transactional_id.is_none() {
            return about;
        }
        for topic in &request.topics {
            for partition in &topic.partitions {
                let Some(records) = &partition.records else { continue };
                let (Ok(key), Ok(header)) =
                    (self.key_of(&topic.name, partition.index), BatchHeader::parse(records))
                else {
                    continue;
                };
                let name = TopicPartition { topic: topic.name.clone(), index: partition.index };
                if let Some(asked) = self.begins_transaction(key, &header)
                    && verdicts.of(&name, asked).is_none()
                {
                    let producer = Producer { id: header.producer_id, epoch: header.producer_epoch };
                    about.entry(producer).or_default().insert(name, asked);
                }
            }
        }
        about
    }

    /// What this leader knows of a producer that begins a transaction with a batch; none if it does not. Then its
    /// coordinator has to be asked.
    fn begins_transaction(&self, key: PartitionKey, batch: &BatchHeader) -> Option<Asked> {
        if !batch.is_transactional() {
            return None;
        }
        let is_new = self.replicas.get(key)?.log.check_producer(batch) == ProducerCheck::New;
        let producer = Producer { id: batch.producer_id, epoch: batch.producer_epoch };
        self.begins_transaction_with(key, producer).filter(|_| is_new)
    }

    /// Appends one batch to a partition. Returns what to wait for and the first record's offset.
    ///
    /// Errors: nothing was appended.
    pub(crate) fn append(
        &mut self,
        key: PartitionKey,
        records: Bytes,
        acks: Acks,
        cx: &mut Cx<'_>,
    ) -> Result<(Append, i64), (ErrorCode, Option<String>)> {
        let replica = self.replicas.get_mut(key).ok_or((ErrorCode::NOT_LEADER_OR_FOLLOWER, None))?;
        let leader = replica.leader().ok_or((ErrorCode::NOT_LEADER_OR_FOLLOWER, None))?;
        let epoch = leader.epoch;
        if acks == Acks::All && leader.isr.members().len() < leader.min_insync {
            let (have, need) = (leader.isr.members().len(), leader.min_insync);
            let message = format!("{have} replicas are in sync; {need} are needed");
            return Err((ErrorCode::NOT_ENOUGH_REPLICAS, Some(message)));
        }
        let header =
            BatchHeader::parse(&records).map_err(|e| (ErrorCode::INVALID_RECORD, Some(e.to_string())))?;
        let append = |last_offset: i64| Append { key, epoch, end: last_offset + 1, acks };
        let check = replica.log.check_producer(&header);
        // A leader that was replaced and has not heard misses what its successor stored: a producer that is told that its
        // numbers are wrong begins anew under another epoch, and what is in doubt is stored twice (KAFKA-14034).
        let is_refused =
            matches!(check, ProducerCheck::OutOfOrder { .. } | ProducerCheck::InvalidEpoch { .. });
        if is_refused && !self.membership.is_in_touch(cx.now_ns) {
            return Err((ErrorCode::NOT_LEADER_OR_FOLLOWER, None));
        }
        match check {
            ProducerCheck::New => {}
            // DEFECT ooo-instead-of-dedup: only the last number is remembered: a batch that comes again is out of order.
            ProducerCheck::Duplicate { .. } if self.config.has(DefectKind::OooInsteadOfDedup) => {
                return Err((ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, None));
            }
            // It may not be committed yet: it waits like the first time.
            ProducerCheck::Duplicate { first_offset, last_offset, .. } => {
                return Ok((append(last_offset), first_offset));
            }
            ProducerCheck::OutOfOrder { expected, got } => {
                let message = format!("sequence number {got}; {expected} would be next");
                return Err((ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, Some(message)));
            }
            ProducerCheck::InvalidEpoch { current, got } => {
                let message = format!("producer epoch {got}; {current} has appended");
                return Err((ErrorCode::INVALID_PRODUCER_EPOCH, Some(message)));
            }
            ProducerCheck::NotTransactional => {
                let message =
                    "a transaction of the producer is open: the batch has to be part of it".to_owned();
                return Err((ErrorCode::INVALID_TXN_STATE, Some(message)));
            }
        }
        let now_ms = cx.env.wall_clock_ms();
        match replica.log.append_as_leader(cx.env.disk(), records, epoch.0, now_ms) {
            Ok(appended) => {
                self.replicas.note_appended(key);
                Ok((append(appended.last_offset), appended.first_offset))
            }
            Err(e) => {
                let code = match &e {
                    AppendError::TooLarge { .. } => ErrorCode::MESSAGE_TOO_LARGE,
                    AppendError::Batch(BatchError::Crc { .. }) => ErrorCode::CORRUPT_MESSAGE,
                    AppendError::Batch(_)
                    | AppendError::Empty
                    | AppendError::NoKey
                    | AppendError::Sequence { .. }
                    | AppendError::Transaction { .. } => ErrorCode::INVALID_RECORD,
                    AppendError::Discontinuous(_) => ErrorCode::UNKNOWN_SERVER_ERROR,
                    AppendError::Log(_) => {
                        let name = replica.name();
                        log!(cx.env, Error, "{name}: cannot append: {e}");
                        ErrorCode::KAFKA_STORAGE_ERROR
                    }
                };
                Err((code, Some(e.to_string())))
            }
        }
    }

    /// What became of an append.
    pub(crate) fn outcome(&self, append: &Append) -> Outcome {
        let Some(replica) = self.replicas.get(append.key) else {
            return Outcome::InDoubt(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        };
        // What this broker appended may be gone since: in its next leadership the offset may hold something else.
        let Some(leader) = replica.leader().filter(|leader| leader.epoch == append.epoch) else {
            // DEFECT ack-then-truncate: what still stands where it was appended, by its epoch, counts as replicated.
            let stands = replica.log.leader_epoch_of(append.end - 1) == Some(append.epoch.0);
            if stands && self.config.has(DefectKind::AckThenTruncate) {
                return Outcome::Safe;
            }
            return Outcome::InDoubt(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        };
        let safe_end = match append.acks {
            Acks::None => return Outcome::Safe,
            Acks::Leader => replica.counted_end(),
            Acks::All => replica.high_watermark,
        };
        if safe_end >= append.end {
            Outcome::Safe
        } else if append.acks == Acks::All && leader.isr.members().len() < leader.min_insync {
            Outcome::InDoubt(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        } else {
            Outcome::Waits
        }
    }

    /// Answers the produces whose records are safe, or cannot be waited for any longer.
    pub(crate) fn answer_produces(&mut self, cx: &mut Cx<'_>) {
        if self.waiting.produces.is_empty() {
            return;
        }
        let has_defect = self.config.has(DefectKind::ZeroOffset);
        let conns: Vec<_> = self.waiting.produces.keys().copied().collect();
        for conn in conns {
            let Some(mut waiting) = self.waiting.produces.remove(&conn) else { continue };
            let is_expired = waiting.deadline_ns <= cx.now_ns;
            waiting.appends.retain(|((at_topic, at_partition), append)| {
                let code = match self.outcome(append) {
                    Outcome::Safe => return false,
                    Outcome::Waits if is_expired => ErrorCode::REQUEST_TIMED_OUT,
                    // The replicas may come back in time. A producer that is told early sends again, and is refused.
                    Outcome::InDoubt(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND)
                        if !is_expired && !has_defect =>
                    {
                        return true;
                    }
                    Outcome::Waits => return true,
                    Outcome::InDoubt(code) => code,
                };
                let topic = &mut waiting.response.topics[*at_topic];
                let answer = &mut topic.partitions[*at_partition];
                // DEFECT zero-offset: what is in doubt is answered, without waiting, as stored at offset 0.
                if has_defect {
                    answer.base_offset = 0;
                    return false;
                }
                answer.error_code = code;
                answer.base_offset = -1;
                self.tell_leader(waiting.to.api_version, &topic.name, answer);
                false
            });
            if waiting.appends.is_empty() {
                self.reply(waiting.to, &waiting.response, cx);
            } else {
                self.waiting.produces.insert(conn, waiting);
            }
        }
    }

    /// Spares a producer that came to the wrong broker the question where the right one is. Source: KIP-951.
    fn tell_leader(&self, version: i16, topic: &str, answer: &mut ProduceResponsePartition) {
        /// First version that has room for it.
        const LEADER_SINCE: i16 = 10;
        if version < LEADER_SINCE || answer.error_code != ErrorCode::NOT_LEADER_OR_FOLLOWER {
            return;
        }
        let image = self.quorum.image();
        let key = image.topic_id(topic).map(|topic| PartitionKey { topic, index: answer.index });
        if let Some(partition) = key.and_then(|key| image.partition(key)) {
            answer.current_leader = ProduceResponseCurrentLeader {
                leader_id: partition.state.leader.map_or(-1, |id| id.0),
                leader_epoch: partition.state.leader_epoch.0,
            };
        }
    }
}

/// A producer's records are one batch, and no control batch.
fn check_batch(mut records: Bytes) -> Result<BatchHeader, (ErrorCode, Option<String>)> {
    let refuse = |code, message: &str| Err((code, Some(message.to_owned())));
    let batch = match RecordBatch::take_first(&mut records) {
        Ok(batch) => batch,
        Err(e @ BatchError::Crc { .. }) => return refuse(ErrorCode::CORRUPT_MESSAGE, &e.to_string()),
        Err(e @ BatchError::Magic(_)) => {
            return refuse(ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT, &e.to_string());
        }
        Err(e) => return refuse(ErrorCode::INVALID_RECORD, &e.to_string()),
    };
    if !records.is_empty() {
        return refuse(ErrorCode::INVALID_RECORD, "more than one batch for a partition");
    }
    let header = *batch.header();
    if header.is_control() {
        return refuse(ErrorCode::INVALID_RECORD, "control batches are not taken");
    }
    // What coordinators write for a producer has no sequence number; what it writes itself has.
    if header.is_transactional() && header.base_sequence < 0 {
        return refuse(ErrorCode::INVALID_RECORD, "a batch of a transaction has no sequence number");
    }
    Ok(header)
}

/// What a producer is told of a partition that its coordinator did not let in. What may be otherwise in a moment is told
/// by an error after which every producer tries again. Source: Kafka's ReplicaManager#appendRecords.
fn refusal_of(code: ErrorCode) -> ErrorCode {
    match code {
        code if is_passing(code) => ErrorCode::NOT_ENOUGH_REPLICAS,
        ErrorCode::PRODUCER_FENCED => ErrorCode::INVALID_PRODUCER_EPOCH,
        code => code,
    }
}
