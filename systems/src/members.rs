//! An administrator of a cluster that speaks Kafka's protocol: partitions move onto a broker that joins, and off it before it
//! leaves.
//!
//! It asks over the wire, and looks at what came of it. What it is told to do it tries until it is done, for the controller may
//! be out of reach, or decide otherwise in between: each try begins with a look at how things stand. It is the same in
//! simulation and live, but for the [`Wire`].
//!
//! ```text
//! join    wait until the broker is known; AlterPartitionReassignments: of each partition that is drawn, one replica goes over
//!         to it; look until it has them
//! leave   what is being moved to it is moved back, by a wish that takes the place of the first; what it has goes to a broker
//!         without a copy; look until it has nothing;
//!         once each broker has said so, UnregisterBroker: what one alone says may be of the past, and what an unregistered
//!         broker has counts as lost
//! ```
//! Source: KIP-455 (reassignments), KIP-631 (UnregisterBroker).

use crate::probe::{self, METADATA_VERSION, metadata_request, settled};
use riprap_core::client::block_on;
use riprap_core::cluster::{MemberChange, NodeId};
use riprap_core::system::{Deployment, Overseer};
use riprap_protocol::messages::*;
use riprap_protocol::{ErrorCode, Request};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// How long a try may take: requests wait at a controller that is cut off.
pub(crate) const TRY_LIMIT: Duration = Duration::from_secs(2);
/// How long it is waited before the next try.
pub(crate) const TRY_AGAIN: Duration = Duration::from_millis(200);
/// How long the controller may take to answer. Units: milliseconds.
const TIMEOUT_MS: i32 = 1_500;
/// Versions of the requests that are sent.
const REASSIGN_VERSION: i16 = 0;
const LIST_VERSION: i16 = 0;
const UNREGISTER_VERSION: i16 = 0;

/// How an administrator reaches the brokers.
pub(crate) trait Wire {
    /// Asks one, on a connection of its own. Errors: in words.
    async fn ask<R: Request>(&self, node: NodeId, version: i16, request: &R) -> Result<R::Response, String>;

    /// Ends a try that takes longer than [`TRY_LIMIT`].
    async fn within<T>(&self, one_try: impl Future<Output = Result<T, String>>) -> Option<Result<T, String>>;

    /// Lets [`TRY_AGAIN`] pass.
    async fn pause(&self);

    /// Ends the process of a broker that leaves, where it would not stay away by itself. Errors: in words.
    fn end_node(&self, node: NodeId) -> Result<(), String>;

    /// Says how far it is.
    fn tell(&self, how_far: String);

    /// Whether nobody wants it done any more.
    fn is_over(&self) -> bool;
}

/// A partition: topic, index.
type Which = (String, i32);

/// A partition's replicas, as they are wanted; none: what moves is to stay where it was.
type Target = Option<Vec<i32>>;

/// Carries out a change in a cluster of so many brokers, the first that there are, however long it takes.
pub(crate) async fn administer(wire: &impl Wire, brokers: u16, change: MemberChange) {
    let mut so_far = SoFar::default();
    // Whoever is asked passes on what is the controller's: if it is reached at all.
    for asked in NodeId::first(brokers).into_iter().cycle().take_while(|_| !wire.is_over()) {
        let step = one_step(wire, asked, brokers, change, &mut so_far);
        let tried = wire.within(step).await;
        let how_far = match tried.unwrap_or_else(|| Err(format!("{asked} does not answer"))) {
            Ok(Step::Done(done)) => return wire.tell(done),
            Ok(Step::Rid(how_far)) => {
                so_far.said_so += 1;
                how_far
            }
            Ok(Step::Unregistered(how_far)) => {
                so_far.is_unregistered = true;
                how_far
            }
            Err(how_far) => {
                so_far.said_so = 0;
                how_far
            }
        };
        wire.tell(how_far);
        wire.pause().await;
    }
}

