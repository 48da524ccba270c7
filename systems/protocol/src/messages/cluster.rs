//! Generated from `schema/cluster.schema` by `tests/generate.rs`: do not edit.

use std::ops::RangeInclusive;

use super::ApiKey;
use crate::wire::{DecodeError, EncodeError, Reader, Wire, Writer};
use crate::{ErrorCode, Message, Request, Uuid};

/// Versions 0 to 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiVersionsRequest {
    pub client_software_name: String,
    pub client_software_version: String,
}

impl Wire for ApiVersionsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(3.., &self.client_software_name)?;
        w.put_in(3.., &self.client_software_version)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(3.., &mut it.client_software_name)?;
        r.get_in(3.., &mut it.client_software_version)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ApiVersionsRequest {
    const NAME: &'static str = "ApiVersionsRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=4;
    const FLEXIBLE_SINCE: i16 = 3;
}

impl Request for ApiVersionsRequest {
    const KEY: ApiKey = ApiKey::ApiVersions;
    type Response = ApiVersionsResponse;
}

/// Versions 0 to 4.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiVersionsResponse {
    pub error_code: ErrorCode,
    pub api_keys: Vec<ApiVersionsResponseApi>,
    pub throttle_time_ms: i32,
    pub supported_features: Vec<ApiVersionsResponseSupportedFeature>,
    pub finalized_features_epoch: i64,
    pub finalized_features: Vec<ApiVersionsResponseFinalizedFeature>,
    pub zk_migration_ready: bool,
}

impl Default for ApiVersionsResponse {
    fn default() -> Self {
        Self {
            error_code: ErrorCode::NONE,
            api_keys: Vec::new(),
            throttle_time_ms: 0,
            supported_features: Vec::new(),
            finalized_features_epoch: -1,
            finalized_features: Vec::new(),
            zk_migration_ready: false,
        }
    }
}

impl Wire for ApiVersionsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.api_keys)?;
        w.put_in(1.., &self.throttle_time_ms)?;
        let mut tags = w.tags();
        tags.put_in(0, 3.., &self.supported_features, self.supported_features.is_empty())?;
        tags.put_in(1, 3.., &self.finalized_features_epoch, self.finalized_features_epoch == -1)?;
        tags.put_in(2, 3.., &self.finalized_features, self.finalized_features.is_empty())?;
        tags.put_in(3, 3.., &self.zk_migration_ready, !self.zk_migration_ready)?;
        w.finish_tags(tags)
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.api_keys)?;
        r.get_in(1.., &mut it.throttle_time_ms)?;
        r.tags(|r, tag| match tag {
            0 => r.get_in(3.., &mut it.supported_features),
            1 => r.get_in(3.., &mut it.finalized_features_epoch),
            2 => r.get_in(3.., &mut it.finalized_features),
            3 => r.get_in(3.., &mut it.zk_migration_ready),
            _ => Ok(false),
        })?;
        Ok(it)
    }
}

impl Message for ApiVersionsResponse {
    const NAME: &'static str = "ApiVersionsResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=4;
    const FLEXIBLE_SINCE: i16 = 3;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiVersionsResponseApi {
    pub api_key: i16,
    pub min_version: i16,
    pub max_version: i16,
}

impl Wire for ApiVersionsResponseApi {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.api_key)?;
        w.put(&self.min_version)?;
        w.put(&self.max_version)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.api_key)?;
        r.get(&mut it.min_version)?;
        r.get(&mut it.max_version)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiVersionsResponseSupportedFeature {
    pub name: String,
    pub min_version: i16,
    pub max_version: i16,
}

impl Wire for ApiVersionsResponseSupportedFeature {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.min_version)?;
        w.put(&self.max_version)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.min_version)?;
        r.get(&mut it.max_version)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiVersionsResponseFinalizedFeature {
    pub name: String,
    pub max_version_level: i16,
    pub min_version_level: i16,
}

impl Wire for ApiVersionsResponseFinalizedFeature {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.max_version_level)?;
        w.put(&self.min_version_level)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.max_version_level)?;
        r.get(&mut it.min_version_level)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 13.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataRequest {
    pub topics: Option<Vec<MetadataRequestTopic>>,
    pub allow_auto_topic_creation: bool,
    pub include_cluster_authorized_operations: bool,
    pub include_topic_authorized_operations: bool,
}

impl Default for MetadataRequest {
    fn default() -> Self {
        Self {
            topics: Some(Vec::new()),
            allow_auto_topic_creation: true,
            include_cluster_authorized_operations: false,
            include_topic_authorized_operations: false,
        }
    }
}

