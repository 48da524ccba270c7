//! Voters that lost their disks, or were given older ones: what they may still do, who counts on them, and that nobody
//! talks without a pause meanwhile.

use crate::cluster::Cluster;
use crate::node::{DIR, MS};
use crate::one::{A, B, C, One, accepted, append, config, entry};
use bytes::Bytes;
use riprap_coord::{Body, Config, Index, Life, NodeId, Raft, Role, Term};

/// Two followers are sent a heartbeat every 20 ms and answer: 200 messages in a second. What is more is progress.
const IDLE_PER_SECOND: u64 = 200;

fn follower(cluster: &Cluster, leader: NodeId) -> NodeId {
    cluster.ids().into_iter().find(|id| *id != leader).expect("three nodes")
}

/// A cluster of three with a leader, a log, and a follower.
fn three(compact_after: u64) -> (Cluster, NodeId, NodeId) {
    let mut cluster = Cluster::begun(7, 3, &|config| config.max_bytes_per_message = 40);
    cluster.weather.compact_after = compact_after;
    let leader = cluster.elect();
    for n in 0..40 {
        cluster.propose(leader, &format!("{n}")).expect("it leads");
        cluster.run_for(5 * MS);
    }
    let victim = follower(&cluster, leader);
    (cluster, leader, victim)
}

/// In the second after `victim` starts again nobody talks without need; then it has all, counts, and nobody else led.
fn check_filled_again(mut cluster: Cluster, leader: NodeId, victim: NodeId) {
    let term = cluster.raft(leader).term();
    let before = cluster.delivered;
    cluster.start(victim).expect("its disk opens");
    cluster.run_for(1_000 * MS);
    let delivered = cluster.delivered - before;
    // A message for each of the entries at the most, and its answer.
    assert!(delivered < IDLE_PER_SECOND + 100, "{delivered} messages in a second; {}", cluster.describe());
    assert_eq!(cluster.node(victim).app, cluster.node(leader).app, "{}", cluster.describe());
    assert!(!cluster.raft(victim).status().is_newcomer, "{}", cluster.describe());
    assert_eq!((cluster.leader(), cluster.raft(leader).term()), (Some(leader), term));
    // It counts: with the other one gone, its copy commits.
    let third = cluster.ids().into_iter().find(|id| ![leader, victim].contains(id)).expect("three nodes");
    cluster.kill(third);
    let (_, index) = cluster.propose(leader, "more").expect("it leads");
    cluster.run_until("it commits", 100 * MS, |c| c.raft(leader).commit_index() >= index);
}

#[test]
fn a_lost_disk_is_filled_by_the_leader_that_saw_it_full() {
    for compact_after in [u64::MAX, 5] {
        let (mut cluster, leader, victim) = three(compact_after);
        cluster.lose_disk(victim);
        check_filled_again(cluster, leader, victim);
    }
}

#[test]
fn an_older_disk_is_noticed_and_filled_again() {
    for compact_after in [u64::MAX, 5] {
        let (mut cluster, leader, victim) = three(compact_after);
        let older = cluster.node(victim).env.disk.clone();
        for n in 0..20 {
            cluster.propose(leader, &format!("later {n}")).expect("it leads");
            cluster.run_for(5 * MS);
        }
        cluster.kill(victim);
        cluster.lose_disk(victim);
        cluster.nodes.get_mut(&victim).expect("it is one of them").env.disk = older;
        check_filled_again(cluster, leader, victim);
    }
}

/// L and V have an entry, W has not. V loses its disk, and L is cut off: the others are two of three, and know too little.
#[test]
fn a_lost_disk_does_not_elect_who_lacks_what_it_had() {
    let (mut cluster, leader, victim) = three(u64::MAX);
    let behind = cluster.ids().into_iter().find(|id| ![leader, victim].contains(id)).expect("three nodes");
    cluster.cut_link(leader, behind);
    cluster.cut_link(victim, behind);
    let (_, index) = cluster.propose(leader, "precious").expect("it leads");
    cluster.run_until("it is committed", 100 * MS, |c| c.raft(leader).commit_index() >= index);
    cluster.lose_disk(victim);
    cluster.heal();
    cluster.isolate(leader);
    cluster.start(victim).expect("an empty disk opens");
    cluster.run_for(3_000 * MS);
    assert_eq!(cluster.leader(), None, "{}", cluster.describe());
    cluster.heal();
    let has_it = |c: &Cluster| c.ids().iter().all(|id| c.node(*id).app.applied >= index);
    cluster.run_until("all have it", 3_000 * MS, has_it);
    cluster.run_until("it counts", 1_000 * MS, |c| !c.raft(victim).status().is_newcomer);
}

