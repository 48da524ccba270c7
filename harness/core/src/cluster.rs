//! The nodes of a system and what can be done to them: the one thing that live runs and simulation implement
//! differently. A fault acts through this trait and does not know which of the two it acts on.

use std::collections::BTreeSet;
use std::fmt;
use thiserror::Error;

/// A node, numbered from 1 and named `n1`, `n2`, ...
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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

/// What a node's process is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
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

/// A direction of the network: from, to.
pub type Link = (NodeId, NodeId);

/// A running cluster.
pub trait Cluster {
    /// Its nodes, in order.
    fn nodes(&self) -> Vec<NodeId>;

    /// Starts a node's process. No error if it runs already.
    fn start(&self, node: NodeId) -> Result<(), ClusterError>;

    /// Ends a node's process at once, without a chance to clean up. No error if there is none.
    fn kill(&self, node: NodeId) -> Result<(), ClusterError>;

    /// Stops a node's process in its tracks.
    fn pause(&self, node: NodeId) -> Result<(), ClusterError>;

    /// Lets a paused node go on.
    fn resume(&self, node: NodeId) -> Result<(), ClusterError>;

    /// What the node's process is doing, as the operating system sees it, not as it was last told.
    fn state(&self, node: NodeId) -> Result<NodeState, ClusterError>;

    /// Replaces the set of cut links: nothing passes over these, everything over all others.
    fn cut(&self, links: &BTreeSet<Link>) -> Result<(), ClusterError>;

    /// Tries each link with real traffic: whether something sent from its first node arrives at its second.
    fn reaches(&self, links: &[Link]) -> Result<Vec<bool>, ClusterError>;
}
