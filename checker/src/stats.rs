//! What a history holds, and whether that is enough to judge it.

use crate::index::IntMap;
use crate::verdict::{Kinds, Stats};
use riprap_core::History;
use riprap_core::history::MopRef;
use riprap_core::op::{F, Kind, Process};

/// Counts a history's ops, sends, polls and records.
pub(crate) fn stats(history: &History) -> Stats {
    let mut stats = Stats { ops: history.len() as u64, ..Stats::default() };
    // A history has few words, each at one place in memory.
    let mut by_f: Vec<(&F, Kinds)> = Vec::new();
    let mut keys = IntMap::<i64, ()>::default();
    for op in history.ops() {
        let kind = op.kind();
        let known = by_f.iter().position(|(f, _)| std::ptr::eq(*f, op.f())).unwrap_or_else(|| {
            by_f.push((op.f(), Kinds::default()));
            by_f.len() - 1
        });
        let kinds = &mut by_f[known].1;
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
                    keys.insert(key.0, ());
                    stats.ok_sends += u64::from(kind == Kind::Ok);
                }
                MopRef::Asked => {}
                MopRef::Polled(reads) => {
                    stats.ok_polls += u64::from(kind == Kind::Ok);
                    for (key, offsets, _) in reads.groups() {
                        keys.insert(key.0, ());
                        stats.ok_records += if kind == Kind::Ok { offsets.len() as u64 } else { 0 };
                    }
                }
            }
        }
    }
    stats.keys = keys.len() as u64;
    stats.by_f = by_f.into_iter().map(|(f, kinds)| (f.name().to_owned(), kinds)).collect();
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
