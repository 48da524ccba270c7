//! Apache Kafka as it is released, in KRaft mode: each node is a broker and a controller, or some are controllers alone.

mod jars;
mod properties;

use crate::librdkafka::{self, KafkaLog};
use crate::{Registered, members, prepare, probe, version};
use riprap_core::client::{ClientConfig, Log, LogError};
use riprap_core::cluster::{MemberChange, NodeId, Role};
use riprap_core::system::{Deployment, NodeCommand, Overseer, System, SystemInfo};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::process::Command;

/// Where brokers listen for clients and for each other, and controllers for all; each node has an address of its own.
const CLIENT_PORT: u16 = 9092;
const CONTROLLER_PORT: u16 = 9093;

/// The version that is tested if none is asked for.
const USUAL_VERSION: &str = "4.3.1";
/// The oldest that has KRaft alone, which is all that is run here.
const MIN_VERSION: [u32; 3] = [4, 0, 0];

/// A cluster's name: any 16 bytes in base64.
const CLUSTER_ID: &str = "cmlwcmFwLWthZmthLTAwMA";

/// How a node's virtual machine runs: small, so that several fit beside the harness, and soon warm, for a node that is
/// killed every few seconds never compiles much. What it says about itself in shared memory nobody reads.
const JVM: &[&str] = &[
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
];

static INFO: SystemInfo = SystemInfo {
    name: "kafka",
    doc: "Apache Kafka in KRaft mode, by version (kafka@4.3.1), each node a broker and a controller, or with \
          --controllers some of them controllers alone. Its jars are fetched by \
          Maven once, and Java 17 or newer runs them. --set takes every property of its servers, and \
          levels of features (feature.transaction.version=1).",
    defects: Vec::new(),
    errors: librdkafka::ERRORS,
    versions: Some("4.0.0 and newer"),
    controllers: true,
    storage: 0,
};

pub(crate) struct Kafka;

/// The version that a deployment asks for.
fn version(deployment: &Deployment) -> &str {
    deployment.version.as_deref().unwrap_or(USUAL_VERSION)
}

/// Whether it is a version that is run here. Errors: one line.
fn check_version(version: &str) -> Result<(), String> {
    version::check("kafka", version, MIN_VERSION, USUAL_VERSION, "older ones are not run here")
}

/// The command that runs a class of Kafka's. Errors: one line.
fn java(deployment: &Deployment, class: &str) -> Result<(PathBuf, Vec<String>), String> {
    let class_path = jars::class_path(version(deployment))?;
    let mut args: Vec<String> = JVM.iter().map(|arg| (*arg).to_owned()).collect();
    args.extend(["-cp".to_owned(), class_path, class.to_owned()]);
    Ok((jars::java()?, args))
}

fn properties_path(deployment: &Deployment, node: NodeId) -> PathBuf {
    deployment.place(node).data_dir.join("server.properties")
}

/// What formats a node's disk, for which its properties are there then.
fn format_disk(deployment: &Deployment, node: NodeId) -> Result<Command, String> {
    let path = properties_path(deployment, node);
    std::fs::write(&path, properties::file(deployment, node))
        .map_err(|e| format!("failed to write {}: {e}", path.display()))?;
    let (program, args) = java(deployment, "kafka.tools.StorageTool")?;
    let mut command = Command::new(program);
    command.args(args).args(["format", "--cluster-id", CLUSTER_ID, "--config"]).arg(&path);
    command.args(properties::features(deployment).iter().flat_map(|feature| ["--feature", feature]));
    Ok(command)
}

impl System for Kafka {
    fn info(&self) -> &'static SystemInfo {
        &INFO
    }

    fn validate(&self, deployment: &Deployment) -> Result<(), String> {
        check_version(version(deployment))?;
        if deployment.defect.is_some() {
            return Err("--defect: system `kafka` has no planted defects; leave it out".to_owned());
        }
        if deployment.program.is_some() {
            return Err("--bin: system `kafka` is fetched by its version; leave it out".to_owned());
        }
        deployment.settings.iter().try_for_each(|(name, value)| properties::check(name, value))
    }

    fn install(&self, deployment: &Deployment, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
        jars::java()?;
        jars::fetch(version(deployment), tell)
    }

    fn installed(&self, deployment: &Deployment) -> Result<Option<PathBuf>, String> {
        jars::folder(version(deployment)).map(Some)
    }

    fn prepare(&self, deployment: &Deployment, nodes: &[NodeId]) -> Result<(), String> {
        let formats = nodes.iter().map(|node| Ok((*node, format_disk(deployment, *node)?)));
        prepare::run_all("format the disk of", formats.collect::<Result<_, String>>()?)
    }

    fn validate_client(&self, properties: &[(String, String)]) -> Result<(), String> {
        librdkafka::validate(properties)
    }

    fn command(&self, deployment: &Deployment, node: NodeId) -> NodeCommand {
        let (program, mut args) = java(deployment, "kafka.Kafka").expect("it was installed");
        args.push(properties_path(deployment, node).display().to_string());
        NodeCommand { program, args, env: Vec::new() }
    }

    fn bootstrap(&self, deployment: &Deployment, node: NodeId) -> String {
        format!("{}:{CLIENT_PORT}", deployment.place(node).address)
    }

    fn serves(&self, deployment: &Deployment, node: NodeId) -> Result<(), String> {
        match deployment.role(node) {
            Role::Broker => probe::serves(deployment, node, CLIENT_PORT),
            Role::Controller | Role::Storage => probe::answers(deployment, node, CONTROLLER_PORT),
        }
    }

    fn can_be_joined(&self) -> bool {
        true
    }

    fn administer(&self, deployment: &Deployment, change: MemberChange, overseer: &mut dyn Overseer) {
        members::administer_live(deployment, CLIENT_PORT, change, overseer);
    }

    fn client(&self, config: &ClientConfig) -> Result<Box<dyn Log>, LogError> {
        Ok(Box::new(KafkaLog::new(config.clone(), librdkafka::ERRORS)))
    }

    fn versions(&self, deployment: &Deployment) -> Json {
        json!({"kafka": version(deployment), "librdkafka": rdkafka::util::get_rdkafka_version().1})
    }
}

impl Registered for Kafka {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let check = |version: &str, expect: Option<&str>| {
            assert_eq!(check_version(version).err().as_deref(), expect, "{version}");
        };
        check("4.0.0", None);
        check("4.3.1", None);
        check("3.9.1", Some("kafka@3.9.1: 4.0.0 or newer is right: older ones are not run here"));
        check("latest", Some("kafka@latest: no version; one like 4.3.1 is right"));
        check("4.3", Some("kafka@4.3: no version; one like 4.3.1 is right"));
    }
}
