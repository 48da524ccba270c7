//! The colours of plots and report, for light paper and for dark.
//!
//! Plots are drawn in the light colours, so that their files look right anywhere; the report replaces each by its dark
//! twin, by a rule of style for each colour, where the reader asked for dark. So no two may be equal in the light.
//! Contrast of text is at least 4.5 to 1 on its paper (WCAG 2.1, 1.4.3), of lines and bars 3 to 1 (1.4.11).

/// One colour, `0xRRGGBB`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ink {
    pub(crate) light: u32,
    pub(crate) dark: u32,
}

const fn ink(light: u32, dark: u32) -> Ink {
    Ink { light, dark }
}

pub(crate) const PAPER: Ink = ink(0xFFFFFF, 0x15181C);
pub(crate) const TEXT: Ink = ink(0x1B1F24, 0xE6E8EB);
pub(crate) const MUTED: Ink = ink(0x5A626B, 0x9AA3AD);
pub(crate) const GRID: Ink = ink(0xE4E7EA, 0x2B3036);
pub(crate) const AXIS: Ink = ink(0xB4BAC1, 0x4A515A);

/// Of an outcome that is not ok.
pub(crate) const FAIL: Ink = ink(0xC62F2F, 0xF2766F);
pub(crate) const INFO: Ink = ink(0xB26200, 0xE5A445);

/// Of the phases of a run, which follow each other: two, in turn.
pub(crate) const PHASES: [Ink; 2] = [ink(0x87909A, 0x69727C), ink(0xC3C9CF, 0x3C434B)];

/// Of the words of ops.
pub(crate) const SEND: Ink = ink(0x1666C5, 0x6CB0FA);
pub(crate) const POLL: Ink = ink(0x0B7F5C, 0x4CC79C);
pub(crate) const TXN: Ink = ink(0x7648BD, 0xBB98F5);
pub(crate) const ASSIGN: Ink = ink(0x8F6400, 0xD3AE50);
pub(crate) const SUBSCRIBE: Ink = ink(0xB5317F, 0xF08AC4);
pub(crate) const OTHER: Ink = ink(0x6A737D, 0xA6AFB9);

/// Of faults, by their place in the alphabet; the seventh begins again.
pub(crate) const FAULTS: [Ink; 6] = [
    ink(0xC4453D, 0xE5766D),
    ink(0xC98300, 0xD9A441),
    ink(0x3F6FA8, 0x79A5DA),
    ink(0x8B4B9E, 0xC08BD1),
    ink(0x6B7F1E, 0xA9BC5C),
    ink(0x2A8387, 0x62BEC1),
];

pub(crate) const ALL: &[Ink] = &[
    PAPER, TEXT, MUTED, GRID, AXIS, FAIL, INFO, PHASES[0], PHASES[1], SEND, POLL, TXN, ASSIGN, SUBSCRIBE,
    OTHER, FAULTS[0], FAULTS[1], FAULTS[2], FAULTS[3], FAULTS[4], FAULTS[5],
];

impl Ink {
    pub(crate) fn light_hex(self) -> String {
        format!("#{:06X}", self.light)
    }

    pub(crate) fn dark_hex(self) -> String {
        format!("#{:06X}", self.dark)
    }
}

/// Rules of style that turn a drawing inside `scope` dark.
pub(crate) fn dark_rules(scope: &str) -> String {
    let rule = |ink: &Ink| {
        let (light, dark) = (ink.light_hex(), ink.dark_hex());
        format!("{scope} [fill=\"{light}\"]{{fill:{dark}}}{scope} [stroke=\"{light}\"]{{stroke:{dark}}}\n")
    };
    ALL.iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source: WCAG 2.1, "relative luminance" and "contrast ratio".
    fn contrast(a: u32, b: u32) -> f64 {
        let luminance = |colour: u32| {
            let channel = |shift: u32| {
                let c = f64::from(colour >> shift & 0xFF) / 255.0;
                if c <= 0.03928 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(16) + 0.7152 * channel(8) + 0.0722 * channel(0)
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_and_lines_stand_out_from_their_paper() {
        let lines = [FAIL, INFO, SEND, POLL, TXN, ASSIGN, SUBSCRIBE, OTHER].into_iter().chain(FAULTS);
        for (ink, least) in
            lines.map(|ink| (ink, 3.0)).chain([(TEXT, 4.5), (MUTED, 4.5), (FAIL, 4.5), (INFO, 4.5)])
        {
            assert!(
                contrast(ink.light, PAPER.light) >= least,
                "{ink:X?} on light: {}",
                contrast(ink.light, PAPER.light)
            );
            assert!(
                contrast(ink.dark, PAPER.dark) >= least,
                "{ink:X?} on dark: {}",
                contrast(ink.dark, PAPER.dark)
            );
        }
    }

    #[test]
    fn each_light_colour_has_one_dark_twin() {
        for (n, ink) in ALL.iter().enumerate() {
            assert!(ALL[..n].iter().all(|other| other.light != ink.light), "{ink:X?} stands twice");
        }
    }
}
