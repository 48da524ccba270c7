//! The definitions once more, as they are read, without any thought for speed: on small histories the checks agree.

#[allow(dead_code)]
mod common;
#[path = "common/stops.rs"]
mod stops;

use proptest::prelude::*;
use riprap_checker::{Examples, Options, check, mini};
use riprap_core::History;
use riprap_core::op::{F, Key, Kind, Mop, Offset, OpValue, Process, Value};
use std::collections::{BTreeMap, BTreeSet};
use stops::stops;

/// The beginnings of the names that `definitions.rs` defines.
const ELSEWHERE: &[&str] =
    &["abort-", "committed-", "misrouted", "phantom-", "redelivery", "stuck-", "torn-"];

/// A completion of sends and polls, or an invocation that never got one.
struct Txn {
    process: Process,
    kind: Kind,
    was_aborted: bool,
    f: F,
    sends: Vec<(Key, Value, Option<Offset>)>,
    /// All records of a key that were read, in order.
    reads: BTreeMap<Key, Vec<(Offset, Value)>>,
    rebalanced: BTreeSet<Key>,
}

/// What became of an op: an info may know how its transaction ended.
fn fate(kind: Kind, outcome: Option<&str>) -> Kind {
    match (kind, outcome) {
        (Kind::Info, Some("committed")) => Kind::Ok,
        (Kind::Info, Some("aborted")) => Kind::Fail,
        (kind, _) => kind,
    }
}

/// What consumers do in between.
enum Event {
    Txn(usize),
    Assign { process: Process, keys: Vec<Key>, from_beginning: bool },
}

struct Brute {
    txns: Vec<Txn>,
    /// By transaction: the rows of its invocation and, if it ended well, of its end.
    spans: Vec<(usize, Option<usize>)>,
    events: Vec<Event>,
    /// By key, the values seen at each offset.
    log: BTreeMap<Key, BTreeMap<i64, BTreeSet<Value>>>,
}

impl Brute {
    fn new(history: &History) -> Brute {
        let mut brute =
            Brute { txns: Vec::new(), spans: Vec::new(), events: Vec::new(), log: BTreeMap::new() };
        for op in history.ops() {
            let open = op.kind() == Kind::Invoke;
            if open && op.partner().is_some() {
                continue;
            }
            let completed = op.to_op();
            match completed.value {
                OpValue::Mops(mops) => {
                    let mut txn = Txn {
                        process: op.process(),
                        kind: if open { Kind::Info } else { fate(op.kind(), op.outcome()) },
                        was_aborted: op.was_aborted(),
                        f: op.f().clone(),
                        sends: Vec::new(),
                        reads: BTreeMap::new(),
                        rebalanced: op.rebalance().iter().flat_map(|entry| entry.keys.clone()).collect(),
                    };
                    for mop in mops {
                        match mop {
                            Mop::Send { key, value, offset } => txn.sends.push((key, value, offset)),
                            Mop::Poll(reads) => {
                                for (key, records) in reads.unwrap_or_default() {
                                    txn.reads.entry(key).or_default().extend(records);
                                }
                            }
                        }
                    }
                    let invoked = if open { op.row() } else { op.partner().expect("well formed").row() };
                    brute.spans.push((invoked, (!open && txn.kind == Kind::Ok).then_some(op.row())));
                    brute.events.push(Event::Txn(brute.txns.len()));
                    brute.txns.push(txn);
                }
                OpValue::Keys(_) | OpValue::None if op.f().has_keys() => {
                    if matches!(op.kind(), Kind::Ok | Kind::Info) {
                        let from_beginning = completed.extra.from_beginning;
                        let (process, keys) = (op.process(), op.keys().to_vec());
                        brute.events.push(Event::Assign { process, keys, from_beginning });
                    }
                }
                _ => {}
            }
        }
        let mut log: BTreeMap<Key, BTreeMap<i64, BTreeSet<Value>>> = BTreeMap::new();
        for txn in &brute.txns {
            let sends = txn.sends.iter().filter(|_| brute.must_have_committed(txn));
            let sends = sends.filter_map(|(key, value, offset)| Some((*key, (*offset)?, *value)));
            let reads = txn
                .reads
                .iter()
                .flat_map(|(key, records)| records.iter().map(|(offset, value)| (*key, *offset, *value)));
            for (key, offset, value) in sends.chain(reads).filter(|(_, offset, _)| offset.0 >= 0) {
                log.entry(key).or_default().entry(offset.0).or_default().insert(value);
            }
        }
        brute.log = log;
        brute
    }

