//! The file with the newest snapshot.
//!
//! ```text
//! magic:"RRSN" version:u32 crc32c:u32 of all after it  index:u64 term:u64 data     numbers big-endian
//! ```

use super::{OpenError, read_file};
use crate::types::{Index, Snapshot, Term};
use bytes::{Buf, BufMut, Bytes};
use riprap_env::Disk;

pub(super) const NAME: &str = "snapshot";

const MAGIC: &[u8; 4] = b"RRSN";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 28;
const CHECKED_FROM: usize = 12;

pub(super) fn encode(snapshot: &Snapshot) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_LEN + snapshot.data.len());
    out.put_slice(MAGIC);
    out.put_u32(VERSION);
    out.put_u32(0);
    out.put_u64(snapshot.index.0);
    out.put_u64(snapshot.term.0);
    out.put_slice(&snapshot.data);
    let crc = crc32c::crc32c(&out[CHECKED_FROM..]);
    out[8..CHECKED_FROM].copy_from_slice(&crc.to_be_bytes());
    out
}

/// What the file says; none if it is not there.
pub(super) fn load(disk: &mut dyn Disk, path: &str) -> Result<Option<Snapshot>, OpenError> {
    if !disk.exists(path) {
        return Ok(None);
    }
    let mut bytes = Bytes::from(read_file(disk, path)?);
    if bytes.len() < HEADER_LEN {
        let what = format!("{} bytes; at least {HEADER_LEN} expected", bytes.len());
        return Err(OpenError::corrupt(path, 0, what));
    }
    let magic = bytes.copy_to_bytes(4);
    let version = bytes.get_u32();
    if magic != MAGIC[..] || version != VERSION {
        return Err(OpenError::corrupt(path, 0, format!("not a snapshot file of version {VERSION}")));
    }
    let crc = bytes.get_u32();
    if crc32c::crc32c(&bytes) != crc {
        return Err(OpenError::corrupt(path, CHECKED_FROM, "checksum does not match"));
    }
    let index = Index(bytes.get_u64());
    let term = Term(bytes.get_u64());
    Ok(Some(Snapshot { index, term, data: bytes }))
}
