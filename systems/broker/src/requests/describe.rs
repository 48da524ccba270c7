//! What administrators are told of partitions: DescribeTopicPartitions, DescribeLogDirs, DescribeProducers.
//!
//! Source: KIP-966 (pages of partitions), KIP-113 (folders of logs), KIP-664 (producers).

use crate::connection::ReplyTo;
use crate::coordinators::is_internal;
use crate::ids::{BrokerId, PartitionKey};
use crate::metadata::{Image, PartitionState};
use crate::node::{Cx, Running};
use crate::replica::Replica;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::*;
use std::collections::{BTreeMap, BTreeSet};

/// Most partitions in one answer, whatever is asked for. Source: Kafka's `max.request.partition.size.limit`.
const MAX_PARTITIONS: usize = 2000;

impl Running {
    pub(crate) fn on_describe_topic_partitions(
        &mut self,
        to: ReplyTo,
        request: &DescribeTopicPartitionsRequest,
        cx: &mut Cx<'_>,
    ) {
        let response = describe_partitions(self.quorum.image(), request);
        self.reply(to, &response, cx);
    }

    pub(crate) fn on_describe_log_dirs(
        &mut self,
        to: ReplyTo,
        request: &DescribeLogDirsRequest,
        cx: &mut Cx<'_>,
    ) {
        let is_asked = |name: &str, index: i32| match &request.topics {
            None => true,
            Some(topics) => topics.iter().any(|t| t.name == name && t.partitions.contains(&index)),
        };
        let mut topics: BTreeMap<&str, Vec<DescribeLogDirsResponsePartition>> = BTreeMap::new();
        for replica in self.replicas.iter().filter(|r| is_asked(&r.topic_name, r.key.index)) {
            topics.entry(&replica.topic_name).or_default().push(DescribeLogDirsResponsePartition {
                index: replica.key.index,
                size_bytes: replica.log.size_bytes() as i64,
                offset_lag: (replica.high_watermark - replica.log.log_end_offset()).max(0),
                is_future: false,
            });
        }
        let topics = topics
            .into_iter()
            .map(|(name, partitions)| DescribeLogDirsResponseTopic { name: name.to_owned(), partitions });
        let result = DescribeLogDirsResponseResult {
            log_dir: self.config.dir.display().to_string(),
            topics: topics.collect(),
            ..Default::default()
        };
        self.reply(to, &DescribeLogDirsResponse { results: vec![result], ..Default::default() }, cx);
    }

    pub(crate) fn on_describe_producers(
        &mut self,
        to: ReplyTo,
        request: &DescribeProducersRequest,
        cx: &mut Cx<'_>,
    ) {
        let topics = request.topics.iter().map(|topic| DescribeProducersResponseTopic {
            name: topic.name.clone(),
            partitions: topic.partitions.iter().map(|index| self.producers_of(&topic.name, *index)).collect(),
        });
        let response = DescribeProducersResponse { topics: topics.collect(), ..Default::default() };
        self.reply(to, &response, cx);
    }

    fn producers_of(&self, topic: &str, index: i32) -> DescribeProducersResponsePartition {
        let mut answer = DescribeProducersResponsePartition { index, ..Default::default() };
        let leads = |key: PartitionKey| {
            let led = self.replicas.get(key).filter(|replica| replica.leader().is_some());
            led.ok_or(ErrorCode::NOT_LEADER_OR_FOLLOWER)
        };
        match self.key_of(topic, index).and_then(leads) {
            Ok(replica) => answer.active_producers = producers(replica),
            Err(code) => answer.error_code = code,
        }
        answer
    }
}

fn producers(replica: &Replica) -> Vec<DescribeProducersResponseProducer> {
    let active = replica.log.producers().map(|producer| DescribeProducersResponseProducer {
        producer_id: producer.id,
        producer_epoch: producer.epoch.into(),
        last_sequence: producer.last_sequence.unwrap_or(-1),
        last_timestamp_ms: producer.last_timestamp_ms.unwrap_or(-1),
        coordinator_epoch: producer.coordinator_epoch.unwrap_or(-1),
        current_txn_start_offset: producer.open_since.unwrap_or(-1),
    });
    active.collect()
}

/// One page of partitions: by topic's name and number, from the cursor on, up to the limit.
fn describe_partitions(
    image: &Image,
    request: &DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let mut response = DescribeTopicPartitionsResponse::default();
    let names: BTreeSet<&str> = if request.topics.is_empty() {
        image.topics_by_name().map(|(name, ..)| name).collect()
    } else {
        request.topics.iter().map(|topic| topic.name.as_str()).collect()
    };
    let limit = usize::try_from(request.response_partition_limit).unwrap_or(0);
    let is_wrong = limit == 0 || request.cursor.as_ref().is_some_and(|cursor| cursor.partition_index < 0);
    let (from_topic, from_index) = match &request.cursor {
        Some(cursor) => (cursor.topic_name.as_str(), cursor.partition_index),
        None => ("", 0),
    };
    let mut left = limit.min(MAX_PARTITIONS);
    for name in names.into_iter().filter(|name| *name >= from_topic) {
        let mut described =
            DescribeTopicPartitionsResponseTopic { name: Some(name.to_owned()), ..Default::default() };
        let found = image.topic_id(name).and_then(|id| Some((id, image.topic(id)?)));
        let Some((id, topic)) = found.filter(|_| !is_wrong) else {
            // There is no other place for an error.
            described.error_code =
                if is_wrong { ErrorCode::INVALID_REQUEST } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
            response.topics.push(described);
            continue;
        };
        described.topic_id = id.0;
        described.is_internal = is_internal(name);
        let first = if name == from_topic { from_index } else { 0 };
        let mut next = None;
        for (index, state) in topic.partitions.range(first..) {
            if left == 0 {
                next = Some(*index);
                break;
            }
            left -= 1;
            described.partitions.push(describe_partition(image, *index, state));
        }
        if next.is_none() || !described.partitions.is_empty() {
            response.topics.push(described);
        }
        if let Some(partition_index) = next {
            let topic_name = name.to_owned();
            response.next_cursor =
                Some(DescribeTopicPartitionsResponseCursor { topic_name, partition_index });
            return response;
        }
    }
    response
}

