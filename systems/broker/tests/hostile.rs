//! Bytes that no honest client sends: a broker must not panic, must not reserve much more than it was sent, and must go
//! on serving its other connections.

mod bench;

use bench::{Bench, request};
use bytes::{BufMut, Bytes, BytesMut};
use riprap_env::random::Draws;
use riprap_protocol::frame::{FrameReader, RequestHeader, decode_response, encode_request};
use riprap_protocol::messages::*;
use riprap_protocol::records::BatchBuilder;
use riprap_protocol::{ApiKey, ErrorCode, Uuid};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts what is allocated, and the most that ever was since [`Counting::restart`].
struct Counting {
    now_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
}

impl Counting {
    fn restart(&self) -> usize {
        let now = self.now_bytes.load(Ordering::Relaxed);
        self.peak_bytes.store(now, Ordering::Relaxed);
        now
    }
}

// SAFETY: all work is the system allocator's; the counters are atomic.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = self.now_bytes.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        self.peak_bytes.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        self.now_bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting { now_bytes: AtomicUsize::new(0), peak_bytes: AtomicUsize::new(0) };

/// One test at a time: what another allocates meanwhile would be counted too.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a case may take beyond the bytes that it sends: buffers, answers, log lines.
const SLACK_BYTES: usize = 8 << 20;

/// The broker serves whoever behaves.
fn check_serves(bench: &mut Bench) {
    let conn = bench.connect();
    let response = bench.ask(conn, 12, &MetadataRequest { topics: None, ..Default::default() });
    assert_eq!(response.brokers.len(), 1);
    bench.hang_up(conn);
}

/// Runs a case on a connection of its own, and holds the broker to its memory.
fn check(bench: &mut Bench, what: &str, pieces: &[Bytes]) {
    let sent: usize = pieces.iter().map(Bytes::len).sum();
    let before = ALLOCATOR.restart();
    let conn = bench.connect();
    for piece in pieces {
        bench.send(conn, piece.clone());
    }
    let peak = ALLOCATOR.peak_bytes.load(Ordering::Relaxed)
        - before.min(ALLOCATOR.peak_bytes.load(Ordering::Relaxed));
    let allowed = 40 * sent + SLACK_BYTES;
    assert!(peak <= allowed, "{what}: {sent} bytes made the broker take {peak}; at most {allowed}");
    bench.hang_up(conn);
}

fn frame(body: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i32(body.len() as i32);
    out.put_slice(body);
    out.freeze()
}

fn header(api_key: i16, version: i16) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i16(api_key);
    out.put_i16(version);
    out.put_i32(1);
    out.put_i16(-1);
    if ApiKey::from_code(api_key).is_some_and(|key| key.request_header_version(version) >= 2) {
        out.put_u8(0);
    }
    out
}

fn noise(draws: &mut Draws, len: usize) -> Vec<u8> {
    // Small numbers are likelier to be taken for lengths and counts that make sense.
    (0..len)
        .map(|_| match draws.next_u64("kind") % 3 {
            0 => 0,
            1 => (draws.next_u64("small") % 8) as u8,
            _ => draws.next_u64("byte") as u8,
        })
        .collect()
}

