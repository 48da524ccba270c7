//! What a coordinator bounds, hands over, loads and deletes.

use super::{ONE_MEMBER, TWO_MEMBERS, after};
use crate::group::tests::{GroupConfig, check, check_with};

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
