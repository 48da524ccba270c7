//! Shows what an idempotent producer of librdkafka stores twice: a record whose answer is lost while another record of
//! the same producer makes it begin a new epoch. `docs/findings/kafka-epoch-bump.md` tells what was seen.
//!
//!     epoch_bump BROKER PROXY none|refused|damaged TRIES [PROPERTY=VALUE ...]
//!
//! BROKER is where one Kafka listens, and PROXY where it says that it listens: a proxy in this process, through which all
//! that the client sends goes. Nothing is made up: every answer that the client gets is the broker's. The proxy only
//!
//! 1. in one partition sends something on that the broker refuses: nothing (`none`, for comparison), a record that is
//!    too large for the topic (`refused`), or a batch of which a bit was flipped on the way, with another behind it, which
//!    is out of order then (`damaged`);
//! 2. behind it sends a record for the other partition on, and waits until the broker has answered, so that it is stored;
//! 3. passes the answers on but for that last one, and breaks the connection.
//!
//! librdkafka connects again and sends that last record once more. The partition is read back raw, every offset of it,
//! and values that stand there twice are counted. Each try has a producer of its own.

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::{ClientConfig, ClientContext};
use riprap_core::client::block_on;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

/// The partition of the record whose answer is lost, and that of what is refused.
const LOST: i32 = 0;
const OTHER: i32 = 1;
/// No record of the topic is larger, and `refused` sends one that is.
const MAX_MESSAGE_BYTES: usize = 1000;
/// No request or answer here is larger.
const MAX_FRAME_BYTES: usize = 1 << 24;
/// How long anything may take that is due at once.
const PATIENCE: Duration = Duration::from_secs(20);
/// Of a request, the number of producing.
const PRODUCE: [u8; 2] = [0, 0];

/// What happens in the other partition.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Nothing,
    Refused,
    Damaged,
}

/// The one connection whose answers are kept back, while there is one.
#[derive(Default)]
struct Trap {
    /// How many requests to produce it is for; none, if it is not set.
    size: usize,
    /// What of the first of them is damaged.
    damage: Option<Vec<u8>>,
    /// The requests that went into it: their connection and their number in it.
    requests: Vec<(u64, [u8; 4])>,
    /// What the broker answered.
    answers: Vec<Vec<u8>>,
}

/// What the threads of the proxy and the producer share.
#[derive(Default)]
struct Proxy {
    trap: Mutex<Trap>,
    changed: Condvar,
}

impl Proxy {
    /// Waits until the trap is as it should be. Errors: that it is not in time.
    fn wait(&self, what: &str, is_so: impl Fn(&Trap) -> bool) -> Result<(), Failure> {
        let trap = self.trap.lock().expect("no holder panics");
        let (_trap, waited) =
            self.changed.wait_timeout_while(trap, PATIENCE, |trap| !is_so(trap)).expect("no holder panics");
        if waited.timed_out() {
            Err(format!("{what} did not happen within {PATIENCE:?}").into())
        } else {
            Ok(())
        }
    }

    /// From client to broker.
    fn requests(&self, connection: u64, mut from: TcpStream, mut to: TcpStream) {
        while let Some(mut frame) = read_frame(&mut from) {
            let mut trap = self.trap.lock().expect("no holder panics");
            // Of a request: its length, what it asks for, its version, and its number.
            if frame[4..6] == PRODUCE && trap.requests.len() < trap.size {
                let damage = trap.damage.take();
                if let Some(at) = damage.and_then(|bytes| find(&frame, &bytes)) {
                    frame[at] ^= 1;
                }
                trap.requests.push((connection, number(&frame[8..12])));
                self.changed.notify_all();
            }
            drop(trap);
            if to.write_all(&frame).is_err() {
                break;
            }
        }
        end(&from, &to);
    }

    /// From broker to client.
    fn answers(&self, connection: u64, mut from: TcpStream, mut to: TcpStream) {
        while let Some(frame) = read_frame(&mut from) {
            let mut trap = self.trap.lock().expect("no holder panics");
            let is_trapped = trap.requests.contains(&(connection, number(&frame[4..8])));
            if !is_trapped {
                drop(trap);
                if to.write_all(&frame).is_err() {
                    break;
                }
                continue;
            }
            trap.answers.push(frame);
            if trap.answers.len() == trap.size {
                let passed = trap.answers.len() - 1;
                for answer in &trap.answers[..passed] {
                    // If the client has gone already, the last answer is lost all the same.
                    let _ = to.write_all(answer);
                }
                *trap = Trap::default();
                self.changed.notify_all();
                break;
            }
        }
        end(&from, &to);
    }

