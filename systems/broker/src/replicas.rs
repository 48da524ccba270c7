//! All of this broker's copies: which there are, which were changed in this turn.

use crate::config::BrokerConfig;
use crate::coordinators::is_internal;
use crate::defect::DefectKind;
use crate::durability::{Flush, Fsync};
use crate::high_watermarks::HighWatermarks;
use crate::ids::{PartitionKey, TopicId};
use crate::log::{Cleanup, LogConfig, LogError, PartitionLog, removal};
use crate::metadata::Topic;
use crate::node::{Cx, Fatal, Running};
use crate::replica::{Replica, Role};
use riprap_env::log;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Where the logs lie on the disk, one folder each.
const DIR: &str = "partitions";

/// The largest segment of a topic that coordinators keep: what is in the last one cannot be compacted, and is read whenever
/// a coordinator is replaced. Source: Kafka's `offsets.topic.segment.bytes`.
const INTERNAL_SEGMENT_BYTES: u64 = 100 << 20;

/// This broker's copies.
#[derive(Debug)]
pub(crate) struct Replicas {
    open: BTreeMap<PartitionKey, Replica>,
    pub(crate) high_watermarks: HighWatermarks,
    /// Opened what the disk holds, and removed what nobody needs any more.
    is_awake: bool,
    /// Appended to since the last sync.
    dirty: BTreeSet<PartitionKey>,
    /// How often a role has changed: whoever does as they are need not look again while this stays.
    roles: u64,
    /// High watermark, role or end may have changed: waiting requests are looked at again.
    changed: BTreeSet<PartitionKey>,
    fsync: Fsync,
    flush: Flush,
    /// When the ISRs are looked at next.
    pub(crate) isr_check_at_ns: u64,
    /// After a request for other ISRs, the next one waits until then.
    pub(crate) isr_pause_until_ns: u64,
    /// A request for other ISRs is on its way.
    pub(crate) is_asking_for_isrs: bool,
}

impl Replicas {
    pub(crate) fn new(config: &BrokerConfig, high_watermarks: HighWatermarks) -> Replicas {
        let (fsync, flush_interval_ms) = flush_of(config);
        Replicas {
            open: BTreeMap::new(),
            high_watermarks,
            is_awake: false,
            dirty: BTreeSet::new(),
            roles: 0,
            changed: BTreeSet::new(),
            fsync,
            flush: Flush::new(flush_interval_ms),
            isr_check_at_ns: 0,
            isr_pause_until_ns: 0,
            is_asking_for_isrs: false,
        }
    }

