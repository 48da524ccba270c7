//! What transactions, groups and a whole cluster promise: what breaks it, and what nearly does.

#[allow(dead_code)]
mod common;

use riprap_checker::{Guarantees, Isolation, Options, Positions, Valid, Via, after_aborts, check, mini};

fn options() -> Options {
    Options { vacuity: false, via: Via::Subscribe, ..Options::default() }
}

/// `expect`: the anomalies found that are named here, each with its count, sorted by name; their proofs show them again.
#[track_caller]
fn check_with(options: &Options, names: &[&str], history: &str, expect: &[(&str, u64)]) {
    let history = mini::parse(history);
    let verdict = check(&history, options);
    let found = verdict.anomalies.iter().map(|(name, found)| (name.as_str(), found.count));
    let found: Vec<(&str, u64)> = found.filter(|(name, _)| names.contains(name)).collect();
    assert_eq!(found, expect, "in {}: {:?}", mini::print(&history), verdict.why);
    common::check_proofs(&history, options);
    let jepsen = Options { guarantees: Guarantees::Jepsen, ..options.clone() };
    let silent = check(&history, &jepsen);
    let ours = ["abort-", "committed-", "redelivery", "stuck-", "torn-txn"];
    let silent = silent.anomalies.keys().all(|name| !ours.iter().any(|our| name.starts_with(our)));
    assert!(silent, "Jepsen's checker knows nothing of these");
}

/// The story of the first example of this anomaly.
#[track_caller]
fn check_tells(history: &str, name: &str, story: &str) {
    let verdict = check(&mini::parse(history), &options());
    assert_eq!(verdict.anomalies[name].examples[0].story, story, "in {history}");
}

#[test]
fn torn_transactions() {
    let check = |history: &str, expect: &[(&str, u64)]| {
        check_with(&options(), &["lost-write", "torn-txn"], history, expect);
    };
    let torn = [("torn-txn", 1)];
    // Nobody was told where 6:1 is, so that no write of a known place is lost.
    check("?(s5=17 s6=1) 1/p5:12=17", &torn);
    check("(s5=17 s6=1) 1/p5:12=17", &torn);
    check("<(s5=17 s6=1) 1/p5:12=17", &torn);
    check("?(s5=17 s6=1) 1/p5:12=17;6:0=1", &[]);
    check("?(s5=17 s6=1) 1/p5:12=17 2/p6:0=1", &[]);
    // All of it missing is not torn, and neither is what was aborted.
    check("(s5=17 s6=1)", &[]);
    check("!(s5=17 s6=1) 1/p5:12=17", &[]);
    check("?(s5=17 s6=1)x 1/p5:12=17", &[]);
    // Somebody read past it.
    check("(s5=17@12 s6=1@0) 1/s6=2@1 2/p5:12=17;6:1=2", &[("lost-write", 1), ("torn-txn", 1)]);
    check("?(s5=17 s6=1@0)c 1/s6=2@1 2/p6:1=2", &[("lost-write", 1)]);
    // A reader that did not end well proves nothing.
    check("?(s5=17 s6=1) ?1/p5:12=17", &[]);
    // Two that are torn are two; each counts once, whatever is missing of it.
    check("?(s5=1 s6=1 s6=2) ?1/(s5=2 s6=3) 2/p5:1=1,2=2", &[("torn-txn", 2)]);
    // Where not all was read to the end, only what somebody read past is missing.
    let undrained = Options { drained: false, via: Via::Assign, ..options() };
    check_with(&undrained, &["torn-txn"], "?(s5=17 s6=1) 1/p5:12=17", &[]);
    check_with(&undrained, &["torn-txn"], "(s5=17@12 s6=1@0) 1/s6=2@1 2/p5:12=17;6:1=2", &torn);
    // Nor that, in a group: who committed past it may have been given up on before it told that it had read it.
    let of_group = Options { via: Via::Subscribe, ..undrained.clone() };
    for history in ["(s5=17@12 s6=1@0) 1/s6=2@1 2/u5,6 2/p5:12=17;6:1=2", "s5=17@12 s5=18@13 1/u5 1/p5:13=18"]
    {
        check_with(&of_group, &["torn-txn", "lost-write"], history, &[]);
        let drained = Options { drained: true, ..of_group.clone() };
        check_with(&drained, &["lost-write"], history, &[("lost-write", 1)]);
    }
    check_tells(
        "?(s5=17 s6=1) 1/p5:12=17",
        "torn-txn",
        "op 1 is one transaction: its key 5 value 17 at offset 12 was read by op 3, so it committed, but its key 6 value 1 \
         was read by nobody by the end of the run",
    );
    check_tells(
        "(s5=17@12 s6=1@0) 1/s6=2@1 2/p5:12=17;6:1=2",
        "torn-txn",
        "op 1 is one transaction: its key 5 value 17 at offset 12 was read by op 5, so it committed, but its key 6 value 1 \
         at offset 0 was read by nobody, though op 5 read value 2 at offset 1",
    );
    // Who is shown open transactions has seen no commit.
    let all = Options { isolation: Isolation::ReadUncommitted, ..options() };
    let verdict = riprap_checker::check(&mini::parse("?(s5=17 s6=1) 1/p5:12=17"), &all);
    assert_eq!(verdict.valid, Valid::True);
}

