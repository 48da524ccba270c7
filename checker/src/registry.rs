//! Every check, by name: `riprap list checkers`, the documentation and the tests read this.

use crate::checks::{
    abort_position, aborted_read, cycles, duplicate, group, inconsistent_offsets, lost_write, phantom_read,
    poll_order, precommitted_read, send_order, stuck, torn_txn, unseen,
};
use crate::index::Index;
use crate::options::Options;
use crate::verdict::{Anomaly, Severity};

/// A check: a look at one history that finds one family of anomalies.
pub struct CheckerInfo {
    /// Its name, unique.
    pub name: &'static str,
    /// One line on what it does.
    pub doc: &'static str,
    /// What it can find, sorted by name.
    pub anomalies: &'static [AnomalyInfo],
    pub(crate) run: fn(&Index<'_>, &Options) -> Vec<(&'static AnomalyInfo, Anomaly)>,
}

/// Something that a log should not do.
pub struct AnomalyInfo {
    /// The name it has in `results.json`, unique.
    pub name: &'static str,
    /// What it is, with a small example.
    pub meaning: &'static str,
    /// Who named it and where it is defined.
    pub source: &'static str,
    /// How much it hurts.
    pub severity: Severity,
    pub(crate) allowed: fn(&Options) -> bool,
}

impl AnomalyInfo {
    /// Whether what the run asked for allows it.
    pub fn is_allowed(&self, options: &Options) -> bool {
        (self.allowed)(options)
    }
}

/// Every check, sorted by name.
pub static ALL: &[&CheckerInfo] = &[
    &abort_position::INFO,
    &aborted_read::INFO,
    &cycles::INFO,
    &duplicate::INFO,
    &group::INFO,
    &inconsistent_offsets::INFO,
    &lost_write::INFO,
    &phantom_read::INFO,
    &poll_order::INFO,
    &precommitted_read::INFO,
    &send_order::INFO,
    &stuck::INFO,
    &torn_txn::INFO,
    &unseen::INFO,
];

/// A process of the system under test ended though nobody had ended it.
pub static NODE_CRASH: AnomalyInfo = AnomalyInfo {
    name: "node-crash",
    meaning: "a node's process ended by itself: it panicked, ran without coming to rest, or gave up",
    source: "riprap; Jepsen's `assert-log-file-pattern` looks for the same in nodes' logs",
    severity: Severity::Progress,
    allowed: |_| false,
};

/// What shows in no history, but to whoever runs the nodes; sorted by name.
pub static OF_NODES: &[&AnomalyInfo] = &[&NODE_CRASH];

/// Everything that can be found, by a check or otherwise.
pub fn anomalies() -> impl Iterator<Item = &'static AnomalyInfo> {
    ALL.iter().flat_map(|checker| checker.anomalies).chain(OF_NODES.iter().copied())
}

/// The anomaly of this name, if there is one.
pub fn anomaly(name: &str) -> Option<&'static AnomalyInfo> {
    anomalies().find(|anomaly| anomaly.name == name)
}
