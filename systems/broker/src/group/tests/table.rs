//! What happens to groups, as transcripts.

use super::{GroupConfig, check, check_with};

/// One member, stable in generation 1, as most transcripts begin.
const ONE_MEMBER: &str = "
    > a join
    a: join MEMBER_ID_REQUIRED a#1
    > a join
    > +200
    a: joined gen=1 range leader=a#1 members=a#1
    > a sync a=0,1
    a: assigned 0,1
";

/// Two members, stable in generation 1.
const TWO_MEMBERS: &str = "
    > a join v=3
    > b join v=3
    > +400
    a: joined gen=1 range leader=a#1 members=a#1,b#2
    b: joined gen=1 range leader=a#1 as b#2
    > b sync
    > a sync a=0 b=1
    a: assigned 0
    b: assigned 1
";

fn after(beginning: &str, transcript: &str) {
    check(&format!("{beginning}\n{transcript}"));
}

#[test]
fn a_lone_member() {
    after(
        ONE_MEMBER,
        "
        > describe
        Stable range a#1=0,1
        > a beat
        a: beat NONE
        > a leave
        a: left NONE NONE
        > describe
        Empty
        > list
        groups: g Empty
        > a beat
        a: beat UNKNOWN_MEMBER_ID
        ",
    );
}

#[test]
fn members_that_come_together_share_a_generation() {
    check(
        "
        > a join v=3 protocols=range/x
        > +100
        > b join v=3 protocols=range/y
        > +200
        > c join v=3 protocols=range/z
        > +300
        a: joined gen=1 range leader=a#1 members=a#1/x,b#2/y,c#3/z
        b: joined gen=1 range leader=a#1 as b#2
        c: joined gen=1 range leader=a#1 as c#3
        > describe
        CompletingRebalance  a#1 b#2 c#3
        ",
    );
}

#[test]
fn the_initial_delay_ends_with_the_rebalance_timeout() {
    check(
        "
        > a join v=3 rebalance=500
        > +150
        > b join v=3 rebalance=500
        > +200
        > c join v=3 rebalance=500
        > +100
        > d join v=3 rebalance=500
        > +50
        a: joined gen=1 range leader=a#1 members=a#1,b#2,c#3,d#4
        b: joined gen=1 range leader=a#1 as b#2
        c: joined gen=1 range leader=a#1 as c#3
        d: joined gen=1 range leader=a#1 as d#4
        ",
    );
}

#[test]
fn without_a_delay_the_first_member_is_alone() {
    let config = GroupConfig { initial_rebalance_delay_ms: 0, ..GroupConfig::default() };
    check_with(
        config,
        "
        > a join v=3
        a: joined gen=1 range leader=a#1 members=a#1
        > b join v=3
        > a sync a=0
        a: sync REBALANCE_IN_PROGRESS
        > a join
        a: joined gen=2 range leader=a#1 members=a#1,b#2
        b: joined gen=2 range leader=a#1 as b#2
        ",
    );
}

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

#[test]
fn a_newcomer_starts_a_rebalance() {
    after(
        TWO_MEMBERS,
        "
        > c join
        c: join MEMBER_ID_REQUIRED c#3
        > a beat
        a: beat NONE
        > c join
        > a beat
        a: beat REBALANCE_IN_PROGRESS
        > a sync a=0
        a: sync REBALANCE_IN_PROGRESS
        > a join
        > b join
        a: joined gen=2 range leader=a#1 members=a#1,b#2,c#3
        b: joined gen=2 range leader=a#1 as b#2
        c: joined gen=2 range leader=a#1 as c#3
        > b beat gen=1
        b: beat ILLEGAL_GENERATION
        > b sync gen=1
        b: sync ILLEGAL_GENERATION
        ",
    );
}

#[test]
fn a_promised_id_holds_a_rebalance_up_for_its_session() {
    after(
        TWO_MEMBERS,
        "
        > c join session=3000
        c: join MEMBER_ID_REQUIRED c#3
        > a join
        > b join
        > describe
        PreparingRebalance  a#1 b#2
        > +3000
        a: joined gen=2 range leader=a#1 members=a#1,b#2
        b: joined gen=2 range leader=a#1 as b#2
        > c join
        c: join UNKNOWN_MEMBER_ID
        ",
    );
}

