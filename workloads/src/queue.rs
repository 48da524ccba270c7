//! The queue workload, as Jepsen's `jepsen.tests.kafka` has it: unique values are sent to keys and polled again.
//!
//! Some keys are written at a time; one that has its share of values makes place for a new one, so that topics keep
//! being made. A process first takes some keys (`assign`, or `subscribe` where the run asks for it), then sends and polls
//! in equal parts, takes other keys now and then, and crashes now and then: its client is thrown away and a new process
//! goes on. Every third choice of keys goes to those that have acknowledged records which nobody has read yet.
//!
//! What it cannot see: the order in which records of different keys became visible (there are no transactions in it
//! yet), and anything about a record's own key, headers and timestamp.

use crate::{Connect, Drain, Shared, Workload, WorkloadInfo, client_properties, committed, drain, options};
use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use riprap_checker::Options;
use riprap_core::client::{
    Client, ClientConfig, ClientLog, Completion, LocalFuture, Log, LogError, SubscribeVia,
};
use riprap_core::generator::{Ask, BoxedGenerator, Context, Draft, Generator, Offer, clients};
use riprap_core::op::{Extra, F, Key, Kind, Mop, Offset, Op, OpError, OpValue, Process, Value};
use riprap_core::plan::TestConfig;
use riprap_core::seed::Stream;
use riprap_core::{History, Seed};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How many keys share a topic.
const PARTITIONS_PER_TOPIC: u32 = 4;
/// One op in so many takes other keys; of a process that has subscribed fewer, since each makes the whole group share
/// out its keys anew, and nobody reads meanwhile.
const REASSIGN_EVERY: u32 = 32;
const RESUBSCRIBE_EVERY: u32 = 128;
/// One op in so many of a process that has subscribed asks what the group has committed.
const COMMITTED_EVERY: u32 = 16;
/// One op in so many is a crash of the client.
const CRASH_EVERY: u32 = 256;
/// One choice of keys in so many looks for records that nobody has read.
const CHASE_EVERY: u32 = 3;
/// The most keys that a process takes at a time.
const MAX_KEYS: usize = 6;
/// How long one poll waits for records. Short, so that a reader of quiet keys does not hold up its thread.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);
/// The most records of one poll: many, so that a consumer that lags sees long runs; few enough for an op to be read.
const MAX_POLL_RECORDS: usize = 512;

static INFO: WorkloadInfo = WorkloadInfo {
    name: "queue",
    doc: "Unique values are sent to keys (topic-partitions) and polled, by assign or subscribe; keys rotate, clients \
          crash, and in the end fresh clients read everything from the beginning. Brings out records that are lost, \
          doubled, moved, reordered or skipped.",
    finds: &[
        "lost-write",
        "unseen",
        "duplicate",
        "inconsistent-offsets",
        "poll-skip",
        "nonmonotonic-poll",
        "nonmonotonic-send",
        "G1a",
    ],
};

pub(crate) struct Queue;

impl Workload for Queue {
    fn info(&self) -> &'static WorkloadInfo {
        &INFO
    }

    fn generator(&self, config: &TestConfig) -> BoxedGenerator {
        clients(Box::new(Ops {
            seed: Seed(config.seed),
            sub_via: config.sub_via.clone(),
            max_writes_per_key: u64::from(config.max_writes_per_key),
            taken: 0,
            live: (0..i64::from(config.keys)).map(|key| (Key(key), 0)).collect(),
            next_key: i64::from(config.keys),
            holding: BTreeMap::new(),
            acked: BTreeMap::new(),
            read: BTreeMap::new(),
        }))
    }

    fn final_generator(&self, config: &TestConfig, history: &History) -> (BoxedGenerator, Drain) {
        drain::drain(history, PARTITIONS_PER_TOPIC, config.concurrency, config.drain_limit_ms)
    }

    fn client(&self, config: &TestConfig, shared: &Shared, name: &str) -> Box<dyn Client> {
        let client_config = ClientConfig {
            client_id: name.to_owned(),
            bootstrap: shared.bootstrap.clone(),
            acks: config.acks.clone(),
            idempotence: config.idempotence,
            isolation: config.isolation,
            group_id: "riprap".to_owned(),
            partitions_per_topic: PARTITIONS_PER_TOPIC,
            replication_factor: config.replication_factor,
            // An op is given up on a little later than the library gives up on its record, so that it can say so.
            delivery_timeout: Duration::from_millis(config.op_timeout_ms * 3 / 4),
            poll_timeout: POLL_TIMEOUT,
            max_poll_records: MAX_POLL_RECORDS,
            properties: client_properties(config),
            log: named(&shared.log, name),
        };
        Box::new(QueueClient {
            config: client_config,
            connect: Arc::clone(&shared.connect),
            topics: Arc::clone(&shared.topics),
            log: None,
            in_group: false,
        })
    }

    fn options(&self, config: &TestConfig) -> Options {
        options(config)
    }
}

