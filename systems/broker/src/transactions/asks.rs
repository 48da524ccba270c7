//! Before a partition takes the first record of a transaction, its leader asks the transaction's coordinator. For a
//! producer that has told the coordinator of the partition it asks whether it has ([`Mode::Verify`]), otherwise it does so
//! in its place ([`Mode::Add`]). Else a record that comes late would open a transaction that nobody ends.
//!
//! The request waits meanwhile. When the answers are there it is worked on from the start: a partition is then taken as
//! answered only if nothing of the producer came to its log since it was asked about. A marker may have overtaken the
//! answer, which was about a transaction that is over.
//!
//! Asks for other brokers are gathered: one request to each is on its way, and takes with it what has come by then.
//!
//! Source: KIP-890; Kafka's AddPartitionsToTxnManager, VerificationGuard.

mod asked;

use super::{NS_PER_MS, PendingTxnRequest};
use crate::connection::ReplyTo;
use crate::ids::{BrokerId, LeaderEpoch, PartitionKey};
use crate::node::{Call, Cx, Running};
use crate::peers::{LinkId, Purpose};
use crate::txn::{Producer, TopicPartition};
use asked::Batch;
use bytes::Bytes;
use riprap_env::{ConnId, log};
use riprap_protocol::ErrorCode;
use riprap_protocol::frame::decode_response;
use riprap_protocol::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnRequestTopic, AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponsePartition, AddPartitionsToTxnResponseTopic, ProduceRequest,
    TxnOffsetCommitRequest,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How long a leader goes on asking before it sends its client to try again: a coordinator that moved is found within
/// a second or two, and clients ask again after a pause.
pub(crate) const ASK_FOR_NS: u64 = 1000 * NS_PER_MS;

/// The pause before a coordinator is asked again. The end of the transaction before takes a few milliseconds.
const RETRY_NS: u64 = 10 * NS_PER_MS;

/// Most asks in one request.
const MAX_ASKS_PER_REQUEST: usize = 256;

/// The version in which brokers ask each other: the first that knows TRANSACTION_ABORTABLE.
const VERSION: i16 = 5;

/// What a leader wants of the coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Whether the producer added the partition.
    Verify,
    /// The partition is to be added.
    Add,
}

/// What a log knew of a producer when its transaction was asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    pub(crate) key: PartitionKey,
    pub(crate) epoch: LeaderEpoch,
    pub(crate) last_offset: Option<i64>,
}

/// A request that waits for coordinators' answers.
#[derive(Debug)]
pub(crate) enum Unverified {
    Produce(ProduceRequest),
    Commit(TxnOffsetCommitRequest),
}

impl Unverified {
    fn transactional_id(&self) -> &str {
        match self {
            Unverified::Produce(request) => request.transactional_id.as_deref().unwrap_or_default(),
            Unverified::Commit(request) => &request.transactional_id,
        }
    }

    /// A producer of the newer versions leaves it to the leader to add partitions. Source: KIP-890.
    fn mode(&self, version: i16) -> Mode {
        let adds_since = match self {
            Unverified::Produce(_) => 12,
            Unverified::Commit(_) => 5,
        };
        if version >= adds_since { Mode::Add } else { Mode::Verify }
    }
}

/// What a request that waits knows.
#[derive(Debug)]
struct Waiting {
    to: ReplyTo,
    request: Unverified,
    deadline_ns: u64,
    asked: BTreeMap<TopicPartition, Asked>,
    verdicts: BTreeMap<TopicPartition, ErrorCode>,
    asks_left: usize,
}

/// What coordinators said of the partitions of a request, to be looked at when it is worked on.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    /// Until when the coordinator may be asked again; none if it was not asked.
    pub(crate) deadline_ns: Option<u64>,
    asked: BTreeMap<TopicPartition, Asked>,
    verdicts: BTreeMap<TopicPartition, ErrorCode>,
}

impl Verdicts {
    /// What was said of a partition, if its log is as it was when that was asked.
    pub(crate) fn of(&self, partition: &TopicPartition, now: Asked) -> Option<ErrorCode> {
        let code = *self.verdicts.get(partition)?;
        (self.asked.get(partition) == Some(&now)).then_some(code)
    }
}

