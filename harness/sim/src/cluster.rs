//! The nodes of a system under test in a [`World`], as faults see them.

use crate::host::{Crash, HostId};
use crate::network::{Cuts, Others};
use crate::world::World;
use riprap_core::client::LocalFuture;
use riprap_core::cluster::{
    Cluster, ClusterError, CutFile, DeadClient, Delay, DelayReading, End, FlippedBit, Link, Links, Lost,
    MemberChange, NodeId, NodeState, PerLink, Spread,
};
use riprap_env::task::{Io, Tasks};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

const NS_PER_MS: u64 = 1_000_000;

/// Changes the members of a cluster, from a host; it tells how far it is.
pub type Administer = Rc<dyn Fn(MemberChange, Io, Rc<dyn Fn(String)>) -> LocalFuture<'static, ()>>;

/// A simulated cluster. Its nodes are the first hosts of its world, named as they are: `n1`, `n2`, ...
pub struct SimCluster {
    world: RefCell<World>,
    nodes: BTreeMap<NodeId, HostId>,
    spare: Option<Spare>,
    /// Why a process that does not run ended.
    ends: RefCell<BTreeMap<NodeId, &'static str>>,
    /// What runs on each client thread.
    clients: RefCell<Vec<DeadClient>>,
    /// The threads whose clients are to die once the fault that strikes them is done.
    dying: RefCell<BTreeSet<u32>>,
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
        SimCluster {
            world: RefCell::new(world),
            nodes,
            spare: None,
            ends: RefCell::default(),
            clients: RefCell::default(),
            dying: RefCell::default(),
        }
    }

    /// The same, with a node more that can join it.
    pub fn with_spare(
        mut self,
        make: impl Fn(NodeId) -> Box<dyn riprap_env::Node> + 'static,
        administer: Administer,
    ) -> SimCluster {
        let node = NodeId(self.nodes.len() as u16 + 1);
        let host = self.world().add(&node.to_string(), move || make(node));
        self.spare = Some(Spare {
            node,
            host,
            administer,
            administrator: Cell::new(None),
            changes: Cell::new(0),
            told: Rc::default(),
        });
        self
    }

    /// All hosts of the cluster's nodes, the spare one among them.
    fn all(&self) -> impl Iterator<Item = (NodeId, HostId)> + '_ {
        let spare = self.spare.iter().map(|spare| (spare.node, spare.host));
        self.nodes.iter().map(|(node, host)| (*node, *host)).chain(spare)
    }

    /// The node of a host, if it is one's.
    pub fn node_of(&self, host: HostId) -> Option<NodeId> {
        self.all().find(|(_, at)| *at == host).map(|(node, _)| node)
    }

    /// The world that it lives in.
    pub fn world(&self) -> RefMut<'_, World> {
        self.world.borrow_mut()
    }

    /// The host of a node. Errors: there is no such node.
    pub fn host(&self, node: NodeId) -> Result<HostId, ClusterError> {
        let found = self.all().find(|(it, _)| *it == node).map(|(_, host)| host);
        found.ok_or_else(|| ClusterError(format!("there is no node {node}")))
    }

    /// Says what the clients are, by their threads, before a fault may strike them: were they to die now.
    pub(crate) fn set_clients(&self, clients: Vec<DeadClient>) {
        *self.clients.borrow_mut() = clients;
    }

    /// The threads whose clients a fault has struck.
    pub(crate) fn take_dying(&self) -> BTreeSet<u32> {
        std::mem::take(&mut self.dying.borrow_mut())
    }

    /// Who is at the other end of these links of a node.
    fn others(&self, links: Links) -> Others {
        let nodes = || self.all().map(|(_, host)| host).collect();
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
            *(if self.node_of(other).is_some() { &mut counts.peers } else { &mut counts.clients }) += 1;
        }
        counts
    }

    /// The nodes whose process ended though nobody had ended it, each with how.
    pub fn ended_by_themselves(&self) -> Vec<(NodeId, Crash)> {
        let world = self.world.borrow();
        world.crashes().iter().filter_map(|crash| Some((self.node_of(crash.host)?, crash.clone()))).collect()
    }
}

/// A node that can join the cluster.
struct Spare {
    node: NodeId,
    host: HostId,
    administer: Administer,
    /// The host from which the last change is asked for.
    administrator: Cell<Option<HostId>>,
    changes: Cell<u64>,
    /// How far it is.
    told: Rc<RefCell<String>>,
}

