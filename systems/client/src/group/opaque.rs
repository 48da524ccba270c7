//! What the members of a classic group tell each other through their coordinator, which does not read it.
//!
//! ```text
//! version16 message        what a member wants and has, in JoinGroup; what it gets, in SyncGroup
//! ```
//!
//! Source: Kafka's ConsumerProtocol.

use super::assignor::Subscriber;
use crate::metadata::Tp;
use bytes::{BufMut, Bytes, BytesMut};
use riprap_protocol::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolAssignmentTopic, ConsumerProtocolSubscription,
};
use riprap_protocol::{Message, Reader};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The version in which members say what they want and are told what they get.
const SUBSCRIPTION_VERSION: i16 = 3;

/// A message as members leave it with the coordinator.
pub(super) fn versioned<M: Message>(message: &M) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(SUBSCRIPTION_VERSION);
    message.encode(&mut bytes, SUBSCRIPTION_VERSION).expect("what members say is small");
    bytes.freeze()
}

/// Reads what [`versioned`] wrote, or another client; nothing if that is not readable.
fn read<M: Message>(bytes: &Bytes) -> M {
    let version = bytes.first_chunk().map_or(0, |version| i16::from_be_bytes(*version));
    let mut reader = Reader::new(bytes.slice(bytes.len().min(2)..));
    // Later versions add at the end.
    M::decode(&mut reader, version.clamp(*M::VERSIONS.start(), *M::VERSIONS.end())).unwrap_or_default()
}

pub(super) fn subscriber(metadata: &Bytes) -> Subscriber {
    let said: ConsumerProtocolSubscription = read(metadata);
    let owned = said.owned_partitions.into_iter().flat_map(|topic| {
        let name: Rc<str> = topic.name.into();
        topic.partitions.into_iter().map(move |partition| Tp { topic: Rc::clone(&name), partition })
    });
    let owned = owned.collect();
    let topics = said.topics.into_iter().map(Rc::from).collect();
    Subscriber { topics, owned, generation: said.generation_id }
}

pub(super) fn assignment_bytes(tps: &BTreeSet<Tp>) -> Bytes {
    let mut topics: Vec<ConsumerProtocolAssignmentTopic> = Vec::new();
    for tp in tps {
        match topics.last_mut() {
            Some(topic) if *topic.name == *tp.topic => topic.partitions.push(tp.partition),
            _ => topics.push(ConsumerProtocolAssignmentTopic {
                name: tp.topic.to_string(),
                partitions: vec![tp.partition],
            }),
        }
    }
    versioned(&ConsumerProtocolAssignment { topics, user_data: None })
}

pub(super) fn assigned(bytes: &Bytes) -> BTreeSet<Tp> {
    let told: ConsumerProtocolAssignment = read(bytes);
    let tps = told.topics.into_iter().flat_map(|topic| {
        let name: Rc<str> = topic.name.into();
        topic.partitions.into_iter().map(move |partition| Tp { topic: Rc::clone(&name), partition })
    });
    tps.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_read_as_they_were_written() {
        let tps: BTreeSet<Tp> = [("a", 0), ("a", 2), ("b", 1)]
            .map(|(topic, partition)| Tp { topic: topic.into(), partition })
            .into();
        assert_eq!(assigned(&assignment_bytes(&tps)), tps);
        assert_eq!(assigned(&assignment_bytes(&BTreeSet::new())), BTreeSet::new());
        // A member that the leader did not know of gets nothing, and says so in no bytes at all.
        assert_eq!(assigned(&Bytes::new()), BTreeSet::new());
    }
}
