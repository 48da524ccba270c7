//! What a broker must know before it starts.

use crate::defect::DefectKind;
use crate::durability::Fsync;
use crate::group::GroupConfig;
use crate::ids::BrokerId;
use crate::settings::{Cleanup, TopicSettings};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Most brokers that are no voters: each has connections from and to all others, and the controller sends each its log.
pub(crate) const MAX_OBSERVERS: usize = 64;

/// A host and a port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Address {
    /// A name or an IP address; an IPv6 address in brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let wrong = || format!("address `{text}`: HOST:PORT is right");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        if host.is_empty() { Err(wrong()) } else { Ok(Address { host: host.to_owned(), port }) }
    }
}

/// The knobs of a broker. All brokers of a cluster have the same, but for `id`, `listen` and `dir`.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// This broker.
    pub id: BrokerId,
    /// Where the process listens; for the process alone.
    pub listen: String,
    /// The voters of the metadata quorum, and where clients and brokers reach them. A broker that is not among them is an
    /// observer: it has copies and clients as any other, and can come and go while the cluster runs.
    pub brokers: BTreeMap<BrokerId, Address>,
    /// Where clients and brokers reach this broker, if it is an observer; of voters `brokers` says it.
    pub advertised: Option<Address>,
    /// The folder that is the broker's disk; for the process alone.
    pub dir: PathBuf,
    /// What clients are told the cluster is called.
    pub cluster_id: String,
    /// How many replicas must be in sync for acks=all, where the topic does not say; never more than it has.
    pub min_insync_replicas: u16,
    /// Whether a replica that is not in sync may lead when no other lives, where the topic does not say.
    pub unclean_leader_election: bool,
    /// Partitions of a topic whose maker leaves it open.
    pub default_partitions: u32,
    /// Replicas of a topic whose maker leaves it open; never more than there are brokers.
    pub default_replication_factor: u16,
    /// Partitions of the topic that keeps committed offsets.
    pub offsets_partitions: u32,
    /// Partitions of the topic that keeps transactions.
    pub transactions_partitions: u32,
    /// When data is synced; see [`Fsync`].
    pub fsync: Fsync,
    /// How often, with [`Fsync::Interval`].
    pub flush_interval_ms: u64,
    /// A broker that the controller did not hear for this long is fenced.
    pub session_timeout_ms: u64,
    /// How often a broker tells the controller that it lives.
    pub heartbeat_interval_ms: u64,
    /// A follower that was not caught up for this long leaves the ISR.
    pub replica_lag_ms: u64,
    /// How long a leader holds a follower's fetch when there is nothing new.
    pub replica_fetch_wait_ms: u64,
    /// How long a request to another broker may take before its connection is given up.
    pub peer_timeout_ms: u64,
    /// How long a voter of the metadata quorum hears nothing before it asks for votes, at the least.
    pub election_timeout_ms: u64,
    /// How often the leader of the metadata quorum says that it lives.
    pub quorum_heartbeat_ms: u64,
    /// A log of the metadata quorum that is larger is replaced by a snapshot: a start reads it all.
    pub quorum_log_bytes: u64,
    /// A segment of a partition's log that would be larger is followed by a new one.
    pub segment_bytes: u64,
    /// The largest batch that a producer may send. Units: bytes.
    pub max_batch_bytes: usize,
    /// How often logs are looked through for what is too old or too much.
    pub retention_check_interval_ms: u64,
    /// How long a partition remembers a producer that is silent.
    pub producer_id_expiration_ms: u64,
    /// How long it takes until logs are looked through again for what can be compacted.
    pub cleaner_backoff_ms: u64,
    /// What becomes of old records, where the topic does not say.
    pub topic_defaults: RetentionConfig,
    /// Of consumer groups.
    pub groups: GroupConfig,
    /// Bytes of answers to consumers' fetches that nobody has taken yet, of all connections.
    pub fetch_unsent_max_bytes: usize,
    /// A bug to switch on.
    pub defect: Option<DefectKind>,
}

/// What becomes of old records.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RetentionConfig {
    /// Whether segments are deleted, compacted, or both.
    pub cleanup: Cleanup,
    /// A segment whose newest record is older goes; none if never.
    pub retention_ms: Option<u64>,
    /// A larger partition loses its oldest segments; none if never.
    pub retention_bytes: Option<u64>,
    /// A segment that is older is followed by a new one.
    pub segment_ms: u64,
    /// How long a compacted log keeps a record without a value.
    pub delete_retention_ms: u64,
    /// Which part of a log is to be new before it is compacted.
    pub min_cleanable_dirty_ratio: f64,
    /// A younger record is not compacted.
    pub min_compaction_lag_ms: u64,
    /// A record that waits longer is compacted however little there is to gain.
    pub max_compaction_lag_ms: u64,
}

