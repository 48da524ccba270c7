//! A cluster of real processes in the local sandbox.

use crate::disk::{Disk, DiskError};
use crate::files::{self, Snapshot};
use crate::links::LinksOf;
use crate::roll::{Restarts, Rolls};
use crate::runner::Clients;
use crate::sandbox::{
    Endpoint, Ends, Inside, LOSS_PROBES, Network, NodeIx, NodeProcess, ProcessSpec, ProcessState, Reach,
    SandboxError,
};
use riprap_core::Seed;
use riprap_core::cluster::{
    Cluster, ClusterError, DeadClient, End, FlippedBit, Link, Links, Lost, NodeId, NodeState, PerLink,
    Reading, Roll, Turn, Turns, UNLIMITED,
};
use riprap_core::system::{Deployment, NodeCommand, NodePlace, System};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};

/// How long a probe waits for a datagram on a link that should be dead. On a live one it takes well under a
/// millisecond; on a machine so loaded that it takes longer, a live link could pass for dead.
const PROBE_WAIT: Duration = Duration::from_millis(250);
/// How long a node gets to end in order when the run is over.
const STOP_WAIT: Duration = Duration::from_secs(3);
/// How long a node gets to end in order that is to be started again: time to hand over what it leads.
const RESTART_WAIT: Duration = Duration::from_secs(15);
/// Between a process' last sign of life and its status: a moment, on a machine with much else to do a longer one.
const BURY_WAIT: Duration = Duration::from_secs(2);
/// How long a process that could not write gets to end of it, before there is room again. A process that does not end of
/// that goes on.
const GIVE_UP_WAIT: Duration = Duration::from_secs(1);
/// Between two questions whether a node serves.
const READY_POLL: Duration = Duration::from_millis(100);

/// See the module.
pub struct LiveCluster {
    system: &'static dyn System,
    deployment: Deployment,
    /// Another version, as nodes start after their upgrade, with what it is called.
    upgraded: Option<(String, Deployment)>,
    has_disks: bool,
    nodes: Mutex<BTreeMap<NodeId, Node>>,
    rolls: Rolls,
    /// Those of the run, once there are any.
    clients: OnceLock<Clients>,
    /// Itself, for the thread of a roll.
    me: Weak<LiveCluster>,
    // Dropped last: the processes live in it.
    network: Network,
}

#[derive(Default)]
struct Node {
    process: Option<NodeProcess>,
    /// Its disk, where it has one of its own.
    disk: Option<Disk>,
    /// Whether it starts as another version than at first.
    is_upgraded: bool,
    /// How it was told to be down.
    killed: Option<&'static str>,
    /// Whether its disk has been full in its process' life: to end of that is no crash.
    was_full: bool,
    /// Whether its disk is not what it wrote: not to go on with that is no crash either.
    has_rotted: bool,
    /// What it needed before it was started for the first time, which is all that a new disk has.
    prepared: Snapshot,
    /// How a process ended that nobody had told to.
    ended_by_itself: Vec<String>,
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
    /// Whether each node gets a disk that forgets, fills and slows down as it is told.
    pub has_disks: bool,
    /// The rest of the deployment; its `nodes` are filled in.
    pub deployment: Deployment,
    /// The same of another version, if nodes may go to one, with what that is called.
    pub upgraded: Option<(String, Deployment)>,
}

