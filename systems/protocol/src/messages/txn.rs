//! Generated from `schema/txn.schema` by `tests/generate.rs`: do not edit.

use std::ops::RangeInclusive;

use super::ApiKey;
use crate::wire::{DecodeError, EncodeError, Reader, Wire, Writer};
use crate::{ErrorCode, Message, Request};

/// Versions 0 to 5.
#[derive(Clone, Debug, PartialEq)]
pub struct InitProducerIdRequest {
    pub transactional_id: Option<String>,
    pub transaction_timeout_ms: i32,
    pub producer_id: i64,
    pub producer_epoch: i16,
}

impl Default for InitProducerIdRequest {
    fn default() -> Self {
        Self { transactional_id: None, transaction_timeout_ms: 0, producer_id: -1, producer_epoch: -1 }
    }
}

impl Wire for InitProducerIdRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.transactional_id)?;
        w.put(&self.transaction_timeout_ms)?;
        w.put_or_default(3.., &self.producer_id, self.producer_id == -1, "producer_id")?;
        w.put_or_default(3.., &self.producer_epoch, self.producer_epoch == -1, "producer_epoch")?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.transactional_id)?;
        r.get(&mut it.transaction_timeout_ms)?;
        r.get_in(3.., &mut it.producer_id)?;
        r.get_in(3.., &mut it.producer_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for InitProducerIdRequest {
    const NAME: &'static str = "InitProducerIdRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE_SINCE: i16 = 2;
}

impl Request for InitProducerIdRequest {
    const KEY: ApiKey = ApiKey::InitProducerId;
    type Response = InitProducerIdResponse;
}

/// Versions 0 to 5.
#[derive(Clone, Debug, PartialEq)]
pub struct InitProducerIdResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub producer_id: i64,
    pub producer_epoch: i16,
}

impl Default for InitProducerIdResponse {
    fn default() -> Self {
        Self { throttle_time_ms: 0, error_code: ErrorCode::NONE, producer_id: -1, producer_epoch: 0 }
    }
}

impl Wire for InitProducerIdResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.error_code)?;
        w.put(&self.producer_id)?;
        w.put(&self.producer_epoch)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.error_code)?;
        r.get(&mut it.producer_id)?;
        r.get(&mut it.producer_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for InitProducerIdResponse {
    const NAME: &'static str = "InitProducerIdResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE_SINCE: i16 = 2;
}

/// Versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnRequest {
    pub transactions: Vec<AddPartitionsToTxnRequestTransaction>,
    pub transactional_id: String,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub topics: Vec<AddPartitionsToTxnRequestTopic>,
}

impl Wire for AddPartitionsToTxnRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put_or_default(4.., &self.transactions, self.transactions.is_empty(), "transactions")?;
        w.put_or_default(..=3, &self.transactional_id, self.transactional_id.is_empty(), "transactional_id")?;
        w.put_or_default(..=3, &self.producer_id, self.producer_id == 0, "producer_id")?;
        w.put_or_default(..=3, &self.producer_epoch, self.producer_epoch == 0, "producer_epoch")?;
        w.put_or_default(..=3, &self.topics, self.topics.is_empty(), "topics")?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get_in(4.., &mut it.transactions)?;
        r.get_in(..=3, &mut it.transactional_id)?;
        r.get_in(..=3, &mut it.producer_id)?;
        r.get_in(..=3, &mut it.producer_epoch)?;
        r.get_in(..=3, &mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for AddPartitionsToTxnRequest {
    const NAME: &'static str = "AddPartitionsToTxnRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE_SINCE: i16 = 3;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnRequestTransaction {
    pub transactional_id: String,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub verify_only: bool,
    pub topics: Vec<AddPartitionsToTxnRequestTopic>,
}

impl Wire for AddPartitionsToTxnRequestTransaction {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.transactional_id)?;
        w.put(&self.producer_id)?;
        w.put(&self.producer_epoch)?;
        w.put(&self.verify_only)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.transactional_id)?;
        r.get(&mut it.producer_id)?;
        r.get(&mut it.producer_epoch)?;
        r.get(&mut it.verify_only)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnRequestTopic {
    pub name: String,
    pub partitions: Vec<i32>,
}

impl Wire for AddPartitionsToTxnRequestTopic {
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

impl Request for AddPartitionsToTxnRequest {
    const KEY: ApiKey = ApiKey::AddPartitionsToTxn;
    type Response = AddPartitionsToTxnResponse;
}

/// Versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub results_by_transaction: Vec<AddPartitionsToTxnResponseTransaction>,
    pub results_by_topic: Vec<AddPartitionsToTxnResponseTopic>,
}

impl Wire for AddPartitionsToTxnResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put_in(4.., &self.error_code)?;
        w.put_or_default(
            4..,
            &self.results_by_transaction,
            self.results_by_transaction.is_empty(),
            "results_by_transaction",
        )?;
        w.put_or_default(..=3, &self.results_by_topic, self.results_by_topic.is_empty(), "results_by_topic")?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get_in(4.., &mut it.error_code)?;
        r.get_in(4.., &mut it.results_by_transaction)?;
        r.get_in(..=3, &mut it.results_by_topic)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for AddPartitionsToTxnResponse {
    const NAME: &'static str = "AddPartitionsToTxnResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE_SINCE: i16 = 3;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnResponseTransaction {
    pub transactional_id: String,
    pub topic_results: Vec<AddPartitionsToTxnResponseTopic>,
}

