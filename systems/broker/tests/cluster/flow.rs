//! What can be held back of what two nodes send each other, while all the rest of it goes on.
//!
//! A connection may stall in one direction, and be the only one between its nodes that does: a lost packet and its
//! growing pauses, a queue that is full, a thread that does not read.

use crate::world::At;
use riprap_protocol::ApiKey;

/// What a connection is used for, by the first request on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Line {
    /// Fetches, of followers or consumers.
    Fetch,
    /// Markers of transactions, to the leaders of partitions.
    Markers,
    /// Raft among brokers.
    Quorum,
    /// Questions to coordinators of transactions.
    Transactions,
    /// Everything else: between brokers, what the controller is told and asked.
    Other,
}

impl Line {
    pub(crate) const ALL: [Line; 5] =
        [Line::Fetch, Line::Markers, Line::Quorum, Line::Transactions, Line::Other];

    pub(crate) fn of(request: &[u8]) -> Option<Line> {
        let key = i16::from_be_bytes(request.get(4..6)?.try_into().ok()?);
        Some(if key == ApiKey::Fetch.code() {
            Line::Fetch
        } else if key == ApiKey::RaftMessage.code() {
            Line::Quorum
        } else if key == ApiKey::EndTransactions.code() {
            Line::Markers
        } else if key == ApiKey::AddPartitionsToTxn.code() {
            Line::Transactions
        } else {
            Line::Other
        })
    }
}

/// What is sent from one node to another on connections of one kind, in one role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flow {
    pub(crate) from: At,
    pub(crate) to: At,
    pub(crate) line: Line,
    pub(crate) is_answer: bool,
}

impl Flow {
    pub(crate) fn requests(from: At, to: At, line: Line) -> Flow {
        Flow { from, to, line, is_answer: false }
    }

    pub(crate) fn answers(from: At, to: At, line: Line) -> Flow {
        Flow { from, to, line, is_answer: true }
    }
}

/// A flow that stands still.
pub(crate) struct Hold {
    pub(crate) flow: Flow,
    /// Connections that were opened later go on.
    pub(crate) pipes_below: usize,
}

impl Hold {
    pub(crate) fn holds(&self, flow: Flow, pipe: usize) -> bool {
        self.flow == flow && pipe < self.pipes_below
    }
}
