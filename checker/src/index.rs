//! What every check needs to know of a history, gathered once, as columns.
//!
//! - A *transaction* is an op of sends and polls with what became of it: its completion, or its invocation if the
//!   history ends (or contradicts itself) before that; such a one may have happened, as one that ended in `info`.
//! - The *version order* of a key is its offsets in order, gaps removed (gaps are control records and aborted data); a
//!   *place* is a number in that order. Known are the offsets that polls returned, whatever became of the poll, and
//!   those that sends returned whose transaction must have committed.
//! - A transaction *must have committed* if it is `ok`, or undecided with a value that an `ok` poll returned.
//!
//! Everything is linear in the history's records and does not depend on how large offsets or values are.

mod numbering;
mod sight;
mod tie;

pub(crate) use numbering::IntMap;
pub(crate) use sight::Sight;

use crate::parallel;
use numbering::Numbering;
use riprap_core::History;
use riprap_core::history::{MopRef, OpRef};
use riprap_core::op::{F, Key, Kind, Offset, Process, Txn as Outcome, Value};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// Nothing, in a column of numbers.
pub(crate) const NONE: u32 = u32::MAX;

/// A transaction, by its place in [`Index::txns`].
pub(crate) type TxnId = u32;
/// A value of a key, by its place in the columns of values.
pub(crate) type ValueId = u32;

/// An op of sends and polls with what became of it.
#[derive(Clone, Copy)]
pub(crate) struct Txn {
    /// The row of the completion; of the invocation if there is none.
    pub(crate) row: u32,
    /// The row whose micro-operations tell what it did.
    pub(crate) told: u32,
    /// What became of it; where its completion does not know but the outcome of its transaction is told, that.
    pub(crate) kind: Kind,
}

/// What is known of a value's sends and reads, as bits.
pub(crate) mod seen {
    pub(crate) const SENT_OK: u8 = 1;
    pub(crate) const SENT_INFO: u8 = 2;
    pub(crate) const SENT_FAIL: u8 = 4;
    pub(crate) const SENT: u8 = SENT_OK | SENT_INFO | SENT_FAIL;
    /// By a poll that did not end in `ok`.
    pub(crate) const READ_OTHERWISE: u8 = 8;
    /// By a poll that did not say at which offset.
    pub(crate) const READ_NOWHERE: u8 = 16;
    /// The transaction that sent it was told at which offset.
    pub(crate) const SENT_SOMEWHERE: u8 = 32;
}

/// One key's share of the columns.
pub(crate) struct KeyIndex {
    pub(crate) key: Key,
    /// Its values, in ascending order.
    values: Numbering,
    pub(crate) value_ids: Range<u32>,
    offsets: Numbering,
    slots: Range<u32>,
    /// Its version order in [`Index::order`].
    pub(crate) places: Range<u32>,
}

/// A history and what was gathered from it.
pub(crate) struct Index<'h> {
    pub(crate) history: &'h History,
    /// In the order of their ends; those that never ended are last.
    pub(crate) txns: Vec<Txn>,
    /// Sorted by key.
    pub(crate) keys: Vec<KeyIndex>,
    key_ids: Numbering,
    /// By value: the transaction that sent it, the last one if there are several.
    pub(crate) writer: Vec<TxnId>,
    /// By value: the first `ok` transaction that read it.
    pub(crate) reader: Vec<TxnId>,
    /// By value: the bits of [`seen`].
    pub(crate) seen: Vec<u8>,
    /// By value: its place, the last one if there are several; none if it is not (the first one) at its offset.
    pub(crate) place: Vec<u32>,
    /// By value: the first and the last place at which it was seen, be it alone or not.
    pub(crate) first_place: Vec<u32>,
    pub(crate) last_place: Vec<u32>,
    /// The version orders, key by key: the value at each place; at a place with several values, one of them.
    pub(crate) order: Vec<ValueId>,
    /// The offset of each place.
    pub(crate) order_offset: Vec<Offset>,
    /// Places with more than one value, with all of them; sorted.
    pub(crate) conflicts: Vec<(u32, ValueId)>,
    /// Values at more than one place, with all of them; sorted.
    pub(crate) repeats: Vec<(ValueId, u32)>,
    /// Values that were sent more than once: the value, and the earlier of two transactions that sent it.
    pub(crate) resent: Vec<(ValueId, TxnId)>,
    /// By undecided transaction that must have committed: the value of its that was read.
    committed_by: IntMap<TxnId, ValueId>,
    sightings: OnceLock<sight::Sightings>,
}

