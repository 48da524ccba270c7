//! The network of a whole machine, as the agent on it can change it: what the sandbox does to a node on its bridge, done to a
//! host by a packet filter of its own.
//!
//! A host sees what comes to it and what it sends. What comes from another host is dropped where it arrives, as the bridge
//! does it; what goes to clients is dropped where it leaves, since clients are on a machine that is left alone.
//!
//! ```text
//! table ip riprap-links {
//!     set cut-from|cut-to|lossy-from|lossy-to { type ipv4_addr }
//!     chain spared   { tcp port SSH, on our side  accept }
//!     chain cut-in   { ip saddr @cut-from  counter  drop }         chain cut-out  { ip daddr @cut-to  counter  drop }
//!     chain loss-in  { ip saddr @lossy-from  numgen random mod 100 < PERCENT  counter  drop }      and loss-out
//!     chain input|output { type filter hook ... priority -10; spared, probes, then jump cut-in  jump loss-in }
//! }
//! ```
//!
//! Refusals and what is to [wait](super::waits) are the [door](super::door)'s, by its own table. The connection by which the
//! harness asks is spared by both, for a harness that cuts itself off can heal nothing. Needs CAP_NET_ADMIN, as root has it.

use super::connections::{Connection, Connections};
use super::door::{self, Door};
use super::error::SandboxError;
use super::filter::lead_probes;
use super::netlink::{Message, Refusal};
use super::nft::{self, Compare, Hook, Key, Nft, Table};
use super::probe::Kind;
use super::relay::Flow;
use super::sys;
use super::waits::{Slow, Waits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::time::Duration;

const TABLE: Table = Table { family: libc::AF_INET as u8, name: "riprap-links" };
/// To nft(8), ipv4_addr.
const ADDRESS: Key = Key { size_bytes: 4, kind: 7 };
const SOURCE_OFFSET_BYTES: u32 = 12;
const DESTINATION_OFFSET_BYTES: u32 = 16;
const SPARED: &str = "spared";
/// Before the filters that a machine may have of its own, and before the door.
const PRIORITY: i32 = -10;

/// A direction of what a host sees.
struct Way {
    hook: &'static str,
    /// NF_INET_LOCAL_IN or NF_INET_LOCAL_OUT.
    hook_number: u32,
    /// Of the address at the other end.
    offset_bytes: u32,
    cut: (&'static str, &'static str, u32),
    loss: (&'static str, &'static str, u32),
}

const IN: Way = Way {
    hook: "input",
    hook_number: 1,
    offset_bytes: SOURCE_OFFSET_BYTES,
    cut: ("cut-in", "cut-from", 1),
    loss: ("loss-in", "lossy-from", 2),
};
const OUT: Way = Way {
    hook: "output",
    hook_number: 3,
    offset_bytes: DESTINATION_OFFSET_BYTES,
    cut: ("cut-out", "cut-to", 3),
    loss: ("loss-out", "lossy-to", 4),
};

/// What is wrong with a host's links: the addresses at their other ends.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Rules {
    /// Nothing comes from there.
    pub(crate) cut_from: BTreeSet<Ipv4Addr>,
    /// Nothing goes there.
    pub(crate) cut_to: BTreeSet<Ipv4Addr>,
    /// Some of what comes from there is lost.
    pub(crate) lossy_from: BTreeSet<Ipv4Addr>,
    /// Some of what goes there is lost.
    pub(crate) lossy_to: BTreeSet<Ipv4Addr>,
    /// So many packets of a hundred.
    pub(crate) loss_percent: u8,
    /// Connections from there are refused.
    pub(crate) refused: BTreeSet<Ipv4Addr>,
    /// What comes late, or little at a time.
    pub(crate) slow: Slow,
}

/// See the module.
pub(crate) struct HostNetwork {
    nft: Nft,
    door: Door,
    waits: Waits,
    own: Ipv4Addr,
    /// The port whose connections are left alone.
    spared: u16,
}