/// What a change has come to.
#[derive(Default)]
struct SoFar {
    /// How many brokers have said in turn, one after the other, that the one that leaves has nothing.
    said_so: u16,
    /// Whether that one was told to be one no more.
    is_unregistered: bool,
    /// How many moves were called off since they went to and fro.
    torn: usize,
}

impl SoFar {
    /// What there is to say of the cluster beside what was asked for.
    fn remarks(&self) -> String {
        match self.torn {
            0 => String::new(),
            torn => format!(
                "; {torn} moves had to be called off, which were to add the replica and to remove it, and would not end"
            ),
        }
    }
}

/// How far a change is.
enum Step {
    /// All is as it should be.
    Done(String),
    /// The broker that leaves has no partitions, one says.
    Rid(String),
    /// It is registered no more, as the controller has it.
    Unregistered(String),
}

/// Looks how things stand and asks for what is missing. Errors: it is not done yet, and why.
async fn one_step(
    wire: &impl Wire,
    to: NodeId,
    brokers: u16,
    change: MemberChange,
    so_far: &mut SoFar,
) -> Result<Step, String> {
    let metadata = wire.ask(to, METADATA_VERSION, &metadata_request()).await?;
    let (MemberChange::Join { node, .. } | MemberChange::Leave { node }) = change;
    let it = i32::from(node.0);
    let is_known = metadata.brokers.iter().any(|broker| broker.node_id == it);
    let mut partitions: BTreeMap<Which, Vec<i32>> = BTreeMap::new();
    for topic in &metadata.topics {
        let name = topic.name.clone().unwrap_or_default();
        let replicas = topic.partitions.iter().map(|p| ((name.clone(), p.index), p.replica_nodes.clone()));
        partitions.extend(replicas);
    }
    let count = partitions.values().filter(|replicas| replicas.contains(&it)).count();
    let wanted = match change {
        MemberChange::Join { .. } if !is_known => return Err(format!("{node} has not joined")),
        MemberChange::Join { draw, .. } => onto(it, draw, &partitions),
        // One that is only out of the controller's sight is not known either.
        MemberChange::Leave { .. } if !is_known && count == 0 && so_far.is_unregistered => {
            return Ok(Step::Done(format!("{node} has left{}", so_far.remarks())));
        }
        MemberChange::Leave { .. } => {
            let under_way = under_way(wire, to).await?;
            off(it, brokers, &partitions, &under_way)
        }
    };
    let torn = wanted.iter().filter(|(_, target)| target.is_none()).count();
    if !wanted.is_empty() {
        let count = wanted.len();
        reassign(wire, to, wanted).await?;
        so_far.torn += torn;
        return Err(format!("{count} partitions are to move"));
    }
    if let MemberChange::Leave { .. } = change {
        if count > 0 {
            return Err(format!("partitions move off {node}"));
        }
        if so_far.said_so < brokers {
            return Ok(Step::Rid(format!("{to} knows of no partitions of {node}")));
        }
        wire.end_node(node)?;
        let request = UnregisterBrokerRequest { broker_id: it };
        let code = wire.ask(to, UNREGISTER_VERSION, &request).await?.error_code;
        return match code {
            ErrorCode::NONE | ErrorCode::BROKER_ID_NOT_REGISTERED => {
                Ok(Step::Unregistered(format!("{node} is registered no more")))
            }
            code => Err(format!("{node} cannot be unregistered: {code}")),
        };
    }
    settled(to, usize::from(brokers) + 1, &metadata)?;
    Ok(Step::Done(format!("{node} has joined, and has {count} of {} partitions", partitions.len())))
}

/// Where a broker is to take the place of one replica: of every other partition, by the draw.
fn onto(it: i32, draw: u64, partitions: &BTreeMap<Which, Vec<i32>>) -> Vec<(Which, Target)> {
    let mut wanted = Vec::new();
    for (number, (which, replicas)) in partitions.iter().enumerate() {
        let luck = (draw >> (number % 32)) as usize;
        if luck.is_multiple_of(2) || replicas.contains(&it) || replicas.is_empty() {
            continue;
        }
        let mut target = replicas.clone();
        target[luck / 2 % replicas.len()] = it;
        wanted.push((which.clone(), Some(target)));
    }
    wanted
}

