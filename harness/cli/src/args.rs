//! The command line: what other people script against.

use crate::sim::Seeds;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use riprap_core::client::{Isolation, SubscribeVia};
use riprap_core::plan::{MAX_CONCURRENCY, MAX_KEYS, MAX_NODES, MAX_VALUE_BYTES};
use riprap_live::hosts::HostName;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tracing::level_filters::LevelFilter;

/// Bounds of what may be asked for, so that a slip of the finger is told apart from a machine that gives up.
const MAX_JOBS: u16 = 256;
const MAX_STARTS: u64 = 1000;
const RATE_HZ: (f64, f64) = (0.001, 1e6);
const MAX_TIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// No run is shorter: a fault needs a second to be seen to do anything.
const MIN_TIME: Duration = Duration::from_secs(1);

/// Correctness test harness for streaming systems.
#[derive(Parser, Debug)]
#[command(
    name = "riprap",
    version,
    bin_name = "riprap",
    about = "Correctness test harness for streaming systems",
    long_about = "Correctness test harness for streaming systems: deploys a system to test nodes, drives it with \
                  concurrent clients, injects faults that are proved to have taken effect, records the history, and \
                  tells exactly what went wrong: lost writes, rewound offsets, duplicates, aborted reads.",
    after_help = "Examples:
  riprap test                          three bundled brokers, kills and partitions, 30 s
  riprap test --defect zero-offset     the same with a planted defect: must be found
  riprap check history.jsonl           judge a history from anywhere
  riprap list defects

Exit codes: 0 valid, 1 invalid, 2 unknown, 254 bad arguments or unreadable input, 255 the harness itself failed.",
    subcommand_required = true,
    arg_required_else_help = false
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the command line. Errors: what is wrong, or help that was asked for.
    pub(crate) fn read() -> Result<Cli, clap::Error> {
        let matches = Cli::command().try_get_matches()?;
        let mut cli = Cli::from_arg_matches(&matches)?;
        if let (Command::Sim(args), Some((_, matches))) = (&mut cli.command, matches.subcommand()) {
            args.given = given(matches);
        }
        Ok(cli)
    }
}

/// The arguments that were given, rather than left at their defaults.
fn given(matches: &ArgMatches) -> BTreeSet<String> {
    let is_given = |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    matches.ids().filter(is_given).map(|id| id.as_str().replace('_', "-")).collect()
}

/// The words of a command's line, but for some of its own options: those that have a value, and those that stand alone.
pub(crate) fn other_words(
    words: impl Iterator<Item = OsString>,
    command: &str,
    with_value: &[&str],
    alone: &[&str],
) -> Vec<OsString> {
    let mut words = words.skip_while(|word| word != command).skip(1);
    let mut others = Vec::new();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if with_value.contains(&&*text) {
            // Its value goes with it.
            words.next();
            continue;
        }
        let option = text.split_once('=').map(|(option, _)| option);
        if !alone.contains(&&*text) && !option.is_some_and(|option| with_value.contains(&option)) {
            others.push(word);
        }
    }
    others
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Deploy a system, break it, record what happens, and judge it
    Test(Box<TestArgs>),
    /// Simulate many seeds: the same as `test --sim`, one run a seed
    Sim(Box<SimArgs>),
    /// Run a simulated run again, to the last byte
    Replay(ReplayArgs),
    /// Take away from a simulated run all that its anomaly does not need
    Shrink(ShrinkArgs),
    /// Judge a stored history: JSON lines or Jepsen's EDN, plain, .gz or .zst
    Check(CheckArgs),
    /// Make a run's report again from its files
    Report(ReportArgs),
    /// Say what there is: systems, workloads, faults, checkers, defects
    List(ListArgs),
    /// Run one bundled broker
    Broker(BrokerArgs),
    /// Run one object store, for systems that keep their data in one
    Objects(ObjectsArgs),
    /// Run the same on several versions, with several defects, or on several systems, and tell what came of it side by side
    Compare(Box<CompareArgs>),
    /// Look for every planted defect, and for nothing in the clean system: whether riprap finds what it is for
    SelfTest(SelfTestArgs),
    /// Do on this host what `riprap test --hosts` asks for over SSH; not for people
    Agent(AgentArgs),
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  riprap test --nodes 5 --nemesis partition:bridge,kill --time-limit 60s
  riprap test --defect min-isr-unclean --nodes 5 --nemesis partition:bridge,kill --time-limit 60s
  riprap test --sub-via assign,subscribe --seed 42 --json
  riprap test --txn --sub-via subscribe
  riprap test --system external --bootstrap 10.0.0.1:9092,10.0.0.2:9092 --nodes 3
  riprap test --hosts root@a,root@b,root@c --ssh-key ~/.ssh/id_ed25519")]
