//! How much of what fetches ask for may be in memory.
//!
//! An answer is memory from the moment it is read until the other side has taken it, so who asks and does not read must
//! not be given all that it asks for:
//!
//! - a connection is given nothing while it has not taken what it was given before, as with Kafka, which reads no request
//!   of a client that has an answer under way;
//! - all together have at most `fetch.unsent.max.bytes` that are not taken, and each an eighth of what is left of it at
//!   most, so that few cannot have it all. One batch may come on top, for a fetch of anything gets one at least;
//! - a turn gives at most [`TURN_BYTES`], and who was left out is first in the next.
//!
//! Followers are bound by the turn alone: there are few, each with one fetch under way, and producers wait for them.
//!
//! What it cannot see: that somebody will never take what it was given. The shell closes such connections when much waits.

use riprap_env::{ConnId, Env};
use std::collections::BTreeSet;

/// Most bytes of records that one turn gives: what takes some ten milliseconds, for everybody else waits so long. One
/// answer may come on top.
const TURN_BYTES: usize = 16 << 20;

/// Which part of what is left one answer may take.
const SHARE: usize = 8;

/// What is given of the memory for answers to fetches.
#[derive(Debug)]
pub(crate) struct Room {
    max_unsent_bytes: usize,
    /// In this turn, to these: the environment does not know of it yet.
    given_bytes: usize,
    given: BTreeSet<ConnId>,
}

/// What an answer has to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// The next turn.
    Turn,
    /// That the connection has taken what it was given.
    Drain,
    /// That others have taken what they were given.
    Room,
}

impl Room {
    pub(crate) fn new(max_unsent_bytes: usize) -> Room {
        Room { max_unsent_bytes, given_bytes: 0, given: BTreeSet::new() }
    }

    pub(crate) fn begin_turn(&mut self) {
        self.given_bytes = 0;
        self.given.clear();
    }

    /// Whether this turn has given all that it may.
    pub(crate) fn is_turn_over(&self) -> bool {
        self.given_bytes >= TURN_BYTES
    }

    /// How much may be given to all together.
    pub(crate) fn free_bytes(&self, env: &dyn Env) -> usize {
        self.max_unsent_bytes.saturating_sub(env.unsent_in_all_bytes() + self.given_bytes)
    }

    /// How much a consumer may be given now.
    pub(crate) fn ask(&self, conn: ConnId, env: &dyn Env) -> Result<usize, Wait> {
        if self.is_turn_over() || self.given.contains(&conn) {
            return Err(Wait::Turn);
        }
        if env.unsent_bytes(conn) > 0 {
            return Err(Wait::Drain);
        }
        match self.free_bytes(env) {
            0 => Err(Wait::Room),
            free_bytes => Ok(free_bytes.div_ceil(SHARE)),
        }
    }

    pub(crate) fn give(&mut self, conn: ConnId, bytes: usize) {
        self.given_bytes += bytes;
        if bytes > 0 {
            self.given.insert(conn);
        }
    }
}

#[cfg(test)]
mod tests;
