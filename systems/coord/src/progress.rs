//! What a leader knows about one follower.

use crate::newcomer::Newcomer;
use crate::types::{Index, Life, Snapshot};
use std::collections::VecDeque;

/// A follower as its leader sees it.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The follower's log equals the leader's up to here, durably.
    pub(crate) match_index: Index,
    /// When that was heard of: a later question is not rejected by who still has it.
    pub(crate) matched_ns: u64,
    /// Set if it is a newcomer.
    pub(crate) newcomer: Option<Newcomer>,
    /// The life of it that was told last that it counts.
    pub(crate) admitted: Option<Life>,
    /// The next entry to send.
    pub(crate) next_index: Index,
    pub(crate) flow: Flow,
    /// When it was sent the last append or chunk of this term that it answered: proof that both directions work, and that
    /// it followed this leader at that time or later.
    pub(crate) heard_ns: u64,
    /// It is time to say something, if only that the leader lives.
    pub(crate) heartbeat_due: bool,
    /// The highest commit index that it was told and that its log reaches.
    pub(crate) told_commit: Index,
}

/// How entries go to a follower.
#[derive(Debug)]
pub(crate) enum Flow {
    /// Where its log and the leader's agree is being searched: one message at a time (thesis 3.5).
    Probe {
        /// The message for this `next_index` is out.
        sent: bool,
    },
    /// Messages follow each other without waiting for answers (thesis 10.2.2); the last index of each.
    Replicate { inflight: VecDeque<Index> },
    /// It needs entries that are compacted; one chunk at a time (thesis 5.3).
    Snapshot {
        /// The snapshot being sent: kept until it has arrived, though a newer one may replace the leader's own, since a
        /// transfer that starts over each time would never end.
        snapshot: Snapshot,
        /// What the follower has. Units: bytes.
        acked: u64,
        /// The chunk at `acked` is out.
        sent: bool,
        /// The follower was asked how far it is: its next answer tells whether that chunk was lost.
        asked: bool,
    },
    /// It has forgotten what it had: it is told so with each heartbeat, until it speaks as a newcomer.
    Doubt {
        /// It was told since the last heartbeat.
        sent: bool,
    },
}

/// What a rejection of an append says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rejection {
    /// The logs part before the place that was asked for.
    Believed,
    /// Nothing: it answers what is outdated.
    Late,
    /// The follower has lost what it had.
    Lost,
}

impl Progress {
    /// A follower of a new leader: nothing is known, so the search begins at the leader's end.
    pub(crate) fn new(next_index: Index, now_ns: u64) -> Progress {
        Progress {
            match_index: Index(0),
            matched_ns: 0,
            newcomer: None,
            admitted: None,
            next_index,
            flow: Flow::Probe { sent: false },
            heard_ns: now_ns,
            heartbeat_due: false,
            told_commit: Index(0),
        }
    }

    /// Another life of it, with another disk: nothing is known any more.
    pub(crate) fn begin_anew(&mut self, newcomer: Newcomer, next_index: Index) {
        let admitted = self.admitted;
        *self = Progress { newcomer: Some(newcomer), admitted, ..Progress::new(next_index, 0) };
    }

    /// Whether it counts for a majority.
    pub(crate) fn counts(&self) -> bool {
        self.newcomer.is_none() && !matches!(self.flow, Flow::Doubt { .. })
    }

    /// Its log equals the leader's up to `index`, which the leader's log still has.
    pub(crate) fn accepted(&mut self, index: Index, now_ns: u64) {
        if matches!(self.flow, Flow::Doubt { .. }) {
            return;
        }
        if index > self.match_index {
            self.match_index = index;
            self.matched_ns = now_ns;
        }
        let matched = self.match_index;
        match &mut self.flow {
            Flow::Replicate { inflight } => {
                while inflight.front().is_some_and(|last| *last <= matched) {
                    inflight.pop_front();
                }
                self.next_index = self.next_index.max(matched.next());
            }
            Flow::Probe { .. } => self.replicate(),
            Flow::Snapshot { snapshot, .. } if matched >= snapshot.index => self.replicate(),
            // A late answer to what was sent before the snapshot.
            Flow::Snapshot { .. } | Flow::Doubt { .. } => {}
        }
    }

    fn replicate(&mut self) {
        self.next_index = self.match_index.next();
        self.flow = Flow::Replicate { inflight: VecDeque::new() };
    }

    /// What a rejection of an append after `prev_index`, sent at `asked_ns`, says.
    ///
    /// Each that is believed lowers what is sent next, so that what follows each other without a pause comes to an end.
    pub(crate) fn judge_rejection(&self, prev_index: Index, asked_ns: u64) -> Rejection {
        let believed = match self.flow {
            Flow::Doubt { .. } => return Rejection::Late,
            _ if prev_index <= self.match_index => {
                // In one term a follower's log is cut nowhere below what it shares with the leader's.
                let lost = asked_ns > self.matched_ns && prev_index > Index(0);
                return if lost { Rejection::Lost } else { Rejection::Late };
            }
            Flow::Probe { .. } => prev_index.next() == self.next_index,
            Flow::Replicate { .. } => true,
            Flow::Snapshot { .. } => false,
        };
        if believed { Rejection::Believed } else { Rejection::Late }
    }

    /// The logs may agree up to `index` and do not after it.
    pub(crate) fn probe_after(&mut self, index: Index) {
        self.next_index = index.max(self.match_index).next();
        self.flow = Flow::Probe { sent: false };
    }
}
