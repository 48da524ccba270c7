//! What a consumer group is promised: offsets that it committed stay committed, and its members begin behind them.
//!
//! ```text
//! u5 p5:10=1,11=2+5@12  p5:11=2              redelivery: the group had committed offset 12
//! u5 p5:10=1            1/u5 1/p5:10=1       redelivery-uncommitted: it had not
//! u5 p5:10=1,11=2+5@12  1/u5 1/p+5@11        committed-offset-regression
//! u5 p5:10=1,11=2+5@12  g5=11   g5=_         the same: the group is told that it committed less; nothing
//! ```
//!
//! A member reads a record again if it takes over a key whose last records were read and not committed: at least once.
//! What had been committed before it got the key must not come again, since only then it learns where to begin; and what
//! it has committed itself must not, either. That another has committed it meanwhile is no promise: a member that the
//! group has given up on, but which has not heard of it yet, reads on, and only its commits are refused. When a member got
//! a key its ops tell in `rebalance`; where they do not, it may have been at any time since it subscribed. One that
//! subscribes again goes on with what it has: if the group has given up on it, it does not hear of that then either.
//!
//! A committed offset goes back if the group commits less, or is told less (`committed`), than was known before the op
//! began. The commits of two ops that overlap come in an order that nobody knows, and then the lower one counts.
//!
//! There is one group. A consumer is a member from its `subscribe` on until it assigns keys by itself; what it reads then
//! is its own affair. Offsets are those that an `ok` op tells in `offsets`, or `committed` in its value; one that was
//! committed by an op that did not end well is not known. A value that stands at several offsets is not looked at: it is
//! a duplicate. Jepsen's histories tell no offsets, and its checker does not look for any of this.

use crate::found::Found;
use crate::index::{Index, IntMap, NONE, TxnId, ValueId, fate};
use crate::options::Options;
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};
use riprap_core::history::OpRef;
use riprap_core::op::{F, Key, Kind, Offset, Process, Rebalance};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "group",
    doc: "what a group has committed stays committed, and is not delivered to it again",
    anomalies: &[COMMITTED_OFFSET_REGRESSION, REDELIVERY, REDELIVERY_UNCOMMITTED],
    run,
};

const COMMITTED_OFFSET_REGRESSION: AnomalyInfo = AnomalyInfo {
    name: "committed-offset-regression",
    meaning: "the offset that a group has committed went back, or is gone",
    source: "KAFKA-19163, KAFKA-17507; riprap",
    severity: Severity::Order,
    allowed: |_| false,
};

const REDELIVERY: AnomalyInfo = AnomalyInfo {
    name: "redelivery",
    meaning: "a group was given a record again that it had read and committed",
    source: "Kafka's documentation of consumer groups and committed offsets; riprap",
    severity: Severity::Order,
    // A log that was cut is shorter than what the group has committed, and the client library begins anew.
    allowed: |options| !options.jepsen() && !options.acks_all,
};

const REDELIVERY_UNCOMMITTED: AnomalyInfo = AnomalyInfo {
    name: "redelivery-uncommitted",
    meaning: "a group was given a record again that it had read but not yet committed",
    source: "Kafka's documentation of delivery semantics, at least once; riprap",
    severity: Severity::Note,
    allowed: |_| true,
};

/// What a group was known to have committed of a key from an op on; `None`: nothing.
#[derive(Clone, Copy)]
struct Known {
    row: usize,
    offset: Option<Offset>,
}

/// For each key, what is known of its committed offset, in the order in which it became known.
#[derive(Default)]
struct Commits(BTreeMap<Key, Vec<Known>>);

impl Commits {
    /// What was known at a row.
    fn at(&self, key: Key, row: usize) -> Option<Known> {
        let known = self.0.get(&key)?;
        known[..known.partition_point(|known| known.row < row)].last().copied()
    }

    /// Takes in what an op tells; gives what was known before, if that was more.
    fn learn(&mut self, key: Key, told: Told, op: OpRef<'_>) -> Option<Known> {
        let before = self.at(key, began(op));
        let known = self.0.entry(key).or_default();
        let now = Known { row: op.row(), offset: told.offset };
        if before.is_some_and(|before| told.offset < before.offset) {
            known.push(now);
            return before;
        }
        // Less than what became known while the op was under way: a commit may have come last, a question was too early.
        let is_less = known.last().is_some_and(|last| told.offset < last.offset);
        if told.by_commit || !is_less {
            known.push(now);
        }
        None
    }
}

