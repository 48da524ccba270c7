//! The client of every workload on a log: its ops, as calls of a [`Log`].
//!
//! Every second process of a thread takes over the transactional id of the process before it, which it so fences, and ends
//! what that has left open; what others leave open the coordinator has to end.

use crate::{Connect, Shared, client_properties};
use riprap_core::client::{Client, ClientConfig, ClientLog, Completion, LocalFuture, Log, LogError, TOPIC};
use riprap_core::op::{Extra, F, Key, Kind, Mop, Offset, Op, OpError, OpValue, Process, Txn};
use riprap_core::plan::TestConfig;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How many keys share a topic.
pub(crate) const PARTITIONS_PER_TOPIC: u32 = 4;
/// So many processes of a thread, one after the other, have the same transactional id.
const PROCESSES_PER_ID: u32 = 2;
/// How long one poll waits for records. Short, so that a reader of quiet keys does not hold up its thread.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// Whether the client knows such ops.
pub(crate) fn does(f: &F) -> bool {
    f.has_mops() || f.has_keys() || matches!(f, F::Crash | F::Committed | F::Debug)
}

/// The settings of the client that runs as this process, whose polls return so many records at most.
pub(crate) fn config(
    config: &TestConfig,
    shared: &Shared,
    process: Process,
    max_poll_records: usize,
) -> ClientConfig {
    let name = format!("riprap-{process}");
    ClientConfig {
        client_id: name.clone(),
        bootstrap: shared.bootstrap.clone(),
        acks: config.acks.clone(),
        idempotence: config.idempotence,
        transactional_id: config.txn.then(|| shared.namespace.clone() + &transactional_id(config, process)),
        isolation: config.isolation,
        group_id: format!("{}riprap", shared.namespace),
        topic_prefix: format!("{}{TOPIC}", shared.namespace),
        partitions_per_topic: PARTITIONS_PER_TOPIC,
        replication_factor: config.replication_factor,
        value_bytes: config.value_bytes,
        // An op is given up on a little later than the library gives up on its record, so that it can say so.
        delivery_timeout: Duration::from_millis(config.op_timeout_ms * 3 / 4),
        poll_timeout: POLL_TIMEOUT,
        max_poll_records,
        properties: client_properties(config),
        log: named(&shared.log, &name),
        life: shared.life.clone(),
    }
}

/// The transactional id of a process; see the module. Source: the numbers of processes are those of
/// [`riprap_core::interpreter`].
fn transactional_id(config: &TestConfig, process: Process) -> String {
    let Process::Client(process) = process else { panic!("the nemesis is no client") };
    let (thread, turn) = (process % config.concurrency, process / config.concurrency);
    format!("riprap-{thread}-{}", turn / PROCESSES_PER_ID)
}

/// The same log, with the client's name before each line.
fn named(log: &ClientLog, name: &str) -> ClientLog {
    let (log, name) = (log.clone(), name.to_owned());
    ClientLog(Arc::new(move |line| log.0(&format!("{name}: {line}"))))
}

/// Carries out the ops over a log that is connected when it is first needed.
pub(crate) struct LogClient {
    config: ClientConfig,
    connect: Connect,
    topics: Arc<Mutex<BTreeSet<String>>>,
    log: Option<Box<dyn Log>>,
    /// Whether the group shares out what this client reads: then what it has read is committed.
    in_group: bool,
}

impl LogClient {
    /// A client that has not connected to anything yet.
    pub(crate) fn boxed(config: ClientConfig, shared: &Shared) -> Box<dyn Client> {
        let (connect, topics) = (Rc::clone(&shared.connect), Arc::clone(&shared.topics));
        Box::new(LogClient { config, connect, topics, log: None, in_group: false })
    }

    fn log(&mut self) -> Result<&mut Box<dyn Log>, LogError> {
        if self.log.is_none() {
            self.log = Some((self.connect)(&self.config)?);
        }
        Ok(self.connected())
    }

