//! The relay: packets that are to take longer, or to come no faster than so many bytes a second, pass through it.
//!
//! The [door](super::door) of the place that they come to hands such packets to a queue of the kernel (NFQUEUE), one for each
//! place; a thread of this program is told of each packet, and says of each when it goes on. What it gets is the packet's number and the start of its header, and what it gives back is
//! the number: the packet itself stays in the kernel. So it works on kernels without netem, which are many, and it can tell
//! apart what a queueing discipline of an interface cannot: who is at the other end. Without delays and limits no packet
//! comes here.
//!
//! Packets of a connection keep their order, and where no delay varies (jitter) all from one place to another do. Large packets that a network card would cut up (GSO) come as one. What
//! waits when delays or limits change is let go at once. Where the queue is full, or this thread does not get to read for too
//! long, packets are lost, as they are in a full router.
//!
//! In the sandbox one relay serves all places; on a host it is the agent's, for what comes there and what is sent from there.
//!
//! Source: include/uapi/linux/netfilter/nfnetlink_queue.h.

use super::filter::Pair;
use super::netlink::{self, Message, Refusal, Socket};
use super::probe::Kind;
use super::sys;
use rand::RngExt as _;
use riprap_core::Seed;
use riprap_core::seed::Stream;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The queue's number, in each place's namespace: on a host none that other programs take, which count from 0.
pub(super) const QUEUE: u16 = 0x7269;

/// Each waiting packet costs the kernel some kilobytes at most: this is far more than connections with the windows of usual
/// brokers have on their way in the longest delay, and far less than memory.
const QUEUE_PACKETS: u32 = 20_000;
/// How much a limit lets through at once after a pause: one packet as large as they get, not cut up yet, of half the size.
pub(super) const BURST_BYTES: u64 = 32 << 10;
/// A limit drops what would have to wait longer than this until it begins to be sent: the buffer of a slow link.
const BUFFER_NS: i64 = 1_000_000_000;
/// Addresses and ports are all that is looked at, and they are in the first so many bytes.
const COPIED_BYTES: u32 = 24;
/// How long a header is that has no options, and begins so.
const HEADER_SIZE_BYTES: usize = 20;
const HEADER_WITHOUT_OPTIONS: u8 = 0x45;
/// What a socket is asked to hold of what is not read yet: more than comes while a loaded machine runs something else.
const ROOM_BYTES: libc::c_int = 8 << 20;
/// How many packets of a queue are taken in before those that are due go on.
const AT_ONCE: usize = 256;
/// How many verdicts fit into one message well below a socket's send buffer.
const VERDICTS_PER_SEND: usize = 1000;
/// With nothing to do the thread looks this often whether it is to end; it is woken for all else.
const IDLE: Duration = Duration::from_secs(60);

const SUBSYSTEM: u16 = 3 << 8;
const PACKET: u16 = SUBSYSTEM;
const VERDICT: u16 = SUBSYSTEM | 1;
const CONFIG: u16 = SUBSYSTEM | 2;
const CONFIG_COMMAND: u16 = 1;
const CONFIG_PARAMS: u16 = 2;
const CONFIG_MAX_LEN: u16 = 3;
const CONFIG_MASK: u16 = 4;
const CONFIG_FLAGS: u16 = 5;
const COMMAND_BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const FLAG_GSO: u32 = 1 << 2;
const PACKET_HEADER: u16 = 1;
const PACKET_PAYLOAD: u16 = 10;
const PACKET_LEN: u16 = 13;
const VERDICT_HEADER: u16 = 2;
const TCP: u8 = libc::IPPROTO_TCP as u8;
const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;

/// Pairs that share so much of a link.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Limit {
    pub(super) pairs: Vec<Pair>,
    pub(super) bytes_per_s: u64,
}

/// How much longer what is sent between a pair takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Lag {
    /// At least.
    pub delay: Duration,
    /// So much more at most, drawn anew for each packet.
    pub jitter: Duration,
}

/// Of so many connections it is remembered when their last packet goes on; those for which that is over are forgotten then.
const REMEMBERED_FLOWS: usize = 1024;

