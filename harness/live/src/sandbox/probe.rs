//! What the network does to what is sent from one place to another: asked of the network, not of the rules that were set.
//!
//! A probe is a datagram from a socket in the source's namespace to a socket in the destination's, which either sees it
//! or does not, sooner or later; only whether connections are refused or held takes a connection. Datagrams are the only thing that
//! is truly one-way: a TCP connection needs both directions, so that a one-way cut stops it in both.
//!
//! The sockets belong to the harness: a stopped or absent server in the node does not matter. Each [`Kind`] of probe has a
//! type of service (TOS) of its own, by which the filters lead it past all faults but the one that it is about.
//!
//! Delivery on a bridge happens while the sender sends, so a datagram that has not come after some milliseconds does not
//! come, where no delay is set.

use super::relay::BURST_BYTES;
use super::sys;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// What a probe is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Whether anything arrives.
    Reach,
    /// How much is lost.
    Loss,
    /// How long it takes.
    Delay,
    /// How much arrives in a second.
    Rate,
    /// Whether connections are refused.
    Refusal,
    /// Whether what is sent on a connection that stands waits.
    Hold,
    /// About nothing: nothing happens to it. Between machines it is the answer to what asks how long it takes.
    Answer,
}

impl Kind {
    pub(super) const ALL: [Kind; 7] =
        [Kind::Reach, Kind::Loss, Kind::Delay, Kind::Rate, Kind::Refusal, Kind::Hold, Kind::Answer];

    /// The types of service that mark it and, if it is another, the kernel's answer to it: an ICMP error has the
    /// precedence of network control with the rest of what it answers.
    ///
    /// Source: RFC 2474, section 6: code points xxxx11 are for local use, so that no system's own traffic has one.
    pub(super) fn services(self) -> &'static [u8] {
        match self {
            Kind::Reach => &[0x0c],
            Kind::Loss => &[0x2c],
            Kind::Delay => &[0x4c],
            Kind::Rate => &[0x6c],
            Kind::Refusal => &[0x1c, 0xdc],
            Kind::Hold => &[0x3c],
            Kind::Answer => &[0x5c],
        }
    }
}

/// Marks what a socket sends as probes of a kind.
pub(crate) fn mark(socket: BorrowedFd<'_>, kind: Kind) -> io::Result<()> {
    sys::set_type_of_service(socket, kind.services()[0])
}

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
pub(crate) const AGAIN: Duration = Duration::from_millis(20);

/// How many datagrams tell how much a link loses.
///
/// By Hoeffding's inequality, of so many the share that is lost differs by ten points of a hundred or more from what it is
/// told to be in one of 10^17 cases; and of a link that loses nothing, two hundred would have to be lost.
pub const LOSS_PROBES: u32 = 2000;
/// How many datagrams are on their way to one place at once at most: of small ones a third of what a socket has room for, of
/// large ones a half, where the system grants no more than usual.
const TO_ONE_PLACE: usize = 40;
/// How many are on their way at all: a quarter of what a processor's backlog takes.
const ON_THE_WAY: usize = 250;
/// When nothing has come for so long, of what was just sent nothing comes any more, or it comes late.
const LULL: Duration = Duration::from_millis(1);
/// How long what is late gets in the end.
const STRAGGLERS: Duration = Duration::from_millis(100);

/// How many datagrams tell how long it takes: the quickest counts, for a machine with much else to do adds to some. How far
/// apart they are tells of jitter: a dozen that are drawn are a fifth of it apart but for one case in millions.
pub(crate) const DELAY_PROBES: u64 = 12;

/// The size of a datagram that tells how much arrives in a second, as a limit reckons it, and how many there are: twice
/// what the highest limit that faults draw lets through in the time given. Headers of IP and UDP take 28 bytes.
const RATE_PROBE_SIZE_BYTES: usize = 1428;
pub(crate) const RATE_PROBES: u64 = 400;
/// Of these, so many have to get through for there to be no limit: a few may be lost to a full buffer on a machine with
/// much else to do.
const RATE_PROBES_UNLIMITED: u64 = 360;
const HEADERS_SIZE_BYTES: usize = 28;
/// What of it is its own.
pub(crate) const RATE_PROBE_PAYLOAD_SIZE_BYTES: usize = RATE_PROBE_SIZE_BYTES - HEADERS_SIZE_BYTES;
/// How long they get.
pub(crate) const RATE_WINDOW: Duration = Duration::from_secs(1);

/// A datagram says in which round it was sent, for which of its pairs, and as which of that pair's.
const PAYLOAD_SIZE_BYTES: usize = 24;

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

