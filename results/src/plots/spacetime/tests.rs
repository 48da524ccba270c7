use super::layout::Layout;
use super::scene::Scene;
use super::*;
use crate::palette;
use crate::timeline::{FaultRecord, FaultSpan};
use proptest::prelude::*;
use riprap_checker::{Anomaly, Example, Severity};
use riprap_core::history::read_jsonl;
use riprap_core::story::{About, Life};
use serde_json::{Value as Json, json};

/// A run in words, one thing a line, times in microseconds:
///
/// ```text
/// 100 c1 send 5=17         process 1 begins to send 17 to key 5        150 c1 ok 3      ... and got offset 3
/// 100 c1 crash             anything else that is done                  150 c1 info      ... and nobody knows
/// 110 c1>n2 Produce 120    a message and when it arrived, or -         130 n2 down      up, paused or down
/// 100 n2 leads 5           and `follows 5`                             90 kill 200 n1   a fault until then, on whom
/// ```
fn run(text: &str) -> Run {
    let mut run = Run::default();
    let us = |word: &str| word.parse::<u64>().expect("a time") * 1_000;
    let mut sends: std::collections::BTreeMap<&str, (&str, &str)> = Default::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let time_ns = us(words[0]);
        if let Some((from, to)) = words[1].split_once('>') {
            let about = if from.starts_with('n') && to.starts_with('n') { About::Copy } else { About::Send };
            run.seen.push(Seen::Message {
                sent_ns: time_ns,
                arrived_ns: (words[3] != "-").then(|| us(words[3])),
                from: from.to_owned(),
                to: to.to_owned(),
                about,
                what: words[2].to_owned(),
            });
            continue;
        }
        let host = words[1].to_owned();
        match (words[1].as_bytes()[0], words[2]) {
            (b'c', kind @ ("ok" | "fail" | "info")) => {
                let value = match sends.remove(words[1]) {
                    Some((key, value)) if kind == "ok" => {
                        format!(r#"[["send",{key},[{},{value}]]]"#, words[3])
                    }
                    Some((key, value)) => format!(r#"[["send",{key},{value}]]"#),
                    None => "null".to_owned(),
                };
                run.op(time_ns, &host[1..], kind, if value == "null" { "crash" } else { "send" }, &value);
            }
            (b'c', f) => {
                let value = match words.get(3).and_then(|word| word.split_once('=')) {
                    Some((key, value)) => {
                        sends.insert(words[1], (key, value));
                        format!(r#"[["send",{key},{value}]]"#)
                    }
                    None => "null".to_owned(),
                };
                run.op(time_ns, &host[1..], "invoke", f, &value);
            }
            (b'n', "leads" | "follows") => {
                let (key, what) = (words[3].parse().expect("a key"), words[2].to_owned());
                let leads = Some(words[2] == "leads");
                run.seen.push(Seen::Partition { time_ns, host, key, leads, what });
            }
            (b'n', life) => {
                let life = match life {
                    "up" => Life::Up,
                    "paused" => Life::Paused,
                    _ => Life::Down,
                };
                let what = words[2..].join(" ");
                run.seen.push(Seen::Host { time_ns, host, life: Some(life), what });
            }
            _ => {
                let record: &mut FaultRecord = run.faults.0.entry(host).or_default();
                record.spans.push(FaultSpan {
                    from_ns: time_ns as i64,
                    until_ns: Some(us(words[2]) as i64),
                    target: json!({"nodes": words[3..]}),
                    took_effect: Some(true),
                    evidence: Json::Null,
                });
            }
        }
    }
    run
}

#[derive(Default)]
struct Run {
    lines: String,
    seen: Vec<Seen>,
    faults: Faults,
    verdict: Verdict,
}

impl Run {
    fn op(&mut self, time_ns: u64, process: &str, kind: &str, f: &str, value: &str) {
        self.lines += &format!(
            "{{\"time\":{time_ns},\"process\":{process},\"type\":\"{kind}\",\"f\":\"{f}\",\"value\":{value}}}\n"
        );
    }

    /// The same with an anomaly that these ops prove.
    fn with_anomaly(mut self, story: &str, ops: &[u64]) -> Run {
        let example = Example {
            story: story.to_owned(),
            key: None,
            ops: ops.to_vec(),
            history: Vec::new(),
            detail: None,
        };
        let anomaly = Anomaly { count: 1, allowed: false, severity: Severity::Data, examples: vec![example] };
        self.verdict.anomalies.insert("lost-write".to_owned(), anomaly);
        self
    }

    /// Draws it, and holds the drawing to what holds for all.
    #[track_caller]
    fn draw(&self) -> String {
        let (history, _) = read_jsonl(self.lines.as_bytes()).expect("well formed");
        let source = Source {
            history: &history,
            seen: &self.seen,
            phases: &[],
            faults: &self.faults,
            verdict: &self.verdict,
            nodes: 3,
        };
        let scene = Scene::of(&source);
        let layout = Layout::of(&scene);
        let svg = layout.draw();
        check_layout(&layout);
        let count = |what: &str| svg.matches(what).count();
        assert_eq!(count("<g class=\"op\">"), history.pairs().count(), "each op has its bar");
        let messages = self.seen.iter().filter(|seen| matches!(seen, Seen::Message { .. }));
        let lost = |seen: &&Seen| matches!(seen, Seen::Message { arrived_ns: None, .. });
        // The legend has a cross of its own.
        let crosses = count("class=\"cross\"").saturating_sub(1);
        assert_eq!(crosses, messages.clone().filter(lost).count(), "what never arrived ends in a cross");
        assert_eq!(count("<g class=\"arrow\">"), messages.count(), "each message has its arrow");
        for part in svg.split("=\"#").skip(1) {
            let hex = &part[..6];
            let known = palette::ALL.iter().any(|ink| ink.light_hex()[1..] == *hex);
            assert!(known, "#{hex} has no dark twin");
        }
        assert_eq!(spacetime(&source).map(|plot| plot.svg), (!scene.bars.is_empty()).then_some(svg.clone()));
        svg
    }
}

#[track_caller]
fn check_layout(layout: &Layout<'_>) {
    let labels: Vec<_> = layout.labels().into_iter().filter(|label| !label.text().is_empty()).collect();
    let (width, bottom) = layout.size();
    for (n, label) in labels.iter().enumerate() {
        let [left, top, right, low] = label.room();
        assert!(left >= 0 && right <= width && low <= bottom, "{label:?} is off the page");
        for other in &labels[..n] {
            let [l, t, r, b] = other.room();
            assert!(right <= l || r <= left || low <= t || b <= top, "{label:?} is in the way of {other:?}");
        }
    }
    for [from, to] in layout.arrows() {
        assert!(from.1 < to.1, "time runs down");
    }
    for (from, until) in layout.bars() {
        assert!(from < until && until <= bottom, "a bar from {from} to {until}");
    }
}

/// The texts of a drawing with this class, in order.
fn texts<'a>(svg: &'a str, class: &str) -> Vec<&'a str> {
    let mark = format!("<text class=\"{class}\"");
    let of_class = svg.split(&mark).skip(1);
    of_class.map(|rest| rest.split_once('>').expect("a tag").1.split_once('<').expect("its end").0).collect()
}

