//! `report.html`: one file that tells the whole story to somebody who was not there.
//!
//! It needs nothing but itself: no scripts, no fonts, no pictures from elsewhere; links lead to the run's other files,
//! next to it. It reads from the top: the verdict and why, how to run it again, what was found with its proof, what was
//! done to the system, what the system did, every knob.

mod aborts;
mod appendix;
pub(crate) mod html;
mod ops;

use crate::logs::LogExcerpt;
use crate::palette::{self, Ink};
use crate::plots::spacetime::MAX_STORY_OPS;
use crate::plots::{Plot, fault_inks};
use crate::record::TestRecord;
use crate::summary::{other_reasons, worst_first};
use crate::timeline::{Faults, Phase, brief, target_text};
use html::Html;
use ops::{example_ops, seconds};
use riprap_checker::{Anomaly, Example, Valid, Verdict, registry};
use riprap_core::History;
use serde_json::Value as Json;

/// Examples shown of one anomaly; results.json has the others.
const MAX_EXAMPLES: usize = 5;
/// Lines of an example's own history; that of a longer one, a long cycle, only results.json has.
const MAX_LEAST_LINES: usize = 48;
/// Strikes in the table of faults.
const MAX_STRIKES: usize = 200;
/// Reasons under the verdict.
const MAX_REASONS: usize = 12;

/// What a report is made of.
pub struct ReportInput<'a> {
    /// What was asked for.
    pub test: &'a TestRecord,
    /// What came of it, with its parts.
    pub verdict: &'a Verdict,
    /// What happened.
    pub history: &'a History,
    /// When which phase was.
    pub phases: &'a [Phase],
    /// What was done to the system.
    pub faults: &'a Faults,
    /// Pictures.
    pub plots: &'a [Plot],
    /// The run as a whole, if it is small.
    pub story: &'a Story,
    /// What the nodes complained of.
    pub logs: &'a [LogExcerpt],
    /// The run's files, as paths in its folder, with their sizes in bytes.
    pub files: &'a [(String, u64)],
}

/// The picture of a run as a whole.
pub enum Story {
    /// Nobody watched, as in a run on real nodes.
    None,
    /// More happened than a picture can show.
    TooLarge,
    /// Here it is.
    Drawn(Plot),
}

/// The report.
pub fn report(input: &ReportInput<'_>) -> String {
    let mut page = Html::default();
    let config = &input.test.config;
    page.raw("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    page.text(format_args!(
        "{}: {} {}, seed {}",
        input.verdict.valid, config.system, config.workload, config.seed
    ));
    page.raw("</title>\n").style(&style());
    header(&mut page, input);
    page.raw("<main>\n");
    story(&mut page, input);
    anomalies(&mut page, input);
    aborts::aborts(&mut page, input.verdict);
    faults(&mut page, input);
    other_parts(&mut page, input.verdict);
    plots(&mut page, input);
    appendix::operations(&mut page, input);
    appendix::knobs(&mut page, input);
    appendix::logs(&mut page, input);
    appendix::files(&mut page, input);
    page.raw("</main>\n<footer>riprap ").text(&input.test.riprap);
    if let Some(commit) = &input.test.git_commit {
        page.raw(", commit ").text(commit);
    }
    page.raw("</footer>\n</html>\n");
    page.into_string()
}

/// Dark only on a screen: what is printed is on white paper.
pub(crate) fn style() -> String {
    let dark = format!("{}{}", include_str!("report/dark.css"), palette::dark_rules("svg"));
    format!(
        "{}@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n",
        include_str!("report/report.css")
    )
}