    fn connected(&mut self) -> &mut Box<dyn Log> {
        self.log.as_mut().expect("connected before")
    }

    /// Makes the topics that are not known to exist. What fails here fails before anything was sent.
    async fn create(&mut self, keys: &[Key]) -> Result<(), LogError> {
        let topic = |config: &ClientConfig, key: &Key| config.topic_partition(*key).0;
        let unknown: Vec<Key> = {
            let known = self.topics.lock().expect("no holder panics");
            keys.iter().copied().filter(|key| !known.contains(&topic(&self.config, key))).collect()
        };
        if unknown.is_empty() {
            return Ok(());
        }
        let made = self.log()?.create(&unknown).await;
        made.map_err(|error| LogError { definite: true, ..error })?;
        let mut known = self.topics.lock().expect("no holder panics");
        known.extend(unknown.iter().map(|key| topic(&self.config, key)));
        Ok(())
    }

    /// Sends and polls, in order; what is done is in `done`, also if the next one fails.
    async fn mops(&mut self, mops: &[Mop], done: &mut Vec<Mop>, extra: &mut Extra) -> Result<(), LogError> {
        for mop in mops {
            match mop {
                Mop::Send { key, value, .. } => {
                    let offset = self.log()?.send(*key, *value).await?;
                    done.push(Mop::Send { key: *key, value: *value, offset });
                }
                Mop::Poll(_) => {
                    let polled = self.log()?.poll().await;
                    // A poll takes nothing from the log, so one that failed certainly had no effect.
                    let polled = polled.map_err(|error| LogError { definite: true, ..error })?;
                    extra.rebalance.extend(polled.rebalance);
                    done.push(Mop::Poll(Some(polled.reads)));
                }
            }
        }
        Ok(())
    }

    /// Commits what was read, where the group shares it out.
    async fn commit_offsets(&mut self, done: &[Mop]) -> Result<Vec<(Key, Offset)>, LogError> {
        let read_something = |mop: &Mop| matches!(mop, Mop::Poll(Some(reads)) if !reads.is_empty());
        if !self.in_group || !done.iter().any(read_something) {
            return Ok(Vec::new());
        }
        self.log()?.commit_offsets().await
    }

    async fn plain(&mut self, mops: &[Mop], extra: &mut Extra) -> Result<OpValue, LogError> {
        self.create(&sent_to(mops)).await?;
        let mut done = Vec::with_capacity(mops.len());
        self.mops(mops, &mut done, extra).await?;
        match self.commit_offsets(&done).await {
            Ok(offsets) => extra.offsets = offsets,
            // The records are read all the same; the next commit covers them.
            Err(error) => extra.error = Some(op_error(error)),
        }
        Ok(OpValue::Mops(done))
    }

    /// One transaction. Until its commit is asked for nothing of it can take effect, so that up to there whatever goes
    /// wrong certainly had none; what its polls read they read all the same.
    async fn txn(&mut self, id: String, mops: &[Mop], mut extra: Extra) -> Completion {
        let begun = async {
            self.create(&sent_to(mops)).await?;
            self.log()?.begin().await
        };
        if let Err(error) = begun.await {
            extra.error = Some(op_error(LogError { definite: true, ..error }));
            return Completion { kind: Kind::Fail, value: OpValue::None, extra };
        }
        let mut done = Vec::with_capacity(mops.len());
        let within = async {
            self.mops(mops, &mut done, &mut extra).await?;
            self.commit_offsets(&done).await
        };
        let ended = match within.await {
            Ok(offsets) if !extra.abort => {
                let committed = self.connected().commit().await;
                if committed.is_ok() {
                    extra.offsets = offsets;
                }
                committed.map_err(Some)
            }
            within => {
                let aborted = self.connected().abort().await;
                let error = within.err().or(aborted.err());
                Err(error.map(|error| LogError { definite: true, ..error }))
            }
        };
        let (kind, outcome) = match &ended {
            Ok(()) => (Kind::Ok, Txn::COMMITTED),
            Err(Some(LogError { definite: false, .. })) => (Kind::Info, Txn::UNKNOWN),
            Err(_) => (Kind::Fail, Txn::ABORTED),
        };
        extra.error = ended.err().flatten().map(op_error);
        extra.txn = Some(Txn { id, outcome: outcome.to_owned() });
        done.extend_from_slice(&mops[done.len()..]);
        Completion { kind, value: OpValue::Mops(done), extra }
    }

