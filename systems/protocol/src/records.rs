//! Record batches (version 2): what producers send, logs store and consumers get, byte for byte the same.
//!
//! ```text
//! batch  := base_offset:i64 length:i32 leader_epoch:i32 magic:i8(2) crc:u32 attributes:i16 last_offset_delta:i32
//!           base_timestamp:i64 max_timestamp:i64 producer_id:i64 producer_epoch:i16 base_sequence:i32 count:i32
//!           record*                                       61 bytes of header; length counts what follows it
//! record := length:varint attributes:i8 timestamp_delta:varlong offset_delta:varint
//!           key value headers:varint header*              key and value: a varint length, -1 for null, and bytes
//! header := key value                                     the key is never null
//! attributes: bits 0-2 compression, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
//! ```
//! The CRC (CRC-32C) covers all from `attributes` on, so a leader writes base offset and leader epoch in place.
//!
//! Compressed records are passed on as they came: their records cannot be seen here.
//!
//! Source: KIP-98, "Message Format"; Kafka's documentation, "Record Batch".

mod builder;
mod control;
mod record;
mod retain;
#[cfg(test)]
mod tests;

pub use builder::BatchBuilder;
pub use control::{EndTxnMarker, TxnResult};
pub use record::{Headers, Record, Records};
pub use retain::Retained;

use bytes::{Buf, Bytes};
use thiserror::Error;

/// Units: bytes. The smallest batch: a header and no record.
pub const BATCH_HEADER_BYTES: usize = 61;

/// Units: bytes. The part of a header that a batch's `length` does not count.
const LENGTH_OVERHEAD_BYTES: usize = 12;

/// Where the bytes that the CRC covers begin.
const CRC_START: usize = 21;

/// The one version of the format that is spoken here.
const MAGIC: i8 = 2;

/// Units: bytes. A record without key, value and headers: seven varints and bytes.
const RECORD_MIN_BYTES: usize = 7;

/// The producer id of a batch that is not idempotent.
pub const NO_PRODUCER_ID: i64 = -1;

/// The producer epoch of a batch that is not idempotent.
pub const NO_PRODUCER_EPOCH: i16 = -1;

/// The base sequence of a batch that is not idempotent.
pub const NO_SEQUENCE: i32 = -1;

/// The leader epoch of a batch that no leader has appended yet.
pub const NO_LEADER_EPOCH: i32 = -1;

/// Why bytes are not a batch.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BatchError {
    /// The bytes end before the batch does.
    #[error("batch of {need} bytes is cut off after {have}")]
    CutOff {
        /// Units: bytes.
        need: usize,
        /// Units: bytes.
        have: usize,
    },
    /// The length field is smaller than a header.
    #[error("batch length {0}: at least 49 is needed for the header")]
    Length(i32),
    /// Another version of the format, or no batch at all.
    #[error("batch magic {0}: only 2 is supported")]
    Magic(i8),
    /// The bytes changed since they were written.
    #[error("batch crc {stored:#010x}: the bytes have {computed:#010x}")]
    Crc {
        /// As the batch says.
        stored: u32,
        /// As its bytes are.
        computed: u32,
    },
    /// No codec has this number.
    #[error("compression {0}: one of 0 (none), 1 (gzip), 2 (snappy), 3 (lz4), 4 (zstd)")]
    Compression(i16),
    /// Base offset and last offset delta are negative, or their sum is too large.
    #[error("base offset {base_offset} and last offset delta {last_offset_delta} are no range of offsets")]
    Offsets {
        /// As the batch says.
        base_offset: i64,
        /// As the batch says.
        last_offset_delta: i32,
    },
    /// More records than its bytes or offsets have room for, or fewer than none.
    #[error("record count {count} with last offset delta {last_offset_delta} in {size_bytes} bytes")]
    Count {
        /// As the batch says.
        count: i32,
        /// As the batch says.
        last_offset_delta: i32,
        /// The whole batch.
        size_bytes: usize,
    },
    /// A record that cannot be read.
    #[error("record {index} of the batch: {why}")]
    Record {
        /// Its place in the batch, from 0.
        index: i32,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The records are compressed and were to be looked into.
    #[error("records are compressed ({0:?}) and cannot be looked into")]
    Compressed(Compression),
}

/// How the records of a batch are compressed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Compression {
    /// Not at all.
    None = 0,
    /// gzip.
    Gzip = 1,
    /// snappy, in xerial's framing.
    Snappy = 2,
    /// LZ4 frames.
    Lz4 = 3,
    /// Zstandard.
    Zstd = 4,
}

