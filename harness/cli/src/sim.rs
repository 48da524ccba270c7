//! `riprap sim`: simulated runs of many seeds, on several threads.
//!
//! Each seed is a run of its own, by itself and the same on every machine and with any number of jobs. Runs leave nothing
//! behind; the first that is not valid, or each with `--keep-going`, is run once more and written down, which shows the
//! very same again.

use crate::args::{SimArgs, TestArgs, other_words};
use crate::scenario::trace;
use crate::swarm;
use crate::test::sim::simulate_quietly;
use crate::test::{Test, system};
use crate::{Failure, print};
use riprap_checker::{Valid, Verdict};
use riprap_live::interrupt;
use riprap_results::{REDRAW_INTERVAL, StatusLine};
use riprap_sim::Trace;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;

/// With `--keep-going`, so many failures are written down at most: nobody looks at more.
const MAX_KEPT: usize = 10;

/// Seeds from the first to the last, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seeds {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl std::str::FromStr for Seeds {
    type Err = String;

    /// `1..1000`, or one seed.
    fn from_str(text: &str) -> Result<Seeds, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let number = |text: &str| text.parse::<u64>().ok();
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Seeds { first, last }),
            _ => Err("FIRST..LAST, such as 1..1000, or one seed is right".to_owned()),
        }
    }
}

impl Seeds {
    pub(crate) fn count(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }
}

/// What one seed came to.
struct Ran {
    seed: u64,
    valid: Valid,
    /// In a line.
    why: String,
    anomalies: Vec<String>,
    trace: String,
    simulated_ms: u64,
    steps: u64,
    ops: usize,
}

pub(crate) fn run(args: &SimArgs) -> Result<u8, Failure> {
    // Whatever is wrong with the arguments is wrong for every seed.
    test_of(args, args.seeds.first)?;
    let stop = interrupt::catch();
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let enough = AtomicBool::new(false);
    let (sender, receiver) = channel();
    let mut tally = Tally::new(args.seeds, began);
    std::thread::scope(|scope| {
        for _ in 0..args.jobs {
            let (sender, next, enough) = (sender.clone(), &next, &enough);
            scope.spawn(move || work(args, next, enough, stop, &sender));
        }
        drop(sender);
        tally.gather(&receiver)
    })?;
    tally.show(args, stop)
}

/// The run of one seed.
fn test_of(args: &SimArgs, seed: u64) -> Result<Test, Failure> {
    let config = Test::config(&TestArgs { seed: Some(seed), sim: true, ..args.test.clone() })?;
    let config = match system(&config.system)?.0.simulated() {
        Some(simulated) if !args.no_swarm => swarm::draw(config, &args.given, simulated),
        _ => config,
    };
    Test::of(config, args.test.bin.clone(), None)
}

/// The arguments that run one seed of a `riprap sim` with these arguments.
fn one_seed(args: impl Iterator<Item = OsString>, seed: u64) -> Vec<String> {
    let mut words = vec!["sim".to_owned(), "--seeds".to_owned(), seed.to_string()];
    let others = other_words(args, "sim", &["--seeds", "--jobs"], &["--keep-going"]);
    words.extend(others.into_iter().map(|word| word.to_string_lossy().into_owned()));
    words
}

/// Takes seeds until there are none.
fn work(
    args: &SimArgs,
    next: &AtomicU64,
    enough: &AtomicBool,
    stop: &AtomicBool,
    results: &Sender<Result<Ran, Failure>>,
) {
    while !enough.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
        let n = next.fetch_add(1, Ordering::Relaxed);
        if n >= args.seeds.count() {
            return;
        }
        let ran = simulate(args, args.seeds.first + n, stop);
        let is_enough = match &ran {
            Ok(ran) => ran.valid != Valid::True && !args.keep_going,
            // Its seed is one that was not run.
            Err(Failure::Interrupted(_)) => return,
            Err(_) => true,
        };
        if is_enough {
            enough.store(true, Ordering::Relaxed);
        }
        // Who does not listen any more has failed already.
        if results.send(ran).is_err() {
            return;
        }
    }
}

