//! The wire format of messages.
//!
//! ```text
//! message = version:u8 kind:u8 term:u64 asked_ns:u64 life:u64 fields      numbers big-endian, no padding, nothing after the last field
//! append  = prev_index:u64 prev_term:u64 commit:u64 count:u32 { term:u64 length:u32 payload }*
//! chunk   = last_index:u64 last_term:u64 total_bytes:u64 offset:u64 length:u32 data
//! ```
//!
//! Decoding bytes from anybody neither panics nor reserves more than a small multiple of their number. It has no
//! checksum: the connection below it has.

use crate::message::{Body, Message};
use crate::types::{Entry, Index, Life, Term};
use bytes::{Buf, BufMut, Bytes, BytesMut, TryGetError};
use thiserror::Error;

/// Largest payload of one entry: an entry has to fit a message with room to spare.
pub const MAX_PAYLOAD_BYTES: usize = 8 << 20;

/// Terms and indices above this are nonsense: no cluster lives that long, and sums below it cannot overflow.
const MAX_NUMBER: u64 = 1 << 62;

const VERSION: u8 = 3;

/// An entry's bytes beside its payload.
const ENTRY_HEADER_BYTES: usize = 12;

/// Why bytes are not a message.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
pub enum DecodeError {
    /// It ends too early.
    #[error("message is {missing} bytes short")]
    Truncated {
        /// How many more there would have to be, at least.
        missing: usize,
    },
    /// It goes on after its end.
    #[error("{0} bytes after the message's end")]
    TrailingBytes(usize),
    /// It comes from another version of the program.
    #[error("message version {0}; this program speaks {VERSION}")]
    UnknownVersion(u8),
    /// No message is of this kind.
    #[error("message kind {0}; 1 to 12 are known")]
    UnknownKind(u8),
    /// A yes or no that is neither.
    #[error("flag is {0}; 0 or 1 expected")]
    BadFlag(u8),
    /// A term or an index that no cluster reaches.
    #[error("number {0} is above 2^62")]
    NumberTooLarge(u64),
    /// An entry that no leader takes.
    #[error("payload of {0} bytes; at most {MAX_PAYLOAD_BYTES}")]
    PayloadTooLarge(usize),
    /// A chunk that lies outside of its snapshot.
    #[error("chunk of {len} bytes at {offset} of a snapshot of {total_bytes} bytes")]
    ChunkOutside {
        /// Where the chunk begins.
        offset: u64,
        /// Its length.
        len: usize,
        /// The snapshot's length.
        total_bytes: u64,
    },
}

impl From<TryGetError> for DecodeError {
    fn from(e: TryGetError) -> DecodeError {
        DecodeError::Truncated { missing: e.requested - e.available }
    }
}

impl Message {
    /// The message's bytes.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.encoded_size_estimate());
        out.put_u8(VERSION);
        out.put_u8(kind(&self.body));
        out.put_u64(self.term.0);
        out.put_u64(self.asked_ns);
        out.put_u64(self.newcomer.map_or(0, |life| life.0));
        match &self.body {
            Body::PreVote { last_index, last_term } | Body::Vote { last_index, last_term } => {
                out.put_u64(last_index.0);
                out.put_u64(last_term.0);
            }
            Body::PreVoteResponse { for_term, granted } => {
                out.put_u64(for_term.0);
                out.put_u8(u8::from(*granted));
            }
            Body::VoteResponse { granted } => out.put_u8(u8::from(*granted)),
            Body::Append { prev_index, prev_term, commit, entries } => {
                out.put_u64(prev_index.0);
                out.put_u64(prev_term.0);
                out.put_u64(commit.0);
                out.put_u32(u32::try_from(entries.len()).expect("a message's entries are limited by number"));
                for entry in entries {
                    out.put_u64(entry.term.0);
                    put_bytes(&mut out, &entry.payload);
                }
            }
            Body::AppendAccepted { match_index } => out.put_u64(match_index.0),
            Body::AppendRejected { prev_index, hint_index, hint_term } => {
                out.put_u64(prev_index.0);
                out.put_u64(hint_index.0);
                out.put_u64(hint_term.0);
            }
            Body::InstallSnapshot { last_index, last_term, total_bytes, offset, data } => {
                out.put_u64(last_index.0);
                out.put_u64(last_term.0);
                out.put_u64(*total_bytes);
                out.put_u64(*offset);
                put_bytes(&mut out, data);
            }
            Body::SnapshotProgress { last_index, offset } => {
                out.put_u64(last_index.0);
                out.put_u64(*offset);
            }
            Body::Admit { life } => out.put_u64(life.0),
            Body::Doubt | Body::Observe => {}
        }
        out.freeze()
    }

    /// The message that the bytes, all of them, stand for. Payloads are copied out, so that an entry that is kept does
    /// not keep the buffer that it came in.
    pub fn decode(bytes: impl AsRef<[u8]>) -> Result<Message, DecodeError> {
        let mut input = bytes.as_ref();
        let version = input.try_get_u8()?;
        if version != VERSION {
            return Err(DecodeError::UnknownVersion(version));
        }
        let kind = input.try_get_u8()?;
        let term = Term(number(&mut input)?);
        let asked_ns = number(&mut input)?;
        let newcomer = Some(Life(number(&mut input)?)).filter(|life| life.0 != 0);
        let body = decode_body(kind, &mut input)?;
        if !input.is_empty() {
            return Err(DecodeError::TrailingBytes(input.len()));
        }
        Ok(Message { term, asked_ns, newcomer, body })
    }

    fn encoded_size_estimate(&self) -> usize {
        let data = match &self.body {
            Body::Append { entries, .. } => {
                entries.iter().map(|e| ENTRY_HEADER_BYTES + e.payload.len()).sum()
            }
            Body::InstallSnapshot { data, .. } => data.len(),
            _ => 0,
        };
        64 + data
    }
}

