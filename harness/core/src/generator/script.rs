//! Ops that were decided before: each by its thread, at its time.

use super::{Ask, BoxedGenerator, Context, Draft, Generator, Offer, Thread};
use crate::op::Op;
use std::collections::{BTreeMap, VecDeque};

/// An op that is decided: what a run's plan holds once its generator has been asked, and all that is left of it in a
/// scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedOp {
    /// When, since the main phase began. Units: nanoseconds.
    pub time_ns: u64,
    /// On which client thread.
    pub thread: u32,
    /// What.
    pub draft: Draft,
}

/// Offers each op to its thread at its time, or as soon after it as the thread is free; a thread's ops in the order given.
pub fn script(ops: Vec<PlannedOp>) -> BoxedGenerator {
    let mut queues: BTreeMap<Thread, VecDeque<(usize, PlannedOp)>> = BTreeMap::new();
    for (place, op) in ops.into_iter().enumerate() {
        queues.entry(Thread::Client(op.thread)).or_default().push_back((place, op));
    }
    Box::new(Script { queues })
}

struct Script {
    /// What each thread has yet to do, with its place in the script; none is empty.
    queues: BTreeMap<Thread, VecDeque<(usize, PlannedOp)>>,
}

impl Generator for Script {
    fn ask(&self, context: &Context) -> Ask {
        if self.queues.is_empty() {
            return Ask::Exhausted;
        }
        let heads = context.free.iter().filter_map(|(thread, _)| {
            let (place, op) = self.queues.get(thread)?.front()?;
            Some((op.time_ns.max(context.time_ns), *place, *thread, &op.draft))
        });
        // Of two that are due the one that was written down first: a run that is replayed goes the same way.
        match heads.min_by_key(|(time_ns, place, ..)| (*time_ns, *place)) {
            Some((time_ns, _, thread, draft)) => {
                Ask::Offer(Offer { draft: draft.clone(), thread, time_ns, route: Vec::new() })
            }
            None => Ask::Pending(None),
        }
    }

    fn take(&mut self, _: &Context, offer: &mut Offer) {
        let queue = self.queues.get_mut(&offer.thread).expect("it made the offer");
        queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&offer.thread);
        }
    }

    fn update(&mut self, _: &Context, _: &Op) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Completion;
    use crate::interpreter::{Interpreter, Next};
    use crate::op::{Extra, F, Kind, OpValue};

    /// Runs a script on two threads, each op taking so long. Gives `time thread f` of each.
    fn check(ops: &[(u64, u32, &str)], op_ns: u64, expected: &str) {
        let planned = ops.iter().map(|(time_ns, thread, f)| PlannedOp {
            time_ns: *time_ns,
            thread: *thread,
            draft: Draft::new(F::from_name(f), OpValue::None),
        });
        let mut interpreter = Interpreter::new(2);
        interpreter.run(0, script(planned.collect()));
        let (mut now_ns, mut running, mut words) = (0, Vec::new(), Vec::new());
        loop {
            running.sort_unstable();
            while let Some((_, thread)) = running.first().copied().filter(|(end_ns, _)| *end_ns <= now_ns) {
                running.remove(0);
                let done = Completion { kind: Kind::Ok, value: OpValue::None, extra: Extra::default() };
                interpreter.complete(now_ns, thread, done);
            }
            match interpreter.next(now_ns) {
                Next::Done => break,
                Next::Invoke { thread, op } => {
                    let Thread::Client(n) = thread else { panic!("clients only") };
                    words.push(format!("{now_ns} {n} {}", op.f.name()));
                    running.push((now_ns + op_ns, thread));
                }
                Next::Wait { until_ns } => {
                    let end_ns = running.iter().map(|(end_ns, _)| *end_ns).min();
                    now_ns = end_ns.into_iter().chain(until_ns).min().expect("something is to come");
                }
            }
        }
        assert_eq!(words.join(", "), expected);
    }

    #[test]
    fn each_thread_does_its_own_at_its_time() {
        check(&[], 1, "");
        check(&[(5, 0, "a"), (5, 1, "b"), (7, 0, "c")], 1, "5 0 a, 5 1 b, 7 0 c");
        // A thread that is late does what it has to, in order, and holds up nobody.
        check(&[(0, 0, "a"), (1, 0, "b"), (2, 1, "c"), (3, 0, "d")], 10, "0 0 a, 2 1 c, 10 0 b, 20 0 d");
        // Two that are due at once go in the order of the script.
        check(&[(0, 1, "a"), (0, 0, "b")], 10, "0 1 a, 0 0 b");
    }
}
