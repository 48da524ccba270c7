//! Transactions as clients speak them, with one broker: those that add partitions themselves, in the versions of
//! librdkafka, and those whose epoch rises with each transaction, in the newest.

mod bench;

use bench::Bench;
use bytes::Bytes;
use riprap_env::ConnId;
use riprap_protocol::messages::*;
use riprap_protocol::records::{BatchBuilder, split_batches};
use riprap_protocol::{ErrorCode, Request};

const ID: &str = "payments";
const GROUP: &str = "g";

/// How a client speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Speaks {
    /// EndTxn version 1: one epoch for all transactions.
    Old,
    /// Transaction version 2.
    New,
}

use Speaks::{New, Old};

/// A transactional producer, and what it knows of itself.
struct Producer {
    speaks: Speaks,
    id: i64,
    epoch: i16,
    sequence: i32,
}

struct Cluster {
    bench: Bench,
    conn: ConnId,
}

impl Cluster {
    fn new() -> Cluster {
        let mut bench = Bench::new();
        let conn = bench.connect();
        let topic = CreateTopicsRequestTopic {
            name: "t".to_owned(),
            num_partitions: 2,
            replication_factor: 1,
            ..Default::default()
        };
        bench.ask(conn, 7, &CreateTopicsRequest { topics: vec![topic], ..Default::default() });
        for (key, key_type) in [(GROUP, 0), (ID, 1)] {
            let body = FindCoordinatorRequest { key: key.to_owned(), key_type, ..Default::default() };
            bench.ask(conn, 1, &body);
        }
        bench.wait_ms(1000);
        Cluster { bench, conn }
    }

    fn ask<R: Request>(&mut self, version: i16, body: &R) -> R::Response {
        self.bench.ask(self.conn, version, body)
    }

    fn init(&mut self, speaks: Speaks) -> Producer {
        let body = InitProducerIdRequest {
            transactional_id: Some(ID.to_owned()),
            transaction_timeout_ms: 10_000,
            ..Default::default()
        };
        loop {
            let found = self.ask(4, &body);
            if found.error_code.is_none() {
                let (id, epoch) = (found.producer_id, found.producer_epoch);
                return Producer { speaks, id, epoch, sequence: 0 };
            }
            assert_eq!(found.error_code, ErrorCode::CONCURRENT_TRANSACTIONS);
        }
    }

    fn add(&mut self, producer: &Producer, partition: i32) -> ErrorCode {
        let body = AddPartitionsToTxnRequest {
            transactional_id: ID.to_owned(),
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            topics: vec![AddPartitionsToTxnRequestTopic {
                name: "t".to_owned(),
                partitions: vec![partition],
            }],
            ..Default::default()
        };
        let added = self.ask(3, &body);
        added.results_by_topic[0].results_by_partition[0].error_code
    }

    /// Produces one record, without adding the partition.
    fn send(&mut self, producer: &mut Producer, partition: i32, value: &str) -> Result<i64, ErrorCode> {
        let batch = BatchBuilder::new()
            .transactional()
            .producer(producer.id, producer.epoch, producer.sequence)
            .record(0, None, Some(value.as_bytes()))
            .build();
        let version = if producer.speaks == New { 12 } else { 8 };
        let answer = self.produce(version, partition, batch);
        if answer.is_ok() && partition == 0 {
            producer.sequence += 1;
        }
        answer
    }

    fn produce(&mut self, version: i16, index: i32, batch: Bytes) -> Result<i64, ErrorCode> {
        self.produce_as(Some(ID.to_owned()), version, index, batch)
    }

    fn produce_as(
        &mut self,
        transactional_id: Option<String>,
        version: i16,
        index: i32,
        batch: Bytes,
    ) -> Result<i64, ErrorCode> {
        let partition = ProduceRequestPartition { index, records: Some(batch) };
        let body = ProduceRequest {
            transactional_id,
            acks: -1,
            timeout_ms: 1000,
            topics: vec![ProduceRequestTopic { name: "t".to_owned(), partitions: vec![partition] }],
        };
        let answer = &self.ask(version, &body).topics[0].partitions[0];
        if answer.error_code.is_none() { Ok(answer.base_offset) } else { Err(answer.error_code) }
    }

