//! The thin live driver of a [`Node`](riprap_env::Node): real sockets, files, timers and signals around a state machine
//! without I/O.
//!
//! One thread does everything, on tokio's current-thread runtime. The node is single-threaded anyway, and so the
//! choice was between one loop and an I/O thread next to it: the loop needs no lock and no wake-up of another thread
//! for each request, its queues are plain, and the two cores that a local cluster shares are needed by the other
//! nodes. The price is that sockets rest in the kernel's buffers while the node syncs its disk; since a whole batch
//! shares that sync, this delays nothing that would not have waited for the sync too.
//!
//! A turn of the loop: wait until something is ready; gather what is ready, up to `Limits::batch_events`; step each
//! event; settle once; carry out the effects; let every connection run.
//!
//! Each connection is a task that reads at most `Limits::read_bytes` and then queues for a place in the one inbox.
//! Places are given in the order of asking, so a connection that floods has one chunk in line like everybody else.
//! A full inbox leaves the bytes in the socket, and TCP tells the sender.
//!
//! What a node may meet here: bytes that arrived in the same batch may still be delivered after its own
//! [`Effect::Close`]; bytes that arrive later are dropped. [`Event::Closed`] is always the last event of a connection.
//!
//! What it cannot see: whether bytes that were sent reached the other side.

mod clock;
mod conn;
mod env;
mod log;
mod timed_disk;
mod watch;

use crate::observe::Observed;
use bytes::Bytes;
use conn::{Conn, Incoming, Shared};
use env::{BatchEnv, LiveEnv};
use riprap_env::{ConnId, Effect, Effects, Env, Event, log};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// What a node's process is told on its command line.
#[derive(Clone, Debug)]
pub struct ShellConfig {
    /// Where the node's clients and peers connect.
    pub listen: SocketAddr,
    /// The folder that is the node's disk.
    pub dir: PathBuf,
    /// What the node's randomness grows from, together with its name and with what tells this life of the process from
    /// all others: the same seed gives a node that is killed and starts again other numbers than before.
    pub seed: u64,
    /// The node's name, in each line of its log; and two nodes of one seed draw different numbers.
    pub entity: String,
    /// Where metrics and health are asked for; none: nowhere.
    pub metrics: Option<SocketAddr>,
    /// The file that says how far its wall clock stands from the machine's; none: it is the machine's.
    pub clock_offset: Option<PathBuf>,
}

/// The bounds of the shell's queues and waits; the default is what [`run`] uses.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Events that wait for the node. With `read_bytes` it bounds what the shell holds of input: 16 MiB.
    inbox_events: usize,
    /// Bytes that one connection may read before it queues again: about what a socket delivers at once.
    read_bytes: usize,
    /// Events that share one settle: enough to share a sync among all clients of a test, and few enough that the
    /// first of them does not wait long for the last.
    batch_events: usize,
    /// Bytes that the node sent to one connection and that its other side has not taken. Kafka's clients ask for at
    /// most 50 MiB a fetch; who has two such answers waiting is not reading.
    unsent_bytes: usize,
    /// Bytes that the node sent and that nobody has taken, of all connections: past it the one that has most of them is
    /// closed. Some four of those that read nothing; a thousand that read slowly share it.
    unsent_in_all_bytes: usize,
    /// Of the same, what is too much for connections that take nothing to have a part in it: half of what consumers'
    /// fetches may have, so that others always find room.
    crowded_bytes: usize,
    /// How long a connection that has something waiting may take nothing while it is crowded: longer than a client is
    /// busy with what it took, and far shorter than clients wait for an answer.
    stalled: Duration,
    /// Open connections: what a node takes, and room to tell those that come after that there are too many.
    connections: usize,
    /// How long a connection that others opened may say nothing: a client that still wants something asks sooner, and one
    /// whose machine is gone never ends it. Source: Kafka's `connections.max.idle.ms`.
    idle: Duration,
    /// How long a connection may take to be established: longer than a lost SYN's first retransmission (1 s).
    connect_timeout: Duration,
    /// How long a closing connection may go without taking any of what is left for it.
    linger: Duration,
    /// How long the last answers may take to go out when the process ends.
    exit_flush: Duration,
    /// The pause after an accept that failed (no file descriptors left, say): retrying at once would spin.
    accept_pause: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            inbox_events: 256,
            read_bytes: 64 << 10,
            batch_events: 256,
            unsent_bytes: 128 << 20,
            unsent_in_all_bytes: 512 << 20,
            crowded_bytes: 32 << 20,
            stalled: Duration::from_secs(2),
            connections: 16_896,
            idle: Duration::from_secs(600),
            connect_timeout: Duration::from_secs(3),
            linger: Duration::from_secs(5),
            exit_flush: Duration::from_secs(1),
            accept_pause: Duration::from_millis(100),
        }
    }
}

