//! Replicas that move, leaders that are chosen, brokers that leave in order and disks that are lost: told step by step on
//! a [`Stage`], and held against what clients were told on the way.

use crate::stage::{Stage, TOPIC, at, fetches};
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::*;

/// Whom reassignments and elections are asked of; it passes them on.
const ASKED: i32 = 2;

/// Asks for replicas, or that the reassignment be cancelled.
pub(crate) fn reassign(stage: &mut Stage, replicas: Option<&[i32]>) -> ErrorCode {
    let partition =
        AlterPartitionReassignmentsRequestPartition { index: 0, replicas: replicas.map(<[i32]>::to_vec) };
    let topic =
        AlterPartitionReassignmentsRequestTopic { name: TOPIC.to_owned(), partitions: vec![partition] };
    let request = AlterPartitionReassignmentsRequest { topics: vec![topic], ..Default::default() };
    let response = stage.ask(ASKED, 1, request).expect("the request is answered");
    response.topics[0].partitions[0].error_code
}

/// What is under way: replicas, those that are added, those that go.
pub(crate) fn under_way(stage: &mut Stage) -> Option<(Vec<i32>, Vec<i32>, Vec<i32>)> {
    let request = ListPartitionReassignmentsRequest::default();
    let response = stage.ask(ASKED, 0, request).expect("the request is answered");
    let partition = response.topics.first()?.partitions[0].clone();
    Some((partition.replicas, partition.adding_replicas, partition.removing_replicas))
}

pub(crate) fn elect(stage: &mut Stage, election_type: i8) -> ErrorCode {
    let topic = ElectLeadersRequestTopic { name: TOPIC.to_owned(), partitions: vec![0] };
    let request = ElectLeadersRequest { election_type, topics: Some(vec![topic]), ..Default::default() };
    let response = stage.ask(ASKED, 2, request).expect("the request is answered");
    response.topics[0].partitions[0].error_code
}

/// The controller is replaced by its next life, once the others are not bound to the one before any more: after their
/// election timeout.
pub(crate) fn controller_anew(stage: &mut Stage) {
    stage.world.kill(at(5));
    stage.run_ms(300);
    stage.world.start(at(5));
    stage.run_ms(65_000);
}

pub(crate) fn until_moved(stage: &mut Stage) {
    stage.until("nothing is under way", |stage| under_way(stage).is_none());
}

/// All three replicas move, one of them the leader, while records are produced; then they move back.
#[test]
fn replicas_move_and_take_all_with_them() {
    let mut stage = Stage::new(TOPIC, |_| {});
    stage.produce_acked(1, 1);
    assert_eq!(reassign(&mut stage, Some(&[4, 5, 3])), ErrorCode::NONE);
    let ticket = stage.produce(1, 2);
    let _answered = stage.produced(&ticket, 2, 20_000);
    until_moved(&mut stage);
    stage.until_leader(4);
    stage.until_isr(&[3, 4, 5]);
    stage.produce_acked(4, 3);
    stage.until("the old copies are removed", |stage| stage.log_end(1) == 0 && stage.log_end(2) == 0);
    stage.fetch(4, 0, -1);
    assert!(stage.history.seen.len() >= 2, "records are read where they moved to: {:?}", stage.history.seen);
    assert_eq!(reassign(&mut stage, Some(&[1, 2, 3])), ErrorCode::NONE);
    until_moved(&mut stage);
    stage.until_leader(1);
    stage.produce_acked(1, 4);
    stage.finish();
}

/// A replica that cannot catch up keeps the reassignment open, whoever dies meanwhile; nobody goes before, and it can be
/// cancelled.
#[test]
fn a_reassignment_waits_and_is_cancelled() {
    let mut stage = Stage::new(TOPIC, |_| {});
    stage.produce_acked(1, 1);
    for leader in [1, 2, 3] {
        stage.world.hold(fetches(4, leader));
    }
    assert_eq!(reassign(&mut stage, Some(&[4, 2, 3])), ErrorCode::NONE);
    assert_eq!(under_way(&mut stage), Some((vec![4, 2, 3, 1], vec![4], vec![1])));
    stage.produce_acked(1, 2);
    stage.world.kill(at(1));
    stage.until_leader(2);
    stage.produce_acked(2, 3);
    stage.world.start(at(1));
    stage.until_isr(&[1, 2, 3]);
    assert_eq!(under_way(&mut stage), Some((vec![4, 2, 3, 1], vec![4], vec![1])));
    assert_eq!(reassign(&mut stage, None), ErrorCode::NONE);
    assert_eq!(under_way(&mut stage), None);
    assert_eq!(reassign(&mut stage, None), ErrorCode::NO_REASSIGNMENT_IN_PROGRESS);
    for leader in [1, 2, 3] {
        stage.world.release(fetches(4, leader));
    }
    stage.run_ms(500);
    assert_eq!(stage.log_end(4), 0, "the copy that was not wanted any more is gone");
    stage.finish();
}

