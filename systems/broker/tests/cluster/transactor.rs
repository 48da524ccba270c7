//! A transactional producer, its group's offsets with it, and a reader of what is committed.
//!
//! A transaction writes a few values into one or both partitions of a topic of its own and commits its number as its
//! group's offset. One that gives up, be it because it was told so or of its own, begins anew under its id, which ends what
//! it left open: from then on it is decided, and the group's offset says how.

use crate::clients::{Io, Leaders, PARTITIONS, Work};
use crate::history::{History, Outcome};
use crate::wire::Done;
use bytes::Bytes;
use riprap_protocol::ErrorCode;
use riprap_protocol::frame::decode_response;
use riprap_protocol::messages::*;
use riprap_protocol::records::{BatchBuilder, split_batches};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub(crate) const TRANSACTIONS_TOPIC: &str = "x";

/// How long a transaction may be open.
const TIMEOUT_MS: i32 = 5000;

/// The pause after something was not answered as hoped.
const RETRY_NS: u64 = 50_000_000;

/// A transactor leaves everything and begins anew after one in so many steps.
const GIVES_UP_ONE_IN: u64 = 60;

/// How it speaks with its coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Speaks {
    /// It adds partitions, and has one epoch for all transactions.
    Old,
    /// Leaders add partitions, and each end raises the epoch.
    New,
}

struct Transaction {
    number: usize,
    parts: Vec<(i32, Vec<u64>)>,
    commits: bool,
    /// What it is at: adds partitions, writes part after part, adds and commits offsets, ends.
    step: Step,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Add,
    Write(usize),
    AddOffsets,
    Commit,
    End,
}

pub(crate) enum TransactorCall {
    Topic,
    Metadata,
    FindCoordinator,
    FindGroup,
    Init,
    Add,
    Write { partition: i32 },
    AddOffsets,
    Commit,
    End,
    Offset,
}

pub(crate) struct Transactor {
    speaks: Speaks,
    id: String,
    makes_topic: bool,
    history: Rc<RefCell<History>>,
    leaders: Leaders,
    coordinator: Option<i32>,
    group_coordinator: Option<i32>,
    producer: Option<(i64, i16)>,
    sequences: BTreeMap<i32, i32>,
    open: Option<Transaction>,
    /// The offset that its group has for sure, and the transactions that may have changed it.
    committed: i64,
    in_doubt: Vec<usize>,
    has_to_look: bool,
    is_busy: bool,
    pause_until_ns: u64,
}

/// Errors after which the same request may be right.
fn comes_again(code: ErrorCode) -> bool {
    code.is_retriable() || code == ErrorCode::CONCURRENT_TRANSACTIONS
}

impl Transactor {
    pub(crate) fn new(
        speaks: Speaks,
        id: &str,
        makes_topic: bool,
        history: &Rc<RefCell<History>>,
    ) -> Transactor {
        history.borrow_mut().unfinished += 1;
        Transactor {
            speaks,
            id: id.to_owned(),
            makes_topic,
            history: history.clone(),
            leaders: Leaders::of(TRANSACTIONS_TOPIC),
            coordinator: None,
            group_coordinator: None,
            producer: None,
            sequences: BTreeMap::new(),
            open: None,
            committed: -1,
            in_doubt: Vec::new(),
            has_to_look: false,
            is_busy: false,
            pause_until_ns: 0,
        }
    }

    fn begin(&mut self, io: &mut Io<'_, TransactorCall>) {
        let mut history = self.history.borrow_mut();
        let both = io.draws.next_u64("partitions").is_multiple_of(2);
        let one = (io.draws.next_u64("partition") % PARTITIONS as u64) as i32;
        let partitions = if both { (0..PARTITIONS).collect() } else { vec![one] };
        let mut parts = Vec::new();
        for partition in partitions {
            let count = 1 + io.draws.next_u64("count") % 3;
            parts.push((partition, (0..count).map(|_| history.new_value()).collect::<Vec<u64>>()));
        }
        let commits = !io.draws.next_u64("commits").is_multiple_of(3);
        let number = history.transactions.len();
        let values = parts.iter().flat_map(|(p, values)| values.iter().map(|value| (*p, *value)));
        history.transactions.push((values.collect(), Outcome::Open));
        let step = if self.speaks == Speaks::Old { Step::Add } else { Step::Write(0) };
        self.open = Some(Transaction { number, parts, commits, step });
    }

