//! One transactional id: who its producer is, and what may become of its transaction. No time, no log: from a state and
//! a request follows the next state, or an error.
//!
//! ```text
//! Empty, CompleteCommit, CompleteAbort --add--> Ongoing --end(commit)--> PrepareCommit --markers--> CompleteCommit
//!                                               Ongoing --end(abort)---> PrepareAbort  --markers--> CompleteAbort
//!                                               Ongoing --init, timeout (epoch + 1)--> PrepareAbort
//! Empty, CompleteCommit, CompleteAbort --init (epoch + 1, or another id at 0)--> Empty
//! ```
//!
//! Source: KIP-98, KIP-360 (a producer that asks again says who it was); TransactionMetadata, TransactionCoordinator.

use riprap_protocol::ErrorCode;
use riprap_protocol::records::TxnResult;
use std::collections::BTreeSet;

/// The greatest epoch that a producer is given. One is left above it, to fence its last owner with: an epoch that
/// overflowed would never be ended (KAFKA-19367, KAFKA-20090).
pub(super) const LAST_EPOCH: i16 = i16::MAX - 1;

/// A producer's incarnation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Producer {
    /// The producer id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
}

/// A partition of a topic, by name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TopicPartition {
    /// The topic.
    pub topic: String,
    /// The partition's number in it.
    pub index: i32,
}

/// How far a transaction is. The numbers are Kafka's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// There was none in this incarnation.
    Empty = 0,
    /// It has partitions.
    Ongoing = 1,
    /// It is committed; its partitions are being told.
    PrepareCommit = 2,
    /// It is aborted; its partitions are being told.
    PrepareAbort = 3,
    /// It is committed, and every partition knows.
    CompleteCommit = 4,
    /// It is aborted, and every partition knows.
    CompleteAbort = 5,
}

impl State {
    pub(super) fn from_code(code: i16) -> Option<State> {
        use State::*;
        let all = [Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort];
        usize::try_from(code).ok().and_then(|code| all.get(code).copied())
    }

    /// What the partitions are being told.
    pub(super) fn result(self) -> Option<TxnResult> {
        match self {
            State::PrepareCommit => Some(TxnResult::Commit),
            State::PrepareAbort => Some(TxnResult::Abort),
            State::Empty | State::Ongoing | State::CompleteCommit | State::CompleteAbort => None,
        }
    }
}

/// What is known of a transactional id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Transaction {
    pub(super) producer: Producer,
    /// Who the producer said that it was when it was given this incarnation: if the answer is lost it says so again.
    pub(super) previous: Option<Producer>,
    pub(super) timeout_ms: i32,
    pub(super) state: State,
    /// None unless it is open or being ended.
    pub(super) partitions: BTreeSet<TopicPartition>,
}

/// What follows from a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Nothing: it is as was asked for.
    Done,
    /// This, once it is written down.
    Next(Transaction),
    /// This, once it is written down; who asked has to come again.
    Fence(Transaction),
}

impl Transaction {
    /// A transactional id that was never seen. `id` was given to nobody.
    pub(super) fn new(id: i64, timeout_ms: i32) -> Transaction {
        Transaction {
            producer: Producer { id, epoch: 0 },
            previous: None,
            timeout_ms,
            state: State::Empty,
            partitions: BTreeSet::new(),
        }
    }

