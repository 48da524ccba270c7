//! The bundled Kafka-compatible broker.

pub mod shell;

pub mod log;
