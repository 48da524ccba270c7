//! Random small histories.

use proptest::collection::vec;
use proptest::prelude::*;
use riprap_checker::mini::{self, as_invoked};
use riprap_checker::{Options, check};
use riprap_core::History;
use riprap_core::history::read_jsonl;
use riprap_core::op::{Extra, F, Key, Kind, Mop, Offset, Op, OpValue, Process, Reads, Rebalance, Value};
use std::collections::BTreeMap;

/// So many random cases; a failure is printed, and becomes a test of its own by hand.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// One op of a random history, before its sends get their values.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    process: u32,
    kind: Kind,
    f: F,
    mops: Vec<Mop>,
    keys: Vec<Key>,
    rebalanced: Vec<Key>,
    from_beginning: bool,
    /// How many other rows come between its invocation and its completion, at most.
    lasts: usize,
}

fn key() -> impl Strategy<Value = Key> {
    (5i64..7).prop_map(Key)
}

fn record() -> impl Strategy<Value = (Offset, Value)> {
    let offset = prop_oneof![12 => (0i64..6).prop_map(Offset), 1 => Just(Offset::UNKNOWN)];
    let value = prop_oneof![20 => (0i64..5).prop_map(Value), 1 => Just(Value::NIL)];
    (offset, value)
}

/// Mostly what a log would say: the value at an offset is the offset's number.
fn likely_record() -> impl Strategy<Value = (Offset, Value)> {
    prop_oneof![3 => (0i64..5).prop_map(|n| (Offset(n), Value(n))), 1 => record()]
}

fn send() -> impl Strategy<Value = Mop> {
    (key(), proptest::option::weighted(0.8, 0i64..6)).prop_map(|(key, offset)| Mop::Send {
        key,
        value: Value(0),
        offset: offset.map(Offset),
    })
}

fn poll() -> impl Strategy<Value = Mop> {
    let reads = proptest::collection::btree_map(key(), vec(likely_record(), 0..4), 0..3);
    proptest::option::weighted(0.95, reads)
        .prop_map(|reads| Mop::Poll(reads.map(|reads| reads.into_iter().collect::<Reads>())))
}

fn draft() -> impl Strategy<Value = Draft> {
    let f = prop_oneof![
        4 => Just(F::Send), 4 => Just(F::Poll), 4 => Just(F::Txn),
        1 => Just(F::Assign), 1 => Just(F::Subscribe), 1 => Just(F::Crash)
    ];
    let kind = prop_oneof![
        8 => Just(Kind::Ok), 2 => Just(Kind::Info), 2 => Just(Kind::Fail), 1 => Just(Kind::Invoke)
    ];
    let mops = vec((send(), poll(), any::<bool>()), 1..4);
    let keys = proptest::sample::subsequence(vec![Key(5), Key(6)], 0..=2);
    let rebalanced = prop_oneof![6 => Just(Vec::new()), 1 => key().prop_map(|key| vec![key])];
    (0u32..3, kind, f, mops, keys, rebalanced, any::<bool>(), 0usize..4).prop_map(
        |(process, kind, f, mops, keys, rebalanced, from_beginning, lasts)| {
            let mops = mops.into_iter().map(|(send, poll, sends)| match f {
                F::Send => send,
                F::Poll => poll,
                _ if sends => send,
                _ => poll,
            });
            Draft { process, kind, mops: mops.collect(), f, keys, rebalanced, from_beginning, lasts }
        },
    )
}

/// Histories of up to `max_ops` ops, two rows each, well formed: every value is sent at most once, a process that got
/// an info or never an answer is followed by another.
pub(crate) fn histories(max_ops: usize) -> impl Strategy<Value = History> {
    vec(draft(), 0..=max_ops).prop_map(|drafts| assemble(&drafts))
}

