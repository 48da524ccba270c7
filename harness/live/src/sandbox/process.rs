//! A node's server as a process: started in the node's network, signalled, watched, buried.
//!
//! Each runs in a session of its own, and signals go to its whole process group, so that a start script and the server
//! it starts are killed or stopped together. What a signal did is looked up afterwards, not assumed: a pause returns when
//! every thread is stopped, a kill when the process is reaped.
//!
//! What it cannot see: processes that left the group (a daemon's double fork). They end with the sandbox.

use super::enter::MARKER;
use super::network::{Endpoint, Network};
use super::sys;
use riprap_core::system::NodeCommand;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long a signal that cannot be refused may take: the kernel acts at once unless a thread sits in uninterruptible
/// I/O, on a busy disk for seconds.
const SIGNAL_WAIT: Duration = Duration::from_secs(10);
/// How long a stop may take before it is tried anew (see `stop_or_go`).
const SIGNAL_AGAIN: Duration = Duration::from_millis(100);
/// Between two looks at a process's state: nothing announces it.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Why a process could not be started or brought into a state.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// It did not start.
    #[error("failed to start {program}: {source}")]
    Start {
        /// What was to run.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// Its log could not be opened.
    #[error("failed to open the log {path}: {source}")]
    Log {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is not alive, and so cannot be paused or resumed.
    #[error("{program} (pid {pid}) has already ended: {status}")]
    Ended {
        /// What ran.
        program: String,
        /// Its process id inside the sandbox.
        pid: i32,
        /// How it ended.
        status: ExitStatus,
    },
    /// A signal had no effect in time.
    #[error("{program} (pid {pid}) is not {expected} {wait_ms} ms after the signal; it is {state:?}")]
    Unmoved {
        /// What runs.
        program: String,
        /// Its process id inside the sandbox.
        pid: i32,
        /// The state that was to come.
        expected: &'static str,
        /// The state seen last.
        state: ProcessState,
        /// How long was waited.
        wait_ms: u128,
    },
    /// A system call failed that never should.
    #[error("failed to {what} pid {pid}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// Its process id inside the sandbox.
        pid: i32,
        /// Why it failed.
        source: io::Error,
    },
}

/// What to run on a node.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    /// The program: a path, or a name to look up in PATH.
    pub program: PathBuf,
    /// Its arguments, without its name.
    pub args: Vec<OsString>,
    /// Added to the harness's own environment.
    pub env: BTreeMap<OsString, OsString>,
    /// Its working directory; none is the harness's own.
    pub cwd: Option<PathBuf>,
    /// Where its output goes, both streams, appended.
    pub log: PathBuf,
}

/// What a process is doing, as the kernel tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessState {
    /// Running, or waiting for something to do.
    Alive,
    /// Every thread is stopped by a signal.
    Paused,
    /// It has ended.
    Gone,
}

/// How a process ended that was asked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// Whether it did not heed the request and was killed.
    pub forced: bool,
}

/// A process on a node. Dropping it kills it.
#[derive(Debug)]
pub struct NodeProcess {
    program: String,
    child: Child,
    pidfd: OwnedFd,
    /// Set once it is reaped; from then on its id may be another's, and is signalled no more.
    status: Option<ExitStatus>,
}

impl ProcessSpec {
    /// What a system's command says, with its output going there.
    pub fn of(command: NodeCommand, log: PathBuf) -> ProcessSpec {
        ProcessSpec {
            program: command.program,
            args: command.args.into_iter().map(Into::into).collect(),
            env: command.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: None,
            log,
        }
    }
}

impl NodeProcess {
    /// Starts a process on a node (or beside the harness). Its standard input is empty.
    ///
    /// Errors: [`ProcessError::Start`], [`ProcessError::Log`]. Panics: no such node.
    pub fn spawn(
        spec: &ProcessSpec,
        network: &Network,
        place: impl Into<Endpoint>,
    ) -> Result<NodeProcess, ProcessError> {
        NodeProcess::spawn_by(spec, |command| network.pre_exec_into(command, place))
    }

    /// The same where this process is; the kernel kills it when the calling thread ends.
    pub fn spawn_here(spec: &ProcessSpec) -> Result<NodeProcess, ProcessError> {
        let detach = || {
            // SAFETY: neither touches memory. A process just forked leads no group, so that it cannot fail to lead a session.
            unsafe {
                libc::setsid();
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            }
            Ok(())
        };
        NodeProcess::spawn_by(spec, |command| {
            // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
            unsafe { command.pre_exec(detach) };
        })
    }

