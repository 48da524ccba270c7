//! How fast records go through the parts of a broker: `cargo bench -p riprap-broker`, in bytes of record batches a second.
//!
//! The disk is memory, so that what is measured is the work on the bytes. `speed/run` measures whole clusters.

use bytes::Bytes;
use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use riprap_broker::log::{LogConfig, PartitionLog, ReadLimits};
use riprap_env::MemDisk;
use riprap_protocol::ApiKey;
use riprap_protocol::frame::{FrameReader, RequestHeader, decode_request, encode_request, encode_response};
use riprap_protocol::messages::{
    FetchResponse, FetchResponsePartition, FetchResponseTopic, ProduceRequest, ProduceRequestPartition,
    ProduceRequestTopic,
};
use riprap_protocol::records::{BatchBuilder, split_batches};
use riprap_protocol::{Message, Uuid};

/// Records of 1 KiB in a batch: a producer in a hurry, and one that gathers half a megabyte.
const RECORDS: &[usize] = &[15, 500];
/// Batches that a log holds, or takes in one measurement.
const BATCHES: usize = 20;
const EPOCH: i32 = 1;

fn main() {
    divan::main();
}

fn batch(records: usize) -> Bytes {
    let value = [7; 1024];
    (0..records).fold(BatchBuilder::new(), |batch, _| batch.record(0, None, Some(&value))).build()
}

fn empty_log() -> (MemDisk, PartitionLog) {
    let mut disk = MemDisk::new();
    let (log, _) = PartitionLog::open(&mut disk, "log", LogConfig::default()).expect("an empty log opens");
    (disk, log)
}

fn full_log(records: usize) -> (MemDisk, PartitionLog) {
    let (mut disk, mut log) = empty_log();
    for _ in 0..BATCHES {
        log.append_as_leader(&mut disk, batch(records), EPOCH, 0).expect("the log takes it");
    }
    (disk, log)
}

fn all() -> ReadLimits {
    ReadLimits { below_offset: i64::MAX, max_bytes: usize::MAX, at_least_one_batch: true }
}

#[divan::bench(args = RECORDS)]
fn append_as_leader(bencher: Bencher<'_, '_>, records: usize) {
    let batch = batch(records);
    bencher.counter(BytesCount::new(batch.len() * BATCHES)).with_inputs(empty_log).bench_values(
        |(mut disk, mut log)| {
            for _ in 0..BATCHES {
                log.append_as_leader(&mut disk, batch.clone(), EPOCH, 0).expect("the log takes it");
            }
            (disk, log)
        },
    );
}

#[divan::bench(args = RECORDS)]
fn append_as_follower(bencher: Bencher<'_, '_>, records: usize) {
    let (mut disk, log) = full_log(records);
    let fetched = log.read(&mut disk, 0, all()).expect("the log is read");
    bencher.counter(BytesCount::new(fetched.len())).with_inputs(empty_log).bench_values(
        |(mut disk, mut log)| {
            log.append_as_follower(&mut disk, fetched.clone()).expect("the log takes it");
            (disk, log)
        },
    );
}

#[divan::bench(args = RECORDS)]
fn read(bencher: Bencher<'_, '_>, records: usize) {
    let (mut disk, log) = full_log(records);
    let size = log.read(&mut disk, 0, all()).expect("the log is read").len();
    bencher
        .counter(BytesCount::new(size))
        .bench_local(|| log.read(&mut disk, 0, all()).expect("the log is read"));
}

#[divan::bench(args = RECORDS)]
fn check_batches(bencher: Bencher<'_, '_>, records: usize) {
    let batch = batch(records);
    bencher
        .counter(BytesCount::new(batch.len()))
        .bench(|| split_batches(batch.clone()).all(|batch| black_box(batch).is_ok()));
}

#[divan::bench(args = RECORDS)]
fn decode_produce(bencher: Bencher<'_, '_>, records: usize) {
    let batch = batch(records);
    let partition = ProduceRequestPartition { index: 0, records: Some(batch.clone()) };
    let topic = ProduceRequestTopic { name: "t".to_owned(), partitions: vec![partition] };
    let request = ProduceRequest { acks: -1, timeout_ms: 1000, topics: vec![topic], transactional_id: None };
    let header = RequestHeader {
        api_key: ApiKey::Produce,
        api_version: 9,
        correlation_id: 1,
        client_id: Some("bench".to_owned()),
    };
    let bytes = encode_request(&header, &request).expect("it fits its version");
    /// What a socket gives at once.
    const CHUNK_BYTES: usize = 64 << 10;
    bencher.counter(BytesCount::new(batch.len())).bench(|| {
        let mut reader = FrameReader::new(usize::MAX);
        bytes.chunks(CHUNK_BYTES).for_each(|chunk| reader.push(chunk));
        let frame = reader.next_frame().expect("a frame").expect("a whole one");
        let (header, mut body) = decode_request(frame).expect("a header");
        ProduceRequest::decode(&mut body, header.api_version).expect("a body")
    });
}

#[divan::bench(args = RECORDS)]
fn encode_fetched(bencher: Bencher<'_, '_>, records: usize) {
    let batch = batch(records);
    let partition = FetchResponsePartition { records: Some(batch.clone()), ..Default::default() };
    let topic =
        FetchResponseTopic { topic_id: Uuid([1; 16]), partitions: vec![partition], ..Default::default() };
    let response = FetchResponse { topics: vec![topic], ..Default::default() };
    bencher
        .counter(BytesCount::new(batch.len()))
        .bench(|| encode_response(1, ApiKey::Fetch, 17, &response).expect("it fits its version"));
}
