//! The abort workload: a consumer's transaction is aborted; where does it go on?
//!
//! Everything happens in transactions. Some feed the input keys. In the others a process polls what it holds and sends a
//! value to an output key, as an application does that makes one record of others; a member of a group commits with them
//! what it has read. They end in turn as in [`PATTERN`]: one is committed, two are aborted, one is committed. One that read
//! nothing does not count, and is done again: its abort would say nothing. Nobody moves a consumer back after an abort.
//!
//! ```text
//! assign 0,2,9 | subscribe 0,2      inputs and outputs; inputs alone, which are topics of their own
//! txn    [poll, send output]        commit, abort, abort, commit, commit, abort, ...
//! txn    [send input, ...]          now and then; always committed
//! ```
//!
//! Kafka promises nothing about what is read next. By its design an abort does not move a consumer, so that it goes on
//! behind what it had read (*advance*), and what it had read is processed by nobody; applications have to go back
//! themselves. If a group gives a consumer a key anew, that begins at the committed offset, and what was aborted is read
//! again: from its first record on (*rewind*), or, if transactions before it were aborted too, from an earlier one
//! (*rewind further*). So processes keep joining the group, leaving it and taking other topics. Where members keep through a
//! rebalance what stays theirs (KIP-429, KIP-848) they keep their positions, too. What was seen is counted,
//! by how the consumer held the key ([`Aborts`]), and makes a run invalid only where nothing can have sent a consumer: the
//! check is `abort-position`.
//! Source: KAFKA-17582; librdkafka's INTRODUCTION.md, transactional producer; Jepsen: Bufstream 0.1.0, 2024.
//!
//! Before the final reads one consumer of each kind does so once more, in a cluster that is whole (`encore.rs`).
//!
//! What it cannot see: records that nobody processed, since an output does not depend on what was read; and consumers that
//! their application moves after an abort, since none does.

mod encore;

use crate::client::{self, LogClient, PARTITIONS_PER_TOPIC};
use crate::{Drain, Shared, Workload, WorkloadInfo, committed, drain, ending, options};
use encore::encore;
use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use riprap_checker::{Aborts, Options, Verdict, Via, after_aborts};
use riprap_core::client::{Client, SubscribeVia};
use riprap_core::generator::{Ask, BoxedGenerator, Context, Draft, Generator, Offer, clients, phases};
use riprap_core::op::{F, Key, Kind, Mop, Op, OpValue, Process, Value};
use riprap_core::plan::TestConfig;
use riprap_core::seed::Stream;
use riprap_core::{History, Seed};
use std::collections::BTreeMap;

/// Whether the transactions of a process are aborted, in turn. Source: Jepsen: Bufstream 0.1.0, 2024.
const PATTERN: [bool; 4] = [false, true, true, false];
/// How many output keys there are: a topic's.
const OUTPUTS: i64 = PARTITIONS_PER_TOPIC as i64;
/// One op in so many feeds the input keys, and with so many records at most: somewhat more than all read, so that the next
/// poll finds something.
const FEED_EVERY: u32 = 4;
const MAX_FEED: usize = 6;
/// How long the group is left alone between two changes: it needs more than a second to share out its keys anew, and nobody
/// reads meanwhile. Then one process joins, leaves, or wants other topics; one change of a member in so many is a crash,
/// which the group notices after its session only.
const GROUP_QUIET_NS: u64 = 4_000_000_000;
const MEMBER_CRASH_EVERY: u32 = 8;
/// One op in so many of a process that is not in the group takes other keys: seldom, since it says nothing about aborts
/// before it. One in so many is a crash of the client.
const TAKE_EVERY: u32 = 128;
const CRASH_EVERY: u32 = 256;
/// The most keys that a process takes at a time.
const MAX_TAKEN: usize = 6;
/// One op in so many of a process that has subscribed asks what the group has committed.
const COMMITTED_EVERY: u32 = 16;
/// The most records of one poll: few, so that there are more for the next one to go on with.
const MAX_POLL_RECORDS: usize = 8;

static INFO: WorkloadInfo = WorkloadInfo {
    name: "abort",
    doc: "Transactions that poll some keys and send to others end in turn: committed, aborted, aborted, committed; a group's \
          offsets are committed with them. Tells where consumers go on after an abort (advance, rewind, rewind further or \
          other) by how they held the key, so that clients can be compared. Brings out aborts that are none: what they sent \
          is read, what they committed counts.",
    finds: &[
        "abort-advance",
        "abort-rewind",
        "abort-rewind-further",
        "abort-other",
        "abort-other-held",
        "G1a",
        "torn-txn",
        "precommitted-read",
        "committed-offset-regression",
        "redelivery",
    ],
    txn: true,
    sub_via: &[SubscribeVia::Assign, SubscribeVia::Subscribe],
};

