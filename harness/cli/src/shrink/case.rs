//! A plan that may show an anomaly, and plans that are less than it.

use crate::Failure;
use crate::test::Test;
use crate::test::sim::{Outcome, simulate_quietly};
use riprap_core::generator::PlannedOp;
use riprap_core::op::{F, Key, Mop, OpValue};
use riprap_core::plan::{FaultEvent, Plan, TestConfig};
use riprap_env::random::DrawStream;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Behind the last act of a shrunk run, so that what it began ends before everything is healed. Units: nanoseconds.
const TAIL_NS: u64 = 1_000_000_000;
/// What was under way when a fault struck began no sooner than that before it. Units: nanoseconds.
const BEFORE_STRIKE_NS: u64 = 100_000_000;
/// By how much an act of a fault moves at most, from some microseconds to half a second. Units: binary logarithms of
/// nanoseconds.
const MOVES_LOG2_NS: RangeInclusive<u64> = 13..=29;

/// A run that may show the anomaly.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) config: TestConfig,
    /// With its operations.
    pub(crate) plan: Plan,
}

impl Case {
    pub(super) fn ops(&self) -> &[PlannedOp] {
        self.plan.ops.as_deref().unwrap_or_default()
    }

    pub(super) fn with_ops(&self, ops: Vec<PlannedOp>) -> Case {
        Case {
            config: self.config.clone(),
            plan: Plan { faults: self.plan.faults.clone(), ops: Some(ops), ends_ns: None },
        }
    }

    pub(super) fn with_faults(&self, units: &[Unit]) -> Case {
        let mut faults: Vec<FaultEvent> =
            units.iter().flat_map(|unit| [Some(unit.strike.clone()), unit.heal.clone()]).flatten().collect();
        faults.sort_by_key(|event| event.time_ns);
        let mut names: Vec<String> = faults.iter().map(|event| event.fault.clone()).collect();
        names.sort();
        names.dedup();
        let plan = Plan { faults, ..self.plan.clone() };
        Case { config: TestConfig { nemesis: names, ..self.config.clone() }, plan }
    }

    /// The same with another seed for the world; if it may be another course, faults strike a little sooner or later, and
    /// other nodes: who leads what hangs on which topics are there.
    pub(super) fn with_seed(&self, seed: u64, is_other: bool) -> Case {
        let mut case = self.clone();
        case.config.seed = seed;
        if is_other {
            let mut draws = DrawStream::new(seed, "shrink", "faults");
            let nodes = u64::from(case.config.nodes);
            let by = draws.between(0, nodes - 1);
            for event in &mut case.plan.faults {
                // As often by some microseconds as by some hundreds of milliseconds: what has to be hit may be that short.
                let most_ns = 1 << draws.between(*MOVES_LOG2_NS.start(), *MOVES_LOG2_NS.end());
                let by_ns = draws.between(0, most_ns);
                let is_later = draws.one_in(2);
                let time_ns = event.time_ns;
                event.time_ns = if is_later { time_ns + by_ns } else { time_ns.saturating_sub(by_ns) };
                event.value = on_other_nodes(&event.value, &|node| (node - 1 + by) % nodes + 1);
            }
            case.plan.faults.sort_by_key(|event| event.time_ns);
        }
        case
    }

    /// With the ops that its clients have begun, at the times when they did.
    pub(super) fn following(self, outcome: &Outcome) -> Case {
        let plan = self.plan.with_ops_of(&outcome.history, self.config.concurrency);
        Case { plan, ..self }
    }

