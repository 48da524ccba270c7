//! Whether one place in the network reaches another: asked of the network, not of the rules that were set.
//!
//! A probe is a datagram from a socket in the source's namespace to a socket in the destination's, which either sees it
//! or does not. Datagrams are the only thing that is truly one-way: a TCP connection needs both directions, so that a
//! one-way cut stops it in both.
//!
//! Delivery on a bridge happens while the sender sends, so a datagram that has not come after some milliseconds does not
//! come. Each is sent anew throughout the wait, so that "no" means that every one of them was lost.
//!
//! The sockets belong to the harness: a stopped or absent server in the node does not matter.

use super::sys;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Whether datagrams get from one place to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// One did.
    Yes,
    /// Of several, sent throughout the wait, none did.
    No,
}

/// When a datagram has not come after this time, it is sent anew: often enough within a usual wait of some 200 ms that one
/// lost to a full backlog does not decide.
const AGAIN: Duration = Duration::from_millis(20);

/// A datagram says in which round it was sent and for which of its pairs.
const PAYLOAD_SIZE_BYTES: usize = 16;

/// One socket for each place, all of them held open.
#[derive(Default, Debug)]
pub(super) struct Probes {
    sockets: Vec<UdpSocket>,
    addresses: Vec<SocketAddrV4>,
    round: u64,
}

/// A socket for the place in whose network namespace the calling thread is.
pub(super) fn socket() -> io::Result<UdpSocket> {
    // Not bound to the place's address, which it has yet to be given.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl Probes {
    /// Adds a place, by a socket made in it and its address; the first is at position 0.
    pub(super) fn add(&mut self, socket: UdpSocket, address: Ipv4Addr) -> io::Result<()> {
        self.addresses.push(SocketAddrV4::new(address, socket.local_addr()?.port()));
        self.sockets.push(socket);
        Ok(())
    }

    /// The addresses of all places, in order.
    pub(super) fn places(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.addresses.iter().map(|a| *a.ip())
    }

    /// Probes pairs of places (by their position), all at once; takes `wait` if any pair is cut, and next to nothing if
    /// none is.
    pub(super) fn reach(&mut self, pairs: &[(usize, usize)], wait: Duration) -> io::Result<Vec<Reach>> {
        self.round += 1;
        let deadline = Instant::now() + wait;
        let mut found = vec![Reach::No; pairs.len()];
        let mut send_next = Instant::now();
        loop {
            let now = Instant::now();
            if now >= send_next {
                self.send(pairs, &found)?;
                send_next = now + AGAIN;
            }
            let sockets: Vec<_> = self.sockets.iter().map(AsFd::as_fd).collect();
            let next = send_next.min(deadline);
            let ready = sys::readable(&sockets, next.saturating_duration_since(Instant::now()))?;
            for place in (0..ready.len()).filter(|&i| ready[i]) {
                self.receive(place, pairs, &mut found);
            }
            // Only here, after a look at what has come: a thread that was kept waiting for a CPU has not asked in vain.
            if !found.contains(&Reach::No) || Instant::now() >= deadline {
                return Ok(found);
            }
        }
    }

    fn send(&self, pairs: &[(usize, usize)], found: &[Reach]) -> io::Result<()> {
        for (i, &(source, destination)) in pairs.iter().enumerate().filter(|(i, _)| found[*i] == Reach::No) {
            let payload = [self.round.to_ne_bytes(), (i as u64).to_ne_bytes()].concat();
            let sent = self.sockets[source].send_to(&payload, self.addresses[destination]);
            match sent.as_ref().map_err(io::Error::raw_os_error) {
                // A full send buffer, or a link not yet in service: as good as lost.
                Err(Some(libc::EAGAIN | libc::ENOBUFS)) => {}
                _ => drop(sent?),
            }
        }
        Ok(())
    }

    /// Takes in all that has come to a place. Datagrams of earlier rounds, and strangers', count for nothing.
    fn receive(&self, place: usize, pairs: &[(usize, usize)], found: &mut [Reach]) {
        let mut bytes = [0; PAYLOAD_SIZE_BYTES];
        while let Ok((len, from)) = self.sockets[place].recv_from(&mut bytes) {
            let (round, pair) = bytes.split_at(8);
            let pair = u64::from_ne_bytes(pair.try_into().expect("8 bytes")) as usize;
            let Some(&(source, destination)) = pairs.get(pair) else { continue };
            let expected = destination == place && from == self.addresses[source].into();
            if expected && len == PAYLOAD_SIZE_BYTES && round == self.round.to_ne_bytes() {
                found[pair] = Reach::Yes;
            }
        }
    }
}
