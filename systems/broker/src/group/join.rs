//! Joining a group: the first half of a rebalance.

use super::outbox::{Then, store_error};
use super::state::{Group, Member, State, Turn};
use super::{Caller, ReplyTo, Response};
use bytes::Bytes;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember};
use std::collections::BTreeMap;

/// First version in which a member gets its id before it joins, so that a client that retries leaves no unknown
/// members behind. Source: KIP-394.
const MEMBER_ID_REQUIRED_SINCE: i16 = 4;

/// First version in which a static leader that returns can be told not to assign. Source: KIP-814.
const SKIP_ASSIGNMENT_SINCE: i16 = 9;

/// How much of a client's own name goes into its member id: enough to be recognised in a log.
const CLIENT_ID_IN_MEMBER_ID_BYTES: usize = 128;

/// How long a new member's join may wait for its answer. It sends no heartbeats yet, and a client that gave up and
/// came again would leave one dead member behind each time. Source: Kafka's GroupCoordinator, NewMemberJoinTimeoutMs.
const NEW_MEMBER_JOIN_TIMEOUT_MS: u64 = 5 * 60 * 1000;

/// A join, taken apart.
struct Join {
    to: ReplyTo,
    version: i16,
    client_id: String,
    client_host: String,
    member_id: String,
    instance_id: Option<String>,
    session_timeout_ms: u64,
    rebalance_timeout_ms: u64,
    protocol_type: String,
    protocols: Vec<(String, Bytes)>,
}

impl Group {
    /// Takes in a join, which is answered when the next generation begins, or at once if it is refused.
    pub(super) fn join(
        &mut self,
        caller: &Caller,
        request: JoinGroupRequest,
        random: &mut dyn FnMut() -> u64,
        turn: &mut Turn<'_>,
    ) {
        let session_timeout_ms = u64::try_from(request.session_timeout_ms).unwrap_or(0);
        let mut protocols: Vec<(String, Bytes)> = Vec::new();
        for protocol in request.protocols {
            if protocols.iter().all(|(name, _)| *name != protocol.name) {
                // A copy: the request's frame holds more than what is kept.
                protocols.push((protocol.name, Bytes::copy_from_slice(&protocol.metadata)));
            }
        }
        let join = Join {
            to: caller.reply_to,
            version: caller.api_version,
            client_id: caller.client_id.clone(),
            client_host: caller.client_host.clone(),
            member_id: request.member_id,
            instance_id: request.group_instance_id,
            session_timeout_ms,
            // Version 0 has none.
            rebalance_timeout_ms: u64::try_from(request.rebalance_timeout_ms).unwrap_or(session_timeout_ms),
            protocol_type: request.protocol_type,
            protocols,
        };
        let (to, member_id) = (join.to, join.member_id.clone());
        if let Err(code) = self.try_join(join, random, turn) {
            turn.refuse_join(to, &member_id, code);
        }
        self.advance_join(turn);
    }