/// Whose clock the timestamps of a batch are from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum TimestampType {
    /// The producer's, record by record.
    #[default]
    CreateTime,
    /// The leader's when it appended: the batch's max timestamp stands for every record.
    LogAppendTime,
}

/// The header of a batch, checked as far as a header goes: magic, length, offsets, count, codec.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchHeader {
    /// The offset of the first record.
    pub base_offset: i64,
    /// The whole batch with its header.
    pub size_bytes: usize,
    /// The epoch of the leader that appended the batch, or [`NO_LEADER_EPOCH`].
    pub leader_epoch: i32,
    /// CRC-32C of all that follows it.
    pub crc: u32,
    /// As stored; the methods tell what the bits mean.
    pub attributes: i16,
    /// The last record's offset less the base offset.
    pub last_offset_delta: i32,
    /// What the records' timestamps are relative to. Units: milliseconds since 1970.
    pub base_timestamp: i64,
    /// The greatest timestamp of the records. Units: milliseconds since 1970.
    pub max_timestamp: i64,
    /// The idempotent producer, or [`NO_PRODUCER_ID`].
    pub producer_id: i64,
    /// Its epoch, or [`NO_PRODUCER_EPOCH`].
    pub producer_epoch: i16,
    /// The sequence number of the first record, or [`NO_SEQUENCE`].
    pub base_sequence: i32,
    /// How many records there are. Fewer than the offsets span once a log was compacted.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads the header at the start of `bytes`, which may end anywhere after it.
    pub fn parse(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
        let have = bytes.len();
        let Some(mut head) = bytes.get(..BATCH_HEADER_BYTES) else {
            return Err(BatchError::CutOff { need: BATCH_HEADER_BYTES, have });
        };
        let base_offset = head.get_i64();
        let length = head.get_i32();
        let leader_epoch = head.get_i32();
        let magic = head.get_i8();
        // The magic first: in another version of the format the other fields mean something else.
        if magic != MAGIC {
            return Err(BatchError::Magic(magic));
        }
        let size_bytes = usize::try_from(length)
            .map(|length| length + LENGTH_OVERHEAD_BYTES)
            .ok()
            .filter(|size| *size >= BATCH_HEADER_BYTES)
            .ok_or(BatchError::Length(length))?;
        let header = BatchHeader {
            base_offset,
            size_bytes,
            leader_epoch,
            crc: head.get_u32(),
            attributes: head.get_i16(),
            last_offset_delta: head.get_i32(),
            base_timestamp: head.get_i64(),
            max_timestamp: head.get_i64(),
            producer_id: head.get_i64(),
            producer_epoch: head.get_i16(),
            base_sequence: head.get_i32(),
            record_count: head.get_i32(),
        };
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<(), BatchError> {
        let BatchHeader { base_offset, last_offset_delta, size_bytes, record_count: count, .. } = *self;
        // One below the greatest, so that the offset after the last record is a number too.
        let fits = base_offset <= i64::MAX - 1 - i64::from(last_offset_delta.max(0));
        if base_offset < 0 || last_offset_delta < 0 || !fits {
            return Err(BatchError::Offsets { base_offset, last_offset_delta });
        }
        let compression = compression_of(self.attributes)?;
        let room = (size_bytes - BATCH_HEADER_BYTES) / RECORD_MIN_BYTES;
        let has_room =
            compression != Compression::None || usize::try_from(count).is_ok_and(|count| count <= room);
        if count < 0 || i64::from(count) > i64::from(last_offset_delta) + 1 || !has_room {
            return Err(BatchError::Count { count, last_offset_delta, size_bytes });
        }
        Ok(())
    }

    /// The offset of the last record.
    pub fn last_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta)
    }

    /// The offset after the last record.
    pub fn next_offset(&self) -> i64 {
        self.last_offset() + 1
    }

    /// The sequence number of the last record, or [`NO_SEQUENCE`]. After `i32::MAX` comes 0.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            NO_SEQUENCE
        } else {
            add_sequence(self.base_sequence, self.last_offset_delta)
        }
    }

    /// How the records are compressed.
    pub fn compression(&self) -> Compression {
        compression_of(self.attributes).expect("the codec was checked when the header was read")
    }

    /// Whose clock the timestamps are from.
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & ATTRIBUTE_LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the records belong to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & ATTRIBUTE_TRANSACTIONAL != 0
    }

    /// Whether this is a control batch, whose records consumers never see.
    pub fn is_control(&self) -> bool {
        self.attributes & ATTRIBUTE_CONTROL != 0
    }

    /// Whether an idempotent producer sent the batch.
    pub fn has_producer(&self) -> bool {
        self.producer_id > NO_PRODUCER_ID
    }
}

