//! Topics as a coordinator sees them, and which of them a subscription means.

use super::state::Subscription;
use regex::{Regex, RegexBuilder};
use riprap_protocol::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How large a member's pattern may become when it is compiled, so that one request cannot take a broker's memory.
/// Units: bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// The topics that there are: names, ids, numbers of partitions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topics {
    by_name: BTreeMap<String, Topic>,
    names: BTreeMap<Uuid, String>,
}

/// A topic as an assignor needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Topic {
    pub(super) id: Uuid,
    pub(super) partitions: i32,
}

impl Topics {
    /// From names, ids and how many partitions there are.
    pub fn new(topics: impl IntoIterator<Item = (String, Uuid, i32)>) -> Topics {
        let mut all = Topics::default();
        for (name, id, partitions) in topics {
            all.names.insert(id, name.clone());
            all.by_name.insert(name, Topic { id, partitions });
        }
        all
    }

    pub(super) fn get(&self, name: &str) -> Option<Topic> {
        self.by_name.get(name).copied()
    }

    /// Its name; none if it was deleted.
    pub(super) fn name(&self, id: Uuid) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    fn matching(&self, pattern: &Regex) -> BTreeSet<String> {
        self.by_name.keys().filter(|name| pattern.is_match(name)).cloned().collect()
    }
}

/// The topics, and how often they have changed.
#[derive(Debug, Default)]
pub(in super::super) struct KnownTopics {
    pub(in super::super) topics: Arc<Topics>,
    pub(in super::super) version: u64,
}

/// What patterns mean, as long as the topics are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    /// Of the topics that this holds for.
    version: u64,
    meanings: BTreeMap<String, BTreeSet<String>>,
}

impl Patterns {
    /// The names of the topics that a subscription means, whether they exist or not.
    pub(super) fn subscribed(
        &mut self,
        subscription: &Subscription,
        known: &KnownTopics,
    ) -> BTreeSet<String> {
        if self.version != known.version {
            *self = Patterns { version: known.version, meanings: BTreeMap::new() };
        }
        let mut names = subscription.names.clone();
        if let Some(pattern) = &subscription.pattern {
            let matching = self.meanings.entry(pattern.clone()).or_insert_with(|| {
                // It compiled when the member came. If another broker's library thinks otherwise, it matches nothing.
                compile(pattern).map(|pattern| known.topics.matching(&pattern)).unwrap_or_default()
            });
            names.extend(matching.iter().cloned());
        }
        names
    }
}

/// A pattern that matches whole names. Errors: what is wrong with it.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(&format!(r"\A(?:{pattern})\z"))
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|e| e.to_string().lines().last().unwrap_or_default().to_owned())
}

/// A number that changes when what is subscribed to changes: a topic, its id or its number of partitions. Kafka's own
/// number (KIP-1101) is another; who takes over a group from it rebalances once.
pub(super) fn fingerprint<'a>(names: impl IntoIterator<Item = &'a String>, topics: &Topics) -> i64 {
    // FNV-1a: the same on every broker and in every build. Nothing subscribed is 0, as for Kafka.
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = 0;
    for name in names {
        let Some(topic) = topics.get(name) else { continue };
        let start = if hash == 0 { BASIS } else { hash };
        let bytes = name.bytes().chain(topic.id.0).chain(topic.partitions.to_be_bytes());
        hash = bytes.fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    }
    hash.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(named: &[(&str, i32)]) -> Topics {
        let topic = |(at, (name, partitions)): (usize, &(&str, i32))| {
            ((*name).to_owned(), Uuid([at as u8 + 1; 16]), *partitions)
        };
        Topics::new(named.iter().enumerate().map(topic))
    }

    fn check(pattern: &str, expect: &[&str]) {
        let topics = topics(&[("orders", 1), ("orders-eu", 2), ("old-orders", 1), ("x", 1)]);
        let subscription = Subscription { pattern: Some(pattern.to_owned()), ..Subscription::default() };
        let known = KnownTopics { topics: Arc::new(topics), version: 1 };
        let found = Patterns::default().subscribed(&subscription, &known);
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expect, "{pattern}");
    }

    #[test]
    fn a_pattern_means_whole_names() {
        check("orders", &["orders"]);
        check("orders.*", &["orders", "orders-eu"]);
        check("x|orders", &["orders", "x"]);
        check("^orders.+$", &["orders-eu"]);
        check("y*", &[]);
    }

    #[test]
    fn a_pattern_that_is_none_or_too_large_is_refused() {
        for pattern in ["(", "a{1000}{1000}", r"\1"] {
            assert!(compile(pattern).is_err_and(|why| !why.is_empty()), "{pattern}");
        }
    }

    #[test]
    fn the_fingerprint_changes_with_what_is_subscribed_to() {
        let names = ["a".to_owned(), "b".to_owned()];
        let of = |named: &[(&str, i32)]| fingerprint(&names, &topics(named));
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[("a", 1), ("c", 1)]), of(&[("a", 1)]));
        let all = [of(&[("a", 1)]), of(&[("a", 2)]), of(&[("a", 1), ("b", 1)]), of(&[("b", 1)])];
        assert_eq!(BTreeSet::from(all).len(), all.len());
    }
}
