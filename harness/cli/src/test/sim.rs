//! A run in simulation: the same workload, faults, interpreter and checker, on a cluster in virtual time.

use super::crash::{self, NodeCrash};
use super::phases::{Stage, phases, strike};
use super::{DEPLOY_LIMIT, Test};
use crate::Failure;
use riprap_checker::Verdict;
use riprap_core::client::Life;
use riprap_core::cluster::{Cluster as _, NodeId};
use riprap_core::fault::Fault;
use riprap_core::generator::BoxedGenerator;
use riprap_core::op::Process;
use riprap_core::{History, Op};
use riprap_env::LogLevel;
use riprap_env::task::Io;
use riprap_results::Progress;
use riprap_sim::runner::{AskServing, Happening, MakeClient, Parts, Runner};
use riprap_sim::{SimCluster, World};
use riprap_systems::simulated::Simulated;
use riprap_workloads::Shared;
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Who is told of what happens in a simulated run.
pub(crate) trait Watch {
    /// An op was invoked or completed. Errors: it could not be written down.
    fn op(&mut self, op: &Op) -> Result<(), String>;

    /// It is so late in the run. Units: nanoseconds. Errors: it is to end here.
    fn time(&mut self, now_ns: u64) -> Result<(), String>;
}

/// What a simulated run came to.
pub(crate) struct Outcome {
    pub(crate) history: History,
    pub(crate) verdict: Verdict,
    /// The nodes that ended by themselves, in that order.
    pub(crate) crashes: Vec<NodeCrash>,
    /// What each node has logged.
    pub(crate) logs: Vec<(NodeId, String)>,
}

/// Nobody looks; the run is given up once it is not wanted any more.
struct Unwatched<'a> {
    is_unwanted: &'a dyn Fn() -> bool,
    is_given_up: bool,
}

impl Watch for Unwatched<'_> {
    fn op(&mut self, _: &Op) -> Result<(), String> {
        Ok(())
    }

    fn time(&mut self, _: u64) -> Result<(), String> {
        self.is_given_up = (self.is_unwanted)();
        if self.is_given_up { Err("nobody wants it any more".to_owned()) } else { Ok(()) }
    }
}

/// Runs a test in simulation without a word, to its end; or until nobody wants it any more, which is asked after each
/// simulated second: then it is [`Failure::Interrupted`], for what has happened until then is not the run.
pub(crate) fn simulate_quietly(test: &Test, is_unwanted: &dyn Fn() -> bool) -> Result<Outcome, Failure> {
    let (silent, never) = (RefCell::new(Progress::silent()), AtomicBool::new(false));
    let mut watch = Unwatched { is_unwanted, is_given_up: false };
    let outcome = simulate(test, &mut watch, &silent, &never, None, |_| {});
    if watch.is_given_up { Err(Failure::Interrupted("the run was over")) } else { outcome }
}

