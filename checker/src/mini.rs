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
//! p5:10=15+5@11,6@3    the op committed these offsets for its group
//! g5=11,6=_            the group's committed offsets are asked for: of key 5 it is 11, of key 6 there is none
//! !(p5:10=15)x         the transaction was aborted; c instead of x: it was committed
//! d5=12/20             the client tells how far it is: key 5 at position 12, the end at 20
//! #drain               the nemesis marks a phase
//! w30                  30 seconds pass
//! _                    instead of a value or an offset: null
//! ```
//!
//! Every op that is not split into `<` and `>` is invoked and completed before the next. Time is the row's number, in
//! nanoseconds, and what passed by `w`.
//!
//! ```
//! use riprap_checker::{Options, check, mini};
//! let history = mini::parse("s5=17@12 1/s5=18@13 2/p5:13=18");
//! let verdict = check(&history, &Options::default());
//! assert_eq!(verdict.why[0], "lost-write: key 5 value 17 acked at offset 12 (op 1) was read by nobody, though op 5 read \
//!     value 18 at offset 13");
//! ```

use riprap_core::History;
use riprap_core::op::{Extra, F, Key, Kind, Mop, Offset, Op, OpValue, Process, Reads, Rebalance, Txn, Value};
use riprap_core::phase::PHASE;
use serde_json::{Map, Value as Json, json};

/// Reads a history. Panics: what it is given is not one; this is for text that somebody wrote by hand.
#[track_caller]
pub fn parse(text: &str) -> History {
    let mut history = History::new();
    let mut waited_ns = 0;
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        // A transaction may hold blanks.
        let mut depth = 0;
        let end = rest.find(|c: char| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0 && c.is_whitespace()
        });
        let (word, next) = rest.split_at(end.unwrap_or(rest.len()));
        match word.strip_prefix('w').map(str::parse::<i64>) {
            Some(Ok(seconds)) => waited_ns += seconds * 1_000_000_000,
            _ => op(word, &mut history, waited_ns)
                .unwrap_or_else(|| panic!("`{word}` is not an op; see the grammar in mini.rs")),
        }
        rest = next.trim_start();
    }
    history
}

fn op(word: &str, history: &mut History, waited_ns: i64) -> Option<()> {
    let mut push = |process, kind, f: &F, value, extra| {
        let row = history.len() as u64;
        history.push(Op {
            index: row,
            time_ns: row as i64 + waited_ns,
            process,
            kind,
            f: f.clone(),
            value,
            extra,
        });
    };
    if let Some(name) = word.strip_prefix('#') {
        for kind in [Kind::Invoke, Kind::Info] {
            let value = if kind == Kind::Invoke { OpValue::Json(name.into()) } else { OpValue::None };
            push(Process::Nemesis, kind, &F::from_name(PHASE), value, Extra::default());
        }
        return Some(());
    }
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
    // What follows the op's own value, from the last to the first.
    let (word, offsets) = match word.split_once('+') {
        Some((word, offsets)) => (word, self::offsets(offsets)?),
        None => (word, Vec::new()),
    };
    let (word, rebalanced) = match word.split_once('~') {
        Some((word, keys)) => (word, self::keys(keys)?),
        None => (word, Vec::new()),
    };
    let (word, outcome) = match word.as_bytes() {
        [.., b')', b'x'] => (&word[..word.len() - 1], Some(Txn::ABORTED)),
        [.., b')', b'c'] => (&word[..word.len() - 1], Some(Txn::COMMITTED)),
        _ => (word, None),
    };
    // A debug has a slash of its own.
    let (process, word) = match word.split_once('/') {
        Some((process, word)) if !process.starts_with('d') => (process.parse().ok()?, word),
        _ => (0, word),
    };
    let (f, value) = value(word)?;
    let kind = if f == F::Crash { Kind::Info } else { kind };
    let rebalance = if rebalanced.is_empty() {
        Vec::new()
    } else {
        vec![Rebalance { kind: Rebalance::ASSIGNED.to_owned(), keys: rebalanced }]
    };
    let from_beginning = word.starts_with('A');
    let process = Process::Client(process);
    if invoked {
        push(process, Kind::Invoke, &f, as_invoked(&value), Extra { from_beginning, ..Extra::default() });
    }
    if completed {
        let txn = outcome.map(|outcome| Txn { id: "mini".to_owned(), outcome: outcome.to_owned() });
        push(process, kind, &f, value, Extra { rebalance, from_beginning, txn, offsets, ..Extra::default() });
    }
    Some(())
}

