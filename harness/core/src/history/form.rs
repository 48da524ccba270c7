//! Whether a history is one: that what it says of itself can have happened in this order.
//!
//! Looked for: a completion that nobody invoked, or under another word than it was invoked; a process with two ops open
//! at once, or one that goes on after an `info`; times that run backwards, indices that do not rise; negative offsets; an
//! `ok` op whose transaction aborted, a `fail` one whose transaction committed.
//! A poll that saw what nobody sent is no fault of form: that is for a checker. The nemesis is not bound by any of it
//! but time and index: other tools complete its ops in their own way.

use super::MopRef;
use super::{History, OpRef};
use crate::op::{Kind, Offset, Process, Txn};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How a history may contradict itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FormFault {
    /// A completion that nobody invoked, or that answers to another invocation.
    Unpaired,
    /// A process invoked an op while it had one open.
    Overlapping,
    /// A process went on after an `info`.
    Unretired,
    /// A time or an index lower than the one before.
    Backwards,
    /// An offset below 0.
    NegativeOffset,
    /// The op ended otherwise than its transaction.
    Outcome,
}

/// A place where a history contradicts itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IllFormed {
    /// How.
    pub fault: FormFault,
    /// The op's place in the history.
    pub row: usize,
    /// The op's number.
    pub index: u64,
    /// The line of the file, from 1, if the history was read from one.
    pub line: Option<u64>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for IllFormed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "op {}: {}", self.index, self.what)
    }
}

/// All places where a history contradicts itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IllFormedness {
    /// How many there are of each kind; none of a kind that is not there.
    pub counts: BTreeMap<FormFault, u64>,
    /// The first of them, of each kind at most [`IllFormedness::MAX_TOLD`].
    pub first: Vec<IllFormed>,
}

impl IllFormedness {
    /// One is enough to distrust a history, a few show the pattern; a million would only fill the disk.
    pub const MAX_TOLD: u64 = 4;

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// All but those of this kind.
    #[must_use]
    pub fn without(mut self, fault: FormFault) -> IllFormedness {
        self.counts.remove(&fault);
        self.first.retain(|found| found.fault != fault);
        self
    }

    fn add(&mut self, fault: FormFault, op: OpRef<'_>, what: impl FnOnce() -> String) {
        let count = self.counts.entry(fault).or_default();
        *count += 1;
        if *count <= IllFormedness::MAX_TOLD {
            let (row, index, line) = (op.row(), op.index(), op.line());
            self.first.push(IllFormed { fault, row, index, line, what: what() });
        }
    }
}

impl History {
    /// Where the history contradicts itself.
    pub fn ill_formedness(&self) -> IllFormedness {
        let mut found = IllFormedness::default();
        let mut open = BTreeMap::new();
        let mut retired = BTreeSet::new();
        let mut before: Option<OpRef<'_>> = None;
        for op in self.ops() {
            if let Some(before) = before {
                if op.time_ns() < before.time_ns() {
                    found.add(FormFault::Backwards, op, || {
                        format!(
                            "its time {} is before op {}'s, {}",
                            op.time_ns(),
                            before.index(),
                            before.time_ns()
                        )
                    });
                }
                if op.index() <= before.index() {
                    found.add(FormFault::Backwards, op, || {
                        format!("its index is not above that of the op before, {}", before.index())
                    });
                }
            }
            before = Some(op);
            let Process::Client(process) = op.process() else { continue };
            if op.kind() == Kind::Invoke {
                if retired.contains(&process) {
                    found.add(FormFault::Unretired, op, || {
                        format!("process {process} goes on after an info, which retires it")
                    });
                }
                if let Some(earlier) = open.insert(process, op) {
                    found.add(FormFault::Overlapping, op, || {
                        format!("process {process} invokes while its op {} is open", earlier.index())
                    });
                }
                continue;
            }
            match open.remove(&process) {
                None => found.add(FormFault::Unpaired, op, || {
                    format!("process {process} completes what it did not invoke")
                }),
                Some(invocation) if invocation.f() != op.f() => found.add(FormFault::Unpaired, op, || {
                    let (invoked, completed) = (invocation.f().name(), op.f().name());
                    format!("completes op {}, a {invoked}, as a {completed}", invocation.index())
                }),
                Some(_) => {}
            }
            if op.kind() == Kind::Info {
                retired.insert(process);
            }
            if let Some(offset) = negative_offset(op) {
                found.add(FormFault::NegativeOffset, op, || format!("offset {offset} is negative"));
            }
            if let (Kind::Ok, Some(outcome @ Txn::ABORTED)) | (Kind::Fail, Some(outcome @ Txn::COMMITTED)) =
                (op.kind(), op.outcome())
            {
                found.add(FormFault::Outcome, op, || {
                    format!("it is {}, but its transaction was {outcome}", op.kind().name())
                });
            }
        }
        found
    }
}

