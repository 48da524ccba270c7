//! Nodes are far away.

use crate::links::{self, LINKS};
use rand::RngExt as _;
use riprap_core::cluster::{Cluster, ClusterError, Links, NodeId, Spread};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// How much longer what is sent to a node takes: from another continent to a queue that is full. Units: milliseconds.
const DELAYS_MS: (u64, u64) = (20, 1500);

/// How much later than that what a real node is sent may come on a machine with much else to do. Units: milliseconds.
const LATE_MS: u64 = 100;

static INFO: FaultInfo = FaultInfo {
    name: "latency",
    doc: "All that is sent to some nodes, by nodes and clients or by only one of those kinds, takes 20 ms to 1.5 s longer; healed \
          at once. Proved by datagrams over each link, which must take so long, and less than 20 ms over the others; in simulation           by reading the delay back. Packets keep their order. Finds systems that take slow for dead, and late answers for those of another question.",
    strike_f: "latency",
    heal_f: "heal-latency",
    live: true,
    min_copies: 1,
    shapes: LINKS,
};

pub(crate) struct Latency;

impl Fault for Latency {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn strikes_hosts(&self) -> bool {
        false
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        let (least, most) = DELAYS_MS;
        let mut aim = links::aim(shape, nodes, random);
        aim["delay-ms"] = random.random_range(least..=most).into();
        aim
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let wrong = || ClusterError(format!("aim {aim}; {{\"delay-ms\": 20}} is expected"));
        let delay_ms = aim["delay-ms"].as_u64().ok_or_else(wrong)?;
        let (nodes, links) = (crate::nodes(aim)?, links::of(aim)?);
        let delays: BTreeMap<NodeId, u64> = nodes.iter().map(|node| (*node, delay_ms)).collect();
        cluster.delay(&delays, links)?;
        let read = cluster.delays_ms(&nodes)?;
        let struck = |read: Spread| read.least >= delay_ms && read.most <= delay_ms + LATE_MS;
        Ok(links::prove(Some(links), &nodes, &read, struck, is_near))
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        cluster.delay(&BTreeMap::new(), Links::All)?;
        let nodes = cluster.nodes();
        Ok(links::prove(None, &nodes, &cluster.delays_ms(&nodes)?, is_near, is_near))
    }
}

fn is_near(read: Spread) -> bool {
    read.most < DELAYS_MS.0
}
