//! What transactions, groups and a whole cluster promise, transcribed as it is defined: on small histories the checks
//! agree. See `brute.rs` for the checks of single records and of cycles.

#[allow(dead_code)]
mod common;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use riprap_checker::{Examples, Options, Via, check, mini};
use riprap_core::op::{F, Key, Kind, Mop, Offset, Op, OpValue, Process, Txn, Value};
use riprap_core::{History, phase};
use std::collections::{BTreeMap, BTreeSet};

/// The names that this file defines.
const NAMES: &[&str] = &[
    "abort-advance",
    "abort-other",
    "abort-other-held",
    "abort-rewind",
    "abort-rewind-further",
    "committed-offset-regression",
    "misrouted",
    "nonmonotonic-poll",
    "nonmonotonic-poll-held",
    "phantom-read",
    "poll-skip",
    "poll-skip-held",
    "redelivery",
    "redelivery-uncommitted",
    "stuck-consumer",
    "stuck-producer",
    "torn-txn",
];

/// Rows, which are nanoseconds here.
const PROGRESS_LIMIT: usize = 5;

/// An op with its end, if it has one. Rows are times.
struct Done {
    begin: usize,
    end: Option<usize>,
    op: Op,
}

impl Done {
    fn was_aborted(&self) -> bool {
        self.outcome() == Some(Txn::ABORTED) || self.op.kind == Kind::Fail && self.op.extra.abort
    }

    fn outcome(&self) -> Option<&str> {
        self.op.extra.txn.as_ref().map(|txn| txn.outcome.as_str())
    }

    fn fate(&self) -> Kind {
        match (self.end.map(|_| self.op.kind), self.outcome()) {
            (Some(Kind::Info), Some(Txn::COMMITTED)) => Kind::Ok,
            (Some(Kind::Info), Some(Txn::ABORTED)) => Kind::Fail,
            (Some(kind), _) => kind,
            (None, _) => Kind::Info,
        }
    }

    fn mops(&self) -> &[Mop] {
        match &self.op.value {
            OpValue::Mops(mops) => mops,
            _ => &[],
        }
    }

    fn sends(&self) -> Vec<(Key, Value, Option<Offset>)> {
        let sends = self.mops().iter().filter_map(|mop| match *mop {
            Mop::Send { key, value, offset } => Some((key, value, offset)),
            Mop::Poll(_) => None,
        });
        sends.collect()
    }

    fn reads(&self) -> Vec<(Key, Offset, Value)> {
        let polls = self.mops().iter().filter_map(|mop| match mop {
            Mop::Poll(reads) => reads.as_ref(),
            Mop::Send { .. } => None,
        });
        polls
            .flatten()
            .flat_map(|(key, records)| records.iter().map(|(offset, value)| (*key, *offset, *value)))
            .collect()
    }

    fn reads_of(&self, key: Key) -> Vec<Value> {
        self.reads().into_iter().filter(|(k, ..)| *k == key).map(|(_, _, value)| value).collect()
    }

    fn takes_keys(&self) -> bool {
        self.op.f.has_keys() && matches!(self.op.kind, Kind::Ok | Kind::Info)
    }
}

struct Brute {
    /// Of clients, in the order of their ends; those without one are last.
    ops: Vec<Done>,
    marks: Vec<(usize, String)>,
    log: BTreeMap<Key, BTreeMap<i64, BTreeSet<Value>>>,
}

impl Brute {
    fn new(history: &History) -> Brute {
        let mut brute = Brute { ops: Vec::new(), marks: Vec::new(), log: BTreeMap::new() };
        let mut open = Vec::new();
        for op in history.ops() {
            let row = op.row();
            match (op.process(), op.kind(), op.partner()) {
                (Process::Nemesis, Kind::Invoke, _) => {
                    brute.marks.push((row, op.json().expect("a mark").as_str().expect("a name").to_owned()));
                }
                (Process::Nemesis, ..) => {}
                (_, Kind::Invoke, None) => open.push(Done { begin: row, end: None, op: op.to_op() }),
                (_, Kind::Invoke, Some(_)) => {}
                (.., partner) => {
                    let begin = partner.expect("well formed").row();
                    brute.ops.push(Done { begin, end: Some(row), op: op.to_op() });
                }
            }
        }
        brute.ops.append(&mut open);
        let mut log: BTreeMap<Key, BTreeMap<i64, BTreeSet<Value>>> = BTreeMap::new();
        let mut note = |key, offset: Offset, value| {
            if offset.0 >= 0 {
                log.entry(key).or_default().entry(offset.0).or_default().insert(value);
            }
        };
        for op in &brute.ops {
            op.reads().into_iter().for_each(|(key, offset, value)| note(key, offset, value));
            if brute.must_have_committed(op) {
                let sends = op.sends().into_iter();
                sends.for_each(|(key, value, offset)| note(key, offset.unwrap_or(Offset::UNKNOWN), value));
            }
        }
        brute.log = log;
        brute
    }

