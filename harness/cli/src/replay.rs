//! `riprap replay`: a simulated run again, to the last byte.

use crate::args::ReplayArgs;
use crate::scenario::{self, Origin};
use crate::test::{Test, sim};
use crate::{Failure, print, say};
use riprap_checker::Verdict;
use riprap_core::Op;
use riprap_env::LogLevel;
use riprap_live::interrupt;
use riprap_results::{Paint, Progress, json_text, summary};
use riprap_sim::{HostId, TraceEvent};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) fn run(args: &ReplayArgs) -> Result<u8, Failure> {
    let Origin { config, plan, trace, .. } = scenario::load(&args.run)?;
    let test = Test::of(config, None, Some(plan))?;
    let stop = interrupt::catch();
    let (verdict, report) = match &args.store {
        Some(store) => {
            let (run, verdict) =
                test.keep(store, vec!["replay".to_owned(), args.run.display().to_string()], stop)?;
            (verdict, Some(run.join("report.html")))
        }
        None => match follow(args, &test, stop)? {
            Some(verdict) => (verdict, None),
            None => return Ok(0),
        },
    };
    if args.json {
        print(&json_text(&verdict))?;
    } else {
        print(&summary(&verdict, None, report.as_deref(), Paint::stdout()))?;
    }
    let now = scenario::trace(&verdict);
    if now == trace {
        say(&format!("the same as before: trace {now}"));
        Ok(verdict.valid.exit_code())
    } else {
        Err(Failure::Harness(format!(
            "not the same as before: the trace is {now}, and was {trace}; another version of riprap runs another course"
        )))
    }
}

/// Runs it and keeps nothing. `None`: it was ended where that was asked for.
fn follow(args: &ReplayArgs, test: &Test, stop: &AtomicBool) -> Result<Option<Verdict>, Failure> {
    let until_ns = args.until.map(|until| u64::try_from(until.as_nanos()).expect("bounded by its parser"));
    let until_ns = until_ns.unwrap_or(u64::MAX);
    let printer = args.trace.then(|| Rc::new(Printer::new(until_ns)));
    let mut watch = Follow { printer: printer.clone(), until_ns, has_reached: false, stop };
    let silent = RefCell::new(Progress::silent());
    let simulated = test.simulated.expect("scenarios are simulated");
    let setup = |world: &mut riprap_sim::World| {
        if let Some(printer) = printer {
            world.follow(move |now_ns, event| printer.event(now_ns, event, simulated));
        }
    };
    let logs = args.trace.then_some(LogLevel::Info);
    let never = AtomicBool::new(false);
    let outcome = sim::simulate(test, &mut watch, &silent, &never, logs, setup);
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted("the run was over"));
    }
    if watch.has_reached { Ok(None) } else { Ok(Some(outcome?.verdict)) }
}

/// Prints what happens until some time, a line each.
struct Printer {
    until_ns: u64,
    names: RefCell<BTreeMap<usize, String>>,
    is_over: Cell<bool>,
}

impl Printer {
    fn new(until_ns: u64) -> Printer {
        Printer { until_ns, names: RefCell::default(), is_over: Cell::new(false) }
    }

    fn line(&self, now_ns: u64, text: &str) {
        if now_ns <= self.until_ns && !self.is_over.get() {
            // A reader that has gone away wants no more.
            self.is_over.set(writeln!(std::io::stdout(), "{:>12.6} {text}", now_ns as f64 / 1e9).is_err());
        }
    }

    fn name(&self, host: HostId) -> String {
        self.names.borrow().get(&host.0).cloned().unwrap_or_else(|| format!("host{}", host.0))
    }

    fn event(
        &self,
        now_ns: u64,
        event: &TraceEvent<'_>,
        simulated: &dyn riprap_systems::simulated::Simulated,
    ) {
        let across = |from: &HostId, to: &HostId, does: &str, asks: bool, bytes: &[u8]| {
            let (from, to) = (self.name(*from), self.name(*to));
            format!("{from} -> {to} {does}: {}", simulated.describe(asks, bytes))
        };
        let text = match event {
            TraceEvent::Added { host, name } => {
                self.names.borrow_mut().insert(host.0, (*name).to_owned());
                return;
            }
            TraceEvent::Host { host, what, .. } => format!("{} {what}", self.name(*host)),
            TraceEvent::Connect { from, to, pipe } => {
                format!("{} -> {} connects, connection {pipe}", self.name(*from), self.name(*to))
            }
            TraceEvent::Send { from, to, pipe, asks, bytes } => {
                across(from, to, &format!("sends on {pipe}"), *asks, bytes)
            }
            TraceEvent::Arrive { from, to, pipe, asks, bytes } => {
                across(from, to, &format!("arrives on {pipe}"), *asks, bytes)
            }
            TraceEvent::Closed { host, pipe } => {
                format!("{} has no connection {pipe} any more", self.name(*host))
            }
            TraceEvent::Wake { host } => format!("{} wakes", self.name(*host)),
            TraceEvent::Log { host, line } => format!("{} logs: {line}", self.name(*host)),
        };
        self.line(now_ns, &text);
    }
}

/// Ends a run behind some time, or at ^C.
struct Follow<'a> {
    printer: Option<Rc<Printer>>,
    until_ns: u64,
    has_reached: bool,
    stop: &'a AtomicBool,
}

impl sim::Watch for Follow<'_> {
    fn op(&mut self, op: &Op) -> Result<(), String> {
        self.time(op.time_ns.unsigned_abs())?;
        if let Some(printer) = &self.printer {
            let mut line = Vec::new();
            riprap_core::history::write_op(&mut line, op).expect("memory takes it");
            let line = String::from_utf8_lossy(&line);
            printer.line(op.time_ns.unsigned_abs(), &format!("op {} {}", op.index, line.trim_end()));
        }
        Ok(())
    }

    fn time(&mut self, now_ns: u64) -> Result<(), String> {
        self.has_reached = now_ns > self.until_ns;
        let is_over = self.has_reached || self.stop.load(Ordering::Relaxed);
        if is_over { Err("nobody wants more of it".to_owned()) } else { Ok(()) }
    }
}
