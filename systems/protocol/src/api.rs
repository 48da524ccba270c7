//! The numbers of the APIs, the versions that the codec knows of each, and the traits that tie messages to them.

use std::fmt;
use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};

use crate::messages::{API_SPECS, ApiKey};
use crate::wire::{DecodeError, DecodeErrorKind, EncodeError, Reader, Wire, Writer};

/// First API key of the calls that only our own brokers make to each other.
pub const FIRST_PRIVATE_API_KEY: i16 = 10_000;

/// A struct that is a whole message body.
///
/// The provided functions check the version; what the fields are is in [`Wire`], which is generated.
pub trait Message: Wire + Default + Clone + fmt::Debug + PartialEq {
    /// The message's name, for errors.
    const NAME: &'static str;
    /// The versions that the codec knows.
    const VERSIONS: RangeInclusive<i16>;
    /// First version with compact lengths and tagged fields; `i16::MAX` where there is none.
    const FLEXIBLE_SINCE: i16;

    /// Appends the body to `buf`, which is unchanged on an error.
    ///
    /// Errors: an unknown version; a field that this version lacks and that is neither at its default nor ignorable; a null
    /// that this version cannot say; a string or an array that is too long.
    fn encode(&self, buf: &mut BytesMut, version: i16) -> Result<(), EncodeError> {
        let before = buf.len();
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion {
                message: Self::NAME,
                version,
                known: Self::VERSIONS,
            });
        }
        let result = self.write(&mut Writer::new(buf, version, version >= Self::FLEXIBLE_SINCE));
        if result.is_err() {
            buf.truncate(before);
        }
        result
    }

    /// Reads the body from where `reader` stands, and leaves what follows it.
    ///
    /// Errors: an unknown version, or bytes that are no such body; none makes it reserve more than the frame's budget.
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            let kind =
                DecodeErrorKind::UnsupportedVersion { message: Self::NAME, version, known: Self::VERSIONS };
            return Err(reader.error(kind));
        }
        reader.enter(version, version >= Self::FLEXIBLE_SINCE);
        Self::read(reader)
    }

    /// Reads a body that takes up all of what `reader` has left.
    ///
    /// Errors: as [`Message::decode`], and bytes that follow the body.
    fn decode_all(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let message = Self::decode(reader, version)?;
        reader.finish()?;
        Ok(message)
    }

    /// The body alone, without any header.
    ///
    /// Errors: as [`Message::encode`].
    fn to_bytes(&self, version: i16) -> Result<Bytes, EncodeError> {
        let mut buf = BytesMut::new();
        self.encode(&mut buf, version)?;
        Ok(buf.freeze())
    }
}

/// A message that a client sends and that has an answer.
pub trait Request: Message {
    /// What it asks for.
    const KEY: ApiKey;
    /// What answers it, in the same version.
    type Response: Message;
}

/// What the codec knows of one API.
#[derive(Debug)]
pub(crate) struct ApiSpec {
    key: ApiKey,
    name: &'static str,
    first_version: i16,
    last_version: i16,
    flexible_since: i16,
}

impl ApiSpec {
    pub(crate) const fn new(
        key: ApiKey,
        name: &'static str,
        first: i16,
        last: i16,
        flexible_since: i16,
    ) -> Self {
        Self { key, name, first_version: first, last_version: last, flexible_since }
    }
}

impl ApiKey {
    /// Every API, by number.
    pub fn all() -> impl Iterator<Item = ApiKey> {
        API_SPECS.iter().map(|spec| spec.key)
    }

    /// The API of a number on the wire, if the codec knows it.
    pub fn from_code(code: i16) -> Option<ApiKey> {
        let position = API_SPECS.binary_search_by_key(&code, |spec| spec.key.code()).ok()?;
        Some(API_SPECS[position].key)
    }

    /// The number on the wire.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The name in Kafka's documentation.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The versions that the codec knows; a broker advertises no more than these, but may advertise others for clients' sake.
    pub fn versions(self) -> RangeInclusive<i16> {
        self.spec().first_version..=self.spec().last_version
    }

    /// Whether only our own brokers make this call.
    pub const fn is_private(self) -> bool {
        self.code() >= FIRST_PRIVATE_API_KEY
    }

    /// The version of the header before a request of this version.
    pub fn request_header_version(self, version: i16) -> i16 {
        if version >= self.spec().flexible_since { 2 } else { 1 }
    }

    /// The version of the header before a response of this version.
    ///
    /// Always 0 for ApiVersions: its client does not know yet what the broker speaks. Source: KIP-511.
    pub fn response_header_version(self, version: i16) -> i16 {
        if self != ApiKey::ApiVersions && version >= self.spec().flexible_since { 1 } else { 0 }
    }

    fn spec(self) -> &'static ApiSpec {
        API_SPECS.iter().find(|spec| spec.key == self).expect("the table is generated with the enum")
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
