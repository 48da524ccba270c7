//! Transactions over librdkafka.
//!
//! ```text
//! begin   the first time: init_transactions, which ends what a client of the same id has left open, and fences it;
//!         then begin_transaction, which only this client knows of
//! ...     sends, each waited for; offsets, by send_offsets_to_transaction
//! commit  commit_transaction: the coordinator is asked
//! abort   abort_transaction
//! ```
//!
//! All of a transaction takes at most the time that one record may take otherwise ([`ClientConfig::delivery_timeout`]),
//! its abort a little more.
//!
//! A transaction takes effect only if its coordinator is asked to commit it, and the only one who asks is this client. What
//! goes wrong before that is therefore certainly without effect, whether the abort that follows is confirmed or not. Once
//! the coordinator has been asked it depends: [`after_commit`].
//!
//! A producer that cannot go on is thrown away, and [`Log::begin`] makes another of the same id, which gets an epoch of its
//! own: one that the coordinator has fenced, one whose abort is not confirmed, since nobody knows when it would be, and
//! one that has left a record in doubt. Of that one the abort may purge a record which is in the log but whose answer was
//! lost; the next record to that partition then gets the same sequence number, and the broker takes it for the old one
//! again: a committed transaction lacks a record that was acknowledged.
//! Source: librdkafka 2.12.1, rdkafka_partition.c, rd_kafka_toppar_purge_queues; met as a lost write when a leader was
//! killed; Redpanda's issue 5026 tells of the same.
//!
//! Source: librdkafka's INTRODUCTION.md, "Transactional Producer", and rdkafka_txnmgr.c; KIP-98, KIP-360, KIP-447.
//!
//! [`ClientConfig::delivery_timeout`]: riprap_core::client::ClientConfig::delivery_timeout
//! [`Log::begin`]: riprap_core::client::Log::begin

use super::{KafkaLog, LATE_REPORT_POLL, SOCKET_TIMEOUT};
use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::Producer as _;
use rdkafka::topic_partition_list::Offset as RdOffset;
use riprap_core::client::{ClientConfig, LogError};
use riprap_core::op::{Key, Offset};
use std::time::{Duration, Instant};

/// How long an abort is waited for, as a part of the time for the transaction: an op has a third of that left, and to throw
/// a producer away takes librdkafka up to half a second.
const ABORT_SHARE: u32 = 8;
/// How long librdkafka is let wait for itself while it aborts: it waits for reports that only we can take from it.
const ABORT_STEP: Duration = Duration::from_millis(20);

/// How far the producer of a client with a transactional id is.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// It has no epoch from its coordinator yet.
    #[default]
    New,
    /// It may begin a transaction.
    Ready,
    /// It is in one.
    Open {
        /// It has until then.
        deadline: Instant,
        /// A record was sent, and nobody knows what became of it.
        in_doubt: bool,
    },
}

/// How long the coordinator leaves a transaction open whose client is silent: as short as librdkafka takes it, so that the
/// readers behind one that was left by its client need not wait for long, and that it strikes some that are just late.
pub(super) fn timeout(config: &ClientConfig) -> Duration {
    config.delivery_timeout.max(SOCKET_TIMEOUT)
}

/// What librdkafka says of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Refusal {
    code: RDKafkaErrorCode,
    is_fatal: bool,
    is_retriable: bool,
    requires_abort: bool,
}

impl Refusal {
    fn of(error: &KafkaError) -> Refusal {
        match error {
            KafkaError::Transaction(error) => Refusal {
                code: error.code(),
                is_fatal: error.is_fatal(),
                is_retriable: error.is_retriable(),
                requires_abort: error.txn_requires_abort(),
            },
            // Records that are not in yet: rdkafka flushes before it commits.
            error => Refusal {
                code: error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail),
                is_fatal: false,
                is_retriable: false,
                requires_abort: true,
            },
        }
    }
}

/// What follows from a commit that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AfterCommit {
    /// librdkafka is still at it.
    Wait,
    /// The coordinator has not committed it, and if it confirms an abort it never will.
    Abort,
    /// Nobody knows.
    GiveUp,
}

/// What follows from a commit that failed, while there is time or when there is none left.
///
/// librdkafka asks the coordinator again by itself, so that any answer may be to a second question: one who is fenced,
/// or told that there is no such transaction, may have committed it by the first. An abort that the coordinator takes
/// proves that no question before it had committed anything, for it refuses to abort what it has begun to commit; but
/// librdkafka also calls a transaction aborted when it has got itself a new epoch, as it does if the coordinator does not
/// know its id, and that proves nothing.
/// Source: librdkafka 2.12.1, rdkafka_txnmgr.c, rd_kafka_txn_handle_EndTxn; KIP-360; Apache Kafka's
/// TransactionCoordinator, endTransaction.
fn after_commit(refusal: Refusal, has_time: bool) -> AfterCommit {
    use RDKafkaErrorCode::{InvalidProducerIdMapping, UnknownProducerId};
    let new_epoch = matches!(refusal.code, InvalidProducerIdMapping | UnknownProducerId);
    match refusal {
        Refusal { is_fatal: true, .. } => AfterCommit::GiveUp,
        Refusal { requires_abort: true, .. } if !new_epoch => AfterCommit::Abort,
        Refusal { is_retriable: true, .. } if has_time => AfterCommit::Wait,
        _ => AfterCommit::GiveUp,
    }
}

