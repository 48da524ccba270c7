//! The five properties that Raft keeps at all times (thesis figure 3.2), and what they rest on, checked from outside.
//!
//! Election safety: a term has at most one leader. Leader append-only: a leader never changes its log but at the end.
//! Log matching: entries of one index and term are the same everywhere, and so is all before them. Leader
//! completeness: what is committed in a term is in the logs of the leaders of all later terms. State machine safety:
//! nobody applies different entries at one index. Besides: one vote per node and term, whatever crashed in between;
//! terms and commit indices do not fall. Who lost its disk has forgotten its terms and votes.

use crate::node::App;
use bytes::Bytes;
use riprap_coord::{Body, Entry, Index, Message, NodeId, Raft, Term};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Safety {
    leaders: BTreeMap<Term, NodeId>,
    /// Payload, and the term of the entry before it where that was ever seen.
    entries: BTreeMap<(Index, Term), (Bytes, Option<Term>)>,
    /// The entry's term, and a term in which it was committed, or a later one.
    committed: BTreeMap<Index, (Term, Term)>,
    new_commits: Vec<Index>,
    states: BTreeMap<Index, u64>,
    votes: BTreeMap<(NodeId, Term), NodeId>,
    /// The highest term that left a node.
    told_terms: BTreeMap<NodeId, Term>,
    views: BTreeMap<NodeId, View>,
    pub(crate) seen: Seen,
}

/// What happened, so that a test can tell that its chaos was one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) committed: u64,
    pub(crate) leaders: u64,
    /// Entries that a new leader's entries took the place of.
    pub(crate) overwritten: u64,
    pub(crate) snapshots_installed: u64,
    pub(crate) disk_failures: u64,
    pub(crate) power_failures: u64,
    pub(crate) rejections: u64,
    pub(crate) disks_lost: u64,
    /// Newcomers that were told that they count, the first of a cluster included.
    pub(crate) admissions: u64,
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, other: Seen) {
        self.committed += other.committed;
        self.leaders += other.leaders;
        self.overwritten += other.overwritten;
        self.snapshots_installed += other.snapshots_installed;
        self.disk_failures += other.disk_failures;
        self.power_failures += other.power_failures;
        self.rejections += other.rejections;
        self.disks_lost += other.disks_lost;
        self.admissions += other.admissions;
    }
}

/// What a node looked like when it was last checked.
#[derive(Default)]
struct View {
    term: Term,
    leads: bool,
    commit: Index,
    base: Index,
    terms: Vec<Term>,
}

impl View {
    fn last(&self) -> Index {
        Index(self.base.0 + self.terms.len() as u64)
    }

    fn term_at(&self, index: Index) -> Option<Term> {
        let at = index.0.checked_sub(self.base.0 + 1)?;
        self.terms.get(at as usize).copied()
    }
}

impl Safety {
    /// A new life: what the last one had in memory is no longer to be compared with.
    pub(crate) fn started(&mut self, id: NodeId, raft: &Raft) {
        let told = self.told_terms.get(&id).copied().unwrap_or_default();
        assert!(raft.term() >= told, "node {id} forgot term {told} and starts in {}", raft.term());
        self.views.insert(id, View { term: raft.term(), ..View::default() });
    }

    /// Its terms and votes are gone, and with them its right to be counted.
    pub(crate) fn disk_lost(&mut self, id: NodeId) {
        self.told_terms.remove(&id);
        self.votes.retain(|(voter, _), _| *voter != id);
        self.seen.disks_lost += 1;
    }

    pub(crate) fn sent(&mut self, from: NodeId, to: NodeId, message: &Message) {
        self.told_terms.insert(from, message.term);
        self.seen.admissions += u64::from(matches!(message.body, Body::Admit { .. }));
        self.seen.rejections += u64::from(matches!(message.body, Body::AppendRejected { .. }));
        if message.body == (Body::VoteResponse { granted: true }) {
            let voted = *self.votes.entry((from, message.term)).or_insert(to);
            assert_eq!(voted, to, "node {from} votes twice in term {}", message.term);
        }
    }

    pub(crate) fn applied(&mut self, id: NodeId, app: App) {
        let known = *self.states.entry(app.applied).or_insert(app.hash);
        assert_eq!(known, app.hash, "node {id} has another state at {}", app.applied);
    }

