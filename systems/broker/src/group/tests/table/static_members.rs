//! Members that say who they are, and return.

use super::after;
use crate::group::tests::check;

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
