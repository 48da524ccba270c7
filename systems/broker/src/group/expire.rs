//! Offsets that nobody will ask for any more: those that have grown too old, and those that an operator deletes.
//!
//! ```text
//! an offset is too old when it is older than the retention, nobody is subscribed to its topic, and
//!   the group is of KIP-848, or has no protocol          since its commit
//!   the group is of the classic protocol, without members  since its commit and since the last member left
//!   the group is of the classic protocol, stable           since its commit
//! ```
//!
//! While a classic group rebalances, or if its members' subscriptions are not those of consumers, nothing is removed. A group
//! without members whose last offset goes, goes with it; one that never had any, when it has been empty for as long.
//!
//! Source: KIP-211; Kafka's OffsetExpirationConditionImpl, ClassicGroup and ConsumerGroup, offsetExpirationCondition.

use super::consumer::KnownTopics;
use super::outbox::Then;
use super::record::{Entry, TopicPartition};
use super::state::{Group, State, Turn};
use super::{ReplyTo, Response};
use crate::defect::DefectKind;
use bytes::{Buf, Bytes};
use riprap_protocol::messages::{
    ConsumerProtocolSubscription, OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
};
use riprap_protocol::{ErrorCode, Message, Reader};
use std::collections::BTreeSet;

/// The protocol of consumers, as members of classic groups call it.
const CONSUMERS: &str = "consumer";

/// The topics that members are subscribed to.
enum Subscribed {
    Some(BTreeSet<String>),
    /// Nobody knows: perhaps to all.
    Unknown,
}

impl Subscribed {
    fn may_contain(&self, topic: &str) -> bool {
        match self {
            Subscribed::Some(topics) => topics.contains(topic),
            Subscribed::Unknown => true,
        }
    }
}

impl Group {
    /// Removes what is too old.
    pub(super) fn expire(&mut self, topics: &KnownTopics, turn: &mut Turn<'_>) {
        self.expire_at_ns = turn.after_ms(turn.config.retention_check_ms);
        if self.in_flight > 0 || self.state == State::Dead {
            return;
        }
        let retention_ms = i64::try_from(turn.config.retention_ms).unwrap_or(i64::MAX);
        let is_old = |at_ms: i64| at_ms.saturating_add(retention_ms) <= turn.wall_ms;
        let empty_since_ms = match self.state {
            State::Empty { since_ms } if !self.has_consumers() => Some(since_ms),
            _ => None,
        };
        // A group that has a protocol is of use until its members have been away for long.
        let counts_from_ms =
            empty_since_ms.filter(|_| self.consumer.is_none() && self.protocol_type.is_some());
        let mut subscribed = self.subscribed(topics);
        // DEFECT offsets-expire-in-rebalance: while a group rebalances nobody counts as subscribed to anything.
        if turn.config.defect == Some(DefectKind::OffsetsExpireInRebalance)
            && matches!(self.state, State::Preparing { .. } | State::Completing { .. })
        {
            subscribed = Subscribed::Some(BTreeSet::new());
        }
        let expired: Vec<TopicPartition> = self
            .offsets
            .settled()
            .filter(|(partition, at_ms)| {
                is_old((*at_ms).max(counts_from_ms.unwrap_or(i64::MIN)))
                    && !subscribed.may_contain(&partition.topic)
            })
            .map(|(partition, _)| partition.clone())
            .collect();
        let mut loses_all = expired.len() == self.offsets.count() && !self.offsets.has_transactional();
        let mut is_idle = empty_since_ms.is_some_and(|since_ms| !expired.is_empty() || is_old(since_ms));
        // DEFECT pending-offsets-dropped: offsets of open transactions are none; without others a group without members goes.
        if turn.config.defect == Some(DefectKind::PendingOffsetsDropped) {
            loses_all = expired.len() == self.offsets.count();
            is_idle = empty_since_ms.is_some();
        }
        if loses_all && is_idle && self.promised.is_empty() {
            self.delete(None, turn);
        } else if !expired.is_empty() {
            self.forget_offsets(expired, None, turn);
        }
    }

