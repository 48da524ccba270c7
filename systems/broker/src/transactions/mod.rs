//! Transactions on this broker: the coordinators of those whose ids it keeps, and the partitions that take part in them.
//!
//! ```text
//! here      drives the coordinators, one for each partition of `__transaction_state` that this broker leads
//! asks      before a partition takes the first record of a transaction its leader asks the coordinator
//! markers   how a transaction ended goes from its coordinator to the leaders of its partitions
//! ```
//! What clients ask is in `requests/transactions.rs`; the decisions are those of [`crate::txn`].

mod asks;
mod markers;

pub(crate) use asks::{Asked, Unverified, Verdicts, is_passing, partitions_of, results};
pub(crate) use markers::Part;

use crate::connection::ReplyTo;
use crate::coordinators::TRANSACTIONS_TOPIC;
use crate::coordinators::led::{self, Led};
use crate::defect::DefectKind;
use crate::group::AppendToken;
use crate::ids::PartitionKey;
use crate::node::{Cx, Running};
use crate::txn::{Coordinator, Output, Response, TxnConfig};
use asks::Asks;
use markers::Markers;
use riprap_env::{ConnId, log};
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::AddPartitionsToTxnRequestTopic;
use riprap_protocol::records::{BatchBuilder, RecordBatch};
use std::collections::BTreeMap;

pub(crate) const NS_PER_MS: u64 = 1_000_000;

/// A request that a coordinator will answer.
#[derive(Debug)]
pub(crate) enum PendingTxnRequest {
    Init(ReplyTo),
    AddPartitions {
        to: ReplyTo,
        topics: Vec<AddPartitionsToTxnRequestTopic>,
    },
    AddOffsets(ReplyTo),
    End(ReplyTo),
    /// One of several transactions of one request of a broker.
    OneOfBatch {
        batch: u64,
        at: usize,
    },
    /// This broker asks itself.
    Ask(u64),
}

impl PendingTxnRequest {
    fn is_of(&self, conn: ConnId) -> bool {
        match self {
            PendingTxnRequest::Init(to)
            | PendingTxnRequest::AddPartitions { to, .. }
            | PendingTxnRequest::AddOffsets(to)
            | PendingTxnRequest::End(to) => to.conn == conn,
            PendingTxnRequest::OneOfBatch { .. } | PendingTxnRequest::Ask(_) => false,
        }
    }
}

impl led::Coordinator for Coordinator {
    const KEEPS: &'static str = "transactional ids";

    fn is_loading(&self) -> bool {
        Coordinator::is_loading(self)
    }

    fn replay(&mut self, _now_ns: u64, batch: &RecordBatch) -> Vec<String> {
        let records = batch.records().into_iter().flatten().flatten();
        let skipped = records.filter_map(|record| {
            let key = record.key.unwrap_or_default();
            Coordinator::replay(self, &key, record.value.as_deref()).err()
        });
        skipped.map(|e| e.to_string()).collect()
    }

    fn finish_loading(&mut self, now_ns: u64) {
        Coordinator::finish_loading(self, now_ns);
    }

    fn count(&self) -> usize {
        self.id_count()
    }

    fn appended(&mut self, now_ns: u64, token: AppendToken, outcome: Result<(), ErrorCode>) {
        Coordinator::appended(self, now_ns, token, outcome);
    }
}

/// The transactions that this broker has to do with.
#[derive(Debug)]
pub(crate) struct Transactions {
    config: TxnConfig,
    led: BTreeMap<PartitionKey, Led<Coordinator>>,
    pending: BTreeMap<u64, PendingTxnRequest>,
    requests: u64,
    pub(crate) asks: Asks,
    markers: Markers,
    /// The roles of replicas that the coordinators are there for; see [`Replicas::roles`](crate::replicas::Replicas::roles).
    roles: Option<u64>,
    /// Something happened that may lead to more.
    is_due: bool,
}

impl Transactions {
    pub(crate) fn new(defect: Option<DefectKind>) -> Transactions {
        Transactions {
            config: TxnConfig { defect, ..TxnConfig::default() },
            led: BTreeMap::new(),
            pending: BTreeMap::new(),
            requests: 0,
            asks: Asks::default(),
            markers: Markers::default(),
            roles: None,
            is_due: false,
        }
    }

    /// The coordinator of a partition, if this broker leads it as far as it knows.
    pub(crate) fn get_mut(&mut self, key: PartitionKey) -> Option<&mut Coordinator> {
        self.is_due = true;
        self.led.get_mut(&key).map(|led| &mut led.coordinator)
    }

    /// As [`get_mut`](Transactions::get_mut), only to look.
    pub(crate) fn get(&self, key: PartitionKey) -> Option<&Coordinator> {
        self.led.get(&key).map(|led| &led.coordinator)
    }

    /// All coordinators on this broker.
    pub(crate) fn coordinators(&self) -> impl Iterator<Item = &Coordinator> {
        self.led.values().map(|led| &led.coordinator)
    }

    /// Remembers a request that a coordinator will answer.
    pub(crate) fn remember(&mut self, request: PendingTxnRequest) -> crate::txn::ReplyTo {
        self.requests += 1;
        self.pending.insert(self.requests, request);
        crate::txn::ReplyTo(self.requests)
    }

