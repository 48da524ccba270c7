//! The queue workload, as Jepsen's `jepsen.tests.kafka` has it: unique values are sent to keys and polled again.
//!
//! Some keys are written at a time; one that has its share of values makes place for a new one, so that topics keep
//! being made. A process first takes some keys (`assign`, or `subscribe` where the run asks for it), then sends and polls
//! in equal parts, takes other keys now and then, and crashes now and then: its client is thrown away and a new process
//! goes on. Every third choice of keys goes to those that have acknowledged records which nobody has read yet.
//!
//! With transactions every op of sends and polls is one (`txn`), of up to four of them in any order, and one in eight is to
//! be aborted. What a member of a group has polled it commits with the transaction. After an abort nobody moves its
//! consumer back: it goes on where it is.
//!
//! What it cannot see: anything about a record's own key, headers and timestamp, and without transactions the order in
//! which records of different keys became visible.

use crate::client::{self, LogClient};
use crate::{Drain, Shared, Workload, WorkloadInfo, committed, drain, ending, options};
use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use riprap_checker::Options;
use riprap_core::client::{Client, SubscribeVia};
use riprap_core::generator::{Ask, BoxedGenerator, Context, Draft, Generator, Offer, clients};
use riprap_core::op::{F, Key, Kind, Mop, Offset, Op, OpValue, Process, Value};
use riprap_core::plan::TestConfig;
use riprap_core::seed::Stream;
use riprap_core::{History, Seed};
use std::collections::BTreeMap;

/// One op in so many takes other keys; of a process that has subscribed fewer, since each makes the whole group share
/// out its keys anew, and nobody reads meanwhile.
const REASSIGN_EVERY: u32 = 32;
const RESUBSCRIBE_EVERY: u32 = 128;
/// One op in so many of a process that has subscribed asks what the group has committed.
const COMMITTED_EVERY: u32 = 16;
/// One op in so many is a crash of the client.
const CRASH_EVERY: u32 = 256;
/// One choice of keys in so many looks for records that nobody has read.
const CHASE_EVERY: u32 = 3;
/// The most sends and polls of one transaction.
const MAX_MOPS: usize = 4;
/// One transaction in so many is to be aborted.
const ABORT_EVERY: u32 = 8;
/// The most keys that a process takes at a time.
const MAX_KEYS: usize = 6;
/// The most records of one poll: many, so that a consumer that lags sees long runs; few enough for an op to be read.
const MAX_POLL_RECORDS: usize = 512;

static INFO: WorkloadInfo = WorkloadInfo {
    name: "queue",
    doc: "Unique values are sent to keys (topic-partitions) and polled, by assign or subscribe; keys rotate, clients \
          crash, and in the end fresh clients read everything from the beginning. Brings out records that are lost, \
          doubled, moved, reordered or skipped; with --txn, transactions that are torn, or seen though they are not \
          committed.",
    finds: &[
        "lost-write",
        "unseen",
        "duplicate",
        "inconsistent-offsets",
        "poll-skip",
        "nonmonotonic-poll",
        "nonmonotonic-send",
        "G1a",
        "torn-txn",
        "precommitted-read",
    ],
    txn: false,
    sub_via: &[SubscribeVia::Assign],
};

pub(crate) struct Queue;

impl Workload for Queue {
    fn info(&self) -> &'static WorkloadInfo {
        &INFO
    }

    fn generator(&self, config: &TestConfig) -> BoxedGenerator {
        clients(Box::new(Ops {
            seed: Seed(config.seed),
            sub_via: config.sub_via.clone(),
            txn: config.txn,
            max_writes_per_key: u64::from(config.max_writes_per_key),
            taken: 0,
            live: (0..i64::from(config.keys)).map(|key| (Key(key), 0)).collect(),
            next_key: i64::from(config.keys),
            holding: BTreeMap::new(),
            acked: BTreeMap::new(),
            read: BTreeMap::new(),
        }))
    }

    fn final_generator(&self, config: &TestConfig, history: &History) -> (BoxedGenerator, Drain) {
        drain::drain(history, ending(config, 0))
    }

    fn does(&self, f: &F) -> bool {
        client::does(f)
    }

    fn client(&self, config: &TestConfig, shared: &Shared, process: Process) -> Box<dyn Client> {
        LogClient::boxed(client::config(config, shared, process, MAX_POLL_RECORDS), shared)
    }

    fn options(&self, config: &TestConfig) -> Options {
        options(config)
    }
}

/// Decides the ops of the main phase.
struct Ops {
    seed: Seed,
    sub_via: Vec<SubscribeVia>,
    txn: bool,
    max_writes_per_key: u64,
    /// How many ops were taken: each op draws from a stream of its own, named by this number.
    taken: u64,
    /// The keys being written, each with how many values it has been given.
    live: Vec<(Key, u64)>,
    next_key: i64,
    /// The processes that have taken keys, each with those that it has subscribed to.
    holding: BTreeMap<Process, Vec<Key>>,
    /// For each key, the highest offset acknowledged, and the highest read.
    acked: BTreeMap<Key, Offset>,
    read: BTreeMap<Key, Offset>,
}

