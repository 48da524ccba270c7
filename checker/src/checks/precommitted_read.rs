//! Precommitted reads: a transaction that read what it had itself sent.
//!
//! ```text
//! (s5=17@12 p5:12=17)
//! ```
//!
//! With read_committed a record cannot be read before its transaction has committed, by anybody.

use crate::found::Found;
use crate::index::{Index, TxnId};
use crate::options::Options;
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};
use riprap_core::F;

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "precommitted-read",
    doc: "a transaction does not read what it has itself sent",
    anomalies: &[PRECOMMITTED_READ],
    run,
};

const PRECOMMITTED_READ: AnomalyInfo = AnomalyInfo {
    name: "precommitted-read",
    meaning: "a transaction read a value that it had itself sent, before it was committed",
    source: "jepsen.tests.kafka, precommitted-read",
    severity: Severity::Isolation,
    allowed: |options| !options.jepsen() && !options.committed_only(),
};

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    let mut found = Found::new(options);
    for txn in 0..index.txns.len() as TxnId {
        if *index.txn_op(txn).f() != F::Txn {
            continue;
        }
        let own = index
            .reads(txn)
            .flat_map(|(key, _, values)| {
                let key = &index.keys[key as usize];
                values.iter().map(move |value| index.value_id(key, *value))
            })
            .find(|value| index.writer[*value as usize] == txn);
        if let Some(value) = own {
            found.add(0, (txn, value));
        }
    }
    let told = found.tell(&PRECOMMITTED_READ, options, index, |(txn, value), mut proof| {
        let key = index.key_of(value).key;
        proof.sent_by(txn, value);
        proof.read_by(txn, value);
        let story = format!(
            "op {} read key {key} {}, which it had itself sent and not yet committed",
            index.op_index(txn),
            index.tell_placed(value)
        );
        proof.example(Some(key), story)
    });
    told.into_iter().collect()
}
