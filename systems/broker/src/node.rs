//! The broker as a node: takes in events, keeps the order of one turn.
//!
//! ```text
//! step     bytes, connections and time are taken in; requests are worked on; nothing that promises anything leaves
//! settle   rounds, until nothing is left to do:
//!            requests that became ready
//!            the quorum: sync its log, apply what is agreed on, take up roles
//!            partitions: sync what was appended, move high watermarks
//!            answers that waited for that; fetches of the followers; requests to the controller
//! ```
//! One settle serves a whole batch of events, so that one sync of each log serves all requests in the batch.

use crate::config::{Address, BrokerConfig};
use crate::connection::{Connections, ReplyTo};
use crate::controller::Controller;
use crate::coordinators::Coordinators;
use crate::durability::{begin_disk, begin_life, disk_is_known};
use crate::fetcher::{AskedFetch, Fetches};
use crate::group::GroupConfig;
use crate::high_watermarks::HighWatermarks;
use crate::ids::{BrokerId, Incarnation, LeaderEpoch, PartitionEpoch, PartitionKey};
use crate::membership::Membership;
use crate::observe::Counters;
use crate::peers::{LinkEvent, LinkId, Peers, Purpose};
use crate::producer_ids::ProducerIds;
use crate::quorum::Quorum;
use crate::replicas::Replicas;
use crate::requests::fetch::{Room, Sessions};
use crate::requests::waiting::Waiting;
use crate::transactions::{Part, Transactions};
use crate::upkeep::Upkeep;
use riprap_env::{DiskError, Effect, Effects, Env, Event, Node, log};
use riprap_protocol::frame::{decode_response, encode_response};
use riprap_protocol::messages::{RaftMessageRequest, RaftMessageResponse};
use riprap_protocol::{ErrorCode, Message};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thiserror::Error;

/// Most rounds in one settle: requests that are answered make room for the next on their connections, and those for
/// the next; the rest is left to the next turn, which comes at once.
const MAX_ROUNDS: usize = 8;

/// Most requests that are worked on in one round, for the same reason.
const MAX_REQUESTS_PER_ROUND: usize = 1024;

/// Why a broker's process ends of itself.
#[derive(Debug, Error)]
pub(crate) enum Fatal {
    #[error("failed to open the metadata quorum's log: {0}")]
    OpenQuorum(#[from] riprap_coord::OpenError),
    #[error("disk failed: {0}")]
    Disk(#[from] DiskError),
    #[error("log of {partition} failed: {error}")]
    Log { partition: Arc<str>, error: crate::log::LogError },
}

/// What a step works with.
pub(crate) struct Cx<'a> {
    pub(crate) now_ns: u64,
    pub(crate) env: &'a mut dyn Env,
    pub(crate) effects: &'a mut Effects,
    /// What ends the process after this turn, found by one who only looks.
    pub(crate) fatal: Option<Fatal>,
}

/// What is remembered of a request to another broker.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    AllocateProducerIds,
    AskCoordinator { asks: Vec<u64> },
    CreateInternalTopic(&'static str),
    AlterPartition { asked: Vec<(PartitionKey, LeaderEpoch, PartitionEpoch)> },
    EndTransactions { parts: Vec<Part> },
    Fetch(AskedFetch),
    Forward { id: u64 },
    Heartbeat,
    Quorum,
    Register,
}

/// The bundled broker. See the crate's documentation.
#[derive(Debug)]
pub struct Broker {
    config: BrokerConfig,
    pub(crate) life: Life,
}

#[derive(Debug)]
pub(crate) enum Life {
    Unborn,
    Running(Box<Running>),
    Over,
}

impl Broker {
    /// A broker that has not started. Errors: the configuration cannot work.
    pub fn new(config: BrokerConfig) -> Result<Broker, String> {
        config.validate()?;
        Ok(Broker { config, life: Life::Unborn })
    }

    fn end(&mut self, fatal: &Fatal, env: &mut dyn Env, effects: &mut Effects) {
        log!(env, Error, "stops: {fatal}");
        effects.push(Effect::Exit { status: 1 });
        self.life = Life::Over;
    }
}

impl Node for Broker {
    fn step(&mut self, now_ns: u64, event: Event, env: &mut dyn Env, effects: &mut Effects) {
        if event == Event::Start {
            match Running::start(self.config.clone(), now_ns, env) {
                Ok(running) => self.life = Life::Running(Box::new(running)),
                Err(fatal) => self.end(&fatal, env, effects),
            }
        } else if let Life::Running(running) = &mut self.life {
            running.take_in(event, &mut Cx { now_ns, env, effects, fatal: None });
        }
    }

