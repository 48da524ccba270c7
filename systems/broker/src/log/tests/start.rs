//! Where a log begins: deletions, retention, followers that begin there.

use super::*;
use proptest::prelude::*;

fn files(disk: &mut dyn Disk) -> Vec<i64> {
    disk.list(DIR).unwrap().iter().filter_map(|name| segment::parse_file_name(name)).collect()
}

#[test]
fn a_log_begins_where_it_is_told() {
    let (log, disk) = six();
    let bases: Vec<i64> = log.segments.iter().map(|segment| segment.base_offset).collect();
    assert_eq!(bases, [0, 4, 8]);
    for (start, kept, first_batch) in [
        (0, &bases[..], 0),
        (1, &bases[..], 0),
        (2, &bases[..], 2),
        (4, &bases[1..], 4),
        (7, &bases[1..], 6),
        (11, &bases[2..], 10),
        (12, &bases[2..], 12),
    ] {
        let mut disk = disk.clone();
        let mut log = opened(&mut disk, LogConfig { segment_bytes: 200, ..SMALL });
        let all = contents(&log, &mut disk);
        assert_eq!(log.advance_start_to(&mut disk, start), Ok(start > 0), "{start}");
        assert_eq!(log.advance_start_to(&mut disk, start - 1), Ok(false), "it never moves back");
        let check = |log: &PartitionLog, disk: &mut MemDisk| {
            assert_eq!((log.log_start_offset(), log.log_end_offset()), (start, 12));
            let readable = all.iter().filter(|b| b.header().base_offset >= first_batch);
            assert_eq!(contents(log, disk), readable.cloned().collect::<Vec<_>>());
            let below = log.read(disk, start - 1, ALL);
            let expect = ReadError::OffsetOutOfRange {
                offset: start - 1,
                log_start_offset: start,
                log_end_offset: 12,
            };
            assert_eq!(below, Err(expect));
        };
        check(&log, &mut disk);
        assert_eq!(files(&mut disk), kept, "{start}");
        log.close(&mut disk);
        let log = opened(&mut disk, SMALL);
        check(&log, &mut disk);
    }
}

#[test]
fn records_below_the_start_are_not_found_by_time() {
    // Records 0 to 11 at 0 1 100 101 .. 500 501.
    let (mut log, mut disk) = six();
    log.advance_start_to(&mut disk, 3).unwrap();
    let mut check = |timestamp_ms, expect: Option<(i64, i64)>| {
        let found = log.offset_for_timestamp(&mut disk, timestamp_ms).unwrap();
        assert_eq!(found.map(|f| (f.offset, f.timestamp_ms)), expect, "{timestamp_ms}");
    };
    check(0, Some((3, 101)));
    check(100, Some((3, 101)));
    check(102, Some((4, 200)));
    // The greatest time of all may be of a record that is deleted.
    let mut log = opened(&mut disk, SMALL);
    log.reset_to(&mut disk, 0).unwrap();
    for times in [[5, 900], [7, 800], [1, 2]] {
        let batch = times.iter().fold(BatchBuilder::new(), |b, ms| b.record(*ms, None, None));
        appended(&mut log, &mut disk, batch, 0);
    }
    for (start, expect) in
        [(0, Some((1, 900))), (1, Some((1, 900))), (2, Some((3, 800))), (4, Some((5, 2))), (6, None)]
    {
        log.advance_start_to(&mut disk, start).unwrap();
        let newest = log.newest_record(&mut disk).unwrap();
        assert_eq!(newest.map(|f| (f.offset, f.timestamp_ms)), expect, "{start}");
    }
}

#[test]
fn a_follower_begins_within_a_batch() {
    let (mut leader, mut disk) = six();
    leader.advance_start_to(&mut disk, 5).unwrap();
    let mut follower_disk = MemDisk::new();
    let mut follower = opened(&mut follower_disk, SMALL);
    follower.reset_to(&mut follower_disk, 5).unwrap();
    let fetched = leader.read(&mut disk, 5, ALL).unwrap();
    let got = follower.append_as_follower(&mut follower_disk, fetched).unwrap();
    assert_eq!(got.first_offset, 4);
    follower.sync(&mut follower_disk).unwrap();
    let check = |follower: &PartitionLog, follower_disk: &mut MemDisk| {
        assert_eq!((follower.log_start_offset(), follower.log_end_offset()), (5, 12));
        assert_eq!(contents(follower, follower_disk), contents(&leader, &mut disk.clone()));
        assert_eq!(follower.epochs, leader.epochs);
    };
    check(&follower, &mut follower_disk);
    let again = opened(&mut follower_disk, SMALL);
    check(&again, &mut follower_disk);
    // Elsewhere a batch that begins below the end does not belong.
    let fetched = leader.read(&mut disk, 11, ALL).unwrap();
    assert!(matches!(
        follower.append_as_follower(&mut follower_disk, fetched),
        Err(AppendError::Discontinuous(Corruption::Offset { expected: 12, found: 10 }))
    ));
}

