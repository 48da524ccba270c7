//! What makes a log longer: appends, syncs, new segments.

use super::segment::Segment;
use super::{AppendError, Appended, LogError, PartitionLog};
use bytes::Bytes;
use riprap_env::Disk;
use riprap_protocol::records::{
    BatchHeader, EndTxnMarker, RecordBatch, TimestampType, set_log_append_time, set_offset_and_epoch,
    split_batches,
};

/// A batch as a log takes it in: its header, and the marker that it is.
type Parsed = (BatchHeader, Option<EndTxnMarker>);

impl PartitionLog {
    /// Appends batches that a producer sent: gives them the next offsets and the leader's epoch.
    ///
    /// Neither duplicates nor control batches are refused: see [`check_producer`](PartitionLog::check_producer),
    /// [`check_marker`](PartitionLog::check_marker) and [`BatchHeader::is_control`].
    pub fn append_as_leader(
        &mut self,
        disk: &mut dyn Disk,
        batches: Bytes,
        leader_epoch: i32,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let mut bytes = Vec::with_capacity(batches.len());
        let mut headers: Vec<Parsed> = Vec::new();
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
            headers.push((header, EndTxnMarker::of(&batch)));
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
        // What is compressed cannot be looked into.
        let decides = self.config.cleanup.compact && !batch.header().is_control();
        if decides
            && batch.records().is_ok_and(|mut all| all.any(|record| record.is_ok_and(|r| r.key.is_none())))
        {
            return Err(AppendError::NoKey);
        }
        // A coordinator writes for a producer, in its transaction and outside of its sequence.
        let has_place =
            base_sequence >= 0 || batch.header().is_transactional() || batch.header().is_control();
        let in_sequence = producer_epoch >= 0 && has_place;
        if batch.header().has_producer() && !in_sequence {
            return Err(AppendError::Sequence { producer_id, producer_epoch, base_sequence });
        }
        let is_marker = EndTxnMarker::of(batch).is_some();
        let is_misplaced = batch.header().is_transactional() && !batch.header().has_producer();
        if is_misplaced || batch.header().is_control() != is_marker {
            return Err(AppendError::Transaction { producer_id });
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
            let batch = batch?;
            headers.push((*batch.header(), EndTxnMarker::of(&batch)));
        }
        if let Some((first, _)) = headers.first() {
            self.begin_within(disk, first)?;
        }
        self.append(disk, &batches, &headers)
    }

    /// A log that begins anew where its leader's begins may begin within a batch: that batch is the first of its file.
    /// Source: Partition#appendRecordsToFollowerOrFutureReplica, which begins anew at the batch.
    fn begin_within(&mut self, disk: &mut dyn Disk, first: &BatchHeader) -> Result<(), LogError> {
        let (start_offset, base_offset) = (self.start_offset, first.base_offset);
        let is_empty = start_offset == self.log_end_offset;
        if is_empty && base_offset < start_offset && start_offset <= first.last_offset() {
            self.check_works()?;
            self.begin_anew(disk, start_offset, base_offset)?;
        }
        Ok(())
    }

    fn append(
        &mut self,
        disk: &mut dyn Disk,
        bytes: &[u8],
        headers: &[Parsed],
    ) -> Result<Appended, AppendError> {
        let (Some((first, _)), Some((last, _))) = (headers.first(), headers.last()) else {
            return Err(AppendError::Empty);
        };
        let (mut next_offset, mut last_epoch) = (self.log_end_offset, self.epochs.last());
        for (header, _) in headers {
            self.check_next(header, next_offset, last_epoch).map_err(AppendError::Discontinuous)?;
            (next_offset, last_epoch) = (header.next_offset(), Some(header.leader_epoch));
        }
        self.write(disk, bytes, first.max_timestamp)?;
        for (header, marker) in headers {
            self.take_in(header, *marker);
        }
        Ok(Appended {
            first_offset: first.base_offset,
            last_offset: last.last_offset(),
            log_append_time_ms: None,
        })
    }

    /// Writes bytes at the log's end, in a new segment if they would make the last one too large, or are too much younger
    /// than what it begins with. Source: LogSegment#shouldRoll.
    fn write(&mut self, disk: &mut dyn Disk, bytes: &[u8], timestamp_ms: i64) -> Result<(), LogError> {
        self.check_works()?;
        if self.tail_is_unclean {
            self.clean_tail(disk)?;
        }
        let size_bytes = self.last().size_bytes;
        let is_full = size_bytes + bytes.len() as u64 > self.config.segment_bytes;
        if size_bytes > 0 && (is_full || self.last().age_ms(timestamp_ms) > self.config.segment_ms) {
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
    pub(super) fn roll(&mut self, disk: &mut dyn Disk) -> Result<(), LogError> {
        self.sync(disk)?;
        self.write_index(disk, self.segments.len() - 1, self.log_end_offset, &self.producers);
        self.last_mut().end();
        self.segments.push(Segment::open(disk, &self.dir, self.log_end_offset, &self.producers)?);
        self.name_is_new = true;
        Ok(())
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

    pub(super) fn sync_last(&mut self, disk: &mut dyn Disk) -> Result<(), LogError> {
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
}
