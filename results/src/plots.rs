//! Pictures of a run: how much it did and how long that took, over time, with what was done to it.
//!
//! Each is an SVG that stands alone: a lane for the phases and one for each fault on top, the faults' time shaded through
//! all panels below. Size is bounded whatever the length of the run: a run's time is cut into at most 120 pieces, and
//! strikes of one fault that no eye could tell apart are drawn as one. The same run always gives the same bytes.

mod canvas;
mod scale;
pub(crate) mod series;
pub(crate) mod spacetime;

use crate::palette::{self, Ink};
use crate::timeline::{Faults, Phase};
use canvas::{Anchor, Canvas, Point};
use riprap_core::op::Kind;
use riprap_core::{F, History};
use scale::{LogScale, round_scale, short_number, time_label, time_step_ns};
use series::{Buckets, Spread, Words};
use std::collections::BTreeMap;

/// A picture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plot {
    /// Its file's name, without ending.
    pub name: &'static str,
    /// What it shows, in a few words.
    pub title: &'static str,
    /// How to read it.
    pub caption: &'static str,
    /// The picture.
    pub svg: String,
}

/// The pictures of a run; none if no op completed.
pub fn plots(history: &History, phases: &[Phase], faults: &Faults) -> Vec<Plot> {
    let words = Words::of(history);
    if words.names().is_empty() {
        return Vec::new();
    }
    let ends_ns = history.ops().map(|op| op.time_ns()).chain(phases.iter().map(|phase| phase.until_ns));
    let until_ns = ends_ns.max().unwrap_or(0).clamp(1, MAX_RUN_NS);
    let run = Run { words: &words, buckets: Buckets::over(until_ns), until_ns, phases, faults };
    let mut plots = vec![rate_plot(history, &run)];
    plots.extend(latency_plot(history, &run));
    plots
}

/// Longer than this, 31 years, takes no run, but a history with a broken clock: it is drawn up to here.
const MAX_RUN_NS: i64 = 1_000_000_000_000_000_000;

/// What all pictures of a run share.
struct Run<'a> {
    words: &'a Words,
    buckets: Buckets,
    until_ns: i64,
    phases: &'a [Phase],
    faults: &'a Faults,
}

const WIDTH_PX: u32 = 960;
/// Where the time axis begins and ends; to its left are the labels.
const LEFT_PX: i32 = 92;
const RIGHT_PX: i32 = WIDTH_PX as i32 - 14;
const LEGEND_PX: i32 = 26;
const LANE_PX: i32 = 16;
/// Room above each panel, for its name.
const PANEL_GAP_PX: i32 = 24;
const TIME_AXIS_PX: i32 = 26;
/// The shade of a fault's time behind the panels: seen, but no obstacle to the lines.
const SHADE: f64 = 0.13;
/// Strikes closer than this are drawn as one.
const MIN_GAP_PX: i32 = 2;

