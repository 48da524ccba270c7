//! Requests: which APIs and versions are served, and who answers what.

pub(crate) mod configs;
mod delete_records;
mod describe;
mod describe_transactions;
pub(crate) mod fetch;
mod forward;
pub(crate) mod groups;
pub(crate) mod metadata;
mod offsets;
pub(crate) mod produce;
mod transactions;
pub(crate) mod waiting;

use crate::connection::ReplyTo;
use crate::controller::{ControlRequest, Origin};
use crate::defect::DefectKind;
use crate::node::{Cx, Running};
use bytes::Bytes;
use riprap_env::ConnId;
use riprap_protocol::frame::{RequestError, RequestHeader, decode_request};
use riprap_protocol::messages::{
    ApiVersionsResponse, ApiVersionsResponseApi, ApiVersionsResponseFinalizedFeature,
    ApiVersionsResponseSupportedFeature,
};
use riprap_protocol::{ApiKey, DecodeError, ErrorCode, Message, Reader};
use std::ops::RangeInclusive;

/// What clients are offered, by API key. The codec may know more: what is not here is not served.
pub(crate) static SERVED: &[(ApiKey, RangeInclusive<i16>)] = &[
    // Advertised from 0 though served from 3: old clients take a broker without 0 for one without compression
    // (KAFKA-18659).
    (ApiKey::Produce, 0..=12),
    (ApiKey::Fetch, 4..=17),
    (ApiKey::ListOffsets, 1..=10),
    (ApiKey::Metadata, 0..=13),
    (ApiKey::OffsetCommit, 2..=9),
    (ApiKey::OffsetFetch, 1..=9),
    (ApiKey::FindCoordinator, 0..=6),
    (ApiKey::JoinGroup, 0..=9),
    (ApiKey::Heartbeat, 0..=4),
    (ApiKey::LeaveGroup, 0..=5),
    (ApiKey::SyncGroup, 0..=5),
    (ApiKey::DescribeGroups, 0..=6),
    (ApiKey::ListGroups, 0..=5),
    (ApiKey::ApiVersions, 0..=4),
    (ApiKey::CreateTopics, 2..=7),
    (ApiKey::DeleteTopics, 1..=6),
    (ApiKey::DeleteRecords, 0..=2),
    (ApiKey::InitProducerId, 0..=5),
    (ApiKey::OffsetForLeaderEpoch, 2..=4),
    (ApiKey::AddPartitionsToTxn, 0..=5),
    (ApiKey::AddOffsetsToTxn, 0..=4),
    (ApiKey::EndTxn, 0..=5),
    (ApiKey::WriteTxnMarkers, 1..=1),
    (ApiKey::TxnOffsetCommit, 0..=5),
    (ApiKey::DescribeConfigs, 1..=4),
    (ApiKey::AlterConfigs, 0..=2),
    (ApiKey::DescribeLogDirs, 1..=4),
    (ApiKey::CreatePartitions, 0..=3),
    (ApiKey::DeleteGroups, 0..=2),
    (ApiKey::ElectLeaders, 0..=2),
    (ApiKey::IncrementalAlterConfigs, 0..=1),
    (ApiKey::AlterPartitionReassignments, 0..=1),
    (ApiKey::ListPartitionReassignments, 0..=0),
    (ApiKey::OffsetDelete, 0..=0),
    (ApiKey::DescribeCluster, 0..=2),
    (ApiKey::DescribeProducers, 0..=0),
    (ApiKey::UnregisterBroker, 0..=0),
    (ApiKey::DescribeTransactions, 0..=0),
    (ApiKey::ListTransactions, 0..=1),
    (ApiKey::ConsumerGroupHeartbeat, 0..=1),
    (ApiKey::ConsumerGroupDescribe, 0..=1),
    (ApiKey::DescribeTopicPartitions, 0..=0),
];

/// What the cluster agrees on, each at its highest level. Clients that know of it raise a producer's epoch with each
/// transaction, and leave it to brokers to add partitions. Source: KIP-584, KIP-890.
static FEATURES: &[(&str, i16)] = &[("transaction.version", 2)];