    fn is_read(&self, key: Key, value: Value) -> bool {
        self.txns.iter().any(|txn| {
            txn.kind == Kind::Ok
                && txn.reads.get(&key).is_some_and(|records| records.iter().any(|(_, read)| *read == value))
        })
    }

    fn must_have_committed(&self, txn: &Txn) -> bool {
        txn.kind == Kind::Ok
            || txn.kind == Kind::Info && txn.sends.iter().any(|(key, value, _)| self.is_read(*key, *value))
    }

    fn writer(&self, key: Key, value: Value) -> Option<&Txn> {
        self.txns.iter().find(|txn| txn.sends.iter().any(|(k, v, _)| (*k, *v) == (key, value)))
    }

    fn has_conflicts(&self) -> bool {
        self.log.values().flat_map(BTreeMap::values).any(|values| values.len() > 1)
    }

    /// The values at each place.
    fn places(&self, key: Key) -> Vec<&BTreeSet<Value>> {
        self.log.get(&key).map_or(Vec::new(), |log| log.values().collect())
    }

    /// The place of a value: the last, if there are several.
    fn place(&self, key: Key, value: Value) -> Option<i64> {
        self.places(key).iter().rposition(|values| values.contains(&value)).map(|place| place as i64)
    }

    /// How far it is from one value to another; `None` where that is not known.
    fn delta(&self, key: Key, from: Value, to: Value) -> Option<i64> {
        Some(self.place(key, to)? - self.place(key, from)?)
    }

