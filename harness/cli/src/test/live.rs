//! A run on real nodes: processes in the sandbox, clients on threads.

use super::crash::NodeCrash;
use super::phases::{Active, Stage, observe_op, strike};
use super::{DEPLOY_LIMIT, Test};
use crate::Failure;
use riprap_core::History;
use riprap_core::client::{ClientLog, Life};
use riprap_core::cluster::{Cluster, ClusterError};
use riprap_core::fault::{Fault, FaultInfo};
use riprap_core::generator::BoxedGenerator;
use riprap_core::op::Process;
use riprap_core::system::System;
use riprap_live::cluster::LiveCluster;
use riprap_live::runner::{Clients, Happening, Limits, MakeClient, Runner, Strike};
use riprap_results::{Progress, RunDir};
use riprap_workloads::Shared;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long an act of the nemesis may take: it starts processes and waits for probes, on a machine that may be loaded.
const NEMESIS_TIMEOUT: Duration = Duration::from_secs(60);

/// How long clients whose op was given up on get to end it once the cluster is whole. None of their calls can be cut
/// short: a client library that is closed by another thread than its caller's may only crash. Each has a limit of its own,
/// of some seconds, but for those that wait for a group's coordinator.
const LATE_LIMIT: Duration = Duration::from_secs(20);

/// A cluster of real nodes, be it that riprap has deployed it or that it was there before.
pub(super) trait RealCluster: Cluster + Send + Sync {
    /// `HOST:PORT` of nodes that clients may begin with.
    fn bootstrap(&self, system: &dyn System) -> Vec<String>;

    /// What names of the run's own begin with there.
    fn namespace(&self) -> &str;

    /// Waits until it serves. Errors: what it still waits for, when time is over or `stop` says so.
    fn await_serving(&self, limit: Duration, stop: &mut dyn FnMut() -> bool) -> Result<(), String>;

    /// Says who its clients are, for faults that strike them.
    fn attach(&self, clients: Clients);

    /// How many packets the cuts have dropped, where that is counted.
    fn dropped_packets(&self) -> Option<u64>;

    /// The nodes that ended though nobody had ended them.
    fn crashes(&self) -> Vec<NodeCrash>;

    /// Why nobody can tell what becomes of a node, if that is known by now: a failure of the harness, whatever the history
    /// seems to show. Never waits.
    fn lost(&self) -> Option<String> {
        None
    }

    /// The same, after each node's machine was asked.
    fn ask_for_lost(&self) -> Option<String> {
        None
    }

    /// Has the nodes' logs be in the run's folder, where they are not by themselves.
    fn bring_logs(&self) -> Result<(), ClusterError> {
        Ok(())
    }

    /// Ends every node in order.
    fn stop(&self) -> Result<(), ClusterError>;
}

impl RealCluster for LiveCluster {
    fn bootstrap(&self, system: &dyn System) -> Vec<String> {
        let deployment = self.deployment();
        deployment.brokers().iter().map(|place| system.bootstrap(deployment, place.id)).collect()
    }

    fn namespace(&self) -> &str {
        ""
    }

    fn await_serving(&self, limit: Duration, stop: &mut dyn FnMut() -> bool) -> Result<(), String> {
        LiveCluster::await_serving(self, limit, stop)
    }

    fn attach(&self, clients: Clients) {
        LiveCluster::attach(self, clients);
    }

    fn dropped_packets(&self) -> Option<u64> {
        LiveCluster::dropped_packets(self)
    }

    fn crashes(&self) -> Vec<NodeCrash> {
        let ended = self.ended_by_themselves().into_iter();
        ended.map(|(node, status)| NodeCrash::live(node, status)).collect()
    }

    fn stop(&self) -> Result<(), ClusterError> {
        LiveCluster::stop(self)
    }
}

/// Starts every node and waits until all serve. Errors: a node that cannot be started; inside, what is still waited for.
pub(super) fn start_all(
    cluster: &dyn RealCluster,
    progress: &RefCell<Progress>,
    stop: &AtomicBool,
) -> Result<Result<(), String>, Failure> {
    // Last in their order come those that the others ask for their data.
    for node in cluster.nodes().into_iter().rev() {
        cluster.start(node).map_err(Failure::harness)?;
    }
    Ok(cluster.await_serving(DEPLOY_LIMIT, &mut || {
        progress.borrow_mut().tick();
        stop.load(Ordering::Relaxed) || cluster.lost().is_some()
    }))
}

