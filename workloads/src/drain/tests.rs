//! The end of a run, in virtual time, against clients that answer as a script says.

use super::*;
use riprap_core::client::Completion;
use riprap_core::generator::time_limit;
use riprap_core::interpreter::{Interpreter, Next};
use riprap_core::op::{Extra, Offset, Process};
use serde_json::json;

const LIMIT_MS: u64 = 120_000;
const PATIENCE_MS: u64 = 40_000;
const DONE: Left = Left {
    unread: BTreeSet::new(),
    unwritten: BTreeSet::new(),
    untold: BTreeSet::new(),
    ungrouped: BTreeSet::new(),
};

fn keys(keys: &[i64]) -> BTreeSet<Key> {
    keys.iter().copied().map(Key).collect()
}

fn ok(f: F, value: OpValue) -> Op {
    let (process, extra) = (Process::Client(0), Extra::default());
    Op { index: 0, time_ns: 0, process, kind: Kind::Ok, f, value, extra }
}

fn sent(key: i64, value: i64) -> Op {
    let mop = Mop::Send { key: Key(key), value: Value(value), offset: None };
    ok(F::Send, OpValue::Mops(vec![mop]))
}

fn read(key: i64, values: &[i64]) -> Op {
    let records = values.iter().map(|value| (Offset(0), Value(*value))).collect();
    ok(F::Poll, OpValue::Mops(vec![Mop::Poll(Some(vec![(Key(key), records)]))]))
}

fn subscribed(keys: &[i64]) -> Op {
    ok(F::Subscribe, OpValue::Keys(keys.iter().copied().map(Key).collect()))
}

fn assigned(keys: &[i64]) -> Op {
    Op { f: F::Assign, ..subscribed(keys) }
}

fn word(op: &Op) -> String {
    let what = match &op.value {
        OpValue::None => String::new(),
        OpValue::Json(value) => value.to_string(),
        OpValue::Keys(keys) => format!("{:?}", keys.iter().map(|key| key.0).collect::<Vec<_>>()),
        OpValue::Mops(mops) => match &mops[0] {
            Mop::Send { key, value, .. } => format!(" {key}={value}"),
            Mop::Poll(_) => String::new(),
        },
    };
    format!("{}:{}{what}", op.process, op.f.name())
}

/// What a log without faults answers: nothing is there to read, and that is the end of it.
fn answer(op: &Op) -> OpValue {
    match op.f {
        F::Poll => OpValue::Mops(vec![Mop::Poll(Some(Vec::new()))]),
        F::Debug => {
            let at_end = (0..100).map(|key| (key.to_string(), json!({"position": 7, "end": 7})));
            OpValue::Json(at_end.collect())
        }
        _ => op.value.clone(),
    }
}

/// Ends a run of this history in virtual time on so many threads. `how` says, by an op's word without its process,
/// how it ends and after how many milliseconds; the others are ok at once. Gives the ops, each with its time in
/// milliseconds, and what is left.
fn run(
    history: Vec<Op>,
    threads: u32,
    limit_ms: u64,
    how: impl Fn(&str) -> Option<(Kind, u64)>,
) -> (Vec<(u64, String)>, Left) {
    run_with(history, threads, limit_ms, |what, op, _| {
        let default = if matches!(op.f, F::Crash | F::Other(_)) { Kind::Info } else { Kind::Ok };
        let (kind, time_ms) = how(what).unwrap_or((default, 0));
        (kind, time_ms, if kind == Kind::Ok { answer(op) } else { OpValue::None })
    })
}

