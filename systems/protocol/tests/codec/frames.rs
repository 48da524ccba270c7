//! Headers and framing.

use bytes::Bytes;
use proptest::prelude::*;
use riprap_protocol::frame::*;
use riprap_protocol::messages::*;
use riprap_protocol::{ApiKey, DecodeErrorKind, ErrorCode, Message, Request};

fn header(api_key: ApiKey, api_version: i16) -> RequestHeader {
    RequestHeader { api_key, api_version, correlation_id: 77, client_id: Some("client".to_owned()) }
}

/// The frame without its size field.
fn unframed(bytes: &[u8]) -> Bytes {
    let mut reader = FrameReader::new(bytes.len());
    reader.push(bytes);
    let frame = reader.next_frame().expect("the size is right").expect("the frame is complete");
    assert_eq!(reader.buffered_bytes(), 0);
    frame
}

#[test]
fn requests_and_responses_come_back() {
    fn check<R: Request>(request: R, response: R::Response) {
        for version in R::VERSIONS {
            let header = header(R::KEY, version);
            let bytes = encode_request(&header, &request).expect("it can be said");
            let (found, mut body) = decode_request(unframed(&bytes)).expect("the header is well-formed");
            assert_eq!(found, header);
            assert_eq!(R::decode_all(&mut body, version), Ok(request.clone()));

            let bytes = encode_response(77, R::KEY, version, &response).expect("it can be said");
            let frame = unframed(&bytes);
            assert_eq!(correlation_id(&frame), Ok(77));
            assert_eq!(decode_response::<R>(frame, version), Ok((77, response.clone())));
        }
    }
    let group_id = || "g".to_owned();
    check(
        HeartbeatRequest { group_id: group_id(), generation_id: 3, ..Default::default() },
        HeartbeatResponse { error_code: ErrorCode::REBALANCE_IN_PROGRESS, ..Default::default() },
    );
    check(
        ApiVersionsRequest::default(),
        ApiVersionsResponse {
            api_keys: vec![ApiVersionsResponseApi { api_key: 0, min_version: 0, max_version: 12 }],
            ..Default::default()
        },
    );
    check(
        RaftMessageRequest { from_node_id: 2, payload: Bytes::from_static(b"vote"), ..Default::default() },
        RaftMessageResponse::default(),
    );
}

/// The bytes by hand, from the protocol guide.
#[test]
fn headers_by_example() {
    let check = |version: i16, tags: &[u8], body: &[u8]| {
        let request = ApiVersionsRequest::default();
        let bytes = encode_request(&header(ApiKey::ApiVersions, version), &request).expect("it can be said");
        let head = [&[0, 18, 0, version as u8, 0, 0, 0, 77, 0, 6][..], b"client", tags, body].concat();
        assert_eq!(unframed(&bytes), head);
        assert_eq!(bytes[..4], (head.len() as u32).to_be_bytes());
    };
    check(0, &[], &[]);
    check(3, &[0], &[1, 1, 0]);
    // No tags in the header of ApiVersions' response, in any version.
    let bytes = encode_response(77, ApiKey::ApiVersions, 3, &ApiVersionsResponse::default());
    assert_eq!(unframed(&bytes.expect("it can be said")), [0, 0, 0, 77, 0, 0, 1, 0, 0, 0, 0, 0][..]);
    let bytes = encode_response(77, ApiKey::Heartbeat, 4, &HeartbeatResponse::default());
    assert_eq!(unframed(&bytes.expect("it can be said")), [0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 0][..]);
}

#[test]
fn requests_that_cannot_be_answered_as_asked() {
    let check = |frame: &[u8], expect: RequestError| {
        assert_eq!(decode_request(Bytes::copy_from_slice(frame)).map(|(header, _)| header), Err(expect));
    };
    let unknown = RequestError::UnknownApi { api_key: 999, api_version: 1, correlation_id: 5 };
    check(&[0x03, 0xe7, 0, 1, 0, 0, 0, 5], unknown);
    let newer =
        RequestError::UnsupportedVersion { api_key: ApiKey::ApiVersions, api_version: 9, correlation_id: 5 };
    assert_eq!(newer.to_string(), "ApiVersions version 9; 0 to 4 are known");
    check(&[0, 18, 0, 9, 0, 0, 0, 5, 0xff], newer);
    // The oldest Produce versions are advertised, but not spoken.
    let older =
        RequestError::UnsupportedVersion { api_key: ApiKey::Produce, api_version: 0, correlation_id: 5 };
    check(&[0, 0, 0, 0, 0, 0, 0, 5], older);
    for frame in
        [&[][..], &[0, 18, 0], &[0, 18, 0, 0, 0, 0, 0, 5, 0, 9, b'x'], &[0, 12, 0, 4, 0, 0, 0, 5, 0, 0, 1]]
    {
        let error = decode_request(Bytes::copy_from_slice(frame)).map(|(header, _)| header);
        assert!(matches!(error, Err(RequestError::Malformed(_))), "{frame:?}: {error:?}");
    }
}

