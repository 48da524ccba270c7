//! The bundled broker in simulation.

use super::{METADATA_VERSION, PORT, metadata_request, settled};
use crate::simulated::Simulated;
use riprap_broker::{Address, Broker, BrokerConfig, BrokerId};
use riprap_client::{Options, WireLog};
use riprap_core::client::{ClientConfig, LocalFuture, Log, LogError};
use riprap_core::cluster::NodeId;
use riprap_core::system::Deployment;
use riprap_env::Node;
use riprap_env::task::Io;
use riprap_protocol::ApiKey;
use riprap_protocol::frame::{self, FrameReader};
use riprap_protocol::messages::{MetadataRequest, MetadataResponse};
use std::collections::BTreeMap;

pub(crate) struct Simulation;

impl Simulated for Simulation {
    fn node(&self, deployment: &Deployment, nodes: u16, node: NodeId) -> Box<dyn Node> {
        let address = |id: NodeId| (broker_id(id), Address { host: id.to_string(), port: PORT });
        let brokers: BTreeMap<BrokerId, Address> = NodeId::first(nodes).into_iter().map(address).collect();
        let mut config = BrokerConfig::new(broker_id(node), brokers);
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

    fn serves(&self, io: Io, nodes: u16, node: NodeId) -> LocalFuture<'static, Result<(), String>> {
        Box::pin(async move {
            let metadata = ask_metadata(&io, &format!("{node}:{PORT}")).await;
            settled(node, usize::from(nodes), &metadata.map_err(|e| format!("{node} does not answer: {e}"))?)
        })
    }
}

fn broker_id(node: NodeId) -> BrokerId {
    BrokerId(i32::from(node.0))
}

/// Asks a broker what it knows of the cluster. Errors: in words.
async fn ask_metadata(io: &Io, to: &str) -> Result<MetadataResponse, String> {
    let conn = io.connect(to).await.map_err(|e| e.to_string())?;
    conn.send(metadata_request());
    let mut reader = FrameReader::new(frame::MAX_RESPONSE_SIZE_BYTES);
    loop {
        if let Some(frame) = reader.next_frame().map_err(|e| e.to_string())? {
            let response = frame::decode_response::<MetadataRequest>(frame, METADATA_VERSION);
            return response.map(|(_, response)| response).map_err(|e| e.to_string());
        }
        reader.push(&conn.receive().await.ok_or("connection closed")?);
    }
}
