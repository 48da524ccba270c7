//! The story of a small run as a space-time diagram: time runs down, a lane for each client and each node.
//!
//! ```text
//!   clients                       nodes
//!   c10                           n1               n2
//!   ┃ send 5=54                   ┃ leads          ░ down
//!   ┃ ──── Produce 5=54 ───────►  ┃
//!   ┃ ◄─────────── ok 5@1 ──────  ┃
//!   ┃ → ok @1                     ┃ ── copy 5: 54@1 ─ ─ ✕
//! ```
//!
//! Ops are bars on their client's lane, messages are arrows that lean by how long they were on their way, and one that never
//! arrived ends in a cross. Faults are bands over the nodes that they hit, a node that is down is hatched, who leads has a
//! thick lane. The ops that prove the worst anomaly are boxed, and its story stands below.
//!
//! Whatever has a label has a row of its own, so that no two labels meet: time is not to scale. Where nothing happens for
//! long a break says for how long. What a host says to several at almost the same time is several arrows and one label, and
//! polls of one client after another that give nothing are one bar.
//!
//! What it cannot show: what is not in `messages.jsonl` (heartbeats, votes, metadata), and what a node thinks.

mod draw;
mod layout;
mod scene;
mod svg;
mod words;

pub use scene::story_ops;

use super::Plot;
use crate::timeline::{Faults, Phase};
use riprap_checker::Verdict;
use riprap_core::History;
use riprap_core::story::Seen;

/// Ops of clients, as [`story_ops`] counts them, beyond which a run is not drawn: a picture of so many is a page or two, and
/// one of more nobody reads from its beginning to its end.
pub const MAX_STORY_OPS: usize = 60;

/// What the diagram is drawn from.
pub(crate) struct Source<'a> {
    pub(crate) history: &'a History,
    pub(crate) seen: &'a [Seen],
    pub(crate) phases: &'a [Phase],
    pub(crate) faults: &'a Faults,
    pub(crate) verdict: &'a Verdict,
    /// How many nodes there were.
    pub(crate) nodes: u16,
}

/// The diagram; `None` if no client did anything.
pub(crate) fn spacetime(source: &Source<'_>) -> Option<Plot> {
    let scene = scene::Scene::of(source);
    (!scene.bars.is_empty()).then(|| Plot {
        name: "spacetime",
        title: "What happened",
        caption: "Time runs down, not to scale; a lane for each client and each node. Rest the pointer on a bar or an arrow \
                  for its exact times.",
        svg: layout::Layout::of(&scene).draw(),
    })
}

#[cfg(test)]
mod tests;
