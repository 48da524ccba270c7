//! Connections between hosts, and what may happen to them.
//!
//! A connection behaves as TCP's do: bytes arrive in order or not at all. A direction that is cut delivers nothing and
//! loses nothing: what was sent waits, is sent again, and arrives some time after the cut has healed, unless its sender's
//! connection has gone in the meantime, which takes nothing back of what is already on its way. Where only the way back is
//! cut, bytes still arrive, until as many are without an acknowledgement as fit in a window; a connection cannot be made,
//! for that takes both ways.
//!
//! What it leaves out: congestion, resets by middleboxes, keep-alives.

use crate::host::HostId;
use bytes::Bytes;
use riprap_env::ConnId;
use riprap_env::random::DrawStream;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What may be on its way without an acknowledgement. Source: the initial window of ten segments, RFC 6928.
const WINDOW_BYTES: usize = 14_600;
/// How long a sender that hears nothing may wait, at most, before it sends again: its pauses double. The first one is that
/// of RFC 6298 as Linux has it; no run is so long that the end of the doubling matters.
const FIRST_RETRANSMIT_NS: u64 = 200_000_000;
const LAST_RETRANSMIT_NS: u64 = 3_000_000_000;

/// From one host to another.
pub type Direction = (HostId, HostId);

/// Who is at the other end of a host's links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Others {
    /// Whoever it is.
    All,
    /// One of these.
    Among(BTreeSet<HostId>),
    /// None of these.
    Outside(BTreeSet<HostId>),
}

impl Others {
    /// Whether a host is one of them.
    pub fn contains(&self, host: HostId) -> bool {
        match self {
            Others::All => true,
            Others::Among(hosts) => hosts.contains(&host),
            Others::Outside(hosts) => !hosts.contains(&host),
        }
    }
}

/// The directions in which nothing passes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Cuts {
    /// Between these hosts.
    pub links: BTreeSet<Direction>,
    /// From others than `inside` to these.
    pub from_outside: BTreeSet<HostId>,
    /// From these to others than `inside`.
    pub to_outside: BTreeSet<HostId>,
    /// Who is not outside.
    pub inside: BTreeSet<HostId>,
}

impl From<BTreeSet<Direction>> for Cuts {
    fn from(links: BTreeSet<Direction>) -> Cuts {
        Cuts { links, ..Cuts::default() }
    }
}

impl Cuts {
    fn contains(&self, direction: &Direction) -> bool {
        let (from, to) = direction;
        self.links.contains(direction)
            || self.from_outside.contains(to) && !self.inside.contains(from)
            || self.to_outside.contains(from) && !self.inside.contains(to)
    }

    /// How many there are, those between a host and all outside counted as one.
    pub fn len(&self) -> usize {
        self.links.len() + self.from_outside.len() + self.to_outside.len()
    }

    /// Whether everything passes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Hosts to which something happens on the links with these others.
pub(crate) struct Afflicted<T> {
    hosts: BTreeMap<HostId, T>,
    others: Others,
}

impl<T> Default for Afflicted<T> {
    fn default() -> Afflicted<T> {
        Afflicted { hosts: BTreeMap::new(), others: Others::All }
    }
}

impl<T> Afflicted<T> {
    /// What happens to what travels in that direction.
    fn get(&self, (from, to): Direction) -> Option<&T> {
        // Most of the time there is nothing, and this is asked for each parcel.
        if self.hosts.is_empty() {
            return None;
        }
        self.hosts.get(&to).filter(|_| self.others.contains(from))
    }
}

/// One connection: two ends, and what is on its way to each. End 0 is the opener's.
pub(crate) struct Pipe {
    pub(crate) ends: [(HostId, ConnId); 2],
    pub(crate) open: [bool; 2],
    pub(crate) to: [VecDeque<Parcel>; 2],
    /// When the last parcel to each end arrives: none overtakes.
    pub(crate) last_ns: [u64; 2],
    /// What arrived at each end since the way back was cut.
    unacknowledged: [usize; 2],
}

pub(crate) enum Parcel {
    Bytes(Bytes),
    /// Sent by an end that closes.
    End,
}

impl Parcel {
    fn len(&self) -> usize {
        match self {
            Parcel::Bytes(bytes) => bytes.len(),
            Parcel::End => 0,
        }
    }
}

/// What waits at a cut.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Blocked {
    Arrive { pipe: usize, end: usize },
    Connect { pipe: usize },
}

#[derive(Default)]
pub(crate) struct Network {
    pub(crate) pipes: Vec<Pipe>,
    cuts: Cuts,
    /// Directions in which bytes wait as if a packet had been lost again and again; connections can be made.
    holds: BTreeSet<Direction>,
    /// Hosts that hear nothing on connections that were opened before this number.
    deaf: Afflicted<usize>,
    /// So much longer bytes take to a host, at least, and so much more at most. Units: nanoseconds.
    delays: Afflicted<(u64, u64)>,
    /// What waits, since when.
    blocked: Vec<(Blocked, u64)>,
    draws: BTreeMap<Direction, DrawStream>,
}

impl Network {
    pub(crate) fn open(&mut self, from: HostId, conn: ConnId, to: HostId) -> usize {
        self.pipes.push(Pipe {
            ends: [(from, conn), (to, ConnId(u64::MAX))],
            open: [true, false],
            to: [VecDeque::new(), VecDeque::new()],
            last_ns: [0, 0],
            unacknowledged: [0, 0],
        });
        self.pipes.len() - 1
    }

    /// Whether an end is that of who asked for the connection.
    pub(crate) fn is_opener(end: usize) -> bool {
        end == 0
    }

