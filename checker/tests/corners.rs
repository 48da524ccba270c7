//! Histories that are large in one way: nothing is quadratic. Each would take minutes if something were.

use riprap_checker::{Examples, Options, Verdict, check, mini};
use riprap_core::History;
use riprap_core::history::Head;
use riprap_core::op::{Extra, F, Key, Kind, Offset, Process, Value};
use std::sync::LazyLock;

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

/// How large: so that an unoptimised build takes a second. `RIPRAP_CORNERS=1000000` with `--release` asks for more.
fn size() -> i64 {
    static SIZE: LazyLock<i64> = LazyLock::new(|| {
        let asked = std::env::var("RIPRAP_CORNERS").ok();
        asked.map_or(20_000, |size| size.parse().expect("RIPRAP_CORNERS is a number"))
    });
    *SIZE
}

/// A key of `size()` records at these offsets, each sent by itself.
fn one_key(offset: impl Fn(i64) -> i64) -> History {
    let mut history = History::new();
    (0..size()).for_each(|n| txn(&mut history, 0, &[(5, n, Some(offset(n)))], None));
    history
}

fn records(offset: impl Fn(i64) -> i64) -> Vec<(i64, i64)> {
    (0..size()).map(|n| (offset(n), n)).collect()
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
    let sends: Vec<Send> = (0..size()).map(|n| (n % 1000, n, Some(n))).collect();
    txn(&mut history, 0, &sends, None);
    let by_key: Vec<Group> = (0..1000)
        .map(|key| (key, (0..size() / 1000).map(|n| (n * 1000 + key, n * 1000 + key)).collect()))
        .collect();
    txn(&mut history, 1, &[], Some(&by_key));
    check_finds(&history, &[]);
    // The same, and it reads all that it sends, backwards.
    let back: Vec<Group> =
        by_key.iter().map(|(key, records)| (*key, records.iter().rev().copied().collect())).collect();
    txn(&mut history, 2, &[(1000, 1, Some(0))], Some(&back));
    txn(&mut history, 3, &[], Some(&[(1000, vec![(0, 1)])]));
    check_finds(&history, &[("int-nonmonotonic-poll", (size() / 1000 - 1) as u64 * 1000)]);
}