/// The same, but `how` says of every op how it ends, after how many milliseconds and with which value. It is given the
/// word, the op, and when it begins.
fn run_with(
    history: Vec<Op>,
    threads: u32,
    limit_ms: u64,
    mut how: impl FnMut(&str, &Op, u64) -> (Kind, u64, OpValue),
) -> (Vec<(u64, String)>, Left) {
    let ending = Ending {
        partitions_per_topic: 4,
        concurrency: threads,
        limit_ms,
        spare_values: 0,
        members: 2,
        patience: Patience { ms: PATIENCE_MS },
    };
    let (generator, drain) = drain(&history.into_iter().collect(), ending);
    let mut interpreter = Interpreter::new(threads);
    interpreter.run(0, time_limit(limit_ms * 1_000_000, generator));
    let (mut now_ns, mut words) = (0, Vec::new());
    let mut under_way: BTreeMap<(u64, Thread), Completion> = BTreeMap::new();
    loop {
        while let Some(first) = under_way.first_entry().filter(|entry| entry.key().0 <= now_ns) {
            let ((_, thread), completion) = first.remove_entry();
            interpreter.complete(now_ns, thread, completion);
        }
        match interpreter.next(now_ns) {
            Next::Done => return (words, drain.left()),
            Next::Wait { until_ns } => {
                let first_ns = under_way.first_key_value().map(|((end_ns, _), _)| *end_ns);
                now_ns = until_ns.into_iter().chain(first_ns).min().expect("something is awaited");
            }
            Next::Invoke { thread, op } => {
                let word = word(&op);
                let (_, what) = word.split_once(':').expect("a process comes first");
                let (kind, time_ms, value) = how(what, &op, now_ns / 1_000_000);
                let completion = Completion { kind, value, extra: Extra::default() };
                under_way.insert((now_ns + time_ms * 1_000_000, thread), completion);
                words.push((now_ns / 1_000_000, word));
            }
        }
    }
}

/// As [`run`], on one thread: the ops in order, whenever they are.
fn check(
    history: Vec<Op>,
    how: impl Fn(&str) -> Option<(Kind, u64)>,
    expected: &[&str],
    expected_left: &Left,
) {
    let (words, left) = run(history, 1, LIMIT_MS, how);
    let words: Vec<&str> = words.iter().map(|(_, word)| word.as_str()).collect();
    assert_eq!((words.as_slice(), &left), (expected, expected_left));
}

#[test]
fn each_key_is_written_once_more_and_read() {
    let all_ok = |_: &str| None;
    // Where nobody had asked for anything, there is nothing to do.
    check(vec![], all_ok, &[], &DONE);
    check(
        vec![sent(3, 4), sent(3, 9), read(3, &[11, 5]), sent(6, 0), read(8, &[i64::MIN]), read(9, &[])],
        all_ok,
        &[
            "0:crash",
            "1:send 3=12",
            "1:send 6=1",
            "1:send 8=0",
            "1:send 9=0",
            "1:assign[3, 6, 8, 9]",
            "1:poll",
            "1:debug",
        ],
        &DONE,
    );
    // What was asked for may be there, be it ever so uncertain, and has to take writes.
    let in_doubt = Op { kind: Kind::Info, ..assigned(&[2]) };
    check(vec![in_doubt], all_ok, &["0:crash", "1:send 2=0", "1:assign[2]", "1:poll", "1:debug"], &DONE);
    // Nothing is above the last value of all.
    check(
        vec![read(3, &[i64::MAX])],
        all_ok,
        &["0:crash", "1:assign[3]", "1:poll", "1:debug"],
        &Left { unwritten: keys(&[3]), ..DONE },
    );
}

#[test]
fn threads_share_the_keys_out() {
    let (words, left) = run((0..4).map(|key| sent(key, 0)).collect(), 3, LIMIT_MS, |_| None);
    let assigns: Vec<&str> =
        words.iter().map(|(_, word)| word.as_str()).filter(|w| w.contains("assign")).collect();
    assert_eq!((assigns, left), (vec!["4:assign[1]", "5:assign[2]", "3:assign[0, 3]"], DONE));
}

#[test]
fn what_certainly_was_not_written_is_tried_again_behind_the_others() {
    let third = |what: &str| ["send 3=5", "send 3=6"].contains(&what).then_some((Kind::Fail, 0));
    check(
        vec![sent(3, 4), sent(6, 0)],
        third,
        &[
            "0:crash",
            "1:send 3=5",
            "1:send 6=1",
            "1:send 3=6",
            "1:send 3=7",
            "1:assign[3, 6]",
            "1:poll",
            "1:debug",
        ],
        &DONE,
    );
}

