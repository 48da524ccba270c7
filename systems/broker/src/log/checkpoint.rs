//! What a log keeps beside its segments: where it begins.
//!
//! ```text
//! DIR/checkpoint      body := start_offset:i64
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
}

impl Checkpoint {
    /// Reads the file; none if there is none.
    pub(super) fn read(disk: &mut dyn Disk, dir: &str) -> Result<Option<Checkpoint>, LogError> {
        let path = format!("{dir}/{NAME}");
        let Some(bytes) = files::read(disk, &path)? else { return Ok(None) };
        let read = files::unseal(VERSION, &bytes).and_then(|mut body| {
            let start_offset = body.try_get_i64().ok().filter(|start| *start >= 0)?;
            Some(Checkpoint { start_offset })
        });
        read.map(Some).ok_or(LogError::Checkpoint { path })
    }
}

impl PartitionLog {
    /// Writes down where the log begins, durably.
    pub(super) fn write_checkpoint(
        &mut self,
        disk: &mut dyn Disk,
        start_offset: i64,
    ) -> Result<(), LogError> {
        let mut body = BytesMut::new();
        body.put_i64(start_offset);
        Ok(files::replace(disk, &self.dir, NAME, &files::seal(VERSION, &body))?)
    }
}
