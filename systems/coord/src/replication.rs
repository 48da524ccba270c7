//! The leader's log and snapshot on their way to the followers, and what is committed.
//!
//! ```text
//!   leader                                             follower
//!   Append(prev, entries, commit)         ->           same entry at prev: AppendAccepted(match)
//!                                                      else: AppendRejected(hint), and the leader probes lower
//!   InstallSnapshot(chunk at offset)      ->           SnapshotProgress(offset wanted next)
//!   InstallSnapshot(last chunk)           ->           AppendAccepted(the snapshot's last entry)
//! ```
//!
//! Messages to followers are made when settling, after the leader's own sync: what was proposed in between goes out
//! together (thesis 10.2.1). A lost message is noticed by the next heartbeat, which is an append without entries after
//! all that was sent: the follower rejects it if something is missing.
//!
//! The hint (thesis 3.5, "one conflict per term"): the follower skips all its entries of terms above that of the
//! leader's entry at prev, the leader all its entries of terms above that of the follower's entry there.

use crate::config::Config;
use crate::log::Log;
use crate::message::{Body, Envelope, Message};
use crate::progress::{Flow, Progress, Rejection};
use crate::raft::{Raft, State};
use crate::types::{Entry, Index, NodeId, Snapshot, Term};
use bytes::Bytes;
use riprap_env::Env;

/// A snapshot that is arriving, in memory: a crash starts it over.
#[derive(Debug)]
pub(crate) struct IncomingSnapshot {
    last_index: Index,
    last_term: Term,
    total_bytes: u64,
    data: Vec<u8>,
}

// The follower's side.
impl Raft {
    /// Checks who sent an append or a chunk. False: it is not this term's leader.
    pub(crate) fn hears_leader(
        &mut self,
        now_ns: u64,
        from: NodeId,
        term: Term,
        prev_index: Index,
        env: &mut dyn Env,
    ) -> bool {
        if term < self.hard.term {
            // Carries the higher term, so that an old leader learns that it is one.
            let nothing = (Index(0), Term(0));
            self.send(from, Body::AppendRejected { prev_index, hint_index: nothing.0, hint_term: nothing.1 });
            return false;
        }
        let other = self.leader.filter(|leader| term == self.hard.term && *leader != from);
        if let Some(other) = other {
            self.violation(env, from, format_args!("it leads term {term}, which {other} leads"));
            return false;
        }
        self.become_follower(now_ns, term, Some(from), env);
        self.restart_election_timer(now_ns, env);
        true
    }

    pub(crate) fn on_append(
        &mut self,
        from: NodeId,
        prev: (Index, Term),
        leader_commit: Index,
        mut entries: Vec<Entry>,
        env: &mut dyn Env,
    ) {
        if !are_consecutive(prev, &entries, self.hard.term) {
            return self.violation(env, from, format_args!("its entries do not follow each other"));
        }
        let (mut prev_index, mut prev_term) = prev;
        let last_new = Index(prev_index.0 + entries.len() as u64);
        let base_index = self.log.base_index();
        if last_new < base_index {
            // An old message. What is committed is in the leader's log too (thesis 3.6.3).
            return self.send(from, Body::AppendAccepted { match_index: self.commit });
        }
        if prev_index < base_index {
            let known = (base_index.0 - prev_index.0) as usize;
            prev_index = base_index;
            prev_term = entries[known - 1].term;
            entries.drain(..known);
        }
        if self.log.term_at(prev_index) != Some(prev_term) {
            if prev_index <= self.commit {
                let what = format_args!("entry {prev_index} is committed here and of another term there");
                return self.violation(env, from, what);
            }
            let hint_index = self.log.last_place_to_agree(prev_index.prev(), prev_term).max(self.commit);
            let hint_term = self.log.term_at(hint_index).expect("the log reaches from the base to its end");
            return self.send(from, Body::AppendRejected { prev_index, hint_index, hint_term });
        }
        for entry in entries {
            match self.log.term_at(entry.index) {
                Some(term) if term == entry.term => continue,
                Some(_) if entry.index <= self.commit => {
                    let what = format_args!("its entry {} is another than the committed one", entry.index);
                    return self.violation(env, from, what);
                }
                Some(_) => self.log.truncate_from(entry.index),
                None => {}
            }
            self.log.append(entry);
        }
        // Not further than what this message proves to be the leader's: entries after it may be leftovers.
        self.commit = self.commit.max(leader_commit.min(last_new));
        self.send(from, Body::AppendAccepted { match_index: last_new });
    }

