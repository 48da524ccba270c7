//! Rules of replication and of coordinators whose breach random weather does not show: each has a scenario here in which
//! a cluster without the rule loses or takes back what it told its clients.
//!
//! `C`, `A` and `B` below are n1, n2 and n3, in the order in which they are preferred as leaders.

use crate::stage::{OFFSETS_TOPIC, Stage, TOPIC, at, fetched, fetches, raft, to_controller};
use crate::world::MS;
use riprap_broker::Fsync;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::*;
use riprap_protocol::records::BatchBuilder;

/// A follower joins the ISR of a new leader only once it has all that there was when the leadership began: the high
/// watermark that the leader knows lags behind what the last one acknowledged.
///
/// C commits record 2 with A while B, out of the ISR, lacks it; C dies before A hears that it is committed. A counts on a
/// high watermark of 1, and B has 1. If B joins and A dies, B leads without record 2.
#[test]
fn a_follower_joins_once_it_has_what_was_there_when_the_leadership_began() {
    let mut stage = Stage::new(TOPIC, |config| config.replica_lag_ms = 1500);
    stage.produce_acked(1, 1);
    stage.until_log_ends(3, 1);
    stage.run_ms(300);
    stage.world.hold(fetches(3, 1));
    stage.until_isr(&[1, 2]);
    stage.produce_acked(1, 2);
    stage.world.kill(at(1));
    // What A tells B does not arrive: B stays where it is.
    stage.world.hold(fetched(2, 3));
    stage.until_leader(2);
    stage.run_ms(500);
    stage.world.kill(at(2));
    stage.run_ms(3000);
    stage.finish();
}

/// The answer to a fetch of an earlier epoch is not used, even if it comes from who leads now, about a log that ends
/// where it ended then (KAFKA-18991).
///
/// C appends record 2, only B gets it; C dies, and A leads without it. A tells B to cut it off, and the answer is on its
/// way while B becomes leader, commits record 2 with A, is read, and A leads again. If B now obeys and A dies, B leads
/// without record 2.
#[test]
fn an_answer_of_an_earlier_epoch_is_not_used() {
    let mut stage = a_leads_and_b_has_more();
    stage.world.hold(fetched(2, 3));
    stage.world.release(fetches(3, 2));
    stage.run_ms(100);
    // A is silent: B leads.
    stage.world.hold(to_controller(2));
    stage.until_leader(3);
    stage.world.release(to_controller(2));
    stage.until_isr(&[2, 3]);
    stage.until("record 2 is read", |stage| {
        stage.fetch(3, 1, -1);
        stage.history.seen.get(&(0, 1)) == Some(&2)
    });
    // B is silent: A leads again, and B can be elected if A dies.
    stage.world.hold(to_controller(3));
    stage.until_leader(2);
    stage.run_ms(50);
    stage.world.hold(fetches(3, 2));
    stage.world.release(fetched(2, 3));
    stage.run_ms(50);
    stage.world.kill(at(2));
    stage.world.release(to_controller(3));
    stage.until_leader(3);
    stage.finish();
}

/// What a diverging follower fetches from counts for nothing.
///
/// C appends record 2, only B gets it; C dies, A leads without it, and appends record 3 at the same offset. B's fetch
/// names an end above that, of another log. If it counted, record 3 would be acknowledged, and be lost with A.
#[test]
fn a_fetch_of_a_diverging_log_does_not_count() {
    let mut stage = a_leads_and_b_has_more();
    stage.world.hold(fetched(2, 3));
    let ticket = stage.produce(2, 3);
    stage.until_log_ends(2, 2);
    stage.world.release(fetches(3, 2));
    stage.run_ms(500);
    let _may_be_acked = stage.produced(&ticket, 3, 0);
    stage.world.kill(at(2));
    stage.until_leader(3);
    stage.finish();
}

