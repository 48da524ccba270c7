//! The least that still shows an anomaly: what a check collected as proof is judged again, and ops are left out as long
//! as the same anomaly is seen and no other kind comes to it.
//!
//! Leaving out a send can make a lost write a phantom read: such a history would show the anomaly by another reason than
//! the story's, which is why no kind may come to it.

use crate::index::Index;
use crate::options::{Examples, Options};
use crate::registry;
use crate::verdict::{Example, Verdict};
use riprap_core::History;
use riprap_core::history::read_jsonl;
use riprap_core::op::Op;
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// Ops that are tried one by one: a proof of more, such as a long cycle, is judged once as it is.
const MAX_TRIED: usize = 24;

/// Cuts an example's history down, or drops it where it does not show the anomaly: in a log that contradicts itself, a
/// part may not be what it was in the whole.
pub(crate) fn minimize(name: &str, example: &mut Example, options: &Options) {
    if example.history.is_empty() {
        return;
    }
    let options = Options { examples: Examples::None, vacuity: false, ..options.clone() };
    let history = parse(&example.history);
    let found = kinds(&history, &options);
    if !found.contains(name) {
        example.history.clear();
        return;
    }
    // Of each op, the lines of its two rows; by the first of them.
    let mut ops: Vec<Vec<usize>> = Vec::new();
    for op in history.ops() {
        match op.partner().filter(|partner| partner.row() < op.row()) {
            Some(begin) => {
                let at = ops.binary_search_by_key(&begin.row(), |rows| rows[0]).expect("it was begun");
                ops[at].push(op.row());
            }
            None => ops.push(vec![op.row()]),
        }
    }
    if ops.len() > MAX_TRIED {
        return;
    }
    let mut left_out = true;
    while left_out {
        left_out = false;
        for n in (0..ops.len()).rev() {
            let without = ops.iter().enumerate().filter(|(other, _)| *other != n);
            let mut rows: Vec<usize> = without.flat_map(|(_, rows)| rows).copied().collect();
            rows.sort_unstable();
            let rest: History =
                rows.iter().map(|row| history.op(*row).to_op()).collect::<Vec<Op>>().into_iter().collect();
            let kinds = kinds(&rest, &options);
            if kinds.contains(name) && kinds.is_subset(&found) {
                ops.remove(n);
                left_out = true;
            }
        }
    }
    let mut rows: Vec<usize> = ops.into_iter().flatten().collect();
    rows.sort_unstable();
    example.history = rows.into_iter().map(|row| example.history[row].clone()).collect();
}

fn parse(lines: &[Json]) -> History {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    read_jsonl(text.as_bytes()).expect("a proof's lines are ops").0
}

/// The names of all anomalies of a history.
fn kinds(history: &History, options: &Options) -> BTreeSet<String> {
    let Verdict { anomalies, .. } = crate::judge(&Index::new(history), options, registry::ALL);
    anomalies.into_keys().collect()
}
