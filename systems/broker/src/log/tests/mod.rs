//! Tables of cases for one log; `model` compares with a list of batches, `power` lets the power fail.

mod compact;
mod model;
mod power;
mod producers;
mod start;
mod transactions;

use super::*;
use bytes::Bytes;
use riprap_env::{Keep, MemDisk, RealDisk, Unsynced};
use riprap_protocol::records::{BatchBuilder, BatchError, RecordBatch, TimestampType, split_batches};

const DIR: &str = "topics/t-0";

/// Segments and index spans of a few batches each.
const SMALL: LogConfig = LogConfig {
    segment_bytes: 400,
    index_interval_bytes: 150,
    max_batch_bytes: 1000,
    timestamp_type: TimestampType::CreateTime,
    segment_ms: i64::MAX,
    cleanup: Cleanup { delete: true, compact: false },
    retention_ms: None,
    retention_bytes: Some(900),
    delete_retention_ms: 1000,
    min_dirty_percent: 0,
    min_compaction_lag_ms: 0,
    max_compaction_lag_ms: i64::MAX,
    defect: None,
};

/// A batch of `count` records as a producer sends it; the records' timestamps are `timestamp_ms` and up.
fn batch(count: usize, timestamp_ms: i64) -> BatchBuilder {
    (0..).take(count).fold(BatchBuilder::new(), |b, i| b.record(timestamp_ms + i, None, Some(b"v")))
}

fn opened(disk: &mut dyn Disk, config: LogConfig) -> PartitionLog {
    PartitionLog::open(disk, DIR, config).expect("the log is whole").0
}

fn appended(log: &mut PartitionLog, disk: &mut dyn Disk, batch: BatchBuilder, leader_epoch: i32) -> Appended {
    log.append_as_leader(disk, batch.build(), leader_epoch, 0).expect("the batch is right and the disk well")
}

const ALL: ReadLimits =
    ReadLimits { below_offset: i64::MAX, max_bytes: usize::MAX, at_least_one_batch: true };

/// Everything in the log.
fn contents(log: &PartitionLog, disk: &mut dyn Disk) -> Vec<RecordBatch> {
    let bytes = log.read(disk, log.log_start_offset(), ALL).expect("the log can be read from its start");
    split_batches(bytes).collect::<Result<_, _>>().expect("what is read is whole batches")
}

/// A log of six batches of two records, two or three a segment, with leader epochs 1 1 2 2 2 5, and its disk.
fn six() -> (PartitionLog, MemDisk) {
    let mut disk = MemDisk::new();
    let mut log = opened(&mut disk, LogConfig { segment_bytes: 200, ..SMALL });
    for (index, epoch) in (0..).zip([1, 1, 2, 2, 2, 5]) {
        appended(&mut log, &mut disk, batch(2, index * 100), epoch);
    }
    log.sync(&mut disk).expect("the disk is well");
    assert!(log.segments.len() > 2, "the cases below need several segments");
    (log, disk)
}

#[test]
fn appends_get_the_next_offsets_and_the_leader_s_epoch() {
    let mut disk = MemDisk::new();
    let mut log = opened(&mut disk, SMALL);
    assert_eq!((log.log_start_offset(), log.log_end_offset(), log.is_dirty()), (0, 0, false));
    let two = Bytes::from([batch(2, 0).build(), batch(3, 0).build()].concat());
    let got = log.append_as_leader(&mut disk, two, 4, 99).unwrap();
    assert_eq!(got, Appended { first_offset: 0, last_offset: 4, log_append_time_ms: None });
    assert_eq!((log.log_end_offset(), log.durable_end_offset(), log.is_dirty()), (5, 0, true));
    log.sync(&mut disk).unwrap();
    assert_eq!((log.durable_end_offset(), log.is_dirty()), (5, false));
    let headers: Vec<_> =
        contents(&log, &mut disk).iter().map(|b| (b.header().base_offset, b.header().leader_epoch)).collect();
    assert_eq!(headers, [(0, 4), (2, 4)]);

    let operations = disk.operations();
    log.sync(&mut disk).unwrap();
    assert_eq!(disk.operations(), operations, "a clean log is not synced again");
}

