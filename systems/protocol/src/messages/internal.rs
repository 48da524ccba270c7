//! Generated from `schema/internal.schema` by `tests/generate.rs`: do not edit.

use std::ops::RangeInclusive;

use bytes::Bytes;

use super::ApiKey;
use crate::wire::{DecodeError, EncodeError, Reader, Wire, Writer};
use crate::{ErrorCode, Message, Request, Uuid};

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RaftMessageRequest {
    pub from_node_id: i32,
    pub cluster_id: String,
    pub host: String,
    pub port: i32,
    pub payload: Bytes,
}

impl Wire for RaftMessageRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.from_node_id)?;
        w.put(&self.cluster_id)?;
        w.put(&self.host)?;
        w.put(&self.port)?;
        w.put(&self.payload)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.from_node_id)?;
        r.get(&mut it.cluster_id)?;
        r.get(&mut it.host)?;
        r.get(&mut it.port)?;
        r.get(&mut it.payload)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for RaftMessageRequest {
    const NAME: &'static str = "RaftMessageRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

impl Request for RaftMessageRequest {
    const KEY: ApiKey = ApiKey::RaftMessage;
    type Response = RaftMessageResponse;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RaftMessageResponse {
    pub error_code: ErrorCode,
}

impl Wire for RaftMessageResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for RaftMessageResponse {
    const NAME: &'static str = "RaftMessageResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BrokerRegistrationRequest {
    pub broker_id: i32,
    pub cluster_id: String,
    pub incarnation_id: Uuid,
    pub host: String,
    pub port: i32,
    pub may_lack_records: bool,
    pub disk_is_new: bool,
}

impl Wire for BrokerRegistrationRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.broker_id)?;
        w.put(&self.cluster_id)?;
        w.put(&self.incarnation_id)?;
        w.put(&self.host)?;
        w.put(&self.port)?;
        w.put(&self.may_lack_records)?;
        w.put(&self.disk_is_new)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.broker_id)?;
        r.get(&mut it.cluster_id)?;
        r.get(&mut it.incarnation_id)?;
        r.get(&mut it.host)?;
        r.get(&mut it.port)?;
        r.get(&mut it.may_lack_records)?;
        r.get(&mut it.disk_is_new)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for BrokerRegistrationRequest {
    const NAME: &'static str = "BrokerRegistrationRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

impl Request for BrokerRegistrationRequest {
    const KEY: ApiKey = ApiKey::BrokerRegistration;
    type Response = BrokerRegistrationResponse;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerRegistrationResponse {
    pub error_code: ErrorCode,
    pub broker_epoch: i64,
}

impl Default for BrokerRegistrationResponse {
    fn default() -> Self {
        Self { error_code: ErrorCode::NONE, broker_epoch: -1 }
    }
}

impl Wire for BrokerRegistrationResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.broker_epoch)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.broker_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for BrokerRegistrationResponse {
    const NAME: &'static str = "BrokerRegistrationResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerHeartbeatRequest {
    pub broker_id: i32,
    pub broker_epoch: i64,
    pub metadata_offset: i64,
    pub want_shutdown: bool,
}

impl Default for BrokerHeartbeatRequest {
    fn default() -> Self {
        Self { broker_id: 0, broker_epoch: -1, metadata_offset: -1, want_shutdown: false }
    }
}

impl Wire for BrokerHeartbeatRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.broker_id)?;
        w.put(&self.broker_epoch)?;
        w.put(&self.metadata_offset)?;
        w.put(&self.want_shutdown)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.broker_id)?;
        r.get(&mut it.broker_epoch)?;
        r.get(&mut it.metadata_offset)?;
        r.get(&mut it.want_shutdown)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for BrokerHeartbeatRequest {
    const NAME: &'static str = "BrokerHeartbeatRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

impl Request for BrokerHeartbeatRequest {
    const KEY: ApiKey = ApiKey::BrokerHeartbeat;
    type Response = BrokerHeartbeatResponse;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerHeartbeatResponse {
    pub error_code: ErrorCode,
    pub is_fenced: bool,
    pub should_shutdown: bool,
}

impl Default for BrokerHeartbeatResponse {
    fn default() -> Self {
        Self { error_code: ErrorCode::NONE, is_fenced: true, should_shutdown: false }
    }
}

impl Wire for BrokerHeartbeatResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.is_fenced)?;
        w.put(&self.should_shutdown)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.is_fenced)?;
        r.get(&mut it.should_shutdown)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for BrokerHeartbeatResponse {
    const NAME: &'static str = "BrokerHeartbeatResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterPartitionRequest {
    pub broker_id: i32,
    pub broker_epoch: i64,
    pub topics: Vec<AlterPartitionRequestTopic>,
}