const ATTRIBUTE_COMPRESSION: i16 = 0b111;
const ATTRIBUTE_LOG_APPEND_TIME: i16 = 1 << 3;
const ATTRIBUTE_TRANSACTIONAL: i16 = 1 << 4;
const ATTRIBUTE_CONTROL: i16 = 1 << 5;

fn compression_of(attributes: i16) -> Result<Compression, BatchError> {
    match attributes & ATTRIBUTE_COMPRESSION {
        0 => Ok(Compression::None),
        1 => Ok(Compression::Gzip),
        2 => Ok(Compression::Snappy),
        3 => Ok(Compression::Lz4),
        4 => Ok(Compression::Zstd),
        other => Err(BatchError::Compression(other)),
    }
}

/// The sequence number `by` after `sequence`. Both are not negative; after `i32::MAX` comes 0.
pub fn add_sequence(sequence: i32, by: i32) -> i32 {
    sequence.wrapping_add(by) & i32::MAX
}

/// One batch: its bytes, whole and with the CRC they say, and its header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordBatch {
    header: BatchHeader,
    bytes: Bytes,
}

impl RecordBatch {
    /// Reads the batch that `bytes` begin with, and takes it off them. Errors: `bytes` are left as they were.
    pub fn take_first(bytes: &mut Bytes) -> Result<RecordBatch, BatchError> {
        let header = BatchHeader::parse(bytes)?;
        let size = header.size_bytes;
        if bytes.len() < size {
            return Err(BatchError::CutOff { need: size, have: bytes.len() });
        }
        let computed = crc32c::crc32c(&bytes[CRC_START..size]);
        if computed != header.crc {
            return Err(BatchError::Crc { stored: header.crc, computed });
        }
        Ok(RecordBatch { header, bytes: bytes.split_to(size) })
    }

    /// The header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch. A slice of what it was read from: keep it long, and all of that is kept.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The records, in order. Errors: [`BatchError::Compressed`].
    pub fn records(&self) -> Result<Records, BatchError> {
        match self.header.compression() {
            Compression::None => {
                let rest = self.bytes.slice(BATCH_HEADER_BYTES..);
                Ok(Records::new(rest, self.header.record_count))
            }
            compression => Err(BatchError::Compressed(compression)),
        }
    }

    /// Checks what a leader must know of a batch before it gives it offsets: that there are records, that they use
    /// each offset from 0 to the last delta once, and that each of them can be read.
    ///
    /// Of compressed records only the count is checked.
    pub fn check_for_append(&self) -> Result<(), BatchError> {
        let BatchHeader { record_count: count, last_offset_delta, size_bytes, .. } = self.header;
        if count == 0 || count - 1 != last_offset_delta {
            return Err(BatchError::Count { count, last_offset_delta, size_bytes });
        }
        if self.header.compression() != Compression::None {
            return Ok(());
        }
        for (index, record) in (0..).zip(self.records()?) {
            if record?.offset_delta != index {
                return Err(BatchError::Record { index, why: "offset delta is not its place in the batch" });
            }
        }
        Ok(())
    }
}

/// Splits bytes into batches. The first error ends it.
pub fn split_batches(bytes: Bytes) -> Batches {
    Batches { rest: bytes }
}

/// Batches one after the other; see [`split_batches`].
#[derive(Clone, Debug)]
pub struct Batches {
    rest: Bytes,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let batch = RecordBatch::take_first(&mut self.rest);
        if batch.is_err() {
            self.rest.clear();
        }
        Some(batch)
    }
}

/// Writes what a leader decides into the batch that `bytes` begin with. The CRC does not cover it.
/// Panics: `bytes` are shorter than a header.
pub fn set_offset_and_epoch(bytes: &mut [u8], base_offset: i64, leader_epoch: i32) {
    bytes[0..8].copy_from_slice(&base_offset.to_be_bytes());
    bytes[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
}

/// Makes the leader's clock the one that a batch's timestamps are from, and its CRC right again.
/// Shape: `batch` is exactly one batch. Panics: it is shorter than a header.
pub fn set_log_append_time(batch: &mut [u8], now_ms: i64) {
    let attributes = i16::from_be_bytes([batch[21], batch[22]]) | ATTRIBUTE_LOG_APPEND_TIME;
    batch[21..23].copy_from_slice(&attributes.to_be_bytes());
    batch[35..43].copy_from_slice(&now_ms.to_be_bytes());
    seal(batch);
}

/// Writes the CRC that a batch's bytes have.
fn seal(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[CRC_START..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}
