//! What brokers and clients say to each other, in words: requests and answers off the wire, leadership out of brokers' logs.
//!
//! ```text
//! Produce 5=54           value 54 for key 5               ok 5@1        it got offset 1
//! fetched 5: 49@0 54@1   a client is given these          copy 5: 54@1  a follower is
//! EndTxn commit          ok                               leads, epoch 0, ISR 3 1 2
//! ```

use crate::simulated::{Narrator, Said, Standing};
use riprap_core::Key;
use riprap_core::story::About;
use riprap_protocol::frame::{self, FrameReader, RequestHeader};
use riprap_protocol::messages::{
    CreateTopicsRequest, EndTxnRequest, FetchRequest, FetchResponsePartition, InitProducerIdRequest,
    MetadataRequest, ProduceRequest,
};
use riprap_protocol::records::{EndTxnMarker, RecordBatch, TxnResult, split_batches};
use riprap_protocol::{ApiKey, ErrorCode, Message, Reader, Uuid};
use std::collections::BTreeMap;

/// Records of one message that are named; the ops have them all.
const MAX_RECORDS: usize = 24;

/// See the module.
pub(super) struct Brokers {
    key: fn(&str, i32) -> Option<Key>,
    connections: BTreeMap<usize, Connection>,
    /// Fetches name topics by their ids.
    topics: BTreeMap<Uuid, String>,
}

struct Connection {
    requests: FrameReader,
    answers: FrameReader,
    /// What is not answered yet, by correlation id.
    asked: BTreeMap<i32, Asked>,
}

#[derive(Clone, Copy)]
struct Asked {
    api: ApiKey,
    version: i16,
    /// A broker asked, to copy.
    by_replica: bool,
    /// What was asked is not told, and so what is answered is not.
    is_quiet: bool,
}

impl Connection {
    fn new() -> Connection {
        Connection {
            requests: FrameReader::for_requests(frame::max_request_size_bytes),
            answers: FrameReader::new(frame::MAX_RESPONSE_SIZE_BYTES),
            asked: BTreeMap::new(),
        }
    }
}

impl Narrator for Brokers {
    fn said(&mut self, connection: usize, asks: bool, bytes: &[u8]) -> Vec<Said> {
        let it = self.connections.entry(connection).or_insert_with(Connection::new);
        let frames = if asks { &mut it.requests } else { &mut it.answers };
        frames.push(bytes);
        // What is no frame says nothing.
        let frames: Vec<_> = std::iter::from_fn(|| frames.next_frame().ok().flatten()).collect();
        let mut said = Vec::new();
        for frame in frames {
            if asks {
                let Ok((header, body)) = frame::decode_request(frame) else { continue };
                said.extend(self.asked(connection, &header, body));
            } else {
                let Ok(id) = frame::correlation_id(&frame) else { continue };
                let it = self.connections.get_mut(&connection).expect("made above");
                let Some(asked) = it.asked.remove(&id) else { continue };
                said.extend(self.answered(asked, frame));
            }
        }
        said
    }

    fn logged(&self, line: &str) -> Option<Standing> {
        let (name, what) = line.split_once(' ')?.1.split_once(": ")?;
        let (topic, partition) = name.rsplit_once('-')?;
        let key = (self.key)(topic, partition.parse().ok()?)?;
        let word_after = |mark: &str| what.split_once(mark)?.1.split([' ', ',']).next();
        let in_sync = || Some(what.split_once("isr ")?.1.split_once('[')?.1.split_once(']')?.0);
        let (leads, what) = if what.starts_with("leads in epoch ") {
            (Some(true), format!("leads, epoch {}, ISR {}", word_after("in epoch ")?, in_sync()?))
        } else if what.starts_with("follows ") {
            let (leader, epoch) = (word_after("follows ")?, word_after("in epoch ")?);
            (Some(false), format!("follows n{leader}, epoch {epoch}"))
        } else if what.starts_with("isr is ") {
            (None, format!("ISR {}", in_sync()?))
        } else {
            return None;
        };
        Some(Standing { key, leads, what })
    }
}

impl Brokers {
    pub(super) fn new(key: fn(&str, i32) -> Option<Key>) -> Brokers {
        Brokers { key, connections: BTreeMap::new(), topics: BTreeMap::new() }
    }

