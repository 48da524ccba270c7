//! What a network is made of: the bridge, a pair of interfaces for each node, addresses, neighbours.
//!
//! Source: rtnetlink(7), include/uapi/linux/if_link.h, veth.h, neighbour.h.

use super::netlink::{Message, Refusal, Socket};
use std::ffi::CString;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};

const PREFIX_BITS: u8 = 16;
/// In a new namespace the loopback interface is the first.
const LOOPBACK: i32 = 1;
/// The number of a node's interface to the bridge, in its own namespace.
pub(super) const NODE_INTERFACE: i32 = 2;

const IFLA_BR_STP_STATE: u16 = 5;
const IFLA_BR_MCAST_SNOOPING: u16 = 23;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IFLA_GSO_MAX_SEGS: u16 = 40;
/// GSO_MAX_SEGS: so many packets an interface is handed as one at most unless it is told otherwise.
pub(super) const PACKETS_IN_ONE: u32 = 65535;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;

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

/// Makes the loopback interface work.
fn loopback_up(route: &mut Socket) -> Result<(), Refusal> {
    route.request(Message::new(libc::RTM_NEWLINK, 0, &link_header(LOOPBACK, true)))
}

/// Makes a bridge with an address for its own namespace, and returns its number.
pub(super) fn new_bridge(route: &mut Socket, name: &str, address: Ipv4Addr) -> Result<i32, Refusal> {
    let mut m = new_link(&link_header(0, false));
    m.put_str(libc::IFLA_IFNAME, name);
    // Without a fixed address a bridge takes over that of a port.
    m.put(libc::IFLA_ADDRESS, &link_address(address));
    m.nest(libc::IFLA_LINKINFO, |m| {
        m.put_str(IFLA_INFO_KIND, "bridge").nest(IFLA_INFO_DATA, |m| {
            m.put(IFLA_BR_STP_STATE, &0_u32.to_ne_bytes()).put(IFLA_BR_MCAST_SNOOPING, &[0]);
        });
    });
    route.request(m)?;
    let index = link_index(name);
    bring_up(route, index)?;
    loopback_up(route)?;
    route.request(new_address(index, address))?;
    Ok(index)
}

/// One end on the bridge, the other in a node.
pub(super) struct Pair<'a> {
    pub(super) bridge: i32,
    /// Of the end on the bridge.
    pub(super) name: &'a str,
    /// The node's, and a socket to configure it by.
    pub(super) namespace: BorrowedFd<'a>,
    pub(super) inner: &'a mut Socket,
    pub(super) address: Ipv4Addr,
}

/// Links a node to the bridge.
pub(super) fn new_pair(route: &mut Socket, pair: Pair<'_>) -> Result<(), Refusal> {
    let mut m = new_link(&link_header(0, false));
    m.put_str(libc::IFLA_IFNAME, pair.name).put(libc::IFLA_MASTER, &pair.bridge.to_ne_bytes());
    m.nest(libc::IFLA_LINKINFO, |m| {
        m.put_str(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, |m| {
            m.nest(VETH_INFO_PEER, |m| {
                // The kernel refuses to make it up: it has no other end yet.
                m.raw(&link_header(NODE_INTERFACE, false)).put_str(libc::IFLA_IFNAME, "eth0");
                m.put(libc::IFLA_ADDRESS, &link_address(pair.address));
                m.put(libc::IFLA_NET_NS_FD, &pair.namespace.as_raw_fd().to_ne_bytes());
            });
        });
    });
    route.request(m)?;
    loopback_up(pair.inner)?;
    bring_up(pair.inner, NODE_INTERFACE)?;
    bring_up(route, link_index(pair.name))?;
    pair.inner.request(new_address(NODE_INTERFACE, pair.address))
}

/// How many packets an interface may be handed as one, to be cut up later than it would be on a real network.
pub(super) fn set_packets_in_one(route: &mut Socket, interface: i32, most: u32) -> Result<(), Refusal> {
    let mut m = Message::new(libc::RTM_NEWLINK, 0, &link_header(interface, true));
    m.put(IFLA_GSO_MAX_SEGS, &most.to_ne_bytes());
    route.request(m)
}

/// Tells a namespace the link address of another place, for good.
pub(super) fn new_neighbour(route: &mut Socket, interface: i32, address: Ipv4Addr) -> Result<(), Refusal> {
    let [state_low, state_high] = libc::NUD_PERMANENT.to_ne_bytes();
    // Family, interface, state, flags, type.
    let head =
        [[libc::AF_INET as u8, 0, 0, 0], interface.to_ne_bytes(), [state_low, state_high, 0, 0]].concat();
    let mut m = Message::new(libc::RTM_NEWNEIGH, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &head);
    m.put(libc::NDA_DST, &address.octets()).put(libc::NDA_LLADDR, &link_address(address));
    route.request(m)
}

/// Removes an interface, and with one end of a pair the other.
pub(super) fn delete_link(route: &mut Socket, name: &str) -> Result<(), Refusal> {
    let mut m = Message::new(libc::RTM_DELLINK, 0, &link_header(0, false));
    m.put_str(libc::IFLA_IFNAME, name);
    route.request(m)
}
