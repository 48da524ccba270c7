//! Batches with records taken out: what compaction leaves.
//!
//! A record stays where it is in its batch's offsets and times, so that its bytes stay as they are; a batch keeps its
//! offsets even if no record is left, and with them its place in its producer's sequence. A filler stands for offsets of
//! which nothing is left at all, so that a log has no gaps: consumers pass over it as over any batch without records.
//!
//! Source: Kafka's MemoryRecords#filterTo, DefaultRecordBatch#writeEmptyHeader.

use super::record::take_record;
use super::{
    ATTRIBUTE_TRANSACTIONAL, BATCH_HEADER_BYTES, BatchError, BatchHeader, Compression, LENGTH_OVERHEAD_BYTES,
    MAGIC, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Record, RecordBatch, TimestampType, seal,
};
use bytes::Bytes;

/// What is left of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Retained {
    /// All of it.
    All,
    /// A batch with fewer records.
    Part(RecordBatch),
    /// No record.
    Nothing,
}

impl RecordBatch {
    /// Takes out the records that are not to be kept. Errors: [`BatchError::Compressed`].
    pub fn retain(&self, mut keep: impl FnMut(i64, &Record) -> bool) -> Result<Retained, BatchError> {
        let header = self.header;
        if header.compression() != Compression::None {
            return Err(BatchError::Compressed(header.compression()));
        }
        let mut rest = self.bytes.slice(BATCH_HEADER_BYTES..);
        let mut kept = Vec::with_capacity(rest.len());
        let (mut count, mut max_timestamp) = (0, i64::MIN);
        for index in 0..header.record_count {
            let before = rest.clone();
            let record = take_record(&mut rest).map_err(|why| BatchError::Record { index, why })?;
            if keep(header.base_offset + i64::from(record.offset_delta), &record) {
                count += 1;
                max_timestamp = max_timestamp.max(header.base_timestamp.wrapping_add(record.timestamp_delta));
                kept.extend_from_slice(&before[..before.len() - rest.len()]);
            }
        }
        if count == header.record_count {
            return Ok(Retained::All);
        }
        if count == 0 {
            return Ok(Retained::Nothing);
        }
        if header.timestamp_type() == TimestampType::LogAppendTime {
            max_timestamp = header.max_timestamp;
        }
        Ok(Retained::Part(rebuilt(BatchHeader { record_count: count, max_timestamp, ..header }, &kept)))
    }

    /// The batch without its records: what it says of its producer is kept, but for the transaction that it belonged to.
    pub fn without_records(&self) -> RecordBatch {
        let attributes = self.header.attributes & !ATTRIBUTE_TRANSACTIONAL & !super::ATTRIBUTE_COMPRESSION;
        rebuilt(BatchHeader { record_count: 0, attributes, ..self.header }, &[])
    }

    /// A batch that stands for offsets of which nothing is left. Panics: there are more than one batch can have, or none.
    pub fn filler(base_offset: i64, last_offset: i64, leader_epoch: i32) -> RecordBatch {
        let last_offset_delta =
            i32::try_from(last_offset - base_offset).expect("a filler has the offsets of one batch");
        assert!(last_offset_delta >= 0, "a filler from {base_offset} to {last_offset} has no offset");
        let header = BatchHeader {
            base_offset,
            size_bytes: BATCH_HEADER_BYTES,
            leader_epoch,
            crc: 0,
            attributes: 0,
            last_offset_delta,
            base_timestamp: -1,
            max_timestamp: -1,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            record_count: 0,
        };
        rebuilt(header, &[])
    }
}

impl BatchHeader {
    /// Whether the batch only stands for its offsets; see [`RecordBatch::filler`].
    pub fn is_filler(&self) -> bool {
        self.record_count == 0 && !self.has_producer() && !self.is_control()
    }
}

