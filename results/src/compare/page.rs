//! The page: what came of it, the table, and each run with a link to its own page.

use super::table::{Cell, Row, Tone};
use super::{Comparison, Outcome, Ran};
use crate::report::html::Html;
use crate::report::style;
use riprap_checker::{Valid, registry};
use std::collections::BTreeSet;

impl Comparison {
    /// The page. Links to runs' pages are relative to the comparison's folder.
    pub fn html(&self) -> String {
        let mut page = Html::default();
        let names: Vec<&str> = self.variants.iter().map(|variant| variant.name.as_str()).collect();
        page.raw("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
        page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
        page.text(format_args!("{}: {}", self.by, names.join(", "))).raw("</title>\n").style(&style());
        page.raw("<header>\n<p class=\"running\"><b>riprap</b> · comparison by ").text(&self.by);
        page.raw(" · ").text(&self.workload).raw(" · ").text(&self.began).raw("</p>\n");
        page.raw(match self.verdict() {
            Valid::True => "<div class=\"verdict valid\">\n<h1>Not worse</h1>\n",
            Valid::Unknown => "<div class=\"verdict unknown\">\n<h1>Unknown</h1>\n",
            Valid::False => "<div class=\"verdict invalid\">\n<h1>Worse</h1>\n",
        });
        for said in self.conclusions() {
            page.element("<p>", said, "</p>\n");
        }
        page.raw("</div>\n<dl class=\"facts\">\n");
        let own = [("seeds", self.seeds.to_string()), ("took", format!("{:.0} s", self.took_s))];
        let setting = self.setting.iter().map(|(name, fact)| (name.as_str(), fact.clone()));
        for (name, fact) in own.into_iter().chain(setting) {
            page.raw("<div>").element("<dt>", name, "</dt>").element("<dd>", fact, "</dd></div>\n");
        }
        page.raw("</dl>\n<div class=\"label\">Run it again</div>\n");
        page.element("<pre class=\"again\">", &self.command, "</pre>\n</header>\n<main>\n");
        page.raw("<h2>Side by side</h2>\n");
        self.table(&mut page);
        page.raw("<h2>Runs</h2>\n");
        self.runs(&mut page);
        page.raw("</main>\n<footer>riprap ").text(&self.riprap).raw("</footer>\n</html>\n");
        page.into_string()
    }

    fn head(&self, page: &mut Html, corner: &'static str, class: &'static str) {
        page.raw("<div class=\"scroll\"><table><thead><tr><th scope=\"col\">").raw(corner);
        for variant in &self.variants {
            page.raw("<th scope=\"col\"").raw(class).raw(">").text(&variant.name);
        }
        page.raw("</thead>\n");
    }

    fn table(&self, page: &mut Html) {
        let first = self.variants.first().map_or("", |variant| variant.name.as_str());
        self.head(page, "runs", " class=\"n\"");
        for (heading, rows) in [
            ("", self.count_rows()),
            ("what was seen", self.anomaly_rows()),
            ("how fast", self.measure_rows()),
        ] {
            if rows.is_empty() {
                continue;
            }
            page.raw("<tbody>\n");
            if !heading.is_empty() {
                page.raw("<tr><th scope=\"rowgroup\"").attribute("colspan", self.variants.len() + 1);
                page.raw(">").raw(heading).raw("\n");
            }
            rows.iter().for_each(|row| table_row(page, row));
            page.raw("</tbody>\n");
        }
        page.raw("</table></div>\n<p class=\"note\">A number is the median over seeds, in brackets the smallest and the \
                  largest; behind × the ratio to the number of <b>")
            .text(first)
            .raw("</b> with the same seed. Operations count that ended ok in the main phase, faults and all; the recovery is \
                  from the healing of all faults until every node served. How fast they were makes none worse.</p>\n");
    }

    /// A row for each seed.
    fn runs(&self, page: &mut Html) {
        self.head(page, "seed", "");
        page.raw("<tbody>\n");
        let of = |ran: &Ran| ran.seed;
        let seeds: BTreeSet<u64> =
            self.variants.iter().flat_map(|variant| variant.runs.iter().map(of)).collect();
        for seed in seeds {
            page.element("<tr><td class=\"name\">", seed, "");
            for variant in &self.variants {
                match variant.runs.iter().find(|ran| ran.seed == seed) {
                    Some(ran) => run(page, ran),
                    None => drop(page.raw("<td class=\"quiet\">not run")),
                }
            }
            page.raw("\n");
        }
        page.raw("</tbody></table></div>\n");
    }
}

fn table_row(page: &mut Html, row: &Row) {
    page.raw("<tr><td class=\"short\">");
    let name = row.label.split(' ').next().unwrap_or_default();
    match registry::anomaly(name).filter(|_| row.is_anomaly) {
        Some(info) => {
            page.raw("<span").attribute("title", info.meaning).raw(">").text(&row.label).raw("</span>")
        }
        None => page.text(&row.label),
    };
    for Cell { text, spread, ratio, tone } in &row.cells {
        page.raw(match tone {
            Tone::Plain => "<td class=\"n\">",
            Tone::Quiet => "<td class=\"n quiet\">",
            Tone::Good => "<td class=\"n good\">",
            Tone::Bad => "<td class=\"n bad\">",
            Tone::Warn => "<td class=\"n warn\">",
        });
        page.text(text);
        if !spread.is_empty() {
            page.raw(" <span class=\"quiet\">").text(spread).raw("</span>");
        }
        if !ratio.is_empty() {
            page.raw("<br>").text(ratio);
        }
    }
    page.raw("\n");
}

fn run(page: &mut Html, ran: &Ran) {
    let (class, word, why, file) = match &ran.outcome {
        Outcome::Judged(judged) => {
            let class = match judged.valid {
                Valid::True => "good",
                Valid::Unknown => "warn",
                Valid::False => "bad",
            };
            (class, judged.valid.to_string(), judged.why.as_str(), "report.html")
        }
        Outcome::Failed { error } => ("warn", "failed".to_owned(), error.as_str(), ""),
    };
    page.raw("<td").attribute("class", class).raw(">");
    match &ran.run {
        Some(folder) => {
            page.raw("<a").attribute("href", format_args!("{folder}/{file}")).raw(">").text(word).raw("</a>")
        }
        None => page.text(word),
    };
    if !why.is_empty() {
        page.raw(" ").text(why);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::comparison;

    #[test]
    fn the_page_tells_what_the_table_tells_and_leads_to_every_run() {
        let page = comparison(
            3,
            &[
                &["1 valid ok_per_s=100", "2 valid ok_per_s=100"],
                &["1 invalid unseen=2 ok_per_s=50", "2 failed", "3 unknown"],
            ],
        )
        .html();
        for words in [
            "<h1>Worse</h1>",
            "b is worse than a: invalid with 1 of 1 seeds, not 0; it alone shows unseen (seed 1)",
            "<td class=\"n bad\">1 seed, 2 in all",
            "<br>×0.500",
            "<a href=\"1-a/broker-queue/20261130T080000Z-1/report.html\">invalid</a>",
            "<td class=\"warn\">failed no room",
            "<td class=\"quiet\">not run",
        ] {
            assert!(page.contains(words), "{words}\n{page}");
        }
    }

    #[test]
    fn names_are_no_markup() {
        let mut all = comparison(1, &[&["1 valid"], &["1 valid"]]);
        all.variants[1].name = "<b>".to_owned();
        let page = all.html();
        assert!(page.contains("<th scope=\"col\" class=\"n\">&lt;b&gt;"), "{page}");
    }
}