impl Default for AlterPartitionRequest {
    fn default() -> Self {
        Self { broker_id: 0, broker_epoch: -1, topics: Vec::new() }
    }
}

impl Wire for AlterPartitionRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.broker_id)?;
        w.put(&self.broker_epoch)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.broker_id)?;
        r.get(&mut it.broker_epoch)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for AlterPartitionRequest {
    const NAME: &'static str = "AlterPartitionRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterPartitionRequestTopic {
    pub topic_id: Uuid,
    pub partitions: Vec<AlterPartitionRequestPartition>,
}

impl Wire for AlterPartitionRequestTopic {
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

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterPartitionRequestPartition {
    pub index: i32,
    pub leader_epoch: i32,
    pub new_isr: Vec<AlterPartitionRequestIsrMember>,
    pub partition_epoch: i32,
}

impl Wire for AlterPartitionRequestPartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.leader_epoch)?;
        w.put(&self.new_isr)?;
        w.put(&self.partition_epoch)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.leader_epoch)?;
        r.get(&mut it.new_isr)?;
        r.get(&mut it.partition_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterPartitionRequestIsrMember {
    pub broker_id: i32,
    pub broker_epoch: i64,
}

impl Default for AlterPartitionRequestIsrMember {
    fn default() -> Self {
        Self { broker_id: 0, broker_epoch: -1 }
    }
}

impl Wire for AlterPartitionRequestIsrMember {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.broker_id)?;
        w.put(&self.broker_epoch)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.broker_id)?;
        r.get(&mut it.broker_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for AlterPartitionRequest {
    const KEY: ApiKey = ApiKey::AlterPartition;
    type Response = AlterPartitionResponse;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterPartitionResponse {
    pub error_code: ErrorCode,
    pub topics: Vec<AlterPartitionResponseTopic>,
}

impl Wire for AlterPartitionResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for AlterPartitionResponse {
    const NAME: &'static str = "AlterPartitionResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterPartitionResponseTopic {
    pub topic_id: Uuid,
    pub partitions: Vec<AlterPartitionResponsePartition>,
}

impl Wire for AlterPartitionResponseTopic {
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

#[derive(Clone, Debug, PartialEq)]
pub struct AlterPartitionResponsePartition {
    pub index: i32,
    pub error_code: ErrorCode,
    pub leader_id: i32,
    pub leader_epoch: i32,
    pub isr: Vec<i32>,
    pub partition_epoch: i32,
}

impl Default for AlterPartitionResponsePartition {
    fn default() -> Self {
        Self {
            index: 0,
            error_code: ErrorCode::NONE,
            leader_id: -1,
            leader_epoch: -1,
            isr: Vec::new(),
            partition_epoch: -1,
        }
    }
}

impl Wire for AlterPartitionResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.error_code)?;
        w.put(&self.leader_id)?;
        w.put(&self.leader_epoch)?;
        w.put(&self.isr)?;
        w.put(&self.partition_epoch)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.leader_id)?;
        r.get(&mut it.leader_epoch)?;
        r.get(&mut it.isr)?;
        r.get(&mut it.partition_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 0.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocateProducerIdsRequest {
    pub broker_id: i32,
    pub broker_epoch: i64,
}

impl Default for AllocateProducerIdsRequest {
    fn default() -> Self {
        Self { broker_id: 0, broker_epoch: -1 }
    }
}

impl Wire for AllocateProducerIdsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.broker_id)?;
        w.put(&self.broker_epoch)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.broker_id)?;
        r.get(&mut it.broker_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for AllocateProducerIdsRequest {
    const NAME: &'static str = "AllocateProducerIdsRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

impl Request for AllocateProducerIdsRequest {
    const KEY: ApiKey = ApiKey::AllocateProducerIds;
    type Response = AllocateProducerIdsResponse;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocateProducerIdsResponse {
    pub error_code: ErrorCode,
    pub start: i64,
    pub len: i32,
}

impl Default for AllocateProducerIdsResponse {
    fn default() -> Self {
        Self { error_code: ErrorCode::NONE, start: -1, len: 0 }
    }
}

impl Wire for AllocateProducerIdsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.start)?;
        w.put(&self.len)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.start)?;
        r.get(&mut it.len)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for AllocateProducerIdsResponse {
    const NAME: &'static str = "AllocateProducerIdsResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForwardRequestRequest {
    pub api_key: i16,
    pub api_version: i16,
    pub body: Bytes,
}

impl Wire for ForwardRequestRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.api_key)?;
        w.put(&self.api_version)?;
        w.put(&self.body)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.api_key)?;
        r.get(&mut it.api_version)?;
        r.get(&mut it.body)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ForwardRequestRequest {
    const NAME: &'static str = "ForwardRequestRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

impl Request for ForwardRequestRequest {
    const KEY: ApiKey = ApiKey::ForwardRequest;
    type Response = ForwardRequestResponse;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForwardRequestResponse {
    pub error_code: ErrorCode,
    pub body: Bytes,
}

impl Wire for ForwardRequestResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.body)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.body)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ForwardRequestResponse {
    const NAME: &'static str = "ForwardRequestResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndTransactionsRequest {
    pub broker_id: i32,
    pub broker_epoch: i64,
    pub link: i64,
    pub markers: Vec<EndTransactionsRequestMarker>,
}