#[test]
fn who_joins_again_without_a_change_missed_the_answer() {
    after(
        TWO_MEMBERS,
        "
        > b join
        b: joined gen=1 range leader=a#1 as b#2
        > b join protocols=range/new
        > a beat
        a: beat REBALANCE_IN_PROGRESS
        > a join
        a: joined gen=2 range leader=a#1 members=a#1,b#2/new
        b: joined gen=2 range leader=a#1 as b#2
        > a join
        a: joined gen=2 range leader=a#1 members=a#1,b#2/new
        > b join
        > b join protocols=range/new
        b: join REBALANCE_IN_PROGRESS
        > a join
        a: joined gen=3 range leader=a#1 members=a#1,b#2/new
        b: joined gen=3 range leader=a#1 as b#2
        ",
    );
}

#[test]
fn a_leader_that_joins_again_starts_a_rebalance() {
    after(
        TWO_MEMBERS,
        "
        > a join
        > b beat
        b: beat REBALANCE_IN_PROGRESS
        > b join
        a: joined gen=2 range leader=a#1 members=a#1,b#2
        b: joined gen=2 range leader=a#1 as b#2
        ",
    );
}

#[test]
fn the_dead_are_noticed() {
    after(
        TWO_MEMBERS,
        "
        > +9000
        > b beat
        b: beat NONE
        > +1000
        > describe
        PreparingRebalance  b#2
        > b join
        b: joined gen=2 range leader=b#2 members=b#2
        ",
    );
}

#[test]
fn who_does_not_join_in_time_is_out() {
    check(
        "
        > a join v=3 session=60000
        > b join v=3 session=60000
        > +400
        a: joined gen=1 range leader=a#1 members=a#1,b#2
        b: joined gen=1 range leader=a#1 as b#2
        > b sync
        > a sync a=0 b=1
        a: assigned 0
        b: assigned 1
        > c join v=3
        > b join
        > +20000
        b: joined gen=2 range leader=b#2 members=b#2,c#3
        c: joined gen=2 range leader=b#2 as c#3
        > a beat
        a: beat UNKNOWN_MEMBER_ID
        ",
    );
}

#[test]
fn who_does_not_ask_for_its_assignment_is_out() {
    check(
        "
        > a join v=3 session=60000
        > b join v=3 session=60000
        > +400
        a: joined gen=1 range leader=a#1 members=a#1,b#2
        b: joined gen=1 range leader=a#1 as b#2
        > a sync a=0 b=1
        a: assigned 0
        > b beat
        b: beat NONE
        > +20000
        > describe
        PreparingRebalance  a#1
        > b sync
        b: sync UNKNOWN_MEMBER_ID
        > a join
        a: joined gen=2 range leader=a#1 members=a#1
        ",
    );
}

#[test]
fn a_leader_that_does_not_assign_is_out() {
    check(
        "
        > a join v=3 session=60000
        > b join v=3 session=60000
        > +400
        a: joined gen=1 range leader=a#1 members=a#1,b#2
        b: joined gen=1 range leader=a#1 as b#2
        > b sync
        > +20000
        b: sync REBALANCE_IN_PROGRESS
        > b join
        b: joined gen=2 range leader=b#2 members=b#2
        ",
    );
}

#[test]
fn a_new_member_whose_join_is_never_answered_is_forgotten() {
    check(
        "
        > a join v=3 session=1800000 rebalance=1800000
        > +200
        a: joined gen=1 range leader=a#1 members=a#1
        > b join v=3
        > +300000
        b: join UNKNOWN_MEMBER_ID
        ",
    );
}

#[test]
fn leaving() {
    after(
        TWO_MEMBERS,
        "
        > b leave v=1
        b: left NONE
        > a beat
        a: beat REBALANCE_IN_PROGRESS
        > b leave v=1
        b: left UNKNOWN_MEMBER_ID
        > a join
        a: joined gen=2 range leader=a#1 members=a#1
        > a sync a=0
        a: assigned 0
        > a leave b
        a: left NONE NONE UNKNOWN_MEMBER_ID
        > describe
        Empty
        ",
    );
    after(
        TWO_MEMBERS,
        "
        > a leave b
        a: left NONE NONE NONE
        > c join
        c: join MEMBER_ID_REQUIRED c#3
        > c leave
        c: left NONE NONE
        > c join
        c: join UNKNOWN_MEMBER_ID
        ",
    );
    check(
        "
        > a leave v=1
        a: left UNKNOWN_MEMBER_ID
        > list
        groups:
        ",
    );
}

