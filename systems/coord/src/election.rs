//! Who leads: timeouts, pre-votes, votes, stepping down.
//!
//! ```text
//!   Follower -- election timeout --> PreCandidate -- a majority would vote --> Candidate -- a majority voted --> Leader
//!      ^  pre-votes bind nobody, change no term and touch no disk (thesis 9.6)    |                                |
//!      +-- a leader of this term is heard, or a higher term, or no majority hears this leader (thesis 6.2) --------+
//! ```
//!
//! A node that heard its leader within the last election timeout, and a leader that heard a majority within it,
//! answers no to pre-votes and does not even look at votes of higher terms: a node that comes back from a partition
//! does not disturb (thesis 4.2.3). A node whose term is higher all the same is found by its rejections of appends;
//! the leader then steps down, since that node could follow nobody otherwise.

use crate::message::Body;
use crate::progress::Progress;
use crate::raft::{Leadership, Raft, State};
use crate::storage::HardState;
use crate::types::{Entry, Index, NodeId, Term};
use bytes::Bytes;
use riprap_env::{Env, log};
use std::collections::BTreeSet;

impl Raft {
    pub(crate) fn restart_election_timer(&mut self, now_ns: u64, env: &mut dyn Env) {
        let timeout_ns = self.config.election_timeout_ns;
        let random_ns = env.random_u64("election-timeout") % timeout_ns;
        self.election_at_ns = now_ns.saturating_add(timeout_ns).saturating_add(random_ns);
    }

    /// The follower's end of every way down. Panics: the term falls.
    pub(crate) fn become_follower(
        &mut self,
        now_ns: u64,
        term: Term,
        leader: Option<NodeId>,
        env: &mut dyn Env,
    ) {
        assert!(term >= self.hard.term, "term {} cannot fall to {term}", self.hard.term);
        if term > self.hard.term {
            self.hard = HardState { term, vote: None };
            self.incoming = None;
        }
        if self.is_leader() {
            self.restart_election_timer(now_ns, env);
        }
        self.state = State::Follower;
        self.leader = leader;
        self.leader_heard_ns = leader.map(|_| now_ns);
        self.note_role(env);
    }

    /// Whether this node leads or heard its leader so lately that nobody else should.
    fn trusts_leader(&self, now_ns: u64) -> bool {
        self.is_leader()
            || self.leader_heard_ns.is_some_and(|heard| now_ns < heard + self.config.election_timeout_ns)
    }

    pub(crate) fn begin_pre_election(&mut self, now_ns: u64, env: &mut dyn Env) {
        self.restart_election_timer(now_ns, env);
        self.leader = None;
        self.leader_heard_ns = None;
        self.state = State::PreCandidate(BTreeSet::from([self.config.id]));
        self.note_role(env);
        if self.config.majority() == 1 {
            self.begin_election(now_ns, env);
        } else {
            self.ask_for_votes(now_ns);
        }
    }

    fn begin_election(&mut self, now_ns: u64, env: &mut dyn Env) {
        self.restart_election_timer(now_ns, env);
        self.elections += 1;
        self.hard = HardState { term: Term(self.hard.term.0 + 1), vote: Some(self.config.id) };
        self.incoming = None;
        // Its own vote is counted once it is durable.
        self.state = State::Candidate(BTreeSet::new());
        self.note_role(env);
        self.ask_for_votes(now_ns);
    }

    /// Asks all who have not said yes; who said no may have changed its mind.
    pub(crate) fn ask_for_votes(&mut self, now_ns: u64) {
        let (last_index, last_term) = (self.log.last_index(), self.log.last_term());
        let (votes, body) = match &self.state {
            State::PreCandidate(votes) => (votes, Body::PreVote { last_index, last_term }),
            State::Candidate(votes) => (votes, Body::Vote { last_index, last_term }),
            State::Follower | State::Leader(_) => return,
        };
        let missing: Vec<NodeId> = self.config.peers().filter(|id| !votes.contains(id)).collect();
        for peer in missing {
            self.send(peer, body.clone());
        }
        self.beat_at_ns = now_ns + self.config.heartbeat_interval_ns;
    }

