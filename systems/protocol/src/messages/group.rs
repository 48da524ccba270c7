//! Generated from `schema/group.schema` by `tests/generate.rs`: do not edit.

use std::ops::RangeInclusive;

use bytes::Bytes;

use super::ApiKey;
use crate::wire::{DecodeError, EncodeError, Reader, Wire, Writer};
use crate::{ErrorCode, Message, Request, Uuid};

/// Versions 0 to 6.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindCoordinatorRequest {
    pub key: String,
    pub key_type: i8,
    pub coordinator_keys: Vec<String>,
}

impl Wire for FindCoordinatorRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_or_default(..=3, &self.key, self.key.is_empty(), "key")?;
        w.put_or_default(1.., &self.key_type, self.key_type == 0, "key_type")?;
        w.put_or_default(4.., &self.coordinator_keys, self.coordinator_keys.is_empty(), "coordinator_keys")?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(..=3, &mut it.key)?;
        r.get_in(1.., &mut it.key_type)?;
        r.get_in(4.., &mut it.coordinator_keys)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for FindCoordinatorRequest {
    const NAME: &'static str = "FindCoordinatorRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=6;
    const FLEXIBLE_SINCE: i16 = 3;
}

impl Request for FindCoordinatorRequest {
    const KEY: ApiKey = ApiKey::FindCoordinator;
    type Response = FindCoordinatorResponse;
}

/// Versions 0 to 6.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindCoordinatorResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
    pub node_id: i32,
    pub host: String,
    pub port: i32,
    pub coordinators: Vec<FindCoordinatorResponseCoordinator>,
}

impl Wire for FindCoordinatorResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(1.., &self.throttle_time_ms)?;
        w.put_or_default(..=3, &self.error_code, self.error_code == ErrorCode::NONE, "error_code")?;
        w.put_in(1..=3, &self.error_message)?;
        w.put_or_default(..=3, &self.node_id, self.node_id == 0, "node_id")?;
        w.put_or_default(..=3, &self.host, self.host.is_empty(), "host")?;
        w.put_or_default(..=3, &self.port, self.port == 0, "port")?;
        w.put_or_default(4.., &self.coordinators, self.coordinators.is_empty(), "coordinators")?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(1.., &mut it.throttle_time_ms)?;
        r.get_in(..=3, &mut it.error_code)?;
        r.get_in(1..=3, &mut it.error_message)?;
        r.get_in(..=3, &mut it.node_id)?;
        r.get_in(..=3, &mut it.host)?;
        r.get_in(..=3, &mut it.port)?;
        r.get_in(4.., &mut it.coordinators)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for FindCoordinatorResponse {
    const NAME: &'static str = "FindCoordinatorResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=6;
    const FLEXIBLE_SINCE: i16 = 3;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindCoordinatorResponseCoordinator {
    pub key: String,
    pub node_id: i32,
    pub host: String,
    pub port: i32,
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
}

impl Wire for FindCoordinatorResponseCoordinator {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.key)?;
        w.put(&self.node_id)?;
        w.put(&self.host)?;
        w.put(&self.port)?;
        w.put(&self.error_code)?;
        w.put(&self.error_message)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.key)?;
        r.get(&mut it.node_id)?;
        r.get(&mut it.host)?;
        r.get(&mut it.port)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.error_message)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 9.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinGroupRequest {
    pub group_id: String,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub protocol_type: String,
    pub protocols: Vec<JoinGroupRequestProtocol>,
    pub reason: Option<String>,
}

impl Default for JoinGroupRequest {
    fn default() -> Self {
        Self {
            group_id: String::new(),
            session_timeout_ms: 0,
            rebalance_timeout_ms: -1,
            member_id: String::new(),
            group_instance_id: None,
            protocol_type: String::new(),
            protocols: Vec::new(),
            reason: None,
        }
    }
}

impl Wire for JoinGroupRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.group_id)?;
        w.put(&self.session_timeout_ms)?;
        w.put_in(1.., &self.rebalance_timeout_ms)?;
        w.put(&self.member_id)?;
        w.put_or_default(
            5..,
            &self.group_instance_id,
            self.group_instance_id.is_none(),
            "group_instance_id",
        )?;
        w.put(&self.protocol_type)?;
        w.put(&self.protocols)?;
        w.put_in(8.., &self.reason)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.group_id)?;
        r.get(&mut it.session_timeout_ms)?;
        r.get_in(1.., &mut it.rebalance_timeout_ms)?;
        r.get(&mut it.member_id)?;
        r.get_in(5.., &mut it.group_instance_id)?;
        r.get(&mut it.protocol_type)?;
        r.get(&mut it.protocols)?;
        r.get_in(8.., &mut it.reason)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for JoinGroupRequest {
    const NAME: &'static str = "JoinGroupRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=9;
    const FLEXIBLE_SINCE: i16 = 6;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct JoinGroupRequestProtocol {
    pub name: String,
    pub metadata: Bytes,
}

impl Wire for JoinGroupRequestProtocol {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.metadata)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.metadata)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for JoinGroupRequest {
    const KEY: ApiKey = ApiKey::JoinGroup;
    type Response = JoinGroupResponse;
}

