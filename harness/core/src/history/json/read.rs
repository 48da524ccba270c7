//! Reading. A parser of our own rather than a tree of values: most of a history is lists of pairs of integers, which go
//! straight into the history's columns. What is rare (errors, a nemesis' value, unknown fields) goes through serde_json.

use crate::history::{Head, History, OpBuilder};
use crate::op::{Extra, F, Key, Kind, Offset, OpError, Process, Rebalance, Txn, Value};
use serde::de::IgnoredAny;
use serde_json::{Map, Value as Json};
use std::io::{self, BufRead};
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
        /// From 1, in bytes.
        column: usize,
        /// What is there and what would have been right.
        what: String,
    },
}

/// Reads a history. The second part says what was dropped: the last line, if it was cut short.
pub fn read_jsonl(input: impl BufRead) -> Result<(History, Option<String>), ReadError> {
    read_lines(input, MAX_LINE_BYTES)
}

pub(super) fn read_lines(
    mut input: impl BufRead,
    max_line_bytes: usize,
) -> Result<(History, Option<String>), ReadError> {
    let mut history = History::new();
    let mut bytes = Vec::new();
    let mut line = 0;
    loop {
        bytes.clear();
        line += 1;
        let limit = max_line_bytes as u64 + 1;
        if io::Read::take(&mut input, limit).read_until(b'\n', &mut bytes)? == 0 {
            return Ok((history, None));
        }
        if bytes.len() > max_line_bytes {
            let what = format!("longer than {max_line_bytes} bytes; one op a line is expected");
            return Err(ReadError::Malformed { line, column: 1, what });
        }
        let text = bytes.trim_ascii_end();
        if text.trim_ascii_start().is_empty() {
            continue;
        }
        let read = match std::str::from_utf8(text) {
            Ok(_) => read_op(text, line as u64, &mut history),
            // An end within a character is what a cut leaves.
            Err(e) => Err(Fault {
                at: e.valid_up_to(),
                what: "not UTF-8".to_owned(),
                cut_short: e.error_len().is_none(),
            }),
        };
        match read {
            Ok(()) => {}
            // Only a line that lacks its end and stops in mid-value was cut short; anything else is malformed.
            Err(fault) if fault.cut_short && bytes.last() != Some(&b'\n') => {
                let dropped = format!("line {line} is cut short: dropped ({} bytes)", bytes.len());
                return Ok((history, Some(dropped)));
            }
            Err(Fault { at, what, .. }) => {
                return Err(ReadError::Malformed { line, column: at + 1, what });
            }
        }
    }
}

/// Where and why a line is not an op.
struct Fault {
    at: usize,
    what: String,
    cut_short: bool,
}

type Parsed<T> = Result<T, Fault>;

/// One line, and how far it was read.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the last field's name began.
    name_at: usize,
}

fn read_op(text: &[u8], line: u64, history: &mut History) -> Parsed<()> {
    let mut cursor = Cursor { bytes: text, at: 0, name_at: 0 };
    let (mut index, mut time_ns) = (history.len() as u64, 0);
    let (mut process, mut kind, mut f, mut value) = (None, None, None, None);
    let mut builder = history.build();
    builder.on_line(line);
    let mut json = None;
    let mut extra = Extra::default();
    // Where the value begins, if it came before the fields that say how to read it.
    let mut value_at = None;
    cursor.object("an op, a JSON object,", |cursor, field| {
        match field {
            "index" => index = cursor.unsigned("`index`, a number from 0,")?,
            "time" => time_ns = cursor.integer("`time`, nanoseconds, a number,")?,
            "process" => once("`process`", &mut process, cursor, Cursor::process)?,
            "type" => once("`type`", &mut kind, cursor, Cursor::kind)?,
            "f" => once("`f`", &mut f, cursor, Cursor::f)?,
            "value" => once("`value`", &mut value, cursor, |cursor| {
                match (&f, process) {
                    (Some(f), Some(process)) => json = cursor.value(f, process, &mut builder)?,
                    _ => {
                        value_at = Some(cursor.at);
                        cursor.ignored()?;
                    }
                }
                Ok(())
            })?,
            "error" => extra.error = cursor.json()?.and_then(error),
            "rebalance" => extra.rebalance = cursor.rebalance()?,
            "txn" => {
                extra.txn = cursor
                    .optional_object("`txn`")?
                    .map(|txn| Txn { id: string_in(&txn, "id"), outcome: string_in(&txn, "outcome") });
            }
            "offsets" => extra.offsets = cursor.committed_offsets()?,
            "node" => extra.node = cursor.json()?.and_then(|json| json.as_str().map(str::to_owned)),
            "abort" => extra.abort = cursor.json()? == Some(Json::Bool(true)),
            "from-beginning" | "seek-to-beginning?" => {
                extra.from_beginning = cursor.json()? == Some(Json::Bool(true));
            }
            _ => cursor.ignored()?,
        }
        Ok(())
    })?;
    cursor.end()?;
    let f = f.ok_or_else(|| cursor.missing("`f`, a word, e.g. \"send\","))?;
    let process = process.ok_or_else(|| cursor.missing("`process`, a number from 0 or \"nemesis\","))?;
    let kind = kind.ok_or_else(|| cursor.missing("`type`, one of invoke, ok, fail, info,"))?;
    if let Some(at) = value_at {
        cursor.at = at;
        json = cursor.value(&f, process, &mut builder)?;
    }
    builder.finish(Head { index, time_ns, process, kind, f: &f }, json, extra);
    Ok(())
}

