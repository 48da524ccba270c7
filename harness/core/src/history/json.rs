//! Histories as JSON lines: one op a line.
//!
//! ```text
//! {"index":0,"time":1203,"process":3,"type":"invoke","f":"txn","value":[["send",5,17],["poll"]]}
//! {"index":1,"time":9031,"process":3,"type":"ok","f":"txn","value":[["send",5,[12,17]],["poll",{"5":[[10,15]]}]]}
//! ```
//!
//! Optional fields: `error {code,definite,message}` (or a bare string), `rebalance [{type,keys}]`, `txn {id,outcome}`,
//! `offsets {key:offset}`, `node`, `abort`, `from-beginning`. Unknown fields are ignored, an unknown `f` is kept with its value.
//! A last line that is cut short is what a crash leaves: it is dropped and said.

use super::History;
use crate::op::{
    Extra, F, Key, Kind, Mop, Offset, Op, OpError, OpValue, Process, Reads, Rebalance, Txn, Value,
};
use serde_json::{Map, Value as Json, json};
use std::io::{self, BufRead, Write};
use thiserror::Error;

/// A line longer than this is refused rather than read into memory. A poll of 100,000 records takes some 3 MB.
const MAX_LINE_BYTES: usize = 256 << 20;

/// Why a history could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line is not an op.
    #[error("line {line}, column {column}: {what}")]
    Malformed {
        /// From 1.
        line: usize,
        /// From 1; the line's first column where the trouble has no better place.
        column: usize,
        /// What is there and what would have been right.
        what: String,
    },
}

