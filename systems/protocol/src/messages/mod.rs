//! Every message of the protocol as a plain struct, and the table of APIs.
//!
//! Generated from `schema/` by `tests/generate.rs`: do not edit.

#![allow(missing_docs)]

use crate::api::ApiSpec;

mod admin;
mod cluster;
mod consumer;
mod group;
mod group_records;
mod internal;
mod log;
mod txn;

pub use admin::*;
pub use cluster::*;
pub use consumer::*;
pub use group::*;
pub use group_records::*;
pub use internal::*;
pub use log::*;
pub use txn::*;

/// What a request asks for, by the number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i16)]
pub enum ApiKey {
    Produce = 0,
    Fetch = 1,
    ListOffsets = 2,
    Metadata = 3,
    OffsetCommit = 8,
    OffsetFetch = 9,
    FindCoordinator = 10,
    JoinGroup = 11,
    Heartbeat = 12,
    LeaveGroup = 13,
    SyncGroup = 14,
    DescribeGroups = 15,
    ListGroups = 16,
    ApiVersions = 18,
    CreateTopics = 19,
    DeleteTopics = 20,
    DeleteRecords = 21,
    InitProducerId = 22,
    OffsetForLeaderEpoch = 23,
    AddPartitionsToTxn = 24,
    AddOffsetsToTxn = 25,
    EndTxn = 26,
    WriteTxnMarkers = 27,
    TxnOffsetCommit = 28,
    DescribeConfigs = 32,
    AlterConfigs = 33,
    DescribeLogDirs = 35,
    CreatePartitions = 37,
    DeleteGroups = 42,
    ElectLeaders = 43,
    IncrementalAlterConfigs = 44,
    AlterPartitionReassignments = 45,
    ListPartitionReassignments = 46,
    OffsetDelete = 47,
    DescribeCluster = 60,
    DescribeProducers = 61,
    UnregisterBroker = 64,
    DescribeTransactions = 65,
    ListTransactions = 66,
    ConsumerGroupHeartbeat = 68,
    ConsumerGroupDescribe = 69,
    DescribeTopicPartitions = 75,
    RaftMessage = 10000,
    BrokerRegistration = 10001,
    BrokerHeartbeat = 10002,
    AlterPartition = 10003,
    AllocateProducerIds = 10004,
    ForwardRequest = 10005,
    EndTransactions = 10006,
}

