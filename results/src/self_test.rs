//! What `riprap self-test` came to: for the terminal, as JSON, and as a page.

use crate::report::html::Html;
use crate::report::style;
use crate::terminal::Paint;
use serde::Serialize;
use std::path::Path;

/// Whether every planted defect was found, and the clean system clean.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SelfTest {
    /// The system whose defects they are.
    pub system: String,
    /// riprap's own version.
    pub riprap: String,
    /// When it began, in UTC, for humans.
    pub began: String,
    /// The command, as given.
    pub command: String,
    /// What each search might cost. Units: seconds of a processor.
    pub budget_s: f64,
    /// How long all took. Units: seconds.
    pub took_s: f64,
    /// Every defect that was looked for, by name.
    pub defects: Vec<DefectRow>,
    /// How many searches were cut short or not begun.
    pub unfinished: usize,
}

/// One planted defect.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DefectRow {
    /// Its name.
    pub name: String,
    /// Where it is documented.
    pub source: String,
    /// What goes wrong.
    pub mechanism: String,
    /// The flags of `riprap test` under which it was looked for.
    pub trigger: String,
    /// The anomalies of which one is to be found.
    pub expected: Vec<String>,
    /// The searches, each from another seed on.
    pub starts: Vec<Start>,
    /// What a failure of the first search came to.
    pub shrunk: Option<Shrunk>,
    /// The clean system on the very same seeds.
    pub clean: Vec<CleanRun>,
}

/// A search: seed after seed until a defect shows, or the budget is spent.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Start {
    /// The seed that it began with.
    pub first_seed: u64,
    /// How many seeds were run.
    pub seeds: u64,
    /// What their runs cost. Units: seconds of a processor.
    pub cpu_s: f64,
    /// The anomaly that was found, one of those expected.
    pub anomaly: Option<String>,
    /// Forbidden anomalies of these runs that were not expected.
    pub others: Vec<String>,
}

/// What is left of a failure when all is taken away that it does not need.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Shrunk {
    /// Operations.
    pub ops: usize,
    /// Strikes of faults.
    pub faults: usize,
    /// Nodes.
    pub nodes: u16,
    /// What it cost. Units: seconds of a processor.
    pub cpu_s: f64,
    /// The scenario, a file that replays.
    pub scenario: String,
    /// The report of the shrunk run, if there was time for that.
    pub report: Option<String>,
}

/// A run of the clean system.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CleanRun {
    /// Its seed.
    pub seed: u64,
    /// `valid`, `invalid`, `unknown`.
    pub valid: String,
    /// Why it is not valid, in a line.
    pub why: String,
}

impl DefectRow {
    /// Whether every search found it.
    pub fn is_found(&self) -> bool {
        self.starts.iter().all(|start| start.anomaly.is_some())
    }

    /// The runs of the clean system that were not valid.
    pub fn unclean(&self) -> impl Iterator<Item = &CleanRun> {
        self.clean.iter().filter(|run| run.valid != "valid")
    }

    /// Seeds and processor seconds of a search, as medians.
    pub fn medians(&self) -> (u64, f64) {
        let mut seeds: Vec<u64> = self.starts.iter().map(|start| start.seeds).collect();
        let mut cpu_s: Vec<f64> = self.starts.iter().map(|start| start.cpu_s).collect();
        seeds.sort_unstable();
        cpu_s.sort_by(f64::total_cmp);
        let middle = self.starts.len() / 2;
        (seeds.get(middle).copied().unwrap_or(0), cpu_s.get(middle).copied().unwrap_or(0.0))
    }

