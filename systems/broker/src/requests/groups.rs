//! Requests of consumer groups: which broker coordinates a group, and what its coordinator is asked.

use crate::connection::ReplyTo;
use crate::coordinators::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC};
use crate::group::{Caller, Coordinator, offset_fetch_error, offset_fetch_groups, offset_fetch_response};
use crate::ids::PartitionKey;
use crate::node::{Cx, Running};
use riprap_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, ConsumerGroupDescribeResponseGroup,
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, DeleteGroupsRequest, DeleteGroupsResponse,
    DeleteGroupsResponseResult, DescribeGroupsRequest, DescribeGroupsResponse, DescribeGroupsResponseGroup,
    FindCoordinatorRequest, FindCoordinatorResponse, FindCoordinatorResponseCoordinator, HeartbeatRequest,
    HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    ListGroupsRequest, ListGroupsResponse, OffsetCommitRequest, OffsetCommitRequestTopic,
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic, OffsetDeleteRequest,
    OffsetDeleteRequestPartition, OffsetDeleteResponse, OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic, OffsetFetchRequest, SyncGroupRequest, SyncGroupResponse,
    TxnOffsetCommitResponseTopic,
};
use riprap_protocol::{ApiKey, DecodeError, ErrorCode, Message, Reader};
use std::collections::VecDeque;

/// The kind of coordinator that a client looks for. Source: Kafka's `FindCoordinatorRequest.CoordinatorType`.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

/// A request that a coordinator will answer.
#[derive(Debug)]
pub(crate) enum PendingGroupRequest {
    /// The coordinator's answer is the answer.
    Simple(ReplyTo),
    /// To the coordinator's answer are added the topics that it was not asked about.
    Commit { to: ReplyTo, refused: Vec<OffsetCommitResponseTopic> },
    /// As for `Commit`.
    TxnCommit { to: ReplyTo, refused: Vec<TxnOffsetCommitResponseTopic> },
    /// The same, of a deletion of offsets.
    DeleteOffsets { to: ReplyTo, refused: Vec<OffsetDeleteResponseTopic> },
    /// Groups are deleted one after the other; the first of `groups` is in work.
    Delete { to: ReplyTo, response: DeleteGroupsResponse, groups: VecDeque<String> },
}