/// A direction of a connection.
pub(crate) type Flow = (SocketAddrV4, SocketAddrV4);

/// What the relay is told of a packet.
struct Packet {
    pair: Pair,
    /// If it seems to be of a connection.
    flow: Option<Flow>,
    tos: u8,
    size_bytes: u64,
}

/// A limit's bookkeeping: when what has been let through is paid for.
#[derive(Clone, Copy, Default)]
struct Bucket {
    free_ns: i64,
}

/// Decides when packets go on. Time is that of the caller, in nanoseconds from whenever.
struct Shaper {
    /// At least, and how much more at most.
    delays_ns: BTreeMap<Pair, (i64, i64)>,
    /// What is drawn of that.
    random: Stream,
    /// When the last packet goes on of connections whose packets take now longer, now less.
    last_ns: BTreeMap<Flow, i64>,
    held: BTreeSet<Flow>,
    limits: Vec<Limit>,
    /// By pair, the positions of the limits that it is subject to.
    limited: BTreeMap<Pair, Vec<usize>>,
    buckets: Vec<Bucket>,
    /// Probes have a budget of their own for each pair, so that they neither take from nor depend on what else is sent.
    probes: BTreeMap<(Pair, usize), Bucket>,
}

impl Shaper {
    fn new(delays: &BTreeMap<Pair, Lag>, limits: Vec<Limit>, held: BTreeSet<Flow>) -> Shaper {
        let ns = |delay: Duration| i64::try_from(delay.as_nanos()).expect("delays are of seconds");
        let both = |lag: &Lag| (ns(lag.delay), ns(lag.jitter));
        let mut limited: BTreeMap<Pair, Vec<usize>> = BTreeMap::new();
        for (position, limit) in limits.iter().enumerate() {
            for pair in &limit.pairs {
                limited.entry(*pair).or_default().push(position);
            }
        }
        Shaper {
            delays_ns: delays.iter().map(|(pair, lag)| (*pair, both(lag))).collect(),
            // Which packets there are no seed decides.
            random: Seed(0).stream("relay", "jitter"),
            last_ns: BTreeMap::new(),
            buckets: vec![Bucket { free_ns: i64::MIN }; limits.len()],
            held,
            limits,
            limited,
            probes: BTreeMap::new(),
        }
    }

    /// When a packet goes on; none if it is to be dropped.
    fn release_ns(&mut self, packet: &Packet, now_ns: i64) -> Option<i64> {
        let is = |kind: Kind| kind.services().contains(&packet.tos);
        let mut release_ns = now_ns;
        if !is(Kind::Delay) {
            let limits = self.limited.get(&packet.pair).map_or(&[][..], Vec::as_slice);
            let bucket = |this: &Shaper, limit: usize| match is(Kind::Rate) {
                true => this.probes.get(&(packet.pair, limit)).copied(),
                false => this.buckets.get(limit).copied(),
            };
            // All of them must take it before any is charged.
            let mut charged = Vec::new();
            for &limit in limits {
                let ns = |bytes: u64| (bytes * 1_000_000_000 / self.limits[limit].bytes_per_s) as i64;
                let free_ns = bucket(self, limit).map_or(i64::MIN, |bucket| bucket.free_ns);
                let start_ns = free_ns.max(now_ns - ns(BURST_BYTES));
                if start_ns > now_ns + BUFFER_NS {
                    return None;
                }
                charged.push((limit, Bucket { free_ns: start_ns + ns(packet.size_bytes) }));
            }
            for (limit, bucket) in charged {
                release_ns = release_ns.max(bucket.free_ns);
                match is(Kind::Rate) {
                    true => drop(self.probes.insert((packet.pair, limit), bucket)),
                    false => self.buckets[limit] = bucket,
                }
            }
        }
        let (delay_ns, jitter_ns) = self.delays_ns.get(&packet.pair).copied().unwrap_or_default();
        if !is(Kind::Rate) {
            release_ns += delay_ns;
        }
        if jitter_ns > 0 && !is(Kind::Rate) {
            release_ns += self.random.random_range(0..=jitter_ns);
            if let Some(flow) = packet.flow {
                release_ns = self.in_order(flow, release_ns, now_ns);
            }
        }
        Some(release_ns)
    }

