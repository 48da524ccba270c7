//! `riprap test`: one run, from deployment to verdict.

pub(crate) mod crash;
mod external;
mod hosts;
mod live;
mod phases;
mod resolve;
pub(crate) mod sim;
mod story;
mod upgrade;

use crate::args::TestArgs;
use crate::{Failure, print};
use crash::NodeCrash;
use live::{LiveStage, RealCluster};
use phases::{Active, Stage as _, observe_op, phases};
pub(crate) use resolve::{USUAL_REPLICATION, place, system, workload};
use resolve::{needs_spare, others};
use riprap_checker::{Valid, Verdict};
use riprap_core::cluster::NodeId;
use riprap_core::plan::{Plan, TestConfig};
use riprap_core::system::Deployment;
use riprap_core::{History, Op};
use riprap_env::LogLevel;
use riprap_live::cluster::{ClusterSpec, LiveCluster};
use riprap_live::interrupt;
use riprap_live::machine;
use riprap_live::sandbox::{self, Entered, Inside};
use riprap_nemesis::Choice;
use riprap_results::{
    HistoryWriter, Paint, Progress, RunDir, StatusLine, Store, TestRecord, json_text, lines_with, publish,
    summary, utc_text,
};
use riprap_systems::Registered;
use riprap_systems::simulated::Simulated;
use riprap_workloads::Workload;
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use story::Story;

/// How long the nodes get to serve for the first time.
const DEPLOY_LIMIT: Duration = Duration::from_secs(60);
/// A disk with less room than this is full: what a node has yet to write may be what did not fit.
const MIN_FREE_BYTES: u64 = 1 << 20;

/// The files that a run's processes open, one for each connection and two to wake each thread that serves one. A client
/// is two of librdkafka's, a producer and a consumer, each with a connection more to its coordinator if it sends in
/// transactions or is in a group. Measured: 25 for each client on 3 nodes, 30 with both coordinators.
const FILES_PER_CLIENT_AND_NODE: u64 = 6;
const FILES_PER_CLIENT: u64 = 14;
/// Everything else: the store, the sandbox, the runner, and clients that are being thrown away while others take their place.
const FILES_OF_RUN: u64 = 256;

/// A run as it was asked for, every name resolved.
pub(crate) struct Test {
    pub(crate) config: TestConfig,
    system: &'static dyn Registered,
    workload: &'static dyn Workload,
    pub(crate) faults: Vec<Choice>,
    pub(crate) plan: Plan,
    deployment: Deployment,
    /// The same of the version that nodes go to, if they do.
    upgraded: Option<Deployment>,
    /// How to simulate the system, if the run is a simulation.
    pub(crate) simulated: Option<&'static dyn Simulated>,
}

pub(crate) fn run(args: &TestArgs) -> Result<u8, Failure> {
    let test = Test::resolve(args)?;
    if args.sim || test.system.existing().is_some() {
        return test.run(args, None);
    }
    test.install()?;
    if !args.hosts.is_empty() {
        return test.run(args, None);
    }
    match sandbox::enter().map_err(Failure::harness)? {
        Entered::Done(code) => Ok(code),
        Entered::Inside(inside) => test.run(args, Some(&inside)),
    }
}

impl Test {
    /// Has there what the system is made of, before there is a sandbox.
    fn install(&self) -> Result<(), Failure> {
        let mut line = StatusLine::stderr();
        let installed = [&self.deployment].into_iter().chain(&self.upgraded).try_for_each(|deployment| {
            self.system.install(deployment, &mut |how_far| line.show(|_, _| how_far.to_owned()))
        });
        line.wipe();
        installed.map_err(Failure::Harness)
    }