fn simulate(args: &SimArgs, seed: u64, stop: &AtomicBool) -> Result<Ran, Failure> {
    let test = test_of(args, seed)?;
    let outcome = simulate_quietly(&test, &|| stop.load(Ordering::Relaxed))?;
    let verdict = &outcome.verdict;
    let part = |name: &str| verdict.parts.get("simulation").and_then(|part| part.get(name));
    let number = |name| part(name).and_then(Json::as_u64).unwrap_or(0);
    Ok(Ran {
        seed,
        valid: verdict.valid,
        why: why(verdict),
        anomalies: verdict.forbidden().map(|(name, _)| name.to_owned()).collect(),
        trace: trace(verdict),
        simulated_ms: number("simulated_ms"),
        steps: number("steps"),
        ops: outcome.history.pairs().count(),
    })
}

/// Why it is not valid, in a line.
pub(crate) fn why(verdict: &Verdict) -> String {
    let forbidden: Vec<String> =
        verdict.forbidden().map(|(name, anomaly)| format!("{name} {}", anomaly.count)).collect();
    if !forbidden.is_empty() {
        return forbidden.join(", ");
    }
    verdict.why.first().cloned().unwrap_or_default()
}

/// What all came to.
struct Tally {
    seeds: Seeds,
    began: Instant,
    line: StatusLine,
    ran: BTreeMap<u64, Ran>,
}

impl Tally {
    fn new(seeds: Seeds, began: Instant) -> Tally {
        Tally { seeds, began, line: StatusLine::stderr(), ran: BTreeMap::new() }
    }