/// Versions 0 to 9.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinGroupResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub generation_id: i32,
    pub protocol_type: Option<String>,
    pub protocol_name: Option<String>,
    pub leader: String,
    pub skip_assignment: bool,
    pub member_id: String,
    pub members: Vec<JoinGroupResponseMember>,
}

impl Default for JoinGroupResponse {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            error_code: ErrorCode::NONE,
            generation_id: -1,
            protocol_type: None,
            protocol_name: Some(String::new()),
            leader: String::new(),
            skip_assignment: false,
            member_id: String::new(),
            members: Vec::new(),
        }
    }
}

impl Wire for JoinGroupResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(2.., &self.throttle_time_ms)?;
        w.put(&self.error_code)?;
        w.put(&self.generation_id)?;
        w.put_in(7.., &self.protocol_type)?;
        w.non_null(..7, &self.protocol_name, "protocol_name")?;
        w.put(&self.protocol_name)?;
        w.put(&self.leader)?;
        w.put_or_default(9.., &self.skip_assignment, !self.skip_assignment, "skip_assignment")?;
        w.put(&self.member_id)?;
        w.put(&self.members)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(2.., &mut it.throttle_time_ms)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.generation_id)?;
        r.get_in(7.., &mut it.protocol_type)?;
        r.get(&mut it.protocol_name)?;
        r.non_null(..7, &it.protocol_name)?;
        r.get(&mut it.leader)?;
        r.get_in(9.., &mut it.skip_assignment)?;
        r.get(&mut it.member_id)?;
        r.get(&mut it.members)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for JoinGroupResponse {
    const NAME: &'static str = "JoinGroupResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=9;
    const FLEXIBLE_SINCE: i16 = 6;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct JoinGroupResponseMember {
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub metadata: Bytes,
}

impl Wire for JoinGroupResponseMember {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.member_id)?;
        w.put_in(5.., &self.group_instance_id)?;
        w.put(&self.metadata)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.member_id)?;
        r.get_in(5.., &mut it.group_instance_id)?;
        r.get(&mut it.metadata)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncGroupRequest {
    pub group_id: String,
    pub generation_id: i32,
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub protocol_type: Option<String>,
    pub protocol_name: Option<String>,
    pub assignments: Vec<SyncGroupRequestAssignment>,
}

impl Wire for SyncGroupRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.group_id)?;
        w.put(&self.generation_id)?;
        w.put(&self.member_id)?;
        w.put_or_default(
            3..,
            &self.group_instance_id,
            self.group_instance_id.is_none(),
            "group_instance_id",
        )?;
        w.put_in(5.., &self.protocol_type)?;
        w.put_in(5.., &self.protocol_name)?;
        w.put(&self.assignments)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.group_id)?;
        r.get(&mut it.generation_id)?;
        r.get(&mut it.member_id)?;
        r.get_in(3.., &mut it.group_instance_id)?;
        r.get_in(5.., &mut it.protocol_type)?;
        r.get_in(5.., &mut it.protocol_name)?;
        r.get(&mut it.assignments)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for SyncGroupRequest {
    const NAME: &'static str = "SyncGroupRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE_SINCE: i16 = 4;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncGroupRequestAssignment {
    pub member_id: String,
    pub assignment: Bytes,
}

impl Wire for SyncGroupRequestAssignment {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.member_id)?;
        w.put(&self.assignment)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.member_id)?;
        r.get(&mut it.assignment)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for SyncGroupRequest {
    const KEY: ApiKey = ApiKey::SyncGroup;
    type Response = SyncGroupResponse;
}

/// Versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncGroupResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub protocol_type: Option<String>,
    pub protocol_name: Option<String>,
    pub assignment: Bytes,
}

impl Wire for SyncGroupResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(1.., &self.throttle_time_ms)?;
        w.put(&self.error_code)?;
        w.put_in(5.., &self.protocol_type)?;
        w.put_in(5.., &self.protocol_name)?;
        w.put(&self.assignment)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(1.., &mut it.throttle_time_ms)?;
        r.get(&mut it.error_code)?;
        r.get_in(5.., &mut it.protocol_type)?;
        r.get_in(5.., &mut it.protocol_name)?;
        r.get(&mut it.assignment)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for SyncGroupResponse {
    const NAME: &'static str = "SyncGroupResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE_SINCE: i16 = 4;
}

