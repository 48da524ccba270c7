//! The file with a node's term and vote (thesis 3.8).
//!
//! ```text
//! magic:"RRST" version:u32 node:i32 term:u64 voted:u8 vote:i32 crc32c:u32 of all before it     numbers big-endian
//! ```

use super::{OpenError, read_file};
use crate::types::{NodeId, Term};
use bytes::{Buf, BufMut};
use riprap_env::Disk;

pub(super) const NAME: &str = "state";

const MAGIC: &[u8; 4] = b"RRST";
const VERSION: u32 = 1;
const LEN: usize = 29;

/// What a node must never forget (thesis 3.8): its term, and whom it voted for in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HardState {
    pub(crate) term: Term,
    pub(crate) vote: Option<NodeId>,
}

pub(super) fn encode(hard: HardState, id: NodeId) -> Vec<u8> {
    let mut out = Vec::with_capacity(LEN);
    out.put_slice(MAGIC);
    out.put_u32(VERSION);
    out.put_i32(id.0);
    out.put_u64(hard.term.0);
    out.put_u8(u8::from(hard.vote.is_some()));
    out.put_i32(hard.vote.map_or(0, |v| v.0));
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
    if bytes.len() != LEN {
        let what = format!("{} bytes; {LEN} expected", bytes.len());
        return Err(OpenError::corrupt(path, 0, what));
    }
    let (content, crc) = bytes.split_at(LEN - 4);
    let (mut content, mut crc) = (content, crc);
    if crc32c::crc32c(content) != crc.get_u32() {
        return Err(OpenError::corrupt(path, 0, "checksum does not match"));
    }
    let magic = content.copy_to_bytes(4);
    let version = content.get_u32();
    if magic != MAGIC[..] || version != VERSION {
        return Err(OpenError::corrupt(path, 0, format!("not a state file of version {VERSION}")));
    }
    let found = NodeId(content.get_i32());
    if found != id {
        return Err(OpenError::WrongNode { path: path.to_owned(), found, expected: id });
    }
    let term = Term(content.get_u64());
    let voted = content.get_u8() == 1;
    let vote = voted.then(|| NodeId(content.get_i32()));
    Ok(Some(HardState { term, vote }))
}