fn kind(body: &Body) -> u8 {
    match body {
        Body::PreVote { .. } => 1,
        Body::PreVoteResponse { .. } => 2,
        Body::Vote { .. } => 3,
        Body::VoteResponse { .. } => 4,
        Body::Append { .. } => 5,
        Body::AppendAccepted { .. } => 6,
        Body::AppendRejected { .. } => 7,
        Body::InstallSnapshot { .. } => 8,
        Body::SnapshotProgress { .. } => 9,
        Body::Admit { .. } => 10,
        Body::Doubt => 11,
        Body::Observe => 12,
    }
}

fn decode_body(kind: u8, input: &mut &[u8]) -> Result<Body, DecodeError> {
    Ok(match kind {
        1 => Body::PreVote { last_index: index(input)?, last_term: Term(number(input)?) },
        2 => Body::PreVoteResponse { for_term: Term(number(input)?), granted: flag(input)? },
        3 => Body::Vote { last_index: index(input)?, last_term: Term(number(input)?) },
        4 => Body::VoteResponse { granted: flag(input)? },
        5 => {
            let prev_index = index(input)?;
            let prev_term = Term(number(input)?);
            let commit = index(input)?;
            let entries = decode_entries(prev_index, input)?;
            Body::Append { prev_index, prev_term, commit, entries }
        }
        6 => Body::AppendAccepted { match_index: index(input)? },
        7 => Body::AppendRejected {
            prev_index: index(input)?,
            hint_index: index(input)?,
            hint_term: Term(number(input)?),
        },
        8 => {
            let last_index = index(input)?;
            let last_term = Term(number(input)?);
            let total_bytes = number(input)?;
            let offset = number(input)?;
            let data = take_bytes(input)?;
            if offset + data.len() as u64 > total_bytes {
                return Err(DecodeError::ChunkOutside { offset, len: data.len(), total_bytes });
            }
            Body::InstallSnapshot { last_index, last_term, total_bytes, offset, data }
        }
        9 => Body::SnapshotProgress { last_index: index(input)?, offset: number(input)? },
        10 => Body::Admit { life: Life(number(input)?) },
        11 => Body::Doubt,
        12 => Body::Observe,
        other => return Err(DecodeError::UnknownKind(other)),
    })
}

fn decode_entries(prev_index: Index, input: &mut &[u8]) -> Result<Vec<Entry>, DecodeError> {
    let count = input.try_get_u32()? as usize;
    // Each entry takes at least its header: a count that lies cannot make this reserve more than the bytes justify.
    let needed = count.saturating_mul(ENTRY_HEADER_BYTES);
    if needed > input.len() {
        return Err(DecodeError::Truncated { missing: needed - input.len() });
    }
    let mut entries = Vec::with_capacity(count);
    let mut index = prev_index;
    for _ in 0..count {
        index = index.next();
        let term = Term(number(input)?);
        let payload = take_bytes(input)?;
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(DecodeError::PayloadTooLarge(payload.len()));
        }
        entries.push(Entry { index, term, payload });
    }
    Ok(entries)
}

fn put_bytes(out: &mut BytesMut, bytes: &Bytes) {
    out.put_u32(u32::try_from(bytes.len()).expect("payloads and chunks are limited far below 4 GiB"));
    out.put_slice(bytes);
}

fn take_bytes(input: &mut &[u8]) -> Result<Bytes, DecodeError> {
    let len = input.try_get_u32()? as usize;
    let Some((taken, rest)) = input.split_at_checked(len) else {
        return Err(DecodeError::Truncated { missing: len - input.len() });
    };
    *input = rest;
    Ok(Bytes::copy_from_slice(taken))
}

fn number(input: &mut &[u8]) -> Result<u64, DecodeError> {
    match input.try_get_u64()? {
        n if n > MAX_NUMBER => Err(DecodeError::NumberTooLarge(n)),
        n => Ok(n),
    }
}

fn index(input: &mut &[u8]) -> Result<Index, DecodeError> {
    number(input).map(Index)
}

fn flag(input: &mut &[u8]) -> Result<bool, DecodeError> {
    match input.try_get_u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(DecodeError::BadFlag(other)),
    }
}
