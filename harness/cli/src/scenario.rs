//! Simulated runs from files: the folder of one, or a scenario.

use crate::Failure;
use riprap_checker::Verdict;
use riprap_core::plan::{Plan, Scenario, TestConfig};
use riprap_results::RunDir;
use serde_json::Value as Json;
use std::path::Path;

/// What is to be run again, and what came of it.
pub(crate) struct Origin {
    pub(crate) config: TestConfig,
    pub(crate) plan: Plan,
    /// The forbidden anomalies, the worst first.
    pub(crate) anomalies: Vec<String>,
    pub(crate) trace: String,
}

/// Reads a run's folder or a scenario. Errors: bad arguments, in one line that names the field.
pub(crate) fn load(path: &Path) -> Result<Origin, Failure> {
    if path.is_dir() {
        return load_run(path);
    }
    let read = std::fs::read_to_string(path).map_err(|e| e.to_string());
    let scenario = read.and_then(|text| Scenario::parse(&text));
    let scenario = scenario.map_err(|why| Failure::Usage(format!("{}: {why}", path.display())))?;
    let Scenario { config, plan, anomalies, trace, .. } = scenario;
    Ok(Origin { config, plan, anomalies, trace })
}

fn load_run(path: &Path) -> Result<Origin, Failure> {
    let run = RunDir::open(path).map_err(Failure::usage)?;
    let config = run.read_test().map_err(Failure::usage)?.config;
    if config.sim.is_none() {
        let path = path.display();
        return Err(Failure::Usage(format!(
            "{path} is a run on real processes: it can be repeated (its report says how), not replayed; the folder of a run \
             with --sim is right"
        )));
    }
    let plan = run.read_plan().map_err(Failure::usage)?;
    if plan.ops.is_none() {
        let path = path.display();
        return Err(Failure::Usage(format!("{path}/plan.json has no `ops`: the run was not finished")));
    }
    let verdict = run.read_results().map_err(Failure::usage)?;
    let anomalies = verdict.forbidden().map(|(name, _)| name.to_owned()).collect();
    Ok(Origin { config, plan, anomalies, trace: trace(&verdict) })
}

/// All that happened in a run, as a hash.
pub(crate) fn trace(verdict: &Verdict) -> String {
    let trace = verdict.parts.get("simulation").and_then(|part| part.get("trace")).and_then(Json::as_str);
    trace.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::Test;
    use crate::test::sim::simulate_quietly;
    use riprap_checker::Valid;

    /// What seeds have found in the bundled broker, shrunk to scenarios before it was mended: each is clean now. It runs
    /// another course than it did then, but the operations and faults are the same.
    #[test]
    fn faults_that_were_mended_stay_away() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems/broker/scenarios");
        let files =
            std::fs::read_dir(&folder).expect("they are kept").map(|file| file.expect("readable").path());
        let mut files: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
        files.sort();
        assert!(!files.is_empty(), "{}", folder.display());
        for file in files {
            let Origin { config, plan, anomalies, .. } = load(&file).unwrap_or_else(|e| panic!("{e:?}"));
            let test =
                Test::of(config, None, Some(plan)).unwrap_or_else(|e| panic!("{}: {e:?}", file.display()));
            let verdict = simulate_quietly(&test, &|| false)
                .unwrap_or_else(|e| panic!("{}: {e:?}", file.display()))
                .verdict;
            // Without an anomaly the cluster did not serve again, which is no verdict.
            let is_mended =
                verdict.valid == Valid::True || !anomalies.is_empty() && verdict.valid != Valid::False;
            assert!(is_mended, "{}: {:?}", file.display(), verdict.why);
        }
    }
}