#[test]
fn outcomes_decide_what_the_client_did_not_know() {
    let names = ["G1a", "lost-write", "unseen"];
    let check = |history: &str, expect: &[(&str, u64)]| check_with(&options(), &names, history, expect);
    check("?(s5=17)x 1/p5:12=17", &[("G1a", 1)]);
    check("?(s5=17) 1/p5:12=17", &[]);
    check("?(s5=17@12)c 1/s5=18@13 2/p5:13=18", &[("lost-write", 1), ("unseen", 1)]);
    check("?(s5=17@12) 1/s5=18@13 2/p5:13=18", &[]);
}

#[test]
fn misrouted_records() {
    let check = |history: &str, expect: &[(&str, u64)]| {
        check_with(&options(), &["misrouted", "phantom-read"], history, expect);
    };
    check("s5=17@12 1/p6:0=17", &[("misrouted", 1)]);
    check("s5=17@12 s6=17@0 1/p6:0=17", &[]);
    check("s5=17@12 1/p6:0=18", &[("phantom-read", 1)]);
    check("s5=17@12 1/p6:0=18,1=17 ?2/p7:0=17", &[("misrouted", 2), ("phantom-read", 1)]);
    check_tells(
        "s5=17@12 s7=17 1/p6:0=17",
        "misrouted",
        "op 5 read key 6 value 17 at offset 0, which was never sent to key 6 but to key 5 (op 1), key 7 (op 3)",
    );
}

/// Three records of key 5, at offsets 10 to 12.
const SENT: &str = "99/s5=1@10 99/s5=2@11 99/s5=3@12 ";