impl<'h> Index<'h> {
    pub(crate) fn new(history: &'h History) -> Index<'h> {
        let txns = txns(history);
        let (keys, key_ids) = number(history, &txns);
        let values = keys.last().map_or(0, |key| key.value_ids.end) as usize;
        let mut index = Index {
            history,
            txns,
            keys,
            key_ids,
            writer: vec![NONE; values],
            reader: Vec::new(),
            seen: vec![0; values],
            place: vec![NONE; values],
            first_place: vec![NONE; values],
            last_place: vec![NONE; values],
            order: Vec::new(),
            order_offset: Vec::new(),
            conflicts: Vec::new(),
            repeats: Vec::new(),
            resent: Vec::new(),
            committed_by: IntMap::default(),
            sightings: OnceLock::new(),
        };
        index.gather_sends();
        let slots = Slots::new(index.keys.last().map_or(0, |key| key.slots.end) as usize);
        let mut more = index.gather_reads(&slots);
        index.committed_by = index.find_committed();
        index.gather_offsets_of_sends(&slots, &mut more);
        index.order_versions(slots, more);
        index
    }

    pub(crate) fn txn_op(&self, txn: TxnId) -> OpRef<'h> {
        self.history.op(self.txns[txn as usize].row as usize)
    }

    /// The transaction that an op is the beginning or the end of; `None` if it is not one of sends and polls.
    pub(crate) fn txn_of(&self, op: OpRef<'_>) -> Option<TxnId> {
        let row = match op.kind() {
            Kind::Invoke => op.partner().unwrap_or(op).row(),
            _ => op.row(),
        };
        let completed = self.completions().end as usize;
        let (ended, open) = self.txns.split_at(completed);
        let find = |txns: &[Txn]| txns.binary_search_by_key(&(row as u32), |txn| txn.row).ok();
        find(ended).or_else(|| find(open).map(|at| completed + at)).map(|txn| txn as TxnId)
    }

    /// The number of the op by which a transaction is known.
    pub(crate) fn op_index(&self, txn: TxnId) -> u64 {
        self.txn_op(txn).index()
    }

    /// The key's place in [`Index::keys`]. Panics: no transaction names it.
    #[inline]
    fn key_id(&self, key: Key) -> u32 {
        self.key_ids.rank(key.0).expect("every key of the history was numbered")
    }

    /// The key's place in [`Index::keys`], if a transaction names it.
    pub(crate) fn find_key(&self, key: Key) -> Option<u32> {
        self.key_ids.rank(key.0)
    }

    /// The number of a value that is sent or read in this history.
    #[inline]
    pub(crate) fn value_id(&self, key: &KeyIndex, value: Value) -> ValueId {
        key.value_ids.start + key.values.rank(value.0).expect("every value of the history was numbered")
    }

    /// The key that a value belongs to.
    pub(crate) fn key_of(&self, value: ValueId) -> &KeyIndex {
        &self.keys[self.keys.partition_point(|key| key.value_ids.end <= value)]
    }

    /// The value that a number stands for.
    pub(crate) fn value(&self, value: ValueId) -> Value {
        let key = self.key_of(value);
        Value(key.values.number(value - key.value_ids.start))
    }

    /// What a transaction sent, in order.
    pub(crate) fn sends(&self, txn: TxnId) -> impl Iterator<Item = (u32, ValueId, Option<Offset>)> {
        self.history.op(self.txns[txn as usize].told as usize).mops().filter_map(|mop| match mop {
            MopRef::Send { key, value, offset } => {
                let key = self.key_id(key);
                let offset = offset.filter(|offset| offset.0 >= 0);
                Some((key, self.value_id(&self.keys[key as usize], value), offset))
            }
            _ => None,
        })
    }

