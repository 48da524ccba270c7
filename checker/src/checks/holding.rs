//! What a consumer certainly holds, as far as its ops tell: what it assigned by itself, or what its group gave it and has
//! not taken. Where ops tell nothing of rebalances, a member of a group holds nothing for certain.

use crate::index::IntMap;
use riprap_core::history::OpRef;
use riprap_core::op::{F, Kind, Rebalance};

/// What one consumer holds.
#[derive(Default)]
pub(super) struct Holding {
    /// The row of the assign by which it holds keys, if it does not subscribe, and these keys.
    assigned: Option<(u32, IntMap<i64, ()>)>,
    /// By key: the row of the op in which its group gave it the key.
    given: IntMap<i64, u32>,
}

impl Holding {
    /// The row that tells that it holds a key, if any does.
    pub(super) fn holds(&self, key: i64) -> Option<u32> {
        match &self.assigned {
            Some((row, keys)) => keys.contains_key(&key).then_some(*row),
            None => self.given.get(&key).copied(),
        }
    }

    /// Whether it takes its keys by itself.
    pub(super) fn is_assigned(&self) -> bool {
        self.assigned.is_some()
    }

    /// It assigns or subscribes.
    pub(super) fn take(&mut self, op: OpRef<'_>) {
        let by_itself = *op.f() == F::Assign && op.kind() == Kind::Ok;
        self.assigned =
            by_itself.then(|| (op.row() as u32, op.keys().iter().map(|key| (key.0, ())).collect()));
        self.given.clear();
    }

    /// The group gave or took keys during an op.
    pub(super) fn rebalance(&mut self, op: OpRef<'_>) {
        for entry in op.rebalance() {
            for key in &entry.keys {
                if entry.kind == Rebalance::ASSIGNED {
                    self.given.insert(key.0, op.row() as u32);
                } else {
                    self.given.remove(&key.0);
                }
            }
        }
    }
}