fn describe_partition(
    image: &Image,
    index: i32,
    state: &PartitionState,
) -> DescribeTopicPartitionsResponsePartition {
    let ids = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
    let offline = state.replicas.iter().filter(|id| !image.is_live(**id)).map(|id| id.0);
    DescribeTopicPartitionsResponsePartition {
        error_code: match state.leader {
            Some(_) => ErrorCode::NONE,
            None => ErrorCode::LEADER_NOT_AVAILABLE,
        },
        index,
        leader_id: state.leader.map_or(-1, |id| id.0),
        leader_epoch: state.leader_epoch.0,
        replica_nodes: ids(&state.replicas),
        isr_nodes: ids(&state.isr),
        eligible_leader_replicas: Some(ids(&state.elr)),
        last_known_elr: Some(Vec::new()),
        offline_replicas: offline.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{LeaderEpoch, PartitionEpoch, TopicId};
    use crate::metadata::Record;
    use riprap_protocol::Uuid;

    fn image() -> Image {
        let mut image = Image::default();
        for (number, (name, partitions)) in (1..).zip([("a", 3), ("b", 2), ("c", 1)]) {
            let id = TopicId(Uuid([number; 16]));
            image.apply(&Record::CreateTopic {
                id,
                name: name.to_owned(),
                min_insync_replicas: 1,
                unclean_leader_election: false,
                configs: vec![],
            });
            for index in 0..partitions {
                let state = PartitionState {
                    replicas: vec![BrokerId(1)],
                    isr: vec![BrokerId(1)],
                    elr: vec![],
                    adding: vec![],
                    removing: vec![],
                    leader: None,
                    leader_epoch: LeaderEpoch(0),
                    partition_epoch: PartitionEpoch(0),
                };
                image.apply(&Record::SetPartition { topic: id, index, state });
            }
        }
        image
    }

    /// Topics are asked for and answered as `a b`, partitions as `a0 a1`, an error as `d?`.
    #[test]
    fn pages() {
        let check = |topics: &str,
                     cursor: Option<(&str, i32)>,
                     limit: i32,
                     expect: &str,
                     next: Option<(&str, i32)>| {
            let topic = |name: &str| DescribeTopicPartitionsRequestTopic { name: name.to_owned() };
            let response = describe_partitions(
                &image(),
                &DescribeTopicPartitionsRequest {
                    topics: topics.split_whitespace().map(topic).collect(),
                    response_partition_limit: limit,
                    cursor: cursor.map(|(topic_name, partition_index)| {
                        DescribeTopicPartitionsRequestCursor {
                            topic_name: topic_name.to_owned(),
                            partition_index,
                        }
                    }),
                },
            );
            let found: Vec<String> = response
                .topics
                .iter()
                .flat_map(|topic| {
                    let name = topic.name.as_deref().expect("it has one");
                    let error = (!topic.error_code.is_none()).then(|| format!("{name}?"));
                    let partitions = topic.partitions.iter().map(move |p| format!("{name}{}", p.index));
                    error.into_iter().chain(partitions)
                })
                .collect();
            assert_eq!(found.join(" "), expect, "{topics} from {cursor:?}, at most {limit}");
            let cursor = response.next_cursor.as_ref().map(|c| (c.topic_name.as_str(), c.partition_index));
            assert_eq!(cursor, next, "{topics} from {cursor:?}, at most {limit}");
        };
        check("", None, 2000, "a0 a1 a2 b0 b1 c0", None);
        check("c a", None, 2000, "a0 a1 a2 c0", None);
        check("", None, 2, "a0 a1", Some(("a", 2)));
        check("", Some(("a", 2)), 2, "a2 b0", Some(("b", 1)));
        check("", Some(("b", 1)), 2, "b1 c0", None);
        check("", None, 3, "a0 a1 a2", Some(("b", 0)));
        check("", None, 6, "a0 a1 a2 b0 b1 c0", None);
        check("b d", None, 2000, "b0 b1 d?", None);
        // A topic that is gone since the page before, and a partition that never was.
        check("", Some(("aa", 1)), 2000, "b0 b1 c0", None);
        check("", Some(("c", 9)), 2000, "", None);
        check("a", None, 0, "a?", None);
        check("a", Some(("a", -1)), 5, "a?", None);
    }
}
