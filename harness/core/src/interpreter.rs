//! Turns a generator into a history: one state machine, used live and in simulation.
//!
//! Time and completions go in, invocations and a wake-up time come out. The driver runs the clients, on threads or in
//! an event loop, and tells every completion that it knows of before it asks for the next op: an op that was over
//! before another began must not look concurrent to it, since that would hide anomalies.
//!
//! A client process that ends an op with `info` never acts again, for nobody knows whether that op is still under way.
//! Its thread goes on as a new process, number `process + concurrency`, with a new client. A client that a fault ends is told
//! in the same way ([`Interpreter::crash`]).

use crate::client::Completion;
use crate::generator::{Ask, BoxedGenerator, Context, Draft, Generator as _, Offer, Thread, Threads};
use crate::op::{Extra, F, Kind, Op, OpValue, Process};
use std::collections::{BTreeMap, VecDeque};

/// The error of an op whose client has died.
pub const CLIENT_CRASHED: &str = "CLIENT_CRASHED";
/// The error of the op that tells of a client which has died with nothing under way.
pub const IDLE_CLIENT_CRASHED: &str = "IDLE_CLIENT_CRASHED";

/// What the driver is to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Next {
    /// Carry out this op. It is in the history.
    Invoke {
        /// On this thread.
        thread: Thread,
        /// The invocation.
        op: Box<Op>,
    },
    /// Wait for a completion or, if there is one, for this time.
    Wait {
        /// On the clock of [`Interpreter::next`].
        until_ns: Option<u64>,
    },
    /// The generator is exhausted and every op has completed.
    Done,
}

struct Running {
    f: F,
    value: OpValue,
}

/// See the module.
pub struct Interpreter {
    concurrency: u32,
    generator: BoxedGenerator,
    /// When the present generator began to be asked: generators count time from there.
    began_ns: u64,
    /// Sorted by thread.
    processes: Threads,
    running: BTreeMap<Thread, Running>,
    /// Free threads, the one that has been free for longest first.
    free: VecDeque<(Thread, Process)>,
    next_index: u64,
    last_time_ns: u64,
}

impl Interpreter {
    /// An interpreter of `concurrency` client threads and the nemesis, with nothing to do yet.
    pub fn new(concurrency: u32) -> Interpreter {
        let threads = (0..concurrency).map(Thread::Client).chain([Thread::Nemesis]);
        let processes = threads.map(|thread| match thread {
            Thread::Client(n) => (thread, Process::Client(n)),
            Thread::Nemesis => (thread, Process::Nemesis),
        });
        let processes: Threads = processes.collect();
        Interpreter {
            concurrency,
            generator: crate::generator::then(Vec::new()),
            began_ns: 0,
            free: processes.iter().copied().collect(),
            processes,
            running: BTreeMap::new(),
            next_index: 0,
            last_time_ns: 0,
        }
    }

    /// Goes on with another generator, whose time begins now.
    pub fn run(&mut self, now_ns: u64, generator: BoxedGenerator) {
        self.generator = generator;
        self.began_ns = now_ns;
    }

    /// The process that a thread runs now.
    pub fn process(&self, thread: Thread) -> Process {
        self.processes[self.place_of(thread)].1
    }

    fn place_of(&self, thread: Thread) -> usize {
        let found = self.processes.binary_search_by_key(&thread, |(thread, _)| *thread);
        found.expect("each thread has its process")
    }

    /// The threads with an op under way.
    pub fn busy(&self) -> impl Iterator<Item = Thread> {
        self.running.keys().copied()
    }

    fn context(&self, now_ns: u64) -> Context {
        Context {
            time_ns: now_ns.saturating_sub(self.began_ns),
            free: self.free.iter().copied().collect(),
            all: self.processes.clone(),
        }
    }

