//! A [`Log`] over librdkafka, for every system that speaks Kafka's protocol.
//!
//! The calls block: a live client has a thread of its own. Records are sent one at a time to an explicit partition, so
//! that no partitioner has a say; a record's payload is its value in decimal, after zeros.
//!
//! librdkafka retries inside itself. A refusal that it reports may have followed an attempt that took effect, so no
//! error of a send proves anything unless the system's table says so, or the record never left the client's own queue.
//! Of transactions, which the whole is either in or not, more can be said: see `txn.rs`.
//! Source: librdkafka's INTRODUCTION.md, "Message persistence status".

mod admin;
mod callbacks;
mod crash;
mod txn;

pub use admin::Admin;

use callbacks::{Rebalances, Reports};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::topic_partition_list::{Offset as RdOffset, TopicPartitionList};
use riprap_core::client::{
    ClientConfig, Committed, Isolation, LocalFuture, Log, LogError, Polled, Progress, block_on,
};
use riprap_core::interpreter::CLIENT_CRASHED;
use riprap_core::op::{Key, Offset, Rebalance, Value};
use riprap_core::system::ErrorRule;
use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// None is definite: librdkafka retries inside itself, and no error says whether an attempt before it took effect.
/// The list is what a reader of a history meets most, with what it means.
pub const ERRORS: &[ErrorRule] = &[
    ErrorRule {
        code: "FENCED",
        definite: false,
        reason: "of a commit: an attempt before it may have committed the transaction (KIP-588 on what is called fencing)",
    },
    ErrorRule {
        code: "MESSAGE_TIMED_OUT",
        definite: false,
        reason: "librdkafka gave up; an attempt may be in the log, or still on its way",
    },
    ErrorRule {
        code: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        definite: false,
        reason: "the record is in the leader's log and may yet be replicated",
    },
    ErrorRule {
        code: "NOT_LEADER_FOR_PARTITION",
        definite: false,
        reason: "may follow a successful append, if the leader lost its office while it waited for replicas (KAFKA-13574)",
    },
    ErrorRule {
        code: "REQUEST_TIMED_OUT",
        definite: false,
        reason: "the replicas did not answer in time; the record is in the leader's log",
    },
];

/// How long a call that only asks the cluster something (metadata, watermarks, commits) may take; see [`ask_timeout`].
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the cluster gets to make a topic.
const CREATE_TIMEOUT: Duration = Duration::from_secs(10);
/// Beyond librdkafka's own delivery timeout, how long its report is waited for: it is due at once, but by another
/// thread.
const REPORT_GRACE: Duration = Duration::from_secs(1);
/// The beginning of a partition, as a plain number: a log that begins later answers that it is out of range, and
/// `auto.offset.reset` does the rest.
///
/// librdkafka's own `OFFSET_BEGINNING` is a question to the leader. If the consumer is assigned anew before the answer,
/// librdkafka drops the answer as outdated and asks again half a second later, in the midst of reading from wherever
/// the new assignment said, and goes back to the beginning. Source: librdkafka 2.12.1, rdkafka_partition.c,
/// rd_kafka_toppar_handle_Offset, "outdated offset response"; met as a nonmonotonic poll of a healthy partition.
const BEGINNING: RdOffset = RdOffset::Offset(0);
/// What one fetch brings of a partition, at most: some 30 of riprap's records. A log is then read in many pieces, and
/// what goes wrong where one ends and the next begins is met even on short logs.
const FETCH_BYTES: &str = "2048";
/// How often a delivery report is looked for: often while it may come any moment, less so when a fault holds it up, for
/// all clients may be waiting then and the brokers need the processor.
const REPORT_POLL: Duration = Duration::from_millis(1);
const LATE_REPORT_POLL: Duration = Duration::from_millis(10);
/// So long a report may come any moment.
const SOON: Duration = Duration::from_millis(50);
/// After this time a request that was not answered is taken for lost.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(3);

/// A member that its coordinator did not hear for so long is one no more.
const SESSION_TIMEOUT_MS: u64 = 6000;
/// A member that did not poll for so long leaves its group, and a rebalance waits so long for one. librdkafka's is 300 s, and
/// no run of riprap's is that long: one client that hangs would keep the whole group from its keys to the end.
const MAX_POLL_INTERVAL_MS: u64 = 30_000;