    /// From, to, as bytes to that end travel.
    pub(crate) fn direction(&self, pipe: usize, end: usize) -> Direction {
        let ends = &self.pipes[pipe].ends;
        (ends[1 - end].0, ends[end].0)
    }

    /// The luck of what travels in a direction.
    pub(crate) fn draws(
        &mut self,
        seed: u64,
        names: impl Fn(HostId) -> String,
        direction: Direction,
    ) -> &mut DrawStream {
        self.draws.entry(direction).or_insert_with(|| {
            let entity = format!("{}>{}", names(direction.0), names(direction.1));
            DrawStream::new(seed, &entity, "latency")
        })
    }

    /// At least, and how much more at most.
    pub(crate) fn delay_ns(&self, direction: Direction) -> (u64, u64) {
        self.delays.get(direction).copied().unwrap_or_default()
    }

    pub(crate) fn set_delays(&mut self, hosts: BTreeMap<HostId, (u64, u64)>, others: Others) {
        self.delays = Afflicted { hosts, others };
    }

    /// Makes these hosts deaf on the connections that they have now with these others, and no other hosts. Returns the
    /// directions that are held, each as often as there are connections.
    pub(crate) fn set_deaf(&mut self, hosts: BTreeSet<HostId>, others: Others) -> Vec<Direction> {
        let opened = self.pipes.len();
        self.deaf = Afflicted { hosts: hosts.into_iter().map(|host| (host, opened)).collect(), others };
        let standing = (0..opened).filter(|pipe| self.pipes[*pipe].open == [true, true]);
        let ends = standing.flat_map(|pipe| [(pipe, 0), (pipe, 1)]);
        let held = ends.filter(|(pipe, end)| self.is_deaf(*pipe, *end));
        held.map(|(pipe, end)| self.direction(pipe, end)).collect()
    }

    fn is_deaf(&self, pipe: usize, end: usize) -> bool {
        self.deaf.get(self.direction(pipe, end)).is_some_and(|opened| pipe < *opened)
    }

    pub(crate) fn is_cut(&self, direction: Direction) -> bool {
        !self.cuts.is_empty() && self.cuts.contains(&direction)
    }

    /// Whether a packet that is sent now arrives.
    pub(crate) fn passes(&self, direction: Direction) -> bool {
        !self.is_cut(direction) && !self.holds.contains(&direction)
    }

    /// Whether the next parcel to an end has to wait; it then does, until what holds it up is gone.
    pub(crate) fn blocks_arrival(&mut self, pipe: usize, end: usize, now_ns: u64) -> bool {
        if self.cuts.is_empty() && self.holds.is_empty() && self.deaf.hosts.is_empty() {
            return false;
        }
        let direction = self.direction(pipe, end);
        let unheard = self.is_cut((direction.1, direction.0));
        let Pipe { to, unacknowledged, .. } = &mut self.pipes[pipe];
        let len = to[end].front().map_or(0, Parcel::len);
        unacknowledged[end] = if unheard { unacknowledged[end] + len } else { 0 };
        let window_is_full = unheard && unacknowledged[end] > WINDOW_BYTES;
        let blocked = window_is_full || !self.passes(direction) || self.is_deaf(pipe, end);
        if blocked {
            self.pipes[pipe].unacknowledged[end] -= if unheard { len } else { 0 };
            self.blocked.push((Blocked::Arrive { pipe, end }, now_ns));
        }
        blocked
    }

    /// Whether a connection that is asked for has to wait; it then does.
    pub(crate) fn blocks_connect(&mut self, pipe: usize, now_ns: u64) -> bool {
        let (from, to) = self.direction(pipe, 1);
        let blocked = self.is_cut((from, to)) || self.is_cut((to, from));
        if blocked {
            self.blocked.push((Blocked::Connect { pipe }, now_ns));
        }
        blocked
    }

    pub(crate) fn set_cuts(&mut self, cuts: Cuts) {
        self.cuts = cuts;
    }

    pub(crate) fn set_holds(&mut self, holds: BTreeSet<Direction>) {
        self.holds = holds;
    }

    /// Takes out what waits no longer, each with how long it may take yet until it is sent again.
    pub(crate) fn unblock(&mut self, now_ns: u64) -> Vec<(Blocked, u64)> {
        let blocked = std::mem::take(&mut self.blocked);
        let (free, still): (Vec<_>, Vec<_>) = blocked.into_iter().partition(|(what, _)| match *what {
            Blocked::Arrive { pipe, end } => {
                let (from, to) = self.direction(pipe, end);
                self.passes((from, to)) && !self.is_cut((to, from)) && !self.is_deaf(pipe, end)
            }
            Blocked::Connect { pipe } => {
                let (from, to) = self.direction(pipe, 1);
                !self.is_cut((from, to)) && !self.is_cut((to, from))
            }
        });
        self.blocked = still;
        let pause = |since_ns: u64| (now_ns - since_ns).clamp(FIRST_RETRANSMIT_NS, LAST_RETRANSMIT_NS);
        free.into_iter().map(|(what, since_ns)| (what, pause(since_ns))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_outside_is_cut_off() {
        let [one, two, client, later] = [0, 1, 2, 3].map(HostId);
        let cuts = Cuts {
            links: BTreeSet::from([(one, two)]),
            from_outside: BTreeSet::from([one]),
            to_outside: BTreeSet::from([two]),
            inside: BTreeSet::from([one, two]),
        };
        let all = [one, two, client, later];
        let pairs = all.iter().flat_map(|from| all.iter().map(move |to| (*from, *to)));
        let cut: Vec<Direction> = pairs.filter(|direction| cuts.contains(direction)).collect();
        assert_eq!(cut, [(one, two), (two, client), (two, later), (client, one), (later, one)]);
        assert_eq!((cuts.len(), Cuts::default().is_empty()), (3, true));
    }
}
