//! Records sent one by one, and read by consumers that take their keys themselves.

use crate::seeds;
use crate::stage::{MS, Stage, Weather, plain, settings};
use riprap_client::{Options, WireLog};
use riprap_core::client::{Log as _, LogError, Progress};
use riprap_core::op::{Key, Offset, Value};
use riprap_env::task::Io;
use riprap_protocol::ApiKey;
use riprap_protocol::frame::{RequestHeader, encode_request};
use riprap_protocol::messages::{
    DeleteRecordsRequest, DeleteRecordsRequestPartition, DeleteRecordsRequestTopic,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

const KEYS: [Key; 3] = [Key(0), Key(1), Key(2)];

/// How a send ended.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Sent {
    Acknowledged(Option<Offset>),
    Failed(LogError),
}

/// What clients did and saw.
#[derive(Default)]
struct Seen {
    sent: BTreeMap<(Key, Value), Sent>,
    /// By consumer.
    read: BTreeMap<String, BTreeMap<Key, Vec<(Offset, Value)>>>,
    /// Producers that are done.
    done: usize,
    progress: Vec<Progress>,
    is_draining: bool,
}

type Shared = Rc<RefCell<Seen>>;

async fn produce(mut log: WireLog, first: i64, io: Io, seen: Shared, pause_ms: u64) {
    log.create(&KEYS).await.expect("topics can be made in good weather");
    let mut value = first;
    while !seen.borrow().is_draining {
        for key in KEYS {
            value += 1;
            let sent = match log.send(key, Value(value)).await {
                Ok(offset) => Sent::Acknowledged(offset),
                Err(error) => Sent::Failed(error),
            };
            seen.borrow_mut().sent.insert((key, Value(value)), sent);
        }
        io.sleep(pause_ms * MS).await;
    }
    seen.borrow_mut().done += 1;
}

async fn consume(mut log: WireLog, name: &str, seen: Shared) {
    log.assign(&KEYS, false).await.expect("an assignment changes the client alone");
    loop {
        let polled = log.poll().await.expect("fetches meet nothing that does not pass");
        let mut it = seen.borrow_mut();
        let read = it.read.entry(name.to_owned()).or_default();
        for (key, records) in polled.reads {
            read.entry(key).or_default().extend(records);
        }
    }
}

/// Everything acknowledged was read by everybody; nothing that failed for sure; nothing twice that must not be.
fn check(seen: &Seen, once: &dyn Fn(Value) -> bool) {
    for (name, read) in &seen.read {
        for (key, records) in read {
            assert!(records.is_sorted_by(|a, b| a.0 < b.0), "{name}, {key}: offsets rise");
            let mut values: BTreeMap<Value, Vec<Offset>> = BTreeMap::new();
            for (offset, value) in records {
                values.entry(*value).or_default().push(*offset);
            }
            for (value, offsets) in &values {
                let what = format!("{name}, {key}: value {value} at {offsets:?}");
                assert!(offsets.len() == 1 || !once(*value), "{what} is there more than once");
                match seen.sent.get(&(*key, *value)) {
                    Some(Sent::Acknowledged(Some(offset))) => {
                        assert!(offsets.contains(offset), "{what}, not {offset}")
                    }
                    Some(Sent::Failed(error)) => assert!(!error.definite, "{what} failed: {error}"),
                    Some(Sent::Acknowledged(None)) => {}
                    None => panic!("{what} was not sent there"),
                }
            }
            for ((of, value), sent) in &seen.sent {
                let is_read = values.contains_key(value);
                let is_acknowledged = matches!(sent, Sent::Acknowledged(_));
                assert!(of != key || is_read || !is_acknowledged, "{name}, {key}: value {value} is lost");
            }
        }
    }
}

/// Whether a consumer has read as far as the cluster has acknowledged.
fn is_read_up(seen: &Seen, consumers: usize) -> bool {
    let mut acknowledged: BTreeMap<Key, BTreeSet<Value>> = BTreeMap::new();
    for ((key, value), sent) in &seen.sent {
        if matches!(sent, Sent::Acknowledged(_)) {
            acknowledged.entry(*key).or_default().insert(*value);
        }
    }
    let has_all = |read: &BTreeMap<Key, Vec<(Offset, Value)>>| {
        acknowledged.iter().all(|(key, values)| {
            let read: BTreeSet<Value> =
                read.get(key).into_iter().flatten().map(|(_, value)| *value).collect();
            values.is_subset(&read)
        })
    };
    seen.read.len() == consumers && seen.read.values().all(has_all)
}

