//! The settings of a broker: what `--set` and the file of settings may name, and DescribeConfigs shows.

use super::{Kind, boolean, or_none, put, whole, whole_or_none};
use crate::config::BrokerConfig;
use thiserror::Error;

/// One setting of a broker.
#[derive(Debug)]
pub struct BrokerSetting {
    /// Its name, Kafka's where Kafka has such a setting.
    pub name: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// What it does, in a sentence.
    pub documentation: &'static str,
    /// Says what it is.
    pub get: fn(&BrokerConfig) -> String,
    /// Changes it. Errors: what would have been right.
    pub set: fn(&mut BrokerConfig, &str) -> Result<(), String>,
}

/// Why a setting was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SettingError {
    /// There is none of this name.
    #[error("unknown setting `{name}`; one of: {}", names().join(", "))]
    Unknown {
        /// What was named.
        name: String,
    },
    /// The value is none for it.
    #[error("setting {name}=`{value}`: {right}")]
    Value {
        /// Which setting.
        name: String,
        /// What it was to be.
        value: String,
        /// What would have been right.
        right: String,
    },
}

fn names() -> Vec<&'static str> {
    BROKER_SETTINGS.iter().map(|setting| setting.name).collect()
}

impl BrokerConfig {
    /// Changes a setting by its name.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let setting = BROKER_SETTINGS.iter().find(|setting| setting.name == name);
        let setting = setting.ok_or_else(|| SettingError::Unknown { name: name.to_owned() })?;
        (setting.set)(self, value).map_err(|right| SettingError::Value {
            name: name.to_owned(),
            value: value.to_owned(),
            right,
        })
    }
}

/// A partition's files and a fetch's memory grow with it.
const MOST_PARTITIONS: u32 = 1000;
/// More brokers than anybody runs of these.
const MOST_REPLICAS: u16 = 100;
/// A timeout that is longer is a mistake of units.
const MOST_TIMEOUT_MS: u64 = 24 * 3600 * 1000;

const MINUTE_MS: u64 = 60_000;
/// What fits the 32 bits that Kafka has for it.
const MOST_RETENTION_MINUTES: u64 = i32::MAX as u64;

