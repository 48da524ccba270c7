//! Generated from `schema/log.schema` by `tests/generate.rs`: do not edit.

use std::ops::RangeInclusive;

use bytes::Bytes;

use super::ApiKey;
use crate::wire::{DecodeError, EncodeError, Reader, Wire, Writer};
use crate::{ErrorCode, Message, Request, Uuid};

/// Versions 3 to 12.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceRequest {
    pub transactional_id: Option<String>,
    pub acks: i16,
    pub timeout_ms: i32,
    pub topics: Vec<ProduceRequestTopic>,
}

impl Wire for ProduceRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.transactional_id)?;
        w.put(&self.acks)?;
        w.put(&self.timeout_ms)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.transactional_id)?;
        r.get(&mut it.acks)?;
        r.get(&mut it.timeout_ms)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ProduceRequest {
    const NAME: &'static str = "ProduceRequest";
    const VERSIONS: RangeInclusive<i16> = 3..=12;
    const FLEXIBLE_SINCE: i16 = 9;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceRequestTopic {
    pub name: String,
    pub partitions: Vec<ProduceRequestPartition>,
}

impl Wire for ProduceRequestTopic {
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
pub struct ProduceRequestPartition {
    pub index: i32,
    pub records: Option<Bytes>,
}

impl Wire for ProduceRequestPartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.records)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.records)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for ProduceRequest {
    const KEY: ApiKey = ApiKey::Produce;
    type Response = ProduceResponse;
}

/// Versions 3 to 12.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceResponse {
    pub topics: Vec<ProduceResponseTopic>,
    pub throttle_time_ms: i32,
    pub node_endpoints: Vec<ProduceResponseNodeEndpoint>,
}

impl Wire for ProduceResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topics)?;
        w.put(&self.throttle_time_ms)?;
        let mut tags = w.tags();
        tags.put(0, 10.., &self.node_endpoints, self.node_endpoints.is_empty(), "node_endpoints")?;
        w.finish_tags(tags)
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topics)?;
        r.get(&mut it.throttle_time_ms)?;
        r.tags(|r, tag| match tag {
            0 => r.get_in(10.., &mut it.node_endpoints),
            _ => Ok(false),
        })?;
        Ok(it)
    }
}

impl Message for ProduceResponse {
    const NAME: &'static str = "ProduceResponse";
    const VERSIONS: RangeInclusive<i16> = 3..=12;
    const FLEXIBLE_SINCE: i16 = 9;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceResponseTopic {
    pub name: String,
    pub partitions: Vec<ProduceResponsePartition>,
}

impl Wire for ProduceResponseTopic {
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
pub struct ProduceResponsePartition {
    pub index: i32,
    pub error_code: ErrorCode,
    pub base_offset: i64,
    pub log_append_time_ms: i64,
    pub log_start_offset: i64,
    pub record_errors: Vec<ProduceResponseRecordError>,
    pub error_message: Option<String>,
    pub current_leader: ProduceResponseCurrentLeader,
}

impl Default for ProduceResponsePartition {
    fn default() -> Self {
        Self {
            index: 0,
            error_code: ErrorCode::NONE,
            base_offset: 0,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: Vec::new(),
            error_message: None,
            current_leader: Default::default(),
        }
    }
}

impl Wire for ProduceResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.error_code)?;
        w.put(&self.base_offset)?;
        w.put(&self.log_append_time_ms)?;
        w.put_in(5.., &self.log_start_offset)?;
        w.put_in(8.., &self.record_errors)?;
        w.put_in(8.., &self.error_message)?;
        let mut tags = w.tags();
        tags.put(0, 10.., &self.current_leader, self.current_leader == Default::default(), "current_leader")?;
        w.finish_tags(tags)
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.base_offset)?;
        r.get(&mut it.log_append_time_ms)?;
        r.get_in(5.., &mut it.log_start_offset)?;
        r.get_in(8.., &mut it.record_errors)?;
        r.get_in(8.., &mut it.error_message)?;
        r.tags(|r, tag| match tag {
            0 => r.get_in(10.., &mut it.current_leader),
            _ => Ok(false),
        })?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceResponseRecordError {
    pub batch_index: i32,
    pub batch_index_error_message: Option<String>,
}