#[test]
fn what_is_sent_is_read_in_order() {
    let mut stage = Stage::new(1);
    let seen = Shared::default();
    let shared = Rc::clone(&seen);
    stage.client("c1", move |io| {
        let seen = Rc::clone(&shared);
        async move {
            let mut log = plain(&io, "c1");
            log.create(&KEYS).await.expect("the cluster is well");
            log.create(&KEYS).await.expect("topics that are there are fine");
            for (number, key) in (0..60).zip(KEYS.iter().cycle()) {
                let offset = log.send(*key, Value(number)).await.expect("the cluster is well");
                assert_eq!(offset, Some(Offset(number / 3)));
            }
            log.assign(&KEYS, false).await.expect("it changes the client alone");
            let mut read: BTreeMap<Key, Vec<(Offset, Value)>> = BTreeMap::new();
            while read.values().map(Vec::len).sum::<usize>() < 60 {
                for (key, records) in log.poll().await.expect("the cluster is well").reads {
                    read.entry(key).or_default().extend(records);
                }
            }
            for (at, key) in (0..).zip(KEYS) {
                let expected: Vec<_> = (0..20).map(|n| (Offset(n), Value(n * 3 + at))).collect();
                assert_eq!(read[&key], expected, "{key}");
            }
            // Kept keys go on from where they are, new ones and those that are asked for again begin anew.
            log.assign(&KEYS[..1], false).await.expect("it changes the client alone");
            assert_eq!(log.poll().await.expect("the cluster is well").reads, []);
            log.assign(&KEYS[..2], false).await.expect("it changes the client alone");
            let reads = log.poll().await.expect("the cluster is well").reads;
            assert_eq!((reads[0].0, reads[0].1[0].0), (KEYS[1], Offset(0)));
            log.assign(&KEYS[..1], true).await.expect("it changes the client alone");
            let reads = log.poll().await.expect("the cluster is well").reads;
            assert_eq!((reads[0].0, reads[0].1[0].0), (KEYS[0], Offset(0)));
            while !log.poll().await.expect("the cluster is well").reads.is_empty() {}
            seen.borrow_mut().progress = log.progress().await.expect("the cluster is well");
            seen.borrow_mut().done += 1;
        }
    });
    stage.until(20_000, "the client is done", || seen.borrow().done == 1);
    assert_eq!(seen.borrow().progress, [Progress { key: KEYS[0], position: Offset(20), end: Offset(20) }]);
}

fn storm(seed: u64) -> (Stage, Shared) {
    let mut stage = Stage::new(seed);
    let seen = Shared::default();
    for (name, first, acks, idempotence) in
        [("idempotent", 0, "all", true), ("plain", 1_000_000, "all", false), ("weak", 2_000_000, "0", false)]
    {
        let (shared, options) = (Rc::clone(&seen), stage.options());
        stage.client(name, move |io| {
            let mut config = settings(name);
            (config.acks, config.idempotence) = (acks.to_owned(), idempotence);
            let log = WireLog::new(io.clone(), config, options.clone());
            produce(log, first, io, Rc::clone(&shared), 20)
        });
    }
    for (name, fetch_sessions) in [("reader", true), ("sessionless", false)] {
        let (shared, options) = (Rc::clone(&seen), Options { fetch_sessions, ..stage.options() });
        stage.client(name, move |io| {
            let log = WireLog::new(io.clone(), settings(name), options.clone());
            let seen = Rc::clone(&shared);
            async move { consume(log, name, seen).await }
        });
    }
    stage.run_ms(1000);
    stage.storm(Weather::All, 8000);
    stage.run_ms(1000);
    seen.borrow_mut().is_draining = true;
    stage.until(15_000, "producers end", || seen.borrow().done == 3);
    // What acks=0 calls acknowledged nobody has promised.
    seen.borrow_mut().sent.iter_mut().filter(|((_, value), _)| value.0 > 2_000_000).for_each(|(_, sent)| {
        let error = LogError { code: "ACKS_0".to_owned(), definite: false, message: String::new() };
        *sent = Sent::Failed(error);
    });
    stage.until(20_000, "all is read", || is_read_up(&seen.borrow(), 2));
    (stage, seen)
}

