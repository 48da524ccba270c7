//! What was sent arrives long after its sender gave up.

use crate::links::{self, LINKS};
use riprap_core::cluster::{Cluster, ClusterError, Links, NodeId, PerLink};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

static INFO: FaultInfo = FaultInfo {
    name: "hold",
    doc: "What is sent to some nodes on the connections that stand waits, as in a queue or behind a lost packet, and \
          arrives when it is let go, though its sender may have timed out and asked again on another connection: on all of \
          them, on those with other nodes, or on those with clients. Proved by how many of either kind wait, and on real \
          nodes by a connection of the harness's own over each link, which is held with the others; a node that has none is left \
          as it is. Finds what a request does that comes too late: a produce after its \
          transaction, an end of a transaction after the next has begun.",
    strike_f: "hold",
    heal_f: "let-go",
    min_copies: 1,
    shapes: LINKS,
};

pub(crate) struct Hold;

impl Fault for Hold {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        links::aim(shape, nodes, random)
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let nodes: BTreeSet<NodeId> = crate::nodes(aim)?.into_iter().collect();
        let links = links::of(aim)?;
        let held = cluster.hold(&nodes, links)?;
        // A node that another fault has ended has no connections.
        Ok(Effect {
            took_effect: links::spared(links, &held),
            evidence: json!({"connections": links::told(held)}),
        })
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        let held = cluster.hold(&BTreeSet::new(), Links::All)?;
        Ok(Effect {
            took_effect: held == PerLink::default(),
            evidence: json!({"connections": links::told(held)}),
        })
    }
}