    /// What to do now. `now_ns` is monotonic; a clock that stands still is fine.
    pub fn next(&mut self, now_ns: u64) -> Next {
        let context = self.context(now_ns);
        match self.generator.ask(&context) {
            Ask::Exhausted if self.running.is_empty() => Next::Done,
            Ask::Exhausted => Next::Wait { until_ns: None },
            Ask::Pending(at_ns) => Next::Wait { until_ns: at_ns.map(|at_ns| at_ns + self.began_ns) },
            Ask::Offer(offer) if offer.time_ns > context.time_ns => {
                Next::Wait { until_ns: Some(offer.time_ns + self.began_ns) }
            }
            Ask::Offer(offer) => self.invoke(now_ns, &context, offer),
        }
    }

    fn invoke(&mut self, now_ns: u64, context: &Context, mut offer: Offer) -> Next {
        self.generator.take(context, &mut offer);
        let Offer { draft: Draft { f, value, from_beginning, abort }, thread, .. } = offer;
        self.free.retain(|(free, _)| *free != thread);
        self.running.insert(thread, Running { f: f.clone(), value: value.clone() });
        let extra = Extra { from_beginning, abort, ..Extra::default() };
        let op = self.record(now_ns, thread, Kind::Invoke, f, value, extra);
        let context = self.context(now_ns);
        self.generator.update(&context, &op);
        Next::Invoke { thread, op: Box::new(op) }
    }

    /// Takes in how a thread's op ended. Returns the completion as it stands in the history.
    /// Panics: the thread has no op under way.
    pub fn complete(&mut self, now_ns: u64, thread: Thread, completion: Completion) -> Op {
        let Running { f, value } =
            self.running.remove(&thread).expect("only a thread with an op completes one");
        // A completion without a value is about what was invoked.
        let value = if completion.value == OpValue::None { value } else { completion.value };
        let op = self.record(now_ns, thread, completion.kind, f, value, completion.extra);
        let context = self.context(now_ns);
        self.generator.update(&context, &op);
        if op.kind == Kind::Info
            && let Process::Client(process) = op.process
        {
            let place = self.place_of(thread);
            self.processes[place].1 = Process::Client(process + self.concurrency);
        }
        self.free.push_back((thread, self.process(thread)));
        op
    }

    /// A thread's client has died. What it had under way ends as `info`; if that is nothing, a `crash` that nobody asked for
    /// says so, for a process that is over has to be told apart from one that is silent. Returns what this adds to the
    /// history.
    pub fn crash(&mut self, now_ns: u64, thread: Thread) -> Vec<Op> {
        let mut told = Vec::new();
        let completion = if self.running.contains_key(&thread) {
            Completion::uncertain(CLIENT_CRASHED, "the client died before it had an answer")
        } else {
            self.free.retain(|(free, _)| *free != thread);
            self.running.insert(thread, Running { f: F::Crash, value: OpValue::None });
            let op = self.record(now_ns, thread, Kind::Invoke, F::Crash, OpValue::None, Extra::default());
            let context = self.context(now_ns);
            self.generator.update(&context, &op);
            told.push(op);
            Completion::uncertain(IDLE_CLIENT_CRASHED, "the client died with nothing under way")
        };
        told.push(self.complete(now_ns, thread, completion));
        told
    }

