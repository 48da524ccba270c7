//! Raft as a pure state machine: consensus on a log among a fixed set of voters, and observers that follow it.
//!
//! A [`Raft`] does no I/O but on its disk. Its owner feeds it messages ([`Raft::step`]), time ([`Raft::tick`], when
//! [`Raft::wake_at_ns`] has come) and proposals ([`Raft::propose`]), any number of them, and then calls
//! [`Raft::settle`]: that makes durable what has to be and only then hands out a [`Ready`]: messages to send, entries
//! that are committed, a snapshot to install, changes of role.
//!
//! ```text
//!   on each batch of events:          step / tick / propose / compact ...   nothing leaves the node
//!                                     settle                                write, sync, and then:
//!     ready.snapshot                  replace the application's state by it
//!     ready.committed                 apply in order; empty payloads are a leader's no-ops
//!     ready.role_changes              in the order they happened; act as leader only once leader_is_ready()
//!     ready.messages                  send; losing, repeating and reordering them is harmless
//!     wake_at_ns                      ask to be woken
//! ```
//!
//! Source: Ongaro, "Consensus: Bridging Theory and Practice" (dissertation, 2014), cited below as "thesis" with the
//! section. Taken from it: the core (3.3 to 3.6, 3.8), snapshots (5.1, 5.3), the no-op at the start of a term (6.4),
//! leaders that step down when they hear no majority (6.2), votes refused while a leader is heard (4.2.3), pre-vote
//! (9.6), batching and pipelining (10.2). Not taken: membership changes (chapter 4), read-only queries without the
//! log (6.4), leadership transfer (3.10). Added: voters that lost their disks ([`newcomer`]).
//! Observers ([`observer`]) are its learners (4.2.1), which here never become voters.
//!
//! # Three rules, of which the types hold up two
//!
//! - *Persist before send* (thesis 3.8). Messages gather in a private outbox; they come out only with a
//!   proof of persistence that the storage alone can make, and that it makes after the last sync.
//! - *A leader counts itself only after its own sync* (thesis 10.2.1). A node's own vote and its own copy of an entry
//!   are counted from that same proof, never from memory.
//!
//! - *Nobody talks without a pause while nothing progresses.* What is sent at once, and not with the next heartbeat, is sent
//!   because a follower's match rose, or the place where logs part was found lower, or a chunk arrived, or its disk turned
//!   out to be another one.
//!
//! # What it cannot see
//!
//! Peers that lie; a disk that forgets some of what it synced, before a leader notices; several bits that flipped in the very last write to the log,
//! which then looks like a torn write and is cut. All of these break Raft's assumptions (thesis 3.1), and promises with them. What it can
//! notice (a conflict below the commit index, two leaders of one term) it refuses, logs as an error and counts in
//! [`Status::violations`].

mod codec;
mod config;
mod election;
mod log;
mod message;
mod newcomer;
mod observer;
mod progress;
mod raft;
mod ready;
mod replication;
mod status;
mod storage;
mod types;

pub use codec::{DecodeError, MAX_PAYLOAD_BYTES};
pub use config::Config;
pub use message::{Body, Message};
pub use raft::Raft;
pub use ready::{ProposeError, Ready, RoleChange, SnapshotTooLarge};
pub use status::{FollowerStatus, Role, Status};
pub use storage::OpenError;
pub use types::{Entry, Index, Life, NodeId, Snapshot, Term};
