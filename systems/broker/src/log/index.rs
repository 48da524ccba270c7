//! What was learned from a segment that has ended, written down so that a start need not read it again.
//!
//! ```text
//! DIR/00000000000000000000.index
//! body := size_bytes:u64 end_offset:i64 first_timestamp_ms:i64 span[] epoch[] aborted[] ended[] producer[]
//! ```
//! Where batches and times are, which leader epochs began, which transactions ended, and what is known of producers behind
//! it: also of those whose batches were in segments that are gone. It is written when the segment ends or is compacted, and
//! removed, durably, before the segment's bytes change. One that is missing, is not what was written, or is about a file of
//! another size costs a reading of the segment, and nothing else; so that it cannot be written is no error.

use super::files;
use super::producers::Producers;
use super::{LogError, PartitionLog};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use riprap_env::{Disk, DiskError};

/// The version that is written and read.
const VERSION: u8 = 1;

/// The file of a segment's file.
pub(super) fn path_of(segment_path: &str) -> String {
    format!("{}.index", segment_path.strip_suffix(".log").unwrap_or(segment_path))
}

/// Removes a segment's index, if it has one. Says whether it had.
pub(super) fn remove(disk: &mut dyn Disk, segment_path: &str) -> Result<bool, DiskError> {
    let path = path_of(segment_path);
    let is_there = disk.exists(&path);
    if is_there {
        disk.remove(&path)?;
    }
    Ok(is_there)
}

impl PartitionLog {
    /// Writes down what was learned from a segment, which is not the last.
    pub(super) fn write_index(&self, disk: &mut dyn Disk, at: usize, end_offset: i64, after: &Producers) {
        let segment = &self.segments[at];
        let base_offset = segment.base_offset;
        let mut body = BytesMut::new();
        body.put_u64(segment.size_bytes);
        body.put_i64(end_offset);
        segment.put_spans(&mut body);
        let epochs = self.epochs.within(base_offset, end_offset);
        body.put_u32(epochs.len() as u32);
        for (epoch, start_offset) in epochs {
            body.put_i32(epoch);
            body.put_i64(start_offset);
        }
        self.transactions.put(&mut body, base_offset..end_offset);
        after.put(&mut body);
        // Without it the segment is read at the next start.
        let _unwritten = files::write(disk, &path_of(&segment.path), &files::seal(VERSION, &body));
    }

    /// Takes in what was learned from the last segment known, if that was written down and is about a file of this size.
    /// Says whether it was.
    pub(super) fn restore_from_index(
        &mut self,
        disk: &mut dyn Disk,
        size_bytes: u64,
    ) -> Result<bool, LogError> {
        let Some(bytes) = files::read(disk, &path_of(&self.last().path))? else { return Ok(false) };
        let Some(mut body) = files::unseal(VERSION, &bytes) else { return Ok(false) };
        Ok(self.restore(&mut body, size_bytes).is_some())
    }

    fn restore(&mut self, body: &mut Bytes, size_bytes: u64) -> Option<()> {
        if body.try_get_u64().ok()? != size_bytes {
            return None;
        }
        let end_offset = body.try_get_i64().ok()?;
        // All is read before anything is taken in.
        let spans = super::segment::Spans::take(body)?;
        let count = body.try_get_u32().ok()?;
        let epochs = (0..count).map(|_| Some((body.try_get_i32().ok()?, body.try_get_i64().ok()?)));
        let epochs = epochs.collect::<Option<Vec<(i32, i64)>>>()?;
        let transactions = super::Transactions::take(body)?;
        let producers = Producers::take(body)?;
        self.last_mut().restore(spans, size_bytes);
        for (epoch, start_offset) in epochs {
            self.epochs.append(epoch, start_offset.max(self.start_offset));
        }
        self.transactions.extend(transactions);
        self.producers = producers;
        self.log_end_offset = end_offset;
        Some(())
    }
}
