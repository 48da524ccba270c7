//! The nodes of a system and what can be done to them: the one thing that live runs and simulation implement
//! differently. A fault acts through this trait and does not know which of the two it acts on.

use crate::op::Process;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use thiserror::Error;

/// A node, numbered from 1 and named `n1`, `n2`, ...
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct NodeId(pub u16);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

impl NodeId {
    /// The node of that name.
    pub fn from_name(name: &str) -> Option<NodeId> {
        name.strip_prefix('n')?.parse().ok().map(NodeId)
    }

    /// The first `n` nodes.
    pub fn first(n: u16) -> Vec<NodeId> {
        (1..=n).map(NodeId).collect()
    }
}

/// What a node is in its cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// It keeps records, and clients reach it.
    Broker,
    /// It keeps what the cluster knows of itself, and no more.
    Controller,
    /// It keeps what brokers have no place of their own for, and no client reaches it.
    Storage,
}

impl Role {
    /// All, with their names as in `kill:controller`.
    pub const NAMES: &[(&str, Role)] =
        &[("broker", Role::Broker), ("controller", Role::Controller), ("storage", Role::Storage)];

    /// The role of that name.
    pub fn from_name(name: &str) -> Option<Role> {
        Role::NAMES.iter().find(|(known, _)| *known == name).map(|(_, role)| *role)
    }
}

/// What a node's process is doing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum NodeState {
    /// It runs.
    Running,
    /// It is stopped by a signal and will go on where it was.
    Paused,
    /// There is no process; how the last one ended.
    Down(String),
}

/// The harness could not do to the cluster what it was asked to do: never a fault of the system under test.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0}")]
pub struct ClusterError(pub String);

/// An end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum End {
    /// A node.
    Node(NodeId),
    /// All clients, and whoever else is no node.
    Clients,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Node(node) => node.fmt(f),
            End::Clients => f.write_str("clients"),
        }
    }
}

impl From<NodeId> for End {
    fn from(node: NodeId) -> End {
        End::Node(node)
    }
}

impl End {
    /// The end of that name: a node's, or `clients`.
    pub fn from_name(name: &str) -> Option<End> {
        if name == "clients" { Some(End::Clients) } else { NodeId::from_name(name).map(End::Node) }
    }
}

/// A direction of the network: from, to.
pub type Link = (End, End);

/// Which links of a node are meant: by who is at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Links {
    /// All.
    All,
    /// Those with other nodes.
    Peers,
    /// Those with whoever is no node.
    Clients,
}

/// Something about a node's links of both kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PerLink<T> {
    /// About those with other nodes.
    pub peers: T,
    /// About those with whoever is no node.
    pub clients: T,
}

/// The least and the most of what was read on several links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spread {
    /// The least.
    pub least: u64,
    /// The most.
    pub most: u64,
}

impl Spread {
    /// Of what was read; none of nothing.
    pub fn of(read: impl IntoIterator<Item = u64>) -> Option<Spread> {
        read.into_iter().fold(None, |spread, value| {
            let Spread { least, most } = spread.unwrap_or(Spread { least: value, most: value });
            Some(Spread { least: least.min(value), most: most.max(value) })
        })
    }
}

/// What was read on a node's links of either kind; none where it has no such links.
pub type Reading = PerLink<Option<Spread>>;

/// How much longer what is sent takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delay {
    /// At least. Units: milliseconds.
    pub ms: u64,
    /// So much more at most, drawn anew for each packet. Units: milliseconds.
    pub jitter_ms: u64,
}

/// What was read of delays on a node's links of either kind. Units: milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DelayReading {
    /// How much longer what comes soonest takes.
    pub delay: Reading,
    /// How much longer than that what comes last takes.
    pub jitter: Reading,
}

/// What is read of the rate of a link that has no limit.
pub const UNLIMITED: u64 = u64::MAX;

/// A bit that has flipped on a disk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlippedBit {
    /// The file.
    pub path: String,
    /// Which of its bytes.
    pub offset: u64,
    /// The byte before.
    pub was: u8,
    /// The byte as it reads now.
    pub is: u8,
}