    /// Not before what came before it on its connection.
    fn in_order(&mut self, flow: Flow, release_ns: i64, now_ns: i64) -> i64 {
        if self.last_ns.len() >= REMEMBERED_FLOWS {
            self.last_ns.retain(|_, last_ns| *last_ns > now_ns);
        }
        let last_ns = self.last_ns.entry(flow).or_insert(release_ns);
        *last_ns = release_ns.max(*last_ns);
        *last_ns
    }
}

/// What the thread and its owner share.
#[derive(Default)]
struct Shared {
    /// Newer than what the thread works by; it is taken out.
    told: Mutex<Option<Told>>,
}

enum Told {
    Shape(Box<Shaper>),
    End,
}

/// A relay that runs.
pub(super) struct Relay {
    shared: Arc<Shared>,
    bell: UnixStream,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Relay")
    }
}

/// What becomes of packets that are larger than a network card sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Large {
    /// They come as one.
    Whole,
    /// The kernel cuts them up before they wait: it takes its time, and needs no change of an interface.
    CutUp,
}

/// Opens the queue of the place in whose network namespace the calling thread is.
pub(super) fn queue(large: Large) -> Result<Socket, Refusal> {
    let mut socket = Socket::open(libc::NETLINK_NETFILTER)?;
    socket.request(config(|m| {
        // A command, padding, and a protocol family that nobody looks at any more.
        m.put(CONFIG_COMMAND, &[COMMAND_BIND, 0, 0, 0]);
    }))?;
    socket.request(config(|m| {
        m.put(CONFIG_PARAMS, &[&COPIED_BYTES.to_be_bytes()[..], &[COPY_PACKET]].concat());
        m.put(CONFIG_MAX_LEN, &QUEUE_PACKETS.to_be_bytes());
        let flags = if large == Large::Whole { FLAG_GSO } else { 0 };
        m.put(CONFIG_MASK, &FLAG_GSO.to_be_bytes()).put(CONFIG_FLAGS, &flags.to_be_bytes());
    }))?;
    // A packet that the socket has no room for is lost: as much as the system grants.
    socket.ask_for_room(ROOM_BYTES);
    Ok(socket)
}

impl Relay {
    /// Starts one that serves these queues.
    pub(super) fn start(queues: Vec<Socket>) -> io::Result<Relay> {
        let shared = Arc::new(Shared::default());
        let (bell, heard) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        let thread = {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name("relay".to_owned()).spawn(move || {
                Worker { queues, shared, heard, waiting: BTreeMap::new(), held: Vec::new(), taken: 0 }.run()
            })?
        };
        Ok(Relay { shared, bell, thread: Some(thread) })
    }

    /// Replaces delays, limits and what is held; what waits is let go, but for what is still held.
    ///
    /// Errors: the relay has ended, and why.
    pub(super) fn shape(
        &mut self,
        delays: &BTreeMap<Pair, Lag>,
        limits: Vec<Limit>,
        held: BTreeSet<Flow>,
    ) -> io::Result<()> {
        self.tell(Told::Shape(Box::new(Shaper::new(delays, limits, held))));
        match &self.thread {
            Some(thread) if !thread.is_finished() => Ok(()),
            _ => Err(self.end().err().unwrap_or_else(|| io::Error::other("the relay has ended"))),
        }
    }

    fn tell(&mut self, told: Told) {
        *self.shared.told.lock().expect("no holder panics") = Some(told);
        // A bell that is full has not been heard yet, and will be.
        let _ = self.bell.write(&[0]);
    }

    fn end(&mut self) -> io::Result<()> {
        self.tell(Told::End);
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(ended) => ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // What it has not been told of yet the kernel drops with its socket.
        let _ = self.end();
    }
}

fn message(kind: u16) -> Message {
    let [high, low] = QUEUE.to_be_bytes();
    Message::new(kind, 0, &[libc::AF_UNSPEC as u8, 0, high, low])
}

fn config(fill: impl FnOnce(&mut Message)) -> Message {
    let mut m = message(CONFIG);
    fill(&mut m);
    m
}

