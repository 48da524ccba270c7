//! The files of runs: `<root>/<system>-<workload>/<UTC time>-<seed>/`, and `<root>/latest`, which points at the newest.
//!
//! ```text
//! test.json       every knob, versions, seed, git commit        plan.json     the faults, each at its time
//! history.jsonl   one op a line                                 results.json  the verdict
//! report.html     self-contained                                plots/*.svg
//! messages.jsonl  of a small simulated run: who sent whom what when (`riprap_core::story`)
//! system.toml     of a system that its user describes: as it was described
//! nodes/<n>/      a node's log and, unless valid, its data      riprap.log
//! ```
//!
//! Nothing else writes into a run's folder, but whoever runs the nodes into theirs. Files that are written as a whole appear as a
//! whole: under a temporary name first, then renamed. What is appended (history, log) goes to the operating system
//! line by line, so that the end of the harness, in whatever way, loses at most the line that it was writing.
//!
//! What it does not do: wait for the disk. A power failure may take the last seconds of a history with it.

use crate::record::TestRecord;
use riprap_checker::Verdict;
use riprap_core::history::write_op;
use riprap_core::plan::{Plan, Scenario};
use riprap_core::story::Seen;
use riprap_core::{NodeId, Op};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// Where runs go if nobody says otherwise.
pub const DEFAULT_ROOT: &str = "results/runs";

/// So many runs of one seed in one second get a folder each; more is a loop gone wild.
const MAX_SAME_SECOND: u32 = 1000;

/// Folders in folders that [`RunDir::files`] looks into: a node's own, and no deeper into its data.
const MAX_DEPTH: usize = 2;
/// Files listed; a node that keeps its data in its folder has thousands.
const MAX_FILES: usize = 200;

/// A file of the store could not be read or written: what was being done, to which path, and why it failed, in one line.
#[derive(Debug, Error)]
#[error("{doing} {}: {source}", path.display())]
pub struct StoreError {
    /// `create`, `write`, `append to`, `read`, ...
    pub doing: &'static str,
    /// Which file or folder.
    pub path: PathBuf,
    /// What the operating system, or the parser, says.
    pub source: io::Error,
}

impl StoreError {
    pub(crate) fn new(doing: &'static str, path: &Path, source: io::Error) -> StoreError {
        StoreError { doing, path: path.to_owned(), source }
    }
}

/// What a node's log is called, in its folder.
const NODE_LOG: &str = "node.log";

/// The folder of all runs.
pub struct Store;

impl Store {
    /// Makes the folder of a new run and points `latest` at it.
    ///
    /// `system` and `workload` name it, as does the time when the run began; a run of the same second and seed gets a
    /// number after that.
    pub fn create(
        root: &Path,
        system: &str,
        workload: &str,
        began: SystemTime,
        seed: u64,
    ) -> Result<RunDir, StoreError> {
        let family = root.join(format!("{}-{}", file_name(system), file_name(workload)));
        fs::create_dir_all(&family).map_err(|e| StoreError::new("create", &family, e))?;
        let name = format!("{}-{seed}", utc_compact(began));
        let dir = create_new_dir(&family, &name)?;
        let run = RunDir::with_log(dir)?;
        point_latest(root, &run.path)?;
        Ok(run)
    }
}

/// The folder of a self-test, below that of all runs. `latest` goes on pointing at a run.
#[derive(Debug)]
pub struct SelfTestDir(RunDir);

impl SelfTestDir {
    /// Makes it: `<root>/<system>-self-test/<UTC time>-<first seed>`.
    pub fn create(
        root: &Path,
        system: &str,
        began: SystemTime,
        seed: u64,
    ) -> Result<SelfTestDir, StoreError> {
        Ok(SelfTestDir(RunDir {
            path: create_aside(root, system, "self-test", began, seed)?,
            log: Mutex::new(None),
        }))
    }

    /// `scenarios/<defect>.json`: what a failure was shrunk to. Returns its path.
    pub fn write_scenario(&self, defect: &str, scenario: &Scenario) -> Result<PathBuf, StoreError> {
        self.0.make_dir("scenarios")?;
        let name = format!("scenarios/{}.json", file_name(defect));
        self.0.write_whole(&name, json_text(scenario).as_bytes())
    }

    /// `results.json` and `report.html`. Returns the report's path.
    pub fn write(&self, results: &impl Serialize, html: &str) -> Result<PathBuf, StoreError> {
        self.0.write_json("results.json", results)?;
        self.0.write_report(html)
    }
}

