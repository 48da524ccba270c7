//! What a coordinator keeps in its partition of `__transaction_state`: the state of each transactional id.
//!
//! ```text
//! key    := 0:i16 transactional_id:string
//! value  := 1:i16 producer_id:i64 producer_epoch:i16 timeout_ms:i32 state:i8 topic[] -1:i64 -1:i64 tag[]
//! topic  := name:text partition:i32[] 0:tags
//! tag[]  := count:varint (tag:varint size:varint ...)*
//!           0: previous_producer_id:i64   1: next_producer_id:i64   1000: previous_producer_epoch:i16
//! string := length:i16 byte*      text, [] := length + 1:varint ...
//! ```
//! The layout is Kafka's, so that its tools can print the topic of a bundled broker. Tag 1000 is ours, which they skip:
//! Kafka does not write down the epoch that a producer had before, so that after a fail-over a producer which asks again
//! for an epoch whose answer was lost is fenced (KAFKA-20310 is about the id alone). The two times are -1, for
//! nobody here reads them.
//!
//! Source: Kafka's message definitions TransactionLogKey, TransactionLogValue; KIP-915 for the versions.

use super::transaction::{Producer, State, TopicPartition, Transaction};
use crate::group::{Cursor, Record, RecordError};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::collections::{BTreeMap, BTreeSet};

const KEY: i16 = 0;
const VALUE: i16 = 1;
const NO_TIMESTAMP: i64 = -1;
const PREVIOUS_PRODUCER_ID: u32 = 0;
const NEXT_PRODUCER_ID: u32 = 1;
const PREVIOUS_PRODUCER_EPOCH: u32 = 1000;

/// The record of an id; without a transaction the one that forgets it.
pub(super) fn to_record(id: &str, transaction: Option<&Transaction>) -> Record {
    let mut key = BytesMut::new();
    key.put_i16(KEY);
    key.put_i16(i16::try_from(id.len()).expect("it came over the wire, where strings have the same limit"));
    key.put_slice(id.as_bytes());
    Record { key: key.freeze(), value: transaction.map(value_of) }
}

fn value_of(transaction: &Transaction) -> Bytes {
    let mut value = BytesMut::new();
    value.put_i16(VALUE);
    value.put_i64(transaction.producer.id);
    value.put_i16(transaction.producer.epoch);
    value.put_i32(transaction.timeout_ms);
    value.put_i8(transaction.state as i8);
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in &transaction.partitions {
        topics.entry(&partition.topic).or_default().push(partition.index);
    }
    put_len(&mut value, topics.len());
    for (topic, partitions) in topics {
        put_len(&mut value, topic.len());
        value.put_slice(topic.as_bytes());
        put_len(&mut value, partitions.len());
        partitions.into_iter().for_each(|index| value.put_i32(index));
        put_varint(&mut value, 0);
    }
    value.put_i64(NO_TIMESTAMP);
    value.put_i64(NO_TIMESTAMP);
    let mut tags: Vec<(u32, Vec<u8>)> = Vec::new();
    if let Some(previous) = transaction.previous {
        tags.push((PREVIOUS_PRODUCER_ID, previous.id.to_be_bytes().to_vec()));
    }
    if let Some(next_id) = transaction.next_id {
        tags.push((NEXT_PRODUCER_ID, next_id.to_be_bytes().to_vec()));
    }
    if let Some(previous) = transaction.previous {
        tags.push((PREVIOUS_PRODUCER_EPOCH, previous.epoch.to_be_bytes().to_vec()));
    }
    put_varint(&mut value, tags.len() as u32);
    for (tag, field) in tags {
        put_varint(&mut value, tag);
        put_varint(&mut value, field.len() as u32);
        value.put_slice(&field);
    }
    value.freeze()
}

