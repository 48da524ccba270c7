//! Histories of a log that works: as many ops as wanted, from a seed.
//!
//! Clients assign keys, send and poll in transactions, over keys that are replaced once they are full. A transaction leaves
//! a marker in each key that it wrote to, so offsets have gaps; what is aborted stays in the log, unread. Consumers begin
//! where their group has come to, and read to where the first open transaction begins. In the end all keys are read from
//! their beginnings.
//!
//! Serially every op happens at one instant, and nothing at all is to be found. Like Kafka, sends land while other
//! transactions are open: G0, int-send-skip, and G1c with ww edges are in order then.

use riprap_core::op::{Extra, F, Key, Kind, Mop, Offset, Op, OpError, OpValue, Process, Reads, Value};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Which transactions see each other half done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// None.
    Serial,
    /// As in Kafka.
    Kafka,
}

/// What to make.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Completed ops, about; the final reads come on top.
    pub ops: u64,
    /// Concurrent clients.
    pub processes: u32,
    /// Keys in use at a time.
    pub keys: usize,
    /// After so many sends a key is replaced by another.
    pub writes_per_key: u64,
    /// How transactions interleave.
    pub mode: Mode,
    /// How often something goes wrong, spread over the run: each of [`FAULTS`] in turn.
    pub anomalies: u64,
    /// The same seed is the same history.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            ops: 100_000,
            processes: 20,
            keys: 20,
            writes_per_key: 1024,
            mode: Mode::Serial,
            anomalies: 0,
            seed: 1,
        }
    }
}

/// What goes wrong, and the anomaly that a check then names.
const FAULTS: &[(Fault, &str)] = &[
    (Fault::Lose, "lost-write"),
    (Fault::Double, "duplicate"),
    (Fault::Resurrect, "G1a"),
    (Fault::Skip, "poll-skip"),
    (Fault::Rewind, "nonmonotonic-poll"),
];

/// The anomalies that faults lead to, in their order.
pub(crate) fn anomalies() -> impl Iterator<Item = &'static str> {
    FAULTS.iter().map(|(_, anomaly)| *anomaly)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// What was acknowledged is not in the log.
    Lose,
    /// What was sent is in the log twice.
    Double,
    /// What failed is in the log.
    Resurrect,
    /// A consumer goes further than it read.
    Skip,
    /// A consumer goes back.
    Rewind,
}

/// Records that a poll returns, at most.
const MAX_POLL_RECORDS: usize = 500;
/// Micro-operations of an op, and keys of an assign, at most.
const MAX_LIST: u64 = 4;
/// One op in so many is an assign.
const OPS_PER_ASSIGN: u64 = 64;
/// Of a hundred ops so many end in doubt, and fail.
const INFO_PERCENT: u64 = 1;
const FAIL_PERCENT: u64 = 2;

/// Sebastiano Vigna's SplitMix64: a few lines, the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Around `mean_ns`, never nothing.
    fn around(&mut self, mean_ns: u64) -> u64 {
        1 + self.below(2 * mean_ns)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Committed,
    Unseen,
}

struct Record {
    offset: i64,
    value: i64,
    state: State,
}

/// One key's log.
#[derive(Default)]
struct Log {
    records: Vec<Record>,
    next_offset: i64,
    /// Places of records whose transactions are open.
    open: BTreeSet<usize>,
    /// How far the group has come.
    committed: usize,
    sent: u64,
}

impl Log {
    fn append(&mut self, value: i64) -> usize {
        self.records.push(Record { offset: self.next_offset, value, state: State::Open });
        self.next_offset += 1;
        self.open.insert(self.records.len() - 1);
        self.records.len() - 1
    }

    /// Up to `limit` records from `position` on, which goes on past them.
    fn read(&self, position: &mut usize, limit: usize) -> Vec<(Offset, Value)> {
        let end = self.open.first().copied().unwrap_or(self.records.len());
        let mut read = Vec::new();
        while *position < end && read.len() < limit {
            let record = &self.records[*position];
            if record.state == State::Committed {
                read.push((Offset(record.offset), Value(record.value)));
            }
            *position += 1;
        }
        read
    }
}

