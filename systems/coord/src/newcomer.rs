//! Voters whose disk is empty, or holds less than it did: they have forgotten votes and entries that others count on.
//!
//! Raft's rules rest on what a voter never forgets (thesis 3.8). One that lost its disk could vote twice in a term, and
//! vote for a candidate that lacks an entry which is committed because this voter had it. So it is a *newcomer* until
//! its leader admits it, and what it says does not count for a majority:
//!
//! ```text
//!   quorum  := a majority of all voters, each of which is no newcomer | all voters
//!
//!   open on an empty disk     newcomer, as a life that no other has; both are written down before anything is said
//!   newcomer                  says so in each message; follows, answers, votes and asks for votes like any other, but
//!                             is counted only where all are
//!   leader hears of it        knows nothing of its log any more (a former life's late answers are not listened to), and
//!                             waits for an entry after that to be committed, which it makes if nobody proposes one
//!   that entry is committed, and the newcomer has it:   leader -> newcomer: Admit(life)
//!   newcomer, in that life    counts from now on; its vote in this term is given away
//! ```
//!
//! A cluster begins with newcomers only, so its first leader is elected, and its first entry committed, by all: *the first
//! start needs every voter*. Nobody can tell a majority of empty disks of a new cluster from a majority that was never
//! there or has lost its disks, while one that has everything is cut off.
//!
//! # Why that is safe
//!
//! Of `n` voters, `q` are a majority; at no time are more than `n - q` newcomers that were something else before. Let V
//! lose its disk, and let r be the entry after which it is admitted, made in term T by a leader that had heard of V's new
//! life, and committed by `q` others (if by all: the same with more).
//!
//! - *Votes that V forgot.* It may have voted for C in a later term t; let t be the first in which somebody without r is
//!   elected. C was in t before V voted, so before r was made, and its log ends before r, in T at the latest. The `q` that
//!   have r refuse it; had they voted for it before, they would have been in t and not taken r. The others are `n - q`,
//!   fewer than C needs. So C is not elected, and V's second vote in t elects nobody beside it.
//! - *Entries that V forgot.* An entry that was committed with V's help is with `q - 1` others. Until V is admitted, each
//!   quorum of counted voters meets those, as it does not include V; who is elected by all has all that anybody has. When
//!   V is admitted it has r, and with r all that was committed before.
//! - *Entries that V takes before it is admitted.* They count for nothing but the quorum of all, in which each other voter
//!   was still in the leader's term: V cannot have helped to elect a later one.
//! - *Leases.* The same: who is no newcomer hears the leader, or all do.
//! - *Messages to and from former lives.* A vote answers one candidacy ([`Message::asked_ns`](crate::Message::asked_ns)), and
//!   a newcomer that asks twice for one vote gets it only in the same candidacy: two lives do not lead one term. V's
//!   former acknowledgements are of entries before r, which whoever has r has too.
//!
//! This is what a change of membership that takes V away and then adds it would do (thesis 4.1), without being one. That
//! answers alone, without an entry in the others' logs, would not do is shown by Michael et al., "Recovering Shared Objects
//! Without Stable Storage", DISC 2017.
//!
//! # Disks that hold less than they did
//!
//! An older copy of a disk does not know that it is one, and may vote before anybody notices; nothing here helps against
//! that. A leader does notice when a voter lacks, in the same term, what it acknowledged before the leader asked. It then
//! takes nothing from it any more but that it has become a newcomer, and says so until it has.
//!
//! # What it cannot do
//!
//! Fill the lost disk of one of two voters: the other one is no majority. It is elected, though, if the newcomer votes for
//! it, for then all have.

use crate::config::Config;
use crate::message::{Body, Envelope};
use crate::progress::Flow;
use crate::raft::{Raft, State};
use crate::types::{Entry, Index, Life, NodeId};
use bytes::Bytes;
use riprap_env::{Env, log};
use std::collections::BTreeMap;

/// Who voted, newcomers with their lives.
pub(crate) type Votes = BTreeMap<NodeId, Option<Life>>;

/// A follower that is a newcomer, as its leader sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Newcomer {
    pub(crate) life: Life,
    /// The first entry that was made after this leader had heard of the life; perhaps not made yet.
    pub(crate) since: Index,
}

impl Config {
    /// Whether those are enough to decide.
    pub(crate) fn is_quorum(&self, votes: &Votes) -> bool {
        let counted = votes.values().filter(|life| life.is_none()).count();
        counted >= self.majority() || votes.len() == self.voters.len()
    }

