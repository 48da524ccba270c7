//! How much room a disk has.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

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
}
