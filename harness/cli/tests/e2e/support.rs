//! Running the binary, within bounds.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Far above what any run of these tests needs, also on a machine with much else to do; ends one that hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);
/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(20);
/// The user that has no rights, by the number that every system gives it.
pub(crate) const NOBODY: u32 = 65534;

/// The flags of a run that is gentle to a machine with much else to do: few clients, and faults that leave a majority.
pub(crate) const GENTLE: &[&str] = &[
    "test",
    "--nemesis=kill:one,partition:one",
    "--fault-time=1s",
    "--quiet-time=4s",
    "--rate=100",
    "--concurrency=8",
    "--seed=3",
];

/// How the program ended.
#[derive(Debug)]
pub(crate) struct Done {
    /// As a shell would say it: 128 and more for a signal.
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The program while it runs.
pub(crate) struct Running {
    child: Child,
    out: JoinHandle<String>,
    err: JoinHandle<String>,
}

/// The program, with nothing to read, in a folder where it finds nothing.
pub(crate) fn program<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    program_at(Path::new(env!("CARGO_BIN_EXE_riprap")), args)
}

fn program_at<S: AsRef<OsStr>>(binary: &Path, args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(binary);
    command.args(args).current_dir("/").stdin(Stdio::null());
    // A shell lets what it runs in the background ignore ^C, and so would we, and then the program.
    // SAFETY: between fork and exec the closure makes system calls that touch no memory.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    command
}

/// Runs the program to its end.
#[track_caller]
pub(crate) fn riprap<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Done {
    Running::start(program(args)).end()
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("failed to start {command:?}: {e}"));
        let out = read(child.stdout.take().expect("piped"));
        let err = read(child.stderr.take().expect("piped"));
        Running { child, out, err }
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: kill touches no memory; the child is ours and not reaped yet.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Waits until ^C does not end it any more but is something that it looks at.
    #[track_caller]
    pub(crate) fn await_catching(&self) {
        let began = Instant::now();
        let status = format!("/proc/{}/status", self.child.id());
        let catches = || {
            let status = fs::read_to_string(&status).unwrap_or_default();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
            mask & 1 << (libc::SIGINT - 1) != 0
        };
        while !catches() {
            assert!(began.elapsed() < LIMIT, "it never catches SIGINT");
            thread::sleep(LOOK);
        }
    }

    /// Waits for its end, and for that of all that hold its output: everything that it started.
    #[track_caller]
    pub(crate) fn end(mut self) -> Done {
        let began = Instant::now();
        let mut hung = false;
        let status = loop {
            match self.child.try_wait().expect("the child is ours") {
                Some(status) => break status,
                None if began.elapsed() > LIMIT && !hung => {
                    hung = true;
                    self.child.kill().expect("the child is ours");
                }
                None => thread::sleep(LOOK),
            }
        };
        let code = status.code().unwrap_or_else(|| 128 + status.signal().expect("either or"));
        let words = |thread: JoinHandle<String>| thread.join().expect("reading does not panic");
        let done = Done { code, out: words(self.out), err: words(self.err) };
        assert!(!hung, "hung: {done:?}");
        done
    }
}

fn read(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut all = Vec::new();
        from.read_to_end(&mut all).expect("a pipe is readable");
        String::from_utf8_lossy(&all).into_owned()
    })
}

impl Done {
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Done {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// The one line of a failure, without the program's name; nothing else was said.
    #[track_caller]
    pub(crate) fn only_line(&self) -> &str {
        assert_eq!(self.out, "", "stdout; stderr:\n{}", self.err);
        assert_eq!(self.err.lines().count(), 1, "{}", self.err);
        self.last_line()
    }

    /// The line of a failure, after whatever progress was shown before it.
    #[track_caller]
    pub(crate) fn last_line(&self) -> &str {
        let line = self.err.lines().last().unwrap_or_default();
        assert!(self.err.ends_with('\n'), "no line end: {:?}", self.err);
        line.strip_prefix("riprap: ").unwrap_or_else(|| panic!("not a failure's line: {:?}", self.err))
    }
}

/// Waits until `found` finds something.
#[track_caller]
pub(crate) fn await_some<T>(what: &str, limit: Duration, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        thread::sleep(LOOK);
    }
}

