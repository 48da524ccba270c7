//! ListOffsets and OffsetForLeaderEpoch: where logs begin, end, and part.
//!
//! A new leader's high watermark may lag behind what the last one told its clients, until its followers have fetched.
//! Until it has reached the start of the leader's epoch, "latest" is not known, and saying something smaller would send
//! consumers back. Source: KIP-207. For the same reason a leader that lost touch with the controller, and may have been
//! replaced, does not say where its log ends.

use crate::connection::ReplyTo;
use crate::ids::PartitionKey;
use crate::log::TimestampOffset;
use crate::node::{Cx, Running};
use crate::requests::fetch::READ_COMMITTED;
use riprap_env::log;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    ListOffsetsRequest, ListOffsetsResponse, ListOffsetsResponsePartition, ListOffsetsResponseTopic,
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
};

/// "The end", in the place of a timestamp.
const LATEST: i64 = -1;
/// "The beginning".
const EARLIEST: i64 = -2;
/// "The record with the greatest timestamp". Source: KIP-734.
const MAX_TIMESTAMP: i64 = -3;
/// "The beginning of what lies on this broker's disk": the beginning. Source: KIP-405.
const EARLIEST_LOCAL: i64 = -4;

/// "The end of what lies in remote storage": there is none. Source: KIP-1005.
const LATEST_TIERED: i64 = -5;

/// For whom the log ends where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reader {
    /// At the log's end.
    Broker,
    /// At the high watermark.
    Consumer,
    /// At the last stable offset: of transactions, it reads those that are committed.
    OfTransactions,
}

impl Reader {
    fn of(request: &ListOffsetsRequest) -> Reader {
        match request.isolation_level {
            _ if request.replica_id >= 0 => Reader::Broker,
            READ_COMMITTED => Reader::OfTransactions,
            _ => Reader::Consumer,
        }
    }
}

impl Running {
    pub(crate) fn on_list_offsets(&mut self, to: ReplyTo, request: &ListOffsetsRequest, cx: &mut Cx<'_>) {
        let mut response = ListOffsetsResponse::default();
        for topic in &request.topics {
            let mut answered = ListOffsetsResponseTopic { name: topic.name.clone(), partitions: Vec::new() };
            for asked in &topic.partitions {
                let mut answer = ListOffsetsResponsePartition { index: asked.index, ..Default::default() };
                let reader = Reader::of(request);
                let known_epoch = asked.current_leader_epoch;
                match self.list_offset(&topic.name, asked.index, known_epoch, asked.timestamp, reader, cx) {
                    Ok(found) => {
                        answer.offset = found.offset;
                        answer.timestamp = found.timestamp_ms;
                        // Older versions have no place for it, and what they do not carry is an error.
                        if to.api_version >= 4 {
                            answer.leader_epoch = found.leader_epoch;
                        }
                    }
                    // Older versions do not know it. Source: KIP-207.
                    Err(ErrorCode::OFFSET_NOT_AVAILABLE) if to.api_version < 5 => {
                        answer.error_code = ErrorCode::LEADER_NOT_AVAILABLE;
                    }
                    Err(code) => answer.error_code = code,
                }
                answered.partitions.push(answer);
            }
            response.topics.push(answered);
        }
        self.reply(to, &response, cx);
    }

