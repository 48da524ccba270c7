//! A run that is written down whole: what somebody else needs to see the same.

use super::{MAX_CONCURRENCY, MAX_KEYS, MAX_NODES, Plan, TestConfig};
use serde::{Deserialize, Serialize};

/// The version of the form that is written and read.
pub const SCENARIO_VERSION: u32 = 1;

/// Every knob and every act of a simulated run, and what came of it: a file that replays the run, whatever the workload
/// would make of its seed by then.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The form's version.
    pub riprap_scenario: u32,
    /// Every knob.
    pub config: TestConfig,
    /// What clients and faults do.
    pub plan: Plan,
    /// The anomalies that it shows, the worst first.
    pub anomalies: Vec<String>,
    /// All that happens in it, as a hash: another version of the system under test, or of riprap, gives another.
    pub trace: String,
}

impl Scenario {
    /// Reads a file's text. Errors: one line that names the field and what would have been right.
    pub fn parse(text: &str) -> Result<Scenario, String> {
        #[derive(Deserialize)]
        struct Form {
            riprap_scenario: Option<u32>,
        }
        let form: Form = serde_json::from_str(text).map_err(|e| e.to_string())?;
        match form.riprap_scenario {
            Some(SCENARIO_VERSION) => {}
            Some(other) => {
                return Err(format!("riprap_scenario is {other}; this version reads {SCENARIO_VERSION}"));
            }
            None => return Err("riprap_scenario is missing: this is no scenario".to_owned()),
        }
        let scenario: Scenario = serde_json::from_str(text).map_err(|e| e.to_string())?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Whether it is possible. Errors: as [`Scenario::parse`].
    fn check(&self) -> Result<(), String> {
        let config = &self.config;
        if config.sim.is_none() {
            return Err("config.sim is missing: only simulated runs are scenarios".to_owned());
        }
        for (name, value, most) in [
            ("nodes", u64::from(config.nodes), MAX_NODES.into()),
            ("concurrency", u64::from(config.concurrency), MAX_CONCURRENCY.into()),
            ("keys", u64::from(config.keys), MAX_KEYS.into()),
            ("max_writes_per_key", u64::from(config.max_writes_per_key), u64::from(u32::MAX)),
        ] {
            if !(1..=most).contains(&value) {
                return Err(format!("config.{name} is {value}; a number from 1 to {most} is right"));
            }
        }
        if !(config.rate_hz > 0.0 && config.rate_hz.is_finite()) {
            return Err(format!("config.rate_hz is {}; a number above 0 is right", config.rate_hz));
        }
        if !(1..=config.nodes).contains(&config.replication_factor) {
            let (factor, nodes) = (config.replication_factor, config.nodes);
            return Err(format!(
                "config.replication_factor is {factor}; a number from 1 to {nodes}, the nodes, is right"
            ));
        }
        let sorted = self.plan.faults.is_sorted_by_key(|event| event.time_ns);
        if !sorted {
            return Err("plan.faults is not sorted by time".to_owned());
        }
        for (number, op) in self.plan.ops.iter().flatten().enumerate() {
            if op.thread >= config.concurrency {
                let (thread, threads) = (op.thread, config.concurrency);
                return Err(format!(
                    "plan.ops[{number}].process is {thread}; a number below {threads}, config.concurrency, is right"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn scenario() -> Json {
        json!({
            "riprap_scenario": 1,
            "config": {
                "system": "broker", "workload": "queue", "nemesis": ["kill"],
                "sim": {"min_latency_ns": 1, "max_latency_ns": 2, "slow_one_in": 0, "min_sync_ns": 1, "max_sync_ns": 2,
                        "batched_one_in": 0},
                "nodes": 3, "time_limit_ms": 1000, "rate_hz": 10.0, "concurrency": 2, "seed": 7, "txn": false,
                "isolation": "read_committed", "sub_via": ["assign"], "acks": "all", "idempotence": true, "defect": null,
                "replication_factor": 3, "keys": 1, "max_writes_per_key": 10, "fault_max_ms": 1, "quiet_max_ms": 1,
                "op_timeout_ms": 1000, "recovery_limit_ms": 1000, "drain_limit_ms": 1000, "settings": {},
            },
            "plan": {
                "faults": [{"time": 5, "fault": "kill", "f": "kill", "value": {"shape": "one", "nodes": ["n1"]}}],
                "ops": [{"index": 0, "time": 3, "process": 1, "type": "invoke", "f": "send", "value": [["send", 0, 0]]}],
            },
            "anomalies": ["lost-write"], "trace": "00",
        })
    }

    #[test]
    fn a_scenario_is_read_as_it_was_written() {
        let read = Scenario::parse(&scenario().to_string()).expect("it is right");
        let text = serde_json::to_string(&read).expect("scenarios are written");
        assert_eq!(Scenario::parse(&text), Ok(read));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |pointer: &str, value: Json, expected: &str| {
            let mut wrong = scenario();
            *wrong.pointer_mut(pointer).expect("the field is there") = value;
            let refused = Scenario::parse(&wrong.to_string()).expect_err("it is wrong");
            assert!(refused.starts_with(expected), "{pointer}: {refused}");
        };
        check("/riprap_scenario", json!(2), "riprap_scenario is 2; this version reads 1");
        check("/riprap_scenario", json!(null), "riprap_scenario is missing");
        check("/config/sim", json!(null), "config.sim is missing");
        check("/config/nodes", json!(0), "config.nodes is 0; a number from 1 to 64 is right");
        check("/config/rate_hz", json!(-1.0), "config.rate_hz is -1; a number above 0 is right");
        check("/config/replication_factor", json!(4), "config.replication_factor is 4; a number from 1 to 3");
        check("/config/isolation", json!("serial"), "unknown variant `serial`");
        check("/plan/ops/0/process", json!(2), "plan.ops[0].process is 2; a number below 2");
        check("/plan/ops/0/type", json!("ok"), "op 0 (send): an invocation of a client is right");
        let mut unknown = scenario();
        unknown["extra"] = json!(1);
        let refused = Scenario::parse(&unknown.to_string()).expect_err("it is wrong");
        assert!(refused.starts_with("unknown field `extra`"), "{refused}");
    }
}