/// A request as its handler sees it: whose it is and what it says.
struct Request {
    to: ReplyTo,
    client_id: String,
    reader: Reader,
}

impl Request {
    /// Bytes that follow the body are nobody's business here, as in Kafka: librdkafka, to ask for all topics in Metadata
    /// from version 9 on, leaves three zeros behind. All that reads clients' requests is as lenient.
    fn body<M: Message>(&mut self) -> Result<M, DecodeError> {
        M::decode(&mut self.reader, self.to.api_version)
    }
}

impl Running {
    /// Works on one request. It is answered now, or is remembered to be answered later.
    pub(crate) fn handle(&mut self, conn: ConnId, frame: Bytes, cx: &mut Cx<'_>) {
        let (RequestHeader { api_key, api_version, correlation_id, client_id }, reader) =
            match decode_request(frame) {
                Ok(request) => request,
                Err(RequestError::UnsupportedVersion {
                    api_key: ApiKey::ApiVersions,
                    correlation_id,
                    ..
                }) => {
                    // In version 0, which every client can read. Source: KIP-511.
                    let to = ReplyTo { conn, correlation_id, api_key: ApiKey::ApiVersions, api_version: 0 };
                    self.reply(to, &api_versions(ErrorCode::UNSUPPORTED_VERSION, self.features()), cx);
                    return;
                }
                Err(e) => {
                    self.drop_connection(conn, &e, cx);
                    return;
                }
            };
        self.counters.requested(api_key);
        let to = ReplyTo { conn, correlation_id, api_key, api_version };
        let is_served =
            SERVED.iter().any(|(key, versions)| *key == api_key && versions.contains(&api_version));
        if !is_served && !api_key.is_private() {
            self.drop_connection(conn, &format_args!("{api_key} version {api_version} is not served"), cx);
            return;
        }
        // Until the cluster knows this life of the broker, its image is one from before it went down, or none. A client
        // that is told that a topic it reads does not exist forgets where it was (librdkafka starts over), so that
        // nobody is told anything; it asks another broker, or again. Brokers' own fetches are refused by role.
        let needs_image = !matches!(api_key, ApiKey::ApiVersions | ApiKey::Fetch) && !api_key.is_private();
        if needs_image && !self.is_registered() {
            self.drop_connection(conn, &format_args!("{api_key} before this broker is registered"), cx);
            return;
        }
        let request = Request { to, client_id: client_id.unwrap_or_default(), reader };
        if let Err(e) = self.dispatch(request, cx) {
            self.drop_connection(conn, &format_args!("malformed {api_key} version {api_version}: {e}"), cx);
        }
    }