/// The properties that every client starts from: those that riprap does not leave to librdkafka's defaults, since its
/// tests are short and its faults last seconds.
const COMMON: &[(&str, &str)] = &[
    ("allow.auto.create.topics", "false"),
    ("reconnect.backoff.ms", "50"),
    ("reconnect.backoff.max.ms", "500"),
    ("retry.backoff.ms", "50"),
    ("socket.connection.setup.timeout.ms", "1000"),
    ("topic.metadata.refresh.fast.interval.ms", "100"),
    ("topic.metadata.refresh.interval.ms", "2000"),
];

/// Whether librdkafka knows these properties and takes their values. What it only finds out when it makes a client, as
/// that two of them exclude each other, is not seen here. Errors: one line.
pub fn validate(properties: &[(String, String)]) -> Result<(), String> {
    for (name, value) in properties {
        let one = rdkafka::ClientConfig::from_iter([(name.clone(), value.clone())]);
        match one.create_native_config() {
            Ok(_) => {}
            Err(KafkaError::ClientConfig(_, why, _, _)) => {
                return Err(format!("setting `client.{name}` is `{value}`; librdkafka says: {why}"));
            }
            Err(error) => return Err(format!("setting `client.{name}` is `{value}`: {error}")),
        }
    }
    Ok(())
}

/// A connection that a transactional producer does not use for so long is closed. Offsets of a transaction go to a group's
/// coordinator, which librdkafka takes from a cache; if that broker is down it waits, whatever the timeout, for some
/// connection to change its state before it asks who coordinates by now.
/// Source: librdkafka's issues 5456 and 5511; met as a commit of offsets that never returned.
const CLOSE_IDLE: Duration = Duration::from_secs(3);

/// One client: a producer and a consumer, each made when it is first needed.
pub struct KafkaLog {
    config: ClientConfig,
    rules: &'static [ErrorRule],
    producer: Option<BaseProducer<Reports>>,
    txn: txn::State,
    consumer: Option<BaseConsumer<Rebalances>>,
    /// Sees what is behind an open transaction.
    observer: Option<BaseConsumer>,
    /// Whether the consumer has subscribed.
    in_group: bool,
    /// Whether the consumer has assigned keys by itself.
    has_assigned: bool,
    /// The keys that the consumer holds, each with the offset to go on from, once it has read there.
    held: BTreeMap<Key, Option<Offset>>,
    /// Those that the group gave it: only of these does it commit.
    given: BTreeSet<Key>,
    /// What the group gave and took since it was looked at last.
    rebalance: Arc<Mutex<Vec<Rebalance>>>,
    /// What no poll has told yet of what it gave and took: when the consumer left it, or a poll failed.
    parting: Vec<Rebalance>,
    report: Arc<Mutex<Option<Report>>>,
}

type Report = Result<Offset, RDKafkaErrorCode>;

impl KafkaLog {
    /// A client that has not connected to anything yet. `rules` tells what the system's errors prove.
    pub fn new(config: ClientConfig, rules: &'static [ErrorRule]) -> KafkaLog {
        KafkaLog {
            config,
            rules,
            producer: None,
            txn: txn::State::default(),
            consumer: None,
            observer: None,
            in_group: false,
            has_assigned: false,
            held: BTreeMap::new(),
            given: BTreeSet::new(),
            rebalance: Arc::default(),
            parting: Vec::new(),
            report: Arc::default(),
        }
    }

    fn properties(&self) -> rdkafka::ClientConfig {
        let mut properties = rdkafka::ClientConfig::new();
        for (name, value) in COMMON {
            properties.set(*name, *value);
        }
        properties.set("bootstrap.servers", self.config.bootstrap.join(","));
        properties.set("client.id", &self.config.client_id);
        properties.set("socket.timeout.ms", SOCKET_TIMEOUT.as_millis().to_string());
        properties.set_log_level(RDKafkaLogLevel::Warning);
        properties
    }

    fn finish(&self, mut properties: rdkafka::ClientConfig) -> rdkafka::ClientConfig {
        for (name, value) in &self.config.properties {
            properties.set(name, value);
            if name == "debug" {
                properties.set_log_level(RDKafkaLogLevel::Debug);
            }
        }
        properties
    }

    fn error(&self, error: &KafkaError) -> LogError {
        let code = error.rdkafka_error_code().map_or_else(|| "CLIENT".to_owned(), code_name);
        let definite = self.rules.iter().any(|rule| rule.code == code && rule.definite);
        LogError { code, definite, message: error.to_string() }
    }

