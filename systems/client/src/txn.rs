//! Transactions.
//!
//! ```text
//! begin   InitProducerId, the first time and after doubts: ends what a client of the same id has left open, fences it
//! send    AddPartitionsToTxn, then Produce; in version 2 Produce alone
//! offsets AddOffsetsToTxn, then TxnOffsetCommit to the group's coordinator; in version 2 the latter alone
//! commit  EndTxn; in version 2 its answer has the epoch of the next transaction
//! abort   EndTxn
//! ```
//!
//! All of a transaction takes at most the time that one record may take otherwise, its abort a little more.
//!
//! A transaction takes effect only if its coordinator is asked to commit it, and the only one who asks is this client. What
//! goes wrong before that certainly had no effect. Once EndTxn went out to commit, no refusal proves anything: coordinators
//! give their errors, fencing among them, also after they wrote down that they will commit (Kafka's
//! TransactionCoordinator, endTransaction, looks at its state once more after the append). Only an abort that the coordinator
//! takes proves that no commit took effect, for it refuses to abort what it has begun to commit.
//!
//! A producer that cannot go on asks for another epoch with its next transaction: as a stranger if its coordinator has
//! refused it or did not answer, which ends whatever is open; as itself after an abort that left a record in doubt, so that
//! what is still on its way is refused (KIP-360). Version 2 has a new epoch after each end anyway.
//!
//! Source: Java's TransactionManager; KIP-98, KIP-360, KIP-447 (groups), KIP-890 (version 2), KIP-1050 (which errors abort).

use crate::backoff::{ns, wire_ms};
use crate::coordinator::Finder;
use crate::error::{OPERATION_TIMED_OUT, STATE, Trouble, refused, timed_out};
use crate::metadata::Tp;
use crate::net::{CallError, LATEST_VERSION, Lane};
use crate::options::TransactionVersion;
use crate::producer::{Identity, Producer};
use riprap_core::client::LogError;
use riprap_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnResponse, EndTxnRequest, InitProducerIdRequest, TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic, TxnOffsetCommitResponse,
};
use riprap_protocol::{ErrorCode, Request};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// How long an abort is waited for, as a part of the time for the transaction: an op has a third of that left.
const ABORT_SHARE: u32 = 8;

/// The shortest time after which a coordinator is asked to abort what its producer left open.
const MIN_TIMEOUT: Duration = Duration::from_secs(3);

/// The last versions of before version 2 of transactions.
const ADD_PARTITIONS_MAX: i16 = 3;
const TXN_OFFSET_COMMIT_MAX: i16 = 4;
const END_TXN_MAX: i16 = 4;

/// From this version on a producer says who it was. Source: KIP-360.
const KNOWS_SINCE: i16 = 3;

/// The level of `transaction.version` from which on leaders add partitions. Source: KIP-890.
const LEVEL_2: i16 = 2;

/// How far a producer with a transactional id is.
#[derive(Debug)]
pub(crate) enum State {
    /// It has no epoch from its coordinator.
    New,
    /// It may begin a transaction.
    Ready {
        /// It needs another epoch first.
        bumps: bool,
    },
    /// It is in one.
    Open(Open),
}

/// A transaction.
#[derive(Debug)]
pub(crate) struct Open {
    deadline_ns: u64,
    is_v2: bool,
    /// Partitions that the coordinator knows to take part.
    added: BTreeSet<Tp>,
    /// Whether the coordinator may know of it.
    is_started: bool,
    /// A record was sent, and nobody knows what became of it.
    in_doubt: bool,
    /// It can only be aborted.
    failed: Option<LogError>,
}

/// Who commits offsets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    pub(crate) id: String,
    /// The generation, or the member's epoch.
    pub(crate) generation: i32,
}

/// An offset to commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Commit {
    pub(crate) tp: Tp,
    pub(crate) offset: i64,
    /// That of the last record before it, or -1.
    pub(crate) leader_epoch: i32,
}

/// Why the coordinator did not do what it was asked.
struct Unasked {
    trouble: Trouble,
    /// Whether any attempt went out.
    is_sent: bool,
}

impl Unasked {
    fn error(&self, definite: bool, what: &str) -> LogError {
        match self.trouble {
            Trouble::Code(code) if !code.is_retriable() => refused(code, definite, what),
            last => timed_out(OPERATION_TIMED_OUT, definite, what, Some(last)),
        }
    }
}