    pub(crate) fn get(&self, key: PartitionKey) -> Option<&Replica> {
        self.open.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: PartitionKey) -> Option<&mut Replica> {
        self.open.get_mut(&key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Replica> {
        self.open.values()
    }

    /// The copies of a topic's partitions.
    pub(crate) fn of_topic(&self, topic: TopicId) -> impl Iterator<Item = &Replica> {
        let from = PartitionKey { topic, index: 0 };
        self.open.range(from..=PartitionKey { topic, index: i32::MAX }).map(|(_, replica)| replica)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Replica> {
        self.open.values_mut()
    }

    /// Changes whenever a role does.
    pub(crate) fn roles(&self) -> u64 {
        self.roles
    }

    /// Notes that a copy was appended to.
    pub(crate) fn note_appended(&mut self, key: PartitionKey) {
        self.dirty.insert(key);
        self.changed.insert(key);
    }

    /// Notes that requests which wait for a copy are to be looked at again.
    pub(crate) fn note_changed(&mut self, key: PartitionKey) {
        self.changed.insert(key);
    }

    pub(crate) fn take_changed(&mut self) -> BTreeSet<PartitionKey> {
        std::mem::take(&mut self.changed)
    }

    pub(crate) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Makes what was appended count, and durable if its time has come.
    pub(crate) fn sync(&mut self, cx: &mut Cx<'_>) -> Result<(), Fatal> {
        if self.dirty.is_empty() && self.flush.wake_at_ns().is_none_or(|at_ns| at_ns > cx.now_ns) {
            return Ok(());
        }
        let appended = std::mem::take(&mut self.dirty);
        self.changed.extend(&appended);
        let due = match self.fsync {
            Fsync::Always => appended,
            Fsync::Interval => {
                appended.into_iter().for_each(|key| self.flush.note(key, cx.now_ns));
                self.flush.take_due(cx.now_ns)
            }
            Fsync::Never => return Ok(()),
        };
        for key in due {
            let Some(replica) = self.open.get_mut(&key) else { continue };
            let result = replica.log.sync(cx.env.disk());
            result.map_err(|error| Fatal::Log { partition: replica.name(), error })?;
        }
        Ok(())
    }

    /// When a copy has something to do.
    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        let looks_at_isrs =
            !self.is_asking_for_isrs && self.open.values().any(|replica| replica.leader().is_some());
        let isr_check_at_ns = self.isr_check_at_ns.max(self.isr_pause_until_ns);
        self.flush.wake_at_ns().into_iter().chain(looks_at_isrs.then_some(isr_check_at_ns)).min()
    }
}

/// When logs are synced, and how often if at an interval.
fn flush_of(config: &BrokerConfig) -> (Fsync, u64) {
    // DEFECT lazy-fsync: records count once they are written, whatever is asked for, and are synced every two minutes.
    if config.has(DefectKind::LazyFsync) {
        return (Fsync::Interval, 120_000);
    }
    (config.fsync, config.flush_interval_ms)
}

fn dir_of(key: PartitionKey) -> String {
    format!("{DIR}/{}", name_of(key))
}

/// How a topic's logs are kept. What coordinators keep is theirs: it is compacted, and never deleted by age.
fn log_config(config: &BrokerConfig, topic: &Topic) -> LogConfig {
    let config = LogConfig { defect: config.defect, ..topic.settings(config).log_config() };
    if !is_internal(&topic.name) {
        return config;
    }
    LogConfig {
        cleanup: Cleanup { delete: false, compact: true },
        segment_bytes: config.segment_bytes.min(INTERNAL_SEGMENT_BYTES),
        ..config
    }
}

fn name_of(key: PartitionKey) -> String {
    format!("{}-{}", key.topic, key.index)
}

impl Running {
    /// Makes this broker's copies and their roles what the image says.
    ///
    /// An image that does not know this life of the broker is of the past: what it says this broker leads, it led
    /// before it died, and must not lead in the same epoch again.
    pub(crate) fn take_up_roles(&mut self, cx: &mut Cx<'_>) -> Result<(), Fatal> {
        if !self.is_registered() {
            self.stand_down(cx);
            return Ok(());
        }
        // DEFECT lost-lease-unaware: see `tick_membership`.
        if self.membership.lost_its_lease {
            return Ok(());
        }
        self.remove_copies(cx)?;
        let me = self.config.id;
        let image = self.quorum.image();
        let replicas = &mut self.replicas;
        let mut opened = Vec::new();
        for (key, partition) in image.partitions() {
            if !partition.state.replicas.contains(&me) {
                continue;
            }
            let log_config = log_config(&self.config, partition.topic);
            let replica = match replicas.open.entry(key) {
                Entry::Occupied(open) => open.into_mut(),
                Entry::Vacant(missing) => {
                    let name = &partition.topic.name;
                    self.membership.hurry(cx.now_ns);
                    let saved = replicas.high_watermarks.get(key);
                    opened.push(key);
                    let opened = open(key, name, log_config, replicas.fsync, saved, cx)?;
                    opened
                        .log
                        .check_known(partition.state.leader_epoch.0)
                        .map_err(|error| Fatal::Log { partition: opened.name(), error })?;
                    missing.insert(opened)
                }
            };
            replica.log.set_config(log_config);
            if replica.update(me, partition, cx.now_ns, cx.env) {
                replicas.changed.insert(key);
                replicas.roles += 1;
                replicas.isr_check_at_ns = cx.now_ns;
                // DEFECT hw-truncation: a follower cuts its log at the high watermark that it knows, before it has asked
                // its leader for anything.
                let has_defect = self.config.has(DefectKind::HwTruncation);
                if has_defect && matches!(replica.role, Role::Follower(_)) {
                    let cut = replica.log.truncate_to(cx.env.disk(), replica.high_watermark);
                    cut.map_err(|error| Fatal::Log { partition: replica.name(), error })?;
                }
            }
        }
        for key in opened {
            replicas.take_back_high_watermark(key, cx)?;
        }
        Ok(())
    }

    /// Lays down the roles that the cluster has given to others, and takes up none.
    fn stand_down(&mut self, cx: &mut Cx<'_>) {
        let image = self.quorum.image();
        for (key, replica) in &mut self.replicas.open {
            let epoch = image.partition(*key).map(|partition| partition.state.leader_epoch);
            if replica.stand_down(epoch, cx.env) {
                self.replicas.changed.insert(*key);
                self.replicas.roles += 1;
            }
        }
    }

    /// Removes the copies of topics that are gone: now, or while this broker was down.
    fn remove_copies(&mut self, cx: &mut Cx<'_>) -> Result<(), Fatal> {
        let me = self.config.id;
        let image = self.quorum.image();
        let is_needed = |key: PartitionKey| {
            image.partition(key).is_some_and(|partition| partition.state.replicas.contains(&me))
        };
        if !std::mem::replace(&mut self.replicas.is_awake, true) {
            let needed: BTreeSet<String> =
                image.partitions().map(|(key, _)| key).filter(|key| is_needed(*key)).map(name_of).collect();
            for name in cx.env.disk().list(DIR)? {
                if !needed.contains(&name) {
                    log!(cx.env, Info, "removes the log {name}: nobody needs it here");
                    removal::remove(cx.env.disk(), &format!("{DIR}/{name}"))?;
                }
            }
        }
        let gone: Vec<PartitionKey> =
            self.replicas.open.keys().copied().filter(|key| !is_needed(*key)).collect();
        for key in gone {
            let replica = self.replicas.open.remove(&key).expect("it was listed");
            log!(cx.env, Info, "{}: removed: nobody needs it here", replica.name());
            replica.log.close(cx.env.disk());
            removal::remove(cx.env.disk(), &dir_of(key))?;
            self.replicas.dirty.remove(&key);
            self.replicas.changed.insert(key);
            self.replicas.roles += 1;
        }
        Ok(())
    }

    /// Moves high watermarks to where they may be now.
    pub(crate) fn advance_high_watermarks(&mut self, now_ns: u64) {
        let Replicas { open, changed, .. } = &mut self.replicas;
        for key in &*changed {
            if let Some(replica) = open.get_mut(key) {
                replica.advance(now_ns);
            }
        }
    }
}

fn open(
    key: PartitionKey,
    topic_name: &str,
    log_config: LogConfig,
    fsync: Fsync,
    saved: Option<i64>,
    cx: &mut Cx<'_>,
) -> Result<Replica, Fatal> {
    let opened = PartitionLog::open(cx.env.disk(), &dir_of(key), log_config);
    let (log, recovery) = opened.map_err(|error: LogError| {
        let partition = format!("{topic_name}-{}", key.index).into();
        Fatal::Log { partition, error }
    })?;
    let mut replica = Replica::new(key, topic_name, log, fsync);
    replica.restore_high_watermark(saved);
    if recovery.batches > 0 || recovery.cut.is_some() {
        let (name, end, batches) = (replica.name(), replica.log.log_end_offset(), recovery.batches);
        log!(cx.env, Info, "{name}: found {batches} batches up to offset {end}");
        if let Some(cut) = recovery.cut {
            log!(cx.env, Warn, "{name}: cut {} bytes of a broken tail: {}", cut.size_bytes, cut.why);
        }
    }
    Ok(replica)
}