/// Versions 0 to 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeartbeatRequest {
    pub group_id: String,
    pub generation_id: i32,
    pub member_id: String,
    pub group_instance_id: Option<String>,
}

impl Wire for HeartbeatRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.group_id)?;
        w.put(&self.generation_id)?;
        w.put(&self.member_id)?;
        w.put_or_default(
            3..,
            &self.group_instance_id,
            self.group_instance_id.is_none(),
            "group_instance_id",
        )?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.group_id)?;
        r.get(&mut it.generation_id)?;
        r.get(&mut it.member_id)?;
        r.get_in(3.., &mut it.group_instance_id)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for HeartbeatRequest {
    const NAME: &'static str = "HeartbeatRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=4;
    const FLEXIBLE_SINCE: i16 = 4;
}

impl Request for HeartbeatRequest {
    const KEY: ApiKey = ApiKey::Heartbeat;
    type Response = HeartbeatResponse;
}

/// Versions 0 to 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeartbeatResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
}

impl Wire for HeartbeatResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(1.., &self.throttle_time_ms)?;
        w.put(&self.error_code)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(1.., &mut it.throttle_time_ms)?;
        r.get(&mut it.error_code)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for HeartbeatResponse {
    const NAME: &'static str = "HeartbeatResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=4;
    const FLEXIBLE_SINCE: i16 = 4;
}

/// Versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaveGroupRequest {
    pub group_id: String,
    pub member_id: String,
    pub members: Vec<LeaveGroupRequestMember>,
}

impl Wire for LeaveGroupRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.group_id)?;
        w.put_or_default(..=2, &self.member_id, self.member_id.is_empty(), "member_id")?;
        w.put_or_default(3.., &self.members, self.members.is_empty(), "members")?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.group_id)?;
        r.get_in(..=2, &mut it.member_id)?;
        r.get_in(3.., &mut it.members)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for LeaveGroupRequest {
    const NAME: &'static str = "LeaveGroupRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE_SINCE: i16 = 4;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaveGroupRequestMember {
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub reason: Option<String>,
}

impl Wire for LeaveGroupRequestMember {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.member_id)?;
        w.put(&self.group_instance_id)?;
        w.put_in(5.., &self.reason)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.member_id)?;
        r.get(&mut it.group_instance_id)?;
        r.get_in(5.., &mut it.reason)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for LeaveGroupRequest {
    const KEY: ApiKey = ApiKey::LeaveGroup;
    type Response = LeaveGroupResponse;
}

/// Versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaveGroupResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub members: Vec<LeaveGroupResponseMember>,
}

impl Wire for LeaveGroupResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(1.., &self.throttle_time_ms)?;
        w.put(&self.error_code)?;
        w.put_or_default(3.., &self.members, self.members.is_empty(), "members")?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(1.., &mut it.throttle_time_ms)?;
        r.get(&mut it.error_code)?;
        r.get_in(3.., &mut it.members)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for LeaveGroupResponse {
    const NAME: &'static str = "LeaveGroupResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE_SINCE: i16 = 4;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaveGroupResponseMember {
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub error_code: ErrorCode,
}

impl Wire for LeaveGroupResponseMember {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.member_id)?;
        w.put(&self.group_instance_id)?;
        w.put(&self.error_code)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.member_id)?;
        r.get(&mut it.group_instance_id)?;
        r.get(&mut it.error_code)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 2 to 9.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetCommitRequest {
    pub group_id: String,
    pub generation_id_or_member_epoch: i32,
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub retention_time_ms: i64,
    pub topics: Vec<OffsetCommitRequestTopic>,
}

impl Default for OffsetCommitRequest {
    fn default() -> Self {
        Self {
            group_id: String::new(),
            generation_id_or_member_epoch: -1,
            member_id: String::new(),
            group_instance_id: None,
            retention_time_ms: -1,
            topics: Vec::new(),
        }
    }
}