    /// Whether a log that ends like this has all that may be committed, if a majority says so (thesis 3.6.1).
    fn is_up_to_date(&self, last: (Term, Index)) -> bool {
        last >= (self.log.last_term(), self.log.last_index())
    }

    pub(crate) fn on_pre_vote(&mut self, now_ns: u64, from: NodeId, term: Term, last: (Term, Index)) {
        let granted = term >= self.hard.term && self.is_up_to_date(last) && !self.trusts_leader(now_ns);
        self.send(from, Body::PreVoteResponse { for_term: Term(term.0 + 1), granted });
    }

    pub(crate) fn on_pre_vote_response(
        &mut self,
        now_ns: u64,
        from: NodeId,
        term: Term,
        for_term: Term,
        granted: bool,
        env: &mut dyn Env,
    ) {
        if term > self.hard.term {
            return self.become_follower(now_ns, term, None, env);
        }
        let next_term = Term(self.hard.term.0 + 1);
        let State::PreCandidate(votes) = &mut self.state else { return };
        if granted && for_term == next_term {
            votes.insert(from);
            if votes.len() >= self.config.majority() {
                self.begin_election(now_ns, env);
            }
        }
    }

    pub(crate) fn on_vote(
        &mut self,
        now_ns: u64,
        from: NodeId,
        term: Term,
        last: (Term, Index),
        env: &mut dyn Env,
    ) {
        if term > self.hard.term {
            if self.trusts_leader(now_ns) {
                return;
            }
            self.become_follower(now_ns, term, None, env);
        }
        let free = self.hard.vote.is_none() && self.leader.is_none();
        let may = free || self.hard.vote == Some(from);
        let granted = term == self.hard.term && may && self.is_up_to_date(last);
        if granted && self.hard.vote.is_none() {
            self.hard.vote = Some(from);
            // A pre-candidate of this term gives way.
            self.become_follower(now_ns, term, None, env);
            self.restart_election_timer(now_ns, env);
        }
        self.send(from, Body::VoteResponse { granted });
    }

    pub(crate) fn on_vote_response(
        &mut self,
        now_ns: u64,
        from: NodeId,
        term: Term,
        granted: bool,
        env: &mut dyn Env,
    ) {
        if term > self.hard.term {
            return self.become_follower(now_ns, term, None, env);
        }
        if let State::Candidate(votes) = &mut self.state
            && granted
            && term == self.hard.term
        {
            votes.insert(from);
            self.lead_if_elected(now_ns, env);
        }
    }

    pub(crate) fn lead_if_elected(&mut self, now_ns: u64, env: &mut dyn Env) {
        match &self.state {
            State::Candidate(votes) if votes.len() >= self.config.majority() => {}
            _ => return,
        }
        let noop = self.log.last_index().next();
        let followers = self.config.peers().map(|id| (id, Progress::new(noop, now_ns))).collect();
        self.log.append(Entry { index: noop, term: self.hard.term, payload: Bytes::new() });
        self.state = State::Leader(Leadership { followers, own_match: Index(0), noop });
        self.leader = Some(self.config.id);
        self.beat_at_ns = now_ns + self.config.heartbeat_interval_ns;
        self.note_role(env);
    }

    /// When the last majority that a leader heard is one election timeout ago.
    pub(crate) fn quorum_lost_at_ns(&self) -> u64 {
        let State::Leader(leadership) = &self.state else { return u64::MAX };
        let mut heard_ns: Vec<u64> = leadership.followers.values().map(|p| p.heard_ns).collect();
        heard_ns.sort_unstable_by(|a, b| b.cmp(a));
        // The leader hears itself.
        match self.config.majority() - 1 {
            0 => u64::MAX,
            others => heard_ns[others - 1].saturating_add(self.config.election_timeout_ns),
        }
    }

    pub(crate) fn step_down_unheard(&mut self, now_ns: u64, env: &mut dyn Env) {
        log!(env, Warn, "raft: heard no majority for an election timeout");
        self.become_follower(now_ns, self.hard.term, None, env);
    }
}