    fn try_join(
        &mut self,
        join: Join,
        random: &mut dyn FnMut() -> u64,
        turn: &mut Turn<'_>,
    ) -> Result<(), ErrorCode> {
        let is_changing = self.consumer.as_ref().is_some_and(|consumer| consumer.is_busy());
        if self.state == State::Dead || is_changing {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        let size: usize = join.protocols.iter().map(|(name, wanted)| name.len() + wanted.len()).sum();
        if size > turn.config.max_subscription_bytes {
            return Err(ErrorCode::POLICY_VIOLATION);
        }
        if !self.has_room_for(&join, turn.config.max_members) {
            self.take_out(&join.member_id, turn);
            return Err(ErrorCode::GROUP_MAX_SIZE_REACHED);
        }
        if self.has_consumers() || !self.can_work_with(&join) {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        if join.member_id.is_empty() {
            self.leave_consumer_protocol(turn);
            return self.join_unknown(join, random, turn);
        }
        if self.promised.contains_key(&join.member_id) {
            if join.instance_id.is_some() {
                // Ids are promised to dynamic members alone.
                return Err(ErrorCode::UNKNOWN_MEMBER_ID);
            }
            let member_id = join.member_id.clone();
            self.add(member_id, join, turn);
            return Ok(());
        }
        self.check_member(&join.member_id, join.instance_id.as_deref())?;
        self.rejoin(join, turn);
        Ok(())
    }

    /// While members come together it is those who came that count: the limit may have been lowered.
    fn has_room_for(&self, join: &Join, max_members: usize) -> bool {
        let takes_a_place = match &join.instance_id {
            Some(instance_id) if join.member_id.is_empty() => !self.statics.contains_key(instance_id),
            _ => !self.members.contains_key(&join.member_id),
        };
        let has_joined = |member: &Member| member.joining.is_some();
        let is_there = match self.state {
            State::Preparing { .. } => self.members.get(&join.member_id).is_some_and(has_joined),
            _ => !takes_a_place,
        };
        let count = match self.state {
            State::Preparing { .. } => self.members.values().filter(|member| has_joined(member)).count(),
            _ => self.members.len(),
        };
        // Ids that were given out and not used take memory too.
        let asks_for_id = join.member_id.is_empty() && takes_a_place;
        (is_there || count < max_members) && (!asks_for_id || self.promised.len() < max_members)
    }

    /// Whether all members, and who wants to be one, know some protocol.
    fn can_work_with(&self, join: &Join) -> bool {
        if self.members.is_empty() {
            return !join.protocol_type.is_empty() && !join.protocols.is_empty();
        }
        let all_know = |name: &String| self.members.values().all(|member| member.supports(name));
        self.protocol_type.as_ref() == Some(&join.protocol_type)
            && join.protocols.iter().any(|(name, _)| all_know(name))
    }

    fn join_unknown(
        &mut self,
        join: Join,
        random: &mut dyn FnMut() -> u64,
        turn: &mut Turn<'_>,
    ) -> Result<(), ErrorCode> {
        let name = join.instance_id.as_ref().unwrap_or(&join.client_id);
        let mut end = name.len().min(CLIENT_ID_IN_MEMBER_ID_BYTES);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let member_id = format!("{}-{:016x}{:016x}", &name[..end], random(), random());
        if let Some(instance_id) = &join.instance_id {
            match self.statics.get(instance_id).cloned() {
                Some(former) => self.replace(&former, member_id, join, turn),
                None => self.add(member_id, join, turn),
            }
        } else if join.version >= MEMBER_ID_REQUIRED_SINCE {
            self.promised.insert(member_id.clone(), turn.after_ms(join.session_timeout_ms));
            turn.refuse_join(join.to, &member_id, ErrorCode::MEMBER_ID_REQUIRED);
        } else {
            self.add(member_id, join, turn);
        }
        Ok(())
    }

    fn add(&mut self, member_id: String, join: Join, turn: &mut Turn<'_>) {
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type);
        }
        if let State::Preparing { gathering: Some(gathering), .. } = &mut self.state {
            gathering.has_newcomer = true;
        }
        if let Some(instance_id) = &join.instance_id {
            self.statics.insert(instance_id.clone(), member_id.clone());
        }
        let member = Member {
            instance_id: join.instance_id,
            client_id: join.client_id,
            client_host: join.client_host,
            session_timeout_ms: join.session_timeout_ms,
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            protocols: join.protocols,
            assignment: Bytes::new(),
            joining: Some(join.to),
            syncing: None,
            is_new: true,
            expires_at_ns: turn.after_ms(NEW_MEMBER_JOIN_TIMEOUT_MS),
        };
        self.promised.remove(&member_id);
        self.leader.get_or_insert_with(|| member_id.clone());
        self.members.insert(member_id, member);
        self.prepare_unless_preparing(turn);
    }

    fn prepare_unless_preparing(&mut self, turn: &mut Turn<'_>) {
        if !matches!(self.state, State::Preparing { .. }) {
            self.prepare(turn);
        }
    }

    /// A member joins again: because it was asked to, because something changed, or because it missed the answer.
    fn rejoin(&mut self, join: Join, turn: &mut Turn<'_>) {
        let member_id = join.member_id.clone();
        let is_leader = self.leader.as_ref() == Some(&member_id);
        let member = self.members.get(&member_id).expect("a member, as was checked");
        let is_unchanged = member.protocols == join.protocols;
        // A leader that joins a stable group knows of something that the members' subscriptions do not say, such as
        // new partitions.
        let missed_the_answer = match self.state {
            State::Completing { .. } => is_unchanged,
            State::Stable => is_unchanged && !is_leader,
            _ => false,
        };
        self.update(&member_id, join, turn);
        if missed_the_answer {
            self.answer_join(&member_id, turn);
        } else {
            self.prepare_unless_preparing(turn);
        }
    }

