//! Processes stand still; later they go on as if no time had passed.

use crate::ONE_TO_ALL;
use riprap_core::cluster::{Cluster, ClusterError, NodeId, NodeState};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Value as Json, json};

static INFO: FaultInfo = FaultInfo {
    name: "pause",
    doc: "SIGSTOP to the processes of some nodes; healed by SIGCONT. Proved by the operating system's word that the process \
          is stopped, and that it runs again. A node that goes on believes what it knew before: that it leads, that a session \
          lasts.",
    strike_f: "pause",
    heal_f: "resume",
    min_copies: 1,
    shapes: ONE_TO_ALL,
};

pub(crate) struct Pause;

impl Fault for Pause {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        crate::aim(shape, nodes, random)
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let nodes = crate::nodes(aim)?;
        for node in &nodes {
            // Another fault may have killed it: then it does nothing as it is.
            if cluster.state(*node)? == NodeState::Running {
                cluster.pause(*node)?;
            }
        }
        crate::observe(cluster, &nodes, |state| *state != NodeState::Running)
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        let (mut resumed, mut took_effect) = (Vec::new(), true);
        for node in cluster.nodes() {
            if cluster.state(node)? == NodeState::Paused {
                cluster.resume(node)?;
                took_effect &= cluster.state(node)? != NodeState::Paused;
                resumed.push(node.to_string());
            }
        }
        Ok(Effect { took_effect, evidence: json!({"resumed": resumed}) })
    }
}
