//! What a check says: how bad it is, why, and the examples that prove it.
//!
//! A [`Verdict`] is `results.json`, the part of it that a history alone decides; whoever knows more (faults that did not
//! take effect, patterns in the nodes' logs) makes a verdict of their own and merges it in:
//!
//! ```
//! use riprap_checker::{Valid, Verdict};
//! let judged = Verdict::default();
//! let verdict = judged.merge(Verdict::unknown("faults", "kill of n2 did not take effect"));
//! assert_eq!(verdict.valid, Valid::Unknown);
//! assert_eq!(verdict.why, ["faults: kill of n2 did not take effect"]);
//! ```

use crate::registry::AnomalyInfo;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt;

/// How the history stands to what was promised; the worst of several wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Valid {
    /// Nothing forbidden was seen.
    #[default]
    True,
    /// Nothing forbidden was seen, but the history cannot show that there was nothing.
    Unknown,
    /// Something forbidden was seen.
    False,
}

impl Valid {
    /// The process' exit code. Source: the command line's contract: 0 valid, 1 invalid, 2 unknown.
    pub fn exit_code(self) -> u8 {
        match self {
            Valid::True => 0,
            Valid::False => 1,
            Valid::Unknown => 2,
        }
    }
}

impl fmt::Display for Valid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Valid::True => "valid",
            Valid::Unknown => "unknown",
            Valid::False => "invalid",
        })
    }
}

impl Serialize for Valid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Valid::True => serializer.serialize_bool(true),
            Valid::False => serializer.serialize_bool(false),
            Valid::Unknown => serializer.serialize_str("unknown"),
        }
    }
}

impl<'de> Deserialize<'de> for Valid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Valid, D::Error> {
        struct Word;
        impl Visitor<'_> for Word {
            type Value = Valid;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or \"unknown\"")
            }
            fn visit_bool<E: de::Error>(self, valid: bool) -> Result<Valid, E> {
                Ok(if valid { Valid::True } else { Valid::False })
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<Valid, E> {
                match word {
                    "unknown" => Ok(Valid::Unknown),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }
        }
        deserializer.deserialize_any(Word)
    }
}

/// How much an anomaly hurts whoever relied on the log; the worst are shown first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Every system of this kind shows it; good to know about.
    Note,
    /// Records came late, early or twice, but they are there and the log agrees with itself.
    Order,
    /// Nothing moves any more, though the cluster is whole.
    Progress,
    /// Somebody acted on what was never, or not yet, committed.
    Isolation,
    /// Acknowledged records are gone, multiplied or changed.
    Data,
}

/// What a history says about a run.
///
/// Shape: `{"valid": true | false | "unknown", "why": [...], "anomalies": {...}, "stats": {...}, ...}`, where the rest is
/// what others attached with [`Verdict::with_part`].
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Verdict {
    /// The worst of all.
    pub valid: Valid,
    /// Why it is not valid: one sentence for each reason, the worst first.
    pub why: Vec<String>,
    /// What was found, allowed or not, by the anomaly's name.
    pub anomalies: BTreeMap<String, Anomaly>,
    /// What the history holds.
    pub stats: Stats,
    /// What others have to say: `faults`, `liveness`, `seed`.
    #[serde(flatten)]
    pub parts: BTreeMap<String, Json>,
}

impl Verdict {
    /// A verdict of `part` that nothing can be said, and why.
    pub fn unknown(part: &str, why: impl fmt::Display) -> Verdict {
        Verdict { valid: Valid::Unknown, why: vec![format!("{part}: {why}")], ..Verdict::default() }
    }

    /// A verdict of `part` that something forbidden happened.
    pub fn invalid(part: &str, why: impl fmt::Display) -> Verdict {
        Verdict { valid: Valid::False, why: vec![format!("{part}: {why}")], ..Verdict::default() }
    }

    /// A verdict that an anomaly was seen which no guarantee allows; no checker found it, but whoever ran the nodes.
    /// `count` is how many times, `examples` are some of them, the worst first.
    pub fn seen(info: &AnomalyInfo, count: u64, examples: Vec<Example>) -> Verdict {
        let anomaly = Anomaly { count, allowed: false, severity: info.severity, examples };
        let why = vec![anomaly.why(info.name)];
        let anomalies = BTreeMap::from([(info.name.to_owned(), anomaly)]);
        Verdict { valid: Valid::False, why, anomalies, ..Verdict::default() }
    }

