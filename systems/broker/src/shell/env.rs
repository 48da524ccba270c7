//! What the shell lends to a node: a folder, the machine's clock, seeded randomness, a log.

use super::ShellConfig;
use super::timed_disk::{SyncTimes, TimedDisk};
use riprap_env::random::Draws;
use riprap_env::{Disk, Env, LogLevel, RealDisk};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where a node's log lines go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogTarget {
    /// The process's standard error.
    Stderr,
    /// The end of a file, which is created if it is not there.
    File(PathBuf),
}

/// The world as a live node sees it.
pub(super) struct LiveEnv {
    disk: TimedDisk,
    draws: Draws,
    log: Log,
}

impl LiveEnv {
    pub(super) fn new(config: &ShellConfig) -> io::Result<LiveEnv> {
        let file = match &config.log {
            LogTarget::Stderr => None,
            LogTarget::File(path) => {
                let opened = OpenOptions::new().append(true).create(true).open(path);
                Some(opened.map_err(|e| named("failed to open the log file", path, &e))?)
            }
        };
        let log = Log { file, level: config.log_level };
        let disk = TimedDisk::new(RealDisk::new(&config.dir).map_err(io::Error::other)?);
        let entity = format!("{} in life {:016x}", config.entity, life()?);
        Ok(LiveEnv { disk, draws: Draws::new(config.seed, entity), log })
    }

    /// How long the disk's syncs took.
    pub(super) fn syncs(&self) -> &SyncTimes {
        &self.disk.syncs
    }

    /// A second handle on the log, for whoever survives the node.
    pub(super) fn log_handle(&self) -> io::Result<Log> {
        Ok(Log { file: self.log.file.as_ref().map(File::try_clone).transpose()?, level: self.log.level })
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
        unix_ms()
    }

    fn random_u64(&mut self, purpose: &'static str) -> u64 {
        self.draws.next_u64(purpose)
    }

    fn log(&mut self, level: LogLevel, line: fmt::Arguments<'_>) {
        self.log.line(level, line);
    }
}

/// Writes log lines: `2026-03-01T12:00:00.123Z WARN what happened`.
pub(super) struct Log {
    file: Option<File>,
    level: LogLevel,
}

impl Log {
    /// Writes a line, whole, by one call. A log that cannot be written is no reason to stop serving.
    pub(super) fn line(&mut self, level: LogLevel, line: fmt::Arguments<'_>) {
        if level > self.level {
            return;
        }
        let name = match level {
            LogLevel::Error => "ERROR",
            LogLevel::Warn => "WARN",
            LogLevel::Info => "INFO",
            LogLevel::Debug => "DEBUG",
        };
        let text = format!("{} {name} {line}\n", Utc(unix_ms()));
        match &mut self.file {
            Some(file) => file.write_all(text.as_bytes()).ok(),
            None => io::stderr().write_all(text.as_bytes()).ok(),
        };
    }
}

/// Milliseconds since 1970; negative where the machine's clock stands before it.
fn unix_ms() -> i64 {
    let ms = |d: std::time::Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => ms(since),
        Err(before) => -ms(before.duration()),
    }
}

/// Prints milliseconds since 1970 as a date and time in UTC.
struct Utc(i64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY_MS: i64 = 86_400_000;
        let (days, ms) = (self.0.div_euclid(DAY_MS), self.0.rem_euclid(DAY_MS));
        let (year, month, day) = civil(days);
        let (h, m, s, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{ms:03}Z")
    }
}

/// The date of a day counted from 1970-01-01. A year is counted from March, so that the leap day is its last, and
/// years repeat every 400, which are 146097 days.
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
fn civil(days_since_1970: i64) -> (i64, i64, i64) {
    const DAYS_FROM_MARCH_0_TO_1970: i64 = 719_468;
    const DAYS_IN_400_YEARS: i64 = 146_097;
    let days = days_since_1970 + DAYS_FROM_MARCH_0_TO_1970;
    let (era, day_of_era) = (days.div_euclid(DAYS_IN_400_YEARS), days.rem_euclid(DAYS_IN_400_YEARS));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
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
            log: LogTarget::Stderr,
            log_level: LogLevel::Info,
        };
        let first_draw = || LiveEnv::new(&config).expect("opens").random_u64("incarnation");
        assert_ne!(first_draw(), first_draw());
    }

    #[test]
    fn prints_utc() {
        // The right-hand sides are from `date -u -d @SECONDS`.
        for (ms, expect) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_123, "2024-02-29T23:59:59.123Z"),
            (1_772_323_200_007, "2026-03-01T00:00:00.007Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Utc(ms).to_string(), expect);
        }
    }
}
