//! The part of a run that makes history: main, heal, drain; and the check of what came of it. It is the same live and in
//! simulation.

use super::Test;
use super::crash::NodeCrash;
use crate::Failure;
use riprap_checker::Verdict;
use riprap_core::client::Completion;
use riprap_core::cluster::Cluster;
use riprap_core::fault::{Effect, Fault, FaultInfo};
use riprap_core::generator::{
    Ask, BoxedGenerator, Context, Draft, Generator, Offer, any, clients, idle, nemesis, once, script,
    stagger, time_limit,
};
use riprap_core::op::{Extra, F, Kind, Op, OpValue, Process};
use riprap_core::phase::{self, PHASE};
use riprap_core::plan::FaultEvent;
use riprap_core::{History, Key, Seed};
use riprap_results::{Faults, HistoryWriter, Phase, Progress, RunDir};
use riprap_workloads::{Left, TRY_LIMIT};
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The most keys that a reason names: the report has the history for all.
const SHOWN_KEYS: usize = 8;

/// Where a run takes place: on real nodes, or in simulation.
pub(super) trait Stage {
    /// Runs a generator to its end, or until the user wants no more; then every op has completed.
    fn run(&mut self, generator: BoxedGenerator) -> Result<(), Failure>;

    /// Runs a generator to its end, whatever the user wants.
    fn run_to_end(&mut self, generator: BoxedGenerator) -> Result<(), Failure>;

    /// Ends the clients that still work at an op which was given up on; real ones are waited for. Gives how many still do.
    fn end_late_clients(&mut self) -> Result<usize, Failure>;

    /// What has happened so far.
    fn history(&self) -> &History;

    /// How much time has passed in the run, as its nodes and clients see it.
    fn now(&self) -> Duration;

    /// Waits until every node serves clients; within, `Err` says what is not so in the end.
    fn await_serving(&mut self, limit: Duration) -> Result<Result<(), String>, Failure>;

    /// How many packets the cuts have dropped, where that is counted.
    fn dropped_packets(&self) -> Option<u64>;

    /// How the last change of the cluster's members ended, where there was one.
    fn members_told(&self) -> Option<String>;

    /// The nodes that ended though nobody had ended them.
    fn crashes(&self) -> Vec<NodeCrash>;
}

