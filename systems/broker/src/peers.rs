//! Connections that this broker opens to others.
//!
//! Six to each: messages of the metadata quorum, a follower's fetches, requests to the controller, clients' requests
//! passed on to it, questions to coordinators of transactions, and their markers, so that none waits behind another: a
//! heartbeat behind a topic that is being made would come too late. Each request has a deadline; when one is missed the
//! connection is given up with all that is on its way, and made anew after a pause that doubles up to a limit.
//!
//! Whom there are connections to changes while the broker runs ([`Peers::reach`]): brokers register, move and are
//! unregistered.

use crate::config::Address;
use crate::ids::BrokerId;
use bytes::Bytes;
use riprap_env::{ConnId, Effect, Effects};
use riprap_protocol::Request;
use riprap_protocol::frame::{
    FrameReader, MAX_RESPONSE_SIZE_BYTES, RequestHeader, correlation_id, encode_request,
};
use std::cell::Cell;
use std::collections::BTreeMap;

/// The first pause before a connection is tried again. Units: nanoseconds.
const MIN_BACKOFF_NS: u64 = 20_000_000;
/// The longest: short against the session timeout, so that a healed network is used soon.
const MAX_BACKOFF_NS: u64 = 250_000_000;
/// How long a connection may take to stand: a local network needs less, and a lost SYN is soonest mended by another.
const CONNECT_TIMEOUT_NS: u64 = 500_000_000;
/// Most requests on their way on one connection. The quorum's messages are the only ones of which there are many.
const MAX_IN_FLIGHT: usize = 64;
/// Most bytes on their way on one connection.
const MAX_IN_FLIGHT_BYTES: usize = 32 << 20;

/// What a connection to a peer is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Purpose {
    Control,
    Fetch,
    Forward,
    Markers,
    Quorum,
    Transactions,
}

impl Purpose {
    const ALL: [Purpose; 6] = [
        Purpose::Control,
        Purpose::Fetch,
        Purpose::Forward,
        Purpose::Markers,
        Purpose::Quorum,
        Purpose::Transactions,
    ];
}

/// A connection's name: whom it goes to, and what for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LinkId {
    pub(crate) to: BrokerId,
    pub(crate) purpose: Purpose,
}

#[derive(Debug)]
enum State {
    Down { retry_at_ns: u64 },
    Connecting { conn: ConnId, give_up_at_ns: u64 },
    Up { conn: ConnId, reader: FrameReader },
}

#[derive(Debug)]
struct Sent<C> {
    call: C,
    deadline_ns: u64,
    size_bytes: usize,
}

#[derive(Debug)]
struct Link<C> {
    state: State,
    backoff_ns: u64,
    in_flight: BTreeMap<i32, Sent<C>>,
}

/// Something that happened to a connection.
#[derive(Debug)]
pub(crate) enum LinkEvent<C> {
    /// It stands: requests can be sent.
    Up(LinkId),
    /// A request was answered. Shape: the frame without its size field.
    Answered { from: BrokerId, call: C, frame: Bytes },
    /// A request will not be answered. Whether it took effect is not known.
    Lost { to: BrokerId, call: C },
}

/// The connections to all peers. `C` is what the owner remembers of a request.
#[derive(Debug)]
pub(crate) struct Peers<C> {
    addresses: BTreeMap<BrokerId, Address>,
    links: BTreeMap<LinkId, Link<C>>,
    conns: BTreeMap<ConnId, LinkId>,
    opened: u64,
    next_correlation_id: i32,
    events: Vec<LinkEvent<C>>,
    /// When a tick has something to do, if that was worked out since a connection changed: both it and the wake-up ask in
    /// each turn of the broker, and few turns change a connection.
    due_ns: Cell<Option<Option<u64>>>,
}

impl<C> Peers<C> {
    pub(crate) fn new() -> Peers<C> {
        Peers {
            addresses: BTreeMap::new(),
            links: BTreeMap::new(),
            conns: BTreeMap::new(),
            opened: 0,
            next_correlation_id: 0,
            events: Vec::new(),
            due_ns: Cell::new(None),
        }
    }

    /// Has connections to those brokers, and to no others. Where one is elsewhere than before, what is on its way to it is
    /// lost.
    pub(crate) fn reach(
        &mut self,
        now_ns: u64,
        addresses: BTreeMap<BrokerId, Address>,
        effects: &mut Effects,
    ) {
        self.due_ns.set(None);
        let before = std::mem::replace(&mut self.addresses, addresses);
        for (to, address) in before {
            if self.addresses.get(&to) == Some(&address) {
                continue;
            }
            for purpose in Purpose::ALL {
                let id = LinkId { to, purpose };
                if let Some(State::Connecting { conn, .. } | State::Up { conn, .. }) =
                    self.links.get(&id).map(|link| &link.state)
                {
                    let conn = *conn;
                    self.give_up(now_ns, conn, effects);
                }
                self.links.remove(&id);
            }
        }
        for to in self.addresses.keys() {
            for purpose in Purpose::ALL {
                let state = State::Down { retry_at_ns: now_ns };
                let link = Link { state, backoff_ns: MIN_BACKOFF_NS, in_flight: BTreeMap::new() };
                self.links.entry(LinkId { to: *to, purpose }).or_insert(link);
            }
        }
    }