    fn settle(&mut self, now_ns: u64, env: &mut dyn Env, effects: &mut Effects) {
        let Life::Running(running) = &mut self.life else { return };
        let mut cx = Cx { now_ns, env, effects, fatal: None };
        let settled = running.settle(&mut cx);
        match cx.fatal.map_or(settled, Err) {
            Ok(()) if running.is_over => self.life = Life::Over,
            Ok(()) => {}
            Err(fatal) => self.end(&fatal, env, effects),
        }
    }
}

/// Whether anybody may want to act on it at once. That a message of the quorum has arrived is said to who sent it, and
/// concerns nobody: what it led to comes as a message.
fn is_news(event: &LinkEvent<Call>) -> bool {
    !matches!(
        event,
        LinkEvent::Answered { call: Call::Quorum, .. } | LinkEvent::Lost { call: Call::Quorum, .. }
    )
}

/// A broker whose process runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) config: BrokerConfig,
    pub(crate) incarnation: Incarnation,
    /// The life before may have taken records with it that counted.
    pub(crate) may_lack_records: bool,
    /// The disk was empty when this life began, or one before that the cluster does not know: what was on it, if there was
    /// anything, is lost.
    pub(crate) disk_is_new: bool,
    pub(crate) connections: Connections,
    pub(crate) peers: Peers<Call>,
    pub(crate) quorum: Quorum,
    /// Where the observers that this broker sends the quorum's log to say they are.
    pub(crate) observers: BTreeMap<BrokerId, Address>,
    /// Other brokers said so.
    pub(crate) is_of_another_cluster: bool,
    pub(crate) controller: Option<Controller>,
    pub(crate) membership: Membership,
    pub(crate) replicas: Replicas,
    pub(crate) upkeep: Upkeep,
    pub(crate) waiting: Waiting,
    pub(crate) fetch_sessions: Sessions,
    pub(crate) fetches: Fetches,
    pub(crate) producer_ids: ProducerIds,
    pub(crate) coordinators: Coordinators,
    pub(crate) transactions: Transactions,
    pub(crate) counters: Counters,
    pub(crate) fetch_room: Room,
    /// Something was proposed or received since the quorum's last settle.
    pub(crate) quorum_is_due: bool,
    /// Something was taken in since the last turn that anybody may want to act on.
    has_news: bool,
    is_over: bool,
}

impl Running {
    pub(crate) fn start(config: BrokerConfig, now_ns: u64, env: &mut dyn Env) -> Result<Running, Fatal> {
        // Positive, for -1 is "no epoch" on the wire.
        let incarnation = Incarnation((env.random_u64("incarnation") >> 1) as i64);
        let is_unborn = Quorum::is_unborn(env.disk())?;
        let disk_is_new = begin_disk(env.disk(), is_unborn)?;
        let quorum = Quorum::open(&config, env, now_ns)?;
        let may_lack_records = begin_life(env.disk(), config.fsync)?;
        log!(env, Info, "starts as broker {}, incarnation {incarnation}", config.id);
        if !config.brokers.contains_key(&config.id) {
            let voters: Vec<String> = config.brokers.keys().map(BrokerId::to_string).collect();
            log!(env, Info, "observes the metadata quorum of {}", voters.join(", "));
        }
        let mut running = Running {
            incarnation,
            may_lack_records,
            disk_is_new,
            connections: Connections::default(),
            peers: Peers::new(),
            observers: BTreeMap::new(),
            is_of_another_cluster: false,
            quorum,
            controller: None,
            membership: Membership::default(),
            replicas: Replicas::new(&config, HighWatermarks::open(env.disk())?),
            upkeep: Upkeep::default(),
            waiting: Waiting::default(),
            fetch_sessions: Sessions::default(),
            fetches: Fetches::default(),
            producer_ids: ProducerIds::default(),
            coordinators: Coordinators::new(GroupConfig { defect: config.defect, ..config.groups.clone() }),
            transactions: Transactions::new(config.defect),
            counters: Counters::default(),
            fetch_room: Room::new(config.fetch_unsent_max_bytes),
            quorum_is_due: true,
            has_news: true,
            is_over: false,
            config,
        };
        running.reach_brokers(now_ns, &mut Effects::default());
        Ok(running)
    }