    fn producer(&mut self) -> Result<&BaseProducer<Reports>, LogError> {
        if self.producer.is_none() {
            let mut properties = self.properties();
            properties
                .set("acks", &self.config.acks)
                .set("enable.idempotence", self.config.idempotence.to_string())
                .set("message.timeout.ms", self.config.delivery_timeout.as_millis().to_string())
                .set("request.timeout.ms", "3000")
                .set("linger.ms", "0");
            if let Some(id) = &self.config.transactional_id {
                let timeout = txn::timeout(&self.config);
                properties
                    .set("transactional.id", id)
                    .set("connections.max.idle.ms", CLOSE_IDLE.as_millis().to_string())
                    .set("transaction.timeout.ms", timeout.as_millis().to_string());
            }
            let context = Reports { log: self.config.log.clone(), last: Arc::clone(&self.report) };
            let made = self.finish(properties).create_with_context(context);
            self.producer = Some(made.map_err(|e| self.error(&e))?);
        }
        Ok(self.producer.as_ref().expect("just made"))
    }

    fn consumer(&mut self) -> Result<&BaseConsumer<Rebalances>, LogError> {
        if self.consumer.is_none() {
            let isolation = match self.config.isolation {
                Isolation::ReadCommitted => "read_committed",
                Isolation::ReadUncommitted => "read_uncommitted",
            };
            let mut properties = self.properties();
            properties
                .set("group.id", &self.config.group_id)
                .set("isolation.level", isolation)
                .set("enable.auto.commit", "false")
                .set("auto.offset.reset", "earliest")
                .set("check.crcs", "true")
                .set("fetch.wait.max.ms", "100")
                .set("fetch.message.max.bytes", FETCH_BYTES)
                .set("fetch.error.backoff.ms", "50");
            if !self.is_assigned_by_coordinator() {
                properties
                    .set("session.timeout.ms", SESSION_TIMEOUT_MS.to_string())
                    .set("heartbeat.interval.ms", "1000");
            }
            properties.set("max.poll.interval.ms", self.max_poll_interval_ms().to_string());
            let context = Rebalances { config: self.config.clone(), seen: Arc::clone(&self.rebalance) };
            let made = self.finish(properties).create_with_context(context);
            self.consumer = Some(made.map_err(|e| self.error(&e))?);
        }
        Ok(self.consumer.as_ref().expect("just made"))
    }

    /// Whether the consumer asks for the protocol in which the coordinator assigns, and says how long sessions are; librdkafka
    /// makes no consumer that says so too. Source: KIP-848; librdkafka 2.12.1, rdkafka_conf.c.
    fn is_assigned_by_coordinator(&self) -> bool {
        let last = self.config.properties.iter().rfind(|(name, _)| name == "group.protocol");
        last.is_some_and(|(_, protocol)| protocol == "consumer")
    }

    /// How long a member may not poll: librdkafka makes no consumer that may be silent for less than its session.
    fn max_poll_interval_ms(&self) -> u64 {
        let last = self.config.properties.iter().rfind(|(name, _)| name == "session.timeout.ms");
        let session_ms = last.and_then(|(_, ms)| ms.parse().ok()).unwrap_or(SESSION_TIMEOUT_MS);
        MAX_POLL_INTERVAL_MS.max(session_ms)
    }

    fn create_now(&mut self, keys: &[Key]) -> Result<(), LogError> {
        let admin: AdminClient<DefaultClientContext> =
            self.finish(self.properties()).create().map_err(|e| self.error(&e))?;
        let names: BTreeSet<String> = keys.iter().map(|key| self.config.topic_partition(*key).0).collect();
        let partitions = i32::try_from(self.config.partitions_per_topic).expect("a handful of partitions");
        let replicas = i32::from(self.config.replication_factor);
        let topics: Vec<NewTopic<'_>> = names
            .iter()
            .map(|name| NewTopic::new(name, partitions, TopicReplication::Fixed(replicas)))
            .collect();
        let options = AdminOptions::new()
            .operation_timeout(Some(CREATE_TIMEOUT))
            .request_timeout(Some(CREATE_TIMEOUT + ASK_TIMEOUT));
        let results = block_on(admin.create_topics(&topics, &options)).map_err(|e| self.error(&e))?;
        for result in results {
            match result {
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((_, code)) => return Err(self.error(&KafkaError::AdminOp(code))),
            }
        }
        Ok(())
    }

