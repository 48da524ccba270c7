//! No progress: the cluster is whole, and still a key takes no write, or a consumer gets nothing of what is there.
//!
//! A run marks in its history when all faults are healed and the cluster serves again (`phase drain`; see
//! [`riprap_core::phase`]). From there on, and for at least [`Options::progress_limit_ns`]:
//!
//! - *stuck-producer*: a key was sent to, and no send was acknowledged nor its value read by anybody.
//! - *stuck-consumer*: whoever had assigned a key got no record of any key, up to the end of the final reads, although the
//!   key has more: by its own word (a `debug` that tells a position before the end), or, where there is none, because
//!   somebody knows of a record that was not read since. Or a group got nothing of a key to which its members had
//!   subscribed (`stuck/group.rs`).
//!
//! A consumer that has read to the end of the log and lacks records is not stuck: those are lost or unseen. Nothing is
//! found where the history has no such mark, where the cluster did not serve again (`unrecovered`), or where a fault was
//! not healed. What it cannot see: a member of a group that waits for ever while others of it read all of its keys.

mod group;

use crate::found::Found;
use crate::index::{Index, NONE, TxnId};
use crate::options::Options;
use crate::proof::Proof;
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Example, Severity};
use riprap_core::history::OpRef;
use riprap_core::op::{F, Key, Kind, Process};
use riprap_core::phase;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "stuck",
    doc: "once the cluster is whole, every key takes writes and is read to its end",
    anomalies: &[STUCK_CONSUMER, STUCK_PRODUCER],
    run,
};

const STUCK_CONSUMER: AnomalyInfo = AnomalyInfo {
    name: "stuck-consumer",
    meaning: "a consumer, or a group, got nothing of what a key has, though the cluster is whole",
    source: "Jepsen: Bufstream 0.1.0, 2024, stuck consumers",
    severity: Severity::Progress,
    allowed: |_| false,
};

const STUCK_PRODUCER: AnomalyInfo = AnomalyInfo {
    name: "stuck-producer",
    meaning: "a key took no write, though the cluster is whole",
    source: "Jepsen: Bufstream 0.1.0, 2024, stuck producers and consumers",
    severity: Severity::Progress,
    allowed: |_| false,
};

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    if options.jepsen() {
        return Vec::new();
    }
    let Some(whole) = whole_from(index) else { return Vec::new() };
    [consumers(index, options, whole), producers(index, options, whole)].into_iter().flatten().collect()
}

/// The mark from which on the cluster is whole.
fn whole_from<'h>(index: &Index<'h>) -> Option<OpRef<'h>> {
    let (mut healing, mut broken) = (false, false);
    // Marks are few, and the nemesis' other ops too: one look at the history finds both.
    for op in index.history.ops().filter(|op| op.process() == Process::Nemesis) {
        match mark(op) {
            Some(phase::HEAL) => healing = true,
            Some(phase::UNRECOVERED) => broken = true,
            Some(phase::DRAIN) => return (!broken).then_some(op),
            None if healing && op.kind() == Kind::Info => {
                let took_effect = op.json().and_then(|json| json.get("took_effect")).and_then(Json::as_bool);
                broken |= took_effect == Some(false);
            }
            _ => {}
        }
    }
    None
}

/// The name of a mark, if the op is one.
fn mark<'h>(op: OpRef<'h>) -> Option<&'h str> {
    let is_mark = op.kind() == Kind::Invoke && op.f().name() == phase::PHASE;
    if is_mark { op.json().and_then(Json::as_str) } else { None }
}

/// Sends to one key, none of which was taken.
struct Refused<'h> {
    first: OpRef<'h>,
    last: OpRef<'h>,
    count: u64,
}

fn producers(
    index: &Index<'_>,
    options: &Options,
    whole: OpRef<'_>,
) -> Option<(&'static AnomalyInfo, Anomaly)> {
    let mut refused: BTreeMap<Key, Refused<'_>> = BTreeMap::new();
    let mut taken: BTreeSet<Key> = BTreeSet::new();
    for op in index.history.ops().skip(whole.row()).filter(|op| op.kind() == Kind::Invoke) {
        let Some(txn) = index.txn_of(op) else { continue };
        let ended = index.txn_op(txn);
        for (key, value, _) in index.sends(txn) {
            let key = index.keys[key as usize].key;
            if index.txns[txn as usize].kind == Kind::Ok || index.is_read(value) {
                taken.insert(key);
            }
            let refused = refused.entry(key).or_insert(Refused { first: op, last: ended, count: 0 });
            refused.count += 1;
            if ended.row() > refused.last.row() {
                refused.last = ended;
            }
        }
    }
    let mut found = Found::new(options);
    for (key, refused) in refused.into_iter().filter(|(key, _)| !taken.contains(key)) {
        let lasted_ns = refused.last.time_ns().abs_diff(refused.first.time_ns());
        if lasted_ns >= options.progress_limit_ns {
            found.add(lasted_ns, (key, refused, lasted_ns));
        }
    }
    found.tell(&STUCK_PRODUCER, options, index, |(key, refused, lasted_ns), mut proof| {
        proof.done(whole);
        for op in [refused.first, refused.last] {
            let txn = index.txn_of(op).expect("it sends");
            let sent = index.sends(txn).filter(|(sent, ..)| index.keys[*sent as usize].key == key);
            sent.for_each(|(_, value, _)| proof.sent_by(txn, value));
        }
        let first = index.op_index(index.txn_of(refused.first).expect("it sends"));
        let why = refused.last.extra().and_then(|extra| extra.error.as_ref());
        let story = format!(
            "key {key} took no write in {:.1} s after the cluster was whole again (op {}): {} sends from op {first} to op \
             {}, none of them acknowledged{}",
            seconds(lasted_ns),
            whole.index(),
            refused.count,
            refused.last.index(),
            why.map_or_else(String::new, |why| format!("; the last one's error was {}", why.code)),
        );
        proof.example(Some(key), story)
    })
}

