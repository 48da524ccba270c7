//! What a run is asked to do ([`TestConfig`]) and what that comes to ([`Plan`]).
//!
//! The seed is expanded before the run into an explicit list of faults: when, which, on whom. Asked again for the same
//! seed it is the same list, and taking one fault out leaves the others as they were.

mod ops;
mod rotation;
mod scenario;

pub use scenario::{SCENARIO_VERSION, Scenario};

use crate::client::{Isolation, SubscribeVia};
use crate::cluster::{NodeId, Role};
use crate::fault::{Fault, Target};
use crate::generator::PlannedOp;
use crate::history::History;
use crate::seed::Seed;
use rand::RngExt as _;
use rotation::Rotation;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The most nodes of a run; live, a sandbox has no room for more.
pub const MAX_NODES: u16 = 64;
/// The most client processes that act at once, so that a slip of the finger is told apart from a machine that gives up.
pub const MAX_CONCURRENCY: u32 = 1000;
/// The most keys that are written at a time. A broker keeps an open file for every key; a run has more of them than it
/// writes at a time.
pub const MAX_KEYS: u32 = 10_000;

/// The longest payload of a record; a batch of it is still less than a broker takes.
pub const MAX_VALUE_BYTES: u32 = 1_000_000;

/// How quick a simulated network and simulated disks are: times are drawn evenly between the bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Physics {
    /// How long bytes travel, at least. Units: nanoseconds.
    pub min_latency_ns: u64,
    /// How long they travel, at most.
    pub max_latency_ns: u64,
    /// One parcel in so many takes fifty times as long; none if 0.
    pub slow_one_in: u64,
    /// How long a host is busy when it made something durable, at least. Units: nanoseconds.
    pub min_sync_ns: u64,
    /// How long it is busy then, at most.
    pub max_sync_ns: u64,
    /// One event in so many waits for half a millisecond, to be taken in together with those that come meanwhile; none
    /// if 0.
    pub batched_one_in: u64,
}

impl Default for Physics {
    /// A quiet local network and a good disk.
    fn default() -> Physics {
        Physics {
            min_latency_ns: 50_000,
            max_latency_ns: 500_000,
            slow_one_in: 500,
            min_sync_ns: 50_000,
            max_sync_ns: 1_000_000,
            batched_one_in: 8,
        }
    }
}

/// Every knob of a run, resolved: `test.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TestConfig {
    /// The system under test.
    pub system: String,
    /// The workload.
    pub workload: String,
    /// The faults, as given: `kill`, `partition:bridge`, ...
    pub nemesis: Vec<String>,
    /// If it runs in simulation: how quick that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sim: Option<Physics>,
    /// How many nodes clients reach.
    pub nodes: u16,
    /// How many more are controllers and nothing else.
    #[serde(default, skip_serializing_if = "is_none")]
    pub controllers: u16,
    /// How many more keep what those have no place for: as many as the system has.
    #[serde(default, skip_serializing_if = "is_none")]
    pub storage: u16,
    /// How long the main phase lasts. Units: milliseconds.
    pub time_limit_ms: u64,
    /// How many ops a second all clients together begin.
    pub rate_hz: f64,
    /// How many client processes act at once.
    pub concurrency: u32,
    /// If faults take turns: how long one mix of them acts. Units: milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotate_ms: Option<u64>,
    /// The seed.
    pub seed: u64,
    /// Whether ops are transactions.
    pub txn: bool,
    /// What polls see.
    pub isolation: Isolation,
    /// How consumers come by their keys.
    pub sub_via: Vec<SubscribeVia>,
    /// `0`, `1` or `all`.
    pub acks: String,
    /// Whether producers are idempotent.
    pub idempotence: bool,
    /// The planted defect.
    pub defect: Option<String>,
    /// How many nodes keep each partition.
    pub replication_factor: u16,
    /// How many keys are written at a time.
    pub keys: u32,
    /// How many values a key gets before another takes its place.
    pub max_writes_per_key: u32,
    /// How long a record's payload is, at least. Units: bytes.
    #[serde(default = "least_value_bytes")]
    pub value_bytes: u32,
    /// How long a fault is left to work, at most. Units: milliseconds.
    pub fault_max_ms: u64,
    /// How long it is quiet between two strikes of a fault, at most. Units: milliseconds.
    pub quiet_max_ms: u64,
    /// A client op that takes longer is given up on: its outcome is unknown. Units: milliseconds.
    pub op_timeout_ms: u64,
    /// How long the cluster gets to serve again when all is healed. Units: milliseconds.
    pub recovery_limit_ms: u64,
    /// How long the final reads may take. Units: milliseconds.
    pub drain_limit_ms: u64,
    /// `HOST:PORT` of a cluster that is there already; none of one that is deployed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bootstrap: Vec<String>,
    /// The version that nodes go to in the course of the run, or the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_to: Option<String>,
    /// `USER@HOST[:PORT]` of the machines that the nodes are on, in order; none if they are in the sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// `[USER@]HOST[:PORT]` of one more, whose node can join the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare_host: Option<String>,
    /// `--set NAME=VALUE`.
    pub settings: BTreeMap<String, String>,
}

