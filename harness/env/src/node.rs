//! The contract between a bundled node and whatever drives it.

use crate::disk::Disk;
use bytes::Bytes;
use std::fmt;

/// One connection of a node. Ids are never used twice in the life of a node process.
///
/// The driver numbers the connections it accepts (odd), the node those it opens (even), so that neither has to ask
/// the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u64);

impl ConnId {
    /// The `n`th connection that the node opens itself.
    pub fn opened_by_node(n: u64) -> ConnId {
        ConnId(n * 2)
    }

    /// The `n`th connection that the driver accepted for the node.
    pub fn accepted_by_driver(n: u64) -> ConnId {
        ConnId(n * 2 + 1)
    }
}

/// What happens to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The node's process has started; its disk holds what the last life left. Always the first event.
    Start,
    /// Somebody connected to the node's listener.
    Accepted {
        /// The new connection.
        conn: ConnId,
        /// The other side's address, for logs.
        peer: String,
    },
    /// A connection that the node asked for with [`Effect::Connect`] stands.
    Connected {
        /// As given in the effect.
        conn: ConnId,
    },
    /// Bytes arrived, in order, cut anywhere.
    Received {
        /// The connection they came on.
        conn: ConnId,
        /// At least one byte.
        bytes: Bytes,
    },
    /// The connection is gone: closed by the other side, broken, or never established. The last event of its id,
    /// also after [`Effect::Close`].
    Closed {
        /// The connection.
        conn: ConnId,
    },
    /// All that was sent on a connection is taken, after [`Env::unsent_bytes`] has said that it was not.
    Drained {
        /// The connection.
        conn: ConnId,
    },
    /// The time asked for with [`Effect::WakeAt`] has come.
    Wake,
    /// The node is asked to shut down in order; it answers with [`Effect::Exit`] when it is done.
    Stop,
}

/// What a node wants done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Open a connection; answered by [`Event::Connected`] or [`Event::Closed`].
    Connect {
        /// A fresh id from [`ConnId::opened_by_node`].
        conn: ConnId,
        /// `host:port`.
        to: String,
    },
    /// Send bytes. Ignored when the connection is gone: its [`Event::Closed`] is on its way.
    Send {
        /// The connection.
        conn: ConnId,
        /// What to send.
        bytes: Bytes,
    },
    /// Close the connection after what was sent has gone out.
    Close {
        /// The connection.
        conn: ConnId,
    },
    /// Wake the node at this time (`now_ns` of [`Node::step`]); replaces the wake-up asked for before.
    WakeAt {
        /// Monotonic nanoseconds.
        at_ns: u64,
    },
    /// The node's process ends with this status; no event follows.
    Exit {
        /// 0 after an orderly stop.
        status: i32,
    },
}

/// The effects of a step, in the order in which they are to happen.
pub type Effects = Vec<Effect>;

/// How much a log line matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LogLevel {
    /// The node cannot go on, or something happened that must not.
    Error,
    /// Something an operator should know.
    Warn,
    /// Changes of role, leadership, membership.
    Info,
    /// What each request did.
    Debug,
}

/// What a node may ask of the world while it steps.
pub trait Env {
    /// The node's disk.
    fn disk(&mut self) -> &mut dyn Disk;

    /// The node's wall clock, which a fault may skew. Units: milliseconds since 1970.
    fn wall_clock_ms(&self) -> i64;

    /// A random number: a function of the seed, the node, `purpose` and how often that purpose was drawn.
    fn random_u64(&mut self, purpose: &'static str) -> u64;

    /// How much of what was sent on a connection, before this batch of steps, its other side has not taken. If there is
    /// any, [`Event::Drained`] follows when there is none. A driver whose network takes all at once has none.
    fn unsent_bytes(&self, _conn: ConnId) -> usize {
        0
    }

    /// The same, of all connections together, without an event.
    fn unsent_in_all_bytes(&self) -> usize {
        0
    }

    /// Writes a line into the node's log; the driver adds the time. [`log!`](crate::log!) says which module it is of.
    fn log(&mut self, level: LogLevel, module: &'static str, line: fmt::Arguments<'_>);
}

/// Writes a line into a node's log, as of the module that it is written in: `log!(env, Warn, "refuses {what}")`.
#[macro_export]
macro_rules! log {
    ($env:expr, $level:ident, $($line:tt)+) => {
        $env.log($crate::LogLevel::$level, ::core::module_path!(), ::core::format_args!($($line)+))
    };
}

/// A bundled node: a state machine without I/O.
pub trait Node {
    /// Takes in one event. `now_ns` is monotonic and never runs backwards within a life of the process.
    ///
    /// What the step appended to disk need not be durable when it returns: a driver may step a batch of events and
    /// then [`settle`](Node::settle) once, so that one sync serves the batch. The node therefore sends nothing that
    /// promises durability from `step`.
    fn step(&mut self, now_ns: u64, event: Event, env: &mut dyn Env, effects: &mut Effects);

    /// Ends a batch of steps: makes durable what has to be, and then sends what waited for it.
    fn settle(&mut self, now_ns: u64, env: &mut dyn Env, effects: &mut Effects);
}