fn header(page: &mut Html, input: &ReportInput<'_>) {
    let (config, verdict, test) = (&input.test.config, input.verdict, input.test);
    page.raw("<header>\n<p class=\"running\"><b>riprap</b> · ")
        .text(&config.system)
        .raw(" · ")
        .text(&config.workload);
    page.raw(" · ").text(&test.began).raw("</p>\n");
    page.raw(match verdict.valid {
        Valid::True => "<div class=\"verdict valid\">\n<h1>Valid</h1>\n",
        Valid::Unknown => "<div class=\"verdict unknown\">\n<h1>Unknown</h1>\n",
        Valid::False => "<div class=\"verdict invalid\">\n<h1>Invalid</h1>\n",
    });
    why(page, verdict);
    page.raw("</div>\n<dl class=\"facts\">\n");
    let stats = &verdict.stats;
    let duration_ns = input.history.ops().next_back().map_or(0, |op| op.time_ns());
    let strikes: u64 = input.faults.0.values().map(|record| record.strikes).sum();
    let facts = [
        ("seed", config.seed.to_string()),
        ("nodes", config.nodes.to_string()),
        ("duration", format!("{:.1} s", duration_ns as f64 / 1e9)),
        ("sends acknowledged", thousands(stats.ok_sends)),
        ("records read", thousands(stats.ok_records)),
        ("faults", if strikes == 1 { "1 strike".to_owned() } else { format!("{strikes} strikes") }),
    ];
    for (name, fact) in facts {
        page.raw("<div>").element("<dt>", name, "</dt>").element("<dd>", fact, "</dd></div>\n");
    }
    page.raw("</dl>\n<div class=\"label\">Run it again</div>\n");
    page.element("<pre class=\"again\">", test.command(), "</pre>\n");
    page.raw("<nav aria-label=\"Sections\">");
    if matches!(input.story, Story::Drawn(_)) {
        page.raw("<a href=\"#story\">What happened</a>");
    }
    page.raw("<a href=\"#anomalies\">Anomalies</a><a href=\"#faults\">Faults</a>");
    if !input.plots.is_empty() {
        page.raw("<a href=\"#plots\">Plots</a>");
    }
    page.raw("<a href=\"#operations\">Operations</a><a href=\"#knobs\">Knobs</a>");
    if !input.logs.is_empty() {
        page.raw("<a href=\"#logs\">Node logs</a>");
    }
    page.raw("<a href=\"#files\">Files</a></nav>\n</header>\n");
}

/// What the verdict rests on, in words.
fn why(page: &mut Html, verdict: &Verdict) {
    let stats = &verdict.stats;
    let forbidden: Vec<_> = verdict.forbidden().collect();
    let mut reasons = Html::default();
    reasons.raw("<ul>\n");
    for (name, anomaly) in forbidden.iter().take(MAX_REASONS) {
        reasons
            .raw("<li><a")
            .attribute("href", format_args!("#anomaly-{name}"))
            .raw("><b>")
            .text(name)
            .raw("</b></a>");
        reasons.text(if anomaly.count == 1 {
            String::new()
        } else {
            format!(", {} times", thousands(anomaly.count))
        });
        if let Some(example) = anomaly.examples.first() {
            reasons.raw(": ").text(&example.story);
        }
        reasons.raw("\n");
    }
    for reason in other_reasons(verdict).take(MAX_REASONS) {
        reasons.element("<li>", reason, "\n");
    }
    match verdict.valid {
        Valid::True => {
            page.raw("<p>Nothing that the run's guarantees forbid was seen in ")
                .text(thousands(stats.ok_sends));
            page.raw(" acknowledged sends and ").text(thousands(stats.ok_polls)).raw(" polls, which read ");
            page.text(thousands(stats.ok_records)).raw(" records of ").text(stats.keys).raw(" keys.</p>\n");
        }
        Valid::Unknown => {
            page.raw("<p>Nothing forbidden was seen, but this run cannot show that there was nothing:</p>\n");
        }
        Valid::False => {
            page.raw("<p>The system broke what the run asked it to guarantee:</p>\n");
        }
    }
    reasons.raw("</ul>\n");
    if !verdict.why.is_empty() {
        page.append(reasons);
    }
}

/// The run from its first op to its last.
fn story(page: &mut Html, input: &ReportInput<'_>) {
    let Story::Drawn(plot) = input.story else { return };
    page.raw("<h2 id=\"story\">").text(plot.title).raw("</h2>\n<figure class=\"story-figure\">");
    page.raw("<div class=\"scroll\" tabindex=\"0\">").picture(plot);
    page.raw("</div>\n").element("<figcaption>", plot.caption, "</figcaption></figure>\n");
}

