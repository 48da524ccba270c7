//! The end of a report, to look things up in: what was counted, every knob, the nodes' logs, the files.

use super::html::Html;
use super::{ReportInput, thousands};
use crate::timeline::brief;
use riprap_core::op::{Kind, Process, Txn};
use riprap_core::{F, History};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Rows of the table of errors.
const MAX_ERRORS: usize = 40;

pub(super) fn operations(page: &mut Html, input: &ReportInput<'_>) {
    page.raw("<h2 id=\"operations\">Operations</h2>\n");
    page.raw(
        "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">f<th scope=\"col\" class=\"n\">invoked\
         <th scope=\"col\" class=\"n\">ok<th scope=\"col\" class=\"n\">fail<th scope=\"col\" class=\"n\">info\
         </thead><tbody>\n",
    );
    let mut by_f: Vec<_> = input.verdict.stats.by_f.iter().collect();
    // The workload's own words first, then the nemesis'.
    by_f.sort_by_key(|(f, _)| matches!(F::from_name(f), F::Other(_)));
    for (f, kinds) in by_f {
        page.element("<tr><td class=\"name\">", f, "");
        for count in [kinds.invoke, kinds.ok, kinds.fail, kinds.info] {
            page.raw(if count == 0 { "<td class=\"n quiet\">" } else { "<td class=\"n\">" })
                .text(thousands(count));
        }
        page.raw("\n");
    }
    page.raw("</tbody></table></div>\n");
    page.raw(
        "<p class=\"note\"><b>ok</b> took effect, <b>fail</b> certainly did not, <b>info</b> may have.</p>\n",
    );
    if let Some(told) = transactions(input.history) {
        page.element("<p class=\"note\">", told, "</p>\n");
    }
    errors(page, input.history);
}

/// How transactions ended; `None` if there were none.
fn transactions(history: &History) -> Option<String> {
    let (mut total, mut committed, mut aborted, mut asked) = (0, 0, 0, 0);
    for (op, extra) in history.ops_with_extra() {
        let Some(outcome) = op.outcome().filter(|_| op.kind() != Kind::Invoke) else { continue };
        total += 1;
        committed += u64::from(outcome == Txn::COMMITTED);
        aborted += u64::from(outcome == Txn::ABORTED);
        asked += u64::from(outcome == Txn::ABORTED && extra.abort);
    }
    (total > 0).then(|| {
        format!(
            "Of {} transactions {} were committed and {} aborted, {} of these on purpose; of {} nobody knows.",
            thousands(total),
            thousands(committed),
            thousands(aborted),
            thousands(asked),
            thousands(total - committed - aborted),
        )
    })
}

/// How often an error ended ops of one word, and what it said the first time.
#[derive(Default)]
struct ErrorCount {
    count: u64,
    message: String,
}

fn errors(page: &mut Html, history: &History) {
    let mut counts: BTreeMap<(&str, &str, Kind), ErrorCount> = BTreeMap::new();
    for op in history.ops().filter(|op| op.process() != Process::Nemesis && op.kind() != Kind::Invoke) {
        let Some(error) = op.extra().and_then(|extra| extra.error.as_ref()) else { continue };
        let entry = counts.entry((error.code.as_str(), op.f().name(), op.kind())).or_default();
        entry.count += 1;
        if entry.count == 1 {
            entry.message.clone_from(&error.message);
        }
    }
    if counts.is_empty() {
        return;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, error)| std::cmp::Reverse(error.count));
    page.raw("<h3><b>Errors</b></h3>\n");
    page.raw(
        "<div class=\"scroll\"><table><thead><tr><th scope=\"col\" class=\"n\">count<th scope=\"col\">error\
         <th scope=\"col\">f<th scope=\"col\">counts as<th scope=\"col\">said, the first time</thead><tbody>\n",
    );
    for ((code, f, kind), error) in counts.iter().take(MAX_ERRORS) {
        page.element("<tr><td class=\"n\">", thousands(error.count), "");
        page.element("<td><code>", code, "</code>").element("<td>", f, "");
        page.raw(match kind {
            Kind::Fail => "<td class=\"fail\">",
            Kind::Info => "<td class=\"info\">",
            Kind::Ok | Kind::Invoke => "<td>",
        });
        page.text(kind.name()).element("<td>", brief(&Json::from(error.message.as_str())), "\n");
    }
    page.raw("</tbody></table></div>\n");
    if counts.len() > MAX_ERRORS {
        page.raw("<p class=\"note\">").text(counts.len() - MAX_ERRORS).raw(" rarer ones are left out.</p>\n");
    }
}

pub(super) fn knobs(page: &mut Html, input: &ReportInput<'_>) {
    page.raw("<h2 id=\"knobs\">Knobs and versions</h2>\n<dl class=\"knobs\">\n");
    let config =
        serde_json::to_value(&input.test.config).expect("a config has string keys and nothing that can fail");
    let versions = Json::from_iter([("versions", input.test.versions.clone())]);
    for json in [&config, &versions] {
        for (name, value) in json.as_object().expect("a struct is an object") {
            knob(page, name, value);
        }
    }
    page.raw("</dl>\n");
}

/// A knob; one that holds others becomes one line for each.
pub(super) fn knob(page: &mut Html, name: &str, value: &Json) {
    match value {
        Json::Object(fields) if !fields.is_empty() => {
            for (field, value) in fields {
                knob(page, &format!("{name}.{field}"), value);
            }
        }
        value => {
            let (name, value) = match (name.strip_suffix("_ms"), value.as_u64()) {
                (Some(name), Some(ms)) => (name, format!("{} s", ms as f64 / 1e3)),
                _ => (name, knob_value(value)),
            };
            page.raw("<div>").element("<dt>", name.replace('_', " "), "</dt>").element(
                "<dd>",
                value,
                "</dd></div>\n",
            );
        }
    }
}

