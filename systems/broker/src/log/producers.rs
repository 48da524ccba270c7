//! What the log remembers of idempotent producers, so that a retried batch is not appended twice and a lost one is
//! not skipped over.
//!
//! Per producer id: its epoch and its last five batches, which is as many as a producer may have in flight. All of it
//! is derived from the log's batches: leaders and followers know the same, and a truncation takes it back.
//!
//! Of a transactional producer it knows also where its open transaction began, and the epoch of the coordinator that
//! ended one last. A marker ends the transaction even if it brings a new epoch: the coordinator raises the epoch to
//! fence a producer, and aborts under the new one. A marker of the same epoch may come twice, for a coordinator that
//! did not hear of the first sends it again (KAFKA-19999 is about a broker that refused it).
//!
//! What it cannot see: a producer whose batches are all gone from the log, for who learns from the log; or that was forgotten
//! for [`PRODUCERS_MAX`] or its silence; it has to begin anew under another id or epoch, for nobody can tell what of it is stored.
//!
//! Source: KIP-98, "Idempotent Producer Guarantees" and "Transactional Guarantees"; ProducerAppendInfo#checkSequence
//! and #appendEndTxnMarker, ProducerStateEntry.

use crate::defect::DefectKind;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use riprap_protocol::records::{BatchHeader, EndTxnMarker, TxnResult, add_sequence};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many batches of a producer are remembered: no more may be in flight (`max.in.flight.requests.per.connection`
/// is at most 5 with idempotence), so no older one is retried. Source: ProducerStateEntry.NUM_BATCHES_TO_RETAIN.
const BATCHES_PER_PRODUCER: usize = 5;

/// How many producers a partition remembers; past that the one that appended longest ago is forgotten. So is, as in Kafka,
/// who was not heard of for a day (`producer.id.expiration.ms`), by the clock of whoever remembers.
const PRODUCERS_MAX: usize = 10_000;

/// What is written for an offset or epoch that is not there.
const NONE: i64 = -1;

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
    /// A plain batch of a producer whose transaction is open here: it would be aborted with it, or come before it ends.
    NotTransactional,
}

/// What a marker is to the producer's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarkerCheck {
    /// To be appended.
    Right,
    /// A later incarnation of the producer has appended, so that its transaction is over.
    InvalidEpoch {
        /// The epoch of that incarnation.
        current: i16,
    },
    /// A later coordinator has ended a transaction of the producer.
    CoordinatorFenced {
        /// The epoch of that coordinator.
        current: i32,
    },
}

/// A producer as it is shown. Source: KIP-664.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerSummary {
    /// Its id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// The last sequence number of its last batch in this epoch.
    pub last_sequence: Option<i32>,
    /// The greatest timestamp of that batch. Units: milliseconds since 1970.
    pub last_timestamp_ms: Option<i64>,
    /// The epoch of the coordinator that ended a transaction of its last.
    pub coordinator_epoch: Option<i32>,
    /// Where its open transaction began.
    pub open_since: Option<i64>,
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
    /// Oldest first, all of `epoch`; none if a marker brought it.
    batches: VecDeque<SeenBatch>,
    /// Of its last batch or marker.
    last_offset: i64,
    /// Where its open transaction began.
    open_since: Option<i64>,
    /// Of the coordinator that ended a transaction last; none if none did.
    coordinator_epoch: Option<i32>,
    /// The marker by which it did.
    marker_offset: Option<i64>,
    /// When it was last heard of, by the broker's clock; 0 if that is not known. Units: milliseconds since 1970.
    seen_ms: i64,
}

impl Producer {
    fn new(epoch: i16) -> Producer {
        Producer {
            epoch,
            batches: VecDeque::new(),
            last_offset: 0,
            open_since: None,
            coordinator_epoch: None,
            marker_offset: None,
            seen_ms: 0,
        }
    }

    fn reach_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }
}

/// A transaction that ended in a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ended {
    pub(super) producer_id: i64,
    pub(super) first_offset: i64,
    pub(super) marker_offset: i64,
}