    fn asked(&mut self, connection: usize, header: &RequestHeader, mut body: Reader) -> Option<Said> {
        let &RequestHeader { api_key: api, api_version: version, correlation_id, .. } = header;
        let mut by_replica = false;
        let said = match api {
            ApiKey::Produce => {
                let request = ProduceRequest::decode(&mut body, version).ok()?;
                let parts: Vec<String> = request
                    .topics
                    .into_iter()
                    .flat_map(|topic| {
                        let name = topic.name;
                        let sent = topic.partitions.into_iter().filter_map(|partition| {
                            let key = (self.key)(&name, partition.index)?;
                            Some(values(partition.records?, &|_, value| format!("{key}={value}")))
                        });
                        sent.collect::<Vec<_>>()
                    })
                    .collect();
                Some((About::Send, format!("Produce {}", parts.join(" "))))
            }
            ApiKey::Fetch => {
                let request = FetchRequest::decode(&mut body, version).ok()?;
                by_replica = request.replica_id >= 0 || request.replica_state.replica_id >= 0;
                None
            }
            ApiKey::EndTxn => {
                let request = EndTxnRequest::decode(&mut body, version).ok()?;
                let end = if request.committed { "commit" } else { "abort" };
                Some((About::Txn, format!("EndTxn {end}")))
            }
            ApiKey::InitProducerId => {
                let request = InitProducerIdRequest::decode(&mut body, version).ok()?;
                // Every idempotent producer begins with it.
                request.transactional_id.map(|id| (About::Txn, format!("InitProducerId {id}")))
            }
            ApiKey::AddPartitionsToTxn
            | ApiKey::AddOffsetsToTxn
            | ApiKey::TxnOffsetCommit
            | ApiKey::WriteTxnMarkers => Some((About::Txn, format!("{api:?}"))),
            ApiKey::OffsetCommit | ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::LeaveGroup => {
                Some((About::Group, format!("{api:?}")))
            }
            _ => None,
        };
        let it = self.connections.get_mut(&connection).expect("it was just read from");
        let is_quiet = said.is_none();
        it.asked.insert(correlation_id, Asked { api, version, by_replica, is_quiet });
        said.map(|(about, what)| Said { about, what })
    }

    fn answered(&mut self, asked: Asked, frame: bytes::Bytes) -> Option<Said> {
        let Asked { api, version, by_replica, is_quiet } = asked;
        let (about, what) = match api {
            ApiKey::Produce => {
                let (_, response) = frame::decode_response::<ProduceRequest>(frame, version).ok()?;
                let parts = response.topics.iter().flat_map(|topic| {
                    topic.partitions.iter().filter_map(|partition| {
                        let key = (self.key)(&topic.name, partition.index)?;
                        Some(match partition.error_code {
                            ErrorCode::NONE => format!("ok {key}@{}", partition.base_offset),
                            error => format!("{error}"),
                        })
                    })
                });
                (About::Send, parts.collect::<Vec<_>>().join(" "))
            }
            ApiKey::Fetch => {
                let (_, response) = frame::decode_response::<FetchRequest>(frame, version).ok()?;
                let mut parts = Vec::new();
                for topic in response.topics {
                    let name = if topic.name.is_empty() {
                        self.topics.get(&topic.topic_id).cloned().unwrap_or_default()
                    } else {
                        topic.name
                    };
                    for partition in topic.partitions {
                        let Some(key) = (self.key)(&name, partition.index) else { continue };
                        parts.extend(fetched(key, partition, by_replica));
                    }
                }
                if parts.is_empty() {
                    return None;
                }
                let (about, word) = if by_replica { (About::Copy, "copy") } else { (About::Poll, "fetched") };
                (about, format!("{word} {}", parts.join("; ")))
            }
            ApiKey::Metadata => {
                let (_, response) = frame::decode_response::<MetadataRequest>(frame, version).ok()?;
                let named = response.topics.into_iter();
                self.topics.extend(named.filter_map(|topic| Some((topic.topic_id, topic.name?))));
                return None;
            }
            ApiKey::CreateTopics => {
                let (_, response) = frame::decode_response::<CreateTopicsRequest>(frame, version).ok()?;
                self.topics.extend(response.topics.into_iter().map(|topic| (topic.topic_id, topic.name)));
                return None;
            }
            ApiKey::EndTxn => {
                let (_, response) = frame::decode_response::<EndTxnRequest>(frame, version).ok()?;
                (About::Txn, outcome(response.error_code))
            }
            ApiKey::InitProducerId if !is_quiet => {
                let (_, response) = frame::decode_response::<InitProducerIdRequest>(frame, version).ok()?;
                let (id, epoch) = (response.producer_id, response.producer_epoch);
                let told = match response.error_code {
                    ErrorCode::NONE => format!("producer {id}, epoch {epoch}"),
                    error => error.to_string(),
                };
                (About::Txn, told)
            }
            _ => return None,
        };
        (!what.is_empty()).then_some(Said { about, what })
    }
}

