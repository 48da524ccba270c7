//! What is advertised is served: every API in every version of ApiVersions' list is asked for, with every field set that
//! makes answers differ between versions, and answered with what its version can say. And the README's table is that list.

mod bench;

use bench::Bench;
use bytes::Bytes;
use riprap_env::ConnId;
use riprap_protocol::messages::*;
use riprap_protocol::records::BatchBuilder;
use riprap_protocol::{ApiKey, ErrorCode, Request};
use std::fmt::Write as _;

/// First version of FindCoordinator that takes several keys. Source: KIP-699.
const COORDINATORS_SINCE: i16 = 4;
/// First version of OffsetFetch that takes several groups. Source: KIP-709.
const GROUPS_SINCE: i16 = 8;
/// First version of LeaveGroup that takes several members. Source: KIP-345.
const MEMBERS_SINCE: i16 = 3;
/// First version of DeleteTopics that takes ids. Source: KIP-516.
const TOPIC_IDS_SINCE: i16 = 6;
/// First version of AddPartitionsToTxn in which brokers ask, about several transactions. Source: KIP-890.
const BROKERS_ADD_SINCE: i16 = 4;
/// First version of CreateTopics whose answer has the topic's settings. Source: KIP-525.
const CREATED_CONFIGS_SINCE: i16 = 5;
/// First version of Fetch that names topics by id. Source: KIP-516.
const FETCH_IDS_SINCE: i16 = 13;

fn text(text: &str) -> String {
    text.to_owned()
}

fn served(bench: &mut Bench) -> Vec<(ApiKey, i16, i16)> {
    let conn = bench.connect();
    let response = bench.ask(conn, 3, &ApiVersionsRequest::default());
    bench.hang_up(conn);
    let known = |api: &ApiVersionsResponseApi| ApiKey::from_code(api.api_key).expect("the codec knows it");
    response.api_keys.iter().map(|api| (known(api), api.min_version, api.max_version)).collect()
}

/// Asks for each. Panics: one is not answered, or not in its version.
fn check<R: Request>(bench: &mut Bench, conn: ConnId, version: i16, bodies: impl IntoIterator<Item = R>) {
    for body in bodies {
        bench.ask(conn, version, &body);
    }
}