pub(crate) struct TestArgs {
    /// The system under test (see `riprap list systems`), or the file that describes it
    #[arg(long, value_name = "NAME[@VERSION]|FILE.toml", default_value = "broker")]
    pub(crate) system: String,
    /// What the clients do (see `riprap list workloads`)
    #[arg(long, value_name = "NAME", default_value = "queue")]
    pub(crate) workload: String,
    /// What is done to the cluster: faults, each with a role of nodes, a shape or both after colons or without; `all`;
    /// `none` [default: kill,partition; of a cluster that is there already, none]
    #[arg(long, value_name = "FAULT[:ROLE][:SHAPE],...", value_delimiter = ',')]
    pub(crate) nemesis: Vec<String>,
    /// How many nodes; of a cluster that is there already, how many it has at least
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true, value_parser = whole(1, MAX_NODES))]
    pub(crate) nodes: u16,
    /// How many more nodes are controllers and nothing else; with none, each node is one too
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = whole(0, MAX_NODES))]
    pub(crate) controllers: u16,
    /// How long clients and faults act; heal, final reads and the check come on top
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time(MIN_TIME))]
    pub(crate) time_limit: Duration,
    /// How many operations a second all clients together begin
    #[arg(long, value_name = "HZ", default_value_t = 200.0, allow_negative_numbers = true, value_parser = parse_rate)]
    pub(crate) rate: f64,
    /// How many client processes act at once
    #[arg(long, value_name = "N", default_value_t = 16, allow_negative_numbers = true, value_parser = whole(1, MAX_CONCURRENCY))]
    pub(crate) concurrency: u32,
    /// The seed that operations and faults are drawn from; drawn and printed if not given
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole(0, u64::MAX))]
    pub(crate) seed: Option<u64>,
    /// Send and poll in transactions, of up to four sends and polls each; one in eight is aborted on purpose. Workload abort
    /// does so by itself, in its own way
    #[arg(long)]
    pub(crate) txn: bool,
    /// What consumers see of transactions
    #[arg(long, value_name = "LEVEL", default_value = "read_committed")]
    pub(crate) isolation: IsolationArg,
    /// How consumers come by their keys; with both, each choice of keys draws one [default: assign; of workload abort, both]
    #[arg(long, value_name = "HOW,...", value_delimiter = ',')]
    pub(crate) sub_via: Vec<SubViaArg>,
    /// How many replicas acknowledge a record: 0, 1 or all
    #[arg(long, value_name = "ACKS", default_value = "all", value_parser = ["0", "1", "all"])]
    pub(crate) acks: String,
    /// Whether producers are idempotent
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) idempotence: bool,
    /// Give the bundled system this planted defect (see `riprap list defects`)
    #[arg(long, value_name = "NAME")]
    pub(crate) defect: Option<String>,
    /// How many keys are written at a time
    #[arg(long, value_name = "N", default_value_t = 8, allow_negative_numbers = true, value_parser = whole(1, MAX_KEYS))]
    pub(crate) keys: u32,
    /// How many values a key gets before another takes its place
    #[arg(long, value_name = "N", default_value_t = 256, allow_negative_numbers = true, value_parser = whole(1, u32::MAX))]
    pub(crate) max_writes_per_key: u32,
    /// How many replicas each key has [default: 3, or as many as there are nodes]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole(1, MAX_NODES))]
    pub(crate) replication: Option<u16>,
    /// How long a record is, in bytes, at least
    #[arg(long, value_name = "BYTES", default_value_t = 1, allow_negative_numbers = true, value_parser = whole(1, MAX_VALUE_BYTES))]
    pub(crate) value_size: u32,
    /// How long a fault is left to work, at most
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = time(MIN_TIME))]
    pub(crate) fault_time: Duration,
    /// How long it is quiet between two strikes of a fault, at most
    #[arg(long, value_name = "TIME", default_value = "6s", value_parser = time(Duration::from_millis(1)))]
    pub(crate) quiet_time: Duration,
    /// Have faults take turns: in each period of this length another mix of them acts, in some none; by default all act all the
    /// time
    #[arg(long, value_name = "TIME", value_parser = time(Duration::from_secs(2)))]
    pub(crate) rotate: Option<Duration>,
    /// Give up on an operation after this time: its outcome is unknown
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time(MIN_TIME))]
    pub(crate) op_timeout: Duration,
    /// How long the cluster may take to serve again when all faults are healed
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time(Duration::ZERO))]
    pub(crate) recovery_limit: Duration,
    /// How long the final reads may take, and a group to go on
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = time(Duration::ZERO))]
    pub(crate) drain_limit: Duration,
    /// Run in simulation
    #[arg(long, conflicts_with_all = ["hosts", "bootstrap"])]
    pub(crate) sim: bool,
    /// Run on these hosts, over SSH, a node on each; as many as there are nodes of all roles, brokers first, then controllers, then
    /// storage
    #[arg(long, value_name = "[USER@]HOST[:PORT],...", value_delimiter = ',', conflicts_with_all = ["bootstrap", "nodes"])]
    pub(crate) hosts: Vec<HostName>,
    /// With --hosts: one more, whose node fault `membership` has join the others and leave them
    #[arg(long, value_name = "[USER@]HOST[:PORT]", requires = "hosts")]
    pub(crate) spare_host: Option<HostName>,
    /// With --hosts: the file of the key to log in with; by default those of ssh-agent, then the usual ones in ~/.ssh
    #[arg(long, value_name = "FILE", requires = "hosts")]
    pub(crate) ssh_key: Option<PathBuf>,
    /// With --hosts: believe hosts that ~/.ssh/known_hosts does not know, and add them there
    #[arg(long, requires = "hosts")]
    pub(crate) accept_new: bool,
    /// With --system external: where the cluster is that is there already, some of its brokers. They are left alone: only faults
    /// of clients strike there
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', value_parser = parse_bootstrap)]
    pub(crate) bootstrap: Vec<String>,
    /// Leave the run's topics in a cluster that is there already
    #[arg(long, conflicts_with_all = ["sim", "hosts"])]
    pub(crate) keep_topics: bool,
    /// Change a property of the system under test or, after `client.`, of the client library
    #[arg(long = "set", value_name = "PROPERTY=VALUE", value_parser = parse_setting)]
    pub(crate) settings: Vec<(String, String)>,
    /// Run this program as the system, in place of the one that would be used
    #[arg(long, value_name = "FILE")]
    pub(crate) bin: Option<PathBuf>,
    /// With fault rolling-upgrade: the version that nodes go to, or, of a system that is not asked for by version, the program
    #[arg(long, value_name = "VERSION|FILE", conflicts_with_all = ["sim", "bootstrap"])]
    pub(crate) upgrade_to: Option<String>,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = riprap_results::DEFAULT_ROOT)]
    pub(crate) store: PathBuf,
    /// Print results.json instead of a summary
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:
  riprap compare --system kafka --versions 4.0.0,4.3.1 --seeds 1..5
  riprap compare --defects none,zero-offset --sim --seeds 1..20 --jobs 2
  riprap compare --systems broker,kafka@4.3.1 --nemesis none

