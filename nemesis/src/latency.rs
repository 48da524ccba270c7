//! Nodes are far away.

use crate::links::{self, LINKS};
use rand::RngExt as _;
use riprap_core::cluster::{Cluster, ClusterError, Delay, DelayReading, Links, NodeId, Reading, Spread};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// How much longer what is sent to a node takes: from another continent to a queue that is full. Units: milliseconds.
const DELAYS_MS: (u64, u64) = (20, 1500);

/// How much more than that it takes now and then, where it is not always the same. Units: milliseconds.
const JITTERS_MS: (u64, u64) = (200, 1000);
/// One strike in so many has jitter.
const JITTER_ONE_IN: u32 = 2;
/// What is drawn a dozen times between nothing and so much is apart by one part in so many at least, but for one case in
/// millions.
const JITTER_PROVED: u64 = 5;

/// How much later than that what a real node is sent may come on a machine with much else to do. Units: milliseconds.
const LATE_MS: u64 = 100;

static INFO: FaultInfo = FaultInfo {
    name: "latency",
    doc: "All that is sent to some nodes, by nodes and clients or by only one of those kinds, takes 20 ms to 1.5 s longer; in one \
          strike of two each packet takes up to 0.2 to 1 s more, drawn anew (jitter). Packets of a connection keep their order. \
          Healed at once. Proved by a dozen datagrams over each link, which must take so long, and must be so far apart where there \
          is jitter, and take less than 20 ms over the others; in simulation by reading back what was set. Finds systems that take \
          slow for dead, and late answers for those of another question.",
    strike_f: "latency",
    heal_f: "heal-latency",
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
        let mut aim = links::aim(shape, nodes, random);
        aim["delay-ms"] = random.random_range(least..=most).into();
        let (least, most) = JITTERS_MS;
        let jitter_ms = random.random_range(least..=most);
        if random.random_ratio(1, JITTER_ONE_IN) {
            aim["jitter-ms"] = jitter_ms.into();
        }
        aim
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let wrong = || ClusterError(format!("aim {aim}; {{\"delay-ms\": 20}} is expected"));
        let delay_ms = aim["delay-ms"].as_u64().ok_or_else(wrong)?;
        let (nodes, links) = (crate::nodes(aim)?, links::of(aim)?);
        // Plans of before there was jitter say nothing of it.
        let jitter_ms = aim["jitter-ms"].as_u64().unwrap_or(0);
        let delay = Delay { ms: delay_ms, jitter_ms };
        cluster.delay(&nodes.iter().map(|node| (*node, delay)).collect(), links)?;
        let read = cluster.delays(&nodes)?;
        let struck = |read: Spread| read.least >= delay_ms && read.most <= delay_ms + jitter_ms / 2 + LATE_MS;
        let mut effect = links::prove(Some(links), &nodes, &parts(&read, |read| read.delay), struck, is_near);
        if jitter_ms > 0 {
            let varies = |read: Spread| read.least >= jitter_ms / JITTER_PROVED;
            let jitter =
                links::prove(Some(links), &nodes, &parts(&read, |read| read.jitter), varies, |_| true);
            effect.took_effect &= jitter.took_effect;
            effect.evidence["jitter"] = jitter.evidence;
        }
        Ok(effect)
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        cluster.delay(&BTreeMap::new(), Links::All)?;
        let nodes = cluster.nodes();
        let read = cluster.delays(&nodes)?;
        Ok(links::prove(None, &nodes, &parts(&read, |read| read.delay), is_near, is_near))
    }
}

fn parts(read: &[DelayReading], part: impl Fn(&DelayReading) -> Reading) -> Vec<Reading> {
    read.iter().map(part).collect()
}

fn is_near(read: Spread) -> bool {
    read.most < DELAYS_MS.0
}
