//! Runs a generator against real clients: the live driver of the [`Interpreter`].
//!
//! Each process has a thread of its own, which makes the client, carries out ops and drops the client: calls of a client
//! library block, and a client need not be able to move between threads. One thread, the caller's, owns the interpreter
//! and the history. An op that takes too long is completed as `info`; its thread is left to end by itself, and whatever
//! it still answers is ignored.

use riprap_core::client::{Client, Completion, Life, block_on};
use riprap_core::cluster::{ClusterError, DeadClient};
use riprap_core::generator::{BoxedGenerator, Thread, then};
use riprap_core::interpreter::{Interpreter, Next};
use riprap_core::op::{Op, Process};
use riprap_core::{F, History, panic_text};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How often the observer is called though nothing happens, so that a progress line moves and ^C is heeded.
const TICK: Duration = Duration::from_millis(100);

/// How often it is looked whether late clients have ended. Units: nanoseconds.
const LOOK_AGAIN_NS: u64 = 10_000_000;

/// How long whoever has clients die waits for the runner, which looks up several times a second.
const CRASH_LIMIT: Duration = Duration::from_secs(10);

/// Makes the client that runs as a process, which lives as long as is told. It is called on that process' own thread.
pub type MakeClient = Arc<dyn Fn(Process, &Life) -> Box<dyn Client> + Send + Sync>;

/// Carries out an op of the nemesis. `Err`: the harness could not.
pub type Strike = Arc<dyn Fn(&Op) -> Result<Completion, String> + Send + Sync>;

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
    /// An act of the nemesis did not end in time.
    #[error("nemesis op {index} ({f}) did not end within {limit:?}")]
    NemesisHangs {
        /// The op.
        index: u64,
        /// What it was to do.
        f: String,
        /// How long it had.
        limit: Duration,
    },
    /// A client's code broke.
    #[error("the client of process {process} panicked in op {index}: {message}")]
    ClientPanicked {
        /// Whose.
        process: Process,
        /// In which op.
        index: u64,
        /// The panic's message.
        message: String,
    },
    /// No thread could be started.
    #[error("failed to start a thread for process {process}: {message}")]
    Thread {
        /// Whose.
        process: Process,
        /// The operating system's word.
        message: String,
    },
    /// Whoever writes the history down could not.
    #[error("{0}")]
    Observer(String),
}

/// What the runner tells of.
pub enum Happening<'a> {
    /// An op was invoked or completed; it is the history's last.
    Op(&'a Op),
    /// Some time has passed.
    Tick,
}

type Observe<'a> = Box<dyn FnMut(Happening<'_>) -> Result<(), String> + 'a>;

/// The limits of a run. See the fields of [`riprap_core::plan::TestConfig`] of the same names.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many client threads.
    pub concurrency: u32,
    /// How long a client's op may take.
    pub op_timeout: Duration,
    /// How long an act of the nemesis may take: long, since it starts processes and waits for probes.
    pub nemesis_timeout: Duration,
}

/// See the module.
pub struct Runner<'a> {
    limits: Limits,
    make_client: MakeClient,
    strike: Strike,
    observe: Observe<'a>,
    stop: &'a AtomicBool,
    began: Instant,
    interpreter: Interpreter,
    history: History,
    workers: BTreeMap<Thread, Worker>,
    /// The threads of processes that do nothing more, until they have thrown their clients away.
    ending: Vec<JoinHandle<()>>,
    outstanding: BTreeMap<Thread, Outstanding>,
    told: (Sender<Told>, Receiver<Told>),
}

struct Worker {
    process: Process,
    life: Life,
    ops: Sender<Op>,
    thread: JoinHandle<()>,
}

struct Outstanding {
    index: u64,
    process: Process,
    f: F,
    deadline: Instant,
}

/// What other threads tell the runner.
enum Told {
    /// A client or the nemesis is done.
    Answer(Answer),
    /// Clients are to die, told by the numbers of their threads. Those that did are sent back.
    Crash(BTreeSet<u32>, Sender<Vec<DeadClient>>),
}

struct Answer {
    thread: Thread,
    /// The op that it answers: an answer that comes after its op was given up on is nobody's.
    index: u64,
    result: Result<Completion, RunError>,
}

