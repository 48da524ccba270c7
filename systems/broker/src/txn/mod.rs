//! The coordinator of the transactions whose ids live in one partition of `__transaction_state`.
//!
//! A state machine without I/O, and without knowledge of logs and connections, like that of groups. Whoever drives it
//! - replays the partition's records into it when the broker becomes the partition's leader, and calls
//!   [`Coordinator::finish_loading`] **once the partition's high watermark has reached the log's end as it was at the
//!   election**: a decision above the high watermark may still vanish, and must not be told to partitions before;
//! - hands it requests, the outcome of appends and of markers, and the time at [`Coordinator::wake_at_ns`];
//! - carries out [`Coordinator::take_outputs`] after each of those, in order;
//! - says of each append what became of it ([`Coordinator::appended`]): committed, in the order of the log, or refused,
//!   which means that it is not in the log and never will be. An append that is in the log and not committed needs no
//!   word: the coordinator stops keeping the client waiting after a while, and takes it in when it comes;
//! - writes the markers that it orders, and says once of each order what became of it
//!   ([`Coordinator::markers_written`]), but only when no copy of the order can be carried out any more: a marker that
//!   comes late would end the producer's next transaction;
//! - takes the answers of [`Coordinator::resign`] and forgets the coordinator when the broker no longer leads.
//!
//! Nothing counts before it is written down: a decision is told, to the client and to partitions, once its record is
//! committed; no two records of one id are on their way at once, and who comes in between is told to come again
//! (`CONCURRENT_TRANSACTIONS`). Each request with a [`ReplyTo`] is answered exactly once.
//!
//! What it cannot see: whether partitions exist, and who leads them; that another broker leads already and this one has
//! not heard (the driver should not serve [`Coordinator::verify`] out of touch with the cluster); which of two
//! transactions of one epoch an EndTxn means that was long on its way (KAFKA-17754: only an epoch for each transaction
//! tells, see [`Epochs`]). The time that a transaction was open is counted
//! anew by each coordinator, for clocks differ and step (KAFKA-8803), and so is the time for which an id was not used:
//! then it is forgotten, and whoever comes with it later begins anew.
//!
//! Errors are those of the newest versions; older ones say `INVALID_PRODUCER_EPOCH` for `PRODUCER_FENCED`, which is the
//! driver's to change.
//!
//! Source: KIP-98, KIP-360, KIP-588, KIP-890; Kafka's TransactionCoordinator for which error is given when.

mod config;
mod describe;
mod record;
mod transaction;

pub use crate::group::{AppendToken, Record, RecordError, ReplyTo};
pub use config::TxnConfig;
pub use describe::{Described, STATES};
pub use transaction::{Epochs, Producer, TopicPartition};

use crate::defect::DefectKind;
use crate::group::unavailable;
use crate::schedule::Schedule;
use riprap_protocol::ErrorCode;
use riprap_protocol::records::TxnResult;
use std::collections::{BTreeMap, BTreeSet};
use transaction::{State, Step, Transaction};

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Response {
    /// To [`Coordinator::init_producer_id`]: who the producer is now.
    Init(Result<Producer, ErrorCode>),
    /// To [`Coordinator::add_partitions`].
    Add(ErrorCode),
    /// To [`Coordinator::end`]: who the producer is from now on.
    End(Result<Producer, ErrorCode>),
}

impl Response {
    fn failed(self, code: ErrorCode) -> Response {
        match self {
            Response::Init(_) => Response::Init(Err(code)),
            Response::Add(_) => Response::Add(code),
            Response::End(_) => Response::End(Err(code)),
        }
    }
}

/// Markers to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarkerOrder {
    /// Whose transaction ends.
    pub transactional_id: String,
    /// Its producer, perhaps under an epoch that fences it.
    pub producer: Producer,
    /// How it ends.
    pub result: TxnResult,
    /// The coordinator's epoch: its leader epoch.
    pub coordinator_epoch: i32,
    /// Where.
    pub partitions: Vec<TopicPartition>,
}

/// What a coordinator wants done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Answer a request.
    Reply {
        /// As the request came with.
        to: ReplyTo,
        /// The answer.
        response: Response,
    },
    /// Append a record to the partition, and say what became of it.
    Append {
        /// To be given back in [`Coordinator::appended`].
        token: AppendToken,
        /// The record.
        record: Record,
    },
    /// Have markers written, and say what became of that.
    WriteMarkers(MarkerOrder),
}

