//! The protocol of KIP-848, as a member speaks it.
//!
//! ```text
//! ConsumerGroupHeartbeat: who I am, in which epoch, and, where that changed, what I want and what I have
//!                 answer: in which epoch you are, and, where that changed, what you are to have
//! ```
//!
//! What goes is given up first, then what comes is taken, then the coordinator is told what the member has. A heartbeat that
//! was not answered well is followed by one that says all, which is answered by all.
//!
//! A member that the coordinator does not know, or knows in another epoch, has lost what it had, and joins anew.
//!
//! Source: KIP-848; Java's ConsumerHeartbeatRequestManager and ConsumerMembershipManager.

use super::offsets::is_elsewhere;
use super::{Change, Membership};
use crate::backoff::{Backoff, wire_ms};
use crate::error::Trouble;
use crate::metadata::Tp;
use crate::net::{LATEST_VERSION, Lane};
use riprap_env::LogLevel;
use riprap_env::task::first;
use riprap_protocol::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse, ConsumerGroupHeartbeatResponseAssignment,
};
use riprap_protocol::{ErrorCode, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A member that joins.
const JOINS: i32 = 0;
/// A member that leaves.
const LEAVES: i32 = -1;

/// What the coordinator is to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Says {
    wants: bool,
    has: bool,
}

impl Says {
    const ALL: Says = Says { wants: true, has: true };
    const NOTHING: Says = Says { wants: false, has: false };
}

struct Member {
    it: Rc<Membership>,
    id: String,
    epoch: i32,
    says: Says,
    /// After trouble, what there is to say waits for the next heartbeat.
    is_put_off: bool,
    /// The subscription that it has told.
    subscription: u64,
    /// What it is to have, until it has that.
    target: Option<Target>,
    next_beat_ns: u64,
    interval_ns: u64,
    backoff: Backoff,
}

/// What a member is to have, by the topics' ids.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Target {
    tps: BTreeSet<(Uuid, i32)>,
    /// What is not part of it was taken away.
    is_revoked: bool,
}

/// A member, for as long as its consumer is subscribed.
pub(super) async fn run(it: Rc<Membership>) {
    let io = it.core.io.clone();
    // The member names itself, by a UUID of version 4. Source: KIP-1082.
    let bits = u128::from(io.random_u64("member id")) << 64 | u128::from(io.random_u64("member id"));
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let backoff = it.core.backoff();
    let mut member = Member {
        it,
        id: Uuid(bits.to_be_bytes()).to_string(),
        epoch: JOINS,
        says: Says::ALL,
        is_put_off: false,
        subscription: 0,
        target: None,
        next_beat_ns: 0,
        interval_ns: 0,
        backoff,
    };
    member.it.is_member(&member.id, JOINS);
    loop {
        member.turn().await;
    }
}

/// Leaves the group, if that arrives in time.
pub(super) async fn leave(it: &Membership) {
    let core = &it.core;
    let by_ns = core.io.now_ns() + core.request_timeout_ns();
    let Ok(address) = it.group.find(by_ns).await else { return };
    let body = |_| ConsumerGroupHeartbeatRequest {
        group_id: core.config.group_id.clone(),
        member_id: it.member().id,
        member_epoch: LEAVES,
        ..Default::default()
    };
    if let Err(trouble) = core.call((Lane::Group, &address), LATEST_VERSION, by_ns, body).await {
        core.io.log(LogLevel::Debug, format_args!("the group may not know that a member left: {trouble}"));
    }
}

impl Member {
    /// Does what is to be done next, or waits for it.
    async fn turn(&mut self) {
        let it = Rc::clone(&self.it);
        let core = &it.core;
        let (told, changed) = (it.wake.told(), core.metadata.changed.told());
        self.reconcile();
        let now_ns = core.io.now_ns();
        if it.must_poll_by_ns() <= now_ns {
            core.io.log(LogLevel::Warn, format_args!("{} does not poll and leaves", self.id));
            leave(&it).await;
            self.join_anew().await;
            it.next_poll().await;
            return;
        }
        let (_, subscription) = it.topics();
        if subscription != self.subscription {
            self.subscription = subscription;
            self.says.wants = true;
        }
        let has_news = self.says != Says::NOTHING && !self.is_put_off;
        if self.next_beat_ns <= now_ns || has_news {
            self.beat().await;
            return;
        }
        let until_ns = self.next_beat_ns.min(it.must_poll_by_ns());
        let sleep = core.io.sleep_until(until_ns);
        if self.target.is_some() {
            first(told, first(changed, sleep)).await;
        } else {
            first(told, sleep).await;
        }
    }