    pub(crate) fn committed(&mut self, id: NodeId, node_term: Term, entry: &Entry) {
        if let Some((term, _)) = self.committed.get(&entry.index) {
            assert_eq!(*term, entry.term, "node {id} was handed another entry at {}", entry.index);
            return;
        }
        self.committed.insert(entry.index, (entry.term, node_term));
        self.new_commits.push(entry.index);
        self.seen.committed += 1;
    }

    /// The entries that were ever handed out.
    pub(crate) fn last_committed(&self) -> Index {
        self.committed.last_key_value().map_or(Index(0), |(index, _)| *index)
    }

    /// As [`check`](Safety::check), unless nothing seems to have changed: that alone is cheap enough for each step.
    pub(crate) fn check_step(&mut self, id: NodeId, raft: &Raft) {
        let old = &self.views[&id];
        let last = raft.last_index();
        let last_term = raft.entry(last).map(|e| e.term);
        let log_is_same =
            (old.base, old.last()) == (raft.snapshot_index(), last) && old.term_at(last) == last_term;
        let role_is_same =
            (old.term, old.leads, old.commit) == (raft.term(), raft.is_leader(), raft.commit_index());
        if !log_is_same || !role_is_same {
            self.check(id, raft);
        }
    }

    pub(crate) fn check(&mut self, id: NodeId, raft: &Raft) {
        let old = self.views.remove(&id).unwrap_or_default();
        let (term, leads, commit) = (raft.term(), raft.is_leader(), raft.commit_index());
        let (base, last) = (raft.snapshot_index(), raft.last_index());
        assert!(term >= old.term, "node {id}: term falls from {} to {term}", old.term);
        assert!(commit >= old.commit, "node {id}: commit index falls from {} to {commit}", old.commit);
        assert!(commit <= last, "node {id}: commit index {commit} is past the log's end {last}");

        let mut terms = Vec::with_capacity((last.0 - base.0) as usize);
        for index in (base.0 + 1..=last.0).map(Index) {
            let entry = raft.entry(index).expect("the log has no gaps");
            terms.push(entry.term);
            let old_term = old.term_at(index);
            if old_term != Some(entry.term) {
                self.seen.overwritten += u64::from(old_term.is_some());
                self.check_entry(id, raft, entry);
                if leads && old.leads && old.term == term {
                    let past_end = index > old.last();
                    assert!(past_end, "leader {id} of term {term} changed its entry {index}");
                }
            }
        }
        if leads && old.leads && old.term == term {
            assert!(last >= old.last(), "leader {id} of term {term} cut its log");
        }
        if leads {
            let known = *self.leaders.entry(term).or_insert_with(|| {
                self.seen.leaders += 1;
                id
            });
            assert_eq!(known, id, "term {term} has two leaders");
            if !(old.leads && old.term == term) {
                for (index, (_, committed_in)) in self.committed.range(base.next()..) {
                    self.check_has_commit(id, raft, *index, *committed_in);
                }
            }
        }
        self.views.insert(id, View { term, leads, commit, base, terms });
    }

    fn check_entry(&mut self, id: NodeId, raft: &Raft, entry: &Entry) {
        let prev_term = match entry.index.prev() {
            Index(0) => Some(Term(0)),
            prev => raft.entry(prev).map(|e| e.term),
        };
        let known = self
            .entries
            .entry((entry.index, entry.term))
            .or_insert_with(|| (entry.payload.clone(), prev_term));
        assert_eq!(known.0, entry.payload, "node {id}: entry {} of term {}", entry.index, entry.term);
        match (known.1, prev_term) {
            (Some(known), Some(found)) => {
                assert_eq!(known, found, "node {id}: before entry {} of term {}", entry.index, entry.term);
            }
            (None, found) => known.1 = found,
            (Some(_), None) => {}
        }
    }

    fn check_has_commit(&self, id: NodeId, raft: &Raft, index: Index, committed_in: Term) {
        if !raft.is_leader() || raft.term() <= committed_in || raft.snapshot_index() >= index {
            return;
        }
        let (term, _) = self.committed[&index];
        let found = raft.entry(index).map(|e| e.term);
        let leads = raft.term();
        assert_eq!(
            found,
            Some(term),
            "leader {id} of term {leads} lacks entry {index}, committed by {committed_in}"
        );
    }

    pub(crate) fn check_leader_has_new_commits(&self, id: NodeId, raft: &Raft) {
        for index in &self.new_commits {
            self.check_has_commit(id, raft, *index, self.committed[index].1);
        }
    }

    pub(crate) fn new_commits_are_checked(&mut self) {
        self.new_commits.clear();
    }
}
