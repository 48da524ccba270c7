//! A transaction as administrators are told of it.

use super::transaction::{Producer, State, TopicPartition};
use super::{Coordinator, Entry};
use std::collections::BTreeSet;

/// What is known of a transactional id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    /// The producer that has it.
    pub producer: Producer,
    /// One of [`STATES`].
    pub state: &'static str,
    /// How long a transaction of its may be open. Units: milliseconds.
    pub timeout_ms: i32,
    /// When the open transaction began, or when this coordinator learned of it; none if none is open.
    pub open_since_ns: Option<u64>,
    /// What it has partitions in; once it is decided, only those that have not been told.
    pub partitions: BTreeSet<TopicPartition>,
}

/// What a transaction may be, in Kafka's words.
pub const STATES: [&str; 6] =
    ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"];

impl Coordinator {
    /// Says what is known of a transactional id, if anything is.
    pub fn describe(&self, id: &str) -> Option<Described> {
        self.entries.get(id).and_then(describe)
    }

    /// Says what is known of all.
    pub fn describe_all(&self) -> impl Iterator<Item = (&str, Described)> {
        self.entries.iter().filter_map(|(id, entry)| Some((id.as_str(), describe(entry)?)))
    }
}

fn describe(entry: &Entry) -> Option<Described> {
    let known = entry.known.as_ref()?;
    let timeout_ns = u64::try_from(known.timeout_ms).unwrap_or(0) * 1_000_000;
    let is_open = known.state == State::Ongoing;
    let partitions = if known.state.result().is_some() { &entry.to_mark } else { &known.partitions };
    Some(Described {
        producer: known.producer,
        state: STATES[known.state as usize],
        timeout_ms: known.timeout_ms,
        open_since_ns: is_open.then(|| entry.times_out_at_ns.saturating_sub(timeout_ns)),
        partitions: partitions.clone(),
    })
}