#[test]
fn a_client_may_have_no_name_and_unknown_tags() {
    let frame = Bytes::from_static(&[0, 18, 0, 3, 0, 0, 0, 5, 0xff, 0xff, 1, 9, 1, 0xaa, 1, 1, 0]);
    let (header, mut body) = decode_request(frame).expect("the header is well-formed");
    assert_eq!(header.client_id, None);
    assert_eq!(ApiVersionsRequest::decode_all(&mut body, 3), Ok(ApiVersionsRequest::default()));
}

#[test]
fn what_follows_a_response_is_refused() {
    let frame = Bytes::from_static(&[0, 0, 0, 77, 0, 0, 1]);
    let error = decode_response::<HeartbeatRequest>(frame, 0).expect_err("a byte follows");
    assert_eq!(error.kind, DecodeErrorKind::Trailing { count: 1 });
}

#[test]
fn limits() {
    let check = |mut reader: FrameReader, bytes: &[u8], expect: Result<Option<&'static [u8]>, FrameError>| {
        reader.push(bytes);
        assert_eq!(reader.next_frame(), expect.map(|frame| frame.map(Bytes::from_static)));
    };
    let too_large = |size_bytes, max_bytes| Err(FrameError::TooLarge { size_bytes, max_bytes });
    check(FrameReader::new(3), &[0, 0, 0, 3, 1, 2, 3], Ok(Some(&[1, 2, 3])));
    check(FrameReader::new(3), &[0, 0, 0, 0], Ok(Some(&[])));
    check(FrameReader::new(3), &[0, 0, 0], Ok(None));
    // Refused before its bytes are there.
    check(FrameReader::new(3), &[0, 0, 0, 4], too_large(4, 3));
    check(FrameReader::new(3), &[0xff, 0xff, 0xff, 0xff], Err(FrameError::Negative { size: -1 }));

    let requests = || FrameReader::for_requests(max_request_size_bytes);
    let heartbeat = [0, 0x10, 0, 1, 0, 12];
    check(requests(), &heartbeat, too_large(MAX_REQUEST_SIZE_BYTES + 1, MAX_REQUEST_SIZE_BYTES));
    let produce = [0, 0x10, 0, 1, 0, 0];
    check(requests(), &produce, Ok(None));
    check(requests(), &heartbeat[..4], Ok(None));
    let any = [0x7f, 0xff, 0xff, 0xff];
    check(requests(), &any, too_large(i32::MAX as usize, MAX_BULK_REQUEST_SIZE_BYTES));
}

proptest! {
    #![proptest_config(crate::config(64))]

    /// However a connection cuts its bytes, the frames are the same.
    #[test]
    fn cuts_do_not_matter(
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6),
        cuts in proptest::collection::vec(1_usize..20, 1..8),
    ) {
        let mut stream = Vec::new();
        for frame in &frames {
            stream.extend((frame.len() as u32).to_be_bytes());
            stream.extend(frame);
        }
        let mut reader = FrameReader::new(40);
        let mut found = Vec::new();
        let mut cuts = cuts.iter().cycle();
        let mut rest = stream.as_slice();
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(rest.len().min(*cuts.next().expect("it cycles")));
            rest = tail;
            reader.push(piece);
            while let Some(frame) = reader.next_frame().expect("the sizes are right") {
                found.push(frame.to_vec());
            }
        }
        prop_assert_eq!(found, frames);
        prop_assert_eq!(reader.buffered_bytes(), 0);
    }

    /// No stream makes the reader panic, and it never holds more than was pushed.
    #[test]
    fn hostile_streams(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..10)) {
        let mut reader = FrameReader::for_requests(max_request_size_bytes);
        let mut pushed_bytes = 0;
        for piece in pieces {
            reader.push(&piece);
            pushed_bytes += piece.len();
            while let Ok(Some(frame)) = reader.next_frame() {
                let _ = decode_request(frame);
            }
            prop_assert!(reader.buffered_bytes() <= pushed_bytes);
        }
    }
}
