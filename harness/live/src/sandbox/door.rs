//! The packet filter at the door of a place: what happens to packets that have arrived over the bridge.
//!
//! A table of the ip family in the place's own namespace, because the bridge's family can neither refuse nor queue on every
//! kernel. It is made when it is first needed; a kernel that lacks parts of it is none the worse for that until then.
//!
//! ```text
//! table ip riprap {
//!     set relayed|refused { type ipv4_addr }
//!     set held { type ipv4_addr . inet_service . inet_service }
//!     chain hold    { meta l4proto tcp  ip saddr . tcp sport . tcp dport @held  queue }
//!     chain relay   { ip saddr @relayed  queue }
//!     chain refusal { meta l4proto tcp  ip saddr @refused  tcp flags OPENS  counter  reject with tcp reset
//!                     meta l4proto tcp  ip saddr @refused  counter  drop }
//!     chain refusal-of-probe { meta l4proto tcp  ip saddr @refused  counter  reject with icmp port-unreachable }
//!     chain input { type filter hook input priority 0;
//!         ip tos PROBE_OF_HOLD  goto hold
//!         ip tos PROBE_OF_DELAY|PROBE_OF_RATE  goto relay
//!         ip tos PROBE_OF_REFUSAL  goto refusal-of-probe
//!         ip tos of another probe  accept
//!         jump hold  jump relay  jump refusal
//!     }
//! }
//! ```
//!
//! The door of a host lets out as well as in, for there is no other at whose door what it sends would wait:
//!
//! ```text
//!     set relayed-to { type ipv4_addr }
//!     chain relay-out { ip daddr @relayed-to  queue }
//!     chain output { type filter hook output priority 0;
//!         ip tos PROBE_OF_RATE  goto relay-out
//!         ip tos of another probe  accept
//!         jump relay-out
//!     }
//! ```
//!
//! What is queued goes to the [relay](super::relay). Of a refusal, who opens a connection is told at once that nobody listens
//! there. What arrives on one that stands is dropped: such a connection stalls, and goes on after the heal. So do connections
//! that the place itself opens: the answer is dropped. A probe is refused by ICMP, whose packets are of the probe's own type of
//! service, which other faults leave alone; kernels send few of them, so that it alone is.

use super::filter::lead_probes;
use super::netlink::{Message, Refusal};
use super::nft::{self, Compare, Hook, Key, Nft, Table};
use super::probe::Kind;
use super::relay;
use super::sys;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::AsFd as _;
use std::time::Duration;

const TABLE: Table = Table { family: libc::AF_INET as u8, name: "riprap" };
const RELAY: &str = "relay";
const RELAYED: (&str, u32) = ("relayed", 1);
const REFUSAL: &str = "refusal";
const REFUSAL_OF_PROBE: &str = "refusal-of-probe";
/// The flags of a packet that opens a connection (RFC 9293), also of who can tell of congestion (RFC 3168).
const OPENS: [u8; 2] = [0x02, 0xc2];
const REFUSED: (&str, u32) = ("refused", 2);
const HOLD: &str = "hold";
const HELD: (&str, u32) = ("held", 3);
const INPUT: &str = "input";
/// NF_INET_LOCAL_IN; NF_IP_PRI_FILTER.
const HOOK: Hook = Hook { number: 1, priority: 0 };
const RELAY_OUT: &str = "relay-out";
const RELAYED_TO: (&str, u32) = ("relayed-to", 4);
const OUTPUT: &str = "output";
/// NF_INET_LOCAL_OUT.
const HOOK_OUT: Hook = Hook { number: 3, priority: 0 };
/// To nft(8), ipv4_addr . inet_service . inet_service, though as one word.
const FLOW: Key = Key { size_bytes: 8, kind: (7 << 6) | 7 };
/// To nft(8), ipv4_addr.
const ADDRESS: Key = Key { size_bytes: 4, kind: 7 };
const SOURCE_OFFSET_BYTES: u32 = 12;
const DESTINATION_OFFSET_BYTES: u32 = 16;