#[test]
fn what_may_have_been_written_is_not_sent_again() {
    let doubtful = |what: &str| ["send 3=5", "send 3=6"].contains(&what).then_some((Kind::Info, 1));
    check(
        vec![sent(3, 4)],
        doubtful,
        &["0:crash", "1:send 3=5", "2:send 3=6", "3:send 3=7", "3:assign[3]", "3:poll", "3:debug"],
        &DONE,
    );
}

#[test]
fn a_key_that_takes_no_write_is_read_all_the_same() {
    let refused = |what: &str| what.starts_with("send 3=").then_some((Kind::Fail, 50));
    let (words, left) = run(vec![sent(3, 4), sent(6, 0)], 1, LIMIT_MS, refused);
    assert_eq!(left, Left { unwritten: keys(&[3]), ..DONE });
    let tries: Vec<u64> =
        words.iter().filter(|(_, w)| w.starts_with("1:send 3=")).map(|(at_ms, _)| *at_ms).collect();
    // Every 200 ms and what each takes, for as long as it is tried.
    assert_eq!((tries.len(), tries[0], tries[1], *tries.last().expect("many")), (121, 0, 250, 30_000));
    assert_eq!(words.last(), Some(&(30_050, "1:debug".to_owned())));
}

#[test]
fn no_more_than_half_of_the_time_goes_into_writes() {
    let hangs = |what: &str| what.starts_with("send ").then_some((Kind::Info, 7000));
    let history = || (0..9).map(|key| sent(key, 0)).collect();
    let (words, left) = run(history(), 1, 40_000, hangs);
    let assign = words.iter().find(|(_, word)| word.contains("assign")).expect("it is read");
    // The third send is under way when half of the time is over; the rest are not tried.
    assert_eq!(assign, &(21_000, "4:assign[0, 1, 2, 3, 4, 5, 6, 7, 8]".to_owned()));
    assert_eq!(left, Left { unwritten: keys(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), ..DONE });
}

#[test]
fn the_group_is_asked_first_for_each_of_its_topics() {
    let history = || vec![subscribed(&[5, 6]), subscribed(&[8]), sent(3, 0)];
    check(
        history(),
        |_| None,
        &[
            "0:crash",
            "1:committed[4,5,6,7]",
            "1:committed[8,9,10,11]",
            "1:send 3=1",
            "1:send 5=0",
            "1:send 6=0",
            "1:send 8=0",
            "1:assign[3, 5, 6, 8]",
            "1:poll",
            "1:debug",
        ],
        &DONE,
    );
    let silent = |what: &str| (what == "committed[4,5,6,7]").then_some((Kind::Fail, 3000));
    let (words, left) = run(history(), 1, LIMIT_MS, silent);
    assert_eq!(left, Left { untold: keys(&[4, 5, 6, 7]), ..DONE });
    assert_eq!(words.iter().filter(|(_, word)| word == "1:committed[4,5,6,7]").count(), 10);
}

#[test]
fn a_reader_that_lost_its_client_begins_again() {
    let polls = std::cell::Cell::new(0);
    let second = |what: &str| {
        polls.set(polls.get() + u32::from(what == "poll"));
        (what == "poll" && polls.get() == 1).then_some((Kind::Info, 10))
    };
    check(
        vec![sent(3, 4)],
        second,
        &["0:crash", "1:send 3=5", "1:assign[3]", "1:poll", "2:assign[3]", "2:poll", "2:debug"],
        &DONE,
    );
}