    fn send_now(&mut self, key: Key, value: Value) -> Result<Option<Offset>, LogError> {
        let (topic, partition) = self.config.topic_partition(key);
        let began = Instant::now();
        // In a transaction nothing depends on the report any more once it is to be aborted.
        let grace = if self.in_txn() { Duration::ZERO } else { REPORT_GRACE };
        let deadline = self.deadline() + grace;
        *self.report.lock().expect("no holder panics") = None;
        let payload = self.config.payload(value);
        let record: BaseRecord<'_, (), String> =
            BaseRecord::to(&topic).partition(partition).payload(&payload);
        if let Err((error, _)) = self.producer()?.send(record) {
            // It was never queued, so nothing was ever tried.
            return Err(LogError { definite: true, ..self.error(&error) });
        }
        self.doubt(true);
        loop {
            // With any other timeout it does not return before its time is over, whatever it meets, and spins through the
            // last millisecond: rdkafka 0.39, BaseProducer::poll.
            self.producer()?.poll(Duration::ZERO);
            let report = self.report.lock().expect("no holder panics").take();
            match report {
                Some(Ok(offset)) => {
                    self.doubt(false);
                    return Ok((offset.0 >= 0).then_some(offset));
                }
                Some(Err(code)) => return Err(self.not_sent(code)),
                None if self.config.life.is_over() => {
                    let message = "the client died while it waited for a delivery report".to_owned();
                    return Err(LogError { code: CLIENT_CRASHED.to_owned(), definite: false, message });
                }
                None if Instant::now() > deadline => {
                    let of = if self.in_txn() { " that the transaction had" } else { "" };
                    let message = format!("no delivery report within {:?}{of}", self.config.delivery_timeout);
                    return Err(LogError { code: "NO_DELIVERY_REPORT".to_owned(), definite: false, message });
                }
                None => {
                    std::thread::sleep(if began.elapsed() < SOON { REPORT_POLL } else { LATE_REPORT_POLL })
                }
            }
        }
    }

    /// Why a record was not sent. What made the producer useless says more than that it is.
    fn not_sent(&self, code: RDKafkaErrorCode) -> LogError {
        let fatal = self.producer.as_ref().and_then(|producer| producer.client().fatal_error());
        match fatal {
            Some((code, why)) => LogError { message: why, ..self.error(&KafkaError::Global(code)) },
            None => self.error(&KafkaError::MessageProduction(code)),
        }
    }

    fn poll_now(&mut self) -> Result<Polled, LogError> {
        let deadline = Instant::now() + self.config.poll_timeout;
        self.consumer()?;
        let mut polled = Polled { rebalance: std::mem::take(&mut self.parting), ..Polled::default() };
        let mut records = 0;
        while records < self.config.max_poll_records && !self.config.life.is_over() {
            let left = deadline.saturating_duration_since(Instant::now());
            // Once there is something, only what is there already is taken.
            let wait = if records == 0 { left } else { Duration::ZERO };
            let consumer = self.consumer.as_ref().expect("made above");
            let message = consumer.poll(wait);
            // A rebalance that this very call served happened before its message was delivered.
            let rebalance = std::mem::take(&mut *self.rebalance.lock().expect("no holder panics"));
            for event in &rebalance {
                for key in &event.keys {
                    if event.kind == Rebalance::ASSIGNED {
                        self.held.insert(*key, None);
                        self.given.insert(*key);
                    } else {
                        self.held.remove(key);
                        self.given.remove(key);
                    }
                }
            }
            polled.rebalance.extend(rebalance);
            match message {
                None if wait.is_zero() || records > 0 => break,
                None => {}
                Some(Ok(message)) => {
                    let Some(key) = self.config.key(message.topic(), message.partition()) else { continue };
                    let offset = Offset(message.offset());
                    let value = parse(message.payload());
                    self.held.insert(key, Some(Offset(offset.0 + 1)));
                    match polled.reads.iter_mut().find(|(k, _)| *k == key) {
                        Some((_, group)) => group.push((offset, value)),
                        None => polled.reads.push((key, vec![(offset, value)])),
                    }
                    records += 1;
                }
                // Lost connections come back by themselves; what matters is whether records arrive in time.
                Some(Err(error)) if is_connection_trouble(&error) => {}
                // Records that were delivered count; an error that lasts is met again by the next poll.
                Some(Err(_)) if records > 0 => break,
                Some(Err(error)) => {
                    // What the group gave and took is told all the same, by the next poll that ends well.
                    self.parting = polled.rebalance;
                    return Err(self.error(&error));
                }
            }
        }
        Ok(polled)
    }