impl Wire for OffsetCommitRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.group_id)?;
        w.put(&self.generation_id_or_member_epoch)?;
        w.put(&self.member_id)?;
        w.put_or_default(
            7..,
            &self.group_instance_id,
            self.group_instance_id.is_none(),
            "group_instance_id",
        )?;
        w.put_in(..=4, &self.retention_time_ms)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.group_id)?;
        r.get(&mut it.generation_id_or_member_epoch)?;
        r.get(&mut it.member_id)?;
        r.get_in(7.., &mut it.group_instance_id)?;
        r.get_in(..=4, &mut it.retention_time_ms)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for OffsetCommitRequest {
    const NAME: &'static str = "OffsetCommitRequest";
    const VERSIONS: RangeInclusive<i16> = 2..=9;
    const FLEXIBLE_SINCE: i16 = 8;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetCommitRequestTopic {
    pub name: String,
    pub partitions: Vec<OffsetCommitRequestPartition>,
}

impl Wire for OffsetCommitRequestTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.partitions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.partitions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct OffsetCommitRequestPartition {
    pub index: i32,
    pub committed_offset: i64,
    pub committed_leader_epoch: i32,
    pub committed_metadata: Option<String>,
}

impl Default for OffsetCommitRequestPartition {
    fn default() -> Self {
        Self { index: 0, committed_offset: 0, committed_leader_epoch: -1, committed_metadata: None }
    }
}

impl Wire for OffsetCommitRequestPartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.committed_offset)?;
        w.put_in(6.., &self.committed_leader_epoch)?;
        w.put(&self.committed_metadata)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.committed_offset)?;
        r.get_in(6.., &mut it.committed_leader_epoch)?;
        r.get(&mut it.committed_metadata)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for OffsetCommitRequest {
    const KEY: ApiKey = ApiKey::OffsetCommit;
    type Response = OffsetCommitResponse;
}

/// Versions 2 to 9.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetCommitResponse {
    pub throttle_time_ms: i32,
    pub topics: Vec<OffsetCommitResponseTopic>,
}

impl Wire for OffsetCommitResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(3.., &self.throttle_time_ms)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(3.., &mut it.throttle_time_ms)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for OffsetCommitResponse {
    const NAME: &'static str = "OffsetCommitResponse";
    const VERSIONS: RangeInclusive<i16> = 2..=9;
    const FLEXIBLE_SINCE: i16 = 8;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetCommitResponseTopic {
    pub name: String,
    pub partitions: Vec<OffsetCommitResponsePartition>,
}

impl Wire for OffsetCommitResponseTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.partitions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.partitions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetCommitResponsePartition {
    pub index: i32,
    pub error_code: ErrorCode,
}

impl Wire for OffsetCommitResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.error_code)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.error_code)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 1 to 9.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetFetchRequest {
    pub group_id: String,
    pub topics: Option<Vec<OffsetFetchRequestTopic>>,
    pub groups: Vec<OffsetFetchRequestGroup>,
    pub require_stable: bool,
}

impl Default for OffsetFetchRequest {
    fn default() -> Self {
        Self { group_id: String::new(), topics: Some(Vec::new()), groups: Vec::new(), require_stable: false }
    }
}

impl Wire for OffsetFetchRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_or_default(..=7, &self.group_id, self.group_id.is_empty(), "group_id")?;
        w.non_null(..2, &self.topics, "topics")?;
        w.put_or_default(..=7, &self.topics, self.topics.as_ref().is_some_and(Vec::is_empty), "topics")?;
        w.put_or_default(8.., &self.groups, self.groups.is_empty(), "groups")?;
        w.put_or_default(7.., &self.require_stable, !self.require_stable, "require_stable")?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(..=7, &mut it.group_id)?;
        r.get_in(..=7, &mut it.topics)?;
        r.non_null(..2, &it.topics)?;
        r.get_in(8.., &mut it.groups)?;
        r.get_in(7.., &mut it.require_stable)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for OffsetFetchRequest {
    const NAME: &'static str = "OffsetFetchRequest";
    const VERSIONS: RangeInclusive<i16> = 1..=9;
    const FLEXIBLE_SINCE: i16 = 6;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchRequestTopic {
    pub name: String,
    pub partitions: Vec<i32>,
}

impl Wire for OffsetFetchRequestTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.partitions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.partitions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct OffsetFetchRequestGroup {
    pub group_id: String,
    pub member_id: Option<String>,
    pub member_epoch: i32,
    pub topics: Option<Vec<OffsetFetchRequestTopic>>,
}

impl Default for OffsetFetchRequestGroup {
    fn default() -> Self {
        Self { group_id: String::new(), member_id: None, member_epoch: -1, topics: None }
    }
}

impl Wire for OffsetFetchRequestGroup {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.group_id)?;
        w.put_in(9.., &self.member_id)?;
        w.put_in(9.., &self.member_epoch)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.group_id)?;
        r.get_in(9.., &mut it.member_id)?;
        r.get_in(9.., &mut it.member_epoch)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for OffsetFetchRequest {
    const KEY: ApiKey = ApiKey::OffsetFetch;
    type Response = OffsetFetchResponse;
}

/// Versions 1 to 9.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchResponse {
    pub throttle_time_ms: i32,
    pub topics: Vec<OffsetFetchResponseTopic>,
    pub error_code: ErrorCode,
    pub groups: Vec<OffsetFetchResponseGroup>,
}

