//! A group at the end of a run: it has to go on with every key.
//!
//! All clients are thrown away, and two fresh ones subscribe to the topics that members wanted last. They poll until one of
//! them has read the value that was written to each key of these topics just before. Members that are gone without a word
//! the group misses only once their sessions are over, and one that does not poll holds up a rebalance for as long as it
//! may: until then nothing follows from it that nobody gets a key. After that ([`Patience`]) the run says so by a mark
//! (`phase group`), and the checker takes it from there; when that has seen enough, they give up. A group that lags goes on,
//! too: from the mark on any record of a key will do.
//!
//! If nobody knows what became of an op of a member, it may have read and committed the last value of a key: what nobody
//! has got by then is written once more, and the wait begins anew.

use super::{Drain, RETRY_NS, brought_nothing, reads};
use riprap_checker::DEFAULT_PROGRESS_LIMIT_NS;
use riprap_core::generator::{Ask, Context, Draft, Generator, Offer, Thread};
use riprap_core::op::{F, Key, Kind, Mop, Op, OpValue, Process, Value};
use riprap_core::phase;
use riprap_core::plan::TestConfig;
use std::collections::{BTreeMap, VecDeque};

/// How many clients subscribe: two, so that there is something to share out. But only one can have an instance id (KIP-345)
/// that is given to all.
pub(crate) fn count(config: &TestConfig) -> u32 {
    if config.settings.contains_key("client.group.instance.id") { 1 } else { 2 }
}

/// The most topics that they subscribe to, those that were wanted last: more would make the end of a run longer than the run.
pub(super) const MAX_TOPICS: usize = 16;
/// How long they go on once the group waits for nobody: until the checker calls a key stuck, and another poll or two.
const GIVE_UP_NS: u64 = DEFAULT_PROGRESS_LIMIT_NS + 2_000_000_000;

/// After so long a group has nobody in it who was there before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Patience {
    pub(super) ms: u64,
}

impl Patience {
    /// What the settings of a run come to; those that are not given are those of both client libraries here. Units of all:
    /// milliseconds.
    pub(crate) fn of(config: &TestConfig) -> Patience {
        let set = |name: &str| config.settings.get(name).and_then(|ms| ms.parse::<u64>().ok());
        // A member that lives and does not poll leaves after so long, and a rebalance waits for it no longer.
        let poll_ms = set("client.max.poll.interval.ms").unwrap_or(30_000);
        let session_ms = set("client.session.timeout.ms").unwrap_or(6000);
        let session_ms = session_ms.max(set("group.consumer.session.timeout.ms").unwrap_or(6000));
        // One that is gone is missed at the end of its session. If it was about to join, that begins with the next
        // generation; and an id that was given to it is waited for, too.
        let members_ms = poll_ms.saturating_add(session_ms.saturating_mul(3));
        // Nobody is told where to go on before a transaction that may commit has ended.
        let txn_ms = set("client.transaction.timeout.ms").unwrap_or(0).max(config.op_timeout_ms);
        Patience { ms: members_ms.saturating_add(txn_ms) }
    }

    /// Whatever the time: somebody may still be there.
    pub(crate) const ENDLESS: Patience = Patience { ms: u64::MAX };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Crash,
    Write,
    Subscribe,
    Poll,
    Done,
}

struct Member {
    step: Step,
    /// What is to be written once more.
    rewrite: VecDeque<Key>,
    /// An op is under way.
    waiting: bool,
    /// Units of this and the times below: nanoseconds of the context's clock.
    not_before_ns: u64,
}

pub(super) struct Members {
    /// By client thread; most only throw their client away.
    members: BTreeMap<Thread, Member>,
    /// So many of them subscribe.
    count: u32,
    drain: Drain,
    patience: Patience,
    /// From when on the group waits for nobody; not before anybody has begun.
    clear_ns: Option<u64>,
    /// When that was marked.
    marked_ns: Option<u64>,
}

impl Members {
    pub(super) fn new(concurrency: u32, count: u32, patience: Patience, drain: Drain) -> Members {
        let member =
            || Member { step: Step::Crash, rewrite: VecDeque::new(), waiting: false, not_before_ns: 0 };
        let members = (0..concurrency).map(|n| (Thread::Client(n), member())).collect();
        Members { members, count, drain, patience, clear_ns: None, marked_ns: None }
    }

    fn draft(&self, member: &Member) -> Option<Draft> {
        let state = self.drain.state();
        Some(match member.step {
            Step::Crash => Draft::new(F::Crash, OpValue::None),
            Step::Write => {
                let key = *member.rewrite.front()?;
                let mop = Mop::Send { key, value: state.next(key)?, offset: None };
                Draft::new(F::Send, OpValue::Mops(vec![mop]))
            }
            // Those that it has gone on with, too: a member that wants other topics makes the whole group share them out anew.
            Step::Subscribe => Draft::new(F::Subscribe, OpValue::Keys(state.acked_of_group())),
            Step::Poll => Draft::new(F::Poll, OpValue::Mops(vec![Mop::Poll(None)])),
            Step::Done => return None,
        })
    }

