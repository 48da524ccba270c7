//! Where a run stands, on stderr while it runs: one line that is redrawn on a terminal, plain lines otherwise.
//!
//! ```text
//! main  12.3/30.0 s    412 ops/s   ok 5012   fail 3   info 14   kill n2, partition n1 | n2, n3
//! ```
//!
//! [`State`] turns what happened into a line and knows neither clock nor terminal; [`Progress`] is the thin edge. Who
//! feeds it calls [`Progress::tick`] now and then while nothing happens, or the line stands still.

use crate::status_line::StatusLine;
use crate::terminal::Paint;
use riprap_core::Op;
use riprap_core::op::{Kind, Process};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Ops per second are counted over this time: long enough to be steady, short enough to show a stall.
const RATE_WINDOW_NS: u64 = 2_000_000_000;
/// The window moves in steps of this.
const RATE_STEP_NS: u64 = 100_000_000;

/// What the line shows.
#[derive(Debug, Default)]
pub struct State {
    phase: String,
    phase_began_ns: u64,
    phase_limit_ns: Option<u64>,
    ok: u64,
    fail: u64,
    info: u64,
    faults: Vec<String>,
    /// Completions in each step of the window: step number, count.
    recent: VecDeque<(u64, u64)>,
}

impl State {
    /// Another phase begins, which lasts no longer than `limit`, if there is a limit.
    pub fn phase(&mut self, now_ns: u64, name: &str, limit: Option<Duration>) {
        self.phase = name.to_owned();
        self.phase_began_ns = now_ns;
        self.phase_limit_ns = limit.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    }

    /// An op began or ended. Only completions of clients count.
    pub fn op(&mut self, now_ns: u64, op: &Op) {
        if op.process == Process::Nemesis {
            return;
        }
        match op.kind {
            Kind::Invoke => return,
            Kind::Ok => self.ok += 1,
            Kind::Fail => self.fail += 1,
            Kind::Info => self.info += 1,
        }
        let step = now_ns / RATE_STEP_NS;
        match self.recent.back_mut() {
            Some((last, count)) if *last == step => *count += 1,
            _ => self.recent.push_back((step, 1)),
        }
        while self.recent.front().is_some_and(|(first, _)| step - first > RATE_WINDOW_NS / RATE_STEP_NS) {
            self.recent.pop_front();
        }
    }

    /// The faults at work from now on, each as it should be shown.
    pub fn faults(&mut self, active: &[String]) {
        self.faults = active.to_vec();
    }

    /// Completions a second, of late. Units: Hz.
    fn rate_hz(&self, now_ns: u64) -> u64 {
        let begin = (now_ns / RATE_STEP_NS).saturating_sub(RATE_WINDOW_NS / RATE_STEP_NS);
        let recent = self.recent.iter().filter(|(step, _)| *step >= begin);
        let count: u64 = recent.map(|(_, count)| count).sum();
        let window_ns = RATE_WINDOW_NS.min(now_ns).max(RATE_STEP_NS);
        count * 1_000_000_000 / window_ns
    }

    /// The line, no wider than `width` columns.
    pub fn line(&self, now_ns: u64, width: usize, paint: Paint) -> String {
        let elapsed_s = now_ns.saturating_sub(self.phase_began_ns) as f64 / 1e9;
        let time = match self.phase_limit_ns {
            Some(limit_ns) => format!("{elapsed_s:.1}/{:.1} s", limit_ns as f64 / 1e9),
            None => format!("{elapsed_s:.1} s"),
        };
        let faults = if self.faults.is_empty() { "no faults".to_owned() } else { self.faults.join(", ") };
        let parts = [
            (paint.bold(), format!("{:<6}", self.phase)),
            (paint.none(), format!(" {time:<12}")),
            (paint.none(), format!(" {:>6} ops/s", self.rate_hz(now_ns))),
            (paint.green(), format!("   ok {}", self.ok)),
            (paint.some(self.fail > 0, paint.yellow()), format!("   fail {}", self.fail)),
            (paint.some(self.info > 0, paint.yellow()), format!("   info {}", self.info)),
            (paint.some(!self.faults.is_empty(), paint.red()), format!("   {faults}")),
        ];
        fit(&parts, width)
    }
}

/// Puts painted parts one after the other, as far as there is room. What is cut ends in `…`.
///
/// A character counts as one column: names of phases, faults and nodes are ASCII, whatever else comes is made `?`.
fn fit(parts: &[(crate::terminal::Colour, String)], width: usize) -> String {
    let mut line = String::new();
    let mut left = width;
    for (colour, text) in parts {
        let printable = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
        let mut text: String = text.chars().map(printable).collect();
        if text.len() > left {
            text.truncate(left.saturating_sub(1));
            if left > 0 {
                text.push('…');
            }
            line.push_str(&colour.paint(&text));
            break;
        }
        left -= text.len();
        line.push_str(&colour.paint(&text));
    }
    line
}

/// Shows a [`State`] on stderr.
pub struct Progress {
    state: State,
    began: Instant,
    /// The time of a simulated run.
    simulated_ns: Option<u64>,
    line: StatusLine,
}

