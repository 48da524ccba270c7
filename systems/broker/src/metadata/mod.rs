//! What the cluster agrees on: brokers, topics, partitions' leaders and in-sync replicas, producer ids.
//!
//! The metadata quorum's log holds [`Record`]s, one atomic list of them an entry. Every broker applies them in order to
//! its own [`Image`]; equal prefixes of the log give equal images. A snapshot is a list of records that rebuilds one.
//!
//! Source: KIP-500; KIP-631, "The controller quorum".

mod codec;
mod image;
mod record;

pub(crate) use codec::{decode, encode};
pub(crate) use image::{Image, Partition, Topic};
pub(crate) use record::{PartitionState, Record};