    /// Comes nearer to what it is to have.
    fn reconcile(&mut self) {
        let it = Rc::clone(&self.it);
        let Some(target) = &mut self.target else { return };
        if !it.is_settled() {
            return;
        }
        let metadata = &it.core.metadata;
        let named = |(id, partition): &(Uuid, i32)| {
            Some(Tp { topic: metadata.topic_name(*id)?, partition: *partition })
        };
        let known: BTreeSet<Tp> = target.tps.iter().filter_map(named).collect();
        let is_known = known.len() == target.tps.len();
        if !is_known {
            // A topic that it does not know yet: it is asked for.
            metadata.doubt();
        }
        let owned = it.owned();
        if !target.is_revoked {
            target.is_revoked = true;
            let gone: BTreeSet<Tp> = owned.difference(&known).cloned().collect();
            if !gone.is_empty() {
                it.take_away(&gone, Change::Revoked);
                return;
            }
        }
        it.give(known.difference(&owned).cloned().collect());
        if is_known {
            self.target = None;
            self.says.has = true;
        }
    }

    /// It is no member any more, and becomes one once what it lost is taken in.
    async fn join_anew(&mut self) {
        let it = Rc::clone(&self.it);
        self.epoch = JOINS;
        self.says = Says::ALL;
        self.target = None;
        it.take_away(&it.owned(), Change::Lost);
        loop {
            let told = it.wake.told();
            if it.is_settled() {
                return;
            }
            told.await;
        }
    }

    fn request(&self) -> ConsumerGroupHeartbeatRequest {
        let core = &self.it.core;
        let (topics, _) = self.it.topics();
        let has = self.says.has.then(|| {
            let mut by_id: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
            for tp in self.it.owned() {
                by_id.entry(core.metadata.topic_id(&tp.topic)).or_default().push(tp.partition);
            }
            let one = |(topic_id, partitions)| ConsumerGroupHeartbeatRequestTopicPartitions {
                topic_id,
                partitions,
            };
            by_id.into_iter().map(one).collect()
        });
        ConsumerGroupHeartbeatRequest {
            group_id: core.config.group_id.clone(),
            member_id: self.id.clone(),
            member_epoch: self.epoch,
            rebalance_timeout_ms: if self.says.wants { wire_ms(core.options.max_poll_interval) } else { -1 },
            subscribed_topic_names: self
                .says
                .wants
                .then(|| topics.iter().map(|topic| topic.to_string()).collect()),
            topic_partitions: has,
            ..Default::default()
        }
    }

    async fn beat(&mut self) {
        let it = Rc::clone(&self.it);
        let core = &it.core;
        let by_ns = core.io.now_ns() + core.request_timeout_ns();
        let said = std::mem::replace(&mut self.says, Says::NOTHING);
        let asked = match it.group.find(by_ns).await {
            Err(trouble) => Err(trouble),
            Ok(address) => {
                self.says = said;
                let request = self.request();
                self.says = Says::NOTHING;
                core.call((Lane::Group, &address), LATEST_VERSION, by_ns, |_| request).await
            }
        };
        match asked {
            Ok(answer) if answer.error_code.is_none() => self.take_in(answer),
            Ok(answer) => match answer.error_code {
                ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_MEMBER_EPOCH => {
                    core.io.log(LogLevel::Info, format_args!("{} is thrown out of its group", self.id));
                    self.join_anew().await;
                    self.put_off();
                }
                code => self.not_heard(Trouble::Code(code)),
            },
            Err(trouble) => self.not_heard(trouble),
        }
    }

    /// Nobody knows what the coordinator took in.
    fn not_heard(&mut self, trouble: Trouble) {
        let core = &self.it.core;
        if !matches!(trouble, Trouble::Code(code) if !is_elsewhere(code)) {
            self.it.group.forget();
        }
        core.io.log(LogLevel::Debug, format_args!("a heartbeat was not taken in: {trouble}"));
        self.says = Says::ALL;
        self.put_off();
    }

    fn put_off(&mut self) {
        let io = &self.it.core.io;
        self.is_put_off = true;
        self.next_beat_ns = io.now_ns() + self.backoff.next_ns(io);
    }

    fn take_in(&mut self, answer: ConsumerGroupHeartbeatResponse) {
        let core = &self.it.core;
        self.backoff.reset();
        self.is_put_off = false;
        self.epoch = answer.member_epoch;
        self.it.is_member(&self.id, self.epoch);
        self.interval_ns = u64::try_from(answer.heartbeat_interval_ms).unwrap_or(0).max(1) * 1_000_000;
        self.next_beat_ns = core.io.now_ns() + self.interval_ns;
        if let Some(ConsumerGroupHeartbeatResponseAssignment { topic_partitions }) = answer.assignment {
            let tps = topic_partitions.into_iter().flat_map(|topic| {
                topic.partitions.into_iter().map(move |partition| (topic.topic_id, partition))
            });
            self.target = Some(Target { tps: tps.collect(), is_revoked: false });
        }
    }
}
