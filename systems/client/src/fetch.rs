//! What a consumer reads, and where it is.
//!
//! One task, the keeper, looks after all partitions that the consumer holds. It wakes when something changes: partitions
//! given or taken, records delivered, an answer, a leader. Of each broker it asks one thing at a time:
//!
//! ```text
//! 1. OffsetForLeaderEpoch  where the leader changed: is what was read last still in its log?      (KIP-320)
//! 2. ListOffsets           where the offset is out of range: where does the log begin?
//! 3. Fetch                 where nothing lies ready: so one fetch is under way while a consumer works on another
//! ```
//!
//! What an answer says counts only if its partition is still held, has not been given anew since, and stands where it stood
//! when the question was sent.
//!
//! A partition whose log turns out to be shorter than what was read goes on where the two part, as Java's consumer does
//! that may reset its offset by itself; nothing of that is told to the workload, whose checker finds it.
//!
//! Source: Java's Fetcher, SubscriptionState and OffsetsForLeaderEpochUtils.

mod answer;
mod readable;
mod session;

use crate::backoff::{Backoff, ns, wire_ms};
use crate::core::Core;
use crate::metadata::{Leader, Tp};
use readable::Fetched;
use riprap_core::client::{Isolation, LogError};
use riprap_core::op::{Key, Reads};
use riprap_env::task::{First, Signal, TaskHandle, first};
use riprap_protocol::Uuid;
use riprap_protocol::messages::FetchRequest;
use session::Session;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// No epoch: nothing was read yet, or nobody said.
const NO_EPOCH: i32 = -1;

/// An offset, and the epoch of the record before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    pub(crate) offset: i64,
    pub(crate) epoch: i32,
}

impl Position {
    /// The beginning of a log, or of what is left of it: a leader that has it no more says so.
    pub(crate) const BEGINNING: Position = Position { offset: 0, epoch: NO_EPOCH };
}

/// What has to be known before a partition can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    Nothing,
    /// What its group has committed.
    Committed,
    /// Where its log begins.
    Beginning,
    /// Whether its leader has what was read.
    Validation,
}

/// A partition that the consumer holds.
struct Partition {
    key: Key,
    /// Since when it holds it, as a number.
    generation: u64,
    /// What is delivered next.
    position: Position,
    /// What is fetched next.
    fetch_at: Position,
    buffer: VecDeque<Fetched>,
    need: Need,
    /// The epoch of the leader that is asked.
    led_in: i32,
    /// The leader epoch in which the position is known to be right.
    valid_in: i32,
    /// The last record delivered: its offset and epoch.
    delivered: Option<Position>,
    /// What the next poll is told.
    error: Option<LogError>,
    not_before_ns: u64,
    backoff: Backoff,
}

impl Partition {
    /// Forgets what was fetched and not delivered.
    fn rewind(&mut self) {
        self.buffer.clear();
        self.fetch_at = self.position;
    }

    fn seek(&mut self, to: Position) {
        self.position = to;
        self.rewind();
        self.need = Need::Nothing;
    }
}

/// One partition's part of a fetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wish {
    offset: i64,
    leader_epoch: i32,
    topic_id: Uuid,
    generation: u64,
}

/// What a broker is asked next.
enum Plan {
    Validate(BTreeMap<Tp, Wish>),
    FindBeginning(BTreeMap<Tp, Wish>),
    Fetch(BTreeMap<Tp, Wish>),
}

/// All partitions of a consumer; see the module.
pub(crate) struct Fetcher {
    core: Rc<Core>,
    partitions: RefCell<BTreeMap<Tp, Partition>>,
    /// Partitions with records, in the order in which these came.
    ready: RefCell<VecDeque<Tp>>,
    generations: Cell<u64>,
    sessions: RefCell<BTreeMap<i32, Session>>,
    asking: RefCell<BTreeMap<i32, TaskHandle<()>>>,
    keeper: RefCell<Option<TaskHandle<()>>>,
    /// Tells those who work on partitions that something changed.
    pub(crate) wake: Signal,
    /// Tells who polls that there is something to look at.
    pub(crate) arrived: Signal,
}

impl Fetcher {
    pub(crate) fn new(core: Rc<Core>) -> Fetcher {
        Fetcher {
            core,
            partitions: RefCell::default(),
            ready: RefCell::default(),
            generations: Cell::new(0),
            sessions: RefCell::default(),
            asking: RefCell::default(),
            keeper: RefCell::default(),
            wake: Signal::default(),
            arrived: Signal::default(),
        }
    }

    fn add(&self, key: Key, tp: Tp, position: Position, need: Need) {
        self.generations.set(self.generations.get() + 1);
        let partition = Partition {
            key,
            generation: self.generations.get(),
            position,
            fetch_at: position,
            buffer: VecDeque::new(),
            need,
            led_in: NO_EPOCH,
            valid_in: NO_EPOCH,
            delivered: None,
            error: None,
            not_before_ns: 0,
            backoff: self.core.backoff(),
        };
        self.partitions.borrow_mut().insert(tp, partition);
    }

