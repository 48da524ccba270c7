//! One transactional id: who its producer is, and what may become of its transaction. No time, no log: from a state and
//! a request follows the next state, or an error.
//!
//! ```text
//! Empty, CompleteCommit, CompleteAbort --add--> Ongoing --end(commit)--> PrepareCommit --markers--> CompleteCommit
//!                                               Ongoing --end(abort)---> PrepareAbort  --markers--> CompleteAbort
//!                                               Ongoing --init, timeout (epoch + 1)--> PrepareAbort
//! Empty, CompleteCommit, CompleteAbort --init (epoch + 1, or another id at 0)--> Empty
//! Empty, CompleteCommit, CompleteAbort --end(abort)--> PrepareAbort, where each end raises the epoch
//! ```
//! Where the producer knows it ([`Epochs::Raised`]), each end raises the epoch, so that nothing of one transaction can
//! be taken for a part of the next. Even what was never heard of is then aborted: a batch of it may be on its way.
//!
//! Source: KIP-98, KIP-360 (a producer that asks again says who it was), KIP-890; TransactionMetadata,
//! TransactionCoordinator.

use riprap_protocol::ErrorCode;
use riprap_protocol::records::TxnResult;
use std::collections::BTreeSet;
use std::fmt;

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

/// What the end of a transaction does to its producer's epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Epochs {
    /// Nothing: EndTxn before version 5.
    Kept,
    /// It raises it, and the producer is told: Kafka's transaction version 2. Source: KIP-890, part 2.
    Raised,
}

/// A partition of a topic, by name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TopicPartition {
    /// The topic.
    pub topic: String,
    /// The partition's number in it.
    pub index: i32,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.index)
    }
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

    /// How the last transaction ended, if none began since.
    fn ended_with(self) -> Option<TxnResult> {
        match self {
            State::Empty | State::Ongoing => None,
            State::PrepareCommit | State::CompleteCommit => Some(TxnResult::Commit),
            State::PrepareAbort | State::CompleteAbort => Some(TxnResult::Abort),
        }
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
    /// None once it has used the incarnation.
    pub(super) previous: Option<Producer>,
    /// The id with which the producer goes on, at epoch 0, when all partitions know: the epochs of this one are used up.
    pub(super) next_id: Option<i64>,
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
            next_id: None,
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
                Ok(Step::Next(Transaction {
                    state: State::Ongoing,
                    previous: None,
                    partitions,
                    ..self.clone()
                }))
            }
        }
    }

    /// Its producer ends it. What was decided is told as often as it is asked for.
    pub(super) fn end(
        &self,
        producer: Producer,
        result: TxnResult,
        epochs: Epochs,
        fresh_id: &mut dyn FnMut() -> Option<i64>,
    ) -> Result<Step, ErrorCode> {
        self.check_ends(producer, epochs)?;
        let ended_with = self.state.ended_with();
        if self.asks_again(producer, epochs) {
            return match self.state.result() {
                _ if ended_with != Some(result) => Err(ErrorCode::INVALID_TXN_STATE),
                Some(_) => Err(ErrorCode::CONCURRENT_TRANSACTIONS),
                None => Ok(Step::Done),
            };
        }
        match (self.state, epochs) {
            (State::Ongoing, _) => self.prepared(result, epochs, fresh_id),
            (State::PrepareCommit | State::PrepareAbort, Epochs::Raised) => {
                Err(ErrorCode::CONCURRENT_TRANSACTIONS)
            }
            (State::PrepareCommit | State::PrepareAbort, Epochs::Kept) if ended_with == Some(result) => {
                Err(ErrorCode::CONCURRENT_TRANSACTIONS)
            }
            (State::Empty | State::CompleteCommit | State::CompleteAbort, Epochs::Raised)
                if result == TxnResult::Abort =>
            {
                self.prepared(result, epochs, fresh_id)
            }
            (State::CompleteCommit | State::CompleteAbort, Epochs::Kept) if ended_with == Some(result) => {
                Ok(Step::Done)
            }
            _ => Err(ErrorCode::INVALID_TXN_STATE),
        }
    }

    /// Whether a producer ends, under the epoch that it had, a transaction whose end raised the epoch: it was not told.
    fn asks_again(&self, producer: Producer, epochs: Epochs) -> bool {
        epochs == Epochs::Raised && self.previous == Some(producer) && self.state.ended_with().is_some()
    }

    /// As [`check`](Transaction::check), for who ends a transaction.
    pub(super) fn check_ends(&self, producer: Producer, epochs: Epochs) -> Result<(), ErrorCode> {
        if self.asks_again(producer, epochs) { Ok(()) } else { self.check(producer) }
    }

    fn prepared(
        &self,
        result: TxnResult,
        epochs: Epochs,
        fresh_id: &mut dyn FnMut() -> Option<i64>,
    ) -> Result<Step, ErrorCode> {
        let state = match result {
            TxnResult::Commit => State::PrepareCommit,
            TxnResult::Abort => State::PrepareAbort,
        };
        let mut next = Transaction { state, ..self.clone() };
        if epochs == Epochs::Raised {
            let Producer { id, epoch } = self.producer;
            if epoch >= LAST_EPOCH {
                next.next_id = Some(fresh_id().ok_or(ErrorCode::COORDINATOR_NOT_AVAILABLE)?);
            }
            next.producer = Producer { id, epoch: epoch + 1 };
            next.previous = Some(self.producer);
        }
        Ok(Step::Next(next))
    }

    /// Who the producer is to be from now on.
    pub(super) fn goes_on_as(&self) -> Producer {
        self.next_id.map_or(self.producer, |id| Producer { id, epoch: 0 })
    }

    /// Aborts what is open, under an epoch that nobody was given: its producer can write and end nothing any more, not
    /// even with what it sent before (KAFKA-6119).
    pub(super) fn fenced(&self) -> Transaction {
        let Producer { id, epoch } = self.producer;
        let producer = Producer { id, epoch: epoch + 1 };
        Transaction { producer, previous: None, ..self.aborted() }
    }

    /// Aborts what is open.
    pub(super) fn aborted(&self) -> Transaction {
        Transaction { state: State::PrepareAbort, ..self.clone() }
    }

    /// Every partition knows how it ended.
    pub(super) fn completed(&self, result: TxnResult) -> Transaction {
        let state = match result {
            TxnResult::Commit => State::CompleteCommit,
            TxnResult::Abort => State::CompleteAbort,
        };
        let producer = self.goes_on_as();
        Transaction { producer, next_id: None, state, partitions: BTreeSet::new(), ..self.clone() }
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
        if self.next_id.is_some() && producer == self.goes_on_as() {
            // It was told already; its next transaction waits for the end of this one.
            Err(ErrorCode::CONCURRENT_TRANSACTIONS)
        } else if producer.id != self.producer.id {
            Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING)
        } else if producer.epoch != self.producer.epoch {
            Err(ErrorCode::PRODUCER_FENCED)
        } else {
            Ok(())
        }
    }
}
