//! Members that join, and how a generation comes about.

use super::{ONE_MEMBER, TWO_MEMBERS, after};
use crate::group::tests::{GroupConfig, check, check_with};

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