    /// Runs it, in the sandbox, on hosts, in simulation or where it is already, and says what came of it.
    fn run(&self, args: &TestArgs, inside: Option<&Inside>) -> Result<u8, Failure> {
        let stop = interrupt::catch();
        if self.simulated.is_none() {
            self.allow_files()?;
        }
        let progress = RefCell::new(Progress::stderr());
        let (run, record) = self.begin(&args.store, std::env::args_os().skip(1).map(lossy).collect())?;
        progress.borrow_mut().note(&self.headline(&run));
        if let Some(left_out) = self.left_out() {
            progress.borrow_mut().note(&left_out);
        }
        let outcome = match inside {
            Some(inside) => self.carry_out(inside, &run, &progress, stop),
            None if self.simulated.is_some() => self.carry_out_simulated(&run, &progress, stop, None),
            None if !args.hosts.is_empty() => hosts::deploy(self, args, &run, &progress, stop)
                .and_then(|cluster| self.carry_out_on(&cluster, &run, &progress, stop)),
            None => external::carry_out(self, args.keep_topics, &run, &progress, stop),
        };
        progress.borrow_mut().finish();
        let (history, verdict) = outcome?;
        // Said before anything is made of it: on a disk that is full it would be lost.
        let published = publish(&run, &record, &verdict, &history);
        if args.json {
            print(&json_text(&verdict))?;
        } else {
            let report = published.as_deref().ok();
            print(&summary(&verdict, Some(&record), report, Paint::stdout()))?;
        }
        published.map_err(Failure::harness)?;
        remove_data(&run, &self.config, &verdict);
        Ok(verdict.valid.exit_code())
    }

    /// Runs it in simulation and writes it down, without a word. Returns where, and what came of it.
    /// `args` are those of a command that does the same. Errors: [`Failure::Interrupted`] at ^C; what is there by then stays.
    pub(crate) fn keep(
        &self,
        store: &Path,
        args: Vec<String>,
        stop: &AtomicBool,
    ) -> Result<(PathBuf, Verdict), Failure> {
        let (run, record) = self.begin(store, args)?;
        let (silent, never) = (RefCell::new(Progress::silent()), AtomicBool::new(false));
        let (history, verdict) = self.carry_out_simulated(&run, &silent, &never, Some(stop))?;
        publish(&run, &record, &verdict, &history).map_err(Failure::harness)?;
        Ok((run.path().to_owned(), verdict))
    }

    /// Makes the run's folder, and writes down what is known before it begins.
    fn begin(&self, store: &Path, args: Vec<String>) -> Result<(Arc<RunDir>, TestRecord), Failure> {
        let (config, began) = (&self.config, SystemTime::now());
        let run = Store::create(store, self.system.info().name, &config.workload, began, config.seed)
            .map_err(Failure::harness)?;
        let record = TestRecord {
            config: config.clone(),
            riprap: env!("CARGO_PKG_VERSION").to_owned(),
            git_commit: option_env!("RIPRAP_GIT_COMMIT").map(str::to_owned),
            began: utc_text(began),
            args,
            versions: match &self.upgraded {
                None => self.system.versions(&self.deployment),
                Some(upgraded) => upgrade::versions(self.system, &self.deployment, upgraded),
            },
        };
        run.write_test(&record).map_err(Failure::harness)?;
        run.write_plan(&self.plan).map_err(Failure::harness)?;
        if let Some(text) = self.system.description() {
            run.write_system(text).map_err(Failure::harness)?;
        }
        Ok((Arc::new(run), record))
    }

    /// What is run, in a line.
    fn headline(&self, run: &RunDir) -> String {
        let config = &self.config;
        format!(
            "riprap: {}{}{}{}, {}{} on {} {}nodes{}{}, faults {}, {} s, seed {}, run {}",
            config.system,
            match config.bootstrap.as_slice() {
                [] => String::new(),
                there => format!(" at {}", there.join(",")),
            },
            config.defect.as_ref().map(|defect| format!(" with defect {defect}")).unwrap_or_default(),
            config.upgrade_to.as_ref().map(|version| format!(" to {version}")).unwrap_or_default(),
            config.workload,
            if config.txn { " in transactions" } else { "" },
            config.nodes,
            if config.sim.is_some() { "simulated " } else { "" },
            others(config),
            match config.hosts.as_slice() {
                [] => String::new(),
                hosts => format!(" ({})", hosts.join(", ")),
            },
            config.nemesis.join(" "),
            config.time_limit_ms as f64 / 1e3,
            config.seed,
            run.path().display(),
        )
    }

