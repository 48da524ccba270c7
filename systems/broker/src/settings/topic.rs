//! The settings of topics.

use super::{Kind, boolean, only, or_none, put, whole, whole_or_none};
use crate::config::BrokerConfig;
use crate::log::{self, LogConfig};
use std::fmt;

/// What becomes of old records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cleanup {
    /// Whole segments go, by time and size.
    Delete,
    /// The last record of each key stays.
    Compact,
    /// Both.
    CompactAndDelete,
}

impl Cleanup {
    /// Whether segments go by time and size.
    pub fn deletes(self) -> bool {
        self != Cleanup::Compact
    }

    /// Whether records go that another of the same key follows.
    pub fn compacts(self) -> bool {
        self != Cleanup::Delete
    }
}

impl fmt::Display for Cleanup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cleanup::Delete => "delete",
            Cleanup::Compact => "compact",
            Cleanup::CompactAndDelete => "compact,delete",
        })
    }
}

impl std::str::FromStr for Cleanup {
    type Err = String;

    fn from_str(text: &str) -> Result<Cleanup, String> {
        let wrong = || "delete, compact, or both with a comma between them are right".to_owned();
        let (mut deletes, mut compacts) = (false, false);
        for word in text.split(',').map(str::trim) {
            match word {
                "delete" => deletes = true,
                "compact" => compacts = true,
                _ => return Err(wrong()),
            }
        }
        Ok(match (deletes, compacts) {
            (true, true) => Cleanup::CompactAndDelete,
            (false, true) => Cleanup::Compact,
            _ => Cleanup::Delete,
        })
    }
}

/// A topic's settings, each with its value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TopicSettings {
    /// `cleanup.policy`
    pub cleanup: Cleanup,
    /// `delete.retention.ms`: how long a tombstone stays after it was compacted.
    pub delete_retention_ms: u64,
    /// `max.compaction.lag.ms`: a record that waits longer is compacted however little there is to gain.
    pub max_compaction_lag_ms: u64,
    /// `max.message.bytes`: the largest batch.
    pub max_message_bytes: u32,
    /// `min.cleanable.dirty.ratio`: how much of a log is new before it is compacted.
    pub min_cleanable_dirty_ratio: f64,
    /// `min.compaction.lag.ms`: a younger record is not compacted.
    pub min_compaction_lag_ms: u64,
    /// `min.insync.replicas`
    pub min_insync_replicas: u16,
    /// `retention.bytes`: a larger partition loses its oldest segments; none if never.
    pub retention_bytes: Option<u64>,
    /// `retention.ms`: a segment whose newest record is older goes; none if never.
    pub retention_ms: Option<u64>,
    /// `segment.bytes`
    pub segment_bytes: u64,
    /// `segment.ms`: a segment that is older is followed by a new one.
    pub segment_ms: u64,
    /// `unclean.leader.election.enable`
    pub unclean_leader_election: bool,
}

impl TopicSettings {
    /// The settings of a topic that asks for these, on a broker with this configuration. What cannot be read, which the
    /// controller refuses, is left at its default.
    pub(crate) fn resolve(config: &BrokerConfig, asked: &[(String, String)]) -> TopicSettings {
        let mut settings = config.topic_settings();
        for (name, value) in asked {
            if let Some(setting) = topic_setting(name) {
                let _unreadable = (setting.set)(&mut settings, value);
            }
        }
        settings
    }
}

impl TopicSettings {
    /// How the logs of the topic's partitions are kept.
    pub(crate) fn log_config(&self) -> LogConfig {
        let signed = |time_ms: u64| i64::try_from(time_ms).unwrap_or(i64::MAX);
        LogConfig {
            segment_bytes: self.segment_bytes,
            segment_ms: signed(self.segment_ms),
            max_batch_bytes: self.max_message_bytes as usize,
            cleanup: log::Cleanup { delete: self.cleanup.deletes(), compact: self.cleanup.compacts() },
            retention_ms: self.retention_ms.map(signed),
            retention_bytes: self.retention_bytes,
            delete_retention_ms: signed(self.delete_retention_ms),
            min_dirty_percent: (self.min_cleanable_dirty_ratio * 100.0).clamp(0.0, 100.0) as u32,
            min_compaction_lag_ms: signed(self.min_compaction_lag_ms),
            max_compaction_lag_ms: signed(self.max_compaction_lag_ms),
            ..LogConfig::default()
        }
    }
}

