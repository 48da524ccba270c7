//! What the controller does with administrators' requests, which brokers pass on: settings, reassignments, elections,
//! brokers that are gone for good.

use super::configs::{self, Change};
use super::decide;
use super::reassign::{self, Election, Target};
use super::topics::Refusal;
use crate::ids::{BrokerId, PartitionKey};
use crate::metadata::{Image, PartitionState, Record};
use crate::node::{Cx, Running};
use crate::requests::configs::{RESOURCE_BROKER, RESOURCE_TOPIC};
use bytes::Bytes;
use riprap_env::log;
use riprap_protocol::messages::*;
use riprap_protocol::{ApiKey, DecodeError, EncodeError, ErrorCode, Message, Reader};
use std::collections::BTreeSet;

impl Running {
    /// Does what is asked for, and says what is answered, in the version that it was asked in.
    pub(super) fn administer(
        &mut self,
        key: ApiKey,
        version: i16,
        reader: &mut Reader,
        cx: &mut Cx<'_>,
    ) -> Result<Result<Bytes, EncodeError>, ErrorCode> {
        fn body<M: Message>(reader: &mut Reader, version: i16) -> Result<M, ErrorCode> {
            M::decode(reader, version).map_err(|_: DecodeError| ErrorCode::INVALID_REQUEST)
        }
        Ok(match key {
            ApiKey::AlterConfigs => self.alter_configs(body(reader, version)?, cx)?.to_bytes(version),
            ApiKey::IncrementalAlterConfigs => {
                self.incremental_alter_configs(body(reader, version)?, cx)?.to_bytes(version)
            }
            ApiKey::ElectLeaders => self.elect_leaders(&body(reader, version)?, cx)?.to_bytes(version),
            ApiKey::AlterPartitionReassignments => {
                self.alter_reassignments(&body(reader, version)?, cx)?.to_bytes(version)
            }
            ApiKey::ListPartitionReassignments => {
                self.list_reassignments(&body(reader, version)?)?.to_bytes(version)
            }
            ApiKey::UnregisterBroker => {
                self.unregister_broker(&body(reader, version)?, cx)?.to_bytes(version)
            }
            _ => return Err(ErrorCode::UNSUPPORTED_VERSION),
        })
    }

    fn controllers_image(&self) -> Result<&Image, ErrorCode> {
        self.controller.as_ref().map(|controller| &controller.image).ok_or(ErrorCode::NOT_CONTROLLER)
    }

    fn incremental_alter_configs(
        &mut self,
        request: IncrementalAlterConfigsRequest,
        cx: &mut Cx<'_>,
    ) -> Result<IncrementalAlterConfigsResponse, ErrorCode> {
        let mut response = IncrementalAlterConfigsResponse::default();
        let named: Vec<(i8, String)> =
            request.resources.iter().map(|r| (r.resource_type, r.resource_name.clone())).collect();
        for resource in request.resources {
            let (kind, name) = (resource.resource_type, resource.resource_name);
            let changes: Result<Vec<(String, Change)>, Refusal> = resource
                .configs
                .into_iter()
                .map(|config| match Change::from_wire(config.config_operation, config.value) {
                    Some(change) => Ok((config.name, change)),
                    None => Err(Refusal {
                        code: ErrorCode::INVALID_REQUEST,
                        message: format!("setting {}: no known change, or one without a value", config.name),
                    }),
                })
                .collect();
            let done =
                changes.and_then(|changes| once(&named, kind, &name).map(|()| changes)).and_then(|changes| {
                    match kind {
                        RESOURCE_BROKER => configs::leave_broker(&changes).map(|()| Vec::new()),
                        _ => {
                            let image = self.controllers_image().map_err(refusal_of)?;
                            configs::change(image, &self.config, &name, &changes)
                        }
                    }
                });
            let (error_code, error_message) = self.settle_configs(&name, done, request.validate_only, cx)?;
            let answered = IncrementalAlterConfigsResponseResource {
                error_code,
                error_message,
                resource_type: kind,
                resource_name: name,
            };
            response.responses.push(answered);
        }
        Ok(response)
    }

