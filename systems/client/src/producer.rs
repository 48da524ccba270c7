//! The producer: one record at a time, tried until it is acknowledged, refused for good, or out of time.
//!
//! ```text
//! send -> leader? -> Produce -> acknowledged            also if the leader says that it has the batch already
//!           ^           |-----> refused for good        the next record may need another epoch
//!           '-- pause <-'       not there, not now, no answer
//! ```
//!
//! An idempotent producer gives each batch of a partition the next sequence number and repeats it as it was, so that the
//! leader takes it in once. A number whose batch was given up, and may yet be in the log, must never be used for another
//! record: the leader would take that for the old one. Then the producer raises its epoch, and counts from 0 again
//! (KIP-360); what is still on its way under the old epoch is refused from the first batch of the new one on.
//!
//! That a number is out of order says that the batch is not stored, and cannot be under this number. A producer without
//! transactions then raises its epoch too, and sends the record once more. It is in the log twice if the leader was wrong
//! (KAFKA-14034).
//!
//! An error is definite if no attempt can have taken effect: none was sent, or each was refused by an error that leaders
//! give only before they append ([`proves_not_appended`]).
//!
//! Source: Java's Sender and TransactionManager (canRetry for OUT_OF_ORDER_SEQUENCE_NUMBER); KIP-98, KIP-360, KIP-951;
//! KAFKA-13574 for NOT_LEADER_OR_FOLLOWER after an append.

use crate::backoff::{ns, wire_ms};
use crate::coordinator::{Finder, Kind};
use crate::core::Core;
use crate::error::{MESSAGE_TIMED_OUT, Trouble, refused, timed_out};
use crate::metadata::{Leader, Tp};
use crate::net::{CallError, LATEST_VERSION, Lane};
use crate::txn;
use bytes::Bytes;
use riprap_core::client::LogError;
use riprap_core::op::{Key, Offset, Value};
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    InitProducerIdRequest, ProduceRequest, ProduceRequestPartition, ProduceRequestTopic, ProduceResponse,
    ProduceResponsePartition,
};
use riprap_protocol::records::{BatchBuilder, add_sequence};
use std::collections::BTreeMap;
use std::rc::Rc;

/// From this version on leaders add partitions to transactions. Source: KIP-890.
const ADDS_SINCE: i16 = 12;

/// Who a producer is to the brokers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

/// A record that was not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Failure {
    /// What went wrong last.
    last: Option<Trouble>,
    /// Whether an attempt may have taken effect, or may yet.
    in_doubt: bool,
}

/// A client's producer; see the module. Transactions are in `txn.rs`.
pub(crate) struct Producer {
    pub(crate) core: Rc<Core>,
    pub(crate) identity: Option<Identity>,
    /// The next sequence number of each partition.
    pub(crate) sequences: BTreeMap<Tp, i32>,
    /// A record is on its way. If it still is when the next is sent, its caller went away.
    is_sending: bool,
    /// The coordinator of its transactions, if it has any.
    pub(crate) coordinator: Option<Rc<Finder>>,
    pub(crate) txn: txn::State,
}

/// What follows from an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Acknowledged,
    Again,
    Refused,
}

fn verdict(code: ErrorCode) -> Verdict {
    match code {
        // The leader has it, as one of the last batches, and does not know any more at which offset.
        ErrorCode::NONE | ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Verdict::Acknowledged,
        code if code.is_retriable() => Verdict::Again,
        _ => Verdict::Refused,
    }
}

