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

use crate::message::{Body, Envelope};
use crate::newcomer::{Newcomer, Votes};
use crate::progress::Progress;
use crate::raft::{Leadership, Raft, State};
use crate::storage::HardState;
use crate::types::{Entry, Index, NodeId, Term};
use bytes::Bytes;
use riprap_env::{Env, log};
use std::collections::BTreeMap;

impl Raft {
    pub(crate) fn restart_election_timer(&mut self, now_ns: u64, env: &mut dyn Env) {
        let timeout_ns = self.config.election_timeout_ns;
        if self.config.is_observer() {
            self.election_at_ns = now_ns.saturating_add(timeout_ns);
            return;
        }
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
            self.hard = HardState { term, vote: None, ..self.hard };
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
        let votes = Votes::from([(self.config.id, self.hard.newcomer)]);
        let decides_alone = self.config.is_quorum(&votes);
        self.state = State::PreCandidate(votes);
        self.note_role(env);
        if decides_alone {
            self.begin_election(now_ns, env);
        } else {
            self.ask_for_votes(now_ns);
        }
    }

    fn begin_election(&mut self, now_ns: u64, env: &mut dyn Env) {
        self.restart_election_timer(now_ns, env);
        self.elections += 1;
        self.hard = HardState { term: Term(self.hard.term.0 + 1), vote: Some(self.config.id), ..self.hard };
        self.candidate_ns = now_ns;
        self.incoming = None;
        // Its own vote is counted once it is durable.
        self.state = State::Candidate(Votes::new());
        self.note_role(env);
        self.ask_for_votes(now_ns);
    }

    /// Asks all who have not said yes; who said no may have changed its mind.
    pub(crate) fn ask_for_votes(&mut self, now_ns: u64) {
        let (last_index, last_term) = (self.log.last_index(), self.log.last_term());
        let (votes, asked_ns, body) = match &self.state {
            State::PreCandidate(votes) => (votes, 0, Body::PreVote { last_index, last_term }),
            State::Candidate(votes) => (votes, self.candidate_ns, Body::Vote { last_index, last_term }),
            State::Follower | State::Leader(_) => return,
        };
        let missing: Vec<NodeId> = self.config.peers().filter(|id| !votes.contains_key(id)).collect();
        for peer in missing {
            self.ask(peer, asked_ns, body.clone());
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
        envelope: Envelope,
        for_term: Term,
        granted: bool,
        env: &mut dyn Env,
    ) {
        let Envelope { from, term, newcomer, .. } = envelope;
        if term > self.hard.term {
            return self.become_follower(now_ns, term, None, env);
        }
        let next_term = Term(self.hard.term.0 + 1);
        let State::PreCandidate(votes) = &mut self.state else { return };
        if granted && for_term == next_term {
            votes.insert(from, newcomer);
            if self.config.is_quorum(votes) {
                self.begin_election(now_ns, env);
            }
        }
    }

    pub(crate) fn on_vote(
        &mut self,
        now_ns: u64,
        envelope: Envelope,
        last: (Term, Index),
        env: &mut dyn Env,
    ) {
        let Envelope { from, term, asked_ns, newcomer } = envelope;
        if term > self.hard.term {
            if self.trusts_leader(now_ns) {
                return;
            }
            self.become_follower(now_ns, term, None, env);
        }
        let free = self.hard.vote.is_none() && self.leader.is_none();
        // A newcomer that has this vote may have been given it in a former life.
        let again = self.hard.vote == Some(from) && (newcomer.is_none() || self.granted_ns == Some(asked_ns));
        let may = free || again;
        let granted = term == self.hard.term && may && self.is_up_to_date(last);
        if granted && self.hard.vote.is_none() {
            self.hard.vote = Some(from);
            self.granted_ns = Some(asked_ns);
            // A pre-candidate of this term gives way.
            self.become_follower(now_ns, term, None, env);
            self.restart_election_timer(now_ns, env);
        }
        self.send(from, Body::VoteResponse { granted });
    }

    pub(crate) fn on_vote_response(
        &mut self,
        now_ns: u64,
        envelope: Envelope,
        granted: bool,
        env: &mut dyn Env,
    ) {
        let Envelope { from, term, asked_ns, newcomer } = envelope;
        if term > self.hard.term {
            return self.become_follower(now_ns, term, None, env);
        }
        if let State::Candidate(votes) = &mut self.state
            && granted
            && (term, asked_ns) == (self.hard.term, self.candidate_ns)
        {
            votes.insert(from, newcomer);
            self.lead_if_elected(now_ns, env);
        }
    }

    pub(crate) fn lead_if_elected(&mut self, now_ns: u64, env: &mut dyn Env) {
        let State::Candidate(votes) = &self.state else { return };
        if !self.config.is_quorum(votes) {
            return;
        }
        let noop = self.log.last_index().next();
        let progress = |id: NodeId| {
            let life = votes.get(&id).copied().flatten();
            // It said so before the first entry of this term.
            let newcomer = life.map(|life| Newcomer { life, since: noop });
            (id, Progress { newcomer, ..Progress::new(noop, now_ns) })
        };
        let followers = self.config.peers().map(progress).collect();
        self.log.append(Entry { index: noop, term: self.hard.term, payload: Bytes::new() });
        self.state = State::Leader(Leadership {
            followers,
            observers: BTreeMap::new(),
            refused_observer: None,
            own_match: Index(0),
            noop,
        });
        self.leader = Some(self.config.id);
        self.beat_at_ns = now_ns + self.config.heartbeat_interval_ns;
        self.note_role(env);
    }

    /// When the last quorum that a leader heard is one election timeout ago.
    pub(crate) fn quorum_lost_at_ns(&self) -> u64 {
        let State::Leader(leadership) = &self.state else { return u64::MAX };
        let heard_ns = leadership.followers.values().map(|p| (p.heard_ns, p.counts()));
        // The leader hears itself.
        let heard_ns = heard_ns.chain([(u64::MAX, self.hard.newcomer.is_none())]);
        self.config.quorum_has(heard_ns).saturating_add(self.config.election_timeout_ns)
    }

    pub(crate) fn step_down_unheard(&mut self, now_ns: u64, env: &mut dyn Env) {
        log!(env, Warn, "raft: heard no majority for an election timeout");
        self.become_follower(now_ns, self.hard.term, None, env);
    }
}
