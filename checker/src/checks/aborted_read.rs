//! G1a, aborted reads: an `ok` poll returned a value whose send failed.
//!
//! ```text
//! !s5=17  p5:12=17
//! ```
//!
//! A send is `fail` only where it certainly did not and never will take effect, so nobody may see its value. With
//! read_uncommitted, consumers are shown the records of aborted transactions too.

use crate::found::Found;
use crate::index::{Index, TxnId, ValueId, seen};
use crate::options::Options;
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};
use riprap_core::Kind;

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "aborted-read",
    doc: "nobody reads what was certainly not sent",
    anomalies: &[G1A],
    run,
};

const G1A: AnomalyInfo = AnomalyInfo {
    name: "G1a",
    meaning: "an op read a value whose send failed",
    source: "Adya, Liskov, O'Neil: Generalized Isolation Level Definitions, 2000; jepsen.tests.kafka, G1a",
    severity: Severity::Isolation,
    allowed: |options| !options.jepsen() && !options.committed_only(),
};

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    let mut found = Found::new(options);
    let is_aborted = |value: ValueId| index.seen[value as usize] & seen::SENT_FAIL != 0;
    // Mostly there is none, and nothing more to look at.
    if !(0..index.seen.len() as ValueId).any(|value| is_aborted(value) && index.is_read(value)) {
        return Vec::new();
    }
    for txn in 0..index.txns.len() as TxnId {
        if index.txns[txn as usize].kind != Kind::Ok {
            continue;
        }
        for (key, _, values) in index.reads(txn) {
            for value in values {
                let value = index.value_id(&index.keys[key as usize], *value);
                if is_aborted(value) {
                    found.add(0, (txn, value));
                }
            }
        }
    }
    let told = found.tell(&G1A, options, index, |(reader, value), mut proof| {
        let key = index.key_of(value).key;
        let writer = index.writer[value as usize];
        proof.sent(value);
        proof.read_by(reader, value);
        let story = format!(
            "op {} read key {key} {}, though op {} failed: its records must never be seen",
            index.op_index(reader),
            index.tell_placed(value),
            index.op_index(writer),
        );
        proof.example(Some(key), story)
    });
    told.into_iter().collect()
}