    /// Leaves what is open to whoever has its id next.
    fn give_up(&mut self) {
        self.producer = None;
        let Some(open) = self.open.take() else { return };
        if open.commits && open.step == Step::End {
            self.in_doubt.push(open.number);
        } else {
            self.history.borrow_mut().transactions[open.number].1 = Outcome::Aborted;
        }
    }

    fn next_step(&mut self, step: Step) {
        if let Some(open) = &mut self.open {
            open.step = step;
        }
    }

    fn after_write(&mut self, at: usize) {
        let parts = self.open.as_ref().map_or(0, |open| open.parts.len());
        self.next_step(match (at + 1 < parts, self.speaks) {
            (true, _) => Step::Write(at + 1),
            (false, Speaks::Old) => Step::AddOffsets,
            (false, Speaks::New) => Step::Commit,
        });
    }

    /// An answer that is none, or an error. Says whether the request was right.
    fn is_right(&mut self, now_ns: u64, code: Option<ErrorCode>, is_of_group: bool) -> bool {
        match code {
            Some(ErrorCode::NONE) => return true,
            Some(code) if !comes_again(code) => self.give_up(),
            Some(ErrorCode::CONCURRENT_TRANSACTIONS) => {}
            _ if is_of_group => self.group_coordinator = None,
            _ => self.coordinator = None,
        }
        self.pause_until_ns = now_ns + RETRY_NS;
        false
    }

    fn ask(&mut self, io: &mut Io<'_, TransactorCall>) {
        let Some(coordinator) = self.coordinator else {
            return self.find(io, 1, TransactorCall::FindCoordinator);
        };
        let Some(group) = self.group_coordinator else {
            return self.find(io, 0, TransactorCall::FindGroup);
        };
        let Some((producer_id, producer_epoch)) = self.producer else {
            let body = InitProducerIdRequest {
                transactional_id: Some(self.id.clone()),
                transaction_timeout_ms: TIMEOUT_MS,
                ..Default::default()
            };
            self.is_busy = io.send(coordinator, 4, &body, TransactorCall::Init);
            return;
        };
        if self.has_to_look {
            let topics =
                vec![OffsetFetchRequestTopic { name: TRANSACTIONS_TOPIC.to_owned(), partitions: vec![0] }];
            let body = OffsetFetchRequest {
                group_id: self.id.clone(),
                topics: Some(topics),
                require_stable: true,
                ..Default::default()
            };
            self.is_busy = io.send(group, 7, &body, TransactorCall::Offset);
            return;
        }
        let Some(open) = &self.open else {
            let mut history = self.history.borrow_mut();
            if history.is_draining {
                self.pause_until_ns = u64::MAX;
                history.unfinished -= 1;
                return;
            }
            drop(history);
            return self.begin(io);
        };
        if io.draws.next_u64("gives up").is_multiple_of(GIVES_UP_ONE_IN) {
            return self.give_up();
        }
        let transactional_id = self.id.clone();
        let is_new = self.speaks == Speaks::New;
        self.is_busy = match open.step {
            Step::Add => {
                let partitions = open.parts.iter().map(|(partition, _)| *partition).collect();
                let topic =
                    AddPartitionsToTxnRequestTopic { name: TRANSACTIONS_TOPIC.to_owned(), partitions };
                let body = AddPartitionsToTxnRequest {
                    transactional_id,
                    producer_id,
                    producer_epoch,
                    topics: vec![topic],
                    ..Default::default()
                };
                io.send(coordinator, 3, &body, TransactorCall::Add)
            }
            Step::Write(at) => {
                let (partition, values) = &open.parts[at];
                let Some((leader, _)) = self.leaders.get(*partition) else { return };
                let sequence = *self.sequences.get(partition).unwrap_or(&0);
                let mut batch =
                    BatchBuilder::new().transactional().producer(producer_id, producer_epoch, sequence);
                for value in values {
                    batch = batch.record(0, None, Some(&value.to_be_bytes()));
                }
                let data = ProduceRequestPartition { index: *partition, records: Some(batch.build()) };
                let topic =
                    ProduceRequestTopic { name: TRANSACTIONS_TOPIC.to_owned(), partitions: vec![data] };
                let body = ProduceRequest {
                    transactional_id: Some(transactional_id),
                    acks: -1,
                    timeout_ms: 1500,
                    topics: vec![topic],
                };
                let call = TransactorCall::Write { partition: *partition };
                io.send(leader, if is_new { 12 } else { 9 }, &body, call)
            }
            Step::AddOffsets => {
                let body = AddOffsetsToTxnRequest {
                    transactional_id,
                    producer_id,
                    producer_epoch,
                    group_id: self.id.clone(),
                };
                io.send(coordinator, 3, &body, TransactorCall::AddOffsets)
            }
            Step::Commit => {
                let partition = TxnOffsetCommitRequestPartition {
                    committed_offset: open.number as i64,
                    ..Default::default()
                };
                let topic = TxnOffsetCommitRequestTopic {
                    name: TRANSACTIONS_TOPIC.to_owned(),
                    partitions: vec![partition],
                };
                let body = TxnOffsetCommitRequest {
                    transactional_id,
                    group_id: self.id.clone(),
                    producer_id,
                    producer_epoch,
                    topics: vec![topic],
                    ..Default::default()
                };
                io.send(group, if is_new { 5 } else { 3 }, &body, TransactorCall::Commit)
            }
            Step::End => {
                let committed = open.commits;
                let body = EndTxnRequest { transactional_id, producer_id, producer_epoch, committed };
                io.send(coordinator, if is_new { 5 } else { 1 }, &body, TransactorCall::End)
            }
        };
        if !self.is_busy {
            self.pause_until_ns = io.now_ns + RETRY_NS;
            self.leaders.doubt();
            (self.coordinator, self.group_coordinator) = (None, None);
        }
    }

