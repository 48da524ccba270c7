//! Disks take long to make something durable.

use crate::{ONE_TO_ALL, pick};
use rand::RngExt as _;
use riprap_core::cluster::{Cluster, ClusterError, NodeId};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Map, Value as Json, json};

/// How many times as long a sync takes, at least and at most: from a busy disk to one that is about to fail.
const FACTORS: (u64, u64) = (10, 1000);

static INFO: FaultInfo = FaultInfo {
    name: "disk-slow",
    doc: "Every sync of some nodes takes ten to a thousand times as long, 5 s at most where nodes are real; healed at once. \
          A simulated node does nothing else meanwhile, a real one what its threads do that do not wait for it. Proved by \
          reading the factor back. Finds systems whose timeouts and leases do not \
          reckon with a disk that stalls.",
    strike_f: "disk-slow",
    heal_f: "heal-disk",
    min_copies: 1,
    shapes: ONE_TO_ALL,
};

pub(crate) struct DiskSlow;

impl Fault for DiskSlow {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn needs_disks(&self) -> bool {
        true
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        let (least, most) = FACTORS;
        json!({"shape": shape.name, "nodes": pick(shape, nodes, random), "factor": random.random_range(least..=most)})
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let wrong = || ClusterError(format!("aim {aim}; {{\"factor\": 10}} is expected"));
        let factor = aim["factor"].as_u64().filter(|factor| *factor > 0).ok_or_else(wrong)?;
        let mut evidence = Map::new();
        let mut took_effect = true;
        for node in crate::nodes(aim)? {
            cluster.slow_disk(node, factor)?;
            let read = cluster.disk_slowness(node)?;
            took_effect &= read == factor;
            evidence.insert(node.to_string(), read.into());
        }
        Ok(Effect { took_effect, evidence: Json::Object(evidence) })
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        let mut took_effect = true;
        for node in cluster.nodes() {
            cluster.slow_disk(node, 1)?;
            took_effect &= cluster.disk_slowness(node)? == 1;
        }
        Ok(Effect { took_effect, evidence: json!({"whole": took_effect}) })
    }
}
