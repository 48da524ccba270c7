//! One run as a child of this process.
//!
//! The child is in a process group of its own, so that a terminal's ^C reaches this process alone, which passes it on: the
//! first has the run heal and be judged, the second ends it at once, as with any `riprap test`. When this process dies, the
//! kernel kills the child, and with it its sandbox.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Between two looks whether a child has ended, or is to be interrupted.
const LOOK: Duration = Duration::from_millis(50);
/// A child's last words come with its end, unless somebody else holds its stderr open.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The most of a line that is kept: what is said of a run is for a terminal.
const MAX_LINE_BYTES: u64 = 4096;

/// How a child ended.
pub(super) enum Ended {
    /// With a verdict.
    Judged,
    /// Without; why, in a line.
    Failed(String),
}

/// Runs this very program with these arguments to its end. Whenever `interrupts` grows it is interrupted; `progress` is told how
/// far it is.
pub(super) fn run_child(
    words: &[OsString],
    interrupts: &AtomicU32,
    mut progress: impl FnMut(String),
) -> Ended {
    let mut child = match start(words) {
        Ok(child) => child,
        Err(e) => return Ended::Failed(format!("failed to start riprap test: {e}")),
    };
    let lines = lines(child.stderr.take().expect("piped"));
    let (mut passed_on, mut last) = (0, String::new());
    let mut hear = |line: String| {
        if let Some(said) = line.strip_prefix("riprap: ") {
            last = said.to_owned();
        } else if !line.trim().is_empty() {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            last.clone_from(&line);
            progress(line);
        }
    };
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(e) => return Ended::Failed(format!("failed to wait for riprap test: {e}")),
        }
        if passed_on < interrupts.load(Ordering::Relaxed) {
            passed_on += 1;
            interrupt(&child);
        }
        match lines.recv_timeout(LOOK) {
            Ok(line) => hear(line),
            Err(RecvTimeoutError::Timeout) => {}
            // It has closed its stderr, and is about to end.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
        }
    };
    let deadline = Instant::now() + LAST_WORDS;
    while let Ok(line) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        hear(line);
    }
    ended(status, &last)
}

/// Source: the command line's contract: 0 valid, 1 invalid, 2 unknown, and others where there is no verdict. An interrupted
/// run that had nothing to say yet ends with 2 as well; it left no results, which whoever reads them finds out.
fn ended(status: ExitStatus, last: &str) -> Ended {
    match (status.code(), status.signal()) {
        (Some(0..=2), _) => Ended::Judged,
        (Some(_), _) if !last.is_empty() => Ended::Failed(last.to_owned()),
        (Some(code), _) => Ended::Failed(format!("riprap test ended with code {code}")),
        (None, signal) => Ended::Failed(format!("riprap test was killed by signal {}", signal.unwrap_or(0))),
    }
}

fn start(words: &[OsString]) -> std::io::Result<Child> {
    // The program itself, even if its file has been replaced since it was started.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("riprap").args(words).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // SAFETY: getpid touches no memory.
    let parent = unsafe { libc::getpid() };
    // SAFETY: between fork and exec the closure makes system calls that touch no memory.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // Who died before that was said does not say anything any more.
            if libc::getppid() != parent {
                libc::_exit(255);
            }
            Ok(())
        });
    }
    command.spawn()
}

/// The child is not reaped yet: its number is nobody else's.
fn interrupt(child: &Child) {
    let pid = libc::pid_t::try_from(child.id()).expect("a pid is one");
    // SAFETY: kill touches no memory.
    unsafe { libc::kill(pid, libc::SIGINT) };
}

/// The lines that somebody writes, as they come.
fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        loop {
            line.clear();
            match from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                // Nobody listens any more.
                Ok(_) if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() => return,
                Ok(_) => {}
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_run_is_told() {
        let check = |raw: i32, last: &str, expected: Option<&str>| {
            let told = match ended(ExitStatus::from_raw(raw), last) {
                Ended::Judged => None,
                Ended::Failed(why) => Some(why),
            };
            assert_eq!(told.as_deref(), expected);
        };
        for code in 0..=2 {
            check(code << 8, "drain 0.0/120.0 s", None);
        }
        check(
            255 << 8,
            "the cluster does not serve: n1 is down",
            Some("the cluster does not serve: n1 is down"),
        );
        check(101 << 8, "", Some("riprap test ended with code 101"));
        check(9, "main 5.0/30.0 s", Some("riprap test was killed by signal 9"));
    }

    #[test]
    fn lines_are_cut_and_end_with_whoever_writes_them() {
        let text = format!("a\n{}\nb", "x".repeat(5000));
        let lengths: Vec<usize> = lines(std::io::Cursor::new(text)).iter().map(|line| line.len()).collect();
        assert_eq!(lengths, [1, 4096, 904, 1]);
    }
}