/// Whether a leader gives this error only before it appends anything. Of others it may have appended: a leader that is
/// replaced while it waits for replicas says NOT_LEADER_OR_FOLLOWER.
fn proves_not_appended(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::CORRUPT_MESSAGE
            | ErrorCode::MESSAGE_TOO_LARGE
            | ErrorCode::INVALID_TOPIC_EXCEPTION
            | ErrorCode::RECORD_LIST_TOO_LARGE
            | ErrorCode::NOT_ENOUGH_REPLICAS
            | ErrorCode::INVALID_REQUIRED_ACKS
            | ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
            | ErrorCode::INVALID_TIMESTAMP
            | ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT
            | ErrorCode::UNSUPPORTED_VERSION
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::INVALID_RECORD
            | ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
            | ErrorCode::INVALID_PRODUCER_EPOCH
            | ErrorCode::PRODUCER_FENCED
            | ErrorCode::INVALID_TXN_STATE
            | ErrorCode::TRANSACTION_ABORTABLE
    )
}

/// Whether the leader counts otherwise than the producer: it has to begin anew.
fn breaks_numbers(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
            | ErrorCode::INVALID_PRODUCER_EPOCH
            | ErrorCode::INVALID_PRODUCER_ID_MAPPING
            | ErrorCode::UNKNOWN_PRODUCER_ID
    )
}

impl Producer {
    pub(crate) fn new(core: Rc<Core>) -> Producer {
        let id = core.config.transactional_id.clone();
        let coordinator = id.map(|id| Rc::new(Finder::new(Rc::clone(&core), Kind::Transaction, id)));
        Producer {
            core,
            identity: None,
            sequences: BTreeMap::new(),
            is_sending: false,
            coordinator,
            txn: txn::State::New,
        }
    }

    fn is_idempotent(&self) -> bool {
        self.core.config.idempotence || self.coordinator.is_some()
    }

    fn acks(&self) -> i16 {
        match self.core.config.acks.as_str() {
            // What counts records needs to know that they arrived.
            _ if self.is_idempotent() => -1,
            "0" => 0,
            "1" => 1,
            _ => -1,
        }
    }

    /// Sends one record; see [`Log::send`](riprap_core::client::Log::send).
    pub(crate) async fn send(&mut self, key: Key, value: Value) -> Result<Option<Offset>, LogError> {
        let tp = self.core.partition(key);
        let by_ns = match self.coordinator {
            Some(_) => self.txn_deadline_ns()?,
            None => self.core.io.now_ns() + ns(self.core.config.delivery_timeout),
        };
        if std::mem::replace(&mut self.is_sending, true) {
            self.begin_anew();
        }
        let sent = self.send_by(&tp, value, by_ns).await;
        self.is_sending = false;
        sent
    }

    async fn send_by(&mut self, tp: &Tp, value: Value, by_ns: u64) -> Result<Option<Offset>, LogError> {
        if self.coordinator.is_some() {
            self.add_partition(tp, by_ns).await?;
        } else if self.is_idempotent() && self.identity.is_none() {
            let made = self.make_identity(by_ns).await;
            // The record was not tried yet.
            made.map_err(|last| timed_out(MESSAGE_TIMED_OUT, true, "a producer id", last))?;
        }
        match self.deliver(tp, value, by_ns).await {
            Ok(offset) => {
                if self.is_idempotent() {
                    let next = self.sequences.entry(tp.clone()).or_insert(0);
                    *next = add_sequence(*next, 1);
                }
                Ok(offset)
            }
            Err(Failure { last, in_doubt }) => {
                let broken = matches!(last, Some(Trouble::Code(code)) if breaks_numbers(code));
                let error = match last {
                    Some(Trouble::Code(code)) if verdict(code) == Verdict::Refused => {
                        refused(code, !in_doubt, "the record")
                    }
                    last => timed_out(MESSAGE_TIMED_OUT, !in_doubt, "the record", last),
                };
                if self.coordinator.is_some() {
                    self.not_sent(&error, last, in_doubt);
                } else if in_doubt || broken {
                    self.begin_anew();
                }
                Err(error)
            }
        }
    }

