//! A run on other machines, over SSH.

use super::crash::NodeCrash;
use super::live::{self, RealCluster};
use super::{DEPLOY_LIMIT, Test};
use crate::Failure;
use crate::args::TestArgs;
use riprap_core::cluster::ClusterError;
use riprap_core::system::System;
use riprap_live::hosts::{HostCluster, HostsSpec, Login};
use riprap_live::runner::Clients;
use riprap_results::{Progress, RunDir, StatusLine};
use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

impl RealCluster for HostCluster {
    fn bootstrap(&self, system: &dyn System) -> Vec<String> {
        let deployment = self.deployment();
        deployment.brokers().iter().map(|place| system.bootstrap(deployment, place.id)).collect()
    }

    fn namespace(&self) -> &str {
        ""
    }

    fn await_serving(&self, limit: Duration, stop: &mut dyn FnMut() -> bool) -> Result<(), String> {
        HostCluster::await_serving(self, limit, stop)
    }

    fn attach(&self, clients: Clients) {
        HostCluster::attach(self, clients);
    }

    fn dropped_packets(&self) -> Option<u64> {
        HostCluster::dropped_packets(self)
    }

    fn crashes(&self) -> Vec<NodeCrash> {
        let ended = self.ended_by_themselves().into_iter();
        ended.map(|(node, status)| NodeCrash::live(node, status)).collect()
    }

    fn lost(&self) -> Option<String> {
        HostCluster::lost(self)
    }

    fn ask_for_lost(&self) -> Option<String> {
        HostCluster::ask_for_lost(self)
    }

    fn bring_logs(&self) -> Result<(), ClusterError> {
        self.fetch_logs()
    }

    fn stop(&self) -> Result<(), ClusterError> {
        HostCluster::stop(self)
    }
}

/// Has the nodes run and serve.
pub(super) fn deploy(
    test: &Test,
    args: &TestArgs,
    run: &RunDir,
    progress: &RefCell<Progress>,
    stop: &AtomicBool,
) -> Result<Arc<dyn RealCluster>, Failure> {
    let login = Login::usual(args.ssh_key.clone(), args.accept_new).map_err(Failure::Usage)?;
    let cache = riprap_systems::cache_root().ok();
    let line = Mutex::new(StatusLine::stderr());
    let tell = |how_far: &str| {
        line.lock().unwrap_or_else(PoisonError::into_inner).show(|_, _| how_far.to_owned());
    };
    let spec = HostsSpec {
        system: test.system,
        name: test.system.info().name,
        hosts: &args.hosts,
        spare: args.spare_host.as_ref(),
        login: &login,
        cache: cache.as_deref(),
        log_root: run.path().join("nodes"),
        has_disks: test.faults.iter().any(|(fault, _)| fault.needs_disks()),
        has_clocks: test.faults.iter().any(|(fault, _)| fault.needs_clocks()),
        deployment: test.deployment.clone(),
        upgraded: test.config.upgrade_to.clone().zip(test.upgraded.clone()),
    };
    let cluster = HostCluster::new(spec, &tell);
    line.into_inner().unwrap_or_else(PoisonError::into_inner).wipe();
    let cluster = cluster.map_err(Failure::harness)?;
    progress.borrow_mut().phase("deploy", Some(DEPLOY_LIMIT));
    live::start_all(&*cluster, progress, stop)?.map_err(|why| {
        let why = cluster.ask_for_lost().unwrap_or(why);
        // They say more, where they can be had.
        let logs = cluster
            .fetch_logs()
            .map_or_else(|e| e.to_string(), |()| format!("logs in {}", run.path().display()));
        Failure::Harness(format!("the cluster does not serve: {why}; {logs}"))
    })?;
    Ok(cluster)
}
