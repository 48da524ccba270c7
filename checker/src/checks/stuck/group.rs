//! A group that does not go on: its members poll, and none of them gets what its keys have.
//!
//! A group may wait for members that were left behind: until their sessions are over, or as long as one may take to poll.
//! So nothing is judged before a run marks that all of that is over (`phase group`; see [`riprap_core::phase`]). From there
//! on a key is stuck if
//!
//! - it was written once the cluster was whole, and somebody read that value, but nobody in the group, and
//! - a member that had subscribed to it polled for [`Options::progress_limit_ns`], and nobody in the group got any record
//!   of that key meanwhile.
//!
//! What a member did that ended in `info` nobody knows: it may have read and committed what no history tells, and the group
//! may have waited for it. So only values that were sent since count, and nothing does until the run marks anew.
//!
//! There is one group. What it cannot see: a key that nobody wrote since the cluster was whole.

use crate::index::{Index, ValueId};
use crate::options::Options;
use crate::proof::Proof;
use crate::verdict::Example;
use riprap_core::history::OpRef;
use riprap_core::op::{F, Key, Kind, Process, Rebalance};
use riprap_core::phase;
use std::collections::{BTreeMap, BTreeSet};

/// A process that subscribed.
struct Member<'h> {
    subscribed: OpRef<'h>,
    /// The last op that it did as a member.
    last: Option<OpRef<'h>>,
}

/// A key that a group does not go on with.
pub(super) struct Stuck<'h> {
    key: Key,
    /// The mark from which on the group waits for nobody.
    mark: OpRef<'h>,
    /// A member that waited, and the last op in which it did.
    subscribed: OpRef<'h>,
    last: OpRef<'h>,
    /// From when on.
    since: OpRef<'h>,
    /// What is there for the group.
    value: ValueId,
    /// When somebody in it got a record of the key for the last time.
    moved: Option<OpRef<'h>>,
    /// To whom the group gave it.
    given: Option<OpRef<'h>>,
    pub(super) lasted_ns: u64,
}

/// What is known of the group once the cluster is whole.
#[derive(Default)]
struct Group<'h> {
    /// Those that are members now, and those that were.
    members: BTreeMap<Process, Member<'h>>,
    former: Vec<Member<'h>>,
    /// What members read, and the last op that brought a record of a key.
    read: BTreeSet<ValueId>,
    moved: BTreeMap<Key, OpRef<'h>>,
    /// The op in which a key was given to the member that has it.
    given: BTreeMap<Key, OpRef<'h>>,
    /// What was acknowledged: when its op began, and the op.
    acked: BTreeMap<Key, Vec<(usize, ValueId, OpRef<'h>)>>,
    /// The last op of a member that nobody knows the outcome of.
    doubtful: Option<OpRef<'h>>,
}

impl<'h> Group<'h> {
    /// A process is no member any more.
    fn let_go(&mut self, process: Process) {
        self.former.extend(self.members.remove(&process));
        self.given.retain(|_, given| given.process() != process);
    }

    fn take_keys(&mut self, op: OpRef<'h>) {
        self.let_go(op.process());
        if *op.f() == F::Subscribe && op.kind() == Kind::Ok {
            self.members.insert(op.process(), Member { subscribed: op, last: None });
        }
    }

    /// A client's op has ended.
    fn ended(&mut self, index: &Index<'h>, op: OpRef<'h>) {
        if let Some(txn) = index.txn_of(op).filter(|txn| index.txns[*txn as usize].kind == Kind::Ok) {
            for (key, value, _) in index.sends(txn) {
                let key = index.keys[key as usize].key;
                let began = op.partner().map_or(op.row(), |invocation| invocation.row());
                self.acked.entry(key).or_default().push((began, value, op));
            }
        }
        if op.f().has_keys() && op.kind() != Kind::Fail {
            self.take_keys(op);
            return;
        }
        if !self.members.contains_key(&op.process()) {
            return;
        }
        for entry in op.rebalance() {
            for key in &entry.keys {
                if entry.kind == Rebalance::ASSIGNED {
                    self.given.insert(*key, op);
                } else if self.given.get(key).is_some_and(|given| given.process() == op.process()) {
                    self.given.remove(key);
                }
            }
        }
        if let Some(txn) = index.txn_of(op) {
            for (id, _, values) in index.reads(txn) {
                let key = &index.keys[id as usize];
                self.read.extend(values.iter().map(|value| index.value_id(key, *value)));
                if !values.is_empty() {
                    self.moved.insert(key.key, op);
                }
            }
        }
        if op.kind() == Kind::Info {
            if *op.f() != F::Crash {
                self.doubtful = Some(op);
            }
            self.let_go(op.process());
        } else if let Some(member) = self.members.get_mut(&op.process()) {
            member.last = Some(op);
        }
    }
}

