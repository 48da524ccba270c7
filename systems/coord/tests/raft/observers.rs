//! Observers: they get what the voters agree on, and move nobody.

use crate::cluster::Cluster;
use crate::node::{DIR, MS};
use crate::one::{B, C, One, accepted, append, config, entry};
use bytes::Bytes;
use riprap_coord::{Body, Config, Index, Life, NodeId, Raft, Role, Term};

const D: NodeId = NodeId(4);
const E: NodeId = NodeId(5);

fn rejected(prev: u64) -> Body {
    Body::AppendRejected { prev_index: Index(prev), hint_index: Index(0), hint_term: Term(0) }
}

/// What it sends to an observer when settling.
fn told(one: &mut One, to: NodeId) -> Vec<Body> {
    let messages = one.settle().messages.into_iter();
    messages.filter(|(id, _)| *id == to).map(|(_, message)| message.body).collect()
}

/// Node 1 as an observer of nodes 2 and 3.
fn observer() -> One {
    One::newcomer(Config { voters: vec![B, C], ..config() })
}

#[test]
fn an_observer_follows_through_leaders_snapshots_and_restarts() {
    let mut cluster = Cluster::observed(11, 3, 2, &|config| config.max_bytes_per_message = 40).begin();
    cluster.weather.compact_after = 7;
    let same = |c: &Cluster| {
        let leader = c.leader().expect("the others are well");
        c.ids().iter().all(|id| c.nodes[id].raft.is_none() || c.node(*id).app == c.node(leader).app)
    };
    for turn in 0..6 {
        let leader = cluster.elect();
        cluster.kill(D);
        for n in 0..20 {
            cluster.propose(leader, &format!("{turn} {n}")).expect("it leads");
            cluster.run_for(3 * MS);
        }
        cluster.run_until("the others have it", 500 * MS, same);
        match turn % 3 {
            0 => {}
            1 => cluster.lose_disk(D),
            _ => cluster.power_fail(D),
        }
        cluster.start(D).expect("its disk opens");
        // The leader goes: who takes its place is asked anew.
        cluster.kill(leader);
        cluster.run_until("another leads", 2_000 * MS, |c| c.leader().is_some());
        cluster.run_until("the observers have all of it", 2_000 * MS, same);
        assert_eq!(cluster.raft(D).status().role, Role::Observer);
        cluster.start(leader).expect("its disk opens");
        cluster.run_for(300 * MS);
    }
}

#[test]
fn observers_decide_nothing() {
    // Three observers do not make up for two voters.
    let mut cluster = Cluster::observed(12, 3, 3, &|_| {}).begin();
    let leader = cluster.elect();
    cluster.run_for(200 * MS);
    let voters = cluster.voters.clone();
    for id in voters.iter().filter(|id| **id != leader) {
        cluster.kill(*id);
    }
    let (_, index) = cluster.propose(leader, "x").expect("it does not know yet");
    cluster.run_for(3_000 * MS);
    assert_eq!(cluster.leader(), None, "{}", cluster.describe());
    assert!(cluster.ids().iter().all(|id| cluster.node(*id).app.applied < index));
    // Nor do they keep others from deciding.
    for id in voters.iter().filter(|id| **id != leader) {
        cluster.start(*id).expect("its disk opens");
    }
    for observer in [4, 5, 6].map(NodeId) {
        cluster.kill(observer);
    }
    let leader = cluster.elect();
    let (_, index) = cluster.propose(leader, "y").expect("it leads");
    cluster.run_until("it is committed", 200 * MS, |c| c.raft(leader).commit_index() >= index);
}

#[test]
fn an_idle_observer_costs_a_heartbeat() {
    let mut cluster = Cluster::observed(13, 3, 1, &|_| {}).begin();
    cluster.elect();
    cluster.run_for(1_000 * MS);
    let before = cluster.delivered;
    cluster.run_for(1_000 * MS);
    // Three that follow, a heartbeat and an answer each 20 ms.
    assert!(cluster.delivered - before <= 310, "{} messages in a second", cluster.delivered - before);
}

#[test]
fn it_asks_every_voter_until_it_hears_a_leader() {
    let mut one = observer();
    let asked = |one: &mut One| -> Vec<NodeId> {
        let messages = one.settle().messages.into_iter();
        messages.filter(|(_, message)| message.body == Body::Observe).map(|(to, _)| to).collect()
    };
    one.wait(0);
    assert_eq!(asked(&mut one), [B, C]);
    one.wait(19 * MS);
    assert_eq!(asked(&mut one), []);
    one.wait(MS);
    assert_eq!(asked(&mut one), [B, C]);
    one.hear(B, 1, append((0, 0), 0, vec![entry(1, 1)]));
    assert_eq!(one.answers(), [accepted(1)]);
    one.wait(99 * MS);
    assert_eq!((asked(&mut one), one.raft.leader()), (vec![], Some(B)));
    one.wait(MS);
    assert_eq!((asked(&mut one), one.raft.leader()), (vec![B, C], None));
}

