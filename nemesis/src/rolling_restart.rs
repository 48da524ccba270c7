//! Nodes are restarted in order, one after another, as whoever runs a cluster does to change its settings.

use rand::seq::SliceRandom as _;
use riprap_core::cluster::{Cluster, ClusterError, NodeId, Roll, Turn, Turns};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Map, Value as Json, json};

static INFO: FaultInfo = FaultInfo {
    name: "rolling-restart",
    doc: "Nodes end in order (SIGTERM; killed if they do not heed it within 15 s) and start again, one after another in an order \
          that is drawn, the next when the one before serves again, or after 30 s. It is held for --fault-time for each \
          node, and goes no further when that is over: a system whose nodes take long to come back, as Apache Kafka's do, needs a \
          longer one to get round (--fault-time 15s). Proved by the operating system's word that the first process has ended and another runs; of each \
          later node the same is told when it is healed. Healed by going no further: no node is ever left down. One that \
          another fault has killed or paused is passed over. In order, a node may hand over what it leads, and leave a clean \
          disk: this finds what kills do not, systems that lose records, refuse clients or forget their groups as leaders move on \
          purpose.",
    strike_f: "rolling-restart",
    heal_f: "end-rolling-restart",
    min_copies: 1,
    shapes: &[Shape { name: "round", doc: "Every node, one after another.", min_nodes: 1 }],
};

pub(crate) struct RollingRestart;

impl Fault for RollingRestart {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    /// A simulated node has no signal to heed.
    fn strikes_simulated(&self) -> bool {
        false
    }

    fn held_ms(&self, _: u64, most_ms: u64, nodes: usize) -> u64 {
        most_ms * nodes as u64
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        aim(shape, nodes, random)
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let nodes = crate::nodes(aim)?;
        Ok(prove(&nodes, &cluster.roll(Roll::Restart, &nodes)?))
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        Ok(prove(&[], &cluster.end_roll(Roll::Restart)?))
    }
}

/// An aim at all nodes, in an order.
pub(crate) fn aim(shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
    let mut order: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
    order.shuffle(random);
    json!({"shape": shape.name, "nodes": order})
}

/// Whether each node's turn made another process of it, with what it was; and which are to come.
pub(crate) fn prove(nodes: &[NodeId], turns: &Turns) -> Effect {
    let mut evidence = Map::new();
    let mut took_effect = true;
    for (node, turn) in turns {
        let told = match turn {
            Turn::PassedOver { was } => json!(format!("passed over: {was}")),
            Turn::Restarted { was_pid, ended, pid, runs, serves_after_ms } => {
                took_effect &= was_pid != pid;
                let mut told = json!({"ended": ended, "was-pid": was_pid, "pid": pid});
                if let Some(runs) = runs {
                    told["runs"] = runs.as_str().into();
                }
                if let Some(ms) = serves_after_ms {
                    told["serves-after-ms"] = (*ms).into();
                }
                told
            }
        };
        evidence.insert(node.to_string(), told);
    }
    let to_come = nodes.iter().filter(|node| turns.iter().all(|(had, _)| had != *node));
    let to_come: Vec<String> = to_come.map(NodeId::to_string).collect();
    // One that was aimed at nodes of which none had its turn did nothing.
    took_effect &= nodes.is_empty() || !turns.is_empty();
    if !to_come.is_empty() {
        evidence.insert("to-come".to_owned(), to_come.into());
    }
    Effect { took_effect, evidence: Json::Object(evidence) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_core::Seed;
    use std::collections::BTreeSet;

    #[test]
    fn a_turn_is_proved_by_another_process() {
        let restarted = |was_pid, pid| Turn::Restarted {
            was_pid,
            ended: "exit status: 0".to_owned(),
            pid,
            runs: None,
            serves_after_ms: Some(412),
        };
        let check = |turns: &[(u16, Turn)], expected: bool, told: Json| {
            let turns: Turns = turns.iter().map(|(node, turn)| (NodeId(*node), turn.clone())).collect();
            let effect = prove(&[NodeId(2), NodeId(1)], &turns);
            assert_eq!((effect.took_effect, effect.evidence), (expected, told));
        };
        check(&[], false, json!({"to-come": ["n2", "n1"]}));
        let n2 = json!({"ended": "exit status: 0", "was-pid": 7, "pid": 9, "serves-after-ms": 412});
        check(&[(2, restarted(7, 9))], true, json!({"n2": n2, "to-come": ["n1"]}));
        let was = || Turn::PassedOver { was: "down: killed".to_owned() };
        let n1 = "passed over: down: killed";
        check(&[(2, restarted(7, 9)), (1, was())], true, json!({"n2": n2, "n1": n1}));
        check(&[(2, was()), (1, was())], true, json!({"n2": n1, "n1": n1}));
        let same = json!({"ended": "exit status: 0", "was-pid": 7, "pid": 7, "serves-after-ms": 412});
        check(&[(2, restarted(7, 7))], false, json!({"n2": same, "to-come": ["n1"]}));
    }

    #[test]
    fn every_node_has_its_turn_in_some_order() {
        let mut random = Seed(1).stream("test", "order");
        let orders: BTreeSet<Vec<NodeId>> = (0..20)
            .map(|_| {
                let aim = aim(&INFO.shapes[0], &NodeId::first(3), &mut random);
                let order = crate::nodes(&aim).expect("nodes");
                assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 3);
                order
            })
            .collect();
        assert!(orders.len() > 1);
    }
}