impl HostNetwork {
    /// Of this machine, whose address to the others is `own`; what is said by TCP to or from its port `spared` is left alone.
    /// What an agent that did not end in order has left is taken away.
    ///
    /// Errors: [`SandboxError::Network`]: without CAP_NET_ADMIN, or on a kernel without nftables.
    pub(crate) fn new(own: Ipv4Addr, spared: u16) -> Result<HostNetwork, SandboxError> {
        let mut nft = Nft::open().map_err(SandboxError::setup("open a netlink socket"))?;
        let mut door = Door::of_host(spared).map_err(SandboxError::setup("open a netlink socket"))?;
        // Most often there is nothing to take away.
        let _ = nft.transaction(vec![TABLE.delete()]);
        let _ = door.remove_leftover();
        nft.transaction(make(spared)).map_err(SandboxError::network("make a packet filter"))?;
        Ok(HostNetwork { nft, door, waits: Waits::default(), own, spared })
    }

    /// Replaces all that is wrong with the links, at one instant for each kind.
    pub(crate) fn apply(&mut self, rules: &Rules) -> Result<(), SandboxError> {
        self.change(rules).map_err(SandboxError::network("change the packet filter"))?;
        self.waits.set_slow(&mut self.door, self.own, &rules.slow)
    }

    /// Replaces the connections on which what is sent to this host waits until they are let go, each by its other end and by
    /// its own.
    pub(crate) fn hold(&mut self, held: BTreeSet<Flow>) -> Result<(), SandboxError> {
        self.waits.set_held(&mut self.door, self.own, held)
    }

    /// The connections over TCP that this host has with these addresses now, by their other ends and their own; but for those
    /// of the port that is left alone.
    pub(crate) fn standing(&self, others: &BTreeSet<Ipv4Addr>) -> Result<Vec<Flow>, SandboxError> {
        let mut connections = Connections::open().map_err(SandboxError::setup("open a netlink socket"))?;
        let standing = self.standing_of(&mut connections, others)?;
        Ok(standing.iter().map(|it| (it.remote, it.local)).collect())
    }

    fn standing_of(
        &self,
        connections: &mut Connections,
        others: &BTreeSet<Ipv4Addr>,
    ) -> Result<Vec<Connection>, SandboxError> {
        let mut standing = connections.list().map_err(SandboxError::network("list connections"))?;
        standing.retain(|it| others.contains(it.remote.ip()) && it.local.port() != self.spared);
        Ok(standing)
    }

    fn change(&mut self, rules: &Rules) -> Result<(), Refusal> {
        let mut messages = Vec::new();
        for (way, cut, lossy) in
            [(&IN, &rules.cut_from, &rules.lossy_from), (&OUT, &rules.cut_to, &rules.lossy_to)]
        {
            messages.extend(TABLE.replace_elements(way.cut.1, &keys(cut)));
            messages.extend(TABLE.replace_elements(way.loss.1, &keys(lossy)));
            messages.push(TABLE.flush(way.loss.0));
            messages.push(TABLE.rule(way.loss.0, |m| {
                unless_of_ends(m, way, way.loss);
                nft::load_random(m, 100);
                nft::unless_ends(m, Compare::Less, &u32::from(rules.loss_percent).to_be_bytes());
                nft::count(m);
                nft::drop(m);
            }));
        }
        self.nft.transaction(messages)?;
        self.door.set_refused(&rules.refused.iter().copied().collect::<Vec<_>>())
    }

    /// How many packets the cuts have dropped here.
    pub(crate) fn dropped_packets(&mut self) -> Result<u64, SandboxError> {
        let mut counted = || Ok(self.nft.counted(TABLE, IN.cut.0)? + self.nft.counted(TABLE, OUT.cut.0)?);
        counted().map_err(SandboxError::network("read the packet filter's counters"))
    }

