//! Who leads, and who must not: single rules, each shown where it matters.

use crate::cluster::Cluster;
use crate::node::{DIR, MS, NodeEnv};
use crate::one::{A, B, C, One, accepted, append, config, entry};
use bytes::Bytes;
use riprap_coord::{Body, Config, Entry, Index, OpenError, ProposeError, Raft, Role, RoleChange, Term};

#[test]
fn a_node_alone_decides_alone() {
    let mut one = One::new(Config { voters: vec![A], ..config() });
    assert_eq!(one.raft.propose(Bytes::from("x")), Err(ProposeError::NotLeader { leader: None }));
    one.wait(200 * MS);
    assert!(!one.raft.is_leader(), "its own vote is not durable yet");
    let ready = one.settle();
    assert_eq!(ready.role_changes.last(), Some(&RoleChange::BecameLeader { term: Term(1) }));
    assert_eq!(ready.committed.len(), 1);
    assert!(ready.committed[0].payload.is_empty() && one.raft.leader_is_ready());
    assert_eq!(one.raft.propose(Bytes::from("x")), Ok((Term(1), Index(2))));
    assert_eq!(one.settle().committed, [Entry { index: Index(2), term: Term(1), payload: Bytes::from("x") }]);
}

#[test]
fn a_leader_is_ready_once_it_handed_out_an_entry_of_its_term() {
    let mut one = One::new(config());
    one.hear(B, 1, append((0, 0), 1, vec![entry(1, 1), entry(2, 1)]));
    one.settle();
    one.win(B);
    for (match_index, delivered) in [(0, 1), (1, 1), (2, 1)] {
        one.hear(B, 2, accepted(match_index));
        one.settle();
        assert_eq!(one.raft.status().delivered_index, Index(delivered));
        assert!(!one.raft.leader_is_ready(), "all but its own entry is on a majority up to {match_index}");
    }
    one.hear(B, 2, accepted(3));
    assert!(!one.raft.leader_is_ready(), "the application does not have the entries yet");
    assert_eq!(one.settle().committed.len(), 2);
    assert!(one.raft.leader_is_ready());
    // Nor with only the last entry of the earlier term handed out.
    let mut one = One::new(config());
    one.hear(B, 1, append((0, 0), 1, vec![entry(1, 1)]));
    one.settle();
    one.win(B);
    assert!(!one.raft.leader_is_ready());
}

#[test]
fn pre_votes_of_another_round_do_not_elect() {
    let mut one = One::new(config());
    one.wait(200 * MS);
    one.hear(B, 0, Body::PreVoteResponse { for_term: Term(2), granted: true });
    one.hear(B, 0, Body::PreVoteResponse { for_term: Term(0), granted: true });
    one.hear(B, 0, Body::PreVoteResponse { for_term: Term(1), granted: false });
    one.settle();
    assert_eq!((one.raft.status().role, one.raft.term()), (Role::PreCandidate, Term(0)));
    one.hear(B, 0, Body::PreVoteResponse { for_term: Term(1), granted: true });
    assert_eq!((one.raft.status().role, one.raft.term()), (Role::Candidate, Term(1)));
}

#[test]
fn votes_are_refused_while_a_leader_is_heard() {
    let mut one = One::new(config());
    let last = Body::Vote { last_index: Index(9), last_term: Term(9) };
    let pre = Body::PreVote { last_index: Index(9), last_term: Term(9) };
    one.hear(C, 1, append((0, 0), 0, vec![]));
    one.settle();
    one.now_ns += 99 * MS;
    one.hear(B, 7, last.clone());
    one.hear(B, 7, pre.clone());
    assert_eq!(one.answers(), [Body::PreVoteResponse { for_term: Term(8), granted: false }]);
    assert_eq!(one.raft.term(), Term(1));
    one.now_ns += MS;
    one.hear(B, 7, pre);
    assert_eq!(one.answers(), [Body::PreVoteResponse { for_term: Term(8), granted: true }]);
    assert_eq!(one.raft.term(), Term(1), "a pre-vote changes nothing");
    one.hear(B, 7, last.clone());
    assert_eq!(one.answers(), [Body::VoteResponse { granted: true }]);
    assert_eq!(one.raft.term(), Term(7));
    // One vote a term; asked again, the same answer.
    one.hear(C, 7, last.clone());
    one.hear(B, 7, last.clone());
    assert_eq!(one.answers(), [Body::VoteResponse { granted: true }]);
    let mut leader = One::new(config());
    leader.win(B);
    leader.hear(C, 9, last);
    leader.settle();
    assert!(leader.raft.is_leader());
}

