//! Into the sandbox and out again: three lives of one program.
//!
//! - **Outer**: what the user started. It clones a child into new namespaces, maps its user, lets it go, forwards
//!   signals to it, waits, and returns its status.
//! - **Supervisor**: that child, the same program executed anew, PID 1 of the new PID namespace. It makes the mounts
//!   private, mounts its own `/proc` and `/dev/shm`, starts the harness, buries orphans, and reports how the harness
//!   ended. When it goes, the kernel kills everything in the sandbox.
//! - **Harness**: the same program once more, a child of the supervisor, so that nobody but the harness itself collects
//!   the status of the servers that it starts.
//!
//! What ties them together, and why:
//! - The outer process's death in any way (`kill -9`) kills the supervisor through its parent-death signal, which is
//!   armed before the outer process says "go"; were the outer process dead by then, "go" never comes. The signal fires
//!   when the *thread* that cloned dies, so that this thread stays in waitid(2).
//! - Which life a process lives is proved, not believed: an environment variable names an inherited socket, and the
//!   kernel says who made it (SO_PEERCRED: PID 0, outside, for the supervisor; PID 1, our parent, for the harness). Over
//!   it come the namespaces of the outer process, none of which may be our own. An inherited or forged variable with
//!   nothing behind it makes an outer process.
//! - The supervisor leads a session of its own: a terminal's ^C reaches the outer process alone, which forwards it
//!   exactly once.
//!
//! Protocol on the socket between outer and supervisor, one packet each: `A` armed → `G` go ← · `I` namespaces ← ·
//! `E` errno, what failed → · `S` wait status of the harness →.
//!
//! What it cannot do: stop with the terminal's ^Z (only the outer process stops; what is inside goes on).

use super::error::{Policy, SandboxError};
use super::signals::{self, Relay, Signals};
use super::supervisor;
use super::sys::{self, Namespaces, check};
use std::env;
use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::ptr;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// The environment variable through which one life tells the next which descriptor holds its proof.
pub(super) const MARKER: &str = "RIPRAP_SANDBOX";

/// Each step of the handshake takes microseconds; this only ends what would hang, on a machine however loaded.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(30);

/// Proof that this process runs inside a sandbox.
#[derive(Clone, Debug)]
pub struct Inside {
    _only_from_enter: (),
}

/// What [`enter`] came back with.
#[derive(Debug)]
pub enum Entered {
    /// This is the harness, inside.
    Inside(Inside),
    /// This is the outer process; the harness inside has ended with this exit status, and so should we.
    Done(u8),
}

/// Runs the rest of the program in a sandbox. To be called first thing in `main`, with nothing open and no thread
/// started whose work the process inside would miss: it begins `main` anew, with the same arguments.
///
/// In the process that the user started it returns [`Entered::Done`] when all is over. Inside it returns
/// [`Entered::Inside`], also when called again. In the supervisor it does not return.
///
/// The first SIGINT, SIGTERM or SIGHUP is passed to the harness; a second one kills all that is inside. The wait for the
/// harness has no limit of its own: a run lasts as long as it lasts.
pub fn enter() -> Result<Entered, SandboxError> {
    static INSIDE: OnceLock<Inside> = OnceLock::new();
    static WAITING: Mutex<()> = Mutex::new(());

    if let Some(inside) = INSIDE.get() {
        return Ok(Entered::Inside(inside.clone()));
    }
    let Ok(_one_at_a_time) = WAITING.try_lock() else { return Err(SandboxError::Busy) };
    match life()? {
        Life::Outer => run_outer().map(Entered::Done),
        Life::Supervisor(channel, outer) => supervisor::supervise(channel, outer),
        Life::Harness => Ok(Entered::Inside(INSIDE.get_or_init(|| Inside { _only_from_enter: () }).clone())),
    }
}

/// Whether a sandbox could be had here, found out by making one and leaving it at once.
pub fn probe() -> Result<(), SandboxError> {
    let child = Child::start(None)?;
    let end = child.wait(None)?;
    end.map(drop)
}

enum Life {
    Outer,
    /// With the socket to the outer process, and the namespaces that the outer process has.
    Supervisor(OwnedFd, Namespaces),
    Harness,
}

