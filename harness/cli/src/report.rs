//! `riprap report`: makes a run's report again from its files.

use crate::args::ReportArgs;
use crate::{Failure, print};
use riprap_checker::read_history;
use riprap_results::{RunDir, publish};

pub(crate) fn run(args: &ReportArgs) -> Result<u8, Failure> {
    let run = RunDir::open(&args.run).map_err(Failure::usage)?;
    let test = run.read_test().map_err(Failure::usage)?;
    let verdict = run.read_results().map_err(Failure::usage)?;
    let loaded = read_history(run.history_path()).map_err(Failure::usage)?;
    let report = publish(&run, &test, &verdict, &loaded.history).map_err(Failure::harness)?;
    print(&format!("{}\n", report.display()))?;
    Ok(0)
}