    fn is_read(&self, key: Key, value: Value) -> bool {
        self.ops.iter().any(|op| op.fate() == Kind::Ok && op.reads_of(key).contains(&value))
    }

    fn must_have_committed(&self, op: &Done) -> bool {
        let is_read = op.sends().iter().any(|(key, value, _)| self.is_read(*key, *value));
        op.fate() == Kind::Ok || op.fate() == Kind::Info && is_read
    }

    fn has_conflicts(&self) -> bool {
        self.log.values().flat_map(BTreeMap::values).any(|values| values.len() > 1)
    }

    /// All places of a value, ascending.
    fn places(&self, key: Key, value: Value) -> Vec<usize> {
        let log = self.log.get(&key).into_iter().flat_map(BTreeMap::values);
        log.enumerate().filter(|(_, values)| values.contains(&value)).map(|(place, _)| place).collect()
    }

    fn counts(&self, drained: bool, group: bool) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        let mut add = |name, count: usize| {
            if count > 0 {
                *counts.entry(name).or_default() += count as u64;
            }
        };
        add("torn-txn", self.ops.iter().filter(|op| self.is_torn(op, drained, group)).count());
        let sent: BTreeSet<(Key, Value)> =
            self.ops.iter().flat_map(Done::sends).map(|(key, value, _)| (key, value)).collect();
        let read: BTreeSet<(Key, Value)> =
            self.ops.iter().flat_map(Done::reads).map(|(key, _, value)| (key, value)).collect();
        for (_, value) in read.difference(&sent) {
            let elsewhere = sent.iter().any(|(_, other)| other == value);
            add(if elsewhere { "misrouted" } else { "phantom-read" }, 1);
        }
        for op in &self.ops {
            for is_committed in self.redelivered(op) {
                add(if is_committed { "redelivery" } else { "redelivery-uncommitted" }, 1);
            }
            for (key, is_skip) in self.steps_to(op) {
                let before = self.before(key, op).expect("there is a step");
                let is_held = group && self.is_held(key, before, op);
                let name = match (is_skip, is_held) {
                    (true, true) => "poll-skip-held",
                    (true, false) => "poll-skip",
                    (false, true) => "nonmonotonic-poll-held",
                    (false, false) => "nonmonotonic-poll",
                };
                add(name, 1);
            }
            for (name, is_held) in self.positions_after(op) {
                add(if group && is_held && name == "abort-other" { "abort-other-held" } else { name }, 1);
            }
        }
        let (_, back) = self.committed_before(usize::MAX);
        add("committed-offset-regression", back);
        let (consumers, producers) = self.stuck();
        add("stuck-consumer", consumers);
        add("stuck-producer", producers);
        counts
    }

    fn is_torn(&self, op: &Done, drained: bool, group: bool) -> bool {
        let is_read = |(key, value, _): &(Key, Value, Option<Offset>)| self.is_read(*key, *value);
        let is_passed = |(key, value, _): &(Key, Value, Option<Offset>)| {
            let readable = self.log.get(key).into_iter().flat_map(BTreeMap::values).flatten();
            let reach = readable.filter(|value| self.is_read(*key, **value));
            let reach = reach.filter_map(|value| self.places(*key, *value).first().copied()).max();
            self.places(*key, *value)
                .last()
                .copied()
                .is_some_and(|place| reach.is_some_and(|reach| place <= reach))
        };
        op.op.f == F::Txn
            && op.fate() != Kind::Fail
            && op.sends().iter().any(is_read)
            && op.sends().iter().any(|send| !is_read(send) && (drained || (!group && is_passed(send))))
    }

    /// The subscribe by which a process came to be of the group in which it is when an op of it ends; those that follow change
    /// nothing of that.
    fn joined(&self, process: Process, row: usize) -> Option<&Done> {
        let before =
            self.ops.iter().filter(|op| op.op.process == process && op.end.is_some_and(|end| end < row));
        let taken = before.filter(|op| op.takes_keys());
        // An info retires the process, and a subscribe that did not end well makes nobody a member.
        let taken: Vec<&Done> = taken.filter(|op| op.op.f == F::Assign || op.op.kind == Kind::Ok).collect();
        let assigned = taken.iter().rposition(|op| op.op.f == F::Assign);
        taken.get(assigned.map_or(0, |assigned| assigned + 1)).copied()
    }

    fn is_members_read(&self, op: &Done) -> bool {
        op.op.kind == Kind::Ok
            && matches!(op.op.f, F::Poll | F::Txn)
            && op.end.is_some_and(|end| self.joined(op.op.process, end).is_some())
    }

    /// For each record that an op of a member read, although another had: whether it had been committed.
    fn redelivered(&self, op: &Done) -> Vec<bool> {
        if !self.is_members_read(op) {
            return Vec::new();
        }
        let own = |other: &&Done| other.op.process == op.op.process;
        let joined = self.joined(op.op.process, op.end.expect("it read")).expect("it is a member");
        let since = |other: &&Done| other.end >= joined.end && other.end <= op.end;
        let is_committed = |key: Key, offset: Offset| {
            // When it got the key, by its own word or at the earliest; and what it committed itself since it joined.
            let told = |other: &&Done| other.op.extra.rebalance.iter().any(|entry| entry.keys.contains(&key));
            let mut gained = self.ops.iter().filter(own).filter(since).filter(told);
            let got = gained.next_back().unwrap_or(joined);
            let (group, _) = self.committed_before(got.begin);
            let before = self.ops.iter().filter(own).filter(since).filter(|other| other.end < op.end);
            let mut commits = before.filter(|other| other.fate() == Kind::Ok).filter_map(|other| {
                let own = other.op.extra.offsets.iter().find(|(other, _)| *other == key);
                own.map(|(_, offset)| *offset)
            });
            group.get(&key).copied().flatten() > Some(offset) || commits.next_back() > Some(offset)
        };
        let mut records: BTreeMap<(Key, Value), Offset> = BTreeMap::new();
        for (key, offset, value) in op.reads() {
            if offset.0 >= 0 && self.places(key, value).len() == 1 {
                records.entry((key, value)).or_insert(offset);
            }
        }
        let earlier = self.ops.iter().filter(|other| other.end < op.end && self.is_members_read(other));
        let was_read: BTreeSet<(Key, Value)> = earlier
            .flat_map(Done::reads)
            .filter(|(_, offset, _)| offset.0 >= 0)
            .map(|(key, _, value)| (key, value))
            .collect();
        let again = records.into_iter().filter(|(record, _)| was_read.contains(record));
        again.map(|((key, _), offset)| is_committed(key, offset)).collect()
    }

    /// What is known of the group's committed offsets by what ended before a row, and how often they went back.
    fn committed_before(&self, row: usize) -> (BTreeMap<Key, Option<Offset>>, usize) {
        let (mut known, mut back) = (BTreeMap::new(), 0);
        let ended = self.ops.iter().filter(|op| op.end.is_some_and(|end| end < row) && op.fate() == Kind::Ok);
        for op in ended {
            let told: Vec<(Key, Option<Offset>)> = match &op.op.value {
                OpValue::Json(json) if op.op.f == F::Committed => json
                    .as_object()
                    .expect("a map")
                    .iter()
                    .map(|(key, offset)| (Key(key.parse().expect("a key")), offset.as_i64().map(Offset)))
                    .collect(),
                _ => op.op.extra.offsets.iter().map(|(key, offset)| (*key, Some(*offset))).collect(),
            };
            for (key, told) in told {
                let before = self.committed_before(op.begin).0.get(&key).copied();
                let now = known.get(&key).copied();
                if before.is_some_and(|before| told < before) {
                    back += 1;
                    known.insert(key, told);
                } else if op.op.f != F::Committed || now.is_none_or(|now| told >= now) {
                    known.insert(key, told);
                }
            }
        }
        (known, back)
    }

    /// The op whose reads an op's first read of a key is to follow: the process' last that ended well, if nothing came in
    /// between by which the consumer stands elsewhere.
    fn before(&self, key: Key, op: &Done) -> Option<&Done> {
        let mut own = self.ops.iter().filter(|other| other.op.process == op.op.process && other.end < op.end);
        let reads = |other: &&Done| !other.reads_of(key).is_empty();
        let last =
            own.clone().rfind(|other| reads(other) && (other.op.kind == Kind::Ok || other.was_aborted()))?;
        let moved = own.any(|other| {
            let keeps = match &other.op.value {
                OpValue::Keys(keys) => keys.contains(&key) && !other.op.extra.from_beginning,
                _ => false,
            };
            other.end > last.end && other.takes_keys() && !keeps
        });
        (last.op.kind == Kind::Ok && !moved).then_some(last)
    }

    /// Each key in which an op left something out (`true`) or went back, as against what its process had read before.
    fn steps_to(&self, op: &Done) -> Vec<(Key, bool)> {
        if op.end.is_none() {
            return Vec::new();
        }
        let keys: BTreeSet<Key> = op.reads().into_iter().map(|(key, ..)| key).collect();
        let step = |key: &Key| {
            let from = self.before(*key, op)?.reads_of(*key);
            let to = op.reads_of(*key);
            let place = |value: &Value| self.places(*key, *value).last().copied();
            let (from, to) = (place(from.last()?)?, place(to.first()?)?);
            (to != from + 1).then_some((*key, to > from))
        };
        keys.iter().filter_map(step).collect()
    }

    /// Whether the process of an op has certainly held a key since an op of its own before.
    fn is_held(&self, key: Key, before: &Done, op: &Done) -> bool {
        let own: Vec<&Done> = self.ops.iter().filter(|other| other.op.process == op.op.process).collect();
        let is_told = |other: &Done| other.op.extra.rebalance.iter().any(|entry| entry.keys.contains(&key));
        let assigns = |other: &Done| other.op.f == F::Assign && other.op.kind == Kind::Ok;
        let until = own.iter().filter(|other| other.end <= before.end);
        let taken = until.clone().rfind(|other| other.takes_keys());
        let held = match taken {
            Some(taken) if assigns(taken) => {
                matches!(&taken.op.value, OpValue::Keys(keys) if keys.contains(&key))
            }
            taken => until.clone().any(|other| {
                is_told(other) && other.end > taken.and_then(|taken| taken.end) && other.end < before.end
            }),
        };
        let mut since =
            own.iter().filter(|other| other.end > before.end && other.end <= op.end && other.end.is_some());
        let by_itself = taken.is_some_and(|taken| assigns(taken));
        let moved = since.any(|other| is_told(other) || other.takes_keys() && !(by_itself && assigns(other)));
        held && !is_told(before) && !moved
    }

    /// Where the process of an aborted op went on, for each key that the op read, and whether it held the key all the while.
    fn positions_after(&self, aborted: &Done) -> Vec<(&'static str, bool)> {
        let keys: BTreeSet<Key> = aborted.reads().into_iter().map(|(key, ..)| key).collect();
        let Some(end) = aborted.end.filter(|_| aborted.was_aborted()) else { return Vec::new() };
        let later = || {
            let own = self.ops.iter().filter(|op| op.op.process == aborted.op.process);
            own.filter(move |op| op.end.is_some_and(|other| other > end)).take_while(|op| !op.takes_keys())
        };
        let after = |key: &Key| {
            let then = later().find(|op| !op.reads_of(*key).is_empty())?;
            let is_held = self.is_held(*key, aborted, then);
            let next = *then.reads_of(*key).first()?;
            let read = aborted.reads_of(*key);
            let place = |value: &Value| self.places(*key, *value).last().copied();
            let (first, last, then) = (place(read.first()?)?, place(read.last()?)?, place(&next)?);
            let name = match then {
                _ if then == last + 1 => "abort-advance",
                _ if then == first => "abort-rewind",
                _ if then < first => "abort-rewind-further",
                _ => "abort-other",
            };
            Some((name, is_held))
        };
        keys.iter().filter_map(after).collect()
    }

    /// How many keys could not be read, and not be written, once the cluster was whole.
    fn stuck(&self) -> (usize, usize) {
        let row = |name| self.marks.iter().find(|(_, mark)| mark == name).map(|(row, _)| *row);
        let Some(whole) = row(phase::DRAIN) else { return (0, 0) };
        if row(phase::UNRECOVERED).is_some_and(|row| row < whole) {
            return (0, 0);
        }
        let end = self.marks.iter().find(|(row, mark)| *row > whole && mark == phase::UNDRAINED);
        let end = end.map_or(usize::MAX, |(row, _)| *row);

        let sent: BTreeSet<Key> = self.ops.iter().flat_map(Done::sends).map(|(key, ..)| key).collect();
        let is_refused = |key: &&Key| {
            let tries: Vec<&Done> = self
                .ops
                .iter()
                .filter(|op| op.begin > whole && op.sends().iter().any(|(sent, ..)| sent == *key))
                .collect();
            let taken = tries.iter().any(|op| {
                let mut own = op.sends().into_iter().filter(|(sent, ..)| sent == *key);
                op.fate() == Kind::Ok || own.any(|(_, value, _)| self.is_read(**key, value))
            });
            let from = tries.iter().map(|op| op.begin).min();
            let until = tries.iter().map(|op| op.end.unwrap_or(op.begin)).max();
            !taken && from.zip(until).is_some_and(|(from, until)| until - from >= PROGRESS_LIMIT)
        };
        let producers = sent.iter().filter(is_refused).count();
        let groups = sent.iter().filter(|key| self.is_group_stuck(**key, whole, end)).count();

        let drain: Vec<&Done> =
            self.ops.iter().filter(|op| op.end.is_some_and(|row| row > whole && row < end)).collect();
        // Of an op, the keys that its process had assigned.
        let held = |op: &Done| -> Vec<Key> {
            let own = drain.iter().filter(|other| other.op.process == op.op.process && other.end < op.end);
            match own.rev().find(|other| other.takes_keys()) {
                Some(Done {
                    op: Op { f: F::Assign, kind: Kind::Ok, value: OpValue::Keys(keys), .. },
                    ..
                }) => keys.clone(),
                _ => Vec::new(),
            }
        };
        let is_assign = |op: &Done, key: Key| match (&op.op.f, op.op.kind, &op.op.value) {
            (F::Assign, Kind::Ok, OpValue::Keys(keys)) => keys.contains(&key),
            _ => false,
        };
        let mut consumers = 0;
        for key in [Key(5), Key(6)] {
            let Some(assigned) = drain.iter().find(|op| is_assign(op, key)).map(|op| op.end) else {
                continue;
            };
            let own: Vec<&&Done> =
                drain.iter().filter(|op| !op.takes_keys() && held(op).contains(&key)).collect();
            let reads = |op: &Done| op.op.kind == Kind::Ok && !op.reads().is_empty();
            let moved = own.iter().filter(|op| reads(op)).map(|op| op.end).max().unwrap_or(assigned);
            let last = own.iter().map(|op| op.end).max().unwrap_or(assigned);
            let mut debugs =
                own.iter().filter(|op| op.end > moved && op.op.f == F::Debug && op.op.kind == Kind::Ok);
            let told = debugs.next_back().and_then(|op| {
                let OpValue::Json(json) = &op.op.value else { return None };
                let number = |field| json.get(key.to_string())?.get(field)?.as_i64();
                number("position").zip(number("end"))
            });
            let reached = drain
                .iter()
                .filter(|op| op.op.kind == Kind::Ok)
                .flat_map(|op| op.reads_of(key))
                .filter_map(|value| self.places(key, value).last().copied())
                .max();
            let behind = match told {
                Some((position, end)) => position < end,
                None => reached.map_or(0, |place| place + 1) < self.log.get(&key).map_or(0, BTreeMap::len),
            };
            let lasted = last.zip(moved).map_or(0, |(last, moved)| last - moved);
            consumers += usize::from(behind && lasted >= PROGRESS_LIMIT);
        }
        (consumers + groups, producers)
    }

    /// Whether a group did not go on with a key, between these rows.
    fn is_group_stuck(&self, key: Key, whole: usize, end: usize) -> bool {
        let ops: Vec<(usize, &Done)> =
            self.ops.iter().filter_map(|op| Some((op.end.filter(|row| *row < end)?, op))).collect();
        // The keys that its process had subscribed to, and when.
        let subscribed = |row: usize, op: &Done| -> Option<(usize, Vec<Key>)> {
            let own = ops.iter().filter(|(before, it)| it.op.process == op.op.process && *before < row);
            let (row, last) = own.rev().find(|(_, it)| it.takes_keys() || it.op.kind == Kind::Info)?;
            let keys = match &last.op.value {
                OpValue::Keys(keys) => keys.clone(),
                _ => Vec::new(),
            };
            (last.op.f == F::Subscribe && last.op.kind == Kind::Ok).then_some((*row, keys))
        };
        let members: Vec<(usize, &Done, usize, Vec<Key>)> = ops
            .iter()
            .filter(|(row, op)| *row > whole && !op.takes_keys())
            .filter_map(|(row, op)| subscribed(*row, op).map(|(since, keys)| (*row, *op, since, keys)))
            .collect();
        let is_doubtful = |op: &Done| op.op.kind == Kind::Info && op.op.f != F::Crash;
        let doubtful = members.iter().filter(|(_, op, ..)| is_doubtful(op)).map(|(row, ..)| *row).max();
        let marks =
            self.marks.iter().filter(|(row, name)| name == phase::GROUP && *row > whole && *row < end);
        let Some(mark) = marks.map(|(row, _)| *row).max().filter(|mark| Some(*mark) > doubtful) else {
            return false;
        };
        let acked = ops.iter().filter(|(row, op)| *row > whole && op.fate() == Kind::Ok);
        let acked = acked.flat_map(|(row, op)| op.sends().into_iter().map(move |sent| (*row, op, sent)));
        let there = acked
            .filter(|(_, op, _)| op.begin > whole && Some(op.begin) > doubtful)
            .filter(|(_, _, (sent, value, _))| *sent == key && self.is_read(key, *value))
            .filter(|(_, _, (_, value, _))| {
                members.iter().all(|(_, op, ..)| !op.reads_of(key).contains(value))
            })
            .map(|(row, ..)| row)
            .min();
        let Some(there) = there else { return false };
        let moved =
            members.iter().filter(|(_, op, ..)| !op.reads_of(key).is_empty()).map(|(row, ..)| *row).max();
        members.iter().any(|(row, op, since, keys)| {
            let from = mark.max(there).max(*since).max(moved.unwrap_or(0));
            keys.contains(&key) && op.op.kind != Kind::Info && *row >= from + PROGRESS_LIMIT
        })
    }
}

