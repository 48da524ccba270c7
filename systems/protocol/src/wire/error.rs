//! What can be wrong with bytes that were read, and with values that are to be written.

use std::ops::RangeInclusive;

use thiserror::Error;

/// Why bytes could not be read as a value, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{kind} (byte {position} of the frame)")]
pub struct DecodeError {
    /// What was wrong.
    pub kind: DecodeErrorKind,
    /// How many bytes of the frame had been read.
    pub position: usize,
}

/// What was wrong with the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeErrorKind {
    /// The frame, or a tagged field, ends within a value.
    #[error("{needed} bytes are needed, {remaining} remain")]
    End {
        /// Bytes that the value takes.
        needed: usize,
        /// Bytes that there are.
        remaining: usize,
    },
    /// A length below -1.
    #[error("length {length}; -1 for null, or 0 and more, is right")]
    NegativeLength {
        /// What was read.
        length: i32,
    },
    /// A variable-length integer of more than 32 bits.
    #[error("a varint of more than 32 bits")]
    Varint,
    /// More elements than could lie in the bytes that remain.
    #[error("an array of {count} elements in {remaining} bytes")]
    Count {
        /// Elements announced.
        count: usize,
        /// Bytes that there are.
        remaining: usize,
    },
    /// The frame asks for more memory than its length justifies.
    #[error("{asked_bytes} bytes of memory asked, {left_bytes} left of the frame's budget")]
    Budget {
        /// What the next value would take.
        asked_bytes: usize,
        /// What the frame may still take.
        left_bytes: usize,
    },
    /// A string above what Kafka allows.
    #[error("a string of {length} bytes; at most 32767 are right")]
    LongString {
        /// Bytes announced.
        length: usize,
    },
    /// A string that is not UTF-8.
    #[error("a string that is not UTF-8")]
    Utf8,
    /// Null where this version wants a value.
    #[error("null where a value is needed")]
    Null,
    /// Tags must rise strictly.
    #[error("tag {tag} after tag {previous}; tags rise strictly")]
    TagOrder {
        /// The tag that came too late.
        tag: u32,
        /// The tag before it.
        previous: u32,
    },
    /// A tagged field whose value is shorter than its announced size.
    #[error("tag {tag} leaves {unread} bytes of its size unread")]
    TagSize {
        /// The tag.
        tag: u32,
        /// Bytes beyond the value.
        unread: usize,
    },
    /// Bytes follow the message.
    #[error("{count} bytes follow the message")]
    Trailing {
        /// How many.
        count: usize,
    },
    /// The codec does not know this version.
    #[error("{message} version {version}; {} to {} are known", known.start(), known.end())]
    UnsupportedVersion {
        /// The message's name.
        message: &'static str,
        /// The version asked for.
        version: i16,
        /// The versions that are known.
        known: RangeInclusive<i16>,
    },
}

/// Why a value could not be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// The codec does not know this version.
    #[error("{message} version {version}; {} to {} are known", known.start(), known.end())]
    UnsupportedVersion {
        /// The message's name.
        message: &'static str,
        /// The version asked for.
        version: i16,
        /// The versions that are known.
        known: RangeInclusive<i16>,
    },
    /// The field says something, but the version has no place for it and dropping it would change the meaning.
    #[error("field `{field}` is set, but version {version} does not carry it")]
    FieldNotInVersion {
        /// The field's name.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// The version cannot say null here.
    #[error("field `{field}` is null, which version {version} cannot say")]
    NullNotInVersion {
        /// The field's name.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// Longer than its length field, or Kafka, allows.
    #[error("a {what} of {length}; at most {max} is right")]
    TooLong {
        /// String, array, bytes or frame.
        what: &'static str,
        /// Its length.
        length: usize,
        /// The longest allowed.
        max: usize,
    },
}
