//! What consumers of either isolation are told of a log in which transactions are open, committed and aborted. They are
//! written into the log by hand, for no client can write them.

use super::*;
use crate::config::{Address, BrokerConfig};
use bytes::BytesMut;
use riprap_env::random::Draws;
use riprap_env::{ConnId, Disk, Effect, Effects, Env, Event, MemDisk};
use riprap_protocol::Request;
use riprap_protocol::messages::{
    CreateTopicsRequest, CreateTopicsRequestTopic, FetchRequestTopic, ListOffsetsRequest,
    ListOffsetsRequestPartition, ListOffsetsRequestTopic,
};
use riprap_protocol::records::{BatchBuilder, EndTxnMarker, TxnResult};
use std::collections::BTreeMap;

const CLIENT: &str = "somebody:1";
pub(super) const FETCH: i16 = 12;
const LIST_OFFSETS: i16 = 5;

/// What a fetch is answered: the end of what it got, the last stable offset, and who was aborted from where.
type Fetched = (i64, i64, Option<Vec<(i64, i64)>>);

pub(super) struct Quiet {
    disk: MemDisk,
    draws: Draws,
    /// What connections have not taken.
    pub(super) unsent: BTreeMap<ConnId, usize>,
}

impl Env for Quiet {
    fn disk(&mut self) -> &mut dyn Disk {
        &mut self.disk
    }

    fn wall_clock_ms(&self) -> i64 {
        0
    }

    fn random_u64(&mut self, purpose: &'static str) -> u64 {
        self.draws.next_u64(purpose)
    }

    fn unsent_bytes(&self, conn: ConnId) -> usize {
        self.unsent.get(&conn).copied().unwrap_or(0)
    }

    fn unsent_in_all_bytes(&self) -> usize {
        self.unsent.values().sum()
    }

    fn log(&mut self, _level: riprap_env::LogLevel, _module: &'static str, _line: std::fmt::Arguments<'_>) {}
}

/// A broker alone, with a topic `t` of one partition and a client.
pub(super) struct Play {
    pub(super) running: Running,
    pub(super) env: Quiet,
    now_ns: u64,
    wake_at_ns: u64,
    conn: ConnId,
    sent: BytesMut,
    /// What was sent, in order, to whom and how much.
    pub(super) sends: Vec<(ConnId, usize)>,
}

impl Play {
    pub(super) fn new() -> Play {
        let address = Address { host: "n1".to_owned(), port: 9092 };
        let config = BrokerConfig::new(BrokerId(1), [(BrokerId(1), address)].into());
        let mut env = Quiet { disk: MemDisk::new(), draws: Draws::new(1, "n1"), unsent: BTreeMap::new() };
        let running = Running::start(config, 0, &mut env).expect("an empty disk");
        let conn = ConnId::accepted_by_driver(0);
        let mut play =
            Play { running, env, now_ns: 0, wake_at_ns: 0, conn, sent: BytesMut::new(), sends: Vec::new() };
        play.wait_ms(3000);
        play.happen(Some(Event::Accepted { conn, peer: CLIENT.to_owned() }));
        let topic = CreateTopicsRequestTopic {
            name: "t".to_owned(),
            num_partitions: 1,
            replication_factor: 1,
            ..Default::default()
        };
        play.ask(7, &CreateTopicsRequest { topics: vec![topic], ..Default::default() });
        play.wait_ms(1000);
        play.answer::<CreateTopicsRequest>(7).expect("it is made");
        play
    }

    pub(super) fn happen(&mut self, event: Option<Event>) {
        let mut effects = Effects::new();
        let mut cx = Cx { now_ns: self.now_ns, env: &mut self.env, effects: &mut effects, fatal: None };
        if let Some(event) = event {
            self.running.take_in(event, &mut cx);
        }
        self.running.settle(&mut cx).expect("the disk in memory does not fail");
        for effect in effects {
            match effect {
                Effect::Send { conn, bytes } => {
                    self.sends.push((conn, bytes.len()));
                    if conn == self.conn {
                        self.sent.extend_from_slice(&bytes);
                    }
                }
                Effect::WakeAt { at_ns } => self.wake_at_ns = at_ns,
                other => panic!("{other:?}"),
            }
        }
    }

    pub(super) fn wait_ms(&mut self, ms: u64) {
        let until_ns = self.now_ns + ms * 1_000_000;
        while self.wake_at_ns <= until_ns {
            self.now_ns = self.wake_at_ns.max(self.now_ns + 1);
            self.happen(Some(Event::Wake));
        }
        self.now_ns = until_ns;
    }

    fn ask<R: Request>(&mut self, version: i16, body: &R) {
        self.happen(Some(Event::Received { conn: self.conn, bytes: frame(version, body) }));
    }

    fn answer<R: Request>(&mut self, version: i16) -> Option<R::Response> {
        if self.sent.is_empty() {
            return None;
        }
        let mut frame = std::mem::take(&mut self.sent).freeze();
        let frame = frame.split_off(size_of::<i32>());
        Some(riprap_protocol::frame::decode_response::<R>(frame, version).expect("one answer").1)
    }

