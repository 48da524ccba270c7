//! Processes end at once, without a chance to clean up; later they are started again.

use crate::{ONE_TO_ALL, pick};
use riprap_core::cluster::{Cluster, ClusterError, NodeId, NodeState};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Map, Value as Json, json};

static INFO: FaultInfo = FaultInfo {
    name: "kill",
    doc: "SIGKILL to the processes of some nodes; healed by starting them again. Proved by the operating system's word \
          that the process is gone, and that it runs again. What was written but not synced survives a kill: only \
          power-loss takes that.",
    strike_f: "kill",
    heal_f: "restart",
    live: true,
    shapes: ONE_TO_ALL,
};

pub(crate) struct Kill;

impl Fault for Kill {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        json!({"shape": shape.name, "nodes": pick(shape, nodes, random)})
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
                // What ends again for want of room is another fault's to heal.
                if cluster.disk_room(node)?.is_none() {
                    down.push(node);
                }
            }
        }
        observe(cluster, &down, |state| *state != NodeState::Paused && !matches!(state, NodeState::Down(_)))
    }
}

fn observe(
    cluster: &dyn Cluster,
    nodes: &[NodeId],
    expected: impl Fn(&NodeState) -> bool,
) -> Result<Effect, ClusterError> {
    let mut evidence = Map::new();
    let mut took_effect = true;
    for node in nodes {
        let state = cluster.state(*node)?;
        took_effect &= expected(&state);
        let words = match state {
            NodeState::Running => "running".to_owned(),
            NodeState::Paused => "paused".to_owned(),
            NodeState::Down(how) => format!("down: {how}"),
        };
        evidence.insert(node.to_string(), Json::String(words));
    }
    Ok(Effect { took_effect, evidence: Json::Object(evidence) })
}