/// The folder of a comparison, below that of all runs, with a store of its own for the runs of each variant. `latest` goes on
/// pointing at a run.
#[derive(Debug)]
pub struct CompareDir(RunDir);

impl CompareDir {
    /// Makes it: `<root>/<system>-compare/<UTC time>-<first seed>`.
    pub fn create(root: &Path, system: &str, began: SystemTime, seed: u64) -> Result<CompareDir, StoreError> {
        let path = create_aside(root, system, "compare", began, seed)?;
        Ok(CompareDir(RunDir { path, log: Mutex::new(None) }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where the runs of a variant are kept: the variants are numbered, since their names may be the same.
    pub fn variant_store(&self, number: usize, name: &str) -> PathBuf {
        self.0.path.join(format!("{number}-{}", file_name(name)))
    }

    /// The folder of the one run of a seed in a variant's store, if it has one.
    pub fn find_run(store: &Path, seed: u64) -> Option<PathBuf> {
        let folders =
            |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_of_seed = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            name.is_some_and(|name| name.ends_with(&format!("Z-{seed}")))
        };
        folders(store).flat_map(|family| folders(&family)).find(is_of_seed)
    }

    /// A folder in it, as its page links to it.
    pub fn link(&self, folder: &Path) -> String {
        folder.strip_prefix(self.path()).unwrap_or(folder).display().to_string()
    }

    /// `results.json` and `report.html`. Returns the report's path.
    pub fn write(&self, results: &impl Serialize, html: &str) -> Result<PathBuf, StoreError> {
        self.0.write_json("results.json", results)?;
        self.0.write_report(html)
    }
}

/// Makes the folder of what is no run: `<root>/<system>-<what>/<UTC time>-<seed>`.
fn create_aside(
    root: &Path,
    system: &str,
    what: &str,
    began: SystemTime,
    seed: u64,
) -> Result<PathBuf, StoreError> {
    let family = root.join(format!("{}-{what}", file_name(system)));
    fs::create_dir_all(&family).map_err(|e| StoreError::new("create", &family, e))?;
    create_new_dir(&family, &format!("{}-{seed}", utc_compact(began)))
}

/// Makes `parent/name`, or `parent/name-2`, ... if that exists.
fn create_new_dir(parent: &Path, name: &str) -> Result<PathBuf, StoreError> {
    let mut dir = parent.join(name);
    for n in 2..=MAX_SAME_SECOND {
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => dir = parent.join(format!("{name}-{n}")),
            Err(e) => return Err(StoreError::new("create", &dir, e)),
        }
    }
    Err(StoreError::new("create", &dir, io::ErrorKind::AlreadyExists.into()))
}

/// Points `<root>/latest` at a run, by a relative link, so that the store can be moved; in one step, so that there is
/// no moment without it.
fn point_latest(root: &Path, run: &Path) -> Result<(), StoreError> {
    let latest = root.join("latest");
    let target = run.strip_prefix(root).expect("a run lies below its store's root");
    let unique = target.to_string_lossy().replace('/', "-");
    let temporary = root.join(format!(".latest-{unique}"));
    std::os::unix::fs::symlink(target, &temporary).map_err(|e| StoreError::new("link", &temporary, e))?;
    fs::rename(&temporary, &latest).map_err(|e| {
        // Best effort: the rename's error says what is wrong, and a stray link harms nobody.
        let _ = fs::remove_file(&temporary);
        StoreError::new("link", &latest, e)
    })
}

/// A name as part of a file's name: whatever is no letter, digit or one of `.@_-` becomes `_`.
fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "@._-".contains(c) { c } else { '_' };
    name.chars().map(safe).collect()
}

/// `20261129T165530Z`.
fn utc_compact(time: SystemTime) -> String {
    let [year, month, day, hour, minute, second] = utc(time);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// `2026-11-29 16:55:30 UTC`.
pub fn utc_text(time: SystemTime) -> String {
    let [year, month, day, hour, minute, second] = utc(time);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Year, month, day, hour, minute, second. A time before 1970 counts as its first second.
///
/// Days become a date by counting in 400-year eras of 146,097 days that begin on a 1st of March, so that the leap day
/// is a year's last. Source: H. Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.
fn utc(time: SystemTime) -> [u64; 6] {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second_of_day) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    [year, month, day, second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60]
}

/// The folder of one run. Shared freely between threads.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    log: Mutex<Option<File>>,
}

