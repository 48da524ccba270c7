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
//! What was committed before the poll began must not come again, since a member learns where to begin when it has got the
//! key, and whoever had it before cannot commit any more by then. A committed offset goes back if the group commits less,
//! or is told less (`committed`), than was known before the op began. The commits of two ops that overlap come in an
//! order that nobody knows, and then the lower one counts.
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
use riprap_core::op::{F, Key, Kind, Offset, Process};
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
    /// What was known when an op began.
    fn before(&self, key: Key, op: OpRef<'_>) -> Option<Known> {
        let began = op.partner().unwrap_or(op).row();
        let known = self.0.get(&key)?;
        known[..known.partition_point(|known| known.row < began)].last().copied()
    }

    /// Takes in what an op tells; gives what was known before, if that was more.
    fn learn(&mut self, key: Key, told: Told, op: OpRef<'_>) -> Option<Known> {
        let before = self.before(key, op);
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

/// A transaction of a member, and the row of the subscribe by which its process is one.
#[derive(Clone, Copy)]
struct Reader {
    txn: TxnId,
    joined: usize,
}

/// A record that members read twice, and what was known of the group's offset in between, if anything.
#[derive(Clone, Copy)]
struct Again {
    value: ValueId,
    first: Reader,
    then: Reader,
    known: Option<Known>,
}

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    if options.jepsen() || !has_group(index) {
        return Vec::new();
    }
    let mut backs: Found<Back<'_>> = Found::new(options);
    let (mut again, mut uncommitted) = (Found::new(options), Found::new(options));
    let mut commits = Commits::default();
    // The members, each with the row of its subscribe.
    let mut members: BTreeMap<Process, usize> = BTreeMap::new();
    // By value: the member that read it last.
    let mut readers: IntMap<ValueId, Reader> = IntMap::default();
    for op in index.history.ops().filter(|op| op.kind() != Kind::Invoke && op.process() != Process::Nemesis) {
        match op.f() {
            F::Subscribe if op.kind() == Kind::Ok => {
                members.insert(op.process(), op.row());
            }
            F::Assign if op.kind() != Kind::Fail => {
                members.remove(&op.process());
            }
            F::Poll | F::Txn if op.kind() == Kind::Ok => {
                let joined = members.get(&op.process()).copied();
                let txn = index.txn_of(op).expect("a completion of sends and polls is a transaction");
                let then = joined.map(|joined| Reader { txn, joined });
                for (then, (value, offset)) in then
                    .into_iter()
                    .flat_map(|then| records(index, txn).into_iter().map(move |record| (then, record)))
                {
                    // What one op reads twice is another check's.
                    let Some(first) = readers.insert(value, then).filter(|first| first.txn != txn) else {
                        continue;
                    };
                    let key = index.key_of(value).key;
                    let known = commits.before(key, op);
                    let is_committed = known.is_some_and(|known| known.offset > Some(offset));
                    let found = if is_committed { &mut again } else { &mut uncommitted };
                    found.add(0, Again { value, first, then, known });
                }
            }
            _ => {}
        }
        if fate(op) == Kind::Ok {
            for (key, told) in told(op) {
                if let Some(Known { row, offset: Some(from) }) = commits.learn(key, told, op) {
                    let to = told.offset;
                    let badness = from.0.abs_diff(to.map_or(-1, |to| to.0));
                    backs.add(badness, Back { before: index.history.op(row), then: op, key, from, to });
                }
            }
        }
    }
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
        again.tell(&REDELIVERY, options, index, |again, proof| tell(index, again, true, proof)),
        uncommitted.tell(&REDELIVERY_UNCOMMITTED, options, index, |again, proof| {
            tell(index, again, false, proof)
        }),
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

fn tell(
    index: &Index<'_>,
    again: Again,
    is_committed: bool,
    mut proof: crate::proof::Proof<'_, '_>,
) -> crate::verdict::Example {
    let Again { value, first, then, known } = again;
    let key = index.key_of(value).key;
    for reader in [first, then] {
        proof.done(index.history.op(reader.joined));
        proof.read_by(reader.txn, value);
    }
    proof.sent(value);
    let mut committed = ", but the group is not known to have committed past it".to_owned();
    if let Some(Known { row, offset }) = known {
        let op = index.history.op(row);
        proof.done(op);
        if let Some(offset) = offset.filter(|_| is_committed) {
            let how =
                if *op.f() == F::Committed { "been told that the group committed" } else { "committed" };
            committed = format!(", and op {} had {how} offset {offset}", op.index());
        }
    }
    let who = |reader: Reader| {
        let op = index.txn_op(reader.txn);
        format!("op {} of process {}", op.index(), op.process())
    };
    let story = format!(
        "{} was given key {key} {} again: {} of the same group had read it{committed}",
        who(then),
        index.tell_placed(value),
        who(first),
    );
    proof.example(Some(key), story)
}
