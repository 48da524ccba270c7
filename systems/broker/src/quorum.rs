//! This broker in the metadata quorum, as a voter or as an observer, and the image that the committed entries add up to.

use crate::config::{BrokerConfig, MAX_OBSERVERS};
use crate::ids::BrokerId;
use crate::metadata::{Image, Record, decode, encode};
use bytes::Bytes;
use riprap_coord::{Config, Index, Message, NodeId, OpenError, ProposeError, Raft, Term};
use riprap_env::{Disk, DiskError, Env, log};

/// Where the quorum's log lies on the disk.
const DIR: &str = "quorum";

/// The log is cut in files, and a snapshot removes whole ones: a snapshot is to leave less than it removes.
const FILES_PER_LOG: u64 = 4;

/// A voter, or an observer, and its image.
#[derive(Debug)]
pub(crate) struct Quorum {
    raft: Raft,
    image: Image,
    applied: Index,
    compact_above_bytes: u64,
}

/// What a settle brought.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// The image changed.
    pub(crate) changed: bool,
    /// To send, each to its voter or observer.
    pub(crate) messages: Vec<(BrokerId, Bytes)>,
}

impl Quorum {
    /// Whether no quorum's log was ever on this disk.
    pub(crate) fn is_unborn(disk: &mut dyn Disk) -> Result<bool, DiskError> {
        Ok(disk.list(DIR)?.is_empty())
    }

    pub(crate) fn open(config: &BrokerConfig, env: &mut dyn Env, now_ns: u64) -> Result<Quorum, OpenError> {
        let voters = config.brokers.keys().map(|id| NodeId(id.0)).collect();
        let mut raft = Config::new(NodeId(config.id.0), voters);
        raft.election_timeout_ns = config.election_timeout_ms * 1_000_000;
        raft.heartbeat_interval_ns = config.quorum_heartbeat_ms * 1_000_000;
        raft.max_observers = MAX_OBSERVERS;
        raft.segment_bytes = config.quorum_log_bytes / FILES_PER_LOG;
        let raft = Raft::open(raft, env, DIR, now_ns)?;
        Ok(Quorum {
            raft,
            image: Image::default(),
            applied: Index(0),
            compact_above_bytes: config.quorum_log_bytes,
        })
    }

    /// Takes in a message. Bytes that are none are dropped: they came from no voter.
    pub(crate) fn receive(&mut self, now_ns: u64, from: BrokerId, bytes: &[u8], env: &mut dyn Env) {
        // Entries are kept in memory for long, and would pin the frame that they came in.
        match Message::decode(Bytes::copy_from_slice(bytes)) {
            Ok(message) => self.raft.step(now_ns, NodeId(from.0), message, env),
            Err(e) => {
                log!(env, Warn, "quorum: drops a message from broker {from}: {e}")
            }
        }
    }

    pub(crate) fn tick(&mut self, now_ns: u64, env: &mut dyn Env) {
        if self.raft.wake_at_ns() <= now_ns {
            self.raft.tick(now_ns, env);
        }
    }

    pub(crate) fn wake_at_ns(&self) -> u64 {
        self.raft.wake_at_ns()
    }

    /// Puts records at the end of the log; they are agreed on once [`applied`](Quorum::applied) reaches the index that
    /// is returned, if this broker has led all the time in between.
    pub(crate) fn propose(&mut self, records: &[Record]) -> Result<Index, ProposeError> {
        self.raft.propose(encode(records)).map(|(_, index)| index)
    }

    /// Makes durable what has to be and applies what is agreed on.
    pub(crate) fn settle(&mut self, now_ns: u64, env: &mut dyn Env) -> Result<Settled, DiskError> {
        let ready = self.raft.settle(now_ns, env)?;
        let mut settled = Settled::default();
        if let Some(snapshot) = ready.snapshot {
            self.image = Image::default();
            self.apply(&snapshot.data, snapshot.index, env);
            settled.changed = true;
        }
        for entry in ready.committed {
            if !entry.payload.is_empty() {
                self.apply(&entry.payload, entry.index, env);
                settled.changed = true;
            }
            self.applied = entry.index;
        }
        let encoded = ready.messages.into_iter().map(|(to, message)| (BrokerId(to.0), message.encode()));
        settled.messages = encoded.collect();
        if self.raft.log_bytes() > self.compact_above_bytes && self.applied > self.raft.snapshot_index() {
            log!(env, Debug, "quorum: takes a snapshot up to {}", self.applied);
            let compacted = self.raft.compact(self.applied, encode(&self.image.to_records()));
            if let Err(e) = compacted {
                log!(env, Error, "quorum: the log grows on: {e}");
            }
        }
        Ok(settled)
    }

    fn apply(&mut self, payload: &[u8], index: Index, env: &mut dyn Env) {
        match decode(payload) {
            Ok(records) => records.iter().for_each(|record| self.image.apply(record)),
            Err(e) => {
                log!(env, Error, "quorum: entry {index} has no effect on any broker: {e}");
            }
        }
        self.applied = index;
    }

    /// What the cluster agreed on, as far as this broker knows.
    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    /// The last entry that the image includes.
    pub(crate) fn applied(&self) -> Index {
        self.applied
    }

    /// The controller, as far as this broker knows.
    pub(crate) fn leader(&self) -> Option<BrokerId> {
        self.raft.leader().map(|id| BrokerId(id.0))
    }

    /// The observers that are sent the log, where this broker leads.
    pub(crate) fn observers(&self) -> impl Iterator<Item = BrokerId> + '_ {
        self.raft.observers().map(|id| BrokerId(id.0))
    }

    /// The term in which this broker is the controller and may act as such.
    pub(crate) fn leads_in(&self) -> Option<Term> {
        self.raft.leader_is_ready().then(|| self.raft.term())
    }
}