    /// What went on for some time before and after each of some ops, and while faults were at work that were at work then, as
    /// far as some clients did it. Of each op it is given by its place how long it lasted. Clients have the keys that they
    /// had; and what came before does not take its time.
    pub(super) fn around(&self, places: &BTreeMap<usize, u64>, near_ns: u64, whose: Whose) -> Case {
        let ops = self.ops();
        let heal_ns = |unit: &Unit| unit.heal.as_ref().map_or(u64::MAX, |heal| heal.time_ns);
        let all_faults = units(&self.plan.faults);
        let spans = places.iter().map(|(place, lasted_ns)| {
            let time_ns = ops[*place].time_ns;
            let (from_ns, until_ns) = (time_ns.saturating_sub(near_ns), time_ns + lasted_ns + near_ns);
            let at_work =
                all_faults.iter().filter(|unit| unit.strike.time_ns <= until_ns && heal_ns(unit) >= from_ns);
            at_work.fold((from_ns, until_ns), |(from_ns, until_ns), unit| {
                let struck_ns = unit.strike.time_ns.saturating_sub(BEFORE_STRIKE_NS);
                let over_ns = heal_ns(unit).saturating_add(near_ns);
                (from_ns.min(struck_ns), until_ns.max(over_ns))
            })
        });
        let spans: Vec<(u64, u64)> = spans.collect();
        let is_near = |from_ns: u64, until_ns: u64| {
            spans
                .iter()
                .any(|(span_from_ns, span_until_ns)| from_ns <= *span_until_ns && until_ns >= *span_from_ns)
        };
        let of_places = places.keys().map(|place| ops[*place].thread);
        let senders = ops.iter().filter(|op| is_near(op.time_ns, op.time_ns)).filter(|op| match whose {
            Whose::Provers => false,
            Whose::Senders(key) => keys_sent(&op.draft.value).any(|sent| sent == key),
            Whose::All => true,
        });
        let threads: BTreeSet<u32> = of_places.chain(senders.map(|op| op.thread)).collect();
        // What a client reads from is what it was told to last.
        let mut told: BTreeMap<u32, PlannedOp> = BTreeMap::new();
        let mut kept = Vec::new();
        for op in ops.iter().filter(|op| threads.contains(&op.thread)) {
            if is_near(op.time_ns, op.time_ns) {
                kept.extend(told.remove(&op.thread));
                kept.push(op.clone());
            } else if matches!(op.draft.f, F::Assign | F::Subscribe) {
                told.insert(op.thread, op.clone());
            }
        }
        let faults: Vec<Unit> =
            all_faults.into_iter().filter(|unit| is_near(unit.strike.time_ns, heal_ns(unit))).collect();
        let began_ns = spans.iter().map(|(from_ns, _)| *from_ns).min().unwrap_or(0);
        let began_ns = faults.iter().map(|unit| unit.strike.time_ns).chain([began_ns]).min().unwrap_or(0);
        kept.sort_by_key(|op| op.time_ns.max(began_ns));
        let mut case = self.with_ops(kept).with_faults(&faults);
        case.move_times(|time_ns| time_ns.saturating_sub(began_ns));
        case.without_idle_end()
    }

    /// When clients or faults do something.
    fn times(&self) -> BTreeSet<u64> {
        let faults = self.plan.faults.iter().map(|event| event.time_ns);
        self.ops().iter().map(|op| op.time_ns).chain(faults).collect()
    }

    /// After which times nobody does anything for longer than that, and before anybody does.
    pub(super) fn gaps(&self, most_ns: u64) -> Vec<u64> {
        let times: Vec<u64> = std::iter::once(0).chain(self.times()).collect();
        times.windows(2).filter(|pair| pair[1] - pair[0] > most_ns).map(|pair| pair[0]).collect()
    }

