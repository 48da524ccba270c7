//! A simulated cluster: nodes, a network, disks, one heap of what happens when.
//!
//! Connections behave as TCP does: bytes arrive in order or not at all; a cut of the network holds them back, and they
//! arrive when it heals. A single connection may stall too, in one direction: see [`World::hold`]. A node that is killed
//! loses its connections, a node whose power fails also what its disk had not synced. Same seed, same run.

use crate::flow::{Flow, Hold, Line};
use bytes::Bytes;
use riprap_env::random::{Draws, draw};
use riprap_env::{ConnId, Disk, Effect, Env, Event, Keep, LogLevel, MemDisk, Node, Unsynced, log};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

pub(crate) const MS: u64 = 1_000_000;

/// A node of the world: a broker or a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct At(pub(crate) usize);

/// Makes a node for each of its lives.
type Maker = Box<dyn FnMut() -> Box<dyn Node>>;

struct Host {
    make: Maker,
    node: Option<Box<dyn Node>>,
    env: HostEnv,
    /// What happens to it while it is paused.
    paused: Option<Vec<Event>>,
    /// What it is to take in with the next settle.
    batch: Vec<Event>,
    accepted: u64,
    /// Its connections, by its own ids.
    conns: BTreeMap<ConnId, (usize, usize)>,
    wake: Option<(u64, u64)>,
}

struct HostEnv {
    disk: MemDisk,
    draws: Draws,
    now_ns: u64,
    name: String,
    prints: bool,
}

impl Env for HostEnv {
    fn disk(&mut self) -> &mut dyn Disk {
        &mut self.disk
    }

    fn wall_clock_ms(&self) -> i64 {
        1_700_000_000_000 + (self.now_ns / MS) as i64
    }

    fn random_u64(&mut self, purpose: &'static str) -> u64 {
        self.draws.next_u64(purpose)
    }

    fn log(&mut self, level: LogLevel, _module: &'static str, line: fmt::Arguments<'_>) {
        if self.prints {
            println!("{:>9.3} {} {level:?} {line}", self.now_ns as f64 / 1e9, self.name);
        }
    }
}

/// One connection: two ends, and what is on its way to each.
struct Pipe {
    ends: [(At, ConnId); 2],
    line: Option<Line>,
    open: [bool; 2],
    to: [VecDeque<Parcel>; 2],
    /// When the last parcel to each end arrives: none overtakes.
    last_ns: [u64; 2],
}

enum Parcel {
    Bytes(Bytes),
    /// Sent by an end that closes.
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Happening {
    Arrive { pipe: usize, end: usize },
    Connect { from: At, conn: ConnId, to: At },
    Wake { at: At, generation: u64 },
    Flush { at: At },
}

/// How nodes, disks and the network misbehave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Physics {
    pub(crate) min_delay_ns: u64,
    pub(crate) max_delay_ns: u64,
    /// One in so many parcels takes much longer.
    pub(crate) slow_one_in: u64,
    /// One in so many events waits a moment for others, to be settled with them.
    pub(crate) batched_one_in: u64,
}

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) now_ns: u64,
    physics: Physics,
    hosts: Vec<Host>,
    names: BTreeMap<String, At>,
    pipes: Vec<Pipe>,
    heap: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    /// From, to.
    cuts: BTreeSet<(At, At)>,
    holds: Vec<Hold>,
    /// Flows that take so much longer.
    delays: Vec<(Flow, u64)>,
    pub(crate) steps: u64,
    /// A rolling hash of all that happened.
    pub(crate) trace: u64,
}

impl World {
    pub(crate) fn new(seed: u64, physics: Physics) -> World {
        World {
            seed,
            now_ns: 0,
            physics,
            hosts: Vec::new(),
            names: BTreeMap::new(),
            pipes: Vec::new(),
            heap: BTreeMap::new(),
            sequence: 0,
            cuts: BTreeSet::new(),
            holds: Vec::new(),
            delays: Vec::new(),
            steps: 0,
            trace: seed,
        }
    }

    /// Adds a node that others reach as `name:PORT`. It has to be started.
    pub(crate) fn add(&mut self, name: &str, make: Maker) -> At {
        let at = At(self.hosts.len());
        let env = HostEnv {
            disk: MemDisk::new(),
            draws: Draws::new(self.seed, name),
            now_ns: 0,
            name: name.to_owned(),
            prints: std::env::var_os("RIPRAP_LOG").is_some(),
        };
        let host = Host {
            make,
            node: None,
            env,
            paused: None,
            batch: Vec::new(),
            accepted: 0,
            conns: BTreeMap::new(),
            wake: None,
        };
        self.hosts.push(host);
        self.names.insert(name.to_owned(), at);
        at
    }

