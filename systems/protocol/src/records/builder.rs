//! Batches made here rather than by a client.

use super::{
    ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL, BATCH_HEADER_BYTES, LENGTH_OVERHEAD_BYTES, MAGIC,
    NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, seal,
};
use bytes::Bytes;

/// Makes batches: control records, records of internal topics, and what tests need.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    attributes: i16,
    base_offset: i64,
    leader_epoch: i32,
    producer: (i64, i16, i32),
    base_timestamp: i64,
    max_timestamp: i64,
    count: i32,
    records: Vec<u8>,
}

impl Default for BatchBuilder {
    fn default() -> BatchBuilder {
        BatchBuilder::new()
    }
}

impl BatchBuilder {
    /// An empty batch as a producer sends it: base offset 0, no leader epoch, not idempotent.
    pub fn new() -> BatchBuilder {
        BatchBuilder {
            attributes: 0,
            base_offset: 0,
            leader_epoch: NO_LEADER_EPOCH,
            producer: (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE),
            base_timestamp: -1,
            max_timestamp: -1,
            count: 0,
            records: Vec::new(),
        }
    }

    /// Sets what a leader would write into the batch.
    #[must_use]
    pub fn appended(self, base_offset: i64, leader_epoch: i32) -> BatchBuilder {
        BatchBuilder { base_offset, leader_epoch, ..self }
    }

    /// Sets the idempotent producer and the sequence number of the first record.
    #[must_use]
    pub fn producer(self, producer_id: i64, producer_epoch: i16, base_sequence: i32) -> BatchBuilder {
        BatchBuilder { producer: (producer_id, producer_epoch, base_sequence), ..self }
    }

    /// Marks the records as part of a transaction.
    #[must_use]
    pub fn transactional(self) -> BatchBuilder {
        BatchBuilder { attributes: self.attributes | ATTRIBUTE_TRANSACTIONAL, ..self }
    }

    /// Marks the batch as a control batch.
    #[must_use]
    pub fn control(self) -> BatchBuilder {
        BatchBuilder { attributes: self.attributes | ATTRIBUTE_CONTROL, ..self }
    }

    /// Adds a record without headers.
    #[must_use]
    pub fn record(self, timestamp_ms: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> BatchBuilder {
        self.record_with_headers(timestamp_ms, key, value, &[])
    }

    /// Adds a record.
    #[must_use]
    pub fn record_with_headers(
        mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> BatchBuilder {
        if self.count == 0 {
            self.base_timestamp = timestamp_ms;
            self.max_timestamp = timestamp_ms;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp_ms);
        let mut body = vec![0];
        put_varlong(&mut body, timestamp_ms.wrapping_sub(self.base_timestamp));
        put_varlong(&mut body, self.count.into());
        put_bytes(&mut body, key);
        put_bytes(&mut body, value);
        put_varlong(&mut body, headers.len() as i64);
        for (key, value) in headers {
            put_bytes(&mut body, Some(key));
            put_bytes(&mut body, *value);
        }
        put_varlong(&mut self.records, body.len() as i64);
        self.records.extend_from_slice(&body);
        self.count += 1;
        self
    }

    /// The batch. Panics: it is larger than 2 GiB, or has no record.
    pub fn build(self) -> Bytes {
        assert!(self.count > 0, "a batch without records would have no last offset");
        let size = BATCH_HEADER_BYTES + self.records.len();
        let length = i32::try_from(size - LENGTH_OVERHEAD_BYTES).expect("a built batch is small");
        let (producer_id, producer_epoch, base_sequence) = self.producer;
        let mut bytes = Vec::with_capacity(size);
        bytes.extend_from_slice(&self.base_offset.to_be_bytes());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&self.leader_epoch.to_be_bytes());
        bytes.extend_from_slice(&MAGIC.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.attributes.to_be_bytes());
        bytes.extend_from_slice(&(self.count - 1).to_be_bytes());
        bytes.extend_from_slice(&self.base_timestamp.to_be_bytes());
        bytes.extend_from_slice(&self.max_timestamp.to_be_bytes());
        bytes.extend_from_slice(&producer_id.to_be_bytes());
        bytes.extend_from_slice(&producer_epoch.to_be_bytes());
        bytes.extend_from_slice(&base_sequence.to_be_bytes());
        bytes.extend_from_slice(&self.count.to_be_bytes());
        bytes.extend_from_slice(&self.records);
        seal(&mut bytes);
        bytes.into()
    }
}

pub(super) fn put_varlong(to: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    while rest >= 0x80 {
        to.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    to.push(rest as u8);
}

fn put_bytes(to: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varlong(to, -1),
        Some(bytes) => {
            put_varlong(to, bytes.len() as i64);
            to.extend_from_slice(bytes);
        }
    }
}
