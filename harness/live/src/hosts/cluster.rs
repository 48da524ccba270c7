//! A cluster of nodes on other machines.

use super::agent;
use super::deploy::{begin_host, bring, check_twins, wanted};
use super::holds::HoldProbes;
use super::links::{as_links, end};
use super::probes::Probes;
use super::protocol::{Ask, Begin, PING_EVERY};
use super::remote::Remote;
use super::ssh::{Connection, HostName, Login};
use super::upload::{Wanted, quoted};
use crate::cluster::{await_serving, lag};
use crate::links::LinksOf;
use crate::members::{Administered, Members};
use crate::roll::{Restarts, Rolls};
use crate::runner::Clients;
use crate::sandbox::{LOSS_PROBES, Rules};
use riprap_core::cluster::{
    Cluster, ClusterError, CutFile, DeadClient, Delay, DelayReading, End, FlippedBit, Link, Links, Lost,
    MemberChange, NodeId, NodeState, PerLink, Reading, Roll, Turn, Turns,
};
use riprap_core::system::{Deployment, NodePlace, Overseer, System};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What a run asks of its hosts.
pub struct HostsSpec<'a> {
    /// The system under test.
    pub system: &'static dyn System,
    /// Its name, as an agent finds it by.
    pub name: &'a str,
    /// The hosts, one for each node, in order.
    pub hosts: &'a [HostName],
    /// One more, whose node is none of the cluster's and can join it.
    pub spare: Option<&'a HostName>,
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
    /// The rest of the deployment; its `nodes` and its `spare` are filled in.
    pub deployment: Deployment,
    /// The same of another version, if nodes may go to one, with what that is called.
    pub upgraded: Option<(String, Deployment)>,
}

/// See the module.
pub struct HostCluster {
    system: &'static dyn System,
    deployment: Deployment,
    log_root: PathBuf,
    pub(super) hosts: BTreeMap<NodeId, Arc<Host>>,
    pub(super) probes: Probes,
    pub(super) round: AtomicU64,
    pub(super) rules: Mutex<BTreeMap<NodeId, Rules>>,
    pub(super) hold_probes: Mutex<HoldProbes>,
    /// The nodes that hear nothing on connections that are held.
    pub(super) deaf: Mutex<Vec<NodeId>>,
    pings: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
    rolls: Rolls,
    members: Members,
    /// Those of the run, once there are any.
    clients: OnceLock<Clients>,
    /// Itself, for the thread of a roll.
    me: Weak<HostCluster>,
}

/// A host with its agent.
pub(super) struct Host {
    pub(super) remote: Remote,
    /// The folder of its agent.
    pub(super) root: PathBuf,
    /// The harness's address, as it sees it.
    pub(super) harness: Ipv4Addr,
    /// Where it takes probes.
    pub(super) probes: SocketAddrV4,
}

