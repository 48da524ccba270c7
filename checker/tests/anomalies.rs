//! Every anomaly in small: what is one, and what is nearly one and is not.

use riprap_checker::{Guarantees, Isolation, Options, Valid, check, mini};

/// `expect`: the anomalies found, each with its count, sorted by name.
#[track_caller]
fn check_finds(history: &str, expect: &[(&str, u64)]) {
    let options = Options { vacuity: false, ..Options::default() };
    let verdict = check(&mini::parse(history), &options);
    let found: Vec<(&str, u64)> =
        verdict.anomalies.iter().map(|(name, found)| (name.as_str(), found.count)).collect();
    assert_eq!(found, expect, "in {history}: {:?}", verdict.why);
    let forbidden = verdict.anomalies.values().any(|found| !found.allowed);
    assert_eq!(verdict.valid == Valid::False, forbidden, "in {history}: {:?}", verdict.why);
}

/// As above, and the first reason is this.
#[track_caller]
fn check_tells(history: &str, why: &str) {
    let options = Options { vacuity: false, ..Options::default() };
    let verdict = check(&mini::parse(history), &options);
    assert_eq!(verdict.why.first().map_or("", String::as_str), why, "in {history}");
}

#[test]
fn clean_histories_are_clean() {
    for history in [
        "",
        "a5 s5=17@12 1/a5 1/p5:12=17 1/p s5=18@14 1/p5:14=18",
        "(s5=17@12 s6=1@0) 1/(p5:12=17;6:0=1)",
        "c 1/A5 1/p",
        "s5=_@12 1/p5:12=_",
    ] {
        check_finds(history, &[]);
    }
}

#[test]
fn lost_write() {
    check_finds("s5=17@12 1/s5=18@13 2/p5:13=18", &[("lost-write", 1), ("unseen", 1)]);
    // Nobody got so far; the other key's reads prove nothing.
    check_finds("s5=17@12 1/s5=18@13 2/p5:12=17", &[("unseen", 1)]);
    check_finds("s5=17@12 s6=1@20 2/p6:20=1", &[("unseen", 1)]);
    // Undecided, but another of its records was read: all of them must be there.
    check_finds("?(s5=17@12 s6=1@0) 1/s5=18@13 2/p5:13=18;6:0=1", &[("lost-write", 1), ("torn-txn", 1)]);
    check_finds("?(s5=17@12 s6=1@0) 1/s5=18@13 2/p5:13=18", &[]);
    check_finds("!s5=17@12 1/s5=18@13 2/p5:13=18", &[]);
    // What an op read that did not end well it may have thrown away; Jepsen says so too.
    check_finds("s5=17@12 1/s5=18@13 ?2/p5:12=17 3/p5:13=18", &[("lost-write", 1), ("unseen", 1)]);
    check_tells(
        "s5=17@12 1/s5=18@13 2/p5:13=18",
        "lost-write: key 5 value 17 acked at offset 12 (op 1) was read by nobody, though op 5 read value 18 at offset 13",
    );
}

#[test]
fn unseen() {
    check_finds("s5=17", &[("unseen", 1)]);
    check_finds("s5=17 1/p5:_=17", &[]);
    check_finds("?s5=17@12", &[]);
    check_finds("s5=1@1 s5=2@2 s6=1@1 1/p5:1=1", &[("unseen", 2)]);
    // Read before it was acknowledged.
    check_finds("<s5=17 1/p5:12=17 >s5=17@12", &[]);
    // Jepsen counts the 17 as unseen here: its key is first polled by the last op, and nobody was acknowledged for it.
    check_finds("?s5=17 1/p5:12=17", &[]);
    check_tells(
        "s5=17",
        "unseen: key 5 value 17 acked without an offset (op 1) was read by nobody by the end of the run",
    );
}