/// Honest requests, to be broken.
fn honest() -> Vec<Bytes> {
    let batch = BatchBuilder::new().record(0, Some(b"key"), Some(b"value")).build();
    let partition = ProduceRequestPartition { index: 0, records: Some(batch) };
    let produce = ProduceRequest {
        acks: -1,
        timeout_ms: 100,
        topics: vec![ProduceRequestTopic { name: "t".to_owned(), partitions: vec![partition] }],
        ..Default::default()
    };
    let fetched = FetchRequestPartition { index: 0, partition_max_bytes: 1 << 20, ..Default::default() };
    let fetch = FetchRequest {
        max_wait_ms: 1,
        max_bytes: 1 << 20,
        session_epoch: -1,
        replica_id: -1,
        topics: vec![FetchRequestTopic {
            name: "t".to_owned(),
            partitions: vec![fetched],
            ..Default::default()
        }],
        ..Default::default()
    };
    let create = CreateTopicsRequest {
        topics: vec![CreateTopicsRequestTopic {
            name: "t".to_owned(),
            num_partitions: 2,
            replication_factor: 1,
            ..Default::default()
        }],
        ..Default::default()
    };
    let join = JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: 6000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".to_owned(),
            metadata: Bytes::from_static(b"x"),
        }],
        ..Default::default()
    };
    let commit = OffsetCommitRequest {
        group_id: "g".to_owned(),
        topics: vec![OffsetCommitRequestTopic {
            name: "t".to_owned(),
            partitions: vec![OffsetCommitRequestPartition { committed_offset: 1, ..Default::default() }],
        }],
        ..Default::default()
    };
    let quorum = RaftMessageRequest {
        from_node_id: 1,
        cluster_id: "riprap".to_owned(),
        payload: Bytes::from_static(&[1, 2, 3, 4, 5, 6, 7, 8]),
        ..Default::default()
    };
    let alter = AlterPartitionRequest {
        broker_id: 1,
        topics: vec![AlterPartitionRequestTopic {
            topic_id: Uuid([1; 16]),
            partitions: vec![AlterPartitionRequestPartition {
                new_isr: vec![AlterPartitionRequestIsrMember { broker_id: 9, broker_epoch: 1 }; 3],
                ..Default::default()
            }],
        }],
        ..Default::default()
    };
    let forward =
        ForwardRequestRequest { api_key: 19, api_version: 7, body: Bytes::from_static(&[2, 2, b't']) };
    vec![
        request(12, &MetadataRequest { topics: None, ..Default::default() }),
        request(7, &create),
        request(9, &produce),
        request(12, &fetch),
        request(3, &FindCoordinatorRequest { key: "g".to_owned(), ..Default::default() }),
        request(7, &join),
        request(7, &commit),
        request(0, &quorum),
        request(0, &alter),
        request(0, &forward),
        request(4, &InitProducerIdRequest::default()),
    ]
}

#[test]
fn whatever_is_sent_the_broker_serves_the_others() {
    let _alone = alone();
    let mut bench = Bench::new();
    let mut draws = Draws::new(1, "hostile");
    for request in honest() {
        check(&mut bench, "an honest request", &[request]);
    }
    bench.wait_ms(1000);

    // No frames at all.
    for round in 0..200 {
        let len = 1 + draws.next_u64("len") as usize % 300;
        let bytes = noise(&mut draws, len);
        check(&mut bench, &format!("noise {round}"), &[bytes.into()]);
    }
    check_serves(&mut bench);

    // Sizes that promise what never comes.
    for size in [-1, i32::MIN, i32::MAX, 1 << 30, 100 << 20, 1 << 20, 5, 0] {
        let mut bytes = BytesMut::new();
        bytes.put_i32(size);
        bytes.put_slice(&noise(&mut draws, 40));
        check(&mut bench, &format!("a frame of {size} bytes"), &[bytes.freeze()]);
    }
    check_serves(&mut bench);

    // Every API in every version and some beyond, with bodies of noise.
    let keys = (-2..100).chain(9_998..10_010).chain([i16::MIN, i16::MAX]);
    for key in keys {
        for version in -1..20 {
            let mut bytes = header(key, version);
            let len = draws.next_u64("len") as usize % 200;
            bytes.put_slice(&noise(&mut draws, len));
            check(&mut bench, &format!("API {key} version {version}"), &[frame(&bytes)]);
        }
    }
    check_serves(&mut bench);

    // Honest requests with a byte changed, cut short, or in small pieces.
    for honest in honest() {
        for at in 0..honest.len() {
            let mut changed = honest.to_vec();
            changed[at] ^= 1 << (draws.next_u64("bit") % 8);
            check(&mut bench, &format!("byte {at} changed"), &[changed.into()]);
            let pieces = [honest.slice(..at), honest.slice(at..)];
            check(&mut bench, &format!("in two pieces at {at}"), &pieces);
            check(&mut bench, &format!("cut at {at}"), &pieces[..1]);
        }
    }
    bench.wait_ms(1000);
    check_serves(&mut bench);
}