/// The clients of a run, for faults that strike them.
#[derive(Clone)]
pub struct Clients {
    count: u32,
    runner: Sender<Told>,
}

impl Clients {
    /// How many act at once.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Has clients die, told by the numbers of their threads, and returns them once others take their places.
    pub fn crash(&self, threads: &BTreeSet<u32>) -> Result<Vec<DeadClient>, ClusterError> {
        let (answer, dead) = channel();
        let silent = || ClusterError("whoever runs the clients does not let go of any".to_owned());
        self.runner.send(Told::Crash(threads.clone(), answer)).map_err(|_| silent())?;
        dead.recv_timeout(CRASH_LIMIT).map_err(|_| silent())
    }
}

impl<'a> Runner<'a> {
    /// A runner with nothing done yet; its time begins now. `stop` makes a phase end early.
    pub fn new(
        limits: Limits,
        make_client: MakeClient,
        strike: Strike,
        stop: &'a AtomicBool,
        observe: impl FnMut(Happening<'_>) -> Result<(), String> + 'a,
    ) -> Runner<'a> {
        Runner {
            limits,
            make_client,
            strike,
            observe: Box::new(observe),
            stop,
            began: Instant::now(),
            interpreter: Interpreter::new(limits.concurrency),
            history: History::new(),
            workers: BTreeMap::new(),
            ending: Vec::new(),
            outstanding: BTreeMap::new(),
            told: channel(),
        }
    }

    /// Its clients.
    pub fn clients(&self) -> Clients {
        Clients { count: self.limits.concurrency, runner: self.told.0.clone() }
    }

    /// What has happened so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// All that happened. The clients are left to end by themselves.
    pub fn into_history(self) -> History {
        self.history
    }

    /// Runs a generator to its end, or until the runner is told to stop; then every op has completed.
    pub fn run(&mut self, generator: BoxedGenerator) -> Result<(), RunError> {
        self.drive(generator, true)
    }

    /// Runs a generator to its end, whatever the runner is told: what heals the cluster is not to be cut short.
    pub fn run_to_end(&mut self, generator: BoxedGenerator) -> Result<(), RunError> {
        self.drive(generator, false)
    }

    fn drive(&mut self, generator: BoxedGenerator, heed_stop: bool) -> Result<(), RunError> {
        self.interpreter.run(self.now_ns(), generator);
        let mut stopped = false;
        loop {
            if heed_stop && !stopped && self.stop.load(Ordering::Relaxed) {
                stopped = true;
                self.interpreter.run(self.now_ns(), then(Vec::new()));
            }
            // Every completion that is known comes before the next invocation: see the interpreter.
            while let Ok(told) = self.told.1.try_recv() {
                self.hear(told)?;
            }
            self.give_up_on_late_ops()?;
            match self.interpreter.next(self.now_ns()) {
                Next::Done => return Ok(()),
                Next::Invoke { thread, op } => self.invoke(thread, *op)?,
                Next::Wait { until_ns } => self.wait(until_ns)?,
            }
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).expect("a run is shorter than 584 years")
    }

    fn record(&mut self, op: Op) -> Result<(), RunError> {
        self.history.push(op.clone());
        (self.observe)(Happening::Op(&op)).map_err(RunError::Observer)
    }

    fn invoke(&mut self, thread: Thread, op: Op) -> Result<(), RunError> {
        self.record(op.clone())?;
        let limit = match thread {
            Thread::Client(_) => self.limits.op_timeout,
            Thread::Nemesis => self.limits.nemesis_timeout,
        };
        let deadline = Instant::now() + limit;
        self.outstanding
            .insert(thread, Outstanding { index: op.index, process: op.process, f: op.f.clone(), deadline });
        if self.workers.get(&thread).is_none_or(|worker| worker.process != op.process) {
            let worker = self.start_worker(thread, op.process)?;
            if let Some(before) = self.workers.insert(thread, worker) {
                self.end(before);
            }
        }
        self.workers[&thread].ops.send(op).expect("a worker lives as long as its sender");
        Ok(())
    }

    /// There are no ops to come for it: its thread ends the one that it is at, drops its client and ends.
    fn end(&mut self, worker: Worker) {
        self.ending.retain(|thread| !thread.is_finished());
        self.ending.push(worker.thread);
    }

