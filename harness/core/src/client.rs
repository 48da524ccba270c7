//! Clients: what a workload asks of a system, and the API of a Kafka-like log that it asks through.
//!
//! A workload's [`Client`] turns one op into calls of a [`Log`] and says how the op ended. Both are async without
//! being tied to a runtime: in a live run each client has a thread of its own and the calls simply block; in
//! simulation one event loop polls them in a fixed order.

use crate::op::{Extra, Key, Kind, Offset, Op, OpError, OpValue, Reads, Rebalance, Value};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;
use thiserror::Error;

/// A future that needs no thread but its own.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Why a call of a [`Log`] failed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{code}: {message}")]
pub struct LogError {
    /// The system's own name of the error.
    pub code: String,
    /// Whether it proves that the call had and will have no effect. `false` where there is any doubt.
    pub definite: bool,
    /// For humans.
    pub message: String,
}

/// What a consumer sees of transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Records of committed transactions only.
    #[default]
    ReadCommitted,
    /// All records.
    ReadUncommitted,
}

/// How consumers come by their keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubscribeVia {
    /// Each takes the keys that it wants.
    #[default]
    Assign,
    /// A group shares them out.
    Subscribe,
}

/// Where a client library's own warnings go.
#[derive(Clone)]
pub struct ClientLog(pub Arc<dyn Fn(&str) + Send + Sync>);

impl Default for ClientLog {
    /// Nowhere.
    fn default() -> ClientLog {
        ClientLog(Arc::new(|_| ()))
    }
}

impl fmt::Debug for ClientLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientLog")
    }
}

/// Whether a client lives. One that has died does no more than its library makes it do, and says goodbye to nobody.
#[derive(Clone, Debug, Default)]
pub struct Life(Arc<AtomicBool>);

impl Life {
    /// The client dies.
    pub fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it has died.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The settings of one client.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The name that the client gives itself.
    pub client_id: String,
    /// `host:port` of every node it may begin with.
    pub bootstrap: Vec<String>,
    /// `0`, `1` or `all`.
    pub acks: String,
    /// Whether the producer is idempotent.
    pub idempotence: bool,
    /// The producer's name towards the coordinator of transactions: with one, all that it sends it sends in transactions.
    pub transactional_id: Option<String>,
    /// What polls see.
    pub isolation: Isolation,
    /// The consumer group.
    pub group_id: String,
    /// What the names of its topics begin with, before their numbers: [`TOPIC`], after the run's namespace.
    pub topic_prefix: String,
    /// How many keys share a topic: key `k` is partition `k % n` of topic number `k / n`.
    pub partitions_per_topic: u32,
    /// How many nodes keep each partition.
    pub replication_factor: u16,
    /// How long a record's payload is at least: its value in decimal, after so many zeros. Units: bytes.
    pub value_bytes: u32,
    /// How long the client library tries to get one record in before it gives up, or a whole transaction.
    pub delivery_timeout: Duration,
    /// How long one poll waits for records.
    pub poll_timeout: Duration,
    /// The most records that one poll returns.
    pub max_poll_records: usize,
    /// Properties passed to the client library as they are.
    pub properties: Vec<(String, String)>,
    /// Where the library's warnings go.
    pub log: ClientLog,
    /// Whether it lives.
    pub life: Life,
}

impl ClientConfig {
    /// The topic and the partition that a key stands for.
    pub fn topic_partition(&self, key: Key) -> (String, i32) {
        let n = i64::from(self.partitions_per_topic);
        (format!("{}{}", self.topic_prefix, key.0.div_euclid(n)), key.0.rem_euclid(n) as i32)
    }

    /// The payload of the record of a value.
    pub fn payload(&self, value: Value) -> String {
        format!("{:0>width$}", value.0, width = self.value_bytes as usize)
    }

    /// The key that a topic and a partition stand for; `None` for a topic that is not the workload's.
    pub fn key(&self, topic: &str, partition: i32) -> Option<Key> {
        key_in(&self.topic_prefix, topic, partition, self.partitions_per_topic)
    }
}

/// What the name of a topic is, before its number, in a cluster that is the run's own.
pub const TOPIC: &str = "t";

/// The key that a topic and a partition stand for, in topics of so many partitions, in a cluster that is the run's own; `None`
/// for a topic that is not the workload's.
pub fn key_of(topic: &str, partition: i32, partitions_per_topic: u32) -> Option<Key> {
    key_in(TOPIC, topic, partition, partitions_per_topic)
}

