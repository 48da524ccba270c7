//! Strongly connected components, by Tarjan's algorithm without recursion: linear in nodes and edges.
//! Source: Tarjan, Depth-first search and linear graph algorithms, 1972.

use super::graph::{Graph, Layer, Node};
use crate::index::NONE;

/// The components of more than one node.
pub(super) struct Components {
    /// By node: its component; none if it is alone.
    of_node: Vec<u32>,
    /// The members of all components, one component behind the other; each component's transactions come first.
    members: Vec<Node>,
    ends: Vec<u32>,
    /// The nodes of the components that these are within, one component behind the other; in each, where there is no
    /// cycle among these edges, every node stands behind its predecessors.
    order: Vec<Node>,
}

impl Components {
    /// The components of the graph of these edges; if `within` is given, of only those that lie within one of its
    /// components.
    pub(super) fn of(graph: &Graph, layer: Layer, within: Option<&Components>) -> Components {
        let nodes = graph.nodes(layer);
        let mut found = Components {
            of_node: vec![NONE; nodes as usize],
            members: Vec::new(),
            ends: Vec::new(),
            order: Vec::new(),
        };
        let mut search = Search {
            graph,
            layer,
            within,
            order: vec![NONE; nodes as usize],
            low: vec![NONE; nodes as usize],
            next: 0,
            path: Vec::new(),
            open: Vec::new(),
        };
        match within {
            None => (0..nodes).for_each(|node| search.from(node, &mut found)),
            Some(within) => {
                within
                    .members
                    .iter()
                    .filter(|node| **node < nodes)
                    .for_each(|node| search.from(*node, &mut found));
            }
        }
        found
    }

    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// The component that a node is in.
    #[inline]
    pub(super) fn of_node(&self, node: Node) -> Option<usize> {
        self.of_node.get(node as usize).filter(|part| **part != NONE).map(|part| *part as usize)
    }

    pub(super) fn members(&self, part: usize) -> &[Node] {
        &self.members[self.range(part)]
    }

    /// The members of a component in the order that was found within these components: each behind its predecessors,
    /// unless it is in a cycle. Both graphs have the same nodes.
    pub(super) fn in_order<'a>(&self, part: usize, found: &'a Components) -> &'a [Node] {
        &found.order[self.range(part)]
    }

    fn range(&self, part: usize) -> std::ops::Range<usize> {
        let begin = if part == 0 { 0 } else { self.ends[part - 1] as usize };
        begin..self.ends[part] as usize
    }
}

struct Search<'a> {
    graph: &'a Graph,
    layer: Layer,
    within: Option<&'a Components>,
    /// By node: when it was first met.
    order: Vec<u32>,
    /// By node: the earliest node that is known to be reachable from it and open; [`DONE`] once its component is known.
    low: Vec<u32>,
    next: u32,
    /// The nodes that are being looked at, each with the number of its next predecessor.
    path: Vec<(Node, u32)>,
    /// The nodes whose component is not known yet.
    open: Vec<Node>,
}

/// The component is known. Met later than all, so that it never is the earliest.
const DONE: u32 = NONE;

impl Search<'_> {
    fn from(&mut self, root: Node, found: &mut Components) {
        if self.order[root as usize] != NONE {
            return;
        }
        self.enter(root);
        while let Some((node, n)) = self.path.last_mut() {
            let node = *node;
            if let Some(before) = self.graph.predecessor(self.layer, node, *n) {
                *n += 1;
                if self.within.is_some_and(|within| within.of_node(before) != within.of_node(node)) {
                    continue;
                }
                if self.order[before as usize] == NONE {
                    self.enter(before);
                } else if self.low[before as usize] != DONE {
                    let low = &mut self.low[node as usize];
                    *low = (*low).min(self.order[before as usize]);
                }
                continue;
            }
            self.path.pop();
            let low = self.low[node as usize];
            if let Some((after, _)) = self.path.last() {
                let after = &mut self.low[*after as usize];
                *after = (*after).min(low);
            }
            if low == self.order[node as usize] {
                self.leave(node, found);
            }
        }
    }

    fn enter(&mut self, node: Node) {
        self.order[node as usize] = self.next;
        self.low[node as usize] = self.next;
        self.next += 1;
        self.path.push((node, 0));
        self.open.push(node);
    }

    /// All nodes opened since this one are its component.
    fn leave(&mut self, node: Node, found: &mut Components) {
        let begin = self.open.iter().rposition(|open| *open == node).expect("a node is open until its end");
        let mut members = self.open.split_off(begin);
        members.iter().for_each(|member| self.low[*member as usize] = DONE);
        if self.within.is_some() {
            found.order.extend(&members);
        }
        if members.len() > 1 {
            members.sort_unstable();
            let part = found.ends.len() as u32;
            members.iter().for_each(|member| found.of_node[*member as usize] = part);
            found.members.extend(members);
            found.ends.push(found.members.len() as u32);
        }
    }
}
