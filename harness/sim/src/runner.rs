//! Runs a generator against simulated clients: the simulated driver of the [`Interpreter`].
//!
//! Each process is a host of the world, and its client async code on it. An op is put into the host's inbox, and its
//! completion taken from a shared one. Between two things that concern the interpreter the world goes on by itself; a
//! completion is taken in at the very moment it happens, before the next op is asked for. Acts of the nemesis take no
//! time.

use crate::cluster::SimCluster;
use crate::host::HostId;
use riprap_core::History;
use riprap_core::client::{Client, Completion, LocalFuture};
use riprap_core::cluster::{Cluster as _, DeadClient, NodeId};
use riprap_core::generator::{BoxedGenerator, Thread, then};
use riprap_core::interpreter::{Interpreter, Next};
use riprap_core::op::{Op, Process};
use riprap_env::task::{Inbox, Io, Tasks};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// How much goes by in a simulated cluster before its driver looks up though nothing concerns it, so that a progress line
/// moves and ^C is heeded. Units: nanoseconds.
const TICK_NS: u64 = 1_000_000_000;
/// How long it is waited before a node that does not serve is asked again.
const ASK_AGAIN_NS: u64 = 100_000_000;
/// How long a node gets to answer the question whether it serves.
const ASK_LIMIT_NS: u64 = 1_000_000_000;

/// Makes the client that runs as a process on a host.
pub type MakeClient = Rc<dyn Fn(Process, Io) -> Box<dyn Client>>;

/// Asks a node, from a host, whether it serves clients; `Err` says what it still waits for.
pub type AskServing = Rc<dyn Fn(NodeId, Io) -> LocalFuture<'static, Result<(), String>>>;

/// Carries out an op of the nemesis. `Err`: the harness could not.
pub type Strike<'a> = Box<dyn Fn(&SimCluster, &Op) -> Result<Completion, String> + 'a>;

/// The harness failed, not the system under test.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RunError {
    /// A fault could not be injected or healed.
    #[error("nemesis op {index} ({f}) failed: {message}")]
    Nemesis {
        /// The op.
        index: u64,
        /// What it was to do.
        f: String,
        /// What went wrong.
        message: String,
    },
    /// A client's code broke.
    #[error("a client of the simulation {how}\n{backtrace}")]
    ClientPanicked {
        /// What it said.
        how: String,
        /// How it got there.
        backtrace: String,
    },
    /// Whoever writes the history down could not.
    #[error("{0}")]
    Observer(String),
}

/// What the runner tells of.
pub enum Happening<'a> {
    /// An op was invoked or completed; it is the history's last.
    Op(&'a Op),
    /// It is so late in the world. Units: nanoseconds.
    Time(u64),
}

type Observe<'a> = Box<dyn FnMut(Happening<'_>) -> Result<(), String> + 'a>;

/// See the module.
pub struct Runner<'a> {
    cluster: SimCluster,
    concurrency: u32,
    op_timeout_ns: u64,
    make_client: MakeClient,
    ask_serving: AskServing,
    strike: Strike<'a>,
    observe: Observe<'a>,
    stop: &'a AtomicBool,
    interpreter: Interpreter,
    history: History,
    workers: BTreeMap<Thread, Worker>,
    outstanding: BTreeMap<Thread, Outstanding>,
    /// Hosts whose op was given up on: they go on until it ends.
    left: Vec<HostId>,
    answers: Inbox<Answer>,
    told_ns: u64,
    probes: u64,
    /// How many of the world's crashes have been looked at.
    crashes_seen: usize,
}

struct Worker {
    process: Process,
    host: HostId,
    ops: Inbox<Op>,
}

struct Outstanding {
    index: u64,
    deadline_ns: u64,
}

struct Answer {
    thread: Thread,
    host: HostId,
    /// The op that it answers: an answer that comes after its op was given up on is nobody's.
    index: u64,
    completion: Completion,
}

