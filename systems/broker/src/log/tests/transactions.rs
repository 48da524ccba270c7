//! Transactions in a log and in a plain list of what was appended are the same: up to where it is stable, what was
//! aborted, and what a consumer of committed records is given.

use super::*;
use crate::defect::DefectKind;
use proptest::prelude::*;
use riprap_protocol::records::{EndTxnMarker, TxnResult};
use std::collections::BTreeSet;

/// What happens to a log. Numbers are taken modulo what makes sense then.
#[derive(Clone, Debug)]
enum Act {
    Append { producer_id: i64, is_transactional: bool, count: usize },
    Marker { producer_id: i64, result: TxnResult, raises_epoch: bool },
    Commit(usize),
    Truncate(usize),
    Sync,
    Restart,
    PowerFail(Vec<Keep>),
}

fn act() -> impl Strategy<Value = Act> {
    let append = (0..4_i64, prop::bool::weighted(0.7), 1..4_usize);
    let result = prop_oneof![Just(TxnResult::Abort), Just(TxnResult::Commit)];
    let marker = (0..4_i64, result, prop::bool::weighted(0.2));
    let keep = prop_oneof![Just(Keep::Lost), (0..300_usize).prop_map(Keep::Torn), Just(Keep::Whole)];
    prop_oneof![
        8 => append.prop_map(|(producer_id, is_transactional, count)| Act::Append {
            producer_id,
            is_transactional,
            count
        }),
        4 => marker.prop_map(|(producer_id, result, raises_epoch)| Act::Marker {
            producer_id,
            result,
            raises_epoch
        }),
        3 => any::<usize>().prop_map(Act::Commit),
        1 => any::<usize>().prop_map(Act::Truncate),
        1 => Just(Act::Sync),
        1 => Just(Act::Restart),
        1 => prop::collection::vec(keep, 1..5).prop_map(Act::PowerFail),
    ]
}

/// A batch, by the definition.
#[derive(Clone, Copy, Debug)]
struct Entry {
    first: i64,
    next: i64,
    producer_id: i64,
    epoch: i16,
    sequence: i32,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Plain,
    Transactional,
    Marker(TxnResult),
}

#[derive(Clone, Debug, Default)]
struct Model {
    entries: Vec<Entry>,
    high_watermark: i64,
}

impl Model {
    fn end(&self) -> i64 {
        self.entries.last().map_or(0, |entry| entry.next)
    }

    fn truncate(&mut self, end: i64) {
        self.entries.retain(|entry| entry.next <= end);
        self.high_watermark = self.high_watermark.min(self.end());
    }

    /// The producer's epoch and next sequence number.
    fn next_of(&self, producer_id: i64) -> (i16, i32) {
        let own: Vec<&Entry> = self.entries.iter().filter(|e| e.producer_id == producer_id).collect();
        let epoch = own.last().map_or(0, |last| last.epoch);
        let mut of_epoch = own.iter().filter(|e| e.epoch == epoch && !matches!(e.kind, Kind::Marker(_)));
        let next = of_epoch
            .next_back()
            .map_or(0, |last| last.sequence + i32::try_from(last.next - last.first).unwrap());
        (epoch, next)
    }

    /// The marker that ends the transaction which an entry belongs to.
    fn marker_of(&self, index: usize) -> Option<&Entry> {
        let producer_id = self.entries[index].producer_id;
        self.entries[index..]
            .iter()
            .find(|e| e.producer_id == producer_id && matches!(e.kind, Kind::Marker(_)))
    }

    fn is_open(&self, producer_id: i64) -> bool {
        let last = self.entries.iter().rfind(|e| e.producer_id == producer_id && e.kind != Kind::Plain);
        last.is_some_and(|last| last.kind == Kind::Transactional)
    }

    /// The first offset of a transaction that has no committed marker, or else the high watermark.
    fn last_stable_offset(&self) -> i64 {
        let unstable = (0..self.entries.len()).find(|index| {
            self.entries[*index].kind == Kind::Transactional
                && self.marker_of(*index).is_none_or(|marker| marker.first >= self.high_watermark)
        });
        unstable.map_or(self.high_watermark, |index| self.entries[index].first.min(self.high_watermark))
    }

