//! Phantom reads, a value that nobody sent; misrouted records, a value under a key that it was not sent to.
//!
//! ```text
//! s5=17@12  p5:13=99            phantom-read
//! s5=17@12  p6:0=17             misrouted: 17 was sent to key 5 alone
//! ```
//!
//! Values are unique within their key only, so that what is told of a misrouted one, which keys its value was sent to, is a
//! hint: it may as well be a record that came from nowhere. Jepsen's checker throws on such histories.

use crate::found::Found;
use crate::index::{Index, IntMap, NONE, ValueId, seen};
use crate::options::Options;
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};
use riprap_core::Key;

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "phantom-read",
    doc: "what is read was sent, and to that key",
    anomalies: &[MISROUTED, PHANTOM_READ],
    run,
};

const MISROUTED: AnomalyInfo = AnomalyInfo {
    name: "misrouted",
    meaning: "a value was read under a key that it was never sent to, but other keys were sent it",
    source: "riprap; jepsen.tests.kafka throws no-writer-of-value",
    severity: Severity::Data,
    allowed: |_| false,
};

const PHANTOM_READ: AnomalyInfo = AnomalyInfo {
    name: "phantom-read",
    meaning: "a value was read that nobody sent, to whatever key",
    source: "riprap; jepsen.tests.kafka throws no-writer-of-value",
    severity: Severity::Data,
    allowed: |_| false,
};

/// Keys that a story names: more are no hint at where the record came from.
const MAX_TOLD: usize = 4;

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    let is_phantom = |value: &ValueId| {
        let read = index.is_read(*value) || index.seen[*value as usize] & seen::READ_OTHERWISE != 0;
        read && index.writer[*value as usize] == NONE
    };
    let phantoms: Vec<ValueId> = (0..index.writer.len() as ValueId).filter(is_phantom).collect();
    if phantoms.is_empty() {
        return Vec::new();
    }
    // By value of a phantom: who was sent that value elsewhere, one for each key.
    let mut elsewhere: IntMap<i64, Vec<ValueId>> =
        phantoms.iter().map(|value| (index.value(*value).0, Vec::new())).collect();
    for key in &index.keys {
        for value in key.value_ids.clone().filter(|value| index.writer[*value as usize] != NONE) {
            if let Some(sent) = elsewhere.get_mut(&index.value(value).0) {
                sent.push(value);
            }
        }
    }
    let (mut misrouted, mut phantom) = (Found::new(options), Found::new(options));
    for value in phantoms {
        let found = if elsewhere[&index.value(value).0].is_empty() { &mut phantom } else { &mut misrouted };
        found.add(0, value);
    }
    let read = |value: ValueId| -> (Key, String) {
        let key = index.key_of(value).key;
        let reader = index.who_read(value).expect("only what was read is a phantom");
        let at = match index.first_place[value as usize] {
            NONE => String::new(),
            place => format!(" at offset {}", index.order_offset[place as usize]),
        };
        (key, format!("op {} read key {key} value {}{at}", index.op_index(reader), index.value(value)))
    };
    let misrouted = misrouted.tell(&MISROUTED, options, index, |value, mut proof| {
        let sent = &elsewhere[&index.value(value).0];
        let mut others: Vec<String> = Vec::new();
        for other in sent.iter().take(MAX_TOLD) {
            proof.sent(*other);
            let writer = index.op_index(index.writer[*other as usize]);
            others.push(format!("key {} (op {writer})", index.key_of(*other).key));
        }
        let more = if sent.len() > MAX_TOLD { ", ..." } else { "" };
        proof.read_by(index.who_read(value).expect("only what was read is misrouted"), value);
        let (key, read) = read(value);
        let story = format!("{read}, which was never sent to key {key} but to {}{more}", others.join(", "));
        proof.example(Some(key), story)
    });
    let phantom = phantom.tell(&PHANTOM_READ, options, index, |value, mut proof| {
        proof.read_by(index.who_read(value).expect("only what was read is a phantom"), value);
        let (key, read) = read(value);
        proof.example(Some(key), format!("{read}, but nobody sent that value"))
    });
    misrouted.into_iter().chain(phantom).collect()
}
