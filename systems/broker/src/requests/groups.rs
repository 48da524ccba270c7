//! Consumer groups: which broker coordinates which.
//!
//! A group belongs to a partition of the topic that keeps committed offsets, and that partition's leader coordinates it.

use crate::config::BrokerConfig;
use crate::connection::ReplyTo;
use crate::ids::PartitionKey;
use crate::node::{Cx, Running};
use riprap_protocol::messages::{
    FindCoordinatorRequest, FindCoordinatorResponse, FindCoordinatorResponseCoordinator,
};
use riprap_protocol::{ApiKey, DecodeError, ErrorCode, Reader};

use super::metadata::OFFSETS_TOPIC;

/// The kind of coordinator that a client looks for. Source: Kafka's `FindCoordinatorRequest.CoordinatorType`.
const GROUP: i8 = 0;

/// The groups that this broker coordinates.
#[derive(Debug)]
pub(crate) struct Groups {}

impl Groups {
    pub(crate) fn new(_config: &BrokerConfig) -> Groups {
        Groups {}
    }

    pub(crate) fn has_more_to_do(&self) -> bool {
        false
    }

    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        None
    }
}

impl Running {
    pub(crate) fn settle_groups(&mut self, _cx: &mut Cx<'_>) {}

    pub(crate) fn on_group_request(
        &mut self,
        to: ReplyTo,
        key: ApiKey,
        _client_id: String,
        _reader: &mut Reader,
        cx: &mut Cx<'_>,
    ) -> Result<(), DecodeError> {
        self.drop_connection(to.conn, &format_args!("{key} is not served"), cx);
        Ok(())
    }

    pub(crate) fn on_find_coordinator(
        &mut self,
        to: ReplyTo,
        request: &FindCoordinatorRequest,
        cx: &mut Cx<'_>,
    ) {
        let find = |key: &str| {
            let mut answer = FindCoordinatorResponseCoordinator {
                key: key.to_owned(),
                node_id: -1,
                port: -1,
                ..Default::default()
            };
            match self.coordinator_of(request.key_type, key) {
                Ok((node_id, host, port)) => {
                    (answer.node_id, answer.host, answer.port) = (node_id, host, port);
                }
                Err(code) => answer.error_code = code,
            }
            answer
        };
        let mut response = FindCoordinatorResponse::default();
        if to.api_version >= 4 {
            response.coordinators = request.coordinator_keys.iter().map(|key| find(key)).collect();
        } else {
            let found = find(&request.key);
            response.error_code = found.error_code;
            (response.node_id, response.host, response.port) = (found.node_id, found.host, found.port);
        }
        self.reply(to, &response, cx);
    }

    fn coordinator_of(&self, key_type: i8, group: &str) -> Result<(i32, String, i32), ErrorCode> {
        if key_type != GROUP {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        let image = self.quorum.image();
        let not_there = ErrorCode::COORDINATOR_NOT_AVAILABLE;
        let topic = image.topic_id(OFFSETS_TOPIC).ok_or(not_there)?;
        let partitions = image.topic(topic).map_or(0, |topic| topic.partitions.len());
        let key = PartitionKey { topic, index: partition_of(group, partitions) };
        let leader = image.partition(key).and_then(|partition| partition.state.leader).ok_or(not_there)?;
        let broker = image.broker(leader).ok_or(not_there)?;
        Ok((leader.0, broker.host.clone(), broker.port.into()))
    }
}

/// The partition that keeps a group's offsets: as in Kafka, Java's hash of its name.
fn partition_of(group: &str, partitions: usize) -> i32 {
    let hash = group.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    (hash & i32::MAX) % (partitions.max(1) as i32)
}
