//! Random small histories.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;
use riprap_checker::mini::{self, as_invoked};
use riprap_checker::{Examples, Options, check};
use riprap_core::History;
use riprap_core::history::{OpRef, read_jsonl};
use riprap_core::op::{Extra, F, Key, Kind, Mop, Offset, Op, OpValue, Process, Reads, Rebalance, Txn, Value};
use riprap_core::phase;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

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
    /// Of a transaction, how it ended, if that fits; of a failed one also whether an abort was asked for.
    outcome: Option<&'static str>,
    abort: bool,
    offsets: Vec<(Key, Offset)>,
    /// What a `committed`, a `debug` or a mark tells.
    told: Json,
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

/// What a consumer of a log that works would be given, mostly: records in a row.
fn run_of_records() -> impl Strategy<Value = Mop> {
    (0i64..5, 0i64..3).prop_map(|(from, len)| {
        let records = (from..from + len).map(|n| (Offset(n), Value(n)));
        Mop::Poll(Some(Reads::from([(Key(5), records.collect())])))
    })
}

/// Any op, or with `consumers` mostly those of which positions and groups are made.
fn draft(consumers: bool) -> impl Strategy<Value = Draft> {
    let mark = F::Other(phase::PHASE.into());
    let f = if consumers {
        Union::new_weighted(vec![
            (1, Just(F::Send)),
            (8, Just(F::Poll)),
            (6, Just(F::Txn)),
            (1, Just(F::Assign)),
            (4, Just(F::Subscribe)),
            (2, Just(F::Committed)),
            (2, Just(F::Debug)),
            (2, Just(mark)),
        ])
    } else {
        Union::new_weighted(vec![
            (4, Just(F::Send)),
            (4, Just(F::Poll)),
            (4, Just(F::Txn)),
            (1, Just(F::Assign)),
            (1, Just(F::Subscribe)),
            (1, Just(F::Crash)),
            (1, Just(F::Committed)),
            (1, Just(F::Debug)),
            (1, Just(mark)),
        ])
    };
    let (ok, info, fail) = if consumers { (16, 1, 6) } else { (8, 2, 2) };
    let kind = prop_oneof![
        ok => Just(Kind::Ok), info => Just(Kind::Info), fail => Just(Kind::Fail), 1 => Just(Kind::Invoke)
    ];
    let poll = if consumers { run_of_records().boxed() } else { poll().boxed() };
    let sends = if consumers { 0.2 } else { 0.5 };
    let mops = vec((send(), poll, proptest::bool::weighted(sends)), 1..4);
    let keys = proptest::sample::subsequence(vec![Key(5), Key(6)], 0..=2);
    let rebalanced = prop_oneof![6 => Just(Vec::new()), 1 => key().prop_map(|key| vec![key])];
    let offset = (key(), (0i64..6).prop_map(Offset));
    let offsets = prop_oneof![3 => Just(Vec::new()), 2 => offset.prop_map(|offset| vec![offset])];
    let outcome =
        prop_oneof![2 => Just(None), 1 => Just(Some(Txn::ABORTED)), 1 => Just(Some(Txn::COMMITTED))];
    let mark = prop_oneof![
        4 => Just(phase::DRAIN), 1 => Just(phase::HEAL), 1 => Just(phase::UNRECOVERED), 1 => Just(phase::UNDRAINED),
        3 => Just(phase::GROUP)
    ];
    let flags = (any::<bool>(), any::<bool>());
    let draft = (0..if consumers { 2 } else { 3u32 }, kind, f, mops, keys, rebalanced, flags, 0usize..4);
    (draft, offsets, outcome, mark, key(), proptest::option::weighted(0.8, 0i64..6), 0i64..6).prop_map(
        |(
            (process, kind, f, mops, keys, rebalanced, (from_beginning, abort), lasts),
            offsets,
            outcome,
            mark,
            key,
            at,
            end,
        )| {
            let mops = mops.into_iter().map(|(send, poll, sends)| match f {
                F::Send => send,
                F::Poll => poll,
                _ if sends => send,
                _ => poll,
            });
            let told = match f {
                F::Committed => json!({key.to_string(): at}),
                F::Debug => json!({key.to_string(): {"position": at, "end": end}}),
                _ => mark.into(),
            };
            let outcome = outcome.filter(|outcome| {
                f == F::Txn
                    && match kind {
                        Kind::Ok => *outcome == Txn::COMMITTED,
                        Kind::Fail => *outcome == Txn::ABORTED,
                        _ => true,
                    }
            });
            let abort = abort && kind == Kind::Fail && f == F::Txn;
            let offsets = if matches!(f, F::Poll | F::Txn) { offsets } else { Vec::new() };
            let mops = mops.collect();
            Draft {
                process,
                kind,
                mops,
                f,
                keys,
                rebalanced,
                from_beginning,
                outcome,
                abort,
                offsets,
                told,
                lasts,
            }
        },
    )
}

/// Histories of up to `max_ops` ops, two rows each, well formed: every value is sent at most once, a process that got
/// an info or never an answer is followed by another.
pub(crate) fn histories(max_ops: usize) -> impl Strategy<Value = History> {
    vec(draft(false), 0..=max_ops).prop_map(|drafts| assemble(&drafts))
}

