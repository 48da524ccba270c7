//! What the controller decides about where replicas are and which of them leads: reassignments and elections on request.
//!
//! ```text
//! asked for      replicas := target + removing, with `adding` and `removing` beside them; all of them follow
//! over           as soon as all that were added are in sync: replicas := target, the rest is out of the ISR, and the
//!                leader is one of the target
//! cancelled      replicas := those from before
//! asked again    the new target takes the place of the old one
//! ```
//! A reassignment is not over before enough of its target are in sync, and is not cancelled while too few of the
//! replicas from before are: the copies that go may be the only ones of what was acknowledged.
//!
//! A replica that goes raises the leader's epoch, though the leader may stay: its copy is deleted, and if it is added again
//! a fetch from before must not be taken for one of the new copy, which is empty.
//!
//! Source: KIP-455; Kafka's ReplicationControlManager and PartitionChangeBuilder, which wait for those that were added alone.

use super::decide::{elect, in_order};
use super::topics::{Refusal, refuse};
use crate::ids::{BrokerId, PartitionKey};
use crate::metadata::{Image, Partition, PartitionState, Topic};
use riprap_protocol::ErrorCode;
use std::collections::BTreeSet;

/// Where the replicas of a partition are to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// There.
    Replicas(Vec<BrokerId>),
    /// Where they were before the reassignment that is under way.
    Cancel,
}

/// Whom an election is to make leader. Source: KIP-460.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Election {
    /// The first of the replicas.
    Preferred,
    /// Any replica that lives, if there is no leader.
    Unclean,
}

/// Decides where a partition's replicas go.
pub(crate) fn reassign(
    image: &Image,
    key: PartitionKey,
    target: &Target,
    may_change_factor: bool,
) -> Result<PartitionState, Refusal> {
    let partition = image.partition(key).ok_or_else(|| no_partition(key.index))?;
    let mut next = match target {
        Target::Replicas(target) => begin(image, partition, target, may_change_factor)?,
        Target::Cancel => cancel(image, partition)?,
    };
    complete(&mut next, partition, |id| image.is_live(id));
    if next != *partition.state {
        next.partition_epoch = partition.state.partition_epoch.next();
    }
    Ok(next)
}

fn begin(
    image: &Image,
    partition: Partition<'_>,
    target: &[BrokerId],
    may_change_factor: bool,
) -> Result<PartitionState, Refusal> {
    let state = partition.state;
    let wrong = |message: String| refuse(ErrorCode::INVALID_REPLICA_ASSIGNMENT, message);
    let distinct: BTreeSet<BrokerId> = target.iter().copied().collect();
    if target.is_empty() || distinct.len() != target.len() {
        return wrong("one or more different brokers are right".to_owned());
    }
    if let Some(unknown) = target.iter().find(|id| image.broker(**id).is_none()) {
        return wrong(format!("there is no broker {unknown}"));
    }
    let original = in_order(&state.replicas, |id| !state.adding.contains(&id));
    if !may_change_factor && target.len() != original.len() {
        let message = format!("{} replicas; {} are right, as before", target.len(), original.len());
        return refuse(ErrorCode::INVALID_REPLICATION_FACTOR, message);
    }
    let mut next = state.clone();
    next.adding = in_order(target, |id| !original.contains(&id));
    next.removing = in_order(&state.replicas, |id| !target.contains(&id));
    next.replicas = target.iter().chain(&next.removing).copied().collect();
    next.isr = in_order(&next.replicas, |id| state.isr.contains(&id));
    Ok(next)
}