    pub(crate) fn take_in(&mut self, event: Event, cx: &mut Cx<'_>) {
        match event {
            Event::Start => unreachable!("handled before"),
            Event::Accepted { conn, peer } => {
                if !self.connections.accept(conn, peer) {
                    log!(cx.env, Warn, "refuses a connection: too many are open");
                    cx.effects.push(Effect::Close { conn });
                }
            }
            Event::Connected { conn } => {
                self.has_news = true;
                self.peers.connected(conn);
            }
            Event::Received { conn, bytes } => {
                self.counters.received(bytes.len());
                if self.peers.received(cx.now_ns, conn, &bytes, cx.effects) {
                    self.has_news |= self.peers.events().iter().any(is_news);
                    return;
                }
                self.has_news = true;
                if let Err(e) = self.connections.received(conn, &bytes) {
                    self.drop_connection(conn, &e, cx);
                }
            }
            Event::Closed { conn } => {
                if self.peers.closed(cx.now_ns, conn) {
                    self.has_news |= self.peers.events().iter().any(is_news);
                } else {
                    self.has_news = true;
                    self.connections.hang_up(conn);
                    self.forget(conn);
                }
            }
            Event::Drained { conn } => {
                self.has_news = true;
                self.waiting.fetches.drained(conn);
            }
            Event::Wake => self.has_news = true,
            Event::Stop => {
                self.has_news = true;
                self.stop(cx);
            }
        }
    }

    /// Closes a connection for what its other side did.
    pub(crate) fn drop_connection(
        &mut self,
        conn: riprap_env::ConnId,
        why: &dyn std::fmt::Display,
        cx: &mut Cx<'_>,
    ) {
        let peer = self.connections.peer(conn).to_owned();
        let is_there = self.connections.remove(conn);
        self.forget(conn);
        if is_there {
            self.counters.refused();
            log!(cx.env, Debug, "closes the connection from {peer}: {why}");
            cx.effects.push(Effect::Close { conn });
        }
    }

    /// Nobody wants the answers for a connection any more.
    fn forget(&mut self, conn: riprap_env::ConnId) {
        self.waiting.forget(conn);
        self.producer_ids.forget(conn);
        self.coordinators.forget(conn);
        self.transactions.forget(conn);
    }

    pub(crate) fn settle(&mut self, cx: &mut Cx<'_>) -> Result<(), Fatal> {
        if !std::mem::take(&mut self.has_news) && !self.has_something_to_do(cx.now_ns) {
            cx.effects.push(Effect::WakeAt { at_ns: self.wake_at_ns(cx.now_ns) });
            return Ok(());
        }
        self.quorum_is_due |= self.quorum.wake_at_ns() <= cx.now_ns;
        self.make_room_for_fetches(cx);
        for _ in 0..MAX_ROUNDS {
            self.work_on_requests(cx);
            self.peers.tick(cx.now_ns, cx.effects);
            self.take_in_answers(cx)?;
            self.settle_quorum(cx)?;
            self.replicas.sync(cx)?;
            self.advance_high_watermarks(cx.now_ns);
            self.settle_coordinators(cx);
            self.settle_transactions(cx);
            self.answer_produces(cx);
            self.answer_fetches(cx);
            self.answer_deletes(cx);
            self.answer_expired(cx);
            self.keep_up(cx)?;
            self.send_fetches(cx);
            self.ask_for_isrs(cx);
            self.tick_controller(cx);
            self.tick_membership(cx);
            self.ask_for_producer_ids(cx);
            if self.is_over || self.fetch_room.is_turn_over() || !self.has_more_to_do() {
                break;
            }
        }
        if !self.is_over {
            let comes_at_once = self.has_more_to_do() || self.waiting.fetches.has_put_off();
            let at_ns = if comes_at_once { cx.now_ns } else { self.wake_at_ns(cx.now_ns) };
            cx.effects.push(Effect::WakeAt { at_ns });
        }
        Ok(())
    }

    fn has_more_to_do(&self) -> bool {
        self.connections.has_ready()
            || self.waiting.fetches.has_new()
            || self.quorum_is_due
            || self.replicas.has_dirty()
            || self.coordinators.has_more_to_do()
            || self.transactions.has_more_to_do()
    }

