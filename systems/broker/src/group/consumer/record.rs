//! A group of KIP-848 in `__consumer_offsets`.
//!
//! ```text
//! 3 group             epoch, fingerprint of what is subscribed to
//! 5 group member      subscription
//! 6 group             target's epoch
//! 7 group member      target
//! 8 group member      holding
//! ```
//!
//! The keys begin with those numbers, the values with a version, which is 0; the rest of the values is in the tables of
//! the protocol crate. Kafka's keys 4 (topics and their partitions, up to 4.0) and 16 (what patterns mean) are not written:
//! the fingerprint is what followed the first, and a new coordinator finds the second anew.
//! Source: Kafka's ConsumerGroup*Key and *Value message definitions; KIP-848, KIP-1101.

use super::super::record::{Cursor, RecordError, put_text};
use super::state::{Holding, Partitions, Phase, Subscription};
use bytes::{BufMut, Bytes, BytesMut};
use riprap_protocol::messages::{
    ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupCurrentMemberAssignmentValueTopicPartitions,
    ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataValue, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMemberValueTopicPartitions, ConsumerGroupTargetAssignmentMetadataValue,
};
use riprap_protocol::{Message, Reader, Uuid};

const GROUP: i16 = 3;
const SUBSCRIPTION: i16 = 5;
const TARGET_EPOCH: i16 = 6;
const TARGET: i16 = 7;
const HOLDING: i16 = 8;

/// The version of all values.
const VALUE: i16 = 0;

/// A record of a group as it reads; none removes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ConsumerEntry {
    /// Its epoch and fingerprint.
    Group(Option<(i32, i64)>),
    /// Of a member.
    Subscription(String, Option<Subscription>),
    /// The epoch that the target was computed for.
    TargetEpoch(Option<i32>),
    /// Of a member.
    Target(String, Option<Partitions>),
    /// Of a member.
    Holding(String, Option<Holding>),
}

impl ConsumerEntry {
    /// Whether a key that begins with this number is one of these.
    pub(crate) fn has_key(number: i16) -> bool {
        [GROUP, SUBSCRIPTION, TARGET_EPOCH, TARGET, HOLDING].contains(&number)
    }

    pub(crate) fn put(&self, group: &str, key: &mut BytesMut, value: &mut BytesMut) -> bool {
        let (number, member) = match self {
            ConsumerEntry::Group(_) => (GROUP, None),
            ConsumerEntry::Subscription(id, _) => (SUBSCRIPTION, Some(id)),
            ConsumerEntry::TargetEpoch(_) => (TARGET_EPOCH, None),
            ConsumerEntry::Target(id, _) => (TARGET, Some(id)),
            ConsumerEntry::Holding(id, _) => (HOLDING, Some(id)),
        };
        key.put_i16(number);
        put_text(key, group);
        if let Some(member) = member {
            put_text(key, member);
        }
        let body = match self {
            ConsumerEntry::Group(it) => {
                it.map(|(epoch, metadata_hash)| body(&ConsumerGroupMetadataValue { epoch, metadata_hash }))
            }
            ConsumerEntry::Subscription(_, it) => it.as_ref().map(|it| body(&written_subscription(it))),
            ConsumerEntry::TargetEpoch(it) => it.map(|assignment_epoch| {
                body(&ConsumerGroupTargetAssignmentMetadataValue { assignment_epoch })
            }),
            ConsumerEntry::Target(_, it) => it.as_ref().map(|it| body(&written_target(it))),
            ConsumerEntry::Holding(_, it) => it.as_ref().map(|it| body(&written_holding(it))),
        };
        if let Some(body) = &body {
            value.put_i16(VALUE);
            value.put_slice(body);
        }
        body.is_some()
    }

    /// Reads what follows the number of the key. The group comes first.
    pub(crate) fn get(
        number: i16,
        mut key: Cursor<'_>,
        value: Option<Cursor<'_>>,
    ) -> Result<(String, ConsumerEntry), RecordError> {
        let group = key.text()?;
        let member = match number {
            GROUP | TARGET_EPOCH => String::new(),
            _ => key.text()?,
        };
        key.finish()?;
        let entry = match number {
            GROUP => {
                let it: Option<ConsumerGroupMetadataValue> = read(value)?;
                ConsumerEntry::Group(it.map(|it| (it.epoch, it.metadata_hash)))
            }
            SUBSCRIPTION => ConsumerEntry::Subscription(member, read(value)?.map(read_subscription)),
            TARGET_EPOCH => {
                let it: Option<ConsumerGroupTargetAssignmentMetadataValue> = read(value)?;
                ConsumerEntry::TargetEpoch(it.map(|it| it.assignment_epoch))
            }
            TARGET => ConsumerEntry::Target(member, read(value)?.map(read_target)),
            _ => ConsumerEntry::Holding(member, read(value)?.map(read_holding).transpose()?),
        };
        Ok((group, entry))
    }
}

