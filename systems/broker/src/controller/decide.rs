//! What the controller decides, as functions from an image to records. No state, no time.
//!
//! Who may lead, in this order: a live member of the ISR; a live member of the ELR; where the topic allows unclean
//! elections, any live replica. If there is none the partition has no leader, and the ISR keeps its last member, which
//! leads again when it is back, unless it lost its disk.
//!
//! Source: KIP-497 (AlterPartition), KIP-966 (last replica, ELR), KIP-455 (reassignments, which `reassign` begins).

use super::reassign::complete;
use crate::ids::{BrokerId, Incarnation, LeaderEpoch, PartitionEpoch, PartitionKey, TopicId};
use crate::metadata::{Image, Partition, PartitionState, Record};
use riprap_protocol::ErrorCode;

/// A broker's process announces itself: its old life, if any, is over.
///
/// It keeps the right to lead that the ELR gives, which rests on what its disk held when it left, unless some of that may be
/// lost: by a broker that does not sync what counts (`Lacking`), or with the disk (`Gone`). KIP-966, "Unclean shutdown", takes
/// it from each process that did not end in order, for Kafka's do not sync. Where brokers do, and all of their processes
/// end at once, that would leave the last to come back as the only one that may lead, and nobody if it has lost its disk.
pub(crate) fn register(
    image: &Image,
    id: BrokerId,
    incarnation: Incarnation,
    last_life: Leaving,
    host: &str,
    port: u16,
) -> Vec<Record> {
    let mut records = vec![Record::RegisterBroker { id, incarnation, host: host.to_owned(), port }];
    records.extend(changes(image, |partition| without(image, partition, id, last_life)));
    records
}

/// A broker was not heard for too long, or shuts down.
pub(crate) fn fence(image: &Image, id: BrokerId) -> Vec<Record> {
    let mut records = vec![Record::FenceBroker { id }];
    records.extend(changes(image, |partition| without(image, partition, id, Leaving::Known)));
    records
}

/// A broker is gone for good. Should it come back, it registers as if it were new, and what it had counts as lost: its
/// disk may have been given to another. The life that was registered stays out.
pub(crate) fn unregister(image: &Image, id: BrokerId) -> Vec<Record> {
    let mut records = changes(image, |partition| without(image, partition, id, Leaving::Gone));
    let incarnation = image.broker(id).map(|broker| broker.incarnation);
    records.push(Record::UnregisterBroker { id, incarnation });
    records
}

/// A fenced broker has caught up with the metadata log: partitions without a leader may now have one.
pub(crate) fn unfence(image: &Image, id: BrokerId) -> Vec<Record> {
    let mut records = vec![Record::UnfenceBroker { id }];
    records.extend(changes(image, |partition| {
        let state = partition.state;
        if state.leader.is_some() || !state.replicas.contains(&id) {
            return None;
        }
        let mut next = state.clone();
        let is_live = |other| other == id || image.is_live(other);
        elect(&mut next, partition, is_live);
        complete(&mut next, partition, is_live);
        (next != *state).then_some(next)
    }));
    records
}

/// A leader's wish for another ISR.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AlterPartition {
    /// The leader.
    pub(crate) leader: BrokerId,
    /// The epoch that it leads in.
    pub(crate) leader_epoch: LeaderEpoch,
    /// The state that it knows.
    pub(crate) partition_epoch: PartitionEpoch,
    /// What it wants, and which life of each member it speaks of.
    pub(crate) isr: Vec<(BrokerId, Incarnation)>,
}

