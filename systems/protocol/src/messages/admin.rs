//! Generated from `schema/admin.schema` by `tests/generate.rs`: do not edit.

use std::ops::RangeInclusive;

use super::ApiKey;
use crate::wire::{DecodeError, EncodeError, Reader, Wire, Writer};
use crate::{ErrorCode, Message, Request, Uuid};

/// Versions 0 to 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterConfigsRequest {
    pub resources: Vec<AlterConfigsRequestResource>,
    pub validate_only: bool,
}

impl Wire for AlterConfigsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.resources)?;
        w.put(&self.validate_only)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.resources)?;
        r.get(&mut it.validate_only)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for AlterConfigsRequest {
    const NAME: &'static str = "AlterConfigsRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE_SINCE: i16 = 2;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterConfigsRequestResource {
    pub resource_type: i8,
    pub resource_name: String,
    pub configs: Vec<AlterConfigsRequestConfig>,
}

impl Wire for AlterConfigsRequestResource {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.resource_type)?;
        w.put(&self.resource_name)?;
        w.put(&self.configs)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.resource_type)?;
        r.get(&mut it.resource_name)?;
        r.get(&mut it.configs)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterConfigsRequestConfig {
    pub name: String,
    pub value: Option<String>,
}

impl Wire for AlterConfigsRequestConfig {
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

impl Request for AlterConfigsRequest {
    const KEY: ApiKey = ApiKey::AlterConfigs;
    type Response = AlterConfigsResponse;
}

/// Versions 0 to 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterConfigsResponse {
    pub throttle_time_ms: i32,
    pub responses: Vec<AlterConfigsResponseResource>,
}

impl Wire for AlterConfigsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.responses)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.responses)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for AlterConfigsResponse {
    const NAME: &'static str = "AlterConfigsResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE_SINCE: i16 = 2;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterConfigsResponseResource {
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
    pub resource_type: i8,
    pub resource_name: String,
}

impl Wire for AlterConfigsResponseResource {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.error_message)?;
        w.put(&self.resource_type)?;
        w.put(&self.resource_name)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.error_message)?;
        r.get(&mut it.resource_type)?;
        r.get(&mut it.resource_name)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IncrementalAlterConfigsRequest {
    pub resources: Vec<IncrementalAlterConfigsRequestResource>,
    pub validate_only: bool,
}

impl Wire for IncrementalAlterConfigsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.resources)?;
        w.put(&self.validate_only)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.resources)?;
        r.get(&mut it.validate_only)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for IncrementalAlterConfigsRequest {
    const NAME: &'static str = "IncrementalAlterConfigsRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=1;
    const FLEXIBLE_SINCE: i16 = 1;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct IncrementalAlterConfigsRequestResource {
    pub resource_type: i8,
    pub resource_name: String,
    pub configs: Vec<IncrementalAlterConfigsRequestConfig>,
}

impl Wire for IncrementalAlterConfigsRequestResource {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.resource_type)?;
        w.put(&self.resource_name)?;
        w.put(&self.configs)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.resource_type)?;
        r.get(&mut it.resource_name)?;
        r.get(&mut it.configs)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct IncrementalAlterConfigsRequestConfig {
    pub name: String,
    pub config_operation: i8,
    pub value: Option<String>,
}

impl Wire for IncrementalAlterConfigsRequestConfig {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.config_operation)?;
        w.put(&self.value)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.config_operation)?;
        r.get(&mut it.value)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for IncrementalAlterConfigsRequest {
    const KEY: ApiKey = ApiKey::IncrementalAlterConfigs;
    type Response = IncrementalAlterConfigsResponse;
}

/// Versions 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IncrementalAlterConfigsResponse {
    pub throttle_time_ms: i32,
    pub responses: Vec<IncrementalAlterConfigsResponseResource>,
}

impl Wire for IncrementalAlterConfigsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.responses)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.responses)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for IncrementalAlterConfigsResponse {
    const NAME: &'static str = "IncrementalAlterConfigsResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=1;
    const FLEXIBLE_SINCE: i16 = 1;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct IncrementalAlterConfigsResponseResource {
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
    pub resource_type: i8,
    pub resource_name: String,
}

impl Wire for IncrementalAlterConfigsResponseResource {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.error_message)?;
        w.put(&self.resource_type)?;
        w.put(&self.resource_name)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.error_message)?;
        r.get(&mut it.resource_type)?;
        r.get(&mut it.resource_name)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 1 to 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeLogDirsRequest {
    pub topics: Option<Vec<DescribeLogDirsRequestTopic>>,
}

