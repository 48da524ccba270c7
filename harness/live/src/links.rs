//! Which directions of the network a fault of links means.

use crate::cluster::ix;
use crate::sandbox::{Endpoint, Ends, NodeIx};
use riprap_core::cluster::{ClusterError, DelayReading, Links, NodeId, PerLink, Reading, Spread};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the quickest and the slowest of some datagrams took.
pub(crate) type Took = (Duration, Duration);

/// The links of a network of so many nodes, with clients where the harness is.
#[derive(Clone, Copy)]
pub(crate) struct LinksOf {
    nodes: usize,
}

impl LinksOf {
    pub(crate) fn nodes(nodes: usize) -> LinksOf {
        LinksOf { nodes }
    }

    /// Who is at the other end of a node's links.
    fn others(self, node: NodeId, links: Links) -> impl Iterator<Item = Endpoint> {
        let peers = (links != Links::Clients).then_some((0..self.nodes).map(NodeIx));
        let clients = (links != Links::Peers).then_some(Endpoint::Harness);
        let peers = peers.into_iter().flatten().filter(move |peer| *peer != ix(node));
        peers.map(Endpoint::Node).chain(clients)
    }

    /// What a node is sent over its links.
    pub(crate) fn to(self, node: NodeId, links: Links) -> impl Iterator<Item = Ends> {
        self.others(node, links).map(move |other| (other, ix(node).into()))
    }

    /// What a node sends over its links.
    pub(crate) fn from(self, node: NodeId, links: Links) -> impl Iterator<Item = Ends> {
        self.others(node, links).map(move |other| (ix(node).into(), other))
    }

    /// Both.
    pub(crate) fn both_ways(self, node: NodeId, links: Links) -> impl Iterator<Item = Ends> {
        self.to(node, links).chain(self.from(node, links))
    }

    /// Measures how long what these nodes are sent takes, by the quickest and the slowest of some probes on each direction.
    pub(crate) fn read_delays(
        self,
        nodes: &[NodeId],
        measure: impl FnOnce(&[Ends]) -> Result<Vec<Option<Took>>, ClusterError>,
    ) -> Result<Vec<DelayReading>, ClusterError> {
        let ms = |delay: Duration| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let mut ranges = Vec::new();
        let delays = self.read(nodes, LinksOf::to, |pairs| {
            let took = measure(pairs)?;
            ranges = took.iter().map(|took| took.map_or(0, |(least, most)| ms(most - least))).collect();
            Ok(took.into_iter().map(|took| took.map_or(u64::MAX, |(least, _)| ms(least))).collect())
        })?;
        let jitters = self.read(nodes, LinksOf::to, |_| Ok(ranges))?;
        let both = delays.into_iter().zip(jitters);
        Ok(both.map(|(delay, jitter)| DelayReading { delay, jitter }).collect())
    }

    /// Measures such directions of nodes all at once, and sorts by node and kind of link what was read of each. One that is of two
    /// nodes is measured once: probes of it twice over would share what gets through.
    pub(crate) fn read<I: Iterator<Item = Ends>>(
        self,
        nodes: &[NodeId],
        directions: impl Fn(LinksOf, NodeId, Links) -> I,
        measure: impl FnOnce(&[Ends]) -> Result<Vec<u64>, ClusterError>,
    ) -> Result<Vec<Reading>, ClusterError> {
        let kinds = nodes.iter().flat_map(|node| [(*node, Links::Peers), (*node, Links::Clients)]);
        let asked: Vec<Vec<Ends>> =
            kinds.map(|(node, links)| directions(self, node, links).collect()).collect();
        let mut distinct: Vec<Ends> = Vec::new();
        for ends in asked.iter().flatten() {
            if !distinct.contains(ends) {
                distinct.push(*ends);
            }
        }
        let read: BTreeMap<Ends, u64> = distinct.iter().copied().zip(measure(&distinct)?).collect();
        let spreads: Vec<Option<Spread>> =
            asked.iter().map(|pairs| Spread::of(pairs.iter().map(|ends| read[ends]))).collect();
        Ok(spreads.chunks(2).map(|both| PerLink { peers: both[0], clients: both[1] }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H: Endpoint = Endpoint::Harness;

    fn n(node: usize) -> Endpoint {
        NodeIx(node - 1).into()
    }

    #[test]
    fn links_are_of_a_node_and_a_kind() {
        let links = LinksOf::nodes(3);
        let to = |kind| links.to(NodeId(2), kind).collect::<Vec<_>>();
        assert_eq!(to(Links::All), [(n(1), n(2)), (n(3), n(2)), (H, n(2))]);
        assert_eq!(to(Links::Peers), [(n(1), n(2)), (n(3), n(2))]);
        assert_eq!(to(Links::Clients), [(H, n(2))]);
        let both: Vec<Ends> = links.both_ways(NodeId(3), Links::Clients).collect();
        assert_eq!(both, [(H, n(3)), (n(3), H)]);
        assert_eq!(LinksOf::nodes(1).to(NodeId(1), Links::Peers).count(), 0);
    }

    #[test]
    fn what_is_read_is_sorted_by_node_and_kind() {
        let count = |pairs: &[Ends]| Ok((0..pairs.len() as u64).collect());
        let spread = |least, most| Some(Spread { least, most });
        let read = LinksOf::nodes(3).read(&[NodeId(1), NodeId(3)], LinksOf::to, count);
        let expected = [
            PerLink { peers: spread(0, 1), clients: spread(2, 2) },
            PerLink { peers: spread(3, 4), clients: spread(5, 5) },
        ];
        assert_eq!(read.as_deref(), Ok(&expected[..]));
        // Both ways between the two that are asked about comes to four, and not to eight.
        let once = |pairs: &[Ends]| {
            assert_eq!(pairs.iter().collect::<std::collections::BTreeSet<_>>().len(), pairs.len());
            Ok(vec![7; pairs.len()])
        };
        let both = [NodeId(1), NodeId(2)];
        let read = LinksOf::nodes(3).read(&both, LinksOf::both_ways, once);
        assert_eq!(read.as_deref(), Ok(&[PerLink { peers: spread(7, 7), clients: spread(7, 7) }; 2][..]));
        let alone = LinksOf::nodes(1).read(&[NodeId(1)], LinksOf::both_ways, count);
        assert_eq!(alone.as_deref(), Ok(&[PerLink { peers: None, clients: spread(0, 1) }][..]));
    }
}