/// A file whose tail is gone. Units: bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CutFile {
    /// The file.
    pub path: String,
    /// How long it was.
    pub was_bytes: u64,
    /// How long it is.
    pub is_bytes: u64,
}

/// The most that is cut off a file at once. Units: bytes.
pub const MAX_CUT_BYTES: u64 = 16 << 10;

/// What a draw makes of files with these lengths: which of them is cut, and to which length. `None`: there are none.
pub fn draw_cut(lengths: &[u64], draw: u64) -> Option<(usize, u64)> {
    let count = lengths.len() as u64;
    let number = draw.checked_rem(count)?;
    let len = lengths[number as usize];
    let cut = 1 + (draw / count) % len.min(MAX_CUT_BYTES);
    Some((number as usize, len - cut))
}

/// What a disk lost when its power failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Lost {
    /// Writes and cuts of files that are gone, wholly or in part.
    pub writes: u64,
    /// What of the writes is gone. Units: bytes.
    pub bytes: u64,
    /// Names that are as they had been before they were created, renamed or removed.
    pub names: u64,
}

/// A change of the cluster's members, by an administrator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberChange {
    /// A node takes over copies of others, as is drawn.
    Join {
        /// The node.
        node: NodeId,
        /// Which copies.
        draw: u64,
    },
    /// What a node has goes to others, and it is a member no longer.
    Leave {
        /// The node.
        node: NodeId,
    },
}

/// A node's turn where nodes are ended in order and started again, one after another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Turn {
    /// It did not run, for another fault had seen to that: it is left as it is.
    PassedOver {
        /// What it was instead.
        was: String,
    },
    /// A new process took the place of its old one.
    Restarted {
        /// The old process' id.
        was_pid: i32,
        /// How that ended.
        ended: String,
        /// The new process' id.
        pid: i32,
        /// What it runs, if that is another version than at first: read from the process itself.
        runs: Option<String>,
        /// How long the node then took to serve; `None` if it did not while somebody waited. Units: milliseconds.
        serves_after_ms: Option<u64>,
    },
}

/// Why nodes are ended in order and started again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Roll {
    /// For its own sake.
    Restart,
    /// To go on as another version: from its turn on, a node is always started as that.
    Upgrade,
}

/// The turns that nodes had, in order.
pub type Turns = Vec<(NodeId, Turn)>;

/// A client that has died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeadClient {
    /// The process that it ran as, which is over.
    pub process: Process,
    /// The op that it had under way, by its index.
    pub op: Option<u64>,
}

/// A running cluster.
pub trait Cluster {
    /// Its nodes, in order.
    fn nodes(&self) -> Vec<NodeId>;

    /// Starts a node's process. No error if it runs already.
    fn start(&self, node: NodeId) -> Result<(), ClusterError>;

    /// Ends a node's process at once, without a chance to clean up. No error if there is none.
    fn kill(&self, node: NodeId) -> Result<(), ClusterError>;

    /// Has nodes end in order and start again, one after another, each when the one before serves again or has had its time
    /// for that. Returns when the first was started again, with the turns so far; the others follow by themselves, until
    /// [`Cluster::end_roll`] is called. One roll of each kind goes on at most.
    fn roll(&self, _roll: Roll, _nodes: &[NodeId]) -> Result<Turns, ClusterError> {
        Err(only_real("end in order"))
    }

    /// Has no further node end of those that are still to come. Returns the turns that there were.
    fn end_roll(&self, _roll: Roll) -> Result<Turns, ClusterError> {
        Err(only_real("end in order"))
    }

    /// How many clients act at once.
    fn clients(&self) -> u32 {
        0
    }

    /// Has clients die, told by the numbers of their threads, with what they have under way; new ones take their places.
    /// Returns those that are gone, in order.
    fn crash_clients(&self, _threads: &BTreeSet<u32>) -> Result<Vec<DeadClient>, ClusterError> {
        Err(ClusterError("no clients of this cluster can be reached".to_owned()))
    }

    /// Stops a node's process in its tracks.
    fn pause(&self, node: NodeId) -> Result<(), ClusterError>;

    /// Lets a paused node go on.
    fn resume(&self, node: NodeId) -> Result<(), ClusterError>;