fn not_open() -> LogError {
    LogError { code: STATE.to_owned(), definite: true, message: "no transaction is open".to_owned() }
}

impl Producer {
    /// Whether it is in a transaction.
    pub(crate) fn is_in_txn(&self) -> bool {
        matches!(self.txn, State::Open(_))
    }

    pub(crate) fn is_v2(&self) -> bool {
        matches!(&self.txn, State::Open(open) if open.is_v2)
    }

    fn open(&mut self) -> Result<&mut Open, LogError> {
        match &mut self.txn {
            State::Open(open) => Ok(open),
            _ => Err(not_open()),
        }
    }

    /// When the transaction must be over.
    pub(crate) fn txn_deadline_ns(&mut self) -> Result<u64, LogError> {
        self.open().map(|open| open.deadline_ns)
    }

    /// A record of the transaction was not sent.
    pub(crate) fn not_sent(&mut self, error: &LogError, last: Option<Trouble>, in_doubt: bool) {
        if let State::Open(open) = &mut self.txn {
            open.in_doubt |= in_doubt;
            open.failed.get_or_insert_with(|| error.clone());
        }
        let is_fenced = matches!(
            last,
            Some(Trouble::Code(ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_PRODUCER_EPOCH))
        );
        if is_fenced {
            // Whatever it asks its coordinator now is refused too; that is for the abort to find out.
            self.core
                .io
                .log(riprap_env::LogLevel::Info, format_args!("the producer is fenced: {}", error.message));
        }
    }

    /// Whoever sent the last record went away before it was acknowledged.
    pub(crate) fn leave_in_doubt(&mut self) {
        if let State::Open(open) = &mut self.txn {
            open.in_doubt = true;
            open.failed.get_or_insert_with(|| {
                timed_out(OPERATION_TIMED_OUT, false, "a record that was not waited for", None)
            });
        }
    }

    /// Asks a coordinator until it answers with no error that passes.
    async fn ask<R: Request>(
        &self,
        finder: &Finder,
        at_most: i16,
        by_ns: u64,
        body: impl Fn(i16) -> R,
        code_of: impl Fn(&R::Response) -> ErrorCode,
    ) -> Result<R::Response, Unasked> {
        let core = &self.core;
        let mut backoff = core.backoff();
        let mut is_sent = false;
        loop {
            let found = finder.find(by_ns).await;
            let address = found.map_err(|trouble| Unasked { trouble, is_sent })?;
            let trouble = match core.call((Lane::Produce, &address), at_most, by_ns, &body).await {
                Err(trouble) => {
                    is_sent |= trouble == Trouble::Call(CallError::Lost);
                    finder.forget();
                    trouble
                }
                Ok(answer) => {
                    is_sent = true;
                    match code_of(&answer) {
                        ErrorCode::NONE => return Ok(answer),
                        code @ (ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE) => {
                            finder.forget();
                            Trouble::Code(code)
                        }
                        code if code.is_retriable() => Trouble::Code(code),
                        code => return Err(Unasked { trouble: Trouble::Code(code), is_sent }),
                    }
                }
            };
            backoff.pause(&core.io, by_ns).await;
            if core.io.now_ns() >= by_ns {
                return Err(Unasked { trouble, is_sent });
            }
        }
    }

    /// See [`Log::begin`](riprap_core::client::Log::begin).
    pub(crate) async fn begin(&mut self) -> Result<(), LogError> {
        let deadline_ns = self.core.io.now_ns() + ns(self.core.config.delivery_timeout);
        let is_anew = match self.txn {
            State::Ready { bumps: false } => None,
            State::Ready { bumps: true } => Some(self.identity),
            State::New | State::Open(_) => Some(None),
        };
        if let Some(known_as) = is_anew {
            self.txn = State::New;
            self.init(known_as, deadline_ns).await?;
        }
        let coordinator = self.coordinator()?;
        let is_v2 = match self.core.options.transactions {
            TransactionVersion::One => false,
            TransactionVersion::Two => {
                let address = coordinator.find(deadline_ns).await;
                let link = address.map(|address| self.core.net.link(Lane::Produce, &address));
                let versions = match &link {
                    Ok(link) => self.core.io.by(deadline_ns, link.ready()).await,
                    Err(_) => None,
                };
                match versions {
                    Some(Ok((_, versions))) => versions.transactions >= LEVEL_2,
                    _ => {
                        coordinator.forget();
                        return Err(timed_out(OPERATION_TIMED_OUT, true, "the transaction's begin", None));
                    }
                }
            }
        };
        self.txn = State::Open(Open {
            deadline_ns,
            is_v2,
            added: BTreeSet::new(),
            is_started: false,
            in_doubt: false,
            failed: None,
        });
        Ok(())
    }

