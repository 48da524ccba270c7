//! The log of one partition, and the state that is derived from it: leader epochs, producers and their
//! transactions.
//!
//! ```text
//! DIR/00000000000000000000.log    segments, named by the first offset in them
//! DIR/00000000000000001234.log    record batches, one after the other, offsets and leader epochs written in
//! DIR/checkpoint                  where the log begins, once that is not where its first segment does; see `compact`
//! DIR/00000000000000000000.index  what was learned from a segment that has ended
//! ```
//! Index, leader epochs and producer state come from the batches. Opening reads those of the last segment, and of any other
//! whose index is missing, and checks each CRC; of the rest, each is checked when it is read.
//!
//! What is durable when, so that a power failure at any moment leaves a log that opens and has what was promised:
//! - an append is durable after [`sync`](PartitionLog::sync), whose reach is
//!   [`durable_end_offset`](PartitionLog::durable_end_offset);
//! - only the last segment is ever dirty: a segment is synced before the next one is made;
//! - truncation, reset, a start that moved up and the cut of a broken tail are durable when they return: otherwise what was cut could come
//!   back behind what was appended in its place.
//!
//! Offsets are without gaps, compacted or not (see `compact`): each batch continues where the one before ends, and what does
//! not is corruption.
//!
//! A broken tail of the last segment that was never synced is cut, and [`Recovery`] tells. One that is whole but for a bit has
//! rotted, and is an error: what it held may have been committed (see `rot`). Kafka cuts both.
//!
//! What it cannot see: that more bits than one of the last batches have rotted; it is cut like a torn tail.

mod append;
mod checkpoint;
mod compact;
mod epochs;
mod error;
pub(crate) mod files;
mod index;
mod producers;
mod read;
pub(crate) mod removal;
mod rot;
mod segment;
mod settings;
mod start;
mod transactions;
mod truncate;

pub use compact::Compaction;
pub use epochs::EpochEnd;
pub use error::{AppendError, Corruption, LogError, ReadError};
pub use producers::{MarkerCheck, ProducerCheck, ProducerSummary};
pub use settings::{Cleanup, LogConfig};
pub use transactions::AbortedTransaction;

use checkpoint::{Checkpoint, Cleaned};
use compact::Cleaning;
use epochs::LeaderEpochs;
use producers::Producers;
use riprap_env::{Disk, DiskError, sync_dir_and_parents};
use riprap_protocol::records::{BatchHeader, EndTxnMarker};
use segment::{Scan, Segment};
use transactions::Transactions;

/// What was found when a log was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// Whole batches read: those of segments without an index.
    pub batches: u64,
    /// The tail that was broken, and is gone now.
    pub cut: Option<Cut>,
}

/// A broken tail that was cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The last segment's file.
    pub path: String,
    /// Where the file ends now. Units: bytes.
    pub position: u64,
    /// How much was cut. Units: bytes.
    pub size_bytes: u64,
    /// The offset at which the log ends now.
    pub offset: i64,
    /// What was wrong with the first bytes of what was cut.
    pub why: Corruption,
}

/// What an append did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// The offset of the first record.
    pub first_offset: i64,
    /// The offset of the last record.
    pub last_offset: i64,
    /// The leader's time that the records got, under [`TimestampType::LogAppendTime`]. Units: milliseconds since 1970.
    pub log_append_time_ms: Option<i64>,
}

/// Where a read ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadLimits {
    /// Batches that reach this offset or beyond are not read: the high watermark, the log's end.
    pub below_offset: i64,
    /// No more than this many bytes are read.
    pub max_bytes: usize,
    /// The first batch is read though it is larger than that, so that a consumer gets on (KIP-74).
    pub at_least_one_batch: bool,
}

/// The answer to a look-up by time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimestampOffset {
    /// The record's offset.
    pub offset: i64,
    /// Its timestamp. Units: milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The epoch of the leader that appended it.
    pub leader_epoch: i32,
}

