//! How values lie in a frame: fixed-size integers in network order, lengths in front of strings, bytes and arrays, tagged fields.
//!
//! ```text
//! string  := length16 utf8*            array := length32 element*       bytes := length32 byte*
//! length  := two or four bytes, -1 for null; in flexible versions an unsigned varint of length + 1, 0 for null
//! tags    := count { tag size byte*size }*count, all varints, only in flexible versions, by strictly rising tag
//! struct  := field* tags
//! ```
//!
//! Source: Kafka protocol guide; KIP-482 for the flexible versions. A reader never trusts a length: see [`Reader`].

mod error;
mod reader;
mod writer;

use bytes::Bytes;

pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use reader::Reader;
pub use writer::{TagWriter, Writer};

use crate::{ErrorCode, Uuid};

/// The longest string that Kafka reads or writes, in any version.
pub const MAX_STRING_SIZE_BYTES: usize = i16::MAX as usize;

/// How wide a length is in versions that are not flexible.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LengthWidth {
    /// Strings.
    Two,
    /// Bytes and arrays.
    Four,
}

/// A value that knows its bytes. Implemented for the primitives here and for every struct in [`crate::messages`].
pub trait Wire: Sized {
    /// Appends the value in the writer's version.
    ///
    /// Errors: the value cannot be said in that version.
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError>;

    /// Takes the value in the reader's version.
    ///
    /// Errors: the bytes are no such value, or it would cost more than the frame's budget.
    fn read(r: &mut Reader) -> Result<Self, DecodeError>;
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Wire for $integer {
            fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
                w.raw(&self.to_be_bytes());
                Ok(())
            }

            fn read(r: &mut Reader) -> Result<Self, DecodeError> {
                Ok(Self::from_be_bytes(r.fixed()?))
            }
        }
    )*};
}

integers!(i8, i16, i32, i64);

impl Wire for bool {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.raw(&[u8::from(*self)]);
        Ok(())
    }

    /// Any byte but 0 is true, as for Kafka.
    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let [byte] = r.fixed()?;
        Ok(byte != 0)
    }
}

impl Wire for ErrorCode {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        self.0.write(w)
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(ErrorCode(i16::read(r)?))
    }
}

impl Wire for Uuid {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.raw(&self.0);
        Ok(())
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Uuid(r.fixed()?))
    }
}

/// Values that have a length and can therefore be null. `Option` of one is the nullable form.
trait Nullable: Sized {
    fn write_some(&self, w: &mut Writer<'_>) -> Result<(), EncodeError>;
    fn write_null(w: &mut Writer<'_>);
    fn read_nullable(r: &mut Reader) -> Result<Option<Self>, DecodeError>;
}

impl Nullable for String {
    fn write_some(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        if self.len() > MAX_STRING_SIZE_BYTES {
            return Err(EncodeError::TooLong {
                what: "string",
                length: self.len(),
                max: MAX_STRING_SIZE_BYTES,
            });
        }
        w.length(self.len(), LengthWidth::Two)?;
        w.raw(self.as_bytes());
        Ok(())
    }

    fn write_null(w: &mut Writer<'_>) {
        w.null_length(LengthWidth::Two);
    }

    fn read_nullable(r: &mut Reader) -> Result<Option<Self>, DecodeError> {
        let Some(length) = r.length(LengthWidth::Two)? else { return Ok(None) };
        if length > MAX_STRING_SIZE_BYTES {
            return Err(r.error(DecodeErrorKind::LongString { length }));
        }
        r.charge(length)?;
        r.string(length).map(Some)
    }
}

impl Nullable for Bytes {
    fn write_some(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.length(self.len(), LengthWidth::Four)?;
        w.raw(self);
        Ok(())
    }

    fn write_null(w: &mut Writer<'_>) {
        w.null_length(LengthWidth::Four);
    }

    /// A view of the frame: nothing is copied, and the frame lives as long as the view.
    fn read_nullable(r: &mut Reader) -> Result<Option<Self>, DecodeError> {
        let Some(length) = r.length(LengthWidth::Four)? else { return Ok(None) };
        r.slice(length).map(Some)
    }
}

impl<T: Wire> Nullable for Vec<T> {
    fn write_some(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.length(self.len(), LengthWidth::Four)?;
        self.iter().try_for_each(|element| element.write(w))
    }

    fn write_null(w: &mut Writer<'_>) {
        w.null_length(LengthWidth::Four);
    }

    fn read_nullable(r: &mut Reader) -> Result<Option<Self>, DecodeError> {
        let Some(count) = r.length(LengthWidth::Four)? else { return Ok(None) };
        // Every element takes at least one byte (a test of the tables says so), hence no honest count is above what remains.
        if count > r.remaining() {
            return Err(r.error(DecodeErrorKind::Count { count, remaining: r.remaining() }));
        }
        r.charge(count.saturating_mul(size_of::<T>()))?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(T::read(r)?);
        }
        Ok(Some(elements))
    }
}

impl<T: Nullable> Wire for T {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        self.write_some(w)
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        match T::read_nullable(r)? {
            Some(value) => Ok(value),
            None => Err(r.error(DecodeErrorKind::Null)),
        }
    }
}

impl<T: Nullable> Wire for Option<T> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        match self {
            Some(value) => value.write_some(w),
            None => {
                T::write_null(w);
                Ok(())
            }
        }
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        T::read_nullable(r)
    }
}
