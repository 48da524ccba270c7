//! The follower's side of replication: fetches from leaders, truncations, appends. And the leader's requests for ISRs.
//!
//! A fetch names the end of the follower's log, which is durable by then, and the epoch of its last batch. The leader
//! answers with what follows, or with where the two logs part; then the follower cuts its own and asks again, until
//! its log is a prefix of the leader's.
//!
//! An answer is used only if the partition is still followed in the epoch in which it was asked for, and its log ends
//! where it ended then: an answer of an earlier epoch of the same leader would truncate what was committed since
//! (KAFKA-18991). Nothing of a later epoch than asked for is appended (KAFKA-18723). The leader's high watermark counts
//! only if the answer says that the logs do not part (KAFKA-14704).
//!
//! Source: KIP-101, KIP-279, KIP-595 (diverging epochs), KIP-903 (which life of a broker fetches).

mod session;

use crate::controller::{ControlRequest, ControlResponse};
use crate::ids::{BrokerId, LeaderEpoch, PartitionEpoch, PartitionKey, TopicId};
use crate::log::{AppendError, EpochEnd};
use crate::node::{Call, Cx, Fatal, Running};
use crate::peers::{LinkId, Purpose};
use crate::replica::{Ids, Role};
use bytes::Bytes;
use riprap_env::log;
use riprap_protocol::ErrorCode;
use riprap_protocol::frame::decode_response;
use riprap_protocol::messages::{
    AlterPartitionRequest, AlterPartitionRequestIsrMember, AlterPartitionRequestPartition,
    AlterPartitionRequestTopic, FetchRequest, FetchRequestPartition, FetchRequestReplicaState,
    FetchResponsePartition,
};
use riprap_protocol::records::BatchHeader;
use session::{LeaderSession, Named, Part};
use std::collections::BTreeMap;

/// The version of Fetch among brokers: topics by id, and which life of the follower asks.
const FETCH_VERSION: i16 = 17;

/// Most bytes that a follower takes at once, in all and of a partition. Units: bytes.
const FETCH_MAX_BYTES: i32 = 10 << 20;
/// See [`FETCH_MAX_BYTES`].
const PARTITION_MAX_BYTES: i32 = 1 << 20;

/// The pause of a partition after an error: until then the leader or this broker may have learned what is new.
const PAUSE_NS: u64 = 50_000_000;

/// The pause before ISRs that were not granted are asked for again.
const ISR_RETRY_NS: u64 = 50_000_000;

/// The headers of batches that stand one after the other, up to one that is none: the append finds that.
fn headers(mut batches: &[u8]) -> impl Iterator<Item = BatchHeader> {
    std::iter::from_fn(move || {
        let header = BatchHeader::parse(batches).ok()?;
        batches = batches.get(header.size_bytes..).unwrap_or_default();
        Some(header)
    })
}

/// How many fetches may be on their way to one leader: one that waits for data, and one that names partitions which
/// the first does not. The leader ends the first when it sees the second.
const FETCHES_IN_FLIGHT: usize = 2;

/// What a fetch asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AskedFetch {
    /// By partition, the epoch of the leader and the end of the follower's log.
    partitions: BTreeMap<PartitionKey, (LeaderEpoch, i64)>,
    part: Part,
}

/// What a broker remembers of its fetches.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    sessions: BTreeMap<BrokerId, LeaderSession>,
    /// When it is next looked at what is to be fetched: at once after an answer, a new role or a new connection, else
    /// when a pause ends.
    due_ns: Option<u64>,
}

impl Fetches {
    /// Has it looked at what is to be fetched.
    pub(crate) fn hurry(&mut self) {
        self.due_ns = Some(0);
    }

    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        self.due_ns
    }
}

