//! A cluster of real processes in the local sandbox.

use crate::clock::NodeClock;
use crate::links::LinksOf;
use crate::members::{Administered, Members};
use crate::node::Node;
use crate::roll::{Restarts, Rolls};
use crate::runner::Clients;
use crate::sandbox::{
    Endpoint, Ends, Inside, LOSS_PROBES, Lag, Network, NodeIx, NodeProcess, ProcessError, ProcessSpec, Reach,
    SandboxError,
};
use riprap_core::cluster::{
    Cluster, ClusterError, CutFile, DeadClient, Delay, DelayReading, End, FlippedBit, Link, Links, Lost,
    MemberChange, NodeId, NodeState, PerLink, Reading, Roll, Turn, Turns, UNLIMITED,
};
use riprap_core::system::{Deployment, NodePlace, Overseer, System};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};

/// How long a probe waits for a datagram on a link that should be dead. On a live one it takes well under a
/// millisecond; on a machine so loaded that it takes longer, a live link could pass for dead.
const PROBE_WAIT: Duration = Duration::from_millis(250);
/// Between two questions whether a node serves.
const READY_POLL: Duration = Duration::from_millis(100);

/// See the module.
pub struct LiveCluster {
    system: &'static dyn System,
    deployment: Deployment,
    /// Another version, as nodes start after their upgrade, with what it is called.
    upgraded: Option<(String, Deployment)>,
    has_disks: bool,
    has_clocks: bool,
    nodes: Mutex<BTreeMap<NodeId, Node>>,
    rolls: Rolls,
    members: Members,
    /// Those of the run, once there are any.
    clients: OnceLock<Clients>,
    /// Itself, for the thread of a roll.
    me: Weak<LiveCluster>,
    // Dropped last: the processes live in it.
    network: Network,
}

/// What a run asks of its cluster.
pub struct ClusterSpec {
    /// The system under test.
    pub system: &'static dyn System,
    /// Where each node gets a folder `<name>/data`, which outlives its process.
    pub data_root: PathBuf,
    /// Where each node's output goes: `<name>/node.log`.
    pub log_root: PathBuf,
    /// How many nodes, controllers and all.
    pub nodes: u16,
    /// Whether there is one more, which is none of the cluster's and can join it.
    pub has_spare: bool,
    /// Whether each node gets a disk that forgets, fills and slows down as it is told.
    pub has_disks: bool,
    /// Whether each node gets a clock that can be set.
    pub has_clocks: bool,
    /// The rest of the deployment; its `nodes` and its `spare` are filled in.
    pub deployment: Deployment,
    /// The same of another version, if nodes may go to one, with what that is called.
    pub upgraded: Option<(String, Deployment)>,
}

impl LiveCluster {
    /// Makes the network and the folders. Nothing is started yet.
    pub fn new(inside: &Inside, spec: ClusterSpec) -> Result<Arc<LiveCluster>, ClusterError> {
        let ClusterSpec {
            system,
            nodes,
            has_spare,
            data_root,
            log_root,
            has_disks,
            has_clocks,
            mut deployment,
            upgraded,
        } = spec;
        let places = nodes + u16::from(has_spare);
        let network = Network::new(inside, usize::from(places)).map_err(sandbox)?;
        for id in NodeId::first(places) {
            let data_dir = data_root.join(id.to_string()).join("data");
            let log_dir = log_root.join(id.to_string());
            for dir in [&data_dir, &log_dir] {
                std::fs::create_dir_all(dir)
                    .map_err(|e| ClusterError(format!("failed to make {}: {e}", dir.display())))?;
            }
            deployment.nodes.push(NodePlace {
                id,
                address: network.address(ix(id)).into(),
                data_dir,
                log_dir,
            });
        }
        let node = |place: &NodePlace| (place.id, Node::new(place.id, place.data_dir.clone()));
        let all_nodes = deployment.nodes.iter().map(node).collect();
        // What it is to be none of has no place for it.
        deployment.spare = if has_spare { deployment.nodes.pop() } else { None };
        let upgraded = upgraded.map(|(name, other)| {
            let (nodes, spare) = (deployment.nodes.clone(), deployment.spare.clone());
            (name, Deployment { nodes, spare, ..other })
        });
        Ok(Arc::new_cyclic(|me| LiveCluster {
            system,
            deployment,
            upgraded,
            has_disks,
            has_clocks,
            nodes: Mutex::new(all_nodes),
            rolls: Rolls::default(),
            members: Members::default(),
            clients: OnceLock::new(),
            me: me.clone(),
            network,
        }))
    }

