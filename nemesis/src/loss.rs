//! Packets are lost.

use crate::links::{self, LINKS};
use rand::RngExt as _;
use riprap_core::cluster::{Cluster, ClusterError, Links, NodeId, Spread};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// How many of a hundred packets are lost: from what slows TCP down a good deal to what hardly lets it through.
const PERCENTS: (u8, u8) = (15, 60);
/// How far from it what was read may be.
const POINTS: u64 = 10;

static INFO: FaultInfo = FaultInfo {
    name: "loss",
    doc: "Of what some nodes send and are sent, over all links, those with other nodes or those with clients, 15 to 60 of a hundred \
          packets are lost, each by chance; healed at once. Proved by 2000 datagrams over each link in each direction, of which so \
          many must be lost to within ten points of a hundred, and none over other links: by chance alone that fails once in \
          10^17 times. Packets are of the size that they would have on a wire. Real nodes only: a simulated network has connections, and no packets. Finds timeouts that do not reckon with TCP's own.",
    strike_f: "loss",
    heal_f: "heal-loss",
    min_copies: 1,
    shapes: LINKS,
};

pub(crate) struct Loss;

impl Fault for Loss {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn strikes_simulated(&self) -> bool {
        false
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        let (least, most) = PERCENTS;
        let mut aim = links::aim(shape, nodes, random);
        aim["percent"] = random.random_range(least..=most).into();
        aim
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let wrong = || ClusterError(format!("aim {aim}; {{\"percent\": 15}} is expected, up to 100"));
        let percent = aim["percent"].as_u64().filter(|percent| *percent <= 100).ok_or_else(wrong)?;
        let (nodes, links) = (crate::nodes(aim)?, links::of(aim)?);
        cluster.lose(&nodes.iter().copied().collect(), links, percent as u8)?;
        let read = cluster.losses_percent(&nodes)?;
        let struck = |read: Spread| read.least + POINTS > percent && read.most < percent + POINTS;
        Ok(links::prove(Some(links), &nodes, &read, struck, is_sound))
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        cluster.lose(&BTreeSet::new(), Links::All, 0)?;
        let nodes = cluster.nodes();
        Ok(links::prove(None, &nodes, &cluster.losses_percent(&nodes)?, is_sound, is_sound))
    }
}

/// A few may be lost of so many on a machine with much else to do.
fn is_sound(read: Spread) -> bool {
    read.most < u64::from(PERCENTS.0) - POINTS
}
