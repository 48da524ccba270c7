//! The bundled broker as a system under test: this very program, run as `riprap broker`.

mod narrator;
mod simulation;

use crate::librdkafka::{self, KafkaLog};
use crate::simulated::Simulated;
use crate::{Registered, members, probe};
use riprap_broker::defect;
use riprap_core::client::{ClientConfig, Log, LogError};
use riprap_core::cluster::{MemberChange, NodeId};
use riprap_core::system::{ClockVia, DefectInfo, Deployment, NodeCommand, Overseer, System, SystemInfo};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;

/// Where every broker listens, for clients and for the other brokers; each has an address of its own.
const PORT: u16 = 9092;

static INFO: LazyLock<SystemInfo> = LazyLock::new(|| SystemInfo {
    name: "broker",
    doc: "The bundled Kafka-compatible broker: a replicated log with a Raft metadata quorum, in Rust, part of this \
          program. Correct by default; planted defects (--defect) re-create documented bugs of real systems.",
    defects: defect::ALL
        .iter()
        .map(|defect| DefectInfo {
            name: defect.name,
            source: defect.source,
            mechanism: defect.mechanism,
            trigger: defect.trigger,
            anomalies: defect.anomalies,
        })
        .collect(),
    errors: librdkafka::ERRORS,
    versions: None,
    controllers: false,
    storage: 0,
});

pub(crate) struct Bundled;

impl System for Bundled {
    fn info(&self) -> &'static SystemInfo {
        &INFO
    }

    fn validate(&self, deployment: &Deployment) -> Result<(), String> {
        if let Some(name) = &deployment.defect
            && !INFO.defects.iter().any(|defect| defect.name == name)
        {
            let names: Vec<&str> = INFO.defects.iter().map(|defect| defect.name).collect();
            return Err(format!("unknown defect `{name}`; one of: {}", names.join(", ")));
        }
        let mut config = simulation::config(NodeId(1), 1);
        for (name, value) in &deployment.settings {
            config.set(name, value).map_err(|e| e.to_string())?;
        }
        config.validate()
    }

    fn validate_client(&self, properties: &[(String, String)]) -> Result<(), String> {
        librdkafka::validate(properties)
    }

    fn command(&self, deployment: &Deployment, node: NodeId) -> NodeCommand {
        let place = deployment.place(node);
        let peers: Vec<String> =
            deployment.nodes.iter().map(|peer| format!("{}@{}:{PORT}", peer.id.0, peer.address)).collect();
        let mut args = vec![
            "broker".to_owned(),
            format!("--id={}", node.0),
            format!("--listen={}:{PORT}", place.address),
            format!("--peers={}", peers.join(",")),
            format!("--dir={}", place.data_dir.display()),
            format!("--seed={}", deployment.seed),
        ];
        args.extend(deployment.defect.iter().map(|defect| format!("--defect={defect}")));
        args.extend(deployment.settings.iter().map(|(name, value)| format!("--set={name}={value}")));
        // The program itself, even if its file has been replaced since it was started.
        let program = deployment.program.clone().unwrap_or_else(|| "/proc/self/exe".into());
        NodeCommand { program, args, env: Vec::new() }
    }

    fn clock(&self) -> ClockVia {
        ClockVia::Option("--clock-offset")
    }

    fn bootstrap(&self, deployment: &Deployment, node: NodeId) -> String {
        format!("{}:{PORT}", deployment.place(node).address)
    }

    fn serves(&self, deployment: &Deployment, node: NodeId) -> Result<(), String> {
        probe::serves(deployment, node, PORT)
    }

    fn can_be_joined(&self) -> bool {
        true
    }

    fn administer(&self, deployment: &Deployment, change: MemberChange, overseer: &mut dyn Overseer) {
        members::administer_live(deployment, PORT, change, overseer);
    }

    fn client(&self, config: &ClientConfig) -> Result<Box<dyn Log>, LogError> {
        Ok(Box::new(KafkaLog::new(config.clone(), librdkafka::ERRORS)))
    }

    fn versions(&self, _: &Deployment) -> Json {
        json!({"broker": env!("CARGO_PKG_VERSION"), "librdkafka": rdkafka::util::get_rdkafka_version().1})
    }
}

impl Registered for Bundled {
    fn simulated(&self) -> Option<&'static dyn Simulated> {
        Some(&simulation::Simulation)
    }
}
