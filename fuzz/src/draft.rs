//! A small history, and options, out of any bytes.
//!
//! ```text
//! bytes := options form op*        form: whether the ops are put in an order that can have happened
//! op    := who what time? index? optional-field* mop*
//! ```
//!
//! Numbers are few, so that ops meet: keys 0 to 3, values and offsets up to 15, six processes; now and then null, negative,
//! or near the end of 64 bits. Bytes that are missing are 0.

use riprap_checker::{DEFAULT_PROGRESS_LIMIT_NS, Examples, Guarantees, Isolation, Options, Via};
use riprap_core::History;
use riprap_core::history::{Head, OpBuilder};
use riprap_core::op::{Extra, F, Key, Kind, Offset, OpError, Process, Rebalance, Txn, Value};
use std::collections::BTreeMap;

/// More would only be slower to shrink.
const MAX_ROWS: usize = 64;
/// Micro-operations of an op, groups of a poll and records of a group, at most.
const MAX_LIST: u8 = 4;
const PROCESSES: u8 = 6;

struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or_default()
    }

    fn below(&mut self, end: u8) -> u8 {
        self.byte() % end
    }

    fn number(&mut self) -> i64 {
        match self.byte() {
            byte @ 0..240 => i64::from(byte % 16),
            240 => -1,
            241 => i64::MAX,
            242 => i64::MIN + 1,
            byte => (1 << 62) + i64::from(byte % 4),
        }
    }

    /// A number or null, which is [`i64::MIN`] in a history's columns.
    fn number_or_null(&mut self) -> i64 {
        if self.0.first() == Some(&255) {
            self.byte();
            return i64::MIN;
        }
        self.number()
    }

    fn key(&mut self) -> Key {
        Key(i64::from(self.below(4)))
    }
}

/// The history and the options that `bytes` stand for.
pub fn draft(bytes: &[u8]) -> (History, Options) {
    let mut source = Source(bytes);
    let bits = source.byte();
    let bit = |n: u8| bits >> n & 1 == 1;
    let form = source.byte();
    let options = Options {
        isolation: if bit(0) { Isolation::ReadUncommitted } else { Isolation::ReadCommitted },
        via: if bit(1) { Via::Subscribe } else { Via::Assign },
        guarantees: if bit(2) { Guarantees::Jepsen } else { Guarantees::Riprap },
        acks_all: !bit(3),
        idempotent: !bit(4),
        ww: !bit(5),
        drained: !bit(6),
        vacuity: bit(7),
        examples: if form & 2 != 0 { Examples::All } else { Examples::Few },
        rw: form & 4 != 0,
        // Rows are a few nanoseconds apart.
        progress_limit_ns: if form & 8 != 0 { 4 } else { DEFAULT_PROGRESS_LIMIT_NS },
    };
    let mut history = History::new();
    if form & 1 == 0 {
        in_order(&mut source, &mut history);
    } else {
        in_any_order(&mut source, &mut history);
    }
    (history, options)
}

fn f(n: u8) -> F {
    let known = F::KNOWN.len() as u8;
    // Those whose values are looked at more often than the others.
    match n % (known + 6) {
        n if n < known => F::KNOWN[usize::from(n)].clone(),
        n if n == known => F::Other("jump".into()),
        n => [F::Send, F::Poll, F::Txn, F::Txn, F::Assign][usize::from(n - known - 1)].clone(),
    }
}

