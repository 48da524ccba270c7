//! A shortest cycle of a component, and its story.

use super::component::Components;
use super::graph::{Graph, Layer, Node, PROCESS, REALTIME, WR, WW};
use crate::index::{Index, IntMap, NONE, TxnId, ValueId};
use crate::proof::Proof;
use crate::verdict::Example;
use std::collections::VecDeque;

/// Edges looked at in one component before the shortest cycle so far is good enough: the shortest of a graph cannot be
/// found in linear time, and in components of some thousand transactions it is found long before.
const MAX_STEPS: usize = 1 << 19;

/// Edges of a cycle that its story tells: nobody follows a longer one.
const MAX_TOLD: usize = 16;

/// Transactions each of which must come before the next, and the last before the first.
pub(super) struct Cycle {
    txns: Vec<TxnId>,
    layer: Layer,
    needs: Layer,
}

impl Cycle {
    /// A shortest cycle of the component with one of the edges that it `needs`.
    pub(super) fn shortest(
        graph: &Graph,
        parts: &Components,
        part: usize,
        layer: Layer,
        needs: Layer,
    ) -> Cycle {
        let mut best: Option<Vec<Node>> = None;
        let mut steps = 0;
        for node in parts.members(part) {
            let max_len = best.as_ref().map_or(usize::MAX, |best| length(graph, best) - 1);
            if max_len < 2 || best.is_some() && steps > MAX_STEPS {
                break;
            }
            if let Some(cycle) = through(graph, parts, part, layer, needs, *node, max_len, &mut steps) {
                best = Some(cycle);
            }
        }
        let txns = best.expect("the component has an edge that is needed, and a path back");
        let txns = txns.into_iter().filter(|node| graph.is_txn(*node)).collect();
        Cycle { txns, layer, needs }
    }

    /// The story and the ops that prove it.
    pub(super) fn tell(self, index: &Index<'_>, graph: &Graph, mut proof: Proof<'_, '_>) -> Example {
        let edges = self.edges(graph);
        let mut told = Vec::new();
        for edge in &edges {
            let (before, after) = (index.op_index(edge.before), index.op_index(edge.after));
            let why = match edge.kind {
                WW => {
                    let place = ww(index, edge.before, edge.after);
                    proof.placed(index.order[place as usize - 1], place - 1);
                    proof.placed(index.order[place as usize], place);
                    format!(
                        "key {} has op {before}'s {} right before op {after}'s {}",
                        index.key_of(index.order[place as usize]).key,
                        index.tell_place(place - 1),
                        index.tell_place(place)
                    )
                }
                WR => {
                    let value = wr(index, edge.before, edge.after);
                    proof.sent_by(edge.before, value);
                    proof.read_by(edge.after, value);
                    format!(
                        "op {after} read key {} {}, which op {before} had sent",
                        index.key_of(value).key,
                        index.tell_placed(value)
                    )
                }
                PROCESS => {
                    let process = index.txn_op(edge.before).process();
                    format!("process {process} did op {before} before op {after}")
                }
                _ => format!("op {before} had ended before op {after} began"),
            };
            told.push(format!("op {before} must come before op {after}, since {why}"));
        }
        let more = match told.len().saturating_sub(MAX_TOLD) {
            0 => String::new(),
            more => format!("; and so on, {more} more"),
        };
        told.truncate(MAX_TOLD);
        let story = format!("{} ops form a cycle: {}{more}", edges.len(), told.join("; "));
        let keys: Vec<_> = edges
            .iter()
            .filter_map(|edge| match edge.kind {
                WW => Some(index.order[ww(index, edge.before, edge.after) as usize]),
                WR => Some(wr(index, edge.before, edge.after)),
                _ => None,
            })
            .map(|value| index.key_of(value).key)
            .collect();
        let key = keys.first().filter(|key| keys.iter().all(|other| other == *key)).copied();
        proof.example(key, story)
    }