#[test]
fn redelivery() {
    let names = ["committed-offset-regression", "redelivery", "redelivery-uncommitted"];
    let check = |history: &str, expect: &[(&str, u64)]| {
        check_with(&options(), &names, &format!("{SENT}{history}"), expect);
    };
    let (again, uncommitted) = ([("redelivery", 1)], [("redelivery-uncommitted", 1)]);
    check("u5 p5:10=1+5@11 1/u5 1/p5:11=2+5@12 p5:12=3+5@13", &[]);
    check("u5 p5:10=1+5@11 p5:10=1", &again);
    check("u5 p5:10=1+5@11 1/u5 1/p5:10=1", &again);
    check("u5 p5:10=1 1/u5 1/p5:10=1", &uncommitted);
    check("u5 p5:10=1,11=2+5@11 1/u5 1/p5:11=2", &uncommitted);
    // Committed later, or by an op that was not over when the poll began, or nobody knows.
    check("u5 p5:10=1 <1/p <p >p+5@11 1/u5 1/p5:10=1", &again);
    check("u5 1/u5 p5:10=1 <1/p p+5@11 >1/p5:10=1", &uncommitted);
    check("u5 p5:10=1 ?p+5@11 1/u5 1/p5:10=1", &uncommitted);
    // The reader may have had the key since before the commit, and the group given up on it; unless it tells otherwise.
    check("u5 1/u5 1/p~5 p5:10=1+5@11 1/p5:10=1", &uncommitted);
    check("u5 1/u5 p5:10=1+5@11 1/p5:10=1", &uncommitted);
    check("u5 1/u5 p5:10=1+5@11 1/p5:10=1~5", &again);
    check("u5 1/u5 p5:10=1+5@11 1/p~5 1/p5:10=1", &again);
    check("u5 1/u5 p5:10=1+5@11 1/p~6 1/p5:10=1", &uncommitted);
    check("u5 1/u5 <1/p p5:10=1+5@11 >1/p~5 1/p5:10=1", &uncommitted);
    // Its own commit it knows of in any case.
    check("u5 1/u5 p5:10=1 1/p5:10=1+5@11 1/p5:10=1", &[("redelivery", 1), ("redelivery-uncommitted", 1)]);
    // The group's offset can be known from a question too.
    // Who subscribes again may not have heard that the group has given up on it, and reads on.
    check("u5 p~5 1/u5 1/p5:10=1+5@11 u5 p5:10=1", &uncommitted);
    check("u5 1/u5 1/p5:10=1+5@11 u5 p5:10=1", &uncommitted);
    check("u5 1/u5 1/p5:10=1+5@11 u5 p~5 p5:10=1", &again);
    check("u5 p5:10=1+5@11 u5 p5:10=1", &again);
    check("u5 p5:10=1 g5=11 1/u5 1/p5:10=1", &again);
    check("u5 p5:10=1 g5=_ 1/u5 1/p5:10=1", &uncommitted);
    // Who assigns keys by itself is no member, and whoever did not read well has read nothing.
    check("u5 p5:10=1+5@11 1/a5 1/p5:10=1", &[]);
    check("u5 p5:10=1+5@11 1/u5 1/a5 1/p5:10=1", &[]);
    check("u5 p5:10=1+5@11 1/u5 !1/p5:10=1", &[]);
    check("1/a5 1/p5:10=1+5@11 u5 p5:10=1", &[]);
    // A second copy is another record.
    check("u5 p5:10=1+5@11 p5:13=1", &[]);
    check("u5 p5:10=1+5@11 1/u5 1/p5:10=1 2/u5 2/p5:10=1", &[("redelivery", 2)]);
    check_tells(
        &format!("{SENT}u5 p5:10=1+5@11 1/u5 1/p5:10=1"),
        "redelivery",
        "op 13 of process 1 was given key 5 value 1 at offset 10 again: op 9 of process 0 of the same group had read it, and \
         op 9 had committed offset 11",
    );
    check_tells(
        &format!("{SENT}u5 p5:10=1 1/u5 1/p5:10=1"),
        "redelivery-uncommitted",
        "op 13 of process 1 was given key 5 value 1 at offset 10 again: op 9 of process 0 of the same group had read it, but \
         when the process got the key the group is not known to have committed past it",
    );
}

