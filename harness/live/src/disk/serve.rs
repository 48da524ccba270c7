//! The kernel's requests, answered.

use super::backing::{Backing, Ino};
use super::lock;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File, FileTimes, Metadata, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long the kernel may believe what it was told: nobody changes anything behind its back.
const BELIEVE: Duration = Duration::from_secs(3600);
/// The most that one write brings. Units: bytes.
const MAX_WRITE_BYTES: u32 = 1 << 20;
/// What a sync of a whole disk takes at least, for a slow one to be slow on a machine whose disk is in memory.
const MIN_SYNC: Duration = Duration::from_micros(500);
/// The longest that a sync is drawn out: half of what a signal may take to have its effect on a process.
const MAX_SYNC: Duration = Duration::from_secs(5);

/// How long a sync that the power left waits for its error: far longer than it takes to kill who asked, so that nobody lives
/// to act on it.
const DEATH_WAIT: Duration = Duration::from_millis(100);

/// What the threads that serve share with who mounted.
#[derive(Debug)]
pub(super) struct Shared {
    backing: Mutex<Backing>,
    listings: Mutex<Listings>,
    slowness: AtomicU64,
    lets_go: Mutex<bool>,
    let_go: Condvar,
}

/// Folders as they were when they were opened.
#[derive(Debug, Default)]
struct Listings {
    last: u64,
    open: BTreeMap<u64, Vec<(Ino, bool, OsString)>>,
}

impl Shared {
    pub(super) fn new(backing: Backing) -> Shared {
        Shared {
            backing: Mutex::new(backing),
            listings: Mutex::default(),
            slowness: AtomicU64::new(1),
            lets_go: Mutex::new(false),
            let_go: Condvar::new(),
        }
    }

    pub(super) fn backing(&self) -> MutexGuard<'_, Backing> {
        lock(&self.backing)
    }

    pub(super) fn set_slowness(&self, factor: u64) {
        self.slowness.store(factor, Ordering::Relaxed);
    }

    pub(super) fn slowness(&self) -> u64 {
        self.slowness.load(Ordering::Relaxed)
    }

    pub(super) fn let_go(&self, yes: bool) {
        *lock(&self.lets_go) = yes;
        self.let_go.notify_all();
    }

    /// Makes what was written to a file until now durable, and takes the time for it.
    fn sync(&self, ino: Ino) -> io::Result<()> {
        let (mark, file) = {
            let backing = self.backing();
            (backing.mark(ino)?, backing.to_sync(ino)?)
        };
        let began = Instant::now();
        file.sync_data()?;
        let took = began.elapsed().max(MIN_SYNC);
        let factor = u32::try_from(self.slowness()).unwrap_or(u32::MAX);
        let slow = took.saturating_mul(factor - 1).min(MAX_SYNC);
        if slow > Duration::ZERO {
            let guard = lock(&self.lets_go);
            drop(self.let_go.wait_timeout_while(guard, slow, |lets_go| !*lets_go));
        }
        let synced = self.backing().synced(ino, mark);
        if synced.is_err() {
            thread::sleep(DEATH_WAIT);
        }
        synced
    }
}

/// The file system that the kernel talks to.
#[derive(Debug)]
pub(super) struct Served(pub(super) Arc<Shared>);

impl From<INodeNo> for Ino {
    fn from(ino: INodeNo) -> Ino {
        Ino(ino.0)
    }
}

fn attributes(ino: Ino, found: &Metadata) -> FileAttr {
    let time = |time: io::Result<SystemTime>| time.unwrap_or(UNIX_EPOCH);
    let changed = Duration::new(found.ctime().unsigned_abs(), found.ctime_nsec().unsigned_abs() as u32);
    FileAttr {
        ino: INodeNo(ino.0),
        size: found.len(),
        blocks: found.blocks(),
        atime: time(found.accessed()),
        mtime: time(found.modified()),
        ctime: UNIX_EPOCH + changed,
        crtime: UNIX_EPOCH,
        kind: kind(found.is_dir()),
        perm: (found.mode() & 0o7777) as u16,
        nlink: found.nlink() as u32,
        uid: found.uid(),
        gid: found.gid(),
        rdev: 0,
        blksize: found.blksize() as u32,
        flags: 0,
    }
}

fn kind(is_folder: bool) -> FileType {
    if is_folder { FileType::Directory } else { FileType::RegularFile }
}

fn reply_empty(done: io::Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e.into()),
    }
}

