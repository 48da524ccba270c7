//! What `riprap compare` came to: the same plans on several variants of a system, side by side.
//!
//! Variants (versions, planted defects, systems) are compared with the first of them, seed by seed: a pair of runs is those
//! of one seed of which both came to a verdict. A variant is **worse** if in the pairs
//!
//! - it shows a forbidden anomaly that the first shows in none of them, or
//! - it is invalid in more of them.
//!
//! How fast the variants are is told, with the ratios of the pairs, and never makes one worse: it depends on the machine.
//!
//! What it cannot see: whether a difference of a few seeds is more than chance. A run on real nodes is repeated, not replayed.

mod measure;
mod page;
mod table;

pub use measure::{Measures, measure};

use riprap_checker::{Severity, Valid, Verdict};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// So many seeds are named where an anomaly showed; the table of runs has all.
const MAX_SEEDS: usize = 8;

/// Several variants side by side.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// In what they differ: `version`, `defect`, `system`.
    pub by: String,
    /// The workload.
    pub workload: String,
    /// What else was the same for all, for humans: nodes, faults, time.
    pub setting: BTreeMap<String, String>,
    /// riprap's own version.
    pub riprap: String,
    /// When it began, in UTC, for humans.
    pub began: String,
    /// The command, as given.
    pub command: String,
    /// How many seeds each variant was to be run with.
    pub seeds: u64,
    /// How long all took. Units: seconds.
    pub took_s: f64,
    /// Whether the user cut it short.
    pub interrupted: bool,
    /// What is compared; the others with the first.
    pub variants: Vec<Variant>,
}

/// One of those that are compared.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Variant {
    /// As it is told apart from the others.
    pub name: String,
    /// How its runs ended.
    pub counts: Counts,
    /// What its runs showed, allowed or not.
    pub anomalies: BTreeMap<String, Tally>,
    /// Its numbers, by the names of [`Measures`].
    pub measures: BTreeMap<String, Spread>,
    /// Why it is worse than the first; empty if it is not.
    pub worse: Vec<String>,
    /// Its numbers divided by the first's, of the pairs.
    pub ratios: BTreeMap<String, Spread>,
    /// Its runs, by seed.
    pub runs: Vec<Ran>,
}

/// How runs ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Nothing forbidden was seen.
    pub valid: u64,
    /// Something forbidden was seen.
    pub invalid: u64,
    /// They say nothing.
    pub unknown: u64,
    /// The harness failed.
    pub failed: u64,
    /// They were not begun, or not judged.
    pub not_run: u64,
}

/// An anomaly in the runs of a variant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Tally {
    /// In how many seeds it showed.
    pub seeds: u64,
    /// How often in all.
    pub count: u64,
    /// Whether it is allowed.
    pub allowed: bool,
    /// How much it hurts.
    pub severity: Severity,
}

/// A number over seeds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// The middle one, or what lies between the middle two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many there are.
    pub seeds: usize,
}

/// One run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Ran {
    /// Its seed.
    pub seed: u64,
    /// Its folder, seen from the comparison's, if it got as far.
    pub run: Option<String>,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    /// A verdict.
    Judged(Judged),
    /// The harness failed.
    Failed {
        /// How, in a line.
        error: String,
    },
}

/// A run's verdict, as far as it is compared.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Judged {
    /// How the run stands to what was promised.
    pub valid: Valid,
    /// Why it is not valid, in a line.
    pub why: String,
    /// What it showed.
    pub anomalies: BTreeMap<String, Shown>,
    /// Its numbers.
    pub measures: Measures,
}

/// An anomaly in one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Shown {
    /// How often.
    pub count: u64,
    /// Whether it is allowed.
    pub allowed: bool,
    /// How much it hurts.
    pub severity: Severity,
}

