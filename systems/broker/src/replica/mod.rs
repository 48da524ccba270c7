//! This broker's copies of partitions: logs, roles, high watermarks.

mod isr;
mod leader;

pub(crate) use leader::Leader;

use crate::durability::Fsync;
use crate::ids::{BrokerId, LeaderEpoch, PartitionKey};
use crate::log::{EpochEnd, LogError, PartitionLog, ReadError};
use crate::metadata::Partition;
use crate::node::{Cx, Fatal};
use riprap_env::{Disk, Env, log};
use std::sync::Arc;

/// What this broker is to a partition.
#[derive(Debug)]
pub(crate) enum Role {
    /// Nobody leads, as far as is known.
    Idle,
    /// It follows.
    Follower(Follower),
    /// It leads.
    Leader(Leader),
}

/// A followership: one partition, one epoch of its leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Follower {
    pub(crate) leader: BrokerId,
    pub(crate) epoch: LeaderEpoch,
    /// After an error, no fetch before this.
    pub(crate) pause_until_ns: u64,
}

/// A copy of a partition.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) key: PartitionKey,
    pub(crate) topic_name: String,
    name: Arc<str>,
    pub(crate) log: PartitionLog,
    pub(crate) role: Role,
    /// All below is committed. Never beyond the log's end; it may lag behind what is committed.
    pub(crate) high_watermark: i64,
    /// When the leader's high watermark moved last, and from where. Only a planted bug looks at it.
    pub(crate) moved: (u64, i64),
    /// The high watermark at the end of this broker's last leadership, if it led in this life; for a defect alone.
    pub(crate) led_until: Option<i64>,
    /// Of the newest state that was seen, whatever the role.
    leader_epoch: Option<LeaderEpoch>,
    /// There are copies on other brokers.
    has_others: bool,
    fsync: Fsync,
}

impl Replica {
    pub(crate) fn new(key: PartitionKey, topic_name: &str, log: PartitionLog, fsync: Fsync) -> Replica {
        let high_watermark = log.log_start_offset();
        Replica {
            key,
            topic_name: topic_name.to_owned(),
            name: format!("{topic_name}-{}", key.index).into(),
            log,
            role: Role::Idle,
            high_watermark,
            moved: (0, high_watermark),
            led_until: None,
            leader_epoch: None,
            has_others: false,
            fsync,
        }
    }

    /// Takes up what was known to be committed in the broker's last life.
    pub(crate) fn restore_high_watermark(&mut self, saved: Option<i64>) {
        self.high_watermark = self.high_watermark.max(saved.unwrap_or(0).min(self.log.log_end_offset()));
        self.log.note_high_watermark(self.high_watermark);
    }

    /// Up to where this copy counts; see [`durability`](crate::durability).
    pub(crate) fn counted_end(&self) -> i64 {
        match self.fsync {
            Fsync::Always => self.log.durable_end_offset(),
            Fsync::Interval | Fsync::Never => self.log.log_end_offset(),
        }
    }

    /// All below is committed, and belongs to no transaction that may still be aborted.
    pub(crate) fn last_stable_offset(&self) -> i64 {
        self.log.last_stable_offset(self.high_watermark)
    }

    pub(crate) fn leader(&self) -> Option<&Leader> {
        match &self.role {
            Role::Leader(leader) => Some(leader),
            Role::Idle | Role::Follower(_) => None,
        }
    }

    pub(crate) fn leader_mut(&mut self) -> Option<&mut Leader> {
        match &mut self.role {
            Role::Leader(leader) => Some(leader),
            Role::Idle | Role::Follower(_) => None,
        }
    }

    /// The epoch in which this broker leads.
    pub(crate) fn leads_in(&self) -> Option<LeaderEpoch> {
        self.leader().map(|leader| leader.epoch)
    }

    /// Takes the role that the cluster agreed on. Says whether anything changed.
    pub(crate) fn update(
        &mut self,
        me: BrokerId,
        partition: Partition<'_>,
        now_ns: u64,
        env: &mut dyn Env,
    ) -> bool {
        let state = partition.state;
        self.has_others = state.replicas.len() > 1;
        if self.leader_epoch == Some(state.leader_epoch) {
            let name = self.name();
            let Role::Leader(leader) = &mut self.role else { return false };
            let changed = leader.agree(me, partition, now_ns);
            if changed {
                let isr = Ids(leader.isr.members());
                log!(env, Info, "{name}: isr is {isr} in epoch {}", leader.isr.epoch());
            }
            return changed;
        }
        self.leader_epoch = Some(state.leader_epoch);
        let (epoch, end, high_watermark) =
            (state.leader_epoch, self.log.log_end_offset(), self.high_watermark);
        let isr = Ids(&state.isr);
        let name = self.name();
        if self.leader().is_some() {
            self.led_until = Some(high_watermark);
        }
        self.role = match state.leader {
            Some(id) if id == me => {
                log!(
                    env,
                    Info,
                    "{name}: leads in epoch {epoch} from offset {end}, high watermark {high_watermark}, isr {isr}"
                );
                Role::Leader(Leader::new(me, partition, end, now_ns))
            }
            Some(leader) => {
                log!(env, Info, "{name}: follows {leader} in epoch {epoch} from offset {end}");
                Role::Follower(Follower { leader, epoch, pause_until_ns: 0 })
            }
            None => {
                log!(env, Warn, "{name}: has no leader in epoch {epoch}, isr {isr}");
                Role::Idle
            }
        };
        true
    }

