//! What the log remembers of idempotent producers, so that a retried batch is not appended twice and a lost one is
//! not skipped over.
//!
//! Per producer id: its epoch and its last five batches, which is as many as a producer may have in flight. All of it
//! is derived from the log's batches: leaders and followers know the same, and a truncation takes it back.
//!
//! What it cannot see: a producer whose batches are all gone from the log, or that was forgotten for
//! [`PRODUCERS_MAX`]; it has to begin anew under another id or epoch, for nobody can tell what of it is stored.
//!
//! Source: KIP-98, "Idempotent Producer Guarantees"; ProducerAppendInfo#checkSequence, ProducerStateEntry.

use riprap_protocol::records::{BatchHeader, add_sequence};
use std::collections::{BTreeMap, VecDeque};

/// How many batches of a producer are remembered: no more may be in flight (`max.in.flight.requests.per.connection`
/// is at most 5 with idempotence), so no older one is retried. Source: ProducerStateEntry.NUM_BATCHES_TO_RETAIN.
const BATCHES_PER_PRODUCER: usize = 5;

/// How many producers a partition remembers; past that the one that appended longest ago is forgotten. Kafka forgets
/// by time (a day without an append), which would have a follower's memory depend on its clock.
const PRODUCERS_MAX: usize = 10_000;

/// What a batch is to the producer's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProducerCheck {
    /// To be appended: next in sequence, or not idempotent.
    New,
    /// Appended before; to be acknowledged as it was then.
    Duplicate {
        /// The offset that its first record got.
        first_offset: i64,
        /// The offset that its last record got.
        last_offset: i64,
        /// The timestamp of the batch in the log. Units: milliseconds since 1970.
        max_timestamp: i64,
    },
    /// Batches before it are missing, or it is older than what is remembered.
    OutOfOrder {
        /// The first sequence number that would have been right.
        expected: i32,
        /// The batch's.
        got: i32,
    },
    /// A later incarnation of the producer has appended.
    InvalidEpoch {
        /// The epoch of that incarnation.
        current: i16,
        /// The batch's.
        got: i16,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SeenBatch {
    first_sequence: i32,
    last_sequence: i32,
    first_offset: i64,
    last_offset: i64,
    max_timestamp: i64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Producer {
    epoch: i16,
    /// Never empty, oldest first, all of `epoch`.
    batches: VecDeque<SeenBatch>,
}

impl Producer {
    fn last(&self) -> &SeenBatch {
        self.batches.back().expect("a producer is known by a batch")
    }
}

/// The idempotent producers of a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Producers {
    by_id: BTreeMap<i64, Producer>,
}

impl Producers {
    /// What a batch that a client sent would be.
    pub(super) fn check(&self, batch: &BatchHeader) -> ProducerCheck {
        let got = batch.base_sequence;
        let Some(producer) = self.by_id.get(&batch.producer_id) else {
            // Kafka takes any number here, and so takes a producer's second batch where the first was refused a moment
            // ago, by a leader that did not know yet that it was one: the first can then never be stored.
            let begins = !is_idempotent(batch) || got == 0;
            return if begins { ProducerCheck::New } else { ProducerCheck::OutOfOrder { expected: 0, got } };
        };
        if batch.producer_epoch < producer.epoch {
            return ProducerCheck::InvalidEpoch { current: producer.epoch, got: batch.producer_epoch };
        }
        if batch.producer_epoch > producer.epoch {
            return if got == 0 {
                ProducerCheck::New
            } else {
                ProducerCheck::OutOfOrder { expected: 0, got }
            };
        }
        let range = (got, batch.last_sequence());
        if let Some(seen) = producer.batches.iter().find(|b| (b.first_sequence, b.last_sequence) == range) {
            let SeenBatch { first_offset, last_offset, max_timestamp, .. } = *seen;
            return ProducerCheck::Duplicate { first_offset, last_offset, max_timestamp };
        }
        let expected = add_sequence(producer.last().last_sequence, 1);
        if got == expected { ProducerCheck::New } else { ProducerCheck::OutOfOrder { expected, got } }
    }

    /// Takes in a batch of the log.
    pub(super) fn append(&mut self, batch: &BatchHeader) {
        if !is_idempotent(batch) {
            return;
        }
        let producer = self
            .by_id
            .entry(batch.producer_id)
            .or_insert_with(|| Producer { epoch: batch.producer_epoch, batches: VecDeque::new() });
        if producer.epoch != batch.producer_epoch {
            producer.epoch = batch.producer_epoch;
            producer.batches.clear();
        }
        if producer.batches.len() == BATCHES_PER_PRODUCER {
            producer.batches.pop_front();
        }
        producer.batches.push_back(SeenBatch {
            first_sequence: batch.base_sequence,
            last_sequence: batch.last_sequence(),
            first_offset: batch.base_offset,
            last_offset: batch.last_offset(),
            max_timestamp: batch.max_timestamp,
        });
        if self.by_id.len() > PRODUCERS_MAX {
            let oldest = self.by_id.iter().min_by_key(|(_, producer)| producer.last().last_offset);
            let oldest = *oldest.expect("there are more than none").0;
            self.by_id.remove(&oldest);
        }
    }
}

/// Whether a batch has a place in its producer's sequence. Control batches have a producer and no sequence.
fn is_idempotent(batch: &BatchHeader) -> bool {
    batch.has_producer() && !batch.is_control() && batch.base_sequence >= 0
}
