//! What holds whatever happens, with clients, partitions and a log of the coordinator's around it:
//! - a transaction ends the same way in all its partitions, and as its producer was told;
//! - no two answers give the same incarnation to different askers, and incarnations of one id rise;
//! - a producer that was replaced changes nothing any more;
//! - once everything is carried out, nothing is open, and every request was answered exactly once.

use super::*;
use proptest::prelude::*;

/// Producers of the first keep their epoch from transaction to transaction.
const IDS: [&str; 2] = ["x", "y"];
const EPOCHS: [Epochs; 2] = [Epochs::Kept, Epochs::Raised];
const PARTITIONS: usize = 3;
const TIMEOUT_MS: i32 = 1000;

#[derive(Clone, Debug)]
enum Action {
    /// A new process of the id asks for an incarnation, or the newest that has one asks again as who it is.
    Init { id: usize, as_who_it_was: bool },
    /// A process adds a partition, and writes into it when that is answered.
    Write { process: usize, partition: usize },
    /// A process ends its transaction.
    End { process: usize, commits: bool },
    /// The log commits so many records.
    LogCommits(usize),
    /// The log refuses the newest record.
    LogRefuses,
    /// The first order is carried out in the partitions whose bits are set; those heard of have theirs set too.
    Mark { written: usize, heard: usize },
    /// So many milliseconds pass.
    Pass(u64),
    /// Another broker coordinates; of what was not committed it has so many records.
    FailOver(usize),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => (0..IDS.len(), prop::bool::weighted(0.3))
            .prop_map(|(id, as_who_it_was)| Action::Init { id, as_who_it_was }),
        8 => (0..6_usize, 0..PARTITIONS).prop_map(|(process, partition)| Action::Write { process, partition }),
        4 => (0..6_usize, any::<bool>()).prop_map(|(process, commits)| Action::End { process, commits }),
        9 => (1..4_usize).prop_map(Action::LogCommits),
        1 => Just(Action::LogRefuses),
        4 => (0..8_usize, 0..8_usize).prop_map(|(written, heard)| Action::Mark { written, heard }),
        2 => prop_oneof![Just(20_u64), Just(60), Just(400), Just(1100), Just(6000)].prop_map(Action::Pass),
        1 => (0..4_usize).prop_map(Action::FailOver),
    ]
}

/// A client's process.
#[derive(Clone, Debug)]
struct Process {
    id: usize,
    producer: Option<Producer>,
    /// The transaction that it is in, by number; another begins when it is told that this one ended.
    transaction: usize,
    /// It asks for this until it is told that it is so: it cannot know before whether the transaction is over.
    ending: Option<TxnResult>,
    /// It gave up: it was told that it was replaced, or of an error that it cannot go on after.
    is_over: bool,
}

/// What a request was.
#[derive(Clone, Debug)]
enum Asked {
    Init { process: usize },
    Add { process: usize, partition: usize },
    End { process: usize, result: TxnResult },
}

/// A partition, as its leader keeps it: who has written, what is open, what became of what.
#[derive(Clone, Debug, Default)]
struct Partition {
    producers: BTreeMap<i64, (i16, i32)>,
    /// By producer id, the transactions with records that no marker has ended.
    open: BTreeMap<i64, BTreeSet<usize>>,
    ended: BTreeMap<usize, TxnResult>,
}

struct World {
    coordinator: Coordinator,
    epoch: i32,
    now_ns: u64,
    committed: Vec<Record>,
    on_their_way: Vec<(AppendToken, Record)>,
    orders: Vec<MarkerOrder>,
    processes: Vec<Process>,
    asked: BTreeMap<u64, Asked>,
    requests: u64,
    next_producer_id: i64,
    transactions: usize,
    partitions: Vec<Partition>,
    told: BTreeMap<usize, TxnResult>,
    /// By id, the newest incarnation that was given out.
    newest: BTreeMap<usize, (usize, Producer)>,
}

fn topic(partition: usize) -> TopicPartition {
    TopicPartition { topic: format!("t{partition}"), index: 0 }
}

fn number(partition: &TopicPartition) -> usize {
    partition.topic[1..].parse().expect("it was made here")
}

impl World {
    fn new() -> World {
        let mut coordinator = Coordinator::new(TxnConfig::default(), 0);
        coordinator.finish_loading(0);
        World {
            coordinator,
            epoch: 0,
            now_ns: 0,
            committed: Vec::new(),
            on_their_way: Vec::new(),
            orders: Vec::new(),
            processes: Vec::new(),
            asked: BTreeMap::new(),
            requests: 0,
            next_producer_id: 0,
            transactions: 0,
            partitions: vec![Partition::default(); PARTITIONS],
            told: BTreeMap::new(),
            newest: BTreeMap::new(),
        }
    }

    fn ask(&mut self, asked: Asked) -> ReplyTo {
        self.requests += 1;
        self.asked.insert(self.requests, asked);
        ReplyTo(self.requests)
    }

