//! `riprap test`: one run, from deployment to verdict.

use crate::args::TestArgs;
use crate::{Failure, print};
use riprap_checker::{Valid, Verdict};
use riprap_core::client::{ClientLog, Completion, SubscribeVia};
use riprap_core::cluster::Cluster;
use riprap_core::fault::{Effect, Fault, FaultInfo};
use riprap_core::generator::{
    Ask, BoxedGenerator, Context, Draft, Generator, Offer, any, clients, nemesis, once, phases, stagger,
    time_limit,
};
use riprap_core::op::{Extra, F, Kind, Op, OpValue, Process};
use riprap_core::plan::{FaultEvent, Plan, TestConfig};
use riprap_core::system::{CLIENT_SETTING, Deployment, System};
use riprap_core::{History, Seed};
use riprap_live::cluster::{ClusterSpec, LiveCluster};
use riprap_live::interrupt;
use riprap_live::runner::{Happening, Limits, MakeClient, Runner, Strike};
use riprap_live::sandbox::{self, Entered, Inside};
use riprap_nemesis::Choice;
use riprap_results::{
    Faults, HistoryWriter, Paint, Phase, Progress, RunDir, Store, TestRecord, json_text, publish, summary,
    utc_text,
};
use riprap_workloads::{PHASE, Shared, Workload};
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// How long the nodes get to serve for the first time.
const DEPLOY_LIMIT: Duration = Duration::from_secs(60);
/// How long an act of the nemesis may take: it starts processes and waits for probes, on a machine that may be loaded.
const NEMESIS_TIMEOUT: Duration = Duration::from_secs(60);
/// A run as it was asked for, every name resolved.
struct Test {
    config: TestConfig,
    system: &'static dyn System,
    workload: &'static dyn Workload,
    faults: Vec<Choice>,
    plan: Plan,
    deployment: Deployment,
}

pub(crate) fn run(args: &TestArgs) -> Result<u8, Failure> {
    let test = Test::resolve(args)?;
    match sandbox::enter().map_err(Failure::harness)? {
        Entered::Done(code) => Ok(code),
        Entered::Inside(inside) => test.run(args, &inside),
    }
}

/// The workload of that name.
pub(crate) fn workload(name: &str) -> Result<&'static dyn Workload, Failure> {
    riprap_workloads::find(name).ok_or_else(|| {
        let names: Vec<&str> = riprap_workloads::ALL.iter().map(|workload| workload.info().name).collect();
        Failure::Usage(format!("unknown workload `{name}`; one of: {}", names.join(", ")))
    })
}

fn system(name: &str) -> Result<&'static dyn System, Failure> {
    let (name, version) = name.split_once('@').map_or((name, None), |(name, version)| (name, Some(version)));
    let system = riprap_systems::find(name).ok_or_else(|| {
        let names: Vec<&str> = riprap_systems::ALL.iter().map(|system| system.info().name).collect();
        Failure::Usage(format!("unknown system `{name}`; one of: {}", names.join(", ")))
    })?;
    match version {
        Some(version) => Err(Failure::Usage(format!(
            "system `{name}` has no version `{version}` to choose: it is part of this program; `--system {name}` is right"
        ))),
        None => Ok(system),
    }
}

impl Test {
    /// Resolves every name and checks every number, before anything is started.
    fn resolve(args: &TestArgs) -> Result<Test, Failure> {
        let system = system(&args.system)?;
        let workload = workload(&args.workload)?;
        unsupported(args, system)?;
        let faults = riprap_nemesis::parse(&args.nemesis, args.nodes).map_err(Failure::Usage)?;
        let config = TestConfig {
            system: args.system.clone(),
            workload: args.workload.clone(),
            nemesis: args.nemesis.clone(),
            nodes: args.nodes,
            time_limit_ms: millis(args.time_limit),
            rate_hz: args.rate,
            concurrency: args.concurrency,
            seed: args.seed.map_or_else(draw_seed, Ok)?,
            txn: args.txn,
            isolation: args.isolation.into(),
            sub_via: args.sub_via.iter().map(|via| SubscribeVia::from(*via)).collect(),
            acks: args.acks.clone(),
            idempotence: args.idempotence,
            defect: args.defect.clone(),
            replication_factor: args.nodes.min(3),
            keys: args.keys,
            max_writes_per_key: args.max_writes_per_key,
            fault_max_ms: millis(args.fault_time),
            quiet_max_ms: millis(args.quiet_time),
            op_timeout_ms: millis(args.op_timeout),
            recovery_limit_ms: millis(args.recovery_limit),
            drain_limit_ms: millis(args.drain_limit),
            settings: args.settings.iter().cloned().collect(),
        };
        let deployment = Deployment {
            nodes: Vec::new(),
            defect: config.defect.clone(),
            settings: config
                .settings
                .clone()
                .into_iter()
                .filter(|(name, _)| !name.starts_with(CLIENT_SETTING))
                .collect(),
            seed: config.seed,
            program: args.bin.clone(),
        };
        system.validate(&deployment).map_err(Failure::Usage)?;
        let planned: Vec<(&dyn Fault, _)> =
            faults.iter().map(|(fault, shapes)| (*fault, shapes.clone())).collect();
        let plan = Plan::expand(&config, &planned);
        Ok(Test { config, system, workload, faults, plan, deployment })
    }

