//! `riprap shrink`: from a run that broke a promise to the few steps that it takes.
//!
//! Delta debugging on the plan, not on the seed: operations, faults, clients, keys, nodes and time are taken away for as
//! long as the run still shows the same anomaly (`shrink/passes.rs`). What stays is a scenario, a file that replays.
//! Source: Zeller, Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2), 2002.

mod case;
mod passes;

use crate::args::ShrinkArgs;
use crate::scenario::{self, Origin};
use crate::test::Test;
use crate::{Failure, print};
pub(crate) use case::Case;
use case::units;
use passes::Shrinker;
use riprap_checker::Verdict;
use riprap_core::History;
use riprap_core::history::write_op;
use riprap_core::plan::{SCENARIO_VERSION, Scenario};
use riprap_live::interrupt;
use riprap_results::{StatusLine, json_text};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// So many lines of the shrunk history are printed; its report has all.
const MAX_SHOWN_OPS: usize = 60;

pub(crate) fn run(args: &ShrinkArgs) -> Result<u8, Failure> {
    let Origin { config, plan, anomalies, .. } = scenario::load(&args.run)?;
    let Some(target) = anomalies.first().cloned() else {
        return Err(Failure::Usage(format!(
            "{} shows no forbidden anomaly: there is nothing to shrink",
            args.run.display()
        )));
    };
    let target = args.anomaly.clone().unwrap_or(target);
    if !anomalies.contains(&target) {
        return Err(Failure::Usage(format!(
            "--anomaly is `{target}`; the run shows: {}",
            anomalies.join(", ")
        )));
    }
    let stop = interrupt::catch();
    let began = Instant::now();
    let before = Case { config, plan };
    let limit = Limit { deadline: began + args.limit, stop };
    let Some(smallest) = shrink(before.clone(), &target, &limit, StatusLine::stderr())? else {
        return Err(Failure::Harness(format!(
            "{} does not show {target} any more when its plan is followed; another version of riprap runs another course",
            args.run.display()
        )));
    };
    let text = json_text(&smallest.scenario);
    std::fs::write(&args.output, &text)
        .map_err(|e| Failure::Harness(format!("failed to write {}: {e}", args.output.display())))?;
    let folder = smallest.keep(&args.store, &args.output, stop)?;
    let result = Shrunk { target: &target, before, took: began.elapsed(), folder, smallest };
    print(&if args.json { result.json(&args.output) } else { result.text(&args.output) })?;
    Ok(0)
}

/// What is left of a run when all is taken away that its anomaly does not need.
pub(crate) struct Smallest {
    pub(crate) scenario: Scenario,
    history: History,
    /// How many runs it took.
    pub(crate) runs: u64,
}

impl Smallest {
    /// How many operations clients begin in the main phase.
    pub(crate) fn ops(&self) -> usize {
        self.scenario.plan.ops.as_ref().map_or(0, Vec::len)
    }

    /// How many times a fault strikes.
    pub(crate) fn faults(&self) -> usize {
        units(&self.scenario.plan.faults).len()
    }

    /// On how many nodes.
    pub(crate) fn nodes(&self) -> u16 {
        self.scenario.config.nodes
    }

    /// Runs it once more and writes that run down; `file` is where the scenario is. Returns the run's folder; `None` if
    /// there is no time for that any more.
    pub(crate) fn keep(
        &self,
        store: &Path,
        file: &Path,
        stop: &AtomicBool,
    ) -> Result<Option<PathBuf>, Failure> {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Scenario { config, plan, .. } = &self.scenario;
        let test = Test::of(config.clone(), None, Some(plan.clone()))?;
        match test.keep(store, vec!["replay".to_owned(), file.display().to_string()], stop) {
            Ok((folder, _)) => Ok(Some(folder)),
            Err(Failure::Interrupted(_)) => Ok(None),
            Err(failed) => Err(failed),
        }
    }
}

/// How long shrinking goes on at most.
pub(crate) struct Limit<'a> {
    pub(crate) deadline: Instant,
    /// ^C.
    pub(crate) stop: &'a AtomicBool,
}

impl Limit<'_> {
    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline || self.stop.load(Ordering::Relaxed)
    }
}

/// Takes away what an anomaly does not need, until nothing more can be, or the limit. `None` if it is not shown.
/// Errors: [`Failure::Interrupted`] before it was shown once.
pub(crate) fn shrink(
    case: Case,
    anomaly: &str,
    limit: &Limit<'_>,
    line: StatusLine,
) -> Result<Option<Smallest>, Failure> {
    // However short the time is, the whole is run to its end: without that there is nothing.
    let whole = case.simulate(&|| limit.stop.load(Ordering::Relaxed))?;
    let simulate = |case: &Case| case.simulate(&|| limit.is_over());
    let Some(mut shrinker) = Shrinker::new(anomaly.to_owned(), case, whole, limit, line, &simulate) else {
        return Ok(None);
    };
    shrinker.shrink();
    let (case, outcome, runs) = shrinker.end();
    let scenario = Scenario {
        riprap_scenario: SCENARIO_VERSION,
        config: case.config,
        plan: case.plan,
        anomalies: forbidden(&outcome.verdict),
        trace: scenario::trace(&outcome.verdict),
    };
    Ok(Some(Smallest { scenario, history: outcome.history, runs }))
}

/// What came of it.
struct Shrunk<'a> {
    target: &'a str,
    before: Case,
    smallest: Smallest,
    took: Duration,
    /// Where the shrunk run is kept, if it is.
    folder: Option<PathBuf>,
}

impl Shrunk<'_> {
    fn report(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join("report.html"))
    }

    fn json(&self, scenario: &Path) -> String {
        let size =
            |ops: usize, faults: usize, nodes: u16| json!({"ops": ops, "faults": faults, "nodes": nodes});
        let (before, after) = (&self.before, &self.smallest);
        let before = size(before.ops().len(), units(&before.plan.faults).len(), before.config.nodes);
        let after = size(after.ops(), after.faults(), after.nodes());
        json_text(&json!({
            "anomaly": self.target, "before": before, "after": after, "runs": self.smallest.runs,
            "took_s": self.took.as_secs_f64(), "scenario": scenario, "report": self.report(),
        }))
    }

    fn text(&self, scenario: &Path) -> String {
        let (before, after, history) = (&self.before, &self.smallest, &self.smallest.history);
        let mut text = format!(
            "{}   {} operations, {} faults, {} nodes, of {}, {} and {}; {} runs, {:.1} s\n\n",
            self.target,
            after.ops(),
            after.faults(),
            after.nodes(),
            before.ops().len(),
            units(&before.plan.faults).len(),
            before.config.nodes,
            after.runs,
            self.took.as_secs_f64(),
        );
        for op in history.ops().take(MAX_SHOWN_OPS) {
            let mut line = Vec::new();
            write_op(&mut line, &op.to_op()).expect("memory takes it");
            text.push_str(&format!("  {}", String::from_utf8_lossy(&line)));
        }
        if history.len() > MAX_SHOWN_OPS {
            text.push_str(&format!("  ... and {} more\n", history.len() - MAX_SHOWN_OPS));
        }
        let scenario = scenario.display();
        text.push_str(&format!("\nscenario {scenario}\n"));
        if let Some(report) = self.report() {
            text.push_str(&format!("report   {}\n", report.display()));
        }
        text.push_str(&format!("again    riprap replay {scenario}\n"));
        text
    }
}

/// The forbidden anomalies, the worst first.
fn forbidden(verdict: &Verdict) -> Vec<String> {
    verdict.forbidden().map(|(name, _)| name.to_owned()).collect()
}