/// Where consumers subscribe a step is allowed, unless the consumer held the key from one read to the next.
#[test]
fn steps_in_a_group() {
    let names = ["nonmonotonic-poll", "nonmonotonic-poll-held", "poll-skip", "poll-skip-held"];
    let check = |history: &str, expect: &[(&str, u64)]| {
        let history = format!("{SENT}98/p5:10=1,11=2,12=3 {history}");
        check_with(&options(), &names, &history, expect);
        let verdict = riprap_checker::check(&mini::parse(&history), &options());
        let forbidden = expect.iter().any(|(name, _)| name.ends_with("-held"));
        assert_eq!(verdict.valid == Valid::False, forbidden, "{history}: {:?}", verdict.why);
    };
    let (skip, held) = ([("poll-skip", 1)], [("poll-skip-held", 1)]);
    check("u5 p~5 p5:10=1 p5:12=3", &held);
    check("u5 p~5 p5:10=1,11=2 p5:11=2", &[("nonmonotonic-poll-held", 1)]);
    check("u5 p~5 p5:10=1 p p s6=1 p5:12=3", &held);
    // Nobody tells that it had the key, or it was given again: in between, or in one of the ops.
    check("u5 p5:10=1 p5:12=3", &skip);
    check("u5 p~6 p5:10=1 p5:12=3", &skip);
    check("u5 p~5 p5:10=1 p~5 p5:12=3", &skip);
    check("u5 p~5 p5:10=1 p5:12=3~5", &skip);
    check("u5 p5:10=1~5 p5:12=3", &skip);
    check("u5 p~5 p5:10=1 p~6 p5:12=3", &held);
    // It subscribes anew, or goes from the group to keys of its own, and back.
    check("u5 p~5 p5:10=1 u5 p5:12=3", &skip);
    check("u5 p~5 p5:10=1 !u5 p5:12=3", &held);
    check("u5 p~5 p5:10=1 a5 p5:12=3", &skip);
    check("a5 p5:10=1 u5 p5:12=3", &skip);
    // Beside those that subscribe others hold their keys by themselves.
    check("1/u5 a5 p5:10=1 p5:12=3", &held);
    check("1/u5 a5 p5:10=1 a5,6 p5:12=3", &held);
    check("1/u5 a6 p5:10=1 p5:12=3", &skip);
    // Where nobody subscribes, there is nothing to tell apart.
    let assign = Options { via: Via::Assign, ..options() };
    check_with(&assign, &names, &format!("{SENT}98/p5:10=1,11=2,12=3 a5 p5:10=1 p5:12=3"), &skip);
}

#[test]
fn committed_offsets() {
    let names = ["committed-offset-regression"];
    let check = |history: &str, expect: &[(&str, u64)]| {
        check_with(&options(), &names, &format!("{SENT}{history}"), expect);
    };
    let back = [("committed-offset-regression", 1)];
    check("u5 p+5@11 p+5@12 g5=12 g5=13 g5=13", &[]);
    check("u5 p+5@12 p+5@11", &back);
    check("u5 p+5@12 1/p+5@11", &back);
    check("u5 p+5@12 g5=11", &back);
    check("u5 p+5@12 g5=_", &back);
    check("u5 g5=_ g5=_ p+5@12", &[]);
    check("u5 p+5@12 g6=_ 1/p+6@1", &[]);
    // From where it went back to, it goes on.
    check("u5 p+5@12 g5=_ g5=_ p+5@11 g5=11 g5=12 g5=11", &[("committed-offset-regression", 2)]);
    // Of two commits that overlap either may be the last; a question may be older than its answer.
    check("<p <1/p >p+5@12 >1/p+5@11 g5=11", &[]);
    check("<p <1/p >p+5@12 >1/p+5@11 g5=10", &back);
    check("<g5=0 1/p+5@12 >g5=11 g5=12", &[]);
    check("<g5=0 1/p+5@12 >g5=11 g5=11", &back);
    // What did not end well told nothing, but for a transaction that is known to have committed.
    check("?p+5@12 1/g5=_", &[]);
    check("?(p)c+5@12 1/g5=_", &back);
    check("!g5=12 g5=11", &[]);
    check_tells(
        "u5 p+5@12 1/g5=11",
        "committed-offset-regression",
        "the group's offset of key 5 went back: op 3 committed offset 12, and op 5, which began after that, was told offset 11",
    );
    check_tells(
        "g5=12 1/g5=_",
        "committed-offset-regression",
        "the group's offset of key 5 went back: op 1 was told offset 12, and op 3, which began after that, was told that \
         there is none",
    );
}