    fn find(&mut self, io: &mut Io<'_, TransactorCall>, key_type: i8, call: TransactorCall) {
        let body = FindCoordinatorRequest { key: self.id.clone(), key_type, ..Default::default() };
        let to = io.any_broker();
        self.is_busy = io.send(to, 3, &body, call);
        self.pause_until_ns = io.now_ns + RETRY_NS;
    }

    fn ended(&mut self, response: &EndTxnResponse) {
        let Some(open) = self.open.take() else { return };
        if self.speaks == Speaks::New {
            self.producer = Some((response.producer_id, response.producer_epoch));
            self.sequences.clear();
        }
        let mut history = self.history.borrow_mut();
        let outcome = if open.commits { Outcome::Committed } else { Outcome::Aborted };
        history.transactions[open.number].1 = outcome;
        history.transactions_ended += 1;
        if open.commits {
            self.committed = open.number as i64;
        }
        self.has_to_look = true;
    }

    /// The group's offset, with nothing pending: what was in doubt is decided.
    fn looked(&mut self, offset: i64) {
        let mut history = self.history.borrow_mut();
        let in_doubt = std::mem::take(&mut self.in_doubt);
        let is_known = offset == self.committed || in_doubt.iter().any(|number| *number as i64 == offset);
        if !is_known {
            let (id, committed) = (&self.id, self.committed);
            history.violation(format!(
                "{id}: transaction {committed} committed its number last, {offset} is fetched; in doubt: {in_doubt:?}"
            ));
        }
        for number in in_doubt {
            let outcome = if number as i64 == offset { Outcome::Committed } else { Outcome::Aborted };
            history.transactions[number].1 = outcome;
        }
        self.committed = offset;
        self.has_to_look = false;
    }
}

fn read<R: riprap_protocol::Request>(frame: Option<Bytes>, version: i16) -> Option<R::Response> {
    frame.map(|frame| decode_response::<R>(frame, version).expect("brokers answer well").1)
}

impl Work for Transactor {
    type Call = TransactorCall;

    fn tick(&mut self, io: &mut Io<'_, TransactorCall>) {
        if self.is_busy || self.pause_until_ns > io.now_ns || !self.history.borrow().topic_is_made {
            return;
        }
        if self.makes_topic {
            let topic = CreateTopicsRequestTopic {
                name: TRANSACTIONS_TOPIC.to_owned(),
                num_partitions: PARTITIONS,
                replication_factor: 3,
                ..Default::default()
            };
            let body = CreateTopicsRequest { topics: vec![topic], timeout_ms: 2000, validate_only: false };
            let to = io.any_broker();
            self.is_busy = io.send(to, 7, &body, TransactorCall::Topic);
        } else if self.leaders.is_due(io.now_ns) {
            self.leaders.ask(io, TransactorCall::Metadata);
        } else {
            self.ask(io);
        }
    }

