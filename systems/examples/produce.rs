//! Produces as fast as librdkafka can and prints the records a second that were acknowledged. `systems/broker/speed/run`
//! measures brokers with it.
//!
//!     produce TOPIC RECORDS SIZE_BYTES [PROPERTY=VALUE ...]

use rdkafka::ClientConfig;
use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The pause when librdkafka's queue is full: a small part of what it takes to send what is in it.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(1);
/// How long the last records may take.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(120);

/// Counts what was not delivered.
#[derive(Default)]
struct Lost(AtomicU64);

impl ClientContext for Lost {}

impl ProducerContext for Lost {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_err() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const USAGE: &str = "usage: produce TOPIC RECORDS SIZE_BYTES [PROPERTY=VALUE ...]";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [topic, records, size_bytes, properties @ ..] = &arguments[..] else { return Err(USAGE.into()) };
    let (records, size_bytes): (u64, usize) = (records.parse()?, size_bytes.parse()?);
    let mut config = ClientConfig::new();
    for property in properties {
        let (name, value) = property.split_once('=').ok_or(USAGE)?;
        config.set(name, value);
    }
    let producer: ThreadedProducer<Lost> = config.create_with_context(Lost::default())?;
    let payload: Vec<u8> = (0..size_bytes).map(|at| b'a' + (at % 26) as u8).collect();
    let began = Instant::now();
    for number in 0..records {
        // A key, so that records go to all partitions alike.
        let key = number.to_be_bytes();
        let mut record = BaseRecord::to(topic).payload(&payload).key(&key);
        loop {
            match producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => record = back,
                Err((e, _)) => return Err(e.into()),
            }
            std::thread::sleep(FULL_QUEUE_PAUSE);
        }
    }
    producer.flush(FLUSH_TIMEOUT)?;
    let took = began.elapsed();
    let lost = producer.context().0.load(Ordering::Relaxed);
    if lost > 0 {
        return Err(format!("{lost} of {records} records were not delivered").into());
    }
    println!("{:.1}", records as f64 / took.as_secs_f64());
    Ok(())
}
