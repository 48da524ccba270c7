//! What a fault is: something that strikes, proves that it struck, and can be healed.
//!
//! A strike's targets and times are drawn from the seed before the run and stand in its [`Plan`](crate::plan::Plan):
//! the nemesis carries out what is planned and draws nothing. Each strike is probed. One that cannot be proved makes
//! the run's verdict `unknown`: a run in which nothing happened says nothing.

use crate::cluster::{Cluster, ClusterError, NodeId, Role};
use crate::seed::Stream;
use serde_json::Value as Json;

/// A shape that a fault can take: which nodes it hits.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// As in `kill:majority`.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// With fewer nodes the shape makes no sense.
    pub min_nodes: u16,
}

/// What a strike may be aimed at.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Only nodes of this role; all if none.
    pub role: Option<Role>,
    /// In this shape.
    pub shape: &'static Shape,
}

/// What the registry knows of a fault.
#[derive(Debug)]
pub struct FaultInfo {
    /// As in `--nemesis kill`.
    pub name: &'static str,
    /// One paragraph: what it does, how it is proved, what it cannot do.
    pub doc: &'static str,
    /// The `f` of the op that strikes.
    pub strike_f: &'static str,
    /// The `f` of the op that heals.
    pub heal_f: &'static str,
    /// With fewer copies of each key, what it destroys or takes away is lost by design.
    pub min_copies: u16,
    /// Without a shape each strike draws one of these.
    pub shapes: &'static [Shape],
}

/// What an op of the nemesis did.
#[derive(Clone, PartialEq, Debug)]
pub struct Effect {
    /// Whether a probe saw it.
    pub took_effect: bool,
    /// What the probe saw, for the history and the report.
    pub evidence: Json,
}

/// A kind of fault.
pub trait Fault: Sync {
    /// What the registry knows of it.
    fn info(&self) -> &'static FaultInfo;

    /// The nodes that it may strike in one run: all, unless what it does can be survived only if it meets the same ones each
    /// time.
    fn targets(&self, nodes: &[NodeId], _random: &mut Stream) -> Vec<NodeId> {
        nodes.to_vec()
    }

    /// Shapes that it takes only where a role is named, beside the others.
    fn shapes_of_roles(&self) -> &'static [Shape] {
        &[]
    }

    /// As [`Fault::aim`] for a named role: the nodes that have it, and the others.
    fn aim_at_role(&self, shape: &Shape, nodes: &[NodeId], _others: &[NodeId], random: &mut Stream) -> Json {
        self.aim(shape, nodes, random)
    }

    /// How long a strike on so many nodes is left to work: as drawn, of `most_ms` at most, but longer if they have to have
    /// their turns meanwhile. Units: milliseconds.
    fn held_ms(&self, drawn_ms: u64, _most_ms: u64, _nodes: usize) -> u64 {
        drawn_ms
    }

    /// Why it is left out unless it is asked for by its name, if it is.
    fn only_by_name(&self) -> Option<&'static str> {
        None
    }

    /// Whether it strikes no more than once in a run.
    fn strikes_once(&self) -> bool {
        false
    }

    /// Whether it needs another version of the system to go to.
    fn needs_upgrade(&self) -> bool {
        false
    }

    /// Whether it can strike simulated nodes: none can of what happens to packets, for a simulated network has connections
    /// and no packets.
    fn strikes_simulated(&self) -> bool {
        true
    }

    /// Whether it strikes nodes or links of theirs. One that does not can strike where nodes are left alone.
    fn strikes_nodes(&self) -> bool {
        true
    }

    /// Whether it strikes a node that is none of the cluster's at first.
    fn needs_spare(&self) -> bool {
        false
    }

    /// Whether real nodes need disks of the run's own for it, which forget, fill and slow down as they are told.
    fn needs_disks(&self) -> bool {
        false
    }

    /// Whether real nodes need clocks of their own for it.
    fn needs_clocks(&self) -> bool {
        false
    }

    /// Draws one strike: everything that [`Fault::strike`] needs, explicit, so that a plan can be replayed.
    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json;

    /// Strikes as aimed and probes. Errors: the harness could not do it.
    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError>;

    /// Takes away everything that this fault did, and probes that it is gone.
    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError>;
}