impl HostCluster {
    /// Logs in to all hosts, brings them what they lack, and has their agents prepare their nodes. Nothing is started yet.
    /// `tell` is told how far it is.
    pub fn new(spec: HostsSpec<'_>, tell: &(dyn Fn(&str) + Sync)) -> Result<Arc<HostCluster>, ClusterError> {
        let wanted = wanted(&spec)?;
        let names: Vec<&HostName> = spec.hosts.iter().chain(spec.spare).collect();
        let ids = NodeId::first(u16::try_from(names.len()).expect("a run has few nodes"));
        let places: Vec<(NodeId, &HostName)> = ids.into_iter().zip(names).collect();
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
        deployment.spare = spec.spare.and_then(|_| deployment.nodes.pop());
        let taken = opened.into_iter().map(|connection| Mutex::new(Some(connection)));
        let each: Vec<_> = places.iter().zip(taken.zip(&folders)).collect();
        tell("starting the agents");
        let hosts = at_once(&each, |((id, name), (connection, folder))| {
            let connection = connection.lock().unwrap_or_else(PoisonError::into_inner).take();
            let connection = connection.expect("each is taken once");
            // A host's own, below a folder of its own.
            let at_home = |of: &Deployment, program: &Option<Wanted>| Deployment {
                nodes: deployment.nodes.clone(),
                spare: deployment.spare.clone(),
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
            hold_probes: Mutex::default(),
            deaf: Mutex::default(),
            pings: Some(pings),
            rolls: Rolls::default(),
            members: Members::default(),
            clients: OnceLock::new(),
            me: me.clone(),
        });
        cluster.check_links()?;
        Ok(cluster)
    }

    /// Says who its clients are, for faults that strike them. They do not change any more.
    pub fn attach(&self, clients: Clients) {
        self.clients.get_or_init(|| clients);
    }

    /// How the system is deployed.
    pub fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Waits until every node serves, and no node is on its way into the cluster or out of it. Errors: what is still waited for,
    /// when time is over or `stop` says so.
    pub fn await_serving(&self, limit: Duration, stop: &mut dyn FnMut() -> bool) -> Result<(), String> {
        await_serving(self, self.system, &self.deployment, limit, stop)?;
        self.members.await_settled(limit, stop)
    }

    /// All nodes, that which can join the others last.
    pub(super) fn all_nodes(&self) -> Vec<NodeId> {
        self.hosts.keys().copied().collect()
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
        self.members.end()?;
        for roll in [Roll::Restart, Roll::Upgrade] {
            self.rolls.end(roll)?;
        }
        at_once(&self.all_nodes(), |id| self.ask::<()>(*id, &Ask::Stop)).map(drop)
    }

    pub(super) fn ask<T: DeserializeOwned>(&self, id: NodeId, ask: &Ask) -> Result<T, ClusterError> {
        let host =
            self.hosts.get(&id).ok_or_else(|| ClusterError(format!("no node {id} in this cluster")))?;
        host.remote.ask(ask)
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
        self.deployment.nodes.iter().map(|place| place.id).collect()
    }

    fn start(&self, id: NodeId) -> Result<(), ClusterError> {
        self.ask(id, &Ask::Start)
    }

    fn kill(&self, id: NodeId) -> Result<(), ClusterError> {
        if self.deployment.is_spare(id) {
            // An administrator who sees it out might end its next process too.
            self.members.end()?;
        }
        self.ask(id, &Ask::Kill)
    }

    fn spare(&self) -> Option<NodeId> {
        self.deployment.spare.as_ref().map(|place| place.id)
    }

    fn change_members(&self, change: MemberChange) -> Result<(), ClusterError> {
        let me = self.me.upgrade().expect("it is borrowed from what owns it");
        self.members.change(change, me)
    }

    fn members_told(&self) -> Result<String, ClusterError> {
        Ok(self.members.told())
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
        self.try_links(links)
    }

    fn delay(&self, delays: &BTreeMap<NodeId, Delay>, links: Links) -> Result<(), ClusterError> {
        self.change_rules(|id, rules| {
            rules.slow.lags = delays.get(&id).map_or_else(BTreeMap::new, |delay| {
                let lag = lag(*delay);
                self.links().to(id, links).map(|(from, _)| (self.address(end(from), id), lag)).collect()
            });
        })
    }

    fn delays(&self, nodes: &[NodeId]) -> Result<Vec<DelayReading>, ClusterError> {
        self.links().read_delays(nodes, |pairs| self.took(&as_links(pairs)))
    }

    fn limit(&self, rates: &BTreeMap<NodeId, u64>, links: Links) -> Result<(), ClusterError> {
        self.change_rules(|id, rules| {
            let others = self.links().to(id, links).map(|(from, _)| self.address(end(from), id));
            let rate = rates.get(&id);
            rules.slow.limited = if rate.is_some() { others.collect() } else { BTreeSet::new() };
            rules.slow.bytes_per_s = rate.copied().unwrap_or_default();
        })
    }

    fn rates(&self, nodes: &[NodeId]) -> Result<Vec<Reading>, ClusterError> {
        self.links().read(nodes, LinksOf::both_ways, |pairs| self.rates_of(&as_links(pairs)))
    }

    fn hold(&self, nodes: &BTreeSet<NodeId>, links: Links) -> Result<PerLink<usize>, ClusterError> {
        let to = nodes.iter().flat_map(|node| self.links().to(*node, links));
        self.hold_links(&to.map(|(from, to)| (end(from), end(to))).collect())
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

    fn strobe_clock(&self, id: NodeId, offset_ms: i64, every_ms: u64) -> Result<(), ClusterError> {
        self.ask(id, &Ask::StrobeClock { offset_ms, every_ms })
    }

    fn clock_offsets_seen_ms(&self, id: NodeId) -> Result<BTreeSet<i64>, ClusterError> {
        self.ask(id, &Ask::ClockOffsetsSeen)
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

impl Administered for HostCluster {
    fn administer(&self, change: MemberChange, overseer: &mut dyn Overseer) {
        self.system.administer(&self.deployment, change, overseer);
    }

    fn end_node(&self, id: NodeId) -> Result<(), ClusterError> {
        self.ask(id, &Ask::Retire)
    }
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
pub(super) fn at_once<T: Sync, R: std::marker::Send>(
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
