//! What the controller does with each request, and with time.

use super::decide::{self, AlterPartition, Leaving};
use super::topics::{self, TopicWish};
use super::{ControlRequest, ControlResponse, Origin, SERVE_TIMEOUT_NS, Serving, Session, TICK_NS};
use crate::config::{BrokerConfig, MAX_OBSERVERS};
use crate::defect::DefectKind;
use crate::ids::{BrokerId, Incarnation, LeaderEpoch, PartitionEpoch, PartitionKey, TopicId};
use crate::metadata::Record;
use crate::node::{Cx, Running};
use crate::settings::{TopicSettings, describe_topic};
use bytes::Bytes;
use riprap_env::log;
use riprap_protocol::messages::{
    AllocateProducerIdsResponse, AlterPartitionRequest, AlterPartitionResponse,
    AlterPartitionResponsePartition, AlterPartitionResponseTopic, BrokerHeartbeatRequest,
    BrokerHeartbeatResponse, BrokerRegistrationRequest, BrokerRegistrationResponse, CreatePartitionsRequest,
    CreatePartitionsResponse, CreatePartitionsResponseResult, CreateTopicsRequest, CreateTopicsResponse,
    CreateTopicsResponseConfig, CreateTopicsResponseTopic, DeleteTopicsRequest, DeleteTopicsResponse,
    DeleteTopicsResponseTopic, ForwardRequestRequest, ForwardRequestResponse,
};
use riprap_protocol::{ApiKey, ErrorCode, Message, Reader, Uuid};
use std::collections::BTreeSet;

/// Producer ids that a broker gets at once. Source: KIP-730.
const PRODUCER_IDS_PER_BLOCK: i32 = 1000;

impl Running {
    /// Takes in a request to the controller.
    pub(crate) fn control(&mut self, origin: Origin, request: ControlRequest, cx: &mut Cx<'_>) {
        let refusal = request.refusal(ErrorCode::NOT_CONTROLLER);
        if self.controller.is_none() {
            self.send_answer(origin, refusal, cx);
            return;
        }
        let (result, serving) = match &request {
            ControlRequest::Register(body) => (self.register(body, cx).map(ControlResponse::Register), None),
            ControlRequest::Heartbeat(body) => {
                (self.heartbeat(body, cx).map(ControlResponse::Heartbeat), None)
            }
            ControlRequest::Alter(body) => (self.alter(body, cx).map(ControlResponse::Alter), None),
            ControlRequest::Allocate(_) => (self.allocate(cx).map(ControlResponse::Allocate), None),
            ControlRequest::Forward(body) => {
                let mut leaders = BTreeSet::new();
                let result = self.forwarded(body, &mut leaders, cx).map(ControlResponse::Forward);
                let deadline_ns = cx.now_ns + SERVE_TIMEOUT_NS;
                (result, (!leaders.is_empty()).then_some(Serving { leaders, deadline_ns }))
            }
        };
        let response = result.unwrap_or_else(|code| request.refusal(code));
        self.answer_later(origin, response, refusal, serving, cx);
    }