impl Wire for OffsetFetchResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(3.., &self.throttle_time_ms)?;
        w.put_or_default(..=7, &self.topics, self.topics.is_empty(), "topics")?;
        w.put_in(2..=7, &self.error_code)?;
        w.put_or_default(8.., &self.groups, self.groups.is_empty(), "groups")?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(3.., &mut it.throttle_time_ms)?;
        r.get_in(..=7, &mut it.topics)?;
        r.get_in(2..=7, &mut it.error_code)?;
        r.get_in(8.., &mut it.groups)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for OffsetFetchResponse {
    const NAME: &'static str = "OffsetFetchResponse";
    const VERSIONS: RangeInclusive<i16> = 1..=9;
    const FLEXIBLE_SINCE: i16 = 6;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchResponseTopic {
    pub name: String,
    pub partitions: Vec<OffsetFetchResponsePartition>,
}

impl Wire for OffsetFetchResponseTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.partitions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.partitions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct OffsetFetchResponsePartition {
    pub index: i32,
    pub committed_offset: i64,
    pub committed_leader_epoch: i32,
    pub metadata: Option<String>,
    pub error_code: ErrorCode,
}

impl Default for OffsetFetchResponsePartition {
    fn default() -> Self {
        Self {
            index: 0,
            committed_offset: 0,
            committed_leader_epoch: -1,
            metadata: None,
            error_code: ErrorCode::NONE,
        }
    }
}

impl Wire for OffsetFetchResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.committed_offset)?;
        w.put_in(5.., &self.committed_leader_epoch)?;
        w.put(&self.metadata)?;
        w.put(&self.error_code)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.committed_offset)?;
        r.get_in(5.., &mut it.committed_leader_epoch)?;
        r.get(&mut it.metadata)?;
        r.get(&mut it.error_code)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchResponseGroup {
    pub group_id: String,
    pub topics: Vec<OffsetFetchResponseTopic>,
    pub error_code: ErrorCode,
}

impl Wire for OffsetFetchResponseGroup {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.group_id)?;
        w.put(&self.topics)?;
        w.put(&self.error_code)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.group_id)?;
        r.get(&mut it.topics)?;
        r.get(&mut it.error_code)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 6.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeGroupsRequest {
    pub groups: Vec<String>,
    pub include_authorized_operations: bool,
}

impl Wire for DescribeGroupsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.groups)?;
        w.put_or_default(
            3..,
            &self.include_authorized_operations,
            !self.include_authorized_operations,
            "include_authorized_operations",
        )?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.groups)?;
        r.get_in(3.., &mut it.include_authorized_operations)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DescribeGroupsRequest {
    const NAME: &'static str = "DescribeGroupsRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=6;
    const FLEXIBLE_SINCE: i16 = 5;
}

impl Request for DescribeGroupsRequest {
    const KEY: ApiKey = ApiKey::DescribeGroups;
    type Response = DescribeGroupsResponse;
}

/// Versions 0 to 6.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeGroupsResponse {
    pub throttle_time_ms: i32,
    pub groups: Vec<DescribeGroupsResponseGroup>,
}

impl Wire for DescribeGroupsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(1.., &self.throttle_time_ms)?;
        w.put(&self.groups)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(1.., &mut it.throttle_time_ms)?;
        r.get(&mut it.groups)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DescribeGroupsResponse {
    const NAME: &'static str = "DescribeGroupsResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=6;
    const FLEXIBLE_SINCE: i16 = 5;
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeGroupsResponseGroup {
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
    pub group_id: String,
    pub group_state: String,
    pub protocol_type: String,
    pub protocol_data: String,
    pub members: Vec<DescribeGroupsResponseMember>,
    pub authorized_operations: i32,
}

impl Default for DescribeGroupsResponseGroup {
    fn default() -> Self {
        Self {
            error_code: ErrorCode::NONE,
            error_message: None,
            group_id: String::new(),
            group_state: String::new(),
            protocol_type: String::new(),
            protocol_data: String::new(),
            members: Vec::new(),
            authorized_operations: -2147483648,
        }
    }
}

impl Wire for DescribeGroupsResponseGroup {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put_in(6.., &self.error_message)?;
        w.put(&self.group_id)?;
        w.put(&self.group_state)?;
        w.put(&self.protocol_type)?;
        w.put(&self.protocol_data)?;
        w.put(&self.members)?;
        w.put_or_default(
            3..,
            &self.authorized_operations,
            self.authorized_operations == -2147483648,
            "authorized_operations",
        )?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get_in(6.., &mut it.error_message)?;
        r.get(&mut it.group_id)?;
        r.get(&mut it.group_state)?;
        r.get(&mut it.protocol_type)?;
        r.get(&mut it.protocol_data)?;
        r.get(&mut it.members)?;
        r.get_in(3.., &mut it.authorized_operations)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeGroupsResponseMember {
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub member_metadata: Bytes,
    pub member_assignment: Bytes,
}

impl Wire for DescribeGroupsResponseMember {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.member_id)?;
        w.put_in(4.., &self.group_instance_id)?;
        w.put(&self.client_id)?;
        w.put(&self.client_host)?;
        w.put(&self.member_metadata)?;
        w.put(&self.member_assignment)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.member_id)?;
        r.get_in(4.., &mut it.group_instance_id)?;
        r.get(&mut it.client_id)?;
        r.get(&mut it.client_host)?;
        r.get(&mut it.member_metadata)?;
        r.get(&mut it.member_assignment)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListGroupsRequest {
    pub states_filter: Vec<String>,
    pub types_filter: Vec<String>,
}

impl Wire for ListGroupsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_or_default(4.., &self.states_filter, self.states_filter.is_empty(), "states_filter")?;
        w.put_or_default(5.., &self.types_filter, self.types_filter.is_empty(), "types_filter")?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(4.., &mut it.states_filter)?;
        r.get_in(5.., &mut it.types_filter)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ListGroupsRequest {
    const NAME: &'static str = "ListGroupsRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE_SINCE: i16 = 3;
}

impl Request for ListGroupsRequest {
    const KEY: ApiKey = ApiKey::ListGroups;
    type Response = ListGroupsResponse;
}

/// Versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListGroupsResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub groups: Vec<ListGroupsResponseGroup>,
}