fn agree(history: &History, drained: bool, via: Via) -> Result<(), TestCaseError> {
    let progress_limit_ns = PROGRESS_LIMIT as u64;
    let options = Options {
        via,
        vacuity: false,
        examples: Examples::None,
        drained,
        progress_limit_ns,
        ..Options::default()
    };
    let verdict = check(history, &options);
    let brute = Brute::new(history);
    // Where an offset has two values, which of them the order of the log follows is arbitrary.
    let arbitrary = |name: &str| {
        brute.has_conflicts()
            && ["abort", "nonmonotonic", "poll-skip"].iter().any(|part| name.starts_with(part))
    };
    let found = verdict.anomalies.iter().map(|(name, found)| (name.as_str(), found.count));
    let found: BTreeMap<&str, u64> =
        found.filter(|(name, _)| NAMES.contains(name) && !arbitrary(name)).collect();
    let mut expect = brute.counts(drained, via == Via::Subscribe);
    expect.retain(|name, _| !arbitrary(name));
    prop_assert_eq!(found, expect, "in {}: {:?}", mini::print(history), verdict.why);
    Ok(())
}

fn via() -> impl Strategy<Value = Via> {
    prop_oneof![Just(Via::Assign), Just(Via::Subscribe)]
}

proptest! {
    #![proptest_config(common::cases(1500))]

    #[test]
    fn the_checks_agree_with_their_definitions(history in common::histories(7), drained in any::<bool>(), via in via()) {
        agree(&history, drained, via)?;
    }
}