Each seed is the same plan for all. Exit code 1 if a later one is worse than the first: if it shows a forbidden anomaly that \
the first does not, or is invalid with more seeds; otherwise 255 if a run failed in the harness itself, 2 if one is unknown or \
was not made, and 0. How fast they are is told, and changes no exit code.",
    mut_arg("system", |arg| arg.help("The system under test, with --versions or --defects")),
    mut_arg("seed", |arg| arg.hide(true)),
    mut_arg("defect", |arg| arg.hide(true)),
    mut_arg("hosts", |arg| arg.hide(true)),
    mut_arg("spare_host", |arg| arg.hide(true)),
    mut_arg("ssh_key", |arg| arg.hide(true)),
    mut_arg("accept_new", |arg| arg.hide(true)),
    mut_arg("bootstrap", |arg| arg.hide(true)),
    mut_arg("keep_topics", |arg| arg.hide(true)),
    mut_arg("bin", |arg| arg.hide(true)),
    mut_arg("json", |arg| arg.help("Print results.json instead of a table"))
)]
pub(crate) struct CompareArgs {
    /// These versions of the system, the first being what the others are compared with
    #[arg(long, value_name = "VERSION,...", value_delimiter = ',', conflicts_with_all = ["defects", "systems"])]
    pub(crate) versions: Vec<String>,
    /// The system with these planted defects, or `none`
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', conflicts_with = "systems")]
    pub(crate) defects: Vec<String>,
    /// These systems
    #[arg(long, value_name = "NAME[@VERSION],...", value_delimiter = ',', conflicts_with = "system")]
    pub(crate) systems: Vec<String>,
    /// The seeds, first and last, both included
    #[arg(long, value_name = "FIRST..LAST", default_value = "1..3")]
    pub(crate) seeds: Seeds,
    /// How many simulated runs go on at once; real nodes take turns
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = whole(1, MAX_JOBS))]
    pub(crate) jobs: u16,
    #[command(flatten)]
    pub(crate) test: TestArgs,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:
  riprap sim --seeds 1..1000 --jobs 2
  riprap sim --seeds 1..200 --txn --sub-via subscribe --keep-going
  riprap sim --seeds 1..200 --no-swarm --nemesis kill,partition

