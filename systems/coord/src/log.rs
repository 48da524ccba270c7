//! The log in memory: everything after the newest snapshot, and which part of it is not on disk yet.

use crate::types::{Entry, Index, Term};

/// Entries after a base (the newest snapshot's last entry, or 0), without gaps.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    base_index: Index,
    base_term: Term,
    entries: Vec<Entry>,
    /// Entries from here on are to be written; what the disk holds from here on is void.
    unstable_from: Index,
    /// What the disk holds is void as a whole: the log starts anew at the base.
    reset: bool,
}

impl Log {
    /// A log that is on disk as a whole. Panics: entries with gaps.
    pub(crate) fn stable(base_index: Index, base_term: Term, entries: Vec<Entry>) -> Log {
        let mut log = Log { base_index, base_term, entries, unstable_from: base_index.next(), reset: false };
        for (at, entry) in log.entries.iter().enumerate() {
            assert_eq!(entry.index.0, base_index.0 + 1 + at as u64, "a log has no gaps");
        }
        log.unstable_from = log.last_index().next();
        log
    }

    pub(crate) fn base_index(&self) -> Index {
        self.base_index
    }

    pub(crate) fn base_term(&self) -> Term {
        self.base_term
    }

    pub(crate) fn last_index(&self) -> Index {
        Index(self.base_index.0 + self.entries.len() as u64)
    }

    pub(crate) fn last_term(&self) -> Term {
        self.entries.last().map_or(self.base_term, |e| e.term)
    }

    /// The term at `index`, the base included; none where this log does not reach.
    pub(crate) fn term_at(&self, index: Index) -> Option<Term> {
        if index == self.base_index { Some(self.base_term) } else { self.entry(index).map(|e| e.term) }
    }

    /// The last place up to `from` whose entry is of `term` or an earlier one: where this log and one that ends like
    /// that can still agree. Below the base if only compacted entries qualify.
    pub(crate) fn last_place_to_agree(&self, from: Index, term: Term) -> Index {
        let mut index = from.min(self.last_index());
        while self.term_at(index).is_some_and(|t| t > term) {
            index = index.prev();
        }
        index
    }

    pub(crate) fn entry(&self, index: Index) -> Option<&Entry> {
        let at = index.0.checked_sub(self.base_index.0 + 1)?;
        self.entries.get(usize::try_from(at).ok()?)
    }

    /// The entries from `from` to `to`, both included. Panics: `from` is not above the base.
    pub(crate) fn range(&self, from: Index, to: Index) -> &[Entry] {
        assert!(
            from > self.base_index,
            "entry {from} was compacted into the snapshot at {}",
            self.base_index
        );
        let start = (from.0 - self.base_index.0 - 1) as usize;
        let end = (to.min(self.last_index()).0.saturating_sub(self.base_index.0)) as usize;
        if start >= end { &[] } else { &self.entries[start..end] }
    }

    /// The entries from `from` on that fit one message: at least one, if there is one.
    pub(crate) fn message_range(&self, from: Index, max_entries: usize, max_bytes: usize) -> &[Entry] {
        let rest = self.range(from, self.last_index());
        let mut bytes = 0;
        let fitting = rest.iter().take(max_entries).take_while(|e| {
            let first = bytes == 0;
            bytes += e.payload.len().max(1);
            first || bytes <= max_bytes
        });
        let count = fitting.count();
        &rest[..count]
    }

    /// Appends one entry. Panics: it does not follow the last one.
    pub(crate) fn append(&mut self, entry: Entry) {
        assert_eq!(entry.index, self.last_index().next(), "a log has no gaps");
        assert!(entry.term >= self.last_term(), "terms in a log never fall");
        self.entries.push(entry);
    }

    /// Forgets the entries from `from` on. Panics: `from` is not above the base.
    pub(crate) fn truncate_from(&mut self, from: Index) {
        assert!(from > self.base_index, "a snapshot is committed and never undone");
        self.entries.truncate((from.0 - self.base_index.0 - 1) as usize);
        self.unstable_from = self.unstable_from.min(from);
    }

    /// Forgets the entries up to `upto`, which a snapshot holds. Panics: `upto` is not in the log or not on disk.
    pub(crate) fn compact(&mut self, upto: Index) {
        let term = self.term_at(upto).expect("a snapshot is of applied entries");
        assert!(upto < self.unstable_from, "a snapshot is of entries that are on disk");
        self.entries.drain(..(upto.0 - self.base_index.0) as usize);
        self.base_index = upto;
        self.base_term = term;
    }

    /// Forgets all entries: a snapshot from the leader takes their place.
    pub(crate) fn reset(&mut self, base_index: Index, base_term: Term) {
        *self =
            Log { base_index, base_term, entries: Vec::new(), unstable_from: base_index.next(), reset: true };
    }

    /// Whether the disk's log differs.
    pub(crate) fn is_unstable(&self) -> bool {
        self.reset || self.unstable_from <= self.last_index()
    }

    /// Whether what the disk holds is void as a whole.
    pub(crate) fn needs_reset(&self) -> bool {
        self.reset
    }

    /// The last entry on disk that is still part of this log.
    pub(crate) fn before_unstable(&self) -> (Index, Term) {
        let index = self.unstable_from.prev();
        (index, self.term_at(index).expect("the disk holds nothing after this log, and the base is on disk"))
    }

    /// Everything up to `upto` is on disk.
    pub(crate) fn mark_stable(&mut self, upto: Index) {
        self.unstable_from = upto.next();
        self.reset = false;
    }
}
