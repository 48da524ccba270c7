//! The few ops that prove an anomaly: the ones the story names, cut down to the sends and records that matter, so that
//! they are a history of their own in which the anomaly is seen again.

use crate::index::{Index, NONE, Sight, TxnId, ValueId};
use crate::verdict::Example;
use riprap_core::history::{OpRef, write_op};
use riprap_core::op::{Key, Mop, Offset, Op, OpValue, Value};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// The parts of a history that a proof needs.
pub(crate) struct Proof<'i, 'h> {
    index: &'i Index<'h>,
    txns: BTreeMap<TxnId, Kept>,
    /// The rows of other ops, which are kept whole.
    others: BTreeSet<usize>,
    /// Whether the ops are shown; if not, only named.
    shown: bool,
}

/// What is kept of one transaction.
#[derive(Default)]
struct Kept {
    sends: BTreeSet<ValueId>,
    reads: BTreeSet<ValueId>,
}

impl<'i, 'h> Proof<'i, 'h> {
    pub(crate) fn new(index: &'i Index<'h>, shown: bool) -> Proof<'i, 'h> {
        Proof { index, txns: BTreeMap::new(), others: BTreeSet::new(), shown }
    }

    /// The send of this value, if anybody sent it, and what shows that it was committed.
    pub(crate) fn sent(&mut self, value: ValueId) {
        let writer = self.index.writer[value as usize];
        if writer == NONE {
            return;
        }
        self.sent_by(writer, value);
        if self.shown
            && let Some(read) = self.index.committed_by(writer)
        {
            self.sent_by(writer, read);
            self.read_by(self.index.reader[read as usize], read);
        }
    }

    pub(crate) fn sent_by(&mut self, txn: TxnId, value: ValueId) {
        self.txns.entry(txn).or_default().sends.insert(value);
    }

    /// What this transaction read of this value.
    pub(crate) fn read_by(&mut self, txn: TxnId, value: ValueId) {
        self.txns.entry(txn).or_default().reads.insert(value);
    }

    /// That this op was done. Of a transaction no send and no read is kept for it.
    pub(crate) fn done(&mut self, op: OpRef<'_>) {
        match self.index.txn_of(op) {
            Some(txn) => {
                self.txns.entry(txn).or_default();
            }
            None => {
                self.others.insert(op.row());
            }
        }
    }

    /// What shows that this value is at this place, and was sent by somebody.
    pub(crate) fn placed(&mut self, value: ValueId, place: u32) {
        self.sent(value);
        if !self.shown {
            return;
        }
        self.seen_at(value, place);
        // Where the value stands again, but another value has the offset: without that one it would be there instead.
        let repeats = &self.index.repeats;
        let repeats = &repeats[repeats.partition_point(|(other, _)| *other < value)..];
        for (_, again) in repeats.iter().take_while(|(other, _)| *other == value) {
            if *again > place && self.index.order[*again as usize] != value {
                let other = self.index.order[*again as usize];
                self.sent(other);
                self.seen_at(other, *again);
            }
        }
    }

    fn seen_at(&mut self, value: ValueId, place: u32) {
        let offset = self.index.order_offset[place as usize];
        if let Some(Sight::Read(txn)) = self.index.who_saw(value, offset) {
            self.read_by(txn, value);
        }
    }

    /// The example: its story, and the ops that were collected.
    pub(crate) fn example(self, key: Option<Key>, story: String) -> Example {
        let mut ops = Vec::new();
        let mut rows = Vec::new();
        for (txn, kept) in &self.txns {
            let op = self.index.txn_op(*txn);
            ops.push(op.index());
            if !self.shown {
                continue;
            }
            let told = self.index.history.op(self.index.txns[*txn as usize].told as usize);
            let mut completed = op.to_op();
            if told.row() != op.row() {
                completed.value = told.to_op().value;
            }
            let places = self.cut(&mut completed, kept, None);
            if let Some(invocation) = op.partner() {
                let mut invoked = invocation.to_op();
                self.cut(&mut invoked, kept, Some(&places));
                rows.push((invocation.row(), invoked));
            }
            rows.push((op.row(), completed));
        }
        for row in &self.others {
            let op = self.index.history.op(*row);
            ops.push(op.index());
            if self.shown {
                rows.extend(op.partner().map(|partner| (partner.row(), partner.to_op())));
                rows.push((*row, op.to_op()));
            }
        }
        rows.sort_by_key(|(row, _)| *row);
        rows.dedup_by_key(|(row, _)| *row);
        ops.sort_unstable();
        let history = rows.iter().map(|(_, op)| line(op)).collect();
        Example { story, key: key.map(|key| key.0), ops, history, detail: None }
    }

    /// Cuts an op down to what is kept of it, or to these places among its micro-operations if it has as many.
    /// Returns the places that were kept.
    fn cut(&self, op: &mut Op, kept: &Kept, places: Option<&(usize, Vec<usize>)>) -> (usize, Vec<usize>) {
        let OpValue::Mops(mops) = &mut op.value else { return (0, Vec::new()) };
        let len = mops.len();
        let places = places.filter(|(of, _)| *of == len).map(|(_, places)| places);
        let mut stay = Vec::new();
        let mut place = 0;
        mops.retain_mut(|mop| {
            let stays = match mop {
                Mop::Send { key, value, .. } => {
                    self.index.find_value(*key, *value).is_some_and(|value| kept.sends.contains(&value))
                }
                Mop::Poll(None) => places.is_none_or(|places| places.contains(&place)),
                Mop::Poll(Some(reads)) => {
                    for (key, records) in reads.iter_mut() {
                        records.retain(|(_, value)| {
                            self.index
                                .find_value(*key, *value)
                                .is_some_and(|value| kept.reads.contains(&value))
                        });
                    }
                    reads.retain(|(_, records): &(Key, Vec<(Offset, Value)>)| !records.is_empty());
                    !reads.is_empty()
                }
            };
            if stays {
                stay.push(place);
            }
            place += 1;
            stays
        });
        (len, stay)
    }
}

fn line(op: &Op) -> Json {
    let mut line = Vec::new();
    write_op(&mut line, op).expect("a vector takes all");
    serde_json::from_slice(&line).expect("an op is written as JSON")
}
