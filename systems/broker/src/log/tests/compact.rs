//! A compacted log says of every key, producer, offset and epoch what the whole one did.

use super::*;
use proptest::prelude::*;
use riprap_env::{Keep, Unsynced};
use riprap_protocol::records::{BatchBuilder, TxnResult};
use std::collections::{BTreeMap, BTreeSet};

const COMPACT: LogConfig = LogConfig {
    segment_bytes: 500,
    cleanup: Cleanup { delete: false, compact: true },
    retention_bytes: None,
    ..SMALL
};

/// Units: milliseconds. Long past all marks.
const LATER_MS: i64 = 1_000_000;

/// Compacts until there is nothing to do, a few batches a step.
fn compacted(log: &mut PartitionLog, disk: &mut dyn Disk, now_ms: i64, high_watermark: i64) {
    while log.compact(disk, now_ms, high_watermark, 200).expect("the log is whole") != Compaction::Idle {}
}

/// What is in a log: of each batch its offsets and, if it has a key, each record's offset, key and value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct View {
    /// By offset.
    records: BTreeMap<i64, (Option<Bytes>, Option<Bytes>)>,
    /// By producer, where its aborted transactions are.
    aborted: Vec<(i64, i64, i64)>,
    markers: BTreeSet<i64>,
    producers: BTreeMap<i64, i64>,
}

/// Reads as a consumer of committed records does that also sees those of aborted transactions, and markers.
fn view(log: &PartitionLog, disk: &mut dyn Disk) -> View {
    let mut view = View::default();
    let mut offset = log.log_start_offset();
    let mut open: BTreeMap<i64, i64> = BTreeMap::new();
    while offset < log.log_end_offset() {
        let limits = ReadLimits { below_offset: i64::MAX, max_bytes: 300, at_least_one_batch: true };
        let bytes = log.read(disk, offset, limits).expect("every offset can be read");
        for batch in split_batches(bytes) {
            let batch = batch.expect("whole batches");
            let header = batch.header();
            assert!(header.base_offset <= offset && offset <= header.last_offset(), "no gaps");
            offset = header.next_offset();
            if let Some(marker) = EndTxnMarker::of(&batch) {
                view.markers.insert(header.base_offset);
                if let (Some(first), TxnResult::Abort) = (open.remove(&header.producer_id), marker.result) {
                    view.aborted.push((header.producer_id, first, header.base_offset));
                }
                continue;
            }
            if header.is_transactional() {
                open.entry(header.producer_id).or_insert(header.base_offset);
            }
            for record in batch.records().expect("not compressed").map(|record| record.expect("readable")) {
                let at = header.base_offset + i64::from(record.offset_delta);
                if at >= log.log_start_offset() {
                    view.records.insert(at, (record.key, record.value));
                    view.producers.insert(at, header.producer_id);
                }
            }
        }
    }
    view
}

impl View {
    fn counts(&self, offset: i64) -> bool {
        let producer_id = self.producers[&offset];
        let is_of =
            |(id, first, marker): &(i64, i64, i64)| *id == producer_id && (*first..*marker).contains(&offset);
        !self.aborted.iter().any(is_of)
    }

    /// The last value of each key, as a coordinator or a table would have it.
    fn table(&self, below: i64) -> BTreeMap<Bytes, Bytes> {
        let mut table = BTreeMap::new();
        for (offset, (key, value)) in self.records.range(..below).filter(|(offset, _)| self.counts(**offset))
        {
            match (key.clone().expect("compacted logs have keys"), value.clone()) {
                (key, Some(value)) => table.insert(key, (value, *offset)),
                (key, None) => table.remove(&key),
            };
        }
        table.into_iter().map(|(key, (value, _))| (key, value)).collect()
    }
}

fn record(key: &str, value: Option<&str>) -> BatchBuilder {
    BatchBuilder::new().record(1000, Some(key.as_bytes()), value.map(str::as_bytes))
}

/// Appends a batch for each word: `a1` sets key a, `a-` removes it; words joined by `,` are one batch.
fn say(log: &mut PartitionLog, disk: &mut dyn Disk, words: &str, epoch: i32) {
    for batch in words.split_whitespace() {
        let builder = batch.split(',').fold(BatchBuilder::new(), |builder, word| {
            let value = Some(&word[1..]).filter(|value| *value != "-").map(str::as_bytes);
            builder.record(1000, Some(&word.as_bytes()[..1]), value)
        });
        appended(log, disk, builder, epoch);
    }
}

