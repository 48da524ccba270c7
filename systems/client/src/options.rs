//! What may be set of a client beyond [`ClientConfig`], by the names that the field uses.
//!
//! The defaults are those of riprap's live client rather than Java's: tests are short, and faults last seconds.
//!
//! [`ClientConfig`]: riprap_core::client::ClientConfig

use std::time::Duration;

/// How a consumer takes part in its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GroupProtocol {
    /// JoinGroup and SyncGroup: the members assign. Everybody gives up all it has for each rebalance.
    #[default]
    Eager,
    /// The same, but members keep what stays theirs. Source: KIP-429.
    Cooperative,
    /// ConsumerGroupHeartbeat: the coordinator assigns. Source: KIP-848.
    Consumer,
}

/// How a producer speaks with the coordinator of its transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TransactionVersion {
    /// It adds partitions itself, and keeps its epoch from one transaction to the next. Source: KIP-98.
    One,
    /// Leaders add partitions, and each end of a transaction raises the epoch. Source: KIP-890. What a cluster does not
    /// offer is not asked of it.
    #[default]
    Two,
}

/// The knobs of a client. Each has a documented default.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// A request that was not answered for so long is lost, and its connection with it. 3 s.
    pub request_timeout: Duration,
    /// A connection that does not stand by then is given up. 1 s.
    pub connection_setup_timeout: Duration,
    /// The pause after a connection was lost or refused: the first, and the longest. 50 ms, 500 ms.
    pub reconnect_backoff: (Duration, Duration),
    /// The pause before a request is tried again: the first, and the longest. 50 ms, 500 ms. Source: KIP-580.
    pub retry_backoff: (Duration, Duration),
    /// What is known of the cluster is asked for again after so long. 2 s.
    pub metadata_max_age: Duration,
    /// A member that its coordinator did not hear for so long is one no more. 6 s.
    pub session_timeout: Duration,
    /// How often a member of a classic group says that it lives. 1 s.
    pub heartbeat_interval: Duration,
    /// A member that did not poll for so long leaves its group, and a rebalance waits so long for one. 30 s, where Java has
    /// 300 s: no run of riprap's is that long.
    pub max_poll_interval: Duration,
    /// How long a broker holds a fetch that finds nothing. 100 ms.
    pub fetch_max_wait: Duration,
    /// What a fetch is to find before it is answered. Units: bytes. 1. If it is more than what may be fetched of a partition,
    /// each fetch of that one waits as long as it may.
    pub fetch_min_bytes: i32,
    /// What one fetch brings at most. Units: bytes. 50 MiB.
    pub fetch_max_bytes: i32,
    /// What one fetch brings of a partition at most. Units: bytes. 2048, some 30 records: a log is then read in many pieces,
    /// and what goes wrong where one ends and the next begins is met even on short logs.
    pub max_partition_fetch_bytes: i32,
    /// Whether brokers are to remember what is fetched. Source: KIP-227. True.
    pub fetch_sessions: bool,
    /// How consumers share keys. Eager.
    pub group_protocol: GroupProtocol,
    /// How transactions are spoken of. Two.
    pub transactions: TransactionVersion,
    /// How long a coordinator leaves a transaction open whose producer is silent; none is the longer of the delivery
    /// timeout and 3 s.
    pub transaction_timeout: Option<Duration>,
}

impl Default for Options {
    fn default() -> Options {
        let ms = Duration::from_millis;
        Options {
            request_timeout: ms(3000),
            connection_setup_timeout: ms(1000),
            reconnect_backoff: (ms(50), ms(500)),
            retry_backoff: (ms(50), ms(500)),
            metadata_max_age: ms(2000),
            session_timeout: ms(6000),
            heartbeat_interval: ms(1000),
            max_poll_interval: ms(30_000),
            fetch_max_wait: ms(100),
            fetch_min_bytes: 1,
            fetch_max_bytes: 50 << 20,
            max_partition_fetch_bytes: 2048,
            fetch_sessions: true,
            group_protocol: GroupProtocol::default(),
            transactions: TransactionVersion::default(),
            transaction_timeout: None,
        }
    }
}

/// A property that can be set.
struct Property {
    name: &'static str,
    takes: Takes,
}

/// What a property takes, and where it goes.
enum Takes {
    /// Milliseconds, at least so many.
    Time(u16, fn(&mut Options) -> &mut Duration),
    /// Bytes.
    Size(fn(&mut Options) -> &mut i32),
    Truth(fn(&mut Options) -> &mut bool),
    /// One of these.
    Word(&'static [&'static str], fn(&mut Options, &str)),
}

impl Takes {
    /// Errors: what would have been right.
    fn set(&self, options: &mut Options, value: &str) -> Result<(), String> {
        match self {
            Takes::Time(least, of) => {
                let ms = number(value, i32::from(*least))?;
                *of(options) = Duration::from_millis(ms.unsigned_abs().into());
            }
            Takes::Size(of) => *of(options) = number(value, 0)?,
            Takes::Truth(of) => {
                *of(options) = value.parse().map_err(|_| "`true` or `false` is right".to_owned())?;
            }
            Takes::Word(words, set) if words.contains(&value) => set(options, value),
            Takes::Word(words, _) => return Err(format!("one of: {}", words.join(", "))),
        }
        Ok(())
    }
}

fn number(text: &str, least: i32) -> Result<i32, String> {
    let wrong = || format!("a number from {least} on is right");
    text.parse().ok().filter(|number| *number >= least).ok_or_else(wrong)
}

const fn property(name: &'static str, takes: Takes) -> Property {
    Property { name, takes }
}