fn negative_offset(op: OpRef<'_>) -> Option<Offset> {
    let is_negative = |offset: &Offset| offset.0 < 0 && *offset != Offset::UNKNOWN;
    op.mops().find_map(|mop| match mop {
        MopRef::Send { offset, .. } => offset.filter(is_negative),
        MopRef::Asked => None,
        MopRef::Polled(reads) => {
            reads.groups().find_map(|(_, offsets, _)| offsets.iter().copied().find(is_negative))
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::history::read_jsonl;

    /// A line for each `process kind f [time]`; blank lines count.
    fn check(lines: &[&str], expect: &[&str]) {
        let mut text = String::new();
        for (index, line) in lines.iter().enumerate() {
            let words: Vec<&str> = line.split(' ').collect();
            if let [process, kind, f, rest @ ..] = &words[..] {
                let time = rest.first().map_or(index.to_string(), |time| (*time).to_owned());
                let value = rest.get(1).unwrap_or(&"null");
                text += &format!(
                    "{{\"process\":{process},\"type\":\"{kind}\",\"f\":\"{f}\",\"time\":{time},\"value\":{value}}}"
                );
            }
            text += "\n";
        }
        let (history, _) = read_jsonl(text.as_bytes()).expect("well formed");
        let found = history.ill_formedness();
        assert_eq!(found.count() as usize, expect.len());
        assert_eq!(found.first.iter().map(ToString::to_string).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn contradictions_are_found() {
        check(&[], &[]);
        check(&["0 invoke send", "1 invoke poll", "0 ok send", "0 invoke poll", "1 info poll"], &[]);
        check(
            &["0 invoke send", "", "1 ok send"],
            &["line 3: op 1: process 1 completes what it did not invoke"],
        );
        check(
            &["0 invoke send", "0 invoke poll", "0 ok poll", "0 ok send"],
            &[
                "line 2: op 1: process 0 invokes while its op 0 is open",
                "line 4: op 3: process 0 completes what it did not invoke",
            ],
        );
        check(
            &["0 invoke crash", "0 info crash", "0 invoke send"],
            &["line 3: op 2: process 0 goes on after an info, which retires it"],
        );
        check(&["0 invoke send", "0 ok poll"], &["line 2: op 1: completes op 0, a send, as a poll"]);
        check(&["0 invoke send 7", "0 ok send 6"], &["line 2: op 1: its time 6 is before op 0's, 7"]);
        check(
            &["0 invoke send", "0 ok send 7 [[\"send\",1,[-1,5]]]"],
            &["line 2: op 1: offset -1 is negative"],
        );
        check(
            &["0 invoke poll", "0 ok poll 7 [[\"poll\",{\"1\":[[null,5],[-2,6]]}]]"],
            &["line 2: op 1: offset -2 is negative"],
        );
        for (kind, outcome, fault) in [
            ("ok", "aborted", Some("line 2: op 1: it is ok, but its transaction was aborted")),
            ("fail", "committed", Some("line 2: op 1: it is fail, but its transaction was committed")),
            ("ok", "committed", None),
            ("fail", "aborted", None),
            ("info", "committed", None),
            ("info", "aborted", None),
            ("ok", "unknown", None),
        ] {
            let txn = format!("null,\"txn\":{{\"id\":\"a\",\"outcome\":\"{outcome}\"}}");
            check(
                &["0 invoke txn", &format!("0 {kind} txn 7 {txn}")],
                &fault.into_iter().collect::<Vec<_>>(),
            );
        }
        // The nemesis has no completions in other tools, and more than one in a row.
        check(&["\"nemesis\" info kill", "\"nemesis\" info kill", "\"nemesis\" invoke kill"], &[]);
    }

    #[test]
    fn only_the_first_are_told() {
        let op = "{\"process\":0,\"type\":\"ok\",\"f\":\"send\",\"value\":null}\n";
        let (history, _) = read_jsonl(op.repeat(1000).as_bytes()).expect("well formed");
        let found = history.ill_formedness();
        assert_eq!((found.count(), found.first.len() as u64), (1000, super::IllFormedness::MAX_TOLD));
        assert_eq!(found.without(super::FormFault::Unpaired), super::IllFormedness::default());
    }
}
