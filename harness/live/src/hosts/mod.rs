//! A cluster on other machines, reached over SSH: a node on each, and this very program there as its agent.
//!
//! ```text
//! this machine                         a host
//! riprap test ──SSH──> sshd ──> riprap agent          by its standard input and output, a line of JSON each way ([`protocol`])
//!   clients ──────────────────────> the node's server  started, signalled and watched by the agent
//! ```
//!
//! The program is uploaded once ([`upload`]), under the name of its checksum, and so is what the system is made of. An agent
//! ends when its input does, or when nothing is asked of it for a while, and takes with it what it started and the packet
//! filter that it made: a run that dies in whatever way leaves hosts as they were. Should the agent itself be killed, the
//! kernel kills the node's server, and the next run on that host takes away the rest.
//!
//! A connection that is lost is the harness's failure and never an anomaly: nobody knows what became of the host.
//!
//! Links are as in the sandbox, but each host's own packet filter acts on them (`sandbox/host.rs`), and the connection over
//! SSH is spared. Where packets are to wait they do so at the struck node's host, by a relay of its agent (`sandbox/waits.rs`).

pub mod agent;
mod cluster;
mod deploy;
mod holds;
mod links;
mod probes;
mod protocol;
mod remote;
mod ssh;
mod upload;

pub use cluster::{HostCluster, HostsSpec};
pub use ssh::{HostName, Login};