impl Wire for MetadataRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.non_null(..1, &self.topics, "topics")?;
        w.put(&self.topics)?;
        w.put_or_default(
            4..,
            &self.allow_auto_topic_creation,
            self.allow_auto_topic_creation,
            "allow_auto_topic_creation",
        )?;
        w.put_or_default(
            8..=10,
            &self.include_cluster_authorized_operations,
            !self.include_cluster_authorized_operations,
            "include_cluster_authorized_operations",
        )?;
        w.put_or_default(
            8..,
            &self.include_topic_authorized_operations,
            !self.include_topic_authorized_operations,
            "include_topic_authorized_operations",
        )?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topics)?;
        r.non_null(..1, &it.topics)?;
        r.get_in(4.., &mut it.allow_auto_topic_creation)?;
        r.get_in(8..=10, &mut it.include_cluster_authorized_operations)?;
        r.get_in(8.., &mut it.include_topic_authorized_operations)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for MetadataRequest {
    const NAME: &'static str = "MetadataRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=13;
    const FLEXIBLE_SINCE: i16 = 9;
}

#[derive(Clone, Debug, PartialEq)]
pub struct MetadataRequestTopic {
    pub topic_id: Uuid,
    pub name: Option<String>,
}

impl Default for MetadataRequestTopic {
    fn default() -> Self {
        Self { topic_id: Uuid::ZERO, name: Some(String::new()) }
    }
}

impl Wire for MetadataRequestTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(10.., &self.topic_id)?;
        w.non_null(..10, &self.name, "name")?;
        w.put(&self.name)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(10.., &mut it.topic_id)?;
        r.get(&mut it.name)?;
        r.non_null(..10, &it.name)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for MetadataRequest {
    const KEY: ApiKey = ApiKey::Metadata;
    type Response = MetadataResponse;
}

/// Versions 0 to 13.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataResponse {
    pub throttle_time_ms: i32,
    pub brokers: Vec<MetadataResponseBroker>,
    pub cluster_id: Option<String>,
    pub controller_id: i32,
    pub topics: Vec<MetadataResponseTopic>,
    pub cluster_authorized_operations: i32,
    pub error_code: ErrorCode,
}

impl Default for MetadataResponse {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            brokers: Vec::new(),
            cluster_id: None,
            controller_id: -1,
            topics: Vec::new(),
            cluster_authorized_operations: -2147483648,
            error_code: ErrorCode::NONE,
        }
    }
}

impl Wire for MetadataResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_in(3.., &self.throttle_time_ms)?;
        w.put(&self.brokers)?;
        w.put_in(2.., &self.cluster_id)?;
        w.put_in(1.., &self.controller_id)?;
        w.put(&self.topics)?;
        w.put_or_default(
            8..=10,
            &self.cluster_authorized_operations,
            self.cluster_authorized_operations == -2147483648,
            "cluster_authorized_operations",
        )?;
        w.put_in(13.., &self.error_code)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(3.., &mut it.throttle_time_ms)?;
        r.get(&mut it.brokers)?;
        r.get_in(2.., &mut it.cluster_id)?;
        r.get_in(1.., &mut it.controller_id)?;
        r.get(&mut it.topics)?;
        r.get_in(8..=10, &mut it.cluster_authorized_operations)?;
        r.get_in(13.., &mut it.error_code)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for MetadataResponse {
    const NAME: &'static str = "MetadataResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=13;
    const FLEXIBLE_SINCE: i16 = 9;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetadataResponseBroker {
    pub node_id: i32,
    pub host: String,
    pub port: i32,
    pub rack: Option<String>,
}

impl Wire for MetadataResponseBroker {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.node_id)?;
        w.put(&self.host)?;
        w.put(&self.port)?;
        w.put_in(1.., &self.rack)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.node_id)?;
        r.get(&mut it.host)?;
        r.get(&mut it.port)?;
        r.get_in(1.., &mut it.rack)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct MetadataResponseTopic {
    pub error_code: ErrorCode,
    pub name: Option<String>,
    pub topic_id: Uuid,
    pub is_internal: bool,
    pub partitions: Vec<MetadataResponsePartition>,
    pub topic_authorized_operations: i32,
}

impl Default for MetadataResponseTopic {
    fn default() -> Self {
        Self {
            error_code: ErrorCode::NONE,
            name: Some(String::new()),
            topic_id: Uuid::ZERO,
            is_internal: false,
            partitions: Vec::new(),
            topic_authorized_operations: -2147483648,
        }
    }
}

