//! How much time of a simulated cluster a second of one core gives.
//!
//! ```text
//! cargo bench -p riprap-cli --bench simulation
//! ```
//! Three brokers and five clients that do a hundred ops a second in all, with faults; each case with one worker and with
//! two. What is measured is the whole of `riprap sim`, check and all: processor time for the figure of a core, wall time
//! for what all cores give together. The median of three rounds counts.

use serde_json::Value as Json;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SEEDS: &str = "1..20";
const ROUNDS: usize = 3;
const CLUSTER: &[&str] = &["--no-swarm", "--nodes", "3", "--concurrency", "5", "--rate", "100"];

/// What is simulated, and how.
const CASES: &[(&str, &[&str])] = &[
    ("kill, partition", &["--nemesis", "kill,partition"]),
    ("all faults", &["--nemesis", "all"]),
    ("transactions and groups", &["--nemesis", "kill,partition", "--txn", "--sub-via", "assign,subscribe"]),
];

/// Simulated seconds for a second, each: of one core, and of the clock.
#[derive(Clone, Copy)]
struct Rates {
    core: f64,
    wall: f64,
}

/// The processor time of the children that have ended.
fn children_cpu() -> Duration {
    // SAFETY: the struct is plain numbers, for which all bits zero are valid, and the call writes into it only.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage), 0, "getrusage of own children");
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn round(args: &[&str], jobs: &str) -> Rates {
    let store = tempfile::tempdir().expect("a folder for runs");
    let (cpu_before, began) = (children_cpu(), Instant::now());
    let output = Command::new(env!("CARGO_BIN_EXE_riprap"))
        .args(["sim", "--seeds", SEEDS, "--jobs", jobs, "--json", "--store"])
        .arg(store.path())
        .args(CLUSTER)
        .args(args)
        .stderr(Stdio::null())
        .output()
        .expect("riprap runs");
    let (wall, cpu) = (began.elapsed(), children_cpu() - cpu_before);
    assert!(output.status.success(), "riprap sim {args:?}: {}", output.status);
    let told: Json = serde_json::from_slice(&output.stdout).expect("riprap tells JSON");
    let simulated_s = told["simulated_s"].as_f64().expect("riprap tells the simulated time");
    Rates { core: simulated_s / cpu.as_secs_f64(), wall: simulated_s / wall.as_secs_f64() }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() {
    println!("simulated seconds a second, median of {ROUNDS} rounds over seeds {SEEDS}\n");
    println!("{:<26} {:>10} {:>14} {:>14}", "", "of a core", "clock, 1 job", "clock, 2 jobs");
    for (name, args) in CASES {
        let rates = |jobs: &str| (0..ROUNDS).map(|_| round(args, jobs)).collect::<Vec<_>>();
        let (one, two) = (rates("1"), rates("2"));
        let core = median(one.iter().map(|rates| rates.core).collect());
        let wall = |of: &[Rates]| median(of.iter().map(|rates| rates.wall).collect());
        println!("{name:<26} {core:>10.0} {:>14.0} {:>14.0}", wall(&one), wall(&two));
    }
}