/// Runs a test in simulation, from deployment to verdict, in a world that is set up before there is anything in it. Nodes'
/// logs are kept down to a level, if one is given.
pub(crate) fn simulate(
    test: &Test,
    watch: &mut dyn Watch,
    progress: &RefCell<Progress>,
    stop: &AtomicBool,
    logs: Option<LogLevel>,
    setup: impl FnOnce(&mut World),
) -> Result<Outcome, Failure> {
    let simulated = test.simulated.expect("only systems that can be simulated get here");
    let config = &test.config;
    let mut world = World::new(config.seed, config.sim.unwrap_or_default());
    if let Some(level) = logs {
        world.keep_logs(level);
    }
    setup(&mut world);
    let deployment = test.deployment.clone();
    let nodes = config.nodes;
    let make = move |node| simulated.node(&deployment, nodes, node);
    let mut cluster = SimCluster::new(world, nodes, make.clone());
    // A host more would not change what happens, but its place among the others is part of the trace.
    if super::needs_spare(&test.faults) {
        cluster = cluster
            .with_spare(make, Rc::new(move |change, io, tell| simulated.administer(io, nodes, change, tell)));
    }
    let faults: Vec<&'static dyn Fault> = test.faults.iter().map(|(fault, _)| *fault).collect();
    let parts = Parts {
        cluster,
        concurrency: config.concurrency,
        op_timeout_ns: config.op_timeout_ms * 1_000_000,
        make_client: make_client(test, simulated),
        ask_serving: ask_serving(simulated, nodes),
        strike: Box::new(move |cluster, op| strike(&faults, cluster, op)),
        stop,
    };
    let runner = Runner::new(parts, |happening| match happening {
        Happening::Op(op) => watch.op(op),
        Happening::Time(now_ns) => watch.time(now_ns),
    });
    let mut stage = SimStage { runner };
    progress.borrow_mut().phase("deploy", Some(DEPLOY_LIMIT));
    for node in stage.runner.cluster().nodes() {
        stage.runner.cluster().start(node).map_err(Failure::harness)?;
    }
    let serving = stage.await_serving(DEPLOY_LIMIT)?;
    let (history, mut verdict) = match serving {
        Ok(()) => phases(test, &mut stage, progress, stop)?,
        Err(_) if stop.load(Ordering::Relaxed) => return Err(Failure::Interrupted("the cluster served")),
        // A cluster that nothing was done to yet: its nodes are at fault, and who looks for faults wants to know.
        Err(why) => {
            (History::new(), Verdict::invalid("deploy", format!("the cluster does not serve: {why}")))
        }
    };
    let crashes = stage.crashes();
    verdict = verdict.merge(crash::verdict(&crashes, &history));
    let cluster = stage.runner.cluster();
    let logs = cluster.nodes().into_iter().map(|node| {
        let world = cluster.world();
        let host = cluster.host(node).expect("it is one of its nodes");
        (node, world.log(host).to_owned())
    });
    let logs = logs.collect();
    let world = cluster.world();
    let simulation = json!({
        "trace": world.trace().to_string(),
        "simulated_ms": world.now_ns() / 1_000_000,
        "steps": world.steps(),
    });
    let verdict = verdict.with_part("simulation", simulation).with_part("seed", config.seed);
    Ok(Outcome { history, verdict, crashes, logs })
}

struct SimStage<'a> {
    runner: Runner<'a>,
}

impl Stage for SimStage<'_> {
    fn run(&mut self, generator: BoxedGenerator) -> Result<(), Failure> {
        self.runner.run(generator).map_err(Failure::harness)
    }

    fn run_to_end(&mut self, generator: BoxedGenerator) -> Result<(), Failure> {
        self.runner.run_to_end(generator).map_err(Failure::harness)
    }

    fn end_late_clients(&mut self) -> Result<usize, Failure> {
        self.runner.end_late_clients();
        Ok(0)
    }

    fn history(&self) -> &History {
        self.runner.history()
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.runner.now_ns())
    }

    fn await_serving(&mut self, limit: Duration) -> Result<Result<(), String>, Failure> {
        let limit_ns = u64::try_from(limit.as_nanos()).expect("bounded by its parser");
        self.runner.await_serving(limit_ns).map_err(Failure::harness)
    }

    fn dropped_packets(&self) -> Option<u64> {
        None
    }

    fn members_told(&self) -> Option<String> {
        self.runner.cluster().members_told().ok().filter(|told| !told.is_empty())
    }

    fn crashes(&self) -> Vec<NodeCrash> {
        let crashes = self.runner.cluster().ended_by_themselves().into_iter();
        crashes.map(|(node, crash)| NodeCrash::simulated(node, crash)).collect()
    }
}

fn make_client(test: &Test, simulated: &'static dyn Simulated) -> MakeClient {
    let (config, workload) = (test.config.clone(), test.workload);
    let bootstrap: Vec<String> =
        NodeId::first(config.nodes).into_iter().map(|node| simulated.bootstrap(node)).collect();
    let topics = Arc::<Mutex<BTreeSet<String>>>::default();
    Rc::new(move |process: Process, io: Io| {
        let shared = Shared {
            connect: Rc::new(move |client_config| simulated.client(&io, client_config)),
            bootstrap: bootstrap.clone(),
            log: Default::default(),
            namespace: String::new(),
            topics: Arc::clone(&topics),
            life: Life::default(),
        };
        workload.client(&config, &shared, process)
    })
}

fn ask_serving(simulated: &'static dyn Simulated, nodes: u16) -> AskServing {
    Rc::new(move |node, io| simulated.serves(io, nodes, node))
}
