//! `riprap self-test`: every planted defect has to be found, and nothing where there is none.
//!
//! A defect says under which flags it shows and as what. Seed after seed is simulated with it, until one of its anomalies
//! shows or the budget is spent; the clean system runs on the very same seeds. What was found first is shrunk.

use crate::args::{Cli, Command, SelfTestArgs, TestArgs};
use crate::shrink::{Case, Limit, shrink};
use crate::sim::{why, word};
use crate::test::sim::simulate_quietly;
use crate::test::{Test, system};
use crate::{Failure, print};
use clap::Parser as _;
use riprap_checker::Valid;
use riprap_core::system::DefectInfo;
use riprap_live::interrupt;
use riprap_live::machine::thread_cpu_time;
use riprap_results::{
    CleanRun, DefectRow, Paint, REDRAW_INTERVAL, SelfTest, SelfTestDir, Shrunk, Start, StatusLine, json_text,
    utc_text,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

/// How far apart the first seeds of two searches for one defect are: further than any search gets.
const SEEDS_PER_START: u64 = 10_000;

pub(crate) fn run(args: &SelfTestArgs) -> Result<u8, Failure> {
    let (system, defects) = chosen(args)?;
    let stop = interrupt::catch();
    let (began, wall) = (Instant::now(), SystemTime::now());
    let folder = SelfTestDir::create(&args.store, system, wall, 1).map_err(Failure::harness)?;
    // The first search for each defect, then the second, ...: what is wrong with one shows early.
    let searches: Vec<(usize, u64)> =
        (0..args.starts).flat_map(|start| (0..defects.len()).map(move |defect| (defect, start))).collect();
    let next = AtomicUsize::new(0);
    let (sender, receiver) = channel();
    let mut found: Vec<Vec<(u64, Search)>> = defects.iter().map(|_| Vec::new()).collect();
    std::thread::scope(|scope| {
        for _ in 0..args.jobs {
            let (sender, next, searches, defects, folder) =
                (sender.clone(), &next, &searches, &defects, &folder);
            scope.spawn(move || {
                while let Some((defect, start)) = searches.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let search = Search::of(args, &defects[*defect], *start, folder, stop);
                    if matches!(search, Err(Failure::Interrupted(_))) {
                        return;
                    }
                    let failed = search.is_err();
                    if sender.send((*defect, *start, search)).is_err()
                        || failed
                        || stop.load(Ordering::Relaxed)
                    {
                        // Nobody is to begin another.
                        next.store(searches.len(), Ordering::Relaxed);
                    }
                }
            });
        }
        drop(sender);
        gather(&receiver, &defects, searches.len(), &mut found)
    })?;
    let unfinished = searches.len() - found.iter().map(Vec::len).sum::<usize>();
    let of_each = defects.iter().zip(found).filter(|(_, searches)| !searches.is_empty());
    let all = SelfTest {
        system: system.to_owned(),
        riprap: env!("CARGO_PKG_VERSION").to_owned(),
        began: utc_text(wall),
        command: command(),
        budget_s: args.budget.as_secs_f64(),
        took_s: began.elapsed().as_secs_f64(),
        defects: of_each.map(|(target, searches)| target.row(searches)).collect(),
        unfinished,
    };
    let report = folder.write(&all, &all.html()).map_err(Failure::harness)?;
    print(&if args.json { json_text(&all) } else { all.text(Some(&report), Paint::stdout()) })?;
    Ok(verdict(&all).exit_code())
}

/// What is not found is a failure of the harness' promise, and so is an anomaly of the clean system; a clean run that came
/// to nothing says nothing.
fn verdict(all: &SelfTest) -> Valid {
    if all.passed() {
        return Valid::True;
    }
    let is_wrong =
        |row: &DefectRow| !row.is_found() || row.unclean().any(|run| run.valid == word(Valid::False));
    if all.defects.iter().any(is_wrong) { Valid::False } else { Valid::Unknown }
}

/// The command as it was given.
fn command() -> String {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    format!("riprap {}", words.join(" "))
}

/// The defects that are looked for, by name, and whose they are. Errors: a name that is none.
fn chosen(args: &SelfTestArgs) -> Result<(&'static str, Vec<Target>), Failure> {
    let (system, _) = system(&args.system)?;
    let info = system.info();
    if system.simulated().is_none() || info.defects.is_empty() {
        return Err(Failure::Usage(format!("system `{}` has no planted defects", info.name)));
    }
    for name in &args.defects {
        if !info.defects.iter().any(|defect| defect.name == name) {
            let names: Vec<&str> = info.defects.iter().map(|defect| defect.name).collect();
            return Err(Failure::Usage(format!("unknown defect `{name}`; one of: {}", names.join(", "))));
        }
    }
    let is_chosen =
        |defect: &&DefectInfo| args.defects.is_empty() || args.defects.iter().any(|name| defect.name == name);
    Ok((
        info.name,
        info.defects.iter().filter(is_chosen).map(|defect| Target::of(info.name, defect)).collect(),
    ))
}

/// A defect, and the runs that bring it out.
struct Target {
    defect: &'static DefectInfo,
    args: TestArgs,
}

impl Target {
    fn of(system: &str, defect: &'static DefectInfo) -> Target {
        let words =
            ["riprap", "test", "--system", system].into_iter().chain(defect.trigger.split_whitespace());
        let cli = Cli::try_parse_from(words).expect("a test holds triggers to the command line");
        let Command::Test(args) = cli.command else { unreachable!("it says `test`") };
        Target { defect, args: TestArgs { sim: true, ..*args } }
    }

    fn test(&self, seed: u64, has_defect: bool) -> Result<Test, Failure> {
        let defect = has_defect.then(|| self.defect.name.to_owned());
        Test::resolve(&TestArgs { seed: Some(seed), defect, ..self.args.clone() })
    }