/// The log of one partition. Its methods take the disk that it was opened on.
#[derive(Debug)]
pub struct PartitionLog {
    dir: String,
    config: LogConfig,
    /// Never empty but in the midst of a reset; offsets rise, and only the last is written to.
    segments: Vec<Segment>,
    epochs: LeaderEpochs,
    producers: Producers,
    transactions: Transactions,
    /// Within the first segment or at its end.
    start_offset: i64,
    log_end_offset: i64,
    durable_end_offset: i64,
    /// The last segment's name is not durable yet.
    name_is_new: bool,
    /// A failed write may have left bytes behind the last segment's end.
    tail_is_unclean: bool,
    failed: bool,
    cleaned: Cleaned,
    cleaning: Option<Box<Cleaning>>,
}

impl PartitionLog {
    /// Opens the log in a folder, which is created if it is not there: a new log begins at offset 0. A removal that was cut
    /// short is finished before. A broken tail of the last segment is cut. What is in the log then is durable.
    ///
    /// Errors: [`LogError::Corrupt`] and [`LogError::Gap`] if anything before the last segment is broken.
    pub fn open(
        disk: &mut dyn Disk,
        dir: &str,
        config: LogConfig,
    ) -> Result<(PartitionLog, Recovery), LogError> {
        removal::finish(disk, dir)?;
        let mut log = PartitionLog {
            dir: dir.to_owned(),
            config,
            segments: Vec::new(),
            epochs: LeaderEpochs::default(),
            producers: Producers::default(),
            transactions: Transactions::default(),
            start_offset: 0,
            log_end_offset: 0,
            durable_end_offset: 0,
            name_is_new: true,
            tail_is_unclean: false,
            failed: false,
            cleaned: Cleaned::default(),
            cleaning: None,
        };
        match log.load(disk) {
            Ok(recovery) => Ok((log, recovery)),
            Err(e) => {
                log.close(disk);
                Err(e)
            }
        }
    }