    /// The highest value that a quorum has. Shape: of each voter its value, and whether it counts.
    pub(crate) fn quorum_has<T: Ord + Copy>(&self, values: impl Iterator<Item = (T, bool)> + Clone) -> T {
        let counted = values.clone().filter(|(_, counts)| *counts).map(|(value, _)| value);
        // Voters are few, and this is asked in each turn of a leader: counting is cheaper than a sorted copy.
        let has_majority =
            |value: &T| counted.clone().filter(|other| other >= value).count() >= self.majority();
        let of_majority = counted.clone().filter(has_majority).max();
        let of_all = values.map(|(value, _)| value).min().expect("there are voters");
        of_majority.map_or(of_all, |value| value.max(of_all))
    }
}

/// A life for a newcomer: not 0, which stands for none on disk and on the wire, and no larger than other numbers there.
pub(crate) fn draw_life(env: &mut dyn Env) -> Life {
    Life((env.random_u64("raft-life") >> 2).max(1))
}

// The newcomer's side.
impl Raft {
    /// The leader counts on this voter from now on, if it is still in that life.
    pub(crate) fn on_admit(&mut self, from: NodeId, life: Life, env: &mut dyn Env) {
        if self.hard.newcomer == Some(life) {
            log!(env, Info, "raft: its votes count, {from} says");
            self.hard.newcomer = None;
            if self.hard.vote.is_none() {
                // What it voted in this term before its disk was lost is not known.
                self.hard.vote = Some(from);
                self.granted_ns = None;
            }
        }
        self.send(from, Body::AppendAccepted { match_index: self.commit });
    }

    /// The leader knows that this voter had more than it has.
    pub(crate) fn on_doubt(&mut self, from: NodeId, env: &mut dyn Env) {
        if self.hard.newcomer.is_none() {
            let line = "its disk holds less than it did; its votes do not count before the leader says so";
            log!(env, Warn, "raft: {line}");
            self.hard.newcomer = Some(draw_life(env));
        }
        let (hint_index, hint_term) = (self.log.last_index(), self.log.last_term());
        self.send(from, Body::AppendRejected { prev_index: hint_index.next(), hint_index, hint_term });
    }
}

// The leader's side.
impl Raft {
    /// Notes in which life a follower speaks. False: in one that seems to be over.
    pub(crate) fn knows_life(&mut self, envelope: Envelope, env: &mut dyn Env) -> bool {
        let Envelope { from, asked_ns, newcomer: life, .. } = envelope;
        let next_index = self.log.last_index().next();
        let is_voter = self.config.voters.contains(&from);
        let Some(progress) = self.progress(from) else { return false };
        let is_doubted = matches!(progress.flow, Flow::Doubt { .. });
        match (progress.newcomer, life) {
            (None, None) => true,
            (Some(known), Some(life)) if known.life == life && !is_doubted => true,
            (Some(known), None) if progress.admitted == Some(known.life) => {
                progress.newcomer = None;
                true
            }
            (Some(_), None) => {
                // If that was not said before the disk was lost, but after another leader, or this one, admitted what
                // is taken for a newcomer because of what it said before that, it has to say so once more.
                progress.flow = Flow::Doubt { sent: true };
                false
            }
            (None, Some(life)) if progress.admitted == Some(life) && asked_ns <= progress.heard_ns => false,
            (_, Some(life)) => {
                progress.begin_anew(Newcomer { life, since: next_index }, next_index);
                if is_voter {
                    log!(env, Info, "raft: {from} has an empty disk, or one that is not what it was");
                }
                true
            }
        }
    }

    /// Makes the entry that newcomers wait for, if nobody proposed one.
    pub(crate) fn make_entry_for_newcomers(&mut self) {
        let State::Leader(leadership) = &self.state else { return };
        let next_index = self.log.last_index().next();
        let mut newcomers = leadership.followers.values().filter_map(|progress| progress.newcomer);
        if newcomers.any(|newcomer| newcomer.since >= next_index) {
            self.log.append(Entry { index: next_index, term: self.hard.term, payload: Bytes::new() });
        }
    }

    /// A leader that is a newcomer itself counts once the first entry of its term is committed.
    pub(crate) fn admit_self(&mut self) {
        if let State::Leader(leadership) = &self.state
            && leadership.noop <= self.commit
        {
            self.hard.newcomer = None;
        }
    }

    /// Takes nothing more from a follower that has forgotten what it acknowledged.
    pub(crate) fn doubt(&mut self, follower: NodeId, env: &mut dyn Env) {
        log!(env, Warn, "raft: {follower} has forgotten what it had");
        if let Some(progress) = self.progress(follower) {
            progress.match_index = Index(0);
            progress.flow = Flow::Doubt { sent: false };
        }
    }
}