/// The same log, with the client's name before each line.
fn named(log: &ClientLog, name: &str) -> ClientLog {
    let (log, name) = (log.clone(), name.to_owned());
    ClientLog(Arc::new(move |line| log.0(&format!("{name}: {line}"))))
}

/// Decides the ops of the main phase.
struct Ops {
    seed: Seed,
    sub_via: Vec<SubscribeVia>,
    max_writes_per_key: u64,
    /// How many ops were taken: each op draws from a stream of its own, named by this number.
    taken: u64,
    /// The keys being written, each with how many values it has been given.
    live: Vec<(Key, u64)>,
    next_key: i64,
    /// The processes that have taken keys, each with those that it has subscribed to.
    holding: BTreeMap<Process, Vec<Key>>,
    /// For each key, the highest offset acknowledged, and the highest read.
    acked: BTreeMap<Key, Offset>,
    read: BTreeMap<Key, Offset>,
}

impl Ops {
    fn draft(&self, process: Process) -> Draft {
        let mut random = self.seed.stream("queue", &format!("op {}", self.taken));
        let Some(subscribed) = self.holding.get(&process) else { return self.take_keys(&mut random) };
        let every = if subscribed.is_empty() { REASSIGN_EVERY } else { RESUBSCRIBE_EVERY };
        if random.random_ratio(1, every) {
            return self.take_keys(&mut random);
        }
        if random.random_ratio(1, CRASH_EVERY) {
            return Draft::new(F::Crash, OpValue::None);
        }
        if !subscribed.is_empty() && random.random_ratio(1, COMMITTED_EVERY) {
            return committed(subscribed);
        }
        if random.random_ratio(1, 2) {
            return Draft::new(F::Poll, OpValue::Mops(vec![Mop::Poll(None)]));
        }
        let (key, written) = self.live[random.random_range(0..self.live.len())];
        let value = Value(i64::try_from(written).expect("fewer values than 2^63"));
        Draft::new(F::Send, OpValue::Mops(vec![Mop::Send { key, value, offset: None }]))
    }

    fn take_keys(&self, random: &mut Stream) -> Draft {
        let unread =
            self.acked.iter().filter(|(key, acked)| self.read.get(key).is_none_or(|read| read < acked));
        let mut keys: Vec<Key> = unread.map(|(key, _)| *key).collect();
        if keys.is_empty() || !random.random_ratio(1, CHASE_EVERY) {
            keys = self.live.iter().map(|(key, _)| *key).collect();
        }
        let count = random.random_range(1..=keys.len().min(MAX_KEYS));
        keys.shuffle(random);
        keys.truncate(count);
        keys.sort();
        let via = self.sub_via[random.random_range(0..self.sub_via.len())];
        let f = if via == SubscribeVia::Assign { F::Assign } else { F::Subscribe };
        Draft::new(f, OpValue::Keys(keys))
    }
}

impl Generator for Ops {
    fn ask(&self, context: &Context) -> Ask {
        let Some((_, process)) = context.next_free() else { return Ask::Pending(None) };
        Offer::now(context, self.draft(process)).map_or(Ask::Pending(None), Ask::Offer)
    }