/// Decides about a leader's wish for another ISR. The same ISR again is granted too: it raises the partition's epoch,
/// by which the leader knows that no earlier wish can be granted any more.
pub(crate) fn alter(
    image: &Image,
    key: PartitionKey,
    wish: &AlterPartition,
) -> Result<PartitionState, ErrorCode> {
    let partition = image.partition(key).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let state = partition.state;
    if state.leader != Some(wish.leader) || state.leader_epoch != wish.leader_epoch {
        return Err(ErrorCode::FENCED_LEADER_EPOCH);
    }
    if state.partition_epoch != wish.partition_epoch {
        return Err(ErrorCode::INVALID_UPDATE_VERSION);
    }
    let is_wanted = |id: BrokerId| wish.isr.iter().any(|(wanted, _)| *wanted == id);
    let is_subset = wish.isr.iter().all(|(id, _)| state.replicas.contains(id));
    if !is_wanted(wish.leader) || !is_subset {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    // Of a member's earlier life nothing follows for this one: its disk may hold less. Source: KIP-903.
    let may_join = |(id, incarnation): &(BrokerId, Incarnation)| {
        image.broker(*id).is_some_and(|broker| !broker.fenced && broker.incarnation == *incarnation)
    };
    if !wish.isr.iter().all(|member| state.isr.contains(&member.0) || may_join(member)) {
        return Err(ErrorCode::INELIGIBLE_REPLICA);
    }
    let mut next = state.clone();
    next.isr = in_order(&state.replicas, is_wanted);
    next.elr = in_order(&state.replicas, |id| {
        (state.elr.contains(&id) || state.isr.contains(&id)) && !next.isr.contains(&id)
    });
    if next.isr.len() >= partition.min_insync() {
        next.elr.clear();
    }
    complete(&mut next, partition, |id| image.is_live(id));
    next.partition_epoch = state.partition_epoch.next();
    Ok(next)
}

/// A topic's settings are others: what its partitions may keep, and who may lead them, may be too.
pub(crate) fn reconfigured(image: &Image, topic: TopicId) -> Vec<Record> {
    let all = changes(image, |partition| {
        let mut next = partition.state.clone();
        if next.isr.len() >= partition.min_insync() {
            next.elr.clear();
        }
        if next.leader.is_none() {
            elect(&mut next, partition, |id| image.is_live(id));
        }
        complete(&mut next, partition, |id| image.is_live(id));
        if next == *partition.state {
            return None;
        }
        next.partition_epoch = partition.state.partition_epoch.next();
        Some(next)
    });
    let is_its = |record: &Record| matches!(record, Record::SetPartition { topic: of, .. } if *of == topic);
    all.into_iter().filter(is_its).collect()
}

/// How much is known of a broker that stops to take part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Its process may live on: what it had, it has.
    Known,
    /// Its process ended, and all that counted is on its disk.
    Synced,
    /// Its process ended, and records that counted may be lost with it; see [`durability`](crate::durability).
    Lacking,
    /// What it had is gone, or counts as gone.
    Gone,
}

fn changes(image: &Image, change: impl Fn(Partition<'_>) -> Option<PartitionState>) -> Vec<Record> {
    let changed = image.partitions().filter_map(|(key, partition)| {
        let state = change(partition)?;
        Some(Record::SetPartition { topic: key.topic, index: key.index, state })
    });
    changed.collect()
}

/// A partition's state once a broker takes no part, if that changes it.
fn without(
    image: &Image,
    partition: Partition<'_>,
    id: BrokerId,
    leaving: Leaving,
) -> Option<PartitionState> {
    let state = partition.state;
    let mut next = state.clone();
    let was_in_isr = state.isr.contains(&id);
    if was_in_isr && state.isr.len() > 1 {
        next.isr.retain(|other| *other != id);
        next.elr = in_order(&state.replicas, |other| state.elr.contains(&other) || other == id);
    }
    if next.isr.len() >= partition.min_insync() {
        next.elr.clear();
    }
    if state.leader == Some(id) || state.leader.is_none() {
        elect(&mut next, partition, |other| other != id && image.is_live(other));
    }
    if matches!(leaving, Leaving::Lacking | Leaving::Gone) {
        next.elr.retain(|other| *other != id);
    }
    // Who left the ISR before has all that is committed, and this one, the last in it, may not. If it is known to have
    // nothing, nobody leads before an administrator asks for an unclean election.
    let is_last = next.isr == [id];
    if is_last && (leaving == Leaving::Gone || leaving == Leaving::Lacking && !next.elr.is_empty()) {
        next.isr = std::mem::take(&mut next.elr);
    }
    if next == *state {
        return None;
    }
    next.partition_epoch = state.partition_epoch.next();
    Some(next)
}

/// Chooses a leader, or none. A change of leader raises both epochs.
pub(super) fn elect(next: &mut PartitionState, partition: Partition<'_>, is_live: impl Fn(BrokerId) -> bool) {
    let before = next.leader;
    let find = |ids: &[BrokerId]| next.replicas.iter().copied().find(|id| ids.contains(id) && is_live(*id));
    if let Some(leader) = find(&next.isr) {
        next.leader = Some(leader);
    } else if let Some(leader) = find(&next.elr) {
        // Nothing was committed since the ISR fell below its minimum: its last member is no better than the others.
        next.elr =
            in_order(&next.replicas, |id| (next.elr.contains(&id) || next.isr.contains(&id)) && id != leader);
        next.isr = vec![leader];
        next.leader = Some(leader);
    } else if partition.topic.unclean_leader_election
        && let Some(leader) = find(&next.replicas)
    {
        next.elr.clear();
        next.isr = vec![leader];
        next.leader = Some(leader);
    } else {
        next.leader = None;
    }
    if next.leader != before {
        next.leader_epoch = partition.state.leader_epoch.next();
        next.partition_epoch = partition.state.partition_epoch.next();
    }
}

pub(super) fn in_order(replicas: &[BrokerId], is_in: impl Fn(BrokerId) -> bool) -> Vec<BrokerId> {
    replicas.iter().copied().filter(|id| is_in(*id)).collect()
}

#[cfg(test)]
pub(super) mod tests;