/// The longest sleep without looking at the clock again: tokio's timer wheel is not asked for centuries.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// The exit status of a process that was asked to stop a second time before its node was done.
const STOPPED_TWICE: i32 = 1;

/// Runs a node until it exits; returns its exit status.
///
/// SIGTERM and SIGINT become [`Event::Stop`]; the second of them ends the process without waiting for the node.
/// What it logs goes to the `tracing` subscriber of the thread that calls.
///
/// Errors: the address cannot be bound, the folder cannot be opened.
/// Panics: when the node does, after a line in the log.
pub fn run(node: &mut dyn Observed, config: ShellConfig) -> io::Result<i32> {
    let (stop, stops) = mpsc::channel(1);
    raise_open_files();
    let runtime = runtime()?;
    let listener = bind(&runtime, config.listen)
        .map_err(|e| io::Error::new(e.kind(), format!("failed to listen on {}: {e}", config.listen)))?;
    let guard = runtime.enter();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    drop(guard);
    let forward_signals = async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stop.send(()).await.is_err() {
                break;
            }
        }
    };
    runtime.spawn(forward_signals);
    serve(&runtime, node, config, listener, stops, Limits::default())
}

/// Lets the process open as many files as it may: each connection is one, and where the limit is the customary 1024 a
/// thousand clients would be all. Where it cannot be raised, accepting says so when it is met.
fn raise_open_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a whole rlimit, which outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 && limit.rlim_cur < limit.rlim_max
    {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: as above; the call only reads.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn bind(runtime: &tokio::runtime::Runtime, address: SocketAddr) -> io::Result<TcpListener> {
    /// Connections that wait to be accepted. Past it a SYN is dropped and the client tries again a second later:
    /// many clients that start at once should not meet that.
    const BACKLOG: u32 = 1024;
    let guard = runtime.enter();
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG);
    drop(guard);
    listener
}

/// As [`run`], with the socket already bound and `stops` in the place of signals.
fn serve(
    runtime: &tokio::runtime::Runtime,
    node: &mut dyn Observed,
    config: ShellConfig,
    listener: TcpListener,
    stops: mpsc::Receiver<()>,
    limits: Limits,
) -> io::Result<i32> {
    let watcher = config.metrics.map(|address| {
        let bound = bind(runtime, address);
        bound.map_err(|e| io::Error::new(e.kind(), format!("failed to serve metrics on {address}: {e}")))
    });
    let watcher = watcher.transpose()?;
    let env = LiveEnv::new(&config)?;
    let node_name = config.entity.clone();
    let driving = || {
        tokio::task::LocalSet::new().block_on(runtime, async move {
            let (sender, inbox) = mpsc::channel(limits.inbox_events);
            tokio::task::spawn_local(conn::accept(listener, sender.clone(), limits.accept_pause));
            let shared = Shared::new(sender, limits);
            let questions = watcher.map(watch::serve);
            let mut driver = Driver {
                node,
                env,
                started: Instant::now(),
                conns: BTreeMap::new(),
                accepted: 0,
                shared,
                inbox,
                questions,
                stops,
                stopping: false,
                to_close: Vec::new(),
                wake_at_ns: None,
                limits,
            };
            Ok(driver.drive().await)
        })
    };
    catch_unwind(AssertUnwindSafe(driving)).unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        tracing::error!(node = node_name, "the node panicked: {what}");
        resume_unwind(panic)
    })
}