impl Default for RetentionConfig {
    /// Kafka's defaults.
    fn default() -> RetentionConfig {
        const DAY_MS: u64 = 24 * 3600 * 1000;
        RetentionConfig {
            cleanup: Cleanup::Delete,
            retention_ms: Some(7 * DAY_MS),
            retention_bytes: None,
            segment_ms: 7 * DAY_MS,
            delete_retention_ms: DAY_MS,
            min_cleanable_dirty_ratio: 0.5,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX as u64,
        }
    }
}

impl BrokerConfig {
    /// The defaults, for a cluster whose nodes share a machine.
    pub fn new(id: BrokerId, brokers: BTreeMap<BrokerId, Address>) -> BrokerConfig {
        BrokerConfig {
            id,
            listen: brokers.get(&id).map(Address::to_string).unwrap_or_default(),
            brokers,
            advertised: None,
            dir: PathBuf::from("data"),
            cluster_id: "riprap".to_owned(),
            min_insync_replicas: 2,
            unclean_leader_election: false,
            default_partitions: 1,
            default_replication_factor: 3,
            offsets_partitions: 4,
            transactions_partitions: 4,
            fsync: Fsync::Always,
            flush_interval_ms: 1000,
            session_timeout_ms: 2000,
            heartbeat_interval_ms: 300,
            replica_lag_ms: 1500,
            replica_fetch_wait_ms: 500,
            peer_timeout_ms: 2000,
            election_timeout_ms: 600,
            quorum_heartbeat_ms: 100,
            quorum_log_bytes: 4 << 20,
            segment_bytes: 1 << 30,
            max_batch_bytes: 1_048_588,
            retention_check_interval_ms: 300_000,
            producer_id_expiration_ms: 24 * 3600 * 1000,
            cleaner_backoff_ms: 15_000,
            topic_defaults: RetentionConfig::default(),
            groups: GroupConfig::default(),
            fetch_unsent_max_bytes: 64 << 20,
            defect: None,
        }
    }

    /// Where clients and brokers reach this broker. Panics: the configuration is not valid.
    pub(crate) fn address(&self) -> &Address {
        let own = self.brokers.get(&self.id).or(self.advertised.as_ref());
        own.expect("a configuration without is not valid")
    }

    /// The settings of a topic that asks for none.
    pub(crate) fn topic_settings(&self) -> TopicSettings {
        let (durability, retention) = (self.durability(), self.topic_defaults);
        TopicSettings {
            cleanup: retention.cleanup,
            delete_retention_ms: retention.delete_retention_ms,
            max_compaction_lag_ms: retention.max_compaction_lag_ms,
            max_message_bytes: u32::try_from(self.max_batch_bytes).unwrap_or(u32::MAX),
            min_cleanable_dirty_ratio: retention.min_cleanable_dirty_ratio,
            min_compaction_lag_ms: retention.min_compaction_lag_ms,
            min_insync_replicas: durability.min_insync_replicas,
            retention_bytes: retention.retention_bytes,
            retention_ms: retention.retention_ms,
            segment_bytes: self.segment_bytes,
            segment_ms: retention.segment_ms,
            unclean_leader_election: durability.unclean_leader_election,
        }
    }