/// What a runner is made of.
pub struct Parts<'a> {
    /// The cluster, with nothing started.
    pub cluster: SimCluster,
    /// How many client threads.
    pub concurrency: u32,
    /// A client's op that takes longer is given up on. Units: nanoseconds.
    pub op_timeout_ns: u64,
    /// Makes clients.
    pub make_client: MakeClient,
    /// Asks nodes.
    pub ask_serving: AskServing,
    /// Carries out what the nemesis is to do.
    pub strike: Strike<'a>,
    /// Makes a phase end early.
    pub stop: &'a AtomicBool,
}

impl<'a> Runner<'a> {
    /// A runner with nothing done yet.
    pub fn new(
        parts: Parts<'a>,
        observe: impl FnMut(Happening<'_>) -> Result<(), String> + 'a,
    ) -> Runner<'a> {
        Runner {
            interpreter: Interpreter::new(parts.concurrency),
            cluster: parts.cluster,
            concurrency: parts.concurrency,
            op_timeout_ns: parts.op_timeout_ns,
            make_client: parts.make_client,
            ask_serving: parts.ask_serving,
            strike: parts.strike,
            observe: Box::new(observe),
            stop: parts.stop,
            history: History::new(),
            workers: BTreeMap::new(),
            outstanding: BTreeMap::new(),
            left: Vec::new(),
            answers: Inbox::default(),
            told_ns: 0,
            probes: 0,
            crashes_seen: 0,
        }
    }

    /// What has happened so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The cluster.
    pub fn cluster(&self) -> &SimCluster {
        &self.cluster
    }

    /// Simulated nanoseconds since the world began.
    pub fn now_ns(&self) -> u64 {
        self.cluster.world().now_ns()
    }

    /// Runs a generator to its end, or until the runner is told to stop; then every op has completed.
    pub fn run(&mut self, generator: BoxedGenerator) -> Result<(), RunError> {
        self.drive(generator, true)
    }

    /// Runs a generator to its end, whatever the runner is told: what heals the cluster is not to be cut short.
    pub fn run_to_end(&mut self, generator: BoxedGenerator) -> Result<(), RunError> {
        self.drive(generator, false)
    }

    /// Ends the clients that still work at an op which was given up on. Until then they go on as real ones do; but what they
    /// send after the final reads nobody could read.
    pub fn end_late_clients(&mut self) {
        for host in std::mem::take(&mut self.left) {
            self.cluster.world().kill(host);
        }
    }

    /// Waits until every node serves clients. `Err` says what is not so by then. Units: nanoseconds.
    pub fn await_serving(&mut self, limit_ns: u64) -> Result<Result<(), String>, RunError> {
        let deadline_ns = self.now_ns() + limit_ns;
        let mut nodes = self.cluster.nodes();
        while let Some(node) = nodes.last().copied() {
            match self.ask(node)? {
                Ok(()) => {
                    nodes.pop();
                }
                Err(why) => {
                    let down =
                        self.cluster.nodes().into_iter().find_map(|node| match self.cluster.state(node) {
                            Ok(riprap_core::cluster::NodeState::Down(how)) => {
                                Some(format!("{node} is down: {how}"))
                            }
                            _ => None,
                        });
                    if let Some(down) = down {
                        return Ok(Err(down));
                    }
                    if self.now_ns() >= deadline_ns {
                        return Ok(Err(format!("not within {} s: {why}", limit_ns as f64 / 1e9)));
                    }
                    if self.stop.load(Ordering::Relaxed) {
                        return Ok(Err(format!("interrupted: {why}")));
                    }
                    let again_ns = self.now_ns() + ASK_AGAIN_NS;
                    while self.now_ns() < again_ns {
                        self.advance(again_ns)?;
                    }
                }
            }
        }
        Ok(Ok(()))
    }

