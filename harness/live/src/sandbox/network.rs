//! The nodes' network: a bridge, and for each node a network namespace with one interface on it.
//!
//! A node is no process: it is a namespace that this program holds open by a descriptor. Threads and processes enter it
//! (setns); sockets keep the namespace in which they were made. The harness, where clients run, has the bridge's own
//! address.
//!
//! Link addresses are fixed and everybody knows everybody else's, so that no run waits for ARP, which asks anew only after a
//! second. The interface's number is the same in each node (2). IPv6 gets no addresses: their duplicate detection would cost
//! two seconds. Spanning tree is off: it would cost thirty.

use super::enter::Inside;
use super::error::SandboxError;
use super::netlink::{Message, Refusal, Socket};
use super::nft::Filter;
use super::probe::{self, Probes, Reach};
use super::sys;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// The most nodes that a network has: each costs the kernel about 30 ms to make, and every pair may be cut in one
/// transaction, which the size of a netlink message limits to some 10,000 pairs.
pub const MAX_NODES: usize = 64;

/// How long the kernel may take to bring all links into service: tens of milliseconds, more on a loaded machine.
const READY_WAIT: Duration = Duration::from_secs(10);

const BRIDGE: &str = "br0";
const HARNESS_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const PREFIX_BITS: u8 = 16;
const FIRST_NODE: u8 = 10;
/// In a new namespace the loopback interface is 1.
const NODE_INTERFACE: i32 = 2;

/// A node's position in the network: 0-based.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIx(pub usize);

impl fmt::Display for NodeIx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
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
}

/// A network of nodes. Dropping it takes the interfaces and rules away; processes in the nodes are ended first, by their
/// owners.
#[derive(Debug)]
pub struct Network {
    nodes: Vec<Node>,
    /// The harness's own configuration socket.
    route: Mutex<Socket>,
    filter: Mutex<Filter>,
    /// Position 0 is the harness, node i is at i + 1.
    probes: Mutex<Probes>,
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
        let mut network = Network {
            nodes: Vec::new(),
            route: route.into(),
            filter: filter.into(),
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
        let bridge = new_bridge(&mut route)?;
        probes.add(probe::socket().map_err(probe_failed())?, HARNESS_ADDRESS).map_err(probe_failed())?;
        let mut inner = Vec::new();
        for i in 0..nodes {
            let (node, node_route, socket) = new_node(&mut route, bridge, NodeIx(i))?;
            probes.add(socket, node.address).map_err(probe_failed())?;
            self.nodes.push(node);
            inner.push((node_route, NODE_INTERFACE));
        }
        let places: Vec<Ipv4Addr> = probes.places().collect();
        let routes = [(&mut *route, bridge)].into_iter().chain(inner.iter_mut().map(|(r, i)| (r, *i)));
        for ((route, interface), own) in routes.zip(&places) {
            for other in places.iter().filter(|a| *a != own) {
                let failed = SandboxError::network(format!("tell {own} the link address of {other}"));
                route.request(new_neighbour(interface, *other)).map_err(failed)?;
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
        let position = |place: Endpoint| match place {
            Endpoint::Harness => 0,
            Endpoint::Node(node) => {
                self.node(node);
                node.0 + 1
            }
        };
        let positions: Vec<_> = pairs.iter().map(|&(from, to)| (position(from), position(to))).collect();
        lock(&self.probes).reach(&positions, wait).map_err(SandboxError::setup("probe the network"))
    }

    /// How many packets the cuts have dropped in the life of this network: evidence that a partition was felt.
    pub fn dropped_packets(&self) -> Result<u64, SandboxError> {
        lock(&self.filter)
            .dropped_packets()
            .map_err(SandboxError::network("read the packet filter's counter"))
    }

    fn node(&self, node: NodeIx) -> &Node {
        self.nodes.get(node.0).unwrap_or_else(|| panic!("node {node} of a network of {}", self.nodes.len()))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Whatever is gone already is gone; and with the sandbox all of it goes.
        let _ = lock(&self.filter).remove();
        let mut route = lock(&self.route);
        for node in self.nodes() {
            let _ = route.request(delete_link(&link_name(node)));
        }
        let _ = route.request(delete_link(BRIDGE));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock was held left at worst an unread answer, which the next call skips.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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

// ---- links ----

const IFLA_BR_STP_STATE: u16 = 5;
const IFLA_BR_MCAST_SNOOPING: u16 = 23;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;

fn link_name(node: NodeIx) -> String {
    format!("riprap-{node}")
}

/// The header of a link message: family, padding, type, index, flags, which flags to change.
fn link_header(index: i32, up: bool) -> Vec<u8> {
    let flags = if up { libc::IFF_UP as u32 } else { 0 };
    [[0; 4], index.to_ne_bytes(), flags.to_ne_bytes(), flags.to_ne_bytes()].concat()
}

/// A link address of the range that is nobody's.
fn link_address(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0x02, 0x00, a, b, c, d]
}

/// Brings an interface up that was made down, without IPv6 addresses.
fn bring_up(route: &mut Socket, index: i32) -> Result<(), Refusal> {
    // Two messages, because within one the kernel brings the interface up first; and it takes this one for an interface
    // that exists, not for one that it is to make.
    let mut m = Message::new(libc::RTM_NEWLINK, 0, &link_header(index, false));
    m.nest(libc::IFLA_AF_SPEC, |m| {
        m.nest(libc::AF_INET6 as u16, |m| {
            m.put(IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE]);
        });
    });
    match route.request(m) {
        // A kernel without IPv6 gives none.
        Err(refusal) if refusal.source.raw_os_error() != Some(libc::EAFNOSUPPORT) => return Err(refusal),
        _ => {}
    }
    route.request(Message::new(libc::RTM_NEWLINK, 0, &link_header(index, true)))
}

fn new_link(header: &[u8]) -> Message {
    Message::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, header)
}

fn delete_link(name: &str) -> Message {
    let mut m = Message::new(libc::RTM_DELLINK, 0, &link_header(0, false));
    m.put_str(libc::IFLA_IFNAME, name);
    m
}

fn new_address(index: i32, address: Ipv4Addr) -> Message {
    // Family, prefix length, flags, scope, index.
    let head = [[libc::AF_INET as u8, PREFIX_BITS, 0, 0], index.to_ne_bytes()].concat();
    let mut m = Message::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &head);
    m.put(libc::IFA_LOCAL, &address.octets()).put(libc::IFA_ADDRESS, &address.octets());
    m
}

