//! The end of a run: every key is written once more, and fresh clients read it from its beginning until they have caught
//! up with its end.
//!
//! The keys are shared out among the client threads. Each thread throws its client away, sends one more value to each of
//! its keys, one after the other, assigns them from the beginning, and polls; when a poll brings nothing it asks how far
//! it is (`debug`), and is done when it stands at the end of every key. What goes wrong is tried again, from the
//! beginning if the client was lost, until the caller's time is over.
//!
//! The last value shows that the key takes writes again, and stands behind all others: whatever is missing below it is
//! lost, not just unseen. Each try sends another value, since a value is sent at most once. If clients had
//! subscribed, their group is first asked what it has committed in each of its topics (`committed`), and after the reads
//! it has to go on with its keys itself (`drain/members.rs`).

mod members;

pub(crate) use members::{Patience, count};

use crate::{Last, committed};
use members::Members;
use riprap_checker::DEFAULT_PROGRESS_LIMIT_NS;
use riprap_core::History;
use riprap_core::generator::{
    Ask, BoxedGenerator, Context, Draft, Generator, Offer, Thread, clients, phases,
};
use riprap_core::op::{F, Key, Kind, Mop, Op, OpValue, Value};
use riprap_core::phase;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// How long a reader waits before it tries again what went wrong.
const RETRY_NS: u64 = 200_000_000;
/// How long a key is tried to be written, and the group to be asked, before the keys are read all the same: as long as
/// it takes the checker to call a key stuck.
pub const TRY_LIMIT: Duration = Duration::from_nanos(DEFAULT_PROGRESS_LIMIT_NS);
/// All writes and questions of a thread take at most this part of the time for the final reads: what is in the log tells
/// more than what does not get into it.
const TRY_SHARE: u64 = 2;

/// What the end of a run has left undone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Left {
    /// The keys whose end has not been reached.
    pub unread: BTreeSet<Key>,
    /// The keys that took no write.
    pub unwritten: BTreeSet<Key>,
    /// The keys of which the group did not say what it has committed.
    pub untold: BTreeSet<Key>,
    /// The keys of which nobody in the group has read the last value, though it is there: the final reads have met it.
    pub ungrouped: BTreeSet<Key>,
}

/// How far the end of a run is.
#[derive(Clone, Debug, Default)]
pub struct Drain(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    left: Left,
    /// The keys that the group is to go on with.
    of_group: BTreeSet<Key>,
    /// The last value that each key was to be given, and the last that it took.
    tried: BTreeMap<Key, Value>,
    acked: BTreeMap<Key, Value>,
}

impl State {
    /// These are about to be sent.
    fn tries(&mut self, mops: &[Mop]) {
        for mop in mops {
            if let Mop::Send { key, value, .. } = mop {
                self.tried.insert(*key, *value);
            }
        }
    }
}

impl State {
    /// The final reads have met this: what the group is to go on with is there.
    fn was_read(&mut self, op: &Op) {
        for (key, value) in reads(op) {
            if self.of_group.contains(&key) && self.acked.get(&key) == Some(&value) {
                self.left.ungrouped.insert(key);
            }
        }
    }
}

impl Drain {
    /// What is left to do.
    pub fn left(&self) -> Left {
        self.state().left.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder panics")
    }
}

/// How a run ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    /// The keys of a topic.
    pub(crate) partitions_per_topic: u32,
    /// So many client threads end it.
    pub(crate) concurrency: u32,
    /// How long that may take.
    pub(crate) limit_ms: u64,
    /// So many values of each key are left to others.
    pub(crate) spare_values: i64,
    /// So many clients join the group, if there was one.
    pub(crate) members: u32,
    /// How long a group may take to find out that its members are gone.
    pub(crate) patience: Patience,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Crash,
    /// Before the keys are read.
    Task,
    Assign,
    Poll,
    Progress,
    Done,
}

/// What is done before the keys are read.
#[derive(Clone, Debug)]
enum Task {
    Ask(Vec<Key>),
    Write(Key, Value),
}

struct Trial {
    task: Task,
    /// When it was tried for the first time. Units of this and the next: nanoseconds of the context's clock.
    first_ns: Option<u64>,
    not_before_ns: u64,
}

struct Reader {
    keys: Vec<Key>,
    /// The next one first; one that went wrong goes behind the others.
    tasks: VecDeque<Trial>,
    stage: Stage,
    /// An op of this reader is under way.
    waiting: bool,
    /// When it may try again what went wrong. Units: nanoseconds of the context's clock.
    not_before_ns: u64,
}

struct Readers {
    readers: BTreeMap<Thread, Reader>,
    drain: Drain,
    /// When nothing more is written or asked. Units: nanoseconds of the context's clock.
    read_from_ns: u64,
}

