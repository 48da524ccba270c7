//! Reads values from one frame without trusting it.

use std::ops::RangeBounds;

use bytes::Bytes;

use super::{DecodeError, DecodeErrorKind, LengthWidth, Wire};

/// How much memory a frame may claim per byte of its own: structs are larger in memory than on the wire, but boundedly so.
const BUDGET_FACTOR: usize = 16;
/// What even the shortest frame may claim: short answers with many empty lists are larger than 16 times their length.
const MIN_BUDGET_BYTES: usize = 64 << 10;
/// What even the longest frame may claim. Bulk data is not counted, because it stays in the frame.
const MAX_BUDGET_BYTES: usize = 64 << 20;

/// A position in one frame, with the version that its values are read in and the memory that they may still claim.
///
/// Every length is checked against the bytes that remain, and every reservation is charged to a budget of
/// 16 times the frame's length (at least 64 KiB, at most 64 MiB) before it is made. `Bytes` values are views of
/// the frame: a small one that is kept pins all of it, so copy what is kept for long.
#[derive(Clone, Debug)]
pub struct Reader {
    frame: Bytes,
    position: usize,
    /// Where the frame ends, or the tagged field being read.
    end: usize,
    version: i16,
    is_flexible: bool,
    budget_left_bytes: usize,
}

impl Reader {
    /// Starts at the first byte of `frame`.
    pub fn new(frame: Bytes) -> Self {
        let end = frame.len();
        let budget_left_bytes = Self::budget_bytes(end);
        Self { frame, position: 0, end, version: 0, is_flexible: false, budget_left_bytes }
    }

    /// What reading a frame of this length may reserve in all.
    pub fn budget_bytes(frame_size_bytes: usize) -> usize {
        frame_size_bytes.saturating_mul(BUDGET_FACTOR).clamp(MIN_BUDGET_BYTES, MAX_BUDGET_BYTES)
    }

    /// Bytes that have not been read.
    pub fn remaining(&self) -> usize {
        self.end - self.position
    }

    /// What has not been read, as a view of the frame.
    pub fn rest(&self) -> Bytes {
        self.frame.slice(self.position..self.end)
    }

    /// Checks that nothing remains.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            count => Err(self.error(DecodeErrorKind::Trailing { count })),
        }
    }

    /// Sets the version for what is read next.
    pub(crate) fn enter(&mut self, version: i16, is_flexible: bool) {
        self.version = version;
        self.is_flexible = is_flexible;
    }

    pub(crate) fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError { kind, position: self.position }
    }

    /// Takes `length` bytes off the frame.
    fn take(&mut self, length: usize) -> Result<std::ops::Range<usize>, DecodeError> {
        if length > self.remaining() {
            return Err(self.error(DecodeErrorKind::End { needed: length, remaining: self.remaining() }));
        }
        let start = self.position;
        self.position += length;
        Ok(start..self.position)
    }

    pub(crate) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let range = self.take(N)?;
        Ok(self.frame[range].try_into().expect("the range has N bytes"))
    }

    pub(crate) fn slice(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        let range = self.take(length)?;
        Ok(self.frame.slice(range))
    }

    pub(crate) fn string(&mut self, length: usize) -> Result<String, DecodeError> {
        let range = self.take(length)?;
        match std::str::from_utf8(&self.frame[range]) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(self.error(DecodeErrorKind::Utf8)),
        }
    }

    /// Takes `bytes` off the budget; called before they are reserved.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), DecodeError> {
        match self.budget_left_bytes.checked_sub(bytes) {
            Some(left) => {
                self.budget_left_bytes = left;
                Ok(())
            }
            None => {
                let left_bytes = self.budget_left_bytes;
                Err(self.error(DecodeErrorKind::Budget { asked_bytes: bytes, left_bytes }))
            }
        }
    }

    /// Seven bits a byte, the lowest first; the top bit says that more follow. At most 32 bits in at most 5 bytes.
    pub(crate) fn varint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.fixed()?;
            if shift == 28 && byte > 0x0f {
                break;
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error(DecodeErrorKind::Varint))
    }

    /// The length in front of a string, bytes or an array; none is null.
    pub(crate) fn length(&mut self, width: LengthWidth) -> Result<Option<usize>, DecodeError> {
        if self.is_flexible {
            // 32 bits fit a usize on every platform that the project builds for.
            return Ok(self.varint()?.checked_sub(1).map(|length| length as usize));
        }
        let length = match width {
            LengthWidth::Two => i32::from(i16::from_be_bytes(self.fixed()?)),
            LengthWidth::Four => i32::from_be_bytes(self.fixed()?),
        };
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(self.error(DecodeErrorKind::NegativeLength { length })),
        }
    }

    /// Fills in a field.
    pub(crate) fn get<T: Wire>(&mut self, field: &mut T) -> Result<(), DecodeError> {
        *field = T::read(self)?;
        Ok(())
    }

    /// Fills in a struct that may be null; any byte from 0 in front of it says that it is there, as for Kafka.
    pub(crate) fn get_struct<T: Wire>(&mut self, field: &mut Option<T>) -> Result<(), DecodeError> {
        let [byte] = self.fixed()?;
        *field = if (byte as i8) < 0 { None } else { Some(T::read(self)?) };
        Ok(())
    }

    /// Fills in a field if this version carries it, and says whether it does.
    pub(crate) fn get_in<T: Wire>(
        &mut self,
        versions: impl RangeBounds<i16>,
        field: &mut T,
    ) -> Result<bool, DecodeError> {
        let is_there = versions.contains(&self.version);
        if is_there {
            self.get(field)?;
        }
        Ok(is_there)
    }

    /// Refuses null in versions that cannot say it.
    pub(crate) fn non_null<T>(
        &self,
        versions: impl RangeBounds<i16>,
        field: &Option<T>,
    ) -> Result<(), DecodeError> {
        match field {
            None if versions.contains(&self.version) => Err(self.error(DecodeErrorKind::Null)),
            _ => Ok(()),
        }
    }

    /// Reads the tagged fields of a struct: `known` reads the tag's value and says true, or says false for a tag to skip.
    pub(crate) fn tags(
        &mut self,
        mut known: impl FnMut(&mut Self, u32) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        if !self.is_flexible {
            return Ok(());
        }
        let mut previous = None;
        // A count that lies ends at the end of the frame: each turn takes at least two bytes.
        for _ in 0..self.varint()? {
            let tag = self.varint()?;
            if let Some(previous) = previous.filter(|&previous| previous >= tag) {
                return Err(self.error(DecodeErrorKind::TagOrder { tag, previous }));
            }
            previous = Some(tag);
            let size = self.varint()? as usize;
            if size > self.remaining() {
                return Err(self.error(DecodeErrorKind::End { needed: size, remaining: self.remaining() }));
            }
            let outer_end = std::mem::replace(&mut self.end, self.position + size);
            if !known(self, tag)? {
                self.position = self.end;
            }
            if self.remaining() > 0 {
                return Err(self.error(DecodeErrorKind::TagSize { tag, unread: self.remaining() }));
            }
            self.end = outer_end;
        }
        Ok(())
    }

    /// Reads past the tagged fields of a struct that has none in any version known here.
    pub(crate) fn skip_tags(&mut self) -> Result<(), DecodeError> {
        self.tags(|_, _| Ok(false))
    }
}