    /// Asks one node, from a host of its own.
    fn ask(&mut self, node: NodeId) -> Result<Result<(), String>, RunError> {
        let answer: Inbox<Result<(), String>> = Inbox::default();
        let (theirs, ask) = (answer.clone(), Rc::clone(&self.ask_serving));
        self.probes += 1;
        let name = format!("probe{}", self.probes);
        let deadline_ns = self.now_ns() + ASK_LIMIT_NS;
        let host = self.cluster.world().add(&name, move || {
            let (theirs, ask) = (theirs.clone(), Rc::clone(&ask));
            Box::new(Tasks::new(async move |io: Io| {
                let told = io.by(deadline_ns, ask(node, io.clone())).await;
                theirs.put(told.unwrap_or_else(|| Err(format!("{node} does not answer"))));
            }))
        });
        self.cluster.world().start(host);
        let told = loop {
            if let Some(told) = answer.try_take() {
                break told;
            }
            // Its own time is over at the deadline.
            self.advance(deadline_ns + ASK_LIMIT_NS)?;
        };
        self.cluster.world().kill(host);
        Ok(told)
    }

    /// Lets the next thing happen in the world, or time pass until then.
    fn advance(&mut self, until_ns: u64) -> Result<(), RunError> {
        let now_ns = {
            let mut world = self.cluster.world();
            match world.next_ns() {
                Some(next_ns) if next_ns <= until_ns => world.step(),
                _ => world.run_until(until_ns),
            }
            world.now_ns()
        };
        if now_ns >= self.told_ns + TICK_NS {
            self.told_ns = now_ns;
            (self.observe)(Happening::Time(now_ns)).map_err(RunError::Observer)?;
        }
        Ok(())
    }

    fn drive(&mut self, generator: BoxedGenerator, heed_stop: bool) -> Result<(), RunError> {
        self.interpreter.run(self.now_ns(), generator);
        let mut stopped = false;
        loop {
            if heed_stop && !stopped && self.stop.load(Ordering::Relaxed) {
                stopped = true;
                self.interpreter.run(self.now_ns(), then(Vec::new()));
            }
            while let Some(answer) = self.answers.try_take() {
                self.take(answer)?;
            }
            self.give_up_on_late_ops()?;
            match self.interpreter.next(self.now_ns()) {
                Next::Done => return Ok(()),
                Next::Invoke { thread, op } => self.invoke(thread, *op)?,
                Next::Wait { until_ns } => self.wait(until_ns)?,
            }
        }
    }

    fn record(&mut self, op: Op) -> Result<(), RunError> {
        (self.observe)(Happening::Op(&op)).map_err(RunError::Observer)?;
        self.history.push(op);
        Ok(())
    }

    fn invoke(&mut self, thread: Thread, op: Op) -> Result<(), RunError> {
        self.record(op.clone())?;
        if thread == Thread::Nemesis {
            let failed = |message| RunError::Nemesis { index: op.index, f: op.f.name().to_owned(), message };
            self.cluster.set_clients(self.clients());
            let completion = (self.strike)(&self.cluster, &op).map_err(failed)?;
            for thread in self.cluster.take_dying() {
                self.crash(Thread::Client(thread))?;
            }
            let completed = self.interpreter.complete(self.now_ns(), thread, completion);
            return self.record(completed);
        }
        let deadline_ns = self.now_ns() + self.op_timeout_ns;
        self.outstanding.insert(thread, Outstanding { index: op.index, deadline_ns });
        if self.workers.get(&thread).is_none_or(|worker| worker.process != op.process) {
            let worker = self.start_worker(thread, op.process);
            if let Some(before) = self.workers.insert(thread, worker)
                && !self.left.contains(&before.host)
            {
                // It has no ops to come.
                self.cluster.world().kill(before.host);
            }
        }
        let worker = &self.workers[&thread];
        worker.ops.put(op);
        self.cluster.world().poke(worker.host);
        self.look_at_crashes()
    }

    /// What runs on each client thread.
    fn clients(&self) -> Vec<DeadClient> {
        let one = |n| {
            let thread = Thread::Client(n);
            let op = self.outstanding.get(&thread).map(|outstanding| outstanding.index);
            DeadClient { process: self.interpreter.process(thread), op }
        };
        (0..self.concurrency).map(one).collect()
    }