#[derive(Debug)]
struct Ask {
    waiter: u64,
    transactional_id: String,
    producer: Producer,
    partitions: BTreeSet<TopicPartition>,
    mode: Mode,
    deadline_ns: u64,
    /// When to ask; none while an answer is to come.
    due_at_ns: Option<u64>,
    last_code: ErrorCode,
}

/// What this broker asks and is asked.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    waiting: BTreeMap<u64, Waiting>,
    asks: BTreeMap<u64, Ask>,
    queues: BTreeMap<BrokerId, VecDeque<u64>>,
    batches: BTreeMap<u64, Batch>,
    last_id: u64,
    /// Requests of which all is answered.
    ready: Vec<u64>,
}

impl Asks {
    pub(super) fn forget(&mut self, conn: ConnId) {
        let gone: Vec<u64> =
            self.waiting.iter().filter(|(_, waiting)| waiting.to.conn == conn).map(|(id, _)| *id).collect();
        for id in gone {
            self.waiting.remove(&id);
            self.asks.retain(|_, ask| ask.waiter != id);
        }
        self.batches.retain(|_, batch| batch.to.conn != conn);
    }

    pub(super) fn are_empty(&self) -> bool {
        self.asks.is_empty() && self.waiting.is_empty() && self.queues.is_empty() && self.ready.is_empty()
    }

    pub(super) fn wake_at_ns(&self) -> Option<u64> {
        let due = |ask: &Ask| ask.due_at_ns.map_or(ask.deadline_ns, |at| at.min(ask.deadline_ns));
        self.asks.values().map(due).min()
    }

    fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}

/// Whether a coordinator's answer, or that there is none, may be otherwise in a moment.
pub(crate) fn is_passing(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::CONCURRENT_TRANSACTIONS
            | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::NETWORK_EXCEPTION
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    )
}

/// Whether the leader asks again by itself. That the end of a transaction is on its way is for a producer that adds
/// partitions itself the end of this one, for it has waited for the one before.
fn is_worth_another(mode: Mode, code: ErrorCode) -> bool {
    is_passing(code) && (mode == Mode::Add || code != ErrorCode::CONCURRENT_TRANSACTIONS)
}

impl Running {
    /// Lets a request wait for what coordinators say of its partitions, by producer.
    pub(crate) fn ask_coordinator(
        &mut self,
        to: ReplyTo,
        request: Unverified,
        about: BTreeMap<Producer, BTreeMap<TopicPartition, Asked>>,
        verdicts: Verdicts,
        now_ns: u64,
    ) {
        let deadline_ns = verdicts.deadline_ns.unwrap_or(now_ns + ASK_FOR_NS);
        let (id_of_all, mode) = (request.transactional_id().to_owned(), request.mode(to.api_version));
        let asks = &mut self.transactions.asks;
        let waiter = asks.new_id();
        let asks_left = about.len();
        let mut asked = verdicts.asked;
        for (producer, partitions) in about {
            let id = asks.new_id();
            asks.asks.insert(
                id,
                Ask {
                    waiter,
                    transactional_id: id_of_all.clone(),
                    producer,
                    partitions: partitions.keys().cloned().collect(),
                    mode,
                    deadline_ns,
                    due_at_ns: Some(now_ns),
                    last_code: ErrorCode::NETWORK_EXCEPTION,
                },
            );
            asked.extend(partitions);
        }
        let verdicts = verdicts.verdicts;
        asks.waiting.insert(waiter, Waiting { to, request, deadline_ns, asked, verdicts, asks_left });
        self.transactions.is_due = true;
    }

