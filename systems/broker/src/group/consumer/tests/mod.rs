//! What happens to groups of KIP-848, as transcripts: the language is that of the coordinator's tests.

mod laws;

use super::{ConsumerEntry, state};
use crate::group::GroupConfig;
use crate::group::tests::{check, check_with};

impl ConsumerEntry {
    /// As transcripts show an append.
    pub(in crate::group) fn shown(&self) -> String {
        let list = |it: &state::Partitions| {
            let name = |(id, index): (riprap_protocol::Uuid, i32)| format!("{}{index}", char::from(id.0[0]));
            it.iter().map(name).collect::<Vec<_>>().join(",")
        };
        match self {
            ConsumerEntry::Group(Some((epoch, _))) => format!("group@{epoch}"),
            ConsumerEntry::Group(None) => "group=none".to_owned(),
            ConsumerEntry::Subscription(id, it) => {
                format!("{id}:{}", if it.is_some() { "wants" } else { "none" })
            }
            ConsumerEntry::TargetEpoch(it) => format!("target@{}", it.unwrap_or(0)),
            ConsumerEntry::Target(id, it) => {
                format!("{id}->{}", it.as_ref().map_or("none".to_owned(), list))
            }
            ConsumerEntry::Holding(id, None) => format!("{id}=none"),
            ConsumerEntry::Holding(id, Some(it)) => {
                let revoking =
                    if it.revoking.is_empty() { String::new() } else { format!("-{}", list(&it.revoking)) };
                format!("{id}@{}={}{revoking}", it.epoch, list(&it.assigned))
            }
        }
    }
}

/// Two members that share three partitions.
const TWO_MEMBERS: &str = "
    > topics t=3
    > a ask t
    a: epoch=1 owns t0,t1,t2
    > b ask t
    b: epoch=2 owns
    > a ask
    a: epoch=1 owns t0,t1
    > a ack
    a: epoch=2
    > b ask
    b: epoch=2 owns t2
";

fn after(beginning: &str, transcript: &str) {
    check(&format!("{beginning}\n{transcript}"));
}

#[test]
fn what_is_given_up_goes_to_the_next() {
    after(
        TWO_MEMBERS,
        "
        > consumers
        Stable 2/2 uniform a@2=t0,t1 b@2=t2
        > list
        groups: g Stable
        > describe
        GROUP_ID_NOT_FOUND
        > a quit
        a: epoch=-1
        > consumers
        Assigning 2/3 uniform b@2=t2
        > b ask
        b: epoch=3 owns t0,t1,t2
        > b quit
        b: epoch=-1
        > consumers
        Empty 3/4 uniform
        ",
    );
}

#[test]
fn a_partition_waits_until_it_is_given_up() {
    check(
        "
        > topics t=2
        > a ask t
        a: epoch=1 owns t0,t1
        > b ask t
        b: epoch=2 owns
        > b ask
        b: epoch=2
        > a ask
        a: epoch=1 owns t0
        > b ask
        b: epoch=2
        > consumers
        Reconciling 2/2 uniform a@1=t0 b@2=->t1
        > a ack own=t0,t1
        a: epoch=1
        > b ask
        b: epoch=2
        > a ack
        a: epoch=2
        > b ask
        b: epoch=2 owns t1
        ",
    );
}

#[test]
fn who_does_not_give_up_in_time_is_put_out() {
    check(
        "
        > topics t=2
        > a ask t
        a: epoch=1 owns t0,t1
        > b ask t
        b: epoch=2 owns
        > a ask
        a: epoch=1 owns t0
        > +3000
        > a ask
        a: epoch=1
        > b ask
        b: epoch=2
        > +1000
        > b ask
        b: epoch=3 owns t0,t1
        > a ask
        a: UNKNOWN_MEMBER_ID
        > a ask t
        a: epoch=4 owns
        ",
    );
}

#[test]
fn who_is_not_heard_is_put_out() {
    after(
        TWO_MEMBERS,
        "
        > +5000
        > a ask
        a: epoch=2
        > +2000
        > consumers
        Assigning 2/3 uniform a@2=t0,t1
        > b ask
        b: UNKNOWN_MEMBER_ID
        > a ask
        a: epoch=3 owns t0,t1,t2
        ",
    );
}

#[test]
fn epochs_fence() {
    after(
        TWO_MEMBERS,
        "
        > a ask epoch=1 own=t0
        a: epoch=2 owns t0,t1
        > a ask epoch=1 own=t0,t2
        a: FENCED_MEMBER_EPOCH
        > a ask t
        a: epoch=2 owns t0,t1
        > a ask epoch=1
        a: FENCED_MEMBER_EPOCH
        > a ask epoch=3
        a: FENCED_MEMBER_EPOCH
        > z ask epoch=1
        z: UNKNOWN_MEMBER_ID
        > z quit
        z: UNKNOWN_MEMBER_ID
        ",
    );
}