    fn run(&self, args: &TestArgs, inside: &Inside) -> Result<u8, Failure> {
        let stop = interrupt::catch();
        let config = &self.config;
        let began = SystemTime::now();
        let run = Store::create(&args.store, self.system.info().name, &config.workload, began, config.seed)
            .map_err(Failure::harness)?;
        let run = Arc::new(run);
        let record = TestRecord {
            config: config.clone(),
            riprap: env!("CARGO_PKG_VERSION").to_owned(),
            git_commit: option_env!("RIPRAP_GIT_COMMIT").map(str::to_owned),
            began: utc_text(began),
            args: std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect(),
            versions: self.system.versions(&self.deployment),
        };
        run.write_test(&record).map_err(Failure::harness)?;
        run.write_plan(&self.plan).map_err(Failure::harness)?;
        let progress = RefCell::new(Progress::stderr());
        progress.borrow_mut().note(&format!(
            "riprap: {}{}, {} on {} nodes, faults {}, {} s, seed {}, run {}",
            config.system,
            config.defect.as_ref().map(|defect| format!(" with defect {defect}")).unwrap_or_default(),
            config.workload,
            config.nodes,
            config.nemesis.join(" "),
            config.time_limit_ms as f64 / 1e3,
            config.seed,
            run.path().display(),
        ));
        let outcome = self.carry_out(inside, &run, &progress, stop);
        progress.borrow_mut().finish();
        let (history, verdict) = outcome?;
        let report = publish(&run, &record, &verdict, &history).map_err(Failure::harness)?;
        if args.json {
            print(&json_text(&verdict))?;
        } else {
            print(&summary(&verdict, Some(&record), Some(&report), Paint::stdout()))?;
        }
        remove_data(&run, config, &verdict);
        Ok(verdict.valid.exit_code())
    }

    /// From deployment to verdict.
    fn carry_out(
        &self,
        inside: &Inside,
        run: &Arc<RunDir>,
        progress: &RefCell<Progress>,
        stop: &AtomicBool,
    ) -> Result<(History, Verdict), Failure> {
        let cluster = Arc::new(self.deploy(inside, run, progress, stop)?);
        let mut main = Main::new(self, &cluster, run, progress, stop)?;
        let outcome = main.phases(self);
        let (history, mut verdict) = outcome?;
        for (node, how) in cluster.ended_by_themselves() {
            // Nobody had killed it: whatever it was, the system under test gave up by itself.
            verdict = verdict
                .merge(Verdict::invalid("nodes", format!("{node} ended by itself: {how}; see its log")));
        }
        cluster.stop().map_err(Failure::harness)?;
        Ok((history, verdict.with_part("seed", self.config.seed)))
    }

    fn deploy(
        &self,
        inside: &Inside,
        run: &Arc<RunDir>,
        progress: &RefCell<Progress>,
        stop: &AtomicBool,
    ) -> Result<LiveCluster, Failure> {
        progress.borrow_mut().phase("deploy", Some(DEPLOY_LIMIT));
        let nodes = run.path().join("nodes");
        let spec = ClusterSpec {
            system: self.system,
            nodes: self.config.nodes,
            data_root: nodes.clone(),
            log_root: nodes,
            deployment: self.deployment.clone(),
        };
        let cluster = LiveCluster::new(inside, spec).map_err(Failure::harness)?;
        for node in cluster.nodes() {
            cluster.start(node).map_err(Failure::harness)?;
        }
        let serving = cluster.await_serving(DEPLOY_LIMIT, || {
            progress.borrow_mut().tick();
            stop.load(Ordering::Relaxed)
        });
        serving.map_err(|why| {
            Failure::Harness(format!("the cluster does not serve: {why}; logs in {}", run.path().display()))
        })?;
        Ok(cluster)
    }
}

/// The part of a run that makes history.
struct Main<'a> {
    cluster: Arc<LiveCluster>,
    run: &'a Arc<RunDir>,
    progress: &'a RefCell<Progress>,
    stop: &'a AtomicBool,
    runner: Runner<'a>,
}

