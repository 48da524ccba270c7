//! How a transaction ended goes from its coordinator to the leaders of its partitions, each of which writes a marker and
//! answers once that is committed; the leader of a partition of `__consumer_offsets` also tells the coordinator of its
//! groups.
//!
//! Orders for another broker are gathered: one request is on its way, and takes with it what has come by then. An order
//! that was not carried out everywhere goes back to the coordinator, which looks for the leaders anew.
//!
//! A marker that came late would end the producer's next transaction, which may have the same epoch. So nothing that a
//! coordinator has given up may be carried out any more:
//! - a leader takes an order only for the epoch in which it leads, so that an order to a former leader dies with the
//!   leadership;
//! - of what a broker sends over two connections, a leader takes nothing from the older once it was sent something over
//!   the newer. An order is repeated over a newer one, and a transaction is over when the repeated order was answered;
//! - what a former life of a broker sent is not taken, once the cluster knows that the broker began anew; and nothing of a
//!   coordinator whose successor has written a marker of the producer.
//!
//! Source: KIP-98; Kafka's TransactionMarkerChannelManager. Kafka has no such guards, but for an epoch for each
//! transaction (KIP-890).

use super::NS_PER_MS;
use crate::connection::ReplyTo;
use crate::coordinators::OFFSETS_TOPIC;
use crate::defect::DefectKind;
use crate::ids::{BrokerId, LeaderEpoch, PartitionKey};
use crate::log::MarkerCheck;
use crate::node::{Call, Cx, Running};
use crate::peers::{LinkId, Purpose};
use crate::requests::produce::{Acks, Append, Outcome};
use crate::txn::{MarkerOrder, Producer, TopicPartition};
use bytes::Bytes;
use riprap_env::log;
use riprap_protocol::ErrorCode;
use riprap_protocol::frame::decode_response;
use riprap_protocol::messages::{
    EndTransactionsRequest, EndTransactionsRequestMarker, EndTransactionsRequestPartition,
    EndTransactionsRequestTopic, EndTransactionsResponse, WriteTxnMarkersRequest, WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker, WriteTxnMarkersResponsePartition, WriteTxnMarkersResponseTopic,
};
use riprap_protocol::records::{EndTxnMarker, TxnResult};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How long a leader waits for its replicas before it answers that it does not know: other orders of the coordinator wait
/// behind.
const COMMIT_WAIT_NS: u64 = 500 * NS_PER_MS;

/// How long an order waits to be sent before it goes back to the coordinator: the leader may be another by then.
const SEND_WAIT_NS: u64 = 200 * NS_PER_MS;

/// Most partitions in one request.
const MAX_PARTITIONS_PER_REQUEST: usize = 2000;

/// A transaction that ends, as a partition's leader is told.
#[derive(Clone, Copy, Debug)]
struct Ending {
    producer: Producer,
    result: TxnResult,
    coordinator_epoch: i32,
}

/// An order of a coordinator on this broker that is being carried out.
#[derive(Debug)]
struct OpenOrder {
    key: PartitionKey,
    order: MarkerOrder,
    /// Leaders that have not answered yet.
    left: usize,
    done: BTreeSet<TopicPartition>,
}

/// What one leader is to do of an order.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    order: u64,
    partitions: Vec<(TopicPartition, LeaderEpoch)>,
}

/// Who is answered when markers are written, or given up.
#[derive(Debug)]
enum Origin {
    Broker(ReplyTo),
    Client { to: ReplyTo, response: WriteTxnMarkersResponse },
    Here(Part),
}

/// What became of a marker.
#[derive(Clone, Copy, Debug)]
enum Progress {
    Waits { append: Append, producer_id: i64, result: TxnResult },
    Done(ErrorCode),
}

/// Markers that this broker writes as the leader of partitions.
#[derive(Debug)]
struct Marking {
    origin: Origin,
    deadline_ns: u64,
    /// In the order of the partitions of the request.
    markers: Vec<Progress>,
}