/// Finds out which life this process lives.
fn life() -> Result<Life, SandboxError> {
    let marker = env::var(MARKER).unwrap_or_default();
    let claim = marker.split_once(':').and_then(|(role, fd)| Some((role, fd.parse::<RawFd>().ok()?)));
    let Some((role, fd)) = claim else { return Ok(Life::Outer) };
    // SAFETY: getpid and getppid touch no memory.
    let (pid, parent) = unsafe { (libc::getpid(), libc::getppid()) };
    let maker = match role {
        "supervisor" if pid == 1 => 0,
        "harness" if parent == 1 => 1,
        // Inherited by some process deeper inside: it may have a sandbox of its own.
        _ => return Ok(Life::Outer),
    };
    // From here on a missing proof is an error: to start a sandbox instead could go on without end.
    if sys::packet_peer(fd) != Some(maker) {
        return Err(SandboxError::Unproven);
    }
    // SAFETY: the descriptor is a socket that our maker left to us, as the kernel attests; nobody else in this process
    // knows of it.
    let channel = unsafe { OwnedFd::from_raw_fd(fd) };
    let unreadable = SandboxError::setup("read the sandbox's proof");
    sys::set_inherited(fd, false).map_err(SandboxError::setup("keep the sandbox's proof"))?;
    let packet = sys::receive_packet(sys::fd(&channel), HANDSHAKE_WAIT).map_err(unreadable)?;
    let ours = Namespaces::of_self().map_err(SandboxError::setup("read /proc/self/ns"))?;
    let told = packet.strip_prefix(b"I").and_then(Namespaces::from_bytes).ok_or(SandboxError::Unproven)?;
    if !ours.are_apart_from(&told) {
        return Err(SandboxError::Unproven);
    }
    Ok(if role == "supervisor" { Life::Supervisor(channel, told) } else { Life::Harness })
}

/// All that the child needs, made before it is cloned: between clone and exec a copy of one thread of a process that may
/// have many must not allocate.
struct Prepared {
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Prepared {
    /// The same arguments and environment, and the marker that names `channel`.
    fn new(channel: RawFd) -> Prepared {
        let c =
            |s: OsString| CString::new(s.into_vec()).expect("arguments and environment came as C strings");
        let marker = format!("{MARKER}=supervisor:{channel}");
        let inherited = env::vars_os().filter(|(name, _)| name.as_bytes() != MARKER.as_bytes());
        let environment = inherited.map(|(name, value)| [name, value].join("=".as_ref())).map(c);
        Prepared {
            arguments: env::args_os().map(c).collect(),
            environment: environment.chain([c(marker.into())]).collect(),
        }
    }
}

/// Pointers to C strings, with the null at the end that execve expects.
fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
}

/// The first process of a sandbox, seen from outside.
struct Child {
    pid: libc::pid_t,
    pidfd: OwnedFd,
    channel: OwnedFd,
    policy: Policy,
}

impl Child {
    /// Clones the child and lets it go: to execute this program anew, or (none) only to try what it would need.
    fn start(program: Option<()>) -> Result<Child, SandboxError> {
        let policy = Policy::read();
        let (ours, theirs) = sys::packet_pair().map_err(SandboxError::setup("make a socket pair"))?;
        let prepared = program.map(|()| Prepared::new(theirs.as_raw_fd()));
        let (pid, pidfd, mapped) = match clone_child(true, &ours, &theirs, prepared.as_ref()) {
            Ok((pid, pidfd)) => (pid, pidfd, true),
            // Root may have the other namespaces where user namespaces are switched off.
            Err(refused) => match clone_child(false, &ours, &theirs, prepared.as_ref()) {
                Ok((pid, pidfd)) => (pid, pidfd, false),
                Err(_) => return Err(policy.refused("clone with new namespaces", refused)),
            },
        };
        drop(theirs);
        let child = Child { pid, pidfd, channel: ours, policy };
        match child.release(mapped) {
            Ok(()) => Ok(child),
            Err(error) => {
                child.kill();
                child.wait(None).ok();
                Err(error)
            }
        }
    }

