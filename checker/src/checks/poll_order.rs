//! Skips and steps back while polling: a consumer reads a key's version order without leaving anything out.
//!
//! ```text
//! p5:10=15,12=17              int-poll-skip, if somebody knows of 5:11=16
//! p5:11=16,10=15              int-nonmonotonic-poll
//! p5:10=15  p5:12=17          poll-skip, if somebody knows of 5:11=16
//! p5:11=16  p5:10=15          nonmonotonic-poll
//! ```
//!
//! *Within* one op, all its polls count as one. *Between* ops, the last thing that an `ok` op of the process read of the
//! key is compared with the first thing that its next op reads of it. A key that an `assign` or `subscribe` leaves out
//! is forgotten, and all are by an assign that goes back to the beginning (Jepsen reports a nonmonotonic poll there).
//! What a transaction read that was aborted is forgotten too: see `abort_position.rs`.
//! Keys in the op's rebalance log are not judged within it. A value that has no place, or whose offset another value
//! claims, says nothing about order.

use crate::found::Found;
use crate::index::{Index, IntMap, NONE, TxnId, ValueId};
use crate::options::{Options, Via};
use crate::parallel;
use crate::proof::Proof;
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};
use riprap_core::op::{F, Kind, Process};

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "poll-order",
    doc: "a consumer reads each key in the log's order, leaving nothing out",
    anomalies: &[INT_NONMONOTONIC_POLL, INT_POLL_SKIP, NONMONOTONIC_POLL, POLL_SKIP],
    run,
};

const INT_NONMONOTONIC_POLL: AnomalyInfo = AnomalyInfo {
    name: "int-nonmonotonic-poll",
    meaning: "one op read a key's records out of order, or one of them twice",
    source: "jepsen.tests.kafka, int-nonmonotonic-poll",
    severity: Severity::Order,
    allowed: |_| false,
};

const INT_POLL_SKIP: AnomalyInfo = AnomalyInfo {
    name: "int-poll-skip",
    meaning: "one op read two records of a key and left out what stands between them",
    source: "jepsen.tests.kafka, int-poll-skip",
    severity: Severity::Order,
    allowed: |_| false,
};

const NONMONOTONIC_POLL: AnomalyInfo = AnomalyInfo {
    name: "nonmonotonic-poll",
    meaning: "a consumer's poll went back to, or before, what its last poll had read",
    source: "jepsen.tests.kafka, nonmonotonic-poll",
    severity: Severity::Order,
    allowed: |options| options.via == Via::Subscribe,
};

const POLL_SKIP: AnomalyInfo = AnomalyInfo {
    name: "poll-skip",
    meaning: "a consumer's poll left out what stands after what its last poll had read",
    source: "jepsen.tests.kafka, poll-skip",
    severity: Severity::Order,
    allowed: |options| options.via == Via::Subscribe,
};

/// Two reads that do not follow each other: who read what before, who read what then.
#[derive(Clone, Copy)]
struct Step {
    before: TxnId,
    from: ValueId,
    then: TxnId,
    to: ValueId,
}

/// The steps that are too long, and those that go back.
struct Steps {
    skips: Found<Step>,
    backs: Found<Step>,
}

impl Steps {
    fn new(options: &Options) -> Steps {
        Steps { skips: Found::new(options), backs: Found::new(options) }
    }

    fn append(&mut self, other: Steps) {
        self.skips.append(other.skips);
        self.backs.append(other.backs);
    }