#[test]
fn a_leader_writes_its_time_where_the_topic_says_so() {
    let mut disk = MemDisk::new();
    let mut log = opened(&mut disk, LogConfig { timestamp_type: TimestampType::LogAppendTime, ..SMALL });
    let got = log.append_as_leader(&mut disk, batch(2, 5).build(), 0, 1234).unwrap();
    assert_eq!(got.log_append_time_ms, Some(1234));
    let stored = contents(&log, &mut disk);
    assert_eq!(stored[0].header().timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(stored[0].header().max_timestamp, 1234);
    let found = log.offset_for_timestamp(&mut disk, 1234).unwrap();
    assert_eq!(found, Some(TimestampOffset { offset: 0, timestamp_ms: 1234, leader_epoch: 0 }));
}

#[test]
fn what_a_leader_must_not_append_is_refused_and_leaves_no_trace() {
    let mut disk = MemDisk::new();
    let mut log = opened(&mut disk, SMALL);
    appended(&mut log, &mut disk, batch(1, 0), 3);
    let before = disk.contents(&log.last().path).map(<[u8]>::to_vec);
    let mut check = |bytes: Bytes, epoch, expect: AppendError| {
        assert_eq!(log.append_as_leader(&mut disk, bytes, epoch, 0), Err(expect));
    };
    let good = batch(1, 0).build();
    check(Bytes::new(), 3, AppendError::Empty);
    check(good.slice(..65), 3, BatchError::CutOff { need: good.len(), have: 65 }.into());
    check(
        [good.clone(), good.slice(..9)].concat().into(),
        3,
        BatchError::CutOff { need: 61, have: 9 }.into(),
    );
    let mut old_magic = good.to_vec();
    old_magic[16] = 1;
    check(old_magic.into(), 3, BatchError::Magic(1).into());
    let large = batch(200, 0).build();
    check(large.clone(), 3, AppendError::TooLarge { size_bytes: large.len(), max_bytes: 1000 });
    for (producer_id, producer_epoch, base_sequence) in [(7, -1, 0), (7, 0, -1)] {
        let bytes = batch(1, 0).producer(producer_id, producer_epoch, base_sequence).build();
        check(bytes, 3, AppendError::Sequence { producer_id, producer_epoch, base_sequence });
    }
    check(good, 2, AppendError::Discontinuous(Corruption::LeaderEpoch { last: 3, found: 2 }));
    assert_eq!(log.log_end_offset(), 1);
    assert_eq!(disk.contents(&log.last().path).map(<[u8]>::to_vec), before);
}

#[test]
fn a_follower_appends_what_continues_its_log_and_nothing_else() {
    let (leader, mut disk) = six();
    let all = contents(&leader, &mut disk);
    let mut follower_disk = MemDisk::new();
    let mut follower = opened(&mut follower_disk, SMALL);
    let bytes = |from: usize, to: usize| {
        Bytes::from(all[from..to].iter().map(|b| b.bytes().clone()).collect::<Vec<_>>().concat())
    };
    let got = follower.append_as_follower(&mut follower_disk, bytes(0, 2)).unwrap();
    assert_eq!(got, Appended { first_offset: 0, last_offset: 3, log_append_time_ms: None });
    let offset = |expected, found| AppendError::Discontinuous(Corruption::Offset { expected, found });
    for (from, to, expect) in [(1, 3, offset(4, 2)), (3, 4, offset(4, 6))] {
        assert_eq!(follower.append_as_follower(&mut follower_disk, bytes(from, to)), Err(expect));
    }
    let hole = Bytes::from([bytes(2, 3), bytes(4, 5)].concat());
    assert_eq!(follower.append_as_follower(&mut follower_disk, hole), Err(offset(6, 8)));
    follower.append_as_follower(&mut follower_disk, bytes(2, 6)).unwrap();
    assert_eq!(contents(&follower, &mut follower_disk), all);
    assert_eq!(follower.epochs, leader.epochs);
    assert_eq!(follower.producers, leader.producers);

    let old = batch(1, 0).appended(12, 4).build();
    let epoch = AppendError::Discontinuous(Corruption::LeaderEpoch { last: 5, found: 4 });
    assert_eq!(follower.append_as_follower(&mut follower_disk, old), Err(epoch));
}

#[test]
fn reads_are_whole_batches_within_their_limits() {
    let (log, mut disk) = six();
    let all = contents(&log, &mut disk);
    let size = all[0].bytes().len();
    let mut check = |from, below_offset, max_bytes, at_least_one_batch, expect: std::ops::Range<usize>| {
        let limits = ReadLimits { below_offset, max_bytes, at_least_one_batch };
        let bytes = log.read(&mut disk, from, limits).unwrap();
        let expect: Vec<Bytes> = all[expect].iter().map(|b| b.bytes().clone()).collect();
        assert_eq!(bytes, expect.concat(), "{from} {limits:?}");
    };
    check(0, 12, 1 << 20, true, 0..6);
    check(1, 12, 1 << 20, true, 0..6);
    check(5, 12, 1 << 20, true, 2..6);
    check(11, 12, 1 << 20, true, 5..6);
    check(12, 12, 1 << 20, true, 0..0);
    check(0, 12, size - 1, true, 0..1);
    check(0, 12, size - 1, false, 0..0);
    check(0, 12, 0, true, 0..1);
    check(3, 12, 3 * size, false, 1..4);
    check(3, 12, 4 * size - 1, false, 1..4);
    check(0, 6, 1 << 20, true, 0..3);
    check(0, 7, 1 << 20, true, 0..3);
    check(4, 5, 1 << 20, true, 0..0);
    check(6, 6, 1 << 20, true, 0..0);
    check(8, 6, 1 << 20, true, 0..0);
    check(0, i64::MAX, usize::MAX, true, 0..6);
    for offset in [-1, 13, i64::MAX] {
        let got = log.read(&mut disk, offset, ALL);
        assert_eq!(got, Err(ReadError::OffsetOutOfRange { offset, log_start_offset: 0, log_end_offset: 12 }));
    }
}

#[test]
fn times_are_looked_up() {
    let (log, mut disk) = six();
    let mut check = |timestamp_ms, expect: Option<(i64, i64, i32)>| {
        let found = log.offset_for_timestamp(&mut disk, timestamp_ms).unwrap();
        assert_eq!(found.map(|f| (f.offset, f.timestamp_ms, f.leader_epoch)), expect, "{timestamp_ms}");
    };
    check(i64::MIN, Some((0, 0, 1)));
    check(0, Some((0, 0, 1)));
    check(1, Some((1, 1, 1)));
    check(2, Some((2, 100, 1)));
    check(301, Some((7, 301, 2)));
    check(302, Some((8, 400, 2)));
    check(501, Some((11, 501, 5)));
    check(502, None);
}

#[test]
fn epochs_follow_the_log() {
    let (mut log, mut disk) = six();
    let check = |log: &PartitionLog, requested, expect: Option<(i32, i64)>| {
        let end = log.end_offset_for_epoch(requested).map(|end| (end.epoch, end.end_offset));
        assert_eq!(end, expect, "epoch {requested}");
    };
    check(&log, 0, Some((0, 0)));
    check(&log, 1, Some((1, 4)));
    check(&log, 3, Some((2, 10)));
    check(&log, 5, Some((5, 12)));
    check(&log, 6, Some((5, 12)));
    assert_eq!([0, 3, 4, 11, 12].map(|o| log.leader_epoch_of(o)), [Some(1), Some(1), Some(2), Some(5), None]);
    log.truncate_to(&mut disk, 10).unwrap();
    check(&log, 6, Some((2, 10)));
    log.truncate_to(&mut disk, 3).unwrap();
    check(&log, 6, Some((1, 2)));
    log.truncate_to(&mut disk, 0).unwrap();
    check(&log, 6, None);
    assert_eq!(log.last_leader_epoch(), None);
}

#[test]
fn producers_are_held_to_their_sequence() {
    // In the log: producer 1, epoch 0: sequences 0-1, 2-2, 3-7, 8-8, 9-9, 10-10; producer 2, epoch 3: MAX-1 to 0.
    let mut disk = MemDisk::new();
    let mut log = opened(&mut disk, SMALL);
    for (producer_id, epoch, sequence, count) in [
        (1, 0, 0, 2),
        (1, 0, 2, 1),
        (2, 3, i32::MAX - 1, 3),
        (1, 0, 3, 5),
        (1, 0, 8, 1),
        (1, 0, 9, 1),
        (1, 0, 10, 1),
    ] {
        appended(&mut log, &mut disk, batch(count, 60).producer(producer_id, epoch, sequence), 0);
    }
    let duplicate = |first_offset, last_offset, max_timestamp| ProducerCheck::Duplicate {
        first_offset,
        last_offset,
        max_timestamp,
    };
    let out_of_order = |expected, got| ProducerCheck::OutOfOrder { expected, got };
    let table = [
        ((1, 0, 11, 3), ProducerCheck::New),
        ((1, 0, 12, 1), out_of_order(11, 12)),
        ((1, 0, 10, 1), duplicate(13, 13, 60)),
        ((1, 0, 10, 2), out_of_order(11, 10)),
        ((1, 0, 3, 5), duplicate(6, 10, 64)),
        ((1, 0, 2, 1), duplicate(2, 2, 60)),
        // The sixth last batch is remembered no more.
        ((1, 0, 0, 2), out_of_order(11, 0)),
        ((1, 1, 0, 1), ProducerCheck::New),
        ((1, 1, 11, 1), out_of_order(0, 11)),
        ((2, 3, 1, 1), ProducerCheck::New),
        ((2, 3, i32::MAX - 1, 3), duplicate(3, 5, 62)),
        ((2, 3, i32::MAX, 1), out_of_order(1, i32::MAX)),
        ((2, 2, 1, 1), ProducerCheck::InvalidEpoch { current: 3, got: 2 }),
        ((2, 4, 0, 1), ProducerCheck::New),
        // Never heard of.
        ((3, 5, 0, 2), ProducerCheck::New),
        ((3, 5, 77, 1), ProducerCheck::OutOfOrder { expected: 0, got: 77 }),
    ];
    let check = |log: &PartitionLog| {
        for ((producer_id, epoch, sequence, count), expect) in table {
            let bytes = batch(count, 60).producer(producer_id, epoch, sequence).build();
            let header = BatchHeader::parse(&bytes).unwrap();
            assert_eq!(log.check_producer(&header), expect, "{producer_id} {epoch} {sequence} {count}");
        }
        let plain = BatchHeader::parse(&batch(1, 0).build()).unwrap();
        assert_eq!(log.check_producer(&plain), ProducerCheck::New);
    };
    check(&log);
    // The same when it is learned from the log, and when a truncation takes back what came after.
    log.close(&mut disk);
    let mut log = opened(&mut disk, SMALL);
    check(&log);
    let end = log.log_end_offset();
    appended(&mut log, &mut disk, batch(1, 60).producer(1, 7, 0), 0);
    appended(&mut log, &mut disk, batch(1, 60).producer(2, 3, 1), 0);
    log.truncate_to(&mut disk, end).unwrap();
    check(&log);
}

#[test]
fn truncation_drops_the_batch_that_holds_the_offset_and_all_after() {
    let (_, disk) = six();
    for (offset, end) in [(12, 12), (99, 12), (11, 10), (10, 10), (9, 8), (5, 4), (4, 4), (1, 0), (0, 0)] {
        let mut disk = disk.clone();
        let mut log = opened(&mut disk, LogConfig { segment_bytes: 200, ..SMALL });
        let all = contents(&log, &mut disk);
        assert_eq!(log.truncate_to(&mut disk, offset), Ok(end), "{offset}");
        assert_eq!((log.log_end_offset(), log.durable_end_offset()), (end, end));
        let kept = usize::try_from(end).unwrap() / 2;
        assert_eq!(contents(&log, &mut disk), all[..kept]);
        let got = appended(&mut log, &mut disk, batch(1, 0), 6);
        assert_eq!(got.first_offset, end);
        let again = opened(&mut disk, SMALL);
        assert_eq!(again.log_end_offset(), end + 1);
    }
}

#[test]
fn a_reset_log_begins_elsewhere() {
    let (mut log, mut disk) = six();
    log.reset_to(&mut disk, 1000).unwrap();
    assert_eq!((log.log_start_offset(), log.log_end_offset(), log.is_dirty()), (1000, 1000, false));
    assert_eq!(log.end_offset_for_epoch(5), None);
    log.append_as_follower(&mut disk, batch(2, 0).appended(1000, 7).build()).unwrap();
    log.sync(&mut disk).unwrap();
    let mut log = opened(&mut disk, SMALL);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (1000, 1002));
    assert_eq!(log.end_offset_for_epoch(3), Some(EpochEnd { epoch: 3, end_offset: 1000 }));
    assert_eq!(log.truncate_to(&mut disk, 500), Ok(500), "below its start a log begins anew");
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (500, 500));
}