    pub(crate) fn forget(&mut self, conn: ConnId) {
        self.pending.retain(|_, request| !request.is_of(conn));
        self.asks.forget(conn);
    }

    /// Nothing is coordinated, asked or marked here: so it is on most brokers in most turns.
    fn are_idle(&self) -> bool {
        self.led.is_empty() && self.asks.are_empty() && self.markers.are_empty()
    }

    pub(crate) fn has_more_to_do(&self) -> bool {
        self.is_due
    }

    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        let coordinators = self.led.values().filter_map(|led| led.coordinator.wake_at_ns()).min();
        [coordinators, self.asks.wake_at_ns(), self.markers.wake_at_ns()].into_iter().flatten().min()
    }
}

impl Running {
    /// The partition that keeps a transactional id.
    pub(crate) fn transactions_partition(&self, id: &str) -> Option<PartitionKey> {
        self.keeper_of(TRANSACTIONS_TOPIC, id)
    }

    /// The partition that keeps a transactional id, if this broker coordinates it.
    pub(crate) fn coordinated_transaction(&mut self, id: &str) -> Option<PartitionKey> {
        let key = self.transactions_partition(id)?;
        self.transactions.get_mut(key).map(|_| key)
    }

    /// Does what there is to do for transactions. After the coordinators of groups, which are told here how
    /// transactions ended and must know before what is committed.
    pub(crate) fn settle_transactions(&mut self, cx: &mut Cx<'_>) {
        self.transactions.is_due = false;
        self.follow_transactions_leaderships(cx);
        if self.transactions.are_idle() {
            return;
        }
        let keys: Vec<PartitionKey> = self.transactions.led.keys().copied().collect();
        for key in keys {
            let (Some(led), Some(replica)) = (self.transactions.led.get_mut(&key), self.replicas.get(key))
            else {
                continue;
            };
            self.transactions.is_due |= led.load(replica, cx);
            led.tell_committed(replica, cx.now_ns);
            if led.coordinator.wake_at_ns().is_some_and(|at| at <= cx.now_ns) {
                led.coordinator.tick(cx.now_ns);
            }
            self.carry_out_for_transactions(key, cx);
        }
        self.settle_markers(cx);
        self.settle_asks(cx);
    }

    fn follow_transactions_leaderships(&mut self, cx: &mut Cx<'_>) {
        let roles = Some(self.replicas.roles());
        if std::mem::replace(&mut self.transactions.roles, roles) == roles {
            return;
        }
        let leads = self.leaderships(TRANSACTIONS_TOPIC);
        for key in led::over(&self.transactions.led, &leads) {
            let Some(led) = self.transactions.led.remove(&key) else { continue };
            log!(cx.env, Info, "no longer coordinates the transactions of partition {}", key.index);
            for output in led.coordinator.resign() {
                if let Output::Reply { to, response } = output {
                    self.answer_transaction(to, response, cx);
                }
            }
        }
        let Transactions { led, config, .. } = &mut self.transactions;
        for (key, leadership) in leads {
            let begin = || leadership.begin(Coordinator::new(config.clone(), leadership.epoch.0));
            led.entry(key).or_insert_with(begin);
        }
    }

    /// Does what a coordinator wants done, until it wants no more.
    fn carry_out_for_transactions(&mut self, key: PartitionKey, cx: &mut Cx<'_>) {
        loop {
            let Some(led) = self.transactions.led.get_mut(&key) else { return };
            let outputs = led.coordinator.take_outputs();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                match output {
                    Output::Reply { to, response } => self.answer_transaction(to, response, cx),
                    Output::Append { token, record } => {
                        let result = self.append_for_coordinator(key, &[record], BatchBuilder::new(), cx);
                        let Some(led) = self.transactions.led.get_mut(&key) else { return };
                        led.appended(cx.now_ns, token, result);
                    }
                    Output::WriteMarkers(order) => self.order_markers(key, order, cx),
                }
            }
        }
    }

    fn answer_transaction(&mut self, to: crate::txn::ReplyTo, response: Response, cx: &mut Cx<'_>) {
        let Some(request) = self.transactions.pending.remove(&to.0) else { return };
        match (request, response) {
            (PendingTxnRequest::Init(to), Response::Init(result)) => {
                self.reply_init(to, result, cx);
            }
            (PendingTxnRequest::AddPartitions { to, topics }, Response::Add(code)) => {
                self.reply_add_partitions(to, &topics, &|_, _| code, cx);
            }
            (PendingTxnRequest::AddOffsets(to), Response::Add(code)) => self.reply_add_offsets(to, code, cx),
            (PendingTxnRequest::End(to), Response::End(result)) => self.reply_end(to, result, cx),
            (PendingTxnRequest::OneOfBatch { batch, at }, Response::Add(code)) => {
                self.answer_one_of_batch(batch, at, code, cx);
            }
            (PendingTxnRequest::Ask(ask), Response::Add(code)) => {
                self.ask_answered(ask, &|_| code, cx.now_ns)
            }
            (request, response) => unreachable!("{response:?} answers no {request:?}"),
        }
    }
}
