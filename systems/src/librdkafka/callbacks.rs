//! What librdkafka calls back: its own warnings, how a record ended, and what a group gives and takes.

use super::{BEGINNING, Report, ask_timeout};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{
    BaseConsumer, Consumer, ConsumerContext, Rebalance as RdRebalance, RebalanceProtocol,
};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::ProducerContext;
use rdkafka::topic_partition_list::{Offset as RdOffset, TopicPartitionList};
use rdkafka::types::RDKafkaRespErr;
use riprap_core::client::{ClientConfig, ClientLog};
use riprap_core::op::{Offset, Rebalance};
use std::sync::{Arc, Mutex};

/// Hears how the one record under way ended.
pub(super) struct Reports {
    pub(super) log: ClientLog,
    pub(super) last: Arc<Mutex<Option<Report>>>,
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, subject: &str, line: &str) {
        write_log(&self.log, level, subject, line);
    }
}

fn write_log(log: &ClientLog, level: RDKafkaLogLevel, subject: &str, line: &str) {
    log.0(&format!("{level:?} {subject}: {line}"));
}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();
    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let report = match result {
            Ok(message) => Ok(Offset(message.offset())),
            Err((error, _)) => Err(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown)),
        };
        *self.last.lock().expect("no holder panics") = Some(report);
    }
}

/// Hears what the group gives and takes.
pub(super) struct Rebalances {
    pub(super) config: ClientConfig,
    pub(super) seen: Arc<Mutex<Vec<Rebalance>>>,
}

impl ClientContext for Rebalances {
    fn log(&self, level: RDKafkaLogLevel, subject: &str, line: &str) {
        write_log(&self.config.log, level, subject, line);
    }
}

impl ConsumerContext for Rebalances {
    /// What librdkafka would do by itself, but with every offset resolved first; see [`BEGINNING`].
    fn rebalance(&self, consumer: &BaseConsumer<Self>, what: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let is_cooperative = matches!(consumer.rebalance_protocol(), RebalanceProtocol::Cooperative);
        let done = if what == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.pre_rebalance(consumer, &RdRebalance::Assign(list));
            start_from_committed(consumer, list);
            if is_cooperative { consumer.incremental_assign(list) } else { consumer.assign(list) }
        } else {
            self.pre_rebalance(consumer, &RdRebalance::Revoke(list));
            if is_cooperative { consumer.incremental_unassign(list) } else { consumer.unassign() }
        };
        if let Err(error) = done {
            self.config.log.0(&format!("a rebalance was not carried out: {error}"));
        }
    }

    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &RdRebalance<'_>) {
        let (kind, list) = match rebalance {
            RdRebalance::Assign(list) => (Rebalance::ASSIGNED, list),
            RdRebalance::Revoke(list) if consumer.assignment_lost() => ("lost", list),
            RdRebalance::Revoke(list) => ("revoked", list),
            RdRebalance::Error(_) => return,
        };
        let keys = list
            .elements()
            .iter()
            .filter_map(|part| self.config.key(part.topic(), part.partition()))
            .collect();
        self.seen.lock().expect("no holder panics").push(Rebalance { kind: kind.to_owned(), keys });
    }
}

/// Where a member of a group goes on: where the group has committed, or from the beginning. If the cluster does not say
/// in time, or not of some partition, librdkafka is left to ask it.
fn start_from_committed(consumer: &BaseConsumer<Rebalances>, list: &mut TopicPartitionList) {
    let timeout = ask_timeout(&consumer.context().config);
    let Ok(committed) = consumer.committed_offsets(list.clone(), timeout) else { return };
    for part in committed.elements() {
        if part.error().is_err() {
            continue;
        }
        let offset = match part.offset() {
            offset @ RdOffset::Offset(_) => offset,
            _ => BEGINNING,
        };
        let set = list.set_partition_offset(part.topic(), part.partition(), offset);
        set.expect("the answer names what was asked for");
    }
}