    fn take(&mut self, context: &Context, offer: &mut Offer) {
        self.taken += 1;
        if let (OpValue::Keys(keys), Some((_, process))) = (&offer.draft.value, context.next_free()) {
            let subscribed = if offer.draft.f == F::Subscribe { keys.clone() } else { Vec::new() };
            self.holding.insert(process, subscribed);
        }
        let OpValue::Mops(mops) = &offer.draft.value else { return };
        for mop in mops {
            let Mop::Send { key: sent, .. } = mop else { continue };
            let slot =
                self.live.iter_mut().find(|(key, _)| key == sent).expect("values are drawn for live keys");
            slot.1 += 1;
            if slot.1 >= self.max_writes_per_key {
                *slot = (Key(self.next_key), 0);
                self.next_key += 1;
            }
        }
    }

    fn update(&mut self, _: &Context, op: &Op) {
        if op.kind == Kind::Info || (op.kind == Kind::Fail && op.f.has_keys()) {
            self.holding.remove(&op.process);
        }
        let OpValue::Mops(mops) = &op.value else { return };
        if op.kind != Kind::Ok {
            return;
        }
        let raise = |highest: &mut BTreeMap<Key, Offset>, key: Key, offset: Offset| {
            let known = highest.entry(key).or_insert(offset);
            *known = offset.max(*known);
        };
        for mop in mops {
            match mop {
                Mop::Send { key, offset: Some(offset), .. } => raise(&mut self.acked, *key, *offset),
                Mop::Send { offset: None, .. } | Mop::Poll(None) => {}
                Mop::Poll(Some(reads)) => {
                    for (key, records) in reads {
                        records.iter().for_each(|(offset, _)| raise(&mut self.read, *key, *offset));
                    }
                }
            }
        }
    }
}

/// Carries out the ops over a log that is connected when it is first needed.
struct QueueClient {
    config: ClientConfig,
    connect: Connect,
    topics: Arc<Mutex<BTreeSet<String>>>,
    log: Option<Box<dyn Log>>,
    /// Whether the group shares out what this client reads: then what it has read is committed.
    in_group: bool,
}

impl QueueClient {
    fn log(&mut self) -> Result<&mut Box<dyn Log>, LogError> {
        if self.log.is_none() {
            self.log = Some((self.connect)(&self.config)?);
        }
        Ok(self.log.as_mut().expect("just connected"))
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

    async fn mops(&mut self, mops: &[Mop], extra: &mut Extra) -> Result<OpValue, LogError> {
        let mut done = Vec::with_capacity(mops.len());
        for mop in mops {
            match mop {
                Mop::Send { key, value, .. } => {
                    self.create(&[*key]).await?;
                    let offset = self.log()?.send(*key, *value).await?;
                    done.push(Mop::Send { key: *key, value: *value, offset });
                }
                Mop::Poll(_) => {
                    let polled = self.log()?.poll().await;
                    // A poll takes nothing from the log, so one that failed certainly had no effect.
                    let polled = polled.map_err(|error| LogError { definite: true, ..error })?;
                    extra.rebalance.extend(polled.rebalance);
                    let read_something = !polled.reads.is_empty();
                    done.push(Mop::Poll(Some(polled.reads)));
                    if self.in_group && read_something {
                        match self.log()?.commit_offsets().await {
                            Ok(offsets) => extra.offsets = offsets,
                            // The records are read all the same; the next commit covers them.
                            Err(error) => extra.error = Some(op_error(error)),
                        }
                    }
                }
            }
        }
        Ok(OpValue::Mops(done))
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
            let mut extra = Extra { from_beginning: op.extra.from_beginning, ..Extra::default() };
            let result = match (&op.f, &op.value) {
                (F::Crash, _) => return Completion { kind: Kind::Info, value: OpValue::None, extra },
                (F::Debug, _) => self.progress().await,
                (F::Committed, OpValue::Json(keys)) => self.committed(keys).await,
                (_, OpValue::Mops(mops)) => self.mops(mops, &mut extra).await,
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

fn op_error(error: LogError) -> OpError {
    OpError { code: error.code, definite: error.definite, message: error.message }
}