    /// Produces one record as its client would.
    fn write(&mut self, producer: &mut Producer, partition: i32, value: &str) -> i64 {
        if producer.speaks == Old {
            loop {
                match self.add(producer, partition) {
                    ErrorCode::NONE => break,
                    code => assert_eq!(code, ErrorCode::CONCURRENT_TRANSACTIONS),
                }
            }
        }
        self.send(producer, partition, value).expect("it is stored")
    }

    fn end(&mut self, producer: &mut Producer, committed: bool) -> ErrorCode {
        let body = EndTxnRequest {
            transactional_id: ID.to_owned(),
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            committed,
        };
        let ended = self.ask(if producer.speaks == New { 5 } else { 1 }, &body);
        if ended.error_code.is_none() && producer.speaks == New {
            (producer.id, producer.epoch, producer.sequence) = (ended.producer_id, ended.producer_epoch, 0);
        }
        ended.error_code
    }

    /// What a consumer is given of a partition from its beginning.
    fn read(&mut self, partition: i32, read_committed: bool) -> Vec<String> {
        let asked =
            FetchRequestPartition { index: partition, partition_max_bytes: 1 << 20, ..Default::default() };
        let body = FetchRequest {
            replica_id: -1,
            max_bytes: 1 << 20,
            isolation_level: read_committed.into(),
            topics: vec![FetchRequestTopic {
                name: "t".to_owned(),
                partitions: vec![asked],
                ..Default::default()
            }],
            ..Default::default()
        };
        let mut answer = self.ask(11, &body);
        let found = answer.topics.remove(0).partitions.remove(0);
        let aborted = found.aborted_transactions.unwrap_or_default();
        let mut open: Vec<i64> = Vec::new();
        let mut values = Vec::new();
        for batch in split_batches(found.records.unwrap_or_default()) {
            let batch = batch.expect("the broker sends whole batches");
            let header = batch.header();
            // As clients leave out what was aborted.
            let begins = aborted
                .iter()
                .filter(|a| a.producer_id == header.producer_id && a.first_offset == header.base_offset);
            open.extend(begins.map(|aborted| aborted.producer_id));
            if header.is_control() {
                open.retain(|id| *id != header.producer_id);
                continue;
            }
            if header.is_transactional() && open.contains(&header.producer_id) {
                continue;
            }
            for record in batch.records().expect("no compression") {
                let value = record.expect("a record").value.unwrap_or_default();
                values.push(String::from_utf8(value.to_vec()).expect("text"));
            }
        }
        values
    }

    fn commit_offset(&mut self, producer: &Producer, offset: i64) -> ErrorCode {
        if producer.speaks == Old {
            let body = AddOffsetsToTxnRequest {
                transactional_id: ID.to_owned(),
                producer_id: producer.id,
                producer_epoch: producer.epoch,
                group_id: GROUP.to_owned(),
            };
            while self.ask(3, &body).error_code == ErrorCode::CONCURRENT_TRANSACTIONS {}
        }
        self.stage_offset(producer, offset)
    }

    fn stage_offset(&mut self, producer: &Producer, committed_offset: i64) -> ErrorCode {
        let partition = TxnOffsetCommitRequestPartition { committed_offset, ..Default::default() };
        let body = TxnOffsetCommitRequest {
            transactional_id: ID.to_owned(),
            group_id: GROUP.to_owned(),
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            topics: vec![TxnOffsetCommitRequestTopic { name: "t".to_owned(), partitions: vec![partition] }],
            ..Default::default()
        };
        let version = if producer.speaks == New { 5 } else { 3 };
        self.ask(version, &body).topics[0].partitions[0].error_code
    }

    fn committed_offset(&mut self, require_stable: bool) -> Result<i64, ErrorCode> {
        let body = OffsetFetchRequest {
            group_id: GROUP.to_owned(),
            topics: Some(vec![OffsetFetchRequestTopic { name: "t".to_owned(), partitions: vec![0] }]),
            require_stable,
            ..Default::default()
        };
        let found = &self.ask(7, &body).topics[0].partitions[0];
        if found.error_code.is_none() { Ok(found.committed_offset) } else { Err(found.error_code) }
    }
}

