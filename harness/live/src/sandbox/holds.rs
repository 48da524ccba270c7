//! Connections that stand and on which nothing arrives for a while.
//!
//! What is sent to a node on them is handed to the [relay](super::relay), which keeps it until they are let go: then it arrives in
//! the order in which it was sent, even if its sender has closed the connection since. Acknowledgements wait too, so that what
//! the node sends is sent again and again.
//!
//! The proof is a connection of our own over each link, made just before and held with the others: what is sent on it must
//! not arrive, and must once it is let go.

use super::connections::{Connection, Connections};
use super::door;
use super::error::SandboxError;
use super::network::{Endpoint, Network, lock};
use super::packets::Ends;
use super::probe::Kind;
use super::relay::Flow;
use super::sys;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddrV4, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// How long a connection of our own may take to be made.
const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// How long what must not arrive gets to: it would within some tens of microseconds.
const LEAK_WAIT: Duration = Duration::from_millis(20);
/// How long what must arrive may take: it is on its way already, and sent again every second at least.
const LET_GO_WAIT: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(1);

/// A connection of our own that is held.
#[derive(Debug)]
pub(super) struct HoldProbe {
    ends: Ends,
    near: TcpStream,
    far: TcpStream,
}

impl HoldProbe {
    fn flow(&self) -> std::io::Result<(SocketAddrV4, SocketAddrV4)> {
        match (self.far.peer_addr()?, self.far.local_addr()?) {
            (std::net::SocketAddr::V4(from), std::net::SocketAddr::V4(to)) => Ok((from, to)),
            other => unreachable!("a connection over IPv4 between {other:?}"),
        }
    }

    fn has_arrived(&mut self) -> bool {
        self.far.read(&mut [0]).is_ok_and(|read| read == 1)
    }
}

impl Network {
    /// Holds what is sent in these directions on the connections over TCP that stand now, and lets go all else. Returns the
    /// directions of those that are held, each as often as there are any.
    ///
    /// Errors: what must not arrive did, or what was let go did not.
    pub fn hold(&self, directions: &BTreeSet<Ends>) -> Result<Vec<Ends>, SandboxError> {
        let mut standing = Vec::new();
        self.set_held(BTreeSet::new())?;
        self.await_let_go()?;
        if directions.is_empty() {
            return Ok(standing);
        }
        let mut probes = Vec::new();
        for ends in directions {
            probes.push(self.hold_probe(*ends)?);
        }
        let what = || SandboxError::setup("hold connections");
        let own: BTreeSet<Flow> =
            probes.iter().map(HoldProbe::flow).collect::<Result<_, _>>().map_err(what())?;
        let mut held = own.clone();
        for to in directions.iter().map(|(_, to)| *to).collect::<BTreeSet<Endpoint>>() {
            let listed = self.at(to, Connections::open)?.map_err(what())?.list();
            let listed = listed.map_err(SandboxError::network("list connections"))?;
            for Connection { local, remote, .. } in listed {
                let from = self.all_places().find(|place| self.address(*place) == *remote.ip());
                let ends = from.map(|from| (from, to)).filter(|ends| directions.contains(ends));
                let is_own = own.contains(&(remote, local)) || own.contains(&(local, remote));
                if let Some(ends) = ends.filter(|_| !is_own) {
                    standing.push(ends);
                    held.insert((remote, local));
                }
            }
        }
        self.set_held(held)?;
        for probe in &mut probes {
            probe.near.write_all(&[1]).map_err(what())?;
        }
        thread::sleep(LEAK_WAIT);
        if let Some(probe) = probes.iter_mut().find_map(|probe| probe.has_arrived().then_some(probe)) {
            let source = std::io::Error::other(format!("what is sent over {:?} arrives", probe.ends));
            return Err(what()(source));
        }
        *lock(&self.hold_probes) = probes;
        Ok(standing)
    }

    /// The connections of our own that are held.
    pub(super) fn hold_probe_flows(&self) -> BTreeSet<Flow> {
        lock(&self.hold_probes).iter().filter_map(|probe| probe.flow().ok()).collect()
    }

    /// Waits until what was sent on our own connections has arrived.
    fn await_let_go(&self) -> Result<(), SandboxError> {
        let mut probes = std::mem::take(&mut *lock(&self.hold_probes));
        let deadline = Instant::now() + LET_GO_WAIT;
        while !probes.is_empty() {
            probes.retain_mut(|probe| !probe.has_arrived());
            if Instant::now() >= deadline && !probes.is_empty() {
                let source = std::io::Error::other(format!("nothing arrives over {:?}", probes[0].ends));
                return Err(SandboxError::setup("let connections go")(source));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn hold_probe(&self, ends: Ends) -> Result<HoldProbe, SandboxError> {
        let (from, to) = ends;
        let what = || SandboxError::setup("open a connection to hold");
        let address = self.address(to);
        let listener = self.at(to, || door::listen(address, Kind::Hold))?.map_err(what())?;
        let port = listener.local_addr().map_err(what())?.port();
        let to = SocketAddrV4::new(address, port);
        let tos = Kind::Hold.services()[0];
        let near =
            self.at(from, || sys::connect_with_type_of_service(to, tos, CONNECT_WAIT))?.map_err(what())?;
        let far = listener.accept().map_err(what())?.0;
        far.set_nonblocking(true).map_err(what())?;
        Ok(HoldProbe { ends, near, far })
    }
}