    /// A process that has an incarnation, is not over and waits for nothing.
    fn ready(&self, process: usize) -> Option<(usize, Process)> {
        let waits = |at: usize| {
            self.asked.values().any(|asked| {
                let (Asked::Init { process } | Asked::Add { process, .. } | Asked::End { process, .. }) =
                    asked;
                *process == at
            })
        };
        let at = process.checked_rem(self.processes.len())?;
        let found = self.processes[at].clone();
        (!found.is_over && !waits(at) && found.producer.is_some()).then_some((at, found))
    }

    fn init(&mut self, process: usize, asks: Option<Producer>) {
        let to = self.ask(Asked::Init { process });
        let id = IDS[self.processes[process].id];
        let next = &mut self.next_producer_id;
        let mut fresh = || {
            *next += 1;
            Some(*next)
        };
        self.coordinator.init_producer_id(self.now_ns, to, id, TIMEOUT_MS, asks, &mut fresh);
    }

    fn act(&mut self, action: &Action) {
        let now_ns = self.now_ns;
        match *action {
            Action::Init { id, as_who_it_was } => {
                let newest = self.newest.get(&id).map(|(process, _)| *process);
                let again = newest.filter(|_| as_who_it_was).and_then(|process| self.ready(process));
                if let Some((at, process)) = again {
                    self.init(at, process.producer);
                } else {
                    self.transactions += 1;
                    let transaction = self.transactions;
                    self.processes.push(Process {
                        id,
                        producer: None,
                        transaction,
                        ending: None,
                        is_over: false,
                    });
                    self.init(self.processes.len() - 1, None);
                }
            }
            Action::Write { process, partition } => {
                let Some((process, Process { id, producer: Some(producer), ending: None, .. })) =
                    self.ready(process)
                else {
                    return;
                };
                let to = self.ask(Asked::Add { process, partition });
                let partitions = BTreeSet::from([topic(partition)]);
                self.coordinator.add_partitions(now_ns, to, IDS[id], producer, &partitions);
            }
            Action::End { process, commits } => {
                let Some((process, Process { id, producer: Some(producer), ending, .. })) =
                    self.ready(process)
                else {
                    return;
                };
                let result = ending.unwrap_or(if commits { TxnResult::Commit } else { TxnResult::Abort });
                self.processes[process].ending = Some(result);
                let to = self.ask(Asked::End { process, result });
                let fresh = &mut self.next_producer_id;
                let mut fresh = || {
                    *fresh += 1;
                    Some(*fresh)
                };
                self.coordinator.end(now_ns, to, IDS[id], producer, result, EPOCHS[id], &mut fresh);
            }
            Action::LogCommits(count) => {
                for _ in 0..count.min(self.on_their_way.len()) {
                    let (token, record) = self.on_their_way.remove(0);
                    self.committed.push(record);
                    self.coordinator.appended(now_ns, token, Ok(()));
                    self.carry_out();
                }
            }
            Action::LogRefuses => {
                if let Some((token, _)) = self.on_their_way.pop() {
                    self.coordinator.appended(now_ns, token, Err(ErrorCode::NOT_ENOUGH_REPLICAS));
                }
            }
            Action::Mark { written, heard } => self.mark(written, heard),
            Action::Pass(ms) => {
                self.now_ns += ms * NS_PER_MS;
                self.coordinator.tick(self.now_ns);
            }
            Action::FailOver(keeps) => self.fail_over(keeps),
        }
        self.carry_out();
    }

    fn fail_over(&mut self, keeps: usize) {
        self.epoch += 1;
        let next = Coordinator::new(TxnConfig::default(), self.epoch);
        let old = std::mem::replace(&mut self.coordinator, next);
        for output in old.resign() {
            if let Output::Reply { to, response } = output {
                self.answered(to, response);
            }
        }
        let kept = std::mem::take(&mut self.on_their_way).into_iter().take(keeps).map(|(_, record)| record);
        self.committed.extend(kept);
        self.orders.clear();
        for record in &self.committed {
            self.coordinator.replay(&record.key, record.value.as_deref()).expect("a coordinator wrote it");
        }
        self.coordinator.finish_loading(self.now_ns);
    }

    fn mark(&mut self, written: usize, heard: usize) {
        if self.orders.is_empty() {
            return;
        }
        let order = self.orders.remove(0);
        let mut done = BTreeSet::new();
        for marked in &order.partitions {
            let at = number(marked);
            if written & (1 << at) == 0 {
                continue;
            }
            let partition = &mut self.partitions[at];
            let Producer { id, epoch } = order.producer;
            let (known_epoch, coordinator_epoch) =
                partition.producers.get(&id).copied().unwrap_or((epoch, 0));
            assert!(epoch >= known_epoch, "a marker of an epoch that was replaced: {order:?}");
            assert!(
                order.coordinator_epoch >= coordinator_epoch,
                "a coordinator that was replaced: {order:?}"
            );
            partition.producers.insert(id, (epoch, order.coordinator_epoch));
            for transaction in partition.open.remove(&id).unwrap_or_default() {
                let before = partition.ended.insert(transaction, order.result);
                assert!(before.is_none(), "transaction {transaction} ends twice");
            }
            if heard & (1 << at) != 0 {
                done.insert(marked.clone());
            }
        }
        self.coordinator.markers_written(self.now_ns, &order, &done);
    }