    /// The same without its gaps but these: what comes after one that is closed comes so much sooner.
    pub(super) fn with_gaps(&self, most_ns: u64, kept: &[u64]) -> Case {
        let mut moved: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut before_ns, mut now_ns) = (0, 0);
        for time_ns in self.times() {
            let gap_ns = time_ns - before_ns;
            now_ns += if kept.contains(&before_ns) { gap_ns } else { gap_ns.min(most_ns) };
            moved.insert(time_ns, now_ns);
            before_ns = time_ns;
        }
        let mut case = self.clone();
        case.move_times(|time_ns| moved[&time_ns]);
        case.without_idle_end()
    }

    /// The same at half the times.
    pub(super) fn twice_as_fast(&self) -> Case {
        let mut case = self.clone();
        case.move_times(|time_ns| time_ns / 2);
        case.without_idle_end()
    }

    fn move_times(&mut self, to_ns: impl Fn(u64) -> u64) {
        let ops = self.plan.ops.iter_mut().flatten().map(|op| &mut op.time_ns);
        for time_ns in ops.chain(self.plan.faults.iter_mut().map(|event| &mut event.time_ns)) {
            *time_ns = to_ns(*time_ns);
        }
    }

    /// The same, over shortly after its last operation has begun; faults that are at work by then are healed there.
    pub(super) fn without_idle_end(mut self) -> Case {
        let last_op_ns = self.ops().last().map_or(0, |op| op.time_ns);
        let strikes = units(&self.plan.faults).into_iter().map(|unit| unit.strike.time_ns);
        let last_ns = strikes.chain([last_op_ns]).max().unwrap_or(0);
        self.config.time_limit_ms = self.config.time_limit_ms.min((last_ns + TAIL_NS) / 1_000_000);
        self.plan.ends_ns = None;
        let limit_ns = self.config.time_limit_ms * 1_000_000;
        for event in &mut self.plan.faults {
            event.time_ns = event.time_ns.min(limit_ns);
        }
        self
    }

    /// Errors: [`Failure::Interrupted`] once nobody wants it any more.
    pub(super) fn simulate(&self, is_unwanted: &dyn Fn() -> bool) -> Result<Outcome, Failure> {
        let test = Test::of(self.config.clone(), None, Some(self.plan.clone()))?;
        simulate_quietly(&test, is_unwanted)
    }
}

/// An aim at other nodes, by their numbers: it names them, or links between them (`n1->n2`).
fn on_other_nodes(aim: &Json, other: &dyn Fn(u64) -> u64) -> Json {
    let name = |name: &str| match name.strip_prefix('n').and_then(|number| number.parse().ok()) {
        Some(number @ 1..) => format!("n{}", other(number)),
        _ => name.to_owned(),
    };
    let rename = |text: &str| text.split("->").map(name).collect::<Vec<_>>().join("->");
    match aim {
        Json::String(text) => Json::String(rename(text)),
        Json::Array(parts) => parts.iter().map(|part| on_other_nodes(part, other)).collect(),
        Json::Object(fields) => {
            let renamed = fields.iter().map(|(field, part)| (rename(field), on_other_nodes(part, other)));
            Json::Object(renamed.collect())
        }
        other => other.clone(),
    }
}

/// Whose ops are kept, beside those of who did what proves the anomaly.
#[derive(Clone, Copy)]
pub(super) enum Whose {
    /// Nobody's.
    Provers,
    /// Of clients that send to a key.
    Senders(Key),
    /// All clients'.
    All,
}

/// A strike of a fault and what heals it, if anything before the end does.
#[derive(Clone)]
pub(super) struct Unit {
    pub(super) strike: FaultEvent,
    pub(super) heal: Option<FaultEvent>,
}

