//! One host of the world: a node, its disk, its clock, its luck.

use riprap_env::random::{DrawStream, Draws};
use riprap_env::{ConnId, Disk, Env, Event, LogLevel, MemDisk, Node};
use std::collections::BTreeMap;
use std::fmt;

/// When the wall clocks of a world begin. Units: milliseconds since 1970.
const EPOCH_MS: i64 = 1_700_000_000_000;
/// What is kept of a node's log: the end of it, when there is more.
const LOG_LIMIT_BYTES: usize = 16 << 20;

/// A host of a world: a bundled node or a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostId(pub usize);

/// A node's process ended by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Crash {
    /// Where.
    pub host: HostId,
    /// When.
    pub at_ns: u64,
    /// The status that it ended with, or what it said when it panicked.
    pub how: String,
    /// If it panicked: where.
    pub panic: Option<PanicPlace>,
}

/// Where a process panicked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PanicPlace {
    /// File, line and column.
    pub place: String,
    /// How it got there.
    pub backtrace: String,
}

/// Makes a node for each of its lives.
pub(crate) type Maker = Box<dyn FnMut() -> Box<dyn Node>>;

pub(crate) struct Host {
    pub(crate) make: Maker,
    pub(crate) node: Option<Box<dyn Node>>,
    pub(crate) env: HostEnv,
    /// What happens to it while it is paused.
    pub(crate) paused: Option<Vec<Event>>,
    /// What it is to take in with the next settle, which is due.
    pub(crate) batch: Vec<Event>,
    pub(crate) flush_at_ns: Option<u64>,
    /// Its disk is at work until then, and it takes in nothing.
    pub(crate) busy_until_ns: u64,
    /// Bits have flipped on its disk.
    pub(crate) has_rotted: bool,
    /// Syncs take so many times as long.
    pub(crate) sync_factor: u64,
    pub(crate) accepted: u64,
    /// Its connections, by its own ids: the pipe, and which end of it.
    pub(crate) conns: BTreeMap<ConnId, (usize, usize)>,
    /// The wake-up that it asked for last, by number.
    pub(crate) wake: u64,
    /// When that is due, if it is still to come.
    pub(crate) wake_at_ns: Option<u64>,
    pub(crate) sync_draws: DrawStream,
    pub(crate) batch_draws: DrawStream,
    pub(crate) power_draws: DrawStream,
}

impl Host {
    pub(crate) fn new(seed: u64, name: &str, make: Maker, log_level: Option<LogLevel>) -> Host {
        let draws = |purpose| DrawStream::new(seed, name, purpose);
        Host {
            make,
            node: None,
            env: HostEnv {
                disk: MemDisk::new(),
                draws: Draws::new(seed, name),
                now_ns: 0,
                clock_offset_ms: 0,
                strobe: None,
                name: name.to_owned(),
                log_level,
                log: String::new(),
                fresh_lines: Vec::new(),
                tells_lines: false,
            },
            paused: None,
            batch: Vec::new(),
            flush_at_ns: None,
            busy_until_ns: 0,
            has_rotted: false,
            sync_factor: 1,
            accepted: 0,
            conns: BTreeMap::new(),
            wake: 0,
            wake_at_ns: None,
            sync_draws: draws("sync"),
            batch_draws: draws("batch"),
            power_draws: draws("power"),
        }
    }
}

/// A clock that is wrong and right in turn, wrong at first.
#[derive(Clone, Copy)]
pub(crate) struct Strobe {
    pub(crate) since_ns: u64,
    pub(crate) every_ns: u64,
}

impl Strobe {
    fn is_right(&self, now_ns: u64) -> bool {
        (now_ns.saturating_sub(self.since_ns) / self.every_ns.max(1)) % 2 == 1
    }
}

pub(crate) struct HostEnv {
    pub(crate) disk: MemDisk,
    pub(crate) draws: Draws,
    pub(crate) now_ns: u64,
    pub(crate) clock_offset_ms: i64,
    /// If the clock is that far off only every other time: for how long each time, and since when.
    pub(crate) strobe: Option<Strobe>,
    pub(crate) name: String,
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) log: String,
    /// Lines that a follower of the trace has not been told.
    pub(crate) fresh_lines: Vec<String>,
    pub(crate) tells_lines: bool,
}

impl HostEnv {
    fn keep(&mut self, line: &str) {
        use fmt::Write as _;
        if self.log.len() > LOG_LIMIT_BYTES {
            let half = self.log.len() / 2;
            let cut = self.log[half..].find('\n').map_or(self.log.len(), |at| half + at + 1);
            self.log.drain(..cut);
        }
        writeln!(self.log, "{:>12.6} {line}", self.now_ns as f64 / 1e9).expect("memory takes it");
    }

    /// Adds a line of the world's own to the node's log.
    pub(crate) fn note(&mut self, what: &str) {
        if self.log_level.is_some() {
            self.keep(&format!("==== {what}"));
        }
    }
}

impl Env for HostEnv {
    fn disk(&mut self) -> &mut dyn Disk {
        &mut self.disk
    }

    fn wall_clock_ms(&self) -> i64 {
        EPOCH_MS
            + i64::try_from(self.now_ns / 1_000_000).expect("a run is shorter than an age")
            + if self.strobe.is_some_and(|strobe| strobe.is_right(self.now_ns)) {
                0
            } else {
                self.clock_offset_ms
            }
    }

    fn random_u64(&mut self, purpose: &'static str) -> u64 {
        self.draws.next_u64(purpose)
    }

    fn log(&mut self, level: LogLevel, _module: &'static str, line: fmt::Arguments<'_>) {
        if self.log_level.is_some_and(|most| level <= most) {
            let line = format!("{level:?} {line}");
            self.keep(&line);
            if self.tells_lines {
                self.fresh_lines.push(line);
            }
        }
    }
}
