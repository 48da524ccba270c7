//! What is written, sent, committed and refused: single rules, each shown where it matters.

use crate::cluster::Cluster;
use crate::node::MS;
use crate::one::{A, B, C, One, accepted, append, config, entry};
use bytes::Bytes;
use riprap_coord::{
    Body, Config, Index, MAX_PAYLOAD_BYTES, NodeId, ProposeError, Ready, SnapshotTooLarge, Term,
};

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
fn a_long_wrong_tail_is_found_in_a_few_rejections() {
    let mut cluster = Cluster::begun(5, 3, &|_| {});
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
fn a_snapshot_is_of_one_leader() {
    let mut one = One::new(config());
    let mut chunk = |from: NodeId, term: u64, offset: u64, data: &'static str| {
        let (last_index, last_term, data) = (Index(5), Term(1), Bytes::from(data));
        one.hear(from, term, Body::InstallSnapshot { last_index, last_term, total_bytes: 4, offset, data });
        let ready = one.settle();
        let answer = ready.messages.into_iter().next_back().map(|(_, message)| message.body);
        (answer, ready.snapshot.map(|snapshot| snapshot.data))
    };
    let wants = |offset: u64| (Some(Body::SnapshotProgress { last_index: Index(5), offset }), None);
    assert_eq!(chunk(B, 1, 0, "ab"), wants(2));
    // Another leader's state at the same entry may be encoded in another way.
    assert_eq!(chunk(C, 2, 2, "CD"), wants(0));
    assert_eq!(chunk(C, 2, 0, "AB"), wants(2));
    assert_eq!(chunk(C, 2, 0, "AB"), wants(2));
    assert_eq!(chunk(C, 2, 2, "CD"), (Some(accepted(5)), Some(Bytes::from("ABCD"))));
    assert_eq!(chunk(C, 2, 2, "CD"), (Some(accepted(5)), None), "it has it already");
}

#[test]
fn a_follower_too_far_behind_gets_a_snapshot() {
    let mut cluster = Cluster::begun(6, 3, &|config| config.max_bytes_per_message = 30);
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
