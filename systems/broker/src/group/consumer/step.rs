//! What a heartbeat, or the end of a member, makes of a group.

use super::assign::{Assignor, Task};
use super::reconcile::{self, Way};
use super::record::partitions;
use super::state::{Durable, Holding, Partitions, Phase, Subscription};
use super::topics::{KnownTopics, Patterns, compile, fingerprint};
use super::{Consumer, Heard, Refusal, refuse};
use crate::group::GroupConfig;
use crate::group::state::Turn;
use riprap_protocol::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
};
use riprap_protocol::{ErrorCode, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The epoch of a heartbeat that joins.
pub(in super::super) const JOIN: i32 = 0;
/// The epoch of a heartbeat that leaves.
const LEAVE: i32 = -1;
/// The epoch of a static member's heartbeat that leaves for a while: its partitions wait for its session's length.
const LEAVE_FOR_A_WHILE: i32 = -2;

/// First version in which members bring their own ids. Source: KIP-1082.
pub(in super::super) const OWN_ID_SINCE: i16 = 1;

/// What a request says that it owns.
fn owned(request: &ConsumerGroupHeartbeatRequest) -> Option<Partitions> {
    let topics = request.topic_partitions.as_ref()?;
    Some(partitions(topics.iter().map(|it| (it.topic_id, it.partitions.clone()))))
}

/// Whether a request says all that a member can say: it wants to hear all that there is to hear.
fn is_full(request: &ConsumerGroupHeartbeatRequest) -> bool {
    let says_what_it_wants =
        request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some();
    request.member_epoch == JOIN
        || request.rebalance_timeout_ms != -1 && says_what_it_wants && request.topic_partitions.is_some()
}

fn check(heard: &Heard, config: &GroupConfig) -> Result<(), Refusal> {
    let request = &heard.request;
    let is_blank = |text: &str| text.trim().is_empty();
    let invalid = |why: &str| refuse(ErrorCode::INVALID_REQUEST, why);
    if request.instance_id.as_deref().is_some_and(is_blank) {
        return invalid("the instance id is empty");
    }
    if request.rack_id.as_deref().is_some_and(is_blank) {
        return invalid("the rack id is empty");
    }
    let must_have_id = request.member_epoch != JOIN || heard.caller.api_version >= OWN_ID_SINCE;
    if must_have_id && is_blank(&request.member_id) {
        return invalid("the member id is empty");
    }
    let names = request.subscribed_topic_names.iter().flatten();
    let pattern = request.subscribed_topic_regex.as_deref().unwrap_or_default();
    match request.member_epoch {
        JOIN => {
            if request.rebalance_timeout_ms == -1 {
                return invalid("who joins must say its rebalance timeout");
            }
            if request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) {
                return invalid("who joins must say that it owns no partitions");
            }
            if names.clone().next().is_none() && pattern.is_empty() {
                return invalid("who joins must subscribe to something");
            }
        }
        LEAVE_FOR_A_WHILE if request.instance_id.is_none() => {
            return invalid("who leaves for a while must have an instance id");
        }
        epoch if epoch < LEAVE_FOR_A_WHILE => return invalid("the member epoch is below -2"),
        _ => {}
    }
    if names.map(String::len).sum::<usize>() + pattern.len() > config.max_subscription_bytes {
        return invalid("the subscription is too large");
    }
    if let Some(name) = request.server_assignor.as_deref()
        && Assignor::of(name).is_none()
    {
        let known: Vec<&str> = Assignor::ALL.into_iter().map(Assignor::name).collect();
        let why = format!("assignor {name} is not known; one of {}", known.join(", "));
        return refuse(ErrorCode::UNSUPPORTED_ASSIGNOR, why);
    }
    if !pattern.is_empty()
        && let Err(why) = compile(pattern)
    {
        let why = format!("the regular expression {pattern} is not valid: {why}");
        return refuse(ErrorCode::INVALID_REGULAR_EXPRESSION, why);
    }
    Ok(())
}

