//! DeleteRecords: moves the starts of logs up, and answers once no live replica has what was deleted.
//!
//! The leader's log begins at the new offset at once, and says so in the answers to its followers' fetches; what a follower
//! has become of it, it says in its next fetch. The answer is the low watermark: the least of all live replicas' starts.
//! What is deleted stays so whatever becomes of the request.
//!
//! Source: KIP-107; ReplicaManager#deleteRecords, Partition#lowWatermarkIfLeader, DelayedDeleteRecords.

use crate::connection::ReplyTo;
use crate::coordinators::is_internal;
use crate::ids::{LeaderEpoch, PartitionKey};
use crate::node::{Cx, Running};
use riprap_env::log;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsResponsePartition, DeleteRecordsResponseTopic,
};

/// "All that is committed", in the place of an offset.
const HIGH_WATERMARK: i64 = -1;

/// The low watermark of a partition that has an error.
const NO_LOW_WATERMARK: i64 = -1;

/// The longest that a deletion may wait for replicas, whatever is asked for.
const MAX_TIMEOUT_MS: i32 = 300_000;

/// A deletion that waits for replicas.
#[derive(Debug)]
pub(crate) struct WaitingDelete {
    to: ReplyTo,
    pub(crate) deadline_ns: u64,
    response: DeleteRecordsResponse,
    /// Where in the response each partition is.
    deletions: Vec<((usize, usize), Deletion)>,
}

/// A log's start that moved here, and is to move on the followers.
#[derive(Clone, Copy, Debug)]
struct Deletion {
    key: PartitionKey,
    epoch: LeaderEpoch,
    offset: i64,
}

impl Running {
    pub(crate) fn on_delete_records(&mut self, to: ReplyTo, request: &DeleteRecordsRequest, cx: &mut Cx<'_>) {
        let mut response = DeleteRecordsResponse::default();
        let mut deletions = Vec::new();
        for (at_topic, topic) in request.topics.iter().enumerate() {
            let mut answered =
                DeleteRecordsResponseTopic { name: topic.name.clone(), partitions: Vec::new() };
            for (at_partition, partition) in topic.partitions.iter().enumerate() {
                let mut answer = DeleteRecordsResponsePartition {
                    index: partition.index,
                    low_watermark: NO_LOW_WATERMARK,
                    ..Default::default()
                };
                match self.delete_records(&topic.name, partition.index, partition.offset, cx) {
                    Ok(deletion) => deletions.push(((at_topic, at_partition), deletion)),
                    Err(code) => answer.error_code = code,
                }
                answered.partitions.push(answer);
            }
            response.topics.push(answered);
        }
        let timeout_ms = request.timeout_ms.clamp(0, MAX_TIMEOUT_MS) as u64;
        let deadline_ns = cx.now_ns + timeout_ms * 1_000_000;
        self.waiting.deletes.insert(to.conn, WaitingDelete { to, deadline_ns, response, deletions });
    }

    /// Moves the start of one log. Errors: it is where it was.
    fn delete_records(
        &mut self,
        topic: &str,
        index: i32,
        offset: i64,
        cx: &mut Cx<'_>,
    ) -> Result<Deletion, ErrorCode> {
        // What a coordinator is to find again, only compaction may take.
        if is_internal(topic) {
            return Err(ErrorCode::INVALID_TOPIC_EXCEPTION);
        }
        let key = self.key_of(topic, index)?;
        let epoch = self.leads(key, -1)?.leads_in().ok_or(ErrorCode::NOT_LEADER_OR_FOLLOWER)?;
        // A leader that may have been replaced deletes nothing: what was read of its successor may differ.
        if !self.membership.is_in_touch(cx.now_ns) {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        let replica = self.replicas.get_mut(key).ok_or(ErrorCode::NOT_LEADER_OR_FOLLOWER)?;
        if !replica.log.config().cleanup.delete {
            return Err(ErrorCode::POLICY_VIOLATION);
        }
        let high_watermark = replica.high_watermark;
        let offset = if offset == HIGH_WATERMARK { high_watermark } else { offset };
        if !(0..=high_watermark).contains(&offset) {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        let name = replica.name();
        match replica.log.advance_start_to(cx.env.disk(), offset) {
            Ok(true) => {
                log!(cx.env, Info, "{name}: begins at {offset}, as a client asked");
                self.replicas.note_changed(key);
            }
            Ok(false) => {}
            Err(e) => {
                log!(cx.env, Error, "{name}: cannot delete records: {e}");
                // If the log has given up, the next sync says so.
                self.replicas.note_appended(key);
                return Err(ErrorCode::KAFKA_STORAGE_ERROR);
            }
        }
        Ok(Deletion { key, epoch, offset })
    }

    /// The least of the starts of a partition's log on this broker, which leads it, and on the followers that live.
    fn low_watermark(&self, deletion: &Deletion) -> Result<i64, ErrorCode> {
        let replica = self.leads(deletion.key, -1)?;
        let leader = replica.leader().filter(|leader| leader.epoch == deletion.epoch);
        let leader = leader.ok_or(ErrorCode::NOT_LEADER_OR_FOLLOWER)?;
        let image = self.quorum.image();
        Ok(leader.low_watermark(replica.log.log_start_offset(), |id| image.is_live(id)))
    }

    /// Answers the deletions that all live replicas know of, or that cannot be waited for any longer.
    pub(crate) fn answer_deletes(&mut self, cx: &mut Cx<'_>) {
        if self.waiting.deletes.is_empty() {
            return;
        }
        let conns: Vec<_> = self.waiting.deletes.keys().copied().collect();
        for conn in conns {
            let Some(mut waiting) = self.waiting.deletes.remove(&conn) else { continue };
            let is_expired = waiting.deadline_ns <= cx.now_ns;
            waiting.deletions.retain(|((at_topic, at_partition), deletion)| {
                let answer = &mut waiting.response.topics[*at_topic].partitions[*at_partition];
                match self.low_watermark(deletion) {
                    Ok(low_watermark) if low_watermark >= deletion.offset => {
                        answer.low_watermark = low_watermark;
                    }
                    Ok(_) if !is_expired => return true,
                    Ok(_) => answer.error_code = ErrorCode::REQUEST_TIMED_OUT,
                    Err(code) => answer.error_code = code,
                }
                false
            });
            if waiting.deletions.is_empty() {
                self.reply(waiting.to, &waiting.response, cx);
            } else {
                self.waiting.deletes.insert(conn, waiting);
            }
        }
    }
}
