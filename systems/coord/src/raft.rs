//! The state machine's frame: what comes in, what goes out, and the one place where state becomes durable.
//!
//! Elections are in [`election`](crate::election), logs and snapshots between leader and followers in
//! [`replication`](crate::replication).

use crate::codec::MAX_PAYLOAD_BYTES;
use crate::config::Config;
use crate::log::Log;
use crate::message::{Body, Envelope, Message};
use crate::newcomer::{Votes, draw_life};
use crate::progress::{Flow, Progress};
use crate::ready::{ProposeError, Ready, RoleChange, SnapshotTooLarge};
use crate::replication::IncomingSnapshot;
use crate::status::{FollowerStatus, Role, Status};
use crate::storage::{HardState, OpenError, Persisted, Storage};
use crate::types::{Entry, Index, NodeId, Snapshot, Term};
use bytes::Bytes;
use riprap_env::{DiskError, Env, log};
use std::collections::BTreeMap;
use std::fmt;

/// Most rounds of persisting in one settle. A node alone needs three: its vote makes it leader, whose no-op it then
/// counts, by which it is no newcomer any more; more voters need fewer.
const MAX_PERSIST_ROUNDS: usize = 4;

/// One voter, or one observer.
#[derive(Debug)]
pub struct Raft {
    pub(crate) config: Config,
    pub(crate) hard: HardState,
    pub(crate) log: Log,
    pub(crate) commit: Index,
    pub(crate) state: State,
    pub(crate) leader: Option<NodeId>,
    /// When a node that is not leader begins to ask for votes.
    pub(crate) election_at_ns: u64,
    /// When a leader sends heartbeats, or a candidate asks again those who did not answer.
    pub(crate) beat_at_ns: u64,
    /// When this term's leader was last heard, or may have been.
    pub(crate) leader_heard_ns: Option<u64>,
    /// When its candidacy began, which is what votes are for.
    pub(crate) candidate_ns: u64,
    /// The candidacy that it gave its vote to in this life.
    pub(crate) granted_ns: Option<u64>,
    /// When the message that is being worked on was asked; see [`Message::asked_ns`].
    answers_ns: u64,
    /// A snapshot that is arriving.
    pub(crate) incoming: Option<IncomingSnapshot>,
    pub(crate) snapshot: Option<Snapshot>,
    /// `snapshot` is not on disk yet.
    pub(crate) snapshot_unsaved: bool,
    /// The application does not have `snapshot` yet.
    pub(crate) snapshot_undelivered: bool,
    delivered: Index,
    outbox: Outbox,
    role_changes: Vec<RoleChange>,
    last_role: RoleChange,
    storage: Storage,
    failed: Option<DiskError>,
    pub(crate) elections: u64,
    violations: u64,
}

/// What a node is in its term, with what only that role knows.
#[derive(Debug)]
pub(crate) enum State {
    Follower,
    /// Who would vote for this node.
    PreCandidate(Votes),
    /// Who voted for this node, itself only once its vote is durable.
    Candidate(Votes),
    Leader(Leadership),
}

/// What a leader knows.
#[derive(Debug)]
pub(crate) struct Leadership {
    pub(crate) followers: BTreeMap<NodeId, Progress>,
    pub(crate) observers: BTreeMap<NodeId, Progress>,
    /// Who was turned away last, so that it is logged once.
    pub(crate) refused_observer: Option<NodeId>,
    /// The leader's own log is durable up to here.
    pub(crate) own_match: Index,
    /// The first entry of the leader's term.
    pub(crate) noop: Index,
}

/// Messages that wait for what they promise to be durable.
#[derive(Debug, Default)]
struct Outbox(Vec<(NodeId, Message)>);

impl Outbox {
    fn release(&mut self, _proof: &Persisted) -> Vec<(NodeId, Message)> {
        std::mem::take(&mut self.0)
    }
}

