//! The client of the queue workload: its ops, as calls of a [`Log`].

use crate::{Connect, Shared};
use riprap_core::client::{Client, ClientConfig, Completion, LocalFuture, Log, LogError};
use riprap_core::op::{Extra, F, Key, Kind, Mop, Offset, Op, OpError, OpValue, Txn};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// Carries out the ops over a log that is connected when it is first needed.
pub(super) struct QueueClient {
    config: ClientConfig,
    connect: Connect,
    topics: Arc<Mutex<BTreeSet<String>>>,
    log: Option<Box<dyn Log>>,
    /// Whether the group shares out what this client reads: then what it has read is committed.
    in_group: bool,
}

impl QueueClient {
    pub(super) fn new(config: ClientConfig, shared: &Shared) -> QueueClient {
        let (connect, topics) = (Rc::clone(&shared.connect), Arc::clone(&shared.topics));
        QueueClient { config, connect, topics, log: None, in_group: false }
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

impl Client for QueueClient {
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
                (f, _) => panic!("the queue workload has no op `{}`", f.name()),
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
