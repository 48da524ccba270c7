//! Machines lose their power, and what their disks had not made durable.

use crate::ONE_TO_ALL;
use riprap_core::cluster::{Cluster, ClusterError, NodeId, NodeState};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::Value as Json;

static INFO: FaultInfo = FaultInfo {
    name: "power-loss",
    doc: "The machines of some nodes lose their power: processes end, and of what was written and not synced each piece is \
          lost, torn, zeroed or kept, as the seed has it. Healed by starting the nodes again. In simulation only. Finds \
          systems that acknowledge before they sync, or that cannot read what a torn write leaves.",
    strike_f: "power-loss",
    heal_f: "power-on",
    live: false,
    min_copies: 1,
    shapes: ONE_TO_ALL,
};

pub(crate) struct PowerLoss;

impl Fault for PowerLoss {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        crate::aim(shape, nodes, random)
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let nodes = crate::nodes(aim)?;
        for node in &nodes {
            cluster.power_fail(*node)?;
        }
        crate::observe(cluster, &nodes, |state| matches!(state, NodeState::Down(_)))
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        crate::kill::Kill.heal(cluster)
    }
}