fn outcome(error: ErrorCode) -> String {
    if error == ErrorCode::NONE { "ok".to_owned() } else { error.to_string() }
}

/// What a fetch brought of one partition; `None` if nothing. A follower that is ahead of, or behind, what a leader knows of
/// its leadership is told so again and again until it is not; that is no story.
fn fetched(key: Key, partition: FetchResponsePartition, by_replica: bool) -> Option<String> {
    if partition.error_code != ErrorCode::NONE {
        return (!by_replica).then(|| format!("{key}: {}", partition.error_code));
    }
    let diverging = partition.diverging_epoch;
    if diverging.epoch >= 0 {
        return Some(format!("{key}: cut off at {}, epoch {}", diverging.end_offset, diverging.epoch));
    }
    let text = values(partition.records?, &|offset, value| format!("{value}@{offset}"));
    (!text.is_empty()).then(|| format!("{key}: {text}"))
}

/// The records of batches, each as `text` has its offset and its value.
fn values(batches: bytes::Bytes, text: &dyn Fn(i64, &str) -> String) -> String {
    let mut parts = Vec::new();
    let mut more = 0;
    for batch in split_batches(batches).map_while(Result::ok) {
        for part in batch_parts(&batch, text) {
            if parts.len() < MAX_RECORDS { parts.push(part) } else { more += 1 }
        }
    }
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join(" ")
}