    /// What a transaction read: key by key, in the order delivered.
    pub(crate) fn reads(&self, txn: TxnId) -> impl Iterator<Item = (u32, &'h [Offset], &'h [Value])> {
        let op = self.history.op(self.txns[txn as usize].told as usize);
        let polls = op.mops().filter_map(|mop| match mop {
            MopRef::Polled(reads) => Some(reads),
            _ => None,
        });
        polls
            .flat_map(|reads| reads.groups())
            .map(|(key, offsets, values)| (self.key_id(key), offsets, values))
    }

    /// The transactions that ended, in the order of their ends; those that did not are left out.
    pub(crate) fn completions(&self) -> std::ops::Range<TxnId> {
        0..self.txns.partition_point(|txn| txn.kind != Kind::Invoke) as TxnId
    }

    /// Key by key, the first and the last value that a transaction read; all its polls count as one. In place of what
    /// `ends` held.
    pub(crate) fn ends_of_reads(&self, txn: TxnId, ends: &mut Vec<(u32, ValueId, ValueId)>) {
        ends.clear();
        for (id, _, values) in self.reads(txn) {
            let key = &self.keys[id as usize];
            if let [first, .., last] | [first @ last] = values {
                ends.push((id, self.value_id(key, *first), self.value_id(key, *last)));
            }
        }
        let told = self.history.op(self.txns[txn as usize].told as usize);
        if told.mops().len() > 1 {
            // Stable: of one key's groups the first stays first.
            ends.sort_by_key(|(id, _, _)| *id);
            ends.dedup_by(|then, before| {
                let same = then.0 == before.0;
                if same {
                    before.2 = then.2;
                }
                same
            });
        }
    }

    /// Whether it certainly happened.
    pub(crate) fn must_have_committed(&self, txn: TxnId) -> bool {
        match self.txns[txn as usize].kind {
            Kind::Ok => true,
            Kind::Fail => false,
            Kind::Info | Kind::Invoke => self.committed_by.contains_key(&txn),
        }
    }

    /// Of an undecided transaction that must have committed: the value of its that was read.
    pub(crate) fn committed_by(&self, txn: TxnId) -> Option<ValueId> {
        self.committed_by.get(&txn).copied()
    }

    /// Whether an `ok` transaction read it.
    pub(crate) fn is_read(&self, value: ValueId) -> bool {
        self.reader[value as usize] != NONE
    }

    /// Whether nobody knows what became of it.
    pub(crate) fn is_undecided(&self, txn: TxnId) -> bool {
        matches!(self.txns[txn as usize].kind, Kind::Info | Kind::Invoke)
    }

    fn find_committed(&self) -> IntMap<TxnId, ValueId> {
        let undecided = (0..self.txns.len() as TxnId).filter(|txn| self.is_undecided(*txn));
        let read = |txn| self.sends(txn).map(|(_, value, _)| value).find(|value| self.is_read(*value));
        undecided.filter_map(|txn| Some((txn, read(txn)?))).collect()
    }

    fn gather_sends(&mut self) {
        for txn in 0..self.txns.len() as TxnId {
            let bit = match self.txns[txn as usize].kind {
                Kind::Ok => seen::SENT_OK,
                Kind::Fail => seen::SENT_FAIL,
                Kind::Info | Kind::Invoke => seen::SENT_INFO,
            };
            let op = self.history.op(self.txns[txn as usize].told as usize);
            for mop in op.mops() {
                let MopRef::Send { key, value, offset } = mop else { continue };
                let key = self.key_id(key);
                let value = self.value_id(&self.keys[key as usize], value);
                let seen = &mut self.seen[value as usize];
                if *seen & seen::SENT != 0 {
                    self.resent.push((value, self.writer[value as usize]));
                }
                *seen = *seen & !seen::SENT_SOMEWHERE | bit;
                if offset.is_some_and(|offset| offset.0 >= 0) {
                    *seen |= seen::SENT_SOMEWHERE;
                }
                self.writer[value as usize] = txn;
            }
        }
    }

