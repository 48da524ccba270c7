//! Markers that come late: the producer keeps its epoch from transaction to transaction, so that nothing in a marker says
//! which of them it means.

use crate::flow::{Flow, Line};
use crate::stage::{Stage, TOPIC, Ticket, at, to_controller};
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::*;
use riprap_protocol::records::BatchBuilder;

const TRANSACTIONS_TOPIC: &str = "__transaction_state";
const ID: &str = "id";

/// A transactional producer of the older way, whose coordinator is n3.
struct Producer {
    id: i64,
    epoch: i16,
    sequence: i32,
}

/// Orders of the coordinator to the partition's leader.
fn orders() -> Flow {
    Flow::requests(at(3), at(1), Line::Markers)
}

impl Producer {
    fn new(stage: &mut Stage) -> Producer {
        stage.make_topic_on(TRANSACTIONS_TOPIC, &[3, 2, 1]);
        let body = InitProducerIdRequest {
            transactional_id: Some(ID.to_owned()),
            transaction_timeout_ms: 600_000,
            ..Default::default()
        };
        let mut found = InitProducerIdResponse::default();
        stage.until("the producer has an id", |stage| {
            found = stage.ask(3, 4, body.clone()).unwrap_or_default();
            found.error_code.is_none() && found.producer_id >= 0
        });
        Producer { id: found.producer_id, epoch: found.producer_epoch, sequence: 0 }
    }

    /// Begins a transaction, or goes on with it, by writing a value where `leader` leads.
    fn write(&mut self, stage: &mut Stage, leader: i32, value: u64) {
        let body = AddPartitionsToTxnRequest {
            transactional_id: ID.to_owned(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            topics: vec![AddPartitionsToTxnRequestTopic { name: TOPIC.to_owned(), partitions: vec![0] }],
            ..Default::default()
        };
        stage.until("the partition is added", |stage| {
            let added = stage.ask(3, 3, body.clone()).expect("the coordinator answers");
            added.results_by_topic[0].results_by_partition[0].error_code.is_none()
        });
        let batch = BatchBuilder::new().transactional().producer(self.id, self.epoch, self.sequence).record(
            0,
            None,
            Some(&value.to_be_bytes()),
        );
        let partition = ProduceRequestPartition { index: 0, records: Some(batch.build()) };
        let topic = ProduceRequestTopic { name: TOPIC.to_owned(), partitions: vec![partition] };
        let body = ProduceRequest {
            transactional_id: Some(ID.to_owned()),
            acks: -1,
            timeout_ms: 20_000,
            topics: vec![topic],
        };
        stage.until(&format!("{value} is written"), |stage| {
            let written = stage.ask(leader, 9, body.clone()).expect("the leader answers");
            written.topics[0].partitions[0].error_code.is_none()
        });
        self.sequence += 1;
    }

    fn commit(&self, stage: &mut Stage) -> Ticket<EndTxnRequest> {
        let body = EndTxnRequest {
            transactional_id: ID.to_owned(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            committed: true,
        };
        stage.send(3, 1, body)
    }

    fn commit_acked(&self, stage: &mut Stage) {
        let ticket = self.commit(stage);
        let ended = stage.wait(&ticket, 20_000).expect("the coordinator answers");
        assert_eq!(ended.error_code, ErrorCode::NONE);
    }
}

/// A marker for the first transaction is written again and again, lost and late: then the second is open, and nothing ends it.
fn check_is_open(stage: &mut Stage, leader: i32, before: i64) {
    stage.run_ms(500);
    assert_eq!(stage.log_end(leader), before, "a marker has come late");
}

/// Nor over a connection that the coordinator has given up: what it asked for over it, it has asked for again.
#[test]
fn a_connection_that_was_given_up_brings_no_marker() {
    let mut stage = Stage::new(TOPIC, |config| config.peer_timeout_ms = 700);
    let mut producer = Producer::new(&mut stage);
    // So that it is known what the connection is used for.
    producer.write(&mut stage, 1, 1);
    producer.commit_acked(&mut stage);
    stage.until_log_ends(1, 2);
    producer.write(&mut stage, 1, 2);
    stage.world.hold_open(orders());
    producer.commit_acked(&mut stage);
    // Over another connection.
    stage.until_log_ends(1, 4);
    producer.write(&mut stage, 1, 3);
    let before = stage.log_end(1);
    stage.world.release(orders());
    check_is_open(&mut stage, 1, before);
    producer.commit_acked(&mut stage);
    stage.until_log_ends(1, before + 1);
}

/// Nor to a leader that led when it was ordered, was replaced, and leads again.
#[test]
fn a_leader_that_leads_again_writes_no_marker_of_before() {
    let mut stage = Stage::new(TOPIC, |config| config.peer_timeout_ms = 700);
    let mut producer = Producer::new(&mut stage);
    producer.write(&mut stage, 1, 1);
    producer.commit_acked(&mut stage);
    stage.until_log_ends(1, 2);
    producer.write(&mut stage, 1, 2);
    stage.world.hold(orders());
    producer.commit_acked(&mut stage);
    // The controller misses n1; the order is repeated to n2, which leads now.
    stage.world.hold(to_controller(1));
    stage.until_leader(2);
    stage.until_log_ends(2, 4);
    producer.write(&mut stage, 2, 3);
    stage.world.release(to_controller(1));
    stage.until_isr(&[1, 2, 3]);
    stage.world.kill(at(2));
    stage.until_leader(1);
    let before = stage.log_end(1);
    stage.world.release(orders());
    check_is_open(&mut stage, 1, before);
    producer.commit_acked(&mut stage);
    stage.until_log_ends(1, before + 1);
}
