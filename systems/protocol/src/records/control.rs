//! Control records: what a transaction coordinator has written into a partition to end a transaction there.
//!
//! ```text
//! key   := version:i16 type:i16                 type: 0 abort, 1 commit
//! value := version:i16 coordinator_epoch:i32    later versions add to the end
//! ```
//! Each is alone in its batch, which is transactional and of the producer whose transaction it ends, without sequence
//! number. Other types of control records (those of Kafka's metadata log) are not read here.
//!
//! Source: KIP-98, "Control Messages"; Kafka's ControlRecordType, EndTxnMarker.

use super::{BatchBuilder, NO_SEQUENCE, RecordBatch};
use bytes::{Buf, Bytes};

/// The one version of keys and values that is written here.
const VERSION: i16 = 0;

/// How a transaction ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TxnResult {
    /// None of its records counts.
    Abort = 0,
    /// All of its records count.
    Commit = 1,
}

/// The record that ends a producer's transaction in a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndTxnMarker {
    /// How it ends.
    pub result: TxnResult,
    /// The epoch of the coordinator that had it written: an older one must not write any more.
    pub coordinator_epoch: i32,
}

impl EndTxnMarker {
    /// The marker that a batch is; none if it is anything else.
    pub fn of(batch: &RecordBatch) -> Option<EndTxnMarker> {
        let header = batch.header();
        if !header.is_control() || !header.is_transactional() || header.record_count != 1 {
            return None;
        }
        let record = batch.records().ok()?.next()?.ok()?;
        let (mut key, mut value) = (record.key?, record.value?);
        if key.try_get_i16().ok()? < VERSION {
            return None;
        }
        let result = match key.try_get_i16().ok()? {
            0 => TxnResult::Abort,
            1 => TxnResult::Commit,
            _ => return None,
        };
        if value.try_get_i16().ok()? < VERSION {
            return None;
        }
        Some(EndTxnMarker { result, coordinator_epoch: value.try_get_i32().ok()? })
    }

    /// The batch that ends the transaction of a producer, as a leader is to append it.
    pub fn to_batch(self, producer_id: i64, producer_epoch: i16, now_ms: i64) -> BatchBuilder {
        let (key, value) = self.to_record();
        BatchBuilder::new()
            .transactional()
            .control()
            .producer(producer_id, producer_epoch, NO_SEQUENCE)
            .record(now_ms, Some(&key), Some(&value))
    }

    fn to_record(self) -> (Bytes, Bytes) {
        let key = [VERSION.to_be_bytes(), (self.result as i16).to_be_bytes()].concat();
        let value = [&VERSION.to_be_bytes()[..], &self.coordinator_epoch.to_be_bytes()].concat();
        (key.into(), value.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(batch: BatchBuilder) -> Option<EndTxnMarker> {
        EndTxnMarker::of(&RecordBatch::take_first(&mut batch.build()).expect("it was just built"))
    }

    #[test]
    fn a_marker_reads_as_it_was_written() {
        for result in [TxnResult::Abort, TxnResult::Commit] {
            for coordinator_epoch in [0, 7, i32::MAX] {
                let marker = EndTxnMarker { result, coordinator_epoch };
                assert_eq!(read(marker.to_batch(4, 5, 6)), Some(marker));
            }
        }
        // As Kafka writes a commit of coordinator epoch 7.
        let (key, value) = EndTxnMarker { result: TxnResult::Commit, coordinator_epoch: 7 }.to_record();
        assert_eq!((&key[..], &value[..]), (&[0, 0, 0, 1][..], &[0, 0, 0, 0, 0, 7][..]));
    }

    #[test]
    fn what_is_no_marker_is_none() {
        let record = |key: &[u8], value: &[u8]| BatchBuilder::new().record(0, Some(key), Some(value));
        let (key, value) = ([0, 0, 0, 1], [0, 0, 0, 0, 0, 7]);
        let check = |batch: BatchBuilder, is_marker| {
            assert_eq!(read(batch.clone()).is_some(), is_marker, "{batch:?}");
        };
        check(record(&key, &value).transactional().control(), true);
        check(record(&key, &value).transactional(), false);
        check(record(&key, &value).control(), false);
        check(record(&key, &value).record(0, None, None).transactional().control(), false);
        check(BatchBuilder::new().record(0, None, None).transactional().control(), false);
        check(record(&[0, 0, 0, 2], &value).transactional().control(), false);
        check(record(&[255, 255, 0, 1], &value).transactional().control(), false);
        check(record(&key[..3], &value).transactional().control(), false);
        check(record(&key, &value[..5]).transactional().control(), false);
        // A later version says more at the end.
        check(record(&[0, 1, 0, 1], &[0, 1, 0, 0, 0, 7, 9]).transactional().control(), true);
    }
}
