//! G0 and G1c: transactions that each had to come before the other.
//!
//! ```text
//! (s5=1@0 s6=1@1) (s6=2@0 s5=2@1)                    G0: each one's records come before the other's somewhere
//! (s5=1@0 p6:1=1) 1/(s5=2@1 s6=1@1)                  G1c: the second wrote after the first, which read from it
//! (s5=1@0 p6:0=1) 1/(s6=1@0 p5:0=1)                  G1c-wr: each read what the other had sent
//! s5=1@1 1/s5=2@0 2/p5:0=2,1=1                       G0-realtime: the second began when the first had ended
//! ```
//!
//! The edges between transactions, by Adya: *ww*, to the writer of the next value in the version order; *wr*, to every
//! reader of a value; by Elle: *process*, to what the process did next; *realtime*, to all that began after its end.
//!
//! If asked for ([`Options::rw`]), *rw* too: from a transaction that read a key up to a value to the writer of the next
//! one, if that must have committed.
//!
//! ```text
//! s5=1@0 (s5=2@1 s6=1@0) 1/p5:0=1;6:0=1              G-single: of what the second wrote, one part was read
//! (p5:0=1 s6=2@1) 1/(p6:0=1 s5=2@1)                  G2: neither saw what the other wrote
//! ```
//!
//! In a database such a cycle says that there is no order of whole transactions: the reader's snapshot lies before a
//! write and yet holds, or leads to, what came of it. A log has no snapshots. A poll returns some of what there is,
//! from where the consumer stands up to a limit that nobody knows: bytes, time, one partition after another, the last
//! stable offset of each. That a record is missing does not prove that the reader came before its writer, and a Kafka
//! that keeps all its promises shows both kinds to consumers of several partitions. So they are allowed always: a hint
//! of how torn consumers see what was written as one, not a fault. To look past what ww edges say, which in a busy log
//! hide nearly all, leave them out ([`Options::ww`]). Process and realtime edges are not looked at together with rw
//! edges.
//!
//! A component of ww, wr and rw edges is a *G-single* if one of its cycles has one rw edge, and else a *G2*; it is
//! neither if it has a cycle of ww and wr edges alone, which is told by itself. That a component has no G-single is
//! found out for up to 4096 writers to which rw edges lead; one with more is told as G2, and the story says so, unless
//! a G-single comes to light.
//!
//! One occurrence is one strongly connected component, and its example one shortest cycle in it; in components of many
//! thousand transactions that cannot be known in linear time, and the story says so. As in Elle, one that contains a
//! plainer anomaly is not told again as a subtler one: within a component of all edges a G0 hides all else, G1c hides
//! G1c-process, and so on. Counts therefore depend on what hangs together, here as in Jepsen.
//!
//! A log never isolates writes, so G0 happens all the time, and so does G1c with a ww edge in it; they are allowed. G1c
//! by wr edges alone is not, if consumers are only shown what is committed: it is told apart as *G1c-wr*. Jepsen does
//! not tell it apart (with ww edges on it lets a pure wr cycle pass), nor *-process* from *-realtime*; with its
//! guarantees chosen, neither does this check. Where Jepsen says `empty-transaction-graph`, there is nothing to say.

mod anti;
mod component;
mod graph;
mod search;

use self::component::Components;
use self::graph::{Graph, Layer, PROCESS, REALTIME, WR, WW};
use self::search::{Cycle, Sought};
use crate::found::Found;
use crate::index::Index;
use crate::options::Options;
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "cycles",
    doc: "transactions can be put in one order that logs, readers, processes and clocks agree with",
    anomalies: &[
        G_SINGLE,
        G0,
        G0_PROCESS,
        G0_REALTIME,
        G1C,
        G1C_PROCESS,
        G1C_REALTIME,
        G1C_WR,
        G1C_WR_PROCESS,
        G1C_WR_REALTIME,
        G2,
    ],
    run,
};

const SOURCE: &str = "Adya, Liskov, O'Neil: Generalized Isolation Level Definitions, 2000";
const SOURCE_ELLE: &str = "Kingsbury, Alvaro: Elle, 2020; elle.txn";
const SOURCE_RW: &str = "Adya: Weak Consistency, 1999; elle.txn";
const SOURCE_WR: &str = "Kafka's documentation of read_committed; KIP-98";

const fn info(
    name: &'static str,
    meaning: &'static str,
    source: &'static str,
    severity: Severity,
    allowed: fn(&Options) -> bool,
) -> AnomalyInfo {
    AnomalyInfo { name, meaning, source, severity, allowed }
}