    /// What `--nemesis all` does not do here, and why, in a line.
    fn left_out(&self) -> Option<String> {
        let left_out = riprap_nemesis::left_out(place(&self.config));
        if left_out.is_empty() || !self.config.nemesis.iter().any(|word| word == "all") {
            return None;
        }
        let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
        for (name, why) in left_out {
            match by_reason.iter_mut().find(|(reason, _)| *reason == why) {
                Some((_, names)) => names.push(name),
                None => by_reason.push((why, vec![name])),
            }
        }
        let words: Vec<String> =
            by_reason.iter().map(|(why, names)| format!("{} ({why})", names.join(", "))).collect();
        Some(format!("riprap: left out of all faults: {}", words.join("; ")))
    }

    /// Makes sure that the clients may open as many files as they will.
    fn allow_files(&self) -> Result<(), Failure> {
        let most = machine::raise_open_files()
            .map_err(|e| Failure::Harness(format!("failed to raise the limit of open files: {e}")))?;
        let (clients, nodes) = (u64::from(self.config.concurrency), u64::from(self.config.nodes));
        let need = FILES_OF_RUN + clients * (FILES_PER_CLIENT + nodes * FILES_PER_CLIENT_AND_NODE);
        if need > most {
            return Err(Failure::Harness(format!(
                "{clients} clients of {nodes} nodes open up to {need} files, and {most} is the limit; a smaller \
                 --concurrency or a higher limit (ulimit -Hn) is right"
            )));
        }
        Ok(())
    }

    /// From deployment to verdict, in simulation. `stop` has it go on to healing and the final reads, `give_up` nowhere.
    fn carry_out_simulated(
        &self,
        run: &Arc<RunDir>,
        progress: &RefCell<Progress>,
        stop: &AtomicBool,
        give_up: Option<&AtomicBool>,
    ) -> Result<(History, Verdict), Failure> {
        let infos = self.faults.iter().map(|(fault, _)| fault.info()).collect();
        let writer = run.history_writer().map_err(Failure::harness)?;
        let mut recorder = Recorder { run, writer, active: Active::new(infos), progress, give_up };
        let story = Story::of(self.simulated.expect("it is simulated"));
        let setup = |world: &mut riprap_sim::World| story.watch(world);
        let outcome = sim::simulate(self, &mut recorder, progress, stop, Some(LogLevel::Info), setup);
        if recorder.is_given_up() {
            return Err(Failure::Interrupted("the run was over"));
        }
        let outcome = outcome?;
        for (node, log) in &outcome.logs {
            run.write_node_log(*node, log).map_err(Failure::harness)?;
        }
        if let Some(seen) = story.seen(&outcome.history) {
            run.write_messages(&seen).map_err(Failure::harness)?;
        }
        // What the seed came to: whoever replays or shrinks the run needs no generator.
        let plan = self.plan.clone().with_ops_of(&outcome.history, self.config.concurrency);
        run.write_plan(&plan).map_err(Failure::harness)?;
        Ok((outcome.history, outcome.verdict))
    }

    /// From deployment to verdict, in the sandbox.
    fn carry_out(
        &self,
        inside: &Inside,
        run: &Arc<RunDir>,
        progress: &RefCell<Progress>,
        stop: &AtomicBool,
    ) -> Result<(History, Verdict), Failure> {
        let cluster: Arc<dyn RealCluster> = self.deploy(inside, run, progress, stop)?;
        self.carry_out_on(&cluster, run, progress, stop)
    }

    /// From a cluster that serves to the verdict.
    fn carry_out_on(
        &self,
        cluster: &Arc<dyn RealCluster>,
        run: &Arc<RunDir>,
        progress: &RefCell<Progress>,
        stop: &AtomicBool,
    ) -> Result<(History, Verdict), Failure> {
        let mut stage = LiveStage::new(self, cluster, run, progress, stop)?;
        let judged = phases(self, &mut stage, progress, stop);
        if let Some(lost) = cluster.ask_for_lost() {
            return Err(Failure::Harness(format!(
                "{lost}; the history so far is in {}",
                run.path().display()
            )));
        }
        let (history, mut verdict) = judged?;
        let crashes = stage.crashes();
        cluster.bring_logs().map_err(Failure::harness)?;
        if let (Some(crash), Some(full)) = (crashes.first(), full_disk(run.path())) {
            // What it could not write says nothing about the system under test.
            return Err(Failure::Harness(format!("{} {} by itself; {full}", crash.node, crash.how)));
        }
        let broken = self.told_broken(run, &crashes)?;
        verdict = verdict.merge(crash::verdict(&[crashes, broken].concat(), &history));
        if let Err(why) = cluster.stop() {
            // The sandbox's end ends it too, and the verdict is about what was before.
            progress.borrow_mut().note(&format!("riprap: failed to stop the nodes in order: {why}"));
        }
        Ok((history, verdict.with_part("seed", self.config.seed)))
    }

