//! A [`Log`] over JetStream, by async-nats.
//!
//! Key `k` is the stream `t0-1` with the one subject `t0.1`, for a topic `t0` of partitions; an offset is a sequence, so
//! that the first is 1. A record's payload is its value in decimal, after zeros.
//!
//! **Sends** are published with an acknowledgement, and name the stream that they are for (`Nats-Expected-Stream`).
//! Idempotent clients give each a message id, and as long as they have time send it again, under the same id, after
//! whatever went wrong: the stream tells duplicates for two minutes. Others send again only what certainly reached nobody.
//!
//! **Reads** are made by consumers that begin at this client's position; see `reader.rs`. Such a read is no more than a
//! beginning of the log, whatever replica it comes from. What can be stale is where the log ends, and of an end that is too
//! low a lost write would pass for one that nobody had to read. So an end is taken from the stream's leader alone, never
//! from a replica that answers for want of one, and is never below what this client itself was told: a leader that was
//! replaced without knowing it yet may say too little, but each key is written once more by the client that then reads it
//! to its end, and what is acknowledged stands behind all that was acknowledged before.
//! Messages are never fetched directly from replicas (direct get), which promises nothing of the kind.

use super::config::parse_time;
use super::errors::{self, NO_LEADER, NOT_CONNECTED, TIMED_OUT, error};
use super::reader::{Reader, Record};
use crate::librdkafka::parse;
use async_nats::jetstream::context::{ContextBuilder, CreateStreamErrorKind, GetStreamErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{Context, ErrorCode, stream};
use async_nats::{ConnectOptions, ServerAddr};
use futures_util::future::join_all;
use riprap_core::client::{ClientConfig, Committed, LocalFuture, Log, LogError, Polled, Progress};
use riprap_core::op::{Key, Offset, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{poll_fn, ready};
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// The version of async-nats, which does not tell it itself.
pub(crate) const ASYNC_NATS_VERSION: &str = "0.51.0";

/// How long one server gets to take a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the client waits before it tries the next server when its connection is gone, at least and at most.
const RECONNECT_MIN: Duration = Duration::from_millis(50);
const RECONNECT_MAX: Duration = Duration::from_millis(500);
/// How long a question to JetStream's API may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a poll waits for consumers to be made before it goes on with those that are there.
const CONSUMERS_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two attempts at the same thing.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// What `--set client.NAME=VALUE` changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Options {
    /// How long one attempt to publish waits for its acknowledgement.
    ack_timeout: Duration,
    /// For how long streams tell duplicates.
    duplicate_window: Duration,
    /// How often a client asks its server for a sign of life; the third time without one it goes to another.
    ping_interval: Duration,
}

impl Options {
    /// What is asked for. Errors: one line.
    pub(crate) fn read(properties: &[(String, String)]) -> Result<Options, String> {
        let mut options = Options {
            ack_timeout: Duration::from_secs(1),
            duplicate_window: Duration::from_secs(120),
            ping_interval: Duration::from_secs(1),
        };
        for (name, value) in properties {
            let slot = match name.as_str() {
                "ack_timeout" => &mut options.ack_timeout,
                "duplicate_window" => &mut options.duplicate_window,
                "ping_interval" => &mut options.ping_interval,
                _ => {
                    return Err(format!(
                        "unknown setting `client.{name}`; one of: client.ack_timeout, client.duplicate_window, \
                         client.ping_interval"
                    ));
                }
            };
            let time = parse_time(value).filter(|time| *time >= Duration::from_millis(100));
            *slot = time.ok_or_else(|| {
                format!("setting client.{name}=`{value}`: a time from 100ms on is right, such as 10s")
            })?;
        }
        Ok(options)
    }
}

/// One client: a connection, made when it is first needed, and a reader for each key that it holds.
pub(crate) struct NatsLog {
    config: ClientConfig,
    options: Options,
    /// It has a thread of its own, which answers servers between the calls too.
    runtime: Runtime,
    state: State,
}

#[derive(Default)]
struct State {
    context: Option<Context>,
    readers: BTreeMap<Key, Reader>,
    /// The highest offset that a send of each key was told.
    acked: BTreeMap<Key, Offset>,
    /// What was last said to be wrong with reading.
    trouble: Option<String>,
}

impl NatsLog {
    /// A client that has not connected to anything yet.
    pub(crate) fn new(config: ClientConfig) -> Result<NatsLog, LogError> {
        let options = Options::read(&config.properties).map_err(|why| error("CLIENT", why))?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|e| error(NOT_CONNECTED, format!("failed to start a thread: {e}")))?;
        Ok(NatsLog { config, options, runtime, state: State::default() })
    }

    /// Carries out a call on this thread, which has nothing else to do meanwhile.
    fn now<'a, T: 'a>(
        &'a mut self,
        call: impl AsyncFnOnce(&mut State, &Call<'_>) -> T,
    ) -> LocalFuture<'a, T> {
        let NatsLog { config, options, runtime, state } = self;
        let done = runtime.block_on(call(state, &Call { config, options: *options }));
        Box::pin(ready(done))
    }
}

