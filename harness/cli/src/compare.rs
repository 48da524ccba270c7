//! `riprap compare`: the same plans on several versions, with several defects, or on several systems.
//!
//! Each run is a `riprap test` of its own, a child of this process: a live one enters a sandbox of its own, and whatever
//! becomes of it, the others are not lost with it. All of a seed are run before the next seed, so that a comparison which
//! is cut short has nearly as many runs of each. What is made of them, and when one is worse, `riprap_results` says.

mod child;

use crate::args::{CompareArgs, TestArgs, other_words};
use crate::test::{Test, system};
use crate::{Failure, print};
use child::{Ended, run_child};
use riprap_checker::{Valid, read_history};
use riprap_live::interrupt;
use riprap_results::{
    CompareDir, Comparison, Judged, Outcome, Paint, REDRAW_INTERVAL, Ran, RunDir, StatusLine, Variant,
    json_text, measure, utc_text,
};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Instant, SystemTime};

/// More columns than this nobody reads.
const MAX_VARIANTS: usize = 16;
/// More runs than this are a slip of the finger: live they would take days.
const MAX_RUNS: u64 = 10_000;

/// This command's options that are not a run's, or that each run has its own of.
const OWN_OPTIONS: &[&str] =
    &["--versions", "--defects", "--systems", "--seeds", "--jobs", "--system", "--store"];

/// One of those that are compared.
struct Asked {
    name: String,
    system: String,
    /// Beside what is the same for all.
    defect: Option<String>,
}

/// What workers tell.
enum Told {
    /// How far a run is.
    Progress(usize, u64, String),
    /// A run is over; `None` if it was cut short before there was a verdict.
    Over(usize, u64, Option<Ran>),
}

pub(crate) fn run(args: &CompareArgs) -> Result<u8, Failure> {
    let (by, asked) = asked(args)?;
    let first = check(args, &asked)?;
    let stop = interrupt::catch();
    let (began, wall) = (Instant::now(), SystemTime::now());
    let family = if args.systems.is_empty() { system(&args.test.system)?.0.info().name } else { "systems" };
    let folder =
        CompareDir::create(&args.test.store, family, wall, args.seeds.first).map_err(Failure::harness)?;
    let (ran, interrupted) = run_all(args, &asked, &folder, stop);

    let mut variants: Vec<Variant> = Vec::new();
    for (asked, ran) in asked.iter().zip(ran) {
        let variant = Variant::of(asked.name.clone(), ran, args.seeds.count(), variants.first());
        variants.push(variant);
    }
    let all = Comparison {
        by: by.to_owned(),
        workload: args.test.workload.clone(),
        setting: setting(args, &first),
        riprap: env!("CARGO_PKG_VERSION").to_owned(),
        began: utc_text(wall),
        command: command(),
        seeds: args.seeds.count(),
        took_s: began.elapsed().as_secs_f64(),
        interrupted,
        variants,
    };
    let report = folder.write(&all, &all.html()).map_err(Failure::harness)?;
    print(&if args.test.json { json_text(&all) } else { all.text(Some(&report), Paint::stdout()) })?;
    let verdict = all.verdict();
    match all.failures().next() {
        // What was seen is seen, whatever failed beside it.
        Some((name, seed, error)) if verdict != Valid::False => {
            let (failed, runs) = (all.failures().count(), all.seeds * all.variants.len() as u64);
            Err(Failure::Harness(format!("{failed} of {runs} runs failed: {name}, seed {seed}: {error}")))
        }
        _ => Ok(verdict.exit_code()),
    }
}

