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
    /// The start moves up to here.
    Start(usize),
    /// Retention, with a high watermark so far above the start.
    Retain(usize),
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
        1 => any::<usize>().prop_map(Act::Start),
        1 => any::<usize>().prop_map(Act::Retain),
        1 => Just(Act::Reopen),
    ]
}

/// The list of batches, with their offsets and epochs; those below the start too.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) start: i64,
    pub(super) batches: Vec<RecordBatch>,
    /// The leader epoch of the last batch, where that is gone and still known.
    pub(super) last_epoch: i32,
}

impl Model {
    pub(super) fn end(&self) -> i64 {
        self.batches.last().map_or(self.start, |b| b.header().next_offset().max(self.start))
    }

    /// The batches that can be read.
    pub(super) fn readable(&self) -> impl DoubleEndedIterator<Item = &RecordBatch> {
        self.batches.iter().filter(|b| b.header().last_offset() >= self.start)
    }

    /// Some offset of the log, from its start to its end.
    pub(super) fn some_offset(&self, number: usize) -> i64 {
        self.start + (number as i64 & i64::MAX) % (self.end() - self.start + 1)
    }

    pub(super) fn epoch(&self) -> i32 {
        self.batches.last().map_or(self.last_epoch, |b| b.header().leader_epoch)
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
        if offset >= self.end() {
            return;
        }
        if offset <= self.start {
            *self = Model { start: offset, ..Model::default() };
        } else {
            self.batches.retain(|b| b.header().next_offset() <= offset);
            // The batch that is gone began below the start.
            if self.batches.last().is_some_and(|b| b.header().next_offset() < self.start) {
                self.batches.clear();
            }
        }
    }

    /// What a read gives, by the definition.
    fn read(&self, from: i64, limits: ReadLimits) -> Vec<u8> {
        let mut bytes = Vec::new();
        for batch in self.readable().filter(|b| b.header().last_offset() >= from) {
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
        let first = self.readable().next()?.header();
        if first.leader_epoch > requested {
            return Some(EpochEnd { epoch: requested, end_offset: first.base_offset.max(self.start) });
        }
        let last = self.readable().map(RecordBatch::header).rfind(|h| h.leader_epoch <= requested)?;
        Some(EpochEnd { epoch: last.leader_epoch, end_offset: last.next_offset() })
    }

    fn for_timestamp(&self, timestamp_ms: i64) -> Option<(i64, i64)> {
        self.times().find(|(_, found_ms)| *found_ms >= timestamp_ms)
    }

    /// The offsets and timestamps of all records.
    fn times(&self) -> impl Iterator<Item = (i64, i64)> {
        let times = self.readable().flat_map(|batch| {
            let header = *batch.header();
            batch.records().unwrap().map(Result::unwrap).map(move |record| {
                let offset = header.base_offset + i64::from(record.offset_delta);
                (offset, header.base_timestamp + record.timestamp_delta)
            })
        });
        times.filter(|(offset, _)| *offset >= self.start)
    }

    fn newest(&self) -> Option<(i64, i64)> {
        self.times().max_by_key(|(offset, found_ms)| (*found_ms, -offset))
    }
}

/// Compares all that a log can be asked.
fn check(log: &PartitionLog, disk: &mut MemDisk, model: &Model, limits: ReadLimits, timestamp_ms: i64) {
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (model.start, model.end()));
    // Of a log whose records are all deleted, bytes may be left, and the epoch that they tell.
    if model.readable().next().is_some() {
        assert_eq!(log.last_leader_epoch(), model.batches.last().map(|b| b.header().leader_epoch));
        for epoch in 0..model.epoch() + 2 {
            assert_eq!(log.end_offset_for_epoch(epoch), model.end_of_epoch(epoch), "epoch {epoch}");
        }
    }
    for from in model.start..=model.end() {
        let limits = ReadLimits { below_offset: model.start + limits.below_offset, ..limits };
        assert_eq!(log.read(disk, from, limits).unwrap(), model.read(from, limits), "{from} {limits:?}");
    }
    let found = log.offset_for_timestamp(disk, timestamp_ms).unwrap();
    assert_eq!(found.map(|f| (f.offset, f.timestamp_ms)), model.for_timestamp(timestamp_ms));
    let newest = log.newest_record(disk).unwrap();
    assert_eq!(newest.map(|f| (f.offset, f.timestamp_ms)), model.newest());
    for (index, batch) in model.batches.iter().enumerate().filter(|(_, b)| b.header().has_producer()) {
        let header = batch.header();
        if header.last_offset() < model.start {
            continue;
        }
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
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

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
                    model = Model { start: i64::try_from(to % 100).unwrap(), ..Model::default() };
                    log.reset_to(&mut disk, model.start).unwrap();
                }
                Act::Start(to) => {
                    let start = model.some_offset(*to);
                    let moved = log.advance_start_to(&mut disk, start).unwrap();
                    prop_assert_eq!(moved, start > model.start);
                    model.start = start;
                }
                Act::Retain(above) => {
                    let high_watermark = model.some_offset(*above);
                    if let Some(start) = log.retain(&mut disk, 0, high_watermark).unwrap() {
                        prop_assert!(model.start < start && start <= high_watermark);
                        model.start = start;
                    }
                    // A segment that lies below the start goes with the next that does. Without the first of the others there
                    // would be less than is to be kept.
                    let below = log.segments.partition_point(|s| s.base_offset <= log.log_start_offset()) - 1;
                    let left = &log.segments[below..];
                    let committed = left.iter().filter(|s| s.base_offset < high_watermark).count();
                    let size_bytes: u64 = left.iter().map(|s| s.size_bytes).sum();
                    let is_enough = size_bytes < 900 + left[0].size_bytes;
                    prop_assert!(committed <= 1 || is_enough, "{size_bytes} bytes are left");
                }
                Act::Reopen => {
                    log.close(&mut disk);
                    let (opened, recovery) = PartitionLog::open(&mut disk, DIR, SMALL).unwrap();
                    log = opened;
                    let most = model.batches.len() as u64;
                    prop_assert!(recovery.batches <= most);
                    prop_assert_eq!(recovery.cut, None);
                }
            }
            prop_assert_eq!(log.is_dirty(), log.durable_end_offset() < log.log_end_offset());
            check(&log, &mut disk, &model, limits, timestamp_ms);

            // What is learned from the disk is what was kept up to date all along.
            let fresh = opened(&mut disk.clone(), SMALL);
            prop_assert_eq!(&fresh.epochs, &log.epochs);
            prop_assert_eq!(fresh.log_start_offset(), log.log_start_offset());
            if model.batches.iter().all(|b| b.header().base_offset >= model.start) {
                prop_assert_eq!(&fresh.producers, &log.producers);
            }
        }
        // A follower that starts over has the same in the end.
        follower.reset_to(&mut follower_disk, model.start).unwrap();
        while follower.log_end_offset() < log.log_end_offset() {
            let limits = ReadLimits { below_offset: i64::MAX, max_bytes: 300, at_least_one_batch: true };
            let fetched = log.read(&mut disk, follower.log_end_offset(), limits).unwrap();
            follower.append_as_follower(&mut follower_disk, fetched).unwrap();
        }
        check(&follower, &mut follower_disk, &model, limits, timestamp_ms);
        let again = opened(&mut follower_disk, SMALL);
        check(&again, &mut follower_disk, &model, limits, timestamp_ms);
    }
}
