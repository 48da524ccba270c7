//! Processes end at once, without a chance to clean up; later they are started again.

use crate::{ONE_TO_ALL, observe};
use riprap_core::cluster::{Cluster, ClusterError, NodeId, NodeState};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::Value as Json;

static INFO: FaultInfo = FaultInfo {
    name: "kill",
    doc: "SIGKILL to the processes of some nodes; healed by starting them again. Proved by the operating system's word \
          that the process is gone, and that it runs again. What was written but not synced survives a kill: only \
          power-loss takes that.",
    strike_f: "kill",
    heal_f: "restart",
    min_copies: 1,
    shapes: ONE_TO_ALL,
};

pub(crate) struct Kill;

impl Fault for Kill {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        crate::aim(shape, nodes, random)
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let targets = crate::nodes(aim)?;
        for node in &targets {
            cluster.kill(*node)?;
        }
        observe(cluster, &targets, |state| matches!(state, NodeState::Down(_)))
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        let mut down = Vec::new();
        for node in cluster.nodes() {
            if matches!(cluster.state(node)?, NodeState::Down(_)) {
                cluster.start(node)?;
                // What ends again for want of room, or for what its disk holds, is another fault's to heal.
                if cluster.disk_room(node)?.is_none() && !cluster.disk_has_rotted(node)? {
                    down.push(node);
                }
            }
        }
        observe(cluster, &down, |state| *state != NodeState::Paused && !matches!(state, NodeState::Down(_)))
    }
}
