//! An administrator of a simulated cluster: partitions move onto a broker that joins, and off it before it leaves.
//!
//! It asks as real ones do, over the wire, and looks at what came of it. What it is told to do it tries until it is done, for
//! the controller may be out of reach, or decide otherwise in between: each try begins with a look at how things stand.
//!
//! ```text
//! join    wait until the broker is known; AlterPartitionReassignments: of each partition that is drawn, one replica goes over
//!         to it; look until it has them
//! leave   what is being moved to it is moved back, what it has goes to a broker without a copy; look until it has nothing;
//!         UnregisterBroker, once each broker has said so: what one alone says may be of the past, and what an unregistered
//!         broker has counts as lost
//! ```
//! Source: KIP-455 (reassignments), KIP-631 (UnregisterBroker).

use super::PORT;
use super::simulation::{ask, ask_metadata};
use crate::probe::settled;
use riprap_core::cluster::{MemberChange, NodeId};
use riprap_env::task::Io;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::*;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How long a try may take: requests wait at a controller that is cut off.
const TRY_LIMIT_NS: u64 = 2_000_000_000;
/// How long it is waited before the next try.
const TRY_AGAIN_NS: u64 = 200_000_000;
/// How long the controller may take to answer. Units: milliseconds.
const TIMEOUT_MS: i32 = 1_500;
/// Versions of the requests that are sent.
const REASSIGN_VERSION: i16 = 0;
const LIST_VERSION: i16 = 0;
const UNREGISTER_VERSION: i16 = 0;

/// A partition: topic, index.
type Which = (String, i32);

/// Carries out a change in a cluster of so many nodes, however long it takes; `tell` is told how far it is.
pub(super) async fn administer(io: Io, nodes: u16, change: MemberChange, tell: Rc<dyn Fn(String)>) {
    // How many have said in turn, one after the other, that it has nothing.
    let mut said_so = 0;
    // Whoever is asked passes on what is the controller's: if it is reached at all.
    for asked in NodeId::first(nodes).into_iter().cycle() {
        let to = format!("{asked}:{PORT}");
        let step = one_step(&io, &to, nodes, change, said_so >= nodes);
        let tried = io.by(io.now_ns() + TRY_LIMIT_NS, step).await;
        let (is_rid_of, how_far) = match tried.unwrap_or_else(|| Err(format!("{asked} does not answer"))) {
            Ok(Step::Done(done)) => return tell(done),
            Ok(Step::Rid(how_far)) => (true, how_far),
            Err(how_far) => (false, how_far),
        };
        said_so = if is_rid_of { said_so + 1 } else { 0 };
        tell(how_far);
        io.sleep(TRY_AGAIN_NS).await;
    }
}

/// How far a change is.
enum Step {
    /// All is as it should be.
    Done(String),
    /// The broker that leaves has no partitions, one says.
    Rid(String),
}

/// Looks how things stand and asks for what is missing. Errors: it is not done yet, and why.
async fn one_step(
    io: &Io,
    to: &str,
    nodes: u16,
    change: MemberChange,
    may_unregister: bool,
) -> Result<Step, String> {
    let metadata = ask_metadata(io, to).await?;
    let (MemberChange::Join { node, .. } | MemberChange::Leave { node }) = change;
    let it = i32::from(node.0);
    let is_known = metadata.brokers.iter().any(|broker| broker.node_id == it);
    let mut partitions: BTreeMap<Which, Vec<i32>> = BTreeMap::new();
    for topic in &metadata.topics {
        let name = topic.name.clone().unwrap_or_default();
        let replicas = topic.partitions.iter().map(|p| ((name.clone(), p.index), p.replica_nodes.clone()));
        partitions.extend(replicas);
    }
    let (wanted, done) = match change {
        MemberChange::Join { draw, .. } => {
            if !is_known {
                return Err(format!("{node} has not joined"));
            }
            let wanted = onto(it, draw, &partitions);
            let count = partitions.values().filter(|replicas| replicas.contains(&it)).count();
            (wanted, format!("{node} has joined, and has {count} of {} partitions", partitions.len()))
        }
        MemberChange::Leave { .. } => {
            if !is_known {
                return Ok(Step::Done(format!("{node} has left")));
            }
            let under_way = under_way(io, to).await?;
            (off(it, nodes, &partitions, &under_way), String::new())
        }
    };
    if !wanted.is_empty() {
        let count = wanted.len();
        reassign(io, to, wanted).await?;
        return Err(format!("{count} partitions are to move"));
    }
    if let MemberChange::Leave { .. } = change {
        if partitions.values().any(|replicas| replicas.contains(&it)) {
            return Err(format!("partitions move off {node}"));
        }
        if !may_unregister {
            return Ok(Step::Rid(format!("{to} knows of no partitions of {node}")));
        }
        let request = UnregisterBrokerRequest { broker_id: it };
        let code = ask(io, to, UNREGISTER_VERSION, &request).await?.error_code;
        if code != ErrorCode::NONE {
            return Err(format!("{node} cannot be unregistered: {code}"));
        }
        return Err(format!("{node} is being unregistered"));
    }
    settled(node, usize::from(nodes) + 1, &metadata)?;
    Ok(Step::Done(done))
}