#[test]
fn the_first_start_needs_every_voter() {
    let mut cluster = Cluster::new(8, 3, &|_| {});
    cluster.kill(C);
    cluster.run_for(3_000 * MS);
    assert_eq!(cluster.leader(), None);
    cluster.start(C).expect("its disk opens");
    cluster.elect();
    // From then on a majority is enough, whoever has to begin anew.
    cluster.run_for(100 * MS);
    cluster.kill(A);
    cluster.kill(B);
    cluster.start(A).expect("its disk opens");
    cluster.elect();
}

const X: Option<Life> = Some(Life(7));
const Y: Option<Life> = Some(Life(8));

fn granted() -> Body {
    Body::VoteResponse { granted: true }
}

#[test]
fn votes_of_newcomers_count_where_all_vote() {
    // Who votes, as what, and whether node 1 leads then.
    type Vote = (NodeId, Option<Life>);
    let cases: [(bool, &[Vote], bool); 6] = [
        (false, &[(B, None)], true),
        (false, &[(B, X)], false),
        (false, &[(B, X), (C, Y)], true),
        (true, &[(B, None)], false),
        (true, &[(B, None), (C, None)], true),
        (true, &[(B, X), (C, Y)], true),
    ];
    for (is_newcomer, votes, leads) in cases {
        let mut one = if is_newcomer { One::newcomer(config()) } else { One::new(config()) };
        one.wait(200 * MS);
        let pre_vote = Body::PreVoteResponse { for_term: Term(1), granted: true };
        for (from, life) in votes {
            one.hear_as(*from, 0, 0, *life, pre_vote.clone());
        }
        let expect = if leads { Role::Candidate } else { Role::PreCandidate };
        assert_eq!(one.raft.status().role, expect, "{is_newcomer} {votes:?}");
        // Those who count let it begin.
        one.hear(B, 0, pre_vote.clone());
        one.hear(C, 0, pre_vote);
        one.settle();
        for (from, life) in votes {
            one.hear_as(*from, 1, one.now_ns, *life, granted());
        }
        one.settle();
        assert_eq!(one.raft.is_leader(), leads, "{is_newcomer} {votes:?}");
    }
}

#[test]
fn a_vote_is_for_one_candidacy() {
    let mut one = One::new(config());
    one.wait(200 * MS);
    one.hear(B, 0, Body::PreVoteResponse { for_term: Term(1), granted: true });
    one.settle();
    one.hear_late(B, 1, one.now_ns - 1, granted());
    assert!(!one.raft.is_leader(), "a former life asked for that");
    one.hear(B, 1, granted());
    assert!(one.raft.is_leader());

    let mut one = One::new(config());
    let vote = || Body::Vote { last_index: Index(0), last_term: Term(0) };
    for (asked_ns, as_life, grants) in [(5, X, true), (5, X, true), (6, Y, false), (6, None, true)] {
        one.hear_as(B, 3, asked_ns, as_life, vote());
        assert_eq!(
            one.answers(),
            [Body::VoteResponse { granted: grants }],
            "asked at {asked_ns} as {as_life:?}"
        );
    }
    one.raft = Raft::open(config(), &mut one.env, DIR, one.now_ns).expect("what it left opens");
    one.hear_as(B, 3, 5, X, vote());
    assert_eq!(
        one.answers(),
        [Body::VoteResponse { granted: false }],
        "it does not know for which candidacy"
    );
}

/// A leader with B as a newcomer that said so in its vote.
#[test]
fn a_newcomer_counts_once_it_has_an_entry_that_is_committed_without_it() {
    let mut one = One::new(config());
    one.win(C);
    one.hear(C, 1, accepted(1));
    one.settle();
    let hear = |one: &mut One, life: Option<Life>, match_index: u64| {
        one.hear_as(B, 1, one.now_ns, life, accepted(match_index));
        one.answers()
    };
    // Entry 1 was made before the leader heard of the newcomer.
    assert!(!hear(&mut one, X, 1).contains(&Body::Admit { life: Life(7) }));
    one.raft.propose(Bytes::from("x")).expect("it leads");
    one.settle();
    assert_eq!(hear(&mut one, X, 2), [], "entry 2 is not committed");
    assert_eq!(one.raft.commit_index(), Index(1), "its copy does not count");
    one.hear(C, 1, accepted(2));
    assert!(one.answers().contains(&Body::Admit { life: Life(7) }));
    // It has heard of it.
    hear(&mut one, None, 2);
    one.raft.propose(Bytes::from("y")).expect("it leads");
    one.settle();
    hear(&mut one, None, 3);
    assert_eq!(one.raft.commit_index(), Index(3));
}