impl Raft {
    /// Finds what the last life left under `dir`, or begins anew if there is nothing. `dir` is this node's alone.
    ///
    /// Begins as a follower. The first [`settle`](Raft::settle) hands out the snapshot, if there is one; entries after
    /// it come again as soon as they are known to be committed.
    pub fn open(config: Config, env: &mut dyn Env, dir: &str, now_ns: u64) -> Result<Raft, OpenError> {
        config.validate().map_err(OpenError::Config)?;
        let (storage, found) = Storage::open(env.disk(), dir, config.id, config.segment_bytes)?;
        if found.cut_bytes > 0 {
            let bytes = found.cut_bytes;
            log!(env, Warn, "raft: cut {bytes} bytes of an unfinished write off the log");
        }
        let is_empty = found.hard == HardState::default() && found.log.last_index() == Index(0);
        let newcomer = if is_empty { Some(draw_life(env)) } else { found.hard.newcomer };
        let mut raft = Raft {
            commit: found.log.base_index(),
            hard: HardState { newcomer, ..found.hard },
            log: found.log,
            state: State::Follower,
            leader: None,
            election_at_ns: 0,
            beat_at_ns: 0,
            // In its former life it may have heard a leader until a moment ago, who counts on it for so long.
            leader_heard_ns: (found.hard.term > Term(0)).then_some(now_ns),
            candidate_ns: 0,
            granted_ns: None,
            answers_ns: 0,
            incoming: None,
            snapshot_unsaved: false,
            snapshot_undelivered: found.snapshot.is_some(),
            snapshot: found.snapshot,
            delivered: Index(0),
            outbox: Outbox::default(),
            role_changes: Vec::new(),
            last_role: RoleChange::BecameFollower { term: found.hard.term, leader: None },
            storage,
            failed: None,
            elections: 0,
            violations: 0,
            config,
        };
        raft.restart_election_timer(now_ns, env);
        if raft.config.is_observer() {
            raft.election_at_ns = now_ns;
        }
        let (term, first, last) = (raft.term(), raft.log.base_index().next(), raft.log.last_index());
        log!(env, Info, "raft: starts in term {term}, log from {first} to {last}");
        Ok(raft)
    }

    /// Takes in a message from a peer. Anything that is not from a voter, nor an observer's to a leader, is ignored.
    pub fn step(&mut self, now_ns: u64, from: NodeId, message: Message, env: &mut dyn Env) {
        if self.failed.is_some() {
            return;
        }
        let from_voter = self.config.voters.contains(&from);
        if from == self.config.id || !from_voter && !message.body.is_observers() {
            log!(env, Warn, "raft: ignores a message from {from}, which is no peer");
            return;
        }
        if self.config.is_observer() && !message.body.is_leaders() {
            return;
        }
        let Message { term, asked_ns, newcomer, body } = message;
        let envelope = Envelope { from, term, asked_ns, newcomer };
        self.answers_ns = asked_ns;
        match body {
            Body::PreVote { last_index, last_term } => {
                self.on_pre_vote(now_ns, from, term, (last_term, last_index));
            }
            Body::PreVoteResponse { for_term, granted } => {
                self.on_pre_vote_response(now_ns, envelope, for_term, granted, env);
            }
            Body::Vote { last_index, last_term } => {
                self.on_vote(now_ns, envelope, (last_term, last_index), env);
            }
            Body::VoteResponse { granted } => {
                self.on_vote_response(now_ns, envelope, granted, env);
            }
            Body::Append { prev_index, prev_term, commit, entries } => {
                if self.hears_leader(now_ns, from, term, prev_index, env) {
                    self.on_append(from, (prev_index, prev_term), commit, entries, env);
                }
            }
            Body::InstallSnapshot { last_index, last_term, total_bytes, offset, data } => {
                if self.hears_leader(now_ns, from, term, Index(0), env) {
                    self.on_chunk(from, (last_index, last_term), total_bytes, offset, &data, env);
                }
            }
            Body::AppendAccepted { match_index } => {
                if self.hears_follower(now_ns, envelope, env) {
                    self.on_accepted(now_ns, from, match_index, env);
                }
            }
            Body::AppendRejected { prev_index, hint_index, hint_term } => {
                if self.hears_follower(now_ns, envelope, env) {
                    self.on_rejected(from, asked_ns, prev_index, (hint_index, hint_term), env);
                }
            }
            Body::SnapshotProgress { last_index, offset } => {
                if self.hears_follower(now_ns, envelope, env) {
                    self.on_snapshot_progress(from, last_index, offset);
                }
            }
            Body::Observe if from_voter => {}
            Body::Observe => self.on_observe(now_ns, from, env),
            Body::Admit { life } => {
                if self.hears_leader(now_ns, from, term, Index(0), env) {
                    self.on_admit(from, life, env);
                }
            }
            Body::Doubt => {
                if self.hears_leader(now_ns, from, term, Index(0), env) {
                    self.on_doubt(from, env);
                }
            }
        }
        self.answers_ns = 0;
    }

