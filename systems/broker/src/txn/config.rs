//! What a coordinator of transactions may be told, and its limits.

use crate::defect::DefectKind;

/// A coordinator's knobs and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnConfig {
    /// The longest that a producer may have a transaction open.
    pub max_timeout_ms: i32,
    /// How long a client is kept waiting for its record to be committed.
    pub commit_timeout_ms: u64,
    /// The pause before markers that were not written are ordered again, and before a refused append of the
    /// coordinator's own is tried again.
    pub retry_ms: u64,
    /// How long an id without an open transaction is remembered.
    pub id_expiration_ms: u64,
    /// Transactional ids of one coordinator.
    pub max_ids: usize,
    /// Partitions of one transaction.
    pub max_partitions: usize,
    /// A planted bug.
    pub defect: Option<DefectKind>,
}

impl Default for TxnConfig {
    fn default() -> TxnConfig {
        TxnConfig {
            // Kafka's `transaction.max.timeout.ms`.
            max_timeout_ms: 15 * 60 * 1000,
            // Kafka's, and well below the 60 s after which clients give up a request.
            commit_timeout_ms: 5000,
            // A leader that moved is known within this, and a client that waits for its next transaction hardly notices.
            retry_ms: 50,
            // Kafka's `transactional.id.expiration.ms`: a week.
            id_expiration_ms: 7 * 24 * 60 * 60 * 1000,
            // This bounds memory for clients that draw a new one each time.
            max_ids: 10_000,
            // A transaction's record must fit a batch (1 MiB by default), each partition with a topic of 249 bytes.
            max_partitions: 3000,
            defect: None,
        }
    }
}
