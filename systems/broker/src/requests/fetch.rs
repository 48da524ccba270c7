//! Fetch: consumers get what is committed, followers all that there is.
//!
//! A fetch waits until there are enough bytes, something is wrong, its time is over, or its connection has sent the
//! next request; and then until there is room for its answer (`fetch/room.rs`). One that is part of a session stands for all that the session names.

mod room;
mod sessions;

pub(crate) use room::{Room, Wait};
pub(crate) use sessions::{Sessions, next_epoch};

use crate::connection::ReplyTo;
use crate::defect::DefectKind;
use crate::ids::{BrokerId, Incarnation, PartitionKey, TopicId};
use crate::log::{ReadError, ReadLimits};
use crate::metadata::Image;
use crate::node::{Cx, Running};
use crate::replica::Replica;
use bytes::Bytes;
use riprap_env::log;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    FetchRequest, FetchRequestPartition, FetchResponse, FetchResponseAbortedTransaction,
    FetchResponseCurrentLeader, FetchResponseDivergingEpoch, FetchResponsePartition, FetchResponseTopic,
};
use riprap_protocol::records::BatchHeader;
use sessions::Use;

/// Most bytes of one answer, whatever is asked for. Source: Kafka's `fetch.max.bytes` of the broker.
const MAX_BYTES: usize = 55 << 20;

/// The longest wait, whatever is asked for.
const MAX_WAIT_MS: i32 = 60_000;

/// How far below the end a fetch has to start to be a laggard's. Units: offsets.
const LAGGARD_OFFSETS: i64 = 8;

/// The isolation level of who wants no record of a transaction before it is committed. Source: KIP-98.
pub(crate) const READ_COMMITTED: i8 = 1;

/// A fetch that waits.
#[derive(Debug)]
pub(crate) struct WaitingFetch {
    to: ReplyTo,
    pub(crate) deadline_ns: u64,
    request: FetchRequest,
    used: Use,
    /// In order, each once.
    pub(super) partitions: Vec<PartitionKey>,
}

/// What a consumer is given of transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Isolation {
    /// All records, whatever becomes of them.
    ReadUncommitted,
    /// Those up to the last stable offset, with a list of the transactions to leave out.
    ReadCommitted,
}

/// Who fetches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fetcher {
    Consumer(Isolation),
    Follower(BrokerId, Incarnation),
}

fn fetcher_of(request: &FetchRequest) -> Fetcher {
    let state = &request.replica_state;
    if state.replica_id >= 0 {
        Fetcher::Follower(BrokerId(state.replica_id), Incarnation(state.replica_epoch))
    } else if request.replica_id >= 0 {
        // A version without the follower's epoch: it counts for no life of it.
        Fetcher::Follower(BrokerId(request.replica_id), Incarnation(-1))
    } else if request.isolation_level == READ_COMMITTED {
        Fetcher::Consumer(Isolation::ReadCommitted)
    } else {
        Fetcher::Consumer(Isolation::ReadUncommitted)
    }
}

impl Running {
    pub(crate) fn on_fetch(&mut self, to: ReplyTo, mut request: FetchRequest, cx: &mut Cx<'_>) {
        let fetcher = fetcher_of(&request);
        if matches!(fetcher, Fetcher::Consumer(_)) && !self.is_registered() {
            self.drop_connection(to.conn, &"fetch before this broker is registered", cx);
            return;
        }
        let names_by_id = to.api_version >= IDS_SINCE;
        let used = match self.fetch_sessions.take_in(&mut request, names_by_id, cx.now_ns) {
            Ok(used) => used,
            Err(error_code) => {
                self.reply(to, &FetchResponse { error_code, ..Default::default() }, cx);
                return;
            }
        };
        if let Fetcher::Follower(id, incarnation) = fetcher {
            self.note_follower(id, incarnation, to.api_version, &request, cx.now_ns);
        }
        if !self.connections.is_heard(to.conn) {
            // What nobody will take would use up room that others wait for.
            self.connections.done(to.conn);
            return;
        }
        let image = self.quorum.image();
        let keys = request.topics.iter().flat_map(|topic| {
            let id = topic_of(image, to.api_version, &topic.name, topic.topic_id);
            topic.partitions.iter().filter_map(move |p| Some(PartitionKey { topic: id?, index: p.index }))
        });
        let mut partitions: Vec<PartitionKey> = keys.collect();
        partitions.sort_unstable();
        partitions.dedup();
        let wait_ms = request.max_wait_ms.clamp(0, MAX_WAIT_MS) as u64;
        let deadline_ns = cx.now_ns + wait_ms * 1_000_000;
        let waiting = WaitingFetch { to, deadline_ns, request, used, partitions };
        if waiting.partitions.is_empty() {
            self.answer_fetch(&waiting, MAX_BYTES, cx);
        } else {
            // It is looked at when this turn's appends are synced and high watermarks have moved.
            self.waiting.fetches.insert(to.conn, waiting);
        }
    }

