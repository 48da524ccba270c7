//! The nodes' network: a bridge, and for each node a network namespace with one interface on it.
//!
//! A node is no process: it is a namespace that this program holds open by a descriptor. Threads and processes enter it
//! (setns); sockets keep the namespace in which they were made. The harness, where clients run, has the bridge's own
//! address.
//!
//! Link addresses are fixed and everybody knows everybody else's, so that no run waits for ARP, which asks anew only after a
//! second. The interface's number is the same in each node (2). IPv6 gets no addresses: their duplicate detection would cost
//! two seconds. Spanning tree is off: it would cost thirty.

use super::door::Door;
use super::enter::Inside;
use super::error::SandboxError;
use super::filter::Filter;
use super::holds::HoldProbe;
use super::links::{self, Pair};
use super::netlink::Socket;
use super::packets::Tampering;
use super::probe::{self, Probes, Reach};
use super::sys;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// The most nodes that a network has: each costs the kernel some 5 ms to make and 20 to take away, and every pair may be cut in one
/// transaction, which the size of a netlink message limits to some 10,000 pairs.
pub const MAX_NODES: usize = riprap_core::plan::MAX_NODES as usize;

/// How long the kernel may take to bring all links into service: tens of milliseconds, more on a loaded machine.
const READY_WAIT: Duration = Duration::from_secs(10);

const BRIDGE: &str = "br0";
const HARNESS_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const FIRST_NODE: u8 = 10;

/// A node's position in the network: 0-based.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIx(pub usize);

impl fmt::Display for NodeIx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As everybody else names nodes: from 1.
        write!(f, "n{}", self.0 + 1)
    }
}

/// A place in the network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Endpoint {
    /// Where this program and its clients are.
    Harness,
    /// A node.
    Node(NodeIx),
}

impl From<NodeIx> for Endpoint {
    fn from(node: NodeIx) -> Endpoint {
        Endpoint::Node(node)
    }
}

#[derive(Debug)]
struct Node {
    address: Ipv4Addr,
    namespace: Arc<OwnedFd>,
    /// Its own configuration socket.
    route: Mutex<Socket>,
    door: Mutex<Door>,
}

/// A network of nodes. Dropping it takes the interfaces and rules away; processes in the nodes are ended first, by their
/// owners.
#[derive(Debug)]
pub struct Network {
    nodes: Vec<Node>,
    /// The harness's own configuration socket.
    route: Mutex<Socket>,
    /// The number of its interface.
    bridge: i32,
    pub(super) filter: Mutex<Filter>,
    /// The harness's own.
    door: Mutex<Door>,
    pub(super) tampering: Mutex<Tampering>,
    pub(super) hold_probes: Mutex<Vec<HoldProbe>>,
    /// Position 0 is the harness, node i is at i + 1.
    pub(super) probes: Mutex<Probes>,
}

impl Network {
    /// Makes a network of `nodes` nodes, all reaching each other. One at a time exists in a sandbox.
    ///
    /// Errors: [`SandboxError::NodeCount`], [`SandboxError::Network`], [`SandboxError::Setup`].
    pub fn new(_inside: &Inside, nodes: usize) -> Result<Network, SandboxError> {
        if nodes == 0 || nodes > MAX_NODES {
            return Err(SandboxError::NodeCount { asked: nodes, most: MAX_NODES });
        }
        let route =
            Socket::open(libc::NETLINK_ROUTE).map_err(SandboxError::setup("open a netlink socket"))?;
        // The filter comes first: where it is there already, so is another network, which is left alone. From here on
        // drop takes away what was made, should a later step fail.
        let filter = Filter::new().map_err(SandboxError::network("make the bridge's packet filter"))?;
        let door = Door::new().map_err(SandboxError::setup("open a netlink socket"))?;
        let mut network = Network {
            nodes: Vec::new(),
            route: route.into(),
            bridge: 0,
            filter: filter.into(),
            door: door.into(),
            tampering: Mutex::default(),
            hold_probes: Mutex::default(),
            probes: Probes::default().into(),
        };
        network.build(nodes)?;
        Ok(network)
    }