impl Wire for EndTransactionsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.broker_id)?;
        w.put(&self.broker_epoch)?;
        w.put(&self.link)?;
        w.put(&self.markers)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.broker_id)?;
        r.get(&mut it.broker_epoch)?;
        r.get(&mut it.link)?;
        r.get(&mut it.markers)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for EndTransactionsRequest {
    const NAME: &'static str = "EndTransactionsRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndTransactionsRequestMarker {
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub commits: bool,
    pub coordinator_epoch: i32,
    pub topics: Vec<EndTransactionsRequestTopic>,
}

impl Wire for EndTransactionsRequestMarker {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.producer_id)?;
        w.put(&self.producer_epoch)?;
        w.put(&self.commits)?;
        w.put(&self.coordinator_epoch)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.producer_id)?;
        r.get(&mut it.producer_epoch)?;
        r.get(&mut it.commits)?;
        r.get(&mut it.coordinator_epoch)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndTransactionsRequestTopic {
    pub name: String,
    pub partitions: Vec<EndTransactionsRequestPartition>,
}

impl Wire for EndTransactionsRequestTopic {
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
pub struct EndTransactionsRequestPartition {
    pub index: i32,
    pub leader_epoch: i32,
}

impl Wire for EndTransactionsRequestPartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.leader_epoch)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.leader_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for EndTransactionsRequest {
    const KEY: ApiKey = ApiKey::EndTransactions;
    type Response = EndTransactionsResponse;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndTransactionsResponse {
    pub error_code: ErrorCode,
    pub results: Vec<ErrorCode>,
}

impl Wire for EndTransactionsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.results)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.results)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for EndTransactionsResponse {
    const NAME: &'static str = "EndTransactionsResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}
