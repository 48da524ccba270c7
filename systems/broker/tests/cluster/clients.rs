//! Clients that work and watch: producers, consumers, a committer of offsets.

use crate::history::History;
use crate::wire::{Done, Wire};
use bytes::Bytes;
use riprap_env::random::Draws;
use riprap_env::{Effect, Effects, Env, Event, Node};
use riprap_protocol::frame::decode_response;
use riprap_protocol::messages::*;
use riprap_protocol::records::{BatchBuilder, split_batches};
use riprap_protocol::{ErrorCode, Request};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

pub(crate) const TOPIC: &str = "t";
pub(crate) const PARTITIONS: i32 = 2;
const TICK_NS: u64 = 20_000_000;
/// How often a producer makes new records.
const FILL_NS: u64 = 40_000_000;
const METADATA_VERSION: i16 = 12;
const GROUP: &str = "g";

/// What a client does with its connections.
pub(crate) trait Work {
    /// What it remembers of a request.
    type Call;
    /// Does what can be done now.
    fn tick(&mut self, io: &mut Io<'_, Self::Call>);
    /// Takes in an answer, or that there will be none.
    fn done(&mut self, io: &mut Io<'_, Self::Call>, done: Done<Self::Call>);
}

pub(crate) struct Io<'a, C> {
    pub(crate) now_ns: u64,
    pub(crate) wire: &'a mut Wire<C>,
    pub(crate) effects: &'a mut Effects,
    pub(crate) brokers: &'a [i32],
    pub(crate) draws: &'a mut Draws,
}

impl<C> Io<'_, C> {
    pub(crate) fn send<R: Request>(&mut self, broker: i32, version: i16, body: &R, call: C) -> bool {
        self.wire.send(self.now_ns, broker, version, body, call, self.effects)
    }

    pub(crate) fn any_broker(&mut self) -> i32 {
        let index = self.draws.next_u64("broker") as usize % self.brokers.len();
        self.brokers[index]
    }
}

/// A client as a node.
pub(crate) struct Client<W: Work> {
    work: W,
    wire: Wire<W::Call>,
    brokers: Vec<i32>,
    draws: Draws,
}

impl<W: Work> Client<W> {
    pub(crate) fn new(work: W, brokers: &[(i32, String)], seed: u64, name: &str) -> Client<W> {
        let ids = brokers.iter().map(|(id, _)| *id).collect();
        Client { work, wire: Wire::new(brokers), brokers: ids, draws: Draws::new(seed, name) }
    }
}

impl<W: Work> Node for Client<W> {
    fn step(&mut self, now_ns: u64, event: Event, _env: &mut dyn Env, _effects: &mut Effects) {
        match event {
            Event::Connected { conn } => self.wire.connected(conn),
            Event::Received { conn, bytes } => self.wire.received(conn, &bytes),
            Event::Closed { conn } => self.wire.closed(now_ns, conn),
            _ => {}
        }
    }

    fn settle(&mut self, now_ns: u64, _env: &mut dyn Env, effects: &mut Effects) {
        self.wire.tick(now_ns, effects);
        for done in std::mem::take(&mut self.wire.done) {
            let (wire, brokers, draws) = (&mut self.wire, self.brokers.as_slice(), &mut self.draws);
            let mut io = Io { now_ns, wire, effects, brokers, draws };
            self.work.done(&mut io, done);
        }
        let (wire, brokers, draws) = (&mut self.wire, self.brokers.as_slice(), &mut self.draws);
        self.work.tick(&mut Io { now_ns, wire, effects, brokers, draws });
        effects.push(Effect::WakeAt { at_ns: now_ns + TICK_NS });
    }
}

/// Who leads what, as far as a client knows.
#[derive(Default)]
pub(crate) struct Leaders {
    by_partition: BTreeMap<i32, (i32, i32)>,
    is_asking: bool,
    is_stale: bool,
    retry_at_ns: u64,
    topic_id: Option<String>,
}

