//! The kafka-protocol crate as a second opinion: bodies from the tables are what it would write too.
//!
//! It shares its source of facts, Kafka's message definitions, but no code and no tables with ours.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{self as theirs, BrokerId, ProducerId, TopicName, TransactionalId};
use kafka_protocol::protocol::{Decodable, Encodable, Message as _, StrBytes, VersionRange};
use proptest::prelude::*;
use riprap_protocol::messages::*;
use riprap_protocol::{ErrorCode, Message, Uuid};

use crate::bodies::{body, choices, every_message};

/// One message of the other crate.
struct Oracle {
    name: &'static str,
    versions: VersionRange,
    transcode: fn(Bytes, i16) -> Result<Bytes, String>,
}

fn transcode<M: Decodable + Encodable>(mut body: Bytes, version: i16) -> Result<Bytes, String> {
    let message = M::decode(&mut body, version).map_err(|error| error.to_string())?;
    if !body.is_empty() {
        return Err(format!("{} bytes are left", body.len()));
    }
    let mut written = BytesMut::new();
    message.encode(&mut written, version).map_err(|error| error.to_string())?;
    Ok(written.freeze())
}

macro_rules! oracles {
    ($($name:ident)*) => {
        &[$(Oracle {
            name: stringify!($name),
            versions: theirs::$name::VERSIONS,
            transcode: transcode::<theirs::$name>,
        }),*]
    };
}

static ORACLES: &[Oracle] = oracles! {
    ApiVersionsRequest ApiVersionsResponse MetadataRequest MetadataResponse
    CreateTopicsRequest CreateTopicsResponse DeleteTopicsRequest DeleteTopicsResponse
    CreatePartitionsRequest CreatePartitionsResponse DescribeConfigsRequest DescribeConfigsResponse
    DescribeClusterRequest DescribeClusterResponse
    ProduceRequest ProduceResponse FetchRequest FetchResponse ListOffsetsRequest ListOffsetsResponse
    OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse DeleteRecordsRequest DeleteRecordsResponse
    FindCoordinatorRequest FindCoordinatorResponse JoinGroupRequest JoinGroupResponse
    SyncGroupRequest SyncGroupResponse HeartbeatRequest HeartbeatResponse LeaveGroupRequest LeaveGroupResponse
    OffsetCommitRequest OffsetCommitResponse OffsetFetchRequest OffsetFetchResponse
    DescribeGroupsRequest DescribeGroupsResponse ListGroupsRequest ListGroupsResponse
    DeleteGroupsRequest DeleteGroupsResponse OffsetDeleteRequest OffsetDeleteResponse
    ConsumerGroupHeartbeatRequest ConsumerGroupHeartbeatResponse
    ConsumerGroupDescribeRequest ConsumerGroupDescribeResponse
    InitProducerIdRequest InitProducerIdResponse AddPartitionsToTxnRequest AddPartitionsToTxnResponse
    AddOffsetsToTxnRequest AddOffsetsToTxnResponse EndTxnRequest EndTxnResponse
    TxnOffsetCommitRequest TxnOffsetCommitResponse WriteTxnMarkersRequest WriteTxnMarkersResponse
    AlterConfigsRequest AlterConfigsResponse IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse
    DescribeLogDirsRequest DescribeLogDirsResponse ElectLeadersRequest ElectLeadersResponse
    AlterPartitionReassignmentsRequest AlterPartitionReassignmentsResponse
    ListPartitionReassignmentsRequest ListPartitionReassignmentsResponse
    DescribeProducersRequest DescribeProducersResponse UnregisterBrokerRequest UnregisterBrokerResponse
    DescribeTransactionsRequest DescribeTransactionsResponse ListTransactionsRequest ListTransactionsResponse
    DescribeTopicPartitionsRequest DescribeTopicPartitionsResponse
    ConsumerProtocolSubscription ConsumerProtocolAssignment
};

