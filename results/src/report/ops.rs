//! Ops as a human reads them: `key 5 ← 17@12` is value 17 sent to key 5, where it got offset 12.

use super::html::Html;
use crate::timeline::brief;
use riprap_checker::Example;
use riprap_core::history::read_jsonl;
use riprap_core::op::{Extra, Kind, Mop, Op, OpValue};
use riprap_core::{History, Offset, Value};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Ops shown for one example; the example's own, which prove it, come first.
const MAX_OPS: usize = 60;
/// Records of one poll and key that are shown.
const MAX_RECORDS: usize = 40;

/// The table of an example's ops, those that prove it marked.
pub(super) fn example_ops(example: &Example, history: &History) -> Html {
    let proof: BTreeSet<u64> = example.ops.iter().copied().collect();
    let mut ops: BTreeMap<u64, Op> = BTreeMap::new();
    for op in example.history.iter().filter_map(parse) {
        ops.insert(op.index, op);
    }
    for index in &proof {
        if !ops.contains_key(index)
            && let Some(op) = find(history, *index)
        {
            ops.insert(*index, op);
        }
    }
    let left_out = ops.len().saturating_sub(MAX_OPS);
    if left_out > 0 {
        let mut room = MAX_OPS.saturating_sub(ops.keys().filter(|index| proof.contains(index)).count());
        ops.retain(|index, _| {
            let keep = proof.contains(index) || room > 0;
            room -= usize::from(keep && !proof.contains(index));
            keep
        });
    }
    let mut html = Html::default();
    if ops.is_empty() {
        return html;
    }
    html.raw(
        "<div class=\"scroll\"><table class=\"ops\"><thead><tr><th scope=\"col\"><span class=\"hidden\">proof</span>\
         <th scope=\"col\" class=\"n\">op<th scope=\"col\" class=\"n\">time<th scope=\"col\" class=\"n\">process\
         <th scope=\"col\">type<th scope=\"col\">f<th scope=\"col\">value</thead><tbody>\n",
    );
    for op in ops.values() {
        row(&mut html, op, proof.contains(&op.index));
    }
    html.raw("</tbody></table></div>\n");
    if left_out > 0 {
        html.raw("<p class=\"note\">").text(left_out).raw(" more ops stand in results.json.</p>\n");
    }
    html
}

fn row(html: &mut Html, op: &Op, is_proof: bool) {
    if is_proof {
        html.raw("<tr class=\"proof\"><td><span title=\"this op proves it\">●</span>");
    } else {
        html.raw("<tr><td>");
    }
    html.element("<td class=\"n\">", op.index, "");
    html.element("<td class=\"n\">", seconds(op.time_ns), "");
    html.element("<td class=\"n\">", op.process, "");
    html.raw(match op.kind {
        Kind::Invoke => "<td class=\"invoke\">",
        Kind::Ok => "<td class=\"ok\">",
        Kind::Fail => "<td class=\"fail\">",
        Kind::Info => "<td class=\"info\">",
    });
    html.text(op.kind.name());
    html.element("<td>", op.f.name(), "");
    html.element("<td class=\"value\">", value(op), "\n");
}

/// Seconds with milliseconds: what is needed to find a line in a log.
pub(super) fn seconds(time_ns: i64) -> String {
    format!("{:.3} s", time_ns as f64 / 1e9)
}

fn parse(line: &Json) -> Option<Op> {
    let (history, _) = read_jsonl(line.to_string().as_bytes()).ok()?;
    (history.len() == 1).then(|| history.op(0).to_op())
}

fn find(history: &History, index: u64) -> Option<Op> {
    let row = usize::try_from(index).ok()?;
    // In a history that something was taken from, rows run behind indices.
    let at = (row < history.len()).then(|| history.op(row)).filter(|op| op.index() == index);
    at.or_else(|| history.ops().find(|op| op.index() == index)).map(|op| op.to_op())
}

/// An op's value and its optional fields.
fn value(op: &Op) -> String {
    let mut parts: Vec<String> = match &op.value {
        OpValue::None => Vec::new(),
        OpValue::Json(json) => vec![brief(json)],
        OpValue::Keys(keys) => {
            let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
            vec![format!("keys {}", keys.join(", "))]
        }
        OpValue::Mops(mops) => mops.iter().map(|mop| mop_text(mop, op.kind)).collect(),
    };
    parts.extend(extra_text(&op.extra));
    parts.join("; ")
}

