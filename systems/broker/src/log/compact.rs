//! Compaction: of records with one key, the last stays.
//!
//! ```text
//! DIR/00000000000000000000.cleaned     what will take the place of some segments, until it does
//!
//! pass    := map, rewrite, checkpoint       a step reads and writes so many bytes; a pass is as many as it takes
//! map     the last offset of each key, from where the last pass ended up to the last segment or to what is not stable
//! rewrite all segments from the log's start to there, without what a later record of its key makes useless; several
//!         small ones become one
//! ```
//! What is left of a log:
//! - Offsets and leader epochs are what they were: where nothing is left of some batches, a batch without records stands
//!   for their offsets, one for each leader epoch. So a log has no gaps, a copy that was compacted otherwise continues
//!   this one, and what is asked about epochs is answered as before. Nobody can tell which batches there were; who reads
//!   from within such a stand-in is given the rest of it.
//! - Of each producer, the batches and the marker that are remembered are kept, without records if need be: who reads the
//!   log knows the same of it.
//! - A record without a value, which removes its key, goes a while after it has removed it (`delete.retention.ms`), so that
//!   who reads the log meanwhile sees it. When is known by marks: below this offset, all was compacted by that time.
//! - Records of aborted transactions go; a marker goes when none of its transaction's records is left, after as long.
//!
//! One rename puts a segment in the place of another, or of several: the name is the first one's, and the others, whose
//! offsets it has, are removed then, or when the log is opened.
//!
//! What it cannot see: the records of compressed batches. They stay as they are, and so do records without a value behind
//! them, which may be all that tells that an older one counts no more. A key's older record in a compressed batch is seen
//! by readers before the later one, as it was when both were written.
//!
//! Source: Kafka's documentation, "Log Compaction"; LogCleaner, Cleaner; KIP-534 (how long records without a value stay).

mod rewrite;

use super::checkpoint::Mark;
use super::index;
use super::segment::{self, Scan, Segment};
use super::transactions::AbortedTransaction;
use super::{Corruption, LogError, PartitionLog};
use rewrite::{Rewrite, Target};
use riprap_env::{Disk, DiskError};
use riprap_protocol::records::{Compression, RecordBatch};
use std::collections::{BTreeMap, BTreeSet};

/// Most memory that the keys of one pass take. What does not fit is left to the next pass. Units: bytes.
const MAP_BYTES_MAX: usize = 32 << 20;

/// What an entry of the map takes beside its key. Units: bytes.
const MAP_ENTRY_BYTES: usize = 64;

/// Most marks that are kept: with fewer, records without a value stay longer.
const MARKS_MAX: usize = 64;

const HAS_TARGET: &str = "what is rewritten has a place to go";
const IS_MAPPED: &str = "batches are rewritten when all are mapped";

/// How far a compaction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compaction {
    /// There is nothing to do.
    Idle,
    /// There is more to do.
    Going,
    /// A pass is over.
    Done {
        /// The segments' size before. Units: bytes.
        before_bytes: u64,
        /// The size of what took their place. Units: bytes.
        after_bytes: u64,
        /// Up to here the last record of each key is known.
        to: i64,
    },
}

/// A pass that is under way.
#[derive(Debug)]
pub(super) struct Cleaning {
    /// Where the map begins and ends.
    from: i64,
    to: i64,
    /// Where the last segment to be rewritten ends.
    end_offset: i64,
    last_offsets: BTreeMap<Vec<u8>, i64>,
    map_bytes: usize,
    /// By producer, where its aborted transactions began and ended.
    aborted: BTreeMap<i64, Vec<(i64, i64)>>,
    /// Below this, a record without a value and a marker may go.
    horizon: i64,
    phase: Phase,
    before_bytes: u64,
    after_bytes: u64,
}

#[derive(Debug)]
enum Phase {
    Map(Walk),
    Rewrite(Box<Rewrite>),
}

/// A walk over segments, batch by batch.
#[derive(Debug)]
struct Walk {
    /// The segment that is read.
    base_offset: i64,
    scan: Scan,
}

impl PartitionLog {
    /// Whether a pass is under way, or would be worth its while.
    pub fn wants_compaction(&self, now_ms: i64, high_watermark: i64) -> bool {
        self.config.cleanup.compact
            && !self.failed
            && (self.cleaning.is_some() || self.compactable_end(now_ms, high_watermark).is_some())
    }

    /// Whether a pass is under way.
    pub fn is_compacting(&self) -> bool {
        self.cleaning.is_some()
    }