    /// Asks what is due, gives up what is too old, and goes on with the requests that have their answers.
    pub(super) fn settle_asks(&mut self, cx: &mut Cx<'_>) {
        let asks = &self.transactions.asks.asks;
        let is_due = |ask: &Ask| ask.due_at_ns.is_some_and(|at| at <= cx.now_ns);
        let due: Vec<u64> = asks.iter().filter(|(_, ask)| is_due(ask)).map(|(id, _)| *id).collect();
        let late: Vec<u64> =
            asks.iter().filter(|(_, ask)| ask.deadline_ns <= cx.now_ns).map(|(id, _)| *id).collect();
        for id in late {
            let code = self.transactions.asks.asks.get(&id).map(|ask| ask.last_code);
            self.ask_is_over(id, &|_| code.unwrap_or(ErrorCode::NETWORK_EXCEPTION));
        }
        for id in due {
            self.ask(id, cx);
        }
        self.send_asks(cx);
        for waiter in std::mem::take(&mut self.transactions.asks.ready) {
            let Some(waiting) = self.transactions.asks.waiting.remove(&waiter) else { continue };
            let Waiting { to, request, deadline_ns, asked, verdicts, .. } = waiting;
            let verdicts = Verdicts { deadline_ns: Some(deadline_ns), asked, verdicts };
            match request {
                Unverified::Produce(request) => self.produce(to, request, verdicts, cx),
                Unverified::Commit(request) => self.commit_in_transaction(to, request, verdicts, cx),
            }
            self.transactions.is_due = true;
        }
    }

    /// Asks the coordinator, here or elsewhere.
    fn ask(&mut self, id: u64, cx: &mut Cx<'_>) {
        let now_ns = cx.now_ns;
        let Some(ask) = self.transactions.asks.asks.get_mut(&id) else { return };
        ask.due_at_ns = None;
        let (transactional_id, producer, mode) = (ask.transactional_id.clone(), ask.producer, ask.mode);
        let partitions = ask.partitions.clone();
        let key = self.transactions_partition(&transactional_id);
        let leader = key.and_then(|key| self.quorum.image().partition(key)?.state.leader);
        match leader {
            None => self.ask_answered(id, &|_| ErrorCode::COORDINATOR_NOT_AVAILABLE, now_ns),
            Some(leader) if leader == self.config.id => match mode {
                Mode::Verify => {
                    let codes = self.verify_here(&transactional_id, producer, &partitions, now_ns);
                    self.ask_answered(id, &|partition| codes[partition], now_ns);
                }
                Mode::Add => {
                    self.add_here(PendingTxnRequest::Ask(id), &transactional_id, producer, &partitions, cx);
                }
            },
            Some(leader) => self.transactions.asks.queues.entry(leader).or_default().push_back(id),
        }
    }

    /// The coordinator has answered; or is not there to be asked.
    pub(super) fn ask_answered(
        &mut self,
        id: u64,
        code_of: &dyn Fn(&TopicPartition) -> ErrorCode,
        now_ns: u64,
    ) {
        let Some(ask) = self.transactions.asks.asks.get_mut(&id) else { return };
        let again = ask.partitions.iter().map(code_of).find(|code| is_worth_another(ask.mode, *code));
        match again {
            Some(code) if now_ns + RETRY_NS < ask.deadline_ns => {
                ask.last_code = code;
                ask.due_at_ns = Some(now_ns + RETRY_NS);
            }
            _ => self.ask_is_over(id, code_of),
        }
    }

    fn ask_is_over(&mut self, id: u64, code_of: &dyn Fn(&TopicPartition) -> ErrorCode) {
        let asks = &mut self.transactions.asks;
        let Some(ask) = asks.asks.remove(&id) else { return };
        let Some(waiting) = asks.waiting.get_mut(&ask.waiter) else { return };
        for partition in ask.partitions {
            let code = code_of(&partition);
            waiting.verdicts.insert(partition, code);
        }
        waiting.asks_left -= 1;
        if waiting.asks_left == 0 {
            asks.ready.push(ask.waiter);
            self.transactions.is_due = true;
        }
    }

