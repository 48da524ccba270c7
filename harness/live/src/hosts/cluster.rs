//! A cluster of nodes on other machines.

use super::agent::{self, refuses};
use super::probes::{Arrived, Probes, Round};
use super::protocol::{Ask, Begin, Begun, PING_EVERY, Send};
use super::remote::Remote;
use super::ssh::{Connection, HostName, Login};
use super::upload::{self, Wanted, quoted};
use crate::cluster::await_serving;
use crate::links::LinksOf;
use crate::roll::{Restarts, Rolls};
use crate::runner::Clients;
use crate::sandbox::{Endpoint, Ends, LOSS_PROBES, NodeIx, ProbeKind, Rules};
use riprap_core::cluster::{
    Cluster, ClusterError, CutFile, DeadClient, End, FlippedBit, Link, Links, Lost, NodeId, NodeState,
    PerLink, Reading, Roll, Turn, Turns,
};
use riprap_core::system::{Deployment, NodePlace, System};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
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
/// How long a connection may take to be refused or made.
const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// The number of a probe that the harness sends; those of nodes are theirs.
const HARNESS: u16 = 0;

/// What a run asks of its hosts.
pub struct HostsSpec<'a> {
    /// The system under test.
    pub system: &'static dyn System,
    /// Its name, as an agent finds it by.
    pub name: &'a str,
    /// The hosts, one for each node, in order.
    pub hosts: &'a [HostName],
    /// How they are logged in to.
    pub login: &'a Login,
    /// The folder that what is fetched is kept in here.
    pub cache: Option<&'a Path>,
    /// Where each node's logs are brought in the end: `<name>/node.log`.
    pub log_root: PathBuf,
    /// Whether each node gets a disk that forgets, fills and slows down as it is told.
    pub has_disks: bool,
    /// Whether each node gets a clock that can be set.
    pub has_clocks: bool,
    /// The rest of the deployment; its `nodes` are filled in.
    pub deployment: Deployment,
    /// The same of another version, if nodes may go to one, with what that is called.
    pub upgraded: Option<(String, Deployment)>,
}

/// See the module.
pub struct HostCluster {
    system: &'static dyn System,
    deployment: Deployment,
    log_root: PathBuf,
    hosts: BTreeMap<NodeId, Arc<Host>>,
    probes: Probes,
    round: AtomicU64,
    rules: Mutex<BTreeMap<NodeId, Rules>>,
    pings: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
    rolls: Rolls,
    /// Those of the run, once there are any.
    clients: OnceLock<Clients>,
    /// Itself, for the thread of a roll.
    me: Weak<HostCluster>,
}

/// A host with its agent.
struct Host {
    remote: Remote,
    /// The folder of its agent.
    root: PathBuf,
    /// The harness's address, as it sees it.
    harness: Ipv4Addr,
    /// Where it takes probes.
    probes: SocketAddrV4,
}

