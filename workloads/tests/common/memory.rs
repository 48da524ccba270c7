//! A log in memory, right or wrong.

use riprap_core::client::{ClientConfig, Committed, Isolation, LocalFuture, Log, LogError, Polled, Progress};
use riprap_core::op::{Key, Offset, Rebalance, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::{Arc, Mutex};

/// What the log does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Every 50th record is acknowledged and not kept.
    Loses,
    /// Every 50th record is kept twice.
    Doubles,
    /// Every 50th poll leaves out its first record.
    Skips,
    /// Nothing can be sent.
    Refuses,
    /// Every 10th commit of a group's offsets is acknowledged and not kept.
    Forgets,
    /// Of every 20th transaction that is committed, its first record is not.
    Tears,
    /// Polls show what is aborted and what is still open.
    Shows,
    /// Every 20th transaction that is to be aborted is committed.
    Commits,
    /// None, but of every 10th commit nobody hears what came of it.
    Doubts,
    /// Every 10th poll after an abort leaves out its first record.
    Strays,
    /// None, but an abort takes the consumer back to where its transaction began.
    Rewinds,
}

#[derive(Default)]
pub(crate) struct Store {
    /// An offset is a place: nothing is ever taken from a log.
    logs: BTreeMap<Key, Vec<Entry>>,
    chances: u64,
    members: u64,
    /// How often members came or went.
    generation: u64,
    /// Which member of the group each key was given to: the one that subscribed to it last.
    given: BTreeMap<Key, u64>,
    committed: BTreeMap<Key, Offset>,
    /// By its number, whether a transaction is committed; the others are open.
    ended: BTreeMap<u64, bool>,
    txns: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    /// None where a transaction ended.
    value: Option<Value>,
    txn: Option<u64>,
}

/// A client of it.
pub(crate) struct MemLog {
    store: Arc<Mutex<Store>>,
    fault: Fault,
    config: ClientConfig,
    held: BTreeMap<Key, usize>,
    /// The group's, when it last looked.
    generation: u64,
    /// Its number in the group, while it is in it, and what it has subscribed to.
    member: Option<u64>,
    wanted: Vec<Key>,
    txn: Option<Open>,
    /// Its last transaction was aborted, and it has not polled since.
    is_after_abort: bool,
    polls: usize,
}

struct Open {
    number: u64,
    keys: BTreeSet<Key>,
    offsets: Vec<(Key, Offset)>,
    /// Where the consumer was when it began.
    held: BTreeMap<Key, usize>,
}

impl MemLog {
    pub(crate) fn new(store: &Arc<Mutex<Store>>, fault: Fault, config: &ClientConfig) -> MemLog {
        MemLog {
            store: Arc::clone(store),
            fault,
            config: config.clone(),
            held: BTreeMap::new(),
            generation: 0,
            member: None,
            wanted: Vec::new(),
            txn: None,
            is_after_abort: false,
            polls: 0,
        }
    }

    fn rebalance(&mut self) -> Vec<Rebalance> {
        if self.member.is_none() {
            return Vec::new();
        }
        let store = self.store.lock().expect("no holder panics");
        if std::mem::replace(&mut self.generation, store.generation) == store.generation {
            return Vec::new();
        }
        // Whoever comes or goes, everybody gives up all that it has, and begins anew with what it is given.
        let taken: Vec<Key> = std::mem::take(&mut self.held).into_keys().collect();
        let is_given = |key: &Key| store.given.get(key).copied() == self.member;
        let fresh: Vec<Key> = self.wanted.iter().copied().filter(is_given).collect();
        self.held.extend(
            fresh.iter().map(|key| (*key, store.committed.get(key).map_or(0, |offset| offset.0 as usize))),
        );
        let events = [("revoked", taken), ("assigned", fresh)];
        let events = events.into_iter().filter(|(_, keys)| !keys.is_empty());
        events.map(|(kind, keys)| Rebalance { kind: kind.to_owned(), keys }).collect()
    }

    /// Whether the fault strikes: it does every so many times that it could.
    fn every(&self, count: u64, fault: Fault) -> bool {
        if self.fault != fault {
            return false;
        }
        let mut store = self.store.lock().expect("no holder panics");
        store.chances += 1;
        store.chances.is_multiple_of(count)
    }