impl LiveCluster {
    /// Makes the network and the folders. Nothing is started yet.
    pub fn new(inside: &Inside, spec: ClusterSpec) -> Result<Arc<LiveCluster>, ClusterError> {
        let ClusterSpec { system, nodes, data_root, log_root, has_disks, mut deployment, upgraded } = spec;
        let network = Network::new(inside, usize::from(nodes)).map_err(sandbox)?;
        for id in NodeId::first(nodes) {
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
        let nodes = deployment.nodes.iter().map(|place| (place.id, Node::default())).collect();
        let upgraded =
            upgraded.map(|(name, other)| (name, Deployment { nodes: deployment.nodes.clone(), ..other }));
        Ok(Arc::new_cyclic(|me| LiveCluster {
            system,
            deployment,
            upgraded,
            has_disks,
            nodes: Mutex::new(nodes),
            rolls: Rolls::default(),
            clients: OnceLock::new(),
            me: me.clone(),
            network,
        }))
    }

    /// Writes what nodes need before they start for the first time, and gives them their disks.
    pub fn prepare(&self) -> Result<(), ClusterError> {
        self.system.prepare(&self.deployment).map_err(ClusterError)?;
        for (id, node) in self.lock().iter_mut() {
            let data = self.deployment.place(*id).data_dir.clone();
            node.prepared = files::snapshot(&data).map_err(|e| unreadable(&data, &e))?;
            if self.has_disks {
                let removed = data.with_file_name("removed");
                let random = Seed(self.deployment.seed).stream(&id.to_string(), "power");
                node.disk = Some(Disk::mount(data, removed, random).map_err(disk_error)?);
            }
        }
        Ok(())
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
    pub fn await_serving(&self, limit: Duration, mut stop: impl FnMut() -> bool) -> Result<(), String> {
        let deadline = Instant::now() + limit;
        let mut left: Vec<NodeId> = self.nodes();
        loop {
            let Some(node) = left.last().copied() else { return Ok(()) };
            match self.system.serves(&self.deployment, node) {
                Ok(()) => {
                    left.pop();
                }
                Err(why) => {
                    // Any: it may be that this one waits for one that is down.
                    for node in self.nodes() {
                        if let Ok(NodeState::Down(how)) = self.state(node) {
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

    /// The nodes whose process ended though nobody had killed it, each with how.
    pub fn ended_by_themselves(&self) -> Vec<(NodeId, String)> {
        let mut nodes = self.lock();
        let mut ended = Vec::new();
        for (id, node) in nodes.iter_mut() {
            node.notice_end();
            ended.extend(node.ended_by_itself.iter().map(|how| (*id, how.clone())));
        }
        ended
    }

    /// How many packets the cuts have dropped.
    pub fn dropped_packets(&self) -> Option<u64> {
        self.network.dropped_packets().ok()
    }

    /// Ends every node in order, by force where it does not heed, and takes its disk from it.
    pub fn stop(&self) -> Result<(), ClusterError> {
        for roll in [Roll::Restart, Roll::Upgrade] {
            self.rolls.end(roll)?;
        }
        let mut nodes = self.lock();
        for node in nodes.values_mut() {
            node.notice_end();
            node.let_disk_go(true);
            if let Some(mut process) = node.process.take() {
                process.terminate(STOP_WAIT).map_err(|e| ClusterError(e.to_string()))?;
            }
            if let Some(mut its) = node.disk.take() {
                its.unmount().map_err(disk_error)?;
            }
        }
        Ok(())
    }

    fn links(&self) -> LinksOf {
        LinksOf::nodes(self.network.len())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Node>> {
        self.nodes.lock().expect("no holder panics")
    }

    fn with_process<T>(
        &self,
        id: NodeId,
        act: impl FnOnce(&mut NodeProcess) -> Result<T, crate::sandbox::ProcessError>,
    ) -> Result<T, ClusterError> {
        let mut nodes = self.lock();
        let node = nodes.get_mut(&id).ok_or_else(|| unknown(id))?;
        let process = node.process.as_mut().ok_or_else(|| ClusterError(format!("{id} has no process")))?;
        act(process).map_err(|e| ClusterError(e.to_string()))
    }

    fn start_one(&self, id: NodeId, node: &mut Node) -> Result<(), ClusterError> {
        let upgraded = self.upgraded.as_ref().filter(|_| node.is_upgraded);
        let command = self.system.command(upgraded.map_or(&self.deployment, |(_, other)| other), id);
        let spec = ProcessSpec {
            program: command.program,
            args: command.args.into_iter().map(Into::into).collect(),
            env: command.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: None,
            log: self.deployment.place(id).log_dir.join("node.log"),
        };
        let process =
            NodeProcess::spawn(&spec, &self.network, ix(id)).map_err(|e| ClusterError(e.to_string()))?;
        node.let_disk_go(false);
        node.process = Some(process);
        node.killed = None;
        node.was_full = node.disk.as_ref().is_some_and(Disk::is_limited);
        Ok(())
    }

    /// The other version, if the operating system says that this process was started as that.
    fn runs(&self, id: NodeId, node: &Node, process: &NodeProcess) -> Result<Option<String>, ClusterError> {
        let Some((name, other)) = self.upgraded.as_ref().filter(|_| node.is_upgraded) else {
            return Ok(None);
        };
        let words = process.words().map_err(|e| ClusterError(e.to_string()))?;
        let NodeCommand { program, args, .. } = self.system.command(other, id);
        let is_new = [program.display().to_string()].iter().chain(&args).all(|word| words.contains(word));
        Ok(is_new.then(|| name.clone()))
    }

    fn flip_bit_of(&self, id: NodeId, data: &Path, draw: u64) -> io::Result<Option<FlippedBit>> {
        let mut nodes = self.lock();
        let node = nodes.get_mut(&id).expect("it was asked for its state");
        let held = files::holding(data, &node.prepared)?;
        let count = held.len() as u64;
        let Some((path, len)) = draw.checked_rem(count).and_then(|n| held.into_iter().nth(n as usize)) else {
            return Ok(None);
        };
        let bit = (draw / count) % (len * 8);
        let (offset, mask) = (bit / 8, 1 << (bit % 8));
        let flip = || files::flip(&data.join(&path), offset, mask);
        let (was, is) = node.disk.as_ref().map_or_else(flip, |disk| disk.durably(flip))?;
        node.has_rotted = true;
        Ok(Some(FlippedBit { path: path.display().to_string(), offset, was, is }))
    }

    /// Asks a node's disk something, or tells it.
    fn with_disk<T>(&self, id: NodeId, act: impl FnOnce(&Disk) -> T) -> Result<T, ClusterError> {
        let nodes = self.lock();
        let node = nodes.get(&id).ok_or_else(|| unknown(id))?;
        Ok(act(node.disk.as_ref().ok_or_else(|| no_disk(id))?))
    }
}

impl Node {
    /// Whether syncs of its disk go on without waiting.
    fn let_disk_go(&self, yes: bool) {
        if let Some(disk) = &self.disk {
            disk.let_go(yes);
        }
    }

    /// Ends its process at once.
    fn kill(&mut self, how: &'static str) -> Result<(), ClusterError> {
        self.notice_end();
        self.killed = Some(how);
        self.let_disk_go(true);
        let Some(process) = &mut self.process else { return Ok(()) };
        process.kill().map(drop).map_err(|e| ClusterError(e.to_string()))
    }

    /// Takes note of a process that has ended without being told to.
    fn notice_end(&mut self) {
        let Some(process) = &mut self.process else { return };
        if let Ok(Some(status)) = process.has_exited() {
            if self.killed.is_none() && !self.was_full && !self.has_rotted {
                self.ended_by_itself.push(status.to_string());
            }
            self.process = None;
        }
    }
}

impl Cluster for LiveCluster {
    fn nodes(&self) -> Vec<NodeId> {
        self.deployment.nodes.iter().map(|place| place.id).collect()
    }

    fn start(&self, id: NodeId) -> Result<(), ClusterError> {
        let mut nodes = self.lock();
        let node = nodes.get_mut(&id).ok_or_else(|| unknown(id))?;
        node.notice_end();
        if node.process.is_some() {
            return Ok(());
        }
        self.start_one(id, node)
    }

    fn kill(&self, id: NodeId) -> Result<(), ClusterError> {
        let mut nodes = self.lock();
        nodes.get_mut(&id).ok_or_else(|| unknown(id))?.kill("killed")
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
        // A thread that waits for its disk does not stop.
        let let_go = |yes| {
            if let Some(node) = self.lock().get(&id) {
                node.let_disk_go(yes);
            }
        };
        let_go(true);
        let paused = self.with_process(id, NodeProcess::pause);
        let_go(false);
        paused
    }

    fn resume(&self, id: NodeId) -> Result<(), ClusterError> {
        self.with_process(id, NodeProcess::resume)
    }

    fn state(&self, id: NodeId) -> Result<NodeState, ClusterError> {
        let mut nodes = self.lock();
        let node = nodes.get_mut(&id).ok_or_else(|| unknown(id))?;
        let Some(process) = &mut node.process else {
            let how = node.killed.or_else(|| node.was_full.then_some("ended, its disk is full"));
            let how = how.or_else(|| node.has_rotted.then_some("ended, its disk has rotted"));
            let how = how.or_else(|| node.ended_by_itself.last().map(String::as_str));
            return Ok(NodeState::Down(how.unwrap_or("never started").to_owned()));
        };
        Ok(match process.state() {
            ProcessState::Alive => NodeState::Running,
            ProcessState::Paused => NodeState::Paused,
            ProcessState::Gone => {
                let status = process.wait(BURY_WAIT).map_err(|e| ClusterError(e.to_string()))?;
                // What cannot be seen is not proved to be gone: a kill would count as one that took effect.
                let status = status.ok_or_else(|| {
                    ClusterError(format!(
                        "{id} cannot be seen in /proc, and has not ended either: too many open files?"
                    ))
                })?;
                node.notice_end();
                NodeState::Down(status.to_string())
            }
        })
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

    fn delay(&self, delays_ms: &BTreeMap<NodeId, u64>, links: Links) -> Result<(), ClusterError> {
        let of = |(node, ms): (&NodeId, &u64)| {
            let delay = Duration::from_millis(*ms);
            self.links().to(*node, links).map(|ends| (ends, delay)).collect::<Vec<_>>()
        };
        self.network.set_delays(&delays_ms.iter().flat_map(of).collect()).map_err(sandbox)
    }

    fn delays_ms(&self, nodes: &[NodeId]) -> Result<Vec<Reading>, ClusterError> {
        self.links().read(nodes, LinksOf::to, |pairs| {
            let delays = self.network.delays(pairs).map_err(sandbox)?;
            let ms = |delay: Duration| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            Ok(delays.into_iter().map(|delay| delay.map_or(u64::MAX, ms)).collect())
        })
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
        let data = &self.deployment.place(id).data_dir;
        let runs = self.state(id)? == NodeState::Running;
        if runs {
            // What it writes meanwhile could be taken back by the byte that is written.
            self.pause(id)?;
        }
        let flipped = self.flip_bit_of(id, data, draw).map_err(|e| unreadable(data, &e));
        if runs {
            self.resume(id)?;
        }
        flipped
    }

    fn disk_has_rotted(&self, id: NodeId) -> Result<bool, ClusterError> {
        Ok(self.lock().get(&id).ok_or_else(|| unknown(id))?.has_rotted)
    }

    fn replace_disk(&self, id: NodeId) -> Result<(), ClusterError> {
        let data = &self.deployment.place(id).data_dir;
        let mut nodes = self.lock();
        let node = nodes.get_mut(&id).ok_or_else(|| unknown(id))?;
        node.kill("killed")?;
        let replace = || files::restore(data, &node.prepared);
        let replaced = match &mut node.disk {
            Some(disk) => disk.change_beneath(replace).map_err(disk_error)?,
            None => replace(),
        };
        replaced.map_err(|e| unreadable(data, &e))?;
        node.has_rotted = false;
        Ok(())
    }

    fn power_fail(&self, id: NodeId) -> Result<Lost, ClusterError> {
        let mut nodes = self.lock();
        let node = nodes.get_mut(&id).ok_or_else(|| unknown(id))?;
        node.notice_end();
        node.killed = Some("without power");
        node.disk.as_ref().ok_or_else(|| no_disk(id))?.cut_power();
        node.kill("without power")?;
        let disk = node.disk.as_mut().ok_or_else(|| no_disk(id))?;
        disk.power_fail().map_err(disk_error)
    }

    fn disk_slowness(&self, id: NodeId) -> Result<u64, ClusterError> {
        self.with_disk(id, Disk::slowness)
    }

    fn slow_disk(&self, id: NodeId, factor: u64) -> Result<(), ClusterError> {
        self.with_disk(id, |disk| disk.set_slowness(factor))
    }

    fn disk_room(&self, id: NodeId) -> Result<Option<u64>, ClusterError> {
        let nodes = self.lock();
        let node = nodes.get(&id).ok_or_else(|| unknown(id))?;
        node.disk.as_ref().map_or(Ok(None), Disk::room).map_err(disk_error)
    }

    fn set_disk_room(&self, id: NodeId, room: Option<u64>) -> Result<(), ClusterError> {
        let mut nodes = self.lock();
        let node = nodes.get_mut(&id).ok_or_else(|| unknown(id))?;
        let Some(disk) = &node.disk else {
            return if room.is_none() { Ok(()) } else { Err(no_disk(id)) };
        };
        if let (None, true, Some(process)) = (room, disk.has_refused(), &mut node.process) {
            // Were it to end after it is seen to run, nobody would start it again.
            process.wait(GIVE_UP_WAIT).map_err(|e| ClusterError(e.to_string()))?;
        }
        disk.set_room(room);
        node.was_full |= room.is_some();
        Ok(())
    }
}

impl Restarts for LiveCluster {
    /// Nobody else comes at the node meanwhile.
    fn restart(&self, roll: Roll, id: NodeId) -> Result<Turn, ClusterError> {
        let mut nodes = self.lock();
        let node = nodes.get_mut(&id).ok_or_else(|| unknown(id))?;
        node.notice_end();
        node.is_upgraded |= roll == Roll::Upgrade;
        let passed_over = |was: &str| Ok(Turn::PassedOver { was: was.to_owned() });
        let was_pid = match &node.process {
            None => return passed_over("down"),
            Some(process) if process.state() == ProcessState::Paused => return passed_over("paused"),
            Some(process) => process.pid(),
        };
        node.let_disk_go(true);
        let mut process = node.process.take().expect("just looked at");
        let ended = process.terminate(RESTART_WAIT).map_err(|e| ClusterError(e.to_string()))?;
        let how = if ended.forced { " (killed: it did not heed)" } else { "" };
        self.start_one(id, node)?;
        let process = node.process.as_ref().expect("just started");
        let (pid, runs) = (process.pid(), self.runs(id, node, process)?);
        Ok(Turn::Restarted {
            was_pid,
            ended: format!("{}{how}", ended.status),
            pid,
            runs,
            serves_after_ms: None,
        })
    }

    fn serves(&self, id: NodeId) -> Result<(), String> {
        self.system.serves(&self.deployment, id)
    }
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

fn disk_error(error: DiskError) -> ClusterError {
    ClusterError(error.to_string())
}

fn no_disk(id: NodeId) -> ClusterError {
    ClusterError(format!("{id} has no disk of its own"))
}

fn unreadable(folder: &Path, error: &io::Error) -> ClusterError {
    ClusterError(format!("failed to read or change {}: {error}", folder.display()))
}

fn unknown(id: NodeId) -> ClusterError {
    ClusterError(format!("no node {id} in this cluster"))
}