fn body(value: &impl Message) -> Bytes {
    value.to_bytes(VALUE).expect("what came over the wire has strings that fit")
}

fn read<M: Message>(value: Option<Cursor<'_>>) -> Result<Option<M>, RecordError> {
    let Some(mut value) = value else { return Ok(None) };
    value.version(VALUE, "0")?;
    let mut reader = Reader::new(Bytes::copy_from_slice(value.left));
    M::decode_all(&mut reader, VALUE).map(Some).map_err(|e| RecordError::Body(e.to_string()))
}

fn written_subscription(it: &Subscription) -> ConsumerGroupMemberMetadataValue {
    ConsumerGroupMemberMetadataValue {
        instance_id: it.instance_id.clone(),
        rack_id: it.rack_id.clone(),
        client_id: it.client_id.clone(),
        client_host: it.client_host.clone(),
        subscribed_topic_names: it.names.iter().cloned().collect(),
        subscribed_topic_regex: it.pattern.clone(),
        rebalance_timeout_ms: it.rebalance_timeout_ms,
        server_assignor: it.assignor.clone(),
    }
}

fn read_subscription(it: ConsumerGroupMemberMetadataValue) -> Subscription {
    Subscription {
        instance_id: it.instance_id,
        rack_id: it.rack_id,
        client_id: it.client_id,
        client_host: it.client_host,
        names: it.subscribed_topic_names.into_iter().collect(),
        pattern: it.subscribed_topic_regex.filter(|pattern| !pattern.is_empty()),
        rebalance_timeout_ms: it.rebalance_timeout_ms,
        assignor: it.server_assignor,
    }
}

fn written_target(it: &Partitions) -> ConsumerGroupTargetAssignmentMemberValue {
    let topic = |(topic_id, partitions)| ConsumerGroupTargetAssignmentMemberValueTopicPartitions {
        topic_id,
        partitions,
    };
    ConsumerGroupTargetAssignmentMemberValue { topic_partitions: it.topics().map(topic).collect() }
}

fn read_target(it: ConsumerGroupTargetAssignmentMemberValue) -> Partitions {
    partitions(it.topic_partitions.into_iter().map(|it| (it.topic_id, it.partitions)))
}

fn written_holding(it: &Holding) -> ConsumerGroupCurrentMemberAssignmentValue {
    let topics = |partitions: &Partitions| {
        let topic = |(topic_id, partitions)| ConsumerGroupCurrentMemberAssignmentValueTopicPartitions {
            topic_id,
            partitions,
        };
        partitions.topics().map(topic).collect()
    };
    ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: it.epoch,
        previous_member_epoch: it.previous_epoch,
        state: it.phase as i8,
        assigned_partitions: topics(&it.assigned),
        partitions_pending_revocation: topics(&it.revoking),
    }
}

fn read_holding(it: ConsumerGroupCurrentMemberAssignmentValue) -> Result<Holding, RecordError> {
    let topics = |topics: Vec<ConsumerGroupCurrentMemberAssignmentValueTopicPartitions>| {
        partitions(topics.into_iter().map(|it| (it.topic_id, it.partitions)))
    };
    let unknown =
        || RecordError::Version { what: "member's state", version: it.state.into(), known: "0 to 2" };
    Ok(Holding {
        epoch: it.member_epoch,
        previous_epoch: it.previous_member_epoch,
        phase: Phase::of(it.state).ok_or_else(unknown)?,
        assigned: topics(it.assigned_partitions),
        revoking: topics(it.partitions_pending_revocation),
    })
}

pub(super) fn partitions(topics: impl Iterator<Item = (Uuid, Vec<i32>)>) -> Partitions {
    topics.flat_map(|(topic, indexes)| indexes.into_iter().map(move |index| (topic, index))).collect()
}