/// Where a broker's replicas are to go, of those partitions for which that has not been asked yet.
fn off(
    it: i32,
    brokers: u16,
    partitions: &BTreeMap<Which, Vec<i32>>,
    under_way: &BTreeMap<Which, ListPartitionReassignmentsResponsePartition>,
) -> Vec<(Which, Target)> {
    let mut wanted = Vec::new();
    for (number, (which, replicas)) in partitions.iter().filter(|(_, r)| r.contains(&it)).enumerate() {
        let target = match under_way.get(which) {
            Some(moving) if is_torn(moving, it) => None,
            Some(moving) if moving.removing_replicas.contains(&it) => continue,
            Some(moving) if moving.adding_replicas.contains(&it) => {
                let stays = |id: &&i32| !moving.adding_replicas.contains(id);
                Some(moving.replicas.iter().filter(stays).copied().collect())
            }
            // Another move ends first.
            Some(_) => continue,
            None => {
                let without = |id: &i32| !replicas.contains(id);
                let free: Vec<i32> = (1..=i32::from(brokers)).filter(without).collect();
                let instead = free.get(number % free.len().max(1)).copied();
                let in_its_place = |id: &i32| if *id == it { instead } else { Some(*id) };
                Some(replicas.iter().filter_map(in_its_place).collect())
            }
        };
        wanted.push((which.clone(), target));
    }
    wanted
}

/// Whether a broker is to get a replica and to lose it, which ends never: what Apache Kafka makes of a wish that takes the place
/// of another and adds nothing. Source: Kafka 4.3.1, ReplicationControlManager.changePartitionReassignment, which leaves the
/// replicas that are added as they were; docs/findings/kafka-torn-reassignment.md.
fn is_torn(moving: &ListPartitionReassignmentsResponsePartition, it: i32) -> bool {
    moving.adding_replicas.contains(&it) && moving.removing_replicas.contains(&it)
}

async fn under_way(
    wire: &impl Wire,
    to: NodeId,
) -> Result<BTreeMap<Which, ListPartitionReassignmentsResponsePartition>, String> {
    let request = ListPartitionReassignmentsRequest { timeout_ms: TIMEOUT_MS, topics: None };
    let response = wire.ask(to, LIST_VERSION, &request).await?;
    if response.error_code != ErrorCode::NONE {
        return Err(format!("cannot be told what moves: {}", response.error_code));
    }
    let of_topic = |topic: ListPartitionReassignmentsResponseTopic| {
        let name = topic.name;
        topic.partitions.into_iter().map(move |p| ((name.clone(), p.index), p))
    };
    Ok(response.topics.into_iter().flat_map(of_topic).collect())
}

async fn reassign(wire: &impl Wire, to: NodeId, wanted: Vec<(Which, Target)>) -> Result<(), String> {
    let mut topics: Vec<AlterPartitionReassignmentsRequestTopic> = Vec::new();
    for ((name, index), replicas) in wanted {
        let partition = AlterPartitionReassignmentsRequestPartition { index, replicas };
        match topics.last_mut().filter(|topic| topic.name == name) {
            Some(topic) => topic.partitions.push(partition),
            None => {
                topics.push(AlterPartitionReassignmentsRequestTopic { name, partitions: vec![partition] })
            }
        }
    }
    let request = AlterPartitionReassignmentsRequest { timeout_ms: TIMEOUT_MS, topics, ..Default::default() };
    let response = wire.ask(to, REASSIGN_VERSION, &request).await?;
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions).map(|p| p.error_code);
    let refused = [response.error_code].into_iter().chain(partitions).find(|code| *code != ErrorCode::NONE);
    refused.map_or(Ok(()), |code| Err(format!("partitions cannot move: {code}")))
}

