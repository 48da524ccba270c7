//! Comparisons: the same plans on several variants, side by side, whatever becomes of one run.

use crate::support::{Done, LIMIT, Place, Running, await_some, turn};
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};

fn json(path: &Path) -> Json {
    let text = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The folder of the only comparison.
fn folder(place: &Place) -> PathBuf {
    let all = fs::read_dir(place.store().join("broker-compare")).expect("a folder of comparisons");
    let all: Vec<PathBuf> = all.flatten().map(|entry| entry.path()).collect();
    let [one] = all.as_slice() else { panic!("{all:?}") };
    one.clone()
}

/// What a comparison printed is what it wrote down, and its page leads to every run's.
fn results(place: &Place, done: &Done) -> Json {
    let folder = folder(place);
    let results = json(&folder.join("results.json"));
    assert_eq!(serde_json::from_str::<Json>(&done.out).expect("JSON and nothing else"), results);
    let page = fs::read_to_string(folder.join("report.html")).expect("a page");
    for run in runs(&results) {
        let Some(link) = run["run"].as_str() else { continue };
        assert!(page.contains(&format!("href=\"{link}/")), "{link}");
        if run["error"].is_null() {
            assert!(folder.join(link).join("report.html").exists(), "{link}");
        }
    }
    results
}

fn runs(results: &Json) -> impl Iterator<Item = &Json> {
    let variants = results["variants"].as_array().expect("a list");
    variants.iter().flat_map(|variant| variant["runs"].as_array().expect("a list"))
}

fn counts(results: &Json, variant: usize) -> [u64; 5] {
    let counts = &results["variants"][variant]["counts"];
    ["valid", "invalid", "unknown", "failed", "not_run"].map(|name| counts[name].as_u64().expect("a count"))
}

#[test]
fn a_defect_is_worse_and_the_same_is_the_same() {
    let place = Place::mine();
    let flags = ["compare", "--sim", "--time-limit=20s", "--json", "--jobs=2"];
    let done = place
        .run(&[&flags[..], &["--defects=none,fetch-filter-skip", "--seeds=1..2"]].concat())
        .end()
        .expect(1);
    let all = results(&place, &done);
    assert_eq!((counts(&all, 0), counts(&all, 1)), ([2, 0, 0, 0, 0], [0, 2, 0, 0, 0]));
    let [first, later] = [0, 1].map(|n| &all["variants"][n]);
    assert_eq!((&first["name"], &later["name"]), (&Json::from("none"), &Json::from("fetch-filter-skip")));
    assert!(
        later["worse"][0].as_str().expect("words").starts_with("invalid with 2 of 2 seeds, not 0"),
        "{all}"
    );
    assert_eq!(later["anomalies"]["poll-skip"]["allowed"], false);
    assert_eq!(later["ratios"]["ok_per_s"]["seeds"], 2);
    assert!(first["measures"]["send_p50_ms"]["median"].as_f64() > Some(0.0), "{first}");
    let planned = |n: usize| {
        let run = all["variants"][n]["runs"][0]["run"].as_str().expect("a folder");
        json(&folder(&place).join(run).join("plan.json"))["faults"].clone()
    };
    assert_eq!(planned(0), planned(1));
    assert!(!place.latest().exists(), "the newest run is none of a comparison's");

    let place = Place::mine();
    let done = place.run(&[&flags[..], &["--defects=none,none", "--seeds=7"]].concat()).end().expect(0);
    let all = results(&place, &done);
    let again = &all["variants"][1];
    assert_eq!(
        (&again["name"], &again["ratios"]["ok_per_s"]["max"]),
        (&Json::from("none #2"), &Json::from(1.0))
    );
}

#[test]
fn one_run_that_breaks_and_a_user_who_wants_no_more_lose_nothing_else() {
    let place = Place::mine();
    let endless = ["compare", "--sim", "--time-limit=24h", "--json", "--defects=none,none", "--seeds=1..9"];
    let run = place.run(&endless);
    let child = |store: &str| {
        await_some("a run", LIMIT, || {
            let is_it = |pid: &u32| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).into_owned();
                line.starts_with("riprap\0test\0") && line.contains(store)
            };
            place.processes().into_iter().find(is_it)
        })
    };
    let pid = child("/1-none").cast_signed();
    // SAFETY: kill touches no memory; the process is one that this test had started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    child("/2-none");
    await_some("a history", LIMIT, || {
        let store = folder(&place).join("2-none__2/latest/history.jsonl");
        fs::metadata(store).ok().filter(|history| history.len() > 100_000).map(drop)
    });
    run.signal(libc::SIGINT);
    let done = run.end().expect(255);
    place.expect_nobody();
    let all = results(&place, &done);
    assert_eq!((counts(&all, 0), counts(&all, 1)), ([0, 0, 0, 1, 8], [0, 0, 1, 0, 8]));
    assert_eq!((&all["interrupted"], &all["seeds"]), (&Json::from(true), &Json::from(9)));
    let why = &all["variants"][1]["runs"][0]["why"];
    assert_eq!(why, "interrupted: the main phase was cut short");
    let line = "1 of 18 runs failed: none, seed 1: riprap test was killed by signal 9";
    assert_eq!(done.last_line(), line, "{}", done.err);
}

#[test]
fn a_comparison_that_is_killed_leaves_nobody() {
    let place = Place::mine();
    let run = place.run(&["compare", "--sim", "--time-limit=24h", "--defects=none,none"]);
    await_some("a run beside the comparison", LIMIT, || (place.processes().len() >= 2).then_some(()));
    run.signal(libc::SIGKILL);
    place.expect_nobody();
    run.end().expect(128 + libc::SIGKILL);
}

#[test]
fn real_nodes_take_turns() {
    let _turn = turn();
    let place = Place::mine();
    let flags = ["compare", "--defects=none,none", "--seeds=3", "--nemesis=none", "--time-limit=3s"];
    let done = Running::start(place.command(&flags)).end();
    place.expect_nobody();
    // On a machine with much else to do it may be that nothing gets through in so short a time.
    assert!(matches!(done.code, 0 | 2), "{done:?}");
    assert!(done.out.starts_with("defect "), "{}", done.out);
    let all = json(&folder(&place).join("results.json"));
    assert!(runs(&all).count() == 2 && runs(&all).all(|run| run["error"].is_null()), "{all}");
}