    /// Lays down the role if another epoch has begun. Says whether it did.
    pub(crate) fn stand_down(&mut self, epoch: Option<LeaderEpoch>, env: &mut dyn Env) -> bool {
        let is_over = !matches!(self.role, Role::Idle) && epoch != self.leader_epoch;
        if is_over {
            log!(env, Warn, "{}: stands down: this broker is not registered", self.name());
            self.role = Role::Idle;
            self.leader_epoch = None;
        }
        is_over
    }

    /// Moves the leader's high watermark to where it may be now. Says whether it moved.
    pub(crate) fn advance(&mut self, now_ns: u64) -> bool {
        let own_end = self.counted_end();
        let Some(committed) = self.leader().and_then(|leader| leader.high_watermark(own_end)) else {
            return false;
        };
        let advances = committed > self.high_watermark;
        if advances {
            self.moved = (now_ns, self.high_watermark);
            self.high_watermark = committed;
            self.log.note_high_watermark(committed);
        }
        advances
    }

    /// Takes in the leader's high watermark, once the log is known to be a prefix of the leader's.
    ///
    /// A new leader may know less than was known here: what is committed stays so.
    pub(crate) fn hear_high_watermark(&mut self, leaders: i64) {
        self.high_watermark = self.high_watermark.max(leaders.min(self.log.log_end_offset()));
        self.log.note_high_watermark(self.high_watermark);
    }

    /// Deletes what the leader has deleted, as far as it is known to be committed here.
    pub(crate) fn follow_start(&mut self, leaders: i64, disk: &mut dyn Disk) -> Result<(), LogError> {
        self.log.advance_start_to(disk, leaders.min(self.high_watermark)).map(|_| ())
    }

    /// Where a log that ends at `offset`, with a last batch of `epoch`, parts from this one; none if it does not.
    ///
    /// Source: KIP-595, "DivergingEpoch"; KIP-279 for the answer's epoch.
    pub(crate) fn diverges(&self, offset: i64, epoch: i32) -> Option<EpochEnd> {
        let end = self.epoch_end(epoch);
        (end.epoch < epoch || end.end_offset < offset).then_some(end)
    }

    /// The largest epoch up to `requested`, and where it ends in this log.
    pub(crate) fn epoch_end(&self, requested: i32) -> EpochEnd {
        let empty = EpochEnd { epoch: requested, end_offset: self.log.log_start_offset() };
        self.log.end_offset_for_epoch(requested).unwrap_or(empty)
    }

    /// Cuts the log back to where the leader's answer allows it to agree with its own; the next fetch shows whether
    /// it does.
    ///
    /// If this log has no such epoch, all after the largest one below it goes: the leader is asked about that one next.
    /// Source: KIP-279; AbstractFetcherThread#getOffsetTruncationState.
    pub(crate) fn truncate_to_leader(
        &mut self,
        leaders: EpochEnd,
        disk: &mut dyn Disk,
    ) -> Result<(i64, i64), LogError> {
        let own = self.epoch_end(leaders.epoch);
        let before = self.log.log_end_offset();
        let to =
            if own.epoch == leaders.epoch { own.end_offset.min(leaders.end_offset) } else { own.end_offset };
        let after = self.log.truncate_to(disk, to)?;
        self.high_watermark = self.high_watermark.min(after);
        Ok((before, after))
    }

    /// What was to be read has rotted. Where there are other copies this one must not go on as if it had all that it should:
    /// the process ends, and others lead. The only copy goes on with what it has, and says what it cannot read.
    pub(crate) fn give_way(&self, error: ReadError, cx: &mut Cx<'_>) {
        if let ReadError::Log(error @ LogError::Corrupt { .. }) = error
            && self.has_others
        {
            cx.fatal = Some(Fatal::Log { partition: self.name(), error });
        }
    }

    /// For logs.
    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }
}

/// Brokers, for logs.
pub(crate) struct Ids<'a>(pub(crate) &'a [BrokerId]);

impl std::fmt::Display for Ids<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, id) in self.0.iter().enumerate() {
            write!(f, "{}{id}", if index == 0 { "[" } else { " " })?;
        }
        f.write_str(if self.0.is_empty() { "[]" } else { "]" })
    }
}

#[cfg(test)]
mod tests;
