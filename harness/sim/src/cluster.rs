//! The nodes of a system under test in a [`World`], as faults see them.

use crate::host::{Crash, HostId};
use crate::network::Others;
use crate::world::World;
use riprap_core::cluster::{Cluster, ClusterError, FlippedBit, Link, Links, NodeId, NodeState, PerLink};
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};

/// A simulated cluster. Its nodes are the first hosts of its world, named as they are: `n1`, `n2`, ...
pub struct SimCluster {
    world: RefCell<World>,
    nodes: BTreeMap<NodeId, HostId>,
    /// Why a process that does not run ended.
    ends: RefCell<BTreeMap<NodeId, &'static str>>,
}

impl SimCluster {
    /// A cluster of nodes that have not been started.
    pub fn new(
        mut world: World,
        nodes: u16,
        make: impl Fn(NodeId) -> Box<dyn riprap_env::Node> + Clone + 'static,
    ) -> SimCluster {
        let add = |id: NodeId| {
            let make = make.clone();
            (id, world.add(&id.to_string(), move || make(id)))
        };
        let nodes = NodeId::first(nodes).into_iter().map(add).collect();
        SimCluster { world: RefCell::new(world), nodes, ends: RefCell::default() }
    }

    /// The world that it lives in.
    pub fn world(&self) -> RefMut<'_, World> {
        self.world.borrow_mut()
    }

    /// The host of a node. Errors: there is no such node.
    pub fn host(&self, node: NodeId) -> Result<HostId, ClusterError> {
        self.nodes.get(&node).copied().ok_or_else(|| ClusterError(format!("there is no node {node}")))
    }

    /// Who is at the other end of these links of a node.
    fn others(&self, links: Links) -> Others {
        let nodes = || self.nodes.values().copied().collect();
        match links {
            Links::All => Others::All,
            Links::Peers => Others::Among(nodes()),
            Links::Clients => Others::Outside(nodes()),
        }
    }

    /// How many of these hosts are nodes, and how many are not.
    fn count(&self, others: impl Iterator<Item = HostId>) -> PerLink<usize> {
        let mut counts = PerLink::default();
        for other in others {
            let is_node = self.nodes.values().any(|host| *host == other);
            *(if is_node { &mut counts.peers } else { &mut counts.clients }) += 1;
        }
        counts
    }

    /// The nodes whose process ended though nobody had ended it, each with how.
    pub fn ended_by_themselves(&self) -> Vec<(NodeId, Crash)> {
        let world = self.world.borrow();
        let of = |host: HostId| self.nodes.iter().find(|(_, at)| **at == host).map(|(node, _)| *node);
        world.crashes().iter().filter_map(|crash| Some((of(crash.host)?, crash.clone()))).collect()
    }
}

impl Cluster for SimCluster {
    fn nodes(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }

    fn start(&self, node: NodeId) -> Result<(), ClusterError> {
        let host = self.host(node)?;
        if !self.world().is_up(host) {
            self.world().start(host);
        }
        Ok(())
    }

    fn kill(&self, node: NodeId) -> Result<(), ClusterError> {
        let host = self.host(node)?;
        if self.world().is_up(host) {
            self.world().kill(host);
            self.ends.borrow_mut().insert(node, "killed");
        }
        Ok(())
    }

    fn pause(&self, node: NodeId) -> Result<(), ClusterError> {
        let host = self.host(node)?;
        self.world().pause(host);
        Ok(())
    }

    fn resume(&self, node: NodeId) -> Result<(), ClusterError> {
        let host = self.host(node)?;
        self.world().resume(host);
        Ok(())
    }

    fn state(&self, node: NodeId) -> Result<NodeState, ClusterError> {
        let host = self.host(node)?;
        let world = self.world();
        Ok(match (world.is_up(host), world.is_paused(host)) {
            (true, false) => NodeState::Running,
            (true, true) => NodeState::Paused,
            (false, _) => {
                let how = self.ends.borrow().get(&node).copied().unwrap_or("ended by itself");
                NodeState::Down(how.to_owned())
            }
        })
    }