#[cfg(test)]
pub(in crate::group) mod tests {
    use super::super::state::{Durable, Member};
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn some_partitions() -> impl Strategy<Value = Partitions> {
        let partition = (0..3_u8, 0..5_i32).prop_map(|(topic, index)| (Uuid([topic; 16]), index));
        prop::collection::vec(partition, 0..6).prop_map(|all| all.into_iter().collect())
    }

    fn subscription() -> impl Strategy<Value = Subscription> {
        let text = || "[a-z]{0,6}";
        let maybe = || prop::option::of("[a-z]{1,6}");
        let who = (maybe(), maybe(), text(), text());
        let what = (prop::collection::btree_set("[a-z]{1,4}", 0..3), maybe(), any::<i32>(), maybe());
        (who, what).prop_map(|((instance_id, rack_id, client_id, client_host), what)| {
            let (names, pattern, rebalance_timeout_ms, assignor) = what;
            Subscription {
                instance_id,
                rack_id,
                client_id,
                client_host,
                names,
                pattern,
                rebalance_timeout_ms,
                assignor,
            }
        })
    }

    fn holding() -> impl Strategy<Value = Holding> {
        let phase = prop_oneof![Just(Phase::Stable), Just(Phase::Unrevoked), Just(Phase::Unreleased)];
        (any::<i32>(), any::<i32>(), phase, some_partitions(), some_partitions()).prop_map(
            |(epoch, previous_epoch, phase, assigned, revoking)| Holding {
                epoch,
                previous_epoch,
                phase,
                assigned,
                revoking,
            },
        )
    }

    pub(in crate::group) fn consumer_entry() -> impl Strategy<Value = ConsumerEntry> {
        let id = || "[a-z]{0,6}";
        prop_oneof![
            prop::option::of(any::<(i32, i64)>()).prop_map(ConsumerEntry::Group),
            (id(), prop::option::of(subscription())).prop_map(|(id, it)| ConsumerEntry::Subscription(id, it)),
            prop::option::of(any::<i32>()).prop_map(ConsumerEntry::TargetEpoch),
            (id(), prop::option::of(some_partitions())).prop_map(|(id, it)| ConsumerEntry::Target(id, it)),
            (id(), prop::option::of(holding())).prop_map(|(id, it)| ConsumerEntry::Holding(id, it)),
        ]
    }

    fn durable() -> impl Strategy<Value = Durable> {
        let member = (subscription(), holding(), prop::option::of(some_partitions()));
        let members = prop::collection::btree_map("[a-d]", member, 0..4);
        let there = (1..5_i32, any::<i64>(), 0..5_i32, members).prop_map(
            |(epoch, fingerprint, target_epoch, all)| {
                let mut durable = Durable { epoch, fingerprint, target_epoch, ..Durable::default() };
                for (id, (subscription, holding, target)) in all {
                    let (subscription, holding) = (Arc::new(subscription), Arc::new(holding));
                    durable.target.extend(target.map(|target| (id.clone(), Arc::new(target))));
                    durable.members.insert(id, Member { subscription, holding });
                }
                durable
            },
        );
        prop_oneof![1 => Just(Durable::default()), 9 => there]
    }

    proptest! {
        #[test]
        fn what_changed_makes_the_new_state_of_the_former(former in durable(), next in durable()) {
            let mut replayed = former.clone();
            next.since(&former).into_iter().for_each(|entry| replayed.apply(entry));
            prop_assert_eq!(replayed, next.clone());
            prop_assert!(next.since(&next).is_empty());
        }
    }

    #[test]
    fn layout_is_as_kafkas() {
        let written = |entry: &ConsumerEntry| {
            let (mut key, mut value) = (BytesMut::new(), BytesMut::new());
            entry.put("g", &mut key, &mut value).then(|| (key.freeze(), value.freeze())).expect("a value")
        };
        // Flexible: lengths and counts are one too large, and each struct ends with its number of tagged fields.
        let (key, value) = written(&ConsumerEntry::Group(Some((7, 0))));
        assert_eq!((&key[..], &value[..]), (&b"\0\x03\0\x01g"[..], &b"\0\0\0\0\0\x07\0"[..]));
        let target = [(Uuid([9; 16]), 2)].into_iter().collect();
        let (key, value) = written(&ConsumerEntry::Target("m".to_owned(), Some(target)));
        assert_eq!(&key[..], b"\0\x07\0\x01g\0\x01m");
        assert_eq!(&value[..], [&b"\0\0\x02"[..], &[9; 16], b"\x02\0\0\0\x02\0\0"].concat());
    }
}
