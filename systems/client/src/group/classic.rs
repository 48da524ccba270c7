//! The classic protocol, as a member speaks it.
//!
//! ```text
//!            .------------------------- rebalance, or thrown out ------------------------.
//!            v                                                                           |
//! give up what goes -> JoinGroup -> (leader: assign) -> SyncGroup -> take what comes -> Heartbeat ...
//! ```
//!
//! Eager members give up all they have before they join; cooperative ones keep it, give up what they are told to after
//! SyncGroup, and join once more so that it can be given to others. A member that was thrown out has lost what it had.
//!
//! While a change waits to be taken in, heartbeats go on.
//!
//! Source: Java's ConsumerCoordinator and AbstractCoordinator; KIP-62 (heartbeats), KIP-394 (member ids), KIP-429
//! (cooperative), KIP-814 (a leader that need not assign).

use super::assignor::{Assignment, Counts, Subscriber, cooperative, range};
use super::offsets::is_elsewhere;
use super::opaque::{assigned, assignment_bytes, subscriber, versioned};
use super::{Change, Membership};
use crate::backoff::{Backoff, ns, wire_ms};
use crate::error::Trouble;
use crate::metadata::Tp;
use crate::net::{LATEST_VERSION, Lane};
use bytes::Bytes;
use riprap_env::LogLevel;
use riprap_env::task::first;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    ConsumerProtocolSubscription, ConsumerProtocolSubscriptionTopic, HeartbeatRequest, JoinGroupRequest,
    JoinGroupRequestProtocol, JoinGroupResponse, LeaveGroupRequest, LeaveGroupRequestMember,
    SyncGroupRequest, SyncGroupRequestAssignment,
};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

const PROTOCOL_TYPE: &str = "consumer";
/// How much longer than a rebalance may take its answer is waited for. Units: nanoseconds. Source: Java's
/// AbstractCoordinator, JOIN_GROUP_TIMEOUT_LAPSE.
const JOIN_LAPSE_NS: u64 = 5_000_000_000;
/// From this version on several members leave at once, and no single one.
const MEMBERS_LEAVE_SINCE: i16 = 3;

/// How members hand over partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Style {
    /// All at once.
    Eager,
    /// Only those that change hands.
    Cooperative,
}

impl Style {
    fn protocol(self) -> &'static str {
        match self {
            Style::Eager => "range",
            Style::Cooperative => "cooperative-sticky",
        }
    }

    fn assign(self, members: &BTreeMap<String, Subscriber>, counts: &Counts) -> Assignment {
        match self {
            Style::Eager => range(members, counts),
            Style::Cooperative => cooperative(members, counts),
        }
    }
}

/// Why a member is not what it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Setback {
    /// It joins again, as who it is.
    Rebalance,
    /// It is a member no more, or not in that generation.
    ThrownOut {
        /// Its coordinator knows it: it joins again as who it is, and leaves nobody behind.
        keeps_id: bool,
    },
    /// Its consumer does not poll.
    Idle,
    /// Not now.
    Trouble(Trouble),
}

impl Setback {
    fn of(code: ErrorCode) -> Setback {
        match code {
            ErrorCode::REBALANCE_IN_PROGRESS => Setback::Rebalance,
            ErrorCode::ILLEGAL_GENERATION => Setback::ThrownOut { keeps_id: true },
            ErrorCode::UNKNOWN_MEMBER_ID => Setback::ThrownOut { keeps_id: false },
            code => Setback::Trouble(Trouble::Code(code)),
        }
    }
}

struct Classic {
    it: Rc<Membership>,
    style: Style,
    member_id: String,
    /// -1 while it is no member.
    generation: i32,
    is_leader: bool,
    /// The topics that a leader has assigned, and how many partitions those that it knew had.
    assigned: (BTreeSet<Rc<str>>, Counts),
    /// The subscription that it has told.
    subscription: u64,
    next_beat_ns: u64,
    backoff: Backoff,
}

/// A member, for as long as its consumer is subscribed.
pub(super) async fn run(it: Rc<Membership>, style: Style) {
    let backoff = it.core.backoff();
    let mut member = Classic {
        it,
        style,
        member_id: String::new(),
        generation: -1,
        is_leader: false,
        assigned: Default::default(),
        subscription: 0,
        next_beat_ns: 0,
        backoff,
    };
    loop {
        let setback = match member.join().await {
            Ok(()) => member.stay().await,
            Err(setback) => setback,
        };
        member.set_back(setback).await;
    }
}