    fn values(&self) -> BTreeSet<(Key, Value)> {
        let sent = self.txns.iter().flat_map(|txn| txn.sends.iter().map(|(key, value, _)| (*key, *value)));
        let read = self.txns.iter().flat_map(|txn| {
            txn.reads.iter().flat_map(|(key, records)| records.iter().map(|(_, value)| (*key, *value)))
        });
        sent.chain(read).collect()
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        let mut add = |name, count: usize| {
            if count > 0 {
                *counts.entry(name).or_default() += count as u64;
            }
        };
        let values = self.values();

        let offsets = self.log.values().flat_map(BTreeMap::values);
        add("inconsistent-offsets", offsets.filter(|values| values.len() > 1).count());

        let places_of =
            |key, value: &Value| self.places(key).iter().filter(|values| values.contains(value)).count();
        add("duplicate", values.iter().filter(|(key, value)| places_of(*key, value) > 1).count());

        add(
            "unseen",
            values
                .iter()
                .filter(|(key, value)| {
                    self.writer(*key, *value).is_some_and(|writer| writer.kind == Kind::Ok)
                        && !self.is_read(*key, *value)
                })
                .count(),
        );

        for (key, log) in &self.log {
            let log: Vec<&BTreeSet<Value>> = log.values().collect();
            let first = |value: &Value| log.iter().position(|values| values.contains(value));
            let last = |value: &Value| log.iter().rposition(|values| values.contains(value));
            let reach =
                log.iter().copied().flatten().filter(|value| self.is_read(*key, **value)).map(first).max();
            let lost = log.iter().copied().flatten().collect::<BTreeSet<_>>().into_iter().filter(|value| {
                last(value) <= reach.flatten()
                    && !self.is_read(*key, **value)
                    && self.writer(*key, **value).is_some_and(|writer| self.must_have_committed(writer))
            });
            add("lost-write", lost.count());
        }

        for txn in &self.txns {
            let is_own = |key: &Key, value: &Value| txn.sends.iter().any(|(k, v, _)| (k, v) == (key, value));
            let own =
                txn.reads.iter().any(|(key, records)| records.iter().any(|(_, value)| is_own(key, value)));
            add("precommitted-read", usize::from(txn.f == F::Txn && own));

            for (key, records) in &txn.reads {
                let aborted = records.iter().filter(|(_, value)| {
                    self.writer(*key, *value).is_some_and(|writer| writer.kind == Kind::Fail)
                });
                add("G1a", if txn.kind == Kind::Ok { aborted.count() } else { 0 });
                if !txn.rebalanced.contains(key) {
                    let deltas = records.windows(2).filter_map(|pair| self.delta(*key, pair[0].1, pair[1].1));
                    let deltas: Vec<i64> = deltas.collect();
                    add("int-poll-skip", deltas.iter().filter(|delta| **delta > 1).count());
                    add("int-nonmonotonic-poll", deltas.iter().filter(|delta| **delta < 1).count());
                }
            }
            let keys: BTreeSet<Key> = txn.sends.iter().map(|(key, _, _)| *key).collect();
            for key in keys {
                let sent: Vec<Value> =
                    txn.sends.iter().filter(|(k, _, _)| *k == key).map(|(_, value, _)| *value).collect();
                let deltas: Vec<i64> =
                    sent.windows(2).filter_map(|pair| self.delta(key, pair[0], pair[1])).collect();
                add("int-send-skip", deltas.iter().filter(|delta| **delta > 1).count());
                add("int-nonmonotonic-send", deltas.iter().filter(|delta| **delta < 1).count());
            }
        }

        let mut read: BTreeMap<(Process, Key), Value> = BTreeMap::new();
        let mut sent: BTreeMap<(Process, Key), Value> = BTreeMap::new();
        for event in &self.events {
            match event {
                Event::Assign { process, keys, from_beginning } => {
                    read.retain(|(p, key), _| p != process || keys.contains(key) && !from_beginning);
                }
                Event::Txn(n) => {
                    let txn = &self.txns[*n];
                    for (key, records) in &txn.reads {
                        let Some((_, first)) = records.first() else { continue };
                        let (_, last) = records.last().expect("it has a first");
                        let place = read.get(&(txn.process, *key));
                        let delta = place.and_then(|from| self.delta(*key, *from, *first));
                        add("poll-skip", usize::from(delta.is_some_and(|delta| delta > 1)));
                        add("nonmonotonic-poll", usize::from(delta.is_some_and(|delta| delta < 1)));
                        if txn.kind == Kind::Ok {
                            read.insert((txn.process, *key), *last);
                        } else if txn.was_aborted {
                            read.remove(&(txn.process, *key));
                        }
                    }
                    if txn.kind == Kind::Fail {
                        continue;
                    }
                    let keys: BTreeSet<Key> = txn.sends.iter().map(|(key, _, _)| *key).collect();
                    for key in keys {
                        let mut own = txn.sends.iter().filter(|(k, _, _)| *k == key).map(|(_, v, _)| *v);
                        let first = own.next().expect("the key was sent to");
                        let last = own.next_back().unwrap_or(first);
                        let before = sent.insert((txn.process, key), last);
                        let delta = before.and_then(|before| self.delta(key, before, first));
                        add("nonmonotonic-send", usize::from(delta.is_some_and(|delta| delta < 1)));
                    }
                }
            }
        }
        counts
    }
}

type Edges = BTreeSet<(usize, usize)>;

/// Which nodes are reached from which, in one step or more.
fn closure(edges: &Edges, len: usize) -> Edges {
    let mut reached = edges.clone();
    for via in 0..len {
        for from in 0..len {
            for to in 0..len {
                if reached.contains(&(from, via)) && reached.contains(&(via, to)) {
                    reached.insert((from, to));
                }
            }
        }
    }
    reached
}

