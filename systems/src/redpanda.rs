//! Redpanda, by a program that the user names: there is none to be fetched, and riprap's own tests have run none.
//!
//! Each node has two files, below its data folder:
//!
//! ```text
//! redpanda.yaml     what names the node and its place, and what was set as `node.NAME`
//! .bootstrap.yaml   settings of the whole cluster, which are read when it is founded
//! data              the rest is Redpanda's
//! ```
//!
//! What it cannot see: Redpanda's tuner and `rpk`, which set up a machine for it.

use crate::librdkafka::{self, KafkaLog};
use crate::{Registered, probe};
use riprap_core::client::{ClientConfig, Log, LogError};
use riprap_core::cluster::NodeId;
use riprap_core::system::{Deployment, NodeCommand, System, SystemInfo};
use serde_json::{Map, Value as Json, json};
use std::path::PathBuf;
use std::sync::LazyLock;

/// Where brokers listen for clients, for each other, and for whoever asks how they are; each node has an address of its own.
const CLIENT_PORT: u16 = 9092;
const RPC_PORT: u16 = 33145;
const ADMIN_PORT: u16 = 9644;

/// What begins the name of a setting of one node, as opposed to those of the cluster.
const NODE_SETTING: &str = "node.";
/// What names a node and its place: nobody else's to set. Source: Redpanda's src/v/config/node_config.cc.
const OURS: &[&str] = &[
    "admin",
    "advertised_kafka_api",
    "advertised_rpc_api",
    "data_directory",
    "empty_seed_starts_cluster",
    "kafka_api",
    "node_id",
    "rpc_server",
    "seed_servers",
];

/// How the program runs: on one core that others share and in so little memory that several fit beside the harness, and with
/// every sync that it asks for.
const PROGRAM_ARGS: &[&str] = &[
    "--smp=1",
    "--memory=1G",
    "--reserve-memory=0M",
    "--overprovisioned",
    "--lock-memory=false",
    "--unsafe-bypass-fsync=false",
    "--default-log-level=info",
];

/// Partitions of the internal topics. Redpanda's 16 and 50 each take longer to settle after each fault than they add.
const INTERNAL_PARTITIONS: u16 = 4;

/// What a node says when it has found itself to be wrong. Source: Redpanda's src/v/base/vassert.h.
static BROKEN: LazyLock<Vec<String>> = LazyLock::new(|| vec!["Assert failure: (".to_owned()]);

static INFO: SystemInfo = SystemInfo {
    name: "redpanda",
    doc: "Redpanda, by the program that --bin names: there is none to be fetched, and no version. Not tried by riprap's own \
          tests, which have no such program: what is tested is what its nodes are given. --set takes properties of its cluster \
          (write_caching_default=true), which it has from its foundation on, and as node.NAME of its nodes.",
    defects: Vec::new(),
    errors: librdkafka::ERRORS,
    versions: None,
    controllers: false,
    storage: 0,
};

pub(crate) struct Redpanda;

/// Whether a property may be set so. Errors: one line.
fn check_setting(name: &str) -> Result<(), String> {
    let bare = name.strip_prefix(NODE_SETTING).unwrap_or(name);
    if OURS.contains(&bare) {
        return Err(format!("--set {name}: riprap sets it itself; leave it out"));
    }
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if bare.is_empty() || !bare.chars().all(is_name) {
        return Err(format!(
            "--set {name}: no name of a property; lower-case letters, digits and `_`, behind `node.` or not, are right"
        ));
    }
    Ok(())
}

/// What was set, of nodes or of the cluster. A value that is a number, a truth or null is one there too.
fn set(deployment: &Deployment, of_nodes: bool) -> impl Iterator<Item = (String, Json)> {
    deployment.settings.iter().filter_map(move |(name, value)| {
        let name = match name.strip_prefix(NODE_SETTING) {
            Some(name) => of_nodes.then_some(name),
            None => (!of_nodes).then_some(name.as_str()),
        };
        let value = serde_json::from_str(value).unwrap_or_else(|_| Json::from(value.as_str()));
        Some((name?.to_owned(), value))
    })
}

fn object(of: Json) -> Map<String, Json> {
    let Json::Object(of) = of else { unreachable!("it is written as one") };
    of
}

