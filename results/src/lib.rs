//! What is left of a run: its files, its report, its plots, and what the terminal says of it.
//!
//! A run goes through this crate in this order:
//!
//! - [`Store::create`] makes its folder; [`RunDir`] writes `test.json`, `plan.json`, the history op by op, the log;
//! - [`Progress`] is fed every op and shows where the run stands;
//! - [`Faults`] and [`Phase`]s, attached to the verdict as its parts, say what was when;
//! - [`publish`] writes `results.json`, the plots and `report.html`; [`summary()`] is what the terminal says at the end.
//!
//! All of it can be made again from the files alone: `riprap report` opens the run's folder and calls [`publish`].

mod compare;
mod logs;
mod palette;
mod plots;
mod progress;
mod record;
mod report;
mod self_test;
mod status_line;
mod store;
mod summary;
mod terminal;
mod timeline;

pub use compare::{
    Comparison, Counts, Judged, Measures, Outcome, Ran, Shown, Spread, Tally, Variant, measure,
};
pub use logs::{LogExcerpt, lines_with};
pub use plots::spacetime::{MAX_STORY_OPS, story_ops};
pub use plots::{Plot, plots};
pub use progress::{Progress, State};
pub use record::TestRecord;
pub use report::{ReportInput, Story, report};
pub use self_test::{CleanRun, DefectRow, SelfTest, Shrunk, Start};
pub use status_line::{REDRAW_INTERVAL, StatusLine};
pub use store::{
    CompareDir, DEFAULT_ROOT, HistoryWriter, RunDir, SelfTestDir, Store, StoreError, json_text, utc_text,
};
pub use summary::summary;
pub use terminal::Paint;
pub use timeline::{FaultRecord, FaultSpan, Faults, Phase};

use plots::spacetime::{Source, spacetime};
use riprap_checker::Verdict;
use riprap_core::History;
use serde::de::DeserializeOwned;
use std::path::PathBuf;

/// Writes what a run came to: `results.json`, the plots, `report.html`. Returns the report's path.
///
/// The verdict's parts `phases` (a list of [`Phase`]s) and `faults` ([`Faults`]) are what plots and report show.
pub fn publish(
    run: &RunDir,
    test: &TestRecord,
    verdict: &Verdict,
    history: &History,
) -> Result<PathBuf, StoreError> {
    run.write_results(verdict)?;
    let phases: Vec<Phase> = part(verdict, "phases");
    let faults: Faults = part(verdict, "faults");
    let plots = plots(history, &phases, &faults);
    for plot in &plots {
        run.write_plot(plot.name, &plot.svg)?;
    }
    let story = story(run, test, verdict, history, &phases, &faults)?;
    if let Story::Drawn(plot) = &story {
        run.write_plot(plot.name, &plot.svg)?;
    }
    let (logs, files) = (logs::excerpts(run), run.files()?);
    run.write_report(&report(&ReportInput {
        test,
        verdict,
        history,
        phases: &phases,
        faults: &faults,
        plots: &plots,
        story: &story,
        logs: &logs,
        files: &files,
    }))
}

/// The space-time diagram of a small simulated run.
fn story(
    run: &RunDir,
    test: &TestRecord,
    verdict: &Verdict,
    history: &History,
    phases: &[Phase],
    faults: &Faults,
) -> Result<Story, StoreError> {
    if test.config.sim.is_none() {
        return Ok(Story::None);
    }
    let Some(seen) = run.read_messages()? else { return Ok(Story::TooLarge) };
    let source = Source { history, seen: &seen, phases, faults, verdict, nodes: test.config.nodes };
    Ok(spacetime(&source).map_or(Story::None, Story::Drawn))
}

/// A part of a verdict; empty if it is missing or of another shape, as in a file of another version.
fn part<T: DeserializeOwned + Default>(verdict: &Verdict, name: &str) -> T {
    verdict.parts.get(name).and_then(|part| T::deserialize(part).ok()).unwrap_or_default()
}
