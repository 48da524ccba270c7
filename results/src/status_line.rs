//! One line on stderr that says how far something is: redrawn on a terminal, elsewhere plain lines, further apart.

use crate::terminal::{Paint, Terminal};
use std::io::Write as _;
use std::time::{Duration, Instant};

/// How often the line is redrawn at most: faster is flicker, and work that the clients' threads pay for.
pub const REDRAW_INTERVAL: Duration = Duration::from_millis(200);
/// How often a plain line is written: a CI log of a run of minutes stays readable.
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

/// See the module.
pub struct StatusLine {
    /// `None`: nobody is to see it.
    terminal: Option<Terminal>,
    /// When it was last written; `None`: write it at the next occasion.
    shown: Option<Instant>,
    /// Whether a line that is redrawn stands on the terminal now.
    standing: bool,
}

impl StatusLine {
    /// On stderr.
    pub fn stderr() -> StatusLine {
        StatusLine { terminal: Some(Terminal::stderr()), shown: None, standing: false }
    }

    /// Nowhere.
    pub fn silent() -> StatusLine {
        StatusLine { terminal: None, shown: None, standing: false }
    }

    /// What it says is to be shown at once.
    pub fn renew(&mut self) {
        self.shown = None;
    }

    /// Shows the line, if what stands there is old. `line` gives it for so many columns.
    pub fn show(&mut self, line: impl FnOnce(usize, Paint) -> String) {
        let Some(terminal) = self.terminal else { return };
        let interval = if terminal.redraws { REDRAW_INTERVAL } else { PLAIN_INTERVAL };
        if self.shown.is_some_and(|shown| shown.elapsed() < interval) {
            return;
        }
        self.shown = Some(Instant::now());
        let line = line(terminal.width(), terminal.paint);
        if terminal.redraws {
            self.standing = true;
            write(&format!("\r{line}\x1b[K"));
        } else {
            write(&format!("{line}\n"));
        }
    }

    /// A line that stays, above the one that is redrawn.
    pub fn note(&mut self, line: &str) {
        let Some(terminal) = self.terminal else { return };
        self.wipe();
        write(&format!("{line}\n"));
        if terminal.redraws {
            self.renew();
        }
    }

    /// The line goes away.
    pub fn wipe(&mut self) {
        if std::mem::take(&mut self.standing) {
            write("\r\x1b[K");
        }
    }
}

/// The line must not stand on the terminal in front of a panic's or an error's message.
impl Drop for StatusLine {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// In one piece, so that lines of others do not get into it. A stderr that is gone is no reason to end a run.
fn write(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