/// A state on its way to the log.
#[derive(Debug)]
struct Pending {
    /// None: the id is forgotten.
    next: Option<Transaction>,
    /// Who waits for it, what is answered when it is committed, and when that is given up.
    waits: Option<(ReplyTo, Response, u64)>,
}

/// A transactional id.
#[derive(Debug)]
struct Entry {
    /// As it is in the log, committed; none before the first record is.
    known: Option<Transaction>,
    pending: Option<Pending>,
    /// When an open transaction has been so for too long, or an id was not used for too long.
    times_out_at_ns: u64,
    /// After something was refused.
    retry_at_ns: u64,
    /// Partitions that do not know yet how the transaction ended.
    to_mark: BTreeSet<TopicPartition>,
    /// An order for them is on its way.
    is_ordered: bool,
}

impl Entry {
    fn new(known: Option<Transaction>) -> Entry {
        Entry {
            known,
            pending: None,
            times_out_at_ns: 0,
            retry_at_ns: 0,
            to_mark: BTreeSet::new(),
            is_ordered: false,
        }
    }

    /// When it has something to do by itself.
    fn due_at_ns(&self) -> Option<u64> {
        if let Some(pending) = &self.pending {
            return pending.waits.map(|(_, _, at_ns)| at_ns);
        }
        match self.known.as_ref()?.state {
            State::PrepareCommit | State::PrepareAbort if self.is_ordered => None,
            State::PrepareCommit | State::PrepareAbort => Some(self.retry_at_ns),
            State::Ongoing | State::Empty | State::CompleteCommit | State::CompleteAbort => {
                Some(self.times_out_at_ns.max(self.retry_at_ns))
            }
        }
    }
}

/// The coordinator of all transactional ids of one partition.
#[derive(Debug)]
pub struct Coordinator {
    config: TxnConfig,
    epoch: i32,
    is_loading: bool,
    entries: BTreeMap<String, Entry>,
    by_token: BTreeMap<AppendToken, String>,
    last_token: u64,
    schedule: Schedule,
    outputs: Vec<Output>,
}

impl Coordinator {
    /// A coordinator that is loading: requests are told to come again. Its epoch is the partition's leader epoch.
    pub fn new(config: TxnConfig, epoch: i32) -> Coordinator {
        Coordinator {
            config,
            epoch,
            is_loading: true,
            entries: BTreeMap::new(),
            by_token: BTreeMap::new(),
            last_token: 0,
            schedule: Schedule::default(),
            outputs: Vec::new(),
        }
    }

    /// Takes over a record of the partition, in the order of the log.
    ///
    /// Errors: a record that is not understood; nothing has changed, and loading may go on without it.
    pub fn replay(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), RecordError> {
        assert!(self.is_loading, "records are replayed before loading is finished");
        match record::from_record(key, value)? {
            (id, Some(mut transaction)) => {
                // DEFECT amnesiac-coordinator: who takes over knows of no open transaction: what it had is aborted, and its
                // producer, which keeps its epoch, begins another one without knowing.
                if self.config.defect == Some(DefectKind::AmnesiacCoordinator)
                    && transaction.state == State::Ongoing
                {
                    transaction = transaction.aborted();
                }
                self.entries.insert(id, Entry::new(Some(transaction)))
            }
            (id, None) => self.entries.remove(&id),
        };
        Ok(())
    }

    /// Begins to serve. What was decided and not told to all partitions is told again; what is open has its whole time.
    pub fn finish_loading(&mut self, now_ns: u64) {
        self.is_loading = false;
        for id in self.entries.keys().cloned().collect::<Vec<_>>() {
            self.settle(now_ns, &id, true);
        }
    }

    /// Whether [`finish_loading`](Coordinator::finish_loading) has not been called yet.
    pub fn is_loading(&self) -> bool {
        self.is_loading
    }