/// Leaves the group, if that arrives in time.
pub(super) async fn leave(it: &Membership) {
    let member = it.member();
    if !member.id.is_empty() {
        send_leave(it, &member.id).await;
    }
}

async fn send_leave(it: &Membership, member_id: &str) {
    let core = &it.core;
    let by_ns = core.io.now_ns() + core.request_timeout_ns();
    let Ok(address) = it.group.find(by_ns).await else { return };
    let body = |version| {
        let group_id = core.config.group_id.clone();
        let member_id = member_id.to_owned();
        if version < MEMBERS_LEAVE_SINCE {
            return LeaveGroupRequest { group_id, member_id, ..Default::default() };
        }
        let members = vec![LeaveGroupRequestMember { member_id, ..Default::default() }];
        LeaveGroupRequest { group_id, members, ..Default::default() }
    };
    let left = core.call((Lane::Group, &address), LATEST_VERSION, by_ns, body).await;
    if let Err(trouble) = left {
        core.io.log(LogLevel::Debug, format_args!("the group may not know that {member_id} left: {trouble}"));
    }
}

impl Classic {
    /// What follows from a setback, before it is tried again.
    async fn set_back(&mut self, setback: Setback) {
        let core = Rc::clone(&self.it.core);
        match setback {
            Setback::Rebalance => self.backoff.reset(),
            Setback::ThrownOut { keeps_id } => {
                core.io.log(LogLevel::Info, format_args!("{} is thrown out of its group", self.member_id));
                self.resign(keeps_id);
            }
            Setback::Idle => {
                core.io.log(LogLevel::Warn, format_args!("{} does not poll and leaves", self.member_id));
                send_leave(&self.it, &self.member_id).await;
                self.resign(false);
                self.it.take_away(&self.it.owned(), Change::Lost);
                self.it.next_poll().await;
            }
            Setback::Trouble(trouble) => {
                if !matches!(trouble, Trouble::Code(code) if !is_elsewhere(code)) {
                    self.it.group.forget();
                }
                core.io.log(LogLevel::Debug, format_args!("a member waits to join: {trouble}"));
                let pause_ns = self.backoff.next_ns(&core.io);
                core.io.sleep(pause_ns).await;
            }
        }
    }

    /// It is no member any more.
    fn resign(&mut self, keeps_id: bool) {
        if !keeps_id {
            self.member_id.clear();
        }
        self.generation = -1;
    }

    /// Waits until what changed is taken in, and keeps up the session meanwhile.
    async fn settle(&mut self) {
        let it = Rc::clone(&self.it);
        loop {
            let told = it.wake.told();
            if it.is_settled() {
                return;
            }
            if self.generation < 0 {
                told.await;
                continue;
            }
            let now_ns = it.core.io.now_ns();
            if it.must_poll_by_ns() <= now_ns {
                send_leave(&it, &self.member_id).await;
                self.resign(false);
                continue;
            }
            if self.next_beat_ns <= now_ns {
                if let Err(Setback::ThrownOut { keeps_id }) = self.beat().await {
                    self.resign(keeps_id);
                }
                continue;
            }
            let until_ns = self.next_beat_ns.min(it.must_poll_by_ns());
            first(told, it.core.io.sleep_until(until_ns)).await;
        }
    }

    async fn beat(&mut self) -> Result<(), Setback> {
        let it = &self.it;
        let core = &it.core;
        let now_ns = core.io.now_ns();
        self.next_beat_ns = now_ns + ns(core.options.heartbeat_interval);
        let by_ns = now_ns + core.request_timeout_ns();
        let trouble = |trouble| {
            it.group.forget();
            Setback::Trouble(trouble)
        };
        let address = it.group.find(by_ns).await.map_err(trouble)?;
        let body = |_| HeartbeatRequest {
            group_id: core.config.group_id.clone(),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            group_instance_id: None,
        };
        let answer =
            core.call((Lane::Group, &address), LATEST_VERSION, by_ns, body).await.map_err(trouble)?;
        match answer.error_code {
            ErrorCode::NONE => Ok(()),
            code => {
                if is_elsewhere(code) {
                    it.group.forget();
                }
                Err(Setback::of(code))
            }
        }
    }

