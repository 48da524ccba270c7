//! A shortest cycle of a component, and its story.

use super::component::Components;
use super::graph::{Graph, Layer, Node, PROCESS, REALTIME, RW, WR, WW, stops_of};
use crate::index::{Index, IntMap, NONE, TxnId, ValueId};
use crate::proof::Proof;
use crate::verdict::Example;
use std::collections::VecDeque;

/// Edges looked at in one component before the shortest cycle so far is good enough: the shortest of a graph cannot be
/// found in linear time, and in components of some thousand transactions it is found long before.
const MAX_STEPS: usize = 1 << 19;

/// Edges of a cycle that its story tells: nobody follows a longer one.
const MAX_TOLD: usize = 16;

/// Which cycles are looked for: those in one component of which one edge is needed and all others are of a layer.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    pub(super) graph: &'a Graph,
    pub(super) parts: &'a Components,
    pub(super) part: usize,
    pub(super) layer: Layer,
    /// One of these edges must be in it.
    pub(super) needs: Layer,
}

/// Transactions each of which must come before the next, and the last before the first.
pub(super) struct Cycle<'a> {
    sought: Sought<'a>,
    txns: Vec<TxnId>,
    /// What the story must not pass over in silence.
    doubts: Vec<&'static str>,
}

impl<'a> Cycle<'a> {
    /// A shortest of these cycles. If not every needed edge has one, `first` is where one leads that does.
    pub(super) fn shortest(sought: Sought<'a>, first: Option<Node>) -> Cycle<'a> {
        let mut best: Option<Vec<Node>> = None;
        let mut max_len = usize::MAX;
        let mut steps = 0;
        let mut doubts = Vec::new();
        for node in first.iter().chain(sought.parts.members(sought.part)) {
            if max_len < 2 {
                break;
            }
            if best.is_some() && steps > MAX_STEPS {
                doubts.push("a shorter one was not ruled out");
                break;
            }
            if let Some(cycle) = sought.through(*node, max_len, &mut steps) {
                max_len = cycle.iter().filter(|node| sought.graph.is_txn(**node)).count() - 1;
                best = Some(cycle);
            }
        }
        let txns = best.expect("the component has an edge that is needed, and a path back");
        let txns = txns.into_iter().filter(|node| sought.graph.is_txn(*node)).collect();
        Cycle { sought, txns, doubts }
    }

    /// The same cycle, of which one more thing is not known.
    pub(super) fn doubting(mut self, doubt: Option<&'static str>) -> Cycle<'a> {
        self.doubts.extend(doubt);
        self
    }

    /// Into which transactions its rw edges lead.
    pub(super) fn after_rw(&self) -> Vec<TxnId> {
        self.edges().into_iter().filter(|edge| edge.kind == RW).map(|edge| edge.after).collect()
    }

    /// The story and the ops that prove it.
    pub(super) fn tell(self, index: &Index<'_>, mut proof: Proof<'_, '_>) -> Example {
        let edges = self.edges();
        let mut told = Vec::new();
        let mut keys = Vec::new();
        for edge in &edges {
            let (before, after) = (index.op_index(edge.before), index.op_index(edge.after));
            let (why, value) = match edge.kind {
                WW => {
                    let place = ww(index, edge.before, edge.after);
                    let [value, next] = [place - 1, place].map(|place| index.order[place as usize]);
                    proof.placed(value, place - 1);
                    proof.placed(next, place);
                    let why = format!(
                        "key {} has op {before}'s {} right before op {after}'s {}",
                        index.key_of(next).key,
                        index.tell_place(place - 1),
                        index.tell_place(place)
                    );
                    (why, Some(next))
                }
                WR => {
                    let value = wr(index, edge.before, edge.after);
                    proof.sent_by(edge.before, value);
                    proof.read_by(edge.after, value);
                    let why = format!(
                        "op {after} read key {} {}, which op {before} had sent",
                        index.key_of(value).key,
                        index.tell_placed(value)
                    );
                    (why, Some(value))
                }
                RW => {
                    let (value, place) = rw(index, edge.before, edge.after);
                    proof.read_by(edge.before, value);
                    proof.placed(value, place - 1);
                    proof.placed(index.order[place as usize], place);
                    let why = format!(
                        "op {before} read key {} up to value {} at offset {}, right before op {after}'s {}",
                        index.key_of(value).key,
                        index.value(value),
                        index.order_offset[place as usize - 1],
                        index.tell_place(place)
                    );
                    (why, Some(value))
                }
                PROCESS => {
                    let process = index.txn_op(edge.before).process();
                    (format!("process {process} did op {before} before op {after}"), None)
                }
                _ => (format!("op {before} had ended before op {after} began"), None),
            };
            keys.extend(value.map(|value| index.key_of(value).key));
            told.push(format!("op {before} must come before op {after}, since {why}"));
        }
        keys.sort_unstable();
        keys.dedup();
        if self.sought.layer & RW != 0 && !self.sought.graph.has_ww() {
            // A read that is cut down stops earlier, and the next value that is kept may be one from which the way is
            // shorter than from the next one that there was; with ww edges it is the same way.
            for edge in &edges {
                for (value, next) in stops_of(index, edge.before) {
                    if keys.binary_search(&index.key_of(value).key).is_ok() {
                        proof.read_by(edge.before, value);
                        proof.placed(value, next - 1);
                        proof.placed(index.order[next as usize], next);
                    }
                }
            }
        }
        let more = match told.len().saturating_sub(MAX_TOLD) {
            0 => String::new(),
            more => format!("; and so on, {more} more"),
        };
        told.truncate(MAX_TOLD);
        let doubts: String = self.doubts.iter().map(|doubt| format!(" ({doubt})")).collect();
        let story = format!("{} ops form a cycle{doubts}: {}{more}", edges.len(), told.join("; "));
        let key = if let [key] = keys[..] { Some(key) } else { None };
        proof.example(key, story)
    }

    /// The edges, each with the plainest reason for it; a process' steps one after the other are one.
    fn edges(&self) -> Vec<Edge> {
        let Sought { graph, layer, needs, .. } = self.sought;
        let len = self.txns.len();
        let mut edges: Vec<Edge> = (0..len)
            .map(|n| {
                let (before, after) = (self.txns[n], self.txns[(n + 1) % len]);
                let layer = if n + 1 == len { layer | needs } else { layer };
                let has =
                    |kind| layer & kind != 0 && graph.predecessors(kind, after).any(|node| node == before);
                let kind = [WW, WR, RW, PROCESS].into_iter().find(|kind| has(*kind)).unwrap_or(REALTIME);
                Edge { before, after, kind }
            })
            .collect();
        // The edge that is needed leads into the first; that it is one must be seen.
        if let Some(edge) = edges.last_mut()
            && needs & WR != 0
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

impl Sought<'_> {
    /// A shortest cycle through a node into which one of the needed edges leads, of at most so many transactions.
    fn through(&self, goal: Node, max_len: usize, steps: &mut usize) -> Option<Vec<Node>> {
        let graph = self.graph;
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
                || self.parts.of_node(node) != Some(self.part)
                || next.get(&node).is_some_and(|(_, known)| *known <= len)
            {
                return;
            }
            next.insert(node, (after, len));
            // Beginnings cost nothing, so what is behind them is as near.
            if graph.is_txn(node) { queue.push_back((node, len)) } else { queue.push_front((node, len)) }
        };
        for before in graph.predecessors(self.needs, goal).filter(|before| *before != goal) {
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
            for before in graph.predecessors(self.layer, node) {
                *steps += 1;
                if before != node {
                    visit(&mut queue, &mut next, before, node, len);
                }
            }
        }
        None
    }
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

/// Where one transaction stopped reading right before another's value: the last value it read, and that one's place.
fn rw(index: &Index<'_>, before: TxnId, after: TxnId) -> (ValueId, u32) {
    let writes = |(_, next): &(ValueId, u32)| index.writer[index.order[*next as usize] as usize] == after;
    stops_of(index, before).into_iter().find(writes).expect("an rw edge has its values")
}