    /// The edges, each with the plainest reason for it; a process' steps one after the other are one.
    fn edges(&self, graph: &Graph) -> Vec<Edge> {
        let len = self.txns.len();
        let mut edges: Vec<Edge> = (0..len)
            .map(|n| {
                let (before, after) = (self.txns[n], self.txns[(n + 1) % len]);
                let has = |kind| {
                    self.layer & kind != 0 && graph.predecessors(kind, after).any(|node| node == before)
                };
                let kind = [WW, WR, PROCESS].into_iter().find(|kind| has(*kind)).unwrap_or(REALTIME);
                Edge { before, after, kind }
            })
            .collect();
        // The edge that is needed leads into the first; that it is one must be seen.
        if let Some(edge) = edges.last_mut()
            && self.needs & WR != 0
            && graph.predecessors(WR, edge.after).any(|node| node == edge.before)
        {
            edge.kind = WR;
        }
        let mut merged: Vec<Edge> = Vec::with_capacity(len);
        for edge in edges {
            match merged.last_mut() {
                Some(last) if last.kind == PROCESS && edge.kind == PROCESS => last.after = edge.after,
                _ => merged.push(edge),
            }
        }
        if merged.len() > 2
            && merged[0].kind == PROCESS
            && let Some(last) = merged.pop_if(|last| last.kind == PROCESS)
        {
            merged[0].before = last.before;
        }
        merged
    }
}

struct Edge {
    before: TxnId,
    after: TxnId,
    kind: Layer,
}

/// How many transactions a list of nodes has.
fn length(graph: &Graph, nodes: &[Node]) -> usize {
    nodes.iter().filter(|node| graph.is_txn(**node)).count()
}

/// A shortest cycle through a node into which one of the needed edges leads, of at most so many transactions.
#[allow(clippy::too_many_arguments)]
fn through(
    graph: &Graph,
    parts: &Components,
    part: usize,
    layer: Layer,
    needs: Layer,
    goal: Node,
    max_len: usize,
    steps: &mut usize,
) -> Option<Vec<Node>> {
    // By node: the next one on the way to the goal, and how many transactions there are from it to the goal.
    let mut next = IntMap::<Node, (Node, usize)>::default();
    let mut queue = VecDeque::new();
    let visit = |queue: &mut VecDeque<(Node, usize)>,
                 next: &mut IntMap<Node, (Node, usize)>,
                 node: Node,
                 after: Node,
                 len: usize| {
        let len = len + usize::from(graph.is_txn(node));
        if len > max_len
            || parts.of_node(node) != Some(part)
            || next.get(&node).is_some_and(|(_, known)| *known <= len)
        {
            return;
        }
        next.insert(node, (after, len));
        // Beginnings cost nothing, so what is behind them is as near.
        if graph.is_txn(node) { queue.push_back((node, len)) } else { queue.push_front((node, len)) }
    };
    for before in graph.predecessors(needs, goal).filter(|before| *before != goal) {
        visit(&mut queue, &mut next, before, goal, 0);
    }
    while let Some((node, len)) = queue.pop_front() {
        if next[&node].1 < len {
            continue;
        }
        if node == goal {
            let mut cycle = vec![goal];
            let mut at = next[&goal].0;
            while at != goal {
                cycle.push(at);
                at = next[&at].0;
            }
            return Some(cycle);
        }
        for before in graph.predecessors(layer, node) {
            *steps += 1;
            if before != node {
                visit(&mut queue, &mut next, before, node, len);
            }
        }
    }
    None
}

/// The place at which one transaction wrote right after another.
fn ww(index: &Index<'_>, before: TxnId, after: TxnId) -> u32 {
    let follows = |(key, value, _): (u32, ValueId, _)| {
        let place = index.place[value as usize];
        if place == NONE || place == index.keys[key as usize].places.start {
            return None;
        }
        (index.writer[index.order[place as usize - 1] as usize] == before).then_some(place)
    };
    index.sends(after).find_map(follows).expect("a ww edge has its values")
}

/// The value by which one transaction read from another.
fn wr(index: &Index<'_>, before: TxnId, after: TxnId) -> ValueId {
    let from = |(key, _, values): (u32, _, &[riprap_core::Value])| {
        let key = &index.keys[key as usize];
        values
            .iter()
            .map(|value| index.value_id(key, *value))
            .find(|value| index.writer[*value as usize] == before)
    };
    index.reads(after).find_map(from).expect("a wr edge has its value")
}
