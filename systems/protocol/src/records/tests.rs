//! Batches made here and by the kafka-protocol crate are the same bytes, and no bytes make the reader panic.

use super::*;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records as oracle;
use proptest::prelude::*;

type KeyValue = (Option<Vec<u8>>, Option<Vec<u8>>);

/// What a record is made of: milliseconds after the first record's timestamp, key, value, headers by rising key.
#[derive(Clone, Debug)]
struct Made {
    after_ms: i64,
    key_value: KeyValue,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

#[derive(Clone, Debug)]
struct MadeBatch {
    base_offset: i64,
    leader_epoch: i32,
    producer: Option<(i64, i16, i32)>,
    transactional: bool,
    control: bool,
    timestamp_ms: i64,
    records: Vec<Made>,
}

fn small_bytes() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop::option::of(prop::collection::vec(any::<u8>(), 0..100))
}

fn made() -> impl Strategy<Value = Made> {
    let headers = prop::collection::btree_map("[a-z]{0,3}", small_bytes(), 0..4);
    let after_ms = prop_oneof![0..1000_i64, 0..1_i64 << 40];
    (after_ms, (small_bytes(), small_bytes()), headers).prop_map(|(after_ms, key_value, headers)| Made {
        after_ms,
        key_value,
        headers: headers.into_iter().collect(),
    })
}

fn made_batch() -> impl Strategy<Value = MadeBatch> {
    let producer = prop::option::of((0..1_i64 << 40, 0..i16::MAX, 0..1_000_000));
    let flags = (any::<bool>(), any::<bool>());
    let records = prop::collection::vec(made(), 1..8);
    (0..1_i64 << 40, 0..100, producer, flags, 0..1_i64 << 41, records).prop_map(
        |(base_offset, leader_epoch, producer, (transactional, control), timestamp_ms, mut records)| {
            records[0].after_ms = 0;
            MadeBatch { base_offset, leader_epoch, producer, transactional, control, timestamp_ms, records }
        },
    )
}

impl MadeBatch {
    fn build(&self) -> Bytes {
        let mut builder = BatchBuilder::new().appended(self.base_offset, self.leader_epoch);
        if let Some((id, epoch, sequence)) = self.producer {
            builder = builder.producer(id, epoch, sequence);
        }
        if self.transactional {
            builder = builder.transactional();
        }
        if self.control {
            builder = builder.control();
        }
        for Made { after_ms, key_value: (key, value), headers } in &self.records {
            let headers: Vec<(&[u8], Option<&[u8]>)> =
                headers.iter().map(|(key, value)| (key.as_bytes(), value.as_deref())).collect();
            let timestamp_ms = self.timestamp_ms + after_ms;
            builder = builder.record_with_headers(timestamp_ms, key.as_deref(), value.as_deref(), &headers);
        }
        builder.build()
    }

    /// The records as the oracle has them.
    fn oracle(&self) -> Vec<oracle::Record> {
        let (producer_id, producer_epoch, base_sequence) =
            self.producer.unwrap_or((NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE));
        (0..)
            .zip(&self.records)
            .map(|(index, made)| oracle::Record {
                transactional: self.transactional,
                control: self.control,
                delete_horizon: false,
                partition_leader_epoch: self.leader_epoch,
                producer_id,
                producer_epoch,
                timestamp_type: oracle::TimestampType::Creation,
                offset: self.base_offset + i64::from(index),
                sequence: base_sequence + index,
                timestamp: self.timestamp_ms + made.after_ms,
                key: made.key_value.0.clone().map(Bytes::from),
                value: made.key_value.1.clone().map(Bytes::from),
                headers: made
                    .headers
                    .iter()
                    .map(|(key, value)| (StrBytes::from_string(key.clone()), value.clone().map(Bytes::from)))
                    .collect(),
            })
            .collect()
    }
}

fn parse_one(bytes: &Bytes) -> Result<RecordBatch, BatchError> {
    let mut rest = bytes.clone();
    let batch = RecordBatch::take_first(&mut rest)?;
    assert!(rest.is_empty());
    Ok(batch)
}

/// Reads all that can be read of some bytes.
fn read_all(bytes: Bytes) -> Result<Vec<Record>, BatchError> {
    let mut records = Vec::new();
    for batch in split_batches(bytes) {
        let batch = batch?;
        let header = batch.header();
        let _ =
            (header.last_sequence(), header.next_offset(), header.compression(), batch.check_for_append());
        for record in batch.records()? {
            let record = record?;
            assert_eq!(record.headers.clone().count(), usize::try_from(record.headers.remaining()).unwrap());
            records.push(record);
        }
    }
    Ok(records)
}

