//! What faults of nodes' links share: their shapes, whom they strike, and the proof from what was read of the links.

use crate::pick;
use riprap_core::cluster::{ClusterError, Links, NodeId, PerLink, Reading, Spread, UNLIMITED};
use riprap_core::fault::{Effect, Shape};
use riprap_core::seed::Stream;
use serde_json::{Map, Value as Json, json};

/// The shapes of a fault that strikes links of nodes: of each shape of [`ONE_TO_ALL`](crate::ONE_TO_ALL) three, over which links.
pub(crate) const LINKS: &[Shape] = &[
    Shape { name: "one", doc: "All links of one node.", min_nodes: 1 },
    Shape { name: "one-peers", doc: "The links of one node with other nodes.", min_nodes: 2 },
    Shape { name: "one-clients", doc: "The links of one node with clients.", min_nodes: 1 },
    Shape {
        name: "minority",
        doc: "All links of as many nodes as may fail with a majority left.",
        min_nodes: 3,
    },
    Shape { name: "minority-peers", doc: "The links of so many nodes with other nodes.", min_nodes: 3 },
    Shape { name: "minority-clients", doc: "The links of so many nodes with clients.", min_nodes: 3 },
    Shape { name: "majority", doc: "All links of the smallest majority of the nodes.", min_nodes: 2 },
    Shape { name: "majority-peers", doc: "The links of so many nodes with other nodes.", min_nodes: 2 },
    Shape { name: "majority-clients", doc: "The links of so many nodes with clients.", min_nodes: 2 },
    Shape { name: "all", doc: "All links of all nodes.", min_nodes: 1 },
    Shape { name: "all-peers", doc: "All links between nodes.", min_nodes: 2 },
    Shape { name: "all-clients", doc: "All links between nodes and clients.", min_nodes: 1 },
];

/// An aim at the links that a shape of [`LINKS`] hits. What is said of the links is `all`, `peers` or `clients`; an aim that
/// says nothing of them, as those written down by older versions, means all.
pub(crate) fn aim(shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
    let links = shape.name.split_once('-').map_or("all", |(_, links)| links);
    json!({"shape": shape.name, "nodes": pick(shape, nodes, random), "links": links})
}

/// The links that an aim names.
pub(crate) fn of(aim: &Json) -> Result<Links, ClusterError> {
    match &aim["links"] {
        Json::Null => Ok(Links::All),
        Json::String(word) if word == "all" => Ok(Links::All),
        Json::String(word) if word == "peers" => Ok(Links::Peers),
        Json::String(word) if word == "clients" => Ok(Links::Clients),
        other => {
            Err(ClusterError(format!("links {other}; one of \"all\", \"peers\", \"clients\" is expected")))
        }
    }
}

/// Whether a fault that struck these links spared all others: of a link of either kind, what it did is told.
pub(crate) fn spared<T: Default + PartialEq>(links: Links, done: &PerLink<T>) -> bool {
    let none = T::default();
    match links {
        Links::All => true,
        Links::Peers => done.clients == none,
        Links::Clients => done.peers == none,
    }
}

/// What was done to links, as evidence.
pub(crate) fn told<T: Into<Json>>(done: PerLink<T>) -> Json {
    json!({"peers": done.peers.into(), "clients": done.clients.into()})
}

/// Whether what was read of each node is `struck` on the links that were struck, and `sound` on all others.
///
/// A node that has no links of a kind is as it should be.
pub(crate) fn prove(
    links: Option<Links>,
    nodes: &[NodeId],
    readings: &[Reading],
    struck: impl Fn(Spread) -> bool,
    sound: impl Fn(Spread) -> bool,
) -> Effect {
    let fits = |is_struck: bool, spread: Option<Spread>| {
        spread.is_none_or(|spread| if is_struck { struck(spread) } else { sound(spread) })
    };
    let mut evidence = Map::new();
    let mut took_effect = true;
    for (node, read) in nodes.iter().zip(readings) {
        took_effect &= fits(matches!(links, Some(Links::All | Links::Peers)), read.peers);
        took_effect &= fits(matches!(links, Some(Links::All | Links::Clients)), read.clients);
        evidence.insert(
            node.to_string(),
            json!({"peers": told_spread(read.peers), "clients": told_spread(read.clients)}),
        );
    }
    Effect { took_effect, evidence: Json::Object(evidence) }
}

