//! Once more, in a cluster that is whole: each kind of consumer goes on after an abort, before the final reads.
//!
//! A run of few ops, or of many faults, may see nobody read on after an abort, and would then say nothing. Here all clients
//! are thrown away, and for each way to come by keys one process takes a key, feeds it, reads in a transaction that is
//! aborted, feeds what it has read, and reads until it has read on in such a key. If the cluster does not let it, it gives up
//! in time: that is for the final reads to tell.

use super::has_read;
use crate::Last;
use riprap_core::History;
use riprap_core::client::SubscribeVia;
use riprap_core::generator::{
    Ask, BoxedGenerator, Context, Draft, Generator, Offer, Thread, clients, on_threads, once, phases,
    time_limit,
};
use riprap_core::op::{F, Key, Kind, Mop, Op, OpValue, Value};
use std::collections::BTreeMap;

/// How long all ways may take: a group first has to find out that its members were thrown away, and one that was about to
/// share out its keys waits for them as long as a member may take to poll.
const LIMIT_MS: u64 = 40_000;
/// They take at most this part of the time for the final reads.
const LIMIT_SHARE: u64 = 3;
/// How long it waits before it tries again what went wrong, or brought nothing.
const RETRY_NS: u64 = 300_000_000;
/// Each way gives up after so many ops: a key gets no more values from it, and who comes after leaves them out.
const MAX_OPS: i64 = 128;
/// Who does it.
const THREAD: Thread = Thread::Client(0);

/// How many values a key may be given, in so many ways.
pub(super) fn spare_values(ways: &[SubscribeVia]) -> i64 {
    MAX_OPS * i64::try_from(ways.len()).expect("a handful")
}

/// What is done between a run of this history and its final reads, which may take `limit_ms` together.
pub(super) fn encore(
    history: &History,
    (inputs, outputs): (&[Key], &[Key]),
    ways: &[SubscribeVia],
    concurrency: u32,
    limit_ms: u64,
) -> BoxedGenerator {
    // A key that nobody has asked for may not exist, and the final reads do not look for it.
    let last = Last::of(history).0;
    let known = |keys: &[Key]| keys.iter().copied().find(|key| last.contains_key(key));
    let Some(input) = known(inputs) else { return phases(Vec::new()) };
    let crash = |thread| {
        let crash = once(Draft::new(F::Crash, OpValue::None));
        on_threads(move |other| other == Thread::Client(thread), crash)
    };
    let limit_ms = LIMIT_MS.min(limit_ms / LIMIT_SHARE);
    let one = |(n, via): (i64, &SubscribeVia)| -> BoxedGenerator {
        let next = last.iter().map(|(key, value)| (*key, value.0.saturating_add(1 + n * MAX_OPS)));
        let encore = Encore {
            via: *via,
            input,
            output: known(outputs),
            next: next.collect(),
            step: Step::Take,
            open: Vec::new(),
            ops_left: MAX_OPS,
            waiting: false,
            not_before_ns: 0,
        };
        on_threads(|thread| thread == THREAD, Box::new(encore))
    };
    // A client is gone for certain only when the next process of its thread has begun, and until then a group waits for it.
    let crashes = (0..concurrency).chain(0..concurrency).map(crash);
    let parts = phases(crashes.chain((0..).zip(ways).map(one)).collect());
    clients(time_limit(limit_ms * 1_000_000, parts))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Take,
    Feed,
    Abort,
    /// Until it reads on.
    Commit,
    Done,
}

struct Encore {
    via: SubscribeVia,
    input: Key,
    output: Option<Key>,
    /// The next value of each key.
    next: BTreeMap<Key, i64>,
    step: Step,
    /// What the aborted transaction has read.
    open: Vec<Key>,
    ops_left: i64,
    /// An op is under way.
    waiting: bool,
    /// Units: nanoseconds of the context's clock.
    not_before_ns: u64,
}

impl Encore {
    fn draft(&self) -> Option<Draft> {
        let (f, value, abort) = match self.step {
            Step::Take => {
                let f = if self.via == SubscribeVia::Assign { F::Assign } else { F::Subscribe };
                (f, OpValue::Keys(vec![self.input]), false)
            }
            Step::Feed if self.open.is_empty() => (F::Txn, OpValue::Mops(self.sends(&[self.input])), false),
            Step::Feed => (F::Txn, OpValue::Mops(self.sends(&self.open)), false),
            Step::Abort | Step::Commit => {
                let mut mops = vec![Mop::Poll(None)];
                mops.extend(self.sends(self.output.as_slice()));
                (F::Txn, OpValue::Mops(mops), self.step == Step::Abort)
            }
            Step::Done => return None,
        };
        Some(Draft { abort, ..Draft::new(f, value) })
    }

    fn sends(&self, keys: &[Key]) -> Vec<Mop> {
        // What is read but was never written is another's, and has no next value.
        let next = keys.iter().filter_map(|key| Some((*key, Value(*self.next.get(key)?))));
        next.map(|(key, value)| Mop::Send { key, value, offset: None }).collect()
    }

    fn ended(&mut self, time_ns: u64, op: &Op) {
        let before = self.step;
        self.step = match (before, op.kind) {
            // The client is gone, and with it what it held.
            (_, Kind::Info) => {
                self.open.clear();
                Step::Take
            }
            (Step::Take, Kind::Ok) => Step::Feed,
            (Step::Feed, Kind::Ok) if self.open.is_empty() => Step::Abort,
            (Step::Feed, Kind::Ok) => Step::Commit,
            (Step::Abort, _) if has_read(op) => {
                self.open = keys_read(op);
                Step::Feed
            }
            (Step::Commit, _) if keys_read(op).iter().any(|key| self.open.contains(key)) => Step::Done,
            (step, _) => step,
        };
        if self.step == before && !has_read(op) {
            self.not_before_ns = time_ns + RETRY_NS;
        }
        if self.ops_left == 0 {
            self.step = Step::Done;
        }
    }
}