/// Main, heal, drain, check.
pub(super) fn phases(
    test: &Test,
    stage: &mut dyn Stage,
    progress: &RefCell<Progress>,
    stop: &AtomicBool,
) -> Result<(History, Verdict), Failure> {
    let config = &test.config;
    begin(stage, progress, phase::MAIN, Duration::from_millis(config.time_limit_ms))?;
    stage.run(main_generator(test))?;
    if stop.swap(false, Ordering::Relaxed) {
        let note = "riprap: interrupted: healing, then reading what is there; again to stop at once";
        progress.borrow_mut().note(note);
        mark(stage, phase::INTERRUPTED)?;
    }

    let recovery_limit = Duration::from_millis(config.recovery_limit_ms);
    begin(stage, progress, phase::HEAL, recovery_limit)?;
    let heals = test.faults.iter().map(|(fault, _)| nemesis(once(heal_draft(fault.info())))).collect();
    stage.run_to_end(riprap_core::generator::phases(heals))?;
    let healed = stage.now();
    let recovered = stage.await_serving(recovery_limit)?;
    let recovery = stage.now() - healed;
    if recovered.is_err() {
        mark(stage, phase::UNRECOVERED)?;
    }

    let drain_limit = Duration::from_millis(config.drain_limit_ms);
    begin(stage, progress, phase::DRAIN, drain_limit)?;
    let unended = stage.end_late_clients()?;
    if unended > 0 {
        mark(stage, phase::UNENDED)?;
    }
    let (generator, drain) = test.workload.final_generator(config, stage.history());
    let drain_began = stage.now();
    stage.run(time_limit(config.drain_limit_ms * 1_000_000, generator))?;
    let (left, drain_time) = (drain.left(), stage.now() - drain_began);
    if stop.load(Ordering::Relaxed) {
        mark(stage, phase::INTERRUPTED)?;
    }
    mark(stage, if left.unread.is_empty() { phase::DRAINED } else { phase::UNDRAINED })?;

    progress.borrow_mut().phase("check", None);
    let history = stage.history();
    let options =
        riprap_checker::Options { drained: left.unread.is_empty(), ..test.workload.options(config) };
    let infos: Vec<&FaultInfo> = test.faults.iter().map(|(fault, _)| fault.info()).collect();
    let faults = Faults::of(history, &infos);
    let mut verdict = riprap_checker::check(history, &options)
        .merge(test.workload.judge(history, &options))
        .merge(faults.verdict());
    let planned = |info: &FaultInfo| test.plan.faults.iter().any(|event| event.fault == info.name);
    // Where faults take turns, not all of them need have had one.
    let had_no_turn = |info: &FaultInfo| config.rotate_ms.is_some() && !planned(info);
    let some_struck = !faults.0.is_empty();
    for info in infos.iter().filter(|info| !faults.0.contains_key(info.name)) {
        if some_struck && had_no_turn(info) {
            continue;
        }
        let why = format!("{} never struck: the run was too short for it", info.name);
        verdict = verdict.merge(Verdict::unknown("faults", why));
    }
    if let Err(why) = &recovered {
        let why = format!("the cluster does not serve again: {why}");
        verdict = verdict.merge(Verdict::unknown("recovery", why));
    }
    for why in undone(&left, drain_time) {
        verdict = verdict.merge(Verdict::unknown("drain", why));
    }
    if let Some(why) = phase::cut_short(history) {
        verdict = verdict.merge(Verdict::unknown("interrupted", why));
    }
    let liveness = json!({
        "recovered": recovered.is_ok(),
        "recovery_ms": recovery.as_millis() as u64,
        "drained": left.unread.is_empty(),
        "unread": numbers(&left.unread),
        "unwritten": numbers(&left.unwritten),
        "untold": numbers(&left.untold),
        "ungrouped": numbers(&left.ungrouped),
        "unended_clients": unended,
        "dropped_packets": stage.dropped_packets(),
        "members": stage.members_told(),
    });
    let verdict = verdict
        .with_part("phases", phase_list(history))
        .with_part("faults", &faults)
        .with_part("liveness", liveness);
    Ok((history.clone(), verdict))
}

fn begin(
    stage: &mut dyn Stage,
    progress: &RefCell<Progress>,
    phase: &str,
    limit: Duration,
) -> Result<(), Failure> {
    progress.borrow_mut().phase(phase, Some(limit));
    mark(stage, phase)
}

fn mark(stage: &mut dyn Stage, name: &str) -> Result<(), Failure> {
    let mark = Draft::new(F::Other(PHASE.into()), OpValue::Json(name.into()));
    stage.run_to_end(nemesis(once(mark)))
}

/// What the end of a run has not got done, in words.
fn undone(left: &Left, drain_time: Duration) -> Vec<String> {
    let say = |keys: &BTreeSet<Key>, what: &str, time: Duration| {
        let mut named: Vec<String> = keys.iter().take(SHOWN_KEYS).map(ToString::to_string).collect();
        if keys.len() > SHOWN_KEYS {
            named.push("...".to_owned());
        }
        let seconds = time.as_secs_f64();
        (!keys.is_empty())
            .then(|| format!("{} keys {what} in {seconds:.1} s: {}", keys.len(), named.join(", ")))
    };
    let tried = drain_time.min(TRY_LIMIT);
    let undone = [
        say(&left.untold, "have commits that the group did not tell", tried),
        say(&left.unwritten, "took no write", tried),
        say(&left.unread, "were not read to their ends", drain_time),
        say(&left.ungrouped, "were not gone on with by the group", drain_time),
    ];
    undone.into_iter().flatten().collect()
}

fn numbers(keys: &BTreeSet<Key>) -> Vec<i64> {
    keys.iter().map(|key| key.0).collect()
}

