//! Reading.

use riprap_core::History;
use riprap_core::history::{Head, OpBuilder, ReadError};
use riprap_core::op::{Extra, F, Key, Kind, Offset, OpError, Process, Rebalance, Txn, Value};
use serde_json::{Map, Value as Json};
use std::borrow::Cow;
use std::io::BufRead;

/// Forms nested deeper than this are refused; a history nests some ten deep.
const MAX_DEPTH: u32 = 128;

/// Reads a history. The second part says what was dropped: the last op, if it was cut short.
pub fn read_edn(mut input: impl BufRead) -> Result<(History, Option<String>), ReadError> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    let mut history = History::new();
    let mut cursor = Cursor { bytes: &bytes, at: 0, depth: 0, counted: (0, 1) };
    let read = cursor.history(&mut history);
    match read {
        Ok(()) => Ok((history, None)),
        Err(Fault { begin, cut_short: true, .. }) if !op_follows(&bytes[begin..]) => {
            let line = cursor.line_of(begin);
            let dropped = format!("line {line} is cut short: dropped ({} bytes)", bytes.len() - begin);
            Ok((history, Some(dropped)))
        }
        Err(fault) => {
            let (at, what) = match fault {
                Fault { begin, cut_short: true, what, .. } => {
                    (begin, format!("this op has no end, though others follow: {what}"))
                }
                Fault { at, what, .. } => (at, what),
            };
            let before = &bytes[..at];
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
            Err(ReadError::Malformed { line, column, what })
        }
    }
}

/// Whether a later line begins as an op does. Then what has no end is not the last op, but one that lacks a quote or a
/// bracket: all that comes after it must not be dropped as if it had never been written.
fn op_follows(rest: &[u8]) -> bool {
    rest.windows(2).any(|pair| pair[0] == b'\n' && matches!(pair[1], b'{' | b'#'))
}

/// Where and why something is not an op.
struct Fault {
    at: usize,
    /// Where the op began.
    begin: usize,
    what: String,
    cut_short: bool,
}

type Parsed<T> = Result<T, Fault>;

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: u32,
    /// A place and its line, up to which lines were counted.
    counted: (usize, u64),
}

/// Reads a field that says how others are to be read: given twice, it would say two things.
fn once<'a, T>(
    name: &str,
    field: &mut Option<T>,
    cursor: &mut Cursor<'a>,
    read: impl FnOnce(&mut Cursor<'a>) -> Parsed<T>,
) -> Parsed<()> {
    if field.is_some() {
        cursor.peek()?;
        return Err(cursor.unexpected(&format!("no second {name}")));
    }
    *field = Some(read(cursor)?);
    Ok(())
}

impl<'a> Cursor<'a> {
    fn history(&mut self, history: &mut History) -> Parsed<()> {
        self.next_form()?;
        let is_vector = self.bytes.get(self.at) == Some(&b'[');
        self.at += usize::from(is_vector);
        loop {
            self.next_form()?;
            let begin = self.at;
            match self.bytes.get(self.at) {
                None if is_vector => return Err(Fault { begin, ..self.unexpected("another op or `]`") }),
                None => return Ok(()),
                Some(b']') if is_vector => {
                    self.at += 1;
                    self.next_form()?;
                    return if self.at == self.bytes.len() {
                        Ok(())
                    } else {
                        Err(self.unexpected("the end of the file"))
                    };
                }
                Some(_) => {}
            }
            let line = self.line_of(begin);
            let row = history.len() as u64;
            let mut builder = history.build();
            builder.on_line(line);
            self.op(row, builder).map_err(|fault| Fault { begin, ..fault })?;
        }
    }

    /// Goes to the next op. What is discarded before it and has no end was cut short, as an op would be.
    fn next_form(&mut self) -> Parsed<()> {
        while self.bytes.get(self.at).is_some_and(is_blank) {
            self.at += 1;
        }
        let begin = self.at;
        self.peek().map(|_| ()).map_err(|fault| Fault { begin, ..fault })
    }