/// The strikes of a plan. An act that heals ends the last strike of its fault.
pub(super) fn units(events: &[FaultEvent]) -> Vec<Unit> {
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

pub(super) fn keys_of(value: &OpValue) -> Vec<Key> {
    match value {
        OpValue::Keys(keys) => keys.clone(),
        sent => keys_sent(sent).collect(),
    }
}

fn keys_sent(value: &OpValue) -> impl Iterator<Item = Key> {
    let mops = if let OpValue::Mops(mops) = value { mops.as_slice() } else { &[] };
    mops.iter().filter_map(|mop| if let Mop::Send { key, .. } = mop { Some(*key) } else { None })
}

/// The op as far as it is about these keys; `None` if nothing is left of it.
pub(super) fn only_keys(op: &PlannedOp, keys: &[Key]) -> Option<PlannedOp> {
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
impl Case {
    /// Sends, each of its number: when, by which client, and to which key.
    pub(super) fn of_sends(sends: impl IntoIterator<Item = (u64, u32, i64)>) -> Case {
        use crate::args::{Cli, Command};
        use clap::Parser as _;
        use riprap_core::generator::Draft;
        use riprap_core::op::Value;
        let words = ["riprap", "test", "--sim", "--seed=1", "--nemesis=none", "--time-limit=1h"];
        let Command::Test(args) = Cli::try_parse_from(words).expect("it is right").command else {
            unreachable!("it asked for a test")
        };
        let config = Test::resolve(&args).expect("it is right").config;
        let op = |((time_ns, thread, key), n)| {
            let mop = Mop::Send { key: Key(key), value: Value(n), offset: None };
            PlannedOp { time_ns, thread, draft: Draft::new(F::Send, OpValue::Mops(vec![mop])) }
        };
        Case {
            config,
            plan: Plan { ops: Some(sends.into_iter().zip(0..).map(op).collect()), ..Plan::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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

    #[test]
    fn aims_are_turned_to_other_nodes() {
        let check = |aim: Json, expected: Json| {
            assert_eq!(on_other_nodes(&aim, &|node| node % 3 + 1), expected);
        };
        check(Json::Null, Json::Null);
        check(json!({"shape": "one", "nodes": ["n3"]}), json!({"shape": "one", "nodes": ["n1"]}));
        check(json!({"cut": ["n1->n2", "n2->n3"], "n": 1}), json!({"cut": ["n2->n3", "n3->n1"], "n": 1}));
        check(json!({"offsets": {"n1": -5, "nx": 1}}), json!({"offsets": {"n2": -5, "nx": 1}}));
    }

    const MS: u64 = 1_000_000;

    /// When its clients and faults do something. Units: milliseconds.
    fn times_ms(case: &Case) -> (Vec<u64>, Vec<u64>) {
        let ms = |time_ns: u64| time_ns / MS;
        let ops = case.ops().iter().map(|op| ms(op.time_ns)).collect();
        (ops, case.plan.faults.iter().map(|event| ms(event.time_ns)).collect())
    }

    /// Of three clients, and a fault at work from 2.5 s to 3.5 s.
    fn three_clients() -> Case {
        let sends = [(1000, 0, 5), (2450, 1, 6), (2900, 1, 5), (3000, 0, 5), (3050, 2, 6), (9000, 0, 5)];
        let mut case = Case::of_sends(sends.map(|(time_ms, thread, key)| (time_ms * MS, thread, key)));
        case.plan.faults = vec![event(2500 * MS, "kill", "kill"), event(3500 * MS, "kill", "restart")];
        case
    }

    #[test]
    fn what_went_on_around_an_op_is_kept() {
        let check = |near_ms: u64, whose: Whose, ops: &[u64], faults: &[u64]| {
            let case = three_clients().around(&BTreeMap::from([(3, 100 * MS)]), near_ms * MS, whose);
            assert_eq!(times_ms(&case), (ops.to_vec(), faults.to_vec()), "{near_ms}");
        };
        // Since the fault struck, and a little before it; it ends with the run, a second after the last op.
        check(100, Whose::Provers, &[600], &[100, 1100]);
        check(100, Whose::Senders(Key(5)), &[50, 500, 600], &[100, 1100]);
        check(100, Whose::All, &[50, 500, 600, 650], &[100, 1100]);
        check(2500, Whose::Provers, &[500, 2500], &[2000, 3000]);
        check(60_000, Whose::Provers, &[1000, 3000, 9000], &[2500, 3500]);
    }

    #[test]
    fn gaps_are_closed_one_by_one() {
        let case = three_clients();
        assert_eq!(case.gaps(450 * MS).iter().map(|at_ns| at_ns / MS).collect::<Vec<_>>(), [0, 1000, 3500]);
        let check = |kept_ms: &[u64], ops: &[u64], faults: &[u64]| {
            let kept: Vec<u64> = kept_ms.iter().map(|at_ms| at_ms * MS).collect();
            assert_eq!(times_ms(&case.with_gaps(450 * MS, &kept)), (ops.to_vec(), faults.to_vec()));
        };
        check(&[0, 1000, 3500], &[1000, 2450, 2900, 3000, 3050, 9000], &[2500, 3500]);
        check(&[], &[450, 900, 1350, 1450, 1500, 2400], &[950, 1950]);
        check(&[1000], &[450, 1900, 2350, 2450, 2500, 3400], &[1950, 2950]);
    }
}