    /// Notes who read what where; returns what did not fit into the slots.
    fn gather_reads(&mut self, slots: &Slots) -> Vec<(u32, ValueId)> {
        let reader: Vec<AtomicU32> = self.seen.iter().map(|_| AtomicU32::new(NONE)).collect();
        let seen: Vec<AtomicU8> = std::mem::take(&mut self.seen).into_iter().map(AtomicU8::new).collect();
        let index = &*self;
        let more = parallel::pieces(self.txns.len(), |piece| {
            let mut more = Vec::new();
            for txn in piece.start as TxnId..piece.end as TxnId {
                let ok = index.txns[txn as usize].kind == Kind::Ok;
                for (key, offsets, values) in index.reads(txn) {
                    let key = &index.keys[key as usize];
                    for (offset, value) in offsets.iter().zip(values) {
                        let id = index.value_id(key, *value);
                        if ok {
                            // Transactions come in order, nearly: mostly somebody earlier read it already.
                            if reader[id as usize].load(Relaxed) > txn {
                                reader[id as usize].fetch_min(txn, Relaxed);
                            }
                        } else {
                            seen[id as usize].fetch_or(seen::READ_OTHERWISE, Relaxed);
                        }
                        if offset.0 >= 0 {
                            slots.note(key.slot(*offset), id, &mut more);
                        } else {
                            seen[id as usize].fetch_or(seen::READ_NOWHERE, Relaxed);
                        }
                    }
                }
            }
            more
        });
        self.reader = reader.into_iter().map(AtomicU32::into_inner).collect();
        self.seen = seen.into_iter().map(AtomicU8::into_inner).collect();
        more.into_iter().flatten().collect()
    }

    fn gather_offsets_of_sends(&self, slots: &Slots, more: &mut Vec<(u32, ValueId)>) {
        for txn in 0..self.txns.len() as TxnId {
            if self.txns[txn as usize].kind == Kind::Fail || !self.must_have_committed(txn) {
                continue;
            }
            for (key, value, offset) in self.sends(txn) {
                if let Some(offset) = offset {
                    slots.note(self.keys[key as usize].slot(offset), value, more);
                }
            }
        }
    }

    fn order_versions(&mut self, slots: Slots, mut more: Vec<(u32, ValueId)>) {
        more.sort_unstable();
        more.dedup();
        let mut more = more.into_iter().peekable();
        let mut here = Vec::new();
        let mut keys = std::mem::take(&mut self.keys);
        for key in &mut keys {
            let begin = self.order.len() as u32;
            for slot in key.slots.clone() {
                let value = slots.0[slot as usize].load(Relaxed);
                if value == NONE {
                    continue;
                }
                here.clear();
                here.push(value);
                while let Some((_, value)) = more.next_if(|(at, _)| *at == slot) {
                    here.push(value);
                }
                let place = self.order.len() as u32;
                if here.len() > 1 {
                    here.sort_unstable();
                    self.conflicts.extend(here.iter().map(|value| (place, *value)));
                }
                let chosen = *here
                    .iter()
                    .min_by_key(|id| tie::rank(key.values.number(**id - key.value_ids.start)))
                    .expect("an occupied slot has a value");
                self.place[chosen as usize] = place;
                self.order.push(chosen);
                self.order_offset.push(Offset(key.offsets.number(slot - key.slots.start)));
                for value in &here {
                    let first = &mut self.first_place[*value as usize];
                    let last = &mut self.last_place[*value as usize];
                    if *first == NONE {
                        *first = place;
                    } else {
                        if first == last {
                            self.repeats.push((*value, *first));
                        }
                        self.repeats.push((*value, place));
                    }
                    *last = place;
                }
            }
            key.places = begin..self.order.len() as u32;
        }
        self.keys = keys;
        self.repeats.sort_unstable();
    }
}