/// A packet by its queue's position and its number there.
#[derive(Clone, Copy)]
struct Waiting {
    queue: usize,
    number: u32,
}

struct Worker {
    queues: Vec<Socket>,
    shared: Arc<Shared>,
    heard: UnixStream,
    /// Packets, by when they go on and in which order they came.
    waiting: BTreeMap<(i64, u64), Waiting>,
    /// Those that wait until they are let go, in the order in which they came.
    held: Vec<(Flow, Waiting)>,
    taken: u64,
}

impl Worker {
    fn run(mut self) -> io::Result<()> {
        let began = Instant::now();
        let now_ns = || i64::try_from(began.elapsed().as_nanos()).expect("a run takes no centuries");
        let mut shaper = Shaper::new(&BTreeMap::new(), Vec::new(), BTreeSet::new());
        let mut buffer = vec![0; 64 << 10];
        loop {
            let next_ns = self.waiting.first_key_value().map(|((at_ns, _), _)| at_ns - now_ns());
            let wait = next_ns.map_or(IDLE, |ns| Duration::from_nanos(u64::try_from(ns).unwrap_or(0)));
            let fds: Vec<_> =
                [sys::fd(&self.heard)].into_iter().chain(self.queues.iter().map(sys::fd)).collect();
            let ready = sys::readable(&fds, wait)?;
            while self.heard.read(&mut buffer).is_ok_and(|read| read > 0) {}
            let told = self.shared.told.lock().expect("no holder panics").take();
            match told {
                Some(Told::End) => return self.let_go(&BTreeSet::new()),
                Some(Told::Shape(new)) => {
                    shaper = *new;
                    self.let_go(&shaper.held)?;
                }
                None => {}
            }
            for queue in (0..self.queues.len()).filter(|queue| ready[1 + queue]) {
                for _ in 0..AT_ONCE {
                    let Some(len) = self.queues[queue].receive_now(&mut buffer)? else { break };
                    self.take(queue, &buffer[..len], &mut shaper, now_ns())?;
                }
            }
            self.go_on(now_ns())?;
        }
    }

    fn take(&mut self, queue: usize, bytes: &[u8], shaper: &mut Shaper, now_ns: i64) -> io::Result<()> {
        for (kind, payload) in netlink::messages(bytes) {
            if kind != PACKET {
                continue;
            }
            let Some((number, packet)) = payload.get(4..).and_then(parse) else { continue };
            let held = packet.flow.filter(|flow| shaper.held.contains(flow));
            // What is held costs no limit anything.
            let release_ns = if held.is_some() { Some(i64::MAX) } else { shaper.release_ns(&packet, now_ns) };
            match release_ns {
                Some(at_ns) => self.wait(held, at_ns, Waiting { queue, number }),
                None => self.queues[queue].post([verdict(number, NF_DROP)])?,
            }
        }
        Ok(())
    }

    /// Lets all packets go that wait, but for those of connections that are still held.
    fn let_go(&mut self, still_held: &BTreeSet<Flow>) -> io::Result<()> {
        for (flow, packet) in std::mem::take(&mut self.held) {
            self.wait(Some(flow).filter(|flow| still_held.contains(flow)), i64::MIN, packet);
        }
        self.go_on(i64::MAX)
    }

    /// Has a packet wait: until its connection is let go, or until then.
    fn wait(&mut self, held: Option<Flow>, at_ns: i64, packet: Waiting) {
        match held {
            Some(flow) => self.held.push((flow, packet)),
            None => drop(self.waiting.insert((at_ns, self.taken), packet)),
        }
        self.taken += 1;
    }

    /// Lets packets go on that are due.
    fn go_on(&mut self, now_ns: i64) -> io::Result<()> {
        let mut verdicts: Vec<Vec<Message>> = vec![Vec::new(); self.queues.len()];
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 <= now_ns) {
            let Waiting { queue, number } = first.remove();
            verdicts[queue].push(verdict(number, NF_ACCEPT));
            if verdicts[queue].len() >= VERDICTS_PER_SEND {
                self.queues[queue].post(verdicts[queue].drain(..))?;
            }
        }
        for (queue, verdicts) in
            self.queues.iter_mut().zip(verdicts).filter(|(_, verdicts)| !verdicts.is_empty())
        {
            queue.post(verdicts)?;
        }
        Ok(())
    }
}