    /// Gives up what has to be given up before the group can be joined.
    async fn prepare(&mut self) {
        let it = Rc::clone(&self.it);
        let (topics, subscription) = it.topics();
        self.subscription = subscription;
        let owned = it.owned();
        if self.generation < 0 {
            it.take_away(&owned, Change::Lost);
        } else if self.style == Style::Eager {
            it.take_away(&owned, Change::Revoked);
        } else {
            let unwanted = owned.into_iter().filter(|tp| !topics.contains(&tp.topic)).collect();
            it.take_away(&unwanted, Change::Revoked);
        }
        self.settle().await;
    }

    fn subscription(&self) -> Bytes {
        let (topics, _) = self.it.topics();
        let mut owned: BTreeMap<Rc<str>, Vec<i32>> = BTreeMap::new();
        for tp in self.it.owned() {
            owned.entry(tp.topic).or_default().push(tp.partition);
        }
        let owned = owned.into_iter().map(|(name, partitions)| ConsumerProtocolSubscriptionTopic {
            name: name.to_string(),
            partitions,
        });
        let subscription = ConsumerProtocolSubscription {
            topics: topics.iter().map(|topic| topic.to_string()).collect(),
            user_data: None,
            owned_partitions: owned.collect(),
            generation_id: self.it.member().generation,
            rack_id: None,
        };
        versioned(&subscription)
    }

    /// Joins, and takes what it is given.
    async fn join(&mut self) -> Result<(), Setback> {
        self.prepare().await;
        let joined = self.send_join().await?;
        self.generation = joined.generation_id;
        self.is_leader = joined.leader == self.member_id;
        let assignments =
            if self.is_leader && !joined.skip_assignment { self.assign(&joined).await } else { Vec::new() };
        let assigned = self.send_sync(&joined, assignments).await?;
        self.backoff.reset();
        let it = Rc::clone(&self.it);
        it.is_member(&self.member_id, self.generation);
        self.next_beat_ns = it.core.io.now_ns() + ns(it.core.options.heartbeat_interval);
        let owned = it.owned();
        let revoked: BTreeSet<Tp> = owned.difference(&assigned).cloned().collect();
        it.take_away(&revoked, Change::Revoked);
        if !revoked.is_empty() {
            self.settle().await;
        }
        if self.generation < 0 {
            return Err(Setback::ThrownOut { keeps_id: !self.member_id.is_empty() });
        }
        it.give(assigned.difference(&owned).cloned().collect());
        // What it gave up can only now be given to others.
        if revoked.is_empty() { Ok(()) } else { Err(Setback::Rebalance) }
    }

    async fn send_join(&mut self) -> Result<JoinGroupResponse, Setback> {
        let it = Rc::clone(&self.it);
        let core = &it.core;
        loop {
            let by_ns = core.io.now_ns() + core.request_timeout_ns();
            let address = it.group.find(by_ns).await.map_err(Setback::Trouble)?;
            let metadata = self.subscription();
            let rebalance = core.options.max_poll_interval;
            let body = |_| JoinGroupRequest {
                group_id: core.config.group_id.clone(),
                session_timeout_ms: wire_ms(core.options.session_timeout),
                rebalance_timeout_ms: wire_ms(rebalance),
                member_id: self.member_id.clone(),
                protocol_type: PROTOCOL_TYPE.to_owned(),
                protocols: vec![JoinGroupRequestProtocol {
                    name: self.style.protocol().to_owned(),
                    metadata,
                }],
                ..Default::default()
            };
            let timeout_ns = core.request_timeout_ns().max(ns(rebalance).saturating_add(JOIN_LAPSE_NS));
            let link = core.net.link(Lane::Group, &address);
            let joined = link.call(LATEST_VERSION, timeout_ns, body).await;
            let joined = joined.map_err(|error| Setback::Trouble(Trouble::Call(error)))?;
            match joined.error_code {
                ErrorCode::NONE => {
                    self.member_id.clone_from(&joined.member_id);
                    return Ok(joined);
                }
                ErrorCode::MEMBER_ID_REQUIRED => self.member_id = joined.member_id,
                code => return Err(Setback::of(code)),
            }
        }
    }

    /// As the leader: who is to read what.
    async fn assign(&mut self, joined: &JoinGroupResponse) -> Vec<SyncGroupRequestAssignment> {
        let members: BTreeMap<String, Subscriber> = joined
            .members
            .iter()
            .map(|member| (member.member_id.clone(), subscriber(&member.metadata)))
            .collect();
        let topics: BTreeSet<Rc<str>> = members.values().flat_map(|member| member.topics.clone()).collect();
        let counts = self.count(&topics).await;
        let assignment = self.style.assign(&members, &counts);
        self.assigned = (topics, counts);
        let one =
            |(member_id, tps)| SyncGroupRequestAssignment { member_id, assignment: assignment_bytes(&tps) };
        assignment.into_iter().map(one).collect()
    }

