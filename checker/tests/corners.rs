//! Histories that are large in one way: nothing is quadratic. Each would take minutes if something were.

use riprap_checker::{Options, Verdict, check};
use riprap_core::History;
use riprap_core::history::Head;
use riprap_core::op::{Extra, F, Key, Kind, Offset, Process, Value};

/// Adds a row: sends `(key, value, offset)`, then one poll of `(key, records)`.
type Send = (i64, i64, Option<i64>);
type Group = (i64, Vec<(i64, i64)>);

fn row(history: &mut History, process: u32, kind: Kind, sends: &[Send], reads: Option<&[Group]>) {
    let row = history.len();
    let mut op = history.build();
    for (key, value, offset) in sends {
        op.send(Key(*key), Value(*value), offset.filter(|_| kind != Kind::Invoke).map(Offset));
    }
    match reads {
        Some(_) if kind == Kind::Invoke => op.asked(),
        Some(reads) => {
            op.polled();
            for (key, records) in reads {
                op.group(Key(*key));
                records.iter().for_each(|(offset, value)| op.record(Offset(*offset), Value(*value)));
            }
        }
        None => {}
    }
    let head =
        Head { index: row as u64, time_ns: row as i64, process: Process::Client(process), kind, f: &F::Txn };
    op.finish(head, None, Extra::default());
}

fn txn(history: &mut History, process: u32, sends: &[Send], reads: Option<&[Group]>) {
    row(history, process, Kind::Invoke, sends, reads);
    row(history, process, Kind::Ok, sends, reads);
}

fn judge(history: &History) -> Verdict {
    check(history, &Options { vacuity: false, ..Options::default() })
}

#[track_caller]
fn check_finds(history: &History, expect: &[(&str, u64)]) {
    let verdict = judge(history);
    let found: Vec<(&str, u64)> =
        verdict.anomalies.iter().map(|(name, found)| (name.as_str(), found.count)).collect();
    assert_eq!(found, expect);
}

const N: i64 = 20_000;

/// A key of `N` records at these offsets, each sent by itself.
fn one_key(offset: impl Fn(i64) -> i64) -> History {
    let mut history = History::new();
    (0..N).for_each(|n| txn(&mut history, 0, &[(5, n, Some(offset(n)))], None));
    history
}

fn records(offset: impl Fn(i64) -> i64) -> Vec<(i64, i64)> {
    (0..N).map(|n| (offset(n), n)).collect()
}

#[test]
fn one_huge_key_read_by_one_long_poll() {
    let mut history = one_key(|n| n);
    txn(&mut history, 1, &[], Some(&[(5, records(|n| n))]));
    check_finds(&history, &[]);
}

#[test]
fn one_transaction_that_does_everything() {
    let mut history = History::new();
    let sends: Vec<Send> = (0..N).map(|n| (n % 1000, n, Some(n))).collect();
    txn(&mut history, 0, &sends, None);
    let by_key: Vec<Group> = (0..1000)
        .map(|key| (key, (0..N / 1000).map(|n| (n * 1000 + key, n * 1000 + key)).collect()))
        .collect();
    txn(&mut history, 1, &[], Some(&by_key));
    check_finds(&history, &[]);
    // The same, and it reads all that it sends, backwards.
    let back: Vec<Group> =
        by_key.iter().map(|(key, records)| (*key, records.iter().rev().copied().collect())).collect();
    txn(&mut history, 2, &[(1000, 1, Some(0))], Some(&back));
    txn(&mut history, 3, &[], Some(&[(1000, vec![(0, 1)])]));
    check_finds(&history, &[("int-nonmonotonic-poll", (N / 1000 - 1) as u64 * 1000)]);
}

#[test]
fn every_key_is_another() {
    let mut history = History::new();
    for n in 0..N {
        txn(&mut history, 0, &[(n * 1_000_003, 7, Some(n))], None);
        txn(&mut history, 1, &[], Some(&[(n * 1_000_003, vec![(n, 7)])]));
    }
    check_finds(&history, &[]);
}

#[test]
fn offsets_far_apart_and_far_up() {
    let offset = |n: i64| (1 << 62) + n * (1 << 40);
    let mut history = one_key(offset);
    txn(&mut history, 1, &[], Some(&[(5, records(offset))]));
    check_finds(&history, &[]);
}

