//! Disks of real nodes that forget what was not synced: a file system of our own over a node's data folder.
//!
//! A node's data folder becomes a FUSE file system whose files lie in that very folder beneath. What a system writes is
//! there at once, as with any file system, and stays when its process is killed. What it has not synced is known beside it
//! ([`backing`]), as what would take it back; a power failure takes it back, and the file system is unmounted and mounted
//! anew, so that nothing that the kernel had cached outlives it.
//!
//! # What survives a power failure
//!
//! The rules are those of ext4 as it is mounted by default (`data=ordered`, `auto_da_alloc`), a little simplified:
//!
//! 1. fsync(2), fdatasync(2), msync(2) and writes to files opened with `O_SYNC` or `O_DSYNC` make what was written to that
//!    file and its length durable, and all names that were created, renamed or removed before: there is one journal, which is
//!    committed as a whole. So does the sync of a folder, which is of names alone. Source: fsync(2); "3.6. Journal (jbd2)" of
//!    the kernel's ext4 documentation; Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014, table 1, for the
//!    order of names.
//! 2. What was written to one file and not synced survives up to a point, and of the write at that point maybe the first
//!    bytes: blocks reach the disk before the length that reveals them (`data=ordered`). Cutting or growing a file is a step
//!    among its writes. Files are independent of each other.
//! 3. Names survive up to a point in the order in which they changed, whatever folders they are in: one journal.
//! 4. A file that was renamed over another is written before its new name is: `auto_da_alloc`. Source: "ext4 General
//!    Information" of the kernel's documentation, option `auto_da_alloc`.
//! 5. A page that a process has changed through a shared mapping is written when the kernel brings it to the file system: at
//!    msync(2) or munmap(2), by and by, and at the latest when the process ends.
//!
//! How far each file and the names survive is drawn: in half of all draws nothing, in a quarter everything, else up to any
//! point. Stricter than the real thing is that nothing becomes durable by the passage of time (ext4 commits names every 5 s,
//! and the kernel writes back what is half a minute old): what nobody synced was never promised. The simulated disk is
//! stricter still: there a name needs its folder's sync, and writes survive in any combination.
//!
//! Whoever serves the file system must not map a file of it: to unmap it waits for pages to be written, by a process that is
//! busy unmapping.
//!
//! What it cannot do: links, special files, extended attributes (refused). Permissions, owners and times are durable at once.
//! The time of a sync is that of the machine's disk.

mod backing;
mod serve;

use backing::Backing;
use fuser::{BackgroundSession, Config, MountOption, Session};
use riprap_core::cluster::Lost;
use riprap_core::seed::Stream;
use serve::{Served, Shared};
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How many requests are served at once: those that wait for a slow disk hold up nobody else before there are so many.
const THREADS: usize = 8;
/// How long an unmount waits for who still has the file system open: a process that has just ended lets go in a moment.
const UNMOUNT_WAIT: Duration = Duration::from_secs(5);
/// Between two tries to unmount: nothing announces that the last user is gone.
const UNMOUNT_AGAIN: Duration = Duration::from_millis(2);
/// What a process that wants a file system of its own opens.
const DEVICE: &str = "/dev/fuse";

/// A file system could not be had, or did not do what it must.
#[derive(Debug, Error)]
#[error("failed to {what} {}: {source}", path.display())]
pub struct DiskError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_owned();
    move |source| DiskError { what, path, source }
}

/// Whether this process may have file systems of its own, as far as can be told before it tries. Errors: the machine's.
pub fn can_be_had() -> io::Result<()> {
    File::options().read(true).write(true).open(DEVICE).map(drop)
}

/// Takes a mount away whose server is gone, if there is one.
pub(crate) fn detach(mountpoint: &Path) -> io::Result<()> {
    let path = CString::new(mountpoint.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a null.
    if unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        // No mount, or no such folder.
        e if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => Ok(()),
        e => Err(e),
    }
}

/// A file system that forgets, over a folder. Dropping it unmounts it; what is in the folder stays.
pub struct Disk {
    mountpoint: PathBuf,
    removed: PathBuf,
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
    random: Stream,
    /// The folder beneath the mount; its descriptor is how it is reached.
    _beneath: File,
}

impl Disk {
    /// Mounts one over `mountpoint`; all that is there is durable. `removed` is where removed files wait until that is
    /// durable: a folder of its own, on the same file system. What survives a power failure is drawn from `random`.
    pub fn mount(mountpoint: PathBuf, removed: PathBuf, random: Stream) -> Result<Disk, DiskError> {
        let beneath = File::options()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
            .open(&mountpoint)
            .map_err(failed("open", &mountpoint))?;
        fs::create_dir_all(&removed).map_err(failed("make", &removed))?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", beneath.as_raw_fd()));
        let shared = Arc::new(Shared::new(Backing::new(root, removed.clone())));
        let mut disk = Disk { mountpoint, removed, shared, session: None, random, _beneath: beneath };
        disk.mount_again()?;
        Ok(disk)
    }

