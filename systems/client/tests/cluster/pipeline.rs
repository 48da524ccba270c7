//! Exactly once: what a group's members read they write on, within transactions that commit how far they have read.

use crate::seeds;
use crate::stage::{MS, Stage, Weather, settings};
use riprap_client::{GroupProtocol, Options, TransactionVersion, WireLog};
use riprap_core::client::{ClientConfig, Log as _, LogError};
use riprap_core::op::{Key, Value};
use riprap_env::task::Io;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The two topics of two partitions each: one is read, the other written.
const INPUT: [Key; 2] = [Key(0), Key(1)];
const OUTPUT: [Key; 2] = [Key(2), Key(3)];
const RECORDS: i64 = 300;

#[derive(Default)]
struct Seen {
    acknowledged: BTreeSet<Value>,
    in_doubt: BTreeSet<Value>,
    /// How often each value came out.
    out: BTreeMap<Value, usize>,
    /// Members that could not begin, or whose transaction did not end well.
    setbacks: usize,
}

type Shared = Rc<RefCell<Seen>>;

async fn feed(io: Io, seen: Shared) {
    let mut log = WireLog::new(io.clone(), settings("feeder"), Options::default());
    log.create(&[INPUT, OUTPUT].concat()).await.expect("topics can be made in good weather");
    for number in 0..RECORDS {
        let value = Value(number);
        let sent = log.send(INPUT[(number % 2) as usize], value).await;
        match sent {
            Ok(_) => seen.borrow_mut().acknowledged.insert(value),
            Err(error) => !error.definite && seen.borrow_mut().in_doubt.insert(value),
        };
        io.sleep(25 * MS).await;
    }
}

/// One transaction: reads, writes on, commits.
async fn step(log: &mut WireLog) -> Result<(), LogError> {
    let polled = log.poll().await?;
    if polled.reads.is_empty() {
        return Ok(());
    }
    log.begin().await?;
    let within = async {
        for (key, records) in polled.reads {
            for (_, value) in records {
                log.send(Key(key.0 + 2), value).await?;
            }
        }
        log.commit_offsets().await
    };
    match within.await {
        Ok(_) => log.commit().await,
        Err(error) => {
            let aborted = log.abort().await;
            drop(aborted);
            Err(error)
        }
    }
}

/// A member; after a setback it begins anew, for its position does not go back by itself.
async fn work(io: Io, name: &'static str, options: Options, seen: Shared) {
    loop {
        let config = ClientConfig { transactional_id: Some(name.to_owned()), ..settings(name) };
        let mut log = WireLog::new(io.clone(), config, options.clone());
        log.subscribe(&INPUT).await.expect("it changes the client alone");
        while step(&mut log).await.is_ok() {}
        seen.borrow_mut().setbacks += 1;
    }
}

async fn read(io: Io, seen: Shared) {
    let mut log = WireLog::new(io, settings("reader"), Options::default());
    log.assign(&OUTPUT, false).await.expect("it changes the client alone");
    loop {
        let polled = log.poll().await.expect("fetches meet nothing that does not pass");
        for (_, value) in polled.reads.into_iter().flat_map(|(_, records)| records) {
            *seen.borrow_mut().out.entry(value).or_default() += 1;
        }
    }
}

fn check(seed: u64, weather: Weather, options: &Options) {
    let mut stage = Stage::new(seed);
    let seen = Shared::default();
    let shared = Rc::clone(&seen);
    stage.client("feeder", move |io| feed(io, Rc::clone(&shared)));
    for name in ["w1", "w2"] {
        let Options { group_protocol, transactions, .. } = *options;
        let (shared, options) =
            (Rc::clone(&seen), Options { group_protocol, transactions, ..stage.options() });
        stage.client(name, move |io| work(io, name, options.clone(), Rc::clone(&shared)));
    }
    let shared = Rc::clone(&seen);
    stage.client("reader", move |io| read(io, Rc::clone(&shared)));
    stage.run_ms(1000);
    stage.storm(weather, 7000);
    let is_out = || {
        let seen = seen.borrow();
        let is_fed = (seen.acknowledged.len() + seen.in_doubt.len()) as i64 > RECORDS * 9 / 10;
        is_fed && seen.acknowledged.iter().all(|value| seen.out.contains_key(value))
    };
    stage.until(60_000, &format!("seed {seed}, {options:?}: all comes out"), is_out);
    stage.run_ms(3000);
    let seen = seen.borrow();
    for (value, times) in &seen.out {
        assert_eq!(*times, 1, "seed {seed}, {options:?}: {value} came out more than once");
        assert!(seen.acknowledged.contains(value) || seen.in_doubt.contains(value), "{value} was not sent");
    }
    assert!(stage.world.crashes().is_empty(), "seed {seed}: {:?}", stage.world.crashes());
}

#[test]
fn what_goes_in_comes_out_once() {
    for seed in seeds(1..=2) {
        for group_protocol in [GroupProtocol::Eager, GroupProtocol::Cooperative, GroupProtocol::Consumer] {
            for (transactions, weather) in
                [(TransactionVersion::One, Weather::Kills), (TransactionVersion::Two, Weather::All)]
            {
                check(seed, weather, &Options { group_protocol, transactions, ..Options::default() });
            }
        }
    }
}