    /// Writes what nodes need before they start for the first time, and gives them their disks.
    pub fn prepare(&self) -> Result<(), ClusterError> {
        let all: Vec<NodeId> = self.nodes().into_iter().chain(self.spare()).collect();
        self.system.prepare(&self.deployment, &all).map_err(ClusterError)?;
        self.lock().iter_mut().try_for_each(|(id, node)| {
            if self.has_clocks {
                node.clock = Some(NodeClock::new(self.system.clock(), &self.deployment.place(*id).log_dir)?);
            }
            node.furnish(self.has_disks, self.deployment.seed)
        })
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

    /// The nodes whose process ended though nobody had killed it, each with how.
    pub fn ended_by_themselves(&self) -> Vec<(NodeId, String)> {
        let mut nodes = self.lock();
        let of = |(id, node): (&NodeId, &mut Node)| {
            node.ended_by_itself().into_iter().map(|how| (*id, how)).collect::<Vec<_>>()
        };
        nodes.iter_mut().flat_map(of).collect()
    }

    /// How many packets the cuts have dropped.
    pub fn dropped_packets(&self) -> Option<u64> {
        self.network.dropped_packets().ok()
    }

    /// Ends every node in order, by force where it does not heed, and takes its disk from it.
    pub fn stop(&self) -> Result<(), ClusterError> {
        self.members.end()?;
        for roll in [Roll::Restart, Roll::Upgrade] {
            self.rolls.end(roll)?;
        }
        self.lock().values_mut().try_for_each(Node::stop)
    }

    fn links(&self) -> LinksOf {
        LinksOf::nodes(self.network.len())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Node>> {
        self.nodes.lock().expect("no holder panics")
    }

    fn with_node<T>(
        &self,
        id: NodeId,
        act: impl FnOnce(&mut Node) -> Result<T, ClusterError>,
    ) -> Result<T, ClusterError> {
        act(self.lock().get_mut(&id).ok_or_else(|| ClusterError(format!("no node {id} in this cluster")))?)
    }

    fn spawn(
        &self,
        id: NodeId,
        is_upgraded: bool,
        clock: Option<&NodeClock>,
    ) -> Result<NodeProcess, ProcessError> {
        let upgraded = self.upgraded.as_ref().filter(|_| is_upgraded);
        let command = self.system.command(upgraded.map_or(&self.deployment, |(_, other)| other), id);
        let mut spec = ProcessSpec::of(command, self.deployment.place(id).log_dir.join("node.log"));
        if let Some(clock) = clock {
            clock.lend(&mut spec);
        }
        NodeProcess::spawn(&spec, &self.network, ix(id))
    }
}

impl Cluster for LiveCluster {
    fn nodes(&self) -> Vec<NodeId> {
        self.deployment.nodes.iter().map(|place| place.id).collect()
    }

    fn start(&self, id: NodeId) -> Result<(), ClusterError> {
        self.with_node(id, |node| {
            let (is_upgraded, clock) = (node.is_upgraded, node.clock.clone());
            node.start(|| self.spawn(id, is_upgraded, clock.as_ref()))
        })
    }

    fn kill(&self, id: NodeId) -> Result<(), ClusterError> {
        if self.deployment.is_spare(id) {
            // An administrator who sees it out might end its next process too.
            self.members.end()?;
        }
        self.with_node(id, Node::kill)
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
        self.with_node(id, Node::pause)
    }

    fn resume(&self, id: NodeId) -> Result<(), ClusterError> {
        self.with_node(id, Node::resume)
    }

    fn state(&self, id: NodeId) -> Result<NodeState, ClusterError> {
        self.with_node(id, Node::state)
    }

    fn cut(&self, links: &BTreeSet<Link>) -> Result<(), ClusterError> {
        let cuts: BTreeSet<Ends> = links.iter().map(|(from, to)| (place(*from), place(*to))).collect();
        self.network.set_cuts(&cuts).map_err(sandbox)
    }

    fn reaches(&self, links: &[Link]) -> Result<Vec<bool>, ClusterError> {
        let pairs: Vec<Ends> = links.iter().map(|(from, to)| (place(*from), place(*to))).collect();
        let reached = self.network.reachable_pairs(&pairs, PROBE_WAIT).map_err(sandbox)?;
        Ok(reached.into_iter().map(|reach| reach == Reach::Yes).collect())
    }

    fn delay(&self, delays: &BTreeMap<NodeId, Delay>, links: Links) -> Result<(), ClusterError> {
        let of = |(node, delay): (&NodeId, &Delay)| {
            let lag = lag(*delay);
            self.links().to(*node, links).map(|ends| (ends, lag)).collect::<Vec<_>>()
        };
        self.network.set_delays(&delays.iter().flat_map(of).collect()).map_err(sandbox)
    }

    fn delays(&self, nodes: &[NodeId]) -> Result<Vec<DelayReading>, ClusterError> {
        self.links().read_delays(nodes, |pairs| self.network.delays(pairs).map_err(sandbox))
    }

    fn lose(&self, nodes: &BTreeSet<NodeId>, links: Links, percent: u8) -> Result<(), ClusterError> {
        let pairs = nodes.iter().flat_map(|node| self.links().both_ways(*node, links)).collect();
        self.network.set_loss(&pairs, percent).map_err(sandbox)
    }

    fn losses_percent(&self, nodes: &[NodeId]) -> Result<Vec<Reading>, ClusterError> {
        self.links().read(nodes, LinksOf::both_ways, |pairs| {
            let lost = self.network.lost(pairs).map_err(sandbox)?;
            Ok(lost.into_iter().map(|lost| u64::from(lost) * 100 / u64::from(LOSS_PROBES)).collect())
        })
    }

    fn limit(&self, rates: &BTreeMap<NodeId, u64>, links: Links) -> Result<(), ClusterError> {
        let of = |(node, bytes_per_s): (&NodeId, &u64)| {
            [self.links().to(*node, links).collect(), self.links().from(*node, links).collect()]
                .map(|pairs| (pairs, *bytes_per_s))
        };
        let limits: Vec<_> = rates.iter().flat_map(of).collect();
        self.network.set_limits(&limits).map_err(sandbox)
    }

    fn rates(&self, nodes: &[NodeId]) -> Result<Vec<Reading>, ClusterError> {
        self.links().read(nodes, LinksOf::both_ways, |pairs| {
            let rates = self.network.rates(pairs).map_err(sandbox)?;
            Ok(rates.into_iter().map(|rate| rate.unwrap_or(UNLIMITED)).collect())
        })
    }

    fn refuse(&self, nodes: &BTreeSet<NodeId>, links: Links) -> Result<(), ClusterError> {
        let of = |node: &NodeId| (ix(*node), self.links().to(*node, links).map(|(from, _)| from).collect());
        self.network.set_refusals(&nodes.iter().map(of).collect()).map_err(sandbox)
    }

    fn hold(&self, nodes: &BTreeSet<NodeId>, links: Links) -> Result<PerLink<usize>, ClusterError> {
        let directions = nodes.iter().flat_map(|node| self.links().to(*node, links)).collect();
        let held = self.network.hold(&directions).map_err(sandbox)?;
        let clients = held.iter().filter(|(from, _)| *from == Endpoint::Harness).count();
        Ok(PerLink { peers: held.len() - clients, clients })
    }

    fn reset(&self, node: NodeId, links: Links) -> Result<PerLink<usize>, ClusterError> {
        let others = self.links().to(node, links).map(|(from, _)| from).collect();
        let broken = self.network.reset(ix(node), &others).map_err(sandbox)?;
        let clients = broken.iter().filter(|other| **other == Endpoint::Harness).count();
        Ok(PerLink { peers: broken.len() - clients, clients })
    }

    fn refusals(&self, nodes: &[NodeId]) -> Result<Vec<Reading>, ClusterError> {
        self.links().read(nodes, LinksOf::to, |pairs| {
            let refused = self.network.refused(pairs).map_err(sandbox)?;
            let answer = |(refused, (from, to)): (&Option<bool>, &Ends)| {
                let silent =
                    || ClusterError(format!("{to:?} neither refuses nor makes a connection of {from:?}"));
                refused.map(u64::from).ok_or_else(silent)
            };
            refused.iter().zip(pairs).map(answer).collect()
        })
    }

    fn flip_bit(&self, id: NodeId, draw: u64) -> Result<Option<FlippedBit>, ClusterError> {
        self.with_node(id, |node| node.flip_bit(draw))
    }

    fn cut_tail(&self, id: NodeId, draw: u64) -> Result<Option<CutFile>, ClusterError> {
        self.with_node(id, |node| node.cut_tail(draw))
    }

    fn clock_offset_ms(&self, id: NodeId) -> Result<i64, ClusterError> {
        self.with_node(id, Node::clock_offset_ms)
    }

    fn set_clock_offset_ms(&self, id: NodeId, offset_ms: i64) -> Result<(), ClusterError> {
        self.with_node(id, |node| node.set_clock_offset_ms(offset_ms))
    }

    fn strobe_clock(&self, id: NodeId, offset_ms: i64, every_ms: u64) -> Result<(), ClusterError> {
        self.with_node(id, |node| node.strobe_clock(offset_ms, every_ms))
    }

    fn clock_offsets_seen_ms(&self, id: NodeId) -> Result<BTreeSet<i64>, ClusterError> {
        self.with_node(id, Node::clock_offsets_seen_ms)
    }

    fn disk_has_rotted(&self, id: NodeId) -> Result<bool, ClusterError> {
        self.with_node(id, |node| Ok(node.has_rotted()))
    }

    fn replace_disk(&self, id: NodeId) -> Result<(), ClusterError> {
        self.with_node(id, Node::replace_disk)
    }

    fn power_fail(&self, id: NodeId) -> Result<Lost, ClusterError> {
        self.with_node(id, Node::power_fail)
    }

    fn disk_slowness(&self, id: NodeId) -> Result<u64, ClusterError> {
        self.with_node(id, |node| node.slowness())
    }

    fn slow_disk(&self, id: NodeId, factor: u64) -> Result<(), ClusterError> {
        self.with_node(id, |node| node.slow_down(factor))
    }

    fn disk_room(&self, id: NodeId) -> Result<Option<u64>, ClusterError> {
        self.with_node(id, |node| node.room())
    }

    fn set_disk_room(&self, id: NodeId, room: Option<u64>) -> Result<(), ClusterError> {
        self.with_node(id, |node| node.set_room(room))
    }
}

/// Waits until every node of a cluster serves.
pub(crate) fn await_serving(
    cluster: &dyn Cluster,
    system: &dyn System,
    deployment: &Deployment,
    limit: Duration,
    stop: &mut dyn FnMut() -> bool,
) -> Result<(), String> {
    let deadline = Instant::now() + limit;
    let mut left: Vec<NodeId> = cluster.nodes();
    loop {
        let Some(node) = left.last().copied() else { return Ok(()) };
        match system.serves(deployment, node) {
            Ok(()) => {
                left.pop();
            }
            Err(why) => {
                // Any: it may be that this one waits for one that is down.
                for node in cluster.nodes() {
                    if let Ok(NodeState::Down(how)) = cluster.state(node) {
                        return Err(format!("{node} is down: {how}"));
                    }
                }
                if Instant::now() >= deadline {
                    return Err(format!("not within {limit:?}: {why}"));
                }
                if stop() {
                    return Err(format!("interrupted: {why}"));
                }
                std::thread::sleep(READY_POLL);
            }
        }
    }
}

impl Restarts for LiveCluster {
    /// Nobody else comes at the node meanwhile.
    fn restart(&self, roll: Roll, id: NodeId) -> Result<Turn, ClusterError> {
        self.with_node(id, |node| {
            node.is_upgraded |= roll == Roll::Upgrade;
            let (is_upgraded, clock) = (node.is_upgraded, node.clock.clone());
            let turn = node.restart(|| self.spawn(id, is_upgraded, clock.as_ref()))?;
            match self.upgraded.as_ref().filter(|_| is_upgraded) {
                Some((name, other)) => node.tell_version(turn, name, &self.system.command(other, id)),
                None => Ok(turn),
            }
        })
    }

    fn serves(&self, id: NodeId) -> Result<(), String> {
        self.system.serves(&self.deployment, id)
    }
}

impl Administered for LiveCluster {
    fn administer(&self, change: MemberChange, overseer: &mut dyn Overseer) {
        self.system.administer(&self.deployment, change, overseer);
    }

    fn end_node(&self, id: NodeId) -> Result<(), ClusterError> {
        self.with_node(id, Node::retire)
    }
}

pub(crate) fn lag(delay: Delay) -> Lag {
    let ms = Duration::from_millis;
    Lag { delay: ms(delay.ms), jitter: ms(delay.jitter_ms) }
}

pub(crate) fn ix(id: NodeId) -> NodeIx {
    NodeIx(usize::from(id.0) - 1)
}

fn place(end: End) -> Endpoint {
    match end {
        End::Node(node) => ix(node).into(),
        End::Clients => Endpoint::Harness,
    }
}

fn sandbox(error: SandboxError) -> ClusterError {
    ClusterError(error.to_string())
}
