//! What a coordinator keeps in its partition of `__consumer_offsets`: committed offsets, and the groups themselves.
//!
//! ```text
//! offset key    := 1:i16 group:string topic:string partition:i32
//! offset value  := 3:i16 offset:i64 leader_epoch:i32 metadata:string timestamp:i64
//! group key     := 2:i16 group:string
//! group value   := 3:i16 protocol_type:string generation:i32 protocol:string? leader:string? timestamp:i64 member[]
//! member        := id:string instance:string? client_id:string client_host:string rebalance_timeout_ms:i32
//!                  session_timeout_ms:i32 subscription:bytes assignment:bytes
//! 3, 5 to 8     groups of KIP-848: see consumer/record.rs
//! string        := length:i16 byte*      bytes, [] := length:i32 ...      ? := length -1 is null
//! ```
//!
//! A record without a value removes what its key names. The layout is Kafka's, so that its tools can print the topic
//! of a bundled broker. A timestamp says when an offset was committed, or since when the group is in its state.
//! Source: Kafka's message definitions OffsetCommitKey/Value, GroupMetadataKey/Value; KIP-915 for the versions.

use super::consumer::ConsumerEntry;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::collections::BTreeMap;
use thiserror::Error;

/// A key and its value, none to remove it: one record of `__consumer_offsets`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// What the record is about.
    pub key: Bytes,
    /// Its new state.
    pub value: Option<Bytes>,
}

/// Why a record of `__consumer_offsets` cannot be understood.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RecordError {
    /// A later version than this broker writes, or no such record.
    #[error("{what} of version {version}; {known} is known")]
    Version {
        /// Which part.
        what: &'static str,
        /// What it says.
        version: i16,
        /// What would have been right.
        known: &'static str,
    },
    /// The bytes end too early.
    #[error("{0} ends too early")]
    Short(&'static str),
    /// The bytes go on after the end.
    #[error("{what}: {count} bytes too many")]
    Long {
        /// Which part.
        what: &'static str,
        /// How many are left.
        count: usize,
    },
    /// A string is not UTF-8, or is null where it may not be.
    #[error("{0}: not a string")]
    Text(&'static str),
    /// A value of the protocol's tables that is not as they say.
    #[error("value: {0}")]
    Body(String),
}

const OFFSET_KEY: i16 = 1;
const OFFSET_VALUE: i16 = 3;
const GROUP_KEY: i16 = 2;
const GROUP_VALUE: i16 = 3;
/// What is in the place of a time that nobody knows.
pub(super) const NO_TIMESTAMP: i64 = -1;

/// A partition of a topic, by name: offsets outlive a topic's id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct TopicPartition {
    pub(super) topic: String,
    pub(super) partition: i32,
}

/// What a consumer committed for a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Committed {
    pub(super) offset: i64,
    pub(super) leader_epoch: i32,
    pub(super) metadata: String,
    /// When; by the wall's clock, for it outlives coordinators.
    pub(super) at_ms: i64,
}

/// What survives of a group: its latest stable generation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) protocol_type: String,
    pub(super) generation: i32,
    pub(super) protocol: Option<String>,
    pub(super) leader: Option<String>,
    /// Since when the group is as it is.
    pub(super) since_ms: i64,
    pub(super) members: BTreeMap<String, MemberSnapshot>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct MemberSnapshot {
    pub(super) instance_id: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) session_timeout_ms: i32,
    pub(super) subscription: Bytes,
    pub(super) assignment: Bytes,
}

/// A record as it reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    Offset {
        group: String,
        partition: TopicPartition,
        committed: Option<Committed>,
    },
    Group {
        group: String,
        snapshot: Option<Snapshot>,
    },
    /// Of a group of KIP-848.
    Consumer {
        group: String,
        entry: ConsumerEntry,
    },
}

impl Entry {
    pub(super) fn to_record(&self) -> Record {
        let mut key = BytesMut::new();
        let mut value = BytesMut::new();
        let is_there = match self {
            Entry::Offset { group, partition, committed } => {
                key.put_i16(OFFSET_KEY);
                put_text(&mut key, group);
                put_text(&mut key, &partition.topic);
                key.put_i32(partition.partition);
                if let Some(committed) = committed {
                    put_committed(&mut value, committed);
                }
                committed.is_some()
            }
            Entry::Group { group, snapshot } => {
                key.put_i16(GROUP_KEY);
                put_text(&mut key, group);
                if let Some(snapshot) = snapshot {
                    put_snapshot(&mut value, snapshot);
                }
                snapshot.is_some()
            }
            Entry::Consumer { group, entry } => entry.put(group, &mut key, &mut value),
        };
        Record { key: key.freeze(), value: is_there.then(|| value.freeze()) }
    }