/// What is left, a word for each record, with its offset; `_` is a batch without records, with its offsets.
fn left(log: &PartitionLog, disk: &mut dyn Disk) -> String {
    let mut words = Vec::new();
    for batch in contents(log, disk) {
        let header = batch.header();
        if header.record_count == 0 {
            words.push(format!("_{}-{}", header.base_offset, header.last_offset()));
        }
        for record in batch.records().unwrap().map(Result::unwrap) {
            let at = header.base_offset + i64::from(record.offset_delta);
            let text = |bytes: Option<Bytes>| {
                bytes.map_or("-".to_owned(), |bytes| String::from_utf8(bytes.to_vec()).expect("letters"))
            };
            let kind =
                if header.is_control() { "!".to_owned() } else { text(record.key) + &text(record.value) };
            words.push(format!("{at}{kind}"));
        }
    }
    words.join(" ")
}

/// A segment a batch, so that all but the last can be compacted.
fn one_by_one() -> (PartitionLog, MemDisk) {
    let mut disk = MemDisk::new();
    let log = opened(&mut disk, LogConfig { segment_bytes: 1, ..COMPACT });
    (log, disk)
}

#[test]
fn the_last_record_of_a_key_stays() {
    let check = |words: &str, high_watermark: i64, expect: &str| {
        let (mut log, mut disk) = one_by_one();
        say(&mut log, &mut disk, words, 0);
        log.sync(&mut disk).unwrap();
        let config = LogConfig { segment_bytes: 10_000, ..COMPACT };
        log.set_config(config);
        compacted(&mut log, &mut disk, 1000, high_watermark);
        assert_eq!(left(&log, &mut disk), expect, "{words}");
        log.close(&mut disk);
        let log = opened(&mut disk, config);
        assert_eq!(left(&log, &mut disk), expect, "{words}");
    };
    check("a1 b1 a2 c1", 4, "_0-0 1b1 2a2 3c1");
    check("a1 a2 a3 b1 x0", 5, "_0-1 2a3 3b1 4x0");
    check("a1,b1 a2,c1 x0", 5, "1b1 2a2 3c1 4x0");
    check("a1 a2 a3", 3, "_0-0 1a2 2a3");
    // What is not committed neither goes nor makes anything go.
    check("a1 a2 a3 x0", 4, "_0-1 2a3 3x0");
    check("a1 a2 a3 x0", 2, "_0-0 1a2 2a3 3x0");
    check("a1 a2 a3 x0", 1, "0a1 1a2 2a3 3x0");
    // A record without a value is there for a while.
    check("a1 a- b1 x0", 4, "_0-0 1a- 2b1 3x0");
    check("a- a1 x0", 3, "_0-0 1a1 2x0");
}

#[test]
fn what_removes_a_key_goes_later() {
    let (mut log, mut disk) = one_by_one();
    log.set_config(LogConfig { segment_bytes: 1, delete_retention_ms: 100, ..COMPACT });
    let mut at = |now_ms, words: &str, expect: &str| {
        say(&mut log, &mut disk, words, 0);
        log.sync(&mut disk).unwrap();
        let end = log.log_end_offset();
        compacted(&mut log, &mut disk, now_ms, end);
        assert_eq!(left(&log, &mut disk), expect, "at {now_ms}");
        log = opened(&mut disk, *log.config());
    };
    at(1000, "a1 a- b1 x0", "_0-0 1a- 2b1 3x0");
    at(1099, "b2 x1", "_0-0 1a- _2-2 3x0 4b2 5x1");
    at(1100, "b3 x2", "_0-0 _1-1 _2-2 _3-3 _4-4 5x1 6b3 7x2");
    // A later one waits as long for itself.
    at(1150, "b- x3", "_0-0 _1-1 _2-2 _3-3 _4-4 _5-5 _6-6 7x2 8b- 9x3");
    at(1249, "x4", "_0-0 _1-1 _2-2 _3-3 _4-4 _5-5 _6-6 _7-7 8b- 9x3 10x4");
    at(1250, "x5", "_0-0 _1-1 _2-2 _3-3 _4-4 _5-5 _6-6 _7-7 _8-8 _9-9 10x4 11x5");
}