/// The number of an interface in the calling thread's namespace; 0 if there is none.
fn link_index(name: &str) -> i32 {
    let name = CString::new(name).expect("our own names have no zero bytes");
    // SAFETY: the string lives through the call.
    unsafe { libc::if_nametoindex(name.as_ptr()) as i32 }
}

fn new_neighbour(interface: i32, address: Ipv4Addr) -> Message {
    let family = [libc::AF_INET as u8, 0, 0, 0];
    let [state_low, state_high] = libc::NUD_PERMANENT.to_ne_bytes();
    // Family, interface, state, flags, type.
    let head = [family, interface.to_ne_bytes(), [state_low, state_high, 0, 0]].concat();
    let mut m = Message::new(libc::RTM_NEWNEIGH, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &head);
    m.put(libc::NDA_DST, &address.octets()).put(libc::NDA_LLADDR, &link_address(address));
    m
}

fn loopback_up(route: &mut Socket) -> Result<(), Refusal> {
    route.request(Message::new(libc::RTM_NEWLINK, 0, &link_header(1, true)))
}

/// Makes the bridge, with the harness's address, and returns its index.
fn new_bridge(route: &mut Socket) -> Result<i32, SandboxError> {
    let mut m = new_link(&link_header(0, false));
    m.put_str(libc::IFLA_IFNAME, BRIDGE);
    // Without a fixed address a bridge takes over that of a port, and neighbours would have to learn it anew.
    m.put(libc::IFLA_ADDRESS, &link_address(HARNESS_ADDRESS));
    m.nest(libc::IFLA_LINKINFO, |m| {
        m.put_str(IFLA_INFO_KIND, "bridge").nest(IFLA_INFO_DATA, |m| {
            m.put(IFLA_BR_STP_STATE, &0_u32.to_ne_bytes()).put(IFLA_BR_MCAST_SNOOPING, &[0]);
        });
    });
    route.request(m).map_err(SandboxError::network("make a bridge"))?;
    let index = link_index(BRIDGE);
    bring_up(route, index).map_err(SandboxError::network("bring the bridge up"))?;
    loopback_up(route).map_err(SandboxError::network("bring the loopback interface up"))?;
    route
        .request(new_address(index, HARNESS_ADDRESS))
        .map_err(SandboxError::network("give the bridge an address"))?;
    Ok(index)
}

/// Makes a node: its namespace, its link to the bridge, its address. With it come a socket to configure it and one to
/// probe it by.
fn new_node(
    route: &mut Socket,
    bridge: i32,
    node: NodeIx,
) -> Result<(Node, Socket, UdpSocket), SandboxError> {
    let last = u8::try_from(node.0).expect("a network has at most MAX_NODES nodes") + FIRST_NODE;
    let address = Ipv4Addr::new(10, 77, 0, last);
    let (namespace, mut inner, socket) = in_thread(|| {
        let namespace = sys::new_network_namespace()?;
        tune_tcp();
        Ok((namespace, Socket::open(libc::NETLINK_ROUTE)?, probe::socket()?))
    })
    .map_err(SandboxError::setup(format!("make a network namespace for {node}")))?;

    let mut m = new_link(&link_header(0, false));
    m.put_str(libc::IFLA_IFNAME, &link_name(node)).put(libc::IFLA_MASTER, &bridge.to_ne_bytes());
    m.nest(libc::IFLA_LINKINFO, |m| {
        m.put_str(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, |m| {
            m.nest(VETH_INFO_PEER, |m| {
                // The kernel refuses to make it up: it has no other end yet.
                m.raw(&link_header(NODE_INTERFACE, false)).put_str(libc::IFLA_IFNAME, "eth0");
                m.put(libc::IFLA_ADDRESS, &link_address(address));
                m.put(libc::IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes());
            });
        });
    });
    let failed = || SandboxError::network(format!("link {node} to the bridge"));
    route.request(m).map_err(failed())?;
    loopback_up(&mut inner).map_err(failed())?;
    bring_up(&mut inner, NODE_INTERFACE).map_err(failed())?;
    bring_up(route, link_index(&link_name(node))).map_err(failed())?;
    inner.request(new_address(NODE_INTERFACE, address)).map_err(failed())?;
    Ok((Node { address, namespace: Arc::new(namespace) }, inner, socket))
}
