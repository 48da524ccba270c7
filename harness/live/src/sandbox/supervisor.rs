//! PID 1 of a sandbox: prepares the mounts, starts the harness, buries orphans, reports how the harness ended.
//!
//! It is a process of its own so that the harness is not the one to reap orphans: waiting for any child at all, it would
//! take the status of those whose end it waits for elsewhere.

use super::enter::MARKER;
use super::signals::{Relay, Signals};
use super::sys::{self, Namespaces, check};
use std::env;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

/// The supervisor's life. Never returns: its exit is the end of the sandbox.
pub(super) fn supervise(channel: OwnedFd, outer: Namespaces) -> ! {
    let signals = Signals::catch(Relay::Supervisor);
    let status = match start_harness(outer, &signals) {
        Ok(harness) => {
            let status = bury_until(harness);
            report(sys::fd(&channel), b'S', status, "");
            libc::WEXITSTATUS(status)
        }
        Err((what, error)) => {
            report(sys::fd(&channel), b'E', error.raw_os_error().unwrap_or(libc::EIO), what);
            1
        }
    };
    // SAFETY: _exit does not return. Nothing of this process is worth flushing: it has written nothing.
    unsafe { libc::_exit(status) }
}

fn report(channel: BorrowedFd<'_>, kind: u8, number: i32, what: &str) {
    let packet = [&[kind][..], &number.to_ne_bytes(), what.as_bytes()].concat();
    // If this fails the outer process is gone, and so are we in a moment.
    let _ = sys::send_packet(channel, &packet);
}

/// Prepares the mounts and starts the harness; returns its PID.
fn start_harness(outer: Namespaces, signals: &Signals) -> Result<libc::pid_t, (&'static str, io::Error)> {
    let mut signal: libc::c_int = 0;
    // SAFETY: PR_GET_PDEATHSIG writes an int to where it is told; gettid and getpid touch no memory.
    let main_thread = unsafe {
        libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut signal);
        libc::gettid() == libc::getpid()
    };
    // The main thread's own; other threads (a test's) cannot look. Exec takes it away from programs that gain privileges
    // by it (set-user-ID).
    if main_thread && signal != libc::SIGKILL {
        return Err(("keep the parent-death signal over exec", io::Error::from_raw_os_error(libc::ENOTSUP)));
    }
    check(make_mounts_private()).map_err(|e| ("make the mounts private", e))?;
    // Where parts of /proc are masked (containers) a new one is refused. The old one does: nothing here relies on its
    // numbering of processes (see `sys::proc_pid`).
    let _ = mount(c"proc", c"/proc");
    // Servers under libfaketime name files in /dev/shm by PID, and PIDs are alike in every sandbox. Where there is no
    // /dev/shm there is nothing to keep apart.
    match mount(c"tmpfs", c"/dev/shm") {
        Err(e) if e.raw_os_error() != Some(libc::ENOENT) => return Err(("mount /dev/shm", e)),
        _ => {}
    }

    let (ours, theirs) = sys::packet_pair().map_err(|e| ("make a socket pair", e))?;
    let proof = [b"I".to_vec(), outer.to_bytes()].concat();
    sys::send_packet(sys::fd(&ours), &proof).map_err(|e| ("prove the sandbox to the harness", e))?;
    let fd = theirs.as_raw_fd();
    let mut arguments = env::args_os();
    let mut command = Command::new("/proc/self/exe");
    command.arg0(arguments.next().unwrap_or_default()).args(arguments).env(MARKER, format!("harness:{fd}"));
    // SAFETY: the closure runs between fork and exec and makes one system call.
    unsafe { command.pre_exec(move || sys::set_inherited(fd, true)) };
    let harness = command.spawn().map_err(|e| ("execute /proc/self/exe", e))?.id() as libc::pid_t;
    // Left open: it is where signals go, as long as this process lives.
    let pidfd = sys::pidfd(harness).map_err(|e| ("watch the harness", e))?.into_raw_fd();
    signals.relay_to(pidfd);
    Ok(harness)
}

/// Cuts the mounts off from those outside, so that nothing mounted here is seen there. Returns -1 and sets errno on failure.
pub(super) fn make_mounts_private() -> libc::c_int {
    let (none, root): (&CStr, &CStr) = (c"none", c"/");
    // SAFETY: the strings are static; no data is passed.
    unsafe {
        libc::mount(none.as_ptr(), root.as_ptr(), ptr::null(), libc::MS_REC | libc::MS_PRIVATE, ptr::null())
    }
}

fn mount(kind: &CStr, target: &CStr) -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    // SAFETY: the strings are static; no data is passed.
    check(unsafe { libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, ptr::null()) }).map(drop)
}

/// Reaps orphans until the harness has ended; returns its wait status.
fn bury_until(harness: libc::pid_t) -> libc::c_int {
    loop {
        let mut status = 0;
        // SAFETY: `status` is where the status goes. This process has no children that anybody else waits for.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if pid == harness {
            return status;
        }
        if pid == -1 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            unreachable!("the harness is a child of ours until it is reaped here");
        }
    }
}
