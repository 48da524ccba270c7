//! How a log is kept.

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
}

/// What becomes of old records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cleanup {
    /// They are deleted by age and size.
    pub delete: bool,
}

impl Default for LogConfig {
    /// Kafka's defaults.
    fn default() -> LogConfig {
        const WEEK_MS: i64 = 7 * 24 * 60 * 60 * 1000;
        LogConfig {
            segment_bytes: 1 << 30,
            segment_ms: WEEK_MS,
            index_interval_bytes: 4096,
            max_batch_bytes: (1 << 20) + 12,
            timestamp_type: TimestampType::CreateTime,
            cleanup: Cleanup { delete: true },
            retention_ms: Some(WEEK_MS),
            retention_bytes: None,
        }
    }
}