impl KeyIndex {
    #[inline]
    fn slot(&self, offset: Offset) -> u32 {
        self.slots.start + self.offsets.rank(offset.0).expect("every offset of the history was numbered")
    }
}

/// By offset: the value there; a second value for the same offset does not fit and goes elsewhere.
struct Slots(Vec<AtomicU32>);

impl Slots {
    fn new(len: usize) -> Slots {
        Slots((0..len).map(|_| AtomicU32::new(NONE)).collect())
    }

    /// Which of several values comes to be in the slot is a race, but all of them together are the same set.
    #[inline]
    fn note(&self, slot: u32, value: ValueId, more: &mut Vec<(u32, ValueId)>) {
        let at = &self.0[slot as usize];
        let there = at.load(Relaxed);
        if there == value {
            return;
        }
        if there == NONE {
            match at.compare_exchange(NONE, value, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(there) if there == value => return,
                Err(_) => {}
            }
        }
        more.push((slot, value));
    }
}

/// The ops of sends and polls with what became of them.
fn txns(history: &History) -> Vec<Txn> {
    let mut txns = Vec::new();
    let mut open = Vec::new();
    for op in history.ops() {
        if !matches!(op.f(), F::Send | F::Poll | F::Txn) || op.process() == Process::Nemesis {
            continue;
        }
        let row = op.row() as u32;
        let partner = op.partner();
        if op.kind() != Kind::Invoke {
            // A completion that does not say what it did: what it was asked to do tells what it may have sent.
            let told = match partner {
                Some(invocation) if op.mops().len() == 0 => invocation.row() as u32,
                _ => row,
            };
            txns.push(Txn { row, told, kind: fate(op) });
        } else if partner.is_none() {
            open.push(Txn { row, told: row, kind: Kind::Invoke });
        }
    }
    txns.append(&mut open);
    txns
}

/// What became of a completed op: an `info` may still tell how its transaction ended.
pub(crate) fn fate(op: OpRef<'_>) -> Kind {
    match op.kind() {
        Kind::Info => match op.outcome() {
            Some(Outcome::COMMITTED) => Kind::Ok,
            Some(Outcome::ABORTED) => Kind::Fail,
            _ => Kind::Info,
        },
        kind => kind,
    }
}

/// What is known of a key before its columns are laid out.
#[derive(Clone, Copy)]
struct Extent {
    min_value: i64,
    max_value: i64,
    min_offset: i64,
    max_offset: i64,
    sends: u64,
}

impl Extent {
    const EMPTY: Extent = Extent {
        min_value: i64::MAX,
        max_value: i64::MIN,
        min_offset: i64::MAX,
        max_offset: i64::MIN,
        sends: 0,
    };

    fn values(&mut self, values: &[Value]) {
        for value in values {
            self.min_value = self.min_value.min(value.0);
            self.max_value = self.max_value.max(value.0);
        }
    }

    fn offsets(&mut self, offsets: &[Offset]) {
        for offset in offsets {
            // Unknown and negative ones are no offsets.
            let (low, high) = if offset.0 < 0 { (i64::MAX, i64::MIN) } else { (offset.0, offset.0) };
            self.min_offset = self.min_offset.min(low);
            self.max_offset = self.max_offset.max(high);
        }
    }

    fn add(&mut self, other: &Extent) {
        self.min_value = self.min_value.min(other.min_value);
        self.max_value = self.max_value.max(other.max_value);
        self.min_offset = self.min_offset.min(other.min_offset);
        self.max_offset = self.max_offset.max(other.max_offset);
        self.sends += other.sends;
    }

    /// How far numbers may be spread and still be looked up by place: so many that an aborted transaction and its
    /// markers for every record are no waste, so few that memory follows the number of records.
    fn limit(&self) -> u64 {
        8 * self.sends + 64
    }
}

