//! What of a fetched partition a consumer sees.
//!
//! A reader of what is committed is told with each fetch which transactions of it were aborted: from the first offset of each
//! on, the producer's batches are left out until its abort marker comes. Control batches nobody sees. What lies before the
//! offset asked for is left out too: a batch comes whole.
//!
//! It is told nothing of transactions that are open: the broker does not send what is behind the first of them.
//!
//! Source: Java's CompletedFetch; KIP-98, "Consumer".

use bytes::Bytes;
use riprap_core::client::Isolation;
use riprap_core::op::{Offset, Value};
use riprap_protocol::messages::FetchResponseAbortedTransaction;
use riprap_protocol::records::{BatchError, EndTxnMarker, TxnResult, split_batches};
use std::collections::BTreeSet;

/// One record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fetched {
    pub(crate) offset: Offset,
    pub(crate) value: Value,
    /// The epoch of the leader that appended it.
    pub(crate) leader_epoch: i32,
}

/// What one fetch brought of a partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Readable {
    pub(crate) records: Vec<Fetched>,
    /// The offset and the epoch after all that came, seen or not; none if no whole batch came.
    pub(crate) next: Option<(i64, i32)>,
}

/// Reads what a fetch from offset `from` on brought. A batch that is cut off at the end is left for the next fetch.
///
/// Errors: a batch that is not what was written.
pub(crate) fn readable(
    records: Bytes,
    from: i64,
    mut aborted: Vec<FetchResponseAbortedTransaction>,
    isolation: Isolation,
) -> Result<Readable, BatchError> {
    aborted.sort_by_key(|aborted| aborted.first_offset);
    let mut aborted = aborted.into_iter().peekable();
    let mut aborting = BTreeSet::new();
    let mut read = Readable::default();
    for batch in split_batches(records) {
        let batch = match batch {
            Ok(batch) => batch,
            Err(BatchError::CutOff { .. }) => break,
            Err(wrong) => return Err(wrong),
        };
        let header = *batch.header();
        if isolation == Isolation::ReadCommitted {
            while let Some(begun) = aborted.next_if(|begun| begun.first_offset <= header.last_offset()) {
                aborting.insert(begun.producer_id);
            }
        }
        let is_aborted = header.is_transactional() && aborting.contains(&header.producer_id);
        if header.is_control() {
            let marker = EndTxnMarker::of(&batch);
            if marker.is_some_and(|marker| marker.result == TxnResult::Abort) {
                aborting.remove(&header.producer_id);
            }
        } else if !is_aborted && header.record_count > 0 {
            for record in batch.records()? {
                let record = record?;
                let offset = header.base_offset + i64::from(record.offset_delta);
                if offset >= from {
                    let (offset, value) = (Offset(offset), value(record.value.as_deref()));
                    read.records.push(Fetched { offset, value, leader_epoch: header.leader_epoch });
                }
            }
        }
        read.next = Some((header.next_offset(), header.leader_epoch));
    }
    Ok(read)
}

