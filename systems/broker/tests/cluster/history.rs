//! What clients saw, and what must never be.

use std::collections::{BTreeMap, BTreeSet};

/// A partition of the one topic, and an offset in it.
pub(crate) type Place = (i32, i64);

/// What became of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Its producer has not come to an end with it.
    Open,
    Committed,
    Aborted,
}

#[derive(Default)]
pub(crate) struct History {
    next_value: u64,
    /// Acknowledged with acks=all.
    pub(crate) acked: BTreeMap<Place, u64>,
    /// Sent by idempotent producers, who repeat themselves.
    pub(crate) idempotent: BTreeSet<u64>,
    /// Read by consumers.
    pub(crate) seen: BTreeMap<Place, u64>,
    pub(crate) violations: Vec<String>,
    /// No new records from now on; what was begun is still finished.
    pub(crate) is_draining: bool,
    /// Records of idempotent producers that are neither acknowledged nor given up.
    pub(crate) unfinished: usize,
    pub(crate) commits_acked: u64,
    /// What each member of the group has read, from where it was told to begin: by partition, from and up to.
    pub(crate) group_read: Vec<(i32, i64, i64)>,
    /// The highest offset of each partition that a member was told was committed.
    pub(crate) group_committed: BTreeMap<i32, i64>,
    pub(crate) fetched_offsets: u64,
    pub(crate) topic_is_made: bool,
    /// Other topics, by id, of which it is known whether they are there.
    pub(crate) topics: BTreeMap<String, bool>,
    /// As the brokers print it.
    pub(crate) topic_id: String,
    pub(crate) transactions_topic_id: String,
    /// Each transaction's values, with their partitions, and what became of it.
    pub(crate) transactions: Vec<(Vec<(i32, u64)>, Outcome)>,
    pub(crate) transactions_ended: u64,
    /// What a reader of committed records was given, in its order, and up to where.
    pub(crate) committed_seen: Vec<(i32, u64)>,
    pub(crate) committed_read_to: BTreeMap<i32, i64>,
}

impl History {
    pub(crate) fn new_value(&mut self) -> u64 {
        self.next_value += 1;
        self.next_value
    }

    pub(crate) fn violation(&mut self, line: String) {
        self.violations.push(line);
    }

    pub(crate) fn acked(&mut self, place: Place, value: u64) {
        if let Some(other) = self.acked.insert(place, value) {
            self.violation(format!("{place:?}: acknowledged for {other} and for {value}"));
        }
        self.agrees(place, value, "acknowledged");
    }

    pub(crate) fn saw(&mut self, place: Place, value: u64) {
        if let Some(other) = self.seen.insert(place, value)
            && other != value
        {
            self.violation(format!("{place:?}: read as {other} and as {value}"));
        }
        self.agrees(place, value, "read");
    }

    fn agrees(&mut self, place: Place, value: u64, how: &str) {
        for known in [self.acked.get(&place), self.seen.get(&place)].into_iter().flatten() {
            if *known != value {
                let line = format!("{place:?}: {how} as {value}, known as {known}");
                self.violations.push(line);
            }
        }
    }

    /// The records that clients rely on.
    pub(crate) fn committed_records(&self) -> impl Iterator<Item = (Place, u64)> {
        self.acked.iter().chain(&self.seen).map(|(place, value)| (*place, *value))
    }

    /// A member of the group was told that these offsets are committed.
    pub(crate) fn committed(&mut self, offsets: &BTreeMap<i32, i64>) {
        for (partition, offset) in offsets {
            let known = self.group_committed.entry(*partition).or_default();
            *known = (*known).max(*offset);
        }
    }

    /// Whether all that was promised is done: records are acknowledged, and the group has read them.
    pub(crate) fn is_done(&self) -> bool {
        let is_read =
            |(partition, offset): &Place| self.group_committed.get(partition).is_some_and(|end| end > offset);
        self.unfinished == 0 && self.acked.keys().all(is_read)
    }

    /// What a group committed, some member of it has read.
    pub(crate) fn check_group(&mut self) {
        for (partition, committed) in self.group_committed.clone() {
            let mut reads: Vec<(i64, i64)> = self
                .group_read
                .iter()
                .filter(|(p, ..)| *p == partition)
                .map(|(_, from, to)| (*from, *to))
                .collect();
            reads.sort_unstable();
            let read_to = reads
                .iter()
                .fold(0, |read_to, (from, to)| if *from <= read_to { read_to.max(*to) } else { read_to });
            if read_to < committed {
                self.violation(format!(
                    "partition {partition}: the group committed {committed}, and nobody of it read {read_to}"
                ));
            }
        }
    }

    /// Holds the records that count in the end, by partition and in the log's order, against what became of transactions
    /// and what was read.
    pub(crate) fn check_transactions(&mut self, counts: &BTreeMap<i32, Vec<u64>>) {
        for (number, (values, outcome)) in self.transactions.clone().into_iter().enumerate() {
            let found = |(partition, value): &(i32, u64)| {
                counts.get(partition).map_or(0, |all| all.iter().filter(|other| *other == value).count())
            };
            let found: Vec<usize> = values.iter().map(found).collect();
            let is_right = match outcome {
                Outcome::Open => false,
                Outcome::Committed => found.iter().all(|count| *count == 1),
                Outcome::Aborted => found.iter().all(|count| *count == 0),
            };
            if !is_right {
                self.violation(format!(
                    "transaction {number} is {outcome:?}; of {values:?} there are {found:?}"
                ));
            }
        }
        for (partition, all) in counts {
            let seen = self.committed_seen.iter().filter(|(p, _)| p == partition).map(|(_, value)| *value);
            let seen: Vec<u64> = seen.collect();
            if seen != *all {
                let at = seen.iter().zip(all).position(|(seen, there)| seen != there);
                let (seen, all) = (seen.len(), all.len());
                self.violation(format!(
                    "partition {partition}: {seen} committed values were read, {all} are there; they differ at {at:?}"
                ));
            }
        }
    }

    /// Holds a partition's final records against all that was seen before.
    pub(crate) fn check_final(&mut self, who: &str, partition: i32, log: &BTreeMap<i64, u64>) {
        let known = |places: &BTreeMap<Place, u64>| {
            let of_partition = places.range((partition, 0)..=(partition, i64::MAX));
            of_partition.map(|((_, offset), value)| (*offset, *value)).collect::<Vec<_>>()
        };
        for (how, places) in [("acknowledged", known(&self.acked)), ("read", known(&self.seen))] {
            for (offset, value) in places {
                match log.get(&offset) {
                    Some(found) if *found == value => {}
                    found => self.violation(format!(
                        "{who}: partition {partition} offset {offset}: {value} was {how}, {found:?} is there in the end"
                    )),
                }
            }
        }
        let mut offsets_of: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
        for (offset, value) in log {
            offsets_of.entry(*value).or_default().push(*offset);
        }
        for (value, offsets) in offsets_of.into_iter().filter(|(_, offsets)| offsets.len() > 1) {
            self.violation(format!("{who}: partition {partition}: value {value} is at offsets {offsets:?}"));
        }
    }
}
