//! Each guard of the reader and the writer, by example.

use bytes::{Bytes, BytesMut};
use riprap_protocol::messages::*;
use riprap_protocol::{DecodeErrorKind as Kind, EncodeError, Message, Reader};

/// Reads `body` as an `M` that takes up all of it.
fn check<M: Message>(version: i16, body: &[u8], expect: Result<M, Kind>) {
    let read = M::decode_all(&mut Reader::new(Bytes::copy_from_slice(body)), version);
    assert_eq!(read.map_err(|error| error.kind), expect, "{} version {version}", M::NAME);
}

fn refused<M: Message>(version: i16, body: &[u8], expect: Kind) {
    check::<M>(version, body, Err(expect));
}

#[test]
fn counts_above_the_bytes_that_remain() {
    let count = i32::MAX as usize;
    refused::<MetadataRequest>(0, &[0x7f, 0xff, 0xff, 0xff, 0, 0], Kind::Count { count, remaining: 2 });
    refused::<MetadataRequest>(9, &[0x05, 0, 0, 0], Kind::Count { count: 4, remaining: 3 });
}

#[test]
fn counts_above_the_budget() {
    let element = size_of::<DescribeGroupsResponseGroup>();
    assert!(element > 16, "it is larger in memory than the budget allows per byte");
    let mut body = vec![0; 1 << 20];
    let count = body.len() - 4;
    body[..4].copy_from_slice(&(count as u32).to_be_bytes());
    let kind = Kind::Budget { asked_bytes: count * element, left_bytes: 16 << 20 };
    refused::<DescribeGroupsResponse>(0, &body, kind);
}

/// A count that the budget would allow by itself, in a frame that has used some of it.
#[test]
fn the_budget_is_the_whole_frames() {
    let topics = 1_000;
    let mut body = vec![0; 1 << 20];
    let partitions = body.len() - 10;
    body[..4].copy_from_slice(&(topics as u32).to_be_bytes());
    body[6..10].copy_from_slice(&(partitions as u32).to_be_bytes());
    let asked_bytes = partitions * size_of::<DeleteRecordsRequestPartition>();
    let budget = Reader::budget_bytes(body.len());
    assert!(asked_bytes <= budget, "it is the topics before it that are too much");
    let left_bytes = budget - topics * size_of::<DeleteRecordsRequestTopic>();
    refused::<DeleteRecordsRequest>(0, &body, Kind::Budget { asked_bytes, left_bytes });
}

#[test]
fn strings_count_too() {
    let element = size_of::<MetadataRequestTopic>();
    let mut body = vec![0; 4_000];
    let budget = Reader::budget_bytes(body.len());
    let (topics, left_bytes) = (budget / element, budget % element);
    let asked_bytes = left_bytes + 1;
    body[..4].copy_from_slice(&(topics as u32).to_be_bytes());
    body[4..6].copy_from_slice(&(asked_bytes as u16).to_be_bytes());
    refused::<MetadataRequest>(0, &body, Kind::Budget { asked_bytes, left_bytes });
}

#[test]
fn budgets() {
    let check = |frame_size_bytes: usize, expect: usize| {
        assert_eq!(Reader::budget_bytes(frame_size_bytes), expect);
    };
    check(0, 64 << 10);
    check(4 << 10, 64 << 10);
    check(1 << 20, 16 << 20);
    check(4 << 20, 64 << 20);
    check(usize::MAX, 64 << 20);
}

