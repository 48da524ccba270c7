//! What is taken away, in which order, and how often a smaller case is tried.
//!
//! A failure of a distributed system hangs on who was when how far: take one operation away, and whatever draws from the
//! same stream of chance falls out otherwise. So a smaller case is not given up because one run of it does not show the
//! anomaly: it is run again with other seeds, which change how long messages take, and with faults that strike a little
//! sooner or later. How often and at what cost is bounded, more widely when nothing gets smaller any more.
//!
//! First the ops that prove the anomaly are tried with a little of what went on around them: of thousands of operations
//! that mostly leaves some tens at once.

use super::Limit;
use super::case::{Case, Unit, Whose, keys_of, only_keys, units};
use crate::Failure;
use crate::test::sim::Outcome;
use riprap_checker::registry::NODE_CRASH;
use riprap_core::op::{Key, OpValue, Process};
use riprap_core::plan::Physics;
use riprap_results::StatusLine;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// How much of what went on before and after each op that proves the anomaly is tried with it. Units: nanoseconds.
const NEAR_PROOF_NS: [u64; 2] = [300_000_000, 2_000_000_000];
/// How much is done for a smaller case; the next when nothing gets smaller any more.
const PATIENCE: [Patience; 3] = [
    Patience { tries: 2, cost_percent: 25 },
    Patience { tries: 8, cost_percent: 200 },
    Patience { tries: 32, cost_percent: 1000 },
];
/// How much for the first guess at what matters, of which mostly little is left.
const PATIENCE_AT_FIRST: Patience = Patience { tries: 8, cost_percent: 60 };
/// Guessing takes no more than this part of the time: where it is no use, halving has to be.
const GUESSING_PART: u32 = 4;
/// A case that is so many times smaller at once is tried so many times as often, but not more than this many.
const MAX_TIMES_AS_OFTEN: usize = 8;
/// Of lists in at most so many parts each part is tried alone, before the rest without it: mostly one client or one fault
/// does it.
const ALONE: usize = 32;
/// As many of lists of which more parts matter.
const FEW_ALONE: usize = 4;
/// Of more gaps between acts nobody could say which matter.
const MAX_GAPS: usize = 24;
/// So many examples of the anomaly are tried with what went on around them.
const MAX_EXAMPLES: usize = 2;
/// Between two acts of a shrunk run nothing need happen for longer than that. Units: nanoseconds.
const IDLE_NS: u64 = 200_000_000;

#[derive(Clone, Copy)]
struct Patience {
    /// How many runs.
    tries: u64,
    /// And what those after the first may cost, in parts of what a run of the smallest case so far costs.
    cost_percent: u64,
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

/// What proves the anomaly.
struct Proof {
    /// Ops by their places in the plan, with how long they lasted. Units: nanoseconds.
    places: BTreeMap<usize, u64>,
    /// The key that it is about, if it is about one.
    key: Option<Key>,
}

pub(super) struct Shrinker<'a> {
    target: Target,
    limit: &'a Limit<'a>,
    simulate: &'a dyn Fn(&Case) -> Result<Outcome, Failure>,
    runs: u64,
    line: StatusLine,
    patience: Patience,
    /// The smallest that shows it so far, with the ops that its clients have begun.
    best: Case,
    /// What it comes to.
    outcome: Outcome,
}

