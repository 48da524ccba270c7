//! The graph, as lists of predecessors.
//!
//! Its nodes are the transactions and, for realtime, one *beginning* for every invocation, in their order: an edge leads
//! from a transaction that ended to the first beginning after its end, from each beginning to the next, and from each to
//! its own transaction. So a path leads from a transaction to all that began after its end, and there are three edges
//! for each, where all pairs would be quadratic.
//!
//! An rw edge leads from an `ok` transaction that read a key to the writer of the next value behind all that it read of
//! that key: one for each key of each read. A value that it skipped on the way gives none (that is a skip, and told as
//! one), and neither does a key of which it was given nothing.

use super::component::Components;
use crate::index::{Index, IntMap, NONE, TxnId, ValueId};
use crate::options::Options;
use crate::parallel;
use riprap_core::op::{Kind, Process};

/// A set of kinds of edges.
pub(super) type Layer = u8;
pub(super) const WW: Layer = 1;
pub(super) const WR: Layer = 2;
pub(super) const PROCESS: Layer = 4;
pub(super) const REALTIME: Layer = 8;
pub(super) const RW: Layer = 16;

/// A transaction, or a beginning behind all transactions.
pub(super) type Node = u32;

/// A list for each transaction, one behind the other.
struct Lists {
    ends: Vec<u32>,
    items: Vec<TxnId>,
}

impl Lists {
    /// `fill` adds the lists of a piece of all transactions to the items, and notes after each how many there are.
    fn new(len: usize, fill: impl Fn(TxnId, &mut Vec<TxnId>) + Sync) -> Lists {
        let pieces = parallel::pieces(len, |piece| {
            let mut lists = Lists { ends: Vec::with_capacity(piece.len()), items: Vec::new() };
            for txn in piece {
                fill(txn as TxnId, &mut lists.items);
                lists.ends.push(u32::try_from(lists.items.len()).expect("fewer than 2^32 edges"));
            }
            lists
        });
        let mut lists = Lists { ends: Vec::with_capacity(len), items: Vec::new() };
        for piece in pieces {
            let before = u32::try_from(lists.items.len()).expect("fewer than 2^32 edges");
            lists
                .ends
                .extend(piece.ends.iter().map(|end| end.checked_add(before).expect("fewer than 2^32 edges")));
            lists.items.extend(piece.items);
        }
        lists
    }

    fn none() -> Lists {
        Lists { ends: Vec::new(), items: Vec::new() }
    }

    /// The lists that have `of` where these have the list, and the other way round; sorted, each once.
    fn transposed(&self) -> Lists {
        let len = self.ends.len();
        let mut at = vec![0u32; len + 1];
        self.items.iter().for_each(|item| at[*item as usize + 1] += 1);
        (0..len).for_each(|n| at[n + 1] += at[n]);
        let mut items = vec![NONE; self.items.len()];
        for n in 0..len as TxnId {
            for item in self.of(n) {
                let at = &mut at[*item as usize];
                items[*at as usize] = n;
                *at += 1;
            }
        }
        // Each list was filled up to where the next began.
        let mut lists = Lists { ends: Vec::with_capacity(len), items: Vec::with_capacity(items.len()) };
        let mut begin = 0;
        for end in at.into_iter().take(len) {
            let before = lists.items.len();
            for item in &items[begin..end as usize] {
                if lists.items[before..].last() != Some(item) {
                    lists.items.push(*item);
                }
            }
            lists.ends.push(lists.items.len() as u32);
            begin = end as usize;
        }
        lists
    }

    #[inline]
    fn of(&self, txn: TxnId) -> &[TxnId] {
        let txn = txn as usize;
        let begin = if txn == 0 { 0 } else { self.ends[txn - 1] as usize };
        &self.items[begin..self.ends[txn] as usize]
    }
}

/// What must come before what.
pub(super) struct Graph {
    txns: u32,
    ww: Lists,
    wr: Lists,
    rw: Lists,
    /// By transaction: the last `ok` one of the process before it.
    process: Vec<TxnId>,
    /// By transaction: its beginning, as a node.
    beginning: Vec<Node>,
    /// By beginning: how many transactions had ended before it; transactions are in the order of their ends.
    ended: Vec<u32>,
    /// By transaction: whether it is `ok`; an end that may not be one is before nothing.
    ok: Vec<bool>,
}

