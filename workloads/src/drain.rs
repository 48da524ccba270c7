//! The end of a run: every key is written once more, and fresh clients read it from its beginning until they have caught
//! up with its end.
//!
//! The keys are shared out among the client threads. Each thread throws its client away, sends one more value to each of
//! its keys, one after the other, assigns them from the beginning, and polls; when a poll brings nothing it asks how far
//! it is (`debug`), and is done when it stands at the end of every key. What goes wrong is tried again, from the
//! beginning if the client was lost, until the caller's time is over.
//!
//! The last value shows that the key takes writes again, and stands behind all others: whatever is missing below it is
//! lost, not just unseen. A value whose send may have taken effect is not sent again; another is. If clients had
//! subscribed, their group is first asked what it has committed in each of its topics (`committed`).

use crate::{Last, committed};
use riprap_checker::DEFAULT_PROGRESS_LIMIT_NS;
use riprap_core::History;
use riprap_core::generator::{Ask, BoxedGenerator, Context, Draft, Generator, Offer, Thread, clients};
use riprap_core::op::{F, Key, Kind, Mop, Op, OpValue, Value};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
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
}

/// How far the end of a run is.
#[derive(Clone, Debug, Default)]
pub struct Drain(Arc<Mutex<Left>>);

impl Drain {
    /// What is left to do.
    pub fn left(&self) -> Left {
        self.0.lock().expect("no holder panics").clone()
    }
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
    left: Drain,
    /// When nothing more is written or asked. Units: nanoseconds of the context's clock.
    read_from_ns: u64,
}

/// Ends a run of this history, on the first `concurrency` client threads, within `limit_ms`.
pub(crate) fn drain(
    history: &History,
    partitions_per_topic: u32,
    concurrency: u32,
    limit_ms: u64,
) -> (BoxedGenerator, Drain) {
    let last = Last::of(history);
    let topics = group_topics(history, partitions_per_topic);
    let left = Left {
        unread: last.0.keys().copied().collect(),
        unwritten: last.0.keys().copied().collect(),
        untold: topics.iter().flatten().copied().collect(),
    };
    let thread = |turn: usize| Thread::Client((turn as u32) % concurrency.max(1));
    let mut readers: BTreeMap<Thread, Reader> = BTreeMap::new();
    for (turn, keys) in topics.into_iter().enumerate() {
        readers.entry(thread(turn)).or_default().plan(Task::Ask(keys));
    }
    for (turn, (key, value)) in last.0.into_iter().enumerate() {
        let reader = readers.entry(thread(turn)).or_default();
        reader.keys.push(key);
        // A key that has had the last value of all takes no other.
        if let Some(next) = value.0.checked_add(1) {
            reader.plan(Task::Write(key, Value(next)));
        }
    }
    let left = Drain(Arc::new(Mutex::new(left)));
    let read_from_ns = limit_ms * 1_000_000 / TRY_SHARE;
    (clients(Box::new(Readers { readers, left: left.clone(), read_from_ns })), left)
}

