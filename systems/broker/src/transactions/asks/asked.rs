//! The other side of asking: what this broker, as the coordinator of transactions, answers to itself and to others.

use super::{by_topic, partitions_of, results};
use crate::connection::ReplyTo;
use crate::node::{Cx, Running};
use crate::transactions::PendingTxnRequest;
use crate::txn::{Producer, Response, TopicPartition};
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnRequestTransaction, AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponseTransaction,
};
use std::collections::{BTreeMap, BTreeSet};

/// A request of another broker about several transactions.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) to: ReplyTo,
    pub(super) response: AddPartitionsToTxnResponse,
    pub(super) left: usize,
}

impl Running {
    /// What this broker, as the coordinator, says of partitions.
    pub(super) fn verify_here(
        &mut self,
        id: &str,
        producer: Producer,
        partitions: &BTreeSet<TopicPartition>,
        now_ns: u64,
    ) -> BTreeMap<TopicPartition, ErrorCode> {
        // Who is out of touch may have been replaced, and not know how the transaction ended.
        let is_in_touch = self.membership.is_in_touch(now_ns);
        let key = self.transactions_partition(id).filter(|_| is_in_touch);
        let coordinator = key.and_then(|key| self.transactions.get_mut(key));
        let verdict = |partition: &TopicPartition| match &coordinator {
            None => ErrorCode::NOT_COORDINATOR,
            Some(coordinator) => coordinator.verify(id, producer, partition).err().unwrap_or(ErrorCode::NONE),
        };
        partitions.iter().map(|partition| (partition.clone(), verdict(partition))).collect()
    }

    /// Adds partitions to a transaction that this broker coordinates.
    pub(crate) fn add_here(
        &mut self,
        request: PendingTxnRequest,
        id: &str,
        producer: Producer,
        partitions: &BTreeSet<TopicPartition>,
        cx: &mut Cx<'_>,
    ) {
        let to = self.transactions.remember(request);
        let Some(key) = self.coordinated_transaction(id) else {
            return self.answer_transaction(to, Response::Add(ErrorCode::NOT_COORDINATOR), cx);
        };
        // The end of a transaction is not told to partitions that the coordinator knows nothing of: it takes them for
        // deleted. So none is added that it has not heard of yet.
        if partitions.iter().any(|partition| self.key_of(&partition.topic, partition.index).is_err()) {
            let code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            return self.answer_transaction(to, Response::Add(code), cx);
        }
        if let Some(coordinator) = self.transactions.get_mut(key) {
            coordinator.add_partitions(cx.now_ns, to, id, producer, partitions);
        }
    }

    /// Another broker asks about several transactions.
    pub(crate) fn on_asked(&mut self, to: ReplyTo, request: AddPartitionsToTxnRequest, cx: &mut Cx<'_>) {
        let id = self.transactions.asks.new_id();
        let left = request.transactions.len();
        let mut response = AddPartitionsToTxnResponse::default();
        let asked: Vec<(BTreeSet<TopicPartition>, AddPartitionsToTxnRequestTransaction)> =
            request.transactions.into_iter().map(|asked| (partitions_of(&asked.topics), asked)).collect();
        for (partitions, asked) in &asked {
            let topic_results = results(&by_topic(partitions), &|_, _| ErrorCode::NONE);
            let transactional_id = asked.transactional_id.clone();
            response
                .results_by_transaction
                .push(AddPartitionsToTxnResponseTransaction { transactional_id, topic_results });
        }
        if left == 0 {
            self.reply(to, &response, cx);
            return;
        }
        self.transactions.asks.batches.insert(id, Batch { to, response, left });
        for (at, (partitions, asked)) in asked.into_iter().enumerate() {
            let producer = Producer { id: asked.producer_id, epoch: asked.producer_epoch };
            if asked.verify_only {
                let codes = self.verify_here(&asked.transactional_id, producer, &partitions, cx.now_ns);
                self.fill_in_batch(id, at, &|partition| codes[partition], cx);
            } else {
                let request = PendingTxnRequest::OneOfBatch { batch: id, at };
                self.add_here(request, &asked.transactional_id, producer, &partitions, cx);
            }
        }
    }

    pub(in crate::transactions) fn answer_one_of_batch(
        &mut self,
        batch: u64,
        at: usize,
        code: ErrorCode,
        cx: &mut Cx<'_>,
    ) {
        self.fill_in_batch(batch, at, &|_| code, cx);
    }

    fn fill_in_batch(
        &mut self,
        id: u64,
        at: usize,
        code_of: &dyn Fn(&TopicPartition) -> ErrorCode,
        cx: &mut Cx<'_>,
    ) {
        let batches = &mut self.transactions.asks.batches;
        let Some(batch) = batches.get_mut(&id) else { return };
        for topic in &mut batch.response.results_by_transaction[at].topic_results {
            for partition in &mut topic.results_by_partition {
                let name = TopicPartition { topic: topic.name.clone(), index: partition.index };
                partition.error_code = code_of(&name);
            }
        }
        batch.left -= 1;
        if batch.left == 0
            && let Some(batch) = batches.remove(&id)
        {
            self.reply(batch.to, &batch.response, cx);
        }
    }
}
