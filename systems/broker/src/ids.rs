//! The broker's words: brokers, topics, partitions, epochs.

use riprap_protocol::Uuid;
use std::fmt;

/// A broker, which is also a voter of the metadata quorum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BrokerId(pub i32);

/// One life of a broker's process, drawn at random when it starts. Also called the broker's epoch on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Incarnation(pub(crate) i64);

/// A topic, told apart from earlier ones of the same name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct TopicId(pub(crate) Uuid);

/// A partition of a topic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PartitionKey {
    /// The topic.
    pub(crate) topic: TopicId,
    /// Its place in the topic, from 0.
    pub(crate) index: i32,
}

/// Rises with each change of a partition's leader; stamped on what the leader appends. Source: KIP-101.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LeaderEpoch(pub(crate) i32);

impl LeaderEpoch {
    /// The epoch of the next leader.
    pub(crate) fn next(self) -> LeaderEpoch {
        LeaderEpoch(self.0 + 1)
    }
}

/// Rises with each change of a partition's state; what AlterPartition compares and sets. Source: KIP-497.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PartitionEpoch(pub(crate) i32);

impl PartitionEpoch {
    /// The epoch of the next state.
    pub(crate) fn next(self) -> PartitionEpoch {
        PartitionEpoch(self.0 + 1)
    }
}

macro_rules! display_inner {
    ($($name:ident),*) => {
        $(impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        })*
    };
}

display_inner!(BrokerId, Incarnation, TopicId, LeaderEpoch, PartitionEpoch);
