//! Writing.

use riprap_core::op::{Extra, Kind, Mop, Op, OpValue, Process, Value};
use serde_json::Value as Json;
use std::io::{self, Write};

/// Writes one op as one line that Jepsen reads.
pub fn write_edn_op(out: &mut impl Write, op: &Op) -> io::Result<()> {
    let process = match op.process {
        Process::Client(n) => n.to_string(),
        Process::Nemesis => ":nemesis".to_owned(),
    };
    let line = format!(
        "{{:index {}, :time {}, :process {process}, :type :{}, :f {}, :value {}{}}}\n",
        op.index,
        op.time_ns,
        op.kind.name(),
        keyword(op.f.name()),
        value(op),
        extra(&op.extra),
    );
    out.write_all(line.as_bytes())
}

fn value(op: &Op) -> String {
    match &op.value {
        OpValue::None => "nil".to_owned(),
        OpValue::Json(value) => json(value),
        OpValue::Keys(keys) => vector(keys.iter().map(ToString::to_string)),
        OpValue::Mops(mops) => vector(mops.iter().map(|m| mop(m, op.kind))),
    }
}

fn mop(mop: &Mop, kind: Kind) -> String {
    match mop {
        Mop::Send { key, value, offset: Some(offset) } => {
            format!("[:send {key} [{offset} {}]]", number(*value))
        }
        Mop::Send { key, value, offset: None } if kind == Kind::Ok => {
            format!("[:send {key} [nil {}]]", number(*value))
        }
        Mop::Send { key, value, offset: None } => format!("[:send {key} {}]", number(*value)),
        Mop::Poll(None) => "[:poll]".to_owned(),
        Mop::Poll(Some(reads)) => {
            let groups = reads.iter().map(|(key, records)| {
                let records = records
                    .iter()
                    .map(|(offset, value)| format!("[{} {}]", number(Value(offset.0)), number(*value)));
                format!("{key} {}", vector(records))
            });
            format!("[:poll {}]", map(groups))
        }
    }
}

/// Unknown offsets and records without a value are the same number in a column.
fn number(n: Value) -> String {
    if n == Value::NIL { "nil".to_owned() } else { n.to_string() }
}

fn extra(extra: &Extra) -> String {
    let Extra { error, rebalance, txn, offsets, node, abort, from_beginning } = extra;
    let mut out = String::new();
    if let Some(error) = error {
        let (code, message) = (string(&error.code), string(&error.message));
        out += &format!(", :error {{:code {code}, :definite {}, :message {message}}}", error.definite);
    }
    if !rebalance.is_empty() {
        let entries = rebalance.iter().map(|entry| {
            let keys = vector(entry.keys.iter().map(ToString::to_string));
            format!("{{:type {}, :keys {keys}}}", keyword(&entry.kind))
        });
        out += &format!(", :rebalance-log {}", vector(entries));
    }
    if let Some(txn) = txn {
        out += &format!(", :txn {{:id {}, :outcome {}}}", string(&txn.id), string(&txn.outcome));
    }
    if !offsets.is_empty() {
        let offsets = offsets.iter().map(|(key, offset)| format!("{key} {}", number(Value(offset.0))));
        out += &format!(", :offsets {}", map(offsets));
    }
    if let Some(node) = node {
        out += &format!(", :node {}", string(node));
    }
    if *abort {
        out += ", :abort true";
    }
    if *from_beginning {
        out += ", :seek-to-beginning? true";
    }
    out
}

fn json(value: &Json) -> String {
    match value {
        Json::Null => "nil".to_owned(),
        Json::Bool(_) | Json::Number(_) => value.to_string(),
        Json::String(text) => string(text),
        Json::Array(items) => vector(items.iter().map(json)),
        Json::Object(fields) => {
            map(fields.iter().map(|(name, value)| format!("{} {}", string(name), json(value))))
        }
    }
}

fn vector(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(" "))
}

fn map(fields: impl Iterator<Item = String>) -> String {
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

/// A word as a keyword, or as a string if it cannot be one.
fn keyword(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "*+!-_?<>=.".contains(c);
    match word.chars().next() {
        Some(first) if first.is_ascii_alphabetic() && word.chars().all(plain) => format!(":{word}"),
        _ => string(word),
    }
}

fn string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            '\t' => out += "\\t",
            c => out.push(c),
        }
    }
    out + "\""
}
