//! Writes a history of a log that works, or of one that is wrong now and then:
//!
//!     cargo run --release -p riprap-checker --example generate -- FILE [--ops 100000] [--processes 20] [--keys 20]
//!         [--writes-per-key 1024] [--mode serial|kafka] [--anomalies 0] [--seed 1]
//!
//! FILE ends in `.jsonl` or `.edn`. The same arguments write the same bytes.

mod log;

use log::{Config, Mode, anomalies, generate};
use riprap_checker::write_edn_op;
use riprap_core::history::write_op;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::str::FromStr;

fn main() {
    let mut arguments = std::env::args().skip(1);
    if let Err(why) = run(&mut arguments) {
        eprintln!("{why}");
        std::process::exit(254);
    }
}

fn run(arguments: &mut impl Iterator<Item = String>) -> Result<(), String> {
    let path = arguments.next().ok_or("a file to write, .jsonl or .edn, is missing")?;
    let mut config = Config::default();
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{option} lacks its value"))?;
        match option.as_str() {
            "--ops" => config.ops = number(&option, &value)?,
            "--processes" => config.processes = number(&option, &value)?,
            "--keys" => config.keys = number(&option, &value)?,
            "--writes-per-key" => config.writes_per_key = number(&option, &value)?,
            "--anomalies" => config.anomalies = number(&option, &value)?,
            "--seed" => config.seed = number(&option, &value)?,
            "--mode" => {
                config.mode = match value.as_str() {
                    "serial" => Mode::Serial,
                    "kafka" => Mode::Kafka,
                    _ => return Err(format!("--mode is `{value}`; one of: serial, kafka")),
                };
            }
            _ => return Err(format!("unknown option `{option}`; see the example's documentation")),
        }
    }
    let is_edn = path.ends_with(".edn");
    if !is_edn && !path.ends_with(".jsonl") {
        return Err(format!("{path}: a history ends in .jsonl or .edn"));
    }
    let (ops, bytes) = write(&path, is_edn, &config).map_err(|e| format!("{path}: {e}"))?;
    println!("{path}: {ops} ops, {bytes} bytes");
    if config.anomalies > 0 {
        println!("{} faults, each of {:?} in turn", config.anomalies, anomalies().collect::<Vec<_>>());
    }
    Ok(())
}

fn number<T: FromStr>(option: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{option} is `{value}`; a number is right"))
}

/// How many ops were written, and bytes.
fn write(path: &str, is_edn: bool, config: &Config) -> io::Result<(u64, u64)> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (mut ops, mut outcome) = (0, Ok(()));
    generate(config, |op| {
        if outcome.is_ok() {
            outcome = if is_edn { write_edn_op(&mut out, &op) } else { write_op(&mut out, &op) };
            ops += 1;
        }
    });
    outcome?;
    out.flush()?;
    Ok((ops, out.get_ref().metadata()?.len()))
}
