//! Jepsen's combinators.

use super::{Ask, BoxedGenerator, Context, Draft, Generator, Offer, Thread};
use crate::op::{Kind, Op, Process};
use crate::seed::Stream;
use rand::RngExt as _;
use std::collections::BTreeMap;

/// The op that `make` gives for the number of ops taken so far, again and again, without end. `None` ends it.
pub fn from_fn(make: impl Fn(u64, &Context) -> Option<Draft> + Send + 'static) -> BoxedGenerator {
    struct FromFn<M> {
        make: M,
        taken: u64,
    }
    impl<M: Fn(u64, &Context) -> Option<Draft>> Generator for FromFn<M> {
        fn ask(&self, context: &Context) -> Ask {
            let Some(draft) = (self.make)(self.taken, context) else { return Ask::Exhausted };
            Offer::now(context, draft).map_or(Ask::Pending(None), Ask::Offer)
        }
        fn take(&mut self, _: &Context, _: &mut Offer) {
            self.taken += 1;
        }
        fn update(&mut self, _: &Context, _: &Op) {}
    }
    Box::new(FromFn { make, taken: 0 })
}

/// One op, once.
pub fn once(draft: Draft) -> BoxedGenerator {
    from_fn(move |taken, _| (taken == 0).then(|| draft.clone()))
}

/// No op, for so long.
pub fn idle(until_ns: u64) -> BoxedGenerator {
    struct Idle(u64);
    impl Generator for Idle {
        fn ask(&self, context: &Context) -> Ask {
            if context.time_ns >= self.0 { Ask::Exhausted } else { Ask::Pending(Some(self.0)) }
        }
        fn take(&mut self, _: &Context, _: &mut Offer) {}
        fn update(&mut self, _: &Context, _: &Op) {}
    }
    Box::new(Idle(until_ns))
}

/// The same op without end.
pub fn repeat(draft: Draft) -> BoxedGenerator {
    from_fn(move |_, _| Some(draft.clone()))
}

/// The first `n` ops of a generator.
pub fn limit(n: u64, inner: BoxedGenerator) -> BoxedGenerator {
    struct Limit {
        left: u64,
        inner: BoxedGenerator,
    }
    impl Generator for Limit {
        fn ask(&self, context: &Context) -> Ask {
            if self.left == 0 { Ask::Exhausted } else { self.inner.ask(context) }
        }
        fn take(&mut self, context: &Context, offer: &mut Offer) {
            self.left -= 1;
            self.inner.take(context, offer);
        }
        fn update(&mut self, context: &Context, op: &Op) {
            self.inner.update(context, op);
        }
    }
    Box::new(Limit { left: n, inner })
}

/// One generator after another, the next as soon as the one before has nothing more to offer.
pub fn then(parts: Vec<BoxedGenerator>) -> BoxedGenerator {
    Box::new(Then { parts, synchronize: false })
}

/// One generator after another, each once all ops of the ones before have completed.
pub fn phases(parts: Vec<BoxedGenerator>) -> BoxedGenerator {
    Box::new(Then { parts, synchronize: true })
}

struct Then {
    parts: Vec<BoxedGenerator>,
    synchronize: bool,
}

impl Generator for Then {
    fn ask(&self, context: &Context) -> Ask {
        for (i, part) in self.parts.iter().enumerate() {
            let begun_by_others = i > 0;
            if begun_by_others && self.synchronize && context.free.len() < context.all.len() {
                return Ask::Pending(None);
            }
            match part.ask(context) {
                Ask::Exhausted => {}
                Ask::Offer(mut offer) => {
                    offer.route.push(i as u16);
                    return Ask::Offer(offer);
                }
                pending @ Ask::Pending(_) => return pending,
            }
        }
        Ask::Exhausted
    }
    fn take(&mut self, context: &Context, offer: &mut Offer) {
        let i = offer.route.pop().expect("the route that this combinator added");
        self.parts.drain(..usize::from(i));
        self.parts[0].take(context, offer);
    }
    fn update(&mut self, context: &Context, op: &Op) {
        // Only the part that is under way hears of ops: a later one begins with what it sees itself.
        if let Some(part) = self.parts.first_mut() {
            part.update(context, op);
        }
    }
}