    /// What was found, each anomaly once.
    fn anomalies(&self) -> String {
        let mut names: Vec<&str> = self.starts.iter().filter_map(|start| start.anomaly.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }

    fn found(&self) -> String {
        let found = self.starts.iter().filter(|start| start.anomaly.is_some()).count();
        match (found, self.starts.len()) {
            (1, 1) => "found".to_owned(),
            (0, _) => "not found".to_owned(),
            (found, all) => format!("{found} of {all}"),
        }
    }

    fn shrunk(&self) -> String {
        let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        self.shrunk.as_ref().map_or_else(String::new, |shrunk| {
            format!("{}, {}", plural(shrunk.ops, "op"), plural(shrunk.faults, "fault"))
        })
    }

    fn clean(&self) -> String {
        let unclean: Vec<String> =
            self.unclean().map(|run| format!("seed {} {}: {}", run.seed, run.valid, run.why)).collect();
        if unclean.is_empty() { format!("{} valid", self.clean.len()) } else { unclean.join("; ") }
    }
}

impl SelfTest {
    /// Whether all was found, and nothing where nothing is.
    pub fn passed(&self) -> bool {
        self.unfinished == 0 && !self.is_wrong()
    }

    /// Whether something was not found, or the clean system not clean, though all else was not looked at.
    fn is_wrong(&self) -> bool {
        self.defects.iter().any(|row| !row.is_found() || row.unclean().next().is_some())
    }

    /// What it came to, in a sentence.
    pub fn conclusion(&self) -> String {
        let found = self.defects.iter().filter(|row| row.is_found()).count();
        let clean: usize = self.defects.iter().map(|row| row.clean.len()).sum();
        let unclean: usize = self.defects.iter().map(|row| row.unclean().count()).sum();
        let interrupted = match self.unfinished {
            0 => String::new(),
            searches => format!("; interrupted: {searches} searches were not finished"),
        };
        format!(
            "{found} of {} defects found; {} of {clean} clean runs valid; took {:.0} s{interrupted}",
            self.defects.len(),
            clean - unclean,
            self.took_s
        )
    }

