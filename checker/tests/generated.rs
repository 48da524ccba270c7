//! What `examples/generate` makes: a log that works shows nothing that it must not, and each fault is found.

#[path = "../examples/generate/log.rs"]
mod log;

use log::{Config, Mode, anomalies, generate};
use riprap_checker::{Options, Valid, Verdict, check};
use riprap_core::History;

fn history(config: &Config) -> History {
    let mut history = History::new();
    generate(config, |op| history.push(op));
    history
}

fn judge(config: &Config) -> Verdict {
    check(&history(config), &Options::default())
}

#[test]
fn a_log_that_works_is_clean() {
    for seed in 0..4 {
        let config = Config { ops: 3_000, keys: 5, writes_per_key: 200, seed, ..Config::default() };
        let serial = judge(&config);
        assert_eq!((serial.valid, serial.why.as_slice()), (Valid::True, &[][..]), "seed {seed}");
        assert!(serial.anomalies.is_empty(), "seed {seed}: {:?}", serial.anomalies.keys());
        let kafka = judge(&Config { mode: Mode::Kafka, ..config });
        assert_eq!((kafka.valid, kafka.why.as_slice()), (Valid::True, &[][..]), "seed {seed}");
        assert!(kafka.anomalies["G0"].count > 0, "seed {seed}: transactions interleave");
        assert!(kafka.stats.ok_records > 3 * config.ops, "seed {seed}: several read what one sends");
    }
}

#[test]
fn each_fault_is_found() {
    for mode in [Mode::Serial, Mode::Kafka] {
        let verdict = judge(&Config { ops: 5_000, mode, anomalies: 20, ..Config::default() });
        assert_eq!(verdict.valid, Valid::False);
        for anomaly in anomalies() {
            assert!(verdict.anomalies.contains_key(anomaly), "{mode:?}: no {anomaly}");
        }
    }
}

#[test]
fn a_seed_is_a_history() {
    let config = |seed| Config { ops: 500, seed, ..Config::default() };
    assert_eq!(history(&config(1)), history(&config(1)));
    assert_ne!(history(&config(1)), history(&config(2)));
}