    /// Waits until the clients of all processes that do nothing more are thrown away, those too whose op was given up on. Gives
    /// how many are not.
    pub fn await_late_clients(&mut self, limit: Duration) -> Result<usize, RunError> {
        let over = self
            .workers
            .iter()
            .filter(|(thread, worker)| worker.process != self.interpreter.process(**thread));
        for thread in over.map(|(thread, _)| *thread).collect::<Vec<_>>() {
            let worker = self.workers.remove(&thread).expect("just found");
            self.end(worker);
        }
        let deadline = Instant::now() + limit;
        loop {
            self.ending.retain(|thread| !thread.is_finished());
            let is_over = self.ending.is_empty() || Instant::now() >= deadline;
            if is_over || self.stop.load(Ordering::Relaxed) {
                return Ok(self.ending.len());
            }
            // A late answer is nobody's, and does not say that the client is gone.
            self.wait(Some(self.now_ns() + LOOK_AGAIN_NS))?;
        }
    }

    fn start_worker(&self, thread: Thread, process: Process) -> Result<Worker, RunError> {
        let (ops, inbox) = channel();
        let (life, answers) = (Life::default(), self.told.0.clone());
        let builder = std::thread::Builder::new().name(format!("process-{process}"));
        let spawned = match thread {
            Thread::Client(_) => {
                let (make_client, life) = (Arc::clone(&self.make_client), life.clone());
                let make = move || make_client(process, &life);
                builder.spawn(move || serve_client(thread, process, &make, &inbox, &answers))
            }
            Thread::Nemesis => {
                let strike = Arc::clone(&self.strike);
                builder.spawn(move || serve_nemesis(thread, &*strike, &inbox, &answers))
            }
        };
        let thread = spawned.map_err(|e| RunError::Thread { process, message: e.to_string() })?;
        Ok(Worker { process, life, ops, thread })
    }

    fn hear(&mut self, told: Told) -> Result<(), RunError> {
        match told {
            Told::Answer(answer) => self.take(answer),
            Told::Crash(threads, answer) => {
                let mut dead = Vec::new();
                for thread in threads.range(..self.limits.concurrency) {
                    dead.push(self.crash(Thread::Client(*thread))?);
                }
                // Who asked may have given up by now.
                let _ = answer.send(dead);
                Ok(())
            }
        }
    }

    /// A thread's client dies; nobody waits for its answer any more.
    fn crash(&mut self, thread: Thread) -> Result<DeadClient, RunError> {
        let process = self.interpreter.process(thread);
        let op = self.outstanding.remove(&thread).map(|outstanding| outstanding.index);
        for told in self.interpreter.crash(self.now_ns(), thread) {
            self.record(told)?;
        }
        // One that still works at an op of a former process is another client.
        if self.workers.get(&thread).is_some_and(|worker| worker.process == process) {
            let worker = self.workers.remove(&thread).expect("just found");
            worker.life.end();
            self.end(worker);
        }
        Ok(DeadClient { process, op })
    }

    fn take(&mut self, answer: Answer) -> Result<(), RunError> {
        let Answer { thread, index, result } = answer;
        if self.outstanding.get(&thread).is_none_or(|outstanding| outstanding.index != index) {
            // It was given up on; that its client broke in the end is worth knowing all the same.
            return result.map(drop);
        }
        self.outstanding.remove(&thread);
        // A client that broke may have done anything; the op is on record before the run ends.
        let broken = || Completion::uncertain("CLIENT_PANICKED", "the client's code panicked");
        let completion = result.as_ref().map_or_else(|_| broken(), Clone::clone);
        let completed = self.interpreter.complete(self.now_ns(), thread, completion);
        self.record(completed)?;
        result.map(drop)
    }

    fn give_up_on_late_ops(&mut self) -> Result<(), RunError> {
        let now = Instant::now();
        let late: Vec<Thread> =
            self.outstanding.iter().filter(|(_, op)| op.deadline <= now).map(|(thread, _)| *thread).collect();
        for thread in late {
            let op = self.outstanding.remove(&thread).expect("just found");
            if thread == Thread::Nemesis {
                let (index, f) = (op.index, op.f.name().to_owned());
                return Err(RunError::NemesisHangs { index, f, limit: self.limits.nemesis_timeout });
            }
            debug_assert_eq!(self.interpreter.process(thread), op.process);
            let message = format!("no answer within {:?}", self.limits.op_timeout);
            let completed = self.interpreter.complete(
                self.now_ns(),
                thread,
                Completion::uncertain("OP_TIMED_OUT", message),
            );
            self.record(completed)?;
        }
        Ok(())
    }

