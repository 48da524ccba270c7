//! What a log says of a producer's batch, and what follows from all batches that it ever took: the same, before and after
//! the log is opened again.

use super::*;
use proptest::prelude::*;

/// A producer remembers so many of its batches.
const REMEMBERED: usize = 5;

/// A batch as some producer sends it. `at` places its first sequence number: so many above the one that would be next, or
/// that of so many batches before.
#[derive(Clone, Copy, Debug)]
struct Sent {
    producer: i64,
    epoch: i16,
    at: At,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
enum At {
    Next,
    Above(i32),
    Again(usize),
    Zero,
}

/// A batch that was taken.
#[derive(Clone, Copy, Debug)]
struct Taken {
    epoch: i16,
    first_sequence: i32,
    count: i32,
    first_offset: i64,
}

fn sent() -> impl Strategy<Value = Sent> {
    let at = prop_oneof![
        6 => Just(At::Next),
        1 => (1..4_i32).prop_map(At::Above),
        3 => (0..7_usize).prop_map(At::Again),
        1 => Just(At::Zero),
    ];
    let epoch = prop_oneof![12 => Just(0_i16), 2 => Just(1), 1 => Just(2)];
    (0..2_i64, epoch, at, 1..4_usize).prop_map(|(producer, epoch, at, count)| Sent {
        producer,
        epoch,
        at,
        count,
    })
}

/// What is right, by definition: numbers of an epoch follow each other from 0 on, an older epoch is over, and a batch that
/// is among the last few is the same batch again.
fn expected(taken: &[Taken], epoch: i16, first_sequence: i32, count: i32) -> ProducerCheck {
    let current = taken.last().map_or(epoch, |last| last.epoch);
    if epoch < current {
        return ProducerCheck::InvalidEpoch { current, got: epoch };
    }
    let of_epoch: Vec<&Taken> = taken.iter().filter(|taken| taken.epoch == epoch).collect();
    let lately = of_epoch.iter().rev().take(REMEMBERED);
    if let Some(same) =
        lately.clone().find(|taken| (taken.first_sequence, taken.count) == (first_sequence, count))
    {
        let last_offset = same.first_offset + i64::from(same.count) - 1;
        return ProducerCheck::Duplicate {
            first_offset: same.first_offset,
            last_offset,
            max_timestamp: i64::from(same.count) - 1,
        };
    }
    let next = of_epoch.last().map_or(0, |last| last.first_sequence + last.count);
    if first_sequence == next {
        ProducerCheck::New
    } else {
        ProducerCheck::OutOfOrder { expected: next, got: first_sequence }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_is_new_known_or_wrong(all in prop::collection::vec((sent(), prop::bool::weighted(0.05)), 1..60)) {
        let mut disk = MemDisk::new();
        let config = LogConfig { retention_bytes: None, ..SMALL };
        let mut log = opened(&mut disk, config);
        let mut taken: [Vec<Taken>; 2] = [Vec::new(), Vec::new()];
        for (Sent { producer, epoch, at, count }, opens_again) in all {
            if opens_again {
                log.sync(&mut disk).expect("the disk is well");
                log = opened(&mut disk, config);
            }
            let before = &mut taken[producer as usize];
            let of_epoch: Vec<Taken> = before.iter().filter(|taken| taken.epoch == epoch).copied().collect();
            let next = of_epoch.last().map_or(0, |last| last.first_sequence + last.count);
            let (first_sequence, count) = match at {
                At::Next => (next, count as i32),
                At::Above(by) => (next + by, count as i32),
                At::Zero => (0, count as i32),
                At::Again(back) => match of_epoch.iter().rev().nth(back) {
                    Some(taken) => (taken.first_sequence, taken.count),
                    None => (next, count as i32),
                },
            };
            let bytes = batch(count as usize, 0).producer(producer, epoch, first_sequence).build();
            let header = *RecordBatch::take_first(&mut bytes.clone()).expect("it is whole").header();
            let found = log.check_producer(&header);
            prop_assert_eq!(found, expected(before, epoch, first_sequence, count));
            if found == ProducerCheck::New {
                let appended = log.append_as_leader(&mut disk, bytes, 0, 0).expect("it is right");
                before.push(Taken { epoch, first_sequence, count, first_offset: appended.first_offset });
            }
        }
    }
}
