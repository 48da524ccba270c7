//! Histories as one-liners, for tests and documents.
//!
//! ```text
//! s5=17@12             process 0 sends value 17 to key 5, acknowledged at offset 12
//! s5=17                ... acknowledged, the offset unknown
//! p5:10=15,11=16       process 0 polls, and is given from key 5 value 15 at offset 10 and 16 at 11
//! p5:10=15;6:3=4  p    ... from keys 5 and 6; nothing at all
//! (s5=17@12 p5:10=15)  one op of several micro-operations: a transaction
//! a5,6  A5,6  u5,6     assign keys 5 and 6; ... and go back to their beginning; subscribe
//! c                    the client crashes
//! 3/s5=17@12           process 3 does it
//! ?s5=17  !s5=17       it ended in info; in fail
//! <3/s5=17  >3/s5=17@12   only the invocation; only the completion: between them others act
//! p5:10=15~5,6         keys 5 and 6 were rebalanced during the op
//! _                    instead of a value or an offset: null
//! ```
//!
//! Every op that is not split into `<` and `>` is invoked and completed before the next. Time is the row's number.
//!
//! ```
//! use riprap_checker::{Options, check, mini};
//! let history = mini::parse("s5=17@12 1/s5=18@13 2/p5:13=18");
//! let verdict = check(&history, &Options::default());
//! assert_eq!(verdict.why[0], "lost-write: key 5 value 17 acked at offset 12 (op 1) was read by nobody, though op 5 read \
//!     value 18 at offset 13");
//! ```

use riprap_core::History;
use riprap_core::op::{Extra, F, Key, Kind, Mop, Offset, Op, OpValue, Process, Reads, Rebalance, Value};

/// Reads a history. Panics: what it is given is not one; this is for text that somebody wrote by hand.
#[track_caller]
pub fn parse(text: &str) -> History {
    let mut history = History::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        // A transaction may hold blanks.
        let mut depth = 0;
        let end = rest.find(|c: char| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0 && c.is_whitespace()
        });
        let (word, next) = rest.split_at(end.unwrap_or(rest.len()));
        op(word, &mut history).unwrap_or_else(|| panic!("`{word}` is not an op; see the grammar in mini.rs"));
        rest = next.trim_start();
    }
    history
}

fn op(word: &str, history: &mut History) -> Option<()> {
    let (invoked, completed, word) = match word.as_bytes()[0] {
        b'<' => (true, false, &word[1..]),
        b'>' => (false, true, &word[1..]),
        _ => (true, true, word),
    };
    let (kind, word) = match word.as_bytes().first()? {
        b'?' => (Kind::Info, &word[1..]),
        b'!' => (Kind::Fail, &word[1..]),
        _ => (Kind::Ok, word),
    };
    let (process, word) = match word.split_once('/') {
        Some((process, word)) => (process.parse().ok()?, word),
        None => (0, word),
    };
    let (word, rebalanced) = match word.split_once('~') {
        Some((word, keys)) => (word, self::keys(keys)?),
        None => (word, Vec::new()),
    };
    let (f, value) = value(word)?;
    let kind = if f == F::Crash { Kind::Info } else { kind };
    let rebalance = if rebalanced.is_empty() {
        Vec::new()
    } else {
        vec![Rebalance { kind: "assigned".to_owned(), keys: rebalanced }]
    };
    let from_beginning = word.starts_with('A');
    let mut push = |kind, value| {
        let row = history.len();
        let rebalance = if kind == Kind::Invoke { Vec::new() } else { rebalance.clone() };
        let extra = Extra { rebalance, from_beginning, ..Extra::default() };
        let process = Process::Client(process);
        history.push(Op {
            index: row as u64,
            time_ns: row as i64,
            process,
            kind,
            f: f.clone(),
            value,
            extra,
        });
    };
    if invoked {
        push(Kind::Invoke, as_invoked(&value));
    }
    if completed {
        push(kind, value);
    }
    Some(())
}

/// What an op was asked to do, given what it did.
pub fn as_invoked(value: &OpValue) -> OpValue {
    let OpValue::Mops(mops) = value else { return value.clone() };
    let asked = mops.iter().map(|mop| match *mop {
        Mop::Send { key, value, .. } => Mop::Send { key, value, offset: None },
        Mop::Poll(_) => Mop::Poll(None),
    });
    OpValue::Mops(asked.collect())
}

fn value(word: &str) -> Option<(F, OpValue)> {
    if let Some(inside) = word.strip_prefix('(') {
        let mops: Option<Vec<Mop>> = inside.strip_suffix(')')?.split_whitespace().map(mop).collect();
        return Some((F::Txn, OpValue::Mops(mops?)));
    }
    match word.as_bytes().first()? {
        b's' => Some((F::Send, OpValue::Mops(vec![mop(word)?]))),
        b'p' => Some((F::Poll, OpValue::Mops(vec![mop(word)?]))),
        b'a' | b'A' => Some((F::Assign, OpValue::Keys(keys(&word[1..])?))),
        b'u' => Some((F::Subscribe, OpValue::Keys(keys(&word[1..])?))),
        b'c' if word.len() == 1 => Some((F::Crash, OpValue::None)),
        _ => None,
    }
}

