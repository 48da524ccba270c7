//! What is done to logs from time to time: old segments are deleted, logs are compacted, silent producers are forgotten.
//!
//! A leader deletes by its own clock and tells its followers where its log begins; every copy is compacted for itself,
//! which nobody can tell from outside. Both stay below the high watermark. One log is compacted at a time, so many bytes a
//! turn, with a pause between turns: a request waits for one step at most.
//!
//! Source: Kafka's LogManager#cleanupLogs, LogCleaner.

use crate::ids::PartitionKey;
use crate::log::Compaction;
use crate::node::{Cx, Fatal, Running};
use riprap_env::log;
use std::collections::BTreeSet;

/// How much of a log is read for its compaction in one turn: some milliseconds' work. Units: bytes.
const STEP_BYTES: u64 = 1 << 20;

/// The pause between such turns, so that they take half of a core at most.
const STEP_PAUSE_NS: u64 = 5_000_000;

/// How often producers are looked through. Source: Kafka's `producer.id.expiration.check.interval.ms`, ten minutes; the log
/// takes the time from this, so that it is a tenth of that.
const EXPIRE_INTERVAL_NS: u64 = 60_000_000_000;

/// When what is done next, and to which log.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    retain_at_ns: u64,
    expire_at_ns: u64,
    compact_at_ns: u64,
    /// The log that is being compacted, or was last.
    compacting: Option<PartitionKey>,
    /// Logs whose compaction failed: it would again.
    uncleanable: BTreeSet<PartitionKey>,
}

impl Upkeep {
    pub(crate) fn wake_at_ns(&self) -> u64 {
        self.retain_at_ns.min(self.compact_at_ns).min(self.expire_at_ns)
    }
}

impl Running {
    /// Does what is due.
    pub(crate) fn keep_up(&mut self, cx: &mut Cx<'_>) -> Result<(), Fatal> {
        self.save_high_watermarks_in_time(cx)?;
        if self.upkeep.retain_at_ns <= cx.now_ns {
            self.upkeep.retain_at_ns = cx.now_ns + self.config.retention_check_interval_ms * 1_000_000;
            self.retain_logs(cx)?;
        }
        if self.upkeep.expire_at_ns <= cx.now_ns {
            self.upkeep.expire_at_ns = cx.now_ns + EXPIRE_INTERVAL_NS;
            let (now_ms, expiration_ms) = (cx.env.wall_clock_ms(), self.config.producer_id_expiration_ms);
            let expiration_ms = i64::try_from(expiration_ms).unwrap_or(i64::MAX);
            self.replicas.iter_mut().for_each(|replica| replica.log.expire_producers(now_ms, expiration_ms));
        }
        if self.upkeep.compact_at_ns <= cx.now_ns {
            let is_busy = self.compact_a_log(cx)?;
            let backoff_ns = self.config.cleaner_backoff_ms * 1_000_000;
            self.upkeep.compact_at_ns = cx.now_ns + if is_busy { STEP_PAUSE_NS } else { backoff_ns };
        }
        Ok(())
    }

    /// Deletes the segments that are too old or too much, of the logs that this broker leads.
    fn retain_logs(&mut self, cx: &mut Cx<'_>) -> Result<(), Fatal> {
        // Who may have been replaced leaves it to its successor.
        if !self.membership.is_in_touch(cx.now_ns) {
            return Ok(());
        }
        let now_ms = cx.env.wall_clock_ms();
        let mut changed = Vec::new();
        for replica in self.replicas.iter_mut().filter(|replica| replica.leader().is_some()) {
            let high_watermark = replica.high_watermark;
            match replica.log.retain(cx.env.disk(), now_ms, high_watermark) {
                Ok(None) => {}
                Ok(Some(start)) => {
                    let name = replica.name();
                    log!(cx.env, Info, "{name}: begins at {start}: what was older is deleted");
                    changed.push(replica.key);
                }
                Err(error) => return Err(Fatal::Log { partition: replica.name(), error }),
            }
        }
        changed.into_iter().for_each(|key| self.replicas.note_changed(key));
        Ok(())
    }

    /// Compacts a bit of a log. Says whether there was anything to do.
    fn compact_a_log(&mut self, cx: &mut Cx<'_>) -> Result<bool, Fatal> {
        let now_ms = cx.env.wall_clock_ms();
        let last = self.upkeep.compacting;
        let is_going = |key: &PartitionKey| self.replicas.get(*key).is_some_and(|r| r.log.is_compacting());
        let next = last.filter(is_going).or_else(|| self.next_to_compact(last, now_ms));
        let Some(key) = next else { return Ok(false) };
        let upkeep = &mut self.upkeep;
        upkeep.compacting = Some(key);
        let Some(replica) = self.replicas.get_mut(key) else { return Ok(false) };
        let (name, high_watermark) = (replica.name(), replica.high_watermark);
        match replica.log.compact(cx.env.disk(), now_ms, high_watermark, STEP_BYTES) {
            Ok(Compaction::Idle | Compaction::Going) => {}
            Ok(Compaction::Done { before_bytes, after_bytes, to }) => {
                log!(
                    cx.env,
                    Info,
                    "{name}: compacted up to {to}: {after_bytes} bytes instead of {before_bytes}"
                );
            }
            Err(error) if replica.log.has_failed() => return Err(Fatal::Log { partition: name, error }),
            Err(error) => {
                log!(cx.env, Error, "{name}: is not compacted any more: {error}");
                upkeep.uncleanable.insert(key);
            }
        }
        Ok(true)
    }

    /// The next log that wants to be compacted, in turn after one.
    fn next_to_compact(&self, last: Option<PartitionKey>, now_ms: i64) -> Option<PartitionKey> {
        let mut wanting = self.replicas.iter().filter(|replica| {
            !self.upkeep.uncleanable.contains(&replica.key)
                && replica.log.wants_compaction(now_ms, replica.high_watermark)
        });
        let first = wanting.next()?.key;
        let is_later = |key: &PartitionKey| last.is_none_or(|last| *key > last);
        if is_later(&first) {
            return Some(first);
        }
        wanting.map(|replica| replica.key).find(is_later).or(Some(first))
    }
}