#[test]
fn many_requests_at_once_are_answered_in_order() {
    let _alone = alone();
    let mut bench = Bench::new();
    let conn = bench.connect();
    let mut all = BytesMut::new();
    for correlation_id in 0..500 {
        let header =
            RequestHeader { api_key: ApiKey::Metadata, api_version: 12, correlation_id, client_id: None };
        let body = MetadataRequest { topics: None, ..Default::default() };
        all.put_slice(&encode_request(&header, &body).expect("it fits its version"));
    }
    for piece in all.freeze().chunks(1000) {
        bench.send(conn, piece.to_vec());
    }
    bench.wait_ms(100);
    let mut reader = FrameReader::new(10 << 20);
    bench.sent.remove(&conn).unwrap_or_default().iter().for_each(|bytes| reader.push(bytes));
    for expect in 0..500 {
        let frame = reader.next_frame().expect("a frame").expect("an answer to each");
        assert_eq!(riprap_protocol::frame::correlation_id(&frame), Ok(expect));
    }
}

#[test]
fn versions_of_api_versions_that_nobody_knows_are_answered_in_version_0() {
    let _alone = alone();
    let mut bench = Bench::new();
    for version in [-1, 5, 99, i16::MAX] {
        let conn = bench.connect();
        bench.send(conn, frame(&header(ApiKey::ApiVersions.code(), version)));
        let mut reader = FrameReader::new(1 << 20);
        bench.sent.remove(&conn).expect("an answer").iter().for_each(|bytes| reader.push(bytes));
        let frame = reader.next_frame().expect("a frame").expect("an answer");
        let (_, response) = decode_response::<ApiVersionsRequest>(frame, 0).expect("it is in version 0");
        assert_eq!(response.error_code, ErrorCode::UNSUPPORTED_VERSION);
        assert!(
            response.api_keys.iter().any(|api| api.api_key == ApiKey::Produce.code() && api.min_version == 0)
        );
        // The connection lives: the client asks again in a version that was named.
        let response = bench.ask(conn, 3, &ApiVersionsRequest::default());
        assert_eq!(response.error_code, ErrorCode::NONE);
    }
}

#[test]
fn bytes_after_a_body_are_ignored() {
    let _alone = alone();
    let mut bench = Bench::new();
    let conn = bench.connect();
    // As librdkafka asks for all topics from version 9 on: the array's varint is 0, for null, and three zeros too many
    // follow the body.
    let mut asked = request(13, &MetadataRequest { topics: None, ..Default::default() }).to_vec();
    asked.extend([0, 0, 0]);
    let length = asked.len() as i32 - 4;
    asked[..4].copy_from_slice(&length.to_be_bytes());
    bench.send(conn, asked);
    let mut reader = FrameReader::new(1 << 20);
    bench.sent.remove(&conn).expect("an answer").iter().for_each(|bytes| reader.push(bytes));
    let frame = reader.next_frame().expect("a frame").expect("an answer");
    let (_, response) = decode_response::<MetadataRequest>(frame, 13).expect("it can be read");
    assert_eq!(response.brokers.len(), 1);
}