fn cancel(image: &Image, partition: Partition<'_>) -> Result<PartitionState, Refusal> {
    let state = partition.state;
    if state.adding.is_empty() && state.removing.is_empty() {
        let message = "no reassignment is in progress".to_owned();
        return refuse(ErrorCode::NO_REASSIGNMENT_IN_PROGRESS, message);
    }
    let stays = |id: BrokerId| !state.adding.contains(&id);
    let mut next = state.clone();
    next.replicas = in_order(&state.replicas, stays);
    next.isr = in_order(&state.isr, stays);
    next.elr = in_order(&state.elr, stays);
    let min_insync = min_insync(partition.topic, next.replicas.len());
    if next.isr != state.isr && next.isr.len() < min_insync {
        let message = format!(
            "only {} of the replicas from before are in sync; {min_insync} must be before the others go",
            next.isr.len()
        );
        return refuse(ErrorCode::INVALID_REPLICA_ASSIGNMENT, message);
    }
    if next.isr.len() >= min_insync {
        next.elr.clear();
    }
    next.adding.clear();
    next.removing.clear();
    if state.leader.is_some_and(|leader| !stays(leader)) {
        elect(&mut next, partition, |id| image.is_live(id));
    }
    if next.replicas != state.replicas {
        next.leader_epoch = state.leader_epoch.next();
    }
    Ok(next)
}

/// Ends a reassignment if it can be. The partition's epoch is the caller's to raise.
pub(super) fn complete(
    next: &mut PartitionState,
    partition: Partition<'_>,
    is_live: impl Fn(BrokerId) -> bool,
) {
    if next.adding.is_empty() && next.removing.is_empty() {
        return;
    }
    let target = in_order(&next.replicas, |id| !next.removing.contains(&id));
    let isr = in_order(&target, |id| next.isr.contains(&id));
    let is_enough = isr.len() >= min_insync(partition.topic, target.len());
    if !is_enough || !next.adding.iter().all(|id| isr.contains(id)) {
        return;
    }
    let stays = next.leader.filter(|leader| isr.contains(leader));
    let Some(leader) = stays.or_else(|| isr.iter().copied().find(|id| is_live(*id))) else { return };
    if !next.removing.is_empty() || next.leader != Some(leader) {
        next.leader_epoch = partition.state.leader_epoch.next();
    }
    next.leader = Some(leader);
    next.elr.clear();
    (next.replicas, next.isr) = (target, isr);
    next.adding.clear();
    next.removing.clear();
}

/// Holds an election.
pub(crate) fn elect_on_request(
    image: &Image,
    key: PartitionKey,
    election: Election,
) -> Result<PartitionState, Refusal> {
    let partition = image.partition(key).ok_or_else(|| no_partition(key.index))?;
    let state = partition.state;
    let mut next = state.clone();
    let (leader, code) = match election {
        Election::Preferred => {
            let preferred = state.replicas[0];
            if state.leader == Some(preferred) {
                let message = format!("broker {preferred}, the preferred one, leads already");
                return refuse(ErrorCode::ELECTION_NOT_NEEDED, message);
            }
            let may_lead = image.is_live(preferred) && state.isr.contains(&preferred);
            (may_lead.then_some(preferred), ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE)
        }
        Election::Unclean => {
            if let Some(leader) = state.leader {
                let message = format!("broker {leader} leads already");
                return refuse(ErrorCode::ELECTION_NOT_NEEDED, message);
            }
            let found = state.replicas.iter().copied().find(|id| image.is_live(*id));
            (found, ErrorCode::ELIGIBLE_LEADERS_NOT_AVAILABLE)
        }
    };
    let Some(leader) = leader else {
        return refuse(code, "no replica that may lead now is there".to_owned());
    };
    if !next.isr.contains(&leader) {
        next.isr = vec![leader];
        next.elr.clear();
    }
    next.leader = Some(leader);
    next.leader_epoch = state.leader_epoch.next();
    next.partition_epoch = state.partition_epoch.next();
    Ok(next)
}

fn min_insync(topic: &Topic, replicas: usize) -> usize {
    usize::from(topic.min_insync_replicas).min(replicas).max(1)
}

fn no_partition(index: i32) -> Refusal {
    Refusal {
        code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        message: format!("there is no partition {index} of this topic"),
    }
}

#[cfg(test)]
mod tests;