/// The sets of nodes that reach each other.
fn components(edges: &Edges, len: usize) -> BTreeSet<BTreeSet<usize>> {
    let reached = closure(edges, len);
    let mutual = |a: &usize, b: usize| reached.contains(&(*a, b)) && reached.contains(&(b, *a));
    (0..len).filter(|a| mutual(a, *a)).map(|a| (0..len).filter(|b| mutual(&a, *b)).collect()).collect()
}

impl Brute {
    /// ww, wr, process, realtime and rw edges: all pairs.
    fn edges(&self, ww: bool) -> [Edges; 5] {
        let len = self.txns.len();
        let writer = |key: Key, value: Value| {
            self.txns.iter().position(|txn| txn.sends.iter().any(|(k, v, _)| (*k, *v) == (key, value)))
        };
        let mut edges: [Edges; 5] = Default::default();
        for key in self.log.keys() {
            let places = self.places(*key);
            for pair in places.windows(2) {
                let [a, b] = [pair[0], pair[1]].map(|values| *values.first().expect("a place has a value"));
                // A value that stands again later counts there.
                let again = self.place(*key, b).is_some_and(|at| !std::ptr::eq(places[at as usize], pair[1]));
                if let (Some(a), Some(b), false) = (writer(*key, a), writer(*key, b), again || !ww) {
                    edges[0].insert((a, b));
                }
            }
        }
        for b in 0..len {
            for (key, records) in &self.txns[b].reads {
                for (_, value) in records {
                    edges[1].extend(writer(*key, *value).map(|a| (a, b)));
                }
                let reach = records.iter().filter_map(|(_, value)| self.place(*key, *value)).max();
                let Some(next) = reach.map(|reach| reach + 1) else { continue };
                let Some(values) = self.places(*key).get(next as usize).copied() else { continue };
                let value = *values.first().expect("a place has a value");
                if self.txns[b].kind == Kind::Ok && self.place(*key, value) == Some(next) {
                    let after = writer(*key, value).filter(|a| self.must_have_committed(&self.txns[*a]));
                    edges[4].extend(after.map(|a| (b, a)));
                }
            }
            for a in 0..len {
                let before = self.spans[a].1.is_some_and(|end| end < self.spans[b].0);
                if before && self.txns[a].process == self.txns[b].process {
                    edges[2].insert((a, b));
                }
                if before {
                    edges[3].insert((a, b));
                }
            }
        }
        edges.map(|edges| edges.into_iter().filter(|(a, b)| a != b).collect())
    }

    /// The kinds of cycles, by what each is made of, what it needs, and what hides it: how many components have it, and
    /// how long the shortest cycle of all of them is.
    fn cycles(&self, ww: bool) -> BTreeMap<&'static str, (u64, usize)> {
        type Kind = (&'static str, &'static [usize], usize, &'static [usize]);
        let families: [&[Kind]; 2] = [
            &[
                ("G0", &[0], 0, &[]),
                ("G1c", &[0, 1], 0, &[0]),
                ("G0-process", &[0, 2], 2, &[0]),
                ("G1c-process", &[0, 1, 2], 0, &[0, 1, 2]),
                ("G0-realtime", &[0, 3], 3, &[0, 2]),
                ("G1c-realtime", &[0, 1, 3], 0, &[0, 1, 2, 3, 4]),
            ],
            &[
                ("G1c-wr", &[1], 1, &[]),
                ("G1c-wr-process", &[1, 2], 2, &[0]),
                ("G1c-wr-realtime", &[1, 3], 3, &[0, 1]),
            ],
        ];
        let len = self.txns.len();
        let edges = self.edges(ww);
        let union =
            |kinds: &[usize]| -> Edges { kinds.iter().flat_map(|kind| edges[*kind].clone()).collect() };
        let within = |edges: Edges, part: &BTreeSet<usize>| -> Edges {
            edges.into_iter().filter(|(a, b)| part.contains(a) && part.contains(b)).collect()
        };
        let mut cycles = BTreeMap::new();
        let mut add = |name, shortest: usize| {
            let (count, least) = cycles.entry(name).or_insert((0, usize::MAX));
            (*count, *least) = (*count + 1, shortest.min(*least));
        };
        for family in families {
            for whole in components(&union(family[family.len() - 1].1), len) {
                let mut has = BTreeSet::new();
                for (number, (name, kinds, needs, hidden_by)) in family.iter().enumerate() {
                    if hidden_by.iter().any(|kind| has.contains(kind)) {
                        continue;
                    }
                    for part in components(&within(union(kinds), &whole), len) {
                        let layer = within(union(kinds), &part);
                        if let Some(shortest) = shortest(&within(union(&[*needs]), &part), &layer, len) {
                            has.insert(number);
                            add(*name, shortest);
                        }
                    }
                }
            }
        }
        let plain = union(&[0, 1]);
        let all = union(&[0, 1, 4]);
        for whole in components(&all, len) {
            let plain = within(plain.clone(), &whole);
            if !components(&plain, len).is_empty() {
                continue;
            }
            let rw = within(edges[4].clone(), &whole);
            match shortest(&rw, &plain, len) {
                Some(single) => add("G-single", single),
                None => {
                    add("G2", shortest(&rw, &within(all.clone(), &whole), len).expect("it is a component"))
                }
            }
        }
        cycles
    }
}

