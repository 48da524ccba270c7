//! What happens to packets between places of the network beside being cut, and what is measured of it.
//!
//! Each of these replaces all of its kind and leaves all other kinds alone; a pair is a direction, so that what is to happen
//! both ways is named both ways. What is measured is so of one kind at a time, whatever else is wrong with the link; see
//! [`probe`](super::probe).

use super::connections::{Connection, Connections};
use super::door;
use super::error::SandboxError;
use super::filter::Pair;
use super::links;
use super::network::{Endpoint, Network, NodeIx, lock};
use super::probe::{self, Kind, Places};
use super::relay::{self, Flow, Lag, Large, Limit, Relay};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddrV4;
use std::time::Duration;

/// How much longer than the longest delay a probe of delays waits: on a loaded machine much else is slow too.
const GRACE: Duration = Duration::from_secs(2);
/// How long a connection may take to be refused or made: both are answered at once, and asked for again after one second.
const CONNECT_WAIT: Duration = Duration::from_secs(3);

/// Source and destination.
pub type Ends = (Endpoint, Endpoint);

/// What is done to packets.
#[derive(Default, Debug)]
pub(super) struct Tampering {
    /// It runs from when it is first needed until the network goes.
    relay: Option<Relay>,
    delays: BTreeMap<Pair, Lag>,
    limits: Vec<Limit>,
    held: BTreeSet<Flow>,
    loses: bool,
    /// Whether packets are cut up as soon as they are sent.
    cuts_up: bool,
}

impl Network {
    /// Has so many of a hundred packets of each of these pairs be lost, each by chance, and none of any other pair.
    pub fn set_loss(&self, pairs: &BTreeSet<Ends>, percent: u8) -> Result<(), SandboxError> {
        let pairs: Vec<Pair> = pairs.iter().map(|ends| self.pair(*ends)).collect();
        let what = format!("lose {percent} % of what is sent between {} pairs", pairs.len());
        let mut tampering = lock(&self.tampering);
        tampering.loses = !pairs.is_empty();
        self.cut_up(&mut tampering)?;
        lock(&self.filter).set_lossy(&pairs, percent).map_err(SandboxError::network(what))
    }

    /// Has packets be cut up as they are sent, while that matters: unless told so, the kernel hands up to 64 KiB of a stream
    /// from place to place as one, which would be lost as one, or block a slow link for seconds. It makes a stream ten times
    /// slower; a connection that is made meanwhile stays so.
    fn cut_up(&self, tampering: &mut Tampering) -> Result<(), SandboxError> {
        let cuts_up = tampering.loses || !tampering.limits.is_empty();
        if tampering.cuts_up != cuts_up {
            let most = if cuts_up { 1 } else { links::PACKETS_IN_ONE };
            for place in self.all_places() {
                let what = format!("limit the size of what {} sends", self.address(place));
                self.configure(place, |route, interface| links::set_packets_in_one(route, interface, most))
                    .map_err(SandboxError::network(what))?;
            }
            tampering.cuts_up = cuts_up;
        }
        Ok(())
    }

    /// Has what is sent between each of these pairs take so much longer, and nothing else. What is on its way arrives at once.
    pub fn set_delays(&self, delays: &BTreeMap<Ends, Lag>) -> Result<(), SandboxError> {
        let mut tampering = lock(&self.tampering);
        tampering.delays = delays.iter().map(|(ends, delay)| (self.pair(*ends), *delay)).collect();
        self.apply(&mut tampering)
    }

    /// Has each of these groups of pairs share so many bytes a second; nothing else is limited. What is on its way arrives
    /// at once.
    pub fn set_limits(&self, limits: &[(BTreeSet<Ends>, u64)]) -> Result<(), SandboxError> {
        let mut tampering = lock(&self.tampering);
        let limit = |(pairs, bytes_per_s): &(BTreeSet<Ends>, u64)| Limit {
            pairs: pairs.iter().map(|ends| self.pair(*ends)).collect(),
            bytes_per_s: *bytes_per_s,
        };
        tampering.limits = limits.iter().map(limit).collect();
        self.cut_up(&mut tampering)?;
        self.apply(&mut tampering)
    }

    /// Replaces the directions of connections on which what is sent waits until they are let go.
    pub(super) fn set_held(&self, held: BTreeSet<Flow>) -> Result<(), SandboxError> {
        let mut tampering = lock(&self.tampering);
        tampering.held = held;
        self.apply(&mut tampering)
    }

    fn apply(&self, tampering: &mut Tampering) -> Result<(), SandboxError> {
        let Tampering { relay, delays, limits, held, .. } = tampering;
        let limited = limits.iter().flat_map(|limit| &limit.pairs);
        let pairs: BTreeSet<Pair> = delays.keys().chain(limited).copied().collect();
        let is_idle = pairs.is_empty() && held.is_empty();
        if relay.is_none() && !is_idle {
            let queue = |place: Endpoint| {
                let what = format!("queue what comes to {}", self.address(place));
                self.at(place, || relay::queue(Large::Whole))?.map_err(SandboxError::network(what))
            };
            let queues = self.all_places().map(queue).collect::<Result<_, _>>()?;
            *relay = Some(Relay::start(queues).map_err(SandboxError::setup("start a thread"))?);
        }
        // It knows what to do with packets before any comes, and until the last has come.
        let shape = |relay: &mut Relay| {
            relay.shape(delays, limits.clone(), held.clone()).map_err(SandboxError::setup("relay packets"))
        };
        if !is_idle {
            relay.as_mut().map_or(Ok(()), shape)?;
        }
        for place in self.all_places() {
            let to = self.address(place);
            let sources: Vec<_> = pairs.iter().filter(|pair| pair.1 == to).map(|pair| pair.0).collect();
            let what = format!("relay what comes to {to} from {} places", sources.len());
            let held = held.iter().filter(|(_, at)| *at.ip() == to).map(|(from, at)| (*from, at.port()));
            let held: Vec<_> = held.collect();
            let mut door = lock(self.door(place));
            door.set_relayed(&sources).map_err(SandboxError::network(what))?;
            door.set_held(&held).map_err(SandboxError::network(format!("hold connections of {to}")))?;
        }
        if is_idle {
            relay.as_mut().map_or(Ok(()), shape)?;
        }
        Ok(())
    }

