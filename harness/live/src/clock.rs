//! Wall clocks of real nodes, each set apart from the machine's.
//!
//! All namespaces share one clock, so it is the node's process that is told another time: the bundled broker by a file that it
//! looks at itself, others by libfaketime, which answers in the C library's place and looks at a file too. Either way time that
//! only goes on (monotonic) is left alone, as a clock that is set leaves it.
//!
//! What it cannot do: programs that ask the kernel themselves, as those of Go do.
//!
//! libfaketime looks at its file once a second at most: to look whenever somebody asks for the time costs 25 us each, and a
//! server such as Apache Kafka, which asks all the time, does not get to start. What it does by default to waits on condition
//! variables that go by monotonic time makes those of Java's virtual machine return at once, or late; that is switched off.
//!
//! Source: libfaketime 0.9.10, README, "FAKETIME_TIMESTAMP_FILE", "FAKETIME_CACHE_DURATION", "FAKETIME_DONT_FAKE_MONOTONIC",
//! "FAKETIME_FORCE_MONOTONIC_FIX".

use crate::sandbox::{NodeProcess, ProcessSpec, ProcessState};
use riprap_core::cluster::ClusterError;
use riprap_core::system::ClockVia;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where distributions put libfaketime; the one for programs with threads first.
const LIBRARIES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
];
/// What a process that goes by it has loaded.
const LIBRARY: &str = "libfaketime";
/// How long a node gets to see that its clock was set: it looks whenever it does something, which an idle one does several
/// times a second.
const SEE_LIMIT: Duration = Duration::from_secs(5);
/// After so long libfaketime has looked at its file anew: it counts whole seconds, and waits for more than one.
const CACHED: Duration = Duration::from_millis(2100);
/// Between two looks whether it has.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Why the clocks of real nodes cannot be set on this machine, if they cannot.
pub fn obstacle(via: ClockVia) -> Option<&'static str> {
    match via {
        ClockVia::Preloaded if library().is_none() => Some("libfaketime is not installed"),
        via => obstacle_anywhere(via),
    }
}

/// The same of whatever machine.
pub fn obstacle_anywhere(via: ClockVia) -> Option<&'static str> {
    match via {
        ClockVia::Option(_) | ClockVia::Preloaded => None,
        ClockVia::Machine(why) => Some(why),
    }
}

fn library() -> Option<&'static str> {
    LIBRARIES.iter().copied().find(|path| Path::new(path).exists())
}

/// The clock of a node. Clones are the same.
#[derive(Clone)]
pub(crate) struct NodeClock {
    via: ClockVia,
    file: PathBuf,
    offset_ms: i64,
    set_at: Instant,
    /// Who sets it off and right in turn, if somebody does.
    strobe: Option<Arc<Strobe>>,
}

impl NodeClock {
    /// One that is right, told by a file in this folder.
    pub(crate) fn new(via: ClockVia, folder: &Path) -> Result<NodeClock, ClusterError> {
        let clock = NodeClock {
            via,
            file: folder.join("clock-offset"),
            offset_ms: 0,
            set_at: Instant::now(),
            strobe: None,
        };
        clock.write(0)?;
        Ok(clock)
    }

    /// Has a process go by it.
    pub(crate) fn lend(&self, spec: &mut ProcessSpec) {
        let file = self.file.clone().into_os_string();
        match (self.via, library()) {
            (ClockVia::Option(option), _) => spec.args.extend([option.into(), file]),
            (ClockVia::Preloaded, Some(library)) => spec.env.extend([
                ("LD_PRELOAD".into(), library.into()),
                ("FAKETIME_TIMESTAMP_FILE".into(), file),
                ("FAKETIME_CACHE_DURATION".into(), "1".into()),
                ("FAKETIME_DONT_FAKE_MONOTONIC".into(), "1".into()),
                ("FAKETIME_FORCE_MONOTONIC_FIX".into(), "0".into()),
            ]),
            (ClockVia::Preloaded, None) | (ClockVia::Machine(_), _) => {}
        }
    }

    /// Sets it. Units: milliseconds.
    pub(crate) fn set(&mut self, offset_ms: i64) -> Result<(), ClusterError> {
        if offset_ms == self.offset_ms && self.strobe.is_none() {
            return Ok(());
        }
        self.begin(offset_ms)?;
        self.write(offset_ms)
    }

    /// Has it go off and be right in turn, each for so long, until it is set. Units: milliseconds.
    pub(crate) fn strobe(&mut self, offset_ms: i64, every: Duration) -> Result<(), ClusterError> {
        self.begin(offset_ms)?;
        let clock = self.clone();
        let write = move |is_off| clock.write(if is_off { offset_ms } else { 0 });
        self.strobe = Some(Arc::new(Strobe::start(every, write)?));
        Ok(())
    }

