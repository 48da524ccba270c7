//! The abort workload against a log in memory: where consumers go on after aborts is told, and what is forbidden is found.

mod common;

use common::memory::Fault;
use riprap_checker::{Aborts, Valid, Verdict};
use riprap_core::History;
use riprap_core::client::SubscribeVia::{self, Assign, Subscribe};
use riprap_core::history::MopRef;
use riprap_core::op::{F, Key, Kind, Process};
use riprap_core::plan::TestConfig;
use std::collections::{BTreeMap, BTreeSet};

/// So long an op takes: a group has time to share out its keys anew.
const OP_NS: u64 = 100_000_000;
const OPS: u64 = 1000;

fn config(seed: u64, via: &[SubscribeVia]) -> TestConfig {
    TestConfig { drain_limit_ms: 60_000, ..common::config("abort", seed, via) }
}

fn run(seed: u64, via: &[SubscribeVia], fault: Fault) -> (History, Verdict) {
    common::run(config(seed, via), OPS, OP_NS, fault)
}

fn aborts(verdict: &Verdict) -> Aborts {
    serde_json::from_value(verdict.parts["aborts"].clone()).expect("the workload's own form")
}

#[test]
fn a_correct_log_is_valid_and_where_its_consumers_went_on_is_counted() {
    for via in [&[Assign][..], &[Subscribe], &[Assign, Subscribe]] {
        let mut went_back = 0;
        for seed in 0..4 {
            let (history, verdict) = run(seed, via, Fault::None);
            assert_eq!(verdict.valid, Valid::True, "seed {seed}, {via:?}: {:?}", verdict.why);
            let Aborts { transactions, assigned, kept, rebalanced } = aborts(&verdict);
            assert!(transactions > 50, "seed {seed}, {via:?}: {transactions}");
            // This log moves a consumer by a rebalance only.
            assert_eq!(
                (assigned.total(), kept.total()),
                (assigned.advance, kept.advance),
                "seed {seed}, {via:?}"
            );
            assert_eq!(assigned.advance > 0, via.contains(&Assign), "seed {seed}, {via:?}");
            assert_eq!(kept.advance > 0, via.contains(&Subscribe), "seed {seed}, {via:?}");
            went_back += rebalanced.rewind + rebalanced.rewind_further;
            let count = |f: &F| history.ops().filter(|op| op.f() == f).count();
            assert!(count(&F::Crash) > 0, "seed {seed}, {via:?}");
            assert_eq!(count(&F::Committed) > 0, via.contains(&Subscribe), "seed {seed}, {via:?}");
        }
        assert_eq!(went_back > 0, via.contains(&Subscribe), "{via:?}: {went_back}");
    }
}

/// Of each process, those that read something: one is committed, two are aborted, one is committed.
#[test]
fn transactions_are_aborted_in_turn() {
    for via in [&[Assign][..], &[Subscribe], &[Assign, Subscribe]] {
        let history = common::main_phase(config(0, via), OPS, OP_NS, Fault::None).history;
        let mut of_process: BTreeMap<Process, Vec<bool>> = BTreeMap::new();
        for op in history.ops().filter(|op| *op.f() == F::Txn && op.kind() != Kind::Invoke) {
            let abort = op.extra().is_some_and(|extra| extra.abort);
            assert_eq!(op.kind(), if abort { Kind::Fail } else { Kind::Ok });
            let has_read =
                op.mops().any(|mop| matches!(mop, MopRef::Polled(reads) if reads.groups().count() > 0));
            if has_read {
                of_process.entry(op.process()).or_default().push(abort);
            }
        }
        assert!(of_process.values().any(|turns| turns.len() > 10));
        for (process, turns) in of_process {
            let expected = [false, true, true, false].into_iter().cycle().take(turns.len());
            assert!(turns.iter().copied().eq(expected), "process {process}: {turns:?}");
        }
    }
}

