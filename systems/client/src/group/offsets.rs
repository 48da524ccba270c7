//! What a group has committed, and commits.
//!
//! A question for offsets that are to be read on from wants stable ones: while a transaction that commits some of them is
//! open, the coordinator says to come again (KIP-447).
//!
//! A commit that went out may have been carried out, or may yet be; so may one that a coordinator refused because it was
//! replaced meanwhile. Errors that it gives before it writes anything prove that it did not ([`proves_not_committed`]).

use super::Membership;
use crate::coordinator::Finder;
use crate::core::Core;
use crate::error::{OPERATION_TIMED_OUT, Trouble, refused, timed_out};
use crate::fetch::Position;
use crate::metadata::Tp;
use crate::net::{CallError, LATEST_VERSION, Lane};
use crate::txn::{Commit, Member};
use riprap_core::client::LogError;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetFetchRequest,
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchResponse,
};
use std::collections::BTreeMap;

/// From this version on several groups may be asked for at once. Source: KIP-709.
const GROUPS_SINCE: i16 = 8;
/// From this version on a member says who it is. Source: KIP-848.
const MEMBERS_SINCE: i16 = 9;

/// Of each partition where to go on from; none where nothing is committed.
pub(crate) type Found = BTreeMap<Tp, Result<Option<Position>, ErrorCode>>;

/// Whether somebody else is to be asked.
pub(super) fn is_elsewhere(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE)
}

/// An error among what was found.
pub(crate) fn first_error(found: &Found) -> Option<ErrorCode> {
    found.values().find_map(|found| found.as_ref().err().copied())
}

/// Asks once what the group has committed.
pub(crate) async fn fetch(
    core: &Core,
    group: &Finder,
    member: Option<&Member>,
    tps: &[Tp],
    by_ns: u64,
) -> Result<Found, Trouble> {
    let address = group.find(by_ns).await?;
    let topics = by_topic(tps.iter(), |tp| tp.partition);
    let topics: Vec<OffsetFetchRequestTopic> =
        topics.into_iter().map(|(name, partitions)| OffsetFetchRequestTopic { name, partitions }).collect();
    let body = |version| {
        let group_id = core.config.group_id.clone();
        if version < GROUPS_SINCE {
            let require_stable = version >= 7;
            return OffsetFetchRequest {
                group_id,
                topics: Some(topics),
                require_stable,
                ..Default::default()
            };
        }
        let member = member.filter(|_| version >= MEMBERS_SINCE);
        let group = OffsetFetchRequestGroup {
            group_id,
            member_id: member.map(|member| member.id.clone()),
            member_epoch: member.map_or(-1, |member| member.generation),
            topics: Some(topics),
        };
        OffsetFetchRequest { groups: vec![group], require_stable: true, ..Default::default() }
    };
    let answer = core.call((Lane::Offsets, &address), LATEST_VERSION, by_ns, body).await;
    let found = answer.and_then(|answer| found(answer).map_err(Trouble::Code));
    if found
        .as_ref()
        .err()
        .is_some_and(|trouble| !matches!(trouble, Trouble::Code(code) if !is_elsewhere(*code)))
    {
        group.forget();
    }
    found
}

fn found(answer: OffsetFetchResponse) -> Result<Found, ErrorCode> {
    let (code, topics) = match answer.groups.into_iter().next() {
        Some(group) => (group.error_code, group.topics),
        None => (answer.error_code, answer.topics),
    };
    if !code.is_none() {
        return Err(code);
    }
    let mut found = Found::new();
    for topic in topics {
        for told in topic.partitions {
            let tp = Tp { topic: topic.name.as_str().into(), partition: told.index };
            let position = Position { offset: told.committed_offset, epoch: told.committed_leader_epoch };
            let position = (told.committed_offset >= 0).then_some(position);
            found.insert(tp, if told.error_code.is_none() { Ok(position) } else { Err(told.error_code) });
        }
    }
    Ok(found)
}

