//! The table: a column for each variant, and rows in a fixed order, for the terminal and for the page.

use super::measure::rows as measures;
use super::{Comparison, Counts, Spread, Tally, Variant};
use crate::terminal::{Colour, Paint};
use riprap_checker::Valid;
use std::path::Path;

/// How a cell is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tone {
    Plain,
    Quiet,
    Good,
    Bad,
    Warn,
}

/// What stands in a cell.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Cell {
    pub(super) text: String,
    /// From the smallest to the largest, of a number over several seeds.
    pub(super) spread: String,
    /// How many times as much as the first variant's it is.
    pub(super) ratio: String,
    pub(super) tone: Tone,
}

/// A row.
pub(super) struct Row {
    pub(super) label: String,
    /// Whether it is about an anomaly.
    pub(super) is_anomaly: bool,
    /// Of each variant.
    pub(super) cells: Vec<Cell>,
}

impl Cell {
    fn new(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { text: text.into(), spread: String::new(), ratio: String::new(), tone }
    }

    /// What is not there.
    fn none() -> Cell {
        Cell::new("–", Tone::Quiet)
    }
}

impl Comparison {
    /// How the runs ended.
    pub(super) fn count_rows(&self) -> Vec<Row> {
        type Count = fn(&Counts) -> u64;
        let kinds: [(&str, Tone, Count); 5] = [
            ("valid", Tone::Good, |counts| counts.valid),
            ("invalid", Tone::Bad, |counts| counts.invalid),
            ("unknown", Tone::Warn, |counts| counts.unknown),
            ("failed", Tone::Warn, |counts| counts.failed),
            ("not run", Tone::Warn, |counts| counts.not_run),
        ];
        let row = |(label, tone, count): (&str, Tone, Count)| {
            let cell = |variant: &Variant| match count(&variant.counts) {
                0 => Cell::new("0", Tone::Quiet),
                count => Cell::new(count.to_string(), tone),
            };
            Row {
                label: label.to_owned(),
                is_anomaly: false,
                cells: self.variants.iter().map(cell).collect(),
            }
        };
        kinds.into_iter().map(row).collect()
    }

    /// What the runs showed.
    pub(super) fn anomaly_rows(&self) -> Vec<Row> {
        let cell = |tally: Option<&Tally>| {
            let Some(tally) = tally else { return Cell::none() };
            let tone = if tally.allowed { Tone::Quiet } else { Tone::Bad };
            let seeds = if tally.seeds == 1 { "seed" } else { "seeds" };
            Cell::new(format!("{} {seeds}, {} in all", tally.seeds, tally.count), tone)
        };
        let row = |name: &str| {
            let tallies = || self.variants.iter().map(|variant| variant.anomalies.get(name));
            let is_allowed = tallies().flatten().all(|tally| tally.allowed);
            let label = if is_allowed { format!("{name} (allowed)") } else { name.to_owned() };
            Row { label, is_anomaly: true, cells: tallies().map(cell).collect() }
        };
        self.anomaly_names().into_iter().map(row).collect()
    }

    /// How fast the variants were; rows of which none says anything are left out.
    pub(super) fn measure_rows(&self) -> Vec<Row> {
        let cell = |variant: &Variant, name: &str| {
            let Some(spread) = variant.measures.get(name) else { return Cell::none() };
            let ratio = variant.ratios.get(name).map_or_else(String::new, ratio);
            Cell { text: number(spread.median), spread: range(spread), ratio, tone: Tone::Plain }
        };
        let row = |(name, label): (String, String)| {
            let is_told = self.variants.iter().any(|variant| variant.measures.contains_key(&name));
            let cells = self.variants.iter().map(|variant| cell(variant, &name)).collect();
            is_told.then_some(Row { label, is_anomaly: false, cells })
        };
        measures().into_iter().filter_map(row).collect()
    }

