//! A node of a test: its disk, its randomness, its application, and what it is about to do.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use riprap_coord::{Config, Index, NodeId, Raft, RoleChange};
use riprap_env::disk::MemDisk;
use riprap_env::random::{Draws, draw};
use riprap_env::{Disk, Env, LogLevel};
use std::fmt;

pub(crate) const MS: u64 = 1_000_000;

/// Where every node keeps its files.
pub(crate) const DIR: &str = "meta/raft";

/// Small random numbers of one seed.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    seed: u64,
    count: u64,
}

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng { seed, count: 0 }
    }

    /// At least 0, below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.count += 1;
        draw(self.seed, "cluster", "", self.count) % end
    }

    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// A node's world.
#[derive(Clone, Debug)]
pub(crate) struct NodeEnv {
    pub(crate) disk: MemDisk,
    draws: Draws,
    /// Lines logged as errors.
    pub(crate) errors: Vec<String>,
}

impl NodeEnv {
    pub(crate) fn new(seed: u64, id: NodeId) -> NodeEnv {
        let draws = Draws::new(seed, format!("n{id}"));
        NodeEnv { disk: MemDisk::new(), draws, errors: Vec::new() }
    }
}

impl Env for NodeEnv {
    fn disk(&mut self) -> &mut dyn Disk {
        &mut self.disk
    }

    fn wall_clock_ms(&self) -> i64 {
        0
    }

    fn random_u64(&mut self, purpose: &'static str) -> u64 {
        self.draws.next_u64(purpose)
    }

    fn log(&mut self, level: LogLevel, _module: &'static str, line: fmt::Arguments<'_>) {
        if level == LogLevel::Error {
            self.errors.push(line.to_string());
        }
    }
}

/// The application: a hash over all it was given, so that two nodes agree at an index only if they agree before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct App {
    pub(crate) applied: Index,
    pub(crate) hash: u64,
}

/// Makes snapshots take several chunks.
const SNAPSHOT_PADDING: usize = 100;

impl App {
    pub(crate) fn snapshot(self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u64(self.applied.0);
        out.put_u64(self.hash);
        out.put_bytes(7, SNAPSHOT_PADDING);
        out.freeze()
    }

    pub(crate) fn restore(mut data: Bytes) -> App {
        assert_eq!(data.len(), 16 + SNAPSHOT_PADDING);
        App { applied: Index(data.get_u64()), hash: data.get_u64() }
    }

    pub(crate) fn apply(&mut self, payload: &[u8]) {
        let bytes = payload.iter().chain(&[0xff]);
        self.hash = bytes.fold(self.hash ^ 0xcbf2_9ce4_8422_2325, |h, b| {
            (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3).rotate_left(5)
        });
        self.applied = self.applied.next();
    }
}

/// A node, running or not.
pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) env: NodeEnv,
    pub(crate) raft: Option<Raft>,
    pub(crate) app: App,
    pub(crate) role_changes: Vec<RoleChange>,
    /// It stepped and has to settle at this time.
    pub(crate) settle_at_ns: Option<u64>,
    /// It does nothing before this time.
    pub(crate) paused_until_ns: u64,
    /// It settled in this life.
    pub(crate) has_settled: bool,
    /// It starts again at this time.
    pub(crate) restart_at_ns: Option<u64>,
}

impl Node {
    pub(crate) fn due_ns(&self) -> u64 {
        let due_ns = match (&self.raft, self.settle_at_ns) {
            (None, _) => return self.restart_at_ns.unwrap_or(u64::MAX),
            (Some(_), Some(at_ns)) => at_ns,
            (Some(raft), None) => raft.wake_at_ns(),
        };
        due_ns.max(self.paused_until_ns)
    }
}
