//! The bundled broker in simulation.

use super::PORT;
use super::narrator::Brokers;
use crate::members::{self, TRY_AGAIN, TRY_LIMIT, Wire};
use crate::probe::{METADATA_VERSION, metadata_request, request_frame, settled};
use crate::simulated::{Knob, Narrator, Simulated};
use riprap_broker::{Address, Broker, BrokerConfig, BrokerId};
use riprap_client::{Options, WireLog};
use riprap_core::Key;
use riprap_core::client::{ClientConfig, LocalFuture, Log, LogError};
use riprap_core::cluster::{MemberChange, NodeId};
use riprap_core::plan::TestConfig;
use riprap_core::system::Deployment;
use riprap_env::Node;
use riprap_env::task::Io;
use riprap_protocol::frame::{self, FrameReader};
use riprap_protocol::messages::MetadataResponse;
use riprap_protocol::{ApiKey, Request};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

pub(crate) struct Simulation;

impl Simulated for Simulation {
    fn node(&self, deployment: &Deployment, nodes: u16, node: NodeId) -> Box<dyn Node> {
        let mut config = config(node, nodes);
        config.defect = deployment.defect.as_deref().map(|name| name.parse().expect("its name was checked"));
        for (name, value) in &deployment.settings {
            config.set(name, value).expect("the settings were checked");
        }
        Box::new(Broker::new(config).expect("the settings were checked"))
    }

    fn bootstrap(&self, node: NodeId) -> String {
        format!("{node}:{PORT}")
    }

    fn validate_client(&self, properties: &[(String, String)]) -> Result<(), String> {
        riprap_client::validate(properties)
    }

    fn client(&self, io: &Io, config: &ClientConfig) -> Result<Box<dyn Log>, LogError> {
        let options = Options::default().with(&config.properties).expect("the properties were checked");
        Ok(Box::new(WireLog::new(io.clone(), config.clone(), options)))
    }

    fn knobs(&self, config: &TestConfig) -> Vec<Knob> {
        knobs(config)
    }

    fn administer(
        &self,
        io: Io,
        nodes: u16,
        change: MemberChange,
        tell: Rc<dyn Fn(String)>,
    ) -> LocalFuture<'static, ()> {
        Box::pin(async move { members::administer(&Administrator { io, tell }, nodes, change).await })
    }

    fn describe(&self, asks: bool, bytes: &[u8]) -> String {
        let size = bytes.len();
        let number = |at: usize| Some(i32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let short = |at: usize| Some(i16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let words = if asks {
            let name = short(4).and_then(ApiKey::from_code).map(|key| format!("{key:?}"));
            name.zip(short(6)).zip(number(8)).map(|((name, version), id)| format!("{name} {version} #{id}"))
        } else {
            number(4).map(|id| format!("answer #{id}"))
        };
        format!("{}, {size} bytes", words.unwrap_or_else(|| "bytes".to_owned()))
    }

    fn narrator(&self, key: fn(&str, i32) -> Option<Key>) -> Box<dyn Narrator> {
        Box::new(Brokers::new(key))
    }

    fn serves(&self, io: Io, nodes: u16, node: NodeId) -> LocalFuture<'static, Result<(), String>> {
        Box::pin(async move {
            let metadata = ask_metadata(&io, &format!("{node}:{PORT}")).await;
            settled(node, usize::from(nodes), &metadata.map_err(|e| format!("{node} does not answer: {e}"))?)
        })
    }
}