/// The door of one place.
#[derive(Debug)]
pub(super) struct Door {
    nft: Nft,
    is_made: bool,
    /// Of a host: the port whose connections nothing happens to.
    spared: Option<u16>,
}

impl Door {
    /// Of the place in whose network namespace the calling thread is.
    pub(super) fn new() -> io::Result<Door> {
        Ok(Door { nft: Nft::open()?, is_made: false, spared: None })
    }

    /// Of a host, which it lets out as well, with nothing happening to what is sent over TCP from or to a port.
    pub(super) fn of_host(spared: u16) -> io::Result<Door> {
        Ok(Door { spared: Some(spared), ..Door::new()? })
    }

    /// Replaces the sources of what is handed to the relay.
    pub(super) fn set_relayed(&mut self, sources: &[Ipv4Addr]) -> Result<(), Refusal> {
        self.replace(RELAYED.0, sources)
    }

    /// Replaces the destinations of what a host sends that is handed to the relay. Panics: it is not of a host.
    pub(super) fn set_relayed_to(&mut self, destinations: &[Ipv4Addr]) -> Result<(), Refusal> {
        assert!(self.spared.is_some(), "only hosts let out");
        self.replace(RELAYED_TO.0, destinations)
    }

    /// Replaces the sources whose connections are refused.
    pub(super) fn set_refused(&mut self, sources: &[Ipv4Addr]) -> Result<(), Refusal> {
        self.replace(REFUSED.0, sources)
    }

    /// Replaces the connections of which what arrives is handed to the relay: by who sends it, and both ports.
    pub(super) fn set_held(&mut self, flows: &[(SocketAddrV4, u16)]) -> Result<(), Refusal> {
        let key = |(from, to): &(SocketAddrV4, u16)| {
            [&from.ip().octets()[..], &from.port().to_be_bytes(), &to.to_be_bytes()].concat()
        };
        self.replace_keys(HELD.0, &flows.iter().map(key).collect::<Vec<_>>())
    }

    fn replace(&mut self, set: &str, sources: &[Ipv4Addr]) -> Result<(), Refusal> {
        let keys: Vec<Vec<u8>> = sources.iter().map(|address| address.octets().to_vec()).collect();
        self.replace_keys(set, &keys)
    }

    fn replace_keys(&mut self, set: &str, keys: &[Vec<u8>]) -> Result<(), Refusal> {
        if !self.is_made && keys.is_empty() {
            return Ok(());
        }
        let mut messages = if self.is_made { Vec::new() } else { make(self.spared) };
        messages.extend(TABLE.replace_elements(set, keys));
        self.nft.transaction(messages)?;
        self.is_made = true;
        Ok(())
    }

    /// Removes the table that another has left behind. Refused if there is none.
    pub(super) fn remove_leftover(&mut self) -> Result<(), Refusal> {
        self.nft.transaction(vec![TABLE.delete()])
    }

    /// Removes the table.
    pub(super) fn remove(&mut self) -> Result<(), Refusal> {
        if std::mem::take(&mut self.is_made) { self.nft.transaction(vec![TABLE.delete()]) } else { Ok(()) }
    }
}