impl Wire for MetadataResponseTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.non_null(..12, &self.name, "name")?;
        w.put(&self.name)?;
        w.put_in(10.., &self.topic_id)?;
        w.put_in(1.., &self.is_internal)?;
        w.put(&self.partitions)?;
        w.put_or_default(
            8..,
            &self.topic_authorized_operations,
            self.topic_authorized_operations == -2147483648,
            "topic_authorized_operations",
        )?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.name)?;
        r.non_null(..12, &it.name)?;
        r.get_in(10.., &mut it.topic_id)?;
        r.get_in(1.., &mut it.is_internal)?;
        r.get(&mut it.partitions)?;
        r.get_in(8.., &mut it.topic_authorized_operations)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct MetadataResponsePartition {
    pub error_code: ErrorCode,
    pub index: i32,
    pub leader_id: i32,
    pub leader_epoch: i32,
    pub replica_nodes: Vec<i32>,
    pub isr_nodes: Vec<i32>,
    pub offline_replicas: Vec<i32>,
}

impl Default for MetadataResponsePartition {
    fn default() -> Self {
        Self {
            error_code: ErrorCode::NONE,
            index: 0,
            leader_id: 0,
            leader_epoch: -1,
            replica_nodes: Vec::new(),
            isr_nodes: Vec::new(),
            offline_replicas: Vec::new(),
        }
    }
}

impl Wire for MetadataResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.index)?;
        w.put(&self.leader_id)?;
        w.put_in(7.., &self.leader_epoch)?;
        w.put(&self.replica_nodes)?;
        w.put(&self.isr_nodes)?;
        w.put_in(5.., &self.offline_replicas)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.index)?;
        r.get(&mut it.leader_id)?;
        r.get_in(7.., &mut it.leader_epoch)?;
        r.get(&mut it.replica_nodes)?;
        r.get(&mut it.isr_nodes)?;
        r.get_in(5.., &mut it.offline_replicas)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 2 to 7.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTopicsRequest {
    pub topics: Vec<CreateTopicsRequestTopic>,
    pub timeout_ms: i32,
    pub validate_only: bool,
}

impl Default for CreateTopicsRequest {
    fn default() -> Self {
        Self { topics: Vec::new(), timeout_ms: 60000, validate_only: false }
    }
}

impl Wire for CreateTopicsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topics)?;
        w.put(&self.timeout_ms)?;
        w.put(&self.validate_only)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topics)?;
        r.get(&mut it.timeout_ms)?;
        r.get(&mut it.validate_only)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for CreateTopicsRequest {
    const NAME: &'static str = "CreateTopicsRequest";
    const VERSIONS: RangeInclusive<i16> = 2..=7;
    const FLEXIBLE_SINCE: i16 = 5;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreateTopicsRequestTopic {
    pub name: String,
    pub num_partitions: i32,
    pub replication_factor: i16,
    pub assignments: Vec<CreateTopicsRequestAssignment>,
    pub configs: Vec<CreateTopicsRequestConfig>,
}

impl Wire for CreateTopicsRequestTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.num_partitions)?;
        w.put(&self.replication_factor)?;
        w.put(&self.assignments)?;
        w.put(&self.configs)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.num_partitions)?;
        r.get(&mut it.replication_factor)?;
        r.get(&mut it.assignments)?;
        r.get(&mut it.configs)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreateTopicsRequestAssignment {
    pub index: i32,
    pub broker_ids: Vec<i32>,
}

impl Wire for CreateTopicsRequestAssignment {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.broker_ids)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.broker_ids)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreateTopicsRequestConfig {
    pub name: String,
    pub value: Option<String>,
}

impl Wire for CreateTopicsRequestConfig {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.value)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.value)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for CreateTopicsRequest {
    const KEY: ApiKey = ApiKey::CreateTopics;
    type Response = CreateTopicsResponse;
}

/// Versions 2 to 7.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreateTopicsResponse {
    pub throttle_time_ms: i32,
    pub topics: Vec<CreateTopicsResponseTopic>,
}