    fn coordinator(&self) -> Result<Rc<Finder>, LogError> {
        let message = "the client has no transactional id".to_owned();
        self.coordinator.clone().ok_or(LogError { code: STATE.to_owned(), definite: true, message })
    }

    /// Gets an epoch, as a stranger or as who it was.
    async fn init(&mut self, known_as: Option<Identity>, by_ns: u64) -> Result<(), LogError> {
        let coordinator = self.coordinator()?;
        let core = Rc::clone(&self.core);
        let longest = core.config.delivery_timeout.max(MIN_TIMEOUT);
        let timeout = core.options.transaction_timeout.unwrap_or(longest);
        let body = |version| {
            let known_as = known_as.filter(|_| version >= KNOWS_SINCE);
            InitProducerIdRequest {
                transactional_id: core.config.transactional_id.clone(),
                transaction_timeout_ms: wire_ms(timeout),
                producer_id: known_as.map_or(-1, |known| known.id),
                producer_epoch: known_as.map_or(-1, |known| known.epoch),
            }
        };
        let made = self.ask(&coordinator, LATEST_VERSION, by_ns, body, |made| made.error_code).await;
        let made = made.map_err(|unasked| unasked.error(true, "the transactional id"))?;
        self.identity = Some(Identity { id: made.producer_id, epoch: made.producer_epoch });
        self.sequences.clear();
        Ok(())
    }

    /// Brings a partition into the transaction.
    pub(crate) async fn add_partition(&mut self, tp: &Tp, by_ns: u64) -> Result<(), LogError> {
        let open = self.open()?;
        open.is_started = true;
        if open.is_v2 || open.added.contains(tp) {
            return Ok(());
        }
        let (coordinator, identity) = (self.coordinator()?, self.known_identity());
        let topic =
            AddPartitionsToTxnRequestTopic { name: tp.topic.to_string(), partitions: vec![tp.partition] };
        let body = |_| AddPartitionsToTxnRequest {
            transactional_id: self.transactional_id(),
            producer_id: identity.id,
            producer_epoch: identity.epoch,
            topics: vec![topic.clone()],
            ..Default::default()
        };
        let code_of = |answer: &AddPartitionsToTxnResponse| {
            let partitions = answer.results_by_topic.iter().flat_map(|topic| &topic.results_by_partition);
            first_error(partitions.map(|partition| partition.error_code))
        };
        let added = self.ask(&coordinator, ADD_PARTITIONS_MAX, by_ns, body, code_of).await;
        let added = added.map(drop).map_err(|unasked| unasked.error(true, "a partition of the transaction"));
        let open = self.open()?;
        match &added {
            Ok(()) => {
                open.added.insert(tp.clone());
            }
            Err(error) => open.failed = Some(error.clone()),
        }
        added
    }

    fn known_identity(&self) -> Identity {
        self.identity.expect("a transaction is begun with one")
    }

    fn transactional_id(&self) -> String {
        self.core.config.transactional_id.clone().expect("a transaction is begun with one")
    }

    /// Makes offsets of a group a part of the transaction.
    pub(crate) async fn send_offsets(
        &mut self,
        group: &Finder,
        member: Member,
        commits: &[Commit],
    ) -> Result<(), LogError> {
        let sent = self.try_send_offsets(group, member, commits).await;
        if let (Err(error), State::Open(open)) = (&sent, &mut self.txn) {
            open.failed.get_or_insert_with(|| error.clone());
        }
        sent
    }

