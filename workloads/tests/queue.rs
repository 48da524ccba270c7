//! The queue workload against a log in memory: what a correct log does is judged valid, what a wrong one does is found.

mod common;

use common::memory::Fault;
use riprap_checker::{Valid, Verdict};
use riprap_core::client::{Isolation, SubscribeVia};
use riprap_core::history::{MopRef, OpRef};
use riprap_core::op::{Key, Kind, Offset, Process, Txn};
use riprap_core::plan::TestConfig;
use riprap_core::{F, History};
use std::collections::BTreeMap;

/// So long an op takes.
const OP_NS: u64 = 1_000_000;

fn config(seed: u64, via: &[SubscribeVia]) -> TestConfig {
    common::config("queue", seed, via)
}

fn txns(seed: u64, via: &[SubscribeVia]) -> TestConfig {
    TestConfig { txn: true, ..config(seed, via) }
}

fn run(seed: u64, ops: u64, fault: Fault) -> (History, Verdict) {
    run_as(config(seed, &[SubscribeVia::Assign]), ops, fault)
}

fn run_as(config: TestConfig, ops: u64, fault: Fault) -> (History, Verdict) {
    common::run(config, ops, OP_NS, fault)
}

#[track_caller]
fn check_finds(config: impl Fn(u64) -> TestConfig, fault: Fault, expected: &[&str]) {
    common::check_finds(|seed| run_as(config(seed), 2000, fault), expected);
}

#[test]
fn a_correct_log_is_valid() {
    for seed in 0..20 {
        let (history, verdict) = run(seed, 1000, Fault::None);
        assert_eq!(verdict.valid, Valid::True, "seed {seed}: {:?}", verdict.why);
        let count = |f: &F| history.ops().filter(|op| op.f() == f).count();
        // Of everything there is something: keys rotate, clients crash, keys are taken anew.
        assert!([F::Send, F::Poll, F::Assign, F::Crash].iter().all(|f| count(f) > 0), "seed {seed}");
        assert!(verdict.stats.keys > 4, "seed {seed}: {} keys", verdict.stats.keys);
    }
}

#[test]
fn a_wrong_log_is_found() {
    for config in [|seed| config(seed, &[SubscribeVia::Assign]), |seed| txns(seed, &[SubscribeVia::Assign])] {
        check_finds(config, Fault::Loses, &["lost-write", "unseen"]);
        check_finds(config, Fault::Doubles, &["duplicate"]);
        check_finds(config, Fault::Skips, &["poll-skip", "int-poll-skip"]);
    }
}

/// What the group is known to have committed of each key when it was asked for the last time, and what it was told then.
fn commits(history: &History) -> (BTreeMap<Key, Offset>, BTreeMap<Key, Offset>) {
    let (mut so_far, mut committed, mut told) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for op in history.ops() {
        let offsets = op.extra().map_or(&[] as &[_], |extra| &extra.offsets);
        so_far.extend(offsets.iter().copied());
        if *op.f() == F::Committed && op.kind() == Kind::Ok {
            committed.clone_from(&so_far);
            let offsets = op.json().and_then(|json| json.as_object()).expect("offsets by key");
            told.extend(offsets.iter().filter_map(|(key, offset)| {
                Some((Key(key.parse().expect("a key")), Offset(offset.as_i64()?)))
            }));
        }
    }
    (committed, told)
}

#[test]
fn a_group_that_commits_is_asked_what_it_has() {
    use SubscribeVia::{Assign, Subscribe};
    for seed in 0..10 {
        for via in [&[Subscribe][..], &[Assign, Subscribe]] {
            let (history, verdict) = run_as(config(seed, via), 1000, Fault::None);
            assert_eq!(verdict.valid, Valid::True, "seed {seed}, {via:?}: {:?}", verdict.why);
            let asked = history.ops().filter(|op| *op.f() == F::Committed && op.kind() == Kind::Invoke);
            let asked = asked.count();
            assert!(asked > 10, "seed {seed}, {via:?}: asked {asked} times");
            // The last questions are those of the end, behind every commit but those of the members that go on after it.
            let (committed, told) = commits(&history);
            assert!(!committed.is_empty(), "seed {seed}, {via:?}");
            assert_eq!(committed, told, "seed {seed}, {via:?}");
        }
    }
}

#[test]
fn a_commit_that_is_forgotten_shows() {
    for seed in 0..5 {
        let (history, verdict) = run_as(config(seed, &[SubscribeVia::Subscribe]), 2000, Fault::Forgets);
        let found: Vec<&str> = verdict.forbidden().map(|(name, _)| name).collect();
        assert_eq!(verdict.valid, Valid::False, "seed {seed}: {:?}", commits(&history));
        assert!(
            found.iter().any(|name| ["committed-offset-regression", "redelivery"].contains(name)),
            "seed {seed}: {found:?}"
        );
    }
}

#[test]
fn a_log_that_refuses_everything_says_nothing() {
    let (_, verdict) = run(0, 500, Fault::Refuses);
    assert_eq!(verdict.valid, Valid::Unknown, "{:?}", verdict.why);
}

