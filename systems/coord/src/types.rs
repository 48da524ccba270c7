//! The words of Raft: nodes, terms, indices, entries, snapshots.

use bytes::Bytes;
use std::fmt;

/// A voter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub i32);

/// A period with at most one leader. 0 is before the first election.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Term(pub u64);

/// A place in the log. The first entry is at 1; 0 is the place before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Index(pub u64);

/// A life of a voter that began with an empty disk: drawn when it began, no other has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Life(pub u64);

impl Index {
    /// The place after this one.
    pub fn next(self) -> Index {
        Index(self.0 + 1)
    }

    /// The place before this one; of 0, 0.
    pub fn prev(self) -> Index {
        Index(self.0.saturating_sub(1))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One entry of the replicated log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its place.
    pub index: Index,
    /// The term of the leader that made it.
    pub term: Term,
    /// What was proposed; empty for the no-op that a leader appends when its term starts.
    pub payload: Bytes,
}

/// An application's state in place of the log up to an index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The last entry that the state includes.
    pub index: Index,
    /// That entry's term.
    pub term: Term,
    /// The state, as the application encoded it.
    pub data: Bytes,
}