    fn release(&self, new_user_namespace: bool) -> Result<(), SandboxError> {
        let channel = sys::fd(&self.channel);
        let armed = sys::receive_packet(channel, HANDSHAKE_WAIT);
        let armed = armed.map_err(SandboxError::setup("hear from the sandbox's first process"))?;
        if armed != b"A" {
            return Err(SandboxError::Vanished);
        }
        if new_user_namespace {
            self.map_user()?;
        }
        let namespaces = Namespaces::of_self().map_err(SandboxError::setup("read /proc/self/ns"))?;
        for packet in [b"G".to_vec(), [b"I".to_vec(), namespaces.to_bytes()].concat()] {
            sys::send_packet(channel, &packet)
                .map_err(SandboxError::setup("start the sandbox's first process"))?;
        }
        Ok(())
    }

    /// Gives the child its user: for root every user as outside, so that root inside may write where root outside may;
    /// for anybody else the one user that they are, as root.
    fn map_user(&self) -> Result<(), SandboxError> {
        // SAFETY: geteuid and getegid touch no memory.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        let gone = io::Error::from_raw_os_error(libc::ESRCH);
        let pid = sys::proc_pid(sys::fd(&self.pidfd))
            .ok_or(gone)
            .map_err(SandboxError::setup("find it in /proc"))?;
        let file = |name: &str| format!("/proc/{pid}/{name}");
        let all = |name: &str| {
            fs::write(file(name), identity_map(&fs::read_to_string(format!("/proc/self/{name}"))?))
        };
        if uid == 0 && all("uid_map").is_ok() {
            if all("gid_map").is_ok() {
                return Ok(());
            }
        } else {
            let text = format!("0 {uid} 1\n");
            fs::write(file("uid_map"), text).map_err(|e| self.policy.refused("map the user", e))?;
        }
        // Without privileges a group may only be mapped once the namespace has given up changing groups.
        fs::write(file("setgroups"), "deny")
            .map_err(|e| self.policy.refused("give up changing groups", e))?;
        fs::write(file("gid_map"), format!("0 {gid} 1\n"))
            .map_err(|e| self.policy.refused("map the group", e))
    }

    fn kill(&self) {
        signals::send(self.pidfd.as_raw_fd(), libc::SIGKILL);
    }

    /// Waits until the child has ended, and reads what it reported: the exit status of the harness.
    fn wait(&self, signals: Option<&Signals>) -> Result<Result<u8, SandboxError>, SandboxError> {
        loop {
            // SAFETY: waitid fills `info`, which it may leave alone.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            // SAFETY: `info` lives through the call. Only children of ours are reaped, this one.
            let waited =
                unsafe { libc::waitid(libc::P_PID, self.pid as libc::id_t, &raw mut info, libc::WEXITED) };
            match check(waited) {
                Ok(_) => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                // Somebody up the tree ignores SIGCHLD: the kernel buries children by itself, once they are dead.
                Err(e) if e.raw_os_error() == Some(libc::ECHILD) => break,
                Err(e) => return Err(SandboxError::Setup { what: "wait for the sandbox".into(), source: e }),
            }
        }
        let reported = sys::receive_packet(sys::fd(&self.channel), Duration::ZERO).unwrap_or_default();
        if signals.is_some_and(Signals::forced) {
            return Ok(Err(SandboxError::Interrupted));
        }
        let number =
            |bytes: &[u8]| bytes.get(0..4).map(|n| i32::from_ne_bytes(n.try_into().expect("4 bytes")));
        Ok(match reported.split_first() {
            Some((b'S', rest)) => match number(rest) {
                Some(status) if libc::WIFEXITED(status) => Ok(libc::WEXITSTATUS(status) as u8),
                Some(status) => Err(SandboxError::Killed(libc::WTERMSIG(status))),
                None => Err(SandboxError::Vanished),
            },
            Some((b'E', rest)) => {
                let source = io::Error::from_raw_os_error(number(rest).unwrap_or(libc::EBADMSG));
                let what = String::from_utf8_lossy(rest.get(4..).unwrap_or_default()).into_owned();
                Err(match source.raw_os_error() {
                    Some(libc::EPERM | libc::EACCES) => self.policy.refused(what, source),
                    _ => SandboxError::Setup { what, source },
                })
            }
            _ => Err(SandboxError::Vanished),
        })
    }
}

/// A map that gives every id of this user namespace the same id in a child of it.
fn identity_map(own_map: &str) -> String {
    let lines = own_map.lines().filter_map(|line| {
        let [inside, _outside, count] = line.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
        Some(format!("{inside} {inside} {count}\n"))
    });
    lines.collect()
}