/// The controller dies in the midst of a reassignment: the next one ends it.
#[test]
fn a_reassignment_outlives_the_controller() {
    let mut stage = Stage::new(TOPIC, |_| {});
    stage.produce_acked(1, 1);
    for leader in [1, 2, 3] {
        stage.world.hold(fetches(4, leader));
    }
    assert_eq!(reassign(&mut stage, Some(&[4, 2, 3])), ErrorCode::NONE);
    controller_anew(&mut stage);
    for leader in [1, 2, 3] {
        stage.world.release(fetches(4, leader));
    }
    until_moved(&mut stage);
    stage.until_isr(&[2, 3, 4]);
    stage.run_ms(2000);
    assert_eq!(reassign(&mut stage, Some(&[1, 2, 3])), ErrorCode::NONE);
    until_moved(&mut stage);
    stage.finish();
}

/// A broker that is asked to end gives its leaderships away first, and ends at once.
#[test]
fn a_broker_that_leaves_in_order_gives_its_leaderships_away() {
    let mut stage = Stage::new(TOPIC, |config| config.session_timeout_ms = 15_000);
    stage.produce_acked(1, 1);
    let before_ns = stage.world.now_ns;
    stage.world.stop(at(1));
    stage.until("n1 has ended", |stage| !stage.world.is_up(at(1)));
    stage.until_leader(2);
    let took_ms = (stage.world.now_ns - before_ns) / crate::world::MS;
    assert!(took_ms < 1000, "it took {took_ms} ms, as if nobody had been told");
    stage.produce_acked(2, 2);
    // It comes back, and leads again if it is asked to.
    assert_eq!(elect(&mut stage, 0), ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE);
    stage.world.start(at(1));
    stage.until_isr(&[1, 2, 3]);
    assert_eq!(elect(&mut stage, 0), ErrorCode::NONE);
    stage.until_leader(1);
    assert_eq!(elect(&mut stage, 0), ErrorCode::ELECTION_NOT_NEEDED);
    stage.finish();
}

/// Who lost its disk comes back as a follower that has nothing, and gets it all again.
#[test]
fn a_lost_disk_is_filled_again() {
    let mut stage = Stage::new(TOPIC, |_| {});
    stage.produce_acked(1, 1);
    stage.world.kill(at(1));
    stage.world.lose_disk(at(1));
    stage.until_leader(2);
    stage.world.start(at(1));
    stage.produce_acked(2, 2);
    stage.until_isr(&[1, 2, 3]);
    assert_eq!(stage.state().leader, 2, "who has nothing does not lead");
    stage.finish();
}

/// The last replica in sync lost its disk: it must not lead, for what it had would be lost everywhere, and the others
/// would cut theirs off. Who left in time does, when it is back.
///
/// C and A have record 2, B has not. A dies, then C, which comes back with an empty disk.
#[test]
fn the_last_in_sync_that_lost_its_disk_does_not_lead() {
    let mut stage = Stage::new(TOPIC, |config| config.replica_lag_ms = 1500);
    stage.produce_acked(1, 1);
    stage.world.hold(fetches(3, 1));
    stage.until_isr(&[1, 2]);
    stage.produce_acked(1, 2);
    stage.world.kill(at(2));
    stage.until_isr(&[1]);
    stage.world.kill(at(1));
    stage.until_leader(-1);
    stage.world.lose_disk(at(1));
    stage.world.start(at(1));
    stage.world.kill(at(1));
    stage.world.start(at(1));
    stage.run_ms(3000);
    assert_eq!(stage.state().leader, -1, "who has nothing leads");
    stage.world.start(at(2));
    stage.until_leader(2);
    stage.world.release(fetches(3, 1));
    stage.finish();
}
