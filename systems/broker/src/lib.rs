//! The bundled Kafka-compatible broker.
