//! Judges a history and says what it took: `cargo run --release -p riprap-checker --example judge -- HISTORY`.

use riprap_checker::{Options, check, read_history};
use std::time::Instant;

fn main() {
    let path = std::env::args().nth(1).expect("a history's path is given");
    let begin = Instant::now();
    let loaded = read_history(&path).unwrap_or_else(|e| {
        eprintln!("{e}");
        std::process::exit(254)
    });
    let read = begin.elapsed();
    let begin = Instant::now();
    let verdict = check(&loaded.history, &Options::default());
    let checked = begin.elapsed();
    for (name, found) in &verdict.anomalies {
        println!("{name}: {}{}", found.count, if found.allowed { " (allowed)" } else { "" });
    }
    verdict.why.iter().for_each(|why| println!("{why}"));
    println!(
        "{}: {} ops, {} records read in {:.2} s, judged in {:.2} s",
        verdict.valid,
        verdict.stats.ops,
        verdict.stats.ok_records,
        read.as_secs_f64(),
        checked.as_secs_f64()
    );
}