    /// Has each of these nodes refuse what these places ask it over TCP; no other node refuses anything.
    pub fn set_refusals(&self, refusals: &BTreeMap<NodeIx, BTreeSet<Endpoint>>) -> Result<(), SandboxError> {
        for node in self.nodes() {
            let from = refusals.get(&node).into_iter().flatten().map(|from| self.address(*from));
            let from: Vec<_> = from.collect();
            let what = format!("have {node} refuse connections from {} places", from.len());
            lock(self.door(node.into())).set_refused(&from).map_err(SandboxError::network(what))?;
        }
        Ok(())
    }

    /// Breaks the connections over TCP that stand now between a node and these places, to both sides' knowledge, whatever else
    /// is wrong with their links. Returns where the other ends of those were that are broken, each as often as there were any.
    pub fn reset(&self, node: NodeIx, others: &BTreeSet<Endpoint>) -> Result<Vec<Endpoint>, SandboxError> {
        let open = |place: Endpoint| {
            let what = format!("list the connections of {}", self.address(place));
            self.at(place, Connections::open)?.map_err(SandboxError::setup(what))
        };
        let what = || SandboxError::network(format!("break the connections of {node}"));
        let mut own = open(node.into())?;
        let other_end = |connection: &Connection| {
            others.iter().copied().find(|other| self.address(*other) == *connection.remote.ip())
        };
        let standing = own.list().map_err(what())?;
        // Those that prove that others are held are none of the system's.
        let probes = self.hold_probe_flows();
        let is_ours = |it: &Connection| {
            probes.contains(&(it.local, it.remote)) || probes.contains(&(it.remote, it.local))
        };
        let standing: Vec<(Endpoint, Connection)> = standing
            .into_iter()
            .filter(|it| !is_ours(it))
            .filter_map(|it| Some((other_end(&it)?, it)))
            .collect();
        for (_, connection) in &standing {
            own.abort(connection).map_err(what())?;
        }
        // The reset that was sent may be lost on its way.
        for place in standing.iter().map(|(other, _)| *other).collect::<BTreeSet<_>>() {
            let mut theirs = open(place)?;
            let is_of_one = |it: &Connection| {
                standing.iter().any(|(_, own)| (own.remote, own.local) == (it.local, it.remote))
            };
            for connection in theirs.list().map_err(what())?.iter().filter(|it| is_of_one(it)) {
                theirs.abort(connection).map_err(what())?;
            }
        }
        let left = own.list().map_err(what())?;
        let broken = standing.into_iter().filter(|(_, connection)| !left.contains(connection));
        Ok(broken.map(|(other, _)| other).collect())
    }

    /// How many of [`LOSS_PROBES`](super::LOSS_PROBES) datagrams were lost between each of these pairs.
    pub fn lost(&self, pairs: &[Ends]) -> Result<Vec<u32>, SandboxError> {
        lock(&self.probes).lost(&self.places(pairs)).map_err(SandboxError::setup("probe losses"))
    }

    /// How long datagrams take between each of these pairs, the quickest and the slowest; none where they take much longer than
    /// they should.
    pub fn delays(&self, pairs: &[Ends]) -> Result<Vec<Option<(Duration, Duration)>>, SandboxError> {
        let longest = lock(&self.tampering).delays.values().map(|lag| lag.delay + lag.jitter).max();
        let longest = longest.unwrap_or_default();
        lock(&self.probes)
            .delays(&self.places(pairs), longest + GRACE)
            .map_err(SandboxError::setup("probe delays"))
    }

    /// How many bytes a second get through between each of these pairs, once the burst is over that a limit lets through;
    /// none where there seems to be no limit.
    pub fn rates(&self, pairs: &[Ends]) -> Result<Vec<Option<u64>>, SandboxError> {
        let (arrived, took) =
            lock(&self.probes).rates(&self.places(pairs)).map_err(SandboxError::setup("probe limits"))?;
        Ok(arrived.into_iter().map(|arrived| probe::rate(arrived, took)).collect())
    }

    /// Whether each of these places (the second) refuses connections of another (the first); none where they are neither refused nor
    /// made, as happens if the one who asks refuses the answer. Shape: one for each pair, in order.
    pub fn refused(&self, pairs: &[Ends]) -> Result<Vec<Option<bool>>, SandboxError> {
        let mut answers = Vec::new();
        for &(from, to) in pairs {
            let address = self.address(to);
            let what = || SandboxError::setup(format!("probe whether {address} refuses connections"));
            let listener = self.at(to, || door::listen(address, Kind::Refusal))?.map_err(what())?;
            let port = listener.local_addr().map_err(what())?.port();
            let connect = || door::is_refused(SocketAddrV4::new(address, port), CONNECT_WAIT);
            let answer = self.at(from, connect)?;
            answers.push(match answer {
                Err(e) if e.kind() == io::ErrorKind::TimedOut => None,
                answer => Some(answer.map_err(what())?),
            });
        }
        Ok(answers)
    }

    fn pair(&self, (from, to): Ends) -> Pair {
        (self.address(from), self.address(to))
    }

    fn places(&self, pairs: &[Ends]) -> Vec<Places> {
        pairs.iter().map(|&(from, to)| (self.place(from), self.place(to))).collect()
    }
}
