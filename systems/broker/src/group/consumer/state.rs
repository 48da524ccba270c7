//! What the log keeps of a group of KIP-848, and how one state of it becomes another.
//!
//! ```text
//! group epoch   rises whenever members, subscriptions or topics change
//! target        who is to own what, computed for a group epoch, which is then the target's epoch
//! member epoch  the target's epoch that the member has come to: it holds what that target gives it, or a part that is free
//! ```

use super::record::ConsumerEntry;
use riprap_protocol::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Partitions of topics.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Partitions(BTreeMap<Uuid, BTreeSet<i32>>);

impl Partitions {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }

    pub(super) fn contains(&self, topic: Uuid, index: i32) -> bool {
        self.0.get(&topic).is_some_and(|indexes| indexes.contains(&index))
    }

    pub(super) fn insert(&mut self, topic: Uuid, index: i32) {
        self.0.entry(topic).or_default().insert(index);
    }

    pub(super) fn remove(&mut self, topic: Uuid, index: i32) {
        if let Some(indexes) = self.0.get_mut(&topic) {
            indexes.remove(&index);
            if indexes.is_empty() {
                self.0.remove(&topic);
            }
        }
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (Uuid, i32)> {
        self.0.iter().flat_map(|(topic, indexes)| indexes.iter().map(|index| (*topic, *index)))
    }

    /// By topic.
    pub(super) fn topics(&self) -> impl Iterator<Item = (Uuid, Vec<i32>)> {
        self.0.iter().map(|(topic, indexes)| (*topic, indexes.iter().copied().collect()))
    }

    pub(super) fn is_within(&self, other: &Partitions) -> bool {
        self.iter().all(|(topic, index)| other.contains(topic, index))
    }

    /// Whether none is in both.
    pub(super) fn is_apart_from(&self, other: &Partitions) -> bool {
        self.iter().all(|(topic, index)| !other.contains(topic, index))
    }
}

impl FromIterator<(Uuid, i32)> for Partitions {
    fn from_iter<I: IntoIterator<Item = (Uuid, i32)>>(all: I) -> Partitions {
        let mut partitions = Partitions::default();
        all.into_iter().for_each(|(topic, index)| partitions.insert(topic, index));
        partitions
    }
}

/// Who a member is and what it wants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Subscription {
    pub(super) instance_id: Option<String>,
    pub(super) rack_id: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) names: BTreeSet<String>,
    pub(super) pattern: Option<String>,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) assignor: Option<String>,
}

/// Where a member is on its way to its target. The numbers are those of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Phase {
    /// It holds all that its target gives it, or did when it came to its epoch.
    #[default]
    Stable = 0,
    /// It was told to give partitions up, and has not said that it did.
    Unrevoked = 1,
    /// Others still hold partitions that its target gives it.
    Unreleased = 2,
}

impl Phase {
    pub(super) fn of(number: i8) -> Option<Phase> {
        [Phase::Stable, Phase::Unrevoked, Phase::Unreleased].into_iter().find(|phase| *phase as i8 == number)
    }
}

/// What a member holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Holding {
    pub(super) epoch: i32,
    /// The epoch before, which a member says that did not hear of the new one.
    pub(super) previous_epoch: i32,
    pub(super) phase: Phase,
    pub(super) assigned: Partitions,
    /// It is to give these up: they are in its hands until it says so.
    pub(super) revoking: Partitions,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Member {
    pub(super) subscription: Arc<Subscription>,
    pub(super) holding: Arc<Holding>,
}

/// A group as its records add up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Durable {
    pub(super) epoch: i32,
    /// Of what was subscribed to at this epoch.
    pub(super) fingerprint: i64,
    pub(super) target_epoch: i32,
    pub(super) members: BTreeMap<String, Member>,
    /// By member; who is not in it is to own nothing.
    pub(super) target: BTreeMap<String, Arc<Partitions>>,
}

impl Durable {
    /// The member that has an instance id now.
    pub(super) fn static_member(&self, instance_id: &str) -> Option<(&String, &Member)> {
        self.members.iter().find(|(_, it)| it.subscription.instance_id.as_deref() == Some(instance_id))
    }

    /// Takes in an entry. Entries of a member may come in any order: compaction keeps each at its latest place.
    pub(super) fn apply(&mut self, entry: ConsumerEntry) {
        match entry {
            ConsumerEntry::Group(Some((epoch, fingerprint))) => {
                (self.epoch, self.fingerprint) = (epoch, fingerprint);
            }
            ConsumerEntry::Group(None) => (self.epoch, self.fingerprint) = (0, 0),
            ConsumerEntry::Subscription(id, Some(subscription)) => {
                self.members.entry(id).or_default().subscription = Arc::new(subscription);
            }
            ConsumerEntry::Subscription(id, None) => {
                self.members.remove(&id);
            }
            ConsumerEntry::TargetEpoch(epoch) => self.target_epoch = epoch.unwrap_or(0),
            ConsumerEntry::Target(id, Some(target)) => {
                self.target.insert(id, Arc::new(target));
            }
            ConsumerEntry::Target(id, None) => {
                self.target.remove(&id);
            }
            ConsumerEntry::Holding(id, Some(holding)) => {
                self.members.entry(id).or_default().holding = Arc::new(holding);
            }
            ConsumerEntry::Holding(id, None) => {
                if let Some(member) = self.members.get_mut(&id) {
                    member.holding = Arc::default();
                }
            }
        }
    }

    /// The entries that make this state of a former one, in the order that Kafka writes them in.
    pub(super) fn since(&self, former: &Durable) -> Vec<ConsumerEntry> {
        let mut entries = Vec::new();
        for id in former.members.keys().filter(|id| !self.members.contains_key(*id)) {
            entries.push(ConsumerEntry::Holding(id.clone(), None));
            entries.push(ConsumerEntry::Target(id.clone(), None));
            entries.push(ConsumerEntry::Subscription(id.clone(), None));
        }
        for (id, member) in &self.members {
            if former.members.get(id).is_none_or(|it| it.subscription != member.subscription) {
                let subscription = Subscription::clone(&member.subscription);
                entries.push(ConsumerEntry::Subscription(id.clone(), Some(subscription)));
            }
        }
        if (self.epoch, self.fingerprint) != (former.epoch, former.fingerprint) {
            let is_there = *self != Durable::default();
            entries.push(ConsumerEntry::Group(is_there.then_some((self.epoch, self.fingerprint))));
        }
        for (id, target) in &self.target {
            if former.target.get(id) != Some(target) {
                entries.push(ConsumerEntry::Target(id.clone(), Some(Partitions::clone(target))));
            }
        }
        let lost = |id: &&String| !self.target.contains_key(*id) && self.members.contains_key(*id);
        entries.extend(former.target.keys().filter(lost).map(|id| ConsumerEntry::Target(id.clone(), None)));
        if self.target_epoch != former.target_epoch {
            entries.push(ConsumerEntry::TargetEpoch(Some(self.target_epoch).filter(|epoch| *epoch > 0)));
        }
        for (id, member) in &self.members {
            if former.members.get(id).is_none_or(|it| it.holding != member.holding) {
                entries.push(ConsumerEntry::Holding(id.clone(), Some(Holding::clone(&member.holding))));
            }
        }
        entries
    }

    /// As an operator calls its state.
    pub(super) fn name_of_state(&self) -> &'static str {
        let has_arrived =
            |it: &Member| it.holding.phase == Phase::Stable && it.holding.epoch == self.target_epoch;
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch > self.target_epoch {
            "Assigning"
        } else if self.members.values().all(has_arrived) {
            "Stable"
        } else {
            "Reconciling"
        }
    }
}
