//! What leaders do to their logs, and what becomes of it on followers: told step by step, as in [`scenarios`](crate::scenarios).

use crate::stage::{OFFSETS_TOPIC, Stage, TOPIC, at, fetches};
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::*;

const EARLIEST: i64 = -2;

fn delete(topic: &str, offset: i64, timeout_ms: i32) -> DeleteRecordsRequest {
    let partition = DeleteRecordsRequestPartition { index: 0, offset };
    let topic = DeleteRecordsRequestTopic { name: topic.to_owned(), partitions: vec![partition] };
    DeleteRecordsRequest { topics: vec![topic], timeout_ms }
}

fn outcome(response: &DeleteRecordsResponse) -> Result<i64, ErrorCode> {
    let partition = &response.topics[0].partitions[0];
    if partition.error_code.is_none() { Ok(partition.low_watermark) } else { Err(partition.error_code) }
}

fn earliest(stage: &mut Stage, broker: i32) -> i64 {
    let partition = ListOffsetsRequestPartition { timestamp: EARLIEST, current_leader_epoch: -1, index: 0 };
    let topic = ListOffsetsRequestTopic { name: TOPIC.to_owned(), partitions: vec![partition] };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    stage.ask(broker, 5, request).expect("brokers answer").topics[0].partitions[0].offset
}

/// What was deleted is not there any more whoever leads: a deletion is answered once the followers that live know of it.
#[test]
fn what_was_deleted_stays_so() {
    let mut stage = Stage::new(TOPIC, |_| {});
    (1..=5).for_each(|value| stage.produce_acked(1, value));
    stage.until_log_ends(2, 5);
    stage.until_log_ends(3, 5);
    stage.run_ms(300);
    let check = |stage: &mut Stage, topic: &str, offset, expect| {
        let response = stage.ask(1, 2, delete(topic, offset, 1000)).expect("brokers answer");
        assert_eq!(outcome(&response), expect, "{topic} {offset}");
    };
    check(&mut stage, TOPIC, 6, Err(ErrorCode::OFFSET_OUT_OF_RANGE));
    check(&mut stage, TOPIC, -2, Err(ErrorCode::OFFSET_OUT_OF_RANGE));
    check(&mut stage, "no-such", 1, Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    check(&mut stage, "__consumer_offsets", 1, Err(ErrorCode::INVALID_TOPIC_EXCEPTION));
    check(&mut stage, TOPIC, 0, Ok(0));
    let of_follower = stage.ask(2, 2, delete(TOPIC, 1, 5000)).expect("brokers answer");
    assert_eq!(outcome(&of_follower), Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    check(&mut stage, TOPIC, 2, Ok(2));
    check(&mut stage, TOPIC, 1, Ok(2));
    assert_eq!(earliest(&mut stage, 1), 2);

    // A follower that lives and does not say that it knows is waited for.
    stage.world.hold(fetches(2, 1));
    stage.run_ms(300);
    check(&mut stage, TOPIC, 3, Err(ErrorCode::REQUEST_TIMED_OUT));
    let ticket = stage.send(1, 2, delete(TOPIC, -1, 2000));
    assert!(stage.wait(&ticket, 500).is_none());
    stage.world.release(fetches(2, 1));
    let response = stage.wait(&ticket, 5000).expect("the follower knows now");
    assert_eq!(outcome(&response), Ok(5));
    stage.history.acked.clear();

    stage.world.kill(at(1));
    stage.until_leader(2);
    assert_eq!(earliest(&mut stage, 2), 5);
    assert_eq!(stage.fetch(2, 4, -1).error_code, ErrorCode::OFFSET_OUT_OF_RANGE);
    stage.produce_acked(2, 6);
    assert_eq!(stage.fetch(2, 5, -1).log_start_offset, 5);
    stage.finish();
}

/// A follower that was away while all that it had was deleted begins anew where its leader does, within a batch.
#[test]
fn a_follower_that_was_away_begins_where_its_leader_does() {
    let mut stage = Stage::new(TOPIC, |config| config.segment_bytes = 300);
    stage.produce_acked(1, 1);
    stage.until_log_ends(3, 1);
    stage.world.kill(at(3));
    (2..=9).for_each(|value| stage.produce_acked(1, value));
    let response = stage.ask(1, 2, delete(TOPIC, 7, 2000)).expect("brokers answer");
    assert_eq!(outcome(&response), Ok(7), "who is dead is not waited for");
    stage.history.acked.retain(|(_, offset), _| *offset >= 7);
    stage.world.start(at(3));
    stage.until_isr(&[1, 2, 3]);
    stage.world.kill(at(1));
    stage.world.kill(at(2));
    // It may not lead alone as to what is committed; whoever leads then, begins there.
    stage.run_ms(2000);
    stage.world.start(at(1));
    stage.until("somebody leads", |stage| stage.state().leader > 0);
    let leader = stage.state().leader;
    stage.until("it says where its log begins", |stage| earliest(stage, leader) == 7);
    stage.finish();
}

/// What was known to be committed is known after all brokers died: consumers need not wait for enough replicas.
#[test]
fn what_is_committed_can_be_read_before_enough_replicas_are_back() {
    let mut stage = Stage::new(TOPIC, |_| {});
    stage.produce_acked(1, 1);
    stage.until_log_ends(3, 1);
    // Long enough for it to be written down.
    stage.run_ms(6000);
    stage.world.kill(at(2));
    stage.world.kill(at(3));
    stage.until_isr(&[1]);
    stage.world.kill(at(1));
    stage.world.start(at(1));
    // Its clients have noticed by then.
    stage.run_ms(1000);
    stage.until("the record is read", |stage| {
        stage.fetch(1, 0, -1);
        stage.history.seen.get(&(0, 0)) == Some(&1)
    });
    assert_eq!(stage.state().isr.len(), 1, "there is nobody else who could have said that it is committed");
    stage.finish();
}

/// What a group committed is found in a compacted log, whoever coordinates, and by a follower that gets it only then.
#[test]
fn a_coordinator_finds_in_a_compacted_log_what_was_committed() {
    let mut stage = Stage::new(OFFSETS_TOPIC, |config| {
        config.segment_bytes = 2000;
        config.cleaner_backoff_ms = 100;
        config.replica_lag_ms = 500;
    });
    stage.commit_acked(1, 1);
    stage.until_log_ends(3, 1);
    stage.world.kill(at(3));
    (2..=100).for_each(|offset| stage.commit_acked(1, offset));
    stage.until("the copies are compacted", |stage| [1, 2].iter().all(|id| stage.log_bytes(*id) < 6000));
    let end = stage.log_end(1);
    stage.world.start(at(3));
    stage.until_log_ends(3, end);
    stage.until_isr(&[1, 2, 3]);
    assert!(stage.log_bytes(3) < 6000, "it got what was left");
    for (leader, next) in [(1, 2), (2, 1)] {
        assert_eq!(stage.committed(leader), Ok(100));
        stage.world.kill(at(leader));
        stage.until_leader(next);
        stage.until("it is told", |stage| stage.committed(next) == Ok(100));
        stage.world.start(at(leader));
        stage.until_isr(&[1, 2, 3]);
    }
}