#[test]
fn positions_after_aborts() {
    let names = [
        "abort-advance",
        "abort-other",
        "abort-other-held",
        "abort-rewind",
        "abort-rewind-further",
        "nonmonotonic-poll",
        "poll-skip",
    ];
    let sent = "99/s5=1@10 99/s5=2@11 99/s5=3@12 99/s5=4@14 98/p5:10=1,11=2,12=3,14=4 ";
    let assign = Options { via: Via::Assign, ..options() };
    let check = |history: &str, expect: &[(&str, u64)]| {
        check_with(&assign, &names, &format!("{sent}{history}"), expect);
    };
    let begin = "a5 p5:10=1 !(p5:11=2,12=3)x ";
    let check_next = |next: &str, expect: &[(&str, u64)]| check(&format!("{begin}{next}"), expect);
    check_next("p5:14=4", &[("abort-advance", 1)]);
    check_next("p5:11=2", &[("abort-rewind", 1)]);
    check_next("p5:10=1", &[("abort-rewind-further", 1)]);
    check_next("p5:12=3", &[("abort-other", 1)]);
    check_next("p p s6=1 p5:14=4", &[("abort-advance", 1)]);
    check("a5 p5:10=1 !(p5:11=2)x p5:14=4", &[("abort-other", 1)]);
    check("a5 p5:10=1 ?(p5:11=2)x 1/p5:14=4", &[]);
    // Nothing was read, or the consumer was set elsewhere.
    check("a5 p5:10=1 !(p)x p5:11=2", &[]);
    check_next("a5 p5:12=3", &[]);
    check_next("", &[]);
    // One after the other.
    check_next("!(p5:11=2)x p5:12=3", &[("abort-advance", 1), ("abort-rewind", 1)]);
    check_next("!(p5:14=4)x p5:11=2", &[("abort-advance", 1), ("abort-rewind-further", 1)]);
    // From then on it is judged as ever.
    check_next("p5:11=2 p5:14=4", &[("abort-rewind", 1), ("poll-skip", 1)]);
    // A poll that failed without an abort is none.
    check("a5 p5:10=1 !(p5:11=2,12=3) p5:14=4", &[("poll-skip", 1)]);
    // A group may send a consumer anywhere, but not one that held the key all the while.
    let check_in_group = |history: &str, expect: &[(&str, u64)]| {
        let history = format!("{sent}{history}");
        check_with(&options(), &names, &history, expect);
        let verdict = riprap_checker::check(&mini::parse(&history), &options());
        let forbidden = expect.iter().any(|(name, _)| name.ends_with("-held"));
        assert_eq!(verdict.valid == Valid::False, forbidden, "{history}: {:?}", verdict.why);
    };
    let (other, held) = ([("abort-other", 1)], [("abort-other-held", 1)]);
    check_in_group("u5 !(p5:11=2,12=3)x p5:12=3", &other);
    check_in_group("u5 p~5 !(p5:11=2,12=3)x p5:12=3", &held);
    check_in_group("u5 p~5 !(p5:11=2)x p s6=1 p5:14=4", &held);
    check_in_group("1/u5 a5 !(p5:11=2)x p5:14=4", &held);
    check_in_group("1/u5 a6 !(p5:11=2)x p5:14=4", &other);
    check_in_group("u5 p~5 !(p5:11=2,12=3)x p~5 p5:12=3", &other);
    check_in_group("u5 p~5 !(p5:11=2,12=3)x p5:12=3~5", &other);
    check_in_group("u5 !(p5:11=2,12=3)x~5 p5:12=3", &other);
    check_in_group("u5 p~5 !(p5:11=2,12=3)x p~6 p5:12=3", &held);
    check_in_group("u5 p~5 !(p5:11=2,12=3)x p5:14=4", &[("abort-advance", 1)]);
    check_in_group("u5 p~5 !(p5:11=2,12=3)x p5:11=2", &[("abort-rewind", 1)]);
    check_tells(
        &format!("{sent}u5 p~5 !(p5:11=2,12=3)x p5:12=3"),
        "abort-other-held",
        "op 15 of process 0 read key 5 value 2 at offset 11 to value 3 at offset 12 and was aborted; the next that the process \
         read of the key, in op 17, is value 3 at offset 12; it had held the key all the while",
    );
    check_tells(
        &format!("{sent}{begin}p5:14=4"),
        "abort-advance",
        "op 15 of process 0 read key 5 value 2 at offset 11 to value 3 at offset 12 and was aborted; the next that the process \
         read of the key, in op 17, is value 4 at offset 14; the key was not rebalanced",
    );
    check_tells(
        &format!("{sent}{begin}p~5 p5:11=2"),
        "abort-rewind",
        "op 15 of process 0 read key 5 value 2 at offset 11 to value 3 at offset 12 and was aborted; the next that the process \
         read of the key, in op 19, is value 2 at offset 11; the key was rebalanced meanwhile",
    );
}