    fn start(self: &Rc<Fetcher>) {
        if self.keeper.borrow().is_none() {
            let keeper = self.core.io.spawn(keep(Rc::clone(self)));
            *self.keeper.borrow_mut() = Some(keeper);
        }
        self.wake.tell();
    }

    /// Reads these keys from their beginning, or on from where they are, and no others.
    pub(crate) fn assign(self: &Rc<Fetcher>, keys: &[Key], from_beginning: bool) {
        let wanted: BTreeMap<Tp, Key> = keys.iter().map(|key| (self.core.partition(*key), *key)).collect();
        self.partitions.borrow_mut().retain(|tp, _| !from_beginning && wanted.contains_key(tp));
        for (tp, key) in wanted {
            if !self.partitions.borrow().contains_key(&tp) {
                self.add(key, tp, Position::BEGINNING, Need::Nothing);
            }
        }
        self.start();
    }

    /// Reads these too, from where the group has committed.
    pub(crate) fn give(self: &Rc<Fetcher>, keys: &[Key]) {
        for key in keys {
            let tp = self.core.partition(*key);
            self.add(*key, tp, Position::BEGINNING, Need::Committed);
        }
        self.start();
    }

    /// Reads these no more.
    pub(crate) fn take_away(&self, keys: &[Key]) {
        for key in keys {
            self.partitions.borrow_mut().remove(&self.core.partition(*key));
        }
        self.wake.tell();
    }

    /// The keys that are held.
    pub(crate) fn held(&self) -> Vec<Key> {
        self.partitions.borrow().values().map(|partition| partition.key).collect()
    }

    /// Where the consumer stands in each key that it holds.
    pub(crate) fn positions(&self) -> Vec<(Key, Tp, i64)> {
        let partitions = self.partitions.borrow();
        partitions
            .iter()
            .map(|(tp, partition)| (partition.key, tp.clone(), partition.position.offset))
            .collect()
    }

    /// The offsets after the last record delivered of each partition of which any was.
    pub(crate) fn delivered(&self) -> Vec<(Key, Tp, Position)> {
        let partitions = self.partitions.borrow();
        let delivered = partitions.iter().filter_map(|(tp, p)| Some((p.key, tp.clone(), p.delivered?)));
        delivered.collect()
    }

    /// Partitions whose committed offsets are to be found, each with the number of its time with the consumer.
    pub(crate) fn uncommitted(&self) -> Vec<(Tp, u64)> {
        let now_ns = self.core.io.now_ns();
        let partitions = self.partitions.borrow();
        let waiting =
            partitions.iter().filter(|(_, p)| p.need == Need::Committed && p.not_before_ns <= now_ns);
        waiting.map(|(tp, partition)| (tp.clone(), partition.generation)).collect()
    }

    /// When [`Fetcher::uncommitted`] may have more.
    pub(crate) fn next_uncommitted_ns(&self) -> Option<u64> {
        let partitions = self.partitions.borrow();
        partitions.values().filter(|p| p.need == Need::Committed).map(|p| p.not_before_ns).min()
    }

    /// What a group has committed of a partition; none if that could not be found out yet.
    pub(crate) fn committed(&self, tp: &Tp, generation: u64, found: Option<Position>) {
        let mut partitions = self.partitions.borrow_mut();
        let held = partitions.get_mut(tp).filter(|p| p.generation == generation && p.need == Need::Committed);
        let Some(partition) = held else { return };
        match found {
            Some(position) => {
                partition.backoff.reset();
                partition.seek(position);
            }
            None => {
                partition.not_before_ns = self.core.io.now_ns() + partition.backoff.next_ns(&self.core.io);
            }
        }
        drop(partitions);
        self.wake.tell();
    }

    /// Records that lie ready, at most so many; those that came first come first. Errors: what a fetch met that does not pass
    /// by itself; it is met again if it is still there.
    pub(crate) fn take(&self, at_most: usize) -> Result<Reads, LogError> {
        let mut partitions = self.partitions.borrow_mut();
        let mut reads = Reads::new();
        let mut left = at_most;
        let mut ready = self.ready.borrow_mut();
        while left > 0
            && let Some(tp) = ready.pop_front()
        {
            let Some(partition) = partitions.get_mut(&tp) else { continue };
            let mut records = Vec::new();
            while left > 0
                && let Some(record) = partition.buffer.pop_front()
            {
                records.push((record.offset, record.value));
                partition.position = Position { offset: record.offset.0 + 1, epoch: record.leader_epoch };
                partition.delivered = Some(partition.position);
                left -= 1;
            }
            if partition.buffer.is_empty() {
                // What follows the last record and is not seen is behind the consumer too.
                partition.position = partition.fetch_at;
            } else {
                ready.push_front(tp);
            }
            if !records.is_empty() {
                match reads.iter_mut().find(|(key, _)| *key == partition.key) {
                    Some((_, before)) => before.append(&mut records),
                    None => reads.push((partition.key, records)),
                }
            }
        }
        drop(ready);
        if !reads.is_empty() {
            drop(partitions);
            self.wake.tell();
            return Ok(reads);
        }
        match partitions.values_mut().find_map(|partition| partition.error.take()) {
            Some(error) => {
                drop(partitions);
                self.wake.tell();
                Err(error)
            }
            None => Ok(reads),
        }
    }

