//! Datagrams that tell what a link between machines does: sent by one side, counted by the other.
//!
//! As in the sandbox (`sandbox/probe.rs`), each kind is marked by a type of service, and the packet filters lead it past all
//! that it is not about. A thread takes in what arrives, so that a burst does not overflow the socket while its owner does
//! something else.
//!
//! Clocks of machines differ, so that how long a datagram takes is told by when its answer comes, to which nothing happens:
//! between machines that are near each other that adds next to nothing.
//!
//! ```text
//! "riprap/p"  ' ' counted, '?' to be answered, '!' an answer  round  source  link  which of the link  zeros
//! 8           1                                               8      2       2     2
//! ```

use super::protocol::Send;
use crate::links::Took;
use crate::sandbox::{self, ProbeKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Tells probes from whatever else comes to the port.
const MAGIC: [u8; 8] = *b"riprap/p";
/// What is to be done with a probe: it is counted, answered, or an answer.
const COUNTED: u8 = b' ';
const ASKS: u8 = b'?';
const ANSWERS: u8 = b'!';
/// Magic, what is to be done, round, source, link, which.
const SIZE_BYTES: usize = 23;
/// A sender of large probes rests after so many to each place, for so long: the switches between machines hold little, and
/// what they drop would pass for a limit's doing.
const LARGE_AT_ONCE: u32 = 20;
const REST: Duration = Duration::from_millis(2);
/// What the socket is asked to hold of what is not read yet, on a machine that runs something else, and of what a limit has not
/// let out yet, for which a sender would wait: more than all probes of a question. Of a machine without root it may be less.
const ROOM_BYTES: libc::c_int = 8 << 20;
/// How often the thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);

/// A number of a question; datagrams of another count for nothing.
pub(super) type Round = u64;
/// What came of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Came {
    /// How many datagrams.
    pub(super) count: u32,
    /// How long ago the last of them did.
    pub(super) ago: Duration,
}

/// The same of all sources.
pub(super) type Arrived = BTreeMap<u16, Came>;

/// A probe, as it is on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Probe {
    does: u8,
    round: Round,
    /// Whose it is.
    source: u16,
    /// Which of the links that its source asks about, and which probe of that link: told of those that are answered.
    link: u16,
    which: u16,
}

impl Probe {
    fn bytes(self, size_bytes: usize) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &[self.does], &self.round.to_be_bytes()].concat();
        bytes.extend([self.source, self.link, self.which].iter().flat_map(|word| word.to_be_bytes()));
        bytes.resize(size_bytes, 0);
        bytes
    }

    /// Of bytes that are nothing else.
    fn parse(bytes: &[u8]) -> Option<Probe> {
        let (does, rest) = bytes.strip_prefix(&MAGIC)?.split_first()?;
        let (round, rest) = rest.split_first_chunk()?;
        let (source, rest) = rest.split_first_chunk()?;
        let (link, rest) = rest.split_first_chunk()?;
        let (which, rest) = rest.split_first_chunk()?;
        let word = |bytes: &[u8; 2]| u16::from_be_bytes(*bytes);
        rest.iter().all(|byte| *byte == 0).then(|| Probe {
            does: *does,
            round: Round::from_be_bytes(*round),
            source: word(source),
            link: word(link),
            which: word(which),
        })
    }
}

/// What has been sent over a link to be answered, and how long that took so far.
#[derive(Clone, Default)]
struct Asked {
    sent: Vec<Instant>,
    took: Vec<Duration>,
}

#[derive(Default)]
struct State {
    /// How many came, and when the last did.
    counts: BTreeMap<(Round, u16), (u32, Instant)>,
    /// The round whose answers count, and its links.
    asked: (Round, Vec<Asked>),
}

#[derive(Default)]
struct Seen {
    state: Mutex<State>,
    came: Condvar,
}

