//! The simulated cluster: nodes, a network, disks and clocks in one event loop, bit-identical from a seed.
//!
//! A [`World`] drives [nodes](riprap_env::Node) as the live shell does, but in virtual time, and makes what a real cluster
//! only meets by accident: power failures that tear what was not synced, messages that arrive long after their sender gave
//! up, clocks that jump. Nodes exchange real wire bytes. All randomness is drawn from the seed, by streams that are named
//! after who draws what, so that taking one fault or one client away leaves the others' luck as it was.
//!
//! ```text
//!   World    hosts with their disks and clocks, connections between them, what happens when
//!   Runner   ops and faults of a generator, carried out in a world
//!   Trace    a rolling hash of all that happened; equal hashes mean equal runs
//! ```

mod cluster;
mod host;
mod network;
mod panics;
pub mod runner;
mod trace;
mod world;

pub use cluster::{Administer, SimCluster};
pub use host::{Crash, HostId, PanicPlace};
pub use network::{Direction, Others};
pub use riprap_core::plan::Physics;
pub use trace::{Trace, TraceEvent};
pub use world::World;