/// How often consumers went on where, by how they held the key.
#[test]
fn counts_after_aborts() {
    let sent = "99/s5=1@10 99/s5=2@11 99/s5=3@12 99/s5=4@14 98/p5:10=1,11=2,12=3,14=4 ";
    // Each of advance, rewind, rewind further, other; of keys assigned, kept, rebalanced.
    let check = |history: &str, transactions: u64, expect: [[u64; 4]; 3]| {
        let aborts =
            after_aborts(&mini::parse(&format!("{sent}{history}"))).expect("the check does not break");
        let four = |p: Positions| [p.advance, p.rewind, p.rewind_further, p.other];
        let found = [aborts.assigned, aborts.kept, aborts.rebalanced].map(four);
        assert_eq!((aborts.transactions, found), (transactions, expect), "{history}");
    };
    let none = [0; 4];
    check("a5 p5:10=1 p5:11=2", 0, [none; 3]);
    check("a5 !(p)x p5:10=1", 0, [none; 3]);
    check("a5 !(p5:10=1)x", 1, [none; 3]);
    check("a5 !(p5:10=1)x p5:11=2", 1, [[1, 0, 0, 0], none, none]);
    check("a5 !(p5:10=1)x !(p5:11=2)x p5:10=1", 2, [[1, 0, 1, 0], none, none]);
    check("a5 !(p5:10=1)x p5:10=1 1/a5 !1/(p5:10=1)x 1/p5:12=3", 2, [[0, 1, 0, 1], none, none]);
    check("u5 p~5 !(p5:10=1)x p5:11=2", 1, [none, [1, 0, 0, 0], none]);
    check("u5 p~5 !(p5:10=1)x p~5 p5:10=1", 1, [none, none, [0, 1, 0, 0]]);
    check("u5 p~5 !(p5:10=1)x a5 !(p5:11=2)x p5:12=3", 2, [[1, 0, 0, 0], none, none]);
    check("u5 p~5 !u5 !(p5:10=1)x p5:11=2", 1, [none, [1, 0, 0, 0], none]);
}