#[test]
fn committed_counts_and_aborted_does_not() {
    for speaks in [Old, New] {
        let mut cluster = Cluster::new();
        let mut producer = cluster.init(speaks);
        let mut expect: Vec<String> = Vec::new();
        for (at, commits) in [true, false, true, true, false].into_iter().enumerate() {
            for nth in 0..2 {
                let value = format!("{at}.{nth}");
                cluster.write(&mut producer, 0, &value);
                if commits {
                    expect.push(value);
                }
            }
            let before: Vec<String> =
                expect.iter().filter(|v| !v.starts_with(&format!("{at}."))).cloned().collect();
            assert_eq!(cluster.read(0, true), before, "{speaks:?}: what is open is not read");
            assert_eq!(cluster.end(&mut producer, commits), ErrorCode::NONE);
            cluster.bench.wait_ms(100);
            assert_eq!(cluster.read(0, true), expect, "{speaks:?}, transaction {at}");
        }
        assert_eq!(cluster.read(0, false).len(), 10, "{speaks:?}: all is in the log");
        assert_eq!(producer.epoch, if speaks == New { 5 } else { 0 });
    }
}

#[test]
fn a_transaction_spans_partitions_and_offsets() {
    for (speaks, commits) in [(Old, true), (Old, false), (New, true), (New, false)] {
        let mut cluster = Cluster::new();
        let mut producer = cluster.init(speaks);
        cluster.write(&mut producer, 0, "a");
        producer.sequence = 0;
        cluster.write(&mut producer, 1, "b");
        assert_eq!(cluster.commit_offset(&producer, 7), ErrorCode::NONE);
        assert_eq!(cluster.committed_offset(false), Ok(-1));
        assert_eq!(cluster.committed_offset(true), Err(ErrorCode::UNSTABLE_OFFSET_COMMIT));
        assert_eq!(cluster.end(&mut producer, commits), ErrorCode::NONE);
        cluster.bench.wait_ms(100);
        let (values, offset) = if commits { (1, 7) } else { (0, -1) };
        assert_eq!((cluster.read(0, true).len(), cluster.read(1, true).len()), (values, values));
        assert_eq!(cluster.committed_offset(true), Ok(offset), "{speaks:?} {commits}");
    }
}

#[test]
fn a_new_producer_fences_the_old_one() {
    for speaks in [Old, New] {
        let mut cluster = Cluster::new();
        let mut old = cluster.init(speaks);
        cluster.write(&mut old, 0, "lost");
        let mut new = cluster.init(speaks);
        assert_eq!(cluster.read(0, true), Vec::<String>::new());
        let fenced =
            if speaks == New { ErrorCode::PRODUCER_FENCED } else { ErrorCode::INVALID_PRODUCER_EPOCH };
        assert_eq!(cluster.end(&mut old, true), fenced, "{speaks:?}");
        assert_eq!(cluster.send(&mut old, 0, "late"), Err(ErrorCode::INVALID_PRODUCER_EPOCH));
        // Where it has written nothing, its coordinator says so.
        old.sequence = 0;
        assert_eq!(cluster.send(&mut old, 1, "late"), Err(ErrorCode::INVALID_PRODUCER_EPOCH));
        assert_ne!(cluster.stage_offset(&old, 3), ErrorCode::NONE);
        cluster.write(&mut new, 0, "kept");
        assert_eq!(cluster.end(&mut new, true), ErrorCode::NONE);
        cluster.bench.wait_ms(100);
        assert_eq!(cluster.read(0, true), ["kept"]);
    }
}

#[test]
fn what_nobody_would_end_is_not_begun() {
    let mut cluster = Cluster::new();
    let mut producer = cluster.init(Old);
    // The partition was not added, be it before the first transaction or after it.
    assert_eq!(cluster.send(&mut producer, 0, "stray"), Err(ErrorCode::INVALID_TXN_STATE));
    assert_eq!(cluster.stage_offset(&producer, 3), ErrorCode::INVALID_TXN_STATE);
    cluster.write(&mut producer, 0, "a");
    assert_eq!(cluster.end(&mut producer, true), ErrorCode::NONE);
    cluster.bench.wait_ms(100);
    assert_eq!(cluster.send(&mut producer, 0, "stray"), Err(ErrorCode::INVALID_TXN_STATE));
    assert_eq!(cluster.read(0, false), ["a"]);
    // A batch of a transaction under the name of nobody.
    let batch =
        BatchBuilder::new().transactional().producer(77, 0, 0).record(0, None, Some(b"stray")).build();
    for version in [8, 11, 12] {
        assert!(cluster.produce(version, 0, batch.clone()).is_err(), "version {version}");
        let refused = Err(ErrorCode::INVALID_REQUEST);
        assert_eq!(cluster.produce_as(None, version, 0, batch.clone()), refused, "version {version}");
    }
}