/// What was sent, read back. Whatever else stands in a record was not sent by riprap: a value that no workload uses makes the
/// checker say so.
fn value(payload: Option<&[u8]>) -> Value {
    match payload {
        None => Value::NIL,
        Some(bytes) => {
            let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
            number.map_or(Value(-1), Value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_protocol::records::BatchBuilder;

    /// Batches in a mini-language: `5` is a record, `5@p1` one of producer 1's transaction, `commit@p1` and `abort@p1` end it.
    fn batches(from: i64, words: &str) -> Bytes {
        let mut bytes = Vec::new();
        for (offset, word) in (from..).zip(words.split_whitespace()) {
            let (what, producer) = word.split_once("@p").map_or((word, None), |(what, id)| {
                (what, Some(id.parse::<i64>().expect("producers are numbers")))
            });
            let marker = |result| {
                let marker = EndTxnMarker { result, coordinator_epoch: 0 };
                marker.to_batch(producer.expect("a marker has a producer"), 0, 0)
            };
            let batch = match (what, producer) {
                ("commit", _) => marker(TxnResult::Commit),
                ("abort", _) => marker(TxnResult::Abort),
                (value, None) => BatchBuilder::new().record(0, None, Some(value.as_bytes())),
                (value, Some(id)) => BatchBuilder::new().transactional().producer(id, 0, 0).record(
                    0,
                    None,
                    Some(value.as_bytes()),
                ),
            };
            bytes.extend_from_slice(&batch.appended(offset, 3).build());
        }
        bytes.into()
    }

    fn aborted(list: &[(i64, i64)]) -> Vec<FetchResponseAbortedTransaction> {
        let one = |(producer_id, first_offset): &(i64, i64)| FetchResponseAbortedTransaction {
            producer_id: *producer_id,
            first_offset: *first_offset,
        };
        list.iter().map(one).collect()
    }

    fn seen(read: &Readable) -> Vec<(i64, i64)> {
        read.records.iter().map(|record| (record.offset.0, record.value.0)).collect()
    }

    #[test]
    fn aborted_records_and_markers_are_left_out() {
        let check = |words: &str, list: &[(i64, i64)], committed: &[(i64, i64)], all: &[(i64, i64)]| {
            let bytes = batches(0, words);
            let read =
                |isolation| readable(bytes.clone(), 0, aborted(list), isolation).expect("whole batches");
            assert_eq!(seen(&read(Isolation::ReadCommitted)), committed, "{words}, committed");
            assert_eq!(seen(&read(Isolation::ReadUncommitted)), all, "{words}, all");
            assert_eq!(
                read(Isolation::ReadCommitted).next,
                Some((words.split_whitespace().count() as i64, 3))
            );
        };
        check("7 8", &[], &[(0, 7), (1, 8)], &[(0, 7), (1, 8)]);
        check("7@p1 8 abort@p1", &[(1, 0)], &[(1, 8)], &[(0, 7), (1, 8)]);
        check("7@p1 8 commit@p1", &[], &[(0, 7), (1, 8)], &[(0, 7), (1, 8)]);
        // After the marker the producer's next transaction counts.
        check("7@p1 abort@p1 8@p1 commit@p1", &[(1, 0)], &[(2, 8)], &[(0, 7), (2, 8)]);
        // Two in a row, and another's in between.
        check(
            "1@p1 2@p2 abort@p1 3@p1 commit@p2 abort@p1 4",
            &[(1, 3), (1, 0)],
            &[(1, 2), (6, 4)],
            &[(0, 1), (1, 2), (3, 3), (6, 4)],
        );
        // A producer whose transaction was aborted may write outside of one.
        check("7@p1 8 9", &[(1, 0)], &[(1, 8), (2, 9)], &[(0, 7), (1, 8), (2, 9)]);
        // Not yet: it begins later than what came.
        check("7@p1", &[(1, 5)], &[(0, 7)], &[(0, 7)]);
    }

    #[test]
    fn what_lies_before_or_is_cut_off_is_left_out() {
        let batch = BatchBuilder::new().record(0, None, Some(b"1")).record(0, None, Some(b"2"));
        let whole = batch.appended(4, 0).build();
        let read = readable(whole.clone(), 5, Vec::new(), Isolation::ReadCommitted).expect("a whole batch");
        assert_eq!((seen(&read), read.next), (vec![(5, 2)], Some((6, 0))));
        let mut bytes = whole.to_vec();
        bytes.extend_from_slice(&batches(6, "3")[..40]);
        let read =
            readable(bytes.into(), 4, Vec::new(), Isolation::ReadCommitted).expect("the rest is cut off");
        assert_eq!((seen(&read), read.next), (vec![(4, 1), (5, 2)], Some((6, 0))));
        let nothing =
            readable(Bytes::new(), 4, Vec::new(), Isolation::ReadCommitted).expect("no batch is no fault");
        assert_eq!(nothing, Readable::default());
    }

    #[test]
    fn a_batch_that_changed_is_an_error() {
        let mut bytes = batches(0, "7").to_vec();
        *bytes.last_mut().expect("a batch has bytes") ^= 1;
        let read = readable(bytes.into(), 0, Vec::new(), Isolation::ReadCommitted);
        assert!(matches!(read, Err(BatchError::Crc { .. })), "{read:?}");
    }

    #[test]
    fn foreign_payloads_are_not_mistaken_for_values() {
        for (payload, expected) in [
            (Some(&b"17"[..]), Value(17)),
            (None, Value::NIL),
            (Some(b"17x"), Value(-1)),
            (Some(&[0xff]), Value(-1)),
        ] {
            assert_eq!(value(payload), expected);
        }
    }
}
