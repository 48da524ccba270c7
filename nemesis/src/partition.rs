//! The network is cut, between nodes, between nodes and clients, or both.

use rand::RngExt as _;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use riprap_core::cluster::{Cluster, ClusterError, End, Link, NodeId};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape};
use riprap_core::seed::Stream;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

static INFO: FaultInfo = FaultInfo {
    name: "partition",
    doc: "Packets between some nodes, or between nodes and clients, are dropped, silently, in the network between them; healed by dropping none. \
          Proved by datagrams sent over every link that is cut, none of which may arrive, and over every other link. \
          A cut in one direction stops TCP in both, since acknowledgements are lost: only datagrams are truly one-way.",
    strike_f: "partition",
    heal_f: "heal-partition",
    min_copies: 1,
    shapes: &[
        Shape { name: "one", doc: "One node is cut off from all others.", min_nodes: 2 },
        Shape {
            name: "halves",
            doc: "A majority and the largest minority, cut off from each other.",
            min_nodes: 3,
        },
        Shape {
            name: "random-halves",
            doc: "Two groups of random sizes, cut off from each other.",
            min_nodes: 2,
        },
        Shape { name: "one-way", doc: "Two groups; the second hears nothing from the first.", min_nodes: 2 },
        Shape {
            name: "bridge",
            doc: "Two groups that only one node, which belongs to neither, can reach both of.",
            min_nodes: 3,
        },
        Shape {
            name: "majorities-ring",
            doc: "Every node reaches a majority, and no two the same one.",
            min_nodes: 4,
        },
        Shape {
            name: "alone",
            doc: "One node is cut off from all others, and from clients as well.",
            min_nodes: 2,
        },
        Shape {
            name: "one-clients",
            doc: "One node and clients are cut off from each other; it reaches all other nodes.",
            min_nodes: 2,
        },
        Shape {
            name: "majority-clients",
            doc: "The smallest majority of the nodes and clients are cut off from each other.",
            min_nodes: 2,
        },
        Shape {
            name: "mute",
            doc: "One node hears what clients say, and they hear nothing from it.",
            min_nodes: 2,
        },
    ],
};

/// Shapes between nodes of one role and those of others.
static OF_ROLES: &[Shape] = &[Shape {
    name: "one-other",
    doc: "One node that is not of the role is cut off from all that are, and from nobody else.",
    min_nodes: 1,
}];

pub(crate) struct Partition;

impl Fault for Partition {
    fn info(&self) -> &'static FaultInfo {
        &INFO
    }

    fn aim(&self, shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
        let mut ring: Vec<End> = nodes.iter().map(|node| End::Node(*node)).collect();
        ring.shuffle(random);
        let cut = match shape.name {
            "one" => between(&ring[..1], &ring[1..]),
            "halves" => between(&ring[..(ring.len() - 1) / 2], &ring[(ring.len() - 1) / 2..]),
            "random-halves" => {
                let size = random.random_range(1..ring.len());
                between(&ring[..size], &ring[size..])
            }
            "one-way" => {
                let size = random.random_range(1..ring.len());
                one_way(&ring[..size], &ring[size..])
            }
            "bridge" => {
                let side = ring.len() / 2;
                between(&ring[..side], &ring[side + 1..])
            }
            "alone" => {
                let others: Vec<End> = ring[1..].iter().copied().chain([End::Clients]).collect();
                between(&ring[..1], &others)
            }
            "one-clients" => between(&ring[..1], &[End::Clients]),
            "majority-clients" => between(&ring[..=ring.len() / 2], &[End::Clients]),
            "mute" => one_way(&ring[..1], &[End::Clients]),
            _ => majorities_ring(&ring),
        };
        told(shape, &cut)
    }

    fn shapes_of_roles(&self) -> &'static [Shape] {
        OF_ROLES
    }

    fn aim_at_role(&self, shape: &Shape, nodes: &[NodeId], others: &[NodeId], random: &mut Stream) -> Json {
        let Some(other) = others.choose(random).filter(|_| shape.name == OF_ROLES[0].name) else {
            return self.aim(shape, nodes, random);
        };
        let of_role: Vec<End> = nodes.iter().map(|node| End::Node(*node)).collect();
        told(shape, &between(&[End::Node(*other)], &of_role))
    }

    fn strike(&self, cluster: &dyn Cluster, aim: &Json) -> Result<Effect, ClusterError> {
        let cut = parse(aim)?;
        cluster.cut(&cut)?;
        observe(cluster, &cut)
    }

    fn heal(&self, cluster: &dyn Cluster) -> Result<Effect, ClusterError> {
        cluster.cut(&BTreeSet::new())?;
        observe(cluster, &BTreeSet::new())
    }
}

fn told(shape: &Shape, cut: &BTreeSet<Link>) -> Json {
    let cut: Vec<String> = cut.iter().map(|(from, to)| format!("{from}->{to}")).collect();
    json!({"shape": shape.name, "cut": cut})
}

fn one_way(from: &[End], to: &[End]) -> BTreeSet<Link> {
    from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to))).collect()
}

fn between(a: &[End], b: &[End]) -> BTreeSet<Link> {
    one_way(a, b).union(&one_way(b, a)).copied().collect()
}

/// Each node of the ring keeps its nearest neighbours on either side, just enough for a majority with itself.
fn majorities_ring(ring: &[End]) -> BTreeSet<Link> {
    let n = ring.len();
    let reach = (n / 2).div_ceil(2);
    let mut cut = BTreeSet::new();
    for (i, a) in ring.iter().enumerate() {
        for (j, b) in ring.iter().enumerate() {
            let apart = i.abs_diff(j).min(n - i.abs_diff(j));
            if apart > reach {
                cut.insert((*a, *b));
            }
        }
    }
    cut
}