    /// Offsets that are stable and count.
    fn visible(&self) -> Vec<i64> {
        let stable = self.last_stable_offset();
        let mut visible = Vec::new();
        for (index, entry) in self.entries.iter().enumerate().filter(|(_, e)| e.next <= stable) {
            let counts = match entry.kind {
                Kind::Plain => true,
                Kind::Marker(_) => false,
                Kind::Transactional => {
                    self.marker_of(index).is_some_and(|marker| marker.kind == Kind::Marker(TxnResult::Commit))
                }
            };
            if counts {
                visible.extend(entry.first..entry.next);
            }
        }
        visible
    }

    /// Producer, first offset and marker of each aborted transaction, by marker.
    fn aborted(&self) -> Vec<(i64, i64, i64)> {
        let mut aborted = Vec::new();
        for (index, marker) in self.entries.iter().enumerate() {
            if marker.kind != Kind::Marker(TxnResult::Abort) {
                continue;
            }
            let own = self.entries[..index].iter().filter(|e| e.producer_id == marker.producer_id);
            let of_it = own.rev().take_while(|e| !matches!(e.kind, Kind::Marker(_)));
            if let Some(first) = of_it.filter(|e| e.kind == Kind::Transactional).last() {
                aborted.push((marker.producer_id, first.first, marker.first));
            }
        }
        aborted
    }
}

/// What a consumer of committed records is given, fetch by fetch, as KIP-98 has it read the answers.
fn consumed(log: &PartitionLog, disk: &mut MemDisk, from: i64, stable: i64, max_bytes: usize) -> Vec<i64> {
    let mut offset = from;
    let mut given = Vec::new();
    loop {
        let limits = ReadLimits { below_offset: stable, max_bytes, at_least_one_batch: true };
        let bytes = log.read(disk, offset, limits).unwrap();
        let batches: Vec<RecordBatch> = split_batches(bytes).map(Result::unwrap).collect();
        let Some(last) = batches.last() else { return given };
        let next = last.header().next_offset();
        let mut aborted = log.aborted_transactions(offset, next);
        aborted.sort_by_key(|transaction| transaction.first_offset);
        let mut aborted = aborted.into_iter().peekable();
        let mut left_out = BTreeSet::new();
        for batch in &batches {
            let header = batch.header();
            while let Some(begun) = aborted.next_if(|a| a.first_offset <= header.last_offset()) {
                left_out.insert(begun.producer_id);
            }
            if let Some(marker) = EndTxnMarker::of(batch) {
                if marker.result == TxnResult::Abort {
                    left_out.remove(&header.producer_id);
                }
            } else if !(header.is_transactional() && left_out.contains(&header.producer_id)) {
                given.extend(header.base_offset.max(offset)..header.next_offset());
            }
        }
        offset = next;
    }
}

