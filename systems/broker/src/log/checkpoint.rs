//! What a log keeps beside its segments: where it begins, and how far it is compacted.
//!
//! ```text
//! DIR/checkpoint      body := start_offset:i64 cleaned_to:i64 count:u16 mark*       mark := offset:i64 time_ms:i64
//! ```
//! The start may lie within a segment, even within a batch, and above what the segments hold: it is written before
//! anything below it is removed, so that what remains of a removal that was cut short is known for what it is.

use super::files;
use super::{LogError, PartitionLog};
use bytes::{Buf, BufMut, BytesMut};
use riprap_env::Disk;

/// The file's name.
const NAME: &str = "checkpoint";
/// The version that is written and read.
const VERSION: u8 = 1;

/// The file as it reads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Checkpoint {
    /// The first offset of the log.
    pub(super) start_offset: i64,
    /// How far it is compacted.
    pub(super) cleaned: Cleaned,
}

/// How far a log is compacted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Cleaned {
    /// Below, no record is there whose key has a later one below.
    pub(super) to: i64,
    /// By time, oldest first.
    pub(super) marks: Vec<Mark>,
}

/// That all below an offset was compacted by some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    pub(super) offset: i64,
    /// Units: milliseconds since 1970.
    pub(super) time_ms: i64,
}

impl Cleaned {
    /// Below this, all was compacted so long ago.
    pub(super) fn horizon(&self, now_ms: i64, age_ms: i64) -> i64 {
        let latest = now_ms.saturating_sub(age_ms);
        self.marks.iter().filter(|mark| mark.time_ms <= latest).map(|mark| mark.offset).max().unwrap_or(0)
    }

    /// Takes back what is said of offsets above. Says whether that was anything.
    pub(super) fn truncate(&mut self, end_offset: i64) -> bool {
        let before = self.clone();
        self.to = self.to.min(end_offset);
        for mark in &mut self.marks {
            mark.offset = mark.offset.min(end_offset);
        }
        *self != before
    }
}

impl Checkpoint {
    /// Reads the file; none if there is none.
    pub(super) fn read(disk: &mut dyn Disk, dir: &str) -> Result<Option<Checkpoint>, LogError> {
        let path = format!("{dir}/{NAME}");
        let Some(bytes) = files::read(disk, &path)? else { return Ok(None) };
        let read = files::unseal(VERSION, &bytes).and_then(|mut body| {
            let start_offset = body.try_get_i64().ok().filter(|start| *start >= 0)?;
            let to = body.try_get_i64().ok()?;
            let count = body.try_get_u16().ok()?;
            let marks = (0..count)
                .map(|_| Some(Mark { offset: body.try_get_i64().ok()?, time_ms: body.try_get_i64().ok()? }));
            let marks = marks.collect::<Option<Vec<Mark>>>()?;
            Some(Checkpoint { start_offset, cleaned: Cleaned { to, marks } })
        });
        read.map(Some).ok_or(LogError::Checkpoint { path })
    }
}

impl PartitionLog {
    /// Writes down where the log begins and how far it is compacted, durably.
    pub(super) fn write_checkpoint(
        &mut self,
        disk: &mut dyn Disk,
        start_offset: i64,
    ) -> Result<(), LogError> {
        let mut body = BytesMut::new();
        body.put_i64(start_offset);
        body.put_i64(self.cleaned.to);
        body.put_u16(self.cleaned.marks.len() as u16);
        for Mark { offset, time_ms } in &self.cleaned.marks {
            body.put_i64(*offset);
            body.put_i64(*time_ms);
        }
        Ok(files::replace(disk, &self.dir, NAME, &files::seal(VERSION, &body))?)
    }
}