    /// How many partitions topics have; those that are not known in time are left out until they are.
    async fn count(&self, topics: &BTreeSet<Rc<str>>) -> Counts {
        let core = &self.it.core;
        topics.iter().for_each(|topic| core.metadata.watch(topic));
        let by_ns = core.io.now_ns() + core.request_timeout_ns();
        loop {
            let changed = core.metadata.changed.told();
            let known = self.known_counts(topics);
            if known.len() == topics.len() || core.io.by(by_ns, changed).await.is_none() {
                return known;
            }
        }
    }

    fn known_counts(&self, topics: &BTreeSet<Rc<str>>) -> Counts {
        let known = |topic: &Rc<str>| Some((Rc::clone(topic), self.it.core.metadata.partition_count(topic)?));
        topics.iter().filter_map(known).collect()
    }

    async fn send_sync(
        &self,
        joined: &JoinGroupResponse,
        assignments: Vec<SyncGroupRequestAssignment>,
    ) -> Result<BTreeSet<Tp>, Setback> {
        let core = &self.it.core;
        let by_ns = core.io.now_ns() + core.request_timeout_ns();
        let address = self.it.group.find(by_ns).await.map_err(Setback::Trouble)?;
        let body = |_| SyncGroupRequest {
            group_id: core.config.group_id.clone(),
            generation_id: joined.generation_id,
            member_id: self.member_id.clone(),
            group_instance_id: None,
            protocol_type: Some(PROTOCOL_TYPE.to_owned()),
            protocol_name: Some(self.style.protocol().to_owned()),
            assignments,
        };
        // The leader may be gone: the coordinator says so when its session ends.
        let timeout_ns =
            core.request_timeout_ns().max(ns(core.options.session_timeout).saturating_add(JOIN_LAPSE_NS));
        let synced = core.net.link(Lane::Group, &address).call(LATEST_VERSION, timeout_ns, body).await;
        let synced = synced.map_err(|error| Setback::Trouble(Trouble::Call(error)))?;
        match synced.error_code {
            ErrorCode::NONE => Ok(assigned(&synced.assignment)),
            code => Err(Setback::of(code)),
        }
    }

    /// Says that it lives, until something changes.
    async fn stay(&mut self) -> Setback {
        let it = Rc::clone(&self.it);
        let core = Rc::clone(&it.core);
        loop {
            let (told, changed) = (it.wake.told(), core.metadata.changed.told());
            let now_ns = core.io.now_ns();
            if it.must_poll_by_ns() <= now_ns {
                return Setback::Idle;
            }
            let is_counted_otherwise =
                self.is_leader && self.known_counts(&self.assigned.0) != self.assigned.1;
            if it.topics().1 != self.subscription || is_counted_otherwise {
                return Setback::Rebalance;
            }
            if self.next_beat_ns <= now_ns {
                match self.beat().await {
                    Ok(()) => self.backoff.reset(),
                    // It is a member until its coordinator says otherwise, wherever that is now.
                    Err(Setback::Trouble(_)) => {
                        self.next_beat_ns = core.io.now_ns() + self.backoff.next_ns(&core.io);
                    }
                    Err(setback) => return setback,
                }
                continue;
            }
            let until_ns = self.next_beat_ns.min(it.must_poll_by_ns());
            let sleep = core.io.sleep_until(until_ns);
            if self.is_leader {
                first(told, first(changed, sleep)).await;
            } else {
                first(told, sleep).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_errors_mean_to_a_member() {
        for (code, expected) in [
            (ErrorCode::REBALANCE_IN_PROGRESS, Setback::Rebalance),
            (ErrorCode::UNKNOWN_MEMBER_ID, Setback::ThrownOut { keeps_id: false }),
            (ErrorCode::ILLEGAL_GENERATION, Setback::ThrownOut { keeps_id: true }),
            (ErrorCode::NOT_COORDINATOR, Setback::Trouble(Trouble::Code(ErrorCode::NOT_COORDINATOR))),
        ] {
            assert_eq!(Setback::of(code), expected, "{code}");
        }
    }
}