    fn alter_configs(
        &mut self,
        request: AlterConfigsRequest,
        cx: &mut Cx<'_>,
    ) -> Result<AlterConfigsResponse, ErrorCode> {
        let mut response = AlterConfigsResponse::default();
        let named: Vec<(i8, String)> =
            request.resources.iter().map(|r| (r.resource_type, r.resource_name.clone())).collect();
        for resource in request.resources {
            let (kind, name) = (resource.resource_type, resource.resource_name);
            let asked: Result<Vec<(String, String)>, Refusal> = resource
                .configs
                .into_iter()
                .map(|config| match config.value {
                    Some(value) => Ok((config.name, value)),
                    None => Err(Refusal {
                        code: ErrorCode::INVALID_REQUEST,
                        message: format!("setting {} has no value", config.name),
                    }),
                })
                .collect();
            let done =
                asked.and_then(|asked| once(&named, kind, &name).map(|()| asked)).and_then(
                    |asked| match kind {
                        RESOURCE_BROKER => {
                            let changes: Vec<(String, Change)> =
                                asked.into_iter().map(|(name, value)| (name, Change::Set(value))).collect();
                            configs::leave_broker(&changes).map(|()| Vec::new())
                        }
                        _ => {
                            let image = self.controllers_image().map_err(refusal_of)?;
                            configs::replace(image, &self.config, &name, asked)
                        }
                    },
                );
            let (error_code, error_message) = self.settle_configs(&name, done, request.validate_only, cx)?;
            let answered = AlterConfigsResponseResource {
                error_code,
                error_message,
                resource_type: kind,
                resource_name: name,
            };
            response.responses.push(answered);
        }
        Ok(response)
    }

    /// Proposes changed settings unless they are only to be checked. Says what is answered.
    fn settle_configs(
        &mut self,
        name: &str,
        done: Result<Vec<Record>, Refusal>,
        validate_only: bool,
        cx: &mut Cx<'_>,
    ) -> Result<(ErrorCode, Option<String>), ErrorCode> {
        match done {
            Ok(records) if validate_only || records.is_empty() => Ok((ErrorCode::NONE, None)),
            Ok(records) => {
                if let Some(Record::SetTopicConfigs { configs, .. }) = records.first() {
                    let configs: Vec<String> =
                        configs.iter().map(|(key, value)| format!("{key}={value}")).collect();
                    log!(cx.env, Info, "controller: topic `{name}` now has [{}]", configs.join(" "));
                }
                self.propose_logged(&records, cx)?;
                Ok((ErrorCode::NONE, None))
            }
            Err(refusal) => Ok((refusal.code, Some(refusal.message))),
        }
    }

    fn elect_leaders(
        &mut self,
        request: &ElectLeadersRequest,
        cx: &mut Cx<'_>,
    ) -> Result<ElectLeadersResponse, ErrorCode> {
        let mut response = ElectLeadersResponse::default();
        let election = match request.election_type {
            0 => Election::Preferred,
            1 => Election::Unclean,
            _ => {
                response.error_code = ErrorCode::INVALID_REQUEST;
                return Ok(response);
            }
        };
        let image = self.controllers_image()?;
        let asked: Vec<(String, Vec<i32>)> = match &request.topics {
            Some(topics) => topics.iter().map(|t| (t.name.clone(), t.partitions.clone())).collect(),
            None => partitions_by_topic(image),
        };
        let mut records = Vec::new();
        for (name, partitions) in asked {
            let mut answered = ElectLeadersResponseTopic { name, partitions: Vec::new() };
            for index in partitions {
                let decided = key_of(image, &answered.name, index)
                    .and_then(|key| Ok((key, reassign::elect_on_request(image, key, election)?)));
                let (error_code, error_message) = take(&mut records, decided);
                // Of those that nobody named, only those are told of that had something to do.
                if request.topics.is_some() || error_code != ErrorCode::ELECTION_NOT_NEEDED {
                    answered.partitions.push(ElectLeadersResponsePartition {
                        index,
                        error_code,
                        error_message,
                    });
                }
            }
            if request.topics.is_some() || !answered.partitions.is_empty() {
                response.topics.push(answered);
            }
        }
        self.propose_distinct(&records, cx)?;
        Ok(response)
    }

    fn alter_reassignments(
        &mut self,
        request: &AlterPartitionReassignmentsRequest,
        cx: &mut Cx<'_>,
    ) -> Result<AlterPartitionReassignmentsResponse, ErrorCode> {
        let image = self.controllers_image()?;
        let may_change_factor = request.allow_replication_factor_change;
        let mut response = AlterPartitionReassignmentsResponse {
            allow_replication_factor_change: may_change_factor,
            ..Default::default()
        };
        let mut records = Vec::new();
        for topic in &request.topics {
            let mut answered =
                AlterPartitionReassignmentsResponseTopic { name: topic.name.clone(), partitions: Vec::new() };
            for partition in &topic.partitions {
                let target = match &partition.replicas {
                    Some(replicas) => Target::Replicas(replicas.iter().map(|id| BrokerId(*id)).collect()),
                    None => Target::Cancel,
                };
                let decided = key_of(image, &topic.name, partition.index)
                    .and_then(|key| Ok((key, reassign::reassign(image, key, &target, may_change_factor)?)));
                let (error_code, error_message) = take(&mut records, decided);
                answered.partitions.push(AlterPartitionReassignmentsResponsePartition {
                    index: partition.index,
                    error_code,
                    error_message,
                });
            }
            response.topics.push(answered);
        }
        self.propose_distinct(&records, cx)?;
        Ok(response)
    }