/// Asks in each way that an answer depends on.
fn ask_for(bench: &mut Bench, conn: ConnId, key: ApiKey, version: i16) {
    match key {
        ApiKey::Produce => {
            let batch = BatchBuilder::new().record(0, Some(b"key"), Some(b"value")).build();
            let bodies = [("t", Some(batch)), ("t", Some(Bytes::from_static(b"no"))), ("no-such", None)];
            let bodies = bodies.map(|(name, records)| ProduceRequest {
                acks: -1,
                timeout_ms: 100,
                topics: vec![ProduceRequestTopic {
                    name: text(name),
                    partitions: vec![ProduceRequestPartition { index: 0, records }],
                }],
                ..Default::default()
            });
            check(bench, conn, version, bodies);
        }
        ApiKey::Fetch => {
            let topic_id = bench.ask(conn, 13, &metadata("t")).topics[0].topic_id;
            let bodies = [0, 99].map(|fetch_offset| {
                let partition =
                    FetchRequestPartition { fetch_offset, partition_max_bytes: 1000, ..Default::default() };
                let mut topic = FetchRequestTopic { partitions: vec![partition], ..Default::default() };
                if version >= FETCH_IDS_SINCE {
                    topic.topic_id = topic_id;
                } else {
                    topic.name = text("t");
                }
                FetchRequest { replica_id: -1, max_bytes: 1000, topics: vec![topic], ..Default::default() }
            });
            check(bench, conn, version, bodies);
        }
        ApiKey::ListOffsets => {
            let bodies = [-1, -2, -3, -4, -5, 0, i64::MAX]
                .map(|timestamp| (timestamp, 0))
                .into_iter()
                .chain([(-1, 9)]);
            let bodies = bodies.map(|(timestamp, index)| ListOffsetsRequest {
                replica_id: -1,
                topics: vec![ListOffsetsRequestTopic {
                    name: text("t"),
                    partitions: vec![ListOffsetsRequestPartition { index, timestamp, ..Default::default() }],
                }],
                ..Default::default()
            });
            check(bench, conn, version, bodies);
        }
        ApiKey::Metadata => {
            let all = if version == 0 { Some(Vec::new()) } else { None };
            let all = MetadataRequest { topics: all, ..Default::default() };
            check(bench, conn, version, [all, metadata("t"), metadata("no-such")]);
        }
        ApiKey::OffsetCommit => {
            let bodies = ["t", "no-such"].map(|name| OffsetCommitRequest {
                group_id: text("committed"),
                topics: vec![OffsetCommitRequestTopic {
                    name: text(name),
                    partitions: vec![OffsetCommitRequestPartition {
                        committed_offset: 1,
                        ..Default::default()
                    }],
                }],
                ..Default::default()
            });
            check(bench, conn, version, bodies);
        }
        ApiKey::OffsetFetch => {
            let topics = || Some(vec![OffsetFetchRequestTopic { name: text("t"), partitions: vec![0, 1] }]);
            let body = if version < GROUPS_SINCE {
                OffsetFetchRequest { group_id: text("committed"), topics: topics(), ..Default::default() }
            } else {
                let groups = ["committed", "no-such"].map(|id| OffsetFetchRequestGroup {
                    group_id: text(id),
                    topics: topics(),
                    ..Default::default()
                });
                OffsetFetchRequest { groups: groups.into(), ..Default::default() }
            };
            check(bench, conn, version, [body]);
        }
        ApiKey::FindCoordinator => {
            let bodies = [("g", 0), ("", 0), ("t", 1), ("", 1)].map(|(key, key_type)| {
                let key_type = if version == 0 { 0 } else { key_type };
                if version < COORDINATORS_SINCE {
                    FindCoordinatorRequest { key: text(key), key_type, ..Default::default() }
                } else {
                    let coordinator_keys = vec![text(key); 2];
                    FindCoordinatorRequest { coordinator_keys, key_type, ..Default::default() }
                }
            });
            check(bench, conn, version, bodies);
        }
        ApiKey::JoinGroup => {
            let body = |member_id: &str| JoinGroupRequest {
                group_id: format!("joined-in-version-{version}"),
                session_timeout_ms: 6000,
                rebalance_timeout_ms: 6000,
                member_id: text(member_id),
                protocol_type: text("consumer"),
                protocols: vec![JoinGroupRequestProtocol {
                    name: text("range"),
                    metadata: Bytes::from_static(b"x"),
                }],
                ..Default::default()
            };
            let first = bench.ask(conn, version, &body(""));
            // Who must bring a member id, got one. Source: KIP-394.
            let again = if first.member_id.is_empty() { "nobody" } else { &first.member_id };
            check(bench, conn, version, [body(again), body("nobody")]);
        }
        ApiKey::Heartbeat => {
            let body = HeartbeatRequest { group_id: text("g"), member_id: text("m"), ..Default::default() };
            check(bench, conn, version, [body]);
        }
        ApiKey::LeaveGroup => {
            let mut body = LeaveGroupRequest { group_id: text("g"), ..Default::default() };
            if version < MEMBERS_SINCE {
                body.member_id = text("m");
            } else {
                body.members = vec![LeaveGroupRequestMember { member_id: text("m"), ..Default::default() }];
            }
            check(bench, conn, version, [body]);
        }
        ApiKey::SyncGroup => {
            let body = SyncGroupRequest { group_id: text("g"), member_id: text("m"), ..Default::default() };
            check(bench, conn, version, [body]);
        }
        ApiKey::DescribeGroups => {
            let groups = ["joined-in-version-9", "committed", "no-such"].map(text).into();
            check(bench, conn, version, [DescribeGroupsRequest { groups, ..Default::default() }]);
        }
        ApiKey::ListGroups => check(bench, conn, version, [ListGroupsRequest::default()]),
        ApiKey::DeleteGroups => {
            let group_ids = ["joined-in-version-9", "no-such"].map(text).into();
            check(bench, conn, version, [DeleteGroupsRequest { group_ids }]);
        }
        ApiKey::ApiVersions => check(bench, conn, version, [ApiVersionsRequest::default()]),
        ApiKey::CreateTopics => {
            let made = bench.ask(conn, version, &create(&format!("made-in-version-{version}")));
            // The Java client fails on a topic that is made and has none.
            assert_eq!(made.topics[0].configs.is_some(), version >= CREATED_CONFIGS_SINCE);
            check(bench, conn, version, ["t", "a/b"].map(create));
        }
        ApiKey::CreatePartitions => {
            let bodies = [("t", i32::from(version) + 2), ("t", 0), ("no-such", 2)];
            let bodies = bodies.map(|(name, count)| CreatePartitionsRequest {
                topics: vec![CreatePartitionsRequestTopic { name: text(name), count, ..Default::default() }],
                timeout_ms: 1000,
                ..Default::default()
            });
            check(bench, conn, version, bodies);
            let found = bench.ask(conn, 13, &metadata("t")).topics[0].partitions.len();
            assert_eq!(found, usize::try_from(version).expect("not below 0") + 2);
        }
        ApiKey::DeleteTopics => {
            let names = [format!("made-in-version-{version}"), text("no-such")];
            let bodies = names.map(|name| {
                let mut body = DeleteTopicsRequest { timeout_ms: 1000, ..Default::default() };
                if version < TOPIC_IDS_SINCE {
                    body.topic_names = vec![name];
                } else {
                    body.topics = vec![DeleteTopicsRequestTopic { name: Some(name), ..Default::default() }];
                }
                body
            });
            check(bench, conn, version, bodies);
        }
        ApiKey::DeleteRecords => {
            let bodies = [("t", -1), ("t", 0), ("t", i64::MAX), ("no-such", 0)].map(|(name, offset)| {
                DeleteRecordsRequest {
                    topics: vec![DeleteRecordsRequestTopic {
                        name: text(name),
                        partitions: vec![DeleteRecordsRequestPartition { index: 0, offset }],
                    }],
                    timeout_ms: 1000,
                }
            });
            check(bench, conn, version, bodies);
        }
        ApiKey::InitProducerId => {
            let bodies =
                [None, Some(text("id")), Some(text(""))].map(|transactional_id| InitProducerIdRequest {
                    transactional_id,
                    transaction_timeout_ms: 60_000,
                    ..Default::default()
                });
            check(bench, conn, version, bodies);
        }
        ApiKey::AddPartitionsToTxn => {
            let bodies = [("id", "t"), ("id", "no-such"), ("no-such", "t")].map(|(id, topic)| {
                let topics =
                    vec![AddPartitionsToTxnRequestTopic { name: text(topic), partitions: vec![0, 9] }];
                if version < BROKERS_ADD_SINCE {
                    let transactional_id = text(id);
                    AddPartitionsToTxnRequest { transactional_id, topics, ..Default::default() }
                } else {
                    let transactions =
                        [true, false].map(|verify_only| AddPartitionsToTxnRequestTransaction {
                            transactional_id: text(id),
                            verify_only,
                            topics: topics.clone(),
                            ..Default::default()
                        });
                    AddPartitionsToTxnRequest { transactions: transactions.into(), ..Default::default() }
                }
            });
            check(bench, conn, version, bodies);
        }
        ApiKey::AddOffsetsToTxn => {
            let body = AddOffsetsToTxnRequest {
                transactional_id: text("id"),
                group_id: text("g"),
                ..Default::default()
            };
            check(bench, conn, version, [body]);
        }
        ApiKey::EndTxn => {
            let bodies = ["id", "no-such"]
                .map(|id| EndTxnRequest { transactional_id: text(id), ..Default::default() });
            check(bench, conn, version, bodies);
        }
        ApiKey::WriteTxnMarkers => {
            let topics = ["t", "no-such"]
                .map(|name| WriteTxnMarkersRequestTopic { name: text(name), partitions: vec![0, 9] });
            let marker =
                WriteTxnMarkersRequestMarker { producer_id: 77, topics: topics.into(), ..Default::default() };
            check(bench, conn, version, [WriteTxnMarkersRequest { markers: vec![marker] }]);
        }
        ApiKey::TxnOffsetCommit => {
            let bodies = ["t", "no-such"].map(|name| TxnOffsetCommitRequest {
                transactional_id: text("id"),
                group_id: text("committed"),
                topics: vec![TxnOffsetCommitRequestTopic {
                    name: text(name),
                    partitions: vec![TxnOffsetCommitRequestPartition::default()],
                }],
                ..Default::default()
            });
            check(bench, conn, version, bodies);
        }
        ApiKey::OffsetForLeaderEpoch => {
            let bodies = [("t", 0), ("t", 7), ("no-such", 0)].map(|(name, leader_epoch)| {
                OffsetForLeaderEpochRequest {
                    replica_id: -1,
                    topics: vec![OffsetForLeaderEpochRequestTopic {
                        name: text(name),
                        partitions: vec![OffsetForLeaderEpochRequestPartition {
                            leader_epoch,
                            ..Default::default()
                        }],
                    }],
                }
            });
            check(bench, conn, version, bodies);
        }
        ApiKey::DescribeConfigs => {
            let resources = [(2, "t"), (2, "no-such"), (4, "1"), (9, "")].map(|(resource_type, name)| {
                DescribeConfigsRequestResource {
                    resource_type,
                    resource_name: text(name),
                    ..Default::default()
                }
            });
            let body = DescribeConfigsRequest { resources: resources.into(), ..Default::default() };
            check(bench, conn, version, [body]);
        }
        ApiKey::AlterConfigs => {
            let resources = [(2, "t"), (2, "no-such"), (4, "1"), (9, "")].map(|(resource_type, name)| {
                let config =
                    AlterConfigsRequestConfig { name: text("retention.ms"), value: Some(text("1000")) };
                AlterConfigsRequestResource {
                    resource_type,
                    resource_name: text(name),
                    configs: vec![config],
                }
            });
            let bodies = [true, false].map(|validate_only| AlterConfigsRequest {
                resources: resources.clone().into(),
                validate_only,
            });
            check(bench, conn, version, bodies);
        }
        ApiKey::IncrementalAlterConfigs => {
            let configs: Vec<IncrementalAlterConfigsRequestConfig> =
                [(0, "retention.ms"), (1, "retention.bytes")]
                    .map(|(config_operation, name)| IncrementalAlterConfigsRequestConfig {
                        name: text(name),
                        config_operation,
                        value: Some(text("1000")).filter(|_| config_operation == 0),
                    })
                    .into();
            let resources = [(2, "t"), (2, "no-such"), (4, "1"), (9, "")].map(|(resource_type, name)| {
                IncrementalAlterConfigsRequestResource {
                    resource_type,
                    resource_name: text(name),
                    configs: configs.clone(),
                }
            });
            let body = IncrementalAlterConfigsRequest { resources: resources.into(), ..Default::default() };
            check(bench, conn, version, [body]);
        }
        ApiKey::ElectLeaders => {
            let named = ["t", "no-such"]
                .map(|name| ElectLeadersRequestTopic { name: text(name), partitions: vec![0, 99] });
            let bodies = [None, Some(named.into())].map(|topics| ElectLeadersRequest {
                topics,
                timeout_ms: 1000,
                ..Default::default()
            });
            check(bench, conn, version, bodies);
        }
        ApiKey::AlterPartitionReassignments => {
            let partitions: Vec<AlterPartitionReassignmentsRequestPartition> =
                [(0, Some(vec![1])), (0, None), (99, None), (0, Some(vec![7]))]
                    .map(|(index, replicas)| AlterPartitionReassignmentsRequestPartition { index, replicas })
                    .into();
            let bodies = partitions.into_iter().map(|partition| AlterPartitionReassignmentsRequest {
                timeout_ms: 1000,
                topics: vec![AlterPartitionReassignmentsRequestTopic {
                    name: text("t"),
                    partitions: vec![partition],
                }],
                ..Default::default()
            });
            check(bench, conn, version, bodies);
        }
        ApiKey::ListPartitionReassignments => {
            let named = ListPartitionReassignmentsRequestTopic { name: text("t"), partitions: vec![0] };
            let bodies = [None, Some(vec![named])]
                .map(|topics| ListPartitionReassignmentsRequest { timeout_ms: 1000, topics });
            check(bench, conn, version, bodies);
        }
        ApiKey::DescribeTopicPartitions => {
            let topic = |name| DescribeTopicPartitionsRequestTopic { name: text(name) };
            let cursor = DescribeTopicPartitionsRequestCursor { topic_name: text("t"), partition_index: 0 };
            let bodies = [
                (vec![], None, 2000),
                (vec![topic("t"), topic("no-such")], None, 1),
                (vec![], Some(cursor), 1),
            ];
            let bodies = bodies.map(|(topics, cursor, response_partition_limit)| {
                DescribeTopicPartitionsRequest { topics, cursor, response_partition_limit }
            });
            check(bench, conn, version, bodies);
        }
        ApiKey::DescribeLogDirs => {
            let named = DescribeLogDirsRequestTopic { name: text("t"), partitions: vec![0, 99] };
            let bodies = [None, Some(vec![named])].map(|topics| DescribeLogDirsRequest { topics });
            check(bench, conn, version, bodies);
        }
        ApiKey::DescribeProducers => {
            let topics = ["t", "no-such"]
                .map(|name| DescribeProducersRequestTopic { name: text(name), partitions: vec![0, 99] });
            check(bench, conn, version, [DescribeProducersRequest { topics: topics.into() }]);
        }
        ApiKey::DescribeTransactions => {
            let transactional_ids = ["", "no-such"].map(text).into();
            check(bench, conn, version, [DescribeTransactionsRequest { transactional_ids }]);
        }
        ApiKey::ListTransactions => {
            let filtered = ListTransactionsRequest {
                state_filters: vec![text("Ongoing"), text("no-such")],
                producer_id_filters: vec![1],
                ..Default::default()
            };
            check(bench, conn, version, [ListTransactionsRequest::default(), filtered]);
        }
        ApiKey::UnregisterBroker => check(bench, conn, version, [UnregisterBrokerRequest { broker_id: 9 }]),
        ApiKey::OffsetDelete => {
            let bodies = ["committed", "no-such"].map(|group_id| OffsetDeleteRequest {
                group_id: text(group_id),
                topics: ["t", "no-such"]
                    .map(|name| OffsetDeleteRequestTopic {
                        name: text(name),
                        partitions: vec![OffsetDeleteRequestPartition { index: 0 }],
                    })
                    .into(),
            });
            let codes = bodies.map(|body| {
                let answer = bench.ask(conn, version, &body);
                let of_partitions = answer.topics.iter().map(|topic| topic.partitions[0].error_code);
                std::iter::once(answer.error_code).chain(of_partitions).collect::<Vec<_>>()
            });
            let missing = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            let deleted = vec![ErrorCode::NONE, ErrorCode::NONE, missing];
            assert_eq!(codes, [deleted, vec![ErrorCode::GROUP_ID_NOT_FOUND]]);
        }
        ApiKey::ConsumerGroupHeartbeat => {
            let group_id = format!("heard-in-version-{version}");
            let join = ConsumerGroupHeartbeatRequest {
                group_id: group_id.clone(),
                member_id: text("m"),
                rebalance_timeout_ms: 1000,
                subscribed_topic_names: Some(vec![text("t")]),
                topic_partitions: Some(Vec::new()),
                ..Default::default()
            };
            let joined = bench.ask(conn, version, &join);
            assert_eq!((joined.member_epoch, joined.assignment.is_some()), (1, true));
            let beat = ConsumerGroupHeartbeatRequest {
                group_id,
                member_id: text("m"),
                member_epoch: 1,
                ..Default::default()
            };
            let beaten = bench.ask(conn, version, &beat);
            assert_eq!((beaten.member_epoch, beaten.assignment), (1, None));
            let nobody = ConsumerGroupHeartbeatRequest { member_id: text("n"), ..beat };
            check(bench, conn, version, [nobody]);
        }
        ApiKey::ConsumerGroupDescribe => {
            let group_ids = ["heard-in-version-1", "committed", "no-such"].map(text).into();
            let body = ConsumerGroupDescribeRequest { group_ids, ..Default::default() };
            let described = bench.ask(conn, version, &body);
            let groups: Vec<_> =
                described.groups.iter().map(|group| (group.members.len(), group.error_code)).collect();
            let none = (0, ErrorCode::GROUP_ID_NOT_FOUND);
            assert_eq!(groups, [(1, ErrorCode::NONE), none, none]);
        }
        ApiKey::DescribeCluster => check(bench, conn, version, [DescribeClusterRequest::default()]),
        key => panic!("{key} is served and not asked for here: add it"),
    }
}

