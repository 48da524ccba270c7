//! Topics to be made, and how far keys go.

use crate::core::Core;
use crate::error::{OPERATION_TIMED_OUT, Trouble, refused, timed_out, unanswered};
use crate::metadata::Tp;
use crate::net::{CallError, LATEST_VERSION, Lane};
use riprap_core::client::LogError;
use riprap_core::op::Key;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    CreateTopicsRequest, CreateTopicsRequestTopic, ListOffsetsRequest, ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
};
use std::collections::BTreeSet;

/// How long the cluster gets to make a topic, and the client to have it made. Units: nanoseconds.
const CREATE_TIMEOUT_NS: u64 = 10_000_000_000;

/// What ListOffsets is asked for, instead of a timestamp.
pub(crate) const LATEST: i64 = -1;
pub(crate) const EARLIEST: i64 = -2;

/// See [`Log::create`](riprap_core::client::Log::create). Any broker hands it on to the controller.
pub(crate) async fn create(core: &Core, keys: &[Key]) -> Result<(), LogError> {
    let mut names: BTreeSet<String> = keys.iter().map(|key| core.config.topic_partition(*key).0).collect();
    let by_ns = core.io.now_ns() + CREATE_TIMEOUT_NS;
    let num_partitions = i32::try_from(core.config.partitions_per_topic).expect("a handful of partitions");
    let replication_factor = i16::try_from(core.config.replication_factor).expect("a handful of brokers");
    let mut backoff = core.backoff();
    let mut is_sent = false;
    let mut last = None;
    while !names.is_empty() {
        if core.io.now_ns() >= by_ns {
            return Err(timed_out(OPERATION_TIMED_OUT, !is_sent, "the topics", last));
        }
        let topic = |name: &String| CreateTopicsRequestTopic {
            name: name.clone(),
            num_partitions,
            replication_factor,
            ..Default::default()
        };
        let body = |_| CreateTopicsRequest {
            topics: names.iter().map(topic).collect(),
            timeout_ms: crate::backoff::wire_ms(core.options.request_timeout),
            validate_only: false,
        };
        let anybody = core.metadata.anybody(Lane::Ask);
        match core.call((Lane::Ask, &anybody), LATEST_VERSION, by_ns, body).await {
            Err(trouble) => {
                is_sent |= trouble == Trouble::Call(CallError::Lost);
                last = Some(trouble);
            }
            Ok(answer) => {
                is_sent = true;
                for topic in answer.topics {
                    match topic.error_code {
                        ErrorCode::NONE | ErrorCode::TOPIC_ALREADY_EXISTS => {
                            names.remove(&topic.name);
                        }
                        code if code.is_retriable() || is_passing(code) => last = Some(Trouble::Code(code)),
                        code => return Err(refused(code, false, &format!("topic {}", topic.name))),
                    }
                }
                if names.is_empty() {
                    break;
                }
            }
        }
        backoff.pause(&core.io, by_ns).await;
    }
    Ok(())
}

/// What a cluster says that is not whole yet: too few brokers are there for as many replicas.
fn is_passing(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::INVALID_REPLICATION_FACTOR | ErrorCode::BROKER_NOT_AVAILABLE)
}

/// The question for one partition's offset.
pub(crate) fn list_offsets(tp: &Tp, leader_epoch: i32, timestamp: i64) -> ListOffsetsRequest {
    let partition =
        ListOffsetsRequestPartition { index: tp.partition, current_leader_epoch: leader_epoch, timestamp };
    ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsRequestTopic { name: tp.topic.to_string(), partitions: vec![partition] }],
        ..Default::default()
    }
}

/// Where a partition ends, also behind a transaction that is open.
pub(crate) async fn end(core: &Core, tp: &Tp, by_ns: u64) -> Result<i64, LogError> {
    let told = core.ask_leader(
        tp,
        by_ns,
        |epoch| list_offsets(tp, epoch, LATEST),
        |answer| {
            let partition =
                answer.topics.into_iter().next().and_then(|topic| topic.partitions.into_iter().next());
            let partition = partition.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
            if partition.error_code.is_none() { Ok(partition.offset) } else { Err(partition.error_code) }
        },
    );
    told.await.map_err(|trouble| unanswered("the end of a partition", trouble))
}