impl<'a> Main<'a> {
    fn new(
        test: &Test,
        cluster: &Arc<LiveCluster>,
        run: &'a Arc<RunDir>,
        progress: &'a RefCell<Progress>,
        stop: &'a AtomicBool,
    ) -> Result<Main<'a>, Failure> {
        let config = &test.config;
        let limits = Limits {
            concurrency: config.concurrency,
            op_timeout: Duration::from_millis(config.op_timeout_ms),
            nemesis_timeout: NEMESIS_TIMEOUT,
        };
        let mut writer = run.history_writer().map_err(Failure::harness)?;
        let infos: Vec<&'static FaultInfo> = test.faults.iter().map(|(fault, _)| fault.info()).collect();
        let observe = {
            let mut active = Active::new(infos);
            move |happening: Happening<'_>| match happening {
                Happening::Op(op) => observe_op(op, &mut writer, &mut active, run, progress),
                Happening::Tick => {
                    progress.borrow_mut().tick();
                    Ok(())
                }
            }
        };
        let runner =
            Runner::new(limits, make_client(test, cluster, run), strike(test, cluster), stop, observe);
        Ok(Main { cluster: Arc::clone(cluster), run, progress, stop, runner })
    }

    /// Main, heal, drain, check.
    fn phases(&mut self, test: &Test) -> Result<(History, Verdict), Failure> {
        let config = &test.config;
        let time_limit = Duration::from_millis(config.time_limit_ms);
        self.begin("main", Some(time_limit))?;
        self.generate(main_generator(test))?;
        let interrupted = self.stop.swap(false, Ordering::Relaxed);
        if interrupted {
            let note = "riprap: interrupted: healing, then reading what is there; again to stop at once";
            self.progress.borrow_mut().note(note);
        }

        let recovery_limit = Duration::from_millis(config.recovery_limit_ms);
        self.begin("heal", Some(recovery_limit))?;
        let heals = test.faults.iter().map(|(fault, _)| nemesis(once(heal_draft(fault.info())))).collect();
        self.generate(phases(heals))?;
        let healed = Instant::now();
        let recovered = self.cluster.await_serving(recovery_limit, || {
            self.progress.borrow_mut().tick();
            self.stop.load(Ordering::Relaxed)
        });
        let recovery = healed.elapsed();

        let drain_limit = Duration::from_millis(config.drain_limit_ms);
        self.begin("drain", Some(drain_limit))?;
        let (generator, drain) = test.workload.final_generator(config, self.runner.history());
        self.generate(time_limit_or_end(drain_limit, generator))?;
        let pending = drain.pending();
        self.begin(if pending.is_empty() { "drained" } else { "undrained" }, None)?;

        self.progress.borrow_mut().phase("check", None);
        let history = self.runner.history();
        let options =
            riprap_checker::Options { drained: pending.is_empty(), ..test.workload.options(config) };
        let infos: Vec<&FaultInfo> = test.faults.iter().map(|(fault, _)| fault.info()).collect();
        let faults = Faults::of(history, &infos);
        let mut verdict = riprap_checker::check(history, &options).merge(faults.verdict());
        for info in infos.iter().filter(|info| !faults.0.contains_key(info.name)) {
            let why = format!("{} never struck: the run was too short for it", info.name);
            verdict = verdict.merge(Verdict::unknown("faults", why));
        }
        if let Err(why) = &recovered {
            verdict = verdict
                .merge(Verdict::unknown("recovery", format!("the cluster does not serve again: {why}")));
        }
        if !pending.is_empty() {
            let keys: Vec<String> = pending.iter().take(8).map(ToString::to_string).collect();
            let why = format!(
                "{} keys were not read to their ends within {drain_limit:?} (keys {} ...)",
                pending.len(),
                keys.join(", ")
            );
            verdict = verdict.merge(Verdict::unknown("drain", why));
        }
        if interrupted {
            verdict = verdict.merge(Verdict::unknown("interrupted", "the main phase was cut short"));
        }
        let liveness = json!({
            "recovered": recovered.is_ok(),
            "recovery_ms": recovery.as_millis() as u64,
            "drained": pending.is_empty(),
            "dropped_packets": self.cluster.dropped_packets(),
        });
        let verdict = verdict
            .with_part("phases", phase_list(history))
            .with_part("faults", &faults)
            .with_part("liveness", liveness);
        self.run.log(0, history.len() as u64, "checked").map_err(Failure::harness)?;
        Ok((history.clone(), verdict))
    }

    fn begin(&mut self, phase: &str, limit: Option<Duration>) -> Result<(), Failure> {
        if limit.is_some() {
            self.progress.borrow_mut().phase(phase, limit);
        }
        let mark = Draft::new(F::Other(PHASE.into()), OpValue::Json(phase.into()));
        self.generate(nemesis(once(mark)))
    }

    fn generate(&mut self, generator: BoxedGenerator) -> Result<(), Failure> {
        self.runner.run(generator).map_err(Failure::harness)
    }
}