/// The loop around one node.
struct Driver<'a> {
    node: &'a mut dyn Observed,
    env: LiveEnv,
    started: Instant,
    conns: BTreeMap<ConnId, Conn>,
    accepted: u64,
    shared: Shared,
    inbox: mpsc::Receiver<Incoming>,
    /// Of whoever watches the node.
    questions: Option<mpsc::Receiver<watch::Question>>,
    stops: mpsc::Receiver<()>,
    stopping: bool,
    /// Connections that the driver itself cut off: the node hears of it in the next batch.
    to_close: Vec<ConnId>,
    wake_at_ns: Option<u64>,
    limits: Limits,
}

/// The next question, if anybody may ask.
async fn next_question(questions: &mut Option<mpsc::Receiver<watch::Question>>) -> Option<watch::Question> {
    match questions {
        Some(questions) => questions.recv().await,
        None => None,
    }
}

impl Driver<'_> {
    async fn drive(&mut self) -> i32 {
        let mut batch = vec![Event::Start];
        loop {
            self.env.look_at_clock();
            let mut effects = Effects::new();
            let mut env = BatchEnv { env: &mut self.env, conns: &self.conns, shared: &self.shared };
            for event in batch {
                self.node.step(now_ns(self.started), event, &mut env, &mut effects);
            }
            self.node.settle(now_ns(self.started), &mut env, &mut effects);
            for effect in effects {
                if let Effect::Exit { status } = effect {
                    self.flush().await;
                    return status;
                }
                self.carry_out(effect);
            }
            batch = match self.next_batch().await {
                Some(batch) => batch,
                None => {
                    log!(self.env, Warn, "asked twice to stop: not waiting for the node any longer");
                    return STOPPED_TWICE;
                }
            };
        }
    }

    /// Waits until there is something for the node. None when the process was asked to stop a second time.
    async fn next_batch(&mut self) -> Option<Vec<Event>> {
        // The inbox may never be empty; the connections' writers must run all the same.
        tokio::task::yield_now().await;
        let mut batch: Vec<Event> =
            std::mem::take(&mut self.to_close).into_iter().map(|conn| Event::Closed { conn }).collect();
        while batch.is_empty() {
            let now = now_ns(self.started);
            let until_wake = match self.wake_at_ns {
                Some(at_ns) => Duration::from_nanos(at_ns.saturating_sub(now)).min(LONGEST_SLEEP),
                None => LONGEST_SLEEP,
            };
            tokio::select! {
                biased;
                Some(()) = self.stops.recv() => {
                    if std::mem::replace(&mut self.stopping, true) {
                        return None;
                    }
                    batch.push(Event::Stop);
                }
                Some(question) = next_question(&mut self.questions) => {
                    question.answer(self.node, now_ns(self.started), self.conns.len(), self.env.syncs());
                }
                Some(incoming) = self.inbox.recv() => batch.extend(self.take_in(incoming)),
                () = tokio::time::sleep(until_wake) => {}
            }
            while batch.len() < self.limits.batch_events
                && let Ok(incoming) = self.inbox.try_recv()
            {
                batch.extend(self.take_in(incoming));
            }
            if self.wake_at_ns.is_some_and(|at_ns| at_ns <= now_ns(self.started)) {
                self.wake_at_ns = None;
                batch.push(Event::Wake);
            }
        }
        Some(batch)
    }

    /// Turns what a task reported into what the node is told.
    fn take_in(&mut self, incoming: Incoming) -> Option<Event> {
        match incoming {
            Incoming::Accepted { stream, peer } => {
                if self.conns.len() >= self.limits.connections {
                    let limit = self.limits.connections;
                    log!(self.env, Warn, "refused {peer}: {limit} connections are open, the most allowed");
                    return None;
                }
                let conn = ConnId::accepted_by_driver(self.accepted);
                self.accepted += 1;
                self.conns.insert(conn, Conn::accepted(conn, stream, &self.shared));
                Some(Event::Accepted { conn, peer: peer.to_string() })
            }
            Incoming::AcceptFailed(e) => {
                log!(self.env, Warn, "failed to accept a connection: {e}");
                None
            }
            Incoming::Connected { conn } => {
                self.conns.contains_key(&conn).then_some(Event::Connected { conn })
            }
            Incoming::Received { conn, bytes } => {
                self.conns.get(&conn).is_some_and(Conn::is_open).then_some(Event::Received { conn, bytes })
            }
            Incoming::Closed { conn } => self.conns.remove(&conn).map(|_| Event::Closed { conn }),
            Incoming::Stalled { conn, unsent_bytes } => {
                let line = format_args!("it takes none of {unsent_bytes} bytes, and many wait for others");
                log!(self.env, Warn, "closing connection {}: {line}", conn.0);
                self.conns.remove(&conn).map(|_| Event::Closed { conn })
            }
            Incoming::Drained { conn } => self.conns.contains_key(&conn).then_some(Event::Drained { conn }),
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Connect { conn, to } => {
                if self.conns.len() < self.limits.connections {
                    self.conns.insert(conn, Conn::connecting(conn, to, &self.shared));
                } else {
                    self.to_close.push(conn);
                }
            }
            Effect::Send { conn, bytes } => self.send(conn, bytes),
            Effect::Close { conn } => {
                if self.conns.get(&conn).is_some_and(Conn::is_attempt) {
                    self.cut(conn);
                } else if let Some(open) = self.conns.get_mut(&conn) {
                    open.close();
                }
            }
            Effect::WakeAt { at_ns } => self.wake_at_ns = Some(at_ns),
            Effect::Exit { .. } => unreachable!("the loop returned on it"),
        }
    }

    fn send(&mut self, conn: ConnId, bytes: Bytes) {
        let Some(open) = self.conns.get_mut(&conn) else { return };
        if open.send(bytes) > self.limits.unsent_bytes {
            let limit = self.limits.unsent_bytes;
            log!(
                self.env,
                Warn,
                "closing connection {}: more than {limit} bytes wait for it to read",
                conn.0
            );
            self.cut(conn);
        }
        while self.shared.unsent_in_all_bytes() > self.limits.unsent_in_all_bytes {
            let most = self.conns.iter().max_by_key(|(conn, open)| (open.unsent_bytes(), **conn));
            let Some((conn, bytes)) = most.map(|(conn, open)| (*conn, open.unsent_bytes())) else { return };
            // What is left belongs to connections that are ending: they have the time of `linger`.
            if bytes == 0 {
                return;
            }
            let limit = self.limits.unsent_in_all_bytes;
            log!(
                self.env,
                Warn,
                "closing connection {}: {bytes} bytes wait for it to read, and more than {limit} for all",
                conn.0
            );
            self.cut(conn);
        }
    }

    /// Ends a connection at once.
    fn cut(&mut self, conn: ConnId) {
        if let Some(cut) = self.conns.remove(&conn) {
            cut.abort();
        }
        self.to_close.push(conn);
    }

    /// Gives the last answers a moment to go out.
    async fn flush(&mut self) {
        /// How often to look: the process is ending, and nothing else wakes it.
        const LOOK_AGAIN: Duration = Duration::from_millis(1);
        let deadline = Instant::now() + self.limits.exit_flush;
        while self.conns.values().any(|conn| conn.unsent_bytes() > 0) && Instant::now() < deadline {
            // Connections report what they read while the last bytes go out: nobody is there to hear it any more.
            while self.inbox.try_recv().is_ok() {}
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

fn now_ns(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_nanos()).expect("a process does not live for 584 years")
}

#[cfg(test)]
mod tests;