/// Ends a run, as [`run`], in which the final reads find in the log what is written last. `group` says, once somebody has
/// subscribed, how an op ends, when it begins then, and what a poll brings; all else is ok at once.
fn run_read(
    history: Vec<Op>,
    threads: u32,
    group: impl Fn(&str, u64) -> (Kind, u64, Vec<(i64, i64)>),
) -> (Vec<(u64, String)>, Left) {
    let (mut subscribes, mut written, mut fresh) = (false, Vec::new(), BTreeSet::new());
    run_with(history, threads, LIMIT_MS, |what, op, now_ms| {
        subscribes |= op.f == F::Subscribe;
        if matches!(op.f, F::Crash | F::Other(_)) {
            return (Kind::Info, 0, OpValue::None);
        }
        let (kind, time_ms, records) = match &op.value {
            _ if subscribes => group(what, now_ms),
            OpValue::Mops(mops) if op.f == F::Send => {
                written.extend(mops.iter().filter_map(|mop| match mop {
                    Mop::Send { key, value, .. } => Some((key.0, value.0)),
                    Mop::Poll(_) => None,
                }));
                (Kind::Ok, 0, Vec::new())
            }
            _ if op.f == F::Poll && fresh.insert(op.process) => (Kind::Ok, 0, written.clone()),
            _ => (Kind::Ok, 0, Vec::new()),
        };
        let reads = records.iter().map(|(key, value)| (Key(*key), vec![(Offset(0), Value(*value))]));
        let value = match op.f {
            _ if kind == Kind::Info => OpValue::None,
            F::Poll => OpValue::Mops(vec![Mop::Poll(Some(reads.collect()))]),
            _ => answer(op),
        };
        (kind, time_ms, value)
    })
}

/// Ends a run in which keys 4 and 5 are those of a group, on three threads. `group` says how an op ends, when it begins then,
/// and which value of key 5 a poll brings. Gives what is done from the first subscribe on.
fn run_group(group: impl Fn(&str, u64) -> (Kind, u64, Option<i64>)) -> (Vec<(u64, String)>, Left) {
    let (words, left) = run_read(vec![subscribed(&[5]), sent(4, 0), sent(5, 2)], 3, |what, now_ms| {
        let (kind, time_ms, value) = group(what, now_ms);
        (kind, time_ms, value.map(|value| (5, value)).into_iter().chain([(4, 1)]).collect())
    });
    let first = words.iter().position(|(_, word)| word.contains("subscribe")).expect("they are a group");
    (words[first..].to_vec(), left)
}

#[test]
fn a_group_goes_on_with_what_was_written() {
    // Whoever reads it, and however that ends.
    for kind in [Kind::Ok, Kind::Fail] {
        let (words, left) = run_group(|what, _| (kind_of(what, kind), 100, Some(3)));
        let words: Vec<&str> = words.iter().map(|(_, word)| word.as_str()).collect();
        assert_eq!(
            (words.as_slice(), left),
            (["7:subscribe[4, 5]", "6:subscribe[4, 5]", "6:poll", "7:poll"].as_slice(), DONE)
        );
    }
}

/// An op of a member is ok, a poll is of this kind.
fn kind_of(what: &str, poll: Kind) -> Kind {
    if what == "poll" { poll } else { Kind::Ok }
}

#[test]
fn a_group_that_does_not_go_on_is_given_time_and_then_up() {
    let (words, left) = run_group(|_, _| (Kind::Ok, 100, None));
    assert_eq!(left, Left { ungrouped: keys(&[5]), ..DONE });
    let marks: Vec<&(u64, String)> = words.iter().filter(|(_, word)| word.starts_with("nemesis")).collect();
    assert_eq!(marks, [&(PATIENCE_MS, "nemesis:phase\"group\"".to_owned())]);
    let (last_ms, last) = words.last().expect("many");
    let limit_ms = PATIENCE_MS + DEFAULT_PROGRESS_LIMIT_NS / 1_000_000;
    assert!(
        (limit_ms + 1000..limit_ms + 2000).contains(last_ms) && last.ends_with("poll"),
        "{last_ms} {last}"
    );
    // Something of another key comes with every poll, or else they would rest.
    let polls = words.iter().filter(|(_, word)| word.ends_with("poll")).count() as u64;
    assert!((2 * last_ms / 100).abs_diff(polls) < 10, "{polls} polls in {last_ms} ms");
}