impl Wire for ProduceResponseRecordError {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.batch_index)?;
        w.put(&self.batch_index_error_message)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.batch_index)?;
        r.get(&mut it.batch_index_error_message)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProduceResponseCurrentLeader {
    pub leader_id: i32,
    pub leader_epoch: i32,
}

impl Default for ProduceResponseCurrentLeader {
    fn default() -> Self {
        Self { leader_id: -1, leader_epoch: -1 }
    }
}

impl Wire for ProduceResponseCurrentLeader {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.leader_id)?;
        w.put(&self.leader_epoch)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.leader_id)?;
        r.get(&mut it.leader_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceResponseNodeEndpoint {
    pub node_id: i32,
    pub host: String,
    pub port: i32,
    pub rack: Option<String>,
}

impl Wire for ProduceResponseNodeEndpoint {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.node_id)?;
        w.put(&self.host)?;
        w.put(&self.port)?;
        w.put(&self.rack)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.node_id)?;
        r.get(&mut it.host)?;
        r.get(&mut it.port)?;
        r.get(&mut it.rack)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 4 to 17.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchRequest {
    pub cluster_id: Option<String>,
    pub replica_id: i32,
    pub replica_state: FetchRequestReplicaState,
    pub max_wait_ms: i32,
    pub min_bytes: i32,
    pub max_bytes: i32,
    pub isolation_level: i8,
    pub session_id: i32,
    pub session_epoch: i32,
    pub topics: Vec<FetchRequestTopic>,
    pub forgotten_topics: Vec<FetchRequestForgottenTopic>,
    pub rack_id: String,
}

impl Default for FetchRequest {
    fn default() -> Self {
        Self {
            cluster_id: None,
            replica_id: -1,
            replica_state: Default::default(),
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: 2147483647,
            isolation_level: 0,
            session_id: 0,
            session_epoch: -1,
            topics: Vec::new(),
            forgotten_topics: Vec::new(),
            rack_id: String::new(),
        }
    }
}

impl Wire for FetchRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_or_default(..=14, &self.replica_id, self.replica_id == -1, "replica_id")?;
        w.put(&self.max_wait_ms)?;
        w.put(&self.min_bytes)?;
        w.put(&self.max_bytes)?;
        w.put(&self.isolation_level)?;
        w.put_in(7.., &self.session_id)?;
        w.put_in(7.., &self.session_epoch)?;
        w.put(&self.topics)?;
        w.put_or_default(7.., &self.forgotten_topics, self.forgotten_topics.is_empty(), "forgotten_topics")?;
        w.put_in(11.., &self.rack_id)?;
        let mut tags = w.tags();
        tags.put_in(0, 12.., &self.cluster_id, self.cluster_id.is_none())?;
        tags.put(1, 15.., &self.replica_state, self.replica_state == Default::default(), "replica_state")?;
        w.finish_tags(tags)
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(..=14, &mut it.replica_id)?;
        r.get(&mut it.max_wait_ms)?;
        r.get(&mut it.min_bytes)?;
        r.get(&mut it.max_bytes)?;
        r.get(&mut it.isolation_level)?;
        r.get_in(7.., &mut it.session_id)?;
        r.get_in(7.., &mut it.session_epoch)?;
        r.get(&mut it.topics)?;
        r.get_in(7.., &mut it.forgotten_topics)?;
        r.get_in(11.., &mut it.rack_id)?;
        r.tags(|r, tag| match tag {
            0 => r.get_in(12.., &mut it.cluster_id),
            1 => r.get_in(15.., &mut it.replica_state),
            _ => Ok(false),
        })?;
        Ok(it)
    }
}

impl Message for FetchRequest {
    const NAME: &'static str = "FetchRequest";
    const VERSIONS: RangeInclusive<i16> = 4..=17;
    const FLEXIBLE_SINCE: i16 = 12;
}

#[derive(Clone, Debug, PartialEq)]
pub struct FetchRequestReplicaState {
    pub replica_id: i32,
    pub replica_epoch: i64,
}

impl Default for FetchRequestReplicaState {
    fn default() -> Self {
        Self { replica_id: -1, replica_epoch: -1 }
    }
}