    fn build(&mut self, nodes: usize) -> Result<(), SandboxError> {
        tune_tcp();
        // Bridged packets need not visit the ip family's hooks as well, which br_netfilter makes them do.
        sys::try_set("net/bridge/bridge-nf-call-iptables", "0");
        let mut route = lock(&self.route);
        let mut probes = lock(&self.probes);
        let probe_failed = || SandboxError::setup("open a probe's socket");
        let bridge = links::new_bridge(&mut route, BRIDGE, HARNESS_ADDRESS)
            .map_err(SandboxError::network("make a bridge"))?;
        probes.add(probe::socket().map_err(probe_failed())?, HARNESS_ADDRESS).map_err(probe_failed())?;
        for i in 0..nodes {
            let (node, socket) = new_node(&mut route, bridge, NodeIx(i))?;
            probes.add(socket, node.address).map_err(probe_failed())?;
            self.nodes.push(node);
        }
        self.bridge = bridge;
        drop(route);
        for place in self.all_places() {
            for other in self.all_places().filter(|other| *other != place) {
                let (own, other) = (self.address(place), self.address(other));
                let failed = SandboxError::network(format!("tell {own} the link address of {other}"));
                self.configure(place, |route, interface| links::new_neighbour(route, interface, other))
                    .map_err(failed)?;
            }
        }
        // The kernel takes links into service in the background, and drops packets until it has.
        let pairs: Vec<_> = (1..=nodes).flat_map(|i| [(0, i), (i, 0)]).collect();
        match probes.reach(&pairs, READY_WAIT).map_err(SandboxError::setup("probe the network"))? {
            found if found.contains(&Reach::No) => {
                let source = io::Error::new(io::ErrorKind::TimedOut, format!("not within {READY_WAIT:?}"));
                Err(SandboxError::Setup { what: "reach every node over the bridge".into(), source })
            }
            _ => Ok(()),
        }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never: a network has nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// All nodes, in order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeIx> + use<> {
        (0..self.nodes.len()).map(NodeIx)
    }

    /// The address of a place. Panics: no such node.
    pub fn address(&self, of: impl Into<Endpoint>) -> Ipv4Addr {
        match of.into() {
            Endpoint::Harness => HARNESS_ADDRESS,
            Endpoint::Node(node) => self.node(node).address,
        }
    }

    /// Makes a command run in a node's network, in a session of its own. Panics: no such node.
    pub fn pre_exec_into(&self, command: &mut Command, node: impl Into<Endpoint>) {
        let namespace = match node.into() {
            Endpoint::Harness => None,
            Endpoint::Node(node) => Some(Arc::clone(&self.node(node).namespace)),
        };
        let enter = move || {
            // SAFETY: setsid touches no memory. A process just forked leads no group, so that it cannot fail.
            unsafe { libc::setsid() };
            namespace.as_ref().map_or(Ok(()), |ns| sys::enter_network_namespace(sys::fd(&**ns)))
        };
        // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
        unsafe { command.pre_exec(enter) };
    }

    /// Runs a closure on a thread in a node's network: sockets made there are the node's, for good. Panics: no such node;
    /// or the closure's own panic.
    pub fn with_node<T: Send>(
        &self,
        node: NodeIx,
        run: impl FnOnce() -> T + Send,
    ) -> Result<T, SandboxError> {
        let namespace = &self.node(node).namespace;
        in_thread(|| {
            sys::enter_network_namespace(sys::fd(&**namespace))
                .map_err(SandboxError::setup(format!("enter {node}")))?;
            Ok(run())
        })
    }

    /// Cuts these (source, destination) pairs and no others, all at one instant: a packet from the source to the
    /// destination is dropped. To cut both ways, name both. Established connections stall and go on after the heal.
    ///
    /// A TCP connection stops in both directions as soon as one is cut, for want of acknowledgements.
    pub fn set_cuts<A, B>(&self, cuts: &BTreeSet<(A, B)>) -> Result<(), SandboxError>
    where
        A: Copy + Into<Endpoint>,
        B: Copy + Into<Endpoint>,
    {
        let pairs: Vec<_> = cuts.iter().map(|&(from, to)| (self.address(from), self.address(to))).collect();
        lock(&self.filter)
            .set_cuts(&pairs)
            .map_err(SandboxError::network(format!("cut {} pairs", pairs.len())))
    }

    /// Cuts nothing any more.
    pub fn heal(&self) -> Result<(), SandboxError> {
        self.set_cuts(&BTreeSet::<(Endpoint, Endpoint)>::new())
    }

    /// Whether a datagram gets from one place to another. Takes `wait` at most, and that only for a "no".
    pub fn reachable(
        &self,
        source: impl Into<Endpoint>,
        destination: impl Into<Endpoint>,
        wait: Duration,
    ) -> Result<Reach, SandboxError> {
        Ok(self.reachable_pairs(&[(source.into(), destination.into())], wait)?[0])
    }

    /// The same for many pairs at once, in the same time as for one. Shape: one answer for each pair, in order.
    pub fn reachable_pairs(
        &self,
        pairs: &[(Endpoint, Endpoint)],
        wait: Duration,
    ) -> Result<Vec<Reach>, SandboxError> {
        let positions: Vec<_> = pairs.iter().map(|&(from, to)| (self.place(from), self.place(to))).collect();
        lock(&self.probes).reach(&positions, wait).map_err(SandboxError::setup("probe the network"))
    }