fn anomalies(page: &mut Html, input: &ReportInput<'_>) {
    page.raw("<h2 id=\"anomalies\">Anomalies</h2>\n");
    let found = worst_first(input.verdict);
    if found.is_empty() {
        page.raw("<p>None.</p>\n");
        return;
    }
    page.raw(
        "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">anomaly<th scope=\"col\" class=\"n\">count\
         <th scope=\"col\">allowed<th scope=\"col\" class=\"wide\">what it is</thead><tbody>\n",
    );
    for (name, anomaly) in &found {
        page.raw("<tr><td class=\"name\">");
        if anomaly.examples.is_empty() {
            page.text(name);
        } else {
            page.raw("<a").attribute("href", format_args!("#anomaly-{name}")).raw(">").text(name).raw("</a>");
        }
        page.element("<td class=\"n\">", thousands(anomaly.count), "");
        page.raw(if anomaly.allowed { "<td class=\"quiet\">yes" } else { "<td class=\"bad\">no" });
        page.raw("<td>").text(registry::anomaly(name).map_or("", |info| info.meaning)).raw("\n");
    }
    page.raw("</tbody></table></div>\n");
    page.raw(
        "<p class=\"note\">In the tables below, <code>17@12</code> is the value 17 at offset 12; \
              the marked ops prove the anomaly.</p>\n",
    );
    for (name, anomaly) in found {
        examples(page, name, anomaly, input.history);
    }
}

/// The examples of one anomaly; those that are allowed are there for who wants to look.
fn examples(page: &mut Html, name: &str, anomaly: &Anomaly, history: &History) {
    if anomaly.examples.is_empty() {
        return;
    }
    let shown = anomaly.examples.len().min(MAX_EXAMPLES);
    page.raw(if anomaly.allowed { "<details><summary" } else { "<h3" });
    page.attribute("id", format_args!("anomaly-{name}"))
        .raw("><b>")
        .text(name)
        .raw("</b> <span class=\"count\">");
    match (anomaly.count, shown) {
        (1, _) => page.raw("once"),
        (count, 1) => page.text(thousands(count)).raw(" times, the worst of them"),
        (count, shown) if count > shown as u64 => {
            page.text(thousands(count)).raw(" times, the worst ").text(shown).raw(" of them")
        }
        (count, _) => page.text(thousands(count)).raw(" times"),
    };
    page.raw(if anomaly.allowed { ", allowed</span></summary>\n" } else { "</span></h3>\n" });
    // One is enough to understand; the others are a click away, so that the rest of the report is not far.
    for (n, example) in anomaly.examples[..shown].iter().enumerate() {
        if n == 1 {
            page.raw("<details><summary>").text(shown - 1).raw(" more</summary>\n");
        }
        page.element("<p class=\"story\">", &example.story, "</p>\n");
        page.append(example_ops(example, history));
        detail(page, example);
        least(page, example);
    }
    page.raw(if shown > 1 { "</details>\n" } else { "" });
    page.raw(if anomaly.allowed { "</details>\n" } else { "" });
}

/// What else was seen, a click away: a backtrace is long.
fn detail(page: &mut Html, example: &Example) {
    if let Some(detail) = &example.detail {
        let first = detail.lines().next().unwrap_or_default();
        page.raw("<details class=\"least\"><summary>").text(first).raw("</summary>\n<pre class=\"log\">");
        page.text(detail).raw("</pre></details>\n");
    }
}

/// The example's own history, as lines that `riprap check` takes.
fn least(page: &mut Html, example: &Example) {
    if !(1..=MAX_LEAST_LINES).contains(&example.history.len()) {
        return;
    }
    page.raw("<details class=\"least\"><summary>the least that shows it, ")
        .text(example.history.len())
        .raw(" lines for <code>riprap check</code></summary>\n<pre class=\"log\">");
    for line in &example.history {
        page.text(line).raw("\n");
    }
    page.raw("</pre></details>\n");
}

