//! Workloads, one file each, and their registry.
//!
//! A workload is what clients do ([`Workload::generator`], [`Workload::client`]), how the end is read
//! ([`Workload::final_generator`]) and what the history is then judged by ([`Workload::options`]). It does not know
//! whether it runs live or simulated, nor what is done to the cluster. To add one: a file here, and a line in [`ALL`].

mod abort;
mod client;
mod drain;
mod queue;

pub use drain::{Drain, Left, TRY_LIMIT};

use riprap_checker::{Options, Verdict};
use riprap_core::client::{Client, ClientConfig, ClientLog, Life, Log, LogError, SubscribeVia};
use riprap_core::generator::{BoxedGenerator, Draft};
use riprap_core::history::MopRef;
use riprap_core::op::{F, OpValue, Process, Value};
use riprap_core::plan::TestConfig;
use riprap_core::system::CLIENT_SETTING;
use riprap_core::{History, Key};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// What the registry knows of a workload.
#[derive(Debug)]
pub struct WorkloadInfo {
    /// As in `--workload NAME`.
    pub name: &'static str,
    /// One paragraph: what it does, and what that can bring out.
    pub doc: &'static str,
    /// The anomalies it is made for.
    pub finds: &'static [&'static str],
    /// Whether its clients send in transactions without being told to.
    pub txn: bool,
    /// How its consumers come by their keys unless they are told.
    pub sub_via: &'static [SubscribeVia],
}

/// Makes one client of the system under test, where its caller runs.
pub type Connect = Rc<dyn Fn(&ClientConfig) -> Result<Box<dyn Log>, LogError>>;

/// What a client gets from its run.
#[derive(Clone)]
pub struct Shared {
    /// Connects to the system under test.
    pub connect: Connect,
    /// `host:port` of every node.
    pub bootstrap: Vec<String>,
    /// Where the clients' own warnings go.
    pub log: ClientLog,
    /// What the names of the run's topics, groups and transactional ids begin with: nothing in a cluster that is the run's own.
    pub namespace: String,
    /// The topics that are known to exist.
    pub topics: Arc<Mutex<BTreeSet<String>>>,
    /// Whether the client lives.
    pub life: Life,
}

/// See the module.
pub trait Workload: Sync {
    /// What the registry knows of it.
    fn info(&self) -> &'static WorkloadInfo;

    /// What the clients do in the main phase, at whatever rate they are asked: pace and end are the caller's.
    fn generator(&self, config: &TestConfig) -> BoxedGenerator;

    /// How a run ends, once the cluster is whole again: one more value to each key, fresh clients that read it from its
    /// beginning, and a group that goes on with its keys if there was one.
    fn final_generator(&self, config: &TestConfig, history: &History) -> (BoxedGenerator, Drain);

    /// Whether its clients know such ops.
    fn does(&self, f: &F) -> bool;

    /// The client that runs as this process.
    fn client(&self, config: &TestConfig, shared: &Shared, process: Process) -> Box<dyn Client>;

    /// By what the history is judged.
    fn options(&self, config: &TestConfig) -> Options;

    /// What it has to say of a history itself, beyond what the checks find: what it counts, and why the history shows too
    /// little of what the workload is for.
    fn judge(&self, _history: &History, _options: &Options) -> Verdict {
        Verdict::default()
    }
}

/// All workloads, sorted by name.
pub static ALL: &[&dyn Workload] = &[&abort::Abort, &queue::Queue];

/// The workload of that name.
pub fn find(name: &str) -> Option<&'static dyn Workload> {
    ALL.iter().copied().find(|workload| workload.info().name == name)
}

/// The key that a topic and a partition stand for in every workload; `None` if they are none's.
pub fn key_of(topic: &str, partition: i32) -> Option<Key> {
    riprap_core::client::key_of(topic, partition, client::PARTITIONS_PER_TOPIC)
}