/// Whether a coordinator gives this error only before it writes anything.
fn proves_not_committed(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::REBALANCE_IN_PROGRESS
            | ErrorCode::FENCED_INSTANCE_ID
            | ErrorCode::FENCED_MEMBER_EPOCH
            | ErrorCode::STALE_MEMBER_EPOCH
            | ErrorCode::INVALID_GROUP_ID
            | ErrorCode::GROUP_AUTHORIZATION_FAILED
            | ErrorCode::OFFSET_METADATA_TOO_LARGE
            | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    )
}

/// Commits, and tries again while that may help.
pub(crate) async fn commit(
    core: &Core,
    group: &Finder,
    membership: &Membership,
    commits: &[Commit],
) -> Result<(), LogError> {
    const WHAT: &str = "the commit of offsets";
    let by_ns = core.ask_deadline_ns();
    let mut backoff = core.backoff();
    let mut in_doubt = false;
    loop {
        // Its epoch may be another by now; partitions that it lost are not committed by who it is then.
        let member = membership.member();
        let trouble = match attempt(core, group, &member, commits, by_ns).await {
            Ok(codes) => {
                let error = codes.iter().copied().find(|code| !code.is_none());
                let Some(code) = error else { return Ok(()) };
                in_doubt |= codes.iter().any(|code| !proves_not_committed(*code));
                if is_elsewhere(code) {
                    group.forget();
                }
                let is_stale = code == ErrorCode::STALE_MEMBER_EPOCH && membership.member() != member;
                if !code.is_retriable() && !is_stale {
                    return Err(refused(code, !in_doubt, WHAT));
                }
                Trouble::Code(code)
            }
            Err(trouble) => {
                in_doubt |= trouble == Trouble::Call(CallError::Lost);
                group.forget();
                trouble
            }
        };
        backoff.pause(&core.io, by_ns).await;
        if core.io.now_ns() >= by_ns {
            return Err(timed_out(OPERATION_TIMED_OUT, !in_doubt, WHAT, Some(trouble)));
        }
    }
}

async fn attempt(
    core: &Core,
    group: &Finder,
    member: &Member,
    commits: &[Commit],
    by_ns: u64,
) -> Result<Vec<ErrorCode>, Trouble> {
    let address = group.find(by_ns).await?;
    let topics = by_topic(commits.iter(), |commit| OffsetCommitRequestPartition {
        index: commit.tp.partition,
        committed_offset: commit.offset,
        committed_leader_epoch: commit.leader_epoch,
        committed_metadata: None,
    });
    let topics =
        topics.into_iter().map(|(name, partitions)| OffsetCommitRequestTopic { name, partitions }).collect();
    let body = |_| OffsetCommitRequest {
        group_id: core.config.group_id.clone(),
        generation_id_or_member_epoch: member.generation,
        member_id: member.id.clone(),
        topics,
        ..Default::default()
    };
    let answer = core.call((Lane::Offsets, &address), LATEST_VERSION, by_ns, body).await?;
    Ok(answer
        .topics
        .iter()
        .flat_map(|topic| &topic.partitions)
        .map(|partition| partition.error_code)
        .collect())
}

trait HasTp {
    fn tp(&self) -> &Tp;
}

impl HasTp for Tp {
    fn tp(&self) -> &Tp {
        self
    }
}

impl HasTp for Commit {
    fn tp(&self) -> &Tp {
        &self.tp
    }
}

fn by_topic<'a, P: HasTp + 'a, T>(
    parts: impl Iterator<Item = &'a P>,
    one: impl Fn(&P) -> T,
) -> Vec<(String, Vec<T>)> {
    let mut topics: BTreeMap<&str, Vec<T>> = BTreeMap::new();
    for part in parts {
        topics.entry(&part.tp().topic).or_default().push(one(part));
    }
    topics.into_iter().map(|(name, parts)| (name.to_owned(), parts)).collect()
}
