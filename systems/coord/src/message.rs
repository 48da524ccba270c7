//! What voters, and observers, say to each other. The wire format is in [`codec`](crate::codec).

use crate::types::{Entry, Index, Life, NodeId, Term};
use bytes::Bytes;

/// A message between voters, or between a voter and an observer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The sender's term when it wrote the message.
    pub term: Term,
    /// When it was asked, by the clock of the leader who asks: of an append or a chunk, and repeated by the answer to it.
    /// Of a vote, when the candidate began; 0 in pre-votes. Units: nanoseconds.
    ///
    /// An answer proves that its sender followed the leader then, and not when it arrives; and a vote is for one candidacy.
    pub asked_ns: u64,
    /// Set if the sender's votes and entries do not count for a majority: its disk was empty when this life of it began.
    pub newcomer: Option<Life>,
    /// What it says.
    pub body: Body,
}

/// What a message says beside its body, and who sent it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    pub(crate) from: NodeId,
    pub(crate) term: Term,
    pub(crate) asked_ns: u64,
    pub(crate) newcomer: Option<Life>,
}

/// What a message says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// "Would you vote for me in the term after mine?" Binds nobody. Source: thesis 9.6.
    PreVote {
        /// The sender's last entry.
        last_index: Index,
        /// That entry's term.
        last_term: Term,
    },
    /// The answer to [`Body::PreVote`].
    PreVoteResponse {
        /// The term that the vote would be for.
        for_term: Term,
        /// Whether it would be given.
        granted: bool,
    },
    /// "Vote for me in my term." Source: thesis 3.4.
    Vote {
        /// The candidate's last entry.
        last_index: Index,
        /// That entry's term.
        last_term: Term,
    },
    /// The answer to [`Body::Vote`].
    VoteResponse {
        /// Whether the vote was given, durably.
        granted: bool,
    },
    /// "Put these after that." Without entries, a heartbeat. Source: thesis 3.5.
    Append {
        /// The place before the first entry.
        prev_index: Index,
        /// The term of the leader's entry there.
        prev_term: Term,
        /// The leader's commit index.
        commit: Index,
        /// Without gaps, from `prev_index + 1` on.
        entries: Vec<Entry>,
    },
    /// The follower's log equals the leader's up to an index, durably. Also answers the last chunk of a snapshot.
    AppendAccepted {
        /// Up to here.
        match_index: Index,
    },
    /// The follower's log has another entry, or none, at `prev_index`.
    AppendRejected {
        /// As in the rejected message; 0 if that was of an old term.
        prev_index: Index,
        /// The last place where the logs can agree: the follower's entries above it have terms above `prev_term`.
        hint_index: Index,
        /// The term of the follower's entry there.
        hint_term: Term,
    },
    /// A chunk of a snapshot; empty to ask how far the follower is. Source: thesis 5.3.
    InstallSnapshot {
        /// The last entry that the snapshot includes.
        last_index: Index,
        /// That entry's term.
        last_term: Term,
        /// The whole snapshot's length. Units: bytes.
        total_bytes: u64,
        /// Where the chunk belongs.
        offset: u64,
        /// The chunk.
        data: Bytes,
    },
    /// "You count from now on", to a newcomer that has all that is committed.
    Admit {
        /// Which life of it.
        life: Life,
    },
    /// "You had more than you have": makes the follower a newcomer.
    Doubt,
    /// "Send me your log", from a node that is no voter. See [`observer`](crate::observer).
    Observe,
    /// How much of a snapshot the follower has, in memory.
    SnapshotProgress {
        /// Which snapshot: the last entry that it includes.
        last_index: Index,
        /// Where the next chunk must begin.
        offset: u64,
    },
}

impl Body {
    /// Whether it is for followers, from their leader.
    pub(crate) fn is_leaders(&self) -> bool {
        matches!(self, Body::Append { .. } | Body::InstallSnapshot { .. } | Body::Admit { .. } | Body::Doubt)
    }

    /// Whether an observer says it.
    pub(crate) fn is_observers(&self) -> bool {
        let answers = matches!(
            self,
            Body::AppendAccepted { .. } | Body::AppendRejected { .. } | Body::SnapshotProgress { .. }
        );
        answers || *self == Body::Observe
    }
}