const G_SINGLE: AnomalyInfo = info(
    "G-single",
    "with rw edges: transactions form a cycle in which one of them, once, read up to right before what another wrote",
    SOURCE_RW,
    Severity::Note,
    |_| true,
);
const G0: AnomalyInfo = info(
    "G0",
    "operations whose writes cannot be put in one order: the logs have them in different orders",
    SOURCE,
    Severity::Note,
    |_| true,
);
const G0_PROCESS: AnomalyInfo = info(
    "G0-process",
    "the logs' orders of writes contradict the order in which a process did them",
    SOURCE_ELLE,
    Severity::Note,
    |_| true,
);
const G0_REALTIME: AnomalyInfo = info(
    "G0-realtime",
    "the logs' orders of writes contradict which transaction had ended before which began",
    SOURCE_ELLE,
    Severity::Note,
    |_| true,
);
const G1C: AnomalyInfo = info(
    "G1c",
    "transactions form a cycle of writing after and reading from each other",
    SOURCE,
    Severity::Note,
    flow_with_writes,
);
const G1C_PROCESS: AnomalyInfo = info(
    "G1c-process",
    "writing after and reading from each other contradicts the order in which a process did it",
    SOURCE_ELLE,
    Severity::Note,
    flow_with_writes,
);
const G1C_REALTIME: AnomalyInfo = info(
    "G1c-realtime",
    "writing after and reading from each other contradicts which transaction had ended before which began",
    SOURCE_ELLE,
    Severity::Note,
    flow_with_writes,
);
const G1C_WR: AnomalyInfo = info(
    "G1c-wr",
    "transactions read from each other in a cycle, so that one read what was not yet committed",
    SOURCE_WR,
    Severity::Isolation,
    flow,
);
const G1C_WR_PROCESS: AnomalyInfo = info(
    "G1c-wr-process",
    "a transaction read, by way of others, from what its process did later",
    SOURCE_WR,
    Severity::Isolation,
    flow,
);
const G1C_WR_REALTIME: AnomalyInfo = info(
    "G1c-wr-realtime",
    "a transaction read, by way of others, from what began after its end",
    SOURCE_WR,
    Severity::Isolation,
    flow,
);

const G2: AnomalyInfo = info(
    "G2",
    "with rw edges: the same, several times in the cycle; none was found in which it happened once",
    SOURCE_RW,
    Severity::Note,
    |_| true,
);

/// Writes are not isolated, so cycles that need a ww edge happen; Jepsen's name stands for the others too.
fn flow_with_writes(options: &Options) -> bool {
    !options.jepsen() || options.ww
}

/// Nobody reads from a transaction before its end, if only what is committed is shown.
fn flow(options: &Options) -> bool {
    !options.jepsen() && !options.committed_only()
}

/// One kind of cycle to look for.
struct Kind {
    info: &'static AnomalyInfo,
    /// The edges it is made of.
    layer: Layer,
    /// One of these edges must be in it.
    needs: Layer,
    /// The kinds that hide it, by their places in the list.
    hidden_by: &'static [usize],
}

/// In Elle's order: the plainer first, each hidden by those that imply it.
fn kinds(options: &Options) -> Vec<Vec<Kind>> {
    let kind = |info, layer, needs, hidden_by| Kind { info, layer, needs, hidden_by };
    if options.jepsen() {
        return vec![vec![
            kind(&G0, WW, WW, &[]),
            kind(&G1C, WW | WR, WR, &[0]),
            kind(&G0_REALTIME, WW | REALTIME, REALTIME, &[0]),
            kind(&G1C_REALTIME, WW | WR | REALTIME, REALTIME, &[0, 1, 2]),
        ]];
    }
    vec![
        vec![
            kind(&G0, WW, WW, &[]),
            kind(&G1C, WW | WR, WW, &[0]),
            kind(&G0_PROCESS, WW | PROCESS, PROCESS, &[0]),
            kind(&G1C_PROCESS, WW | WR | PROCESS, WW, &[0, 1, 2]),
            kind(&G0_REALTIME, WW | REALTIME, REALTIME, &[0, 2]),
            kind(&G1C_REALTIME, WW | WR | REALTIME, WW, &[0, 1, 2, 3, 4]),
        ],
        vec![
            kind(&G1C_WR, WR, WR, &[]),
            kind(&G1C_WR_PROCESS, WR | PROCESS, PROCESS, &[0]),
            kind(&G1C_WR_REALTIME, WR | REALTIME, REALTIME, &[0, 1]),
        ],
    ]
}

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    let graph = Graph::new(index, options);
    let mut found: Vec<_> =
        kinds(options).iter().flat_map(|kinds| family(index, options, &graph, kinds)).collect();
    if options.rw && !options.jepsen() {
        found.extend(anti::look(index, options, &graph));
    }
    found
}

/// Looks for kinds of cycles of which the last one's edges are all that there are.
fn family(
    index: &Index<'_>,
    options: &Options,
    graph: &Graph,
    kinds: &[Kind],
) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    let all = kinds.last().map_or(0, |kind| kind.layer);
    let whole = Components::of(graph, all, None);
    // Mostly there is no cycle at all, and nothing more to look at.
    if whole.count() == 0 {
        return Vec::new();
    }
    // By component of the whole: the kinds that were found in it, as bits.
    let mut has: Vec<u8> = vec![0; whole.count()];
    let mut told = Vec::new();
    for (number, kind) in kinds.iter().enumerate() {
        let hidden: u8 = kind.hidden_by.iter().map(|other| 1 << other).sum();
        let parts =
            if kind.layer == all { None } else { Some(Components::of(graph, kind.layer, Some(&whole))) };
        let parts = parts.as_ref().unwrap_or(&whole);
        let mut found = Found::new(options);
        for part in 0..parts.count() {
            let members = parts.members(part);
            let within = whole.of_node(members[0]).expect("a part's members are in the whole");
            if has[within] & hidden == 0 && graph.has_edge_within(kind.needs, parts, part) {
                has[within] |= 1 << number;
                // The smaller, the easier to understand.
                found.add(u64::MAX - members.len() as u64, part);
            }
        }
        told.extend(found.tell(kind.info, options, index, |part, proof| {
            let sought = Sought { graph, parts, part, layer: kind.layer, needs: kind.needs };
            Cycle::shortest(sought, None).tell(index, proof)
        }));
    }
    told
}