fn batch_parts(batch: &RecordBatch, text: &dyn Fn(i64, &str) -> String) -> Vec<String> {
    let base = batch.header().base_offset;
    if let Some(marker) = EndTxnMarker::of(batch) {
        let end = if marker.result == TxnResult::Commit { "commit" } else { "abort" };
        return vec![text(base, end)];
    }
    let Ok(records) = batch.records() else { return vec!["compressed records".to_owned()] };
    let records = records.map_while(Result::ok).map(|record| {
        let value = record.value.as_deref().map_or("null".into(), String::from_utf8_lossy);
        text(base + i64::from(record.offset_delta), &value)
    });
    records.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{Buf as _, Bytes};
    use riprap_protocol::Request;
    use riprap_protocol::messages::*;
    use riprap_protocol::records::BatchBuilder;

    fn key(topic: &str, partition: i32) -> Option<Key> {
        Some(Key(i64::from(partition) + 4 * topic.strip_prefix('t')?.parse::<i64>().ok()?))
    }

    /// What is said of each request and its answer, sent in pieces of any size.
    fn exchange<R: Request>(
        brokers: &mut Brokers,
        request: &R,
        version: i16,
        response: &R::Response,
    ) -> Vec<String> {
        let header =
            RequestHeader { api_key: R::KEY, api_version: version, correlation_id: 9, client_id: None };
        let asked = frame::encode_request(&header, request).expect("it is encoded");
        let answered = frame::encode_response(9, R::KEY, version, response).expect("it is encoded");
        let mut said = Vec::new();
        for (asks, mut bytes) in [(true, asked), (false, answered)] {
            while bytes.has_remaining() {
                let piece = bytes.split_to(bytes.len().min(7));
                said.extend(
                    brokers
                        .said(1, asks, &piece)
                        .into_iter()
                        .map(|said| format!("{:?} {}", said.about, said.what)),
                );
            }
        }
        said
    }

    fn batch(base: i64, values: &[&str]) -> Bytes {
        let batch = BatchBuilder::new().appended(base, 0);
        values.iter().fold(batch, |batch, value| batch.record(0, None, Some(value.as_bytes()))).build()
    }

    fn produce(error_code: ErrorCode) -> (ProduceRequest, ProduceResponse) {
        let partition = ProduceRequestPartition { index: 1, records: Some(batch(0, &["54", "55"])) };
        let topic = ProduceRequestTopic { name: "t1".to_owned(), partitions: vec![partition] };
        let request = ProduceRequest { topics: vec![topic], ..ProduceRequest::default() };
        let partition =
            ProduceResponsePartition { index: 1, error_code, base_offset: 3, ..Default::default() };
        let topic = ProduceResponseTopic { name: "t1".to_owned(), partitions: vec![partition] };
        (request, ProduceResponse { topics: vec![topic], ..ProduceResponse::default() })
    }

    #[test]
    fn requests_and_answers_are_told_in_words() {
        let mut brokers = Brokers::new(key);
        let (request, response) = produce(ErrorCode::NONE);
        assert_eq!(
            exchange(&mut brokers, &request, 12, &response),
            ["Send Produce 5=54 5=55", "Send ok 5@3"]
        );
        let (request, response) = produce(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        assert_eq!(
            exchange(&mut brokers, &request, 9, &response),
            ["Send Produce 5=54 5=55", "Send NOT_LEADER_OR_FOLLOWER"]
        );
        let request = EndTxnRequest { committed: true, ..EndTxnRequest::default() };
        let response = EndTxnResponse::default();
        assert_eq!(exchange(&mut brokers, &request, 3, &response), ["Txn EndTxn commit", "Txn ok"]);
        let quiet = exchange(&mut brokers, &HeartbeatRequest::default(), 4, &HeartbeatResponse::default());
        assert_eq!(quiet, [""; 0]);
    }

    #[test]
    fn records_are_told_with_their_keys_once_the_topic_is_known() {
        let mut brokers = Brokers::new(key);
        let id = Uuid([7; 16]);
        let fetch = |brokers: &mut Brokers, replica_id: i32, records: Option<Bytes>| {
            let replica_state = FetchRequestReplicaState { replica_id, ..Default::default() };
            let request = FetchRequest { replica_state, ..FetchRequest::default() };
            let partition = FetchResponsePartition { index: 1, records, ..Default::default() };
            let topic =
                FetchResponseTopic { topic_id: id, partitions: vec![partition], ..Default::default() };
            let response = FetchResponse { topics: vec![topic], ..FetchResponse::default() };
            exchange(brokers, &request, 17, &response)
        };
        assert_eq!(fetch(&mut brokers, -1, Some(batch(0, &["49"]))), [""; 0], "of a topic that nobody named");
        let topic = MetadataResponseTopic { name: Some("t1".to_owned()), topic_id: id, ..Default::default() };
        let response = MetadataResponse { topics: vec![topic], ..MetadataResponse::default() };
        exchange(&mut brokers, &MetadataRequest::default(), 13, &response);
        let records = || Some([batch(0, &["49"]), batch(1, &["54", "55"])].concat().into());
        assert_eq!(fetch(&mut brokers, -1, records()), ["Poll fetched 5: 49@0 54@1 55@2"]);
        assert_eq!(fetch(&mut brokers, 2, records()), ["Copy copy 5: 49@0 54@1 55@2"]);
        assert_eq!(fetch(&mut brokers, 2, None), [""; 0]);
    }

    #[test]
    fn logs_tell_who_leads() {
        let brokers = Brokers::new(key);
        let check = |line: &str, expected: Option<(i64, Option<bool>, &str)>| {
            let told = brokers.logged(line).map(|told| (told.key.0, told.leads, told.what));
            let expected = expected.map(|(key, leads, what)| (key, leads, what.to_owned()));
            assert_eq!(told, expected, "{line}");
        };
        let leads = "Info t1-1: leads in epoch 2 from offset 0, high watermark 0, isr [3 1 2]";
        check(leads, Some((5, Some(true), "leads, epoch 2, ISR 3 1 2")));
        let follows = "Info t1-2: follows 3 in epoch 0 from offset 0";
        check(follows, Some((6, Some(false), "follows n3, epoch 0")));
        check("Info t1-1: isr is [3] in epoch 2", Some((5, None, "ISR 3")));
        for other in [
            "",
            "Info",
            "Info raft: follows 3 in term 1",
            "Info __consumer_offsets-1: follows 3 in epoch 0 from offset 0",
        ] {
            check(other, None);
        }
    }
}
