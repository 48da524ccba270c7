//! Ops, histories, generators, clients, clusters, the interpreter and the plan: the words that every other part of
//! riprap speaks, and nothing that knows a system, a fault or a checker by name.
//!
//! Reading order: [`op`] and [`history`] (what happened), [`client`] and [`system`] (who it happens to), [`cluster`]
//! and [`fault`] (what is done to it), [`generator`] and [`interpreter`] (what to do next), [`workload`] and [`plan`]
//! (one run).

pub mod history;
pub mod op;
pub mod seed;

pub use history::History;
pub use op::{F, Key, Kind, Mop, Offset, Op, OpValue, Process, Value};
pub use seed::Seed;
