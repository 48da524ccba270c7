//! Links are slow.

use crate::links::{self, LINKS};
use rand::RngExt as _;
use riprap_core::cluster::{Cluster, ClusterError, Links, NodeId, Spread, UNLIMITED};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// How much gets through, from a modem to a line that a few clients fill: powers of two of this unit, up to this one.
const UNIT_BYTES_PER_S: u64 = 16 << 10;
const MOST_POWER: u32 = 4;

static INFO: FaultInfo = FaultInfo {
    name: "rate",
    doc: "What some nodes send, over all links, those with other nodes or those with clients, gets through at 16 to 256 KiB a \
          second, and so does what they are sent; 32 KiB pass at once, and what would have to wait for a second is dropped. \
          Healed at once. Proved by some 570 kB of datagrams over each link in each direction: in a second no more than a tenth above \
          the rate may get through, and no less than a half, and all of it over other links. Real nodes only: a simulated \
          network has no width. Finds systems in which what is large and can wait delays what is small and cannot, such as a \
          heartbeat.",
    strike_f: "limit-rate",
    heal_f: "heal-rate",
    min_copies: 1,
    shapes: LINKS,
};

pub(crate) struct Rate;

impl Fault for Rate {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn strikes_simulated(&self) -> bool {
        false
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        let mut aim = links::aim(shape, nodes, random);
        aim["bytes-per-s"] = (UNIT_BYTES_PER_S << random.random_range(0..=MOST_POWER)).into();
        aim
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let wrong = || ClusterError(format!("aim {aim}; {{\"bytes-per-s\": 16384}} is expected"));
        let rate = aim["bytes-per-s"].as_u64().filter(|rate| *rate > 0).ok_or_else(wrong)?;
        let (nodes, links) = (crate::nodes(aim)?, links::of(aim)?);
        let rates: BTreeMap<NodeId, u64> = nodes.iter().map(|node| (*node, rate)).collect();
        cluster.limit(&rates, links)?;
        let read = cluster.rates(&nodes)?;
        let struck = |read: Spread| read.least >= rate / 2 && read.most <= rate + rate / 10;
        Ok(links::prove(Some(links), &nodes, &read, struck, is_sound))
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        cluster.limit(&BTreeMap::new(), Links::All)?;
        let nodes = cluster.nodes();
        Ok(links::prove(None, &nodes, &cluster.rates(&nodes)?, is_sound, is_sound))
    }
}

fn is_sound(read: Spread) -> bool {
    read.least == UNLIMITED
}