    /// A producer asks for an incarnation: a new one, or one that says who it was. `fresh_id` gives
    /// an id that was given to nobody, if there is one.
    pub(super) fn init(
        &self,
        asks: Option<Producer>,
        timeout_ms: i32,
        fresh_id: &mut dyn FnMut() -> Option<i64>,
    ) -> Result<Step, ErrorCode> {
        let is_previous = asks.is_some() && asks == self.previous;
        if asks.is_some_and(|asks| asks != self.producer) && !is_previous {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        match self.state {
            State::PrepareCommit | State::PrepareAbort => Err(ErrorCode::CONCURRENT_TRANSACTIONS),
            // Whoever has this incarnation uses it: the request is an old one.
            State::Ongoing if is_previous => Err(ErrorCode::PRODUCER_FENCED),
            State::Ongoing => Ok(Step::Fence(Transaction { previous: asks, ..self.fenced() })),
            State::Empty | State::CompleteCommit | State::CompleteAbort => {
                let Producer { id, epoch } = self.producer;
                let producer = if is_previous && epoch <= LAST_EPOCH {
                    return Ok(Step::Done);
                } else if epoch >= LAST_EPOCH {
                    Producer { id: fresh_id().ok_or(ErrorCode::COORDINATOR_NOT_AVAILABLE)?, epoch: 0 }
                } else {
                    Producer { id, epoch: epoch + 1 }
                };
                Ok(Step::Next(Transaction {
                    producer,
                    previous: asks,
                    ..Transaction::new(producer.id, timeout_ms)
                }))
            }
        }
    }

    /// Its producer adds partitions.
    pub(super) fn add(
        &self,
        producer: Producer,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<Step, ErrorCode> {
        self.check(producer)?;
        match self.state {
            State::PrepareCommit | State::PrepareAbort => Err(ErrorCode::CONCURRENT_TRANSACTIONS),
            State::Ongoing if partitions.is_subset(&self.partitions) => Ok(Step::Done),
            State::Empty | State::Ongoing | State::CompleteCommit | State::CompleteAbort => {
                let partitions = self.partitions.union(partitions).cloned().collect();
                Ok(Step::Next(Transaction { state: State::Ongoing, partitions, ..self.clone() }))
            }
        }
    }

    /// Its producer ends it. What was decided is told as often as it is asked for.
    pub(super) fn end(&self, producer: Producer, result: TxnResult) -> Result<Step, ErrorCode> {
        self.check(producer)?;
        match (self.state, result) {
            (State::Ongoing, TxnResult::Commit) => {
                Ok(Step::Next(Transaction { state: State::PrepareCommit, ..self.clone() }))
            }
            (State::Ongoing, TxnResult::Abort) => {
                Ok(Step::Next(Transaction { state: State::PrepareAbort, ..self.clone() }))
            }
            (State::PrepareCommit, TxnResult::Commit) | (State::PrepareAbort, TxnResult::Abort) => {
                Err(ErrorCode::CONCURRENT_TRANSACTIONS)
            }
            (State::CompleteCommit, TxnResult::Commit) | (State::CompleteAbort, TxnResult::Abort) => {
                Ok(Step::Done)
            }
            _ => Err(ErrorCode::INVALID_TXN_STATE),
        }
    }

    /// Aborts what is open, under an epoch that nobody was given: its producer can write and end nothing any more, not
    /// even with what it sent before (KAFKA-6119).
    pub(super) fn fenced(&self) -> Transaction {
        let Producer { id, epoch } = self.producer;
        let producer = Producer { id, epoch: epoch + 1 };
        Transaction { producer, previous: None, state: State::PrepareAbort, ..self.clone() }
    }

    /// Every partition knows how it ended.
    pub(super) fn completed(&self, result: TxnResult) -> Transaction {
        let state = match result {
            TxnResult::Commit => State::CompleteCommit,
            TxnResult::Abort => State::CompleteAbort,
        };
        Transaction { state, partitions: BTreeSet::new(), ..self.clone() }
    }

    /// Whether a partition is in the open transaction of this producer.
    pub(super) fn verify(&self, producer: Producer, partition: &TopicPartition) -> Result<(), ErrorCode> {
        self.check(producer)?;
        match self.state {
            State::PrepareCommit | State::PrepareAbort => Err(ErrorCode::CONCURRENT_TRANSACTIONS),
            State::Ongoing if self.partitions.contains(partition) => Ok(()),
            _ => Err(ErrorCode::TRANSACTION_ABORTABLE),
        }
    }

    /// Who it is comes before what it may do: a fenced producer that is told of a state would try to mend it
    /// (KAFKA-19690).
    pub(super) fn check(&self, producer: Producer) -> Result<(), ErrorCode> {
        if producer.id != self.producer.id {
            Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING)
        } else if producer.epoch != self.producer.epoch {
            Err(ErrorCode::PRODUCER_FENCED)
        } else {
            Ok(())
        }
    }
}