const STORY: &str = "
    1000 c1 send 5=17
    1000 n2 leads 5
    1100 c1>n2 Produce 1300
    1300 n2>n1 copy 1500
    1300 n2>n3 copy -
    1300 n2>c1 ok 1600
    1600 c1 ok 3
    2000 kill 400000 n2
    2000 n2 down
    3000 n1 leads 5
    400000 n2 up
    500000 c4 send 5=18
    500010 c4>n1 Produce 500200
    500200 n1>c4 ok 500300
    500300 c4 ok 3
    500300 c0 crash
    500300 c0 info";

#[test]
fn a_story_from_its_first_op_to_its_last() {
    let svg = run(STORY).with_anomaly("key 5 offset 3 was given twice (op 1, op 3)", &[1, 3]).draw();
    assert_eq!(
        texts(&svg, "lane")[..6],
        ["client 0", "client 1", "client 4", "node n1", "node n2", "node n3"]
    );
    assert_eq!(texts(&svg, "op-label"), ["send 5=17", "op 1 → ok @3", "send 5=18", "op 3 → ok @3", "crash"]);
    assert_eq!(texts(&svg, "message"), ["Produce", "copy", "ok", "Produce", "ok"]);
    assert_eq!(texts(&svg, "node-says"), ["leads", "leads", "up"]);
    assert_eq!(texts(&svg, "fault-label"), ["kill n2"]);
    assert_eq!(texts(&svg, "break"), ["397 ms", "100 ms"]);
    assert_eq!(texts(&svg, "anomaly"), ["lost-write", "key 5 offset 3 was given twice (op 1, op 3)"]);
    assert_eq!(svg.matches("<rect class=\"proof\"").count(), 2 * 2, "a box and its rim for each");
    assert!(svg.contains("c1 → n2: Produce; sent 0.001100 s, arrived 0.001300 s, 0.20 ms later"));
    assert!(svg.contains("n2 → n3: copy; sent 0.001300 s, never arrived"));
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    assert_eq!(run(STORY).draw(), run(STORY).draw());
}