/// The keys of each topic that somebody subscribed to.
fn group_topics(history: &History, partitions_per_topic: u32) -> Vec<Vec<Key>> {
    let n = i64::from(partitions_per_topic);
    let subscribes = history.ops().filter(|op| *op.f() == F::Subscribe);
    let topics: BTreeSet<i64> = subscribes.flat_map(|op| op.keys()).map(|key| key.0.div_euclid(n)).collect();
    topics.into_iter().map(|topic| (topic * n..(topic + 1) * n).map(Key).collect()).collect()
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

    fn done(&self, left: &Drain) {
        let mut left = left.0.lock().expect("no holder panics");
        match self {
            Task::Ask(keys) => left.untold.retain(|key| !keys.contains(key)),
            Task::Write(key, _) => {
                left.unwritten.remove(key);
            }
        }
    }

    /// What to try after it went wrong, if there is anything.
    fn again(self, kind: Kind) -> Option<Task> {
        match (self, kind) {
            // It may be in the log.
            (Task::Write(key, value), Kind::Info) => Some(Task::Write(key, Value(value.0.checked_add(1)?))),
            (task, _) => Some(task),
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
    fn update(&mut self, now_ns: u64, read_from_ns: u64, op: &Op, left: &Drain) {
        let went_wrong = op.kind == Kind::Fail || (op.kind == Kind::Info && self.stage != Stage::Crash);
        if went_wrong {
            self.not_before_ns = now_ns + RETRY_NS;
        }
        self.stage = match (self.stage, op.kind) {
            (Stage::Crash, _) => self.next_task(),
            (Stage::Task, kind) => {
                self.task_ended(now_ns, kind, left);
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
        if self.stage == Stage::Done {
            let mut left = left.0.lock().expect("no holder panics");
            left.unread.retain(|key| !self.keys.contains(key));
        }
    }

    fn task_ended(&mut self, now_ns: u64, kind: Kind, left: &Drain) {
        let Trial { task, first_ns, .. } = self.tasks.pop_front().expect("it was offered");
        if kind == Kind::Ok {
            task.done(left);
        } else if first_ns.is_some_and(|first_ns| now_ns < first_ns + DEFAULT_PROGRESS_LIMIT_NS)
            && let Some(task) = task.again(kind)
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
    }

    fn update(&mut self, context: &Context, op: &Op) {
        let Some(thread) = context.thread_of(op.process) else { return };
        let Some(reader) = self.readers.get_mut(&thread) else { return };
        if op.kind != Kind::Invoke && std::mem::take(&mut reader.waiting) {
            reader.update(context.time_ns, self.read_from_ns, op, &self.left);
        }
    }
}

fn brought_nothing(op: &Op) -> bool {
    let OpValue::Mops(mops) = &op.value else { return true };
    mops.iter().all(|mop| match mop {
        Mop::Poll(Some(reads)) => reads.iter().all(|(_, records)| records.is_empty()),
        Mop::Poll(None) | Mop::Send { .. } => true,
    })
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
mod tests {
    use super::*;
    use riprap_core::client::Completion;
    use riprap_core::interpreter::{Interpreter, Next};
    use riprap_core::op::{Extra, Offset, Process};
    use serde_json::json;

    const LIMIT_MS: u64 = 120_000;
    const DONE: Left = Left { unread: BTreeSet::new(), unwritten: BTreeSet::new(), untold: BTreeSet::new() };

    fn keys(keys: &[i64]) -> BTreeSet<Key> {
        keys.iter().copied().map(Key).collect()
    }

    fn ok(f: F, value: OpValue) -> Op {
        let (process, extra) = (Process::Client(0), Extra::default());
        Op { index: 0, time_ns: 0, process, kind: Kind::Ok, f, value, extra }
    }

    fn sent(key: i64, value: i64) -> Op {
        let mop = Mop::Send { key: Key(key), value: Value(value), offset: None };
        ok(F::Send, OpValue::Mops(vec![mop]))
    }

    fn read(key: i64, values: &[i64]) -> Op {
        let records = values.iter().map(|value| (Offset(0), Value(*value))).collect();
        ok(F::Poll, OpValue::Mops(vec![Mop::Poll(Some(vec![(Key(key), records)]))]))
    }

    fn subscribed(keys: &[i64]) -> Op {
        ok(F::Subscribe, OpValue::Keys(keys.iter().copied().map(Key).collect()))
    }

    fn word(op: &Op) -> String {
        let what = match &op.value {
            OpValue::None => String::new(),
            OpValue::Json(value) => value.to_string(),
            OpValue::Keys(keys) => format!("{:?}", keys.iter().map(|key| key.0).collect::<Vec<_>>()),
            OpValue::Mops(mops) => match &mops[0] {
                Mop::Send { key, value, .. } => format!(" {key}={value}"),
                Mop::Poll(_) => String::new(),
            },
        };
        format!("{}:{}{what}", op.process, op.f.name())
    }

    /// What a log without faults answers: nothing is there to read, and that is the end of it.
    fn answer(op: &Op) -> OpValue {
        match op.f {
            F::Poll => OpValue::Mops(vec![Mop::Poll(Some(Vec::new()))]),
            F::Debug => {
                let at_end = (0..100).map(|key| (key.to_string(), json!({"position": 7, "end": 7})));
                OpValue::Json(at_end.collect())
            }
            _ => op.value.clone(),
        }
    }

    /// Ends a run of this history in virtual time on so many threads. `how` says, by an op's word without its process,
    /// how it ends and after how many milliseconds; the others are ok at once. Gives the ops, each with its time in
    /// milliseconds, and what is left.
    fn run(
        history: Vec<Op>,
        threads: u32,
        limit_ms: u64,
        how: impl Fn(&str) -> Option<(Kind, u64)>,
    ) -> (Vec<(u64, String)>, Left) {
        let (generator, drain) = drain(&history.into_iter().collect(), 4, threads, limit_ms);
        let mut interpreter = Interpreter::new(threads);
        interpreter.run(0, generator);
        let (mut now_ns, mut words) = (0, Vec::new());
        let mut under_way: BTreeMap<(u64, Thread), Completion> = BTreeMap::new();
        loop {
            while let Some(first) = under_way.first_entry().filter(|entry| entry.key().0 <= now_ns) {
                let ((_, thread), completion) = first.remove_entry();
                interpreter.complete(now_ns, thread, completion);
            }
            match interpreter.next(now_ns) {
                Next::Done => return (words, drain.left()),
                Next::Wait { until_ns } => {
                    let first_ns = under_way.first_key_value().map(|((end_ns, _), _)| *end_ns);
                    now_ns = until_ns.into_iter().chain(first_ns).min().expect("something is awaited");
                }
                Next::Invoke { thread, op } => {
                    let word = word(&op);
                    let default = if op.f == F::Crash { Kind::Info } else { Kind::Ok };
                    let (_, what) = word.split_once(':').expect("a process comes first");
                    let (kind, time_ms) = how(what).unwrap_or((default, 0));
                    let value = if kind == Kind::Ok { answer(&op) } else { OpValue::None };
                    let completion = Completion { kind, value, extra: Extra::default() };
                    under_way.insert((now_ns + time_ms * 1_000_000, thread), completion);
                    words.push((now_ns / 1_000_000, word));
                }
            }
        }
    }

    /// As [`run`], on one thread: the ops in order, whenever they are.
    fn check(
        history: Vec<Op>,
        how: impl Fn(&str) -> Option<(Kind, u64)>,
        expected: &[&str],
        expected_left: &Left,
    ) {
        let (words, left) = run(history, 1, LIMIT_MS, how);
        let words: Vec<&str> = words.iter().map(|(_, word)| word.as_str()).collect();
        assert_eq!((words.as_slice(), &left), (expected, expected_left));
    }

    #[test]
    fn each_key_is_written_once_more_and_read() {
        let all_ok = |_: &str| None;
        check(vec![], all_ok, &[], &DONE);
        check(
            vec![sent(3, 4), sent(3, 9), read(3, &[11, 5]), sent(6, 0), read(8, &[i64::MIN]), read(9, &[])],
            all_ok,
            &[
                "0:crash",
                "1:send 3=12",
                "1:send 6=1",
                "1:send 8=0",
                "1:send 9=0",
                "1:assign[3, 6, 8, 9]",
                "1:poll",
                "1:debug",
            ],
            &DONE,
        );
        // Nothing is above the last value of all.
        check(
            vec![read(3, &[i64::MAX])],
            all_ok,
            &["0:crash", "1:assign[3]", "1:poll", "1:debug"],
            &Left { unwritten: keys(&[3]), ..DONE },
        );
    }

    #[test]
    fn threads_share_the_keys_out() {
        let (words, left) = run((0..4).map(|key| sent(key, 0)).collect(), 3, LIMIT_MS, |_| None);
        let assigns: Vec<&str> =
            words.iter().map(|(_, word)| word.as_str()).filter(|w| w.contains("assign")).collect();
        assert_eq!((assigns, left), (vec!["4:assign[1]", "5:assign[2]", "3:assign[0, 3]"], DONE));
    }

    #[test]
    fn what_certainly_was_not_written_is_tried_again_behind_the_others() {
        let tries = std::cell::Cell::new(0);
        let third = |what: &str| {
            tries.set(tries.get() + u32::from(what == "send 3=5"));
            (what == "send 3=5" && tries.get() < 3).then_some((Kind::Fail, 0))
        };
        check(
            vec![sent(3, 4), sent(6, 0)],
            third,
            &[
                "0:crash",
                "1:send 3=5",
                "1:send 6=1",
                "1:send 3=5",
                "1:send 3=5",
                "1:assign[3, 6]",
                "1:poll",
                "1:debug",
            ],
            &DONE,
        );
    }

    #[test]
    fn what_may_have_been_written_is_not_sent_again() {
        let doubtful = |what: &str| ["send 3=5", "send 3=6"].contains(&what).then_some((Kind::Info, 1));
        check(
            vec![sent(3, 4)],
            doubtful,
            &["0:crash", "1:send 3=5", "2:send 3=6", "3:send 3=7", "3:assign[3]", "3:poll", "3:debug"],
            &DONE,
        );
    }

    #[test]
    fn a_key_that_takes_no_write_is_read_all_the_same() {
        let refused = |what: &str| what.starts_with("send 3=").then_some((Kind::Fail, 50));
        let (words, left) = run(vec![sent(3, 4), sent(6, 0)], 1, LIMIT_MS, refused);
        assert_eq!(left, Left { unwritten: keys(&[3]), ..DONE });
        let tries: Vec<u64> =
            words.iter().filter(|(_, w)| w == "1:send 3=5").map(|(at_ms, _)| *at_ms).collect();
        // Every 200 ms and what each takes, for as long as it is tried.
        assert_eq!((tries.len(), tries[0], tries[1], *tries.last().expect("many")), (121, 0, 250, 30_000));
        assert_eq!(words.last(), Some(&(30_050, "1:debug".to_owned())));
    }

    #[test]
    fn no_more_than_half_of_the_time_goes_into_writes() {
        let hangs = |what: &str| what.starts_with("send ").then_some((Kind::Info, 7000));
        let history = || (0..9).map(|key| sent(key, 0)).collect();
        let (words, left) = run(history(), 1, 40_000, hangs);
        let assign = words.iter().find(|(_, word)| word.contains("assign")).expect("it is read");
        // The third send is under way when half of the time is over; the rest are not tried.
        assert_eq!(assign, &(21_000, "4:assign[0, 1, 2, 3, 4, 5, 6, 7, 8]".to_owned()));
        assert_eq!(left, Left { unwritten: keys(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), ..DONE });
    }

    #[test]
    fn the_group_is_asked_first_for_each_of_its_topics() {
        let history = || vec![subscribed(&[5, 6]), subscribed(&[8]), sent(3, 0)];
        check(
            history(),
            |_| None,
            &[
                "0:crash",
                "1:committed[4,5,6,7]",
                "1:committed[8,9,10,11]",
                "1:send 3=1",
                "1:assign[3]",
                "1:poll",
                "1:debug",
            ],
            &DONE,
        );
        let silent = |what: &str| (what == "committed[4,5,6,7]").then_some((Kind::Fail, 3000));
        let (words, left) = run(history(), 1, LIMIT_MS, silent);
        assert_eq!(left, Left { untold: keys(&[4, 5, 6, 7]), ..DONE });
        assert_eq!(words.iter().filter(|(_, word)| word == "1:committed[4,5,6,7]").count(), 10);
        // Where nobody had sent or read anything, there is nothing else to do.
        check(vec![subscribed(&[1])], |_| None, &["0:crash", "1:committed[0,1,2,3]"], &DONE);
    }

    #[test]
    fn a_reader_that_lost_its_client_begins_again() {
        let polls = std::cell::Cell::new(0);
        let second = |what: &str| {
            polls.set(polls.get() + u32::from(what == "poll"));
            (what == "poll" && polls.get() == 1).then_some((Kind::Info, 10))
        };
        check(
            vec![sent(3, 4)],
            second,
            &["0:crash", "1:send 3=5", "1:assign[3]", "1:poll", "2:assign[3]", "2:poll", "2:debug"],
            &DONE,
        );
    }
}
