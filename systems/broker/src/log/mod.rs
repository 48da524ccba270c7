//! The log of one partition, and the state that is derived from it: leader epochs and producers.
//!
//! ```text
//! DIR/00000000000000000000.log    segments, named by the first offset in them
//! DIR/00000000000000001234.log    record batches, one after the other, offsets and leader epochs written in
//! ```
//! Nothing else is stored. Index, leader epochs and producer state are made anew from the batches on opening, which
//! reads all of the log and checks each CRC.
//!
//! What is durable when, so that a power failure at any moment leaves a log that opens and has what was promised:
//! - an append is durable after [`sync`](PartitionLog::sync), whose reach is
//!   [`durable_end_offset`](PartitionLog::durable_end_offset);
//! - only the last segment is ever dirty: a segment is synced before the next one is made;
//! - truncation, reset and the cut of a broken tail are durable when they return: otherwise what was cut could come
//!   back behind what was appended in its place.
//!
//! Offsets are without gaps: each batch continues where the one before ends, and what does not is corruption.
//!
//! What it cannot see: whether a broken tail of the last segment was never synced, or was synced and rotted since. It
//! is cut in both cases, as in Kafka, and [`Recovery`] tells.

mod epochs;
mod error;
mod producers;
mod segment;

pub use epochs::EpochEnd;
pub use error::{AppendError, Corruption, LogError, ReadError};
pub use producers::ProducerCheck;

use bytes::Bytes;
use epochs::LeaderEpochs;
use producers::Producers;
use riprap_env::{Disk, DiskError, sync_dir_and_parents};
use riprap_protocol::records::{
    BatchError, BatchHeader, Compression, RecordBatch, TimestampType, set_log_append_time,
    set_offset_and_epoch, split_batches,
};
use segment::{Place, Scan, Segment};

/// How a log is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// A segment that would grow past this is ended, unless it is empty.
    pub segment_bytes: u64,
    /// How many bytes of batches share an entry of the index.
    pub index_interval_bytes: u64,
    /// The largest batch that a leader appends.
    pub max_batch_bytes: usize,
    /// Whose clock the timestamps are from.
    pub timestamp_type: TimestampType,
}

impl Default for LogConfig {
    /// Kafka's defaults: `segment.bytes`, `index.interval.bytes`, `max.message.bytes`, `message.timestamp.type`.
    fn default() -> LogConfig {
        LogConfig {
            segment_bytes: 1 << 30,
            index_interval_bytes: 4096,
            max_batch_bytes: (1 << 20) + 12,
            timestamp_type: TimestampType::CreateTime,
        }
    }
}

/// What was found when a log was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// Whole batches read.
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
    log_end_offset: i64,
    durable_end_offset: i64,
    /// The last segment's name is not durable yet.
    name_is_new: bool,
    /// A failed write may have left bytes behind the last segment's end.
    tail_is_unclean: bool,
    failed: bool,
}

