//! A cluster on a stage: what happens is told step by step, and each step is waited for.
//!
//! ```text
//! n1 n2 n3    have the copies; the first of them that is in sync and lives leads
//! n4 n5       vote in the metadata quorum; n5 is the controller, for the others would wait far longer for an election
//! n6          an observer of the quorum, in stages that have one: it is not started before the scenario does
//! asker       a client that asks any broker anything, and always reaches them
//! ```
//! For histories that random weather meets too seldom: each rests on what a few brokers do in one order. A stage says
//! what is so on the way (`until`), so that a scenario which no longer gets to its point fails and does not pass.

use crate::clients::{Client, Io, Work};
use crate::flow::{Flow, Line};
use crate::history::History;
use crate::wire::Done;
use crate::world::{At, MS, Physics, World};
use crate::{partitions_of, read_log};
use bytes::Bytes;
use riprap_broker::{Address, Broker, BrokerConfig, BrokerId};
use riprap_env::Disk;
use riprap_protocol::frame::decode_response;
use riprap_protocol::messages::*;
use riprap_protocol::records::{BatchBuilder, split_batches};
use riprap_protocol::{ErrorCode, Request};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;

pub(crate) const TOPIC: &str = "t";
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";
const GROUP: &str = "g";
const CONTROLLER: i32 = 5;
const BROKERS: i32 = 5;
pub(crate) const OBSERVER: i32 = 6;

/// How long a step may take: sessions end and leaders are found in less. Units: milliseconds.
const STEP_LIMIT_MS: u64 = 20_000;
/// How often it is looked whether a step is done.
const LOOK_NS: u64 = 2 * MS;

const METADATA_VERSION: i16 = 12;
const PRODUCE_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 12;

type Sending = Box<dyn Fn(&mut Io<'_, u64>, u64) -> bool>;

/// What is asked, and what was answered.
#[derive(Default)]
struct Desk {
    next: u64,
    waiting: Vec<(u64, Sending)>,
    answers: BTreeMap<u64, Option<Bytes>>,
}

struct Asker(Rc<RefCell<Desk>>);

impl Work for Asker {
    type Call = u64;

    fn tick(&mut self, io: &mut Io<'_, u64>) {
        self.0.borrow_mut().waiting.retain(|(id, send)| !send(io, *id));
    }

    fn done(&mut self, _io: &mut Io<'_, u64>, done: Done<u64>) {
        self.0.borrow_mut().answers.insert(done.call, done.frame);
    }
}

/// A question whose answer may be waited for.
pub(crate) struct Ticket<R> {
    id: u64,
    version: i16,
    request: PhantomData<R>,
}

/// A partition as the controller's broker describes it.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct State {
    pub(crate) leader: i32,
    pub(crate) epoch: i32,
    pub(crate) isr: Vec<i32>,
}

pub(crate) struct Stage {
    pub(crate) world: World,
    asker: At,
    desk: Rc<RefCell<Desk>>,
    topic: &'static str,
    topic_id: String,
    pub(crate) history: History,
}

/// Where a broker is.
pub(crate) fn at(broker: i32) -> At {
    At(broker as usize - 1)
}

impl Stage {
    /// A cluster with one topic of one partition, led by n1.
    pub(crate) fn new(topic: &'static str, change: fn(&mut BrokerConfig)) -> Stage {
        Stage::with(topic, BROKERS, change)
    }

    /// The same with n6.
    pub(crate) fn with_observer(topic: &'static str, change: fn(&mut BrokerConfig)) -> Stage {
        Stage::with(topic, OBSERVER, change)
    }

    fn with(topic: &'static str, last: i32, change: fn(&mut BrokerConfig)) -> Stage {
        let physics = Physics {
            min_delay_ns: MS / 10,
            max_delay_ns: MS / 5,
            slow_one_in: u64::MAX,
            batched_one_in: u64::MAX,
        };
        let mut world = World::new(1, physics);
        for id in 1..=last {
            let make =
                move || Box::new(Broker::new(config(id, change)).expect("the configuration works")) as Box<_>;
            assert_eq!(world.add(&format!("n{id}"), Box::new(make)), at(id));
        }
        (1..=BROKERS).for_each(|id| world.start(at(id)));
        let desk: Rc<RefCell<Desk>> = Rc::default();
        let addresses: Vec<(i32, String)> = (1..=last).map(|id| (id, format!("n{id}:9092"))).collect();
        let own_desk = desk.clone();
        let make = move || Box::new(Client::new(Asker(own_desk.clone()), &addresses, 1, "asker")) as Box<_>;
        let asker = world.add("asker", Box::new(make));
        world.start(asker);
        let mut stage =
            Stage { world, asker, desk, topic, topic_id: String::new(), history: History::default() };
        stage.run_ms(1500);
        stage.make_topic(topic);
        stage.until("n1 leads", |stage| stage.state().leader == 1);
        stage
    }