Each seed draws the knobs of its run too, except those that are given: nodes, faults, rates, sizes, timeouts, settings of \
brokers and clients; `--nemesis all` is as not given. Stops at the first seed that is not valid, runs it again and writes \
that run down; its test.json has the knobs.",
    mut_arg("seed", |arg| arg.hide(true)),
    mut_arg("sim", |arg| arg.hide(true)),
    mut_arg("controllers", |arg| arg.hide(true)),
    mut_arg("hosts", |arg| arg.hide(true)),
    mut_arg("spare_host", |arg| arg.hide(true)),
    mut_arg("ssh_key", |arg| arg.hide(true)),
    mut_arg("accept_new", |arg| arg.hide(true)),
    mut_arg("bootstrap", |arg| arg.hide(true)),
    mut_arg("keep_topics", |arg| arg.hide(true)),
    mut_arg("bin", |arg| arg.hide(true)),
    mut_arg("upgrade_to", |arg| arg.hide(true))
)]
pub(crate) struct SimArgs {
    /// The seeds, first and last, both included
    #[arg(long, value_name = "FIRST..LAST", default_value = "1..100")]
    pub(crate) seeds: Seeds,
    /// How many runs go on at once, a thread each
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = whole(1, MAX_JOBS))]
    pub(crate) jobs: u16,
    /// Go on after a seed that is not valid
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Have seeds draw operations and faults only: knobs that are not given are those of `riprap test`
    #[arg(long)]
    pub(crate) no_swarm: bool,
    /// The knobs that were given, by the names of their flags
    #[arg(skip)]
    pub(crate) given: BTreeSet<String>,
    #[command(flatten)]
    pub(crate) test: TestArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  riprap replay results/runs/latest
  riprap replay scenario.json --trace --until 3200ms
  riprap replay scenario.json --store results/runs

