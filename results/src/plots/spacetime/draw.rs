//! The drawing of what has its place.

use super::layout::{Entry, HEAD_PX, INDENT_PX, Label, Layout, ROW_PX, Row, TIME_PX};
use super::scene::{Arrow, Lane};
use super::svg::{Face, Svg, width_px, wrapped};
use crate::palette::{self, Ink};
use crate::plots::word_ink;
use riprap_core::op::Kind;
use riprap_core::story::About;

/// From one line of lanes' names to the next, at least.
const NAMES_EVERY_PX: i32 = 650;
/// How to read the labels.
const NOTATION: &str = "5=54: value 54 is sent to key 5  ·  54@1: value 54 at offset 1  ·  c10: the client of process 10  ·  \
                        n1: a node  ·  ISR 3 1: the replicas in sync with the leader";
const BAR_PX: i32 = 7;
const HATCHING: &str = "spacetime-down";

impl Layout<'_> {
    /// The SVG.
    pub(super) fn draw(&self) -> String {
        let story = self.story_lines();
        let story_px = if story.is_empty() { 0 } else { 34 + 17 * story.len() as i32 };
        let mut svg = Svg::new(self.width, self.bottom + 34 + story_px);
        svg.hatching(HATCHING, palette::AXIS);
        self.draw_legend(&mut svg);
        self.draw_strikes(&mut svg);
        self.draw_lanes(&mut svg);
        self.draw_proof(&mut svg);
        self.draw_breaks(&mut svg);
        self.draw_times(&mut svg);
        self.draw_arrows(&mut svg);
        self.draw_bars(&mut svg);
        for label in self.labels().iter().filter(|label| !label.text.is_empty()) {
            svg.text(label.class, &label.text, label.at, label.ink, label.face);
        }
        self.draw_names_again(&mut svg);
        self.draw_names(&mut svg, HEAD_PX);
        self.draw_names(&mut svg, self.bottom + 16);
        self.draw_story(&mut svg, &story);
        svg.finish()
    }

    fn draw_names(&self, svg: &mut Svg, y: i32) {
        let bold = Face { bold: true, ..Face::default() };
        for (lane, name) in self.scene.clients.iter().chain(&self.scene.nodes).enumerate() {
            let is_client = lane < self.scene.clients.len();
            let text = match (is_client, self.column) {
                (true, None) => format!("client {}", &name[1..]),
                (true, Some(_)) => name.clone(),
                (false, _) => format!("node {name}"),
            };
            svg.text("lane", &text, (self.xs[lane] - 6, y), palette::TEXT, bold);
        }
    }

    fn draw_lanes(&self, svg: &mut Svg) {
        for x in &self.xs {
            svg.line("lane", (*x, HEAD_PX + 10), (*x, self.bottom), palette::AXIS, 1.0, "");
        }
        for spell in &self.scene.leads {
            let x = self.xs[spell.lane];
            let (from, until) = (self.y_at(spell.from_ns).max(HEAD_PX + 10), self.y_at(spell.until_ns));
            svg.rect("leads", [x - 3, from, 6, (until - from).max(2)], palette::TEXT, 0.75);
        }
        for spell in &self.scene.outages {
            let x = self.xs[spell.lane];
            let (from, until) = (self.y_at(spell.from_ns).max(HEAD_PX + 10), self.y_at(spell.until_ns));
            let place = [x - 8, from, 16, (until - from).max(4)];
            svg.rect("down", place, palette::PAPER, 1.0);
            svg.hatched("down", place, HATCHING);
            svg.outline("down", place, palette::AXIS, false);
        }
    }

    fn draw_strikes(&self, svg: &mut Svg) {
        for strike in &self.scene.strikes {
            let (from, until) = (self.y_at(strike.from_ns) - 9, self.y_at(strike.until_ns));
            svg.group("fault", &strike.tooltip);
            for lane in &strike.lanes {
                let left = self.xs[*lane] - INDENT_PX + 2;
                let place = [left, from, self.lane_px(*lane) - 4, (until - from).max(ROW_PX)];
                svg.rect("fault-band", place, strike.ink, 0.13);
                svg.rect("fault-band", [left, from, 3, place[3]], strike.ink, 0.9);
            }
            svg.end_group();
        }
    }

    fn draw_proof(&self, svg: &mut Svg) {
        let labels: Vec<(Row, Label)> = self.rows.iter().map(|row| (*row, self.label(row))).collect();
        for (n, bar) in self.scene.bars.iter().enumerate().filter(|(_, bar)| bar.proof.is_some()) {
            let of_bar = labels
                .iter()
                .filter(|(row, _)| [Entry::Begin(n), Entry::End(n), Entry::Whole(n)].contains(&row.entry));
            let x = self.xs[bar.lane];
            let (from, until) = self.bar_span(n);
            let mut boxes = vec![[x - 8, from - 5, 16, until - from + 10]];
            for (row, label) in of_bar {
                let right = label.at.0 + width_px(&label.text) * 11 / 10 + 6;
                match self.column {
                    None => boxes[0][2] = boxes[0][2].max(right - boxes[0][0]),
                    Some(left) => boxes.push([left - 4, row.y - 9, right - left, 18]),
                }
            }
            for place in boxes {
                svg.rect("proof", place, palette::FAIL, 0.1);
                svg.outline("proof", place, palette::FAIL, false);
            }
        }
    }

    fn draw_breaks(&self, svg: &mut Svg) {
        for (y, gap_ns) in &self.breaks {
            svg.rect("break", [TIME_PX - 6, y - 4, self.width - TIME_PX, 8], palette::PAPER, 1.0);
            svg.wave(TIME_PX - 6, self.width - 6, y - 4, palette::AXIS);
            svg.wave(TIME_PX - 6, self.width - 6, y + 4, palette::AXIS);
            let face = Face { small: true, ends: true, ..Face::default() };
            svg.text("break", &short_time(*gap_ns), (TIME_PX - 10, *y), palette::MUTED, face);
        }
    }

    /// Says again now and then whose lane is which, where there is room: in breaks.
    fn draw_names_again(&self, svg: &mut Svg) {
        let mut named_at = HEAD_PX;
        for (y, _) in &self.breaks {
            if y - named_at < NAMES_EVERY_PX || self.bottom - y < NAMES_EVERY_PX / 2 {
                continue;
            }
            named_at = *y;
            for (lane, name) in self.scene.clients.iter().chain(&self.scene.nodes).enumerate() {
                let face = Face { bold: true, small: true, ..Face::default() };
                svg.text("lane", name, (self.xs[lane] - 6, *y), palette::MUTED, face);
            }
        }
    }

    fn draw_times(&self, svg: &mut Svg) {
        let mut before = String::new();
        for row in &self.rows {
            if matches!(row.entry, Entry::Mark(_)) {
                svg.line(
                    "mark",
                    (TIME_PX - 6, row.y - 9),
                    (self.width - 6, row.y - 9),
                    palette::AXIS,
                    1.0,
                    "",
                );
            }
            let text = format!("{:.4} s", row.time_ns as f64 / 1e9);
            if text != before {
                let face = Face { small: true, ends: true, ..Face::default() };
                svg.text("time", &text, (TIME_PX - 10, row.y), palette::MUTED, face);
                before = text;
            }
        }
    }

    fn draw_arrows(&self, svg: &mut Svg) {
        for (n, arrow) in self.scene.arrows.iter().enumerate() {
            let name =
                |lane: Lane| self.scene.clients.iter().chain(&self.scene.nodes).nth(lane).expect("a lane");
            let [from, to] = self.arrow_span(n);
            let (sent, ink) = (exact(arrow.sent_ns), about_ink(arrow));
            let ends = match arrow.arrived_ns {
                Some(arrived_ns) => {
                    format!("arrived {}, {} later", exact(arrived_ns), short_time(arrived_ns - arrow.sent_ns))
                }
                None => "never arrived".to_owned(),
            };
            let tooltip =
                format!("{} → {}: {}; sent {sent}, {ends}", name(arrow.from), name(arrow.to), arrow.what);
            svg.group("arrow", &tooltip);
            let dashes = match (arrow.arrived_ns, arrow.about) {
                (None, _) => "5 4",
                (_, About::Copy) => "2 3",
                _ => "",
            };
            svg.line("message", from, to, ink, 1.4, dashes);
            if arrow.arrived_ns.is_some() {
                svg.arrow_head(from, to, ink);
            } else {
                svg.cross(to, palette::FAIL);
            }
            svg.end_group();
        }
    }

    fn draw_bars(&self, svg: &mut Svg) {
        for (n, bar) in self.scene.bars.iter().enumerate() {
            let x = self.xs[bar.lane];
            let (from, until) = self.bar_span(n);
            let ends = match bar.until_ns {
                Some(until_ns) => format!("{} to {}", exact(bar.from_ns), exact(until_ns)),
                None => format!("{}, without an end", exact(bar.from_ns)),
            };
            svg.group("op", &format!("op {}: {} {}; {ends}", bar.index, bar.begun, bar.ended));
            let place = [x - BAR_PX / 2, from, BAR_PX, until - from];
            let ink = word_ink(bar.f.name());
            if bar.kind == Kind::Ok || bar.ended.is_empty() && bar.until_ns.is_some() {
                svg.rect("op-bar", place, ink, 1.0);
            } else {
                let ink = if bar.kind == Kind::Fail { palette::FAIL } else { palette::INFO };
                svg.rect("op-bar", place, palette::PAPER, 1.0);
                svg.outline("op-bar", place, ink, bar.kind == Kind::Info);
            }
            svg.end_group();
            if let Some(left) = self.column {
                for row in self
                    .rows
                    .iter()
                    .filter(|row| [Entry::Begin(n), Entry::End(n), Entry::Whole(n)].contains(&row.entry))
                {
                    let right = left + width_px(&self.label(row).text) * 11 / 10 + 6;
                    svg.line("leader", (right, row.y), (x - 6, row.y), palette::AXIS, 1.0, "1 3");
                }
            }
        }
    }

    fn draw_legend(&self, svg: &mut Svg) {
        let scene = self.scene;
        let mut x = TIME_PX + 4;
        let y = 18;
        let small = Face { small: true, ..Face::default() };
        let has = |about: fn(&Arrow) -> bool| scene.arrows.iter().any(about);
        let entries = [
            ("operation", true),
            ("message", has(|arrow| arrow.arrived_ns.is_some() && arrow.about != About::Copy)),
            ("copied from node to node", has(|arrow| arrow.about == About::Copy)),
            ("never arrived", has(|arrow| arrow.arrived_ns.is_none())),
            ("leads", !scene.leads.is_empty()),
            ("node is down or paused", !scene.outages.is_empty()),
            ("fault at work", !scene.strikes.is_empty()),
            ("proves the anomaly", scene.bars.iter().any(|bar| bar.proof.is_some())),
            ("nothing happens", !self.breaks.is_empty()),
        ];
        for (name, _) in entries.iter().filter(|(_, is_there)| *is_there) {
            let end = (x + 26, y);
            match *name {
                "operation" => svg.rect("key", [x + 10, y - 7, BAR_PX, 14], palette::SEND, 1.0),
                "message" => {
                    svg.line("key", (x, y), end, palette::SEND, 1.4, "");
                    svg.arrow_head((x, y), end, palette::SEND);
                }
                "copied from node to node" => {
                    svg.line("key", (x, y), end, palette::OTHER, 1.4, "2 3");
                    svg.arrow_head((x, y), end, palette::OTHER);
                }
                "never arrived" => {
                    svg.line("key", (x, y), (x + 20, y), palette::SEND, 1.4, "5 4");
                    svg.cross((x + 20, y), palette::FAIL);
                }
                "leads" => svg.rect("key", [x + 10, y - 8, 6, 16], palette::TEXT, 0.75),
                "node is down or paused" => {
                    svg.hatched("key", [x + 4, y - 7, 18, 14], HATCHING);
                    svg.outline("key", [x + 4, y - 7, 18, 14], palette::AXIS, false);
                }
                "fault at work" => {
                    let ink = scene.strikes[0].ink;
                    svg.rect("key", [x + 4, y - 7, 20, 14], ink, 0.13);
                    svg.rect("key", [x + 4, y - 7, 3, 14], ink, 0.9);
                }
                "proves the anomaly" => {
                    svg.rect("key", [x + 4, y - 7, 20, 14], palette::FAIL, 0.1);
                    svg.outline("key", [x + 4, y - 7, 20, 14], palette::FAIL, false);
                }
                _ => {
                    svg.wave(x, x + 26, y - 3, palette::AXIS);
                    svg.wave(x, x + 26, y + 3, palette::AXIS);
                }
            }
            svg.text("key", name, (x + 32, y), palette::MUTED, small);
            x += 32 + width_px(name) * 9 / 10 + 14;
        }
        svg.text("key", NOTATION, (TIME_PX + 4, y + 24), palette::MUTED, small);
    }

    fn story_lines(&self) -> Vec<String> {
        let Some((_, story)) = &self.scene.story else { return Vec::new() };
        wrapped(story, self.width - 2 * TIME_PX)
    }

    fn draw_story(&self, svg: &mut Svg, lines: &[String]) {
        let Some((name, _)) = &self.scene.story else { return };
        let mut y = self.bottom + 48;
        svg.text("anomaly", name, (TIME_PX, y), palette::FAIL, Face { bold: true, ..Face::default() });
        for line in lines {
            y += 17;
            svg.text("anomaly", line, (TIME_PX, y), palette::TEXT, Face::default());
        }
    }
}

/// A message has the colour of the ops that it is about.
pub(super) fn about_ink(arrow: &Arrow) -> Ink {
    match arrow.about {
        About::Send => palette::SEND,
        About::Poll => palette::POLL,
        About::Txn => palette::TXN,
        About::Group => palette::SUBSCRIBE,
        About::Copy => palette::OTHER,
    }
}

/// `1.429211 s`.
fn exact(time_ns: i64) -> String {
    format!("{:.6} s", time_ns as f64 / 1e9)
}

/// `0.24 ms`, `149 ms`, `2.1 s`.
fn short_time(time_ns: i64) -> String {
    match time_ns {
        ..10_000_000 => format!("{:.2} ms", time_ns as f64 / 1e6),
        10_000_000..1_000_000_000 => format!("{} ms", time_ns / 1_000_000),
        _ => format!("{:.1} s", time_ns as f64 / 1e9),
    }
}
