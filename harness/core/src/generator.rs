//! Generators: what to do next, as Jepsen's `jepsen.generator` has it.
//!
//! A generator is asked for an op ([`Generator::ask`], `&self`: asking is not committing), and told when the op that
//! it offered is taken ([`Generator::take`]) and what happens to the ops of the run ([`Generator::update`]). Asked twice
//! without anything in between, it offers the same op. Whoever asks may thus look at several generators and take from
//! one only ([`any`]), or find that the op's time has not come and ask again later.
//!
//! An op is offered to a free thread of the [`Context`]; combinators that bind generators to threads ([`clients`],
//! [`nemesis`], [`reserve`], [`each_process`]) narrow the context down.

mod combinators;
mod script;
pub use combinators::{
    any, clients, delay, each_process, flip_flop, from_fn, idle, limit, mix, nemesis, on_threads, once,
    phases, repeat, reserve, stagger, then, time_limit, until_ok,
};
pub use script::{PlannedOp, script};

use crate::op::{F, Op, OpValue, Process};
use smallvec::SmallVec;

/// A thread of the interpreter: client threads are numbered from 0. A thread outlives the processes that it runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Thread {
    /// Runs client processes, one after another.
    Client(u32),
    /// Runs the nemesis.
    Nemesis,
}

/// Threads, each with the process that it runs. A generator makes a new list at each of its levels, each time that it is
/// asked: most are short.
pub type Threads = SmallVec<[(Thread, Process); 8]>;

/// What a generator may know of the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Context {
    /// Nanoseconds since the generator began to be asked.
    pub time_ns: u64,
    /// The threads that may act, each with the process it runs, the one that has been free for longest first.
    pub free: Threads,
    /// All threads, busy or free, each with the process it runs, sorted by thread.
    pub all: Threads,
}

impl Context {
    /// The same moment, with only the threads that `keep` wants.
    pub fn restrict(&self, keep: impl Fn(Thread) -> bool) -> Context {
        let only = |threads: &Threads| threads.iter().copied().filter(|(t, _)| keep(*t)).collect();
        Context { time_ns: self.time_ns, free: only(&self.free), all: only(&self.all) }
    }

    /// The thread that has been free for longest.
    pub fn next_free(&self) -> Option<(Thread, Process)> {
        self.free.first().copied()
    }

    /// The thread that runs this process.
    pub fn thread_of(&self, process: Process) -> Option<Thread> {
        self.all.iter().find(|(_, p)| *p == process).map(|(thread, _)| *thread)
    }
}

/// An op to be.
#[derive(Clone, PartialEq, Debug)]
pub struct Draft {
    /// What.
    pub f: F,
    /// About what.
    pub value: OpValue,
    /// Whether an `assign` starts over.
    pub from_beginning: bool,
    /// Whether a transaction is to be aborted.
    pub abort: bool,
}

impl Draft {
    /// An op without further ado.
    pub fn new(f: F, value: OpValue) -> Draft {
        Draft { f, value, from_beginning: false, abort: false }
    }
}

/// A generator's answer.
#[derive(Clone, PartialEq, Debug)]
pub enum Ask {
    /// This op, by this thread, at this time or, if that is past, now.
    Offer(Offer),
    /// Nothing now; ask again when something has happened, or at this time if one is given.
    Pending(Option<u64>),
    /// Nothing more, ever.
    Exhausted,
}

/// An op that may be taken.
#[derive(Clone, PartialEq, Debug)]
pub struct Offer {
    /// The op.
    pub draft: Draft,
    /// Who is to do it.
    pub thread: Thread,
    /// Not before this time, on the context's clock.
    pub time_ns: u64,
    /// Which way through the combinators the offer came, the innermost first: each combinator that chooses among
    /// generators adds its choice here on asking, and takes it off again in [`Generator::take`].
    pub route: Vec<u16>,
}

impl Offer {
    /// An offer to the thread that has been free for longest, for now. `None` if no thread is free.
    pub fn now(context: &Context, draft: Draft) -> Option<Offer> {
        let (thread, _) = context.next_free()?;
        Some(Offer { draft, thread, time_ns: context.time_ns, route: Vec::new() })
    }
}

/// Decides what is done next.
pub trait Generator {
    /// What it would have done now.
    fn ask(&self, context: &Context) -> Ask;

    /// The offer that it made in this context is taken.
    fn take(&mut self, context: &Context, offer: &mut Offer);

    /// An op was invoked or completed, its own or another's. `context` is that before the completion, so that the
    /// op's process still has its thread.
    fn update(&mut self, context: &Context, op: &Op);
}

/// Any generator.
pub type BoxedGenerator = Box<dyn Generator + Send>;

impl Generator for BoxedGenerator {
    fn ask(&self, context: &Context) -> Ask {
        (**self).ask(context)
    }
    fn take(&mut self, context: &Context, offer: &mut Offer) {
        (**self).take(context, offer);
    }
    fn update(&mut self, context: &Context, op: &Op) {
        (**self).update(context, op);
    }
}