    fn update(&mut self, member_id: &str, join: Join, turn: &mut Turn<'_>) {
        let member = self.members.get_mut(member_id).expect("a member, as was checked");
        member.protocols = join.protocols;
        member.session_timeout_ms = join.session_timeout_ms;
        member.rebalance_timeout_ms = join.rebalance_timeout_ms;
        if let Some(former) = member.joining.replace(join.to) {
            // The client gave up on it, or it would not have asked again.
            turn.refuse_join(former, member_id, ErrorCode::REBALANCE_IN_PROGRESS);
        }
    }

    /// Tells a member that waits in its join about the generation.
    pub(super) fn answer_join(&mut self, member_id: &str, turn: &mut Turn<'_>) {
        let leader = self.leader.clone().unwrap_or_default();
        self.answer_join_as(member_id, leader, false, turn);
    }

    fn answer_join_as(
        &mut self,
        member_id: &str,
        leader: String,
        skip_assignment: bool,
        turn: &mut Turn<'_>,
    ) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        let Some(to) = member.joining.take() else { return };
        member.touch(turn.now_ns);
        let members = self.members.iter().filter(|_| leader == member_id).map(|(id, member)| {
            let metadata = member.subscription(self.protocol.as_deref());
            let group_instance_id = member.instance_id.clone();
            JoinGroupResponseMember { member_id: id.clone(), group_instance_id, metadata }
        });
        let response = JoinGroupResponse {
            throttle_time_ms: 0,
            error_code: ErrorCode::NONE,
            generation_id: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: Some(self.protocol.clone().unwrap_or_default()),
            members: members.collect(),
            leader,
            skip_assignment,
            member_id: member_id.to_owned(),
        };
        turn.outbox.reply(to, Response::JoinGroup(response));
    }

    /// A static member returns under a new id and takes the place of its former life, which is fenced.
    /// Source: KIP-345; KIP-814.
    fn replace(&mut self, former: &str, member_id: String, join: Join, turn: &mut Turn<'_>) {
        let mut member = self.members.remove(former).expect("static members are members");
        if let Some(to) = member.joining.take() {
            turn.refuse_join(to, former, ErrorCode::FENCED_INSTANCE_ID);
        }
        if let Some(to) = member.syncing.take() {
            turn.refuse_sync(to, ErrorCode::FENCED_INSTANCE_ID);
        }
        member.touch(turn.now_ns);
        if let Some(instance_id) = &join.instance_id {
            self.statics.insert(instance_id.clone(), member_id.clone());
        }
        if self.unsynced.remove(former) {
            self.unsynced.insert(member_id.clone());
        }
        let former_leader = self.leader.clone().unwrap_or_default();
        if former_leader == former {
            self.leader = Some(member_id.clone());
        }
        self.members.insert(member_id.clone(), member);
        let can_skip_assignment = join.version >= SKIP_ASSIGNMENT_SINCE;
        self.update(&member_id, join, turn);
        match self.state {
            // Nothing that the assignment depends on has changed: the others need not stop.
            State::Stable if self.select_protocol() == self.protocol => {
                let generation = self.generation;
                let assignments: BTreeMap<String, Bytes> =
                    self.members.iter().map(|(id, member)| (id.clone(), member.assignment.clone())).collect();
                let then = Then::Replace { generation, member_id, former_leader, can_skip_assignment };
                self.store(then, &assignments, turn);
            }
            // The leader may be assigning to the former id at this moment.
            _ => self.prepare_unless_preparing(turn),
        }
    }

    /// The log took the new id of a static member, or refused it.
    pub(super) fn replaced(
        &mut self,
        (generation, member_id): (i32, &str),
        former_leader: &str,
        can_skip_assignment: bool,
        outcome: Result<(), ErrorCode>,
        turn: &mut Turn<'_>,
    ) {
        // A rebalance that began in the meantime answers the join.
        if self.state != State::Stable || self.generation != generation {
            return;
        }
        match outcome {
            Ok(()) if can_skip_assignment => {
                let leader = self.leader.clone().unwrap_or_default();
                let is_leader = leader == member_id;
                self.answer_join_as(member_id, leader, is_leader, turn);
            }
            // Older clients that see themselves as the leader would assign, and a stable group would not listen:
            // they are told of the leader that was.
            Ok(()) => self.answer_join_as(member_id, former_leader.to_owned(), false, turn),
            Err(code) => {
                let member = self.members.get_mut(member_id);
                if let Some((member, to)) = member.and_then(|m| m.joining.take().map(|to| (m, to))) {
                    turn.refuse_join(to, "", store_error(code));
                    member.touch(turn.now_ns);
                }
                self.prepare(turn);
            }
        }
    }
}