Exit code 255 if the run is not the same as before.")]
pub(crate) struct ReplayArgs {
    /// The folder of a simulated run, or a scenario
    #[arg(value_name = "RUN|SCENARIO.json")]
    pub(crate) run: PathBuf,
    /// Print everything that happens, with its time and node
    #[arg(long)]
    pub(crate) trace: bool,
    /// Stop at this time of the run
    #[arg(long, value_name = "TIME", value_parser = time(Duration::from_millis(1)))]
    pub(crate) until: Option<Duration>,
    /// Keep the run below this folder, with its report; otherwise nothing is kept
    #[arg(long, value_name = "DIR", conflicts_with_all = ["trace", "until"])]
    pub(crate) store: Option<PathBuf>,
    /// Print results.json instead of a summary
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  riprap shrink results/runs/latest -o lost-write.json
  riprap shrink scenario.json -o smaller.json --limit 5m

Ends when nothing more can be taken away, at the limit, or at ^C, with the smallest that it has found.")]
pub(crate) struct ShrinkArgs {
    /// The folder of a simulated run that is invalid, or a scenario
    #[arg(value_name = "RUN|SCENARIO.json")]
    pub(crate) run: PathBuf,
    /// Where the scenario is written
    #[arg(short, long, value_name = "SCENARIO.json")]
    pub(crate) output: PathBuf,
    /// The anomaly that is to stay; by default the worst of the run
    #[arg(long, value_name = "NAME")]
    pub(crate) anomaly: Option<String>,
    /// How long to go on, at most
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time(MIN_TIME))]
    pub(crate) limit: Duration,
    /// Where the shrunk run is kept, with its report
    #[arg(long, value_name = "DIR", default_value = riprap_results::DEFAULT_ROOT)]
    pub(crate) store: PathBuf,
    /// Print what came of it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  riprap self-test --jobs 2
  riprap self-test --defects zero-offset,lazy-fsync --starts 10

Each defect is looked for in simulation under its own flags (`riprap list defects`), seed after seed, until one of its \
anomalies shows. The clean system runs on the same seeds and has to be valid.")]
pub(crate) struct SelfTestArgs {
    /// The system whose defects are looked for
    #[arg(long, value_name = "NAME", default_value = "broker")]
    pub(crate) system: String,
    /// Look for these only
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) defects: Vec<String>,
    /// How much time of a processor a search may cost
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time(MIN_TIME))]
    pub(crate) budget: Duration,
    /// How many searches for each defect, each from other seeds on; seeds and costs are then medians
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = whole(1, MAX_STARTS))]
    pub(crate) starts: u64,
    /// How long a failure of each defect's first search is shrunk, at most
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time(MIN_TIME))]
    pub(crate) shrink_limit: Duration,
    /// Shrink nothing
    #[arg(long)]
    pub(crate) no_shrink: bool,
    /// How many searches go on at once, a thread each
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = whole(1, MAX_JOBS))]
    pub(crate) jobs: u16,
    /// Where it is written down, with the shrunk runs
    #[arg(long, value_name = "DIR", default_value = riprap_results::DEFAULT_ROOT)]
    pub(crate) store: PathBuf,
    /// Print results.json instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  riprap check results/runs/latest/history.jsonl
  riprap check jepsen/store/latest/history.edn --guarantees jepsen --sub-via subscribe