    /// Compacts as much as can be done with so many bytes read. Below the high watermark only.
    ///
    /// Errors: the pass is given up; the log goes on as it was, unless it is [`Failed`](LogError::Failed).
    pub fn compact(
        &mut self,
        disk: &mut dyn Disk,
        now_ms: i64,
        high_watermark: i64,
        max_bytes: u64,
    ) -> Result<Compaction, LogError> {
        self.check_works()?;
        if !self.config.cleanup.compact {
            self.abandon_cleaning(disk)?;
            return Ok(Compaction::Idle);
        }
        let mut cleaning = match self.cleaning.take() {
            Some(cleaning) => cleaning,
            None => match self.begin_cleaning(now_ms, high_watermark) {
                Some(cleaning) => Box::new(cleaning),
                None => return Ok(Compaction::Idle),
            },
        };
        match self.clean(disk, now_ms, &mut cleaning, max_bytes) {
            Ok(true) => {
                let Cleaning { before_bytes, after_bytes, to, .. } = *cleaning;
                Ok(Compaction::Done { before_bytes, after_bytes, to })
            }
            Ok(false) => {
                self.cleaning = Some(cleaning);
                Ok(Compaction::Going)
            }
            Err(e) => {
                self.cleaning = Some(cleaning);
                // Whether what it left can be removed makes no difference: it is removed when the log is opened.
                let _left = self.abandon_cleaning(disk);
                Err(e)
            }
        }
    }

    /// Where the segments end that can be compacted now; none if there is too little to gain.
    fn compactable_end(&self, now_ms: i64, high_watermark: i64) -> Option<i64> {
        let stable = self.last_stable_offset(high_watermark);
        let ended = self.segments.iter().zip(self.segments.iter().skip(1));
        let old_enough = now_ms.saturating_sub(self.config.min_compaction_lag_ms);
        let able = ended.take_while(|(segment, next)| {
            next.base_offset <= stable && segment.max_timestamp_ms().is_none_or(|newest| newest <= old_enough)
        });
        let (mut end, mut clean_bytes, mut dirty_bytes, mut is_overdue) = (None, 0, 0, false);
        for (segment, next) in able {
            if next.base_offset <= self.cleaned.to {
                clean_bytes += segment.size_bytes;
                continue;
            }
            end = Some(next.base_offset);
            dirty_bytes += segment.size_bytes;
            is_overdue |= segment.age_ms(now_ms) > self.config.max_compaction_lag_ms;
        }
        let all_bytes: u64 = clean_bytes + dirty_bytes;
        let is_worth = dirty_bytes * 100 >= all_bytes * u64::from(self.config.min_dirty_percent);
        end.filter(|_| is_worth || is_overdue)
    }

    fn begin_cleaning(&mut self, now_ms: i64, high_watermark: i64) -> Option<Cleaning> {
        let end_offset = self.compactable_end(now_ms, high_watermark)?;
        let from = self.cleaned.to.max(self.start_offset);
        let mut aborted: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
        for AbortedTransaction { producer_id, first_offset, marker_offset, .. } in self.transactions.aborted()
        {
            aborted.entry(*producer_id).or_default().push((*first_offset, *marker_offset));
        }
        let first = &self.segments[self.segment_of(from)];
        let walk = Walk { base_offset: first.base_offset, scan: first.scan(first.size_bytes) };
        Some(Cleaning {
            from,
            to: from,
            end_offset,
            last_offsets: BTreeMap::new(),
            map_bytes: 0,
            aborted,
            horizon: self.cleaned.horizon(now_ms, self.config.delete_retention_ms),
            phase: Phase::Map(walk),
            before_bytes: 0,
            after_bytes: 0,
        })
    }