impl Wire for AddPartitionsToTxnResponseTransaction {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.transactional_id)?;
        w.put(&self.topic_results)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.transactional_id)?;
        r.get(&mut it.topic_results)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnResponseTopic {
    pub name: String,
    pub results_by_partition: Vec<AddPartitionsToTxnResponsePartition>,
}

impl Wire for AddPartitionsToTxnResponseTopic {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.name)?;
        w.put(&self.results_by_partition)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.name)?;
        r.get(&mut it.results_by_partition)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnResponsePartition {
    pub index: i32,
    pub error_code: ErrorCode,
}

impl Wire for AddPartitionsToTxnResponsePartition {
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

/// Versions 0 to 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddOffsetsToTxnRequest {
    pub transactional_id: String,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub group_id: String,
}

impl Wire for AddOffsetsToTxnRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.transactional_id)?;
        w.put(&self.producer_id)?;
        w.put(&self.producer_epoch)?;
        w.put(&self.group_id)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.transactional_id)?;
        r.get(&mut it.producer_id)?;
        r.get(&mut it.producer_epoch)?;
        r.get(&mut it.group_id)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for AddOffsetsToTxnRequest {
    const NAME: &'static str = "AddOffsetsToTxnRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=4;
    const FLEXIBLE_SINCE: i16 = 3;
}

impl Request for AddOffsetsToTxnRequest {
    const KEY: ApiKey = ApiKey::AddOffsetsToTxn;
    type Response = AddOffsetsToTxnResponse;
}

/// Versions 0 to 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddOffsetsToTxnResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
}

impl Wire for AddOffsetsToTxnResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.error_code)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.error_code)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for AddOffsetsToTxnResponse {
    const NAME: &'static str = "AddOffsetsToTxnResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=4;
    const FLEXIBLE_SINCE: i16 = 3;
}

/// Versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndTxnRequest {
    pub transactional_id: String,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub committed: bool,
}

impl Wire for EndTxnRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.transactional_id)?;
        w.put(&self.producer_id)?;
        w.put(&self.producer_epoch)?;
        w.put(&self.committed)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.transactional_id)?;
        r.get(&mut it.producer_id)?;
        r.get(&mut it.producer_epoch)?;
        r.get(&mut it.committed)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for EndTxnRequest {
    const NAME: &'static str = "EndTxnRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE_SINCE: i16 = 3;
}

impl Request for EndTxnRequest {
    const KEY: ApiKey = ApiKey::EndTxn;
    type Response = EndTxnResponse;
}

/// Versions 0 to 5.
#[derive(Clone, Debug, PartialEq)]
pub struct EndTxnResponse {
    pub throttle_time_ms: i32,
    pub error_code: ErrorCode,
    pub producer_id: i64,
    pub producer_epoch: i16,
}

impl Default for EndTxnResponse {
    fn default() -> Self {
        Self { throttle_time_ms: 0, error_code: ErrorCode::NONE, producer_id: -1, producer_epoch: -1 }
    }
}