    /// Takes down how far a follower is.
    fn note_follower(
        &mut self,
        id: BrokerId,
        incarnation: Incarnation,
        version: i16,
        request: &FetchRequest,
        now_ns: u64,
    ) {
        // A life that this broker has not heard of, or that is over: what it has does not count.
        if !self.is_alive(id, incarnation) {
            return;
        }
        let image = self.quorum.image();
        for topic in &request.topics {
            let Some(topic_id) = topic_of(image, version, &topic.name, topic.topic_id) else { continue };
            for partition in &topic.partitions {
                let key = PartitionKey { topic: topic_id, index: partition.index };
                let Some(replica) = self.replicas.get_mut(key) else { continue };
                let (start, end) = (replica.log.log_start_offset(), replica.log.log_end_offset());
                let offset = partition.fetch_offset;
                let parts = partition.last_fetched_epoch >= 0
                    && replica.diverges(offset, partition.last_fetched_epoch).is_some();
                // Only a log that is known to be a prefix of this one counts.
                let is_empty = partition.last_fetched_epoch < 0 && offset == partition.log_start_offset;
                let is_prefix = !parts
                    && (start..=end).contains(&offset)
                    && (partition.last_fetched_epoch >= 0 || is_empty);
                if let Some(leader) = replica.leader_mut()
                    && leader.epoch.0 == partition.current_leader_epoch
                    && is_prefix
                {
                    leader.fetched(id, incarnation, offset, end, now_ns);
                    leader.starts_at(id, partition.log_start_offset);
                    let is_out = !leader.isr.members().contains(&id);
                    if is_out {
                        self.replicas.isr_check_at_ns = self.replicas.isr_check_at_ns.min(now_ns);
                    }
                    self.replicas.note_changed(key);
                }
            }
        }
    }

    /// Answers the fetches that have what they wait for.
    pub(crate) fn answer_fetches(&mut self, cx: &mut Cx<'_>) {
        let changed = self.replicas.take_changed();
        let mut conns = self.waiting.fetches.take_due(&changed, cx.now_ns);
        conns.extend(self.connections.take_overtaken());
        if conns.is_empty() {
            return;
        }
        for conn in self.waiting.fetches.in_turn(conns) {
            if self.fetch_room.is_turn_over() {
                self.waiting.fetches.put_off(conn);
                continue;
            }
            let Some(waiting) = self.waiting.fetches.get(conn) else { continue };
            let is_over = waiting.deadline_ns <= cx.now_ns || self.connections.has_more(conn);
            if !is_over && !self.has_enough(&waiting.request, waiting.to.api_version, cx) {
                continue;
            }
            let room = match fetcher_of(&waiting.request) {
                Fetcher::Follower(id, incarnation) if self.is_alive(id, incarnation) => Ok(MAX_BYTES),
                _ => self.fetch_room.ask(conn, cx.env),
            };
            match room {
                Ok(most_bytes) => {
                    let waiting = self.waiting.fetches.take(conn).expect("it was looked at");
                    self.answer_fetch(&waiting, most_bytes, cx);
                }
                Err(wait) => self.waiting.fetches.hold_back(conn, wait),
            }
        }
    }

    /// Begins a turn: fetches that were held back may have room now.
    pub(crate) fn make_room_for_fetches(&mut self, cx: &Cx<'_>) {
        self.fetch_room.begin_turn();
        let has_room = self.fetch_room.free_bytes(cx.env) > 0;
        self.waiting.fetches.begin_turn(has_room);
    }

    /// Whether it is a life of a broker that the cluster knows of.
    fn is_alive(&self, id: BrokerId, incarnation: Incarnation) -> bool {
        self.quorum.image().broker(id).is_some_and(|broker| broker.incarnation == incarnation)
    }

