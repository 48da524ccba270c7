//! Duplicates: one value at several offsets of its key.
//!
//! ```text
//! s5=17@12  p5:12=17,13=17
//! ```
//!
//! Values are sent at most once, so the system (or the client library's retry) stored it twice.

use crate::found::Found;
use crate::index::{Index, Sight, ValueId};
use crate::options::Options;
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "duplicate",
    doc: "a value stands at one offset of its key",
    anomalies: &[DUPLICATE],
    run,
};

const DUPLICATE: AnomalyInfo = AnomalyInfo {
    name: "duplicate",
    meaning: "one value stands at several offsets of its key",
    source: "jepsen.tests.kafka, duplicate",
    severity: Severity::Data,
    // A producer that is not idempotent stores a record again when it retries.
    allowed: |options| !options.jepsen() && !options.idempotent,
};

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    let mut found = Found::new(options);
    for places in index.repeats.chunk_by(|(a, _), (b, _)| a == b) {
        found.add(places.len() as u64, places);
    }
    let told = found.tell(&DUPLICATE, options, index, |places: &[(ValueId, u32)], mut proof| {
        /// Enough to see the pattern.
        const MAX_TOLD: usize = 4;
        let value = places[0].0;
        let key = index.key_of(value).key;
        let mut sights = Vec::new();
        for (_, place) in places.iter().take(MAX_TOLD) {
            proof.placed(value, *place);
            let offset = index.order_offset[*place as usize];
            sights.push(match index.who_saw(value, offset) {
                Some(Sight::Sent(txn)) => format!("offset {offset} (sent by op {})", index.op_index(txn)),
                Some(Sight::Read(txn)) => format!("offset {offset} (read by op {})", index.op_index(txn)),
                None => format!("offset {offset}"),
            });
        }
        let more = if places.len() > MAX_TOLD { ", ..." } else { "" };
        let story = format!(
            "key {key} value {} stands at {} offsets: {}{more}",
            index.value(value),
            places.len(),
            sights.join(", ")
        );
        proof.example(Some(key), story)
    });
    told.into_iter().collect()
}