/// All that can be set, by name. A pause of nothing at all before a request is tried again would be a busy loop.
static PROPERTIES: &[Property] = &[
    property("fetch.max.bytes", Takes::Size(|o| &mut o.fetch_max_bytes)),
    property("fetch.max.wait.ms", Takes::Time(0, |o| &mut o.fetch_max_wait)),
    property("fetch.min.bytes", Takes::Size(|o| &mut o.fetch_min_bytes)),
    // Not a property of other clients, which leave no choice.
    property("fetch.sessions", Takes::Truth(|o| &mut o.fetch_sessions)),
    property("group.protocol", Takes::Word(&["classic", "consumer"], group_protocol)),
    property("heartbeat.interval.ms", Takes::Time(1, |o| &mut o.heartbeat_interval)),
    property("max.partition.fetch.bytes", Takes::Size(|o| &mut o.max_partition_fetch_bytes)),
    property("max.poll.interval.ms", Takes::Time(1, |o| &mut o.max_poll_interval)),
    property("metadata.max.age.ms", Takes::Time(1, |o| &mut o.metadata_max_age)),
    property(
        "partition.assignment.strategy",
        Takes::Word(&["range", "cooperative-sticky"], partition_assignment_strategy),
    ),
    property("reconnect.backoff.max.ms", Takes::Time(0, |o| &mut o.reconnect_backoff.1)),
    property("reconnect.backoff.ms", Takes::Time(0, |o| &mut o.reconnect_backoff.0)),
    property("request.timeout.ms", Takes::Time(1, |o| &mut o.request_timeout)),
    property("retry.backoff.max.ms", Takes::Time(1, |o| &mut o.retry_backoff.1)),
    property("retry.backoff.ms", Takes::Time(1, |o| &mut o.retry_backoff.0)),
    property("session.timeout.ms", Takes::Time(1, |o| &mut o.session_timeout)),
    property("socket.connection.setup.timeout.ms", Takes::Time(1, |o| &mut o.connection_setup_timeout)),
    property(
        "transaction.timeout.ms",
        Takes::Time(1, |o| o.transaction_timeout.get_or_insert(Duration::ZERO)),
    ),
    // The name of the cluster's feature that others' clients look at.
    property("transaction.version", Takes::Word(&["1", "2"], transaction_version)),
];

fn group_protocol(options: &mut Options, word: &str) {
    options.group_protocol = match (word, options.group_protocol) {
        ("consumer", _) => GroupProtocol::Consumer,
        (_, GroupProtocol::Cooperative) => GroupProtocol::Cooperative,
        _ => GroupProtocol::Eager,
    };
}

fn partition_assignment_strategy(options: &mut Options, word: &str) {
    options.group_protocol = match (word, options.group_protocol) {
        // There the coordinator assigns.
        (_, GroupProtocol::Consumer) => GroupProtocol::Consumer,
        ("cooperative-sticky", _) => GroupProtocol::Cooperative,
        _ => GroupProtocol::Eager,
    };
}

fn transaction_version(options: &mut Options, word: &str) {
    options.transactions = if word == "1" { TransactionVersion::One } else { TransactionVersion::Two };
}

impl Options {
    /// These options with properties set. Errors: one line.
    pub fn with(mut self, properties: &[(String, String)]) -> Result<Options, String> {
        for (name, value) in properties {
            let Some(property) = PROPERTIES.iter().find(|property| property.name == name) else {
                let known: Vec<&str> = PROPERTIES.iter().map(|property| property.name).collect();
                return Err(format!("unknown setting `client.{name}`; one of: {}", known.join(", ")));
            };
            let set = property.takes.set(&mut self, value);
            set.map_err(|why| format!("setting `client.{name}` is `{value}`; {why}"))?;
        }
        Ok(self)
    }
}

/// Whether the simulated client knows these properties and takes their values. Errors: one line.
pub fn validate(properties: &[(String, String)]) -> Result<(), String> {
    Options::default().with(properties).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(properties: &[(&str, &str)]) -> Result<Options, String> {
        let properties: Vec<(String, String)> =
            properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Options::default().with(&properties)
    }

    #[test]
    fn properties_are_listed_once_and_in_order() {
        assert!(PROPERTIES.is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn properties_set_what_they_name() {
        let protocol = |properties: &[(&str, &str)]| set(properties).map(|options| options.group_protocol);
        let strategy = ("partition.assignment.strategy", "cooperative-sticky");
        assert_eq!(protocol(&[]), Ok(GroupProtocol::Eager));
        assert_eq!(protocol(&[strategy]), Ok(GroupProtocol::Cooperative));
        assert_eq!(protocol(&[strategy, ("group.protocol", "classic")]), Ok(GroupProtocol::Cooperative));
        assert_eq!(protocol(&[("group.protocol", "consumer"), strategy]), Ok(GroupProtocol::Consumer));
        let options =
            set(&[("request.timeout.ms", "70"), ("transaction.version", "1"), ("fetch.sessions", "false")]);
        let options = options.expect("all are right");
        assert_eq!(options.request_timeout, Duration::from_millis(70));
        assert_eq!((options.transactions, options.fetch_sessions), (TransactionVersion::One, false));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |name: &str, value: &str, expected: &str| {
            assert_eq!(set(&[(name, value)]).expect_err("it is wrong"), expected);
        };
        check(
            "request.timeout.ms",
            "0",
            "setting `client.request.timeout.ms` is `0`; a number from 1 on is right",
        );
        check("group.protocol", "new", "setting `client.group.protocol` is `new`; one of: classic, consumer");
        check("fetch.sessions", "1", "setting `client.fetch.sessions` is `1`; `true` or `false` is right");
        let unknown = set(&[("linger.ms", "1")]).expect_err("it is unknown");
        assert!(
            unknown.starts_with("unknown setting `client.linger.ms`; one of: fetch.max.bytes, "),
            "{unknown}"
        );
    }
}
