//! Single rules of Raft, each shown where it matters. One node is often enough: its peers are what the test says.

use crate::cluster::{Cluster, DIR, MS, NodeEnv};
use bytes::Bytes;
use riprap_coord::{
    Body, Config, Entry, Index, MAX_PAYLOAD_BYTES, Message, NodeId, OpenError, ProposeError, Raft, Ready,
    Role, RoleChange, SnapshotTooLarge, Term,
};

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const C: NodeId = NodeId(3);

/// Node 1 of three; the test speaks for the others.
struct One {
    raft: Raft,
    env: NodeEnv,
    now_ns: u64,
}

fn config() -> Config {
    let mut config = Config::new(A, vec![A, B, C]);
    config.election_timeout_ns = 100 * MS;
    config.heartbeat_interval_ns = 20 * MS;
    config
}

fn entry(index: u64, term: u64) -> Entry {
    Entry { index: Index(index), term: Term(term), payload: Bytes::from(format!("{index}.{term}")) }
}

fn append(prev: (u64, u64), commit: u64, entries: Vec<Entry>) -> Body {
    Body::Append { prev_index: Index(prev.0), prev_term: Term(prev.1), commit: Index(commit), entries }
}

fn accepted(match_index: u64) -> Body {
    Body::AppendAccepted { match_index: Index(match_index) }
}

impl One {
    fn new(config: Config) -> One {
        let mut env = NodeEnv::new(0, A);
        let raft = Raft::open(config, &mut env, DIR, 0).expect("an empty disk opens");
        One { raft, env, now_ns: 0 }
    }

    fn hear(&mut self, from: NodeId, term: u64, body: Body) {
        self.raft.step(self.now_ns, from, Message { term: Term(term), body }, &mut self.env);
    }

    fn settle(&mut self) -> Ready {
        self.raft.settle(self.now_ns, &mut self.env).expect("the disk works")
    }

    /// What it sends to B when settling.
    fn answers(&mut self) -> Vec<Body> {
        let messages = self.settle().messages.into_iter();
        messages.filter(|(to, _)| *to == B).map(|(_, message)| message.body).collect()
    }

    fn wait(&mut self, ns: u64) {
        self.now_ns += ns;
        self.raft.tick(self.now_ns, &mut self.env);
    }

    /// Makes it the leader of the term after its own, by the votes of `voter`.
    fn win(&mut self, voter: NodeId) -> Ready {
        self.wait(200 * MS);
        let (term, next) = (self.raft.term().0, self.raft.term().0 + 1);
        self.hear(voter, term, Body::PreVoteResponse { for_term: Term(next), granted: true });
        self.settle();
        self.hear(voter, next, Body::VoteResponse { granted: true });
        assert!(self.raft.is_leader());
        self.settle()
    }
}

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
fn proposals_between_settles_are_one_write_one_sync_and_one_message() {
    let mut one = One::new(config());
    one.win(B);
    one.hear(B, 1, accepted(1));
    one.settle();
    for n in 0..100 {
        one.raft.propose(Bytes::from(format!("{n}"))).expect("it leads");
    }
    let before = one.env.disk.operations();
    let answers = one.answers();
    assert_eq!(one.env.disk.operations() - before, 2);
    assert!(matches!(&answers[..], [Body::Append { entries, .. }] if entries.len() == 100), "{answers:?}");
    let before = one.env.disk.operations();
    assert_eq!(one.settle(), Ready::default());
    assert_eq!(one.env.disk.operations(), before, "nothing happened");
}

#[test]
fn a_leader_is_ready_once_it_handed_out_an_entry_of_its_term() {
    let mut one = One::new(config());
    one.hear(B, 1, append((0, 0), 0, vec![entry(1, 1)]));
    one.settle();
    one.win(B);
    assert!(!one.raft.leader_is_ready());
    one.hear(B, 2, accepted(1));
    one.settle();
    assert!(!one.raft.leader_is_ready());
    one.hear(B, 2, accepted(2));
    assert!(!one.raft.leader_is_ready(), "the application does not have the entries yet");
    assert_eq!(one.settle().committed.len(), 2);
    assert!(one.raft.leader_is_ready());
}

