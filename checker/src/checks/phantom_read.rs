//! Phantom reads: a value that nobody sent to the key it was read from.
//!
//! ```text
//! s5=17@12  p6:0=17
//! ```
//!
//! Jepsen's checker throws on such a history.

use crate::found::Found;
use crate::index::{Index, NONE, ValueId, seen};
use crate::options::Options;
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};

/// The check.
pub(crate) static INFO: CheckerInfo =
    CheckerInfo { name: "phantom-read", doc: "what is read was sent", anomalies: &[PHANTOM_READ], run };

const PHANTOM_READ: AnomalyInfo = AnomalyInfo {
    name: "phantom-read",
    meaning: "a value was read that nobody sent to that key",
    source: "riprap; jepsen.tests.kafka throws no-writer-of-value",
    severity: Severity::Data,
    allowed: |_| false,
};

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    let mut found = Found::new(options);
    for value in 0..index.writer.len() as ValueId {
        let read = index.is_read(value) || index.seen[value as usize] & seen::READ_OTHERWISE != 0;
        if read && index.writer[value as usize] == NONE {
            found.add(0, value);
        }
    }
    let told = found.tell(&PHANTOM_READ, options, index, |value, mut proof| {
        let key = index.key_of(value).key;
        let number = index.value(value);
        let place = index.first_place[value as usize];
        let reader = index.who_read(value).expect("only what was read is a phantom");
        let at = match place {
            NONE => String::new(),
            place => format!(" at offset {}", index.order_offset[place as usize]),
        };
        proof.read_by(reader, value);
        let reader = index.op_index(reader);
        let story =
            format!("op {reader} read key {key} value {number}{at}, but nobody sent {number} to key {key}");
        proof.example(Some(key), story)
    });
    told.into_iter().collect()
}
