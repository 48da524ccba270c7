//! The queue workload against a log in memory: what a correct log does is judged valid, what a wrong one does is found.
//!
//! Ops run in virtual time: each takes a millisecond, several are under way at once.

use riprap_checker::{Valid, Verdict, check};
use riprap_core::client::{
    Client, ClientConfig, Committed, Completion, Isolation, LocalFuture, Log, LogError, Polled, Progress,
    SubscribeVia,
};
use riprap_core::generator::{BoxedGenerator, Thread, limit};
use riprap_core::interpreter::{Interpreter, Next};
use riprap_core::op::{Key, Kind, Offset, Op, Process, Rebalance, Value};
use riprap_core::plan::TestConfig;
use riprap_core::{F, History};
use riprap_workloads::{Shared, Workload, find};
use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// What the log in memory does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Every 50th record is acknowledged and not kept.
    Loses,
    /// Every 50th record is kept twice.
    Doubles,
    /// Every 50th poll leaves out its first record.
    Skips,
    /// Nothing can be sent.
    Refuses,
    /// Every 50th commit of a group's offsets is acknowledged and not kept.
    Forgets,
}

#[derive(Default)]
struct Store {
    logs: BTreeMap<Key, Vec<(Offset, Value)>>,
    calls: u64,
    members: u64,
    /// Which member of the group each key was given to: the one that subscribed to it last.
    given: BTreeMap<Key, u64>,
    committed: BTreeMap<Key, Offset>,
}

struct MemLog {
    store: Arc<Mutex<Store>>,
    fault: Fault,
    held: BTreeMap<Key, usize>,
    /// Its number in the group, while it is in it, and what it has subscribed to.
    member: Option<u64>,
    wanted: Vec<Key>,
}

impl MemLog {
    fn rebalance(&mut self) -> Vec<Rebalance> {
        if self.member.is_none() {
            return Vec::new();
        }
        let store = self.store.lock().expect("no holder panics");
        let is_given = |key: &Key| store.given.get(key).copied() == self.member;
        let taken: Vec<Key> = self.held.keys().copied().filter(|key| !is_given(key)).collect();
        self.held.retain(|key, _| is_given(key));
        let fresh = self.wanted.iter().copied().filter(|key| is_given(key) && !self.held.contains_key(key));
        let fresh: Vec<Key> = fresh.collect();
        self.held.extend(fresh.iter().map(|key| {
            // Offsets are places: nothing is ever taken from a log.
            (*key, store.committed.get(key).map_or(0, |offset| offset.0 as usize))
        }));
        let events = [("revoked", taken), ("assigned", fresh)];
        let events = events.into_iter().filter(|(_, keys)| !keys.is_empty());
        events.map(|(kind, keys)| Rebalance { kind: kind.to_owned(), keys }).collect()
    }

    fn every_50th(&self, fault: Fault) -> bool {
        let mut store = self.store.lock().expect("no holder panics");
        store.calls += 1;
        self.fault == fault && store.calls.is_multiple_of(50)
    }
}

impl Log for MemLog {
    fn create<'a>(&'a mut self, _: &'a [Key]) -> LocalFuture<'a, Result<(), LogError>> {
        Box::pin(ready(Ok(())))
    }