    fn make_topic(&mut self, name: &str) {
        self.make_topic_on(name, &[1, 2, 3]);
    }

    /// Makes a topic of one partition with copies on these brokers, led by the first.
    pub(crate) fn make_topic_on(&mut self, name: &str, brokers: &[i32]) {
        let topic = CreateTopicsRequestTopic {
            name: name.to_owned(),
            num_partitions: -1,
            replication_factor: -1,
            assignments: vec![CreateTopicsRequestAssignment { index: 0, broker_ids: brokers.to_vec() }],
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 2500, validate_only: false };
        let response = self.ask(CONTROLLER, 7, request).expect("the controller answers");
        assert_eq!(response.topics[0].error_code, ErrorCode::NONE, "{:?}", response.topics[0].error_message);
        if name == self.topic {
            self.topic_id = response.topics[0].topic_id.to_string();
        }
    }

    /// Makes a topic of another name.
    pub(crate) fn make_other_topic(&mut self, name: &str) {
        self.make_topic(name);
    }

    pub(crate) fn run_ms(&mut self, ms: u64) {
        self.world.run_until(self.world.now_ns + ms * MS);
    }

    /// Goes on until it is so.
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Stage) -> bool) {
        let give_up_ns = self.world.now_ns + STEP_LIMIT_MS * MS;
        while !is_so(self) {
            assert!(
                self.world.now_ns < give_up_ns,
                "the scenario is stuck before: {what}; {:?}",
                self.state()
            );
            self.world.run_until(self.world.now_ns + LOOK_NS);
        }
        self.world.note(self.asker, &format!("now {what}"));
    }

    pub(crate) fn until_leader(&mut self, leader: i32) {
        self.until(&format!("n{leader} leads"), |stage| stage.state().leader == leader);
    }

    pub(crate) fn until_isr(&mut self, isr: &[i32]) {
        self.until(&format!("the isr is {isr:?}"), |stage| stage.state().isr == isr);
    }

    pub(crate) fn until_log_ends(&mut self, broker: i32, end: i64) {
        self.until(&format!("n{broker}'s log ends at {end}"), |stage| stage.log_end(broker) == end);
    }

    pub(crate) fn send<R: Request + 'static>(&mut self, broker: i32, version: i16, request: R) -> Ticket<R> {
        let mut desk = self.desk.borrow_mut();
        let id = desk.next;
        desk.next += 1;
        desk.waiting.push((id, Box::new(move |io, id| io.send(broker, version, &request, id))));
        Ticket { id, version, request: PhantomData }
    }

    /// The answer, if one comes within so long.
    pub(crate) fn wait<R: Request>(&mut self, ticket: &Ticket<R>, ms: u64) -> Option<R::Response> {
        let give_up_ns = self.world.now_ns + ms * MS;
        loop {
            let answer = self.desk.borrow_mut().answers.remove(&ticket.id);
            match answer {
                Some(frame) => {
                    let read =
                        |frame| decode_response::<R>(frame, ticket.version).expect("brokers answer well");
                    return frame.map(|frame| read(frame).1);
                }
                None if self.world.now_ns >= give_up_ns => return None,
                None => self.world.run_until(self.world.now_ns + LOOK_NS),
            }
        }
    }

    pub(crate) fn ask<R: Request + 'static>(
        &mut self,
        broker: i32,
        version: i16,
        request: R,
    ) -> Option<R::Response> {
        let ticket = self.send(broker, version, request);
        self.wait(&ticket, STEP_LIMIT_MS)
    }

    pub(crate) fn describe(&mut self, broker: i32, topic: &str) -> MetadataResponseTopic {
        let topic = MetadataRequestTopic { name: Some(topic.to_owned()), ..Default::default() };
        let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
        let response = self.ask(broker, METADATA_VERSION, request).expect("brokers describe topics");
        response.topics[0].clone()
    }

    /// The controller, as far as a broker knows.
    pub(crate) fn controller(&mut self, broker: i32) -> i32 {
        let request = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
        self.ask(broker, METADATA_VERSION, request).expect("brokers describe the cluster").controller_id
    }

    /// The brokers that take part, as one of them says.
    pub(crate) fn live_brokers(&mut self, broker: i32) -> Vec<i32> {
        let request = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
        let response = self.ask(broker, METADATA_VERSION, request);
        response.map_or(Vec::new(), |response| response.brokers.iter().map(|b| b.node_id).collect())
    }

    /// The brokers that are registered, fenced ones too.
    pub(crate) fn registered_brokers(&mut self) -> Vec<i32> {
        let request =
            DescribeClusterRequest { include_fenced_brokers: true, endpoint_type: 1, ..Default::default() };
        let response = self.ask(CONTROLLER, 2, request).expect("brokers describe the cluster");
        response.brokers.iter().map(|broker| broker.broker_id).collect()
    }

    pub(crate) fn state(&mut self) -> State {
        let topic = self.describe(CONTROLLER, self.topic);
        let Some(partition) = topic.partitions.first() else {
            return State { leader: -1, epoch: -1, isr: Vec::new() };
        };
        let mut isr = partition.isr_nodes.clone();
        isr.sort_unstable();
        State { leader: partition.leader_id, epoch: partition.leader_epoch, isr }
    }

    pub(crate) fn produce(&mut self, broker: i32, value: u64) -> Ticket<ProduceRequest> {
        self.produce_batch(broker, BatchBuilder::new().record(0, None, Some(&value.to_be_bytes())))
    }

    pub(crate) fn produce_batch(&mut self, broker: i32, batch: BatchBuilder) -> Ticket<ProduceRequest> {
        let partition = ProduceRequestPartition { index: 0, records: Some(batch.build()) };
        let topic = ProduceRequestTopic { name: self.topic.to_owned(), partitions: vec![partition] };
        let request =
            ProduceRequest { transactional_id: None, acks: -1, timeout_ms: 20_000, topics: vec![topic] };
        self.send(broker, PRODUCE_VERSION, request)
    }

    /// Waits for what became of a produce, and notes it if it was acknowledged.
    pub(crate) fn produced(
        &mut self,
        ticket: &Ticket<ProduceRequest>,
        value: u64,
        ms: u64,
    ) -> Option<ErrorCode> {
        let answer = self.wait(ticket, ms)?.topics[0].partitions[0].clone();
        if answer.error_code.is_none() {
            self.history.acked((0, answer.base_offset), value);
        }
        Some(answer.error_code)
    }

    /// Has a record acknowledged by a broker that leads or soon will.
    pub(crate) fn produce_acked(&mut self, broker: i32, value: u64) {
        self.until(&format!("n{broker} acknowledges {value}"), |stage| {
            let ticket = stage.produce(broker, value);
            let code = stage.produced(&ticket, value, STEP_LIMIT_MS);
            // Nothing was appended: it may be sent again.
            let is_refused =
                matches!(code, Some(ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::NOT_ENOUGH_REPLICAS));
            assert!(is_refused || code == Some(ErrorCode::NONE), "{value} is answered with {code:?}");
            !is_refused
        });
    }

    /// Fetches as a consumer does, and notes what it read.
    pub(crate) fn fetch(&mut self, broker: i32, offset: i64, last_epoch: i32) -> FetchResponsePartition {
        let asked = FetchRequestPartition {
            index: 0,
            current_leader_epoch: -1,
            fetch_offset: offset,
            last_fetched_epoch: last_epoch,
            partition_max_bytes: 1 << 20,
            ..Default::default()
        };
        let topic =
            FetchRequestTopic { name: self.topic.to_owned(), partitions: vec![asked], ..Default::default() };
        let request = FetchRequest {
            replica_id: -1,
            max_wait_ms: 100,
            min_bytes: 1,
            max_bytes: 1 << 20,
            session_epoch: -1,
            topics: vec![topic],
            ..Default::default()
        };
        let answer = self.ask(broker, FETCH_VERSION, request).expect("brokers answer fetches");
        let answer = answer.topics[0].partitions[0].clone();
        for batch in split_batches(answer.records.clone().unwrap_or_default()) {
            let batch = batch.expect("brokers serve whole batches");
            for record in batch.records().expect("the test does not compress") {
                let record = record.expect("records can be read");
                let value = record.value.expect("the test sends values");
                let value = u64::from_be_bytes(value[..].try_into().expect("values have 8 bytes"));
                self.history.saw((0, batch.header().base_offset + i64::from(record.offset_delta)), value);
            }
        }
        answer
    }

    pub(crate) fn commit(&mut self, broker: i32, offset: i64) -> Ticket<OffsetCommitRequest> {
        let partition =
            OffsetCommitRequestPartition { index: 0, committed_offset: offset, ..Default::default() };
        let topic = OffsetCommitRequestTopic { name: self.topic.to_owned(), partitions: vec![partition] };
        let request =
            OffsetCommitRequest { group_id: GROUP.to_owned(), topics: vec![topic], ..Default::default() };
        self.send(broker, 7, request)
    }

    /// Has an offset committed by a broker that coordinates the group or soon will.
    pub(crate) fn commit_acked(&mut self, broker: i32, offset: i64) {
        self.until(&format!("n{broker} commits {offset}"), |stage| {
            let ticket = stage.commit(broker, offset);
            let answer = stage.wait(&ticket, STEP_LIMIT_MS);
            answer.is_some_and(|answer| answer.topics[0].partitions[0].error_code.is_none())
        });
    }

    /// What a broker says that the group committed.
    pub(crate) fn committed(&mut self, broker: i32) -> Result<i64, ErrorCode> {
        let topic = OffsetFetchRequestTopic { name: self.topic.to_owned(), partitions: vec![0] };
        let request = OffsetFetchRequest {
            group_id: GROUP.to_owned(),
            topics: Some(vec![topic]),
            ..Default::default()
        };
        let answer = self.ask(broker, 5, request).expect("brokers answer for groups");
        let partition = answer.topics.first().and_then(|topic| topic.partitions.first());
        let code = partition.map_or(answer.error_code, |partition| partition.error_code);
        match partition {
            Some(partition) if code.is_none() && answer.error_code.is_none() => {
                Ok(partition.committed_offset)
            }
            _ => Err(if code.is_none() { answer.error_code } else { code }),
        }
    }

    /// What the broker's process would find in its log now.
    pub(crate) fn log_end(&mut self, broker: i32) -> i64 {
        let mut disk = self.world.disk(at(broker)).clone();
        let Some((dir, _)) = partitions_of(&mut disk, &self.topic_id).into_iter().next() else { return 0 };
        let (log, _) = riprap_broker::log::PartitionLog::open(&mut disk, &dir, Default::default())
            .expect("what brokers write can be opened");
        log.log_end_offset()
    }

    /// How much the segments of a broker's copy take. Units: bytes.
    pub(crate) fn log_bytes(&mut self, broker: i32) -> usize {
        let mut disk = self.world.disk(at(broker)).clone();
        let Some((dir, _)) = partitions_of(&mut disk, &self.topic_id).into_iter().next() else { return 0 };
        let names = disk.list(&dir).expect("the disk can be read");
        let segments = names.iter().filter(|name| name.ends_with(".log"));
        segments.map(|name| disk.contents(&format!("{dir}/{name}")).map_or(0, <[u8]>::len)).sum()
    }

    fn log(&mut self, broker: i32) -> Option<BTreeMap<i64, u64>> {
        let mut disk = self.world.disk(at(broker)).clone();
        let (dir, _) = partitions_of(&mut disk, &self.topic_id).into_iter().next()?;
        Some(read_log(&mut disk, &dir))
    }

    /// Mends everything, waits until the copies are alike and a record gets through, and holds what was seen on the way
    /// against them.
    pub(crate) fn finish(mut self) {
        /// A value that no scenario sends.
        const LAST: u64 = 1_000_000;
        self.world.heal();
        for id in 1..=BROKERS {
            if !self.world.is_up(at(id)) {
                self.world.start(at(id));
            }
        }
        self.until("the copies are alike", |stage| {
            let logs = [1, 2, 3].map(|id| stage.log(id));
            let leader = stage.state().leader;
            leader > 0
                && stage.state().isr.len() == 3
                && logs.iter().all(|log| log.is_some() && *log == logs[0])
        });
        let leader = self.state().leader;
        self.produce_acked(leader, LAST);
        self.run_ms(1000);
        for id in 1..=3 {
            let log = self.log(id).expect("it has a copy");
            self.history.check_final(&format!("n{id}"), 0, &log);
        }
        let violations = self.history.violations;
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }
}