/// The checker's options for what a run promised.
fn options(config: &TestConfig) -> Options {
    Options {
        isolation: config.isolation.into(),
        via: if config.sub_via.contains(&SubscribeVia::Subscribe) {
            riprap_checker::Via::Subscribe
        } else {
            riprap_checker::Via::Assign
        },
        acks_all: config.acks == "all",
        idempotent: config.idempotence,
        ..Options::default()
    }
}

/// How a run ends that leaves so many values of each key to others.
fn ending(config: &TestConfig, spare_values: i64) -> drain::Ending {
    drain::Ending {
        partitions_per_topic: client::PARTITIONS_PER_TOPIC,
        concurrency: config.concurrency,
        limit_ms: config.drain_limit_ms,
        spare_values,
        members: drain::count(config),
        patience: drain::Patience::of(config),
    }
}

/// `--set client.NAME=VALUE` is the client library's property NAME.
fn client_properties(config: &TestConfig) -> Vec<(String, String)> {
    let settings = config.settings.iter();
    settings
        .filter_map(|(name, value)| Some((name.strip_prefix(CLIENT_SETTING)?.to_owned(), value.clone())))
        .collect()
}

/// Every key that a history sends to, reads or asks for, with the highest value that it has seen there: no value below 0
/// counts. Whoever asks for a key makes it where it is not there yet.
struct Last(BTreeMap<Key, Value>);

impl Last {
    fn of(history: &History) -> Last {
        let mut last = Last(BTreeMap::new());
        for op in history.ops().filter(|op| matches!(op.f(), F::Assign | F::Subscribe)) {
            op.keys().iter().for_each(|key| last.raise(*key, None));
        }
        for mop in history.ops().flat_map(|op| op.mops()) {
            match mop {
                MopRef::Send { key, value, .. } => last.raise(key, Some(value)),
                MopRef::Asked => {}
                MopRef::Polled(reads) => {
                    reads.groups().for_each(|(key, _, values)| last.raise(key, values.iter().copied().max()));
                }
            }
        }
        last
    }

    fn raise(&mut self, key: Key, value: Option<Value>) {
        let highest = self.0.entry(key).or_insert(Value(-1));
        *highest = value.map_or(*highest, |value| value.max(*highest));
    }
}

/// A question for what the group has committed of these keys. The grammar is in [`riprap_core::op`].
fn committed(keys: &[Key]) -> Draft {
    let numbers: Vec<i64> = keys.iter().map(|key| key.0).collect();
    Draft::new(F::Committed, OpValue::Json(json!(numbers)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_core::client::Isolation;

    /// A run with the usual knobs.
    pub(crate) fn config() -> TestConfig {
        TestConfig {
            system: "broker".to_owned(),
            workload: "queue".to_owned(),
            nemesis: Vec::new(),
            sim: None,
            nodes: 3,
            controllers: 0,
            storage: 0,
            time_limit_ms: 30_000,
            rate_hz: 100.0,
            concurrency: 5,
            rotate_ms: None,
            seed: 1,
            txn: false,
            isolation: Isolation::ReadCommitted,
            sub_via: vec![SubscribeVia::Subscribe],
            acks: "all".to_owned(),
            idempotence: true,
            defect: None,
            replication_factor: 3,
            keys: 4,
            max_writes_per_key: 64,
            value_bytes: 1,
            fault_max_ms: 1000,
            quiet_max_ms: 1000,
            op_timeout_ms: 5000,
            recovery_limit_ms: 60_000,
            drain_limit_ms: 120_000,
            bootstrap: Vec::new(),
            upgrade_to: None,
            hosts: Vec::new(),
            spare_host: None,
            settings: BTreeMap::new(),
        }
    }

    /// House rules: sorted, found by name, documented.
    #[test]
    fn the_registry_is_sorted_and_documented() {
        assert!(ALL.windows(2).all(|pair| pair[0].info().name < pair[1].info().name));
        for workload in ALL {
            let info = workload.info();
            assert!(
                find(info.name).is_some() && !info.doc.is_empty() && !info.finds.is_empty(),
                "{}",
                info.name
            );
        }
    }
}