impl HostCluster {
    /// Logs in to all hosts, brings them what they lack, and has their agents prepare their nodes. Nothing is started yet.
    /// `tell` is told how far it is.
    pub fn new(spec: HostsSpec<'_>, tell: &(dyn Fn(&str) + Sync)) -> Result<Arc<HostCluster>, ClusterError> {
        let wanted = wanted(&spec)?;
        let ids = NodeId::first(u16::try_from(spec.hosts.len()).expect("a run has few nodes"));
        let places: Vec<(NodeId, &HostName)> = ids.into_iter().zip(spec.hosts).collect();
        let opened = at_once(&places, |(_, name)| {
            tell(&format!("logging in to {name}"));
            Connection::open(name, spec.login)
        })?;
        check_twins(&opened)?;
        let folders = at_once(&opened, |connection| bring(connection, &wanted, tell))?;
        let mut deployment = spec.deployment.clone();
        for ((id, _), (connection, folder)) in places.iter().zip(opened.iter().zip(&folders)) {
            let address = connection.address();
            deployment.nodes.push(NodePlace {
                id: *id,
                address: address.into(),
                data_dir: agent::data_dir(folder),
                log_dir: agent::log_dir(folder),
            });
        }
        let taken = opened.into_iter().map(|connection| Mutex::new(Some(connection)));
        let each: Vec<_> = places.iter().zip(taken.zip(&folders)).collect();
        tell("starting the agents");
        let hosts = at_once(&each, |((id, name), (connection, folder))| {
            let connection = connection.lock().unwrap_or_else(PoisonError::into_inner).take();
            let connection = connection.expect("each is taken once");
            // A host's own, below a folder of its own.
            let at_home = |of: &Deployment, program: &Option<Wanted>| Deployment {
                nodes: deployment.nodes.clone(),
                program: program.as_ref().map(|program| folder.join(&program.remote)),
                ..of.clone()
            };
            let upgraded = spec.upgraded.as_ref();
            let upgraded =
                upgraded.map(|(name, other)| (name.clone(), at_home(other, &wanted.other_program)));
            let begin = Begin {
                system: spec.name.to_owned(),
                description: spec.system.description().map(str::to_owned),
                deployment: at_home(&deployment, &wanted.program),
                upgraded,
                node: *id,
                has_disk: spec.has_disks,
                has_clock: spec.has_clocks,
                spared: name.port(),
            };
            begin_host(connection, folder, &wanted.agent, begin).map(|host| (*id, Arc::new(host)))
        })?;
        let hosts: BTreeMap<NodeId, Arc<Host>> = hosts.into_iter().collect();
        let probes =
            Probes::open().map_err(|e| ClusterError(format!("failed to open a port for probes: {e}")))?;
        let pings = ping(hosts.values().cloned().collect())
            .map_err(|e| ClusterError(format!("failed to start a thread: {e}")))?;
        let cluster = Arc::new_cyclic(|me| HostCluster {
            system: spec.system,
            deployment,
            log_root: spec.log_root,
            hosts,
            probes,
            round: AtomicU64::new(1),
            rules: Mutex::default(),
            pings: Some(pings),
            rolls: Rolls::default(),
            clients: OnceLock::new(),
            me: me.clone(),
        });
        cluster.check_links()?;
        Ok(cluster)
    }

