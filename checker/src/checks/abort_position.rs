//! Where a consumer goes on after its transaction was aborted: nobody promises it, so it is told.
//!
//! ```text
//! p5:10=1  !(p5:11=2,12=3)x  p5:13=4     abort-advance: behind what the aborted transaction had read, which is skipped
//! p5:10=1  !(p5:11=2,12=3)x  p5:11=2     abort-rewind: at the first record that it had read
//! p5:10=1  !(p5:11=2,12=3)x  p5:10=1     abort-rewind-further: before that
//! p5:10=1  !(p5:11=2,12=3)x  p5:12=3     abort-other: anywhere else
//! ```
//!
//! An abort undoes what a transaction sent and the offsets it committed, not the consumer's position; a rebalance takes it
//! back to the committed offset, and some applications go back themselves. Judged is, for each key that an aborted
//! transaction read, the first record that the process' next op reads of it; an assign or subscribe in between says
//! nothing about the abort. If transactions are aborted in a row, each is judged by the next. Whether the key was
//! rebalanced meanwhile stands in the story. Advance, rewind and rewind-further are allowed; what an application does of
//! its own free will leads nowhere else, so the other is forbidden like any skip, unless a group may move the consumer.
//!
//! `poll_order.rs` does not compare what is read behind an abort with what was read before it.

use crate::found::Found;
use crate::index::{Index, IntMap, NONE, TxnId, ValueId};
use crate::options::{Options, Via};
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};
use riprap_core::op::{F, Kind, Process};

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "abort-position",
    doc: "where a consumer goes on after its transaction was aborted",
    anomalies: &[ABORT_ADVANCE, ABORT_OTHER, ABORT_REWIND, ABORT_REWIND_FURTHER],
    run,
};

const SOURCE: &str = "KAFKA-17582; Jepsen: Bufstream 0.1.0, 2024, abort workload";

const fn info(name: &'static str, meaning: &'static str, allowed: fn(&Options) -> bool) -> AnomalyInfo {
    AnomalyInfo { name, meaning, source: SOURCE, severity: Severity::Note, allowed }
}

const ABORT_ADVANCE: AnomalyInfo = info(
    "abort-advance",
    "after an abort a consumer went on behind what the aborted transaction had read: nobody processes that",
    |_| true,
);
const ABORT_REWIND: AnomalyInfo = info(
    "abort-rewind",
    "after an abort a consumer read again what the aborted transaction had read",
    |_| true,
);
const ABORT_REWIND_FURTHER: AnomalyInfo = info(
    "abort-rewind-further",
    "after an abort a consumer went back further than the aborted transaction had begun",
    |_| true,
);
const ABORT_OTHER: AnomalyInfo = AnomalyInfo {
    severity: Severity::Order,
    ..info(
        "abort-other",
        "after an abort a consumer went on where neither the abort nor its application can have sent it",
        |options| !options.jepsen() && options.via == Via::Subscribe,
    )
};

/// What an aborted transaction read of a key.
#[derive(Clone, Copy)]
struct Aborted {
    txn: TxnId,
    first: ValueId,
    last: ValueId,
    /// The key was rebalanced since.
    rebalanced: bool,
}

/// An aborted transaction, who read next, and what.
#[derive(Clone, Copy)]
struct Next {
    aborted: Aborted,
    then: TxnId,
    value: ValueId,
}

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    if options.jepsen() || !index.history.ops_with_extra().any(|(op, _)| op.was_aborted()) {
        return Vec::new();
    }
    let mut found: [(&AnomalyInfo, Found<Next>); 4] =
        [&ABORT_ADVANCE, &ABORT_OTHER, &ABORT_REWIND, &ABORT_REWIND_FURTHER]
            .map(|info| (info, Found::new(options)));
    // By process, and by key: what its last aborted transaction read, until it reads on.
    let mut open = IntMap::<u32, IntMap<u32, Aborted>>::default();
    let mut ends = Vec::new();
    for op in index.history.ops() {
        let Process::Client(process) = op.process() else { continue };
        match op.f() {
            _ if op.kind() == Kind::Invoke => continue,
            F::Assign | F::Subscribe if op.kind() != Kind::Fail => {
                open.remove(&process);
            }
            F::Send | F::Poll | F::Txn => {
                let aborted = op.was_aborted();
                if !aborted && !open.contains_key(&process) {
                    continue;
                }
                let txn = index.txn_of(op).expect("a completion of sends and polls is a transaction");
                index.ends_of_reads(txn, &mut ends);
                let open = open.entry(process).or_default();
                for (key, aborted) in open.iter_mut() {
                    let key = index.keys[*key as usize].key;
                    aborted.rebalanced |= op.rebalance().iter().any(|entry| entry.keys.contains(&key));
                }
                for (key, first, last) in &ends {
                    if let Some(aborted) = open.remove(key) {
                        let next = Next { aborted, then: txn, value: *first };
                        if let Some(which) = judge(index, next) {
                            found[which as usize].1.add(0, next);
                        }
                    }
                    if aborted {
                        open.insert(*key, Aborted { txn, first: *first, last: *last, rebalanced: false });
                    }
                }
            }
            _ => {}
        }
    }
    found
        .into_iter()
        .filter_map(|(info, found)| found.tell(info, options, index, |next, proof| tell(index, next, proof)))
        .collect()
}

/// The places of what was found, in the order of the check's anomalies.
#[derive(Clone, Copy)]
enum Where {
    Advance,
    Other,
    Rewind,
    RewindFurther,
}

/// Where the next read is; `None` where a place is not known.
fn judge(index: &Index<'_>, next: Next) -> Option<Where> {
    let place = |value: ValueId| Some(index.place[value as usize]).filter(|place| *place != NONE);
    let (first, last, then) = (place(next.aborted.first)?, place(next.aborted.last)?, place(next.value)?);
    Some(match then {
        _ if then == last + 1 => Where::Advance,
        _ if then == first => Where::Rewind,
        _ if then < first => Where::RewindFurther,
        _ => Where::Other,
    })
}

fn tell(index: &Index<'_>, next: Next, mut proof: crate::proof::Proof<'_, '_>) -> crate::verdict::Example {
    let Next { aborted, then, value } = next;
    let key = index.key_of(value).key;
    for (reader, value) in [(aborted.txn, aborted.first), (aborted.txn, aborted.last), (then, value)] {
        proof.read_by(reader, value);
        proof.placed(value, index.place[value as usize]);
    }
    // What an advance or a skip is measured by.
    let last = index.place[aborted.last as usize];
    if index.place[value as usize] > last + 1 {
        proof.placed(index.order[last as usize + 1], last + 1);
    }
    let read = if aborted.first == aborted.last {
        index.tell_placed(aborted.first)
    } else {
        format!("{} to {}", index.tell_placed(aborted.first), index.tell_placed(aborted.last))
    };
    let story = format!(
        "op {} of process {} read key {key} {read} and was aborted; the next that the process read of the key, in op {}, \
         is {}{}",
        index.op_index(aborted.txn),
        index.txn_op(then).process(),
        index.op_index(then),
        index.tell_placed(value),
        if aborted.rebalanced {
            "; the key was rebalanced meanwhile"
        } else {
            "; the key was not rebalanced"
        },
    );
    proof.example(Some(key), story)
}