#[test]
fn a_broken_tail_is_cut_wherever_it_breaks() {
    let (log, whole) = six();
    let path = log.last().path.clone();
    let base = log.last().base_offset;
    let bytes = whole.contents(&path).unwrap().to_vec();
    let size = bytes.len() / 2;
    assert_eq!(bytes.len() % size, 0, "the last segment has two batches");
    for len in 0..=bytes.len() {
        let mut disk = whole.clone();
        let file = disk.open(&path).unwrap();
        disk.truncate(file, len as u64).unwrap();
        let (mut log, recovery) = PartitionLog::open(&mut disk, DIR, SMALL).unwrap();
        let batches = len / size;
        let end = base + 2 * i64::try_from(batches).unwrap();
        assert_eq!(log.log_end_offset(), end, "{len}");
        match recovery.cut {
            None => assert_eq!(len % size, 0),
            Some(cut) => {
                assert_eq!(
                    (cut.path.as_str(), cut.position, cut.offset),
                    (&*path, (batches * size) as u64, end)
                );
                assert_eq!(cut.size_bytes, (len % size) as u64);
                assert!(matches!(cut.why, Corruption::Batch(BatchError::CutOff { .. })));
            }
        }
        appended(&mut log, &mut disk, batch(1, 0), 5);
        let (again, recovery) = PartitionLog::open(&mut disk, DIR, SMALL).unwrap();
        assert_eq!((again.log_end_offset(), recovery.cut), (end + 1, None), "{len}");
    }
}