#[test]
fn the_same_seed_is_the_same_history() {
    let ops = |seed| run(seed, 500, Fault::None).0.ops().map(|op| op.to_op()).collect::<Vec<_>>();
    assert_eq!(ops(7), ops(7));
    assert_ne!(ops(7), ops(8));
}

#[test]
fn correct_transactions_are_valid() {
    use SubscribeVia::{Assign, Subscribe};
    for seed in 0..2 {
        for via in [&[Assign][..], &[Subscribe], &[Assign, Subscribe]] {
            for isolation in [Isolation::ReadCommitted, Isolation::ReadUncommitted] {
                for fault in [Fault::None, Fault::Doubts] {
                    let config = TestConfig { isolation, ..txns(seed, via) };
                    let (history, verdict) = run_as(config, 1000, fault);
                    assert_eq!(verdict.valid, Valid::True, "seed {seed}, {via:?}: {:?}", verdict.why);
                    let ended = |outcome: &str, kind| {
                        history.ops().filter(|op| op.outcome() == Some(outcome) && op.kind() == kind).count()
                    };
                    let (committed, aborted) =
                        (ended(Txn::COMMITTED, Kind::Ok), ended(Txn::ABORTED, Kind::Fail));
                    assert!(committed > 4 * aborted && aborted > 50, "{committed} and {aborted}");
                    let in_doubt = ended(Txn::UNKNOWN, Kind::Info);
                    assert_eq!(in_doubt > 0, fault == Fault::Doubts, "seed {seed}: {in_doubt} in doubt");
                }
            }
        }
    }
}

#[test]
fn wrong_transactions_are_found() {
    let assigned = |seed| txns(seed, &[SubscribeVia::Assign]);
    check_finds(assigned, Fault::Tears, &["torn-txn"]);
    check_finds(assigned, Fault::Shows, &["G1a"]);
    check_finds(assigned, Fault::Shows, &["precommitted-read"]);
    check_finds(assigned, Fault::Commits, &["G1a"]);
    let subscribed = |seed| txns(seed, &[SubscribeVia::Subscribe]);
    check_finds(subscribed, Fault::Forgets, &["committed-offset-regression", "redelivery"]);
    check_finds(subscribed, Fault::Commits, &["G1a"]);
}

#[test]
fn transactions_mix_sends_and_polls_and_end_as_they_were_asked_to() {
    let (history, _) = run_as(txns(3, &[SubscribeVia::Assign]), 1000, Fault::None);
    let asked: Vec<_> = history.ops().filter(|op| *op.f() == F::Txn && op.kind() == Kind::Invoke).collect();
    let is_mixed = |op: &&OpRef<'_>| {
        op.mops().any(|mop| matches!(mop, MopRef::Send { .. }))
            && op.mops().any(|mop| matches!(mop, MopRef::Asked))
    };
    let mixed = asked.iter().filter(is_mixed).count();
    assert!(3 * mixed > asked.len(), "{mixed} of {}", asked.len());
    assert!(asked.iter().all(|op| (1..=4).contains(&op.mops().len())));
    for op in &asked {
        let abort = |op: OpRef<'_>| op.extra().is_some_and(|extra| extra.abort);
        let done = op.partner().expect("each ends");
        let (kind, outcome) =
            if abort(*op) { (Kind::Fail, Txn::ABORTED) } else { (Kind::Ok, Txn::COMMITTED) };
        assert_eq!((done.kind(), done.outcome(), abort(done)), (kind, Some(outcome), abort(*op)));
        // What was polled is told, whatever came of it.
        assert!(done.mops().all(|mop| !matches!(mop, MopRef::Asked)), "{:?}", done.to_op());
        let ids = done.extra().and_then(|extra| extra.txn.as_ref()).map(|txn| txn.id.as_str());
        assert!(ids.is_some_and(|id| id.starts_with("riprap-")), "{ids:?}");
    }
    // Outside of the main phase single records are sent, in transactions as well.
    let sends: Vec<_> = history.ops().filter(|op| *op.f() == F::Send && op.kind() == Kind::Ok).collect();
    assert!(!sends.is_empty() && sends.iter().all(|op| op.outcome() == Some(Txn::COMMITTED)));
}

/// Every second process of a thread takes over the transactional id of the one before it.
#[test]
fn transactional_ids_are_taken_over_by_every_second_process() {
    let (history, _) = run_as(txns(0, &[SubscribeVia::Assign]), 3000, Fault::Doubts);
    let concurrency = config(0, &[]).concurrency;
    let mut last_turn = 0;
    for op in history.ops() {
        let (Process::Client(process), Some(txn)) =
            (op.process(), op.extra().and_then(|extra| extra.txn.as_ref()))
        else {
            continue;
        };
        let (thread, turn) = (process % concurrency, process / concurrency);
        last_turn = turn.max(last_turn);
        assert_eq!(txn.id, format!("riprap-{thread}-{}", turn / 2));
    }
    assert!(last_turn > 2, "{last_turn}");
}
