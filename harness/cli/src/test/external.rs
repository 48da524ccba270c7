//! A run against a cluster that is there already: clients from this machine's own network, and no nodes to do anything to.
//!
//! Others may use the cluster too. What the run makes there has names of its own, which begin with the run's (its
//! namespace), and is removed at the end. A run that is killed leaves its topics behind; their names say whose they are.

use super::Test;
use super::crash::NodeCrash;
use super::live::{LiveStage, RealCluster};
use super::phases::phases;
use crate::Failure;
use riprap_checker::Verdict;
use riprap_core::History;
use riprap_core::cluster::{Cluster, ClusterError, DeadClient, Link, NodeId, NodeState};
use riprap_core::plan::TestConfig;
use riprap_core::system::{CLIENT_SETTING, System};
use riprap_live::runner::Clients;
use riprap_results::{Progress, RunDir};
use riprap_systems::Reach;
use riprap_systems::librdkafka::Admin;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long the cluster gets to answer for the first time: it is there already.
const REACH_LIMIT: Duration = Duration::from_secs(15);
/// Between two questions whether it serves.
const SERVES_POLL: Duration = Duration::from_millis(100);

/// See the module.
pub(super) struct External {
    admin: Admin,
    bootstrap: Vec<String>,
    brokers: usize,
    namespace: String,
    clients: OnceLock<Clients>,
}

/// What nobody may be asked to do here.
fn untouchable<T>() -> Result<T, ClusterError> {
    Err(ClusterError("the nodes of a cluster that is there already are left alone".to_owned()))
}

impl Cluster for External {
    fn nodes(&self) -> Vec<NodeId> {
        Vec::new()
    }
    fn clients(&self) -> u32 {
        self.clients.get().map_or(0, Clients::count)
    }
    fn crash_clients(&self, threads: &BTreeSet<u32>) -> Result<Vec<DeadClient>, ClusterError> {
        self.clients.get().map_or_else(|| Ok(Vec::new()), |clients| clients.crash(threads))
    }
    fn start(&self, _: NodeId) -> Result<(), ClusterError> {
        untouchable()
    }
    fn kill(&self, _: NodeId) -> Result<(), ClusterError> {
        untouchable()
    }
    fn pause(&self, _: NodeId) -> Result<(), ClusterError> {
        untouchable()
    }
    fn resume(&self, _: NodeId) -> Result<(), ClusterError> {
        untouchable()
    }
    fn state(&self, _: NodeId) -> Result<NodeState, ClusterError> {
        untouchable()
    }
    fn cut(&self, _: &BTreeSet<Link>) -> Result<(), ClusterError> {
        untouchable()
    }
    fn reaches(&self, _: &[Link]) -> Result<Vec<bool>, ClusterError> {
        untouchable()
    }
}

impl RealCluster for External {
    fn bootstrap(&self, _: &dyn System) -> Vec<String> {
        self.bootstrap.clone()
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn await_serving(&self, limit: Duration, stop: &mut dyn FnMut() -> bool) -> Result<(), String> {
        let deadline = Instant::now() + limit;
        loop {
            let Err(why) = self.admin.serves(self.brokers, &self.namespace) else { return Ok(()) };
            if Instant::now() >= deadline {
                return Err(format!("not within {limit:?}: {why}"));
            }
            if stop() {
                return Err(format!("interrupted: {why}"));
            }
            std::thread::sleep(SERVES_POLL);
        }
    }

    fn attach(&self, clients: Clients) {
        self.clients.get_or_init(|| clients);
    }

    fn dropped_packets(&self) -> Option<u64> {
        None
    }

    fn crashes(&self) -> Vec<NodeCrash> {
        Vec::new()
    }

    fn stop(&self) -> Result<(), ClusterError> {
        untouchable()
    }
}

/// From the first answer to the verdict. Whatever becomes of it, what it made in the cluster is removed, unless that is to stay.
pub(super) fn carry_out(
    test: &Test,
    keep_topics: bool,
    run: &Arc<RunDir>,
    progress: &RefCell<Progress>,
    stop: &AtomicBool,
) -> Result<(History, Verdict), Failure> {
    let reach = test.system.existing().expect("only systems that are there already get here");
    let name = run.path().file_name().expect("a run has a name").to_string_lossy();
    let cluster = Arc::new(External {
        admin: reach_it(reach, &test.config)?,
        bootstrap: test.config.bootstrap.clone(),
        brokers: test.config.nodes.into(),
        namespace: format!("riprap-{name}-"),
        clients: OnceLock::new(),
    });
    progress.borrow_mut().phase("deploy", Some(REACH_LIMIT));
    let serving = cluster.await_serving(REACH_LIMIT, &mut || {
        progress.borrow_mut().tick();
        stop.load(Ordering::Relaxed)
    });
    match serving {
        Err(_) if stop.load(Ordering::Relaxed) => return Err(Failure::Interrupted("the cluster served")),
        serving => serving.map_err(|why| Failure::Harness(format!("the cluster does not serve: {why}")))?,
    }
    let judged = {
        let shared: Arc<dyn RealCluster> = Arc::clone(&cluster) as _;
        let mut stage = LiveStage::new(test, &shared, run, progress, stop)?;
        phases(test, &mut stage, progress, stop)
        // The clients end with it, and leave their group.
    };
    let namespace = &cluster.namespace;
    if keep_topics {
        progress.borrow_mut().note(&format!("riprap: the run's topics stay: {namespace}*"));
    } else if let Err(left) = cluster.admin.remove(namespace, &format!("{namespace}riprap")) {
        // The verdict is about what was before.
        progress.borrow_mut().note(&format!("riprap: failed to remove what the run made: {left}"));
    }
    judged.map(|(history, verdict)| (history, verdict.with_part("seed", test.config.seed)))
}

fn reach_it(reach: Reach, config: &TestConfig) -> Result<Admin, Failure> {
    let properties = config
        .settings
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix(CLIENT_SETTING)?.to_owned(), value.clone())));
    reach(&config.bootstrap, &properties.collect::<Vec<_>>()).map_err(Failure::Harness)
}

/// Whether a run's addresses are such as its system can do with.
pub(super) fn check(config: &TestConfig, reach: Option<Reach>) -> Result<(), Failure> {
    let system = &config.system;
    match (reach, config.bootstrap.is_empty()) {
        (None, true) => Ok(()),
        // That it runs live only is said by whoever would simulate it.
        (Some(_), true) if config.sim.is_some() => Ok(()),
        (None, false) => Err(Failure::Usage(format!(
            "--bootstrap: system `{system}` is deployed by riprap itself; leave it out, or --system external is right"
        ))),
        (Some(_), true) => Err(Failure::Usage(format!(
            "--system {system}: --bootstrap HOST:PORT,... is missing, which says where the cluster is"
        ))),
        (Some(_), false) => Ok(()),
    }
}
