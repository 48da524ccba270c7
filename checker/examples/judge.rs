//! Judges a history and says what it took: `cargo run --release -p riprap-checker --example judge -- HISTORY`.

use riprap_checker::{Options, check, read_history};
use std::time::{Duration, Instant};

/// Seconds of processor time that this process has used, on all cores; 0 where there is no /proc.
fn cpu_s() -> f64 {
    /// Linux counts processor time in hundredths of a second, whatever the kernel's own clock.
    const TICKS_PER_S: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_S
}

/// The most memory that this process has had, in MB; 0 where there is no /proc.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak_kib =
        peak.and_then(|rest| rest.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok());
    (peak_kib.unwrap_or_default() << 10) / 1_000_000
}

fn main() {
    let path = std::env::args().nth(1).expect("a history's path is given");
    let begin = Instant::now();
    let loaded = read_history(&path).unwrap_or_else(|e| {
        eprintln!("{e}");
        std::process::exit(254)
    });
    let (read, read_cpu_s, read_peak_mb) = (begin.elapsed(), cpu_s(), peak_mb());
    let begin = Instant::now();
    let verdict = check(&loaded.history, &Options::default());
    let checked = begin.elapsed();
    for (name, found) in &verdict.anomalies {
        println!("{name}: {}{}", found.count, if found.allowed { " (allowed)" } else { "" });
    }
    verdict.why.iter().for_each(|why| println!("{why}"));
    let completed: u64 =
        verdict.stats.by_f.values().map(|kinds| kinds.ok + kinds.fail + kinds.info).sum::<u64>();
    println!(
        "{}: {completed} completed ops, {} records read by polls",
        verdict.valid, verdict.stats.ok_records
    );
    let cost = |what: &str, took: Duration, cpu_s: f64| {
        let rate = completed as f64 / took.as_secs_f64();
        println!("{what} in {:.2} s ({cpu_s:.2} s of processor time): {rate:.0} ops/s", took.as_secs_f64());
    };
    cost("read", read, read_cpu_s);
    cost("judged", checked, cpu_s() - read_cpu_s);
    cost("both", read + checked, cpu_s());
    println!("peak memory: {read_peak_mb} MB after reading, {} MB in all", peak_mb());
}