fn key_in(prefix: &str, topic: &str, partition: i32, partitions_per_topic: u32) -> Option<Key> {
    let topic: i64 = topic.strip_prefix(prefix)?.parse().ok()?;
    Some(Key(topic * i64::from(partitions_per_topic) + i64::from(partition)))
}

/// What one poll brought.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Polled {
    /// The records, by key, in the order delivered.
    pub reads: Reads,
    /// What the consumer gained and lost meanwhile.
    pub rebalance: Vec<Rebalance>,
}

/// What a group has committed: keys with the offset to go on from, `None` where it has committed nothing.
pub type Committed = Vec<(Key, Option<Offset>)>;

/// The API of a Kafka-like system, for one client: a producer and a consumer.
///
/// With a transactional id, sends and commits of offsets belong between [`Log::begin`] and the [`Log::commit`] or
/// [`Log::abort`] that ends it. Nothing of them takes effect unless the commit does.
///
/// Errors: every call fails with a [`LogError`]; it is definite only where the system's error table says so.
pub trait Log {
    /// Makes the topics of these keys where they do not exist yet.
    fn create<'a>(&'a mut self, keys: &'a [Key]) -> LocalFuture<'a, Result<(), LogError>>;

    /// Sends one record and waits until it is acknowledged. Returns where it landed, if the system says.
    fn send(&mut self, key: Key, value: Value) -> LocalFuture<'_, Result<Option<Offset>, LogError>>;

    /// Waits for records of the keys that this consumer holds; returns what it has when its time is over.
    fn poll(&mut self) -> LocalFuture<'_, Result<Polled, LogError>>;

    /// From now on the consumer reads just these keys: those that it held already from where it was, new ones from
    /// their beginning, all from their beginning if asked.
    fn assign<'a>(
        &'a mut self,
        keys: &'a [Key],
        from_beginning: bool,
    ) -> LocalFuture<'a, Result<(), LogError>>;

    /// From now on the consumer reads what its group gives it of these keys' topics.
    fn subscribe<'a>(&'a mut self, keys: &'a [Key]) -> LocalFuture<'a, Result<(), LogError>>;

    /// Begins a transaction. Whatever the client had left open is ended first, and a client of the same id that came
    /// before can do nothing any more. Errors: there is no transaction, and calls that need one must not be made.
    fn begin(&mut self) -> LocalFuture<'_, Result<(), LogError>>;

    /// Ends the transaction: all of it takes effect. Errors: a definite one proves that nothing of it ever will; after
    /// any other it may.
    fn commit(&mut self) -> LocalFuture<'_, Result<(), LogError>>;

    /// Ends the transaction: nothing of it ever takes effect, be the abort confirmed or not. Errors: it is not confirmed,
    /// and who waits for the transaction's end may have to wait.
    fn abort(&mut self) -> LocalFuture<'_, Result<(), LogError>>;

    /// Commits, for the group, how far this consumer has read of what the group gave it; within a transaction, as a part
    /// of it. Returns what was committed: each key with the offset to go on from. Errors: any of it may have been
    /// committed, unless the error is definite.
    fn commit_offsets(&mut self) -> LocalFuture<'_, Result<Vec<(Key, Offset)>, LogError>>;

    /// What the group has committed of these keys, whoever holds them.
    fn committed<'a>(&'a mut self, keys: &'a [Key]) -> LocalFuture<'a, Result<Committed, LogError>>;

    /// Where this consumer stands in each key that it holds, and where that key ends.
    fn progress(&mut self) -> LocalFuture<'_, Result<Vec<Progress>, LogError>>;
}

/// How far a consumer is in one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The key.
    pub key: Key,
    /// The offset of the next record it would read.
    pub position: Offset,
    /// The offset after the last record that is there, also behind a transaction that is still open.
    pub end: Offset,
}

/// How an op ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Completion {
    /// Ok, fail or info.
    pub kind: Kind,
    /// The completed value.
    pub value: OpValue,
    /// The optional fields.
    pub extra: Extra,
}

impl Completion {
    /// Nobody knows how the op ended.
    pub fn uncertain(code: &str, message: impl Into<String>) -> Completion {
        let error = OpError { code: code.to_owned(), definite: false, message: message.into() };
        let extra = Extra { error: Some(error), ..Extra::default() };
        Completion { kind: Kind::Info, value: OpValue::None, extra }
    }
}

/// A workload's operations, mapped to a system's API.
pub trait Client {
    /// Carries out an invocation. It never fails to answer: what went wrong is the completion's error.
    fn invoke<'a>(&'a mut self, op: &'a Op) -> LocalFuture<'a, Completion>;
}

/// Waits for a future on this thread, which has nothing else to do meanwhile.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