    /// Makes sure that each pair reaches each other before anything is cut: a link that is dead anyway would prove any cut.
    fn check_links(&self) -> Result<(), ClusterError> {
        let ends: Vec<End> = self.nodes().into_iter().map(End::Node).chain([End::Clients]).collect();
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

    /// Says who its clients are, for faults that strike them. They do not change any more.
    pub fn attach(&self, clients: Clients) {
        self.clients.get_or_init(|| clients);
    }

    /// How the system is deployed.
    pub fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Waits until every node serves. Errors: what the first that does not still waits for, when time is over or
    /// `stop` says so.
    pub fn await_serving(&self, limit: Duration, stop: &mut dyn FnMut() -> bool) -> Result<(), String> {
        await_serving(self, self.system, &self.deployment, limit, stop)
    }

    /// The nodes whose process ended though nobody had killed it, each with how.
    pub fn ended_by_themselves(&self) -> Vec<(NodeId, String)> {
        let of = |id: &NodeId| {
            // Of a host that is lost nobody knows, which is told elsewhere.
            let ended: Vec<String> = self.ask(*id, &Ask::EndedByItself).unwrap_or_default();
            ended.into_iter().map(|how| (*id, how)).collect::<Vec<_>>()
        };
        self.hosts.keys().flat_map(of).collect()
    }

    /// How many packets the cuts have dropped.
    pub fn dropped_packets(&self) -> Option<u64> {
        let dropped: Result<Vec<u64>, _> =
            self.hosts.keys().map(|id| self.ask::<u64>(*id, &Ask::Dropped)).collect();
        dropped.ok().map(|dropped| dropped.iter().sum())
    }

    /// The first host whose agent is known to answer no more, and why. Never waits.
    pub fn lost(&self) -> Option<String> {
        self.hosts.values().find_map(|host| host.remote.lost()).map(ToString::to_string)
    }

    /// The same, after each was asked.
    pub fn ask_for_lost(&self) -> Option<String> {
        for host in self.hosts.values() {
            // Who does not answer is lost from then on.
            let _ = host.remote.ask::<()>(&Ask::Ping);
        }
        self.lost()
    }

    /// Brings the nodes' logs here, as they are now.
    pub fn fetch_logs(&self) -> Result<(), ClusterError> {
        for (id, host) in &self.hosts {
            let paths: Vec<PathBuf> = self.ask(*id, &Ask::Logs)?;
            for path in paths {
                let there = agent::log_dir(&host.root).join(&path);
                let bytes = host.remote.connection().succeed(
                    "read a log",
                    &format!("cat {}", quoted(&there)),
                    std::io::empty(),
                )?;
                let here = self.log_root.join(id.to_string()).join(&path);
                let folder = here.parent().expect("it is in a folder");
                let written = fs::create_dir_all(folder).and_then(|()| fs::write(&here, bytes));
                written.map_err(|e| ClusterError(format!("failed to write {}: {e}", here.display())))?;
            }
        }
        Ok(())
    }

    /// Ends every node in order, and has the agents take away what they made.
    pub fn stop(&self) -> Result<(), ClusterError> {
        for roll in [Roll::Restart, Roll::Upgrade] {
            self.rolls.end(roll)?;
        }
        let hosts: Vec<NodeId> = self.nodes();
        at_once(&hosts, |id| self.ask::<()>(*id, &Ask::Stop)).map(drop)
    }

    fn ask<T: DeserializeOwned>(&self, id: NodeId, ask: &Ask) -> Result<T, ClusterError> {
        let host =
            self.hosts.get(&id).ok_or_else(|| ClusterError(format!("no node {id} in this cluster")))?;
        host.remote.ask(ask)
    }

    fn links(&self) -> LinksOf {
        LinksOf::nodes(self.hosts.len())
    }

    /// Where a place is, as another sees it.
    fn address(&self, of: End, seen_by: NodeId) -> Ipv4Addr {
        match of {
            End::Node(node) => *self.hosts[&node].probes.ip(),
            End::Clients => self.hosts[&seen_by].harness,
        }
    }

    /// Changes what is wrong with links: `change` is told of each node's rules.
    fn change_rules(&self, change: impl Fn(NodeId, &mut Rules)) -> Result<(), ClusterError> {
        let mut all = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Vec::new();
        for id in self.nodes() {
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
    fn at_other_ends(
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
    fn probes_lost(&self, links: &[Link]) -> Result<Vec<u32>, ClusterError> {
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

    fn next_round(&self) -> Round {
        self.round.fetch_add(1, Ordering::Relaxed)
    }

    fn probe_address(&self, of: End, seen_by: End) -> Result<SocketAddrV4, ClusterError> {
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
    fn send(&self, links: &[Link], kind: ProbeKind, round: Round, count: u32) -> Result<(), ClusterError> {
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
    fn arrived(
        &self,
        links: &[Link],
        round: Round,
        count: u32,
        wait: Duration,
    ) -> Result<Vec<u32>, ClusterError> {
        let places: BTreeSet<End> = links.iter().map(|(_, to)| *to).collect();
        let places: Vec<End> = places.into_iter().collect();
        let arrived = at_once(&places, |place| {
            let from = links.iter().filter(|(_, to)| to == place).map(|(from, _)| number(*from)).collect();
            match place {
                End::Clients => Ok(self.probes.arrived(round, &from, count, wait)),
                End::Node(node) => {
                    let wait_ms = u64::try_from(wait.as_millis()).expect("it is short");
                    self.ask::<Arrived>(*node, &Ask::Arrived { round, from, count, wait_ms })
                }
            }
        })?;
        let by_place: BTreeMap<End, Arrived> = places.into_iter().zip(arrived).collect();
        let of = |(from, to): &Link| by_place[to].get(&number(*from)).copied().unwrap_or(0);
        Ok(links.iter().map(of).collect())
    }
}

impl Drop for HostCluster {
    fn drop(&mut self) {
        // Agents end when they are left alone, whatever becomes of this.
        if let Some((stop, pings)) = self.pings.take() {
            drop(stop);
            let _ = pings.join();
        }
    }
}

impl Cluster for HostCluster {
    fn nodes(&self) -> Vec<NodeId> {
        self.hosts.keys().copied().collect()
    }

    fn start(&self, id: NodeId) -> Result<(), ClusterError> {
        self.ask(id, &Ask::Start)
    }

    fn kill(&self, id: NodeId) -> Result<(), ClusterError> {
        self.ask(id, &Ask::Kill)
    }

    fn clients(&self) -> u32 {
        self.clients.get().map_or(0, Clients::count)
    }

    fn crash_clients(&self, threads: &BTreeSet<u32>) -> Result<Vec<DeadClient>, ClusterError> {
        self.clients.get().map_or_else(|| Ok(Vec::new()), |clients| clients.crash(threads))
    }

    fn roll(&self, roll: Roll, nodes: &[NodeId]) -> Result<Turns, ClusterError> {
        let me = self.me.upgrade().expect("it is borrowed from what owns it");
        self.rolls.begin(roll, me, nodes)
    }

    fn end_roll(&self, roll: Roll) -> Result<Turns, ClusterError> {
        self.rolls.end(roll)
    }

    fn pause(&self, id: NodeId) -> Result<(), ClusterError> {
        self.ask(id, &Ask::Pause)
    }

    fn resume(&self, id: NodeId) -> Result<(), ClusterError> {
        self.ask(id, &Ask::Resume)
    }

    fn state(&self, id: NodeId) -> Result<NodeState, ClusterError> {
        self.ask(id, &Ask::State)
    }

    fn cut(&self, links: &BTreeSet<Link>) -> Result<(), ClusterError> {
        self.change_rules(|id, rules| (rules.cut_from, rules.cut_to) = self.at_other_ends(id, links))
    }

    fn reaches(&self, links: &[Link]) -> Result<Vec<bool>, ClusterError> {
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

    fn lose(&self, nodes: &BTreeSet<NodeId>, links: Links, percent: u8) -> Result<(), ClusterError> {
        let both = nodes.iter().flat_map(|node| self.links().both_ways(*node, links));
        let lossy: BTreeSet<Link> = both.map(|(from, to)| (end(from), end(to))).collect();
        self.change_rules(|id, rules| {
            (rules.lossy_from, rules.lossy_to) = self.at_other_ends(id, &lossy);
            rules.loss_percent = percent;
        })
    }

    fn losses_percent(&self, nodes: &[NodeId]) -> Result<Vec<Reading>, ClusterError> {
        self.links().read(nodes, LinksOf::both_ways, |pairs| {
            let lost = self.probes_lost(&as_links(pairs))?;
            Ok(lost.into_iter().map(|lost| u64::from(lost) * 100 / u64::from(LOSS_PROBES)).collect())
        })
    }

    fn refuse(&self, nodes: &BTreeSet<NodeId>, links: Links) -> Result<(), ClusterError> {
        self.change_rules(|id, rules| {
            let others = self.links().to(id, links).map(|(from, _)| self.address(end(from), id));
            rules.refused = if nodes.contains(&id) { others.collect() } else { BTreeSet::new() };
        })
    }

    fn refusals(&self, nodes: &[NodeId]) -> Result<Vec<Reading>, ClusterError> {
        self.links().read(nodes, LinksOf::to, |pairs| {
            as_links(pairs).into_iter().map(|link| self.refusal(link)).collect()
        })
    }

    fn reset(&self, node: NodeId, links: Links) -> Result<PerLink<usize>, ClusterError> {
        let others: BTreeSet<Ipv4Addr> =
            self.links().to(node, links).map(|(from, _)| self.address(end(from), node)).collect();
        let broken: Vec<Ipv4Addr> = self.ask(node, &Ask::Reset { others })?;
        let harness = self.address(End::Clients, node);
        let clients = broken.iter().filter(|other| **other == harness).count();
        Ok(PerLink { peers: broken.len() - clients, clients })
    }

    fn flip_bit(&self, id: NodeId, draw: u64) -> Result<Option<FlippedBit>, ClusterError> {
        self.ask(id, &Ask::FlipBit { draw })
    }

    fn cut_tail(&self, id: NodeId, draw: u64) -> Result<Option<CutFile>, ClusterError> {
        self.ask(id, &Ask::CutTail { draw })
    }

    fn clock_offset_ms(&self, id: NodeId) -> Result<i64, ClusterError> {
        self.ask(id, &Ask::ClockOffset)
    }

    fn set_clock_offset_ms(&self, id: NodeId, offset_ms: i64) -> Result<(), ClusterError> {
        self.ask(id, &Ask::SetClockOffset { offset_ms })
    }

    fn disk_has_rotted(&self, id: NodeId) -> Result<bool, ClusterError> {
        self.ask(id, &Ask::HasRotted)
    }

    fn replace_disk(&self, id: NodeId) -> Result<(), ClusterError> {
        self.ask(id, &Ask::ReplaceDisk)
    }

    fn power_fail(&self, id: NodeId) -> Result<Lost, ClusterError> {
        self.ask(id, &Ask::PowerFail)
    }

    fn disk_slowness(&self, id: NodeId) -> Result<u64, ClusterError> {
        self.ask(id, &Ask::Slowness)
    }

    fn slow_disk(&self, id: NodeId, factor: u64) -> Result<(), ClusterError> {
        self.ask(id, &Ask::SlowDown { factor })
    }

    fn disk_room(&self, id: NodeId) -> Result<Option<u64>, ClusterError> {
        self.ask(id, &Ask::Room)
    }

    fn set_disk_room(&self, id: NodeId, room: Option<u64>) -> Result<(), ClusterError> {
        self.ask(id, &Ask::SetRoom { room })
    }
}

impl Restarts for HostCluster {
    fn restart(&self, roll: Roll, id: NodeId) -> Result<Turn, ClusterError> {
        self.ask(id, &Ask::Restart { is_upgrade: roll == Roll::Upgrade })
    }

    fn serves(&self, id: NodeId) -> Result<(), String> {
        self.system.serves(&self.deployment, id)
    }
}

impl HostCluster {
    /// Whether a connection over a link is refused, by 1, or made, by 0.
    fn refusal(&self, (from, to): Link) -> Result<u64, ClusterError> {
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
}

/// What all hosts are to have.
struct WantedOfAll {
    agent: Wanted,
    /// What is run as the system, where that is not what it would be.
    program: Option<Wanted>,
    /// The same of the version that nodes go to.
    other_program: Option<Wanted>,
    /// What the system is made of, in all versions.
    system: Vec<Wanted>,
}

fn wanted(spec: &HostsSpec<'_>) -> Result<WantedOfAll, ClusterError> {
    let other = spec.upgraded.as_ref().map(|(_, other)| other);
    let program = |of: Option<&Deployment>| {
        let program = of.and_then(|of| of.program.as_deref());
        program.map(|program| Wanted::program(program, "program")).transpose()
    };
    let mut system = Vec::new();
    for deployment in [Some(&spec.deployment), other].into_iter().flatten() {
        let installed = spec.system.installed(deployment).map_err(ClusterError)?;
        if let (Some(installed), Some(cache)) = (installed, spec.cache) {
            system.extend(Wanted::below(cache, &installed)?);
        }
    }
    Ok(WantedOfAll {
        agent: Wanted::program(Path::new("/proc/self/exe"), "riprap")?,
        program: program(Some(&spec.deployment))?,
        other_program: program(other)?,
        system,
    })
}

/// Makes sure that no two names are of one machine.
fn check_twins(opened: &[Connection]) -> Result<(), ClusterError> {
    for (at, one) in opened.iter().enumerate() {
        if let Some(twin) = opened[..at].iter().find(|twin| twin.address() == one.address()) {
            let (address, one, twin) = (one.address(), one.name(), twin.name());
            return Err(ClusterError(format!(
                "{one} is {address}, and so is {twin}; a host for each node is right"
            )));
        }
    }
    Ok(())
}

/// Brings a host what it lacks. Returns its folder.
fn bring(
    connection: &Connection,
    wanted: &WantedOfAll,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<PathBuf, ClusterError> {
    let host = upload::look(connection)?;
    upload::bring(connection, std::slice::from_ref(&wanted.agent), tell)?;
    // Before the rest is sent: a library that it needs may not be there.
    let try_it = format!("{} --version", quoted(&host.folder.join(&wanted.agent.remote)));
    connection.succeed("run this program", &try_it, std::io::empty())?;
    for program in [&wanted.program, &wanted.other_program].into_iter().flatten() {
        upload::bring(connection, std::slice::from_ref(program), tell)?;
    }
    upload::bring(connection, &wanted.system, tell)?;
    Ok(host.folder)
}

fn begin_host(
    connection: Connection,
    folder: &Path,
    agent: &Wanted,
    begin: Begin,
) -> Result<Host, ClusterError> {
    let address = connection.address();
    let program = quoted(&folder.join(&agent.remote));
    let folder_word = quoted(folder);
    // What the system is made of is looked for where it was brought.
    let command = format!("RIPRAP_CACHE={folder_word} exec {program} agent --root {folder_word}");
    let remote = Remote::start(connection, &command)?;
    let Begun { harness, probe_port } = remote.ask(&Ask::Begin(Box::new(begin)))?;
    Ok(Host { remote, root: folder.to_owned(), harness, probes: SocketAddrV4::new(address, probe_port) })
}

/// Asks something of each now and then, so that agents do not take the harness for gone.
fn ping(hosts: Vec<Arc<Host>>) -> std::io::Result<(mpsc::Sender<()>, JoinHandle<()>)> {
    let (stop, stopped) = mpsc::channel();
    let thread = thread::Builder::new().name("pings".to_owned()).spawn(move || {
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(PING_EVERY) {
            for host in &hosts {
                // Who is lost says so to whoever asks next.
                let _ = host.remote.ask::<()>(&Ask::Ping);
            }
        }
    })?;
    Ok((stop, thread))
}

/// Does something for each, all at the same time. Errors: the first one's, in their order.
fn at_once<T: Sync, R: std::marker::Send>(
    of: &[T],
    act: impl Fn(&T) -> Result<R, ClusterError> + Sync,
) -> Result<Vec<R>, ClusterError> {
    thread::scope(|scope| {
        let begun: Vec<_> = of.iter().map(|one| scope.spawn(|| act(one))).collect();
        let ended: Vec<_> = begun
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        ended.into_iter().collect()
    })
}

/// The number of a place among the sources of probes.
fn number(end: End) -> u16 {
    match end {
        End::Clients => HARNESS,
        End::Node(node) => node.0,
    }
}

fn end(place: Endpoint) -> End {
    match place {
        Endpoint::Harness => End::Clients,
        Endpoint::Node(NodeIx(at)) => End::Node(NodeId(u16::try_from(at + 1).expect("a run has few nodes"))),
    }
}

fn as_links(pairs: &[Ends]) -> Vec<Link> {
    pairs.iter().map(|&(from, to)| (end(from), end(to))).collect()
}
