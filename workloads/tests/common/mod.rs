//! Workloads against a log in memory.
//!
//! Ops run in virtual time: each takes as long as the run says, several are under way at once.

pub(crate) mod memory;

use memory::{Fault, MemLog, Store};
use riprap_checker::{Valid, Verdict, check};
use riprap_core::History;
use riprap_core::client::{Client, ClientConfig, Completion, Isolation, Log, SubscribeVia};
use riprap_core::generator::{BoxedGenerator, Thread, limit};
use riprap_core::interpreter::{Interpreter, Next};
use riprap_core::op::{Extra, Kind, Op, OpValue, Process};
use riprap_core::plan::TestConfig;
use riprap_workloads::{Shared, Workload, find};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// So long an op takes in the final reads.
const FINAL_OP_NS: u64 = 1_000_000;

/// A run of a workload, in transactions if that is what it is made of.
pub(crate) fn config(workload: &str, seed: u64, via: &[SubscribeVia]) -> TestConfig {
    TestConfig {
        system: "memory".to_owned(),
        workload: workload.to_owned(),
        nemesis: Vec::new(),
        sim: None,
        nodes: 1,
        controllers: 0,
        storage: 0,
        time_limit_ms: 1000,
        rate_hz: 1000.0,
        concurrency: 5,
        rotate_ms: None,
        seed,
        txn: find(workload).expect("the workload under test").info().txn,
        isolation: Isolation::ReadCommitted,
        sub_via: via.to_vec(),
        acks: "all".to_owned(),
        idempotence: true,
        defect: None,
        replication_factor: 1,
        keys: 4,
        max_writes_per_key: 64,
        value_bytes: 1,
        fault_max_ms: 1000,
        quiet_max_ms: 1000,
        op_timeout_ms: 1000,
        recovery_limit_ms: 1000,
        drain_limit_ms: 1000,
        bootstrap: Vec::new(),
        upgrade_to: None,
        hosts: Vec::new(),
        spare_host: None,
        settings: BTreeMap::new(),
    }
}

/// What runs a generator: the interpreter, its clients, and the virtual clock.
pub(crate) struct Run {
    workload: &'static dyn Workload,
    config: TestConfig,
    shared: Shared,
    interpreter: Interpreter,
    clients: BTreeMap<Process, Box<dyn Client>>,
    under_way: Vec<(Thread, Completion)>,
    pub(crate) history: History,
    now_ns: u64,
    op_ns: u64,
}

impl Run {
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
                    self.now_ns += self.op_ns;
                    for (thread, completion) in std::mem::take(&mut self.under_way) {
                        let op = self.interpreter.complete(self.now_ns, thread, completion);
                        self.history.push(op);
                    }
                }
            }
        }
    }

    fn invoke(&mut self, op: &Op) -> Completion {
        if op.process == Process::Nemesis {
            // A mark.
            return Completion { kind: Kind::Info, value: OpValue::None, extra: Extra::default() };
        }
        let (workload, config, shared) = (self.workload, &self.config, &self.shared);
        let client =
            self.clients.entry(op.process).or_insert_with(|| workload.client(config, shared, op.process));
        let done = pin!(client.invoke(op)).poll(&mut Context::from_waker(Waker::noop()));
        match done {
            Poll::Ready(completion) => completion,
            Poll::Pending => panic!("a log in memory has nothing to wait for"),
        }
    }
}

/// So many ops, each of which takes so long, on a log with a fault; and the final reads. What is said of it includes what the
/// workload has to say itself.
pub(crate) fn run(config: TestConfig, ops: u64, op_ns: u64, fault: Fault) -> (History, Verdict) {
    let mut run = main_phase(config, ops, op_ns, fault);
    let workload = run.workload;
    let (generator, drain) = workload.final_generator(&run.config, &run.history);
    run.op_ns = FINAL_OP_NS;
    run.generate(generator);
    let refuses = fault == Fault::Refuses;
    let left = drain.left();
    assert_eq!((left.unread.len(), left.untold.len(), left.unwritten.is_empty()), (0, 0, !refuses));
    let options = workload.options(&run.config);
    let verdict = check(&run.history, &options).merge(workload.judge(&run.history, &options));
    (run.history, verdict)
}

/// The same without the final reads.
pub(crate) fn main_phase(config: TestConfig, ops: u64, op_ns: u64, fault: Fault) -> Run {
    let workload = find(&config.workload).expect("the workload under test");
    let store: Arc<Mutex<Store>> = Arc::default();
    let connect =
        move |config: &ClientConfig| Ok(Box::new(MemLog::new(&store, fault, config)) as Box<dyn Log>);
    let shared = Shared {
        connect: Rc::new(connect),
        bootstrap: Vec::new(),
        log: Default::default(),
        namespace: String::new(),
        topics: Arc::default(),
        life: Default::default(),
    };
    let mut run = Run {
        workload,
        interpreter: Interpreter::new(config.concurrency),
        shared,
        clients: BTreeMap::new(),
        under_way: Vec::new(),
        history: History::new(),
        now_ns: 0,
        op_ns,
        config,
    };
    run.generate(limit(ops, workload.generator(&run.config)));
    run
}

/// Each of some runs shows one of the anomalies that are expected.
#[track_caller]
pub(crate) fn check_finds(run: impl Fn(u64) -> (History, Verdict), expected: &[&str]) {
    for seed in 0..3 {
        let (_, verdict) = run(seed);
        let found: Vec<&str> = verdict.forbidden().map(|(name, _)| name).collect();
        assert_eq!(verdict.valid, Valid::False, "seed {seed}: {verdict:?}");
        assert!(expected.iter().any(|name| found.contains(name)), "seed {seed}: {found:?}, not {expected:?}");
    }
}