    /// Does what is due. Harmless when nothing is.
    pub fn tick(&mut self, now_ns: u64, env: &mut dyn Env) {
        if self.failed.is_some() {
            return;
        }
        match &self.state {
            State::Leader(_) if now_ns >= self.quorum_lost_at_ns() => self.step_down_unheard(now_ns, env),
            State::Leader(_) => self.beat(now_ns, env),
            _ if now_ns >= self.election_at_ns && self.config.is_observer() => {
                self.ask_to_observe(now_ns, env)
            }
            _ if now_ns >= self.election_at_ns => self.begin_pre_election(now_ns, env),
            State::Follower => {}
            State::PreCandidate(_) | State::Candidate(_) => {
                if now_ns >= self.beat_at_ns {
                    self.ask_for_votes(now_ns);
                }
            }
        }
    }

    /// When [`tick`](Raft::tick) has something to do, unless something comes before. Valid after each call.
    pub fn wake_at_ns(&self) -> u64 {
        if self.failed.is_some() {
            return u64::MAX;
        }
        match &self.state {
            // Where all are heard, which is nearly always, there is nothing to count.
            State::Leader(leadership)
                if leadership.followers.values().all(|p| {
                    p.heard_ns.saturating_add(self.config.election_timeout_ns) >= self.beat_at_ns
                }) =>
            {
                self.beat_at_ns
            }
            State::Leader(_) => self.beat_at_ns.min(self.quorum_lost_at_ns()),
            State::Follower => self.election_at_ns,
            State::PreCandidate(_) | State::Candidate(_) => self.election_at_ns.min(self.beat_at_ns),
        }
    }

