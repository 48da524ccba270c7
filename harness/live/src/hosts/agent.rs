//! `riprap agent`: what does on a host what the sandbox does on the harness's own machine.

use super::holds::HoldProbes;
use super::probes::Probes;
use super::protocol::{Ask, Begin, Begun, SILENCE};
use crate::clock::{self, NodeClock};
use crate::node::Node;
use crate::sandbox::{HostNetwork, NodeProcess, ProbeKind, ProcessError, ProcessSpec, is_refused};
use crate::{files, interrupt};
use riprap_core::cluster::{ClusterError, Turn};
use riprap_core::system::{NodeCommand, System};
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufRead as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How often it looks whether it was told to end by a signal.
const LOOK: Duration = Duration::from_millis(500);
/// How long it waits for an agent before it that is still stopping what it had.
const LOCK_WAIT: Duration = Duration::from_secs(10);
const LOCK_AGAIN: Duration = Duration::from_millis(100);
/// What the environment of each process has that an agent starts, with the agent's folder as its value: so that the next
/// agent finds what one that was killed has left behind.
const MARKER: &str = "RIPRAP_NODE";
/// Where sshd says who is at either end of the connection: address and port of the client, then of this host.
const CONNECTION: &str = "SSH_CONNECTION";

/// The system of that name, or the one that a file describes.
pub type FindSystem<'a> = &'a dyn Fn(&str, Option<&Path>) -> Result<&'static dyn System, String>;

/// The folder of a node's data below an agent's.
pub(super) fn data_dir(root: &Path) -> PathBuf {
    root.join("node/data")
}

/// The folder of a node's logs.
pub(super) fn log_dir(root: &Path) -> PathBuf {
    root.join("node/log")
}

/// Serves the harness at the other end of standard input and output, until that ends, is silent for too long, or a signal says so.
/// `root` is a folder of its own, which one agent at a time may have.
pub fn serve(root: &Path, find: FindSystem<'_>) -> Result<(), String> {
    let stop = interrupt::catch();
    let (sender, asked) = mpsc::channel();
    let reader = move || io::stdin().lock().lines().try_for_each(|line| sender.send(line).map_err(drop));
    thread::Builder::new()
        .name("asked".to_owned())
        .spawn(reader)
        .map_err(|e| format!("failed to start a thread: {e}"))?;
    let mut agent = Agent { root, find, serving: None };
    let served = agent.listen(&asked, stop);
    // Whatever the reason: nothing of the run stays.
    let stopped = agent.serving.take().map_or(Ok(()), |mut serving| serving.stop());
    served.and(stopped.map_err(|e| e.to_string()))
}

struct Agent<'a> {
    root: &'a Path,
    find: FindSystem<'a>,
    serving: Option<Serving>,
}

/// A node, once it is known which.
struct Serving {
    begin: Begin,
    system: &'static dyn System,
    root: PathBuf,
    node: Node,
    network: HostNetwork,
    probes: Probes,
    holds: HoldProbes,
    listener: Option<TcpListener>,
    /// Held as long as it lives: the host is taken.
    _lock: File,
}