impl Running {
    /// Asks leaders for what this broker's copies lack.
    pub(crate) fn send_fetches(&mut self, cx: &mut Cx<'_>) {
        if self.fetches.due_ns.is_none_or(|due_ns| due_ns > cx.now_ns) {
            return;
        }
        self.fetches.due_ns = None;
        let mut by_leader: BTreeMap<BrokerId, BTreeMap<PartitionKey, (LeaderEpoch, i64)>> = BTreeMap::new();
        for replica in self.replicas.iter() {
            let Role::Follower(follower) = &replica.role else { continue };
            if follower.pause_until_ns <= cx.now_ns {
                let asked = by_leader.entry(follower.leader).or_default();
                asked.insert(replica.key, (follower.epoch, replica.counted_end()));
            } else {
                let due_ns = self.fetches.due_ns.get_or_insert(follower.pause_until_ns);
                *due_ns = follower.pause_until_ns.min(*due_ns);
            }
        }
        for (to, partitions) in by_leader {
            let link = LinkId { to, purpose: Purpose::Fetch };
            let on_their_way: Vec<&AskedFetch> = self
                .peers
                .in_flight(link)
                .filter_map(|call| match call {
                    Call::Fetch(asked) => Some(asked),
                    _ => None,
                })
                .collect();
            let is_asked = |(key, (epoch, _)): (&PartitionKey, &(LeaderEpoch, i64))| {
                on_their_way.iter().any(|sent| sent.partitions.get(key).is_some_and(|(e, _)| e == epoch))
            };
            if on_their_way.len() >= FETCHES_IN_FLIGHT
                || (!on_their_way.is_empty() && partitions.iter().all(is_asked))
                || !self.peers.is_up(link)
            {
                continue;
            }
            let mut request = self.fetch_request();
            let wanted = self.named(&partitions);
            let session = self.fetches.sessions.entry(to).or_default();
            let part = session.next(wanted, &mut request);
            let call = Call::Fetch(AskedFetch { partitions, part });
            let deadline_ns = cx.now_ns + self.config.peer_timeout_ms * 1_000_000;
            let sent = self.peers.send(link, FETCH_VERSION, &request, call, deadline_ns, cx.effects);
            // Only if too much is on its way: the answers bring the next turn.
            if sent.is_err() {
                session.lost(part);
            }
        }
    }

    /// The partitions as a request names them.
    fn named(&self, partitions: &BTreeMap<PartitionKey, (LeaderEpoch, i64)>) -> Named {
        let name = |(key, (epoch, offset)): (&PartitionKey, &(LeaderEpoch, i64))| {
            let replica = self.replicas.get(*key);
            let named = FetchRequestPartition {
                index: key.index,
                current_leader_epoch: epoch.0,
                fetch_offset: *offset,
                last_fetched_epoch: replica.and_then(|r| r.log.last_leader_epoch()).unwrap_or(-1),
                log_start_offset: replica.map_or(-1, |r| r.log.log_start_offset()),
                partition_max_bytes: PARTITION_MAX_BYTES,
                ..Default::default()
            };
            (*key, named)
        };
        partitions.iter().map(name).collect()
    }

    /// A request that names nothing yet.
    fn fetch_request(&self) -> FetchRequest {
        FetchRequest {
            replica_id: -1,
            replica_state: FetchRequestReplicaState {
                replica_id: self.config.id.0,
                replica_epoch: self.incarnation.0,
            },
            max_wait_ms: i32::try_from(self.config.replica_fetch_wait_ms).unwrap_or(i32::MAX),
            min_bytes: 1,
            max_bytes: FETCH_MAX_BYTES,
            ..Default::default()
        }
    }

    /// A leader answered a fetch.
    pub(crate) fn fetched(
        &mut self,
        from: BrokerId,
        asked: &AskedFetch,
        frame: Bytes,
        cx: &mut Cx<'_>,
    ) -> Result<(), Fatal> {
        self.fetches.hurry();
        let response = match decode_response::<FetchRequest>(frame, FETCH_VERSION) {
            Ok((_, response)) if response.error_code.is_none() => response,
            // The leader began anew, or had not room for all sessions: so does this one.
            Ok((_, response))
                if asked.part == Part::Continues
                    && matches!(
                        response.error_code,
                        ErrorCode::FETCH_SESSION_ID_NOT_FOUND | ErrorCode::INVALID_FETCH_SESSION_EPOCH
                    ) =>
            {
                self.fetches.sessions.entry(from).or_default().lost(asked.part);
                return Ok(());
            }
            Ok((_, response)) => {
                let code = response.error_code;
                log!(cx.env, Warn, "broker {from} refuses a fetch: {code}");
                self.fetch_lost(from, asked, cx.now_ns);
                return Ok(());
            }
            Err(e) => {
                log!(cx.env, Warn, "cannot read broker {from}'s answer to a fetch: {e}");
                self.fetch_lost(from, asked, cx.now_ns);
                return Ok(());
            }
        };
        self.fetches.sessions.entry(from).or_default().answered(asked.part, &response);
        for topic in &response.topics {
            for partition in &topic.partitions {
                let key = PartitionKey { topic: TopicId(topic.topic_id), index: partition.index };
                if let Some((epoch, offset)) = asked.partitions.get(&key) {
                    self.fetched_partition(from, key, (*epoch, *offset), partition, cx)?;
                }
            }
        }
        Ok(())
    }

