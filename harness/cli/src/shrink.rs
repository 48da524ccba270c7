//! `riprap shrink`: from a run that broke a promise to the few steps that it takes.
//!
//! Delta debugging on the plan, not on the seed: operations, faults, clients, keys, nodes and time are taken away for as
//! long as the run still shows the same anomaly. What stays is a scenario, a file that replays.
//! Source: Zeller, Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2), 2002.

use crate::args::ShrinkArgs;
use crate::scenario::{self, Origin};
use crate::test::Test;
use crate::test::sim::{Outcome, simulate_quietly};
use crate::{Failure, print};
use riprap_checker::Verdict;
use riprap_checker::registry::NODE_CRASH;
use riprap_core::History;
use riprap_core::generator::PlannedOp;
use riprap_core::history::write_op;
use riprap_core::op::{F, Key, Mop, OpValue};
use riprap_core::plan::{FaultEvent, Physics, Plan, SCENARIO_VERSION, Scenario, TestConfig};
use riprap_live::interrupt;
use riprap_results::{StatusLine, json_text};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// So many lines of the shrunk history are printed; its report has all.
const MAX_SHOWN_OPS: usize = 60;
/// Behind the last act of a shrunk run, so that what it began ends before everything is healed. Units: nanoseconds.
const TAIL_NS: u64 = 1_000_000_000;

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
    let deadline = began + args.limit;
    let Some(smallest) = shrink(before.clone(), &target, deadline, stop, StatusLine::stderr())? else {
        return Err(Failure::Harness(format!(
            "{} does not show {target} any more when its plan is followed; another version of riprap runs another course",
            args.run.display()
        )));
    };
    let text = json_text(&smallest.scenario);
    std::fs::write(&args.output, &text)
        .map_err(|e| Failure::Harness(format!("failed to write {}: {e}", args.output.display())))?;
    let folder = smallest.keep(&args.store, &args.output)?;
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

    /// Runs it once more and writes that run down; `file` is where the scenario is. Returns the run's folder.
    pub(crate) fn keep(&self, store: &Path, file: &Path) -> Result<PathBuf, Failure> {
        let Scenario { config, plan, .. } = &self.scenario;
        let test = Test::of(config.clone(), None, Some(plan.clone()))?;
        let (folder, _) = test.keep(store, vec!["replay".to_owned(), file.display().to_string()])?;
        Ok(folder)
    }
}

/// Takes away what an anomaly does not need, until nothing more can be, the deadline, or ^C. `None` if it is not shown.
pub(crate) fn shrink(
    case: Case,
    anomaly: &str,
    deadline: Instant,
    stop: &AtomicBool,
    line: StatusLine,
) -> Result<Option<Smallest>, Failure> {
    let shrinker = Shrinker::new(anomaly.to_owned(), case, deadline, stop, line, &Case::simulate)?;
    let Some(mut shrinker) = shrinker else { return Ok(None) };
    shrinker.shrink()?;
    shrinker.line.wipe();
    let (case, runs) = (shrinker.best, shrinker.runs);
    let outcome = case.simulate()?;
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
    /// Where the shrunk run is kept.
    folder: PathBuf,
}

