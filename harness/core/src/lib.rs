//! Ops, histories, generators, clients, clusters, the interpreter and the plan: the words that every other part of
//! riprap speaks, and nothing that knows a system, a fault or a checker by name.
//!
//! Reading order: [`op`], [`history`] and [`phase`] (what happened), [`client`] and [`system`] (who it happens to), [`cluster`]
//! and [`fault`] (what is done to it), [`generator`] and [`interpreter`] (what to do next), [`plan`] (one run), [`story`] (what
//! a simulated one looked like from outside).

pub mod client;
pub mod cluster;
pub mod fault;
pub mod generator;
pub mod history;
pub mod interpreter;
pub mod op;
pub mod phase;
pub mod plan;
pub mod seed;
pub mod story;
pub mod system;

/// What a panic said.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

pub use client::{Client, ClientConfig, Isolation, Log, LogError, SubscribeVia};
pub use cluster::{Cluster, NodeId};
pub use history::History;
pub use op::{F, Key, Kind, Mop, Offset, Op, OpValue, Process, Value};
pub use seed::Seed;
