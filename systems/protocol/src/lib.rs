//! Kafka's wire protocol: messages, frames and record batches.
//!
//! - [`messages`]: every request and response as a plain struct, generated from the tables in `schema/`;
//! - [`Message`] and [`Request`]: a struct's bytes in each version;
//! - [`frame`]: headers, and complete frames out of a stream of bytes;
//! - [`records`]: record batches, as they lie in a log and in Produce and Fetch;
//! - [`ErrorCode`], [`ApiKey`], [`Uuid`].
//!
//! The codec cannot see whether a message makes sense: offsets, epochs and names are whatever the peer wrote. What it does
//! promise is that no input makes it panic, abort, or reserve more than a small multiple of the frame (see [`Reader`]).

mod api;
mod error_code;
pub mod frame;
pub mod messages;
pub mod records;
mod uuid;
pub mod wire;

pub use api::{FIRST_PRIVATE_API_KEY, Message, Request};
pub use error_code::ErrorCode;
pub use messages::ApiKey;
pub use uuid::Uuid;
pub use wire::{DecodeError, DecodeErrorKind, EncodeError, Reader};