impl Agent<'_> {
    fn listen(
        &mut self,
        asked: &mpsc::Receiver<io::Result<String>>,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let mut last = Instant::now();
        loop {
            match asked.recv_timeout(LOOK) {
                Ok(line) => {
                    let line = line.map_err(|e| format!("failed to read what is asked: {e}"))?;
                    let answer = self.answer(&line);
                    let text = serde_json::to_string(&answer).expect("answers are JSON");
                    let mut out = io::stdout().lock();
                    let written = writeln!(out, "{text}").and_then(|()| out.flush());
                    written.map_err(|e| format!("failed to answer: {e}"))?;
                    last = Instant::now();
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return Ok(()),
                Err(RecvTimeoutError::Timeout) if last.elapsed() > SILENCE => {
                    return Err(format!("nothing was asked for {SILENCE:?}"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn answer(&mut self, line: &str) -> Result<Json, String> {
        let ask: Ask = serde_json::from_str(line).map_err(|e| format!("failed to understand {line}: {e}"))?;
        match (ask, &mut self.serving) {
            (Ask::Begin(begin), None) => {
                let (serving, begun) = Serving::begin(*begin, self.root, self.find)?;
                self.serving = Some(serving);
                json(begun)
            }
            (Ask::Ping, _) => json(()),
            (Ask::Begin(_), Some(_)) => Err("it has begun already".to_owned()),
            (_, None) => Err("it has not begun".to_owned()),
            (ask, Some(serving)) => serving.answer(ask),
        }
    }
}

impl Serving {
    fn begin(begin: Begin, root: &Path, find: FindSystem<'_>) -> Result<(Serving, Begun), String> {
        fs::create_dir_all(root).map_err(in_words("make", root))?;
        let lock = lock(&root.join("lock"))?;
        let own = match begin.deployment.place(begin.node).address {
            std::net::IpAddr::V4(own) => own,
            other => return Err(format!("{other} is its address; one of IPv4 is right")),
        };
        // Before all that only root may do as well: this says so.
        let network = HostNetwork::new(own, begin.spared).map_err(|e| format!("{e}; root is right"))?;
        end_leftovers(root)?;
        let node_dir = root.join("node");
        clear(&node_dir)?;
        for dir in [data_dir(root), log_dir(root)] {
            fs::create_dir_all(&dir).map_err(in_words("make", &dir))?;
        }
        let described = match &begin.description {
            None => None,
            Some(text) => {
                let path = node_dir.join("system.toml");
                fs::write(&path, text).map_err(in_words("write", &path))?;
                Some(path)
            }
        };
        let system = find(&begin.system, described.as_deref())?;
        system.prepare(&begin.deployment, &[begin.node])?;
        let mut node = Node::new(begin.node, data_dir(root));
        if begin.has_clock {
            let via = system.clock();
            // It is this host that has to have what another time is told by.
            clock::obstacle(via).map_or(Ok(()), |why| Err(format!("its clock cannot be set: {why}")))?;
            node.clock = Some(NodeClock::new(via, &log_dir(root)).map_err(in_short)?);
        }
        node.furnish(begin.has_disk, begin.deployment.seed).map_err(in_short)?;
        let probes = Probes::open().map_err(|e| format!("failed to open a port for probes: {e}"))?;
        let probe_port = probes.port().map_err(|e| format!("failed to open a port for probes: {e}"))?;
        let begun = Begun { harness: harness_address()?, probe_port };
        let root = root.to_owned();
        let holds = HoldProbes::default();
        Ok((
            Serving { begin, system, root, node, network, probes, holds, listener: None, _lock: lock },
            begun,
        ))
    }

    fn answer(&mut self, ask: Ask) -> Result<Json, String> {
        let node = &mut self.node;
        match ask {
            Ask::Begin(_) | Ask::Ping => json(()),
            Ask::Start => told(self.start()),
            Ask::Restart { is_upgrade } => told(self.restart(is_upgrade)),
            Ask::Kill => told(node.kill()),
            Ask::Pause => told(node.pause()),
            Ask::Resume => told(node.resume()),
            Ask::State => told(node.state()),
            Ask::EndedByItself => json(node.ended_by_itself()),
            Ask::Stop => told(self.stop()),
            Ask::FlipBit { draw } => told(node.flip_bit(draw)),
            Ask::CutTail { draw } => told(node.cut_tail(draw)),
            Ask::ClockOffset => told(node.clock_offset_ms()),
            Ask::SetClockOffset { offset_ms } => told(node.set_clock_offset_ms(offset_ms)),
            Ask::StrobeClock { offset_ms, every_ms } => told(node.strobe_clock(offset_ms, every_ms)),
            Ask::ClockOffsetsSeen => told(node.clock_offsets_seen_ms()),
            Ask::Retire => told(node.retire()),
            Ask::HasRotted => json(node.has_rotted()),
            Ask::ReplaceDisk => told(node.replace_disk()),
            Ask::PowerFail => told(node.power_fail()),
            Ask::Slowness => told(node.slowness()),
            Ask::SlowDown { factor } => told(node.slow_down(factor)),
            Ask::Room => told(node.room()),
            Ask::SetRoom { room } => told(node.set_room(room)),
            Ask::Rule(rules) => told(self.network.apply(&rules)),
            Ask::Dropped => told(self.network.dropped_packets()),
            Ask::Took { round, to, wait_ms } => {
                told(self.probes.took(round, &to, Duration::from_millis(wait_ms)))
            }
            Ask::ListenForHolds => {
                told(self.network.listen(ProbeKind::Hold).and_then(|listener| self.holds.listen(listener)))
            }
            Ask::ConnectToHold { to } => told(self.holds.connect(&to)),
            Ask::Hold { others } => told(self.hold(&others)),
            Ask::SendHeld => told(self.holds.send()),
            Ask::Leaks => json(self.holds.arrived()),
            Ask::LetGo => told(self.network.hold(BTreeSet::new()).map(|()| self.holds.await_all())),
            Ask::Reset { others } => told(self.network.reset(&others, &self.holds.all())),
            Ask::Send(send) => told(self.probes.send(&send)),
            Ask::Arrived { round, from, count, wait_ms } => {
                json(self.probes.arrived(round, &from, count, Duration::from_millis(wait_ms)))
            }
            Ask::Listen => told(self.listen()),
            Ask::IsRefused { to, wait_ms } => told(refuses(to, Duration::from_millis(wait_ms))),
            Ask::Logs => told(files::paths(&log_dir(&self.root))),
        }
    }

    fn start(&mut self) -> Result<(), ClusterError> {
        let command = self.command();
        let Serving { root, node, .. } = self;
        let clock = node.clock.clone();
        node.start(|| spawn(command, root, clock.as_ref()))
    }

    fn restart(&mut self, is_upgrade: bool) -> Result<Turn, ClusterError> {
        self.node.is_upgraded |= is_upgrade;
        let command = self.command();
        let Serving { begin, root, node, .. } = self;
        let clock = node.clock.clone();
        let turn = node.restart(|| spawn(command.clone(), root, clock.as_ref()))?;
        match begin.upgraded.as_ref().filter(|_| node.is_upgraded) {
            Some((name, _)) => node.tell_version(turn, name, &command),
            None => Ok(turn),
        }
    }

    /// What runs the node as it starts from now on.
    fn command(&self) -> NodeCommand {
        let upgraded = self.begin.upgraded.as_ref().filter(|_| self.node.is_upgraded);
        let deployment = upgraded.map_or(&self.begin.deployment, |(_, other)| other);
        self.system.command(deployment, self.begin.node)
    }

    fn stop(&mut self) -> Result<(), ClusterError> {
        let stopped = self.node.stop();
        let removed = self.network.remove().map_err(|e| ClusterError(e.to_string()));
        stopped.and(removed)
    }

    /// Holds what these send. Returns whose connections are held, each as often as there are any.
    fn hold(&mut self, others: &BTreeSet<Ipv4Addr>) -> Result<Vec<Ipv4Addr>, String> {
        let untaken = |e| format!("failed to take connections to hold: {e}");
        self.holds.accept(others.len()).map_err(untaken)?;
        let mut standing = self.network.standing(others).map_err(in_short)?;
        let ours = self.holds.all();
        standing.retain(|flow| !ours.contains(flow));
        let held = standing.iter().copied().chain(self.holds.far()).collect();
        self.network.hold(held).map_err(in_short)?;
        Ok(standing.iter().map(|(other, _)| *other.ip()).collect())
    }

    fn listen(&mut self) -> io::Result<u16> {
        let listener = self.network.listen(ProbeKind::Refusal)?;
        let port = listener.local_addr()?.port();
        self.listener = Some(listener);
        Ok(port)
    }
}

fn spawn(command: NodeCommand, root: &Path, clock: Option<&NodeClock>) -> Result<NodeProcess, ProcessError> {
    let mut spec = ProcessSpec::of(command, log_dir(root).join("node.log"));
    if let Some(clock) = clock {
        clock.lend(&mut spec);
    }
    spec.env.insert(MARKER.into(), root.into());
    NodeProcess::spawn_here(&spec)
}

/// Whether a connection is refused; none if it is neither refused nor made.
pub(super) fn refuses(to: SocketAddrV4, wait: Duration) -> io::Result<Option<bool>> {
    match is_refused(to, wait) {
        Err(e) if e.kind() == io::ErrorKind::TimedOut => Ok(None),
        answer => answer.map(Some),
    }
}

fn json(value: impl Serialize) -> Result<Json, String> {
    Ok(serde_json::to_value(value).expect("answers are JSON"))
}

fn told<T: Serialize, E: Display>(answer: Result<T, E>) -> Result<Json, String> {
    answer.map_err(in_short).and_then(json)
}

fn in_short(error: impl Display) -> String {
    error.to_string()
}

fn in_words(act: &str, path: &Path) -> impl FnOnce(io::Error) -> String {
    move |e| format!("failed to {act} {}: {e}", path.display())
}

/// Takes the folder for this agent alone.
fn lock(path: &Path) -> Result<File, String> {
    let file = File::options().write(true).create(true).truncate(false).open(path);
    let file = file.map_err(in_words("open", path))?;
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOCK_AGAIN),
            Err(fs::TryLockError::WouldBlock) => {
                return Err("another run has this host; its end, or another host, is right".to_owned());
            }
            Err(fs::TryLockError::Error(e)) => return Err(in_words("lock", path)(e)),
        }
    }
}

/// The harness's address as this host sees it.
fn harness_address() -> Result<Ipv4Addr, String> {
    let told = std::env::var(CONNECTION).unwrap_or_default();
    let address = told.split(' ').next().and_then(|text| text.parse().ok());
    address.ok_or_else(|| {
        format!("{CONNECTION} is `{told}`: an address of IPv4 is expected first, as sshd sets it")
    })
}

/// Ends what an agent has started in this folder that could not do so itself.
fn end_leftovers(root: &Path) -> Result<(), String> {
    let mark = [MARKER.as_bytes(), b"=", root.as_os_str().as_encoded_bytes()].concat();
    let processes = fs::read_dir("/proc").map_err(in_words("read", Path::new("/proc")))?;
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // Of what has ended meanwhile, and of others' processes, nothing is read.
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|entry| entry == mark) {
            // SAFETY: kill touches no memory.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
    // The disk of a node whose agent was killed is there and answers nobody.
    crate::disk::detach(&data_dir(root)).map_err(in_words("unmount", &data_dir(root)))
}

/// Has a folder be gone.
fn clear(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(in_words("remove", folder)(e)),
        _ => Ok(()),
    }
}