/// Positions of source and destination.
pub(super) type Places = (usize, usize);

/// A datagram that arrived: for which pair, and which of it.
struct Arrival {
    pair: usize,
    which: u64,
}

impl Probes {
    /// Adds a place, by a socket made in it and its address; the first is at position 0.
    pub(super) fn add(&mut self, socket: UdpSocket, address: Ipv4Addr) -> io::Result<()> {
        self.addresses.push(SocketAddrV4::new(address, socket.local_addr()?.port()));
        self.sockets.push(socket);
        Ok(())
    }

    /// Probes pairs of places (by their position), all at once; takes `wait` if any pair is cut, and next to nothing if
    /// none is.
    pub(super) fn reach(&mut self, pairs: &[Places], wait: Duration) -> io::Result<Vec<Reach>> {
        self.begin(Kind::Reach)?;
        let deadline = Instant::now() + wait;
        let mut found = vec![Reach::No; pairs.len()];
        let mut send_next = Instant::now();
        loop {
            let now = Instant::now();
            if now >= send_next {
                for pair in (0..pairs.len()).filter(|pair| found[*pair] == Reach::No) {
                    self.send(pairs, pair, 0, PAYLOAD_SIZE_BYTES)?;
                }
                send_next = now + AGAIN;
            }
            self.receive(pairs, send_next.min(deadline), |arrival| found[arrival.pair] = Reach::Yes)?;
            // Only here, after a look at what has come: a thread that was kept waiting for a CPU has not asked in vain.
            if !found.contains(&Reach::No) || Instant::now() >= deadline {
                return Ok(found);
            }
        }
    }

    /// How many of [`LOSS_PROBES`] datagrams were lost between each of these pairs.
    pub(super) fn lost(&mut self, pairs: &[Places]) -> io::Result<Vec<u32>> {
        self.begin(Kind::Loss)?;
        let mut arrived = vec![0; pairs.len()];
        self.flood(pairs, u64::from(LOSS_PROBES), PAYLOAD_SIZE_BYTES, |arrival| arrived[arrival.pair] += 1)?;
        while self.receive(pairs, Instant::now() + STRAGGLERS, |arrival| arrived[arrival.pair] += 1)? > 0 {}
        // What the network had sent twice would be worth a look, but is no loss.
        Ok(arrived.iter().map(|arrived| LOSS_PROBES.saturating_sub(*arrived)).collect())
    }

    /// How long datagrams take between each of these pairs, the quickest and the slowest, if one arrives at all within `wait`.
    pub(super) fn delays(
        &mut self,
        pairs: &[Places],
        wait: Duration,
    ) -> io::Result<Vec<Option<(Duration, Duration)>>> {
        self.begin(Kind::Delay)?;
        let deadline = Instant::now() + wait;
        let mut sent: Vec<Vec<Instant>> = vec![Vec::new(); pairs.len()];
        let mut took: Vec<Vec<Duration>> = vec![Vec::new(); pairs.len()];
        for which in 0..DELAY_PROBES {
            for pair in 0..pairs.len() {
                sent[pair].push(Instant::now());
                self.send(pairs, pair, which, PAYLOAD_SIZE_BYTES)?;
                // What is on its way here already is timed before more is sent.
                let now = Instant::now();
                self.receive(pairs, now, |arrival| took[arrival.pair].push(since(&sent, arrival)))?;
            }
            let until = Instant::now() + AGAIN;
            while Instant::now() < until {
                self.receive(pairs, until, |arrival| took[arrival.pair].push(since(&sent, arrival)))?;
            }
        }
        let all = |took: &[Vec<Duration>]| took.iter().all(|took| took.len() as u64 >= DELAY_PROBES);
        while !all(&took) && Instant::now() < deadline {
            self.receive(pairs, deadline, |arrival| took[arrival.pair].push(since(&sent, arrival)))?;
        }
        Ok(took.into_iter().map(|took| took.iter().copied().min().zip(took.into_iter().max())).collect())
    }

    /// How many of [`RATE_PROBES`] datagrams got through between each of these pairs, and how long that took: [`RATE_WINDOW`],
    /// or longer on a machine with much else to do.
    pub(super) fn rates(&mut self, pairs: &[Places]) -> io::Result<(Vec<u64>, Duration)> {
        self.begin(Kind::Rate)?;
        let began = Instant::now();
        let deadline = began + RATE_WINDOW;
        let mut arrived = vec![0; pairs.len()];
        self.flood(pairs, RATE_PROBES, RATE_PROBE_PAYLOAD_SIZE_BYTES, |arrival| arrived[arrival.pair] += 1)?;
        while arrived.iter().any(|arrived| *arrived < RATE_PROBES) && Instant::now() < deadline {
            self.receive(pairs, deadline, |arrival| arrived[arrival.pair] += 1)?;
        }
        Ok((arrived, began.elapsed()))
    }