    pub(crate) fn on_chunk(
        &mut self,
        from: NodeId,
        last: (Index, Term),
        total_bytes: u64,
        offset: u64,
        chunk: &Bytes,
        env: &mut dyn Env,
    ) {
        let (last_index, last_term) = last;
        if self.log.term_at(last_index) == Some(last_term) {
            // All of it is in the log already.
            self.commit = self.commit.max(last_index);
        }
        if last_index <= self.commit {
            self.incoming.take_if(|incoming| incoming.last_index <= self.commit);
            return self.send(from, Body::AppendAccepted { match_index: self.commit });
        }
        if last_term > self.hard.term {
            return self.violation(env, from, format_args!("its snapshot is of a later term, {last_term}"));
        }
        if total_bytes > self.config.max_snapshot_bytes as u64 {
            let limit = self.config.max_snapshot_bytes;
            let what = format_args!("its snapshot has {total_bytes} bytes; at most {limit}");
            return self.violation(env, from, what);
        }
        match &self.incoming {
            Some(incoming) if incoming.last_index == last_index && incoming.total_bytes == total_bytes => {}
            // A late chunk of a transfer that the leader has given up.
            Some(incoming) if incoming.last_index > last_index => return,
            _ => {
                self.incoming =
                    Some(IncomingSnapshot { last_index, last_term, total_bytes, data: Vec::new() })
            }
        }
        let incoming = self.incoming.as_mut().expect("set above");
        if offset == incoming.data.len() as u64 {
            incoming.data.extend_from_slice(chunk);
        }
        let received = incoming.data.len() as u64;
        if received < incoming.total_bytes {
            return self.send(from, Body::SnapshotProgress { last_index, offset: received });
        }
        let incoming = self.incoming.take().expect("set above");
        let data = Bytes::from(incoming.data);
        self.snapshot = Some(Snapshot { index: last_index, term: incoming.last_term, data });
        self.snapshot_unsaved = true;
        self.snapshot_undelivered = true;
        self.log.reset(last_index, incoming.last_term);
        self.commit = last_index;
        self.send(from, Body::AppendAccepted { match_index: last_index });
    }
}

/// Whether entries follow `prev` and each other, as those of a leader of `term` do.
fn are_consecutive(prev: (Index, Term), entries: &[Entry], term: Term) -> bool {
    let (mut index, mut last_term) = prev;
    entries.iter().all(|entry| {
        index = index.next();
        let follows = entry.index == index && entry.term >= last_term;
        last_term = entry.term;
        follows
    }) && last_term <= term
}

// The leader's side.
impl Raft {
    /// Checks who answered. False: it is not a follower of this leader's term.
    pub(crate) fn hears_follower(&mut self, now_ns: u64, envelope: Envelope, env: &mut dyn Env) -> bool {
        let Envelope { from, term, asked_ns, .. } = envelope;
        if term > self.hard.term {
            // Of an observer's term nothing follows for a voter.
            if self.config.voters.contains(&from) {
                self.become_follower(now_ns, term, None, env);
            }
            return false;
        }
        if term < self.hard.term || !self.knows_life(envelope, env) {
            return false;
        }
        let Some(progress) = self.progress(from) else { return false };
        // Not when the answer arrives: it may have been on its way while its sender voted for another leader.
        progress.heard_ns = progress.heard_ns.max(asked_ns.min(now_ns));
        true
    }

