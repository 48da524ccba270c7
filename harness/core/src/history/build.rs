//! Adding an op piece by piece, without an allocation for any piece: for readers of large files.

use super::{GroupRow, History, MopRow, NO_ROW};
use crate::op::{Extra, F, Key, Kind, Offset, Process, Value};
use serde_json::Value as Json;

/// What every op has.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Its number in the history.
    pub index: u64,
    /// Nanoseconds since the run began.
    pub time_ns: i64,
    /// Who.
    pub process: Process,
    /// Where in its life.
    pub kind: Kind,
    /// What.
    pub f: &'a F,
}

/// An op in the making. Dropped before [`OpBuilder::finish`] it leaves no trace: half of a malformed line is nothing.
pub struct OpBuilder<'a> {
    history: &'a mut History,
    /// How long the columns were before this op.
    mops: usize,
    keys: usize,
    groups: usize,
    records: usize,
    line: Option<u64>,
    finished: bool,
}

impl History {
    /// Begins an op at the end.
    pub fn build(&mut self) -> OpBuilder<'_> {
        OpBuilder {
            mops: self.mops.len(),
            keys: self.keys.len(),
            groups: self.groups.len(),
            records: self.read_offsets.len(),
            line: None,
            finished: false,
            history: self,
        }
    }
}

impl OpBuilder<'_> {
    /// Says on which line of its file the op stands.
    pub fn on_line(&mut self, line: u64) {
        self.line = Some(line);
    }

    /// Adds a micro-operation: a send.
    pub fn send(&mut self, key: Key, value: Value, offset: Option<Offset>) {
        let offset = offset.unwrap_or(Offset::UNKNOWN);
        self.history.mops.push(MopRow::Send { key, value, offset });
    }

    /// Adds a micro-operation: a poll that has not returned.
    pub fn asked(&mut self) {
        self.history.mops.push(MopRow::Asked);
    }

    /// Adds a micro-operation: a poll that returned the groups that follow.
    pub fn polled(&mut self) {
        let at = end(self.history.groups.len(), "groups of records");
        self.history.mops.push(MopRow::Polled { groups_begin: at, groups_end: at });
    }

    /// Adds a group to the poll: the records of this key, which follow.
    /// Panics: the last micro-operation is not a poll that returned.
    pub fn group(&mut self, key: Key) {
        let at = end(self.history.read_offsets.len(), "records");
        self.history.groups.push(GroupRow { key, begin: at, end: at });
        match self.history.mops.last_mut() {
            Some(MopRow::Polled { groups_end, .. }) => *groups_end += 1,
            _ => panic!("a group of records belongs to a poll that returned"),
        }
    }

    /// Adds a record to the group. Panics: there is no group.
    pub fn record(&mut self, offset: Offset, value: Value) {
        self.history.read_offsets.push(offset);
        self.history.read_values.push(value);
        self.history.groups.last_mut().expect("a record belongs to a group").end += 1;
    }

    /// Adds a key to an assign or a subscribe.
    pub fn key(&mut self, key: Key) {
        self.history.keys.push(key);
    }

    /// The op is complete: it is the history's last row now. A completion is paired with its process' open invocation.
    /// Panics: the history is full.
    pub fn finish(mut self, head: Head<'_>, json: Option<Json>, extra: Extra) {
        self.finished = true;
        let line = self.line;
        let history = &mut *self.history;
        let row = end(history.len(), "ops");
        let word = history.word(head.f);
        if let Some(line) = line
            && history.next_line(row) != line
        {
            history.lines.push((row, line));
        }
        history.index.push(head.index);
        history.time_ns.push(head.time_ns);
        history.process.push(head.process);
        history.kind.push(head.kind);
        history.f.push(word);
        history.mops_end.push(end(history.mops.len(), "micro-operations"));
        history.keys_end.push(end(history.keys.len(), "keys"));
        // The last record's place was checked when its group began, but for the length of one group.
        end(history.read_offsets.len(), "records");
        if let Some(json) = json {
            history.json.insert(row, json);
        }
        if !extra.is_empty() {
            history.extra.insert(row, extra);
        }
        history.pair(row, head.process, head.kind);
    }
}

impl Drop for OpBuilder<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.history.mops.truncate(self.mops);
            self.history.keys.truncate(self.keys);
            self.history.groups.truncate(self.groups);
            self.history.read_offsets.truncate(self.records);
            self.history.read_values.truncate(self.records);
        }
    }
}

fn end(len: usize, what: &str) -> u32 {
    u32::try_from(len).unwrap_or_else(|_| panic!("a history has fewer than 2^32 {what}"))
}

/// So many words are looked for one after the other, which is fastest for the few that a run uses.
const MAX_EARLY_WORDS: usize = 24;

impl History {
    /// Where `f` stands among the words. Files from elsewhere may have a word for every op.
    fn word(&mut self, f: &F) -> u32 {
        let early = &self.words[..self.words.len().min(MAX_EARLY_WORDS)];
        if let Some(word) = early.iter().position(|word| word == f) {
            return word as u32;
        }
        if let Some(word) = self.late_words.get(f) {
            return *word;
        }
        let word = self.words.len() as u32;
        self.words.push(f.clone());
        if self.words.len() > MAX_EARLY_WORDS {
            self.late_words.insert(f.clone(), word);
        }
        word
    }

    fn next_line(&self, row: u32) -> u64 {
        self.lines.last().map_or(0, |(from, line)| line + u64::from(row - from))
    }

    fn pair(&mut self, row: u32, process: Process, kind: Kind) {
        if kind == Kind::Invoke {
            self.partner.push(NO_ROW);
            self.open.insert(process, row);
        } else {
            let invocation = self.open.remove(&process).unwrap_or(NO_ROW);
            self.partner.push(invocation);
            if invocation != NO_ROW {
                self.partner[invocation as usize] = row;
            }
        }
    }
}