    fn serve(self: Arc<Proxy>, listener: &TcpListener, broker: SocketAddr) {
        for (connection, client) in (0..).zip(listener.incoming()) {
            let pair = client.and_then(|client| {
                let server = TcpStream::connect(broker)?;
                client.set_nodelay(true)?;
                server.set_nodelay(true)?;
                Ok(((client.try_clone()?, server.try_clone()?), (server, client)))
            });
            // One that breaks at once the client tries again.
            let Ok((forth, back)) = pair else { continue };
            let proxy = Arc::clone(&self);
            std::thread::spawn(move || proxy.requests(connection, forth.0, forth.1));
            let proxy = Arc::clone(&self);
            std::thread::spawn(move || proxy.answers(connection, back.0, back.1));
        }
    }
}

/// A request or an answer with its length before it, or nothing when the connection has ended.
fn read_frame(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut frame = vec![0; 4];
    from.read_exact(&mut frame).ok()?;
    let length = u32::from_be_bytes(number(&frame)) as usize;
    assert!((8..MAX_FRAME_BYTES).contains(&length), "a frame of {length} bytes is none of Kafka's");
    frame.resize(4 + length, 0);
    from.read_exact(&mut frame[4..]).ok()?;
    Some(frame)
}

fn number(bytes: &[u8]) -> [u8; 4] {
    bytes.try_into().expect("four bytes were cut out")
}

fn find(within: &[u8], bytes: &[u8]) -> Option<usize> {
    within.windows(bytes.len()).position(|window| window == bytes)
}

fn end(one: &TcpStream, other: &TcpStream) {
    // Either may have ended by itself.
    let _ = (one.shutdown(Shutdown::Both), other.shutdown(Shutdown::Both));
}

/// What became of each record, by its payload.
#[derive(Default)]
struct Reports(Mutex<BTreeMap<Vec<u8>, Result<i64, RDKafkaErrorCode>>>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let (message, outcome) = match result {
            Ok(message) => (message, Ok(message.offset())),
            Err((error, message)) => {
                (message, Err(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown)))
            }
        };
        let payload = message.payload().unwrap_or_default().to_vec();
        self.0.lock().expect("no holder panics").insert(payload, outcome);
    }
}

/// One run: a topic, and what stands in its way.
struct Test<'a> {
    config: ClientConfig,
    topic: String,
    how: How,
    proxy: &'a Proxy,
}