pub(crate) static API_SPECS: &[ApiSpec] = &[
    ApiSpec::new(ApiKey::Produce, "Produce", 3, 12, 9),
    ApiSpec::new(ApiKey::Fetch, "Fetch", 4, 17, 12),
    ApiSpec::new(ApiKey::ListOffsets, "ListOffsets", 1, 10, 6),
    ApiSpec::new(ApiKey::Metadata, "Metadata", 0, 13, 9),
    ApiSpec::new(ApiKey::OffsetCommit, "OffsetCommit", 2, 9, 8),
    ApiSpec::new(ApiKey::OffsetFetch, "OffsetFetch", 1, 9, 6),
    ApiSpec::new(ApiKey::FindCoordinator, "FindCoordinator", 0, 6, 3),
    ApiSpec::new(ApiKey::JoinGroup, "JoinGroup", 0, 9, 6),
    ApiSpec::new(ApiKey::Heartbeat, "Heartbeat", 0, 4, 4),
    ApiSpec::new(ApiKey::LeaveGroup, "LeaveGroup", 0, 5, 4),
    ApiSpec::new(ApiKey::SyncGroup, "SyncGroup", 0, 5, 4),
    ApiSpec::new(ApiKey::DescribeGroups, "DescribeGroups", 0, 6, 5),
    ApiSpec::new(ApiKey::ListGroups, "ListGroups", 0, 5, 3),
    ApiSpec::new(ApiKey::ApiVersions, "ApiVersions", 0, 4, 3),
    ApiSpec::new(ApiKey::CreateTopics, "CreateTopics", 2, 7, 5),
    ApiSpec::new(ApiKey::DeleteTopics, "DeleteTopics", 1, 6, 4),
    ApiSpec::new(ApiKey::DeleteRecords, "DeleteRecords", 0, 2, 2),
    ApiSpec::new(ApiKey::InitProducerId, "InitProducerId", 0, 5, 2),
    ApiSpec::new(ApiKey::OffsetForLeaderEpoch, "OffsetForLeaderEpoch", 2, 4, 4),
    ApiSpec::new(ApiKey::AddPartitionsToTxn, "AddPartitionsToTxn", 0, 5, 3),
    ApiSpec::new(ApiKey::AddOffsetsToTxn, "AddOffsetsToTxn", 0, 4, 3),
    ApiSpec::new(ApiKey::EndTxn, "EndTxn", 0, 5, 3),
    ApiSpec::new(ApiKey::WriteTxnMarkers, "WriteTxnMarkers", 1, 1, 1),
    ApiSpec::new(ApiKey::TxnOffsetCommit, "TxnOffsetCommit", 0, 5, 3),
    ApiSpec::new(ApiKey::DescribeConfigs, "DescribeConfigs", 1, 4, 4),
    ApiSpec::new(ApiKey::AlterConfigs, "AlterConfigs", 0, 2, 2),
    ApiSpec::new(ApiKey::DescribeLogDirs, "DescribeLogDirs", 1, 4, 2),
    ApiSpec::new(ApiKey::CreatePartitions, "CreatePartitions", 0, 3, 2),
    ApiSpec::new(ApiKey::DeleteGroups, "DeleteGroups", 0, 2, 2),
    ApiSpec::new(ApiKey::ElectLeaders, "ElectLeaders", 0, 2, 2),
    ApiSpec::new(ApiKey::IncrementalAlterConfigs, "IncrementalAlterConfigs", 0, 1, 1),
    ApiSpec::new(ApiKey::AlterPartitionReassignments, "AlterPartitionReassignments", 0, 1, 0),
    ApiSpec::new(ApiKey::ListPartitionReassignments, "ListPartitionReassignments", 0, 0, 0),
    ApiSpec::new(ApiKey::OffsetDelete, "OffsetDelete", 0, 0, 32767),
    ApiSpec::new(ApiKey::DescribeCluster, "DescribeCluster", 0, 2, 0),
    ApiSpec::new(ApiKey::DescribeProducers, "DescribeProducers", 0, 0, 0),
    ApiSpec::new(ApiKey::UnregisterBroker, "UnregisterBroker", 0, 0, 0),
    ApiSpec::new(ApiKey::DescribeTransactions, "DescribeTransactions", 0, 0, 0),
    ApiSpec::new(ApiKey::ListTransactions, "ListTransactions", 0, 2, 0),
    ApiSpec::new(ApiKey::ConsumerGroupHeartbeat, "ConsumerGroupHeartbeat", 0, 1, 0),
    ApiSpec::new(ApiKey::ConsumerGroupDescribe, "ConsumerGroupDescribe", 0, 1, 0),
    ApiSpec::new(ApiKey::DescribeTopicPartitions, "DescribeTopicPartitions", 0, 0, 0),
    ApiSpec::new(ApiKey::RaftMessage, "RaftMessage", 0, 0, 0),
    ApiSpec::new(ApiKey::BrokerRegistration, "BrokerRegistration", 0, 0, 0),
    ApiSpec::new(ApiKey::BrokerHeartbeat, "BrokerHeartbeat", 0, 0, 0),
    ApiSpec::new(ApiKey::AlterPartition, "AlterPartition", 0, 0, 0),
    ApiSpec::new(ApiKey::AllocateProducerIds, "AllocateProducerIds", 0, 0, 0),
    ApiSpec::new(ApiKey::ForwardRequest, "ForwardRequest", 0, 0, 0),
    ApiSpec::new(ApiKey::EndTransactions, "EndTransactions", 0, 0, 0),
];