impl Ops {
    fn draft(&self, process: Process) -> Draft {
        let mut random = self.seed.stream("queue", &format!("op {}", self.taken));
        let Some(subscribed) = self.holding.get(&process) else { return self.take_keys(&mut random) };
        let every = if subscribed.is_empty() { REASSIGN_EVERY } else { RESUBSCRIBE_EVERY };
        if random.random_ratio(1, every) {
            return self.take_keys(&mut random);
        }
        if random.random_ratio(1, CRASH_EVERY) {
            return Draft::new(F::Crash, OpValue::None);
        }
        if !subscribed.is_empty() && random.random_ratio(1, COMMITTED_EVERY) {
            return committed(subscribed);
        }
        let count = if self.txn { random.random_range(1..=MAX_MOPS) } else { 1 };
        let mut mops: Vec<Mop> = Vec::with_capacity(count);
        for _ in 0..count {
            let mop = self.mop(&mut random, &mops);
            mops.push(mop);
        }
        let f = match &mops[0] {
            _ if self.txn => F::Txn,
            Mop::Poll(_) => F::Poll,
            Mop::Send { .. } => F::Send,
        };
        let abort = self.txn && random.random_ratio(1, ABORT_EVERY);
        Draft { abort, ..Draft::new(f, OpValue::Mops(mops)) }
    }

    /// A poll or a send, in an op that has these before it.
    fn mop(&self, random: &mut Stream, before: &[Mop]) -> Mop {
        if random.random_ratio(1, 2) {
            return Mop::Poll(None);
        }
        let (key, written) = self.live[random.random_range(0..self.live.len())];
        let sent = before.iter().filter(|mop| matches!(mop, Mop::Send { key: to, .. } if *to == key)).count();
        let value = i64::try_from(written + sent as u64).expect("fewer values than 2^63");
        Mop::Send { key, value: Value(value), offset: None }
    }

    fn take_keys(&self, random: &mut Stream) -> Draft {
        let unread =
            self.acked.iter().filter(|(key, acked)| self.read.get(key).is_none_or(|read| read < acked));
        let mut keys: Vec<Key> = unread.map(|(key, _)| *key).collect();
        if keys.is_empty() || !random.random_ratio(1, CHASE_EVERY) {
            keys = self.live.iter().map(|(key, _)| *key).collect();
        }
        let count = random.random_range(1..=keys.len().min(MAX_KEYS));
        keys.shuffle(random);
        keys.truncate(count);
        keys.sort();
        let via = self.sub_via[random.random_range(0..self.sub_via.len())];
        let f = if via == SubscribeVia::Assign { F::Assign } else { F::Subscribe };
        Draft::new(f, OpValue::Keys(keys))
    }
}

impl Generator for Ops {
    fn ask(&self, context: &Context) -> Ask {
        let Some((_, process)) = context.next_free() else { return Ask::Pending(None) };
        Offer::now(context, self.draft(process)).map_or(Ask::Pending(None), Ask::Offer)
    }

    fn take(&mut self, context: &Context, offer: &mut Offer) {
        self.taken += 1;
        if let (OpValue::Keys(keys), Some((_, process))) = (&offer.draft.value, context.next_free()) {
            let subscribed = if offer.draft.f == F::Subscribe { keys.clone() } else { Vec::new() };
            self.holding.insert(process, subscribed);
        }
        let OpValue::Mops(mops) = &offer.draft.value else { return };
        for mop in mops {
            let Mop::Send { key: sent, .. } = mop else { continue };
            let slot =
                self.live.iter_mut().find(|(key, _)| key == sent).expect("values are drawn for live keys");
            slot.1 += 1;
        }
        // A transaction may give a key a few more.
        for slot in self.live.iter_mut().filter(|(_, written)| *written >= self.max_writes_per_key) {
            *slot = (Key(self.next_key), 0);
            self.next_key += 1;
        }
    }

    fn update(&mut self, _: &Context, op: &Op) {
        if op.kind == Kind::Info || (op.kind == Kind::Fail && op.f.has_keys()) {
            self.holding.remove(&op.process);
        }
        let OpValue::Mops(mops) = &op.value else { return };
        if op.kind != Kind::Ok {
            return;
        }
        let raise = |highest: &mut BTreeMap<Key, Offset>, key: Key, offset: Offset| {
            let known = highest.entry(key).or_insert(offset);
            *known = offset.max(*known);
        };
        for mop in mops {
            match mop {
                Mop::Send { key, offset: Some(offset), .. } => raise(&mut self.acked, *key, *offset),
                Mop::Send { offset: None, .. } | Mop::Poll(None) => {}
                Mop::Poll(Some(reads)) => {
                    for (key, records) in reads {
                        records.iter().for_each(|(offset, _)| raise(&mut self.read, *key, *offset));
                    }
                }
            }
        }
    }
}