/// Ends a run of this history.
pub(crate) fn drain(history: &History, ending: Ending) -> (BoxedGenerator, Drain) {
    let Ending { concurrency, limit_ms, spare_values, .. } = ending;
    let last = Last::of(history);
    let topics = group_topics(history, ending.partitions_per_topic);
    let left = Left {
        unread: last.0.keys().copied().collect(),
        unwritten: last.0.keys().copied().collect(),
        untold: topics.iter().flat_map(|topic| topic.keys.clone()).collect(),
        ungrouped: BTreeSet::new(),
    };
    let thread = |turn: usize| Thread::Client((turn as u32) % concurrency.max(1));
    let mut readers: BTreeMap<Thread, Reader> = BTreeMap::new();
    if !topics.is_empty() {
        // The clients of all threads are thrown away: some may be in the group.
        readers.extend((0..concurrency).map(|n| (Thread::Client(n), Reader::default())));
    }
    let mut latest = topics.clone();
    latest.sort_by_key(|topic| std::cmp::Reverse(topic.wanted));
    latest.truncate(members::MAX_TOPICS);
    let of_group = latest.into_iter().flat_map(|topic| topic.keys).collect();
    for (turn, topic) in topics.into_iter().enumerate() {
        readers.entry(thread(turn)).or_default().plan(Task::Ask(topic.keys));
    }
    for (turn, (key, value)) in last.0.into_iter().enumerate() {
        let reader = readers.entry(thread(turn)).or_default();
        reader.keys.push(key);
        // A key that has had the last value of all takes no other.
        if let Some(next) = value.0.checked_add(1 + spare_values) {
            reader.plan(Task::Write(key, Value(next)));
        }
    }
    let drain = Drain(Arc::new(Mutex::new(State { left, of_group, ..State::default() })));
    let read_from_ns = limit_ms * 1_000_000 / TRY_SHARE;
    let readers = Readers { readers, drain: drain.clone(), read_from_ns };
    // Who is still at work may also still be in the group.
    let is_unended = phase::marks(history).any(|(_, name)| name == phase::UNENDED);
    let patience = if is_unended { Patience::ENDLESS } else { ending.patience };
    let members = Members::new(concurrency, ending.members, patience, drain.clone());
    (phases(vec![clients(Box::new(readers)), Box::new(members)]), drain)
}

/// A topic that somebody subscribed to.
#[derive(Clone)]
struct Topic {
    keys: Vec<Key>,
    /// The row of the last op that did.
    wanted: usize,
}

fn group_topics(history: &History, partitions_per_topic: u32) -> Vec<Topic> {
    let n = i64::from(partitions_per_topic);
    let mut topics: BTreeMap<i64, usize> = BTreeMap::new();
    for op in history.ops().filter(|op| *op.f() == F::Subscribe) {
        topics.extend(op.keys().iter().map(|key| (key.0.div_euclid(n), op.row())));
    }
    let topic = |(topic, wanted): (i64, usize)| Topic {
        keys: (topic * n..(topic + 1) * n).map(Key).collect(),
        wanted,
    };
    topics.into_iter().map(topic).collect()
}

impl Task {
    fn draft(&self) -> Draft {
        match self {
            Task::Ask(keys) => committed(keys),
            Task::Write(key, value) => {
                let mop = Mop::Send { key: *key, value: *value, offset: None };
                Draft::new(F::Send, OpValue::Mops(vec![mop]))
            }
        }
    }

    fn done(&self, state: &mut State) {
        match self {
            Task::Ask(keys) => state.left.untold.retain(|key| !keys.contains(key)),
            Task::Write(key, value) => {
                state.left.unwritten.remove(key);
                state.acked.insert(*key, *value);
            }
        }
    }

    /// What to try after it went wrong, if there is anything.
    fn again(self) -> Option<Task> {
        match self {
            // A value is sent at most once, whatever came of it.
            Task::Write(key, value) => Some(Task::Write(key, Value(value.0.checked_add(1)?))),
            task => Some(task),
        }
    }
}

impl Default for Reader {
    fn default() -> Reader {
        Reader {
            keys: Vec::new(),
            tasks: VecDeque::new(),
            stage: Stage::Crash,
            waiting: false,
            not_before_ns: 0,
        }
    }
}

impl Reader {
    fn plan(&mut self, task: Task) {
        self.tasks.push_back(Trial { task, first_ns: None, not_before_ns: 0 });
    }

    fn draft(&self) -> Option<Draft> {
        Some(match self.stage {
            Stage::Crash => Draft::new(F::Crash, OpValue::None),
            Stage::Task => self.tasks.front()?.task.draft(),
            Stage::Assign => {
                let keys = OpValue::Keys(self.keys.clone());
                Draft { from_beginning: true, ..Draft::new(F::Assign, keys) }
            }
            Stage::Poll => Draft::new(F::Poll, OpValue::Mops(vec![Mop::Poll(None)])),
            Stage::Progress => Draft::new(F::Debug, OpValue::None),
            Stage::Done => return None,
        })
    }