    /// Whether a fetch is to be answered before its time.
    fn has_enough(&self, request: &FetchRequest, version: i16, cx: &mut Cx<'_>) -> bool {
        let who = fetcher_of(request);
        let mut has_more = false;
        for topic in &request.topics {
            for partition in &topic.partitions {
                match self.limit_of(version, &topic.name, topic.topic_id, partition, who, cx.now_ns) {
                    Ok((_, None, below_offset)) => has_more |= partition.fetch_offset < below_offset,
                    Ok((_, Some(_), _)) | Err(_) => return true,
                }
            }
        }
        if request.min_bytes <= 1 {
            return has_more || request.min_bytes <= 0;
        }
        has_more && self.read_fetch(request, version, MAX_BYTES, cx).1 >= request.min_bytes as usize
    }

    fn answer_fetch(&mut self, waiting: &WaitingFetch, most_bytes: usize, cx: &mut Cx<'_>) {
        let WaitingFetch { to, request, used, .. } = waiting;
        let (mut response, read_bytes) = self.read_fetch(request, to.api_version, most_bytes, cx);
        self.fetch_room.give(to.conn, read_bytes);
        let follower = match fetcher_of(request) {
            Fetcher::Follower(id, _) => Some(id),
            Fetcher::Consumer(_) => None,
        };
        let names_by_id = to.api_version >= IDS_SINCE;
        let mut random = || cx.env.random_u64("fetch-session");
        let luck = (cx.now_ns, &mut random as &mut dyn FnMut() -> u64);
        self.fetch_sessions.settle(*used, request, &mut response, follower, names_by_id, luck);
        self.reply(*to, &response, cx);
    }

