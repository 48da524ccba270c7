//! What administrators are told of transactions: DescribeTransactions and ListTransactions, each of those whose coordinator
//! this broker is.
//!
//! Left out: ListTransactions by a pattern (version 2), for there are no regular expressions here.
//!
//! Source: KIP-664, KIP-994.

use crate::connection::ReplyTo;
use crate::node::{Cx, Running};
use crate::transactions::NS_PER_MS;
use crate::txn::{Described, STATES};
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, DescribeTransactionsResponseTopic,
    DescribeTransactionsResponseTransaction, ListTransactionsRequest, ListTransactionsResponse,
    ListTransactionsResponseTransaction,
};

impl Running {
    pub(crate) fn on_describe_transactions(
        &mut self,
        to: ReplyTo,
        request: &DescribeTransactionsRequest,
        cx: &mut Cx<'_>,
    ) {
        let now_ms = cx.env.wall_clock_ms();
        let transactions = request.transactional_ids.iter().map(|id| {
            let transactional_id = id.clone();
            match self.transaction(id) {
                Ok(described) => shown(transactional_id, &described, cx.now_ns, now_ms),
                Err(error_code) => DescribeTransactionsResponseTransaction {
                    error_code,
                    transactional_id,
                    ..Default::default()
                },
            }
        });
        let response =
            DescribeTransactionsResponse { transactions: transactions.collect(), ..Default::default() };
        self.reply(to, &response, cx);
    }

    fn transaction(&self, id: &str) -> Result<Described, ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        let key = self.transactions_partition(id).ok_or(ErrorCode::NOT_COORDINATOR)?;
        let coordinator = self.transactions.get(key).ok_or(ErrorCode::NOT_COORDINATOR)?;
        if coordinator.is_loading() {
            return Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
        }
        coordinator.describe(id).ok_or(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND)
    }

    pub(crate) fn on_list_transactions(
        &mut self,
        to: ReplyTo,
        request: &ListTransactionsRequest,
        cx: &mut Cx<'_>,
    ) {
        let mut response = ListTransactionsResponse::default();
        let is_known = |state: &&String| STATES.contains(&state.as_str());
        response.unknown_state_filters =
            request.state_filters.iter().filter(|state| !is_known(state)).cloned().collect();
        for coordinator in self.transactions.coordinators() {
            if coordinator.is_loading() {
                response.error_code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS;
                response.transactions.clear();
                break;
            }
            for (id, transaction) in coordinator.describe_all() {
                let is_old = transaction.open_since_ns.is_none_or(|since_ns| {
                    let age_ms = cx.now_ns.saturating_sub(since_ns) / NS_PER_MS;
                    i64::try_from(age_ms).unwrap_or(i64::MAX) > request.duration_filter_ms
                });
                let states = &request.state_filters;
                let is_wanted = (states.is_empty() || states.iter().any(|state| state == transaction.state))
                    && (request.producer_id_filters.is_empty()
                        || request.producer_id_filters.contains(&transaction.producer.id))
                    && (request.duration_filter_ms < 0 || is_old);
                if is_wanted {
                    response.transactions.push(ListTransactionsResponseTransaction {
                        transactional_id: id.to_owned(),
                        producer_id: transaction.producer.id,
                        state: transaction.state.to_owned(),
                    });
                }
            }
        }
        self.reply(to, &response, cx);
    }
}

fn shown(
    transactional_id: String,
    described: &Described,
    now_ns: u64,
    now_ms: i64,
) -> DescribeTransactionsResponseTransaction {
    let mut topics: Vec<DescribeTransactionsResponseTopic> = Vec::new();
    for partition in &described.partitions {
        match topics.last_mut() {
            Some(topic) if topic.name == partition.topic => topic.partitions.push(partition.index),
            _ => topics.push(DescribeTransactionsResponseTopic {
                name: partition.topic.clone(),
                partitions: vec![partition.index],
            }),
        }
    }
    let start_time_ms = described.open_since_ns.map_or(-1, |since_ns| {
        let age_ms = now_ns.saturating_sub(since_ns) / NS_PER_MS;
        now_ms.saturating_sub(i64::try_from(age_ms).unwrap_or(i64::MAX))
    });
    DescribeTransactionsResponseTransaction {
        error_code: ErrorCode::NONE,
        transactional_id,
        state: described.state.to_owned(),
        timeout_ms: described.timeout_ms,
        start_time_ms,
        producer_id: described.producer.id,
        producer_epoch: described.producer.epoch,
        topics,
    }
}
