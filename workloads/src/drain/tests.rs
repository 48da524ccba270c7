//! The end of a run, in virtual time, against clients that answer as a script says.

use super::*;
use riprap_core::client::Completion;
use riprap_core::interpreter::{Interpreter, Next};
use riprap_core::op::{Extra, Offset, Process};
use serde_json::json;

const LIMIT_MS: u64 = 120_000;
const DONE: Left = Left { unread: BTreeSet::new(), unwritten: BTreeSet::new(), untold: BTreeSet::new() };

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
    let (generator, drain) = drain(&history.into_iter().collect(), 4, threads, limit_ms, 0);
    let mut interpreter = Interpreter::new(threads);
    interpreter.run(0, generator);
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
                let default = if op.f == F::Crash { Kind::Info } else { Kind::Ok };
                let (_, what) = word.split_once(':').expect("a process comes first");
                let (kind, time_ms) = how(what).unwrap_or((default, 0));
                let value = if kind == Kind::Ok { answer(&op) } else { OpValue::None };
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
            "1:assign[3]",
            "1:poll",
            "1:debug",
        ],
        &DONE,
    );
    let silent = |what: &str| (what == "committed[4,5,6,7]").then_some((Kind::Fail, 3000));
    let (words, left) = run(history(), 1, LIMIT_MS, silent);
    assert_eq!(left, Left { untold: keys(&[4, 5, 6, 7]), ..DONE });
    assert_eq!(words.iter().filter(|(_, word)| word == "1:committed[4,5,6,7]").count(), 10);
    // Where nobody had sent or read anything, there is nothing else to do.
    check(vec![subscribed(&[1])], |_| None, &["0:crash", "1:committed[0,1,2,3]"], &DONE);
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