fn faults(page: &mut Html, input: &ReportInput<'_>) {
    page.raw("<h2 id=\"faults\">Faults</h2>\n");
    let strikes = input.faults.spans();
    if strikes.is_empty() {
        page.raw("<p>None: the system was left alone.</p>\n");
        return;
    }
    page.raw(
        "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">fault<th scope=\"col\" class=\"n\">from\
         <th scope=\"col\" class=\"n\">until<th scope=\"col\">on whom<th scope=\"col\">took effect\
         <th scope=\"col\">evidence</thead><tbody>\n",
    );
    let inks = fault_inks(input.faults);
    for (name, span) in strikes.iter().take(MAX_STRIKES) {
        page.raw("<tr><td class=\"name\">");
        swatch(page, inks[name]);
        page.text(name).element("<td class=\"n\">", seconds(span.from_ns), "");
        match span.until_ns {
            Some(until_ns) => page.element("<td class=\"n\">", seconds(until_ns), ""),
            None => page.raw("<td class=\"n warn\">never healed"),
        };
        page.element("<td class=\"long\">", target_text(&span.target), "");
        page.raw(match span.took_effect {
            Some(true) => "<td class=\"good\">yes",
            Some(false) => "<td class=\"bad\">no",
            None => "<td class=\"warn short\">not known",
        });
        page.element("<td class=\"long\">", brief(&span.evidence), "\n");
    }
    page.raw("</tbody></table></div>\n");
    if strikes.len() > MAX_STRIKES {
        page.raw("<p class=\"note\">")
            .text(strikes.len() - MAX_STRIKES)
            .raw(" more stand in results.json.</p>\n");
    }
}

/// What others attached to the verdict, as `liveness`, and what has no section of its own.
fn other_parts(page: &mut Html, verdict: &Verdict) {
    let shown_elsewhere = ["aborts", "faults", "phases", "seed"];
    for (name, part) in verdict.parts.iter().filter(|(name, _)| !shown_elsewhere.contains(&name.as_str())) {
        page.raw("<h3><b>").text(name).raw("</b></h3>\n<dl class=\"knobs\">\n");
        match part {
            Json::Object(fields) => {
                fields.iter().for_each(|(field, value)| appendix::knob(page, field, value))
            }
            part => appendix::knob(page, name, part),
        }
        page.raw("</dl>\n");
    }
}

/// The colour that the plots give a fault.
fn swatch(page: &mut Html, ink: Ink) {
    page.raw(
        "<svg width=\"10\" height=\"10\" aria-hidden=\"true\"><rect width=\"10\" height=\"10\" rx=\"2\"",
    );
    page.attribute("fill", ink.light_hex()).raw("/></svg>");
}

fn plots(page: &mut Html, input: &ReportInput<'_>) {
    if input.plots.is_empty() {
        return;
    }
    page.raw("<h2 id=\"plots\">Over time</h2>\n");
    if matches!(input.story, Story::TooLarge) {
        page.raw("<p class=\"note\">There is no picture of the run as a whole: clients did more than ")
            .text(MAX_STORY_OPS)
            .raw(" operations. <code>riprap shrink</code> takes away what an anomaly does not need.</p>\n");
    }
    for plot in input.plots {
        page.raw("<figure><h3>")
            .text(plot.title)
            .raw("</h3>\n<div class=\"scroll\" tabindex=\"0\">")
            .picture(plot);
        page.raw("</div>\n").element("<figcaption>", plot.caption, "</figcaption></figure>\n");
    }
}