    fn gather(&mut self, results: &Receiver<Result<Ran, Failure>>) -> Result<(), Failure> {
        loop {
            match results.recv_timeout(REDRAW_INTERVAL) {
                Ok(ran) => {
                    let ran = ran?;
                    if ran.valid != Valid::True {
                        self.line.note(&format!(
                            "riprap: seed {}: {}: {}",
                            ran.seed,
                            word(ran.valid),
                            ran.why
                        ));
                    }
                    self.ran.insert(ran.seed, ran);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.progress();
        }
        self.line.wipe();
        Ok(())
    }

    fn count(&self, valid: Valid) -> usize {
        self.ran.values().filter(|ran| ran.valid == valid).count()
    }

    fn simulated_s(&self) -> f64 {
        self.ran.values().map(|ran| ran.simulated_ms).sum::<u64>() as f64 / 1e3
    }

    /// All that happened in all runs, as a hash: the same for the same seeds, whatever ran them.
    fn trace(&self) -> String {
        let mut all = Trace::new(self.seeds.first);
        self.ran.values().for_each(|ran| all.absorb_bytes(ran.trace.as_bytes()));
        all.to_string()
    }

    fn progress(&mut self) {
        let (done, all) = (self.ran.len(), self.seeds.count());
        let bad = done - self.count(Valid::True);
        let (simulated_s, took_s) = (self.simulated_s(), self.began.elapsed().as_secs_f64());
        let rate = simulated_s / took_s;
        let line = format!(
            "sim    {done}/{all} seeds   {bad} not valid   {simulated_s:.0} simulated s, {rate:.0} a second"
        );
        self.line.show(|_, _| line);
    }

    /// The end: failures are written down, unless there is no time for that any more, and all is summed up.
    fn show(&self, args: &SimArgs, stop: &AtomicBool) -> Result<u8, Failure> {
        let took_s = self.began.elapsed().as_secs_f64();
        let bad: Vec<&Ran> = self.ran.values().filter(|ran| ran.valid != Valid::True).collect();
        let kept = if args.keep_going { MAX_KEPT } else { 1 };
        let mut runs = BTreeMap::new();
        for ran in bad.iter().take(kept).take_while(|_| !stop.load(Ordering::Relaxed)) {
            let command = one_seed(std::env::args_os().skip(1), ran.seed);
            let (path, verdict) = match test_of(args, ran.seed)?.keep(&args.test.store, command, stop) {
                Err(Failure::Interrupted(_)) => break,
                kept => kept?,
            };
            let again = trace(&verdict);
            if again != ran.trace {
                return Err(Failure::Harness(format!(
                    "seed {} does not replay: its trace was {}, and is {again}; see {}",
                    ran.seed,
                    ran.trace,
                    path.display()
                )));
            }
            runs.insert(ran.seed, path);
        }
        let counts = [Valid::True, Valid::False, Valid::Unknown].map(|valid| self.count(valid));
        let [valid, invalid, unknown] = counts;
        let ops: usize = self.ran.values().map(|ran| ran.ops).sum();
        let steps: u64 = self.ran.values().map(|ran| ran.steps).sum();
        let not_run = self.seeds.count() - self.ran.len() as u64;
        let interrupted = stop.load(Ordering::Relaxed);
        if args.test.json {
            let one = |ran: &&Ran| {
                json!({
                    "seed": ran.seed, "valid": word(ran.valid), "why": ran.why, "anomalies": ran.anomalies,
                    "trace": ran.trace, "run": runs.get(&ran.seed),
                })
            };
            let all = json!({
                "seeds": self.ran.len(), "not_run": not_run, "interrupted": interrupted, "valid": valid, "invalid": invalid, "unknown": unknown, "ops": ops,
                "simulated_s": self.simulated_s(), "took_s": took_s, "steps": steps, "trace": self.trace(),
                "failures": bad.iter().map(one).collect::<Vec<_>>(),
            });
            print(&format!("{all:#}\n"))?;
        } else {
            let mut text = String::new();
            for ran in &bad {
                let run = runs.get(&ran.seed).map_or(String::new(), |path| format!("   {}", path.display()));
                text.push_str(&format!("seed {}   {}   {}{run}\n", ran.seed, word(ran.valid), ran.why));
            }
            text.push_str(&format!(
                "{} of {} seeds: {valid} valid, {invalid} invalid, {unknown} unknown; {ops} ops in {:.0} simulated s; took \
                 {took_s:.1} s; trace {}\n",
                self.ran.len(),
                self.seeds.count(),
                self.simulated_s(),
                self.trace(),
            ));
            if interrupted {
                text.push_str(&format!("interrupted: {not_run} seeds were not run\n"));
            }
            print(&text)?;
        }
        Ok(if invalid > 0 {
            Valid::False.exit_code()
        } else if unknown > 0 || not_run > 0 {
            Valid::Unknown.exit_code()
        } else {
            Valid::True.exit_code()
        })
    }
}

pub(crate) fn word(valid: Valid) -> &'static str {
    match valid {
        Valid::True => "valid",
        Valid::False => "invalid",
        Valid::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_is_run_by_a_command_of_its_own() {
        let check = |args: &str, expected: &str| {
            let words = one_seed(args.split(' ').map(OsString::from), 7);
            assert_eq!(words.join(" "), expected);
        };
        check("sim", "sim --seeds 7");
        check("sim --seeds 1..9 --txn --jobs=2 --keep-going", "sim --seeds 7 --txn");
        check("sim --store a --seeds=1..9 --jobs 4 --nemesis none", "sim --seeds 7 --store a --nemesis none");
    }

    #[test]
    fn seeds_are_a_range_or_one() {
        for (text, expected) in [("1..1000", Some((1, 1000))), ("7", Some((7, 7))), ("3..3", Some((3, 3)))] {
            let seeds: Option<Seeds> = text.parse().ok();
            assert_eq!(seeds.map(|seeds| (seeds.first, seeds.last)), expected, "{text}");
        }
        for text in ["", "..", "5..4", "1..", "a..b", "1...3", "-1..3"] {
            assert!(text.parse::<Seeds>().is_err(), "{text}");
        }
    }
}