impl Wire for DescribeLogDirsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DescribeLogDirsRequest {
    const NAME: &'static str = "DescribeLogDirsRequest";
    const VERSIONS: RangeInclusive<i16> = 1..=4;
    const FLEXIBLE_SINCE: i16 = 2;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeLogDirsRequestTopic {
    pub name: String,
    pub partitions: Vec<i32>,
}

impl Wire for DescribeLogDirsRequestTopic {
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

impl Request for DescribeLogDirsRequest {
    const KEY: ApiKey = ApiKey::DescribeLogDirs;
    type Response = DescribeLogDirsResponse;
}

/// Versions 1 to 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeLogDirsResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub results: Vec<DescribeLogDirsResponseResult>,
}

impl Wire for DescribeLogDirsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put_in(3.., &self.error_code)?;
        w.put(&self.results)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get_in(3.., &mut it.error_code)?;
        r.get(&mut it.results)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DescribeLogDirsResponse {
    const NAME: &'static str = "DescribeLogDirsResponse";
    const VERSIONS: RangeInclusive<i16> = 1..=4;
    const FLEXIBLE_SINCE: i16 = 2;
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeLogDirsResponseResult {
    pub error_code: ErrorCode,
    pub log_dir: String,
    pub topics: Vec<DescribeLogDirsResponseTopic>,
    pub total_bytes: i64,
    pub usable_bytes: i64,
}

impl Default for DescribeLogDirsResponseResult {
    fn default() -> Self {
        Self {
            error_code: ErrorCode::NONE,
            log_dir: String::new(),
            topics: Vec::new(),
            total_bytes: -1,
            usable_bytes: -1,
        }
    }
}

impl Wire for DescribeLogDirsResponseResult {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.log_dir)?;
        w.put(&self.topics)?;
        w.put_in(4.., &self.total_bytes)?;
        w.put_in(4.., &self.usable_bytes)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.log_dir)?;
        r.get(&mut it.topics)?;
        r.get_in(4.., &mut it.total_bytes)?;
        r.get_in(4.., &mut it.usable_bytes)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeLogDirsResponseTopic {
    pub name: String,
    pub partitions: Vec<DescribeLogDirsResponsePartition>,
}

impl Wire for DescribeLogDirsResponseTopic {
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
pub struct DescribeLogDirsResponsePartition {
    pub index: i32,
    pub size_bytes: i64,
    pub offset_lag: i64,
    pub is_future: bool,
}

impl Wire for DescribeLogDirsResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.size_bytes)?;
        w.put(&self.offset_lag)?;
        w.put(&self.is_future)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.size_bytes)?;
        r.get(&mut it.offset_lag)?;
        r.get(&mut it.is_future)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 2.
#[derive(Clone, Debug, PartialEq)]
pub struct ElectLeadersRequest {
    pub election_type: i8,
    pub topics: Option<Vec<ElectLeadersRequestTopic>>,
    pub timeout_ms: i32,
}

impl Default for ElectLeadersRequest {
    fn default() -> Self {
        Self { election_type: 0, topics: None, timeout_ms: 60000 }
    }
}

impl Wire for ElectLeadersRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_or_default(1.., &self.election_type, self.election_type == 0, "election_type")?;
        w.put(&self.topics)?;
        w.put(&self.timeout_ms)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(1.., &mut it.election_type)?;
        r.get(&mut it.topics)?;
        r.get(&mut it.timeout_ms)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ElectLeadersRequest {
    const NAME: &'static str = "ElectLeadersRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE_SINCE: i16 = 2;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ElectLeadersRequestTopic {
    pub name: String,
    pub partitions: Vec<i32>,
}

impl Wire for ElectLeadersRequestTopic {
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

impl Request for ElectLeadersRequest {
    const KEY: ApiKey = ApiKey::ElectLeaders;
    type Response = ElectLeadersResponse;
}

/// Versions 0 to 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ElectLeadersResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub topics: Vec<ElectLeadersResponseTopic>,
}

impl Wire for ElectLeadersResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put_or_default(1.., &self.error_code, self.error_code == ErrorCode::NONE, "error_code")?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get_in(1.., &mut it.error_code)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ElectLeadersResponse {
    const NAME: &'static str = "ElectLeadersResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE_SINCE: i16 = 2;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ElectLeadersResponseTopic {
    pub name: String,
    pub partitions: Vec<ElectLeadersResponsePartition>,
}