    fn line_of(&mut self, at: usize) -> u64 {
        let (from, line) = self.counted;
        let line = line + self.bytes[from..at].iter().filter(|byte| **byte == b'\n').count() as u64;
        self.counted = (at, line);
        line
    }

    fn op(&mut self, row: u64, mut builder: OpBuilder<'_>) -> Parsed<()> {
        let begin = self.at;
        let (mut index, mut time_ns) = (row, 0);
        let (mut process, mut kind, mut f, mut value) = (None, None, None, None);
        let (mut json, mut extra) = (None, Extra::default());
        // Where the value begins, if it came before the fields that say how to read it.
        let mut value_at = None;
        self.tags()?;
        self.map("an op, a map,", |cursor, field| {
            match field {
                "index" => index = cursor.unsigned("`:index`, a number from 0,")?,
                "time" => time_ns = cursor.integer("`:time`, nanoseconds, a number,")?,
                "process" => once("`:process`", &mut process, cursor, Cursor::process)?,
                "type" => once("`:type`", &mut kind, cursor, Cursor::kind)?,
                "f" => once("`:f`", &mut f, cursor, Cursor::f)?,
                "value" => once("`:value`", &mut value, cursor, |cursor| {
                    match (&f, process) {
                        (Some(f), Some(process)) => json = cursor.value(f, process, &mut builder)?,
                        _ => {
                            value_at = Some(cursor.at);
                            cursor.skip()?;
                        }
                    }
                    Ok(())
                })?,
                "error" => extra.error = cursor.json()?.and_then(error),
                "rebalance-log" | "rebalance" => extra.rebalance = cursor.rebalance()?,
                "txn" => extra.txn = cursor.json()?.and_then(txn),
                "offsets" => extra.offsets = cursor.committed_offsets()?,
                "node" => extra.node = cursor.json()?.and_then(|node| node.as_str().map(str::to_owned)),
                "abort" => extra.abort = cursor.json()? == Some(Json::Bool(true)),
                "seek-to-beginning?" => extra.from_beginning = cursor.json()? == Some(Json::Bool(true)),
                _ => cursor.skip()?,
            }
            Ok(())
        })?;
        let missing = |what: &str| Fault {
            at: begin,
            begin,
            what: format!("no field where {what} is expected"),
            cut_short: false,
        };
        let f = f.ok_or_else(|| missing("`:f`, a word, e.g. :send,"))?;
        let process = process.ok_or_else(|| missing("`:process`, a number from 0 or :nemesis,"))?;
        let kind = kind.ok_or_else(|| missing("`:type`, one of :invoke, :ok, :fail, :info,"))?;
        if let Some(at) = value_at {
            let end = std::mem::replace(&mut self.at, at);
            json = self.value(&f, process, &mut builder)?;
            self.at = end;
        }
        builder.finish(Head { index, time_ns, process, kind, f: &f }, json, extra);
        Ok(())
    }