    /// The end of the transaction, and whether it was committed.
    fn end(&mut self, commit: bool) {
        let torn = commit && self.every(20, Fault::Tears);
        let Open { number, keys, offsets, .. } = self.txn.take().expect("begun before");
        let mut store = self.store.lock().expect("no holder panics");
        if torn && let Some(first) = keys.first() {
            let entries = store.logs.get_mut(first).expect("sent to").iter_mut();
            let lost = entries.rev().find(|entry| entry.txn == Some(number)).expect("sent to");
            *lost = Entry { value: None, txn: None };
        }
        for key in keys {
            store.logs.entry(key).or_default().push(Entry { value: None, txn: None });
        }
        store.ended.insert(number, commit);
        if commit {
            store.committed.extend(offsets);
        }
    }
}

impl Store {
    /// How far a log may be read, and whether a record of it is shown.
    fn end(&self, log: &[Entry], shows_all: bool) -> usize {
        let is_open = |entry: &Entry| entry.txn.is_some_and(|txn| !self.ended.contains_key(&txn));
        let open = log.iter().position(is_open).filter(|_| !shows_all);
        open.unwrap_or(log.len())
    }

    fn is_aborted(&self, entry: Entry) -> bool {
        entry.txn.is_some_and(|txn| self.ended.get(&txn) == Some(&false))
    }
}

fn done<T>(result: Result<T, LogError>) -> LocalFuture<'static, Result<T, LogError>>
where
    T: 'static,
{
    Box::pin(ready(result))
}

fn error(code: &str, definite: bool) -> LogError {
    LogError { code: code.to_owned(), definite, message: String::new() }
}

impl Log for MemLog {
    fn create<'a>(&'a mut self, _: &'a [Key]) -> LocalFuture<'a, Result<(), LogError>> {
        done(Ok(()))
    }