    pub(crate) fn progress(&mut self, follower: NodeId) -> Option<&mut Progress> {
        match &mut self.state {
            State::Leader(leadership) => match leadership.followers.get_mut(&follower) {
                None => leadership.observers.get_mut(&follower),
                voter => voter,
            },
            State::Follower | State::PreCandidate(_) | State::Candidate(_) => None,
        }
    }

    pub(crate) fn on_accepted(&mut self, now_ns: u64, from: NodeId, match_index: Index, env: &mut dyn Env) {
        let last_index = self.log.last_index();
        if match_index > last_index {
            let what = format_args!("it has entry {match_index} of a log that ends at {last_index}");
            return self.violation(env, from, what);
        }
        if let Some(progress) = self.progress(from) {
            progress.accepted(match_index, now_ns);
        }
    }

    pub(crate) fn on_rejected(
        &mut self,
        from: NodeId,
        asked_ns: u64,
        prev_index: Index,
        hint: (Index, Term),
        env: &mut dyn Env,
    ) {
        let (hint_index, hint_term) = hint;
        let agree = self.log.last_place_to_agree(hint_index.min(prev_index.prev()), hint_term);
        let Some(progress) = self.progress(from) else { return };
        match progress.judge_rejection(prev_index, asked_ns) {
            Rejection::Believed => progress.probe_after(agree),
            Rejection::Lost => self.doubt(from, env),
            Rejection::Late => {}
        }
    }

    pub(crate) fn on_snapshot_progress(&mut self, from: NodeId, last_index: Index, offset: u64) {
        let Some(progress) = self.progress(from) else { return };
        match &mut progress.flow {
            // An answer that says nothing new repeats the chunk only if it was asked for: otherwise each repeated message
            // would start one more chain of chunks.
            Flow::Snapshot { snapshot, acked, sent, asked }
                if snapshot.index == last_index
                    && offset <= snapshot.data.len() as u64
                    && (offset != *acked || *asked) =>
            {
                *acked = offset;
                *sent = false;
                *asked = false;
            }
            _ => {}
        }
    }

    /// Time for heartbeats?
    pub(crate) fn beat(&mut self, now_ns: u64, env: &mut dyn Env) {
        if now_ns < self.beat_at_ns {
            return;
        }
        self.beat_at_ns = now_ns + self.config.heartbeat_interval_ns;
        self.make_entry_for_newcomers();
        self.forget_silent_observers(now_ns, env);
        if let State::Leader(leadership) = &mut self.state {
            let all = leadership.followers.values_mut().chain(leadership.observers.values_mut());
            all.for_each(|progress| progress.heartbeat_due = true);
        }
    }

    /// Commits what a quorum has durably, if it is of the leader's own term: an entry of an earlier term that is on a
    /// majority can still be lost, until one of this term is after it (thesis 3.6.2, figure 3.7).
    pub(crate) fn advance_leader_commit(&mut self) {
        let State::Leader(leadership) = &self.state else { return };
        let matches = leadership.followers.values().map(|p| (p.match_index, p.counts()));
        let matches = matches.chain([(leadership.own_match, self.hard.newcomer.is_none())]);
        let on_quorum = self.config.quorum_has(matches);
        if on_quorum > self.commit && self.log.term_at(on_quorum) == Some(self.hard.term) {
            self.commit = on_quorum;
        }
    }

    /// What the followers are to be told now.
    pub(crate) fn messages_to_followers(&mut self, now_ns: u64) -> Vec<(NodeId, Message)> {
        let State::Leader(leadership) = &mut self.state else { return Vec::new() };
        let term = self.hard.term;
        let source = Source {
            config: &self.config,
            log: &self.log,
            snapshot: self.snapshot.as_ref(),
            commit: self.commit,
        };
        let newcomer = self.hard.newcomer;
        let mut messages = Vec::new();
        for (id, progress) in leadership.followers.iter_mut().chain(&mut leadership.observers) {
            let message = |body| (*id, Message { term, asked_ns: now_ns, newcomer, body });
            source.feed(*id, progress, &mut |body| messages.push(message(body)));
        }
        messages
    }
}