impl Wire for FetchRequestReplicaState {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.replica_id)?;
        w.put(&self.replica_epoch)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.replica_id)?;
        r.get(&mut it.replica_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchRequestTopic {
    pub name: String,
    pub topic_id: Uuid,
    pub partitions: Vec<FetchRequestPartition>,
}

impl Wire for FetchRequestTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(..=12, &self.name)?;
        w.put_in(13.., &self.topic_id)?;
        w.put(&self.partitions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(..=12, &mut it.name)?;
        r.get_in(13.., &mut it.topic_id)?;
        r.get(&mut it.partitions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct FetchRequestPartition {
    pub index: i32,
    pub current_leader_epoch: i32,
    pub fetch_offset: i64,
    pub last_fetched_epoch: i32,
    pub log_start_offset: i64,
    pub partition_max_bytes: i32,
    pub replica_directory_id: Uuid,
}

impl Default for FetchRequestPartition {
    fn default() -> Self {
        Self {
            index: 0,
            current_leader_epoch: -1,
            fetch_offset: 0,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            partition_max_bytes: 0,
            replica_directory_id: Uuid::ZERO,
        }
    }
}

impl Wire for FetchRequestPartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put_in(9.., &self.current_leader_epoch)?;
        w.put(&self.fetch_offset)?;
        w.put_or_default(
            12..,
            &self.last_fetched_epoch,
            self.last_fetched_epoch == -1,
            "last_fetched_epoch",
        )?;
        w.put_in(5.., &self.log_start_offset)?;
        w.put(&self.partition_max_bytes)?;
        let mut tags = w.tags();
        tags.put_in(0, 17.., &self.replica_directory_id, self.replica_directory_id == Uuid::ZERO)?;
        w.finish_tags(tags)
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get_in(9.., &mut it.current_leader_epoch)?;
        r.get(&mut it.fetch_offset)?;
        r.get_in(12.., &mut it.last_fetched_epoch)?;
        r.get_in(5.., &mut it.log_start_offset)?;
        r.get(&mut it.partition_max_bytes)?;
        r.tags(|r, tag| match tag {
            0 => r.get_in(17.., &mut it.replica_directory_id),
            _ => Ok(false),
        })?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchRequestForgottenTopic {
    pub name: String,
    pub topic_id: Uuid,
    pub partitions: Vec<i32>,
}

impl Wire for FetchRequestForgottenTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(..=12, &self.name)?;
        w.put_in(13.., &self.topic_id)?;
        w.put(&self.partitions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(..=12, &mut it.name)?;
        r.get_in(13.., &mut it.topic_id)?;
        r.get(&mut it.partitions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for FetchRequest {
    const KEY: ApiKey = ApiKey::Fetch;
    type Response = FetchResponse;
}

/// Versions 4 to 17.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub session_id: i32,
    pub topics: Vec<FetchResponseTopic>,
    pub node_endpoints: Vec<FetchResponseNodeEndpoint>,
}

impl Wire for FetchResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put_in(7.., &self.error_code)?;
        w.put_or_default(7.., &self.session_id, self.session_id == 0, "session_id")?;
        w.put(&self.topics)?;
        let mut tags = w.tags();
        tags.put(0, 16.., &self.node_endpoints, self.node_endpoints.is_empty(), "node_endpoints")?;
        w.finish_tags(tags)
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get_in(7.., &mut it.error_code)?;
        r.get_in(7.., &mut it.session_id)?;
        r.get(&mut it.topics)?;
        r.tags(|r, tag| match tag {
            0 => r.get_in(16.., &mut it.node_endpoints),
            _ => Ok(false),
        })?;
        Ok(it)
    }
}

impl Message for FetchResponse {
    const NAME: &'static str = "FetchResponse";
    const VERSIONS: RangeInclusive<i16> = 4..=17;
    const FLEXIBLE_SINCE: i16 = 12;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchResponseTopic {
    pub name: String,
    pub topic_id: Uuid,
    pub partitions: Vec<FetchResponsePartition>,
}

impl Wire for FetchResponseTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(..=12, &self.name)?;
        w.put_in(13.., &self.topic_id)?;
        w.put(&self.partitions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(..=12, &mut it.name)?;
        r.get_in(13.., &mut it.topic_id)?;
        r.get(&mut it.partitions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct FetchResponsePartition {
    pub index: i32,
    pub error_code: ErrorCode,
    pub high_watermark: i64,
    pub last_stable_offset: i64,
    pub log_start_offset: i64,
    pub diverging_epoch: FetchResponseDivergingEpoch,
    pub current_leader: FetchResponseCurrentLeader,
    pub snapshot_id: FetchResponseSnapshotId,
    pub aborted_transactions: Option<Vec<FetchResponseAbortedTransaction>>,
    pub preferred_read_replica: i32,
    pub records: Option<Bytes>,
}

impl Default for FetchResponsePartition {
    fn default() -> Self {
        Self {
            index: 0,
            error_code: ErrorCode::NONE,
            high_watermark: 0,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: Default::default(),
            current_leader: Default::default(),
            snapshot_id: Default::default(),
            aborted_transactions: None,
            preferred_read_replica: -1,
            records: None,
        }
    }
}

impl Wire for FetchResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.error_code)?;
        w.put(&self.high_watermark)?;
        w.put(&self.last_stable_offset)?;
        w.put_in(5.., &self.log_start_offset)?;
        w.put(&self.aborted_transactions)?;
        w.put_or_default(
            11..,
            &self.preferred_read_replica,
            self.preferred_read_replica == -1,
            "preferred_read_replica",
        )?;
        w.put(&self.records)?;
        let mut tags = w.tags();
        tags.put(
            0,
            12..,
            &self.diverging_epoch,
            self.diverging_epoch == Default::default(),
            "diverging_epoch",
        )?;
        tags.put(1, 12.., &self.current_leader, self.current_leader == Default::default(), "current_leader")?;
        tags.put(2, 12.., &self.snapshot_id, self.snapshot_id == Default::default(), "snapshot_id")?;
        w.finish_tags(tags)
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.high_watermark)?;
        r.get(&mut it.last_stable_offset)?;
        r.get_in(5.., &mut it.log_start_offset)?;
        r.get(&mut it.aborted_transactions)?;
        r.get_in(11.., &mut it.preferred_read_replica)?;
        r.get(&mut it.records)?;
        r.tags(|r, tag| match tag {
            0 => r.get_in(12.., &mut it.diverging_epoch),
            1 => r.get_in(12.., &mut it.current_leader),
            2 => r.get_in(12.., &mut it.snapshot_id),
            _ => Ok(false),
        })?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct FetchResponseDivergingEpoch {
    pub epoch: i32,
    pub end_offset: i64,
}

impl Default for FetchResponseDivergingEpoch {
    fn default() -> Self {
        Self { epoch: -1, end_offset: -1 }
    }
}

impl Wire for FetchResponseDivergingEpoch {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.epoch)?;
        w.put(&self.end_offset)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.epoch)?;
        r.get(&mut it.end_offset)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct FetchResponseCurrentLeader {
    pub leader_id: i32,
    pub leader_epoch: i32,
}

impl Default for FetchResponseCurrentLeader {
    fn default() -> Self {
        Self { leader_id: -1, leader_epoch: -1 }
    }
}

impl Wire for FetchResponseCurrentLeader {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.leader_id)?;
        w.put(&self.leader_epoch)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.leader_id)?;
        r.get(&mut it.leader_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct FetchResponseSnapshotId {
    pub end_offset: i64,
    pub epoch: i32,
}

impl Default for FetchResponseSnapshotId {
    fn default() -> Self {
        Self { end_offset: -1, epoch: -1 }
    }
}

impl Wire for FetchResponseSnapshotId {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.end_offset)?;
        w.put(&self.epoch)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.end_offset)?;
        r.get(&mut it.epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchResponseAbortedTransaction {
    pub producer_id: i64,
    pub first_offset: i64,
}

impl Wire for FetchResponseAbortedTransaction {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.producer_id)?;
        w.put(&self.first_offset)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.producer_id)?;
        r.get(&mut it.first_offset)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchResponseNodeEndpoint {
    pub node_id: i32,
    pub host: String,
    pub port: i32,
    pub rack: Option<String>,
}

impl Wire for FetchResponseNodeEndpoint {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.node_id)?;
        w.put(&self.host)?;
        w.put(&self.port)?;
        w.put(&self.rack)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.node_id)?;
        r.get(&mut it.host)?;
        r.get(&mut it.port)?;
        r.get(&mut it.rack)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 1 to 10.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOffsetsRequest {
    pub replica_id: i32,
    pub isolation_level: i8,
    pub topics: Vec<ListOffsetsRequestTopic>,
    pub timeout_ms: i32,
}

