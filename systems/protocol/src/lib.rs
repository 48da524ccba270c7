//! Kafka's wire protocol: messages, frames and record batches.

pub mod records;