/// A node's `redpanda.yaml`. JSON is YAML, and has one way to write a text.
fn node_file(deployment: &Deployment, node: NodeId) -> Json {
    let place = deployment.place(node);
    let at = |port: u16| json!({"address": place.address, "port": port});
    let seeds =
        deployment.nodes.iter().map(|peer| json!({"host": {"address": peer.address, "port": RPC_PORT}}));
    // Without checks of the machine: a test's is none that they would pass.
    let mut its = object(json!({"developer_mode": true}));
    its.extend(set(deployment, true));
    its.extend(object(json!({
        "admin": [at(ADMIN_PORT)],
        "advertised_kafka_api": [at(CLIENT_PORT)],
        "advertised_rpc_api": at(RPC_PORT),
        "data_directory": place.data_dir.join("data"),
        // All of them found the cluster together: none of them is special.
        "empty_seed_starts_cluster": false,
        "kafka_api": [at(CLIENT_PORT)],
        "node_id": node.0,
        "rpc_server": at(RPC_PORT),
        "seed_servers": seeds.collect::<Vec<_>>(),
    })));
    json!({"redpanda": its})
}

/// Every node's `.bootstrap.yaml`. What was set wins over what riprap would like.
fn cluster_file(deployment: &Deployment) -> Json {
    // Redpanda has odd numbers of replicas only.
    let copies = if deployment.nodes.len() < 3 { 1 } else { 3 };
    let mut its = object(json!({
        "auto_create_topics_enabled": false,
        "default_topic_replications": copies,
        // Members of a test come and go: the wait for others to join would be all that a short run sees.
        "group_initial_rebalance_delay": 0,
        "group_topic_partitions": INTERNAL_PARTITIONS,
        "internal_topic_replication_factor": copies,
        "transaction_coordinator_partitions": INTERNAL_PARTITIONS,
    }));
    its.extend(set(deployment, false));
    Json::Object(its)
}

fn node_file_path(deployment: &Deployment, node: NodeId) -> PathBuf {
    deployment.place(node).data_dir.join("redpanda.yaml")
}

impl System for Redpanda {
    fn info(&self) -> &'static SystemInfo {
        &INFO
    }

    fn validate(&self, deployment: &Deployment) -> Result<(), String> {
        if deployment.defect.is_some() {
            return Err("--defect: system `redpanda` has no planted defects; leave it out".to_owned());
        }
        if deployment.program.is_none() {
            return Err(
                "--bin: system `redpanda` is not fetched; the program `redpanda` of a release is right"
                    .to_owned(),
            );
        }
        deployment.settings.keys().try_for_each(|name| check_setting(name))
    }

    fn prepare(&self, deployment: &Deployment, nodes: &[NodeId]) -> Result<(), String> {
        let cluster = format!("{:#}\n", cluster_file(deployment));
        for node in nodes {
            let node_file = format!("{:#}\n", node_file(deployment, *node));
            let data = deployment.place(*node).data_dir.join("data");
            std::fs::create_dir_all(&data).map_err(|e| format!("failed to make {}: {e}", data.display()))?;
            let path = node_file_path(deployment, *node);
            for (path, text) in [(&path, &node_file), (&path.with_file_name(".bootstrap.yaml"), &cluster)] {
                std::fs::write(path, text).map_err(|e| format!("failed to write {}: {e}", path.display()))?;
            }
        }
        Ok(())
    }

    fn validate_client(&self, properties: &[(String, String)]) -> Result<(), String> {
        librdkafka::validate(properties)
    }

    fn command(&self, deployment: &Deployment, node: NodeId) -> NodeCommand {
        let file = node_file_path(deployment, node);
        let mut args = vec![format!("--redpanda-cfg={}", file.display())];
        args.extend(PROGRAM_ARGS.iter().map(|arg| (*arg).to_owned()));
        let program = deployment.program.clone().expect("it was asked for");
        NodeCommand { program, args, env: Vec::new() }
    }

    fn bootstrap(&self, deployment: &Deployment, node: NodeId) -> String {
        format!("{}:{CLIENT_PORT}", deployment.place(node).address)
    }

    fn serves(&self, deployment: &Deployment, node: NodeId) -> Result<(), String> {
        probe::serves(deployment, node, CLIENT_PORT)
    }

    fn client(&self, config: &ClientConfig) -> Result<Box<dyn Log>, LogError> {
        Ok(Box::new(KafkaLog::new(config.clone(), librdkafka::ERRORS)))
    }

    fn broken(&self) -> &[String] {
        &BROKEN
    }

    fn versions(&self, deployment: &Deployment) -> Json {
        json!({"redpanda": deployment.program, "librdkafka": rdkafka::util::get_rdkafka_version().1})
    }
}