fn verdict(number: u32, what: u32) -> Message {
    let mut m = message(VERDICT);
    m.put(VERDICT_HEADER, &[what.to_be_bytes(), number.to_be_bytes()].concat());
    m
}

/// A packet and its number, of what the kernel says of it.
fn parse(attributes: &[u8]) -> Option<(u32, Packet)> {
    let word = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?));
    let number = word(netlink::attribute(attributes, PACKET_HEADER)?)?;
    let header = netlink::attribute(attributes, PACKET_PAYLOAD)?;
    let size = netlink::attribute(attributes, PACKET_LEN).and_then(word);
    let address = |at: usize| Some(Ipv4Addr::from(word(header.get(at..)?)?));
    let pair = (address(12)?, address(16)?);
    let port = |at: usize| Some(u16::from_be_bytes(header.get(at..at + 2)?.try_into().ok()?));
    let ports = (port(HEADER_SIZE_BYTES), port(HEADER_SIZE_BYTES + 2));
    let flow = match (header.first(), header.get(9), ports) {
        (Some(&HEADER_WITHOUT_OPTIONS), Some(&TCP), (Some(from), Some(to))) => {
            Some((SocketAddrV4::new(pair.0, from), SocketAddrV4::new(pair.1, to)))
        }
        _ => None,
    };
    let packet =
        Packet { pair, flow, tos: *header.get(1)?, size_bytes: size.map_or(header.len() as u64, u64::from) };
    Some((number, packet))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 10);
    const B: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 11);
    const MS: i64 = 1_000_000;
    const LAG: Lag = Lag { delay: Duration::from_millis(20), jitter: Duration::ZERO };

    fn packet(pair: Pair, size_bytes: u64) -> Packet {
        Packet { pair, flow: None, tos: 0, size_bytes }
    }

    #[test]
    fn delays_are_those_of_their_pairs() {
        let mut shaper = Shaper::new(&BTreeMap::from([((A, B), LAG)]), Vec::new(), BTreeSet::new());
        assert_eq!(shaper.release_ns(&packet((A, B), 100), 7), Some(7 + 20 * MS));
        assert_eq!(shaper.release_ns(&packet((B, A), 100), 7), Some(7));
    }

    #[test]
    fn jitter_is_drawn_for_each_packet_and_leaves_connections_in_order() {
        let lag = Lag { jitter: Duration::from_millis(100), ..LAG };
        let mut shaper = Shaper::new(&BTreeMap::from([((A, B), lag)]), Vec::new(), BTreeSet::new());
        let flow = |port| Some((SocketAddrV4::new(A, port), SocketAddrV4::new(B, 9092)));
        // Of no connection: each as it is drawn, one a millisecond.
        let alone: Vec<i64> = (0..200)
            .filter_map(|n| Some(shaper.release_ns(&packet((A, B), 100), n * MS)? - n * MS))
            .collect();
        assert!(alone.iter().all(|ns| (20 * MS..=120 * MS).contains(ns)), "{alone:?}");
        let (least, most) = (alone.iter().min().expect("some"), alone.iter().max().expect("some"));
        assert!(most - least > 80 * MS, "{least} to {most}");
        for port in 1..=3000 {
            let of_one = |n: i64, shaper: &mut Shaper| {
                shaper.release_ns(&Packet { flow: flow(port), ..packet((A, B), 100) }, n * MS)
            };
            // Later connections begin later: what is over by then is forgotten.
            let began = i64::from(port);
            let released: Vec<i64> = (began..began + 9).filter_map(|n| of_one(n, &mut shaper)).collect();
            assert!(released.is_sorted() && released.len() == 9, "{released:?}");
        }
        assert!(shaper.last_ns.len() <= REMEMBERED_FLOWS, "{}", shaper.last_ns.len());
    }

    #[test]
    fn limits_let_a_burst_through_and_then_so_much() {
        let bytes_per_s = 10_000;
        let limit = Limit { pairs: vec![(A, B)], bytes_per_s };
        let mut shaper = Shaper::new(&BTreeMap::new(), vec![limit], BTreeSet::new());
        for start_ms in [0, 1_000_000] {
            let sent: Vec<Option<i64>> =
                (0..100).map(|_| shaper.release_ns(&packet((A, B), 1000), start_ms * MS)).collect();
            let (now, later): (Vec<_>, Vec<_>) =
                sent.into_iter().flatten().partition(|at| *at == start_ms * MS);
            // The burst, then a second of the buffer, then one that began to be sent within it.
            assert_eq!(now.len() as u64, BURST_BYTES / 1000);
            let gaps: Vec<i64> = later.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(gaps.iter().all(|gap| *gap == 100 * MS), "{gaps:?}");
            assert_eq!(later.len(), 11);
        }
        assert_eq!(shaper.release_ns(&packet((B, A), 1_000_000), 0), Some(0));
    }

    #[test]
    fn what_one_limit_refuses_costs_no_other_anything() {
        let limit = |pairs: &[Pair], bytes_per_s| Limit { pairs: pairs.to_vec(), bytes_per_s };
        let limits = vec![limit(&[(A, B)], 1000), limit(&[(A, B), (B, A)], 1_000_000)];
        let mut shaper = Shaper::new(&BTreeMap::new(), limits, BTreeSet::new());
        assert!(shaper.release_ns(&packet((A, B), BURST_BYTES + 5000), 0).is_some());
        let before = shaper.buckets[1].free_ns;
        assert_eq!(shaper.release_ns(&packet((A, B), 5000), 0), None);
        assert_eq!(shaper.buckets[1].free_ns, before);
    }

    /// Each kind of probe meets only what it is about, and a budget of its own.
    #[test]
    fn probes_are_apart() {
        let limit = Limit { pairs: vec![(A, B)], bytes_per_s: 1000 };
        let delays = BTreeMap::from([((A, B), LAG)]);
        let mut shaper = Shaper::new(&delays, vec![limit], BTreeSet::new());
        let probe =
            |kind: Kind, size_bytes| Packet { pair: (A, B), flow: None, tos: kind.services()[0], size_bytes };
        assert!(shaper.release_ns(&packet((A, B), BURST_BYTES + 1000), 0).is_some());
        assert_eq!(shaper.release_ns(&probe(Kind::Delay, 1000), 0), Some(20 * MS));
        assert_eq!(shaper.release_ns(&probe(Kind::Rate, BURST_BYTES), 0), Some(0));
        assert_eq!(shaper.release_ns(&probe(Kind::Rate, 1000), 0), Some(1000 * MS));
        assert_eq!(shaper.release_ns(&packet((A, B), 1000), 0), Some(2020 * MS));
    }

    #[test]
    fn what_the_kernel_says_of_a_packet_is_read() {
        let mut m = message(PACKET);
        m.put(PACKET_HEADER, &[0, 0, 0, 9, 8, 0, 2]);
        let header =
            [&[0x45, 0x4c], &[0; 7][..], &[TCP, 0, 0], &A.octets(), &B.octets(), &[0, 5, 0, 6]].concat();
        m.put(PACKET_LEN, &1500_u32.to_be_bytes()).put(PACKET_PAYLOAD, &header);
        let (number, packet) = m.family_payload(4).and_then(parse).expect("all is there");
        assert_eq!((number, packet.pair, packet.tos, packet.size_bytes), (9, (A, B), 0x4c, 1500));
        let flow = (SocketAddrV4::new(A, 5), SocketAddrV4::new(B, 6));
        assert_eq!(packet.flow, Some(flow));
        for len in 0..HEADER_SIZE_BYTES {
            let mut m = message(PACKET);
            m.put(PACKET_HEADER, &[0, 0, 0, 9, 8, 0, 2]).put(PACKET_PAYLOAD, &header[..len]);
            assert!(m.family_payload(4).and_then(parse).is_none(), "{len} bytes");
        }
    }
}