#[test]
fn a_rotten_bit_is_told_and_cuts_nothing() {
    // Without what was written down of them, all segments are read at the start.
    let indexes = |disk: &mut MemDisk| {
        let names = disk.list(DIR).unwrap();
        names.into_iter().filter(|name| name.ends_with(".index")).map(|name| format!("{DIR}/{name}"))
    };
    let (log, whole) = six();
    let batch_size = contents(&log, &mut whole.clone())[0].bytes().len();
    for segment in &log.segments {
        for at in 0..whole.contents(&segment.path).unwrap().len() {
            let (mut disk, path) = (whole.clone(), segment.path.as_str());
            disk.flip_bits(path, at as u64, 0x10);
            let is_told = |e: &LogError| matches!(e, LogError::Corrupt { path: found, .. } if found == path);
            // Also to who reads no further than to the log's end, which a batch may seem to go beyond.
            for below_offset in [ALL.below_offset, log.log_end_offset()] {
                for bit in 0..8 {
                    let mut disk = whole.clone();
                    disk.flip_bits(path, at as u64, 1 << bit);
                    let got = log.read(&mut disk, 0, ReadLimits { below_offset, ..ALL });
                    assert!(
                        matches!(&got, Err(ReadError::Log(e)) if is_told(e)),
                        "{path} {at} {bit}: {got:?}"
                    );
                }
            }
            // The CRC does not cover the leader epoch: to a start one that rises looks right.
            if (12..16).contains(&(at % batch_size)) {
                continue;
            }
            indexes(&mut disk).for_each(|path| disk.remove(&path).unwrap());
            match PartitionLog::open(&mut disk, DIR, SMALL) {
                Err(LogError::Corrupt { path: found, position, .. }) => {
                    assert_eq!((found.as_str(), position), (path, (at / batch_size * batch_size) as u64));
                }
                other => panic!("{path} {at}: {other:?}"),
            }
        }
    }
}