    fn subscribed(&mut self, topics: &KnownTopics) -> Subscribed {
        if let Some(consumer) = &mut self.consumer {
            return Subscribed::Some(consumer.subscribed(topics));
        }
        match self.state {
            State::Empty { .. } => Subscribed::Some(BTreeSet::new()),
            State::Stable if self.protocol_type.as_deref() == Some(CONSUMERS) => {
                let mut all = BTreeSet::new();
                for member in self.members.values() {
                    match topics_of(member.subscription(self.protocol.as_deref())) {
                        Some(topics) => all.extend(topics),
                        None => return Subscribed::Unknown,
                    }
                }
                Subscribed::Some(all)
            }
            _ => Subscribed::Unknown,
        }
    }

    fn forget_offsets(
        &mut self,
        partitions: Vec<TopicPartition>,
        answer: Option<(ReplyTo, OffsetDeleteResponse)>,
        turn: &mut Turn<'_>,
    ) {
        let tombstone = |partition: &TopicPartition| Entry::Offset {
            group: self.id.clone(),
            partition: partition.clone(),
            committed: None,
        };
        let entries: Vec<Entry> = partitions.iter().map(tombstone).collect();
        self.in_flight += 1;
        turn.append(&self.id, &entries, Then::Forget { partitions, answer });
    }

    /// Removes offsets at an operator's wish: those of topics that no member is subscribed to.
    pub(super) fn delete_offsets(
        &mut self,
        to: ReplyTo,
        request: OffsetDeleteRequest,
        topics: &KnownTopics,
        turn: &mut Turn<'_>,
    ) {
        let is_consumers = self.consumer.is_some() || self.protocol_type.as_deref() == Some(CONSUMERS);
        let refused = match self.state {
            State::Dead => Some(ErrorCode::GROUP_ID_NOT_FOUND),
            State::Empty { .. } => None,
            _ => (!is_consumers).then_some(ErrorCode::NON_EMPTY_GROUP),
        };
        if let Some(error_code) = refused {
            turn.refuse_deletion(to, error_code);
            return;
        }
        let subscribed = self.subscribed(topics);
        let mut partitions = Vec::new();
        let mut response = OffsetDeleteResponse::default();
        for topic in request.topics {
            let is_in_use = subscribed.may_contain(&topic.name);
            let error_code = if is_in_use { ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC } else { ErrorCode::NONE };
            let mut answered = Vec::new();
            for asked in topic.partitions {
                let partition = TopicPartition { topic: topic.name.clone(), partition: asked.index };
                if !is_in_use && self.offsets.contains(&partition) {
                    partitions.push(partition);
                }
                answered.push(OffsetDeleteResponsePartition { index: asked.index, error_code });
            }
            response.topics.push(OffsetDeleteResponseTopic { name: topic.name, partitions: answered });
        }
        if partitions.is_empty() {
            turn.outbox.reply(to, Response::OffsetDelete(response));
        } else {
            self.forget_offsets(partitions, Some((to, response)), turn);
        }
    }
}

impl Turn<'_> {
    pub(super) fn refuse_deletion(&mut self, to: ReplyTo, error_code: ErrorCode) {
        let response = OffsetDeleteResponse { error_code, ..OffsetDeleteResponse::default() };
        self.outbox.reply(to, Response::OffsetDelete(response));
    }
}

/// The topics that a member of a classic group says it wants; none if it does not say so as consumers do.
fn topics_of(mut subscription: Bytes) -> Option<Vec<String>> {
    let version = subscription.try_get_i16().ok()?;
    // Later versions begin as this one does.
    let version = version.min(*ConsumerProtocolSubscription::VERSIONS.end());
    let mut reader = Reader::new(subscription);
    ConsumerProtocolSubscription::decode(&mut reader, version).ok().map(|it| it.topics)
}