pub(crate) struct Abort;

impl Workload for Abort {
    fn info(&self) -> &'static WorkloadInfo {
        &INFO
    }

    fn generator(&self, config: &TestConfig) -> BoxedGenerator {
        let (inputs, outputs) = keys(config);
        clients(Box::new(Ops {
            seed: Seed(config.seed),
            sub_via: config.sub_via.clone(),
            inputs,
            outputs,
            taken: 0,
            group_changed_ns: 0,
            written: BTreeMap::new(),
            consumers: BTreeMap::new(),
        }))
    }

    fn final_generator(&self, config: &TestConfig, history: &History) -> (BoxedGenerator, Drain) {
        let TestConfig { concurrency, drain_limit_ms, sub_via, .. } = config;
        let (inputs, outputs) = keys(config);
        let encore = encore(history, (&inputs, &outputs), sub_via, *concurrency, *drain_limit_ms);
        let (reads, drain) = drain::drain(history, ending(config, encore::spare_values(sub_via)));
        (phases(vec![encore, reads]), drain)
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

    /// Counts where consumers went on, as the part `aborts`.
    fn judge(&self, history: &History, options: &Options) -> Verdict {
        match after_aborts(history) {
            Ok(aborts) => {
                let verdict = match unseen(&aborts, options.via) {
                    Some(why) => Verdict::unknown("aborts", why),
                    None => Verdict::default(),
                };
                verdict.with_part("aborts", aborts)
            }
            Err(why) => Verdict::unknown("aborts", why),
        }
    }
}

/// The input keys and the output keys. A subscription is to whole topics: no output is in one of an input.
fn keys(config: &TestConfig) -> (Vec<Key>, Vec<Key>) {
    let first_output = i64::from(config.keys.next_multiple_of(PARTITIONS_PER_TOPIC));
    let inputs = (0..i64::from(config.keys)).map(Key).collect();
    (inputs, (first_output..first_output + OUTPUTS).map(Key).collect())
}

/// Why a run shows nothing about aborts, if it does not.
fn unseen(aborts: &Aborts, via: Via) -> Option<&'static str> {
    let in_group = aborts.kept.total() + aborts.rebalanced.total();
    match (aborts.transactions, aborts.assigned.total(), in_group, via) {
        (0, ..) => Some("no transaction was aborted after it had read something"),
        (_, 0, 0, _) => Some("no consumer read on after an abort: where it would have gone on nobody saw"),
        (_, _, 0, Via::Subscribe) => {
            Some("no consumer of a group read on after an abort: where it would have gone on nobody saw")
        }
        (_, 0, _, Via::Assign) => Some(
            "no consumer that assigns its keys read on after an abort: where it would have gone on nobody saw",
        ),
        _ => None,
    }
}

/// A process that has taken keys.
struct Consumer {
    /// Those that it has subscribed to.
    subscribed: Vec<Key>,
    /// How many transactions it has polled in, of those that read something.
    turn: usize,
}

/// Decides the ops of the main phase.
struct Ops {
    seed: Seed,
    sub_via: Vec<SubscribeVia>,
    inputs: Vec<Key>,
    outputs: Vec<Key>,
    /// How many ops were taken: each op draws from a stream of its own, named by this number.
    taken: u64,
    /// When somebody last joined the group, left it, or wanted other topics. Units: nanoseconds of the context's clock.
    group_changed_ns: u64,
    /// How many values each key was given.
    written: BTreeMap<Key, i64>,
    consumers: BTreeMap<Process, Consumer>,
}

impl Ops {
    fn draft(&self, process: Process, time_ns: u64) -> Draft {
        let mut random = self.seed.stream("abort", &format!("op {}", self.taken));
        let Some(consumer) = self.consumers.get(&process) else {
            let via = self.sub_via[random.random_range(0..self.sub_via.len())];
            return self.take_keys(via, &mut random);
        };
        let crash = Draft::new(F::Crash, OpValue::None);
        if consumer.subscribed.is_empty() {
            if self.may_change_group(time_ns) {
                return self.take_keys(SubscribeVia::Subscribe, &mut random);
            }
            if random.random_ratio(1, TAKE_EVERY) {
                return self.take_keys(SubscribeVia::Assign, &mut random);
            }
            if random.random_ratio(1, CRASH_EVERY) {
                return crash;
            }
        } else {
            if self.may_change_group(time_ns) {
                if random.random_ratio(1, MEMBER_CRASH_EVERY) {
                    return crash;
                }
                let via = self.sub_via[random.random_range(0..self.sub_via.len())];
                return self.take_keys(via, &mut random);
            }
            if random.random_ratio(1, COMMITTED_EVERY) {
                return committed(&consumer.subscribed);
            }
        }
        let mut mops = Vec::new();
        if random.random_ratio(1, FEED_EVERY) {
            for _ in 0..random.random_range(1..=MAX_FEED) {
                let mop = self.send(&self.inputs, &mut random, &mops);
                mops.push(mop);
            }
            return Draft::new(F::Txn, OpValue::Mops(mops));
        }
        mops.push(Mop::Poll(None));
        mops.push(self.send(&self.outputs, &mut random, &[]));
        let abort = PATTERN[consumer.turn % PATTERN.len()];
        Draft { abort, ..Draft::new(F::Txn, OpValue::Mops(mops)) }
    }