/// What a leader sends from.
struct Source<'a> {
    config: &'a Config,
    log: &'a Log,
    snapshot: Option<&'a Snapshot>,
    commit: Index,
}

impl Source<'_> {
    fn feed(&self, id: NodeId, progress: &mut Progress, send: &mut impl FnMut(Body)) {
        let beat = std::mem::take(&mut progress.heartbeat_due);
        if let Flow::Doubt { sent } = &mut progress.flow {
            if beat || !*sent {
                send(Body::Doubt);
            }
            *sent = true;
            return;
        }
        if let Some(newcomer) = progress.newcomer
            && self.config.voters.contains(&id)
            && newcomer.since <= self.commit.min(progress.match_index)
            && (beat || progress.admitted != Some(newcomer.life))
        {
            progress.admitted = Some(newcomer.life);
            send(Body::Admit { life: newcomer.life });
        }
        let newest = self.snapshot;
        let compacted = self.log.term_at(progress.next_index.prev()).is_none();
        if compacted && !matches!(progress.flow, Flow::Snapshot { .. }) {
            let snapshot = newest.expect("entries are compacted into a snapshot").clone();
            progress.flow = Flow::Snapshot { snapshot, acked: 0, sent: false, asked: false };
        }
        match &mut progress.flow {
            Flow::Probe { sent } => {
                if !*sent {
                    send(self.append(progress.next_index, self.entries_from(progress.next_index)));
                } else if beat {
                    // Without entries: they would pile up in front of a node that is down.
                    send(self.append(progress.next_index, &[]));
                }
                *sent = true;
            }
            Flow::Replicate { inflight } => {
                let mut silent = true;
                while progress.next_index <= self.log.last_index()
                    && inflight.len() < self.config.max_inflight_messages
                {
                    let entries = self.entries_from(progress.next_index);
                    send(self.append(progress.next_index, entries));
                    progress.next_index = Index(progress.next_index.0 + entries.len() as u64);
                    inflight.push_back(progress.next_index.prev());
                    silent = false;
                }
                let tellable = self.commit.min(progress.next_index.prev());
                if silent && (beat || progress.told_commit < tellable) {
                    send(self.append(progress.next_index, &[]));
                }
                progress.told_commit = tellable;
            }
            Flow::Snapshot { snapshot, acked, sent, asked } => {
                if !*sent {
                    if *acked == 0 {
                        // Nothing of the old one has arrived: a node that was down for long starts with the newest.
                        snapshot.clone_from(newest.expect("a snapshot is being sent"));
                    }
                    let end = snapshot.data.len().min(*acked as usize + self.config.max_bytes_per_message);
                    send(chunk(snapshot, *acked, snapshot.data.slice(*acked as usize..end)));
                    *sent = true;
                } else if beat {
                    send(chunk(snapshot, *acked, Bytes::new()));
                    *asked = true;
                }
            }
            Flow::Doubt { .. } => unreachable!("nothing else is said to who has forgotten what it had"),
        }
    }

    fn entries_from(&self, next_index: Index) -> &[Entry] {
        let Config { max_entries_per_message, max_bytes_per_message, .. } = self.config;
        self.log.message_range(next_index, *max_entries_per_message, *max_bytes_per_message)
    }

    fn append(&self, next_index: Index, entries: &[Entry]) -> Body {
        let prev_index = next_index.prev();
        let prev_term = self.log.term_at(prev_index).expect("compacted entries go as a snapshot");
        Body::Append { prev_index, prev_term, commit: self.commit, entries: entries.to_vec() }
    }
}

fn chunk(snapshot: &Snapshot, offset: u64, data: Bytes) -> Body {
    Body::InstallSnapshot {
        last_index: snapshot.index,
        last_term: snapshot.term,
        total_bytes: snapshot.data.len() as u64,
        offset,
        data,
    }
}