/// Each op from one of the generators, drawn by weight; one that is exhausted is not drawn any more.
pub fn mix(parts: Vec<(u32, BoxedGenerator)>, mut random: Stream) -> BoxedGenerator {
    struct Mix {
        parts: Vec<(u32, BoxedGenerator)>,
        random: Stream,
        /// The next draw, made ahead so that asking twice asks the same.
        drawn: u64,
    }
    impl Mix {
        /// The parts, beginning with the one drawn, then the others in order.
        fn order(&self) -> impl Iterator<Item = usize> {
            let total: u64 = self.parts.iter().map(|(weight, _)| u64::from(*weight)).sum();
            let mut rest = self.drawn % total.max(1);
            let first = self.parts.iter().position(|(weight, _)| {
                let hit = rest < u64::from(*weight);
                rest = rest.saturating_sub(u64::from(*weight));
                hit
            });
            first.into_iter().chain((0..self.parts.len()).filter(move |i| Some(*i) != first))
        }
    }
    impl Generator for Mix {
        fn ask(&self, context: &Context) -> Ask {
            for i in self.order() {
                match self.parts[i].1.ask(context) {
                    Ask::Exhausted => {}
                    Ask::Offer(mut offer) => {
                        offer.route.push(i as u16);
                        return Ask::Offer(offer);
                    }
                    pending @ Ask::Pending(_) => return pending,
                }
            }
            Ask::Exhausted
        }
        fn take(&mut self, context: &Context, offer: &mut Offer) {
            let i = offer.route.pop().expect("the route that this combinator added");
            self.parts[usize::from(i)].1.take(context, offer);
            self.drawn = self.random.random();
        }
        fn update(&mut self, context: &Context, op: &Op) {
            self.parts.iter_mut().for_each(|(_, part)| part.update(context, op));
        }
    }
    let drawn = random.random();
    Box::new(Mix { parts, random, drawn })
}

/// Whichever generator has an op soonest; of two at the same time the first.
pub fn any(parts: Vec<BoxedGenerator>) -> BoxedGenerator {
    struct Any {
        parts: Vec<BoxedGenerator>,
    }
    impl Generator for Any {
        fn ask(&self, context: &Context) -> Ask {
            let mut best: Option<Offer> = None;
            let mut wake: Option<u64> = None;
            let mut exhausted = true;
            for (i, part) in self.parts.iter().enumerate() {
                match part.ask(context) {
                    Ask::Exhausted => continue,
                    Ask::Pending(at) => wake = sooner(wake, at),
                    Ask::Offer(mut offer) => {
                        offer.route.push(i as u16);
                        if best.as_ref().is_none_or(|best| offer.time_ns < best.time_ns) {
                            best = Some(offer);
                        }
                    }
                }
                exhausted = false;
            }
            // A part that wakes up before the best offer's time may then have a sooner one.
            let wakes_before =
                |offer: &Offer| wake.is_some_and(|at| context.time_ns < at && at < offer.time_ns);
            match best {
                Some(offer) if wakes_before(&offer) => Ask::Pending(wake),
                Some(offer) => Ask::Offer(offer),
                None if exhausted => Ask::Exhausted,
                None => Ask::Pending(wake),
            }
        }
        fn take(&mut self, context: &Context, offer: &mut Offer) {
            let i = offer.route.pop().expect("the route that this combinator added");
            self.parts[usize::from(i)].take(context, offer);
        }
        fn update(&mut self, context: &Context, op: &Op) {
            self.parts.iter_mut().for_each(|part| part.update(context, op));
        }
    }
    Box::new(Any { parts })
}

