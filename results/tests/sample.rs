//! The files of a run, published: what is there afterwards, and that it does not depend on who does it when.

use riprap_results::{RunDir, publish};
use std::fs;
use std::path::Path;

/// What a report may weigh, to be sent by mail: its size is bounded whatever the run's.
const MAX_REPORT_BYTES: usize = 300_000;

fn publish_copy(to: &Path) -> String {
    copy_dir(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sample"), to);
    let run = RunDir::open(to).expect("it was just made");
    let history = riprap_checker::read_history(run.history_path()).expect("a history").history;
    let (test, verdict) = (run.read_test().expect("a test"), run.read_results().expect("results"));
    let report = publish(&run, &test, &verdict, &history).expect("it is written");
    assert_eq!(run.read_results().expect("results"), verdict, "results.json is read back as it was");
    fs::read_to_string(report).expect("a report")
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("it is made");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("it is copied");
        }
    }
}

#[test]
fn a_run_is_published() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let html = publish_copy(&dir.path().join("a"));
    assert!(html.len() < MAX_REPORT_BYTES, "{} bytes", html.len());
    for expected in [
        "<h1>Invalid</h1>",
        "riprap test --defect min-isr-unclean --nemesis kill,partition --seed 8261734",
        "id=\"anomaly-lost-write\"",
        "key 2 ← 47@42",
        "one: n1↔n2, n1↔n3",
        "n2: down: signal: 9 (SIGKILL)",
        "aria-label=\"Latency: ",
        "NOT_ENOUGH_REPLICAS",
        "ERROR truncates t0-2 from 46 to 42 by leader epoch 4",
        "href=\"./nodes/n1/broker.log\"",
    ] {
        assert!(html.contains(expected), "{expected}");
    }
    for plot in ["plots/rate.svg", "plots/latency.svg"] {
        let svg = fs::read_to_string(dir.path().join("a").join(plot)).expect("a plot");
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    }
    assert_eq!(html, publish_copy(&dir.path().join("b")), "the same files give the same report");
}
