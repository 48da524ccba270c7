//! Inconsistent offsets: one offset of a key that holds several values.
//!
//! ```text
//! s5=17@12  p5:12=18
//! ```
//!
//! Two replicas disagree, or the log was cut and written again after somebody had seen it.

use crate::found::Found;
use crate::index::{Index, Sight, ValueId};
use crate::options::Options;
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "inconsistent-offsets",
    doc: "an offset holds one value, whoever looks",
    anomalies: &[INCONSISTENT_OFFSETS],
    run,
};

const INCONSISTENT_OFFSETS: AnomalyInfo = AnomalyInfo {
    name: "inconsistent-offsets",
    meaning: "one offset of a key was seen with several values",
    source: "jepsen.tests.kafka, inconsistent-offsets",
    severity: Severity::Data,
    // What a lone leader acknowledged and lost with its disk is overwritten by the next one.
    allowed: |options| !options.jepsen() && !options.acks_all,
};

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    let mut found = Found::new(options);
    for values in index.conflicts.chunk_by(|(a, _), (b, _)| a == b) {
        found.add(values.len() as u64, values);
    }
    let told = found.tell(&INCONSISTENT_OFFSETS, options, index, |values: &[(u32, ValueId)], mut proof| {
        /// Enough to see the pattern.
        const MAX_TOLD: usize = 4;
        let place = values[0].0;
        let offset = index.order_offset[place as usize];
        let key = index.key_of(values[0].1).key;
        let mut sights = Vec::new();
        for (_, value) in values.iter().take(MAX_TOLD) {
            proof.placed(*value, place);
            let number = index.value(*value);
            sights.push(match index.who_saw(*value, offset) {
                Some(Sight::Sent(txn)) => format!("value {number} (sent by op {})", index.op_index(txn)),
                Some(Sight::Read(txn)) => format!("value {number} (read by op {})", index.op_index(txn)),
                None => format!("value {number}"),
            });
        }
        let more = if values.len() > MAX_TOLD { ", ..." } else { "" };
        let story = format!(
            "key {key} offset {offset} was seen with {} values: {}{more}",
            values.len(),
            sights.join(", ")
        );
        proof.example(Some(key), story)
    });
    told.into_iter().collect()
}