    fn record(&mut self, now_ns: u64, thread: Thread, kind: Kind, f: F, value: OpValue, extra: Extra) -> Op {
        let index = self.next_index;
        self.next_index += 1;
        self.last_time_ns = self.last_time_ns.max(now_ns);
        Op {
            index,
            time_ns: i64::try_from(self.last_time_ns).expect("a run is shorter than 292 years"),
            process: self.process(thread),
            kind,
            f,
            value,
            extra,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::{
        any, clients, delay, each_process, flip_flop, from_fn, limit, mix, nemesis, once, phases, repeat,
        reserve, stagger, then, time_limit, until_ok,
    };
    use crate::seed::Seed;

    fn draft(name: &str) -> Draft {
        Draft::new(F::from_name(name), OpValue::None)
    }

    fn ops(name: &str, n: u64) -> BoxedGenerator {
        limit(n, repeat(draft(name)))
    }

    /// Runs a generator in virtual time on two client threads and the nemesis. An op whose name ends in `?` ends as
    /// info, in `!` as fail, others as ok; each takes 10 ms. Gives one word an op: `time_ms process kind f`, where
    /// kind is left out for invocations and ok.
    fn check(generator: BoxedGenerator, expected: &str) {
        const OP_NS: u64 = 10_000_000;
        let mut interpreter = Interpreter::new(2);
        interpreter.run(0, generator);
        let mut now_ns = 0;
        let mut ending: BTreeMap<(u64, Thread), Kind> = BTreeMap::new();
        let mut words = Vec::new();
        for _ in 0..1000 {
            while let Some(entry) = ending.first_entry().filter(|entry| entry.key().0 <= now_ns) {
                let ((_, thread), kind) = entry.remove_entry();
                interpreter.complete(
                    now_ns,
                    thread,
                    Completion { kind, value: OpValue::None, extra: Extra::default() },
                );
            }
            match interpreter.next(now_ns) {
                Next::Done => {
                    assert_eq!(words.join(" "), expected);
                    return;
                }
                Next::Invoke { thread, op } => {
                    let kind = match op.f.name().chars().last() {
                        Some('?') => Kind::Info,
                        Some('!') => Kind::Fail,
                        _ => Kind::Ok,
                    };
                    let process = op.process.to_string().replace("nemesis", "N");
                    words.push(format!("{}:{}:{}", now_ns / 1_000_000, process, op.f.name()));
                    ending.insert((now_ns + OP_NS, thread), kind);
                }
                Next::Wait { until_ns } => {
                    let completion_ns = ending.first_key_value().map(|((at_ns, _), _)| *at_ns);
                    now_ns = until_ns
                        .into_iter()
                        .chain(completion_ns)
                        .filter(|at_ns| *at_ns > now_ns)
                        .min()
                        .expect("a generator that waits, waits for something");
                }
            }
        }
        panic!("no end: {}", words.join(" "));
    }

    #[test]
    fn one_op_goes_to_one_free_thread() {
        check(once(draft("a")), "0:0:a");
        check(clients(ops("a", 4)), "0:0:a 0:1:a 10:0:a 10:1:a");
        check(ops("a", 3), "0:0:a 0:1:a 0:N:a");
    }

    #[test]
    fn info_retires_the_process_but_not_the_nemesis() {
        check(clients(ops("a?", 5)), "0:0:a? 0:1:a? 10:2:a? 10:3:a? 20:4:a?");
        check(clients(ops("a!", 3)), "0:0:a! 0:1:a! 10:0:a!");
        check(nemesis(ops("a?", 2)), "0:N:a? 10:N:a?");
    }

    #[test]
    fn a_client_that_dies_is_told_of_and_another_takes_its_place() {
        let mut interpreter = Interpreter::new(2);
        interpreter.run(0, clients(ops("a", 3)));
        let Next::Invoke { thread, .. } = interpreter.next(0) else { panic!("a thread is free") };
        let idle = if thread == Thread::Client(0) { Thread::Client(1) } else { Thread::Client(0) };
        let word = |op: &Op| format!("{}:{}:{}", op.process, op.kind.name(), op.f.name());
        let told: Vec<String> = [thread, idle]
            .into_iter()
            .flat_map(|thread| interpreter.crash(5, thread))
            .map(|op| word(&op))
            .collect();
        assert_eq!(told, ["0:info:a", "1:invoke:crash", "1:info:crash"]);
        assert_eq!(
            (interpreter.process(thread), interpreter.process(idle)),
            (Process::Client(2), Process::Client(3))
        );
        // And both act again.
        for expected in ["2:invoke:a", "3:invoke:a"] {
            let Next::Invoke { op, .. } = interpreter.next(5) else { panic!("a thread is free") };
            assert_eq!(word(&op), expected);
        }
    }

    #[test]
    fn then_goes_on_at_once_and_phases_wait() {
        check(clients(then(vec![ops("a", 1), ops("b", 1)])), "0:0:a 0:1:b");
        check(clients(phases(vec![ops("a", 1), ops("b", 1)])), "0:0:a 10:1:b");
        check(clients(phases(vec![ops("a", 3), ops("b", 1)])), "0:0:a 0:1:a 10:0:a 20:1:b");
    }

    #[test]
    fn time_limits_and_delays() {
        check(clients(time_limit(25_000_000, repeat(draft("a")))), "0:0:a 0:1:a 10:0:a 10:1:a 20:0:a 20:1:a");
        check(clients(delay(4_000_000, ops("a", 4))), "0:0:a 4:1:a 10:0:a 14:1:a");
        check(clients(time_limit(5_000_000, delay(4_000_000, repeat(draft("a"))))), "0:0:a 4:1:a");
    }

    #[test]
    fn any_takes_the_soonest_and_keeps_the_other() {
        check(
            any(vec![clients(delay(20_000_000, ops("a", 2))), nemesis(delay(15_000_000, ops("n", 3)))]),
            "0:0:a 0:N:n 15:N:n 20:1:a 30:N:n",
        );
    }

    #[test]
    fn reserve_binds_threads() {
        check(clients(reserve(vec![(1, ops("a", 2))], ops("b", 3))), "0:0:a 0:1:b 10:0:a 10:1:b 20:1:b");
    }

    #[test]
    fn each_process_has_its_own() {
        check(
            clients(limit(5, each_process(|_| once(draft("a?"))))),
            "0:0:a? 0:1:a? 10:2:a? 10:3:a? 20:4:a?",
        );
        check(clients(each_process(|_| once(draft("a")))), "0:0:a 0:1:a");
    }

    #[test]
    fn until_ok_tries_again() {
        let tries = from_fn(|taken, _| Some(draft(if taken < 2 { "a!" } else { "a" })));
        check(limit(9, on_first(until_ok(tries))), "0:0:a! 10:0:a! 20:0:a");
    }

    fn on_first(inner: BoxedGenerator) -> BoxedGenerator {
        crate::generator::on_threads(|thread| thread == Thread::Client(0), inner)
    }

    #[test]
    fn flip_flop_alternates() {
        check(on_first(flip_flop(ops("a", 2), ops("b", 1))), "0:0:a 10:0:b 20:0:a");
    }

    /// A mix that is stagger'ed: what is offered and then not taken (since its time had not come) is not lost.
    #[test]
    fn asking_is_not_committing() {
        let mixed = mix(vec![(1, ops("a", 20)), (3, ops("b", 20))], Seed(1).stream("test", "mix"));
        let mut interpreter = Interpreter::new(2);
        interpreter.run(0, clients(stagger(7_000_000, Seed(1).stream("test", "stagger"), mixed)));
        let mut seen = BTreeMap::new();
        let mut now_ns = 0;
        loop {
            for thread in interpreter.busy().collect::<Vec<_>>() {
                let done = Completion { kind: Kind::Ok, value: OpValue::None, extra: Extra::default() };
                interpreter.complete(now_ns, thread, done);
            }
            match interpreter.next(now_ns) {
                Next::Done => break,
                Next::Invoke { op, .. } => *seen.entry(op.f.name().to_owned()).or_insert(0) += 1,
                Next::Wait { .. } => now_ns += 100_000,
            }
        }
        assert_eq!(seen, BTreeMap::from([("a".to_owned(), 20), ("b".to_owned(), 20)]));
        assert!((100_000_000..600_000_000).contains(&now_ns), "40 ops every 7 ms took {now_ns} ns");
    }
}