impl Test<'_> {
    fn create_topic(&self) -> Result<(), Failure> {
        let admin: AdminClient<DefaultClientContext> = self.config.create()?;
        let most = MAX_MESSAGE_BYTES.to_string();
        let topic = NewTopic::new(&self.topic, 2, TopicReplication::Fixed(1)).set("max.message.bytes", &most);
        for created in block_on(admin.create_topics([&topic], &AdminOptions::new()))? {
            created.map_err(|(name, code)| format!("failed to create topic {name}: {code}"))?;
        }
        Ok(())
    }

    fn send(&self, producer: &BaseProducer<Reports>, partition: i32, payload: &str) -> Result<(), Failure> {
        let record = BaseRecord::<(), _>::to(&self.topic).partition(partition).payload(payload);
        producer.send(record).map_err(|(error, _)| error)?;
        Ok(())
    }

    /// One try. Returns what was told of each of its records.
    fn try_once(&self, number: u64) -> Result<BTreeMap<Vec<u8>, Result<i64, RDKafkaErrorCode>>, Failure> {
        let producer: BaseProducer<Reports> = self.config.create_with_context(Reports::default())?;
        let reported = |count: usize| -> Result<(), Failure> {
            let until = Instant::now() + PATIENCE;
            while producer.context().0.lock().expect("no holder panics").len() < count {
                producer.poll(Duration::from_millis(1));
                if Instant::now() > until {
                    return Err(
                        format!("try {number}: {count} reports did not come within {PATIENCE:?}").into()
                    );
                }
            }
            Ok(())
        };
        // The broker gets to know the producer in both partitions, and the client where they are.
        self.send(&producer, LOST, &format!("first-{number:06}"))?;
        self.send(&producer, OTHER, &format!("first-other-{number:06}"))?;
        reported(2)?;
        let (other, behind) = (format!("other-{number:06}"), format!("behind-{number:06}"));
        let before = match self.how {
            How::Nothing => vec![other.clone()],
            How::Refused => vec![other.clone() + &"x".repeat(MAX_MESSAGE_BYTES)],
            How::Damaged => vec![other.clone(), behind],
        };
        *self.proxy.trap.lock().expect("no holder panics") = Trap {
            size: before.len() + 1,
            damage: (self.how == How::Damaged).then(|| other.into_bytes()),
            ..Trap::default()
        };
        for (count, payload) in (1..).zip(&before) {
            self.send(&producer, OTHER, payload)?;
            // So that it is a batch, and a request, of its own, and before the next.
            self.proxy.wait("the other partition's request", |trap| trap.requests.len() == count)?;
        }
        self.send(&producer, LOST, &format!("lost-{number:06}"))?;
        self.proxy.wait("the answer that is to be lost", |trap| trap.size == 0)?;
        reported(2 + before.len() + 1)?;
        Ok(std::mem::take(&mut *producer.context().0.lock().expect("no holder panics")))
    }

    /// Every record of a partition, by value: at which offsets it stands.
    fn read_back(&self, partition: i32) -> Result<BTreeMap<Vec<u8>, Vec<i64>>, Failure> {
        let mut config = self.config.clone();
        config.set("group.id", "epoch-bump").set("isolation.level", "read_uncommitted");
        let consumer: BaseConsumer = config.create()?;
        let (begin, end) = consumer.fetch_watermarks(&self.topic, partition, PATIENCE)?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, partition, Offset::Offset(begin))?;
        consumer.assign(&list)?;
        let mut found: BTreeMap<Vec<u8>, Vec<i64>> = BTreeMap::new();
        let mut next = begin;
        while next < end {
            let message = consumer.poll(PATIENCE).ok_or("the partition's records did not come")??;
            assert_eq!(message.offset(), next, "without transactions every offset has a record");
            found.entry(message.payload().unwrap_or_default().to_vec()).or_default().push(next);
            next += 1;
        }
        Ok(found)
    }
}

/// A value, without what makes it too large.
fn short(payload: &[u8]) -> String {
    String::from_utf8_lossy(payload).trim_end_matches('x').to_owned()
}

fn main() -> Result<(), Failure> {
    const USAGE: &str = "usage: epoch_bump BROKER PROXY none|refused|damaged TRIES [PROPERTY=VALUE ...]";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [broker, listen, how, tries, properties @ ..] = &arguments[..] else { return Err(USAGE.into()) };
    let (broker, tries): (SocketAddr, u64) = (broker.parse()?, tries.parse()?);
    let kind = match how.as_str() {
        "none" => How::Nothing,
        "refused" => How::Refused,
        "damaged" => How::Damaged,
        _ => return Err(USAGE.into()),
    };
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", listen).set("enable.idempotence", "true").set("linger.ms", "0");
    for property in properties {
        let (name, value) = property.split_once('=').ok_or(USAGE)?;
        config.set(name, value);
    }
    let listener = TcpListener::bind(listen)?;
    let proxy = Arc::new(Proxy::default());
    let serving = Arc::clone(&proxy);
    std::thread::spawn(move || serving.serve(&listener, broker));
    let topic = format!("epoch-bump-{how}-{}", std::process::id());
    let test = Test { config, topic, how: kind, proxy: &proxy };
    test.create_topic()?;
    let mut reports = BTreeMap::new();
    for number in 1..=tries {
        reports.extend(test.try_once(number)?);
    }
    println!("{}, librdkafka {}", test.topic, rdkafka::util::get_rdkafka_version().1);
    let mut stored = test.read_back(LOST)?;
    let other = test.read_back(OTHER)?;
    let lost = stored.keys().filter(|value| value.starts_with(b"lost-")).count();
    stored.extend(other);
    let mut doubled = 0;
    for (value, report) in &reports {
        let offsets = stored.get(value).map_or(&[][..], Vec::as_slice);
        if offsets.len() > 1 {
            doubled += 1;
        }
        // The first try stands for the others, and what is doubled speaks for itself.
        if offsets.len() > 1 || short(value).ends_with("-000001") {
            let told = match report {
                Ok(offset) => format!("acknowledged at offset {offset}"),
                Err(code) => format!("refused: {code:?}"),
            };
            println!("  {}: {told}, stands at {offsets:?}", short(value));
        }
    }
    println!("{tries} tries, {lost} of their records stored, {doubled} values stand there more than once");
    Ok(())
}