/// What clients and faults do in the main phase.
fn main_generator(test: &Test) -> BoxedGenerator {
    let config = &test.config;
    let limit_ns = config.time_limit_ms * 1_000_000;
    let mean_ns = (1e9 / config.rate_hz) as u64;
    let pace = Seed(config.seed).stream("main", "pace");
    let ops = clients(time_limit(limit_ns, stagger(mean_ns, pace, test.workload.generator(config))));
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

fn time_limit_or_end(limit: Duration, generator: BoxedGenerator) -> BoxedGenerator {
    time_limit(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX), generator)
}

fn make_client(test: &Test, cluster: &LiveCluster, run: &Arc<RunDir>) -> MakeClient {
    let (config, workload, system) = (test.config.clone(), test.workload, test.system);
    let deployment = cluster.deployment();
    let shared = Shared {
        connect: Arc::new(move |client_config| system.client(client_config)),
        bootstrap: deployment.nodes.iter().map(|place| system.bootstrap(deployment, place.id)).collect(),
        log: client_log(run),
        topics: Arc::default(),
    };
    Arc::new(move |process: Process| workload.client(&config, &shared, &format!("riprap-{process}")))
}

/// Client libraries' warnings go into the run's log, with the time of the run.
fn client_log(run: &Arc<RunDir>) -> ClientLog {
    let (run, began) = (Arc::clone(run), Instant::now());
    ClientLog(Arc::new(move |line| {
        let time_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // A warning that cannot be written must not end the run: the history's own writer tells of a full disk.
        let _ = run.log(time_ns, 0, line);
    }))
}

fn strike(test: &Test, cluster: &Arc<LiveCluster>) -> Strike {
    let faults: Vec<&'static dyn Fault> = test.faults.iter().map(|(fault, _)| *fault).collect();
    let cluster = Arc::clone(cluster);
    Arc::new(move |op| {
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
            if word == fault.info().strike_f { fault.strike(&*cluster, &aim) } else { fault.heal(&*cluster) };
        let Effect { took_effect, evidence } = effect.map_err(|e| e.to_string())?;
        Ok(done(OpValue::Json(json!({"took_effect": took_effect, "evidence": evidence}))))
    })
}

/// The faults at work, as the progress line shows them.
struct Active {
    infos: Vec<&'static FaultInfo>,
    at_work: BTreeMap<&'static str, String>,
}

impl Active {
    fn new(infos: Vec<&'static FaultInfo>) -> Active {
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

fn observe_op(
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

/// The phases that the history marks; each ends where the next begins.
fn phase_list(history: &History) -> Vec<Phase> {
    let marks: Vec<(i64, &str)> = history
        .ops()
        .filter(|op| op.f().name() == PHASE && op.kind() == Kind::Invoke)
        .filter_map(|op| Some((op.time_ns(), op.json()?.as_str()?)))
        .collect();
    let pairs = marks.windows(2);
    pairs.map(|pair| Phase { name: pair[0].1.to_owned(), from_ns: pair[0].0, until_ns: pair[1].0 }).collect()
}

/// The nodes' data is kept only where somebody will want to look at it.
fn remove_data(run: &RunDir, config: &TestConfig, verdict: &Verdict) {
    if verdict.valid != Valid::True {
        return;
    }
    for node in riprap_core::NodeId::first(config.nodes) {
        let data: &Path = &run.path().join("nodes").join(node.to_string()).join("data");
        // What cannot be removed takes space and harms nobody.
        let _ = std::fs::remove_dir_all(data);
    }
}

fn unsupported(args: &TestArgs, system: &dyn System) -> Result<(), Failure> {
    let name = system.info().name;
    let complaint = if args.sim {
        Some("--sim: this version has no simulation; leave it out to run live")
    } else if !args.hosts.is_empty() {
        Some("--hosts: this version runs in the local sandbox only; leave it out")
    } else if args.bootstrap.is_some() {
        Some("--bootstrap: this version tests clusters that it deploys itself; leave it out")
    } else if args.txn {
        return Err(Failure::Usage(format!(
            "--txn: system `{name}` has no transactions in this version; leave it out"
        )));
    } else {
        None
    };
    match complaint {
        Some(complaint) => Err(Failure::usage(complaint)),
        None => Ok(()),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("bounded by its parser")
}

/// A seed that is short enough to be read out and long enough not to be met twice.
fn draw_seed() -> Result<u64, Failure> {
    use std::io::Read as _;
    let mut bytes = [0; 4];
    let drawn = std::fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    drawn.map_err(|e| Failure::Harness(format!("failed to draw a seed from /dev/urandom: {e}")))?;
    Ok(u64::from(u32::from_le_bytes(bytes)))
}