impl Leaders {
    pub(crate) fn get(&self, partition: i32) -> Option<(i32, i32)> {
        self.by_partition.get(&partition).copied()
    }

    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        !self.is_asking
            && (self.is_stale || self.by_partition.len() < PARTITIONS as usize)
            && self.retry_at_ns <= now_ns
    }

    pub(crate) fn ask<C>(&mut self, io: &mut Io<'_, C>, call: C) {
        let topic = MetadataRequestTopic { name: Some(TOPIC.to_owned()), ..Default::default() };
        let request = MetadataRequest {
            topics: Some(vec![topic]),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let to = io.any_broker();
        self.is_asking = io.send(to, METADATA_VERSION, &request, call);
        self.retry_at_ns = io.now_ns + 100_000_000;
    }

    pub(crate) fn answered(&mut self, frame: Option<Bytes>) {
        self.is_asking = false;
        let Some(frame) = frame else { return };
        let (_, response) =
            decode_response::<MetadataRequest>(frame, METADATA_VERSION).expect("brokers answer well");
        if let Some(topic) = response.topics.first().filter(|topic| topic.error_code.is_none()) {
            self.topic_id = Some(topic.topic_id.to_string());
        }
        for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
            let known = self.by_partition.get(&partition.index).map_or(-1, |(_, epoch)| *epoch);
            // A broker that is behind is not believed.
            if partition.leader_id >= 0 && partition.leader_epoch >= known {
                self.by_partition.insert(partition.index, (partition.leader_id, partition.leader_epoch));
            }
        }
        self.is_stale = false;
    }

    pub(crate) fn doubt(&mut self) {
        self.is_stale = true;
    }
}

/// How a producer works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Repeats each batch until it is acknowledged; up to so many batches are on their way.
    Idempotent(usize),
    /// acks=all, never repeats.
    Plain,
    /// acks=1, never repeats: its records may be lost.
    Weak,
}

struct Batch {
    number: u64,
    sequence: i32,
    values: Vec<u64>,
    is_sent: bool,
    /// A failed attempt may have been appended.
    tries: u32,
}

pub(crate) struct Producer {
    kind: Kind,
    history: Rc<RefCell<History>>,
    leaders: Leaders,
    producer_id: Option<i64>,
    is_asking_id: bool,
    batches: BTreeMap<i32, VecDeque<Batch>>,
    next_number: u64,
    next_sequence: BTreeMap<i32, i32>,
    is_making_topic: bool,
    pause_until_ns: u64,
    /// When new records are made next.
    fill_at_ns: u64,
    makes_topic: bool,
}

pub(crate) enum ProducerCall {
    Metadata,
    Id,
    Topic,
    Produce { partition: i32, sequence: i32 },
}

impl Producer {
    pub(crate) fn new(kind: Kind, makes_topic: bool, history: &Rc<RefCell<History>>) -> Producer {
        Producer {
            kind,
            history: history.clone(),
            leaders: Leaders::default(),
            producer_id: None,
            is_asking_id: false,
            batches: BTreeMap::new(),
            next_number: 0,
            next_sequence: BTreeMap::new(),
            is_making_topic: false,
            pause_until_ns: 0,
            fill_at_ns: 0,
            makes_topic,
        }
    }

    fn depth(&self) -> usize {
        match self.kind {
            Kind::Idempotent(depth) => depth,
            Kind::Plain | Kind::Weak => 1,
        }
    }

    fn is_idempotent(&self) -> bool {
        matches!(self.kind, Kind::Idempotent(_))
    }

    fn make_topic(&mut self, io: &mut Io<'_, ProducerCall>) {
        let topic = CreateTopicsRequestTopic {
            name: TOPIC.to_owned(),
            num_partitions: PARTITIONS,
            replication_factor: 3,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 2000, validate_only: false };
        let to = io.any_broker();
        self.is_making_topic = io.send(to, 7, &request, ProducerCall::Topic);
    }