#[test]
fn a_vote_survives_a_restart() {
    for term_known_before in [false, true] {
        let mut one = One::new(config());
        let last = || Body::Vote { last_index: Index(0), last_term: Term(0) };
        if term_known_before {
            one.hear(B, 3, Body::VoteResponse { granted: false });
            one.settle();
        }
        one.hear(C, 3, last());
        one.settle();
        one.env.disk.power_fail(|_| riprap_env::disk::Keep::Lost);
        one.raft = Raft::open(config(), &mut one.env, DIR, one.now_ns).expect("the disk is sound");
        one.hear(B, 3, last());
        assert_eq!(one.answers(), [Body::VoteResponse { granted: false }]);
    }
}

#[test]
fn who_votes_waits_for_the_candidate() {
    let mut one = One::new(config());
    one.now_ns = one.raft.wake_at_ns() - 1;
    one.hear(B, 1, Body::Vote { last_index: Index(0), last_term: Term(0) });
    assert!(one.raft.wake_at_ns() >= one.now_ns + 100 * MS);
    // Asked again by the same candidate, it does not wait longer.
    let wake_at_ns = one.raft.wake_at_ns();
    one.now_ns += 50 * MS;
    one.hear(B, 1, Body::Vote { last_index: Index(0), last_term: Term(0) });
    assert_eq!(one.raft.wake_at_ns(), wake_at_ns);
    // Who does not vote does not wait.
    one.hear(C, 2, Body::Vote { last_index: Index(0), last_term: Term(0) });
    one.settle();
    let wake_at_ns = one.raft.wake_at_ns();
    one.now_ns += 50 * MS;
    one.hear(B, 2, Body::Vote { last_index: Index(0), last_term: Term(0) });
    assert_eq!(one.raft.wake_at_ns(), wake_at_ns);
}

#[test]
fn a_term_with_a_leader_has_no_votes_left() {
    let mut one = One::new(config());
    one.hear(C, 1, append((0, 0), 0, vec![]));
    one.settle();
    one.hear(B, 1, Body::Vote { last_index: Index(9), last_term: Term(1) });
    assert_eq!(one.answers(), [Body::VoteResponse { granted: false }]);
}

/// Otherwise a node whose term is ahead could follow nobody, and nobody would follow it.
#[test]
fn an_old_leader_learns_of_a_later_term() {
    let from_old_leader = [
        append((0, 0), 0, vec![]),
        Body::InstallSnapshot {
            last_index: Index(1),
            last_term: Term(1),
            total_bytes: 1,
            offset: 0,
            data: Bytes::from("x"),
        },
        Body::Vote { last_index: Index(0), last_term: Term(0) },
        Body::PreVote { last_index: Index(0), last_term: Term(0) },
    ];
    for body in from_old_leader {
        let mut one = One::new(config());
        one.hear(C, 5, Body::VoteResponse { granted: false });
        one.hear(B, 4, body.clone());
        let terms: Vec<Term> = one.settle().messages.iter().map(|(_, message)| message.term).collect();
        assert_eq!(terms, [Term(5)], "{body:?}");
        assert_eq!((one.raft.leader(), one.raft.last_index()), (None, Index(0)), "{body:?}");
    }
    let mut leader = One::new(config());
    leader.win(B);
    let nothing = Index(0);
    leader.hear(C, 5, Body::AppendRejected { prev_index: nothing, hint_index: nothing, hint_term: Term(0) });
    let ready = leader.settle();
    assert_eq!(ready.role_changes, [RoleChange::BecameFollower { term: Term(5), leader: None }]);
}

#[test]
fn candidates_with_old_logs_get_no_vote() {
    let mut one = One::new(config());
    one.hear(B, 2, append((0, 0), 0, vec![entry(1, 1), entry(2, 2)]));
    one.settle();
    one.now_ns += 200 * MS;
    let cases = [((1, 2), false), ((5, 1), false), ((2, 2), true), ((3, 2), true), ((1, 3), true)];
    for (term, ((last_index, last_term), granted)) in (3..).zip(cases) {
        let (last_index, last_term) = (Index(last_index), Term(last_term));
        one.hear(B, term, Body::Vote { last_index, last_term });
        assert_eq!(
            one.answers(),
            [Body::VoteResponse { granted }],
            "log ends at {last_index} in {last_term}"
        );
    }
}

#[test]
fn a_node_that_comes_back_does_not_disturb() {
    let mut cluster = Cluster::begun(1, 3, &|_| {});
    let leader = cluster.elect();
    let term = cluster.raft(leader).term();
    let away = cluster.ids().into_iter().find(|id| *id != leader).expect("three nodes");
    cluster.isolate(away);
    cluster.run_for(2_000 * MS);
    cluster.propose(leader, "meanwhile").expect("it leads");
    cluster.run_for(100 * MS);
    cluster.heal();
    cluster.run_for(1_000 * MS);
    for id in cluster.ids() {
        assert_eq!((cluster.raft(id).term(), cluster.raft(id).leader()), (term, Some(leader)));
        assert_eq!(cluster.node(id).app.applied, Index(2));
    }
}