    /// What the node's process is doing, as the operating system sees it, not as it was last told.
    fn state(&self, node: NodeId) -> Result<NodeState, ClusterError>;

    /// Replaces the set of cut links: nothing passes over these, everything over all others.
    fn cut(&self, links: &BTreeSet<Link>) -> Result<(), ClusterError>;

    /// Tries each link with real traffic: whether something sent from its first end arrives at its second.
    fn reaches(&self, links: &[Link]) -> Result<Vec<bool>, ClusterError>;

    /// The machine of a node loses its power: its process ends, and what it had not made durable is lost, torn or kept.
    fn power_fail(&self, _node: NodeId) -> Result<Lost, ClusterError> {
        Err(only_simulated("lose their power"))
    }

    /// How far the node's wall clock is from the true time. Units: milliseconds.
    fn clock_offset_ms(&self, _node: NodeId) -> Result<i64, ClusterError> {
        Err(only_simulated("have clocks of their own"))
    }

    /// Moves the node's wall clock to be so far from the true time. Units: milliseconds.
    fn set_clock_offset_ms(&self, _node: NodeId, _offset_ms: i64) -> Result<(), ClusterError> {
        Err(only_simulated("have clocks of their own"))
    }

    /// Has the node's wall clock go that far off and be right again in turn, each for so long, until it is set. Units:
    /// milliseconds.
    fn strobe_clock(&self, _node: NodeId, _offset_ms: i64, _every_ms: u64) -> Result<(), ClusterError> {
        Err(only_simulated("have clocks of their own"))
    }

    /// How far off the node's wall clock is in the course of one turn and the next. Units: milliseconds.
    fn clock_offsets_seen_ms(&self, _node: NodeId) -> Result<BTreeSet<i64>, ClusterError> {
        Err(only_simulated("have clocks of their own"))
    }

    /// How many times as long as a whole disk's the node's syncs take.
    fn disk_slowness(&self, _node: NodeId) -> Result<u64, ClusterError> {
        Err(only_simulated("have disks that can be slowed down"))
    }

    /// Makes the node's syncs take so many times as long; 1 is as they were.
    fn slow_disk(&self, _node: NodeId, _factor: u64) -> Result<(), ClusterError> {
        Err(only_simulated("have disks that can be slowed down"))
    }

    /// How much more the node's disk takes; `None` if nobody has limited it. Units: bytes.
    fn disk_room(&self, _node: NodeId) -> Result<Option<u64>, ClusterError> {
        Ok(None)
    }

    /// Leaves so much room on the node's disk, or lifts the limit. Units: bytes.
    fn set_disk_room(&self, _node: NodeId, _room: Option<u64>) -> Result<(), ClusterError> {
        Err(only_simulated("have disks that can be filled"))
    }

    /// Flips a bit of what the node's disk holds; what is drawn says which. `None`: it holds nothing.
    fn flip_bit(&self, _node: NodeId, _draw: u64) -> Result<Option<FlippedBit>, ClusterError> {
        Err(only_simulated("have disks that rot"))
    }

    /// Cuts off the tail of a file that the disk of a stopped node holds; what is drawn says which file and how much. `None`: it
    /// holds nothing.
    fn cut_tail(&self, _node: NodeId, _draw: u64) -> Result<Option<CutFile>, ClusterError> {
        Err(only_simulated("have files that can be cut short"))
    }

    /// Whether bits have flipped on the node's disk, or are gone.
    fn disk_has_rotted(&self, _node: NodeId) -> Result<bool, ClusterError> {
        Ok(false)
    }

    /// Gives the node an empty disk; its process, if there is one, ends at once.
    fn replace_disk(&self, _node: NodeId) -> Result<(), ClusterError> {
        Err(only_simulated("have disks that can be replaced"))
    }

    /// A node that is none of the cluster's, and can join it.
    fn spare(&self) -> Option<NodeId> {
        None
    }

    /// Has an administrator change the cluster's members. It takes time, and goes on until it is done or another change is
    /// asked for.
    fn change_members(&self, _change: MemberChange) -> Result<(), ClusterError> {
        Err(ClusterError("no node can join this cluster".to_owned()))
    }