impl Wire for ElectLeadersResponseTopic {
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
pub struct ElectLeadersResponsePartition {
    pub index: i32,
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
}

impl Wire for ElectLeadersResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.error_code)?;
        w.put(&self.error_message)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.error_message)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterPartitionReassignmentsRequest {
    pub timeout_ms: i32,
    pub allow_replication_factor_change: bool,
    pub topics: Vec<AlterPartitionReassignmentsRequestTopic>,
}

impl Default for AlterPartitionReassignmentsRequest {
    fn default() -> Self {
        Self { timeout_ms: 60000, allow_replication_factor_change: true, topics: Vec::new() }
    }
}

impl Wire for AlterPartitionReassignmentsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.timeout_ms)?;
        w.put_or_default(
            1..,
            &self.allow_replication_factor_change,
            self.allow_replication_factor_change,
            "allow_replication_factor_change",
        )?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.timeout_ms)?;
        r.get_in(1.., &mut it.allow_replication_factor_change)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for AlterPartitionReassignmentsRequest {
    const NAME: &'static str = "AlterPartitionReassignmentsRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=1;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterPartitionReassignmentsRequestTopic {
    pub name: String,
    pub partitions: Vec<AlterPartitionReassignmentsRequestPartition>,
}

impl Wire for AlterPartitionReassignmentsRequestTopic {
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
pub struct AlterPartitionReassignmentsRequestPartition {
    pub index: i32,
    pub replicas: Option<Vec<i32>>,
}

impl Wire for AlterPartitionReassignmentsRequestPartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.replicas)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.replicas)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for AlterPartitionReassignmentsRequest {
    const KEY: ApiKey = ApiKey::AlterPartitionReassignments;
    type Response = AlterPartitionReassignmentsResponse;
}

/// Versions 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterPartitionReassignmentsResponse {
    pub throttle_time_ms: i32,
    pub allow_replication_factor_change: bool,
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
    pub topics: Vec<AlterPartitionReassignmentsResponseTopic>,
}

impl Default for AlterPartitionReassignmentsResponse {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            allow_replication_factor_change: true,
            error_code: ErrorCode::NONE,
            error_message: None,
            topics: Vec::new(),
        }
    }
}

impl Wire for AlterPartitionReassignmentsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put_in(1.., &self.allow_replication_factor_change)?;
        w.put(&self.error_code)?;
        w.put(&self.error_message)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get_in(1.., &mut it.allow_replication_factor_change)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.error_message)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for AlterPartitionReassignmentsResponse {
    const NAME: &'static str = "AlterPartitionReassignmentsResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=1;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterPartitionReassignmentsResponseTopic {
    pub name: String,
    pub partitions: Vec<AlterPartitionReassignmentsResponsePartition>,
}

impl Wire for AlterPartitionReassignmentsResponseTopic {
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
pub struct AlterPartitionReassignmentsResponsePartition {
    pub index: i32,
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
}

impl Wire for AlterPartitionReassignmentsResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.error_code)?;
        w.put(&self.error_message)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.error_message)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 0.
#[derive(Clone, Debug, PartialEq)]
pub struct ListPartitionReassignmentsRequest {
    pub timeout_ms: i32,
    pub topics: Option<Vec<ListPartitionReassignmentsRequestTopic>>,
}

impl Default for ListPartitionReassignmentsRequest {
    fn default() -> Self {
        Self { timeout_ms: 60000, topics: None }
    }
}

impl Wire for ListPartitionReassignmentsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.timeout_ms)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.timeout_ms)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ListPartitionReassignmentsRequest {
    const NAME: &'static str = "ListPartitionReassignmentsRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListPartitionReassignmentsRequestTopic {
    pub name: String,
    pub partitions: Vec<i32>,
}

impl Wire for ListPartitionReassignmentsRequestTopic {
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

impl Request for ListPartitionReassignmentsRequest {
    const KEY: ApiKey = ApiKey::ListPartitionReassignments;
    type Response = ListPartitionReassignmentsResponse;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListPartitionReassignmentsResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
    pub topics: Vec<ListPartitionReassignmentsResponseTopic>,
}

impl Wire for ListPartitionReassignmentsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.error_code)?;
        w.put(&self.error_message)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.error_message)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ListPartitionReassignmentsResponse {
    const NAME: &'static str = "ListPartitionReassignmentsResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListPartitionReassignmentsResponseTopic {
    pub name: String,
    pub partitions: Vec<ListPartitionReassignmentsResponsePartition>,
}

