//! Offsets: committed, looked up, refused, kept for a while, deleted.

use super::{ONE_MEMBER, TWO_MEMBERS, after};
use crate::group::tests::{GroupConfig, check, check_with};

#[test]
fn offsets_of_members() {
    after(
        ONE_MEMBER,
        "
        > a commit t0=5 t1=6 epoch=3 meta=m
        a: commit t0 NONE, t1 NONE
        > fetch t0 t2
        t0=5 epoch=3 meta=m
        t2=-1
        > fetch all
        t0=5 epoch=3 meta=m
        t1=6 epoch=3 meta=m
        > a commit t0=9 gen=0
        a: commit t0 ILLEGAL_GENERATION
        > a commit t0=9 id=ghost
        a: commit t0 UNKNOWN_MEMBER_ID
        > a commit simple t0=9
        a: commit t0 UNKNOWN_MEMBER_ID
        > fetch t0
        t0=5 epoch=3 meta=m
        ",
    );
}

#[test]
fn offsets_during_a_rebalance() {
    after(
        TWO_MEMBERS,
        "
        > c join v=3
        > b commit t0=5
        b: commit t0 NONE
        > b join
        > a join
        a: joined gen=2 range leader=a#1 members=a#1,b#2,c#3
        b: joined gen=2 range leader=a#1 as b#2
        c: joined gen=2 range leader=a#1 as c#3
        > b commit t0=6 gen=1
        b: commit t0 ILLEGAL_GENERATION
        > b commit t0=6
        b: commit t0 REBALANCE_IN_PROGRESS
        > fetch t0
        t0=5
        ",
    );
}

#[test]
fn a_commit_is_a_sign_of_life() {
    after(
        ONE_MEMBER,
        "
        > +9000
        > a commit t0=5
        a: commit t0 NONE
        > +9000
        > a beat
        a: beat NONE
        ",
    );
}

#[test]
fn offsets_of_consumers_that_assign_themselves() {
    check(
        "
        > a commit simple t0=5
        a: commit t0 NONE
        > fetch t0
        t0=5
        > describe
        Empty
        > a commit simple t0=3
        a: commit t0 NONE
        > fetch t0
        t0=3
        ",
    );
}

#[test]
fn offsets_count_once_they_are_committed() {
    check(
        "
        > hold
        > a commit simple t0=5
        append 1: t0=5
        > fetch t0
        t0=-1
        > fetch t0 stable
        t0 UNSTABLE_OFFSET_COMMIT
        > a commit simple t0=6
        append 2: t0=6
        > committed 1
        a: commit t0 NONE
        > fetch t0
        t0=5
        > fetch all stable
        t0 UNSTABLE_OFFSET_COMMIT
        > committed 2
        a: commit t0 NONE
        > fetch all stable
        t0=6
        ",
    );
}

#[test]
fn offsets_that_the_log_refuses_do_not_count() {
    for (refused, told) in [
        ("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR"),
        ("KAFKA_STORAGE_ERROR", "NOT_COORDINATOR"),
        ("NOT_ENOUGH_REPLICAS", "COORDINATOR_NOT_AVAILABLE"),
        ("MESSAGE_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE"),
    ] {
        check(&format!(
            "
            > hold
            > a commit simple t0=5
            append 1: t0=5
            > refused 1 {refused}
            a: commit t0 {told}
            > fetch t0 stable
            t0=-1
            > list
            groups:
            "
        ));
    }
}

#[test]
fn offsets_that_are_committed_late_count_all_the_same() {
    check(
        "
        > hold
        > a commit simple t0=5
        append 1: t0=5
        > +5000
        a: commit t0 COORDINATOR_NOT_AVAILABLE
        > fetch t0 stable
        t0 UNSTABLE_OFFSET_COMMIT
        > committed 1
        > fetch t0 stable
        t0=5
        > failover
        > fetch t0
        t0=5
        ",
    );
}

#[test]
fn groups_without_members_expire() {
    check_with(
        short_retention(),
        "
        > a commit simple t0=5
        a: commit t0 NONE
        > +30000
        > a commit simple t0=6
        a: commit t0 NONE
        > +59999
        > fetch t0
        t0=6
        > hold
        > +1
        append 3: t0=none no group
        > committed 3
        > list
        groups:
        ",
    );
}

fn short_retention() -> GroupConfig {
    GroupConfig { retention_ms: 60_000, retention_check_ms: 1, ..GroupConfig::default() }
}

#[test]
fn each_offset_of_no_members_expires_for_itself() {
    check_with(
        short_retention(),
        "
        > a commit simple t0=5
        a: commit t0 NONE
        > +30000
        > a commit simple t1=6
        a: commit t1 NONE
        > failover
        > +29999
        > fetch all
        t0=5
        t1=6
        > hold
        > +1
        append 1: t0=none
        > a commit simple t0=7
        append 2: t0=7
        > committed 1
        > committed 2
        a: commit t0 NONE
        > fetch all
        t0=7
        t1=6
        > +30000
        append 3: t1=none
        > refused 3 NOT_ENOUGH_REPLICAS
        > +1
        append 4: t1=none
        > committed 4
        > fetch all
        t0=7
        ",
    );
}

#[test]
fn offsets_are_kept_while_members_are_there_and_for_a_while_after() {
    check_with(
        short_retention(),
        "
        > a join v=3 session=1800000
        > +200
        a: joined gen=1 range leader=a#1 members=a#1
        > a sync a=0
        a: assigned 0
        > a commit t0=5
        a: commit t0 NONE
        > +100000
        > fetch t0
        t0=5
        > a leave
        a: left NONE NONE
        > +59999
        > failover
        > fetch t0
        t0=5
        > +1
        > fetch t0
        t0=-1
        > list
        groups:
        ",
    );
}

#[test]
fn offsets_of_topics_that_no_consumer_wants_expire() {
    check_with(
        GroupConfig { consumer_session_timeout_ms: 1_000_000, ..short_retention() },
        "
        > topics t=2 u=1
        > a ask t
        a: epoch=1 owns t0,t1
        > a commit t0=5
        a: commit t0 NONE
        > +60000
        > fetch t0
        t0=5
        > forget t0 t1
        t0 GROUP_SUBSCRIBED_TO_TOPIC, t1 GROUP_SUBSCRIBED_TO_TOPIC
        > a ask u
        a: epoch=1 owns
        > +1
        > fetch t0
        t0=-1
        > consumers
        Reconciling 2/2 uniform a@1=->u0
        ",
    );
}

#[test]
fn an_operator_deletes_offsets() {
    check(
        "
        > forget t0
        GROUP_ID_NOT_FOUND
        > a commit simple t0=5 t1=6
        a: commit t0 NONE, t1 NONE
        > forget t0 t7
        t0 NONE, t7 NONE
        > fetch all
        t1=6
        > hold
        > forget t1
        append 3: t1=none
        > +5000
        COORDINATOR_NOT_AVAILABLE
        > committed 3
        > fetch all
        > load
        > forget t1
        COORDINATOR_LOAD_IN_PROGRESS
        ",
    );
}
