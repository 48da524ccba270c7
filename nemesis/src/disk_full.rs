//! Disks are full.

use crate::{ONE_TO_ALL, pick};
use rand::RngExt as _;
use riprap_core::cluster::{Cluster, ClusterError, NodeId};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Map, Value as Json, json};

/// How much a disk still takes, at most: some writes succeed, and one is cut short. Units: bytes.
const MAX_ROOM: u64 = 64 << 10;

static INFO: FaultInfo = FaultInfo {
    name: "disk-full",
    doc: "The disks of some nodes take up to 64 KiB more and then nothing: a write that does not fit writes what does, and fails. \
          Healed by making room and starting what has ended, which is no crash. Proved by reading the room back, of real nodes \
          from the file system. Finds systems that acknowledge what they could not write, or cannot read what a cut write leaves.",
    strike_f: "disk-full",
    heal_f: "make-room",
    min_copies: 1,
    shapes: ONE_TO_ALL,
};

pub(crate) struct DiskFull;

impl Fault for DiskFull {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn needs_disks(&self) -> bool {
        true
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        json!({"shape": shape.name, "nodes": pick(shape, nodes, random), "room": random.random_range(0..=MAX_ROOM)})
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let wrong = || ClusterError(format!("aim {aim}; {{\"room\": 0}} is expected"));
        let room = aim["room"].as_u64().ok_or_else(wrong)?;
        let mut evidence = Map::new();
        let mut took_effect = true;
        for node in crate::nodes(aim)? {
            cluster.set_disk_room(node, Some(room))?;
            let left = cluster.disk_room(node)?;
            took_effect &= left.is_some_and(|left| left <= room);
            evidence.insert(node.to_string(), left.into());
        }
        Ok(Effect { took_effect, evidence: Json::Object(evidence) })
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        for node in cluster.nodes() {
            cluster.set_disk_room(node, None)?;
        }
        crate::kill::Kill.heal(cluster)
    }
}
