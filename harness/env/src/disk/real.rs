//! A disk that is a folder of this machine.

use super::{Disk, DiskError, FileId, check_dir, check_path};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// A folder of this machine and what lies below it.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
    open: BTreeMap<FileId, OpenFile>,
    last_file: u64,
}

/// So many bytes are written before the kernel is told to begin to bring them to the disk. Left to itself it would begin
/// with the sync, which waits for all that was written since the last one: a process with one thread would stand still for
/// a tenth of a second after 200 MB on a fast disk, for some on a slow one, instead of some milliseconds.
const WRITE_BACK_BYTES: u64 = 1 << 20;

#[derive(Debug)]
struct OpenFile {
    path: String,
    file: File,
    /// What was written and the kernel was not told to begin with.
    unbegun: Range<u64>,
}

impl OpenFile {
    /// Notes a write.
    fn wrote(&mut self, offset: u64, len: usize) {
        let end = offset + len as u64;
        self.unbegun = if self.unbegun.is_empty() {
            offset..end
        } else {
            self.unbegun.start.min(offset)..self.unbegun.end.max(end)
        };
        let size = self.unbegun.end - self.unbegun.start;
        if size < WRITE_BACK_BYTES {
            return;
        }
        let (Ok(start), Ok(size)) = (i64::try_from(self.unbegun.start), i64::try_from(size)) else { return };
        // Promises nothing and takes no error away from the sync that will: source: sync_file_range(2).
        // SAFETY: the descriptor is open, and no memory is passed.
        unsafe { libc::sync_file_range(self.file.as_raw_fd(), start, size, libc::SYNC_FILE_RANGE_WRITE) };
        self.unbegun = 0..0;
    }
}

impl RealDisk {
    /// The disk below `root`, which is created if it is not there.
    pub fn new(root: impl Into<PathBuf>) -> Result<RealDisk, DiskError> {
        let root = root.into();
        fs::create_dir_all(&root).map_err(|e| disk_error(&root.display().to_string(), &e))?;
        Ok(RealDisk { root, open: BTreeMap::new(), last_file: 0 })
    }

    fn file(&self, id: FileId) -> Result<&OpenFile, DiskError> {
        self.open.get(&id).ok_or_else(|| not_open(id))
    }
}

/// The error of a call on a file that was closed or never opened.
pub(super) fn not_open(id: FileId) -> DiskError {
    DiskError::Io { path: format!("file {}", id.0), message: "not open".to_owned() }
}

fn disk_error(path: &str, e: &io::Error) -> DiskError {
    match e.kind() {
        ErrorKind::NotFound => DiskError::NotFound(path.to_owned()),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => DiskError::Full(path.to_owned()),
        _ => DiskError::Io { path: path.to_owned(), message: e.to_string() },
    }
}

impl Disk for RealDisk {
    fn open(&mut self, path: &str) -> Result<FileId, DiskError> {
        check_path(path)?;
        let full = self.root.join(path);
        if let Some(parent) = full.parent() {
            fs::create_dir_all(parent).map_err(|e| disk_error(path, &e))?;
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&full)
            .map_err(|e| disk_error(path, &e))?;
        self.last_file += 1;
        let id = FileId(self.last_file);
        self.open.insert(id, OpenFile { path: path.to_owned(), file, unbegun: 0..0 });
        Ok(id)
    }

    fn close(&mut self, file: FileId) {
        self.open.remove(&file);
    }

    fn len(&mut self, file: FileId) -> Result<u64, DiskError> {
        let OpenFile { path, file, .. } = self.file(file)?;
        Ok(file.metadata().map_err(|e| disk_error(path, &e))?.len())
    }

    fn read_at(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<(), DiskError> {
        let OpenFile { path, file, .. } = self.file(file)?;
        match file.read_exact_at(buf, offset) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                let size = file.metadata().map_err(|e| disk_error(path, &e))?.len();
                Err(DiskError::PastEnd { path: path.clone(), offset, len: buf.len(), size })
            }
            Err(e) => Err(disk_error(path, &e)),
        }
    }

    fn write_at(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let open = self.open.get_mut(&file).ok_or_else(|| not_open(file))?;
        open.file.write_all_at(bytes, offset).map_err(|e| disk_error(&open.path, &e))?;
        open.wrote(offset, bytes.len());
        Ok(())
    }

    fn truncate(&mut self, file: FileId, len: u64) -> Result<(), DiskError> {
        let OpenFile { path, file, .. } = self.file(file)?;
        file.set_len(len).map_err(|e| disk_error(path, &e))
    }

    fn sync(&mut self, file: FileId) -> Result<(), DiskError> {
        let open = self.open.get_mut(&file).ok_or_else(|| not_open(file))?;
        open.unbegun = 0..0;
        open.file.sync_data().map_err(|e| disk_error(&open.path, &e))
    }

    fn sync_dir(&mut self, path: &str) -> Result<(), DiskError> {
        check_dir(path)?;
        File::open(self.root.join(path)).and_then(|dir| dir.sync_all()).map_err(|e| disk_error(path, &e))
    }

    fn list(&mut self, path: &str) -> Result<Vec<String>, DiskError> {
        check_dir(path)?;
        let entries = match fs::read_dir(self.root.join(path)) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(disk_error(path, &e)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|e| disk_error(path, &e))?.file_name();
            // A name that is not UTF-8 was not made through this trait; no path of it could be spelled.
            if let Ok(name) = name.into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn exists(&mut self, path: &str) -> bool {
        check_dir(path).is_ok() && self.root.join(path).exists()
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        check_path(from)?;
        check_path(to)?;
        fs::rename(self.root.join(from), self.root.join(to)).map_err(|e| disk_error(from, &e))
    }

    fn remove(&mut self, path: &str) -> Result<(), DiskError> {
        check_path(path)?;
        fs::remove_file(self.root.join(path)).map_err(|e| disk_error(path, &e))
    }

    fn remove_dir_all(&mut self, path: &str) -> Result<(), DiskError> {
        check_path(path)?;
        match fs::remove_dir_all(self.root.join(path)) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(disk_error(path, &e)),
            _ => Ok(()),
        }
    }
}