/// A member's epoch is the group's, or the one before if it did not hear of the new one and claims nothing that it may not.
fn check_epoch(holding: &Holding, epoch: i32, owned: Option<&Partitions>) -> Result<(), Refusal> {
    let missed_the_answer =
        || epoch == holding.previous_epoch && owned.is_some_and(|owned| owned.is_within(&holding.assigned));
    // Who joins again claims nothing.
    if epoch == JOIN || epoch == holding.epoch || epoch < holding.epoch && missed_the_answer() {
        return Ok(());
    }
    let why = format!("member epoch {epoch} is not {}, the one that is known", holding.epoch);
    refuse(ErrorCode::FENCED_MEMBER_EPOCH, why)
}

fn unknown_member<T>(member_id: &str) -> Result<T, Refusal> {
    refuse(ErrorCode::UNKNOWN_MEMBER_ID, format!("{member_id} is no member"))
}

impl Consumer {
    /// Answers a heartbeat of a member that says nothing new to a group that has nothing to say: most of them.
    pub(super) fn beat(
        &mut self,
        request: &ConsumerGroupHeartbeatRequest,
        topics: &KnownTopics,
        turn: &Turn<'_>,
    ) -> Option<ConsumerGroupHeartbeatResponse> {
        let says_nothing = request.member_epoch > JOIN
            && request.subscribed_topic_names.is_none()
            && request.subscribed_topic_regex.is_none()
            && request.server_assignor.is_none()
            && request.rack_id.is_none()
            && request.rebalance_timeout_ms == -1;
        let durable = &self.durable;
        let member = durable.members.get(&request.member_id).filter(|_| says_nothing)?;
        let is_settled = durable.epoch == durable.target_epoch
            && self.compared_with == Some(topics.version)
            && member.holding.phase == Phase::Stable
            && member.holding.epoch == durable.target_epoch
            && member.holding.epoch == request.member_epoch;
        let is_the_instance =
            request.instance_id.is_none() || request.instance_id == member.subscription.instance_id;
        if !is_settled || !is_the_instance {
            return None;
        }
        let response = response(&request.member_id, &member.holding, false, turn.config);
        self.touch(&request.member_id, turn);
        Some(response)
    }

    /// What a heartbeat makes of the group, and its answer.
    pub(super) fn step(
        &mut self,
        heard: &Heard,
        topics: &KnownTopics,
        config: &GroupConfig,
    ) -> Result<(Durable, ConsumerGroupHeartbeatResponse), Refusal> {
        check(heard, config)?;
        let request = &heard.request;
        if request.member_epoch < JOIN {
            return self.leave(request, topics);
        }
        let owned = owned(request);
        let mut next = self.durable.clone();
        let member_id = find_member(&mut next, request, owned.as_ref(), config)?;
        let former = next.members[&member_id].clone();
        let subscription = said(&former.subscription, heard);
        let wants_other = former.subscription.names != subscription.names
            || former.subscription.pattern != subscription.pattern;
        if *former.subscription != subscription {
            let member = next.members.get_mut(&member_id).expect("just found");
            member.subscription = Arc::new(subscription);
        }
        self.follow(&mut next, wants_other, topics);
        if next.epoch > next.target_epoch {
            self.retarget(&mut next, topics);
        }
        let nothing = Arc::default();
        let way = Way {
            target_epoch: next.target_epoch,
            target: next.target.get(&member_id).unwrap_or(&nothing),
            owned: owned.as_ref(),
        };
        let taken = held_by_others(&next, &member_id);
        let holding = reconcile::next(&former.holding, &way, |topic, index| taken.contains(&(topic, index)));
        let tells_assignment = is_full(request)
            || holding.assigned != former.holding.assigned
            // It did not hear the answer that told it.
            || request.member_epoch != former.holding.epoch;
        let response = response(&member_id, &holding, tells_assignment, config);
        if holding != *former.holding {
            let member = next.members.get_mut(&member_id).expect("just found");
            member.holding = Arc::new(holding);
        }
        Ok((next, response))
    }