impl Judged {
    /// Of a verdict and the numbers of its history.
    pub fn of(verdict: &Verdict, measures: Measures) -> Judged {
        let shown = |anomaly: &riprap_checker::Anomaly| Shown {
            count: anomaly.count,
            allowed: anomaly.allowed,
            severity: anomaly.severity,
        };
        let anomalies = verdict.anomalies.iter().map(|(name, anomaly)| (name.clone(), shown(anomaly)));
        let forbidden: Vec<String> =
            verdict.forbidden().map(|(name, anomaly)| format!("{name} {}", anomaly.count)).collect();
        let why = match forbidden.as_slice() {
            [] => verdict.why.first().cloned().unwrap_or_default(),
            _ => forbidden.join(", "),
        };
        Judged { valid: verdict.valid, why, anomalies: anomalies.collect(), measures }
    }

    fn forbidden(&self) -> impl Iterator<Item = &str> {
        self.anomalies.iter().filter(|(_, shown)| !shown.allowed).map(|(name, _)| name.as_str())
    }
}

impl Ran {
    fn judged(&self) -> Option<&Judged> {
        match &self.outcome {
            Outcome::Judged(judged) => Some(judged),
            Outcome::Failed { .. } => None,
        }
    }
}

impl Spread {
    /// Of numbers of which there is one at least.
    fn of(mut numbers: Vec<f64>) -> Option<Spread> {
        numbers.sort_by(f64::total_cmp);
        let (min, max) = (*numbers.first()?, *numbers.last()?);
        let seeds = numbers.len();
        let median = (numbers[(seeds - 1) / 2] + numbers[seeds / 2]) / 2.0;
        Some(Spread { median, min, max, seeds })
    }
}

impl Variant {
    /// Of the runs that were made, of so many that were to be; compared with the first, unless it is that itself.
    pub fn of(name: String, mut runs: Vec<Ran>, seeds: u64, first: Option<&Variant>) -> Variant {
        runs.sort_by_key(|ran| ran.seed);
        let pairs = first.map_or_else(Vec::new, |first| pairs(&first.runs, &runs));
        let judged = || runs.iter().filter_map(Ran::judged);
        let count = |valid| judged().filter(|judged| judged.valid == valid).count() as u64;
        let counts = Counts {
            valid: count(Valid::True),
            invalid: count(Valid::False),
            unknown: count(Valid::Unknown),
            failed: (runs.len() - judged().count()) as u64,
            not_run: seeds.saturating_sub(runs.len() as u64),
        };
        let mut anomalies: BTreeMap<String, Tally> = BTreeMap::new();
        for (name, shown) in judged().flat_map(|judged| &judged.anomalies) {
            let Shown { count, allowed, severity } = *shown;
            let tally = anomalies.entry(name.clone()).or_insert(Tally {
                seeds: 0,
                count: 0,
                allowed: true,
                severity,
            });
            tally.seeds += 1;
            tally.count += count;
            tally.allowed &= allowed;
            tally.severity = tally.severity.max(severity);
        }
        let measures = spreads(
            judged()
                .flat_map(|judged| judged.measures.0.iter().map(|(name, number)| (name.clone(), *number))),
        );
        let ratios = spreads(pairs.iter().flat_map(|(_, first, later)| {
            let of_first = |name: &String| first.measures.0.get(name).copied().filter(|number| *number > 0.0);
            let ratio = |(name, number): (&String, &f64)| Some((name.clone(), number / of_first(name)?));
            later.measures.0.iter().filter_map(ratio).collect::<Vec<_>>()
        }));
        let worse = worse(&pairs);
        Variant { name, counts, anomalies, measures, worse, ratios, runs }
    }
}

fn spreads(numbers: impl Iterator<Item = (String, f64)>) -> BTreeMap<String, Spread> {
    let mut by_name: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, number) in numbers {
        by_name.entry(name).or_default().push(number);
    }
    let spread = |(name, numbers)| Some((name, Spread::of(numbers)?));
    by_name.into_iter().filter_map(spread).collect()
}

/// A seed, what the first variant came to with it, and what the later one did.
type Pair<'a> = (u64, &'a Judged, &'a Judged);