fn run_outer() -> Result<u8, SandboxError> {
    let signals = Signals::catch(Relay::Outer);
    let child = Child::start(Some(()))?;
    signals.relay_to(child.pidfd.as_raw_fd());
    child.wait(Some(&signals))?
}

/// Clones a process into new namespaces, with a user namespace or (root only) without.
fn clone_child(
    user_namespace: bool,
    ours: &OwnedFd,
    theirs: &OwnedFd,
    prepared: Option<&Prepared>,
) -> io::Result<(libc::pid_t, OwnedFd)> {
    let kinds =
        libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    let user = if user_namespace { libc::CLONE_NEWUSER } else { 0 };
    let flags = kinds | user | libc::CLONE_PIDFD | libc::SIGCHLD;
    let mut pidfd: RawFd = -1;
    let arguments = prepared.map(|p| pointers(&p.arguments)).unwrap_or_default();
    let environment = prepared.map(|p| pointers(&p.environment)).unwrap_or_default();
    let exec = prepared.map(|_| (arguments.as_ptr(), environment.as_ptr()));
    let null = ptr::null_mut::<libc::c_void>();
    // SAFETY: without CLONE_VM and with no stack given, clone is fork: the child goes on with a copy of this thread.
    // `pidfd` is where CLONE_PIDFD writes.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone, flags as libc::c_long, null, &raw mut pidfd, null, null) };
    match pid {
        0 => {
            // SAFETY: this is the child; the pointers are to C strings and end with null, as prepared above.
            unsafe { child_main(ours.as_raw_fd(), theirs.as_raw_fd(), exec) }
        }
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel just made this descriptor for us.
        pid => Ok((pid as libc::pid_t, unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}

/// The argument and environment vectors for execve.
type Exec = (*const *const libc::c_char, *const *const libc::c_char);

/// What the child does between clone and exec: system calls and nothing else.
///
/// # Safety
/// To be called in a freshly cloned child only; `exec` must hold what execve(2) expects.
unsafe fn child_main(theirs_to_close: RawFd, channel: RawFd, exec: Option<Exec>) -> ! {
    // SAFETY: every call gets descriptors by number and memory that lives through the call; none allocates or locks, so
    // that it does not matter what other threads of the parent held at the time of the clone.
    unsafe {
        // The parent's end must not stay open here, or its death would not be the end of the stream.
        libc::close(theirs_to_close);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let mut go = [0_u8; 1];
        libc::send(channel, b"A".as_ptr().cast(), 1, libc::MSG_NOSIGNAL);
        if libc::recv(channel, go.as_mut_ptr().cast(), 1, 0) != 1 || go != *b"G" {
            libc::_exit(1);
        }
        // Signals that the caller's thread blocked, or a SIGCHLD that somebody ignored, must not reach the supervisor.
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::setsid();
        let what: &[u8] = match exec {
            Some((arguments, environment)) => {
                libc::fcntl(channel, libc::F_SETFD, 0);
                libc::execve(c"/proc/self/exe".as_ptr(), arguments, environment);
                b"execute /proc/self/exe"
            }
            None if supervisor::make_mounts_private() == -1 => b"make the mounts private",
            None => {
                let status = [b'S', 0, 0, 0, 0];
                libc::send(channel, status.as_ptr().cast(), status.len(), libc::MSG_NOSIGNAL);
                libc::_exit(0);
            }
        };
        let errno = (*libc::__errno_location()).to_ne_bytes();
        let mut report = [0_u8; 64];
        report[0] = b'E';
        ptr::copy_nonoverlapping(errno.as_ptr(), report.as_mut_ptr().add(1), 4);
        ptr::copy_nonoverlapping(what.as_ptr(), report.as_mut_ptr().add(5), what.len());
        libc::send(channel, report.as_ptr().cast(), 5 + what.len(), libc::MSG_NOSIGNAL);
        libc::_exit(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_map_keeps_what_is_mapped() {
        for (own, expect) in [
            ("         0          0 4294967295\n", "0 0 4294967295\n"),
            ("0 1000 1\n1 100000 65536\n", "0 0 1\n1 1 65536\n"),
            ("", ""),
        ] {
            assert_eq!(identity_map(own), expect, "{own:?}");
        }
    }
}
