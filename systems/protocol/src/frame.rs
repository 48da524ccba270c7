//! Headers, and complete frames out of a stream of bytes.
//!
//! ```text
//! frame            := size32 (request | response)
//! request header   := api_key16 api_version16 correlation_id32 client_id?  tags-in-header-v2
//! response header  := correlation_id32  tags-in-header-v1
//! ```
//!
//! `client_id` has a two-byte length in both versions of the request header. Source: Kafka protocol guide, KIP-482, KIP-511.

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

use crate::wire::{DecodeError, EncodeError, Reader, Wire, Writer};
use crate::{ApiKey, Message, Request};

/// The size field in front of a frame.
pub const SIZE_FIELD_BYTES: usize = 4;

/// The largest request that carries bulk data: records, a forwarded body, or a message of the quorum.
///
/// Kafka's `socket.request.max.bytes` is 100 MiB; `message.max.bytes` of about 1 MiB makes real ones far smaller.
pub const MAX_BULK_REQUEST_SIZE_BYTES: usize = 64 << 20;

/// The largest other request: a member's subscription to ten thousand topics fits.
pub const MAX_REQUEST_SIZE_BYTES: usize = 1 << 20;

/// The largest response that a client of ours takes: a fetch's `max_bytes` may be exceeded by one batch.
pub const MAX_RESPONSE_SIZE_BYTES: usize = 128 << 20;

/// What precedes a request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// What is asked.
    pub api_key: ApiKey,
    /// The version of the body, and of the answer's.
    pub api_version: i16,
    /// Chosen by the client; the response repeats it.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<String>,
}

/// Why a request could not be read as far as its body.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// An API that the codec does not know. Kafka closes the connection.
    #[error("unknown API key {api_key} (version {api_version})")]
    UnknownApi {
        /// The number on the wire.
        api_key: i16,
        /// The version asked for.
        api_version: i16,
        /// To answer with, if at all.
        correlation_id: i32,
    },
    /// A version that the codec does not know. For ApiVersions the answer is a response of version 0 with
    /// `UNSUPPORTED_VERSION` and the list of versions; for others Kafka closes the connection.
    #[error("{api_key} version {api_version}; {} to {} are known", api_key.versions().start(), api_key.versions().end())]
    UnsupportedVersion {
        /// What is asked.
        api_key: ApiKey,
        /// The version asked for.
        api_version: i16,
        /// To answer with.
        correlation_id: i32,
    },
    /// Bytes that are no header.
    #[error("malformed request header: {0}")]
    Malformed(#[from] DecodeError),
}

/// A response for a client: whole frame, size field included.
///
/// Errors: as [`Message::encode`], or a body that is too long for a frame.
pub fn encode_response<M: Message>(
    correlation_id: i32,
    api_key: ApiKey,
    api_version: i16,
    body: &M,
) -> Result<Bytes, EncodeError> {
    let has_tags = api_key.response_header_version(api_version) >= 1;
    encode_frame(body, api_version, |buf| {
        buf.put_i32(correlation_id);
        if has_tags {
            buf.put_u8(0);
        }
        Ok(())
    })
}

/// A request for a broker: whole frame, size field included.
///
/// Errors: as [`Message::encode`], or a body that is too long for a frame.
///
/// Panics: `R` is not the request of `header.api_key`.
pub fn encode_request<R: Request>(header: &RequestHeader, body: &R) -> Result<Bytes, EncodeError> {
    assert_eq!(header.api_key, R::KEY, "the header names another API than the body's");
    let has_tags = header.api_key.request_header_version(header.api_version) >= 2;
    encode_frame(body, header.api_version, |buf| {
        buf.put_i16(header.api_key.code());
        buf.put_i16(header.api_version);
        buf.put_i32(header.correlation_id);
        header.client_id.write(&mut Writer::new(buf, header.api_version, false))?;
        if has_tags {
            buf.put_u8(0);
        }
        Ok(())
    })
}

/// Room for most frames that carry no records, so that a buffer seldom grows. Units: bytes.
const USUAL_FRAME_BYTES: usize = 512;

fn encode_frame<M: Message>(
    body: &M,
    version: i16,
    header: impl FnOnce(&mut BytesMut) -> Result<(), EncodeError>,
) -> Result<Bytes, EncodeError> {
    let mut buf = BytesMut::with_capacity(USUAL_FRAME_BYTES);
    buf.put_i32(0);
    header(&mut buf)?;
    body.encode(&mut buf, version)?;
    let length = buf.len() - SIZE_FIELD_BYTES;
    let max = i32::MAX as usize;
    let size = i32::try_from(length).map_err(|_| EncodeError::TooLong { what: "frame", length, max })?;
    buf[..SIZE_FIELD_BYTES].copy_from_slice(&size.to_be_bytes());
    Ok(buf.freeze())
}