#[test]
fn duplicate() {
    check_finds("s5=17@12 1/p5:12=17 2/p5:14=17", &[("duplicate", 1)]);
    check_finds("s5=17@12 1/p5:12=17 2/p5:12=17", &[]);
    check_finds("s5=17@12 1/p5:13=17", &[("duplicate", 1)]);
    check_finds("!s5=17@12 1/p5:13=17", &[("G1a", 1)]);
    check_finds("s5=17@12 s6=17@13 1/p5:12=17;6:13=17", &[]);
    check_tells(
        "s5=17@12 1/p5:13=17",
        "duplicate: key 5 value 17 stands at 2 offsets: offset 12 (sent by op 1), offset 13 (read by op 3)",
    );
}

#[test]
fn inconsistent_offsets() {
    check_finds("s5=17@12 1/s5=18@12 2/p5:12=17 3/p5:12=18", &[("inconsistent-offsets", 1)]);
    check_finds("s5=17@12 1/s6=18@12 2/p5:12=17 3/p6:12=18", &[]);
    // What a poll saw counts whatever became of it; what a send was told only if it happened.
    check_finds("s5=17@12 1/s5=18 2/p5:12=17 3/p5:_=18 ?4/p5:12=18", &[("inconsistent-offsets", 1)]);
    check_finds("s5=17@12 ?1/s5=18@12 2/p5:12=17", &[]);
    check_tells(
        "s5=17@12 1/s5=18@13 2/p5:12=17 3/p5:12=18",
        "duplicate: key 5 value 18 stands at 2 offsets: offset 12 (read by op 7), offset 13 (sent by op 3)",
    );
}

#[test]
fn phantom_read() {
    check_finds("s5=17@12 1/p6:0=18 2/p5:12=17", &[("phantom-read", 1)]);
    check_finds("<s5=17 1/p5:12=17", &[]);
    check_finds("!1/p5:12=17", &[("phantom-read", 1)]);
    check_finds("p5:12=_", &[("phantom-read", 1)]);
    check_tells(
        "1/p6:0=17 2/p6:0=17",
        "phantom-read: op 1 read key 6 value 17 at offset 0, but nobody sent that value",
    );
    check_tells("?1/p6:_=17", "phantom-read: op 1 read key 6 value 17, but nobody sent that value");
}

#[test]
fn aborted_read() {
    check_finds("!s5=17 1/p5:12=17", &[("G1a", 1)]);
    check_finds("!s5=17 1/p5:12=17 2/p5:12=17", &[("G1a", 2)]);
    check_finds("?s5=17 1/p5:12=17", &[]);
    check_finds("!s5=17 ?1/p5:12=17", &[]);
    check_finds("!s5=17 s6=17@0 1/p6:0=17", &[]);
    check_tells(
        "!s5=17 1/p5:12=17",
        "G1a: op 3 read key 5 value 17 at offset 12, though op 1 failed: its records must never be seen",
    );
}

#[test]
fn precommitted_read() {
    check_finds("(s5=17@12 p5:12=17)", &[("precommitted-read", 1)]);
    check_finds("(s5=17@12 p) 1/p5:12=17", &[]);
    check_finds("?(s5=17@12 p5:12=17)", &[("precommitted-read", 1)]);
    check_finds("(s5=17@12 s6=1@0 p5:12=17;6:0=1)", &[("precommitted-read", 1)]);
    check_finds("s5=17@12 (s6=17@0 p5:12=17) 1/p6:0=17", &[]);
    check_tells(
        "(s5=17@12 p5:12=17)",
        "precommitted-read: op 1 read key 5 value 17 at offset 12, which it had itself sent and not yet committed",
    );
}

/// Three records of key 5, at offsets 10, 12 and 20, that somebody reads well.
const SENT: &str = "s5=1@10 s5=2@12 s5=3@20 99/p5:10=1,12=2,20=3 ";