impl Seen {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for more to come, no longer than that.
    fn wait<'a>(&self, state: MutexGuard<'a, State>, wait: Duration) -> MutexGuard<'a, State> {
        self.came.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
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
        sandbox::make_room_both_ways(socket.as_fd(), ROOM_BYTES);
        let (seen, ends) = (Arc::<Seen>::default(), Arc::<AtomicBool>::default());
        let receiver = socket.try_clone()?;
        receiver.set_read_timeout(Some(LOOK))?;
        // Of a type of service of their own, whatever is sent meanwhile.
        let answers = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        sandbox::mark_probes(answers.as_fd(), ProbeKind::Answer)?;
        let thread = thread::Builder::new().name("probes".to_owned()).spawn({
            let (seen, ends) = (Arc::clone(&seen), Arc::clone(&ends));
            move || receive(&receiver, &answers, &seen, &ends)
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
        let is_large = send.kind == ProbeKind::Rate;
        let size_bytes = if is_large { sandbox::RATE_PROBE_PAYLOAD_SIZE_BYTES } else { SIZE_BYTES };
        let probe = Probe { does: COUNTED, round: send.round, source: send.source, link: 0, which: 0 };
        let bytes = probe.bytes(size_bytes);
        for which in 0..send.count {
            if is_large && which > 0 && which % LARGE_AT_ONCE == 0 {
                thread::sleep(REST);
            }
            send.to.iter().try_for_each(|to| send_one(&self.socket, &bytes, *to))?;
        }
        Ok(())
    }

    /// How long the quickest and the slowest of [`DELAY_PROBES`](sandbox::DELAY_PROBES) datagrams take to each of these places,
    /// with their answers, of which nothing comes later than `wait` after the last was sent. None: nothing came.
    pub(super) fn took(
        &self,
        round: Round,
        to: &[SocketAddrV4],
        wait: Duration,
    ) -> io::Result<Vec<Option<Took>>> {
        sandbox::mark_probes(self.socket.as_fd(), ProbeKind::Delay)?;
        self.seen.state().asked = (round, vec![Asked::default(); to.len()]);
        for which in 0..sandbox::DELAY_PROBES {
            for (link, place) in to.iter().enumerate() {
                let probe = Probe { does: ASKS, round, source: 0, link: link as u16, which: which as u16 };
                self.seen.state().asked.1[link].sent.push(Instant::now());
                send_one(&self.socket, &probe.bytes(SIZE_BYTES), *place)?;
            }
            thread::sleep(sandbox::AGAIN);
        }
        let deadline = Instant::now() + wait;
        let mut state = self.seen.state();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.asked.1.iter().all(|asked| asked.took.len() == asked.sent.len()) {
                let of =
                    |asked: &Asked| asked.took.iter().copied().min().zip(asked.took.iter().copied().max());
                return Ok(std::mem::take(&mut state.asked).1.iter().map(of).collect());
            }
            state = self.seen.wait(state, left);
        }
    }

    /// How many of a round have come; waits until so many came from each of these, and no longer than that.
    pub(super) fn arrived(&self, round: Round, from: &BTreeSet<u16>, count: u32, wait: Duration) -> Arrived {
        let deadline = Instant::now() + wait;
        let mut state = self.seen.state();
        loop {
            let of_round = state.counts.range((round, 0)..=(round, u16::MAX));
            let came = |(count, last): (u32, Instant)| Came { count, ago: last.elapsed() };
            let arrived: Arrived = of_round.map(|(&(_, source), last)| (source, came(*last))).collect();
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero()
                || from.iter().all(|source| arrived.get(source).is_some_and(|came| came.count >= count))
            {
                state.counts.retain(|(of, _), _| *of >= round);
                return arrived;
            }
            state = self.seen.wait(state, left);
        }
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn send_one(socket: &UdpSocket, bytes: &[u8], to: SocketAddrV4) -> io::Result<()> {
    match socket.send_to(bytes, to) {
        // A full buffer, or what the filter of this very machine drops: as good as lost.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::EPERM)) => Ok(()),
        // An ICMP error about an earlier one.
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        sent => sent.map(drop),
    }
}

fn receive(socket: &UdpSocket, answers: &UdpSocket, seen: &Seen, ends: &AtomicBool) {
    let mut bytes = [0; sandbox::RATE_PROBE_PAYLOAD_SIZE_BYTES + 1];
    while !ends.load(Ordering::Relaxed) {
        // Without an answer: nothing came for a while, or an ICMP error about what was sent.
        let Ok((len, from)) = socket.recv_from(&mut bytes) else { continue };
        let now = Instant::now();
        let Some(probe) = Probe::parse(&bytes[..len]) else { continue };
        let mut state = seen.state();
        match (probe.does, from) {
            (COUNTED, _) => {
                let (count, last) = state.counts.entry((probe.round, probe.source)).or_insert((0, now));
                (*count, *last) = (*count + 1, now);
            }
            (ASKS, SocketAddr::V4(from)) => {
                let answer = Probe { does: ANSWERS, ..probe };
                // One that cannot be sent is one that is lost.
                let _ = send_one(answers, &answer.bytes(SIZE_BYTES), from);
            }
            (ANSWERS, _) if state.asked.0 == probe.round => {
                let asked = state.asked.1.get_mut(usize::from(probe.link));
                if let Some(Asked { sent, took }) = asked
                    && let Some(sent) = sent.get(usize::from(probe.which))
                {
                    took.push(now - *sent);
                }
            }
            _ => {}
        }
        seen.came.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let counts = |arrived: Arrived| arrived.values().map(|came| came.count).collect::<Vec<_>>();
        let arrived = two.arrived(8, &both, 1, wait);
        assert!(arrived.values().all(|came| came.ago < wait), "{arrived:?}");
        assert_eq!(counts(arrived), [1, 1]);
        // Of an earlier round nobody asks any more.
        assert_eq!(two.arrived(7, &both, 1, Duration::ZERO), Arrived::new());
        one.socket.send_to(b"something else, and long", to[0]).expect("sent");
        assert_eq!(two.arrived(9, &both, 1, Duration::from_millis(1)), Arrived::new());
    }

    #[test]
    fn probes_are_answered() {
        let (one, two) = (Probes::open().expect("a port"), Probes::open().expect("a port"));
        let place = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let nobody = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let silent = place(nobody.local_addr().expect("it has one").port());
        let two_s = place(two.port().expect("it has one"));
        let took = one.took(3, &[two_s, two_s], Duration::from_secs(20)).expect("sent");
        assert!(took.iter().all(|took| took.is_some_and(|(least, most)| least <= most)), "{took:?}");
        let took = one.took(4, &[silent, two_s], Duration::from_millis(1)).expect("sent");
        assert!(took[0].is_none() && took[1].is_some(), "{took:?}");
    }

    #[test]
    fn large_probes_count_too() {
        let (one, two) = (Probes::open().expect("a port"), Probes::open().expect("a port"));
        let to = vec![SocketAddrV4::new(Ipv4Addr::LOCALHOST, two.port().expect("it has one"))];
        one.send(&Send { kind: ProbeKind::Rate, round: 1, source: 2, to, count: 30 }).expect("sent");
        let arrived = two.arrived(1, &BTreeSet::from([2]), 30, Duration::from_secs(20));
        assert_eq!(arrived.get(&2).map(|came| came.count), Some(30));
    }

    #[test]
    fn only_whole_probes_count() {
        let probe = Probe { does: ASKS, round: 9, source: 3, link: 4, which: 5 };
        let whole = probe.bytes(SIZE_BYTES);
        for size_bytes in [SIZE_BYTES, SIZE_BYTES + 1, 1400] {
            assert_eq!(Probe::parse(&probe.bytes(size_bytes)), Some(probe), "{size_bytes}");
        }
        assert!((0..whole.len()).all(|len| Probe::parse(&whole[..len]).is_none()));
        assert_eq!(Probe::parse(&[&whole[..], &[1]].concat()), None);
    }
}
