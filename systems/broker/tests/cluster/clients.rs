//! What clients that work and watch have in common.

use crate::wire::{Done, Wire};
use bytes::Bytes;
use riprap_env::random::Draws;
use riprap_env::{Effect, Effects, Env, Event, Node};
use riprap_protocol::Request;
use riprap_protocol::frame::decode_response;
use riprap_protocol::messages::*;
use std::collections::BTreeMap;

pub(crate) const TOPIC: &str = "t";
pub(crate) const PARTITIONS: i32 = 2;
const TICK_NS: u64 = 20_000_000;
const METADATA_VERSION: i16 = 12;

/// What a client does with its connections.
pub(crate) trait Work {
    /// What it remembers of a request.
    type Call;
    /// Does what can be done now.
    fn tick(&mut self, io: &mut Io<'_, Self::Call>);
    /// Takes in an answer, or that there will be none.
    fn done(&mut self, io: &mut Io<'_, Self::Call>, done: Done<Self::Call>);
}

pub(crate) struct Io<'a, C> {
    pub(crate) now_ns: u64,
    pub(crate) wire: &'a mut Wire<C>,
    pub(crate) effects: &'a mut Effects,
    pub(crate) brokers: &'a [i32],
    pub(crate) draws: &'a mut Draws,
}

impl<C> Io<'_, C> {
    pub(crate) fn send<R: Request>(&mut self, broker: i32, version: i16, body: &R, call: C) -> bool {
        self.wire.send(self.now_ns, broker, version, body, call, self.effects)
    }

    pub(crate) fn any_broker(&mut self) -> i32 {
        let index = self.draws.next_u64("broker") as usize % self.brokers.len();
        self.brokers[index]
    }
}

/// A client as a node.
pub(crate) struct Client<W: Work> {
    work: W,
    wire: Wire<W::Call>,
    brokers: Vec<i32>,
    draws: Draws,
}

impl<W: Work> Client<W> {
    pub(crate) fn new(work: W, brokers: &[(i32, String)], seed: u64, name: &str) -> Client<W> {
        let ids = brokers.iter().map(|(id, _)| *id).collect();
        Client { work, wire: Wire::new(brokers), brokers: ids, draws: Draws::new(seed, name) }
    }
}

impl<W: Work> Node for Client<W> {
    fn step(&mut self, now_ns: u64, event: Event, _env: &mut dyn Env, _effects: &mut Effects) {
        match event {
            Event::Connected { conn } => self.wire.connected(conn),
            Event::Received { conn, bytes } => self.wire.received(conn, &bytes),
            Event::Closed { conn } => self.wire.closed(now_ns, conn),
            _ => {}
        }
    }

    fn settle(&mut self, now_ns: u64, _env: &mut dyn Env, effects: &mut Effects) {
        self.wire.tick(now_ns, effects);
        for done in std::mem::take(&mut self.wire.done) {
            let (wire, brokers, draws) = (&mut self.wire, self.brokers.as_slice(), &mut self.draws);
            let mut io = Io { now_ns, wire, effects, brokers, draws };
            self.work.done(&mut io, done);
        }
        let (wire, brokers, draws) = (&mut self.wire, self.brokers.as_slice(), &mut self.draws);
        self.work.tick(&mut Io { now_ns, wire, effects, brokers, draws });
        effects.push(Effect::WakeAt { at_ns: now_ns + TICK_NS });
    }
}

/// Who leads what, as far as a client knows.
pub(crate) struct Leaders {
    topic: &'static str,
    by_partition: BTreeMap<i32, (i32, i32)>,
    is_asking: bool,
    is_stale: bool,
    retry_at_ns: u64,
    pub(crate) topic_id: Option<String>,
}

impl Default for Leaders {
    fn default() -> Leaders {
        Leaders::of(TOPIC)
    }
}

impl Leaders {
    pub(crate) fn of(topic: &'static str) -> Leaders {
        Leaders {
            topic,
            by_partition: BTreeMap::new(),
            is_asking: false,
            is_stale: false,
            retry_at_ns: 0,
            topic_id: None,
        }
    }

    pub(crate) fn get(&self, partition: i32) -> Option<(i32, i32)> {
        self.by_partition.get(&partition).copied()
    }

    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        !self.is_asking
            && (self.is_stale || self.by_partition.len() < PARTITIONS as usize)
            && self.retry_at_ns <= now_ns
    }

    pub(crate) fn ask<C>(&mut self, io: &mut Io<'_, C>, call: C) {
        let topic = MetadataRequestTopic { name: Some(self.topic.to_owned()), ..Default::default() };
        let request = MetadataRequest {
            topics: Some(vec![topic]),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let to = io.any_broker();
        self.is_asking = io.send(to, METADATA_VERSION, &request, call);
        self.retry_at_ns = io.now_ns + 100_000_000;
    }

    pub(crate) fn answered(&mut self, frame: Option<Bytes>) {
        self.is_asking = false;
        let Some(frame) = frame else { return };
        let (_, response) =
            decode_response::<MetadataRequest>(frame, METADATA_VERSION).expect("brokers answer well");
        if let Some(topic) = response.topics.first().filter(|topic| topic.error_code.is_none()) {
            self.topic_id = Some(topic.topic_id.to_string());
        }
        for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
            let known = self.by_partition.get(&partition.index).map_or(-1, |(_, epoch)| *epoch);
            // A broker that is behind is not believed.
            if partition.leader_id >= 0 && partition.leader_epoch >= known {
                self.by_partition.insert(partition.index, (partition.leader_id, partition.leader_epoch));
            }
        }
        self.is_stale = false;
    }

    pub(crate) fn doubt(&mut self) {
        self.is_stale = true;
    }
}