impl PartitionLog {
    /// Opens the log in a folder, which is created if it is not there: a new log begins at offset 0. A broken tail of
    /// the last segment is cut. What is in the log then is durable.
    ///
    /// Errors: [`LogError::Corrupt`] and [`LogError::Gap`] if anything before the last segment is broken.
    pub fn open(
        disk: &mut dyn Disk,
        dir: &str,
        config: LogConfig,
    ) -> Result<(PartitionLog, Recovery), LogError> {
        let mut log = PartitionLog {
            dir: dir.to_owned(),
            config,
            segments: Vec::new(),
            epochs: LeaderEpochs::default(),
            producers: Producers::default(),
            log_end_offset: 0,
            durable_end_offset: 0,
            name_is_new: true,
            tail_is_unclean: false,
            failed: false,
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
        let names = disk.list(&self.dir)?;
        let mut bases: Vec<i64> = names.iter().filter_map(|name| segment::parse_file_name(name)).collect();
        if bases.is_empty() {
            bases.push(0);
        }
        self.log_end_offset = bases[0];
        let mut recovery = Recovery::default();
        for (index, base) in bases.iter().enumerate() {
            let segment = Segment::open(disk, &self.dir, *base, &self.producers)?;
            let path = segment.path.clone();
            self.segments.push(segment);
            if *base != self.log_end_offset {
                return Err(LogError::Gap { path, expected: self.log_end_offset, found: *base });
            }
            let size = disk.len(self.last().file)?;
            let broken = self.scan_last(disk, size, &mut recovery.batches)?;
            if let Some((position, why)) = broken {
                if index + 1 < bases.len() {
                    return Err(LogError::Corrupt { path, position, why });
                }
                disk.truncate(self.last().file, position)?;
                let offset = self.log_end_offset;
                recovery.cut = Some(Cut { path, position, size_bytes: size - position, offset, why });
            }
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
            let header = match scan.next(disk)? {
                None => return Ok(None),
                Some(Err(why)) => return Ok(Some((position, why.into()))),
                Some(Ok(batch)) => *batch.header(),
            };
            if let Err(why) = self.check_next(&header, self.log_end_offset, self.epochs.last()) {
                return Ok(Some((position, why)));
            }
            self.take_in(&header);
            *batches += 1;
        }
    }

    /// Closes the log's files. What was appended and not synced is not made durable.
    pub fn close(self, disk: &mut dyn Disk) {
        for segment in self.segments {
            disk.close(segment.file);
        }
    }

    /// The first offset in the log.
    pub fn log_start_offset(&self) -> i64 {
        self.segments.first().map_or(self.log_end_offset, |first| first.base_offset)
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
    /// A producer that the log does not know may begin at any sequence number (its batches may be gone from the log);
    /// a new epoch of a known one begins at 0. Source: ProducerAppendInfo#checkSequence.
    pub fn check_producer(&self, batch: &BatchHeader) -> ProducerCheck {
        self.producers.check(batch)
    }

    /// Appends batches that a producer sent: gives them the next offsets and the leader's epoch.
    ///
    /// Neither duplicates nor control batches are refused: see [`check_producer`](PartitionLog::check_producer) and
    /// [`BatchHeader::is_control`].
    pub fn append_as_leader(
        &mut self,
        disk: &mut dyn Disk,
        batches: Bytes,
        leader_epoch: i32,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let mut bytes = Vec::with_capacity(batches.len());
        let mut headers: Vec<BatchHeader> = Vec::new();
        let mut next_offset = self.log_end_offset;
        for batch in split_batches(batches) {
            let batch = batch?;
            self.check_from_producer(&batch)?;
            let start = bytes.len();
            bytes.extend_from_slice(batch.bytes());
            let placed = &mut bytes[start..];
            set_offset_and_epoch(placed, next_offset, leader_epoch);
            if self.config.timestamp_type == TimestampType::LogAppendTime {
                set_log_append_time(placed, now_ms);
            }
            let header = BatchHeader::parse(placed)?;
            next_offset = header.next_offset();
            headers.push(header);
        }
        let log_append_time_ms = match self.config.timestamp_type {
            TimestampType::CreateTime => None,
            TimestampType::LogAppendTime => Some(now_ms),
        };
        let appended = self.append(disk, &bytes, &headers)?;
        Ok(Appended { log_append_time_ms, ..appended })
    }

    fn check_from_producer(&self, batch: &RecordBatch) -> Result<(), AppendError> {
        let BatchHeader { size_bytes, producer_id, producer_epoch, base_sequence, .. } = *batch.header();
        let max_bytes = self.config.max_batch_bytes;
        if size_bytes > max_bytes {
            return Err(AppendError::TooLarge { size_bytes, max_bytes });
        }
        batch.check_for_append()?;
        let in_sequence = producer_epoch >= 0 && (base_sequence >= 0 || batch.header().is_control());
        if batch.header().has_producer() && !in_sequence {
            return Err(AppendError::Sequence { producer_id, producer_epoch, base_sequence });
        }
        Ok(())
    }

    /// Appends batches fetched from the leader, with its offsets and epochs: they continue the log exactly.
    pub fn append_as_follower(
        &mut self,
        disk: &mut dyn Disk,
        batches: Bytes,
    ) -> Result<Appended, AppendError> {
        let mut headers = Vec::new();
        for batch in split_batches(batches.clone()) {
            headers.push(*batch?.header());
        }
        self.append(disk, &batches, &headers)
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

    fn append(
        &mut self,
        disk: &mut dyn Disk,
        bytes: &[u8],
        headers: &[BatchHeader],
    ) -> Result<Appended, AppendError> {
        let (Some(first), Some(last)) = (headers.first(), headers.last()) else {
            return Err(AppendError::Empty);
        };
        let (mut next_offset, mut last_epoch) = (self.log_end_offset, self.epochs.last());
        for header in headers {
            self.check_next(header, next_offset, last_epoch).map_err(AppendError::Discontinuous)?;
            (next_offset, last_epoch) = (header.next_offset(), Some(header.leader_epoch));
        }
        self.write(disk, bytes)?;
        for header in headers {
            self.take_in(header);
        }
        Ok(Appended {
            first_offset: first.base_offset,
            last_offset: last.last_offset(),
            log_append_time_ms: None,
        })
    }

    /// Writes bytes at the log's end, in a new segment if they would make the last one too large.
    fn write(&mut self, disk: &mut dyn Disk, bytes: &[u8]) -> Result<(), LogError> {
        self.check_works()?;
        if self.tail_is_unclean {
            self.clean_tail(disk)?;
        }
        let size_bytes = self.last().size_bytes;
        if size_bytes > 0 && size_bytes + bytes.len() as u64 > self.config.segment_bytes {
            self.roll(disk)?;
        }
        let Segment { file, size_bytes, .. } = *self.last();
        if let Err(e) = disk.write_at(file, size_bytes, bytes) {
            self.tail_is_unclean = true;
            return Err(e.into());
        }
        Ok(())
    }

    /// Cuts what a failed write left, durably before anything is written in its place: behind a shorter batch, whole
    /// batches of the failed write would still be there, and would follow on it.
    fn clean_tail(&mut self, disk: &mut dyn Disk) -> Result<(), LogError> {
        let Segment { file, size_bytes, .. } = *self.last();
        disk.truncate(file, size_bytes)?;
        self.sync_last(disk)?;
        self.tail_is_unclean = false;
        Ok(())
    }

    /// Ends the last segment and begins the next. The one that ends is durable before.
    fn roll(&mut self, disk: &mut dyn Disk) -> Result<(), LogError> {
        self.sync(disk)?;
        self.segments.push(Segment::open(disk, &self.dir, self.log_end_offset, &self.producers)?);
        self.name_is_new = true;
        Ok(())
    }

    /// Takes a batch that is in the last segment's file into all that is derived from it.
    fn take_in(&mut self, header: &BatchHeader) {
        let interval = self.config.index_interval_bytes;
        self.last_mut().append(header, interval);
        self.epochs.append(header.leader_epoch, header.base_offset);
        self.producers.append(header);
        self.log_end_offset = header.next_offset();
    }

    /// Makes all that was appended durable. Does nothing if it is.
    ///
    /// Errors: after a failed sync the log is [`Failed`](LogError::Failed), for what it left unsynced may never become
    /// durable, and the next sync would not say so.
    pub fn sync(&mut self, disk: &mut dyn Disk) -> Result<(), LogError> {
        self.check_works()?;
        if self.is_dirty() {
            self.sync_last(disk)?;
        }
        Ok(())
    }

    fn sync_last(&mut self, disk: &mut dyn Disk) -> Result<(), LogError> {
        self.failed = true;
        disk.sync(self.last().file)?;
        if self.name_is_new {
            disk.sync_dir(&self.dir)?;
            self.name_is_new = false;
        }
        self.durable_end_offset = self.log_end_offset;
        self.failed = false;
        Ok(())
    }

    /// Reads whole batches, from the one that contains `from_offset` on. At the log's end: nothing.
    pub fn read(
        &self,
        disk: &mut dyn Disk,
        from_offset: i64,
        limits: ReadLimits,
    ) -> Result<Bytes, ReadError> {
        self.check_works()?;
        let (log_start_offset, log_end_offset) = (self.log_start_offset(), self.log_end_offset);
        if from_offset < log_start_offset || from_offset > log_end_offset {
            return Err(ReadError::OffsetOutOfRange {
                offset: from_offset,
                log_start_offset,
                log_end_offset,
            });
        }
        if from_offset >= limits.below_offset.min(log_end_offset) {
            return Ok(Bytes::new());
        }
        Ok(self.read_batches(disk, from_offset, limits)?)
    }

    fn read_batches(
        &self,
        disk: &mut dyn Disk,
        from_offset: i64,
        limits: ReadLimits,
    ) -> Result<Bytes, LogError> {
        let start = self.segment_of(from_offset);
        let Place { mut position, header: first } = self.segments[start].find(disk, from_offset)?;
        let mut max_bytes = limits.max_bytes;
        if limits.at_least_one_batch {
            max_bytes = max_bytes.max(first.size_bytes);
        }
        let mut pieces: Vec<Bytes> = Vec::new();
        for segment in &self.segments[start..] {
            let end = segment.position_past(limits.below_offset);
            let want = end.saturating_sub(position).min(max_bytes as u64);
            let chunk = segment.read(disk, position, want)?;
            let mut taken = 0;
            while let Some(rest) = chunk.get(taken..).filter(|rest| !rest.is_empty()) {
                match BatchHeader::parse(rest) {
                    Ok(header)
                        if header.size_bytes <= rest.len() && header.next_offset() <= limits.below_offset =>
                    {
                        taken += header.size_bytes;
                    }
                    Ok(_) | Err(BatchError::CutOff { .. }) => break,
                    Err(why) => return Err(segment.corrupt(position + taken as u64, why.into())),
                }
            }
            max_bytes -= taken;
            let whole_segment = position + taken as u64 == segment.size_bytes;
            pieces.push(chunk.slice(..taken));
            if !whole_segment {
                break;
            }
            position = 0;
        }
        Ok(match <[Bytes; 1]>::try_from(pieces) {
            Ok([only]) => only,
            Err(pieces) => pieces.concat().into(),
        })
    }

    /// Finds the first record whose timestamp is at least this. None: all are older.
    ///
    /// In compressed batches records cannot be told apart: the batch's first offset stands for the record, so that
    /// nothing is missed.
    pub fn offset_for_timestamp(
        &self,
        disk: &mut dyn Disk,
        timestamp_ms: i64,
    ) -> Result<Option<TimestampOffset>, LogError> {
        self.check_works()?;
        for segment in &self.segments {
            let Some(Place { position, header }) = segment.find_timestamp(disk, timestamp_ms)? else {
                continue;
            };
            let BatchHeader { base_offset, base_timestamp, max_timestamp, leader_epoch, .. } = header;
            let as_whole =
                Some(TimestampOffset { offset: base_offset, timestamp_ms: max_timestamp, leader_epoch });
            if header.timestamp_type() == TimestampType::LogAppendTime
                || header.compression() != Compression::None
            {
                return Ok(as_whole);
            }
            let mut bytes = segment.read(disk, position, header.size_bytes as u64)?;
            let corrupt = |why| segment.corrupt(position, Corruption::Batch(why));
            let batch = RecordBatch::take_first(&mut bytes).map_err(corrupt)?;
            for record in batch.records().map_err(corrupt)? {
                let record = record.map_err(corrupt)?;
                let found_ms = base_timestamp.wrapping_add(record.timestamp_delta);
                if found_ms >= timestamp_ms {
                    let offset = base_offset + i64::from(record.offset_delta);
                    return Ok(Some(TimestampOffset { offset, timestamp_ms: found_ms, leader_epoch }));
                }
            }
            // The header promised a timestamp that no record has: a producer's mistake. Nothing is missed.
            return Ok(as_whole);
        }
        Ok(None)
    }

    /// Drops all at `offset` and above, and the batch that contains it; an offset below the log's start is a
    /// [`reset_to`](PartitionLog::reset_to). Returns the log's new end. Durable when it returns.
    ///
    /// Errors: the log is [`Failed`](LogError::Failed) afterwards.
    pub fn truncate_to(&mut self, disk: &mut dyn Disk, offset: i64) -> Result<i64, LogError> {
        self.check_works()?;
        if offset >= self.log_end_offset {
            return Ok(self.log_end_offset);
        }
        if offset <= self.log_start_offset() {
            self.reset_to(disk, offset)?;
            return Ok(offset);
        }
        self.failed = true;
        let keep = self.segment_of(offset);
        let Place { position, header } = self.segments[keep].find(disk, offset)?;
        self.remove_segments_from(disk, keep + 1)?;
        disk.truncate(self.last().file, position)?;

        self.epochs.truncate(header.base_offset);
        self.producers = self.last().producers_before.clone();
        self.log_end_offset = self.last().base_offset;
        self.last_mut().forget_batches();
        let broken = self.scan_last(disk, position, &mut 0)?;
        if let Some((position, why)) = broken {
            return Err(self.last().corrupt(position, why));
        }
        self.tail_is_unclean = false;
        self.sync_last(disk)?;
        Ok(self.log_end_offset)
    }

    /// Drops all and begins anew at `offset`: a follower whose leader's log begins past its own. Durable when it
    /// returns.
    ///
    /// Errors: the log is [`Failed`](LogError::Failed) afterwards.
    pub fn reset_to(&mut self, disk: &mut dyn Disk, offset: i64) -> Result<(), LogError> {
        assert!(offset >= 0, "a log begins at an offset, not at {offset}");
        self.check_works()?;
        self.failed = true;
        self.remove_segments_from(disk, 0)?;
        self.epochs = LeaderEpochs::default();
        self.producers = Producers::default();
        self.log_end_offset = offset;
        self.segments.push(Segment::open(disk, &self.dir, offset, &self.producers)?);
        self.name_is_new = true;
        self.tail_is_unclean = false;
        self.sync_last(disk)
    }

    /// Removes segments, the last first and durably one by one: whatever a power failure leaves has no gap.
    fn remove_segments_from(&mut self, disk: &mut dyn Disk, first: usize) -> Result<(), LogError> {
        while self.segments.len() > first {
            let path = self.last().path.clone();
            disk.remove(&path)?;
            disk.sync_dir(&self.dir)?;
            disk.close(self.last().file);
            self.segments.pop();
        }
        Ok(())
    }

    fn check_works(&self) -> Result<(), LogError> {
        if self.failed { Err(LogError::Failed(self.dir.clone())) } else { Ok(()) }
    }

    /// The index of the segment that contains an offset of the log.
    fn segment_of(&self, offset: i64) -> usize {
        self.segments.partition_point(|segment| segment.base_offset <= offset) - 1
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
