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
//!
//! A group may move a consumer whenever it shares out its keys anew, so where consumers subscribe a step between ops is
//! allowed; but not one of a consumer that held the key all the while (*-held*): because it had assigned it by itself, or
//! because its ops tell (`rebalance`) that the group gave it the key, and not that the group took it or gave it again.
//! Where ops tell nothing of rebalances, any may have happened.
//!
//! Keys in the op's rebalance log are not judged within it. A value that has no place, or whose offset another value
//! claims, says nothing about order.

use super::holding::Holding;
use crate::found::Found;
use crate::index::{Index, IntMap, NONE, TxnId, ValueId};
use crate::options::{Options, Via};
use crate::parallel;
use crate::proof::Proof;
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};
use riprap_core::history::OpRef;
use riprap_core::op::{F, Kind, Process};

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "poll-order",
    doc: "a consumer reads each key in the log's order, leaving nothing out",
    anomalies: &[
        INT_NONMONOTONIC_POLL,
        INT_POLL_SKIP,
        NONMONOTONIC_POLL,
        NONMONOTONIC_POLL_HELD,
        POLL_SKIP,
        POLL_SKIP_HELD,
    ],
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

const NONMONOTONIC_POLL_HELD: AnomalyInfo = AnomalyInfo {
    name: "nonmonotonic-poll-held",
    meaning: "a consumer's poll went back in a key that it had held all the while, though others subscribe",
    source: "Kafka's documentation of consumer groups; jepsen.tests.kafka, nonmonotonic-poll",
    severity: Severity::Order,
    allowed: |_| false,
};

const POLL_SKIP: AnomalyInfo = AnomalyInfo {
    name: "poll-skip",
    meaning: "a consumer's poll left out what stands after what its last poll had read",
    source: "jepsen.tests.kafka, poll-skip",
    severity: Severity::Order,
    allowed: |options| options.via == Via::Subscribe,
};

const POLL_SKIP_HELD: AnomalyInfo = AnomalyInfo {
    name: "poll-skip-held",
    meaning: "a consumer's poll left records out of a key that it had held all the while, though others subscribe",
    source: "Kafka's documentation of consumer groups; jepsen.tests.kafka, poll-skip",
    severity: Severity::Order,
    allowed: |_| false,
};

/// Two reads that do not follow each other: who read what before, who read what then.
#[derive(Clone, Copy)]
struct Step {
    before: TxnId,
    from: ValueId,
    then: TxnId,
    to: ValueId,
    /// The row of the op that tells that the consumer held the key.
    told: Option<u32>,
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
    let (moved, held) = between_ops(index, options);
    [
        (&INT_NONMONOTONIC_POLL, within.backs),
        (&INT_POLL_SKIP, within.skips),
        (&NONMONOTONIC_POLL, moved.backs),
        (&NONMONOTONIC_POLL_HELD, held.backs),
        (&POLL_SKIP, moved.skips),
        (&POLL_SKIP_HELD, held.skips),
    ]
    .into_iter()
    .filter_map(|(info, steps)| steps.tell(info, options, index, |step, proof| tell(index, step, proof)))
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
                    steps.judge(index, Step { before: txn, from, then: txn, to, told: None });
                }
                from = to;
            }
            last[id as usize] = (txn, from);
        }
    }
    steps
}

/// Where a process stands in a key.
#[derive(Clone, Copy)]
struct Position {
    /// The last op that read it, and the last value that it read.
    txn: TxnId,
    value: ValueId,
    /// Whether the process has certainly held the key since.
    is_held: bool,
    /// The row that tells so: an assign, or an op whose `rebalance` gave the key.
    told: u32,
}

/// A consumer between its ops.
#[derive(Default)]
struct Consumer {
    positions: IntMap<u32, Position>,
    holding: Holding,
}