#[test]
fn an_epoch_that_never_was_is_told() {
    let (log, _) = six();
    assert_eq!([4, 5, 6].map(|known| log.check_known(known).is_ok()), [false, true, true]);
}

#[test]
fn a_start_reads_what_is_not_written_down() {
    let (log, whole) = six();
    let check = |change: &dyn Fn(&mut MemDisk, &str), batches: u64| {
        let mut disk = whole.clone();
        change(&mut disk, &index::path_of(&log.segments[1].path));
        for expect in [batches, 2] {
            let (again, recovery) = PartitionLog::open(&mut disk, DIR, SMALL).unwrap();
            assert_eq!(recovery, Recovery { batches: expect, cut: None });
            assert_eq!((&again.epochs, &again.producers), (&log.epochs, &log.producers));
            assert_eq!(contents(&again, &mut disk), contents(&log, &mut whole.clone()));
            for timestamp_ms in [0, 101, 250, 500] {
                let found = again.offset_for_timestamp(&mut disk, timestamp_ms);
                assert_eq!(found, log.offset_for_timestamp(&mut whole.clone(), timestamp_ms));
            }
        }
    };
    check(&|_, _| {}, 2);
    check(&|disk, path| disk.remove(path).unwrap(), 4);
    check(&|disk, path| disk.flip_bits(path, 30, 1), 4);
    check(
        &|disk, path| {
            let file = disk.open(path).unwrap();
            disk.truncate(file, 20).unwrap();
        },
        4,
    );
}