#[test]
fn epochs_are_told_apart_where_nothing_is_left() {
    let (mut log, mut disk) = one_by_one();
    for epoch in [1, 1, 2, 4, 4, 4] {
        say(&mut log, &mut disk, "a1", epoch);
    }
    log.sync(&mut disk).unwrap();
    log.set_config(LogConfig { segment_bytes: 10_000, ..COMPACT });
    let before = log.epochs.clone();
    compacted(&mut log, &mut disk, 1000, 6);
    assert_eq!(left(&log, &mut disk), "_0-1 _2-2 _3-3 4a1 5a1");
    assert_eq!(log.epochs, before);
    assert_eq!(opened(&mut disk, COMPACT).epochs, before);
    // A copy that ends within what is gone here goes on exactly there.
    for end in 0..6 {
        let mut follower_disk = MemDisk::new();
        let mut follower = opened(&mut follower_disk, COMPACT);
        for (offset, epoch) in (0..end).zip([1, 1, 2, 4, 4, 4]) {
            let batch = record("a", Some("1")).appended(offset, epoch).build();
            follower.append_as_follower(&mut follower_disk, batch).unwrap();
        }
        let fetched = log.read(&mut disk, end, ALL).unwrap();
        follower.append_as_follower(&mut follower_disk, fetched).unwrap();
        assert_eq!((follower.log_end_offset(), &follower.epochs), (6, &before), "from {end}");
    }
}

#[test]
fn a_producer_is_known_though_its_records_are_gone() {
    let (mut log, mut disk) = one_by_one();
    for sequence in 0..7 {
        appended(&mut log, &mut disk, record("a", Some("1")).producer(7, 0, sequence), 0);
    }
    say(&mut log, &mut disk, "a2 x0", 0);
    log.sync(&mut disk).unwrap();
    log.set_config(LogConfig { segment_bytes: 10_000, ..COMPACT });
    let end = log.log_end_offset();
    compacted(&mut log, &mut disk, 1000, end);
    // The five batches that a retry may repeat, and nothing of the others.
    assert_eq!(left(&log, &mut disk), "_0-1 _2-2 _3-3 _4-4 _5-5 _6-6 7a2 8x0");
    let again = opened(&mut disk, COMPACT);
    assert_eq!(again.producers, log.producers);
    // When it has begun anew, they go too.
    log.set_config(LogConfig { segment_bytes: 1, ..COMPACT });
    appended(&mut log, &mut disk, record("a", Some("1")).producer(7, 1, 0), 0);
    say(&mut log, &mut disk, "x1", 0);
    log.sync(&mut disk).unwrap();
    log.set_config(LogConfig { segment_bytes: 10_000, ..COMPACT });
    compacted(&mut log, &mut disk, 1000, 11);
    assert_eq!(left(&log, &mut disk), "_0-7 8x0 9a1 10x1");
}

#[test]
fn aborted_records_go_and_markers_follow() {
    let (mut log, mut disk) = one_by_one();
    log.set_config(LogConfig { segment_bytes: 1, delete_retention_ms: 100, ..COMPACT });
    let marker = |result| EndTxnMarker { result, coordinator_epoch: 1 };
    let txn = |key, sequence| record(key, Some("1")).producer(7, 0, sequence).transactional();
    let end_with = |log: &mut PartitionLog, disk: &mut MemDisk, result| {
        appended(log, disk, marker(result).to_batch(7, 0, 1000), 0);
    };
    say(&mut log, &mut disk, "a0", 0);
    appended(&mut log, &mut disk, txn("a", 0), 0);
    end_with(&mut log, &mut disk, TxnResult::Abort);
    appended(&mut log, &mut disk, txn("b", 1), 0);
    end_with(&mut log, &mut disk, TxnResult::Commit);
    for sequence in 2..7 {
        appended(&mut log, &mut disk, txn("c", sequence), 0);
    }
    end_with(&mut log, &mut disk, TxnResult::Commit);
    say(&mut log, &mut disk, "x0", 0);
    log.sync(&mut disk).unwrap();
    assert_eq!(log.aborted_transactions(0, 12).len(), 1);
    compacted(&mut log, &mut disk, 1000, 12);
    // The aborted record of a neither counts nor is left, and the marker stays for a while.
    let kept = "_5-5 _6-6 _7-7 _8-8 9c1 10!";
    assert_eq!(left(&log, &mut disk), format!("0a0 _1-1 2! 3b1 4! {kept} 11x0"));
    say(&mut log, &mut disk, "x1", 0);
    log.sync(&mut disk).unwrap();
    compacted(&mut log, &mut disk, 1100, 13);
    assert_eq!(left(&log, &mut disk), format!("0a0 _1-1 _2-2 3b1 4! {kept} 11x0 12x1"));
    assert_eq!(log.aborted_transactions(0, 13), []);
    assert_eq!(log.last_stable_offset(13), 13);
    let mut again = opened(&mut disk, COMPACT);
    again.note_high_watermark(13);
    assert_eq!((&again.producers, again.last_stable_offset(13)), (&log.producers, 13));

    // What may still be aborted is let be, and so is all behind it.
    let (mut log, mut disk) = one_by_one();
    say(&mut log, &mut disk, "a0 a1", 0);
    appended(&mut log, &mut disk, txn("a", 0), 0);
    say(&mut log, &mut disk, "a2 a3 x0", 0);
    log.sync(&mut disk).unwrap();
    compacted(&mut log, &mut disk, 1000, 6);
    assert_eq!(left(&log, &mut disk), "_0-0 1a1 2a1 3a2 4a3 5x0");
}

