//! The bundled broker as a system under test: this very program, run as `riprap broker`.

mod admin;
mod narrator;
mod simulation;

use crate::Registered;
use crate::librdkafka::{self, KafkaLog};
use crate::simulated::Simulated;
use bytes::Bytes;
use riprap_broker::defect;
use riprap_core::client::{ClientConfig, Log, LogError};
use riprap_core::cluster::NodeId;
use riprap_core::system::{DefectInfo, Deployment, ErrorRule, NodeCommand, System, SystemInfo};
use riprap_protocol::frame::{self, FrameReader, RequestHeader};
use riprap_protocol::messages::{MetadataRequest, MetadataResponse};
use riprap_protocol::{ErrorCode, Request};
use serde_json::{Value as Json, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

/// Where every broker listens, for clients and for the other brokers; each has an address of its own.
const PORT: u16 = 9092;

/// How long a broker gets to answer the question whether it serves.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

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
    errors: ERRORS,
});

/// None is definite: librdkafka retries inside itself, and no error says whether an attempt before it took effect.
/// The list is what a reader of a history meets most, with what it means.
const ERRORS: &[ErrorRule] = &[
    ErrorRule {
        code: "FENCED",
        definite: false,
        reason: "of a commit: an attempt before it may have committed the transaction (KIP-588 on what is called fencing)",
    },
    ErrorRule {
        code: "MESSAGE_TIMED_OUT",
        definite: false,
        reason: "librdkafka gave up; an attempt may be in the log, or still on its way",
    },
    ErrorRule {
        code: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        definite: false,
        reason: "the record is in the leader's log and may yet be replicated",
    },
    ErrorRule {
        code: "NOT_LEADER_FOR_PARTITION",
        definite: false,
        reason: "may follow a successful append, if the leader lost its office while it waited for replicas (KAFKA-13574)",
    },
    ErrorRule {
        code: "REQUEST_TIMED_OUT",
        definite: false,
        reason: "the replicas did not answer in time; the record is in the leader's log",
    },
];

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

    fn bootstrap(&self, deployment: &Deployment, node: NodeId) -> String {
        format!("{}:{PORT}", deployment.place(node).address)
    }

    fn serves(&self, deployment: &Deployment, node: NodeId) -> Result<(), String> {
        let address = SocketAddr::new(deployment.place(node).address, PORT);
        let metadata = ask_metadata(address).map_err(|e| format!("{node} does not answer: {e}"))?;
        settled(node, deployment.nodes.len(), &metadata)
    }

    fn client(&self, config: &ClientConfig) -> Result<Box<dyn Log>, LogError> {
        Ok(Box::new(KafkaLog::new(config.clone(), ERRORS)))
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

/// The version of Metadata that brokers are asked in whether they serve.
const METADATA_VERSION: i16 = 9;

/// A question for all that a broker knows.
fn metadata_request() -> MetadataRequest {
    MetadataRequest { topics: None, allow_auto_topic_creation: false, ..Default::default() }
}

/// A request as a frame, the only one of its connection.
fn request_frame<R: Request>(api_version: i16, request: &R) -> Bytes {
    let client_id = Some("riprap".to_owned());
    let header = RequestHeader { api_key: R::KEY, api_version, correlation_id: 1, client_id };
    frame::encode_request(&header, request).expect("a small request")
}

/// Whether all is settled in what a node knows: all brokers, and a leader of every partition.
fn settled(node: NodeId, nodes: usize, metadata: &MetadataResponse) -> Result<(), String> {
    if metadata.brokers.len() < nodes {
        return Err(format!("{node} knows {} of {nodes} brokers", metadata.brokers.len()));
    }
    for topic in &metadata.topics {
        if let Some(partition) = topic.partitions.iter().find(|p| p.error_code != ErrorCode::NONE) {
            let name = topic.name.as_deref().unwrap_or("a topic");
            let index = partition.index;
            return Err(format!("{node} knows no leader of {name}-{index}: {}", partition.error_code));
        }
    }
    Ok(())
}

/// Asks a broker what it knows of the cluster. Errors: in words.
fn ask_metadata(address: SocketAddr) -> Result<MetadataResponse, String> {
    let in_words = |e: std::io::Error| e.to_string();
    let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT).map_err(in_words)?;
    stream.set_read_timeout(Some(PROBE_TIMEOUT)).map_err(in_words)?;
    stream.set_write_timeout(Some(PROBE_TIMEOUT)).map_err(in_words)?;
    stream.write_all(&request_frame(METADATA_VERSION, &metadata_request())).map_err(in_words)?;
    let mut reader = FrameReader::new(frame::MAX_RESPONSE_SIZE_BYTES);
    let mut buffer = [0; 16 << 10];
    loop {
        if let Some(frame) = reader.next_frame().map_err(|e| e.to_string())? {
            let response = frame::decode_response::<MetadataRequest>(frame, METADATA_VERSION);
            return response.map(|(_, response)| response).map_err(|e| e.to_string());
        }
        match stream.read(&mut buffer).map_err(in_words)? {
            0 => return Err("connection closed".to_owned()),
            n => reader.push(&buffer[..n]),
        }
    }
}
