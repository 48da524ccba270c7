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
//! its own free will leads nowhere else, so the other is forbidden like any skip, unless a group may move the consumer. It
//! may not if the consumer certainly held the key all the while (*-held*; `holding.rs`).
//!
//! `poll_order.rs` does not compare what is read behind an abort with what was read before it.

use super::holding::Holding;
use crate::found::Found;
use crate::index::{Index, IntMap, NONE, TxnId, ValueId};
use crate::options::{Options, Via};
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};
use riprap_core::history::OpRef;
use riprap_core::op::{F, Kind, Process};

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "abort-position",
    doc: "where a consumer goes on after its transaction was aborted",
    anomalies: &[ABORT_ADVANCE, ABORT_OTHER, ABORT_OTHER_HELD, ABORT_REWIND, ABORT_REWIND_FURTHER],
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
const ABORT_OTHER_HELD: AnomalyInfo = AnomalyInfo {
    severity: Severity::Order,
    ..info(
        "abort-other-held",
        "after an abort a consumer went on where nothing can have sent it, in a key that it had held all the while, though \
         others subscribe",
        |_| false,
    )
};

/// What an aborted transaction read of a key.
#[derive(Clone, Copy)]
struct Aborted {
    txn: TxnId,
    first: ValueId,
    last: ValueId,
    /// Its consumer is a member of a group.
    in_group: bool,
    /// The row that tells that the consumer certainly held the key.
    told: Option<u32>,
    /// The key was rebalanced since.
    rebalanced: bool,
}

/// An aborted transaction, who read next, and what.
#[derive(Clone, Copy)]
pub(crate) struct Next {
    aborted: Aborted,
    then: TxnId,
    value: ValueId,
}

/// How a consumer held a key from an abort to its next read.
pub(crate) enum How {
    /// It had taken it by itself.
    Assigned,
    /// Its group had given it, and no op tells that it was rebalanced.
    Kept,
    Rebalanced,
}

impl Next {
    pub(crate) fn how(&self) -> How {
        match (self.aborted.rebalanced, self.aborted.in_group) {
            (true, _) => How::Rebalanced,
            (false, true) => How::Kept,
            (false, false) => How::Assigned,
        }
    }

    /// The row that tells that the consumer certainly held the key all the while.
    fn held(&self) -> Option<u32> {
        self.aborted.told.filter(|_| !self.aborted.rebalanced)
    }
}

/// Where a consumer went on.
#[derive(Clone, Copy)]
pub(crate) enum Where {
    Advance,
    Other,
    Rewind,
    RewindFurther,
}

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    if options.jepsen() {
        return Vec::new();
    }
    let group = options.via == Via::Subscribe;
    let found = || Found::<Next>::new(options);
    let (mut advance, mut other, mut other_held, mut rewind, mut further) =
        (found(), found(), found(), found(), found());
    each(index, |next, place| {
        let found = match place {
            Where::Advance => &mut advance,
            Where::Other if group && next.held().is_some() => &mut other_held,
            Where::Other => &mut other,
            Where::Rewind => &mut rewind,
            Where::RewindFurther => &mut further,
        };
        found.add(0, next);
    });
    [
        (&ABORT_ADVANCE, advance),
        (&ABORT_OTHER, other),
        (&ABORT_OTHER_HELD, other_held),
        (&ABORT_REWIND, rewind),
        (&ABORT_REWIND_FURTHER, further),
    ]
    .into_iter()
    .filter_map(|(info, found)| {
        let is_held = info.name == ABORT_OTHER_HELD.name;
        found.tell(info, options, index, |next, proof| tell(index, next, is_held, proof))
    })
    .collect()
}

/// A consumer between its ops.
#[derive(Default)]
struct Consumer {
    holding: Holding,
    in_group: bool,
    /// By key: what its last aborted transaction read, until it reads on.
    open: IntMap<u32, Aborted>,
}

impl Consumer {
    fn rebalance(&mut self, index: &Index<'_>, op: OpRef<'_>) {
        self.holding.rebalance(op);
        for key in op.rebalance().iter().flat_map(|entry| &entry.keys) {
            if let Some(aborted) = index.find_key(*key).and_then(|key| self.open.get_mut(&key)) {
                aborted.rebalanced = true;
            }
        }
    }

    fn take(&mut self, op: OpRef<'_>) {
        self.holding.take(op);
        self.in_group = *op.f() == F::Subscribe;
        self.open.clear();
    }
}

/// Tells of each key that an aborted transaction read and that its process read on, where that was. Returns how many
/// transactions were aborted that had read something.
pub(crate) fn each(index: &Index<'_>, mut visit: impl FnMut(Next, Where)) -> u64 {
    let mut transactions = 0;
    if !index.history.ops_with_extra().any(|(op, _)| op.was_aborted()) {
        return transactions;
    }
    let mut consumers = IntMap::<u32, Consumer>::default();
    let mut ends = Vec::new();
    for op in index.history.ops() {
        let Process::Client(process) = op.process() else { continue };
        if op.kind() == Kind::Invoke {
            continue;
        }
        if !op.rebalance().is_empty() {
            consumers.entry(process).or_default().rebalance(index, op);
        }
        match op.f() {
            F::Assign | F::Subscribe if op.kind() != Kind::Fail => {
                consumers.entry(process).or_default().take(op);
            }
            F::Send | F::Poll | F::Txn => {
                let was_aborted = op.was_aborted();
                if !was_aborted && consumers.get(&process).is_none_or(|consumer| consumer.open.is_empty()) {
                    continue;
                }
                let txn = index.txn_of(op).expect("a completion of sends and polls is a transaction");
                index.ends_of_reads(txn, &mut ends);
                transactions += u64::from(was_aborted && !ends.is_empty());
                let consumer = consumers.entry(process).or_default();
                for (key, first, last) in &ends {
                    if let Some(aborted) = consumer.open.remove(key) {
                        let next = Next { aborted, then: txn, value: *first };
                        if let Some(place) = judge(index, next) {
                            visit(next, place);
                        }
                    }
                    if was_aborted {
                        let name = index.keys[*key as usize].key;
                        // Within an op nobody knows what came first.
                        let is_rebalanced = op.rebalance().iter().any(|entry| entry.keys.contains(&name));
                        let aborted = Aborted {
                            txn,
                            first: *first,
                            last: *last,
                            in_group: consumer.in_group,
                            told: consumer.holding.holds(name.0).filter(|_| !is_rebalanced),
                            rebalanced: false,
                        };
                        consumer.open.insert(*key, aborted);
                    }
                }
            }
            _ => {}
        }
    }
    transactions
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

fn tell(
    index: &Index<'_>,
    next: Next,
    is_held: bool,
    mut proof: crate::proof::Proof<'_, '_>,
) -> crate::verdict::Example {
    let Next { aborted, then, value } = next;
    if let Some(told) = next.held().filter(|_| is_held) {
        proof.done(index.history.op(told as usize));
    }
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
        match (is_held, aborted.rebalanced) {
            (true, _) => "; it had held the key all the while",
            (false, true) => "; the key was rebalanced meanwhile",
            (false, false) => "; the key was not rebalanced",
        },
    );
    proof.example(Some(key), story)
}