    fn cut(&self, links: &BTreeSet<Link>) -> Result<(), ClusterError> {
        let host = |node: &NodeId| self.host(*node);
        let cuts = links
            .iter()
            .map(|(from, to)| Ok((host(from)?, host(to)?)))
            .collect::<Result<_, ClusterError>>()?;
        self.world().set_cuts(cuts);
        Ok(())
    }

    fn reaches(&self, links: &[Link]) -> Result<Vec<bool>, ClusterError> {
        let reach = |(from, to): &Link| Ok(self.world().passes((self.host(*from)?, self.host(*to)?)));
        links.iter().map(reach).collect()
    }

    fn power_fail(&self, node: NodeId) -> Result<(), ClusterError> {
        let host = self.host(node)?;
        self.world().power_fail(host);
        self.ends.borrow_mut().insert(node, "without power");
        Ok(())
    }

    fn clock_offset_ms(&self, node: NodeId) -> Result<i64, ClusterError> {
        Ok(self.world().clock_offset_ms(self.host(node)?))
    }

    fn set_clock_offset_ms(&self, node: NodeId, offset_ms: i64) -> Result<(), ClusterError> {
        let host = self.host(node)?;
        if self.world().clock_offset_ms(host) != offset_ms {
            self.world().set_clock_offset_ms(host, offset_ms);
        }
        Ok(())
    }

    fn disk_slowness(&self, node: NodeId) -> Result<u64, ClusterError> {
        Ok(self.world().sync_factor(self.host(node)?))
    }

    fn slow_disk(&self, node: NodeId, factor: u64) -> Result<(), ClusterError> {
        let host = self.host(node)?;
        if self.world().sync_factor(host) != factor {
            self.world().set_sync_factor(host, factor);
        }
        Ok(())
    }

    fn disk_room(&self, node: NodeId) -> Result<Option<u64>, ClusterError> {
        Ok(self.world().disk_room(self.host(node)?))
    }

    fn set_disk_room(&self, node: NodeId, room: Option<u64>) -> Result<(), ClusterError> {
        let host = self.host(node)?;
        if self.world().disk_room(host) != room {
            self.world().set_disk_room(host, room);
        }
        Ok(())
    }

    fn flip_bit(&self, node: NodeId, draw: u64) -> Result<Option<FlippedBit>, ClusterError> {
        let host = self.host(node)?;
        Ok(self.world().flip_bit(host, draw))
    }

    fn disk_has_rotted(&self, node: NodeId) -> Result<bool, ClusterError> {
        Ok(self.world().has_rotted(self.host(node)?))
    }

    fn replace_disk(&self, node: NodeId) -> Result<(), ClusterError> {
        let host = self.host(node)?;
        self.world().replace_disk(host);
        self.ends.borrow_mut().insert(node, "killed");
        Ok(())
    }

    fn delay(&self, delays_ms: &BTreeMap<NodeId, u64>, links: Links) -> Result<(), ClusterError> {
        let delay = |(node, ms): (&NodeId, &u64)| Ok((self.host(*node)?, ms * 1_000_000));
        let delays = delays_ms.iter().map(delay).collect::<Result<_, ClusterError>>()?;
        self.world().set_delays(delays, self.others(links));
        Ok(())
    }

    fn delay_ms(&self, node: NodeId) -> Result<PerLink<u64>, ClusterError> {
        let (host, world) = (self.host(node)?, self.world());
        // A node's own host is among the nodes' as well as any, and the host that comes next is a client's.
        let from = |other: HostId| world.delay_ns((other, host)) / 1_000_000;
        Ok(PerLink { peers: from(host), clients: from(world.next_host()) })
    }

    fn hold(&self, nodes: &BTreeSet<NodeId>, links: Links) -> Result<PerLink<usize>, ClusterError> {
        let hosts = nodes.iter().map(|node| self.host(*node)).collect::<Result<_, ClusterError>>()?;
        let held = self.world().set_deaf(hosts, self.others(links));
        Ok(self.count(held.into_iter().map(|(from, _)| from)))
    }

    fn reset(&self, node: NodeId, links: Links) -> Result<PerLink<usize>, ClusterError> {
        let (host, others) = (self.host(node)?, self.others(links));
        let with = self.world().reset(host, &others);
        Ok(self.count(with.into_iter()))
    }
}
