//! One question to one broker about what a consumer reads, and what follows from the answer.

use super::readable::readable;
use super::session::has_ids;
use super::{Fetcher, NO_EPOCH, Need, Partition, Plan, Position, Wish, fetch_timeout_ns};
use crate::admin::EARLIEST;
use crate::error::refused;
use crate::metadata::{Leader, Tp};
use crate::net::{LATEST_VERSION, Lane};
use bytes::Bytes;
use riprap_core::client::LogError;
use riprap_env::LogLevel;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    FetchResponse, FetchResponseAbortedTransaction, FetchResponsePartition, ListOffsetsRequest,
    ListOffsetsRequestPartition, ListOffsetsRequestTopic, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition, OffsetForLeaderEpochRequestTopic,
};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The last version of Fetch that names topics. Source: KIP-516.
const NAMES_MAX: i16 = 12;

/// Asks, and takes in the answer.
pub(super) async fn ask(fetcher: Rc<Fetcher>, leader: Leader, plan: Plan) {
    match plan {
        Plan::Validate(wishes) => validate(&fetcher, &leader, wishes).await,
        Plan::FindBeginning(wishes) => find_beginning(&fetcher, &leader, wishes).await,
        Plan::Fetch(wishes) => fetch(&fetcher, &leader, wishes).await,
    }
    fetcher.wake.tell();
}

async fn fetch(fetcher: &Fetcher, leader: &Leader, wishes: BTreeMap<Tp, Wish>) {
    let core = &fetcher.core;
    let has_ids = has_ids(&wishes);
    let asked = {
        let mut sessions = fetcher.sessions.borrow_mut();
        let session = sessions.entry(leader.broker).or_default();
        let is_used = core.options.fetch_sessions && has_ids;
        if !is_used {
            session.lost();
        }
        session.ask(is_used, &wishes, core.options.max_partition_fetch_bytes)
    };
    let at_most = if has_ids { LATEST_VERSION } else { NAMES_MAX };
    let link = core.net.link(Lane::Fetch, &leader.address);
    let answer = link.call(at_most, fetch_timeout_ns(core), |_| fetcher.fetch_request(asked)).await;
    let mut sessions = fetcher.sessions.borrow_mut();
    let session = sessions.entry(leader.broker).or_default();
    match answer {
        Ok(answer) if answer.error_code.is_none() => {
            session.answered(answer.session_id);
            drop(sessions);
            fetcher.fetched(&wishes, answer);
        }
        Ok(answer) => {
            session.lost();
            drop(sessions);
            let is_of_session = matches!(
                answer.error_code,
                ErrorCode::FETCH_SESSION_ID_NOT_FOUND | ErrorCode::INVALID_FETCH_SESSION_EPOCH
            );
            // A session is begun anew at once.
            if !is_of_session {
                fetcher.not_yet(wishes.iter());
            }
        }
        Err(_) => {
            session.lost();
            drop(sessions);
            fetcher.not_yet(wishes.iter());
        }
    }
}