fn check(log: &PartitionLog, disk: &mut MemDisk, model: &Model, max_bytes: usize) {
    let stable = model.last_stable_offset();
    assert_eq!(log.last_stable_offset(model.high_watermark), stable, "{model:?}");
    let aborted: Vec<_> = log
        .aborted_transactions(0, i64::MAX)
        .iter()
        .map(|a| (a.producer_id, a.first_offset, a.marker_offset))
        .collect();
    assert_eq!(aborted, model.aborted(), "{model:?}");
    for producer_id in 0..4 {
        let (epoch, _) = model.next_of(producer_id);
        assert_eq!(log.open_transaction(producer_id, epoch).is_some(), model.is_open(producer_id));
    }
    let visible = model.visible();
    for from in 0..=stable {
        let expect: Vec<i64> = visible.iter().copied().filter(|offset| *offset >= from).collect();
        assert_eq!(consumed(log, disk, from, stable, max_bytes), expect, "from {from}: {model:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn transactions_are_what_the_list_of_batches_says(
        acts in prop::collection::vec(act(), 1..30),
        max_bytes in 0..600_usize,
    ) {
        let mut disk = MemDisk::new();
        let mut log = opened(&mut disk, SMALL);
        let mut model = Model::default();
        for act in acts {
            match act {
                Act::Append { producer_id, is_transactional, count } => {
                    let (epoch, sequence) = model.next_of(producer_id);
                    let is_transactional = is_transactional || model.is_open(producer_id);
                    let made = batch(count, 0).producer(producer_id, epoch, sequence);
                    let made = if is_transactional { made.transactional() } else { made };
                    let header = BatchHeader::parse(&made.clone().build()).unwrap();
                    prop_assert_eq!(log.check_producer(&header), ProducerCheck::New);
                    let done = appended(&mut log, &mut disk, made, 0);
                    let kind = if is_transactional { Kind::Transactional } else { Kind::Plain };
                    let (first, next) = (done.first_offset, done.last_offset + 1);
                    model.entries.push(Entry { first, next, producer_id, epoch, sequence, kind });
                }
                Act::Marker { producer_id, result, raises_epoch } => {
                    let (epoch, _) = model.next_of(producer_id);
                    let epoch = epoch + i16::from(raises_epoch);
                    prop_assert_eq!(log.check_marker(producer_id, epoch, 3), MarkerCheck::Right);
                    let marker = EndTxnMarker { result, coordinator_epoch: 3 };
                    let done = appended(&mut log, &mut disk, marker.to_batch(producer_id, epoch, 0), 0);
                    let (first, next) = (done.first_offset, done.last_offset + 1);
                    let kind = Kind::Marker(result);
                    model.entries.push(Entry { first, next, producer_id, epoch, sequence: -1, kind });
                }
                Act::Commit(by) => {
                    // High watermarks are where batches end.
                    let ends: Vec<i64> =
                        model.entries.iter().map(|e| e.next).filter(|end| *end > model.high_watermark).collect();
                    if !ends.is_empty() {
                        model.high_watermark = ends[by % ends.len()];
                        log.note_high_watermark(model.high_watermark);
                    }
                }
                Act::Truncate(by) => {
                    let uncommitted = usize::try_from(model.end() - model.high_watermark).unwrap();
                    let to = model.high_watermark + i64::try_from(by % (uncommitted + 1)).unwrap();
                    model.truncate(to);
                    prop_assert_eq!(log.truncate_to(&mut disk, to).unwrap(), model.end());
                }
                Act::Sync => log.sync(&mut disk).unwrap(),
                Act::Restart => {
                    log.close(&mut disk);
                    log = opened(&mut disk, SMALL);
                }
                Act::PowerFail(keeps) => {
                    let mut keeps = keeps.iter().cycle();
                    disk.power_fail(|_| *keeps.next().expect("a cycle does not end"));
                    log = opened(&mut disk, SMALL);
                    let end = log.log_end_offset();
                    prop_assert!(end <= model.end());
                    model.truncate(end);
                }
            }
            check(&log, &mut disk, &model, max_bytes);
        }
    }
}

/// In the log: a transaction of producer 1 in epoch 4, from offset 0, then whatever the case appends.
fn with_open() -> (PartitionLog, MemDisk) {
    let mut disk = MemDisk::new();
    let mut log = opened(&mut disk, SMALL);
    appended(&mut log, &mut disk, batch(2, 0).producer(1, 4, 0).transactional(), 0);
    (log, disk)
}

#[test]
fn a_marker_ends_a_transaction_under_a_raised_epoch_and_fences_the_old_one() {
    let (mut log, mut disk) = with_open();
    assert_eq!((log.open_transaction(1, 4), log.open_transaction(1, 5)), (Some(0), None));
    let marker = EndTxnMarker { result: TxnResult::Abort, coordinator_epoch: 7 };
    assert_eq!(log.check_marker(1, 3, 7), MarkerCheck::InvalidEpoch { current: 4 });
    assert_eq!(log.check_marker(1, 5, 7), MarkerCheck::Right);
    appended(&mut log, &mut disk, marker.to_batch(1, 5, 0), 0);
    assert_eq!((log.last_stable_offset(2), log.last_stable_offset(3)), (0, 3));
    assert_eq!(log.aborted_transactions(0, 3).len(), 1);

    // Sent again by a coordinator that did not hear, or by its successor; not by its predecessor.
    assert_eq!(log.check_marker(1, 5, 7), MarkerCheck::Right);
    assert_eq!(log.check_marker(1, 5, 8), MarkerCheck::Right);
    assert_eq!(log.check_marker(1, 5, 6), MarkerCheck::CoordinatorFenced { current: 7 });
    assert_eq!(log.check_marker(1, 4, 7), MarkerCheck::InvalidEpoch { current: 5 });
    appended(&mut log, &mut disk, marker.to_batch(1, 5, 0), 0);
    assert_eq!(log.aborted_transactions(0, 4).len(), 1, "a marker without a transaction aborts nothing");

    let check = |epoch, sequence, expect| {
        let sent = batch(1, 0).producer(1, epoch, sequence).transactional().build();
        let header = BatchHeader::parse(&sent).unwrap();
        assert_eq!(log.check_producer(&header), expect, "epoch {epoch} sequence {sequence}");
    };
    check(4, 2, ProducerCheck::InvalidEpoch { current: 5, got: 4 });
    check(5, 0, ProducerCheck::New);
    check(5, 2, ProducerCheck::OutOfOrder { expected: 0, got: 2 });
}

#[test]
fn planted_numbers_of_an_aborted_transaction_are_taken_for_those_of_the_next() {
    let duplicate = ProducerCheck::Duplicate { first_offset: 0, last_offset: 1, max_timestamp: 1 };
    for (defect, result, expect) in [
        (None, TxnResult::Abort, ProducerCheck::New),
        (Some(DefectKind::SeqReuseAfterAbort), TxnResult::Abort, duplicate),
        (Some(DefectKind::SeqReuseAfterAbort), TxnResult::Commit, ProducerCheck::New),
    ] {
        let (mut log, mut disk) = with_open();
        log.set_config(LogConfig { defect, ..SMALL });
        let marker = EndTxnMarker { result, coordinator_epoch: 0 };
        appended(&mut log, &mut disk, marker.to_batch(1, 5, 0), 0);
        let next = batch(2, 0).producer(1, 5, 0).transactional().build();
        assert_eq!(log.check_producer(&BatchHeader::parse(&next).unwrap()), expect, "{defect:?} {result:?}");
    }
}

#[test]
fn sequences_go_on_after_a_marker_of_the_same_epoch() {
    let (mut log, mut disk) = with_open();
    let plain = |sequence| BatchHeader::parse(&batch(1, 0).producer(1, 4, sequence).build()).unwrap();
    assert_eq!(log.check_producer(&plain(2)), ProducerCheck::NotTransactional);
    let marker = EndTxnMarker { result: TxnResult::Commit, coordinator_epoch: 0 };
    appended(&mut log, &mut disk, marker.to_batch(1, 4, 0), 0);
    assert_eq!(log.check_producer(&plain(2)), ProducerCheck::New);
    assert_eq!(log.check_producer(&plain(0)), ProducerCheck::OutOfOrder { expected: 2, got: 0 });
}

#[test]
fn what_is_neither_a_producer_s_nor_a_marker_is_refused() {
    let mut disk = MemDisk::new();
    let mut log = opened(&mut disk, SMALL);
    let mut check = |made: BatchBuilder, producer_id| {
        let refused = Err(AppendError::Transaction { producer_id });
        assert_eq!(log.append_as_leader(&mut disk, made.build(), 0, 0), refused);
    };
    check(batch(1, 0).transactional(), -1);
    check(batch(1, 0).control(), -1);
    check(batch(1, 0).producer(1, 0, 0).control(), 1);
    check(batch(1, 0).producer(1, 0, 0).transactional().control(), 1);
}

#[test]
fn an_open_transaction_outlives_ten_thousand_producers() {
    let (mut log, mut disk) = with_open();
    for producer_id in 10..10_020 {
        appended(&mut log, &mut disk, batch(1, 0).producer(producer_id, 0, 0), 0);
    }
    assert_eq!(log.last_stable_offset(log.log_end_offset()), 0);
    let known = BatchHeader::parse(&batch(1, 0).producer(10, 0, 0).build()).unwrap();
    assert_eq!(log.check_producer(&known), ProducerCheck::New, "the oldest idle one is forgotten");
}

#[test]
fn what_a_coordinator_writes_for_a_producer_is_in_its_transaction_and_not_in_its_sequence() {
    let (mut log, mut disk) = with_open();
    let offsets = |epoch| batch(1, 0).producer(9, epoch, -1).transactional();
    let check =
        |log: &PartitionLog, epoch| log.check_producer(&BatchHeader::parse(&offsets(epoch).build()).unwrap());
    assert_eq!(check(&log, 2), ProducerCheck::New);
    for _ in 0..2 {
        appended(&mut log, &mut disk, offsets(2), 0);
        assert_eq!(check(&log, 2), ProducerCheck::New);
    }
    assert_eq!(check(&log, 1), ProducerCheck::InvalidEpoch { current: 2, got: 1 });
    assert_eq!(log.open_transaction(9, 2), Some(2));
    let first = BatchHeader::parse(&batch(1, 0).producer(9, 2, 0).transactional().build()).unwrap();
    assert_eq!(log.check_producer(&first), ProducerCheck::New);
}