proptest! {
    #[test]
    fn batches_are_those_of_kafka_protocol(made in made_batch()) {
        let mut expect = bytes::BytesMut::new();
        let options = oracle::RecordEncodeOptions { version: 2, compression: oracle::Compression::None };
        oracle::RecordBatchEncoder::encode(&mut expect, &made.oracle(), &options).unwrap();
        let bytes = made.build();
        prop_assert_eq!(&bytes[..], &expect[..]);

        let decoded = oracle::RecordBatchDecoder::decode(&mut bytes.clone()).unwrap();
        prop_assert_eq!(decoded.records.len(), made.records.len());
    }

    #[test]
    fn what_was_built_is_read_back(made in made_batch()) {
        let bytes = made.build();
        let batch = parse_one(&bytes).unwrap();
        let header = *batch.header();
        let count = i32::try_from(made.records.len()).unwrap();
        prop_assert_eq!(batch.check_for_append(), Ok(()));
        prop_assert_eq!(batch.bytes(), &bytes);
        prop_assert_eq!(header.size_bytes, bytes.len());
        prop_assert_eq!((header.base_offset, header.next_offset()), (made.base_offset, made.base_offset + i64::from(count)));
        prop_assert_eq!(header.leader_epoch, made.leader_epoch);
        prop_assert_eq!((header.is_control(), header.is_transactional()), (made.control, made.transactional));
        prop_assert_eq!(header.compression(), Compression::None);
        prop_assert_eq!(header.timestamp_type(), TimestampType::CreateTime);
        let max_ms = made.records.iter().map(|r| r.after_ms).max().unwrap() + made.timestamp_ms;
        prop_assert_eq!(header.max_timestamp, max_ms);
        match made.producer {
            None => prop_assert_eq!((header.has_producer(), header.last_sequence()), (false, NO_SEQUENCE)),
            Some((id, epoch, sequence)) => {
                prop_assert_eq!((header.producer_id, header.producer_epoch), (id, epoch));
                prop_assert_eq!((header.base_sequence, header.last_sequence()), (sequence, sequence + count - 1));
            }
        }
        for (index, (record, made_record)) in (0..).zip(batch.records().unwrap().zip(&made.records)) {
            let record = record.unwrap();
            prop_assert_eq!(record.offset_delta, index);
            prop_assert_eq!(record.timestamp_delta, made_record.after_ms);
            let (key, value) = made_record.key_value.clone();
            prop_assert_eq!((record.key, record.value), (key.map(Bytes::from), value.map(Bytes::from)));
            let headers: Vec<_> = record.headers.map(|(k, v)| (String::from_utf8(k.to_vec()).unwrap(), v.map(|v| v.to_vec()))).collect();
            prop_assert_eq!(&headers, &made_record.headers);
        }
    }

    #[test]
    fn a_leader_s_offset_and_epoch_leave_the_rest_as_it_was(made in made_batch(), base in 0..1_i64 << 40, epoch in 0..1000) {
        let mut bytes = made.build().to_vec();
        set_offset_and_epoch(&mut bytes, base, epoch);
        let placed = MadeBatch { base_offset: base, leader_epoch: epoch, ..made };
        prop_assert_eq!(Bytes::from(bytes.clone()), placed.build());

        set_log_append_time(&mut bytes, 77);
        let batch = parse_one(&bytes.into()).unwrap();
        prop_assert_eq!((batch.header().timestamp_type(), batch.header().max_timestamp), (TimestampType::LogAppendTime, 77));
        prop_assert_eq!(batch.check_for_append(), Ok(()));
    }

    #[test]
    fn batches_are_split_where_they_end(made in prop::collection::vec(made_batch(), 0..4), cut in any::<prop::sample::Index>()) {
        let each: Vec<Bytes> = made.iter().map(MadeBatch::build).collect();
        let all = Bytes::from(each.concat());
        let split: Vec<Bytes> = split_batches(all.clone()).map(|b| b.unwrap().bytes().clone()).collect();
        prop_assert_eq!(&split, &each);
        if !all.is_empty() {
            let cut = cut.index(all.len());
            let whole = each.iter().scan(0, |end, b| { *end += b.len(); Some(*end) }).filter(|end| *end <= cut).count();
            let ends = each[..whole].iter().map(Bytes::len).sum::<usize>();
            let split: Vec<_> = split_batches(all.slice(..cut)).collect();
            prop_assert_eq!(split.iter().filter(|b| b.is_ok()).count(), whole);
            prop_assert_eq!(split.len(), whole + usize::from(ends < cut));
        }
    }

    #[test]
    fn a_changed_byte_is_noticed(made in made_batch(), at in any::<prop::sample::Index>(), mask in 1..=u8::MAX) {
        let mut bytes = made.build().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= mask;
        let read = parse_one(&bytes.clone().into());
        // Base offset and leader epoch are the leader's to write: the CRC does not cover them.
        if !(0..8).contains(&at) && !(12..16).contains(&at) {
            prop_assert!(read.is_err(), "byte {at}");
        }
        let _ = read_all(bytes.into());
    }

    /// The CRC keeps nobody out who can compute it: what is behind it must stand hostile bytes too.
    #[test]
    fn hostile_bytes_with_a_right_crc_never_panic(
        made in made_batch(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        count in prop::option::of(any::<i32>()),
    ) {
        let mut bytes = made.build().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len() - CRC_START) + CRC_START;
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(BATCH_HEADER_BYTES + cut.index(bytes.len() - BATCH_HEADER_BYTES));
            let length = i32::try_from(bytes.len() - LENGTH_OVERHEAD_BYTES).unwrap();
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
        }
        if let Some(count) = count {
            bytes[57..61].copy_from_slice(&count.to_be_bytes());
        }
        seal(&mut bytes);
        let _ = read_all(bytes.into());
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_all(bytes.into());
    }

    #[test]
    fn varints_round_trip(number in any::<i64>(), shift in 0..64_u32) {
        let number = number >> shift;
        let mut bytes = Vec::new();
        builder::put_varlong(&mut bytes, number);
        prop_assert_eq!(record::take_varlong(&mut Bytes::from(bytes)), Ok(number));
    }
}