impl Wire for ListPartitionReassignmentsResponseTopic {
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
pub struct ListPartitionReassignmentsResponsePartition {
    pub index: i32,
    pub replicas: Vec<i32>,
    pub adding_replicas: Vec<i32>,
    pub removing_replicas: Vec<i32>,
}

impl Wire for ListPartitionReassignmentsResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.replicas)?;
        w.put(&self.adding_replicas)?;
        w.put(&self.removing_replicas)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.replicas)?;
        r.get(&mut it.adding_replicas)?;
        r.get(&mut it.removing_replicas)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeProducersRequest {
    pub topics: Vec<DescribeProducersRequestTopic>,
}

impl Wire for DescribeProducersRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DescribeProducersRequest {
    const NAME: &'static str = "DescribeProducersRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeProducersRequestTopic {
    pub name: String,
    pub partitions: Vec<i32>,
}

impl Wire for DescribeProducersRequestTopic {
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

impl Request for DescribeProducersRequest {
    const KEY: ApiKey = ApiKey::DescribeProducers;
    type Response = DescribeProducersResponse;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeProducersResponse {
    pub throttle_time_ms: i32,
    pub topics: Vec<DescribeProducersResponseTopic>,
}

impl Wire for DescribeProducersResponse {
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

impl Message for DescribeProducersResponse {
    const NAME: &'static str = "DescribeProducersResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeProducersResponseTopic {
    pub name: String,
    pub partitions: Vec<DescribeProducersResponsePartition>,
}

impl Wire for DescribeProducersResponseTopic {
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
pub struct DescribeProducersResponsePartition {
    pub index: i32,
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
    pub active_producers: Vec<DescribeProducersResponseProducer>,
}

impl Wire for DescribeProducersResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.error_code)?;
        w.put(&self.error_message)?;
        w.put(&self.active_producers)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.error_message)?;
        r.get(&mut it.active_producers)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeProducersResponseProducer {
    pub producer_id: i64,
    pub producer_epoch: i32,
    pub last_sequence: i32,
    pub last_timestamp_ms: i64,
    pub coordinator_epoch: i32,
    pub current_txn_start_offset: i64,
}

impl Default for DescribeProducersResponseProducer {
    fn default() -> Self {
        Self {
            producer_id: 0,
            producer_epoch: 0,
            last_sequence: -1,
            last_timestamp_ms: -1,
            coordinator_epoch: 0,
            current_txn_start_offset: -1,
        }
    }
}

impl Wire for DescribeProducersResponseProducer {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.producer_id)?;
        w.put(&self.producer_epoch)?;
        w.put(&self.last_sequence)?;
        w.put(&self.last_timestamp_ms)?;
        w.put(&self.coordinator_epoch)?;
        w.put(&self.current_txn_start_offset)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.producer_id)?;
        r.get(&mut it.producer_epoch)?;
        r.get(&mut it.last_sequence)?;
        r.get(&mut it.last_timestamp_ms)?;
        r.get(&mut it.coordinator_epoch)?;
        r.get(&mut it.current_txn_start_offset)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnregisterBrokerRequest {
    pub broker_id: i32,
}

impl Wire for UnregisterBrokerRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.broker_id)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.broker_id)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for UnregisterBrokerRequest {
    const NAME: &'static str = "UnregisterBrokerRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

impl Request for UnregisterBrokerRequest {
    const KEY: ApiKey = ApiKey::UnregisterBroker;
    type Response = UnregisterBrokerResponse;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnregisterBrokerResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub error_message: Option<String>,
}

impl Wire for UnregisterBrokerResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.error_code)?;
        w.put(&self.error_message)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.error_message)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for UnregisterBrokerResponse {
    const NAME: &'static str = "UnregisterBrokerResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeTransactionsRequest {
    pub transactional_ids: Vec<String>,
}