/// Sessions are short against the time after which a follower lags or a connection is given up: what a scenario holds
/// back is still wanted when it is let go.
fn config(id: i32, change: fn(&mut BrokerConfig)) -> BrokerConfig {
    let address = |id: i32| (BrokerId(id), Address { host: format!("n{id}"), port: 9092 });
    let mut config = BrokerConfig::new(BrokerId(id), (1..=BROKERS).map(address).collect());
    config.advertised = (id > BROKERS).then(|| address(id).1);
    config.election_timeout_ms = if [CONTROLLER, OBSERVER].contains(&id) { 300 } else { 60_000 };
    config.session_timeout_ms = 1000;
    config.heartbeat_interval_ms = 200;
    config.replica_lag_ms = 6000;
    config.replica_fetch_wait_ms = 100;
    config.peer_timeout_ms = 60_000;
    change(&mut config);
    config
}

/// A follower's fetches to a leader.
pub(crate) fn fetches(follower: i32, leader: i32) -> Flow {
    Flow::requests(at(follower), at(leader), Line::Fetch)
}

/// A leader's answers to a follower's fetches.
pub(crate) fn fetched(leader: i32, follower: i32) -> Flow {
    Flow::answers(at(leader), at(follower), Line::Fetch)
}

/// What a broker tells and asks the controller.
pub(crate) fn to_controller(broker: i32) -> Flow {
    Flow::requests(at(broker), at(CONTROLLER), Line::Other)
}

/// What one voter of the metadata quorum says to another.
pub(crate) fn raft(from: i32, to: i32) -> Flow {
    Flow::requests(at(from), at(to), Line::Quorum)
}