/// Carries out a change in a live cluster whose brokers listen on a port; see [`System::administer`]. It blocks.
///
/// [`System::administer`]: riprap_core::system::System::administer
pub(crate) fn administer_live(
    deployment: &Deployment,
    port: u16,
    change: MemberChange,
    overseer: &mut dyn Overseer,
) {
    let brokers = u16::try_from(deployment.brokers().len()).expect("a handful of nodes");
    let wire = Live { deployment, port, overseer: RefCell::new(overseer) };
    block_on(administer(&wire, brokers, change));
}

/// Sockets of this machine.
struct Live<'a> {
    deployment: &'a Deployment,
    port: u16,
    overseer: RefCell<&'a mut dyn Overseer>,
}

impl Wire for Live<'_> {
    async fn ask<R: Request>(&self, node: NodeId, version: i16, request: &R) -> Result<R::Response, String> {
        let address = SocketAddr::new(self.deployment.place(node).address, self.port);
        let asked = probe::ask(address, version, request, TRY_LIMIT);
        asked.map_err(|e| format!("{node} does not answer: {e}"))
    }

    /// Each question has its own limit.
    async fn within<T>(&self, one_try: impl Future<Output = Result<T, String>>) -> Option<Result<T, String>> {
        Some(one_try.await)
    }

    async fn pause(&self) {
        std::thread::sleep(TRY_AGAIN);
    }

    /// A broker that runs on registers again.
    fn end_node(&self, node: NodeId) -> Result<(), String> {
        self.overseer.borrow_mut().end_node(node).map_err(|e| e.to_string())
    }

    fn tell(&self, how_far: String) {
        self.overseer.borrow_mut().tell(how_far);
    }

    fn is_over(&self) -> bool {
        self.overseer.borrow().is_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions(of: &[&[i32]]) -> BTreeMap<Which, Vec<i32>> {
        (0..).zip(of).map(|(index, replicas)| (("t".to_owned(), index), replicas.to_vec())).collect()
    }

    fn targets(wanted: Vec<(Which, Target)>) -> Vec<(i32, Vec<i32>)> {
        wanted.into_iter().map(|((_, index), target)| (index, target.unwrap_or_default())).collect()
    }

    #[test]
    fn a_broker_takes_the_place_of_others() {
        let now = partitions(&[&[1, 2, 3], &[2, 3, 1], &[4, 1, 2], &[3, 1, 2]]);
        assert_eq!(targets(onto(4, 0, &now)), []);
        assert_eq!(
            targets(onto(4, 0b1111, &now)),
            [(0, vec![1, 4, 3]), (1, vec![4, 3, 1]), (3, vec![4, 1, 2])]
        );
    }

    #[test]
    fn what_a_broker_has_goes_to_those_without() {
        let now = partitions(&[
            &[4, 2, 3],
            &[1, 2, 3],
            &[1, 4, 2, 3],
            &[2, 4, 1, 3],
            &[1, 4],
            &[3, 1, 2, 4],
            &[3, 1, 2, 4],
        ]);
        let moving = |index: i32, adding: &[i32], removing: &[i32]| {
            let which = ("t".to_owned(), index);
            let partition = ListPartitionReassignmentsResponsePartition {
                index,
                replicas: now[&which].clone(),
                adding_replicas: adding.to_vec(),
                removing_replicas: removing.to_vec(),
            };
            (which, partition)
        };
        let under_way = BTreeMap::from([moving(2, &[4], &[3]), moving(3, &[3], &[4]), moving(5, &[4], &[4])]);
        assert_eq!(
            targets(off(4, 3, &now, &under_way)),
            // What everybody has is only taken away; what goes to and fro is called off.
            [(0, vec![1, 2, 3]), (2, vec![1, 2, 3]), (4, vec![1, 3]), (5, vec![]), (6, vec![3, 1, 2])]
        );
    }
}
