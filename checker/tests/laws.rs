//! What holds of every history.

#[allow(dead_code)]
mod common;
#[path = "common/stops.rs"]
mod stops;

use common::{cases, histories, map, rename};
use proptest::prelude::*;
use riprap_checker::{Examples, Options, Valid, Verdict, check, mini};
use riprap_core::History;
use riprap_core::op::{Extra, F, Key, Kind, Mop, Offset, Op, OpValue, Process, Reads, Value};
use std::collections::BTreeMap;
use stops::stops;

fn judge(history: &History) -> Verdict {
    check(history, &Options { vacuity: false, examples: Examples::None, ..Options::default() })
}

fn counts(verdict: &Verdict) -> BTreeMap<String, u64> {
    verdict.anomalies.iter().map(|(name, found)| (name.clone(), found.count)).collect()
}

/// A step of a simple log's life: who, which key, what.
type Step = (u32, i64, u8);

/// Runs the steps one after the other on a log that works, and reads everything at the end. Transactions that are
/// aborted and markers leave gaps; undecided ones are committed, or not.
fn serial(steps: &[Step]) -> History {
    let mut history = History::new();
    let mut logs: BTreeMap<i64, Vec<Option<i64>>> = BTreeMap::new();
    let mut next_value = 0;
    let mut positions: BTreeMap<(u32, i64), usize> = BTreeMap::new();
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    let mut step = |(thread, key, what): Step, assign: bool| {
        let number = *numbers.entry(thread).or_insert(thread);
        let mut mops = Vec::new();
        let (send, poll, kind) = match what % 8 {
            0 | 1 => (true, false, Kind::Ok),
            2 | 3 => (false, true, Kind::Ok),
            4 => (true, true, Kind::Ok),
            5 => (true, false, Kind::Info),
            6 => (true, false, Kind::Fail),
            _ => (true, false, Kind::Invoke),
        };
        let (send, poll) = if assign { (false, false) } else { (send, poll) };
        let committed = kind == Kind::Ok || kind != Kind::Fail && what >= 128;
        if poll {
            let log = logs.entry(key).or_default();
            let from = positions.insert((number, key), log.len()).unwrap_or(0);
            let records = log.iter().enumerate().skip(from);
            let records =
                records.filter_map(|(at, value)| value.map(|value| (Offset(at as i64), Value(value))));
            mops.push(Mop::Poll(Some(Reads::from([(Key(key), records.collect())]))));
        }
        if send {
            for _ in 0..1 + what % 3 {
                let log = logs.entry(key).or_default();
                let offset = (kind == Kind::Ok).then_some(Offset(log.len() as i64));
                mops.push(Mop::Send { key: Key(key), value: Value(next_value), offset });
                log.push(committed.then_some(next_value));
                next_value += 1;
            }
            logs.entry(key).or_default().push(None);
        }
        let (f, value) = match (assign, send, poll) {
            (true, ..) => (F::Assign, OpValue::Keys(vec![Key(key)])),
            (_, true, true) => (F::Txn, OpValue::Mops(mops)),
            (_, true, false) => (F::Send, OpValue::Mops(mops)),
            _ => (F::Poll, OpValue::Mops(mops)),
        };
        let kind = if assign { Kind::Ok } else { kind };
        let mut push = |kind, value| {
            let row = history.len();
            let process = Process::Client(number);
            let extra = Extra { from_beginning: assign, ..Extra::default() };
            history.push(Op {
                index: row as u64,
                time_ns: row as i64,
                process,
                kind,
                f: f.clone(),
                value,
                extra,
            });
        };
        push(Kind::Invoke, mini::as_invoked(&value));
        if kind != Kind::Invoke {
            push(kind, value);
        }
        if matches!(kind, Kind::Info | Kind::Invoke) {
            numbers.insert(thread, number + 3);
        }
    };
    steps.iter().for_each(|s| step(*s, false));
    for key in 5..7 {
        step((1000, key, 0), true);
        step((1000, key, 2), false);
    }
    history
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn a_serial_execution_is_clean(steps in proptest::collection::vec((0u32..3, 5i64..7, any::<u8>()), 0..40)) {
        let history = serial(&steps);
        // Also by what no read got: each read to the end of what there was.
        let verdict = check(&history, &Options { rw: true, vacuity: false, examples: Examples::None, ..Options::default() });
        prop_assert_eq!(verdict.valid, Valid::True, "{}: {:?}", mini::print(&history), verdict.why);
        prop_assert_eq!(counts(&verdict), BTreeMap::new());
    }

    #[test]
    fn names_do_not_matter(history in histories(8), by in 1i64..1_000_000_000) {
        let renamed = map(&history, |mut op| {
            if let Process::Client(n) = op.process {
                op.process = Process::Client(1_000_000 - n);
            }
            rename(op, |key| Key(-key.0 * by), |offset| offset, |value| value)
        });
        prop_assert_eq!(counts(&judge(&renamed)), counts(&judge(&history)));
        prop_assert_eq!(judge(&renamed).valid, judge(&history).valid);
    }

    #[test]
    fn how_large_offsets_are_does_not_matter(history in histories(8), by in 1i64..1_000_000_000_000_000_000) {
        let spread = map(&history, |op| {
            rename(op, |key| key, |offset| Offset(offset.0 * by + (i64::MAX >> 2)), |value| value)
        });
        prop_assert_eq!(counts(&judge(&spread)), counts(&judge(&history)));
    }

    #[test]
    fn doubt_is_no_fault(history in histories(8), which in any::<prop::sample::Index>()) {
        let sends: Vec<usize> =
            history.ops().filter(|op| *op.f() == F::Send && op.kind() == Kind::Ok).map(|op| op.row()).collect();
        prop_assume!(!sends.is_empty());
        let doubted = history.op(sends[which.index(sends.len())]);
        // The client does not learn what happened, and its thread goes on under another number.
        let changed: History = history.ops().map(|op| {
            let mut changed = op.to_op();
            if op.row() == doubted.row() {
                changed.kind = Kind::Info;
                changed.value = mini::as_invoked(&changed.value);
            } else if op.process() == doubted.process() && op.row() > doubted.row() {
                changed.process = Process::Client(1_000_000);
            }
            changed
        }).collect();
        if judge(&history).valid == Valid::True {
            let verdict = judge(&changed);
            prop_assert_eq!(verdict.valid, Valid::True, "{}: {:?}", mini::print(&changed), verdict.why);
        }
    }

    #[test]
    fn every_example_proves_itself(history in histories(8), ww in any::<bool>(), rw in any::<bool>()) {
        common::check_proofs(&history, &Options { ww, rw, vacuity: false, ..Options::default() });
    }

    #[test]
    fn every_example_of_a_log_that_agrees_with_itself_does(history in stops(8), ww in any::<bool>()) {
        common::check_proofs(&history, &Options { ww, rw: true, vacuity: false, ..Options::default() });
    }

    #[test]
    fn rw_edges_add_hints_and_nothing_else(history in prop_oneof![histories(8), stops(8)]) {
        let verdict = check(&history, &Options { rw: true, vacuity: false, examples: Examples::None, ..Options::default() });
        let mut found = counts(&verdict);
        found.retain(|name, _| name != "G-single" && name != "G2");
        prop_assert_eq!(found, counts(&judge(&history)));
        prop_assert_eq!((verdict.valid, &verdict.why), (judge(&history).valid, &judge(&history).why));
    }

    #[test]
    fn every_example_of_what_consumers_do_proves_itself(history in common::histories_of_consumers(14)) {
        let progress_limit_ns = 5;
        common::check_proofs(&history, &Options { vacuity: false, progress_limit_ns, ..Options::default() });
    }
}

/// Process 3 read key 5 up to value 2, right before value 3, from which no way leads back. If its proof kept of that
/// read only value 1, which it read from process 1, it would seem to have stopped right before value 4, from which one
/// does: a plainer cycle than there is.
#[test]
fn a_read_is_not_cut_to_what_makes_a_plainer_cycle() {
    let history = mini::parse(
        "s5=2@1 s5=3@2 s6=1@0 s7=1@0 <1/(s5=1 p) <2/(s5=4 s7=2) <3/p <4/(s6=2 s8=1) >4/(s6=2@1 s8=1@0) \
         5/p7:0=1;8:0=1 >2/(s5=4@3 s7=2@1) >1/(s5=1@0 p5:3=4) >3/p5:0=1,1=2;6:0=1",
    );
    let options = Options { rw: true, ww: false, vacuity: false, ..Options::default() };
    assert!(check(&history, &options).anomalies.contains_key("G2"));
    common::check_proofs(&history, &options);
}
