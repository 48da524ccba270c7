//! Which of many, by name, is to be looked at next: groups, transactions.

use std::collections::{BTreeMap, BTreeSet};

/// When which of them has something to do by itself.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    by_time: BTreeSet<(u64, String)>,
    by_name: BTreeMap<String, u64>,
}

impl Schedule {
    pub(crate) fn set(&mut self, name: &str, at_ns: Option<u64>) {
        if self.by_name.get(name).copied() == at_ns {
            return;
        }
        if let Some(at_ns) = self.by_name.remove(name) {
            self.by_time.remove(&(at_ns, name.to_owned()));
        }
        if let Some(at_ns) = at_ns {
            self.by_name.insert(name.to_owned(), at_ns);
            self.by_time.insert((at_ns, name.to_owned()));
        }
    }

    pub(crate) fn first_ns(&self) -> Option<u64> {
        self.by_time.first().map(|(at_ns, _)| *at_ns)
    }

    pub(crate) fn due(&self, now_ns: u64) -> Vec<String> {
        let is_due = |(at_ns, _): &&(u64, String)| *at_ns <= now_ns;
        self.by_time.iter().take_while(is_due).map(|(_, name)| name.clone()).collect()
    }
}
