//! History in, verdict out: what a run of a Kafka-like system did wrong, with its proof.
//!
//! A check sees a [`History`](riprap_core::History) and what the run asked for ([`Options`]), and nothing else: not the
//! system, not the faults. It counts every occurrence of an anomaly, tells the worst of them as stories that stand
//! alone, and says for each whether what was asked for allows it. [`registry::ALL`] names them all.
//!
//! ```
//! use riprap_checker::{Options, check};
//! use riprap_core::History;
//! let verdict = check(&History::new(), &Options::default());
//! assert_eq!(verdict.valid.to_string(), "unknown");
//! ```

mod checks;
mod found;
mod index;
mod options;
mod parallel;
mod proof;
mod read;
pub mod registry;
mod stats;
mod verdict;

pub use options::{Guarantees, Isolation, Options, Via};
pub use read::{HistoryError, Loaded, read_history};
pub use verdict::{Anomaly, Example, Kinds, Severity, Stats, Valid, Verdict};

use index::Index;
use riprap_core::History;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Judges a history.
pub fn check(history: &History, options: &Options) -> Verdict {
    let mut verdict = Verdict { stats: stats::stats(history), ..Verdict::default() };
    if options.vacuity
        && let Some(why) = stats::vacuity(&verdict.stats)
    {
        verdict = verdict.merge(Verdict::unknown("vacuous", why));
    }
    let index = Index::new(history);
    for checker in registry::ALL {
        // A check that breaks says nothing, and its silence must not pass for a clean history.
        match catch_unwind(AssertUnwindSafe(|| (checker.run)(&index, options))) {
            Err(panic) => verdict = verdict.merge(Verdict::unknown(checker.name, broke(&*panic))),
            Ok(found) => {
                for (info, anomaly) in found {
                    let valid = if anomaly.allowed { Valid::True } else { Valid::False };
                    let why = (!anomaly.allowed).then(|| why(info.name, &anomaly));
                    verdict = verdict.merge(Verdict {
                        valid,
                        why: why.into_iter().collect(),
                        anomalies: [(info.name.to_owned(), anomaly)].into(),
                        ..Verdict::default()
                    });
                }
            }
        }
    }
    verdict
}

fn why(name: &str, anomaly: &Anomaly) -> String {
    match (anomaly.count, anomaly.examples.first()) {
        (1, Some(example)) => format!("{name}: {}", example.story),
        (count, Some(example)) => format!("{name}, {count} times, e.g.: {}", example.story),
        (count, None) => format!("{name}, {count} times"),
    }
}

fn broke(panic: &(dyn std::any::Any + Send)) -> String {
    let what = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    format!("the check itself broke: {what}")
}