    /// How many packets the cuts have dropped in the life of this network: evidence that a partition was felt.
    pub fn dropped_packets(&self) -> Result<u64, SandboxError> {
        lock(&self.filter)
            .dropped_packets()
            .map_err(SandboxError::network("read the packet filter's counter"))
    }

    /// The position of a place among the probes' sockets. Panics: no such node.
    pub(super) fn place(&self, place: Endpoint) -> usize {
        match place {
            Endpoint::Harness => 0,
            Endpoint::Node(node) => {
                self.node(node);
                node.0 + 1
            }
        }
    }

    /// All places, in the order of their positions.
    pub(super) fn all_places(&self) -> impl Iterator<Item = Endpoint> + use<> {
        [Endpoint::Harness].into_iter().chain(self.nodes().map(Endpoint::Node))
    }

    /// Does something in the network namespace of a place. Panics: no such node.
    pub(super) fn at<T: Send>(
        &self,
        place: Endpoint,
        act: impl FnOnce() -> T + Send,
    ) -> Result<T, SandboxError> {
        match place {
            Endpoint::Harness => Ok(act()),
            Endpoint::Node(node) => self.with_node(node, act),
        }
    }

    /// Configures a place's interface, by a socket and its number. Panics: no such node.
    pub(super) fn configure<T>(&self, place: Endpoint, act: impl FnOnce(&mut Socket, i32) -> T) -> T {
        match place {
            Endpoint::Harness => act(&mut lock(&self.route), self.bridge),
            Endpoint::Node(node) => act(&mut lock(&self.node(node).route), links::NODE_INTERFACE),
        }
    }

    /// The door of a place. Panics: no such node.
    pub(super) fn door(&self, place: Endpoint) -> &Mutex<Door> {
        match place {
            Endpoint::Harness => &self.door,
            Endpoint::Node(node) => &self.node(node).door,
        }
    }

    fn node(&self, node: NodeIx) -> &Node {
        self.nodes.get(node.0).unwrap_or_else(|| panic!("node {node} of a network of {}", self.nodes.len()))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Whatever is gone already is gone; and with the sandbox all of it goes.
        let _ = lock(&self.filter).remove();
        let _ = lock(&self.door).remove();
        let mut route = lock(&self.route);
        for node in self.nodes() {
            let _ = links::delete_link(&mut route, &link_name(node));
        }
        let _ = links::delete_link(&mut route, BRIDGE);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock was held left at worst an unread answer, which the next call skips.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The name of a node's link, as the harness sees it.
fn link_name(node: NodeIx) -> String {
    format!("riprap-{node}")
}

/// Makes a node: its namespace, its link to the bridge, its address. With it comes a socket to probe it by.
fn new_node(route: &mut Socket, bridge: i32, node: NodeIx) -> Result<(Node, UdpSocket), SandboxError> {
    let last = u8::try_from(node.0).expect("a network has at most MAX_NODES nodes") + FIRST_NODE;
    let address = Ipv4Addr::new(10, 77, 0, last);
    let (namespace, mut inner, door, socket) = in_thread(|| {
        let namespace = sys::new_network_namespace()?;
        tune_tcp();
        Ok((namespace, Socket::open(libc::NETLINK_ROUTE)?, Door::new()?, probe::socket()?))
    })
    .map_err(SandboxError::setup(format!("make a network namespace for {node}")))?;
    let name = link_name(node);
    let pair = Pair { bridge, name: &name, namespace: sys::fd(&namespace), inner: &mut inner, address };
    links::new_pair(route, pair).map_err(SandboxError::network(format!("link {node} to the bridge")))?;
    let node = Node { address, namespace: Arc::new(namespace), route: inner.into(), door: door.into() };
    Ok((node, socket))
}

/// Runs a closure on a thread of its own, whose namespace may change without harm to anybody.
fn in_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// Makes TCP in the calling thread's namespace try again soon after a heal.
///
/// A connection that lost packets waits twice as long before each retransmission, up to two minutes: after a cut of ten
/// seconds it takes three to come back. With the wait capped at one second it takes one at most, and so does a
/// connection that is being opened. The number of attempts, 15, would then be used up after as many seconds and the
/// connection broken, where by default it lasts as many minutes; so it is raised to the most that the kernel takes.
/// The attempts to open one stay at 6: some seconds, then the application is told, as it expects to be.
/// Kernels before 6.15 have no cap; then both stay as they are.
fn tune_tcp() {
    if sys::setting("net/ipv4/tcp_rto_max_ms").is_some() {
        sys::try_set("net/ipv4/tcp_rto_max_ms", "1000");
        sys::try_set("net/ipv4/tcp_retries2", "255");
    }
}
