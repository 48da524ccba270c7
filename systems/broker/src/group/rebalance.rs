//! From one generation to the next: who is waited for, who leads, which protocol, and when the assignment counts.

use super::outbox::{Then, store_error};
use super::state::{Gathering, Group, Member, NS_PER_MS, State, Turn};
use bytes::Bytes;
use riprap_protocol::ErrorCode;
use std::collections::BTreeMap;

impl Group {
    /// Asks everybody to join the next generation.
    pub(super) fn prepare(&mut self, turn: &mut Turn<'_>) {
        if matches!(self.state, State::Completing { .. }) {
            self.drop_assignment(ErrorCode::REBALANCE_IN_PROGRESS, turn);
        }
        self.unsynced.clear();
        let timeout_ms = self.rebalance_timeout_ms();
        self.state = if matches!(self.state, State::Empty { .. }) {
            let delay_ms = turn.config.initial_rebalance_delay_ms;
            let left_ns = timeout_ms.saturating_sub(delay_ms).saturating_mul(NS_PER_MS);
            let gathering = Some(Gathering { left_ns, has_newcomer: false });
            State::Preparing { until_ns: turn.after_ms(delay_ms), gathering }
        } else {
            State::Preparing { until_ns: turn.after_ms(timeout_ms), gathering: None }
        };
        self.advance_join(turn);
    }

    /// Ends the wait for joins if everybody is there, or if its time is up.
    pub(super) fn advance_join(&mut self, turn: &mut Turn<'_>) {
        let State::Preparing { until_ns, gathering } = &mut self.state else { return };
        let is_due = *until_ns <= turn.now_ns;
        match gathering {
            Some(gathering) if is_due && gathering.has_newcomer && gathering.left_ns > 0 => {
                let delay_ns =
                    turn.config.initial_rebalance_delay_ms.saturating_mul(NS_PER_MS).min(gathering.left_ns);
                gathering.left_ns -= delay_ns;
                gathering.has_newcomer = false;
                *until_ns = turn.now_ns.saturating_add(delay_ns);
            }
            Some(_) if is_due => self.complete_join(turn),
            Some(_) => {}
            None => {
                let everybody = self.members.values().all(|member| member.joining.is_some());
                if is_due || everybody && self.promised.is_empty() {
                    self.complete_join(turn);
                }
            }
        }
    }

    /// Begins the next generation with those who joined.
    fn complete_join(&mut self, turn: &mut Turn<'_>) {
        // A static member may be away for its session timeout and keep its place. Source: KIP-345.
        let absent = |member: &Member| member.joining.is_none() && member.instance_id.is_none();
        let gone: Vec<String> =
            self.members.iter().filter(|(_, m)| absent(m)).map(|(id, _)| id.clone()).collect();
        for member_id in gone {
            self.take_out(&member_id, turn);
        }
        if !self.elect_leader() {
            // Static members alone, all of them away: wait until they come or their sessions end.
            const SHORTEST_WAIT_MS: u64 = 1000;
            let wait_ms = self.rebalance_timeout_ms().max(SHORTEST_WAIT_MS);
            self.state = State::Preparing { until_ns: turn.after_ms(wait_ms), gathering: None };
            return;
        }
        self.generation += 1;
        self.unsynced.clear();
        if self.members.is_empty() {
            self.protocol = None;
            self.state = State::Empty { since_ms: turn.wall_ms };
            self.store(Then::Emptied, &BTreeMap::new(), turn);
            return;
        }
        self.protocol = self.select_protocol();
        self.state = State::Completing { is_storing: false };
        self.unsynced = self.members.keys().cloned().collect();
        self.sync_until_ns = turn.after_ms(self.rebalance_timeout_ms());
        for member_id in self.unsynced.clone() {
            self.answer_join(&member_id, turn);
            let member = self.members.get_mut(&member_id).expect("just listed");
            member.is_new = false;
            member.touch(turn.now_ns);
        }
    }

    /// Makes sure that the leader is among those who joined. False if members are left and none of them joined.
    fn elect_leader(&mut self) -> bool {
        let joined = |id: &String| self.members.get(id).is_some_and(|member| member.joining.is_some());
        if !self.leader.as_ref().is_some_and(joined) {
            match self.members.keys().find(|id| joined(id)) {
                Some(id) => self.leader = Some(id.clone()),
                None if self.members.is_empty() => self.leader = None,
                None => return false,
            }
        }
        true
    }

    /// The protocol that most members like most, of those that all of them know; the leader decides a draw.
    pub(super) fn select_protocol(&self) -> Option<String> {
        let known_to_all = |name: &str| self.members.values().all(|member| member.supports(name));
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some((name, _)) = member.protocols.iter().find(|(name, _)| known_to_all(name)) {
                *votes.entry(name).or_default() += 1;
            }
        }
        let most = votes.values().max()?;
        let leader = self.leader.as_ref().and_then(|id| self.members.get(id));
        let preferred =
            leader.into_iter().flat_map(|leader| &leader.protocols).map(|(name, _)| name.as_str());
        preferred.chain(votes.keys().copied()).find(|name| votes.get(name) == Some(most)).map(str::to_owned)
    }

    /// Gives up the assignment of a generation that did not become stable; whoever waits for it is told why.
    pub(super) fn drop_assignment(&mut self, code: ErrorCode, turn: &mut Turn<'_>) {
        for member in self.members.values_mut() {
            member.assignment = Bytes::new();
            if let Some(to) = member.syncing.take() {
                turn.refuse_sync(to, code);
                member.touch(turn.now_ns);
            }
        }
    }

    /// The log took the generation's assignment, or refused it.
    pub(super) fn assigned(
        &mut self,
        generation: i32,
        assignments: &BTreeMap<String, Bytes>,
        outcome: Result<(), ErrorCode>,
        turn: &mut Turn<'_>,
    ) {
        // A member may have come or gone in the meantime: then the next generation is on its way.
        if !matches!(self.state, State::Completing { .. }) || generation != self.generation {
            return;
        }
        match outcome {
            Ok(()) => {
                self.state = State::Stable;
                for (id, member) in &mut self.members {
                    member.assignment = assignments.get(id).cloned().unwrap_or_default();
                }
                for member_id in self.members.keys().cloned().collect::<Vec<_>>() {
                    self.answer_sync(&member_id, turn);
                }
            }
            Err(code) => {
                self.drop_assignment(store_error(code), turn);
                self.prepare(turn);
            }
        }
    }
}
