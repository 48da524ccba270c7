//! The state that the metadata log's records add up to.

use super::record::{PartitionState, Record};
use crate::config::BrokerConfig;
use crate::ids::{BrokerId, Incarnation, PartitionKey, TopicId};
use crate::settings::TopicSettings;
use std::collections::BTreeMap;

/// The cluster as a prefix of the metadata log describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Image {
    brokers: BTreeMap<BrokerId, Broker>,
    topics: BTreeMap<TopicId, Topic>,
    names: BTreeMap<String, TopicId>,
    next_producer_id: i64,
    /// The lives that were unregistered last, by broker.
    gone: BTreeMap<BrokerId, Incarnation>,
}

/// Most brokers whose last life is remembered after they were unregistered: far more than there are at a time.
const MAX_GONE: usize = 1024;

/// A broker that registered at least once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Broker {
    /// Its process' life.
    pub(crate) incarnation: Incarnation,
    /// Where it is reached.
    pub(crate) host: String,
    /// Where it is reached.
    pub(crate) port: u16,
    /// Whether it may neither lead nor be in sync.
    pub(crate) fenced: bool,
}

/// A topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Topic {
    /// Its name.
    pub(crate) name: String,
    /// As resolved when it was made or changed; a partition with fewer replicas needs only those.
    pub(crate) min_insync_replicas: u16,
    /// Whether a replica that is not in sync may lead when no other lives.
    pub(crate) unclean_leader_election: bool,
    /// What clients asked for.
    pub(crate) configs: Vec<(String, String)>,
    /// By index.
    pub(crate) partitions: BTreeMap<i32, PartitionState>,
}

impl Topic {
    /// What its settings come to on a broker with this configuration.
    pub(crate) fn settings(&self, config: &BrokerConfig) -> TopicSettings {
        TopicSettings {
            // Those on which what is committed depends are the same on all brokers.
            min_insync_replicas: self.min_insync_replicas,
            unclean_leader_election: self.unclean_leader_election,
            ..TopicSettings::resolve(config, &self.configs)
        }
    }
}

/// A partition as its topic and state tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partition<'a> {
    /// Its topic.
    pub(crate) topic: &'a Topic,
    /// Its state.
    pub(crate) state: &'a PartitionState,
}

impl Partition<'_> {
    /// How many replicas must be in sync for a record to be committed: never more than there are.
    pub(crate) fn min_insync(&self) -> usize {
        usize::from(self.topic.min_insync_replicas).min(self.state.replicas.len()).max(1)
    }
}

impl Image {
    /// Takes in one record. One that speaks of what is not there changes nothing: the controller writes none such, and
    /// all brokers must treat a broken one alike.
    pub(crate) fn apply(&mut self, record: &Record) {
        match record {
            Record::RegisterBroker { id, incarnation, host, port } => {
                let broker =
                    Broker { incarnation: *incarnation, host: host.clone(), port: *port, fenced: true };
                self.brokers.insert(*id, broker);
            }
            Record::UnregisterBroker { id, incarnation } => {
                self.brokers.remove(id);
                if let Some(incarnation) = incarnation {
                    self.gone.insert(*id, *incarnation);
                    if self.gone.len() > MAX_GONE {
                        self.gone.pop_first();
                    }
                }
            }
            Record::FenceBroker { id } => self.set_fenced(*id, true),
            Record::UnfenceBroker { id } => self.set_fenced(*id, false),
            Record::CreateTopic { id, name, min_insync_replicas, unclean_leader_election, configs } => {
                let topic = Topic {
                    name: name.clone(),
                    min_insync_replicas: *min_insync_replicas,
                    unclean_leader_election: *unclean_leader_election,
                    configs: configs.clone(),
                    partitions: BTreeMap::new(),
                };
                self.names.insert(name.clone(), *id);
                self.topics.insert(*id, topic);
            }
            Record::SetTopicConfigs { id, min_insync_replicas, unclean_leader_election, configs } => {
                if let Some(topic) = self.topics.get_mut(id) {
                    topic.min_insync_replicas = *min_insync_replicas;
                    topic.unclean_leader_election = *unclean_leader_election;
                    topic.configs.clone_from(configs);
                }
            }
            Record::DeleteTopic { id } => {
                if let Some(topic) = self.topics.remove(id)
                    && self.names.get(&topic.name) == Some(id)
                {
                    self.names.remove(&topic.name);
                }
            }
            Record::SetPartition { topic, index, state } => {
                if let Some(topic) = self.topics.get_mut(topic) {
                    topic.partitions.insert(*index, state.clone());
                }
            }
            Record::ProducerIds { next } => self.next_producer_id = self.next_producer_id.max(*next),
        }
    }

    fn set_fenced(&mut self, id: BrokerId, fenced: bool) {
        if let Some(broker) = self.brokers.get_mut(&id) {
            broker.fenced = fenced;
        }
    }