    fn may_change_group(&self, time_ns: u64) -> bool {
        self.sub_via.contains(&SubscribeVia::Subscribe) && time_ns >= self.group_changed_ns + GROUP_QUIET_NS
    }

    /// A send to one of these keys, in an op that has these before it.
    fn send(&self, keys: &[Key], random: &mut Stream, before: &[Mop]) -> Mop {
        let key = keys[random.random_range(0..keys.len())];
        let sent = before.iter().filter(|mop| matches!(mop, Mop::Send { key: to, .. } if *to == key)).count();
        let sent = i64::try_from(sent).expect("a handful");
        let value = Value(self.written.get(&key).copied().unwrap_or(0) + sent);
        Mop::Send { key, value, offset: None }
    }

    fn take_keys(&self, via: SubscribeVia, random: &mut Stream) -> Draft {
        let mut keys = self.inputs.clone();
        let f = if via == SubscribeVia::Assign {
            // Who reads outputs sees aborts that were none.
            keys.extend(&self.outputs);
            F::Assign
        } else {
            F::Subscribe
        };
        let count = random.random_range(1..=keys.len().min(MAX_TAKEN));
        keys.shuffle(random);
        keys.truncate(count);
        keys.sort();
        Draft::new(f, OpValue::Keys(keys))
    }
}

impl Generator for Ops {
    fn ask(&self, context: &Context) -> Ask {
        let Some((_, process)) = context.next_free() else { return Ask::Pending(None) };
        Offer::now(context, self.draft(process, context.time_ns)).map_or(Ask::Pending(None), Ask::Offer)
    }

    fn take(&mut self, context: &Context, offer: &mut Offer) {
        self.taken += 1;
        let (_, process) = context.next_free().expect("it was offered to the one that is free");
        let before = self.consumers.get(&process);
        let was_member = before.is_some_and(|consumer| !consumer.subscribed.is_empty());
        let draft = &offer.draft;
        if draft.f == F::Subscribe || was_member && matches!(draft.f, F::Assign | F::Crash) {
            self.group_changed_ns = context.time_ns;
        }
        if let OpValue::Keys(keys) = &draft.value {
            let subscribed = if draft.f == F::Subscribe { keys.clone() } else { Vec::new() };
            let turn = before.map_or(0, |consumer| consumer.turn);
            self.consumers.insert(process, Consumer { subscribed, turn });
        }
        let OpValue::Mops(mops) = &offer.draft.value else { return };
        for mop in mops {
            if let Mop::Send { key, .. } = mop {
                *self.written.entry(*key).or_default() += 1;
            }
        }
    }

    fn update(&mut self, _: &Context, op: &Op) {
        if op.kind == Kind::Info || (op.kind == Kind::Fail && op.f.has_keys()) {
            self.consumers.remove(&op.process);
        }
        if let Some(consumer) = self.consumers.get_mut(&op.process)
            && has_read(op)
        {
            consumer.turn += 1;
        }
    }
}

fn has_read(op: &Op) -> bool {
    let OpValue::Mops(mops) = &op.value else { return false };
    mops.iter().any(|mop| matches!(mop, Mop::Poll(Some(reads)) if !reads.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_checker::Positions;

    #[test]
    fn a_history_says_something_only_if_somebody_read_on_as_was_asked_for() {
        let seen = Positions { advance: 1, ..Positions::default() };
        let check = |transactions: u64, held: [bool; 3], via: Via, expect: &str| {
            let [assigned, kept, rebalanced] =
                held.map(|held| if held { seen } else { Positions::default() });
            let aborts = Aborts { transactions, assigned, kept, rebalanced };
            assert!(unseen(&aborts, via).unwrap_or("seen").starts_with(expect), "{aborts:?}");
        };
        for via in [Via::Assign, Via::Subscribe] {
            check(0, [false; 3], via, "no transaction was aborted ");
            check(9, [false; 3], via, "no consumer read on ");
        }
        check(9, [true, false, false], Via::Assign, "seen");
        check(9, [false, true, true], Via::Assign, "no consumer that assigns ");
        check(9, [true, false, false], Via::Subscribe, "no consumer of a group ");
        check(9, [false, true, false], Via::Subscribe, "seen");
        check(9, [true, false, true], Via::Subscribe, "seen");
    }
}