impl Wire for ListOffsetsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.replica_id)?;
        w.put_or_default(2.., &self.isolation_level, self.isolation_level == 0, "isolation_level")?;
        w.put(&self.topics)?;
        w.put_in(10.., &self.timeout_ms)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.replica_id)?;
        r.get_in(2.., &mut it.isolation_level)?;
        r.get(&mut it.topics)?;
        r.get_in(10.., &mut it.timeout_ms)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ListOffsetsRequest {
    const NAME: &'static str = "ListOffsetsRequest";
    const VERSIONS: RangeInclusive<i16> = 1..=10;
    const FLEXIBLE_SINCE: i16 = 6;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOffsetsRequestTopic {
    pub name: String,
    pub partitions: Vec<ListOffsetsRequestPartition>,
}

impl Wire for ListOffsetsRequestTopic {
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
pub struct ListOffsetsRequestPartition {
    pub index: i32,
    pub current_leader_epoch: i32,
    pub timestamp: i64,
}

impl Default for ListOffsetsRequestPartition {
    fn default() -> Self {
        Self { index: 0, current_leader_epoch: -1, timestamp: 0 }
    }
}

impl Wire for ListOffsetsRequestPartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put_in(4.., &self.current_leader_epoch)?;
        w.put(&self.timestamp)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get_in(4.., &mut it.current_leader_epoch)?;
        r.get(&mut it.timestamp)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for ListOffsetsRequest {
    const KEY: ApiKey = ApiKey::ListOffsets;
    type Response = ListOffsetsResponse;
}

/// Versions 1 to 10.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOffsetsResponse {
    pub throttle_time_ms: i32,
    pub topics: Vec<ListOffsetsResponseTopic>,
}

impl Wire for ListOffsetsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(2.., &self.throttle_time_ms)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(2.., &mut it.throttle_time_ms)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ListOffsetsResponse {
    const NAME: &'static str = "ListOffsetsResponse";
    const VERSIONS: RangeInclusive<i16> = 1..=10;
    const FLEXIBLE_SINCE: i16 = 6;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOffsetsResponseTopic {
    pub name: String,
    pub partitions: Vec<ListOffsetsResponsePartition>,
}

impl Wire for ListOffsetsResponseTopic {
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
pub struct ListOffsetsResponsePartition {
    pub index: i32,
    pub error_code: ErrorCode,
    pub timestamp: i64,
    pub offset: i64,
    pub leader_epoch: i32,
}

impl Default for ListOffsetsResponsePartition {
    fn default() -> Self {
        Self { index: 0, error_code: ErrorCode::NONE, timestamp: -1, offset: -1, leader_epoch: -1 }
    }
}

impl Wire for ListOffsetsResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.error_code)?;
        w.put(&self.timestamp)?;
        w.put(&self.offset)?;
        w.put_or_default(4.., &self.leader_epoch, self.leader_epoch == -1, "leader_epoch")?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.timestamp)?;
        r.get(&mut it.offset)?;
        r.get_in(4.., &mut it.leader_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 2 to 4.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetForLeaderEpochRequest {
    pub replica_id: i32,
    pub topics: Vec<OffsetForLeaderEpochRequestTopic>,
}

impl Default for OffsetForLeaderEpochRequest {
    fn default() -> Self {
        Self { replica_id: -2, topics: Vec::new() }
    }
}

impl Wire for OffsetForLeaderEpochRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(3.., &self.replica_id)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(3.., &mut it.replica_id)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for OffsetForLeaderEpochRequest {
    const NAME: &'static str = "OffsetForLeaderEpochRequest";
    const VERSIONS: RangeInclusive<i16> = 2..=4;
    const FLEXIBLE_SINCE: i16 = 4;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetForLeaderEpochRequestTopic {
    pub name: String,
    pub partitions: Vec<OffsetForLeaderEpochRequestPartition>,
}

impl Wire for OffsetForLeaderEpochRequestTopic {
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
pub struct OffsetForLeaderEpochRequestPartition {
    pub index: i32,
    pub current_leader_epoch: i32,
    pub leader_epoch: i32,
}

impl Default for OffsetForLeaderEpochRequestPartition {
    fn default() -> Self {
        Self { index: 0, current_leader_epoch: -1, leader_epoch: 0 }
    }
}

impl Wire for OffsetForLeaderEpochRequestPartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.current_leader_epoch)?;
        w.put(&self.leader_epoch)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.current_leader_epoch)?;
        r.get(&mut it.leader_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for OffsetForLeaderEpochRequest {
    const KEY: ApiKey = ApiKey::OffsetForLeaderEpoch;
    type Response = OffsetForLeaderEpochResponse;
}

/// Versions 2 to 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetForLeaderEpochResponse {
    pub throttle_time_ms: i32,
    pub topics: Vec<OffsetForLeaderEpochResponseTopic>,
}

impl Wire for OffsetForLeaderEpochResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for OffsetForLeaderEpochResponse {
    const NAME: &'static str = "OffsetForLeaderEpochResponse";
    const VERSIONS: RangeInclusive<i16> = 2..=4;
    const FLEXIBLE_SINCE: i16 = 4;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetForLeaderEpochResponseTopic {
    pub name: String,
    pub partitions: Vec<OffsetForLeaderEpochResponsePartition>,
}

impl Wire for OffsetForLeaderEpochResponseTopic {
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
pub struct OffsetForLeaderEpochResponsePartition {
    pub error_code: ErrorCode,
    pub index: i32,
    pub leader_epoch: i32,
    pub end_offset: i64,
}

impl Default for OffsetForLeaderEpochResponsePartition {
    fn default() -> Self {
        Self { error_code: ErrorCode::NONE, index: 0, leader_epoch: -1, end_offset: -1 }
    }
}

impl Wire for OffsetForLeaderEpochResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.index)?;
        w.put(&self.leader_epoch)?;
        w.put(&self.end_offset)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.index)?;
        r.get(&mut it.leader_epoch)?;
        r.get(&mut it.end_offset)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsRequest {
    pub topics: Vec<DeleteRecordsRequestTopic>,
    pub timeout_ms: i32,
}

impl Wire for DeleteRecordsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topics)?;
        w.put(&self.timeout_ms)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topics)?;
        r.get(&mut it.timeout_ms)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DeleteRecordsRequest {
    const NAME: &'static str = "DeleteRecordsRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE_SINCE: i16 = 2;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsRequestTopic {
    pub name: String,
    pub partitions: Vec<DeleteRecordsRequestPartition>,
}

impl Wire for DeleteRecordsRequestTopic {
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
pub struct DeleteRecordsRequestPartition {
    pub index: i32,
    pub offset: i64,
}

impl Wire for DeleteRecordsRequestPartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.offset)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.offset)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for DeleteRecordsRequest {
    const KEY: ApiKey = ApiKey::DeleteRecords;
    type Response = DeleteRecordsResponse;
}

/// Versions 0 to 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsResponse {
    pub throttle_time_ms: i32,
    pub topics: Vec<DeleteRecordsResponseTopic>,
}

impl Wire for DeleteRecordsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DeleteRecordsResponse {
    const NAME: &'static str = "DeleteRecordsResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE_SINCE: i16 = 2;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsResponseTopic {
    pub name: String,
    pub partitions: Vec<DeleteRecordsResponsePartition>,
}

impl Wire for DeleteRecordsResponseTopic {
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
pub struct DeleteRecordsResponsePartition {
    pub index: i32,
    pub low_watermark: i64,
    pub error_code: ErrorCode,
}

impl Wire for DeleteRecordsResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.low_watermark)?;
        w.put(&self.error_code)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.low_watermark)?;
        r.get(&mut it.error_code)?;
        r.skip_tags()?;
        Ok(it)
    }
}
