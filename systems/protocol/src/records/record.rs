//! The records in a batch: slices of it, read one by one.

use super::BatchError;
use bytes::{Buf, Bytes};

/// One record. Keys, values and headers are slices of the batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its offset less the batch's base offset.
    pub offset_delta: i32,
    /// Its timestamp less the batch's base timestamp. Meaningless under
    /// [`LogAppendTime`](super::TimestampType::LogAppendTime).
    pub timestamp_delta: i64,
    /// The key.
    pub key: Option<Bytes>,
    /// The value.
    pub value: Option<Bytes>,
    /// The headers, in order.
    pub headers: Headers,
}

/// Records of one batch, in order; see [`RecordBatch::records`](super::RecordBatch::records). The first error ends
/// it.
#[derive(Clone, Debug)]
pub struct Records {
    rest: Bytes,
    next: i32,
    count: i32,
}

impl Records {
    /// The records in a batch's bytes after its header, which are all of `rest`.
    pub(super) fn new(rest: Bytes, count: i32) -> Records {
        Records { rest, next: 0, count }
    }
}

impl Iterator for Records {
    type Item = Result<Record, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let index = self.next;
        let read = if index < self.count {
            take_record(&mut self.rest)
        } else if self.rest.is_empty() {
            return None;
        } else {
            Err("bytes after the last record")
        };
        self.next += 1;
        if read.is_err() {
            self.rest.clear();
            self.next = self.count;
        }
        Some(read.map_err(|why| BatchError::Record { index, why }))
    }
}

/// The headers of a record, in order, as pairs of key and value; they have been checked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Headers {
    rest: Bytes,
    count: i32,
}

impl Headers {
    /// How many are left.
    pub fn remaining(&self) -> i32 {
        self.count
    }
}

impl Iterator for Headers {
    type Item = (Bytes, Option<Bytes>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.count == 0 {
            return None;
        }
        self.count -= 1;
        Some(take_header(&mut self.rest).expect("headers are checked when their record is read"))
    }
}

pub(super) fn take_record(rest: &mut Bytes) -> Result<Record, &'static str> {
    let length = usize::try_from(take_varint(rest)?).map_err(|_| "negative length")?;
    if length > rest.len() {
        return Err("length is past the batch's end");
    }
    let mut body = rest.split_to(length);
    body.try_get_i8().map_err(|_| "length is too small")?;
    let timestamp_delta = take_varlong(&mut body)?;
    let offset_delta = take_varint(&mut body)?;
    let key = take_bytes(&mut body)?;
    let value = take_bytes(&mut body)?;
    let count = take_varint(&mut body)?;
    if count < 0 {
        return Err("negative number of headers");
    }
    let headers = Headers { rest: body.clone(), count };
    for _ in 0..count {
        take_header(&mut body)?;
    }
    if !body.is_empty() {
        return Err("length is too large");
    }
    Ok(Record { offset_delta, timestamp_delta, key, value, headers })
}

fn take_header(rest: &mut Bytes) -> Result<(Bytes, Option<Bytes>), &'static str> {
    let key = take_bytes(rest)?.ok_or("header key is null")?;
    Ok((key, take_bytes(rest)?))
}

fn take_bytes(rest: &mut Bytes) -> Result<Option<Bytes>, &'static str> {
    let length = take_varint(rest)?;
    if length == -1 {
        return Ok(None);
    }
    match usize::try_from(length) {
        Ok(length) if length <= rest.len() => Ok(Some(rest.split_to(length))),
        Ok(_) => Err("key, value or header is past the record's end"),
        Err(_) => Err("negative length of key, value or header"),
    }
}

fn take_varint(rest: &mut Bytes) -> Result<i32, &'static str> {
    i32::try_from(take_varlong(rest)?).map_err(|_| "varint has more than 32 bits")
}

/// A zigzag number in groups of seven bits, the lowest first.
pub(super) fn take_varlong(rest: &mut Bytes) -> Result<i64, &'static str> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = rest.try_get_u8().map_err(|_| "ends within a varint")?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return Err("varint has more than 64 bits");
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            let magnitude = (number >> 1).cast_signed();
            return Ok(if number & 1 == 0 { magnitude } else { !magnitude });
        }
    }
    Err("varint has more than 10 bytes")
}