/// Orders of coordinators on this broker, and markers in partitions that it leads.
#[derive(Debug, Default)]
pub(super) struct Markers {
    orders: BTreeMap<u64, OpenOrder>,
    last_order: u64,
    /// To be sent, each with the time when it goes back.
    queues: BTreeMap<BrokerId, VecDeque<(u64, Part)>>,
    marking: Vec<Marking>,
    /// The newest connection over which each broker's present life has sent orders.
    links: BTreeMap<BrokerId, (i64, i64)>,
}

impl Markers {
    pub(super) fn are_empty(&self) -> bool {
        self.queues.is_empty() && self.marking.is_empty()
    }

    pub(super) fn wake_at_ns(&self) -> Option<u64> {
        let queued = self.queues.values().filter_map(|queue| queue.front().map(|(at_ns, _)| *at_ns));
        queued.chain(self.marking.iter().map(|marking| marking.deadline_ns)).min()
    }
}

impl Running {
    /// Has the markers of an order written.
    pub(super) fn order_markers(&mut self, key: PartitionKey, order: MarkerOrder, cx: &mut Cx<'_>) {
        let image = self.quorum.image();
        let mut done = BTreeSet::new();
        let mut by_leader: BTreeMap<BrokerId, Vec<(TopicPartition, LeaderEpoch)>> = BTreeMap::new();
        for partition in &order.partitions {
            let found = image.topic_id(&partition.topic).and_then(|topic| {
                image.partition(PartitionKey { topic, index: partition.index }).map(|found| found.state)
            });
            match found {
                // Deleted: whoever added it had heard of it.
                None => {
                    done.insert(partition.clone());
                }
                Some(state) => {
                    if let Some(leader) = state.leader {
                        let part = (partition.clone(), state.leader_epoch);
                        by_leader.entry(leader).or_default().push(part);
                    }
                }
            }
        }
        let ending = ending_of(&order);
        let markers = &mut self.transactions.markers;
        markers.last_order += 1;
        let id = markers.last_order;
        // One more, so that it is not over before all of it has begun.
        markers.orders.insert(id, OpenOrder { key, order, left: by_leader.len() + 1, done });
        for (leader, partitions) in by_leader {
            let part = Part { order: id, partitions };
            if leader == self.config.id {
                let written = part.partitions.iter().map(|(partition, epoch)| {
                    (partition.topic.clone(), partition.index, Some(*epoch), ending)
                });
                let written = written.collect();
                self.write_markers(Origin::Here(part), written, cx);
            } else {
                let queue = self.transactions.markers.queues.entry(leader).or_default();
                queue.push_back((cx.now_ns + SEND_WAIT_NS, part));
            }
        }
        self.part_is_over(id, [], cx.now_ns);
        self.transactions.is_due = true;
    }

    /// Sends what is due, and answers what is committed.
    pub(super) fn settle_markers(&mut self, cx: &mut Cx<'_>) {
        self.send_orders(cx);
        for mut marking in std::mem::take(&mut self.transactions.markers.marking) {
            let is_late = marking.deadline_ns <= cx.now_ns;
            let mut waits = false;
            for progress in &mut marking.markers {
                self.look_at_marker(progress, is_late, cx.now_ns);
                waits |= matches!(progress, Progress::Waits { .. });
            }
            if waits {
                self.transactions.markers.marking.push(marking);
            } else {
                self.answer_marking(marking, cx);
            }
        }
    }

