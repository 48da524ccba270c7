//! Groups: somebody reads everything, and what was committed is not read again.

use crate::seeds;
use crate::stage::{MS, Stage, Weather, settings};
use riprap_client::{GroupProtocol, Options, WireLog};
use riprap_core::client::{ClientConfig, Log as _};
use riprap_core::op::{Key, Offset, Rebalance, Value};
use riprap_env::task::Io;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

const KEYS: [Key; 4] = [Key(0), Key(1), Key(2), Key(3)];

const PROTOCOLS: [GroupProtocol; 3] =
    [GroupProtocol::Eager, GroupProtocol::Cooperative, GroupProtocol::Consumer];

#[derive(Default)]
struct Seen {
    acknowledged: BTreeSet<(Key, Value)>,
    read: BTreeSet<(Key, Value)>,
    /// What the group is known to have committed.
    committed: BTreeMap<Key, Offset>,
    /// By member, the keys that it has.
    held: BTreeMap<String, BTreeSet<Key>>,
    violations: Vec<String>,
    done: usize,
    is_draining: bool,
}

type Shared = Rc<RefCell<Seen>>;

async fn produce(io: Io, seen: Shared) {
    let mut log = WireLog::new(io.clone(), one_topic("producer"), Options::default());
    log.create(&KEYS).await.expect("topics can be made in good weather");
    let mut value = 0;
    while !seen.borrow().is_draining {
        for key in KEYS {
            value += 1;
            if log.send(key, Value(value)).await.is_ok() {
                seen.borrow_mut().acknowledged.insert((key, Value(value)));
            }
        }
        io.sleep(20 * MS).await;
    }
    seen.borrow_mut().done += 1;
}

/// All keys share a topic: ranges would leave a third member without any of two topics of two partitions.
fn one_topic(name: &str) -> ClientConfig {
    ClientConfig { partitions_per_topic: 4, ..settings(name) }
}

fn member_log(io: &Io, name: &str, group_protocol: GroupProtocol) -> WireLog {
    WireLog::new(io.clone(), one_topic(name), Options { group_protocol, ..Options::default() })
}

/// Reads what the group gives it, and commits.
async fn consume(io: Io, name: &'static str, options: Options, seen: Shared) {
    let mut log = WireLog::new(io.clone(), one_topic(name), options);
    log.subscribe(&KEYS).await.expect("it changes the client alone");
    // What was committed when a key was given: it goes on from there at least.
    let mut from: BTreeMap<Key, Offset> = BTreeMap::new();
    loop {
        let polled = log.poll().await.expect("fetches meet nothing that does not pass");
        {
            let mut it = seen.borrow_mut();
            for Rebalance { kind, keys } in polled.rebalance {
                for key in keys {
                    if kind == Rebalance::ASSIGNED {
                        from.insert(key, it.committed.get(&key).copied().unwrap_or(Offset(0)));
                        it.held.entry(name.to_owned()).or_default().insert(key);
                    } else {
                        from.remove(&key);
                        it.held.entry(name.to_owned()).or_default().remove(&key);
                    }
                }
            }
            for (key, records) in &polled.reads {
                for (offset, value) in records {
                    if from.get(key).is_none_or(|from| offset < from) {
                        let line = format!(
                            "{name} reads {key} at {offset}; it was given it from {:?} on",
                            from.get(key)
                        );
                        it.violations.push(line);
                    }
                    it.read.insert((*key, *value));
                }
            }
        }
        if !polled.reads.is_empty()
            && let Ok(offsets) = log.commit_offsets().await
        {
            let mut it = seen.borrow_mut();
            for (key, offset) in offsets {
                let known = it.committed.entry(key).or_insert(offset);
                *known = offset.max(*known);
            }
        }
    }
}

fn group(seed: u64, group_protocol: GroupProtocol) -> (Stage, Shared, Vec<riprap_sim::HostId>) {
    let mut stage = Stage::new(seed);
    let seen = Shared::default();
    let shared = Rc::clone(&seen);
    stage.client("producer", move |io| produce(io, Rc::clone(&shared)));
    let mut members = Vec::new();
    for name in ["m1", "m2", "m3"] {
        let (shared, options) = (Rc::clone(&seen), Options { group_protocol, ..stage.options() });
        members.push(stage.client(name, move |io| consume(io, name, options.clone(), Rc::clone(&shared))));
        stage.run_ms(300);
    }
    (stage, seen, members)
}

