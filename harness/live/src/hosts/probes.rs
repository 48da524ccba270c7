//! Datagrams that tell what a link between machines does: sent by one side, counted by the other.
//!
//! As in the sandbox (`sandbox/probe.rs`), each kind is marked by a type of service, and the packet filters lead it past all
//! that it is not about. A thread takes in what arrives, so that a burst does not overflow the socket while its owner does
//! something else.

use super::protocol::Send;
use crate::sandbox;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Tells probes from whatever else comes to the port.
const MAGIC: [u8; 8] = *b"riprap/p";
/// Magic, round, source.
const SIZE_BYTES: usize = 18;
/// What the socket is asked to hold of what is not read yet: more than all probes of a question, on a machine that runs
/// something else. Of a machine without root it may be less.
const ROOM_BYTES: libc::c_int = 8 << 20;
/// How often the thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);

/// A number of a question; datagrams of another count for nothing.
pub(super) type Round = u64;
/// How many datagrams came, by their source.
pub(super) type Arrived = BTreeMap<u16, u32>;

#[derive(Default)]
struct Seen {
    counts: Mutex<BTreeMap<(Round, u16), u32>>,
    came: Condvar,
}

impl Seen {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<(Round, u16), u32>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One side's socket.
pub(super) struct Probes {
    socket: UdpSocket,
    seen: Arc<Seen>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Probes {
    pub(super) fn open() -> io::Result<Probes> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        sandbox::make_room(socket.as_fd(), ROOM_BYTES);
        let (seen, ends) = (Arc::<Seen>::default(), Arc::<AtomicBool>::default());
        let receiver = socket.try_clone()?;
        receiver.set_read_timeout(Some(LOOK))?;
        let thread = thread::Builder::new().name("probes".to_owned()).spawn({
            let (seen, ends) = (Arc::clone(&seen), Arc::clone(&ends));
            move || receive(&receiver, &seen, &ends)
        })?;
        Ok(Probes { socket, seen, ends, thread: Some(thread) })
    }

    /// Where the others send to.
    pub(super) fn port(&self) -> io::Result<u16> {
        self.socket.local_addr().map(|address| address.port())
    }

    /// Sends what is asked for.
    pub(super) fn send(&self, send: &Send) -> io::Result<()> {
        sandbox::mark_probes(self.socket.as_fd(), send.kind)?;
        let bytes = [&MAGIC[..], &send.round.to_be_bytes(), &send.source.to_be_bytes()].concat();
        for _ in 0..send.count {
            for to in &send.to {
                match self.socket.send_to(&bytes, to) {
                    // A full buffer, or what the filter of this very machine drops: as good as lost.
                    Err(e)
                        if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::EPERM)) => {}
                    // An ICMP error about an earlier one.
                    Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
                    sent => drop(sent?),
                }
            }
        }
        Ok(())
    }

    /// How many of a round have come; waits until so many came from each of these, and no longer than that.
    pub(super) fn arrived(&self, round: Round, from: &BTreeSet<u16>, count: u32, wait: Duration) -> Arrived {
        let deadline = Instant::now() + wait;
        let mut counts = self.seen.counts();
        loop {
            let of_round = counts.range((round, 0)..=(round, u16::MAX));
            let arrived: Arrived = of_round.map(|(&(_, source), count)| (source, *count)).collect();
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero()
                || from.iter().all(|source| arrived.get(source).is_some_and(|came| *came >= count))
            {
                counts.retain(|(of, _), _| *of >= round);
                return arrived;
            }
            counts = self.seen.came.wait_timeout(counts, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn receive(socket: &UdpSocket, seen: &Seen, ends: &AtomicBool) {
    let mut bytes = [0; SIZE_BYTES + 1];
    while !ends.load(Ordering::Relaxed) {
        // Without an answer: nothing came for a while, or an ICMP error about what was sent.
        let Ok((len, _)) = socket.recv_from(&mut bytes) else { continue };
        let Some(key) = parse(&bytes[..len]) else { continue };
        *seen.counts().entry(key).or_default() += 1;
        seen.came.notify_all();
    }
}

fn parse(bytes: &[u8]) -> Option<(Round, u16)> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (round, source) = rest.split_at_checked(8)?;
    Some((Round::from_be_bytes(round.try_into().ok()?), u16::from_be_bytes(source.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::ProbeKind;
    use std::net::SocketAddrV4;

    #[test]
    fn probes_are_counted_by_round_and_source() {
        let (one, two) = (Probes::open().expect("a port"), Probes::open().expect("a port"));
        let to = vec![SocketAddrV4::new(Ipv4Addr::LOCALHOST, two.port().expect("it has one"))];
        let wait = Duration::from_secs(20);
        let send = |round, source, count| {
            let kind = ProbeKind::Reach;
            one.send(&Send { kind, round, source, to: to.clone(), count }).expect("sent");
        };
        send(7, 1, 2);
        send(8, 1, 1);
        send(8, 2, 1);
        let both = BTreeSet::from([1, 2]);
        assert_eq!(two.arrived(8, &both, 1, wait), Arrived::from([(1, 1), (2, 1)]));
        // Of an earlier round nobody asks any more.
        assert_eq!(two.arrived(7, &both, 1, Duration::ZERO), Arrived::new());
        one.socket.send_to(b"something else, and long", to[0]).expect("sent");
        assert_eq!(two.arrived(9, &both, 1, Duration::from_millis(1)), Arrived::new());
    }

    #[test]
    fn only_whole_probes_count() {
        let whole = [&MAGIC[..], &[0, 0, 0, 0, 0, 0, 0, 9, 0, 3]].concat();
        assert_eq!(parse(&whole), Some((9, 3)));
        assert!((0..whole.len()).all(|len| parse(&whole[..len]).is_none()));
        assert_eq!(parse(&[&whole[..], &[0]].concat()), None);
    }
}