    /// A producer asks who it is to be; `asks` is who it says it was. Answers, by output.
    ///
    /// `fresh_id` gives a producer id that nobody was given; none: there is none just now.
    pub fn init_producer_id(
        &mut self,
        now_ns: u64,
        to: ReplyTo,
        id: &str,
        timeout_ms: i32,
        asks: Option<Producer>,
        fresh_id: &mut dyn FnMut() -> Option<i64>,
    ) {
        let decided = self.check_id(id).and_then(|()| {
            if !(1..=self.config.max_timeout_ms).contains(&timeout_ms) {
                return Err(ErrorCode::INVALID_TRANSACTION_TIMEOUT);
            }
            let is_known = self.entries.contains_key(id);
            if !is_known && self.entries.len() >= self.config.max_ids {
                return Err(ErrorCode::POLICY_VIOLATION);
            }
            self.check_settled(id)?;
            let known = self.entries.get(id).and_then(|entry| entry.known.as_ref());
            match known {
                // Who says that it was somebody, and nobody remembers: what it wrote is not known either (KAFKA-18019).
                None if asks.is_some() => Err(ErrorCode::PRODUCER_FENCED),
                None => {
                    let id = fresh_id().ok_or(ErrorCode::COORDINATOR_NOT_AVAILABLE)?;
                    Ok(Step::Next(Transaction::new(id, timeout_ms)))
                }
                Some(known) => known.init(asks, timeout_ms, fresh_id),
            }
        });
        let refuse = |code| Response::Init(Err(code));
        match decided {
            Err(code) => self.reply(to, refuse(code)),
            Ok(Step::Done) => {
                let known = self.entries.get(id).and_then(|entry| entry.known.as_ref());
                let producer = known.expect("only what is known is as was asked for").producer;
                self.reply(to, Response::Init(Ok(producer)));
            }
            Ok(Step::Next(next)) => {
                let response = Response::Init(Ok(next.producer));
                self.append(now_ns, id, Some(next), Some((to, response)));
            }
            Ok(Step::Fence(next)) => {
                let response = refuse(ErrorCode::CONCURRENT_TRANSACTIONS);
                self.append(now_ns, id, Some(next), Some((to, response)));
            }
        }
    }

    /// A producer adds partitions to its transaction, which begins with the first. Answers, by output.
    ///
    /// Offsets of a group are added as the partition of `__consumer_offsets` that keeps them.
    pub fn add_partitions(
        &mut self,
        now_ns: u64,
        to: ReplyTo,
        id: &str,
        producer: Producer,
        partitions: &BTreeSet<TopicPartition>,
    ) {
        let max = self.config.max_partitions;
        let decided = self.known(id, producer).and_then(|known| match known.add(producer, partitions)? {
            Step::Next(next) if next.partitions.len() > max => Err(ErrorCode::POLICY_VIOLATION),
            step => Ok(step),
        });
        self.go_on(now_ns, to, id, decided, Response::Add(ErrorCode::NONE));
    }

    /// A producer ends its transaction. Answers, by output, once that is decided.
    ///
    /// `fresh_id` is as in [`init_producer_id`](Coordinator::init_producer_id).
    #[allow(clippy::too_many_arguments)]
    pub fn end(
        &mut self,
        now_ns: u64,
        to: ReplyTo,
        id: &str,
        producer: Producer,
        result: TxnResult,
        epochs: Epochs,
        fresh_id: &mut dyn FnMut() -> Option<i64>,
    ) {
        let known = self.existing(id).and_then(|known| {
            known.check_ends(producer, epochs)?;
            self.check_settled(id)?;
            Ok((known.end(producer, result, epochs, fresh_id)?, known.goes_on_as()))
        });
        match known {
            Err(code) => self.reply(to, Response::End(Err(code))),
            Ok((Step::Done, producer)) => self.reply(to, Response::End(Ok(producer))),
            Ok((Step::Next(next) | Step::Fence(next), _)) => {
                let response = Response::End(Ok(next.goes_on_as()));
                self.append(now_ns, id, Some(next), Some((to, response)));
            }
        }
    }

    /// Whether a partition is in the open transaction of a producer: the partition's leader asks before it appends the
    /// first batch of one, so that nothing is left open that no marker will end.
    pub fn verify(&self, id: &str, producer: Producer, partition: &TopicPartition) -> Result<(), ErrorCode> {
        self.existing(id)?.verify(producer, partition)?;
        // It is being ended: a batch that was let in now could come behind the marker.
        match self.entries.get(id).and_then(|entry| entry.pending.as_ref()) {
            Some(Pending { next: Some(next), .. }) if next.state != State::Ongoing => {
                Err(ErrorCode::CONCURRENT_TRANSACTIONS)
            }
            _ => Ok(()),
        }
    }

