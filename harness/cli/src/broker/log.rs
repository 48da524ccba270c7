//! The log of `riprap broker`: which of its lines are written, and how they get to standard error.
//!
//! ```text
//! filter     directive,directive,...
//! directive  LEVEL | MODULE=LEVEL | MODULE       the last is for all that the module says
//! level      off, error, warn, info, debug, trace
//! line       2026-03-01T12:00:00.123456Z  INFO riprap_broker::node: what happened node="broker 1"
//! ```
//! The longest module that a line's begins with decides; a directive without a module is for all that no other is for,
//! and without one they are left out.
//!
//! Lines are written by the broker's own thread, each at once: so none is lost when the process ends, in order, by a
//! panic or by a signal that nobody can catch, which a thread with a queue could not promise. What that could cost is
//! bounded instead: see [`Patient`].

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Mutex;
use std::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;

/// The crates whose modules say something.
const CRATES: &[&str] = &["riprap_broker", "riprap_coord"];

/// How long one line may keep the broker waiting for whoever reads its standard error; far less than any session lasts.
const PATIENCE: Duration = Duration::from_millis(100);

/// Which lines are written.
///
/// Errors: which directive is none, and what would be right.
pub(super) fn parse_filter(text: &str) -> Result<Targets, String> {
    let mut filter = Targets::new();
    for directive in text.split(',').map(str::trim) {
        let (module, level) = match directive.split_once('=') {
            Some((module, level)) => (Some(module), Some(level)),
            None if parse_level(directive).is_some() => (None, Some(directive)),
            None => (Some(directive), None),
        };
        if let Some(module) = module.filter(|module| !is_known(module)) {
            let crates = CRATES.join(", ");
            return Err(format!(
                "`{module}` is neither a level (off, error, warn, info, debug, trace) nor a module of {crates}"
            ));
        }
        let level = match level {
            None => LevelFilter::TRACE,
            Some(level) => parse_level(level).ok_or_else(|| {
                format!("`{level}` is no level; one of off, error, warn, info, debug, trace is right")
            })?,
        };
        filter = match module {
            Some(module) => filter.with_target(module, level),
            None => filter.with_default(level),
        };
    }
    Ok(filter)
}

fn parse_level(text: &str) -> Option<LevelFilter> {
    match text {
        "off" => Some(LevelFilter::OFF),
        "error" => Some(LevelFilter::ERROR),
        "warn" => Some(LevelFilter::WARN),
        "info" => Some(LevelFilter::INFO),
        "debug" => Some(LevelFilter::DEBUG),
        "trace" => Some(LevelFilter::TRACE),
        _ => None,
    }
}

/// A directive for a module that says nothing would be a mistake that nobody notices.
fn is_known(module: &str) -> bool {
    let root = module.split("::").next().unwrap_or_default();
    CRATES.contains(&root)
}

/// From here on what is logged is written to standard error, if it passes.
///
/// Panics: if there is a log already.
pub(super) fn to_stderr(filter: Targets) {
    let stderr = Mutex::new(Patient::new(io::stderr(), PATIENCE));
    let subscriber = tracing_subscriber::registry()
        .with(tracing_subscriber::fmt::layer().with_writer(stderr).with_filter(filter));
    tracing::subscriber::set_global_default(subscriber).expect("a broker is all that this process runs");
}

/// Writes lines whole and at once, but for what nobody takes.
///
/// A file takes a line as fast as memory does. A pipe or a terminal whose reader stands still takes none, and a broker
/// that waited for it would be out of its cluster for a log. So a line waits for a limited time, once: until the reader
/// goes on, lines are left out and counted, without another wait, and the next that is taken follows their number.
struct Patient<W> {
    to: W,
    patience: Duration,
    left_out: u64,
}

impl<W: AsFd + Write> Patient<W> {
    /// What a pipe that says it is ready takes without blocking. Source: POSIX, write(), PIPE_BUF on Linux.
    const AT_ONCE_BYTES: usize = 4096;

    fn new(to: W, patience: Duration) -> Patient<W> {
        Patient { to, patience, left_out: 0 }
    }