    /// Its op has ended.
    fn update(&mut self, now_ns: u64, read_from_ns: u64, op: &Op, state: &mut State) {
        let went_wrong = op.kind == Kind::Fail || (op.kind == Kind::Info && self.stage != Stage::Crash);
        if went_wrong {
            self.not_before_ns = now_ns + RETRY_NS;
        }
        self.stage = match (self.stage, op.kind) {
            (Stage::Crash, _) => self.next_task(),
            (Stage::Task, kind) => {
                self.task_ended(now_ns, kind, state);
                if now_ns >= read_from_ns {
                    self.tasks.clear();
                }
                self.next_task()
            }
            // The client is gone, and with it all that it had assigned.
            (_, Kind::Info) => Stage::Assign,
            (Stage::Assign, Kind::Ok) => Stage::Poll,
            (Stage::Poll, Kind::Ok) if brought_nothing(op) => Stage::Progress,
            (Stage::Progress, Kind::Ok) if caught_up(op, &self.keys) => Stage::Done,
            (Stage::Progress, _) => Stage::Poll,
            (stage, _) => stage,
        };
        state.was_read(op);
        if self.stage == Stage::Done {
            state.left.unread.retain(|key| !self.keys.contains(key));
        }
    }

    fn task_ended(&mut self, now_ns: u64, kind: Kind, state: &mut State) {
        let Trial { task, first_ns, .. } = self.tasks.pop_front().expect("it was offered");
        if kind == Kind::Ok {
            task.done(state);
        } else if first_ns.is_some_and(|first_ns| now_ns < first_ns + DEFAULT_PROGRESS_LIMIT_NS)
            && let Some(task) = task.again()
        {
            self.tasks.push_back(Trial { task, first_ns, not_before_ns: now_ns + RETRY_NS });
        }
        // Others need not wait for what went wrong with this one.
        self.not_before_ns = self.tasks.front().map_or(now_ns, |next| next.not_before_ns);
    }

    fn next_task(&self) -> Stage {
        match (self.tasks.is_empty(), self.keys.is_empty()) {
            (false, _) => Stage::Task,
            (true, false) => Stage::Assign,
            (true, true) => Stage::Done,
        }
    }
}

impl Generator for Readers {
    fn ask(&self, context: &Context) -> Ask {
        let mut soonest: Option<Offer> = None;
        for (thread, _) in &context.free {
            let Some(reader) = self.readers.get(thread).filter(|reader| !reader.waiting) else { continue };
            let Some(draft) = reader.draft() else { continue };
            let time_ns = reader.not_before_ns.max(context.time_ns);
            if soonest.as_ref().is_none_or(|soonest| time_ns < soonest.time_ns) {
                soonest = Some(Offer { draft, thread: *thread, time_ns, route: Vec::new() });
            }
        }
        match soonest {
            Some(offer) => Ask::Offer(offer),
            None if self.readers.values().all(|reader| reader.stage == Stage::Done) => Ask::Exhausted,
            None => Ask::Pending(None),
        }
    }

    fn take(&mut self, context: &Context, offer: &mut Offer) {
        let reader = self.readers.get_mut(&offer.thread).expect("offered to a reader");
        reader.waiting = true;
        if let (Stage::Task, Some(trial)) = (reader.stage, reader.tasks.front_mut()) {
            trial.first_ns.get_or_insert(context.time_ns);
        }
        if let OpValue::Mops(mops) = &offer.draft.value {
            self.drain.state().tries(mops);
        }
    }

    fn update(&mut self, context: &Context, op: &Op) {
        let Some(thread) = context.thread_of(op.process) else { return };
        let Some(reader) = self.readers.get_mut(&thread) else { return };
        if op.kind != Kind::Invoke && std::mem::take(&mut reader.waiting) {
            reader.update(context.time_ns, self.read_from_ns, op, &mut self.drain.state());
        }
    }
}

fn brought_nothing(op: &Op) -> bool {
    reads(op).next().is_none()
}

/// What an op has read.
fn reads(op: &Op) -> impl Iterator<Item = (Key, Value)> {
    let mops = match &op.value {
        OpValue::Mops(mops) => mops.as_slice(),
        _ => &[],
    };
    let polls = mops.iter().filter_map(|mop| match mop {
        Mop::Poll(reads) => reads.as_ref(),
        Mop::Send { .. } => None,
    });
    polls.flatten().flat_map(|(key, records)| records.iter().map(|(_, value)| (*key, *value)))
}

/// Whether a `debug` op says `{"5": {"position": 12, "end": 12}, ...}` with nothing left to read of any key.
fn caught_up(op: &Op, keys: &[Key]) -> bool {
    let OpValue::Json(progress) = &op.value else { return false };
    keys.iter().all(|key| {
        let number = |field| progress.get(key.to_string())?.get(field).and_then(Json::as_i64);
        number("position").zip(number("end")).is_some_and(|(position, end)| position >= end)
    })
}

#[cfg(test)]
mod tests;