impl Wire for EndTxnResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.throttle_time_ms)?;
        w.put(&self.error_code)?;
        w.put_in(5.., &self.producer_id)?;
        w.put_in(5.., &self.producer_epoch)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.throttle_time_ms)?;
        r.get(&mut it.error_code)?;
        r.get_in(5.., &mut it.producer_id)?;
        r.get_in(5.., &mut it.producer_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for EndTxnResponse {
    const NAME: &'static str = "EndTxnResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE_SINCE: i16 = 3;
}

/// Versions 0 to 5.
#[derive(Clone, Debug, PartialEq)]
pub struct TxnOffsetCommitRequest {
    pub transactional_id: String,
    pub group_id: String,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub generation_id: i32,
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub topics: Vec<TxnOffsetCommitRequestTopic>,
}

impl Default for TxnOffsetCommitRequest {
    fn default() -> Self {
        Self {
            transactional_id: String::new(),
            group_id: String::new(),
            producer_id: 0,
            producer_epoch: 0,
            generation_id: -1,
            member_id: String::new(),
            group_instance_id: None,
            topics: Vec::new(),
        }
    }
}

impl Wire for TxnOffsetCommitRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.transactional_id)?;
        w.put(&self.group_id)?;
        w.put(&self.producer_id)?;
        w.put(&self.producer_epoch)?;
        w.put_or_default(3.., &self.generation_id, self.generation_id == -1, "generation_id")?;
        w.put_or_default(3.., &self.member_id, self.member_id.is_empty(), "member_id")?;
        w.put_or_default(
            3..,
            &self.group_instance_id,
            self.group_instance_id.is_none(),
            "group_instance_id",
        )?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.transactional_id)?;
        r.get(&mut it.group_id)?;
        r.get(&mut it.producer_id)?;
        r.get(&mut it.producer_epoch)?;
        r.get_in(3.., &mut it.generation_id)?;
        r.get_in(3.., &mut it.member_id)?;
        r.get_in(3.., &mut it.group_instance_id)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for TxnOffsetCommitRequest {
    const NAME: &'static str = "TxnOffsetCommitRequest";
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE_SINCE: i16 = 3;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TxnOffsetCommitRequestTopic {
    pub name: String,
    pub partitions: Vec<TxnOffsetCommitRequestPartition>,
}

impl Wire for TxnOffsetCommitRequestTopic {
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
pub struct TxnOffsetCommitRequestPartition {
    pub index: i32,
    pub committed_offset: i64,
    pub committed_leader_epoch: i32,
    pub committed_metadata: Option<String>,
}

impl Default for TxnOffsetCommitRequestPartition {
    fn default() -> Self {
        Self { index: 0, committed_offset: 0, committed_leader_epoch: -1, committed_metadata: None }
    }
}

impl Wire for TxnOffsetCommitRequestPartition {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.index)?;
        w.put(&self.committed_offset)?;
        w.put_in(2.., &self.committed_leader_epoch)?;
        w.put(&self.committed_metadata)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.index)?;
        r.get(&mut it.committed_offset)?;
        r.get_in(2.., &mut it.committed_leader_epoch)?;
        r.get(&mut it.committed_metadata)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Request for TxnOffsetCommitRequest {
    const KEY: ApiKey = ApiKey::TxnOffsetCommit;
    type Response = TxnOffsetCommitResponse;
}

/// Versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TxnOffsetCommitResponse {
    pub throttle_time_ms: i32,
    pub topics: Vec<TxnOffsetCommitResponseTopic>,
}

impl Wire for TxnOffsetCommitResponse {
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

impl Message for TxnOffsetCommitResponse {
    const NAME: &'static str = "TxnOffsetCommitResponse";
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE_SINCE: i16 = 3;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TxnOffsetCommitResponseTopic {
    pub name: String,
    pub partitions: Vec<TxnOffsetCommitResponsePartition>,
}

impl Wire for TxnOffsetCommitResponseTopic {
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
pub struct TxnOffsetCommitResponsePartition {
    pub index: i32,
    pub error_code: ErrorCode,
}

impl Wire for TxnOffsetCommitResponsePartition {
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

/// Versions 1 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteTxnMarkersRequest {
    pub markers: Vec<WriteTxnMarkersRequestMarker>,
}

impl Wire for WriteTxnMarkersRequest {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.markers)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.markers)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for WriteTxnMarkersRequest {
    const NAME: &'static str = "WriteTxnMarkersRequest";
    const VERSIONS: RangeInclusive<i16> = 1..=1;
    const FLEXIBLE_SINCE: i16 = 1;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteTxnMarkersRequestMarker {
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub transaction_result: bool,
    pub topics: Vec<WriteTxnMarkersRequestTopic>,
    pub coordinator_epoch: i32,
}

impl Wire for WriteTxnMarkersRequestMarker {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.producer_id)?;
        w.put(&self.producer_epoch)?;
        w.put(&self.transaction_result)?;
        w.put(&self.topics)?;
        w.put(&self.coordinator_epoch)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.producer_id)?;
        r.get(&mut it.producer_epoch)?;
        r.get(&mut it.transaction_result)?;
        r.get(&mut it.topics)?;
        r.get(&mut it.coordinator_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteTxnMarkersRequestTopic {
    pub name: String,
    pub partitions: Vec<i32>,
}

impl Wire for WriteTxnMarkersRequestTopic {
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

impl Request for WriteTxnMarkersRequest {
    const KEY: ApiKey = ApiKey::WriteTxnMarkers;
    type Response = WriteTxnMarkersResponse;
}

/// Versions 1 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteTxnMarkersResponse {
    pub markers: Vec<WriteTxnMarkersResponseMarker>,
}

impl Wire for WriteTxnMarkersResponse {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.markers)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.markers)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for WriteTxnMarkersResponse {
    const NAME: &'static str = "WriteTxnMarkersResponse";
    const VERSIONS: RangeInclusive<i16> = 1..=1;
    const FLEXIBLE_SINCE: i16 = 1;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteTxnMarkersResponseMarker {
    pub producer_id: i64,
    pub topics: Vec<WriteTxnMarkersResponseTopic>,
}

impl Wire for WriteTxnMarkersResponseMarker {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.producer_id)?;
        w.put(&self.topics)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.producer_id)?;
        r.get(&mut it.topics)?;
        r.skip_tags()?;
        Ok(it)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteTxnMarkersResponseTopic {
    pub name: String,
    pub partitions: Vec<WriteTxnMarkersResponsePartition>,
}

impl Wire for WriteTxnMarkersResponseTopic {
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
pub struct WriteTxnMarkersResponsePartition {
    pub index: i32,
    pub error_code: ErrorCode,
}

impl Wire for WriteTxnMarkersResponsePartition {
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