fn nobody_joins() -> ClusterError {
    ClusterError("there is no node that could join".to_owned())
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

    fn clients(&self) -> u32 {
        self.clients.borrow().len() as u32
    }

    fn crash_clients(&self, threads: &BTreeSet<u32>) -> Result<Vec<DeadClient>, ClusterError> {
        let clients = self.clients.borrow();
        let struck = |thread: &u32| Some((*thread, *clients.get(*thread as usize)?));
        let struck: Vec<(u32, DeadClient)> = threads.iter().filter_map(struck).collect();
        self.dying.borrow_mut().extend(struck.iter().map(|(thread, _)| *thread));
        Ok(struck.into_iter().map(|(_, client)| client).collect())
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
        let mut cuts = Cuts { inside: self.all().map(|(_, host)| host).collect(), ..Cuts::default() };
        for link in links {
            match link {
                (End::Node(from), End::Node(to)) => {
                    cuts.links.insert((self.host(*from)?, self.host(*to)?));
                }
                (End::Clients, End::Node(to)) => {
                    cuts.from_outside.insert(self.host(*to)?);
                }
                (End::Node(from), End::Clients) => {
                    cuts.to_outside.insert(self.host(*from)?);
                }
                // Clients do not talk to each other.
                (End::Clients, End::Clients) => {}
            }
        }
        self.world().set_cuts(cuts);
        Ok(())
    }

    fn reaches(&self, links: &[Link]) -> Result<Vec<bool>, ClusterError> {
        let host = |end: &End| match end {
            End::Node(node) => self.host(*node),
            // The host that comes next is a client's.
            End::Clients => Ok(self.world().next_host()),
        };
        let reach = |(from, to): &Link| {
            let direction = (host(from)?, host(to)?);
            Ok(self.world().passes(direction))
        };
        links.iter().map(reach).collect()
    }

    fn power_fail(&self, node: NodeId) -> Result<Lost, ClusterError> {
        let host = self.host(node)?;
        let lost = self.world().power_fail(host);
        self.ends.borrow_mut().insert(node, "without power");
        Ok(lost)
    }

    fn clock_offset_ms(&self, node: NodeId) -> Result<i64, ClusterError> {
        Ok(self.world().clock_offset_ms(self.host(node)?))
    }

    fn set_clock_offset_ms(&self, node: NodeId, offset_ms: i64) -> Result<(), ClusterError> {
        let host = self.host(node)?;
        let mut world = self.world();
        if world.clock_offset_ms(host) != offset_ms || world.has_strobing_clock(host) {
            world.set_clock_offset_ms(host, offset_ms);
        }
        Ok(())
    }

    fn strobe_clock(&self, node: NodeId, offset_ms: i64, every_ms: u64) -> Result<(), ClusterError> {
        let host = self.host(node)?;
        self.world().strobe_clock(host, offset_ms, every_ms * NS_PER_MS);
        Ok(())
    }

    fn clock_offsets_seen_ms(&self, node: NodeId) -> Result<BTreeSet<i64>, ClusterError> {
        let (host, world) = (self.host(node)?, self.world());
        let right = world.has_strobing_clock(host).then_some(0);
        Ok(right.into_iter().chain([world.clock_offset_ms(host)]).collect())
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

    fn cut_tail(&self, node: NodeId, draw: u64) -> Result<Option<CutFile>, ClusterError> {
        let host = self.host(node)?;
        Ok(self.world().cut_tail(host, draw))
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

    fn spare(&self) -> Option<NodeId> {
        self.spare.as_ref().map(|spare| spare.node)
    }

    fn change_members(&self, change: MemberChange) -> Result<(), ClusterError> {
        let spare = self.spare.as_ref().ok_or_else(nobody_joins)?;
        if let Some(before) = spare.administrator.take() {
            self.world().kill(before);
        }
        let number = spare.changes.get() + 1;
        spare.changes.set(number);
        let told = Rc::clone(&spare.told);
        told.borrow_mut().clear();
        let administer = Rc::clone(&spare.administer);
        let host = self.world().add(&format!("admin{number}"), move || {
            let (told, administer) = (Rc::clone(&told), Rc::clone(&administer));
            let tell: Rc<dyn Fn(String)> = Rc::new(move |how_far| *told.borrow_mut() = how_far);
            Box::new(Tasks::new(move |io| administer(change, io, tell)))
        });
        spare.administrator.set(Some(host));
        self.world().start(host);
        Ok(())
    }

    fn members_told(&self) -> Result<String, ClusterError> {
        Ok(self.spare.as_ref().ok_or_else(nobody_joins)?.told.borrow().clone())
    }

    fn delay(&self, delays: &BTreeMap<NodeId, Delay>, links: Links) -> Result<(), ClusterError> {
        let delay = |(node, delay): (&NodeId, &Delay)| {
            Ok((self.host(*node)?, (delay.ms * NS_PER_MS, delay.jitter_ms * NS_PER_MS)))
        };
        let delays = delays.iter().map(delay).collect::<Result<_, ClusterError>>()?;
        self.world().set_delays(delays, self.others(links));
        Ok(())
    }

    fn delays(&self, nodes: &[NodeId]) -> Result<Vec<DelayReading>, ClusterError> {
        let world = self.world();
        let one = |node: &NodeId| {
            let host = self.host(*node)?;
            // A node's own host is among the nodes' as well as any, and the host that comes next is a client's.
            let read = |part: fn((u64, u64)) -> u64| {
                let from = |other: HostId| Spread::of([part(world.delay_ns((other, host))) / NS_PER_MS]);
                PerLink { peers: from(host), clients: from(world.next_host()) }
            };
            Ok(DelayReading { delay: read(|(delay, _)| delay), jitter: read(|(_, jitter)| jitter) })
        };
        nodes.iter().map(one).collect()
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