/// What is made of what was read goes to topics that nobody subscribes to, and what feeds is never aborted.
#[test]
fn inputs_and_outputs_are_apart() {
    let (history, _) = run(1, &[Assign, Subscribe], Fault::None);
    let (mut fed, mut made, mut subscribed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for op in history.ops().filter(|op| op.kind() == Kind::Invoke) {
        if *op.f() == F::Subscribe {
            subscribed.extend(op.keys().iter().copied());
        }
        if *op.f() != F::Txn {
            continue;
        }
        let polls = op.mops().filter(|mop| matches!(mop, MopRef::Asked)).count();
        let sent: Vec<Key> = op
            .mops()
            .filter_map(|mop| match mop {
                MopRef::Send { key, .. } => Some(key),
                _ => None,
            })
            .collect();
        if polls == 0 {
            assert!(!op.extra().is_some_and(|extra| extra.abort) && (1..=6).contains(&sent.len()));
            fed.extend(sent);
        } else {
            assert_eq!((polls, sent.len()), (1, 1));
            made.extend(sent);
        }
    }
    assert_eq!(fed, (0..4).map(Key).collect());
    assert_eq!(made, (4..8).map(Key).collect());
    assert_eq!(subscribed, fed);
}

#[test]
fn a_client_that_goes_back_by_itself_is_told() {
    for seed in 0..3 {
        let (_, verdict) = run(seed, &[Assign, Subscribe], Fault::Rewinds);
        assert_eq!(verdict.valid, Valid::True, "seed {seed}: {:?}", verdict.why);
        let Aborts { assigned, kept, .. } = aborts(&verdict);
        for positions in [assigned, kept] {
            assert!(positions.rewind > 0, "seed {seed}: {positions:?}");
            assert_eq!((positions.advance, positions.other), (0, 0), "seed {seed}");
        }
    }
}

#[test]
fn what_is_forbidden_is_found() {
    let check = |via: &[SubscribeVia], fault: Fault, expected: &[&str]| {
        common::check_finds(|seed| run(seed, via, fault), expected);
    };
    check(&[Assign], Fault::Strays, &["abort-other"]);
    check(&[Subscribe], Fault::Strays, &["abort-other-held"]);
    check(&[Assign], Fault::Commits, &["G1a"]);
    check(&[Subscribe], Fault::Commits, &["G1a"]);
    check(&[Assign], Fault::Shows, &["G1a"]);
    check(&[Assign, Subscribe], Fault::Tears, &["torn-txn"]);
    check(&[Subscribe], Fault::Forgets, &["committed-offset-regression", "redelivery"]);
    check(&[Assign], Fault::Skips, &["poll-skip", "int-poll-skip"]);
}

/// However little a run did, one consumer of each kind goes on after an abort before the final reads; where nothing was
/// written, nothing is shown.
#[test]
fn a_short_run_shows_something_too() {
    for via in [&[Assign][..], &[Subscribe], &[Assign, Subscribe]] {
        for ops in [16, 24, 48] {
            let (history, verdict) = common::run(config(1, via), ops, OP_NS, Fault::None);
            assert_eq!(verdict.valid, Valid::True, "{via:?}, {ops} ops: {:?}", verdict.why);
            let Aborts { assigned, kept, .. } = aborts(&verdict);
            let seen = (assigned.advance > 0, kept.advance > 0);
            assert_eq!(seen, (via.contains(&Assign), via.contains(&Subscribe)), "{via:?}, {ops} ops");
            // Of what is written then, nothing was written before.
            let mut sent = BTreeSet::new();
            let invoked = history.ops().filter(|op| op.kind() == Kind::Invoke);
            for mop in invoked.flat_map(|op| op.mops()) {
                if let MopRef::Send { key, value, .. } = mop {
                    assert!(sent.insert((key, value)), "{via:?}: key {key} value {value} is sent twice");
                }
            }
        }
    }
    let (_, verdict) = common::run(config(1, &[Assign]), 0, OP_NS, Fault::None);
    let why = "aborts: no transaction was aborted after it had read something";
    assert_eq!((verdict.valid, verdict.why.contains(&why.to_owned())), (Valid::Unknown, true));
}
