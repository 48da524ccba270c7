//! From the user to the harness: ^C and its like, once.
//!
//! A handler in the outer process passes the first signal on to the supervisor, and a handler there passes it on to the
//! harness, which ends the run in order. A second one is impatience: everything inside is killed. A handler may run at any
//! moment, between any two instructions, so that it only touches atomics and makes system calls.

use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};

/// A second signal within this time is the first one seen twice (`timeout` signals its child and then its group), not
/// an impatient user.
const SAME_REQUEST_MS: i64 = 300;

/// The signals by which a user, a terminal or a CI system asks a program to end.
const FORWARDED: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The pidfd of whom signals go on to; -1 while there is nobody yet.
static TARGET: AtomicI32 = AtomicI32::new(-1);
/// A signal that has yet to go on; 0 is none.
static PENDING: AtomicI32 = AtomicI32::new(0);
/// In the outer process, when the first signal came; 0 is never. Units: milliseconds of the monotonic clock.
static FIRST_MS: AtomicI64 = AtomicI64::new(0);
/// In the outer process, whether a second one came.
static FORCED: AtomicBool = AtomicBool::new(false);

/// Sends a signal to the process behind a pidfd. Allowed in a signal handler.
pub(super) fn send(pidfd: RawFd, signal: libc::c_int) {
    // SAFETY: pidfd_send_signal touches no memory when given no siginfo. It fails harmlessly when the process is gone.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd, signal, ptr::null::<libc::siginfo_t>(), 0) };
}

/// Sends on what is pending, if there is somebody to send it to. Both sides of the race between a signal's coming and a
/// target's coming call this when they have written what they know; whoever is later finds both.
fn relay() {
    let target = TARGET.load(Ordering::SeqCst);
    if target < 0 {
        return;
    }
    if FORCED.load(Ordering::SeqCst) {
        send(target, libc::SIGKILL);
    }
    match PENDING.swap(0, Ordering::SeqCst) {
        0 => {}
        signal => send(target, signal),
    }
}

/// The outer process's handler.
extern "C" fn on_signal_outer(signal: libc::c_int) {
    // SAFETY: errno is this thread's own; it is put back below.
    let errno = unsafe { *libc::__errno_location() };
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is where the time goes; clock_gettime is allowed in handlers.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    // One more, since 0 is never.
    let now_ms = now.tv_sec * 1000 + now.tv_nsec / 1_000_000 + 1;
    match FIRST_MS.compare_exchange(0, now_ms, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => PENDING.store(signal, Ordering::SeqCst),
        Err(first_ms) if now_ms - first_ms >= SAME_REQUEST_MS => FORCED.store(true, Ordering::SeqCst),
        Err(_) => {}
    }
    relay();
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = errno };
}

/// The supervisor's handler: what the outer process sends is already counted.
extern "C" fn on_signal_supervisor(signal: libc::c_int) {
    // SAFETY: errno is this thread's own; it is put back below.
    let errno = unsafe { *libc::__errno_location() };
    PENDING.store(signal, Ordering::SeqCst);
    relay();
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = errno };
}

/// Which of the two relays this process is.
#[derive(Clone, Copy)]
pub(super) enum Relay {
    /// From the user to the supervisor.
    Outer,
    /// From the outer process to the harness.
    Supervisor,
}

/// While it lives, signals that ask this process to end go to another instead.
pub(super) struct Signals {
    before: Vec<(libc::c_int, libc::sigaction)>,
}

impl Signals {
    /// Holds signals back until it is said where they go. One at a time exists in a process.
    pub(super) fn catch(relay: Relay) -> Signals {
        TARGET.store(-1, Ordering::SeqCst);
        PENDING.store(0, Ordering::SeqCst);
        FIRST_MS.store(0, Ordering::SeqCst);
        FORCED.store(false, Ordering::SeqCst);
        let handler = match relay {
            Relay::Outer => on_signal_outer,
            Relay::Supervisor => on_signal_supervisor,
        };
        Signals { before: FORWARDED.iter().filter_map(|&s| Some((s, handle(s, handler)?))).collect() }
    }

    /// From now on they go to the process behind this pidfd, which stays open for as long.
    pub(super) fn relay_to(&self, pidfd: RawFd) {
        TARGET.store(pidfd, Ordering::SeqCst);
        relay();
    }

    /// Whether the user asked twice, and all was killed.
    pub(super) fn forced(&self) -> bool {
        FORCED.load(Ordering::SeqCst)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        TARGET.store(-1, Ordering::SeqCst);
        for (signal, before) in &self.before {
            // SAFETY: `before` is what sigaction itself returned.
            unsafe { libc::sigaction(*signal, before, ptr::null_mut()) };
        }
    }
}

/// Installs a handler and returns what was there; leaves a signal alone that is ignored (nohup).
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> Option<libc::sigaction> {
    // SAFETY: sigaction structs are plain data for which zero is valid; the handlers use only what handlers may.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &raw mut before);
        if before.sa_sigaction == libc::SIG_IGN {
            return None;
        }
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handler as *const () as libc::sighandler_t;
        new.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const new, ptr::null_mut());
        Some(before)
    }
}