/// What a process did that had assigned a key, and that assign.
#[derive(Clone, Copy)]
struct Act<'h> {
    op: OpRef<'h>,
    assigned: OpRef<'h>,
}

impl<'h> Act<'h> {
    /// The later of two.
    fn later(own: Option<Act<'h>>, other: Option<Act<'h>>) -> Option<Act<'h>> {
        own.into_iter().chain(other).max_by_key(|act| act.op.row())
    }
}

/// What was done with a key, or by a process that held keys, since the cluster is whole.
#[derive(Clone, Copy)]
struct Reader<'h> {
    /// The first assign.
    assigned: OpRef<'h>,
    /// When a holder last got a record of whatever key.
    moved: Option<Act<'h>>,
    /// The last op of a holder; an assign alone does not show that somebody waits.
    last: Option<Act<'h>>,
    /// The last time that a holder told how far it is.
    told: Option<Act<'h>>,
}

impl<'h> Reader<'h> {
    fn new(assigned: OpRef<'h>) -> Reader<'h> {
        Reader { assigned, moved: None, last: None, told: None }
    }

    fn merge(&mut self, other: &Reader<'h>) {
        self.moved = Act::later(self.moved, other.moved);
        self.last = Act::later(self.last, other.last);
        self.told = Act::later(self.told, other.told);
    }

    /// From when on nothing came.
    fn since(&self) -> OpRef<'h> {
        self.moved.map_or(self.assigned, |act| act.op)
    }
}

/// Who held which keys, process by process: so that an op costs no more for the keys that its process holds.
#[derive(Default)]
struct Readers<'h> {
    held: BTreeMap<Process, (&'h [Key], Reader<'h>)>,
    keys: BTreeMap<Key, Reader<'h>>,
}

impl<'h> Readers<'h> {
    /// The process holds these keys from now on, if it did assign them.
    fn take(&mut self, op: OpRef<'h>) {
        self.let_go(op.process());
        if *op.f() == F::Assign && op.kind() == Kind::Ok {
            self.held.insert(op.process(), (op.keys(), Reader::new(op)));
            for key in op.keys() {
                self.keys.entry(*key).or_insert(Reader::new(op));
            }
        }
    }

    fn let_go(&mut self, process: Process) {
        let Some((keys, reader)) = self.held.remove(&process) else { return };
        for key in keys {
            self.keys.get_mut(key).expect("it was assigned").merge(&reader);
        }
    }

    fn all(mut self) -> BTreeMap<Key, Reader<'h>> {
        let processes: Vec<Process> = self.held.keys().copied().collect();
        processes.into_iter().for_each(|process| self.let_go(process));
        self.keys
    }
}

/// A reader that got nothing of a key, and how it is known that there is something.
struct Waiting<'h> {
    key: Key,
    reader: Reader<'h>,
    last: Act<'h>,
    /// What it said last: its position and the log's end.
    told: Option<(Act<'h>, i64, i64)>,
    /// The place of a record that it has not read.
    unread: Option<u32>,
    lasted_ns: u64,
}

/// Who is stuck.
enum Stuck<'h> {
    Reader(Waiting<'h>),
    Group(group::Stuck<'h>),
}

fn consumers<'h>(
    index: &Index<'h>,
    options: &Options,
    whole: OpRef<'h>,
) -> Option<(&'static AnomalyInfo, Anomaly)> {
    let mut found = Found::new(options);
    for waiting in readers(index, options, whole) {
        found.add(waiting.lasted_ns, Stuck::Reader(waiting));
    }
    for stuck in group::stuck(index, options, whole) {
        found.add(stuck.lasted_ns, Stuck::Group(stuck));
    }
    found.tell(&STUCK_CONSUMER, options, index, |stuck, proof| match stuck {
        Stuck::Reader(waiting) => waiting.tell(index, whole, proof),
        Stuck::Group(stuck) => stuck.tell(index, whole, proof),
    })
}

