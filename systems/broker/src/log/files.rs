//! Small files beside the segments: whole or not at all, with a version and a checksum.
//!
//! ```text
//! file := version:u8 body crc:u32       CRC-32C of all before it
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use riprap_env::{Disk, DiskError};

/// Units: bytes. What is around a body.
const VERSION_BYTES: usize = 1;
/// See [`VERSION_BYTES`].
const CRC_BYTES: usize = 4;

/// A body as it is stored.
pub(crate) fn seal(version: u8, body: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(VERSION_BYTES + body.len() + CRC_BYTES);
    bytes.put_u8(version);
    bytes.put_slice(body);
    let crc = crc32c::crc32c(&bytes);
    bytes.put_u32(crc);
    bytes.freeze()
}

/// The body of what was stored; none if it is not what was written, or of another version.
pub(crate) fn unseal(version: u8, bytes: &Bytes) -> Option<Bytes> {
    let end = bytes.len().checked_sub(CRC_BYTES).filter(|end| *end >= VERSION_BYTES)?;
    let stored = u32::from_be_bytes(bytes[end..].try_into().expect("four bytes are left"));
    let is_whole = bytes[0] == version && crc32c::crc32c(&bytes[..end]) == stored;
    is_whole.then(|| bytes.slice(VERSION_BYTES..end))
}

/// All of a file; none if it is not there.
pub(crate) fn read(disk: &mut dyn Disk, path: &str) -> Result<Option<Bytes>, DiskError> {
    if !disk.exists(path) {
        return Ok(None);
    }
    let file = disk.open(path)?;
    let read = disk.len(file).and_then(|len| {
        let mut bytes = vec![0; usize::try_from(len).expect("a small file fits in memory")];
        disk.read_at(file, 0, &mut bytes).map(|()| Bytes::from(bytes))
    });
    disk.close(file);
    read.map(Some)
}

/// Writes a file whose bytes are durable when it returns; its name is once the folder is synced. A power failure before
/// may leave any part of it.
pub(super) fn write(disk: &mut dyn Disk, path: &str, bytes: &[u8]) -> Result<(), DiskError> {
    let file = disk.open(path)?;
    let written =
        disk.truncate(file, 0).and_then(|()| disk.write_at(file, 0, bytes)).and_then(|()| disk.sync(file));
    disk.close(file);
    written
}

/// Replaces a file in one step, durably: whatever a power failure leaves is the old one or the new one, whole.
pub(crate) fn replace(disk: &mut dyn Disk, dir: &str, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
    let path = if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
    let new = format!("{path}.new");
    write(disk, &new, bytes)?;
    disk.rename(&new, &path)?;
    disk.sync_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_noticed() {
        let sealed = seal(1, b"body");
        assert_eq!(unseal(1, &sealed), Some(Bytes::from_static(b"body")));
        assert_eq!(unseal(2, &sealed), None);
        for at in 0..sealed.len() {
            let mut rotten = sealed.to_vec();
            rotten[at] ^= 1;
            assert_eq!(unseal(1, &rotten.into()), None, "{at}");
            assert_eq!(unseal(1, &sealed.slice(..at)), None, "{at}");
        }
    }
}