    /// Whether a turn would do anything though nothing was taken in.
    fn has_something_to_do(&self, now_ns: u64) -> bool {
        self.has_more_to_do()
            || self.waiting.fetches.has_put_off()
            || self.fetches.wake_at_ns().is_some_and(|at_ns| at_ns <= now_ns)
            || self.wake_at_ns(now_ns) <= now_ns
    }

    fn wake_at_ns(&self, now_ns: u64) -> u64 {
        let due = [
            Some(self.quorum.wake_at_ns()),
            self.peers.wake_at_ns(),
            self.waiting.wake_at_ns(),
            self.waiting.fetches.look_again_ns(now_ns),
            self.producer_ids.wake_at_ns(),
            self.membership.wake_at_ns(),
            self.controller.as_ref().map(Controller::wake_at_ns),
            self.replicas.wake_at_ns(),
            self.fetches.wake_at_ns().filter(|at_ns| *at_ns > now_ns),
            Some(self.upkeep.wake_at_ns()),
            Some(self.replicas.high_watermarks.wake_at_ns()),
            self.coordinators.wake_at_ns(),
            self.transactions.wake_at_ns(),
        ];
        due.into_iter().flatten().min().expect("the quorum always wants to wake up")
    }

    fn work_on_requests(&mut self, cx: &mut Cx<'_>) {
        for _ in 0..MAX_REQUESTS_PER_ROUND {
            match self.connections.next_frame() {
                Some((conn, Ok(frame))) => self.handle(conn, frame, cx),
                Some((conn, Err(e))) => self.drop_connection(conn, &e, cx),
                None => return,
            }
        }
    }

    /// Answers a request.
    pub(crate) fn reply<M: Message>(&mut self, to: ReplyTo, body: &M, cx: &mut Cx<'_>) {
        if !self.connections.done(to.conn) {
            return;
        }
        match encode_response(to.correlation_id, to.api_key, to.api_version, body) {
            Ok(bytes) => {
                self.counters.sent(bytes.len());
                cx.effects.push(Effect::Send { conn: to.conn, bytes });
            }
            Err(e) => {
                let what = format_args!("answer to {} version {}: {e}", to.api_key, to.api_version);
                log!(cx.env, Error, "failed to encode the {what}");
                self.drop_connection(to.conn, &"its answer cannot be said", cx);
            }
        }
    }

    /// Answers that came from other brokers.
    fn take_in_answers(&mut self, cx: &mut Cx<'_>) -> Result<(), Fatal> {
        for event in self.peers.take_events() {
            match event {
                LinkEvent::Up(LinkId { purpose: Purpose::Control, .. }) => self.membership.hurry(cx.now_ns),
                LinkEvent::Up(LinkId { purpose: Purpose::Fetch, .. }) => self.fetches.hurry(),
                LinkEvent::Up(_) => {}
                LinkEvent::Answered { from, call: Call::Fetch(asked), frame } => {
                    self.fetched(from, &asked, frame, cx)?;
                }
                LinkEvent::Answered { call: Call::AskCoordinator { asks }, frame, .. } => {
                    self.asks_answered(&asks, frame, cx);
                }
                LinkEvent::Answered { call: Call::EndTransactions { parts }, frame, .. } => {
                    self.orders_answered(&parts, frame, cx);
                }
                LinkEvent::Answered { from, call: Call::Quorum, frame } => {
                    self.quorum_answered(from, frame, cx)
                }
                LinkEvent::Lost { call: Call::Quorum, .. } => {}
                LinkEvent::Answered { call, frame, .. } => self.controller_answered(call, frame, cx),
                LinkEvent::Lost { to, call } => self.lost(to, call, cx),
            }
        }
        Ok(())
    }

    /// Whether the cluster knows this life of the broker: before, it is not told what it is.
    pub(crate) fn is_registered(&self) -> bool {
        self.quorum.image().broker(self.config.id).is_some_and(|b| b.incarnation == self.incarnation)
    }