    /// Appends as the partition's leader, and has it committed.
    pub(super) fn append(&mut self, batch: BatchBuilder) {
        let key = self.running.key_of("t", 0).expect("the topic is there");
        let replica = self.running.replicas.get_mut(key).expect("it has a copy");
        replica.log.append_as_leader(&mut self.env.disk, batch.build(), 0, 0).expect("it is right");
        self.running.replicas.note_appended(key);
        self.happen(None);
    }

    fn fetch(&mut self, isolation_level: i8, fetch_offset: i64, max_wait_ms: i32) {
        self.ask(FETCH, &fetch_request(isolation_level, fetch_offset, max_wait_ms, 1 << 20));
    }

    fn fetched(&mut self) -> Option<Fetched> {
        let response = self.answer::<FetchRequest>(FETCH)?;
        let partition = &response.topics[0].partitions[0];
        assert!(partition.error_code.is_none(), "{partition:?}");
        let records = partition.records.clone().unwrap_or_default();
        let last = riprap_protocol::records::split_batches(records).last();
        let end = last.map_or(-1, |batch| batch.expect("a whole batch").header().next_offset());
        let aborted = partition.aborted_transactions.as_ref();
        let aborted = aborted.map(|all| all.iter().map(|it| (it.producer_id, it.first_offset)).collect());
        Some((end, partition.last_stable_offset, aborted))
    }

    fn check(&mut self, isolation_level: i8, fetch_offset: i64, expect: (i64, i64, Option<Vec<(i64, i64)>>)) {
        self.fetch(isolation_level, fetch_offset, 0);
        assert_eq!(self.fetched(), Some(expect), "isolation {isolation_level} from {fetch_offset}");
    }

    fn check_latest(&mut self, isolation_level: i8, expect: i64) {
        let partition = ListOffsetsRequestPartition { timestamp: -1, ..Default::default() };
        let topic = ListOffsetsRequestTopic { name: "t".to_owned(), partitions: vec![partition] };
        let request =
            ListOffsetsRequest { replica_id: -1, isolation_level, topics: vec![topic], ..Default::default() };
        self.ask(LIST_OFFSETS, &request);
        let response = self.answer::<ListOffsetsRequest>(LIST_OFFSETS).expect("it is answered at once");
        assert_eq!(response.topics[0].partitions[0].offset, expect, "isolation {isolation_level}");
    }
}

pub(super) fn frame<R: Request>(version: i16, body: &R) -> Bytes {
    let header = riprap_protocol::frame::RequestHeader {
        api_key: R::KEY,
        api_version: version,
        correlation_id: 1,
        client_id: None,
    };
    riprap_protocol::frame::encode_request(&header, body).expect("it fits its version")
}

/// A fetch from the topic `t`.
pub(super) fn fetch_request(
    isolation_level: i8,
    fetch_offset: i64,
    max_wait_ms: i32,
    max_bytes: i32,
) -> FetchRequest {
    let partition =
        FetchRequestPartition { fetch_offset, partition_max_bytes: max_bytes, ..Default::default() };
    let topic = FetchRequestTopic { name: "t".to_owned(), partitions: vec![partition], ..Default::default() };
    FetchRequest {
        replica_id: -1,
        max_wait_ms,
        min_bytes: 1,
        max_bytes,
        session_epoch: -1,
        isolation_level,
        topics: vec![topic],
        ..Default::default()
    }
}

#[test]
fn committed_records_end_at_the_last_stable_offset() {
    const UNCOMMITTED: i8 = 0;
    let record = || BatchBuilder::new().record(0, None, Some(b"v"));
    let of = |producer_id| record().producer(producer_id, 0, 0).transactional();
    let marker =
        |result, producer_id| EndTxnMarker { result, coordinator_epoch: 0 }.to_batch(producer_id, 0, 0);
    let mut play = Play::new();
    play.append(record());
    play.append(of(1));
    play.append(of(2));
    play.append(marker(TxnResult::Abort, 1));
    play.append(record());

    // The transaction of producer 2 is open from offset 2 on.
    play.check(UNCOMMITTED, 0, (5, 2, None));
    play.check(READ_COMMITTED, 0, (2, 2, Some(vec![(1, 1)])));
    play.check(READ_COMMITTED, 2, (-1, 2, Some(vec![])));
    play.check_latest(UNCOMMITTED, 5);
    play.check_latest(READ_COMMITTED, 2);

    // Who waits for what comes after it is answered when it ends.
    play.fetch(READ_COMMITTED, 2, 10_000);
    play.append(record());
    assert_eq!(play.fetched(), None);
    play.append(marker(TxnResult::Commit, 2));
    assert_eq!(play.fetched(), Some((7, 7, Some(vec![(1, 1)]))));
    play.check(READ_COMMITTED, 4, (7, 7, Some(vec![])));
    play.check(READ_COMMITTED, 3, (7, 7, Some(vec![(1, 1)])));
    play.check_latest(READ_COMMITTED, 7);
}