    fn fill(&mut self, io: &mut Io<'_, ProducerCall>, partition: i32) {
        let depth = self.depth();
        let queue = self.batches.entry(partition).or_default();
        let mut history = self.history.borrow_mut();
        while queue.len() < depth && !history.is_draining {
            // A broker remembers a producer's last five batches: no sixth goes out before the first is known to be stored,
            // though others in between may be acknowledged.
            let number = self.next_number;
            if queue.front().is_some_and(|oldest| number - oldest.number >= 5) {
                break;
            }
            self.next_number += 1;
            let count = 1 + io.draws.next_u64("count") % 3;
            let values: Vec<u64> = (0..count).map(|_| history.new_value()).collect();
            let next = self.next_sequence.entry(partition).or_insert(0);
            let sequence = *next;
            *next += count as i32;
            if let Kind::Idempotent(_) = self.kind {
                history.idempotent.extend(&values);
                history.unfinished += values.len();
            }
            queue.push_back(Batch { number, sequence, values, is_sent: false, tries: 0 });
        }
    }

    fn send(&mut self, io: &mut Io<'_, ProducerCall>, partition: i32) {
        let Some((leader, _)) = self.leaders.get(partition) else { return };
        let queue = self.batches.entry(partition).or_default();
        // After a failure all go again in order, once nothing is on its way any more.
        let first_unsent = queue.iter().position(|batch| !batch.is_sent);
        let last_sent = queue.iter().rposition(|batch| batch.is_sent);
        if last_sent > first_unsent && first_unsent.is_some() {
            return;
        }
        for batch in queue.iter_mut().filter(|batch| !batch.is_sent) {
            let mut builder = BatchBuilder::new();
            if let (Kind::Idempotent(_), Some(id)) = (self.kind, self.producer_id) {
                builder = builder.producer(id, 0, batch.sequence);
            }
            for value in &batch.values {
                builder = builder.record(0, None, Some(&value.to_be_bytes()));
            }
            let partition_data = ProduceRequestPartition { index: partition, records: Some(builder.build()) };
            let topic = ProduceRequestTopic { name: TOPIC.to_owned(), partitions: vec![partition_data] };
            let acks = if self.kind == Kind::Weak { 1 } else { -1 };
            let request =
                ProduceRequest { transactional_id: None, acks, timeout_ms: 1500, topics: vec![topic] };
            let call = ProducerCall::Produce { partition, sequence: batch.sequence };
            if !io.send(leader, 9, &request, call) {
                break;
            }
            batch.is_sent = true;
            batch.tries += 1;
        }
    }

    fn produced(
        &mut self,
        io: &mut Io<'_, ProducerCall>,
        partition: i32,
        sequence: i32,
        frame: Option<Bytes>,
    ) {
        let answer = frame.map(|frame| {
            let (_, response) = decode_response::<ProduceRequest>(frame, 9).expect("brokers answer well");
            response.topics[0].partitions[0].clone()
        });
        let queue = self.batches.get_mut(&partition).expect("it was sent from there");
        let Some(index) = queue.iter().position(|batch| batch.sequence == sequence) else { return };
        let code = answer.as_ref().map_or(ErrorCode::NETWORK_EXCEPTION, |answer| answer.error_code);
        let mut history = self.history.borrow_mut();
        if code.is_none() {
            let batch = queue.remove(index).expect("it was found");
            let base = answer.expect("there is no error").base_offset;
            if self.kind != Kind::Weak {
                for (offset, value) in (base..).zip(&batch.values) {
                    history.acked((partition, offset), *value);
                }
            }
            if let Kind::Idempotent(_) = self.kind {
                history.unfinished -= batch.values.len();
            }
            return;
        }
        self.leaders.doubt();
        self.pause_until_ns = io.now_ns + 20_000_000;
        if code == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER && index == 0 {
            history.violation(format!(
                "partition {partition}: sequence {sequence} is next, the leader says not"
            ));
        }
        let is_known = code.is_retriable() || code == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
        if !is_known {
            history.violation(format!("partition {partition}: a produce is refused with {code}"));
        }
        match self.kind {
            Kind::Idempotent(_) => queue[index].is_sent = false,
            Kind::Plain | Kind::Weak => {
                queue.remove(index);
            }
        }
    }
}