/// Reads a field that says how others are to be read: given twice, it would say two things.
fn once<'a, T>(
    name: &str,
    field: &mut Option<T>,
    cursor: &mut Cursor<'a>,
    read: impl FnOnce(&mut Cursor<'a>) -> Parsed<T>,
) -> Parsed<()> {
    if field.is_some() {
        return Err(cursor.unexpected(&format!("no second {name}")));
    }
    *field = Some(read(cursor)?);
    Ok(())
}

impl<'a> Cursor<'a> {
    /// The next byte that is not blank; 0, which no JSON token begins with, at the end.
    #[inline]
    fn peek(&mut self) -> u8 {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                Some(byte) => return *byte,
                None => return 0,
            }
        }
    }

    #[inline]
    fn take(&mut self, byte: u8) -> bool {
        let taken = self.peek() == byte;
        self.at += usize::from(taken);
        taken
    }

    #[inline]
    fn expect(&mut self, byte: u8, what: &str) -> Parsed<()> {
        if self.take(byte) { Ok(()) } else { Err(self.unexpected(what)) }
    }

    /// There is something else here than `what`.
    #[cold]
    fn unexpected(&mut self, what: &str) -> Fault {
        /// Enough to recognise the place by.
        const MAX_SHOWN_CHARS: usize = 40;
        self.peek();
        let rest = String::from_utf8_lossy(&self.bytes[self.at..]);
        let what = if rest.is_empty() {
            format!("the line ends where {what} is expected")
        } else if rest.chars().count() <= MAX_SHOWN_CHARS {
            format!("`{rest}` where {what} is expected")
        } else {
            format!(
                "`{}...` where {what} is expected",
                rest.chars().take(MAX_SHOWN_CHARS).collect::<String>()
            )
        };
        Fault { at: self.at, what, cut_short: rest.is_empty() }
    }

    #[cold]
    fn missing(&self, what: &str) -> Fault {
        Fault { at: 0, what: format!("no field where {what} is expected"), cut_short: false }
    }

    fn end(&mut self) -> Parsed<()> {
        self.peek();
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.unexpected("the end of the line")) }
    }

    /// An object: `each` is called with every field's name, the cursor before its value.
    fn object(
        &mut self,
        what: &str,
        mut each: impl FnMut(&mut Cursor<'a>, &str) -> Parsed<()>,
    ) -> Parsed<()> {
        self.expect(b'{', what)?;
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            self.peek();
            self.name_at = self.at;
            let name = self.string("a field's name, a string,")?;
            self.expect(b':', "`:`")?;
            each(self, &name)?;
            if !self.take(b',') {
                return self.expect(b'}', "`,` or `}`");
            }
        }
    }

    /// A list: `each` is called with the cursor before every element.
    #[inline]
    fn list(&mut self, what: &str, mut each: impl FnMut(&mut Cursor<'a>) -> Parsed<()>) -> Parsed<()> {
        self.expect(b'[', what)?;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            each(self)?;
            if !self.take(b',') {
                return self.expect(b']', "`,` or `]`");
            }
        }
    }

    fn string(&mut self, what: &str) -> Parsed<std::borrow::Cow<'a, str>> {
        if self.peek() != b'"' {
            return Err(self.unexpected(what));
        }
        let begin = self.at + 1;
        let plain = self.bytes[begin..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..32));
        if let Some(len) = plain
            && self.bytes[begin + len] == b'"'
        {
            self.at = begin + len + 1;
            let text = std::str::from_utf8(&self.bytes[begin..begin + len]);
            return Ok(text.expect("the line is UTF-8, and quotes are ASCII").into());
        }
        self.serde::<String>().map(Into::into)
    }

    #[inline]
    fn integer(&mut self, what: &str) -> Parsed<i64> {
        let negative = self.take(b'-');
        let begin = self.at;
        let mut n: i64 = 0;
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(self.at) {
            let digit = i64::from(digit - b'0');
            // Downwards, so that the smallest number fits too.
            let Some(next) = n.checked_mul(10).and_then(|n| n.checked_sub(digit)) else {
                self.at = begin;
                return Err(self.unexpected(&format!("{what} within 64 bits")));
            };
            n = next;
            self.at += 1;
        }
        let fraction = matches!(self.bytes.get(self.at), Some(b'.' | b'e' | b'E'));
        let cut = self.at == begin && self.at == self.bytes.len();
        if cut || self.at == begin || fraction {
            self.at = if cut { begin } else { begin - usize::from(negative) };
            return Err(self.unexpected(what));
        }
        if negative {
            return Ok(n);
        }
        n.checked_neg().ok_or_else(|| {
            self.at = begin;
            self.unexpected(&format!("{what} within 64 bits"))
        })
    }

    fn unsigned(&mut self, what: &str) -> Parsed<u64> {
        let begin = self.at;
        u64::try_from(self.integer(what)?).map_err(|_| {
            self.at = begin;
            self.unexpected(what)
        })
    }

    /// An integer or `null`, which stands as [`i64::MIN`] in the columns; that number itself is refused.
    #[inline]
    fn integer_or_null(&mut self, what: &str) -> Parsed<i64> {
        if self.peek() == b'n' {
            self.word(b"null", what)?;
            return Ok(i64::MIN);
        }
        let begin = self.at;
        match self.integer(what)? {
            i64::MIN => {
                self.at = begin;
                Err(self.unexpected(&format!("{what} above {}", i64::MIN)))
            }
            n => Ok(n),
        }
    }

    fn word(&mut self, word: &[u8], what: &str) -> Parsed<()> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        if word.starts_with(rest) {
            self.at = self.bytes.len();
        }
        Err(self.unexpected(what))
    }

    /// The next value, by serde_json.
    fn serde<T: serde::de::DeserializeOwned>(&mut self) -> Parsed<T> {
        let mut values = serde_json::Deserializer::from_slice(&self.bytes[self.at..]).into_iter::<T>();
        match values.next() {
            Some(Ok(value)) => {
                self.at += values.byte_offset();
                Ok(value)
            }
            Some(Err(e)) => {
                let what = e.to_string();
                let what = what.split(" at line ").next().expect("a split has a first part").to_owned();
                let at = (self.at + e.column()).saturating_sub(1).min(self.bytes.len());
                Err(Fault { at, what, cut_short: e.is_eof() })
            }
            None => Err(self.unexpected("a value")),
        }
    }

    fn ignored(&mut self) -> Parsed<()> {
        self.serde::<IgnoredAny>().map(|_| ())
    }

    /// Any value; `None` for null.
    fn json(&mut self) -> Parsed<Option<Json>> {
        Ok(Some(self.serde::<Json>()?).filter(|json| !json.is_null()))
    }

    fn optional_object(&mut self, what: &str) -> Parsed<Option<Map<String, Json>>> {
        self.peek();
        let begin = self.at;
        match self.json()? {
            None => Ok(None),
            Some(Json::Object(object)) => Ok(Some(object)),
            Some(_) => {
                self.at = begin;
                Err(self.unexpected(&format!("{what}, an object,")))
            }
        }
    }

    fn process(&mut self) -> Parsed<Process> {
        const WHAT: &str = "`process`, a number from 0 or \"nemesis\",";
        let begin = self.at;
        if self.peek() == b'"' {
            if self.string(WHAT)? == "nemesis" {
                return Ok(Process::Nemesis);
            }
        } else if let Ok(n) = u32::try_from(self.integer(WHAT)?) {
            return Ok(Process::Client(n));
        }
        self.at = begin;
        Err(self.unexpected(WHAT))
    }

    fn f(&mut self) -> Parsed<F> {
        Ok(F::from_name(&self.string("`f`, a word, e.g. \"send\",")?))
    }

    fn kind(&mut self) -> Parsed<Kind> {
        const WHAT: &str = "`type`, one of invoke, ok, fail, info,";
        self.peek();
        let begin = self.at;
        let word = self.string(WHAT)?;
        Kind::ALL.into_iter().find(|kind| kind.name() == word).ok_or_else(|| {
            self.at = begin;
            self.unexpected(WHAT)
        })
    }

    /// An op's value, into the history's columns if it is of a kind that is judged.
    fn value(&mut self, f: &F, process: Process, builder: &mut OpBuilder<'_>) -> Parsed<Option<Json>> {
        if self.peek() == b'n' || process == Process::Nemesis || !(f.has_mops() || f.has_keys()) {
            return self.json();
        }
        if f.has_keys() {
            self.list("a list of keys", |cursor| {
                builder.key(Key(cursor.integer("a key, a number,")?));
                Ok(())
            })?;
        } else {
            self.list("a list of micro-operations", |cursor| cursor.mop(builder))?;
        }
        Ok(None)
    }

    fn mop(&mut self, builder: &mut OpBuilder<'_>) -> Parsed<()> {
        const WHAT: &str = "a micro-operation, one of [\"send\", key, value], [\"send\", key, [offset, value]], \
                            [\"poll\"], [\"poll\", {key: ...}],";
        self.expect(b'[', WHAT)?;
        self.peek();
        let begin = self.at;
        match &*self.string(WHAT)? {
            "send" => {
                self.expect(b',', "`,`")?;
                let key = Key(self.integer("a key, a number,")?);
                self.expect(b',', "`,`")?;
                if self.peek() == b'[' {
                    let (offset, value) = self.record()?;
                    builder.send(key, value, Some(offset).filter(|offset| *offset != Offset::UNKNOWN));
                } else {
                    builder.send(key, self.record_value()?, None);
                }
            }
            "poll" if self.take(b',') => {
                builder.polled();
                self.object("the records by key, an object,", |cursor, key| {
                    let key = key.parse().map_err(|_| cursor.not_a_key(key))?;
                    builder.group(Key(key));
                    cursor.list("a list of records", |cursor| {
                        let (offset, value) = cursor.record()?;
                        builder.record(offset, value);
                        Ok(())
                    })
                })?;
            }
            "poll" => builder.asked(),
            _ => {
                self.at = begin;
                return Err(self.unexpected(WHAT));
            }
        }
        self.expect(b']', "`]`")
    }

    #[inline]
    fn record(&mut self) -> Parsed<(Offset, Value)> {
        self.expect(b'[', "a record, [offset, value],")?;
        let offset = self.integer_or_null("an offset, a number or null,")?;
        self.expect(b',', "`,` between offset and value")?;
        let value = self.record_value()?;
        self.expect(b']', "`]` after a record")?;
        Ok((Offset(offset), value))
    }

    #[inline]
    fn record_value(&mut self) -> Parsed<Value> {
        self.integer_or_null("a value, a number or null,").map(Value)
    }

    fn not_a_key(&self, key: &str) -> Fault {
        let what = format!("`{key}` where a key, a number in a string, is expected");
        Fault { at: self.name_at, what, cut_short: false }
    }

    fn rebalance(&mut self) -> Parsed<Vec<Rebalance>> {
        const WHAT: &str = "`rebalance`, a list of {\"type\": word, \"keys\": [key, ...]},";
        let mut entries = Vec::new();
        if self.peek() == b'n' {
            self.word(b"null", WHAT)?;
            return Ok(entries);
        }
        self.list(WHAT, |cursor| {
            let mut entry = Rebalance { kind: String::new(), keys: Vec::new() };
            cursor.object(WHAT, |cursor, field| match field {
                "type" => {
                    entry.kind = cursor.string("a word")?.into_owned();
                    Ok(())
                }
                "keys" => cursor.list("a list of keys", |cursor| {
                    entry.keys.push(Key(cursor.integer("a key, a number,")?));
                    Ok(())
                }),
                _ => cursor.ignored(),
            })?;
            entries.push(entry);
            Ok(())
        })?;
        Ok(entries)
    }

    fn committed_offsets(&mut self) -> Parsed<Vec<(Key, Offset)>> {
        const WHAT: &str = "`offsets`, an object of key: offset,";
        let mut offsets = Vec::new();
        if self.peek() == b'n' {
            self.word(b"null", WHAT)?;
            return Ok(offsets);
        }
        self.object(WHAT, |cursor, key| {
            let key = key.parse().map_err(|_| cursor.not_a_key(key))?;
            let offset = cursor.integer_or_null("an offset, a number or null,")?;
            offsets.push((Key(key), Offset(offset)));
            Ok(())
        })?;
        Ok(offsets)
    }
}

/// Other tools write whatever they caught; what it proves is told by the op's type.
fn error(json: Json) -> Option<OpError> {
    let bare = |code| OpError { code, definite: false, message: String::new() };
    Some(match json {
        Json::Object(error) => OpError {
            code: string_in(&error, "code"),
            definite: error.get("definite").and_then(Json::as_bool).unwrap_or(false),
            message: string_in(&error, "message"),
        },
        Json::String(code) => bare(code),
        other => bare(other.to_string()),
    })
}

fn string_in(object: &Map<String, Json>, field: &str) -> String {
    object.get(field).and_then(Json::as_str).unwrap_or_default().to_owned()
}