    pub(crate) fn shut_down(&self) {
        let (keeper, asking) = (self.keeper.take(), self.asking.take());
        drop((keeper, asking));
    }

    /// Looks after leaders that changed; says whether one is missing.
    fn note_leaders(&self) -> bool {
        let mut is_missing = false;
        for (tp, partition) in &mut *self.partitions.borrow_mut() {
            let Some(leader) = self.core.metadata.leader(tp) else {
                is_missing = true;
                continue;
            };
            if leader.epoch > partition.led_in && partition.need != Need::Committed {
                // A leader that is new may serve at once what the last one could not.
                partition.led_in = leader.epoch;
                partition.not_before_ns = 0;
            }
            if leader.epoch <= partition.valid_in {
                continue;
            }
            match partition.need {
                Need::Nothing if partition.position.epoch != NO_EPOCH => {
                    partition.rewind();
                    partition.need = Need::Validation;
                }
                Need::Nothing | Need::Beginning => partition.valid_in = leader.epoch,
                Need::Committed | Need::Validation => {}
            }
        }
        is_missing
    }

    /// What to ask each broker that is not being asked, and when to look again.
    fn plan(&self) -> (Vec<(Leader, Plan)>, u64) {
        let now_ns = self.core.io.now_ns();
        let mut again_ns = u64::MAX;
        let asking = self.asking.borrow();
        let mut by_broker: BTreeMap<i32, (Leader, [BTreeMap<Tp, Wish>; 3])> = BTreeMap::new();
        for (tp, partition) in &*self.partitions.borrow() {
            let kind = match partition.need {
                Need::Committed => continue,
                Need::Validation => 0,
                Need::Beginning => 1,
                Need::Nothing if partition.buffer.is_empty() && partition.error.is_none() => 2,
                Need::Nothing => continue,
            };
            let Some(leader) = self.core.metadata.leader(tp) else { continue };
            if asking.contains_key(&leader.broker) {
                continue;
            }
            if partition.not_before_ns > now_ns {
                again_ns = again_ns.min(partition.not_before_ns);
                continue;
            }
            let wish = Wish {
                offset: partition.fetch_at.offset,
                leader_epoch: leader.epoch,
                topic_id: self.core.metadata.topic_id(&tp.topic),
                generation: partition.generation,
            };
            let (_, kinds) = by_broker.entry(leader.broker).or_insert_with(|| (leader, Default::default()));
            kinds[kind].insert(tp.clone(), wish);
        }
        let first_of = |[validate, find, fetch]: [BTreeMap<Tp, Wish>; 3]| {
            if !validate.is_empty() {
                Plan::Validate(validate)
            } else if !find.is_empty() {
                Plan::FindBeginning(find)
            } else {
                Plan::Fetch(fetch)
            }
        };
        let plans = by_broker.into_values().map(|(leader, kinds)| (leader, first_of(kinds)));
        (plans.collect(), again_ns)
    }

    fn fetch_request(&self, asked: session::Asked) -> FetchRequest {
        let options = &self.core.options;
        FetchRequest {
            replica_id: -1,
            max_wait_ms: wire_ms(options.fetch_max_wait),
            min_bytes: options.fetch_min_bytes,
            max_bytes: options.fetch_max_bytes,
            isolation_level: match self.core.config.isolation {
                Isolation::ReadUncommitted => 0,
                Isolation::ReadCommitted => 1,
            },
            session_id: asked.session_id,
            session_epoch: asked.session_epoch,
            topics: asked.topics,
            forgotten_topics: asked.forgotten_topics,
            ..Default::default()
        }
    }
}

/// Looks after all partitions, for as long as there is a consumer.
async fn keep(fetcher: Rc<Fetcher>) {
    let core = Rc::clone(&fetcher.core);
    loop {
        let (told, changed) = (fetcher.wake.told(), core.metadata.changed.told());
        fetcher.asking.borrow_mut().retain(|_, task| !task.is_over());
        if fetcher.note_leaders() {
            core.metadata.doubt();
        }
        let (plans, again_ns) = fetcher.plan();
        for (leader, plan) in plans {
            let broker = leader.broker;
            let task = core.io.spawn(answer::ask(Rc::clone(&fetcher), leader, plan));
            fetcher.asking.borrow_mut().insert(broker, task);
        }
        match first(told, first(changed, core.io.sleep_until(again_ns))).await {
            First::Left(()) | First::Right(_) => {}
        }
    }
}

/// How long a fetch may take: the broker holds it for a while.
fn fetch_timeout_ns(core: &Core) -> u64 {
    core.request_timeout_ns().saturating_add(ns(core.options.fetch_max_wait))
}