    fn send_orders(&mut self, cx: &mut Cx<'_>) {
        let brokers: Vec<BrokerId> = self.transactions.markers.queues.keys().copied().collect();
        for broker in brokers {
            let link = LinkId { to: broker, purpose: Purpose::Markers };
            let connection =
                self.peers.connection(link).filter(|_| self.peers.in_flight(link).next().is_none());
            let markers = &mut self.transactions.markers;
            let Some(queue) = markers.queues.get_mut(&broker) else { continue };
            let mut over = Vec::new();
            while let Some((at_ns, _)) = queue.front()
                && *at_ns <= cx.now_ns
            {
                over.extend(queue.pop_front().map(|(_, part)| part.order));
            }
            if let Some(connection) = connection {
                let mut body = EndTransactionsRequest {
                    broker_id: self.config.id.0,
                    broker_epoch: self.incarnation.0,
                    link: connection,
                    ..Default::default()
                };
                let (mut parts, mut partitions) = (Vec::new(), 0);
                while let Some((_, part)) = queue.front()
                    && (parts.is_empty() || partitions + part.partitions.len() <= MAX_PARTITIONS_PER_REQUEST)
                    && let Some((_, part)) = queue.pop_front()
                {
                    let Some(open) = markers.orders.get(&part.order) else { continue };
                    partitions += part.partitions.len();
                    body.markers.push(marker_of(ending_of(&open.order), &part.partitions));
                    parts.push(part);
                }
                if !parts.is_empty() {
                    let deadline_ns = cx.now_ns + self.config.peer_timeout_ms * NS_PER_MS;
                    let call = Call::EndTransactions { parts };
                    if let Err(Call::EndTransactions { parts }) =
                        self.peers.send(link, 0, &body, call, deadline_ns, cx.effects)
                    {
                        over.extend(parts.into_iter().map(|part| part.order));
                    }
                }
            }
            if queue.is_empty() {
                markers.queues.remove(&broker);
            }
            for order in over {
                self.part_is_over(order, [], cx.now_ns);
            }
        }
    }

    /// The leaders on another broker have answered.
    pub(crate) fn orders_answered(&mut self, parts: &[Part], frame: Bytes, cx: &mut Cx<'_>) {
        let results = match decode_response::<EndTransactionsRequest>(frame, 0) {
            Ok((_, response)) => response.results,
            Err(e) => {
                log!(cx.env, Warn, "cannot read what became of markers: {e}");
                Vec::new()
            }
        };
        let mut results = results.into_iter();
        for part in parts {
            let done = part.partitions.iter().filter(|_| results.next() == Some(ErrorCode::NONE));
            let done: Vec<TopicPartition> = done.map(|(partition, _)| partition.clone()).collect();
            self.part_is_over(part.order, done, cx.now_ns);
        }
    }

    /// They will not be answered, and may have been carried out.
    pub(crate) fn orders_lost(&mut self, parts: &[Part], now_ns: u64) {
        for part in parts {
            self.part_is_over(part.order, [], now_ns);
        }
    }

    fn part_is_over(&mut self, id: u64, done: impl IntoIterator<Item = TopicPartition>, now_ns: u64) {
        let markers = &mut self.transactions.markers;
        let Some(open) = markers.orders.get_mut(&id) else { return };
        open.done.extend(done);
        open.left -= 1;
        if open.left > 0 {
            return;
        }
        let Some(OpenOrder { key, order, done, .. }) = markers.orders.remove(&id) else { return };
        if let Some(coordinator) = self.transactions.get_mut(key) {
            coordinator.markers_written(now_ns, &order, &done);
        }
    }

    /// The coordinator on another broker says how transactions ended.
    pub(crate) fn on_end_transactions(
        &mut self,
        to: ReplyTo,
        request: &EndTransactionsRequest,
        cx: &mut Cx<'_>,
    ) {
        let from = BrokerId(request.broker_id);
        let is_present = self
            .quorum
            .image()
            .broker(from)
            .is_some_and(|broker| broker.incarnation.0 == request.broker_epoch);
        let (life, link) = self.transactions.markers.links.get(&from).copied().unwrap_or_default();
        if !is_present || life == request.broker_epoch && request.link < link {
            let response =
                EndTransactionsResponse { error_code: ErrorCode::STALE_BROKER_EPOCH, ..Default::default() };
            self.reply(to, &response, cx);
            return;
        }
        self.transactions.markers.links.insert(from, (request.broker_epoch, request.link));
        let mut markers = Vec::new();
        for marker in &request.markers {
            let ending = Ending {
                producer: Producer { id: marker.producer_id, epoch: marker.producer_epoch },
                result: result_of(marker.commits),
                coordinator_epoch: marker.coordinator_epoch,
            };
            for topic in &marker.topics {
                markers.extend(topic.partitions.iter().map(|partition| {
                    let epoch = Some(LeaderEpoch(partition.leader_epoch));
                    (topic.name.clone(), partition.index, epoch, ending)
                }));
            }
        }
        self.write_markers(Origin::Broker(to), markers, cx);
    }

