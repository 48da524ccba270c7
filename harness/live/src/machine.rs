//! What the machine leaves to a run: room on a disk, files that may be open, time of a processor.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

/// How many bytes may still be written to the file system that holds `path`, by whoever asks.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: statvfs is plain data, for which zero is valid.
    let mut told: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a null and `told` is where the answer goes.
    match unsafe { libc::statvfs(path.as_ptr(), &raw mut told) } {
        0 => Ok(told.f_bavail.saturating_mul(told.f_frsize)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets this process, and those that it starts from now on, open as many files as they may at all; returns how many.
///
/// The usual limit of 1024 is for programs that use `select`; the limit to that limit is far higher.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through both calls.
    let done = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 && {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) == 0
        }
    };
    if done { Ok(limit.rlim_cur) } else { Err(io::Error::last_os_error()) }
}

/// How long this thread has had a processor.
pub fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is where the answer goes.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(done, 0, "every Linux has this clock");
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("less than a second"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_have_room_or_are_not_there() {
        assert!(free_bytes(Path::new("/")).is_ok());
        assert_eq!(free_bytes(Path::new("/proc")).expect("there is one"), 0);
        let missing = free_bytes(Path::new("/no/such/folder")).expect_err("it is not there");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_thread_that_works_has_a_processor() {
        let before = thread_cpu_time();
        let sum = (0..1_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        assert!(thread_cpu_time() > before, "{sum}");
    }

    #[test]
    fn files_may_be_open_up_to_the_limit_of_the_limit() {
        let most = raise_open_files().expect("every process may");
        let limits = std::fs::read_to_string("/proc/self/limits").expect("mounted");
        let line =
            limits.lines().find(|line| line.starts_with("Max open files")).expect("every Linux has it");
        let [soft, hard] = [3, 4].map(|n| line.split_whitespace().nth(n).expect("two limits"));
        assert_eq!((soft, hard), (most.to_string().as_str(), most.to_string().as_str()));
    }
}