impl Shrunk<'_> {
    fn json(&self, scenario: &Path) -> String {
        let size =
            |ops: usize, faults: usize, nodes: u16| json!({"ops": ops, "faults": faults, "nodes": nodes});
        let (before, after) = (&self.before, &self.smallest);
        let before = size(before.ops().len(), units(&before.plan.faults).len(), before.config.nodes);
        let after = size(after.ops(), after.faults(), after.nodes());
        json_text(&json!({
            "anomaly": self.target, "before": before, "after": after, "runs": self.smallest.runs,
            "took_s": self.took.as_secs_f64(), "scenario": scenario, "report": self.folder.join("report.html"),
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
        let (scenario, report) = (scenario.display(), self.folder.join("report.html"));
        text.push_str(&format!(
            "\nscenario {scenario}\nreport   {}\nagain    riprap replay {scenario}\n",
            report.display()
        ));
        text
    }
}

/// The forbidden anomalies, the worst first.
fn forbidden(verdict: &Verdict) -> Vec<String> {
    verdict.forbidden().map(|(name, _)| name.to_owned()).collect()
}

/// A run that may show the anomaly.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) config: TestConfig,
    /// With its operations.
    pub(crate) plan: Plan,
}

impl Case {
    fn ops(&self) -> &[PlannedOp] {
        self.plan.ops.as_deref().unwrap_or_default()
    }

    fn with_ops(&self, ops: Vec<PlannedOp>) -> Case {
        Case { config: self.config.clone(), plan: Plan { faults: self.plan.faults.clone(), ops: Some(ops) } }
    }

    fn with_faults(&self, units: &[Unit]) -> Case {
        let mut faults: Vec<FaultEvent> =
            units.iter().flat_map(|unit| [Some(unit.strike.clone()), unit.heal.clone()]).flatten().collect();
        faults.sort_by_key(|event| event.time_ns);
        let mut names: Vec<String> = faults.iter().map(|event| event.fault.clone()).collect();
        names.sort();
        names.dedup();
        let plan = Plan { faults, ops: self.plan.ops.clone() };
        Case { config: TestConfig { nemesis: names, ..self.config.clone() }, plan }
    }

    /// The same, over shortly after its last operation has begun; faults that are at work by then are healed there.
    fn without_idle_end(mut self) -> Case {
        let last_op_ns = self.ops().last().map_or(0, |op| op.time_ns);
        let strikes = units(&self.plan.faults).into_iter().map(|unit| unit.strike.time_ns);
        let last_ns = strikes.chain([last_op_ns]).max().unwrap_or(0);
        self.config.time_limit_ms = self.config.time_limit_ms.min((last_ns + TAIL_NS) / 1_000_000);
        let limit_ns = self.config.time_limit_ms * 1_000_000;
        for event in &mut self.plan.faults {
            event.time_ns = event.time_ns.min(limit_ns);
        }
        self
    }

    fn simulate(&self) -> Result<Outcome, Failure> {
        let test = Test::of(self.config.clone(), None, Some(self.plan.clone()))?;
        simulate_quietly(&test)
    }
}

/// A strike of a fault and what heals it, if anything before the end does.
#[derive(Clone)]
struct Unit {
    strike: FaultEvent,
    heal: Option<FaultEvent>,
}

/// The strikes of a plan. An act that heals ends the last strike of its fault.
fn units(events: &[FaultEvent]) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for event in events {
        let open = units.iter_mut().rev().find(|unit| unit.strike.fault == event.fault);
        match open {
            Some(unit) if unit.heal.is_none() && unit.strike.f != event.f => unit.heal = Some(event.clone()),
            _ => units.push(Unit { strike: event.clone(), heal: None }),
        }
    }
    units
}

/// What every smaller case is to show.
struct Target {
    anomaly: String,
    /// Of a node's crash also which one: another is another bug.
    site: Option<String>,
}

impl Target {
    /// An anomaly as a run shows it; `None` if it does not.
    fn of(anomaly: String, outcome: &Outcome) -> Option<Target> {
        let is_crash = anomaly == NODE_CRASH.name;
        let site = outcome.crashes.first().filter(|_| is_crash).map(|crash| crash.site().to_owned());
        let target = Target { anomaly, site };
        target.is_shown_by(outcome).then_some(target)
    }

    fn is_shown_by(&self, outcome: &Outcome) -> bool {
        let is_site = |site: &String| outcome.crashes.iter().any(|crash| crash.site() == site);
        outcome.verdict.forbidden().any(|(name, _)| name == self.anomaly) && self.site.iter().all(is_site)
    }
}

struct Shrinker<'a> {
    target: Target,
    deadline: Instant,
    stop: &'a AtomicBool,
    simulate: &'a dyn Fn(&Case) -> Result<Outcome, Failure>,
    runs: u64,
    line: StatusLine,
    /// The smallest that shows it so far.
    best: Case,
}