/// What is compared, and in what they differ.
fn asked(args: &CompareArgs) -> Result<(&'static str, Vec<Asked>), Failure> {
    let test = &args.test;
    let (by, option, words) = match (&args.versions, &args.defects, &args.systems) {
        (words, _, _) if !words.is_empty() => ("version", "--versions", words),
        (_, words, _) if !words.is_empty() => ("defect", "--defects", words),
        (_, _, words) if !words.is_empty() => ("system", "--systems", words),
        _ => {
            return Err(Failure::usage(
                "nothing to compare; one of --versions, --defects, --systems is right",
            ));
        }
    };
    if !(2..=MAX_VARIANTS).contains(&words.len()) {
        let count = words.len();
        return Err(Failure::Usage(format!("{option} names {count}; from 2 to {MAX_VARIANTS} are right")));
    }
    if by == "version" && test.system.contains('@') {
        return Err(Failure::Usage(format!(
            "--system is `{}` beside --versions; its name alone is right",
            test.system
        )));
    }
    if by == "defect" && test.defect.is_some() {
        return Err(Failure::usage("--defect and --defects exclude each other; one of them is right"));
    }
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    let one = |word: &String| {
        let (system, defect) = match by {
            "version" => (format!("{}@{word}", test.system), None),
            "defect" => (test.system.clone(), (word != "none").then(|| word.clone())),
            _ => (word.clone(), None),
        };
        Asked { name: word.clone(), system, defect }
    };
    let mut all: Vec<Asked> = words.iter().map(one).collect();
    // To compare something with itself tells how much is chance.
    for (asked, word) in all.iter_mut().zip(words) {
        let time = times.entry(word).or_default();
        *time += 1;
        if *time > 1 {
            asked.name = format!("{word} #{time}");
        }
    }
    Ok((by, all))
}

/// Whether each of them can be run as asked. Gives the first one's test.
fn check(args: &CompareArgs, asked: &[Asked]) -> Result<Test, Failure> {
    if args.test.seed.is_some() {
        return Err(Failure::usage("--seed: --seeds FIRST..LAST is right"));
    }
    if args.jobs > 1 && !args.test.sim {
        let jobs = args.jobs;
        return Err(Failure::Usage(format!(
            "--jobs is `{jobs}`; 1 is right, or --sim: runs on real nodes take turns, for side by side they would slow each \
             other down"
        )));
    }
    let runs = args.seeds.count().saturating_mul(asked.len() as u64);
    if runs > MAX_RUNS {
        return Err(Failure::Usage(format!("--seeds asks for {runs} runs; at most {MAX_RUNS} are right")));
    }
    let resolve = |asked: &Asked| {
        let (system, seed) = (asked.system.clone(), Some(args.seeds.first));
        let defect = asked.defect.clone().or_else(|| args.test.defect.clone());
        Test::resolve(&TestArgs { system, defect, seed, ..args.test.clone() })
    };
    let tests: Vec<Test> = asked.iter().map(resolve).collect::<Result<_, _>>()?;
    Ok(tests.into_iter().next().expect("there are two at least"))
}

/// What was the same for all, for the page.
fn setting(args: &CompareArgs, first: &Test) -> BTreeMap<String, String> {
    let config = &first.config;
    let mut setting = BTreeMap::from([
        ("nodes".to_owned(), config.nodes.to_string()),
        ("faults".to_owned(), config.nemesis.join(", ")),
        ("time of a run".to_owned(), format!("{} s", config.time_limit_ms as f64 / 1e3)),
    ]);
    if args.systems.is_empty() {
        setting.insert("system".to_owned(), args.test.system.clone());
    }
    if config.sim.is_some() {
        setting.insert("nodes".to_owned(), format!("{}, simulated", config.nodes));
    }
    setting
}

/// The command as it was given.
fn command() -> String {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    format!("riprap {}", words.join(" "))
}

/// Makes all runs, unless the user wants no more. Gives those of each variant, and whether they were cut short.
fn run_all(
    args: &CompareArgs,
    asked: &[Asked],
    folder: &CompareDir,
    stop: &AtomicBool,
) -> (Vec<Vec<Ran>>, bool) {
    let runs: Vec<(usize, u64)> = (args.seeds.first..=args.seeds.last)
        .flat_map(|seed| (0..asked.len()).map(move |n| (n, seed)))
        .collect();
    let (next, interrupts) = (AtomicUsize::new(0), AtomicU32::new(0));
    let (sender, receiver) = channel();
    let ran = std::thread::scope(|scope| {
        for _ in 0..args.jobs {
            let (sender, next, interrupts, runs) = (sender.clone(), &next, &interrupts, &runs);
            scope.spawn(move || {
                while let Some((number, seed)) = runs.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
                    if interrupts.load(Ordering::Relaxed) > 0 {
                        return;
                    }
                    let store = folder.variant_store(number + 1, &asked[number].name);
                    let ran = one_run(&asked[number], seed, &store, folder, interrupts, |line| {
                        tell(&sender, Told::Progress(number, seed, line));
                    });
                    tell(&sender, Told::Over(number, seed, ran));
                }
            });
        }
        drop(sender);
        gather(&receiver, asked, runs.len(), stop, &interrupts)
    });
    (ran, interrupts.load(Ordering::Relaxed) > 0)
}