impl Wire for ListGroupsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(1.., &self.throttle_time_ms)?;
        w.put(&self.error_code)?;
        w.put(&self.groups)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(1.., &mut it.throttle_time_ms)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.groups)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ListGroupsResponse {
    const NAME: &'static str = "ListGroupsResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE_SINCE: i16 = 3;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListGroupsResponseGroup {
    pub group_id: String,
    pub protocol_type: String,
    pub group_state: String,
    pub group_type: String,
}

impl Wire for ListGroupsResponseGroup {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.group_id)?;
        w.put(&self.protocol_type)?;
        w.put_in(4.., &self.group_state)?;
        w.put_in(5.., &self.group_type)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.group_id)?;
        r.get(&mut it.protocol_type)?;
        r.get_in(4.., &mut it.group_state)?;
        r.get_in(5.., &mut it.group_type)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteGroupsRequest {
    pub group_ids: Vec<String>,
}

impl Wire for DeleteGroupsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.group_ids)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.group_ids)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DeleteGroupsRequest {
    const NAME: &'static str = "DeleteGroupsRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE_SINCE: i16 = 2;
}

impl Request for DeleteGroupsRequest {
    const KEY: ApiKey = ApiKey::DeleteGroups;
    type Response = DeleteGroupsResponse;
}

/// Versions 0 to 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteGroupsResponse {
    pub throttle_time_ms: i32,
    pub results: Vec<DeleteGroupsResponseResult>,
}

impl Wire for DeleteGroupsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.results)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.results)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DeleteGroupsResponse {
    const NAME: &'static str = "DeleteGroupsResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE_SINCE: i16 = 2;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteGroupsResponseResult {
    pub group_id: String,
    pub error_code: ErrorCode,
}

impl Wire for DeleteGroupsResponseResult {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.group_id)?;
        w.put(&self.error_code)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.group_id)?;
        r.get(&mut it.error_code)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteRequest {
    pub group_id: String,
    pub topics: Vec<OffsetDeleteRequestTopic>,
}

impl Wire for OffsetDeleteRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.group_id)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.group_id)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for OffsetDeleteRequest {
    const NAME: &'static str = "OffsetDeleteRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = i16::MAX;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteRequestTopic {
    pub name: String,
    pub partitions: Vec<OffsetDeleteRequestPartition>,
}

impl Wire for OffsetDeleteRequestTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.partitions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.partitions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteRequestPartition {
    pub index: i32,
}

impl Wire for OffsetDeleteRequestPartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for OffsetDeleteRequest {
    const KEY: ApiKey = ApiKey::OffsetDelete;
    type Response = OffsetDeleteResponse;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteResponse {
    pub error_code: ErrorCode,
    pub throttle_time_ms: i32,
    pub topics: Vec<OffsetDeleteResponseTopic>,
}

impl Wire for OffsetDeleteResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.throttle_time_ms)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for OffsetDeleteResponse {
    const NAME: &'static str = "OffsetDeleteResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = i16::MAX;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteResponseTopic {
    pub name: String,
    pub partitions: Vec<OffsetDeleteResponsePartition>,
}