    /// Does one step. Says whether the pass is over.
    fn clean(
        &mut self,
        disk: &mut dyn Disk,
        now_ms: i64,
        cleaning: &mut Cleaning,
        max_bytes: u64,
    ) -> Result<bool, LogError> {
        let mut read_bytes = 0;
        while read_bytes < max_bytes {
            let batch = match &mut cleaning.phase {
                Phase::Map(walk) if cleaning.map_bytes < MAP_BYTES_MAX => {
                    self.next_batch(disk, walk, cleaning.end_offset)?
                }
                Phase::Map(_) => None,
                Phase::Rewrite(rewrite) => self.next_rewritten(disk, rewrite, cleaning.end_offset)?,
            };
            match (&mut cleaning.phase, batch) {
                (Phase::Map(_), Some(batch)) => {
                    read_bytes += batch.bytes().len() as u64;
                    self.note_keys(cleaning, &batch)?;
                }
                (Phase::Map(_), None) => {
                    // What was not mapped is of the next pass, and so are the segments that have nothing else.
                    let last = self.segments.iter().find(|next| next.base_offset >= cleaning.to);
                    let end_offset = last.map_or(cleaning.end_offset, |next| next.base_offset);
                    cleaning.end_offset = end_offset.min(cleaning.end_offset);
                    cleaning.phase = Phase::Rewrite(Box::new(self.begin_rewrite(disk)?));
                }
                (Phase::Rewrite(_), Some(batch)) => {
                    read_bytes += batch.bytes().len() as u64;
                    cleaning.rewrite(&batch, self)?;
                }
                (Phase::Rewrite(rewrite), None) => {
                    let (before_bytes, after_bytes) = self.put_in_place(disk, rewrite)?;
                    cleaning.before_bytes += before_bytes;
                    cleaning.after_bytes += after_bytes;
                    let next = rewrite.walk.base_offset;
                    if next >= cleaning.end_offset {
                        self.finish_cleaning(disk, now_ms, cleaning)?;
                        return Ok(true);
                    }
                    rewrite.target = Some(self.new_target(disk, next)?);
                }
            }
        }
        if let Phase::Rewrite(rewrite) = &mut cleaning.phase
            && let Some(target) = &mut rewrite.target
        {
            target.write(disk)?;
        }
        Ok(false)
    }

    /// The next batch of a walk that ends at an offset where a segment does.
    fn next_batch(
        &self,
        disk: &mut dyn Disk,
        walk: &mut Walk,
        end_offset: i64,
    ) -> Result<Option<RecordBatch>, LogError> {
        loop {
            let segment = &self.segments[self.segment_of(walk.base_offset)];
            let position = walk.scan.position;
            match walk.scan.next(disk)? {
                Some(Ok(batch)) => return Ok(Some(batch)),
                Some(Err(why)) => return Err(segment.corrupt(position, why.into())),
                None => {}
            }
            let next = self.segments.iter().find(|next| next.base_offset > walk.base_offset);
            let Some(next) = next.filter(|next| next.base_offset < end_offset) else {
                walk.base_offset = end_offset;
                return Ok(None);
            };
            *walk = Walk { base_offset: next.base_offset, scan: next.scan(next.size_bytes) };
        }
    }

    /// The same, for rewriting: none also where the target is to end, before a segment that would make it too large.
    fn next_rewritten(
        &self,
        disk: &mut dyn Disk,
        rewrite: &mut Rewrite,
        end_offset: i64,
    ) -> Result<Option<RecordBatch>, LogError> {
        let at = self.segment_of(rewrite.walk.base_offset);
        let segment = &self.segments[at];
        let is_at_start = rewrite.walk.scan.position == 0;
        let would_not_fit = rewrite.target.as_ref().is_some_and(|target| {
            target.segment.base_offset < segment.base_offset
                && target.size_bytes() + segment.size_bytes > self.config.segment_bytes
        });
        if is_at_start && would_not_fit {
            return Ok(None);
        }
        if rewrite.walk.scan.position < segment.size_bytes {
            return self.next_batch(disk, &mut rewrite.walk, end_offset);
        }
        let next = &self.segments[at + 1];
        rewrite.walk = Walk { base_offset: next.base_offset, scan: next.scan(next.size_bytes) };
        if next.base_offset >= end_offset {
            return Ok(None);
        }
        self.next_rewritten(disk, rewrite, end_offset)
    }

    /// Takes the keys of a batch into the map.
    fn note_keys(&self, cleaning: &mut Cleaning, batch: &RecordBatch) -> Result<(), LogError> {
        let header = batch.header();
        if header.next_offset() <= cleaning.from {
            return Ok(());
        }
        cleaning.to = header.next_offset();
        let is_plain = !header.is_control() && header.compression() == Compression::None;
        if !is_plain || cleaning.is_aborted(header) {
            return Ok(());
        }
        let segment = &self.segments[self.segment_of(header.base_offset)];
        let corrupt = |why| segment.corrupt(0, Corruption::Batch(why));
        for record in batch.records().map_err(corrupt)? {
            let record = record.map_err(corrupt)?;
            let offset = header.base_offset + i64::from(record.offset_delta);
            let Some(key) = record.key.filter(|_| offset >= cleaning.from) else { continue };
            match cleaning.last_offsets.get_mut(&key[..]) {
                Some(last) => *last = offset,
                None => {
                    cleaning.map_bytes += key.len() + MAP_ENTRY_BYTES;
                    cleaning.last_offsets.insert(key.to_vec(), offset);
                }
            }
        }
        Ok(())
    }