/// A batch of one record, with some bytes of it replaced and its CRC made right again.
fn altered(alter: impl FnOnce(&mut Vec<u8>)) -> Result<(), BatchError> {
    let mut bytes =
        BatchBuilder::new().record_with_headers(1, Some(b"k"), Some(b"v"), &[(b"h", None)]).build().to_vec();
    alter(&mut bytes);
    seal(&mut bytes);
    parse_one(&bytes.into())?.check_for_append()
}

#[test]
fn what_a_producer_must_not_send_is_refused_by_name() {
    let set =
        |at: usize, new: &'static [u8]| altered(move |bytes| bytes[at..at + new.len()].copy_from_slice(new));
    let record = |why| Err(BatchError::Record { index: 0, why });
    // The record: length 11, attributes, timestamp delta, offset delta, "k", "v", one header "h" with a null value.
    let size_bytes = BATCH_HEADER_BYTES + 12;
    assert_eq!(set(16, &[2]), Ok(()));
    assert_eq!(set(16, &[1]), Err(BatchError::Magic(1)));
    assert_eq!(set(8, &[0, 0, 0, 48]), Err(BatchError::Length(48)));
    assert_eq!(set(8, &[0xff; 4]), Err(BatchError::Length(-1)));
    assert_eq!(set(22, &[5]), Err(BatchError::Compression(5)));
    assert_eq!(set(22, &[1]), Ok(()), "compressed records are not looked into");
    assert_eq!(set(0, &[0x80]), Err(BatchError::Offsets { base_offset: i64::MIN, last_offset_delta: 0 }));
    assert_eq!(
        set(0, &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        Err(BatchError::Offsets { base_offset: i64::MAX, last_offset_delta: 0 })
    );
    for (count, last_offset_delta) in [(0, 0), (2, 0), (2, 1), (1, 1), (-1, 0), (i32::MAX, i32::MAX)] {
        let got = altered(|bytes| {
            bytes[23..27].copy_from_slice(&i32::to_be_bytes(last_offset_delta));
            bytes[57..61].copy_from_slice(&i32::to_be_bytes(count));
        });
        assert_eq!(got, Err(BatchError::Count { count, last_offset_delta, size_bytes }), "{count}");
    }
    assert_eq!(set(61, &[24]), record("length is past the batch's end"));
    assert_eq!(set(61, &[1]), record("negative length"));
    assert_eq!(set(61, &[0]), record("length is too small"));
    assert_eq!(set(61, &[18]), record("key, value or header is past the record's end"));
    assert_eq!(set(64, &[2]), record("offset delta is not its place in the batch"));
    assert_eq!(set(65, &[3]), record("negative length of key, value or header"));
    assert_eq!(set(65, &[0xff; 6]), record("varint has more than 32 bits"));
    assert_eq!(set(69, &[1]), record("negative number of headers"));
    assert_eq!(set(69, &[0]), record("length is too large"));
    assert_eq!(set(70, &[1]), record("header key is null"));
    let grown = altered(|bytes| {
        bytes.push(0);
        let length = i32::try_from(bytes.len() - LENGTH_OVERHEAD_BYTES).unwrap();
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
    });
    assert_eq!(grown, Err(BatchError::Record { index: 1, why: "bytes after the last record" }));
}

#[test]
fn sequences_wrap_to_zero() {
    let check = |sequence, by, expect| assert_eq!(add_sequence(sequence, by), expect, "{sequence} + {by}");
    check(0, 0, 0);
    check(5, 3, 8);
    check(i32::MAX, 1, 0);
    check(i32::MAX - 1, 4, 2);
    check(i32::MAX, i32::MAX, i32::MAX - 1);
}