/// What was read of several links: one number if it is the same for all.
fn told_spread(spread: Option<Spread>) -> Json {
    let number = |read: u64| if read == UNLIMITED { json!("unlimited") } else { read.into() };
    match spread {
        None => Json::Null,
        Some(Spread { least, most }) if least == most => number(least),
        Some(Spread { least, most }) => json!({"least": number(least), "most": number(most)}),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Place, parse};
    use riprap_core::Seed;
    use riprap_core::cluster::{Cluster, Delay, DelayReading, FlippedBit, Link, NodeState};
    use std::cell::RefCell;
    use std::collections::{BTreeMap, BTreeSet};

    /// A cluster whose network does to links what it is told, or leaks: to those of clients too.
    #[derive(Default)]
    pub(crate) struct Net {
        leaks: bool,
        /// What it does of what it is told; all, if nothing is said.
        off: Option<fn(u64) -> u64>,
        /// Whether all that is sent takes as long as the rest.
        is_even: bool,
        /// What a probe reads now.
        read: RefCell<Reading>,
        /// And what it reads of jitter.
        jitter: RefCell<Reading>,
    }

    impl Net {
        fn hit<T: Default>(&self, links: Links, hit: impl Fn() -> T) -> PerLink<T> {
            let peers = if links == Links::Clients { T::default() } else { hit() };
            let clients = if links == Links::Peers && !self.leaks { T::default() } else { hit() };
            PerLink { peers, clients }
        }

        /// Sets what is read of the links that are struck, and of sound ones.
        fn set(&self, links: Links, struck: Option<u64>, sound: u64) -> Result<(), ClusterError> {
            let struck = struck.map(|told| self.off.map_or(told, |off| off(told)));
            let PerLink { peers, clients } = self.hit(links, || struck);
            let read = |value: Option<u64>| Spread::of([value.unwrap_or(sound)]);
            *self.read.borrow_mut() = PerLink { peers: read(peers), clients: read(clients) };
            Ok(())
        }

        fn read(&self, nodes: &[NodeId]) -> Result<Vec<Reading>, ClusterError> {
            Ok(vec![*self.read.borrow(); nodes.len()])
        }
    }

    #[rustfmt::skip]
    impl Cluster for Net {
        fn nodes(&self) -> Vec<NodeId> { NodeId::first(3) }
        fn start(&self, _: NodeId) -> Result<(), ClusterError> { Ok(()) }
        fn kill(&self, _: NodeId) -> Result<(), ClusterError> { Ok(()) }
        fn pause(&self, _: NodeId) -> Result<(), ClusterError> { Ok(()) }
        fn resume(&self, _: NodeId) -> Result<(), ClusterError> { Ok(()) }
        fn state(&self, _: NodeId) -> Result<NodeState, ClusterError> { Ok(NodeState::Running) }
        fn cut(&self, _: &BTreeSet<Link>) -> Result<(), ClusterError> { Ok(()) }
        fn reaches(&self, links: &[Link]) -> Result<Vec<bool>, ClusterError> { Ok(vec![true; links.len()]) }
        fn hold(&self, nodes: &BTreeSet<NodeId>, links: Links) -> Result<PerLink<usize>, ClusterError> {
            Ok(self.hit(links, || 2 * nodes.len()))
        }
        fn reset(&self, _: NodeId, links: Links) -> Result<PerLink<usize>, ClusterError> {
            Ok(self.hit(links, || 2))
        }
        fn delay(&self, delays: &BTreeMap<NodeId, Delay>, links: Links) -> Result<(), ClusterError> {
            let delay = delays.values().next().copied();
            let jitter = Spread::of([delay.filter(|_| !self.is_even).map_or(0, |delay| delay.jitter_ms)]);
            *self.jitter.borrow_mut() = PerLink { peers: jitter, clients: jitter };
            self.set(links, delay.map(|delay| delay.ms), 0)
        }
        fn delays(&self, nodes: &[NodeId]) -> Result<Vec<DelayReading>, ClusterError> {
            let jitter = *self.jitter.borrow();
            Ok(self.read(nodes)?.into_iter().map(|delay| DelayReading { delay, jitter }).collect())
        }
        fn lose(&self, nodes: &BTreeSet<NodeId>, links: Links, percent: u8) -> Result<(), ClusterError> {
            self.set(links, (!nodes.is_empty()).then_some(percent.into()), 0)
        }
        fn losses_percent(&self, nodes: &[NodeId]) -> Result<Vec<Reading>, ClusterError> { self.read(nodes) }
        fn limit(&self, rates: &BTreeMap<NodeId, u64>, links: Links) -> Result<(), ClusterError> {
            self.set(links, rates.values().next().copied(), UNLIMITED)
        }
        fn rates(&self, nodes: &[NodeId]) -> Result<Vec<Reading>, ClusterError> { self.read(nodes) }
        fn refuse(&self, nodes: &BTreeSet<NodeId>, links: Links) -> Result<(), ClusterError> {
            self.set(links, (!nodes.is_empty()).then_some(1), 0)
        }
        fn refusals(&self, nodes: &[NodeId]) -> Result<Vec<Reading>, ClusterError> { self.read(nodes) }
        fn flip_bit(&self, _: NodeId, draw: u64) -> Result<Option<FlippedBit>, ClusterError> {
            Ok(Some(FlippedBit { path: "log".to_owned(), offset: draw, was: 7, is: 7 }))
        }
    }

    #[test]
    fn faults_of_links_strike_those_that_they_name_and_prove_it() {
        let network = |leaks| Net { leaks, ..Net::default() };
        for (name, shape, nodes, links, live) in [
            ("hold", "all", 3, "all", false),
            ("hold", "one-peers", 1, "peers", false),
            ("latency", "minority-peers", 1, "peers", false),
            ("latency", "majority-clients", 2, "clients", true),
            ("loss", "one-peers", 1, "peers", true),
            ("loss", "all", 3, "all", true),
            ("rate", "minority-peers", 1, "peers", true),
            ("rate", "one-clients", 1, "clients", true),
            ("reject", "majority-peers", 2, "peers", true),
            ("reject", "all-clients", 3, "clients", true),
            ("reset", "all-clients", 3, "clients", false),
            ("reset", "all-peers", 3, "peers", false),
        ] {
            let case = format!("{name}:{shape}");
            let (fault, shapes) = parse(std::slice::from_ref(&case), Place { live, ..crate::tests::REAL })
                .expect("it is one")
                .remove(0);
            let aim = fault.aim(shapes[0].shape, &NodeId::first(3), &mut Seed(1).stream("test", "links"));
            assert_eq!(
                (&aim["links"], aim["nodes"].as_array().map(Vec::len)),
                (&json!(links), Some(nodes)),
                "{case}"
            );
            let sound = network(false);
            assert!(fault.strike(&sound, &aim).expect("it can").took_effect, "{case}");
            assert!(fault.heal(&sound).expect("it can").took_effect, "{case}");
            // What strikes clients too is not what was asked for.
            let struck = fault.strike(&network(true), &aim).expect("it can");
            assert_eq!(struck.took_effect, links != "peers", "{case}: {struck:?}");
        }
    }

    /// What was read may be off by so much, and no more.
    #[test]
    fn readings_prove_or_do_not() {
        let check = |name: &str, off: fn(u64) -> u64, expected: bool| {
            let fault = crate::find(name).expect("it is one");
            let mut random = Seed(1).stream("test", "off");
            for shape in fault.info().shapes.iter().filter(|shape| shape.min_nodes <= 3) {
                let mut aim = fault.aim(shape, &NodeId::first(3), &mut random);
                // That says how far a reading may be off, too.
                aim.as_object_mut().expect("fields").remove("jitter-ms");
                let struck = fault.strike(&Net { off: Some(off), ..Net::default() }, &aim).expect("it can");
                assert_eq!(struck.took_effect, expected, "{name} {aim}: {struck:?}");
            }
        };
        check("latency", |ms| ms + 100, true);
        check("latency", |ms| ms + 101, false);
        check("latency", |ms| ms - 1, false);
        check("latency", |_| 0, false);
        check("loss", |percent| percent + 9, true);
        check("loss", |percent| percent - 9, true);
        check("loss", |percent| percent + 10, false);
        check("loss", |percent| percent - 10, false);
        check("loss", |_| 0, false);
        check("rate", |rate| rate / 2, true);
        check("rate", |rate| rate + rate / 8, false);
        check("rate", |rate| rate / 3, false);
        check("rate", |_| UNLIMITED, false);
    }

    #[test]
    fn jitter_is_proved() {
        let latency = crate::find("latency").expect("it is one");
        let aim = |more: Json| {
            let mut aim = json!({"shape": "one", "nodes": ["n1"], "links": "all", "delay-ms": 50});
            aim.as_object_mut().expect("fields").extend(more.as_object().cloned().expect("fields"));
            aim
        };
        for (more, is_even, expected) in [
            (json!({"jitter-ms": 300}), false, true),
            (json!({"jitter-ms": 300}), true, false),
            (json!({}), true, true),
        ] {
            let struck = latency.strike(&Net { is_even, ..Net::default() }, &aim(more)).expect("it can");
            assert_eq!(struck.took_effect, expected, "{struck:?}");
        }
    }

    /// Scenarios are written by hand, and by older versions.
    #[test]
    fn aims_name_links() {
        let check = |aim: Json, expected: Result<Links, &str>| {
            assert_eq!(of(&aim).map_err(|e| e.to_string()), expected.map_err(str::to_owned));
        };
        check(json!({"nodes": ["n1"]}), Ok(Links::All));
        check(json!({"links": "all"}), Ok(Links::All));
        check(json!({"links": "peers"}), Ok(Links::Peers));
        check(json!({"links": "clients"}), Ok(Links::Clients));
        let expected = "one of \"all\", \"peers\", \"clients\" is expected";
        check(json!({"links": "brokers"}), Err(&format!("links \"brokers\"; {expected}")));
        check(json!({"links": 3}), Err(&format!("links 3; {expected}")));
    }
}