fn keys(text: &str) -> Option<Vec<Key>> {
    text.split(',').filter(|key| !key.is_empty()).map(|key| key.parse().ok().map(Key)).collect()
}

fn mop(word: &str) -> Option<Mop> {
    if let Some(send) = word.strip_prefix('s') {
        let (key, value) = send.split_once('=')?;
        let (value, offset) = match value.split_once('@') {
            Some((value, offset)) => (value, Some(Offset(offset.parse().ok()?))),
            None => (value, None),
        };
        return Some(Mop::Send { key: Key(key.parse().ok()?), value: Value(number(value)?), offset });
    }
    let mut reads = Reads::new();
    for group in word.strip_prefix('p')?.split(';').filter(|group| !group.is_empty()) {
        let (key, records) = group.split_once(':')?;
        let records = records.split(',').filter(|record| !record.is_empty()).map(|record| {
            let (offset, value) = record.split_once('=')?;
            Some((Offset(number(offset)?), Value(number(value)?)))
        });
        reads.push((Key(key.parse().ok()?), records.collect::<Option<_>>()?));
    }
    Some(Mop::Poll(Some(reads)))
}

fn number(text: &str) -> Option<i64> {
    if text == "_" { Some(Value::NIL.0) } else { text.parse().ok() }
}

/// A history in the same words: completions alone where nobody acted in between.
pub fn print(history: &History) -> String {
    let mut words = Vec::new();
    let mut rows = history.ops().peekable();
    while let Some(op) = rows.next() {
        let next = rows.peek().filter(|next| op.partner().is_some_and(|partner| partner.row() == next.row()));
        let (split, op) = match (op.kind(), next) {
            (Kind::Invoke, Some(_)) => ("", rows.next().expect("just peeked")),
            (Kind::Invoke, None) => ("<", op),
            _ => (">", op),
        };
        words.push(format!("{split}{}", print_op(&op.to_op())));
    }
    words.join(" ")
}

fn print_op(op: &Op) -> String {
    let kind = match op.kind {
        Kind::Info if op.f != F::Crash => "?",
        Kind::Fail => "!",
        _ => "",
    };
    let process = if op.process == Process::Client(0) { String::new() } else { format!("{}/", op.process) };
    let list = |keys: &[Key]| keys.iter().map(Key::to_string).collect::<Vec<_>>().join(",");
    let value = match (&op.f, &op.value) {
        (F::Assign, OpValue::Keys(keys)) if op.extra.from_beginning => format!("A{}", list(keys)),
        (F::Assign, OpValue::Keys(keys)) => format!("a{}", list(keys)),
        (F::Subscribe, OpValue::Keys(keys)) => format!("u{}", list(keys)),
        (F::Txn, OpValue::Mops(mops)) => {
            format!("({})", mops.iter().map(print_mop).collect::<Vec<_>>().join(" "))
        }
        (_, OpValue::Mops(mops)) => mops.iter().map(print_mop).collect::<Vec<_>>().join(" "),
        (F::Crash, _) => "c".to_owned(),
        (f, _) => f.name().to_owned(),
    };
    let rebalanced: Vec<Key> = op.extra.rebalance.iter().flat_map(|entry| entry.keys.clone()).collect();
    let rebalanced = if rebalanced.is_empty() { String::new() } else { format!("~{}", list(&rebalanced)) };
    format!("{kind}{process}{value}{rebalanced}")
}

fn print_mop(mop: &Mop) -> String {
    let null = |text: String| if text == "null" { "_".to_owned() } else { text };
    match mop {
        Mop::Send { key, value, offset: Some(offset) } => {
            format!("s{key}={}@{offset}", null(value.to_string()))
        }
        Mop::Send { key, value, offset: None } => format!("s{key}={}", null(value.to_string())),
        Mop::Poll(None) => "p".to_owned(),
        Mop::Poll(Some(reads)) => {
            let groups = reads.iter().map(|(key, records)| {
                let records = records.iter().map(|(offset, value)| {
                    format!("{}={}", null(offset.to_string()), null(value.to_string()))
                });
                format!("{key}:{}", records.collect::<Vec<_>>().join(","))
            });
            format!("p{}", groups.collect::<Vec<_>>().join(";"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_printed_again() {
        for text in [
            "s5=17@12 s5=18 1/p5:10=15,11=16;6:3=4 p (s5=17@12 p5:10=15) a5,6 A5 u5,6 c",
            "?3/s5=17 !s5=_ <3/s5=1 4/p >3/s5=1@2 p5:_=15,11=_~5,6 <4/p",
        ] {
            assert_eq!(print(&parse(text)), text);
        }
    }

    #[test]
    fn an_op_is_two_rows() {
        let history = parse("s5=17@12 1/c");
        let rows: Vec<(Kind, Process)> = history.ops().map(|op| (op.kind(), op.process())).collect();
        let client = Process::Client;
        assert_eq!(
            rows,
            [
                (Kind::Invoke, client(0)),
                (Kind::Ok, client(0)),
                (Kind::Invoke, client(1)),
                (Kind::Info, client(1))
            ]
        );
        assert_eq!(history.op(1).mops().next().expect("a send").to_mop(), mop("s5=17@12").expect("a send"));
        assert_eq!(history.op(0).mops().next().expect("a send").to_mop(), mop("s5=17").expect("a send"));
    }
}