    /// A member leaves, or a static member for a while.
    fn leave(
        &mut self,
        request: &ConsumerGroupHeartbeatRequest,
        topics: &KnownTopics,
    ) -> Result<(Durable, ConsumerGroupHeartbeatResponse), Refusal> {
        let member_id = &request.member_id;
        if let Some(instance_id) = &request.instance_id {
            match self.durable.static_member(instance_id) {
                None => return unknown_member(member_id),
                Some((current, _)) if current != member_id => {
                    let why = format!("instance {instance_id} is {current} now");
                    return refuse(ErrorCode::FENCED_INSTANCE_ID, why);
                }
                Some(_) => {}
            }
        }
        if !self.durable.members.contains_key(member_id) {
            return unknown_member(member_id);
        }
        let response = ConsumerGroupHeartbeatResponse {
            member_id: Some(member_id.clone()),
            member_epoch: request.member_epoch,
            ..ConsumerGroupHeartbeatResponse::default()
        };
        if request.member_epoch == LEAVE {
            return Ok((self.without(std::slice::from_ref(member_id), topics), response));
        }
        let mut next = self.durable.clone();
        let member = next.members.get_mut(member_id).expect("just found");
        let holding = Arc::make_mut(&mut member.holding);
        // What it was to give up, it has: it is gone.
        (holding.epoch, holding.revoking) = (LEAVE_FOR_A_WHILE, Partitions::default());
        Ok((next, response))
    }

    /// The group without some members. Who stays is given a target at the next heartbeat.
    pub(super) fn without(&mut self, member_ids: &[String], topics: &KnownTopics) -> Durable {
        let mut next = self.durable.clone();
        next.members.retain(|id, _| !member_ids.contains(id));
        next.target.retain(|id, _| !member_ids.contains(id));
        let has_changed = next.members.len() != self.durable.members.len();
        self.follow(&mut next, has_changed, topics);
        next
    }

    /// Counts a new epoch if there is something new: in the members, or in the topics that they want.
    fn follow(&mut self, next: &mut Durable, has_changed: bool, topics: &KnownTopics) {
        let mut is_new = has_changed;
        if has_changed || self.compared_with != Some(topics.version) {
            let mut wanted = BTreeSet::new();
            for member in next.members.values() {
                wanted.append(&mut self.patterns.subscribed(&member.subscription, topics));
            }
            let fingerprint = fingerprint(&wanted, &topics.topics);
            is_new |= fingerprint != next.fingerprint;
            next.fingerprint = fingerprint;
        }
        next.epoch += i32::from(is_new);
    }

    /// Decides who is to own what at the group's epoch.
    fn retarget(&mut self, next: &mut Durable, topics: &KnownTopics) {
        let mut task = Task { members: BTreeMap::new(), counts: BTreeMap::new(), former: &next.target };
        for (id, member) in &next.members {
            let wanted = wanted(&mut self.patterns, &member.subscription, topics);
            task.counts.extend(&wanted);
            let topics = wanted.into_keys().collect();
            task.members.insert(id, (member.subscription.instance_id.as_deref(), topics));
        }
        let assigned = task.assign(preferred(next));
        let target = assigned.into_iter().map(|(id, mine)| match next.target.get(&id) {
            Some(former) if **former == mine => (id, Arc::clone(former)),
            _ => (id, Arc::new(mine)),
        });
        next.target = target.collect();
        next.target_epoch = next.epoch;
    }
}

/// The topics that a member wants and that there are, with how many partitions they have.
fn wanted(patterns: &mut Patterns, subscription: &Subscription, known: &KnownTopics) -> BTreeMap<Uuid, i32> {
    let names = patterns.subscribed(subscription, known);
    names.iter().filter_map(|name| known.topics.get(name)).map(|topic| (topic.id, topic.partitions)).collect()
}

/// The assignor that most members ask for, of those that some member asks for.
pub(super) fn preferred(durable: &Durable) -> Assignor {
    let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
    for member in durable.members.values() {
        if let Some(name) = &member.subscription.assignor {
            *votes.entry(name).or_default() += 1;
        }
    }
    let most = votes.values().max().copied();
    let has_most = |assignor: &Assignor| votes.get(assignor.name()).copied() == most;
    Assignor::ALL.into_iter().filter(|_| most.is_some()).find(has_most).unwrap_or(Assignor::ALL[0])
}