    /// Whoever has set it goes no further.
    fn begin(&mut self, offset_ms: i64) -> Result<(), ClusterError> {
        (self.offset_ms, self.set_at) = (offset_ms, Instant::now());
        if let Some(strobe) = self.strobe.take() {
            // It may go by that already, of which it would say nothing more.
            return strobe.end();
        }
        // What was seen before proves nothing of this.
        match fs::remove_file(self.seen()) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.failed("remove", &e)),
            _ => Ok(()),
        }
    }

    /// How far off it is for a process; for none, as it will be for the next. Units: milliseconds.
    pub(crate) fn read(&self, process: Option<&NodeProcess>) -> Result<i64, ClusterError> {
        let Some(process) = process.filter(|process| process.state() == ProcessState::Alive) else {
            return Ok(self.offset_ms);
        };
        match self.via {
            ClockVia::Option(_) => Ok(self.await_seen()),
            ClockVia::Preloaded => {
                if !has_loaded_it(process) {
                    return Ok(0);
                }
                std::thread::sleep(CACHED.saturating_sub(self.set_at.elapsed()));
                self.ask_date(&[self.offset_ms])
            }
            ClockVia::Machine(_) => Ok(0),
        }
    }

    /// How far off it is in turn for a process; for none, as it will be for the next. Units: milliseconds.
    pub(crate) fn seen_in_turn(&self, process: Option<&NodeProcess>) -> Result<BTreeSet<i64>, ClusterError> {
        let Some(strobe) = &self.strobe else { return Ok([self.read(process)?].into()) };
        let both = BTreeSet::from([0, self.offset_ms]);
        let Some(process) = process.filter(|process| process.state() == ProcessState::Alive) else {
            return Ok(both);
        };
        if let (ClockVia::Preloaded, false) = (self.via, has_loaded_it(process)) {
            return Ok([0].into());
        }
        let deadline = Instant::now() + strobe.every * 2 + SEE_LIMIT;
        let mut seen = BTreeSet::new();
        while !seen.is_superset(&both) && Instant::now() < deadline {
            match self.via {
                ClockVia::Option(_) => {
                    let told = fs::read_to_string(self.seen()).ok();
                    seen.extend(told.and_then(|text| text.parse::<i64>().ok()));
                }
                ClockVia::Preloaded => {
                    seen.insert(self.ask_date(&[0, self.offset_ms])?);
                }
                ClockVia::Machine(_) => return Ok([0].into()),
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(seen)
    }

    /// What the node's process says that it goes by, which may take it a moment.
    fn await_seen(&self) -> i64 {
        let deadline = Instant::now() + SEE_LIMIT;
        loop {
            let seen = fs::read_to_string(self.seen()).ok().and_then(|text| text.parse().ok());
            if seen == Some(self.offset_ms) || Instant::now() >= deadline {
                return seen.unwrap_or(0);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// What another program is told that goes by the same file and library: one of what may be, or about how far off it is.
    fn ask_date(&self, may_be_ms: &[i64]) -> Result<i64, ClusterError> {
        let mut spec = ProcessSpec {
            program: "date".into(),
            args: vec!["+%s%N".into()],
            env: [("LC_ALL".into(), "C".into())].into(),
            cwd: None,
            log: PathBuf::new(),
        };
        self.lend(&mut spec);
        let before_ns = unix_ns();
        let asked = Command::new(&spec.program).args(&spec.args).envs(&spec.env).output();
        let after_ns = unix_ns();
        let asked = asked.map_err(|e| ClusterError(format!("failed to run date: {e}")))?;
        let told = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
        let wrong = || ClusterError(format!("date says `{told}`; nanoseconds since 1970 are expected"));
        let told_ns: i128 = told.parse().map_err(|_| wrong())?;
        // It was asked at some moment between the two.
        let is_told = |offset_ms: &&i64| {
            let offset_ns = i128::from(**offset_ms) * 1_000_000;
            (before_ns + offset_ns..=after_ns + offset_ns).contains(&told_ns)
        };
        let about = || i64::try_from((told_ns - before_ns) / 1_000_000).unwrap_or(i64::MAX);
        Ok(may_be_ms.iter().find(is_told).copied().unwrap_or_else(about))
    }

    fn seen(&self) -> PathBuf {
        self.file.with_extension("seen")
    }

    fn write(&self, offset_ms: i64) -> Result<(), ClusterError> {
        let text = match self.via {
            ClockVia::Option(_) | ClockVia::Machine(_) => offset_ms.to_string(),
            ClockVia::Preloaded => faketime(offset_ms),
        };
        // Nobody reads it half written.
        let new = self.file.with_extension("new");
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &self.file));
        written.map_err(|e| self.failed("write", &e))
    }

    fn failed(&self, what: &str, e: &io::Error) -> ClusterError {
        ClusterError(format!("failed to {what} {}: {e}", self.file.display()))
    }
}

/// Whether a process has loaded libfaketime.
fn has_loaded_it(process: &NodeProcess) -> bool {
    let maps = fs::read_to_string(format!("/proc/{}/maps", process.pid()));
    maps.is_ok_and(|maps| maps.contains(LIBRARY))
}

/// A thread that sets a clock off and right in turn.
struct Strobe {
    every: Duration,
    /// Dropped when it is over.
    goes_on: Mutex<Option<Sender<()>>>,
    thread: Mutex<Option<JoinHandle<Result<(), ClusterError>>>>,
}

impl Strobe {
    fn start(
        every: Duration,
        write: impl Fn(bool) -> Result<(), ClusterError> + Send + 'static,
    ) -> Result<Strobe, ClusterError> {
        let (goes_on, over) = channel::<()>();
        let turns = move || {
            for is_off in [true, false].into_iter().cycle() {
                write(is_off)?;
                if over.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            Ok(())
        };
        let spawned = std::thread::Builder::new().name("clock".to_owned()).spawn(turns);
        let thread =
            spawned.map_err(|e| ClusterError(format!("failed to start a thread that sets clocks: {e}")))?;
        Ok(Strobe { every, goes_on: Some(goes_on).into(), thread: Some(thread).into() })
    }

    /// Goes no further. Errors: it could not do what it was to.
    fn end(&self) -> Result<(), ClusterError> {
        self.goes_on.lock().expect("no holder panics").take();
        let thread = self.thread.lock().expect("no holder panics").take();
        let ended = thread.map_or(Ok(Ok(())), JoinHandle::join);
        ended.map_err(|_| ClusterError("the thread that sets clocks panicked".to_owned()))?
    }
}

/// An offset as libfaketime reads it, in seconds.
fn faketime(offset_ms: i64) -> String {
    let (sign, ms) = (if offset_ms < 0 { '-' } else { '+' }, offset_ms.unsigned_abs());
    format!("{sign}{}.{:03}\n", ms / 1000, ms % 1000)
}

fn unix_ns() -> i128 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_told_in_seconds() {
        for (offset_ms, text) in [
            (0, "+0.000\n"),
            (1, "+0.001\n"),
            (-7, "-0.007\n"),
            (61_250, "+61.250\n"),
            (-86_400_000, "-86400.000\n"),
        ] {
            assert_eq!(faketime(offset_ms), text);
        }
    }

    #[test]
    fn what_is_set_is_what_a_program_is_told() {
        if library().is_none() {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let mut clock = NodeClock::new(ClockVia::Preloaded, folder.path()).expect("ours");
        for offset_ms in [0, 86_400_000, -12_345, 3, 0] {
            clock.set(offset_ms).expect("ours");
            assert_eq!(clock.ask_date(&[offset_ms]), Ok(offset_ms));
        }
    }

    #[test]
    fn a_clock_that_strobes_is_wrong_and_right_in_turn() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut clock = NodeClock::new(ClockVia::Option("--clock"), folder.path()).expect("ours");
        let read = || fs::read_to_string(folder.path().join("clock-offset")).expect("ours");
        clock.strobe(-70, Duration::from_millis(1)).expect("ours");
        for expected in ["-70", "0", "-70"] {
            while read() != expected {
                std::thread::yield_now();
            }
        }
        // As the next process will see it.
        assert_eq!(clock.seen_in_turn(None), Ok([-70, 0].into()));
        clock.set(-70).expect("ours");
        assert_eq!((read().as_str(), clock.seen_in_turn(None)), ("-70", Ok([-70].into())));
        clock.strobe(3, Duration::from_secs(3600)).expect("ours");
        clock.set(0).expect("ours");
        assert_eq!((read().as_str(), clock.read(None)), ("0", Ok(0)));
    }

    #[test]
    fn a_process_says_what_it_goes_by() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut clock = NodeClock::new(ClockVia::Option("--clock"), folder.path()).expect("ours");
        let mut spec = ProcessSpec {
            program: "p".into(),
            args: Vec::new(),
            env: Default::default(),
            cwd: None,
            log: PathBuf::new(),
        };
        clock.lend(&mut spec);
        let file = folder.path().join("clock-offset");
        assert_eq!(spec.args, ["--clock".into(), file.clone().into_os_string()]);
        clock.set(-5).expect("ours");
        assert_eq!(fs::read_to_string(&file).ok().as_deref(), Some("-5"));
        fs::write(folder.path().join("clock-offset.seen"), "-5").expect("ours");
        assert_eq!(clock.await_seen(), -5);
        // Nobody has seen the next one yet.
        clock.set(9).expect("ours");
        assert!(!clock.seen().exists());
        assert_eq!(clock.read(None), Ok(9));
    }

    #[test]
    fn some_clocks_are_the_machines() {
        assert_eq!(obstacle(ClockVia::Machine("it asks the kernel")), Some("it asks the kernel"));
        assert_eq!(obstacle(ClockVia::Option("--clock")), None);
    }
}