impl Running {
    pub(crate) fn on_group_request(
        &mut self,
        to: ReplyTo,
        client_id: String,
        reader: &mut Reader,
        cx: &mut Cx<'_>,
    ) -> Result<(), DecodeError> {
        let version = to.api_version;
        let error_code = ErrorCode::NOT_COORDINATOR;
        let now_ns = cx.now_ns;
        match to.api_key {
            ApiKey::JoinGroup => {
                let request = JoinGroupRequest::decode(reader, version)?;
                match self.coordinated(&request.group_id) {
                    None => {
                        let member_id = request.member_id;
                        let protocol_name = Some(String::new());
                        let response =
                            JoinGroupResponse { error_code, member_id, protocol_name, ..Default::default() };
                        self.reply(to, &response, cx);
                    }
                    Some(key) => {
                        let caller = Caller {
                            reply_to: self.coordinators.remember(PendingGroupRequest::Simple(to)),
                            api_version: version,
                            client_id,
                            client_host: host_of(self.connections.peer(to.conn)),
                        };
                        let env = &mut *cx.env;
                        if let Some(coordinator) = self.coordinators.get_mut(key) {
                            let mut random = || env.random_u64("member-id");
                            coordinator.join_group(now_ns, &caller, request, &mut random);
                        }
                    }
                }
            }
            ApiKey::SyncGroup => {
                let request = SyncGroupRequest::decode(reader, version)?;
                match self.coordinated(&request.group_id) {
                    None => self.reply(to, &SyncGroupResponse { error_code, ..Default::default() }, cx),
                    Some(key) => {
                        let pending = self.coordinators.remember(PendingGroupRequest::Simple(to));
                        if let Some(coordinator) = self.coordinators.get_mut(key) {
                            coordinator.sync_group(now_ns, pending, request);
                        }
                    }
                }
            }
            ApiKey::Heartbeat => {
                let request = HeartbeatRequest::decode(reader, version)?;
                let response = match self.coordinator_mut(&request.group_id) {
                    None => HeartbeatResponse { error_code, ..Default::default() },
                    Some(coordinator) => coordinator.heartbeat(now_ns, &request),
                };
                self.reply(to, &response, cx);
            }
            ApiKey::LeaveGroup => {
                let request = LeaveGroupRequest::decode(reader, version)?;
                let response = match self.coordinator_mut(&request.group_id) {
                    None => LeaveGroupResponse { error_code, ..Default::default() },
                    Some(coordinator) => coordinator.leave_group(now_ns, version, request),
                };
                self.reply(to, &response, cx);
            }
            ApiKey::ConsumerGroupHeartbeat => {
                let request = ConsumerGroupHeartbeatRequest::decode(reader, version)?;
                match self.coordinated(&request.group_id) {
                    None => {
                        let response = ConsumerGroupHeartbeatResponse { error_code, ..Default::default() };
                        self.reply(to, &response, cx);
                    }
                    Some(key) => {
                        let caller = Caller {
                            reply_to: self.coordinators.remember(PendingGroupRequest::Simple(to)),
                            api_version: version,
                            client_id,
                            client_host: host_of(self.connections.peer(to.conn)),
                        };
                        let env = &mut *cx.env;
                        if let Some(coordinator) = self.coordinators.get_mut(key) {
                            let mut random = || env.random_u64("member-id");
                            coordinator.consumer_group_heartbeat(now_ns, &caller, request, &mut random);
                        }
                    }
                }
            }
            ApiKey::ConsumerGroupDescribe => {
                let request = ConsumerGroupDescribeRequest::decode(reader, version)?;
                let mut response = ConsumerGroupDescribeResponse::default();
                for group_id in request.group_ids {
                    response.groups.push(match self.coordinator_mut(&group_id) {
                        None => {
                            ConsumerGroupDescribeResponseGroup { group_id, error_code, ..Default::default() }
                        }
                        Some(coordinator) => coordinator.describe_consumer(&group_id),
                    });
                }
                self.reply(to, &response, cx);
            }
            ApiKey::OffsetCommit => {
                self.on_offset_commit(to, OffsetCommitRequest::decode(reader, version)?, cx)
            }
            ApiKey::OffsetFetch => self.on_offset_fetch(to, OffsetFetchRequest::decode(reader, version)?, cx),
            ApiKey::DescribeGroups => {
                let request = DescribeGroupsRequest::decode(reader, version)?;
                let mut response = DescribeGroupsResponse::default();
                for group_id in request.groups {
                    response.groups.push(match self.coordinator_mut(&group_id) {
                        None => DescribeGroupsResponseGroup { group_id, error_code, ..Default::default() },
                        Some(coordinator) => coordinator.describe(&group_id, version),
                    });
                }
                self.reply(to, &response, cx);
            }
            ApiKey::ListGroups => {
                let request = ListGroupsRequest::decode(reader, version)?;
                let mut response = ListGroupsResponse::default();
                for coordinator in self.coordinators.iter() {
                    match coordinator.list(&request) {
                        Ok(groups) => response.groups.extend(groups),
                        Err(code) => response.error_code = code,
                    }
                }
                self.reply(to, &response, cx);
            }
            ApiKey::OffsetDelete => {
                self.on_offset_delete(to, OffsetDeleteRequest::decode(reader, version)?, cx)
            }
            ApiKey::DeleteGroups => {
                let request = DeleteGroupsRequest::decode(reader, version)?;
                let groups = request.group_ids.into();
                self.go_on_deleting(to, DeleteGroupsResponse::default(), groups, None, cx);
            }
            key => self.drop_connection(to.conn, &format_args!("{key} is not served"), cx),
        }
        Ok(())
    }

