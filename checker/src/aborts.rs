//! How often consumers went on where after an abort: the counts of `checks/abort_position.rs`, told apart by how the
//! consumer held the key, so that clients can be compared.

use crate::checks::abort_position::{How, Where, each};
use crate::index::Index;
use riprap_core::History;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Where consumers went on after their transactions were aborted.
///
/// Shape: `{"transactions": 7, "assigned": {"advance": 5, "rewind": 0, "rewind_further": 0, "other": 0}, "kept": {...},
/// "rebalanced": {...}}`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Aborts {
    /// Transactions that were aborted and had read something.
    pub transactions: u64,
    /// In keys that the consumer had taken by itself.
    pub assigned: Positions,
    /// In keys that a group gave it, and of which no op tells that they were rebalanced meanwhile.
    pub kept: Positions,
    /// In keys that were rebalanced meanwhile.
    pub rebalanced: Positions,
}

/// How often consumers went on where; each key that an aborted transaction read counts for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Positions {
    /// Behind what the aborted transaction had read.
    pub advance: u64,
    /// At the first record that it had read.
    pub rewind: u64,
    /// Before that.
    pub rewind_further: u64,
    /// Anywhere else.
    pub other: u64,
}

impl Positions {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.advance + self.rewind + self.rewind_further + self.other
    }
}

/// Counts where the consumers of a history went on after aborts. Errors: the check itself broke, and how.
pub fn after_aborts(history: &History) -> Result<Aborts, String> {
    let count = || {
        let mut aborts = Aborts::default();
        aborts.transactions = each(&Index::new(history), |next, place| {
            let positions = match next.how() {
                How::Assigned => &mut aborts.assigned,
                How::Kept => &mut aborts.kept,
                How::Rebalanced => &mut aborts.rebalanced,
            };
            let count = match place {
                Where::Advance => &mut positions.advance,
                Where::Rewind => &mut positions.rewind,
                Where::RewindFurther => &mut positions.rewind_further,
                Where::Other => &mut positions.other,
            };
            *count += 1;
        });
        aborts
    };
    catch_unwind(AssertUnwindSafe(count)).map_err(|panic| crate::broke(&*panic))
}