/// Thesis figure 3.7: an entry of an earlier term on a majority may still be lost.
#[test]
fn entries_of_earlier_terms_are_not_committed_by_counting() {
    let mut one = One::new(config());
    one.hear(B, 1, append((0, 0), 0, vec![entry(1, 1)]));
    one.settle();
    one.win(B);
    one.hear(B, 2, accepted(1));
    one.hear(C, 2, accepted(1));
    assert_eq!(one.settle().committed, []);
    one.hear(C, 2, accepted(2));
    let committed = one.settle().committed;
    assert_eq!(committed.iter().map(|e| e.term).collect::<Vec<_>>(), [Term(1), Term(2)]);
}

#[test]
fn answers_of_earlier_terms_count_for_nothing() {
    let mut one = One::new(config());
    one.win(B);
    one.hear(B, 1, accepted(1));
    one.settle();
    one.raft.propose(Bytes::from("lost")).expect("it leads");
    one.settle();
    // It steps down, its entry 2 is replaced, and it leads again with another entry 3.
    one.hear(C, 2, append((1, 1), 1, vec![entry(2, 2)]));
    one.settle();
    one.wait(200 * MS);
    one.hear(B, 2, Body::PreVoteResponse { for_term: Term(3), granted: true });
    one.settle();
    one.hear(B, 2, Body::VoteResponse { granted: true });
    one.hear(B, 1, Body::VoteResponse { granted: true });
    assert!(!one.raft.is_leader(), "votes of earlier terms");
    one.hear(B, 3, Body::VoteResponse { granted: true });
    one.settle();
    // What B said in term 1, of another entry 2 and of one that is gone.
    one.hear(B, 1, accepted(2));
    one.hear(B, 1, accepted(3));
    one.settle();
    assert_eq!(one.raft.commit_index(), Index(1));
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
    let mut cluster = Cluster::new(1, 3, |_| {});
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
    let mut cluster = Cluster::new(2, 3, |_| {});
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

#[test]
fn a_leader_that_hears_no_majority_steps_down() {
    check_leader_is_replaced("cut off", true, true);
    check_leader_is_replaced("deaf", false, true);
    check_leader_is_replaced("mute", true, false);
}

#[test]
fn one_deaf_follower_does_not_unseat_a_leader() {
    let mut cluster = Cluster::new(3, 3, |_| {});
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
    let mut cluster = Cluster::new(4, 5, |_| {});
    let old = cluster.elect();
    cluster.pause(old, cluster.now_ns + 1_000 * MS);
    cluster.run_for(900 * MS);
    let new = cluster.leader();
    cluster.run_for(1_000 * MS);
    assert_eq!(cluster.leader(), new);
    assert_eq!(cluster.raft(old).leader(), new);
}

#[test]
fn a_long_wrong_tail_is_found_in_a_few_rejections() {
    let mut cluster = Cluster::new(5, 3, |_| {});
    let old = cluster.elect();
    cluster.isolate(old);
    for n in 0..500 {
        cluster.propose(old, &format!("wrong {n}")).expect("it does not know yet");
    }
    cluster.run_until("another leads", 1_000 * MS, |c| c.leader().is_some_and(|leader| leader != old));
    let new = cluster.leader().expect("just seen");
    for n in 0..500 {
        cluster.propose(new, &format!("right {n}")).expect("it leads");
    }
    cluster.run_for(100 * MS);
    // A leader that has never heard of the old one's log: it begins at its own end.
    cluster.power_fail(new);
    cluster.start(new).expect("the disk is sound");
    let next = cluster.elect();
    let before = cluster.safety.seen.rejections;
    cluster.heal();
    let caught_up =
        |c: &Cluster| c.node(old).app == c.node(next).app && c.node(next).app.applied > Index(500);
    cluster.run_until("the old leader catches up", 1_000 * MS, caught_up);
    let rejections = cluster.safety.seen.rejections - before;
    assert!((1..=3).contains(&rejections), "{rejections} rejections");
}

#[test]
fn the_search_skips_terms_on_both_sides() {
    // The follower has 1.1 2.1 3.2 4.2 5.2; the leader's log and the place it may agree at.
    let cases = [((3, 1), (2, 1)), ((5, 1), (2, 1)), ((5, 3), (4, 2)), ((9, 3), (5, 2)), ((9, 1), (2, 1))];
    for ((prev_index, prev_term), (hint_index, hint_term)) in cases {
        let mut one = One::new(config());
        let log = vec![entry(1, 1), entry(2, 1), entry(3, 2), entry(4, 2), entry(5, 2)];
        one.hear(B, 3, append((0, 0), 0, log));
        one.settle();
        one.hear(B, 3, append((prev_index, prev_term), 0, vec![]));
        let (hint_index, hint_term) = (Index(hint_index), Term(hint_term));
        let rejected = Body::AppendRejected { prev_index: Index(prev_index), hint_index, hint_term };
        assert_eq!(one.answers(), [rejected], "after {prev_index} of term {prev_term}");
    }
    // The leader has 1.1 2.1 3.2 4.2 5.2 6.3; the follower's hint and where it probes next.
    let cases = [((5, 2), 5), ((5, 1), 2), ((4, 2), 4), ((3, 1), 2), ((0, 0), 0)];
    for ((hint_index, hint_term), probes_after) in cases {
        let mut one = One::new(config());
        let log = vec![entry(1, 1), entry(2, 1), entry(3, 2), entry(4, 2), entry(5, 2), entry(6, 2)];
        one.hear(C, 2, append((0, 0), 0, log));
        one.settle();
        one.win(C);
        let (hint_index, hint_term) = (Index(hint_index), Term(hint_term));
        let rejected = Body::AppendRejected { prev_index: Index(6), hint_index, hint_term };
        one.hear(B, 3, rejected.clone());
        // The same again says nothing about what was sent since.
        one.hear(B, 3, rejected);
        let answers = one.answers();
        let after = |body: &Body| match body {
            Body::Append { prev_index, entries, .. } => (prev_index.0, entries.len() as u64),
            other => panic!("{other:?}"),
        };
        let probes: Vec<_> = answers.iter().map(after).collect();
        assert_eq!(probes, [(probes_after, 7 - probes_after)], "hint {hint_index} of term {hint_term}");
        let late = Body::AppendRejected { prev_index: Index(6), hint_index: Index(0), hint_term: Term(0) };
        one.hear(B, 3, late);
        assert_eq!(one.answers(), [], "an answer to an earlier probe");
    }
}

#[test]
fn repeated_answers_do_not_multiply_chunks() {
    let mut one = One::new(Config { max_bytes_per_message: 4, ..config() });
    one.win(C);
    one.hear(C, 1, accepted(1));
    one.settle();
    one.raft.compact(Index(1), Bytes::from("0123456789")).expect("it is small");
    one.hear(B, 1, Body::AppendRejected { prev_index: Index(0), hint_index: Index(0), hint_term: Term(0) });
    let chunks = |one: &mut One, offset: Option<u64>| -> Vec<(u64, Bytes)> {
        if let Some(offset) = offset {
            one.hear(B, 1, Body::SnapshotProgress { last_index: Index(1), offset });
        }
        let chunks = one.answers().into_iter().filter_map(|body| match body {
            Body::InstallSnapshot { offset, data, .. } => Some((offset, data)),
            _ => None,
        });
        chunks.collect()
    };
    let chunk = |offset: u64, data: &'static str| vec![(offset, Bytes::from(data))];
    one.wait(20 * MS);
    let first = chunks(&mut one, None);
    assert_eq!(first, chunk(0, "0123"));
    assert_eq!(chunks(&mut one, Some(4)), chunk(4, "4567"));
    assert_eq!(chunks(&mut one, Some(4)), []);
    assert_eq!(chunks(&mut one, Some(4)), []);
    // A heartbeat asks; the answer says that the chunk was lost, and it goes again, once.
    one.wait(20 * MS);
    assert_eq!(chunks(&mut one, None), chunk(4, ""));
    assert_eq!(chunks(&mut one, Some(4)), chunk(4, "4567"));
    assert_eq!(chunks(&mut one, Some(4)), []);
    // A follower that restarted begins anew.
    assert_eq!(chunks(&mut one, Some(0)), chunk(0, "0123"));
    assert_eq!(chunks(&mut one, Some(8)), chunk(8, "89"));
    assert_eq!(chunks(&mut one, Some(11)), [], "past the end");
    one.hear(B, 1, accepted(1));
    assert_eq!(one.raft.status().followers[0].snapshot_index, None);
}

#[test]
fn a_follower_too_far_behind_gets_a_snapshot() {
    let mut cluster = Cluster::new(6, 3, |config| config.max_bytes_per_message = 30);
    cluster.weather.compact_after = 5;
    let leader = cluster.elect();
    let behind = cluster.ids().into_iter().find(|id| *id != leader).expect("three nodes");
    cluster.power_fail(behind);
    for n in 0..50 {
        cluster.propose(leader, &format!("{n}")).expect("it leads");
        cluster.run_for(5 * MS);
    }
    assert!(cluster.raft(leader).snapshot_index() > Index(20));
    cluster.start(behind).expect("the disk is sound");
    let same = |c: &Cluster| c.node(behind).app == c.node(leader).app;
    cluster.run_until("it catches up", 500 * MS, same);
    assert_eq!(cluster.safety.seen.snapshots_installed, 1);
    // It is durable: after a restart without the leader, the first settle hands it out.
    cluster.isolate(behind);
    cluster.power_fail(behind);
    cluster.start(behind).expect("the disk is sound");
    cluster.run_for(MS);
    assert!(cluster.node(behind).app.applied > Index(20));
}

#[test]
fn what_no_correct_peer_sends_is_refused() {
    let messages = [
        ("conflicts with a committed entry", append((0, 0), 2, vec![entry(1, 2)])),
        ("conflicts before its entries", append((2, 2), 2, vec![entry(3, 2)])),
        ("has a gap", append((2, 1), 2, vec![entry(4, 2)])),
        ("has a falling term", append((2, 1), 2, vec![entry(3, 2), entry(4, 1)])),
        ("has an entry of a later term", append((2, 1), 2, vec![entry(3, 5)])),
    ];
    for (what, body) in messages {
        let mut one = One::new(config());
        one.hear(B, 1, append((0, 0), 2, vec![entry(1, 1), entry(2, 1)]));
        one.settle();
        one.hear(B, 2, body);
        assert_eq!(one.answers(), [], "{what}");
        assert_eq!((one.raft.status().violations, one.env.errors.len()), (1, 1), "{what}");
        assert_eq!(one.raft.entry(Index(1)), Some(&entry(1, 1)), "{what}");
        assert_eq!(one.raft.last_index(), Index(2), "{what}");
    }
    let mut one = One::new(config());
    one.hear(B, 1, append((0, 0), 0, vec![]));
    one.hear(C, 1, append((0, 0), 0, vec![entry(1, 1)]));
    assert_eq!((one.raft.leader(), one.raft.last_index()), (Some(B), Index(0)), "two leaders of one term");
    let mut one = One::new(config());
    one.hear(NodeId(9), 5, append((0, 0), 0, vec![]));
    one.hear(A, 5, append((0, 0), 0, vec![]));
    assert_eq!(one.raft.term(), Term(0), "neither a stranger nor itself is a peer");
    one.win(B);
    one.hear(B, 1, accepted(7));
    assert_eq!(
        (one.raft.commit_index(), one.raft.status().violations),
        (Index(0), 1),
        "has what was never sent"
    );
}

#[test]
fn an_old_message_takes_nothing_back() {
    let mut one = One::new(config());
    let two = || append((0, 0), 0, vec![entry(1, 1), entry(2, 1)]);
    one.hear(B, 1, two());
    one.hear(B, 1, append((2, 1), 3, vec![entry(3, 1)]));
    one.settle();
    one.hear(B, 1, two());
    assert_eq!(one.answers(), [accepted(2)]);
    assert_eq!((one.raft.last_index(), one.raft.commit_index()), (Index(3), Index(3)));
    // Nor once it is compacted, in part or as a whole.
    one.raft.compact(Index(1), Bytes::from("s")).expect("it is small");
    one.hear(B, 1, two());
    assert_eq!(one.answers(), [accepted(2)]);
    one.raft.compact(Index(3), Bytes::from("s")).expect("it is small");
    one.hear(B, 1, two());
    assert_eq!(one.answers(), [accepted(3)]);
}

#[test]
fn heartbeats_commit_only_what_they_prove() {
    let mut one = One::new(config());
    one.hear(B, 1, append((0, 0), 0, vec![entry(1, 1), entry(2, 1), entry(3, 1)]));
    one.settle();
    // The leader of term 2 has committed its own entries 2 and 3, and says so while it probes at 1.
    one.hear(C, 2, append((1, 1), 3, vec![]));
    assert_eq!(one.settle().committed, [entry(1, 1)]);
}

#[test]
fn after_a_disk_failed_the_node_does_nothing_more() {
    let mut one = One::new(config());
    one.win(B);
    one.raft.propose(Bytes::from("x")).expect("it leads");
    one.env.disk.fail_operation(one.env.disk.operations() + 1);
    let error = one.raft.settle(one.now_ns, &mut one.env).expect_err("the sync fails");
    one.hear(B, 1, accepted(2));
    one.wait(1_000 * MS);
    assert_eq!(one.raft.settle(one.now_ns, &mut one.env), Err(error));
    assert_eq!(one.raft.wake_at_ns(), u64::MAX);
    assert_eq!(one.raft.propose(Bytes::from("y")), Err(ProposeError::NotLeader { leader: Some(A) }));
}

#[test]
fn limits_hold() {
    let mut one = One::new(Config { max_uncommitted_entries: 3, max_snapshot_bytes: 10, ..config() });
    one.win(B);
    one.hear(B, 1, accepted(1));
    one.settle();
    let too_large = Bytes::from(vec![0; MAX_PAYLOAD_BYTES + 1]);
    assert_eq!(one.raft.propose(too_large), Err(ProposeError::TooLarge(MAX_PAYLOAD_BYTES + 1)));
    for index in 2..5 {
        assert_eq!(one.raft.propose(Bytes::from("x")), Ok((Term(1), Index(index))));
    }
    assert_eq!(one.raft.propose(Bytes::from("x")), Err(ProposeError::Full(3)));
    one.settle();
    one.hear(B, 1, accepted(4));
    one.settle();
    assert_eq!(one.raft.propose(Bytes::from("x")), Ok((Term(1), Index(5))));
    let refused = SnapshotTooLarge { size: 11, limit: 10 };
    assert_eq!(one.raft.compact(Index(3), Bytes::from(vec![0; 11])), Err(refused));

    let mut one = One::new(Config { max_snapshot_bytes: 10, ..config() });
    let (last_index, last_term, offset, data) = (Index(5), Term(1), 0, Bytes::from("12345"));
    one.hear(B, 1, Body::InstallSnapshot { last_index, last_term, total_bytes: 11, offset, data });
    assert_eq!((one.answers().len(), one.raft.status().violations), (0, 1));
}

#[test]
fn entries_go_out_in_windows() {
    let limits = Config { max_entries_per_message: 2, max_inflight_messages: 2, ..config() };
    let mut one = One::new(limits);
    one.win(B);
    for _ in 0..9 {
        one.raft.propose(Bytes::from("x")).expect("it leads");
    }
    one.settle();
    let sent = |one: &mut One, match_index: u64| -> Vec<usize> {
        one.hear(B, 1, accepted(match_index));
        let lens = one.answers().into_iter().filter_map(|body| match body {
            Body::Append { entries, .. } => Some(entries.len()),
            _ => None,
        });
        lens.collect()
    };
    assert_eq!(sent(&mut one, 1), [2, 2]);
    assert_eq!(sent(&mut one, 3), [2]);
    assert_eq!(sent(&mut one, 7), [2, 1]);
    // All is sent; what is left to tell is the commit index.
    assert_eq!(sent(&mut one, 10), [0]);
    assert_eq!(sent(&mut one, 10), []);
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let cases = [
        (Config { voters: vec![B, C], ..config() }, "node 1 is not among the voters [NodeId(2), NodeId(3)]"),
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