    fn assign_now(&mut self, keys: &[Key], from_beginning: bool) -> Result<(), LogError> {
        let held: BTreeMap<Key, Option<Offset>> = keys
            .iter()
            .map(|key| (*key, self.held.get(key).copied().flatten().filter(|_| !from_beginning)))
            .collect();
        let list = self.list(held.iter().map(|(key, position)| {
            (*key, position.map_or(BEGINNING, |position| RdOffset::Offset(position.0)))
        }))?;
        if self.in_group || self.has_assigned {
            self.leave();
        }
        self.has_assigned = true;
        self.consumer()?.assign(&list).map_err(|e| self.error(&e))?;
        self.held = held;
        Ok(())
    }

    /// Throws the consumer away, and with it its membership of the group or the keys that it took by itself: the next one
    /// begins anew. librdkafka's consumer is not made for both ways in turn: when one leaves its group and assigns keys,
    /// the group's revocation is served by a later poll, and would take the new keys; when one subscribes, keys that it
    /// had assigned are read, and committed, until the group has given it others. Nor does it take a partition away and give
    /// it back, as one assignment after another does, and then let go of it, to assign again or to end: what is still
    /// stopping from the first time, which nobody is told, is stopped twice, and librdkafka ends the whole process
    /// (`rd_kafka_assignment_partition_stopped: Assertion rktp->rktp_started failed`).
    /// Source: librdkafka 2.12.1, rdkafka_cgrp.c, rd_kafka_cgrp_subscribe, rd_kafka_cgrp_unsubscribe; rdkafka_assignment.c,
    /// rd_kafka_assignment_serve_removals.
    fn leave(&mut self) {
        self.consumer = None;
        self.in_group = false;
        self.has_assigned = false;
        self.held.clear();
        self.given.clear();
        self.parting.append(&mut self.rebalance.lock().expect("no holder panics"));
    }

    fn subscribe_now(&mut self, keys: &[Key]) -> Result<(), LogError> {
        let topics: BTreeSet<String> = keys.iter().map(|key| self.config.topic_partition(*key).0).collect();
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        if !self.in_group {
            self.leave();
            self.in_group = true;
        }
        self.consumer()?.subscribe(&topics).map_err(|e| self.error(&e))
    }

    fn commit_offsets_now(&mut self) -> Result<Vec<(Key, Offset)>, LogError> {
        let given = self.held.iter().filter(|(key, _)| self.given.contains(key));
        let offsets: Vec<(Key, Offset)> =
            given.filter_map(|(key, position)| Some((*key, (*position)?))).collect();
        if offsets.is_empty() {
            return Ok(offsets);
        }
        if self.in_txn() {
            self.send_offsets(&offsets)?;
        } else {
            let list = self.list(offsets.iter().map(|(key, offset)| (*key, RdOffset::Offset(offset.0))))?;
            // An error, of any one partition, makes the whole an error, though the others' offsets may be committed.
            // Source: librdkafka 2.12.1, rdkafka_request.c, rd_kafka_handle_OffsetCommit.
            self.consumer()?.commit(&list, CommitMode::Sync).map_err(|e| self.error(&e))?;
        }
        Ok(offsets)
    }

    fn committed_now(&mut self, keys: &[Key]) -> Result<Committed, LogError> {
        let list = self.list(keys.iter().map(|key| (*key, RdOffset::Invalid)))?;
        let timeout = ask_timeout(&self.config);
        let told = self.consumer()?.committed_offsets(list, timeout);
        let told = told.map_err(|e| self.error(&e))?;
        let told = told.elements().into_iter().filter_map(|part| {
            let key = self.config.key(part.topic(), part.partition())?;
            Some(match (part.error(), part.offset()) {
                (Err(error), _) => Err(self.error(&error)),
                (Ok(()), RdOffset::Offset(offset)) => Ok((key, Some(Offset(offset)))),
                (Ok(()), _) => Ok((key, None)),
            })
        });
        told.collect()
    }