    /// How far the last change is, in words; empty if there was none.
    fn members_told(&self) -> Result<String, ClusterError> {
        Err(ClusterError("no node can join this cluster".to_owned()))
    }

    /// Replaces the nodes that are far away: all that is sent to them over these links takes so much longer, and what is sent
    /// on a connection keeps its order.
    fn delay(&self, _delays: &BTreeMap<NodeId, Delay>, _links: Links) -> Result<(), ClusterError> {
        Err(only_simulated("can be put far away"))
    }

    /// How much longer all that is sent to each of these nodes takes. Shape: one reading for each, in order.
    fn delays(&self, _nodes: &[NodeId]) -> Result<Vec<DelayReading>, ClusterError> {
        Err(only_simulated("can be put far away"))
    }

    /// Replaces the nodes whose packets are lost: so many of a hundred of those that they send and are sent over these links.
    fn lose(&self, _nodes: &BTreeSet<NodeId>, _links: Links, _percent: u8) -> Result<(), ClusterError> {
        Err(only_real("lose packets"))
    }

    /// How many of a hundred packets of each of these nodes are lost, in either direction. Shape: one reading for each, in
    /// order.
    fn losses_percent(&self, _nodes: &[NodeId]) -> Result<Vec<Reading>, ClusterError> {
        Err(only_real("lose packets"))
    }

    /// Replaces the nodes whose links are slow: what each sends over all of these together comes no faster, and neither does
    /// what it is sent. Units: bytes a second.
    fn limit(&self, _rates: &BTreeMap<NodeId, u64>, _links: Links) -> Result<(), ClusterError> {
        Err(only_real("have links with a rate"))
    }

    /// How much gets through on each of these nodes' links, in either direction, [`UNLIMITED`] where there is no limit. Shape:
    /// one reading for each, in order. Units: bytes a second.
    fn rates(&self, _nodes: &[NodeId]) -> Result<Vec<Reading>, ClusterError> {
        Err(only_real("have links with a rate"))
    }

    /// Replaces the nodes that refuse connections over these links.
    fn refuse(&self, _nodes: &BTreeSet<NodeId>, _links: Links) -> Result<(), ClusterError> {
        Err(only_real("refuse connections"))
    }

    /// Whether each of these nodes refuses a connection, by 1, or accepts it, by 0. Shape: one reading for each, in order.
    fn refusals(&self, _nodes: &[NodeId]) -> Result<Vec<Reading>, ClusterError> {
        Err(only_real("refuse connections"))
    }

    /// Replaces the nodes that hear nothing on the connections which they have now over these links: what is sent to them
    /// waits, and arrives when they are taken out again, though its sender may have given up. Connections that are made
    /// later work. Returns how many connections are held.
    fn hold(&self, _nodes: &BTreeSet<NodeId>, _links: Links) -> Result<PerLink<usize>, ClusterError> {
        Err(only_simulated("can be made deaf"))
    }

    /// Breaks every connection of a node over these links, of both sides' knowledge. Returns how many there were.
    fn reset(&self, _node: NodeId, _links: Links) -> Result<PerLink<usize>, ClusterError> {
        Err(only_simulated("have connections that can be broken"))
    }
}

fn only_real(what: &str) -> ClusterError {
    ClusterError(format!("only real nodes {what}"))
}

fn only_simulated(what: &str) -> ClusterError {
    ClusterError(format!("only simulated nodes {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_leaves_what_came_before_it() {
        let check = |lengths: &[u64], draw, expected| assert_eq!(draw_cut(lengths, draw), expected);
        check(&[], 7, None);
        check(&[1], 7, Some((0, 0)));
        check(&[10, 20], 0, Some((0, 9)));
        check(&[10, 20], 1, Some((1, 19)));
        check(&[10, 20], 2 * 19 + 1, Some((1, 0)));
        check(&[10, 20], 2 * 20 + 1, Some((1, 19)));
        check(&[1 << 20], MAX_CUT_BYTES - 1, Some((0, (1 << 20) - MAX_CUT_BYTES)));
    }
}