fn reply_entry(found: io::Result<(Ino, Metadata)>, reply: ReplyEntry) {
    match found {
        Ok((ino, found)) => reply.entry(&BELIEVE, &attributes(ino, &found), Generation(0)),
        Err(e) => reply.error(e.into()),
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        config.set_max_write(MAX_WRITE_BYTES).map(drop).map_err(|most| {
            io::Error::other(format!(
                "the kernel takes writes of {most} bytes only, not of {MAX_WRITE_BYTES}"
            ))
        })
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        reply_entry(self.0.backing().lookup(parent.into(), name), reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.backing().metadata(ino.into()) {
            Ok(found) => reply.attr(&BELIEVE, &attributes(ino.into(), &found)),
            Err(e) => reply.error(e.into()),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut backing = self.0.backing();
        let ino = Ino::from(ino);
        let set = || {
            if let Some(len) = size {
                backing.set_len(ino, len)?;
            }
            let path = backing.path(ino)?;
            if let Some(mode) = mode {
                fs::set_permissions(&path, Permissions::from_mode(mode & 0o7777))?;
            }
            if uid.is_some() || gid.is_some() {
                std::os::unix::fs::chown(&path, uid, gid)?;
            }
            if atime.is_some() || mtime.is_some() {
                let time = |time| match time {
                    TimeOrNow::SpecificTime(time) => time,
                    TimeOrNow::Now => SystemTime::now(),
                };
                let mut times = FileTimes::new();
                times = atime.map_or(times, |atime| times.set_accessed(time(atime)));
                times = mtime.map_or(times, |mtime| times.set_modified(time(mtime)));
                File::open(&path)?.set_times(times)?;
            }
            backing.metadata(ino)
        };
        match { set }() {
            Ok(found) => reply.attr(&BELIEVE, &attributes(ino, &found)),
            Err(e) => reply.error(e.into()),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let mut backing = self.0.backing();
        let made = backing.create(parent.into(), name, mode, true);
        reply_entry(made.and_then(|ino| Ok((ino, backing.metadata(ino)?))), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.0.backing().remove(parent.into(), name, false), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.0.backing().remove(parent.into(), name, true), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let renamed = self.0.backing().rename((parent.into(), name), (newparent.into(), newname));
        reply_empty(renamed, reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.0.backing().open(ino.into()) {
            // What the kernel has read of it before is still so.
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(e) => reply.error(e.into()),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let mut backing = self.0.backing();
        let create = || {
            let ino = backing.create(parent.into(), name, mode, false)?;
            backing.open(ino)?;
            Ok::<_, io::Error>((ino, backing.metadata(ino)?))
        };
        match { create }() {
            Ok((ino, found)) => reply.created(
                &BELIEVE,
                &attributes(ino, &found),
                Generation(0),
                FileHandle(0),
                FopenFlags::FOPEN_KEEP_CACHE,
            ),
            Err(e) => reply.error(e.into()),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.0.backing().read(ino.into(), offset, size as usize);
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(e) => reply.error(e.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.0.backing().write(ino.into(), offset, data);
        let is_synchronous = flags.0 & (libc::O_SYNC | libc::O_DSYNC) != 0;
        let synced =
            |written| if is_synchronous { self.0.sync(ino.into()).map(|()| written) } else { Ok(written) };
        match written.and_then(synced) {
            Ok(written) => reply.written(written as u32),
            Err(e) => reply.error(e.into()),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(self.0.backing().close(ino.into()), reply);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(self.0.sync(ino.into()), reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(self.0.sync(ino.into()), reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let listed = self.0.backing().list(ino.into());
        match listed {
            Ok(listed) => {
                let mut listings = lock(&self.0.listings);
                listings.last += 1;
                let handle = listings.last;
                listings.open.insert(handle, listed);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(e) => reply.error(e.into()),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listings = lock(&self.0.listings);
        let Some(listed) = listings.open.get(&fh.0) else { return reply.error(Errno::EBADF) };
        let dots = [".", ".."].map(|dots| (Ino::from(ino), true, OsString::from(dots)));
        for (number, (ino, is_folder, name)) in dots.iter().chain(listed).enumerate().skip(offset as usize) {
            if reply.add(INodeNo(ino.0), number as u64 + 1, kind(*is_folder), name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        lock(&self.0.listings).open.remove(&fh.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let backing = self.0.backing();
        let path = CString::new(backing.root().as_os_str().as_bytes()).expect("a number and slashes");
        // SAFETY: statvfs is plain data, for which zero is valid.
        let mut told: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: the path ends with a null and `told` is where the answer goes.
        if unsafe { libc::statvfs(path.as_ptr(), &raw mut told) } != 0 {
            return reply.error(io::Error::last_os_error().into());
        }
        let (unit, scale) = backing.room().map_or((told.f_frsize, 1), |_| (512, told.f_frsize.div_ceil(512)));
        let free = backing.room().map_or(told.f_bavail, |room| room / unit);
        let (unit32, name) = (unit as u32, told.f_namemax as u32);
        reply.statfs(told.f_blocks * scale, free, free, told.f_files, told.f_ffree, unit32, name, unit32);
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        reply.error(Errno::EOPNOTSUPP);
    }
}
