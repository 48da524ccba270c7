//! A file loses its tail.

use crate::bit_flip;
use riprap_core::cluster::{Cluster, ClusterError, CutFile, NodeId, NodeState};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Map, Value as Json, json};

static INFO: FaultInfo = FaultInfo {
    name: "truncate",
    doc: "A node is killed, up to 16 KiB are cut off the end of one of its files, and it is started on what is left: always the same \
          node in a run. Healed by an empty disk in its place, on which the node starts. Proved by the length read back; a disk that \
          holds nothing is left as it is. A node may end rather than go on with such a disk, which is no crash. Of a real node the \
          settings that it was given are left alone. It is asked for by its name, and `all` leaves it out: a tail that is cut cannot be \
          told from one that was never written, so that a node may have forgotten what it acknowledged, a vote or a record, and may \
          lead without it though others have it. No system that takes a node's disk at its word survives that, and what is lost so \
          is no bug by itself. Finds which files a system takes at their word, and whether it serves again without them.",
    strike_f: "truncate",
    heal_f: "replace-truncated-disk",
    min_copies: 2,
    shapes: &[Shape {
        name: "stopped",
        doc: "Of a node that is killed, and started on what is left.",
        min_nodes: 3,
    }],
};

pub(crate) struct Truncate;

impl Fault for Truncate {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn only_by_name(&self) -> Option<&'static str> {
        Some("only by its name")
    }

    /// One: a second disk might lose its tail before the first node has all again.
    fn targets(&self, nodes: &[NodeId], random: &mut Stream) -> Vec<NodeId> {
        bit_flip::one(nodes, random)
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        bit_flip::aim(shape, nodes, random)
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let draw = bit_flip::draw(aim)?;
        let mut evidence = Map::new();
        let mut took_effect = true;
        for node in crate::nodes(aim)? {
            // A node that another fault holds is left as it is, but for its file.
            let runs = !matches!(cluster.state(node)?, NodeState::Down(_));
            cluster.kill(node)?;
            let told = match cluster.cut_tail(node, draw)? {
                Some(CutFile { path, was_bytes, is_bytes }) => {
                    took_effect &= is_bytes < was_bytes;
                    json!({"path": path, "was-bytes": was_bytes, "is-bytes": is_bytes})
                }
                // A disk that was empty a moment ago.
                None => Json::String("holds nothing".to_owned()),
            };
            evidence.insert(node.to_string(), told);
            if runs {
                cluster.start(node)?;
            }
        }
        Ok(Effect { took_effect, evidence: Json::Object(evidence) })
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        bit_flip::replace_disks(cluster)
    }
}