    /// The two as one: the worse of both, with the reasons of both, the worse one's first.
    #[must_use]
    pub fn merge(mut self, mut other: Verdict) -> Verdict {
        if other.valid > self.valid {
            std::mem::swap(&mut self.why, &mut other.why);
            self.valid = other.valid;
        }
        self.why.append(&mut other.why);
        for (name, found) in other.anomalies {
            match self.anomalies.entry(name) {
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(found);
                }
                std::collections::btree_map::Entry::Occupied(mut entry) => entry.get_mut().add(found),
            }
        }
        self.stats.add(&other.stats);
        self.parts.append(&mut other.parts);
        self
    }

    /// The worst of all of them; valid if there are none.
    pub fn compose(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
        verdicts.into_iter().reduce(Verdict::merge).unwrap_or_default()
    }

    /// Attaches what somebody else has to say, as a field of its own of `results.json`.
    /// Panics: a name that the verdict itself uses.
    #[must_use]
    pub fn with_part(mut self, name: &str, part: impl Serialize) -> Verdict {
        assert!(
            !["valid", "why", "anomalies", "stats"].contains(&name),
            "{name:?} is the verdict's own field"
        );
        let part = serde_json::to_value(part).expect("a part has string keys and nothing that can fail");
        self.parts.insert(name.to_owned(), part);
        self
    }

    /// The anomalies that no guarantee allows, the worst first.
    pub fn forbidden(&self) -> impl Iterator<Item = (&str, &Anomaly)> {
        let mut found: Vec<_> = self
            .anomalies
            .iter()
            .filter(|(_, anomaly)| !anomaly.allowed)
            .map(|(name, anomaly)| (name.as_str(), anomaly))
            .collect();
        found.sort_by_key(|(_, anomaly)| std::cmp::Reverse(anomaly.severity));
        found.into_iter()
    }
}

/// All occurrences of one anomaly.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Anomaly {
    /// How many; exact.
    pub count: u64,
    /// Whether the run's guarantees allow it.
    pub allowed: bool,
    /// How much it hurts.
    pub severity: Severity,
    /// Some of them, the worst first.
    pub examples: Vec<Example>,
}

impl Anomaly {
    /// Why a verdict is not valid, if this is forbidden.
    pub(crate) fn why(&self, name: &str) -> String {
        match (self.count, self.examples.first()) {
            (1, Some(example)) => format!("{name}: {}", example.story),
            (count, Some(example)) => format!("{name}, {count} times, e.g.: {}", example.story),
            (1, None) => format!("{name}, once"),
            (count, None) => format!("{name}, {count} times"),
        }
    }

    fn add(&mut self, other: Anomaly) {
        self.count += other.count;
        self.allowed &= other.allowed;
        self.severity = self.severity.max(other.severity);
        self.examples.extend(other.examples);
    }
}

/// One occurrence of an anomaly, with what proves it.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Example {
    /// The story in one paragraph that stands alone.
    pub story: String,
    /// The key it happened on, if on one alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<i64>,
    /// The indices of the ops that the story tells of, ascending.
    pub ops: Vec<u64>,
    /// The lines of a history that shows this anomaly when it is judged by itself, and of which no op can be left out:
    /// polls are cut down to the records that matter. Empty beyond the first few examples of an anomaly, and where the log
    /// contradicts itself so that no part of it shows what the whole does.
    pub history: Vec<Json>,
    /// What else was seen, in lines: of a process that panicked, how it got there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
}

/// What a history holds, by word and kind.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Stats {
    /// Lines of the history.
    pub ops: u64,
    /// By the op's word, how many ops there are of each kind.
    pub by_f: BTreeMap<String, Kinds>,
    /// Sends (records, not ops) that were acknowledged.
    pub ok_sends: u64,
    /// Polls (micro-operations, not ops) that returned.
    pub ok_polls: u64,
    /// Records that those polls returned.
    pub ok_records: u64,
    /// Keys that were sent to or read.
    pub keys: u64,
}

impl Stats {
    fn add(&mut self, other: &Stats) {
        self.ops += other.ops;
        for (f, kinds) in &other.by_f {
            let mine = self.by_f.entry(f.clone()).or_default();
            mine.invoke += kinds.invoke;
            mine.ok += kinds.ok;
            mine.fail += kinds.fail;
            mine.info += kinds.info;
        }
        self.ok_sends += other.ok_sends;
        self.ok_polls += other.ok_polls;
        self.ok_records += other.ok_records;
        self.keys += other.keys;
    }
}

/// How many ops there are of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Kinds {
    /// Invocations.
    pub invoke: u64,
    /// Completions that took effect.
    pub ok: u64,
    /// Completions that did not.
    pub fail: u64,
    /// Completions of which nobody knows.
    pub info: u64,
}