fn metadata(topic: &str) -> MetadataRequest {
    let asked = MetadataRequestTopic { name: Some(text(topic)), ..Default::default() };
    MetadataRequest { topics: Some(vec![asked]), ..Default::default() }
}

fn create(topic: &str) -> CreateTopicsRequest {
    let topic = CreateTopicsRequestTopic {
        name: text(topic),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    CreateTopicsRequest { topics: vec![topic], ..Default::default() }
}

#[test]
fn every_version_that_is_advertised_is_served() {
    let mut bench = Bench::new();
    let conn = bench.connect();
    bench.ask(conn, 7, &create("t"));
    // Makes the topics of committed offsets and of transactions, so that there are coordinators.
    bench.ask(conn, 0, &FindCoordinatorRequest { key: text("g"), ..Default::default() });
    bench.ask(conn, 1, &FindCoordinatorRequest { key: text("id"), key_type: 1, ..Default::default() });
    bench.wait_ms(1000);
    for (key, min, max) in served(&mut bench) {
        // Advertised from 0 for the sake of old clients, and served from 3 (KAFKA-18659).
        let min = if key == ApiKey::Produce { 3 } else { min };
        for version in min..=max {
            eprintln!("{key} version {version}");
            ask_for(&mut bench, conn, key, version);
        }
    }
}

#[test]
fn the_readme_names_what_is_served() {
    let mut table = String::new();
    for (key, min, max) in served(&mut Bench::new()) {
        let min = if key == ApiKey::Produce { 3 } else { min };
        writeln!(table, "| {} | {key} | {min} to {max} |", key.code()).expect("a string takes all");
    }
    let readme = include_str!("../README.md");
    assert!(
        readme.contains(&table),
        "systems/broker/README.md must have these rows, and no others:\n{table}"
    );
    // The number of an API, its name, and versions.
    let is_row = |line: &&str| {
        let cells: Vec<&str> = line.split(" | ").collect();
        let number = cells[0].strip_prefix("| ").and_then(|number| number.parse::<i16>().ok());
        number.is_some() && cells.len() == 3 && cells[2].contains(" to ")
    };
    let rows = readme.lines().filter(is_row).count();
    assert_eq!(rows, table.lines().count(), "rows that are not served");
}