proptest! {
    #![proptest_config(crate::config(16))]

    #[test]
    fn bodies_from_the_tables(choices in choices()) {
        let messages = every_message();
        for oracle in ORACLES {
            let message = messages.iter().find(|message| message.name == oracle.name);
            let message = message.expect("the tables have every message of the list");
            let mut compared = 0;
            for version in message.versions.first..=message.versions.last {
                if version < oracle.versions.min || version > oracle.versions.max {
                    continue;
                }
                let body = Bytes::from(body(message, version, &choices));
                let again = (oracle.transcode)(body.clone(), version);
                prop_assert_eq!(again, Ok(body), "{} version {}", oracle.name, version);
                compared += 1;
            }
            prop_assert!(compared > 0, "no version of {} is known to both", oracle.name);
        }
    }
}

/// Bodies that are built by field name on both sides: two fields of one type that the tables had swapped would show here.
fn check<M: Message, T: Encodable>(
    versions: std::ops::RangeInclusive<i16>,
    ours: impl Fn(i16) -> M,
    theirs: impl Fn(i16) -> T,
) {
    for version in versions {
        let mut expect = BytesMut::new();
        theirs(version).encode(&mut expect, version).expect("the other crate can say it");
        let found = ours(version).to_bytes(version).expect("it can be said");
        assert_eq!(found, expect.freeze(), "{} version {version}", M::NAME);
    }
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

const TOPIC_ID: Uuid = Uuid([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);

#[test]
fn error_codes() {
    let named = (-1..=i16::MAX).map(ErrorCode).filter(|code| code.name().is_some() && !code.is_none());
    for code in named {
        let theirs = kafka_protocol::ResponseError::try_from_code(code.0).expect("it is an error");
        let name = format!("{theirs:?}").to_lowercase();
        assert_eq!(code.to_string().replace('_', "").to_lowercase(), name);
        // Kafka's ConcurrentTransactionsException is a RetriableException; the other crate says otherwise.
        if code != ErrorCode::CONCURRENT_TRANSACTIONS {
            assert_eq!(code.is_retriable(), theirs.is_retriable(), "{code}");
        }
    }
}

/// The same id in the notation that the other crate parses.
const TOPIC_ID_TEXT: &str = "01020304-0506-0708-090a-0b0c0d0e0f10";

#[test]
fn api_versions() {
    check(
        0..=4,
        |_| ApiVersionsResponse {
            error_code: ErrorCode::UNSUPPORTED_VERSION,
            api_keys: vec![ApiVersionsResponseApi { api_key: 1, min_version: 4, max_version: 17 }],
            throttle_time_ms: 5,
            supported_features: vec![ApiVersionsResponseSupportedFeature {
                name: "f".to_owned(),
                min_version: 1,
                max_version: 2,
            }],
            finalized_features_epoch: 7,
            finalized_features: vec![ApiVersionsResponseFinalizedFeature {
                name: "f".to_owned(),
                max_version_level: 2,
                min_version_level: 1,
            }],
            zk_migration_ready: true,
        },
        |_| {
            use theirs::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
            let supported = SupportedFeatureKey::default().with_name(text("f")).with_min_version(1);
            let finalized = FinalizedFeatureKey::default().with_name(text("f")).with_max_version_level(2);
            let api = ApiVersion::default().with_api_key(1).with_min_version(4).with_max_version(17);
            theirs::ApiVersionsResponse::default()
                .with_error_code(35)
                .with_api_keys(vec![api])
                .with_throttle_time_ms(5)
                .with_supported_features(vec![supported.with_max_version(2)])
                .with_finalized_features_epoch(7)
                .with_finalized_features(vec![finalized.with_min_version_level(1)])
                .with_zk_migration_ready(true)
        },
    );
}

#[test]
fn metadata() {
    check(
        0..=13,
        |version| {
            let partition = MetadataResponsePartition {
                error_code: ErrorCode::REPLICA_NOT_AVAILABLE,
                index: 3,
                leader_id: 1,
                leader_epoch: 9,
                replica_nodes: vec![1, 2, 3],
                isr_nodes: vec![1, 2],
                offline_replicas: vec![3],
            };
            let topic = MetadataResponseTopic {
                error_code: ErrorCode::NONE,
                name: Some("t".to_owned()),
                topic_id: TOPIC_ID,
                is_internal: true,
                partitions: vec![partition],
                topic_authorized_operations: if version >= 8 { 11 } else { i32::MIN },
            };
            let host = "h".to_owned();
            MetadataResponse {
                throttle_time_ms: 5,
                brokers: vec![MetadataResponseBroker {
                    node_id: 1,
                    host,
                    port: 9092,
                    rack: Some("r".to_owned()),
                }],
                cluster_id: Some("c".to_owned()),
                controller_id: 2,
                topics: vec![topic],
                error_code: ErrorCode::REBOOTSTRAP_REQUIRED,
                ..MetadataResponse::default()
            }
        },
        |version| {
            use theirs::metadata_response::{
                MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
            };
            let ids = |ids: &[i32]| ids.iter().map(|id| BrokerId(*id)).collect::<Vec<_>>();
            let partition = MetadataResponsePartition::default()
                .with_error_code(9)
                .with_partition_index(3)
                .with_leader_id(BrokerId(1))
                .with_leader_epoch(9)
                .with_replica_nodes(ids(&[1, 2, 3]))
                .with_isr_nodes(ids(&[1, 2]))
                .with_offline_replicas(ids(&[3]));
            let topic = MetadataResponseTopic::default()
                .with_name(Some(topic_name("t")))
                .with_topic_id(TOPIC_ID_TEXT.parse().expect("an id"))
                .with_is_internal(true)
                .with_partitions(vec![partition])
                .with_topic_authorized_operations(if version >= 8 { 11 } else { i32::MIN });
            let broker = MetadataResponseBroker::default()
                .with_node_id(BrokerId(1))
                .with_host(text("h"))
                .with_port(9092)
                .with_rack(Some(text("r")));
            theirs::MetadataResponse::default()
                .with_throttle_time_ms(5)
                .with_brokers(vec![broker])
                .with_cluster_id(Some(text("c")))
                .with_controller_id(BrokerId(2))
                .with_topics(vec![topic])
                .with_error_code(129)
        },
    );
}

#[test]
fn produce() {
    check(
        3..=12,
        |_| {
            let partitions =
                vec![ProduceRequestPartition { index: 2, records: Some(Bytes::from_static(b"batch")) }];
            ProduceRequest {
                transactional_id: Some("x".to_owned()),
                acks: -1,
                timeout_ms: 30_000,
                topics: vec![ProduceRequestTopic { name: "t".to_owned(), partitions }],
            }
        },
        |_| {
            use theirs::produce_request::{PartitionProduceData, TopicProduceData};
            let records = Some(Bytes::from_static(b"batch"));
            let partition = PartitionProduceData::default().with_index(2).with_records(records);
            let topic = TopicProduceData::default().with_name(topic_name("t"));
            theirs::ProduceRequest::default()
                .with_transactional_id(Some(TransactionalId(text("x"))))
                .with_acks(-1)
                .with_timeout_ms(30_000)
                .with_topic_data(vec![topic.with_partition_data(vec![partition])])
        },
    );
    check(
        3..=12,
        |version| {
            let mut partition = ProduceResponsePartition {
                index: 2,
                error_code: ErrorCode::NOT_LEADER_OR_FOLLOWER,
                base_offset: 100,
                log_append_time_ms: 200,
                log_start_offset: 50,
                error_message: Some("m".to_owned()),
                ..ProduceResponsePartition::default()
            };
            if version >= 10 {
                partition.current_leader = ProduceResponseCurrentLeader { leader_id: 3, leader_epoch: 4 };
            }
            ProduceResponse {
                topics: vec![ProduceResponseTopic { name: "t".to_owned(), partitions: vec![partition] }],
                throttle_time_ms: 5,
                ..ProduceResponse::default()
            }
        },
        |version| {
            use theirs::produce_response::{
                LeaderIdAndEpoch, PartitionProduceResponse, TopicProduceResponse,
            };
            let mut partition = PartitionProduceResponse::default()
                .with_index(2)
                .with_error_code(6)
                .with_base_offset(100)
                .with_log_append_time_ms(200)
                .with_log_start_offset(50)
                .with_error_message(Some(text("m")));
            if version >= 10 {
                let leader = LeaderIdAndEpoch::default().with_leader_id(BrokerId(3)).with_leader_epoch(4);
                partition = partition.with_current_leader(leader);
            }
            let topic = TopicProduceResponse::default().with_name(topic_name("t"));
            theirs::ProduceResponse::default()
                .with_responses(vec![topic.with_partition_responses(vec![partition])])
                .with_throttle_time_ms(5)
        },
    );
}

#[test]
fn fetch() {
    check(
        4..=17,
        |version| {
            let partition = FetchRequestPartition {
                index: 2,
                current_leader_epoch: 3,
                fetch_offset: 100,
                last_fetched_epoch: if version >= 12 { 4 } else { -1 },
                log_start_offset: 50,
                partition_max_bytes: 1 << 20,
                replica_directory_id: Uuid::ZERO,
            };
            FetchRequest {
                max_wait_ms: 500,
                min_bytes: 1,
                max_bytes: 50 << 20,
                isolation_level: 1,
                session_id: 6,
                session_epoch: 7,
                topics: vec![FetchRequestTopic {
                    name: "t".to_owned(),
                    topic_id: TOPIC_ID,
                    partitions: vec![partition],
                }],
                rack_id: "r".to_owned(),
                ..FetchRequest::default()
            }
        },
        |version| {
            use theirs::fetch_request::{FetchPartition, FetchTopic};
            let partition = FetchPartition::default()
                .with_partition(2)
                .with_current_leader_epoch(3)
                .with_fetch_offset(100)
                .with_last_fetched_epoch(if version >= 12 { 4 } else { -1 })
                .with_log_start_offset(50)
                .with_partition_max_bytes(1 << 20);
            let topic = FetchTopic::default()
                .with_topic(topic_name("t"))
                .with_topic_id(TOPIC_ID_TEXT.parse().expect("an id"))
                .with_partitions(vec![partition]);
            theirs::FetchRequest::default()
                .with_max_wait_ms(500)
                .with_min_bytes(1)
                .with_max_bytes(50 << 20)
                .with_isolation_level(1)
                .with_session_id(6)
                .with_session_epoch(7)
                .with_topics(vec![topic])
                .with_rack_id(text("r"))
        },
    );
    check(
        4..=17,
        |version| {
            let mut partition = FetchResponsePartition {
                index: 2,
                error_code: ErrorCode::FENCED_LEADER_EPOCH,
                high_watermark: 100,
                last_stable_offset: 90,
                log_start_offset: 50,
                aborted_transactions: Some(vec![FetchResponseAbortedTransaction {
                    producer_id: 8,
                    first_offset: 70,
                }]),
                records: Some(Bytes::from_static(b"batch")),
                ..FetchResponsePartition::default()
            };
            if version >= 12 {
                partition.diverging_epoch = FetchResponseDivergingEpoch { epoch: 2, end_offset: 60 };
                partition.current_leader = FetchResponseCurrentLeader { leader_id: 3, leader_epoch: 4 };
            }
            let topic_id = TOPIC_ID;
            let partitions = vec![partition];
            FetchResponse {
                throttle_time_ms: 5,
                error_code: ErrorCode::NONE,
                session_id: if version >= 7 { 6 } else { 0 },
                topics: vec![FetchResponseTopic { name: "t".to_owned(), topic_id, partitions }],
                ..FetchResponse::default()
            }
        },
        |version| {
            use theirs::fetch_response::{
                AbortedTransaction, EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, PartitionData,
            };
            let aborted = AbortedTransaction::default().with_producer_id(ProducerId(8)).with_first_offset(70);
            let mut partition = PartitionData::default()
                .with_partition_index(2)
                .with_error_code(74)
                .with_high_watermark(100)
                .with_last_stable_offset(90)
                .with_log_start_offset(50)
                .with_aborted_transactions(Some(vec![aborted]))
                .with_records(Some(Bytes::from_static(b"batch")));
            if version >= 12 {
                let diverging = EpochEndOffset::default().with_epoch(2).with_end_offset(60);
                let leader = LeaderIdAndEpoch::default().with_leader_id(BrokerId(3)).with_leader_epoch(4);
                partition = partition.with_diverging_epoch(diverging).with_current_leader(leader);
            }
            let topic = FetchableTopicResponse::default()
                .with_topic(topic_name("t"))
                .with_topic_id(TOPIC_ID_TEXT.parse().expect("an id"))
                .with_partitions(vec![partition]);
            theirs::FetchResponse::default()
                .with_throttle_time_ms(5)
                .with_session_id(if version >= 7 { 6 } else { 0 })
                .with_responses(vec![topic])
        },
    );
}