/// Reads a request's header; the reader stands at the body, for [`Message::decode_all`].
///
/// `frame` is without its size field, as [`FrameReader`] returns it.
///
/// Errors: see [`RequestError`].
pub fn decode_request(frame: Bytes) -> Result<(RequestHeader, Reader), RequestError> {
    let mut reader = Reader::new(frame);
    let code = i16::read(&mut reader)?;
    let api_version = i16::read(&mut reader)?;
    let correlation_id = i32::read(&mut reader)?;
    let Some(api_key) = ApiKey::from_code(code) else {
        return Err(RequestError::UnknownApi { api_key: code, api_version, correlation_id });
    };
    if !api_key.versions().contains(&api_version) {
        return Err(RequestError::UnsupportedVersion { api_key, api_version, correlation_id });
    }
    let client_id = Option::<String>::read(&mut reader)?;
    if api_key.request_header_version(api_version) >= 2 {
        reader.enter(api_version, true);
        reader.skip_tags()?;
    }
    Ok((RequestHeader { api_key, api_version, correlation_id, client_id }, reader))
}

/// The correlation id that a response starts with, to find the request that it answers.
///
/// `frame` is without its size field. Errors: a frame of less than four bytes.
pub fn correlation_id(frame: &Bytes) -> Result<i32, DecodeError> {
    i32::read(&mut Reader::new(frame.clone()))
}

/// Reads the response to a request of type `R` that was sent in `api_version`.
///
/// `frame` is without its size field, as [`FrameReader`] returns it.
///
/// Errors: bytes that are no such response, or that follow it.
pub fn decode_response<R: Request>(
    frame: Bytes,
    api_version: i16,
) -> Result<(i32, R::Response), DecodeError> {
    let mut reader = Reader::new(frame);
    let correlation_id = i32::read(&mut reader)?;
    if R::KEY.response_header_version(api_version) >= 1 {
        reader.enter(api_version, true);
        reader.skip_tags()?;
    }
    Ok((correlation_id, R::Response::decode_all(&mut reader, api_version)?))
}

/// A stream that cannot be cut into frames any more; the connection is of no further use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The size field is below 0.
    #[error("frame size {size}; 0 and more is right")]
    Negative {
        /// What was read.
        size: i32,
    },
    /// The size field is above the limit.
    #[error("frame of {size_bytes} bytes; at most {max_bytes} is right")]
    TooLarge {
        /// What was read.
        size_bytes: usize,
        /// The limit for this frame.
        max_bytes: usize,
    },
}

/// The limit of a request by the API key that it starts with.
pub fn max_request_size_bytes(api_key: i16) -> usize {
    match ApiKey::from_code(api_key) {
        Some(ApiKey::Produce | ApiKey::ForwardRequest | ApiKey::RaftMessage) => MAX_BULK_REQUEST_SIZE_BYTES,
        _ => MAX_REQUEST_SIZE_BYTES,
    }
}

/// Cuts what a connection delivers into frames.
///
/// Holds at most one incomplete frame and what the caller pushed after it; a size above the limit is refused before
/// its bytes are waited for. Nothing is reserved by the size field alone. Frames are views of the buffer that received
/// them: one that is kept pins what arrived together with it.
#[derive(Debug)]
pub struct FrameReader {
    buf: BytesMut,
    limit: Limit,
}

#[derive(Debug)]
enum Limit {
    Flat(usize),
    ByApiKey(fn(i16) -> usize),
}

impl FrameReader {
    /// Frames of at most `max_bytes`, size field not counted.
    pub fn new(max_bytes: usize) -> Self {
        Self { buf: BytesMut::new(), limit: Limit::Flat(max_bytes) }
    }

    /// Requests, each with the limit that its API key has, such as [`max_request_size_bytes`].
    pub fn for_requests(max_bytes: fn(i16) -> usize) -> Self {
        Self { buf: BytesMut::new(), limit: Limit::ByApiKey(max_bytes) }
    }

    /// Takes bytes as they came off the connection.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// Bytes that are waiting for the rest of their frame.
    pub fn buffered_bytes(&self) -> usize {
        self.buf.len()
    }

    /// The next complete frame without its size field, or none until more bytes are pushed.
    ///
    /// Errors: see [`FrameError`].
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some((size_field, rest)) = self.buf.split_first_chunk::<SIZE_FIELD_BYTES>() else {
            return Ok(None);
        };
        let size = i32::from_be_bytes(*size_field);
        let size_bytes = usize::try_from(size).map_err(|_| FrameError::Negative { size })?;
        let max_bytes = match (&self.limit, rest.first_chunk()) {
            (Limit::Flat(max_bytes), _) => *max_bytes,
            (Limit::ByApiKey(max_bytes), Some(key)) => max_bytes(i16::from_be_bytes(*key)),
            // Without its key, what the largest request may have is all that can be said.
            (Limit::ByApiKey(_), None) => MAX_BULK_REQUEST_SIZE_BYTES,
        };
        if size_bytes > max_bytes {
            return Err(FrameError::TooLarge { size_bytes, max_bytes });
        }
        if rest.len() < size_bytes {
            return Ok(None);
        }
        let mut frame = self.buf.split_to(SIZE_FIELD_BYTES + size_bytes);
        Ok(Some(frame.split_off(SIZE_FIELD_BYTES).freeze()))
    }
}