#[test]
fn producers_are_forgotten_in_time() {
    let mut disk = MemDisk::new();
    let mut log = opened(&mut disk, SMALL);
    let knows = |log: &PartitionLog, id: i64| {
        let next = BatchHeader::parse(&batch(1, 0).producer(id, 0, 1).build()).unwrap();
        log.check_producer(&next) == ProducerCheck::New
    };
    log.expire_producers(1000, 100);
    appended(&mut log, &mut disk, batch(1, 0).producer(1, 0, 0), 0);
    appended(&mut log, &mut disk, batch(1, 0).producer(3, 0, 0).transactional(), 0);
    log.expire_producers(1050, 100);
    appended(&mut log, &mut disk, batch(1, 0).producer(2, 0, 0), 0);
    log.expire_producers(1099, 100);
    assert_eq!([1, 2].map(|id| knows(&log, id)), [true, true]);
    log.expire_producers(1100, 100);
    assert_eq!([1, 2].map(|id| knows(&log, id)), [false, true]);
    log.expire_producers(9000, 100);
    assert!(!knows(&log, 2));
    assert_eq!(log.open_transaction(3, 0), Some(1), "a transaction that is open is waited for");
    // Who is found in a log is new to whoever finds it.
    let mut again = opened(&mut disk, SMALL);
    again.expire_producers(9000, 100);
    assert!(knows(&again, 1));
    again.expire_producers(9100, 100);
    assert!(!knows(&again, 1));
}