/// A key that a consumer reads, and how far it has come.
type Held = (usize, usize);

/// An op under way.
struct Running {
    f: F,
    mops: Vec<Mop>,
    kind: Kind,
    commits: bool,
    /// The next micro-operation.
    step: usize,
    /// Key and place of each record sent.
    sent: Vec<(usize, usize)>,
    /// Where the consumer stood before.
    before: Vec<Held>,
    fault: Option<Fault>,
}

enum Doing {
    Nothing,
    Assigning(Vec<usize>),
    Running(Running),
    Completing(Running),
}

struct Client {
    process: u32,
    held: Vec<Held>,
    /// It has been given no keys yet.
    is_new: bool,
    doing: Doing,
}

struct Run<'a, E> {
    config: &'a Config,
    random: Random,
    logs: Vec<Log>,
    /// The keys in use, the youngest first.
    live: Vec<usize>,
    begun: u64,
    rows: u64,
    faults: u64,
    emit: E,
}

/// Makes a history, op by op.
pub(crate) fn generate(config: &Config, emit: impl FnMut(Op)) {
    let keys = config.keys.max(1);
    let mut run = Run {
        config,
        random: Random(config.seed),
        logs: (0..keys).map(|_| Log::default()).collect(),
        live: (0..keys).rev().collect(),
        begun: 0,
        rows: 0,
        faults: 0,
        emit,
    };
    let mut clients: Vec<Client> = (0..config.processes.max(1))
        .map(|process| Client { process, held: Vec::new(), is_new: true, doing: Doing::Nothing })
        .collect();
    let mut queue: BinaryHeap<_> =
        (0..clients.len()).map(|client| Reverse((run.random.around(1_000_000), client))).collect();
    let mut now_ns = 0;
    while let Some(Reverse((time_ns, client))) = queue.pop() {
        now_ns = time_ns;
        if let Some(wait_ns) = run.step(time_ns, &mut clients[client]) {
            queue.push(Reverse((time_ns + wait_ns, client)));
        }
    }
    run.drain(now_ns, &mut clients);
}