    #[inline]
    fn judge(&mut self, index: &Index<'_>, step: Step) {
        let (from, to) = (index.place[step.from as usize], index.place[step.to as usize]);
        if from == NONE || to == NONE || to == from.wrapping_add(1) {
            return;
        }
        if to > from {
            self.skips.add(u64::from(to - from), step);
        } else {
            self.backs.add(u64::from(from - to), step);
        }
    }
}

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    let mut within = Steps::new(options);
    for steps in parallel::pieces(index.txns.len(), |piece| within_ops(index, options, piece)) {
        within.append(steps);
    }
    let between = between_ops(index, options);
    [
        within.backs.tell(&INT_NONMONOTONIC_POLL, options, index, |step, proof| tell(index, step, proof)),
        within.skips.tell(&INT_POLL_SKIP, options, index, |step, proof| tell(index, step, proof)),
        between.backs.tell(&NONMONOTONIC_POLL, options, index, |step, proof| tell(index, step, proof)),
        between.skips.tell(&POLL_SKIP, options, index, |step, proof| tell(index, step, proof)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn within_ops(index: &Index<'_>, options: &Options, piece: std::ops::Range<usize>) -> Steps {
    let mut steps = Steps::new(options);
    // By key: the op that last read it, and the last value that it read.
    let mut last: Vec<(TxnId, ValueId)> = vec![(NONE, NONE); index.keys.len()];
    for txn in piece.start as TxnId..piece.end as TxnId {
        let rebalance = index.txn_op(txn).rebalance();
        for (id, _, values) in index.reads(txn) {
            let key = &index.keys[id as usize];
            if rebalance.iter().any(|entry| entry.keys.contains(&key.key)) {
                continue;
            }
            let (reader, mut from) = last[id as usize];
            if reader != txn {
                from = NONE;
            }
            for value in values {
                let to = index.value_id(key, *value);
                if from != NONE {
                    steps.judge(index, Step { before: txn, from, then: txn, to });
                }
                from = to;
            }
            last[id as usize] = (txn, from);
        }
    }
    steps
}

fn between_ops(index: &Index<'_>, options: &Options) -> Steps {
    let mut steps = Steps::new(options);
    // By process, and by key: the last op that read it, and the last value that it read.
    let mut positions = IntMap::<u32, IntMap<u32, (TxnId, ValueId)>>::default();
    let mut txns = index.completions();
    let mut ends = Vec::new();
    for op in index.history.ops() {
        let Process::Client(process) = op.process() else { continue };
        if op.kind() == Kind::Invoke {
            continue;
        }
        match op.f() {
            F::Assign | F::Subscribe if op.kind() != Kind::Fail => {
                let Some(position) = positions.get_mut(&process) else { continue };
                if op.extra().is_some_and(|extra| extra.from_beginning)
                    || op.partner().and_then(|op| op.extra()).is_some_and(|extra| extra.from_beginning)
                {
                    position.clear();
                    continue;
                }
                let mut keys = op.keys().to_vec();
                keys.sort_unstable();
                position.retain(|key, _| keys.binary_search(&index.keys[*key as usize].key).is_ok());
            }
            F::Send | F::Poll | F::Txn => {
                let txn = txns.next().expect("every completion of a transaction is one");
                let ok = op.kind() == Kind::Ok;
                index.ends_of_reads(txn, &mut ends);
                if ends.is_empty() {
                    continue;
                }
                let position = positions.entry(process).or_default();
                let aborted = !options.jepsen() && op.was_aborted();
                for (id, first, last) in &ends {
                    if let Some((before, from)) = position.get(id).copied() {
                        steps.judge(index, Step { before, from, then: txn, to: *first });
                    }
                    if ok {
                        position.insert(*id, (txn, *last));
                    } else if aborted {
                        position.remove(id);
                    }
                }
            }
            _ => {}
        }
    }
    steps
}

fn tell(index: &Index<'_>, step: Step, mut proof: Proof<'_, '_>) -> crate::verdict::Example {
    let Step { before, from, then, to } = step;
    let key = index.key_of(from).key;
    let (at, place) = (index.place[from as usize], index.place[to as usize]);
    proof.placed(from, at);
    proof.placed(to, place);
    proof.read_by(before, from);
    proof.read_by(then, to);
    let then_op = index.op_index(then);
    let process = index.txn_op(then).process();
    let first = if before == then {
        format!("op {then_op} read key {key} {} and then {}", index.tell_place(at), index.tell_place(place))
    } else {
        format!(
            "op {then_op} of process {process} read key {key} {}, after the process' op {} had read it up to {}",
            index.tell_place(place),
            index.op_index(before),
            index.tell_place(at)
        )
    };
    let story = if place > at {
        let skipped = at + 1;
        proof.placed(index.order[skipped as usize], skipped);
        match place - at - 1 {
            1 => format!("{first}: it skipped {}", index.tell_place(skipped)),
            count => {
                format!(
                    "{first}: it skipped {count} records, the first of them {}",
                    index.tell_place(skipped)
                )
            }
        }
    } else if place == at {
        format!("{first}: it read the same record again")
    } else {
        format!("{first}: it went back by {}", at - place)
    };
    proof.example(Some(key), story)
}