impl Fetcher {
    /// Of these nothing can be had for now.
    fn not_yet<'a>(&self, wishes: impl Iterator<Item = (&'a Tp, &'a Wish)>) {
        let mut partitions = self.partitions.borrow_mut();
        for (tp, wish) in wishes {
            if let Some(partition) = partitions.get_mut(tp).filter(|p| p.generation == wish.generation) {
                partition.not_before_ns = self.core.io.now_ns() + partition.backoff.next_ns(&self.core.io);
            }
        }
        self.core.metadata.doubt();
    }

    fn fetched(&self, wishes: &BTreeMap<Tp, Wish>, answer: FetchResponse) {
        let FetchResponse { topics, node_endpoints, .. } = answer;
        for topic in topics {
            let name = if topic.topic_id.is_zero() {
                Some(Rc::from(topic.name))
            } else {
                self.core.metadata.topic_name(topic.topic_id)
            };
            let Some(name) = name else { continue };
            for partition in topic.partitions {
                let tp = Tp { topic: Rc::clone(&name), partition: partition.index };
                let Some(wish) = wishes.get(&tp) else { continue };
                let told = &partition.current_leader;
                let endpoint = node_endpoints.iter().find(|node| node.node_id == told.leader_id);
                let endpoint = endpoint.map(|node| (node.host.as_str(), node.port));
                let is_learnt = self.core.metadata.learn(&tp, told.leader_id, told.leader_epoch, endpoint);
                self.fetched_of(&tp, wish, partition, is_learnt);
            }
        }
    }

    /// Takes in what was fetched of a partition. If who leads was learnt on the way, there is nothing to wait for.
    fn fetched_of(&self, tp: &Tp, wish: &Wish, answer: FetchResponsePartition, is_learnt: bool) {
        let mut partitions = self.partitions.borrow_mut();
        let stands = |p: &&mut Partition| {
            let is_same = p.generation == wish.generation && p.fetch_at.offset == wish.offset;
            is_same && p.need == Need::Nothing && p.buffer.is_empty()
        };
        let Some(partition) = partitions.get_mut(tp).filter(stands) else { return };
        match answer.error_code {
            ErrorCode::NONE => {
                partition.backoff.reset();
                let records = answer.records.unwrap_or_default();
                if self.take_in(tp, partition, records, answer.aborted_transactions.unwrap_or_default()) {
                    let mut ready = self.ready.borrow_mut();
                    if !ready.contains(tp) {
                        ready.push_back(tp.clone());
                    }
                }
                self.arrived.tell();
            }
            ErrorCode::OFFSET_OUT_OF_RANGE => {
                let offset = partition.fetch_at.offset;
                self.core.io.log(LogLevel::Info, format_args!("{tp:?}: offset {offset} is out of range"));
                partition.rewind();
                partition.need = Need::Beginning;
            }
            code if passes(code) => {
                drop(partitions);
                if !is_learnt {
                    self.not_yet(std::iter::once((tp, wish)));
                }
            }
            code => {
                partition.error = Some(refused(code, true, &format!("a fetch of {tp:?}")));
                self.arrived.tell();
            }
        }
    }

    /// Takes in records; says whether any are for the consumer.
    fn take_in(
        &self,
        tp: &Tp,
        partition: &mut Partition,
        records: Bytes,
        aborted: Vec<FetchResponseAbortedTransaction>,
    ) -> bool {
        let from = partition.fetch_at.offset;
        match readable(records, from, aborted, self.core.config.isolation) {
            Ok(read) => {
                if let Some((offset, epoch)) = read.next {
                    partition.fetch_at = Position { offset: offset.max(from), epoch };
                }
                partition.buffer = read.records.into();
                if partition.buffer.is_empty() {
                    partition.position = partition.fetch_at;
                }
                !partition.buffer.is_empty()
            }
            Err(wrong) => {
                let message = format!("{tp:?} from offset {from} on cannot be read: {wrong}");
                let code = ErrorCode::CORRUPT_MESSAGE.to_string();
                partition.error = Some(LogError { code, definite: true, message });
                false
            }
        }
    }
}

/// Whether a fetch that met this error may be right later.
fn passes(code: ErrorCode) -> bool {
    // Java's consumer goes on after an error that nobody knows; bytes that are broken it tells its caller of.
    (code.is_retriable() && code != ErrorCode::CORRUPT_MESSAGE) || code == ErrorCode::UNKNOWN_SERVER_ERROR
}

/// Groups partitions by topic.
fn by_topic<T>(wishes: &BTreeMap<Tp, Wish>, one: impl Fn(&Tp, &Wish) -> T) -> Vec<(String, Vec<T>)> {
    let mut topics: Vec<(String, Vec<T>)> = Vec::new();
    for (tp, wish) in wishes {
        match topics.last_mut() {
            Some((name, partitions)) if **name == *tp.topic => partitions.push(one(tp, wish)),
            _ => topics.push((tp.topic.to_string(), vec![one(tp, wish)])),
        }
    }
    topics
}

async fn find_beginning(fetcher: &Fetcher, leader: &Leader, wishes: BTreeMap<Tp, Wish>) {
    let core = &fetcher.core;
    let topics = by_topic(&wishes, |tp, wish| ListOffsetsRequestPartition {
        index: tp.partition,
        current_leader_epoch: wish.leader_epoch,
        timestamp: EARLIEST,
    });
    let topics = topics.into_iter().map(|(name, partitions)| ListOffsetsRequestTopic { name, partitions });
    let request = ListOffsetsRequest { replica_id: -1, topics: topics.collect(), ..Default::default() };
    let link = core.net.link(Lane::Fetch, &leader.address);
    let Ok(answer) = link.call(LATEST_VERSION, core.request_timeout_ns(), |_| request).await else {
        return fetcher.not_yet(wishes.iter());
    };
    let mut rest = wishes;
    let mut partitions = fetcher.partitions.borrow_mut();
    for topic in answer.topics {
        for told in topic.partitions {
            let tp = Tp { topic: topic.name.as_str().into(), partition: told.index };
            if !told.error_code.is_none() {
                continue;
            }
            if let Some((_, partition)) = answered(&mut partitions, &mut rest, &tp, Need::Beginning) {
                partition.backoff.reset();
                partition.seek(Position { offset: told.offset.max(0), epoch: NO_EPOCH });
            }
        }
    }
    drop(partitions);
    if !rest.is_empty() {
        fetcher.not_yet(rest.iter());
    }
}