impl Work for Producer {
    type Call = ProducerCall;

    fn tick(&mut self, io: &mut Io<'_, ProducerCall>) {
        let topic_is_made = self.history.borrow().topic_is_made;
        if !topic_is_made {
            if self.makes_topic && !self.is_making_topic {
                self.make_topic(io);
            }
            return;
        }
        if self.leaders.is_due(io.now_ns) {
            self.leaders.ask(io, ProducerCall::Metadata);
        }
        if self.is_idempotent() && self.producer_id.is_none() {
            if !self.is_asking_id {
                let request = InitProducerIdRequest { transaction_timeout_ms: 1000, ..Default::default() };
                let to = io.any_broker();
                self.is_asking_id = io.send(to, 4, &request, ProducerCall::Id);
            }
            return;
        }
        if self.pause_until_ns > io.now_ns {
            return;
        }
        let fills = self.fill_at_ns <= io.now_ns;
        if fills {
            self.fill_at_ns = io.now_ns + FILL_NS;
        }
        for partition in 0..PARTITIONS {
            if fills {
                self.fill(io, partition);
            }
            self.send(io, partition);
        }
    }

    fn done(&mut self, io: &mut Io<'_, ProducerCall>, done: Done<ProducerCall>) {
        match done.call {
            ProducerCall::Metadata => self.leaders.answered(done.frame),
            ProducerCall::Topic => {
                self.is_making_topic = false;
                let Some(frame) = done.frame else { return };
                let (_, response) =
                    decode_response::<CreateTopicsRequest>(frame, 7).expect("brokers answer well");
                let code = response.topics[0].error_code;
                if code.is_none() || code == ErrorCode::TOPIC_ALREADY_EXISTS {
                    self.history.borrow_mut().topic_is_made = true;
                }
            }
            ProducerCall::Id => {
                self.is_asking_id = false;
                let Some(frame) = done.frame else { return };
                let (_, response) =
                    decode_response::<InitProducerIdRequest>(frame, 4).expect("brokers answer well");
                if response.error_code.is_none() {
                    self.producer_id = Some(response.producer_id);
                }
            }
            ProducerCall::Produce { partition, sequence } => {
                self.produced(io, partition, sequence, done.frame)
            }
        }
    }
}

/// Reads each partition from the beginning, for ever.
pub(crate) struct Consumer {
    history: Rc<RefCell<History>>,
    leaders: Leaders,
    positions: BTreeMap<i32, Position>,
}

#[derive(Default)]
struct Position {
    next: i64,
    last_epoch: i32,
    is_fetching: bool,
    pause_until_ns: u64,
}

pub(crate) enum ConsumerCall {
    Metadata,
    Fetch { partition: i32, epoch: i32 },
}

const FETCH_VERSION: i16 = 12;

impl Consumer {
    pub(crate) fn new(history: &Rc<RefCell<History>>) -> Consumer {
        let start = |partition| (partition, Position { last_epoch: -1, ..Position::default() });
        let positions = (0..PARTITIONS).map(start).collect();
        Consumer { history: history.clone(), leaders: Leaders::default(), positions }
    }