/// Every setting of a broker, by name.
pub static BROKER_SETTINGS: &[BrokerSetting] = &[
    BrokerSetting {
        name: "broker.heartbeat.interval.ms",
        kind: Kind::Int,
        documentation: "How often a broker tells the controller that it lives.",
        get: |c| c.heartbeat_interval_ms.to_string(),
        set: |c, text| put(&mut c.heartbeat_interval_ms, whole(text, 1, MOST_TIMEOUT_MS)),
    },
    BrokerSetting {
        name: "broker.session.timeout.ms",
        kind: Kind::Int,
        documentation: "A broker that the controller did not hear for this long is fenced.",
        get: |c| c.session_timeout_ms.to_string(),
        set: |c, text| put(&mut c.session_timeout_ms, whole(text, 1, MOST_TIMEOUT_MS)),
    },
    BrokerSetting {
        name: "controller.quorum.election.timeout.ms",
        kind: Kind::Int,
        documentation: "How long a voter of the metadata quorum hears nothing before it asks for votes, at the least.",
        get: |c| c.election_timeout_ms.to_string(),
        set: |c, text| put(&mut c.election_timeout_ms, whole(text, 1, MOST_TIMEOUT_MS)),
    },
    BrokerSetting {
        name: "default.replication.factor",
        kind: Kind::Int,
        documentation: "Replicas of a topic whose maker leaves it open; never more than there are brokers.",
        get: |c| c.default_replication_factor.to_string(),
        set: |c, text| put(&mut c.default_replication_factor, whole(text, 1, MOST_REPLICAS)),
    },
    BrokerSetting {
        name: "fetch.unsent.max.bytes",
        kind: Kind::Int,
        documentation: "Bytes of answers to consumers' fetches that nobody has taken yet, of all connections.",
        get: |c| c.fetch_unsent_max_bytes.to_string(),
        set: |c, text| put(&mut c.fetch_unsent_max_bytes, whole(text, 1, i32::MAX as usize)),
    },
    BrokerSetting {
        name: "flush.interval.ms",
        kind: Kind::Long,
        documentation: "How often logs are synced, with fsync=interval.",
        get: |c| c.flush_interval_ms.to_string(),
        set: |c, text| put(&mut c.flush_interval_ms, whole(text, 1, MOST_TIMEOUT_MS)),
    },
    BrokerSetting {
        name: "fsync",
        kind: Kind::String,
        documentation: "When logs are synced: always, before a record counts; at an interval; or never.",
        get: |c| c.fsync.to_string(),
        set: |c, text| put(&mut c.fsync, text.parse()),
    },
    BrokerSetting {
        name: "group.consumer.heartbeat.interval.ms",
        kind: Kind::Int,
        documentation: "How often members of consumer groups of KIP-848 are to be heard.",
        get: |c| c.groups.consumer_heartbeat_interval_ms.to_string(),
        set: |c, text| put(&mut c.groups.consumer_heartbeat_interval_ms, whole(text, 1, MOST_TIMEOUT_MS)),
    },
    BrokerSetting {
        name: "group.consumer.session.timeout.ms",
        kind: Kind::Int,
        documentation: "How long a member of a consumer group of KIP-848 may be silent.",
        get: |c| c.groups.consumer_session_timeout_ms.to_string(),
        set: |c, text| put(&mut c.groups.consumer_session_timeout_ms, whole(text, 1, MOST_TIMEOUT_MS)),
    },
    BrokerSetting {
        name: "log.cleaner.backoff.ms",
        kind: Kind::Long,
        documentation: "How long it takes until logs are looked through again for what can be compacted.",
        get: |c| c.cleaner_backoff_ms.to_string(),
        set: |c, text| put(&mut c.cleaner_backoff_ms, whole(text, 1, i64::MAX as u64 / 1_000_000)),
    },
    BrokerSetting {
        name: "log.cleaner.delete.retention.ms",
        kind: Kind::Long,
        documentation: "How long a compacted log keeps a record without a value, where its topic does not say.",
        get: |c| c.topic_defaults.delete_retention_ms.to_string(),
        set: |c, text| put(&mut c.topic_defaults.delete_retention_ms, whole(text, 0, i64::MAX as u64)),
    },
    BrokerSetting {
        name: "log.cleaner.max.compaction.lag.ms",
        kind: Kind::Long,
        documentation: "How long a record may wait to be compacted, where its topic does not say.",
        get: |c| c.topic_defaults.max_compaction_lag_ms.to_string(),
        set: |c, text| put(&mut c.topic_defaults.max_compaction_lag_ms, whole(text, 1, i64::MAX as u64)),
    },
    BrokerSetting {
        name: "log.cleaner.min.cleanable.ratio",
        kind: Kind::Double,
        documentation: "Which part of a log is to be new before it is compacted, where its topic does not say.",
        get: |c| format!("{:?}", c.topic_defaults.min_cleanable_dirty_ratio),
        set: |c, text| put(&mut c.topic_defaults.min_cleanable_dirty_ratio, whole(text, 0.0, 1.0)),
    },
    BrokerSetting {
        name: "log.cleaner.min.compaction.lag.ms",
        kind: Kind::Long,
        documentation: "How long a record is not compacted, where its topic does not say.",
        get: |c| c.topic_defaults.min_compaction_lag_ms.to_string(),
        set: |c, text| put(&mut c.topic_defaults.min_compaction_lag_ms, whole(text, 0, i64::MAX as u64)),
    },
    BrokerSetting {
        name: "log.cleanup.policy",
        kind: Kind::List,
        documentation: "What becomes of old records, where their topic does not say: delete, compact, or both.",
        get: |c| c.topic_defaults.cleanup.to_string(),
        set: |c, text| put(&mut c.topic_defaults.cleanup, text.parse()),
    },
    BrokerSetting {
        name: "log.retention.bytes",
        kind: Kind::Long,
        documentation: "How large a partition may grow, where its topic does not say; -1 is for ever.",
        get: |c| or_none(c.topic_defaults.retention_bytes),
        set: |c, text| put(&mut c.topic_defaults.retention_bytes, whole_or_none(text)),
    },
    BrokerSetting {
        name: "log.retention.check.interval.ms",
        kind: Kind::Long,
        documentation: "How often logs are looked through for what is too old or too much.",
        get: |c| c.retention_check_interval_ms.to_string(),
        set: |c, text| put(&mut c.retention_check_interval_ms, whole(text, 1, i64::MAX as u64 / 1_000_000)),
    },
    BrokerSetting {
        name: "log.retention.ms",
        kind: Kind::Long,
        documentation: "How old a segment's newest record may be, where its topic does not say; -1 is for ever.",
        get: |c| or_none(c.topic_defaults.retention_ms),
        set: |c, text| put(&mut c.topic_defaults.retention_ms, whole_or_none(text)),
    },
    BrokerSetting {
        name: "log.roll.ms",
        kind: Kind::Long,
        documentation: "How old a segment may be before the next one begins, where its topic does not say.",
        get: |c| c.topic_defaults.segment_ms.to_string(),
        set: |c, text| put(&mut c.topic_defaults.segment_ms, whole(text, 1, i64::MAX as u64)),
    },
    BrokerSetting {
        name: "log.segment.bytes",
        kind: Kind::Int,
        // Kafka wants 1 MiB at least; tests of what happens between segments want many.
        documentation: "How large a segment may grow before the next one begins, where its topic does not say.",
        get: |c| c.segment_bytes.to_string(),
        set: |c, text| put(&mut c.segment_bytes, whole(text, 1024, i32::MAX as u64)),
    },
    BrokerSetting {
        name: "message.max.bytes",
        kind: Kind::Int,
        documentation: "The largest batch that a producer may send, where its topic does not say.",
        get: |c| c.max_batch_bytes.to_string(),
        set: |c, text| put(&mut c.max_batch_bytes, whole(text, 0, i32::MAX as usize)),
    },
    BrokerSetting {
        name: "min.insync.replicas",
        kind: Kind::Int,
        documentation: "How many replicas must have a record before it is acknowledged, where its topic does not say.",
        get: |c| c.durability().min_insync_replicas.to_string(),
        set: |c, text| put(&mut c.min_insync_replicas, whole(text, 1, u16::MAX)),
    },
    BrokerSetting {
        name: "num.partitions",
        kind: Kind::Int,
        documentation: "Partitions of a topic whose maker leaves it open.",
        get: |c| c.default_partitions.to_string(),
        set: |c, text| put(&mut c.default_partitions, whole(text, 1, MOST_PARTITIONS)),
    },
    BrokerSetting {
        name: "offsets.retention.check.interval.ms",
        kind: Kind::Long,
        documentation: "How often it is looked for committed offsets that are too old.",
        get: |c| c.groups.retention_check_ms.to_string(),
        set: |c, text| put(&mut c.groups.retention_check_ms, whole(text, 1, MOST_TIMEOUT_MS)),
    },
    BrokerSetting {
        name: "offsets.retention.minutes",
        kind: Kind::Int,
        documentation: "How long committed offsets are kept that no member can ask for.",
        get: |c| (c.groups.retention_ms / MINUTE_MS).to_string(),
        set: |c, text| {
            let minutes: u64 = whole(text, 1, MOST_RETENTION_MINUTES)?;
            c.groups.retention_ms = minutes * MINUTE_MS;
            Ok(())
        },
    },
    BrokerSetting {
        name: "offsets.topic.num.partitions",
        kind: Kind::Int,
        documentation: "Partitions of the topic that keeps committed offsets.",
        get: |c| c.offsets_partitions.to_string(),
        set: |c, text| put(&mut c.offsets_partitions, whole(text, 1, MOST_PARTITIONS)),
    },
    BrokerSetting {
        name: "producer.id.expiration.ms",
        kind: Kind::Int,
        documentation: "How long a partition remembers a producer that is silent.",
        get: |c| c.producer_id_expiration_ms.to_string(),
        set: |c, text| put(&mut c.producer_id_expiration_ms, whole(text, 1, i32::MAX as u64)),
    },
    BrokerSetting {
        name: "replica.fetch.wait.max.ms",
        kind: Kind::Int,
        documentation: "How long a leader holds a follower's fetch when there is nothing new.",
        get: |c| c.replica_fetch_wait_ms.to_string(),
        set: |c, text| put(&mut c.replica_fetch_wait_ms, whole(text, 1, MOST_TIMEOUT_MS)),
    },
    BrokerSetting {
        name: "replica.lag.time.max.ms",
        kind: Kind::Long,
        documentation: "A follower that was not caught up for this long leaves the ISR.",
        get: |c| c.replica_lag_ms.to_string(),
        set: |c, text| put(&mut c.replica_lag_ms, whole(text, 1, MOST_TIMEOUT_MS)),
    },
    BrokerSetting {
        name: "replica.socket.timeout.ms",
        kind: Kind::Int,
        documentation: "How long a request to another broker may take before its connection is given up.",
        get: |c| c.peer_timeout_ms.to_string(),
        set: |c, text| put(&mut c.peer_timeout_ms, whole(text, 1, MOST_TIMEOUT_MS)),
    },
    BrokerSetting {
        name: "unclean.leader.election.enable",
        kind: Kind::Boolean,
        documentation: "Whether a replica that is not in sync may lead when no other lives, where its topic does not say.",
        get: |c| c.durability().unclean_leader_election.to_string(),
        set: |c, text| put(&mut c.unclean_leader_election, boolean(text)),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BrokerId;

    fn config() -> BrokerConfig {
        BrokerConfig::new(BrokerId(1), Default::default())
    }

    #[test]
    fn settings_are_sorted_and_say_what_they_read() {
        assert!(BROKER_SETTINGS.is_sorted_by_key(|setting| setting.name));
        for setting in BROKER_SETTINGS {
            let mut changed = config();
            let text = (setting.get)(&changed);
            assert_eq!(changed.set(setting.name, &text), Ok(()));
            assert_eq!((setting.get)(&changed), text, "{}", setting.name);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |name: &str, value: &str, expect: &str| {
            let found = config().set(name, value).map_err(|e| e.to_string());
            assert!(found.as_ref().is_err_and(|e| e.starts_with(expect)), "{found:?} for {name}={value}");
        };
        check(
            "num.partition",
            "1",
            "unknown setting `num.partition`; one of: broker.heartbeat.interval.ms, ",
        );
        check("num.partitions", "0", "setting num.partitions=`0`: a number from 1 to 1000 is right");
        check(
            "log.retention.ms",
            "1h",
            "setting log.retention.ms=`1h`: a number from -1 to 9223372036854775807",
        );
    }
}