    /// The partition of a group, if this broker coordinates it.
    pub(crate) fn coordinated(&mut self, group: &str) -> Option<PartitionKey> {
        let key = self.offsets_partition(group)?;
        self.coordinators.get_mut(key).map(|_| key)
    }

    fn coordinator_mut(&mut self, group: &str) -> Option<&mut Coordinator> {
        let key = self.offsets_partition(group)?;
        self.coordinators.get_mut(key)
    }

    pub(crate) fn offsets_partition(&self, group: &str) -> Option<PartitionKey> {
        self.keeper_of(OFFSETS_TOPIC, group)
    }

    /// Commits for partitions that there are; the others are refused here.
    fn on_offset_commit(&mut self, to: ReplyTo, mut request: OffsetCommitRequest, cx: &mut Cx<'_>) {
        let error_code = ErrorCode::NOT_COORDINATOR;
        let is_late = self.coordinators.committers.is_late(&request.group_id, &request.member_id, to.conn);
        let Some(key) = self.coordinated(&request.group_id).filter(|_| !is_late) else {
            let topics = request.topics.iter().map(|topic| refused_commit(topic, error_code)).collect();
            self.reply(to, &OffsetCommitResponse { topics, ..Default::default() }, cx);
            return;
        };
        let mut refused = Vec::new();
        for topic in &mut request.topics {
            let (known, unknown) = std::mem::take(&mut topic.partitions)
                .into_iter()
                .partition(|partition| self.key_of(&topic.name, partition.index).is_ok());
            topic.partitions = unknown;
            if !topic.partitions.is_empty() {
                refused.push(refused_commit(topic, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
            }
            topic.partitions = known;
        }
        request.topics.retain(|topic| !topic.partitions.is_empty());
        let pending = self.coordinators.remember(PendingGroupRequest::Commit { to, refused });
        if let Some(coordinator) = self.coordinators.get_mut(key) {
            coordinator.offset_commit(cx.now_ns, pending, to.api_version, request);
        }
    }

    /// Deletes offsets of partitions that there are; the others are refused here.
    fn on_offset_delete(&mut self, to: ReplyTo, mut request: OffsetDeleteRequest, cx: &mut Cx<'_>) {
        let Some(key) = self.coordinated(&request.group_id) else {
            let error_code = ErrorCode::NOT_COORDINATOR;
            self.reply(to, &OffsetDeleteResponse { error_code, ..Default::default() }, cx);
            return;
        };
        let mut refused = Vec::new();
        for topic in &mut request.topics {
            let (known, unknown): (Vec<_>, Vec<_>) = std::mem::take(&mut topic.partitions)
                .into_iter()
                .partition(|partition| self.key_of(&topic.name, partition.index).is_ok());
            topic.partitions = known;
            if !unknown.is_empty() {
                let error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
                let partition = |it: OffsetDeleteRequestPartition| OffsetDeleteResponsePartition {
                    index: it.index,
                    error_code,
                };
                let partitions = unknown.into_iter().map(partition).collect();
                refused.push(OffsetDeleteResponseTopic { name: topic.name.clone(), partitions });
            }
        }
        request.topics.retain(|topic| !topic.partitions.is_empty());
        let pending = self.coordinators.remember(PendingGroupRequest::DeleteOffsets { to, refused });
        if let Some(coordinator) = self.coordinators.get_mut(key) {
            coordinator.offset_delete(cx.now_ns, pending, request);
        }
    }

    /// What groups committed. A broker that lost touch with the controller may have been replaced as their coordinator,
    /// and must not tell what was committed before that.
    fn on_offset_fetch(&mut self, to: ReplyTo, request: OffsetFetchRequest, cx: &mut Cx<'_>) {
        let is_in_touch = self.membership.is_in_touch(cx.now_ns);
        let require_stable = request.require_stable;
        let mut answers = Vec::new();
        for group in offset_fetch_groups(request, to.api_version) {
            let coordinator = self.coordinator_mut(&group.group_id).filter(|_| is_in_touch);
            answers.push(match coordinator {
                None => offset_fetch_error(&group, ErrorCode::NOT_COORDINATOR),
                Some(coordinator) => coordinator.offset_fetch(&group, require_stable),
            });
        }
        self.reply(to, &offset_fetch_response(answers, to.api_version), cx);
    }

    /// Deletes group after group; `code` is what became of the first.
    pub(crate) fn go_on_deleting(
        &mut self,
        to: ReplyTo,
        mut response: DeleteGroupsResponse,
        mut groups: VecDeque<String>,
        mut code: Option<ErrorCode>,
        cx: &mut Cx<'_>,
    ) {
        while let Some(group_id) = groups.front().cloned() {
            let key = self.coordinated(&group_id);
            match (code.take(), key) {
                (Some(error_code), _) => {
                    response.results.push(DeleteGroupsResponseResult { group_id, error_code });
                    groups.pop_front();
                }
                (None, None) => code = Some(ErrorCode::NOT_COORDINATOR),
                (None, Some(key)) => {
                    let request = PendingGroupRequest::Delete { to, response, groups };
                    let pending = self.coordinators.remember(request);
                    if let Some(coordinator) = self.coordinators.get_mut(key) {
                        coordinator.delete_group(cx.now_ns, pending, &group_id);
                    }
                    return;
                }
            }
        }
        self.reply(to, &response, cx);
    }

    pub(crate) fn on_find_coordinator(
        &mut self,
        to: ReplyTo,
        request: &FindCoordinatorRequest,
        cx: &mut Cx<'_>,
    ) {
        let mut response = FindCoordinatorResponse::default();
        if to.api_version >= 4 {
            for key in &request.coordinator_keys {
                let found = self.find_coordinator(request.key_type, key, cx);
                response.coordinators.push(found);
            }
        } else {
            let found = self.find_coordinator(request.key_type, &request.key, cx);
            response.error_code = found.error_code;
            (response.node_id, response.host, response.port) = (found.node_id, found.host, found.port);
        }
        self.reply(to, &response, cx);
    }

    fn find_coordinator(
        &mut self,
        key_type: i8,
        key: &str,
        cx: &mut Cx<'_>,
    ) -> FindCoordinatorResponseCoordinator {
        let mut answer = FindCoordinatorResponseCoordinator {
            key: key.to_owned(),
            node_id: -1,
            port: -1,
            ..Default::default()
        };
        let topic = match key_type {
            GROUP => OFFSETS_TOPIC,
            // As in Kafka: no producer has this name.
            TRANSACTION if !key.is_empty() => TRANSACTIONS_TOPIC,
            _ => {
                answer.error_code = ErrorCode::INVALID_REQUEST;
                return answer;
            }
        };
        let image = self.quorum.image();
        if image.topic_id(topic).is_none() {
            self.create_internal_topic(topic, cx);
            answer.error_code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
            return answer;
        }
        let partition = self.keeper_of(topic, key);
        let leader = partition.and_then(|key| image.partition(key)?.state.leader);
        match leader.and_then(|id| Some((id, image.broker(id)?))) {
            Some((id, broker)) => {
                answer.node_id = id.0;
                answer.host = broker.host.clone();
                answer.port = broker.port.into();
            }
            None => answer.error_code = ErrorCode::COORDINATOR_NOT_AVAILABLE,
        }
        answer
    }
}

fn refused_commit(topic: &OffsetCommitRequestTopic, error_code: ErrorCode) -> OffsetCommitResponseTopic {
    let partitions =
        topic.partitions.iter().map(|p| OffsetCommitResponsePartition { index: p.index, error_code });
    OffsetCommitResponseTopic { name: topic.name.clone(), partitions: partitions.collect() }
}

/// The address without the port, as Kafka describes clients.
fn host_of(peer: &str) -> String {
    let host = peer.rsplit_once(':').map_or(peer, |(host, _)| host);
    format!("/{host}")
}
