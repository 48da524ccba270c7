//! Members that leave, die or are too late.

use super::{TWO_MEMBERS, after};
use crate::group::tests::check;

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

/// What defect `unanswered-join` makes of a member that is gone before it leads its group: nobody else may.
#[test]
fn who_goes_on_waiting_is_never_out() {
    for (deaf, expect) in [("beat", "Empty"), ("deaf", "CompletingRebalance  a#1")] {
        let told = if deaf == "beat" { "a: beat NONE" } else { "" };
        check(&format!(
            "
            > a join v=3
            > +200
            a: joined gen=1 range leader=a#1 members=a#1
            > a {deaf}
            {told}
            > +600000
            > describe
            {expect}
            ",
        ));
    }
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
