//! Connections break.

use crate::ONE_TO_ALL;
use riprap_core::cluster::{Cluster, ClusterError, NodeId};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Map, Value as Json, json};

static INFO: FaultInfo = FaultInfo {
    name: "reset",
    doc: "Every connection of some nodes breaks, with what was on its way; both sides hear of it and may connect again at once. \
          How many broke is told; a node that has none is left as it is. In simulation only. Finds systems that take a broken connection for a refusal, or a new one for the old.",
    strike_f: "reset",
    heal_f: "after-reset",
    live: false,
    shapes: ONE_TO_ALL,
};

pub(crate) struct Reset;

impl Fault for Reset {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        crate::aim(shape, nodes, random)
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let mut evidence = Map::new();
        for node in crate::nodes(aim)? {
            evidence.insert(node.to_string(), cluster.reset(node)?.into());
        }
        Ok(Effect { took_effect: true, evidence: Json::Object(evidence) })
    }

    /// Nothing is left of it.
    fn heal(&self, _: &dyn Cluster) -> Result<Effect, ClusterError> {
        Ok(Effect { took_effect: true, evidence: json!({}) })
    }
}
