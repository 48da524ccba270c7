//! Appends values to a buffer in one version of a message.

use std::ops::RangeBounds;

use bytes::{BufMut, BytesMut};

use super::{EncodeError, LengthWidth, Wire};

/// A buffer, and the version that values are appended in.
#[derive(Debug)]
pub struct Writer<'a> {
    buf: &'a mut BytesMut,
    version: i16,
    is_flexible: bool,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(buf: &'a mut BytesMut, version: i16, is_flexible: bool) -> Self {
        Self { buf, version, is_flexible }
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    pub(crate) fn length(&mut self, length: usize, width: LengthWidth) -> Result<(), EncodeError> {
        let (max, what) = match width {
            LengthWidth::Two => (i16::MAX as usize, "string"),
            LengthWidth::Four => (i32::MAX as usize - 1, "array or byte string"),
        };
        if length > max {
            return Err(EncodeError::TooLong { what, length, max });
        }
        match width {
            _ if self.is_flexible => put_varint(self.buf, length as u32 + 1),
            LengthWidth::Two => self.buf.put_i16(length as i16),
            LengthWidth::Four => self.buf.put_i32(length as i32),
        }
        Ok(())
    }

    pub(crate) fn null_length(&mut self, width: LengthWidth) {
        match width {
            _ if self.is_flexible => self.buf.put_u8(0),
            LengthWidth::Two => self.buf.put_i16(-1),
            LengthWidth::Four => self.buf.put_i32(-1),
        }
    }

    /// Appends a field that every version carries.
    pub(crate) fn put<T: Wire>(&mut self, field: &T) -> Result<(), EncodeError> {
        field.write(self)
    }

    /// Appends a struct that may be null: a byte says whether it is there, 1 or -1, in flexible versions too.
    /// Source: KIP-893.
    pub(crate) fn put_struct<T: Wire>(&mut self, field: &Option<T>) -> Result<(), EncodeError> {
        match field {
            Some(value) => {
                self.buf.put_i8(1);
                value.write(self)
            }
            None => {
                self.buf.put_i8(-1);
                Ok(())
            }
        }
    }

    /// Appends a field if this version carries it; otherwise nobody misses it.
    pub(crate) fn put_in<T: Wire>(
        &mut self,
        versions: impl RangeBounds<i16>,
        field: &T,
    ) -> Result<(), EncodeError> {
        if versions.contains(&self.version) { field.write(self) } else { Ok(()) }
    }

    /// Appends a field if this version carries it; otherwise it must be at its default.
    pub(crate) fn put_or_default<T: Wire>(
        &mut self,
        versions: impl RangeBounds<i16>,
        field: &T,
        is_default: bool,
        name: &'static str,
    ) -> Result<(), EncodeError> {
        if versions.contains(&self.version) {
            field.write(self)
        } else if is_default {
            Ok(())
        } else {
            Err(EncodeError::FieldNotInVersion { field: name, version: self.version })
        }
    }

    /// Refuses null in versions that cannot say it.
    pub(crate) fn non_null<T>(
        &self,
        versions: impl RangeBounds<i16>,
        field: &Option<T>,
        name: &'static str,
    ) -> Result<(), EncodeError> {
        match field {
            None if versions.contains(&self.version) => {
                Err(EncodeError::NullNotInVersion { field: name, version: self.version })
            }
            _ => Ok(()),
        }
    }

    /// Ends a struct that has no tagged fields.
    pub(crate) fn no_tags(&mut self) -> Result<(), EncodeError> {
        if self.is_flexible {
            self.buf.put_u8(0);
        }
        Ok(())
    }

    /// Starts a struct's tagged fields, to be given to [`Writer::finish_tags`].
    pub(crate) fn tags(&self) -> TagWriter {
        TagWriter { count: 0, buf: BytesMut::new(), version: self.version, is_flexible: self.is_flexible }
    }

    /// Ends a struct.
    pub(crate) fn finish_tags(&mut self, tags: TagWriter) -> Result<(), EncodeError> {
        if self.is_flexible {
            put_varint(self.buf, tags.count);
            self.raw(&tags.buf);
        }
        Ok(())
    }
}

/// The tagged fields of one struct, which are counted before they are appended. Put them by rising tag.
#[derive(Debug)]
pub struct TagWriter {
    count: u32,
    buf: BytesMut,
    version: i16,
    is_flexible: bool,
}

impl TagWriter {
    /// Adds a field if this version carries it and it is not at its default; in other versions it must be.
    pub(crate) fn put<T: Wire>(
        &mut self,
        tag: u32,
        versions: impl RangeBounds<i16>,
        field: &T,
        is_default: bool,
        name: &'static str,
    ) -> Result<(), EncodeError> {
        if !is_default && !versions.contains(&self.version) {
            return Err(EncodeError::FieldNotInVersion { field: name, version: self.version });
        }
        self.put_in(tag, versions, field, is_default)
    }

    /// Adds a field if this version carries it and it is not at its default.
    pub(crate) fn put_in<T: Wire>(
        &mut self,
        tag: u32,
        versions: impl RangeBounds<i16>,
        field: &T,
        is_default: bool,
    ) -> Result<(), EncodeError> {
        if is_default || !versions.contains(&self.version) {
            return Ok(());
        }
        let mut value = BytesMut::new();
        field.write(&mut Writer::new(&mut value, self.version, self.is_flexible))?;
        let max = u32::MAX as usize;
        let size = u32::try_from(value.len()).map_err(|_| EncodeError::TooLong {
            what: "tagged field",
            length: value.len(),
            max,
        })?;
        self.count += 1;
        put_varint(&mut self.buf, tag);
        put_varint(&mut self.buf, size);
        self.buf.extend_from_slice(&value);
        Ok(())
    }
}

/// Appends an unsigned varint: seven bits a byte, the lowest first.
fn put_varint(buf: &mut BytesMut, mut value: u32) {
    while value >= 0x80 {
        buf.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    buf.put_u8(value as u8);
}
