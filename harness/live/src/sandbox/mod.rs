//! The local sandbox: a network of nodes on this machine, without root, containers or any external program.
//!
//! The program executes itself anew in user, mount, PID, network, IPC and UTS namespaces of its own ([`enter`]). There
//! it makes a bridge, and for each node a network namespace with an address on it ([`Network`]); a node's servers are
//! processes in that namespace ([`NodeProcess`]); partitions and other faults of packets are sets of address pairs of which the
//! bridge drops what is sent, drops some, or has this program hold it for a while. When the
//! program ends, in whatever way, the kernel ends everything inside with it; the machine's own network is never touched.
//!
//! ```text
//! machine                 sandbox
//! riprap (outer) ──clone──> supervisor, PID 1
//!                           riprap (harness), 10.77.0.1 on br0
//!                             ├── node 0's server, 10.77.0.10 on eth0 of its own namespace
//!                             └── node 1's server, 10.77.0.11 ...
//! ```
//!
//! What is shared with the machine: the file system, the working directory, standard input and output, CPU and memory.
//! Ports of nodes never clash, since each has its own; process ids and `/dev/shm` are the sandbox's own too.
//!
//! What it cannot do: give a node a clock of its own, or a user other than root-inside (unprivileged
//! callers; servers that refuse to run as root need another way). Linux 5.6 or newer.

mod connections;
mod door;
mod enter;
mod error;
mod filter;
mod holds;
mod host;
mod links;
mod netlink;
mod network;
mod nft;
mod packets;
mod probe;
mod process;
mod relay;
mod signals;
mod supervisor;
mod sys;
mod waits;

pub use enter::{Entered, Inside, enter, probe};
pub use error::{Remedy, SandboxError};
pub(crate) use host::{HostNetwork, Rules, connect, is_refused};
pub use netlink::Refusal;
pub use network::{Endpoint, MAX_NODES, Network, NodeIx};
pub use packets::Ends;
pub(crate) use probe::{
    AGAIN, DELAY_PROBES, Kind as ProbeKind, RATE_PROBE_PAYLOAD_SIZE_BYTES, RATE_PROBES, RATE_WINDOW,
    mark as mark_probes, rate,
};
pub use probe::{LOSS_PROBES, Reach};
pub use process::{Ended, NodeProcess, ProcessError, ProcessSpec, ProcessState};
pub(crate) use relay::Flow;
pub use relay::Lag;
pub(crate) use sys::make_room_both_ways;