/// Whether every key is with one member, and how many have some.
fn is_shared_out(seen: &Seen, among: usize) -> bool {
    let all: Vec<Key> = seen.held.values().flatten().copied().collect();
    let having = seen.held.values().filter(|keys| !keys.is_empty()).count();
    all.len() == KEYS.len() && all.iter().collect::<BTreeSet<_>>().len() == KEYS.len() && having == among
}

fn check_storm(seed: u64, protocol: GroupProtocol, weather: Weather) {
    let (mut stage, seen, members) = group(seed, protocol);
    stage.storm(weather, 5000);
    // A member that crashes, and comes back as another.
    stage.world.kill(members[0]);
    seen.borrow_mut().held.remove("m1");
    stage.run_ms(1500);
    stage.world.start(members[0]);
    stage.storm(weather, 4000);
    stage.run_ms(3000);
    seen.borrow_mut().is_draining = true;
    stage.until(15_000, "the producer ends", || seen.borrow().done == 1);
    let is_read = || seen.borrow().acknowledged.is_subset(&seen.borrow().read);
    stage.until(40_000, &format!("{protocol:?}, seed {seed}: all is read"), is_read);
    let seen = seen.borrow();
    assert!(seen.acknowledged.len() > 200, "seed {seed}: {}", seen.acknowledged.len());
    assert!(stage.world.crashes().is_empty(), "seed {seed}: {:?}", stage.world.crashes());
    // A commit that was held up and given up on may come true after later ones: nobody can tell.
    let is_strict = weather == Weather::Kills;
    assert!(
        !is_strict || seen.violations.is_empty(),
        "{protocol:?}, seed {seed}: {}",
        seen.violations.join("\n")
    );
}

#[test]
fn a_group_reads_everything_and_nothing_committed_again() {
    for protocol in PROTOCOLS {
        for seed in seeds(1..=3) {
            check_storm(seed, protocol, Weather::Kills);
        }
    }
}

#[test]
fn a_group_reads_everything_in_a_storm() {
    for protocol in PROTOCOLS {
        for seed in seeds(1..=3) {
            check_storm(seed, protocol, Weather::All);
        }
    }
}

#[test]
fn keys_are_shared_out_anew_when_members_come_and_go() {
    for protocol in PROTOCOLS {
        let (mut stage, seen, members) = group(5, protocol);
        let all = |among| is_shared_out(&seen.borrow(), among);
        stage.until(8000, &format!("{protocol:?}: three share"), || all(3));
        stage.world.kill(members[1]);
        seen.borrow_mut().held.remove("m2");
        stage.until(15_000, &format!("{protocol:?}: two share what the third had"), || all(2));
    }
}

#[test]
fn who_takes_keys_by_itself_leaves_its_group() {
    for protocol in PROTOCOLS {
        let (mut stage, seen, _) = group(6, protocol);
        let shared = Rc::clone(&seen);
        stage.client("guest", move |io| {
            let seen = Rc::clone(&shared);
            async move {
                let mut log = member_log(&io, "guest", protocol);
                log.subscribe(&KEYS).await.expect("it changes the client alone");
                let mut has = Vec::new();
                while has.is_empty() {
                    let polled = log.poll().await.expect("the cluster is well");
                    has = polled.rebalance.into_iter().flat_map(|rebalance| rebalance.keys).collect();
                }
                log.assign(&KEYS[..1], false).await.expect("it changes the client alone");
                let polled = log.poll().await.expect("the cluster is well");
                assert_eq!(polled.rebalance, [Rebalance { kind: "revoked".to_owned(), keys: has }]);
                assert_eq!(
                    log.commit_offsets().await,
                    Ok(Vec::new()),
                    "what it took itself it does not commit"
                );
                seen.borrow_mut().done += 1;
                io.sleep(60_000 * MS).await;
            }
        });
        stage.until(10_000, &format!("{protocol:?}: the guest is gone"), || seen.borrow().done == 1);
        // Far less than a session: the others were told.
        stage.until(4000, &format!("{protocol:?}: the others share"), || is_shared_out(&seen.borrow(), 3));
    }
}