/// `1 234 567`, with narrow spaces that do not break.
fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202F}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{FaultRecord, FaultSpan};
    use riprap_checker::{Example, Severity};
    use riprap_core::F;
    use riprap_core::op::{Extra, Key, Kind, Mop, Offset, Op, OpError, OpValue, Process, Value};
    use serde_json::json;

    fn send(index: u64, kind: Kind, offset: Option<i64>, error: Option<&str>) -> Op {
        let mop = Mop::Send { key: Key(5), value: Value(17), offset: offset.map(Offset) };
        let error = error.map(|message| OpError {
            code: message.to_owned(),
            definite: false,
            message: message.to_owned(),
        });
        Op {
            index,
            time_ns: index as i64 * 1_500_000_000,
            process: Process::Client(3),
            kind,
            f: F::Send,
            value: OpValue::Mops(vec![mop]),
            extra: Extra { error, ..Extra::default() },
        }
    }

    /// The report of a run in which everything that can hold text holds `said`.
    fn report_with(valid: Valid, said: &str) -> String {
        let history: History = [
            send(0, Kind::Invoke, None, None),
            send(1, Kind::Ok, Some(12), None),
            send(2, Kind::Invoke, None, None),
            send(3, Kind::Info, None, Some(said)),
        ]
        .into_iter()
        .collect();
        let mut test = crate::record::tests::record();
        test.config.settings.insert(said.to_owned(), said.to_owned());
        test.config.system = said.to_owned();
        test.config.nemesis.push(said.to_owned());
        test.args.push(said.to_owned());
        test.versions = json!({said: said});
        test.git_commit = Some(said.to_owned());
        let example = Example {
            story: format!("it was lost: {said}"),
            key: Some(5),
            ops: vec![1, 3],
            history: vec![
                json!({"index": 2, "time": 0, "process": 3, "type": "invoke", "f": said, "value": said}),
            ],
            detail: Some(format!("panicked: {said}\nat {said}")),
        };
        let anomaly =
            Anomaly { count: 3_000, allowed: false, severity: Severity::Data, examples: vec![example] };
        let mut verdict = Verdict { valid, why: vec![format!("{said}: {said}")], ..Verdict::default() }
            .with_part(said, json!({said: said}))
            .with_part("liveness", said);
        if valid == Valid::False {
            verdict.anomalies.insert(format!("lost{said}"), anomaly);
        }
        let span = FaultSpan {
            from_ns: 0,
            until_ns: None,
            target: json!([said]),
            took_effect: Some(false),
            evidence: json!({said: said}),
        };
        let record = FaultRecord { strikes: 1, took_effect: 0, spans: vec![span] };
        let faults = Faults([(said.to_owned(), record)].into());
        let phases = [Phase { name: said.to_owned(), from_ns: 0, until_ns: 5_000_000_000 }];
        let plots = crate::plots(&history, &phases, &faults);
        let log = LogExcerpt {
            node: said.to_owned(),
            path: format!("nodes/{said}/x.log"),
            lines: vec![(7, said.to_owned())],
            found: 1,
        };
        report(&ReportInput {
            test: &test,
            verdict: &verdict,
            history: &history,
            phases: &phases,
            faults: &faults,
            plots: &plots,
            story: &Story::None,
            logs: &[log],
            files: &[(format!("nodes/{said}"), 1_234)],
        })
    }

    /// The names of all elements and attributes: what a browser acts on.
    fn markup(html: &str) -> Vec<String> {
        let tags = html.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default());
        let names = tags.flat_map(|tag| {
            let mut outside_quotes = tag.split('"').step_by(2).collect::<Vec<_>>().join(" ");
            outside_quotes.make_ascii_lowercase();
            outside_quotes.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        });
        names.collect()
    }

    #[test]
    fn what_a_system_says_never_becomes_markup() {
        for said in [
            "<script>alert(1)</script>",
            "\" onclick=\"x",
            "' onclick='x",
            "</style><img src=x onerror=y>",
            "&lt;",
        ] {
            for valid in [Valid::True, Valid::Unknown, Valid::False] {
                assert_eq!(markup(&report_with(valid, said)), markup(&report_with(valid, "abc")), "{said}");
            }
        }
    }

    #[test]
    fn it_needs_nothing_from_elsewhere() {
        let html = report_with(Valid::False, "abc");
        for forbidden in ["<script", "<link", "<img", "<iframe", "@import", "url(", "src=", "href=\"http"] {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
        let addresses = html.matches("http").count();
        assert_eq!(addresses, html.matches("xmlns=\"http://www.w3.org/2000/svg\"").count());
    }

    #[test]
    fn the_proof_is_marked() {
        let html = report_with(Valid::False, "abc");
        let proof: Vec<_> = html.split("<tr").filter(|row| row.starts_with(" class=\"proof\"")).collect();
        assert_eq!(proof.len(), 2);
        assert!(proof[0].contains("1.500 s") && proof[0].contains("key 5 ← 17@12"), "{}", proof[0]);
        assert!(proof[1].contains("key 5 ← 17; abc: abc"), "{}", proof[1]);
        assert!(html.contains("3\u{202F}000 times, the worst of them"));
    }

    #[test]
    fn numbers_for_humans() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(thousands),
            ["0", "999", "1\u{202F}000", "1\u{202F}234\u{202F}567"]
        );
    }
}
