//! The second half of a rebalance, and what members do between rebalances: heartbeats, and leaving.

use super::outbox::Then;
use super::state::{Group, State, Turn};
use super::{ReplyTo, Response};
use bytes::Bytes;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    LeaveGroupRequestMember, LeaveGroupResponseMember, SyncGroupRequest, SyncGroupResponse,
};
use std::collections::BTreeMap;

impl Group {
    /// Takes in a sync. It is answered when the leader's assignment is committed to the log, or at once in a stable
    /// generation, or if it is refused.
    pub(super) fn sync(&mut self, to: ReplyTo, request: SyncGroupRequest, turn: &mut Turn<'_>) {
        if let Err(code) = self.try_sync(to, request, turn) {
            turn.refuse_sync(to, code);
        }
    }

    fn try_sync(
        &mut self,
        to: ReplyTo,
        request: SyncGroupRequest,
        turn: &mut Turn<'_>,
    ) -> Result<(), ErrorCode> {
        if self.state == State::Dead {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        let member_id = &request.member_id;
        self.check_member(member_id, request.group_instance_id.as_deref())?;
        self.check_generation(request.generation_id)?;
        let differs = |asked: &Option<String>, is: &Option<String>| asked.is_some() && asked != is;
        if differs(&request.protocol_type, &self.protocol_type)
            || differs(&request.protocol_name, &self.protocol)
        {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        let is_leader = self.leader.as_ref() == Some(member_id);
        let is_storing = match self.state {
            State::Completing { is_storing } => is_storing,
            State::Stable => {
                self.await_assignment(member_id, to, turn);
                self.answer_sync(member_id, turn);
                return Ok(());
            }
            State::Preparing { .. } => return Err(ErrorCode::REBALANCE_IN_PROGRESS),
            State::Empty { .. } | State::Dead => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
        };
        // A leader that repeats itself waits for what is being stored: a second assignment of one generation would
        // be the one that the next coordinator loads, while the members have the first.
        if !is_leader || is_storing {
            self.await_assignment(member_id, to, turn);
            return Ok(());
        }
        let mut assignments: BTreeMap<String, Bytes> = BTreeMap::new();
        for assigned in request.assignments {
            if self.members.contains_key(&assigned.member_id) {
                assignments.insert(assigned.member_id, Bytes::copy_from_slice(&assigned.assignment));
            }
        }
        if assignments.values().map(Bytes::len).sum::<usize>() > turn.config.max_assignment_bytes {
            return Err(ErrorCode::POLICY_VIOLATION);
        }
        self.await_assignment(member_id, to, turn);
        self.state = State::Completing { is_storing: true };
        let then = Then::Assign { generation: self.generation, assignments: assignments.clone() };
        self.store(then, &assignments, turn);
        Ok(())
    }

    fn await_assignment(&mut self, member_id: &str, to: ReplyTo, turn: &mut Turn<'_>) {
        self.unsynced.remove(member_id);
        let member = self.members.get_mut(member_id).expect("a member, as was checked");
        if let Some(former) = member.syncing.replace(to) {
            // The client gave up on it, or it would not have asked again.
            turn.refuse_sync(former, ErrorCode::REBALANCE_IN_PROGRESS);
        }
    }

    /// Gives a member that waits for it its assignment.
    pub(super) fn answer_sync(&mut self, member_id: &str, turn: &mut Turn<'_>) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        let Some(to) = member.syncing.take() else { return };
        member.touch(turn.now_ns);
        let response = SyncGroupResponse {
            throttle_time_ms: 0,
            error_code: ErrorCode::NONE,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol.clone(),
            assignment: member.assignment.clone(),
        };
        turn.outbox.reply(to, Response::SyncGroup(response));
    }

    pub(super) fn heartbeat(
        &mut self,
        generation: i32,
        member_id: &str,
        instance_id: Option<&str>,
        turn: &Turn<'_>,
    ) -> Result<(), ErrorCode> {
        if self.state == State::Dead {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        self.check_member(member_id, instance_id)?;
        self.check_generation(generation)?;
        self.touch(member_id, turn.now_ns);
        match self.state {
            State::Preparing { .. } => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            _ => Ok(()),
        }
    }

    /// Takes members out at their own or an operator's wish; the operator names a static member by its instance id
    /// alone.
    pub(super) fn leave(
        &mut self,
        leaving: LeaveGroupRequestMember,
        turn: &mut Turn<'_>,
    ) -> LeaveGroupResponseMember {
        let instance_id = leaving.group_instance_id.as_deref();
        let found = if leaving.member_id.is_empty() {
            instance_id.and_then(|id| self.statics.get(id).cloned()).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)
        } else if self.promised.contains_key(&leaving.member_id) {
            Ok(leaving.member_id.clone())
        } else {
            self.check_member(&leaving.member_id, instance_id).map(|()| leaving.member_id.clone())
        };
        let error_code = match found {
            Ok(member_id) => {
                self.remove(&member_id, turn);
                ErrorCode::NONE
            }
            Err(code) => code,
        };
        LeaveGroupResponseMember {
            member_id: leaving.member_id,
            group_instance_id: leaving.group_instance_id,
            error_code,
        }
    }
}