    /// Begins a round: datagrams of earlier ones count for nothing any more.
    fn begin(&mut self, kind: Kind) -> io::Result<()> {
        self.round += 1;
        self.sockets.iter().try_for_each(|socket| mark(socket.as_fd(), kind))
    }

    /// Sends so many datagrams between each pair, as many at a time as get through where nothing is lost.
    fn flood(
        &self,
        pairs: &[Places],
        count: u64,
        size_bytes: usize,
        mut on_arrival: impl FnMut(&Arrival),
    ) -> io::Result<()> {
        let to_one = |place: usize| pairs.iter().filter(|(_, destination)| *destination == place).count();
        let crowd = (0..self.sockets.len()).map(to_one).max().unwrap_or(0).max(1);
        let at_once = (TO_ONE_PLACE / crowd).min(ON_THE_WAY / pairs.len().max(1)).max(1) as u64;
        let mut which = 0;
        while which < count {
            let until = (which + at_once).min(count);
            let mut expected = 0;
            for which in which..until {
                for pair in 0..pairs.len() {
                    self.send(pairs, pair, which, size_bytes)?;
                    expected += 1;
                }
            }
            which = until;
            while expected > 0 {
                match self.receive(pairs, Instant::now() + LULL, &mut on_arrival)? {
                    0 => break,
                    came => expected = usize::saturating_sub(expected, came),
                }
            }
        }
        Ok(())
    }

    fn send(&self, pairs: &[Places], pair: usize, which: u64, size_bytes: usize) -> io::Result<()> {
        let (source, destination) = pairs[pair];
        let mut payload =
            [self.round.to_ne_bytes(), (pair as u64).to_ne_bytes(), which.to_ne_bytes()].concat();
        payload.resize(size_bytes, 0);
        let sent = self.sockets[source].send_to(&payload, self.addresses[destination]);
        match sent.as_ref().map_err(io::Error::raw_os_error) {
            // A full send buffer, a link not yet in service, or what the harness itself sends and its own side of the
            // bridge drops: as good as lost.
            Err(Some(libc::EAGAIN | libc::ENOBUFS | libc::EPERM)) => Ok(()),
            _ => sent.map(drop),
        }
    }

    /// Waits until something arrives, and takes in all that has. Returns how much of it was of this round.
    fn receive(
        &self,
        pairs: &[Places],
        until: Instant,
        mut on_arrival: impl FnMut(&Arrival),
    ) -> io::Result<usize> {
        let sockets: Vec<_> = self.sockets.iter().map(AsFd::as_fd).collect();
        let ready = sys::readable(&sockets, until.saturating_duration_since(Instant::now()))?;
        let mut count = 0;
        let mut bytes = [0; RATE_PROBE_SIZE_BYTES];
        for place in (0..ready.len()).filter(|&i| ready[i]) {
            while let Ok((len, from)) = self.sockets[place].recv_from(&mut bytes) {
                let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
                let Some(&(source, destination)) = pairs.get(word(8) as usize) else { continue };
                let expected = destination == place && from == self.addresses[source].into();
                // Datagrams of earlier rounds, and strangers', count for nothing.
                if expected && len >= PAYLOAD_SIZE_BYTES && word(0) == self.round {
                    on_arrival(&Arrival { pair: word(8) as usize, which: word(16) });
                    count += 1;
                }
            }
        }
        Ok(count)
    }
}

/// The limit of a link over which so many of [`RATE_PROBES`] came in this time, with the burst that a limit lets through at
/// once; none where nearly all came, so that there seems to be none. Units: bytes a second.
pub(crate) fn rate(arrived: u64, took: Duration) -> Option<u64> {
    let bytes = (arrived * RATE_PROBE_SIZE_BYTES as u64).saturating_sub(BURST_BYTES);
    (arrived < RATE_PROBES_UNLIMITED).then(|| (bytes as f64 / took.as_secs_f64()).round() as u64)
}

/// How long ago what arrives now was sent.
fn since(sent: &[Vec<Instant>], arrival: &Arrival) -> Duration {
    let sent = sent[arrival.pair].get(arrival.which as usize);
    sent.map_or(Duration::MAX, Instant::elapsed)
}
