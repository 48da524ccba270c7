//! From arguments to a run: every name resolved and every number checked, before anything is started.

use super::{Test, external, upgrade};
use crate::Failure;
use crate::args::TestArgs;
use riprap_core::client::SubscribeVia;
use riprap_core::cluster::NodeId;
use riprap_core::fault::Fault;
use riprap_core::plan::{MAX_NODES, Physics, Plan, TestConfig};
use riprap_core::system::{CLIENT_SETTING, Deployment};
use riprap_live::{clock, disk};
use riprap_nemesis::{Choice, Place};
use riprap_systems::Registered;
use riprap_systems::simulated::Simulated;
use riprap_workloads::{Workload, WorkloadInfo};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// As many replicas keep a key where nobody says how many, if there are so many nodes.
pub(crate) const USUAL_REPLICATION: u16 = 3;

/// The workload of that name.
pub(crate) fn workload(name: &str) -> Result<&'static dyn Workload, Failure> {
    riprap_workloads::find(name).ok_or_else(|| {
        let names: Vec<&str> = riprap_workloads::ALL.iter().map(|workload| workload.info().name).collect();
        Failure::Usage(format!("unknown workload `{name}`; one of: {}", names.join(", ")))
    })
}

/// The system that is asked for as `NAME`, `NAME@VERSION`, or by the file that describes it, and the version.
pub(crate) fn system(asked: &str) -> Result<(&'static dyn Registered, Option<&str>), Failure> {
    // The path of a file may have an @ of its own.
    let at = match asked.find(".toml@") {
        Some(dot) => Some(dot + ".toml".len()),
        None if asked.ends_with(".toml") => None,
        None => asked.find('@'),
    };
    let (name, version) = at.map_or((asked, None), |at| (&asked[..at], Some(&asked[at + 1..])));
    if name.ends_with(".toml") {
        let system = riprap_systems::described::load(Path::new(name)).map_err(Failure::Usage)?;
        return Ok((system, version));
    }
    let system = riprap_systems::find(name).ok_or_else(|| {
        let names: Vec<&str> = riprap_systems::ALL.iter().map(|system| system.info().name).collect();
        Failure::Usage(format!(
            "unknown system `{name}`; one of: {}, or the path of a file that describes one, which ends with .toml",
            names.join(", ")
        ))
    })?;
    match version {
        Some(version) if system.info().versions.is_none() => Err(Failure::Usage(format!(
            "system `{name}` has no version `{version}` to choose: it is {}; `--system {name}` is right",
            if system.existing().is_some() { "there already" } else { "this program, or what --bin names" }
        ))),
        version => Ok((system, version)),
    }
}

impl Test {
    /// Resolves every name and checks every number, before anything is started.
    pub(crate) fn resolve(args: &TestArgs) -> Result<Test, Failure> {
        Test::of(Test::config(args)?, args.bin.clone(), None)
    }

    /// The knobs that arguments ask for.
    pub(crate) fn config(args: &TestArgs) -> Result<TestConfig, Failure> {
        unsupported(args)?;
        let info = workload(&args.workload)?.info();
        check_together(args, info)?;
        let sub_via = match args.sub_via.as_slice() {
            [] => info.sub_via.to_vec(),
            asked => asked.iter().map(|via| SubscribeVia::from(*via)).collect(),
        };
        Ok(TestConfig {
            system: args.system.clone(),
            workload: args.workload.clone(),
            nemesis: nemesis(args),
            sim: args.sim.then(Physics::default),
            nodes: nodes(args)?,
            controllers: args.controllers,
            storage: 0,
            time_limit_ms: millis(args.time_limit),
            rate_hz: args.rate,
            concurrency: args.concurrency,
            rotate_ms: args.rotate.map(millis),
            seed: args.seed.map_or_else(draw_seed, Ok)?,
            txn: args.txn || info.txn,
            isolation: args.isolation.into(),
            sub_via,
            acks: args.acks.clone(),
            idempotence: args.idempotence,
            defect: args.defect.clone(),
            replication_factor: args.replication.unwrap_or(nodes(args)?.min(USUAL_REPLICATION)),
            keys: args.keys,
            max_writes_per_key: args.max_writes_per_key,
            value_bytes: args.value_size,
            fault_max_ms: millis(args.fault_time),
            quiet_max_ms: millis(args.quiet_time),
            op_timeout_ms: millis(args.op_timeout),
            recovery_limit_ms: millis(args.recovery_limit),
            drain_limit_ms: millis(args.drain_limit),
            bootstrap: args.bootstrap.clone(),
            upgrade_to: args.upgrade_to.clone(),
            hosts: args.hosts.iter().map(ToString::to_string).collect(),
            spare_host: args.spare_host.as_ref().map(ToString::to_string),
            settings: args.settings.iter().cloned().collect(),
        })
    }