#[test]
fn a_leader_listens_to_no_life_that_is_over() {
    let mut one = One::new(config());
    one.win(C);
    one.hear(B, 1, accepted(1));
    one.settle();
    one.raft.propose(Bytes::from("x")).expect("it leads");
    one.settle();
    one.hear_as(
        B,
        1,
        one.now_ns,
        X,
        Body::AppendRejected { prev_index: Index(1), hint_index: Index(0), hint_term: Term(0) },
    );
    one.settle();
    // What B said before its disk was lost comes late.
    one.hear(B, 1, accepted(2));
    one.settle();
    assert_eq!((one.raft.commit_index(), one.raft.status().followers[0].match_index), (Index(1), Index(0)));
    // Nobody proposes: a heartbeat brings the entry that it waits for.
    one.wait(20 * MS);
    one.settle();
    assert_eq!(one.raft.last_index(), Index(3));
    one.wait(20 * MS);
    one.settle();
    assert_eq!(one.raft.last_index(), Index(3), "one is enough");
}

#[test]
fn who_forgot_what_it_had_is_told_with_each_heartbeat_and_nothing_else() {
    let mut one = One::new(config());
    one.win(B);
    one.hear(B, 1, accepted(1));
    one.raft.propose(Bytes::from("x")).expect("it leads");
    one.settle();
    one.now_ns += MS;
    one.hear(B, 1, accepted(2));
    one.settle();
    let rejected = |prev: u64| Body::AppendRejected {
        prev_index: Index(prev),
        hint_index: Index(0),
        hint_term: Term(0),
    };
    one.hear_late(B, 1, one.now_ns, rejected(2));
    assert_eq!(one.answers(), [], "asked before it had that");
    one.now_ns += MS;
    one.hear(B, 1, rejected(2));
    assert_eq!(one.answers(), [Body::Doubt]);
    one.hear(B, 1, rejected(2));
    one.hear(B, 1, accepted(2));
    assert_eq!(one.answers(), []);
    one.wait(20 * MS);
    assert_eq!(one.answers(), [Body::Doubt]);
    one.hear_as(B, 1, one.now_ns, X, rejected(3));
    assert!(matches!(&one.answers()[..], [Body::Append { .. }]), "it knows");
}

#[test]
fn a_newcomer_stays_one_until_its_life_is_admitted() {
    let mut one = One::newcomer(config());
    let life = |one: &mut One| one.settle().messages.pop().expect("it answers").1.newcomer;
    one.hear(B, 3, append((0, 0), 0, vec![entry(1, 3)]));
    let first = life(&mut one).expect("its disk was empty");
    one.raft = Raft::open(config(), &mut one.env, DIR, one.now_ns).expect("what it left opens");
    one.hear(B, 3, Body::Admit { life: Life(first.0 + 1) });
    assert_eq!(life(&mut one), Some(first), "it is the same life in the next process, and another is meant");
    one.hear(C, 2, Body::Admit { life: first });
    assert_eq!(life(&mut one), Some(first), "not from an old leader");
    one.hear(B, 3, Body::Admit { life: first });
    assert_eq!(life(&mut one), None);
    // It may have voted in this term before.
    one.raft = Raft::open(config(), &mut one.env, DIR, one.now_ns).expect("what it left opens");
    one.now_ns += 200 * MS;
    one.hear(C, 3, Body::Vote { last_index: Index(9), last_term: Term(3) });
    assert_eq!(one.answers(), []);
    let answers = one.settle();
    assert_eq!(answers.messages, []);
    assert_eq!(one.raft.status().voted_for, Some(B));
    // Its leader finds that it has less than it had.
    one.hear(B, 3, Body::Doubt);
    let second = life(&mut one).expect("it is one again");
    assert_ne!(second, first);
    one.hear(B, 3, Body::Doubt);
    assert_eq!(life(&mut one), Some(second));
}

#[test]
fn one_of_two_that_lost_its_disk_can_be_filled_by_the_other() {
    let mut cluster = Cluster::begun(9, 2, &|_: &mut Config| {});
    let leader = cluster.elect();
    let (_, index) = cluster.propose(leader, "x").expect("it leads");
    cluster.run_for(100 * MS);
    let victim = follower(&cluster, leader);
    cluster.lose_disk(victim);
    cluster.run_for(500 * MS);
    cluster.start(victim).expect("an empty disk opens");
    cluster.run_until("it has all and counts", 3_000 * MS, |c| {
        c.node(victim).app.applied >= index && !c.raft(victim).status().is_newcomer
    });
}
