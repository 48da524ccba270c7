//! Removing a log, so that a power failure leaves all of it or nothing.
//!
//! A folder's files go one by one, and a power failure may bring back any of them. If the copy is wanted again later, what is
//! left would be a log with a gap in it, on which the broker ends. So the folder is marked first, and whoever opens a marked
//! one finishes the removal:
//!
//! ```text
//! the mark, durably -> the other files, durably -> the mark and the folder
//! ```

use riprap_env::{Disk, DiskError};

/// The file that marks a folder. No other file of a log is called so.
const MARK: &str = "removed";

fn mark_of(dir: &str) -> String {
    format!("{dir}/{MARK}")
}

/// Removes the log in a folder, whose files are closed, and the folder.
pub(crate) fn remove(disk: &mut dyn Disk, dir: &str) -> Result<(), DiskError> {
    if disk.list(dir)?.is_empty() {
        return disk.remove_dir_all(dir);
    }
    let mark = disk.open(&mark_of(dir))?;
    disk.close(mark);
    disk.sync_dir(dir)?;
    for name in disk.list(dir)?.into_iter().filter(|name| name != MARK) {
        disk.remove(&format!("{dir}/{name}"))?;
    }
    disk.sync_dir(dir)?;
    disk.remove_dir_all(dir)
}

/// Removes what is left of a log whose removal was cut short.
pub(super) fn finish(disk: &mut dyn Disk, dir: &str) -> Result<(), DiskError> {
    if disk.exists(&mark_of(dir)) { remove(disk, dir) } else { Ok(()) }
}