#[test]
fn progress() {
    let check = |history: &str, expect: &[(&str, u64)]| {
        check_with(&options(), &["stuck-consumer", "stuck-producer"], &format!("{SENT}{history}"), expect);
    };
    let (consumer, producer) = ([("stuck-consumer", 1)], [("stuck-producer", 1)]);
    // Writes: refused for long, refused and then taken, refused for a while, before the cluster was whole.
    check("#drain !s5=4 w30 !s5=5", &producer);
    check("#drain !s5=4 w30 s5=5@13 1/p5:13=5", &[]);
    check("#drain !s5=4 w29 !s5=5", &[]);
    check("!s5=4 w30 !s5=5 #drain !s5=6", &[]);
    check("!s5=4 w30 !s5=5", &[]);
    check("#heal #unrecovered #drain !s5=4 w30 !s5=5", &[]);
    check("#drain <s5=4 w30 >?s5=4", &producer);
    check("#drain ?s5=4 w30 ?1/s5=5", &producer);
    check("#drain ?s5=4 w30 ?1/s5=5 2/p5:13=5", &[]);
    check("#drain !s5=4 !s6=4 w30 !s5=5 !s6=5", &[("stuck-producer", 2)]);
    // Reads: nothing comes though there is something, by the client's own word or by what others know.
    check("#drain A5 d5=0/3 w30 p d5=0/3", &consumer);
    check("#drain A5 d5=0/3 w30 p d5=3/3", &[]);
    check("#drain A5 d5=0/3 w29 p d5=0/3", &[]);
    check("#drain A5 w30 p #undrained", &consumer);
    check("#drain A5 w30 !p", &consumer);
    check("#drain A5 w30 p5:10=1", &[]);
    check("#drain A5 p5:10=1 w30 p", &consumer);
    check("#drain A5 p5:10=1,11=2,12=3 w30 p", &[]);
    check("#drain A7 w30 p", &[]);
    check("#drain p w30 p", &[]);
    // Something of another key came: the reader is busy.
    check("#drain A5,6 w20 p6:0=1 w20 p", &[]);
    check("A5 w30 p #drain", &[]);
    // Nobody waited for 30 s: the second reader has only begun.
    check("#drain A5 p w30 1/A5", &[]);
    check("#drain A5 p w30 1/A5 1/p", &consumer);
    check("#drain A5 #drained w30 p", &[]);
    check_tells(
        &format!("{SENT}#drain !s5=4 w30 !s5=5"),
        "stuck-producer",
        "key 5 took no write in 30.0 s after the cluster was whole again (op 6): 2 sends from op 9 to op 11, none of them \
         acknowledged",
    );
    check_tells(
        &format!("{SENT}#drain A5 d5=0/3 w30 p d5=0/3"),
        "stuck-consumer",
        "key 5 was assigned (op 9) after the cluster was whole again (op 6), and from op 9 to op 15, 30.0 s, its reader got \
         nothing, though its position is 0 and the log's end 3 (op 15)",
    );
    check_tells(
        &format!("{SENT}#drain A5 p5:10=1 w30 p"),
        "stuck-consumer",
        "key 5 was assigned (op 9) after the cluster was whole again (op 6), and from op 11 to op 13, 30.0 s, its reader got \
         nothing, though there is value 3 at offset 12",
    );
}