    /// An operator ends a transaction that nobody else does.
    pub(crate) fn on_write_txn_markers(
        &mut self,
        to: ReplyTo,
        request: &WriteTxnMarkersRequest,
        cx: &mut Cx<'_>,
    ) {
        let mut response = WriteTxnMarkersResponse::default();
        let mut markers = Vec::new();
        for marker in &request.markers {
            let ending = Ending {
                producer: Producer { id: marker.producer_id, epoch: marker.producer_epoch },
                result: result_of(marker.transaction_result),
                coordinator_epoch: marker.coordinator_epoch,
            };
            let mut answer =
                WriteTxnMarkersResponseMarker { producer_id: marker.producer_id, topics: Vec::new() };
            for topic in &marker.topics {
                let partition =
                    |index: &i32| WriteTxnMarkersResponsePartition { index: *index, ..Default::default() };
                let partitions = topic.partitions.iter().map(partition).collect();
                answer.topics.push(WriteTxnMarkersResponseTopic { name: topic.name.clone(), partitions });
                let named = topic.partitions.iter().map(|index| (topic.name.clone(), *index, None, ending));
                markers.extend(named);
            }
            response.markers.push(answer);
        }
        self.write_markers(Origin::Client { to, response }, markers, cx);
    }

    fn write_markers(
        &mut self,
        origin: Origin,
        markers: Vec<(String, i32, Option<LeaderEpoch>, Ending)>,
        cx: &mut Cx<'_>,
    ) {
        let is_told = matches!(origin, Origin::Client { .. });
        let markers = markers.into_iter().map(|(topic, index, epoch, ending)| {
            match self.write_marker(&topic, index, epoch, ending, is_told, cx) {
                Ok(append) => {
                    Progress::Waits { append, producer_id: ending.producer.id, result: ending.result }
                }
                Err(code) => Progress::Done(code),
            }
        });
        let markers = markers.collect();
        let deadline_ns = cx.now_ns + COMMIT_WAIT_NS;
        self.transactions.markers.marking.push(Marking { origin, deadline_ns, markers });
        self.transactions.is_due = true;
    }

