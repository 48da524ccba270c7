//! Writing.

use crate::op::{Extra, Key, Kind, Mop, Offset, Op, OpValue, Process, Value};
use serde_json::json;
use std::fmt::{self, Write as _};
use std::io::{self, Write};

/// Writes one op as one line.
pub fn write_op(out: &mut impl Write, op: &Op) -> io::Result<()> {
    let mut line = Line(op).to_string();
    line.push('\n');
    // One write, so that another's does not come between and a crash cuts at most the last line.
    out.write_all(line.as_bytes())
}

struct Line<'a>(&'a Op);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = self.0;
        write!(f, "{{\"index\":{},\"time\":{},\"process\":", op.index, op.time_ns)?;
        match op.process {
            Process::Client(n) => write!(f, "{n}")?,
            Process::Nemesis => f.write_str("\"nemesis\"")?,
        }
        write!(f, ",\"type\":\"{}\",\"f\":{},\"value\":", op.kind.name(), json!(op.f.name()))?;
        value(f, op)?;
        extra(f, &op.extra)?;
        f.write_char('}')
    }
}

fn value(f: &mut fmt::Formatter<'_>, op: &Op) -> fmt::Result {
    match &op.value {
        OpValue::None => f.write_str("null"),
        OpValue::Json(json) => write!(f, "{json}"),
        OpValue::Keys(keys) => list(f, keys, |f, key| write!(f, "{key}")),
        OpValue::Mops(mops) => list(f, mops, |f, m| mop(f, m, op.kind)),
    }
}

fn mop(f: &mut fmt::Formatter<'_>, mop: &Mop, kind: Kind) -> fmt::Result {
    match mop {
        Mop::Send { key, value, offset: Some(offset) } => write!(f, "[\"send\",{key},[{offset},{value}]]"),
        Mop::Send { key, value, offset: None } if kind == Kind::Ok => {
            write!(f, "[\"send\",{key},[null,{value}]]")
        }
        Mop::Send { key, value, offset: None } => write!(f, "[\"send\",{key},{value}]"),
        Mop::Poll(None) => f.write_str("[\"poll\"]"),
        Mop::Poll(Some(reads)) => {
            f.write_str("[\"poll\",")?;
            object(f, reads, |f, records: &Vec<(Offset, Value)>| {
                list(f, records, |f, (offset, value)| write!(f, "[{offset},{value}]"))
            })?;
            f.write_char(']')
        }
    }
}

fn extra(f: &mut fmt::Formatter<'_>, extra: &Extra) -> fmt::Result {
    let Extra { error, rebalance, txn, offsets, node, abort, from_beginning } = extra;
    if let Some(error) = error {
        let error = json!({"code": error.code, "definite": error.definite, "message": error.message});
        write!(f, ",\"error\":{error}")?;
    }
    if !rebalance.is_empty() {
        f.write_str(",\"rebalance\":")?;
        list(f, rebalance, |f, entry| {
            write!(f, "{{\"type\":{},\"keys\":", json!(entry.kind))?;
            list(f, &entry.keys, |f, key| write!(f, "{key}"))?;
            f.write_char('}')
        })?;
    }
    if let Some(txn) = txn {
        write!(f, ",\"txn\":{}", json!({"id": txn.id, "outcome": txn.outcome}))?;
    }
    if !offsets.is_empty() {
        f.write_str(",\"offsets\":")?;
        object(f, offsets, |f, offset| write!(f, "{offset}"))?;
    }
    if let Some(node) = node {
        write!(f, ",\"node\":{}", json!(node))?;
    }
    if *abort {
        f.write_str(",\"abort\":true")?;
    }
    if *from_beginning {
        f.write_str(",\"from-beginning\":true")?;
    }
    Ok(())
}

fn list<T>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    mut each: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    f.write_char('[')?;
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            f.write_char(',')?;
        }
        each(f, item)?;
    }
    f.write_char(']')
}

fn object<T>(
    f: &mut fmt::Formatter<'_>,
    fields: &[(Key, T)],
    mut each: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    f.write_char('{')?;
    for (n, (key, field)) in fields.iter().enumerate() {
        if n > 0 {
            f.write_char(',')?;
        }
        write!(f, "\"{key}\":")?;
        each(f, field)?;
    }
    f.write_char('}')
}
