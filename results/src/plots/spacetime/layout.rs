//! Where everything goes on the page.

use super::draw::about_ink;
use super::scene::{Bar, Lane, Scene};
use super::svg::{Face, fitted};
use crate::palette::{self, Ink};
use crate::plots::word_ink;
use riprap_core::op::Kind;
use std::collections::BTreeSet;

/// What is there on a page.
const PAGE_PX: i32 = 1180;
/// What the last node says may reach beyond its lane.
const RIGHT_PX: i32 = 50;
/// The times, left of all lanes.
pub(super) const TIME_PX: i32 = 66;
const NODE_LANE_PX: std::ops::RangeInclusive<i32> = 120..=190;
/// With fewer pixels for each client, what ops are stands in a column of its own.
const LABELLED_LANE_PX: std::ops::RangeInclusive<i32> = 150..=260;
const MIN_CLIENT_LANE_PX: i32 = 22;
const COLUMN_PX: i32 = 230;
/// From a lane's left edge to its line.
pub(super) const INDENT_PX: i32 = 14;
/// A row is high enough for its label.
pub(super) const ROW_PX: i32 = 15;
/// Beside its bar, what an op is may reach into the next lanes.
const OP_LABEL_PX: i32 = 300;
/// However near its end is, an arrow has a label of so many pixels.
const MESSAGE_LABEL_PX: i32 = 210;
/// The label of a message stands above its row.
const MESSAGE_PX: i32 = 5;
/// What an even longer time between two rows adds.
const MAX_STRETCH_PX: i32 = 8;
/// Nothing for so long is a break: a hundred times as long as a message takes.
const BREAK_NS: i64 = 50_000_000;
const BREAK_PX: i32 = 32;
/// From a lane's line to its labels.
const GAP_PX: i32 = 10;
pub(super) const HEAD_PX: i32 = 82;
/// Between clients and nodes: room for the label of an arrow, where lanes are too narrow for one.
const GUTTER_PX: std::ops::RangeInclusive<i32> = 10..=80;
/// Where an arrow ends at the very moment of a row, it ends so much above it, and the row keeps away as far.
const ARRIVAL_PX: i32 = 9;

/// What has a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Entry {
    Mark(usize),
    Heal(usize),
    Strike(usize),
    Note(usize),
    End(usize),
    Begin(usize),
    /// An op during which nothing else happened.
    Whole(usize),
    Send(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) time_ns: i64,
    pub(super) entry: Entry,
    pub(super) y: i32,
}

/// A text and the room that it takes.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Label {
    pub(super) class: &'static str,
    pub(super) text: String,
    /// Where its line begins, or ends if its face says so.
    pub(super) at: (i32, i32),
    pub(super) ink: Ink,
    pub(super) face: Face,
}

/// See the module.
pub(super) struct Layout<'a> {
    pub(super) scene: &'a Scene,
    pub(super) rows: Vec<Row>,
    /// Where the lines of lanes are.
    pub(super) xs: Vec<i32>,
    /// Where the labels of ops begin, if not beside their bars.
    pub(super) column: Option<i32>,
    pub(super) client_px: i32,
    pub(super) node_px: i32,
    pub(super) width: i32,
    pub(super) bottom: i32,
    /// Breaks: the middle of each, and for how long.
    pub(super) breaks: Vec<(i32, i64)>,
}

