//! What makes a log shorter: truncation, and beginning anew.

use super::checkpoint::Cleaned;
use super::epochs::LeaderEpochs;
use super::index;
use super::producers::Producers;
use super::segment::{Place, Segment};
use super::transactions::Transactions;
use super::{LogError, PartitionLog};
use riprap_env::Disk;

impl PartitionLog {
    /// Drops all at `offset` and above, and the batch that contains it; an offset below the log's start is a
    /// [`reset_to`](PartitionLog::reset_to). Returns the log's new end. Durable when it returns.
    ///
    /// Errors: the log is [`Failed`](LogError::Failed) afterwards.
    pub fn truncate_to(&mut self, disk: &mut dyn Disk, offset: i64) -> Result<i64, LogError> {
        self.check_works()?;
        if offset >= self.log_end_offset {
            return Ok(self.log_end_offset);
        }
        if offset <= self.start_offset {
            self.reset_to(disk, offset)?;
            return Ok(offset);
        }
        let keep = self.segment_of(offset);
        let Place { position, header } = self.segments[keep].find(disk, offset)?;
        if header.base_offset < self.start_offset {
            let start_offset = self.start_offset;
            self.reset_to(disk, start_offset)?;
            return Ok(start_offset);
        }
        self.failed = true;
        self.abandon_cleaning(disk)?;
        self.remove_segments_from(disk, keep + 1)?;
        if index::remove(disk, &self.last().path)? {
            disk.sync_dir(&self.dir)?;
        }
        disk.truncate(self.last().file, position)?;

        // What the kept batches of the last segment say is learned anew.
        let base_offset = self.last().base_offset;
        self.epochs.truncate(base_offset);
        self.producers = self.last().producers_before.clone();
        self.transactions.truncate(base_offset);
        self.log_end_offset = base_offset;
        self.last_mut().forget_batches();
        let broken = self.scan_last(disk, position, &mut 0)?;
        if let Some((position, why)) = broken {
            return Err(self.last().corrupt(position, why));
        }
        self.forget_below_start();
        self.tail_is_unclean = false;
        self.sync_last(disk)?;
        if self.cleaned.truncate(self.log_end_offset) {
            let start_offset = self.start_offset;
            self.write_checkpoint(disk, start_offset)?;
        }
        Ok(self.log_end_offset)
    }

    /// Drops all and begins anew at `offset`: a follower whose leader's log begins past its own. Durable when it
    /// returns; a power failure before may leave fewer of the old batches, or an empty log where it began before.
    ///
    /// Errors: the log is [`Failed`](LogError::Failed) afterwards.
    pub fn reset_to(&mut self, disk: &mut dyn Disk, offset: i64) -> Result<(), LogError> {
        assert!(offset >= 0, "a log begins at an offset, not at {offset}");
        self.check_works()?;
        self.begin_anew(disk, offset, offset)
    }

    /// Drops all; the log begins at `start_offset`, and its first batch will be at `base_offset`, which is not above.
    pub(super) fn begin_anew(
        &mut self,
        disk: &mut dyn Disk,
        start_offset: i64,
        base_offset: i64,
    ) -> Result<(), LogError> {
        self.failed = true;
        self.abandon_cleaning(disk)?;
        self.remove_segments_from(disk, 0)?;
        self.cleaned = Cleaned::default();
        self.write_checkpoint(disk, start_offset)?;
        self.start_offset = start_offset;
        self.epochs = LeaderEpochs::default();
        self.producers = Producers::default();
        self.transactions = Transactions::default();
        self.log_end_offset = base_offset;
        self.segments.push(Segment::open(disk, &self.dir, base_offset, &self.producers)?);
        self.name_is_new = true;
        self.tail_is_unclean = false;
        self.sync_last(disk)
    }

    /// Removes segments, the last first and durably one by one: whatever a power failure leaves has no gap.
    fn remove_segments_from(&mut self, disk: &mut dyn Disk, first: usize) -> Result<(), LogError> {
        while self.segments.len() > first {
            let path = self.last().path.clone();
            index::remove(disk, &path)?;
            disk.remove(&path)?;
            disk.sync_dir(&self.dir)?;
            disk.close(self.last().file);
            self.segments.pop();
        }
        Ok(())
    }
}