    /// Leaves behind whatever is on its way, and the numbers with it. Source: KIP-360.
    fn begin_anew(&mut self) {
        if self.coordinator.is_some() {
            // The transaction ends first.
            self.leave_in_doubt();
            return;
        }
        self.sequences.clear();
        self.identity = self.identity.and_then(|Identity { id, epoch }| {
            // The last epoch is not used, as in Kafka.
            epoch.checked_add(1).filter(|epoch| *epoch < i16::MAX).map(|epoch| Identity { id, epoch })
        });
    }

    /// Begins anew, and may send again what was refused with this error; see the module.
    fn counts_anew_for(&mut self, code: ErrorCode) -> bool {
        if code != ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER || self.coordinator.is_some() {
            return false;
        }
        self.begin_anew();
        self.identity.is_some()
    }

    /// Gets a producer id from any broker. Errors: what went wrong last.
    async fn make_identity(&mut self, by_ns: u64) -> Result<(), Option<Trouble>> {
        let core = Rc::clone(&self.core);
        let mut backoff = core.backoff();
        loop {
            let anybody = core.metadata.anybody(Lane::Produce);
            let body = |_| InitProducerIdRequest {
                transaction_timeout_ms: wire_ms(core.config.delivery_timeout),
                ..Default::default()
            };
            let trouble = match core.call((Lane::Produce, &anybody), LATEST_VERSION, by_ns, body).await {
                Ok(made) if made.error_code.is_none() => {
                    self.identity = Some(Identity { id: made.producer_id, epoch: made.producer_epoch });
                    self.sequences.clear();
                    return Ok(());
                }
                Ok(made) => Trouble::Code(made.error_code),
                Err(trouble) => trouble,
            };
            backoff.pause(&core.io, by_ns).await;
            if core.io.now_ns() >= by_ns {
                return Err(Some(trouble));
            }
        }
    }

    /// The batch, the same in each attempt.
    fn batch(&self, tp: &Tp, value: Value) -> Bytes {
        let payload = self.core.config.payload(value);
        let mut batch = BatchBuilder::new();
        if self.coordinator.is_some() {
            batch = batch.transactional();
        }
        if let Some(Identity { id, epoch }) = self.identity {
            batch = batch.producer(id, epoch, self.sequences.get(tp).copied().unwrap_or(0));
        }
        batch.record(self.core.io.wall_clock_ms(), None, Some(payload.as_bytes())).build()
    }

    /// Tries until the record is acknowledged.
    async fn deliver(&mut self, tp: &Tp, value: Value, by_ns: u64) -> Result<Option<Offset>, Failure> {
        let core = Rc::clone(&self.core);
        let mut records = self.batch(tp, value);
        let mut backoff = core.backoff();
        let mut failure = Failure { last: None, in_doubt: false };
        while core.io.now_ns() < by_ns {
            let told = core.metadata.changed.told();
            let Some(leader) = core.metadata.leader(tp) else {
                failure.last = failure.last.or(Some(Trouble::NoLeader));
                core.metadata.doubt();
                core.io.by(by_ns, told).await;
                continue;
            };
            drop(told);
            let trouble = match self.attempt(tp, &leader, records.clone(), by_ns).await {
                Ok(None) => return Ok(None),
                Err(trouble) => trouble,
                Ok(Some(answer)) => match verdict(answer.error_code) {
                    Verdict::Acknowledged => {
                        return Ok((answer.base_offset >= 0).then_some(Offset(answer.base_offset)));
                    }
                    Verdict::Again => Trouble::Code(answer.error_code),
                    Verdict::Refused if self.counts_anew_for(answer.error_code) => {
                        records = self.batch(tp, value);
                        Trouble::Code(answer.error_code)
                    }
                    Verdict::Refused => {
                        failure.last = Some(Trouble::Code(answer.error_code));
                        failure.in_doubt |= !proves_not_appended(answer.error_code);
                        return Err(failure);
                    }
                },
            };
            failure.last = Some(trouble);
            failure.in_doubt |= match trouble {
                Trouble::Code(code) => !proves_not_appended(code),
                Trouble::Call(error) => error == CallError::Lost,
                Trouble::NoLeader => false,
            };
            // Who was told by a broker who leads need not wait.
            if core.metadata.leader(tp).is_none_or(|now| now.epoch <= leader.epoch) {
                core.metadata.doubt();
                backoff.pause(&core.io, by_ns).await;
            }
        }
        Err(failure)
    }