/// Record 1 is everywhere. Record 2 is in C, which is dead, and in B; A leads, and B's fetches do not reach it yet.
fn a_leads_and_b_has_more() -> Stage {
    let mut stage = Stage::new(TOPIC, |_| {});
    stage.produce_acked(1, 1);
    stage.until_log_ends(2, 1);
    stage.until_log_ends(3, 1);
    // The fetch that waits at C ends first, so that record 2 finds none.
    stage.world.hold(fetches(2, 1));
    stage.run_ms(300);
    let _in_doubt = stage.produce(1, 2);
    stage.until_log_ends(3, 2);
    stage.world.kill(at(1));
    stage.world.hold(fetches(3, 2));
    stage.until_leader(2);
    assert_eq!(stage.log_end(2), 1, "A did not get record 2");
    stage
}

/// A new coordinator tells nothing of what it found in its log before that is committed.
///
/// C appends the commit of 6, only A gets it; C dies, and A leads. If it answered from its log, 6 would be told, and with
/// A's death be lost.
#[test]
fn a_coordinator_loads_what_is_committed() {
    let mut stage = Stage::new(OFFSETS_TOPIC, |_| {});
    stage.commit_acked(1, 5);
    let end = stage.log_end(1);
    stage.until_log_ends(3, end);
    stage.world.hold(fetches(3, 1));
    stage.world.hold(fetches(3, 2));
    stage.run_ms(300);
    let _in_doubt = stage.commit(1, 6);
    stage.until("A has the commit of 6", |stage| stage.log_end(2) > end);
    stage.world.kill(at(1));
    stage.until_leader(2);
    stage.run_ms(300);
    let told = stage.committed(2);
    stage.world.kill(at(2));
    stage.until_leader(3);
    stage.world.start(at(1));
    let mut found = Err(ErrorCode::NONE);
    stage.until("B answers for the group", |stage| {
        found = stage.committed(3);
        found.is_ok()
    });
    assert!(found >= told || told.is_err(), "{told:?} was committed, and then {found:?}");
}

/// A coordinator that may have been replaced does not say what is committed.
#[test]
fn a_coordinator_out_of_touch_does_not_answer() {
    let mut stage = Stage::new(OFFSETS_TOPIC, |_| {});
    stage.commit_acked(1, 5);
    (2..=5).for_each(|other| stage.world.cut(at(1), at(other)));
    stage.until_leader(2);
    stage.commit_acked(2, 6);
    let told = stage.committed(1);
    assert!(told.is_err() || told == Ok(6), "6 was committed, {told:?} is told");
}

/// Nor does it if the controller that it is in touch with may have been replaced: a controller does not live on what was
/// said long ago.
///
/// What the voters say reaches n5, the controller, ever later; then n5 and C are cut off together. The others elect a
/// controller, and that a leader in C's place, while n5 would still hear, late, that it is one.
#[test]
fn a_coordinator_in_touch_with_an_old_controller_does_not_answer() {
    const LATE_NS: u64 = 1800 * MS;
    let mut stage = Stage::new(OFFSETS_TOPIC, |config| {
        // The same for all, and as a cluster has them that nobody configured; but C is not to be a controller.
        if config.id.0 != 1 {
            config.election_timeout_ms = 600;
        }
        config.session_timeout_ms = 2000;
        config.heartbeat_interval_ms = 300;
    });
    assert_eq!(stage.controller(5), 5, "n5 is the controller");
    stage.commit_acked(1, 5);
    for step in 1..=10 {
        (1..=4).for_each(|voter| stage.world.delay(raft(voter, 5), LATE_NS * step / 10));
        stage.run_ms(400);
    }
    for other in 2..=4 {
        stage.world.cut(at(1), at(other));
        stage.world.hold(raft(5, other));
    }
    stage.until("n2 leads", |stage| stage.describe(4, OFFSETS_TOPIC).partitions[0].leader_id == 2);
    stage.commit_acked(2, 6);
    let told = stage.committed(1);
    assert!(told.is_err() || told == Ok(6), "6 was committed, {told:?} is told");
}