    /// Puts a payload at the end of the leader's log, in memory. It is committed when a [`Ready`] hands out an entry of
    /// this index and term; if the index comes with another term, or with a snapshot, it is not known to be.
    ///
    /// Panics: the payload is empty.
    pub fn propose(&mut self, payload: Bytes) -> Result<(Term, Index), ProposeError> {
        assert!(!payload.is_empty(), "empty payloads are the no-ops of leaders");
        if !self.is_leader() || self.failed.is_some() {
            return Err(ProposeError::NotLeader { leader: self.leader() });
        }
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(ProposeError::TooLarge(payload.len()));
        }
        let waiting = self.log.last_index().0 - self.commit.0;
        if waiting >= self.config.max_uncommitted_entries as u64 {
            return Err(ProposeError::Full(self.config.max_uncommitted_entries));
        }
        let entry = Entry { index: self.log.last_index().next(), term: self.hard.term, payload };
        let at = (entry.term, entry.index);
        self.log.append(entry);
        Ok(at)
    }

    /// Replaces the log up to `upto` by the application's state after that entry; ignored if a newer snapshot is there.
    ///
    /// Errors: no follower would take so large a snapshot. Panics: entry `upto` was not handed out yet.
    pub fn compact(&mut self, upto: Index, data: Bytes) -> Result<(), SnapshotTooLarge> {
        if upto <= self.log.base_index() {
            return Ok(());
        }
        let limit = self.config.max_snapshot_bytes;
        if data.len() > limit {
            return Err(SnapshotTooLarge { size: data.len(), limit });
        }
        assert!(
            upto <= self.delivered,
            "a snapshot up to {upto} of entries handed out up to {}",
            self.delivered
        );
        let term = self.log.term_at(upto).expect("entries handed out after the snapshot are in the log");
        self.log.compact(upto);
        self.snapshot = Some(Snapshot { index: upto, term, data });
        self.snapshot_unsaved = true;
        Ok(())
    }

    /// Makes durable what came since the last settle, in one append and one sync for all of it, and only then hands
    /// out what rests on it.
    ///
    /// After an error nothing is known about what is durable: the node must end, and start again from its disk. Until
    /// then it does nothing, and settling returns the same error.
    pub fn settle(&mut self, now_ns: u64, env: &mut dyn Env) -> Result<Ready, DiskError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let mut proof = self.persist(env)?;
        for _ in 1..MAX_PERSIST_ROUNDS {
            self.count_self(now_ns, &proof, env);
            if !self.must_persist() {
                break;
            }
            proof = self.persist(env)?;
        }
        assert!(!self.must_persist(), "each round of persisting leads to fewer changes");
        for message in self.messages_to_followers(now_ns) {
            self.outbox.0.push(message);
        }
        Ok(self.ready(&proof))
    }

    fn persist(&mut self, env: &mut dyn Env) -> Result<Persisted, DiskError> {
        let new_snapshot = if self.snapshot_unsaved { self.snapshot.as_ref() } else { None };
        match self.storage.persist(env.disk(), self.hard, new_snapshot, &mut self.log) {
            Ok(proof) => {
                self.snapshot_unsaved = false;
                Ok(proof)
            }
            Err(error) => {
                log!(env, Error, "raft: stops, its disk failed: {error}");
                self.failed = Some(error.clone());
                Err(error)
            }
        }
    }

    fn must_persist(&self) -> bool {
        self.hard != self.storage.saved() || self.snapshot_unsaved || self.log.is_unstable()
    }

    /// Counts the node's own vote and its own copies of entries.
    fn count_self(&mut self, now_ns: u64, proof: &Persisted, env: &mut dyn Env) {
        match &mut self.state {
            State::Candidate(votes) => {
                if proof.hard_state() == (HardState { vote: Some(self.config.id), ..self.hard }) {
                    votes.insert(self.config.id, self.hard.newcomer);
                    self.lead_if_elected(now_ns, env);
                }
            }
            State::Leader(leadership) => {
                leadership.own_match = proof.last_index();
                self.advance_leader_commit();
                self.admit_self();
            }
            State::Follower | State::PreCandidate(_) => {}
        }
    }

    fn ready(&mut self, proof: &Persisted) -> Ready {
        let mut ready = Ready { messages: self.outbox.release(proof), ..Ready::default() };
        ready.role_changes = std::mem::take(&mut self.role_changes);
        if std::mem::take(&mut self.snapshot_undelivered) {
            let snapshot = self.snapshot.clone().expect("the snapshot to be delivered is there");
            self.delivered = snapshot.index;
            ready.snapshot = Some(snapshot);
        }
        if self.delivered < self.commit {
            ready.committed = self.log.range(self.delivered.next(), self.commit).to_vec();
            self.delivered = self.commit;
        }
        ready
    }

    /// The leader of this node's term, as far as it knows.
    pub fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    /// Whether this node leads its term. Others may already be in a later one.
    pub fn is_leader(&self) -> bool {
        matches!(self.state, State::Leader(_))
    }

    /// Whether this node leads, and has handed out all entries of earlier terms: the first entry of its own term is
    /// committed (thesis 6.4). Only then does the application, having applied them, know what it leads.
    pub fn leader_is_ready(&self) -> bool {
        matches!(&self.state, State::Leader(leadership) if self.delivered >= leadership.noop)
    }

    /// This node's term.
    pub fn term(&self) -> Term {
        self.hard.term
    }

    /// Entries up to here are committed, as far as this node knows.
    pub fn commit_index(&self) -> Index {
        self.commit
    }

    /// The last entry of the log, in memory.
    pub fn last_index(&self) -> Index {
        self.log.last_index()
    }

    /// The last entry that the newest snapshot includes; 0 if there is none.
    pub fn snapshot_index(&self) -> Index {
        self.log.base_index()
    }

    /// An entry of the log after the snapshot, committed or not.
    pub fn entry(&self, index: Index) -> Option<&Entry> {
        self.log.entry(index)
    }

    /// The size of the log's files: tells when to [`compact`](Raft::compact). Units: bytes.
    pub fn log_bytes(&self) -> u64 {
        self.storage.log_bytes()
    }

    /// The node at this moment.
    pub fn status(&self) -> Status {
        let role = match &self.state {
            State::Follower if self.config.is_observer() => Role::Observer,
            State::Follower => Role::Follower,
            State::PreCandidate(_) => Role::PreCandidate,
            State::Candidate(_) => Role::Candidate,
            State::Leader(_) => Role::Leader,
        };
        let (followers, observers) = match &self.state {
            State::Leader(leadership) => (statuses(&leadership.followers), statuses(&leadership.observers)),
            State::Follower | State::PreCandidate(_) | State::Candidate(_) => Default::default(),
        };
        Status {
            id: self.config.id,
            role,
            term: self.hard.term,
            is_newcomer: self.hard.newcomer.is_some(),
            voted_for: self.hard.vote,
            leader: self.leader,
            commit_index: self.commit,
            delivered_index: self.delivered,
            snapshot_index: self.log.base_index(),
            last_index: self.log.last_index(),
            log_bytes: self.log_bytes(),
            followers,
            observers,
            elections: self.elections,
            violations: self.violations,
        }
    }

    pub(crate) fn send(&mut self, to: NodeId, body: Body) {
        self.ask(to, self.answers_ns, body);
    }

    pub(crate) fn ask(&mut self, to: NodeId, asked_ns: u64, body: Body) {
        let HardState { term, newcomer, .. } = self.hard;
        self.outbox.0.push((to, Message { term, asked_ns, newcomer, body }));
    }

    /// Notes a change of role for the application, if there is one.
    pub(crate) fn note_role(&mut self, env: &mut dyn Env) {
        let term = self.hard.term;
        let role = match self.state {
            State::Leader(_) => RoleChange::BecameLeader { term },
            _ => RoleChange::BecameFollower { term, leader: self.leader },
        };
        if role != self.last_role {
            self.last_role = role;
            self.role_changes.push(role);
            log!(env, Info, "raft: {role}");
        }
    }

    /// Refuses what no correct peer sends.
    pub(crate) fn violation(&mut self, env: &mut dyn Env, from: NodeId, what: fmt::Arguments<'_>) {
        self.violations += 1;
        log!(env, Error, "raft: refuses a message from {from}: {what}");
    }
}

fn statuses(followers: &BTreeMap<NodeId, Progress>) -> Vec<FollowerStatus> {
    let status = |(id, progress): (&NodeId, &Progress)| FollowerStatus {
        id: *id,
        match_index: progress.match_index,
        next_index: progress.next_index,
        inflight_messages: match &progress.flow {
            Flow::Replicate { inflight } => inflight.len(),
            Flow::Probe { .. } | Flow::Snapshot { .. } | Flow::Doubt { .. } => 0,
        },
        snapshot_index: match &progress.flow {
            Flow::Snapshot { snapshot, .. } => Some(snapshot.index),
            Flow::Probe { .. } | Flow::Replicate { .. } | Flow::Doubt { .. } => None,
        },
        heard_ns: progress.heard_ns,
        is_newcomer: progress.newcomer.is_some(),
    };
    followers.iter().map(status).collect()
}
