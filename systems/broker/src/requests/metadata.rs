//! What clients are told about the cluster: Metadata, DescribeCluster.
//!
//! Topics are not made by being asked for.

use crate::connection::ReplyTo;
use crate::coordinators::is_internal;
use crate::ids::TopicId;
use crate::metadata::Topic;
use crate::node::{Cx, Running};
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    DescribeClusterRequest, DescribeClusterResponse, DescribeClusterResponseBroker, MetadataRequest,
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};

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
                    // The Java client sends an empty name beside an id.
                    let has_id = !asked.topic_id.is_zero();
                    let (id, unknown) = match &asked.name {
                        Some(name) if !has_id => {
                            (image.topic_id(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
                        }
                        _ => (Some(TopicId(asked.topic_id)), ErrorCode::UNKNOWN_TOPIC_ID),
                    };
                    let found = id.and_then(|id| Some((id, image.topic(id)?)));
                    response.topics.push(match found {
                        Some((id, topic)) => self.describe_topic(id, topic),
                        None => MetadataResponseTopic {
                            // A client that is told that a topic it uses does not exist forgets where it was. A broker
                            // that lost touch may only not have heard of it.
                            error_code: if is_in_touch { unknown } else { ErrorCode::LEADER_NOT_AVAILABLE },
                            name: Some(asked.name.clone().unwrap_or_default()),
                            topic_id: asked.topic_id,
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
}