fn pairs<'a>(first: &'a [Ran], later: &'a [Ran]) -> Vec<Pair<'a>> {
    let first: BTreeMap<u64, &Judged> =
        first.iter().filter_map(|ran| Some((ran.seed, ran.judged()?))).collect();
    later.iter().filter_map(|ran| Some((ran.seed, *first.get(&ran.seed)?, ran.judged()?))).collect()
}

/// Why the later one is worse than the first; see the module.
fn worse(pairs: &[Pair<'_>]) -> Vec<String> {
    let known: BTreeSet<&str> = pairs.iter().flat_map(|(_, first, _)| first.forbidden()).collect();
    let mut new: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (seed, _, later) in pairs {
        for name in later.forbidden().filter(|name| !known.contains(name)) {
            new.entry(name).or_default().push(seed.to_string());
        }
    }
    let invalid = |of: fn(&Pair<'_>) -> Valid| pairs.iter().filter(|pair| of(pair) == Valid::False).count();
    let (before, now) = (invalid(|pair| pair.1.valid), invalid(|pair| pair.2.valid));
    let mut why = Vec::new();
    if now > before {
        why.push(format!("invalid with {now} of {} seeds, not {before}", pairs.len()));
    }
    let with_seeds = |(name, seeds): (&&str, &Vec<String>)| {
        let more = if seeds.len() > MAX_SEEDS { ", ..." } else { "" };
        let noun = if seeds.len() == 1 { "seed" } else { "seeds" };
        format!("{name} ({noun} {}{more})", seeds[..seeds.len().min(MAX_SEEDS)].join(", "))
    };
    if !new.is_empty() {
        why.push(format!("it alone shows {}", new.iter().map(with_seeds).collect::<Vec<_>>().join(", ")));
    }
    why
}

impl Comparison {
    /// `False`: a later variant is worse than the first. `Unknown`: none is seen to be, but runs are missing or say nothing.
    pub fn verdict(&self) -> Valid {
        let mut counts = self.variants.iter().map(|variant| variant.counts);
        if self.variants.iter().any(|variant| !variant.worse.is_empty()) {
            Valid::False
        } else if counts.any(|counts| counts.unknown + counts.failed + counts.not_run > 0) {
            Valid::Unknown
        } else {
            Valid::True
        }
    }

    /// The runs in which the harness failed: whose, which seed, how.
    pub fn failures(&self) -> impl Iterator<Item = (&str, u64, &str)> {
        self.variants.iter().flat_map(|variant| {
            variant.runs.iter().filter_map(|ran| match &ran.outcome {
                Outcome::Failed { error } => Some((variant.name.as_str(), ran.seed, error.as_str())),
                Outcome::Judged(_) => None,
            })
        })
    }

    /// What it came to, in sentences.
    pub fn conclusions(&self) -> Vec<String> {
        let Some((first, later)) = self.variants.split_first() else { return Vec::new() };
        let is_worse = |variant: &&Variant| !variant.worse.is_empty();
        let mut said: Vec<String> = later
            .iter()
            .filter(is_worse)
            .map(|variant| {
                format!("{} is worse than {}: {}", variant.name, first.name, variant.worse.join("; "))
            })
            .collect();
        if said.is_empty() {
            said.push(format!("nothing is seen to be worse than {}", first.name));
        }
        let sum =
            |of: fn(&Counts) -> u64| self.variants.iter().map(|variant| of(&variant.counts)).sum::<u64>();
        let runs = |count: u64, one: &str, many: &str| match count {
            0 => None,
            1 => Some(format!("1 run {one}")),
            count => Some(format!("{count} runs {many}")),
        };
        let cut = if self.interrupted { ": interrupted" } else { "" };
        said.extend(runs(sum(|counts| counts.unknown), "says too little", "say too little"));
        let failed = "failed in the harness itself";
        said.extend(runs(sum(|counts| counts.failed), failed, failed));
        said.extend(runs(
            sum(|counts| counts.not_run),
            &format!("was not made{cut}"),
            &format!("were not made{cut}"),
        ));
        said
    }

    /// The names of all anomalies, in the order of their rows: what is forbidden first, then what hurts most, then by name.
    fn anomaly_names(&self) -> Vec<&str> {
        let mut all: BTreeMap<&str, (bool, Severity)> = BTreeMap::new();
        for (name, tally) in self.variants.iter().flat_map(|variant| &variant.anomalies) {
            let known = all.entry(name).or_insert((true, tally.severity));
            *known = (known.0 && tally.allowed, known.1.max(tally.severity));
        }
        let mut names: Vec<_> = all.into_iter().collect();
        names.sort_by_key(|(_, (allowed, severity))| (*allowed, std::cmp::Reverse(*severity)));
        names.into_iter().map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A run in words: `seed valid anomaly=count/...`; an anomaly in brackets is allowed. `seed failed` is a failed one.
    pub(crate) fn ran(text: &str) -> Ran {
        let words: Vec<&str> = text.split_whitespace().collect();
        let seed: u64 = words[0].parse().expect("a seed");
        let run = Some(format!("1-a/broker-queue/20261130T080000Z-{seed}"));
        if words[1] == "failed" {
            return Ran { seed, run: None, outcome: Outcome::Failed { error: "no room".to_owned() } };
        }
        let valid = match words[1] {
            "valid" => Valid::True,
            "invalid" => Valid::False,
            _ => Valid::Unknown,
        };
        let (mut anomalies, mut measures) = (BTreeMap::new(), Measures::default());
        for word in &words[2..] {
            let (name, number) = word.split_once('=').expect("a name and a number");
            let bare = name.trim_matches(['(', ')']);
            if name.contains('_') {
                measures.0.insert(name.to_owned(), number.parse().expect("a number"));
                continue;
            }
            let count = number.parse().expect("a number");
            let shown = Shown { count, allowed: name != bare, severity: Severity::Data };
            anomalies.insert(bare.to_owned(), shown);
        }
        let why =
            if valid == Valid::Unknown { "faults: kill never struck".to_owned() } else { String::new() };
        Ran { seed, run, outcome: Outcome::Judged(Judged { valid, why, anomalies, measures }) }
    }

    /// Variants `a`, `b`, ... with these runs, of so many seeds.
    pub(crate) fn comparison(seeds: u64, variants: &[&[&str]]) -> Comparison {
        let mut made: Vec<Variant> = Vec::new();
        for (runs, name) in variants.iter().zip(["a", "b", "c"]) {
            let runs = runs.iter().map(|text| ran(text)).collect();
            let variant = Variant::of(name.to_owned(), runs, seeds, made.first());
            made.push(variant);
        }
        Comparison {
            by: "version".to_owned(),
            workload: "queue".to_owned(),
            setting: [("nodes".to_owned(), "3".to_owned())].into(),
            riprap: "0.1.0".to_owned(),
            began: "2026-11-30 08:00:00 UTC".to_owned(),
            command: "riprap compare --system kafka --versions a,b".to_owned(),
            seeds,
            took_s: 12.3,
            interrupted: false,
            variants: made,
        }
    }

    fn check(seeds: u64, variants: &[&[&str]], verdict: Valid, conclusions: &[&str]) {
        let all = comparison(seeds, variants);
        assert_eq!(
            (all.verdict(), all.conclusions()),
            (verdict, conclusions.iter().map(ToString::to_string).collect()),
            "{variants:?}"
        );
    }

    #[test]
    fn later_ones_are_worse_or_not() {
        let none = "nothing is seen to be worse than a";
        check(2, &[&["1 valid", "2 valid"], &["1 valid", "2 valid"]], Valid::True, &[none]);
        check(
            2,
            &[&["1 valid", "2 valid"], &["1 invalid duplicate=3", "2 valid"]],
            Valid::False,
            &["b is worse than a: invalid with 1 of 2 seeds, not 0; it alone shows duplicate (seed 1)"],
        );
        // Another anomaly, though no more seeds are invalid.
        check(
            1,
            &[&["1 invalid unseen=1"], &["1 invalid duplicate=3"]],
            Valid::False,
            &["b is worse than a: it alone shows duplicate (seed 1)"],
        );
        // The same anomaly with other seeds; more often does not count, more seeds do.
        check(
            2,
            &[&["1 invalid unseen=1", "2 valid"], &["1 valid", "2 invalid unseen=9"]],
            Valid::True,
            &[none],
        );
        check(
            2,
            &[&["1 invalid unseen=1", "2 valid"], &["1 invalid unseen=1", "2 invalid unseen=1"]],
            Valid::False,
            &["b is worse than a: invalid with 2 of 2 seeds, not 1"],
        );
        // Better, and only the last is worse.
        check(1, &[&["1 invalid unseen=1"], &["1 valid"]], Valid::True, &[none]);
        let third = "c is worse than a: invalid with 1 of 1 seeds, not 0; it alone shows unseen (seed 1)";
        check(1, &[&["1 valid"], &["1 valid"], &["1 invalid unseen=1"]], Valid::False, &[third]);
        // What is allowed makes nobody worse.
        check(1, &[&["1 valid"], &["1 valid (G0)=7"]], Valid::True, &[none]);
    }

    #[test]
    fn what_is_missing_is_told_and_compared_with_nothing() {
        let none = "nothing is seen to be worse than a";
        check(
            2,
            &[&["1 valid"], &["1 valid", "2 invalid unseen=1"]],
            Valid::Unknown,
            &[none, "1 run was not made"],
        );
        check(
            1,
            &[&["1 failed"], &["1 invalid unseen=1"]],
            Valid::Unknown,
            &[none, "1 run failed in the harness itself"],
        );
        check(
            2,
            &[&["1 unknown", "2 unknown"], &["1 valid", "2 valid"]],
            Valid::Unknown,
            &[none, "2 runs say too little"],
        );
        // What is seen counts, whatever else is missing.
        let seen = "b is worse than a: invalid with 1 of 1 seeds, not 0";
        check(1, &[&["1 unknown"], &["1 invalid"]], Valid::False, &[seen, "1 run says too little"]);
    }

    #[test]
    fn numbers_are_spread_over_seeds_and_ratios_over_pairs() {
        let all = comparison(
            3,
            &[
                &["1 valid ok_per_s=100", "2 valid ok_per_s=200", "3 valid ok_per_s=0"],
                &["1 valid ok_per_s=50", "2 valid ok_per_s=300", "3 valid ok_per_s=10"],
            ],
        );
        let spread = |median, min, max, seeds| Spread { median, min, max, seeds };
        let [a, b] = all.variants.as_slice() else { panic!("two") };
        assert_eq!(a.measures["ok_per_s"], spread(100.0, 0.0, 200.0, 3));
        assert_eq!(b.measures["ok_per_s"], spread(50.0, 10.0, 300.0, 3));
        assert!(a.ratios.is_empty());
        // Nothing is a multiple of nothing.
        assert_eq!(b.ratios["ok_per_s"], spread(1.0, 0.5, 1.5, 2));
    }

    #[test]
    fn anomalies_are_counted_by_seeds() {
        let all = comparison(2, &[&["1 invalid unseen=2 (G0)=5", "2 invalid unseen=1 duplicate=1"]]);
        let told = |name: &str| all.variants[0].anomalies.get(name).map(|tally| (tally.seeds, tally.count));
        assert_eq!(
            (told("unseen"), told("duplicate"), told("G0")),
            (Some((2, 3)), Some((1, 1)), Some((1, 5)))
        );
        assert_eq!(all.anomaly_names(), ["duplicate", "unseen", "G0"]);
    }
}