    fn send(&mut self, key: Key, value: Value) -> LocalFuture<'_, Result<Option<Offset>, LogError>> {
        if self.fault == Fault::Refuses {
            let error = LogError { code: "REFUSED".to_owned(), definite: true, message: String::new() };
            return Box::pin(ready(Err(error)));
        }
        let copies = match (self.every_50th(Fault::Loses), self.every_50th(Fault::Doubles)) {
            (true, _) => 0,
            (_, true) => 2,
            _ => 1,
        };
        let mut store = self.store.lock().expect("no holder panics");
        let log = store.logs.entry(key).or_default();
        let next = Offset(log.last().map_or(0, |(offset, _)| offset.0 + 1));
        log.extend((0..copies).map(|copy| (Offset(next.0 + copy), value)));
        Box::pin(ready(Ok(if copies == 0 { None } else { Some(next) })))
    }

    fn poll(&mut self) -> LocalFuture<'_, Result<Polled, LogError>> {
        let skip = usize::from(self.every_50th(Fault::Skips));
        let rebalance = self.rebalance();
        let store = self.store.lock().expect("no holder panics");
        let mut reads = Vec::new();
        for (key, position) in &mut self.held {
            let log = store.logs.get(key).map_or(&[][..], Vec::as_slice);
            let fresh = &log[(*position + skip).min(log.len())..];
            *position = log.len();
            if !fresh.is_empty() {
                reads.push((*key, fresh.to_vec()));
            }
        }
        Box::pin(ready(Ok(Polled { reads, rebalance })))
    }

    fn assign<'a>(
        &'a mut self,
        keys: &'a [Key],
        from_beginning: bool,
    ) -> LocalFuture<'a, Result<(), LogError>> {
        let position = |key: &Key| if from_beginning { 0 } else { self.held.get(key).copied().unwrap_or(0) };
        self.held = keys.iter().map(|key| (*key, position(key))).collect();
        if let Some(member) = self.member.take() {
            self.store.lock().expect("no holder panics").given.retain(|_, holder| *holder != member);
        }
        Box::pin(ready(Ok(())))
    }

    fn subscribe<'a>(&'a mut self, keys: &'a [Key]) -> LocalFuture<'a, Result<(), LogError>> {
        let mut store = self.store.lock().expect("no holder panics");
        store.members += 1;
        let member = store.members;
        store.given.retain(|_, holder| Some(*holder) != self.member);
        store.given.extend(keys.iter().map(|key| (*key, member)));
        (self.member, self.wanted) = (Some(member), keys.to_vec());
        self.held.clear();
        Box::pin(ready(Ok(())))
    }

    fn commit_offsets(&mut self) -> LocalFuture<'_, Result<Vec<(Key, Offset)>, LogError>> {
        let offsets: Vec<_> =
            self.held.iter().map(|(key, position)| (*key, Offset(*position as i64))).collect();
        if !self.every_50th(Fault::Forgets) {
            self.store.lock().expect("no holder panics").committed.extend(offsets.iter().copied());
        }
        Box::pin(ready(Ok(offsets)))
    }

    fn committed<'a>(&'a mut self, keys: &'a [Key]) -> LocalFuture<'a, Result<Committed, LogError>> {
        let store = self.store.lock().expect("no holder panics");
        let committed = keys.iter().map(|key| (*key, store.committed.get(key).copied()));
        Box::pin(ready(Ok(committed.collect())))
    }

    fn progress(&mut self) -> LocalFuture<'_, Result<Vec<Progress>, LogError>> {
        let store = self.store.lock().expect("no holder panics");
        let progress = self.held.iter().map(|(key, position)| Progress {
            key: *key,
            position: Offset(*position as i64),
            end: Offset(store.logs.get(key).map_or(0, Vec::len) as i64),
        });
        Box::pin(ready(Ok(progress.collect())))
    }
}

fn config(seed: u64, via: &[SubscribeVia]) -> TestConfig {
    TestConfig {
        system: "memory".to_owned(),
        workload: "queue".to_owned(),
        nemesis: Vec::new(),
        nodes: 1,
        time_limit_ms: 1000,
        rate_hz: 1000.0,
        concurrency: 5,
        seed,
        txn: false,
        isolation: Isolation::ReadCommitted,
        sub_via: via.to_vec(),
        acks: "all".to_owned(),
        idempotence: true,
        defect: None,
        replication_factor: 1,
        keys: 4,
        max_writes_per_key: 64,
        fault_max_ms: 1000,
        quiet_max_ms: 1000,
        op_timeout_ms: 1000,
        recovery_limit_ms: 1000,
        drain_limit_ms: 1000,
        settings: BTreeMap::new(),
    }
}

/// What runs a generator: the interpreter, its clients, and the virtual clock.
struct Run<'a> {
    workload: &'a dyn Workload,
    config: TestConfig,
    shared: Shared,
    interpreter: Interpreter,
    clients: BTreeMap<Process, Box<dyn Client>>,
    under_way: Vec<(Thread, Completion)>,
    history: History,
    now_ns: u64,
}