impl KafkaLog {
    /// When what is under way must be over.
    pub(super) fn deadline(&self) -> Instant {
        match self.txn {
            State::Open { deadline, .. } => deadline,
            State::New | State::Ready => Instant::now() + self.config.delivery_timeout,
        }
    }

    pub(super) fn in_txn(&self) -> bool {
        matches!(self.txn, State::Open { .. })
    }

    /// What became of the record that is sent next is not known until its report is there.
    pub(super) fn doubt(&mut self, doubtful: bool) {
        if let State::Open { in_doubt, .. } = &mut self.txn {
            *in_doubt = doubtful;
        }
    }

    pub(super) fn begin_now(&mut self) -> Result<(), LogError> {
        let deadline = Instant::now() + self.config.delivery_timeout;
        if self.in_txn() {
            self.drop_producer();
        }
        self.producer()?;
        if self.txn == State::New {
            loop {
                let done = self.producer()?.init_transactions(left(deadline));
                let Err(error) = done else { break };
                // Its next call takes up where this one stopped.
                if !Refusal::of(&error).is_retriable {
                    self.drop_producer();
                } else if Instant::now() < deadline {
                    std::thread::sleep(LATE_REPORT_POLL);
                    continue;
                }
                return Err(self.error(&error));
            }
            self.txn = State::Ready;
        }
        if let Err(error) = self.producer()?.begin_transaction() {
            self.drop_producer();
            return Err(self.error(&error));
        }
        self.txn = State::Open { deadline, in_doubt: false };
        Ok(())
    }

    /// Makes offsets a part of the transaction.
    pub(super) fn send_offsets(&mut self, offsets: &[(Key, Offset)]) -> Result<(), LogError> {
        let list = self.list(offsets.iter().map(|(key, offset)| (*key, RdOffset::Offset(offset.0))))?;
        let member = self.consumer()?.group_metadata().expect("a consumer has a group id");
        let time = left(self.deadline());
        let done = self.producer()?.send_offsets_to_transaction(&list, &member, time);
        done.map_err(|e| self.error(&e))
    }

    pub(super) fn commit_now(&mut self) -> Result<(), LogError> {
        let deadline = self.deadline();
        loop {
            let done = self.producer()?.commit_transaction(left(deadline));
            let Err(error) = done else {
                self.txn = State::Ready;
                return Ok(());
            };
            let refused = self.error(&error);
            match after_commit(Refusal::of(&error), Instant::now() < deadline) {
                AfterCommit::Wait => std::thread::sleep(LATE_REPORT_POLL),
                AfterCommit::Abort => {
                    let definite = self.abort_now().is_ok();
                    return Err(LogError { definite, ..refused });
                }
                AfterCommit::GiveUp => {
                    self.drop_producer();
                    return Err(LogError { definite: false, ..refused });
                }
            }
        }
    }

    pub(super) fn abort_now(&mut self) -> Result<(), LogError> {
        let deadline = Instant::now() + self.config.delivery_timeout / ABORT_SHARE;
        loop {
            let producer = self.producer()?;
            let Err(error) = producer.abort_transaction(ABORT_STEP.min(left(deadline))) else {
                match self.txn {
                    State::Open { in_doubt: true, .. } => self.drop_producer(),
                    _ => self.txn = State::Ready,
                }
                return Ok(());
            };
            producer.poll(Duration::ZERO);
            if !Refusal::of(&error).is_retriable || Instant::now() >= deadline {
                self.drop_producer();
                return Err(self.error(&error));
            }
        }
    }

    fn drop_producer(&mut self) {
        self.producer = None;
        self.txn = State::New;
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use RDKafkaErrorCode as Code;

    #[test]
    fn what_follows_from_a_commit_that_failed() {
        let fatal = |code| Refusal { code, is_fatal: true, is_retriable: false, requires_abort: false };
        let retriable = |code| Refusal { code, is_fatal: false, is_retriable: true, requires_abort: false };
        let abortable = |code| Refusal { code, is_fatal: false, is_retriable: false, requires_abort: true };
        let other = |code| Refusal { code, is_fatal: false, is_retriable: false, requires_abort: false };
        use AfterCommit::{Abort, GiveUp, Wait};
        for (refusal, in_time, late) in [
            (retriable(Code::OperationTimedOut), Wait, GiveUp),
            (retriable(Code::CoordinatorLoadInProgress), Wait, GiveUp),
            (abortable(Code::Inconsistent), Abort, Abort),
            (abortable(Code::Unknown), Abort, Abort),
            // An abort that is nothing but a new epoch proves nothing.
            (abortable(Code::InvalidProducerIdMapping), GiveUp, GiveUp),
            (abortable(Code::UnknownProducerId), GiveUp, GiveUp),
            // By whom, and whether before or after it was committed?
            (fatal(Code::Fenced), GiveUp, GiveUp),
            (fatal(Code::ProducerFenced), GiveUp, GiveUp),
            (fatal(Code::InvalidTransactionalState), GiveUp, GiveUp),
            (Refusal { requires_abort: true, ..fatal(Code::Fenced) }, GiveUp, GiveUp),
            (other(Code::State), GiveUp, GiveUp),
        ] {
            let next = [true, false].map(|has_time| after_commit(refusal, has_time));
            assert_eq!(next, [in_time, late], "{refusal:?}");
        }
    }

    #[test]
    fn records_that_were_not_flushed_are_not_committed() {
        let refusal = Refusal::of(&KafkaError::Flush(Code::OperationTimedOut));
        assert_eq!(after_commit(refusal, true), AfterCommit::Abort);
    }
}
