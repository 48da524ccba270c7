//! What a node must know before it starts.

use crate::types::NodeId;

/// Most voters: each message and each commit looks at all of them.
const MAX_VOTERS: usize = 99;

/// The knobs of a [`Raft`](crate::Raft).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// This node.
    pub id: NodeId,
    /// All voters; the same on every node and for the life of the cluster. A node that is not among them is an observer.
    pub voters: Vec<NodeId>,
    /// A follower waits this long and a random part of the same again before it asks for votes; a leader that heard no
    /// majority for this long steps down; votes are refused for this long after a leader was heard.
    pub election_timeout_ns: u64,
    /// How often a leader that has nothing to say says so.
    pub heartbeat_interval_ns: u64,
    /// Most entries in one message.
    pub max_entries_per_message: usize,
    /// Most payload bytes in one message (a single larger entry still goes alone), and the size of a snapshot's chunks.
    pub max_bytes_per_message: usize,
    /// Most messages with entries on their way to one follower: bounds what piles up in front of a dead connection.
    pub max_inflight_messages: usize,
    /// Most entries that were proposed and are not yet committed: a leader without a majority must not fill its memory.
    pub max_uncommitted_entries: usize,
    /// Largest snapshot that is taken from a leader.
    pub max_snapshot_bytes: usize,
    /// Most observers that a leader sends its log to: each is sent all of it.
    pub max_observers: usize,
    /// A log file past this size is followed by a new one; compaction removes whole files.
    pub segment_bytes: u64,
}

impl Config {
    /// Timeouts for a live cluster whose nodes share a busy machine.
    pub fn new(id: NodeId, voters: Vec<NodeId>) -> Config {
        Config {
            id,
            voters,
            election_timeout_ns: 600_000_000,
            heartbeat_interval_ns: 100_000_000,
            max_entries_per_message: 1024,
            max_bytes_per_message: 1 << 20,
            max_inflight_messages: 16,
            max_uncommitted_entries: 16 * 1024,
            max_snapshot_bytes: 256 << 20,
            max_observers: 64,
            segment_bytes: 1 << 20,
        }
    }

    /// How many voters decide.
    pub(crate) fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// Whether this node is no voter.
    pub(crate) fn is_observer(&self) -> bool {
        !self.voters.contains(&self.id)
    }

    /// The voters but this node.
    pub(crate) fn peers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.voters.iter().copied().filter(|id| *id != self.id)
    }

    /// Says what is wrong with it, if anything.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let mut sorted = self.voters.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() != self.voters.len() {
            return Err(format!("voters {:?} name a node twice", self.voters));
        }
        if self.voters.is_empty() {
            return Err("there are no voters; at least 1".to_owned());
        }
        if self.voters.len() > MAX_VOTERS {
            return Err(format!("{} voters; at most {MAX_VOTERS}", self.voters.len()));
        }
        if self.heartbeat_interval_ns == 0 || self.heartbeat_interval_ns >= self.election_timeout_ns {
            return Err(format!(
                "heartbeat_interval_ns {} must be above 0 and below election_timeout_ns {}",
                self.heartbeat_interval_ns, self.election_timeout_ns
            ));
        }
        let limits = [
            ("max_entries_per_message", self.max_entries_per_message),
            ("max_bytes_per_message", self.max_bytes_per_message),
            ("max_inflight_messages", self.max_inflight_messages),
            ("max_uncommitted_entries", self.max_uncommitted_entries),
        ];
        match limits.iter().find(|(_, limit)| *limit == 0) {
            Some((name, _)) => Err(format!("{name} is 0; at least 1")),
            None => Ok(()),
        }
    }
}
