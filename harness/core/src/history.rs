//! What happened: the ops of a run, in memory as columns, on disk as JSON lines.
//!
//! A history is read by many checks and is large (millions of ops, mostly polls), so it is kept as columns: one array
//! per field, nested lists as ranges into flat arrays. Checks see it through [`OpRef`] and [`MopRef`], which are two
//! words each and copy nothing.
//!
//! What it cannot hold: more than 2^32 ops, micro-operations or records (some 50 GB of JSON lines).

mod build;
mod form;
mod json;
pub use build::{Head, OpBuilder};
pub use form::{FormFault, IllFormed, IllFormedness};
pub use json::{ReadError, read_jsonl, write_op};

use crate::op::{Extra, F, Key, Kind, Mop, Offset, Op, OpValue, Process, Reads, Rebalance, Txn, Value};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// No partner, in the column of partners.
const NO_ROW: u32 = u32::MAX;

/// A sequence of ops in the order in which they happened.
///
/// Two histories are equal if their ops are.
#[derive(Clone, Debug, Default)]
pub struct History {
    index: Vec<u64>,
    time_ns: Vec<i64>,
    process: Vec<Process>,
    kind: Vec<Kind>,
    f: Vec<u32>,
    /// Where the op's micro-operations (or keys) end; they begin where the op's before ended.
    mops_end: Vec<u32>,
    keys_end: Vec<u32>,
    /// The row of the op's completion, or of its invocation.
    partner: Vec<u32>,

    mops: Vec<MopRow>,
    keys: Vec<Key>,
    groups: Vec<GroupRow>,
    read_offsets: Vec<Offset>,
    read_values: Vec<Value>,

    /// The distinct words that `f` holds, and where those stand that came late.
    words: Vec<F>,
    late_words: BTreeMap<F, u32>,
    json: BTreeMap<u32, Json>,
    extra: BTreeMap<u32, Extra>,
    /// The open invocation of each process, while rows are added.
    open: BTreeMap<Process, u32>,
    /// Where rows stand in their file: an entry `(row, line)` for each row that is not on the line after its
    /// predecessor's. Empty: the history was not read from a file.
    lines: Vec<(u32, u64)>,
}

#[derive(Clone, Copy, Debug)]
enum MopRow {
    Send { key: Key, value: Value, offset: Offset },
    Asked,
    Polled { groups_begin: u32, groups_end: u32 },
}

#[derive(Clone, Copy, Debug)]
struct GroupRow {
    key: Key,
    begin: u32,
    end: u32,
}

impl History {
    /// An empty history.
    pub fn new() -> History {
        History::default()
    }

    /// How many ops it has.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Adds an op at the end. A completion is paired with its process' open invocation.
    pub fn push(&mut self, op: Op) {
        let mut builder = self.build();
        let mut json = None;
        match op.value {
            OpValue::None => {}
            OpValue::Mops(mops) => mops.into_iter().for_each(|mop| match mop {
                Mop::Send { key, value, offset } => builder.send(key, value, offset),
                Mop::Poll(None) => builder.asked(),
                Mop::Poll(Some(reads)) => {
                    builder.polled();
                    for (key, records) in reads {
                        builder.group(key);
                        records.into_iter().for_each(|(offset, value)| builder.record(offset, value));
                    }
                }
            }),
            OpValue::Keys(keys) => keys.into_iter().for_each(|key| builder.key(key)),
            OpValue::Json(value) => json = Some(value),
        }
        let Op { index, time_ns, process, kind, f, extra, .. } = op;
        builder.finish(Head { index, time_ns, process, kind, f: &f }, json, extra);
    }

    /// The op in this row. Panics: past the end.
    pub fn op(&self, row: usize) -> OpRef<'_> {
        assert!(row < self.len(), "row {row} of a history of {} ops", self.len());
        OpRef { history: self, row: row as u32 }
    }

    /// All ops, in order.
    pub fn ops(&self) -> impl DoubleEndedIterator<Item = OpRef<'_>> + ExactSizeIterator {
        (0..self.len()).map(|row| self.op(row))
    }

    /// The ops that have optional fields, in order.
    pub fn ops_with_extra(&self) -> impl Iterator<Item = (OpRef<'_>, &Extra)> {
        self.extra.iter().map(|(row, extra)| (self.op(*row as usize), extra))
    }

    /// The invocations with what became of them: `None` if the history ends before that is known.
    pub fn pairs(&self) -> impl Iterator<Item = (OpRef<'_>, Option<OpRef<'_>>)> {
        self.ops().filter(|op| op.kind() == Kind::Invoke).map(|op| (op, op.partner()))
    }
}

impl PartialEq for History {
    fn eq(&self, other: &History) -> bool {
        self.len() == other.len() && self.ops().zip(other.ops()).all(|(a, b)| a.to_op() == b.to_op())
    }
}

impl FromIterator<Op> for History {
    fn from_iter<I: IntoIterator<Item = Op>>(ops: I) -> History {
        let mut history = History::new();
        ops.into_iter().for_each(|op| history.push(op));
        history
    }
}

/// An op, seen in place.
#[derive(Clone, Copy)]
pub struct OpRef<'a> {
    history: &'a History,
    row: u32,
}

impl<'a> OpRef<'a> {
    /// Its place in the history; equals [`OpRef::index`] in a history that nothing was taken from.
    pub fn row(self) -> usize {
        self.row as usize
    }

    /// Its number.
    pub fn index(self) -> u64 {
        self.history.index[self.row()]
    }

