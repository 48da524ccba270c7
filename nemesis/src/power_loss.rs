//! Machines lose their power, and what their disks had not made durable.

use crate::ONE_TO_ALL;
use riprap_core::cluster::{Cluster, ClusterError, Lost, NodeId, NodeState};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Value as Json, json};

static INFO: FaultInfo = FaultInfo {
    name: "power-loss",
    doc: "The machines of some nodes lose their power: processes end, and of what was written and not synced each piece is \
          lost, torn, zeroed or kept, as the seed has it; of real nodes, whose disks keep order as ext4 does, each file survives up \
          to some write. Healed by starting the nodes again. Proved by the end of the processes; how much was lost is told, \
          and where nothing was unsynced it is a crash like another. Finds systems that acknowledge before they sync, or that \
          cannot read what a torn write leaves.",
    strike_f: "power-loss",
    heal_f: "power-on",
    min_copies: 1,
    shapes: ONE_TO_ALL,
};

pub(crate) struct PowerLoss;

impl Fault for PowerLoss {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn needs_disks(&self) -> bool {
        true
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        crate::aim(shape, nodes, random)
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let nodes = crate::nodes(aim)?;
        let mut lost = Vec::new();
        for node in &nodes {
            lost.push(cluster.power_fail(*node)?);
        }
        let Effect { took_effect, evidence } =
            crate::observe(cluster, &nodes, |state| matches!(state, NodeState::Down(_)))?;
        let told = nodes.iter().zip(lost).map(|(node, Lost { writes, bytes, names })| {
            let lost = json!({"writes": writes, "bytes": bytes, "names": names});
            (node.to_string(), json!({"state": evidence[node.to_string()], "lost": lost}))
        });
        Ok(Effect { took_effect, evidence: Json::Object(told.collect()) })
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        crate::kill::Kill.heal(cluster)
    }
}