fn sooner(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Ops no faster than one every `mean_ns` on average, at random intervals of up to twice that, from whichever thread.
///
/// It keeps to its rate over time: when ops are held up it catches up, but for at most a second, so that the end of a
/// fault is not followed by a flood.
pub fn stagger(mean_ns: u64, mut random: Stream, inner: BoxedGenerator) -> BoxedGenerator {
    const MAX_BACKLOG_NS: u64 = 1_000_000_000;
    struct Stagger {
        mean_ns: u64,
        random: Stream,
        next_ns: u64,
        inner: BoxedGenerator,
    }
    impl Generator for Stagger {
        fn ask(&self, context: &Context) -> Ask {
            // What would be offered may be another thing by then, and drawing it takes time.
            if context.time_ns < self.next_ns {
                return Ask::Pending(Some(self.next_ns));
            }
            self.inner.ask(context)
        }
        fn take(&mut self, context: &Context, offer: &mut Offer) {
            let interval_ns = self.random.random_range(0..=self.mean_ns.saturating_mul(2));
            self.next_ns = self.next_ns.max(context.time_ns.saturating_sub(MAX_BACKLOG_NS)) + interval_ns;
            self.inner.take(context, offer);
        }
        fn update(&mut self, context: &Context, op: &Op) {
            self.inner.update(context, op);
        }
    }
    let next_ns = random.random_range(0..=mean_ns);
    Box::new(Stagger { mean_ns, random, next_ns, inner })
}

/// Ops with at least `interval_ns` between the beginnings of two.
pub fn delay(interval_ns: u64, inner: BoxedGenerator) -> BoxedGenerator {
    struct Delay {
        interval_ns: u64,
        next_ns: u64,
        inner: BoxedGenerator,
    }
    impl Generator for Delay {
        fn ask(&self, context: &Context) -> Ask {
            match self.inner.ask(context) {
                Ask::Offer(mut offer) => {
                    offer.time_ns = offer.time_ns.max(self.next_ns);
                    Ask::Offer(offer)
                }
                other => other,
            }
        }
        fn take(&mut self, context: &Context, offer: &mut Offer) {
            self.next_ns = context.time_ns + self.interval_ns;
            self.inner.take(context, offer);
        }
        fn update(&mut self, context: &Context, op: &Op) {
            self.inner.update(context, op);
        }
    }
    Box::new(Delay { interval_ns, next_ns: 0, inner })
}

/// The ops of a generator that begin within `limit_ns` of the first time that it is asked for one it can offer.
pub fn time_limit(limit_ns: u64, inner: BoxedGenerator) -> BoxedGenerator {
    struct TimeLimit {
        limit_ns: u64,
        /// Fixed when the first op is taken; until then the limit runs from the moment of asking.
        deadline_ns: Option<u64>,
        inner: BoxedGenerator,
    }
    impl Generator for TimeLimit {
        fn ask(&self, context: &Context) -> Ask {
            let deadline_ns = self.deadline_ns.unwrap_or(context.time_ns.saturating_add(self.limit_ns));
            if context.time_ns >= deadline_ns {
                return Ask::Exhausted;
            }
            match self.inner.ask(context) {
                Ask::Offer(offer) if offer.time_ns >= deadline_ns => Ask::Exhausted,
                // Without this a generator that waits for something which never comes would outlive its time.
                Ask::Pending(at) => Ask::Pending(sooner(at, Some(deadline_ns))),
                other => other,
            }
        }
        fn take(&mut self, context: &Context, offer: &mut Offer) {
            self.deadline_ns.get_or_insert(context.time_ns.saturating_add(self.limit_ns));
            self.inner.take(context, offer);
        }
        fn update(&mut self, context: &Context, op: &Op) {
            self.inner.update(context, op);
        }
    }
    Box::new(TimeLimit { limit_ns, deadline_ns: None, inner })
}

/// A generator's ops, by these threads only.
pub fn on_threads(keep: impl Fn(Thread) -> bool + Send + 'static, inner: BoxedGenerator) -> BoxedGenerator {
    struct OnThreads<K> {
        keep: K,
        inner: BoxedGenerator,
    }
    impl<K: Fn(Thread) -> bool> Generator for OnThreads<K> {
        fn ask(&self, context: &Context) -> Ask {
            self.inner.ask(&context.restrict(&self.keep))
        }
        fn take(&mut self, context: &Context, offer: &mut Offer) {
            self.inner.take(&context.restrict(&self.keep), offer);
        }
        fn update(&mut self, context: &Context, op: &Op) {
            if context.thread_of(op.process).is_some_and(&self.keep) {
                self.inner.update(&context.restrict(&self.keep), op);
            }
        }
    }
    Box::new(OnThreads { keep, inner })
}

/// A generator's ops, by clients only.
pub fn clients(inner: BoxedGenerator) -> BoxedGenerator {
    on_threads(|thread| thread != Thread::Nemesis, inner)
}

/// A generator's ops, by the nemesis only.
pub fn nemesis(inner: BoxedGenerator) -> BoxedGenerator {
    on_threads(|thread| thread == Thread::Nemesis, inner)
}

/// The first generators get so many client threads each, the last all others.
pub fn reserve(parts: Vec<(u32, BoxedGenerator)>, rest: BoxedGenerator) -> BoxedGenerator {
    let mut begin = 0;
    let mut bound = Vec::new();
    for (count, part) in parts {
        let threads = begin..begin + count;
        bound.push(on_threads(move |t| matches!(t, Thread::Client(n) if threads.contains(&n)), part));
        begin += count;
    }
    bound.push(on_threads(move |t| matches!(t, Thread::Client(n) if n >= begin), rest));
    any(bound)
}

/// A generator of its own for each process that comes along.
pub fn each_process(make: impl Fn(Process) -> BoxedGenerator + Send + 'static) -> BoxedGenerator {
    struct EachProcess<M> {
        make: M,
        running: BTreeMap<Process, BoxedGenerator>,
    }
    impl<M: Fn(Process) -> BoxedGenerator> EachProcess<M> {
        fn alone(context: &Context, thread: Thread) -> Context {
            context.restrict(|t| t == thread)
        }
    }
    impl<M: Fn(Process) -> BoxedGenerator> Generator for EachProcess<M> {
        fn ask(&self, context: &Context) -> Ask {
            let mut best: Option<Offer> = None;
            let mut wake = None;
            let mut exhausted = true;
            for (thread, process) in &context.all {
                let alone = Self::alone(context, *thread);
                let answer = match self.running.get(process) {
                    Some(running) => running.ask(&alone),
                    None => (self.make)(*process).ask(&alone),
                };
                match answer {
                    Ask::Exhausted => continue,
                    Ask::Pending(at) => wake = sooner(wake, at),
                    Ask::Offer(offer) => {
                        if best.as_ref().is_none_or(|best| offer.time_ns < best.time_ns) {
                            best = Some(offer);
                        }
                    }
                }
                exhausted = false;
            }
            match best {
                Some(offer) => Ask::Offer(offer),
                None if exhausted => Ask::Exhausted,
                None => Ask::Pending(wake),
            }
        }
        fn take(&mut self, context: &Context, offer: &mut Offer) {
            let (_, process) = context
                .all
                .iter()
                .find(|(thread, _)| *thread == offer.thread)
                .expect("an offer is made to a thread of the context");
            let running = self.running.entry(*process).or_insert_with(|| (self.make)(*process));
            running.take(&Self::alone(context, offer.thread), offer);
        }
        fn update(&mut self, context: &Context, op: &Op) {
            let Some(thread) = context.thread_of(op.process) else { return };
            if let Some(running) = self.running.get_mut(&op.process) {
                running.update(&Self::alone(context, thread), op);
            }
        }
    }
    Box::new(EachProcess { make, running: BTreeMap::new() })
}

/// A generator's ops until one of them completes ok.
pub fn until_ok(inner: BoxedGenerator) -> BoxedGenerator {
    struct UntilOk {
        done: bool,
        /// Who has an op of this generator under way.
        asked: Vec<Process>,
        inner: BoxedGenerator,
    }
    impl Generator for UntilOk {
        fn ask(&self, context: &Context) -> Ask {
            if self.done { Ask::Exhausted } else { self.inner.ask(context) }
        }
        fn take(&mut self, context: &Context, offer: &mut Offer) {
            let process = context.all.iter().find(|(thread, _)| *thread == offer.thread).map(|(_, p)| *p);
            self.asked.extend(process);
            self.inner.take(context, offer);
        }
        fn update(&mut self, context: &Context, op: &Op) {
            if op.kind != Kind::Invoke
                && let Some(i) = self.asked.iter().position(|process| *process == op.process)
            {
                self.asked.swap_remove(i);
                self.done |= op.kind == Kind::Ok;
            }
            self.inner.update(context, op);
        }
    }
    Box::new(UntilOk { done: false, asked: Vec::new(), inner })
}

/// One op from the first, one from the second, and so on in turn, until the one whose turn it is has none.
pub fn flip_flop(a: BoxedGenerator, b: BoxedGenerator) -> BoxedGenerator {
    struct FlipFlop {
        parts: [BoxedGenerator; 2],
        turn: usize,
    }
    impl Generator for FlipFlop {
        fn ask(&self, context: &Context) -> Ask {
            self.parts[self.turn].ask(context)
        }
        fn take(&mut self, context: &Context, offer: &mut Offer) {
            self.parts[self.turn].take(context, offer);
            self.turn = 1 - self.turn;
        }
        fn update(&mut self, context: &Context, op: &Op) {
            self.parts.iter_mut().for_each(|part| part.update(context, op));
        }
    }
    Box::new(FlipFlop { parts: [a, b], turn: 0 })
}