#[test]
fn what_a_client_sent_before_it_closed_counts() {
    let _alone = alone();
    let mut bench = Bench::new();
    let other = bench.connect();
    let topic = CreateTopicsRequestTopic {
        name: "t".to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    bench.ask(other, 7, &CreateTopicsRequest { topics: vec![topic], ..Default::default() });
    bench.ask(other, 0, &FindCoordinatorRequest { key: "g".to_owned(), ..Default::default() });
    bench.wait_ms(1000);
    let join = JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: 6000,
        rebalance_timeout_ms: 6000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".to_owned(), metadata: Bytes::new() }],
        ..Default::default()
    };
    let produce = ProduceRequest {
        acks: 0,
        timeout_ms: 1000,
        topics: vec![ProduceRequestTopic {
            name: "t".to_owned(),
            partitions: vec![ProduceRequestPartition {
                index: 0,
                records: Some(BatchBuilder::new().record(0, None, Some(b"value")).build()),
            }],
        }],
        ..Default::default()
    };
    let ends = |bench: &mut Bench| {
        let partition = ListOffsetsRequestPartition { timestamp: -1, ..Default::default() };
        let topics = vec![ListOffsetsRequestTopic { name: "t".to_owned(), partitions: vec![partition] }];
        let body = ListOffsetsRequest { replica_id: -1, topics, ..Default::default() };
        bench.ask(other, 7, &body).topics[0].partitions[0].offset
    };
    // The produces wait behind a member that joins, of which nobody wants the answer any more; the last frame is cut off.
    let conn = bench.connect();
    let all = [request(3, &join), request(8, &produce), request(8, &produce), request(8, &produce)].concat();
    bench.send(conn, all[..all.len() - 1].to_vec());
    assert_eq!(ends(&mut bench), 0);
    bench.hang_up(conn);
    bench.wait_ms(100);
    assert_eq!(ends(&mut bench), 2);
}

/// Two thousand connections that say nothing, or begin to, or wait for records and never read them: they cost little, and
/// what all wait for is given them a part at a time, between which others are served.
#[test]
fn thousands_of_connections_share_what_there_is() {
    let _alone = alone();
    const SILENT: usize = 2000;
    const WAITING: usize = 150;
    const RECORD_BYTES: usize = 1_000_000;
    let mut bench = Bench::new();
    let topic = CreateTopicsRequestTopic {
        name: "t".to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let behaves = bench.connect();
    bench.ask(behaves, 7, &CreateTopicsRequest { topics: vec![topic], ..Default::default() });
    let before = ALLOCATOR.restart();
    let half = request(12, &MetadataRequest::default());
    for at in 0..SILENT {
        let conn = bench.connect();
        bench.send(conn, half.slice(..at % half.len()));
    }
    let took = ALLOCATOR.now_bytes.load(Ordering::Relaxed).saturating_sub(before);
    assert!(took <= SILENT * 4096, "{SILENT} connections took {took} bytes");

    let fetched = FetchRequestPartition { index: 0, partition_max_bytes: 2 << 20, ..Default::default() };
    let fetch = FetchRequest {
        max_wait_ms: 60_000,
        min_bytes: 1,
        max_bytes: 2 << 20,
        session_epoch: -1,
        replica_id: -1,
        topics: vec![FetchRequestTopic {
            name: "t".to_owned(),
            partitions: vec![fetched],
            ..Default::default()
        }],
        ..Default::default()
    };
    for _ in 0..WAITING {
        let conn = bench.connect();
        bench.send(conn, request(12, &fetch));
    }
    bench.sent.clear();
    let batch = BatchBuilder::new().record(0, None, Some(&[7; RECORD_BYTES])).build();
    let partition = ProduceRequestPartition { index: 0, records: Some(batch) };
    let produce = ProduceRequest {
        acks: 0,
        timeout_ms: 100,
        topics: vec![ProduceRequestTopic { name: "t".to_owned(), partitions: vec![partition] }],
        ..Default::default()
    };
    bench.send(behaves, request(9, &produce));
    let at_once = bench.sent.len();
    assert!((1..=70).contains(&at_once), "{at_once} answers of a megabyte in one turn");
    check_serves(&mut bench);
    bench.wait_ms(1);
    assert_eq!(bench.sent.len(), WAITING, "all are answered in the end");
}