    /// A thread's client dies, and its host with it.
    fn crash(&mut self, thread: Thread) -> Result<(), RunError> {
        let process = self.interpreter.process(thread);
        self.outstanding.remove(&thread);
        for told in self.interpreter.crash(self.now_ns(), thread) {
            self.record(told)?;
        }
        // One that still works at an op of a former process is another client.
        if self.workers.get(&thread).is_some_and(|worker| worker.process == process) {
            let worker = self.workers.remove(&thread).expect("just found");
            self.cluster.world().kill(worker.host);
        }
        Ok(())
    }

    fn start_worker(&self, thread: Thread, process: Process) -> Worker {
        let ops: Inbox<Op> = Inbox::default();
        let (inbox, answers, make_client) = (ops.clone(), self.answers.clone(), Rc::clone(&self.make_client));
        let mut world = self.cluster.world();
        let next = world.next_host();
        let host = world.add(&format!("c{process}"), move || {
            let (inbox, answers, make_client) = (inbox.clone(), answers.clone(), Rc::clone(&make_client));
            Box::new(Tasks::new(async move |io: Io| {
                let mut client = make_client(process, io);
                loop {
                    let op = inbox.take().await;
                    let completion = client.invoke(&op).await;
                    answers.put(Answer { thread, host: next, index: op.index, completion });
                }
            }))
        });
        world.start(host);
        Worker { process, host, ops }
    }

    fn take(&mut self, answer: Answer) -> Result<(), RunError> {
        let Answer { thread, host, index, completion } = answer;
        if self.outstanding.get(&thread).is_none_or(|outstanding| outstanding.index != index) {
            // It was given up on. Its client is thrown away now that its call has ended.
            self.left.retain(|left| *left != host);
            self.cluster.world().kill(host);
            return Ok(());
        }
        self.outstanding.remove(&thread);
        let completed = self.interpreter.complete(self.now_ns(), thread, completion);
        self.record(completed)
    }

    fn give_up_on_late_ops(&mut self) -> Result<(), RunError> {
        let now_ns = self.now_ns();
        let late = |(thread, op): (&Thread, &Outstanding)| (op.deadline_ns <= now_ns).then_some(*thread);
        let late: Vec<Thread> = self.outstanding.iter().filter_map(late).collect();
        for thread in late {
            self.outstanding.remove(&thread);
            self.left.push(self.workers[&thread].host);
            let message = format!("no answer within {} s", self.op_timeout_ns as f64 / 1e9);
            let completion = Completion::uncertain("OP_TIMED_OUT", message);
            let completed = self.interpreter.complete(now_ns, thread, completion);
            self.record(completed)?;
        }
        Ok(())
    }

    /// Lets the world go on until something concerns the interpreter.
    fn wait(&mut self, until_ns: Option<u64>) -> Result<(), RunError> {
        let deadline_ns = self.outstanding.values().map(|op| op.deadline_ns).min();
        let tick_ns = self.now_ns() + TICK_NS;
        let until_ns = [deadline_ns, until_ns, Some(tick_ns)].into_iter().flatten().min().expect("the tick");
        while self.now_ns() < until_ns && self.answers.is_empty() {
            self.advance(until_ns)?;
            self.look_at_crashes()?;
        }
        Ok(())
    }

    /// A client that panicked is the harness' own fault; a node that did is found in the end.
    fn look_at_crashes(&mut self) -> Result<(), RunError> {
        let world = self.cluster.world();
        let crashes = &world.crashes()[self.crashes_seen..];
        if crashes.is_empty() {
            return Ok(());
        }
        if let Some(crash) = crashes.iter().find(|crash| self.cluster.node_of(crash.host).is_none()) {
            let backtrace = crash.panic.as_ref().map(|panic| panic.backtrace.clone()).unwrap_or_default();
            return Err(RunError::ClientPanicked { how: crash.how.clone(), backtrace });
        }
        self.crashes_seen = world.crashes().len();
        Ok(())
    }
}