impl RunDir {
    /// The folder of a run that is over, to be read and to be given another report. Errors: no such folder.
    pub fn open(path: &Path) -> Result<RunDir, StoreError> {
        let kind = fs::metadata(path).map_err(|e| StoreError::new("open", path, e))?;
        if !kind.is_dir() {
            return Err(StoreError::new("open", path, io::ErrorKind::NotADirectory.into()));
        }
        Ok(RunDir { path: path.to_owned(), log: Mutex::new(None) })
    }

    fn with_log(path: PathBuf) -> Result<RunDir, StoreError> {
        let log = append_to(&path.join("riprap.log"))?;
        Ok(RunDir { path, log: Mutex::new(Some(log)) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `test.json`: what was asked for.
    pub fn write_test(&self, test: &TestRecord) -> Result<(), StoreError> {
        self.write_json("test.json", test)
    }

    /// `test.json` of a run that is over.
    pub fn read_test(&self) -> Result<TestRecord, StoreError> {
        self.read_json("test.json")
    }

    /// `plan.json`: what the seed came to.
    pub fn write_plan(&self, plan: &Plan) -> Result<(), StoreError> {
        self.write_json("plan.json", plan)
    }

    /// `plan.json` of a run that is over.
    pub fn read_plan(&self) -> Result<Plan, StoreError> {
        self.read_json("plan.json")
    }

    /// `system.toml`: the file that describes the system, as it was read.
    pub fn write_system(&self, text: &str) -> Result<(), StoreError> {
        self.write_whole("system.toml", text.as_bytes()).map(drop)
    }

    /// `messages.jsonl`: what went on between the hosts of a small simulated run, one thing a line.
    pub fn write_messages(&self, seen: &[Seen]) -> Result<(), StoreError> {
        let line =
            |seen| serde_json::to_string(seen).expect("it has string keys and nothing that can fail") + "\n";
        self.write_whole("messages.jsonl", seen.iter().map(line).collect::<String>().as_bytes()).map(drop)
    }

    /// `messages.jsonl` of a run that is over; `None` if it has none, as most runs.
    pub fn read_messages(&self) -> Result<Option<Vec<Seen>>, StoreError> {
        let path = self.path.join("messages.jsonl");
        let text = match fs::read_to_string(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|e| StoreError::new("read", &path, e))?,
        };
        let lines = text.lines().enumerate().map(|(n, line)| {
            let invalid = |e| io::Error::new(io::ErrorKind::InvalidData, format!("line {}: {e}", n + 1));
            serde_json::from_str(line).map_err(invalid)
        });
        lines.collect::<Result<_, _>>().map(Some).map_err(|e| StoreError::new("read", &path, e))
    }

    /// `results.json`: what came of it.
    pub fn write_results(&self, verdict: &Verdict) -> Result<(), StoreError> {
        self.write_json("results.json", verdict)
    }

    /// `results.json` of a run that is over.
    pub fn read_results(&self) -> Result<Verdict, StoreError> {
        self.read_json("results.json")
    }

    /// `report.html`. Returns its path.
    pub fn write_report(&self, html: &str) -> Result<PathBuf, StoreError> {
        self.write_whole("report.html", html.as_bytes())
    }

    /// `plots/<name>.svg`. Returns its path.
    pub fn write_plot(&self, name: &str, svg: &str) -> Result<PathBuf, StoreError> {
        self.make_dir("plots")?;
        self.write_whole(&format!("plots/{name}.svg"), svg.as_bytes())
    }

    /// `history.jsonl`, to be written as it happens.
    pub fn history_writer(&self) -> Result<HistoryWriter, StoreError> {
        HistoryWriter::create(self.history_path())
    }

    /// Where the history is.
    pub fn history_path(&self) -> PathBuf {
        self.path.join("history.jsonl")
    }

    /// A node's folder, made if need be: its logs and configuration are its own.
    pub fn node_dir(&self, node: NodeId) -> Result<PathBuf, StoreError> {
        self.make_dir(&format!("nodes/{node}"))
    }

    /// Writes down what a simulated node has logged.
    pub fn write_node_log(&self, node: NodeId, log: &str) -> Result<(), StoreError> {
        let path = self.node_dir(node)?.join(NODE_LOG);
        fs::write(&path, log).map_err(|e| StoreError::new("write", &path, e))
    }

    /// Adds a line to `riprap.log`, with the run's time and the number of ops begun or ended before it: two runs of a
    /// seed are compared line by line. A line end inside it is written as `\n`. Nothing on a run that was opened.
    pub fn log(&self, time_ns: u64, op_index: u64, line: &str) -> Result<(), StoreError> {
        // A panic elsewhere while the log was held leaves at most a cut line in it.
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(log) = log.as_mut() else { return Ok(()) };
        let line = line.replace('\r', "\\r").replace('\n', "\\n");
        let (second, microsecond) = (time_ns / 1_000_000_000, time_ns / 1_000 % 1_000_000);
        let text = format!("{second}.{microsecond:06} #{op_index} {line}\n");
        log.write_all(text.as_bytes())
            .map_err(|e| StoreError::new("append to", &self.path.join("riprap.log"), e))
    }

    /// Its files, but the report itself, as paths in it with their sizes in bytes; the run's own first.
    pub fn files(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let mut files = Vec::new();
        let mut open = vec![(self.path.clone(), String::new())];
        while let Some((dir, prefix)) = open.pop() {
            let entries = fs::read_dir(&dir).map_err(|e| StoreError::new("read", &dir, e))?;
            // What vanishes meanwhile, as a node's temporary files do, is not there.
            for entry in entries.flatten() {
                let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
                match entry.metadata() {
                    Ok(kind) if kind.is_dir() && prefix.matches('/').count() < MAX_DEPTH => {
                        open.push((entry.path(), format!("{path}/")));
                    }
                    Ok(kind) if kind.is_file() && path != "report.html" => files.push((path, kind.len())),
                    _ => {}
                }
            }
        }
        files.sort_by_cached_key(|(path, _)| (path.matches('/').count(), path.clone()));
        files.truncate(MAX_FILES);
        Ok(files)
    }

    fn make_dir(&self, name: &str) -> Result<PathBuf, StoreError> {
        let dir = self.path.join(name);
        fs::create_dir_all(&dir).map_err(|e| StoreError::new("create", &dir, e))?;
        Ok(dir)
    }

    fn write_json(&self, name: &str, content: &impl Serialize) -> Result<(), StoreError> {
        self.write_whole(name, json_text(content).as_bytes()).map(drop)
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, StoreError> {
        let path = self.path.join(name);
        let text = fs::read(&path).map_err(|e| StoreError::new("read", &path, e))?;
        serde_json::from_slice(&text)
            .map_err(|e| StoreError::new("read", &path, io::Error::new(io::ErrorKind::InvalidData, e)))
    }

    fn write_whole(&self, name: &str, content: &[u8]) -> Result<PathBuf, StoreError> {
        let path = self.path.join(name);
        let temporary = self.path.join(format!("{name}.part"));
        let written = fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, &path));
        written.map_err(|e| {
            // Best effort, for the room it takes on a disk that may be full.
            let _ = fs::remove_file(&temporary);
            StoreError::new("write", &path, e)
        })?;
        Ok(path)
    }
}

/// JSON as it stands in the store's files and on the terminal: indented, with a line end.
pub fn json_text(content: &impl Serialize) -> String {
    let mut text =
        serde_json::to_string_pretty(content).expect("it has string keys and nothing that can fail");
    text.push('\n');
    text
}

fn append_to(path: &Path) -> Result<File, StoreError> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map_err(|e| StoreError::new("create", path, e))
}

