//! A node's disk: synchronous, small, and as weak as a real one.
//!
//! What was written and not synced may be lost or torn by a power failure, though not by a crash of the process.

use thiserror::Error;

/// An open file. Ids are never used twice in the life of a disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u64);

/// Why a disk refused.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
pub enum DiskError {
    /// No file or folder of that name.
    #[error("no such file: {0}")]
    NotFound(String),
    /// No space left.
    #[error("disk full while writing {0}")]
    Full(String),
    /// A read went past the end of the file.
    #[error("{path}: read of {len} bytes at {offset} ends past the file's {size} bytes")]
    PastEnd {
        /// The file.
        path: String,
        /// Where the read began.
        offset: u64,
        /// How much was asked for.
        len: usize,
        /// How long the file is.
        size: u64,
    },
    /// Anything else, as the operating system words it.
    #[error("{path}: {message}")]
    Io {
        /// The file.
        path: String,
        /// What went wrong.
        message: String,
    },
}

/// A folder tree that belongs to one node. Paths are relative to its root, `/` between parts, no `..`.
pub trait Disk {
    /// Opens a file for reading and writing, creating it (and its folders) if it is not there.
    fn open(&mut self, path: &str) -> Result<FileId, DiskError>;

    /// Forgets an open file. What was written stays written.
    fn close(&mut self, file: FileId);

    /// Units: bytes.
    fn len(&mut self, file: FileId) -> Result<u64, DiskError>;

    /// Reads exactly `buf.len()` bytes. Errors: [`DiskError::PastEnd`] when the file is shorter.
    fn read_at(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<(), DiskError>;

    /// Writes all of `bytes` at `offset`, growing the file if needed.
    fn write_at(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Cuts or extends the file to `len` bytes.
    fn truncate(&mut self, file: FileId, len: u64) -> Result<(), DiskError>;

    /// Makes the file's bytes and length survive a power failure (fdatasync).
    fn sync(&mut self, file: FileId) -> Result<(), DiskError>;

    /// Makes the names in a folder survive a power failure (created, renamed, removed files).
    fn sync_dir(&mut self, path: &str) -> Result<(), DiskError>;

    /// The names in a folder, sorted; empty if the folder is not there.
    fn list(&mut self, path: &str) -> Result<Vec<String>, DiskError>;

    /// Whether a file or folder is there.
    fn exists(&mut self, path: &str) -> bool;

    /// Replaces `to` by `from`, atomically.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a file. Errors: [`DiskError::NotFound`].
    fn remove(&mut self, path: &str) -> Result<(), DiskError>;

    /// Removes a folder with all in it; no error if it is not there.
    fn remove_dir_all(&mut self, path: &str) -> Result<(), DiskError>;
}