    fn list_offset(
        &self,
        topic: &str,
        index: i32,
        known_epoch: i32,
        timestamp: i64,
        reader: Reader,
        cx: &mut Cx<'_>,
    ) -> Result<TimestampOffset, ErrorCode> {
        let key = self.key_of(topic, index)?;
        let replica = self.leads(key, known_epoch)?;
        let leader = replica.leader().ok_or(ErrorCode::NOT_LEADER_OR_FOLLOWER)?;
        let is_consumer = reader != Reader::Broker;
        let is_about_end = !matches!(timestamp, EARLIEST | EARLIEST_LOCAL | LATEST_TIERED);
        if is_consumer && is_about_end && !self.membership.is_in_touch(cx.now_ns) {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        let log = &replica.log;
        let end = match reader {
            Reader::Broker => log.log_end_offset(),
            Reader::Consumer => replica.high_watermark,
            Reader::OfTransactions => replica.last_stable_offset(),
        };
        let is_known = !is_consumer || replica.high_watermark >= leader.epoch_start;
        let at = |offset: i64| TimestampOffset {
            offset,
            timestamp_ms: -1,
            leader_epoch: log.leader_epoch_of(offset).unwrap_or(leader.epoch.0),
        };
        let failed = |e, cx: &mut Cx<'_>| {
            log!(cx.env, Error, "{}: cannot look up a time: {e}", replica.name());
            ErrorCode::KAFKA_STORAGE_ERROR
        };
        let nothing = TimestampOffset { offset: -1, timestamp_ms: -1, leader_epoch: -1 };
        match timestamp {
            EARLIEST | EARLIEST_LOCAL => Ok(at(log.log_start_offset())),
            LATEST_TIERED => Ok(nothing),
            LATEST if is_known => Ok(at(end)),
            LATEST => Err(ErrorCode::OFFSET_NOT_AVAILABLE),
            MAX_TIMESTAMP if !is_known => Err(ErrorCode::OFFSET_NOT_AVAILABLE),
            MAX_TIMESTAMP => {
                let found = log.newest_record(cx.env.disk()).map_err(|e| failed(e, cx))?;
                match found {
                    // What has it may not be committed yet.
                    Some(found) if found.offset >= end => Err(ErrorCode::OFFSET_NOT_AVAILABLE),
                    found => Ok(found.unwrap_or(nothing)),
                }
            }
            timestamp if timestamp >= 0 => {
                let found = log.offset_for_timestamp(cx.env.disk(), timestamp).map_err(|e| failed(e, cx))?;
                match found.filter(|found| found.offset < end) {
                    Some(found) => Ok(found),
                    // It may be committed, and not known to be.
                    None if !is_known => Err(ErrorCode::OFFSET_NOT_AVAILABLE),
                    None => Ok(nothing),
                }
            }
            _ => Err(ErrorCode::INVALID_REQUEST),
        }
    }

    pub(crate) fn on_offset_for_leader_epoch(
        &mut self,
        to: ReplyTo,
        request: &OffsetForLeaderEpochRequest,
        cx: &mut Cx<'_>,
    ) {
        let mut response = OffsetForLeaderEpochResponse::default();
        for topic in &request.topics {
            let mut answered =
                OffsetForLeaderEpochResponseTopic { name: topic.name.clone(), partitions: Vec::new() };
            for asked in &topic.partitions {
                let mut answer =
                    OffsetForLeaderEpochResponsePartition { index: asked.index, ..Default::default() };
                let may_be_replaced = request.replica_id < 0 && !self.membership.is_in_touch(cx.now_ns);
                let replica = self
                    .key_of(&topic.name, asked.index)
                    .and_then(|key| self.leads(key, asked.current_leader_epoch));
                let replica = if may_be_replaced { Err(ErrorCode::NOT_LEADER_OR_FOLLOWER) } else { replica };
                match replica {
                    Ok(replica) if asked.leader_epoch >= 0 => {
                        let end = replica.epoch_end(asked.leader_epoch);
                        answer.leader_epoch = end.epoch;
                        answer.end_offset = end.end_offset;
                    }
                    Ok(_) => {}
                    Err(code) => answer.error_code = code,
                }
                answered.partitions.push(answer);
            }
            response.topics.push(answered);
        }
        self.reply(to, &response, cx);
    }

    /// The partition that a client names.
    pub(crate) fn key_of(&self, topic: &str, index: i32) -> Result<PartitionKey, ErrorCode> {
        let image = self.quorum.image();
        let topic = image.topic_id(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let key = PartitionKey { topic, index };
        image.partition(key).map(|_| key).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    }
}
