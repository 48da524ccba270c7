//! Connections between hosts, and with the harness, on which nothing arrives for a while.
//!
//! As in the sandbox (`sandbox/holds.rs`): the host that is to hear nothing keeps what is sent to it, and the proof is a connection
//! of our own over each link, made just before and held with the others. Its near end is where things are sent, its far end
//! where they must not arrive until they are let go.

use super::cluster::{HostCluster, at_once};
use super::protocol::Ask;
use crate::sandbox::{self, Flow, ProbeKind};
use riprap_core::cluster::{ClusterError, End, Link, NodeId, PerLink};
use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::{MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a connection of our own may take to be made.
const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// How long what must not arrive gets to: many times what it takes in a usual network.
const LEAK_WAIT: Duration = Duration::from_millis(100);
/// How long what must arrive may take: it is there already.
const LET_GO_WAIT: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(1);

/// One machine's ends of connections that prove that others are held.
#[derive(Default)]
pub(super) struct HoldProbes {
    listener: Option<TcpListener>,
    near: Vec<TcpStream>,
    far: Vec<TcpStream>,
}

impl HoldProbes {
    /// Takes connections. Returns at which port.
    pub(super) fn listen(&mut self, listener: TcpListener) -> io::Result<u16> {
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        self.listener = Some(listener);
        Ok(port)
    }

    /// Replaces the near ends.
    pub(super) fn connect(&mut self, to: &[SocketAddrV4]) -> io::Result<()> {
        self.near.clear();
        for to in to {
            self.near.push(sandbox::connect(*to, ProbeKind::Hold, CONNECT_WAIT)?);
        }
        Ok(())
    }

    /// Takes in so many connections that were made to where it listens. They replace the far ends.
    pub(super) fn accept(&mut self, count: usize) -> io::Result<()> {
        self.far.clear();
        let listener = self.listener.take().ok_or(io::ErrorKind::NotConnected)?;
        let deadline = Instant::now() + CONNECT_WAIT;
        while self.far.len() < count {
            match listener.accept() {
                Ok((far, _)) => {
                    far.set_nonblocking(true)?;
                    self.far.push(far);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                    thread::sleep(POLL);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// All ends, as the connections of this machine: by the other end and by its own.
    pub(super) fn all(&self) -> BTreeSet<Flow> {
        self.near.iter().chain(&self.far).filter_map(flow).collect()
    }

    /// The same of the far ends.
    pub(super) fn far(&self) -> BTreeSet<Flow> {
        self.far.iter().filter_map(flow).collect()
    }

    /// Sends something from each near end.
    pub(super) fn send(&mut self) -> io::Result<()> {
        self.near.iter_mut().try_for_each(|near| near.write_all(&[1]))
    }

    /// Whose far ends something has arrived at; those are done with.
    pub(super) fn arrived(&mut self) -> BTreeSet<Ipv4Addr> {
        let mut from = BTreeSet::new();
        self.far.retain_mut(|far| {
            let has_arrived = far.read(&mut [0]).is_ok_and(|read| read == 1);
            from.extend(flow(far).filter(|_| has_arrived).map(|(other, _)| *other.ip()));
            !has_arrived
        });
        from
    }

    /// Waits until something has arrived at all far ends. Returns at whose nothing does; all are done with.
    pub(super) fn await_all(&mut self) -> BTreeSet<Ipv4Addr> {
        let deadline = Instant::now() + LET_GO_WAIT;
        loop {
            self.arrived();
            if self.far.is_empty() || Instant::now() >= deadline {
                return std::mem::take(&mut self.far)
                    .iter()
                    .filter_map(flow)
                    .map(|(other, _)| *other.ip())
                    .collect();
            }
            thread::sleep(POLL);
        }
    }
}

/// None of a connection that has been broken.
fn flow(stream: &TcpStream) -> Option<Flow> {
    match (stream.peer_addr().ok()?, stream.local_addr().ok()?) {
        (SocketAddr::V4(other), SocketAddr::V4(own)) => Some((other, own)),
        _ => None,
    }
}

impl HostCluster {
    /// Holds what is sent in these directions, each to a node, on the connections that stand now, and lets go all else. Returns
    /// how many are held.
    ///
    /// Errors: what must not arrive did, or what was let go did not.
    pub(super) fn hold_links(&self, links: &BTreeSet<Link>) -> Result<PerLink<usize>, ClusterError> {
        self.let_go()?;
        let deaf: BTreeSet<NodeId> = links.iter().filter_map(|(_, to)| node(*to)).collect();
        let deaf: Vec<NodeId> = deaf.into_iter().collect();
        if deaf.is_empty() {
            return Ok(PerLink::default());
        }
        let ports = at_once(&deaf, |id| self.ask::<u16>(*id, &Ask::ListenForHolds))?;
        let place = |to: End| {
            let at = deaf.iter().position(|id| End::Node(*id) == to).expect("all of them listen");
            SocketAddrV4::new(*self.hosts[&deaf[at]].probes.ip(), ports[at])
        };
        let sources: BTreeSet<End> = links.iter().map(|(from, _)| *from).collect();
        let sources: Vec<End> = sources.into_iter().collect();
        at_once(&sources, |from| {
            let of_it = links.iter().filter(|(source, _)| source == from);
            let to: Vec<SocketAddrV4> = of_it.map(|(_, to)| place(*to)).collect();
            match from {
                End::Node(id) => self.ask(*id, &Ask::ConnectToHold { to }),
                End::Clients => {
                    self.hold_probes().connect(&to).map_err(|e| failed("open a connection to hold", &e))
                }
            }
        })?;
        self.deaf.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&deaf);
        let held = at_once(&deaf, |id| {
            let to_it = links.iter().filter(|(_, to)| *to == End::Node(*id));
            let others = to_it.map(|(from, _)| self.address(*from, *id)).collect();
            let standing: Vec<Ipv4Addr> = self.ask(*id, &Ask::Hold { others })?;
            let harness = self.address(End::Clients, *id);
            let clients = standing.iter().filter(|other| **other == harness).count();
            Ok(PerLink { peers: standing.len() - clients, clients })
        })?;
        at_once(&sources, |from| match from {
            End::Node(id) => self.ask(*id, &Ask::SendHeld),
            End::Clients => self.hold_probes().send().map_err(|e| failed("send what is held", &e)),
        })?;
        thread::sleep(LEAK_WAIT);
        self.each_silent(&deaf, &Ask::Leaks, "what is sent on a connection that is held arrives")?;
        Ok(PerLink {
            peers: held.iter().map(|held| held.peers).sum(),
            clients: held.iter().map(|held| held.clients).sum(),
        })
    }

    fn hold_probes(&self) -> MutexGuard<'_, HoldProbes> {
        self.hold_probes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn let_go(&self) -> Result<(), ClusterError> {
        let deaf = std::mem::take(&mut *self.deaf.lock().unwrap_or_else(PoisonError::into_inner));
        self.each_silent(&deaf, &Ask::LetGo, "nothing arrives on a connection that was let go")
    }

    /// Asks each of these of whom that is so. Errors: of anybody.
    fn each_silent(&self, nodes: &[NodeId], ask: &Ask, what: &str) -> Result<(), ClusterError> {
        at_once(nodes, |id| {
            let of: BTreeSet<Ipv4Addr> = self.ask(*id, ask)?;
            let told = |other: &Ipv4Addr| ClusterError(format!("{what}, from {other} to {id}"));
            of.first().map_or(Ok(()), |other| Err(told(other)))
        })
        .map(drop)
    }
}

fn node(end: End) -> Option<NodeId> {
    match end {
        End::Node(node) => Some(node),
        End::Clients => None,
    }
}

fn failed(what: &str, error: &io::Error) -> ClusterError {
    ClusterError(format!("failed to {what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_from_near_ends_arrives_at_far_ends() {
        let (mut one, mut two) = (HoldProbes::default(), HoldProbes::default());
        let own = Ipv4Addr::LOCALHOST;
        let port = two.listen(TcpListener::bind((own, 0)).expect("a port")).expect("it has one");
        one.connect(&[SocketAddrV4::new(own, port), SocketAddrV4::new(own, port)]).expect("connected");
        two.accept(2).expect("both are there");
        let turned: BTreeSet<Flow> = one.all().iter().map(|(a, b)| (*b, *a)).collect();
        assert_eq!(turned.len(), 2);
        assert_eq!((two.all(), two.far(), one.far()), (turned.clone(), turned, BTreeSet::new()));
        assert_eq!(two.arrived(), BTreeSet::new());
        one.send().expect("sent");
        assert_eq!(two.await_all(), BTreeSet::new());
        assert_eq!(two.all(), BTreeSet::new());
    }

    #[test]
    fn who_does_not_come_is_missed() {
        let mut two = HoldProbes::default();
        assert!(two.accept(0).is_err(), "nobody listens");
        two.listen(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port")).expect("it has one");
        two.accept(0).expect("all are there");
    }
}
