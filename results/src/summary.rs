//! The last lines of a run, on stdout: the verdict, why, what was found, and how to see it again.
//!
//! ```text
//! invalid   broker queue, 5012 ok of 5029 ops
//!
//!   lost-write   3   key 5 value 17 acked at offset 12 (op 31) was read by nobody, though op 88 read offset 14.
//!   int-send-skip   12   allowed
//!
//! seed     42
//! report   results/runs/broker-queue/20261129T165530Z-42/report.html
//! again    riprap test --defect zero-offset --seed 42
//! ```

use crate::record::TestRecord;
use crate::terminal::{Colour, Paint};
use riprap_checker::{Aborts, Anomaly, Positions, Valid, Verdict};
use riprap_core::F;
use std::path::Path;

/// Reasons shown; the rest are in the report.
const MAX_WHY: usize = 10;
/// Columns of a story; the whole of it is in the report.
const MAX_STORY_CHARS: usize = 300;

/// The last lines of a run. `report` is `None` where none was made, as by `riprap check`; so is `test`.
pub fn summary(verdict: &Verdict, test: Option<&TestRecord>, report: Option<&Path>, paint: Paint) -> String {
    let mut text = headline(verdict, test, paint);
    for why in other_reasons(verdict).take(MAX_WHY) {
        text.push_str(&format!("  {}\n", one_line(why)));
    }
    let anomalies = worst_first(verdict);
    if !anomalies.is_empty() {
        text.push('\n');
    }
    let name_width = anomalies.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let count_width = anomalies.iter().map(|(_, anomaly)| anomaly.count.to_string().len()).max().unwrap_or(0);
    for (name, anomaly) in anomalies {
        let colour = if anomaly.allowed { paint.dim() } else { paint.red() };
        let story = match (anomaly.allowed, anomaly.examples.first()) {
            (true, _) => "allowed".to_owned(),
            (false, Some(example)) => first_sentence(&example.story),
            (false, None) => String::new(),
        };
        let line = format!(
            "{}   {:>count_width$}   {story}",
            colour.paint(&format!("{name:<name_width$}")),
            anomaly.count
        );
        text.push_str(&format!("  {}\n", line.trim_end()));
    }
    text.push_str(&aborts(verdict));
    let mut facts = Vec::new();
    if let Some(test) = test {
        facts.push(("seed", test.config.seed.to_string()));
    }
    if let Some(report) = report {
        facts.push(("report", report.display().to_string()));
    }
    if let Some(test) = test {
        facts.push(("again", test.command()));
    }
    if !facts.is_empty() {
        text.push('\n');
    }
    for (name, fact) in facts {
        text.push_str(&format!("{} {fact}\n", paint.dim().paint(&format!("{name:<8}"))));
    }
    text
}

