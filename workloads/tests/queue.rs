//! The queue workload against a log in memory: what a correct log does is judged valid, what a wrong one does is found.
//!
//! Ops run in virtual time: each takes a millisecond, several are under way at once.

use riprap_checker::{Valid, Verdict, check};
use riprap_core::client::{
    Client, ClientConfig, Completion, Isolation, LocalFuture, Log, LogError, Polled, Progress, SubscribeVia,
};
use riprap_core::generator::{BoxedGenerator, Thread, limit};
use riprap_core::interpreter::{Interpreter, Next};
use riprap_core::op::{Key, Offset, Op, Process, Value};
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
}

#[derive(Default)]
struct Store {
    logs: BTreeMap<Key, Vec<(Offset, Value)>>,
    calls: u64,
}

struct MemLog {
    store: Arc<Mutex<Store>>,
    fault: Fault,
    held: BTreeMap<Key, usize>,
}

impl MemLog {
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
        Box::pin(ready(Ok(Polled { reads, rebalance: Vec::new() })))
    }

    fn assign<'a>(
        &'a mut self,
        keys: &'a [Key],
        from_beginning: bool,
    ) -> LocalFuture<'a, Result<(), LogError>> {
        let position = |key: &Key| if from_beginning { 0 } else { self.held.get(key).copied().unwrap_or(0) };
        self.held = keys.iter().map(|key| (*key, position(key))).collect();
        Box::pin(ready(Ok(())))
    }

    fn subscribe<'a>(&'a mut self, keys: &'a [Key]) -> LocalFuture<'a, Result<(), LogError>> {
        self.assign(keys, false)
    }

    fn commit_offsets(&mut self) -> LocalFuture<'_, Result<Vec<(Key, Offset)>, LogError>> {
        Box::pin(ready(Ok(Vec::new())))
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

fn config(seed: u64) -> TestConfig {
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
        sub_via: vec![SubscribeVia::Assign],
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
    let workload = find("queue").expect("the workload under test");
    let store: Arc<Mutex<Store>> = Arc::default();
    let connect = move |_: &ClientConfig| {
        let log = MemLog { store: Arc::clone(&store), fault, held: BTreeMap::new() };
        Ok(Box::new(log) as Box<dyn Log>)
    };
    let shared = Shared {
        connect: Arc::new(connect),
        bootstrap: Vec::new(),
        log: Default::default(),
        topics: Arc::default(),
    };
    let config = config(seed);
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
    assert_eq!(drain.pending(), []);
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