/// Reads a history. The second part says what was dropped: the last line, if it was cut short.
pub fn read_jsonl(mut input: impl BufRead) -> Result<(History, Option<String>), ReadError> {
    let mut history = History::new();
    let mut bytes = Vec::new();
    let mut line = 0;
    loop {
        bytes.clear();
        line += 1;
        let limit = MAX_LINE_BYTES as u64 + 1;
        if io::Read::take(&mut input, limit).read_until(b'\n', &mut bytes)? == 0 {
            return Ok((history, None));
        }
        if bytes.len() > MAX_LINE_BYTES {
            let what = format!("longer than {MAX_LINE_BYTES} bytes; one op a line is expected");
            return Err(ReadError::Malformed { line, column: 1, what });
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match parse_op(&bytes, history.len() as u64) {
            Ok(op) => history.push(op),
            // Only a line that lacks its end and stops in mid-value was cut short; anything else is malformed.
            Err(fault) if fault.cut_short && bytes.last() != Some(&b'\n') => {
                let dropped = format!("line {line} is cut short: dropped ({} bytes)", bytes.len());
                return Ok((history, Some(dropped)));
            }
            Err(fault) => {
                return Err(ReadError::Malformed { line, column: fault.column, what: fault.what });
            }
        }
    }
}

struct Fault {
    column: usize,
    what: String,
    cut_short: bool,
}

impl From<String> for Fault {
    fn from(what: String) -> Fault {
        Fault { column: 1, what, cut_short: false }
    }
}

fn parse_op(line: &[u8], row: u64) -> Result<Op, Fault> {
    let json: Json = serde_json::from_slice(line).map_err(|e| Fault {
        column: e.column(),
        what: format!("{e}; one JSON object a line is expected"),
        // A cut inside a multi-byte character is reported as a syntax error, not as an end of input.
        cut_short: e.is_eof() || std::str::from_utf8(line).is_err_and(|e| e.error_len().is_none()),
    })?;
    let Json::Object(fields) = json else {
        return Err(format!("{} where an op, a JSON object, is expected", brief(&json)).into());
    };
    let f = match fields.get("f") {
        Some(Json::String(word)) => F::from_name(word),
        other => return Err(expected("f", other, "a word, e.g. \"send\"")),
    };
    let kind = match fields.get("type") {
        Some(Json::String(word)) => Kind::ALL
            .into_iter()
            .find(|kind| kind.name() == word)
            .ok_or_else(|| Fault::from(format!("`type` is {word:?}; one of: invoke, ok, fail, info")))?,
        other => return Err(expected("type", other, "one of: invoke, ok, fail, info")),
    };
    let process = match fields.get("process") {
        Some(Json::String(word)) if word == "nemesis" => Process::Nemesis,
        Some(Json::Number(n)) if n.as_u64().is_some_and(|n| u32::try_from(n).is_ok()) => {
            Process::Client(n.as_u64().expect("just checked") as u32)
        }
        other => return Err(expected("process", other, "a number from 0, or \"nemesis\"")),
    };
    Ok(Op {
        index: match fields.get("index") {
            None => row,
            Some(n) => n.as_u64().ok_or_else(|| expected("index", Some(n), "a number from 0"))?,
        },
        time_ns: match fields.get("time") {
            None => 0,
            Some(n) => n.as_i64().ok_or_else(|| expected("time", Some(n), "nanoseconds, a number"))?,
        },
        process,
        kind,
        value: parse_value(&f, process, fields.get("value").unwrap_or(&Json::Null))?,
        f,
        extra: parse_extra(&fields)?,
    })
}

fn parse_value(f: &F, process: Process, value: &Json) -> Result<OpValue, Fault> {
    match value {
        Json::Null => Ok(OpValue::None),
        _ if process == Process::Nemesis => Ok(OpValue::Json(value.clone())),
        Json::Array(mops) if f.has_mops() => {
            Ok(OpValue::Mops(mops.iter().map(parse_mop).collect::<Result<_, _>>()?))
        }
        Json::Array(keys) if f.has_keys() => {
            Ok(OpValue::Keys(keys.iter().map(parse_key).collect::<Result<_, _>>()?))
        }
        _ if f.has_mops() => Err(expected("value", Some(value), "a list of micro-operations")),
        _ if f.has_keys() => Err(expected("value", Some(value), "a list of keys")),
        _ => Ok(OpValue::Json(value.clone())),
    }
}

fn parse_mop(mop: &Json) -> Result<Mop, Fault> {
    let malformed = || -> Fault {
        let what =
            "[\"send\", key, value], [\"send\", key, [offset, value]], [\"poll\"] or [\"poll\", {key: ...}]";
        format!("micro-operation {}; one of: {what}", brief(mop)).into()
    };
    let parts = mop.as_array().ok_or_else(malformed)?;
    match (parts.first().and_then(Json::as_str), &parts[1..]) {
        (Some("send"), [key, Json::Array(pair)]) if pair.len() == 2 => {
            let offset = if pair[0].is_null() { None } else { Some(parse_offset(&pair[0])?) };
            Ok(Mop::Send { key: parse_key(key)?, value: parse_record_value(&pair[1])?, offset })
        }
        (Some("send"), [key, value]) => {
            Ok(Mop::Send { key: parse_key(key)?, value: parse_record_value(value)?, offset: None })
        }
        (Some("poll"), []) => Ok(Mop::Poll(None)),
        (Some("poll"), [Json::Object(by_key)]) => {
            let mut reads = Reads::with_capacity(by_key.len());
            for (key, records) in by_key {
                let key =
                    key.parse().map(Key).map_err(|_| Fault::from(format!("key {key:?} is not a number")))?;
                let records = records.as_array().ok_or_else(malformed)?;
                let records = records.iter().map(|record| match record.as_array().map(Vec::as_slice) {
                    Some([offset, value]) => Ok((parse_offset(offset)?, parse_record_value(value)?)),
                    _ => Err(Fault::from(format!("record {}; [offset, value] is expected", brief(record)))),
                });
                reads.push((key, records.collect::<Result<_, _>>()?));
            }
            Ok(Mop::Poll(Some(reads)))
        }
        _ => Err(malformed()),
    }
}

fn parse_key(json: &Json) -> Result<Key, Fault> {
    json.as_i64().map(Key).ok_or_else(|| format!("key {} is not a number", brief(json)).into())
}

fn parse_offset(json: &Json) -> Result<Offset, Fault> {
    match json.as_i64() {
        Some(n) if n >= 0 => Ok(Offset(n)),
        _ => Err(format!("offset {} is not a number from 0", brief(json)).into()),
    }
}

fn parse_record_value(json: &Json) -> Result<Value, Fault> {
    match json.as_i64() {
        Some(n) if n != Value::NIL.0 => Ok(Value(n)),
        None if json.is_null() => Ok(Value::NIL),
        _ => Err(format!("value {} is not a number above {}", brief(json), i64::MIN).into()),
    }
}

fn parse_extra(fields: &Map<String, Json>) -> Result<Extra, Fault> {
    let error = match fields.get("error") {
        None | Some(Json::Null) => None,
        Some(Json::Object(error)) => Some(OpError {
            code: text(error, "code"),
            definite: error.get("definite").and_then(Json::as_bool).unwrap_or(false),
            message: text(error, "message"),
        }),
        // Other tools write whatever they caught; what it proves is told by the op's type.
        Some(Json::String(code)) => {
            Some(OpError { code: code.clone(), definite: false, message: String::new() })
        }
        Some(other) => Some(OpError { code: other.to_string(), definite: false, message: String::new() }),
    };
    let mut extra = Extra { error, ..Extra::default() };
    if let Some(entries) = fields.get("rebalance").filter(|json| !json.is_null()) {
        let entries = entries.as_array().ok_or_else(|| expected("rebalance", Some(entries), "a list"))?;
        for entry in entries {
            let keys = entry.get("keys").and_then(Json::as_array).ok_or_else(|| {
                expected(
                    "rebalance",
                    Some(entry),
                    "entries of the form {\"type\": word, \"keys\": [key, ...]}",
                )
            })?;
            extra.rebalance.push(Rebalance {
                kind: entry.get("type").and_then(Json::as_str).unwrap_or_default().to_owned(),
                keys: keys.iter().map(parse_key).collect::<Result<_, _>>()?,
            });
        }
    }
    if let Some(Json::Object(txn)) = fields.get("txn") {
        extra.txn = Some(Txn { id: text(txn, "id"), outcome: text(txn, "outcome") });
    }
    if let Some(Json::Object(offsets)) = fields.get("offsets") {
        for (key, offset) in offsets {
            let key =
                key.parse().map(Key).map_err(|_| Fault::from(format!("key {key:?} is not a number")))?;
            extra.offsets.push((key, parse_offset(offset)?));
        }
    }
    extra.node = fields.get("node").and_then(Json::as_str).map(str::to_owned);
    extra.abort = fields.get("abort").and_then(Json::as_bool).unwrap_or(false);
    extra.from_beginning = fields.get("from-beginning").and_then(Json::as_bool).unwrap_or(false);
    Ok(extra)
}

fn text(object: &Map<String, Json>, field: &str) -> String {
    object.get(field).and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn expected(field: &str, found: Option<&Json>, right: &str) -> Fault {
    match found {
        None => format!("`{field}` is missing; {right} is expected").into(),
        Some(json) => format!("`{field}` is {}; {right} is expected", brief(json)).into(),
    }
}

/// A value, short enough for one line of an error.
fn brief(json: &Json) -> String {
    const MAX_CHARS: usize = 60;
    let text = json.to_string();
    if text.chars().count() <= MAX_CHARS {
        return text;
    }
    text.chars().take(MAX_CHARS).chain("...".chars()).collect()
}

/// Writes one op as one line.
pub fn write_op(out: &mut impl Write, op: &Op) -> io::Result<()> {
    let mut fields = vec![
        format!("\"index\":{}", op.index),
        format!("\"time\":{}", op.time_ns),
        match op.process {
            Process::Client(n) => format!("\"process\":{n}"),
            Process::Nemesis => "\"process\":\"nemesis\"".to_owned(),
        },
        format!("\"type\":\"{}\"", op.kind.name()),
        format!("\"f\":{}", json!(op.f.name())),
        format!("\"value\":{}", value_text(op)),
    ];
    let extra = &op.extra;
    if let Some(error) = &extra.error {
        fields.push(format!(
            "\"error\":{}",
            json!({"code": error.code, "definite": error.definite, "message": error.message})
        ));
    }
    if !extra.rebalance.is_empty() {
        let entries: Vec<Json> = extra
            .rebalance
            .iter()
            .map(|entry| json!({"type": entry.kind, "keys": entry.keys.iter().map(|key| key.0).collect::<Vec<_>>()}))
            .collect();
        fields.push(format!("\"rebalance\":{}", Json::Array(entries)));
    }
    if let Some(txn) = &extra.txn {
        fields.push(format!("\"txn\":{}", json!({"id": txn.id, "outcome": txn.outcome})));
    }
    if !extra.offsets.is_empty() {
        let pairs: Vec<String> =
            extra.offsets.iter().map(|(key, offset)| format!("\"{key}\":{offset}")).collect();
        fields.push(format!("\"offsets\":{{{}}}", pairs.join(",")));
    }
    if let Some(node) = &extra.node {
        fields.push(format!("\"node\":{}", json!(node)));
    }
    if extra.abort {
        fields.push("\"abort\":true".to_owned());
    }
    if extra.from_beginning {
        fields.push("\"from-beginning\":true".to_owned());
    }
    writeln!(out, "{{{}}}", fields.join(","))
}

fn value_text(op: &Op) -> String {
    let list = |parts: Vec<String>| format!("[{}]", parts.join(","));
    match &op.value {
        OpValue::None => "null".to_owned(),
        OpValue::Json(json) => json.to_string(),
        OpValue::Keys(keys) => list(keys.iter().map(Key::to_string).collect()),
        OpValue::Mops(mops) => list(mops.iter().map(|mop| mop_text(mop, op.kind)).collect()),
    }
}

fn mop_text(mop: &Mop, kind: Kind) -> String {
    match mop {
        Mop::Send { key, value, offset: Some(offset) } => format!("[\"send\",{key},[{offset},{value}]]"),
        Mop::Send { key, value, offset: None } if kind == Kind::Ok => {
            format!("[\"send\",{key},[null,{value}]]")
        }
        Mop::Send { key, value, offset: None } => format!("[\"send\",{key},{value}]"),
        Mop::Poll(None) => "[\"poll\"]".to_owned(),
        Mop::Poll(Some(reads)) => {
            let groups: Vec<String> = reads
                .iter()
                .map(|(key, records)| {
                    let records: Vec<String> =
                        records.iter().map(|(offset, value)| format!("[{offset},{value}]")).collect();
                    format!("\"{key}\":[{}]", records.join(","))
                })
                .collect();
            format!("[\"poll\",{{{}}}]", groups.join(","))
        }
    }
}