    /// The nodes that say in their logs that they are broken, beside those that ended, line by line.
    fn told_broken(&self, run: &RunDir, ended: &[NodeCrash]) -> Result<Vec<NodeCrash>, Failure> {
        let lines = lines_with(run, self.system.broken()).map_err(Failure::harness)?;
        let told = lines.into_iter().filter_map(|(node, line)| Some((NodeId::from_name(&node)?, line)));
        let told = told.filter(|(node, _)| ended.iter().all(|crash| crash.node != *node));
        Ok(told.map(|(node, line)| NodeCrash::told(node, &line)).collect())
    }

    fn deploy(
        &self,
        inside: &Inside,
        run: &Arc<RunDir>,
        progress: &RefCell<Progress>,
        stop: &AtomicBool,
    ) -> Result<Arc<LiveCluster>, Failure> {
        progress.borrow_mut().phase("deploy", Some(DEPLOY_LIMIT));
        let nodes = run.path().join("nodes");
        let spec = ClusterSpec {
            system: self.system,
            data_root: nodes.clone(),
            log_root: nodes,
            nodes: self.config.all_nodes(),
            has_spare: needs_spare(&self.faults),
            has_disks: self.faults.iter().any(|(fault, _)| fault.needs_disks()),
            has_clocks: self.faults.iter().any(|(fault, _)| fault.needs_clocks()),
            deployment: self.deployment.clone(),
            upgraded: self.config.upgrade_to.clone().zip(self.upgraded.clone()),
        };
        let cluster = LiveCluster::new(inside, spec).map_err(Failure::harness)?;
        cluster.prepare().map_err(Failure::harness)?;
        live::start_all(&*cluster, progress, stop)?.map_err(|why| {
            let hint = full_disk(run.path()).unwrap_or_else(|| format!("logs in {}", run.path().display()));
            Failure::Harness(format!("the cluster does not serve: {why}; {hint}"))
        })?;
        Ok(cluster)
    }
}

fn lossy(arg: OsString) -> String {
    arg.to_string_lossy().into_owned()
}

/// Writes a simulated run down as it happens.
struct Recorder<'a> {
    run: &'a RunDir,
    writer: HistoryWriter,
    active: Active,
    progress: &'a RefCell<Progress>,
    give_up: Option<&'a AtomicBool>,
}

impl Recorder<'_> {
    fn is_given_up(&self) -> bool {
        self.give_up.is_some_and(|give_up| give_up.load(Ordering::Relaxed))
    }
}

impl sim::Watch for Recorder<'_> {
    fn op(&mut self, op: &Op) -> Result<(), String> {
        self.progress.borrow_mut().set_time(op.time_ns.unsigned_abs());
        observe_op(op, &mut self.writer, &mut self.active, self.run, self.progress)
    }

    fn time(&mut self, now_ns: u64) -> Result<(), String> {
        let mut progress = self.progress.borrow_mut();
        progress.set_time(now_ns);
        progress.tick();
        if self.is_given_up() { Err("nobody wants it any more".to_owned()) } else { Ok(()) }
    }
}

/// What to say of the disk that holds a run, if it is full.
fn full_disk(run: &Path) -> Option<String> {
    // What cannot be asked is not known to be full.
    let free_bytes = machine::free_bytes(run).ok()?;
    let full = free_bytes < MIN_FREE_BYTES;
    full.then(|| format!("the disk of {} is full: {free_bytes} bytes are free", run.display()))
}

/// The nodes' data is kept only where somebody will want to look at it.
fn remove_data(run: &RunDir, config: &TestConfig, verdict: &Verdict) {
    if verdict.valid != Valid::True {
        return;
    }
    // One that joined them is the next.
    let spare = NodeId(config.all_nodes() + 1);
    for node in config.nodes_of(None).into_iter().chain([spare]) {
        let data: &Path = &run.path().join("nodes").join(node.to_string()).join("data");
        // What cannot be removed takes space and harms nobody.
        let _ = std::fs::remove_dir_all(data);
    }
}