    pub(crate) fn random(&mut self, purpose: &'static str) -> u64 {
        self.sequence += 1;
        draw(self.seed, "world", purpose, self.sequence)
    }

    pub(crate) fn is_up(&self, at: At) -> bool {
        self.hosts[at.0].node.is_some()
    }

    pub(crate) fn disk(&mut self, at: At) -> &mut MemDisk {
        &mut self.hosts[at.0].env.disk
    }

    /// Adds a line to a node's log.
    pub(crate) fn note(&mut self, at: At, line: &str) {
        self.hosts[at.0].env.now_ns = self.now_ns;
        log!(self.hosts[at.0].env, Info, "==== {line}");
    }

    pub(crate) fn start(&mut self, at: At) {
        assert!(!self.is_up(at), "a node that runs is not started again");
        self.note(at, "starts");
        let host = &mut self.hosts[at.0];
        host.node = Some((host.make)());
        self.happen(at, Event::Start);
    }

    /// The process ends at once.
    pub(crate) fn kill(&mut self, at: At) {
        self.note(at, "is killed");
        self.end_life(at);
        self.hosts[at.0].env.disk.process_crash();
    }

    /// The process is asked to end.
    pub(crate) fn stop(&mut self, at: At) {
        self.note(at, "is asked to end");
        self.happen(at, Event::Stop);
    }

    /// The disk of a process that does not run is replaced by an empty one.
    pub(crate) fn lose_disk(&mut self, at: At) {
        assert!(!self.is_up(at), "a disk is replaced while its machine is off");
        self.note(at, "loses its disk");
        self.hosts[at.0].env.disk = MemDisk::new();
    }

    /// The machine loses its power: what was not synced is lost, torn or kept, piece by piece.
    pub(crate) fn power_fail(&mut self, at: At) {
        self.note(at, "loses its power");
        self.end_life(at);
        let mut draws = Draws::new(self.random("power"), "disk");
        self.hosts[at.0].env.disk.power_fail(|piece| match (draws.next_u64("keep") % 4, piece) {
            (0, _) => Keep::Lost,
            (1, Unsynced::Write { len, .. }) => {
                Keep::Torn((draws.next_u64("torn") % (*len as u64 + 1)) as usize)
            }
            (2, Unsynced::Write { .. }) => Keep::Zeros,
            _ => Keep::Whole,
        });
    }

    /// The machine loses its power, and with it all that was not synced.
    pub(crate) fn lose_unsynced(&mut self, at: At) {
        self.note(at, "loses its power and all that was not synced");
        self.end_life(at);
        self.hosts[at.0].env.disk.power_fail(|_| Keep::Lost);
    }

    fn end_life(&mut self, at: At) {
        let host = &mut self.hosts[at.0];
        host.node = None;
        host.paused = None;
        host.batch.clear();
        host.wake = None;
        for (pipe, end) in std::mem::take(&mut host.conns).into_values() {
            self.close_end(pipe, end);
        }
    }

    /// The process stands still; what happens to it waits.
    pub(crate) fn pause(&mut self, at: At) {
        if self.is_up(at) {
            self.note(at, "is paused");
            self.hosts[at.0].paused.get_or_insert_default();
        }
    }

    pub(crate) fn resume(&mut self, at: At) {
        if let Some(events) = self.hosts[at.0].paused.take() {
            self.note(at, "goes on");
            self.happen_all(at, events);
        }
    }

    /// What `from` sends does not reach `to` any more.
    pub(crate) fn cut(&mut self, from: At, to: At) {
        self.cuts.insert((from, to));
    }

    pub(crate) fn heal(&mut self) {
        self.cuts.clear();
        self.holds.clear();
        self.delays.clear();
    }

    /// Holds a flow back; what goes the other way arrives. What is held arrives after the release, even if its connection
    /// was given up in the meantime, as what waits in a socket does.
    pub(crate) fn hold(&mut self, flow: Flow) {
        self.holds.push(Hold { flow, pipes_below: usize::MAX });
    }

    /// All that is sent in this flow from now on takes so much longer.
    pub(crate) fn delay(&mut self, flow: Flow, by_ns: u64) {
        self.delays.retain(|(other, _)| *other != flow);
        self.delays.push((flow, by_ns));
    }

    /// As [`hold`](World::hold), but what is sent on a connection that is opened from now on arrives.
    pub(crate) fn hold_open(&mut self, flow: Flow) {
        self.holds.push(Hold { flow, pipes_below: self.pipes.len() });
    }

