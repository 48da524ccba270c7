//! Whatever fails and whenever the power goes: the log opens, has all that was durable, and has nothing that was
//! never appended in that order.

use super::model::{Act, Made, Model, act};
use super::*;
use proptest::prelude::*;
use riprap_env::{Keep, Unsynced};

/// What may be in the log after a power failure.
#[derive(Debug, Default)]
struct Allowed {
    /// What was appended, in the order of the log: some first part of it is there.
    model: Model,
    /// What a failed append may have left behind the end.
    left_over: Vec<RecordBatch>,
    /// All below this offset is there.
    durable_end_offset: i64,
    /// The start may have moved there, or not.
    start: Option<i64>,
    /// An empty log at one of these offsets is as good.
    empty_at: Vec<i64>,
}

impl Allowed {
    fn check(&self, disk: &mut MemDisk) {
        let (log, _) = PartitionLog::open(disk, DIR, SMALL).unwrap_or_else(|e| panic!("{e}: {self:?}"));
        assert_eq!(log.durable_end_offset(), log.log_end_offset());
        let found = contents(&log, disk);
        let start = log.log_start_offset();
        if found.is_empty() && self.empty_at.contains(&start) {
            return;
        }
        assert!(start == self.model.start || Some(start) == self.start, "{start} {self:?}");
        assert!(log.log_end_offset() >= self.durable_end_offset, "{} {self:?}", log.log_end_offset());
        let all = self.model.batches.iter().chain(&self.left_over);
        let most: Vec<&RecordBatch> = all.filter(|b| b.header().last_offset() >= start).collect();
        assert!(found.len() <= most.len(), "{found:?} {self:?}");
        assert!(found.iter().zip(most).all(|(found, expect)| found == expect), "{found:?} {self:?}");
    }
}

/// Does as told until something fails; the disk fails the operation with number `fail_at`, counted from the time when
/// the log is open.
fn run(disk: &mut MemDisk, acts: &[Act], fail_at: Option<u64>) -> Allowed {
    let mut log = opened(disk, SMALL);
    if let Some(fail_at) = fail_at {
        disk.fail_operation(disk.operations() + fail_at);
    }
    let mut allowed = Allowed::default();
    for act in acts {
        let done = match act {
            Act::Append { batches, epoch_step } => {
                let (sent, stored, epoch) = allowed.model.to_append(batches, *epoch_step);
                match log.append_as_leader(disk, sent, epoch, 0) {
                    Ok(_) => {
                        allowed.model.batches.extend(stored);
                        allowed.left_over.clear();
                        Ok(())
                    }
                    Err(AppendError::Log(e)) => {
                        allowed.left_over = stored;
                        Err(e)
                    }
                    Err(e) => panic!("{e}"),
                }
            }
            Act::Sync => log.sync(disk),
            Act::Truncate(to) => {
                let offset = (allowed.model.start + i64::try_from(to % 60).unwrap() - 5).max(0);
                let mut shorter = allowed.model.clone();
                shorter.truncate(offset);
                let truncated = log.truncate_to(disk, offset);
                if truncated.is_ok() {
                    allowed.left_over.clear();
                    allowed.model = shorter;
                } else {
                    allowed.durable_end_offset = shorter.end().min(allowed.durable_end_offset);
                    allowed.empty_at = vec![0, allowed.model.start, shorter.start];
                }
                truncated.map(|_| ())
            }
            Act::Reset(to) => {
                let start = i64::try_from(to % 100).unwrap();
                let reset = log.reset_to(disk, start);
                if reset.is_ok() {
                    allowed.model = Model { start, ..Model::default() };
                    allowed.left_over.clear();
                } else {
                    allowed.durable_end_offset = allowed.model.start;
                    allowed.empty_at = vec![0, allowed.model.start, start];
                }
                reset
            }
            Act::Start(to) => {
                allowed.start = Some(allowed.model.some_offset(*to));
                let moved = log.advance_start_to(disk, allowed.model.some_offset(*to));
                moved.map(|_| allowed.model.start = log.log_start_offset())
            }
            Act::Retain(above) => {
                let high_watermark = allowed.model.some_offset(*above);
                // Where it will begin is not known beforehand: it is one of these.
                let ends = log.segments.iter().map(|segment| segment.base_offset);
                let starts: Vec<i64> = ends.chain([log.log_end_offset()]).collect();
                let retained = log.retain(disk, 0, high_watermark);
                let found = disk.clone();
                allowed.start = starts.into_iter().rev().find(|start| {
                    let bytes = found.contents(&format!("{DIR}/checkpoint.new"));
                    let bytes = bytes.or_else(|| found.contents(&format!("{DIR}/checkpoint")));
                    bytes.is_some_and(|bytes| bytes.get(1..9) == Some(&start.to_be_bytes()[..]))
                });
                retained.map(|_| allowed.model.start = log.log_start_offset())
            }
            Act::Reopen => {
                log.close(disk);
                match PartitionLog::open(disk, DIR, SMALL) {
                    Ok((opened, _)) => {
                        // A failed append's batches are part of the log if they were whole on disk.
                        let mut copy = disk.clone();
                        copy.cancel_failures();
                        let start = opened.log_start_offset();
                        allowed.model.batches.retain(|b| b.header().last_offset() < start);
                        allowed.model.batches.extend(contents(&opened, &mut copy));
                        allowed.model.start = start;
                        allowed.left_over.clear();
                        log = opened;
                        Ok(())
                    }
                    Err(_) => return allowed,
                }
            }
        };
        match done {
            Ok(()) => allowed.durable_end_offset = log.durable_end_offset(),
            // Nothing was appended; a log that has not failed goes on.
            Err(_) if !log.failed => {}
            Err(_) => return allowed,
        }
    }
    allowed
}

