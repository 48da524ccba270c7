//! Nodes are far away.

use crate::LINKS;
use rand::RngExt as _;
use riprap_core::cluster::{Cluster, ClusterError, Links, NodeId, PerLink};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// How much longer what is sent to a node takes: from another continent to a queue that is full. Units: milliseconds.
const DELAYS_MS: (u64, u64) = (20, 1500);

static INFO: FaultInfo = FaultInfo {
    name: "latency",
    doc: "All that is sent to some nodes, by nodes and clients or by only one of those kinds, takes 20 ms to 1.5 s longer; healed \
          at once. Proved by reading the delay back, of either kind. In simulation only. Finds systems that take slow for dead, and late answers for those of another question.",
    strike_f: "latency",
    heal_f: "heal-latency",
    live: false,
    min_copies: 1,
    shapes: LINKS,
};

pub(crate) struct Latency;

impl Fault for Latency {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        let (least, most) = DELAYS_MS;
        let mut aim = crate::aim_at_links(shape, nodes, random);
        aim["delay-ms"] = random.random_range(least..=most).into();
        aim
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let wrong = || ClusterError(format!("aim {aim}; {{\"delay-ms\": 20}} is expected"));
        let delay_ms = aim["delay-ms"].as_u64().ok_or_else(wrong)?;
        let delays: BTreeMap<NodeId, u64> =
            crate::nodes(aim)?.into_iter().map(|node| (node, delay_ms)).collect();
        let links = crate::links(aim)?;
        cluster.delay(&delays, links)?;
        let mut evidence = Map::new();
        let mut took_effect = true;
        for node in delays.keys() {
            let read_ms = cluster.delay_ms(*node)?;
            took_effect &= crate::spared(links, &read_ms)
                && (links == Links::Clients || read_ms.peers == delay_ms)
                && (links == Links::Peers || read_ms.clients == delay_ms);
            evidence.insert(node.to_string(), crate::told(read_ms));
        }
        Ok(Effect { took_effect, evidence: Json::Object(evidence) })
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        cluster.delay(&BTreeMap::new(), Links::All)?;
        let mut took_effect = true;
        for node in cluster.nodes() {
            took_effect &= cluster.delay_ms(node)? == PerLink::default();
        }
        Ok(Effect { took_effect, evidence: json!({"near": took_effect}) })
    }
}