fn mop_text(mop: &Mop, kind: Kind) -> String {
    match mop {
        Mop::Send { key, value, offset: Some(offset) } => format!("key {key} ← {value}@{offset}"),
        Mop::Send { key, value, offset: None } if kind == Kind::Ok => format!("key {key} ← {value}@unknown"),
        Mop::Send { key, value, offset: None } => format!("key {key} ← {value}"),
        Mop::Poll(None) if kind == Kind::Invoke => "poll".to_owned(),
        Mop::Poll(None) => "poll, which did not return".to_owned(),
        Mop::Poll(Some(reads)) if reads.is_empty() => "nothing".to_owned(),
        Mop::Poll(Some(reads)) => {
            let groups: Vec<_> =
                reads.iter().map(|(key, records)| format!("key {key}: {}", records_text(records))).collect();
            groups.join("; ")
        }
    }
}

fn records_text(records: &[(Offset, Value)]) -> String {
    let mut text = String::new();
    for (offset, value) in records.iter().take(MAX_RECORDS) {
        write!(text, "{value}@{offset} ").expect("writing into memory does not fail");
    }
    match records.len().checked_sub(MAX_RECORDS) {
        Some(more @ 1..) => text.push_str(&format!("and {more} more")),
        _ => text.truncate(text.trim_end().len()),
    }
    text
}

fn extra_text(extra: &Extra) -> Vec<String> {
    let keys =
        |keys: &[riprap_core::Key]| keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut parts = Vec::new();
    if let Some(error) = &extra.error {
        let separator = if error.message.is_empty() { "" } else { ": " };
        parts.push(format!("{}{separator}{}", error.code, error.message));
    }
    parts.extend(extra.rebalance.iter().map(|change| format!("{} {}", change.kind, keys(&change.keys))));
    if let Some(txn) = &extra.txn {
        parts.push(format!("transaction {} {}", txn.id, txn.outcome));
    }
    if !extra.offsets.is_empty() {
        let offsets: Vec<_> =
            extra.offsets.iter().map(|(key, offset)| format!("key {key} to {offset}")).collect();
        parts.push(format!("committed {}", offsets.join(", ")));
    }
    parts.extend(extra.node.iter().map(|node| format!("on {node}")));
    parts.extend(extra.abort.then(|| "an abort was asked for".to_owned()));
    parts.extend(extra.from_beginning.then(|| "from the beginning".to_owned()));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(line: Json, expected: &str) {
        assert_eq!(value(&parse(&line).expect("an op")), expected);
    }

    fn op(kind: &str, f: &str, value: Json) -> Json {
        json!({"index": 0, "time": 0, "process": 1, "type": kind, "f": f, "value": value})
    }

    #[test]
    fn values_are_readable() {
        check(op("invoke", "send", json!([["send", 5, 17]])), "key 5 ← 17");
        check(op("ok", "send", json!([["send", 5, [12, 17]]])), "key 5 ← 17@12");
        check(op("ok", "send", json!([["send", 5, [null, 17]]])), "key 5 ← 17@unknown");
        check(op("invoke", "poll", json!([["poll"]])), "poll");
        check(op("info", "poll", json!([["poll"]])), "poll, which did not return");
        check(op("ok", "poll", json!([["poll", {}]])), "nothing");
        check(op("ok", "poll", json!([["poll", {"5": [[10, 15], [11, null]]}]])), "key 5: 15@10 null@11");
        check(
            op("ok", "txn", json!([["send", 1, [0, 2]], ["poll", {"1": [[0, 2]]}]])),
            "key 1 ← 2@0; key 1: 2@0",
        );
        check(op("invoke", "assign", json!([1, 2])), "keys 1, 2");
        check(op("info", "crash", Json::Null), "");
    }

    #[test]
    fn long_polls_are_cut() {
        let records: Vec<_> = (0..100).map(|n| json!([n, n])).collect();
        let line = op("ok", "poll", json!([["poll", {"5": records}]]));
        let text = value(&parse(&line).expect("an op"));
        assert!(text.starts_with("key 5: 0@0 1@1 ") && text.ends_with("39@39 and 60 more"), "{text}");
    }

    #[test]
    fn optional_fields_follow() {
        let mut line = op("info", "send", json!([["send", 5, 17]]));
        line["error"] = json!({"code": "REQUEST_TIMED_OUT", "definite": false, "message": "no reply"});
        line["node"] = json!("n2");
        check(line, "key 5 ← 17; REQUEST_TIMED_OUT: no reply; on n2");
    }
}