    fn dispatch(&mut self, mut request: Request, cx: &mut Cx<'_>) -> Result<(), DecodeError> {
        let to = request.to;
        let remote = Origin::Remote(to);
        match to.api_key {
            ApiKey::ApiVersions => self.reply(to, &api_versions(ErrorCode::NONE, self.features()), cx),
            ApiKey::Metadata => self.on_metadata(to, &request.body()?, cx),
            ApiKey::DescribeCluster => self.on_describe_cluster(to, &request.body()?, cx),
            ApiKey::DescribeTopicPartitions => self.on_describe_topic_partitions(to, &request.body()?, cx),
            ApiKey::DescribeLogDirs => self.on_describe_log_dirs(to, &request.body()?, cx),
            ApiKey::DescribeProducers => self.on_describe_producers(to, &request.body()?, cx),
            ApiKey::DescribeTransactions => self.on_describe_transactions(to, &request.body()?, cx),
            ApiKey::ListTransactions => self.on_list_transactions(to, &request.body()?, cx),
            ApiKey::DescribeConfigs => self.on_describe_configs(to, &request.body()?, cx),
            ApiKey::AlterConfigs
            | ApiKey::AlterPartitionReassignments
            | ApiKey::CreatePartitions
            | ApiKey::CreateTopics
            | ApiKey::DeleteTopics
            | ApiKey::ElectLeaders
            | ApiKey::IncrementalAlterConfigs
            | ApiKey::ListPartitionReassignments
            | ApiKey::UnregisterBroker => self.on_forwarded(to, &mut request.reader, cx)?,
            ApiKey::Produce => self.on_produce(to, request.body()?, cx),
            ApiKey::Fetch => self.on_fetch(to, request.body()?, cx),
            ApiKey::ListOffsets => self.on_list_offsets(to, &request.body()?, cx),
            ApiKey::OffsetForLeaderEpoch => self.on_offset_for_leader_epoch(to, &request.body()?, cx),
            ApiKey::DeleteRecords => self.on_delete_records(to, &request.body()?, cx),
            ApiKey::InitProducerId => self.on_init_producer_id(to, &request.body()?, cx),
            ApiKey::RaftMessage => self.on_quorum_message(to, &request.body()?, cx),
            ApiKey::BrokerRegistration => self.control(remote, ControlRequest::Register(request.body()?), cx),
            ApiKey::BrokerHeartbeat => self.control(remote, ControlRequest::Heartbeat(request.body()?), cx),
            ApiKey::AlterPartition => self.control(remote, ControlRequest::Alter(request.body()?), cx),
            ApiKey::AllocateProducerIds => {
                self.control(remote, ControlRequest::Allocate(request.body()?), cx)
            }
            ApiKey::ForwardRequest => self.control(remote, ControlRequest::Forward(request.body()?), cx),
            ApiKey::AddPartitionsToTxn => self.on_add_partitions(to, request.body()?, cx),
            ApiKey::AddOffsetsToTxn => self.on_add_offsets(to, &request.body()?, cx),
            ApiKey::EndTxn => self.on_end_txn(to, &request.body()?, cx),
            ApiKey::TxnOffsetCommit => self.on_txn_offset_commit(to, request.body()?, cx),
            ApiKey::WriteTxnMarkers => self.on_write_txn_markers(to, &request.body()?, cx),
            ApiKey::EndTransactions => self.on_end_transactions(to, &request.body()?, cx),
            ApiKey::FindCoordinator => self.on_find_coordinator(to, &request.body()?, cx),
            _ => {
                let Request { client_id, mut reader, .. } = request;
                self.on_group_request(to, client_id, &mut reader, cx)?;
            }
        }
        Ok(())
    }

    fn features(&self) -> &'static [(&'static str, i16)] {
        // DEFECT delayed-endtxn: of transactions the cluster offers the old protocol only, in which all of a producer's have
        // one epoch.
        if self.config.has(DefectKind::DelayedEndtxn) { &[] } else { FEATURES }
    }
}

fn api_versions(error_code: ErrorCode, features: &[(&str, i16)]) -> ApiVersionsResponse {
    let api = |(key, versions): &(ApiKey, RangeInclusive<i16>)| ApiVersionsResponseApi {
        api_key: key.code(),
        min_version: *versions.start(),
        max_version: *versions.end(),
    };
    let feature = |(name, level): &(&str, i16)| ApiVersionsResponseSupportedFeature {
        name: (*name).to_owned(),
        min_version: 0,
        max_version: *level,
    };
    let finalized = |(name, level): &(&str, i16)| ApiVersionsResponseFinalizedFeature {
        name: (*name).to_owned(),
        max_version_level: *level,
        min_version_level: *level,
    };
    ApiVersionsResponse {
        error_code,
        api_keys: SERVED.iter().map(api).collect(),
        supported_features: features.iter().map(feature).collect(),
        finalized_features: features.iter().map(finalized).collect(),
        // It never changes.
        finalized_features_epoch: 0,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_offered_that_the_codec_does_not_know() {
        assert!(SERVED.is_sorted_by_key(|(key, _)| *key));
        for (key, versions) in SERVED.iter().filter(|(key, _)| *key != ApiKey::Produce) {
            assert!(!key.is_private());
            assert!(
                key.versions().contains(versions.start()) && key.versions().contains(versions.end()),
                "{key}"
            );
        }
        let produce = ApiKey::Produce.versions();
        assert_eq!((*produce.start(), *produce.end()), (3, 12));
    }
}