impl Wire for CreateTopicsResponse {
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

impl Message for CreateTopicsResponse {
    const NAME: &'static str = "CreateTopicsResponse";
    const VERSIONS: RangeInclusive<i16> = 2..=7;
    const FLEXIBLE_SINCE: i16 = 5;
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateTopicsResponseTopic {
    pub name: String,
    pub topic_id: Uuid,
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
    pub topic_config_error_code: ErrorCode,
    pub num_partitions: i32,
    pub replication_factor: i16,
    pub configs: Option<Vec<CreateTopicsResponseConfig>>,
}

impl Default for CreateTopicsResponseTopic {
    fn default() -> Self {
        Self {
            name: String::new(),
            topic_id: Uuid::ZERO,
            error_code: ErrorCode::NONE,
            error_message: None,
            topic_config_error_code: ErrorCode::NONE,
            num_partitions: -1,
            replication_factor: -1,
            configs: None,
        }
    }
}

impl Wire for CreateTopicsResponseTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put_in(7.., &self.topic_id)?;
        w.put(&self.error_code)?;
        w.put(&self.error_message)?;
        w.put_in(5.., &self.num_partitions)?;
        w.put_in(5.., &self.replication_factor)?;
        w.put_in(5.., &self.configs)?;
        let mut tags = w.tags();
        tags.put_in(0, 5.., &self.topic_config_error_code, self.topic_config_error_code == ErrorCode::NONE)?;
        w.finish_tags(tags)
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get_in(7.., &mut it.topic_id)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.error_message)?;
        r.get_in(5.., &mut it.num_partitions)?;
        r.get_in(5.., &mut it.replication_factor)?;
        r.get_in(5.., &mut it.configs)?;
        r.tags(|r, tag| match tag {
            0 => r.get_in(5.., &mut it.topic_config_error_code),
            _ => Ok(false),
        })?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateTopicsResponseConfig {
    pub name: String,
    pub value: Option<String>,
    pub read_only: bool,
    pub config_source: i8,
    pub is_sensitive: bool,
}

impl Default for CreateTopicsResponseConfig {
    fn default() -> Self {
        Self { name: String::new(), value: None, read_only: false, config_source: -1, is_sensitive: false }
    }
}

impl Wire for CreateTopicsResponseConfig {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.value)?;
        w.put(&self.read_only)?;
        w.put(&self.config_source)?;
        w.put(&self.is_sensitive)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.value)?;
        r.get(&mut it.read_only)?;
        r.get(&mut it.config_source)?;
        r.get(&mut it.is_sensitive)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 1 to 6.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteTopicsRequest {
    pub topics: Vec<DeleteTopicsRequestTopic>,
    pub topic_names: Vec<String>,
    pub timeout_ms: i32,
}

impl Wire for DeleteTopicsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_or_default(6.., &self.topics, self.topics.is_empty(), "topics")?;
        w.put_in(..=5, &self.topic_names)?;
        w.put(&self.timeout_ms)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(6.., &mut it.topics)?;
        r.get_in(..=5, &mut it.topic_names)?;
        r.get(&mut it.timeout_ms)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DeleteTopicsRequest {
    const NAME: &'static str = "DeleteTopicsRequest";
    const VERSIONS: RangeInclusive<i16> = 1..=6;
    const FLEXIBLE_SINCE: i16 = 4;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteTopicsRequestTopic {
    pub name: Option<String>,
    pub topic_id: Uuid,
}

impl Wire for DeleteTopicsRequestTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.topic_id)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.topic_id)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for DeleteTopicsRequest {
    const KEY: ApiKey = ApiKey::DeleteTopics;
    type Response = DeleteTopicsResponse;
}

/// Versions 1 to 6.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteTopicsResponse {
    pub throttle_time_ms: i32,
    pub topics: Vec<DeleteTopicsResponseTopic>,
}