fn knob_value(value: &Json) -> String {
    match value {
        Json::Bool(true) => "yes".to_owned(),
        Json::Bool(false) => "no".to_owned(),
        Json::Null => "none".to_owned(),
        Json::Object(fields) if fields.is_empty() => "none".to_owned(),
        Json::Array(parts) if parts.is_empty() => "none".to_owned(),
        value => brief(value),
    }
}

pub(super) fn logs(page: &mut Html, input: &ReportInput<'_>) {
    if input.logs.is_empty() {
        return;
    }
    page.raw("<h2 id=\"logs\">Node logs</h2>\n<p class=\"note\">Warnings and errors only.</p>\n");
    for log in input.logs {
        page.raw("<details class=\"log-of\"><summary><b>").text(&log.node).raw("</b> ");
        page.raw("<a")
            .attribute("href", link(&log.path))
            .raw(">")
            .text(&log.path)
            .raw("</a> <span class=\"quiet\">");
        match (log.found, log.lines.len()) {
            (0, _) => page.raw("nothing"),
            (found, shown) if found > shown => {
                page.text(thousands(found as u64)).raw(" lines, the first and last of them")
            }
            (1, _) => page.raw("1 line"),
            (found, _) => page.text(found).raw(" lines"),
        };
        page.raw("</span></summary>\n");
        if !log.lines.is_empty() {
            page.raw("<pre class=\"log\">");
            for (number, line) in &log.lines {
                page.element("<span class=\"quiet\">", number, "</span>").text(line).raw("\n");
            }
            page.raw("</pre>");
        }
        page.raw("</details>\n");
    }
}

pub(super) fn files(page: &mut Html, input: &ReportInput<'_>) {
    page.raw("<h2 id=\"files\">Files</h2>\n");
    page.raw(
        "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">file<th scope=\"col\" class=\"n\">size\
         <th scope=\"col\">what it holds</thead><tbody>\n",
    );
    for (path, size_bytes) in input.files {
        page.raw("<tr><td><a").attribute("href", link(path)).raw(">").text(path).raw("</a>");
        page.element("<td class=\"n\">", size(*size_bytes), "").element(
            "<td class=\"quiet\">",
            content_of(path),
            "\n",
        );
    }
    page.raw("</tbody></table></div>\n");
}

/// A path in the run's folder, as a link from the report next to it: never one that leads elsewhere.
fn link(path: &str) -> String {
    let mut link = String::from("./");
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                link.push(char::from(byte))
            }
            other => link.push_str(&format!("%{other:02X}")),
        }
    }
    link
}

fn content_of(path: &str) -> &'static str {
    match path {
        "test.json" => "every knob, versions, seed",
        "plan.json" => "the faults, as planned",
        "system.toml" => "the system, as it was described",
        "history.jsonl" => "every op; riprap check judges it again",
        "messages.jsonl" => "who sent whom what when, of what matters",
        "results.json" => "the verdict, for programs",
        "riprap.log" => "what riprap itself did",
        _ if path.starts_with("plots/") => "a plot of this report",
        _ if path.starts_with("nodes/") => "of a node",
        _ => "",
    }
}

fn size(size_bytes: u64) -> String {
    match size_bytes {
        0..1_000 => format!("{size_bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", size_bytes as f64 / 1e3),
        _ => format!("{:.1} MB", size_bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_core::history::read_jsonl;

    #[test]
    fn links_stay_inside_the_folder() {
        assert_eq!(link("nodes/n1/a.log"), "./nodes/n1/a.log");
        assert_eq!(link("javascript:alert(1)"), "./javascript%3Aalert%281%29");
        assert_eq!(link("//host/ü"), ".///host/%C3%BC");
    }

    #[test]
    fn transactions_are_counted_by_their_ends() {
        let check = |ends: &[&str], expected: Option<&str>| {
            let mut lines = String::new();
            for (process, end) in ends.iter().enumerate() {
                let (kind, extra) = end.split_once(' ').expect("a type, then what else is told");
                lines += &format!(
                    "{{\"process\":{process},\"type\":\"invoke\",\"f\":\"txn\",\"value\":[[\"poll\"]]}}\n\
                     {{\"process\":{process},\"type\":\"{kind}\",\"f\":\"txn\",\"value\":[[\"poll\"]]{extra}}}\n"
                );
            }
            let (history, _) = read_jsonl(lines.as_bytes()).expect("well formed");
            assert_eq!(transactions(&history).as_deref(), expected);
        };
        check(&[], None);
        check(&["ok "], None);
        let [committed, aborted, unknown] = ["committed", "aborted", "unknown"]
            .map(|outcome| format!(r#","txn":{{"id":"t","outcome":"{outcome}"}}"#));
        check(
            &[
                &format!("ok {committed}"),
                &format!("ok {committed}"),
                &format!("fail {aborted}"),
                &format!(r#"fail {aborted},"abort":true"#),
                &format!("info {unknown}"),
                r#"info ,"abort":true"#,
            ],
            Some(
                "Of 5 transactions 2 were committed and 2 aborted, 1 of these on purpose; of 1 nobody knows.",
            ),
        );
    }

    #[test]
    fn sizes_for_humans() {
        assert_eq!([0, 999, 1_500, 2_500_000].map(size), ["0 B", "999 B", "1.5 kB", "2.5 MB"]);
    }
}
