//! One file of the log: frames, each what one settle appended.
//!
//! ```text
//! frame = magic:"RRLF" body_len:u32 crc32c:u32 segment:u64 offset:u64 prev_index:u64 prev_term:u64 reset:u8 count:u32
//!         body: { term:u64 length:u32 payload }*          numbers big-endian
//! ```
//!
//! The checksum covers everything but the magic and itself. A frame says where it lies, so that bytes that a payload
//! happens to hold are not taken for one. `prev_index` is the entry that the first one follows; what the log had after
//! it is void. With `reset`, what it had before it is void too.

use crate::types::{Entry, Index, Term};
use bytes::{Buf, BufMut, Bytes};
use riprap_env::disk::rot;

const MAGIC: &[u8; 4] = b"RRLF";
const CRC_AT: usize = 8;
const CHECKED_FROM: usize = 12;
const HEADER_LEN: usize = 49;

/// Entries to go into, or found in, a log file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame<E> {
    pub(super) prev_index: Index,
    pub(super) prev_term: Term,
    pub(super) reset: bool,
    pub(super) entries: E,
}

impl Frame<&[Entry]> {
    /// The frame's bytes, to be written at `offset` of file `segment`.
    pub(super) fn encode(&self, segment: u64, offset: u64) -> Vec<u8> {
        let body_len: usize = self.entries.iter().map(|e| 12 + e.payload.len()).sum();
        let mut out = Vec::with_capacity(HEADER_LEN + body_len);
        out.put_slice(MAGIC);
        out.put_u32(u32::try_from(body_len).expect("a frame's size is limited"));
        out.put_u32(0);
        out.put_u64(segment);
        out.put_u64(offset);
        out.put_u64(self.prev_index.0);
        out.put_u64(self.prev_term.0);
        out.put_u8(u8::from(self.reset));
        out.put_u32(u32::try_from(self.entries.len()).expect("a frame's size is limited"));
        for entry in self.entries {
            out.put_u64(entry.term.0);
            out.put_u32(u32::try_from(entry.payload.len()).expect("a payload's size is limited"));
            out.put_slice(&entry.payload);
        }
        let crc = checksum(&out);
        out[CRC_AT..CHECKED_FROM].copy_from_slice(&crc.to_be_bytes());
        out
    }
}

fn checksum(frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&frame[MAGIC.len()..CRC_AT]), &frame[CHECKED_FROM..])
}

/// The whole frame at `offset` of file `segment`, and where it ends; none if there is none.
pub(super) fn parse(file: &[u8], offset: usize, segment: u64) -> Option<(Frame<Vec<Entry>>, usize)> {
    let rest = &file[offset..];
    if rest.len() < HEADER_LEN || rest[..MAGIC.len()] != MAGIC[..] {
        return None;
    }
    let mut header = &rest[MAGIC.len()..HEADER_LEN];
    let body_len = header.get_u32() as usize;
    let frame = rest.get(..HEADER_LEN.checked_add(body_len)?)?;
    if header.get_u32() != checksum(frame) || header.get_u64() != segment || header.get_u64() != offset as u64
    {
        return None;
    }
    let prev_index = Index(header.get_u64());
    let prev_term = Term(header.get_u64());
    let reset = header.get_u8() == 1;
    let count = header.get_u32();
    let mut body = &frame[HEADER_LEN..];
    let mut entries = Vec::new();
    let mut index = prev_index;
    for _ in 0..count {
        index = index.next();
        let term = Term(body.try_get_u64().ok()?);
        let len = body.try_get_u32().ok()? as usize;
        let (payload, after) = body.split_at_checked(len)?;
        entries.push(Entry { index, term, payload: Bytes::copy_from_slice(payload) });
        body = after;
    }
    Some((Frame { prev_index, prev_term, reset, entries }, offset + frame.len()))
}

/// Whether any byte after `offset` begins a whole frame.
pub(super) fn has_frame_after(file: &[u8], offset: usize, segment: u64) -> bool {
    (offset + 1..file.len()).any(|at| parse(file, at, segment).is_some())
}

/// Whether the bytes at `offset` were a whole frame, of which one bit has flipped: it was written, and may have been
/// promised to others.
pub(super) fn has_rotted(file: &[u8], offset: usize) -> bool {
    let rest = &file[offset..];
    if rest.len() < HEADER_LEN {
        return false;
    }
    let mut header = &rest[MAGIC.len()..HEADER_LEN];
    let (body_len, stored) = (header.get_u32(), header.get_u32());
    let frame_of = |body_len: u32| rest.get(..HEADER_LEN.checked_add(body_len as usize)?);
    if let Some(frame) = frame_of(body_len) {
        let computed = checksum(frame);
        let message = [&frame[MAGIC.len()..CRC_AT], &frame[CHECKED_FROM..]].concat();
        // With the right checksum it is the magic, which that does not cover.
        if computed == stored || rot::has_rotted(&message, stored, computed) {
            return true;
        }
    }
    // A wrong length hides where the frame ends.
    (0..u32::BITS).any(|bit| {
        let len = body_len ^ (1 << bit);
        frame_of(len).is_some_and(|frame| {
            let head = crc32c::crc32c(&len.to_be_bytes());
            crc32c::crc32c_append(head, &frame[CHECKED_FROM..]) == stored
        })
    })
}

/// A log file's name. Shape: sorted as text, the names are sorted by number.
pub(super) fn name_of(segment: u64) -> String {
    format!("log-{segment:016x}")
}

/// The number in a log file's name; none if it is another file's.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let number = u64::from_str_radix(name.strip_prefix("log-")?, 16).ok()?;
    (name_of(number) == name).then_some(number)
}