/// Lets the program open so many files at first, and so many at most if it asks.
pub(crate) fn limit_files(command: &mut Command, soft: u64, hard: Option<u64>) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through the call.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur = soft;
    limit.rlim_max = hard.unwrap_or(limit.rlim_max);
    // SAFETY: between fork and exec the closure makes one system call, on memory of its own.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

/// Live runs take turns: side by side they would starve each other.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who runs the tests.
pub(crate) fn myself() -> u32 {
    // SAFETY: geteuid touches no memory.
    unsafe { libc::geteuid() }
}

/// A place to run in as some user: a store that they may write to and, if they are not who runs the tests, a copy of the
/// program that they may read.
pub(crate) struct Place {
    folder: TempDir,
    user: Option<u32>,
}

impl Place {
    /// For whoever runs the tests.
    pub(crate) fn mine() -> Place {
        Place::of(None)
    }

    pub(crate) fn of(user: Option<u32>) -> Place {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let open = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions of our own");
        };
        open(folder.path(), 0o755);
        let place = Place { folder, user };
        fs::create_dir(place.store()).expect("a folder in a folder");
        open(&place.store(), 0o777);
        if user.is_some() {
            // Where the tests' own program lies may be closed to others.
            fs::copy(env!("CARGO_BIN_EXE_riprap"), place.binary()).expect("room for a copy of the program");
            open(&place.binary(), 0o755);
        }
        place
    }

    /// Those as whom a run can be tested here.
    pub(crate) fn all() -> Vec<Place> {
        if myself() == 0 { vec![Place::mine(), Place::of(Some(NOBODY))] } else { vec![Place::mine()] }
    }

    /// The program, where the place's user may read it.
    pub(crate) fn binary(&self) -> PathBuf {
        match self.user {
            None => env!("CARGO_BIN_EXE_riprap").into(),
            Some(_) => self.folder.path().join("riprap"),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// The newest run's folder.
    pub(crate) fn latest(&self) -> PathBuf {
        self.store().join("latest")
    }

    pub(crate) fn history(&self) -> PathBuf {
        self.latest().join("history.jsonl")
    }

    /// The program with these arguments, as the place's user.
    pub(crate) fn program<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = program_at(&self.binary(), args);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// A run with these flags, into the store.
    pub(crate) fn run(&self, args: &[&str]) -> Running {
        Running::start(self.command(args))
    }

    /// What runs with these flags, into the store.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let store = [OsString::from("--store"), self.store().into_os_string()];
        self.program(args.iter().map(OsString::from).chain(store))
    }

    /// Those processes whose command line names this place, but for the dead that nobody has buried yet.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let name = self.folder.path().as_os_str().as_encoded_bytes();
        let mine = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(name.len()).any(|part| part == name)
        };
        let entries = fs::read_dir("/proc").expect("mounted").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(mine).collect()
    }

    /// Nothing of a run is left. Dying takes the kernel a moment, on a machine with much else to do a longer one.
    #[track_caller]
    pub(crate) fn expect_nobody(&self) {
        await_some("the end of everything that was started", Duration::from_secs(30), || {
            self.processes().is_empty().then_some(())
        });
    }

    /// Waits until a run has acknowledged so many sends.
    #[track_caller]
    pub(crate) fn await_sends(&self, count: usize) {
        await_some("a run in full swing", LIMIT, || {
            let history = fs::read_to_string(self.history()).ok()?;
            let sends = history.matches(r#""type":"ok","f":"send""#).count();
            (sends >= count).then_some(())
        });
    }
}