    fn fetched(&mut self, now_ns: u64, partition: i32, epoch: i32, frame: Option<Bytes>) {
        let position = self.positions.get_mut(&partition).expect("all partitions are there");
        position.is_fetching = false;
        let Some(frame) = frame else {
            self.leaders.doubt();
            return;
        };
        let (_, response) =
            decode_response::<FetchRequest>(frame, FETCH_VERSION).expect("brokers answer well");
        assert_eq!(response.error_code, ErrorCode::NONE);
        let answer = &response.topics[0].partitions[0];
        let mut history = self.history.borrow_mut();
        if answer.error_code == ErrorCode::OFFSET_OUT_OF_RANGE || answer.diverging_epoch.end_offset >= 0 {
            history.violation(format!(
                "partition {partition}: a consumer read up to {} (epoch {}), and the leader of epoch {epoch} does not \
                 have that: {} {:?}",
                position.next, position.last_epoch, answer.error_code, answer.diverging_epoch
            ));
        }
        if !answer.error_code.is_none() {
            position.pause_until_ns = now_ns + 50_000_000;
            self.leaders.doubt();
            return;
        }
        for batch in split_batches(answer.records.clone().unwrap_or_default()) {
            let batch = batch.expect("brokers serve whole batches");
            let header = *batch.header();
            if header.base_offset > position.next {
                history.violation(format!(
                    "partition {partition}: skips from {} to {}",
                    position.next, header.base_offset
                ));
            }
            for record in batch.records().expect("the test does not compress") {
                let record = record.expect("records can be read");
                let offset = header.base_offset + i64::from(record.offset_delta);
                let value = record.value.expect("the test sends values");
                let value = u64::from_be_bytes(value[..].try_into().expect("values have 8 bytes"));
                history.saw((partition, offset), value);
            }
            position.next = header.next_offset();
            position.last_epoch = header.leader_epoch;
        }
        let got_records = answer.records.as_ref().is_some_and(|records| !records.is_empty());
        if got_records && position.next > answer.high_watermark {
            let high_watermark = answer.high_watermark;
            history.violation(format!(
                "partition {partition}: read up to {} above {high_watermark}",
                position.next
            ));
        }
    }
}

impl Work for Consumer {
    type Call = ConsumerCall;

    fn tick(&mut self, io: &mut Io<'_, ConsumerCall>) {
        if !self.history.borrow().topic_is_made {
            return;
        }
        if self.leaders.is_due(io.now_ns) {
            self.leaders.ask(io, ConsumerCall::Metadata);
        }
        for (partition, position) in &mut self.positions {
            let Some((leader, epoch)) = self.leaders.get(*partition) else { continue };
            if position.is_fetching || position.pause_until_ns > io.now_ns {
                continue;
            }
            let asked = FetchRequestPartition {
                index: *partition,
                current_leader_epoch: epoch,
                fetch_offset: position.next,
                last_fetched_epoch: position.last_epoch,
                partition_max_bytes: 2000,
                ..Default::default()
            };
            let topic =
                FetchRequestTopic { name: TOPIC.to_owned(), partitions: vec![asked], ..Default::default() };
            let request = FetchRequest {
                replica_id: -1,
                max_wait_ms: 300,
                min_bytes: 1,
                max_bytes: 1 << 20,
                session_epoch: -1,
                topics: vec![topic],
                ..Default::default()
            };
            let call = ConsumerCall::Fetch { partition: *partition, epoch };
            position.is_fetching = io.send(leader, FETCH_VERSION, &request, call);
            if !position.is_fetching && !io.wire.is_up(leader) {
                self.leaders.is_stale = true;
            }
        }
    }

    fn done(&mut self, io: &mut Io<'_, ConsumerCall>, done: Done<ConsumerCall>) {
        match done.call {
            ConsumerCall::Metadata => {
                self.leaders.answered(done.frame);
                if let Some(id) = &self.leaders.topic_id {
                    self.history.borrow_mut().topic_id.clone_from(id);
                }
            }
            ConsumerCall::Fetch { partition, epoch } => self.fetched(io.now_ns, partition, epoch, done.frame),
        }
    }
}

/// Commits rising offsets for a group of its own, and reads them back.
pub(crate) struct Committer {
    history: Rc<RefCell<History>>,
    coordinator: Option<i32>,
    is_busy: bool,
    pause_until_ns: u64,
    next: i64,
    acked: Option<i64>,
    /// Commits of which nothing is known: any of them may come true late.
    in_doubt: Vec<i64>,
}

pub(crate) enum CommitterCall {
    Find,
    Commit(i64),
    /// With what was acknowledged when it was sent.
    Fetch(Option<i64>),
}

impl Committer {
    pub(crate) fn new(history: &Rc<RefCell<History>>) -> Committer {
        Committer {
            history: history.clone(),
            coordinator: None,
            is_busy: false,
            pause_until_ns: 0,
            next: 0,
            acked: None,
            in_doubt: Vec::new(),
        }
    }