/// Sends what `next_value` says, or anything.
fn mops(
    source: &mut Source<'_>,
    f: &F,
    kind: Kind,
    mut next_value: impl FnMut(&mut Source<'_>, Key) -> i64,
    builder: &mut OpBuilder<'_>,
) {
    if f.has_keys() {
        (0..source.below(MAX_LIST)).for_each(|_| builder.key(source.key()));
    }
    if !f.has_mops() {
        return;
    }
    for _ in 0..1 + source.below(MAX_LIST) {
        let sends = match f {
            F::Send => true,
            F::Poll => false,
            _ => source.below(2) == 0,
        };
        if sends {
            let key = source.key();
            let value = next_value(source, key);
            let offset = Some(source.number_or_null()).filter(|n| kind != Kind::Invoke && *n != i64::MIN);
            builder.send(key, Value(value), offset.map(Offset));
        } else if kind == Kind::Invoke {
            builder.asked();
        } else {
            builder.polled();
            for _ in 0..source.below(MAX_LIST) {
                builder.group(source.key());
                for _ in 0..source.below(MAX_LIST) {
                    let offset = source.number_or_null();
                    builder.record(Offset(offset), Value(source.number_or_null()));
                }
            }
        }
    }
}

/// Most ops have no optional field, some one, a few several.
fn extra(source: &mut Source<'_>) -> Extra {
    let mut extra = Extra::default();
    let mut bits = source.byte();
    while bits >= 128 {
        match bits % 7 {
            0 => extra.from_beginning = true,
            1 => extra.abort = true,
            2 => extra.node = Some("n1".into()),
            3 => {
                let outcome = ["committed", "aborted", "unknown", ""][usize::from(source.below(4))];
                extra.txn = Some(Txn { id: format!("t{}", source.below(4)), outcome: outcome.into() });
            }
            4 => extra.offsets.push((source.key(), Offset(source.number_or_null()))),
            5 => {
                let kind = ["assigned", "revoked", "lost", ""][usize::from(source.below(4))];
                extra.rebalance.push(Rebalance { kind: kind.into(), keys: vec![source.key(), source.key()] });
            }
            _ => {
                let code = ["timeout", "aborted"][usize::from(source.below(2))].into();
                extra.error = Some(OpError { code, definite: source.below(2) == 0, message: String::new() });
            }
        }
        bits = source.byte();
    }
    extra
}

/// Rows that contradict each other as they like.
fn in_any_order(source: &mut Source<'_>, history: &mut History) {
    let mut time_ns = 0;
    while !source.0.is_empty() && history.len() < MAX_ROWS {
        let process = match source.below(PROCESSES + 1) {
            PROCESSES => Process::Nemesis,
            n => Process::Client(n.into()),
        };
        let kind = Kind::ALL[usize::from(source.below(4))];
        let f = f(source.byte());
        time_ns = if source.below(8) == 0 { source.number() } else { time_ns.wrapping_add(1) };
        let index = if source.below(8) == 0 { source.below(16).into() } else { history.len() as u64 };
        let extra = extra(source);
        let mut builder = history.build();
        if process != Process::Nemesis {
            mops(source, &f, kind, |source, _| source.number_or_null(), &mut builder);
        }
        builder.finish(Head { index, time_ns, process, kind, f: &f }, None, extra);
    }
}

/// What a thread has open: the word, and what its sends were given.
struct Open {
    f: F,
    sent: Vec<(Key, i64)>,
}

/// Rows that can have happened: each process invokes and completes in turn, and sends what nobody sent before.
fn in_order(source: &mut Source<'_>, history: &mut History) {
    let mut open: BTreeMap<u8, Open> = BTreeMap::new();
    let mut numbers: BTreeMap<u8, u32> = BTreeMap::new();
    let mut next: BTreeMap<Key, i64> = BTreeMap::new();
    while !source.0.is_empty() && history.len() < MAX_ROWS {
        let thread = source.below(PROCESSES);
        let number = *numbers.entry(thread).or_insert(thread.into());
        let row = history.len();
        let head = |kind, f| {
            let process = Process::Client(number);
            Head { index: row as u64, time_ns: row as i64, process, kind, f }
        };
        match open.remove(&thread) {
            None => {
                let f = f(source.byte());
                let mut sent = Vec::new();
                let mut builder = history.build();
                // The sends are drawn now and the polls' results at the end, but each from where they stand.
                let fresh = |_: &mut Source<'_>, key: Key| {
                    let next = next.entry(key).or_default();
                    *next += 1;
                    sent.push((key, *next - 1));
                    *next - 1
                };
                mops(source, &f, Kind::Invoke, fresh, &mut builder);
                builder.finish(head(Kind::Invoke, &f), None, Extra::default());
                open.insert(thread, Open { f, sent });
            }
            Some(Open { f, sent }) => {
                let kind = match source.below(8) {
                    _ if f == F::Crash => Kind::Info,
                    0..=5 => Kind::Ok,
                    6 => Kind::Info,
                    _ => Kind::Fail,
                };
                let extra = extra(source);
                let mut builder = history.build();
                complete(source, &f, &sent, &mut builder);
                builder.finish(head(kind, &f), None, extra);
                if kind == Kind::Info {
                    numbers.insert(thread, number + u32::from(PROCESSES));
                }
            }
        }
    }
}

/// The sends as they were invoked, each with an offset, and before each of them perhaps a poll.
fn complete(source: &mut Source<'_>, f: &F, sent: &[(Key, i64)], builder: &mut OpBuilder<'_>) {
    if f.has_keys() {
        (0..source.below(MAX_LIST)).for_each(|_| builder.key(source.key()));
    }
    let poll = |source: &mut Source<'_>, builder: &mut OpBuilder<'_>| {
        builder.polled();
        for _ in 0..source.below(MAX_LIST) {
            builder.group(source.key());
            // Mostly what a log says: one record after the other, the value a function of the offset.
            let (from, by) = (source.below(16), source.below(4));
            for n in 0..source.below(2 * MAX_LIST) {
                let offset = i64::from(from) + i64::from(n);
                match by {
                    3 => builder.record(Offset(source.number_or_null()), Value(source.number_or_null())),
                    by => builder.record(Offset(offset * (1 + i64::from(by))), Value(offset)),
                }
            }
        }
    };
    for (key, value) in sent {
        if *f == F::Txn && source.below(2) == 0 {
            poll(source, builder);
        }
        let offset = match source.below(8) {
            0 => Some(source.number_or_null().max(0)),
            1 => None,
            _ => Some(*value),
        };
        builder.send(*key, Value(*value), offset.map(Offset));
    }
    if *f == F::Poll || *f == F::Txn && sent.is_empty() {
        poll(source, builder);
    }
}