    fn send_asks(&mut self, cx: &mut Cx<'_>) {
        let brokers: Vec<BrokerId> = self.transactions.asks.queues.keys().copied().collect();
        for broker in brokers {
            let link = LinkId { to: broker, purpose: Purpose::Transactions };
            let asks = &mut self.transactions.asks;
            let Some(queue) = asks.queues.get_mut(&broker) else { continue };
            if !self.peers.is_up(link) || self.peers.in_flight(link).next().is_some() {
                // What nobody waits for any more does not pile up meanwhile.
                queue.retain(|id| asks.asks.contains_key(id));
                continue;
            }
            let mut ids = Vec::new();
            let mut body = AddPartitionsToTxnRequest::default();
            while ids.len() < MAX_ASKS_PER_REQUEST
                && let Some(id) = queue.pop_front()
            {
                // Those that are over by now are not asked about.
                let Some(ask) = asks.asks.get(&id) else { continue };
                ids.push(id);
                body.transactions.push(AddPartitionsToTxnRequestTransaction {
                    transactional_id: ask.transactional_id.clone(),
                    producer_id: ask.producer.id,
                    producer_epoch: ask.producer.epoch,
                    verify_only: ask.mode == Mode::Verify,
                    topics: by_topic(&ask.partitions),
                });
            }
            if queue.is_empty() {
                asks.queues.remove(&broker);
            }
            if ids.is_empty() {
                continue;
            }
            let deadline_ns = cx.now_ns + self.config.peer_timeout_ms * NS_PER_MS;
            let call = Call::AskCoordinator { asks: ids };
            if let Err(Call::AskCoordinator { asks }) =
                self.peers.send(link, VERSION, &body, call, deadline_ns, cx.effects)
            {
                self.asks_lost(&asks, cx.now_ns);
            }
        }
    }

    /// Another broker answered what this one asked it as the coordinator.
    pub(crate) fn asks_answered(&mut self, ids: &[u64], frame: Bytes, cx: &mut Cx<'_>) {
        let response = match decode_response::<AddPartitionsToTxnRequest>(frame, VERSION) {
            Ok((_, response)) if response.error_code.is_none() => response,
            Ok(_) => return self.asks_lost(ids, cx.now_ns),
            Err(e) => {
                log!(cx.env, Warn, "cannot read the answer of a coordinator of transactions: {e}");
                return self.asks_lost(ids, cx.now_ns);
            }
        };
        for (at, id) in ids.iter().enumerate() {
            let answer = response.results_by_transaction.get(at);
            let mut codes = BTreeMap::new();
            for topic in answer.into_iter().flat_map(|answer| &answer.topic_results) {
                for partition in &topic.results_by_partition {
                    let name = TopicPartition { topic: topic.name.clone(), index: partition.index };
                    codes.insert(name, partition.error_code);
                }
            }
            let code_of = |partition: &TopicPartition| {
                codes.get(partition).copied().unwrap_or(ErrorCode::NETWORK_EXCEPTION)
            };
            self.ask_answered(*id, &code_of, cx.now_ns);
        }
    }

    /// They will not be answered, and may have been understood.
    pub(crate) fn asks_lost(&mut self, ids: &[u64], now_ns: u64) {
        for id in ids {
            self.ask_answered(*id, &|_| ErrorCode::NETWORK_EXCEPTION, now_ns);
        }
    }
}

/// The partitions that a request names.
pub(crate) fn partitions_of(topics: &[AddPartitionsToTxnRequestTopic]) -> BTreeSet<TopicPartition> {
    let of = |topic: &AddPartitionsToTxnRequestTopic| {
        let name = topic.name.clone();
        topic.partitions.clone().into_iter().map(move |index| TopicPartition { topic: name.clone(), index })
    };
    topics.iter().flat_map(of).collect()
}

fn by_topic(partitions: &BTreeSet<TopicPartition>) -> Vec<AddPartitionsToTxnRequestTopic> {
    let mut topics: Vec<AddPartitionsToTxnRequestTopic> = Vec::new();
    for TopicPartition { topic, index } in partitions {
        match topics.last_mut().filter(|last| last.name == *topic) {
            Some(last) => last.partitions.push(*index),
            None => {
                topics.push(AddPartitionsToTxnRequestTopic { name: topic.clone(), partitions: vec![*index] })
            }
        }
    }
    topics
}

/// An answer about the partitions that a request names.
pub(crate) fn results(
    topics: &[AddPartitionsToTxnRequestTopic],
    code_of: &dyn Fn(&str, i32) -> ErrorCode,
) -> Vec<AddPartitionsToTxnResponseTopic> {
    let of = |topic: &AddPartitionsToTxnRequestTopic| {
        let result = |index: &i32| AddPartitionsToTxnResponsePartition {
            index: *index,
            error_code: code_of(&topic.name, *index),
        };
        AddPartitionsToTxnResponseTopic {
            name: topic.name.clone(),
            results_by_partition: topic.partitions.iter().map(result).collect(),
        }
    };
    topics.iter().map(of).collect()
}