#[test]
fn compressed_records_stay_and_hold_back_what_removes_keys() {
    let (mut log, mut disk) = one_by_one();
    log.set_config(LogConfig { segment_bytes: 1, delete_retention_ms: 0, ..COMPACT });
    say(&mut log, &mut disk, "a- b1", 0);
    // The bits of a codec, and a checksum that is right for them: nobody looks into the records.
    let mut zipped = record("a", Some("1")).build().to_vec();
    zipped[22] |= 1;
    let crc = crc32c::crc32c(&zipped[21..]);
    zipped[17..21].copy_from_slice(&crc.to_be_bytes());
    log.append_as_leader(&mut disk, zipped.into(), 0, 0).unwrap();
    say(&mut log, &mut disk, "a- b2 x0 x1", 0);
    log.sync(&mut disk).unwrap();
    for now_ms in [1000, 2000] {
        compacted(&mut log, &mut disk, now_ms, 7);
        say(&mut log, &mut disk, "y0", 0);
        log.sync(&mut disk).unwrap();
    }
    let kept: Vec<(i64, i32)> =
        contents(&log, &mut disk).iter().map(|b| (b.header().base_offset, b.header().record_count)).collect();
    assert_eq!(kept, [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1), (5, 0), (6, 1), (7, 1), (8, 1)]);
}

#[test]
fn keys_are_needed_where_they_decide() {
    let (mut log, mut disk) = one_by_one();
    let batch = BatchBuilder::new().record(0, Some(b"k"), None).record(0, None, Some(b"v")).build();
    assert_eq!(log.append_as_leader(&mut disk, batch.clone(), 0, 0), Err(AppendError::NoKey));
    log.set_config(SMALL);
    log.append_as_leader(&mut disk, batch, 0, 0).unwrap();
    // A topic that was made so later: what has no key counts for nothing.
    log.set_config(LogConfig { segment_bytes: 1, ..COMPACT });
    say(&mut log, &mut disk, "x0", 0);
    log.sync(&mut disk).unwrap();
    compacted(&mut log, &mut disk, 1000, 3);
    assert_eq!(left(&log, &mut disk), "0k- 2x0");
}

#[test]
fn a_log_is_compacted_when_it_is_worth_while() {
    let check = |config: LogConfig, now_ms, expect: [bool; 2]| {
        let (mut log, mut disk) = one_by_one();
        say(&mut log, &mut disk, "a1 b1 c1 d1 e1 f1 g1 h1", 0);
        log.sync(&mut disk).unwrap();
        log.set_config(config);
        let first = log.wants_compaction(now_ms, 8);
        log.set_config(LogConfig { segment_bytes: 1, ..COMPACT });
        compacted(&mut log, &mut disk, 1000, 8);
        say(&mut log, &mut disk, "x0 y0", 0);
        log.set_config(config);
        assert_eq!([first, log.wants_compaction(now_ms, 10)], expect, "{config:?}");
    };
    check(COMPACT, 1000, [true, true]);
    check(LogConfig { min_dirty_percent: 50, ..COMPACT }, 1000, [true, false]);
    check(LogConfig { min_dirty_percent: 20, ..COMPACT }, 1000, [true, true]);
    check(LogConfig { min_dirty_percent: 50, max_compaction_lag_ms: 9, ..COMPACT }, 1010, [true, true]);
    check(LogConfig { min_compaction_lag_ms: 10, ..COMPACT }, 1009, [false, false]);
    check(LogConfig { min_compaction_lag_ms: 10, ..COMPACT }, 1010, [true, true]);
    check(SMALL, 1000, [false, false]);
}

