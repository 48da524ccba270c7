//! `report.html`: one file that tells the whole story.

use crate::record::TestRecord;
use riprap_checker::Verdict;
use riprap_core::History;

/// What a report is made of.
pub struct ReportInput<'a> {
    /// What was asked for.
    pub test: &'a TestRecord,
    /// What came of it.
    pub verdict: &'a Verdict,
    /// What happened.
    pub history: &'a History,
}

/// The report.
pub fn report(input: &ReportInput<'_>) -> String {
    let ReportInput { test, verdict, history } = input;
    format!("<!doctype html><title>{}</title>{} {}", verdict.valid, history.len(), test.config.seed)
}