    fn register(
        &mut self,
        request: &BrokerRegistrationRequest,
        cx: &mut Cx<'_>,
    ) -> Result<BrokerRegistrationResponse, ErrorCode> {
        let id = BrokerId(request.broker_id);
        let port = u16::try_from(request.port).map_err(|_| ErrorCode::INVALID_REQUEST)?;
        if request.cluster_id != self.config.cluster_id {
            return Err(ErrorCode::INCONSISTENT_CLUSTER_ID);
        }
        let last = request.incarnation_id.0[8..].try_into().expect("a uuid has 8 more bytes after 8");
        let incarnation = Incarnation(i64::from_be_bytes(last));
        let controller = self.controller.as_mut().ok_or(ErrorCode::NOT_CONTROLLER)?;
        let is_known = controller.image.broker(id).is_some_and(|broker| broker.incarnation == incarnation);
        if id.0 < 0 {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        if controller.image.is_gone(id, incarnation) {
            return Err(ErrorCode::STALE_BROKER_EPOCH);
        }
        let is_observer = |id: &BrokerId| !self.config.brokers.contains_key(id);
        let observers = controller.image.brokers().filter(|(id, _)| is_observer(id)).count();
        if is_observer(&id) && controller.image.broker(id).is_none() && observers >= MAX_OBSERVERS {
            return Err(ErrorCode::POLICY_VIOLATION);
        }
        if !is_known {
            // Who was never heard of lost nothing, and a partition that was made while nobody lived may wait for it.
            let is_empty = request.disk_is_new && controller.image.broker(id).is_some();
            let last_life = match request.may_lack_records {
                _ if is_empty => Leaving::Gone,
                true => Leaving::Lacking,
                false => Leaving::Synced,
            };
            let (image, host) = (&controller.image, &request.host);
            let records = decide::register(image, id, incarnation, last_life, host, port);
            log!(cx.env, Info, "controller: broker {id} registers as {incarnation}");
            let catch_up_to = self.propose_logged(&records, cx)?;
            let controller = self.controller.as_mut().ok_or(ErrorCode::NOT_CONTROLLER)?;
            controller.sessions.insert(id, Session { heard_ns: cx.now_ns, catch_up_to });
        }
        Ok(BrokerRegistrationResponse { error_code: ErrorCode::NONE, broker_epoch: incarnation.0 })
    }

    fn heartbeat(
        &mut self,
        request: &BrokerHeartbeatRequest,
        cx: &mut Cx<'_>,
    ) -> Result<BrokerHeartbeatResponse, ErrorCode> {
        let id = BrokerId(request.broker_id);
        let controller = self.controller.as_mut().ok_or(ErrorCode::NOT_CONTROLLER)?;
        let Some(broker) = controller.image.broker(id) else {
            return Err(ErrorCode::BROKER_ID_NOT_REGISTERED);
        };
        if broker.incarnation.0 != request.broker_epoch {
            return Err(ErrorCode::STALE_BROKER_EPOCH);
        }
        let was_fenced = broker.fenced;
        let Some(session) = controller.sessions.get_mut(&id) else {
            return Err(ErrorCode::BROKER_ID_NOT_REGISTERED);
        };
        session.heard_ns = cx.now_ns;
        let applied = u64::try_from(request.metadata_offset).unwrap_or(0);
        let has_caught_up = applied >= session.catch_up_to.0;
        for (index, answer) in &mut controller.serving {
            if applied >= index.0
                && let Some(serving) = &mut answer.serving
            {
                serving.leaders.remove(&id);
            }
        }
        let mut response =
            BrokerHeartbeatResponse { is_fenced: was_fenced, should_shutdown: false, ..Default::default() };
        if request.want_shutdown {
            if !was_fenced {
                log!(cx.env, Info, "controller: broker {id} leaves");
                let records = decide::fence(&controller.image, id);
                self.propose_logged(&records, cx)?;
            }
            response =
                BrokerHeartbeatResponse { is_fenced: true, should_shutdown: true, ..Default::default() };
        } else if was_fenced && has_caught_up {
            log!(cx.env, Info, "controller: broker {id} takes part");
            let records = decide::unfence(&controller.image, id);
            self.propose_logged(&records, cx)?;
            response.is_fenced = false;
        }
        self.answer_served(cx);
        Ok(response)
    }

    fn alter(
        &mut self,
        request: &AlterPartitionRequest,
        cx: &mut Cx<'_>,
    ) -> Result<AlterPartitionResponse, ErrorCode> {
        let leader = BrokerId(request.broker_id);
        let controller = self.controller.as_mut().ok_or(ErrorCode::NOT_CONTROLLER)?;
        let is_current = controller
            .image
            .broker(leader)
            .is_some_and(|b| b.incarnation.0 == request.broker_epoch && !b.fenced);
        if !is_current {
            return Err(ErrorCode::STALE_BROKER_EPOCH);
        }
        let mut response = AlterPartitionResponse::default();
        let mut records = Vec::new();
        for topic in &request.topics {
            let mut answered =
                AlterPartitionResponseTopic { topic_id: topic.topic_id, partitions: Vec::new() };
            for asked in &topic.partitions {
                let key = PartitionKey { topic: TopicId(topic.topic_id), index: asked.index };
                let wish = AlterPartition {
                    leader,
                    leader_epoch: LeaderEpoch(asked.leader_epoch),
                    partition_epoch: PartitionEpoch(asked.partition_epoch),
                    isr: asked
                        .new_isr
                        .iter()
                        .map(|member| (BrokerId(member.broker_id), Incarnation(member.broker_epoch)))
                        .collect(),
                };
                let mut partition =
                    AlterPartitionResponsePartition { index: asked.index, ..Default::default() };
                match decide::alter(&controller.image, key, &wish) {
                    Ok(state) => {
                        partition.leader_id = leader.0;
                        partition.leader_epoch = state.leader_epoch.0;
                        partition.isr = state.isr.iter().map(|id| id.0).collect();
                        partition.partition_epoch = state.partition_epoch.0;
                        records.push(Record::SetPartition { topic: key.topic, index: key.index, state });
                    }
                    Err(code) => partition.error_code = code,
                }
                answered.partitions.push(partition);
            }
            response.topics.push(answered);
        }
        // A request that names a partition twice is granted twice against one state: the second would not see the first.
        let mut named = BTreeSet::new();
        let twice = records.iter().any(|record| match record {
            Record::SetPartition { topic, index, .. } => !named.insert((*topic, *index)),
            _ => false,
        });
        if twice {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        if !records.is_empty() {
            self.propose_logged(&records, cx)?;
        }
        Ok(response)
    }

    fn allocate(&mut self, cx: &mut Cx<'_>) -> Result<AllocateProducerIdsResponse, ErrorCode> {
        let controller = self.controller.as_ref().ok_or(ErrorCode::NOT_CONTROLLER)?;
        let mut start = controller.image.next_producer_id();
        let len = PRODUCER_IDS_PER_BLOCK;
        // DEFECT pid-overlap: a block begins where the last one did, not where it ended.
        if self.config.has(DefectKind::PidOverlap) {
            start = (start - i64::from(len)).max(0);
        }
        self.propose(&[Record::ProducerIds { next: start + i64::from(len) }], cx)?;
        Ok(AllocateProducerIdsResponse { error_code: ErrorCode::NONE, start, len })
    }

    fn forwarded(
        &mut self,
        request: &ForwardRequestRequest,
        leaders: &mut BTreeSet<BrokerId>,
        cx: &mut Cx<'_>,
    ) -> Result<ForwardRequestResponse, ErrorCode> {
        let version = request.api_version;
        let mut reader = Reader::new(request.body.clone());
        let body = match ApiKey::from_code(request.api_key) {
            Some(ApiKey::CreateTopics) => {
                let body = CreateTopicsRequest::decode(&mut reader, version);
                let response =
                    self.create_topics(&body.map_err(|_| ErrorCode::INVALID_REQUEST)?, leaders, cx)?;
                response.to_bytes(version)
            }
            Some(ApiKey::DeleteTopics) => {
                let body = DeleteTopicsRequest::decode(&mut reader, version);
                let response =
                    self.delete_topics(&body.map_err(|_| ErrorCode::INVALID_REQUEST)?, version, cx)?;
                response.to_bytes(version)
            }
            Some(ApiKey::CreatePartitions) => {
                let body = CreatePartitionsRequest::decode(&mut reader, version);
                let response =
                    self.create_partitions(&body.map_err(|_| ErrorCode::INVALID_REQUEST)?, leaders, cx)?;
                response.to_bytes(version)
            }
            Some(key) => self.administer(key, version, &mut reader, cx)?,
            None => return Err(ErrorCode::UNSUPPORTED_VERSION),
        };
        let body: Bytes = body.map_err(|_| ErrorCode::UNKNOWN_SERVER_ERROR)?;
        Ok(ForwardRequestResponse { error_code: ErrorCode::NONE, body })
    }

    fn create_topics(
        &mut self,
        request: &CreateTopicsRequest,
        leaders: &mut BTreeSet<BrokerId>,
        cx: &mut Cx<'_>,
    ) -> Result<CreateTopicsResponse, ErrorCode> {
        let mut response = CreateTopicsResponse::default();
        let names: Vec<&str> = request.topics.iter().map(|topic| topic.name.as_str()).collect();
        for topic in &request.topics {
            let wish = TopicWish {
                name: topic.name.clone(),
                partitions: topic.num_partitions,
                replication_factor: topic.replication_factor,
                assignments: topic
                    .assignments
                    .iter()
                    .map(|a| (a.index, a.broker_ids.iter().map(|id| BrokerId(*id)).collect()))
                    .collect(),
                configs: topic.configs.iter().map(|c| (c.name.clone(), c.value.clone())).collect(),
            };
            let mut answered = CreateTopicsResponseTopic { name: topic.name.clone(), ..Default::default() };
            if names.iter().filter(|name| **name == topic.name).count() > 1 {
                answered.error_code = ErrorCode::INVALID_REQUEST;
                answered.error_message = Some(format!("topic `{}` is named twice", topic.name));
                response.topics.push(answered);
                continue;
            }
            let id = TopicId(Uuid(random_uuid(cx)));
            let controller = self.controller.as_ref().ok_or(ErrorCode::NOT_CONTROLLER)?;
            match topics::create(&controller.image, &self.config, id, &wish) {
                Ok(records) => {
                    answered.topic_id = id.0;
                    let states = records.iter().filter_map(|record| match record {
                        Record::SetPartition { state, .. } => Some(state),
                        _ => None,
                    });
                    answered.num_partitions = states.clone().count() as i32;
                    answered.replication_factor =
                        states.clone().next().map_or(-1, |s| s.replicas.len() as i16);
                    // The Java client fails on null, which is for those who may not see them. Source: KIP-525.
                    answered.configs =
                        Some(records.iter().flat_map(|record| described(&self.config, record)).collect());
                    if !request.validate_only {
                        leaders.extend(states.filter_map(|state| state.leader));
                        log!(cx.env, Info, "controller: makes topic `{}`", topic.name);
                        self.propose(&records, cx)?;
                    }
                }
                Err(refusal) => {
                    answered.error_code = refusal.code;
                    answered.error_message = Some(refusal.message);
                }
            }
            response.topics.push(answered);
        }
        Ok(response)
    }

    fn create_partitions(
        &mut self,
        request: &CreatePartitionsRequest,
        leaders: &mut BTreeSet<BrokerId>,
        cx: &mut Cx<'_>,
    ) -> Result<CreatePartitionsResponse, ErrorCode> {
        let mut response = CreatePartitionsResponse::default();
        for topic in &request.topics {
            let places = topic.assignments.iter().flatten();
            let places: Vec<Vec<BrokerId>> =
                places.map(|place| place.broker_ids.iter().map(|id| BrokerId(*id)).collect()).collect();
            let mut answered =
                CreatePartitionsResponseResult { name: topic.name.clone(), ..Default::default() };
            let controller = self.controller.as_ref().ok_or(ErrorCode::NOT_CONTROLLER)?;
            match topics::grow(&controller.image, &self.config, &topic.name, topic.count, &places) {
                Ok(_) if request.validate_only => {}
                Ok(records) => {
                    leaders.extend(records.iter().filter_map(|record| match record {
                        Record::SetPartition { state, .. } => state.leader,
                        _ => None,
                    }));
                    log!(cx.env, Info, "controller: topic `{}` grows to {}", topic.name, topic.count);
                    self.propose(&records, cx)?;
                }
                Err(refusal) => {
                    answered.error_code = refusal.code;
                    answered.error_message = Some(refusal.message);
                }
            }
            response.results.push(answered);
        }
        Ok(response)
    }

    fn delete_topics(
        &mut self,
        request: &DeleteTopicsRequest,
        version: i16,
        cx: &mut Cx<'_>,
    ) -> Result<DeleteTopicsResponse, ErrorCode> {
        let by_name = request.topic_names.iter().map(|name| (Some(name.clone()), Uuid::ZERO));
        let asked: Vec<(Option<String>, Uuid)> = if version >= 6 {
            request.topics.iter().map(|topic| (topic.name.clone(), topic.topic_id)).collect()
        } else {
            by_name.collect()
        };
        let mut response = DeleteTopicsResponse::default();
        for (name, topic_id) in asked {
            let controller = self.controller.as_ref().ok_or(ErrorCode::NOT_CONTROLLER)?;
            let image = &controller.image;
            let found = match &name {
                Some(name) => image.topic_id(name),
                None => Some(TopicId(topic_id)).filter(|id| image.topic(*id).is_some()),
            };
            let mut answered =
                DeleteTopicsResponseTopic { name: name.clone(), topic_id, ..Default::default() };
            match found {
                Some(id) => {
                    let full_name = image.topic(id).map(|topic| topic.name.clone());
                    answered.topic_id = id.0;
                    answered.name = full_name;
                    log!(cx.env, Info, "controller: deletes topic {id} `{}`", name.as_deref().unwrap_or(""));
                    self.propose(&[Record::DeleteTopic { id }], cx)?;
                }
                None if name.is_some() => answered.error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                None => answered.error_code = ErrorCode::UNKNOWN_TOPIC_ID,
            }
            response.topics.push(answered);
        }
        Ok(response)
    }

    /// Fences the brokers that were not heard for too long.
    pub(crate) fn tick_controller(&mut self, cx: &mut Cx<'_>) {
        let session_ns = self.config.session_timeout_ms * 1_000_000;
        let Some(controller) = self.controller.as_mut() else { return };
        let since_ns = cx.now_ns - controller.last_tick_ns;
        if since_ns < TICK_NS {
            return;
        }
        controller.last_tick_ns = cx.now_ns;
        if since_ns > session_ns / 4 {
            // This process stood still: what the others said in the meantime waits to be read.
            for session in controller.sessions.values_mut() {
                session.heard_ns += since_ns;
            }
        }
        let sessions = controller.sessions.iter();
        let silent: Vec<BrokerId> = sessions
            .filter(|(_, session)| session.heard_ns + session_ns <= cx.now_ns)
            .map(|(id, _)| *id)
            .collect();
        for id in silent {
            let Some(controller) = self.controller.as_ref() else { return };
            if controller.image.is_live(id) {
                log!(cx.env, Warn, "controller: fences broker {id}: not heard for too long");
                let records = decide::fence(&controller.image, id);
                // Refused only if too much waits for agreement: the next tick tries again.
                let Ok(fenced_at) = self.propose_logged(&records, cx) else { continue };
                // What it led others lead now. Until it knows, it must not be told that it takes part: it would answer as
                // who it was, in the belief that nobody had replaced it.
                if let Some(session) = self.controller.as_mut().and_then(|c| c.sessions.get_mut(&id)) {
                    session.catch_up_to = fenced_at;
                }
            }
        }
        self.answer_served(cx);
    }

    /// Proposes, and logs what becomes of partitions.
    pub(super) fn propose_logged(
        &mut self,
        records: &[Record],
        cx: &mut Cx<'_>,
    ) -> Result<riprap_coord::Index, ErrorCode> {
        for record in records {
            let Record::SetPartition { topic, index, state } = record else { continue };
            let image = self.controller.as_ref().map(|controller| &controller.image);
            let name = image.and_then(|image| image.topic(*topic)).map_or("", |topic| &topic.name);
            let leader = state.leader.map_or("none".to_owned(), |id| id.to_string());
            let (isr, elr) = (crate::replica::Ids(&state.isr), crate::replica::Ids(&state.elr));
            log!(
                cx.env,
                Info,
                "controller: {name}-{index}: leader {leader} epoch {} isr {isr} elr {elr} version {}",
                state.leader_epoch,
                state.partition_epoch
            );
        }
        self.propose(records, cx)
    }
}

fn random_uuid(cx: &mut Cx<'_>) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&cx.env.random_u64("topic-id").to_be_bytes());
    bytes[8..].copy_from_slice(&cx.env.random_u64("topic-id").to_be_bytes());
    bytes
}

/// The settings of a topic that a record makes, as its maker is told them.
fn described(config: &BrokerConfig, record: &Record) -> Vec<CreateTopicsResponseConfig> {
    let Record::CreateTopic { configs, .. } = record else { return Vec::new() };
    let settings = describe_topic(config, &TopicSettings::resolve(config, configs), configs);
    let shown = settings.iter().map(|setting| CreateTopicsResponseConfig {
        name: setting.name.to_owned(),
        value: Some(setting.value().to_owned()),
        read_only: false,
        config_source: setting.source() as i8,
        ..Default::default()
    });
    shown.collect()
}