    /// What a leader said of one partition.
    fn fetched_partition(
        &mut self,
        from: BrokerId,
        key: PartitionKey,
        (epoch, offset): (LeaderEpoch, i64),
        answer: &FetchResponsePartition,
        cx: &mut Cx<'_>,
    ) -> Result<(), Fatal> {
        let Some(replica) = self.replicas.get_mut(key) else { return Ok(()) };
        let end = replica.log.log_end_offset();
        let start = replica.log.log_start_offset();
        let name = replica.name();
        let Role::Follower(follower) = &mut replica.role else { return Ok(()) };
        if follower.leader != from || follower.epoch != epoch || end != offset {
            return Ok(());
        }
        let failed = |error| Fatal::Log { partition: name.clone(), error };
        match answer.error_code {
            ErrorCode::NONE => {}
            ErrorCode::OFFSET_OUT_OF_RANGE if answer.log_start_offset > end => {
                let to = answer.log_start_offset;
                log!(
                    cx.env,
                    Warn,
                    "{name}: begins anew at {to}: the leader's log begins there, own {start}..{end}"
                );
                replica.log.reset_to(cx.env.disk(), to).map_err(failed)?;
                replica.high_watermark = to;
                self.replicas.take_back_high_watermark(key, cx)?;
                return Ok(());
            }
            _ => {
                follower.pause_until_ns = cx.now_ns + PAUSE_NS;
                return Ok(());
            }
        }
        if answer.diverging_epoch.epoch >= 0 || answer.diverging_epoch.end_offset >= 0 {
            let leaders = EpochEnd {
                epoch: answer.diverging_epoch.epoch,
                end_offset: answer.diverging_epoch.end_offset,
            };
            let known = replica.high_watermark;
            let (before, after) = replica.truncate_to_leader(leaders, cx.env.disk()).map_err(failed)?;
            let line = format_args!(
                "{name}: truncated from {before} to {after}: in epoch {epoch} leader {from} ends epoch {} at {}; \
                 high watermark was {known}",
                leaders.epoch, leaders.end_offset
            );
            if after < known {
                log!(cx.env, Error, "{line}");
            } else {
                log!(cx.env, Info, "{line}");
            }
            self.replicas.take_back_high_watermark(key, cx)?;
            return Ok(());
        }
        let records = answer.records.clone().unwrap_or_default();
        if !records.is_empty() {
            let is_later = headers(&records).any(|header| header.leader_epoch > epoch.0);
            let result = if is_later {
                Err(format!("batches of a later epoch than {epoch}, in which they were asked for"))
            } else {
                match replica.log.append_as_follower(cx.env.disk(), records) {
                    Ok(_) => Ok(()),
                    Err(AppendError::Log(crate::log::LogError::Failed(_))) => {
                        let error = crate::log::LogError::Failed(name.to_string());
                        return Err(Fatal::Log { partition: name, error });
                    }
                    Err(e) => Err(e.to_string()),
                }
            };
            if let Err(why) = result {
                log!(cx.env, Error, "{name}: cannot append from leader {from}: {why}");
                if let Role::Follower(follower) = &mut replica.role {
                    follower.pause_until_ns = cx.now_ns + PAUSE_NS;
                }
                return Ok(());
            }
            self.replicas.note_appended(key);
        }
        if let Some(replica) = self.replicas.get_mut(key) {
            replica.hear_high_watermark(answer.high_watermark);
            replica.follow_start(answer.log_start_offset, cx.env.disk()).map_err(failed)?;
        }
        Ok(())
    }

    /// A fetch will not be answered: its partitions pause.
    pub(crate) fn fetch_lost(&mut self, to: BrokerId, asked: &AskedFetch, now_ns: u64) {
        self.fetches.hurry();
        self.fetches.sessions.entry(to).or_default().lost(asked.part);
        for key in asked.partitions.keys() {
            if let Some(replica) = self.replicas.get_mut(*key)
                && let Role::Follower(follower) = &mut replica.role
                && follower.leader == to
            {
                follower.pause_until_ns = now_ns + PAUSE_NS;
            }
        }
    }