/// The keys that the group does not go on with, from the first to the last.
pub(super) fn stuck<'h>(index: &Index<'h>, options: &Options, whole: OpRef<'h>) -> Vec<Stuck<'h>> {
    if !phase::marks(index.history).any(|(_, name)| name == phase::GROUP) {
        return Vec::new();
    }
    let (mut group, mut mark) = (Group::default(), None);
    for op in index.history.ops() {
        let is_whole = op.row() > whole.row();
        match (op.process(), op.kind()) {
            (Process::Nemesis, _) if is_whole => match super::mark(op) {
                Some(phase::GROUP) => mark = Some(op),
                Some(phase::DRAINED | phase::UNDRAINED) => break,
                _ => {}
            },
            (Process::Nemesis, _) | (_, Kind::Invoke) => {}
            (_, kind) if !is_whole => {
                if op.f().has_keys() && kind != Kind::Fail {
                    group.take_keys(op);
                }
            }
            _ => group.ended(index, op),
        }
    }
    let doubtful = group.doubtful.map_or(0, OpRef::row);
    let Some(mark) = mark.filter(|mark| mark.row() > doubtful) else { return Vec::new() };
    let members: Vec<&Member<'h>> = group.former.iter().chain(group.members.values()).collect();
    let keys: BTreeSet<Key> =
        members.iter().flat_map(|member| member.subscribed.keys().iter().copied()).collect();
    let is_there = |(began, value, _): &&(usize, ValueId, OpRef<'h>)| {
        *began > doubtful.max(whole.row()) && index.is_read(*value) && !group.read.contains(value)
    };
    let one = |key: Key| {
        let (_, value, acked) = group.acked.get(&key)?.iter().find(is_there)?;
        let moved = group.moved.get(&key).copied();
        let waited = |member: &&Member<'h>| {
            let begun = [Some(mark), Some(*acked), moved, Some(member.subscribed)];
            let since = begun.into_iter().flatten().max_by_key(|op| op.row()).expect("there is the mark");
            let last = member.last.filter(|last| last.row() > since.row())?;
            let lasted_ns = last.time_ns().abs_diff(since.time_ns());
            Some((lasted_ns, since, last, member.subscribed))
        };
        let wants = |member: &&&Member<'h>| member.subscribed.keys().contains(&key);
        let all = members.iter().filter(wants).filter_map(waited);
        let (lasted_ns, since, last, subscribed) = all.max_by_key(|(lasted_ns, ..)| *lasted_ns)?;
        let given = group.given.get(&key).copied();
        let stuck = Stuck { key, mark, subscribed, last, since, value: *value, moved, given, lasted_ns };
        (lasted_ns >= options.progress_limit_ns).then_some(stuck)
    };
    keys.into_iter().filter_map(one).collect()
}

impl<'h> Stuck<'h> {
    /// Tells the story.
    pub(super) fn tell(self, index: &Index<'h>, whole: OpRef<'h>, mut proof: Proof<'_, 'h>) -> Example {
        [whole, self.mark, self.subscribed, self.last].into_iter().for_each(|op| proof.done(op));
        proof.sent(self.value);
        let reader = index.reader[self.value as usize];
        proof.read_by(reader, self.value);
        let key = self.key;
        let since = match self.moved.filter(|moved| moved.row() == self.since.row()) {
            Some(moved) => format!("after op {} nobody in it got a record of that key", moved.index()),
            None => "nobody in it got a record of that key".to_owned(),
        };
        let given = match self.given {
            Some(op) => {
                proof.done(op);
                format!("process {} was given it in op {}", op.process(), op.index())
            }
            None => "it was given to nobody".to_owned(),
        };
        let story = format!(
            "the group does not go on with key {key}: its members before the cluster was whole again (op {}) were gone by \
             op {}, and process {} had subscribed (op {}) and polled until op {}, but in {:.1} s {since}, though op {} read \
             value {} there; {given}",
            whole.index(),
            self.mark.index(),
            self.subscribed.process(),
            self.subscribed.index(),
            self.last.index(),
            super::seconds(self.lasted_ns),
            index.op_index(reader),
            index.value(self.value),
        );
        // What moved it last has to be seen to have done so.
        if let Some(moved) = self.moved {
            proof.done(moved);
            if let Some(txn) = index.txn_of(moved)
                && let Some(id) = index.find_key(key)
                && let Some((_, _, [value, ..])) =
                    index.reads(txn).find(|(read, _, values)| *read == id && !values.is_empty())
            {
                let value = index.value_id(&index.keys[id as usize], *value);
                proof.sent(value);
                proof.read_by(txn, value);
            }
        }
        proof.example(Some(key), story)
    }
}
