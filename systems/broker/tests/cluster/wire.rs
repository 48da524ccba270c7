//! A tiny client: one connection to each broker, requests with deadlines, answers by request.

use bytes::Bytes;
use riprap_env::{ConnId, Effect, Effects};
use riprap_protocol::Request;
use riprap_protocol::frame::{FrameReader, RequestHeader, correlation_id, encode_request};
use std::collections::BTreeMap;

/// How long a request may take before its connection is given up. Units: nanoseconds.
pub(crate) const TIMEOUT_NS: u64 = 3_000_000_000;
const RECONNECT_NS: u64 = 100_000_000;

enum State {
    Down { retry_at_ns: u64 },
    Connecting { conn: ConnId, since_ns: u64 },
    Up { conn: ConnId, reader: FrameReader },
}

struct Link<C> {
    address: String,
    state: State,
    in_flight: BTreeMap<i32, (C, u64)>,
}

/// What became of a request: its answer, or none and nobody knows.
pub(crate) struct Done<C> {
    pub(crate) call: C,
    pub(crate) frame: Option<Bytes>,
}

pub(crate) struct Wire<C> {
    links: BTreeMap<i32, Link<C>>,
    opened: u64,
    next: i32,
    pub(crate) done: Vec<Done<C>>,
}

impl<C> Wire<C> {
    pub(crate) fn new(brokers: &[(i32, String)]) -> Wire<C> {
        let link = |address: &String| Link {
            address: address.clone(),
            state: State::Down { retry_at_ns: 0 },
            in_flight: BTreeMap::new(),
        };
        let links = brokers.iter().map(|(id, address)| (*id, link(address))).collect();
        Wire { links, opened: 0, next: 0, done: Vec::new() }
    }

    pub(crate) fn is_up(&self, broker: i32) -> bool {
        self.links.get(&broker).is_some_and(|link| matches!(link.state, State::Up { .. }))
    }

    /// Sends a request; says false if the connection does not stand.
    pub(crate) fn send<R: Request>(
        &mut self,
        now_ns: u64,
        broker: i32,
        version: i16,
        body: &R,
        call: C,
        effects: &mut Effects,
    ) -> bool {
        let Some(Link { state: State::Up { conn, .. }, in_flight, .. }) = self.links.get_mut(&broker) else {
            return false;
        };
        let correlation_id = self.next;
        self.next += 1;
        let client_id = Some("test".to_owned());
        let header = RequestHeader { api_key: R::KEY, api_version: version, correlation_id, client_id };
        let bytes = encode_request(&header, body).expect("the test's requests fit their versions");
        in_flight.insert(correlation_id, (call, now_ns + TIMEOUT_NS));
        effects.push(Effect::Send { conn: *conn, bytes });
        true
    }

    pub(crate) fn connected(&mut self, conn: ConnId) {
        for link in self.links.values_mut() {
            if matches!(link.state, State::Connecting { conn: waiting, .. } if waiting == conn) {
                link.state = State::Up { conn, reader: FrameReader::new(100 << 20) };
            }
        }
    }

    pub(crate) fn received(&mut self, conn: ConnId, bytes: &[u8]) {
        for link in self.links.values_mut() {
            if let State::Up { conn: up, reader } = &mut link.state
                && *up == conn
            {
                reader.push(bytes);
                while let Some(frame) = reader.next_frame().expect("brokers answer in frames") {
                    let id = correlation_id(&frame).expect("brokers answer with a header");
                    let (call, _) = link.in_flight.remove(&id).expect("brokers answer what was asked");
                    self.done.push(Done { call, frame: Some(frame) });
                }
            }
        }
    }

    pub(crate) fn closed(&mut self, now_ns: u64, conn: ConnId) {
        for link in self.links.values_mut() {
            let is_it = match &link.state {
                State::Up { conn: c, .. } | State::Connecting { conn: c, .. } => *c == conn,
                State::Down { .. } => false,
            };
            if is_it {
                link.state = State::Down { retry_at_ns: now_ns + RECONNECT_NS };
                let lost = std::mem::take(&mut link.in_flight).into_values();
                self.done.extend(lost.map(|(call, _)| Done { call, frame: None }));
            }
        }
    }

    pub(crate) fn tick(&mut self, now_ns: u64, effects: &mut Effects) {
        let mut given_up = Vec::new();
        for link in self.links.values_mut() {
            match &link.state {
                State::Down { retry_at_ns } if *retry_at_ns <= now_ns => {
                    self.opened += 1;
                    let conn = ConnId::opened_by_node(self.opened);
                    link.state = State::Connecting { conn, since_ns: now_ns };
                    effects.push(Effect::Connect { conn, to: link.address.clone() });
                }
                State::Connecting { conn, since_ns } if since_ns + TIMEOUT_NS / 3 <= now_ns => {
                    given_up.push(*conn)
                }
                State::Up { conn, .. } if link.in_flight.values().any(|(_, by)| *by <= now_ns) => {
                    given_up.push(*conn);
                }
                _ => {}
            }
        }
        for conn in given_up {
            effects.push(Effect::Close { conn });
            self.closed(now_ns, conn);
        }
    }
}