/// Writes a history, op by op.
///
/// Each op is one `write(2)`: what [`HistoryWriter::append`] returned for survives the end of the harness. That costs some
/// microseconds, little beside an op that went over a network; a buffer would save them and lose what it holds.
#[derive(Debug)]
pub struct HistoryWriter {
    path: PathBuf,
    file: File,
    line: Vec<u8>,
    /// The length of the file up to its last whole line.
    whole_bytes: u64,
    /// Set by the first failure: a history with a hole in its middle would be judged as if it were whole.
    broken: bool,
}

impl HistoryWriter {
    /// Begins a history in a new file. Errors: it exists, or cannot be made.
    pub fn create(path: PathBuf) -> Result<HistoryWriter, StoreError> {
        let opened = OpenOptions::new().create_new(true).append(true).open(&path);
        let file = opened.map_err(|e| StoreError::new("create", &path, e))?;
        Ok(HistoryWriter { path, file, line: Vec::new(), whole_bytes: 0, broken: false })
    }

    /// Adds an op. Once it has failed it fails ever after, and the file ends with the last op that was written whole.
    pub fn append(&mut self, op: &Op) -> Result<(), StoreError> {
        if self.broken {
            let why = io::Error::other("an op before this one could not be written");
            return Err(StoreError::new("append to", &self.path, why));
        }
        self.line.clear();
        write_op(&mut self.line, op).expect("writing into memory does not fail");
        if let Err(e) = self.file.write_all(&self.line) {
            self.broken = true;
            // Best effort: a reader drops a cut last line anyway.
            let _ = self.file.set_len(self.whole_bytes);
            return Err(StoreError::new("append to", &self.path, e));
        }
        self.whole_bytes += self.line.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use riprap_core::history::read_jsonl;
    use riprap_core::op::{Extra, F, Key, Kind, Mop, OpValue, Process, Value};
    use std::time::Duration;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn dates() {
        let check = |seconds: u64, expected: &str| assert_eq!(utc_text(at(seconds)), expected);
        check(0, "1970-01-01 00:00:00 UTC");
        check(951_782_399, "2000-02-28 23:59:59 UTC");
        check(951_782_400, "2000-02-29 00:00:00 UTC");
        check(1_709_251_199, "2024-02-29 23:59:59 UTC");
        check(1_709_251_200, "2024-03-01 00:00:00 UTC");
        check(1_796_057_730, "2026-11-30 16:55:30 UTC");
        check(4_107_542_400, "2100-03-01 00:00:00 UTC");
        assert_eq!(utc_compact(at(1_795_971_330)), "20261129T165530Z");
    }

    fn create(root: &Path, seed: u64) -> RunDir {
        Store::create(root, "broker", "queue", at(1_795_971_330), seed).expect("a run's folder")
    }

    #[test]
    fn each_run_has_a_folder_and_latest_points_at_the_newest() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let root = root.path().join("results/runs");
        let first = create(&root, 7);
        assert_eq!(first.path(), root.join("broker-queue/20261129T165530Z-7"));
        let second = create(&root, 7);
        assert_eq!(second.path(), root.join("broker-queue/20261129T165530Z-7-2"));
        let latest = fs::read_link(root.join("latest")).expect("a link");
        assert_eq!(latest, Path::new("broker-queue/20261129T165530Z-7-2"));
        second.log(1_500_000, 3, "two\nlines").expect("it is written");
        let log = fs::read_to_string(root.join("latest/riprap.log")).expect("it is there");
        assert_eq!(log, "0.001500 #3 two\\nlines\n");
        let left: Vec<_> = fs::read_dir(&root).expect("it is there").flatten().collect();
        assert_eq!(left.len(), 2, "only the runs and the link");
    }