    fn progress_now(&mut self) -> Result<Vec<Progress>, LogError> {
        let timeout = ask_timeout(&self.config);
        // Unlike the last record that it read, this tells of control records and aborted ones that it has passed.
        let passed = self.consumer()?.position().map_err(|e| self.error(&e))?;
        let passed: BTreeMap<Key, Offset> = passed
            .elements()
            .into_iter()
            .filter_map(|part| match part.offset() {
                RdOffset::Offset(offset) => {
                    Some((self.config.key(part.topic(), part.partition())?, Offset(offset)))
                }
                _ => None,
            })
            .collect();
        let held = self.held.clone();
        held.into_iter()
            .map(|(key, read)| {
                let (topic, partition) = self.config.topic_partition(key);
                let watermarks = if self.sees_open_end() {
                    self.consumer()?.fetch_watermarks(&topic, partition, timeout)
                } else {
                    self.observer()?.fetch_watermarks(&topic, partition, timeout)
                };
                let (begin, end) = watermarks.map_err(|e| self.error(&e))?;
                let position = read.max(passed.get(&key).copied()).unwrap_or(Offset(begin));
                Ok(Progress { key, position, end: Offset(end) })
            })
            .collect()
    }

    /// Whether the end that the consumer is told is that of the log: read_committed, it is that of what comes before the
    /// first transaction that is open.
    fn sees_open_end(&self) -> bool {
        self.config.transactional_id.is_none() || self.config.isolation == Isolation::ReadUncommitted
    }

    fn observer(&mut self) -> Result<&BaseConsumer, LogError> {
        if self.observer.is_none() {
            let mut properties = self.properties();
            properties.set("group.id", &self.config.group_id).set("isolation.level", "read_uncommitted");
            self.observer = Some(self.finish(properties).create().map_err(|e| self.error(&e))?);
        }
        Ok(self.observer.as_ref().expect("just made"))
    }

    fn list(&self, keys: impl Iterator<Item = (Key, RdOffset)>) -> Result<TopicPartitionList, LogError> {
        let mut list = TopicPartitionList::new();
        for (key, offset) in keys {
            let (topic, partition) = self.config.topic_partition(key);
            list.add_partition_offset(&topic, partition, offset).map_err(|e| self.error(&e))?;
        }
        Ok(list)
    }
}

impl Drop for KafkaLog {
    /// One that has died leaves no group: its coordinator misses it when its session is over.
    fn drop(&mut self) {
        if self.in_group
            && self.config.life.is_over()
            && let Some(consumer) = self.consumer.take()
        {
            crash::without_goodbye(consumer);
        }
    }
}

impl Log for KafkaLog {
    fn create<'a>(&'a mut self, keys: &'a [Key]) -> LocalFuture<'a, Result<(), LogError>> {
        Box::pin(ready(self.create_now(keys)))
    }
    fn send(&mut self, key: Key, value: Value) -> LocalFuture<'_, Result<Option<Offset>, LogError>> {
        Box::pin(ready(self.send_now(key, value)))
    }
    fn poll(&mut self) -> LocalFuture<'_, Result<Polled, LogError>> {
        Box::pin(ready(self.poll_now()))
    }
    fn assign<'a>(
        &'a mut self,
        keys: &'a [Key],
        from_beginning: bool,
    ) -> LocalFuture<'a, Result<(), LogError>> {
        Box::pin(ready(self.assign_now(keys, from_beginning)))
    }
    fn subscribe<'a>(&'a mut self, keys: &'a [Key]) -> LocalFuture<'a, Result<(), LogError>> {
        Box::pin(ready(self.subscribe_now(keys)))
    }
    fn begin(&mut self) -> LocalFuture<'_, Result<(), LogError>> {
        Box::pin(ready(self.begin_now()))
    }
    fn commit(&mut self) -> LocalFuture<'_, Result<(), LogError>> {
        Box::pin(ready(self.commit_now()))
    }
    fn abort(&mut self) -> LocalFuture<'_, Result<(), LogError>> {
        Box::pin(ready(self.abort_now()))
    }
    fn commit_offsets(&mut self) -> LocalFuture<'_, Result<Vec<(Key, Offset)>, LogError>> {
        Box::pin(ready(self.commit_offsets_now()))
    }
    fn committed<'a>(&'a mut self, keys: &'a [Key]) -> LocalFuture<'a, Result<Committed, LogError>> {
        Box::pin(ready(self.committed_now(keys)))
    }
    fn progress(&mut self) -> LocalFuture<'_, Result<Vec<Progress>, LogError>> {
        Box::pin(ready(self.progress_now()))
    }
}