/// What happens to a log. Numbers are taken modulo what makes sense then.
#[derive(Clone, Debug)]
enum Act {
    /// Keys and whether there is a value, of one batch.
    Append {
        producer: Option<(i64, bool)>,
        records: Vec<(u8, bool)>,
        epoch_step: i32,
    },
    Marker {
        producer_id: i64,
        result: TxnResult,
    },
    /// A step of compaction, so long after the last act.
    Compact {
        wait_ms: i64,
        bytes: u64,
    },
    Start(usize),
    Truncate(usize),
    Reopen,
}

fn act() -> impl Strategy<Value = Act> {
    let records = prop::collection::vec((0..5_u8, prop::bool::weighted(0.7)), 1..4);
    let producer = prop::option::of((0..3_i64, any::<bool>()));
    let epoch_step = prop_oneof![6 => Just(0), 1 => Just(1)];
    let result = prop_oneof![Just(TxnResult::Abort), Just(TxnResult::Commit)];
    prop_oneof![
        10 => (producer, records, epoch_step)
            .prop_map(|(producer, records, epoch_step)| Act::Append { producer, records, epoch_step }),
        4 => (0..3_i64, result).prop_map(|(producer_id, result)| Act::Marker { producer_id, result }),
        6 => (0..700_i64, 50..1500_u64).prop_map(|(wait_ms, bytes)| Act::Compact { wait_ms, bytes }),
        1 => any::<usize>().prop_map(Act::Start),
        1 => any::<usize>().prop_map(Act::Truncate),
        1 => Just(Act::Reopen),
    ]
}

/// The whole log, and what was done to it.
struct Shadow {
    log: PartitionLog,
    disk: MemDisk,
    sequences: BTreeMap<i64, i32>,
    /// By producer, where each of its batches began and the sequence number after it: a log knows them though they are
    /// deleted.
    sent: BTreeMap<i64, Vec<(i64, i32)>>,
    values: u64,
    now_ms: i64,
    high_watermark: i64,
}

impl Shadow {
    fn new() -> Shadow {
        let mut disk = MemDisk::new();
        let log =
            opened(&mut disk, LogConfig { cleanup: Cleanup { delete: false, compact: false }, ..COMPACT });
        let (sequences, values, now_ms, high_watermark) = (BTreeMap::new(), 0, 1000, 0);
        Shadow { log, disk, sequences, sent: BTreeMap::new(), values, now_ms, high_watermark }
    }

    fn made(&mut self, act: &Act) -> Option<(Bytes, i32)> {
        let last_epoch = self.log.last_leader_epoch().unwrap_or(0);
        match act {
            Act::Append { producer, records, epoch_step } => {
                let mut builder = BatchBuilder::new();
                for (key, has_value) in records {
                    self.values += 1;
                    let value = self.values.to_string();
                    builder =
                        builder.record(self.now_ms, Some(&[*key]), has_value.then_some(value.as_bytes()));
                }
                if let Some((producer_id, is_transactional)) = producer {
                    let is_open = self.log.open_transaction(*producer_id, 0).is_some();
                    let sequence = self.sequences.entry(*producer_id).or_default();
                    builder = builder.producer(*producer_id, 0, *sequence);
                    *sequence += i32::try_from(records.len()).unwrap();
                    let sent = self.sent.entry(*producer_id).or_default();
                    sent.push((self.log.log_end_offset(), *sequence));
                    if *is_transactional || is_open {
                        builder = builder.transactional();
                    }
                }
                Some((builder.build(), last_epoch + epoch_step))
            }
            Act::Marker { producer_id, result } => {
                let marker = EndTxnMarker { result: *result, coordinator_epoch: 1 };
                Some((marker.to_batch(*producer_id, 0, self.now_ms).build(), last_epoch))
            }
            _ => None,
        }
    }

    fn append(&mut self, bytes: Bytes, epoch: i32) {
        self.log.append_as_leader(&mut self.disk, bytes, epoch, 0).expect("it is right");
    }
}

