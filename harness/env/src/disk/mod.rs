//! A node's disk: synchronous, small, and as weak as a real one.
//!
//! What was written and not synced may be lost or torn by a power failure, though not by a crash of the process.
//!
//! A file is found again after a power failure only if its name, and the name of each folder above it, were synced:
//! [`Disk::sync_dir`] speaks for one folder's own names and for no other's. [`sync_dir_and_parents`] does the chain.
//!
//! [`RealDisk`] is a folder of this machine. [`MemDisk`] is memory that forgets what was not synced when the power
//! fails, and fails on demand.

mod mem;
mod real;
pub mod rot;

pub use mem::{Keep, MemDisk, Unsynced};
pub use real::RealDisk;

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

/// Makes the names in a folder survive a power failure, and the names of the folder and of those above it.
pub fn sync_dir_and_parents(disk: &mut dyn Disk, path: &str) -> Result<(), DiskError> {
    let mut dir = path;
    while !dir.is_empty() {
        disk.sync_dir(dir)?;
        dir = parent_of(dir);
    }
    disk.sync_dir("")
}

/// The folder that holds a path; the root is the empty string.
fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Refuses a path that could leave the root, or that two spellings could name.
fn check_path(path: &str) -> Result<(), DiskError> {
    let clean = path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if clean {
        return Ok(());
    }
    let message = "not a path below the root: parts must be neither empty nor `.` nor `..`".to_owned();
    Err(DiskError::Io { path: path.to_owned(), message })
}

/// As [`check_path`], for calls that take a folder: the empty string is the root itself.
fn check_dir(path: &str) -> Result<(), DiskError> {
    if path.is_empty() { Ok(()) } else { check_path(path) }
}

#[cfg(test)]
mod tests;
