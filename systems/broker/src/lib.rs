//! The bundled Kafka-compatible broker.

pub mod log;