impl<'a> Shrinker<'a> {
    /// Begins with a case that shows an anomaly; `None` if it does not.
    fn new(
        anomaly: String,
        case: Case,
        deadline: Instant,
        stop: &'a AtomicBool,
        line: StatusLine,
        simulate: &'a dyn Fn(&Case) -> Result<Outcome, Failure>,
    ) -> Result<Option<Shrinker<'a>>, Failure> {
        let target = Target::of(anomaly, &simulate(&case)?);
        Ok(target.map(|target| Shrinker { target, deadline, stop, simulate, runs: 1, line, best: case }))
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline || self.stop.load(Ordering::Relaxed)
    }

    /// Whether a case shows the anomaly; it is then the best. A case that cannot be run does not.
    fn try_case(&mut self, case: Case) -> Result<bool, Failure> {
        self.runs += 1;
        self.progress();
        let outcome = match (self.simulate)(&case) {
            Ok(outcome) => outcome,
            // Some of what is left makes no sense without the rest.
            Err(Failure::Usage(_) | Failure::Harness(_)) => return Ok(false),
        };
        let shows = self.target.is_shown_by(&outcome) && !self.shows_without_defect(&case)?;
        if shows {
            self.best = case;
        }
        Ok(shows)
    }

    /// Whether a case of a planted defect shows its anomaly without the defect too, by what its settings allow: then it is
    /// no story of the defect any more.
    fn shows_without_defect(&self, case: &Case) -> Result<bool, Failure> {
        if case.config.defect.is_none() {
            return Ok(false);
        }
        let mut clean = case.clone();
        clean.config.defect = None;
        Ok(self.target.is_shown_by(&(self.simulate)(&clean)?))
    }

    fn shrink(&mut self) -> Result<(), Failure> {
        self.cut_the_end()?;
        loop {
            let size = self.size();
            self.faults()?;
            self.idle_end()?;
            self.threads()?;
            self.keys()?;
            self.ops()?;
            self.idle_end()?;
            self.parts()?;
            self.nodes()?;
            self.time()?;
            self.settings()?;
            if self.is_over() || self.size() == size {
                return Ok(());
            }
        }
    }

    fn size(&self) -> (usize, usize, u16, usize) {
        let config = &self.best.config;
        (self.best.ops().len(), self.best.plan.faults.len(), config.nodes, config.settings.len())
    }

    /// What was set, and network and disks other than the usual.
    fn settings(&mut self) -> Result<(), Failure> {
        let set: Vec<(String, String)> = self.best.config.settings.clone().into_iter().collect();
        let base = self.best.clone();
        self.minimise(set, &|set| {
            let mut case = base.clone();
            case.config.settings = set.iter().cloned().collect();
            case
        })?;
        if self.best.config.sim != Some(Physics::default()) && !self.is_over() {
            let mut case = self.best.clone();
            case.config.sim = Some(Physics::default());
            self.try_case(case)?;
        }
        Ok(())
    }

    /// The shortest beginning that shows it, by halves.
    fn cut_the_end(&mut self) -> Result<(), Failure> {
        let (mut least, mut most) = (0, self.best.ops().len());
        let whole = self.best.clone();
        while least + 1 < most && !self.is_over() {
            let middle = usize::midpoint(least, most);
            let end_ns = whole.ops()[middle - 1].time_ns;
            let ops = whole.ops()[..middle].to_vec();
            let kept: Vec<Unit> =
                units(&whole.plan.faults).into_iter().filter(|unit| unit.strike.time_ns <= end_ns).collect();
            // With what is left of the time cut too: a run of half a minute in which nothing is asked costs as much.
            let case = whole.with_ops(ops).with_faults(&kept).without_idle_end();
            if self.try_case(case)? { most = middle } else { least = middle }
        }
        Ok(())
    }

    /// The main phase ends when its last act is over.
    fn idle_end(&mut self) -> Result<(), Failure> {
        let case = self.best.clone().without_idle_end();
        if case.config.time_limit_ms < self.best.config.time_limit_ms && !self.is_over() {
            self.try_case(case)?;
        }
        Ok(())
    }

    fn faults(&mut self) -> Result<(), Failure> {
        let all = units(&self.best.plan.faults);
        let base = self.best.clone();
        self.minimise(all, &|units| base.with_faults(units))
    }

    fn threads(&mut self) -> Result<(), Failure> {
        let threads: BTreeSet<u32> = self.best.ops().iter().map(|op| op.thread).collect();
        let base = self.best.clone();
        self.minimise(threads.into_iter().collect(), &|threads| {
            let ops = base.ops().iter().filter(|op| threads.contains(&op.thread));
            base.with_ops(ops.cloned().collect())
        })
    }

    fn keys(&mut self) -> Result<(), Failure> {
        let keys: BTreeSet<Key> = self.best.ops().iter().flat_map(|op| keys_of(&op.draft.value)).collect();
        let base = self.best.clone();
        self.minimise(keys.into_iter().collect(), &|keys| {
            base.with_ops(base.ops().iter().filter_map(|op| only_keys(op, keys)).collect())
        })
    }

    fn ops(&mut self) -> Result<(), Failure> {
        let base = self.best.clone();
        self.minimise(base.ops().to_vec(), &|ops| base.with_ops(ops.to_vec()))
    }

    /// Single sends and polls of transactions.
    fn parts(&mut self) -> Result<(), Failure> {
        let mut at = 0;
        while at < self.best.ops().len() && !self.is_over() {
            let OpValue::Mops(mops) = self.best.ops()[at].draft.value.clone() else {
                at += 1;
                continue;
            };
            for part in (0..mops.len()).rev().filter(|_| mops.len() > 1) {
                let OpValue::Mops(mut fewer) = self.best.ops()[at].draft.value.clone() else { break };
                if fewer.len() < 2 || part >= fewer.len() {
                    continue;
                }
                fewer.remove(part);
                let mut ops = self.best.ops().to_vec();
                ops[at].draft.value = OpValue::Mops(fewer);
                let case = self.best.with_ops(ops);
                self.try_case(case)?;
            }
            at += 1;
        }
        Ok(())
    }

    fn nodes(&mut self) -> Result<(), Failure> {
        for nodes in 1..self.best.config.nodes {
            if self.is_over() {
                break;
            }
            let mut case = self.best.clone();
            case.config.nodes = nodes;
            case.config.replication_factor = case.config.replication_factor.min(nodes);
            if self.try_case(case)? {
                break;
            }
        }
        Ok(())
    }

    /// Everything happens sooner, as far as that goes.
    fn time(&mut self) -> Result<(), Failure> {
        for _ in 0..4 {
            if self.is_over() {
                break;
            }
            let mut case = self.best.clone();
            let mut last_ns = 0;
            for event in &mut case.plan.faults {
                event.time_ns /= 2;
                last_ns = last_ns.max(event.time_ns);
            }
            for op in case.plan.ops.iter_mut().flatten() {
                op.time_ns /= 2;
                last_ns = last_ns.max(op.time_ns);
            }
            case.config.time_limit_ms = (last_ns + TAIL_NS) / 1_000_000;
            if !self.try_case(case)? {
                break;
            }
        }
        Ok(())
    }

    /// Delta debugging: takes away ever smaller parts of a list, for as long as the case that the rest makes shows it.
    fn minimise<T: Clone>(&mut self, all: Vec<T>, case: &dyn Fn(&[T]) -> Case) -> Result<(), Failure> {
        let mut kept = all;
        let mut parts = 2.min(kept.len());
        while parts > 0 && !kept.is_empty() && !self.is_over() {
            let size = kept.len().div_ceil(parts);
            let mut is_smaller = false;
            let mut from = 0;
            while from < kept.len() && !self.is_over() {
                let to = (from + size).min(kept.len());
                let rest: Vec<T> = kept[..from].iter().chain(&kept[to..]).cloned().collect();
                if self.try_case(case(&rest))? {
                    kept = rest;
                    is_smaller = true;
                } else {
                    from = to;
                }
            }
            if size == 1 && !is_smaller {
                break;
            }
            if size > 1 {
                parts = (parts * 2).min(kept.len());
            }
        }
        Ok(())
    }

    fn progress(&mut self) {
        let left_s = self.deadline.saturating_duration_since(Instant::now()).as_secs();
        let (ops, faults) = (self.best.ops().len(), units(&self.best.plan.faults).len());
        let (target, nodes, runs) = (&self.target.anomaly, self.best.config.nodes, self.runs);
        self.line.show(|_, _| {
            format!(
                "shrink {target}   {ops} operations, {faults} faults, {nodes} nodes   run {runs}, {left_s} s left at most"
            )
        });
    }
}