impl Graph {
    pub(super) fn new(index: &Index<'_>, options: &Options) -> Graph {
        let len = index.txns.len();
        let ww = Lists::new(if options.ww { len } else { 0 }, |txn, before| {
            let begin = before.len();
            for (key, value, _) in index.sends(txn) {
                let place = index.place[value as usize];
                if place == NONE || place == index.keys[key as usize].places.start {
                    continue;
                }
                let writer = index.writer[index.order[place as usize - 1] as usize];
                add(before, begin, txn, writer);
            }
        });
        let wr = Lists::new(len, |txn, before| {
            let begin = before.len();
            for (key, _, values) in index.reads(txn) {
                let key = &index.keys[key as usize];
                for value in values {
                    add(before, begin, txn, index.writer[index.value_id(key, *value) as usize]);
                }
            }
        });
        let rw = if options.rw && !options.jepsen() { stops(index) } else { Lists::none() };
        let (beginning, ended) = beginnings(index);
        let ok = index.txns.iter().map(|txn| txn.kind == Kind::Ok).collect();
        Graph { txns: len as u32, ww, wr, rw, process: processes(index), beginning, ended, ok }
    }

    /// How many nodes a graph of these edges has.
    pub(super) fn nodes(&self, layer: Layer) -> u32 {
        self.txns + if layer & REALTIME != 0 { self.ended.len() as u32 } else { 0 }
    }

    pub(super) fn is_txn(&self, node: Node) -> bool {
        node < self.txns
    }

    pub(super) fn has_ww(&self) -> bool {
        !self.ww.items.is_empty()
    }

    /// The `n`th predecessor of a node; `None` past the last.
    #[inline]
    pub(super) fn predecessor(&self, layer: Layer, node: Node, n: u32) -> Option<Node> {
        let mut n = n as usize;
        if node >= self.txns {
            if layer & REALTIME == 0 {
                return None;
            }
            let beginning = (node - self.txns) as usize;
            if beginning > 0 {
                if n == 0 {
                    return Some(node - 1);
                }
                n -= 1;
            }
            let from = if beginning == 0 { 0 } else { self.ended[beginning - 1] };
            let txn = from + n as u32;
            // One that is not ok stands in the list as its own neighbour, the beginning itself: an edge to nowhere.
            return (txn < self.ended[beginning]).then(|| if self.ok[txn as usize] { txn } else { node });
        }
        for (kind, lists) in [(WW, &self.ww), (WR, &self.wr), (RW, &self.rw)] {
            if layer & kind != 0 && !lists.ends.is_empty() {
                let list = lists.of(node);
                if let Some(txn) = list.get(n) {
                    return Some(*txn);
                }
                n -= list.len();
            }
        }
        for (kind, column) in [(PROCESS, &self.process), (REALTIME, &self.beginning)] {
            if layer & kind != 0 && column[node as usize] != NONE {
                if n == 0 {
                    return Some(column[node as usize]);
                }
                n -= 1;
            }
        }
        None
    }

    /// All predecessors of a node.
    pub(super) fn predecessors(&self, layer: Layer, node: Node) -> impl Iterator<Item = Node> {
        (0..).map_while(move |n| self.predecessor(layer, node, n))
    }

    /// Whether one of these edges leads from a member of this component to another.
    pub(super) fn has_edge_within(&self, needs: Layer, parts: &Components, part: usize) -> bool {
        parts.members(part).iter().any(|node| {
            self.predecessors(needs, *node)
                .any(|before| before != *node && parts.of_node(before) == Some(part))
        })
    }
}

/// Adds an edge, unless it leads nowhere or was just added.
#[inline]
fn add(before: &mut Vec<TxnId>, begin: usize, txn: TxnId, writer: TxnId) {
    if writer != NONE && writer != txn && before[begin..].last() != Some(&writer) {
        before.push(writer);
    }
}

/// By transaction that wrote: those that stopped reading a key right before a value of it.
fn stops(index: &Index<'_>) -> Lists {
    // Told once for each: one that is undecided is looked at whole.
    let committed: Vec<bool> =
        (0..index.txns.len() as TxnId).map(|txn| index.must_have_committed(txn)).collect();
    let writers = Lists::new(index.txns.len(), |txn, after| {
        let begin = after.len();
        for (_, next) in stops_of(index, txn) {
            let writer = index.writer[index.order[next as usize] as usize];
            if writer != NONE && committed[writer as usize] {
                add(after, begin, txn, writer);
            }
        }
    });
    writers.transposed()
}