    fn wait(&mut self, until_ns: Option<u64>) -> Result<(), RunError> {
        let now = Instant::now();
        let deadline = self.outstanding.values().map(|op| op.deadline).min();
        let until = until_ns.map(|until_ns| self.began + Duration::from_nanos(until_ns));
        let wake = [Some(now + TICK), deadline, until].into_iter().flatten().min().expect("the tick");
        match self.told.1.recv_timeout(wake.saturating_duration_since(now)) {
            Ok(told) => self.hear(told),
            Err(RecvTimeoutError::Timeout) => (self.observe)(Happening::Tick).map_err(RunError::Observer),
            Err(RecvTimeoutError::Disconnected) => unreachable!("the runner itself keeps a sender"),
        }
    }
}

fn serve_client(
    thread: Thread,
    process: Process,
    make_client: &dyn Fn() -> Box<dyn Client>,
    ops: &Receiver<Op>,
    answers: &Sender<Told>,
) {
    let mut client = None;
    while let Ok(op) = ops.recv() {
        let done =
            catch_unwind(AssertUnwindSafe(|| block_on(client.get_or_insert_with(make_client).invoke(&op))));
        let index = op.index;
        let result = done.map_err(|panic| RunError::ClientPanicked {
            process,
            index,
            message: panic_text(&*panic).to_owned(),
        });
        // Nobody listens any more once the run is over.
        if answers.send(Told::Answer(Answer { thread, index, result })).is_err() {
            return;
        }
    }
}

