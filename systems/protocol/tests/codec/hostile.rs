//! No bytes panic, and none make the reader allocate more than its budget.

use bytes::Bytes;
use proptest::prelude::*;
use riprap_protocol::Reader;
use riprap_protocol::frame::decode_request;

use crate::allocations::allocated_bytes;
use crate::bodies::{body, choices, every_message};
use crate::every_message::EVERY_MESSAGE;

/// What the `Bytes` handles themselves may take: one shared counter a frame.
const HANDLE_BYTES: usize = 256;

/// What is done to a valid body.
#[derive(Clone, Debug)]
enum Damage {
    Flip { at: usize, mask: u8 },
    Overwrite { at: usize, with: &'static [u8] },
    Insert { at: usize, with: &'static [u8] },
    Cut { at: usize },
}

/// Lengths that lie: the largest and the smallest, in both encodings, and some that are merely too long.
const LYING_LENGTHS: &[&[u8]] = &[
    &[0x7f, 0xff, 0xff, 0xff],
    &[0x80, 0x00, 0x00, 0x00],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0x7f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0x7f, 0xff],
    &[0x80, 0x80, 0x80, 0x80, 0x00],
    &[0x00, 0x00, 0x00, 0x20],
    &[0x40],
];

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let at = 0_usize..300;
    let lie = proptest::sample::select(LYING_LENGTHS);
    let one = prop_oneof![
        4 => (at.clone(), 1_u8..).prop_map(|(at, mask)| Damage::Flip { at, mask }),
        4 => (at.clone(), lie.clone()).prop_map(|(at, with)| Damage::Overwrite { at, with }),
        2 => (at.clone(), lie).prop_map(|(at, with)| Damage::Insert { at, with }),
        1 => at.prop_map(|at| Damage::Cut { at }),
    ];
    proptest::collection::vec(one, 1..5)
}

fn apply(damage: &[Damage], body: &mut Vec<u8>) {
    for damage in damage {
        let place = |at: usize| if body.is_empty() { 0 } else { at % body.len() };
        match *damage {
            Damage::Flip { at, mask } => {
                let at = place(at);
                if let Some(byte) = body.get_mut(at) {
                    *byte ^= mask;
                }
            }
            Damage::Overwrite { at, with } => {
                let at = place(at);
                let end = body.len().min(at + with.len());
                body.splice(at..end, with.iter().copied());
            }
            Damage::Insert { at, with } => {
                let at = place(at);
                body.splice(at..at, with.iter().copied());
            }
            Damage::Cut { at } => {
                let at = place(at);
                body.truncate(at);
            }
        }
    }
}

/// Reads `body` as every message in every version; whatever can be read can be written and read again.
fn check(bodies: impl Fn(&crate::schema::Message, i16) -> Vec<u8>) {
    for (message, codec) in every_message().iter().zip(EVERY_MESSAGE) {
        for version in message.versions.first..=message.versions.last {
            let frame = Bytes::from(bodies(message, version));
            let budget = Reader::budget_bytes(frame.len()) + HANDLE_BYTES;
            let (allocated, _) = allocated_bytes(|| (codec.decode)(frame.clone(), version));
            assert!(
                allocated <= budget,
                "{} version {version}: {allocated} bytes for a frame of {}",
                message.name,
                frame.len()
            );
            let _ = (codec.transcode)(frame, version);
        }
    }
}

proptest! {
    #![proptest_config(crate::config(48))]

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        check(|_, _| bytes.clone());
    }

    #[test]
    fn damaged_bodies(choices in choices(), damage in damage()) {
        check(|message, version| {
            let mut body = body(message, version, &choices);
            apply(&damage, &mut body);
            body
        });
    }

    #[test]
    fn damaged_requests(
        key in prop_oneof![0_i16..70, 10_000_i16..10_010, any::<i16>()],
        version in -1_i16..20,
        rest in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut frame = [key.to_be_bytes(), version.to_be_bytes()].concat();
        frame.extend(rest);
        let frame = Bytes::from(frame);
        let budget = Reader::budget_bytes(frame.len()) + HANDLE_BYTES;
        let (allocated, _) = allocated_bytes(|| decode_request(frame));
        prop_assert!(allocated <= budget);
    }
}

/// A frame of one byte over and over: counts, lengths and tags that are all alike, in frames large enough to matter.
#[test]
fn large_frames_of_one_byte() {
    for byte in [0x00, 0x01, 0x02, 0x03, 0x10, 0x7f, 0x80, 0xff] {
        check(|_, _| vec![byte; 20_000]);
    }
}

/// An honest-looking count, as large as the bytes that remain allow, at every place where it may stand.
#[test]
fn large_frames_with_plausible_counts() {
    let size = 100_000_usize;
    for place in [0, 1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 21, 25] {
        check(|message, version| {
            let mut frame = vec![0; size];
            let is_flexible = message.flexible_since.is_some_and(|since| version >= since);
            let count: &[u8] = if is_flexible { &[0x80, 0x80, 0x06] } else { &[0x00, 0x01, 0x80, 0x00] };
            frame[place..place + count.len()].copy_from_slice(count);
            frame
        });
    }
}
