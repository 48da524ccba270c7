//! Assignments: brought by the leader, kept by the log, asked for by members.

use crate::group::tests::check;

#[test]
fn assignments_wait_for_the_leader_and_the_log() {
    check(
        "
        > a join v=3
        > b join v=3
        > +400
        a: joined gen=1 range leader=a#1 members=a#1,b#2
        b: joined gen=1 range leader=a#1 as b#2
        > hold
        > b sync
        > b beat
        b: beat NONE
        > a sync a=0 b=1
        append 1: gen=1 [a#1,b#2]
        > describe
        CompletingRebalance  a#1 b#2
        > committed 1
        a: assigned 0
        b: assigned 1
        > describe
        Stable range a#1=0 b#2=1
        > b sync
        b: assigned 1
        ",
    );
}

#[test]
fn a_leader_that_repeats_itself_assigns_once() {
    // The second assignment would be what the next coordinator loads, while the members have the first.
    check(
        "
        > a join v=3
        > +200
        a: joined gen=1 range leader=a#1 members=a#1
        > hold
        > a sync a=0
        append 1: gen=1 [a#1]
        > a sync a=1
        a: sync REBALANCE_IN_PROGRESS
        > committed 1
        a: assigned 0
        > failover
        > describe
        Stable range a#1=0
        ",
    );
}

#[test]
fn an_assignment_that_the_log_refuses_is_nobodys() {
    for (refused, told) in [
        ("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR"),
        ("NOT_ENOUGH_REPLICAS", "COORDINATOR_NOT_AVAILABLE"),
        ("MESSAGE_TOO_LARGE", "UNKNOWN_SERVER_ERROR"),
    ] {
        check(&format!(
            "
            > a join v=3
            > b join v=3
            > +400
            a: joined gen=1 range leader=a#1 members=a#1,b#2
            b: joined gen=1 range leader=a#1 as b#2
            > hold
            > b sync
            > a sync a=0 b=1
            append 1: gen=1 [a#1,b#2]
            > refused 1 {refused}
            a: sync {told}
            b: sync {told}
            > describe
            PreparingRebalance  a#1 b#2
            > b join
            > a join
            a: joined gen=2 range leader=a#1 members=a#1,b#2
            b: joined gen=2 range leader=a#1 as b#2
            "
        ));
    }
}

#[test]
fn an_assignment_that_the_log_keeps_waiting_is_nobodys_even_if_it_comes() {
    check(
        "
        > a join v=3
        > +200
        a: joined gen=1 range leader=a#1 members=a#1
        > hold
        > a sync a=0
        append 1: gen=1 [a#1]
        > +5000
        a: sync REBALANCE_IN_PROGRESS
        > committed 1
        > describe
        PreparingRebalance  a#1
        > a join
        a: joined gen=2 range leader=a#1 members=a#1
        ",
    );
}

#[test]
fn an_assignment_that_a_rebalance_overtakes_is_nobodys() {
    check(
        "
        > a join v=3
        > +200
        a: joined gen=1 range leader=a#1 members=a#1
        > hold
        > a sync a=0
        append 1: gen=1 [a#1]
        > b join v=3
        a: sync REBALANCE_IN_PROGRESS
        > committed 1
        > a join
        a: joined gen=2 range leader=a#1 members=a#1,b#2
        b: joined gen=2 range leader=a#1 as b#2
        ",
    );
}