#[test]
fn values_far_apart() {
    let mut history = History::new();
    let value = |n: i64| n * (1 << 44) - (1 << 61);
    (0..N).for_each(|n| txn(&mut history, 0, &[(5, value(n), Some(n))], None));
    txn(&mut history, 1, &[], Some(&[(5, (0..N).map(|n| (n, value(n))).collect())]));
    check_finds(&history, &[]);
}

#[test]
fn everything_twice() {
    let mut history = one_key(|n| n);
    txn(&mut history, 1, &[], Some(&[(5, records(|n| n))]));
    txn(&mut history, 1, &[], Some(&[(5, records(|n| N + n))]));
    let verdict = judge(&history);
    assert_eq!(verdict.anomalies["duplicate"].count, N as u64);
    // The second copies are what counts for order, and the first of them stands after the last of the first ones.
    assert!(verdict.anomalies["G0"].examples[0].story.starts_with(&format!("{N} ops form a cycle")));
}

#[test]
fn everything_contradicted() {
    let mut history = one_key(|n| n);
    txn(&mut history, 1, &[], Some(&[(5, records(|n| n))]));
    txn(&mut history, 2, &[], Some(&[(5, (0..N).map(|n| (n, (n + 1) % N)).collect())]));
    assert_eq!(judge(&history).anomalies["inconsistent-offsets"].count, N as u64);
}

#[test]
fn everything_told() {
    let mut history = one_key(|n| n);
    txn(&mut history, 1, &[], Some(&[(5, records(|n| n))]));
    let odd: Vec<(i64, i64)> = (0..N).filter(|n| n % 2 == 1).map(|n| (n, n)).collect();
    txn(&mut history, 2, &[], Some(&[(5, odd)]));
    let options = Options { all_examples: true, vacuity: false, ..Options::default() };
    let verdict = check(&history, &options);
    let skips = &verdict.anomalies["int-poll-skip"];
    assert_eq!((skips.count, skips.examples.len() as u64), (N as u64 / 2 - 1, N as u64 / 2 - 1));
}

/// Ten thousand processes at once, round after round: realtime has all pairs of two rounds.
#[test]
fn ten_thousand_processes() {
    let mut history = History::new();
    for round in 0..5 {
        for kind in [Kind::Invoke, Kind::Ok] {
            for process in 0..10_000u32 {
                let n = round * 10_000 + i64::from(process);
                row(&mut history, process, kind, &[(n % 100, n, Some(n))], None);
            }
        }
    }
    let by_key: Vec<Group> =
        (0..100).map(|key| (key, (0..500).map(|n| (n * 100 + key, n * 100 + key)).collect())).collect();
    txn(&mut history, 10_000, &[], Some(&by_key));
    check_finds(&history, &[]);
}

/// One component of many: each transaction writes right after the one before it, the first after the last.
#[test]
fn one_huge_ring() {
    let len = N / 2;
    let mut history = History::new();
    for kind in [Kind::Invoke, Kind::Ok] {
        for n in 0..len {
            let sends = [(n, 0, Some(0)), ((n + len - 1) % len, 1, Some(1))];
            row(&mut history, n as u32, kind, &sends, None);
        }
    }
    let by_key: Vec<Group> = (0..len).map(|key| (key, vec![(0, 0), (1, 1)])).collect();
    txn(&mut history, len as u32, &[], Some(&by_key));
    check_finds(&history, &[("G0", 1)]);
    let example = &judge(&history).anomalies["G0"].examples[0];
    assert_eq!(example.ops.len() as i64, len);
}

/// One component in which nearly everything is near everything: long polls of the same records, written in rounds.
#[test]
fn one_huge_dense_component() {
    let mut history = History::new();
    let readers = 300;
    for kind in [Kind::Invoke, Kind::Ok] {
        for n in 0..readers {
            let others: Vec<(i64, i64)> = (0..readers).map(|n| (n, n)).collect();
            row(&mut history, n as u32, kind, &[(5, n, Some(n))], Some(&[(5, others)]));
        }
    }
    let verdict = judge(&history);
    assert_eq!(verdict.anomalies["G1c-wr"].count, 1);
    assert_eq!(verdict.anomalies["G1c-wr"].examples[0].ops.len(), 2);
    assert_eq!(verdict.anomalies["precommitted-read"].count, readers as u64);
}
