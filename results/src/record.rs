//! `test.json`: every knob of a run, and what it ran with.

use riprap_core::plan::TestConfig;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// What `test.json` holds: the knobs, flat, and beside them what else is needed to run the same again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TestRecord {
    /// Every knob.
    #[serde(flatten)]
    pub config: TestConfig,
    /// riprap's own version.
    pub riprap: String,
    /// The commit that riprap was built from, if known.
    pub git_commit: Option<String>,
    /// When the run began, in UTC, for humans.
    pub began: String,
    /// The arguments after the program's name, as given.
    pub args: Vec<String>,
    /// What the system says of itself: versions of what really ran.
    pub versions: Json,
}

impl TestRecord {
    /// The command that runs the same again: the arguments as given, with the seed if they left it to chance.
    pub fn command(&self) -> String {
        let given = |arg: &String| arg == "--seed" || arg.starts_with("--seed=");
        let mut words = vec!["riprap".to_owned()];
        words.extend(self.args.iter().map(|arg| shell_word(arg)));
        // Whatever else a run is made by says by itself which one it is.
        let draws_seed = self.args.first().is_some_and(|command| command == "test");
        if draws_seed && !self.args.iter().any(given) {
            words.extend(["--seed".to_owned(), self.config.seed.to_string()]);
        }
        words.join(" ")
    }
}

/// A word as a POSIX shell reads it back.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use riprap_core::{Isolation, SubscribeVia};
    use serde_json::json;

    pub(crate) fn record() -> TestRecord {
        TestRecord {
            config: TestConfig {
                system: "broker".to_owned(),
                workload: "queue".to_owned(),
                nemesis: vec!["kill".to_owned(), "partition:bridge".to_owned()],
                sim: None,
                nodes: 3,
                controllers: 0,
                storage: 0,
                time_limit_ms: 30_000,
                rate_hz: 100.5,
                concurrency: 6,
                rotate_ms: None,
                seed: u64::MAX,
                txn: false,
                isolation: Isolation::ReadCommitted,
                sub_via: vec![SubscribeVia::Assign],
                acks: "all".to_owned(),
                idempotence: true,
                defect: None,
                replication_factor: 3,
                keys: 4,
                max_writes_per_key: 1024,
                value_bytes: 1,
                fault_max_ms: 5_000,
                quiet_max_ms: 5_000,
                op_timeout_ms: 10_000,
                recovery_limit_ms: 30_000,
                drain_limit_ms: 30_000,
                bootstrap: Vec::new(),
                upgrade_to: None,
                hosts: Vec::new(),
                spare_host: None,
                settings: [("min.insync.replicas".to_owned(), "2".to_owned())].into(),
            },
            riprap: "0.1.0".to_owned(),
            git_commit: Some("2f6c1d0".to_owned()),
            began: "2026-11-29 16:55:30 UTC".to_owned(),
            args: vec!["test".to_owned(), "--nemesis".to_owned(), "kill".to_owned()],
            versions: json!({"broker": "0.1.0"}),
        }
    }

    #[test]
    fn knobs_lie_flat_beside_the_rest() {
        let json = serde_json::to_value(record()).expect("it is JSON");
        assert_eq!(json["system"], "broker");
        assert_eq!(json["seed"], u64::MAX);
        assert_eq!(json["riprap"], "0.1.0");
        assert_eq!(serde_json::from_value::<TestRecord>(json).expect("it is read back"), record());
    }

    #[test]
    fn the_command_runs_the_same_again() {
        let check = |args: &[&str], expected: &str| {
            let mut record = record();
            record.config.seed = 42;
            record.args = args.iter().map(ToString::to_string).collect();
            assert_eq!(record.command(), expected);
        };
        check(&["test"], "riprap test --seed 42");
        check(&["test", "--seed", "42"], "riprap test --seed 42");
        check(&["test", "--seed=42", "--txn"], "riprap test --seed=42 --txn");
        check(&["test", "--set", "a=b c", ""], "riprap test --set 'a=b c' '' --seed 42");
        check(&["test", "--bin", "it's"], r"riprap test --bin 'it'\''s' --seed 42");
        check(&["replay", "lost.json"], "riprap replay lost.json");
    }
}