/// As [`histories`], but of what consumers do: they subscribe, read, commit, abort and ask.
pub(crate) fn histories_of_consumers(max_ops: usize) -> impl Strategy<Value = History> {
    vec(draft(true), 0..=max_ops).prop_map(|drafts| assemble(&drafts))
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
        let is_mark = draft.f.name() == phase::PHASE;
        let value = match draft.f {
            _ if draft.f.has_mops() => OpValue::Mops(mops),
            _ if draft.f.has_keys() => OpValue::Keys(draft.keys.clone()),
            F::Committed | F::Debug => OpValue::Json(draft.told.clone()),
            _ if is_mark => OpValue::Json(draft.told.clone()),
            _ => OpValue::None,
        };
        if is_mark {
            let op = |kind, value| Op {
                index: 0,
                time_ns: 0,
                process: Process::Nemesis,
                kind,
                f: draft.f.clone(),
                value,
                extra: Extra::default(),
            };
            rows.push((begin, op(Kind::Invoke, value)));
            rows.push((begin, op(Kind::Info, OpValue::None)));
            continue;
        }
        let kind = if draft.f == F::Crash { Kind::Info } else { draft.kind };
        let rebalance =
            draft.rebalanced.iter().map(|key| Rebalance { kind: "assigned".into(), keys: vec![*key] });
        let from_beginning = draft.f == F::Assign && draft.from_beginning;
        let extra = Extra {
            rebalance: rebalance.collect(),
            txn: draft.outcome.map(|outcome| Txn { id: "a".into(), outcome: outcome.into() }),
            abort: draft.abort,
            offsets: draft.offsets.clone(),
            ..Extra::default()
        };
        let op = |kind, value, extra| Op {
            index: 0,
            time_ns: 0,
            process: Process::Client(number),
            kind,
            f: draft.f.clone(),
            value,
            extra: Extra { from_beginning, ..extra },
        };
        rows.push((begin, op(Kind::Invoke, as_invoked(&value), Extra::default())));
        if kind != Kind::Invoke {
            rows.push((end, op(kind, value, extra)));
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
        OpValue::Json(Json::Object(told)) => {
            let renamed = std::mem::take(told).into_iter().map(|(k, mut told)| {
                let k = key(Key(k.parse().expect("a key"))).to_string();
                if let Some(at) = told.as_i64() {
                    told = offset(Offset(at)).0.into();
                }
                (k, told)
            });
            *told = renamed.collect();
        }
        _ => {}
    }
    for (k, o) in &mut op.extra.offsets {
        (*k, *o) = (key(*k), offset(*o));
    }
    for entry in &mut op.extra.rebalance {
        entry.keys.iter_mut().for_each(|k| *k = key(*k));
    }
    op
}

/// Every example carries a history in which the same anomaly is seen, and no op of which can be left out.
#[track_caller]
pub(crate) fn check_proofs(history: &History, options: &Options) {
    let verdict = check(history, options);
    let options = Options { vacuity: false, ..options.clone() };
    let kinds = |ops: &[Op]| -> BTreeSet<String> {
        let options = Options { examples: Examples::None, ..options.clone() };
        check(&ops.iter().cloned().collect(), &options).anomalies.into_keys().collect()
    };
    // Where the log contradicts itself, leaving values out can make a cycle plainer than it was.
    let torn = ["duplicate", "inconsistent-offsets", "misrouted", "phantom-read"];
    let is_torn = torn.iter().any(|name| verdict.anomalies.contains_key(*name));
    for (name, anomaly) in &verdict.anomalies {
        assert!(!anomaly.examples.is_empty(), "{name} has an example");
        for example in &anomaly.examples {
            let (story, whole) = (&example.story, mini::print(history));
            if example.history.is_empty() {
                assert!(is_torn && name.starts_with('G'), "{name}: {story}\nhas no history of {whole}");
                continue;
            }
            let lines: String = example.history.iter().map(|line| format!("{line}\n")).collect();
            let (proof, dropped) = read_jsonl(lines.as_bytes()).expect("a proof is a history");
            assert_eq!(dropped, None);
            let ops: Vec<Op> = proof.ops().map(|op| op.to_op()).collect();
            let found = kinds(&ops);
            assert!(
                found.contains(name),
                "{name}: {story}\nis not seen in {}\nof {whole}",
                mini::print(&proof)
            );
            for begin in proof.ops().filter(|op| op.partner().is_none_or(|partner| partner.row() > op.row()))
            {
                let end = begin.partner().map(|end| end.row());
                let rest = ops.iter().enumerate().filter(|(row, _)| *row != begin.row() && Some(*row) != end);
                let rest: Vec<Op> = rest.map(|(_, op)| op.clone()).collect();
                let less = kinds(&rest);
                assert!(
                    !(less.contains(name) && less.is_subset(&found)),
                    "{name}: {story}\nis seen without op {} in {}\nof {whole}",
                    begin.index(),
                    mini::print(&proof),
                );
            }
            let named = |op: OpRef<'_>| example.ops.contains(&op.index());
            let all = proof.ops().all(|op| named(op) || op.partner().is_some_and(named));
            assert!(
                all,
                "{name}: {story}\ntells of {:?}, and its history is {}",
                example.ops,
                mini::print(&proof)
            );
        }
    }
}