fn number(history: &History, txns: &[Txn]) -> (Vec<KeyIndex>, Numbering) {
    let told = |txn: &Txn| history.op(txn.told as usize);
    let parts = parallel::pieces(txns.len(), |piece| {
        let mut extents = IntMap::<i64, Extent>::default();
        for txn in &txns[piece] {
            for mop in told(txn).mops() {
                match mop {
                    MopRef::Send { key, value, offset } => {
                        let extent = extents.entry(key.0).or_insert(Extent::EMPTY);
                        extent.sends += 1;
                        extent.values(&[value]);
                        extent.offsets(offset.as_slice());
                    }
                    MopRef::Asked => {}
                    MopRef::Polled(reads) => {
                        for (key, offsets, values) in reads.groups() {
                            let extent = extents.entry(key.0).or_insert(Extent::EMPTY);
                            extent.values(values);
                            extent.offsets(offsets);
                        }
                    }
                }
            }
        }
        extents
    });
    let mut extents = IntMap::<i64, Extent>::default();
    for (key, extent) in parts.into_iter().flatten() {
        extents.entry(key).or_insert(Extent::EMPTY).add(&extent);
    }

    // Where numbers are too far apart to be looked up by place, the distinct ones are collected.
    let mut sparse = IntMap::<i64, [Option<IntMap<i64, u32>>; 2]>::default();
    let dense = |min: i64, max: i64, limit: u64| match min > max {
        true => Some(Numbering::Dense { base: 0, len: 0 }),
        false => Numbering::span(min, max, limit).map(|len| Numbering::Dense { base: min, len }),
    };
    for (key, extent) in &extents {
        let values = dense(extent.min_value, extent.max_value, extent.limit()).is_none();
        let offsets = dense(extent.min_offset, extent.max_offset, extent.limit()).is_none();
        if values || offsets {
            sparse.insert(*key, [values.then(IntMap::default), offsets.then(IntMap::default)]);
        }
    }
    if !sparse.is_empty() {
        let mut note = |key: Key, offsets: &[Offset], values: &[Value]| {
            let Some([value_set, offset_set]) = sparse.get_mut(&key.0) else { return };
            if let Some(set) = value_set {
                set.extend(values.iter().map(|value| (value.0, 0)));
            }
            if let Some(set) = offset_set {
                set.extend(offsets.iter().filter(|offset| offset.0 >= 0).map(|offset| (offset.0, 0)));
            }
        };
        for txn in txns {
            for mop in told(txn).mops() {
                match mop {
                    MopRef::Send { key, value, offset } => note(key, offset.as_slice(), &[value]),
                    MopRef::Asked => {}
                    MopRef::Polled(reads) => {
                        reads.groups().for_each(|(key, offsets, values)| note(key, offsets, values));
                    }
                }
            }
        }
    }

    let mut sorted: Vec<(i64, Extent)> = extents.iter().map(|(key, extent)| (*key, *extent)).collect();
    sorted.sort_unstable_by_key(|(key, _)| *key);
    let (mut next_value, mut next_slot) = (0, 0);
    let keys = sorted.into_iter().map(|(key, extent)| {
        let [value_set, offset_set] = sparse.remove(&key).unwrap_or_default();
        let values = value_set.map_or_else(
            || dense(extent.min_value, extent.max_value, extent.limit()).expect("not sparse"),
            Numbering::sparse,
        );
        let offsets = offset_set.map_or_else(
            || dense(extent.min_offset, extent.max_offset, extent.limit()).expect("not sparse"),
            Numbering::sparse,
        );
        let value_ids = take(&mut next_value, values.len());
        let slots = take(&mut next_slot, offsets.len());
        KeyIndex { key: Key(key), values, value_ids, offsets, slots, places: 0..0 }
    });
    let keys: Vec<KeyIndex> = keys.collect();
    let key_ids = Numbering::sparse(extents.into_keys().map(|key| (key, 0)).collect());
    (keys, key_ids)
}

fn take(next: &mut u32, len: u32) -> Range<u32> {
    let begin = *next;
    *next = begin.checked_add(len).filter(|end| *end != NONE).expect("fewer than 2^32 values and offsets");
    begin..*next
}