/// What an op was asked to do, given what it did.
pub fn as_invoked(value: &OpValue) -> OpValue {
    let mops = match value {
        OpValue::Mops(mops) => mops,
        // What a `committed` is asked for, it tells as the keys of its map; a `debug` is asked for nothing.
        OpValue::Json(Json::Object(told)) if told.values().all(|told| !told.is_object()) => {
            return OpValue::Json(told.keys().filter_map(|key| key.parse::<i64>().ok()).collect());
        }
        OpValue::Json(_) => return OpValue::None,
        other => return other.clone(),
    };
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
        b'g' => Some((F::Committed, OpValue::Json(committed(&word[1..])?))),
        b'd' => Some((F::Debug, OpValue::Json(progress(&word[1..])?))),
        b'c' if word.len() == 1 => Some((F::Crash, OpValue::None)),
        _ => None,
    }
}

fn keys(text: &str) -> Option<Vec<Key>> {
    text.split(',').filter(|key| !key.is_empty()).map(|key| key.parse().ok().map(Key)).collect()
}

fn offsets(text: &str) -> Option<Vec<(Key, Offset)>> {
    let offset = |word: &str| {
        let (key, offset) = word.split_once('@')?;
        Some((Key(key.parse().ok()?), Offset(offset.parse().ok()?)))
    };
    text.split(',').map(offset).collect()
}

fn committed(text: &str) -> Option<Json> {
    let offset = |word: &str| {
        let (key, offset) = word.split_once('=')?;
        Some((key.to_owned(), if offset == "_" { Json::Null } else { offset.parse::<i64>().ok()?.into() }))
    };
    text.split(',').map(offset).collect::<Option<Map<String, Json>>>().map(Json::Object)
}

fn progress(text: &str) -> Option<Json> {
    let (key, at) = text.split_once('=')?;
    let (position, end) = at.split_once('/')?;
    Some(json!({key: {"position": position.parse::<i64>().ok()?, "end": end.parse::<i64>().ok()?}}))
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
    /// Less than this is the row's number.
    const NS_PER_S: i64 = 1_000_000_000;
    let mut words = Vec::new();
    let mut waited_s = 0;
    let mut rows = history.ops().peekable();
    while let Some(op) = rows.next() {
        let passed_s = op.time_ns() / NS_PER_S - waited_s;
        if passed_s > 0 {
            words.push(format!("w{passed_s}"));
            waited_s += passed_s;
        }
        if op.process() == Process::Nemesis {
            // Only marks can be said.
            words.extend(op.json().and_then(Json::as_str).map(|name| format!("#{name}")));
            continue;
        }
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
        (F::Committed, OpValue::Json(Json::Object(told))) => {
            let told = told.iter().map(|(key, offset)| format!("{key}={}", null(offset.to_string())));
            format!("g{}", told.collect::<Vec<_>>().join(","))
        }
        (F::Debug, OpValue::Json(Json::Object(told))) => {
            let told = told.iter().map(|(key, at)| format!("d{key}={}/{}", at["position"], at["end"]));
            told.collect::<Vec<_>>().join(" ")
        }
        (f, _) => f.name().to_owned(),
    };
    let outcome = match op.extra.txn.as_ref().map(|txn| txn.outcome.as_str()) {
        Some(Txn::ABORTED) => "x",
        Some(Txn::COMMITTED) => "c",
        _ => "",
    };
    let committed = op.extra.offsets.iter().map(|(key, offset)| format!("{key}@{offset}"));
    let committed = committed.collect::<Vec<_>>().join(",");
    let committed = if committed.is_empty() { committed } else { format!("+{committed}") };
    let rebalanced: Vec<Key> = op.extra.rebalance.iter().flat_map(|entry| entry.keys.clone()).collect();
    let rebalanced = if rebalanced.is_empty() { String::new() } else { format!("~{}", list(&rebalanced)) };
    format!("{kind}{process}{value}{outcome}{rebalanced}{committed}")
}

fn null(text: String) -> String {
    if text == "null" { "_".to_owned() } else { text }
}

fn print_mop(mop: &Mop) -> String {
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
            "#main u5,6 1/p5:10=15,11=16~5+5@12,6@3 g5=12,6=_ #drain !(s5=1 p5:10=15)x ?(s5=2)c d5=12/20",
            "s5=1@0 w30 1/p5:0=1 w12 #undrained",
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
