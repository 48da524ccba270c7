//! Unseen records: acknowledged, and by the end of the run nobody has read them.
//!
//! ```text
//! s5=17@12  s5=18@13  p5:12=17      18 is unseen
//! ```
//!
//! This says something only if every key was read to its end at the end of the run. Jepsen counts the values of a key
//! that nobody was acknowledged for as unseen if the key is first polled by the last `ok` op; here they are not.

use crate::found::Found;
use crate::index::{Index, ValueId, seen};
use crate::options::Options;
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "unseen",
    doc: "acknowledged records have been read by the end of the run",
    anomalies: &[UNSEEN],
    run,
};

const UNSEEN: AnomalyInfo = AnomalyInfo {
    name: "unseen",
    meaning: "an acknowledged record was read by nobody by the end of the run",
    source: "jepsen.tests.kafka, unseen",
    severity: Severity::Data,
    allowed: |options| !options.jepsen() && (!options.acks_all || !options.drained),
};

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    let mut found = Found::new(options);
    for value in 0..index.writer.len() as ValueId {
        if index.seen[value as usize] & seen::SENT_OK != 0 && !index.is_read(value) {
            found.add(0, value);
        }
    }
    let told = found.tell(&UNSEEN, options, index, |value, mut proof| {
        let key = index.key_of(value);
        proof.sent(value);
        let story =
            format!("key {} {} was read by nobody by the end of the run", key.key, index.tell_value(value));
        proof.example(Some(key.key), story)
    });
    told.into_iter().collect()
}