    fn list_reassignments(
        &self,
        request: &ListPartitionReassignmentsRequest,
    ) -> Result<ListPartitionReassignmentsResponse, ErrorCode> {
        let image = self.controllers_image()?;
        let asked: Vec<(String, Vec<i32>)> = match &request.topics {
            Some(topics) => topics.iter().map(|t| (t.name.clone(), t.partitions.clone())).collect(),
            None => partitions_by_topic(image),
        };
        let mut response = ListPartitionReassignmentsResponse::default();
        for (name, partitions) in asked {
            let mut listed = ListPartitionReassignmentsResponseTopic { name, partitions: Vec::new() };
            for index in partitions {
                let found = key_of(image, &listed.name, index).ok().and_then(|key| image.partition(key));
                // What is not there, or not under way, is not listed. Source: Kafka's ReplicationControlManager.
                let Some(state) = found.map(|partition| partition.state) else { continue };
                if state.adding.is_empty() && state.removing.is_empty() {
                    continue;
                }
                let numbers = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
                listed.partitions.push(ListPartitionReassignmentsResponsePartition {
                    index,
                    replicas: numbers(&state.replicas),
                    adding_replicas: numbers(&state.adding),
                    removing_replicas: numbers(&state.removing),
                });
            }
            if !listed.partitions.is_empty() {
                response.topics.push(listed);
            }
        }
        Ok(response)
    }

    fn unregister_broker(
        &mut self,
        request: &UnregisterBrokerRequest,
        cx: &mut Cx<'_>,
    ) -> Result<UnregisterBrokerResponse, ErrorCode> {
        let id = BrokerId(request.broker_id);
        let image = self.controllers_image()?;
        let mut response = UnregisterBrokerResponse::default();
        if image.broker(id).is_none() {
            response.error_code = ErrorCode::BROKER_ID_NOT_REGISTERED;
            response.error_message = Some(format!("broker {id} is not registered"));
            return Ok(response);
        }
        let records = decide::unregister(image, id);
        log!(cx.env, Info, "controller: broker {id} is registered no longer");
        self.propose_logged(&records, cx)?;
        if let Some(controller) = self.controller.as_mut() {
            controller.sessions.remove(&id);
        }
        Ok(response)
    }

    /// Proposes changes of partitions. Errors: one is changed twice, and the second change would not know of the first.
    fn propose_distinct(&mut self, records: &[Record], cx: &mut Cx<'_>) -> Result<(), ErrorCode> {
        let mut named = BTreeSet::new();
        let twice = records.iter().any(|record| match record {
            Record::SetPartition { topic, index, .. } => !named.insert((*topic, *index)),
            _ => false,
        });
        if twice {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        if !records.is_empty() {
            self.propose_logged(records, cx)?;
        }
        Ok(())
    }
}

/// Notes a change of a partition. Says what is answered.
fn take(
    records: &mut Vec<Record>,
    decided: Result<(PartitionKey, PartitionState), Refusal>,
) -> (ErrorCode, Option<String>) {
    match decided {
        Ok((key, state)) => {
            records.push(Record::SetPartition { topic: key.topic, index: key.index, state });
            (ErrorCode::NONE, None)
        }
        Err(refusal) => (refusal.code, Some(refusal.message)),
    }
}

/// A resource has settings that can be changed, and is named once. Source: Kafka's ConfigAdminManager.
fn once(named: &[(i8, String)], kind: i8, name: &str) -> Result<(), Refusal> {
    let refuse = |message: String| Err(Refusal { code: ErrorCode::INVALID_REQUEST, message });
    if !matches!(kind, RESOURCE_TOPIC | RESOURCE_BROKER) {
        return refuse(format!("resources of kind {kind} have no settings that can be changed"));
    }
    if named.iter().filter(|(k, n)| *k == kind && n == name).count() > 1 {
        return refuse(format!("resource `{name}` is named twice"));
    }
    Ok(())
}

fn refusal_of(code: ErrorCode) -> Refusal {
    Refusal { code, message: "this broker is not the controller any more".to_owned() }
}

fn key_of(image: &Image, name: &str, index: i32) -> Result<PartitionKey, Refusal> {
    let key = image.topic_id(name).map(|topic| PartitionKey { topic, index });
    key.filter(|key| image.partition(*key).is_some()).ok_or_else(|| Refusal {
        code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        message: format!("there is no partition {index} of topic `{name}`"),
    })
}

fn partitions_by_topic(image: &Image) -> Vec<(String, Vec<i32>)> {
    let all = image.topics_by_name();
    all.map(|(name, _, topic)| (name.to_owned(), topic.partitions.keys().copied().collect())).collect()
}