impl<'a> Shrinker<'a> {
    /// Begins with a case and what it comes to; `None` if that does not show the anomaly.
    pub(super) fn new(
        anomaly: String,
        case: Case,
        outcome: Outcome,
        limit: &'a Limit<'a>,
        line: StatusLine,
        simulate: &'a dyn Fn(&Case) -> Result<Outcome, Failure>,
    ) -> Option<Shrinker<'a>> {
        let target = Target::of(anomaly, &outcome)?;
        let best = case.following(&outcome);
        Some(Shrinker { target, limit, simulate, runs: 1, line, patience: PATIENCE_AT_FIRST, best, outcome })
    }

    /// The smallest, what it comes to, and how many runs that took.
    pub(super) fn end(mut self) -> (Case, Outcome, u64) {
        self.line.wipe();
        (self.best, self.outcome, self.runs)
    }

    fn is_over(&self) -> bool {
        self.limit.is_over()
    }

    /// Whether a case shows the anomaly, with the best's seed or another; it is then the best. A case that cannot be run does not.
    fn try_case(&mut self, case: Case) -> bool {
        let most_steps = steps(&self.outcome) * self.patience.cost_percent / 100;
        let (first_seed, mut spent_steps) = (self.best.config.seed, 0);
        let times_smaller = self.best.ops().len().max(1) / case.ops().len().max(1);
        let tries = self.patience.tries * times_smaller.clamp(1, MAX_TIMES_AS_OFTEN) as u64;
        for n in 0..tries {
            let case = case.with_seed(first_seed.wrapping_add(n), n > 0);
            self.runs += 1;
            self.progress();
            let outcome = match (self.simulate)(&case) {
                Ok(outcome) => outcome,
                // Some of what is left makes no sense without the rest; or the time is over.
                Err(_) => return false,
            };
            if self.target.is_shown_by(&outcome) && !self.shows_without_defect(&case) {
                self.best = case.following(&outcome);
                self.outcome = outcome;
                return true;
            }
            let of_this = steps(&outcome);
            spent_steps += of_this;
            if spent_steps + of_this > most_steps || self.is_over() {
                break;
            }
        }
        false
    }

    /// Whether a case of a planted defect shows its anomaly without the defect too, by what its settings allow: then it is
    /// no story of the defect any more. One of which that cannot be said is as bad.
    fn shows_without_defect(&self, case: &Case) -> bool {
        if case.config.defect.is_none() {
            return false;
        }
        let mut clean = case.clone();
        clean.config.defect = None;
        (self.simulate)(&clean).map_or(true, |outcome| self.target.is_shown_by(&outcome))
    }

    pub(super) fn shrink(&mut self) {
        let now = Instant::now();
        let until = now + self.limit.deadline.saturating_duration_since(now) / GUESSING_PART;
        while self.around_the_proof(until) {}
        self.patience = PATIENCE[0];
        self.cut_the_end();
        for patience in PATIENCE {
            self.patience = patience;
            loop {
                let size = self.size();
                self.faults();
                self.threads();
                self.keys();
                self.ops();
                self.idle();
                self.parts();
                self.nodes();
                self.time();
                self.settings();
                if self.is_over() {
                    return;
                }
                if self.size() == size {
                    break;
                }
            }
        }
    }

    fn size(&self) -> (usize, usize, u16, usize) {
        let config = &self.best.config;
        (self.best.ops().len(), self.best.plan.faults.len(), config.nodes, config.settings.len())
    }

    /// The ops that prove the anomaly with what went on around them; whether that shows it, found out in time.
    fn around_the_proof(&mut self, until: Instant) -> bool {
        let (whole, proofs) = (self.best.clone(), self.proofs());
        // The fewer clients the better: with few a run costs little, and most anomalies need no more.
        let by_clients: [fn(&Proof) -> Option<Whose>; 3] =
            [|_| Some(Whose::Provers), |proof| proof.key.map(Whose::Senders), |_| Some(Whose::All)];
        for whose in by_clients {
            for near_ns in NEAR_PROOF_NS {
                for proof in &proofs {
                    let Some(whose) = whose(proof) else { continue };
                    let case = whole.around(&proof.places, near_ns, whose);
                    if self.is_over() || Instant::now() >= until {
                        return false;
                    }
                    if case.ops().len() < whole.ops().len() && self.try_case(case) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// What proves some examples of the anomaly.
    fn proofs(&self) -> Vec<Proof> {
        let history = &self.outcome.history;
        // The plan of the best is what its clients have begun in the main phase, in that order.
        let begun = history.pairs().filter(|(op, _)| matches!(op.process(), Process::Client(_)));
        let mut places: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
        for (place, (invoked, completed)) in begun.take(self.best.ops().len()).enumerate() {
            let lasted_ns = completed.map_or(0, |op| op.time_ns() - invoked.time_ns()).unsigned_abs();
            places.insert(invoked.index(), (place, lasted_ns));
            places.extend(completed.map(|op| (op.index(), (place, lasted_ns))));
        }
        let shown = self.outcome.verdict.forbidden().find(|(name, _)| *name == self.target.anomaly);
        let examples = shown.into_iter().flat_map(|(_, anomaly)| &anomaly.examples).take(MAX_EXAMPLES);
        let proofs = examples.map(|example| Proof {
            places: example.ops.iter().filter_map(|op| places.get(op).copied()).collect(),
            key: example.key.map(Key),
        });
        proofs.filter(|proof| !proof.places.is_empty()).collect()
    }

    /// The shortest beginning that shows it, by halves.
    fn cut_the_end(&mut self) {
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
            if self.try_case(case) { most = middle } else { least = middle }
        }
    }

    /// Time in which nobody does anything, at the end and in between.
    fn idle(&mut self) {
        let case = self.best.clone().without_idle_end();
        if case.config.time_limit_ms < self.best.config.time_limit_ms && !self.is_over() {
            self.try_case(case);
        }
        let (base, gaps) = (self.best.clone(), self.best.gaps(IDLE_NS));
        if gaps.len() <= MAX_GAPS {
            self.minimise(gaps, FEW_ALONE, &|gaps| base.with_gaps(IDLE_NS, gaps));
        }
    }

    fn faults(&mut self) {
        let all = units(&self.best.plan.faults);
        let base = self.best.clone();
        self.minimise(all, ALONE, &|units| base.with_faults(units));
    }

    fn threads(&mut self) {
        let threads: BTreeSet<u32> = self.best.ops().iter().map(|op| op.thread).collect();
        let base = self.best.clone();
        self.minimise(threads.into_iter().collect(), ALONE, &|threads| {
            let ops = base.ops().iter().filter(|op| threads.contains(&op.thread));
            base.with_ops(ops.cloned().collect())
        });
    }

    fn keys(&mut self) {
        let keys: BTreeSet<Key> = self.best.ops().iter().flat_map(|op| keys_of(&op.draft.value)).collect();
        let base = self.best.clone();
        self.minimise(keys.into_iter().collect(), ALONE, &|keys| {
            base.with_ops(base.ops().iter().filter_map(|op| only_keys(op, keys)).collect())
        });
    }

    fn ops(&mut self) {
        let base = self.best.clone();
        self.minimise(base.ops().to_vec(), FEW_ALONE, &|ops| base.with_ops(ops.to_vec()));
    }

    /// Single sends and polls of transactions.
    fn parts(&mut self) {
        let mut at = 0;
        while at < self.best.ops().len() && !self.is_over() {
            let OpValue::Mops(mops) = self.best.ops()[at].draft.value.clone() else {
                at += 1;
                continue;
            };
            for part in (0..mops.len()).rev().filter(|_| mops.len() > 1) {
                // With fewer operations begun by a deadline there may be fewer of them by now.
                let Some(OpValue::Mops(mut fewer)) = self.best.ops().get(at).map(|op| op.draft.value.clone())
                else {
                    break;
                };
                if fewer.len() < 2 || part >= fewer.len() {
                    continue;
                }
                fewer.remove(part);
                let mut ops = self.best.ops().to_vec();
                ops[at].draft.value = OpValue::Mops(fewer);
                let case = self.best.with_ops(ops);
                self.try_case(case);
            }
            at += 1;
        }
    }

    fn nodes(&mut self) {
        for nodes in 1..self.best.config.nodes {
            if self.is_over() {
                break;
            }
            let mut case = self.best.clone();
            case.config.nodes = nodes;
            case.config.replication_factor = case.config.replication_factor.min(nodes);
            if self.try_case(case) {
                break;
            }
        }
    }

    /// Everything happens sooner, as far as that goes.
    fn time(&mut self) {
        for _ in 0..4 {
            if self.is_over() || !self.try_case(self.best.twice_as_fast()) {
                break;
            }
        }
    }

    /// What was set, and network and disks other than the usual.
    fn settings(&mut self) {
        let set: Vec<(String, String)> = self.best.config.settings.clone().into_iter().collect();
        let base = self.best.clone();
        self.minimise(set, FEW_ALONE, &|set| {
            let mut case = base.clone();
            case.config.settings = set.iter().cloned().collect();
            case
        });
        if self.best.config.sim != Some(Physics::default()) && !self.is_over() {
            let mut case = self.best.clone();
            case.config.sim = Some(Physics::default());
            self.try_case(case);
        }
    }

    /// Delta debugging: leaves a part of a list alone, or takes ever smaller parts away, for as long as the case that the rest
    /// makes shows it.
    fn minimise<T: Clone>(&mut self, all: Vec<T>, max_alone: usize, case: &dyn Fn(&[T]) -> Case) {
        let mut kept = all;
        let mut parts = 2.min(kept.len());
        while parts > 0 && !kept.is_empty() && !self.is_over() {
            let size = kept.len().div_ceil(parts);
            let alone = kept.chunks(size).filter(|_| (2..=max_alone).contains(&parts));
            let alone: Vec<Vec<T>> = alone.map(<[T]>::to_vec).collect();
            if let Some(part) = alone.into_iter().find(|part| !self.is_over() && self.try_case(case(part))) {
                parts = 2.min(part.len());
                kept = part;
                continue;
            }
            let mut is_smaller = false;
            let mut from = 0;
            while from < kept.len() && !self.is_over() {
                let to = (from + size).min(kept.len());
                let rest: Vec<T> = kept[..from].iter().chain(&kept[to..]).cloned().collect();
                if self.try_case(case(&rest)) {
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
    }

    fn progress(&mut self) {
        let left_s = self.limit.deadline.saturating_duration_since(Instant::now()).as_secs();
        let (ops, faults) = (self.best.ops().len(), units(&self.best.plan.faults).len());
        let (target, nodes, runs) = (&self.target.anomaly, self.best.config.nodes, self.runs);
        self.line.show(|_, _| {
            format!(
                "shrink {target}   {ops} operations, {faults} faults, {nodes} nodes   run {runs}, {left_s} s left at most"
            )
        });
    }
}

/// How much happened in a run, which is what it costs.
fn steps(outcome: &Outcome) -> u64 {
    let simulation = outcome.verdict.parts.get("simulation");
    simulation.and_then(|part| part.get("steps")).and_then(Json::as_u64).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::crash::{self, NodeCrash};
    use riprap_core::History;
    use riprap_core::cluster::NodeId;
    use riprap_core::generator::PlannedOp;
    use riprap_core::op::{Extra, F, Kind, Mop, Op};
    use riprap_core::phase::{self, PHASE};
    use riprap_sim::PanicPlace;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    /// A case of so many sends by one client, of which each sends its number.
    fn sends(count: u64) -> Case {
        Case::of_sends((0..count).map(|n| (n, 0, 0)))
    }

    /// A history in which clients begin what is planned.
    fn begun(case: &Case) -> History {
        let op = |process, f, value| Op {
            index: 0,
            time_ns: 0,
            process,
            kind: Kind::Invoke,
            f,
            value,
            extra: Extra::default(),
        };
        let main = op(Process::Nemesis, F::Other(PHASE.into()), OpValue::Json(phase::MAIN.into()));
        let planned = case.ops().iter().map(|planned| Op {
            time_ns: planned.time_ns as i64,
            ..op(Process::Client(planned.thread), planned.draft.f.clone(), planned.draft.value.clone())
        });
        let ops = std::iter::once(main).chain(planned).zip(0..);
        ops.map(|(op, index)| Op { index, ..op }).collect()
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
        let history = begun(case);
        let verdict = crash::verdict(&crashes, &history);
        Outcome { history, verdict, crashes, logs: Vec::new() }
    }

    #[test]
    fn a_panic_shrinks_to_what_brings_out_that_very_panic() {
        let check = |anomaly: &str, places: &[(i64, &str)], expected: Option<&[u64]>| {
            let simulate = |case: &Case| Ok(outcome(case, places));
            let (never, silent) = (AtomicBool::new(false), StatusLine::silent());
            let limit = Limit { deadline: Instant::now() + Duration::from_secs(60), stop: &never };
            let (whole, first) = (sends(40), outcome(&sends(40), places));
            let shrinker = Shrinker::new(anomaly.to_owned(), whole, first, &limit, silent, &simulate);
            let kept = shrinker.map(|mut shrinker| {
                shrinker.shrink();
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
}