/// Where a broker is to take the place of one replica: of every other partition, by the draw.
fn onto(it: i32, draw: u64, partitions: &BTreeMap<Which, Vec<i32>>) -> Vec<(Which, Vec<i32>)> {
    let mut wanted = Vec::new();
    for (number, (which, replicas)) in partitions.iter().enumerate() {
        let luck = (draw >> (number % 32)) as usize;
        if luck.is_multiple_of(2) || replicas.contains(&it) || replicas.is_empty() {
            continue;
        }
        let mut target = replicas.clone();
        target[luck / 2 % replicas.len()] = it;
        wanted.push((which.clone(), target));
    }
    wanted
}

/// Where a broker's replicas are to go, of those partitions for which that has not been asked yet.
fn off(
    it: i32,
    nodes: u16,
    partitions: &BTreeMap<Which, Vec<i32>>,
    under_way: &BTreeMap<Which, ListPartitionReassignmentsResponsePartition>,
) -> Vec<(Which, Vec<i32>)> {
    let mut wanted = Vec::new();
    for (number, (which, replicas)) in partitions.iter().filter(|(_, r)| r.contains(&it)).enumerate() {
        let target = match under_way.get(which) {
            Some(moving) if moving.removing_replicas.contains(&it) => continue,
            Some(moving) if moving.adding_replicas.contains(&it) => {
                let stays = |id: &&i32| !moving.adding_replicas.contains(id);
                moving.replicas.iter().filter(stays).copied().collect()
            }
            // Another move ends first.
            Some(_) => continue,
            None => {
                let without = |id: &i32| !replicas.contains(id);
                let free: Vec<i32> = (1..=i32::from(nodes)).filter(without).collect();
                let Some(instead) = free.get(number % free.len().max(1)) else { continue };
                replicas.iter().map(|id| if *id == it { *instead } else { *id }).collect()
            }
        };
        wanted.push((which.clone(), target));
    }
    wanted
}

async fn under_way(
    io: &Io,
    to: &str,
) -> Result<BTreeMap<Which, ListPartitionReassignmentsResponsePartition>, String> {
    let request = ListPartitionReassignmentsRequest { timeout_ms: TIMEOUT_MS, topics: None };
    let response = ask(io, to, LIST_VERSION, &request).await?;
    if response.error_code != ErrorCode::NONE {
        return Err(format!("cannot be told what moves: {}", response.error_code));
    }
    let of_topic = |topic: ListPartitionReassignmentsResponseTopic| {
        let name = topic.name;
        topic.partitions.into_iter().map(move |p| ((name.clone(), p.index), p))
    };
    Ok(response.topics.into_iter().flat_map(of_topic).collect())
}

async fn reassign(io: &Io, to: &str, wanted: Vec<(Which, Vec<i32>)>) -> Result<(), String> {
    let mut topics: Vec<AlterPartitionReassignmentsRequestTopic> = Vec::new();
    for ((name, index), replicas) in wanted {
        let partition = AlterPartitionReassignmentsRequestPartition { index, replicas: Some(replicas) };
        match topics.last_mut().filter(|topic| topic.name == name) {
            Some(topic) => topic.partitions.push(partition),
            None => {
                topics.push(AlterPartitionReassignmentsRequestTopic { name, partitions: vec![partition] })
            }
        }
    }
    let request = AlterPartitionReassignmentsRequest { timeout_ms: TIMEOUT_MS, topics, ..Default::default() };
    let response = ask(io, to, REASSIGN_VERSION, &request).await?;
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions).map(|p| p.error_code);
    let refused = [response.error_code].into_iter().chain(partitions).find(|code| *code != ErrorCode::NONE);
    refused.map_or(Ok(()), |code| Err(format!("partitions cannot move: {code}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions(of: &[&[i32]]) -> BTreeMap<Which, Vec<i32>> {
        (0..).zip(of).map(|(index, replicas)| (("t".to_owned(), index), replicas.to_vec())).collect()
    }

    fn targets(wanted: Vec<(Which, Vec<i32>)>) -> Vec<(i32, Vec<i32>)> {
        wanted.into_iter().map(|((_, index), target)| (index, target)).collect()
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
        let now = partitions(&[&[4, 2, 3], &[1, 2, 3], &[1, 4, 2, 3], &[2, 4, 1, 3], &[1, 4]]);
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
        let under_way = BTreeMap::from([moving(2, &[4], &[3]), moving(3, &[3], &[4])]);
        assert_eq!(
            targets(off(4, 3, &now, &under_way)),
            [(0, vec![1, 2, 3]), (2, vec![1, 2, 3]), (4, vec![1, 3])]
        );
    }
}