/// What all calls know.
struct Call<'a> {
    config: &'a ClientConfig,
    options: Options,
}

impl Call<'_> {
    fn stream_name(&self, key: Key) -> String {
        let (topic, partition) = self.config.topic_partition(key);
        format!("{topic}-{partition}")
    }

    fn subject(&self, key: Key) -> String {
        let (topic, partition) = self.config.topic_partition(key);
        format!("{topic}.{partition}")
    }

    async fn connect(&self) -> Result<Context, LogError> {
        let not_connected = |why: String| error(NOT_CONNECTED, why);
        let servers: Result<Vec<ServerAddr>, _> =
            self.config.bootstrap.iter().map(|server| server.parse()).collect();
        let servers = servers.map_err(|e| not_connected(format!("{:?}: {e}", self.config.bootstrap)))?;
        let log = self.config.log.clone();
        let client = ConnectOptions::new()
            .name(&self.config.client_id)
            .connection_timeout(CONNECT_TIMEOUT)
            .ping_interval(self.options.ping_interval)
            .request_timeout(Some(ASK_TIMEOUT))
            .max_reconnects(None)
            .reconnect_delay_callback(|attempts| {
                let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
                RECONNECT_MIN.saturating_mul(attempts).min(RECONNECT_MAX)
            })
            .ignore_discovered_servers()
            .event_callback(move |event| {
                log.0(&event.to_string());
                ready(())
            })
            .connect(servers)
            .await
            .map_err(|e| not_connected(e.to_string()))?;
        Ok(ContextBuilder::new().timeout(ASK_TIMEOUT).build(client))
    }

    /// Makes the streams of a topic's keys where they do not exist yet.
    async fn create(&self, context: &Context, key: Key) -> Result<(), LogError> {
        let config = stream::Config {
            name: self.stream_name(key),
            subjects: vec![self.subject(key)],
            storage: stream::StorageType::File,
            num_replicas: usize::from(self.config.replication_factor),
            duplicate_window: self.options.duplicate_window,
            ..stream::Config::default()
        };
        let deadline = Instant::now() + self.config.delivery_timeout;
        loop {
            let Err(failed) = context.create_stream(config.clone()).await else { return Ok(()) };
            let failed = match failed.kind() {
                // Two clients may make it at the same time.
                CreateStreamErrorKind::JetStream(api) if api.error_code() == ErrorCode::STREAM_NAME_EXIST => {
                    return Ok(());
                }
                CreateStreamErrorKind::JetStream(api) => errors::of_api(&api),
                CreateStreamErrorKind::TimedOut => error(TIMED_OUT, &failed),
                _ => error("CLIENT", &failed),
            };
            if Instant::now() + RETRY_PAUSE >= deadline {
                return Err(failed);
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Publishes once, and waits so long for the acknowledgement. Returns the sequence, if one is told.
    async fn publish(
        &self,
        context: &Context,
        key: Key,
        value: Value,
        limit: Duration,
    ) -> Result<Option<Offset>, LogError> {
        let payload = self.config.payload(value).into_bytes().into();
        let mut message = PublishMessage::build().payload(payload).expected_stream(self.stream_name(key));
        if self.config.idempotence {
            // A value is sent to a key once, so that the two name an attempt's record.
            message = message.message_id(format!("{key}-{value}"));
        }
        let acked = async { context.send_publish(self.subject(key), message).await?.await };
        match timeout(limit, acked).await {
            Ok(Ok(ack)) => Ok(i64::try_from(ack.sequence).ok().filter(|sequence| *sequence > 0).map(Offset)),
            Ok(Err(failed)) => Err(errors::of_publish(&failed)),
            Err(_) => Err(error(TIMED_OUT, format!("no acknowledgement within {limit:?}"))),
        }
    }

    /// Publishes, again and again where that is safe, until it is acknowledged or time is over.
    async fn send(&self, context: &Context, key: Key, value: Value) -> Result<Option<Offset>, LogError> {
        let deadline = Instant::now() + self.config.delivery_timeout;
        let mut in_doubt = false;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // Who may not send it again waits for as long as there is time.
            let limit = if self.config.idempotence { left.min(self.options.ack_timeout) } else { left };
            let failed = match self.publish(context, key, value, limit).await {
                Ok(offset) => return Ok(offset),
                Err(failed) => failed,
            };
            in_doubt |= !failed.definite;
            let may_try_again = self.config.idempotence || !in_doubt;
            if !may_try_again || Instant::now() + RETRY_PAUSE >= deadline {
                return Err(LogError { definite: !in_doubt, ..failed });
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// The sequence after the last record that the leader of a key's stream knows to be committed.
    async fn end(&self, context: &Context, key: Key) -> Result<u64, LogError> {
        let name = self.stream_name(key);
        let told = context.get_stream(&name).await.map_err(|failed| match failed.kind() {
            GetStreamErrorKind::JetStream(api) => errors::of_api(&api),
            _ => error(TIMED_OUT, format!("{name}: {failed}")),
        })?;
        let info = told.cached_info();
        // A server alone has no cluster to tell of.
        let is_of_leader = info.cluster.as_ref().is_none_or(|cluster| cluster.leader.is_some());
        if !is_of_leader {
            return Err(error(NO_LEADER, format!("{name} has no leader")));
        }
        Ok(info.state.last_sequence + 1)
    }
}

impl State {
    async fn connected(&mut self, call: &Call<'_>) -> Result<Context, LogError> {
        if self.context.is_none() {
            self.context = Some(call.connect().await?);
        }
        Ok(self.context.clone().expect("just made"))
    }

    async fn create(&mut self, call: &Call<'_>, keys: &[Key]) -> Result<(), LogError> {
        let context = self.connected(call).await?;
        let n = i64::from(call.config.partitions_per_topic);
        let topics: BTreeSet<i64> = keys.iter().map(|key| key.0.div_euclid(n)).collect();
        let keys = topics.iter().flat_map(|topic| (topic * n..(topic + 1) * n).map(Key));
        let made = join_all(keys.map(|key| call.create(&context, key))).await;
        made.into_iter().collect()
    }

    async fn send(&mut self, call: &Call<'_>, key: Key, value: Value) -> Result<Option<Offset>, LogError> {
        let context = self.connected(call).await?;
        let offset = call.send(&context, key, value).await?;
        if let Some(offset) = offset {
            let highest = self.acked.entry(key).or_insert(offset);
            *highest = offset.max(*highest);
        }
        Ok(offset)
    }

    async fn poll(&mut self, call: &Call<'_>) -> Result<Polled, LogError> {
        let deadline = Instant::now() + call.config.poll_timeout;
        let context = self.connected(call).await?;
        let mut polled = Polled::default();
        loop {
            self.pull(call, &context, deadline).await;
            let first = timeout_at(deadline, poll_fn(|task| self.poll_record(task, call))).await;
            match first {
                // A pull has ended: there is another one to be made.
                Ok(None) if Instant::now() < deadline => {}
                Ok(None) | Err(_) => return Ok(polled),
                Ok(Some((key, record))) => {
                    take(&mut polled, key, &record);
                    break;
                }
            }
        }
        // Once there is something, only what is there already is taken.
        let mut records = 1;
        while records < call.config.max_poll_records {
            let next = poll_fn(|task| match self.poll_record(task, call) {
                Poll::Ready(next) => Poll::Ready(next),
                Poll::Pending => Poll::Ready(None),
            });
            let Some((key, record)) = next.await else { break };
            take(&mut polled, key, &record);
            records += 1;
        }
        Ok(polled)
    }

    /// Has a pull under way for each key, as far as that goes.
    async fn pull(&mut self, call: &Call<'_>, context: &Context, deadline: Instant) {
        let limit = deadline.max(Instant::now() + CONSUMERS_TIMEOUT);
        let pulls = join_all(self.readers.values_mut().map(|reader| reader.pull(context)));
        let why = match timeout_at(limit, pulls).await {
            Ok(pulls) => pulls.into_iter().find_map(Result::err),
            Err(_) => Some(format!("no consumer within {CONSUMERS_TIMEOUT:?}")),
        };
        self.note(call, why);
    }

    /// What is wrong with reading goes into the run's log, once.
    fn note(&mut self, call: &Call<'_>, trouble: Option<String>) {
        if let Some(why) = &trouble
            && self.trouble != trouble
        {
            call.config.log.0(why);
        }
        self.trouble = trouble;
    }

    /// A record of any key; `None` when the pull of one of the keys has ended.
    fn poll_record(
        &mut self,
        task: &mut std::task::Context<'_>,
        call: &Call<'_>,
    ) -> Poll<Option<(Key, Record)>> {
        let (mut ended, mut trouble) = (false, None);
        for (key, reader) in &mut self.readers {
            match reader.poll_record(task) {
                Poll::Ready(Some(Ok(record))) => return Poll::Ready(Some((*key, record))),
                // The next poll has another consumer made: tried again at once, it might fail all the time.
                Poll::Ready(Some(Err(why))) => trouble = Some(why),
                Poll::Ready(None) => ended = true,
                Poll::Pending => {}
            }
        }
        if trouble.is_some() {
            self.note(call, trouble);
        }
        if ended { Poll::Ready(None) } else { Poll::Pending }
    }

    fn assign(&mut self, call: &Call<'_>, keys: &[Key], from_beginning: bool) {
        let mut held = std::mem::take(&mut self.readers);
        if from_beginning {
            held.clear();
        }
        let mut reader = |key: &Key| held.remove(key).unwrap_or_else(|| Reader::new(call.stream_name(*key)));
        self.readers = keys.iter().map(|key| (*key, reader(key))).collect();
    }

    async fn progress(&mut self, call: &Call<'_>) -> Result<Vec<Progress>, LogError> {
        let context = self.connected(call).await?;
        let ends = join_all(self.readers.keys().map(|key| call.end(&context, *key))).await;
        let mut progress = Vec::with_capacity(ends.len());
        for ((key, reader), end) in self.readers.iter_mut().zip(ends) {
            let acked = self.acked.get(key).map_or(Offset(0), |offset| Offset(offset.0 + 1));
            let end = acked.max(offset(end?));
            let position = offset(reader.position());
            if position < end {
                reader.is_behind();
            }
            progress.push(Progress { key: *key, position, end });
        }
        Ok(progress)
    }
}

fn offset(sequence: u64) -> Offset {
    Offset(i64::try_from(sequence).expect("a server counts from 1, and not that far"))
}

fn take(polled: &mut Polled, key: Key, record: &Record) {
    let read = (offset(record.sequence), parse(Some(&record.payload)));
    match polled.reads.iter_mut().find(|(k, _)| *k == key) {
        Some((_, group)) => group.push(read),
        None => polled.reads.push((key, vec![read])),
    }
}

/// What a run is refused for before it begins.
fn unsupported<'a, T: 'a>(what: &str) -> LocalFuture<'a, Result<T, LogError>> {
    let message = format!("JetStream has no {what}");
    Box::pin(ready(Err(LogError { code: "UNSUPPORTED".to_owned(), definite: true, message })))
}

impl Log for NatsLog {
    fn create<'a>(&'a mut self, keys: &'a [Key]) -> LocalFuture<'a, Result<(), LogError>> {
        self.now(async |state, call| state.create(call, keys).await)
    }
    fn send(&mut self, key: Key, value: Value) -> LocalFuture<'_, Result<Option<Offset>, LogError>> {
        self.now(async |state, call| state.send(call, key, value).await)
    }
    fn poll(&mut self) -> LocalFuture<'_, Result<Polled, LogError>> {
        self.now(async |state, call| state.poll(call).await)
    }
    fn assign<'a>(
        &'a mut self,
        keys: &'a [Key],
        from_beginning: bool,
    ) -> LocalFuture<'a, Result<(), LogError>> {
        self.now(async |state, call| {
            state.assign(call, keys, from_beginning);
            Ok(())
        })
    }
    fn subscribe<'a>(&'a mut self, _: &'a [Key]) -> LocalFuture<'a, Result<(), LogError>> {
        unsupported("groups that share out keys")
    }
    fn begin(&mut self) -> LocalFuture<'_, Result<(), LogError>> {
        unsupported("transactions over several streams")
    }
    fn commit(&mut self) -> LocalFuture<'_, Result<(), LogError>> {
        unsupported("transactions over several streams")
    }
    fn abort(&mut self) -> LocalFuture<'_, Result<(), LogError>> {
        unsupported("transactions over several streams")
    }
    fn commit_offsets(&mut self) -> LocalFuture<'_, Result<Vec<(Key, Offset)>, LogError>> {
        unsupported("offsets of groups")
    }
    fn committed<'a>(&'a mut self, _: &'a [Key]) -> LocalFuture<'a, Result<Committed, LogError>> {
        unsupported("offsets of groups")
    }
    fn progress(&mut self) -> LocalFuture<'_, Result<Vec<Progress>, LogError>> {
        self.now(async |state, call| state.progress(call).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let check = |name: &str, value: &str, expect: Result<Duration, &str>| {
            let told = Options::read(&[(name.to_owned(), value.to_owned())]);
            assert_eq!(
                told.map(|options| options.ack_timeout),
                expect.map_err(str::to_owned),
                "{name}={value}"
            );
        };
        check("ack_timeout", "500ms", Ok(Duration::from_millis(500)));
        check("ping_interval", "10s", Ok(Duration::from_secs(1)));
        check(
            "ack_timeout",
            "0s",
            Err("setting client.ack_timeout=`0s`: a time from 100ms on is right, such as 10s"),
        );
        check(
            "linger",
            "5ms",
            Err(
                "unknown setting `client.linger`; one of: client.ack_timeout, client.duplicate_window, client.ping_interval",
            ),
        );
    }

    /// Nothing in async-nats tells its version: what is told of a run is what was linked.
    #[test]
    fn the_version_is_that_of_the_lock_file() {
        let lock = include_str!("../../../Cargo.lock");
        let entry = format!("name = \"async-nats\"\nversion = \"{ASYNC_NATS_VERSION}\"\n");
        assert!(lock.contains(&entry), "{entry} is not in Cargo.lock");
    }
}
