//! What moves a log's start up: records that are asked to be deleted, and retention.
//!
//! A segment is removed when the next one begins at or below the start; the last never is, until the log has grown past
//! it. Whose clock and size decide is the leader's: followers are told where its log begins.
//!
//! Source: KIP-107 (DeleteRecords, log start offset); UnifiedLog#deleteOldSegments.

use super::index;
use super::segment::Segment;
use super::{LogError, PartitionLog};
use riprap_env::Disk;

impl PartitionLog {
    /// Makes `offset` the first of the log, if that is further up than it begins now. Durable when it returns. Says whether
    /// anything changed. Panics: the log ends before it.
    ///
    /// Errors: the log is [`Failed`](LogError::Failed) afterwards.
    pub fn advance_start_to(&mut self, disk: &mut dyn Disk, offset: i64) -> Result<bool, LogError> {
        assert!(
            offset <= self.log_end_offset,
            "a log that ends at {} begins at {offset}",
            self.log_end_offset
        );
        self.check_works()?;
        if offset <= self.start_offset {
            return Ok(false);
        }
        self.failed = true;
        self.abandon_cleaning(disk)?;
        self.write_checkpoint(disk, offset)?;
        self.start_offset = offset;
        let below = self.segments.partition_point(|segment| segment.base_offset <= offset) - 1;
        for segment in self.segments.drain(..below) {
            disk.close(segment.file);
            disk.remove(&segment.path)?;
            index::remove(disk, &segment.path)?;
        }
        if below > 0 {
            disk.sync_dir(&self.dir)?;
        }
        self.forget_below_start();
        self.failed = false;
        Ok(true)
    }

    /// Takes what lies below the start out of all that is derived from the log.
    pub(super) fn forget_below_start(&mut self) {
        if self.first().base_offset == self.log_end_offset {
            self.epochs = super::LeaderEpochs::default();
        } else {
            self.epochs.start_at(self.start_offset);
        }
        self.transactions.start_at(self.start_offset);
    }

    /// Removes the oldest segments that are too old or too much, as far as they are committed. Returns where the log
    /// begins now, if that changed. Shape: the last segment may be among them, and is ended then.
    ///
    /// A segment is as old as its newest record; one whose records tell no time is kept.
    pub fn retain(
        &mut self,
        disk: &mut dyn Disk,
        now_ms: i64,
        high_watermark: i64,
    ) -> Result<Option<i64>, LogError> {
        self.check_works()?;
        let Some(start) = self.retained_start(now_ms, high_watermark).filter(|to| *to > self.start_offset)
        else {
            return Ok(None);
        };
        if start == self.log_end_offset && self.last().size_bytes > 0 {
            self.roll(disk)?;
        }
        self.advance_start_to(disk, start)?;
        Ok(Some(start))
    }

    /// Where the log would begin if retention were done now.
    fn retained_start(&self, now_ms: i64, high_watermark: i64) -> Option<i64> {
        if !self.config.cleanup.delete {
            return None;
        }
        let ends = self.segments.iter().skip(1).map(|next| next.base_offset).chain([self.log_end_offset]);
        let mut committed = self
            .segments
            .iter()
            .zip(ends)
            .take_while(|(segment, end)| segment.base_offset < *end && *end <= high_watermark)
            .peekable();
        let mut start = None;
        if let Some(retention_ms) = self.config.retention_ms {
            let is_old = |segment: &Segment| {
                let is_past = |newest| newest >= 0 && now_ms.saturating_sub(newest) > retention_ms;
                segment.max_timestamp_ms().is_none_or(is_past)
            };
            while let Some((_, end)) = committed.next_if(|(segment, _)| is_old(segment)) {
                start = Some(end);
            }
        }
        if let Some(retention_bytes) = self.config.retention_bytes {
            let kept =
                self.segments.iter().filter(|segment| start.is_none_or(|start| segment.base_offset >= start));
            let mut too_much =
                kept.map(|segment| segment.size_bytes).sum::<u64>().saturating_sub(retention_bytes);
            while let Some((segment, end)) = committed.next_if(|(segment, _)| segment.size_bytes <= too_much)
            {
                too_much -= segment.size_bytes;
                start = Some(end);
            }
        }
        start
    }
}
