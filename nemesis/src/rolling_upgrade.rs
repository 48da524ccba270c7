//! Nodes go on as another version of the system, one after another.

use crate::rolling_restart::{aim, prove};
use riprap_core::cluster::{Cluster, ClusterError, NodeId, Roll, Turn};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::Value as Json;

static INFO: FaultInfo = FaultInfo {
    name: "rolling-upgrade",
    doc: "Nodes end in order and start again as the version that --upgrade-to names, or the program, one after another as in a \
          rolling-restart, on the data that they have. Once in a run, and never back: it begins in the first third or so, and is \
          held to the end, so that old and new nodes work side by side for a while and only new ones read what is there in the \
          end. From its turn on, a node that another fault kills is started as the new version too; one that is down when its \
          turn comes, by whoever starts it. What a cluster agrees on by itself after an upgrade is left at the old level (of \
          Apache Kafka, the levels of features). Proved by the operating system's word that the first process has ended, and \
          that the one that runs was started as the new version; of each later node the same is told when it is healed. Finds \
          versions that do not understand each other, or what the other has written.",
    strike_f: "rolling-upgrade",
    heal_f: "end-rolling-upgrade",
    min_copies: 1,
    shapes: &[Shape { name: "round", doc: "Every node, one after another.", min_nodes: 1 }],
};

pub(crate) struct RollingUpgrade;

impl Fault for RollingUpgrade {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    /// A simulated node has one version, that of this program.
    fn strikes_simulated(&self) -> bool {
        false
    }

    /// Halfway is where no cluster is to stay.
    fn held_ms(&self, _: u64, _: u64, _: usize) -> u64 {
        u64::MAX
    }

    fn strikes_once(&self) -> bool {
        true
    }

    fn needs_upgrade(&self) -> bool {
        true
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        aim(shape, nodes, random)
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let nodes = crate::nodes(aim)?;
        let turns = cluster.roll(Roll::Upgrade, &nodes)?;
        let is_new = |turn: &Turn| !matches!(turn, Turn::Restarted { runs: None, .. });
        let all_new = turns.iter().all(|(_, turn)| is_new(turn));
        let Effect { took_effect, evidence } = prove(&nodes, &turns);
        Ok(Effect { took_effect: took_effect && all_new, evidence })
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        Ok(prove(&[], &cluster.end_roll(Roll::Upgrade)?))
    }
}
