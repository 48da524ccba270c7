//! Links between hosts, and with the harness: what their packet filters are told, and what probes say of it.

use super::agent::refuses;
use super::cluster::{HostCluster, at_once};
use super::probes::{Arrived, Round};
use super::protocol::{Ask, Send};
use crate::links::{LinksOf, Took};
use crate::sandbox::{self, Endpoint, Ends, LOSS_PROBES, NodeIx, ProbeKind, RATE_PROBES, RATE_WINDOW, Rules};
use riprap_core::cluster::{Cluster as _, ClusterError, End, Link, NodeId, UNLIMITED};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a probe is repeated on a link that should be dead; on a live one of a usual network it takes some milliseconds.
const REACH_WAIT: Duration = Duration::from_millis(500);
/// How often it is sent at least, however slow machines are.
const REACH_TRIES: u32 = 3;
/// How long one try gets.
const ARRIVE_WAIT: Duration = Duration::from_millis(50);
/// How many probes are on their way to one place at once at most: half of what a socket has room for, where the system grants
/// no more than usual.
const TO_ONE_PLACE: u32 = 120;
/// When so many have not come after this time, they are lost, or late.
const LULL: Duration = Duration::from_millis(10);
/// How long what is late gets in the end when losses are counted.
const STRAGGLERS: Duration = Duration::from_millis(200);
/// How much longer than the longest delay probes of delays wait: on a loaded machine much else is slow too.
const GRACE: Duration = Duration::from_secs(2);
/// How long a connection may take to be refused or made.
const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// The number of a probe that the harness sends; those of nodes are theirs.
const HARNESS: u16 = 0;

impl HostCluster {
    /// Makes sure that each pair reaches each other before anything is cut: a link that is dead anyway would prove any cut.
    pub(super) fn check_links(&self) -> Result<(), ClusterError> {
        let ends: Vec<End> = self.all_nodes().into_iter().map(End::Node).chain([End::Clients]).collect();
        let of = |from: &End| {
            let from = *from;
            ends.iter().filter(move |to| **to != from).map(move |to| (from, *to)).collect::<Vec<_>>()
        };
        let links: Vec<Link> = ends.iter().flat_map(of).collect();
        let reached = self.reaches(&links)?;
        match links.iter().zip(reached).find(|(_, reached)| !reached) {
            None => Ok(()),
            Some(((from, to), _)) => Err(ClusterError(format!(
                "nothing comes by UDP from {} to {}, by which faults of links are proved; a firewall that lets it through is right",
                self.in_words(*from),
                self.in_words(*to)
            ))),
        }
    }

    fn in_words(&self, end: End) -> String {
        match end {
            End::Clients => "this machine".to_owned(),
            End::Node(node) => match self.hosts.get(&node) {
                Some(host) => format!("{node} ({})", host.remote.connection().name()),
                None => node.to_string(),
            },
        }
    }

    pub(super) fn links(&self) -> LinksOf {
        LinksOf::nodes(self.hosts.len())
    }

    /// Where a place is, as another sees it.
    pub(super) fn address(&self, of: End, seen_by: NodeId) -> Ipv4Addr {
        match of {
            End::Node(node) => *self.hosts[&node].probes.ip(),
            End::Clients => self.hosts[&seen_by].harness,
        }
    }

    /// Changes what is wrong with links: `change` is told of each node's rules.
    pub(super) fn change_rules(&self, change: impl Fn(NodeId, &mut Rules)) -> Result<(), ClusterError> {
        let mut all = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Vec::new();
        for id in self.all_nodes() {
            let rules = all.entry(id).or_default();
            let before = rules.clone();
            change(id, rules);
            if *rules != before {
                changed.push((id, rules.clone()));
            }
        }
        // All at once: half a partition is another one.
        at_once(&changed, |(id, rules)| self.ask::<()>(*id, &Ask::Rule(rules.clone()))).map(drop)
    }

    /// Who is at the other ends of a node's links that are among these, for what it is sent and for what it sends to clients: all
    /// else is dropped where it arrives.
    pub(super) fn at_other_ends(
        &self,
        node: NodeId,
        links: &BTreeSet<Link>,
    ) -> (BTreeSet<Ipv4Addr>, BTreeSet<Ipv4Addr>) {
        let own = End::Node(node);
        let from = links.iter().filter(|(_, to)| *to == own).map(|(from, _)| self.address(*from, node));
        let to_clients = links.contains(&(own, End::Clients)).then(|| self.address(End::Clients, node));
        (from.collect(), to_clients.into_iter().collect())
    }

