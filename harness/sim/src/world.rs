//! The event loop: hosts, connections, and one heap of what happens when.

use crate::host::{Crash, Host, HostId, Maker, PanicPlace, Strobe};
use crate::network::{Blocked, Cuts, Direction, Network, Others, Parcel};
use crate::panics::{self, Panicked};
use crate::trace::{Trace, TraceEvent};
use riprap_core::cluster::{CutFile, FlippedBit, Lost, draw_cut};
use riprap_core::plan::Physics;
use riprap_core::story::Life;
use riprap_env::{ConnId, Effect, Event, Keep, LogLevel, MemDisk, Node, Unsynced};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// How long an event that waits for others waits for them.
const BATCH_NS: u64 = 500_000;
/// How many times as long a slow parcel takes.
const SLOW_FACTOR: u64 = 50;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Happening {
    Arrive { pipe: usize, end: usize },
    Connect { pipe: usize },
    Wake { host: HostId, number: u64 },
    Flush { host: HostId },
}

type Follower = Box<dyn FnMut(u64, &TraceEvent<'_>)>;

/// A simulated cluster; see the crate.
pub struct World {
    seed: u64,
    now_ns: u64,
    physics: Physics,
    hosts: Vec<Host>,
    names: BTreeMap<String, HostId>,
    network: Network,
    heap: BinaryHeap<Reverse<(u64, u64, Happening)>>,
    sequence: u64,
    steps: u64,
    trace: Trace,
    crashes: Vec<Crash>,
    log_level: Option<LogLevel>,
    follower: Option<Follower>,
    /// Empty: room for what a node wants done, kept from one to the next.
    effects: Vec<Effect>,
}

impl World {
    /// A world without hosts, at time 0.
    pub fn new(seed: u64, physics: Physics) -> World {
        World {
            seed,
            now_ns: 0,
            physics,
            hosts: Vec::new(),
            names: BTreeMap::new(),
            network: Network::default(),
            heap: BinaryHeap::new(),
            sequence: 0,
            steps: 0,
            trace: Trace::new(seed),
            crashes: Vec::new(),
            log_level: None,
            follower: None,
            effects: Vec::new(),
        }
    }

    /// Keeps what nodes log, down to this level; nothing unless asked, for it takes time. For hosts that are added later.
    pub fn keep_logs(&mut self, down_to: LogLevel) {
        self.log_level = Some(down_to);
    }

    /// Has somebody told of everything that happens. It changes nothing of what does.
    pub fn follow(&mut self, follower: impl FnMut(u64, &TraceEvent<'_>) + 'static) {
        self.follower = Some(Box::new(follower));
        self.hosts.iter_mut().for_each(|host| host.env.tells_lines = true);
    }

    /// Adds a host that others reach as `name:PORT`, whatever the port. It has to be started. `make` gives a node for each
    /// of its lives.
    pub fn add(&mut self, name: &str, make: impl FnMut() -> Box<dyn Node> + 'static) -> HostId {
        let id = HostId(self.hosts.len());
        let make: Maker = Box::new(make);
        let mut host = Host::new(self.seed, name, make, self.log_level);
        host.env.tells_lines = self.follower.is_some();
        self.hosts.push(host);
        self.names.insert(name.to_owned(), id);
        self.tell(&TraceEvent::Added { host: id, name });
        id
    }

    /// What the host that is added next will be.
    pub fn next_host(&self) -> HostId {
        HostId(self.hosts.len())
    }

    /// Nanoseconds since the world began.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// How many batches of events nodes have taken in: a measure of what a run costs.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// What has happened so far, as a hash.
    pub fn trace(&self) -> Trace {
        self.trace
    }

    /// The nodes that ended by themselves, in that order.
    pub fn crashes(&self) -> &[Crash] {
        &self.crashes
    }

    /// The host's name.
    pub fn name(&self, host: HostId) -> &str {
        &self.hosts[host.0].env.name
    }

    /// What the host's nodes have logged, if logs are kept.
    pub fn log(&self, host: HostId) -> &str {
        &self.hosts[host.0].env.log
    }

    /// Whether a process runs on the host, be it paused.
    pub fn is_up(&self, host: HostId) -> bool {
        self.hosts[host.0].node.is_some()
    }

    /// Whether the host's process stands still.
    pub fn is_paused(&self, host: HostId) -> bool {
        self.hosts[host.0].paused.is_some()
    }

    /// The host's disk, to be looked at or tampered with.
    pub fn disk(&mut self, host: HostId) -> &mut MemDisk {
        &mut self.hosts[host.0].env.disk
    }

    fn tell(&mut self, event: &TraceEvent<'_>) {
        if let Some(follower) = &mut self.follower {
            follower(self.now_ns, event);
        }
    }

    fn note(&mut self, host: HostId, life: Option<Life>, what: &str) {
        self.trace.absorb_bytes(what.as_bytes());
        self.trace.absorb(host.0 as u64);
        self.hosts[host.0].env.now_ns = self.now_ns;
        self.hosts[host.0].env.note(what);
        self.tell(&TraceEvent::Host { host, life, what });
    }

    /// Starts the host's process. Panics: it runs.
    pub fn start(&mut self, host: HostId) {
        assert!(!self.is_up(host), "a process that runs is not started again");
        self.note(host, Some(Life::Up), "starts");
        let Host { node, make, .. } = &mut self.hosts[host.0];
        *node = Some(make());
        self.take_in(host, Some(Event::Start));
    }

    /// Ends the host's process at once. What it wrote stays. Nothing if there is none.
    pub fn kill(&mut self, host: HostId) {
        if self.is_up(host) {
            self.note(host, Some(Life::Down), "is killed");
            self.end_life(host);
            self.hosts[host.0].env.disk.process_crash();
        }
    }

    /// The host loses its power: of what was not synced each piece is lost, torn, zeroed or kept, as luck has it. Returns what
    /// was lost.
    pub fn power_fail(&mut self, host: HostId) -> Lost {
        self.note(host, Some(Life::Down), "loses its power");
        self.end_life(host);
        let Host { env, power_draws, .. } = &mut self.hosts[host.0];
        let mut lost = Lost::default();
        lost.names = env.disk.power_fail(|piece| {
            let keep = match (power_draws.next_u64() % 4, piece) {
                (0, _) => Keep::Lost,
                (1, Unsynced::Write { len, .. }) => Keep::Torn(power_draws.between(0, *len as u64) as usize),
                (2, Unsynced::Write { .. }) => Keep::Zeros,
                _ => Keep::Whole,
            };
            match (keep, piece) {
                (Keep::Whole, _) | (_, Unsynced::Name { .. }) => {}
                (keep, piece) => {
                    lost.writes += 1;
                    let Unsynced::Write { len, .. } = piece else { return keep };
                    let kept = if let Keep::Torn(first) = keep { first } else { 0 };
                    lost.bytes += (len - kept) as u64;
                }
            }
            keep
        });
        lost
    }

    /// The host's process stands still; what happens to it waits. Nothing if there is none.
    pub fn pause(&mut self, host: HostId) {
        if self.is_up(host) && !self.is_paused(host) {
            self.note(host, Some(Life::Paused), "is paused");
            self.hosts[host.0].paused = Some(Vec::new());
        }
    }

    /// A paused process goes on.
    pub fn resume(&mut self, host: HostId) {
        if let Some(mut events) = self.hosts[host.0].paused.take() {
            self.note(host, Some(Life::Up), "goes on");
            self.hosts[host.0].batch.append(&mut events);
            self.take_in(host, None);
        }
    }

    /// Moves the host's wall clock to be so far from the true time.
    pub fn set_clock_offset_ms(&mut self, host: HostId, offset_ms: i64) {
        self.note(host, None, &format!("has its clock set {offset_ms} ms off"));
        let env = &mut self.hosts[host.0].env;
        (env.clock_offset_ms, env.strobe) = (offset_ms, None);
    }

    /// Has the host's wall clock go that far from the true time and back in turn, each for so long, until it is set.
    pub fn strobe_clock(&mut self, host: HostId, offset_ms: i64, every_ns: u64) {
        self.note(host, None, &format!("has its clock set {offset_ms} ms off and back every {every_ns} ns"));
        let strobe = Strobe { since_ns: self.now_ns(), every_ns };
        let env = &mut self.hosts[host.0].env;
        (env.clock_offset_ms, env.strobe) = (offset_ms, Some(strobe));
    }

    /// Whether the host's wall clock goes off and back in turn.
    pub fn has_strobing_clock(&self, host: HostId) -> bool {
        self.hosts[host.0].env.strobe.is_some()
    }

    /// Makes the host's syncs take so many times as long; 1 is as they were.
    pub fn set_sync_factor(&mut self, host: HostId, factor: u64) {
        self.note(host, None, &format!("has a disk {factor} times as slow"));
        self.hosts[host.0].sync_factor = factor;
    }

    /// Leaves so much room on the host's disk, or lifts the limit. Units: bytes.
    pub fn set_disk_room(&mut self, host: HostId, room: Option<u64>) {
        let words = room
            .map_or("has room on its disk".to_owned(), |room| format!("has {room} bytes left on its disk"));
        self.note(host, None, &words);
        let disk = &mut self.hosts[host.0].env.disk;
        let capacity = room.map(|room| disk.used_bytes() + room);
        disk.set_capacity_bytes(capacity);
    }

    /// How much more the host's disk takes; `None` if there is no limit. Units: bytes.
    pub fn disk_room(&self, host: HostId) -> Option<u64> {
        self.hosts[host.0].env.disk.free_bytes()
    }

    /// Flips a bit of a file on the host's disk that holds anything; each such file is as likely, and in it each bit. What is
    /// drawn says which. `None` if there is no such file.
    pub fn flip_bit(&mut self, host: HostId, draw: u64) -> Option<FlippedBit> {
        let disk = &self.hosts[host.0].env.disk;
        let files: Vec<(String, u64)> =
            disk.files().filter(|(_, len)| *len > 0).map(|(path, len)| (path.to_owned(), len)).collect();
        let count = files.len() as u64;
        let (path, len) = files.into_iter().nth(usize::try_from(draw.checked_rem(count)?).ok()?)?;
        let bit = (draw / count) % (len * 8);
        let (offset, mask) = (bit / 8, 1 << (bit % 8));
        self.note(host, None, &format!("has bit {} of byte {offset} of {path} flipped", bit % 8));
        let it = &mut self.hosts[host.0];
        it.has_rotted = true;
        let byte = |disk: &MemDisk| disk.contents(&path).expect("it was listed")[offset as usize];
        let was = byte(&it.env.disk);
        it.env.disk.flip_bits(&path, offset, mask);
        let is = byte(&it.env.disk);
        Some(FlippedBit { path, offset, was, is })
    }

    /// Cuts off the tail of a file on a disk, as is drawn; `None` if it holds nothing.
    pub fn cut_tail(&mut self, host: HostId, draw: u64) -> Option<CutFile> {
        let disk = &self.hosts[host.0].env.disk;
        let files: Vec<(String, u64)> =
            disk.files().filter(|(_, len)| *len > 0).map(|(path, len)| (path.to_owned(), len)).collect();
        let lengths: Vec<u64> = files.iter().map(|(_, len)| *len).collect();
        let (number, is_bytes) = draw_cut(&lengths, draw)?;
        let (path, was_bytes) = files.into_iter().nth(number)?;
        self.note(host, None, &format!("has {path} cut from {was_bytes} to {is_bytes} bytes"));
        let it = &mut self.hosts[host.0];
        it.has_rotted = true;
        it.env.disk.cut(&path, is_bytes);
        let is_bytes = it.env.disk.contents(&path).map_or(was_bytes, |bytes| bytes.len() as u64);
        Some(CutFile { path, was_bytes, is_bytes })
    }

    /// Whether bits have flipped on the host's disk, or are gone.
    pub fn has_rotted(&self, host: HostId) -> bool {
        self.hosts[host.0].has_rotted
    }

    /// Gives the host an empty disk; its process, if there is one, ends at once.
    pub fn replace_disk(&mut self, host: HostId) {
        self.kill(host);
        self.note(host, None, "has another disk, an empty one");
        let it = &mut self.hosts[host.0];
        it.env.disk = MemDisk::new();
        it.has_rotted = false;
    }

    /// Replaces the set of directions in which nothing passes.
    pub fn set_cuts(&mut self, cuts: impl Into<Cuts>) {
        let cuts = cuts.into();
        self.trace.absorb(cuts.len() as u64);
        self.network.set_cuts(cuts);
        self.go_on();
    }

    /// Replaces the set of directions in which bytes are held back on the connections there are: what is held arrives
    /// after the release even if its sender has given up by then.
    pub fn set_holds(&mut self, holds: BTreeSet<Direction>) {
        self.trace.absorb(holds.len() as u64);
        self.network.set_holds(holds);
        self.go_on();
    }

    /// Replaces the hosts that are far away: all that these others send them takes so much longer, at least, and so much more at
    /// most. Units: nanoseconds.
    pub fn set_delays(&mut self, delays_ns: BTreeMap<HostId, (u64, u64)>, others: Others) {
        self.trace.absorb(delays_ns.values().map(|(delay_ns, jitter_ns)| delay_ns + jitter_ns).sum());
        self.network.set_delays(delays_ns, others);
    }

    /// How much longer what is sent now takes, at least and how much more at most, by the very rule that real bytes travel by.
    /// Units: nanoseconds.
    pub fn delay_ns(&self, direction: Direction) -> (u64, u64) {
        self.network.delay_ns(direction)
    }

    /// Replaces the hosts that hear nothing on the connections that they have now with these others. What is sent there
    /// waits, and arrives after they hear again even if its sender has given up by then; later connections work. Returns
    /// what is held, from, to, once for each connection.
    pub fn set_deaf(&mut self, hosts: BTreeSet<HostId>, others: Others) -> Vec<Direction> {
        let whose = match &others {
            Others::All => "its connections",
            Others::Among(_) => "its connections with other nodes",
            Others::Outside(_) => "its connections with clients",
        };
        for host in &hosts {
            self.note(*host, None, &format!("hears nothing on {whose}"));
        }
        let held = self.network.set_deaf(hosts, others);
        self.trace.absorb(held.len() as u64);
        self.go_on();
        held
    }

    /// How far the host's wall clock is from the true time. Units: milliseconds.
    pub fn clock_offset_ms(&self, host: HostId) -> i64 {
        self.hosts[host.0].env.clock_offset_ms
    }

    /// How many times as long as a whole disk's the host's syncs take.
    pub fn sync_factor(&self, host: HostId) -> u64 {
        self.hosts[host.0].sync_factor
    }

    /// Breaks every connection of a host with these others: it and they hear of it. Returns with whom they were, once for
    /// each.
    pub fn reset(&mut self, host: HostId, others: &Others) -> Vec<HostId> {
        self.note(host, None, "loses connections");
        let conns = self.hosts[host.0].conns.values();
        let with = conns.map(|(pipe, end)| (*pipe, self.network.pipes[*pipe].ends[1 - end].0));
        let broken: Vec<(usize, HostId)> = with.filter(|(_, other)| others.contains(*other)).collect();
        for (pipe, _) in &broken {
            self.lose(*pipe, 0);
            self.lose(*pipe, 1);
        }
        broken.into_iter().map(|(_, other)| other).collect()
    }

    /// Whether something sent now from one host would arrive at another: by the very rules that real bytes travel by.
    pub fn passes(&self, direction: Direction) -> bool {
        self.network.passes(direction)
    }

    /// What waited for a cut or a hold that is gone is sent again.
    fn go_on(&mut self) {
        for (blocked, pause_ns) in self.network.unblock(self.now_ns) {
            let (pipe, end, happening) = match blocked {
                Blocked::Arrive { pipe, end } => (pipe, end, Happening::Arrive { pipe, end }),
                Blocked::Connect { pipe } => (pipe, 1, Happening::Connect { pipe }),
            };
            let direction = self.network.direction(pipe, end);
            let wait_ns = self.network_draws(direction).between(0, pause_ns);
            self.at(self.now_ns + wait_ns, happening);
        }
    }

    fn network_draws(&mut self, direction: Direction) -> &mut riprap_env::random::DrawStream {
        let hosts = &self.hosts;
        self.network.draws(self.seed, |host| hosts[host.0].env.name.clone(), direction)
    }

    fn at(&mut self, at_ns: u64, happening: Happening) {
        self.sequence += 1;
        self.heap.push(Reverse((at_ns, self.sequence, happening)));
    }

    fn latency_ns(&mut self, direction: Direction) -> u64 {
        let Physics { min_latency_ns, max_latency_ns, slow_one_in, .. } = self.physics;
        let draws = self.network_draws(direction);
        let usual = draws.between(min_latency_ns, max_latency_ns);
        let latency = if draws.one_in(slow_one_in) { usual * SLOW_FACTOR } else { usual };
        let (delay_ns, jitter_ns) = self.network.delay_ns(direction);
        // Without jitter nothing is drawn, so that what else is drawn stays as it was.
        let more_ns = if jitter_ns > 0 { self.network_draws(direction).between(0, jitter_ns) } else { 0 };
        latency + delay_ns + more_ns
    }

    fn send(&mut self, from_ns: u64, pipe: usize, to_end: usize, parcel: Parcel) {
        let direction = self.network.direction(pipe, to_end);
        let latency_ns = self.latency_ns(direction);
        let pipe_ = &mut self.network.pipes[pipe];
        let arrives_ns = (from_ns + latency_ns).max(pipe_.last_ns[to_end]);
        pipe_.last_ns[to_end] = arrives_ns;
        pipe_.to[to_end].push_back(parcel);
        self.at(arrives_ns, Happening::Arrive { pipe, end: to_end });
    }

    /// An end closes; the other one hears of it after what was sent to it.
    fn close_end(&mut self, from_ns: u64, pipe: usize, end: usize) {
        let pipe_ = &mut self.network.pipes[pipe];
        pipe_.open[end] = false;
        pipe_.to[end].clear();
        if pipe_.open[1 - end] {
            self.send(from_ns, pipe, 1 - end, Parcel::End);
        }
    }

    /// An end is told that its connection is gone, at once.
    fn lose(&mut self, pipe: usize, end: usize) {
        let pipe_ = &mut self.network.pipes[pipe];
        if !std::mem::replace(&mut pipe_.open[end], false) {
            return;
        }
        pipe_.to[end].clear();
        let (host, conn) = pipe_.ends[end];
        self.hosts[host.0].conns.remove(&conn);
        self.tell(&TraceEvent::Closed { host, pipe });
        self.take_in(host, Some(Event::Closed { conn }));
    }

    fn end_life(&mut self, host: HostId) {
        let it = &mut self.hosts[host.0];
        it.node = None;
        it.paused = None;
        it.batch.clear();
        it.flush_at_ns = None;
        it.busy_until_ns = 0;
        it.wake += 1;
        it.wake_at_ns = None;
        for (pipe, end) in std::mem::take(&mut it.conns).into_values() {
            self.close_end(self.now_ns, pipe, end);
        }
    }

    /// When the next thing happens, if anything does.
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at_ns, ..))| *at_ns)
    }

    /// Lets the next thing happen. Nothing if there is none.
    pub fn step(&mut self) {
        if let Some(Reverse((at_ns, _, happening))) = self.heap.pop() {
            self.now_ns = self.now_ns.max(at_ns);
            self.happen(happening);
        }
    }

    /// Lets everything happen that does until that time, and makes it that time.
    pub fn run_until(&mut self, until_ns: u64) {
        while self.next_ns().is_some_and(|next_ns| next_ns <= until_ns) {
            self.step();
        }
        self.now_ns = self.now_ns.max(until_ns);
    }

    /// Has a host's node settle, without an event: whoever drives it has put something where it looks.
    pub fn poke(&mut self, host: HostId) {
        self.take_in(host, None);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Wake { host, number } => {
                if self.hosts[host.0].wake == number {
                    self.hosts[host.0].wake_at_ns = None;
                    self.tell(&TraceEvent::Wake { host });
                    self.take_in(host, Some(Event::Wake));
                }
            }
            Happening::Flush { host } => {
                if self.hosts[host.0].flush_at_ns.is_some_and(|at_ns| at_ns <= self.now_ns) {
                    self.hosts[host.0].flush_at_ns = None;
                    self.take_in(host, None);
                }
            }
            Happening::Connect { pipe } => self.connect(pipe),
            Happening::Arrive { pipe, end } => self.arrive(pipe, end),
        }
    }

    fn connect(&mut self, pipe: usize) {
        let [(from, conn), (to, _)] = self.network.pipes[pipe].ends;
        if !self.network.pipes[pipe].open[0] || self.network.blocks_connect(pipe, self.now_ns) {
            return;
        }
        if !self.is_up(to) {
            self.lose(pipe, 0);
            return;
        }
        let listener = &mut self.hosts[to.0];
        let accepted = ConnId::accepted_by_driver(listener.accepted);
        listener.accepted += 1;
        listener.conns.insert(accepted, (pipe, 1));
        self.network.pipes[pipe].ends[1] = (to, accepted);
        self.network.pipes[pipe].open[1] = true;
        let peer = format!("{}:{}", self.hosts[from.0].env.name, conn.0);
        self.take_in(to, Some(Event::Accepted { conn: accepted, peer }));
        // The listener may have ended over it.
        if self.network.pipes[pipe].open[0] {
            self.take_in(from, Some(Event::Connected { conn }));
        }
    }

    fn arrive(&mut self, pipe: usize, end: usize) {
        if !self.network.pipes[pipe].open[end] || self.network.blocks_arrival(pipe, end, self.now_ns) {
            return;
        }
        let (from, to) = self.network.direction(pipe, end);
        let conn = self.network.pipes[pipe].ends[end].1;
        match self.network.pipes[pipe].to[end].pop_front() {
            Some(Parcel::Bytes(bytes)) => {
                if self.follower.is_some() {
                    let asks = Network::is_opener(1 - end);
                    self.tell(&TraceEvent::Arrive { from, to, pipe, asks, bytes: &bytes });
                }
                let waits = self.hosts[to.0].batch_draws.one_in(self.physics.batched_one_in);
                let event = Event::Received { conn, bytes };
                if waits && self.hosts[to.0].paused.is_none() {
                    self.hosts[to.0].batch.push(event);
                    self.flush_at(to, self.now_ns + BATCH_NS);
                } else {
                    self.take_in(to, Some(event));
                }
            }
            Some(Parcel::End) => self.lose(pipe, end),
            None => {}
        }
    }

    fn flush_at(&mut self, host: HostId, at_ns: u64) {
        let due = &mut self.hosts[host.0].flush_at_ns;
        if due.is_none_or(|due_ns| due_ns > at_ns) {
            *due = Some(at_ns);
            self.at(at_ns, Happening::Flush { host });
        }
    }

    /// Steps a host's node through what has gathered and this event, and carries out what it wants done.
    fn take_in(&mut self, host: HostId, event: Option<Event>) {
        let now_ns = self.now_ns;
        let it = &mut self.hosts[host.0];
        if let Some(waiting) = &mut it.paused {
            waiting.append(&mut it.batch);
            waiting.extend(event);
            return;
        }
        if it.node.is_none() {
            return;
        }
        if it.busy_until_ns > now_ns {
            it.batch.extend(event);
            let until_ns = it.busy_until_ns;
            self.flush_at(host, until_ns);
            return;
        }
        let gathered = std::mem::take(&mut it.batch);
        let count = gathered.len() + usize::from(event.is_some());
        self.steps += 1;
        self.trace.absorb(now_ns);
        self.trace.absorb((host.0 as u64) << 32 | count as u64);
        it.env.now_ns = now_ns;
        let syncs_before = it.env.disk.syncs();
        let mut effects = std::mem::take(&mut self.effects);
        let (node, env) = (it.node.as_mut().expect("just looked"), &mut it.env);
        let stepped = panics::catch(|| {
            for event in gathered.into_iter().chain(event) {
                node.step(now_ns, event, env, &mut effects);
            }
            node.settle(now_ns, env, &mut effects);
        });
        if self.follower.is_some() {
            for line in std::mem::take(&mut self.hosts[host.0].env.fresh_lines) {
                self.tell(&TraceEvent::Log { host, line: &line });
            }
        }
        if let Err(panicked) = stepped {
            let how = format!("panicked: {}", panicked.message);
            let Panicked { place, backtrace, .. } = panicked;
            self.crashed(host, how, Some(PanicPlace { place, backtrace }));
            return;
        }
        let it = &mut self.hosts[host.0];
        let mut leaves_ns = now_ns;
        if it.env.disk.syncs() != syncs_before {
            let took_ns = it.sync_draws.between(self.physics.min_sync_ns, self.physics.max_sync_ns);
            leaves_ns += took_ns * it.sync_factor;
            it.busy_until_ns = leaves_ns;
        }
        for effect in effects.drain(..) {
            if !self.is_up(host) {
                break;
            }
            self.carry_out(host, leaves_ns, effect);
        }
        self.effects = effects;
    }

    fn crashed(&mut self, host: HostId, how: String, panic: Option<PanicPlace>) {
        self.note(host, Some(Life::Down), &how);
        if let Some(PanicPlace { place, backtrace }) = &panic {
            self.hosts[host.0].env.note(&format!("at {place}\n{backtrace}"));
        }
        self.crashes.push(Crash { host, at_ns: self.now_ns, how, panic });
        self.end_life(host);
        self.hosts[host.0].env.disk.process_crash();
    }

    fn carry_out(&mut self, host: HostId, leaves_ns: u64, effect: Effect) {
        match effect {
            Effect::Connect { conn, to } => {
                self.trace.absorb(conn.0);
                self.trace.absorb_bytes(to.as_bytes());
                let name = to.rsplit_once(':').map_or(to.as_str(), |(name, _)| name);
                let Some(target) = self.names.get(name).copied() else {
                    // A name that nobody has.
                    self.take_in(host, Some(Event::Closed { conn }));
                    return;
                };
                let pipe = self.network.open(host, conn, target);
                self.hosts[host.0].conns.insert(conn, (pipe, 0));
                self.tell(&TraceEvent::Connect { from: host, to: target, pipe });
                let latency_ns = self.latency_ns((host, target));
                self.at(leaves_ns + latency_ns, Happening::Connect { pipe });
            }
            Effect::Send { conn, bytes } => {
                self.trace.absorb(conn.0);
                self.trace.absorb_bytes(&bytes);
                let Some((pipe, end)) = self.hosts[host.0].conns.get(&conn).copied() else { return };
                if self.follower.is_some() {
                    let to = self.network.pipes[pipe].ends[1 - end].0;
                    let asks = Network::is_opener(end);
                    self.tell(&TraceEvent::Send { from: host, to, pipe, asks, bytes: &bytes });
                }
                self.send(leaves_ns, pipe, 1 - end, Parcel::Bytes(bytes));
            }
            Effect::Close { conn } => {
                self.trace.absorb(!conn.0);
                if let Some((pipe, end)) = self.hosts[host.0].conns.remove(&conn) {
                    self.close_end(leaves_ns, pipe, end);
                    self.tell(&TraceEvent::Closed { host, pipe });
                    self.take_in(host, Some(Event::Closed { conn }));
                }
            }
            Effect::WakeAt { at_ns } => {
                self.trace.absorb(at_ns);
                // A node that asks for now is not to keep the world from going on.
                let at_ns = at_ns.max(self.now_ns + 1);
                // Most say again what they said before.
                if self.hosts[host.0].wake_at_ns != Some(at_ns) {
                    let number = self.sequence;
                    let it = &mut self.hosts[host.0];
                    (it.wake, it.wake_at_ns) = (number, Some(at_ns));
                    self.at(at_ns, Happening::Wake { host, number });
                }
            }
            Effect::Exit { status: 0 } => {
                self.note(host, Some(Life::Down), "ends");
                self.end_life(host);
                self.hosts[host.0].env.disk.process_crash();
            }
            // What a process does that cannot write is its own affair, and to end is the usual.
            Effect::Exit { status } if self.disk_room(host).is_some() => {
                self.note(host, Some(Life::Down), &format!("ended with status {status}, its disk is full"));
                self.end_life(host);
                self.hosts[host.0].env.disk.process_crash();
            }
            // Nor is it a crash not to go on with a disk that has rotted.
            Effect::Exit { status } if self.has_rotted(host) => {
                self.note(
                    host,
                    Some(Life::Down),
                    &format!("ended with status {status}, its disk has rotted"),
                );
                self.end_life(host);
                self.hosts[host.0].env.disk.process_crash();
            }
            Effect::Exit { status } => {
                self.crashed(host, format!("ended with status {status}"), None);
                // It gave up on its disk: whatever made that fail may as well have cost it its power.
                self.power_fail(host);
            }
        }
    }
}

#[cfg(test)]
mod tests;
