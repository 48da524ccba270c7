//! How a log is kept.

use crate::defect::DefectKind;
use riprap_protocol::records::TimestampType;

/// How a log is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// A segment that would grow past this is ended, unless it is empty.
    pub segment_bytes: u64,
    /// A segment whose first batch is this much older than a new one is ended. Units: milliseconds of the records' own
    /// times.
    pub segment_ms: i64,
    /// How many bytes of batches share an entry of the index.
    pub index_interval_bytes: u64,
    /// The largest batch that a leader appends.
    pub max_batch_bytes: usize,
    /// Whose clock the timestamps are from.
    pub timestamp_type: TimestampType,
    /// What becomes of old records.
    pub cleanup: Cleanup,
    /// How old records may be before they are deleted; none is for ever. Units: milliseconds.
    pub retention_ms: Option<i64>,
    /// How large the log may be before its oldest segments are deleted; none is without limit.
    pub retention_bytes: Option<u64>,
    /// How long a record without a value is kept once it has removed its key. Units: milliseconds.
    pub delete_retention_ms: i64,
    /// A log is compacted when this part of it was written since the last time. Units: percent.
    pub min_dirty_percent: u32,
    /// Records that are younger are not compacted. Units: milliseconds.
    pub min_compaction_lag_ms: i64,
    /// Records that are older are compacted whatever there is to gain. Units: milliseconds.
    pub max_compaction_lag_ms: i64,
    /// A planted bug.
    pub defect: Option<DefectKind>,
}

/// What becomes of old records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cleanup {
    /// They are deleted by age and size.
    pub delete: bool,
    /// Of those with one key, only the last is kept.
    pub compact: bool,
}

impl Default for LogConfig {
    /// Kafka's defaults.
    fn default() -> LogConfig {
        const DAY_MS: i64 = 24 * 60 * 60 * 1000;
        const WEEK_MS: i64 = 7 * DAY_MS;
        LogConfig {
            segment_bytes: 1 << 30,
            segment_ms: WEEK_MS,
            index_interval_bytes: 4096,
            max_batch_bytes: (1 << 20) + 12,
            timestamp_type: TimestampType::CreateTime,
            cleanup: Cleanup { delete: true, compact: false },
            retention_ms: Some(WEEK_MS),
            retention_bytes: None,
            delete_retention_ms: DAY_MS,
            min_dirty_percent: 50,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            defect: None,
        }
    }
}
