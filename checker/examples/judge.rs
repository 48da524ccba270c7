//! Judges a history and says what it took: `cargo run --release -p riprap-checker --example judge -- HISTORY`.

use riprap_checker::{Options, check, read_history};
use std::time::Instant;

/// Seconds of processor time that this process has used, on all cores; 0 where there is no /proc.
fn cpu_s() -> f64 {
    /// Linux counts processor time in hundredths of a second, whatever the kernel's own clock.
    const TICKS_PER_S: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_S
}

fn main() {
    let path = std::env::args().nth(1).expect("a history's path is given");
    let begin = Instant::now();
    let loaded = read_history(&path).unwrap_or_else(|e| {
        eprintln!("{e}");
        std::process::exit(254)
    });
    let (read, read_cpu_s) = (begin.elapsed(), cpu_s());
    let begin = Instant::now();
    let verdict = check(&loaded.history, &Options::default());
    let checked = begin.elapsed();
    for (name, found) in &verdict.anomalies {
        println!("{name}: {}{}", found.count, if found.allowed { " (allowed)" } else { "" });
    }
    verdict.why.iter().for_each(|why| println!("{why}"));
    println!(
        "{}: {} ops, {} records read in {:.2} s ({:.2} s of processor time), judged in {:.2} s ({:.2} s)",
        verdict.valid,
        verdict.stats.ops,
        verdict.stats.ok_records,
        read.as_secs_f64(),
        read_cpu_s,
        checked.as_secs_f64(),
        cpu_s() - read_cpu_s
    );
}
