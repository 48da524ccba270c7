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

mod aborts;
mod checks;
mod edn;
mod form;
mod found;
mod index;
pub mod mini;
mod minimal;
mod options;
mod parallel;
mod proof;
mod read;
pub mod registry;
mod stats;
mod verdict;

pub use aborts::{Aborts, Positions, after_aborts};
pub use edn::{read_edn, write_edn_op};
pub use options::{DEFAULT_PROGRESS_LIMIT_NS, Examples, Guarantees, Isolation, Options, Via};
pub use read::{HistoryError, Loaded, read_history};
pub use verdict::{Anomaly, Example, Kinds, Severity, Stats, Valid, Verdict};

use index::Index;
use registry::CheckerInfo;
use riprap_core::History;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// Judges a history.
///
/// A check that breaks makes the verdict `unknown` at best, as does a history that contradicts itself or shows nothing;
/// what the other checks find is still told.
pub fn check(history: &History, options: &Options) -> Verdict {
    let stats = || Verdict { stats: stats::stats(history), ..Verdict::default() };
    let mut verdict = match catch_unwind(AssertUnwindSafe(|| Index::new(history))) {
        Err(panic) => stats().merge(Verdict::unknown("index", broke(&*panic))),
        Ok(index) => Verdict::compose(parallel::all(3, history.len(), |part| match part {
            0 => {
                let mut judged = judge(&index, options, registry::ALL);
                prove(&mut judged, options, history.len());
                judged
            }
            1 => form::judge(&index, options),
            _ => stats(),
        })),
    };
    if options.vacuity
        && let Some(why) = stats::vacuity(&verdict.stats)
    {
        verdict = verdict.merge(Verdict::unknown("vacuous", why));
    }
    verdict
}

/// Cuts the histories of all examples down to the least that shows the anomaly.
/// `work` is how large the history is: with a small one it is not worth a thread.
fn prove(verdict: &mut Verdict, options: &Options, work: usize) {
    let examples: Vec<(&str, Mutex<&mut Example>)> = verdict
        .anomalies
        .iter_mut()
        .flat_map(|(name, found)| {
            found.examples.iter_mut().map(|example| (name.as_str(), Mutex::new(example)))
        })
        .collect();
    parallel::all(examples.len(), work, |n| {
        let (name, example) = &examples[n];
        let mut example = example.lock().expect("each is taken once");
        let proved = catch_unwind(AssertUnwindSafe(|| minimal::minimize(name, &mut example, options)));
        if proved.is_err() {
            // The story stands without it; what broke on so small a history is told where it broke on the whole.
            example.history.clear();
        }
    });
}

/// What the checks find, each by itself.
fn judge(index: &Index<'_>, options: &Options, checkers: &[&CheckerInfo]) -> Verdict {
    let found = parallel::all(checkers.len(), index.history.len(), |n| {
        let checker = checkers[n];
        // A check that breaks says nothing, and its silence must not pass for a clean history.
        catch_unwind(AssertUnwindSafe(|| (checker.run)(index, options))).map_err(|panic| broke(&*panic))
    });
    let mut verdict = Verdict::default();
    let mut broken = Vec::new();
    for (checker, found) in checkers.iter().zip(found) {
        match found {
            Err(why) => broken.push(Verdict::unknown(checker.name, why)),
            Ok(found) => {
                verdict
                    .anomalies
                    .extend(found.into_iter().map(|(info, found)| (info.name.to_owned(), found)));
            }
        }
    }
    verdict.why = verdict.forbidden().map(|(name, anomaly)| anomaly.why(name)).collect();
    if !verdict.why.is_empty() {
        verdict.valid = Valid::False;
    }
    Verdict::compose(std::iter::once(verdict).chain(broken))
}

fn broke(panic: &(dyn std::any::Any + Send)) -> String {
    format!("the check itself broke: {}", riprap_core::panic_text(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_breaks_is_unknown_and_silences_no_other() {
        let broken = CheckerInfo {
            name: "broken",
            doc: "breaks",
            anomalies: &[],
            run: |_, _| panic!("index out of bounds"),
        };
        let history = mini::parse("s5=17@12");
        let index = Index::new(&history);
        let judged = judge(&index, &Options::default(), &[&broken]);
        let why = "broken: the check itself broke: index out of bounds";
        assert_eq!((judged.valid, judged.why), (Valid::Unknown, vec![why.to_owned()]));
        let judged = judge(&index, &Options::default(), &[&broken, &checks::unseen::INFO]);
        assert_eq!((judged.valid, judged.anomalies["unseen"].count, judged.why.len()), (Valid::False, 1, 2));
    }
}