#[test]
fn zeros_are_a_broken_tail_and_batches_of_elsewhere_are_told() {
    let (log, whole) = six();
    let Segment { path, size_bytes, .. } = log.last();
    let end = log.log_end_offset();
    let with_tail = |tail: &[u8]| {
        let mut disk = whole.clone();
        let file = disk.open(path).unwrap();
        disk.write_at(file, *size_bytes, tail).unwrap();
        disk
    };
    let check = |tail: &[u8], expect: Corruption| {
        let mut disk = with_tail(tail);
        let (log, recovery) = PartitionLog::open(&mut disk, DIR, SMALL).unwrap();
        assert_eq!(log.log_end_offset(), end);
        let cut = recovery.cut.unwrap();
        assert_eq!((cut.position, cut.size_bytes, cut.why), (*size_bytes, tail.len() as u64, expect));
        assert_eq!(disk.contents(path).unwrap().len() as u64, *size_bytes);
    };
    check(&[0; 500], Corruption::Batch(BatchError::Magic(0)));
    // No write that was torn has a checksum that is right.
    let check_told = |tail: &[u8], why: Corruption| {
        let opened = PartitionLog::open(&mut with_tail(tail), DIR, SMALL).map(|_| ());
        assert_eq!(opened, Err(LogError::Corrupt { path: path.clone(), position: *size_bytes, why }));
    };
    for found in [end - 1, end + 1] {
        check_told(&batch(1, 0).appended(found, 5).build(), Corruption::Offset { expected: end, found });
    }
    check_told(&batch(1, 0).appended(end, 4).build(), Corruption::LeaderEpoch { last: 5, found: 4 });
    let mut endless = batch(1, 0).appended(end, 5).build().to_vec();
    endless[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    let (need, have) = (i32::MAX as usize + 12, endless.len());
    check(&endless, Corruption::Batch(BatchError::CutOff { need, have }));
}

#[test]
fn a_missing_segment_is_an_error_that_names_it() {
    let (log, mut disk) = six();
    let [_, second, third, ..] = &log.segments[..] else { panic!("there are several segments") };
    disk.remove(&second.path).unwrap();
    let (path, expected, found) = (third.path.clone(), second.base_offset, third.base_offset);
    let got = PartitionLog::open(&mut disk, DIR, SMALL).map(|_| ());
    assert_eq!(got, Err(LogError::Gap { path, expected, found }));
}

#[test]
fn files_that_are_no_segments_are_left_alone() {
    let (_, mut disk) = six();
    for name in
        ["note", "1.log", "0000000000000000000x.log", "+0000000000000000001.log", "99999999999999999999.log"]
    {
        disk.open(&format!("{DIR}/{name}")).unwrap();
    }
    assert_eq!(opened(&mut disk, SMALL).log_end_offset(), 12);
}

#[test]
fn a_full_disk_refuses_an_append_and_spoils_nothing() {
    let mut disk = MemDisk::new();
    let mut log = opened(&mut disk, LogConfig::default());
    appended(&mut log, &mut disk, batch(1, 0), 0);
    let one = batch(1, 0).build();
    // Of three batches there is room for two and a half.
    let used = one.len() as u64;
    disk.set_capacity_bytes(Some(used + one.len() as u64 * 5 / 2));
    let three = Bytes::from([one.clone(), one.clone(), one.clone()].concat());
    let full = log.append_as_leader(&mut disk, three.clone(), 0, 0);
    assert!(matches!(full, Err(AppendError::Log(LogError::Disk(DiskError::Full(_))))), "{full:?}");
    assert_eq!(log.log_end_offset(), 1);
    // What fits is appended all the same, and no batch of the failed append follows on it, whatever power does.
    let got = log.append_as_leader(&mut disk, one, 0, 0).unwrap();
    assert_eq!(got.first_offset, 1);
    let but_cuts = |u: &Unsynced<'_>| match u {
        Unsynced::Truncate { .. } => Keep::Lost,
        _ => Keep::Whole,
    };
    for keep in [|_: &Unsynced<'_>| Keep::Whole, but_cuts] {
        let mut disk = disk.clone();
        disk.power_fail(keep);
        let (log, recovery) = PartitionLog::open(&mut disk, DIR, LogConfig::default()).unwrap();
        assert_eq!((log.log_end_offset(), recovery.cut), (2, None));
    }
}

#[test]
fn after_a_failed_sync_nothing_more_is_promised() {
    let (mut log, mut disk) = six();
    appended(&mut log, &mut disk, batch(1, 0), 5);
    disk.fail_operation(disk.operations());
    assert!(matches!(log.sync(&mut disk), Err(LogError::Disk(_))));
    let failed = LogError::Failed(DIR.to_owned());
    assert_eq!(log.sync(&mut disk), Err(failed.clone()));
    assert_eq!(log.append_as_leader(&mut disk, batch(1, 0).build(), 5, 0), Err(failed.clone().into()));
    assert_eq!(log.read(&mut disk, 0, ALL), Err(failed.clone().into()));
    assert_eq!(log.truncate_to(&mut disk, 3), Err(failed));
    assert_eq!(log.durable_end_offset(), 12);
    log.close(&mut disk);
    assert_eq!(opened(&mut disk, SMALL).log_end_offset(), 13);
}

#[test]
fn a_log_on_a_real_disk_is_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (log, mut disk) = six();
    let mut real = RealDisk::new(folder.path()).unwrap();
    let mut real_log = opened(&mut real, LogConfig { segment_bytes: 200, ..SMALL });
    for batch in contents(&log, &mut disk) {
        real_log.append_as_follower(&mut real, batch.bytes().clone()).unwrap();
    }
    real_log.sync(&mut real).unwrap();
    real_log.truncate_to(&mut real, 9).unwrap();
    real_log.close(&mut real);
    let real_log = opened(&mut real, SMALL);
    assert_eq!(contents(&real_log, &mut real), contents(&log, &mut disk)[..4]);
    let names = real.list(DIR).unwrap();
    assert_eq!(names.iter().filter(|name| name.ends_with(".log")).count(), real_log.segments.len());
}