    /// The table, for a terminal.
    pub fn text(&self, report: Option<&Path>, paint: Paint) -> String {
        let head = self.variants.iter().map(|variant| Cell::new(&variant.name, Tone::Plain));
        let head = Row { label: self.by.clone(), is_anomaly: false, cells: head.collect() };
        let parts = [vec![head], self.count_rows(), self.anomaly_rows(), self.measure_rows()];
        let shown = |cell: &Cell, is_first: bool| {
            // Beside the first a ratio says it all.
            let more = if is_first || cell.ratio.is_empty() { &cell.spread } else { &cell.ratio };
            if more.is_empty() { cell.text.clone() } else { format!("{} {more}", cell.text) }
        };
        let texts = |row: &Row| -> Vec<String> {
            let cells = row.cells.iter().enumerate().map(|(n, cell)| shown(cell, n == 0));
            std::iter::once(row.label.clone()).chain(cells).collect()
        };
        let mut widths = vec![0; self.variants.len() + 1];
        for text in parts.iter().flatten().map(texts) {
            for (width, cell) in widths.iter_mut().zip(text) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut table = String::new();
        for (n, rows) in parts.iter().filter(|rows| !rows.is_empty()).enumerate() {
            if n > 1 {
                table.push('\n');
            }
            for row in rows {
                let tones = std::iter::once(Tone::Plain).chain(row.cells.iter().map(|cell| cell.tone));
                let mut line = String::new();
                for ((text, width), tone) in texts(row).into_iter().zip(&widths).zip(tones) {
                    let tone = if n == 0 { Tone::Quiet } else { tone };
                    let pad = " ".repeat(width + 3 - text.chars().count());
                    line.push_str(&format!("{}{pad}", colour(tone, paint).paint(&text)));
                }
                table.push_str(line.trim_end());
                table.push('\n');
            }
        }
        table.push('\n');
        let first = match self.verdict() {
            Valid::True => paint.bold_green(),
            Valid::False => paint.bold_red(),
            Valid::Unknown => paint.bold_yellow(),
        };
        for (n, said) in self.conclusions().iter().enumerate() {
            let colour = if n == 0 { first } else { paint.none() };
            table.push_str(&format!("{}\n", colour.paint(said)));
        }
        if let Some(report) = report {
            table.push_str(&format!("{} {}\n", paint.dim().paint("report  "), report.display()));
        }
        table
    }
}

fn colour(tone: Tone, paint: Paint) -> Colour {
    match tone {
        Tone::Plain => paint.none(),
        Tone::Quiet => paint.dim(),
        Tone::Good => paint.green(),
        Tone::Bad => paint.red(),
        Tone::Warn => paint.yellow(),
    }
}

/// Three digits, or all before the point.
fn number(number: f64) -> String {
    match number.abs() {
        least if least < 0.9995 => format!("{number:.3}"),
        less if less < 9.995 => format!("{number:.2}"),
        more if more < 99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// From the smallest to the largest, if they differ.
fn range(spread: &Spread) -> String {
    let (min, max) = (number(spread.min), number(spread.max));
    if min == max { String::new() } else { format!("({min}–{max})") }
}

fn ratio(spread: &Spread) -> String {
    format!("×{} {}", number(spread.median), range(spread)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::tests::comparison;
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (given, expected) in [
            (0.0, "0.000"),
            (0.1234, "0.123"),
            (0.9996, "1.00"),
            (9.996, "10.0"),
            (99.96, "100"),
            (1234.5, "1234"),
        ] {
            assert_eq!(number(given), expected);
        }
    }

    #[test]
    fn the_table_is_told_side_by_side() {
        let all = comparison(
            2,
            &[
                &[
                    "1 valid ok_per_s=100 recovery_ms=1.5 send_p99_ms=40 (G0)=3",
                    "2 valid ok_per_s=120 send_p99_ms=50",
                ],
                &["1 invalid duplicate=3 unseen=1 ok_per_s=90 recovery_ms=3 send_p99_ms=80", "2 failed"],
            ],
        );
        let report = Path::new("r/report.html");
        insta::assert_snapshot!(all.text(Some(report), Paint::PLAIN), @"
        version           a                  b
        valid             2                  0
        invalid           0                  1
        unknown           0                  0
        failed            0                  1
        not run           0                  0

        duplicate         –                  1 seed, 3 in all
        unseen            –                  1 seed, 1 in all
        G0 (allowed)      1 seed, 3 in all   –

        recovery, ms      1.50               3.00 ×2.00
        ok ops a second   110 (100–120)      90.0 ×0.900
        send p99, ms      45.0 (40.0–50.0)   80.0 ×2.00

        b is worse than a: invalid with 1 of 1 seeds, not 0; it alone shows duplicate (seed 1), unseen (seed 1)
        1 run failed in the harness itself
        report   r/report.html
        ");
    }

    #[test]
    fn colours_only_if_asked_for() {
        let all = comparison(1, &[&["1 valid"], &["1 invalid unseen=1"]]);
        assert!(!all.text(None, Paint::PLAIN).contains('\x1b'));
        assert!(all.text(None, Paint::COLOURS).contains("\x1b[1;31mb is worse than a"));
    }
}