/// A batch of these records, with a header that is right for them.
fn rebuilt(header: BatchHeader, records: &[u8]) -> RecordBatch {
    let size_bytes = BATCH_HEADER_BYTES + records.len();
    let length = (size_bytes - LENGTH_OVERHEAD_BYTES) as i32;
    let mut bytes = Vec::with_capacity(size_bytes);
    bytes.extend_from_slice(&header.base_offset.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&header.leader_epoch.to_be_bytes());
    bytes.extend_from_slice(&MAGIC.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&header.attributes.to_be_bytes());
    bytes.extend_from_slice(&header.last_offset_delta.to_be_bytes());
    bytes.extend_from_slice(&header.base_timestamp.to_be_bytes());
    bytes.extend_from_slice(&header.max_timestamp.to_be_bytes());
    bytes.extend_from_slice(&header.producer_id.to_be_bytes());
    bytes.extend_from_slice(&header.producer_epoch.to_be_bytes());
    bytes.extend_from_slice(&header.base_sequence.to_be_bytes());
    bytes.extend_from_slice(&header.record_count.to_be_bytes());
    bytes.extend_from_slice(records);
    seal(&mut bytes);
    let mut bytes = Bytes::from(bytes);
    RecordBatch::take_first(&mut bytes).expect("a batch that was read, with fewer records, can be read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::BatchBuilder;

    fn read(mut bytes: Bytes) -> RecordBatch {
        RecordBatch::take_first(&mut bytes).expect("it was just built")
    }

    /// Records 10 to 13 with values a b c d, at 100 105 103 104, of a transaction.
    fn batch() -> RecordBatch {
        let values = [(100, "a"), (105, "b"), (103, "c"), (104, "d")];
        let builder = values.iter().fold(BatchBuilder::new(), |builder, (ms, value)| {
            builder.record_with_headers(*ms, Some(b"k"), Some(value.as_bytes()), &[(b"h", None)])
        });
        read(builder.producer(7, 2, 40).transactional().appended(10, 3).build())
    }

    #[test]
    fn what_is_left_stays_where_it_was() {
        /// Offset, timestamp and value of a record.
        type Row<'a> = (i64, i64, &'a str);
        let check = |keep: &str, expect: Option<(i64, &[Row<'_>])>| {
            let whole = batch();
            let keep = |_: i64, record: &Record| {
                let value = record.value.clone().expect("all have values");
                keep.as_bytes().contains(&value[0])
            };
            let (max, records) = match (whole.retain(keep).expect("it can be read"), expect) {
                (Retained::Nothing, None) => return,
                (Retained::All, Some(expect)) => {
                    assert_eq!(expect.1.len(), 4);
                    return;
                }
                (Retained::Part(part), Some((max, records))) => {
                    let (was, is) = (*whole.header(), *part.header());
                    assert_eq!((is.base_offset, is.last_offset(), is.leader_epoch), (10, 13, 3));
                    assert_eq!((is.base_sequence, is.last_sequence()), (40, was.last_sequence()));
                    assert!(is.is_transactional() && is.producer_id == 7 && is.producer_epoch == 2);
                    assert_eq!(is.max_timestamp, max);
                    let found = part.records().expect("it is not compressed").map(|record| {
                        let record = record.expect("it can be read");
                        let value = String::from_utf8(record.value.expect("it has one").to_vec());
                        let offset = 10 + i64::from(record.offset_delta);
                        assert_eq!(record.headers.remaining(), 1);
                        (offset, is.base_timestamp + record.timestamp_delta, value.expect("it is a letter"))
                    });
                    (max, (found.collect::<Vec<_>>(), records))
                }
                (other, expect) => panic!("{other:?} instead of {expect:?}"),
            };
            let expect: Vec<_> =
                records.1.iter().map(|(o, ms, value)| (*o, *ms, (*value).to_owned())).collect();
            assert_eq!(records.0, expect, "{max}");
        };
        check("abcd", Some((105, &[(10, 100, "a"), (11, 105, "b"), (12, 103, "c"), (13, 104, "d")])));
        check("abc", Some((105, &[(10, 100, "a"), (11, 105, "b"), (12, 103, "c")])));
        check("cd", Some((104, &[(12, 103, "c"), (13, 104, "d")])));
        check("a", Some((100, &[(10, 100, "a")])));
        check("", None);
    }

    #[test]
    fn a_batch_without_records_keeps_its_producer_and_offsets() {
        let empty = batch().without_records();
        let header = empty.header();
        assert_eq!((header.base_offset, header.last_offset(), header.record_count), (10, 13, 0));
        assert_eq!((header.producer_id, header.producer_epoch, header.last_sequence()), (7, 2, 43));
        assert!(!header.is_transactional() && !header.is_filler());
        assert_eq!(empty.records().expect("none is compressed").count(), 0);
        assert_eq!(empty.without_records(), empty);
    }

    #[test]
    fn a_filler_stands_for_offsets() {
        let filler = RecordBatch::filler(5, 9, 2);
        let header = filler.header();
        assert!(header.is_filler() && !batch().header().is_filler());
        assert_eq!((header.base_offset, header.next_offset(), header.leader_epoch), (5, 10, 2));
        assert_eq!(filler.bytes().len(), BATCH_HEADER_BYTES);
    }
}
