//! What a node hands to its owner: what to apply, what to send, what it has become, and what it refuses.

use crate::codec::MAX_PAYLOAD_BYTES;
use crate::message::Message;
use crate::types::{Entry, NodeId, Snapshot, Term};
use std::fmt;
use thiserror::Error;

/// What a settle hands out. In this order: snapshot, committed entries; the rest in any order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ready {
    /// To take the place of the application's state: the one found on start, or one from the leader.
    pub snapshot: Option<Snapshot>,
    /// Newly committed entries, each index once in a life, without gaps. Empty payloads are no-ops.
    pub committed: Vec<Entry>,
    /// Changes of role, in the order they happened.
    pub role_changes: Vec<RoleChange>,
    /// To send.
    pub messages: Vec<(NodeId, Message)>,
}

/// A change of what a node is, or of whom it follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoleChange {
    /// It leads. It may act on that only once [`leader_is_ready`](crate::Raft::leader_is_ready).
    BecameLeader {
        /// The term that it leads.
        term: Term,
    },
    /// It does not lead (any more), or follows somebody else, or nobody known. Candidates follow nobody.
    BecameFollower {
        /// Its term.
        term: Term,
        /// The term's leader, if known.
        leader: Option<NodeId>,
    },
}

impl fmt::Display for RoleChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RoleChange::BecameLeader { term } => write!(f, "leads term {term}"),
            RoleChange::BecameFollower { term, leader: Some(leader) } => {
                write!(f, "follows {leader} in term {term}")
            }
            RoleChange::BecameFollower { term, leader: None } => write!(f, "follows nobody in term {term}"),
        }
    }
}

/// Why a proposal was not taken. It has no effect then.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
pub enum ProposeError {
    /// Only the leader takes proposals.
    #[error("not the leader{}", leader.map_or(String::new(), |id| format!("; node {id} is")))]
    NotLeader {
        /// The leader, if known.
        leader: Option<NodeId>,
    },
    /// Too many proposals wait for a majority.
    #[error("{0} entries are not committed yet; at most that many may wait")]
    Full(usize),
    /// The payload would not fit a message.
    #[error("payload of {0} bytes; at most {MAX_PAYLOAD_BYTES}")]
    TooLarge(usize),
}

/// A snapshot that is larger than [`max_snapshot_bytes`](crate::Config::max_snapshot_bytes).
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[error("snapshot of {size} bytes; at most {limit}")]
pub struct SnapshotTooLarge {
    /// Its size. Units: bytes.
    pub size: usize,
    /// The limit. Units: bytes.
    pub limit: usize,
}