    /// How many of [`LOSS_PROBES`] were lost over each of these links, none of which is named twice.
    pub(super) fn probes_lost(&self, links: &[Link]) -> Result<Vec<u32>, ClusterError> {
        let to_one = |(_, to): &Link| links.iter().filter(|(_, other)| other == to).count();
        let crowd = u32::try_from(links.iter().map(to_one).max().unwrap_or(1)).expect("a run has few nodes");
        let (round, at_once) = (self.next_round(), (TO_ONE_PLACE / crowd).max(1));
        let mut sent = 0;
        while sent < LOSS_PROBES {
            let count = at_once.min(LOSS_PROBES - sent);
            self.send(links, ProbeKind::Loss, round, count)?;
            sent += count;
            self.arrived(links, round, sent, LULL)?;
        }
        // A machine with much else to do takes in late what is there.
        let mut arrived = self.arrived(links, round, sent, STRAGGLERS)?;
        loop {
            let later = self.arrived(links, round, sent, STRAGGLERS)?;
            if later == arrived {
                break;
            }
            arrived = later;
        }
        Ok(arrived.into_iter().map(|arrived| LOSS_PROBES.saturating_sub(arrived)).collect())
    }

    pub(super) fn next_round(&self) -> Round {
        self.round.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn probe_address(&self, of: End, seen_by: End) -> Result<SocketAddrV4, ClusterError> {
        match (of, seen_by) {
            (End::Node(node), _) => Ok(self.hosts[&node].probes),
            (End::Clients, End::Node(node)) => {
                let port =
                    self.probes.port().map_err(|e| ClusterError(format!("failed to read a port: {e}")))?;
                Ok(SocketAddrV4::new(self.hosts[&node].harness, port))
            }
            (End::Clients, End::Clients) => {
                Err(ClusterError("clients have no link to themselves".to_owned()))
            }
        }
    }

    /// Sends so many probes over each of these links.
    pub(super) fn send(
        &self,
        links: &[Link],
        kind: ProbeKind,
        round: Round,
        count: u32,
    ) -> Result<(), ClusterError> {
        let sources: BTreeSet<End> = links.iter().map(|(from, _)| *from).collect();
        let sources: Vec<End> = sources.into_iter().collect();
        at_once(&sources, |from| {
            let to = links.iter().filter(|(source, _)| source == from);
            let to: Result<Vec<_>, _> = to.map(|(_, to)| self.probe_address(*to, *from)).collect();
            let send = Send { kind, round, source: number(*from), to: to?, count };
            match from {
                End::Node(node) => self.ask(*node, &Ask::Send(send)),
                End::Clients => {
                    self.probes.send(&send).map_err(|e| ClusterError(format!("failed to send a probe: {e}")))
                }
            }
        })
        .map(drop)
    }

    /// How many probes of a round have come over each of these links; waits for so many, and no longer than that.
    pub(super) fn arrived(
        &self,
        links: &[Link],
        round: Round,
        count: u32,
        wait: Duration,
    ) -> Result<Vec<u32>, ClusterError> {
        let came = self.came(links, round, count, wait)?;
        Ok(came.into_iter().map(|came| came.map_or(0, |(count, _)| count)).collect())
    }

    /// The same, with when the last came, or a little later.
    fn came(
        &self,
        links: &[Link],
        round: Round,
        count: u32,
        wait: Duration,
    ) -> Result<Vec<Option<(u32, Instant)>>, ClusterError> {
        let places: BTreeSet<End> = links.iter().map(|(_, to)| *to).collect();
        let places: Vec<End> = places.into_iter().collect();
        let arrived = at_once(&places, |place| {
            let from = links.iter().filter(|(_, to)| to == place).map(|(from, _)| number(*from)).collect();
            let arrived: Arrived = match place {
                End::Clients => self.probes.arrived(round, &from, count, wait),
                End::Node(node) => {
                    let wait_ms = u64::try_from(wait.as_millis()).expect("it is short");
                    self.ask(*node, &Ask::Arrived { round, from, count, wait_ms })?
                }
            };
            Ok((arrived, Instant::now()))
        })?;
        let by_place: BTreeMap<End, _> = places.into_iter().zip(arrived).collect();
        let of = |(from, to): &Link| {
            let (arrived, now) = &by_place[to];
            arrived.get(&number(*from)).map(|came| (came.count, *now - came.ago))
        };
        Ok(links.iter().map(of).collect())
    }

    /// How long probes take over each of these links, if any comes.
    pub(super) fn took(&self, links: &[Link]) -> Result<Vec<Option<Took>>, ClusterError> {
        let round = self.next_round();
        let longest = {
            let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
            let lags = rules.values().flat_map(|rules| rules.slow.lags.values());
            lags.map(|lag| lag.delay + lag.jitter).max().unwrap_or_default()
        };
        let wait = longest + GRACE;
        let sources: BTreeSet<End> = links.iter().map(|(from, _)| *from).collect();
        let sources: Vec<End> = sources.into_iter().collect();
        let of_each = at_once(&sources, |from| {
            let to = links.iter().filter(|(source, _)| source == from);
            let to: Vec<SocketAddrV4> =
                to.map(|(_, to)| self.probe_address(*to, *from)).collect::<Result<_, _>>()?;
            match from {
                End::Node(node) => {
                    let wait_ms = u64::try_from(wait.as_millis()).expect("delays are of seconds");
                    self.ask::<Vec<Option<Took>>>(*node, &Ask::Took { round, to, wait_ms })
                }
                End::Clients => self
                    .probes
                    .took(round, &to, wait)
                    .map_err(|e| ClusterError(format!("failed to send a probe: {e}"))),
            }
        })?;
        let mut of_each: BTreeMap<End, _> =
            sources.into_iter().zip(of_each.into_iter().map(Vec::into_iter)).collect();
        let of = |(from, _): &Link| of_each.get_mut(from).and_then(Iterator::next).flatten();
        Ok(links.iter().map(of).collect())
    }

    /// How many bytes a second get through over each of these links.
    pub(super) fn rates_of(&self, links: &[Link]) -> Result<Vec<u64>, ClusterError> {
        let count = u32::try_from(RATE_PROBES).expect("they are few");
        let (round, began) = (self.next_round(), Instant::now());
        self.send(links, ProbeKind::Rate, round, count)?;
        let came = self.came(links, round, count, RATE_WINDOW.saturating_sub(began.elapsed()))?;
        // Until the last came: a host that is asked late has had nothing to take in for a while.
        let rate = |came: Option<(u32, Instant)>| {
            let (count, last) = came.unwrap_or((0, began + RATE_WINDOW));
            sandbox::rate(count.into(), last.saturating_duration_since(began)).unwrap_or(UNLIMITED)
        };
        Ok(came.into_iter().map(rate).collect())
    }

    /// Whether a connection over a link is refused, by 1, or made, by 0.
    pub(super) fn refusal(&self, (from, to): Link) -> Result<u64, ClusterError> {
        let End::Node(node) = to else {
            return Err(ClusterError("clients refuse nothing".to_owned()));
        };
        let port: u16 = self.ask(node, &Ask::Listen)?;
        let place = SocketAddrV4::new(*self.hosts[&node].probes.ip(), port);
        let refused: Option<bool> = match from {
            End::Clients => refuses(place, CONNECT_WAIT)
                .map_err(|e| ClusterError(format!("failed to ask {place} for a connection: {e}")))?,
            End::Node(from) => {
                let wait_ms = u64::try_from(CONNECT_WAIT.as_millis()).expect("it is short");
                self.ask(from, &Ask::IsRefused { to: place, wait_ms })?
            }
        };
        let silent = || ClusterError(format!("{to} neither refuses nor makes a connection of {from}"));
        refused.map(u64::from).ok_or_else(silent)
    }

    /// Whether something that is sent over each of these links arrives.
    pub(super) fn try_links(&self, links: &[Link]) -> Result<Vec<bool>, ClusterError> {
        let (round, deadline) = (self.next_round(), Instant::now() + REACH_WAIT);
        let mut reached = vec![false; links.len()];
        let mut tries = 0;
        loop {
            let left: Vec<usize> = (0..links.len()).filter(|at| !reached[*at]).collect();
            if left.is_empty() || (Instant::now() >= deadline && tries >= REACH_TRIES) {
                return Ok(reached);
            }
            let asked: Vec<Link> = left.iter().map(|at| links[*at]).collect();
            self.send(&asked, ProbeKind::Reach, round, 1)?;
            for (at, arrived) in left.iter().zip(self.arrived(&asked, round, 1, ARRIVE_WAIT)?) {
                reached[*at] = arrived > 0;
            }
            tries += 1;
        }
    }
}

/// The number of a place among the sources of probes.
pub(super) fn number(end: End) -> u16 {
    match end {
        End::Clients => HARNESS,
        End::Node(node) => node.0,
    }
}

pub(super) fn end(place: Endpoint) -> End {
    match place {
        Endpoint::Harness => End::Clients,
        Endpoint::Node(NodeIx(at)) => End::Node(NodeId(u16::try_from(at + 1).expect("a run has few nodes"))),
    }
}

pub(super) fn as_links(pairs: &[Ends]) -> Vec<Link> {
    pairs.iter().map(|&(from, to)| (end(from), end(to))).collect()
}
