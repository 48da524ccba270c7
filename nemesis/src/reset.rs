//! Connections break.

use crate::links::{self, LINKS};
use riprap_core::cluster::{Cluster, ClusterError, NodeId};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Map, Value as Json, json};

static INFO: FaultInfo = FaultInfo {
    name: "reset",
    doc: "Connections of some nodes break, with what was on its way: all of them, those with other nodes, or those with \
          clients. Both sides hear of it and may connect again at once. Proved by how many of either kind broke; a node that \
          has none is left as it is. Finds systems that take a broken connection for a refusal, or a new \
          one for the old.",
    strike_f: "reset",
    heal_f: "after-reset",
    min_copies: 1,
    shapes: LINKS,
};

pub(crate) struct Reset;

impl Fault for Reset {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        links::aim(shape, nodes, random)
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let links = links::of(aim)?;
        let mut evidence = Map::new();
        let mut took_effect = true;
        for node in crate::nodes(aim)? {
            let broken = cluster.reset(node, links)?;
            took_effect &= links::spared(links, &broken);
            evidence.insert(node.to_string(), links::told(broken));
        }
        Ok(Effect { took_effect, evidence: Json::Object(evidence) })
    }

    /// Nothing is left of it.
    fn heal(&self, _: &dyn Cluster) -> Result<Effect, ClusterError> {
        Ok(Effect { took_effect: true, evidence: json!({}) })
    }
}
