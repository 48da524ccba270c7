//! A drawing surface: SVG by plotters, with the bundled font for measures.
//!
//! The letters themselves are drawn by whoever shows the file, in the font of its list that it has; all of them but the
//! last have the metrics of the bundled one.

use crate::palette::{Ink, PAPER};
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{DrawingArea, IntoDrawingArea, IntoFont};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontFamily, FontStyle, RGBAColor, RGBColor, ShapeStyle, TextStyle, register_font,
};
use std::sync::Once;

/// The bundled font, under the SIL Open Font License: fonts/LICENSE.
static FONT: &[u8] = include_bytes!("../../fonts/LiberationSans-Regular.ttf");
const FONT_FAMILY: &str = "Liberation Sans, Arial, Helvetica, sans-serif";
/// plotters' measure of a font is its line's height, SVG's its em. Source: plotters-svg, `draw_text`.
const LINE_PER_EM: f64 = 1.24;

pub(super) const TEXT_PX: u32 = 12;

/// A place: pixels from the left, from the top.
pub(super) type Point = (i32, i32);

/// Which side of a text its place is.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Left,
    Middle,
    Right,
}

pub(super) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

/// Why drawing cannot fail: it is into memory, in a font that was registered.
const INTO_MEMORY: &str = "drawing into memory does not fail";

/// Draws on a sheet of paper. Returns the SVG.
pub(super) fn draw(width_px: u32, height_px: u32, on: impl FnOnce(&Canvas<'_>)) -> String {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        let registered = register_font(FONT_FAMILY, FontStyle::Normal, FONT);
        assert!(registered.is_ok(), "the bundled font is a font");
    });
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (width_px, height_px)).into_drawing_area();
        area.fill(&colour(PAPER)).expect(INTO_MEMORY);
        let canvas = Canvas { area };
        on(&canvas);
        canvas.area.present().expect(INTO_MEMORY);
    }
    svg
}

fn colour(ink: Ink) -> RGBColor {
    let [_, red, green, blue] = ink.light.to_be_bytes();
    RGBColor(red, green, blue)
}

fn filled(ink: Ink, opacity: f64) -> ShapeStyle {
    RGBAColor::from(colour(ink)).mix(opacity).filled()
}

impl Canvas<'_> {
    /// A line through these points; nothing for fewer than two.
    pub(super) fn line(&self, points: Vec<Point>, ink: Ink, width_px: u32) {
        if points.len() > 1 {
            let style = colour(ink).stroke_width(width_px);
            self.area.draw(&PathElement::new(points, style)).expect(INTO_MEMORY);
        }
    }

    pub(super) fn bar(&self, from: Point, to: Point, ink: Ink, opacity: f64) {
        self.area.draw(&Rectangle::new([from, to], filled(ink, opacity))).expect(INTO_MEMORY);
    }

    pub(super) fn polygon(&self, corners: Vec<Point>, ink: Ink, opacity: f64) {
        self.area.draw(&Polygon::new(corners, filled(ink, opacity))).expect(INTO_MEMORY);
    }

    pub(super) fn dot(&self, at: Point, radius_px: i32, ink: Ink) {
        self.area.draw(&Circle::new(at, radius_px, filled(ink, 1.0))).expect(INTO_MEMORY);
    }

    /// Text, its middle at the height of `at`.
    pub(super) fn text(&self, text: &str, at: Point, anchor: Anchor, ink: Ink) {
        let side = match anchor {
            Anchor::Left => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::Right => HPos::Right,
        };
        let ink = colour(ink);
        let style = style().color(&ink).pos(Pos::new(side, VPos::Center));
        self.area.draw(&Text::new(text.to_owned(), at, style)).expect(INTO_MEMORY);
    }

    /// How wide a text is.
    pub(super) fn text_width_px(&self, text: &str) -> i32 {
        let (width_px, _) = self.area.estimate_text_size(text, &style()).expect(INTO_MEMORY);
        i32::try_from(width_px).expect("a label is shorter than 2^31 pixels")
    }
}

fn style() -> TextStyle<'static> {
    (FontFamily::from(FONT_FAMILY), f64::from(TEXT_PX) * LINE_PER_EM).into_font().into()
}
