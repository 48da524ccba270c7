//! Nodes are far away.

use crate::{ONE_TO_ALL, pick};
use rand::RngExt as _;
use riprap_core::cluster::{Cluster, ClusterError, NodeId};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// How much longer what is sent to a node takes: from another continent to a queue that is full. Units: milliseconds.
const DELAYS_MS: (u64, u64) = (20, 1500);

static INFO: FaultInfo = FaultInfo {
    name: "latency",
    doc: "All that is sent to some nodes, by nodes and clients, takes 20 ms to 1.5 s longer; healed at once. Proved by \
          reading the delay back. In simulation only. Finds systems that take slow for dead, and late answers for those of another question.",
    strike_f: "latency",
    heal_f: "heal-latency",
    live: false,
    shapes: ONE_TO_ALL,
};

pub(crate) struct Latency;

impl Fault for Latency {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        let (least, most) = DELAYS_MS;
        json!({"shape": shape.name, "nodes": pick(shape, nodes, random), "delay-ms": random.random_range(least..=most)})
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let wrong = || ClusterError(format!("aim {aim}; {{\"delay-ms\": 20}} is expected"));
        let delay_ms = aim["delay-ms"].as_u64().ok_or_else(wrong)?;
        let delays: BTreeMap<NodeId, u64> =
            crate::nodes(aim)?.into_iter().map(|node| (node, delay_ms)).collect();
        cluster.delay(&delays)?;
        let mut evidence = Map::new();
        let mut took_effect = true;
        for node in delays.keys() {
            let read_ms = cluster.delay_ms(*node)?;
            took_effect &= read_ms == delay_ms;
            evidence.insert(node.to_string(), read_ms.into());
        }
        Ok(Effect { took_effect, evidence: Json::Object(evidence) })
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        cluster.delay(&BTreeMap::new())?;
        let mut took_effect = true;
        for node in cluster.nodes() {
            took_effect &= cluster.delay_ms(node)? == 0;
        }
        Ok(Effect { took_effect, evidence: json!({"near": took_effect}) })
    }
}