    fn failed(&mut self, now_ns: u64) {
        self.coordinator = None;
        self.pause_until_ns = now_ns + 100_000_000;
    }
}

impl Work for Committer {
    type Call = CommitterCall;

    fn tick(&mut self, io: &mut Io<'_, CommitterCall>) {
        if self.is_busy || self.pause_until_ns > io.now_ns || !self.history.borrow().topic_is_made {
            return;
        }
        self.pause_until_ns = io.now_ns + 20_000_000;
        let Some(to) = self.coordinator else {
            let request = FindCoordinatorRequest { key: GROUP.to_owned(), ..Default::default() };
            let to = io.any_broker();
            self.is_busy = io.send(to, 3, &request, CommitterCall::Find);
            return;
        };
        if io.draws.next_u64("what").is_multiple_of(2) {
            self.next += 1;
            let partition =
                OffsetCommitRequestPartition { index: 0, committed_offset: self.next, ..Default::default() };
            let topic = OffsetCommitRequestTopic { name: TOPIC.to_owned(), partitions: vec![partition] };
            let request =
                OffsetCommitRequest { group_id: GROUP.to_owned(), topics: vec![topic], ..Default::default() };
            self.is_busy = io.send(to, 7, &request, CommitterCall::Commit(self.next));
        } else {
            let topic = OffsetFetchRequestTopic { name: TOPIC.to_owned(), partitions: vec![0] };
            let request = OffsetFetchRequest {
                group_id: GROUP.to_owned(),
                topics: Some(vec![topic]),
                ..Default::default()
            };
            self.is_busy = io.send(to, 5, &request, CommitterCall::Fetch(self.acked));
        }
        if !self.is_busy {
            self.failed(io.now_ns);
        }
    }

    fn done(&mut self, io: &mut Io<'_, CommitterCall>, done: Done<CommitterCall>) {
        self.is_busy = false;
        match (done.call, done.frame) {
            (CommitterCall::Find, None) | (CommitterCall::Fetch(_), None) => self.failed(io.now_ns),
            (CommitterCall::Find, Some(frame)) => {
                let (_, found) =
                    decode_response::<FindCoordinatorRequest>(frame, 3).expect("brokers answer well");
                self.coordinator = Some(found.node_id).filter(|_| found.error_code.is_none());
                self.pause_until_ns = io.now_ns + 50_000_000;
            }
            (CommitterCall::Commit(offset), None) => {
                self.in_doubt.push(offset);
                self.failed(io.now_ns);
            }
            (CommitterCall::Commit(offset), Some(frame)) => {
                let (_, response) =
                    decode_response::<OffsetCommitRequest>(frame, 7).expect("brokers answer well");
                if response.topics[0].partitions[0].error_code.is_none() {
                    self.acked = Some(offset);
                    self.history.borrow_mut().commits_acked += 1;
                } else {
                    self.in_doubt.push(offset);
                    self.failed(io.now_ns);
                }
            }
            (CommitterCall::Fetch(acked), Some(frame)) => {
                let (_, response) =
                    decode_response::<OffsetFetchRequest>(frame, 5).expect("brokers answer well");
                let partition = response.topics.first().and_then(|topic| topic.partitions.first());
                let code = partition.map_or(response.error_code, |p| p.error_code);
                match partition.filter(|_| code.is_none() && response.error_code.is_none()) {
                    Some(partition) => {
                        let offset = partition.committed_offset;
                        let expected = acked.unwrap_or(-1);
                        let mut history = self.history.borrow_mut();
                        history.fetched_offsets += 1;
                        if offset != expected && !self.in_doubt.contains(&offset) {
                            history.violation(format!(
                                "offset {expected} was committed, {offset} is fetched; in doubt: {:?}",
                                self.in_doubt
                            ));
                        }
                    }
                    None => self.failed(io.now_ns),
                }
            }
        }
    }
}