fn parse(aim: &Json) -> Result<BTreeSet<Link>, ClusterError> {
    let link = |word: &Json| {
        let (from, to) = word.as_str()?.split_once("->")?;
        Some((End::from_name(from)?, End::from_name(to)?))
    };
    let cut = aim.get("cut").and_then(Json::as_array).and_then(|words| words.iter().map(link).collect());
    cut.ok_or_else(|| ClusterError(format!("aim {aim}; {{\"cut\": [\"n1->n2\", ...]}} is expected")))
}

/// Tries every link of the cluster: just those of `cut` must be dead.
fn observe(cluster: &dyn Cluster, cut: &BTreeSet<Link>) -> Result<Effect, ClusterError> {
    let ends: Vec<End> = cluster.nodes().into_iter().map(End::Node).chain([End::Clients]).collect();
    let pairs = ends.iter().flat_map(|from| ends.iter().map(move |to| (*from, *to)));
    let links: Vec<Link> = pairs.filter(|(from, to)| from != to).collect();
    let reaches = cluster.reaches(&links)?;
    let name = |(link, _): &(&Link, &bool)| format!("{}->{}", link.0, link.1);
    let tried = || links.iter().zip(&reaches);
    let leaking: Vec<String> =
        tried().filter(|(link, up)| cut.contains(link) && **up).map(|l| name(&l)).collect();
    let dead: Vec<String> =
        tried().filter(|(link, up)| !cut.contains(link) && !**up).map(|l| name(&l)).collect();
    Ok(Effect {
        took_effect: leaking.is_empty() && dead.is_empty(),
        evidence: json!({
            "dead-links": tried().filter(|(_, up)| !**up).count(),
            "live-links": tried().filter(|(_, up)| **up).count(),
            "leaking": leaking,
            "dead-though-not-cut": dead,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_core::Seed;

    fn aimed(shape: &str, n: u16, seed: u64) -> BTreeSet<Link> {
        let shape = INFO.shapes.iter().find(|s| s.name == shape).expect("a shape of this fault");
        let aim = Partition.aim(shape, &NodeId::first(n), &mut Seed(seed).stream("test", "aim"));
        parse(&aim).expect("what aim writes")
    }

    /// How many nodes each node can talk to in both directions, itself included.
    fn reach(cut: &BTreeSet<Link>, n: u16) -> Vec<usize> {
        let ok = |a: NodeId, b: NodeId| {
            let (a, b) = (End::Node(a), End::Node(b));
            !cut.contains(&(a, b)) && !cut.contains(&(b, a))
        };
        let nodes = NodeId::first(n);
        let mut reach: Vec<usize> =
            nodes.iter().map(|a| nodes.iter().filter(|b| ok(*a, **b)).count()).collect();
        reach.sort_unstable();
        reach
    }

    /// How many nodes clients do not hear, and how many do not hear them.
    fn clients(cut: &BTreeSet<Link>) -> (usize, usize) {
        let count = |is: fn(&Link) -> bool| cut.iter().filter(|link| is(link)).count();
        (count(|link| link.1 == End::Clients), count(|link| link.0 == End::Clients))
    }

    #[test]
    fn a_node_is_cut_off_from_those_of_a_role() {
        let (controllers, brokers) = ([NodeId(4), NodeId(5)], [NodeId(1), NodeId(2), NodeId(3)]);
        for seed in 0..10 {
            let mut random = Seed(seed).stream("test", "role");
            let aim = Partition.aim_at_role(&OF_ROLES[0], &controllers, &brokers, &mut random);
            let cut = parse(&aim).expect("it is one");
            let one: BTreeSet<End> =
                cut.iter().flat_map(|(a, b)| [*a, *b]).filter(|end| *end < End::Node(NodeId(4))).collect();
            let one = *one.first().expect("a broker");
            let all: Vec<End> = controllers.iter().map(|node| End::Node(*node)).collect();
            assert_eq!(cut, between(&[one], &all), "{aim}");
        }
    }

    #[test]
    fn shapes_are_what_they_say() {
        for seed in 0..50 {
            assert_eq!(reach(&aimed("one", 5, seed), 5), [1, 4, 4, 4, 4]);
            assert_eq!(reach(&aimed("halves", 5, seed), 5), [2, 2, 3, 3, 3]);
            assert_eq!(reach(&aimed("halves", 3, seed), 3), [1, 2, 2]);
            assert_eq!(reach(&aimed("bridge", 3, seed), 3), [2, 2, 3]);
            assert_eq!(reach(&aimed("bridge", 5, seed), 5), [3, 3, 3, 3, 5]);
            for n in 4..9 {
                let majority = usize::from(n / 2 + 1);
                let ring = reach(&aimed("majorities-ring", n, seed), n);
                assert!(ring.iter().all(|count| (majority..usize::from(n)).contains(count)), "{n}: {ring:?}");
            }
            let one_way = aimed("one-way", 5, seed);
            assert!(!one_way.is_empty() && one_way.iter().all(|(a, b)| !one_way.contains(&(*b, *a))));
            assert!(!aimed("random-halves", 2, seed).is_empty());
            assert_eq!(
                (reach(&aimed("alone", 3, seed), 3), clients(&aimed("alone", 3, seed))),
                (vec![1, 2, 2], (1, 1))
            );
            for (shape, n, expected) in [
                ("one-clients", 3, (1, 1)),
                ("majority-clients", 4, (3, 3)),
                ("majority-clients", 5, (3, 3)),
                ("mute", 3, (1, 0)),
            ] {
                let cut = aimed(shape, n, seed);
                assert_eq!(clients(&cut), expected, "{shape}");
                assert!(cut.iter().all(|(from, to)| [from, to].contains(&&End::Clients)), "{shape}: {cut:?}");
            }
        }
    }
}
