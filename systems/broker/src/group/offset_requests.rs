//! What a coordinator is asked about offsets: to commit, to tell, to forget, and how transactions ended.

use super::offsets::{
    MEMBER_EPOCH_SINCE, Offsets, commit_answer, commit_response, offset_fetch_error, plain_commit,
};
use super::state::Group;
use super::{Coordinator, ReplyTo};
use crate::defect::DefectKind;
use crate::txn::Producer;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequestGroup, OffsetFetchResponseGroup,
    TxnOffsetCommitRequest,
};
use riprap_protocol::records::TxnResult;

impl Coordinator {
    /// Answers, by output. Whether the partitions exist is the driver's to check.
    pub fn offset_commit(
        &mut self,
        now_ns: u64,
        to: ReplyTo,
        api_version: i16,
        request: OffsetCommitRequest,
    ) {
        let unknown = if api_version >= MEMBER_EPOCH_SINCE {
            ErrorCode::GROUP_ID_NOT_FOUND
        } else {
            ErrorCode::ILLEGAL_GENERATION
        };
        let group = self.groups.get(&request.group_id);
        // Members of KIP-848 exist in these versions only.
        let is_old = group.is_some_and(Group::has_consumers) && api_version < MEMBER_EPOCH_SINCE;
        if is_old && !self.is_loading {
            let topics = commit_answer(&request.topics, ErrorCode::UNSUPPORTED_VERSION);
            self.outbox.reply(to, commit_response(topics, None));
        } else {
            self.take_commit(now_ns, to, request, None, unknown);
        }
    }

    fn take_commit(
        &mut self,
        now_ns: u64,
        to: ReplyTo,
        request: OffsetCommitRequest,
        producer: Option<Producer>,
        unknown: ErrorCode,
    ) {
        if let Err(code) = self.check_commit(now_ns, &request, unknown) {
            let topics = commit_answer(&request.topics, code);
            self.outbox.reply(to, commit_response(topics, producer));
            return;
        }
        let group_id = request.group_id.clone();
        let acted = self.act(now_ns, &group_id, |group, _, turn| group.commit(to, request, producer, turn));
        acted.expect("it was just made sure that there is one");
    }

    /// Stages offsets in a producer's open transaction. Answers, by output. That the partition of `__consumer_offsets` is
    /// in the transaction, and whether the partitions exist, is the driver's to check.
    pub fn txn_offset_commit(&mut self, now_ns: u64, to: ReplyTo, request: TxnOffsetCommitRequest) {
        let producer = Producer { id: request.producer_id, epoch: request.producer_epoch };
        self.take_commit(now_ns, to, plain_commit(request), Some(producer), ErrorCode::ILLEGAL_GENERATION);
    }

    /// A marker is committed in the partition, or was loaded: in the order of the log among appends. The marker is
    /// acknowledged after this, for the next transaction's offsets must not be taken for this one's (KAFKA-17507).
    pub fn end_transaction(&mut self, now_ns: u64, producer_id: i64, result: TxnResult) {
        let in_it = self.groups.iter_mut().filter(|(_, group)| group.offsets.has_staged(producer_id));
        let mut group_ids = Vec::new();
        for (group_id, group) in in_it {
            let now_ms = (!self.is_loading).then(|| self.wall.at_ms(now_ns));
            group.offsets.end_transaction(producer_id, result, now_ms);
            group_ids.push(group_id.clone());
        }
        // The clocks of groups that are loaded do not run yet.
        if !self.is_loading {
            group_ids.iter().for_each(|group_id| {
                self.act(now_ns, group_id, |_, _, _| ());
            });
        }
    }

    fn check_commit(
        &mut self,
        now_ns: u64,
        request: &OffsetCommitRequest,
        unknown: ErrorCode,
    ) -> Result<(), ErrorCode> {
        self.check_loaded()?;
        if self.outbox.in_flight() >= self.config.max_in_flight {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        if self.groups.contains_key(&request.group_id) {
            Ok(())
        } else if request.generation_id_or_member_epoch < 0 {
            // A consumer that assigns itself, and has its offsets kept here.
            self.make_group(now_ns, &request.group_id)
        } else {
            Err(unknown)
        }
    }

    /// What one group committed.
    pub fn offset_fetch(
        &self,
        request: &OffsetFetchRequestGroup,
        require_stable: bool,
    ) -> OffsetFetchResponseGroup {
        if let Err(code) = self.check_loaded() {
            return offset_fetch_error(request, code);
        }
        let group_id = request.group_id.clone();
        let none = Offsets::default();
        let group = self.groups.get(&group_id);
        if let Some(consumer) = group.and_then(|group| group.consumer.as_ref())
            && let Err(code) = consumer.check_fetch(request.member_id.as_deref(), request.member_epoch)
        {
            return offset_fetch_error(request, code);
        }
        let offsets = group.map_or(&none, |group| &group.offsets);
        // DEFECT unstable-offset-fetch: who asks for stable offsets is not told to come again while a transaction has newer ones.
        let is_held = require_stable && self.config.defect != Some(DefectKind::UnstableOffsetFetch);
        let topics = offsets.fetch(request.topics.as_deref(), is_held);
        OffsetFetchResponseGroup { group_id, topics, error_code: ErrorCode::NONE }
    }

    /// Removes offsets of topics that nobody is subscribed to; answers, by output. Whether the partitions exist is the
    /// driver's to check.
    pub fn offset_delete(&mut self, now_ns: u64, to: ReplyTo, request: OffsetDeleteRequest) {
        let group_id = request.group_id.clone();
        let checked = self.check_loaded().and_then(|()| {
            if self.groups.contains_key(&group_id) { Ok(()) } else { Err(ErrorCode::GROUP_ID_NOT_FOUND) }
        });
        match checked {
            Ok(()) => {
                self.act(now_ns, &group_id, |group, topics, turn| {
                    group.delete_offsets(to, request, topics, turn);
                });
            }
            Err(code) => self.turn(now_ns).refuse_deletion(to, code),
        }
    }
}