async fn validate(fetcher: &Fetcher, leader: &Leader, wishes: BTreeMap<Tp, Wish>) {
    let core = &fetcher.core;
    let asked: BTreeMap<Tp, i32> = {
        let partitions = fetcher.partitions.borrow();
        let epoch = |tp: &Tp| partitions.get(tp).map(|partition| (tp.clone(), partition.position.epoch));
        wishes.keys().filter_map(epoch).collect()
    };
    let topics = by_topic(&wishes, |tp, wish| OffsetForLeaderEpochRequestPartition {
        index: tp.partition,
        current_leader_epoch: wish.leader_epoch,
        leader_epoch: asked.get(tp).copied().unwrap_or(NO_EPOCH),
    });
    let topics =
        topics.into_iter().map(|(name, partitions)| OffsetForLeaderEpochRequestTopic { name, partitions });
    let request = OffsetForLeaderEpochRequest { replica_id: -1, topics: topics.collect() };
    let link = core.net.link(Lane::Fetch, &leader.address);
    let answer = link.call(LATEST_VERSION, core.request_timeout_ns(), |version| {
        // Before version 3 nobody says who asks. Source: KIP-320.
        let replica_id = if version < 3 { OffsetForLeaderEpochRequest::default().replica_id } else { -1 };
        OffsetForLeaderEpochRequest { replica_id, ..request }
    });
    let Ok(answer) = answer.await else {
        return fetcher.not_yet(wishes.iter());
    };
    let mut rest = wishes;
    let mut partitions = fetcher.partitions.borrow_mut();
    for topic in answer.topics {
        for told in topic.partitions {
            let tp = Tp { topic: topic.name.as_str().into(), partition: told.index };
            if !told.error_code.is_none() {
                continue;
            }
            let held = answered(&mut partitions, &mut rest, &tp, Need::Validation);
            let Some((wish, partition)) = held.filter(|(_, p)| asked.get(&tp) == Some(&p.position.epoch))
            else {
                continue;
            };
            partition.backoff.reset();
            partition.valid_in = wish.leader_epoch;
            match validated(partition.position, (told.leader_epoch, told.end_offset)) {
                Validated::Right => partition.need = Need::Nothing,
                Validated::Nothing => partition.need = Need::Beginning,
                Validated::Diverges(to) => {
                    let from = partition.position;
                    core.io.log(
                        LogLevel::Warn,
                        format_args!("{tp:?}: the log was cut short: {from:?} to {to:?}"),
                    );
                    partition.seek(to);
                }
            }
        }
    }
    drop(partitions);
    if !rest.is_empty() {
        fetcher.not_yet(rest.iter());
    }
}

/// The partition that an answer is about, with what was asked of it, if it still needs that. It need not be asked for again.
fn answered<'a>(
    partitions: &'a mut BTreeMap<Tp, Partition>,
    rest: &mut BTreeMap<Tp, Wish>,
    tp: &Tp,
    need: Need,
) -> Option<(Wish, &'a mut Partition)> {
    let wish = rest.remove(tp)?;
    let held = partitions.get_mut(tp).filter(|p| p.generation == wish.generation && p.need == need)?;
    Some((wish, held))
}

/// What a leader's answer says of a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Validated {
    Right,
    /// The leader knows nothing of that epoch.
    Nothing,
    Diverges(Position),
}

/// `told` is the largest epoch up to that of the position which the leader knows, and where it ends. Source: KIP-320.
fn validated(position: Position, told: (i32, i64)) -> Validated {
    let (epoch, end) = told;
    if end < 0 || epoch < 0 {
        Validated::Nothing
    } else if end < position.offset {
        Validated::Diverges(Position { offset: end, epoch })
    } else {
        Validated::Right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_leader_says_of_a_position() {
        let position = Position { offset: 10, epoch: 3 };
        for (told, expected) in [
            ((3, 10), Validated::Right),
            ((3, 15), Validated::Right),
            ((3, 9), Validated::Diverges(Position { offset: 9, epoch: 3 })),
            ((2, 4), Validated::Diverges(Position { offset: 4, epoch: 2 })),
            ((-1, -1), Validated::Nothing),
        ] {
            assert_eq!(validated(position, told), expected, "{told:?}");
        }
    }

    #[test]
    fn errors_that_pass() {
        for (code, expected) in [
            (ErrorCode::NOT_LEADER_OR_FOLLOWER, true),
            (ErrorCode::FENCED_LEADER_EPOCH, true),
            (ErrorCode::OFFSET_NOT_AVAILABLE, true),
            (ErrorCode::UNKNOWN_SERVER_ERROR, true),
            (ErrorCode::CORRUPT_MESSAGE, false),
            (ErrorCode::TOPIC_AUTHORIZATION_FAILED, false),
        ] {
            assert_eq!(passes(code), expected, "{code}");
        }
    }
}
