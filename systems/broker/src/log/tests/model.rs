//! A log and a list of batches do the same.

use super::*;
use proptest::prelude::*;

/// What is done to a log. Numbers are taken modulo what makes sense when it is done.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// As leader; `epoch_step` is added to the last epoch.
    Append {
        batches: Vec<Made>,
        epoch_step: i32,
    },
    Sync,
    Truncate(usize),
    Reset(usize),
    Reopen,
}

/// A batch to append: records, size of the values, producer and how it goes on in its sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub(super) count: usize,
    pub(super) value_bytes: usize,
    pub(super) producer: Option<i64>,
    pub(super) new_epoch: bool,
    pub(super) timestamp_ms: i64,
}

pub(super) fn made() -> impl Strategy<Value = Made> {
    let value_bytes = prop_oneof![4 => 0..20_usize, 1 => 100..200_usize];
    (1..4_usize, value_bytes, prop::option::of(0..3_i64), prop::bool::weighted(0.1), 0..1000_i64).prop_map(
        |(count, value_bytes, producer, new_epoch, timestamp_ms)| Made {
            count,
            value_bytes,
            producer,
            new_epoch,
            timestamp_ms,
        },
    )
}

pub(super) fn act() -> impl Strategy<Value = Act> {
    let append = (prop::collection::vec(made(), 1..4), prop_oneof![4 => Just(0), 1 => 1..3_i32]);
    prop_oneof![
        6 => append.prop_map(|(batches, epoch_step)| Act::Append { batches, epoch_step }),
        2 => Just(Act::Sync),
        1 => any::<usize>().prop_map(Act::Truncate),
        1 => any::<usize>().prop_map(Act::Reset),
        1 => Just(Act::Reopen),
    ]
}

/// The list of batches, with their offsets and epochs.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) start: i64,
    pub(super) batches: Vec<RecordBatch>,
}

impl Model {
    pub(super) fn end(&self) -> i64 {
        self.batches.last().map_or(self.start, |b| b.header().next_offset())
    }

    pub(super) fn epoch(&self) -> i32 {
        self.batches.last().map_or(0, |b| b.header().leader_epoch)
    }

    /// The batch as a producer in good order sends it: next in sequence.
    pub(super) fn to_send(&self, pending: &[RecordBatch], made: &Made) -> BatchBuilder {
        let value = vec![b'v'; made.value_bytes];
        let mut builder = (0..).take(made.count).fold(BatchBuilder::new(), |b, i: i64| {
            b.record(made.timestamp_ms + i * 7 % 10, Some(b"k"), Some(&value))
        });
        if let Some(producer_id) = made.producer {
            let last = self.batches.iter().chain(pending).rfind(|b| b.header().producer_id == producer_id);
            let (epoch, sequence) = match last.map(RecordBatch::header) {
                None => (0, 0),
                Some(last) if made.new_epoch => (last.producer_epoch + 1, 0),
                Some(last) => (last.producer_epoch, last.last_sequence() + 1),
            };
            builder = builder.producer(producer_id, epoch, sequence);
        }
        builder
    }

    /// The batches of an append, as producers send them and as the leader stores them.
    pub(super) fn to_append(&self, batches: &[Made], epoch_step: i32) -> (Bytes, Vec<RecordBatch>, i32) {
        let epoch = self.epoch() + epoch_step;
        let (mut sent, mut stored) = (Vec::new(), Vec::new());
        let mut next = self.end();
        for made in batches {
            let builder = self.to_send(&stored, made);
            sent.push(builder.clone().build());
            let batch = RecordBatch::take_first(&mut builder.appended(next, epoch).build()).unwrap();
            next = batch.header().next_offset();
            stored.push(batch);
        }
        (sent.concat().into(), stored, epoch)
    }

    pub(super) fn truncate(&mut self, offset: i64) {
        if offset < self.start {
            *self = Model { start: offset, batches: Vec::new() };
        } else {
            self.batches.retain(|b| b.header().next_offset() <= offset);
        }
    }

    /// What a read gives, by the definition.
    fn read(&self, from: i64, limits: ReadLimits) -> Vec<u8> {
        let mut bytes = Vec::new();
        for batch in self.batches.iter().filter(|b| b.header().last_offset() >= from) {
            let fits = bytes.len() + batch.bytes().len() <= limits.max_bytes
                || (limits.at_least_one_batch && bytes.is_empty());
            if !fits || batch.header().next_offset() > limits.below_offset {
                break;
            }
            bytes.extend_from_slice(batch.bytes());
        }
        bytes
    }

    fn end_of_epoch(&self, requested: i32) -> Option<EpochEnd> {
        let first = self.batches.first()?.header();
        if first.leader_epoch > requested {
            return Some(EpochEnd { epoch: requested, end_offset: first.base_offset });
        }
        let last = self.batches.iter().map(RecordBatch::header).rfind(|h| h.leader_epoch <= requested)?;
        Some(EpochEnd { epoch: last.leader_epoch, end_offset: last.next_offset() })
    }

