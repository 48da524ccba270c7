//! What an entry of the metadata log says.

use crate::ids::{BrokerId, Incarnation, LeaderEpoch, PartitionEpoch, TopicId};

/// One change of the [`Image`](super::Image).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Record {
    /// A broker's process announced itself. It is fenced until it has caught up with the log.
    RegisterBroker {
        /// Which broker.
        id: BrokerId,
        /// Which life of it.
        incarnation: Incarnation,
        /// Where clients and brokers reach it.
        host: String,
        /// Where clients and brokers reach it.
        port: u16,
    },
    /// The broker was not heard for too long, or shuts down: it may neither lead nor be in sync.
    FenceBroker {
        /// Which broker.
        id: BrokerId,
    },
    /// The broker takes part again.
    UnfenceBroker {
        /// Which broker.
        id: BrokerId,
    },
    /// The broker is gone for good.
    UnregisterBroker {
        /// Which broker.
        id: BrokerId,
        /// Which life of it, which is not registered again: it may still run, or its wish may come late. Older logs do not
        /// say.
        incarnation: Option<Incarnation>,
    },
    /// A topic without partitions yet: [`Record::SetPartition`]s of the same entry follow.
    CreateTopic {
        /// Never used before.
        id: TopicId,
        /// Not in use now.
        name: String,
        /// How many replicas must be in sync for acks=all. Resolved when the topic is made, so that all brokers agree.
        min_insync_replicas: u16,
        /// Whether a replica that is not in sync may lead when no other lives.
        unclean_leader_election: bool,
        /// What the client asked for, as it wrote it.
        configs: Vec<(String, String)>,
    },
    /// A topic has other settings. All of them, for the first three are [`Record::CreateTopic`]'s.
    SetTopicConfigs {
        /// Which topic.
        id: TopicId,
        /// See [`Record::CreateTopic`].
        min_insync_replicas: u16,
        /// See [`Record::CreateTopic`].
        unclean_leader_election: bool,
        /// What clients asked for by now.
        configs: Vec<(String, String)>,
    },
    /// A topic and all of its partitions are gone.
    DeleteTopic {
        /// Which topic.
        id: TopicId,
    },
    /// The state of a partition, new or changed.
    SetPartition {
        /// Its topic.
        topic: TopicId,
        /// Its place in the topic.
        index: i32,
        /// All of its state.
        state: PartitionState,
    },
    /// Producer ids below this one were given out. Source: KIP-730.
    ProducerIds {
        /// The next free id.
        next: i64,
    },
}

/// Who has a partition, and who leads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PartitionState {
    /// Who has a copy, in order of preference as leader.
    pub(crate) replicas: Vec<BrokerId>,
    /// Who has all committed records. The last one stays in it when it dies; empty if that one lost its disk.
    pub(crate) isr: Vec<BrokerId>,
    /// Who left the ISR when that fell below `min.insync.replicas`: no record was committed without them since, so each
    /// of them may lead when nobody of the ISR can. Source: KIP-966, "Eligible leader replicas".
    pub(crate) elr: Vec<BrokerId>,
    /// Who leads, if anybody can.
    pub(crate) leader: Option<BrokerId>,
    /// Replicas that a reassignment brings: it is over when all of them are in sync. Source: KIP-455.
    pub(crate) adding: Vec<BrokerId>,
    /// Replicas that go when it is over. Source: KIP-455.
    pub(crate) removing: Vec<BrokerId>,
    /// Rises with each change of leader.
    pub(crate) leader_epoch: LeaderEpoch,
    /// Rises with each change.
    pub(crate) partition_epoch: PartitionEpoch,
}
