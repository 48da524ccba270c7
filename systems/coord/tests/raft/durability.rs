//! Power failures at every operation of the disk, and damage to every byte of every file.

use crate::node::{DIR, MS, NodeEnv, Rng};
use bytes::Bytes;
use riprap_coord::{Body, Config, Entry, Index, Message, NodeId, OpenError, Raft, Term};
use riprap_env::disk::{Keep, MemDisk, RealDisk};
use riprap_env::{Disk, Env, LogLevel};
use std::fmt;

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const C: NodeId = NodeId(3);

fn config() -> Config {
    // So small that most settles start a file, and compaction removes some.
    Config { segment_bytes: 150, ..Config::new(A, vec![A, B, C]) }
}

/// What happens before one settle.
enum Step {
    Hear(NodeId, u64, Body),
    Compact(u64),
    Settle,
    Restart,
}

fn append(prev: (u64, u64), commit: u64, entries: &[(u64, u64)]) -> Body {
    let entry = |&(index, term): &(u64, u64)| {
        let payload = Bytes::from(format!("payload {index}.{term}"));
        Entry { index: Index(index), term: Term(term), payload }
    };
    let entries = entries.iter().map(entry).collect();
    Body::Append { prev_index: Index(prev.0), prev_term: Term(prev.1), commit: Index(commit), entries }
}

fn message(term: u64, asked_ns: u64, body: Body) -> Message {
    Message { term: Term(term), asked_ns, newcomer: None, body }
}

fn vote() -> Body {
    Body::Vote { last_index: Index(1000), last_term: Term(1000) }
}

fn snapshot(last_index: u64, last_term: u64) -> Body {
    let data = Bytes::from(format!("state at {last_index}"));
    let (last_index, last_term) = (Index(last_index), Term(last_term));
    Body::InstallSnapshot { last_index, last_term, total_bytes: data.len() as u64, offset: 0, data }
}

/// A life in which everything is written: terms, votes, entries, conflicts, snapshots of its own and of leaders.
fn script() -> Vec<Step> {
    use Step::{Compact, Hear, Restart, Settle};
    vec![
        Hear(B, 1, vote()),
        Settle,
        Hear(B, 1, append((0, 0), 0, &[(1, 1), (2, 1), (3, 1)])),
        Settle,
        Hear(B, 1, append((3, 1), 2, &[(4, 1), (5, 1)])),
        Settle,
        Hear(B, 1, append((5, 1), 2, &[(6, 1)])),
        Compact(2),
        Settle,
        // A new leader replaces 5 and 6.
        Hear(C, 2, append((4, 1), 3, &[(5, 2), (6, 2), (7, 2), (8, 2)])),
        Settle,
        // Another one replaces 4 to 8 by a snapshot that ends among them, with entries after it.
        Hear(B, 3, snapshot(6, 3)),
        Hear(B, 3, append((6, 3), 6, &[(7, 3)])),
        Settle,
        Restart,
        Hear(B, 3, append((7, 3), 7, &[(8, 3), (9, 3)])),
        Settle,
        Compact(7),
        Settle,
        // And one that ends far after the log.
        Hear(C, 4, snapshot(20, 4)),
        Settle,
        Hear(C, 4, append((20, 4), 22, &[(21, 4), (22, 4)])),
        Settle,
        Compact(21),
        Hear(C, 4, append((22, 4), 22, &[(23, 4)])),
        Settle,
        Restart,
        Hear(B, 9, vote()),
        Settle,
        Hear(C, 10, append((22, 4), 22, &[(23, 10), (24, 10)])),
        Settle,
        Hear(C, 10, append((24, 10), 22, &[(25, 10)])),
        Settle,
        Hear(C, 10, append((25, 10), 22, &[(26, 10)])),
        Settle,
        Hear(C, 10, append((26, 10), 22, &[(27, 10)])),
        Settle,
    ]
}

/// All of a node that has to survive.
#[derive(Clone, PartialEq, Eq, Debug)]
struct View {
    hard: (Term, Option<NodeId>),
    snapshot: Index,
    log: Vec<Entry>,
}

impl View {
    fn of(raft: &Raft) -> View {
        let status = raft.status();
        let indices = (status.snapshot_index.0 + 1..=status.last_index.0).map(Index);
        let log = indices.map(|index| raft.entry(index).expect("a log has no gaps").clone()).collect();
        View { hard: (status.term, status.voted_for), snapshot: status.snapshot_index, log }
    }

    fn log_after(&self, index: Index) -> Vec<Entry> {
        self.log.iter().filter(|entry| entry.index > index).cloned().collect()
    }
}

fn open(env: &mut NodeEnv) -> Result<Raft, OpenError> {
    Raft::open(config(), env, DIR, 0)
}

/// Opens what is on the disk; what opening itself writes is synced too.
fn reopen(disk: &MemDisk) -> (NodeEnv, Raft, View) {
    let mut env = NodeEnv::new(0, A);
    env.disk = disk.clone();
    let mut raft = open(&mut env).unwrap_or_else(|error| panic!("does not open: {error}"));
    raft.settle(0, &mut env).expect("the disk works");
    let view = View::of(&raft);
    (env, raft, view)
}