    /// The table, for a terminal.
    pub fn text(&self, report: Option<&Path>, paint: Paint) -> String {
        let head = ["defect", "", "seeds", "cpu s", "anomaly", "shrunk to", "clean"].map(str::to_owned);
        let cells = |row: &DefectRow| {
            let (seeds, cpu_s) = row.medians();
            let cpu_s = format!("{cpu_s:.1}");
            [
                row.name.clone(),
                row.found(),
                seeds.to_string(),
                cpu_s,
                row.anomalies(),
                row.shrunk(),
                row.clean(),
            ]
        };
        let rows: Vec<[String; 7]> = std::iter::once(head).chain(self.defects.iter().map(cells)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..7).map(width).collect();
        let mut text = String::new();
        for (n, row) in rows.iter().enumerate() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[column] - cell.chars().count());
                // Numbers end where those above and below them end.
                line.push_str(&if matches!(column, 2 | 3) { pad + cell } else { cell.clone() + &pad });
                line.push_str("   ");
            }
            let bad =
                n > 0 && (!self.defects[n - 1].is_found() || self.defects[n - 1].unclean().next().is_some());
            let colour = if n == 0 { paint.dim() } else { paint.some(bad, paint.red()) };
            text.push_str(&format!("{}\n", colour.paint(line.trim_end())));
        }
        text.push_str(&format!("\n{}\n", self.conclusion()));
        if let Some(report) = report {
            text.push_str(&format!("report   {}\n", report.display()));
        }
        text
    }

    /// The page.
    pub fn html(&self) -> String {
        let mut page = Html::default();
        page.raw("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
        page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
        page.text(format_args!("self-test of {}", self.system)).raw("</title>\n").style(&style());
        page.raw("<header>\n<p class=\"running\"><b>riprap</b> · self-test · ").text(&self.system);
        page.raw(" · ").text(&self.began).raw("</p>\n");
        page.raw(if self.passed() {
            "<div class=\"verdict valid\">\n<h1>All found</h1>\n"
        } else if !self.is_wrong() {
            "<div class=\"verdict unknown\">\n<h1>Interrupted</h1>\n"
        } else {
            "<div class=\"verdict invalid\">\n<h1>Not passed</h1>\n"
        });
        page.element("<p>", self.conclusion(), "</p>\n</div>\n<dl class=\"facts\">\n");
        let seeds: u64 = self.defects.iter().flat_map(|row| &row.starts).map(|start| start.seeds).sum();
        let searches: usize = self.defects.iter().map(|row| row.starts.len()).sum();
        let facts = [
            ("defects", self.defects.len().to_string()),
            ("searches", searches.to_string()),
            ("seeds", seeds.to_string()),
            ("budget of a search", format!("{:.0} s", self.budget_s)),
        ];
        for (name, fact) in facts {
            page.raw("<div>").element("<dt>", name, "</dt>").element("<dd>", fact, "</dd></div>\n");
        }
        page.raw("</dl>\n");
        page.raw("<div class=\"label\">Run it again</div>\n");
        page.element("<pre class=\"again\">", &self.command, "</pre>\n");
        page.raw("</header>\n<main>\n<h2>Planted defects</h2>\n");
        page.raw("<p>Each defect re-creates a documented bug. It is looked for under its own flags, seed after seed, until one of ")
            .raw("its anomalies shows; the system without it runs on the very same seeds, and has to be valid.</p>\n");
        page.raw(
            "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">defect<th scope=\"col\">found\
             <th scope=\"col\" class=\"n\">seeds<th scope=\"col\" class=\"n\">processor<th scope=\"col\">anomaly\
             <th scope=\"col\">shrunk to<th scope=\"col\">clean</thead><tbody>\n",
        );
        for row in &self.defects {
            let (seeds, cpu_s) = row.medians();
            page.raw("<tr><td class=\"name\"><a").attribute("href", format_args!("#{}", row.name));
            page.raw(">").text(&row.name).raw("</a>");
            page.raw(if row.is_found() { "<td class=\"short good\">" } else { "<td class=\"short bad\">" });
            page.text(row.found());
            page.element("<td class=\"n\">", seeds, "").element(
                "<td class=\"n\">",
                format_args!("{cpu_s:.1} s"),
                "",
            );
            page.element("<td class=\"short\">", row.anomalies(), "").raw("<td class=\"short\">");
            match &row.shrunk {
                Some(Shrunk { report: None, .. }) => {
                    page.text(row.shrunk());
                }
                Some(Shrunk { report: Some(report), .. }) => {
                    page.raw("<a").attribute("href", report).raw(">").text(row.shrunk()).raw("</a>");
                }
                None => {
                    page.raw("<span class=\"quiet\">–</span>");
                }
            }
            page.raw(if row.unclean().next().is_none() {
                "<td class=\"short good\">"
            } else {
                "<td class=\"bad\">"
            });
            page.text(row.clean()).raw("\n");
        }
        page.raw("</tbody></table></div>\n");
        page.raw("<p class=\"note\">Seeds and seconds of a processor are those of one search, or the median of several.</p>\n");
        for row in &self.defects {
            self.details(&mut page, row);
        }
        page.raw("</main>\n<footer>riprap ").text(&self.riprap).raw("</footer>\n</html>\n");
        page.into_string()
    }

    fn details(&self, page: &mut Html, row: &DefectRow) {
        page.raw("<h3").attribute("id", &row.name).raw("><b>").text(&row.name).raw("</b></h3>\n");
        page.element("<p class=\"story\">", &row.mechanism, "</p>\n");
        page.element("<p class=\"note\">", &row.source, "</p>\n");
        let first = row.starts.first().map_or(1, |start| start.first_seed + start.seeds.saturating_sub(1));
        let command = format!(
            "riprap test --sim --seed {first} --defect {} {}",
            row.name,
            row.trigger.replace("--sim ", "")
        );
        page.element("<pre class=\"again\">", command.trim_end(), "</pre>\n");
        page.raw("<p class=\"note\">Expected: ").text(row.expected.join(", "));
        if let Some(shrunk) = &row.shrunk {
            page.raw("; shrunk on ").text(shrunk.nodes).raw(if shrunk.nodes == 1 {
                " node in "
            } else {
                " nodes in "
            });
            page.text(format_args!("{:.1} s: ", shrunk.cpu_s)).raw("<a").attribute("href", &shrunk.scenario);
            page.raw(">scenario</a>");
        }
        let mut others: Vec<&str> =
            row.starts.iter().flat_map(|start| &start.others).map(String::as_str).collect();
        others.sort_unstable();
        others.dedup();
        if !others.is_empty() {
            page.raw("; also seen: ").text(others.join(", "));
        }
        page.raw("</p>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(seeds: u64, cpu_s: f64, anomaly: Option<&str>) -> Start {
        Start { first_seed: 1, seeds, cpu_s, anomaly: anomaly.map(str::to_owned), others: Vec::new() }
    }

    fn row(name: &str, starts: Vec<Start>, clean: &[&str]) -> DefectRow {
        let clean = clean.iter().zip(1..).map(|(valid, seed)| CleanRun {
            seed,
            valid: (*valid).to_owned(),
            why: "lost-write 1".to_owned(),
        });
        DefectRow {
            name: name.to_owned(),
            source: "a <source>".to_owned(),
            mechanism: "it breaks".to_owned(),
            trigger: "--nemesis kill".to_owned(),
            expected: vec!["lost-write".to_owned()],
            starts,
            shrunk: None,
            clean: clean.collect(),
        }
    }

    fn self_test(defects: Vec<DefectRow>) -> SelfTest {
        SelfTest {
            system: "broker".to_owned(),
            riprap: "0.1.0".to_owned(),
            began: "2026-11-30 08:00:00 UTC".to_owned(),
            command: "riprap self-test".to_owned(),
            budget_s: 60.0,
            took_s: 12.3,
            defects,
            unfinished: 0,
        }
    }

    #[test]
    fn all_has_to_be_found_and_clean() {
        let found = || start(1, 0.5, Some("lost-write"));
        for (rows, passed, conclusion) in [
            (
                vec![row("a", vec![found()], &["valid"])],
                true,
                "1 of 1 defects found; 1 of 1 clean runs valid; took 12 s",
            ),
            (
                vec![row("a", vec![found(), start(9, 60.0, None)], &["valid"])],
                false,
                "0 of 1 defects found; ",
            ),
            (
                vec![row("a", vec![found()], &["valid", "invalid"])],
                false,
                "1 of 1 defects found; 1 of 2 clean",
            ),
            (vec![row("a", vec![found()], &["unknown"])], false, "1 of 1 defects found; 0 of 1 clean"),
        ] {
            let all = self_test(rows);
            assert_eq!(all.passed(), passed, "{conclusion}");
            assert!(all.conclusion().starts_with(conclusion), "{}", all.conclusion());
        }
    }

    #[test]
    fn medians_are_of_searches() {
        let starts =
            vec![start(9, 9.0, None), start(1, 0.5, Some("unseen")), start(2, 1.5, Some("lost-write"))];
        let row = row("a", starts, &[]);
        assert_eq!(row.medians(), (2, 1.5));
        assert_eq!((row.found(), row.anomalies()), ("2 of 3".to_owned(), "lost-write, unseen".to_owned()));
    }

    #[test]
    fn the_table_and_the_page_tell_the_same() {
        let mut found = row("short", vec![start(1, 0.5, Some("lost-write"))], &["valid"]);
        found.shrunk = Some(Shrunk {
            ops: 3,
            faults: 1,
            nodes: 3,
            cpu_s: 4.0,
            scenario: "scenarios/short.json".to_owned(),
            report: Some("../r/report.html".to_owned()),
        });
        let all = self_test(vec![found, row("longer-name", vec![start(7, 60.0, None)], &["invalid"])]);
        let expected = "\
defect                    seeds   cpu s   anomaly      shrunk to       clean
short         found           1     0.5   lost-write   3 ops, 1 fault   1 valid
longer-name   not found       7    60.0                                 seed 1 invalid: lost-write 1

1 of 2 defects found; 1 of 2 clean runs valid; took 12 s
";
        let squeeze = |text: &str| {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(squeeze(&all.text(None, Paint::PLAIN)), squeeze(expected));
        let page = all.html();
        for words in [
            "Not passed",
            "a &lt;source&gt;",
            ">3 ops, 1 fault</a>",
            "seed 1 invalid: lost-write 1",
            "id=\"longer-name\"",
        ] {
            assert!(page.contains(words), "{words}");
        }
    }
}