/// See [`Simulated::knobs`]. Most runs leave most of them alone: what fails then has few causes.
fn knobs(config: &TestConfig) -> Vec<Knob> {
    let knob = |name, values: &[&str]| Knob {
        name,
        values: values.iter().map(|value| (!value.is_empty()).then(|| (*value).to_owned())).collect(),
    };
    let struck_by = |fault: &str| config.nemesis.iter().any(|word| word.split(':').next() == Some(fault));
    let mut knobs = vec![
        knob("broker.session.timeout.ms", &["", "", "1000", "5000"]),
        knob("client.fetch.max.wait.ms", &["", "", "10", "500"]),
        knob("client.fetch.sessions", &["", "", "false"]),
        knob("client.group.protocol", &["", "consumer"]),
        knob("client.max.partition.fetch.bytes", &["", "", "100", "1048576"]),
        knob("client.metadata.max.age.ms", &["", "", "500", "30000"]),
        knob("client.partition.assignment.strategy", &["", "cooperative-sticky"]),
        knob("client.request.timeout.ms", &["", "", "700", "10000"]),
        knob("client.session.timeout.ms", &["", "", "3000", "10000"]),
        knob("controller.quorum.election.timeout.ms", &["", "", "300", "1500"]),
        knob("log.cleaner.backoff.ms", &["", "", "100"]),
        knob("log.cleaner.min.cleanable.ratio", &["", "", "0.01"]),
        knob("log.segment.bytes", &["", "", "1024", "16384"]),
        knob("offsets.retention.check.interval.ms", &["", "", "100"]),
        knob("offsets.topic.num.partitions", &["", "", "1", "8"]),
        knob("replica.fetch.wait.max.ms", &["", "", "50"]),
        knob("replica.lag.time.max.ms", &["", "", "800", "5000"]),
        knob("replica.socket.timeout.ms", &["", "", "1000", "5000"]),
    ];
    // How many must have a record: from one, which then waits for that one whatever becomes of it, to all. Of one whose disk
    // rots nothing can be waited for.
    let rots = struck_by("bit-flip");
    let in_sync = (if rots { 2 } else { 1 }..=config.replication_factor).map(|n| Some(n.to_string()));
    let usual = config.replication_factor.min(self::config(NodeId(1), 1).min_insync_replicas).to_string();
    let values = in_sync.chain([Some(usual.clone()), Some(usual)]).collect();
    knobs.push(Knob { name: "min.insync.replicas", values });
    // Who syncs late says that power must not fail, and does not count on any that came back beside one that rots.
    if !struck_by("power-loss") && !rots {
        knobs.push(knob("fsync", &["", "", "interval", "never"]));
    }
    // The older way of ending transactions cannot tell a late request from one of the next transaction: KAFKA-17754.
    let is_never_late =
        !["disk-slow", "hold", "latency", "partition", "pause"].iter().any(|fault| struck_by(fault))
            && config.sim.is_some_and(|physics| physics.max_latency_ns <= QUICK_NS);
    if is_never_late {
        knobs.push(knob("client.transaction.version", &["", "1"]));
    }
    knobs
}

/// On a network of such latency even a slow parcel is there before a client gives up.
const QUICK_NS: u64 = 1_000_000;

/// A broker's configuration before anything is set. One that is not of the nodes observes their quorum.
pub(super) fn config(node: NodeId, nodes: u16) -> BrokerConfig {
    let address = |id: NodeId| Address { host: id.to_string(), port: PORT };
    let brokers: BTreeMap<BrokerId, Address> =
        NodeId::first(nodes).into_iter().map(|id| (broker_id(id), address(id))).collect();
    let advertised = (node.0 > nodes).then(|| address(node));
    BrokerConfig { advertised, ..BrokerConfig::new(broker_id(node), brokers) }
}

fn broker_id(node: NodeId) -> BrokerId {
    BrokerId(i32::from(node.0))
}

/// How a simulated administrator reaches the brokers, from a host of its own.
struct Administrator {
    io: Io,
    tell: Rc<dyn Fn(String)>,
}

impl Wire for Administrator {
    async fn ask<R: Request>(&self, node: NodeId, version: i16, request: &R) -> Result<R::Response, String> {
        ask(&self.io, &format!("{node}:{PORT}"), version, request).await
    }

    async fn within<T>(&self, one_try: impl Future<Output = Result<T, String>>) -> Option<Result<T, String>> {
        self.io.by(self.io.now_ns() + ns(TRY_LIMIT), one_try).await
    }

    async fn pause(&self) {
        self.io.sleep(ns(TRY_AGAIN)).await;
    }

    /// One that was unregistered stays away, though it runs.
    fn end_node(&self, _: NodeId) -> Result<(), String> {
        Ok(())
    }

    fn tell(&self, how_far: String) {
        (self.tell)(how_far);
    }

    /// Its host is ended.
    fn is_over(&self) -> bool {
        false
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("seconds")
}

/// Asks a broker what it knows of the cluster. Errors: in words.
async fn ask_metadata(io: &Io, to: &str) -> Result<MetadataResponse, String> {
    ask(io, to, METADATA_VERSION, &metadata_request()).await
}

/// Asks a broker, on a connection of its own. Errors: in words.
async fn ask<R: Request>(io: &Io, to: &str, version: i16, request: &R) -> Result<R::Response, String> {
    let conn = io.connect(to).await.map_err(|e| e.to_string())?;
    conn.send(request_frame(version, request));
    let mut reader = FrameReader::new(frame::MAX_RESPONSE_SIZE_BYTES);
    loop {
        if let Some(frame) = reader.next_frame().map_err(|e| e.to_string())? {
            let response = frame::decode_response::<R>(frame, version);
            return response.map(|(_, response)| response).map_err(|e| e.to_string());
        }
        reader.push(&conn.receive().await.ok_or("connection closed")?);
    }
}
