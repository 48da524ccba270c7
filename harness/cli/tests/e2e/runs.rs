//! Live runs: what they leave, whole, interrupted and killed.

use crate::support::{Done, GENTLE, Place, Running, await_some, limit_files, riprap, turn};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Until it is told to end.
const FOREVER: &str = "--time-limit=10m";

fn json(path: &Path) -> Json {
    let text = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn check(place: &Place) -> Done {
    riprap(["check", place.history().to_str().expect("plain")])
}

/// The phases that a run marked in its history, in order.
fn phases(place: &Place) -> Vec<String> {
    let history = fs::read_to_string(place.history()).expect("a run leaves it");
    let ops = history.lines().map(|line| serde_json::from_str::<Json>(line).expect("an op"));
    let marks = ops.filter(|op| op["f"] == "phase" && op["type"] == "invoke");
    marks.map(|op| op["value"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_run_ends_with_a_verdict_and_leaves_its_files() {
    let _turn = turn();
    for place in Place::all() {
        let run_for = |limit: &str| {
            let mut command = place.command(&[GENTLE, &[limit]].concat());
            // Fewer than its clients need: it has to ask for more.
            limit_files(&mut command, 64, None);
            let done = Running::start(command).end();
            place.expect_nobody();
            done
        };
        let mut done = run_for("--time-limit=6s");
        if done.code == 2 {
            // On a machine with much else to do it may be that nothing gets through in so short a time.
            done = run_for("--time-limit=60s");
        }
        let done = done.expect(0);
        assert!(done.out.starts_with("valid   broker queue, "), "{}", done.out);
        let report = place.latest().canonicalize().expect("it points at the run").join("report.html");
        let store = place.store().canonicalize().expect("a folder of ours");
        assert!(report.starts_with(store.join("broker-queue")), "{}", report.display());
        for line in ["seed     3", "report   ", "again    riprap test --nemesis=kill:one,partition:one "] {
            assert!(done.out.lines().any(|l| l.starts_with(line)), "{line}\n{}", done.out);
        }
        assert!(done.err.contains(", seed 3, run "), "{}", done.err);
        assert!(done.err.lines().any(|line| line.starts_with("main ")), "{}", done.err);

        let run = place.latest();
        let link = fs::read_link(&run).expect("a link");
        assert!(link.is_relative() && link.to_string_lossy().ends_with("Z-3"), "{}", link.display());
        for file in ["report.html", "riprap.log", "plots/rate.svg", "plots/latency.svg"] {
            assert!(fs::metadata(run.join(file)).expect(file).len() > 0, "{file}");
        }
        for node in ["n1", "n2", "n3"] {
            let node = run.join("nodes").join(node);
            assert!(fs::metadata(node.join("node.log")).expect("its log").len() > 0);
            assert!(!node.join("data").exists(), "a valid run keeps no data");
        }
        let stray: Vec<_> =
            fs::read_dir(&run).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        assert!(!stray.iter().any(|name| name.to_string_lossy().ends_with(".part")), "{stray:?}");

        let (test, plan, results) =
            (json(&run.join("test.json")), json(&run.join("plan.json")), json(&run.join("results.json")));
        assert_eq!((&test["seed"], &results["seed"]), (&Json::from(3), &Json::from(3)));
        assert_eq!((&test["system"], &test["rate_hz"]), (&Json::from("broker"), &Json::from(100.0)));
        let planned: BTreeSet<&str> = plan["faults"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|fault| fault["fault"].as_str())
            .collect();
        assert_eq!(planned, BTreeSet::from(["kill", "partition"]));
        assert_eq!(results["valid"], true);
        for fault in planned {
            let record = &results["faults"][fault];
            assert!(record["strikes"].as_u64() > Some(0), "{record}");
            assert_eq!(record["strikes"], record["took_effect"], "{record}");
        }
        assert_eq!(phases(&place), ["main", "heal", "drain", "drained"]);

        check(&place).expect(0);
        let again = riprap(["report", run.to_str().expect("plain")]).expect(0);
        assert!(again.out.ends_with("report.html\n"), "{}", again.out);
    }
}

#[test]
fn transactions_are_committed_and_aborted_and_the_history_says_which() {
    let _turn = turn();
    let place = Place::mine();
    let run_for = |limit: &str| {
        let flags = ["test", "--txn", "--nemesis=none", "--sub-via=subscribe", "--concurrency=8", "--seed=3"];
        let done = place.run(&[&flags, &["--rate=100", limit][..]].concat()).end();
        place.expect_nobody();
        done
    };
    let mut done = run_for("--time-limit=6s");
    if done.code == 2 {
        // On a machine with much else to do it may be that nothing gets through in so short a time.
        done = run_for("--time-limit=60s");
    }
    let done = done.expect(0);
    assert!(done.err.contains("broker, queue in transactions on 3 nodes"), "{}", done.err);
    assert_eq!(json(&place.latest().join("test.json"))["txn"], true);
    let history = fs::read_to_string(place.history()).expect("a run leaves it");
    let ops: Vec<Json> = history.lines().map(|line| serde_json::from_str(line).expect("an op")).collect();
    let ended = |f: &str, kind: &str, outcome: &str| {
        let ended = ops.iter().filter(|op| op["f"] == f && op["type"] == kind);
        ended.filter(|op| op["txn"]["outcome"] == outcome).count()
    };
    let (committed, aborted) = (ended("txn", "ok", "committed"), ended("txn", "fail", "aborted"));
    assert!(committed > aborted && aborted > 0, "{committed} committed, {aborted} aborted");
    // The last writes are transactions too.
    assert!(ended("send", "ok", "committed") > 0);
    let history = place.history();
    riprap(["check", history.to_str().expect("plain"), "--sub-via=subscribe"]).expect(0);
}

#[test]
fn an_interrupted_run_heals_drains_and_judges() {
    let _turn = turn();
    let place = Place::mine();
    let run = place.run(&[GENTLE, &[FOREVER, "--json"]].concat());
    place.await_sends(5);
    run.signal(libc::SIGINT);
    let done = run.end().expect(2);
    place.expect_nobody();
    assert!(done.err.contains("riprap: interrupted: healing, then reading what is there"), "{}", done.err);
    let results = json(&place.latest().join("results.json"));
    assert_eq!(serde_json::from_str::<Json>(&done.out).expect("JSON and nothing else"), results);
    assert_eq!(results["valid"], "unknown");
    let why = results["why"].as_array().expect("a list");
    assert!(why.contains(&Json::from("interrupted: the main phase was cut short")), "{why:?}");
    assert_eq!(results["liveness"]["recovered"], true, "{results}");
    assert_eq!(phases(&place), ["main", "interrupted", "heal", "drain", "drained"]);
    assert!(place.latest().join("report.html").exists());
    // The history tells the same by itself.
    let checked = check(&place).expect(2);
    assert!(checked.out.contains("interrupted: the main phase was cut short"), "{}", checked.out);
    assert_eq!(checked.err, "");
}

#[test]
fn a_killed_run_leaves_a_history_and_nothing_else() {
    let _turn = turn();
    let place = Place::mine();
    let run = place.run(&[GENTLE, &[FOREVER]].concat());
    place.await_sends(5);
    assert!(place.processes().len() >= 5, "outer, supervisor, harness, brokers: {:?}", place.processes());
    run.signal(libc::SIGKILL);
    place.expect_nobody();
    run.end().expect(128 + libc::SIGKILL);
    assert!(!place.latest().join("results.json").exists());
    let checked = check(&place).expect(2);
    assert!(checked.out.contains("the history ends before the final reads did"), "{}", checked.out);
    // A line that was being written when the end came is dropped, and said.
    assert!(
        checked.err.is_empty() || checked.last_line().contains("is cut short: dropped"),
        "{}",
        checked.err
    );
}

/// Nobody is deployed yet, or not all.
#[test]
fn a_run_that_is_killed_at_once_leaves_nobody() {
    let _turn = turn();
    for wait_ms in [0, 30, 100, 300] {
        let place = Place::mine();
        let run = place.run(&[GENTLE, &[FOREVER]].concat());
        std::thread::sleep(Duration::from_millis(wait_ms));
        run.signal(libc::SIGKILL);
        place.expect_nobody();
        run.end().expect(128 + libc::SIGKILL);
    }
}

#[test]
fn an_impatient_user_ends_everything_at_once() {
    let _turn = turn();
    let place = Place::mine();
    let run = place.run(&[GENTLE, &[FOREVER]].concat());
    place.await_sends(1);
    run.signal(libc::SIGTERM);
    await_some("the first signal's effect", Duration::from_secs(60), || {
        phases(&place).contains(&"heal".to_owned()).then_some(())
    });
    // The second within 300 ms would pass for the first one seen twice.
    std::thread::sleep(Duration::from_millis(400));
    run.signal(libc::SIGINT);
    let done = run.end();
    place.expect_nobody();
    // The end in order may have been quicker than the user.
    assert!(matches!(done.code, 2 | 255), "{done:?}");
    if done.code == 255 {
        assert!(
            done.last_line().starts_with("interrupted twice: everything inside the sandbox was killed"),
            "{}",
            done.err
        );
    }
    assert!(matches!(check(&place).code, 0 | 2));
}

/// The example, with a text changed, in a file of the place.
fn described(place: &Place, from: &str, to: &str) -> String {
    let example = include_str!("../../../../systems/examples/broker.toml");
    assert!(example.contains(from), "{from} is not in the example");
    let path = place.path().join("mine.toml");
    fs::write(&path, example.replace(from, to)).expect("it is written");
    path.to_str().expect("plain").to_owned()
}

#[test]
fn a_system_may_be_described_by_its_user() {
    let _turn = turn();
    for place in Place::all() {
        let binary = place.binary().to_str().expect("plain").to_owned();
        let run_for = |file: &str, limit: &str| {
            let system = ["--system", file, "--bin", &binary, "--set=min.insync.replicas=1", limit];
            let done = place.run(&[GENTLE, &system].concat()).end();
            place.expect_nobody();
            done
        };
        let file = described(&place, "broker.toml", "mine.toml");
        let mut done = run_for(&file, "--time-limit=6s");
        if done.code == 2 {
            // On a machine with much else to do it may be that nothing gets through in so short a time.
            done = run_for(&file, "--time-limit=60s");
        }
        let done = done.expect(0);
        assert!(done.out.starts_with("valid   "), "{}", done.out);
        let run = place.latest().canonicalize().expect("it points at the run");
        assert!(run.starts_with(place.store().canonicalize().expect("ours").join("my-broker-queue")));
        assert_eq!(fs::read_to_string(run.join("system.toml")).ok(), fs::read_to_string(&file).ok());

        // What its log says is believed: here, that a node is broken that only starts.
        let file = described(&place, "broken = [\"panicked at\"]", "broken = [\"INFO\"]");
        let done = run_for(&file, "--time-limit=2s").expect(1);
        assert!(
            done.out.contains("node-crash") && done.out.contains("is broken, as its log says: "),
            "{}",
            done.out
        );
    }
}

#[test]
fn a_node_joins_and_leaves() {
    let _turn = turn();
    let place = Place::mine();
    let run_for = |limit: &str| {
        let gentle =
            ["test", "--fault-time=4s", "--quiet-time=1s", "--rate=100", "--concurrency=8", "--seed=3"];
        let done = place.run(&[&gentle[..], &["--nemesis=membership", limit]].concat()).end();
        place.expect_nobody();
        done
    };
    let mut done = run_for("--time-limit=10s");
    if done.code == 2 {
        // On a machine with much else to do partitions take longer to move.
        done = run_for("--time-limit=60s");
    }
    done.expect(0);
    let results = json(&place.latest().join("results.json"));
    let strikes = &results["faults"]["membership"];
    assert!(
        strikes["strikes"].as_u64() > Some(0) && strikes["strikes"] == strikes["took_effect"],
        "{strikes}"
    );
    assert_eq!(results["liveness"]["members"], Json::from("n4 has left"));
    // It took part in between.
    let log = fs::read_to_string(place.latest().join("riprap.log")).expect("it is there");
    assert!(log.contains("n4 has joined, and has "), "{log}");
    assert!(!place.latest().join("nodes/n4/data").exists(), "a valid run keeps no node's data");
}

#[test]
fn nodes_go_to_another_program_one_after_another() {
    let _turn = turn();
    let place = Place::mine();
    let new = place.path().join("riprap-new");
    if fs::hard_link(place.binary(), &new).is_err() {
        fs::copy(place.binary(), &new).expect("another file");
    }
    let new = new.to_str().expect("plain").to_owned();
    let run_for = |limit: &str| {
        let gentle =
            ["test", "--fault-time=1s", "--quiet-time=4s", "--rate=100", "--concurrency=8", "--seed=3"];
        let faults = ["--nemesis=rolling-upgrade,rolling-restart,client-crash", "--upgrade-to", &new, limit];
        let done = place.run(&[&gentle[..], &faults].concat()).end();
        place.expect_nobody();
        done
    };
    let mut done = run_for("--time-limit=12s");
    if done.code == 2 {
        // On a machine with much else to do nodes take longer.
        done = run_for("--time-limit=60s");
    }
    let done = done.expect(0);
    assert!(done.err.contains(&format!("broker to {new}, queue on 3 nodes")), "{}", done.err);
    let test = json(&place.latest().join("test.json"));
    assert_eq!(test["upgrade_to"], Json::from(new.as_str()));
    assert_eq!(test["versions"]["upgraded_to"]["program"], Json::from(new.as_str()));
    let faults = json(&place.latest().join("results.json"))["faults"].clone();
    let strikes = |fault: &str| faults[fault]["strikes"].as_u64().expect("a number");
    assert_eq!(strikes("rolling-upgrade"), 1);
    assert!(strikes("rolling-restart") > 0 && strikes("client-crash") > 0, "{faults}");
    let log = fs::read_to_string(place.latest().join("riprap.log")).expect("it is there");
    let runs_new = log.matches(&format!("\"runs\":\"{new}\"")).count();
    assert!(runs_new >= 3, "{runs_new} of 3 nodes: {log}");
}