#[test]
fn it_neither_votes_nor_lets_itself_be_voted_for() {
    let mut one = observer();
    let (last_index, last_term) = (Index(9), Term(9));
    for body in [
        Body::Vote { last_index, last_term },
        Body::PreVote { last_index, last_term },
        Body::PreVoteResponse { for_term: Term(1), granted: true },
        Body::VoteResponse { granted: true },
        Body::Observe,
        accepted(1),
    ] {
        one.hear(B, 7, body.clone());
        assert_eq!((one.settle().messages, one.raft.term()), (vec![], Term(0)), "{body:?}");
    }
    // It keeps the log as a follower does.
    one.hear(B, 2, append((0, 0), 1, vec![entry(1, 1), entry(2, 2)]));
    let ready = one.settle();
    assert_eq!((ready.committed, ready.messages.len()), (vec![entry(1, 1)], 1));
    let voters = Config { voters: vec![B, C], ..config() };
    one.raft = Raft::open(voters, &mut one.env, DIR, one.now_ns).expect("what it left opens");
    assert_eq!((one.raft.term(), one.raft.last_index()), (Term(2), Index(2)));
    one.hear(C, 1, append((2, 2), 2, vec![]));
    assert!(one.settle().committed.is_empty(), "an old leader");
}

#[test]
fn nothing_that_an_observer_says_moves_a_voter() {
    let mut one = One::new(Config { max_observers: 1, ..config() });
    one.hear(D, 9, Body::Observe);
    assert_eq!(told(&mut one, D), [], "only a leader answers");
    one.win(B);
    let (last_index, last_term) = (Index(9), Term(9));
    one.hear(D, 0, Body::Observe);
    assert!(matches!(&told(&mut one, D)[..], [Body::Append { .. }]));
    for body in [
        Body::Vote { last_index, last_term },
        Body::PreVote { last_index, last_term },
        Body::VoteResponse { granted: true },
        append((0, 0), 9, vec![entry(1, 9)]),
        Body::Doubt,
        Body::Observe,
        accepted(1),
        rejected(1),
    ] {
        one.hear(D, 9, body.clone());
        assert_eq!(
            (told(&mut one, D), one.raft.is_leader(), one.raft.term()),
            (vec![], true, Term(1)),
            "{body:?}"
        );
    }
    // It is sent the log, and does not count.
    one.hear(D, 1, accepted(1));
    one.settle();
    assert_eq!(one.raft.commit_index(), Index(0));
    one.raft.propose(Bytes::from("x")).expect("it leads");
    assert!(matches!(&told(&mut one, D)[..], [Body::Append { entries, .. }] if entries.len() == 1));
    // Nor does it tell that the leader is heard.
    one.now_ns += 99 * MS;
    one.hear(D, 1, accepted(2));
    one.wait(MS);
    assert!(!one.raft.is_leader());
    assert_eq!(one.raft.observers().count(), 0);
}

#[test]
fn observers_are_few_and_forgotten_when_they_are_silent() {
    let mut one = One::new(Config { max_observers: 1, ..config() });
    one.win(B);
    one.hear(D, 0, Body::Observe);
    one.hear(E, 0, Body::Observe);
    assert_eq!((told(&mut one, E), one.raft.observers().collect::<Vec<_>>()), (vec![], vec![D]));
    for _ in 0..50 {
        one.wait(20 * MS);
        one.hear(B, 1, accepted(1));
        one.hear(C, 1, accepted(1));
        one.settle();
    }
    // D was not heard for ten election timeouts.
    assert_eq!(one.raft.observers().count(), 0);
    one.hear(E, 0, Body::Observe);
    assert_eq!(one.raft.observers().collect::<Vec<_>>(), [E]);
}

#[test]
fn an_observer_that_lost_its_disk_is_sent_all_of_it() {
    let mut one = One::new(config());
    one.win(B);
    one.hear(B, 1, accepted(1));
    one.hear(D, 0, Body::Observe);
    one.settle();
    let first = Some(Life(3));
    one.hear_as(D, 1, one.now_ns, first, accepted(1));
    one.settle();
    one.now_ns += MS;
    // Another disk, or an older one of the same life: it never had entry 1.
    for life in [Some(Life(4)), Some(Life(4))] {
        let mut said = Vec::new();
        for _ in 0..2 {
            one.hear_as(D, 1, one.now_ns, life, rejected(1));
            said.extend(told(&mut one, D));
        }
        let from_the_start = |body: &Body| matches!(body, Body::Append { prev_index: Index(0), entries, .. } if entries.len() == 1);
        assert!(said.iter().any(from_the_start), "{said:?}");
        one.hear_as(D, 1, one.now_ns, life, accepted(1));
        assert!(!told(&mut one, D).iter().any(|body| matches!(body, Body::Admit { .. })), "it is no voter");
        one.now_ns += MS;
    }
}