    fn row(&self, mut searches: Vec<(u64, Search)>) -> DefectRow {
        searches.sort_by_key(|(start, _)| *start);
        let mut row = DefectRow {
            name: self.defect.name.to_owned(),
            source: self.defect.source.to_owned(),
            mechanism: self.defect.mechanism.to_owned(),
            trigger: self.defect.trigger.to_owned(),
            expected: self.defect.anomalies.iter().map(|name| (*name).to_owned()).collect(),
            starts: Vec::new(),
            shrunk: None,
            clean: Vec::new(),
        };
        for (_, search) in searches {
            row.starts.push(search.start);
            row.clean.extend(search.clean);
            row.shrunk = row.shrunk.or(search.shrunk);
        }
        row
    }

    /// Shrinks a failure and writes down what is left. `None` if its plan does not show the anomaly again.
    fn shrink(
        &self,
        args: &SelfTestArgs,
        case: Case,
        anomaly: &str,
        folder: &SelfTestDir,
        stop: &AtomicBool,
    ) -> Result<Option<Shrunk>, Failure> {
        let before = thread_cpu_time();
        let limit = Limit { deadline: Instant::now() + args.shrink_limit, stop };
        let Some(smallest) = shrink(case, anomaly, &limit, StatusLine::silent())? else { return Ok(None) };
        let cpu = thread_cpu_time() - before;
        let scenario =
            folder.write_scenario(self.defect.name, &smallest.scenario).map_err(Failure::harness)?;
        let run = smallest.keep(&args.store, &scenario, stop)?;
        Ok(Some(Shrunk {
            ops: smallest.ops(),
            faults: smallest.faults(),
            nodes: smallest.nodes(),
            cpu_s: cpu.as_secs_f64(),
            scenario: beside(&args.store, &scenario),
            report: run.map(|run| beside(&args.store, &run.join("report.html"))),
        }))
    }
}

/// A file of the store, as the report of a self-test links to it: that lies two folders below the store.
fn beside(store: &Path, file: &Path) -> String {
    PathBuf::from("../..").join(file.strip_prefix(store).unwrap_or(file)).display().to_string()
}

/// What one search came to.
struct Search {
    start: Start,
    clean: Vec<CleanRun>,
    /// What its failure was shrunk to.
    shrunk: Option<Shrunk>,
}

impl Search {
    fn of(
        args: &SelfTestArgs,
        target: &Target,
        start: u64,
        folder: &SelfTestDir,
        stop: &AtomicBool,
    ) -> Result<Search, Failure> {
        let first_seed = 1 + start * SEEDS_PER_START;
        let is_unwanted = || stop.load(Ordering::Relaxed);
        let (mut spent, mut clean, mut shrunk) = (Duration::ZERO, Vec::new(), None);
        let mut others: Vec<String> = Vec::new();
        let mut found: Option<String> = None;
        let mut seed = first_seed;
        while found.is_none() && spent < args.budget {
            let test = target.test(seed, true)?;
            let before = thread_cpu_time();
            let outcome = simulate_quietly(&test, &is_unwanted)?;
            spent += thread_cpu_time() - before;
            let shown: Vec<&str> = outcome.verdict.forbidden().map(|(name, _)| name).collect();
            let expected = target.defect.anomalies;
            // Of several that which the defect names first: others of them may be a rare coincidence.
            found = expected.iter().find(|name| shown.contains(name)).map(|name| (*name).to_owned());
            for name in shown.into_iter().filter(|name| !expected.contains(name)) {
                if !others.iter().any(|other| other == name) {
                    others.push(name.to_owned());
                }
            }
            let verdict = simulate_quietly(&target.test(seed, false)?, &is_unwanted)?.verdict;
            let why = if verdict.valid == Valid::True { String::new() } else { why(&verdict) };
            clean.push(CleanRun { seed, valid: word(verdict.valid).to_owned(), why });
            if let Some(anomaly) = found.as_ref().filter(|_| start == 0 && !args.no_shrink) {
                let plan = test.plan.clone().with_ops_of(&outcome.history, test.config.concurrency);
                let case = Case { config: test.config.clone(), plan };
                shrunk = target.shrink(args, case, anomaly, folder, stop)?;
            }
            seed += 1;
        }
        let start = Start {
            first_seed,
            seeds: seed - first_seed,
            cpu_s: spent.as_secs_f64(),
            anomaly: found,
            others,
        };
        Ok(Search { start, clean, shrunk })
    }
}

/// Takes in what searches come to, and says how far they are.
fn gather(
    results: &Receiver<(usize, u64, Result<Search, Failure>)>,
    defects: &[Target],
    all: usize,
    found: &mut [Vec<(u64, Search)>],
) -> Result<(), Failure> {
    let mut line = StatusLine::stderr();
    let (mut done, mut missed) = (0, 0);
    loop {
        match results.recv_timeout(REDRAW_INTERVAL) {
            Ok((defect, start, search)) => {
                let search = search?;
                done += 1;
                let name = defects[defect].defect.name;
                if search.start.anomaly.is_none() {
                    missed += 1;
                    let Start { first_seed, seeds, cpu_s, .. } = &search.start;
                    line.note(&format!(
                        "riprap: {name}: not found in {seeds} seeds from {first_seed} on, {cpu_s:.1} s of a processor"
                    ));
                }
                for run in search.clean.iter().filter(|run| run.valid != word(Valid::True)) {
                    line.note(&format!(
                        "riprap: {name}: clean, seed {}: {}: {}",
                        run.seed, run.valid, run.why
                    ));
                }
                found[defect].push((start, search));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        line.show(|_, _| format!("self-test   {done} of {all} searches   {missed} found nothing"));
    }
    Ok(())
}