impl Wire for OffsetDeleteResponseTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.partitions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.partitions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteResponsePartition {
    pub index: i32,
    pub error_code: ErrorCode,
}

impl Wire for OffsetDeleteResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.error_code)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.error_code)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerGroupHeartbeatRequest {
    pub group_id: String,
    pub member_id: String,
    pub member_epoch: i32,
    pub instance_id: Option<String>,
    pub rack_id: Option<String>,
    pub rebalance_timeout_ms: i32,
    pub subscribed_topic_names: Option<Vec<String>>,
    pub subscribed_topic_regex: Option<String>,
    pub server_assignor: Option<String>,
    pub topic_partitions: Option<Vec<ConsumerGroupHeartbeatRequestTopicPartitions>>,
}

impl Default for ConsumerGroupHeartbeatRequest {
    fn default() -> Self {
        Self {
            group_id: String::new(),
            member_id: String::new(),
            member_epoch: 0,
            instance_id: None,
            rack_id: None,
            rebalance_timeout_ms: -1,
            subscribed_topic_names: None,
            subscribed_topic_regex: None,
            server_assignor: None,
            topic_partitions: None,
        }
    }
}

impl Wire for ConsumerGroupHeartbeatRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.group_id)?;
        w.put(&self.member_id)?;
        w.put(&self.member_epoch)?;
        w.put(&self.instance_id)?;
        w.put(&self.rack_id)?;
        w.put(&self.rebalance_timeout_ms)?;
        w.put(&self.subscribed_topic_names)?;
        w.put_or_default(
            1..,
            &self.subscribed_topic_regex,
            self.subscribed_topic_regex.is_none(),
            "subscribed_topic_regex",
        )?;
        w.put(&self.server_assignor)?;
        w.put(&self.topic_partitions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.group_id)?;
        r.get(&mut it.member_id)?;
        r.get(&mut it.member_epoch)?;
        r.get(&mut it.instance_id)?;
        r.get(&mut it.rack_id)?;
        r.get(&mut it.rebalance_timeout_ms)?;
        r.get(&mut it.subscribed_topic_names)?;
        r.get_in(1.., &mut it.subscribed_topic_regex)?;
        r.get(&mut it.server_assignor)?;
        r.get(&mut it.topic_partitions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ConsumerGroupHeartbeatRequest {
    const NAME: &'static str = "ConsumerGroupHeartbeatRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=1;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupHeartbeatRequestTopicPartitions {
    pub topic_id: Uuid,
    pub partitions: Vec<i32>,
}

impl Wire for ConsumerGroupHeartbeatRequestTopicPartitions {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topic_id)?;
        w.put(&self.partitions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topic_id)?;
        r.get(&mut it.partitions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for ConsumerGroupHeartbeatRequest {
    const KEY: ApiKey = ApiKey::ConsumerGroupHeartbeat;
    type Response = ConsumerGroupHeartbeatResponse;
}

/// Versions 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupHeartbeatResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
    pub member_id: Option<String>,
    pub member_epoch: i32,
    pub heartbeat_interval_ms: i32,
    pub assignment: Option<ConsumerGroupHeartbeatResponseAssignment>,
}

impl Wire for ConsumerGroupHeartbeatResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.error_code)?;
        w.put(&self.error_message)?;
        w.put(&self.member_id)?;
        w.put(&self.member_epoch)?;
        w.put(&self.heartbeat_interval_ms)?;
        w.put_struct(&self.assignment)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.error_message)?;
        r.get(&mut it.member_id)?;
        r.get(&mut it.member_epoch)?;
        r.get(&mut it.heartbeat_interval_ms)?;
        r.get_struct(&mut it.assignment)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ConsumerGroupHeartbeatResponse {
    const NAME: &'static str = "ConsumerGroupHeartbeatResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=1;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupHeartbeatResponseAssignment {
    pub topic_partitions: Vec<ConsumerGroupHeartbeatResponseTopicPartitions>,
}

impl Wire for ConsumerGroupHeartbeatResponseAssignment {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topic_partitions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topic_partitions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupHeartbeatResponseTopicPartitions {
    pub topic_id: Uuid,
    pub partitions: Vec<i32>,
}

impl Wire for ConsumerGroupHeartbeatResponseTopicPartitions {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topic_id)?;
        w.put(&self.partitions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topic_id)?;
        r.get(&mut it.partitions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupDescribeRequest {
    pub group_ids: Vec<String>,
    pub include_authorized_operations: bool,
}

impl Wire for ConsumerGroupDescribeRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.group_ids)?;
        w.put(&self.include_authorized_operations)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.group_ids)?;
        r.get(&mut it.include_authorized_operations)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ConsumerGroupDescribeRequest {
    const NAME: &'static str = "ConsumerGroupDescribeRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=1;
    const FLEXIBLE_SINCE: i16 = 0;
}