    fn done(&mut self, io: &mut Io<'_, TransactorCall>, done: Done<TransactorCall>) {
        if !matches!(done.call, TransactorCall::Metadata) {
            self.is_busy = false;
        }
        let (now_ns, is_new) = (io.now_ns, self.speaks == Speaks::New);
        match done.call {
            TransactorCall::Metadata => {
                self.leaders.answered(done.frame);
                if let Some(id) = &self.leaders.topic_id {
                    self.history.borrow_mut().transactions_topic_id.clone_from(id);
                }
            }
            TransactorCall::Topic => {
                let made = read::<CreateTopicsRequest>(done.frame, 7).map(|made| made.topics[0].error_code);
                let is_made = matches!(made, Some(ErrorCode::NONE | ErrorCode::TOPIC_ALREADY_EXISTS));
                self.makes_topic = !is_made;
                self.pause_until_ns = now_ns + RETRY_NS;
            }
            TransactorCall::FindCoordinator => {
                let found = read::<FindCoordinatorRequest>(done.frame, 3);
                self.coordinator = found.filter(|f| f.error_code.is_none()).map(|found| found.node_id);
            }
            TransactorCall::FindGroup => {
                let found = read::<FindCoordinatorRequest>(done.frame, 3);
                self.group_coordinator = found.filter(|f| f.error_code.is_none()).map(|found| found.node_id);
            }
            TransactorCall::Init => {
                let found = read::<InitProducerIdRequest>(done.frame, 4);
                if self.is_right(now_ns, found.as_ref().map(|found| found.error_code), false)
                    && let Some(found) = found
                {
                    self.producer = Some((found.producer_id, found.producer_epoch));
                    self.sequences.clear();
                    self.has_to_look = true;
                }
            }
            TransactorCall::Add => {
                let added = read::<AddPartitionsToTxnRequest>(done.frame, 3);
                let code = added.map(|added| added.results_by_topic[0].results_by_partition[0].error_code);
                if self.is_right(now_ns, code, false) {
                    self.next_step(Step::Write(0));
                }
            }
            TransactorCall::Write { partition } => {
                let written = read::<ProduceRequest>(done.frame, if is_new { 12 } else { 9 });
                let code = written.map(|written| written.topics[0].partitions[0].error_code);
                match code {
                    Some(ErrorCode::NONE) => {
                        let Some(Transaction { parts, step: Step::Write(at), .. }) = &self.open else {
                            return;
                        };
                        let (at, count) = (*at, parts[*at].1.len() as i32);
                        *self.sequences.entry(partition).or_insert(0) += count;
                        self.after_write(at);
                    }
                    Some(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER) => {
                        let line = format!("{}: partition {partition}: a sequence is out of order", self.id);
                        self.history.borrow_mut().violation(line);
                        self.give_up();
                    }
                    Some(code) if !comes_again(code) => self.give_up(),
                    _ => self.pause_until_ns = now_ns + RETRY_NS,
                }
                self.leaders.doubt();
            }
            TransactorCall::AddOffsets => {
                let added = read::<AddOffsetsToTxnRequest>(done.frame, 3);
                if self.is_right(now_ns, added.map(|added| added.error_code), false) {
                    self.next_step(Step::Commit);
                }
            }
            TransactorCall::Commit => {
                let staged = read::<TxnOffsetCommitRequest>(done.frame, if is_new { 5 } else { 3 });
                let code = staged.map(|staged| staged.topics[0].partitions[0].error_code);
                if self.is_right(now_ns, code, true) {
                    self.next_step(Step::End);
                }
            }
            TransactorCall::End => {
                let ended = read::<EndTxnRequest>(done.frame, if is_new { 5 } else { 1 });
                if self.is_right(now_ns, ended.as_ref().map(|ended| ended.error_code), false)
                    && let Some(ended) = ended
                {
                    self.ended(&ended);
                }
            }
            TransactorCall::Offset => {
                let found = read::<OffsetFetchRequest>(done.frame, 7);
                let code = found.as_ref().map(|found| match found.error_code {
                    ErrorCode::NONE => found.topics[0].partitions[0].error_code,
                    code => code,
                });
                match (code, found) {
                    (Some(ErrorCode::NONE), Some(found)) => {
                        self.looked(found.topics[0].partitions[0].committed_offset);
                    }
                    (Some(ErrorCode::UNSTABLE_OFFSET_COMMIT), _) => self.pause_until_ns = now_ns + RETRY_NS,
                    _ => {
                        self.group_coordinator = None;
                        self.pause_until_ns = now_ns + RETRY_NS;
                    }
                }
            }
        }
    }
}

