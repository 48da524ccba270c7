//! A cluster of one broker in virtual time, and connections to it.

use bytes::Bytes;
use riprap_broker::{Address, Broker, BrokerConfig, BrokerId};
use riprap_env::random::Draws;
use riprap_env::{ConnId, Disk, Effect, Effects, Env, Event, LogLevel, MemDisk, Node};
use riprap_protocol::Request;
use riprap_protocol::frame::{FrameReader, RequestHeader, decode_response, encode_request};
use std::collections::BTreeMap;
use std::fmt;

struct Quiet {
    disk: MemDisk,
    draws: Draws,
}

impl Env for Quiet {
    fn disk(&mut self) -> &mut dyn Disk {
        &mut self.disk
    }

    fn wall_clock_ms(&self) -> i64 {
        0
    }

    fn random_u64(&mut self, purpose: &'static str) -> u64 {
        self.draws.next_u64(purpose)
    }

    fn log(&mut self, _level: LogLevel, _module: &'static str, _line: fmt::Arguments<'_>) {}
}

/// A cluster of one broker, and its connections.
pub(crate) struct Bench {
    broker: Broker,
    env: Quiet,
    now_ns: u64,
    wake_at_ns: u64,
    opened: u64,
    pub(crate) sent: BTreeMap<ConnId, Vec<Bytes>>,
    closed: Vec<ConnId>,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let address = Address { host: "n1".to_owned(), port: 9092 };
        let config = BrokerConfig::new(BrokerId(1), [(BrokerId(1), address)].into());
        let mut bench = Bench {
            broker: Broker::new(config).expect("the configuration works"),
            env: Quiet { disk: MemDisk::new(), draws: Draws::new(1, "n1") },
            now_ns: 0,
            wake_at_ns: 0,
            opened: 0,
            sent: BTreeMap::new(),
            closed: Vec::new(),
        };
        bench.happen(Event::Start);
        bench.wait_ms(3000);
        bench
    }

    fn happen(&mut self, event: Event) {
        let mut effects = Effects::new();
        self.broker.step(self.now_ns, event, &mut self.env, &mut effects);
        self.broker.settle(self.now_ns, &mut self.env, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send { conn, bytes } => self.sent.entry(conn).or_default().push(bytes),
                Effect::Close { conn } => self.closed.push(conn),
                Effect::WakeAt { at_ns } => self.wake_at_ns = at_ns,
                Effect::Connect { .. } => panic!("a broker alone connects to nobody"),
                Effect::Exit { status } => panic!("the broker ends with status {status}"),
            }
        }
    }

    pub(crate) fn wait_ms(&mut self, ms: u64) {
        let until_ns = self.now_ns + ms * 1_000_000;
        while self.wake_at_ns <= until_ns {
            self.now_ns = self.wake_at_ns.max(self.now_ns + 1);
            self.happen(Event::Wake);
        }
        self.now_ns = until_ns;
    }

    pub(crate) fn connect(&mut self) -> ConnId {
        let conn = ConnId::accepted_by_driver(self.opened);
        self.opened += 1;
        self.happen(Event::Accepted { conn, peer: "somebody:1".to_owned() });
        conn
    }

    pub(crate) fn send(&mut self, conn: ConnId, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        if !bytes.is_empty() && !self.closed.contains(&conn) {
            self.happen(Event::Received { conn, bytes });
        }
    }

    pub(crate) fn hang_up(&mut self, conn: ConnId) {
        self.happen(Event::Closed { conn });
        self.closed.retain(|closed| *closed != conn);
        self.sent.remove(&conn);
    }

    /// Asks and is answered, within some seconds. Panics: the broker does not answer.
    pub(crate) fn ask<R: Request>(&mut self, conn: ConnId, version: i16, body: &R) -> R::Response {
        /// The longest wait is a new group's for its members.
        const PATIENCE_MS: u64 = 10_000;
        const STEP_MS: u64 = 20;
        self.send(conn, request(version, body));
        let mut reader = FrameReader::new(10 << 20);
        for _ in 0..PATIENCE_MS / STEP_MS {
            self.wait_ms(STEP_MS);
            for bytes in self.sent.remove(&conn).unwrap_or_default() {
                reader.push(&bytes);
            }
            if let Some(frame) = reader.next_frame().expect("a frame") {
                return decode_response::<R>(frame, version).expect("an answer that can be read").1;
            }
        }
        panic!("no answer to {} version {version}", R::KEY)
    }
}

pub(crate) fn request<R: Request>(version: i16, body: &R) -> Bytes {
    let header = RequestHeader {
        api_key: R::KEY,
        api_version: version,
        correlation_id: 7,
        client_id: Some("c".to_owned()),
    };
    encode_request(&header, body).expect("the test's requests fit their versions")
}