    fn is_over(&self, now_ns: u64) -> bool {
        self.drain.state().left.ungrouped.is_empty()
            || self.marked_ns.is_some_and(|marked_ns| now_ns >= marked_ns + GIVE_UP_NS)
    }

    fn ended(&mut self, now_ns: u64, thread: Thread, op: &Op) {
        let mut state = self.drain.state();
        let member = self.members.get_mut(&thread).expect("it was offered to it");
        let rests_ns = now_ns + RETRY_NS;
        member.step = match (member.step, op.kind) {
            (Step::Crash, _) if thread < Thread::Client(self.count) => Step::Subscribe,
            (Step::Crash | Step::Done, _) => Step::Done,
            (Step::Write, kind) => {
                let key = member.rewrite.pop_front().expect("it was written");
                if let (Kind::Ok, Some(Mop::Send { value, .. })) = (kind, sends(op)) {
                    state.acked.insert(key, *value);
                }
                if member.rewrite.is_empty() { Step::Subscribe } else { Step::Write }
            }
            (_, Kind::Info) => {
                self.clear_ns = Some(now_ns.saturating_add(self.patience.ms.saturating_mul(1_000_000)));
                self.marked_ns = None;
                member.rewrite =
                    state.left.ungrouped.iter().filter(|key| state.next(**key).is_some()).copied().collect();
                if member.rewrite.is_empty() { Step::Subscribe } else { Step::Write }
            }
            (Step::Subscribe, Kind::Ok) => Step::Poll,
            (Step::Subscribe, _) => {
                member.not_before_ns = rests_ns;
                Step::Subscribe
            }
            (Step::Poll, _) => {
                if brought_nothing(op) {
                    member.not_before_ns = rests_ns;
                }
                Step::Poll
            }
        };
        state.group_read(op, self.marked_ns.is_some());
    }
}

fn sends(op: &Op) -> Option<&Mop> {
    let OpValue::Mops(mops) = &op.value else { return None };
    mops.iter().find(|mop| matches!(mop, Mop::Send { .. }))
}

impl Generator for Members {
    fn ask(&self, context: &Context) -> Ask {
        if self.is_over(context.time_ns) {
            let is_waiting = self.members.values().any(|member| member.waiting);
            return if is_waiting { Ask::Pending(None) } else { Ask::Exhausted };
        }
        let clear_ns = self.clear_ns.filter(|_| self.marked_ns.is_none());
        let is_nemesis_free = context.free.iter().any(|(thread, _)| *thread == Thread::Nemesis);
        if is_nemesis_free && clear_ns.is_some_and(|clear_ns| clear_ns <= context.time_ns) {
            let draft = Draft::new(F::Other(phase::PHASE.into()), OpValue::Json(phase::GROUP.into()));
            let thread = Thread::Nemesis;
            return Ask::Offer(Offer { draft, thread, time_ns: context.time_ns, route: Vec::new() });
        }
        let mut soonest: Option<Offer> = None;
        for (thread, _) in &context.free {
            let Some(member) = self.members.get(thread).filter(|member| !member.waiting) else { continue };
            let Some(draft) = self.draft(member) else { continue };
            let time_ns = member.not_before_ns.max(context.time_ns);
            if soonest.as_ref().is_none_or(|soonest| time_ns < soonest.time_ns) {
                soonest = Some(Offer { draft, thread: *thread, time_ns, route: Vec::new() });
            }
        }
        soonest.map_or(Ask::Pending(clear_ns), Ask::Offer)
    }

    fn take(&mut self, context: &Context, offer: &mut Offer) {
        let patience_ns = self.patience.ms.saturating_mul(1_000_000);
        self.clear_ns.get_or_insert(context.time_ns.saturating_add(patience_ns));
        if offer.thread == Thread::Nemesis {
            self.marked_ns = Some(context.time_ns);
            return;
        }
        self.members.get_mut(&offer.thread).expect("offered to it").waiting = true;
        if let OpValue::Mops(mops) = &offer.draft.value {
            self.drain.state().tries(mops);
        }
    }

    fn update(&mut self, context: &Context, op: &Op) {
        let Some(thread) = context.thread_of(op.process).filter(|_| op.process != Process::Nemesis) else {
            return;
        };
        let Some(member) = self.members.get_mut(&thread) else { return };
        if op.kind != Kind::Invoke && std::mem::take(&mut member.waiting) {
            self.ended(context.time_ns, thread, op);
        }
    }
}

impl super::State {
    /// The value that a key is given next, if there is another.
    fn next(&self, key: Key) -> Option<Value> {
        self.tried.get(&key)?.0.checked_add(1).map(Value)
    }

    /// The keys of the group that have something to go on with.
    fn acked_of_group(&self) -> Vec<Key> {
        self.acked.keys().filter(|key| self.of_group.contains(key)).copied().collect()
    }

    /// Somebody in the group has read this. Of a key it is the last value that counts, or anything, if that will do.
    fn group_read(&mut self, op: &Op, anything: bool) {
        for (key, value) in reads(op) {
            if anything || self.acked.get(&key) == Some(&value) {
                self.left.ungrouped.remove(&key);
            }
        }
    }
}
