//! What is left of each batch when a log is compacted, and the segment that it goes to.

use super::{Cleaning, HAS_TARGET, IS_MAPPED, Phase, Walk};
use crate::log::segment::Segment;
use crate::log::{Corruption, LogError, PartitionLog};
use riprap_env::{Disk, DiskError};
use riprap_protocol::records::{BatchHeader, Compression, EndTxnMarker, Record, RecordBatch, Retained};
use std::collections::BTreeSet;

/// How far the rewriting of a log is.
#[derive(Debug)]
pub(super) struct Rewrite {
    pub(super) walk: Walk,
    /// A compressed batch was passed.
    pub(super) is_blind: bool,
    /// The producers of whose transaction records were kept.
    pub(super) has_records: BTreeSet<i64>,
    /// Markers that were not kept.
    pub(super) markers_gone: BTreeSet<i64>,
    /// None only while one takes its place.
    pub(super) target: Option<Target>,
}

/// What will take the place of one or more segments.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) segment: Segment,
    /// What is not written yet.
    pub(super) bytes: Vec<u8>,
    pub(super) written_bytes: u64,
    /// Offsets of which nothing is left, since the last batch that was kept: the first, the last, and their leader epoch.
    pub(super) hole: Option<(i64, i64, i32)>,
}

impl Cleaning {
    /// Whether a batch is of a transaction that was aborted. A producer's transactions follow on each other.
    pub(super) fn is_aborted(&self, header: &BatchHeader) -> bool {
        let aborted = self.aborted.get(&header.producer_id).filter(|_| header.is_transactional());
        aborted.is_some_and(|aborted| {
            let at = aborted.partition_point(|(_, marker)| *marker <= header.base_offset);
            aborted.get(at).is_some_and(|(first, _)| *first <= header.base_offset)
        })
    }

    /// Whether a record is kept.
    fn keeps(&self, is_blind: bool, start_offset: i64, offset: i64, record: &Record) -> bool {
        if offset < start_offset {
            return false;
        }
        let Some(key) = &record.key else { return offset >= self.to };
        let is_last = self.last_offsets.get(&key[..]).is_none_or(|last| *last <= offset);
        is_last && (record.value.is_some() || offset >= self.horizon || is_blind)
    }

    /// Takes what is left of a batch into the target.
    pub(super) fn rewrite(&mut self, batch: &RecordBatch, log: &PartitionLog) -> Result<(), LogError> {
        let header = *batch.header();
        let is_aborted = self.is_aborted(&header);
        let mut is_blind = match &self.phase {
            Phase::Rewrite(rewrite) => rewrite.is_blind,
            Phase::Map(_) => unreachable!("{IS_MAPPED}"),
        };
        let is_compressed = header.compression() != Compression::None && header.record_count > 0;
        let left = if is_aborted {
            Retained::Nothing
        } else if header.is_control() {
            Retained::All
        } else if is_compressed {
            is_blind = true;
            Retained::All
        } else {
            let kept = batch.retain(|offset, record| self.keeps(is_blind, log.start_offset, offset, record));
            kept.map_err(|why| {
                log.segments[log.segment_of(header.base_offset)].corrupt(0, Corruption::Batch(why))
            })?
        };
        let horizon = self.horizon;
        let Phase::Rewrite(rewrite) = &mut self.phase else { unreachable!("{IS_MAPPED}") };
        rewrite.is_blind = is_blind;
        let Rewrite { target, has_records, markers_gone, .. } = &mut **rewrite;
        let target = target.as_mut().expect(HAS_TARGET);
        let interval = log.config.index_interval_bytes;
        let is_remembered = log.producers.remembers(&header);
        match left {
            _ if EndTxnMarker::of(batch).is_some() => {
                let had_records = has_records.remove(&header.producer_id);
                if had_records || is_remembered || header.base_offset >= horizon {
                    target.keep(batch, interval);
                } else {
                    markers_gone.insert(header.base_offset);
                    target.leave_out(&header, interval);
                }
            }
            Retained::All if header.record_count > 0 => {
                if header.is_transactional() {
                    has_records.insert(header.producer_id);
                }
                target.keep(batch, interval);
            }
            Retained::Part(part) => {
                if header.is_transactional() {
                    has_records.insert(header.producer_id);
                }
                target.keep(&part, interval);
            }
            Retained::All | Retained::Nothing if is_remembered => {
                target.keep(&batch.without_records(), interval);
            }
            Retained::All | Retained::Nothing => target.leave_out(&header, interval),
        }
        Ok(())
    }
}

impl Target {
    pub(super) fn new(segment: Segment) -> Target {
        Target { segment, bytes: Vec::new(), written_bytes: 0, hole: None }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.written_bytes + self.bytes.len() as u64
    }

    fn keep(&mut self, batch: &RecordBatch, index_interval_bytes: u64) {
        self.fill_hole(index_interval_bytes);
        self.push(batch, index_interval_bytes);
    }

    fn push(&mut self, batch: &RecordBatch, index_interval_bytes: u64) {
        self.bytes.extend_from_slice(batch.bytes());
        self.segment.append(batch.header(), index_interval_bytes);
    }

    fn leave_out(&mut self, header: &BatchHeader, index_interval_bytes: u64) {
        let (base, last, epoch) = (header.base_offset, header.last_offset(), header.leader_epoch);
        let first = match self.hole {
            Some((first, _, of)) if of == epoch && last - first <= i64::from(i32::MAX) => first,
            _ => {
                self.fill_hole(index_interval_bytes);
                base
            }
        };
        self.hole = Some((first, last, epoch));
    }

    pub(super) fn fill_hole(&mut self, index_interval_bytes: u64) {
        if let Some((first, last, epoch)) = self.hole.take() {
            self.push(&RecordBatch::filler(first, last, epoch), index_interval_bytes);
        }
    }

    /// Writes what there is, durably: a bit at a time, so that no sync takes long.
    pub(super) fn write(&mut self, disk: &mut dyn Disk) -> Result<(), DiskError> {
        if !self.bytes.is_empty() {
            disk.write_at(self.segment.file, self.written_bytes, &self.bytes)?;
            disk.sync(self.segment.file)?;
            self.written_bytes += self.bytes.len() as u64;
            self.bytes.clear();
        }
        Ok(())
    }
}
