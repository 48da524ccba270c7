//! What a node tells about itself, for logs, metrics and tests.

use crate::types::{Index, NodeId, Term};

/// What a node is in its term.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Takes entries from a leader, or waits for one.
    Follower,
    /// Asks whether an election could be won (thesis 9.6).
    PreCandidate,
    /// Asks for votes.
    Candidate,
    /// Takes proposals.
    Leader,
    /// Takes entries, and is no voter.
    Observer,
}

/// A node at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// The node.
    pub id: NodeId,
    /// Its role.
    pub role: Role,
    /// Its term.
    pub term: Term,
    /// Its disk was empty when this life of it began, and it does not count for a majority yet.
    pub is_newcomer: bool,
    /// Whom it voted for in this term.
    pub voted_for: Option<NodeId>,
    /// The leader it knows of, itself included.
    pub leader: Option<NodeId>,
    /// Entries up to here are committed, as far as it knows.
    pub commit_index: Index,
    /// Entries up to here were handed to the application.
    pub delivered_index: Index,
    /// The last entry that the snapshot includes.
    pub snapshot_index: Index,
    /// The log's last entry.
    pub last_index: Index,
    /// The size of the log's files. Units: bytes.
    pub log_bytes: u64,
    /// The leader's view of its followers, by id; empty on other nodes.
    pub followers: Vec<FollowerStatus>,
    /// The leader's view of its observers, by id; empty on other nodes.
    pub observers: Vec<FollowerStatus>,
    /// Elections that this node began in this life.
    pub elections: u64,
    /// Messages that no correct peer sends, refused in this life.
    pub violations: u64,
}

/// A leader's view of one follower or observer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FollowerStatus {
    /// The follower.
    pub id: NodeId,
    /// Its log equals the leader's up to here.
    pub match_index: Index,
    /// The next entry it is to be sent.
    pub next_index: Index,
    /// Messages with entries on their way to it.
    pub inflight_messages: usize,
    /// A snapshot is on its way to it: its last entry.
    pub snapshot_index: Option<Index>,
    /// It does not count for a majority yet.
    pub is_newcomer: bool,
    /// When it was sent what it answered last.
    pub heard_ns: u64,
}