/// What clients and faults do in the main phase.
fn main_generator(test: &Test) -> BoxedGenerator {
    let config = &test.config;
    let limit_ns = config.time_limit_ms * 1_000_000;
    let mean_ns = (1e9 / config.rate_hz) as u64;
    let pace = Seed(config.seed).stream("main", "pace");
    let ops = match &test.plan.ops {
        Some(ops) => any(vec![clients(script(ops.clone())), idle(test.plan.ends_ns.unwrap_or(0))]),
        None => clients(time_limit(limit_ns, stagger(mean_ns, pace, test.workload.generator(config)))),
    };
    any(vec![nemesis(Box::new(Schedule { events: test.plan.faults.clone(), next: 0 })), ops])
}

/// The planned acts of the nemesis, each at its time.
struct Schedule {
    events: Vec<FaultEvent>,
    next: usize,
}

impl Generator for Schedule {
    fn ask(&self, context: &Context) -> Ask {
        let Some(event) = self.events.get(self.next) else { return Ask::Exhausted };
        let value = if event.value.is_null() { OpValue::None } else { OpValue::Json(event.value.clone()) };
        match Offer::now(context, Draft::new(F::from_name(&event.f), value)) {
            Some(offer) => Ask::Offer(Offer { time_ns: event.time_ns.max(context.time_ns), ..offer }),
            None => Ask::Pending(None),
        }
    }
    fn take(&mut self, _: &Context, _: &mut Offer) {
        self.next += 1;
    }
    fn update(&mut self, _: &Context, _: &Op) {}
}

fn heal_draft(info: &FaultInfo) -> Draft {
    Draft::new(F::from_name(info.heal_f), OpValue::None)
}

