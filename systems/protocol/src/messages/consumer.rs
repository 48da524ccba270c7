//! Generated from `schema/consumer.schema` by `tests/generate.rs`: do not edit.

use std::ops::RangeInclusive;

use bytes::Bytes;

use crate::Message;
use crate::wire::{DecodeError, EncodeError, Reader, Wire, Writer};

/// Versions 0 to 3.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerProtocolSubscription {
    pub topics: Vec<String>,
    pub user_data: Option<Bytes>,
    pub owned_partitions: Vec<ConsumerProtocolSubscriptionTopic>,
    pub generation_id: i32,
    pub rack_id: Option<String>,
}

impl Default for ConsumerProtocolSubscription {
    fn default() -> Self {
        Self {
            topics: Vec::new(),
            user_data: None,
            owned_partitions: Vec::new(),
            generation_id: -1,
            rack_id: None,
        }
    }
}

impl Wire for ConsumerProtocolSubscription {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topics)?;
        w.put(&self.user_data)?;
        w.put_in(1.., &self.owned_partitions)?;
        w.put_in(2.., &self.generation_id)?;
        w.put_in(3.., &self.rack_id)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topics)?;
        r.get(&mut it.user_data)?;
        r.get_in(1.., &mut it.owned_partitions)?;
        r.get_in(2.., &mut it.generation_id)?;
        r.get_in(3.., &mut it.rack_id)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ConsumerProtocolSubscription {
    const NAME: &'static str = "ConsumerProtocolSubscription";
    const VERSIONS: RangeInclusive<i16> = 0..=3;
    const FLEXIBLE_SINCE: i16 = i16::MAX;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerProtocolSubscriptionTopic {
    pub name: String,
    pub partitions: Vec<i32>,
}

impl Wire for ConsumerProtocolSubscriptionTopic {
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

/// Versions 0 to 3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerProtocolAssignment {
    pub topics: Vec<ConsumerProtocolAssignmentTopic>,
    pub user_data: Option<Bytes>,
}

impl Wire for ConsumerProtocolAssignment {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.put(&self.topics)?;
        w.put(&self.user_data)?;
        w.no_tags()
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        r.get(&mut it.topics)?;
        r.get(&mut it.user_data)?;
        r.skip_tags()?;
        Ok(it)
    }
}

impl Message for ConsumerProtocolAssignment {
    const NAME: &'static str = "ConsumerProtocolAssignment";
    const VERSIONS: RangeInclusive<i16> = 0..=3;
    const FLEXIBLE_SINCE: i16 = i16::MAX;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerProtocolAssignmentTopic {
    pub name: String,
    pub partitions: Vec<i32>,
}

impl Wire for ConsumerProtocolAssignmentTopic {
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