fn fate() -> impl Strategy<Value = Keep> {
    prop_oneof![
        2 => Just(Keep::Lost),
        2 => (0..300_usize).prop_map(Keep::Torn),
        1 => Just(Keep::Zeros),
        3 => Just(Keep::Whole),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_durable_survives_a_power_failure(
        acts in prop::collection::vec(act(), 1..25),
        fail_at in prop::option::of(0..80_u64),
        fates in prop::collection::vec(fate(), 1..20),
        acts_after in prop::collection::vec(act(), 0..5),
    ) {
        let mut disk = MemDisk::new();
        let allowed = run(&mut disk, &acts, fail_at);
        let mut fates = fates.iter().cycle();
        let mut fate = |_: &Unsynced<'_>| *fates.next().expect("a cycle does not end");
        disk.cancel_failures();
        disk.power_fail(&mut fate);
        allowed.check(&mut disk);

        // And again, from whatever the first failure left.
        let mut log = opened(&mut disk, SMALL);
        let mut model = Model {
            start: log.log_start_offset(),
            batches: contents(&log, &mut disk),
            last_epoch: log.last_leader_epoch().unwrap_or(0),
        };
        prop_assert_eq!(model.end(), log.log_end_offset());
        for act in &acts_after {
            if let Act::Append { batches, epoch_step } = act {
                let (sent, stored, epoch) = model.to_append(batches, *epoch_step);
                log.append_as_leader(&mut disk, sent, epoch, 0).unwrap();
                model.batches.extend(stored);
            }
        }
        log.sync(&mut disk).unwrap();
        disk.power_fail(&mut fate);
        let log = opened(&mut disk, SMALL);
        prop_assert_eq!(contents(&log, &mut disk), model.batches);
    }
}

/// Every operation of a life full of events fails once, then the power does, in each of a few ways.
#[test]
fn any_operation_may_be_the_last() {
    let made = Made { count: 2, value_bytes: 30, producer: Some(1), new_epoch: false, timestamp_ms: 0 };
    let append = |epoch_step| Act::Append { batches: vec![made; 2], epoch_step };
    let acts = [
        append(1),
        Act::Sync,
        append(0),
        append(0),
        append(1),
        Act::Sync,
        append(0),
        Act::Truncate(9),
        append(1),
        append(0),
        append(0),
        Act::Reopen,
        append(0),
        Act::Start(5),
        append(0),
        Act::Reopen,
        append(0),
        append(0),
        Act::Retain(30),
        append(0),
        Act::Truncate(6),
        append(2),
        Act::Sync,
        append(0),
        Act::Reset(40),
        append(3),
        Act::Sync,
        append(0),
    ];
    let keeps: [fn(&Unsynced<'_>) -> Keep; 6] = [
        |_| Keep::Lost,
        |_| Keep::Whole,
        |_| Keep::Zeros,
        |_| Keep::Torn(100),
        |u| if matches!(u, Unsynced::Write { .. }) { Keep::Whole } else { Keep::Lost },
        |u| if matches!(u, Unsynced::Write { .. }) { Keep::Lost } else { Keep::Whole },
    ];
    let mut whole = MemDisk::new();
    run(&mut whole, &acts, None);
    for fail_at in 0..whole.operations() {
        let mut failed = MemDisk::new();
        let allowed = run(&mut failed, &acts, Some(fail_at));
        for keep in keeps {
            let mut disk = failed.clone();
            disk.cancel_failures();
            disk.power_fail(keep);
            allowed.check(&mut disk);
        }
    }
}

/// A copy that is not needed any more, and then is again: whenever the power fails, all of it is there or nothing.
#[test]
fn a_removal_leaves_all_or_nothing() {
    let fates: [&[bool]; 8] = [
        &[false],
        &[true],
        &[true, false],
        &[false, true],
        &[true, true, false],
        &[false, false, true],
        &[true, false, false],
        &[false, true, true],
    ];
    let (log, mut whole) = six();
    let (base, end) = (whole.operations(), log.log_end_offset());
    log.close(&mut whole);
    let mut removed = whole.clone();
    removal::remove(&mut removed, DIR).expect("the disk is well");
    for fail_at in base..=removed.operations() {
        let mut failed = whole.clone();
        failed.fail_operation(fail_at);
        let _cut_short = removal::remove(&mut failed, DIR);
        for fate in fates {
            let mut disk = failed.clone();
            disk.cancel_failures();
            let mut keeps = fate.iter().cycle();
            let luck = |_: &Unsynced<'_>| {
                if *keeps.next().expect("a cycle does not end") { Keep::Whole } else { Keep::Lost }
            };
            disk.power_fail(luck);
            let mut log = opened(&mut disk, SMALL);
            assert!([0, end].contains(&log.log_end_offset()), "operation {fail_at}, {fate:?}: {log:?}");
            // And what is written then stays.
            let before = log.log_end_offset();
            appended(&mut log, &mut disk, batch(2, 900), 7);
            log.sync(&mut disk).expect("the disk is well");
            disk.power_fail(|_| Keep::Lost);
            let again = opened(&mut disk, SMALL);
            assert_eq!(again.log_end_offset(), before + 2, "operation {fail_at}, {fate:?}");
        }
    }
}