    #[test]
    fn a_comparison_keeps_the_runs_of_each_variant() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let all = CompareDir::create(root.path(), "kafka", at(0), 1).expect("a folder");
        assert_eq!(all.path(), root.path().join("kafka-compare/19700101T000000Z-1"));
        let stores = [all.variant_store(1, "4.0.0"), all.variant_store(2, "./a.toml")];
        assert!(stores[1].ends_with("2-._a.toml"), "{stores:?}");
        let runs = [1, 11].map(|seed| create(&stores[0], seed).path().to_owned());
        for (seed, expected) in [(1, Some(&runs[0])), (11, Some(&runs[1])), (2, None)] {
            assert_eq!(CompareDir::find_run(&stores[0], seed).as_ref(), expected);
        }
        assert_eq!(CompareDir::find_run(&stores[1], 1), None);
        assert_eq!(all.link(&runs[0]), "1-4.0.0/broker-queue/20261129T165530Z-1");
    }

    #[test]
    fn names_stay_inside_the_store() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let run = Store::create(root.path(), "../../etc", "a/b", at(0), 1).expect("a run's folder");
        assert_eq!(run.path(), root.path().join(".._.._etc-a_b/19700101T000000Z-1"));
    }

    fn host(what: &str) -> Seen {
        Seen::Host { time_ns: 7, host: "n1".to_owned(), life: None, what: what.to_owned() }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let run = create(root.path(), u64::MAX);
        run.write_test(&crate::record::tests::record()).expect("it is written");
        run.write_plan(&Plan::default()).expect("it is written");
        run.write_results(&Verdict::unknown("a", "b")).expect("it is written");
        assert_eq!(run.read_messages().expect("it is read"), None);
        run.write_messages(&[host("starts"), host("ends")]).expect("it is written");
        run.write_plot("rate", "<svg/>").expect("it is written");
        run.write_report("").expect("it is written");
        let node_dir = run.node_dir(NodeId(2)).expect("it is made");
        fs::write(node_dir.join("broker.log"), "x").expect("it is written");
        let run = RunDir::open(run.path()).expect("it is there");
        assert_eq!(run.read_test().expect("it is read"), crate::record::tests::record());
        assert_eq!(run.read_plan().expect("it is read"), Plan::default());
        assert_eq!(run.read_results().expect("it is read"), Verdict::unknown("a", "b"));
        assert_eq!(run.read_messages().expect("it is read"), Some(vec![host("starts"), host("ends")]));
        let files: Vec<_> = run.files().expect("it is read").into_iter().map(|(path, _)| path).collect();
        let expected = [
            "messages.jsonl",
            "plan.json",
            "results.json",
            "riprap.log",
            "test.json",
            "plots/rate.svg",
            "nodes/n2/broker.log",
        ];
        assert_eq!(files, expected);
    }

    #[test]
    fn errors_are_one_line_that_says_what_failed_and_where() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("file");
        fs::write(&file, "{").expect("it is written");
        let shown = |e: StoreError| e.to_string().replace(&dir.path().display().to_string(), "/tmp");
        let e = Store::create(&file, "broker", "queue", at(0), 1).expect_err("a file is no folder");
        assert_eq!(shown(e), "create /tmp/file/broker-queue: Not a directory (os error 20)");
        let e = RunDir::open(&dir.path().join("none")).expect_err("it is not there");
        assert_eq!(shown(e), "open /tmp/none: No such file or directory (os error 2)");
        fs::write(dir.path().join("test.json"), "{").expect("it is written");
        let e = RunDir::open(dir.path()).expect("it is there").read_test().expect_err("it is no test");
        assert_eq!(shown(e), "read /tmp/test.json: EOF while parsing an object at line 1 column 1");
        fs::write(dir.path().join("messages.jsonl"), "{\"type\":\"tale\"}\n").expect("it is written");
        let e = RunDir::open(dir.path()).expect("it is there").read_messages().expect_err("no such line");
        let start = "read /tmp/messages.jsonl: line 1: unknown variant `tale`, expected one of `message`, ";
        let shown_e = shown(e);
        assert!(shown_e.starts_with(start), "{shown_e}");
        fs::create_dir(dir.path().join("latest")).expect("it is made");
        let e = Store::create(dir.path(), "broker", "queue", at(0), 1).expect_err("a folder is in the way");
        assert_eq!(shown(e), "link /tmp/latest: Is a directory (os error 21)");
    }

    fn send(index: u64, value: i64) -> Op {
        let mop = Mop::Send { key: Key(1), value: Value(value), offset: None };
        let (process, kind, value) = (Process::Client(0), Kind::Invoke, OpValue::Mops(vec![mop]));
        Op { index, time_ns: 0, process, kind, f: F::Send, value, extra: Extra::default() }
    }

    #[test]
    fn a_full_disk_ends_the_history() {
        let path = PathBuf::from("/dev/full");
        let file = OpenOptions::new().append(true).open(&path).expect("Linux has it");
        let mut writer = HistoryWriter { path, file, line: Vec::new(), whole_bytes: 0, broken: false };
        let e = writer.append(&send(0, 1)).expect_err("it is full");
        assert_eq!(e.to_string(), "append to /dev/full: No space left on device (os error 28)");
        assert_eq!(e.source.kind(), io::ErrorKind::StorageFull);
        let e = writer.append(&send(1, 2)).expect_err("a hole is worse than an end");
        assert_eq!(e.to_string(), "append to /dev/full: an op before this one could not be written");
    }

    proptest! {
        /// Wherever the harness is killed, what it leaves is a history that lacks at most the line it was writing.
        #[test]
        fn a_history_cut_anywhere_is_a_history(values in prop::collection::vec(0_i64..1_000_000, 1..20), cut in any::<prop::sample::Index>()) {
            let dir = tempfile::tempdir().expect("a temporary folder");
            let path = dir.path().join("history.jsonl");
            let mut writer = HistoryWriter::create(path.clone()).expect("it is made");
            for (index, value) in values.iter().enumerate() {
                writer.append(&send(index as u64, *value)).expect("it is written");
            }
            let bytes = fs::read(&path).expect("it is there");
            let cut = cut.index(bytes.len() + 1);
            let whole = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
            let (history, _) = read_jsonl(&bytes[..cut]).expect("it is accepted");
            prop_assert!(history.len() == whole || history.len() == whole + 1);
            for (op, (index, value)) in history.ops().zip(values.iter().enumerate()) {
                prop_assert_eq!(op.to_op(), send(index as u64, *value));
            }
        }
    }
}