/// The script's end, or where the disk failed: the disk, what was last settled, and what was to be settled.
struct Stop {
    env: NodeEnv,
    before: View,
    after: View,
    failed: bool,
}

/// Runs the script on a disk whose operation `fail_at` fails.
fn run(fail_at: Option<u64>) -> Stop {
    let mut env = NodeEnv::new(0, A);
    if let Some(operation) = fail_at {
        env.disk.fail_operation(operation);
    }
    let mut now_ns = 0;
    let nothing = View { hard: (Term(0), None), snapshot: Index(0), log: Vec::new() };
    let mut before = nothing.clone();
    let Ok(mut raft) = open(&mut env) else {
        return Stop { env, before: nothing.clone(), after: nothing, failed: true };
    };
    for step in script() {
        // Leaders are forgotten in between.
        now_ns += 1_000 * MS;
        match step {
            Step::Hear(from, term, body) => {
                raft.step(now_ns, from, message(term, now_ns, body), &mut env);
            }
            Step::Compact(upto) => {
                let state = Bytes::from(format!("state at {upto}"));
                raft.compact(Index(upto), state).expect("it is small");
            }
            Step::Settle => {
                let after = View::of(&raft);
                if raft.settle(now_ns, &mut env).is_err() {
                    return Stop { env, before, after, failed: true };
                }
                before = after;
            }
            Step::Restart => {
                env.disk.process_crash();
                let opened = open(&mut env).and_then(|mut raft| {
                    raft.settle(now_ns, &mut env)?;
                    Ok(raft)
                });
                match opened {
                    Ok(opened) => raft = opened,
                    Err(OpenError::Disk(_)) => {
                        return Stop { env, after: before.clone(), before, failed: true };
                    }
                    Err(error) => panic!("{error}"),
                }
                assert_eq!(View::of(&raft), before);
            }
        }
    }
    assert_eq!(env.errors, [""; 0]);
    Stop { env, after: before.clone(), before, failed: false }
}

fn check_survived(what: &str, stop: &Stop, found: &View) {
    let Stop { before, after, .. } = stop;
    let halves = [before, after];
    assert!(halves.iter().any(|v| v.hard == found.hard), "{what}: {found:?} of {halves:?}");
    assert!(halves.iter().any(|v| v.snapshot == found.snapshot), "{what}: {found:?} of {halves:?}");
    let mut logs = vec![before.log_after(found.snapshot), after.log_after(found.snapshot)];
    if found.snapshot == after.snapshot && after.snapshot != before.snapshot {
        // The leader's snapshot is there, the log that begins after it not yet.
        logs.push(Vec::new());
    }
    assert!(logs.contains(&found.log), "{what}: {found:?} of {halves:?}");
    if found.hard != after.hard {
        assert_eq!(found, before, "{what}: nothing may be durable before the term is");
    }
}

fn keeps(mode: u64) -> impl FnMut() -> Keep {
    let mut rng = Rng::new(mode);
    move || match mode {
        0 => Keep::Lost,
        1 => Keep::Whole,
        2 => Keep::Zeros,
        3 => Keep::Torn(10),
        4 => Keep::Torn(60),
        _ => match rng.below(4) {
            0 => Keep::Lost,
            1 => Keep::Torn(rng.below(150) as usize),
            2 => Keep::Zeros,
            _ => Keep::Whole,
        },
    }
}

#[test]
fn a_power_failure_at_any_operation_loses_nothing_that_was_settled() {
    let operations = run(None).env.disk.operations();
    assert!(operations > 100, "only {operations} operations");
    for operation in 0..operations {
        let stop = run(Some(operation));
        assert!(stop.failed, "operation {operation} fails");
        for mode in 0..12 {
            let what = format!("operation {operation} failed, then power, kept as in mode {mode}");
            let mut disk = stop.env.disk.clone();
            let mut keep = keeps(mode);
            disk.power_fail(|_| keep());
            let (mut env, mut raft, found) = reopen(&disk);
            check_survived(&what, &stop, &found);

            // It goes on from there, and that is durable too.
            let status = raft.status();
            let (last, term) = (status.last_index.0, found.log.last().map_or(0, |entry| entry.term.0));
            if last > 0 && term > 0 {
                let body = append((last, term), 0, &[(last + 1, 20)]);
                raft.step(MS, C, message(20, 0, body), &mut env);
                raft.settle(MS, &mut env).expect("the disk works");
                assert_eq!(raft.last_index(), Index(last + 1), "{what}");
            }
            let expect = View::of(&raft);
            env.disk.power_fail(|_| Keep::Lost);
            assert_eq!(reopen(&env.disk).2, expect, "{what}, then went on");
        }
    }
}

