//! What the nodes themselves complained of: the warnings and errors of their logs, for the report, and what says of a node
//! that it is broken, for the verdict.

use crate::store::{RunDir, StoreError};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Lines shown of one log: the first ones tell how it began, the last ones how it ended.
const MAX_LINES: usize = 40;
/// Characters shown of one line.
const MAX_LINE_CHARS: usize = 400;
/// What is looked at of one log; a node that logs more than this in a run has said it all by then.
const MAX_LOG_BYTES: u64 = 64 << 20;
/// Logs of one node that are looked at.
const MAX_LOGS: usize = 8;

/// The warnings and errors of one log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogExcerpt {
    /// The node.
    pub node: String,
    /// The log, as a path in the run's folder.
    pub path: String,
    /// The lines, with their numbers from 1.
    pub lines: Vec<(usize, String)>,
    /// How many warnings and errors it holds in all.
    pub found: usize,
}

/// Reads the logs of a run's nodes. One that cannot be read says so in its place: a report is no place to fail.
pub(crate) fn excerpts(run: &RunDir) -> Vec<LogExcerpt> {
    let nodes = run.path().join("nodes");
    let mut excerpts = Vec::new();
    for node_dir in entries(&nodes).into_iter().filter(|path| path.is_dir()) {
        let node = name(&node_dir);
        for log in entries(&node_dir).into_iter().filter(|path| is_log(path)).take(MAX_LOGS) {
            let path = format!("nodes/{node}/{}", name(&log));
            excerpts.push(excerpt(node.clone(), path, &log));
        }
    }
    excerpts
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(dir).into_iter().flatten();
    let mut paths: Vec<_> = read.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_log(path: &Path) -> bool {
    path.is_file()
        && matches!(path.extension().and_then(|ending| ending.to_str()), Some("log" | "out" | "err" | "txt"))
}

fn excerpt(node: String, path: String, log: &Path) -> LogExcerpt {
    let mut excerpt = LogExcerpt { node, path, lines: Vec::new(), found: 0 };
    if let Err(e) = read_into(&mut excerpt, log) {
        excerpt.lines.push((0, format!("cannot be read: {e}")));
    }
    excerpt
}

fn read_into(excerpt: &mut LogExcerpt, log: &Path) -> std::io::Result<()> {
    each_line(log, |number, text| {
        if !complains(text) {
            return;
        }
        excerpt.found += 1;
        // The first half stays, the last half moves on.
        if excerpt.lines.len() == MAX_LINES {
            excerpt.lines.remove(MAX_LINES / 2);
        }
        excerpt.lines.push((number, shown(text)));
    })
}

/// The lines of the nodes' logs that have one of these texts, each with the node's name.
///
/// Errors: a log cannot be read, so that nobody knows what it says.
pub fn lines_with(run: &RunDir, texts: &[String]) -> Result<Vec<(String, String)>, StoreError> {
    let mut found = Vec::new();
    if texts.is_empty() {
        return Ok(found);
    }
    for node_dir in entries(&run.path().join("nodes")).into_iter().filter(|path| path.is_dir()) {
        for log in entries(&node_dir).into_iter().filter(|path| is_log(path)).take(MAX_LOGS) {
            let read = each_line(&log, |_, line| {
                if texts.iter().any(|text| line.contains(text)) {
                    found.push((name(&node_dir), shown(line)));
                }
            });
            read.map_err(|e| StoreError::new("read", &log, e))?;
        }
    }
    Ok(found)
}

fn shown(line: &str) -> String {
    line.trim_end().chars().take(MAX_LINE_CHARS).collect()
}

/// The lines of a log, with their numbers from 1.
fn each_line(log: &Path, mut line_is: impl FnMut(usize, &str)) -> std::io::Result<()> {
    let mut input = BufReader::new(File::open(log)?.take(MAX_LOG_BYTES));
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        line_is(number, &String::from_utf8_lossy(&line));
    }
    Ok(())
}

/// Whether a line is a warning or worse, in any of the ways that systems write it: a level as a word in capitals, or
/// the runtime's own words.
fn complains(line: &str) -> bool {
    const LEVELS: [&str; 8] =
        ["WARN", "WARNING", "ERROR", "FATAL", "CRITICAL", "SEVERE", "PANIC", "OutOfMemoryError"];
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| LEVELS.contains(&word)) || line.contains("panicked at") || line.contains("Exception:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_words() {
        let check = |line: &str, expected: bool| assert_eq!(complains(line), expected, "{line}");
        check("2026-11-29T16:55:30Z WARN isr of t0-1 shrinks to n2", true);
        check("[2026-11-29 16:55:30,123] ERROR [ReplicaManager broker=1] ...", true);
        check("level=ERROR msg=x", true);
        check("thread 'main' panicked at src/log.rs:10:5:", true);
        check("java.io.IOException: No space left on device", true);
        check("INFO no error, no warning", false);
        check("INFO ERRORS=0", false);
    }

    #[test]
    fn first_and_last_are_kept() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let log = dir.path().join("broker.log");
        let text: String = (0..100).map(|n| format!("INFO fine\nWARN number {n} \u{1F980}\n")).collect();
        fs::write(&log, text).expect("it is written");
        let excerpt = excerpt("n1".into(), "nodes/n1/broker.log".into(), &log);
        assert_eq!((excerpt.found, excerpt.lines.len()), (100, MAX_LINES));
        let numbers: Vec<_> = excerpt.lines.iter().map(|(line, _)| *line).collect();
        let expected: Vec<_> = (1..=20).chain(81..=100).map(|n| 2 * n).collect();
        assert_eq!(numbers, expected);
    }

    #[test]
    fn lines_that_tell_of_something_broken_are_found() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let node = dir.path().join("nodes/n2");
        fs::create_dir_all(&node).expect("it is made");
        fs::write(node.join("node.log"), "INFO fine\nthread 'main' panicked at x.rs:1:\n")
            .expect("it is written");
        fs::write(node.join("server.out"), "FATAL \u{FF} disk\n").expect("it is written");
        fs::write(node.join("data"), "FATAL, but no log\n").expect("it is written");
        fs::write(dir.path().join("test.json"), "{}").expect("it is written");
        let run = RunDir::open(dir.path()).expect("it is one");
        let check = |texts: &[&str], expect: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            let found = lines_with(&run, &texts).expect("they can be read");
            let found: Vec<String> = found.iter().map(|(node, line)| format!("{node} {line}")).collect();
            assert_eq!(found, expect, "{texts:?}");
        };
        check(&[], &[]);
        check(&["nothing"], &[]);
        check(&["panicked", "FATAL"], &["n2 thread 'main' panicked at x.rs:1:", "n2 FATAL \u{FF} disk"]);
    }
}
