//! Wall clocks are wrong.

use crate::{ONE_TO_ALL, pick};
use rand::RngExt as _;
use riprap_core::cluster::{Cluster, ClusterError, NodeId};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Map, Value as Json, json};
use std::ops::Range;

/// How far a clock is set off, at most, by the power of ten that is drawn first: small steps are as telling as large ones.
const MAGNITUDES_MS: [i64; 4] = [100, 10_000, 1_000_000, 100_000_000];

/// How long a clock that strobes stays as it is. Units: milliseconds.
const STROBE_MS: Range<u64> = 200..2000;

static INFO: FaultInfo = FaultInfo {
    name: "clock",
    doc: "The wall clocks of some nodes jump, each by something between a few milliseconds and a day, forward or back; or they \
          strobe: they are that far off and right in turn, up to five times a second. Healed \
          by setting them right, which is one more jump. Time that only goes on is left alone. Of real nodes the bundled broker \
          looks at a file that says how far off it is; others are told by libfaketime, if it is installed and they ask the C library \
          (servers of NATS do not). Proved by reading them: in simulation the clock itself, of the bundled broker what its process \
          says that it goes by, of others what a program is told that goes by the same file, and that the node's process has \
          loaded the library. The clock of a host as a whole is left alone. Finds systems that tell order, leases or what is too old by a clock that others can set.",
    strike_f: "clock",
    heal_f: "reset-clock",
    min_copies: 1,
    shapes: &[
        ONE_TO_ALL[0],
        ONE_TO_ALL[1],
        ONE_TO_ALL[2],
        ONE_TO_ALL[3],
        Shape { name: "one-strobe", doc: "One node's goes to and fro.", min_nodes: 1 },
        Shape { name: "all-strobe", doc: "All nodes' go to and fro, each at its own pace.", min_nodes: 1 },
    ],
};

pub(crate) struct Clock;

impl Fault for Clock {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn needs_clocks(&self) -> bool {
        true
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        let nodes = pick(shape, nodes, random);
        let offset = |node: &String| {
            let most = MAGNITUDES_MS[random.random_range(0..MAGNITUDES_MS.len())];
            let mut offset_ms = random.random_range(-most..=most);
            if offset_ms == 0 {
                offset_ms = most;
            }
            (node.clone(), Json::from(offset_ms))
        };
        let offsets: Map<String, Json> = nodes.iter().map(offset).collect();
        let mut aim = json!({"shape": shape.name, "nodes": nodes, "offset-ms": offsets});
        if shape.name.ends_with("-strobe") {
            let mut pace = |node: &String| (node.clone(), Json::from(random.random_range(STROBE_MS)));
            aim["every-ms"] = nodes.iter().map(&mut pace).collect();
        }
        aim
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let mut evidence = Map::new();
        let mut took_effect = true;
        let wrong =
            || ClusterError(format!("aim {aim}; {{\"offset-ms\": {{\"n1\": 100, ...}}}} is expected"));
        let offset_ms = |node: NodeId| aim["offset-ms"][node.to_string()].as_i64().ok_or_else(wrong);
        let offsets = crate::nodes(aim)?.into_iter().map(|node| Ok((node, offset_ms(node)?)));
        let offsets: Vec<(NodeId, i64)> = offsets.collect::<Result<_, ClusterError>>()?;
        if !aim["every-ms"].is_null() {
            return strobe(cluster, aim, &offsets);
        }
        // All of them first: a real node takes its time to see it.
        for (node, offset_ms) in &offsets {
            cluster.set_clock_offset_ms(*node, *offset_ms)?;
        }
        for (node, offset_ms) in offsets {
            let read_ms = cluster.clock_offset_ms(node)?;
            took_effect &= read_ms == offset_ms;
            evidence.insert(node.to_string(), read_ms.into());
        }
        Ok(Effect { took_effect, evidence: Json::Object(evidence) })
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        let mut took_effect = true;
        for node in cluster.nodes() {
            cluster.set_clock_offset_ms(node, 0)?;
        }
        for node in cluster.nodes() {
            took_effect &= cluster.clock_offset_ms(node)? == 0;
        }
        Ok(Effect { took_effect, evidence: json!({"right": took_effect}) })
    }
}

/// Has clocks go off and back in turn, and sees them at both.
fn strobe(cluster: &dyn Cluster, aim: &Json, offsets: &[(NodeId, i64)]) -> Result<Effect, ClusterError> {
    let wrong = || ClusterError(format!("aim {aim}; {{\"every-ms\": {{\"n1\": 200, ...}}}} is expected"));
    for (node, offset_ms) in offsets {
        let every_ms = aim["every-ms"][node.to_string()].as_u64().ok_or_else(wrong)?;
        cluster.strobe_clock(*node, *offset_ms, every_ms)?;
    }
    let mut evidence = Map::new();
    let mut took_effect = true;
    for (node, offset_ms) in offsets {
        let seen_ms = cluster.clock_offsets_seen_ms(*node)?;
        took_effect &= seen_ms.contains(&0) && seen_ms.contains(offset_ms);
        evidence.insert(node.to_string(), json!(seen_ms));
    }
    Ok(Effect { took_effect, evidence: Json::Object(evidence) })
}