impl Progress {
    /// On stderr. The run begins now.
    pub fn stderr() -> Progress {
        Progress::on(StatusLine::stderr())
    }

    /// Nowhere: for runs of which there are many.
    pub fn silent() -> Progress {
        Progress::on(StatusLine::silent())
    }

    fn on(line: StatusLine) -> Progress {
        Progress { state: State::default(), began: Instant::now(), simulated_ns: None, line }
    }

    /// Shows this as the run's time from now on: that of a simulated run is not ours.
    pub fn set_time(&mut self, now_ns: u64) {
        self.simulated_ns = Some(now_ns);
    }

    fn now_ns(&self) -> u64 {
        if let Some(now_ns) = self.simulated_ns {
            return now_ns;
        }
        u64::try_from(self.began.elapsed().as_nanos()).expect("a run is shorter than 584 years")
    }

    /// Another phase begins, with the longest that it may last, if that is known.
    pub fn phase(&mut self, name: &str, limit: Option<Duration>) {
        self.state.phase(self.now_ns(), name, limit);
        self.line.renew();
        self.tick();
    }

    /// An op began or ended.
    pub fn op(&mut self, op: &Op) {
        self.state.op(self.now_ns(), op);
        self.tick();
    }

    /// The faults at work from now on, each as it should be shown: `kill n2`.
    pub fn faults(&mut self, active: &[String]) {
        self.state.faults(active);
        self.tick();
    }

    /// Time has passed: shows the line again if it is old.
    pub fn tick(&mut self) {
        let now_ns = self.now_ns();
        self.line.show(|width, paint| self.state.line(now_ns, width, paint));
    }

    /// A line that stays, above the one that is redrawn.
    pub fn note(&mut self, line: &str) {
        self.line.note(line);
    }

    /// The run is over: the line goes away.
    pub fn finish(&mut self) {
        self.line.wipe();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_core::op::{Extra, F, OpValue};

    fn op(process: Process, kind: Kind) -> Op {
        let (f, value, extra) = (F::Send, OpValue::None, Extra::default());
        Op { index: 0, time_ns: 0, process, kind, f, value, extra }
    }

    /// A run of 3 s at 100 ops a second, half of the time with faults.
    fn state(faults: &[&str]) -> State {
        let mut state = State::default();
        state.phase(0, "main", Some(Duration::from_secs(30)));
        for n in 0..300 {
            let kind = if n % 100 == 0 { Kind::Info } else { Kind::Ok };
            state.op(n * 10_000_000, &op(Process::Client(0), Kind::Invoke));
            state.op(n * 10_000_000, &op(Process::Client(0), kind));
            state.op(n * 10_000_000, &op(Process::Nemesis, Kind::Info));
        }
        state.faults(&faults.iter().map(ToString::to_string).collect::<Vec<_>>());
        state
    }

    #[track_caller]
    fn check(state: &State, now_ms: u64, width: usize, expected: &str) {
        let line = state.line(now_ms * 1_000_000, width, Paint::PLAIN);
        assert_eq!(line, expected);
        assert!(line.chars().count() <= width);
    }

    #[test]
    fn lines_fit_the_terminal() {
        let state = state(&["kill n2", "partition n1"]);
        let full = "main   3.0/30.0 s      100 ops/s   ok 297   fail 0   info 3   kill n2, partition n1";
        check(&state, 3_000, 200, full);
        check(&state, 3_000, full.len(), full);
        check(
            &state,
            3_000,
            80,
            "main   3.0/30.0 s      100 ops/s   ok 297   fail 0   info 3   kill n2, partitio…",
        );
        check(&state, 3_000, 5, "main…");
        check(&state, 3_000, 1, "…");
        check(&state, 3_000, 0, "");
    }

    #[test]
    fn a_stall_shows() {
        let state = state(&[]);
        check(&state, 4_000, 200, "main   4.0/30.0 s       50 ops/s   ok 297   fail 0   info 3   no faults");
        check(&state, 9_000, 200, "main   9.0/30.0 s        0 ops/s   ok 297   fail 0   info 3   no faults");
    }

    #[test]
    fn a_phase_has_a_time_of_its_own() {
        let mut state = state(&[]);
        state.phase(31_000_000_000, "drain", None);
        check(&state, 33_000, 40, "drain  2.0 s             0 ops/s   ok 2…");
    }

    #[test]
    fn colours_take_no_room() {
        let painted = state(&["kill n2"]).line(3_000_000_000, 60, Paint::COLOURS);
        let mut plain = String::new();
        let mut rest = painted.as_str();
        while let Some((before, after)) = rest.split_once('\x1b') {
            plain.push_str(before);
            rest = after.split_once('m').expect("an escape sequence ends").1;
        }
        plain.push_str(rest);
        assert_eq!(plain, state(&["kill n2"]).line(3_000_000_000, 60, Paint::PLAIN));
        assert_ne!(plain, painted);
    }

    #[test]
    fn hostile_names_do_not_control_the_terminal() {
        let line = state(&["kill \x1b[2Jn2\r\n"]).line(3_000_000_000, 200, Paint::PLAIN);
        assert!(line.ends_with("kill ?[2Jn2??"), "{line:?}");
    }
}
