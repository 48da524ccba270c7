//! The file with a node's term and vote (thesis 3.8), and the life of one that does not count yet.
//!
//! ```text
//! magic:"RRST" version:u32 node:i32 term:u64 voted:u8 vote:i32 life:u64 crc32c:u32 of all before it     numbers big-endian
//! ```
//!
//! `life` is 0 in a voter that counts. Version 1 had none: who wrote it counted.

use super::{OpenError, read_file};
use crate::types::{Life, NodeId, Term};
use bytes::{Buf, BufMut};
use riprap_env::Disk;

pub(super) const NAME: &str = "state";

const MAGIC: &[u8; 4] = b"RRST";
const VERSION: u32 = 2;
const LEN: usize = 37;
const LEN_1: usize = 29;

/// What a node must never forget (thesis 3.8): its term, and whom it voted for in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HardState {
    pub(crate) term: Term,
    pub(crate) vote: Option<NodeId>,
    /// Set until it counts; see [`newcomer`](crate::newcomer).
    pub(crate) newcomer: Option<Life>,
}

pub(super) fn encode(hard: HardState, id: NodeId) -> Vec<u8> {
    let mut out = Vec::with_capacity(LEN);
    out.put_slice(MAGIC);
    out.put_u32(VERSION);
    out.put_i32(id.0);
    out.put_u64(hard.term.0);
    out.put_u8(u8::from(hard.vote.is_some()));
    out.put_i32(hard.vote.map_or(0, |v| v.0));
    out.put_u64(hard.newcomer.map_or(0, |life| life.0));
    let crc = crc32c::crc32c(&out);
    out.put_u32(crc);
    out
}

/// What the file says; none if it is not there.
pub(super) fn load(disk: &mut dyn Disk, path: &str, id: NodeId) -> Result<Option<HardState>, OpenError> {
    if !disk.exists(path) {
        return Ok(None);
    }
    let bytes = read_file(disk, path)?;
    if ![LEN, LEN_1].contains(&bytes.len()) {
        let what = format!("{} bytes; {LEN} expected", bytes.len());
        return Err(OpenError::corrupt(path, 0, what));
    }
    let (content, crc) = bytes.split_at(bytes.len() - 4);
    let (mut content, mut crc) = (content, crc);
    if crc32c::crc32c(content) != crc.get_u32() {
        return Err(OpenError::corrupt(path, 0, "checksum does not match"));
    }
    let magic = content.copy_to_bytes(4);
    let version = content.get_u32();
    let expected = if bytes.len() == LEN { VERSION } else { 1 };
    if magic != MAGIC[..] || version != expected {
        return Err(OpenError::corrupt(path, 0, format!("not a state file of version {VERSION}")));
    }
    let found = NodeId(content.get_i32());
    if found != id {
        return Err(OpenError::WrongNode { path: path.to_owned(), found, expected: id });
    }
    let term = Term(content.get_u64());
    let voted = content.get_u8() == 1;
    let vote = Some(NodeId(content.get_i32())).filter(|_| voted);
    let life = if version == VERSION { content.get_u64() } else { 0 };
    Ok(Some(HardState { term, vote, newcomer: Some(Life(life)).filter(|life| life.0 != 0) }))
}
