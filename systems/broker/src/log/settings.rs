//! How a log is kept, and the names by which topics say so.

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

/// What a topic's setting is to its log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Setting {
    /// It is about the log, and the log is kept so now.
    Taken,
    /// It is about the log, and cannot be; with what would be right.
    Wrong(&'static str),
    /// It is about something else.
    Foreign,
}

impl LogConfig {
    /// Takes one setting of a topic. Source: Kafka's topic configurations, whose names and bounds these are.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Setting {
        let done =
            |done: Option<()>, right| if done.is_some() { Setting::Taken } else { Setting::Wrong(right) };
        match name {
            "segment.bytes" => done(
                number(value, MIN_SEGMENT_BYTES, i32::MAX.into())
                    .map(|n| self.segment_bytes = n.cast_unsigned()),
                "1048576 to 2147483647 is right",
            ),
            "segment.ms" => {
                done(number(value, 1, i64::MAX).map(|n| self.segment_ms = n), "1 or more is right")
            }
            "index.interval.bytes" => done(
                number(value, 0, i32::MAX.into()).map(|n| self.index_interval_bytes = n.cast_unsigned()),
                "0 to 2147483647 is right",
            ),
            "max.message.bytes" => done(
                number(value, 0, i32::MAX.into()).map(|n| self.max_batch_bytes = n as usize),
                "0 to 2147483647 is right",
            ),
            "retention.ms" => done(
                number(value, -1, i64::MAX).map(|n| self.retention_ms = Some(n).filter(|n| *n >= 0)),
                "-1 or more is right",
            ),
            "retention.bytes" => done(
                number(value, -1, i64::MAX).map(|n| self.retention_bytes = u64::try_from(n).ok()),
                "-1 or more is right",
            ),
            "message.timestamp.type" => done(
                match value {
                    "CreateTime" => Some(TimestampType::CreateTime),
                    "LogAppendTime" => Some(TimestampType::LogAppendTime),
                    _ => None,
                }
                .map(|kind| self.timestamp_type = kind),
                "CreateTime or LogAppendTime is right",
            ),
            _ => Setting::Foreign,
        }
    }
}

/// The least `segment.bytes`. Source: KIP-1030.
const MIN_SEGMENT_BYTES: i64 = 1 << 20;

fn number(text: &str, min: i64, max: i64) -> Option<i64> {
    text.trim().parse().ok().filter(|number| (min..=max).contains(number))
}
