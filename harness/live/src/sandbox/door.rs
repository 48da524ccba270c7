//! The packet filter at the door of a place: what happens to packets that have arrived over the bridge.
//!
//! A table of the ip family in the place's own namespace, because the bridge's family can neither refuse nor queue on every
//! kernel. It is made when it is first needed; a kernel that lacks parts of it is none the worse for that until then.
//!
//! ```text
//! table ip riprap {
//!     set relayed|refused { type ipv4_addr }
//!     chain relay   { ip saddr @relayed  queue }
//!     chain refusal { meta l4proto tcp  ip saddr @refused  counter  reject with icmp port-unreachable }
//!     chain input { type filter hook input priority 0;
//!         ip tos PROBE_OF_DELAY|PROBE_OF_RATE  goto relay
//!         ip tos PROBE_OF_REFUSAL  goto refusal
//!         ip tos of another probe  accept
//!         jump relay  jump refusal
//!     }
//! }
//! ```
//!
//! What is queued goes to the [relay](super::relay). Of a refusal, who opens a connection is told at once that nobody listens
//! there. What arrives on one that stands is dropped like that too, but a kernel that hears of it only sends again: such a
//! connection stalls, and goes on after the heal. So do connections that the place itself opens: the answer is dropped.

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
const REFUSED: (&str, u32) = ("refused", 2);
const INPUT: &str = "input";
/// NF_INET_LOCAL_IN; NF_IP_PRI_FILTER.
const HOOK: Hook = Hook { number: 1, priority: 0 };
/// To nft(8), ipv4_addr.
const ADDRESS: Key = Key { size_bytes: 4, kind: 7 };
const SOURCE_OFFSET_BYTES: u32 = 12;

/// The door of one place.
#[derive(Debug)]
pub(super) struct Door {
    nft: Nft,
    is_made: bool,
}

impl Door {
    /// Of the place in whose network namespace the calling thread is.
    pub(super) fn new() -> io::Result<Door> {
        Ok(Door { nft: Nft::open()?, is_made: false })
    }

    /// Replaces the sources of what is handed to the relay.
    pub(super) fn set_relayed(&mut self, sources: &[Ipv4Addr]) -> Result<(), Refusal> {
        self.replace(RELAYED.0, sources)
    }

    /// Replaces the sources whose connections are refused.
    pub(super) fn set_refused(&mut self, sources: &[Ipv4Addr]) -> Result<(), Refusal> {
        self.replace(REFUSED.0, sources)
    }

    fn replace(&mut self, set: &str, sources: &[Ipv4Addr]) -> Result<(), Refusal> {
        if !self.is_made && sources.is_empty() {
            return Ok(());
        }
        let keys: Vec<Vec<u8>> = sources.iter().map(|address| address.octets().to_vec()).collect();
        let mut messages = if self.is_made { Vec::new() } else { make() };
        messages.extend(TABLE.replace_elements(set, &keys));
        self.nft.transaction(messages)?;
        self.is_made = true;
        Ok(())
    }

    /// Removes the table.
    pub(super) fn remove(&mut self) -> Result<(), Refusal> {
        if std::mem::take(&mut self.is_made) { self.nft.transaction(vec![TABLE.delete()]) } else { Ok(()) }
    }
}

fn make() -> Vec<Message> {
    let mut messages = vec![
        TABLE.create(),
        TABLE.set(RELAYED.0, RELAYED.1, &ADDRESS),
        TABLE.set(REFUSED.0, REFUSED.1, &ADDRESS),
        TABLE.chain(RELAY, None),
        TABLE.chain(REFUSAL, None),
        TABLE.chain(INPUT, Some(HOOK)),
        TABLE.rule(RELAY, |m| {
            unless_from_ends(m, RELAYED);
            nft::queue(m, relay::QUEUE);
        }),
        TABLE.rule(REFUSAL, |m| {
            nft::load_transport(m);
            nft::unless_ends(m, Compare::Equal, &[libc::IPPROTO_TCP as u8]);
            unless_from_ends(m, REFUSED);
            nft::count(m);
            nft::reject(m);
        }),
    ];
    messages.extend(Kind::ALL.into_iter().flat_map(|kind| {
        let chain = match kind {
            Kind::Reach | Kind::Loss => None,
            Kind::Delay | Kind::Rate => Some(RELAY),
            Kind::Refusal => Some(REFUSAL),
        };
        lead_probes(TABLE, INPUT, kind, chain)
    }));
    messages.extend([RELAY, REFUSAL].map(|chain| TABLE.rule(INPUT, |m| nft::jump(m, chain))));
    messages
}

/// Ends a rule unless the packet is from a source of the set.
fn unless_from_ends(m: &mut Message, (set, number): (&str, u32)) {
    nft::load_header(m, SOURCE_OFFSET_BYTES, ADDRESS.size_bytes);
    nft::unless_in_ends(m, set, number);
}

/// Somebody to connect to, in the calling thread's namespace; nobody is served.
pub(super) fn listen(address: Ipv4Addr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((address, 0))?;
    // Its half of opening a connection is a probe as well.
    sys::set_type_of_service(listener.as_fd(), Kind::Refusal.services()[0])?;
    Ok(listener)
}

/// Whether a connection from the calling thread's namespace is refused. Errors: `TimedOut`: it is neither refused nor made.
pub(super) fn is_refused(to: SocketAddrV4, wait: Duration) -> io::Result<bool> {
    match sys::connect_with_type_of_service(to, Kind::Refusal.services()[0], wait) {
        Ok(()) => Ok(false),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        Err(e) => Err(e),
    }
}