A history that ends before its final reads did is judged as far as it goes.")]
pub(crate) struct CheckArgs {
    /// The history: .jsonl or .edn, also .gz or .zst
    #[arg(value_name = "HISTORY")]
    pub(crate) history: PathBuf,
    /// The workload that it is of
    #[arg(long, value_name = "NAME", default_value = "queue")]
    pub(crate) workload: String,
    /// What consumers saw of transactions
    #[arg(long, value_name = "LEVEL", default_value = "read_committed")]
    pub(crate) isolation: IsolationArg,
    /// How consumers came by their keys; subscribe if some did [default: assign; of workload abort, subscribe]
    #[arg(long, value_name = "HOW")]
    pub(crate) sub_via: Option<SubViaArg>,
    /// How many replicas acknowledged a record: 0, 1 or all
    #[arg(long, value_name = "ACKS", default_value = "all", value_parser = ["0", "1", "all"])]
    pub(crate) acks: String,
    /// Whether producers were idempotent
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) idempotence: bool,
    /// Leave out dependencies from one write to the next of the same key
    #[arg(long)]
    pub(crate) no_ww: bool,
    /// Take a read that stopped before a value for one that came before its writer: cycles that need this, G-single and
    /// G2, are told but are hints, and never make a history invalid
    #[arg(long)]
    pub(crate) rw: bool,
    /// Whose table says what is allowed
    #[arg(long, value_name = "WHOSE", default_value = "riprap")]
    pub(crate) guarantees: GuaranteesArg,
    /// Give every occurrence as an example, not the worst few
    #[arg(long)]
    pub(crate) all: bool,
    /// Print results.json instead of a summary
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Reads what to do from standard input, a line of JSON each, and ends with it: whoever runs \
`riprap test --hosts` has it started."
)]
pub(crate) struct AgentArgs {
    /// The folder that it may write to
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  riprap report results/runs/latest")]
pub(crate) struct ReportArgs {
    /// The run's folder, e.g. results/runs/latest
    #[arg(value_name = "RUN_DIR")]
    pub(crate) run: PathBuf,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  riprap list faults
  riprap list defects --json")]
pub(crate) struct ListArgs {
    /// What to list
    pub(crate) what: Listed,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Listed {
    /// What can be tested
    Systems,
    /// What clients can do
    Workloads,
    /// What can be done to a cluster
    Faults,
    /// What is looked for in a history
    Checkers,
    /// Documented bugs that the bundled systems can be given
    Defects,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  riprap broker --dir /tmp/b1 --listen 127.0.0.1:9092 --metrics 127.0.0.1:9100
  riprap broker --id 1 --dir /tmp/b1 --listen 127.0.0.1:9092 \\
      --peers 1@127.0.0.1:9092,2@127.0.0.1:9093,3@127.0.0.1:9094
  riprap broker --config b1.toml --log-level debug

A file for --config, in TOML; flags win over it:
  dir = \"/tmp/b1\"
  listen = \"127.0.0.1:9092\"
  peers = [\"1@127.0.0.1:9092\", \"2@127.0.0.1:9093\", \"3@127.0.0.1:9094\"]
  [set]
  \"min.insync.replicas\" = 2
  log.retention.ms = 3600000

RIPRAP_LOG says which modules log what: RIPRAP_LOG=warn,riprap_broker::controller=info
GET /metrics and GET /healthz are answered where --metrics says.")]
pub(crate) struct BrokerArgs {
    /// A file of settings, in TOML: this command's flags by their long names, and `[set]`
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// This broker's id [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole(0, i32::MAX))]
    pub(crate) id: Option<i32>,
    /// Where it listens, for clients and for other brokers [default: 127.0.0.1:9092]
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_listen)]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// The brokers that vote on the cluster's metadata, the same list for all brokers. One that is not in it joins the
    /// cluster as an observer: it has copies and clients like the others. Alone if not given
    #[arg(long, value_name = "ID@HOST:PORT,...", value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// Where others reach a broker that is not among the peers [default: where it listens]
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_address)]
    pub(crate) advertise: Option<riprap_broker::Address>,
    /// Where its data is kept
    #[arg(long, value_name = "DIR", required_unless_present = "config")]
    pub(crate) dir: Option<PathBuf>,
    /// What its randomness (election timeouts, ids) grows from [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole(0, u64::MAX))]
    pub(crate) seed: Option<u64>,
    /// A planted defect (see `riprap list defects`)
    #[arg(long, value_name = "NAME")]
    pub(crate) defect: Option<String>,
    /// Serve metrics, in Prometheus' format, and health over HTTP
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_listen)]
    pub(crate) metrics: Option<std::net::SocketAddr>,
    /// For tests: a file that says how many milliseconds its wall clock stands from the machine's, now and whenever that changes;
    /// what it goes by is written to FILE.seen
    #[arg(long, value_name = "FILE")]
    pub(crate) clock_offset: Option<PathBuf>,
    /// The least weighty lines that are logged: error, warn, info or debug [default: info, or what RIPRAP_LOG says]
    #[arg(long, value_name = "LEVEL", value_parser = parse_log_level)]
    pub(crate) log_level: Option<LevelFilter>,
    /// Change a property, by Kafka's name for it: num.partitions, log.retention.ms, fsync, ...
    #[arg(long = "set", value_name = "PROPERTY=VALUE", value_parser = parse_setting)]
    pub(crate) settings: Vec<(String, String)>,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  riprap objects --dir /tmp/objects --listen 127.0.0.1:9000