fn readers<'h>(index: &Index<'h>, options: &Options, whole: OpRef<'h>) -> Vec<Waiting<'h>> {
    let mut readers = Readers::default();
    // By key in the index: one above the highest place that was read since.
    let mut reached: Vec<u32> = index.keys.iter().map(|key| key.places.start).collect();
    for op in index.history.ops().skip(whole.row()) {
        match (op.process(), op.kind()) {
            (Process::Nemesis, _) if matches!(mark(op), Some(phase::DRAINED | phase::UNDRAINED)) => break,
            (Process::Nemesis, _) | (_, Kind::Invoke) => continue,
            (_, Kind::Ok | Kind::Info) if op.f().has_keys() => {
                readers.take(op);
                continue;
            }
            _ => {}
        }
        // Whoever read a record: it can be read.
        let txn = index.txn_of(op).filter(|_| op.kind() == Kind::Ok);
        let has_read = txn.is_some_and(|txn| read(index, txn, &mut reached));
        let Some((_, reader)) = readers.held.get_mut(&op.process()) else { continue };
        let act = Some(Act { op, assigned: reader.assigned });
        reader.last = act;
        if has_read {
            reader.moved = act;
        }
        if *op.f() == F::Debug && op.kind() == Kind::Ok {
            reader.told = act;
        }
    }
    let stuck = readers.all().into_iter().filter_map(|(key, reader)| {
        let last = reader.last?;
        let since = reader.since();
        // What was told before somebody moved is old.
        let told = reader.told.filter(|act| act.op.row() > since.row());
        let told = told.and_then(|act| progress(act.op, key).map(|(position, end)| (act, position, end)));
        let id = index.keys.partition_point(|other| other.key < key);
        let places = index.keys.get(id).filter(|other| other.key == key).map(|key| key.places.clone());
        let behind = match told {
            Some((_, position, end)) => position < end,
            None => places.as_ref().is_some_and(|places| reached[id] < places.end),
        };
        let lasted_ns = last.op.time_ns().abs_diff(since.time_ns());
        let unread = places.filter(|places| reached[id] < places.end).map(|places| places.end - 1);
        let is_stuck = behind && last.op.row() > since.row() && lasted_ns >= options.progress_limit_ns;
        is_stuck.then_some(Waiting { key, reader, last, told, unread, lasted_ns })
    });
    stuck.collect()
}

impl<'h> Waiting<'h> {
    fn tell(self, index: &Index<'h>, whole: OpRef<'h>, mut proof: Proof<'_, 'h>) -> Example {
        let Waiting { key, reader, last, told, unread, lasted_ns } = self;
        proof.done(whole);
        proof.done(reader.assigned);
        for act in reader.moved.into_iter().chain([last]).chain(told.map(|(act, ..)| act)) {
            proof.done(act.assigned);
            proof.done(act.op);
        }
        let mut story = format!(
            "key {key} was assigned (op {}) after the cluster was whole again (op {}), and from op {} to op {}, {:.1} s, its \
             reader got nothing",
            reader.assigned.index(),
            whole.index(),
            reader.since().index(),
            last.op.index(),
            seconds(lasted_ns),
        );
        if let Some((act, position, end)) = told {
            story += &format!(
                ", though its position is {position} and the log's end {end} (op {})",
                act.op.index()
            );
        } else if let Some(place) = unread {
            proof.placed(index.order[place as usize], place);
            story += &format!(", though there is {}", index.tell_place(place));
        }
        // The op that moved last still must have read something.
        if let Some(txn) = reader.moved.and_then(|act| index.txn_of(act.op))
            && let Some((key, _, [value, ..])) = index.reads(txn).find(|(_, _, values)| !values.is_empty())
        {
            let value = index.value_id(&index.keys[key as usize], *value);
            proof.sent(value);
            proof.read_by(txn, value);
        }
        proof.example(Some(key), story)
    }
}

/// Notes how far a transaction read its keys; returns whether it read anything.
fn read(index: &Index<'_>, txn: TxnId, reached: &mut [u32]) -> bool {
    let mut moved = false;
    for (id, _, values) in index.reads(txn) {
        let key = &index.keys[id as usize];
        for value in values {
            moved = true;
            let place = index.last_place[index.value_id(key, *value) as usize];
            if place != NONE {
                reached[id as usize] = reached[id as usize].max(place + 1);
            }
        }
    }
    moved
}

/// The position and the end of a key's log, as a `debug` tells them: `{"5": {"position": 12, "end": 20}}`.
fn progress(op: OpRef<'_>, key: Key) -> Option<(i64, i64)> {
    let told = op.json()?.get(key.0.to_string())?;
    Some((told.get("position")?.as_i64()?, told.get("end")?.as_i64()?))
}

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}