    /// Says what is wrong with it, if anything.
    pub fn validate(&self) -> Result<(), String> {
        if !self.brokers.contains_key(&self.id) && (self.brokers.is_empty() || self.advertised.is_none()) {
            let voters: Vec<String> = self.brokers.keys().map(BrokerId::to_string).collect();
            let what = "is not among the voters";
            return Err(format!(
                "broker {} {what} [{}], and has no address of its own",
                self.id,
                voters.join(", ")
            ));
        }
        if let Some(id) = self.brokers.keys().chain([&self.id]).find(|id| id.0 < 0) {
            return Err(format!("broker id {id}: ids are 0 or above"));
        }
        let positive = [
            ("min_insync_replicas", u64::from(self.min_insync_replicas)),
            ("default_partitions", u64::from(self.default_partitions)),
            ("default_replication_factor", u64::from(self.default_replication_factor)),
            ("offsets_partitions", u64::from(self.offsets_partitions)),
            ("transactions_partitions", u64::from(self.transactions_partitions)),
            ("flush_interval_ms", self.flush_interval_ms),
            ("session_timeout_ms", self.session_timeout_ms),
            ("heartbeat_interval_ms", self.heartbeat_interval_ms),
            ("replica_lag_ms", self.replica_lag_ms),
            ("replica_fetch_wait_ms", self.replica_fetch_wait_ms),
            ("peer_timeout_ms", self.peer_timeout_ms),
            ("quorum_heartbeat_ms", self.quorum_heartbeat_ms),
            ("quorum_log_bytes", self.quorum_log_bytes),
            ("segment_bytes", self.segment_bytes),
            ("retention_check_interval_ms", self.retention_check_interval_ms),
            ("producer_id_expiration_ms", self.producer_id_expiration_ms),
            ("cleaner_backoff_ms", self.cleaner_backoff_ms),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(format!("{name} is 0; at least 1"));
        }
        let above = [
            (
                "session_timeout_ms",
                self.session_timeout_ms,
                "heartbeat_interval_ms",
                self.heartbeat_interval_ms,
            ),
            ("replica_lag_ms", self.replica_lag_ms, "replica_fetch_wait_ms", self.replica_fetch_wait_ms),
            ("peer_timeout_ms", self.peer_timeout_ms, "replica_fetch_wait_ms", self.replica_fetch_wait_ms),
            (
                "consumer_session_timeout_ms",
                self.groups.consumer_session_timeout_ms,
                "consumer_heartbeat_interval_ms",
                self.groups.consumer_heartbeat_interval_ms,
            ),
            (
                "election_timeout_ms",
                self.election_timeout_ms,
                "quorum_heartbeat_ms",
                self.quorum_heartbeat_ms,
            ),
        ];
        match above.iter().find(|(_, high, _, low)| high <= low) {
            Some((name, high, other, low)) => Err(format!("{name} {high} must be above {other} {low}")),
            None => Ok(()),
        }
    }

    /// Whether this bug is planted.
    pub(crate) fn has(&self, defect: DefectKind) -> bool {
        self.defect == Some(defect)
    }

    /// The rules that decide what a topic's records survive.
    pub(crate) fn durability(&self) -> Durability {
        // DEFECT min-isr-unclean: one replica in sync is enough, whatever the topic asks for, and any may lead.
        if self.has(DefectKind::MinIsrUnclean) {
            return Durability { min_insync_replicas: 1, unclean_leader_election: true, by_topic: false };
        }
        Durability {
            min_insync_replicas: self.min_insync_replicas,
            unclean_leader_election: self.unclean_leader_election,
            by_topic: true,
        }
    }
}

/// What decides which records survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Durability {
    pub(crate) min_insync_replicas: u16,
    pub(crate) unclean_leader_election: bool,
    /// Whether a topic's own configuration counts.
    pub(crate) by_topic: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> BrokerConfig {
        let brokers =
            (1..=3).map(|id| (BrokerId(id), Address { host: "h".to_owned(), port: 9092 })).collect();
        BrokerConfig::new(BrokerId(1), brokers)
    }

    #[test]
    fn refuses_what_cannot_work() {
        let check = |change: fn(&mut BrokerConfig), expect: &str| {
            let mut config = config();
            change(&mut config);
            assert_eq!(config.validate().err().unwrap_or_default(), expect);
        };
        check(|_| {}, "");
        check(
            |c| c.id = BrokerId(4),
            "broker 4 is not among the voters [1, 2, 3], and has no address of its own",
        );
        let advertise = |c: &mut BrokerConfig| c.advertised = c.brokers.remove(&c.id);
        check(advertise, "");
        check(|c| c.min_insync_replicas = 0, "min_insync_replicas is 0; at least 1");
        check(
            |c| c.session_timeout_ms = 300,
            "session_timeout_ms 300 must be above heartbeat_interval_ms 300",
        );
    }

    #[test]
    fn reads_addresses() {
        let check = |text: &str, expect: Result<&str, &str>| {
            let read = text.parse::<Address>().map(|address| address.to_string());
            assert_eq!(read, expect.map(str::to_owned).map_err(str::to_owned));
        };
        check("10.0.0.1:9092", Ok("10.0.0.1:9092"));
        check("[::1]:9092", Ok("[::1]:9092"));
        check("host", Err("address `host`: HOST:PORT is right"));
        check(":9092", Err("address `:9092`: HOST:PORT is right"));
    }
}