impl<E: FnMut(Op)> Run<'_, E> {
    fn op(&mut self, time_ns: u64, process: u32, kind: Kind, f: F, value: OpValue, extra: Extra) {
        let index = self.rows;
        self.rows += 1;
        let (time_ns, process) = (time_ns as i64, Process::Client(process));
        (self.emit)(Op { index, time_ns, process, kind, f, value, extra });
    }

    /// A client does what is next; returns how long that takes, or none when there is no more to do.
    fn step(&mut self, now_ns: u64, client: &mut Client) -> Option<u64> {
        match std::mem::replace(&mut client.doing, Doing::Nothing) {
            Doing::Nothing if self.begun >= self.config.ops => None,
            Doing::Nothing if client.is_new || self.random.below(OPS_PER_ASSIGN) == 0 => {
                self.begun += 1;
                client.is_new = false;
                let keys: BTreeSet<usize> = (0..=self.random.below(MAX_LIST)).map(|_| self.pick()).collect();
                let keys: Vec<usize> = keys.into_iter().collect();
                self.op(now_ns, client.process, Kind::Invoke, F::Assign, assigned(&keys), Extra::default());
                client.doing = Doing::Assigning(keys);
                Some(self.random.around(200_000))
            }
            Doing::Nothing => {
                self.begun += 1;
                let running = self.begin(client);
                let value = OpValue::Mops(running.mops.clone());
                self.op(now_ns, client.process, Kind::Invoke, running.f.clone(), value, Extra::default());
                client.doing = Doing::Running(running);
                Some(self.random.around(500_000))
            }
            Doing::Assigning(keys) => {
                self.op(now_ns, client.process, Kind::Ok, F::Assign, assigned(&keys), Extra::default());
                let position = |key: usize| {
                    let held = client.held.iter().find(|(held, _)| *held == key);
                    held.map_or(self.logs[key].committed, |(_, position)| *position)
                };
                client.held = keys.into_iter().map(|key| (key, position(key))).collect();
                Some(self.random.around(500_000))
            }
            Doing::Running(mut running) => {
                loop {
                    self.mop(&mut running, &mut client.held);
                    running.step += 1;
                    if running.step == running.mops.len() || self.config.mode == Mode::Kafka {
                        break;
                    }
                }
                if running.step == running.mops.len() {
                    self.end(&running);
                    client.doing = Doing::Completing(running);
                } else {
                    client.doing = Doing::Running(running);
                }
                Some(self.random.around(500_000))
            }
            Doing::Completing(running) => {
                self.complete(now_ns, client, running);
                Some(self.random.around(500_000))
            }
        }
    }

    /// A key; young ones more often.
    fn pick(&mut self) -> usize {
        let count = self.live.len() as u64;
        self.live[self.random.below(count).min(self.random.below(count)) as usize]
    }

    fn begin(&mut self, client: &Client) -> Running {
        let mops: Vec<Mop> = (0..=self.random.below(MAX_LIST))
            .map(|_| if self.random.below(2) == 0 { Mop::Poll(None) } else { self.send() })
            .collect();
        let sends = mops.iter().filter(|mop| matches!(mop, Mop::Send { .. })).count();
        let f = match sends {
            0 => F::Poll,
            all if all == mops.len() => F::Send,
            _ => F::Txn,
        };
        let kind = match self.random.below(100) {
            0..INFO_PERCENT => Kind::Info,
            percent if percent < INFO_PERCENT + FAIL_PERCENT => Kind::Fail,
            _ => Kind::Ok,
        };
        let commits = kind == Kind::Ok || kind == Kind::Info && self.random.below(2) == 0;
        // What is to go wrong by now and has not, once there is an op that it can happen to.
        let due = self.begun.saturating_mul(self.config.anomalies) / self.config.ops.max(1);
        let (fault, _) = FAULTS[(self.faults % FAULTS.len() as u64) as usize];
        let fits = match fault {
            Fault::Lose | Fault::Double => kind == Kind::Ok && sends > 0,
            Fault::Resurrect => kind == Kind::Fail && sends > 0,
            Fault::Skip | Fault::Rewind => kind == Kind::Ok && f == F::Poll && !client.held.is_empty(),
        };
        let fault = (due > self.faults && fits).then_some(fault);
        self.faults += u64::from(fault.is_some());
        Running { f, mops, kind, commits, step: 0, sent: Vec::new(), before: client.held.clone(), fault }
    }

    fn send(&mut self) -> Mop {
        let key = self.pick();
        let log = &mut self.logs[key];
        let value = Value(log.sent as i64);
        log.sent += 1;
        if log.sent == self.config.writes_per_key {
            self.live.retain(|live| *live != key);
            self.live.insert(0, self.logs.len());
            self.logs.push(Log::default());
        }
        Mop::Send { key: Key(key as i64), value, offset: None }
    }

    /// One micro-operation reaches the log.
    fn mop(&mut self, running: &mut Running, held: &mut [Held]) {
        match &mut running.mops[running.step] {
            Mop::Send { key, value, offset } => {
                let key = key.0 as usize;
                let log = &mut self.logs[key];
                let place = log.append(value.0);
                *offset = Some(Offset(log.records[place].offset));
                running.sent.push((key, place));
                if running.fault == Some(Fault::Double) {
                    running.sent.push((key, log.append(value.0)));
                }
            }
            Mop::Poll(reads) => {
                for (key, position) in held.iter_mut() {
                    match running.fault {
                        Some(Fault::Skip) => {
                            *position = (*position + 3).min(self.logs[*key].committed.max(*position))
                        }
                        Some(Fault::Rewind) => *position = position.saturating_sub(20),
                        _ => {}
                    }
                }
                *reads = Some(poll(&self.logs, held));
            }
        }
    }

    /// The transaction ends: its records are seen from now on, or never.
    fn end(&mut self, running: &Running) {
        let is_seen = running.commits || running.fault == Some(Fault::Resurrect);
        let mut keys = BTreeSet::new();
        for (key, place) in &running.sent {
            let log = &mut self.logs[*key];
            log.records[*place].state = if is_seen { State::Committed } else { State::Unseen };
            log.open.remove(place);
            keys.insert(*key);
        }
        if running.fault == Some(Fault::Lose)
            && let Some((key, place)) = running.sent.first()
        {
            self.logs[*key].records[*place].state = State::Unseen;
        }
        // The marker.
        keys.into_iter().for_each(|key| self.logs[key].next_offset += 1);
    }

    fn complete(&mut self, now_ns: u64, client: &mut Client, running: Running) {
        if running.commits {
            for (key, position) in &client.held {
                let log = &mut self.logs[*key];
                log.committed = log.committed.max(*position);
            }
        }
        let (mut mops, mut extra) = (running.mops, Extra::default());
        if running.kind != Kind::Ok {
            // The client does not learn what came of it.
            for mop in &mut mops {
                match mop {
                    Mop::Send { offset, .. } => *offset = None,
                    Mop::Poll(reads) => *reads = None,
                }
            }
            let code = if running.kind == Kind::Info { "timeout" } else { "aborted" };
            let definite = running.kind == Kind::Fail;
            extra.error = Some(OpError { code: code.to_owned(), definite, message: String::new() });
        }
        self.op(now_ns, client.process, running.kind, running.f, OpValue::Mops(mops), extra);
        match running.kind {
            Kind::Fail => client.held = running.before,
            Kind::Info => {
                client.process += self.config.processes.max(1);
                client.held.clear();
                client.is_new = true;
            }
            _ => {}
        }
    }

    /// New clients share all keys that there ever were, and read each to its end.
    fn drain(&mut self, now_ns: u64, clients: &mut [Client]) {
        let mut time_ns = now_ns + 1_000_000;
        let mut op = |run: &mut Self, process, kind, f, value, from_beginning| {
            time_ns += 50_000;
            run.op(time_ns, process, kind, f, value, Extra { from_beginning, ..Extra::default() });
        };
        for client in clients.iter_mut() {
            op(self, client.process, Kind::Invoke, F::Crash, OpValue::None, false);
            op(self, client.process, Kind::Info, F::Crash, OpValue::None, false);
            client.process += self.config.processes.max(1);
        }
        let keys: Vec<usize> = (0..self.logs.len()).collect();
        for (keys, client) in keys.chunks(MAX_LIST as usize).zip((0..clients.len()).cycle()) {
            let process = clients[client].process;
            op(self, process, Kind::Invoke, F::Assign, assigned(keys), true);
            op(self, process, Kind::Ok, F::Assign, assigned(keys), true);
            let mut held: Vec<Held> = keys.iter().map(|key| (*key, 0)).collect();
            loop {
                let reads = poll(&self.logs, &mut held);
                let is_end = reads.is_empty();
                op(self, process, Kind::Invoke, F::Poll, OpValue::Mops(vec![Mop::Poll(None)]), false);
                op(self, process, Kind::Ok, F::Poll, OpValue::Mops(vec![Mop::Poll(Some(reads))]), false);
                if is_end {
                    break;
                }
            }
        }
    }
}

fn assigned(keys: &[usize]) -> OpValue {
    OpValue::Keys(keys.iter().map(|key| Key(*key as i64)).collect())
}

fn poll(logs: &[Log], held: &mut [Held]) -> Reads {
    let mut limit = MAX_POLL_RECORDS;
    let mut reads = Reads::new();
    for (key, position) in held {
        let records = logs[*key].read(position, limit);
        limit -= records.len();
        if !records.is_empty() {
            reads.push((Key(*key as i64), records));
        }
    }
    reads
}
