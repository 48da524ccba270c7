//! SVG written by hand: patterns, dashes and tooltips are beyond what the plots' canvas draws.

use crate::palette::{Ink, PAPER};
use std::fmt::{Display, Write};

/// The letters; the report's figures have the same.
const FONT: &str = "Liberation Sans, Arial, Helvetica, sans-serif";
pub(super) const FONT_PX: i32 = 12;
/// How wide a letter is, at most on the average of what is written here: capitals and digits among small letters.
/// Measured: 6.1 px for `NOT_LEADER_OR_FOLLOWER` less its capitals' excess, 5.6 px for `records 5: 49@0 54@1`.
const LETTER_PX: f64 = 6.2;
const CAPITAL_PX: f64 = 8.2;

/// How wide a text is, or a little less.
pub(super) fn width_px(text: &str) -> i32 {
    let width =
        |c: char| if c.is_ascii_uppercase() || c == '@' || c == '→' { CAPITAL_PX } else { LETTER_PX };
    text.chars().map(width).sum::<f64>().ceil() as i32
}

/// As much of a text as has room, with a sign that there is more.
pub(super) fn fitted(text: &str, room_px: i32) -> String {
    if width_px(text) <= room_px {
        return text.to_owned();
    }
    let mut short = text.to_owned();
    while short.pop().is_some() && width_px(&short) + width_px("…") > room_px {}
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// A text in lines, broken between words.
pub(super) fn wrapped(text: &str, room_px: i32) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("begun with one");
        if !line.is_empty() && width_px(line) + width_px(" ") + width_px(word) > room_px {
            lines.push(word.to_owned());
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines
}

/// Text as it may stand between tags and in attributes.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control()
                || ('\u{202A}'..='\u{202E}').contains(&c)
                || ('\u{2066}'..='\u{2069}').contains(&c) =>
            {
                safe.push('\u{FFFD}');
            }
            c => safe.push(c),
        }
    }
    safe
}

/// A drawing that grows.
pub(super) struct Svg {
    text: String,
}

/// How a text looks beside its ink.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Face {
    pub(super) bold: bool,
    pub(super) small: bool,
    /// It ends at its place, rather than begins.
    pub(super) ends: bool,
}

impl Svg {
    pub(super) fn new(width_px: i32, height_px: i32) -> Svg {
        let mut svg = Svg { text: String::new() };
        svg.put(format_args!(
            "<svg width=\"{width_px}\" height=\"{height_px}\" viewBox=\"0 0 {width_px} {height_px}\" \
             xmlns=\"http://www.w3.org/2000/svg\" font-family=\"{FONT}\" font-size=\"{FONT_PX}\">\n"
        ));
        svg.rect("paper", [0, 0, width_px, height_px], PAPER, 1.0);
        svg
    }

    fn put(&mut self, text: impl Display) {
        write!(self.text, "{text}").expect("memory takes it");
    }

    pub(super) fn finish(mut self) -> String {
        self.put("</svg>\n");
        self.text
    }

    /// A pattern of slanted lines, to fill with as `url(#name)`.
    pub(super) fn hatching(&mut self, name: &'static str, ink: Ink) {
        self.put(format_args!(
            "<defs><pattern id=\"{name}\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"7\" stroke=\"{}\" stroke-width=\"2\"/>\
             </pattern></defs>\n",
            ink.light_hex()
        ));
    }

    /// Begins what belongs together, with what the pointer tells of it.
    pub(super) fn group(&mut self, class: &'static str, tooltip: &str) {
        self.put(format_args!("<g class=\"{class}\">"));
        if !tooltip.is_empty() {
            self.put(format_args!("<title>{}</title>", escaped(tooltip)));
        }
    }

    pub(super) fn end_group(&mut self) {
        self.put("</g>\n");
    }

