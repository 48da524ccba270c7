//! Messages survive the wire; hostile bytes do nothing.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use riprap_coord::{Body, DecodeError, Entry, Index, Life, MAX_PAYLOAD_BYTES, Message, Term};

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..10_u64, 0..=1_u64 << 62]
}

fn index() -> impl Strategy<Value = Index> {
    number().prop_map(Index)
}

fn term() -> impl Strategy<Value = Term> {
    number().prop_map(Term)
}

fn life() -> impl Strategy<Value = Life> {
    (1..=1_u64 << 62).prop_map(Life)
}

fn payload() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn append() -> impl Strategy<Value = Body> {
    let entries = vec((term(), payload()), 0..5);
    (index(), term(), index(), entries).prop_map(|(prev_index, prev_term, commit, entries)| {
        let numbered = entries.into_iter().enumerate();
        let entries = numbered.map(|(at, (term, payload))| {
            let index = Index(prev_index.0 + 1 + at as u64);
            Entry { index, term, payload }
        });
        Body::Append { prev_index, prev_term, commit, entries: entries.collect() }
    })
}

fn chunk() -> impl Strategy<Value = Body> {
    (index(), term(), 0..1000_u64, payload(), 0..1000_u64).prop_map(
        |(last_index, last_term, offset, data, after)| {
            let total_bytes = offset + data.len() as u64 + after;
            Body::InstallSnapshot { last_index, last_term, total_bytes, offset, data }
        },
    )
}

fn message() -> impl Strategy<Value = Message> {
    let last = || (index(), term());
    let body = prop_oneof![
        last().prop_map(|(last_index, last_term)| Body::PreVote { last_index, last_term }),
        (term(), any::<bool>()).prop_map(|(for_term, granted)| Body::PreVoteResponse { for_term, granted }),
        last().prop_map(|(last_index, last_term)| Body::Vote { last_index, last_term }),
        any::<bool>().prop_map(|granted| Body::VoteResponse { granted }),
        append(),
        index().prop_map(|match_index| Body::AppendAccepted { match_index }),
        (index(), index(), term()).prop_map(|(prev_index, hint_index, hint_term)| {
            Body::AppendRejected { prev_index, hint_index, hint_term }
        }),
        chunk(),
        (index(), number()).prop_map(|(last_index, offset)| Body::SnapshotProgress { last_index, offset }),
        life().prop_map(|life| Body::Admit { life }),
        Just(Body::Doubt),
        Just(Body::Observe),
    ];
    (term(), number(), proptest::option::of(life()), body)
        .prop_map(|(term, asked_ns, newcomer, body)| Message { term, asked_ns, newcomer, body })
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(message in message()) {
        prop_assert_eq!(Message::decode(message.encode()), Ok(message));
    }

    #[test]
    fn no_part_of_a_message_is_one(message in message(), cut in 0.0..1.0) {
        let bytes = message.encode();
        let cut = (bytes.len() as f64 * cut) as usize;
        prop_assert!(Message::decode(bytes.slice(..cut)).is_err());
    }

    #[test]
    fn hostile_bytes_are_refused_or_say_what_they_are(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(message) = Message::decode(Bytes::from(bytes.clone())) {
            prop_assert_eq!(message.encode(), bytes);
        }
    }

    #[test]
    fn damaged_messages_are_refused_or_say_what_they_are(
        message in message(), at in any::<prop::sample::Index>(), flip in 1..=255_u8,
    ) {
        let mut bytes = message.encode().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(message) = Message::decode(Bytes::from(bytes.clone())) {
            prop_assert_eq!(message.encode(), bytes);
        }
    }
}

/// `bytes` in hexadecimal, blanks ignored.
fn check(bytes: &str, expect: DecodeError) {
    let digits: Vec<u8> = bytes.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let hex = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex");
    let bytes: Vec<u8> = digits.chunks(2).map(hex).collect();
    assert_eq!(Message::decode(Bytes::from(bytes)), Err(expect));
}

#[test]
fn says_what_is_wrong() {
    let append = "03 05 0000000000000001 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000";
    check("", DecodeError::Truncated { missing: 1 });
    check("02", DecodeError::UnknownVersion(2));
    check("03 0d 0000000000000001 0000000000000000 0000000000000000", DecodeError::UnknownKind(13));
    check("03 04 0000000000000001 0000000000000000 0000000000000000 02", DecodeError::BadFlag(2));
    check("03 04 0000000000000001 0000000000000000 0000000000000000 01 ff", DecodeError::TrailingBytes(1));
    check("03 04 ffffffffffffffff 01", DecodeError::NumberTooLarge(u64::MAX));
    // A count that would reserve gigabytes.
    check(&format!("{append} ffffffff"), DecodeError::Truncated { missing: 0xffff_ffff * 12 });
    check(
        &format!("{append} 00000001 0000000000000001 ffffffff"),
        DecodeError::Truncated { missing: 0xffff_ffff },
    );
    check(
        "03 08 0000000000000001 0000000000000000 0000000000000000 0000000000000001 0000000000000001 0000000000000002 0000000000000001 00000002 0000",
        DecodeError::ChunkOutside { offset: 1, len: 2, total_bytes: 2 },
    );
}

#[test]
fn payloads_have_a_limit() {
    let message = |len: usize| {
        let entry = Entry { index: Index(1), term: Term(1), payload: Bytes::from(vec![0; len]) };
        let (prev_index, prev_term, commit) = (Index(0), Term(0), Index(0));
        Message {
            term: Term(1),
            asked_ns: 0,
            newcomer: None,
            body: Body::Append { prev_index, prev_term, commit, entries: vec![entry] },
        }
    };
    assert!(Message::decode(message(MAX_PAYLOAD_BYTES).encode()).is_ok());
    let too_long = MAX_PAYLOAD_BYTES + 1;
    assert_eq!(Message::decode(message(too_long).encode()), Err(DecodeError::PayloadTooLarge(too_long)));
}
