//! A node joins, partitions move onto it, and it leaves again.

use rand::RngExt as _;
use riprap_core::cluster::{Cluster, ClusterError, MemberChange, NodeId, NodeState};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Value as Json, json};

static INFO: FaultInfo = FaultInfo {
    name: "membership",
    doc: "A node that was not part of the cluster is started and joins it as a broker, and an administrator has it take the \
          place of a replica of every other partition or so. Healed by an administrator who moves back what it has, and \
          unregisters it; of a real cluster the final reads wait until that is done. Administrators ask over the wire, and try \
          until it is done, whatever other faults are at work. Proved by the process that runs, and by what the \
          cluster says of its members and of where partitions are, as far as it has come by then; the act that follows tells the \
          rest. Of real systems the bundled broker and \
          Apache Kafka. A topic that is made just when the node leaves may have a copy there, which goes with \
          it: so it needs two copies of each key. Finds systems that lose records as replicas move, or that believe a replica \
          or a leader that is one no longer.",
    strike_f: "add-member",
    heal_f: "remove-member",
    min_copies: 2,
    shapes: &[Shape { name: "join", doc: "One node more, for a while.", min_nodes: 3 }],
};

pub(crate) struct Membership;

impl Fault for Membership {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn needs_spare(&self) -> bool {
        true
    }

    fn aim(&self, shape: &Shape, _: &[NodeId], random: &mut Stream) -> Json {
        // Less than a float holds exactly: others read the plan too.
        json!({"shape": shape.name, "draw": random.random_range(0..1_u64 << 48)})
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let wrong = || ClusterError(format!("aim {aim}; {{\"draw\": 12345}} is expected"));
        let draw = aim["draw"].as_u64().ok_or_else(wrong)?;
        let node =
            cluster.spare().ok_or_else(|| ClusterError("there is no node that could join".to_owned()))?;
        let before = cluster.members_told()?;
        // Its last life may have been unregistered, and does not come back; the next one does.
        cluster.kill(node)?;
        cluster.start(node)?;
        cluster.change_members(MemberChange::Join { node, draw })?;
        let mut effect = crate::observe(cluster, &[node], |state| *state == NodeState::Running)?;
        for (when, told) in [("before", before), ("told", cluster.members_told()?)] {
            if !told.is_empty() {
                effect.evidence[when] = told.into();
            }
        }
        Ok(effect)
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        let told = cluster.members_told()?;
        if let Some(node) = cluster.spare() {
            cluster.change_members(MemberChange::Leave { node })?;
        }
        Ok(Effect { took_effect: true, evidence: json!({"so-far": told}) })
    }
}