    pub(super) fn from_record(key: &[u8], value: Option<&[u8]>) -> Result<Entry, RecordError> {
        let mut key = Cursor { left: key, what: "key" };
        let value = value.map(|value| Cursor { left: value, what: "value" });
        match key.i16()? {
            // Version 0 differs in nothing but what wrote it.
            0 | OFFSET_KEY => {
                let group = key.text()?;
                let partition = TopicPartition { topic: key.text()?, partition: key.i32()? };
                key.finish()?;
                Ok(Entry::Offset { group, partition, committed: value.map(get_committed).transpose()? })
            }
            GROUP_KEY => {
                let group = key.text()?;
                key.finish()?;
                Ok(Entry::Group { group, snapshot: value.map(get_snapshot).transpose()? })
            }
            number if ConsumerEntry::has_key(number) => {
                let (group, entry) = ConsumerEntry::get(number, key, value)?;
                Ok(Entry::Consumer { group, entry })
            }
            version => Err(RecordError::Version { what: "key", version, known: "0 to 3 and 5 to 8" }),
        }
    }
}

fn put_committed(out: &mut BytesMut, committed: &Committed) {
    out.put_i16(OFFSET_VALUE);
    out.put_i64(committed.offset);
    out.put_i32(committed.leader_epoch);
    put_text(out, &committed.metadata);
    out.put_i64(committed.at_ms);
}

fn get_committed(mut value: Cursor<'_>) -> Result<Committed, RecordError> {
    value.version(OFFSET_VALUE, "3")?;
    let (offset, leader_epoch, metadata) = (value.i64()?, value.i32()?, value.text()?);
    let at_ms = value.i64()?;
    value.finish()?;
    Ok(Committed { offset, leader_epoch, metadata, at_ms })
}

fn put_snapshot(out: &mut BytesMut, snapshot: &Snapshot) {
    out.put_i16(GROUP_VALUE);
    put_text(out, &snapshot.protocol_type);
    out.put_i32(snapshot.generation);
    put_nullable(out, snapshot.protocol.as_deref());
    put_nullable(out, snapshot.leader.as_deref());
    out.put_i64(snapshot.since_ms);
    out.put_i32(i32_len(snapshot.members.len()));
    for (id, member) in &snapshot.members {
        put_text(out, id);
        put_nullable(out, member.instance_id.as_deref());
        put_text(out, &member.client_id);
        put_text(out, &member.client_host);
        out.put_i32(member.rebalance_timeout_ms);
        out.put_i32(member.session_timeout_ms);
        put_bytes(out, &member.subscription);
        put_bytes(out, &member.assignment);
    }
}

fn get_snapshot(mut value: Cursor<'_>) -> Result<Snapshot, RecordError> {
    value.version(GROUP_VALUE, "3")?;
    let protocol_type = value.text()?;
    let generation = value.i32()?;
    let protocol = value.nullable()?;
    let leader = value.nullable()?;
    let since_ms = value.i64()?;
    let count = value.i32()?;
    let mut members = BTreeMap::new();
    // A count that lies runs into the end: nothing is reserved for it.
    for _ in 0..count {
        let id = value.text()?;
        let member = MemberSnapshot {
            instance_id: value.nullable()?,
            client_id: value.text()?,
            client_host: value.text()?,
            rebalance_timeout_ms: value.i32()?,
            session_timeout_ms: value.i32()?,
            subscription: value.bytes()?,
            assignment: value.bytes()?,
        };
        members.insert(id, member);
    }
    value.finish()?;
    Ok(Snapshot { protocol_type, generation, protocol, leader, since_ms, members })
}

pub(super) fn put_text(out: &mut BytesMut, text: &str) {
    out.put_i16(
        i16::try_from(text.len()).expect("strings came over the wire, where they have the same limit"),
    );
    out.put_slice(text.as_bytes());
}

fn put_nullable(out: &mut BytesMut, text: Option<&str>) {
    match text {
        Some(text) => put_text(out, text),
        None => out.put_i16(-1),
    }
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_i32(i32_len(bytes.len()));
    out.put_slice(bytes);
}

fn i32_len(len: usize) -> i32 {
    i32::try_from(len).expect("the coordinator's limits are far below")
}

/// What is left to read.
/// Reads a key or a value of a coordinator's record: what is left of it, and which of them it is.
pub(crate) struct Cursor<'a> {
    pub(crate) left: &'a [u8],
    pub(crate) what: &'static str,
}