/// Holds a compacted log against the whole one.
fn check(log: &PartitionLog, disk: &mut MemDisk, shadow: &mut Shadow) {
    assert_eq!(log.log_end_offset(), shadow.log.log_end_offset());
    assert_eq!(log.log_start_offset(), shadow.log.log_start_offset());
    // Of a log whose records are all deleted, bytes may be left, and the epoch that they tell.
    if log.log_start_offset() < log.log_end_offset() {
        assert_eq!(log.epochs, shadow.log.epochs);
    }
    let (found, whole) = (view(log, disk), view(&shadow.log, &mut shadow.disk));
    for (offset, record) in &found.records {
        assert_eq!(Some(record), whole.records.get(offset), "a record stays at its offset");
    }
    let stable = shadow.log.last_stable_offset(shadow.high_watermark);
    assert_eq!(log.last_stable_offset(shadow.high_watermark), stable);
    assert_eq!(found.table(stable), whole.table(stable));
    assert_eq!(found.table(i64::MAX), whole.table(i64::MAX));
    // What a consumer of committed records is told to leave out, it would find in the whole log too; and of what it is
    // given, all that was aborted is among that.
    for (offset, producer_id) in found.producers.range(..stable) {
        let told = log.aborted_transactions(*offset, *offset + 1);
        let is_told = told.iter().any(|t| t.producer_id == *producer_id && t.first_offset <= *offset);
        let is_aborted = !whole.counts(*offset);
        assert_eq!(is_told, is_aborted, "{offset}: {told:?}");
    }
    // A transaction that a consumer is told of ends where it can see it.
    for told in log.aborted_transactions(log.log_start_offset(), i64::MAX) {
        assert!(found.markers.contains(&told.marker_offset), "{told:?} has no end");
    }
    let all = contents(&shadow.log, &mut shadow.disk);
    for (id, sequence) in &shadow.sequences {
        // Of one whose batches are all deleted, a copy that begins now knows nothing.
        if !all.iter().any(|batch| batch.header().producer_id == *id && !batch.header().is_control()) {
            continue;
        }
        let next = record("k", None).producer(*id, 0, *sequence).build();
        let header = BatchHeader::parse(&next).unwrap();
        let is_new = |check| matches!(check, ProducerCheck::New | ProducerCheck::NotTransactional);
        assert!(is_new(log.check_producer(&header)), "producer {id} is at {sequence}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_compacted_log_says_what_the_whole_one_does(acts in prop::collection::vec(act(), 1..60)) {
        let mut disk = MemDisk::new();
        let mut log = opened(&mut disk, COMPACT);
        let mut shadow = Shadow::new();
        for act in &acts {
            if let Some((bytes, epoch)) = shadow.made(act) {
                log.append_as_leader(&mut disk, bytes.clone(), epoch, 0).unwrap();
                log.sync(&mut disk).unwrap();
                shadow.append(bytes, epoch);
            }
            match act {
                Act::Append { .. } | Act::Marker { .. } => {}
                Act::Compact { wait_ms, bytes } => {
                    shadow.now_ms += wait_ms;
                    // Now all is committed that there is.
                    shadow.high_watermark = log.log_end_offset();
                    log.note_high_watermark(shadow.high_watermark);
                    shadow.log.note_high_watermark(shadow.high_watermark);
                    log.compact(&mut disk, shadow.now_ms, shadow.high_watermark, *bytes).unwrap();
                }
                Act::Start(to) => {
                    let (from, to) = (log.log_start_offset(), *to as i64 & i64::MAX);
                    // Of a transaction that is open and all deleted, a copy that begins now knows nothing.
                    let stable = shadow.log.last_stable_offset(shadow.high_watermark).max(from);
                    let start = from + to % (stable - from + 1);
                    log.advance_start_to(&mut disk, start).unwrap();
                    shadow.log.advance_start_to(&mut shadow.disk, start).unwrap();
                }
                // What is committed is not truncated.
                Act::Truncate(to) => {
                    let (from, end) = (shadow.high_watermark, log.log_end_offset());
                    let to = from + (*to as i64 & i64::MAX) % (end - from + 1);
                    if to > log.log_start_offset() {
                        log.truncate_to(&mut disk, to).unwrap();
                        shadow.log.truncate_to(&mut shadow.disk, to).unwrap();
                        let end = shadow.log.log_end_offset();
                        for (id, sequence) in &mut shadow.sequences {
                            let sent = shadow.sent.entry(*id).or_default();
                            sent.retain(|(offset, _)| *offset < end);
                            *sequence = sent.last().map_or(0, |(_, next)| *next);
                        }
                    }
                }
                Act::Reopen => {
                    log.close(&mut disk);
                    log = opened(&mut disk, COMPACT);
                    log.note_high_watermark(shadow.high_watermark);
                }
            }
            check(&log, &mut disk, &mut shadow);
        }
        let mut again = opened(&mut disk.clone(), COMPACT);
        again.note_high_watermark(shadow.high_watermark);
        prop_assert_eq!(&again.epochs, &log.epochs);
        // A copy that reads all of it is the same.
        let mut follower_disk = MemDisk::new();
        let mut follower = opened(&mut follower_disk, COMPACT);
        follower.reset_to(&mut follower_disk, log.log_start_offset()).unwrap();
        while follower.log_end_offset() < log.log_end_offset() {
            let limits = ReadLimits { max_bytes: 300, ..ALL };
            let fetched = log.read(&mut disk, follower.log_end_offset(), limits).unwrap();
            follower.append_as_follower(&mut follower_disk, fetched).unwrap();
        }
        follower.note_high_watermark(shadow.high_watermark);
        check(&follower, &mut follower_disk, &mut shadow);
    }
}

/// Every operation of a compaction fails once, then the power does, in each of a few ways: what is there is the whole log
/// or the compacted one, or some of each.
#[test]
fn a_compaction_may_end_anywhere() {
    let fill = |log: &mut PartitionLog, disk: &mut MemDisk| {
        for round in 0..12 {
            let words = ["a1 b1,c1", "b2", "a- d1", "c2,d2,a3", "b-"][round % 5];
            say(log, disk, words, (round / 3) as i32);
        }
        log.sync(disk).unwrap();
    };
    let mut whole_disk = MemDisk::new();
    let mut whole = opened(&mut whole_disk, COMPACT);
    fill(&mut whole, &mut whole_disk);
    let end = whole.log_end_offset();
    let expect = view(&whole, &mut whole_disk).table(i64::MAX);
    let run = |disk: &mut MemDisk, fail_at: Option<u64>| {
        let mut log = opened(disk, COMPACT);
        if let Some(fail_at) = fail_at {
            disk.fail_operation(disk.operations() + fail_at);
        }
        for now_ms in [1000, LATER_MS] {
            log.set_config(LogConfig { segment_bytes: 900, ..COMPACT });
            while let Ok(Compaction::Going | Compaction::Done { .. }) = log.compact(disk, now_ms, end, 300) {}
        }
        log
    };
    let operations = {
        let mut disk = whole_disk.clone();
        let before = disk.operations();
        let log = run(&mut disk, None);
        assert!(log.segments.len() < whole.segments.len());
        assert_eq!(view(&log, &mut disk).table(i64::MAX), expect);
        disk.operations() - before
    };
    let keeps: [fn(&Unsynced<'_>) -> Keep; 4] = [
        |_| Keep::Lost,
        |_| Keep::Whole,
        |u| if matches!(u, Unsynced::Write { .. }) { Keep::Whole } else { Keep::Lost },
        |u| if matches!(u, Unsynced::Write { .. }) { Keep::Torn(40) } else { Keep::Whole },
    ];
    for fail_at in 0..operations {
        let mut failed = whole_disk.clone();
        let log = run(&mut failed, Some(fail_at));
        failed.cancel_failures();
        if !log.failed {
            assert_eq!(view(&log, &mut failed).table(i64::MAX), expect, "operation {fail_at}");
        }
        for keep in keeps {
            let mut disk = failed.clone();
            disk.power_fail(keep);
            let log = opened(&mut disk, COMPACT);
            assert_eq!((log.log_start_offset(), log.log_end_offset()), (0, end), "operation {fail_at}");
            assert_eq!(log.epochs, whole.epochs, "operation {fail_at}");
            assert_eq!(view(&log, &mut disk).table(i64::MAX), expect, "operation {fail_at}");
            let names = disk.list(DIR).unwrap();
            assert!(!names.iter().any(|name| name.ends_with(".cleaned")), "operation {fail_at}: {names:?}");
        }
    }
}