proptest! {
    #![proptest_config(common::cases(8000))]

    #[test]
    fn those_of_consumers_too(history in common::histories_of_consumers(14), drained in any::<bool>(), via in via()) {
        agree(&history, drained, via)?;
    }
}

/// What members of a group and others do once the cluster is whole: some of these words, in any order.
const OF_GROUPS: &str = "#group #group u5 1/u5 u5,6 2/u6 a5 p p p 1/p 1/p 1/p 2/p !p ?p ?1/p c p5:0=1 1/p6:0=1 !1/(p5:0=1)x \
                         p~5 8/s5=2@1 9/p5:1=2 #undrained";

fn groups() -> impl Strategy<Value = History> {
    let begun = prop_oneof![
        Just("#drain 8/s5=1@0 9/p5:0=1"),
        Just("#drain 8/s5=1@0 8/s6=1@0 9/p5:0=1;6:0=1"),
        Just("u5 1/u6 #drain 8/s5=1@0 8/s6=1@0 9/p5:0=1;6:0=1"),
        Just("8/s5=1@0 #drain 9/p5:0=1"),
    ];
    let words: Vec<&str> = OF_GROUPS.split_whitespace().collect();
    (begun, Just(words).prop_shuffle(), 4usize..16)
        .prop_map(|(begun, words, count)| mini::parse(&format!("{begun} {}", words[..count].join(" "))))
}

proptest! {
    #![proptest_config(common::cases(4000))]

    #[test]
    fn those_of_groups_too(history in groups()) {
        agree(&history, true, Via::Subscribe)?;
    }
}