#[test]
fn varints() {
    refused::<MetadataRequest>(9, &[0xff, 0xff, 0xff, 0xff, 0x10], Kind::Varint);
    refused::<MetadataRequest>(9, &[0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Kind::Varint);
    let count = u32::MAX as usize - 1;
    refused::<MetadataRequest>(9, &[0xff, 0xff, 0xff, 0xff, 0x0f], Kind::Count { count, remaining: 0 });
    refused::<MetadataRequest>(9, &[0xff, 0xff], Kind::End { needed: 1, remaining: 0 });
}

#[test]
fn lengths_and_nulls() {
    let minus_two = [0xff, 0xff, 0xff, 0xfe];
    let null = [0xff; 4];
    refused::<MetadataRequest>(1, &minus_two, Kind::NegativeLength { length: -2 });
    refused::<FindCoordinatorRequest>(0, &[0xff, 0xfe], Kind::NegativeLength { length: -2 });
    check(1, &null, Ok(MetadataRequest { topics: None, ..MetadataRequest::default() }));
    // Version 0 has no null: an empty list asks for all topics.
    refused::<MetadataRequest>(0, &null, Kind::Null);
    check(0, &[0; 4], Ok(MetadataRequest { topics: Some(vec![]), ..MetadataRequest::default() }));
    refused::<FindCoordinatorRequest>(0, &[0xff, 0xff], Kind::Null);
    refused::<FindCoordinatorRequest>(3, &[0], Kind::Null);
}

#[test]
fn strings() {
    refused::<FindCoordinatorRequest>(0, &[0, 1, 0xff], Kind::Utf8);
    refused::<FindCoordinatorRequest>(0, &[0, 3, b'a'], Kind::End { needed: 3, remaining: 1 });
    let mut long = vec![0x81, 0x80, 0x02];
    long.extend([b'a'; 32_768]);
    refused::<FindCoordinatorRequest>(3, &long, Kind::LongString { length: 32_768 });
}

/// A Heartbeat of version 4 that says nothing, up to its tags.
const HEARTBEAT: &[u8] = &[1, 0, 0, 0, 0, 1, 0];

/// A Fetch of version 12 with zeros and empty lists, up to its tags.
const FETCH: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1];

fn fetch() -> FetchRequest {
    FetchRequest { replica_id: 0, max_bytes: 0, session_epoch: 0, ..FetchRequest::default() }
}

#[test]
fn unknown_tags() {
    let check = |tags: &[u8], expect: Result<(), Kind>| {
        let expect = expect.map(|()| HeartbeatRequest::default());
        check(4, &[HEARTBEAT, tags].concat(), expect);
    };
    check(&[0], Ok(()));
    check(&[2, 5, 1, 0xaa, 7, 0], Ok(()));
    check(&[2, 5, 0, 5, 0], Err(Kind::TagOrder { tag: 5, previous: 5 }));
    check(&[2, 5, 0, 4, 0], Err(Kind::TagOrder { tag: 4, previous: 5 }));
    check(&[1, 5, 9, 0], Err(Kind::End { needed: 9, remaining: 1 }));
    check(&[0xff, 0xff, 0xff, 0xff, 0x0f], Err(Kind::End { needed: 1, remaining: 0 }));
    check(&[2, 5, 0], Err(Kind::End { needed: 1, remaining: 0 }));
}

#[test]
fn known_tags() {
    let check = |tags: &[u8], expect: Result<FetchRequest, Kind>| {
        check(12, &[FETCH, tags].concat(), expect);
    };
    check(&[0], Ok(fetch()));
    check(&[1, 0, 2, 2, b'c'], Ok(FetchRequest { cluster_id: Some("c".to_owned()), ..fetch() }));
    check(&[1, 0, 3, 1, 0, 0], Err(Kind::TagSize { tag: 0, unread: 2 }));
    check(&[2, 0, 1, 2, 9, 0], Err(Kind::End { needed: 1, remaining: 0 }));
    // Tag 1 has a meaning from version 15 only.
    check(&[1, 1, 1, 0xaa], Ok(fetch()));
}

#[test]
fn ends_and_what_follows() {
    refused::<HeartbeatResponse>(0, &[0], Kind::End { needed: 2, remaining: 1 });
    refused::<HeartbeatResponse>(0, &[0, 0, 9], Kind::Trailing { count: 1 });
    check(0, &[0, 0], Ok(HeartbeatResponse::default()));
}