    fn spawn_by(spec: &ProcessSpec, enter: impl FnOnce(&mut Command)) -> Result<NodeProcess, ProcessError> {
        let program = spec.program.display().to_string();
        let log_failed = |source| ProcessError::Log { path: spec.log.clone(), source };
        let log = File::options().append(true).create(true).open(&spec.log).map_err(log_failed)?;
        let log_again = log.try_clone().map_err(log_failed)?;
        let mut command = Command::new(&spec.program);
        command
            .args(&spec.args)
            .env_remove(MARKER)
            .envs(&spec.env)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_again);
        if let Some(cwd) = &spec.cwd {
            command.current_dir(cwd);
        }
        enter(&mut command);
        let start_failed = |source| ProcessError::Start { program: program.clone(), source };
        let mut child = command.spawn().map_err(start_failed)?;
        match sys::pidfd(child.id() as i32) {
            Ok(pidfd) => Ok(NodeProcess { program, child, pidfd, status: None }),
            Err(source) => {
                child.kill().and_then(|()| child.wait()).ok();
                Err(ProcessError::Start { program, source })
            }
        }
    }

    /// Its process id inside the sandbox.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// What it was started as, its program and its arguments, as the kernel tells; of a script its interpreter comes first.
    pub fn words(&self) -> Result<Vec<String>, ProcessError> {
        let pid = self.pid();
        let words = fs::read(format!("/proc/{pid}/cmdline")).map_err(|source| ProcessError::System {
            what: "read the command line of",
            pid,
            source,
        })?;
        let words = words.strip_suffix(&[0]).unwrap_or(&words).split(|byte| *byte == 0);
        Ok(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
    }

    /// Ends it at once, and returns its status. If it has already ended, that status.
    pub fn kill(&mut self) -> Result<ExitStatus, ProcessError> {
        // To the group also when its leader has ended: what the leader started may live on. Until the leader is reaped,
        // nobody else can have its number.
        self.signal(libc::SIGKILL, "kill")?;
        match self.wait(SIGNAL_WAIT)? {
            Some(status) => Ok(status),
            None => Err(self.unmoved("gone")),
        }
    }

    /// Asks it to end, and kills it if it has not after `wait`; a paused process is resumed to hear it.
    pub fn terminate(&mut self, wait: Duration) -> Result<Ended, ProcessError> {
        self.signal(libc::SIGTERM, "terminate")?;
        self.signal(libc::SIGCONT, "resume")?;
        let heeded = self.wait(wait)?;
        let status = self.kill()?;
        Ok(Ended { status, forced: heeded.is_none() })
    }

    /// Stops all its threads; returns when they are stopped. No error if they were.
    pub fn pause(&mut self) -> Result<(), ProcessError> {
        self.stop_or_go(libc::SIGSTOP, "pause", ProcessState::Paused, "paused")
    }

    /// Lets it go on; returns when it does. No error if it did.
    pub fn resume(&mut self) -> Result<(), ProcessError> {
        self.stop_or_go(libc::SIGCONT, "resume", ProcessState::Alive, "alive")
    }

    /// Its status if it has ended, waiting for that no longer than `wait`.
    pub fn wait(&mut self, wait: Duration) -> Result<Option<ExitStatus>, ProcessError> {
        if self.status.is_some() {
            return Ok(self.status);
        }
        let pid = self.pid();
        let failed = |source| ProcessError::System { what: "wait for", pid, source };
        if !sys::readable(&[sys::fd(&self.pidfd)], wait).map_err(failed)?[0] {
            return Ok(None);
        }
        // Its group loses the leader, whose number could be given away once it is reaped: the rest goes now.
        self.signal(libc::SIGKILL, "kill the group of")?;
        self.status = Some(self.child.wait().map_err(failed)?);
        Ok(self.status)
    }

    /// Its status if it has ended.
    pub fn has_exited(&mut self) -> Result<Option<ExitStatus>, ProcessError> {
        self.wait(Duration::ZERO)
    }

    /// What it is doing.
    pub fn state(&self) -> ProcessState {
        if self.status.is_some() {
            return ProcessState::Gone;
        }
        let Some(pid) = sys::proc_pid(sys::fd(&self.pidfd)) else { return ProcessState::Gone };
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let states: Vec<u8> = threads.filter_map(|t| thread_state(&t.path().join("stat"))).collect();
        match states.as_slice() {
            [] => ProcessState::Gone,
            all if all.iter().all(|s| matches!(s, b'Z' | b'X')) => ProcessState::Gone,
            all if all.iter().all(|s| *s == b'T') => ProcessState::Paused,
            _ => ProcessState::Alive,
        }
    }

    fn stop_or_go(
        &mut self,
        signal: libc::c_int,
        what: &'static str,
        to: ProcessState,
        expected: &'static str,
    ) -> Result<(), ProcessError> {
        let deadline = Instant::now() + SIGNAL_WAIT;
        let mut next = Instant::now();
        let mut first = true;
        loop {
            if let Some(status) = self.has_exited()? {
                return Err(ProcessError::Ended { program: self.program.clone(), pid: self.pid(), status });
            }
            if self.state() == to {
                return Ok(());
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(self.unmoved(expected));
            }
            if now >= next {
                if !first {
                    // A parent that waits for a vforked child to execute something does not stop, and when that child
                    // has been stopped first, never will: all go on for a moment, and are signalled anew.
                    self.signal(libc::SIGCONT, "resume")?;
                }
                self.signal(signal, what)?;
                (first, next) = (false, now + SIGNAL_AGAIN);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// Signals the group. Once the leader is reaped, its number may be another's: then nothing is sent.
    fn signal(&self, signal: libc::c_int, what: &'static str) -> Result<(), ProcessError> {
        let pid = self.pid();
        if self.status.is_some() {
            return Ok(());
        }
        // SAFETY: killpg touches no memory.
        match sys::check(unsafe { libc::killpg(pid, signal) }) {
            Ok(_) => Ok(()),
            // The group has ended.
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            Err(source) => Err(ProcessError::System { what, pid, source }),
        }
    }

    fn unmoved(&self, expected: &'static str) -> ProcessError {
        ProcessError::Unmoved {
            program: self.program.clone(),
            pid: self.pid(),
            expected,
            state: self.state(),
            wait_ms: SIGNAL_WAIT.as_millis(),
        }
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // Bounded; whatever resists ends with the sandbox.
        let _ = self.kill();
    }
}

/// The state letter of a thread: what follows the name, which may itself hold parentheses and blanks.
fn thread_state(stat: &Path) -> Option<u8> {
    let text = fs::read(stat).ok()?;
    let after_name = text.iter().rposition(|b| *b == b')')?;
    text.get(after_name + 2).copied()
}
