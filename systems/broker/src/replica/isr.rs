//! The in-sync replicas as their leader sees them, and the high watermark that follows from them.
//!
//! A leader asks the controller for another ISR and may not hear whether it got it. Until it knows, it counts both: a
//! record is committed only if everybody who *may* be in the ISR has it (KIP-497, "maximal ISR"). What was asked for
//! is forgotten only when the partition's epoch has risen, for then no request that names the old one can be granted.
//!
//! While the ISR is smaller than `min.insync.replicas`, nothing is committed (KIP-966): whoever left it then has all
//! that is.

use crate::ids::{BrokerId, PartitionEpoch};
use std::collections::BTreeSet;

/// The ISR of a partition that this broker leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InSync {
    members: Vec<BrokerId>,
    epoch: PartitionEpoch,
    /// Everybody who was in an ISR that was asked for in this epoch.
    maybe: BTreeSet<BrokerId>,
}

impl InSync {
    pub(crate) fn new(members: Vec<BrokerId>, epoch: PartitionEpoch) -> InSync {
        InSync { members, epoch, maybe: BTreeSet::new() }
    }

    /// The ISR that the cluster agreed on.
    pub(crate) fn members(&self) -> &[BrokerId] {
        &self.members
    }

    /// The partition's epoch, in which [`members`](InSync::members) is the ISR.
    pub(crate) fn epoch(&self) -> PartitionEpoch {
        self.epoch
    }

    /// Whether something was asked for, and what became of it is not known.
    pub(crate) fn is_in_doubt(&self) -> bool {
        !self.maybe.is_empty()
    }

    /// Notes that this ISR is asked for.
    pub(crate) fn ask(&mut self, isr: &[BrokerId]) {
        self.maybe.extend(isr);
    }

    /// Takes in what the cluster agreed on. An epoch that is not newer says nothing new.
    pub(crate) fn agree(&mut self, members: &[BrokerId], epoch: PartitionEpoch) -> bool {
        let newer = epoch > self.epoch;
        if newer {
            *self = InSync::new(members.to_vec(), epoch);
        }
        newer
    }

    /// Everybody who may be in the ISR.
    pub(crate) fn maximal(&self) -> impl Iterator<Item = BrokerId> + '_ {
        let others = self.maybe.iter().copied().filter(|id| !self.members.contains(id));
        self.members.iter().copied().chain(others)
    }

    /// Up to where records are committed, if that can be said now.
    pub(crate) fn high_watermark(
        &self,
        min_insync: usize,
        durable_end: impl Fn(BrokerId) -> Option<i64>,
    ) -> Option<i64> {
        if self.members.len() < min_insync {
            return None;
        }
        let mut least = None;
        for member in self.maximal() {
            let end = durable_end(member)?;
            least = Some(least.map_or(end, |least: i64| least.min(end)));
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters are brokers; `ends` gives each one's durable end.
    fn check(members: &str, asked: &[&str], min_insync: usize, ends: &[(char, i64)], expect: Option<i64>) {
        let ids = |text: &str| text.chars().map(|c| BrokerId(c as i32)).collect::<Vec<_>>();
        let mut isr = InSync::new(ids(members), PartitionEpoch(4));
        asked.iter().for_each(|asked| isr.ask(&ids(asked)));
        let end_of = |id: BrokerId| ends.iter().find(|(c, _)| BrokerId(*c as i32) == id).map(|(_, end)| *end);
        assert_eq!(isr.high_watermark(min_insync, end_of), expect, "{members} {asked:?}");
    }

    #[test]
    fn high_watermark() {
        let ends = &[('a', 9), ('b', 7), ('c', 5)];
        check("abc", &[], 2, ends, Some(5));
        check("ab", &[], 2, ends, Some(7));
        check("a", &[], 1, ends, Some(9));
        // Below the minimum nothing is committed, whatever is asked for.
        check("a", &[], 2, ends, None);
        check("a", &["ab"], 2, ends, None);
        // Who may have joined counts, and who may have left still does.
        check("ab", &["abc"], 2, ends, Some(5));
        check("abc", &["ab"], 2, ends, Some(5));
        check("ab", &["abc", "ab"], 2, ends, Some(5));
        // A follower that was not heard yet in this leader's epoch may have nothing.
        check("abd", &[], 2, ends, None);
    }

    #[test]
    fn only_a_newer_epoch_resolves_a_doubt() {
        let [a, b] = [BrokerId(1), BrokerId(2)];
        let mut isr = InSync::new(vec![a], PartitionEpoch(4));
        isr.ask(&[a, b]);
        assert!(!isr.agree(&[a], PartitionEpoch(4)));
        assert!(isr.is_in_doubt());
        assert!(isr.agree(&[a], PartitionEpoch(5)));
        assert!(!isr.is_in_doubt());
        assert_eq!(isr.maximal().collect::<Vec<_>>(), vec![a]);
    }
}
