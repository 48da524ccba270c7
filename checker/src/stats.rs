//! What a history holds, and whether that is enough to judge it.

use crate::verdict::Stats;
use riprap_core::History;
use riprap_core::history::MopRef;
use riprap_core::op::{Kind, Process};
use std::collections::BTreeSet;

/// Counts a history's ops, sends, polls and records.
pub(crate) fn stats(history: &History) -> Stats {
    let mut stats = Stats { ops: history.len() as u64, ..Stats::default() };
    let mut keys = BTreeSet::new();
    for op in history.ops() {
        let kind = op.kind();
        let name = op.f().name();
        if !stats.by_f.contains_key(name) {
            stats.by_f.insert(name.to_owned(), Default::default());
        }
        let kinds = stats.by_f.get_mut(name).expect("just inserted");
        match kind {
            Kind::Invoke => kinds.invoke += 1,
            Kind::Ok => kinds.ok += 1,
            Kind::Fail => kinds.fail += 1,
            Kind::Info => kinds.info += 1,
        }
        if op.process() == Process::Nemesis || kind == Kind::Invoke {
            continue;
        }
        for mop in op.mops() {
            match mop {
                MopRef::Send { key, .. } => {
                    keys.insert(key);
                    stats.ok_sends += u64::from(kind == Kind::Ok);
                }
                MopRef::Asked => {}
                MopRef::Polled(reads) => {
                    stats.ok_polls += u64::from(kind == Kind::Ok);
                    for (key, offsets, _) in reads.groups() {
                        keys.insert(key);
                        stats.ok_records += if kind == Kind::Ok { offsets.len() as u64 } else { 0 };
                    }
                }
            }
        }
    }
    stats.keys = keys.len() as u64;
    stats
}

/// Why a history proves nothing, if it does not.
pub(crate) fn vacuity(stats: &Stats) -> Option<&'static str> {
    match (stats.ok_sends, stats.ok_polls) {
        (0, 0) => Some("no send was acknowledged and no poll returned: there is nothing to judge"),
        (0, _) => Some("no send was acknowledged: nothing could be lost"),
        (_, 0) => Some("no poll returned: nobody looked"),
        _ => None,
    }
}