    /// Records that rebuild this image from an empty one.
    pub(crate) fn to_records(&self) -> Vec<Record> {
        let gone = self.gone.iter();
        let mut records: Vec<Record> =
            gone.map(|(id, life)| Record::UnregisterBroker { id: *id, incarnation: Some(*life) }).collect();
        for (id, broker) in &self.brokers {
            records.push(Record::RegisterBroker {
                id: *id,
                incarnation: broker.incarnation,
                host: broker.host.clone(),
                port: broker.port,
            });
            if !broker.fenced {
                records.push(Record::UnfenceBroker { id: *id });
            }
        }
        for (id, topic) in &self.topics {
            records.push(Record::CreateTopic {
                id: *id,
                name: topic.name.clone(),
                min_insync_replicas: topic.min_insync_replicas,
                unclean_leader_election: topic.unclean_leader_election,
                configs: topic.configs.clone(),
            });
            records.extend(topic.partitions.iter().map(|(index, state)| Record::SetPartition {
                topic: *id,
                index: *index,
                state: state.clone(),
            }));
        }
        records.push(Record::ProducerIds { next: self.next_producer_id });
        records
    }

    /// A broker that registered.
    pub(crate) fn broker(&self, id: BrokerId) -> Option<&Broker> {
        self.brokers.get(&id)
    }

    /// The brokers that registered, by id.
    pub(crate) fn brokers(&self) -> impl Iterator<Item = (BrokerId, &Broker)> {
        self.brokers.iter().map(|(id, broker)| (*id, broker))
    }

    /// Whether a life of a broker was unregistered: it does not come back.
    pub(crate) fn is_gone(&self, id: BrokerId, incarnation: Incarnation) -> bool {
        self.gone.get(&id) == Some(&incarnation)
    }

    /// Whether a broker registered and takes part.
    pub(crate) fn is_live(&self, id: BrokerId) -> bool {
        self.brokers.get(&id).is_some_and(|broker| !broker.fenced)
    }

    /// The topics, by name.
    pub(crate) fn topics_by_name(&self) -> impl Iterator<Item = (&str, TopicId, &Topic)> {
        self.names.iter().map(|(name, id)| (name.as_str(), *id, &self.topics[id]))
    }

    /// A topic.
    pub(crate) fn topic(&self, id: TopicId) -> Option<&Topic> {
        self.topics.get(&id)
    }

    /// The topic that has a name now.
    pub(crate) fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.names.get(name).copied()
    }

    /// A partition.
    pub(crate) fn partition(&self, key: PartitionKey) -> Option<Partition<'_>> {
        let topic = self.topics.get(&key.topic)?;
        Some(Partition { topic, state: topic.partitions.get(&key.index)? })
    }

    /// Every partition, by key.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (PartitionKey, Partition<'_>)> {
        self.topics.iter().flat_map(|(id, topic)| {
            topic.partitions.iter().map(|(index, state)| {
                (PartitionKey { topic: *id, index: *index }, Partition { topic, state })
            })
        })
    }

    /// The first producer id that was not given out.
    pub(crate) fn next_producer_id(&self) -> i64 {
        self.next_producer_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{LeaderEpoch, PartitionEpoch};
    use riprap_protocol::Uuid;

    fn topic_records(id: u8, name: &str) -> Vec<Record> {
        let topic = TopicId(Uuid([id; 16]));
        let state = PartitionState {
            replicas: vec![BrokerId(1)],
            isr: vec![BrokerId(1)],
            elr: vec![],
            adding: vec![],
            removing: vec![],
            leader: Some(BrokerId(1)),
            leader_epoch: LeaderEpoch(0),
            partition_epoch: PartitionEpoch(0),
        };
        vec![
            Record::CreateTopic {
                id: topic,
                name: name.to_owned(),
                min_insync_replicas: 2,
                unclean_leader_election: false,
                configs: vec![],
            },
            Record::SetPartition { topic, index: 0, state },
        ]
    }

    fn image(records: &[Record]) -> Image {
        let mut image = Image::default();
        records.iter().for_each(|record| image.apply(record));
        image
    }

    #[test]
    fn a_snapshot_rebuilds_the_image() {
        let mut records = topic_records(1, "a");
        records.extend(topic_records(2, "b"));
        records.push(Record::DeleteTopic { id: TopicId(Uuid([1; 16])) });
        for (id, unfenced) in [(1, true), (2, false)] {
            records.push(Record::RegisterBroker {
                id: BrokerId(id),
                incarnation: Incarnation(9),
                host: "h".to_owned(),
                port: 1,
            });
            if unfenced {
                records.push(Record::UnfenceBroker { id: BrokerId(id) });
            }
        }
        records.push(Record::ProducerIds { next: 1000 });
        records.push(Record::UnregisterBroker { id: BrokerId(9), incarnation: Some(Incarnation(4)) });
        let whole = image(&records);
        assert_eq!(image(&whole.to_records()), whole);
        assert!(whole.is_live(BrokerId(1)) && !whole.is_live(BrokerId(2)));
        assert!(whole.is_gone(BrokerId(9), Incarnation(4)) && !whole.is_gone(BrokerId(9), Incarnation(5)));
    }

    #[test]
    fn a_name_that_was_given_again_keeps_its_new_topic() {
        let mut records = topic_records(1, "a");
        records.push(Record::DeleteTopic { id: TopicId(Uuid([1; 16])) });
        records.extend(topic_records(2, "a"));
        records.push(Record::DeleteTopic { id: TopicId(Uuid([1; 16])) });
        assert_eq!(image(&records).topic_id("a"), Some(TopicId(Uuid([2; 16]))));
    }

    #[test]
    fn fewer_replicas_than_asked_to_be_in_sync_are_enough() {
        let image = image(&topic_records(1, "a"));
        let key = PartitionKey { topic: TopicId(Uuid([1; 16])), index: 0 };
        assert_eq!(image.partition(key).expect("it was made").min_insync(), 1);
    }
}
