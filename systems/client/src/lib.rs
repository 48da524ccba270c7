//! The simulated Kafka client: a [`Log`] that speaks the wire protocol itself.
//!
//! In a live run riprap's clients are librdkafka's. In simulation they are these: async code over
//! [`riprap_env::task`], which a driver steps as it does a broker, with bytes that pass through its network. The calls mean
//! the same as the live client's; how a client retries, times out and is put off is as with Java's, the model, whose KIPs the
//! modules name.
//!
//! ```text
//! WireLog --+-- producer --- txn                  one record at a time, transactions
//!           '-- consumer -+- fetch                what is read, and where
//!                         '- group                who reads what
//!               core: net (connections), metadata (who leads), coordinator, admin
//! ```
//!
//! All of a client runs on one [`Io`]. Dropping it closes its connections and ends its tasks at once, as a process that
//! crashes does: its group finds out when its session ends.
//!
//! The same seed makes the same bytes: whatever is drawn is drawn from [`Io::random_u64`], and nothing depends on clocks,
//! addresses or hashes.
//!
//! What it does not do: compress, batch (its sends are waited for one by one), encrypt, be a static member, read from
//! followers.

mod admin;
mod backoff;
mod consumer;
mod coordinator;
mod core;
mod error;
mod fetch;
mod group;
mod metadata;
mod net;
mod options;
mod producer;
mod txn;

pub use options::{GroupProtocol, Options, TransactionVersion, validate};

use consumer::Consumer;
use producer::Producer;
use riprap_core::client::{ClientConfig, Committed, LocalFuture, Log, LogError, Polled, Progress};
use riprap_core::op::{Key, Offset, Value};
use riprap_env::task::Io;
use std::fmt;
use std::rc::Rc;

/// A client; see the crate.
pub struct WireLog {
    core: Rc<core::Core>,
    producer: Producer,
    consumer: Consumer,
}

impl WireLog {
    /// A client that has not connected to anything yet. Of the configuration's properties nothing is read: they are what
    /// [`Options::with`] is for.
    pub fn new(io: Io, config: ClientConfig, options: Options) -> WireLog {
        let core = Rc::new(core::Core::new(io, config, options));
        let producer = Producer::new(Rc::clone(&core));
        let consumer = Consumer::new(Rc::clone(&core));
        WireLog { core, producer, consumer }
    }
}

impl fmt::Debug for WireLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireLog").field("client_id", &self.core.config.client_id).finish_non_exhaustive()
    }
}

impl Drop for WireLog {
    fn drop(&mut self) {
        self.consumer.shut_down();
        self.core.shut_down();
    }
}

impl Log for WireLog {
    fn create<'a>(&'a mut self, keys: &'a [Key]) -> LocalFuture<'a, Result<(), LogError>> {
        Box::pin(admin::create(&self.core, keys))
    }
    fn send(&mut self, key: Key, value: Value) -> LocalFuture<'_, Result<Option<Offset>, LogError>> {
        Box::pin(self.producer.send(key, value))
    }
    fn poll(&mut self) -> LocalFuture<'_, Result<Polled, LogError>> {
        Box::pin(self.consumer.poll())
    }
    fn assign<'a>(
        &'a mut self,
        keys: &'a [Key],
        from_beginning: bool,
    ) -> LocalFuture<'a, Result<(), LogError>> {
        Box::pin(async move {
            self.consumer.assign(keys, from_beginning);
            Ok(())
        })
    }
    fn subscribe<'a>(&'a mut self, keys: &'a [Key]) -> LocalFuture<'a, Result<(), LogError>> {
        Box::pin(async move {
            self.consumer.subscribe(keys);
            Ok(())
        })
    }
    fn begin(&mut self) -> LocalFuture<'_, Result<(), LogError>> {
        Box::pin(self.producer.begin())
    }
    fn commit(&mut self) -> LocalFuture<'_, Result<(), LogError>> {
        Box::pin(self.producer.commit())
    }
    fn abort(&mut self) -> LocalFuture<'_, Result<(), LogError>> {
        Box::pin(self.producer.abort())
    }
    fn commit_offsets(&mut self) -> LocalFuture<'_, Result<Vec<(Key, Offset)>, LogError>> {
        Box::pin(self.consumer.commit_offsets(&mut self.producer))
    }
    fn committed<'a>(&'a mut self, keys: &'a [Key]) -> LocalFuture<'a, Result<Committed, LogError>> {
        Box::pin(self.consumer.committed(keys))
    }
    fn progress(&mut self) -> LocalFuture<'_, Result<Vec<Progress>, LogError>> {
        Box::pin(self.consumer.progress())
    }
}