impl Consumer {
    /// It takes other keys: those that it leaves out are forgotten.
    fn take(&mut self, index: &Index<'_>, op: OpRef<'_>, group: bool) {
        let from_beginning = |op: OpRef<'_>| op.extra().is_some_and(|extra| extra.from_beginning);
        if from_beginning(op) || op.partner().is_some_and(from_beginning) {
            self.positions.clear();
        } else {
            let mut keys = op.keys().to_vec();
            keys.sort_unstable();
            self.positions.retain(|key, _| keys.binary_search(&index.keys[*key as usize].key).is_ok());
        }
        let by_itself = *op.f() == F::Assign && op.kind() == Kind::Ok;
        if group && !(by_itself && self.holding.is_assigned()) {
            self.positions.values_mut().for_each(|position| position.is_held = false);
        }
        if group {
            self.holding.take(op);
        }
    }

    /// The group gave or took keys during an op.
    fn rebalance(&mut self, index: &Index<'_>, op: OpRef<'_>) {
        self.holding.rebalance(op);
        for key in op.rebalance().iter().flat_map(|entry| &entry.keys) {
            if let Some(position) = index.find_key(*key).and_then(|key| self.positions.get_mut(&key)) {
                position.is_held = false;
            }
        }
    }
}

/// The steps from op to op: those of consumers that may have been moved, and, where some subscribe, of those that were not.
fn between_ops(index: &Index<'_>, options: &Options) -> (Steps, Steps) {
    let (mut moved, mut held) = (Steps::new(options), Steps::new(options));
    let group = options.via == Via::Subscribe && !options.jepsen();
    let mut consumers = IntMap::<u32, Consumer>::default();
    let mut txns = index.completions();
    let mut ends = Vec::new();
    for op in index.history.ops() {
        let Process::Client(process) = op.process() else { continue };
        if op.kind() == Kind::Invoke {
            continue;
        }
        let is_txn = matches!(op.f(), F::Send | F::Poll | F::Txn);
        let txn = is_txn.then(|| txns.next().expect("every completion of a transaction is one"));
        if group && !op.rebalance().is_empty() {
            consumers.entry(process).or_default().rebalance(index, op);
        }
        if op.f().has_keys() && op.kind() != Kind::Fail {
            // What a consumer holds matters only in a group; otherwise only who has read has a position.
            if group || consumers.contains_key(&process) {
                consumers.entry(process).or_default().take(index, op, group);
            }
            continue;
        }
        let Some(txn) = txn else { continue };
        index.ends_of_reads(txn, &mut ends);
        if ends.is_empty() {
            continue;
        }
        let consumer = consumers.entry(process).or_default();
        let aborted = !options.jepsen() && op.was_aborted();
        for (id, first, last) in &ends {
            if let Some(Position { txn: before, value: from, is_held, told }) =
                consumer.positions.get(id).copied()
            {
                let steps = if group && is_held { &mut held } else { &mut moved };
                steps.judge(
                    index,
                    Step { before, from, then: txn, to: *first, told: is_held.then_some(told) },
                );
            }
            if op.kind() == Kind::Ok {
                let key = index.keys[*id as usize].key;
                let told = if group { consumer.holding.holds(key.0) } else { None };
                let is_rebalanced = || op.rebalance().iter().any(|entry| entry.keys.contains(&key));
                let is_held = told.is_some() && !is_rebalanced();
                let position = Position { txn, value: *last, is_held, told: told.unwrap_or(NONE) };
                consumer.positions.insert(*id, position);
            } else if aborted {
                consumer.positions.remove(id);
            }
        }
    }
    (moved, held)
}

fn tell(index: &Index<'_>, step: Step, mut proof: Proof<'_, '_>) -> crate::verdict::Example {
    let Step { before, from, then, to, told } = step;
    let key = index.key_of(from).key;
    let (at, place) = (index.place[from as usize], index.place[to as usize]);
    proof.placed(from, at);
    proof.placed(to, place);
    proof.read_by(before, from);
    proof.read_by(then, to);
    if let Some(told) = told {
        proof.done(index.history.op(told as usize));
    }
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