    fn mount_again(&mut self) -> Result<(), DiskError> {
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("riprap".to_owned()),
            MountOption::DefaultPermissions,
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::NoAtime,
        ];
        config.n_threads = Some(THREADS);
        let session = Session::new(Served(Arc::clone(&self.shared)), &self.mountpoint, &config)
            .and_then(Session::spawn)
            .map_err(failed("mount a file system of our own over", &self.mountpoint))?;
        self.session = Some(session);
        Ok(())
    }

    /// Unmounts it once nobody has it open; by then the kernel has handed over all that it had not written.
    pub fn unmount(&mut self) -> Result<(), DiskError> {
        let Some(session) = self.session.take() else { return Ok(()) };
        self.shared.let_go(true);
        let path = CString::new(self.mountpoint.as_os_str().as_bytes()).expect("an opened path has no null");
        let deadline = Instant::now() + UNMOUNT_WAIT;
        // SAFETY: the path ends with a null.
        while unsafe { libc::umount2(path.as_ptr(), 0) } != 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::ResourceBusy || Instant::now() > deadline {
                self.session = Some(session);
                return Err(failed("unmount", &self.mountpoint)(error));
            }
            thread::sleep(UNMOUNT_AGAIN);
        }
        self.shared.let_go(false);
        session.join().map_err(failed("serve", &self.mountpoint))
    }

    /// The power is about to fail: what is not synced by now never will be, and who asks for it is not answered before it can
    /// be killed.
    pub fn cut_power(&self) {
        self.shared.backing().cut_power();
    }

    /// The power has failed; nobody may have a file open. Returns what was lost, after it was looked for where it had been.
    pub fn power_fail(&mut self) -> Result<Lost, DiskError> {
        self.unmount()?;
        let fallen = self.shared.backing().power_fail(&mut self.random);
        let fallen = fallen.map_err(failed("take back what was not synced in", &self.mountpoint))?;
        self.mount_again()?;
        for (path, expected) in fallen.look_at {
            let path = self.mountpoint.join(path);
            let len = match fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => Some(0),
                Ok(found) => Some(found.len()),
                Err(e) if e.kind() == io::ErrorKind::NotFound => None,
                Err(e) => return Err(failed("look at", &path)(e)),
            };
            if len != expected {
                let told =
                    format!("it has {len:?} bytes after the power failure, and {expected:?} are right");
                return Err(failed("take back", &path)(io::Error::other(told)));
            }
        }
        Ok(fallen.lost)
    }

    /// Has all be as if it had been synced, and the folder beneath changed by `change` while nothing is mounted.
    pub fn change_beneath<T>(&mut self, change: impl FnOnce() -> T) -> Result<T, DiskError> {
        self.unmount()?;
        self.shared.backing().begin_anew().map_err(failed("empty", &self.removed))?;
        let changed = change();
        self.mount_again()?;
        Ok(changed)
    }

    /// What is written meanwhile is durable as it stands: by whoever damages files, and not as a system does.
    pub fn durably<T>(&self, act: impl FnOnce() -> T) -> T {
        self.shared.backing().set_journaled(false);
        let done = act();
        self.shared.backing().set_journaled(true);
        done
    }

    /// Leaves so much room, or lifts the limit. Units: bytes. Room is taken by what is written behind a file's end and given
    /// back by files that are cut or removed: what lies in a file's holes takes none.
    pub fn set_room(&self, room: Option<u64>) {
        self.shared.backing().set_room(room);
    }

    /// Whether somebody has limited the room.
    pub fn is_limited(&self) -> bool {
        self.shared.backing().room().is_some()
    }

    /// How much room is left as the kernel tells who asks; `None` if nobody has limited it. Units: bytes.
    pub fn room(&self) -> Result<Option<u64>, DiskError> {
        let asked = self.is_limited().then(|| crate::machine::free_bytes(&self.mountpoint));
        asked.transpose().map_err(failed("ask for the room on", &self.mountpoint))
    }

    /// Whether a write was refused since the room was limited.
    pub fn has_refused(&self) -> bool {
        self.shared.backing().has_refused()
    }

    /// Makes syncs take so many times as long; 1 is as they were.
    pub fn set_slowness(&self, factor: u64) {
        self.shared.set_slowness(factor);
    }

    /// How many times as long syncs take.
    pub fn slowness(&self) -> u64 {
        self.shared.slowness()
    }

    /// Whether syncs go on without waiting: a process that waits for one can be neither killed nor stopped.
    pub fn let_go(&self, yes: bool) {
        self.shared.let_go(yes);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What resists ends with the sandbox.
        let _ = self.unmount();
        let _ = fs::remove_dir_all(&self.removed);
    }
}

/// A lock of which every holder leaves behind what is true at any moment: one that panicked is this program's end anyway.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
