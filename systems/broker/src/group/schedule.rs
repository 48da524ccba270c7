//! Which group is to be looked at next.

use std::collections::{BTreeMap, BTreeSet};

/// When which group has something to do by itself.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    by_time: BTreeSet<(u64, String)>,
    by_group: BTreeMap<String, u64>,
}

impl Schedule {
    pub(super) fn set(&mut self, group_id: &str, at_ns: Option<u64>) {
        if self.by_group.get(group_id).copied() == at_ns {
            return;
        }
        if let Some(at_ns) = self.by_group.remove(group_id) {
            self.by_time.remove(&(at_ns, group_id.to_owned()));
        }
        if let Some(at_ns) = at_ns {
            self.by_group.insert(group_id.to_owned(), at_ns);
            self.by_time.insert((at_ns, group_id.to_owned()));
        }
    }

    pub(super) fn first_ns(&self) -> Option<u64> {
        self.by_time.first().map(|(at_ns, _)| *at_ns)
    }

    pub(super) fn due(&self, now_ns: u64) -> Vec<String> {
        let is_due = |(at_ns, _): &&(u64, String)| *at_ns <= now_ns;
        self.by_time.iter().take_while(is_due).map(|(_, group_id)| group_id.clone()).collect()
    }
}