/// One setting of topics.
#[derive(Debug)]
pub(crate) struct TopicSetting {
    pub(crate) name: &'static str,
    /// The broker's setting that is its default; empty if there is none.
    pub(crate) broker_name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) documentation: &'static str,
    /// Says what it is.
    pub(crate) get: fn(&TopicSettings) -> String,
    /// Changes it. Errors: what would have been right.
    pub(crate) set: fn(&mut TopicSettings, &str) -> Result<(), String>,
}

/// The setting of a name.
pub(crate) fn topic_setting(name: &str) -> Option<&'static TopicSetting> {
    TOPIC_SETTINGS.iter().find(|setting| setting.name == name)
}

/// Names that Kafka's tools take away from topics and brokers after they moved replicas, whether or not they were set. None
/// can be set here: replicas are not throttled.
pub(crate) static UNTHROTTLED: &[&str] = &[
    "follower.replication.throttled.rate",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.rate",
    "leader.replication.throttled.replicas",
    "replica.alter.log.dirs.io.max.bytes.per.second",
];

/// The smallest segment that a topic may ask for. Source: KIP-1030.
const MIN_SEGMENT_BYTES: u64 = 1 << 20;

/// Every setting of topics, by name. Source: Kafka's `TopicConfig` and `LogConfig`.
pub(crate) static TOPIC_SETTINGS: &[TopicSetting] = &[
    TopicSetting {
        name: "cleanup.policy",
        broker_name: "log.cleanup.policy",
        kind: Kind::List,
        documentation: "What becomes of old records: delete, compact, or both.",
        get: |s| s.cleanup.to_string(),
        set: |s, text| put(&mut s.cleanup, text.parse()),
    },
    TopicSetting {
        name: "compression.type",
        broker_name: "",
        kind: Kind::String,
        documentation: "Batches are kept as their producers compressed them.",
        get: |_| "producer".to_owned(),
        set: |_, text| only(text, "producer"),
    },
    TopicSetting {
        name: "delete.retention.ms",
        broker_name: "log.cleaner.delete.retention.ms",
        kind: Kind::Long,
        documentation: "How long a compacted log keeps a record without a value.",
        get: |s| s.delete_retention_ms.to_string(),
        set: |s, text| put(&mut s.delete_retention_ms, whole(text, 0, i64::MAX as u64)),
    },
    TopicSetting {
        name: "max.compaction.lag.ms",
        broker_name: "log.cleaner.max.compaction.lag.ms",
        kind: Kind::Long,
        documentation: "How long a record may wait to be compacted.",
        get: |s| s.max_compaction_lag_ms.to_string(),
        set: |s, text| put(&mut s.max_compaction_lag_ms, whole(text, 1, i64::MAX as u64)),
    },
    TopicSetting {
        name: "max.message.bytes",
        broker_name: "message.max.bytes",
        kind: Kind::Int,
        documentation: "The largest batch that a producer may send.",
        get: |s| s.max_message_bytes.to_string(),
        set: |s, text| put(&mut s.max_message_bytes, whole(text, 0, i32::MAX as u32)),
    },
    TopicSetting {
        name: "message.timestamp.type",
        broker_name: "",
        kind: Kind::String,
        documentation: "Records keep the time that their producer gave them.",
        get: |_| "CreateTime".to_owned(),
        set: |_, text| only(text, "CreateTime"),
    },
    TopicSetting {
        name: "min.cleanable.dirty.ratio",
        broker_name: "log.cleaner.min.cleanable.ratio",
        kind: Kind::Double,
        documentation: "Which part of a log is to be new before it is compacted.",
        get: |s| format!("{:?}", s.min_cleanable_dirty_ratio),
        set: |s, text| put(&mut s.min_cleanable_dirty_ratio, whole(text, 0.0, 1.0)),
    },
    TopicSetting {
        name: "min.compaction.lag.ms",
        broker_name: "log.cleaner.min.compaction.lag.ms",
        kind: Kind::Long,
        documentation: "How long a record is not compacted.",
        get: |s| s.min_compaction_lag_ms.to_string(),
        set: |s, text| put(&mut s.min_compaction_lag_ms, whole(text, 0, i64::MAX as u64)),
    },
    TopicSetting {
        name: "min.insync.replicas",
        broker_name: "min.insync.replicas",
        kind: Kind::Int,
        documentation: "How many replicas must have a record before it is acknowledged with acks=all.",
        get: |s| s.min_insync_replicas.to_string(),
        set: |s, text| put(&mut s.min_insync_replicas, whole(text, 1, u16::MAX)),
    },
    TopicSetting {
        name: "retention.bytes",
        broker_name: "log.retention.bytes",
        kind: Kind::Long,
        documentation: "How large a partition may grow before its oldest segments go; -1 is for ever.",
        get: |s| or_none(s.retention_bytes),
        set: |s, text| put(&mut s.retention_bytes, whole_or_none(text)),
    },
    TopicSetting {
        name: "retention.ms",
        broker_name: "log.retention.ms",
        kind: Kind::Long,
        documentation: "How old a segment's newest record may be before the segment goes; -1 is for ever.",
        get: |s| or_none(s.retention_ms),
        set: |s, text| put(&mut s.retention_ms, whole_or_none(text)),
    },
    TopicSetting {
        name: "segment.bytes",
        broker_name: "log.segment.bytes",
        kind: Kind::Int,
        documentation: "How large a segment may grow before the next one begins.",
        get: |s| s.segment_bytes.to_string(),
        set: |s, text| put(&mut s.segment_bytes, whole(text, MIN_SEGMENT_BYTES, i32::MAX as u64)),
    },
    TopicSetting {
        name: "segment.ms",
        broker_name: "log.roll.ms",
        kind: Kind::Long,
        documentation: "How old a segment may be before the next one begins.",
        get: |s| s.segment_ms.to_string(),
        set: |s, text| put(&mut s.segment_ms, whole(text, 1, i64::MAX as u64)),
    },
    TopicSetting {
        name: "unclean.leader.election.enable",
        broker_name: "unclean.leader.election.enable",
        kind: Kind::Boolean,
        documentation: "Whether a replica that is not in sync may lead when no other lives.",
        get: |s| s.unclean_leader_election.to_string(),
        set: |s, text| put(&mut s.unclean_leader_election, boolean(text)),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BrokerId;
    use crate::settings::BROKER_SETTINGS;

    #[test]
    fn settings_are_sorted_and_say_what_they_read() {
        assert!(TOPIC_SETTINGS.is_sorted_by_key(|setting| setting.name));
        let defaults = BrokerConfig::new(BrokerId(1), Default::default()).topic_settings();
        for setting in TOPIC_SETTINGS {
            let mut settings = defaults;
            let text = (setting.get)(&defaults);
            assert_eq!((setting.set)(&mut settings, &text), Ok(()), "{}={text}", setting.name);
            assert_eq!(settings, defaults, "{}={text}", setting.name);
            let has_default = BROKER_SETTINGS.iter().any(|known| known.name == setting.broker_name);
            assert!(setting.broker_name.is_empty() || has_default, "{}", setting.broker_name);
        }
    }

    #[test]
    fn values() {
        let check = |name: &str, value: &str, expect: Result<&str, &str>| {
            let setting = topic_setting(name).expect("it is in the table");
            let mut settings = BrokerConfig::new(BrokerId(1), Default::default()).topic_settings();
            let found = (setting.set)(&mut settings, value).map(|()| (setting.get)(&settings));
            assert_eq!(found, expect.map(str::to_owned).map_err(str::to_owned), "{name}={value}");
        };
        check("cleanup.policy", "compact", Ok("compact"));
        check("cleanup.policy", " delete , compact", Ok("compact,delete"));
        let policies = "delete, compact, or both with a comma between them are right";
        check("cleanup.policy", "", Err(policies));
        check("cleanup.policy", "keep", Err(policies));
        check("retention.ms", "-1", Ok("-1"));
        check("retention.ms", " 1000 ", Ok("1000"));
        check("retention.ms", "-2", Err("a number from -1 to 9223372036854775807 is right"));
        check("retention.bytes", "0", Ok("0"));
        check("min.insync.replicas", "0", Err("a number from 1 to 65535 is right"));
        check("unclean.leader.election.enable", "TRUE", Ok("true"));
        check("unclean.leader.election.enable", "yes", Err("true or false is right"));
        check("compression.type", "gzip", Err("only `producer` is supported"));
        check("min.cleanable.dirty.ratio", "0.25", Ok("0.25"));
        check("min.cleanable.dirty.ratio", "NaN", Err("a number from 0 to 1 is right"));
        check("segment.bytes", "1000", Err("a number from 1048576 to 2147483647 is right"));
    }
}