fn tell(to: &Sender<Told>, told: Told) {
    to.send(told).expect("who gathers stays until all workers are gone");
}

/// Makes one run. `None` if it was cut short before there was a verdict.
fn one_run(
    asked: &Asked,
    seed: u64,
    store: &Path,
    folder: &CompareDir,
    interrupts: &AtomicU32,
    progress: impl FnMut(String),
) -> Option<Ran> {
    let ended = run_child(&words(asked, seed, store), interrupts, progress);
    let run = CompareDir::find_run(store, seed);
    let outcome = match ended {
        Ended::Judged => judge(run.as_deref()),
        Ended::Failed(error) => Err(error),
    };
    let outcome = match outcome {
        Ok(judged) => Outcome::Judged(judged),
        // It is the user who wanted no more.
        Err(_) if interrupts.load(Ordering::Relaxed) > 0 => return None,
        Err(error) => Outcome::Failed { error },
    };
    Some(Ran { seed, run: run.map(|run| folder.link(&run)), outcome })
}

/// The command line of one run, after the program's name.
fn words(asked: &Asked, seed: u64, store: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> =
        ["test", "--system", &asked.system, "--seed", &seed.to_string()].map(Into::into).into();
    let others = other_words(std::env::args_os(), "compare", OWN_OPTIONS, &["--json"]);
    if let Some(defect) = &asked.defect {
        words.extend(["--defect".into(), defect.into()]);
    }
    words.extend(others);
    words.extend(["--store".into(), store.into()]);
    words
}

/// Reads what a run left. Errors: what it did not, in a line.
fn judge(run: Option<&Path>) -> Result<Judged, String> {
    let path: PathBuf = run.ok_or("it left no folder")?.to_owned();
    let run = RunDir::open(&path).map_err(|e| e.to_string())?;
    let verdict = run.read_results().map_err(|e| e.to_string())?;
    let loaded = read_history(run.history_path()).map_err(|e| e.to_string())?;
    Ok(Judged::of(&verdict, measure(&verdict, &loaded.history)))
}

/// Takes in what runs come to, says how far they are, and hears the user.
fn gather(
    told: &Receiver<Told>,
    asked: &[Asked],
    all: usize,
    stop: &AtomicBool,
    interrupts: &AtomicU32,
) -> Vec<Vec<Ran>> {
    let mut line = StatusLine::stderr();
    let mut ran: Vec<Vec<Ran>> = asked.iter().map(|_| Vec::new()).collect();
    let (mut over, mut bad, mut now) = (0, 0, String::new());
    loop {
        if stop.swap(false, Ordering::Relaxed) && interrupts.fetch_add(1, Ordering::Relaxed) == 0 {
            line.note("riprap: interrupted: what runs now heals and is judged; again to stop at once");
        }
        match told.recv_timeout(REDRAW_INTERVAL) {
            Ok(Told::Progress(number, seed, said)) => {
                now = format!("{}, seed {seed}: {said}", asked[number].name);
            }
            Ok(Told::Over(number, seed, outcome)) => {
                over += 1;
                let name = &asked[number].name;
                let said = match outcome.as_ref().map(|ran| &ran.outcome) {
                    Some(Outcome::Judged(judged)) if judged.valid == Valid::True => None,
                    Some(Outcome::Judged(judged)) => Some(format!("{}: {}", judged.valid, judged.why)),
                    Some(Outcome::Failed { error }) => Some(format!("failed: {error}")),
                    None => Some("cut short".to_owned()),
                };
                if let Some(said) = said {
                    bad += 1;
                    line.note(&format!("riprap: {name}, seed {seed}: {}", said.trim_end_matches([':', ' '])));
                }
                ran[number].extend(outcome);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return ran,
        }
        line.show(|width, _| {
            let said = format!("compare   {over} of {all} runs   {bad} not valid   {now}");
            said.chars().take(width).collect()
        });
    }
}
