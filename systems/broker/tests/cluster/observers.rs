//! A broker that is no voter joins a running cluster, has copies, leads, dies, comes back, and is removed again: told step
//! by step on a [`Stage`], and held against what clients were told on the way.

use crate::flow::{Flow, Line};
use crate::moves::{controller_anew, elect, reassign, until_moved};
use crate::stage::{OBSERVER, Stage, TOPIC, at};
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::*;

const ALL: [i32; 6] = [1, 2, 3, 4, 5, 6];
const VOTERS: [i32; 5] = [1, 2, 3, 4, 5];

/// n6 starts and takes part.
fn join(stage: &mut Stage) {
    stage.world.start(at(OBSERVER));
    until_it_takes_part(stage);
}

fn until_it_takes_part(stage: &mut Stage) {
    stage.until("n6 takes part, and knows it", |stage| {
        stage.live_brokers(2) == ALL && stage.live_brokers(OBSERVER) == ALL
    });
}

/// Asked of `asked`, which passes it on.
fn unregister(stage: &mut Stage, asked: i32) -> ErrorCode {
    let request = UnregisterBrokerRequest { broker_id: OBSERVER };
    stage.ask(asked, 0, request).expect("the request is answered").error_code
}

#[test]
fn a_broker_joins_while_records_are_produced_and_goes_again() {
    let mut stage = Stage::with_observer(TOPIC, |_| {});
    stage.produce_acked(1, 1);
    assert_eq!(stage.live_brokers(2), VOTERS);
    join(&mut stage);
    // Partitions move to it, and it leads.
    assert_eq!(reassign(&mut stage, Some(&[6, 2, 3])), ErrorCode::NONE);
    let ticket = stage.produce(1, 2);
    let _answered = stage.produced(&ticket, 2, 20_000);
    until_moved(&mut stage);
    stage.until_leader(OBSERVER);
    stage.produce_acked(OBSERVER, 3);
    stage.fetch(OBSERVER, 0, -1);
    assert!(stage.history.seen.len() >= 2, "records are read where they moved to: {:?}", stage.history.seen);
    // It dies and comes back.
    stage.world.kill(at(OBSERVER));
    stage.until_leader(2);
    stage.produce_acked(2, 4);
    stage.world.start(at(OBSERVER));
    stage.until_isr(&[2, 3, 6]);
    assert_eq!(elect(&mut stage, 0), ErrorCode::NONE);
    stage.until_leader(OBSERVER);
    stage.produce_acked(OBSERVER, 5);
    stage.world.power_fail(at(OBSERVER));
    stage.until_leader(2);
    stage.world.start(at(OBSERVER));
    stage.until_isr(&[2, 3, 6]);
    // What it has moves away, it ends in order, and is unregistered.
    assert_eq!(reassign(&mut stage, Some(&[1, 2, 3])), ErrorCode::NONE);
    until_moved(&mut stage);
    assert_eq!(elect(&mut stage, 0), ErrorCode::NONE);
    stage.until_leader(1);
    stage.produce_acked(1, 6);
    stage.world.stop(at(OBSERVER));
    stage.until("n6 has ended", |stage| !stage.world.is_up(at(OBSERVER)));
    assert_eq!(stage.registered_brokers(), ALL);
    assert_eq!(unregister(&mut stage, 2), ErrorCode::NONE);
    stage.run_ms(3000);
    assert_eq!(stage.registered_brokers(), VOTERS, "it is gone for good");
    assert_eq!(unregister(&mut stage, 2), ErrorCode::BROKER_ID_NOT_REGISTERED);
    // Unless it is started again.
    join(&mut stage);
    stage.finish();
}

#[test]
fn it_follows_the_next_controller() {
    let mut stage = Stage::with_observer(TOPIC, |_| {});
    join(&mut stage);
    assert_eq!(reassign(&mut stage, Some(&[6, 2, 3])), ErrorCode::NONE);
    until_moved(&mut stage);
    stage.until_leader(OBSERVER);
    stage.produce_acked(OBSERVER, 1);
    controller_anew(&mut stage);
    until_it_takes_part(&mut stage);
    stage.until("it leads", |stage| {
        let leader = stage.state().leader;
        leader == OBSERVER || elect(stage, 0) == ErrorCode::NONE
    });
    stage.until_leader(OBSERVER);
    stage.produce_acked(OBSERVER, 2);
    // A topic that the next controller makes has copies there too, and administrators may ask it.
    stage.make_topic_on("u", &[OBSERVER, 1, 2]);
    let request = UnregisterBrokerRequest { broker_id: 9 };
    let answered = stage.ask(OBSERVER, 0, request).expect("it passes the request on");
    assert_eq!(answered.error_code, ErrorCode::BROKER_ID_NOT_REGISTERED);
    assert_eq!(reassign(&mut stage, Some(&[1, 2, 3])), ErrorCode::NONE);
    until_moved(&mut stage);
    stage.finish();
}

/// One that is unregistered while it runs does not register itself again: that life of it is over.
#[test]
fn a_life_that_was_unregistered_does_not_come_back() {
    let mut stage = Stage::with_observer(TOPIC, |_| {});
    stage.produce_acked(1, 1);
    join(&mut stage);
    assert_eq!(unregister(&mut stage, OBSERVER), ErrorCode::NONE);
    stage.run_ms(3000);
    assert_eq!(stage.registered_brokers(), VOTERS);
    controller_anew(&mut stage);
    assert_eq!(stage.registered_brokers(), VOTERS, "the next controller knows it too");
    stage.world.kill(at(OBSERVER));
    join(&mut stage);
    stage.finish();
}

/// Its wish to be registered comes twice, and late: after it was unregistered.
#[test]
fn a_late_wish_to_register_brings_nobody_back() {
    let mut stage = Stage::with_observer(TOPIC, |config| config.peer_timeout_ms = 600);
    let wishes = Flow::requests(at(OBSERVER), at(5), Line::Other);
    stage.world.start(at(OBSERVER));
    // It has sent it, and sends it again on another connection.
    stage.run_ms(20);
    stage.world.hold_open(wishes);
    until_it_takes_part(&mut stage);
    stage.world.kill(at(OBSERVER));
    assert_eq!(unregister(&mut stage, 2), ErrorCode::NONE);
    stage.world.release(wishes);
    stage.run_ms(3000);
    assert_eq!(stage.registered_brokers(), VOTERS);
    stage.finish();
}

/// A broker that was told another cluster's name, and one too many.
#[test]
fn a_stranger_stays_one() {
    let mut stage = Stage::with_observer(TOPIC, |config| {
        if config.id.0 == OBSERVER {
            config.cluster_id = "another".to_owned();
        }
    });
    stage.produce_acked(1, 1);
    stage.world.start(at(OBSERVER));
    stage.run_ms(5000);
    assert_eq!(stage.registered_brokers(), VOTERS);
    stage.finish();
}