impl Request for ConsumerGroupDescribeRequest {
    const KEY: ApiKey = ApiKey::ConsumerGroupDescribe;
    type Response = ConsumerGroupDescribeResponse;
}

/// Versions 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupDescribeResponse {
    pub throttle_time_ms: i32,
    pub groups: Vec<ConsumerGroupDescribeResponseGroup>,
}

impl Wire for ConsumerGroupDescribeResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.groups)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.groups)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ConsumerGroupDescribeResponse {
    const NAME: &'static str = "ConsumerGroupDescribeResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=1;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerGroupDescribeResponseGroup {
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
    pub group_id: String,
    pub group_state: String,
    pub group_epoch: i32,
    pub assignment_epoch: i32,
    pub assignor_name: String,
    pub members: Vec<ConsumerGroupDescribeResponseMember>,
    pub authorized_operations: i32,
}

impl Default for ConsumerGroupDescribeResponseGroup {
    fn default() -> Self {
        Self {
            error_code: ErrorCode::NONE,
            error_message: None,
            group_id: String::new(),
            group_state: String::new(),
            group_epoch: 0,
            assignment_epoch: 0,
            assignor_name: String::new(),
            members: Vec::new(),
            authorized_operations: -2147483648,
        }
    }
}

impl Wire for ConsumerGroupDescribeResponseGroup {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.error_message)?;
        w.put(&self.group_id)?;
        w.put(&self.group_state)?;
        w.put(&self.group_epoch)?;
        w.put(&self.assignment_epoch)?;
        w.put(&self.assignor_name)?;
        w.put(&self.members)?;
        w.put(&self.authorized_operations)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.error_message)?;
        r.get(&mut it.group_id)?;
        r.get(&mut it.group_state)?;
        r.get(&mut it.group_epoch)?;
        r.get(&mut it.assignment_epoch)?;
        r.get(&mut it.assignor_name)?;
        r.get(&mut it.members)?;
        r.get(&mut it.authorized_operations)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerGroupDescribeResponseMember {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub rack_id: Option<String>,
    pub member_epoch: i32,
    pub client_id: String,
    pub client_host: String,
    pub subscribed_topic_names: Vec<String>,
    pub subscribed_topic_regex: Option<String>,
    pub assignment: ConsumerGroupDescribeResponseAssignment,
    pub target_assignment: ConsumerGroupDescribeResponseAssignment,
    pub member_type: i8,
}

impl Default for ConsumerGroupDescribeResponseMember {
    fn default() -> Self {
        Self {
            member_id: String::new(),
            instance_id: None,
            rack_id: None,
            member_epoch: 0,
            client_id: String::new(),
            client_host: String::new(),
            subscribed_topic_names: Vec::new(),
            subscribed_topic_regex: None,
            assignment: Default::default(),
            target_assignment: Default::default(),
            member_type: -1,
        }
    }
}

impl Wire for ConsumerGroupDescribeResponseMember {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.member_id)?;
        w.put(&self.instance_id)?;
        w.put(&self.rack_id)?;
        w.put(&self.member_epoch)?;
        w.put(&self.client_id)?;
        w.put(&self.client_host)?;
        w.put(&self.subscribed_topic_names)?;
        w.put(&self.subscribed_topic_regex)?;
        w.put(&self.assignment)?;
        w.put(&self.target_assignment)?;
        w.put_in(1.., &self.member_type)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.member_id)?;
        r.get(&mut it.instance_id)?;
        r.get(&mut it.rack_id)?;
        r.get(&mut it.member_epoch)?;
        r.get(&mut it.client_id)?;
        r.get(&mut it.client_host)?;
        r.get(&mut it.subscribed_topic_names)?;
        r.get(&mut it.subscribed_topic_regex)?;
        r.get(&mut it.assignment)?;
        r.get(&mut it.target_assignment)?;
        r.get_in(1.., &mut it.member_type)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupDescribeResponseAssignment {
    pub topic_partitions: Vec<ConsumerGroupDescribeResponseTopicPartitions>,
}

impl Wire for ConsumerGroupDescribeResponseAssignment {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topic_partitions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topic_partitions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupDescribeResponseTopicPartitions {
    pub topic_id: Uuid,
    pub topic_name: String,
    pub partitions: Vec<i32>,
}

impl Wire for ConsumerGroupDescribeResponseTopicPartitions {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topic_id)?;
        w.put(&self.topic_name)?;
        w.put(&self.partitions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topic_id)?;
        r.get(&mut it.topic_name)?;
        r.get(&mut it.partitions)?;
        r.skip_tags()?;
        Ok(it)
    }
}