    /// `place` is left, top, width, height.
    pub(super) fn rect(&mut self, class: &'static str, place: [i32; 4], ink: Ink, opacity: f64) {
        let [x, y, width, height] = place;
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{}\" \
             fill-opacity=\"{opacity}\"/>\n",
            ink.light_hex()
        ));
    }

    pub(super) fn hatched(&mut self, class: &'static str, place: [i32; 4], pattern: &'static str) {
        let [x, y, width, height] = place;
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"url(#{pattern})\"/>\n"
        ));
    }

    pub(super) fn outline(&mut self, class: &'static str, place: [i32; 4], ink: Ink, dashed: bool) {
        let [x, y, width, height] = place;
        let dashes = if dashed { " stroke-dasharray=\"3 2\"" } else { "" };
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"2\" fill=\"none\" \
             stroke=\"{}\" stroke-width=\"1.5\"{dashes}/>\n",
            ink.light_hex()
        ));
    }

    pub(super) fn line(
        &mut self,
        class: &'static str,
        from: (i32, i32),
        to: (i32, i32),
        ink: Ink,
        width: f64,
        dashes: &str,
    ) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let dashes =
            if dashes.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dashes}\"") };
        self.put(format_args!(
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"{}\" \
             stroke-width=\"{width}\"{dashes}/>\n",
            ink.light_hex()
        ));
    }

    /// The point of an arrow that comes from there.
    pub(super) fn arrow_head(&mut self, from: (i32, i32), tip: (i32, i32), ink: Ink) {
        let (dx, dy) = (f64::from(tip.0 - from.0), f64::from(tip.1 - from.1));
        let length = dx.hypot(dy).max(1.0);
        let (ux, uy) = (dx / length, dy / length);
        let (back_x, back_y) = (f64::from(tip.0) - 8.0 * ux, f64::from(tip.1) - 8.0 * uy);
        self.put(format_args!(
            "<path d=\"M{},{} L{:.1},{:.1} L{:.1},{:.1} Z\" fill=\"{}\"/>\n",
            tip.0,
            tip.1,
            back_x - 3.5 * uy,
            back_y + 3.5 * ux,
            back_x + 3.5 * uy,
            back_y - 3.5 * ux,
            ink.light_hex()
        ));
    }

    pub(super) fn cross(&mut self, at: (i32, i32), ink: Ink) {
        let (x, y) = at;
        self.put(format_args!(
            "<path class=\"cross\" d=\"M{},{} L{},{} M{},{} L{},{}\" stroke=\"{}\" stroke-width=\"2.5\" fill=\"none\"/>\n",
            x - 5,
            y - 5,
            x + 5,
            y + 5,
            x - 5,
            y + 5,
            x + 5,
            y - 5,
            ink.light_hex()
        ));
    }

    /// A piece of a wavy line, the mark of a break.
    pub(super) fn wave(&mut self, from_x: i32, to_x: i32, y: i32, ink: Ink) {
        let mut path = format!("M{from_x},{y}");
        let mut x = from_x;
        let mut up = true;
        while x + 12 <= to_x {
            let bend = if up { -3 } else { 3 };
            path.push_str(&format!(" q6,{bend} 12,0"));
            (x, up) = (x + 12, !up);
        }
        self.put(format_args!("<path d=\"{path}\" stroke=\"{}\" fill=\"none\"/>\n", ink.light_hex()));
    }

    /// Text, its middle about at the height of `at`, with a rim of paper so that lines behind it do not cut it.
    pub(super) fn text(&mut self, class: &'static str, text: &str, at: (i32, i32), ink: Ink, face: Face) {
        let (x, y) = (at.0, at.1 + 4);
        let weight = if face.bold { " font-weight=\"700\"" } else { "" };
        let size = if face.small { " font-size=\"10.5\"" } else { "" };
        let anchor = if face.ends { " text-anchor=\"end\"" } else { "" };
        self.put(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" fill=\"{}\"{weight}{size}{anchor} paint-order=\"stroke\" stroke=\"{}\" \
             stroke-width=\"3\" stroke-linejoin=\"round\">{}</text>\n",
            ink.light_hex(),
            PAPER.light_hex(),
            escaped(text)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_their_room() {
        assert_eq!(fitted("send 5=54", 200), "send 5=54");
        for room_px in 20..100 {
            let short = fitted("records 5: 49@0 54@1 55@2", room_px);
            assert!(width_px(&short) <= room_px && short.ends_with('…'), "{room_px}: {short}");
        }
        let lines = wrapped("key 5 value 17 was acknowledged and read by nobody", 120);
        assert!(lines.len() > 2 && lines.iter().all(|line| width_px(line) <= 120), "{lines:?}");
        assert_eq!(lines.join(" "), "key 5 value 17 was acknowledged and read by nobody");
    }

    #[test]
    fn text_never_becomes_markup() {
        let mut svg = Svg::new(10, 10);
        svg.group("op", "<script>\"\u{202E}");
        svg.text("label", "a < b & \u{1b}c", (0, 0), PAPER, Face::default());
        svg.end_group();
        let svg = svg.finish();
        assert!(
            svg.contains("&lt;script&gt;&quot;\u{FFFD}") && svg.contains("a &lt; b &amp; \u{FFFD}c"),
            "{svg}"
        );
    }
}
