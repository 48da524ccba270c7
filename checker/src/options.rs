//! What was promised: which anomalies are allowed depends on what the run asked the system for.

use std::fmt;
use std::str::FromStr;

/// What a consumer is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    /// Records of committed transactions only.
    #[default]
    ReadCommitted,
    /// Every record, those of open and of aborted transactions too.
    ReadUncommitted,
}

/// How consumers get their keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Via {
    /// Each by itself.
    #[default]
    Assign,
    /// Through a group, some of them at least; a rebalance may move a consumer at any time.
    Subscribe,
}

/// Whose table says what is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Guarantees {
    /// What the isolation level, acks and idempotence promise.
    #[default]
    Riprap,
    /// What Jepsen's checker allows, which does not look at the isolation level.
    /// Source: jepsen.tests.kafka, `allowed-error-types`.
    Jepsen,
}

impl From<riprap_core::Isolation> for Isolation {
    fn from(asked: riprap_core::Isolation) -> Isolation {
        match asked {
            riprap_core::Isolation::ReadCommitted => Isolation::ReadCommitted,
            riprap_core::Isolation::ReadUncommitted => Isolation::ReadUncommitted,
        }
    }
}

macro_rules! words {
    ($type:ty, $what:literal, $($word:literal => $variant:expr),*) => {
        impl $type {
            /// The words for it, in the order of its declaration.
            pub const WORDS: &[&str] = &[$($word),*];
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(if *self == $variant { return f.write_str($word); })*
                unreachable!("every variant has its word")
            }
        }
        impl FromStr for $type {
            type Err = String;
            fn from_str(word: &str) -> Result<$type, String> {
                match word {
                    $($word => Ok($variant),)*
                    _ => Err(format!("unknown {} `{word}`; one of: {}", $what, Self::WORDS.join(", "))),
                }
            }
        }
    };
}
words!(Isolation, "isolation level",
    "read_committed" => Isolation::ReadCommitted, "read_uncommitted" => Isolation::ReadUncommitted);
words!(Via, "way to subscribe", "assign" => Via::Assign, "subscribe" => Via::Subscribe);
words!(Guarantees, "guarantees", "riprap" => Guarantees::Riprap, "jepsen" => Guarantees::Jepsen);

/// How many occurrences of an anomaly are told as examples; all are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Examples {
    /// None: only the counts are asked for.
    None,
    /// The worst few.
    #[default]
    Few,
    /// Every one; those beyond the worst few without the history that proves them.
    All,
}

/// Longer than a whole cluster of this kind is busy with itself: Kafka drops a follower that lags after 30 s
/// (`replica.lag.time.max.ms`), and until then writes may wait for it.
pub const DEFAULT_PROGRESS_LIMIT_NS: u64 = 30_000_000_000;

/// What the run asked for, and how it is to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What consumers asked to be shown.
    pub isolation: Isolation,
    /// How consumers got their keys.
    pub via: Via,
    /// Whose table of what is allowed.
    pub guarantees: Guarantees,
    /// Whether sends waited for all in-sync replicas.
    pub acks_all: bool,
    /// Whether producers were idempotent.
    pub idempotent: bool,
    /// Whether the order of writes in a log counts as a dependency between their transactions.
    pub ww: bool,
    /// Whether a read that stopped before a value counts as having come before its writer.
    pub rw: bool,
    /// Whether every key was read to its end at the end: if not, a record that nobody read yet is no
    /// fault; and where a group reads, neither is one that nobody is known to have read.
    pub drained: bool,
    /// How long nothing must move, once the cluster is whole, for a producer or a consumer to be stuck.
    pub progress_limit_ns: u64,
    /// Whether a history without acknowledged sends, or without polls that returned, is `unknown`.
    pub vacuity: bool,
    /// How many occurrences are told.
    pub examples: Examples,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            isolation: Isolation::default(),
            via: Via::default(),
            guarantees: Guarantees::default(),
            acks_all: true,
            idempotent: true,
            ww: true,
            rw: false,
            drained: true,
            progress_limit_ns: DEFAULT_PROGRESS_LIMIT_NS,
            vacuity: true,
            examples: Examples::default(),
        }
    }
}

impl Options {
    pub(crate) fn jepsen(&self) -> bool {
        self.guarantees == Guarantees::Jepsen
    }

    pub(crate) fn committed_only(&self) -> bool {
        self.isolation == Isolation::ReadCommitted
    }
}
