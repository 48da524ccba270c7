//! What clients are told about the cluster: Metadata, DescribeCluster, DescribeConfigs.
//!
//! Topics are not made by being asked for.

use crate::connection::ReplyTo;
use crate::coordinators::is_internal;
use crate::ids::TopicId;
use crate::metadata::Topic;
use crate::node::{Cx, Running};
use riprap_protocol::messages::{
    DescribeClusterRequest, DescribeClusterResponse, DescribeClusterResponseBroker, DescribeConfigsRequest,
    DescribeConfigsResponse, DescribeConfigsResponseConfig, DescribeConfigsResponseResult, MetadataRequest,
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use riprap_protocol::{ErrorCode, Uuid};

/// The kind of resource whose configuration is described. Source: Kafka's `ConfigResource.Type`.
const RESOURCE_TOPIC: i8 = 2;
/// See [`RESOURCE_TOPIC`].
const RESOURCE_BROKER: i8 = 4;

/// Where a setting comes from. Source: Kafka's `DescribeConfigsResponse.ConfigSource`.
const SOURCE_TOPIC: i8 = 1;
/// See [`SOURCE_TOPIC`].
const SOURCE_DEFAULT: i8 = 5;

impl Running {
    pub(crate) fn on_metadata(&mut self, to: ReplyTo, request: &MetadataRequest, cx: &mut Cx<'_>) {
        let image = self.quorum.image();
        let is_in_touch = self.membership.is_in_touch(cx.now_ns);
        let brokers = image.brokers().filter(|(_, broker)| !broker.fenced);
        let brokers = brokers.map(|(id, broker)| MetadataResponseBroker {
            node_id: id.0,
            host: broker.host.clone(),
            port: broker.port.into(),
            rack: None,
        });
        let mut response = MetadataResponse {
            brokers: brokers.collect(),
            cluster_id: Some(self.config.cluster_id.clone()),
            controller_id: self.quorum.leader().filter(|id| image.is_live(*id)).map_or(-1, |id| id.0),
            ..Default::default()
        };
        // In version 0 nothing asked for is everything. Source: Kafka's MetadataRequest.
        let asked = request.topics.as_ref().filter(|topics| to.api_version > 0 || !topics.is_empty());
        match asked {
            None => {
                let all = image.topics_by_name();
                response.topics = all.map(|(_, id, topic)| self.describe_topic(id, topic)).collect();
            }
            Some(topics) => {
                for asked in topics {
                    let (id, unknown) = match &asked.name {
                        Some(name) => (image.topic_id(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                        None => (Some(TopicId(asked.topic_id)), ErrorCode::UNKNOWN_TOPIC_ID),
                    };
                    let found = id.and_then(|id| Some((id, image.topic(id)?)));
                    response.topics.push(match found {
                        Some((id, topic)) => self.describe_topic(id, topic),
                        None => MetadataResponseTopic {
                            // A client that is told that a topic it uses does not exist forgets where it was. A broker
                            // that lost touch may only not have heard of it.
                            error_code: if is_in_touch { unknown } else { ErrorCode::LEADER_NOT_AVAILABLE },
                            name: Some(asked.name.clone().unwrap_or_default()),
                            topic_id: if asked.name.is_some() { Uuid::ZERO } else { asked.topic_id },
                            ..Default::default()
                        },
                    });
                }
            }
        }
        self.reply(to, &response, cx);
    }

    fn describe_topic(&self, id: TopicId, topic: &Topic) -> MetadataResponseTopic {
        let image = self.quorum.image();
        let partitions = topic.partitions.iter().map(|(index, state)| {
            let ids = |ids: &[crate::ids::BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
            MetadataResponsePartition {
                error_code: match state.leader {
                    Some(_) => ErrorCode::NONE,
                    None => ErrorCode::LEADER_NOT_AVAILABLE,
                },
                index: *index,
                leader_id: state.leader.map_or(-1, |id| id.0),
                leader_epoch: state.leader_epoch.0,
                replica_nodes: ids(&state.replicas),
                isr_nodes: ids(&state.isr),
                offline_replicas: state
                    .replicas
                    .iter()
                    .filter(|id| !image.is_live(**id))
                    .map(|id| id.0)
                    .collect(),
            }
        });
        MetadataResponseTopic {
            error_code: ErrorCode::NONE,
            name: Some(topic.name.clone()),
            topic_id: id.0,
            is_internal: is_internal(&topic.name),
            partitions: partitions.collect(),
            ..Default::default()
        }
    }

    pub(crate) fn on_describe_cluster(
        &mut self,
        to: ReplyTo,
        request: &DescribeClusterRequest,
        cx: &mut Cx<'_>,
    ) {
        let image = self.quorum.image();
        let brokers = image.brokers().filter(|(_, broker)| !broker.fenced || request.include_fenced_brokers);
        let response = DescribeClusterResponse {
            endpoint_type: 1,
            cluster_id: self.config.cluster_id.clone(),
            controller_id: self.quorum.leader().map_or(-1, |id| id.0),
            brokers: brokers
                .map(|(id, broker)| DescribeClusterResponseBroker {
                    broker_id: id.0,
                    host: broker.host.clone(),
                    port: broker.port.into(),
                    rack: None,
                    is_fenced: to.api_version >= 2 && broker.fenced,
                })
                .collect(),
            ..Default::default()
        };
        self.reply(to, &response, cx);
    }

    pub(crate) fn on_describe_configs(
        &mut self,
        to: ReplyTo,
        request: &DescribeConfigsRequest,
        cx: &mut Cx<'_>,
    ) {
        let image = self.quorum.image();
        let mut response = DescribeConfigsResponse::default();
        for resource in &request.resources {
            let mut result = DescribeConfigsResponseResult {
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                ..Default::default()
            };
            let settings = match resource.resource_type {
                RESOURCE_TOPIC => {
                    let topic = image.topic_id(&resource.resource_name).and_then(|id| image.topic(id));
                    topic.map(settings_of).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
                }
                RESOURCE_BROKER => Ok(self.own_settings()),
                _ => Err(ErrorCode::INVALID_REQUEST),
            };
            match settings {
                Ok(settings) => {
                    let keys = resource.configuration_keys.as_ref();
                    let wanted = settings
                        .into_iter()
                        .filter(|setting| keys.is_none_or(|keys| keys.contains(&setting.name)));
                    result.configs = wanted.collect();
                }
                Err(code) => result.error_code = code,
            }
            response.results.push(result);
        }
        self.reply(to, &response, cx);
    }

    fn own_settings(&self) -> Vec<DescribeConfigsResponseConfig> {
        let durability = self.config.durability();
        let all = [
            ("min.insync.replicas", durability.min_insync_replicas.to_string()),
            ("unclean.leader.election.enable", durability.unclean_leader_election.to_string()),
            ("message.max.bytes", self.config.max_batch_bytes.to_string()),
            ("num.partitions", self.config.default_partitions.to_string()),
            ("default.replication.factor", self.config.default_replication_factor.to_string()),
        ];
        all.into_iter().map(|(name, value)| setting(name, value, SOURCE_DEFAULT)).collect()
    }
}

fn settings_of(topic: &Topic) -> Vec<DescribeConfigsResponseConfig> {
    let settings =
        topic_settings(topic.min_insync_replicas, topic.unclean_leader_election, &topic.configs).into_iter();
    settings.map(|(name, value, source)| setting(&name, value, source)).collect()
}

/// A topic's settings, each with its name, its value and where it comes from.
pub(crate) fn topic_settings(
    min_insync_replicas: u16,
    unclean_leader_election: bool,
    asked: &[(String, String)],
) -> Vec<(String, String, i8)> {
    let is_asked = |name: &str| asked.iter().any(|(key, _)| key == name);
    let source = |name: &str| if is_asked(name) { SOURCE_TOPIC } else { SOURCE_DEFAULT };
    let resolved = [
        ("min.insync.replicas", min_insync_replicas.to_string()),
        ("unclean.leader.election.enable", unclean_leader_election.to_string()),
    ];
    let mut settings: Vec<(String, String, i8)> =
        resolved.into_iter().map(|(name, value)| (name.to_owned(), value, source(name))).collect();
    for (name, value) in asked {
        if settings.iter().all(|(known, ..)| known != name) {
            settings.push((name.clone(), value.clone(), SOURCE_TOPIC));
        }
    }
    settings
}

fn setting(name: &str, value: String, config_source: i8) -> DescribeConfigsResponseConfig {
    DescribeConfigsResponseConfig {
        name: name.to_owned(),
        value: Some(value),
        read_only: true,
        config_source,
        ..Default::default()
    }
}
