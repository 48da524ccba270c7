//! What the shell lends to a node: a folder, the machine's clock, seeded randomness, a log.

use super::ShellConfig;
use super::clock::WallClock;
use super::conn::{Conn, Shared};
use super::log::NodeLog;
use super::timed_disk::{SyncTimes, TimedDisk};
use riprap_env::random::Draws;
use riprap_env::{ConnId, Disk, Env, LogLevel, RealDisk};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};

/// The world as a live node sees it.
pub(super) struct LiveEnv {
    disk: TimedDisk,
    draws: Draws,
    log: NodeLog,
    clock: WallClock,
}

impl LiveEnv {
    pub(super) fn new(config: &ShellConfig) -> io::Result<LiveEnv> {
        let disk = TimedDisk::new(RealDisk::new(&config.dir).map_err(io::Error::other)?);
        let entity = format!("{} in life {:016x}", config.entity, life()?);
        let log = NodeLog::new(config.entity.clone());
        let clock = WallClock::new(config.clock_offset.clone());
        Ok(LiveEnv { disk, draws: Draws::new(config.seed, entity), log, clock })
    }

    /// Takes in how far the clock stands off, though nobody asks for the time.
    pub(super) fn look_at_clock(&self) {
        self.clock.offset_ms();
    }

    /// How long the disk's syncs took.
    pub(super) fn syncs(&self) -> &SyncTimes {
        &self.disk.syncs
    }
}

/// The same during a batch of steps, when no connection comes or goes.
pub(super) struct BatchEnv<'a> {
    pub(super) env: &'a mut LiveEnv,
    pub(super) conns: &'a BTreeMap<ConnId, Conn>,
    pub(super) shared: &'a Shared,
}

impl Env for BatchEnv<'_> {
    fn disk(&mut self) -> &mut dyn Disk {
        self.env.disk()
    }

    fn wall_clock_ms(&self) -> i64 {
        self.env.wall_clock_ms()
    }

    fn random_u64(&mut self, purpose: &'static str) -> u64 {
        self.env.random_u64(purpose)
    }

    fn unsent_bytes(&self, conn: ConnId) -> usize {
        self.conns.get(&conn).map_or(0, Conn::await_unsent)
    }

    fn unsent_in_all_bytes(&self) -> usize {
        self.shared.unsent_in_all_bytes()
    }

    fn log(&mut self, level: LogLevel, module: &'static str, line: fmt::Arguments<'_>) {
        self.env.log(level, module, line);
    }
}

/// Tells this life of the process from all others, with any seed.
///
/// A process that is killed starts again with the same seed and counts its draws from 0. What it draws to say who it is
/// (a broker's incarnation, the ids of group members) must not be what its last life drew: it would be taken for it.
fn life() -> io::Result<u64> {
    const SOURCE: &str = "/dev/urandom";
    let mut bytes = [0; 8];
    let read = File::open(SOURCE).and_then(|mut source| source.read_exact(&mut bytes));
    read.map_err(|e| named("failed to read", SOURCE.as_ref(), &e))?;
    Ok(u64::from_be_bytes(bytes))
}

fn named(what: &str, path: &std::path::Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{what} {}: {e}", path.display()))
}

impl Env for LiveEnv {
    fn disk(&mut self) -> &mut dyn Disk {
        &mut self.disk
    }

    fn wall_clock_ms(&self) -> i64 {
        self.clock.ms()
    }

    fn random_u64(&mut self, purpose: &'static str) -> u64 {
        self.draws.next_u64(purpose)
    }

    fn log(&mut self, level: LogLevel, module: &'static str, line: fmt::Arguments<'_>) {
        self.log.line(level, module, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_lives_draw_alike() {
        let dir = tempfile::tempdir().expect("a folder");
        let config = ShellConfig {
            listen: "127.0.0.1:0".parse().expect("an address"),
            dir: dir.path().join("data"),
            seed: 1,
            entity: "n1".to_owned(),
            metrics: None,
            clock_offset: None,
        };
        let first_draw = || LiveEnv::new(&config).expect("opens").random_u64("incarnation");
        assert_ne!(first_draw(), first_draw());
    }
}