#[test]
fn unknown_versions() {
    let kind = |version| Kind::UnsupportedVersion { message: "ProduceRequest", version, known: 3..=12 };
    for version in [i16::MIN, -1, 2, 13, i16::MAX] {
        refused::<ProduceRequest>(version, &[], kind(version));
        let error = ProduceRequest::default().to_bytes(version);
        assert!(matches!(error, Err(EncodeError::UnsupportedVersion { .. })), "{error:?}");
    }
}

#[test]
fn errors_say_where_and_what_is_right() {
    let read = HeartbeatResponse::decode_all(&mut Reader::new(Bytes::from_static(&[0, 0, 9])), 0);
    let error = read.expect_err("a byte follows");
    assert_eq!(error.to_string(), "1 bytes follow the message (byte 2 of the frame)");
    let error = HeartbeatResponse::default().to_bytes(5).expect_err("there is no version 5");
    assert_eq!(error.to_string(), "HeartbeatResponse version 5; 0 to 4 are known");
}

/// Bulk data is a view of the frame, not a copy.
#[test]
fn records_are_not_copied() {
    let records = Bytes::from(vec![7; 1_000]);
    let partitions = vec![ProduceRequestPartition { index: 0, records: Some(records) }];
    let topics = vec![ProduceRequestTopic { name: "t".to_owned(), partitions }];
    let body = ProduceRequest { topics, ..ProduceRequest::default() }.to_bytes(9).expect("it can be said");
    let read = ProduceRequest::decode_all(&mut Reader::new(body.clone()), 9).expect("it is well-formed");
    let records = read.topics[0].partitions[0].records.clone().expect("they were given");
    assert!(body.as_ptr_range().contains(&records.as_ptr()));
}

fn check_written<M: Message>(message: &M, version: i16, expect: Result<(), EncodeError>) {
    let mut buf = BytesMut::from(&b"before"[..]);
    let result = message.encode(&mut buf, version);
    assert_eq!(result, expect, "{} version {version}", M::NAME);
    if result.is_err() {
        assert_eq!(buf, b"before"[..], "an error leaves the buffer as it was");
    }
}

#[test]
fn fields_that_a_version_lacks() {
    let lacks = |field, version| Err(EncodeError::FieldNotInVersion { field, version });
    let follower = FetchRequest { replica_id: 1, ..FetchRequest::default() };
    check_written(&follower, 14, Ok(()));
    check_written(&follower, 15, lacks("replica_id", 15));
    check_written(&FetchRequest::default(), 15, Ok(()));

    let replica_state = FetchRequestReplicaState { replica_id: 1, replica_epoch: 5 };
    let follower = FetchRequest { replica_state, ..FetchRequest::default() };
    check_written(&follower, 15, Ok(()));
    check_written(&follower, 14, lacks("replica_state", 14));
    check_written(&follower, 4, lacks("replica_state", 4));

    // Nobody misses a throttle time.
    check_written(&HeartbeatResponse { throttle_time_ms: 9, ..HeartbeatResponse::default() }, 0, Ok(()));
}

#[test]
fn nulls_that_a_version_lacks() {
    let lacks = |field, version| Err(EncodeError::NullNotInVersion { field, version });
    let all = MetadataRequest { topics: None, ..MetadataRequest::default() };
    check_written(&all, 1, Ok(()));
    check_written(&all, 0, lacks("topics", 0));
    let topics = Some(vec![MetadataRequestTopic { name: None, ..MetadataRequestTopic::default() }]);
    let by_id = MetadataRequest { topics, ..MetadataRequest::default() };
    check_written(&by_id, 10, Ok(()));
    check_written(&by_id, 9, lacks("name", 9));
}

#[test]
fn strings_that_are_too_long() {
    for version in [0, 3] {
        let key = "k".repeat(32_767);
        check_written(&FindCoordinatorRequest { key: key.clone(), ..Default::default() }, version, Ok(()));
        let too_long = EncodeError::TooLong { what: "string", length: 32_768, max: 32_767 };
        let request = FindCoordinatorRequest { key: key + "k", ..Default::default() };
        check_written(&request, version, Err(too_long));
    }
}