    /// Says what became of an append: committed, or refused for this reason and not in the log.
    pub fn appended(&mut self, now_ns: u64, token: AppendToken, outcome: Result<(), ErrorCode>) {
        let Some(id) = self.by_token.remove(&token) else { return };
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Pending { next, waits, .. } = entry.pending.take().expect("its token was known");
        let mut begins = false;
        let answer = match outcome {
            Ok(()) => {
                let was_open = entry.known.as_ref().is_some_and(|known| known.state == State::Ongoing);
                begins = !was_open || next.as_ref().is_none_or(|next| next.state != State::Ongoing);
                entry.known = next;
                waits.map(|(to, response, _)| (to, response))
            }
            Err(code) => {
                entry.retry_at_ns = now_ns + self.config.retry_ms * NS_PER_MS;
                waits.map(|(to, response, _)| (to, response.failed(unavailable(code))))
            }
        };
        if let Some((to, response)) = answer {
            self.reply(to, response);
        }
        if self.entries.get(&id).is_some_and(|entry| entry.known.is_none()) {
            // The first record of an id was refused, or it is forgotten: there is no such id.
            self.entries.remove(&id);
            self.schedule.set(&id, None);
            return;
        }
        self.settle(now_ns, &id, begins);
    }

    /// Says what became of an order: in which of its partitions there is a marker now, or nothing left to mark. The
    /// others are ordered again.
    pub fn markers_written(&mut self, now_ns: u64, order: &MarkerOrder, done: &BTreeSet<TopicPartition>) {
        let Some(entry) = self.entries.get_mut(&order.transactional_id) else { return };
        let is_current = order.coordinator_epoch == self.epoch
            && entry.is_ordered
            && entry.known.as_ref().is_some_and(|known| known.producer == order.producer);
        if !is_current {
            return;
        }
        entry.is_ordered = false;
        entry.to_mark.retain(|partition| !done.contains(partition));
        entry.retry_at_ns = now_ns + self.config.retry_ms * NS_PER_MS;
        if entry.to_mark.is_empty() {
            self.complete(now_ns, &order.transactional_id);
        }
        self.look_again(&order.transactional_id);
    }

    /// Does what is due: transactions that are open for too long, orders to be repeated, clients that wait for the log.
    pub fn tick(&mut self, now_ns: u64) {
        for id in self.schedule.due(now_ns) {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            if let Some(pending) = &mut entry.pending {
                if let Some((to, response, _)) = pending.waits.take() {
                    self.reply(to, response.failed(ErrorCode::COORDINATOR_NOT_AVAILABLE));
                }
            } else if let Some(known) = &entry.known {
                if known.state == State::Ongoing {
                    // DEFECT zombie-commit: a transaction that took too long is aborted, and its producer is not fenced.
                    let next = match self.config.defect {
                        Some(DefectKind::ZombieCommit) => known.aborted(),
                        _ => known.fenced(),
                    };
                    self.append(now_ns, &id, Some(next), None);
                } else if known.state.result().is_none() {
                    self.append(now_ns, &id, None, None);
                } else if entry.to_mark.is_empty() {
                    self.complete(now_ns, &id);
                } else {
                    self.order_markers(&id);
                }
            }
            self.look_again(&id);
        }
    }

    /// When [`tick`](Coordinator::tick) has something to do.
    pub fn wake_at_ns(&self) -> Option<u64> {
        self.schedule.first_ns()
    }

    /// What is to be done since this was last asked, in order.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// The broker no longer leads the partition: everybody who waits is sent to look for the new coordinator. What
    /// they waited for may or may not have happened. Appends and orders that were not carried out yet are not among the
    /// outputs.
    pub fn resign(mut self) -> Vec<Output> {
        self.outputs.retain(|output| matches!(output, Output::Reply { .. }));
        for pending in self.entries.into_values().filter_map(|entry| entry.pending) {
            if let Some((to, response, _)) = pending.waits {
                let response = response.failed(ErrorCode::NOT_COORDINATOR);
                self.outputs.push(Output::Reply { to, response });
            }
        }
        self.outputs
    }

    /// How many transactional ids there are.
    pub fn id_count(&self) -> usize {
        self.entries.len()
    }

