//! Skips and steps back while sending: what one producer sends to a key stands in the log in that order.
//!
//! ```text
//! (s5=17@12 s5=18@11)         int-nonmonotonic-send
//! (s5=17@12 s5=18@14)         int-send-skip, if somebody knows of another record at 5:13
//! s5=17@12  s5=18@11          nonmonotonic-send
//! ```
//!
//! *Within* one op every pair of successive sends to a key counts; *between* ops of one process (`ok` or undecided), the
//! last value sent before and the first one sent then. That others' records come in between is what logs are for:
//! int-send-skip is always allowed.

use crate::found::Found;
use crate::index::{Index, IntMap, NONE, TxnId, ValueId};
use crate::options::Options;
use crate::proof::Proof;
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};
use riprap_core::op::{Kind, Process};

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "send-order",
    doc: "a producer's records stand in the log in the order in which they were sent",
    anomalies: &[INT_NONMONOTONIC_SEND, INT_SEND_SKIP, NONMONOTONIC_SEND],
    run,
};

const INT_NONMONOTONIC_SEND: AnomalyInfo = AnomalyInfo {
    name: "int-nonmonotonic-send",
    meaning: "two sends of one op to one key stand in the log in the other order",
    source: "jepsen.tests.kafka, int-nonmonotonic-send",
    severity: Severity::Order,
    allowed: reorders,
};

const INT_SEND_SKIP: AnomalyInfo = AnomalyInfo {
    name: "int-send-skip",
    meaning: "two successive sends of one op to one key have others' records between them",
    source: "jepsen.tests.kafka, int-send-skip",
    severity: Severity::Note,
    allowed: |_| true,
};

const NONMONOTONIC_SEND: AnomalyInfo = AnomalyInfo {
    name: "nonmonotonic-send",
    meaning: "a process' send to a key stands in the log before what it had sent to that key earlier",
    source: "jepsen.tests.kafka, nonmonotonic-send",
    severity: Severity::Order,
    allowed: reorders,
};

/// A producer that is not idempotent lets a retry overtake, or fall behind, what was sent after it.
fn reorders(options: &Options) -> bool {
    !options.jepsen() && !options.idempotent
}

/// Two sends that stand in the log otherwise than one right after the other.
#[derive(Clone, Copy)]
struct Step {
    before: TxnId,
    from: ValueId,
    then: TxnId,
    to: ValueId,
}

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    let mut skips = Found::new(options);
    let mut backs_within = Found::new(options);
    let mut backs_between = Found::new(options);
    // By key: the op that last sent to it, and what.
    let mut within: Vec<(TxnId, ValueId)> = vec![(NONE, NONE); index.keys.len()];
    // By process, and by key: the last op that sent to it, and what.
    let mut sent = IntMap::<u32, IntMap<u32, (TxnId, ValueId)>>::default();
    for txn in 0..index.txns.len() as TxnId {
        let Process::Client(process) = index.txn_op(txn).process() else { continue };
        let kind = index.txns[txn as usize].kind;
        for (key, to, _) in index.sends(txn) {
            let place = index.place[to as usize];
            let (before, from) = within[key as usize];
            within[key as usize] = (txn, to);
            if before == txn {
                let at = index.place[from as usize];
                let step = Step { before, from, then: txn, to };
                if at != NONE && place != NONE && place > at + 1 {
                    skips.add(u64::from(place - at), step);
                } else if at != NONE && place <= at {
                    backs_within.add(u64::from(at - place), step);
                }
            }
            if kind == Kind::Fail {
                continue;
            }
            let last = sent.entry(process).or_default().insert(key, (txn, to));
            if let Some((before, from)) = last
                && before != txn
            {
                let at = index.place[from as usize];
                if at != NONE && place <= at {
                    backs_between.add(u64::from(at - place), Step { before, from, then: txn, to });
                }
            }
        }
    }
    [
        backs_within.tell(&INT_NONMONOTONIC_SEND, options, index, |step, proof| tell(index, step, proof)),
        skips.tell(&INT_SEND_SKIP, options, index, |step, proof| tell(index, step, proof)),
        backs_between.tell(&NONMONOTONIC_SEND, options, index, |step, proof| tell(index, step, proof)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn tell(index: &Index<'_>, step: Step, mut proof: Proof<'_, '_>) -> crate::verdict::Example {
    let Step { before, from, then, to } = step;
    let key = index.key_of(from).key;
    let (at, place) = (index.place[from as usize], index.place[to as usize]);
    for (txn, value, place) in [(before, from, at), (then, to, place)] {
        proof.placed(value, place);
        proof.sent_by(txn, value);
    }
    let (before_op, then_op) = (index.op_index(before), index.op_index(then));
    let first = if before == then {
        format!("op {then_op} sent key {key} {} and then {}", index.tell_place(at), index.tell_place(place))
    } else {
        format!(
            "op {then_op} of process {} sent key {key} {}, after the process' op {before_op} had sent {}",
            index.txn_op(then).process(),
            index.tell_place(place),
            index.tell_place(at)
        )
    };
    let story = if place > at {
        proof.placed(index.order[at as usize + 1], at + 1);
        match place - at - 1 {
            1 => format!("{first}: {} stands between them", index.tell_place(at + 1)),
            count => format!("{first}: {count} records stand between them"),
        }
    } else {
        format!("{first}: the log has them in the other order")
    };
    proof.example(Some(key), story)
}