    fn send(&mut self, key: Key, value: Value) -> LocalFuture<'_, Result<Option<Offset>, LogError>> {
        if self.fault == Fault::Refuses {
            return done(Err(error("REFUSED", true)));
        }
        assert_eq!(self.txn.is_some(), self.config.transactional_id.is_some(), "sent outside a transaction");
        let copies = match (self.every(50, Fault::Loses), self.every(50, Fault::Doubles)) {
            (true, _) => 0,
            (_, true) => 2,
            _ => 1,
        };
        let mut store = self.store.lock().expect("no holder panics");
        let log = store.logs.entry(key).or_default();
        let next = Offset(log.len() as i64);
        let txn = self.txn.as_mut().map(|open| {
            open.keys.insert(key);
            open.number
        });
        log.extend((0..copies).map(|_| Entry { value: Some(value), txn }));
        done(Ok(if copies == 0 { None } else { Some(next) }))
    }

    fn poll(&mut self) -> LocalFuture<'_, Result<Polled, LogError>> {
        let strays = std::mem::take(&mut self.is_after_abort) && self.every(10, Fault::Strays);
        let mut skip = strays || self.every(50, Fault::Skips);
        let rebalance = self.rebalance();
        let shows_all = self.fault == Fault::Shows || self.config.isolation == Isolation::ReadUncommitted;
        let store = self.store.lock().expect("no holder panics");
        let mut reads = Vec::new();
        let mut keys: Vec<Key> = self.held.keys().copied().collect();
        // Where a poll may not bring all there is, another key is the first one next time.
        self.polls += 1;
        let first = self.polls % keys.len().max(1);
        keys.rotate_left(first);
        let mut left = self.config.max_poll_records;
        for key in keys {
            let position = self.held.get_mut(&key).expect("it is held");
            let log = store.logs.get(&key).map_or(&[][..], Vec::as_slice);
            let end = store.end(log, shows_all).max(*position);
            let fresh = (*position..).zip(&log[*position..end]);
            let shown = fresh.filter(|(_, entry)| shows_all || !store.is_aborted(**entry));
            let records = shown.filter_map(|(place, entry)| Some((Offset(place as i64), entry.value?)));
            let mut records: Vec<(Offset, Value)> = records.take(left).collect();
            left -= records.len();
            *position = match records.last() {
                Some((last, _)) if left == 0 => last.0 as usize + 1,
                _ if left == 0 => *position,
                _ => end,
            };
            if skip && !records.is_empty() {
                records.remove(0);
                skip = false;
            }
            if !records.is_empty() {
                reads.push((key, records));
            }
        }
        done(Ok(Polled { reads, rebalance }))
    }

    fn assign<'a>(
        &'a mut self,
        keys: &'a [Key],
        from_beginning: bool,
    ) -> LocalFuture<'a, Result<(), LogError>> {
        let position = |key: &Key| if from_beginning { 0 } else { self.held.get(key).copied().unwrap_or(0) };
        self.held = keys.iter().map(|key| (*key, position(key))).collect();
        if let Some(member) = self.member.take() {
            let mut store = self.store.lock().expect("no holder panics");
            store.given.retain(|_, holder| *holder != member);
            store.generation += 1;
        }
        done(Ok(()))
    }

    fn subscribe<'a>(&'a mut self, keys: &'a [Key]) -> LocalFuture<'a, Result<(), LogError>> {
        let mut store = self.store.lock().expect("no holder panics");
        store.members += 1;
        store.generation += 1;
        let member = store.members;
        store.given.retain(|_, holder| Some(*holder) != self.member);
        store.given.extend(keys.iter().map(|key| (*key, member)));
        (self.member, self.wanted) = (Some(member), keys.to_vec());
        self.held.clear();
        done(Ok(()))
    }

    fn begin(&mut self) -> LocalFuture<'_, Result<(), LogError>> {
        assert!(self.txn.is_none() && self.config.transactional_id.is_some(), "begun twice, or by nobody");
        let mut store = self.store.lock().expect("no holder panics");
        store.txns += 1;
        let held = self.held.clone();
        self.txn = Some(Open { number: store.txns, keys: BTreeSet::new(), offsets: Vec::new(), held });
        done(Ok(()))
    }

    fn commit(&mut self) -> LocalFuture<'_, Result<(), LogError>> {
        let in_doubt = self.every(10, Fault::Doubts);
        // Of those that nobody hears of, some are committed and some are not.
        let number = self.txn.as_ref().expect("begun before").number;
        self.end(!in_doubt || number.is_multiple_of(2));
        done(if in_doubt { Err(error("DOUBTFUL", false)) } else { Ok(()) })
    }

    fn abort(&mut self) -> LocalFuture<'_, Result<(), LogError>> {
        let commit = self.every(20, Fault::Commits);
        self.is_after_abort = true;
        if self.fault == Fault::Rewinds {
            let before = &self.txn.as_ref().expect("begun before").held;
            let store = self.store.lock().expect("no holder panics");
            for (key, position) in &mut self.held {
                // What the group gave it meanwhile it had from the committed offset on.
                let committed = store.committed.get(key).map_or(0, |offset| offset.0 as usize);
                *position = before.get(key).copied().unwrap_or(committed);
            }
        }
        self.end(commit);
        done(Ok(()))
    }

    fn commit_offsets(&mut self) -> LocalFuture<'_, Result<Vec<(Key, Offset)>, LogError>> {
        let offsets: Vec<_> =
            self.held.iter().map(|(key, position)| (*key, Offset(*position as i64))).collect();
        if !self.every(10, Fault::Forgets) {
            match &mut self.txn {
                Some(open) => open.offsets.clone_from(&offsets),
                None => {
                    let mut store = self.store.lock().expect("no holder panics");
                    store.committed.extend(offsets.iter().copied());
                }
            }
        }
        done(Ok(offsets))
    }

    fn committed<'a>(&'a mut self, keys: &'a [Key]) -> LocalFuture<'a, Result<Committed, LogError>> {
        let store = self.store.lock().expect("no holder panics");
        let committed = keys.iter().map(|key| (*key, store.committed.get(key).copied()));
        done(Ok(committed.collect()))
    }

    fn progress(&mut self) -> LocalFuture<'_, Result<Vec<Progress>, LogError>> {
        let store = self.store.lock().expect("no holder panics");
        let progress = self.held.iter().map(|(key, position)| Progress {
            key: *key,
            position: Offset(*position as i64),
            end: Offset(store.logs.get(key).map_or(0, Vec::len) as i64),
        });
        done(Ok(progress.collect()))
    }
}