It speaks as much of S3's protocol as systems under test need: objects are put, on a condition or without, got, listed
and deleted, by whoever asks. What is put is synced before it is answered.")]
pub(crate) struct ObjectsArgs {
    /// Where it listens [default: 127.0.0.1:9000]
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_listen)]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// Where the objects are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

macro_rules! words {
    ($name:ident -> $target:ty, $($word:literal $variant:ident $to:expr),*) => {
        #[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum $name { $(#[value(name = $word)] $variant),* }
        impl From<$name> for $target {
            fn from(arg: $name) -> $target {
                match arg { $($name::$variant => $to),* }
            }
        }
    };
}
words!(IsolationArg -> Isolation,
    "read_committed" Committed Isolation::ReadCommitted,
    "read_uncommitted" Uncommitted Isolation::ReadUncommitted);
words!(SubViaArg -> SubscribeVia,
    "assign" Assign SubscribeVia::Assign,
    "subscribe" Subscribe SubscribeVia::Subscribe);
words!(GuaranteesArg -> riprap_checker::Guarantees,
    "riprap" Riprap riprap_checker::Guarantees::Riprap,
    "jepsen" Jepsen riprap_checker::Guarantees::Jepsen);

/// A whole number within bounds.
fn whole<T>(least: T, most: T) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Copy + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("a whole number from {least} to {most} is right"))
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let (least, most) = RATE_HZ;
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("a number from {least} to {most} is right"))
}

/// `error`, `warn`, `info` or `debug`.
pub(crate) fn parse_log_level(text: &str) -> Result<LevelFilter, String> {
    match text {
        "error" => Ok(LevelFilter::ERROR),
        "warn" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        _ => Err("one of error, warn, info, debug is right".to_owned()),
    }
}

pub(crate) fn parse_listen(text: &str) -> Result<std::net::SocketAddr, String> {
    text.parse().map_err(|_| "HOST:PORT with an IP address is right".to_owned())
}

pub(crate) fn parse_address(text: &str) -> Result<riprap_broker::Address, String> {
    text.parse().map_err(|_| "HOST:PORT is right".to_owned())
}

/// `HOST:PORT`, as it is given to client libraries.
fn parse_bootstrap(text: &str) -> Result<String, String> {
    parse_address(text).map(|_| text.to_owned())
}

/// A time of at least this and at most a week.
fn time(least: Duration) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let time = parse_duration(text)?;
        if (least..=MAX_TIME).contains(&time) {
            return Ok(time);
        }
        Err(format!("a time from {least:?} to {}h is right", MAX_TIME.as_secs() / 3600))
    }
}

/// `500ms`, `30s`, `2m`, `1h`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit_ms: Option<u64> = match &text[digits..] {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let number: Option<u64> = text[..digits].parse().ok();
    let time_ms = number.zip(unit_ms).and_then(|(number, unit_ms)| number.checked_mul(unit_ms));
    time_ms
        .map(Duration::from_millis)
        .ok_or_else(|| "a whole number with a unit is right, such as 500ms, 30s, 2m or 1h".to_owned())
}

/// `NAME=VALUE`.
fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("PROPERTY=VALUE is right".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        for (text, expected_ms) in [("500ms", Some(500)), ("30s", Some(30_000)), ("2m", Some(120_000))] {
            assert_eq!(parse_duration(text).ok().map(|time| time.as_millis()), expected_ms);
        }
        for text in ["30", "s", "", "-1s", "1.5s", "1d", "99999999999999999999s", "18446744073709551615h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