    fn begin_rewrite(&mut self, disk: &mut dyn Disk) -> Result<Rewrite, LogError> {
        let first = self.first();
        let walk = Walk { base_offset: first.base_offset, scan: first.scan(first.size_bytes) };
        let target = Some(self.new_target(disk, walk.base_offset)?);
        Ok(Rewrite {
            walk,
            is_blind: false,
            has_records: BTreeSet::new(),
            markers_gone: BTreeSet::new(),
            target,
        })
    }

    fn new_target(&self, disk: &mut dyn Disk, base_offset: i64) -> Result<Target, LogError> {
        let replaced = &self.segments[self.segment_of(base_offset)];
        let path = format!("{}/{}", self.dir, segment::cleaned_file_name(base_offset));
        let segment = Segment::create_cleaned(disk, path, replaced)?;
        Ok(Target::new(segment))
    }

    /// Puts the target in the place of the segments that were gone through since it was begun. Returns their size and its
    /// own.
    fn put_in_place(&mut self, disk: &mut dyn Disk, rewrite: &mut Rewrite) -> Result<(u64, u64), LogError> {
        let interval = self.config.index_interval_bytes;
        let Rewrite { target: slot, walk, markers_gone, .. } = rewrite;
        let target = slot.as_mut().expect(HAS_TARGET);
        target.fill_hole(interval);
        target.write(disk)?;
        let first = self.segment_of(target.segment.base_offset);
        let count = self.segments[first..].iter().take_while(|s| s.base_offset < walk.base_offset).count();
        self.failed = true;
        let path = self.segments[first].path.clone();
        let mut had_index = false;
        for replaced in &self.segments[first..first + count] {
            had_index |= index::remove(disk, &replaced.path)?;
        }
        if had_index {
            disk.sync_dir(&self.dir)?;
        }
        disk.rename(&target.segment.path, &path)?;
        disk.sync_dir(&self.dir)?;
        for replaced in &self.segments[first + 1..first + count] {
            disk.remove(&replaced.path)?;
        }
        if count > 1 {
            disk.sync_dir(&self.dir)?;
        }
        let mut segment = slot.take().expect(HAS_TARGET).segment;
        segment.path = path;
        let after_bytes = segment.size_bytes;
        let replaced: Vec<Segment> = self.segments.splice(first..first + count, [segment]).collect();
        self.transactions.forget_markers(markers_gone);
        markers_gone.clear();
        let next = &self.segments[first + 1];
        self.write_index(disk, first, next.base_offset, &next.producers_before);
        self.failed = false;
        let before_bytes = replaced.iter().map(|segment| segment.size_bytes).sum();
        for segment in replaced {
            disk.close(segment.file);
        }
        Ok((before_bytes, after_bytes))
    }

    fn finish_cleaning(
        &mut self,
        disk: &mut dyn Disk,
        now_ms: i64,
        cleaning: &Cleaning,
    ) -> Result<(), LogError> {
        let Cleaning { to, end_offset, .. } = *cleaning;
        self.transactions.forget_aborted(end_offset);
        self.cleaned.to = to;
        let oldest = now_ms.saturating_sub(self.config.delete_retention_ms);
        let marks = &mut self.cleaned.marks;
        marks.push(Mark { offset: to, time_ms: now_ms });
        // The newest of those that are old enough says all that the older ones do.
        let old = marks.iter().filter(|mark| mark.time_ms <= oldest).count();
        marks.drain(..old.saturating_sub(1));
        if marks.len() > MARKS_MAX {
            marks.remove(1);
        }
        let start_offset = self.start_offset;
        self.write_checkpoint(disk, start_offset)
    }

    /// Gives up a pass: what it had put in place stays.
    pub(super) fn abandon_cleaning(&mut self, disk: &mut dyn Disk) -> Result<(), DiskError> {
        let Some(cleaning) = self.cleaning.take() else { return Ok(()) };
        let Phase::Rewrite(rewrite) = cleaning.phase else { return Ok(()) };
        let Some(target) = rewrite.target else { return Ok(()) };
        disk.close(target.segment.file);
        disk.remove(&target.segment.path)
    }
}