/// Finds who a heartbeat is from, or makes it a member: its id.
fn find_member(
    next: &mut Durable,
    request: &ConsumerGroupHeartbeatRequest,
    owned: Option<&Partitions>,
    config: &GroupConfig,
) -> Result<String, Refusal> {
    let member_id = &request.member_id;
    let joins = request.member_epoch == JOIN;
    let former = match &request.instance_id {
        Some(instance_id) => next.static_member(instance_id),
        None => next.members.get_key_value(member_id),
    };
    match former {
        None if !joins => unknown_member(member_id),
        None if next.members.len() >= config.max_members => {
            let why = format!("the group has {} members, as many as it may", config.max_members);
            refuse(ErrorCode::GROUP_MAX_SIZE_REACHED, why)
        }
        None => {
            // A member without instance that comes with one now is the same member.
            next.members.entry(member_id.clone()).or_default();
            Ok(member_id.clone())
        }
        Some((current, member)) if current == member_id => {
            check_epoch(&member.holding, request.member_epoch, owned)?;
            Ok(member_id.clone())
        }
        Some((current, _)) if !joins => {
            refuse(ErrorCode::FENCED_INSTANCE_ID, format!("the instance is {current} now"))
        }
        Some((current, member)) if member.holding.epoch != LEAVE_FOR_A_WHILE => {
            refuse(ErrorCode::UNRELEASED_INSTANCE_ID, format!("the instance is still {current}"))
        }
        Some((current, _)) => {
            // It takes the place of its former life, with all that this was to own.
            let current = current.clone();
            let mut member = next.members.remove(&current).expect("just found");
            let holding = Arc::make_mut(&mut member.holding);
            (holding.epoch, holding.previous_epoch) = (0, 0);
            next.members.insert(member_id.clone(), member);
            if let Some(target) = next.target.remove(&current) {
                next.target.insert(member_id.clone(), target);
            }
            Ok(member_id.clone())
        }
    }
}

/// A member's subscription, with what a heartbeat says anew.
fn said(former: &Subscription, heard: &Heard) -> Subscription {
    let request = &heard.request;
    let mut it = former.clone();
    it.client_id.clone_from(&heard.caller.client_id);
    it.client_host.clone_from(&heard.caller.client_host);
    if let Some(instance_id) = &request.instance_id {
        it.instance_id = Some(instance_id.clone());
    }
    if let Some(rack_id) = &request.rack_id {
        it.rack_id = Some(rack_id.clone());
    }
    if request.rebalance_timeout_ms != -1 {
        it.rebalance_timeout_ms = request.rebalance_timeout_ms;
    }
    if let Some(names) = &request.subscribed_topic_names {
        it.names = names.iter().cloned().collect();
    }
    if let Some(pattern) = &request.subscribed_topic_regex {
        it.pattern = Some(pattern.clone()).filter(|pattern| !pattern.is_empty());
    }
    if let Some(assignor) = &request.server_assignor {
        it.assignor = Some(assignor.clone());
    }
    it
}

/// What is in the hands of other members.
fn held_by_others(durable: &Durable, member_id: &str) -> BTreeSet<(Uuid, i32)> {
    let others = durable.members.iter().filter(|(id, _)| *id != member_id);
    others.flat_map(|(_, it)| it.holding.assigned.iter().chain(it.holding.revoking.iter())).collect()
}

fn response(
    member_id: &str,
    holding: &Holding,
    tells_assignment: bool,
    config: &GroupConfig,
) -> ConsumerGroupHeartbeatResponse {
    let topic =
        |(topic_id, partitions)| ConsumerGroupHeartbeatResponseTopicPartitions { topic_id, partitions };
    let assignment = tells_assignment.then(|| ConsumerGroupHeartbeatResponseAssignment {
        topic_partitions: holding.assigned.topics().map(topic).collect(),
    });
    ConsumerGroupHeartbeatResponse {
        member_id: Some(member_id.to_owned()),
        member_epoch: holding.epoch,
        heartbeat_interval_ms: i32::try_from(config.consumer_heartbeat_interval_ms).unwrap_or(i32::MAX),
        assignment,
        ..ConsumerGroupHeartbeatResponse::default()
    }
}