    /// Whether the next bytes are taken at once, within that time.
    fn is_ready(&self, within: Duration) -> bool {
        let mut asked = libc::pollfd { fd: self.to.as_fd().as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        let ms = libc::c_int::try_from(within.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: the pointer is to one whole pollfd, which outlives the call.
        unsafe { libc::poll(&raw mut asked, 1, ms) > 0 }
    }

    /// Says whether all of it went out.
    fn put(&mut self, text: &[u8], within: Duration) -> io::Result<bool> {
        for part in text.chunks(Self::AT_ONCE_BYTES) {
            if !self.is_ready(within) {
                return Ok(false);
            }
            self.to.write_all(part)?;
        }
        Ok(true)
    }

    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let within = if self.left_out == 0 { self.patience } else { Duration::ZERO };
        if self.left_out > 0 {
            // The line before may have been cut.
            let note = format!("\n{} lines are left out: nobody took them\n", self.left_out);
            if !self.put(note.as_bytes(), within)? {
                self.left_out += 1;
                return Ok(());
            }
            self.left_out = 0;
        }
        if !self.put(line, within)? {
            self.left_out = 1;
        }
        Ok(())
    }
}

impl<W: AsFd + Write> Write for Patient<W> {
    /// Takes one line. A log that cannot be written is no reason to stop serving, so nothing fails.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _gone = self.line(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Read as _};
    use tracing::Level;

    #[test]
    fn filters() {
        let check = |text: &str, passes: &[(&str, Level)], does_not: &[(&str, Level)]| {
            let filter = parse_filter(text).expect("a filter");
            for (module, level) in passes {
                assert!(filter.would_enable(module, level), "{text} takes {level} of {module}");
            }
            for (module, level) in does_not {
                assert!(!filter.would_enable(module, level), "{text} leaves out {level} of {module}");
            }
        };
        let (node, log, raft) = ("riprap_broker::node", "riprap_broker::log::append", "riprap_coord::raft");
        check("warn", &[(node, Level::WARN), (raft, Level::ERROR)], &[(node, Level::INFO)]);
        check(
            "info,riprap_broker::log=debug",
            &[(log, Level::DEBUG), (node, Level::INFO)],
            &[(node, Level::DEBUG), (log, Level::TRACE)],
        );
        check("debug, riprap_coord=off", &[(node, Level::DEBUG)], &[(raft, Level::ERROR)]);
        check("riprap_coord", &[(raft, Level::TRACE)], &[(node, Level::ERROR)]);
    }

    #[test]
    fn what_is_no_filter_is_told() {
        let check = |text: &str, expect: &str| {
            assert_eq!(parse_filter(text).expect_err(text), expect);
        };
        let neither = |word: &str| {
            format!(
                "`{word}` is neither a level (off, error, warn, info, debug, trace) nor a module of riprap_broker, \
                 riprap_coord"
            )
        };
        check("loud", &neither("loud"));
        check("", &neither(""));
        check("info,", &neither(""));
        check("info,log=debug", &neither("log"));
        check("riprap_brokers=debug", &neither("riprap_brokers"));
        let level =
            |word| format!("`{word}` is no level; one of off, error, warn, info, debug, trace is right");
        check("riprap_broker::log=loud", &level("loud"));
        check("riprap_broker=", &level(""));
    }

    #[test]
    fn what_nobody_reads_is_left_out_and_counted() {
        let (reader, writer) = io::pipe().expect("a pipe");
        let mut log = Patient::new(writer, Duration::ZERO);
        let line = [b"x".repeat(10_000), b"\n".to_vec()].concat();
        let mut written = 0;
        while log.left_out == 0 {
            log.write_all(&line).expect("never fails");
            written += 1;
        }
        log.write_all(b"another\n").expect("never fails");
        assert_eq!(log.left_out, 2);
        let mut reader = BufReader::new(reader);
        let mut first = String::new();
        reader.read_line(&mut first).expect("whole lines come first");
        assert_eq!(first.len(), line.len());
        // Whatever of the last line went out is in the pipe: reading it all makes room.
        let whole = written - 1;
        for _ in 1..whole {
            first.clear();
            reader.read_line(&mut first).expect("whole lines come first");
        }
        log.write_all(b"taken again\n").expect("never fails");
        drop(log);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).expect("text");
        assert!(rest.ends_with("\n2 lines are left out: nobody took them\ntaken again\n"), "{rest:?}");
    }

    #[test]
    fn a_reader_that_has_gone_stops_nobody() {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let mut log = Patient::new(writer, PATIENCE);
        log.write_all(b"a line\n").expect("never fails");
    }
}