/// The row in which an op began.
fn began(op: OpRef<'_>) -> usize {
    op.partner().unwrap_or(op).row()
}

#[derive(Clone, Copy)]
struct Told {
    offset: Option<Offset>,
    by_commit: bool,
}

/// What an op tells of the group's committed offsets.
fn told(op: OpRef<'_>) -> Vec<(Key, Told)> {
    if *op.f() == F::Committed {
        let told = op.json().and_then(Json::as_object).into_iter().flatten();
        return told
            .filter_map(|(key, offset)| {
                // A client library's own numbers for "none" are negative.
                let offset = offset.as_i64().filter(|offset| *offset >= 0).map(Offset);
                Some((Key(key.parse().ok()?), Told { offset, by_commit: false }))
            })
            .collect();
    }
    let committed = op.extra().map_or(&[] as &[_], |extra| &extra.offsets);
    committed.iter().map(|(key, offset)| (*key, Told { offset: Some(*offset), by_commit: true })).collect()
}

/// A committed offset that went back: the op that told the higher, the op that told the lower, and of which key.
struct Back<'h> {
    before: OpRef<'h>,
    then: OpRef<'h>,
    key: Key,
    from: Offset,
    to: Option<Offset>,
}

/// A consumer of the group.
struct Member {
    /// The row of its subscribe.
    joined: usize,
    /// By key: the row of the op in which it last got it.
    gained: IntMap<i64, usize>,
    /// By key: the last commit of its own.
    committed: IntMap<i64, Known>,
}

/// A transaction of a member, with the rows of what shows that it is one: its subscribe, and that it got the key.
#[derive(Clone, Copy)]
struct Reader {
    txn: TxnId,
    joined: usize,
    gained: Option<usize>,
}

/// A record that members read twice.
#[derive(Clone, Copy)]
struct Again {
    value: ValueId,
    first: Reader,
    then: Reader,
    /// What was known of the group's offset when the second got the key, and what it last committed itself.
    known: [Option<Known>; 2],
    /// Whether that was more than the record's offset.
    committed: Option<Known>,
}

/// All that is found while the history is gone through.
struct Search<'i, 'h> {
    index: &'i Index<'h>,
    commits: Commits,
    members: BTreeMap<Process, Member>,
    /// By value: the member that read it last.
    readers: IntMap<ValueId, Reader>,
    backs: Found<Back<'h>>,
    again: Found<Again>,
    uncommitted: Found<Again>,
}

impl<'i, 'h> Search<'i, 'h> {
    fn op(&mut self, op: OpRef<'h>) {
        match op.f() {
            // Who subscribes again stays a member, and keeps what it has until the group takes it.
            F::Subscribe if op.kind() == Kind::Ok => {
                let member =
                    || Member { joined: op.row(), gained: IntMap::default(), committed: IntMap::default() };
                self.members.entry(op.process()).or_insert_with(member);
            }
            F::Assign if op.kind() != Kind::Fail => {
                self.members.remove(&op.process());
            }
            _ => {}
        }
        if let Some(member) = self.members.get_mut(&op.process()) {
            for entry in op.rebalance().iter().filter(|entry| entry.kind == Rebalance::ASSIGNED) {
                member.gained.extend(entry.keys.iter().map(|key| (key.0, op.row())));
            }
        }
        if matches!(op.f(), F::Poll | F::Txn) && op.kind() == Kind::Ok {
            self.read(op);
        }
        if fate(op) == Kind::Ok {
            self.learn(op);
        }
    }

    fn read(&mut self, op: OpRef<'h>) {
        let Some(member) = self.members.get(&op.process()) else { return };
        let txn = self.index.txn_of(op).expect("a completion of sends and polls is a transaction");
        for (value, offset) in records(self.index, txn) {
            let key = self.index.key_of(value).key;
            let gained = member.gained.get(&key.0).copied();
            let then = Reader { txn, joined: member.joined, gained };
            // What one op reads twice is another check's.
            let Some(first) = self.readers.insert(value, then).filter(|first| first.txn != txn) else {
                continue;
            };
            let got = self.index.history.op(gained.unwrap_or(member.joined));
            let known = [self.commits.at(key, began(got)), member.committed.get(&key.0).copied()];
            let committed = known.into_iter().flatten().find(|known| known.offset > Some(offset));
            let found = if committed.is_some() { &mut self.again } else { &mut self.uncommitted };
            found.add(0, Again { value, first, then, known, committed });
        }
    }