    /// Breaks the connections over TCP that [stand](Self::standing), but for those that are `ours`. Returns the other ends of
    /// those that are broken, each as often as there were any. Who was at the other end is sent a reset.
    pub(crate) fn reset(
        &self,
        others: &BTreeSet<Ipv4Addr>,
        ours: &BTreeSet<Flow>,
    ) -> Result<Vec<Ipv4Addr>, SandboxError> {
        let what = || SandboxError::network("break connections");
        let mut connections = Connections::open().map_err(SandboxError::setup("open a netlink socket"))?;
        let mut standing = self.standing_of(&mut connections, others)?;
        standing.retain(|it| !ours.contains(&(it.remote, it.local)));
        for connection in &standing {
            connections.abort(connection).map_err(what())?;
        }
        let left = connections.list().map_err(what())?;
        standing.retain(|connection| !left.contains(connection));
        Ok(standing.iter().map(|connection| *connection.remote.ip()).collect())
    }

    /// Somebody to connect to, for a probe of a kind.
    pub(crate) fn listen(&self, kind: Kind) -> io::Result<TcpListener> {
        door::listen(self.own, kind)
    }

    /// Takes away what it has made; what waits goes on.
    pub(crate) fn remove(&mut self) -> Result<(), SandboxError> {
        let let_go = self.waits.end(&mut self.door, self.own);
        let removed = self.nft.transaction(vec![TABLE.delete()]);
        let removed = removed.and_then(|()| self.door.remove());
        let_go.and(removed.map_err(SandboxError::network("remove the packet filter")))
    }
}

/// Opens a connection that is a probe of a kind from its first packet on; reads and writes of it never wait.
pub(crate) fn connect(to: SocketAddrV4, kind: Kind, wait: Duration) -> io::Result<TcpStream> {
    sys::connect_with_type_of_service(to, kind.services()[0], wait)
}

/// Whether a connection to there is refused. Errors: `TimedOut`: it is neither refused nor made.
pub(crate) fn is_refused(to: SocketAddrV4, wait: Duration) -> io::Result<bool> {
    door::is_refused(to, wait)
}

fn make(spared: u16) -> Vec<Message> {
    let mut messages = vec![TABLE.create()];
    for way in [&IN, &OUT] {
        messages.extend([way.cut, way.loss].map(|(_, set, number)| TABLE.set(set, number, &ADDRESS)));
    }
    messages.push(TABLE.chain(SPARED, None));
    messages.extend(nft::spare_port(TABLE, SPARED, spared));
    for way in [&IN, &OUT] {
        let hook = Hook { number: way.hook_number, priority: PRIORITY };
        messages.extend([way.cut, way.loss].map(|(chain, ..)| TABLE.chain(chain, None)));
        messages.push(TABLE.chain(way.hook, Some(hook)));
        messages.push(TABLE.rule(way.cut.0, |m| {
            unless_of_ends(m, way, way.cut);
            nft::count(m);
            nft::drop(m);
        }));
        messages.push(TABLE.rule(way.hook, |m| nft::jump(m, SPARED)));
        messages.extend(Kind::ALL.into_iter().flat_map(|kind| {
            let chain = match kind {
                Kind::Reach => Some(way.cut.0),
                Kind::Loss => Some(way.loss.0),
                Kind::Delay | Kind::Rate | Kind::Refusal | Kind::Hold | Kind::Answer => None,
            };
            lead_probes(TABLE, way.hook, kind, chain)
        }));
        messages.extend([way.cut, way.loss].map(|(chain, ..)| TABLE.rule(way.hook, |m| nft::jump(m, chain))));
    }
    messages
}

/// Ends a rule unless the other end is in a set.
fn unless_of_ends(m: &mut Message, way: &Way, (_, set, number): (&str, &str, u32)) {
    nft::load_header(m, way.offset_bytes, ADDRESS.size_bytes);
    nft::unless_in_ends(m, set, number);
}

fn keys(addresses: &BTreeSet<Ipv4Addr>) -> Vec<Vec<u8>> {
    addresses.iter().map(|address| address.octets().to_vec()).collect()
}
