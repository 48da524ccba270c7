//! The transactions that ended in a log: up to where records are stable, and which of them were aborted.
//!
//! Derived from the log's batches, like all else: a truncation takes it back, and a follower has it as its leader does.
//! Where transactions are open is with their producers, in `producers`.
//!
//! A transaction is unstable until its marker is committed: while it may still be truncated, the last stable offset
//! would fall back behind what a consumer was shown.
//!
//! Source: KIP-98, "Fetch" and "Last stable offset"; ProducerStateManager#firstUnstableOffset, TransactionIndex.

use super::PartitionLog;
use super::producers::{Ended, Producers};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use riprap_protocol::records::{BatchHeader, EndTxnMarker, TxnResult};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// A transaction whose records in this log do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortedTransaction {
    /// Whose it was.
    pub producer_id: i64,
    /// Its first record.
    pub first_offset: i64,
    /// The marker that ended it.
    pub marker_offset: i64,
    /// Where records were stable when it had ended: all aborted later begin there or above.
    stable_after: i64,
}

/// The transactions that ended in a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Transactions {
    /// Those whose marker was not known to be committed when that was last told, by marker.
    ended: VecDeque<Ended>,
    /// All that were aborted, by marker.
    aborted: Vec<AbortedTransaction>,
}

impl Transactions {
    /// Takes in that a transaction ended; `producers` know already.
    pub(super) fn end(&mut self, ended: Ended, result: TxnResult, producers: &Producers) {
        self.ended.push_back(ended);
        if result == TxnResult::Abort {
            let Ended { producer_id, first_offset, marker_offset } = ended;
            let stable_after = producers.first_open().unwrap_or(marker_offset + 1);
            self.aborted.push(AbortedTransaction { producer_id, first_offset, marker_offset, stable_after });
        }
    }

    /// Forgets what ended at `end_offset` or above.
    pub(super) fn truncate(&mut self, end_offset: i64) {
        self.ended.retain(|ended| ended.marker_offset < end_offset);
        self.aborted.retain(|aborted| aborted.marker_offset < end_offset);
    }

    /// Writes those whose marker is at these offsets.
    pub(super) fn put(&self, body: &mut BytesMut, offsets: Range<i64>) {
        let aborted = self.aborted.iter().filter(|aborted| offsets.contains(&aborted.marker_offset));
        body.put_u32(aborted.clone().count() as u32);
        for AbortedTransaction { producer_id, first_offset, marker_offset, stable_after } in aborted {
            for number in [producer_id, first_offset, marker_offset, stable_after] {
                body.put_i64(*number);
            }
        }
        let ended = self.ended.iter().filter(|ended| offsets.contains(&ended.marker_offset));
        body.put_u32(ended.clone().count() as u32);
        for Ended { producer_id, first_offset, marker_offset } in ended {
            for number in [producer_id, first_offset, marker_offset] {
                body.put_i64(*number);
            }
        }
    }

    /// Reads what [`put`](Transactions::put) wrote.
    pub(super) fn take(body: &mut Bytes) -> Option<Transactions> {
        let aborted = (0..body.try_get_u32().ok()?).map(|_| {
            Some(AbortedTransaction {
                producer_id: body.try_get_i64().ok()?,
                first_offset: body.try_get_i64().ok()?,
                marker_offset: body.try_get_i64().ok()?,
                stable_after: body.try_get_i64().ok()?,
            })
        });
        let aborted = aborted.collect::<Option<_>>()?;
        let ended = (0..body.try_get_u32().ok()?).map(|_| {
            Some(Ended {
                producer_id: body.try_get_i64().ok()?,
                first_offset: body.try_get_i64().ok()?,
                marker_offset: body.try_get_i64().ok()?,
            })
        });
        Some(Transactions { ended: ended.collect::<Option<_>>()?, aborted })
    }

    /// Takes in those that ended later.
    pub(super) fn extend(&mut self, later: Transactions) {
        self.aborted.extend(later.aborted);
        self.ended.extend(later.ended);
    }

    /// All that were aborted and have records in the log, or may have.
    pub(super) fn aborted(&self) -> &[AbortedTransaction] {
        &self.aborted
    }

    /// Forgets those whose markers are gone, and with them their records.
    pub(super) fn forget_markers(&mut self, gone: &BTreeSet<i64>) {
        self.aborted.retain(|aborted| !gone.contains(&aborted.marker_offset));
    }

    /// Forgets those that ended below `end_offset`: none of their records is left.
    pub(super) fn forget_aborted(&mut self, end_offset: i64) {
        self.aborted.retain(|aborted| aborted.marker_offset >= end_offset);
    }

    /// Forgets those whose marker is below `start_offset`: of them nothing is left.
    pub(super) fn start_at(&mut self, start_offset: i64) {
        self.ended.retain(|ended| ended.marker_offset >= start_offset);
        self.aborted.retain(|aborted| aborted.marker_offset >= start_offset);
    }
}

impl PartitionLog {
    /// Below this offset all is committed, and belongs to no transaction that may still be aborted: where a consumer's
    /// reading of committed records ends. Shape: never above the high watermark nor below the log's start; the first offset
    /// that is not stable.
    pub fn last_stable_offset(&self, high_watermark: i64) -> i64 {
        let ended = self.transactions.ended.iter().filter(|ended| ended.marker_offset >= high_watermark);
        let first_unstable = ended.map(|ended| ended.first_offset).chain(self.producers.first_open()).min();
        first_unstable.map_or(high_watermark, |first| first.max(self.start_offset).min(high_watermark))
    }

    /// Notes that all below an offset is committed: what ended there is not looked at again.
    pub fn note_high_watermark(&mut self, high_watermark: i64) {
        let ended = &mut self.transactions.ended;
        while ended.front().is_some_and(|ended| ended.marker_offset < high_watermark) {
            ended.pop_front();
        }
    }

    /// The aborted transactions that may have records from `from_offset` on and below `below_offset`, by marker.
    pub fn aborted_transactions(&self, from_offset: i64, below_offset: i64) -> Vec<AbortedTransaction> {
        let aborted = &self.transactions.aborted;
        let first = aborted.partition_point(|aborted| aborted.marker_offset < from_offset);
        let mut found = Vec::new();
        for transaction in &aborted[first..] {
            if transaction.first_offset < below_offset {
                found.push(*transaction);
            }
            if transaction.stable_after >= below_offset {
                break;
            }
        }
        found
    }

    /// Where the transaction of a producer's incarnation began that is open in this log.
    pub fn open_transaction(&self, producer_id: i64, producer_epoch: i16) -> Option<i64> {
        self.producers.open_since(producer_id, producer_epoch)
    }

    /// Where the log took in something of a producer last, be it a batch or a marker.
    pub fn last_offset_of(&self, producer_id: i64) -> Option<i64> {
        self.producers.last_offset_of(producer_id)
    }

    /// Takes a batch that is in the log into what is known of producers and transactions.
    pub(super) fn take_in_producer(&mut self, header: &BatchHeader, marker: Option<EndTxnMarker>) {
        let Some(marker) = marker else {
            self.producers.append(header);
            return;
        };
        if let Some(ended) = self.producers.end_transaction(header, marker, self.config.defect) {
            self.transactions.end(ended, marker.result, &self.producers);
        }
    }
}
