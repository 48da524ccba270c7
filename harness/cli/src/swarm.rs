//! Swarm testing: each seed also draws the knobs of its run.
//!
//! Runs that are all alike find what that kind of run can find. One that has few clients, or none of a fault, or tiny
//! segments, finds what others hide: a fault that strikes all the time keeps others from being met. What is given on the
//! command line stays as it is given. Source: Groce, Zhang, Eide, Chen, Regehr, "Swarm Testing", ISSTA 2012.
//!
//! Each knob is drawn from a stream of its own, so that giving one does not shift the others.

use crate::test::{USUAL_REPLICATION, place};
use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use riprap_core::client::{Isolation, SubscribeVia};
use riprap_core::plan::{Physics, TestConfig};
use riprap_core::seed::{Seed, Stream};
use riprap_nemesis::Place;
use riprap_systems::simulated::Simulated;
use std::collections::BTreeSet;

/// Knobs as a seed draws them, but for those whose flags are `given`. Of faults `all` is not given: it allows any.
pub(crate) fn draw(
    mut config: TestConfig,
    given: &BTreeSet<String>,
    simulated: &dyn Simulated,
) -> TestConfig {
    let knobs = Knobs { seed: Seed(config.seed), given };
    let any_fault = !given.contains("nemesis") || config.nemesis.iter().any(|word| word == "all");

    let words = config.nemesis.clone();
    let there = place(&config);
    let possible = |nodes: u16, copies: u16| {
        any_fault || riprap_nemesis::parse(&words, Place { nodes, copies, ..there }).is_ok()
    };
    // Three nodes are what most clusters have, and five what some shapes of partitions need.
    let counts: Vec<u16> =
        [1, 2, 3, 3, 3, 3, 3, 4, 5, 5].into_iter().filter(|nodes| possible(*nodes, *nodes)).collect();
    if let Some(nodes) = knobs.one("nodes", &counts) {
        config.nodes = nodes;
    }
    let least = config.settings.get("min.insync.replicas").and_then(|n| n.parse().ok()).unwrap_or(1);
    let usual = config.nodes.min(USUAL_REPLICATION);
    let counts: Vec<u16> = (least..=config.nodes)
        .chain([usual.max(least); 6])
        .filter(|copies| possible(config.nodes, *copies))
        .collect();
    if let Some(replicas) = knobs.one("replication", &counts) {
        config.replication_factor = replicas.min(config.nodes);
    }
    if any_fault {
        config.nemesis = faults(&mut knobs.stream("nemesis"), place(&config));
    }
    let ms = |s: u64| s * 1000;
    knobs.set("time-limit", &[ms(10), ms(20), ms(30), ms(40)], &mut config.time_limit_ms);
    knobs.set("rate", &[10.0, 30.0, 100.0, 200.0, 400.0], &mut config.rate_hz);
    knobs.set("concurrency", &[3, 5, 8, 12, 16, 24], &mut config.concurrency);
    knobs.set("keys", &[1, 2, 4, 8, 16], &mut config.keys);
    knobs.set("max-writes-per-key", &[8, 32, 128, 512], &mut config.max_writes_per_key);
    knobs.set("value-size", &[1, 1, 1, 100, 1000, 10_000], &mut config.value_bytes);
    knobs.set("fault-time", &[ms(2), ms(4), ms(8)], &mut config.fault_max_ms);
    knobs.set("quiet-time", &[ms(2), ms(6), ms(15)], &mut config.quiet_max_ms);
    knobs.set("op-timeout", &[ms(2), ms(5), ms(10)], &mut config.op_timeout_ms);
    // A workload of transactions has no choice.
    if !config.txn {
        let idempotent = config.idempotence;
        knobs.set("txn", &[false, false, idempotent], &mut config.txn);
    }
    let (committed, uncommitted) = (Isolation::ReadCommitted, Isolation::ReadUncommitted);
    knobs.set("isolation", &[committed, committed, committed, uncommitted], &mut config.isolation);
    let (assign, subscribe) = (SubscribeVia::Assign, SubscribeVia::Subscribe);
    let ways = [vec![assign], vec![subscribe], vec![assign, subscribe]];
    knobs.set("sub-via", &ways, &mut config.sub_via);
    config.sim = Some(physics(&mut knobs.stream("physics")));

    for knob in simulated.knobs(&config) {
        let mut random = knobs.stream(knob.name);
        let value = &knob.values[random.random_range(0..knob.values.len())];
        if let Some(value) = value {
            config.settings.entry(knob.name.to_owned()).or_insert_with(|| value.clone());
        }
    }
    config
}

struct Knobs<'a> {
    seed: Seed,
    given: &'a BTreeSet<String>,
}

impl Knobs<'_> {
    fn stream(&self, knob: &str) -> Stream {
        self.seed.stream("swarm", knob)
    }

    /// One of these, if the knob is free and there is any.
    fn one<T: Clone>(&self, knob: &str, of: &[T]) -> Option<T> {
        if self.given.contains(knob) || of.is_empty() {
            return None;
        }
        Some(of[self.stream(knob).random_range(0..of.len())].clone())
    }

    fn set<T: Clone>(&self, knob: &str, of: &[T], to: &mut T) {
        if let Some(value) = self.one(knob, of) {
            *to = value;
        }
    }
}