/// Where a transaction stopped reading: for each key the last value of it that was read, and the place of the next one.
pub(super) fn stops_of(index: &Index<'_>, txn: TxnId) -> Vec<(ValueId, u32)> {
    if index.txns[txn as usize].kind != Kind::Ok {
        return Vec::new();
    }
    let mut reaches: Vec<(u32, u32, ValueId)> = Vec::new();
    for (id, _, values) in index.reads(txn) {
        let key = &index.keys[id as usize];
        let values = values.iter().map(|value| index.value_id(key, *value));
        let places = values.map(|value| (index.last_place[value as usize], value));
        reaches.extend(
            places.filter(|(place, _)| *place != NONE).max().map(|(place, value)| (id, place, value)),
        );
    }
    reaches.sort_unstable();
    let last_of_key = reaches.chunk_by(|a, b| a.0 == b.0).filter_map(<[_]>::last);
    let next = last_of_key.map(|(key, place, value)| (*key, *value, place + 1));
    // A value that stands again later counts there.
    next.filter(|(key, _, next)| {
        *next < index.keys[*key as usize].places.end
            && index.place[index.order[*next as usize] as usize] == *next
    })
    .map(|(_, value, next)| (value, next))
    .collect()
}

fn processes(index: &Index<'_>) -> Vec<TxnId> {
    let mut last = IntMap::<u32, TxnId>::default();
    let mut before = Vec::with_capacity(index.txns.len());
    for txn in 0..index.txns.len() as TxnId {
        let Process::Client(process) = index.txn_op(txn).process() else {
            before.push(NONE);
            continue;
        };
        before.push(last.get(&process).copied().unwrap_or(NONE));
        if index.txns[txn as usize].kind == Kind::Ok {
            last.insert(process, txn);
        }
    }
    before
}

/// By transaction, its beginning as a node; by beginning, how many transactions had ended before.
fn beginnings(index: &Index<'_>) -> (Vec<Node>, Vec<u32>) {
    let txns = index.txns.len() as u32;
    let mut invocations: Vec<(u32, TxnId)> = Vec::with_capacity(index.txns.len());
    for txn in 0..txns {
        let op = index.txn_op(txn);
        let invocation = if op.kind() == Kind::Invoke { Some(op) } else { op.partner() };
        invocations.extend(invocation.map(|op| (op.row() as u32, txn)));
    }
    invocations.sort_unstable();
    let mut beginning = vec![NONE; index.txns.len()];
    let mut ended = Vec::with_capacity(invocations.len());
    let mut end = 0;
    let completed = index.completions().end;
    for (number, (row, txn)) in invocations.into_iter().enumerate() {
        while end < completed && index.txns[end as usize].row < row {
            end += 1;
        }
        beginning[txn as usize] = txns + number as u32;
        ended.push(end);
    }
    (beginning, ended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mini;

    /// All pairs of an end and a later beginning, by so few edges.
    #[test]
    fn realtime_has_three_edges_for_each_transaction() {
        const LEN: usize = 60;
        // In rounds of ever more at once: all begin, then all end.
        let mut words = Vec::new();
        let mut begun = 0;
        for round in 1.. {
            let round = begun..LEN.min(begun + round);
            words.extend(round.clone().map(|n| format!("<{n}/s5={n}")));
            words.extend(round.clone().map(|n| format!(">{n}/s5={n}")));
            begun = round.end;
            if begun == LEN {
                break;
            }
        }
        let history = mini::parse(&words.join(" "));
        let index = Index::new(&history);
        let graph = Graph::new(&index, &Options::default());
        let nodes = graph.nodes(REALTIME);
        let edges: usize = (0..nodes).map(|node| graph.predecessors(REALTIME, node).count()).sum();
        assert!(edges <= 3 * LEN, "{edges} edges");
        for after in 0..LEN as TxnId {
            let mut reached = vec![false; nodes as usize];
            let mut next = vec![after];
            while let Some(node) = next.pop() {
                if !std::mem::replace(&mut reached[node as usize], true) {
                    next.extend(graph.predecessors(REALTIME, node));
                }
            }
            let begin = index.txn_op(after).partner().expect("it was begun").row();
            for before in (0..LEN as TxnId).filter(|before| *before != after) {
                let is_before = index.txn_op(before).row() < begin;
                assert_eq!(reached[before as usize], is_before, "{before} before {after}");
            }
        }
    }

    /// Duplicates go, order stays: who stopped before whose record.
    #[test]
    fn lists_are_transposed() {
        let lists = [vec![3, 1, 3], vec![], vec![1, 0], vec![1]];
        let lists = Lists::new(lists.len(), |n, items| items.extend(&lists[n as usize]));
        let transposed = lists.transposed();
        let all: Vec<&[TxnId]> = (0..4).map(|n| transposed.of(n)).collect();
        assert_eq!(all, [&[2][..], &[0, 2, 3], &[], &[0]]);
    }
}