#[test]
fn who_leaves_while_others_wait_for_it_lets_them_go_on() {
    after(
        TWO_MEMBERS,
        "
        > c join v=3
        > a join
        > b leave
        b: left NONE NONE
        a: joined gen=2 range leader=a#1 members=a#1,c#3
        c: joined gen=2 range leader=a#1 as c#3
        ",
    );
}

#[test]
fn protocols_are_voted_on() {
    check(
        "
        > a join v=3 protocols=sticky/s,range/r
        > b join v=3 protocols=range/r,sticky/s
        > c join v=3 protocols=range/r,sticky/s,other
        > d join v=3 protocols=other
        d: join INCONSISTENT_GROUP_PROTOCOL
        > e join v=3 type=connect protocols=range
        e: join INCONSISTENT_GROUP_PROTOCOL
        > f join v=3 protocols=
        f: join INCONSISTENT_GROUP_PROTOCOL
        > +400
        a: joined gen=1 range leader=a#1 members=a#1/r,b#2/r,c#3/r
        b: joined gen=1 range leader=a#1 as b#2
        c: joined gen=1 range leader=a#1 as c#3
        > a sync protocol=sticky
        a: sync INCONSISTENT_GROUP_PROTOCOL
        > a sync type=connect
        a: sync INCONSISTENT_GROUP_PROTOCOL
        > c leave
        c: left NONE NONE
        > a join protocols=sticky,range
        > b join protocols=range,sticky
        a: joined gen=2 sticky leader=a#1 members=a#1,b#2
        b: joined gen=2 sticky leader=a#1 as b#2
        ",
    );
}

#[test]
fn nobodys_requests_are_refused() {
    check(
        "
        > a join id=ghost
        a: join UNKNOWN_MEMBER_ID
        > a join id=- session=999
        a: join INVALID_SESSION_TIMEOUT
        > a join id=- session=1800001
        a: join INVALID_SESSION_TIMEOUT
        > a join id=- session=-1
        a: join INVALID_SESSION_TIMEOUT
        > a join id=- type= protocols=range
        a: join INCONSISTENT_GROUP_PROTOCOL
        > a sync
        a: sync UNKNOWN_MEMBER_ID
        > a beat
        a: beat UNKNOWN_MEMBER_ID
        > a commit t0=5 gen=0 v=8
        a: commit t0 ILLEGAL_GENERATION
        > a commit t0=5 gen=0
        a: commit t0 GROUP_ID_NOT_FOUND
        > fetch t0
        t0=-1
        > fetch all
        > describe
        GROUP_ID_NOT_FOUND
        > list
        groups:
        ",
    );
}

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
fn limits() {
    let config = GroupConfig {
        max_members: 2,
        max_groups: 1,
        max_offsets: 2,
        max_offset_metadata_bytes: 3,
        max_subscription_bytes: 10,
        max_assignment_bytes: 4,
        max_in_flight: 2,
        ..GroupConfig::default()
    };
    check_with(
        config.clone(),
        "
        > a join v=3 protocols=range/subscription
        a: join POLICY_VIOLATION
        > a join v=3
        > b join v=3
        > c join v=3
        c: join GROUP_MAX_SIZE_REACHED
        > +400
        a: joined gen=1 range leader=a#1 members=a#1,b#2
        b: joined gen=1 range leader=a#1 as b#2
        > c join
        c: join GROUP_MAX_SIZE_REACHED
        > a sync a=123 b=45
        a: sync POLICY_VIOLATION
        > a sync a=123 b=4
        a: assigned 123
        > b sync
        b: assigned 4
        > b commit t0=1 t1=1 t2=1
        b: commit t0 NONE, t1 NONE, t2 POLICY_VIOLATION
        > b commit t0=2 meta=long
        b: commit t0 OFFSET_METADATA_TOO_LARGE
        > fetch all
        t0=1
        t1=1
        ",
    );
    check_with(
        config,
        "
        > a join
        a: join MEMBER_ID_REQUIRED a#1
        > b join
        b: join MEMBER_ID_REQUIRED b#2
        > c join
        c: join GROUP_MAX_SIZE_REACHED
        > +10000
        > list
        groups:
        > hold
        > a commit simple t0=1
        append 1: t0=1
        > a commit simple t0=2
        append 2: t0=2
        > a commit simple t0=3
        a: commit t0 COORDINATOR_NOT_AVAILABLE
        ",
    );
}