#[test]
fn what_the_group_committed_is_told() {
    let mut stage = Stage::new(7);
    let seen = Shared::default();
    let shared = Rc::clone(&seen);
    stage.client("c", move |io| {
        let seen = Rc::clone(&shared);
        async move {
            let mut log = member_log(&io, "c", GroupProtocol::Eager);
            log.create(&KEYS[..2]).await.expect("the cluster is well");
            for value in 0..3 {
                log.send(KEYS[0], Value(value)).await.expect("the cluster is well");
            }
            assert_eq!(log.committed(&KEYS[..2]).await, Ok(vec![(KEYS[0], None), (KEYS[1], None)]));
            log.subscribe(&KEYS[..2]).await.expect("it changes the client alone");
            while log.poll().await.expect("the cluster is well").reads.is_empty() {}
            while log.commit_offsets().await != Ok(vec![(KEYS[0], Offset(3))]) {
                log.poll().await.expect("the cluster is well");
            }
            assert_eq!(
                log.committed(&KEYS[..2]).await,
                Ok(vec![(KEYS[0], Some(Offset(3))), (KEYS[1], None)])
            );
            seen.borrow_mut().done += 1;
        }
    });
    stage.until(20_000, "the client is done", || seen.borrow().done == 1);
}

/// Crashes are not farewells: what a client had that was dropped its group gives away when the session ends.
#[test]
fn who_is_dropped_is_missed_when_its_session_ends() {
    for protocol in PROTOCOLS {
        let mut stage = Stage::new(8);
        let seen = Shared::default();
        let shared = Rc::clone(&seen);
        stage.client("producer", move |io| produce(io, Rc::clone(&shared)));
        let shared = Rc::clone(&seen);
        stage.client("both", move |io| {
            let seen = Rc::clone(&shared);
            async move {
                let mut first = member_log(&io, "first", protocol);
                first.subscribe(&KEYS).await.expect("it changes the client alone");
                while first.poll().await.expect("the cluster is well").rebalance.is_empty() {}
                drop(first);
                let began_ns = io.now_ns();
                let mut second = member_log(&io, "second", protocol);
                second.subscribe(&KEYS).await.expect("it changes the client alone");
                while second.poll().await.expect("the cluster is well").rebalance.is_empty() {}
                let waited_ms = (io.now_ns() - began_ns) / MS;
                // Of the 6 s of its session, the second that a heartbeat may have been ago is gone.
                assert!((4500..8000).contains(&waited_ms), "{protocol:?}: {waited_ms} ms");
                seen.borrow_mut().done += 1;
            }
        });
        stage.until(20_000, &format!("{protocol:?}: the second has what the first had"), || {
            seen.borrow().done == 1
        });
    }
}

/// Who does not poll holds the group up for a while, leaves, and comes back when it polls again.
#[test]
fn who_does_not_poll_leaves_for_a_while() {
    for group_protocol in PROTOCOLS {
        let mut stage = Stage::new(11);
        let seen = Shared::default();
        let shared = Rc::clone(&seen);
        stage.client("producer", move |io| produce(io, Rc::clone(&shared)));
        let shared = Rc::clone(&seen);
        let max_poll_interval = Duration::from_secs(3);
        stage.client("sleeper", move |io| {
            let seen = Rc::clone(&shared);
            async move {
                let options = Options { group_protocol, max_poll_interval, ..Options::default() };
                let mut log = WireLog::new(io.clone(), one_topic("sleeper"), options);
                log.subscribe(&KEYS).await.expect("it changes the client alone");
                while log.poll().await.expect("the cluster is well").rebalance.is_empty() {}
                io.sleep(10_000 * MS).await;
                let mut told = Vec::new();
                while told.len() < 2 {
                    let rebalance = log.poll().await.expect("the cluster is well").rebalance;
                    told.extend(rebalance.into_iter().map(|rebalance| rebalance.kind));
                }
                assert_eq!(told, ["lost", Rebalance::ASSIGNED], "{group_protocol:?}");
                seen.borrow_mut().done += 1;
                while log.poll().await.is_ok() {}
            }
        });
        let shared = Rc::clone(&seen);
        let options = Options { group_protocol, ..Options::default() };
        stage.client("m2", move |io| consume(io, "m2", options.clone(), Rc::clone(&shared)));
        stage.until(9000, &format!("{group_protocol:?}: the other has all"), || {
            is_shared_out(&seen.borrow(), 1)
        });
        stage.until(15_000, &format!("{group_protocol:?}: it is back"), || seen.borrow().done == 1);
    }
}