    fn check_id(&self, id: &str) -> Result<(), ErrorCode> {
        if self.is_loading {
            Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)
        } else if id.is_empty() {
            Err(ErrorCode::INVALID_REQUEST)
        } else {
            Ok(())
        }
    }

    fn check_settled(&self, id: &str) -> Result<(), ErrorCode> {
        match self.entries.get(id) {
            Some(entry) if entry.pending.is_some() => Err(ErrorCode::CONCURRENT_TRANSACTIONS),
            _ => Ok(()),
        }
    }

    /// What is known of an id, for a request of its producer, if nothing is on its way to the log.
    fn known(&self, id: &str, producer: Producer) -> Result<&Transaction, ErrorCode> {
        let known = self.existing(id)?;
        known.check(producer)?;
        self.check_settled(id)?;
        Ok(known)
    }

    fn existing(&self, id: &str) -> Result<&Transaction, ErrorCode> {
        self.check_id(id)?;
        let known = self.entries.get(id).and_then(|entry| entry.known.as_ref());
        known.ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)
    }

    fn go_on(
        &mut self,
        now_ns: u64,
        to: ReplyTo,
        id: &str,
        decided: Result<Step, ErrorCode>,
        response: Response,
    ) {
        match decided {
            Err(code) => self.reply(to, response.failed(code)),
            Ok(Step::Done) => self.reply(to, response),
            Ok(Step::Next(next) | Step::Fence(next)) => {
                self.append(now_ns, id, Some(next), Some((to, response)))
            }
        }
    }

    fn append(
        &mut self,
        now_ns: u64,
        id: &str,
        next: Option<Transaction>,
        waits: Option<(ReplyTo, Response)>,
    ) {
        self.last_token += 1;
        let token = AppendToken(self.last_token);
        let give_up_at_ns = now_ns + self.config.commit_timeout_ms * NS_PER_MS;
        self.outputs.push(Output::Append { token, record: record::to_record(id, next.as_ref()) });
        self.by_token.insert(token, id.to_owned());
        let entry = self.entries.entry(id.to_owned()).or_insert_with(|| Entry::new(None));
        assert!(entry.pending.is_none(), "no two records of one id are on their way at once");
        let waits = waits.map(|(to, response)| (to, response, give_up_at_ns));
        entry.pending = Some(Pending { next, waits });
        self.look_again(id);
    }

    /// Does what follows from a state that was just written down or loaded; `begins` if it is another state.
    fn settle(&mut self, now_ns: u64, id: &str, begins: bool) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        let Some(known) = &entry.known else { return };
        if begins {
            let lasts_ms = match known.state {
                State::Ongoing => u64::try_from(known.timeout_ms).unwrap_or(0),
                _ => self.config.id_expiration_ms,
            };
            entry.times_out_at_ns = now_ns + lasts_ms * NS_PER_MS;
        }
        if begins && known.state.result().is_some() {
            entry.to_mark = known.partitions.clone();
            if entry.to_mark.is_empty() {
                self.complete(now_ns, id);
            } else {
                self.order_markers(id);
            }
        }
        self.look_again(id);
    }

    fn order_markers(&mut self, id: &str) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        let Some(known) = &entry.known else { return };
        let Some(result) = known.state.result() else { return };
        entry.is_ordered = true;
        self.outputs.push(Output::WriteMarkers(MarkerOrder {
            transactional_id: id.to_owned(),
            producer: known.producer,
            result,
            coordinator_epoch: self.epoch,
            partitions: entry.to_mark.iter().cloned().collect(),
        }));
    }

    /// Every partition knows: that is written down, so that the next transaction may begin.
    fn complete(&mut self, now_ns: u64, id: &str) {
        let known = self.entries.get(id).and_then(|entry| entry.known.as_ref());
        if let Some(next) = known.and_then(|known| Some(known.completed(known.state.result()?))) {
            self.append(now_ns, id, Some(next), None);
        }
    }

    fn look_again(&mut self, id: &str) {
        self.schedule.set(id, self.entries.get(id).and_then(Entry::due_at_ns));
    }

    fn reply(&mut self, to: ReplyTo, response: Response) {
        self.outputs.push(Output::Reply { to, response });
    }
}

const NS_PER_MS: u64 = 1_000_000;

#[cfg(test)]
mod tests;