/// `cut` names the links, from the leader's point of view.
fn check_leader_is_replaced(what: &str, to_followers: bool, from_followers: bool) {
    let mut cluster = Cluster::begun(2, 3, &|_| {});
    let old = cluster.elect();
    for other in cluster.ids().into_iter().filter(|id| *id != old) {
        cluster.cut.extend(to_followers.then_some((old, other)));
        cluster.cut.extend(from_followers.then_some((other, old)));
    }
    cluster.propose(old, "never committed").expect("it does not know yet");
    cluster.run_for(140 * MS);
    assert!(!cluster.raft(old).is_leader(), "{what}: {}", cluster.describe());
    let elected = |c: &Cluster| c.leader().is_some_and(|leader| leader != old);
    cluster.run_until(what, 1_000 * MS, elected);
    cluster.heal();
    cluster.run_for(1_000 * MS);
    assert_eq!(cluster.raft(old).leader(), cluster.leader());
}

/// The leader that it heard in its former life may count on it for an election timeout.
#[test]
fn a_voter_that_starts_anew_is_bound_for_an_election_timeout() {
    let mut one = One::new(config());
    one.hear(C, 1, append((0, 0), 0, vec![]));
    one.settle();
    one.raft = Raft::open(config(), &mut one.env, DIR, one.now_ns).expect("what it left opens");
    for (wait_ms, granted) in [(0, false), (99, false), (1, true)] {
        one.now_ns += wait_ms * MS;
        one.hear(B, 1, Body::PreVote { last_index: Index(9), last_term: Term(1) });
        assert_eq!(one.answers(), [Body::PreVoteResponse { for_term: Term(2), granted }]);
    }
}

/// An answer says that its sender followed when it was asked, not that it still does when the answer arrives.
#[test]
fn late_answers_keep_no_leader() {
    for (late_ms, leads) in [(0, true), (60, true), (99, false), (500, false)] {
        let mut one = One::new(config());
        one.win(B);
        let asked_ns = one.now_ns;
        one.now_ns += late_ms * MS;
        one.hear_late(B, 1, asked_ns, accepted(1));
        one.wait(20 * MS);
        assert_eq!(one.raft.is_leader(), leads, "{late_ms} ms late");
    }
}

#[test]
fn a_leader_that_hears_no_majority_steps_down() {
    check_leader_is_replaced("cut off", true, true);
    check_leader_is_replaced("deaf", false, true);
    check_leader_is_replaced("mute", true, false);
}

#[test]
fn one_deaf_follower_does_not_unseat_a_leader() {
    let mut cluster = Cluster::begun(3, 3, &|_| {});
    let leader = cluster.elect();
    let term = cluster.raft(leader).term();
    let deaf = cluster.ids().into_iter().find(|id| *id != leader).expect("three nodes");
    cluster.cut.insert((leader, deaf));
    cluster.run_for(2_000 * MS);
    assert!(cluster.raft(leader).is_leader() && cluster.raft(leader).term() == term);
    assert_eq!(cluster.raft(deaf).leader(), None);
}

#[test]
fn a_leader_that_slept_steps_down_before_it_acts() {
    let mut cluster = Cluster::begun(4, 5, &|_| {});
    let old = cluster.elect();
    cluster.pause(old, cluster.now_ns + 1_000 * MS);
    cluster.run_for(900 * MS);
    let new = cluster.leader();
    cluster.run_for(1_000 * MS);
    assert_eq!(cluster.leader(), new);
    assert_eq!(cluster.raft(old).leader(), new);
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let cases = [
        (Config { voters: vec![], ..config() }, "there are no voters; at least 1"),
        (
            Config { voters: vec![A, B, B], ..config() },
            "voters [NodeId(1), NodeId(2), NodeId(2)] name a node twice",
        ),
        (Config { max_inflight_messages: 0, ..config() }, "max_inflight_messages is 0; at least 1"),
        (
            Config { heartbeat_interval_ns: 5, election_timeout_ns: 5, ..config() },
            "heartbeat_interval_ns 5 must be above 0 and below election_timeout_ns 5",
        ),
    ];
    for (config, why) in cases {
        let error = Raft::open(config, &mut NodeEnv::new(0, A), DIR, 0).expect_err("it cannot work");
        assert_eq!(error, OpenError::Config(why.to_owned()));
    }
}