impl Wire for DeleteTopicsResponse {
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

impl Message for DeleteTopicsResponse {
    const NAME: &'static str = "DeleteTopicsResponse";
    const VERSIONS: RangeInclusive<i16> = 1..=6;
    const FLEXIBLE_SINCE: i16 = 4;
}

#[derive(Clone, Debug, PartialEq)]
pub struct DeleteTopicsResponseTopic {
    pub name: Option<String>,
    pub topic_id: Uuid,
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
}

impl Default for DeleteTopicsResponseTopic {
    fn default() -> Self {
        Self {
            name: Some(String::new()),
            topic_id: Uuid::ZERO,
            error_code: ErrorCode::NONE,
            error_message: None,
        }
    }
}

impl Wire for DeleteTopicsResponseTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.non_null(..6, &self.name, "name")?;
        w.put(&self.name)?;
        w.put_in(6.., &self.topic_id)?;
        w.put(&self.error_code)?;
        w.put_in(5.., &self.error_message)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.non_null(..6, &it.name)?;
        r.get_in(6.., &mut it.topic_id)?;
        r.get(&mut it.error_code)?;
        r.get_in(5.., &mut it.error_message)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatePartitionsRequest {
    pub topics: Vec<CreatePartitionsRequestTopic>,
    pub timeout_ms: i32,
    pub validate_only: bool,
}

impl Wire for CreatePartitionsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topics)?;
        w.put(&self.timeout_ms)?;
        w.put(&self.validate_only)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topics)?;
        r.get(&mut it.timeout_ms)?;
        r.get(&mut it.validate_only)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for CreatePartitionsRequest {
    const NAME: &'static str = "CreatePartitionsRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=3;
    const FLEXIBLE_SINCE: i16 = 2;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatePartitionsRequestTopic {
    pub name: String,
    pub count: i32,
    pub assignments: Option<Vec<CreatePartitionsRequestAssignment>>,
}

impl Wire for CreatePartitionsRequestTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.count)?;
        w.put(&self.assignments)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.count)?;
        r.get(&mut it.assignments)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatePartitionsRequestAssignment {
    pub broker_ids: Vec<i32>,
}

impl Wire for CreatePartitionsRequestAssignment {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.broker_ids)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.broker_ids)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for CreatePartitionsRequest {
    const KEY: ApiKey = ApiKey::CreatePartitions;
    type Response = CreatePartitionsResponse;
}

/// Versions 0 to 3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatePartitionsResponse {
    pub throttle_time_ms: i32,
    pub results: Vec<CreatePartitionsResponseResult>,
}

impl Wire for CreatePartitionsResponse {
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

impl Message for CreatePartitionsResponse {
    const NAME: &'static str = "CreatePartitionsResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=3;
    const FLEXIBLE_SINCE: i16 = 2;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatePartitionsResponseResult {
    pub name: String,
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
}

impl Wire for CreatePartitionsResponseResult {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.error_code)?;
        w.put(&self.error_message)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.error_message)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 1 to 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeConfigsRequest {
    pub resources: Vec<DescribeConfigsRequestResource>,
    pub include_synonyms: bool,
    pub include_documentation: bool,
}

impl Wire for DescribeConfigsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.resources)?;
        w.put(&self.include_synonyms)?;
        w.put_or_default(
            3..,
            &self.include_documentation,
            !self.include_documentation,
            "include_documentation",
        )?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.resources)?;
        r.get(&mut it.include_synonyms)?;
        r.get_in(3.., &mut it.include_documentation)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DescribeConfigsRequest {
    const NAME: &'static str = "DescribeConfigsRequest";
    const VERSIONS: RangeInclusive<i16> = 1..=4;
    const FLEXIBLE_SINCE: i16 = 4;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeConfigsRequestResource {
    pub resource_type: i8,
    pub resource_name: String,
    pub configuration_keys: Option<Vec<String>>,
}

impl Wire for DescribeConfigsRequestResource {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.resource_type)?;
        w.put(&self.resource_name)?;
        w.put(&self.configuration_keys)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.resource_type)?;
        r.get(&mut it.resource_name)?;
        r.get(&mut it.configuration_keys)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for DescribeConfigsRequest {
    const KEY: ApiKey = ApiKey::DescribeConfigs;
    type Response = DescribeConfigsResponse;
}

/// Versions 1 to 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeConfigsResponse {
    pub throttle_time_ms: i32,
    pub results: Vec<DescribeConfigsResponseResult>,
}

impl Wire for DescribeConfigsResponse {
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

impl Message for DescribeConfigsResponse {
    const NAME: &'static str = "DescribeConfigsResponse";
    const VERSIONS: RangeInclusive<i16> = 1..=4;
    const FLEXIBLE_SINCE: i16 = 4;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeConfigsResponseResult {
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
    pub resource_type: i8,
    pub resource_name: String,
    pub configs: Vec<DescribeConfigsResponseConfig>,
}

impl Wire for DescribeConfigsResponseResult {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.error_message)?;
        w.put(&self.resource_type)?;
        w.put(&self.resource_name)?;
        w.put(&self.configs)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.error_message)?;
        r.get(&mut it.resource_type)?;
        r.get(&mut it.resource_name)?;
        r.get(&mut it.configs)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeConfigsResponseConfig {
    pub name: String,
    pub value: Option<String>,
    pub read_only: bool,
    pub config_source: i8,
    pub is_sensitive: bool,
    pub synonyms: Vec<DescribeConfigsResponseSynonym>,
    pub config_type: i8,
    pub documentation: Option<String>,
}

impl Default for DescribeConfigsResponseConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            value: None,
            read_only: false,
            config_source: -1,
            is_sensitive: false,
            synonyms: Vec::new(),
            config_type: 0,
            documentation: None,
        }
    }
}