/// A question is given up on before its op is, which then certainly failed: no longer than a record that is sent.
fn ask_timeout(config: &ClientConfig) -> Duration {
    ASK_TIMEOUT.min(config.delivery_timeout)
}

/// What was sent, read back. Whatever else stands in a record was not sent by riprap: a value that no workload uses
/// makes the checker say so.
pub(crate) fn parse(payload: Option<&[u8]>) -> Value {
    match payload {
        None => Value::NIL,
        Some(bytes) => {
            let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
            number.map_or(Value(-1), Value)
        }
    }
}

/// The name of an error as Kafka and librdkafka write it: `MessageTimedOut` is `MESSAGE_TIMED_OUT`.
fn code_name(code: RDKafkaErrorCode) -> String {
    let (mut name, mut after_lowercase) = (String::new(), false);
    for c in format!("{code:?}").chars() {
        if c.is_ascii_uppercase() && after_lowercase {
            name.push('_');
        }
        after_lowercase = c.is_ascii_lowercase();
        name.push(c.to_ascii_uppercase());
    }
    name
}

/// Whether an error only says that a connection is gone, that nothing is there yet, or that the consumer left its group
/// since it had not polled for long, to which it goes back with this poll.
fn is_connection_trouble(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{
        AllBrokersDown, BrokerTransportFailure, OperationTimedOut, PollExceeded, Resolve, UnknownPartition,
        UnknownTopic, UnknownTopicOrPartition,
    };
    match error.rdkafka_error_code() {
        // A topic that was just made is not known everywhere at once; librdkafka goes on asking.
        Some(UnknownTopicOrPartition | UnknownTopic | UnknownPartition) => true,
        Some(AllBrokersDown | BrokerTransportFailure | OperationTimedOut | PollExceeded | Resolve) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_have_kafkas_names() {
        for (code, name) in [
            (RDKafkaErrorCode::MessageTimedOut, "MESSAGE_TIMED_OUT"),
            (RDKafkaErrorCode::NotLeaderForPartition, "NOT_LEADER_FOR_PARTITION"),
            (RDKafkaErrorCode::OutOfOrderSequenceNumber, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        ] {
            assert_eq!(code_name(code), name);
        }
    }

    #[test]
    fn properties_are_known_and_take_their_values() {
        let check = |name: &str, value: &str, expected: Result<(), &str>| {
            let told = validate(&[(name.to_owned(), value.to_owned())]);
            assert_eq!(told.as_ref().copied().map_err(String::as_str), expected);
        };
        check("linger.ms", "5", Ok(()));
        check(
            "no.such",
            "1",
            Err(
                "setting `client.no.such` is `1`; librdkafka says: No such configuration property: \"no.such\"",
            ),
        );
        check(
            "socket.timeout.ms",
            "x",
            Err(
                "setting `client.socket.timeout.ms` is `x`; librdkafka says: Invalid value for configuration property \"socket.timeout.ms\"",
            ),
        );
    }

    /// librdkafka makes no consumer whose properties exclude each other.
    #[test]
    fn consumers_are_made_for_every_group_protocol() {
        let check = |name: &str, value: &str| {
            let config = ClientConfig {
                client_id: "c".to_owned(),
                bootstrap: vec!["127.0.0.1:1".to_owned()],
                acks: "all".to_owned(),
                idempotence: true,
                transactional_id: None,
                isolation: Isolation::ReadCommitted,
                group_id: "g".to_owned(),
                topic_prefix: "t".to_owned(),
                partitions_per_topic: 1,
                replication_factor: 1,
                value_bytes: 1,
                delivery_timeout: SOCKET_TIMEOUT,
                poll_timeout: Duration::ZERO,
                max_poll_records: 1,
                properties: vec![(name.to_owned(), value.to_owned())],
                log: Default::default(),
                life: Default::default(),
            };
            let mut log = KafkaLog::new(config, &[]);
            let made = log.consumer().map(drop);
            assert_eq!(made, Ok(()), "{name}={value}");
        };
        check("group.protocol", "classic");
        check("group.protocol", "consumer");
        check("partition.assignment.strategy", "cooperative-sticky");
        check("session.timeout.ms", "45000");
    }

    #[test]
    fn foreign_payloads_are_not_mistaken_for_values() {
        assert_eq!(parse(Some(b"17")), Value(17));
        assert_eq!(parse(None), Value::NIL);
        assert_eq!(parse(Some(b"17x")), Value(-1));
        assert_eq!(parse(Some(&[0xff])), Value(-1));
    }
}
