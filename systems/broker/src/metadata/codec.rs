//! The bytes of a metadata entry.
//!
//! ```text
//! entry   := version:u8(1) record*
//! record  := tag:u8 field*
//! varint  := seven bits a byte, the lowest first; signed values are zigzagged
//! string  := length:varint bytes        list := count:varint element*        uuid := 16 bytes
//! ```

use super::record::{PartitionState, Record};
use crate::ids::{BrokerId, Incarnation, LeaderEpoch, PartitionEpoch, TopicId};
use bytes::{BufMut, Bytes, BytesMut};
use riprap_protocol::Uuid;
use thiserror::Error;

const VERSION: u8 = 1;

/// The highest kind of record.
const LAST_TAG: u8 = 11;

/// Why bytes are no metadata entry. Only a log of another version of this program, or another program's, says so: the
/// quorum's log has checksums of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum CodecError {
    /// The entry ends within a record.
    #[error("metadata entry ends within a record")]
    End,
    /// Written by another version.
    #[error("metadata entry of version {0}: 1 is known")]
    Version(u8),
    /// No such record.
    #[error("metadata record of kind {0}: 1 to {LAST_TAG} are known")]
    Tag(u8),
    /// A number, text or flag that the field cannot hold.
    #[error("metadata field `{0}` holds what it cannot")]
    Field(&'static str),
}

/// Writes an entry.
pub(crate) fn encode(records: &[Record]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(VERSION);
    for record in records {
        put_record(&mut out, record);
    }
    out.freeze()
}

/// Reads an entry.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Record>, CodecError> {
    let mut reader = Reader { rest: bytes };
    match reader.byte()? {
        VERSION => {}
        other => return Err(CodecError::Version(other)),
    }
    let mut records = Vec::new();
    while !reader.rest.is_empty() {
        records.push(reader.record()?);
    }
    Ok(records)
}

fn put_record(out: &mut BytesMut, record: &Record) {
    match record {
        Record::RegisterBroker { id, incarnation, host, port } => {
            out.put_u8(1);
            put_signed(out, id.0.into());
            put_signed(out, incarnation.0);
            put_string(out, host);
            put_unsigned(out, u64::from(*port));
        }
        Record::FenceBroker { id } => {
            out.put_u8(2);
            put_signed(out, id.0.into());
        }
        Record::UnfenceBroker { id } => {
            out.put_u8(3);
            put_signed(out, id.0.into());
        }
        Record::CreateTopic { id, name, min_insync_replicas, unclean_leader_election, configs } => {
            out.put_u8(4);
            out.put_slice(&id.0.0);
            put_string(out, name);
            put_settings(out, *min_insync_replicas, *unclean_leader_election, configs);
        }
        Record::DeleteTopic { id } => {
            out.put_u8(5);
            out.put_slice(&id.0.0);
        }
        Record::SetPartition { topic, index, state } => {
            // Kind 9 is kind 6 with a reassignment behind it.
            let is_reassigned = !state.adding.is_empty() || !state.removing.is_empty();
            out.put_u8(if is_reassigned { 9 } else { 6 });
            out.put_slice(&topic.0.0);
            put_signed(out, (*index).into());
            put_brokers(out, &state.replicas);
            put_brokers(out, &state.isr);
            put_brokers(out, &state.elr);
            put_signed(out, state.leader.map_or(-1, |id| id.0.into()));
            put_signed(out, state.leader_epoch.0.into());
            put_signed(out, state.partition_epoch.0.into());
            if is_reassigned {
                put_brokers(out, &state.adding);
                put_brokers(out, &state.removing);
            }
        }
        Record::ProducerIds { next } => {
            out.put_u8(7);
            put_signed(out, *next);
        }
        Record::UnregisterBroker { id, incarnation } => {
            // Kind 11 is kind 10 with an incarnation behind it.
            out.put_u8(if incarnation.is_some() { 11 } else { 10 });
            put_signed(out, id.0.into());
            if let Some(incarnation) = incarnation {
                put_signed(out, incarnation.0);
            }
        }
        Record::SetTopicConfigs { id, min_insync_replicas, unclean_leader_election, configs } => {
            out.put_u8(8);
            out.put_slice(&id.0.0);
            put_settings(out, *min_insync_replicas, *unclean_leader_election, configs);
        }
    }
}