#[test]
fn what_remains_of_a_removal_that_was_cut_short_is_removed() {
    let (mut log, mut disk) = six();
    let before = disk.clone();
    log.advance_start_to(&mut disk, 9).unwrap();
    let checkpoint = disk.contents(&format!("{DIR}/checkpoint")).unwrap().to_vec();
    let mut disk = before;
    let file = disk.open(&format!("{DIR}/checkpoint")).unwrap();
    disk.write_at(file, 0, &checkpoint).unwrap();
    // One of the two that are to go is gone.
    disk.remove(&format!("{DIR}/{}", segment::file_name(0))).unwrap();
    let log = opened(&mut disk, SMALL);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (9, 12));
    assert_eq!(files(&mut disk), [8]);
    // All bytes are gone: what was deleted stays so.
    disk.remove(&format!("{DIR}/{}", segment::file_name(8))).unwrap();
    let log = opened(&mut disk, SMALL);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (9, 9));
    let path = format!("{DIR}/checkpoint");
    disk.flip_bits(&path, 3, 1);
    assert_eq!(PartitionLog::open(&mut disk, DIR, SMALL).map(|_| ()), Err(LogError::Checkpoint { path }));
}

#[test]
fn retention_takes_whole_segments_from_the_start() {
    // Three segments of two batches, 0..4 4..8 8..12, newest times 101 301 501.
    let (log, disk) = six();
    let batch_bytes = log.segments[0].size_bytes / 2;
    let keep = LogConfig { segment_bytes: 200, retention_bytes: None, ..SMALL };
    let by_time = |ms| LogConfig { retention_ms: Some(ms), ..keep };
    let by_size = |batches: u64| LogConfig { retention_bytes: Some(batches * batch_bytes), ..keep };
    let check = |config: LogConfig, now_ms, high_watermark, expect: Option<i64>| {
        let mut disk = disk.clone();
        let mut log = opened(&mut disk, config);
        let told = log.retain(&mut disk, now_ms, high_watermark).unwrap();
        assert_eq!(told, expect, "{config:?} at {now_ms}, high watermark {high_watermark}");
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (expect.unwrap_or(0), 12));
        assert_eq!(log.retain(&mut disk, now_ms, high_watermark), Ok(None), "it is done");
        let again = opened(&mut disk, config);
        assert_eq!((again.log_start_offset(), again.log_end_offset()), (expect.unwrap_or(0), 12));
    };
    check(keep, i64::MAX, 12, None);
    check(by_time(100), 201, 12, None);
    check(by_time(100), 202, 12, Some(4));
    check(by_time(100), 402, 12, Some(8));
    check(by_time(100), 601, 12, Some(8));
    // The last one goes too, and the log is empty then.
    check(by_time(100), 602, 12, Some(12));
    check(by_time(0), i64::MAX, 12, Some(12));
    // Not what is not committed.
    check(by_time(100), 602, 11, Some(8));
    check(by_time(100), 602, 7, Some(4));
    check(by_time(100), 602, 3, None);
    check(by_size(6), 0, 12, None);
    check(by_size(5), 0, 12, None);
    check(by_size(4), 0, 12, Some(4));
    check(by_size(2), 0, 12, Some(8));
    check(by_size(0), 0, 12, Some(12));
    check(by_size(0), 0, 8, Some(8));
    // First by time, then by what is left.
    check(LogConfig { retention_ms: Some(100), ..by_size(4) }, 202, 12, Some(4));
    check(LogConfig { retention_ms: Some(100), ..by_size(2) }, 202, 12, Some(8));
    check(LogConfig { cleanup: Cleanup { delete: false, compact: true }, ..by_size(0) }, 602, 12, None);
}

#[test]
fn a_segment_ends_when_its_time_is_over() {
    let mut disk = MemDisk::new();
    let mut log = opened(&mut disk, LogConfig { segment_ms: 100, ..LogConfig::default() });
    for timestamp_ms in [1000, 1100, 1050, 1101, 1150, 1202] {
        appended(&mut log, &mut disk, batch(1, timestamp_ms), 0);
    }
    let bases: Vec<i64> = log.segments.iter().map(|segment| segment.base_offset).collect();
    assert_eq!(bases, [0, 3, 5]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a leader deletes while a follower fetches, the follower has the same in the end.
    #[test]
    fn a_follower_follows_the_start(
        acts in prop::collection::vec((1..4_usize, prop::option::of(any::<u8>()), any::<bool>()), 1..20),
    ) {
        let (mut disk, mut follower_disk) = (MemDisk::new(), MemDisk::new());
        let mut leader = opened(&mut disk, SMALL);
        let mut follower = opened(&mut follower_disk, SMALL);
        for (count, start, fetches) in acts.into_iter().chain([(1, None, true)]) {
            appended(&mut leader, &mut disk, batch(count, 0), 0);
            if let Some(start) = start {
                let (from, to) = (leader.log_start_offset(), leader.log_end_offset());
                leader.advance_start_to(&mut disk, from + i64::from(start) % (to - from + 1)).unwrap();
            }
            while fetches && follower.log_end_offset() < leader.log_end_offset() {
                if follower.log_end_offset() < leader.log_start_offset() {
                    follower.reset_to(&mut follower_disk, leader.log_start_offset()).unwrap();
                }
                let limits = ReadLimits { max_bytes: 300, ..ALL };
                let fetched = leader.read(&mut disk, follower.log_end_offset(), limits).unwrap();
                if !fetched.is_empty() {
                    follower.append_as_follower(&mut follower_disk, fetched).unwrap();
                }
                let start = leader.log_start_offset().min(follower.log_end_offset());
                follower.advance_start_to(&mut follower_disk, start).unwrap();
            }
        }
        prop_assert_eq!(follower.log_start_offset(), leader.log_start_offset());
        prop_assert_eq!(contents(&follower, &mut follower_disk), contents(&leader, &mut disk));
        let again = opened(&mut follower_disk, SMALL);
        prop_assert_eq!(contents(&again, &mut follower_disk), contents(&leader, &mut disk));
    }
}
