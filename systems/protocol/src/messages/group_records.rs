//! Generated from `schema/group_records.schema` by `tests/generate.rs`: do not edit.

use std::ops::RangeInclusive;

use crate::wire::{DecodeError, EncodeError, Reader, Wire, Writer};
use crate::{Message, Uuid};

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupMetadataValue {
    pub epoch: i32,
    pub metadata_hash: i64,
}

impl Wire for ConsumerGroupMetadataValue {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.epoch)?;
        let mut tags = w.tags();
        tags.put(0, .., &self.metadata_hash, self.metadata_hash == 0, "metadata_hash")?;
        w.finish_tags(tags)
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.epoch)?;
        r.tags(|r, tag| match tag {
            0 => r.get_in(.., &mut it.metadata_hash),
            _ => Ok(false),
        })?;
        Ok(it)
    }
}

impl Message for ConsumerGroupMetadataValue {
    const NAME: &'static str = "ConsumerGroupMetadataValue";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerGroupMemberMetadataValue {
    pub instance_id: Option<String>,
    pub rack_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub subscribed_topic_names: Vec<String>,
    pub subscribed_topic_regex: Option<String>,
    pub rebalance_timeout_ms: i32,
    pub server_assignor: Option<String>,
}

impl Default for ConsumerGroupMemberMetadataValue {
    fn default() -> Self {
        Self {
            instance_id: None,
            rack_id: None,
            client_id: String::new(),
            client_host: String::new(),
            subscribed_topic_names: Vec::new(),
            subscribed_topic_regex: None,
            rebalance_timeout_ms: -1,
            server_assignor: None,
        }
    }
}

impl Wire for ConsumerGroupMemberMetadataValue {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.instance_id)?;
        w.put(&self.rack_id)?;
        w.put(&self.client_id)?;
        w.put(&self.client_host)?;
        w.put(&self.subscribed_topic_names)?;
        w.put(&self.subscribed_topic_regex)?;
        w.put(&self.rebalance_timeout_ms)?;
        w.put(&self.server_assignor)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.instance_id)?;
        r.get(&mut it.rack_id)?;
        r.get(&mut it.client_id)?;
        r.get(&mut it.client_host)?;
        r.get(&mut it.subscribed_topic_names)?;
        r.get(&mut it.subscribed_topic_regex)?;
        r.get(&mut it.rebalance_timeout_ms)?;
        r.get(&mut it.server_assignor)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ConsumerGroupMemberMetadataValue {
    const NAME: &'static str = "ConsumerGroupMemberMetadataValue";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupTargetAssignmentMetadataValue {
    pub assignment_epoch: i32,
}

impl Wire for ConsumerGroupTargetAssignmentMetadataValue {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.assignment_epoch)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.assignment_epoch)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ConsumerGroupTargetAssignmentMetadataValue {
    const NAME: &'static str = "ConsumerGroupTargetAssignmentMetadataValue";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupTargetAssignmentMemberValue {
    pub topic_partitions: Vec<ConsumerGroupTargetAssignmentMemberValueTopicPartitions>,
}

impl Wire for ConsumerGroupTargetAssignmentMemberValue {
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

impl Message for ConsumerGroupTargetAssignmentMemberValue {
    const NAME: &'static str = "ConsumerGroupTargetAssignmentMemberValue";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupTargetAssignmentMemberValueTopicPartitions {
    pub topic_id: Uuid,
    pub partitions: Vec<i32>,
}

impl Wire for ConsumerGroupTargetAssignmentMemberValueTopicPartitions {
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

/// Versions 0 to 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupCurrentMemberAssignmentValue {
    pub member_epoch: i32,
    pub previous_member_epoch: i32,
    pub state: i8,
    pub assigned_partitions: Vec<ConsumerGroupCurrentMemberAssignmentValueTopicPartitions>,
    pub partitions_pending_revocation: Vec<ConsumerGroupCurrentMemberAssignmentValueTopicPartitions>,
}

impl Wire for ConsumerGroupCurrentMemberAssignmentValue {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.member_epoch)?;
        w.put(&self.previous_member_epoch)?;
        w.put(&self.state)?;
        w.put(&self.assigned_partitions)?;
        w.put(&self.partitions_pending_revocation)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.member_epoch)?;
        r.get(&mut it.previous_member_epoch)?;
        r.get(&mut it.state)?;
        r.get(&mut it.assigned_partitions)?;
        r.get(&mut it.partitions_pending_revocation)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ConsumerGroupCurrentMemberAssignmentValue {
    const NAME: &'static str = "ConsumerGroupCurrentMemberAssignmentValue";
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupCurrentMemberAssignmentValueTopicPartitions {
    pub topic_id: Uuid,
    pub partitions: Vec<i32>,
}

impl Wire for ConsumerGroupCurrentMemberAssignmentValueTopicPartitions {
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