impl Wire for DescribeTransactionsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.transactional_ids)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.transactional_ids)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DescribeTransactionsRequest {
    const NAME: &'static str = "DescribeTransactionsRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

impl Request for DescribeTransactionsRequest {
    const KEY: ApiKey = ApiKey::DescribeTransactions;
    type Response = DescribeTransactionsResponse;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeTransactionsResponse {
    pub throttle_time_ms: i32,
    pub transactions: Vec<DescribeTransactionsResponseTransaction>,
}

impl Wire for DescribeTransactionsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.transactions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.transactions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DescribeTransactionsResponse {
    const NAME: &'static str = "DescribeTransactionsResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeTransactionsResponseTransaction {
    pub error_code: ErrorCode,
    pub transactional_id: String,
    pub state: String,
    pub timeout_ms: i32,
    pub start_time_ms: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub topics: Vec<DescribeTransactionsResponseTopic>,
}

impl Wire for DescribeTransactionsResponseTransaction {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.transactional_id)?;
        w.put(&self.state)?;
        w.put(&self.timeout_ms)?;
        w.put(&self.start_time_ms)?;
        w.put(&self.producer_id)?;
        w.put(&self.producer_epoch)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.transactional_id)?;
        r.get(&mut it.state)?;
        r.get(&mut it.timeout_ms)?;
        r.get(&mut it.start_time_ms)?;
        r.get(&mut it.producer_id)?;
        r.get(&mut it.producer_epoch)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeTransactionsResponseTopic {
    pub name: String,
    pub partitions: Vec<i32>,
}

impl Wire for DescribeTransactionsResponseTopic {
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

/// Versions 0 to 2.
#[derive(Clone, Debug, PartialEq)]
pub struct ListTransactionsRequest {
    pub state_filters: Vec<String>,
    pub producer_id_filters: Vec<i64>,
    pub duration_filter_ms: i64,
    pub transactional_id_pattern: Option<String>,
}

impl Default for ListTransactionsRequest {
    fn default() -> Self {
        Self {
            state_filters: Vec::new(),
            producer_id_filters: Vec::new(),
            duration_filter_ms: -1,
            transactional_id_pattern: None,
        }
    }
}

impl Wire for ListTransactionsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.state_filters)?;
        w.put(&self.producer_id_filters)?;
        w.put_or_default(1.., &self.duration_filter_ms, self.duration_filter_ms == -1, "duration_filter_ms")?;
        w.put_or_default(
            2..,
            &self.transactional_id_pattern,
            self.transactional_id_pattern.is_none(),
            "transactional_id_pattern",
        )?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.state_filters)?;
        r.get(&mut it.producer_id_filters)?;
        r.get_in(1.., &mut it.duration_filter_ms)?;
        r.get_in(2.., &mut it.transactional_id_pattern)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ListTransactionsRequest {
    const NAME: &'static str = "ListTransactionsRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE_SINCE: i16 = 0;
}

impl Request for ListTransactionsRequest {
    const KEY: ApiKey = ApiKey::ListTransactions;
    type Response = ListTransactionsResponse;
}

/// Versions 0 to 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListTransactionsResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub unknown_state_filters: Vec<String>,
    pub transactions: Vec<ListTransactionsResponseTransaction>,
}

impl Wire for ListTransactionsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.error_code)?;
        w.put(&self.unknown_state_filters)?;
        w.put(&self.transactions)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.unknown_state_filters)?;
        r.get(&mut it.transactions)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ListTransactionsResponse {
    const NAME: &'static str = "ListTransactionsResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListTransactionsResponseTransaction {
    pub transactional_id: String,
    pub producer_id: i64,
    pub state: String,
}

impl Wire for ListTransactionsResponseTransaction {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.transactional_id)?;
        w.put(&self.producer_id)?;
        w.put(&self.state)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.transactional_id)?;
        r.get(&mut it.producer_id)?;
        r.get(&mut it.state)?;
        r.skip_tags()?;
        Ok(it)
    }
}

/// Versions 0 to 0.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeTopicPartitionsRequest {
    pub topics: Vec<DescribeTopicPartitionsRequestTopic>,
    pub response_partition_limit: i32,
    pub cursor: Option<DescribeTopicPartitionsRequestCursor>,
}

impl Default for DescribeTopicPartitionsRequest {
    fn default() -> Self {
        Self { topics: Vec::new(), response_partition_limit: 2000, cursor: None }
    }
}

impl Wire for DescribeTopicPartitionsRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topics)?;
        w.put(&self.response_partition_limit)?;
        w.put_struct(&self.cursor)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topics)?;
        r.get(&mut it.response_partition_limit)?;
        r.get_struct(&mut it.cursor)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DescribeTopicPartitionsRequest {
    const NAME: &'static str = "DescribeTopicPartitionsRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeTopicPartitionsRequestTopic {
    pub name: String,
}

impl Wire for DescribeTopicPartitionsRequestTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeTopicPartitionsRequestCursor {
    pub topic_name: String,
    pub partition_index: i32,
}

impl Wire for DescribeTopicPartitionsRequestCursor {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topic_name)?;
        w.put(&self.partition_index)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topic_name)?;
        r.get(&mut it.partition_index)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for DescribeTopicPartitionsRequest {
    const KEY: ApiKey = ApiKey::DescribeTopicPartitions;
    type Response = DescribeTopicPartitionsResponse;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeTopicPartitionsResponse {
    pub throttle_time_ms: i32,
    pub topics: Vec<DescribeTopicPartitionsResponseTopic>,
    pub next_cursor: Option<DescribeTopicPartitionsResponseCursor>,
}

impl Wire for DescribeTopicPartitionsResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.topics)?;
        w.put_struct(&self.next_cursor)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.topics)?;
        r.get_struct(&mut it.next_cursor)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for DescribeTopicPartitionsResponse {
    const NAME: &'static str = "DescribeTopicPartitionsResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeTopicPartitionsResponseTopic {
    pub error_code: ErrorCode,
    pub name: Option<String>,
    pub topic_id: Uuid,
    pub is_internal: bool,
    pub partitions: Vec<DescribeTopicPartitionsResponsePartition>,
    pub topic_authorized_operations: i32,
}

impl Default for DescribeTopicPartitionsResponseTopic {
    fn default() -> Self {
        Self {
            error_code: ErrorCode::NONE,
            name: None,
            topic_id: Uuid::ZERO,
            is_internal: false,
            partitions: Vec::new(),
            topic_authorized_operations: -2147483648,
        }
    }
}

impl Wire for DescribeTopicPartitionsResponseTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.name)?;
        w.put(&self.topic_id)?;
        w.put(&self.is_internal)?;
        w.put(&self.partitions)?;
        w.put(&self.topic_authorized_operations)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.name)?;
        r.get(&mut it.topic_id)?;
        r.get(&mut it.is_internal)?;
        r.get(&mut it.partitions)?;
        r.get(&mut it.topic_authorized_operations)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeTopicPartitionsResponsePartition {
    pub error_code: ErrorCode,
    pub index: i32,
    pub leader_id: i32,
    pub leader_epoch: i32,
    pub replica_nodes: Vec<i32>,
    pub isr_nodes: Vec<i32>,
    pub eligible_leader_replicas: Option<Vec<i32>>,
    pub last_known_elr: Option<Vec<i32>>,
    pub offline_replicas: Vec<i32>,
}

impl Default for DescribeTopicPartitionsResponsePartition {
    fn default() -> Self {
        Self {
            error_code: ErrorCode::NONE,
            index: 0,
            leader_id: 0,
            leader_epoch: -1,
            replica_nodes: Vec::new(),
            isr_nodes: Vec::new(),
            eligible_leader_replicas: None,
            last_known_elr: None,
            offline_replicas: Vec::new(),
        }
    }
}

impl Wire for DescribeTopicPartitionsResponsePartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.error_code)?;
        w.put(&self.index)?;
        w.put(&self.leader_id)?;
        w.put(&self.leader_epoch)?;
        w.put(&self.replica_nodes)?;
        w.put(&self.isr_nodes)?;
        w.put(&self.eligible_leader_replicas)?;
        w.put(&self.last_known_elr)?;
        w.put(&self.offline_replicas)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.error_code)?;
        r.get(&mut it.index)?;
        r.get(&mut it.leader_id)?;
        r.get(&mut it.leader_epoch)?;
        r.get(&mut it.replica_nodes)?;
        r.get(&mut it.isr_nodes)?;
        r.get(&mut it.eligible_leader_replicas)?;
        r.get(&mut it.last_known_elr)?;
        r.get(&mut it.offline_replicas)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeTopicPartitionsResponseCursor {
    pub topic_name: String,
    pub partition_index: i32,
}

impl Wire for DescribeTopicPartitionsResponseCursor {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topic_name)?;
        w.put(&self.partition_index)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topic_name)?;
        r.get(&mut it.partition_index)?;
        r.skip_tags()?;
        Ok(it)
    }
}