#[test]
fn a_group_that_lags_goes_on() {
    let (words, left) = run_group(|_, _| (Kind::Ok, 100, Some(0)));
    assert_eq!(left, DONE);
    let last: Vec<&(u64, String)> = words.iter().rev().take(3).collect();
    let mark = (PATIENCE_MS, "nemesis:phase\"group\"".to_owned());
    assert!(last.contains(&&mark), "{last:?}");
}

#[test]
fn what_a_member_may_have_read_is_written_again() {
    let lost = |what: &str, now_ms| match what {
        "poll" if now_ms == 30_100 => (Kind::Info, 100, None),
        "poll" if now_ms > 71_000 => (Kind::Ok, 100, Some(5)),
        _ => (Kind::Ok, 100, None),
    };
    let (words, left) = run_group(lost);
    assert_eq!(left, DONE);
    let others: Vec<&str> =
        words[4..].iter().map(|(_, word)| word.as_str()).filter(|word| !word.ends_with("poll")).collect();
    let expect =
        ["9:send 5=4", "10:send 5=5", "9:subscribe[4, 5]", "10:subscribe[4, 5]", "nemesis:phase\"group\""];
    assert_eq!(others, expect);
    let marked_ms = words.iter().find(|(_, word)| word.starts_with("nemesis")).map(|(at_ms, _)| *at_ms);
    assert_eq!(marked_ms, Some(30_200 + PATIENCE_MS));
}

#[test]
fn a_run_is_not_marked_while_former_clients_are_at_work() {
    let mark = Op {
        process: Process::Nemesis,
        kind: Kind::Invoke,
        ..ok(F::Other(phase::PHASE.into()), OpValue::Json(phase::UNENDED.into()))
    };
    let (words, left) =
        run_read(vec![subscribed(&[5]), sent(5, 2), mark], 2, |_, _| (Kind::Ok, 100, Vec::new()));
    assert_eq!(left, Left { ungrouped: keys(&[5]), ..DONE });
    assert!(words.iter().all(|(_, word)| !word.starts_with("nemesis")));
}

#[test]
fn the_topics_that_were_wanted_last_are_gone_on_with() {
    let many = 4 * (members::MAX_TOPICS as i64 + 1);
    let history = (0..many).map(|key| sent(key, 0));
    let history = history.chain((0..many).rev().map(|key| subscribed(&[key]))).collect();
    let (_, left) = run_read(history, 1, |_, _| (Kind::Ok, 100, Vec::new()));
    assert_eq!(left.ungrouped, (0..many - 4).map(Key).collect());
}

#[test]
fn of_a_group_nothing_is_asked_that_is_not_there() {
    // The final reads do not meet what was written: it is lost, which is another matter.
    let (words, left) = run(vec![subscribed(&[5]), sent(5, 2)], 1, LIMIT_MS, |_| None);
    assert_eq!(left, DONE);
    assert!(words.iter().all(|(_, word)| !word.contains("subscribe")), "{words:?}");
}

#[test]
fn patience_is_longer_than_whatever_a_group_may_wait_for() {
    let check = |settings: &[(&str, &str)], expect_ms: u64| {
        let settings =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let config = riprap_core::plan::TestConfig { settings, ..crate::tests::config() };
        assert_eq!(Patience::of(&config).ms, expect_ms, "{config:?}");
    };
    check(&[], 30_000 + 3 * 6000 + 5000);
    check(&[("client.session.timeout.ms", "3000")], 30_000 + 3 * 6000 + 5000);
    check(&[("client.session.timeout.ms", "10000")], 30_000 + 3 * 10_000 + 5000);
    check(&[("group.consumer.session.timeout.ms", "45000")], 30_000 + 3 * 45_000 + 5000);
    check(&[("client.max.poll.interval.ms", "300000")], 300_000 + 3 * 6000 + 5000);
    check(&[("client.transaction.timeout.ms", "60000")], 30_000 + 3 * 6000 + 60_000);
}