/// See the module.
pub(super) struct LiveStage<'a> {
    cluster: Arc<dyn RealCluster>,
    progress: &'a RefCell<Progress>,
    stop: &'a AtomicBool,
    runner: Runner<'a>,
    began: Instant,
}

impl<'a> LiveStage<'a> {
    pub(super) fn new(
        test: &Test,
        cluster: &Arc<dyn RealCluster>,
        run: &'a Arc<RunDir>,
        progress: &'a RefCell<Progress>,
        stop: &'a AtomicBool,
    ) -> Result<LiveStage<'a>, Failure> {
        let config = &test.config;
        let limits = Limits {
            concurrency: config.concurrency,
            op_timeout: Duration::from_millis(config.op_timeout_ms),
            nemesis_timeout: NEMESIS_TIMEOUT,
        };
        let mut writer = run.history_writer().map_err(Failure::harness)?;
        let infos: Vec<&'static FaultInfo> = test.faults.iter().map(|(fault, _)| fault.info()).collect();
        let observe = {
            let (mut active, cluster) = (Active::new(infos), Arc::clone(cluster));
            move |happening: Happening<'_>| match happening {
                Happening::Op(op) => observe_op(op, &mut writer, &mut active, run, progress),
                Happening::Tick => {
                    progress.borrow_mut().tick();
                    cluster.lost().map_or(Ok(()), Err)
                }
            }
        };
        let clients = make_client(test, &**cluster, run);
        let runner = Runner::new(limits, clients, nemesis_thread(test, cluster), stop, observe);
        cluster.attach(runner.clients());
        Ok(LiveStage { cluster: Arc::clone(cluster), progress, stop, runner, began: Instant::now() })
    }
}

impl Stage for LiveStage<'_> {
    fn run(&mut self, generator: BoxedGenerator) -> Result<(), Failure> {
        self.runner.run(generator).map_err(Failure::harness)
    }

    fn run_to_end(&mut self, generator: BoxedGenerator) -> Result<(), Failure> {
        self.runner.run_to_end(generator).map_err(Failure::harness)
    }

    fn end_late_clients(&mut self) -> Result<usize, Failure> {
        self.runner.await_late_clients(LATE_LIMIT).map_err(Failure::harness)
    }

    fn history(&self) -> &History {
        self.runner.history()
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn await_serving(&mut self, limit: Duration) -> Result<Result<(), String>, Failure> {
        Ok(self.cluster.await_serving(limit, &mut || {
            self.progress.borrow_mut().tick();
            self.stop.load(Ordering::Relaxed) || self.cluster.lost().is_some()
        }))
    }

    fn dropped_packets(&self) -> Option<u64> {
        self.cluster.dropped_packets()
    }

    fn members_told(&self) -> Option<String> {
        self.cluster.members_told().ok().filter(|told| !told.is_empty())
    }

    fn crashes(&self) -> Vec<NodeCrash> {
        self.cluster.crashes()
    }
}

fn make_client(test: &Test, cluster: &dyn RealCluster, run: &Arc<RunDir>) -> MakeClient {
    let (config, workload, system) = (test.config.clone(), test.workload, test.system);
    let (bootstrap, namespace) = (cluster.bootstrap(system), cluster.namespace().to_owned());
    let (log, topics) = (client_log(run), Arc::<Mutex<BTreeSet<String>>>::default());
    Arc::new(move |process: Process, life: &Life| {
        let shared = Shared {
            connect: Rc::new(move |client_config| system.client(client_config)),
            bootstrap: bootstrap.clone(),
            log: log.clone(),
            namespace: namespace.clone(),
            topics: Arc::clone(&topics),
            life: life.clone(),
        };
        workload.client(&config, &shared, process)
    })
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

fn nemesis_thread(test: &Test, cluster: &Arc<dyn RealCluster>) -> Strike {
    let faults: Vec<&'static dyn Fault> = test.faults.iter().map(|(fault, _)| *fault).collect();
    let cluster = Arc::clone(cluster);
    Arc::new(move |op| strike(&faults, &*cluster, op))
}
