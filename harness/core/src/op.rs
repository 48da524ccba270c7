//! One operation, as it stands in a history.
//!
//! The grammar is that of Jepsen's `jepsen.tests.kafka`. A client op is invoked once and completed once, by the same
//! process: `ok` took effect, `fail` certainly did not, `info` may have. What it did is a list of micro-operations:
//!
//! ```text
//! f          value of the invocation        value of the completion
//! send       [["send", key, value]]         [["send", key, [offset, value]]]      offset null where unknown
//! poll       [["poll"]]                     [["poll", {key: [[offset, value], ...], ...}]]
//! txn        sends and polls, in order      the same, completed
//! assign     [key, ...]                     [key, ...]          from now on this consumer reads these keys
//! subscribe  [key, ...]                     [key, ...]          ... or the share of them that its group gives it
//! committed  [key, ...]                     {key: offset, ...}  what the group has committed: null where nothing
//! debug      null                           {key: {"position": offset, "end": offset}, ...}
//! crash      null                           null                always info: the client is thrown away
//! ```
//!
//! `committed` and `debug` only ask, so that their failure is definite. A poll, txn or commit-offsets that has `offsets`,
//! as the polls of a process that has subscribed, is known to have committed them for its group by its end: each is that
//! of the next record to read. Offsets whose commit may or may not have taken effect are not told.
//!
//! A key is a partition of some topic, a value an integer that is sent at most once to its key. The nemesis' ops have
//! process `nemesis` and any JSON as value; they are completed by `info`.

use serde_json::Value as Json;
use std::fmt;
use std::sync::Arc;

/// A partition of a log, by the workload's own numbering.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(pub i64);

/// What a record carries: unique within its key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Value(pub i64);

impl Value {
    /// A record without a value (`null`). The number stands for it so that a column of values stays a column of
    /// integers; a history that holds this very number is refused.
    pub const NIL: Value = Value(i64::MIN);
}

/// A record's place in its key's log, 0-based.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Offset(pub i64);

impl Offset {
    /// No offset (`null`), where a record came without one. The number stands for it so that a column of offsets stays
    /// a column of integers; a history that holds this very number is refused.
    pub const UNKNOWN: Offset = Offset(i64::MIN);
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Value::NIL { f.write_str("null") } else { self.0.fmt(f) }
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Offset::UNKNOWN { f.write_str("null") } else { self.0.fmt(f) }
    }
}

/// Who did it: a logically single-threaded client, or the nemesis.
///
/// A process that got `info` never acts again; its thread goes on under a new number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Process {
    /// A client process.
    Client(u32),
    /// The one process that injects faults.
    Nemesis,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Process::Client(n) => n.fmt(f),
            Process::Nemesis => f.write_str("nemesis"),
        }
    }
}

/// Where an op stands in its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// About to be tried.
    Invoke,
    /// Took effect.
    Ok,
    /// Certainly did not, and never will, take effect.
    Fail,
    /// May or may not have taken effect, now or later.
    Info,
}

impl Kind {
    /// All kinds, in the order of an op's life.
    pub const ALL: [Kind; 4] = [Kind::Invoke, Kind::Ok, Kind::Fail, Kind::Info];

    /// The word of the file format.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Invoke => "invoke",
            Kind::Ok => "ok",
            Kind::Fail => "fail",
            Kind::Info => "info",
        }
    }
}

/// What is done.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum F {
    /// Sends only.
    Send,
    /// Polls only.
    Poll,
    /// Sends and polls, as one transaction if the run asked for transactions.
    Txn,
    /// The consumer takes these keys by itself.
    Assign,
    /// The consumer joins its group for these keys' topics.
    Subscribe,
    /// The client is thrown away and a new one made.
    Crash,
    /// The group's offsets are committed.
    CommitOffsets,
    /// The group's committed offsets are read.
    Committed,
    /// Topics are made.
    Create,
    /// State is dumped for a human.
    Debug,
    /// Something else: a fault, or a word of another tool; kept, and not judged.
    Other(Arc<str>),
}

impl F {
    /// The known words, in the order of the file format's table.
    pub const KNOWN: [F; 10] = [
        F::Send,
        F::Poll,
        F::Txn,
        F::Assign,
        F::Subscribe,
        F::Crash,
        F::CommitOffsets,
        F::Committed,
        F::Create,
        F::Debug,
    ];