fn serve_nemesis(
    thread: Thread,
    strike: &(dyn Fn(&Op) -> Result<Completion, String> + Send + Sync),
    ops: &Receiver<Op>,
    answers: &Sender<Told>,
) {
    while let Ok(op) = ops.recv() {
        let index = op.index;
        let done = catch_unwind(AssertUnwindSafe(|| strike(&op)))
            .unwrap_or_else(|panic| Err(panic_text(&*panic).to_owned()));
        let failed = |message| RunError::Nemesis { index, f: op.f.name().to_owned(), message };
        if answers.send(Told::Answer(Answer { thread, index, result: done.map_err(failed) })).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_core::client::LocalFuture;
    use riprap_core::generator::{Draft, clients, limit, nemesis, once, repeat};
    use riprap_core::op::{Extra, Kind, OpValue};
    use std::sync::Mutex;

    struct Scripted;

    impl Client for Scripted {
        fn invoke<'a>(&'a mut self, op: &'a Op) -> LocalFuture<'a, Completion> {
            let kind = match op.f.name() {
                "hang" => loop {
                    std::thread::park();
                },
                "break" => panic!("as asked"),
                "fail" => Kind::Fail,
                "crash" => Kind::Info,
                _ => Kind::Ok,
            };
            Box::pin(std::future::ready(Completion { kind, value: OpValue::None, extra: Extra::default() }))
        }
    }

    fn ops(f: &str, n: u64) -> BoxedGenerator {
        limit(n, repeat(Draft::new(F::from_name(f), OpValue::None)))
    }

    /// Runs a generator on one client thread. Gives a word an op: `process:kind:f`.
    fn check(generator: BoxedGenerator, expected: &str) -> Result<(), RunError> {
        check_within(Duration::from_secs(60), generator, expected)
    }

    fn check_within(op_timeout: Duration, generator: BoxedGenerator, expected: &str) -> Result<(), RunError> {
        let limits = Limits { concurrency: 1, op_timeout, nemesis_timeout: Duration::from_secs(60) };
        let stop = AtomicBool::new(false);
        let strike: Strike = Arc::new(|op| match op.f.name() {
            "impossible" => Err("no such node".to_owned()),
            _ => Ok(Completion { kind: Kind::Info, value: OpValue::None, extra: Extra::default() }),
        });
        let mut seen = Vec::new();
        let mut runner =
            Runner::new(limits, Arc::new(|_, _| Box::new(Scripted)), strike, &stop, |happening| {
                if let Happening::Op(op) = happening {
                    seen.push(format!("{}:{}:{}", op.process, op.kind.name(), op.f.name()));
                }
                Ok(())
            });
        let result = runner.run(generator);
        drop(runner);
        assert_eq!(seen.join(" "), expected);
        result
    }

    #[test]
    fn ops_complete_as_their_clients_say() -> Result<(), RunError> {
        check(clients(ops("send", 2)), "0:invoke:send 0:ok:send 0:invoke:send 0:ok:send")?;
        check(clients(ops("fail", 1)), "0:invoke:fail 0:fail:fail")?;
        check(clients(ops("crash", 2)), "0:invoke:crash 0:info:crash 1:invoke:crash 1:info:crash")?;
        check(nemesis(ops("kill", 1)), "nemesis:invoke:kill nemesis:info:kill")
    }

    #[test]
    fn a_client_that_hangs_is_given_up_on() -> Result<(), RunError> {
        let expected = "0:invoke:hang 0:info:hang 1:invoke:hang 1:info:hang";
        check_within(Duration::from_millis(20), clients(ops("hang", 2)), expected)
    }

    /// Says once it is asked, and when it is thrown away.
    struct Held {
        until: Arc<Mutex<()>>,
        thrown_away: Arc<AtomicBool>,
    }

    impl Client for Held {
        fn invoke<'a>(&'a mut self, _: &'a Op) -> LocalFuture<'a, Completion> {
            drop(self.until.lock().expect("no holder panics"));
            let done = Completion { kind: Kind::Ok, value: OpValue::None, extra: Extra::default() };
            Box::pin(std::future::ready(done))
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            self.thrown_away.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn late_clients_are_waited_for() {
        let (until, thrown_away) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
        let make: MakeClient = {
            let (until, thrown_away) = (Arc::clone(&until), Arc::clone(&thrown_away));
            Arc::new(move |_, _| {
                Box::new(Held { until: Arc::clone(&until), thrown_away: Arc::clone(&thrown_away) })
            })
        };
        let (soon, minute) = (Duration::from_millis(20), Duration::from_secs(60));
        let limits = Limits { concurrency: 1, op_timeout: soon, nemesis_timeout: minute };
        let (stop, strike): (_, Strike) = (AtomicBool::new(false), Arc::new(|_| Err("unused".to_owned())));
        let mut runner = Runner::new(limits, make, strike, &stop, |_| Ok(()));
        let held = until.lock().expect("no holder panics");
        assert_eq!(runner.run(clients(ops("send", 1))), Ok(()));
        assert_eq!(runner.await_late_clients(soon), Ok(1));
        assert!(!thrown_away.load(Ordering::Relaxed));
        drop(held);
        assert_eq!(runner.await_late_clients(minute), Ok(0));
        assert!(thrown_away.load(Ordering::Relaxed));
        // Its answer was nobody's.
        let kinds: Vec<Kind> = runner.history().ops().map(|op| op.kind()).collect();
        assert_eq!(kinds, [Kind::Invoke, Kind::Info]);
    }

    #[test]
    fn clients_die_with_what_they_have_under_way() {
        let (until, thrown_away) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
        let lives = Arc::<Mutex<Vec<Life>>>::default();
        let make: MakeClient = {
            let (until, thrown_away, lives) =
                (Arc::clone(&until), Arc::clone(&thrown_away), Arc::clone(&lives));
            Arc::new(move |_, life| {
                lives.lock().expect("no holder panics").push(life.clone());
                Box::new(Held { until: Arc::clone(&until), thrown_away: Arc::clone(&thrown_away) })
            })
        };
        let minute = Duration::from_secs(60);
        let limits = Limits { concurrency: 2, op_timeout: minute, nemesis_timeout: minute };
        let (stop, handle) = (AtomicBool::new(false), Arc::<Mutex<Option<Clients>>>::default());
        let strike: Strike = {
            let (handle, lives) = (Arc::clone(&handle), Arc::clone(&lives));
            Arc::new(move |_| {
                // Not before there is one to die.
                while lives.lock().expect("no holder panics").is_empty() {
                    std::thread::yield_now();
                }
                let clients = handle.lock().expect("no holder panics").clone().expect("the run has begun");
                let dead = clients.crash(&(0..clients.count()).collect()).map_err(|e| e.to_string())?;
                let told: Vec<String> =
                    dead.iter().map(|dead| format!("{} {:?}", dead.process, dead.op)).collect();
                Ok(Completion {
                    kind: Kind::Info,
                    value: OpValue::Json(told.into()),
                    extra: Extra::default(),
                })
            })
        };
        let mut runner = Runner::new(limits, make, strike, &stop, |_| Ok(()));
        *handle.lock().expect("no holder panics") = Some(runner.clients());
        let held = until.lock().expect("no holder panics");
        let both = then(vec![clients(ops("send", 1)), nemesis(ops("client-crash", 1))]);
        assert_eq!(runner.run(both), Ok(()));
        let seen: Vec<String> = runner
            .history()
            .ops()
            .map(|op| format!("{}:{}:{}", op.process(), op.kind().name(), op.f().name()))
            .collect();
        let expected = "0:invoke:send nemesis:invoke:client-crash 0:info:send 1:invoke:crash 1:info:crash \
                        nemesis:info:client-crash";
        assert_eq!(seen.join(" "), expected);
        let told = runner.history().ops().last().and_then(|op| op.json().cloned());
        assert_eq!(told, Some(serde_json::json!(["0 Some(0)", "1 None"])));
        assert!(lives.lock().expect("no holder panics").iter().all(Life::is_over));
        // Its thread is waited for like any other's.
        assert_eq!(runner.await_late_clients(Duration::from_millis(20)), Ok(1));
        drop(held);
        assert_eq!(runner.await_late_clients(minute), Ok(0));
        assert!(thrown_away.load(Ordering::Relaxed));
    }

    #[test]
    fn clients_that_may_go_on_are_left_alone() {
        let thrown_away = Arc::new(AtomicBool::new(false));
        let make: MakeClient = {
            let thrown_away = Arc::clone(&thrown_away);
            Arc::new(move |_, _| {
                Box::new(Held { until: Arc::default(), thrown_away: Arc::clone(&thrown_away) })
            })
        };
        let minute = Duration::from_secs(60);
        let limits = Limits { concurrency: 1, op_timeout: minute, nemesis_timeout: minute };
        let (stop, strike): (_, Strike) = (AtomicBool::new(false), Arc::new(|_| Err("unused".to_owned())));
        let mut runner = Runner::new(limits, make, strike, &stop, |_| Ok(()));
        assert_eq!(runner.run(clients(ops("send", 1))), Ok(()));
        assert_eq!(runner.await_late_clients(minute), Ok(0));
        assert!(!thrown_away.load(Ordering::Relaxed));
        assert_eq!(runner.run(clients(ops("send", 1))), Ok(()));
    }

    #[test]
    fn what_breaks_is_a_harness_error_and_on_record() {
        let broke = check(clients(ops("break", 2)), "0:invoke:break 0:info:break").expect_err("it panicked");
        assert_eq!(broke.to_string(), "the client of process 0 panicked in op 0: as asked");
        let failed =
            check(nemesis(ops("impossible", 1)), "nemesis:invoke:impossible nemesis:info:impossible");
        assert_eq!(
            failed.expect_err("it failed").to_string(),
            "nemesis op 0 (impossible) failed: no such node"
        );
    }

    #[test]
    fn told_to_stop_it_lets_ops_end() {
        let stop = AtomicBool::new(true);
        let minute = Duration::from_secs(60);
        let limits = Limits { concurrency: 1, op_timeout: minute, nemesis_timeout: minute };
        let strike: Strike = Arc::new(|_| Err("unused".to_owned()));
        let mut runner = Runner::new(limits, Arc::new(|_, _| Box::new(Scripted)), strike, &stop, |_| Ok(()));
        assert_eq!(runner.run(clients(once(Draft::new(F::Send, OpValue::None)))), Ok(()));
        assert!(runner.history().is_empty());
        assert_eq!(runner.run_to_end(clients(once(Draft::new(F::Send, OpValue::None)))), Ok(()));
        assert_eq!(runner.into_history().len(), 2);
    }
}