#[test]
fn nothing_acknowledged_is_lost_in_a_storm() {
    for seed in seeds(1..=8) {
        let (stage, seen) = storm(seed);
        assert!(stage.world.crashes().is_empty(), "seed {seed}: {:?}", stage.world.crashes());
        let seen = seen.borrow();
        check(&seen, &|value| value.0 < 1_000_000);
        let acknowledged = seen.sent.values().filter(|sent| matches!(sent, Sent::Acknowledged(_))).count();
        assert!(acknowledged > 100, "seed {seed}: only {acknowledged} records were acknowledged");
    }
}

/// Has a client work on the first key, in which so many records are, until it is done.
fn with_records<F: Future<Output = ()> + 'static>(
    seed: u64,
    records: i64,
    limit_ms: u64,
    work: impl Fn(Io, WireLog) -> F + Clone + 'static,
) {
    let mut stage = Stage::new(seed);
    let seen = Shared::default();
    let shared = Rc::clone(&seen);
    stage.client("c", move |io| {
        let (seen, work) = (Rc::clone(&shared), work.clone());
        async move {
            let mut log = plain(&io, "c");
            log.create(&KEYS[..1]).await.expect("the cluster is well");
            for value in 0..records {
                log.send(KEYS[0], Value(value)).await.expect("the cluster is well");
            }
            work(io, log).await;
            seen.borrow_mut().done += 1;
        }
    });
    stage.until(limit_ms, "the client is done", || seen.borrow().done == 1);
}

/// A log that begins later than where a consumer wants to read: it goes on from where the log begins.
#[test]
fn what_is_deleted_is_passed_over() {
    with_records(9, 10, 20_000, async |io: Io, mut log: WireLog| {
        for broker in 1..=3 {
            delete_records(&io, broker, 6).await;
        }
        log.assign(&KEYS[..1], false).await.expect("it changes the client alone");
        let mut reads = Vec::new();
        while reads.is_empty() {
            reads = log.poll().await.expect("the cluster is well").reads;
        }
        let expected: Vec<_> = (6..10).map(|n| (Offset(n), Value(n))).collect();
        assert_eq!(reads, [(KEYS[0], expected)]);
    });
}

/// Asks a broker, as an administrator does, to delete what is before an offset; only the leader does it.
async fn delete_records(io: &Io, broker: i32, offset: i64) {
    let conn = io.connect(&format!("n{broker}:9092")).await.expect("it is up");
    let partition = DeleteRecordsRequestPartition { index: 0, offset };
    let topic = DeleteRecordsRequestTopic { name: "t0".to_owned(), partitions: vec![partition] };
    let body = DeleteRecordsRequest { topics: vec![topic], timeout_ms: 1000 };
    let header =
        RequestHeader { api_key: ApiKey::DeleteRecords, api_version: 2, correlation_id: 0, client_id: None };
    conn.send(encode_request(&header, &body).expect("it fits its version"));
    assert!(conn.receive().await.is_some(), "it answers");
}

/// What was asked for before an assignment is not delivered after it.
#[test]
fn late_answers_are_dropped() {
    with_records(10, 200, 60_000, async |io: Io, mut log: WireLog| {
        // A fetch is under way after each poll, at whatever point of it the assignment comes.
        for pause_us in 0..150 {
            log.assign(&KEYS[..1], true).await.expect("it changes the client alone");
            let mut next = 0;
            for _ in 0..2 {
                for (offset, value) in log.poll().await.expect("the cluster is well").reads.remove(0).1 {
                    assert_eq!((offset, value), (Offset(next), Value(next)), "after {pause_us} us");
                    next += 1;
                }
            }
            io.sleep(pause_us * 5000).await;
        }
    });
}

#[test]
fn the_same_seed_makes_the_same_run() {
    let [one, other] = [(), ()].map(|()| storm(77));
    assert_eq!(one.0.world.trace(), other.0.world.trace());
    assert_eq!(one.1.borrow().sent, other.1.borrow().sent);
}