#[test]
fn members_outlive_their_coordinator() {
    after(
        TWO_MEMBERS,
        "
        > b commit t0=5
        b: commit t0 NONE
        > failover
        > a beat
        a: beat NONE
        > b sync
        b: assigned 1
        > fetch t0
        t0=5
        > b commit t0=6
        b: commit t0 NONE
        > +9999
        > describe
        Stable range a#1=0 b#2=1
        > +1
        > describe
        Empty
        ",
    );
}

#[test]
fn a_generation_that_was_not_stable_does_not_outlive_its_coordinator() {
    after(
        TWO_MEMBERS,
        "
        > c join v=3
        > a join
        > b join
        a: joined gen=2 range leader=a#1 members=a#1,b#2,c#3
        b: joined gen=2 range leader=a#1 as b#2
        c: joined gen=2 range leader=a#1 as c#3
        > hold
        > b sync
        > a sync a=0 b=1 c=2
        append 2: gen=2 [a#1,b#2,c#3]
        > failover
        a: sync NOT_COORDINATOR
        b: sync NOT_COORDINATOR
        > describe
        Stable range a#1=0 b#2=1
        > a beat
        a: beat ILLEGAL_GENERATION
        > c beat
        c: beat UNKNOWN_MEMBER_ID
        ",
    );
}

#[test]
fn who_waits_when_the_coordinator_resigns_is_told() {
    after(
        ONE_MEMBER,
        "
        > hold
        > a commit t0=5
        append 2: t0=5
        > b join v=3
        > failover
        b: join NOT_COORDINATOR
        a: commit t0 NOT_COORDINATOR
        > fetch t0
        t0=-1
        ",
    );
}

#[test]
fn while_it_loads() {
    after(
        ONE_MEMBER,
        "
        > load
        > a beat
        a: beat NONE
        > a join
        a: join COORDINATOR_LOAD_IN_PROGRESS
        > a sync
        a: sync REBALANCE_IN_PROGRESS
        > a commit t0=1
        a: commit t0 COORDINATOR_LOAD_IN_PROGRESS
        > a leave v=1
        a: left COORDINATOR_LOAD_IN_PROGRESS
        > fetch t0
        t0 COORDINATOR_LOAD_IN_PROGRESS
        COORDINATOR_LOAD_IN_PROGRESS
        > describe
        COORDINATOR_LOAD_IN_PROGRESS
        > list
        groups: COORDINATOR_LOAD_IN_PROGRESS
        > delete
        delete COORDINATOR_LOAD_IN_PROGRESS
        > loaded
        > a beat
        a: beat NONE
        ",
    );
}

#[test]
fn deleting() {
    after(
        ONE_MEMBER,
        "
        > a commit t0=5
        a: commit t0 NONE
        > delete
        delete NON_EMPTY_GROUP
        > a leave
        a: left NONE NONE
        > hold
        > a commit simple t1=6
        append 4: t1=6
        > delete
        append 5: t0=none t1=none no group
        > describe
        Dead
        > a commit simple t0=7
        a: commit t0 COORDINATOR_NOT_AVAILABLE
        > b join v=3
        b: join COORDINATOR_NOT_AVAILABLE
        > a leave
        a: left COORDINATOR_NOT_AVAILABLE
        > a beat
        a: beat COORDINATOR_NOT_AVAILABLE
        > committed 4
        a: commit t1 NONE
        > committed 5
        delete NONE
        > list
        groups:
        > failover
        > list
        groups:
        > delete
        delete GROUP_ID_NOT_FOUND
        ",
    );
}

#[test]
fn a_deletion_that_the_log_refuses() {
    check(
        "
        > a commit simple t0=5
        a: commit t0 NONE
        > hold
        > delete
        append 2: t0=none no group
        > refused 2 NOT_ENOUGH_REPLICAS
        delete COORDINATOR_NOT_AVAILABLE
        > fetch t0
        t0=5
        > delete
        append 3: t0=none no group
        > +5000
        delete COORDINATOR_NOT_AVAILABLE
        > committed 3
        > fetch t0
        t0=-1
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

#[test]
fn a_static_member_returns_without_a_rebalance() {
    let beginning = "
        > a join v=3
        > s join instance=i v=9
        > +400
        a: joined gen=1 range leader=a#1 members=a#1,i#2
        s: joined gen=1 range leader=a#1 as i#2
        > a sync a=0 s=1
        a: assigned 0
        > s sync
        s: assigned 1
        ";
    after(
        beginning,
        "
        > z join instance=i v=9
        z: joined gen=1 range leader=a#1 as i#3
        > z sync
        z: assigned 1
        > a beat
        a: beat NONE
        > s beat
        s: beat FENCED_INSTANCE_ID
        > s commit t0=1
        s: commit t0 FENCED_INSTANCE_ID
        > failover
        > z beat
        z: beat NONE
        > s join
        s: join FENCED_INSTANCE_ID
        ",
    );
    // It is away for a rebalance, and keeps its place.
    after(
        beginning,
        "
        > a join
        > +9999
        > describe
        PreparingRebalance  a#1 i#2
        > +1
        a: joined gen=2 range leader=a#1 members=a#1
        ",
    );
    // Its protocol would change what all others do.
    after(
        beginning,
        "
        > z join instance=i protocols=rr,range
        z: joined gen=1 range leader=a#1 as i#3
        > x join v=3 protocols=rr
        x: join INCONSISTENT_GROUP_PROTOCOL
        ",
    );
    // An operator takes it out by its instance id.
    after(
        beginning,
        "
        > op leave instance=i
        op: left NONE NONE
        > s beat
        s: beat UNKNOWN_MEMBER_ID
        > op leave instance=i
        op: left NONE UNKNOWN_MEMBER_ID
        ",
    );
    // The log keeps its new id waiting: everybody starts over, and it has a whole session to come again.
    after(
        beginning,
        "
        > hold
        > z join instance=i session=5000
        append 2: gen=1 [a#1,i#3]
        > +5000
        z: join REBALANCE_IN_PROGRESS
        > committed 2
        > describe
        PreparingRebalance  a#1 i#3
        > z join
        > a join
        a: joined gen=2 range leader=a#1 members=a#1,i#4
        z: joined gen=2 range leader=a#1 as i#4
        ",
    );
    // The log refuses its new id: everybody starts over.
    after(
        beginning,
        "
        > hold
        > z join instance=i
        append 2: gen=1 [a#1,i#3]
        > refused 2 NOT_ENOUGH_REPLICAS
        z: join COORDINATOR_NOT_AVAILABLE
        > a beat
        a: beat REBALANCE_IN_PROGRESS
        > z join
        > a join
        a: joined gen=2 range leader=a#1 members=a#1,i#4
        z: joined gen=2 range leader=a#1 as i#4
        ",
    );
}

#[test]
fn a_static_leader_returns() {
    let beginning = "
        > s join instance=i
        > b join v=3
        > +400
        b: joined gen=1 range leader=i#1 as b#2
        s: joined gen=1 range leader=i#1 members=b#2,i#1
        > b sync
        > s sync s=0 b=1
        b: assigned 1
        s: assigned 0
        ";
    after(
        beginning,
        "
        > z join instance=i v=9
        z: joined gen=1 range leader=i#3 members=b#2,i#3 skip
        > z sync z=9 b=9
        z: assigned 0
        ",
    );
    // An older client must not see itself as the leader, or it would assign.
    after(
        beginning,
        "
        > z join instance=i v=8
        z: joined gen=1 range leader=i#1 as i#3
        > z sync
        z: assigned 0
        ",
    );
}

#[test]
fn a_static_member_that_returns_in_mid_rebalance_is_assigned_anew() {
    check(
        "
        > a join v=3
        > s join instance=i
        > +400
        a: joined gen=1 range leader=a#1 members=a#1,i#2
        s: joined gen=1 range leader=a#1 as i#2
        > s sync
        > z join instance=i
        s: sync FENCED_INSTANCE_ID
        > a sync a=0 s=1
        a: sync REBALANCE_IN_PROGRESS
        > a join
        a: joined gen=2 range leader=a#1 members=a#1,i#3
        z: joined gen=2 range leader=a#1 as i#3
        ",
    );
}

#[test]
fn a_static_member_that_alone_is_left_is_waited_for() {
    check(
        "
        > s join instance=i session=60000 rebalance=5000
        > b join v=3 session=6000 rebalance=5000
        > +400
        b: joined gen=1 range leader=i#1 as b#2
        s: joined gen=1 range leader=i#1 members=b#2,i#1
        > b sync
        > s sync s=0 b=1
        b: assigned 1
        s: assigned 0
        > b leave
        b: left NONE NONE
        > +20000
        > describe
        PreparingRebalance  i#1
        > s join rebalance=5000
        s: joined gen=2 range leader=i#1 members=i#1
        ",
    );
}