fn make(spared: Option<u16>) -> Vec<Message> {
    let mut messages = vec![
        TABLE.create(),
        TABLE.set(RELAYED.0, RELAYED.1, &ADDRESS),
        TABLE.set(REFUSED.0, REFUSED.1, &ADDRESS),
        TABLE.set(HELD.0, HELD.1, &FLOW),
        TABLE.chain(HOLD, None),
        TABLE.chain(RELAY, None),
        TABLE.chain(REFUSAL, None),
        TABLE.chain(REFUSAL_OF_PROBE, None),
        TABLE.chain(INPUT, Some(HOOK)),
        TABLE.rule(HOLD, |m| {
            nft::load_transport(m);
            nft::unless_ends(m, Compare::Equal, &[libc::IPPROTO_TCP as u8]);
            nft::load_header_and_ports(m, SOURCE_OFFSET_BYTES);
            nft::unless_in_ends(m, HELD.0, HELD.1);
            nft::queue(m, relay::QUEUE);
        }),
        TABLE.rule(RELAY, |m| {
            unless_at_ends(m, SOURCE_OFFSET_BYTES, RELAYED);
            nft::queue(m, relay::QUEUE);
        }),
        TABLE.rule(REFUSAL_OF_PROBE, |m| {
            unless_refused_ends(m);
            nft::count(m);
            nft::reject(m);
        }),
    ];
    messages.extend(OPENS.map(|flags| {
        TABLE.rule(REFUSAL, |m| {
            unless_refused_ends(m);
            nft::load_tcp_flags(m);
            nft::unless_ends(m, Compare::Equal, &[flags]);
            nft::count(m);
            nft::reset(m);
        })
    }));
    messages.push(TABLE.rule(REFUSAL, |m| {
        unless_refused_ends(m);
        nft::count(m);
        nft::drop(m);
    }));
    messages.extend(spared.into_iter().flat_map(|port| nft::spare_port(TABLE, INPUT, port)));
    messages.extend(Kind::ALL.into_iter().flat_map(|kind| {
        let chain = match kind {
            Kind::Reach | Kind::Loss | Kind::Answer => None,
            Kind::Delay | Kind::Rate => Some(RELAY),
            Kind::Refusal => Some(REFUSAL_OF_PROBE),
            Kind::Hold => Some(HOLD),
        };
        lead_probes(TABLE, INPUT, kind, chain)
    }));
    messages.extend([HOLD, RELAY, REFUSAL].map(|chain| TABLE.rule(INPUT, |m| nft::jump(m, chain))));
    messages.extend(spared.into_iter().flat_map(make_way_out));
    messages
}

fn make_way_out(spared: u16) -> Vec<Message> {
    let mut messages = vec![
        TABLE.set(RELAYED_TO.0, RELAYED_TO.1, &ADDRESS),
        TABLE.chain(RELAY_OUT, None),
        TABLE.chain(OUTPUT, Some(HOOK_OUT)),
        TABLE.rule(RELAY_OUT, |m| {
            unless_at_ends(m, DESTINATION_OFFSET_BYTES, RELAYED_TO);
            nft::queue(m, relay::QUEUE);
        }),
    ];
    messages.extend(nft::spare_port(TABLE, OUTPUT, spared));
    messages.extend(Kind::ALL.into_iter().flat_map(|kind| {
        // Delays and all else are of what arrives.
        let chain = (kind == Kind::Rate).then_some(RELAY_OUT);
        lead_probes(TABLE, OUTPUT, kind, chain)
    }));
    messages.push(TABLE.rule(OUTPUT, |m| nft::jump(m, RELAY_OUT)));
    messages
}

/// Ends a rule unless it is TCP from where it is refused.
fn unless_refused_ends(m: &mut Message) {
    nft::load_transport(m);
    nft::unless_ends(m, Compare::Equal, &[libc::IPPROTO_TCP as u8]);
    unless_at_ends(m, SOURCE_OFFSET_BYTES, REFUSED);
}

/// Ends a rule unless the address there is in the set.
fn unless_at_ends(m: &mut Message, offset_bytes: u32, (set, number): (&str, u32)) {
    nft::load_header(m, offset_bytes, ADDRESS.size_bytes);
    nft::unless_in_ends(m, set, number);
}

/// Somebody to connect to, in the calling thread's namespace, for a probe of a kind; nobody is served.
pub(super) fn listen(address: Ipv4Addr, kind: Kind) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((address, 0))?;
    // Its half of opening a connection is a probe as well.
    sys::set_type_of_service(listener.as_fd(), kind.services()[0])?;
    Ok(listener)
}

/// Whether a connection from the calling thread's namespace is refused. Errors: `TimedOut`: it is neither refused nor made.
pub(super) fn is_refused(to: SocketAddrV4, wait: Duration) -> io::Result<bool> {
    match sys::connect_with_type_of_service(to, Kind::Refusal.services()[0], wait) {
        Ok(_) => Ok(false),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        Err(e) => Err(e),
    }
}