    pub(crate) fn release(&mut self, flow: Flow) {
        self.holds.retain(|hold| hold.flow != flow);
    }

    fn flow_of(&self, pipe: usize, to_end: usize) -> Option<Flow> {
        let Pipe { ends, line, .. } = &self.pipes[pipe];
        Some(Flow { from: ends[1 - to_end].0, to: ends[to_end].0, line: (*line)?, is_answer: to_end == 0 })
    }

    fn is_held(&self, pipe: usize, to_end: usize) -> bool {
        let flow = self.flow_of(pipe, to_end);
        flow.is_some_and(|flow| self.holds.iter().any(|hold| hold.holds(flow, pipe)))
    }

    fn is_cut(&self, from: At, to: At) -> bool {
        // As with TCP, no acknowledgement means no more bytes: one direction stops both.
        self.cuts.contains(&(from, to)) || self.cuts.contains(&(to, from))
    }

    fn at(&mut self, at_ns: u64, happening: Happening) {
        self.sequence += 1;
        self.heap.insert((at_ns, self.sequence), happening);
    }

    fn delay_ns(&mut self) -> u64 {
        let Physics { min_delay_ns, max_delay_ns, slow_one_in, .. } = self.physics;
        let usual = min_delay_ns + self.random("delay") % (max_delay_ns - min_delay_ns + 1);
        if self.random("slow").is_multiple_of(slow_one_in) { usual * 50 } else { usual }
    }

    fn send(&mut self, pipe: usize, to_end: usize, parcel: Parcel) {
        if let (Parcel::Bytes(bytes), None) = (&parcel, self.pipes[pipe].line) {
            self.pipes[pipe].line = Line::of(bytes);
        }
        let delayed =
            |flow: Flow| self.delays.iter().find(|(other, _)| *other == flow).map_or(0, |(_, by)| *by);
        let by_ns = self.flow_of(pipe, to_end).map_or(0, delayed);
        let arrives_ns = (self.now_ns + self.delay_ns() + by_ns).max(self.pipes[pipe].last_ns[to_end]);
        self.pipes[pipe].last_ns[to_end] = arrives_ns;
        self.pipes[pipe].to[to_end].push_back(parcel);
        self.at(arrives_ns, Happening::Arrive { pipe, end: to_end });
    }

    /// An end is gone; the other one hears of it.
    fn close_end(&mut self, pipe: usize, end: usize) {
        self.pipes[pipe].open[end] = false;
        self.pipes[pipe].to[end].clear();
        if self.pipes[pipe].open[1 - end] {
            self.send(pipe, 1 - end, Parcel::End);
        }
    }

    /// Runs what happens until `until_ns`.
    pub(crate) fn run_until(&mut self, until_ns: u64) {
        while let Some(entry) = self.heap.first_entry()
            && entry.key().0 <= until_ns
        {
            let ((at_ns, _), happening) = entry.remove_entry();
            self.now_ns = self.now_ns.max(at_ns);
            self.do_happen(happening);
        }
        self.now_ns = until_ns;
    }

    fn do_happen(&mut self, happening: Happening) {
        /// How often TCP tries again through a cut.
        const RETRANSMIT_NS: u64 = 200 * MS;
        /// How soon what was held arrives after its release.
        const HELD_NS: u64 = 5 * MS;
        match happening {
            Happening::Wake { at, generation } => {
                if self.hosts[at.0].wake.is_some_and(|(_, current)| current == generation) {
                    self.hosts[at.0].wake = None;
                    self.happen(at, Event::Wake);
                }
            }
            Happening::Flush { at } => {
                if !self.hosts[at.0].batch.is_empty() {
                    self.happen_all(at, Vec::new());
                }
            }
            Happening::Connect { from, conn, to } => {
                if !self.hosts[from.0].conns.contains_key(&conn) {
                    return;
                }
                if self.is_cut(from, to) {
                    self.at(self.now_ns + RETRANSMIT_NS, happening);
                } else if self.is_up(to) {
                    let accepted = ConnId::accepted_by_driver(self.hosts[to.0].accepted);
                    self.hosts[to.0].accepted += 1;
                    let (pipe, _) = self.hosts[from.0].conns[&conn];
                    self.pipes[pipe].ends[1] = (to, accepted);
                    self.pipes[pipe].open = [true, true];
                    self.hosts[to.0].conns.insert(accepted, (pipe, 1));
                    let peer = format!("{}:{}", self.hosts[from.0].env.name, conn.0);
                    self.happen(to, Event::Accepted { conn: accepted, peer });
                    self.happen(from, Event::Connected { conn });
                } else {
                    self.hosts[from.0].conns.remove(&conn);
                    self.happen(from, Event::Closed { conn });
                }
            }
            Happening::Arrive { pipe, end } => {
                let (from, (to, conn)) = (self.pipes[pipe].ends[1 - end].0, self.pipes[pipe].ends[end]);
                if !self.pipes[pipe].open[end] {
                    return;
                }
                if self.is_cut(from, to) {
                    self.at(self.now_ns + RETRANSMIT_NS, happening);
                    return;
                }
                if self.is_held(pipe, end) {
                    self.at(self.now_ns + HELD_NS, happening);
                    return;
                }
                match self.pipes[pipe].to[end].pop_front() {
                    Some(Parcel::Bytes(bytes)) => self.happen(to, Event::Received { conn, bytes }),
                    Some(Parcel::End) => {
                        self.pipes[pipe].open[end] = false;
                        self.hosts[to.0].conns.remove(&conn);
                        self.happen(to, Event::Closed { conn });
                    }
                    None => {}
                }
            }
        }
    }