#[test]
fn every_key_is_another() {
    let mut history = History::new();
    for n in 0..size() {
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
    let value = |n: i64| n * ((1 << 62) / size()) - (1 << 61);
    (0..size()).for_each(|n| txn(&mut history, 0, &[(5, value(n), Some(n))], None));
    txn(&mut history, 1, &[], Some(&[(5, (0..size()).map(|n| (n, value(n))).collect())]));
    check_finds(&history, &[]);
}

#[test]
fn everything_twice() {
    let mut history = one_key(|n| n);
    txn(&mut history, 1, &[], Some(&[(5, records(|n| n))]));
    txn(&mut history, 1, &[], Some(&[(5, records(|n| size() + n))]));
    let verdict = judge(&history);
    assert_eq!(verdict.anomalies["duplicate"].count, size() as u64);
    // The second copies are what counts for order, and the first of them stands after the last of the first ones.
    assert!(verdict.anomalies["G0"].examples[0].story.starts_with(&format!("{} ops form a cycle", size())));
}

#[test]
fn everything_contradicted() {
    let mut history = one_key(|n| n);
    txn(&mut history, 1, &[], Some(&[(5, records(|n| n))]));
    txn(&mut history, 2, &[], Some(&[(5, (0..size()).map(|n| (n, (n + 1) % size())).collect())]));
    assert_eq!(judge(&history).anomalies["inconsistent-offsets"].count, size() as u64);
}

#[test]
fn everything_told() {
    let mut history = one_key(|n| n);
    txn(&mut history, 1, &[], Some(&[(5, records(|n| n))]));
    let odd: Vec<(i64, i64)> = (0..size()).filter(|n| n % 2 == 1).map(|n| (n, n)).collect();
    txn(&mut history, 2, &[], Some(&[(5, odd)]));
    let options = Options { examples: Examples::All, vacuity: false, ..Options::default() };
    let verdict = check(&history, &options);
    let skips = &verdict.anomalies["int-poll-skip"];
    assert_eq!((skips.count, skips.examples.len() as u64), (size() as u64 / 2 - 1, size() as u64 / 2 - 1));
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
    let len = size() / 2;
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

fn judge_rw(history: &History) -> Verdict {
    check(history, &Options { rw: true, vacuity: false, ..Options::default() })
}

/// Keys with one record each, all written at once.
fn bases(history: &mut History, keys: i64) {
    txn(history, 0, &(0..keys).map(|key| (key, 0, Some(0))).collect::<Vec<Send>>(), None);
}

/// Everything that was written, by somebody who read it all.
fn drain(history: &mut History, second: std::ops::Range<i64>, keys: i64) {
    let records = |key| if second.contains(&key) { vec![(0, 0), (1, 1)] } else { vec![(0, 0)] };
    txn(history, 1, &[], Some(&(0..keys).map(|key| (key, records(key))).collect::<Vec<Group>>()));
}

/// Of each: which key it read up to its first record, and which one's second record it wrote.
fn ring_of_stops(history: &mut History, kind: Kind, len: i64) {
    for n in 0..len {
        row(history, 10 + n as u32, kind, &[((n + 1) % len, 1, Some(1))], Some(&[(n, vec![(0, 0)])]));
    }
}

/// One component of as many rw edges as transactions, too many to know that no cycle has but one of them.
#[test]
fn one_huge_ring_of_stops() {
    let len = size() / 2;
    let mut history = History::new();
    bases(&mut history, len);
    for kind in [Kind::Invoke, Kind::Ok] {
        ring_of_stops(&mut history, kind, len);
    }
    drain(&mut history, 0..len, len);
    let verdict = judge_rw(&history);
    assert_eq!((verdict.anomalies.len(), verdict.anomalies["G2"].count), (1, 1));
    let story = &verdict.anomalies["G2"].examples[0].story;
    let begin = format!(
        "{len} ops form a cycle (a shorter one was not ruled out) (one with a single rw edge was not ruled out): "
    );
    assert!(story.starts_with(&begin), "{story:.300}");
}

/// The same, with two transactions more: one that read from the whole ring, and one that read half of what that one wrote
/// and leads back into the ring. What tells a G-single is looked at last: in the small ring it is, in the huge one it is
/// found by chance.
#[test]
fn a_single_stop_in_a_ring_of_them() {
    for len in [300, size() / 2] {
        let mut history = History::new();
        bases(&mut history, len + 1);
        let ring: Vec<Group> = (0..len).map(|key| (key, vec![(1, 1)])).collect();
        for kind in [Kind::Invoke, Kind::Ok] {
            row(&mut history, 2, kind, &[(len, 1, Some(1)), (len + 1, 0, Some(0))], Some(&ring));
            let half = [(0, vec![(0, 0)]), (len, vec![(0, 0)]), (len + 1, vec![(0, 0)])];
            row(&mut history, 3, kind, &[], Some(&half));
            ring_of_stops(&mut history, kind, len);
        }
        drain(&mut history, 0..len + 1, len + 2);
        let verdict = judge_rw(&history);
        assert_eq!((verdict.anomalies.len(), verdict.anomalies["G-single"].count), (1, 1));
        let story = &verdict.anomalies["G-single"].examples[0].story;
        assert!(story.starts_with("2 ops form a cycle: "), "{story:.300}");
    }
}

/// An rw edge between any two: each read all keys up to their first records, and wrote the second one of its own.
#[test]
fn one_dense_component_of_stops() {
    let len = 300;
    let mut history = History::new();
    bases(&mut history, len);
    let all: Vec<Group> = (0..len).map(|key| (key, vec![(0, 0)])).collect();
    for kind in [Kind::Invoke, Kind::Ok] {
        (0..len).for_each(|n| row(&mut history, 10 + n as u32, kind, &[(n, 1, Some(1))], Some(&all)));
    }
    drain(&mut history, 0..len, len);
    let verdict = judge_rw(&history);
    assert_eq!((verdict.anomalies.len(), verdict.anomalies["G2"].count), (1, 1));
    assert!(verdict.anomalies["G2"].examples[0].story.starts_with("2 ops form a cycle: "));
}

/// One long undecided transaction, and behind each of its records somebody who stopped right before it: whether it must
/// have committed is asked once.
#[test]
fn one_undecided_transaction_that_everybody_stopped_before() {
    let mut history = History::new();
    bases(&mut history, size());
    let sends: Vec<Send> = (0..size()).map(|key| (key, 1, None)).collect();
    row(&mut history, 2, Kind::Invoke, &sends, None);
    let all: Vec<Group> = (0..size()).map(|key| (key, vec![(1, 1)])).collect();
    row(&mut history, 3, Kind::Invoke, &[], Some(&all));
    row(&mut history, 3, Kind::Info, &[], Some(&all));
    (0..size()).for_each(|key| txn(&mut history, 4, &[], Some(&[(key, vec![(0, 0)])])));
    assert!(judge_rw(&history).anomalies.is_empty());
}

/// A cycle of many wr edges and one ww edge: the first transaction of the component shows it, and all others lead into
/// nothing that is needed.
#[test]
fn one_huge_ring_with_one_needed_edge() {
    let len = size();
    let mut history = History::new();
    for kind in [Kind::Invoke, Kind::Ok] {
        // The first wrote to key 0 right after the last.
        row(&mut history, 10, kind, &[(0, 1, Some(1)), (1, 0, Some(0))], Some(&[]));
        for n in 1..len {
            let sends = [((n + 1) % len, 0, Some(0))];
            row(&mut history, 10 + n as u32, kind, &sends, Some(&[(n, vec![(0, 0)])]));
        }
    }
    drain(&mut history, 0..1, len);
    check_finds(&history, &[("G1c", 1)]);
    let story = &judge(&history).anomalies["G1c"].examples[0].story;
    assert!(story.starts_with(&format!("{len} ops form a cycle")), "{story:.300}");
}

/// The words of so many ops in the mini-language.
fn words(word: impl Fn(i64) -> String) -> String {
    (0..size()).map(word).collect()
}

#[test]
fn a_group_that_reads_everything_twice() {
    let sends = words(|n| format!("99/s5={n}@{n} "));
    let reads = |process: i64| words(|n| format!("{process}/p5:{n}={n} "));
    let history = format!("{sends} 0/u5 {} 1/u5 {}", reads(0), reads(1));
    check_finds(&mini::parse(&history), &[("redelivery-uncommitted", size() as u64)]);
    // The first commits each of them.
    let commits = words(|n| format!("p5:{n}={n}+5@{} ", n + 1));
    let history = format!("{sends} 0/u5 {commits} 1/u5 {}", reads(1));
    check_finds(&mini::parse(&history), &[("redelivery", size() as u64)]);
}

#[test]
fn a_group_whose_commits_go_up_and_down() {
    let commits = words(|n| format!("{0}/p+5@{1} {0}/g5={1} ", n % 7, n % 2));
    check_finds(&mini::parse(&commits), &[("committed-offset-regression", (size() as u64 - 1) / 2)]);
}

#[test]
fn a_reader_of_very_many_keys() {
    let keys = words(|n| format!("{n},"));
    let sends = words(|n| format!("s{n}=0@0 "));
    let reads = words(|n| format!("1/p{n}:0=0 "));
    check_finds(&mini::parse(&format!("{sends} #drain 1/A{keys} {reads} w99 1/p #undrained")), &[]);
    let stuck = [("stuck-consumer", size() as u64), ("unseen", size() as u64)];
    check_finds(&mini::parse(&format!("{sends} #drain 1/A{keys} w99 1/p #undrained")), &stuck);
    let refused = words(|n| format!("!s{n}=0 "));
    let again = words(|n| format!("!s{n}=1 "));
    let refused = format!("#drain {refused} w99 {again} #undrained");
    check_finds(&mini::parse(&refused), &[("stuck-producer", size() as u64)]);
}

#[test]
fn transactions_torn_in_many_ways() {
    let half = |from: i64| (from..size()).step_by(2);
    let mut history = History::new();
    let sends: Vec<Send> = (0..size()).map(|n| (n, 0, Some(0))).collect();
    txn(&mut history, 0, &sends, None);
    txn(&mut history, 1, &[], Some(&half(0).map(|key| (key, vec![(0, 0)])).collect::<Vec<Group>>()));
    check_finds(&history, &[("torn-txn", 1), ("unseen", half(1).count() as u64)]);
    let mut history = History::new();
    for key in half(0) {
        txn(&mut history, 0, &[(key, 0, Some(0)), (key + 1, 0, Some(0))], None);
    }
    txn(&mut history, 1, &[], Some(&half(0).map(|key| (key, vec![(0, 0)])).collect::<Vec<Group>>()));
    let count = half(0).count() as u64;
    check_finds(&history, &[("torn-txn", count), ("unseen", count)]);
}

#[test]
fn everything_under_another_key() {
    let mut history = one_key(|n| n);
    txn(&mut history, 1, &[], Some(&[(6, records(|n| n))]));
    check_finds(&history, &[("misrouted", size() as u64), ("unseen", size() as u64)]);
}

#[test]
fn aborted_over_and_over() {
    let sends = words(|n| format!("99/s5={n}@{n} "));
    let all: Vec<String> = (0..size()).map(|n| format!("{n}={n}")).collect();
    let tries = words(|n| format!("!(p5:{}={})x ", n / 2, n / 2));
    let history = mini::parse(&format!("{sends} 1/p5:{} {tries}", all.join(",")));
    let (back, on) = ((size() as u64).div_ceil(2), (size() as u64 - 1) / 2);
    check_finds(&history, &[("abort-advance", on), ("abort-rewind", back)]);
}

/// A search that calls itself would run out of stack: a million at once, and of two neighbours in the log the later one
/// ended first, so that whoever begins with the first end is led to the last.
#[test]
fn a_chain_of_a_million() {
    let len = 1_000_000;
    let mut history = History::new();
    for kind in [Kind::Invoke, Kind::Ok] {
        (0..len).for_each(|n| row(&mut history, 1 + n as u32, kind, &[(5, n, Some(len - n))], None));
    }
    txn(&mut history, 0, &[], Some(&[(5, (0..len).rev().map(|n| (len - n, n)).collect())]));
    check_finds(&history, &[]);
}
