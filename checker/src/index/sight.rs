//! Who saw a value at an offset: for stories, not for judging.

use super::{Index, IntMap, NONE, TxnId, ValueId, seen};
use riprap_core::op::{Key, Kind, Offset, Value};
use std::collections::BTreeSet;

/// How a value is known to be at an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sight {
    /// The transaction that sent it was told so.
    Sent(TxnId),
    /// This transaction read it there.
    Read(TxnId),
}

/// Who saw the values of which that is not plain.
pub(super) struct Sightings {
    /// By value: whether it is at several places, was not read by anybody who ended well, or was read without an offset.
    odd: Vec<bool>,
    /// The first who read such a value at an offset, and the first who read it anywhere, under [`Offset::UNKNOWN`].
    first: IntMap<(ValueId, i64), TxnId>,
    /// The offset that the sender of such a value was told.
    told: IntMap<ValueId, Offset>,
}

impl Index<'_> {
    /// Somebody who saw this value at this offset.
    pub(crate) fn who_saw(&self, value: ValueId, offset: Offset) -> Option<Sight> {
        if self.told_offset(value) == Some(offset) {
            return Some(Sight::Sent(self.writer[value as usize]));
        }
        let sightings = self.sightings.get_or_init(|| self.sightings());
        let reader = self.reader[value as usize];
        if !sightings.odd[value as usize] {
            // It is at one place, and whoever read it read it there.
            return Some(Sight::Read(reader));
        }
        sightings.first.get(&(value, offset.0)).copied().map(Sight::Read)
    }

    /// The offset that its sender was told, if it was, and must have committed.
    fn told_offset(&self, value: ValueId) -> Option<Offset> {
        let writer = self.writer[value as usize];
        if self.seen[value as usize] & seen::SENT_SOMEWHERE == 0 || !self.must_have_committed(writer) {
            return None;
        }
        // Not by a look at what the writer sent: it may have sent a million values, and each may be asked for.
        let first = self.first_place[value as usize];
        if first == self.last_place[value as usize] {
            return Some(self.order_offset[first as usize]);
        }
        self.sightings.get_or_init(|| self.sightings()).told.get(&value).copied()
    }

    /// Somebody who read this value, wherever.
    pub(crate) fn who_read(&self, value: ValueId) -> Option<TxnId> {
        match self.reader[value as usize] {
            NONE => {
                let sightings = self.sightings.get_or_init(|| self.sightings());
                sightings.first.get(&(value, Offset::UNKNOWN.0)).copied()
            }
            reader => Some(reader),
        }
    }

    /// One pass over all reads, made when a story first needs it.
    fn sightings(&self) -> Sightings {
        let seen = self.seen.iter().map(|seen| seen & seen::READ_NOWHERE != 0);
        let unread = self.reader.iter().map(|reader| *reader == NONE);
        let mut odd: Vec<bool> = seen.zip(unread).map(|(a, b)| a || b).collect();
        self.repeats.iter().for_each(|(value, _)| odd[*value as usize] = true);
        self.conflicts.iter().for_each(|(_, value)| odd[*value as usize] = true);
        let mut first = IntMap::default();
        for txn in 0..self.txns.len() as TxnId {
            for (key, offsets, values) in self.reads(txn) {
                let key = &self.keys[key as usize];
                for (offset, value) in offsets.iter().zip(values) {
                    let value = self.value_id(key, *value);
                    if odd[value as usize] {
                        first.entry((value, offset.0)).or_insert(txn);
                        first.entry((value, Offset::UNKNOWN.0)).or_insert(txn);
                    }
                }
            }
        }
        let mut told = IntMap::default();
        let repeated = self.repeats.chunk_by(|(a, _), (b, _)| a == b).map(|places| places[0].0);
        let writers: BTreeSet<TxnId> =
            repeated.map(|value| self.writer[value as usize]).filter(|writer| *writer != NONE).collect();
        for txn in writers {
            for (_, value, offset) in self.sends(txn).filter(|(_, value, _)| odd[*value as usize]) {
                told.extend(offset.map(|offset| (value, offset)));
            }
        }
        Sightings { odd, first, told }
    }

    /// `value 17 acked at offset 12 (op 31)`: a value and what became of its send.
    pub(crate) fn tell_value(&self, value: ValueId) -> String {
        let writer = self.writer[value as usize];
        let number = self.value(value);
        if writer == NONE {
            return format!("value {number} (sent by nobody)");
        }
        let op = self.op_index(writer);
        let offset = self.told_offset(value);
        match (self.txns[writer as usize].kind, offset) {
            (Kind::Ok, Some(offset)) => format!("value {number} acked at offset {offset} (op {op})"),
            (Kind::Ok, None) => format!("value {number} acked without an offset (op {op})"),
            (Kind::Fail, _) => format!("value {number} whose send failed (op {op})"),
            (Kind::Info | Kind::Invoke, _) => {
                format!("value {number} whose send's end is unknown (op {op})")
            }
        }
    }

    /// `value 17 at offset 12`: a value at its place.
    pub(crate) fn tell_place(&self, place: u32) -> String {
        let value = self.value(self.order[place as usize]);
        format!("value {value} at offset {}", self.order_offset[place as usize])
    }

    /// `value 17 at offset 12`, or just the value where it has no place.
    pub(crate) fn tell_placed(&self, value: ValueId) -> String {
        match self.place[value as usize] {
            NONE => format!("value {}", self.value(value)),
            place => format!("value {} at offset {}", self.value(value), self.order_offset[place as usize]),
        }
    }

    /// The number of a value, if the history knows it.
    pub(crate) fn find_value(&self, key: Key, value: Value) -> Option<ValueId> {
        let key = &self.keys[self.key_ids.rank(key.0)? as usize];
        key.values.rank(value.0).map(|rank| key.value_ids.start + rank)
    }
}
