//! What the coordinators of groups and of transactions have in common: each lives in a partition of an internal topic,
//! and is there while this broker leads it.
//!
//! It loads what the partition held when the leadership began, once all of that is committed: what lies above the high
//! watermark may still vanish. What it wants to remember is appended as with acks=all, and it is told in the log's order
//! what is committed.

use crate::group::AppendToken;
use crate::ids::{LeaderEpoch, PartitionKey};
use crate::log::ReadLimits;
use crate::node::{Cx, Running};
use crate::replica::Replica;
use riprap_env::log;
use riprap_protocol::ErrorCode;
use riprap_protocol::records::{RecordBatch, split_batches};
use std::collections::{BTreeMap, VecDeque};

/// How much of a partition is loaded in one round. Units: bytes.
const LOAD_BYTES: usize = 1 << 20;

/// A coordinator, as its driver sees it.
pub(crate) trait Coordinator {
    /// What it keeps, for the log.
    const KEEPS: &'static str;

    /// Whether it has still to take in what the partition held.
    fn is_loading(&self) -> bool;
    /// Takes in a batch of its partition; says which records it did not understand.
    fn replay(&mut self, now_ns: u64, batch: &RecordBatch) -> Vec<String>;
    /// All is loaded.
    fn finish_loading(&mut self, now_ns: u64);
    /// How many of what it keeps there are.
    fn count(&self) -> usize;
    /// What became of an append.
    fn appended(&mut self, now_ns: u64, token: AppendToken, outcome: Result<(), ErrorCode>);
}

/// A coordinator and the leadership that it belongs to.
#[derive(Debug)]
pub(crate) struct Led<C> {
    pub(crate) epoch: LeaderEpoch,
    pub(crate) coordinator: C,
    /// Where the log ended when the leadership began: all below is to be loaded.
    load_end: i64,
    loaded_to: i64,
    /// Appended and not known to be committed, in the log's order, each with the offset after its last record.
    pub(crate) appended: VecDeque<(AppendToken, i64)>,
}

/// A leadership, as a coordinator begins in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leadership {
    pub(crate) epoch: LeaderEpoch,
    load_end: i64,
    log_start: i64,
}

impl Leadership {
    pub(crate) fn begin<C>(self, coordinator: C) -> Led<C> {
        Led {
            epoch: self.epoch,
            coordinator,
            load_end: self.load_end,
            loaded_to: self.log_start,
            appended: VecDeque::new(),
        }
    }
}

impl<C: Coordinator> Led<C> {
    /// Replays the next part of the partition, if it is committed up to where it is to be loaded. Says whether there is
    /// more to do at once.
    pub(crate) fn load(&mut self, replica: &Replica, cx: &mut Cx<'_>) -> bool {
        if !self.coordinator.is_loading() || replica.high_watermark < self.load_end {
            return false;
        }
        let name = replica.name();
        let before = self.loaded_to;
        if before < self.load_end {
            let limits =
                ReadLimits { below_offset: self.load_end, max_bytes: LOAD_BYTES, at_least_one_batch: true };
            let batches = match replica.log.read(cx.env.disk(), before, limits) {
                Ok(batches) => batches,
                Err(e) => {
                    // It goes on loading, and its clients look for another coordinator.
                    log!(cx.env, Error, "{name}: cannot load {}: {e}", C::KEEPS);
                    replica.give_way(e, cx);
                    return false;
                }
            };
            for batch in split_batches(batches).flatten() {
                self.loaded_to = batch.header().next_offset();
                for skipped in self.coordinator.replay(cx.now_ns, &batch) {
                    log!(cx.env, Error, "{name}: skips a record: {skipped}");
                }
            }
            if self.loaded_to == before {
                // Nothing is left of what was there.
                self.loaded_to = self.load_end;
            }
        }
        if self.loaded_to >= self.load_end {
            self.coordinator.finish_loading(cx.now_ns);
            let (count, keeps, epoch) = (self.coordinator.count(), C::KEEPS, self.epoch);
            log!(cx.env, Info, "{name}: coordinates {count} {keeps} in epoch {epoch}");
        }
        true
    }

    /// Tells the coordinator which of its appends are committed.
    pub(crate) fn tell_committed(&mut self, replica: &Replica, now_ns: u64) {
        while let Some((token, end)) = self.appended.front().copied()
            && end <= replica.high_watermark
        {
            self.appended.pop_front();
            self.coordinator.appended(now_ns, token, Ok(()));
        }
    }

    /// What became of an append just now: the offset after its last record, or a refusal.
    pub(crate) fn appended(&mut self, now_ns: u64, token: AppendToken, result: Result<i64, ErrorCode>) {
        match result {
            Ok(end) => self.appended.push_back((token, end)),
            Err(code) => self.coordinator.appended(now_ns, token, Err(code)),
        }
    }
}

impl Running {
    /// The partitions of a topic that this broker leads.
    pub(crate) fn leaderships(&self, topic: &str) -> BTreeMap<PartitionKey, Leadership> {
        let Some(topic) = self.quorum.image().topic_id(topic) else { return BTreeMap::new() };
        let led = self.replicas.of_topic(topic).filter_map(|replica| {
            let leader = replica.leader()?;
            let log_start = replica.log.log_start_offset();
            let leadership = Leadership { epoch: leader.epoch, load_end: leader.epoch_start, log_start };
            Some((replica.key, leadership))
        });
        led.collect()
    }
}

/// Which coordinators are over.
pub(crate) fn over<C>(
    led: &BTreeMap<PartitionKey, Led<C>>,
    leads: &BTreeMap<PartitionKey, Leadership>,
) -> Vec<PartitionKey> {
    let is_over = |key: &PartitionKey, led: &Led<C>| leads.get(key).is_none_or(|now| now.epoch != led.epoch);
    led.iter().filter(|(key, led)| is_over(key, led)).map(|(key, _)| *key).collect()
}