/// Nor if a voter has forgotten, in a new life, that it is bound to the controller that it heard last.
///
/// n4 and n2 have not heard n5, the controller, for an election timeout; n3 has, just before it starts anew. The three
/// elect another controller, and that n2 in C's place, while n5 and C, cut off together, count on n3.
#[test]
fn a_coordinator_in_touch_with_a_forgotten_controller_does_not_answer() {
    let mut stage = Stage::new(OFFSETS_TOPIC, |config| {
        // What n5 may count on n3 for is long against what it may count on its session for.
        config.election_timeout_ms = 1200;
        config.session_timeout_ms = 1000;
        config.peer_timeout_ms = 300;
    });
    assert_eq!(stage.controller(5), 5, "n5 is the controller");
    stage.commit_acked(1, 5);
    stage.world.hold(raft(5, 4));
    stage.world.hold(raft(5, 2));
    stage.until("n4 asks for votes", |stage| stage.controller(4) == -1);
    (2..=4).for_each(|other| stage.world.cut(at(5), at(other)));
    (2..=4).for_each(|other| stage.world.cut(at(1), at(other)));
    stage.world.kill(at(3));
    stage.world.start(at(3));
    stage.until("n2 leads", |stage| {
        stage.describe(4, OFFSETS_TOPIC).partitions.first().is_some_and(|partition| partition.leader_id == 2)
    });
    stage.commit_acked(2, 6);
    let told = stage.committed(1);
    assert!(told.is_err() || told == Ok(6), "6 was committed, {told:?} is told");
}

/// A leader that may have been replaced refuses nothing for good: what it misses may be its successor's.
#[test]
fn a_replaced_leader_refuses_nothing_for_good() {
    let batch = |sequence: i32, value: u64| {
        BatchBuilder::new().producer(1000, 0, sequence).record(0, None, Some(&value.to_be_bytes()))
    };
    let mut stage = Stage::new(TOPIC, |_| {});
    let ticket = stage.produce_batch(1, batch(0, 1));
    assert_eq!(stage.produced(&ticket, 1, 1000), Some(ErrorCode::NONE));
    (2..=5).for_each(|other| stage.world.cut(at(1), at(other)));
    stage.until_leader(2);
    stage.run_ms(200);
    let ticket = stage.produce_batch(2, batch(1, 2));
    assert_eq!(stage.produced(&ticket, 2, 1000), Some(ErrorCode::NONE));
    stage.make_other_topic("u");
    let epoch = stage.state().epoch;

    let mut wrong = Vec::new();
    let mut check = |what: &str, answer: String, is_right: bool| {
        if !is_right {
            wrong.push(format!("{what} is answered with {answer}"));
        }
    };
    for last_epoch in [-1, epoch] {
        let answer = stage.fetch(1, 2, last_epoch);
        let is_right = answer.error_code == ErrorCode::NOT_LEADER_OR_FOLLOWER;
        let answer = format!("{} {:?}", answer.error_code, answer.diverging_epoch);
        check(&format!("a fetch after the successor's record, last epoch {last_epoch},"), answer, is_right);
    }
    let ticket = stage.produce_batch(1, batch(2, 3));
    let code = stage.produced(&ticket, 3, 1000);
    check(
        "a sequence number that the successor awaits",
        format!("{code:?}"),
        code == Some(ErrorCode::NOT_LEADER_OR_FOLLOWER),
    );
    let latest = ListOffsetsRequestPartition { index: 0, current_leader_epoch: -1, timestamp: -1 };
    let topic = ListOffsetsRequestTopic { name: TOPIC.to_owned(), partitions: vec![latest] };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let answer = stage.ask(1, 5, request).expect("it answers").topics[0].partitions[0].clone();
    let is_right = answer.error_code == ErrorCode::NOT_LEADER_OR_FOLLOWER;
    check("the question for the end", format!("{} {}", answer.error_code, answer.offset), is_right);
    let asked =
        OffsetForLeaderEpochRequestPartition { index: 0, current_leader_epoch: -1, leader_epoch: epoch };
    let topic = OffsetForLeaderEpochRequestTopic { name: TOPIC.to_owned(), partitions: vec![asked] };
    let request = OffsetForLeaderEpochRequest { replica_id: -1, topics: vec![topic] };
    let answer = stage.ask(1, 3, request).expect("it answers").topics[0].partitions[0].clone();
    let is_right = answer.error_code == ErrorCode::NOT_LEADER_OR_FOLLOWER;
    check(
        "the question for the epoch's end",
        format!("{} {}", answer.error_code, answer.end_offset),
        is_right,
    );
    let code = stage.describe(1, "u").error_code;
    check("the question for a topic made since", code.to_string(), code == ErrorCode::LEADER_NOT_AVAILABLE);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    stage.finish();
}