/// Of runs that were written down before this was a knob.
fn least_value_bytes() -> u32 {
    1
}

fn is_none(count: &u16) -> bool {
    *count == 0
}

impl TestConfig {
    /// How many nodes there are in all.
    pub fn all_nodes(&self) -> u16 {
        self.nodes + self.controllers + self.storage
    }

    /// All nodes, those that clients reach first, those that keep what others have no place for last; of a role, if one is
    /// given.
    pub fn nodes_of(&self, role: Option<Role>) -> Vec<NodeId> {
        let all = NodeId::first(self.all_nodes());
        let (brokers, others) = all.split_at(usize::from(self.nodes));
        let (controllers, storage) = others.split_at(usize::from(self.controllers));
        let of_role = match role {
            None => &all[..],
            Some(Role::Broker) => brokers,
            Some(Role::Controller) => controllers,
            Some(Role::Storage) => storage,
        };
        of_role.to_vec()
    }
}

/// One planned act of the nemesis.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FaultEvent {
    /// When, since the main phase began. Units: nanoseconds.
    #[serde(rename = "time")]
    pub time_ns: u64,
    /// The fault's name.
    pub fault: String,
    /// The `f` of its op: one that strikes or one that heals.
    pub f: String,
    /// What it is aimed at; null for one that heals.
    pub value: Json,
}

/// Everything that a run will do to its cluster.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Plan {
    /// Sorted by time.
    pub faults: Vec<FaultEvent>,
    /// What clients do in the main phase, where it is decided before: `None` where the workload decides as it goes. In a
    /// file, invocations as in a history, whose processes are the threads' numbers.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "ops")]
    pub ops: Option<Vec<PlannedOp>>,
    /// When the main phase is over, if clients have nothing to do any more by then: a run that is followed waited for the end of
    /// its time, though nothing began. Units: nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_ns: Option<u64>,
}

/// No strike begins so shortly before the end that it could not be seen to do anything.
const MIN_FAULT_MS: u64 = 1_000;
/// The first strike comes early, so that short runs have one; but not before some ops have worked undisturbed.
const FIRST_QUIET_MS: u64 = 1_000;

impl Plan {
    /// The same with the ops that clients began in the main phase of a run: who follows it does them again.
    pub fn with_ops_of(self, history: &History, concurrency: u32) -> Plan {
        Plan { ops: Some(ops::of(history, concurrency)), ends_ns: ops::end_of(history), ..self }
    }