#[test]
fn nothing_to_draw() {
    let empty = run("100 n1 up");
    let source = Source {
        history: &History::new(),
        seen: &empty.seen,
        phases: &[],
        faults: &empty.faults,
        verdict: &empty.verdict,
        nodes: 3,
    };
    assert_eq!(spacetime(&source), None);
}

#[test]
fn a_node_that_breaks_is_marked() {
    let svg = run("10 c1 send 5=1 \n 20 n1 down \n 30 n2 panicked: no such batch \n 40 c1 info").draw();
    assert_eq!(texts(&svg, "node-says"), ["panicked: no such batch"]);
    assert_eq!(svg.matches("<rect class=\"down\"").count(), 3 * 2, "paper, hatching and rim of two nodes");
}

#[test]
fn ops_without_an_end_last_to_the_bottom() {
    run("10 c1 send 5=1 \n 20 c2 send 5=2 \n 30000 c2 ok 0 \n 40000 c2 send 5=3").draw();
}

#[test]
fn an_empty_hour_is_short() {
    let svg = run("10 c1 send 5=1 \n 3600000000 c1 ok 0").draw();
    assert_eq!(texts(&svg, "break"), ["3600.0 s"]);
    let height = svg.split("height=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("it has one");
    assert!(height.parse::<i32>().expect("a number") < 400, "{height}");
}

#[test]
fn hostile_words_are_text() {
    let mut run = run("10 c1 send 5=1 \n 20 c1>n1 <script>& 30 \n 40 c1 ok 0");
    run.seen.push(Seen::Host {
        time_ns: 35_000,
        host: "n1".to_owned(),
        life: Some(Life::Up),
        what: "</svg>\"\u{202E}".to_owned(),
    });
    let svg = run.with_anomaly("<img src=x>", &[1]).draw();
    assert!(!svg.contains("<script") && !svg.contains("<img") && svg.matches("</svg>").count() == 1, "{svg}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However many clients there are and whatever they do at once, labels keep out of each other's way.
    #[test]
    fn labels_keep_apart(
        ops in prop::collection::vec((0_u64..12, 0_u64..3_000, 0_u64..40_000, any::<bool>()), 1..30),
        messages in prop::collection::vec((0_u64..15, 0_u64..15, 0_u64..50_000, prop::option::of(0_u64..9_000)), 0..40),
        fault in prop::option::of((0_u64..30_000, 1_u64..30_000)),
        proof in 0_u64..60,
    ) {
        // A process does one thing after another.
        let mut busy_until = [0; 12];
        let mut lines: Vec<(u64, usize, String)> = Vec::new();
        for (n, (process, wait, takes, is_ok)) in ops.into_iter().enumerate() {
            let from = busy_until[process as usize] + wait;
            busy_until[process as usize] = from + takes + 1;
            lines.push((from, 2 * n, format!("{from} c{process} send 5={n}")));
            let (end, outcome) = (from + takes, if is_ok { format!("ok {n}") } else { "fail".to_owned() });
            lines.push((end, 2 * n + 1, format!("{end} c{process} {outcome}")));
        }
        lines.sort();
        let host = |n: u64| if n < 12 { format!("c{n}") } else { format!("n{}", n - 11) };
        let mut text: String = lines.iter().map(|(_, _, line)| format!("{line}\n")).collect();
        for (from, to, sent, takes) in messages {
            let known = |n: u64| n >= 12 || text.contains(&format!(" c{n} "));
            if from != to && known(from) && known(to) && sent >= lines[0].0 {
                let arrives = takes.map_or("-".to_owned(), |takes| (sent + takes).to_string());
                text += &format!("{sent} {}>{} Produce-5=17-and-more {arrives}\n", host(from), host(to));
            }
        }
        if let Some((from, takes)) = fault {
            text += &format!("{from} partition {} n1 n3\n", from + takes);
        }
        run(&text).with_anomaly("it was lost", &[proof, proof + 1]).draw();
    }
}