#[test]
fn subscriptions_change() {
    check(
        "
        > topics t=2 u=2
        > a ask t
        a: epoch=1 owns t0,t1
        > a ask t,u
        a: epoch=2 owns t0,t1,u0,u1
        > a ask u
        a: epoch=2 owns u0,u1
        > a ack
        a: epoch=3
        > consumers
        Stable 3/3 uniform a@3=u0,u1
        > a ask x
        a: epoch=3 owns
        > a ack
        a: epoch=4
        > topics t=2 u=2 x=1
        > a ask
        a: epoch=5 owns x0
        ",
    );
}

#[test]
fn topics_change() {
    check(
        "
        > topics t=1
        > a ask t
        a: epoch=1 owns t0
        > topics t=2
        > a ask
        a: epoch=2 owns t0,t1
        > topics u=1
        > a ask
        a: epoch=2 owns
        > a ack
        a: epoch=3
        > topics u=2
        > a ask
        a: epoch=3
        ",
    );
}

#[test]
fn patterns_follow_the_topics() {
    check(
        "
        > topics a=1 b=1 z=1
        > c ask regex=[a-c]
        c: epoch=1 owns a0,b0
        > topics a=1 b=1 c=1 z=1
        > c ask
        c: epoch=2 owns a0,b0,c0
        > c ask regex=(
        c: INVALID_REGULAR_EXPRESSION
        > c ask z regex=a
        c: epoch=2 owns a0
        > c ack
        c: epoch=3 owns a0,z0
        > failover
        > c ask
        c: epoch=3
        ",
    );
}

#[test]
fn the_assignor_that_most_ask_for_assigns() {
    check(
        "
        > topics t=4
        > a ask t assignor=range
        a: epoch=1 owns t0,t1,t2,t3
        > b ask t assignor=range
        b: epoch=2 owns
        > a ask
        a: epoch=1 owns t0,t1
        > a ack
        a: epoch=2
        > b ask
        b: epoch=2 owns t2,t3
        > consumers
        Stable 2/2 range a@2=t0,t1 b@2=t2,t3
        > c ask t assignor=best
        c: UNSUPPORTED_ASSIGNOR
        ",
    );
}

#[test]
fn a_static_member_comes_back() {
    check(
        "
        > topics t=2
        > a ask t instance=i
        a: epoch=1 owns t0,t1
        > b ask t instance=i
        b: UNRELEASED_INSTANCE_ID
        > a away
        a: epoch=-2
        > consumers
        Reconciling 1/1 uniform a@-2=t0,t1
        > b ask t
        b: epoch=1 owns t0,t1
        > consumers
        Stable 1/1 uniform b@1=t0,t1
        > a ask t
        a: UNRELEASED_INSTANCE_ID
        > a ask epoch=1
        a: FENCED_INSTANCE_ID
        > a quit
        a: FENCED_INSTANCE_ID
        > b quit
        b: epoch=-1
        > consumers
        Empty 1/2 uniform
        ",
    );
}

#[test]
fn a_static_member_that_stays_away_is_put_out() {
    check(
        "
        > topics t=2
        > a ask t instance=i
        a: epoch=1 owns t0,t1
        > b ask t
        b: epoch=2 owns
        > a ask
        a: epoch=1 owns t0
        > a away
        a: epoch=-2
        > b ask
        b: epoch=2 owns t1
        > +5000
        > b ask
        b: epoch=2
        > +1000
        > b ask
        b: epoch=3 owns t0,t1
        ",
    );
}

#[test]
fn changes_wait_for_the_log_and_for_each_other() {
    check(
        "
        > topics t=1
        > hold
        > a ask t
        append 1: a:wants group@1 a->t0 target@1 a@1=t0
        > b ask t
        > committed 1
        a: epoch=1 owns t0
        append 2: b:wants group@2 b-> target@2 b@2=
        > a ask
        > committed 2
        b: epoch=2 owns
        append 3: a@2=t0
        > committed 3
        a: epoch=2
        > b quit
        append 4: b=none b->none b:none group@3
        > a quit
        > committed 4
        b: epoch=-1
        append 5: a=none a->none a:none group@4
        > committed 5
        a: epoch=-1
        > delete
        append 6: no group group=none target@0
        > committed 6
        delete NONE
        > list
        groups:
        ",
    );
}

#[test]
fn a_change_that_the_log_refuses_never_was() {
    check(
        "
        > topics t=1
        > hold
        > a ask t
        append 1: a:wants group@1 a->t0 target@1 a@1=t0
        > refused 1 NOT_ENOUGH_REPLICAS
        a: COORDINATOR_NOT_AVAILABLE
        > consumers
        GROUP_ID_NOT_FOUND
        > a ask t
        append 2: a:wants group@1 a->t0 target@1 a@1=t0
        > +5000
        a: COORDINATOR_NOT_AVAILABLE
        > b ask t
        > +5000
        b: COORDINATOR_NOT_AVAILABLE
        > committed 2
        > consumers
        Stable 1/1 uniform a@1=t0
        > +6000
        append 3: a=none a->none a:none group@2
        > refused 3 NOT_LEADER_OR_FOLLOWER
        > +999
        > +1
        append 4: a=none a->none a:none group@2
        > b ask t
        > failover
        b: NOT_COORDINATOR
        > consumers
        Stable 1/1 uniform a@1=t0
        ",
    );
}

#[test]
fn a_new_coordinator_goes_on() {
    after(
        TWO_MEMBERS,
        "
        > failover
        > consumers
        Stable 2/2 uniform a@2=t0,t1 b@2=t2
        > a ask
        a: epoch=2
        > load
        > a ask
        a: COORDINATOR_LOAD_IN_PROGRESS
        > consumers
        COORDINATOR_LOAD_IN_PROGRESS
        > loaded
        > +5000
        > a ask
        a: epoch=2 owns t0,t1
        > +1000
        > consumers
        Assigning 2/3 uniform a@2=t0,t1
        ",
    );
}

#[test]
fn who_commits_and_fetches_says_its_epoch() {
    after(
        TWO_MEMBERS,
        "
        > a commit t0=5
        a: commit t0 NONE
        > a commit t0=6 gen=1
        a: commit t0 STALE_MEMBER_EPOCH
        > a commit t0=6 v=8
        a: commit t0 UNSUPPORTED_VERSION
        > z commit t0=6 gen=2
        z: commit t0 UNKNOWN_MEMBER_ID
        > z commit t0=6 simple
        z: commit t0 UNKNOWN_MEMBER_ID
        > fetch t0
        t0=5
        > fetch t0 id=a epoch=2
        t0=5
        > fetch t0 id=a epoch=1
        t0 STALE_MEMBER_EPOCH
        STALE_MEMBER_EPOCH
        > fetch t0 id=z epoch=2
        t0 UNKNOWN_MEMBER_ID
        UNKNOWN_MEMBER_ID
        > a quit
        a: epoch=-1
        > b quit
        b: epoch=-1
        > z commit t0=7 simple
        z: commit t0 NONE
        ",
    );
}

#[test]
fn an_empty_group_changes_its_protocol() {
    check(
        "
        > topics t=1
        > a join v=3
        > +200
        a: joined gen=1 range leader=a#1 members=a#1
        > a sync a=0
        a: assigned 0
        > a commit t0=5
        a: commit t0 NONE
        > c ask t
        c: GROUP_ID_NOT_FOUND
        > a leave
        a: left NONE NONE
        > c ask t
        c: epoch=1 owns t0
        > fetch t0
        t0=5
        > list
        groups: g Stable
        > describe
        GROUP_ID_NOT_FOUND
        > b join v=3
        b: join INCONSISTENT_GROUP_PROTOCOL
        > a beat
        a: beat UNKNOWN_MEMBER_ID
        > failover
        > consumers
        Stable 1/1 uniform c@1=t0
        > c quit
        c: epoch=-1
        > b join v=3
        > +200
        b: joined gen=1 range leader=b#2 members=b#2
        > b sync b=0
        b: assigned 0
        > consumers
        GROUP_ID_NOT_FOUND
        > failover
        > describe
        Stable range b#2=0
        > consumers
        GROUP_ID_NOT_FOUND
        > fetch t0
        t0=5
        ",
    );
}

#[test]
fn heartbeats_that_make_no_sense_are_refused() {
    check(
        "
        > topics t=1
        > a ask epoch=1
        a: GROUP_ID_NOT_FOUND
        > a ask
        a: INVALID_REQUEST
        > a ask t id=-
        a: INVALID_REQUEST
        > a ask t rebalance=-1
        a: INVALID_REQUEST
        > consumers
        GROUP_ID_NOT_FOUND
        > a ask t id=- v=0
        a: epoch=1 owns t0
        > a ask t own=t0 epoch=0
        a: INVALID_REQUEST
        > a ask epoch=-3
        a: INVALID_REQUEST
        > a away
        a: INVALID_REQUEST
        > b ask t instance=
        b: INVALID_REQUEST
        > delete
        delete NON_EMPTY_GROUP
        ",
    );
}

#[test]
fn a_group_has_a_limit() {
    check_with(
        GroupConfig { max_members: 1, ..GroupConfig::default() },
        "
        > topics t=1
        > a ask t
        a: epoch=1 owns t0
        > b ask t
        b: GROUP_MAX_SIZE_REACHED
        ",
    );
}