    /// The line of the file it was read from, from 1; `None` if it was not read from a file.
    pub fn line(self) -> Option<u64> {
        let lines = &self.history.lines;
        let before = lines.partition_point(|(row, _)| *row <= self.row);
        let (row, line) = lines[..before].last()?;
        Some(line + u64::from(self.row - row))
    }

    /// Nanoseconds since the run began.
    pub fn time_ns(self) -> i64 {
        self.history.time_ns[self.row()]
    }

    /// Who did it.
    pub fn process(self) -> Process {
        self.history.process[self.row()]
    }

    /// Where it stands.
    pub fn kind(self) -> Kind {
        self.history.kind[self.row()]
    }

    /// What is done.
    pub fn f(self) -> &'a F {
        &self.history.words[self.history.f[self.row()] as usize]
    }

    /// An invocation's completion, or a completion's invocation.
    pub fn partner(self) -> Option<OpRef<'a>> {
        let row = self.history.partner[self.row()];
        (row != NO_ROW).then_some(OpRef { history: self.history, row })
    }

    /// Its micro-operations; none if its `f` has none.
    pub fn mops(self) -> impl DoubleEndedIterator<Item = MopRef<'a>> + ExactSizeIterator {
        let (begin, end) = range(&self.history.mops_end, self.row());
        let history = self.history;
        history.mops[begin..end].iter().map(move |row| match *row {
            MopRow::Send { key, value, offset } => {
                MopRef::Send { key, value, offset: (offset != Offset::UNKNOWN).then_some(offset) }
            }
            MopRow::Asked => MopRef::Asked,
            MopRow::Polled { groups_begin, groups_end } => {
                MopRef::Polled(ReadsRef { history, begin: groups_begin, end: groups_end })
            }
        })
    }

    /// The keys of an assign or subscribe; none otherwise.
    pub fn keys(self) -> &'a [Key] {
        let (begin, end) = range(&self.history.keys_end, self.row());
        &self.history.keys[begin..end]
    }

    /// The value of a nemesis' op, or of a word that riprap does not know.
    pub fn json(self) -> Option<&'a Json> {
        self.history.json.get(&self.row)
    }

    /// The optional fields, if it has any.
    pub fn extra(self) -> Option<&'a Extra> {
        self.history.extra.get(&self.row)
    }

    /// What the consumer gained and lost during the op.
    pub fn rebalance(self) -> &'a [Rebalance] {
        self.extra().map_or(&[], |extra| &extra.rebalance)
    }

    /// How its transaction ended, if that is told.
    pub fn outcome(self) -> Option<&'a str> {
        self.extra().and_then(|extra| extra.txn.as_ref()).map(|txn| txn.outcome.as_str())
    }

    /// Whether it was a transaction that was aborted, be it that this was asked for or not.
    pub fn was_aborted(self) -> bool {
        self.outcome() == Some(Txn::ABORTED)
            || self.kind() == Kind::Fail && self.extra().is_some_and(|extra| extra.abort)
    }

    /// A copy that stands alone.
    pub fn to_op(self) -> Op {
        let value = if let Some(json) = self.json() {
            OpValue::Json(json.clone())
        } else if self.mops().len() > 0 {
            OpValue::Mops(self.mops().map(MopRef::to_mop).collect())
        } else if !self.keys().is_empty() {
            OpValue::Keys(self.keys().to_vec())
        } else {
            // An empty list says no more than no list.
            OpValue::None
        };
        Op {
            index: self.index(),
            time_ns: self.time_ns(),
            process: self.process(),
            kind: self.kind(),
            f: self.f().clone(),
            value,
            extra: self.extra().cloned().unwrap_or_default(),
        }
    }
}

fn range(ends: &[u32], row: usize) -> (usize, usize) {
    let begin = if row == 0 { 0 } else { ends[row - 1] as usize };
    (begin, ends[row] as usize)
}

/// A micro-operation, seen in place.
#[derive(Clone, Copy)]
pub enum MopRef<'a> {
    /// A record sent.
    Send {
        /// To which key.
        key: Key,
        /// Which value.
        value: Value,
        /// Where it landed, if known.
        offset: Option<Offset>,
    },
    /// A poll that has not returned.
    Asked,
    /// A poll that has.
    Polled(ReadsRef<'a>),
}

impl MopRef<'_> {
    /// A copy that stands alone.
    pub fn to_mop(self) -> Mop {
        match self {
            MopRef::Send { key, value, offset } => Mop::Send { key, value, offset },
            MopRef::Asked => Mop::Poll(None),
            MopRef::Polled(reads) => Mop::Poll(Some(reads.to_reads())),
        }
    }
}

/// What a poll returned, seen in place.
#[derive(Clone, Copy)]
pub struct ReadsRef<'a> {
    history: &'a History,
    begin: u32,
    end: u32,
}

impl<'a> ReadsRef<'a> {
    /// Key by key: the offsets and the values, of equal length, in the order delivered.
    pub fn groups(
        self,
    ) -> impl DoubleEndedIterator<Item = (Key, &'a [Offset], &'a [Value])> + ExactSizeIterator {
        let history = self.history;
        history.groups[self.begin as usize..self.end as usize].iter().map(move |group| {
            let records = group.begin as usize..group.end as usize;
            (group.key, &history.read_offsets[records.clone()], &history.read_values[records])
        })
    }

    /// A copy that stands alone.
    pub fn to_reads(self) -> Reads {
        self.groups()
            .map(|(key, offsets, values)| {
                (key, offsets.iter().copied().zip(values.iter().copied()).collect())
            })
            .collect()
    }
}
