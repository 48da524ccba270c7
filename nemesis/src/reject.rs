//! Connections are refused.

use crate::links::{self, LINKS};
use riprap_core::cluster::{Cluster, ClusterError, Links, NodeId, Spread};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::Value as Json;
use std::collections::BTreeSet;

static INFO: FaultInfo = FaultInfo {
    name: "reject",
    doc: "Some nodes refuse what is sent to them over TCP, as behind a firewall that was set up wrongly: by everybody, by other \
          nodes or by clients. Who opens a connection is told at once that nobody listens; one that stands stalls, and so does one \
          that the node opens itself, since the answer is dropped; after the heal they go on. Proved by a connection over each \
          link, to somebody who listens in the node's place: just those of the links that were struck must be refused. Real \
          nodes only. Finds clients and brokers that take a refusal for the end of a node, or try again without a pause.",
    strike_f: "reject",
    heal_f: "heal-reject",
    min_copies: 1,
    shapes: LINKS,
};

pub(crate) struct Reject;

impl Fault for Reject {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn strikes_simulated(&self) -> bool {
        false
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        links::aim(shape, nodes, random)
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let (nodes, links) = (crate::nodes(aim)?, links::of(aim)?);
        cluster.refuse(&nodes.iter().copied().collect(), links)?;
        let refused = |read: Spread| read.least == 1;
        Ok(links::prove(Some(links), &nodes, &cluster.refusals(&nodes)?, refused, is_sound))
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        cluster.refuse(&BTreeSet::new(), Links::All)?;
        let nodes = cluster.nodes();
        Ok(links::prove(None, &nodes, &cluster.refusals(&nodes)?, is_sound, is_sound))
    }
}

fn is_sound(read: Spread) -> bool {
    read.most == 0
}
