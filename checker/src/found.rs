//! Occurrences of an anomaly, while a check finds them: all are counted, the worst are kept.

use crate::index::Index;
use crate::options::{Examples, Options};
use crate::proof::Proof;
use crate::registry::AnomalyInfo;
use crate::verdict::{Anomaly, Example};
use std::cmp::Reverse;

/// Examples of each anomaly: one convinces, a few show the pattern, more are not read. If all are asked for, those beyond
/// these come without the history that proves them.
pub(crate) const MAX_EXAMPLES: usize = 8;

/// What a check has found so far. `T` is what the check needs to tell the story later.
pub(crate) struct Found<T> {
    count: u64,
    max_kept: usize,
    kept: Vec<(Reverse<u64>, u64, T)>,
}

impl<T> Found<T> {
    pub(crate) fn new(options: &Options) -> Found<T> {
        let max_kept = match options.examples {
            Examples::None => 0,
            Examples::Few => MAX_EXAMPLES,
            Examples::All => usize::MAX,
        };
        Found { count: 0, max_kept, kept: Vec::new() }
    }

    /// Adds an occurrence. Of two, the greater `badness` is shown first; of equals, the one that was found first.
    pub(crate) fn add(&mut self, badness: u64, occurrence: T) {
        if self.max_kept > 0 {
            self.kept.push((Reverse(badness), self.count, occurrence));
        }
        self.count += 1;
        if self.kept.len() >= self.max_kept.saturating_mul(2) {
            self.trim();
        }
    }

    fn trim(&mut self) {
        self.kept.sort_unstable_by_key(|(badness, order, _)| (*badness, *order));
        self.kept.truncate(self.max_kept);
    }

    /// What was found here and then there.
    pub(crate) fn append(&mut self, other: Found<T>) {
        self.kept.extend(other.kept.into_iter().map(|(badness, order, t)| (badness, self.count + order, t)));
        self.count += other.count;
        self.trim();
    }

    /// Tells the stories, each with a proof to be filled. `None` if nothing was found.
    pub(crate) fn tell<'i, 'h>(
        mut self,
        info: &'static AnomalyInfo,
        options: &Options,
        index: &'i Index<'h>,
        mut tell: impl FnMut(T, Proof<'i, 'h>) -> Example,
    ) -> Option<(&'static AnomalyInfo, Anomaly)> {
        if self.count == 0 {
            return None;
        }
        self.trim();
        let examples = self.kept.into_iter().enumerate().map(|(n, (_, _, t))| {
            // A million proofs are read by nobody, and each looks through its ops.
            tell(t, Proof::new(index, n < MAX_EXAMPLES))
        });
        let anomaly = Anomaly {
            count: self.count,
            allowed: info.is_allowed(options),
            severity: info.severity,
            examples: examples.collect(),
        };
        Some((info, anomaly))
    }
}