#[test]
fn a_batch_that_is_sent_again_is_stored_once() {
    for speaks in [Old, New] {
        let mut cluster = Cluster::new();
        let mut producer = cluster.init(speaks);
        let first = cluster.write(&mut producer, 0, "a");
        producer.sequence = 0;
        assert_eq!(cluster.send(&mut producer, 0, "a"), Ok(first));
        assert_eq!(cluster.end(&mut producer, true), ErrorCode::NONE);
        cluster.bench.wait_ms(100);
        assert_eq!(cluster.read(0, true), ["a"], "{speaks:?}");
    }
}

#[test]
fn a_transaction_that_is_left_open_is_aborted() {
    for speaks in [Old, New] {
        let mut cluster = Cluster::new();
        let mut producer = cluster.init(speaks);
        cluster.write(&mut producer, 0, "a");
        cluster.bench.hang_up(cluster.conn);
        cluster.conn = cluster.bench.connect();
        cluster.bench.wait_ms(9000);
        let batch = BatchBuilder::new().record(0, None, Some(b"plain")).build();
        cluster.produce(8, 0, batch).expect("a record of no transaction is stored");
        assert_eq!(cluster.read(0, true), Vec::<String>::new(), "it waits for what came before");
        cluster.bench.wait_ms(2000);
        assert_eq!(cluster.read(0, true), ["plain"]);
        assert_ne!(cluster.end(&mut producer, true), ErrorCode::NONE);
        let mut next = cluster.init(speaks);
        cluster.write(&mut next, 0, "b");
        assert_eq!(cluster.end(&mut next, true), ErrorCode::NONE);
        cluster.bench.wait_ms(100);
        assert_eq!(cluster.read(0, true), ["plain", "b"]);
    }
}

#[test]
fn an_end_is_told_again_to_who_asks_again() {
    let mut cluster = Cluster::new();
    let mut producer = cluster.init(New);
    cluster.write(&mut producer, 0, "a");
    let before = (producer.id, producer.epoch);
    assert_eq!(cluster.end(&mut producer, true), ErrorCode::NONE);
    let told = (producer.id, producer.epoch);
    cluster.bench.wait_ms(100);
    (producer.id, producer.epoch) = before;
    assert_eq!(cluster.end(&mut producer, true), ErrorCode::NONE);
    assert_eq!((producer.id, producer.epoch), told);
    // In the next transaction, the same request is an old one.
    cluster.write(&mut producer, 0, "b");
    (producer.id, producer.epoch) = before;
    assert_eq!(cluster.end(&mut producer, true), ErrorCode::PRODUCER_FENCED);
    assert_eq!(cluster.read(0, true), ["a"]);
}

#[test]
fn an_operator_ends_what_nobody_else_does() {
    let mut cluster = Cluster::new();
    let mut producer = cluster.init(Old);
    cluster.write(&mut producer, 0, "a");
    let marker = |producer_epoch, coordinator_epoch| WriteTxnMarkersRequest {
        markers: vec![WriteTxnMarkersRequestMarker {
            producer_id: producer.id,
            producer_epoch,
            transaction_result: false,
            coordinator_epoch,
            topics: vec![WriteTxnMarkersRequestTopic { name: "t".to_owned(), partitions: vec![0, 9] }],
        }],
    };
    let mut check = |body: &WriteTxnMarkersRequest, expect: ErrorCode| {
        let answer = cluster.ask(1, body);
        let codes: Vec<ErrorCode> =
            answer.markers[0].topics[0].partitions.iter().map(|p| p.error_code).collect();
        assert_eq!(codes, [expect, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION]);
    };
    check(&marker(producer.epoch, 0), ErrorCode::NONE);
    check(&marker(producer.epoch + 1, 9), ErrorCode::NONE);
    check(&marker(producer.epoch, 9), ErrorCode::INVALID_PRODUCER_EPOCH);
    check(&marker(producer.epoch + 1, 8), ErrorCode::TRANSACTION_COORDINATOR_FENCED);
}