impl<'a> Cursor<'a> {
    pub(crate) fn get<T>(
        &mut self,
        get: impl Fn(&mut &'a [u8]) -> Result<T, bytes::TryGetError>,
    ) -> Result<T, RecordError> {
        get(&mut self.left).map_err(|_| RecordError::Short(self.what))
    }

    fn i16(&mut self) -> Result<i16, RecordError> {
        self.get(Buf::try_get_i16)
    }

    fn i32(&mut self) -> Result<i32, RecordError> {
        self.get(Buf::try_get_i32)
    }

    fn i64(&mut self) -> Result<i64, RecordError> {
        self.get(Buf::try_get_i64)
    }

    pub(crate) fn version(&mut self, right: i16, known: &'static str) -> Result<(), RecordError> {
        match self.i16()? {
            version if version == right => Ok(()),
            version => Err(RecordError::Version { what: self.what, version, known }),
        }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], RecordError> {
        let (taken, left) = self.left.split_at_checked(len).ok_or(RecordError::Short(self.what))?;
        self.left = left;
        Ok(taken)
    }

    /// Text of so many bytes.
    pub(crate) fn text_of(&mut self, len: usize) -> Result<String, RecordError> {
        let text = std::str::from_utf8(self.take(len)?).map_err(|_| RecordError::Text(self.what))?;
        Ok(text.to_owned())
    }

    fn nullable(&mut self) -> Result<Option<String>, RecordError> {
        let Ok(len) = usize::try_from(self.i16()?) else { return Ok(None) };
        self.text_of(len).map(Some)
    }

    pub(super) fn text(&mut self) -> Result<String, RecordError> {
        self.nullable()?.ok_or(RecordError::Text(self.what))
    }

    fn bytes(&mut self) -> Result<Bytes, RecordError> {
        let len = usize::try_from(self.i32()?).unwrap_or(0);
        Ok(Bytes::copy_from_slice(self.take(len)?))
    }

    pub(crate) fn finish(&self) -> Result<(), RecordError> {
        match self.left.len() {
            0 => Ok(()),
            count => Err(RecordError::Long { what: self.what, count }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = String> {
        ".{0,12}"
    }

    fn bytes() -> impl Strategy<Value = Bytes> {
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from)
    }

    fn member() -> impl Strategy<Value = MemberSnapshot> {
        (prop::option::of(text()), text(), text(), any::<i32>(), any::<i32>(), bytes(), bytes()).prop_map(
            |(instance_id, client_id, client_host, rebalance_timeout_ms, session_timeout_ms, s, a)| {
                MemberSnapshot {
                    instance_id,
                    client_id,
                    client_host,
                    rebalance_timeout_ms,
                    session_timeout_ms,
                    subscription: s,
                    assignment: a,
                }
            },
        )
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let committed = (any::<i64>(), any::<i32>(), text(), any::<i64>()).prop_map(
            |(offset, leader_epoch, metadata, at_ms)| Committed { offset, leader_epoch, metadata, at_ms },
        );
        let offset = (text(), text(), any::<i32>(), prop::option::of(committed)).prop_map(
            |(group, topic, partition, committed)| Entry::Offset {
                group,
                partition: TopicPartition { topic, partition },
                committed,
            },
        );
        let members = prop::collection::btree_map(text(), member(), 0..4);
        let leader_and_time = (prop::option::of(text()), any::<i64>());
        let snapshot = (text(), any::<i32>(), prop::option::of(text()), leader_and_time, members).prop_map(
            |(protocol_type, generation, protocol, (leader, since_ms), members)| Snapshot {
                protocol_type,
                generation,
                protocol,
                leader,
                since_ms,
                members,
            },
        );
        let group = (text(), prop::option::of(snapshot))
            .prop_map(|(group, snapshot)| Entry::Group { group, snapshot });
        let consumer = (text(), super::super::consumer::consumer_entry())
            .prop_map(|(group, entry)| Entry::Consumer { group, entry });
        prop_oneof![offset, group, consumer]
    }

    proptest! {
        #[test]
        fn reads_what_it_wrote_and_nothing_shorter_or_longer(entry in entry(), cut in any::<prop::sample::Index>()) {
            let Record { key, value } = entry.to_record();
            prop_assert_eq!(Entry::from_record(&key, value.as_deref()), Ok(entry));
            prop_assert!(Entry::from_record(&key[..cut.index(key.len())], value.as_deref()).is_err());
            if let Some(value) = value {
                prop_assert!(Entry::from_record(&key, Some(&value[..cut.index(value.len())])).is_err());
                let longer = [&value[..], &[0]].concat();
                prop_assert!(Entry::from_record(&key, Some(&longer)).is_err());
            }
        }

        #[test]
        fn hostile_bytes_are_refused_or_read(
            version in 0_i16..10,
            key in prop::collection::vec(any::<u8>(), 0..40),
            value in prop::option::of(prop::collection::vec(any::<u8>(), 0..80)),
        ) {
            let key = [&version.to_be_bytes()[..], &key].concat();
            let of_value: i16 = if version < 3 { 3 } else { 0 };
            let value = value.map(|value| [&of_value.to_be_bytes()[..], &value].concat());
            Entry::from_record(&key, value.as_deref()).ok();
        }
    }

    #[test]
    fn layout_is_as_documented() {
        let record = Entry::Offset {
            group: "g".to_owned(),
            partition: TopicPartition { topic: "t".to_owned(), partition: 2 },
            committed: Some(Committed { offset: 7, leader_epoch: 1, metadata: "m".to_owned(), at_ms: -1 }),
        }
        .to_record();
        assert_eq!(&record.key[..], b"\0\x01\0\x01g\0\x01t\0\0\0\x02");
        assert_eq!(
            &record.value.expect("a value")[..],
            b"\0\x03\0\0\0\0\0\0\0\x07\0\0\0\x01\0\x01m\xff\xff\xff\xff\xff\xff\xff\xff"
        );
    }
}
