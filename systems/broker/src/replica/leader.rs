//! What a partition's leader knows of its followers.

use super::isr::InSync;
use crate::ids::{BrokerId, Incarnation, LeaderEpoch};
use crate::metadata::{Image, Partition};
use std::collections::BTreeMap;

/// A leadership: one partition, one epoch.
#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) epoch: LeaderEpoch,
    /// Where the log ended when the leadership began. What lies before was written by earlier leaders.
    pub(crate) epoch_start: i64,
    pub(crate) isr: InSync,
    pub(crate) min_insync: usize,
    /// What was asked for last and not granted yet; empty if nothing was.
    pub(crate) isr_asked_for: Vec<BrokerId>,
    followers: BTreeMap<BrokerId, Progress>,
    /// Where followers that fetched in this epoch said that their logs begin.
    log_starts: BTreeMap<BrokerId, i64>,
}

/// How far a follower is.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// It has everything below, durably; none until it fetched in this epoch.
    end: Option<i64>,
    /// Which life of the follower said so.
    incarnation: Option<Incarnation>,
    /// When it had all that the leader had.
    caught_up_ns: u64,
    /// When it fetched last.
    fetched_ns: u64,
    /// The leader's end then.
    leader_end: i64,
}

impl Progress {
    /// Of a follower that was not heard yet. Nobody is blamed for the time before.
    fn unknown(now_ns: u64) -> Progress {
        Progress {
            end: None,
            incarnation: None,
            caught_up_ns: now_ns,
            fetched_ns: now_ns,
            leader_end: i64::MAX,
        }
    }
}

impl Leader {
    /// A leadership that begins now.
    pub(crate) fn new(me: BrokerId, partition: Partition<'_>, log_end: i64, now_ns: u64) -> Leader {
        let state = partition.state;
        Leader {
            epoch: state.leader_epoch,
            epoch_start: log_end,
            isr: InSync::new(state.isr.clone(), state.partition_epoch),
            min_insync: partition.min_insync(),
            isr_asked_for: Vec::new(),
            log_starts: BTreeMap::new(),
            followers: state
                .replicas
                .iter()
                .filter(|id| **id != me)
                .map(|id| (*id, Progress::unknown(now_ns)))
                .collect(),
        }
    }

    /// Whether a broker is to have a copy.
    pub(crate) fn is_follower(&self, id: BrokerId) -> bool {
        self.followers.contains_key(&id)
    }

    /// A follower fetches from `offset`, and so has all that lies before.
    pub(crate) fn fetched(
        &mut self,
        id: BrokerId,
        incarnation: Incarnation,
        offset: i64,
        log_end: i64,
        now_ns: u64,
    ) {
        let Some(progress) = self.followers.get_mut(&id) else { return };
        if offset >= log_end {
            progress.caught_up_ns = now_ns;
        } else if offset >= progress.leader_end {
            // It has now what there was when it fetched before.
            progress.caught_up_ns = progress.caught_up_ns.max(progress.fetched_ns);
        }
        progress.end = Some(offset);
        progress.incarnation = Some(incarnation);
        progress.fetched_ns = now_ns;
        progress.leader_end = log_end;
    }

    /// A follower says where its log begins.
    pub(crate) fn starts_at(&mut self, id: BrokerId, log_start: i64) {
        if self.followers.contains_key(&id) {
            self.log_starts.insert(id, log_start);
        }
    }

    /// The least of all starts of the log: its own, and those of followers that live. One that was not heard in this epoch
    /// may have all.
    pub(crate) fn low_watermark(&self, own_start: i64, is_live: impl Fn(BrokerId) -> bool) -> i64 {
        let live = self.followers.keys().filter(|id| is_live(**id));
        live.map(|id| self.log_starts.get(id).copied().unwrap_or(-1)).fold(own_start, i64::min)
    }

    /// Up to where records are committed, if that can be said now.
    pub(crate) fn high_watermark(&self, own_durable_end: i64) -> Option<i64> {
        self.isr.high_watermark(self.min_insync, |id| match self.followers.get(&id) {
            Some(progress) => progress.end,
            None => Some(own_durable_end),
        })
    }

    /// The ISR that there should be: without those that were not caught up for too long, with those that caught up.
    ///
    /// A follower joins only once it has all that is committed, and all that there was when the leadership began: the
    /// high watermark that a new leader knows may lag behind what the last one told its clients.
    pub(crate) fn wanted_isr(
        &self,
        me: BrokerId,
        high_watermark: i64,
        image: &Image,
        now_ns: u64,
        lag_ns: u64,
    ) -> Vec<BrokerId> {
        let is_wanted = |id: BrokerId| {
            let Some(progress) = self.followers.get(&id) else { return id == me };
            if self.isr.members().contains(&id) {
                return now_ns.saturating_sub(progress.caught_up_ns) <= lag_ns;
            }
            let is_same_life =
                image.broker(id).is_some_and(|b| !b.fenced && Some(b.incarnation) == progress.incarnation);
            let has_all = progress.end.is_some_and(|end| end >= high_watermark.max(self.epoch_start));
            is_same_life && has_all && now_ns.saturating_sub(progress.fetched_ns) <= lag_ns
        };
        let all = self.isr.members().iter().copied().chain(self.followers.keys().copied());
        let mut wanted: Vec<BrokerId> = all.filter(|id| is_wanted(*id)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// The life of a follower that this leader's knowledge of it is about; none if it never fetched.
    pub(crate) fn incarnation_of(&self, id: BrokerId) -> Option<Incarnation> {
        self.followers.get(&id).and_then(|progress| progress.incarnation)
    }

    /// The cluster agreed on another ISR, other replicas or other settings. Who is new in the ISR is given time to stay in
    /// it. Says whether anything changed.
    pub(crate) fn agree(&mut self, me: BrokerId, partition: Partition<'_>, now_ns: u64) -> bool {
        let before = self.isr.members().to_vec();
        let min_insync = std::mem::replace(&mut self.min_insync, partition.min_insync());
        let replicas = &partition.state.replicas;
        self.followers.retain(|id, _| replicas.contains(id));
        for id in replicas.iter().filter(|id| **id != me) {
            self.followers.entry(*id).or_insert(Progress::unknown(now_ns));
        }
        let is_new = self.isr.agree(&partition.state.isr, partition.state.partition_epoch);
        if is_new {
            self.isr_asked_for.clear();
            for (id, progress) in &mut self.followers {
                if self.isr.members().contains(id) && !before.contains(id) {
                    progress.caught_up_ns = now_ns;
                }
            }
        }
        is_new || self.min_insync != min_insync
    }
}
