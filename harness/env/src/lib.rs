//! What a bundled node may touch: network, disk, wall clock, randomness.
//!
//! A bundled node (broker, coordination service, engine process, simulated client) is a state machine without I/O.
//! A driver feeds it events and carries out its effects; the live driver is a thin shell over tokio, the simulated
//! one an event loop in virtual time. Both run the very same node, so a node never reads a clock, spawns a thread,
//! takes a lock, awaits, or iterates over a hash map.

pub mod disk;
pub mod node;
pub mod random;
pub mod task;

pub use disk::{Disk, DiskError, FileId, Keep, MemDisk, RealDisk, Unsynced, sync_dir_and_parents};
pub use node::{ConnId, Effect, Effects, Env, Event, LogLevel, Node};