/// Some of the faults that can strike: now and then none, mostly one or two, sometimes many.
fn faults(random: &mut Stream, place: Place) -> Vec<String> {
    const HOW_MANY: &[usize] = &[0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, usize::MAX];
    let all = riprap_nemesis::parse(&["all".to_owned()], place).expect("what cannot strike is left out");
    let mut names: Vec<String> = all.iter().map(|(fault, _)| fault.info().name.to_owned()).collect();
    names.shuffle(random);
    names.truncate(HOW_MANY[random.random_range(0..HOW_MANY.len())]);
    names.sort();
    if names.is_empty() {
        names.push("none".to_owned());
    }
    names
}

/// From a machine room to another continent, from a disk with a battery to one that turns.
fn physics(random: &mut Stream) -> Physics {
    const US: u64 = 1000;
    let latencies = [
        (50 * US, 500 * US),
        (50 * US, 500 * US),
        (10 * US, 100 * US),
        (1000 * US, 10_000 * US),
        (50 * US, 30_000 * US),
    ];
    let syncs = [(50 * US, 1000 * US), (50 * US, 1000 * US), (US, 20 * US), (1000 * US, 15_000 * US)];
    let (min_latency_ns, max_latency_ns) = latencies[random.random_range(0..latencies.len())];
    let (min_sync_ns, max_sync_ns) = syncs[random.random_range(0..syncs.len())];
    Physics {
        min_latency_ns,
        max_latency_ns,
        slow_one_in: [0, 500, 100][random.random_range(0..3)],
        min_sync_ns,
        max_sync_ns,
        batched_one_in: [0, 2, 8][random.random_range(0..3)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::test::Test;
    use clap::Parser as _;

    /// Draws so many seeds of a `riprap sim` with these flags; each can be run.
    fn draw_all(flags: &[&str], given: &[&str], seeds: u64) -> Vec<TestConfig> {
        let words = ["riprap", "sim"].iter().chain(flags);
        let Command::Sim(args) = Cli::parse_from(words).command else { panic!("it is `sim`") };
        let given = given.iter().map(|name| (*name).to_owned()).collect();
        let simulated =
            riprap_systems::find("broker").and_then(|system| system.simulated()).expect("it can be");
        let one = |seed| {
            let mut config = Test::config(&args.test).unwrap_or_else(|e| panic!("{e:?}"));
            (config.seed, config.sim) = (seed, Some(Physics::default()));
            let drawn = draw(config, &given, simulated);
            let resolved = Test::of(drawn.clone(), None, None);
            assert!(resolved.is_ok(), "seed {seed}: {:?} of {drawn:?}", resolved.err());
            drawn
        };
        (1..=seeds).map(one).collect()
    }

    /// How many different values a knob takes.
    fn kinds<T: Ord>(drawn: &[TestConfig], knob: impl Fn(&TestConfig) -> T) -> usize {
        drawn.iter().map(knob).collect::<BTreeSet<T>>().len()
    }

    #[test]
    fn every_seed_can_be_run_and_knobs_differ() {
        let drawn = draw_all(&[], &[], 500);
        assert_eq!(kinds(&drawn, |c| c.nodes), 5);
        assert!(kinds(&drawn, |c| c.nemesis.clone()) > 50);
        assert_eq!(kinds(&drawn, |c| c.txn), 2);
        assert_eq!(kinds(&drawn, |c| c.settings.get("fsync").cloned()), 3);
        assert_eq!(kinds(&drawn, |c| c.replication_factor), 5);
        let syncs_late = |c: &&TestConfig| c.settings.contains_key("fsync");
        let is_struck_by =
            |fault: &'static str| move |c: &&TestConfig| c.nemesis.iter().any(|name| name == fault);
        let (loses_power, rots) = (is_struck_by("power-loss"), is_struck_by("bit-flip"));
        assert_eq!(drawn.iter().filter(syncs_late).filter(loses_power).count(), 0);
        // What is on one disk only is lost with it.
        let rotting: Vec<&TestConfig> = drawn.iter().filter(rots).collect();
        assert!(rotting.len() > 20 && !rotting.iter().any(syncs_late));
        let is_alone =
            |c: &&&TestConfig| c.replication_factor < 2 || c.settings["min.insync.replicas"] == "1";
        assert_eq!(rotting.iter().find(is_alone), None);
    }

    #[test]
    fn what_is_given_stays() {
        let flags = ["--nemesis=partition:bridge", "--set=min.insync.replicas=3", "--txn", "--keys=5"];
        let drawn = draw_all(&flags, &["nemesis", "set", "txn", "keys"], 300);
        for config in &drawn {
            assert_eq!(
                (config.nemesis.join(","), config.txn, config.keys),
                ("partition:bridge".to_owned(), true, 5)
            );
            assert!(config.nodes >= 3 && config.replication_factor >= 3, "{config:?}");
            assert_eq!(config.settings["min.insync.replicas"], "3");
        }
        // And the others are drawn as if it had not been given.
        let free = draw_all(&[], &[], 300);
        let rates = |drawn: &[TestConfig]| drawn.iter().map(|c| c.rate_hz).collect::<Vec<_>>();
        assert_eq!(rates(&drawn), rates(&free));
    }
}