/// The idempotent producers of a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Producers {
    by_id: BTreeMap<i64, Producer>,
    /// Where each open transaction began: a batch has one producer.
    open: BTreeSet<i64>,
    /// The broker's clock, as of late. Units: milliseconds since 1970.
    now_ms: i64,
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
        let range = (got, batch.last_sequence());
        let mut of_epoch = producer.batches.iter().filter(|_| batch.producer_epoch == producer.epoch);
        if let Some(seen) = of_epoch.find(|b| (b.first_sequence, b.last_sequence) == range) {
            let SeenBatch { first_offset, last_offset, max_timestamp, .. } = *seen;
            return ProducerCheck::Duplicate { first_offset, last_offset, max_timestamp };
        }
        if !is_idempotent(batch) {
            return ProducerCheck::New;
        }
        // A new epoch begins at 0, and so does one that a marker brought.
        let last = producer.batches.back().filter(|_| batch.producer_epoch == producer.epoch);
        let expected = last.map_or(0, |last| add_sequence(last.last_sequence, 1));
        if got != expected {
            ProducerCheck::OutOfOrder { expected, got }
        } else if producer.open_since.is_some() && !batch.is_transactional() {
            ProducerCheck::NotTransactional
        } else {
            ProducerCheck::New
        }
    }

    /// What a marker that a coordinator has written would be.
    pub(super) fn check_marker(
        &self,
        producer_id: i64,
        producer_epoch: i16,
        coordinator_epoch: i32,
    ) -> MarkerCheck {
        let Some(producer) = self.by_id.get(&producer_id) else { return MarkerCheck::Right };
        if producer_epoch < producer.epoch {
            return MarkerCheck::InvalidEpoch { current: producer.epoch };
        }
        match producer.coordinator_epoch {
            Some(current) if coordinator_epoch < current => MarkerCheck::CoordinatorFenced { current },
            _ => MarkerCheck::Right,
        }
    }

    /// Where the open transaction of a producer's incarnation began.
    pub(super) fn open_since(&self, producer_id: i64, producer_epoch: i16) -> Option<i64> {
        self.by_id
            .get(&producer_id)
            .filter(|producer| producer.epoch == producer_epoch)
            .and_then(|producer| producer.open_since)
    }

    /// The offset of the last batch or marker of a producer.
    pub(super) fn last_offset_of(&self, producer_id: i64) -> Option<i64> {
        self.by_id.get(&producer_id).map(|producer| producer.last_offset)
    }

    /// All that are remembered.
    pub(super) fn summaries(&self) -> impl Iterator<Item = ProducerSummary> + '_ {
        self.by_id.iter().map(|(id, producer)| ProducerSummary {
            id: *id,
            epoch: producer.epoch,
            last_sequence: producer.batches.back().map(|batch| batch.last_sequence),
            last_timestamp_ms: producer.batches.back().map(|batch| batch.max_timestamp),
            coordinator_epoch: producer.coordinator_epoch,
            open_since: producer.open_since,
        })
    }

    /// Whether what is known of a producer comes from this batch, or marker, of the log.
    pub(super) fn remembers(&self, batch: &BatchHeader) -> bool {
        self.by_id.get(&batch.producer_id).is_some_and(|producer| {
            let is_marker = producer.marker_offset == Some(batch.base_offset);
            is_marker || producer.batches.iter().any(|seen| seen.first_offset == batch.base_offset)
        })
    }

    /// Where the first of all open transactions began.
    pub(super) fn first_open(&self) -> Option<i64> {
        self.open.first().copied()
    }

    /// Takes in a batch of the log that is no marker.
    pub(super) fn append(&mut self, batch: &BatchHeader) {
        if !batch.has_producer() || batch.is_control() {
            return;
        }
        let producer =
            self.by_id.entry(batch.producer_id).or_insert_with(|| Producer::new(batch.producer_epoch));
        producer.reach_epoch(batch.producer_epoch);
        if is_idempotent(batch) {
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
        }
        producer.last_offset = batch.last_offset();
        producer.seen_ms = self.now_ms;
        if batch.is_transactional() && producer.open_since.is_none() {
            producer.open_since = Some(batch.base_offset);
            self.open.insert(batch.base_offset);
        }
        self.forget_oldest();
    }

    /// Takes in a marker of the log. Returns the transaction that it ended; none if the producer had appended nothing
    /// in it.
    pub(super) fn end_transaction(
        &mut self,
        batch: &BatchHeader,
        marker: EndTxnMarker,
        defect: Option<DefectKind>,
    ) -> Option<Ended> {
        let BatchHeader { producer_id, producer_epoch, base_offset: marker_offset, .. } = *batch;
        let producer = self.by_id.entry(producer_id).or_insert_with(|| Producer::new(producer_epoch));
        // DEFECT seq-reuse-after-abort: the numbers of an aborted transaction are taken for those of the next.
        if defect == Some(DefectKind::SeqReuseAfterAbort) && marker.result == TxnResult::Abort {
            producer.epoch = producer_epoch;
        }
        producer.reach_epoch(producer_epoch);
        producer.last_offset = marker_offset;
        producer.seen_ms = self.now_ms;
        producer.coordinator_epoch = Some(marker.coordinator_epoch);
        producer.marker_offset = Some(marker_offset);
        let first_offset = producer.open_since.take();
        if let Some(first_offset) = first_offset {
            self.open.remove(&first_offset);
        }
        self.forget_oldest();
        first_offset.map(|first_offset| Ended { producer_id, first_offset, marker_offset })
    }

    /// Forgets those that were not heard of for so long. Whose transaction is open is not forgotten.
    pub(super) fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        self.now_ms = now_ms;
        self.by_id.retain(|_, producer| {
            if producer.seen_ms == 0 {
                producer.seen_ms = now_ms;
            }
            producer.open_since.is_some() || now_ms.saturating_sub(producer.seen_ms) < expiration_ms
        });
    }

    /// Writes all that is known.
    pub(super) fn put(&self, body: &mut BytesMut) {
        body.put_u32(self.by_id.len() as u32);
        for (id, producer) in &self.by_id {
            body.put_i64(*id);
            body.put_i16(producer.epoch);
            body.put_i64(producer.last_offset);
            body.put_i64(producer.open_since.unwrap_or(NONE));
            // Coordinators' epochs are not negative.
            body.put_i32(producer.coordinator_epoch.unwrap_or(NONE as i32));
            body.put_i64(producer.marker_offset.unwrap_or(NONE));
            body.put_i64(producer.seen_ms);
            body.put_u8(producer.batches.len() as u8);
            for seen in &producer.batches {
                body.put_i32(seen.first_sequence);
                body.put_i32(seen.last_sequence);
                body.put_i64(seen.first_offset);
                body.put_i64(seen.last_offset);
                body.put_i64(seen.max_timestamp);
            }
        }
    }

    /// Reads what [`put`](Producers::put) wrote.
    pub(super) fn take(body: &mut Bytes) -> Option<Producers> {
        let mut producers = Producers::default();
        for _ in 0..body.try_get_u32().ok()? {
            let id = body.try_get_i64().ok()?;
            let mut producer = Producer::new(body.try_get_i16().ok()?);
            producer.last_offset = body.try_get_i64().ok()?;
            producer.open_since = Some(body.try_get_i64().ok()?).filter(|since| *since != NONE);
            producer.coordinator_epoch = Some(body.try_get_i32().ok()?).filter(|epoch| *epoch != NONE as i32);
            producer.marker_offset = Some(body.try_get_i64().ok()?).filter(|offset| *offset != NONE);
            producer.seen_ms = body.try_get_i64().ok()?;
            for _ in 0..body.try_get_u8().ok()? {
                producer.batches.push_back(SeenBatch {
                    first_sequence: body.try_get_i32().ok()?,
                    last_sequence: body.try_get_i32().ok()?,
                    first_offset: body.try_get_i64().ok()?,
                    last_offset: body.try_get_i64().ok()?,
                    max_timestamp: body.try_get_i64().ok()?,
                });
            }
            producers.open.extend(producer.open_since);
            producers.by_id.insert(id, producer);
        }
        Some(producers)
    }

    /// Keeps the limit. Whose transaction is open is never forgotten: a marker would find nothing to end, and the last
    /// stable offset would pass what may be aborted. The coordinators limit how many of those there are.
    fn forget_oldest(&mut self) {
        if self.by_id.len() <= PRODUCERS_MAX {
            return;
        }
        let idle = self.by_id.iter().filter(|(_, producer)| producer.open_since.is_none());
        let oldest = idle.min_by_key(|(_, producer)| producer.last_offset).map(|(id, _)| *id);
        if let Some(oldest) = oldest {
            self.by_id.remove(&oldest);
        }
    }
}

/// Whether a batch has a place in its producer's sequence. What coordinators write for a producer has none: markers, and
/// the offsets that its transaction commits.
fn is_idempotent(batch: &BatchHeader) -> bool {
    batch.has_producer() && !batch.is_control() && batch.base_sequence >= 0
}