    fn load(&mut self, disk: &mut dyn Disk) -> Result<Recovery, LogError> {
        let checkpoint = Checkpoint::read(disk, &self.dir)?;
        let names = disk.list(&self.dir)?;
        let mut bases: Vec<i64> = names.iter().filter_map(|name| segment::parse_file_name(name)).collect();
        if bases.is_empty() {
            bases.push(checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.start_offset));
        }
        self.start_offset = checkpoint.as_ref().map_or(bases[0], |checkpoint| checkpoint.start_offset);
        self.cleaned = checkpoint.map(|checkpoint| checkpoint.cleaned).unwrap_or_default();
        for name in names.iter().filter(|name| segment::is_cleaned_file_name(name)) {
            disk.remove(&format!("{}/{name}", self.dir))?;
        }
        // What a removal that was cut short has left.
        let below = bases.partition_point(|base| *base <= self.start_offset).saturating_sub(1);
        for base in bases.drain(..below) {
            let path = format!("{}/{}", self.dir, segment::file_name(base));
            disk.remove(&path)?;
            index::remove(disk, &path)?;
        }
        self.log_end_offset = bases[0].min(self.start_offset);
        let mut recovery = Recovery::default();
        let mut unindexed = Vec::new();
        for (index, base) in bases.iter().enumerate() {
            let segment = Segment::open(disk, &self.dir, *base, &self.producers)?;
            let path = segment.path.clone();
            if *base < self.log_end_offset {
                // What a compaction has put into the segment before.
                disk.close(segment.file);
                disk.remove(&path)?;
                index::remove(disk, &path)?;
                continue;
            }
            if let Some(before) = self.segments.last_mut() {
                before.end();
            }
            self.segments.push(segment);
            if *base != self.log_end_offset {
                return Err(LogError::Gap { path, expected: self.log_end_offset, found: *base });
            }
            let size = disk.len(self.last().file)?;
            if index + 1 < bases.len() && self.restore_from_index(disk, size)? {
                continue;
            }
            let broken = self.scan_last(disk, size, &mut recovery.batches)?;
            if broken.is_none() && index + 1 < bases.len() {
                unindexed.push(self.segments.len() - 1);
            }
            if let Some((position, why)) = broken {
                let tail = self.last().read(disk, position, size - position)?;
                if index + 1 < bases.len() || rot::has_rotted(&tail) {
                    return Err(LogError::Corrupt { path, position, why });
                }
                disk.truncate(self.last().file, position)?;
                let offset = self.log_end_offset;
                recovery.cut = Some(Cut { path, position, size_bytes: size - position, offset, why });
            }
        }
        for at in unindexed {
            if let Some(next) = self.segments.get(at + 1) {
                self.write_index(disk, at, next.base_offset, &next.producers_before);
            }
        }
        if self.log_end_offset < self.start_offset {
            // A beginning anew was cut short, or what was lost had been deleted but for its bytes.
            let start_offset = self.start_offset;
            self.begin_anew(disk, start_offset, start_offset)?;
        }
        self.forget_below_start();
        if self.cleaned.truncate(self.log_end_offset) {
            let start_offset = self.start_offset;
            self.write_checkpoint(disk, start_offset)?;
        }
        // What was read may have been in memory only: a process that crashed before its sync leaves that behind.
        disk.sync(self.last().file)?;
        sync_dir_and_parents(disk, &self.dir)?;
        self.name_is_new = false;
        self.durable_end_offset = self.log_end_offset;
        Ok(recovery)
    }

    /// Reads the last segment's batches and takes them in, up to the first broken one, which is returned.
    fn scan_last(
        &mut self,
        disk: &mut dyn Disk,
        size_bytes: u64,
        batches: &mut u64,
    ) -> Result<Option<(u64, Corruption)>, DiskError> {
        let mut scan: Scan = self.last().scan(size_bytes);
        loop {
            let position = scan.position;
            let batch = match scan.next(disk)? {
                None => return Ok(None),
                Some(Err(why)) => return Ok(Some((position, why.into()))),
                Some(Ok(batch)) => batch,
            };
            if let Err(why) = self.check_next(batch.header(), self.log_end_offset, self.epochs.last()) {
                return Ok(Some((position, why)));
            }
            self.take_in(batch.header(), EndTxnMarker::of(&batch));
            *batches += 1;
        }
    }

    /// Closes the log's files. What was appended and not synced is not made durable.
    pub fn close(self, disk: &mut dyn Disk) {
        for segment in self.segments {
            disk.close(segment.file);
        }
    }

    /// How the log is kept.
    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Keeps the log otherwise from now on.
    pub fn set_config(&mut self, config: LogConfig) {
        self.config = config;
    }

    /// How much its batches take on the disk.
    pub fn size_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.size_bytes).sum()
    }

    /// The producers that are remembered, by id.
    pub fn producers(&self) -> impl Iterator<Item = ProducerSummary> + '_ {
        self.producers.summaries()
    }

    /// The first offset of the log. It may lie within a batch.
    pub fn log_start_offset(&self) -> i64 {
        self.start_offset
    }

    /// The offset that the next record will get.
    pub fn log_end_offset(&self) -> i64 {
        self.log_end_offset
    }

    /// All below this offset survives a power failure.
    pub fn durable_end_offset(&self) -> i64 {
        self.durable_end_offset
    }

    /// Whether [`sync`](PartitionLog::sync) has something to do.
    pub fn is_dirty(&self) -> bool {
        self.durable_end_offset < self.log_end_offset
    }

    /// The leader epoch of the last batch; none in an empty log.
    pub fn last_leader_epoch(&self) -> Option<i32> {
        self.epochs.last()
    }

    /// Errors: the log ends with a batch of a later leader epoch than the newest that there has been.
    pub(crate) fn check_known(&self, known: i32) -> Result<(), LogError> {
        match self.epochs.last() {
            Some(found) if found > known => {
                Err(LogError::UnknownEpoch { dir: self.dir.clone(), found, known })
            }
            _ => Ok(()),
        }
    }

    /// The leader epoch of the batch that contains an offset of the log.
    pub fn leader_epoch_of(&self, offset: i64) -> Option<i32> {
        if offset < self.log_end_offset { self.epochs.of_offset(offset) } else { None }
    }

    /// The largest leader epoch in the log up to `requested`, and the offset at which it ends. Below the log's first
    /// epoch: the requested one, ending where the log begins. None: the log is empty.
    ///
    /// Source: KIP-101, KIP-279; LeaderEpochFileCache#endOffsetFor.
    pub fn end_offset_for_epoch(&self, requested: i32) -> Option<EpochEnd> {
        self.epochs.end_of(requested, self.log_end_offset)
    }

    /// What a batch that a client sent would be to its producer's state: ask before appending it as leader.
    ///
    /// A producer that the log does not know, and a new epoch of a known one, begin at sequence number 0; Kafka lets the
    /// former begin anywhere. Source: ProducerAppendInfo#checkSequence.
    pub fn check_producer(&self, batch: &BatchHeader) -> ProducerCheck {
        self.producers.check(batch)
    }

    /// What a marker that a coordinator wants written would be to its producer's state: ask before appending it.
    pub fn check_marker(&self, producer_id: i64, producer_epoch: i16, coordinator_epoch: i32) -> MarkerCheck {
        self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch)
    }

    /// Whether a batch may come at `next_offset`, after a batch of leader epoch `last_epoch`.
    fn check_next(
        &self,
        batch: &BatchHeader,
        next_offset: i64,
        last_epoch: Option<i32>,
    ) -> Result<(), Corruption> {
        let BatchHeader { base_offset, leader_epoch, .. } = *batch;
        // Before the first batch the epoch has to be one at all.
        let last = last_epoch.unwrap_or(0);
        if base_offset != next_offset {
            return Err(Corruption::Offset { expected: next_offset, found: base_offset });
        }
        if leader_epoch < last {
            return Err(Corruption::LeaderEpoch { last, found: leader_epoch });
        }
        Ok(())
    }

    /// Takes a batch that is in the last segment's file into all that is derived from it.
    fn take_in(&mut self, header: &BatchHeader, marker: Option<EndTxnMarker>) {
        let interval = self.config.index_interval_bytes;
        self.last_mut().append(header, interval);
        self.epochs.append(header.leader_epoch, header.base_offset.max(self.start_offset));
        self.take_in_producer(header, marker);
        self.log_end_offset = header.next_offset();
    }

    /// Forgets producers that were not heard of for so long, by the broker's clock. Called every so often: it is also how the
    /// log knows the time.
    pub fn expire_producers(&mut self, now_ms: i64, expiration_ms: i64) {
        self.producers.expire(now_ms, expiration_ms);
    }

    /// Whether the log gave up after a disk error; see [`LogError::Failed`].
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    fn check_works(&self) -> Result<(), LogError> {
        if self.failed { Err(LogError::Failed(self.dir.clone())) } else { Ok(()) }
    }

    /// The index of the segment that contains an offset of the log.
    fn segment_of(&self, offset: i64) -> usize {
        self.segments.partition_point(|segment| segment.base_offset <= offset) - 1
    }

    fn first(&self) -> &Segment {
        self.segments.first().expect("a log has a segment at all times")
    }

    fn last(&self) -> &Segment {
        self.segments.last().expect("a log has a segment at all times")
    }

    fn last_mut(&mut self) -> &mut Segment {
        self.segments.last_mut().expect("a log has a segment at all times")
    }
}

#[cfg(test)]
mod tests;