/// How long a shortest cycle is of one edge that is needed and others of a layer.
fn shortest(needs: &Edges, layer: &Edges, len: usize) -> Option<usize> {
    let mut least = None;
    for (before, after) in needs {
        let mut reached = BTreeSet::from([*after]);
        for steps in 1..=len {
            if reached.contains(before) {
                least = Some(least.unwrap_or(usize::MAX).min(steps));
                break;
            }
            let next: Vec<usize> =
                layer.iter().filter(|(a, _)| reached.contains(a)).map(|(_, b)| *b).collect();
            reached.extend(next);
        }
    }
    least
}

fn any_history() -> impl Strategy<Value = History> {
    prop_oneof![3 => common::histories(6), 1 => stops(8)]
}

/// Where an offset has two values, which of them the order of the log follows is arbitrary, and so is what hangs on that.
const ARBITRARY: &[&str] = &["poll", "send", "G-single", "G0", "G1c", "G2"];

proptest! {
    #![proptest_config(common::cases(1500))]
    #[test]
    fn the_checks_agree_with_their_definitions(history in any_history(), ww in prop::bool::weighted(0.8)) {
        let options = Options { ww, rw: true, vacuity: false, examples: Examples::None, ..Options::default() };
        let verdict = check(&history, &options);
        let brute = Brute::new(&history);
        let arbitrary = |name: &str| brute.has_conflicts() && ARBITRARY.iter().any(|part| name.contains(part));
        let found: BTreeMap<&str, u64> = verdict
            .anomalies
            .iter()
            .map(|(name, found)| (name.as_str(), found.count))
            .filter(|(name, _)| !arbitrary(name) && !ELSEWHERE.iter().any(|other| name.starts_with(other)))
            .collect();
        let mut expect = brute.counts();
        expect.extend(brute.cycles(ww).into_iter().map(|(name, (count, _))| (name, count)));
        expect.retain(|name, _| !arbitrary(name));
        prop_assert_eq!(found, expect, "in {}: {:?}", mini::print(&history), verdict.why);
    }
}

proptest! {
    // Fewer: each of them is told, and proved.
    #![proptest_config(common::cases(300))]
    #[test]
    fn an_example_is_a_shortest_cycle(history in any_history(), ww in any::<bool>()) {
        let brute = Brute::new(&history);
        if brute.has_conflicts() {
            return Ok(());
        }
        let verdict = check(&history, &Options { ww, rw: true, vacuity: false, ..Options::default() });
        for (name, (count, shortest)) in brute.cycles(ww) {
            // Where there is one component; what a process did in a row is told as one.
            if count == 1 && !name.ends_with("-process") {
                let story = &verdict.anomalies[name].examples[0].story;
                let is_shortest = story.starts_with(&format!("{shortest} ops form a cycle: "));
                prop_assert!(is_shortest, "{}, not {}, in {}", story, shortest, mini::print(&history));
            }
        }
    }
}