    async fn take_keys(&mut self, op: &Op, keys: &[Key]) -> Result<OpValue, LogError> {
        let took = async {
            self.create(keys).await?;
            self.in_group = op.f == F::Subscribe;
            match op.f {
                F::Subscribe => self.log()?.subscribe(keys).await,
                _ => self.log()?.assign(keys, op.extra.from_beginning).await,
            }
        };
        // It changes nothing but this client.
        took.await.map_err(|error| LogError { definite: true, ..error })?;
        Ok(OpValue::Keys(keys.to_vec()))
    }

    async fn committed(&mut self, keys: &Json) -> Result<OpValue, LogError> {
        let keys: Vec<Key> =
            keys.as_array().into_iter().flatten().filter_map(Json::as_i64).map(Key).collect();
        let committed = self.log()?.committed(&keys).await;
        // A question has no effect.
        let committed = committed.map_err(|error| LogError { definite: true, ..error })?;
        let by_key: Map<String, Json> = committed
            .iter()
            .map(|(key, offset)| (key.to_string(), offset.map_or(Json::Null, |offset| offset.0.into())))
            .collect();
        Ok(OpValue::Json(Json::Object(by_key)))
    }

    async fn progress(&mut self) -> Result<OpValue, LogError> {
        let progress = self.log()?.progress().await;
        let progress = progress.map_err(|error| LogError { definite: true, ..error })?;
        let by_key: Map<String, Json> = progress
            .iter()
            .map(|at| (at.key.to_string(), json!({"position": at.position.0, "end": at.end.0})))
            .collect();
        Ok(OpValue::Json(Json::Object(by_key)))
    }
}

impl Client for LogClient {
    fn invoke<'a>(&'a mut self, op: &'a Op) -> LocalFuture<'a, Completion> {
        Box::pin(async move {
            let Extra { from_beginning, abort, .. } = op.extra;
            let mut extra = Extra { from_beginning, abort, ..Extra::default() };
            if let (F::Send | F::Txn, OpValue::Mops(mops), Some(id)) =
                (&op.f, &op.value, &self.config.transactional_id)
            {
                return self.txn(id.clone(), mops, extra).await;
            }
            let result = match (&op.f, &op.value) {
                (F::Crash, _) => return Completion { kind: Kind::Info, value: OpValue::None, extra },
                (F::Debug, _) => self.progress().await,
                (F::Committed, OpValue::Json(keys)) => self.committed(keys).await,
                (_, OpValue::Mops(mops)) => self.plain(mops, &mut extra).await,
                (_, OpValue::Keys(keys)) => self.take_keys(op, keys).await,
                (f, _) => panic!("no workload on a log has an op `{}`", f.name()),
            };
            match result {
                Ok(value) => Completion { kind: Kind::Ok, value, extra },
                Err(error) => {
                    let kind = if error.definite { Kind::Fail } else { Kind::Info };
                    extra.error = Some(op_error(error));
                    Completion { kind, value: OpValue::None, extra }
                }
            }
        })
    }
}

/// The keys that are sent to.
fn sent_to(mops: &[Mop]) -> Vec<Key> {
    let keys = mops.iter().filter_map(|mop| match mop {
        Mop::Send { key, .. } => Some(*key),
        Mop::Poll(_) => None,
    });
    keys.collect()
}

fn op_error(error: LogError) -> OpError {
    OpError { code: error.code, definite: error.definite, message: error.message }
}
