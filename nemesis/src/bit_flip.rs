//! A disk rots.

use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use riprap_core::cluster::{Cluster, ClusterError, FlippedBit, NodeId, NodeState};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Value as Json, json};

static INFO: FaultInfo = FaultInfo {
    name: "bit-flip",
    doc: "One bit flips in a file on the disk of one node, always the same one in a run: whichever copy a record is \
          acknowledged from, there is another. Healed by an empty disk in place of the one that rots, on which the node \
          starts. Proved by the byte read back; a disk that holds nothing is left as it is. A node may end rather than go on with such a disk, which is no crash. Of a \
          real node the settings that it was given are left alone. Tested is that what is acknowledged by two nodes outlives what happens to one disk: that no node \
          serves, passes on or counts what it does not have any more, or leads without it. So it needs two copies of each key, \
          two in sync for each acknowledgement, and records that are synced before that: with less, loss is by design. Finds \
          systems that take rot for a torn write and cut what was committed, that believe what has no checksum, or that keep \
          a leader which cannot read its log.",
    strike_f: "bit-flip",
    heal_f: "replace-disk",
    min_copies: 2,
    shapes: &[
        Shape { name: "running", doc: "Of a node that goes on as if nothing had happened.", min_nodes: 3 },
        Shape {
            name: "stopped",
            doc: "Of a node that is killed, and started on what is left.",
            min_nodes: 3,
        },
    ],
};

pub(crate) struct BitFlip;

impl Fault for BitFlip {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    /// One: a second disk might rot before the first node has all again.
    fn targets(&self, nodes: &[NodeId], random: &mut Stream) -> Vec<NodeId> {
        one(nodes, random)
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        aim(shape, nodes, random)
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let draw = draw(aim)?;
        let mut evidence = serde_json::Map::new();
        let mut took_effect = true;
        for node in crate::nodes(aim)? {
            let stops = aim["shape"] == "stopped" && cluster.state(node)? == NodeState::Running;
            if stops {
                cluster.kill(node)?;
            }
            let told = match cluster.flip_bit(node, draw)? {
                Some(FlippedBit { path, offset, was, is }) => {
                    took_effect &= (was ^ is).count_ones() == 1;
                    json!({"path": path, "offset": offset, "was": was, "is": is})
                }
                // A disk that was empty a moment ago.
                None => Json::String("holds nothing".to_owned()),
            };
            evidence.insert(node.to_string(), told);
            if stops {
                cluster.start(node)?;
            }
        }
        Ok(Effect { took_effect, evidence: Json::Object(evidence) })
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        replace_disks(cluster)
    }
}

/// One of the nodes.
pub(crate) fn one(nodes: &[NodeId], random: &mut Stream) -> Vec<NodeId> {
    nodes.choose(random).copied().into_iter().collect()
}

/// An aim at something on these nodes' disks.
pub(crate) fn aim(shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
    let nodes: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
    // Less than a float holds exactly: others read the plan too.
    json!({"shape": shape.name, "nodes": nodes, "draw": random.random_range(0..1_u64 << 48)})
}

/// What was drawn of where it hits.
pub(crate) fn draw(aim: &Json) -> Result<u64, ClusterError> {
    let wrong = || ClusterError(format!("aim {aim}; {{\"draw\": 12345}} is expected"));
    aim["draw"].as_u64().ok_or_else(wrong)
}

/// Gives each node whose disk was damaged an empty one, on which it starts.
pub(crate) fn replace_disks(cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
    let mut replaced = Vec::new();
    for node in cluster.nodes() {
        if cluster.disk_has_rotted(node)? {
            cluster.replace_disk(node)?;
            cluster.start(node)?;
            replaced.push(node);
        }
    }
    crate::observe(cluster, &replaced, |state| *state == NodeState::Running)
}