    /// A test of knobs that are all set, on the bundled program or another; of a plan, or of what the seed expands to.
    pub(crate) fn of(
        mut config: TestConfig,
        program: Option<PathBuf>,
        plan: Option<Plan>,
    ) -> Result<Test, Failure> {
        let asked = config.system.clone();
        let (system, version) = system(&asked)?;
        config.storage = system.info().storage;
        let workload = workload(&config.workload)?;
        if config.replication_factor > config.nodes {
            let (replicas, nodes) = (config.replication_factor, config.nodes);
            return Err(Failure::Usage(format!(
                "{replicas} replicas of each key need as many nodes, and there are {nodes}; a smaller --replication or more \
                 --nodes is right"
            )));
        }
        if config.controllers > 0 && !system.info().controllers {
            return Err(Failure::Usage(format!(
                "--controllers: each node of system `{}` is a controller too; leave it out",
                system.info().name
            )));
        }
        if config.all_nodes() > MAX_NODES {
            let (nodes, others) = (config.nodes, others(&config));
            return Err(Failure::Usage(format!(
                "{nodes} nodes{others}; {MAX_NODES} in all at most are right"
            )));
        }
        external::check(&config, system.existing())?;
        let faults = riprap_nemesis::parse(&config.nemesis, place(&config)).map_err(Failure::Usage)?;
        if needs_spare(&faults) && config.all_nodes() == MAX_NODES {
            return Err(Failure::Usage(format!(
                "{MAX_NODES} nodes and one that joins them; {MAX_NODES} in all at most are right"
            )));
        }
        if config.spare_host.is_some() && !needs_spare(&faults) {
            return Err(Failure::usage(
                "--spare-host: no fault of this run has a node join; leave it out, or add `membership` to --nemesis",
            ));
        }
        let (clients, systems): (Vec<_>, Vec<_>) =
            config.settings.clone().into_iter().partition(|(name, _)| name.starts_with(CLIENT_SETTING));
        let deployment = Deployment {
            nodes: Vec::new(),
            controllers: config.controllers,
            storage: config.storage,
            spare: None,
            version: version.map(str::to_owned),
            defect: config.defect.clone(),
            settings: systems.into_iter().collect(),
            seed: config.seed,
            program,
        };
        system.validate(&deployment).map_err(Failure::Usage)?;
        let upgraded = upgrade::deployment(&config, &faults, system, &deployment)?;
        system.validate_run(&config).map_err(Failure::Usage)?;
        let bare = |(name, value): (String, String)| (name[CLIENT_SETTING.len()..].to_owned(), value);
        let properties: Vec<_> = clients.into_iter().map(bare).collect();
        let simulated = simulated(&config, system, &deployment)?;
        let validated = match simulated {
            Some(simulated) => simulated.validate_client(&properties),
            None => system.validate_client(&properties),
        };
        validated.map_err(Failure::Usage)?;
        let planned: Vec<(&dyn Fault, _)> =
            faults.iter().map(|(fault, targets)| (*fault, targets.clone())).collect();
        let plan = plan.unwrap_or_else(|| Plan::expand(&config, &planned));
        check_plan(&plan, &faults, workload, &config).map_err(Failure::Usage)?;
        Ok(Test { config, system, workload, faults, plan, deployment, upgraded, simulated })
    }
}

/// Whether a node has to be there that is none of the cluster's.
pub(super) fn needs_spare(faults: &[Choice]) -> bool {
    faults.iter().any(|(fault, _)| fault.needs_spare())
}

/// Where a test's faults are to strike.
pub(crate) fn place(config: &TestConfig) -> Place {
    let (live, hosts) = (config.sim.is_none(), !config.hosts.is_empty());
    let obstacle = if hosts { clock::obstacle_anywhere } else { clock::obstacle };
    let system = system(&config.system).ok().map(|(system, _)| system);
    Place {
        nodes: config.nodes,
        controllers: config.controllers,
        storage: config.storage,
        // What one node keeps for all is there once.
        copies: if config.storage == 0 { config.replication_factor } else { config.storage },
        live,
        // Hosts say it themselves, once they are reached.
        disks: live && (hosts || disk::can_be_had().is_ok()),
        existing: !config.bootstrap.is_empty(),
        upgrade: config.upgrade_to.is_some(),
        joins: system.is_some_and(|system| system.can_be_joined()),
        spare: !hosts || config.spare_host.is_some(),
        no_clocks: system.and_then(|system| obstacle(system.clock())),
    }
}

/// The nodes that clients do not reach, in words.
pub(super) fn others(config: &TestConfig) -> String {
    let controllers = match config.controllers {
        0 => String::new(),
        n => format!(" and {n} controllers"),
    };
    let storage = match config.storage {
        0 => String::new(),
        n => format!(" and {n} of storage"),
    };
    controllers + &storage
}