/// A broker that comes back after its process ended unheard may lack what it had: it is elected no more for having been
/// in the ISR when that fell below its minimum. Source: KIP-966, "Unclean shutdown".
///
/// Nobody syncs. C and A commit record 2; A loses its power and with it both records; C leads alone, and dies. If A, back
/// with an empty log, were elected, all would be lost.
#[test]
fn a_broker_that_comes_back_is_eligible_no_more() {
    let mut stage = Stage::new(TOPIC, |config| {
        config.fsync = Fsync::Never;
        config.replica_lag_ms = 1500;
    });
    stage.produce_acked(1, 1);
    stage.world.hold(fetches(3, 1));
    stage.until_isr(&[1, 2]);
    stage.produce_acked(1, 2);
    stage.world.lose_unsynced(at(2));
    stage.until_isr(&[1]);
    stage.world.kill(at(1));
    stage.until_leader(-1);
    stage.world.start(at(2));
    stage.run_ms(3000);
    stage.finish();
}

/// A broker that may have lost what it acknowledged is not the one that has everything for being the last in the ISR: who
/// left before it is waited for. Source: KIP-966, "Unclean shutdown".
///
/// Nothing is synced for an hour. C and A commit record 2; C is killed; A, now alone in the ISR, loses its power and is
/// back. If it led, record 2 would be cut off C's log.
#[test]
fn the_last_in_sync_that_lost_its_power_does_not_lead() {
    let mut stage = Stage::new(TOPIC, |config| {
        config.fsync = Fsync::Interval;
        config.flush_interval_ms = 3_600_000;
        config.replica_lag_ms = 1500;
    });
    stage.produce_acked(1, 1);
    stage.world.hold(fetches(3, 1));
    stage.world.hold(fetches(3, 2));
    stage.until_isr(&[1, 2]);
    stage.produce_acked(1, 2);
    stage.world.kill(at(1));
    stage.until_isr(&[2]);
    stage.world.lose_unsynced(at(2));
    stage.world.start(at(2));
    stage.until_isr(&[1]);
    stage.run_ms(3000);
    assert_eq!(stage.state().leader, -1);
    stage.finish();
}

/// A wish for another ISR that names an older state than there is comes too late: its leader does not count on it any
/// more.
///
/// C asks for B to join, and does not hear of it; B lags again; C asks anew, without B, and is granted that. Then it
/// commits record 2 with A alone, and the first request arrives. If it were granted, B could lead without record 2.
#[test]
fn a_late_wish_for_an_isr_is_refused() {
    let mut stage = Stage::new(TOPIC, |config| {
        config.replica_lag_ms = 500;
        config.peer_timeout_ms = 1500;
        config.session_timeout_ms = 4000;
    });
    stage.produce_acked(1, 1);
    stage.until_log_ends(3, 1);
    stage.world.hold(fetches(3, 1));
    stage.until_isr(&[1, 2]);
    stage.world.hold_open(to_controller(1));
    stage.world.release(fetches(3, 1));
    // Long enough for B to fetch and C to ask.
    stage.run_ms(400);
    stage.world.hold(fetches(3, 1));
    stage.produce_acked(1, 2);
    assert_eq!(stage.state().isr, [1, 2], "B did not join");
    stage.world.release(to_controller(1));
    stage.run_ms(100);
    stage.world.kill(at(1));
    stage.world.kill(at(2));
    stage.run_ms(6000);
    stage.finish();
}