fn put_settings(
    out: &mut BytesMut,
    min_insync_replicas: u16,
    unclean_leader_election: bool,
    configs: &[(String, String)],
) {
    put_unsigned(out, u64::from(min_insync_replicas));
    out.put_u8(u8::from(unclean_leader_election));
    put_unsigned(out, configs.len() as u64);
    for (key, value) in configs {
        put_string(out, key);
        put_string(out, value);
    }
}

fn put_unsigned(out: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

fn put_signed(out: &mut BytesMut, value: i64) {
    put_unsigned(out, ((value << 1) ^ (value >> 63)) as u64);
}

fn put_string(out: &mut BytesMut, value: &str) {
    put_unsigned(out, value.len() as u64);
    out.put_slice(value.as_bytes());
}

fn put_brokers(out: &mut BytesMut, ids: &[BrokerId]) {
    put_unsigned(out, ids.len() as u64);
    for id in ids {
        put_signed(out, id.0.into());
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], CodecError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(CodecError::End)?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, CodecError> {
        Ok(self.take(1)?[0])
    }

    fn unsigned(&mut self) -> Result<u64, CodecError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(CodecError::Field("varint"))
    }

    fn signed(&mut self) -> Result<i64, CodecError> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn int32(&mut self, field: &'static str) -> Result<i32, CodecError> {
        i32::try_from(self.signed()?).map_err(|_| CodecError::Field(field))
    }

    fn uint16(&mut self, field: &'static str) -> Result<u16, CodecError> {
        u16::try_from(self.unsigned()?).map_err(|_| CodecError::Field(field))
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, CodecError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(CodecError::Field(field)),
        }
    }

    fn string(&mut self, field: &'static str) -> Result<String, CodecError> {
        let len = usize::try_from(self.unsigned()?).map_err(|_| CodecError::End)?;
        String::from_utf8(self.take(len)?.to_vec()).map_err(|_| CodecError::Field(field))
    }

    /// How many elements follow; each takes at least one byte, so a count that lies reserves nothing.
    fn count(&mut self) -> Result<usize, CodecError> {
        let count = usize::try_from(self.unsigned()?).map_err(|_| CodecError::End)?;
        if count > self.rest.len() { Err(CodecError::End) } else { Ok(count) }
    }

    fn topic(&mut self) -> Result<TopicId, CodecError> {
        Ok(TopicId(Uuid(self.take(16)?.try_into().expect("16 bytes were taken"))))
    }

    fn broker(&mut self) -> Result<BrokerId, CodecError> {
        Ok(BrokerId(self.int32("broker")?))
    }

    fn brokers(&mut self) -> Result<Vec<BrokerId>, CodecError> {
        let count = self.count()?;
        (0..count).map(|_| self.broker()).collect()
    }

    #[allow(clippy::type_complexity)]
    fn settings(&mut self) -> Result<(u16, bool, Vec<(String, String)>), CodecError> {
        let min_insync_replicas = self.uint16("min_insync_replicas")?;
        let unclean_leader_election = self.flag("unclean_leader_election")?;
        let count = self.count()?;
        let configs: Result<_, CodecError> =
            (0..count).map(|_| Ok((self.string("config")?, self.string("config")?))).collect();
        Ok((min_insync_replicas, unclean_leader_election, configs?))
    }

    fn record(&mut self) -> Result<Record, CodecError> {
        let record = match self.byte()? {
            1 => Record::RegisterBroker {
                id: self.broker()?,
                incarnation: Incarnation(self.signed()?),
                host: self.string("host")?,
                port: self.uint16("port")?,
            },
            2 => Record::FenceBroker { id: self.broker()? },
            3 => Record::UnfenceBroker { id: self.broker()? },
            4 => {
                let id = self.topic()?;
                let name = self.string("name")?;
                let (min_insync_replicas, unclean_leader_election, configs) = self.settings()?;
                Record::CreateTopic { id, name, min_insync_replicas, unclean_leader_election, configs }
            }
            5 => Record::DeleteTopic { id: self.topic()? },
            tag @ (6 | 9) => {
                let (topic, index) = (self.topic()?, self.int32("index")?);
                let mut state = PartitionState {
                    replicas: self.brokers()?,
                    isr: self.brokers()?,
                    elr: self.brokers()?,
                    leader: Some(self.broker()?).filter(|id| id.0 >= 0),
                    leader_epoch: LeaderEpoch(self.int32("leader_epoch")?),
                    partition_epoch: PartitionEpoch(self.int32("partition_epoch")?),
                    adding: Vec::new(),
                    removing: Vec::new(),
                };
                if tag == 9 {
                    state.adding = self.brokers()?;
                    state.removing = self.brokers()?;
                }
                Record::SetPartition { topic, index, state }
            }
            7 => Record::ProducerIds { next: self.signed()? },
            8 => {
                let id = self.topic()?;
                let (min_insync_replicas, unclean_leader_election, configs) = self.settings()?;
                Record::SetTopicConfigs { id, min_insync_replicas, unclean_leader_election, configs }
            }
            10 => Record::UnregisterBroker { id: self.broker()?, incarnation: None },
            11 => Record::UnregisterBroker {
                id: self.broker()?,
                incarnation: Some(Incarnation(self.signed()?)),
            },
            other => return Err(CodecError::Tag(other)),
        };
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Record> {
        let topic = TopicId(Uuid([7; 16]));
        let state = PartitionState {
            replicas: vec![BrokerId(1), BrokerId(2)],
            isr: vec![BrokerId(2)],
            elr: vec![],
            adding: vec![],
            removing: vec![],
            leader: None,
            leader_epoch: LeaderEpoch(5),
            partition_epoch: PartitionEpoch(70_000),
        };
        vec![
            Record::RegisterBroker {
                id: BrokerId(1),
                incarnation: Incarnation(i64::MAX),
                host: "10.0.0.1".to_owned(),
                port: 9092,
            },
            Record::FenceBroker { id: BrokerId(300) },
            Record::UnfenceBroker { id: BrokerId(0) },
            Record::CreateTopic {
                id: topic,
                name: "orders".to_owned(),
                min_insync_replicas: 2,
                unclean_leader_election: true,
                configs: vec![("min.insync.replicas".to_owned(), "2".to_owned())],
            },
            Record::SetPartition { topic, index: 3, state: state.clone() },
            Record::SetPartition {
                topic,
                index: 4,
                state: PartitionState { adding: vec![BrokerId(2)], removing: vec![BrokerId(9)], ..state },
            },
            Record::SetTopicConfigs {
                id: topic,
                min_insync_replicas: 1,
                unclean_leader_election: false,
                configs: vec![("retention.ms".to_owned(), "-1".to_owned())],
            },
            Record::DeleteTopic { id: topic },
            Record::UnregisterBroker { id: BrokerId(4), incarnation: None },
            Record::UnregisterBroker { id: BrokerId(5), incarnation: Some(Incarnation(8)) },
            Record::ProducerIds { next: 1 << 40 },
        ]
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(decode(&encode(&samples())), Ok(samples()));
        assert_eq!(decode(&encode(&[])), Ok(vec![]));
    }

    #[test]
    fn cut_or_changed_bytes_are_refused_or_read_but_never_panic() {
        let whole = encode(&samples());
        for end in 0..whole.len() {
            if let Ok(read) = decode(&whole[..end]) {
                assert_eq!(read, samples()[..read.len()], "cut at {end}");
            }
        }
        for at in 0..whole.len() {
            for mask in [1, 0x80, 0xff] {
                let mut changed = whole.to_vec();
                changed[at] ^= mask;
                let _ = decode(&changed);
            }
        }
        assert_eq!(decode(&[2]), Err(CodecError::Version(2)));
        assert_eq!(decode(&[1, 99]), Err(CodecError::Tag(99)));
    }
}