fn assemble(drafts: &[Draft]) -> History {
    let mut next_value = BTreeMap::new();
    let mut rows: Vec<(usize, Op)> = Vec::new();
    // When a process' last op ends, and which number its thread goes by now.
    let mut threads: BTreeMap<u32, (usize, u32)> = BTreeMap::new();
    for (n, draft) in drafts.iter().enumerate() {
        let (free_at, number) = threads.get(&draft.process).copied().unwrap_or((0, draft.process));
        let begin = (n * 2).max(free_at);
        let end = begin + 1 + draft.lasts;
        let mut mops = draft.mops.clone();
        for mop in &mut mops {
            if let Mop::Send { key, value, .. } = mop {
                let next: &mut i64 = next_value.entry(*key).or_default();
                *value = Value(*next);
                *next += 1;
            }
        }
        let value = match () {
            _ if draft.f.has_mops() => OpValue::Mops(mops),
            _ if draft.f.has_keys() => OpValue::Keys(draft.keys.clone()),
            _ => OpValue::None,
        };
        let kind = if draft.f == F::Crash { Kind::Info } else { draft.kind };
        let rebalance =
            draft.rebalanced.iter().map(|key| Rebalance { kind: "assigned".into(), keys: vec![*key] });
        let from_beginning = draft.f == F::Assign && draft.from_beginning;
        let op = |kind, value, rebalance| Op {
            index: 0,
            time_ns: 0,
            process: Process::Client(number),
            kind,
            f: draft.f.clone(),
            value,
            extra: Extra { rebalance, from_beginning, ..Extra::default() },
        };
        rows.push((begin, op(Kind::Invoke, as_invoked(&value), Vec::new())));
        if kind != Kind::Invoke {
            rows.push((end, op(kind, value, rebalance.collect())));
        }
        let retired = matches!(kind, Kind::Info | Kind::Invoke);
        threads.insert(draft.process, (end + 1, if retired { number + 3 } else { number }));
    }
    rows.sort_by_key(|(at, _)| *at);
    let number = |(row, (_, op)): (usize, (usize, Op))| Op { index: row as u64, time_ns: row as i64, ..op };
    rows.into_iter().enumerate().map(number).collect()
}

/// The same history with every op changed.
pub(crate) fn map(history: &History, change: impl FnMut(Op) -> Op) -> History {
    history.ops().map(|op| op.to_op()).map(change).collect()
}

/// The same op with every key, offset and value changed.
pub(crate) fn rename(
    mut op: Op,
    key: impl Fn(Key) -> Key,
    offset: impl Fn(Offset) -> Offset,
    value: impl Fn(Value) -> Value,
) -> Op {
    let offset = |n: Offset| if n.0 < 0 { n } else { offset(n) };
    match &mut op.value {
        OpValue::Mops(mops) => {
            for mop in mops {
                match mop {
                    Mop::Send { key: k, value: v, offset: o } => {
                        (*k, *v, *o) = (key(*k), value(*v), o.map(&offset));
                    }
                    Mop::Poll(None) => {}
                    Mop::Poll(Some(reads)) => {
                        for (k, records) in reads {
                            *k = key(*k);
                            records.iter_mut().for_each(|(o, v)| (*o, *v) = (offset(*o), value(*v)));
                        }
                    }
                }
            }
        }
        OpValue::Keys(keys) => keys.iter_mut().for_each(|k| *k = key(*k)),
        _ => {}
    }
    for entry in &mut op.extra.rebalance {
        entry.keys.iter_mut().for_each(|k| *k = key(*k));
    }
    op
}

/// Every example carries a history in which the same anomaly is seen, and which names the ops of its story.
#[track_caller]
pub(crate) fn check_proofs(history: &History, options: &Options) {
    let verdict = check(history, options);
    let options = Options { vacuity: false, ..options.clone() };
    for (name, anomaly) in &verdict.anomalies {
        assert!(!anomaly.examples.is_empty(), "{name} has an example");
        for example in &anomaly.examples {
            let lines: String = example.history.iter().map(|line| format!("{line}\n")).collect();
            let (proof, dropped) = read_jsonl(lines.as_bytes()).expect("a proof is a history");
            assert_eq!(dropped, None);
            let again = check(&proof, &options);
            // Where the log contradicts itself, leaving values out can make a cycle plainer than it was.
            let torn = ["duplicate", "inconsistent-offsets", "phantom-read"];
            let plainer = ["G0", "G1c"].iter().any(|cycle| name.starts_with(cycle))
                && torn.iter().any(|name| verdict.anomalies.contains_key(*name))
                && again.anomalies.keys().any(|found| found.starts_with("G0") || found.starts_with("G1c"));
            assert!(
                plainer || again.anomalies.contains_key(name),
                "{name}: {}\nis not seen in {}\nof {}",
                example.story,
                mini::print(&proof),
                mini::print(history),
            );
            let indices: Vec<u64> = proof.ops().map(|op| op.index()).collect();
            assert!(example.ops.iter().all(|op| indices.contains(op)), "{:?} in {indices:?}", example.ops);
        }
    }
}