/// A process that ends leaves bytes that read back though no sync made them durable.
#[test]
fn what_is_found_after_a_crash_of_the_process_survives_a_power_failure() {
    let operations = run(None).env.disk.operations();
    for operation in 0..operations {
        let stop = run(Some(operation));
        let mut disk = stop.env.disk.clone();
        disk.process_crash();
        let (mut env, _, found) = reopen(&disk);
        check_survived(&format!("operation {operation} failed"), &stop, &found);
        env.disk.power_fail(|_| Keep::Lost);
        assert_eq!(reopen(&env.disk).2, found, "operation {operation} failed");
    }
}

fn files(disk: &mut MemDisk) -> Vec<(String, usize)> {
    let names = disk.list(DIR).expect("the disk works");
    let paths = names.into_iter().map(|name| format!("{DIR}/{name}"));
    paths.map(|path| (path.clone(), disk.contents(&path).expect("listed").len())).collect()
}

fn newest_log_file(files: &[(String, usize)]) -> &str {
    let logs: Vec<&str> =
        files.iter().map(|(path, _)| path.as_str()).filter(|p| p.contains("/log-")).collect();
    assert!(logs.len() > 2, "only {logs:?}");
    logs[logs.len() - 1]
}

#[test]
fn a_damaged_byte_is_an_error_or_in_the_last_frame_and_more_than_a_bit() {
    let Stop { mut env, before, .. } = run(None);
    let files = files(&mut env.disk);
    let mut without_last = before.clone();
    without_last.log.pop();
    let mut cut = 0;
    for (path, len) in &files {
        for offset in 0..*len {
            for mask in [0x01, 0x10, 0x80, 0xff] {
                let mut damaged = NodeEnv::new(0, A);
                damaged.disk = env.disk.clone();
                damaged.disk.flip_bits(path, offset as u64, mask);
                match open(&mut damaged) {
                    Err(OpenError::Corrupt { .. }) => {}
                    Err(error) => panic!("{path} byte {offset}: {error}"),
                    Ok(raft) => {
                        assert_eq!(path, newest_log_file(&files), "byte {offset}");
                        assert_eq!(
                            mask, 0xff,
                            "{path} byte {offset}: a single bit is told apart from a torn write"
                        );
                        assert_eq!(View::of(&raft), without_last, "{path} byte {offset}");
                        cut += 1;
                    }
                }
            }
        }
    }
    let newest_len =
        files.iter().find(|(path, _)| path == newest_log_file(&files)).expect("it is one of them").1;
    assert!(
        0 < cut && cut <= newest_len,
        "the newest file has {newest_len} bytes, of which {cut} are in its last frame"
    );
}

#[test]
fn missing_files_are_an_error() {
    let Stop { mut env, .. } = run(None);
    let files = files(&mut env.disk);
    for (path, _) in files.iter().filter(|(path, _)| path != newest_log_file(&files)) {
        let mut damaged = NodeEnv::new(0, A);
        damaged.disk = env.disk.clone();
        damaged.disk.remove(path).expect("listed");
        let error = open(&mut damaged).err();
        assert!(matches!(error, Some(OpenError::Corrupt { .. })), "without {path}: {error:?}");
    }
}

#[test]
fn a_folder_belongs_to_one_node() {
    let Stop { mut env, .. } = run(None);
    let error = Raft::open(Config::new(B, vec![A, B, C]), &mut env, DIR, 0).expect_err("it is node 1's");
    let path = format!("{DIR}/state");
    assert_eq!(error, OpenError::WrongNode { path, found: A, expected: B });
}

/// Files of this machine, and nothing else.
struct RealEnv(RealDisk);

impl Env for RealEnv {
    fn disk(&mut self) -> &mut dyn Disk {
        &mut self.0
    }

    fn wall_clock_ms(&self) -> i64 {
        0
    }

    fn random_u64(&mut self, _purpose: &'static str) -> u64 {
        0
    }

    fn log(&mut self, _level: LogLevel, _module: &'static str, _line: fmt::Arguments<'_>) {}
}

#[test]
fn works_on_real_files() {
    let folder = tempfile::tempdir().expect("a folder for tests can be made");
    let alone = || Config { segment_bytes: 200, ..Config::new(A, vec![A]) };
    let mut proposed = 0;
    for life in 1..=3 {
        let disk = RealDisk::new(folder.path()).expect("the folder is there");
        let mut env = RealEnv(disk);
        let mut raft = Raft::open(alone(), &mut env, DIR, 0).expect("what was written is found");
        raft.tick(raft.wake_at_ns(), &mut env);
        let ready = raft.settle(0, &mut env).expect("the disk works");
        let before = ready.snapshot.map_or(0, |s| s.index.0) + ready.committed.len() as u64;
        assert_eq!((raft.term(), before), (Term(life), proposed + life));
        for _ in 0..10 {
            let (_, index) = raft.propose(Bytes::from("x".repeat(50))).expect("it leads");
            proposed += 1;
            let ready = raft.settle(0, &mut env).expect("the disk works");
            assert_eq!(ready.committed.last().map(|e| e.index), Some(index));
        }
        raft.compact(Index(raft.commit_index().0 - 3), Bytes::from("state")).expect("it is small");
        raft.settle(0, &mut env).expect("the disk works");
        assert!(raft.log_bytes() < 1000, "compaction removes files: {}", raft.log_bytes());
    }
}