impl Registered for Redpanda {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::deployment;

    #[test]
    fn what_nodes_are_given() {
        let set = [
            ("node.developer_mode", "false"),
            ("node.rack", "r1"),
            ("group_topic_partitions", "16"),
            ("write_caching_default", "true"),
            ("node.crash_loop_limit", "null"),
        ];
        let three = deployment(3, 0, &set);
        let (two, one) = (deployment(2, 0, &[]), deployment(1, 0, &[]));
        let node = |of: &Deployment, n: u16| node_file(of, NodeId(n));
        let cluster = cluster_file;
        let seed = |n: u8| json!({"host": {"address": format!("10.0.0.{n}"), "port": 33145}});
        let check = |file: Json, at: &str, expect: Json| {
            assert_eq!(file.pointer(at), Some(&expect), "{at} of\n{file:#}");
        };
        check(node(&three, 2), "/redpanda/node_id", json!(2));
        check(node(&three, 2), "/redpanda/data_directory", json!("/run/n2/data/data"));
        check(node(&three, 2), "/redpanda/kafka_api", json!([{"address": "10.0.0.2", "port": 9092}]));
        check(node(&three, 2), "/redpanda/advertised_rpc_api", json!({"address": "10.0.0.2", "port": 33145}));
        check(node(&three, 2), "/redpanda/seed_servers", json!([seed(1), seed(2), seed(3)]));
        check(node(&three, 1), "/redpanda/seed_servers", json!([seed(1), seed(2), seed(3)]));
        check(node(&three, 1), "/redpanda/developer_mode", json!(false));
        check(node(&three, 1), "/redpanda/rack", json!("r1"));
        check(node(&three, 1), "/redpanda/crash_loop_limit", Json::Null);
        check(node(&one, 1), "/redpanda/developer_mode", json!(true));
        check(cluster(&three), "/group_topic_partitions", json!(16));
        check(cluster(&three), "/write_caching_default", json!(true));
        check(cluster(&three), "/default_topic_replications", json!(3));
        check(cluster(&two), "/default_topic_replications", json!(1));
        check(cluster(&one), "/internal_topic_replication_factor", json!(1));
        assert!(
            cluster_file(&three).get("rack").is_none() && cluster_file(&three).get("node.rack").is_none()
        );
    }

    #[test]
    fn how_a_node_is_started() {
        let mut deployment = deployment(3, 0, &[]);
        deployment.program = Some("/opt/redpanda/bin/redpanda".into());
        let NodeCommand { program, args, env } = Redpanda.command(&deployment, NodeId(3));
        assert_eq!(program, PathBuf::from("/opt/redpanda/bin/redpanda"));
        assert_eq!(args[0], "--redpanda-cfg=/run/n3/data/redpanda.yaml");
        assert!(args.contains(&"--unsafe-bypass-fsync=false".to_owned()) && env.is_empty(), "{args:?}");
    }

    #[test]
    fn what_is_refused() {
        let check = |program: Option<&str>, set: &[(&str, &str)], expect: Option<&str>| {
            let mut deployment = deployment(3, 0, set);
            deployment.program = program.map(PathBuf::from);
            assert_eq!(Redpanda.validate(&deployment).err().as_deref(), expect, "{program:?} {set:?}");
        };
        let bin = Some("/opt/redpanda/bin/redpanda");
        check(bin, &[("log_segment_ms", "60000"), ("node.rack", "a")], None);
        check(
            None,
            &[],
            Some("--bin: system `redpanda` is not fetched; the program `redpanda` of a release is right"),
        );
        check(bin, &[("node.node_id", "3")], Some("--set node.node_id: riprap sets it itself; leave it out"));
        check(bin, &[("seed_servers", "x")], Some("--set seed_servers: riprap sets it itself; leave it out"));
        check(
            bin,
            &[("Log.Dir", "x")],
            Some(
                "--set Log.Dir: no name of a property; lower-case letters, digits and `_`, behind `node.` or not, are right",
            ),
        );
    }
}