    fn for_timestamp(&self, timestamp_ms: i64) -> Option<(i64, i64)> {
        self.batches.iter().find_map(|batch| {
            batch.records().unwrap().map(Result::unwrap).find_map(|record| {
                let found_ms = batch.header().base_timestamp + record.timestamp_delta;
                let offset = batch.header().base_offset + i64::from(record.offset_delta);
                (found_ms >= timestamp_ms).then_some((offset, found_ms))
            })
        })
    }
}

/// Compares all that a log can be asked.
fn check(log: &PartitionLog, disk: &mut MemDisk, model: &Model, limits: ReadLimits, timestamp_ms: i64) {
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (model.start, model.end()));
    assert_eq!(log.last_leader_epoch(), model.batches.last().map(|b| b.header().leader_epoch));
    for epoch in 0..model.epoch() + 2 {
        assert_eq!(log.end_offset_for_epoch(epoch), model.end_of_epoch(epoch), "epoch {epoch}");
    }
    for from in model.start..=model.end() {
        let limits = ReadLimits { below_offset: model.start + limits.below_offset, ..limits };
        assert_eq!(log.read(disk, from, limits).unwrap(), model.read(from, limits), "{from} {limits:?}");
    }
    let found = log.offset_for_timestamp(disk, timestamp_ms).unwrap();
    assert_eq!(found.map(|f| (f.offset, f.timestamp_ms)), model.for_timestamp(timestamp_ms));
    for (index, batch) in model.batches.iter().enumerate().filter(|(_, b)| b.header().has_producer()) {
        let header = batch.header();
        let of_producer = |b: &&RecordBatch| b.header().producer_id == header.producer_id;
        let later: Vec<&RecordBatch> = model.batches[index + 1..].iter().filter(of_producer).collect();
        let got = log.check_producer(header);
        if later.iter().any(|b| b.header().producer_epoch != header.producer_epoch) {
            assert!(matches!(got, ProducerCheck::InvalidEpoch { .. }), "{header:?}: {got:?}");
        } else if later.len() < 5 {
            assert!(
                matches!(got, ProducerCheck::Duplicate { first_offset, .. } if first_offset == header.base_offset),
                "{header:?}: {got:?}"
            );
        } else {
            assert!(matches!(got, ProducerCheck::OutOfOrder { .. }), "{header:?}: {got:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_log_is_a_list_of_batches(
        acts in prop::collection::vec(act(), 1..25),
        limits in (0..40_i64, 0..2000_usize, any::<bool>()),
        timestamp_ms in 0..1100_i64,
    ) {
        let (below_offset, max_bytes, at_least_one_batch) = limits;
        let limits = ReadLimits { below_offset, max_bytes, at_least_one_batch };
        let mut disk = MemDisk::new();
        let mut log = opened(&mut disk, SMALL);
        let mut model = Model::default();
        let mut follower_disk = MemDisk::new();
        let mut follower = opened(&mut follower_disk, SMALL);
        for act in &acts {
            match act {
                Act::Append { batches, epoch_step } => {
                    let (sent, stored, epoch) = model.to_append(batches, *epoch_step);
                    let got = log.append_as_leader(&mut disk, sent, epoch, 0).unwrap();
                    prop_assert_eq!(got.first_offset, model.end());
                    model.batches.extend(stored);
                    prop_assert_eq!(got.last_offset, model.end() - 1);
                }
                Act::Sync => log.sync(&mut disk).unwrap(),
                Act::Truncate(to) => {
                    let offset = model.start + i64::try_from(to % 60).unwrap() - 5;
                    let offset = offset.max(0);
                    model.truncate(offset);
                    prop_assert_eq!(log.truncate_to(&mut disk, offset).unwrap(), model.end());
                }
                Act::Reset(to) => {
                    model = Model { start: i64::try_from(to % 100).unwrap(), batches: Vec::new() };
                    log.reset_to(&mut disk, model.start).unwrap();
                }
                Act::Reopen => {
                    log.close(&mut disk);
                    let (opened, recovery) = PartitionLog::open(&mut disk, DIR, SMALL).unwrap();
                    log = opened;
                    prop_assert_eq!(recovery, Recovery { batches: model.batches.len() as u64, cut: None });
                }
            }
            prop_assert_eq!(log.is_dirty(), log.durable_end_offset() < log.log_end_offset());
            check(&log, &mut disk, &model, limits, timestamp_ms);

            // What is learned from the disk is what was kept up to date all along.
            let fresh = opened(&mut disk.clone(), SMALL);
            prop_assert_eq!(&fresh.epochs, &log.epochs);
            prop_assert_eq!(&fresh.producers, &log.producers);
        }
        // A follower that starts over has the same in the end.
        follower.reset_to(&mut follower_disk, model.start).unwrap();
        while follower.log_end_offset() < log.log_end_offset() {
            let limits = ReadLimits { below_offset: i64::MAX, max_bytes: 300, at_least_one_batch: true };
            let fetched = log.read(&mut disk, follower.log_end_offset(), limits).unwrap();
            follower.append_as_follower(&mut follower_disk, fetched).unwrap();
        }
        check(&follower, &mut follower_disk, &model, limits, timestamp_ms);
        prop_assert_eq!(&follower.producers, &log.producers);
    }
}