/// Reads what is committed of each partition from its beginning, as clients do: without what was aborted.
pub(crate) struct CommittedReader {
    history: Rc<RefCell<History>>,
    leaders: Leaders,
    next: BTreeMap<i32, i64>,
    is_fetching: BTreeMap<i32, bool>,
    pause_until_ns: u64,
}

pub(crate) enum ReaderCall {
    Metadata,
    Fetch { partition: i32 },
}

impl CommittedReader {
    pub(crate) fn new(history: &Rc<RefCell<History>>) -> CommittedReader {
        CommittedReader {
            history: history.clone(),
            leaders: Leaders::of(TRANSACTIONS_TOPIC),
            next: BTreeMap::new(),
            is_fetching: BTreeMap::new(),
            pause_until_ns: 0,
        }
    }

    fn fetched(&mut self, partition: i32, found: FetchResponsePartition) {
        let next = self.next.entry(partition).or_insert(0);
        let mut history = self.history.borrow_mut();
        let mut aborted = found.aborted_transactions.unwrap_or_default();
        aborted.sort_by_key(|aborted| aborted.first_offset);
        let mut aborted = aborted.into_iter().peekable();
        let mut open: Vec<i64> = Vec::new();
        for batch in split_batches(found.records.unwrap_or_default()) {
            let batch = batch.expect("brokers serve whole batches");
            let header = *batch.header();
            while let Some(begun) = aborted.next_if(|aborted| aborted.first_offset <= header.last_offset()) {
                open.push(begun.producer_id);
            }
            if header.last_offset() >= found.last_stable_offset {
                let line = format!("partition {partition}: {} is read, and not stable", header.last_offset());
                history.violation(line);
            }
            *next = (*next).max(header.next_offset());
            if header.is_control() {
                open.retain(|id| *id != header.producer_id);
            } else if !header.is_transactional() || !open.contains(&header.producer_id) {
                for record in batch.records().expect("the test does not compress") {
                    let record = record.expect("records can be read");
                    let value = record.value.expect("the test sends values");
                    let value = u64::from_be_bytes(value[..].try_into().expect("values have 8 bytes"));
                    history.committed_seen.push((partition, value));
                }
            }
        }
        history.committed_read_to.insert(partition, *next);
    }
}

impl Work for CommittedReader {
    type Call = ReaderCall;

    fn tick(&mut self, io: &mut Io<'_, ReaderCall>) {
        if self.history.borrow().transactions_topic_id.is_empty() || self.pause_until_ns > io.now_ns {
            return;
        }
        if self.leaders.is_due(io.now_ns) {
            self.leaders.ask(io, ReaderCall::Metadata);
        }
        for partition in 0..PARTITIONS {
            let Some((leader, _)) = self.leaders.get(partition) else { continue };
            if self.is_fetching.get(&partition).copied().unwrap_or(false) {
                continue;
            }
            let asked = FetchRequestPartition {
                index: partition,
                current_leader_epoch: -1,
                fetch_offset: self.next.get(&partition).copied().unwrap_or(0),
                last_fetched_epoch: -1,
                partition_max_bytes: 300,
                ..Default::default()
            };
            let topic = FetchRequestTopic {
                name: TRANSACTIONS_TOPIC.to_owned(),
                partitions: vec![asked],
                ..Default::default()
            };
            let body = FetchRequest {
                replica_id: -1,
                max_wait_ms: 100,
                min_bytes: 1,
                max_bytes: 1 << 20,
                isolation_level: 1,
                session_epoch: -1,
                topics: vec![topic],
                ..Default::default()
            };
            let is_sent = io.send(leader, 12, &body, ReaderCall::Fetch { partition });
            self.is_fetching.insert(partition, is_sent);
            if !is_sent {
                self.leaders.doubt();
            }
        }
    }

    fn done(&mut self, io: &mut Io<'_, ReaderCall>, done: Done<ReaderCall>) {
        match done.call {
            ReaderCall::Metadata => self.leaders.answered(done.frame),
            ReaderCall::Fetch { partition } => {
                self.is_fetching.insert(partition, false);
                let found = read::<FetchRequest>(done.frame, 12);
                let found = found.and_then(|mut found| found.topics.pop()?.partitions.pop());
                match found.filter(|found| found.error_code.is_none()) {
                    Some(found) => self.fetched(partition, found),
                    None => {
                        self.leaders.doubt();
                        self.pause_until_ns = io.now_ns + RETRY_NS;
                    }
                }
            }
        }
    }
}