    /// The next byte that belongs to a form, past blanks, comments and discarded forms; 0 at the end.
    #[inline]
    fn peek(&mut self) -> Parsed<u8> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b',' | b'\n' | b'\t' | b'\r' | 0x0c) => self.at += 1,
                Some(b';') => self.comment(),
                Some(b'#') if self.bytes.get(self.at + 1) == Some(&b'_') => {
                    self.at += 2;
                    self.deeper(Cursor::skip)?;
                }
                Some(b'^') => {
                    self.at += 1;
                    self.deeper(Cursor::skip)?;
                }
                Some(byte) => return Ok(*byte),
                None => return Ok(0),
            }
        }
    }

    #[cold]
    fn comment(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }

    /// Passes over tags: `#inst`, `#jepsen.history.Op`, and the one without a name of Clojure's regular expressions.
    fn tags(&mut self) -> Parsed<()> {
        while self.peek()? == b'#' && !matches!(self.bytes.get(self.at + 1), Some(b'{' | b'#')) {
            self.at += 1;
            self.token();
        }
        Ok(())
    }

    #[inline]
    fn token(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(ends_token).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    #[inline]
    fn take(&mut self, byte: u8) -> Parsed<bool> {
        let taken = self.peek()? == byte;
        self.at += usize::from(taken);
        Ok(taken)
    }

    /// There is something else here than `what`.
    #[cold]
    fn unexpected(&self, what: &str) -> Fault {
        /// Enough to recognise the place by.
        const MAX_SHOWN_CHARS: usize = 40;
        let rest = &self.bytes[self.at..];
        // A character has at most four bytes.
        let shown = String::from_utf8_lossy(&rest[..rest.len().min(4 * MAX_SHOWN_CHARS)]);
        let line = shown.lines().next().unwrap_or_default();
        let what = if rest.is_empty() {
            format!("the file ends where {what} is expected")
        } else if line.chars().count() <= MAX_SHOWN_CHARS {
            format!("`{line}` where {what} is expected")
        } else {
            format!(
                "`{}...` where {what} is expected",
                line.chars().take(MAX_SHOWN_CHARS).collect::<String>()
            )
        };
        // Within an op, a word that the file ends in may be half a word.
        let in_word = self.depth > 0 && !rest.iter().any(ends_token);
        Fault { at: self.at, begin: 0, what, cut_short: rest.is_empty() || in_word }
    }

    fn deeper<T>(&mut self, inside: impl FnOnce(&mut Cursor<'a>) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAX_DEPTH {
            let fault = self.unexpected(&format!("nothing nested deeper than {MAX_DEPTH}"));
            return Err(Fault { cut_short: false, ..fault });
        }
        self.depth += 1;
        let read = inside(self);
        self.depth -= 1;
        read
    }

    /// A map: `each` is called with every field's name, the cursor before its value.
    fn map(&mut self, what: &str, mut each: impl FnMut(&mut Cursor<'a>, &str) -> Parsed<()>) -> Parsed<()> {
        if !self.take(b'{')? {
            return Err(self.unexpected(what));
        }
        self.deeper(|cursor| {
            loop {
                if cursor.take(b'}')? {
                    return Ok(());
                }
                let name = cursor.word("a field's name or `}`")?;
                each(cursor, &name)?;
            }
        })
    }

    /// A vector or a list: `each` is called with the cursor before every element.
    #[inline]
    fn list(&mut self, what: &str, mut each: impl FnMut(&mut Cursor<'a>) -> Parsed<()>) -> Parsed<()> {
        let end = self.open(what)?;
        while !self.take(end)? {
            each(self)?;
        }
        Ok(())
    }

    /// Passes over the opening of a vector or a list; returns what closes it.
    #[inline]
    fn open(&mut self, what: &str) -> Parsed<u8> {
        let end = match self.peek()? {
            b'[' => b']',
            b'(' => b')',
            _ => return Err(self.unexpected(what)),
        };
        self.at += 1;
        Ok(end)
    }

    fn close(&mut self, end: u8) -> Parsed<()> {
        if self.take(end)? { Ok(()) } else { Err(self.unexpected(&format!("`{}`", end as char))) }
    }

    /// A keyword, a symbol or a string.
    fn word(&mut self, what: &str) -> Parsed<Cow<'a, str>> {
        match self.peek()? {
            b'"' => return self.string(),
            b':' => self.at += 1,
            _ => {}
        }
        let begin = self.at;
        let token = self.token();
        match std::str::from_utf8(token) {
            Ok(word) if !word.is_empty() => Ok(word.into()),
            _ => {
                self.at = begin;
                Err(self.unexpected(what))
            }
        }
    }

    fn string(&mut self) -> Parsed<Cow<'a, str>> {
        let begin = self.at;
        let inside = &self.bytes[begin + 1..];
        let len = inside.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(inside.len());
        if inside.get(len) == Some(&b'"') {
            self.at = begin + len + 2;
            return Ok(String::from_utf8_lossy(&inside[..len]));
        }
        let mut text = inside[..len].to_vec();
        self.at = begin + 1 + len;
        loop {
            match self.bytes.get(self.at) {
                None => return Err(self.unexpected("the end of a string")),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(String::from_utf8_lossy(&text).into_owned().into());
                }
                Some(b'\\') => {
                    self.at += 1;
                    let c = self.escape()?;
                    text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(byte) => {
                    text.push(*byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self) -> Parsed<char> {
        let Some(byte) = self.bytes.get(self.at) else {
            return Err(self.unexpected("the end of a string"));
        };
        self.at += 1;
        Ok(match byte {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let unit = self.hex4()?;
                // Characters beyond 16 bits come as two halves.
                if (0xd800..0xdc00).contains(&unit) && self.bytes[self.at..].starts_with(b"\\u") {
                    self.at += 2;
                    let low = self.hex4()?;
                    char::decode_utf16([unit, low]).next().and_then(Result::ok)
                } else {
                    char::from_u32(u32::from(unit))
                }
                .unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            byte => char::from(*byte),
        })
    }

    fn hex4(&mut self) -> Parsed<u16> {
        let digits = self.bytes.get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()) {
            Some(unit) => {
                self.at += 4;
                Ok(unit)
            }
            None => Err(self.unexpected("four hexadecimal digits")),
        }
    }

    #[inline]
    fn integer(&mut self, what: &str) -> Parsed<i64> {
        self.peek()?;
        let begin = self.at;
        let mut token = self.token();
        // An N only says that the number may be long.
        token = token.strip_suffix(b"N").unwrap_or(token);
        let (negative, digits) = match token {
            [b'-', digits @ ..] => (true, digits),
            [b'+', digits @ ..] => (false, digits),
            digits => (false, digits),
        };
        let mut n: Option<i64> = (!digits.is_empty()).then_some(0);
        for digit in digits {
            // Downwards, so that the smallest number fits too.
            n = n.filter(|_| digit.is_ascii_digit()).and_then(|n| {
                n.checked_mul(10).and_then(|n| n.checked_sub(i64::from(digit.wrapping_sub(b'0'))))
            });
        }
        let n = if negative { n } else { n.and_then(i64::checked_neg) };
        n.ok_or_else(|| {
            self.at = begin;
            self.unexpected(what)
        })
    }

    fn unsigned(&mut self, what: &str) -> Parsed<u64> {
        self.peek()?;
        let begin = self.at;
        u64::try_from(self.integer(what)?).map_err(|_| {
            self.at = begin;
            self.unexpected(what)
        })
    }

    /// An integer or `nil`, which stands as [`i64::MIN`] in the columns; that number itself is refused.
    #[inline]
    fn integer_or_nil(&mut self, what: &str) -> Parsed<i64> {
        let begin = self.at;
        if self.peek()? == b'n' {
            if self.token() == b"nil" {
                return Ok(i64::MIN);
            }
            self.at = begin;
        }
        match self.integer(what)? {
            i64::MIN => {
                self.at = begin;
                Err(self.unexpected(&format!("{what} above {}", i64::MIN)))
            }
            n => Ok(n),
        }
    }

    /// An integer, or a word that holds one.
    fn key(&mut self) -> Parsed<Key> {
        const WHAT: &str = "a key, a number,";
        let byte = self.peek()?;
        let begin = self.at;
        if byte != b'"' && byte != b':' {
            return self.integer(WHAT).map(Key);
        }
        let word = self.word(WHAT)?;
        word.parse().map(Key).map_err(|_| {
            self.at = begin;
            self.unexpected(WHAT)
        })
    }

    fn process(&mut self) -> Parsed<Process> {
        const WHAT: &str = "`:process`, a number from 0 or :nemesis,";
        self.peek()?;
        let begin = self.at;
        if self.word(WHAT)? == "nemesis" {
            return Ok(Process::Nemesis);
        }
        self.at = begin;
        if let Ok(n) = u32::try_from(self.integer(WHAT)?) {
            return Ok(Process::Client(n));
        }
        self.at = begin;
        Err(self.unexpected(WHAT))
    }

    fn f(&mut self) -> Parsed<F> {
        Ok(F::from_name(&self.word("`:f`, a word, e.g. :send,")?))
    }

    fn kind(&mut self) -> Parsed<Kind> {
        const WHAT: &str = "`:type`, one of :invoke, :ok, :fail, :info,";
        self.peek()?;
        let begin = self.at;
        let word = self.word(WHAT)?;
        Kind::ALL.into_iter().find(|kind| kind.name() == word).ok_or_else(|| {
            self.at = begin;
            self.unexpected(WHAT)
        })
    }

    fn is_nil(&mut self) -> Parsed<bool> {
        self.tags()?;
        let begin = self.at;
        if self.token() == b"nil" {
            return Ok(true);
        }
        self.at = begin;
        Ok(false)
    }

    /// An op's value, into the history's columns if it is of a kind that is judged.
    fn value(&mut self, f: &F, process: Process, builder: &mut OpBuilder<'_>) -> Parsed<Option<Json>> {
        if process == Process::Nemesis || !(f.has_mops() || f.has_keys()) {
            return self.json();
        }
        if self.is_nil()? {
            return Ok(None);
        }
        if f.has_keys() {
            self.list("a vector of keys", |cursor| {
                builder.key(cursor.key()?);
                Ok(())
            })?;
        } else {
            self.list("a vector of micro-operations", |cursor| cursor.mop(builder))?;
        }
        Ok(None)
    }

    fn mop(&mut self, builder: &mut OpBuilder<'_>) -> Parsed<()> {
        const WHAT: &str = "a micro-operation, one of [:send key value], [:send key [offset value]], [:poll], \
                            [:poll {key ...}],";
        let end = self.open(WHAT)?;
        self.peek()?;
        let begin = self.at;
        match &*self.word(WHAT)? {
            "send" => {
                let key = self.key()?;
                if matches!(self.peek()?, b'[' | b'(') {
                    let (offset, value) = self.record()?;
                    builder.send(key, value, Some(offset).filter(|offset| *offset != Offset::UNKNOWN));
                } else {
                    builder.send(key, self.record_value()?, None);
                }
            }
            "poll" if self.peek()? == end || self.is_nil()? => builder.asked(),
            "poll" => {
                builder.polled();
                if !self.take(b'{')? {
                    return Err(self.unexpected("the records by key, a map,"));
                }
                while !self.take(b'}')? {
                    builder.group(self.key()?);
                    self.list("a vector of records", |cursor| {
                        let (offset, value) = cursor.record()?;
                        builder.record(offset, value);
                        Ok(())
                    })?;
                }
            }
            _ => {
                self.at = begin;
                return Err(self.unexpected(WHAT));
            }
        }
        self.close(end)
    }

    #[inline]
    fn record(&mut self) -> Parsed<(Offset, Value)> {
        let end = self.open("a record, [offset value],")?;
        let offset = self.integer_or_nil("an offset, a number or nil,")?;
        let value = self.record_value()?;
        self.close(end)?;
        Ok((Offset(offset), value))
    }

    #[inline]
    fn record_value(&mut self) -> Parsed<Value> {
        self.integer_or_nil("a value, a number or nil,").map(Value)
    }

    fn rebalance(&mut self) -> Parsed<Vec<Rebalance>> {
        const WHAT: &str = "`:rebalance-log`, a vector of {:type word, :keys [key ...]},";
        let mut entries = Vec::new();
        if self.is_nil()? {
            return Ok(entries);
        }
        self.list(WHAT, |cursor| {
            let mut entry = Rebalance { kind: String::new(), keys: Vec::new() };
            cursor.tags()?;
            cursor.map(WHAT, |cursor, field| match field {
                "type" => {
                    entry.kind = cursor.word("a word")?.into_owned();
                    Ok(())
                }
                "keys" => cursor.list("a vector of keys", |cursor| {
                    entry.keys.push(cursor.key()?);
                    Ok(())
                }),
                _ => cursor.skip(),
            })?;
            entries.push(entry);
            Ok(())
        })?;
        Ok(entries)
    }

    fn committed_offsets(&mut self) -> Parsed<Vec<(Key, Offset)>> {
        let mut offsets = Vec::new();
        if self.is_nil()? {
            return Ok(offsets);
        }
        if !self.take(b'{')? {
            return Err(self.unexpected("`:offsets`, a map of keys and offsets,"));
        }
        while !self.take(b'}')? {
            let key = self.key()?;
            offsets.push((key, Offset(self.integer_or_nil("an offset, a number or nil,")?)));
        }
        Ok(offsets)
    }

    /// Any form; `None` for nil.
    fn json(&mut self) -> Parsed<Option<Json>> {
        Ok(Some(self.form()?).filter(|json| !json.is_null()))
    }

    /// Any form, as JSON.
    fn form(&mut self) -> Parsed<Json> {
        self.tags()?;
        match self.peek()? {
            b'"' => Ok(self.string()?.into_owned().into()),
            b'[' | b'(' => self.deeper(|cursor| {
                let mut items = Vec::new();
                cursor.list("a vector", |cursor| {
                    items.push(cursor.form()?);
                    Ok(())
                })?;
                Ok(Json::Array(items))
            }),
            b'#' if self.bytes.get(self.at + 1) == Some(&b'{') => self.deeper(|cursor| {
                cursor.at += 2;
                let mut items = Vec::new();
                while !cursor.take(b'}')? {
                    items.push(cursor.form()?);
                }
                Ok(Json::Array(items))
            }),
            b'{' => self.deeper(|cursor| {
                cursor.at += 1;
                let mut fields = Map::new();
                while !cursor.take(b'}')? {
                    let name = match cursor.form()? {
                        Json::String(name) => name,
                        other => other.to_string(),
                    };
                    fields.insert(name, cursor.form()?);
                }
                Ok(Json::Object(fields))
            }),
            _ => self.atom(),
        }
    }

    fn atom(&mut self) -> Parsed<Json> {
        let begin = self.at;
        if self.bytes.get(self.at) == Some(&b'\\') {
            // A character; it may be one that ends tokens.
            self.at += 2.min(self.bytes.len() - self.at);
        }
        self.token();
        let text = String::from_utf8_lossy(&self.bytes[begin..self.at]);
        Ok(match &*text {
            "" => return Err(self.unexpected("a form")),
            "nil" => Json::Null,
            "true" => true.into(),
            "false" => false.into(),
            text => {
                let number = text.strip_suffix(['N', 'M']).unwrap_or(text);
                if let Ok(n) = number.parse::<i64>() {
                    n.into()
                } else if let Ok(n) = number.parse::<u64>() {
                    n.into()
                } else if number.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+')
                    && let Some(n) = number.parse::<f64>().ok().and_then(serde_json::Number::from_f64)
                {
                    n.into()
                } else {
                    text.strip_prefix(':').unwrap_or(text).into()
                }
            }
        })
    }

    fn skip(&mut self) -> Parsed<()> {
        self.form().map(|_| ())
    }
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b',' | b'\n' | b'\t' | b'\r' | 0x0c)
}

fn ends_token(byte: &u8) -> bool {
    is_blank(byte) || matches!(byte, b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'"' | b';')
}

/// What was caught: a map as riprap writes it, or whatever a client threw.
fn error(json: Json) -> Option<OpError> {
    let bare = |code| OpError { code, definite: false, message: String::new() };
    Some(match json {
        Json::Object(error) if error.contains_key("code") => OpError {
            code: text(&error, "code"),
            definite: error.get("definite").and_then(Json::as_bool).unwrap_or(false),
            message: text(&error, "message"),
        },
        Json::String(code) => bare(code),
        other => bare(other.to_string()),
    })
}

fn txn(json: Json) -> Option<Txn> {
    let Json::Object(txn) = json else { return None };
    Some(Txn { id: text(&txn, "id"), outcome: text(&txn, "outcome") })
}

fn text(object: &Map<String, Json>, field: &str) -> String {
    object.get(field).and_then(Json::as_str).unwrap_or_default().to_owned()
}