    fn carry_out(&mut self) {
        for output in self.coordinator.take_outputs() {
            match output {
                Output::Append { token, record } => self.on_their_way.push((token, record)),
                Output::Reply { to, response } => self.answered(to, response),
                Output::WriteMarkers(order) => self.orders.push(order),
            }
        }
    }

    fn answered(&mut self, to: ReplyTo, response: Response) {
        let asked = self.asked.remove(&to.0).expect("each request is answered once");
        match (asked, response) {
            (Asked::Init { process }, Response::Init(Ok(producer))) => {
                self.is_now(process, producer);
                // Whatever it had open is over.
                self.transactions += 1;
                let now = &mut self.processes[process];
                (now.producer, now.transaction, now.ending) = (Some(producer), self.transactions, None);
            }
            (Asked::Init { process }, Response::Init(Err(code))) => self.failed(process, code),
            (Asked::Add { process, partition }, Response::Add(ErrorCode::NONE)) => {
                self.write(process, partition)
            }
            (Asked::Add { process, .. }, Response::Add(code)) => self.failed(process, code),
            (Asked::End { process, result }, Response::End(Ok(producer))) => {
                self.is_now(process, producer);
                let transaction = self.processes[process].transaction;
                self.told.insert(transaction, result);
                self.transactions += 1;
                let now = &mut self.processes[process];
                (now.producer, now.transaction, now.ending) = (Some(producer), self.transactions, None);
            }
            (Asked::End { process, .. }, Response::End(Err(code))) => {
                // It had begun none.
                if code == ErrorCode::INVALID_TXN_STATE {
                    self.processes[process].ending = None;
                }
                self.failed(process, code);
            }
            (asked, response) => panic!("{response:?} answers no {asked:?}"),
        }
    }

    /// A process was told who it is.
    fn is_now(&mut self, process: usize, producer: Producer) {
        let id = self.processes[process].id;
        if let Some((holder, newest)) = self.newest.insert(id, (process, producer)) {
            let rises = (producer.id, producer.epoch) > (newest.id, newest.epoch);
            // Nobody else may have it; who asks again may get it again, if the first answer was lost.
            assert!(rises || (holder == process && producer == newest), "{producer:?} after {newest:?}");
        }
    }

    fn failed(&mut self, process: usize, code: ErrorCode) {
        let comes_again = [
            ErrorCode::CONCURRENT_TRANSACTIONS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::NOT_COORDINATOR,
            ErrorCode::INVALID_TXN_STATE,
        ];
        if !comes_again.contains(&code) {
            self.processes[process].is_over = true;
        }
    }

    /// The partition's leader asks before it takes the first record of a transaction, as in KIP-890.
    fn write(&mut self, process: usize, partition: usize) {
        let Process { id, producer, transaction, .. } = self.processes[process].clone();
        let producer = producer.expect("who adds a partition has an incarnation");
        let verified = self.coordinator.verify(IDS[id], producer, &topic(partition));
        let partition = &mut self.partitions[partition];
        let (epoch, coordinator_epoch) =
            partition.producers.get(&producer.id).copied().unwrap_or((producer.epoch, 0));
        if producer.epoch < epoch {
            return;
        }
        let is_open = partition.open.get(&producer.id).is_some_and(|open| !open.is_empty());
        if producer.epoch == epoch && is_open || verified.is_ok() {
            partition.producers.insert(producer.id, (producer.epoch, coordinator_epoch));
            partition.open.entry(producer.id).or_default().insert(transaction);
        }
    }

    fn check(&self) {
        let mut results: BTreeMap<usize, TxnResult> = self.told.clone();
        for partition in &self.partitions {
            for (transaction, result) in &partition.ended {
                let other = results.entry(*transaction).or_insert(*result);
                assert_eq!(other, result, "transaction {transaction} ends differently");
            }
        }
    }

    /// Lets everything be carried out, and time pass until what is open is too old.
    fn settle(&mut self) {
        for _ in 0..20 {
            self.act(&Action::LogCommits(usize::MAX));
            while !self.orders.is_empty() {
                self.act(&Action::Mark { written: 7, heard: 7 });
            }
            self.act(&Action::Pass(1100));
        }
        assert!(self.asked.is_empty(), "no answer to {:?}", self.asked);
        for partition in &self.partitions {
            assert!(partition.open.values().all(BTreeSet::is_empty), "left open: {:?}", partition.open);
        }
        let expires_ns = self.now_ns + TxnConfig::default().id_expiration_ms / 2 * NS_PER_MS;
        let next_ns = self.coordinator.wake_at_ns();
        assert!(next_ns.is_none_or(|at_ns| at_ns > expires_ns), "something is left to do");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn transactions_are_all_or_nothing(actions in prop::collection::vec(action(), 1..80)) {
        let mut world = World::new();
        for action in &actions {
            world.act(action);
            world.check();
        }
        world.settle();
        world.check();
    }
}