impl<'a> Layout<'a> {
    pub(super) fn of(scene: &'a Scene) -> Layout<'a> {
        let (clients, nodes) = (scene.clients.len() as i32, scene.nodes.len() as i32);
        let room = PAGE_PX - TIME_PX - RIGHT_PX;
        let node_px = (room / 2 / nodes.max(1)).clamp(*NODE_LANE_PX.start(), *NODE_LANE_PX.end());
        let room = room - nodes * node_px;
        let each = room / clients.max(1);
        let column = (each < *LABELLED_LANE_PX.start()).then_some(TIME_PX + 4);
        let (lanes_from, client_px) = match column {
            None => (TIME_PX, each.min(*LABELLED_LANE_PX.end())),
            Some(_) => {
                let each = (room - COLUMN_PX - GUTTER_PX.end()) / clients.max(1);
                (TIME_PX + COLUMN_PX, each.clamp(MIN_CLIENT_LANE_PX, 80))
            }
        };
        let gutter = if column.is_some() { *GUTTER_PX.end() } else { *GUTTER_PX.start() };
        let nodes_from = lanes_from + clients * client_px + gutter;
        let xs = (0..clients).map(|n| lanes_from + n * client_px);
        let xs = xs.chain((0..nodes).map(|n| nodes_from + n * node_px)).map(|left| left + INDENT_PX);
        let mut layout = Layout {
            scene,
            rows: Vec::new(),
            xs: xs.collect(),
            column,
            client_px,
            node_px,
            width: (nodes_from + nodes * node_px + RIGHT_PX).max(640),
            bottom: 0,
            breaks: Vec::new(),
        };
        layout.place_rows();
        layout
    }

    fn place_rows(&mut self) {
        let arrivals: BTreeSet<i64> = self.scene.arrows.iter().filter_map(|arrow| arrow.arrived_ns).collect();
        let mut y = HEAD_PX + 24;
        let mut before_ns = None;
        for (time_ns, entry) in entries(self.scene) {
            if let Some(before_ns) = before_ns {
                let gap_ns = time_ns - before_ns;
                if gap_ns >= BREAK_NS {
                    y += BREAK_PX;
                    self.breaks.push((y - BREAK_PX / 2, gap_ns));
                } else {
                    // Each doubling beyond a tenth of a millisecond is a step more.
                    let doublings = (gap_ns / 100_000).max(1).ilog2();
                    y += ROW_PX + i32::try_from(doublings).expect("a few").min(MAX_STRETCH_PX);
                }
            }
            if before_ns != Some(time_ns) && arrivals.contains(&time_ns) {
                y += ARRIVAL_PX;
            }
            if matches!(entry, Entry::Send(_)) {
                y += MESSAGE_PX;
            }
            before_ns = Some(time_ns);
            self.rows.push(Row { time_ns, entry, y });
        }
        self.bottom = y + ROW_PX;
    }

    /// The height of a moment: that of the first row of it, or between the rows before and after.
    pub(super) fn y_at(&self, time_ns: i64) -> i32 {
        let after = self.rows.partition_point(|row| row.time_ns < time_ns);
        match (after.checked_sub(1).map(|n| self.rows[n]), self.rows.get(after)) {
            (_, Some(row)) if row.time_ns == time_ns => row.y,
            (Some(before), Some(after)) => {
                let share = (time_ns - before.time_ns) as f64 / (after.time_ns - before.time_ns) as f64;
                before.y + (share * f64::from(after.y - before.y)).round() as i32
            }
            (Some(before), None) => before.y + ROW_PX / 2,
            (None, Some(after)) => after.y - ROW_PX / 2,
            (None, None) => HEAD_PX,
        }
    }

    pub(super) fn y_of(&self, wanted: impl Fn(Entry) -> bool) -> Option<i32> {
        self.rows.iter().find(|row| wanted(row.entry)).map(|row| row.y)
    }

    /// Where a bar begins and ends.
    pub(super) fn bar_span(&self, n: usize) -> (i32, i32) {
        if let Some(y) = self.y_of(|entry| entry == Entry::Whole(n)) {
            return (y - 6, y + 6);
        }
        let from = self.y_of(|entry| entry == Entry::Begin(n)).expect("each op has a row");
        (from - 4, self.y_of(|entry| entry == Entry::End(n)).map_or(self.bottom, |y| y + 4))
    }

    /// Where an arrow begins and ends. One that never arrives ends on its way.
    pub(super) fn arrow_span(&self, n: usize) -> [(i32, i32); 2] {
        let arrow = &self.scene.arrows[n];
        let row = Entry::Send(arrow.said_by.unwrap_or(n));
        let y = self.y_of(|entry| entry == row).expect("each message has a row, or is said by one that has");
        let (from, to) = (self.xs[arrow.from], self.xs[arrow.to]);
        match arrow.arrived_ns {
            Some(arrived_ns) => {
                let is_row = self.rows.iter().any(|row| row.time_ns == arrived_ns);
                let arrives = self.y_at(arrived_ns) - if is_row { ARRIVAL_PX } else { 0 };
                [(from, y), (to, arrives.max(y + 4))]
            }
            None => [(from, y), (from + (to - from) * 3 / 5, y + 8)],
        }
    }

    pub(super) fn lane_px(&self, lane: Lane) -> i32 {
        if lane < self.scene.clients.len() { self.client_px } else { self.node_px }
    }

    /// All labels of rows.
    pub(super) fn labels(&self) -> Vec<Label> {
        self.rows.iter().map(|row| self.label(row)).collect()
    }

    /// A label beside a lane. Nothing else has its row: it may be as long as the page is wide.
    fn beside(&self, lane: Lane, y: i32, text: &str, ink: Ink, bold: bool, class: &'static str) -> Label {
        let x = self.xs[lane] + GAP_PX;
        let room = self.width - x - GAP_PX;
        // Bold letters are wider by a tenth.
        let text = fitted(text, if bold { room * 9 / 10 } else { room });
        let face = Face { bold, ..Face::default() };
        Label { class, text, at: (x, y), ink, face }
    }

    pub(super) fn label(&self, row: &Row) -> Label {
        let scene = self.scene;
        let y = row.y;
        match row.entry {
            Entry::Mark(n) => {
                let text = scene.marks[n].1.clone();
                let face = Face { small: true, ..Face::default() };
                Label { class: "mark", text, at: (TIME_PX + 4, y), ink: palette::MUTED, face }
            }
            Entry::Strike(n) => {
                let strike = &scene.strikes[n];
                self.beside(strike.lanes[0], y, &strike.label, strike.ink, true, "fault-label")
            }
            Entry::Heal(n) => {
                let strike = &scene.strikes[n];
                let name = strike.label.split(' ').next().unwrap_or_default();
                self.beside(strike.lanes[0], y, &format!("{name} ends"), strike.ink, false, "fault-label")
            }
            Entry::Note(n) => {
                let note = &scene.notes[n];
                let ink = if note.is_bad { palette::FAIL } else { palette::MUTED };
                self.beside(note.lane, y, &note.text, ink, note.is_bad, "node-says")
            }
            Entry::Begin(n) | Entry::End(n) | Entry::Whole(n) => self.op_label(row.entry, &scene.bars[n], y),
            Entry::Send(n) => {
                let [from, _] = self.arrow_span(n);
                let arrow = &scene.arrows[n];
                let ends = self.xs[arrow.to] < from.0;
                let room = ((self.xs[arrow.to] - from.0).abs() - 2 * GAP_PX).max(MESSAGE_LABEL_PX);
                let x = if ends { from.0 - GAP_PX } else { from.0 + GAP_PX };
                let (text, ink) = (fitted(&arrow.what, room), about_ink(arrow));
                let face = Face { small: true, ends, ..Face::default() };
                Label { class: "message", text, at: (x, y - MESSAGE_PX - 1), ink, face }
            }
        }
    }

    fn op_label(&self, entry: Entry, bar: &Bar, y: i32) -> Label {
        let text = match entry {
            Entry::Begin(_) => bar.begun.clone(),
            Entry::End(_) => bar.ended.clone(),
            _ => format!("{} {}", bar.begun, bar.ended).trim_end().to_owned(),
        };
        // The story speaks of ops by their numbers.
        let text = match (bar.proof, entry) {
            (Some(number), Entry::End(_) | Entry::Whole(_)) => {
                format!("op {number} {text}").trim_end().to_owned()
            }
            _ => text,
        };
        let ink = match (entry, bar.kind) {
            (Entry::Begin(_), _) | (_, Kind::Ok) => word_ink(bar.f.name()),
            (_, Kind::Fail) => palette::FAIL,
            _ if bar.ended.is_empty() => word_ink(bar.f.name()),
            _ => palette::INFO,
        };
        let (x, room, text) = match self.column {
            None => (self.xs[bar.lane] + GAP_PX, OP_LABEL_PX, text),
            Some(x) => (x, COLUMN_PX - GAP_PX, format!("{} {text}", self.scene.clients[bar.lane])),
        };
        let face = Face { bold: bar.proof.is_some(), ..Face::default() };
        // Bold letters are wider by a tenth.
        let room = if bar.proof.is_some() { room * 9 / 10 } else { room };
        Label { class: "op-label", text: fitted(&text, room), at: (x, y), ink, face }
    }
}

/// Everything that has a row, in the order of time. At one moment ops come in the order of the history, and messages last:
/// they are what ops cause.
fn entries(scene: &Scene) -> Vec<(i64, Entry)> {
    let mut entries: Vec<(i64, (u64, Entry))> = Vec::new();
    let mut add = |at_ns: i64, entry: Entry| {
        let place = match entry {
            Entry::Mark(_) | Entry::Heal(_) | Entry::Strike(_) | Entry::Note(_) => 0,
            Entry::Begin(n) | Entry::Whole(n) => 1 + scene.bars[n].index,
            Entry::End(n) => 1 + scene.bars[n].ends_index.unwrap_or(u64::MAX - 2),
            Entry::Send(_) => u64::MAX,
        };
        entries.push((at_ns, (place, entry)));
    };
    scene.marks.iter().enumerate().for_each(|(n, (at_ns, _))| add(*at_ns, Entry::Mark(n)));
    scene.notes.iter().enumerate().for_each(|(n, note)| add(note.time_ns, Entry::Note(n)));
    for (n, arrow) in scene.arrows.iter().enumerate().filter(|(_, arrow)| arrow.said_by.is_none()) {
        add(arrow.sent_ns, Entry::Send(n));
    }
    for (n, strike) in scene.strikes.iter().enumerate() {
        add(strike.from_ns, Entry::Strike(n));
        if strike.heals {
            add(strike.until_ns, Entry::Heal(n));
        }
    }
    for (n, bar) in scene.bars.iter().enumerate() {
        match bar.until_ns {
            Some(until_ns) if until_ns == bar.from_ns => add(bar.from_ns, Entry::Whole(n)),
            Some(until_ns) => {
                add(bar.from_ns, Entry::Begin(n));
                add(until_ns, Entry::End(n));
            }
            None => add(bar.from_ns, Entry::Begin(n)),
        }
    }
    entries.sort_unstable();
    let mut joined: Vec<(i64, Entry)> = Vec::new();
    for (at_ns, (_, entry)) in entries {
        match (joined.last_mut(), entry) {
            (Some((from_ns, last @ Entry::Begin(_))), Entry::End(n))
                if *last == Entry::Begin(n) && at_ns - *from_ns < BREAK_NS =>
            {
                *last = Entry::Whole(n);
            }
            _ => joined.push((at_ns, entry)),
        }
    }
    joined
}

#[cfg(test)]
impl Label {
    /// The room that it takes: left, top, right, bottom.
    pub(super) fn room(&self) -> [i32; 4] {
        let (x, y) = self.at;
        let width = super::svg::width_px(&self.text);
        let (left, right) = if self.face.ends { (x - width, x) } else { (x, x + width) };
        [left, y - 6, right, y + 6]
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
impl Layout<'_> {
    /// Where arrows begin and end.
    pub(super) fn arrows(&self) -> Vec<[(i32, i32); 2]> {
        (0..self.scene.arrows.len()).map(|n| self.arrow_span(n)).collect()
    }

    /// Where bars begin and end.
    pub(super) fn bars(&self) -> Vec<(i32, i32)> {
        (0..self.scene.bars.len()).map(|n| self.bar_span(n)).collect()
    }

    /// Width and height.
    pub(super) fn size(&self) -> (i32, i32) {
        (self.width, self.bottom)
    }
}