    /// Appends a marker. Errors: there is none; `NONE` if there is nothing left to mark. `is_told` says whether
    /// it is an error that the producer has a later incarnation.
    fn write_marker(
        &mut self,
        topic: &str,
        index: i32,
        epoch: Option<LeaderEpoch>,
        ending: Ending,
        is_told: bool,
        cx: &mut Cx<'_>,
    ) -> Result<Append, ErrorCode> {
        let key = self.key_of(topic, index)?;
        let replica = self.replicas.get(key).ok_or(ErrorCode::NOT_LEADER_OR_FOLLOWER)?;
        let leader = replica.leader().ok_or(ErrorCode::NOT_LEADER_OR_FOLLOWER)?;
        if epoch.is_some_and(|epoch| epoch != leader.epoch) {
            return Err(ErrorCode::FENCED_LEADER_EPOCH);
        }
        let Ending { producer, result, coordinator_epoch } = ending;
        // DEFECT strict-marker-epoch: the epoch of a marker has to be above all before: one that comes again is refused.
        let is_above = |epoch: i16| producer.epoch > epoch;
        if self.config.has(DefectKind::StrictMarkerEpoch)
            && !replica
                .log
                .producers()
                .filter(|known| known.id == producer.id)
                .all(|known| is_above(known.epoch))
        {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        match replica.log.check_marker(producer.id, producer.epoch, coordinator_epoch) {
            MarkerCheck::Right => {}
            // A later incarnation has appended, as it may only once all of this is over.
            MarkerCheck::InvalidEpoch { .. } if !is_told => return Err(ErrorCode::NONE),
            MarkerCheck::InvalidEpoch { .. } => return Err(ErrorCode::INVALID_PRODUCER_EPOCH),
            MarkerCheck::CoordinatorFenced { .. } => return Err(ErrorCode::TRANSACTION_COORDINATOR_FENCED),
        }
        let marker = EndTxnMarker { result, coordinator_epoch };
        let batch = marker.to_batch(producer.id, producer.epoch, cx.env.wall_clock_ms());
        let (append, _) = self.append(key, batch.build(), Acks::All, cx).map_err(|(code, _)| code)?;
        Ok(append)
    }

    fn look_at_marker(&mut self, progress: &mut Progress, is_late: bool, now_ns: u64) {
        let Progress::Waits { append, producer_id, result } = *progress else { return };
        let code = match self.outcome(&append) {
            Outcome::Safe if self.tell_groups(append.key, producer_id, result, now_ns) => ErrorCode::NONE,
            Outcome::Safe if is_late => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            Outcome::Waits if is_late => ErrorCode::REQUEST_TIMED_OUT,
            Outcome::Safe | Outcome::Waits => return,
            Outcome::InDoubt(code) => code,
        };
        *progress = Progress::Done(code);
    }

    /// Tells the coordinator of a partition's groups, if the partition has one. Says whether that is done: a coordinator
    /// that is loading may take in the transaction's offsets later, and would keep them for ever.
    fn tell_groups(&mut self, key: PartitionKey, producer_id: i64, result: TxnResult, now_ns: u64) -> bool {
        if self.quorum.image().topic_id(OFFSETS_TOPIC) != Some(key.topic) {
            return true;
        }
        if !self.coordinators.is_loaded(key) {
            return false;
        }
        if let Some(coordinator) = self.coordinators.get_mut(key) {
            coordinator.end_transaction(now_ns, producer_id, result);
        }
        true
    }

    fn answer_marking(&mut self, marking: Marking, cx: &mut Cx<'_>) {
        let codes = marking.markers.into_iter().map(|progress| match progress {
            Progress::Done(code) => code,
            Progress::Waits { .. } => unreachable!("who waits is not answered"),
        });
        let mut codes = codes.collect::<Vec<_>>().into_iter();
        match marking.origin {
            Origin::Broker(to) => {
                let response = EndTransactionsResponse { results: codes.collect(), ..Default::default() };
                self.reply(to, &response, cx);
            }
            Origin::Client { to, mut response } => {
                let topics = response.markers.iter_mut().flat_map(|marker| &mut marker.topics);
                for partition in topics.flat_map(|topic| &mut topic.partitions) {
                    partition.error_code = codes.next().expect("a marker for each partition");
                }
                self.reply(to, &response, cx);
            }
            Origin::Here(part) => {
                let done = part.partitions.into_iter().filter(|_| codes.next() == Some(ErrorCode::NONE));
                let done: Vec<TopicPartition> = done.map(|(partition, _)| partition).collect();
                self.part_is_over(part.order, done, cx.now_ns);
            }
        }
    }
}

fn ending_of(order: &MarkerOrder) -> Ending {
    Ending { producer: order.producer, result: order.result, coordinator_epoch: order.coordinator_epoch }
}

fn result_of(commits: bool) -> TxnResult {
    if commits { TxnResult::Commit } else { TxnResult::Abort }
}

/// A marker for each of some partitions, in their order.
fn marker_of(ending: Ending, partitions: &[(TopicPartition, LeaderEpoch)]) -> EndTransactionsRequestMarker {
    let mut topics: Vec<EndTransactionsRequestTopic> = Vec::new();
    for (TopicPartition { topic, index }, epoch) in partitions {
        if topics.last().is_none_or(|last| last.name != *topic) {
            topics.push(EndTransactionsRequestTopic { name: topic.clone(), partitions: Vec::new() });
        }
        let partition = EndTransactionsRequestPartition { index: *index, leader_epoch: epoch.0 };
        topics.last_mut().expect("it was pushed").partitions.push(partition);
    }
    EndTransactionsRequestMarker {
        producer_id: ending.producer.id,
        producer_epoch: ending.producer.epoch,
        commits: ending.result == TxnResult::Commit,
        coordinator_epoch: ending.coordinator_epoch,
        topics,
    }
}
