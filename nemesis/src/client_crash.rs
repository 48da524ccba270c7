//! Clients die, with what they had under way.

use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use riprap_core::Seed;
use riprap_core::cluster::{Cluster, ClusterError, DeadClient, NodeId};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;

static INFO: FaultInfo = FaultInfo {
    name: "client-crash",
    doc: "Some clients die at once, whatever they have under way, and new ones take their places: of each the op ends as info, \
          or a crash is told of one that had none, and its process does nothing more. They say goodbye to nobody: a group misses \
          them at the end of their sessions, a transaction of theirs stays open until somebody ends it. (The op `crash` of a \
          workload closes its client in order.) Proved by the processes that whoever runs clients has let go of. A client library \
          cannot be taken from a thread that is inside a call of it: on a real network what it had sent, and a call that was \
          under way, may have their effect for some seconds more, as packets of a dead client may. Needs no nodes, and is the \
          one fault for a cluster that is there already. Finds groups that keep the keys of members that are gone, transactions \
          that nobody ends, and producers whose successors are not told apart from them.",
    strike_f: "client-crash",
    heal_f: "after-client-crash",
    min_copies: 1,
    shapes: &[
        Shape { name: "one", doc: "One client.", min_nodes: 1 },
        Shape { name: "minority", doc: "Fewer than half of the clients.", min_nodes: 1 },
        Shape { name: "majority", doc: "More than half of the clients.", min_nodes: 1 },
        Shape { name: "all", doc: "All clients.", min_nodes: 1 },
    ],
};

pub(crate) struct ClientCrash;

impl Fault for ClientCrash {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn strikes_nodes(&self) -> bool {
        false
    }

    /// How many clients there are is not known here: what is drawn says which of however many.
    fn aim(&self, shape: &Shape, _: &[NodeId], random: &mut Stream) -> Json {
        // Less than a float holds exactly: others read the plan too.
        json!({"shape": shape.name, "draw": random.random_range(0..1_u64 << 48)})
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let wrong =
            || ClusterError(format!("aim {aim}; {{\"shape\": \"one\", \"draw\": 12345}} is expected"));
        let shape = aim["shape"].as_str().ok_or_else(wrong)?;
        let draw = aim["draw"].as_u64().ok_or_else(wrong)?;
        let threads = pick(shape, cluster.clients(), draw);
        let dead = cluster.crash_clients(&threads)?;
        let distinct: BTreeSet<String> = dead.iter().map(|client| client.process.to_string()).collect();
        let told = |DeadClient { process, op }: &DeadClient| {
            (process.to_string(), op.map_or(json!("idle"), |op| json!(format!("op {op}"))))
        };
        Ok(Effect {
            took_effect: !threads.is_empty() && distinct.len() == threads.len(),
            evidence: Json::Object(dead.iter().map(told).collect::<Map<_, _>>()),
        })
    }

    /// Others have taken their places.
    fn heal(&self, _: &dyn Cluster) -> Result<Effect, ClusterError> {
        Ok(Effect { took_effect: true, evidence: json!({}) })
    }
}

/// The clients that a shape hits, by the numbers of their threads.
fn pick(shape: &str, clients: u32, draw: u64) -> BTreeSet<u32> {
    let count = match shape {
        "one" => 1,
        // One at least: a minority of two clients would be nobody.
        "minority" => (clients.saturating_sub(1) / 2).max(1),
        "majority" => clients / 2 + 1,
        _ => clients,
    };
    let mut threads: Vec<u32> = (0..clients).collect();
    threads.shuffle(&mut Seed(draw).stream("client-crash", "threads"));
    threads.truncate(count as usize);
    threads.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_hits_so_many() {
        for (shape, clients, expected) in [
            ("one", 16, 1),
            ("minority", 16, 7),
            ("majority", 16, 9),
            ("all", 16, 16),
            ("minority", 5, 2),
            ("majority", 5, 3),
            ("minority", 2, 1),
            ("all", 1, 1),
            ("one", 0, 0),
        ] {
            let hit = pick(shape, clients, 7);
            assert_eq!(hit.len(), expected, "{shape} of {clients}");
            assert!(hit.iter().all(|thread| *thread < clients));
        }
        let other: BTreeSet<BTreeSet<u32>> = (0..20).map(|draw| pick("one", 16, draw)).collect();
        assert!(other.len() > 5, "{other:?}");
    }
}