#[test]
fn polls_within_an_op() {
    let check_finds = |polls: &str, expect: &[(&str, u64)]| check_finds(&format!("{SENT}{polls}"), expect);
    check_finds("1/p5:10=1,20=3", &[("int-poll-skip", 1)]);
    check_finds("1/p5:12=2,20=3", &[]);
    check_finds("1/p5:12=2,10=1", &[("int-nonmonotonic-poll", 1)]);
    check_finds("1/p5:12=2,12=2", &[("int-nonmonotonic-poll", 1)]);
    // All polls of an op count as one.
    check_finds("1/(p5:10=1 p p5:12=2)", &[]);
    check_finds("1/(p5:10=1 p5:20=3)", &[("int-poll-skip", 1)]);
    check_finds("1/(p5:12=2 s6=1@0 p5:10=1) 99/p6:0=1", &[("int-nonmonotonic-poll", 1)]);
    check_finds("!1/p5:10=1,20=3", &[("int-poll-skip", 1)]);
    // A rebalance of the key excuses it, of another does not.
    check_finds("1/p5:10=1,20=3~5", &[]);
    check_finds("1/p5:10=1,20=3~6", &[("int-poll-skip", 1)]);
    check_tells(
        &format!("{SENT}1/p5:10=1,20=3"),
        "int-poll-skip: op 9 read key 5 value 1 at offset 10 and then value 3 at offset 20: it skipped value 2 at offset 12",
    );
    check_tells(
        &format!("{SENT}1/p5:12=2,12=2"),
        "int-nonmonotonic-poll: op 9 read key 5 value 2 at offset 12 and then value 2 at offset 12: \
         it read the same record again",
    );
}

#[test]
fn polls_between_ops() {
    let check_finds = |polls: &str, expect: &[(&str, u64)]| check_finds(&format!("{SENT}{polls}"), expect);
    check_finds("1/p5:10=1 1/p5:20=3", &[("poll-skip", 1)]);
    check_finds("1/p5:10=1 1/p5:12=2", &[]);
    check_finds("1/p5:12=2 1/p5:10=1", &[("nonmonotonic-poll", 1)]);
    check_finds("1/p5:10=1 1/p5:10=1", &[("nonmonotonic-poll", 1)]);
    check_finds("1/p5:10=1 2/p5:20=3", &[]);
    // An empty poll moves nothing; a poll that did not end well is judged, but moves nothing either.
    check_finds("1/p5:10=1 1/p 1/p5: 1/p5:20=3", &[("poll-skip", 1)]);
    check_finds("1/p5:10=1 !1/p5:12=2 1/p5:12=2", &[]);
    check_finds("1/p5:10=1 !1/p5:20=3", &[("poll-skip", 1)]);
    // A transaction's polls count as one.
    check_finds("1/(p5:10=1 p5:12=2) 1/(p5:20=3 p)", &[]);
    check_finds("1/p5:10=1 !1/(p5:12=2 p5:20=3) 1/p5:12=2", &[]);
    // A key that is left out is forgotten, one that is kept is not, unless the consumer goes back on purpose.
    check_finds("1/p5:10=1 1/a6 1/a5 1/p5:20=3", &[]);
    check_finds("1/p5:10=1 1/a5,6 1/p5:20=3", &[("poll-skip", 1)]);
    check_finds("1/p5:10=1 1/u5 1/p5:20=3", &[("poll-skip", 1)]);
    check_finds("1/p5:10=1 !1/a6 1/p5:20=3", &[("poll-skip", 1)]);
    check_finds("1/p5:12=2 1/A5 1/p5:10=1", &[]);
    check_finds("1/p5:12=2 1/a5 1/p5:10=1", &[("nonmonotonic-poll", 1)]);
    check_tells(
        &format!("{SENT}1/p5:10=1 1/p5:20=3"),
        "poll-skip: op 11 of process 1 read key 5 value 3 at offset 20, after the process' op 9 had read it up to \
         value 1 at offset 10: it skipped value 2 at offset 12",
    );
}