    /// Asks the controller for the ISRs that there should be.
    pub(crate) fn ask_for_isrs(&mut self, cx: &mut Cx<'_>) {
        let replicas = &self.replicas;
        let due_ns = replicas.isr_check_at_ns.max(replicas.isr_pause_until_ns);
        if replicas.is_asking_for_isrs || due_ns > cx.now_ns {
            return;
        }
        let lag_ns = self.config.replica_lag_ms * 1_000_000;
        self.replicas.isr_check_at_ns = cx.now_ns + lag_ns / 4;
        if !self.is_registered() {
            return;
        }
        let me = self.config.id;
        let image = self.quorum.image();
        let mut request =
            AlterPartitionRequest { broker_id: me.0, broker_epoch: self.incarnation.0, topics: Vec::new() };
        let mut asked = Vec::new();
        for replica in self.replicas.iter_mut() {
            let (key, high_watermark) = (replica.key, replica.high_watermark);
            let name = replica.name();
            let Some(leader) = replica.leader_mut() else { continue };
            let mut members = leader.isr.members().to_vec();
            members.sort_unstable();
            let wanted = leader.wanted_isr(me, high_watermark, image, cx.now_ns, lag_ns);
            if wanted == members && !leader.isr.is_in_doubt() {
                continue;
            }
            let epoch = leader.isr.epoch();
            // While nobody can grant it, the same is asked for many times a second.
            if leader.isr_asked_for != wanted {
                log!(
                    cx.env,
                    Info,
                    "{name}: asks for isr {} instead of {} in epoch {epoch}",
                    Ids(&wanted),
                    Ids(&members)
                );
                leader.isr_asked_for.clone_from(&wanted);
            }
            leader.isr.ask(&wanted);
            asked.push((key, leader.epoch, epoch));
            let member = |id: BrokerId| {
                let incarnation = if id == me { Some(self.incarnation) } else { leader.incarnation_of(id) };
                let broker_epoch = incarnation.map_or(-1, |incarnation| incarnation.0);
                AlterPartitionRequestIsrMember { broker_id: id.0, broker_epoch }
            };
            let partition = AlterPartitionRequestPartition {
                index: key.index,
                leader_epoch: leader.epoch.0,
                new_isr: wanted.iter().map(|id| member(*id)).collect(),
                partition_epoch: epoch.0,
            };
            match request.topics.last_mut() {
                Some(topic) if topic.topic_id == key.topic.0 => topic.partitions.push(partition),
                _ => request
                    .topics
                    .push(AlterPartitionRequestTopic { topic_id: key.topic.0, partitions: vec![partition] }),
            }
        }
        if !asked.is_empty() {
            self.replicas.is_asking_for_isrs = true;
            self.ask_controller(ControlRequest::Alter(request), Call::AlterPartition { asked }, cx);
        }
    }

    /// The controller answered a request for ISRs, or will not. What it granted comes through the quorum's log, and
    /// until then both ISRs count; see [`InSync`](crate::replica).
    pub(crate) fn isrs_answered(
        &mut self,
        asked: &[(PartitionKey, LeaderEpoch, PartitionEpoch)],
        response: &ControlResponse,
        cx: &mut Cx<'_>,
    ) {
        self.replicas.is_asking_for_isrs = false;
        self.replicas.isr_check_at_ns = cx.now_ns;
        self.replicas.isr_pause_until_ns = cx.now_ns + ISR_RETRY_NS;
        if let ControlResponse::Alter(body) = response {
            for topic in &body.topics {
                for partition in topic.partitions.iter().filter(|partition| !partition.error_code.is_none()) {
                    let key = PartitionKey { topic: TopicId(topic.topic_id), index: partition.index };
                    let was_asked = asked.iter().any(|(asked, _, _)| *asked == key);
                    if let Some(replica) = self.replicas.get(key).filter(|_| was_asked) {
                        let (name, code) = (replica.name(), partition.error_code);
                        log!(cx.env, Info, "{name}: the controller refuses the isr: {code}");
                    }
                }
            }
        }
    }
}
