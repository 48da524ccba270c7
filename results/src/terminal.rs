//! What the terminal can do, and colours for one that can.

use std::io::IsTerminal;

/// Columns of a terminal that does not say how many it has.
const DEFAULT_WIDTH: usize = 80;

/// Where lines go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    /// Whether a line can be written over.
    pub(crate) redraws: bool,
    pub(crate) paint: Paint,
}

impl Terminal {
    pub(crate) fn stderr() -> Terminal {
        let is_terminal = std::io::stderr().is_terminal() && !is_dumb();
        Terminal { redraws: is_terminal, paint: Paint { colours: is_terminal && !no_color() } }
    }

    /// Columns that a line may have, asked anew each time: windows are resized. A line that stays may be of any length.
    pub(crate) fn width(&self) -> usize {
        if !self.redraws {
            return usize::MAX;
        }
        let width = terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| usize::from(width.0));
        // A line that fills the last column makes some terminals wrap.
        width.unwrap_or(DEFAULT_WIDTH).saturating_sub(1)
    }
}

/// Source: no-color.org: set and not empty, whatever the value.
fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Whether to use colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paint {
    colours: bool,
}

impl Paint {
    /// No colours.
    pub const PLAIN: Paint = Paint { colours: false };
    /// Colours.
    pub const COLOURS: Paint = Paint { colours: true };

    /// Colours if stdout is a terminal and nobody asked for none.
    pub fn stdout() -> Paint {
        Paint { colours: std::io::stdout().is_terminal() && !no_color() && !is_dumb() }
    }

    fn code(self, code: &'static str) -> Colour {
        Colour { code: if self.colours { code } else { "" } }
    }

    pub(crate) fn none(self) -> Colour {
        self.code("")
    }

    /// The colour, if so.
    pub(crate) fn some(self, so: bool, colour: Colour) -> Colour {
        if so { colour } else { self.none() }
    }

    pub(crate) fn bold(self) -> Colour {
        self.code("1")
    }

    pub(crate) fn dim(self) -> Colour {
        self.code("2")
    }

    pub(crate) fn red(self) -> Colour {
        self.code("31")
    }

    pub(crate) fn bold_red(self) -> Colour {
        self.code("1;31")
    }

    pub(crate) fn green(self) -> Colour {
        self.code("32")
    }

    pub(crate) fn bold_green(self) -> Colour {
        self.code("1;32")
    }

    pub(crate) fn yellow(self) -> Colour {
        self.code("33")
    }

    pub(crate) fn bold_yellow(self) -> Colour {
        self.code("1;33")
    }
}

/// A way to paint text: a terminal's code, empty for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Colour {
    code: &'static str,
}

impl Colour {
    pub(crate) fn paint(self, text: &str) -> String {
        if self.code.is_empty() { text.to_owned() } else { format!("\x1b[{}m{text}\x1b[0m", self.code) }
    }
}