#[test]
fn sends() {
    let read = " 99/p5:10=1,11=2,12=3";
    // Writes out of order are cycles too, which is not what this is about.
    let check_finds = |sends: &str, cycle: &str, expect: &[(&str, u64)]| {
        let cycle = (!cycle.is_empty()).then_some((cycle, 1));
        let expect: Vec<(&str, u64)> = cycle.into_iter().chain(expect.iter().copied()).collect();
        check_finds(&format!("{sends}{read}"), &expect);
    };
    let back = [("nonmonotonic-send", 1)];
    check_finds("(s5=1@10 s5=2@11 s5=3@12)", "", &[]);
    check_finds("(s5=1@10 s5=3@12) 1/s5=2@11", "G0", &[("int-send-skip", 1)]);
    check_finds("(s5=1@10 s5=3@12 s5=2@11)", "", &[("int-nonmonotonic-send", 1), ("int-send-skip", 1)]);
    check_finds("s5=1@10 s5=3@12 s5=2@11", "G0-process", &back);
    check_finds("s5=1@10 s5=3@12 1/s5=2@11", "G0-realtime", &[]);
    check_finds("s5=1@10 s5=2@11 s5=3@12", "", &[]);
    // What a consumer is assigned says nothing about what its producer sent.
    check_finds("s5=1@10 s5=3@12 a6 s5=2@11", "G0-process", &back);
    check_tells(
        &format!("s5=1@10 s5=3@12 s5=2@11{read}"),
        "nonmonotonic-send: op 5 of process 0 sent key 5 value 2 at offset 11, after the process' op 3 had sent \
         value 3 at offset 12: the log has them in the other order",
    );
}

#[test]
fn cycles() {
    let check = |history: &str, drain: &str, expect: &[(&str, u64)]| {
        check_finds(&format!("{history} 99/p{drain}"), expect);
    };
    // Each one's records come before the other's, in one of the two keys.
    check("<(s5=1 s6=1) 1/(s6=2@0 s5=2@1) >(s5=1@0 s6=1@1)", "5:0=1,1=2;6:0=2,1=1", &[("G0", 1)]);
    check("<(s5=1 s6=1) 1/(s6=2@1 s5=2@1) >(s5=1@0 s6=1@0)", "5:0=1,1=2;6:0=1,1=2", &[]);
    // Two that have nothing to do with each other are two.
    check(
        "<(s5=1 s6=1) 1/(s6=2@0 s5=2@1) >(s5=1@0 s6=1@1) <(s7=1 s8=1) 1/(s8=2@0 s7=2@1) >(s7=1@0 s8=1@1)",
        "5:0=1,1=2;6:0=2,1=1;7:0=1,1=2;8:0=2,1=1",
        &[("G0", 2)],
    );
    // One read from the other, which wrote after it; each read from the other.
    check("<(s5=1 p) 1/(s6=1@0 s5=2@1) >(s5=1@0 p6:0=1)", "5:0=1,1=2;6:0=1", &[("G1c", 1)]);
    check("<(s5=1 p) 1/(s6=1@0 p5:0=1) >(s5=1@0 p6:0=1)", "5:0=1;6:0=1", &[("G1c-wr", 1)]);
    // What a process did later, or what began after the end, came first in the log.
    check("<1/(s5=2 s6=2) s5=1@1 s6=1@0 >1/(s5=2@0 s6=2@1)", "5:0=2,1=1;6:0=1,1=2", &[("G0-process", 1)]);
    check("<1/(s5=2 s6=2) s5=1@1 2/s6=1@0 >1/(s5=2@0 s6=2@1)", "5:0=2,1=1;6:0=1,1=2", &[("G0-realtime", 1)]);
    check("s5=1@1 1/s5=2@0", "5:0=2,1=1", &[("G0-realtime", 1)]);
    check("?s5=1@1 1/s5=2@0", "5:0=2,1=1", &[]);
    check("<s5=1 1/s5=2@0 >s5=1@1", "5:0=2,1=1", &[]);
    check("<s5=1 1/s5=2@0", "5:0=2,1=1", &[]);
    // ... and was read from.
    check("<1/(s6=1 p) p6:0=1 s5=1@0 >1/(s6=1@0 p5:0=1)", "5:0=1;6:0=1", &[("G1c-wr-process", 1)]);
    check("<1/(s6=1 p) p6:0=1 2/s5=1@0 >1/(s6=1@0 p5:0=1)", "5:0=1;6:0=1", &[("G1c-wr-realtime", 1)]);
    check("1/p5:0=1 s5=1@0", "5:0=1", &[("G1c-wr-realtime", 1)]);
    // A plainer one hides the subtler ones of its component; a cycle of reads is always told.
    check(
        "<(s5=1 s6=1 p) 1/(s6=2@0 s5=2@1 p5:0=1) >(s5=1@0 s6=1@1 p6:0=2)",
        "5:0=1,1=2;6:0=2,1=1",
        &[("G0", 1), ("G1c-wr", 1)],
    );
    check_tells(
        "<(s5=1 p) 1/(s6=1@0 p5:0=1) >(s5=1@0 p6:0=1) 99/p5:0=1;6:0=1",
        "G1c-wr: 2 ops form a cycle: op 2 must come before op 3, since op 3 read key 6 value 1 at offset 0, which op 2 \
         had sent; op 3 must come before op 2, since op 2 read key 5 value 1 at offset 0, which op 3 had sent",
    );
}