    fn settle_quorum(&mut self, cx: &mut Cx<'_>) -> Result<(), Fatal> {
        if !std::mem::take(&mut self.quorum_is_due) {
            self.answer_agreed(cx);
            return Ok(());
        }
        self.quorum.tick(cx.now_ns, cx.env);
        let leader = self.quorum.leader();
        let settled = self.quorum.settle(cx.now_ns, cx.env)?;
        for (to, payload) in settled.messages {
            let Address { host, port } = self.config.address().clone();
            let body = RaftMessageRequest {
                from_node_id: self.config.id.0,
                cluster_id: self.config.cluster_id.clone(),
                host,
                port: port.into(),
                payload,
            };
            let link = LinkId { to, purpose: Purpose::Quorum };
            let deadline_ns = cx.now_ns + self.config.peer_timeout_ms * 1_000_000;
            // A message that cannot be sent now is lost, which harms nothing: what matters is said again.
            let _lost = self.peers.send(link, 0, &body, Call::Quorum, deadline_ns, cx.effects);
        }
        if self.observers.keys().copied().ne(self.quorum.observers()) {
            let observers: BTreeSet<BrokerId> = self.quorum.observers().collect();
            self.observers.retain(|id, _| observers.contains(id));
            self.reach_brokers(cx.now_ns, cx.effects);
        }
        if settled.changed {
            self.reach_brokers(cx.now_ns, cx.effects);
            if self.disk_is_new && self.is_registered() {
                self.disk_is_new = false;
                disk_is_known(cx.env.disk())?;
            }
            self.fetches.hurry();
            self.take_up_roles(cx)?;
        }
        if self.quorum.leader() != leader {
            self.membership.hurry(cx.now_ns);
        }
        self.follow_leadership(cx);
        self.answer_agreed(cx);
        Ok(())
    }

    /// A message of the metadata quorum.
    pub(crate) fn on_quorum_message(&mut self, to: ReplyTo, request: &RaftMessageRequest, cx: &mut Cx<'_>) {
        let from = BrokerId(request.from_node_id);
        let mut error_code = ErrorCode::NONE;
        if request.cluster_id != self.config.cluster_id {
            error_code = ErrorCode::INCONSISTENT_CLUSTER_ID;
        } else if from.0 >= 0 {
            self.quorum.receive(cx.now_ns, from, &request.payload, cx.env);
            self.quorum_is_due = true;
            self.note_observer(from, request, cx);
        }
        self.reply(to, &RaftMessageResponse { error_code }, cx);
    }

    /// An observer says where it is, which nobody else can say before it is registered.
    fn note_observer(&mut self, from: BrokerId, request: &RaftMessageRequest, cx: &mut Cx<'_>) {
        let Ok(port) = u16::try_from(request.port) else { return };
        let is_known =
            self.observers.get(&from).is_some_and(|at| (&at.host, at.port) == (&request.host, port));
        if !is_known && self.quorum.observers().any(|id| id == from) {
            self.observers.insert(from, Address { host: request.host.clone(), port });
            self.reach_brokers(cx.now_ns, cx.effects);
        }
    }

    /// Another broker answered a message of the quorum.
    fn quorum_answered(&mut self, from: BrokerId, frame: bytes::Bytes, cx: &mut Cx<'_>) {
        let Ok((_, body)) = decode_response::<RaftMessageRequest>(frame, 0) else { return };
        if body.error_code == ErrorCode::INCONSISTENT_CLUSTER_ID
            && !std::mem::replace(&mut self.is_of_another_cluster, true)
        {
            log!(cx.env, Error, "broker {from} is of another cluster than `{}`", self.config.cluster_id);
        }
    }

    /// Has connections to all brokers that there are: the voters, those that are registered, and those that observe.
    fn reach_brokers(&mut self, now_ns: u64, effects: &mut Effects) {
        let registered = self
            .quorum
            .image()
            .brokers()
            .map(|(id, broker)| (id, Address { host: broker.host.clone(), port: broker.port }));
        let mut addresses: BTreeMap<BrokerId, Address> = registered.collect();
        // What an observer says of itself is newer than what it registered with, and the voters are configured.
        let told = self.observers.iter().chain(&self.config.brokers);
        addresses.extend(told.map(|(id, address)| (*id, address.clone())));
        addresses.remove(&self.config.id);
        if addresses != *self.peers.addresses() {
            self.peers.reach(now_ns, addresses, effects);
        }
    }

    /// The process ends, in order.
    pub(crate) fn exit(&mut self, cx: &mut Cx<'_>) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.end_life(cx);
            self.save_high_watermarks_last(cx);
            log!(cx.env, Info, "ends");
            cx.effects.push(Effect::Exit { status: 0 });
        }
    }
}