    fn happen(&mut self, at: At, event: Event) {
        /// How long an event waits for others at most.
        const BATCH_NS: u64 = MS / 2;
        let waits = matches!(event, Event::Received { .. })
            && self.random("batch").is_multiple_of(self.physics.batched_one_in);
        if waits && self.is_up(at) && self.hosts[at.0].paused.is_none() {
            self.hosts[at.0].batch.push(event);
            self.at(self.now_ns + BATCH_NS, Happening::Flush { at });
        } else {
            self.happen_all(at, vec![event]);
        }
    }

    fn happen_all(&mut self, at: At, events: Vec<Event>) {
        let host = &mut self.hosts[at.0];
        let mut batch = std::mem::take(&mut host.batch);
        batch.extend(events);
        if let Some(waiting) = &mut host.paused {
            waiting.extend(batch);
            return;
        }
        let Some(node) = &mut host.node else { return };
        self.steps += 1;
        host.env.now_ns = self.now_ns;
        let mut effects = Vec::new();
        for event in batch {
            node.step(self.now_ns, event, &mut host.env, &mut effects);
        }
        node.settle(self.now_ns, &mut host.env, &mut effects);
        for effect in effects {
            if !self.is_up(at) {
                break;
            }
            self.carry_out(at, effect);
        }
    }

    fn carry_out(&mut self, at: At, effect: Effect) {
        let mut hash = riprap_env::random::draw(self.trace, "trace", "effect", self.now_ns);
        match effect {
            Effect::Connect { conn, to } => {
                hash ^= conn.0;
                let name = to.rsplit_once(':').map_or(to.as_str(), |(name, _)| name);
                let target = self.names[name];
                let pipe = self.pipes.len();
                self.pipes.push(Pipe {
                    ends: [(at, conn), (target, ConnId(u64::MAX))],
                    line: None,
                    open: [true, false],
                    to: [VecDeque::new(), VecDeque::new()],
                    last_ns: [0, 0],
                });
                self.hosts[at.0].conns.insert(conn, (pipe, 0));
                let arrives_ns = self.now_ns + self.delay_ns();
                self.at(arrives_ns, Happening::Connect { from: at, conn, to: target });
            }
            Effect::Send { conn, bytes } => {
                hash ^= bytes.iter().fold(conn.0, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
                if let Some((pipe, end)) = self.hosts[at.0].conns.get(&conn).copied() {
                    self.send(pipe, 1 - end, Parcel::Bytes(bytes));
                }
            }
            Effect::Close { conn } => {
                hash ^= conn.0 << 1;
                if let Some((pipe, end)) = self.hosts[at.0].conns.remove(&conn) {
                    self.close_end(pipe, end);
                    self.happen(at, Event::Closed { conn });
                }
            }
            Effect::WakeAt { at_ns } => {
                let generation = self.sequence;
                self.hosts[at.0].wake = Some((at_ns, generation));
                // A node that asks for now is not to keep the world from going on.
                let at_ns = at_ns.max(self.now_ns + 1);
                self.at(at_ns, Happening::Wake { at, generation });
            }
            Effect::Exit { status } => {
                self.note(at, &format!("exits with status {status}"));
                self.end_life(at);
                if status == 0 {
                    self.hosts[at.0].env.disk.process_crash();
                } else {
                    // It gave up on its disk: whatever made that fail may as well have cost it its power.
                    self.power_fail(at);
                }
            }
        }
        self.trace = hash;
    }
}