fn keys_of(value: &OpValue) -> Vec<Key> {
    match value {
        OpValue::Keys(keys) => keys.clone(),
        OpValue::Mops(mops) => {
            let sent =
                mops.iter().filter_map(|mop| if let Mop::Send { key, .. } = mop { Some(*key) } else { None });
            sent.collect()
        }
        OpValue::None | OpValue::Json(_) => Vec::new(),
    }
}

/// The op as far as it is about these keys; `None` if nothing is left of it.
fn only_keys(op: &PlannedOp, keys: &[Key]) -> Option<PlannedOp> {
    let mut op = op.clone();
    match &mut op.draft.value {
        OpValue::Keys(of) => {
            of.retain(|key| keys.contains(key));
            if of.is_empty() {
                return None;
            }
        }
        OpValue::Mops(mops) => {
            mops.retain(|mop| !matches!(mop, Mop::Send { key, .. } if !keys.contains(key)));
            if mops.is_empty() {
                return None;
            }
            if op.draft.f == F::Send && mops.iter().all(|mop| matches!(mop, Mop::Poll(_))) {
                return None;
            }
        }
        OpValue::None | OpValue::Json(_) => {}
    }
    Some(op)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::test::crash::{self, NodeCrash};
    use clap::Parser as _;
    use riprap_core::cluster::NodeId;
    use riprap_core::generator::Draft;
    use riprap_core::op::Value;
    use riprap_sim::PanicPlace;
    use serde_json::Value as Json;

    /// A case of so many sends by one client, of which each sends its number.
    fn sends(count: u64) -> Case {
        let words = ["riprap", "test", "--sim", "--seed=1", "--nemesis=none"];
        let Command::Test(args) = Cli::try_parse_from(words).expect("it is right").command else {
            unreachable!("it asked for a test")
        };
        let config = Test::resolve(&args).expect("it is right").config;
        let op = |n: u64| {
            let mop = Mop::Send { key: Key(0), value: Value(n as i64), offset: None };
            let draft = Draft::new(F::Send, OpValue::Mops(vec![mop]));
            PlannedOp { time_ns: n, thread: 0, draft }
        };
        Case { config, plan: Plan { faults: Vec::new(), ops: Some((0..count).map(op).collect()) } }
    }

    /// What a case comes to in which some values make a node panic, each at a place.
    fn outcome(case: &Case, places: &[(i64, &str)]) -> Outcome {
        let values = case.ops().iter().filter_map(|op| match &op.draft.value {
            OpValue::Mops(mops) => mops.first().cloned(),
            _ => None,
        });
        let values: Vec<Mop> = values.collect();
        let sends = |value: i64| {
            values.iter().any(|mop| matches!(mop, Mop::Send { value: sent, .. } if sent.0 == value))
        };
        let of = |(value, place): &(i64, &str)| {
            let panic = PanicPlace { place: (*place).to_owned(), backtrace: String::new() };
            let how = format!("panicked: {} ops", case.ops().len());
            sends(*value).then_some(NodeCrash { node: NodeId(1), at_ns: Some(0), how, panic: Some(panic) })
        };
        let crashes: Vec<NodeCrash> = places.iter().filter_map(of).collect();
        let history = History::new();
        let verdict = crash::verdict(&crashes, &history);
        Outcome { history, verdict, crashes, logs: Vec::new() }
    }

    #[test]
    fn a_panic_shrinks_to_what_brings_out_that_very_panic() {
        let check = |anomaly: &str, places: &[(i64, &str)], expected: Option<&[u64]>| {
            let simulate = |case: &Case| Ok(outcome(case, places));
            let (never, deadline) = (AtomicBool::new(false), Instant::now() + Duration::from_secs(60));
            let silent = StatusLine::silent();
            let shrinker = Shrinker::new(anomaly.to_owned(), sends(40), deadline, &never, silent, &simulate);
            let kept = shrinker.expect("nothing fails").map(|mut shrinker| {
                shrinker.shrink().expect("nothing fails");
                let value = |op: &PlannedOp| match &op.draft.value {
                    OpValue::Mops(mops) => match mops[..] {
                        [Mop::Send { value, .. }] => value.0 as u64,
                        _ => panic!("{mops:?}"),
                    },
                    other => panic!("{other:?}"),
                };
                shrinker.best.ops().iter().map(value).collect::<Vec<u64>>()
            });
            assert_eq!(kept.as_deref(), expected, "{places:?}");
        };
        // The first one is it, whatever is easier to show; its message may change.
        check("node-crash", &[(30, "a.rs:1:1"), (3, "b.rs:2:2")], Some(&[30]));
        check("node-crash", &[(3, "b.rs:2:2"), (30, "a.rs:1:1")], Some(&[3]));
        check("node-crash", &[(7, "a.rs:1:1")], Some(&[7]));
        check("node-crash", &[], None);
        check("lost-write", &[(7, "a.rs:1:1")], None);
    }

    fn event(time_ns: u64, fault: &str, f: &str) -> FaultEvent {
        FaultEvent { time_ns, fault: fault.to_owned(), f: f.to_owned(), value: Json::Null }
    }

    #[test]
    fn a_strike_goes_with_what_heals_it() {
        let events = [
            event(1, "kill", "kill"),
            event(2, "partition", "partition"),
            event(3, "kill", "restart"),
            event(4, "kill", "kill"),
            event(5, "partition", "heal-partition"),
        ];
        let units = units(&events);
        let pairs: Vec<(u64, Option<u64>)> = units
            .iter()
            .map(|unit| (unit.strike.time_ns, unit.heal.as_ref().map(|heal| heal.time_ns)))
            .collect();
        assert_eq!(pairs, [(1, Some(3)), (2, Some(5)), (4, None)]);
    }
}