    /// Where brokers are reached.
    pub(crate) fn addresses(&self) -> &BTreeMap<BrokerId, Address> {
        &self.addresses
    }

    /// What happened since the last [`take_events`](Peers::take_events).
    pub(crate) fn events(&self) -> &[LinkEvent<C>] {
        &self.events
    }

    /// What happened since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<LinkEvent<C>> {
        std::mem::take(&mut self.events)
    }

    /// How many requests are on their way on a connection.
    pub(crate) fn in_flight(&self, id: LinkId) -> impl Iterator<Item = &C> {
        self.links.get(&id).into_iter().flat_map(|link| link.in_flight.values().map(|sent| &sent.call))
    }

    /// Whether requests can be sent.
    pub(crate) fn is_up(&self, id: LinkId) -> bool {
        self.links.get(&id).is_some_and(|link| matches!(link.state, State::Up { .. }))
    }

    /// The number of a connection that stands: the later it was opened, the greater.
    pub(crate) fn connection(&self, id: LinkId) -> Option<i64> {
        match &self.links.get(&id)?.state {
            State::Up { conn, .. } => Some(conn.0 as i64),
            State::Down { .. } | State::Connecting { .. } => None,
        }
    }

    /// Sends a request. Otherwise gives `call` back: the connection does not stand, or too much is on its way.
    pub(crate) fn send<R: Request>(
        &mut self,
        id: LinkId,
        version: i16,
        body: &R,
        call: C,
        deadline_ns: u64,
        effects: &mut Effects,
    ) -> Result<(), C> {
        let Some(link) = self.links.get_mut(&id) else { return Err(call) };
        let State::Up { conn, .. } = &link.state else { return Err(call) };
        let conn = *conn;
        let bytes_in_flight: usize = link.in_flight.values().map(|sent| sent.size_bytes).sum();
        if link.in_flight.len() >= MAX_IN_FLIGHT || bytes_in_flight >= MAX_IN_FLIGHT_BYTES {
            return Err(call);
        }
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = self.next_correlation_id.wrapping_add(1) & i32::MAX;
        let header = RequestHeader { api_key: R::KEY, api_version: version, correlation_id, client_id: None };
        let bytes = encode_request(&header, body).expect("requests among brokers fit their version");
        self.due_ns.set(None);
        link.in_flight.insert(correlation_id, Sent { call, deadline_ns, size_bytes: bytes.len() });
        effects.push(Effect::Send { conn, bytes });
        Ok(())
    }

    /// Opens what is down, gives up what takes too long.
    pub(crate) fn tick(&mut self, now_ns: u64, effects: &mut Effects) {
        if self.wake_at_ns().is_none_or(|at_ns| at_ns > now_ns) {
            return;
        }
        self.due_ns.set(None);
        let ids: Vec<LinkId> = self.links.keys().copied().collect();
        for id in ids {
            let link = self.links.get_mut(&id).expect("a connection has its link, and ids were just listed");
            match &link.state {
                State::Down { retry_at_ns } if *retry_at_ns <= now_ns => {
                    self.opened += 1;
                    let conn = ConnId::opened_by_node(self.opened);
                    link.state = State::Connecting { conn, give_up_at_ns: now_ns + CONNECT_TIMEOUT_NS };
                    self.conns.insert(conn, id);
                    effects.push(Effect::Connect { conn, to: self.addresses[&id.to].to_string() });
                }
                State::Connecting { conn, give_up_at_ns } if *give_up_at_ns <= now_ns => {
                    let conn = *conn;
                    self.give_up(now_ns, conn, effects);
                }
                State::Up { conn, .. } => {
                    let conn = *conn;
                    if link.in_flight.values().any(|sent| sent.deadline_ns <= now_ns) {
                        self.give_up(now_ns, conn, effects);
                    }
                }
                State::Down { .. } | State::Connecting { .. } => {}
            }
        }
    }

    /// When [`tick`](Peers::tick) has something to do.
    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        if let Some(due_ns) = self.due_ns.get() {
            return due_ns;
        }
        let due = |link: &Link<C>| match &link.state {
            State::Down { retry_at_ns } => Some(*retry_at_ns),
            State::Connecting { give_up_at_ns, .. } => Some(*give_up_at_ns),
            State::Up { .. } => link.in_flight.values().map(|sent| sent.deadline_ns).min(),
        };
        let due_ns = self.links.values().filter_map(due).min();
        self.due_ns.set(Some(due_ns));
        due_ns
    }

    /// A connection stands.
    pub(crate) fn connected(&mut self, conn: ConnId) {
        let Some(id) = self.conns.get(&conn) else { return };
        self.due_ns.set(None);
        let link = self.links.get_mut(id).expect("a connection has its link, and ids were just listed");
        link.state = State::Up { conn, reader: FrameReader::new(MAX_RESPONSE_SIZE_BYTES) };
        self.events.push(LinkEvent::Up(*id));
    }

    /// Takes in bytes; says false if the connection is none of these.
    pub(crate) fn received(
        &mut self,
        now_ns: u64,
        conn: ConnId,
        bytes: &[u8],
        effects: &mut Effects,
    ) -> bool {
        let Some(id) = self.conns.get(&conn).copied() else { return false };
        let link = self.links.get_mut(&id).expect("a connection has its link, and ids were just listed");
        let State::Up { reader, .. } = &mut link.state else { return true };
        self.due_ns.set(None);
        reader.push(bytes);
        loop {
            let answered = match reader.next_frame() {
                Ok(None) => return true,
                Ok(Some(frame)) => {
                    correlation_id(&frame).ok().and_then(|id| Some((link.in_flight.remove(&id)?, frame)))
                }
                Err(_) => None,
            };
            let Some((sent, frame)) = answered else {
                // Not what a broker answers: nothing that follows can be trusted either.
                self.give_up(now_ns, conn, effects);
                return true;
            };
            link.backoff_ns = MIN_BACKOFF_NS;
            self.events.push(LinkEvent::Answered { from: id.to, call: sent.call, frame });
        }
    }

    /// A connection is gone; says false if it is none of these.
    pub(crate) fn closed(&mut self, now_ns: u64, conn: ConnId) -> bool {
        let Some(id) = self.conns.remove(&conn) else { return false };
        self.due_ns.set(None);
        let link = self.links.get_mut(&id).expect("a connection has its link, and ids were just listed");
        link.state = State::Down { retry_at_ns: now_ns + link.backoff_ns };
        link.backoff_ns = (link.backoff_ns * 2).min(MAX_BACKOFF_NS);
        for (_, sent) in std::mem::take(&mut link.in_flight) {
            self.events.push(LinkEvent::Lost { to: id.to, call: sent.call });
        }
        true
    }

    fn give_up(&mut self, now_ns: u64, conn: ConnId, effects: &mut Effects) {
        effects.push(Effect::Close { conn });
        self.closed(now_ns, conn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_protocol::messages::BrokerHeartbeatRequest;

    fn addresses(ports: &[(i32, u16)]) -> BTreeMap<BrokerId, Address> {
        let address = |&(id, port): &(i32, u16)| (BrokerId(id), Address { host: "h".to_owned(), port });
        ports.iter().map(address).collect()
    }

    /// Where connections are opened, and how many are closed.
    fn seen(effects: &mut Effects) -> (Vec<String>, usize) {
        let all = std::mem::take(effects);
        let opened = all.iter().filter_map(|effect| match effect {
            Effect::Connect { to, .. } => Some(to.clone()),
            _ => None,
        });
        let mut opened: Vec<String> = opened.collect();
        opened.dedup();
        (opened, all.iter().filter(|effect| matches!(effect, Effect::Close { .. })).count())
    }

    #[test]
    fn who_is_reached_changes() {
        let (mut peers, mut effects) = (Peers::<&str>::new(), Effects::default());
        peers.reach(0, addresses(&[(1, 10), (2, 20)]), &mut effects);
        peers.tick(0, &mut effects);
        assert_eq!(seen(&mut effects), (vec!["h:10".to_owned(), "h:20".to_owned()], 0));
        let conns: Vec<ConnId> = peers.conns.keys().copied().collect();
        conns.iter().for_each(|conn| peers.connected(*conn));
        let link = LinkId { to: BrokerId(2), purpose: Purpose::Control };
        let body = BrokerHeartbeatRequest::default();
        peers.send(link, 0, &body, "asked", 1_000, &mut effects).expect("it stands");
        peers.take_events();
        // 2 is elsewhere now, and 3 is new; what was asked of 2 is lost.
        effects = Effects::default();
        peers.reach(0, addresses(&[(1, 10), (2, 21), (3, 30)]), &mut effects);
        assert_eq!(seen(&mut effects), (vec![], 6));
        let events = peers.take_events();
        assert!(matches!(&events[..], [LinkEvent::Lost { to: BrokerId(2), call: "asked" }]), "{events:?}");
        peers.tick(0, &mut effects);
        assert_eq!(seen(&mut effects), (vec!["h:21".to_owned(), "h:30".to_owned()], 0));
        // 2 is gone before its connections stood.
        peers.reach(0, addresses(&[(1, 10)]), &mut effects);
        assert_eq!(seen(&mut effects), (vec![], 12));
        peers.tick(u64::MAX / 2, &mut effects);
        assert_eq!(seen(&mut effects), (vec![], 0));
        assert!(peers.is_up(LinkId { to: BrokerId(1), purpose: Purpose::Control }));
    }
}