/// Where consumers went on after aborts, by how they held the key, if the workload has counted that.
fn aborts(verdict: &Verdict) -> String {
    let aborts: Aborts = crate::part(verdict, "aborts");
    let rows = [("assigned", aborts.assigned), ("kept", aborts.kept), ("rebalanced", aborts.rebalanced)];
    let rows = rows.into_iter().filter(|(_, positions)| positions.total() > 0);
    let rows: Vec<String> = rows
        .map(|(how, Positions { advance, rewind, rewind_further, other })| {
            format!("  {how:<13}{advance:>8}{rewind:>9}{rewind_further:>17}{other:>8}\n")
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("\n  after aborts  advance   rewind   rewind further   other\n{}", rows.concat())
}

fn headline(verdict: &Verdict, test: Option<&TestRecord>, paint: Paint) -> String {
    let about =
        test.map(|test| format!("{} {}, ", test.config.system, test.config.workload)).unwrap_or_default();
    // A crash is info by its nature, and the nemesis' ops are no work of the system.
    let is_work = |f: &str| !matches!(F::from_name(f), F::Crash | F::Debug | F::Other(_));
    let work = verdict.stats.by_f.iter().filter(|(f, _)| is_work(f)).map(|(_, kinds)| kinds);
    let (ok, completed) = work.fold((0, 0), |(ok, completed), kinds| {
        (ok + kinds.ok, completed + kinds.ok + kinds.fail + kinds.info)
    });
    let word = verdict_colour(verdict.valid, paint).paint(&verdict.valid.to_string());
    format!("{word}   {about}{ok} of {completed} ops ok\n")
}

fn verdict_colour(valid: Valid, paint: Paint) -> Colour {
    match valid {
        Valid::True => paint.bold_green(),
        Valid::Unknown => paint.bold_yellow(),
        Valid::False => paint.bold_red(),
    }
}

/// Forbidden ones first, then by how much they hurt, then by name.
pub(crate) fn worst_first(verdict: &Verdict) -> Vec<(&str, &Anomaly)> {
    let mut anomalies: Vec<_> =
        verdict.anomalies.iter().map(|(name, anomaly)| (name.as_str(), anomaly)).collect();
    anomalies.sort_by_key(|(_, anomaly)| (anomaly.allowed, std::cmp::Reverse(anomaly.severity)));
    anomalies
}

/// The reasons that are not an anomaly's own story, which stands in the anomaly's line already.
pub(crate) fn other_reasons(verdict: &Verdict) -> impl Iterator<Item = &str> {
    let of_anomaly = |why: &&str| {
        let name = why.split([':', ',']).next().unwrap_or_default();
        verdict.anomalies.get(name).is_some_and(|anomaly| !anomaly.allowed)
    };
    verdict.why.iter().map(String::as_str).filter(move |why| !of_anomaly(why))
}

/// Up to the first full stop that ends a sentence, and not too long.
fn first_sentence(story: &str) -> String {
    let story = one_line(story);
    let end = story.find(". ").map_or(story.len(), |at| at + 1);
    let sentence = &story[..end];
    if sentence.chars().count() <= MAX_STORY_CHARS {
        return sentence.to_owned();
    }
    sentence.chars().take(MAX_STORY_CHARS).chain("…".chars()).collect()
}

/// Without what would break the line or control the terminal.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_checker::{Example, Kinds, Severity, Stats};

    fn anomaly(count: u64, allowed: bool, severity: Severity, stories: &[&str]) -> Anomaly {
        let example = |story: &&str| Example {
            story: (*story).to_owned(),
            key: None,
            ops: vec![],
            history: vec![],
            detail: None,
        };
        Anomaly { count, allowed, severity, examples: stories.iter().map(example).collect() }
    }

    fn verdict(valid: Valid, why: &[&str], anomalies: &[(&str, Anomaly)]) -> Verdict {
        let kinds = Kinds { invoke: 12, ok: 9, fail: 1, info: 2 };
        Verdict {
            valid,
            why: why.iter().map(ToString::to_string).collect(),
            anomalies: anomalies
                .iter()
                .map(|(name, anomaly)| ((*name).to_owned(), anomaly.clone()))
                .collect(),
            stats: Stats {
                by_f: ["send", "crash", "kill"].map(|f| (f.to_owned(), kinds)).into(),
                ..Stats::default()
            },
            ..Verdict::default()
        }
    }

    fn bad() -> Verdict {
        let story = "key 5 value 17 acked at offset 12 (op 31) was read by nobody. It was gone.\x1b[2J";
        verdict(
            Valid::False,
            &["lost-write: key 5 ...", "faults: kill of n2 did not take effect"],
            &[
                ("int-send-skip", anomaly(1200, true, Severity::Note, &["x"])),
                ("poll-skip", anomaly(2, false, Severity::Order, &["key 1 was skipped"])),
                ("lost-write", anomaly(31, false, Severity::Data, &[story])),
            ],
        )
    }

    #[test]
    fn an_invalid_run() {
        let mut test = crate::record::tests::record();
        test.config.seed = 42;
        let report = Path::new("results/runs/broker-queue/20261129T165530Z-42/report.html");
        insta::assert_snapshot!(summary(&bad(), Some(&test), Some(report), Paint::PLAIN), @"
        invalid   broker queue, 9 of 12 ops ok
          faults: kill of n2 did not take effect

          lost-write        31   key 5 value 17 acked at offset 12 (op 31) was read by nobody.
          poll-skip          2   key 1 was skipped
          int-send-skip   1200   allowed

        seed     42
        report   results/runs/broker-queue/20261129T165530Z-42/report.html
        again    riprap test --nemesis kill --seed 42
        ");
    }

    #[test]
    fn a_checked_history() {
        insta::assert_snapshot!(summary(&verdict(Valid::True, &[], &[]), None, None, Paint::PLAIN), @"valid   9 of 12 ops ok");
        let unknown = verdict(Valid::Unknown, &["vacuous: no poll returned: nobody looked"], &[]);
        insta::assert_snapshot!(summary(&unknown, None, None, Paint::PLAIN), @"
        unknown   9 of 12 ops ok
          vacuous: no poll returned: nobody looked
        ");
    }

    #[test]
    fn where_consumers_went_on_after_aborts() {
        let kept = Positions { advance: 65, rewind: 1, ..Positions::default() };
        let rebalanced = Positions { rewind: 1203, rewind_further: 12, other: 4, ..Positions::default() };
        let aborts = Aborts { transactions: 99, kept, rebalanced, ..Aborts::default() };
        let told = verdict(Valid::True, &[], &[]).with_part("aborts", aborts);
        insta::assert_snapshot!(summary(&told, None, None, Paint::PLAIN), @"
        valid   9 of 12 ops ok

          after aborts  advance   rewind   rewind further   other
          kept               65        1                0       0
          rebalanced          0     1203               12       4
        ");
        let none = verdict(Valid::True, &[], &[]).with_part("aborts", Aborts::default());
        assert_eq!(
            summary(&none, None, None, Paint::PLAIN),
            summary(&verdict(Valid::True, &[], &[]), None, None, Paint::PLAIN)
        );
    }

    #[test]
    fn colours_only_if_asked_for() {
        assert!(!summary(&bad(), None, None, Paint::PLAIN).contains('\x1b'));
        assert!(summary(&bad(), None, None, Paint::COLOURS).starts_with("\x1b[1;31minvalid\x1b[0m"));
    }
}