    /// The word of the file format.
    pub fn name(&self) -> &str {
        match self {
            F::Send => "send",
            F::Poll => "poll",
            F::Txn => "txn",
            F::Assign => "assign",
            F::Subscribe => "subscribe",
            F::Crash => "crash",
            F::CommitOffsets => "commit-offsets",
            F::Committed => "committed",
            F::Create => "create",
            F::Debug => "debug",
            F::Other(name) => name,
        }
    }

    /// The `f` that a word stands for.
    pub fn from_name(name: &str) -> F {
        F::KNOWN.iter().find(|f| f.name() == name).cloned().unwrap_or_else(|| F::Other(name.into()))
    }

    /// Whether its value is a list of micro-operations.
    pub fn has_mops(&self) -> bool {
        matches!(self, F::Send | F::Poll | F::Txn)
    }

    /// Whether its value is a list of keys.
    pub fn has_keys(&self) -> bool {
        matches!(self, F::Assign | F::Subscribe)
    }
}

/// What one poll returned: per key, the records in the order delivered; gaps in the offsets are legal (control
/// records, aborted data). An offset is [`Offset::UNKNOWN`] where the client did not say.
pub type Reads = Vec<(Key, Vec<(Offset, Value)>)>;

/// One step of an op.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mop {
    /// A record sent.
    Send {
        /// To which key.
        key: Key,
        /// Which value.
        value: Value,
        /// Where it landed, if that is known.
        offset: Option<Offset>,
    },
    /// Records asked for; `None` until it returned.
    Poll(Option<Reads>),
}

/// What an op is about.
#[derive(Clone, PartialEq, Debug)]
pub enum OpValue {
    /// Nothing (`null`).
    None,
    /// Of send, poll and txn.
    Mops(Vec<Mop>),
    /// Of assign and subscribe.
    Keys(Vec<Key>),
    /// Of everything else.
    Json(Json),
}

/// Why an op did not end well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpError {
    /// The system's own name of the error, e.g. `NOT_LEADER_OR_FOLLOWER`.
    pub code: String,
    /// Whether it proves that nothing happened and nothing will.
    pub definite: bool,
    /// For humans.
    pub message: String,
}

/// A change of what a consumer of a group owns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rebalance {
    /// [`Rebalance::ASSIGNED`], `revoked` or `lost`.
    pub kind: String,
    /// The keys given or taken.
    pub keys: Vec<Key>,
}

impl Rebalance {
    /// The consumer got the keys.
    pub const ASSIGNED: &str = "assigned";
}

/// Which transaction an op was, and how it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Txn {
    /// The transactional id.
    pub id: String,
    /// [`Txn::COMMITTED`], [`Txn::ABORTED`] or [`Txn::UNKNOWN`].
    pub outcome: String,
}

impl Txn {
    /// It took effect, all of it.
    pub const COMMITTED: &str = "committed";
    /// It did not, and never will. Such an op is `fail`, be it that an abort was asked for or not; what its polls read
    /// they read all the same.
    pub const ABORTED: &str = "aborted";
    /// Whether it took effect nobody knows.
    pub const UNKNOWN: &str = "unknown";
}

/// The optional fields of an op: few ops have any.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Extra {
    /// Why it did not end well.
    pub error: Option<OpError>,
    /// What the consumer gained and lost during the op, in order.
    pub rebalance: Vec<Rebalance>,
    /// The transaction.
    pub txn: Option<Txn>,
    /// The offsets that its group is known to have committed by this op.
    pub offsets: Vec<(Key, Offset)>,
    /// The node that the client talked to, if it was told to use one.
    pub node: Option<String>,
    /// An abort was asked for.
    pub abort: bool,
    /// Of an `assign`: all its keys are read from their beginning, also those that the consumer held.
    pub from_beginning: bool,
}

impl Extra {
    /// Whether no optional field is set.
    pub fn is_empty(&self) -> bool {
        *self == Extra::default()
    }
}

/// One line of a history.
#[derive(Clone, PartialEq, Debug)]
pub struct Op {
    /// Its number in the history, from 0, rising by one.
    pub index: u64,
    /// Nanoseconds since the run began.
    pub time_ns: i64,
    /// Who.
    pub process: Process,
    /// Where in its life.
    pub kind: Kind,
    /// What.
    pub f: F,
    /// About what.
    pub value: OpValue,
    /// The optional fields.
    pub extra: Extra,
}
