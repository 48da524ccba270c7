//! What can be wrong with a log, a batch for it, or a read from it.

use riprap_env::DiskError;
use riprap_protocol::records::BatchError;
use thiserror::Error;

/// What is wrong with the bytes at some place of a segment.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Corruption {
    /// They are no batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// They are a batch that does not belong there.
    #[error("batch at offset {found}: the log continues at {expected}")]
    Offset {
        /// Where the log ends before it.
        expected: i64,
        /// The batch's base offset.
        found: i64,
    },
    /// They are a batch of another leader than was there, or of an earlier one than the batch before.
    #[error("batch of leader epoch {found} in or after one of {last}: epochs neither change nor fall")]
    LeaderEpoch {
        /// The epoch that was there, or of the batch before.
        last: i32,
        /// The batch's epoch.
        found: i32,
    },
}

/// Why a log cannot do its work.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LogError {
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Stored bytes are not what was written; nothing is cut, for what lies beyond them was durable.
    #[error("{path}: position {position}: {why}")]
    Corrupt {
        /// The segment's file.
        path: String,
        /// Units: bytes from the file's start.
        position: u64,
        /// What is wrong there.
        why: Corruption,
    },
    /// A segment is missing, or one too many is there.
    #[error("{path}: segment begins at offset {found}, the one before ends at {expected}")]
    Gap {
        /// The segment's file.
        path: String,
        /// Where the one before ends.
        expected: i64,
        /// Where this one begins.
        found: i64,
    },
    /// The file that says where the log begins is not what was written.
    #[error("{path}: is no checkpoint, or its bytes have changed since it was written")]
    Checkpoint {
        /// The file.
        path: String,
    },
    /// The last batch's leader epoch, which its checksum does not cover, is none that there has been.
    #[error("{dir}: ends with a batch of leader epoch {found}: there have been epochs up to {known}")]
    UnknownEpoch {
        /// The log's folder.
        dir: String,
        /// The batch's epoch.
        found: i32,
        /// The newest there has been.
        known: i32,
    },
    /// A sync, a truncation or a reset failed in the middle: what is on disk is not known until the log is opened
    /// anew, and what a failed sync left unsynced never becomes durable.
    #[error("{0}: log gave up after a disk error and has to be opened anew")]
    Failed(String),
}

/// Why batches were not appended. Nothing of them is in the log; but after [`LogError::Disk`] some of them may be on
/// the disk, and come back if the process ends before the next append has cut them.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum AppendError {
    /// They are no batches, or not as a producer may send them.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// There is no batch at all.
    #[error("no batch to append")]
    Empty,
    /// A batch is larger than the topic allows.
    #[error("batch of {size_bytes} bytes: at most {max_bytes} are allowed")]
    TooLarge {
        /// The batch's.
        size_bytes: usize,
        /// [`LogConfig::max_batch_bytes`](super::LogConfig::max_batch_bytes).
        max_bytes: usize,
    },
    /// A record without a key, where the last record of each key is to be kept.
    #[error("record without a key in a log that is compacted")]
    NoKey,
    /// A producer id without an epoch and a sequence number.
    #[error("batch of producer {producer_id} with epoch {producer_epoch} and base sequence {base_sequence}")]
    Sequence {
        /// As the batch says.
        producer_id: i64,
        /// As the batch says.
        producer_epoch: i16,
        /// As the batch says.
        base_sequence: i32,
    },
    /// A transactional batch without a producer, or a control batch that is no marker.
    #[error(
        "transactional or control batch of producer {producer_id} that is neither a producer's nor a marker"
    )]
    Transaction {
        /// As the batch says.
        producer_id: i64,
    },
    /// A batch does not continue the log: its offset or leader epoch is another.
    #[error("failed to continue the log: {0}")]
    Discontinuous(Corruption),
    /// The log cannot do its work.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Why nothing was read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ReadError {
    /// The log does not reach there.
    #[error("offset {offset} is out of range: the log has {log_start_offset} to {log_end_offset}")]
    OffsetOutOfRange {
        /// As asked for.
        offset: i64,
        /// The first offset of the log.
        log_start_offset: i64,
        /// The offset that the next record will get.
        log_end_offset: i64,
    },
    /// The log cannot do its work.
    #[error(transparent)]
    Log(#[from] LogError),
}
