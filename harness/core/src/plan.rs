//! What a run is asked to do ([`TestConfig`]) and what that comes to ([`Plan`]).
//!
//! The seed is expanded before the run into an explicit list of faults: when, which, on whom. Asked again for the same
//! seed it is the same list, and taking one fault out leaves the others as they were.

mod ops;
mod scenario;

pub use scenario::{SCENARIO_VERSION, Scenario};

use crate::client::{Isolation, SubscribeVia};
use crate::cluster::{NodeId, Role};
use crate::fault::{Fault, Target};
use crate::generator::PlannedOp;
use crate::history::History;
use crate::seed::Seed;
use rand::RngExt as _;
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
    /// How long the main phase lasts. Units: milliseconds.
    pub time_limit_ms: u64,
    /// How many ops a second all clients together begin.
    pub rate_hz: f64,
    /// How many client processes act at once.
    pub concurrency: u32,
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
    /// All nodes, those that clients reach first; of a role, if one is given.
    pub fn nodes_of(&self, role: Option<Role>) -> Vec<NodeId> {
        let brokers = NodeId::first(self.nodes);
        let all = NodeId::first(self.nodes + self.controllers);
        match role {
            None => all,
            Some(Role::Broker) => brokers,
            Some(Role::Controller) => all[brokers.len()..].to_vec(),
        }
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
}

/// No strike begins so shortly before the end that it could not be seen to do anything.
const MIN_FAULT_MS: u64 = 1_000;
/// The first strike comes early, so that short runs have one; but not before some ops have worked undisturbed.
const FIRST_QUIET_MS: u64 = 1_000;

impl Plan {
    /// The same with the ops that clients began in the main phase of a run: who follows it does them again.
    pub fn with_ops_of(self, history: &History, concurrency: u32) -> Plan {
        Plan { ops: Some(ops::of(history, concurrency)), ..self }
    }

    /// Expands a seed: each fault alternates between quiet and struck, by a stream of its own.
    ///
    /// `faults` gives each fault with what it may strike, at least one target.
    pub fn expand(config: &TestConfig, faults: &[(&dyn Fault, Vec<Target>)]) -> Plan {
        let mut events = Vec::new();
        for (fault, targets) in faults {
            let info = fault.info();
            let mut random = Seed(config.seed).stream("nemesis", info.name);
            let mut nodes: BTreeMap<Option<Role>, Vec<NodeId>> = BTreeMap::new();
            for Target { role, .. } in targets {
                nodes.entry(*role).or_insert_with(|| fault.targets(&config.nodes_of(*role), &mut random));
            }
            let mut at_ms = random.random_range(FIRST_QUIET_MS / 2..=FIRST_QUIET_MS);
            while at_ms + MIN_FAULT_MS <= config.time_limit_ms {
                let Target { role, shape } = targets[random.random_range(0..targets.len())];
                let aim = fault.aim(shape, &nodes[&role], &mut random);
                let held_ms = random.random_range(MIN_FAULT_MS..=config.fault_max_ms.max(MIN_FAULT_MS));
                let quiet_ms = random.random_range(config.quiet_max_ms / 3..=config.quiet_max_ms);
                let until_ms = (at_ms + held_ms).min(config.time_limit_ms);
                for (time_ms, f, value) in [(at_ms, info.strike_f, aim), (until_ms, info.heal_f, Json::Null)]
                {
                    events.push(FaultEvent {
                        time_ns: time_ms * 1_000_000,
                        fault: info.name.to_owned(),
                        f: f.to_owned(),
                        value,
                    });
                }
                at_ms = until_ms + quiet_ms;
            }
        }
        // Stable: of two acts at the same time the one of the fault named first comes first.
        events.sort_by_key(|event| event.time_ns);
        Plan { faults: events, ops: None }
    }
}