    /// One attempt; none is answered if no answer is asked for.
    async fn attempt(
        &self,
        tp: &Tp,
        leader: &Leader,
        records: Bytes,
        by_ns: u64,
    ) -> Result<Option<ProduceResponsePartition>, Trouble> {
        let core = &self.core;
        let acks = self.acks();
        let body = |_| ProduceRequest {
            transactional_id: core.config.transactional_id.clone(),
            acks,
            timeout_ms: wire_ms(core.options.request_timeout),
            topics: vec![ProduceRequestTopic {
                name: tp.topic.to_string(),
                partitions: vec![ProduceRequestPartition { index: tp.partition, records: Some(records) }],
            }],
        };
        let at_most =
            if self.coordinator.is_some() && !self.is_v2() { ADDS_SINCE - 1 } else { LATEST_VERSION };
        if acks == 0 {
            let link = core.net.link(Lane::Produce, &leader.address);
            let told = core.io.by(by_ns, link.tell(at_most, body)).await;
            return told.unwrap_or(Err(CallError::NotSent)).map(|()| None).map_err(Trouble::Call);
        }
        let answer = core.call((Lane::Produce, &leader.address), at_most, by_ns, body).await?;
        self.learn(tp, &answer);
        let answer = answer.topics.into_iter().next().and_then(|topic| topic.partitions.into_iter().next());
        // An answer that says nothing of what was asked.
        answer.map(Some).ok_or(Trouble::Call(CallError::Lost))
    }

    fn learn(&self, tp: &Tp, answer: &ProduceResponse) {
        let partition = answer.topics.first().and_then(|topic| topic.partitions.first());
        let Some(leader) = partition.map(|partition| &partition.current_leader) else { return };
        let endpoint = answer.node_endpoints.iter().find(|node| node.node_id == leader.leader_id);
        let endpoint = endpoint.map(|node| (node.host.as_str(), node.port));
        self.core.metadata.learn(tp, leader.leader_id, leader.leader_epoch, endpoint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_answers_mean() {
        use Verdict::{Acknowledged, Again, Refused};
        for (code, expected, proves, breaks) in [
            (ErrorCode::NONE, Acknowledged, false, false),
            (ErrorCode::DUPLICATE_SEQUENCE_NUMBER, Acknowledged, false, false),
            // A leader that is replaced while it waits for replicas has appended.
            (ErrorCode::NOT_LEADER_OR_FOLLOWER, Again, false, false),
            (ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND, Again, false, false),
            (ErrorCode::REQUEST_TIMED_OUT, Again, false, false),
            (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, Again, false, false),
            (ErrorCode::KAFKA_STORAGE_ERROR, Again, false, false),
            (ErrorCode::UNKNOWN_SERVER_ERROR, Refused, false, false),
            (ErrorCode::NOT_ENOUGH_REPLICAS, Again, true, false),
            (ErrorCode::CORRUPT_MESSAGE, Again, true, false),
            (ErrorCode::MESSAGE_TOO_LARGE, Refused, true, false),
            (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, Refused, true, true),
            (ErrorCode::INVALID_PRODUCER_EPOCH, Refused, true, true),
            (ErrorCode::PRODUCER_FENCED, Refused, true, false),
            (ErrorCode::TRANSACTION_ABORTABLE, Refused, true, false),
        ] {
            let told = (verdict(code), proves_not_appended(code), breaks_numbers(code));
            assert_eq!(told, (expected, proves, breaks), "{code}");
        }
    }
}