/// A group that waits for nobody goes on with every key to which its members have subscribed.
#[test]
fn groups_go_on() {
    let check = |history: &str, expect: &[(&str, u64)]| {
        check_with(&options(), &["stuck-consumer", "stuck-producer"], &format!("{SENT}{history}"), expect);
    };
    let stuck = [("stuck-consumer", 1)];
    // One more value of keys 5 and 6, which others read, though not up to the ends that they tell.
    let whole = "#drain 8/s5=9@13 8/s6=9@1 9/A5,6 9/p5:10=1,11=2,12=3,13=9;6:1=9 ";
    let check_group = |group: &str, expect: &[(&str, u64)]| check(&format!("{whole}{group}"), expect);
    check_group("u5 p #group w30 p", &stuck);
    check_group("u5 p #group w30 !p", &stuck);
    check_group("u5 p~5 #group p5:12=3 w30 p", &stuck);
    check_group("u5 p #group p5:12=3 1/u5 w30 1/p", &stuck);
    check_group("u5,6 p #group w30 p", &[("stuck-consumer", 2)]);
    check_group("u5,6 p6:1=9 #group w30 p", &stuck);
    // Others may still be in it; nobody has waited for so long; it has not been written since.
    check_group("u5 p w60 p", &[]);
    check_group("u5 p w60 #group p", &[]);
    check_group("u5 p #group w29 p", &[]);
    check_group("u5 p #group w30 1/u5 1/p", &[]);
    check_group("u5 p #group w30 #drained p", &[]);
    check_group("u7 p #group w30 p", &[]);
    check("u5 p #heal #unrecovered #drain 8/s5=9@13 9/A5 9/p5:10=1,11=2,12=3,13=9 #group w30 p", &[]);
    check("8/s5=9@13 #drain 9/A5 9/p5:10=1,11=2,12=3,13=9 u5 p #group w30 p", &[]);
    // It goes on: with what was written, whoever gets it and however that op ends; or at least with something.
    check_group("u5 p #group p5:13=9 w30 p", &[]);
    check_group("u5 p5:13=9 #group w30 p", &[]);
    check_group("u5 p #group w20 p5:12=3 w20 p", &[]);
    check_group("u5 1/u5 p #group !1/(p5:13=9)x w30 p", &[]);
    // Nobody who could be asked has read it: then it is not known to be there.
    check("#drain 8/s5=9@13 u5 p #group w30 p", &[]);
    // What a member did that nobody knows the end of may have read it; of what was sent then nothing.
    check_group("u5 p ?p 1/u5 1/p #group w30 1/p", &[]);
    check_group("u5 p #group ?p 1/u5 1/p w30 1/p", &[]);
    let again = "8/s5=10@14 9/p5:14=10";
    check_group(&format!("u5 ?p {again} 1/u5 1/p #group w30 1/p"), &stuck);
    check_group(&format!("u5 ?p 1/u5 1/p {again} #group ?1/p 2/u5 #group w30 2/p"), &[]);
    // A client that is thrown away has done nothing since, and one that goes its own way reads for itself.
    check_group("u5 p c 1/u5 1/p #group w30 1/p", &stuck);
    check_group("u5 p #group a5 w30 p", &[]);
    check_tells(
        &format!("{SENT}{whole}u5 p #group w30 p"),
        "stuck-consumer",
        "the group does not go on with key 5: its members before the cluster was whole again (op 6) were gone by op 20, and \
         process 0 had subscribed (op 17) and polled until op 23, but in 30.0 s nobody in it got a record of that key, though \
         op 15 read value 9 there; it was given to nobody",
    );
    check_tells(
        &format!("{SENT}{whole}u5 p~5 #group p5:12=3 w30 p"),
        "stuck-consumer",
        "the group does not go on with key 5: its members before the cluster was whole again (op 6) were gone by op 20, and \
         process 0 had subscribed (op 17) and polled until op 25, but in 30.0 s after op 23 nobody in it got a record of that \
         key, though op 15 read value 9 there; process 0 was given it in op 19",
    );
}

/// A heal that did not take effect leaves the cluster broken.
#[test]
fn nobody_is_stuck_before_the_cluster_is_whole() {
    use riprap_core::History;
    use riprap_core::op::{F, Kind, OpValue};
    let history = mini::parse("#heal #heal-kill #drain A5 d5=0/3 w30 p d5=0/3");
    for took_effect in [true, false] {
        let ops = history.ops().map(|op| {
            let mut op = op.to_op();
            // The second mark stands for the nemesis' act.
            if [2, 3].contains(&op.index) {
                op.f = F::Other("heal-kill".into());
                let effect = serde_json::json!({"took_effect": took_effect});
                op.value = if op.kind == Kind::Info { OpValue::Json(effect) } else { OpValue::None };
            }
            op
        });
        let verdict = check(&ops.collect::<History>(), &options());
        assert_eq!(verdict.anomalies.contains_key("stuck-consumer"), took_effect);
    }
}
