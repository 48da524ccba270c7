//! G-single and G2: cycles with rw edges, Adya's anti-dependencies.
//!
//! Looked at are the components of ww, wr and rw edges that have no cycle of ww and wr edges alone. In such a one there
//! is a G-single if and only if one of its rw edges leads to a writer from which ww and wr edges lead back to the
//! reader. They have no cycle, so who is reached from 64 writers is known after one sweep over the edges, in the order
//! that they give.

use super::component::Components;
use super::graph::{Graph, Layer, Node, RW, WR, WW};
use super::search::{Cycle, Sought};
use super::{G_SINGLE, G2};
use crate::found::Found;
use crate::index::Index;
use crate::options::Options;
use crate::registry::AnomalyInfo;
use crate::verdict::Anomaly;

/// Sweeps over one component: with all of them, 4096 of its writers are looked at, which decides all but huge ones, and
/// cost stays linear. In a component with more, that there is no G-single is not known; it is told as G2.
const MAX_SWEEPS: usize = 64;

/// Writers whose readers are looked for in one sweep: the bits of a word.
const PER_SWEEP: usize = u64::BITS as usize;

/// The edges that are certain.
const PLAIN: Layer = WW | WR;

/// A component, and what is known of it.
#[derive(Clone, Copy)]
enum Which {
    /// Into this transaction leads the one rw edge of a cycle.
    Single(Node),
    /// There is no such transaction.
    No,
    /// There are too many to know.
    Undecided,
}

/// Looks for both kinds.
pub(super) fn look(
    index: &Index<'_>,
    options: &Options,
    graph: &Graph,
) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    let whole = Components::of(graph, PLAIN | RW, None);
    if whole.count() == 0 {
        return Vec::new();
    }
    let plain = Components::of(graph, PLAIN, Some(&whole));
    let mut is_hidden = vec![false; whole.count()];
    for part in 0..plain.count() {
        let within = whole.of_node(plain.members(part)[0]).expect("a part's members are in the whole");
        is_hidden[within] = true;
    }
    let sought = |part, layer| Sought { graph, parts: &whole, part, layer, needs: RW };
    let mut reached = vec![0; graph.nodes(PLAIN) as usize];
    let mut singles = Found::new(options);
    let mut others = Found::new(options);
    for part in (0..whole.count()).filter(|part| !is_hidden[*part]) {
        let mut which = decide(graph, &whole, part, whole.in_order(part, &plain), &mut reached);
        if let Which::Undecided = which {
            // What is found by chance is found.
            let cycle = Cycle::shortest(sought(part, PLAIN | RW), None);
            if let [after] = cycle.after_rw()[..] {
                which = Which::Single(after);
            }
        }
        // The smaller, the easier to understand.
        let badness = u64::MAX - whole.members(part).len() as u64;
        match which {
            Which::Single(after) => singles.add(badness, (part, after)),
            Which::No => others.add(badness, (part, None)),
            Which::Undecided => {
                others.add(badness, (part, Some("one with a single rw edge was not ruled out")));
            }
        }
    }
    let singles = singles.tell(&G_SINGLE, options, index, |(part, after), proof| {
        Cycle::shortest(sought(part, PLAIN), Some(after)).tell(index, proof)
    });
    let others = others.tell(&G2, options, index, |(part, doubt), proof| {
        Cycle::shortest(sought(part, PLAIN | RW), None).doubting(doubt).tell(index, proof)
    });
    singles.into_iter().chain(others).collect()
}

/// Whether a component has a cycle of one rw edge; `order` has its transactions, each behind those that ww and wr edges
/// lead from. `reached` has room for every transaction.
fn decide(graph: &Graph, whole: &Components, part: usize, order: &[Node], reached: &mut [u64]) -> Which {
    let before =
        |layer, node| graph.predecessors(layer, node).filter(|before| whole.of_node(*before) == Some(part));
    let goals: Vec<Node> = order.iter().copied().filter(|node| before(RW, *node).next().is_some()).collect();
    for goals in goals.chunks(PER_SWEEP).take(MAX_SWEEPS) {
        let mut next = goals.iter().zip(0..).peekable();
        for node in order {
            let own = next.next_if(|(goal, _)| *goal == node).map_or(0, |(_, bit)| 1 << bit);
            reached[*node as usize] =
                before(PLAIN, *node).fold(own, |bits, before| bits | reached[before as usize]);
        }
        let closes = |(goal, bit): &(&Node, i32)| {
            before(RW, **goal).any(|reader| reached[reader as usize] >> bit & 1 == 1)
        };
        if let Some((goal, _)) = goals.iter().zip(0..).find(closes) {
            return Which::Single(*goal);
        }
    }
    if goals.len() > PER_SWEEP * MAX_SWEEPS { Which::Undecided } else { Which::No }
}