impl Run<'_> {
    fn x(&self, time_ns: i64) -> i32 {
        let share = time_ns.clamp(0, self.until_ns) as f64 / self.until_ns as f64;
        LEFT_PX + (share * f64::from(RIGHT_PX - LEFT_PX)).round() as i32
    }

    fn x_of_bucket(&self, bucket: usize) -> i32 {
        self.x(self.buckets.middle_ns(bucket))
    }

    /// Draws everything but the panels' content: `panels` are their heights. Returns the SVG.
    fn draw(
        &self,
        legend: &[(Mark, &str, Ink)],
        panels: &[i32],
        content: impl Fn(&Canvas<'_>, usize, Panel),
    ) -> String {
        let lanes = i32::from(!self.phases.is_empty()) + self.faults.0.len() as i32;
        let lanes_top = LEGEND_PX;
        let panels_top = lanes_top + lanes * LANE_PX + PANEL_GAP_PX;
        let mut tops = Vec::new();
        let mut bottom = panels_top - PANEL_GAP_PX;
        for height in panels {
            tops.push(bottom + PANEL_GAP_PX);
            bottom += PANEL_GAP_PX + height;
        }
        let height_px = u32::try_from(bottom + TIME_AXIS_PX).expect("heights are positive");
        canvas::draw(WIDTH_PX, height_px, |canvas| {
            draw_legend(canvas, legend);
            self.draw_lanes(canvas, lanes_top, panels_top, bottom);
            self.draw_time_axis(canvas, panels_top, bottom);
            for (n, (top, height)) in tops.iter().zip(panels).enumerate() {
                content(canvas, n, Panel { top: *top, bottom: top + height });
            }
        })
    }

    fn draw_lanes(&self, canvas: &Canvas<'_>, top: i32, panels_top: i32, bottom: i32) {
        let mut middle = top + LANE_PX / 2;
        if !self.phases.is_empty() {
            canvas.text("phase", (LEFT_PX - 8, middle), Anchor::Right, palette::MUTED);
        }
        for (n, phase) in self.phases.iter().enumerate() {
            let (from, to) = (self.x(phase.from_ns), self.x(phase.until_ns));
            canvas.bar((from, middle - 6), (to, middle + 6), palette::PHASES[n % 2], 0.35);
            if canvas.text_width_px(&phase.name) + 8 <= to - from {
                canvas.text(&phase.name, (from + 5, middle), Anchor::Left, palette::TEXT);
            }
            if phase.from_ns > 0 {
                canvas.line(vec![(from, panels_top), (from, bottom)], palette::AXIS, 1);
            }
        }
        middle += if self.phases.is_empty() { 0 } else { LANE_PX };
        for (n, (name, record)) in self.faults.0.iter().enumerate() {
            let ink = palette::FAULTS[n % palette::FAULTS.len()];
            canvas.text(name, (LEFT_PX - 8, middle), Anchor::Right, palette::TEXT);
            let spans = record.spans.iter();
            let spans =
                spans.map(|span| (self.x(span.from_ns), self.x(span.until_ns.unwrap_or(self.until_ns))));
            for (from, to) in merged(spans) {
                canvas.bar((from, middle - 5), (to, middle + 5), ink, 0.9);
                canvas.bar((from, panels_top), (to, bottom), ink, SHADE);
            }
            middle += LANE_PX;
        }
    }

    fn draw_time_axis(&self, canvas: &Canvas<'_>, panels_top: i32, bottom: i32) {
        let step_ns = time_step_ns(self.until_ns);
        let mut at_ns = 0;
        while at_ns <= self.until_ns {
            let x = self.x(at_ns);
            canvas.line(vec![(x, panels_top), (x, bottom)], palette::GRID, 1);
            canvas.line(vec![(x, bottom), (x, bottom + 4)], palette::AXIS, 1);
            let label = time_label(at_ns, step_ns);
            // The last one would else stick out.
            let anchor =
                if x + canvas.text_width_px(&label) / 2 > RIGHT_PX { Anchor::Right } else { Anchor::Middle };
            canvas.text(&label, (x, bottom + 14), anchor, palette::MUTED);
            at_ns += step_ns;
        }
    }
}