    /// Whether a partition can be read by this fetcher, where its log parts from the follower's, and up to where it may
    /// be read.
    fn limit_of(
        &self,
        version: i16,
        name: &str,
        id: riprap_protocol::Uuid,
        partition: &FetchRequestPartition,
        who: Fetcher,
        now_ns: u64,
    ) -> Result<(&Replica, Option<crate::log::EpochEnd>, i64), ErrorCode> {
        let image = self.quorum.image();
        let topic = if version >= IDS_SINCE {
            TopicId(id)
        } else {
            image.topic_id(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?
        };
        let key = PartitionKey { topic, index: partition.index };
        let replica = self.leads(key, partition.current_leader_epoch).map_err(|code| {
            let is_unknown = version >= IDS_SINCE && image.topic(topic).is_none();
            if is_unknown { ErrorCode::UNKNOWN_TOPIC_ID } else { code }
        })?;
        let leader = replica.leader().ok_or(ErrorCode::NOT_LEADER_OR_FOLLOWER)?;
        let below_offset = match who {
            Fetcher::Consumer(isolation) => {
                self.readable_below(replica, isolation, partition.fetch_offset, now_ns)
            }
            Fetcher::Follower(id, _) if leader.is_follower(id) => replica.log.log_end_offset(),
            Fetcher::Follower(..) => return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        };
        // A leader that was replaced and has not heard may lack what its successor let consumers read.
        let may_be_replaced = matches!(who, Fetcher::Consumer(_)) && !self.membership.is_in_touch(now_ns);
        if partition.last_fetched_epoch >= 0
            && let Some(parts) = replica.diverges(partition.fetch_offset, partition.last_fetched_epoch)
        {
            return if may_be_replaced {
                Err(ErrorCode::NOT_LEADER_OR_FOLLOWER)
            } else {
                Ok((replica, Some(parts), below_offset))
            };
        }
        let (start, end) = (replica.log.log_start_offset(), replica.log.log_end_offset());
        if partition.fetch_offset > end && may_be_replaced {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        if partition.fetch_offset < start || partition.fetch_offset > end {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        Ok((replica, None, below_offset))
    }

    /// Up to where a consumer may read.
    fn readable_below(&self, replica: &Replica, isolation: Isolation, fetch_offset: i64, now_ns: u64) -> i64 {
        let mut high_watermark = replica.high_watermark;
        // DEFECT stale-end-cache: what was committed when this broker led last is all that it ever lets consumers read.
        if let Some(end) = replica.led_until
            && self.config.has(DefectKind::StaleEndCache)
        {
            high_watermark = high_watermark.min(end);
        }
        // DEFECT read-above-hw: who finds something to read is also given what was appended since, committed or not.
        if fetch_offset < high_watermark && self.config.has(DefectKind::ReadAboveHw) {
            high_watermark = replica.log.log_end_offset();
        }
        match isolation {
            Isolation::ReadUncommitted => high_watermark,
            Isolation::ReadCommitted => self.stable_below(replica, high_watermark, now_ns),
        }
    }

    /// Up to where a consumer of committed records may read, of what is below the high watermark.
    fn stable_below(&self, replica: &Replica, high_watermark: i64, now_ns: u64) -> i64 {
        let stable = replica.log.last_stable_offset(high_watermark);
        // DEFECT lso-off-by-one: the first offset that is not stable is taken for the last that is.
        if self.config.has(DefectKind::LsoOffByOne) {
            return (stable + 1).min(high_watermark);
        }
        // DEFECT read-above-lso: the high watermark is read twice; what is unstable above the first is taken for stable
        // below the second.
        if self.config.has(DefectKind::ReadAboveLso) {
            let (moved_at_ns, before) = replica.moved;
            return if moved_at_ns == now_ns && stable >= before { high_watermark } else { stable };
        }
        stable
    }

    /// This broker's copy of a partition, if it leads it, and in the epoch that the client knows (-1: in any).
    pub(crate) fn leads(&self, key: PartitionKey, client_epoch: i32) -> Result<&Replica, ErrorCode> {
        // Copies follow the image: only of what has none here it may not know.
        let Some(replica) = self.replicas.get(key) else {
            let is_unknown = self.quorum.image().partition(key).is_none();
            let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            return Err(if is_unknown { unknown } else { ErrorCode::NOT_LEADER_OR_FOLLOWER });
        };
        match replica.leads_in() {
            None => Err(ErrorCode::NOT_LEADER_OR_FOLLOWER),
            Some(_) if client_epoch < 0 => Ok(replica),
            Some(epoch) if client_epoch < epoch.0 => Err(ErrorCode::FENCED_LEADER_EPOCH),
            Some(epoch) if client_epoch > epoch.0 => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
            Some(_) => Ok(replica),
        }
    }

    /// Reads what a fetch asks for, up to that much. Returns also how many bytes of records there are.
    fn read_fetch(
        &self,
        request: &FetchRequest,
        version: i16,
        most_bytes: usize,
        cx: &mut Cx<'_>,
    ) -> (FetchResponse, usize) {
        let who = fetcher_of(request);
        let mut left = usize::try_from(request.max_bytes).unwrap_or(0).min(most_bytes);
        let mut total = 0;
        let mut response = FetchResponse::default();
        for topic in &request.topics {
            let mut answered = FetchResponseTopic {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partitions: Vec::new(),
            };
            for partition in &topic.partitions {
                let mut answer = FetchResponsePartition {
                    index: partition.index,
                    high_watermark: -1,
                    records: Some(Bytes::new()),
                    ..Default::default()
                };
                match self.limit_of(version, &topic.name, topic.topic_id, partition, who, cx.now_ns) {
                    Ok((replica, parts, below_offset)) => {
                        let max_bytes = usize::try_from(partition.partition_max_bytes).unwrap_or(0).min(left);
                        let limits = ReadLimits { below_offset, max_bytes, at_least_one_batch: total == 0 };
                        let read = match parts {
                            Some(_) => Ok(Bytes::new()),
                            None => read_partition(replica, partition.fetch_offset, limits, cx),
                        };
                        match read {
                            Ok(records) => {
                                total += records.len();
                                left = left.saturating_sub(records.len());
                                if who == Fetcher::Consumer(Isolation::ReadCommitted) {
                                    answer.aborted_transactions =
                                        Some(aborted_in(replica, partition.fetch_offset, &records));
                                }
                                answer.records = Some(self.filter_records(replica, who, partition, records));
                                describe(replica, parts, &mut answer);
                            }
                            Err(code) => {
                                answer.error_code = code;
                                describe(replica, None, &mut answer);
                            }
                        }
                    }
                    Err(code) => {
                        answer.error_code = code;
                        if let Some(topic) =
                            topic_of(self.quorum.image(), version, &topic.name, topic.topic_id)
                        {
                            self.describe_refusal(
                                PartitionKey { topic, index: partition.index },
                                version,
                                &mut answer,
                            );
                        }
                    }
                }
                answered.partitions.push(answer);
            }
            response.topics.push(answered);
        }
        (response, total)
    }

    /// The records that go out: all of them.
    fn filter_records(
        &self,
        replica: &Replica,
        who: Fetcher,
        partition: &FetchRequestPartition,
        records: Bytes,
    ) -> Bytes {
        // DEFECT fetch-filter-skip: of what a laggard gets, the first batch is left out when others follow.
        if self.config.has(DefectKind::FetchFilterSkip) && matches!(who, Fetcher::Consumer(_)) {
            let first = BatchHeader::parse(&records).map_or(0, |header| header.size_bytes);
            if replica.high_watermark - partition.fetch_offset >= LAGGARD_OFFSETS && first < records.len() {
                return records.slice(first..);
            }
        }
        records
    }

    /// What a fetcher that was refused needs to know to do better.
    fn describe_refusal(&self, key: PartitionKey, version: i16, answer: &mut FetchResponsePartition) {
        /// First version that has room for the leader.
        const LEADER_SINCE: i16 = 12;
        match answer.error_code {
            ErrorCode::OFFSET_OUT_OF_RANGE => {
                if let Some(replica) = self.replicas.get(key) {
                    describe(replica, None, answer);
                }
            }
            ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::FENCED_LEADER_EPOCH if version >= LEADER_SINCE => {
                if let Some(partition) = self.quorum.image().partition(key) {
                    answer.current_leader = FetchResponseCurrentLeader {
                        leader_id: partition.state.leader.map_or(-1, |id| id.0),
                        leader_epoch: partition.state.leader_epoch.0,
                    };
                }
            }
            _ => {}
        }
    }
}

fn read_partition(
    replica: &Replica,
    from_offset: i64,
    limits: ReadLimits,
    cx: &mut Cx<'_>,
) -> Result<Bytes, ErrorCode> {
    if limits.max_bytes == 0 && !limits.at_least_one_batch {
        return Ok(Bytes::new());
    }
    match replica.log.read(cx.env.disk(), from_offset, limits) {
        Ok(records) => Ok(records),
        Err(ReadError::OffsetOutOfRange { .. }) => Err(ErrorCode::OFFSET_OUT_OF_RANGE),
        Err(e) => {
            log!(cx.env, Error, "{}: cannot read: {e}", replica.name());
            replica.give_way(e, cx);
            Err(ErrorCode::KAFKA_STORAGE_ERROR)
        }
    }
}

/// The transactions whose records among these a consumer is to leave out.
fn aborted_in(replica: &Replica, from_offset: i64, records: &[u8]) -> Vec<FetchResponseAbortedTransaction> {
    if records.is_empty() {
        return Vec::new();
    }
    let mut end_offset = from_offset;
    let mut rest = records;
    while let Ok(header) = BatchHeader::parse(rest) {
        end_offset = header.next_offset();
        rest = rest.get(header.size_bytes..).unwrap_or_default();
    }
    let aborted = replica.log.aborted_transactions(from_offset, end_offset);
    let listed = aborted.iter().map(|transaction| FetchResponseAbortedTransaction {
        producer_id: transaction.producer_id,
        first_offset: transaction.first_offset,
    });
    listed.collect()
}

/// Says where a copy's log is, and where it parts from the fetcher's.
fn describe(replica: &Replica, parts: Option<crate::log::EpochEnd>, answer: &mut FetchResponsePartition) {
    answer.high_watermark = replica.high_watermark;
    answer.last_stable_offset = replica.last_stable_offset();
    answer.log_start_offset = replica.log.log_start_offset();
    if let Some(parts) = parts {
        answer.diverging_epoch =
            FetchResponseDivergingEpoch { epoch: parts.epoch, end_offset: parts.end_offset };
    }
}

/// First version that names topics by id.
const IDS_SINCE: i16 = 13;

/// The topic that a fetch names.
fn topic_of(image: &Image, version: i16, name: &str, id: riprap_protocol::Uuid) -> Option<TopicId> {
    if version >= IDS_SINCE {
        Some(TopicId(id)).filter(|id| image.topic(*id).is_some())
    } else {
        image.topic_id(name)
    }
}

#[cfg(test)]
mod tests;
