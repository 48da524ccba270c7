//! Observers: nodes that follow the log and take no part in what is decided (a "learner", thesis 4.2.1).
//!
//! An observer is a node that is not among the [`voters`](crate::Config::voters). It knows them, and they do not know it
//! before it speaks:
//!
//! ```text
//!   observer                                            leader
//!   Observe, to each voter, once a heartbeat   ->       takes it in, if there is room; other voters do nothing
//!   AppendAccepted, AppendRejected, ...        <- ->    Append, InstallSnapshot, as to a follower
//!   Observe again, once it has heard no leader for an election timeout
//!                                                       forgets it, once it was not heard for OBSERVER_SILENCE
//! ```
//!
//! It keeps the log as a follower does, durably, and takes entries and snapshots by the same rules, so that what it hands
//! out is what the voters hand out. It is never counted: neither for a quorum nor for a vote nor for whether the leader is
//! heard. Nor can anything it says move a voter: not its term, which may be of a leader that this one does not know yet,
//! and it asks for no vote and gives none.
//!
//! A disk that it lost, or one that is older, harms nobody; it is told apart as a voter's is
//! ([`newcomer`](crate::newcomer)), and nobody ever admits it.

use crate::message::Body;
use crate::progress::Progress;
use crate::raft::{Raft, State};
use crate::types::NodeId;
use riprap_env::{Env, log};

/// An observer that was not heard for so many election timeouts is forgotten: whoever is gone for good must not be sent
/// heartbeats for ever, nor keep a snapshot in memory. One that comes back asks again.
pub(crate) const OBSERVER_SILENCE: u64 = 10;

// The observer's side.
impl Raft {
    /// Whether this node only follows.
    pub fn is_observer(&self) -> bool {
        self.config.is_observer()
    }

    /// No leader is heard: asks all voters to be sent the log, again with each heartbeat's time.
    pub(crate) fn ask_to_observe(&mut self, now_ns: u64, env: &mut dyn Env) {
        self.leader = None;
        self.leader_heard_ns = None;
        self.note_role(env);
        let voters: Vec<NodeId> = self.config.peers().collect();
        for voter in voters {
            self.ask(voter, now_ns, Body::Observe);
        }
        self.election_at_ns = now_ns + self.config.heartbeat_interval_ns;
    }
}

// The leader's side.
impl Raft {
    /// Somebody who is no voter wants the log.
    pub(crate) fn on_observe(&mut self, now_ns: u64, from: NodeId, env: &mut dyn Env) {
        let limit = self.config.max_observers;
        let next_index = self.log.last_index().next();
        let State::Leader(leadership) = &mut self.state else { return };
        if let Some(progress) = leadership.observers.get_mut(&from) {
            progress.heard_ns = progress.heard_ns.max(now_ns);
        } else if leadership.observers.len() < limit {
            log!(env, Info, "raft: {from} observes");
            leadership.observers.insert(from, Progress::new(next_index, now_ns));
        } else if leadership.refused_observer.replace(from) != Some(from) {
            log!(env, Warn, "raft: refuses observer {from}: there are {limit}, no more may be");
        }
    }

    /// Forgets the observers that are gone.
    pub(crate) fn forget_silent_observers(&mut self, now_ns: u64, env: &mut dyn Env) {
        let silence_ns = OBSERVER_SILENCE * self.config.election_timeout_ns;
        let State::Leader(leadership) = &mut self.state else { return };
        leadership.observers.retain(|id, progress| {
            let stays = now_ns < progress.heard_ns.saturating_add(silence_ns);
            if !stays {
                log!(env, Info, "raft: {id} observes no longer");
            }
            stays
        });
    }

    /// The observers that this node, as leader, sends the log to.
    pub fn observers(&self) -> impl Iterator<Item = NodeId> + '_ {
        let observers = match &self.state {
            State::Leader(leadership) => Some(leadership.observers.keys().copied()),
            State::Follower | State::PreCandidate(_) | State::Candidate(_) => None,
        };
        observers.into_iter().flatten()
    }
}