impl Generator for Encore {
    fn ask(&self, context: &Context) -> Ask {
        if self.waiting {
            return Ask::Pending(None);
        }
        let Some(draft) = self.draft() else { return Ask::Exhausted };
        match Offer::now(context, draft) {
            Some(offer) => Ask::Offer(Offer { time_ns: self.not_before_ns.max(context.time_ns), ..offer }),
            None => Ask::Pending(None),
        }
    }

    fn take(&mut self, _: &Context, offer: &mut Offer) {
        self.waiting = true;
        self.ops_left -= 1;
        let OpValue::Mops(mops) = &offer.draft.value else { return };
        for mop in mops {
            if let Mop::Send { key, .. } = mop {
                let next = self.next.get_mut(key).expect("it had a value");
                *next = next.saturating_add(1);
            }
        }
    }

    fn update(&mut self, context: &Context, op: &Op) {
        if op.kind != Kind::Invoke && std::mem::take(&mut self.waiting) {
            self.ended(context.time_ns, op);
        }
    }
}

fn keys_read(op: &Op) -> Vec<Key> {
    let OpValue::Mops(mops) = &op.value else { return Vec::new() };
    let reads = mops.iter().filter_map(|mop| match mop {
        Mop::Poll(Some(reads)) => Some(reads),
        _ => None,
    });
    reads.flatten().map(|(key, _)| *key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_checker::mini;
    use riprap_core::client::Completion;
    use riprap_core::interpreter::{Interpreter, Next};
    use riprap_core::op::Extra;

    const WAYS: &[SubscribeVia] = &[SubscribeVia::Assign, SubscribeVia::Subscribe];
    const CONCURRENCY: u32 = 3;

    /// Runs it after a history, each op for so long and to such an end. Gives its ops in short, and how long it took.
    fn run(history: &str, op_ns: u64, end: impl Fn(&Op) -> Completion) -> (Vec<String>, u64) {
        let (inputs, outputs) = ([Key(0), Key(1)], [Key(4), Key(5)]);
        let (mut interpreter, mut now_ns, mut ops) = (Interpreter::new(CONCURRENCY), 0, Vec::new());
        let history = mini::parse(history);
        interpreter.run(now_ns, encore(&history, (&inputs, &outputs), WAYS, CONCURRENCY, 300_000));
        loop {
            match interpreter.next(now_ns) {
                Next::Done => return (ops, now_ns),
                Next::Wait { until_ns } => now_ns = until_ns.expect("nothing is under way"),
                Next::Invoke { thread, op } => {
                    let abort = if op.extra.abort { "abort " } else { "" };
                    ops.push(format!("{abort}{} {:?}", op.f.name(), op.value));
                    now_ns += op_ns;
                    interpreter.complete(now_ns, thread, end(&op));
                }
            }
        }
    }

    fn completion(kind: Kind, op: &Op, reads: Option<Vec<Key>>) -> Completion {
        let mut value = op.value.clone();
        if let (OpValue::Mops(mops), Some(keys)) = (&mut value, reads) {
            let record = |key| (key, vec![(riprap_core::op::Offset(0), Value(0))]);
            let read = Mop::Poll(Some(keys.into_iter().map(record).collect()));
            mops.iter_mut().filter(|mop| matches!(mop, Mop::Poll(_))).for_each(|mop| *mop = read.clone());
        }
        let kind = if op.f == F::Crash { Kind::Info } else { kind };
        Completion { kind, value, extra: Extra { abort: op.extra.abort, ..Extra::default() } }
    }

    #[test]
    fn it_ends_once_each_way_has_read_on() {
        let reads = |op: &Op| completion(Kind::Ok, op, Some(vec![Key(1)]));
        let (ops, _) = run("s1=7@0 s5=3@0", 1, reads);
        let words: Vec<&str> = ops.iter().filter_map(|op| op.split(' ').next()).collect();
        let crashes = ["crash"; 2 * CONCURRENCY as usize];
        let way = |take| [take, "txn", "abort", "txn", "txn"];
        assert_eq!(words, [&crashes[..], &way("assign"), &way("subscribe")].concat());
        // Values go on behind those of the history, and each way has its own.
        let fed: Vec<&String> =
            ops.iter().filter(|op| op.starts_with("txn [Send") || op.contains("([Send")).collect();
        let expect = [8, 9, 8 + MAX_OPS, 9 + MAX_OPS];
        assert_eq!(fed.len(), expect.len());
        for (op, value) in fed.iter().zip(expect) {
            assert!(op.contains(&format!("key: Key(1), value: Value({value})")), "{op}");
        }
    }

    #[test]
    fn it_gives_up_in_time() {
        let most = 2 * CONCURRENCY as usize + WAYS.len() * MAX_OPS as usize;
        for kind in [Kind::Fail, Kind::Info, Kind::Ok] {
            for op_ns in [1, 100_000_000, 5_000_000_000] {
                let (ops, took_ns) = run("s0=1@0", op_ns, |op| completion(kind, op, Some(Vec::new())));
                assert!(ops.len() <= most, "{kind:?}: {} ops of {op_ns} ns", ops.len());
                assert!(
                    took_ns <= LIMIT_MS * 1_000_000 + op_ns * 3,
                    "{kind:?}: {took_ns} ns, ops of {op_ns}"
                );
            }
        }
    }

    #[test]
    fn where_nothing_was_written_there_is_nothing_to_do() {
        let (ops, _) = run("s5=1@0 p", 1, |op| completion(Kind::Ok, op, None));
        assert_eq!(ops, [""; 0]);
    }
}
