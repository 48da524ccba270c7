//! Whether a node that speaks Kafka's protocol serves: it is asked for what it knows of the cluster.

use bytes::Bytes;
use riprap_core::cluster::NodeId;
use riprap_core::system::Deployment;
use riprap_protocol::frame::{self, FrameReader, RequestHeader};
use riprap_protocol::messages::{ApiVersionsRequest, MetadataRequest, MetadataResponse};
use riprap_protocol::{ErrorCode, Request};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a broker gets to answer the question whether it serves.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether a node that listens on that port serves: it knows of all nodes, and of a leader of every partition. Errors: what it
/// still waits for.
pub(crate) fn serves(deployment: &Deployment, node: NodeId, port: u16) -> Result<(), String> {
    knows(deployment, node, port, deployment.brokers().len())
}

/// Whether a node that listens on that port knows of so many brokers, and of a leader of every partition. Errors: what it
/// still waits for.
pub(crate) fn knows(deployment: &Deployment, node: NodeId, port: u16, brokers: usize) -> Result<(), String> {
    let address = SocketAddr::new(deployment.place(node).address, port);
    let asked = ask(address, METADATA_VERSION, &metadata_request(), PROBE_TIMEOUT);
    let metadata = asked.map_err(|e| format!("{node} does not answer: {e}"))?;
    settled(node, brokers, &metadata)
}

/// Whether a node that listens on that port answers at all: it tells which requests it takes. Errors: what it still waits for.
pub(crate) fn answers(deployment: &Deployment, node: NodeId, port: u16) -> Result<(), String> {
    let address = SocketAddr::new(deployment.place(node).address, port);
    let asked = ask(address, 0, &ApiVersionsRequest::default(), PROBE_TIMEOUT);
    asked.map(drop).map_err(|e| format!("{node} does not answer: {e}"))
}

/// The version of Metadata that brokers are asked in whether they serve.
pub(crate) const METADATA_VERSION: i16 = 9;

/// A question for all that a broker knows.
pub(crate) fn metadata_request() -> MetadataRequest {
    MetadataRequest { topics: None, allow_auto_topic_creation: false, ..Default::default() }
}

/// A request as a frame, the only one of its connection.
pub(crate) fn request_frame<R: Request>(api_version: i16, request: &R) -> Bytes {
    let client_id = Some("riprap".to_owned());
    let header = RequestHeader { api_key: R::KEY, api_version, correlation_id: 1, client_id };
    frame::encode_request(&header, request).expect("a small request")
}

/// Whether all is settled in what a node knows: all brokers, and a leader of every partition.
pub(crate) fn settled(node: NodeId, nodes: usize, metadata: &MetadataResponse) -> Result<(), String> {
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

/// Asks a node something on a connection of its own; each step of that may take so long. Errors: in words.
pub(crate) fn ask<R: Request>(
    address: SocketAddr,
    version: i16,
    request: &R,
    timeout: Duration,
) -> Result<R::Response, String> {
    let in_words = |e: std::io::Error| e.to_string();
    let mut stream = TcpStream::connect_timeout(&address, timeout).map_err(in_words)?;
    stream.set_read_timeout(Some(timeout)).map_err(in_words)?;
    stream.set_write_timeout(Some(timeout)).map_err(in_words)?;
    stream.write_all(&request_frame(version, request)).map_err(in_words)?;
    let mut reader = FrameReader::new(frame::MAX_RESPONSE_SIZE_BYTES);
    let mut buffer = [0; 16 << 10];
    loop {
        if let Some(frame) = reader.next_frame().map_err(|e| e.to_string())? {
            let response = frame::decode_response::<R>(frame, version);
            return response.map(|(_, response)| response).map_err(|e| e.to_string());
        }
        match stream.read(&mut buffer).map_err(in_words)? {
            0 => return Err("connection closed".to_owned()),
            n => reader.push(&buffer[..n]),
        }
    }
}