/// The id that a record is about, and its state; none if the record removes it.
pub(super) fn from_record(
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<(String, Option<Transaction>), RecordError> {
    let mut key = Cursor { left: key, what: "key" };
    key.version(KEY, "0")?;
    let len = usize::try_from(key.get(Buf::try_get_i16)?).map_err(|_| RecordError::Text("key"))?;
    let id = key.text_of(len)?;
    key.finish()?;
    Ok((id, value.map(transaction_of).transpose()?))
}

fn transaction_of(value: &[u8]) -> Result<Transaction, RecordError> {
    let mut value = Cursor { left: value, what: "value" };
    value.version(VALUE, "1")?;
    let producer = Producer { id: value.get(Buf::try_get_i64)?, epoch: value.get(Buf::try_get_i16)? };
    let timeout_ms = value.get(Buf::try_get_i32)?;
    let state = i16::from(value.get(Buf::try_get_i8)?);
    let known = "a state from 0 to 5";
    let state =
        State::from_code(state).ok_or(RecordError::Version { what: "state", version: state, known })?;
    let mut partitions = BTreeSet::new();
    // A count that lies runs into the end: nothing is reserved for it.
    for _ in 0..value.len()? {
        let len = value.len()?;
        let topic = value.text_of(len)?;
        for _ in 0..value.len()? {
            let index = value.get(Buf::try_get_i32)?;
            partitions.insert(TopicPartition { topic: topic.clone(), index });
        }
        value.tags(|_, _| Ok(()))?;
    }
    value.get(Buf::try_get_i64)?;
    value.get(Buf::try_get_i64)?;
    let (mut previous_id, mut previous_epoch, mut next_id) = (None, None, None);
    value.tags(|tag, field| {
        match tag {
            PREVIOUS_PRODUCER_ID => previous_id = Some(field.get(Buf::try_get_i64)?),
            NEXT_PRODUCER_ID => next_id = Some(field.get(Buf::try_get_i64)?),
            PREVIOUS_PRODUCER_EPOCH => previous_epoch = Some(field.get(Buf::try_get_i16)?),
            _ => {}
        }
        Ok(())
    })?;
    value.finish()?;
    let previous = previous_id.zip(previous_epoch).map(|(id, epoch)| Producer { id, epoch });
    Ok(Transaction { producer, previous, next_id, timeout_ms, state, partitions })
}

fn put_len(out: &mut BytesMut, len: usize) {
    put_varint(out, u32::try_from(len).expect("the coordinator's limits are far below") + 1);
}

fn put_varint(out: &mut BytesMut, mut number: u32) {
    while number >= 0x80 {
        out.put_u8((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}

/// What flexible versions have beside what groups' records are made of.
impl<'a> Cursor<'a> {
    fn varint(&mut self) -> Result<u32, RecordError> {
        let mut number = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.get(Buf::try_get_u8)?;
            number |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(RecordError::Long { what: self.what, count: 1 })
    }

    fn len(&mut self) -> Result<usize, RecordError> {
        Ok(self.varint()?.saturating_sub(1) as usize)
    }

    fn tags(
        &mut self,
        mut take_in: impl FnMut(u32, &mut Cursor<'a>) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        for _ in 0..self.varint()? {
            let (tag, size) = (self.varint()?, self.varint()?);
            let mut field = Cursor { left: self.take(size as usize)?, what: self.what };
            take_in(tag, &mut field)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn producer() -> impl Strategy<Value = Producer> {
        (any::<i64>(), any::<i16>()).prop_map(|(id, epoch)| Producer { id, epoch })
    }

    fn transaction() -> impl Strategy<Value = Transaction> {
        let state = (0..6_i16).prop_map(|code| State::from_code(code).expect("a code of a state"));
        let partition = (".{0,200}", any::<i32>()).prop_map(|(topic, index)| TopicPartition { topic, index });
        let partitions = prop::collection::btree_set(partition, 0..6);
        let previous = prop::option::of(producer());
        let next_id = prop::option::of(any::<i64>());
        (producer(), previous, next_id, any::<i32>(), state, partitions).prop_map(
            |(producer, previous, next_id, timeout_ms, state, partitions)| Transaction {
                producer,
                previous,
                next_id,
                timeout_ms,
                state,
                partitions,
            },
        )
    }

    proptest! {
        #[test]
        fn a_record_reads_as_it_was_written(id in ".{0,20}", transaction in transaction()) {
            let record = to_record(&id, Some(&transaction));
            prop_assert_eq!(from_record(&record.key, record.value.as_deref()), Ok((id.clone(), Some(transaction))));
            let forgotten = to_record(&id, None);
            prop_assert_eq!(from_record(&forgotten.key, forgotten.value.as_deref()), Ok((id, None)));
            // Cut short anywhere, or with more at the end, it is an error.
            let value = record.value.expect("a transaction has a value");
            for cut in 0..value.len() {
                prop_assert!(from_record(&record.key, Some(&value[..cut])).is_err());
            }
            let longer = [&value[..], &[0]].concat();
            prop_assert_eq!(from_record(&record.key, Some(&longer)), Err(RecordError::Long { what: "value", count: 1 }));
        }

        #[test]
        fn any_bytes_never_panic(key in prop::collection::vec(any::<u8>(), 0..20), rest in prop::collection::vec(any::<u8>(), 0..60)) {
            let _read = from_record(&key, Some(&rest));
            let value = [&VALUE.to_be_bytes()[..], &rest].concat();
            let _read = from_record(&[0, 0, 0, 0], Some(&value));
        }
    }

    #[test]
    fn the_layout_is_kafka_s() {
        let partition = |topic: &str, index| TopicPartition { topic: topic.to_owned(), index };
        let transaction = Transaction {
            producer: Producer { id: 9, epoch: 2 },
            previous: None,
            next_id: None,
            timeout_ms: 1000,
            state: State::Ongoing,
            partitions: BTreeSet::from([partition("a", 0), partition("a", 3), partition("b", 1)]),
        };
        let record = to_record("id", Some(&transaction));
        assert_eq!(&record.key[..], b"\0\0\0\x02id");
        let expect = [
            &[0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 0, 0, 3, 232, 1, 3][..],
            &[2, b'a', 3, 0, 0, 0, 0, 0, 0, 0, 3, 0, 2, b'b', 2, 0, 0, 0, 1, 0],
            &[255; 16],
            &[0],
        ];
        assert_eq!(&record.value.expect("it has one")[..], expect.concat());
    }
}