impl Run<'_> {
    fn generate(&mut self, generator: BoxedGenerator) {
        self.interpreter.run(self.now_ns, generator);
        loop {
            match self.interpreter.next(self.now_ns) {
                Next::Done => return,
                Next::Invoke { thread, op } => {
                    let completion = self.invoke(&op);
                    self.history.push(*op);
                    self.under_way.push((thread, completion));
                }
                Next::Wait { .. } => {
                    self.now_ns += 1_000_000;
                    for (thread, completion) in std::mem::take(&mut self.under_way) {
                        let op = self.interpreter.complete(self.now_ns, thread, completion);
                        self.history.push(op);
                    }
                }
            }
        }
    }

    fn invoke(&mut self, op: &Op) -> Completion {
        let (workload, config, shared) = (self.workload, &self.config, &self.shared);
        let client =
            self.clients.entry(op.process).or_insert_with(|| workload.client(config, shared, "test"));
        let done = pin!(client.invoke(op)).poll(&mut Context::from_waker(Waker::noop()));
        match done {
            Poll::Ready(completion) => completion,
            Poll::Pending => panic!("a log in memory has nothing to wait for"),
        }
    }
}

fn run(seed: u64, ops: u64, fault: Fault) -> (History, Verdict) {
    run_via(&[SubscribeVia::Assign], seed, ops, fault)
}

fn run_via(via: &[SubscribeVia], seed: u64, ops: u64, fault: Fault) -> (History, Verdict) {
    let workload = find("queue").expect("the workload under test");
    let store: Arc<Mutex<Store>> = Arc::default();
    let connect = move |_: &ClientConfig| {
        let log = MemLog {
            store: Arc::clone(&store),
            fault,
            held: BTreeMap::new(),
            member: None,
            wanted: Vec::new(),
        };
        Ok(Box::new(log) as Box<dyn Log>)
    };
    let shared = Shared {
        connect: Arc::new(connect),
        bootstrap: Vec::new(),
        log: Default::default(),
        topics: Arc::default(),
    };
    let config = config(seed, via);
    let mut run = Run {
        workload,
        interpreter: Interpreter::new(config.concurrency),
        config: config.clone(),
        shared,
        clients: BTreeMap::new(),
        under_way: Vec::new(),
        history: History::new(),
        now_ns: 0,
    };
    run.generate(limit(ops, workload.generator(&config)));
    let (generator, drain) = workload.final_generator(&config, &run.history);
    run.generate(generator);
    let refuses = fault == Fault::Refuses;
    let left = drain.left();
    assert_eq!((left.unread.len(), left.untold.len(), left.unwritten.is_empty()), (0, 0, !refuses));
    let verdict = check(&run.history, &workload.options(&config));
    (run.history, verdict)
}

fn check_finds(fault: Fault, expected: &[&str]) {
    for seed in 0..5 {
        let (_, verdict) = run(seed, 2000, fault);
        let found: Vec<&str> = verdict.forbidden().map(|(name, _)| name).collect();
        assert_eq!(verdict.valid, Valid::False, "seed {seed}: {verdict:?}");
        assert!(expected.iter().any(|name| found.contains(name)), "seed {seed}: {found:?}, not {expected:?}");
    }
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
    check_finds(Fault::Loses, &["lost-write", "unseen"]);
    check_finds(Fault::Doubles, &["duplicate"]);
    check_finds(Fault::Skips, &["poll-skip", "int-poll-skip"]);
}

/// What the group is known to have committed of each key at the end of a history, and what it was last told to have.
fn commits(history: &History) -> (BTreeMap<Key, Offset>, BTreeMap<Key, Offset>) {
    let (mut committed, mut told) = (BTreeMap::new(), BTreeMap::new());
    for op in history.ops() {
        let offsets = op.extra().map_or(&[] as &[_], |extra| &extra.offsets);
        committed.extend(offsets.iter().copied());
        if *op.f() == F::Committed && op.kind() == Kind::Ok {
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
            let (history, verdict) = run_via(via, seed, 1000, Fault::None);
            assert_eq!(verdict.valid, Valid::True, "seed {seed}, {via:?}: {:?}", verdict.why);
            let asked = history.ops().filter(|op| *op.f() == F::Committed && op.kind() == Kind::Invoke);
            let asked = asked.count();
            assert!(asked > 10, "seed {seed}, {via:?}: asked {asked} times");
            // The last questions are those of the end, behind every commit.
            let (committed, told) = commits(&history);
            assert!(!committed.is_empty(), "seed {seed}, {via:?}");
            assert_eq!(committed, told, "seed {seed}, {via:?}");
        }
    }
}

#[test]
fn a_commit_that_is_forgotten_shows() {
    for seed in 0..5 {
        let (history, verdict) = run_via(&[SubscribeVia::Subscribe], seed, 2000, Fault::Forgets);
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