/// Carries out an op of the nemesis on a cluster. Errors: the harness could not, in words.
pub(super) fn strike(
    faults: &[&'static dyn Fault],
    cluster: &dyn Cluster,
    op: &Op,
) -> Result<Completion, String> {
    let done = |value| Completion { kind: Kind::Info, value, extra: Extra::default() };
    let word = op.f.name();
    if word == PHASE {
        return Ok(done(OpValue::None));
    }
    let aim = match &op.value {
        OpValue::Json(aim) => aim.clone(),
        _ => Json::Null,
    };
    let fault = faults.iter().find(|fault| [fault.info().strike_f, fault.info().heal_f].contains(&word));
    let fault = fault.ok_or_else(|| format!("no fault of this run has an op `{word}`"))?;
    let effect =
        if word == fault.info().strike_f { fault.strike(cluster, &aim) } else { fault.heal(cluster) };
    let Effect { took_effect, evidence } = effect.map_err(|e| e.to_string())?;
    Ok(done(OpValue::Json(json!({"took_effect": took_effect, "evidence": evidence}))))
}

/// The faults at work, as the progress line shows them.
pub(super) struct Active {
    infos: Vec<&'static FaultInfo>,
    at_work: BTreeMap<&'static str, String>,
}

impl Active {
    pub(super) fn new(infos: Vec<&'static FaultInfo>) -> Active {
        Active { infos, at_work: BTreeMap::new() }
    }

    /// Takes in an op of the nemesis; gives what is at work from now on, if that has changed.
    fn update(&mut self, op: &Op) -> Option<Vec<String>> {
        let word = op.f.name();
        let info = self.infos.iter().find(|info| [info.strike_f, info.heal_f].contains(&word))?;
        match (word == info.strike_f, op.kind, &op.value) {
            (true, Kind::Invoke, OpValue::Json(aim)) => {
                let shape = aim.get("shape").and_then(Json::as_str).unwrap_or_default();
                let nodes = aim.get("nodes").and_then(Json::as_array);
                let nodes: Vec<&str> = nodes.into_iter().flatten().filter_map(Json::as_str).collect();
                let whom = if nodes.is_empty() { shape.to_owned() } else { nodes.join(" ") };
                self.at_work.insert(info.name, format!("{} {whom}", info.name));
            }
            (false, Kind::Info, _) => {
                self.at_work.remove(info.name);
            }
            _ => return None,
        }
        Some(self.at_work.values().cloned().collect())
    }
}

pub(super) fn observe_op(
    op: &Op,
    writer: &mut HistoryWriter,
    active: &mut Active,
    run: &RunDir,
    progress: &RefCell<Progress>,
) -> Result<(), String> {
    writer.append(op).map_err(|e| e.to_string())?;
    let mut progress = progress.borrow_mut();
    progress.op(op);
    if op.process == Process::Nemesis {
        if let Some(at_work) = active.update(op) {
            progress.faults(&at_work);
        }
        let value = match &op.value {
            OpValue::Json(value) => value.to_string(),
            _ => String::new(),
        };
        let line = format!("{} {} {value}", op.kind.name(), op.f.name());
        run.log(op.time_ns.unsigned_abs(), op.index, line.trim_end()).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// The phases that the history marks; each ends where the next begins, or the final reads end. Other marks are about
/// a moment.
fn phase_list(history: &History) -> Vec<Phase> {
    let bounds = [phase::MAIN, phase::HEAL, phase::DRAIN, phase::DRAINED, phase::UNDRAINED];
    let marks = phase::marks(history).filter(|(_, name)| bounds.contains(name));
    let marks: Vec<(i64, &str)> = marks.map(|(op, name)| (op.time_ns(), name)).collect();
    let pairs = marks.windows(2);
    pairs.map(|pair| Phase { name: pair[0].1.to_owned(), from_ns: pair[0].0, until_ns: pair[1].0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_core::generator::{limit, repeat};
    use riprap_core::interpreter::{Interpreter, Next};

    fn event(time_ns: u64, f: &str, value: Json) -> FaultEvent {
        FaultEvent { time_ns, fault: "kill".to_owned(), f: f.to_owned(), value }
    }

    fn info(value: OpValue) -> Completion {
        Completion { kind: Kind::Info, value, extra: Extra::default() }
    }

    /// Runs a schedule beside a client that sends at once as often as it may; each act of the nemesis takes `act_ns`.
    /// Gives `time f value` of each act.
    fn check_schedule(events: Vec<FaultEvent>, act_ns: u64, expected: &[&str]) {
        let sends = limit(3, repeat(Draft::new(F::Send, OpValue::None)));
        let schedule = Box::new(Schedule { events, next: 0 });
        let (mut interpreter, mut now_ns, mut acts, mut sent) = (Interpreter::new(1), 0, Vec::new(), 0);
        interpreter.run(now_ns, any(vec![nemesis(schedule), clients(sends)]));
        loop {
            match interpreter.next(now_ns) {
                Next::Done => break,
                Next::Wait { until_ns } => now_ns = until_ns.expect("nothing is under way"),
                Next::Invoke { thread, op } if op.process == Process::Nemesis => {
                    let value = match &op.value {
                        OpValue::Json(value) => value.to_string(),
                        _ => "-".to_owned(),
                    };
                    acts.push(format!("{} {} {value}", op.time_ns, op.f.name()));
                    now_ns += act_ns;
                    interpreter.complete(now_ns, thread, info(op.value));
                }
                Next::Invoke { thread, .. } => {
                    sent += 1;
                    interpreter.complete(now_ns, thread, info(OpValue::None));
                }
            }
        }
        assert_eq!(acts, expected);
        assert_eq!(sent, 3, "a schedule that waits holds up nobody");
    }

    #[test]
    fn faults_strike_in_the_order_and_at_the_times_of_the_plan() {
        let aim = json!({"shape": "one"});
        check_schedule(vec![], 1, &[]);
        let plan = || vec![event(10, "kill", aim.clone()), event(30, "restart", Json::Null)];
        check_schedule(plan(), 1, &[r#"10 kill {"shape":"one"}"#, "30 restart -"]);
        // One that takes long makes the next late, and keeps its place.
        check_schedule(plan(), 50, &[r#"10 kill {"shape":"one"}"#, "60 restart -"]);
        let together = vec![event(10, "kill", aim.clone()), event(10, "cut", aim.clone())];
        check_schedule(together, 0, &[r#"10 kill {"shape":"one"}"#, r#"10 cut {"shape":"one"}"#]);
    }

    fn nemesis_op(time_ns: i64, kind: Kind, f: &str, value: OpValue) -> Op {
        let (process, extra) = (Process::Nemesis, Extra::default());
        Op { index: 0, time_ns, process, kind, f: F::from_name(f), value, extra }
    }

    #[test]
    fn phases_end_where_the_next_begins() {
        let check = |marks: &[(i64, &str)], expected: &[(&str, i64, i64)]| {
            let mut ops = Vec::new();
            for (time_ns, name) in marks {
                let value = OpValue::Json((*name).into());
                ops.push(nemesis_op(*time_ns, Kind::Invoke, PHASE, value.clone()));
                ops.push(nemesis_op(*time_ns + 1, Kind::Info, PHASE, value));
                ops.push(nemesis_op(*time_ns + 2, Kind::Invoke, "kill", OpValue::None));
                ops.push(nemesis_op(*time_ns + 3, Kind::Info, "kill", OpValue::None));
            }
            let found = phase_list(&ops.into_iter().collect());
            let found: Vec<_> = found.iter().map(|p| (p.name.as_str(), p.from_ns, p.until_ns)).collect();
            assert_eq!(found, expected);
        };
        check(&[], &[]);
        check(&[(0, "main")], &[]);
        check(
            &[(0, "main"), (100, "heal"), (150, "drain"), (170, "drained")],
            &[("main", 0, 100), ("heal", 100, 150), ("drain", 150, 170)],
        );
        // What is said of a phase is none, nor is what another version says.
        check(
            &[
                (0, "main"),
                (99, "interrupted"),
                (100, "heal"),
                (149, "unrecovered"),
                (150, "drain"),
                (160, "intermission"),
                (169, "interrupted"),
                (170, "undrained"),
            ],
            &[("main", 0, 100), ("heal", 100, 150), ("drain", 150, 170)],
        );
    }

    #[test]
    fn what_is_left_undone_is_named_with_its_time() {
        let keys = |n: i64| (0..n).map(Key).collect::<BTreeSet<Key>>();
        let check = |left: Left, drain_s: u64, expected: &[&str]| {
            assert_eq!(undone(&left, Duration::from_secs(drain_s)), expected);
        };
        check(Left::default(), 7, &[]);
        check(Left { unwritten: keys(3), ..Left::default() }, 7, &["3 keys took no write in 7.0 s: 0, 1, 2"]);
        // What is given up is given up in this time, however long the reads take.
        check(
            Left { unwritten: keys(9), unread: keys(2), untold: keys(4), ungrouped: keys(1) },
            120,
            &[
                "4 keys have commits that the group did not tell in 30.0 s: 0, 1, 2, 3",
                "9 keys took no write in 30.0 s: 0, 1, 2, 3, 4, 5, 6, 7, ...",
                "2 keys were not read to their ends in 120.0 s: 0, 1",
                "1 keys were not gone on with by the group in 120.0 s: 0",
            ],
        );
    }

    #[test]
    fn faults_are_at_work_from_strike_to_heal() {
        let infos: Vec<&FaultInfo> = riprap_nemesis::ALL.iter().map(|fault| fault.info()).collect();
        let mut active = Active::new(infos);
        for (kind, f, aim, expected) in [
            (Kind::Invoke, "kill", json!({"shape": "minority", "nodes": ["n1", "n2"]}), Some("kill n1 n2")),
            // Its completion tells that it took effect, which is not shown.
            (Kind::Info, "kill", json!({"took_effect": true}), None),
            (
                Kind::Invoke,
                "partition",
                json!({"shape": "bridge", "cut": []}),
                Some("kill n1 n2, partition bridge"),
            ),
            (Kind::Invoke, "restart", Json::Null, None),
            (Kind::Info, "restart", Json::Null, Some("partition bridge")),
            (Kind::Info, PHASE, Json::Null, None),
            (Kind::Info, "heal-partition", json!({"took_effect": true}), Some("")),
        ] {
            let op = nemesis_op(0, kind, f, OpValue::Json(aim));
            assert_eq!(active.update(&op).map(|at_work| at_work.join(", ")).as_deref(), expected, "{f}");
        }
    }
}