impl Wire for DescribeConfigsResponseConfig {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.value)?;
        w.put(&self.read_only)?;
        w.put(&self.config_source)?;
        w.put(&self.is_sensitive)?;
        w.put(&self.synonyms)?;
        w.put_in(3.., &self.config_type)?;
        w.put_in(3.., &self.documentation)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.value)?;
        r.get(&mut it.read_only)?;
        r.get(&mut it.config_source)?;
        r.get(&mut it.is_sensitive)?;
        r.get(&mut it.synonyms)?;
        r.get_in(3.., &mut it.config_type)?;
        r.get_in(3.., &mut it.documentation)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeConfigsResponseSynonym {
    pub name: String,
    pub value: Option<String>,
    pub source: i8,
}

impl Wire for DescribeConfigsResponseSynonym {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.value)?;
        w.put(&self.source)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.value)?;
        r.get(&mut it.source)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 2.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeClusterRequest {
    pub include_cluster_authorized_operations: bool,
    pub endpoint_type: i8,
    pub include_fenced_brokers: bool,
}

impl Default for DescribeClusterRequest {
    fn default() -> Self {
        Self { include_cluster_authorized_operations: false, endpoint_type: 1, include_fenced_brokers: false }
    }
}

impl Wire for DescribeClusterRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.include_cluster_authorized_operations)?;
        w.put_or_default(1.., &self.endpoint_type, self.endpoint_type == 1, "endpoint_type")?;
        w.put_or_default(
            2..,
            &self.include_fenced_brokers,
            !self.include_fenced_brokers,
            "include_fenced_brokers",
        )?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.include_cluster_authorized_operations)?;
        r.get_in(1.., &mut it.endpoint_type)?;
        r.get_in(2.., &mut it.include_fenced_brokers)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DescribeClusterRequest {
    const NAME: &'static str = "DescribeClusterRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE_SINCE: i16 = 0;
}

impl Request for DescribeClusterRequest {
    const KEY: ApiKey = ApiKey::DescribeCluster;
    type Response = DescribeClusterResponse;
}

/// Versions 0 to 2.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeClusterResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
    pub endpoint_type: i8,
    pub cluster_id: String,
    pub controller_id: i32,
    pub brokers: Vec<DescribeClusterResponseBroker>,
    pub cluster_authorized_operations: i32,
}

impl Default for DescribeClusterResponse {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            error_code: ErrorCode::NONE,
            error_message: None,
            endpoint_type: 1,
            cluster_id: String::new(),
            controller_id: -1,
            brokers: Vec::new(),
            cluster_authorized_operations: -2147483648,
        }
    }
}

impl Wire for DescribeClusterResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.error_code)?;
        w.put(&self.error_message)?;
        w.put_or_default(1.., &self.endpoint_type, self.endpoint_type == 1, "endpoint_type")?;
        w.put(&self.cluster_id)?;
        w.put(&self.controller_id)?;
        w.put(&self.brokers)?;
        w.put(&self.cluster_authorized_operations)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.error_message)?;
        r.get_in(1.., &mut it.endpoint_type)?;
        r.get(&mut it.cluster_id)?;
        r.get(&mut it.controller_id)?;
        r.get(&mut it.brokers)?;
        r.get(&mut it.cluster_authorized_operations)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DescribeClusterResponse {
    const NAME: &'static str = "DescribeClusterResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeClusterResponseBroker {
    pub broker_id: i32,
    pub host: String,
    pub port: i32,
    pub rack: Option<String>,
    pub is_fenced: bool,
}

impl Wire for DescribeClusterResponseBroker {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.broker_id)?;
        w.put(&self.host)?;
        w.put(&self.port)?;
        w.put(&self.rack)?;
        w.put_or_default(2.., &self.is_fenced, !self.is_fenced, "is_fenced")?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.broker_id)?;
        r.get(&mut it.host)?;
        r.get(&mut it.port)?;
        r.get(&mut it.rack)?;
        r.get_in(2.., &mut it.is_fenced)?;
        r.skip_tags()?;
        Ok(it)
    }
}