/// Jepsen's checker, ww edges on, allows every G1c and does not look at what it is made of.
#[test]
fn a_cycle_of_reads_is_forbidden_where_only_what_is_committed_is_shown() {
    let history = mini::parse("<(s5=1 p) 1/(s6=1@0 p5:0=1) >(s5=1@0 p6:0=1) 99/p5:0=1;6:0=1");
    let options = Options { vacuity: false, ..Options::default() };
    let valid = |options: Options| check(&history, &options).valid;
    assert_eq!(valid(options.clone()), Valid::False);
    assert_eq!(valid(Options { isolation: Isolation::ReadUncommitted, ..options.clone() }), Valid::True);
    let jepsen = Options { guarantees: Guarantees::Jepsen, ..options };
    assert_eq!(valid(jepsen.clone()), Valid::True);
    assert_eq!(valid(Options { ww: false, ..jepsen }), Valid::False);
}

/// What rw edges add to it all, each time with the same readers at the end.
#[test]
fn cycles_of_what_a_read_did_not_get() {
    let judge = |history: &str, drain: &str, options: Options| {
        check(&mini::parse(&format!("{history} 99/p{drain}")), &options)
    };
    let asked = Options { rw: true, vacuity: false, ..Options::default() };
    let check_finds = |history: &str, drain: &str, expect: &[&str]| {
        let verdict = judge(history, drain, asked.clone());
        let found: Vec<&str> = verdict.anomalies.keys().map(String::as_str).collect();
        assert_eq!(found, expect, "in {history}: {:?}", verdict.why);
        // Never a fault, never unless asked for, never in Jepsen's name.
        assert_eq!(verdict.valid, Valid::True, "in {history}");
        for options in [
            Options { rw: false, ..asked.clone() },
            Options { guarantees: Guarantees::Jepsen, ..asked.clone() },
        ] {
            let verdict = judge(history, drain, options);
            assert!(verdict.anomalies.keys().all(|name| !["G-single", "G2"].contains(&name.as_str())));
        }
    };
    // Two writes at once, of which one is read, and that the other key was read up to right before them.
    let write = "s5=1@0 s5=2@1 (s5=3@2 s6=1@0)";
    let single = |reads: &str, expect: &[&str]| {
        check_finds(&format!("{write} {reads}"), "5:0=1,1=2,2=3;6:0=1", expect);
    };
    single("1/p5:0=1,1=2;6:0=1", &["G-single"]);
    single("1/p5:0=1,1=2,2=3;6:0=1", &[]);
    // A key of which nothing came says nothing of where the consumer stood; nor does an op that did not end well.
    single("1/a5,6 1/p6:0=1", &[]);
    single("1/p5:;6:0=1", &[]);
    single("?1/p5:0=1,1=2;6:0=1", &[]);
    // It stopped one value earlier: the log's order leads on to the other write.
    single("1/p5:0=1;6:0=1", &["G-single"]);
    // All polls of an op are one read, in whatever order.
    single("1/(p5:0=1,1=2 p5:2=3;6:0=1)", &[]);
    single("1/(p6:0=1 p5:0=1 p5:1=2)", &["G-single"]);
    // Another op of the process is another read: here the next one went on.
    single("1/p5:0=1,1=2 1/p5:2=3;6:0=1", &[]);
    // The offset is not known, but the value is.
    single("1/p5:_=2;6:0=1", &["G-single"]);
    // Behind the last value there is none.
    check_finds("(s5=1@0 s6=1@0) 1/p5:0=1 1/p6:0=1", "5:0=1;6:0=1", &[]);
    // What is undecided counts if somebody read a part of it.
    check_finds("s5=1@0 ?(s5=2 s6=1) 1/p5:0=1;6:0=1", "5:0=1,1=2;6:0=1", &["G-single"]);
    check_finds("s5=1@0 ?1/p5:1=2 <(s5=2 s6=1) 2/p5:0=1", "5:0=1", &[]);
    // Neither saw what the other wrote; each of three the next one's; one did see it.
    let skew = "s5=1@0 s6=1@0 <1/(p s6=2) 2/(p6:0=1 s5=2@1)";
    check_finds(&format!("{skew} >1/(p5:0=1 s6=2@1)"), "5:0=1,1=2;6:0=1,1=2", &["G2"]);
    check_finds(&format!("{skew} >1/(p5:0=1,1=2 s6=2@1)"), "5:0=1,1=2;6:0=1,1=2", &[]);
    check_finds(
        "(s5=1@0 s6=1@0 s7=1@0) <1/(p s6=2) <2/(p s7=2) 3/(p7:0=1 s5=2@1) >2/(p6:0=1 s7=2@1) >1/(p5:0=1 s6=2@1)",
        "5:0=1,1=2;6:0=1,1=2;7:0=1,1=2",
        &["G2"],
    );
    // It goes on to what it wrote itself: that is no edge, and not one further on either.
    check_finds(
        "s5=1@0 <1/(p s5=2) (s5=3@2 s6=1@0) >1/(p5:0=1;6:0=1 s5=2@1)",
        "5:0=1,1=2,2=3;6:0=1",
        &["G1c"],
    );
    // A G0 of the same component hides it.
    check_finds(
        "s5=1@0 <(s5=2 s6=1) 1/(s6=2@1 s5=3@2) >(s5=2@1 s6=1@0) 2/p5:0=1;6:0=1",
        "5:0=1,1=2,2=3;6:0=1,1=2",
        &["G-single"],
    );
    check_finds(
        "s5=1@0 <(s5=2 s6=1) 1/(s6=2@0 s5=3@2) >(s5=2@1 s6=1@1) 2/p5:0=1;6:0=2",
        "5:0=1,1=2,2=3;6:0=2,1=1",
        &["G0"],
    );
    // Without ww edges there is no way from one value to the next but one.
    let no_ww = Options { ww: false, ..asked.clone() };
    let names = |reads: &str| -> Vec<String> {
        let verdict = judge(&format!("{write} {reads}"), "5:0=1,1=2,2=3;6:0=1", no_ww.clone());
        verdict.anomalies.into_keys().collect()
    };
    assert_eq!(names("1/p5:0=1,1=2;6:0=1"), ["G-single"]);
    assert!(names("1/p5:0=1;6:0=1").is_empty());

    let verdict = judge(&format!("{write} 1/p5:0=1,1=2;6:0=1"), "5:0=1,1=2,2=3;6:0=1", asked);
    assert_eq!(
        verdict.anomalies["G-single"].examples[0].story,
        "2 ops form a cycle: op 5 must come before op 7, since op 7 read key 6 value 1 at offset 0, which op 5 had \
         sent; op 7 must come before op 5, since op 7 read key 5 up to value 2 at offset 1, right before op 5's value 3 \
         at offset 2"
    );
}