    async fn try_send_offsets(
        &mut self,
        group: &Finder,
        member: Member,
        commits: &[Commit],
    ) -> Result<(), LogError> {
        let open = self.open()?;
        open.is_started = true;
        let (by_ns, is_v2) = (open.deadline_ns, open.is_v2);
        let (coordinator, identity) = (self.coordinator()?, self.known_identity());
        let group_id = &self.core.config.group_id;
        if !is_v2 {
            let body = |_| AddOffsetsToTxnRequest {
                transactional_id: self.transactional_id(),
                producer_id: identity.id,
                producer_epoch: identity.epoch,
                group_id: group_id.clone(),
            };
            let added = self.ask(&coordinator, LATEST_VERSION, by_ns, body, |answer| answer.error_code).await;
            added.map_err(|unasked| unasked.error(true, "the group of the transaction"))?;
        }
        let body = |_| TxnOffsetCommitRequest {
            transactional_id: self.transactional_id(),
            group_id: group_id.clone(),
            producer_id: identity.id,
            producer_epoch: identity.epoch,
            generation_id: member.generation,
            member_id: member.id.clone(),
            group_instance_id: None,
            topics: by_topic(commits),
        };
        let code_of = |answer: &TxnOffsetCommitResponse| {
            let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
            first_error(partitions.map(|partition| partition.error_code))
        };
        let at_most = if is_v2 { LATEST_VERSION } else { TXN_OFFSET_COMMIT_MAX };
        let sent = self.ask(group, at_most, by_ns, body, code_of).await;
        sent.map(drop).map_err(|unasked| unasked.error(true, "the offsets of the transaction"))
    }

    /// See [`Log::commit`](riprap_core::client::Log::commit).
    pub(crate) async fn commit(&mut self) -> Result<(), LogError> {
        let open = self.open()?;
        let by_ns = open.deadline_ns;
        if let Some(failed) = open.failed.clone() {
            // It was never asked to commit, and never will be: whether the abort is confirmed does not matter.
            let aborted = self.abort().await;
            drop(aborted);
            return Err(LogError { definite: true, ..failed });
        }
        if !open.is_started {
            self.txn = State::Ready { bumps: false };
            return Ok(());
        }
        match self.end(true, by_ns).await {
            Ok(()) => {
                self.txn = State::Ready { bumps: false };
                Ok(())
            }
            Err(unasked) if unasked.trouble == Trouble::Code(ErrorCode::TRANSACTION_ABORTABLE) => {
                let is_aborted = self.abort().await.is_ok();
                Err(unasked.error(is_aborted, "the commit"))
            }
            Err(unasked) => {
                self.txn = State::New;
                Err(unasked.error(!unasked.is_sent, "the commit"))
            }
        }
    }

    /// See [`Log::abort`](riprap_core::client::Log::abort).
    pub(crate) async fn abort(&mut self) -> Result<(), LogError> {
        let open = self.open()?;
        if !open.is_started {
            self.txn = State::Ready { bumps: false };
            return Ok(());
        }
        let bumps = open.in_doubt && !open.is_v2;
        let by_ns = self.core.io.now_ns() + ns(self.core.config.delivery_timeout / ABORT_SHARE);
        match self.end(false, by_ns).await {
            Ok(()) => {
                self.txn = State::Ready { bumps };
                Ok(())
            }
            Err(unasked) => {
                self.txn = State::New;
                Err(unasked.error(true, "the abort"))
            }
        }
    }

    async fn end(&mut self, committed: bool, by_ns: u64) -> Result<(), Unasked> {
        let coordinator = self.coordinator.clone().expect("a transaction is begun with one");
        let (identity, is_v2) = (self.known_identity(), self.is_v2());
        let body = |_| EndTxnRequest {
            transactional_id: self.transactional_id(),
            producer_id: identity.id,
            producer_epoch: identity.epoch,
            committed,
        };
        let at_most = if is_v2 { LATEST_VERSION } else { END_TXN_MAX };
        let ended = self.ask(&coordinator, at_most, by_ns, body, |answer| answer.error_code).await?;
        if is_v2 && ended.producer_id >= 0 {
            self.identity = Some(Identity { id: ended.producer_id, epoch: ended.producer_epoch });
            self.sequences.clear();
        }
        Ok(())
    }
}

/// Offsets as they are said to coordinators.
fn by_topic(commits: &[Commit]) -> Vec<TxnOffsetCommitRequestTopic> {
    let mut topics: Vec<TxnOffsetCommitRequestTopic> = Vec::new();
    for commit in commits {
        let partition = TxnOffsetCommitRequestPartition {
            index: commit.tp.partition,
            committed_offset: commit.offset,
            committed_leader_epoch: commit.leader_epoch,
            committed_metadata: None,
        };
        match topics.iter_mut().find(|topic| *topic.name == *commit.tp.topic) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(TxnOffsetCommitRequestTopic {
                name: commit.tp.topic.to_string(),
                partitions: vec![partition],
            }),
        }
    }
    topics
}

/// The first that is an error, if any is.
pub(crate) fn first_error(mut codes: impl Iterator<Item = ErrorCode>) -> ErrorCode {
    codes.find(|code| !code.is_none()).unwrap_or(ErrorCode::NONE)
}