    /// Expands a seed: each fault alternates between quiet and struck, by a stream of its own, while it is its turn.
    ///
    /// `faults` gives each fault with what it may strike, at least one target.
    pub fn expand(config: &TestConfig, faults: &[(&dyn Fault, Vec<Target>)]) -> Plan {
        let mut events = Vec::new();
        let rotation = Rotation::draw(config, faults.len());
        for (number, (fault, targets)) in faults.iter().enumerate() {
            let info = fault.info();
            let mut random = Seed(config.seed).stream("nemesis", info.name);
            let mut nodes: BTreeMap<Option<Role>, Vec<NodeId>> = BTreeMap::new();
            for Target { role, .. } in targets {
                nodes.entry(*role).or_insert_with(|| fault.targets(&config.nodes_of(*role), &mut random));
            }
            let mut at_ms = random.random_range(FIRST_QUIET_MS / 2..=FIRST_QUIET_MS);
            if fault.strikes_once() {
                // Not always before there is much for it to spoil.
                at_ms += random.random_range(0..=config.time_limit_ms / 4);
            }
            loop {
                let turn = match &rotation {
                    Some(rotation) => rotation.turn(number, at_ms),
                    None => Some((at_ms, config.time_limit_ms)),
                };
                let Some((from_ms, end_ms)) = turn else { break };
                let end_ms = end_ms.min(config.time_limit_ms);
                if from_ms + MIN_FAULT_MS > config.time_limit_ms {
                    break;
                }
                at_ms = from_ms;
                if at_ms + MIN_FAULT_MS > end_ms {
                    // Too late in its turn.
                    at_ms = end_ms;
                    continue;
                }
                let Target { role, shape } = targets[random.random_range(0..targets.len())];
                let aim = match role {
                    None => fault.aim(shape, &nodes[&role], &mut random),
                    Some(_) => {
                        let (of_role, mut others) = (config.nodes_of(role), config.nodes_of(None));
                        others.retain(|node| !of_role.contains(node));
                        fault.aim_at_role(shape, &nodes[&role], &others, &mut random)
                    }
                };
                let most_ms = config.fault_max_ms.max(MIN_FAULT_MS);
                let held_ms = random.random_range(MIN_FAULT_MS..=most_ms);
                let held_ms = fault.held_ms(held_ms, most_ms, nodes[&role].len());
                let quiet_ms = random.random_range(config.quiet_max_ms / 3..=config.quiet_max_ms);
                let until_ms = at_ms.saturating_add(held_ms).min(end_ms);
                for (time_ms, f, value) in [(at_ms, info.strike_f, aim), (until_ms, info.heal_f, Json::Null)]
                {
                    events.push(FaultEvent {
                        time_ns: time_ms * 1_000_000,
                        fault: info.name.to_owned(),
                        f: f.to_owned(),
                        value,
                    });
                }
                if fault.strikes_once() {
                    break;
                }
                at_ms = until_ms + quiet_ms;
            }
        }
        // Stable: of two acts at the same time the one of the fault named first comes first.
        events.sort_by_key(|event| event.time_ns);
        Plan { faults: events, ops: None, ends_ns: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, ClusterError};
    use crate::fault::{Effect, FaultInfo, Shape};
    use crate::seed::Stream;
    use proptest::prelude::*;

    static SHAPE: Shape = Shape { name: "one", doc: "", min_nodes: 1 };
    static INFOS: [FaultInfo; 3] = [info("a", "a+", "a-"), info("b", "b+", "b-"), info("c", "c+", "c-")];

    const fn info(name: &'static str, strike_f: &'static str, heal_f: &'static str) -> FaultInfo {
        let shapes = std::slice::from_ref(&SHAPE);
        FaultInfo { name, doc: "", strike_f, heal_f, min_copies: 1, shapes }
    }

    struct Nothing(&'static FaultInfo);

    impl Fault for Nothing {
        fn info(&self) -> &'static FaultInfo {
            self.0
        }

        fn aim(&self, _: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
            Json::String(nodes[random.random_range(0..nodes.len())].to_string())
        }

        fn strike(&self, _: &dyn Cluster, _: &Json) -> Result<Effect, ClusterError> {
            unreachable!("nothing is carried out")
        }

        fn heal(&self, _: &dyn Cluster) -> Result<Effect, ClusterError> {
            unreachable!("nothing is carried out")
        }
    }

    fn config(seed: u64, time_limit_ms: u64, rotate_ms: Option<u64>) -> TestConfig {
        let fields = serde_json::json!({
            "system": "s", "workload": "w", "nemesis": [], "nodes": 3, "controllers": 2, "storage": 1, "time_limit_ms": time_limit_ms,
            "rate_hz": 1.0, "concurrency": 1, "rotate_ms": rotate_ms, "seed": seed, "txn": false,
            "isolation": "read_committed", "sub_via": [], "acks": "all", "idempotence": true, "defect": null,
            "replication_factor": 3, "keys": 1, "max_writes_per_key": 1, "fault_max_ms": 4000, "quiet_max_ms": 6000,
            "op_timeout_ms": 1, "recovery_limit_ms": 1, "drain_limit_ms": 1, "settings": {},
        });
        serde_json::from_value(fields).expect("all knobs")
    }

    /// The strikes of each fault: from when to when, and on whom. Units: milliseconds.
    fn strikes(config: &TestConfig, role: Option<Role>) -> Vec<Vec<(u64, u64, String)>> {
        let faults: Vec<Nothing> = INFOS.iter().map(Nothing).collect();
        let target = Target { role, shape: &SHAPE };
        let chosen: Vec<(&dyn Fault, _)> =
            faults.iter().map(|fault| (fault as &dyn Fault, vec![target])).collect();
        let plan = Plan::expand(config, &chosen);
        assert!(plan.faults.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
        let of = |info: &FaultInfo| {
            let events: Vec<&FaultEvent> =
                plan.faults.iter().filter(|event| event.fault == info.name).collect();
            let strike = |pair: &[&FaultEvent]| {
                assert_eq!((pair[0].f.as_str(), pair[1].f.as_str()), (info.strike_f, info.heal_f));
                let on = pair[0].value.as_str().expect("a node").to_owned();
                (pair[0].time_ns / 1_000_000, pair[1].time_ns / 1_000_000, on)
            };
            events.chunks(2).map(strike).collect()
        };
        INFOS.iter().map(of).collect()
    }

    #[test]
    fn faults_strike_nodes_of_their_role() {
        for (role, expected) in [
            (None, &["n1", "n2", "n3", "n4", "n5", "n6"][..]),
            (Some(Role::Broker), &["n1", "n2", "n3"]),
            (Some(Role::Controller), &["n4", "n5"]),
            (Some(Role::Storage), &["n6"]),
        ] {
            let struck: std::collections::BTreeSet<String> = strikes(&config(1, 600_000, None), role)
                .into_iter()
                .flatten()
                .map(|(_, _, node)| node)
                .collect();
            assert!(struck.iter().eq(expected.iter()), "{role:?}: {struck:?}");
        }
    }

    proptest! {
        /// Strikes last, do not overlap with others of their fault, and end with the run, take they turns or not; with turns
        /// each fault has one as soon as there were as many periods with faults, and none goes on into a period of others.
        #[test]
        fn strikes_keep_to_their_times(
            seed: u64, limit_ms in 1_500..200_000_u64, rotate_ms in prop::option::of(2_000..30_000_u64),
        ) {
            let config = config(seed, limit_ms, rotate_ms);
            let all = strikes(&config, None);
            for strikes in &all {
                for (from_ms, to_ms, _) in strikes {
                    prop_assert!(to_ms - from_ms >= MIN_FAULT_MS && *to_ms <= limit_ms, "{strikes:?}");
                }
                prop_assert!(strikes.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{strikes:?}");
            }
            if let Some(period_ms) = rotate_ms {
                // Between calm periods each has its turn: after so many it is next to certain.
                if limit_ms / period_ms >= 40 {
                    prop_assert!(all.iter().all(|strikes| !strikes.is_empty()), "{all:?}");
                }
            } else if limit_ms >= FIRST_QUIET_MS + MIN_FAULT_MS {
                prop_assert!(all.iter().all(|strikes| !strikes.is_empty()), "{all:?}");
            }
        }
    }

    #[test]
    fn faults_that_take_turns_come_in_mixes_and_leave_calm_periods() {
        const PERIOD_MS: u64 = 5_000;
        let mut mixes = std::collections::BTreeSet::new();
        for seed in 0..20 {
            let config = config(seed, 100_000, Some(PERIOD_MS));
            let all = strikes(&config, None);
            for period in 0..20 {
                let (from_ms, to_ms) = (period * PERIOD_MS, (period + 1) * PERIOD_MS);
                let acts = |strikes: &Vec<(u64, u64, String)>| {
                    strikes.iter().any(|(begun_ms, ended_ms, _)| *begun_ms < to_ms && *ended_ms > from_ms)
                };
                mixes.insert(all.iter().map(acts).collect::<Vec<_>>());
            }
            assert_eq!(all, strikes(&config, None), "seed {seed}");
        }
        assert_eq!(mixes.len(), 8, "every mix and none: {mixes:?}");
    }
}