    fn learn(&mut self, op: OpRef<'h>) {
        for (key, told) in told(op) {
            if told.by_commit
                && let Some(member) = self.members.get_mut(&op.process())
            {
                member.committed.insert(key.0, Known { row: op.row(), offset: told.offset });
            }
            if let Some(Known { row, offset: Some(from) }) = self.commits.learn(key, told, op) {
                let to = told.offset;
                let badness = from.0.abs_diff(to.map_or(-1, |to| to.0));
                self.backs.add(badness, Back { before: self.index.history.op(row), then: op, key, from, to });
            }
        }
    }
}

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    if options.jepsen() || !has_group(index) {
        return Vec::new();
    }
    let mut search = Search {
        index,
        commits: Commits::default(),
        members: BTreeMap::new(),
        readers: IntMap::default(),
        backs: Found::new(options),
        again: Found::new(options),
        uncommitted: Found::new(options),
    };
    let ended = |op: &OpRef<'_>| op.kind() != Kind::Invoke && op.process() != Process::Nemesis;
    index.history.ops().filter(ended).for_each(|op| search.op(op));
    let Search { backs, again, uncommitted, .. } = search;
    [
        backs.tell(&COMMITTED_OFFSET_REGRESSION, options, index, |back, mut proof| {
            proof.done(back.before);
            proof.done(back.then);
            let (before, then) = (back.before.index(), back.then.index());
            let did = |op: OpRef<'_>| if *op.f() == F::Committed { "was told" } else { "committed" };
            let now = match back.to {
                Some(to) => format!("{} offset {to}", did(back.then)),
                None => "was told that there is none".to_owned(),
            };
            let story = format!(
                "the group's offset of key {} went back: op {before} {} offset {}, and op {then}, which began after that, \
                 {now}",
                back.key,
                did(back.before),
                back.from,
            );
            proof.example(Some(back.key), story)
        }),
        again.tell(&REDELIVERY, options, index, |again, proof| tell(index, again, proof)),
        uncommitted.tell(&REDELIVERY_UNCOMMITTED, options, index, |again, proof| tell(index, again, proof)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Whether the history tells anything of a group; most do not.
fn has_group(index: &Index<'_>) -> bool {
    let history = index.history;
    history.ops().any(|op| matches!(op.f(), F::Subscribe | F::Committed))
        || history.ops_with_extra().any(|(_, extra)| !extra.offsets.is_empty())
}

/// The records that a member read, each once.
fn records(index: &Index<'_>, txn: TxnId) -> Vec<(ValueId, Offset)> {
    let mut records = Vec::new();
    for (key, offsets, values) in index.reads(txn) {
        let key = &index.keys[key as usize];
        for (offset, value) in offsets.iter().zip(values) {
            let value = index.value_id(key, *value);
            let place = index.first_place[value as usize];
            if offset.0 >= 0 && place != NONE && place == index.last_place[value as usize] {
                records.push((value, *offset));
            }
        }
    }
    records
}

fn tell(index: &Index<'_>, again: Again, mut proof: crate::proof::Proof<'_, '_>) -> crate::verdict::Example {
    let Again { value, first, then, known, committed } = again;
    let key = index.key_of(value).key;
    let shown = [first, then].map(|reader| [Some(reader.joined), reader.gained]);
    let rows = shown.into_iter().flatten().chain(known.map(|known| Some(known?.row)));
    rows.flatten().for_each(|row| proof.done(index.history.op(row)));
    [first, then].iter().for_each(|reader| proof.read_by(reader.txn, value));
    proof.sent(value);
    let committed = match committed {
        Some(Known { row, offset: Some(offset) }) => {
            let op = index.history.op(row);
            let how =
                if *op.f() == F::Committed { "been told that the group committed" } else { "committed" };
            format!("and op {} had {how} offset {offset}", op.index())
        }
        _ => "but when the process got the key the group is not known to have committed past it".to_owned(),
    };
    let who = |reader: Reader| {
        let op = index.txn_op(reader.txn);
        format!("op {} of process {}", op.index(), op.process())
    };
    let story = format!(
        "{} was given key {key} {} again: {} of the same group had read it, {committed}",
        who(then),
        index.tell_placed(value),
        who(first),
    );
    proof.example(Some(key), story)
}