/// Spans of pixels, each at least one wide, those that overlap or nearly touch as one.
fn merged(spans: impl Iterator<Item = (i32, i32)>) -> Vec<(i32, i32)> {
    let mut spans: Vec<_> = spans.map(|(from, to)| (from, to.max(from + 1))).collect();
    spans.sort_unstable();
    let mut merged: Vec<(i32, i32)> = Vec::new();
    for (from, to) in spans {
        match merged.last_mut() {
            Some(last) if from - last.1 < MIN_GAP_PX => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// How a legend's entry looks.
#[derive(Clone, Copy)]
enum Mark {
    Line,
    ThinLine,
    Band,
    Dot,
}

fn draw_legend(canvas: &Canvas<'_>, entries: &[(Mark, &str, Ink)]) {
    let y = LEGEND_PX / 2 - 2;
    let mut x = LEFT_PX;
    for (mark, name, ink) in entries {
        match mark {
            Mark::Line => canvas.line(vec![(x, y), (x + 18, y)], *ink, 2),
            Mark::ThinLine => canvas.line(vec![(x, y), (x + 18, y)], *ink, 1),
            Mark::Band => canvas.bar((x, y - 5), (x + 18, y + 5), *ink, BAND),
            Mark::Dot => canvas.dot((x + 9, y), 3, *ink),
        }
        canvas.text(name, (x + 24, y), Anchor::Left, palette::TEXT);
        x += 24 + canvas.text_width_px(name) + 20;
    }
}

/// One drawing of a run, between two heights.
#[derive(Clone, Copy)]
struct Panel {
    top: i32,
    bottom: i32,
}

impl Panel {
    /// Its height at a share from 0, the bottom, to 1, the top.
    fn y(self, share: f64) -> i32 {
        self.bottom - (share.clamp(0.0, 1.0) * f64::from(self.bottom - self.top)).round() as i32
    }

    /// Lines across it, with labels.
    fn draw_grid(self, canvas: &Canvas<'_>, ticks: &[(f64, String)]) {
        for (share, label) in ticks {
            let y = self.y(*share);
            canvas.line(vec![(LEFT_PX, y), (RIGHT_PX, y)], palette::GRID, 1);
            canvas.text(label, (LEFT_PX - 8, y), Anchor::Right, palette::MUTED);
        }
        canvas.line(vec![(LEFT_PX, self.bottom), (RIGHT_PX, self.bottom)], palette::AXIS, 1);
    }

    fn draw_name(self, canvas: &Canvas<'_>, name: &str, ink: Ink) {
        canvas.text(name, (LEFT_PX, self.top - 9), Anchor::Left, ink);
    }
}

/// The colour of an op's word is the same in every picture of every run.
pub(crate) fn word_ink(name: &str) -> Ink {
    match name {
        "send" => palette::SEND,
        "poll" => palette::POLL,
        "txn" => palette::TXN,
        "assign" => palette::ASSIGN,
        "subscribe" => palette::SUBSCRIBE,
        _ => palette::OTHER,
    }
}

fn rate_plot(history: &History, run: &Run<'_>) -> Plot {
    let rates = series::rates(history, run.words, run.buckets);
    let names = run.words.names();
    let bucket_s = run.buckets.width_ns as f64 / 1e9;
    let legend: Vec<_> = names.iter().map(|name| (Mark::Line, *name, word_ink(name))).collect();
    // What went wrong is rare: on the scale of what went well it would not be seen.
    let kinds: Vec<_> = rates.by_kind.iter().collect();
    let heights: Vec<_> = kinds.iter().map(|(kind, _)| if **kind == Kind::Ok { 190 } else { 70 }).collect();
    let svg = run.draw(&legend, &heights, |canvas, n, panel| {
        let (kind, by_word) = kinds[n];
        let most = by_word.values().flatten().max().copied().unwrap_or(0) as f64 / bucket_s;
        let (top, step) = round_scale(most, if *kind == Kind::Ok { 4 } else { 2 });
        let ticks: Vec<_> = (0..).map(|n| f64::from(n) * step).take_while(|at| *at <= top).collect();
        panel.draw_grid(canvas, &ticks.iter().map(|at| (at / top, short_number(*at))).collect::<Vec<_>>());
        for (word, counts) in by_word {
            let point = |(bucket, count): (usize, &u64)| -> Point {
                (run.x_of_bucket(bucket), panel.y(*count as f64 / bucket_s / top))
            };
            canvas.line(counts.iter().enumerate().map(point).collect(), word_ink(names[*word]), 2);
        }
        let ink = match kind {
            Kind::Fail => palette::FAIL,
            Kind::Info => palette::INFO,
            _ => palette::TEXT,
        };
        panel.draw_name(canvas, &format!("{} per second", kind.name()), ink);
    });
    Plot {
        name: "rate",
        title: "Rate",
        caption: "Ops completed per second, by outcome and word. Shaded: the time of each fault.",
        svg,
    }
}

/// The shade between the median and the 95th percentile.
const BAND: f64 = 0.28;

fn latency_plot(history: &History, run: &Run<'_>) -> Option<Plot> {
    let by_word = series::latencies(history, run.words, run.buckets);
    let scale = LogScale::over(by_word.values().flatten())?;
    let names = run.words.names();
    let legend = [
        (Mark::Line, "median", palette::TEXT),
        (Mark::Band, "up to the 95th percentile", palette::TEXT),
        (Mark::ThinLine, "longest", palette::TEXT),
        (Mark::Dot, "fail", palette::FAIL),
        (Mark::Dot, "info", palette::INFO),
    ];
    let panels: Vec<_> = by_word.iter().collect();
    // Assigning and the like is rare, and its panel need not be large.
    let height = |word: &usize| if F::from_name(names[*word]).has_mops() { 120 } else { 64 };
    let heights: Vec<_> = by_word.keys().map(height).collect();
    let svg = run.draw(&legend, &heights, |canvas, n, panel| {
        let (word, spreads) = panels[n];
        panel.draw_grid(canvas, &scale.ticks());
        draw_spreads(canvas, run, panel, &scale, spreads, word_ink(names[*word]));
        panel.draw_name(canvas, names[*word], word_ink(names[*word]));
    });
    Some(Plot {
        name: "latency",
        title: "Latency",
        caption: "How long ops took, by word, at the time when they began; the scale is logarithmic. \
                  Dots: the longest op of that time that failed, or whose outcome is unknown.",
        svg,
    })
}

fn draw_spreads(
    canvas: &Canvas<'_>,
    run: &Run<'_>,
    panel: Panel,
    scale: &LogScale,
    spreads: &[Spread],
    ink: Ink,
) {
    let y = |took_ns: i64| panel.y(scale.share(took_ns));
    // A time without ok ops is a gap in the lines, not a straight line across it.
    for stretch in stretches(spreads) {
        let line = |which: usize| -> Vec<Point> {
            stretch.iter().map(|(bucket, ok)| (run.x_of_bucket(*bucket), y(ok[which]))).collect()
        };
        let (median, percentile_95, longest) = (line(0), line(1), line(2));
        if let [(x, y)] = median[..] {
            canvas.dot((x, y), 2, ink);
        }
        canvas.polygon(median.iter().copied().chain(percentile_95.into_iter().rev()).collect(), ink, BAND);
        canvas.line(longest, ink, 1);
        canvas.line(median, ink, 2);
    }
    for (bucket, spread) in spreads.iter().enumerate() {
        for (took_ns, ink) in [(spread.info, palette::INFO), (spread.fail, palette::FAIL)] {
            if let Some(took_ns) = took_ns {
                canvas.dot((run.x_of_bucket(bucket), y(took_ns)), 2, ink);
            }
        }
    }
}

/// Runs of buckets with ok ops.
fn stretches(spreads: &[Spread]) -> Vec<Vec<(usize, [i64; 3])>> {
    let mut stretches = vec![Vec::new()];
    for (bucket, spread) in spreads.iter().enumerate() {
        match spread.ok {
            Some(ok) => stretches.last_mut().expect("never empty").push((bucket, ok)),
            None => stretches.push(Vec::new()),
        }
    }
    stretches.retain(|stretch| !stretch.is_empty());
    stretches
}

/// What a plot of faults that overlap in time needs to know of a fault's colour: the report's table shows it too.
pub(crate) fn fault_inks(faults: &Faults) -> BTreeMap<&str, Ink> {
    let inks = palette::FAULTS.into_iter().cycle();
    faults.0.keys().map(String::as_str).zip(inks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{FaultRecord, FaultSpan};
    use riprap_core::op::{Extra, Op, OpValue, Process};

    const S: i64 = 1_000_000_000;

    /// `ops` ops of alternating words over `duration_s`; every tenth fails, every eleventh is info.
    fn history(ops: i64, duration_s: i64) -> History {
        let op = |n: i64, kind: Kind, time_ns: i64| Op {
            index: 0,
            time_ns,
            process: Process::Client(0),
            kind,
            f: if n % 2 == 0 { F::Send } else { F::Poll },
            value: OpValue::None,
            extra: Extra::default(),
        };
        let pair = |n: i64| {
            let began_ns = n * duration_s * S / ops;
            let kind = match n {
                n if n % 10 == 9 => Kind::Fail,
                n if n % 11 == 10 => Kind::Info,
                _ => Kind::Ok,
            };
            [op(n, Kind::Invoke, began_ns), op(n, kind, began_ns + 2_000_000 + n % 7 * 1_000_000)]
        };
        (0..ops).flat_map(pair).collect()
    }

    fn phases(main_s: i64) -> Vec<Phase> {
        let phase = |name: &str, from_s: i64, until_s: i64| Phase {
            name: name.to_owned(),
            from_ns: from_s * S,
            until_ns: until_s * S,
        };
        vec![
            phase("main", 0, main_s),
            phase("heal", main_s, main_s + 1),
            phase("drain", main_s + 1, main_s + 3),
        ]
    }

    fn faults(spans: &[(&str, i64, Option<i64>)]) -> Faults {
        let mut faults = Faults::default();
        for (name, from_s, until_s) in spans {
            let record: &mut FaultRecord = faults.0.entry((*name).to_owned()).or_default();
            record.spans.push(FaultSpan {
                from_ns: from_s * S,
                until_ns: until_s.map(|s| s * S),
                target: serde_json::Value::Null,
                took_effect: Some(true),
                evidence: serde_json::Value::Null,
            });
        }
        faults
    }

    /// How many shapes of each kind a drawing has, and its texts.
    fn outline(svg: &str) -> String {
        let count = |tag: &str| svg.matches(&format!("<{tag} ")).count();
        let shapes = ["rect", "polyline", "polygon", "circle"].map(|tag| format!("{} {tag}", count(tag)));
        let texts = svg.split("<text ").skip(1).map(|rest| {
            let inside = rest.split_once('>').expect("a tag ends").1;
            inside.split_once('<').expect("an element ends").0.trim()
        });
        format!("{}\n{}", shapes.join(", "), texts.collect::<Vec<_>>().join(" | "))
    }

    #[test]
    fn a_short_run() {
        let faults = faults(&[("kill", 3, Some(6)), ("kill", 12, Some(15)), ("partition", 20, None)]);
        let plots = plots(&history(600, 30), &phases(30), &faults);
        assert_eq!(plots.iter().map(|plot| plot.name).collect::<Vec<_>>(), ["rate", "latency"]);
        insta::assert_snapshot!(outline(&plots[0].svg), @"
        10 rect, 35 polyline, 0 polygon, 0 circle
        send | poll | phase | main | drain | kill | partition | 0 s | 5 s | 10 s | 15 s | 20 s | 25 s | 30 s | 0 | 5 | 10 | ok per second | 0 | 1 | 2 | fail per second | 0 | 1 | 2 | info per second
        ");
        insta::assert_snapshot!(outline(&plots[1].svg), @"
        11 rect, 28 polyline, 2 polygon, 111 circle
        median | up to the 95th percentile | longest | fail | info | phase | main | drain | kill | partition | 0 s | 5 s | 10 s | 15 s | 20 s | 25 s | 30 s | 1 ms | 10 ms | send | 1 ms | 10 ms | poll
        ");
    }

    #[test]
    fn the_same_run_gives_the_same_bytes() {
        let draw = || plots(&history(600, 30), &phases(30), &faults(&[("kill", 3, Some(6))]));
        assert_eq!(draw(), draw());
    }

    /// A day with a strike every half minute: no more to draw than a short run.
    #[test]
    fn long_runs_are_small() {
        let day_s = 86_400;
        let strikes: Vec<_> = (0..day_s / 30).map(|n| ("kill", n * 30, Some(n * 30 + 10))).collect();
        for plot in plots(&history(100_000, day_s), &phases(day_s), &faults(&strikes)) {
            assert!(plot.svg.len() < 60_000, "{} is {} bytes", plot.name, plot.svg.len());
        }
    }

    #[test]
    fn nothing_to_draw() {
        assert_eq!(plots(&History::new(), &[], &Faults::default()), []);
        let only_invoked: History = history(1, 1).ops().take(1).map(|op| op.to_op()).collect();
        assert_eq!(plots(&only_invoked, &phases(1), &Faults::default()), []);
        let at_once: History = history(1, 1).ops().map(|op| Op { time_ns: 0, ..op.to_op() }).collect();
        assert_eq!(plots(&at_once, &[], &Faults::default()).len(), 2);
    }

    #[test]
    fn broken_clocks_do_no_harm() {
        let times = [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN), (0, i64::MAX), (-5, -7), (5, 5)];
        let [invoked, completed] = [0, 1].map(|row| history(1, 1).op(row).to_op());
        let pair = |(began_ns, ended_ns)| {
            [Op { time_ns: began_ns, ..invoked.clone() }, Op { time_ns: ended_ns, ..completed.clone() }]
        };
        let history: History = times.into_iter().flat_map(pair).collect();
        let faults = faults(&[("kill", 9_000_000_000, Some(-9_000_000_000))]);
        assert_eq!(plots(&history, &phases(-3), &faults).len(), 2);
    }

    #[test]
    fn hostile_names_are_text() {
        let op = |kind, time_ns| {
            let f = F::from_name("<script>&\"");
            let (value, extra) = (OpValue::None, Extra::default());
            Op { index: 0, time_ns, process: Process::Client(0), kind, f, value, extra }
        };
        let history: History = [op(Kind::Invoke, 0), op(Kind::Ok, S)].into_iter().collect();
        for plot in plots(&history, &[], &faults(&[("<script>", 0, None)])) {
            assert!(!plot.svg.contains("<script"), "{}", plot.svg);
        }
    }

    #[test]
    fn strikes_that_nearly_touch_are_one() {
        let check = |spans: &[(i32, i32)], expected: &[(i32, i32)]| {
            assert_eq!(merged(spans.iter().copied()), expected);
        };
        check(&[], &[]);
        check(&[(5, 5)], &[(5, 6)]);
        check(&[(20, 30), (0, 10)], &[(0, 10), (20, 30)]);
        check(&[(0, 10), (11, 12), (3, 4)], &[(0, 12)]);
    }
}