/// How to simulate the system that is asked for, if a simulation is.
fn simulated(
    config: &TestConfig,
    system: &dyn Registered,
    deployment: &Deployment,
) -> Result<Option<&'static dyn Simulated>, Failure> {
    if config.sim.is_none() {
        return Ok(None);
    }
    if deployment.program.is_some() {
        return Err(Failure::usage(
            "--bin and --sim exclude each other: what is simulated is part of this program",
        ));
    }
    let found = system.simulated().ok_or_else(|| {
        let name = &config.system;
        let can = riprap_systems::ALL.iter().filter(|system| system.simulated().is_some());
        let can: Vec<&str> = can.map(|system| system.info().name).collect();
        Failure::Usage(format!(
            "--sim: system `{name}` runs live only; leave --sim out, or take one of: {}",
            can.join(", ")
        ))
    })?;
    Ok(Some(found))
}

/// Whether the acts of a plan are such as this run's faults know, on nodes that it has. Errors: which is not.
fn check_plan(
    plan: &Plan,
    faults: &[Choice],
    workload: &dyn Workload,
    config: &TestConfig,
) -> Result<(), String> {
    for (number, event) in plan.faults.iter().enumerate() {
        let place = format!("plan.faults[{number}]");
        let name = &event.fault;
        let Some((fault, _)) = faults.iter().find(|(fault, _)| fault.info().name == name) else {
            return Err(format!("{place}.fault is `{name}`, which config.nemesis does not name"));
        };
        let (strike, heal) = (fault.info().strike_f, fault.info().heal_f);
        if event.f != strike && event.f != heal {
            return Err(format!("{place}.f is `{}`; one of: {strike}, {heal}", event.f));
        }
        for node in event.value.get("nodes").and_then(Json::as_array).into_iter().flatten() {
            let known = node.as_str().and_then(NodeId::from_name);
            let nodes = config.all_nodes();
            if !known.is_some_and(|node| (1..=nodes).contains(&node.0)) {
                return Err(format!("{place}.value.nodes has {node}; n1 to n{nodes} are right"));
            }
        }
    }
    if workload.info().txn && !config.txn {
        let name = workload.info().name;
        return Err(format!("config.txn is false; true is right: workload {name} is one of transactions"));
    }
    for (number, op) in plan.ops.iter().flatten().enumerate() {
        if !workload.does(&op.draft.f) {
            let (f, name) = (op.draft.f.name(), workload.info().name);
            return Err(format!("plan.ops[{number}].f is `{f}`, which workload {name} does not do"));
        }
    }
    Ok(())
}

/// The faults that are asked for; if none are, those that are usual.
fn nemesis(args: &TestArgs) -> Vec<String> {
    let usual: &[&str] = if args.bootstrap.is_empty() { &["kill", "partition"] } else { &["none"] };
    if args.nemesis.is_empty() {
        usual.iter().map(|word| (*word).to_owned()).collect()
    } else {
        args.nemesis.clone()
    }
}

/// How many nodes clients reach.
fn nodes(args: &TestArgs) -> Result<u16, Failure> {
    let hosts = u16::try_from(args.hosts.len()).unwrap_or(u16::MAX);
    if hosts == 0 {
        return Ok(args.nodes);
    }
    let storage = system(&args.system)?.0.info().storage;
    match hosts.checked_sub(args.controllers + storage) {
        Some(nodes) if nodes > 0 => Ok(nodes),
        _ => {
            let controllers = match args.controllers {
                0 => String::new(),
                n => format!(", --controllers takes {n} of them"),
            };
            let storage = match storage {
                0 => String::new(),
                n => format!(", what system `{}` keeps its data on {n}", args.system),
            };
            Err(Failure::Usage(format!(
                "--hosts names {hosts}{controllers}{storage}; one more at least is right"
            )))
        }
    }
}

fn unsupported(args: &TestArgs) -> Result<(), Failure> {
    if args.keep_topics && args.bootstrap.is_empty() {
        return Err(Failure::usage(
            "--keep-topics: it is about a cluster that is there already; leave it out",
        ));
    }
    Ok(())
}

/// What each option may be and they may not be together.
fn check_together(args: &TestArgs, workload: &WorkloadInfo) -> Result<(), Failure> {
    if args.idempotence && args.acks != "all" {
        let acks = &args.acks;
        return Err(Failure::Usage(format!(
            "--acks {acks} and --idempotence true exclude each other; --acks all or --idempotence false is right"
        )));
    }
    if (args.txn || workload.txn) && !args.idempotence {
        let asked = if args.txn { "--txn".to_owned() } else { format!("--workload {}", workload.name) };
        return Err(Failure::Usage(format!(
            "{asked} and --idempotence false exclude each other: who sends in transactions is idempotent; one of them is \
             right"
        )));
    }
    if let Some(bin) = &args.bin {
        upgrade::check_program("--bin", bin)?;
    }
    Ok(())
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
