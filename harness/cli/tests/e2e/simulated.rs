//! Simulated runs: the same seed is the same run, a failure replays and shrinks.

use crate::support::{Place, riprap};
use serde_json::Value as Json;
use std::fs;
use std::path::Path;

fn json(path: &Path) -> Json {
    let text = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

#[test]
fn a_seed_is_the_same_run_again() {
    let cases: &[&[&str]] = &[
        &[],
        &["--txn", "--sub-via=assign,subscribe"],
        &["--workload=abort"],
        // The last fault is healed before the end.
        &["--nemesis=kill", "--concurrency=12"],
        &["--nemesis=client-crash,latency", "--sub-via=assign,subscribe"],
    ];
    for more in cases {
        let place = Place::mine();
        let args = [&["test", "--sim", "--seed=5", "--time-limit=10s"], *more].concat();
        let run = || {
            let done = place.run(&args).end().expect(0);
            let workload = if more.contains(&"--workload=abort") { "abort" } else { "queue" };
            assert!(done.out.starts_with(&format!("valid   broker {workload}, ")), "{}", done.out);
            let run = place.latest().canonicalize().expect("it points at the run");
            assert!(json(&run.join("test.json"))["sim"].is_object());
            assert!(json(&run.join("plan.json"))["ops"].as_array().is_some_and(|ops| ops.len() > 100));
            assert!(fs::read_to_string(run.join("nodes/n1/node.log")).expect("it logs").contains("starts"));
            let simulation = json(&run.join("results.json"))["simulation"].clone();
            (fs::read_to_string(run.join("history.jsonl")).expect("a history"), simulation, run)
        };
        let (first, second) = (run(), run());
        assert_eq!((first.0, first.1.clone()), (second.0, second.1));
        // By its plan, too, without the generator.
        let replayed = riprap(["replay", text(&second.2)]).expect(0);
        let trace = first.1["trace"].as_str().expect("a hash");
        assert_eq!(replayed.last_line(), format!("the same as before: trace {trace}"));
    }
}

/// Each fault strikes, by the proof of its probe, and the clean broker stands it.
#[test]
fn every_fault_strikes_in_simulation() {
    let place = Place::mine();
    let check = |words: &str, code: Option<i32>, expected: &[&str]| {
        let nemesis = format!("--nemesis={words}");
        let args = ["test", "--sim", "--seed=1", &nemesis, "--fault-time=2s", "--quiet-time=8s", "--json"];
        let done = place.run(&args).end();
        let done = match code {
            Some(code) => done.expect(code),
            None => done,
        };
        let verdict: Json = serde_json::from_str(&done.out).expect("JSON");
        let faults = verdict["faults"].as_object().expect("faults by name");
        assert_eq!(faults.keys().map(String::as_str).collect::<Vec<_>>(), expected);
        for (name, fault) in faults {
            assert_eq!(fault["strikes"], fault["took_effect"], "{name}: {fault}");
            assert!(fault["strikes"].as_u64() > Some(0), "{name}: {fault}");
        }
    };
    let simulated = || riprap_nemesis::ALL.iter().filter(|fault| fault.strikes_simulated());
    let all = simulated().filter(|fault| fault.only_by_name().is_none());
    check("all", Some(0), &all.map(|fault| fault.info().name).collect::<Vec<_>>());
    // What a system makes of these is no verdict.
    for fault in simulated().filter(|fault| fault.only_by_name().is_some()) {
        check(fault.info().name, None, &[fault.info().name]);
    }
}

/// Where consumers go on after an abort is counted; of a stored history, too.
#[test]
fn aborts_are_counted() {
    let place = Place::mine();
    let args = ["test", "--sim", "--seed=3", "--workload=abort", "--nemesis=none", "--time-limit=10s"];
    let done = place.run(&args).end().expect(0);
    assert!(done.out.contains("after aborts  advance   rewind   rewind further   other"), "{}", done.out);
    let run = place.latest().canonicalize().expect("it points at the run");
    let config = json(&run.join("test.json"));
    let via = serde_json::json!(["assign", "subscribe"]);
    assert_eq!((&config["txn"], &config["sub_via"]), (&true.into(), &via));
    let results = json(&run.join("results.json"));
    let aborts = &results["aborts"];
    let count = |how: &str, place: &str| aborts[how][place].as_u64().expect("a count");
    assert!(count("assigned", "advance") > 50 && count("kept", "advance") > 10, "{aborts}");
    // No client goes back by itself.
    for (how, place) in [("assigned", "rewind"), ("assigned", "other"), ("kept", "rewind"), ("kept", "other")]
    {
        assert_eq!(count(how, place), 0, "{aborts}");
    }
    let history = run.join("history.jsonl");
    let checked = riprap(["check", text(&history), "--workload", "abort", "--json"]).expect(0);
    let checked: Json = serde_json::from_str(&checked.out).expect("JSON");
    assert_eq!(&checked["aborts"], aborts);

    // A history of something else shows nothing of it.
    let queue =
        place.run(&["test", "--sim", "--nemesis=none", "--time-limit=2s", "--sub-via=subscribe"]).end();
    assert!(!queue.expect(0).out.contains("after aborts"));
    let history = place.latest().join("history.jsonl");
    let checked = riprap(["check", text(&history), "--workload", "abort"]).expect(2);
    assert!(checked.out.contains("aborts: no transaction was aborted after it had read "), "{}", checked.out);

    // It is one of transactions, whatever somebody writes there.
    let mut edited = config.clone();
    edited["txn"] = false.into();
    fs::write(run.join("test.json"), edited.to_string()).expect("a file");
    let refused = riprap(["replay", text(&run)]).expect(254);
    assert!(refused.only_line().contains("config.txn is false; true is right"), "{}", refused.err);
}

#[test]
fn a_planted_defect_is_looked_for() {
    let place = Place::mine();
    let args = ["self-test", "--defects=fetch-filter-skip", "--starts=2", "--no-shrink", "--json"];
    let told: Json = serde_json::from_str(&place.run(&args).end().expect(0).out).expect("JSON");
    let row = &told["defects"][0];
    for start in row["starts"].as_array().expect("two searches") {
        assert!(row["expected"].as_array().is_some_and(|all| all.contains(&start["anomaly"])), "{row}");
    }
    let folder = place.store().join("broker-self-test");
    let folder = fs::read_dir(&folder).expect("it is kept").next().expect("one").expect("readable").path();
    assert_eq!(json(&folder.join("results.json")), told);
    assert!(fs::read_to_string(folder.join("report.html")).expect("a page").contains("fetch-filter-skip"));

    let args = ["self-test", "--defects=fetch-filter-skip", "--shrink-limit=1s"];
    let table = place.run(&args).end().expect(0).out;
    assert!(table.contains("1 of 1 defects found; 1 of 1 clean runs valid; "), "{table}");
    let refused = riprap(["self-test", "--defects=zero"]).expect(254);
    assert!(refused.err.contains("unknown defect `zero`; one of: "), "{}", refused.err);
}

#[test]
fn many_seeds_and_no_two_alike() {
    let place = Place::mine();
    let sim = |jobs| {
        let args = ["sim", "--seeds=1..6", "--time-limit=5s", "--keep-going", "--json", jobs];
        // Too short for each fault to strike: unknown, and none is invalid.
        let done = place.run(&args).end();
        let mut all: Json = serde_json::from_str(&done.out).expect("JSON");
        assert_eq!((all["seeds"].as_u64(), all["invalid"].as_u64()), (Some(6), Some(0)), "{}", done.out);
        for part in ["took_s", "failures"] {
            all[part].take();
        }
        all
    };
    // Whatever runs beside it, a seed is the same run.
    assert_eq!(sim("--jobs=1"), sim("--jobs=3"));
}

/// A day of a cluster takes longer than anybody waits; ^C ends it in a moment, and what there is by then is told.
#[test]
fn interrupted_is_over_at_once() {
    let interrupted = |place: &Place, args: &[&str]| {
        let run = place.run(args);
        run.await_catching();
        run.signal(libc::SIGINT);
        run.end()
    };
    let place = Place::mine();
    let day = ["--time-limit=24h", "--nemesis=none", "--rate=1000"];
    let done = interrupted(&place, &[&["sim", "--seeds=1..5", "--jobs=2"], &day[..]].concat()).expect(2);
    let told: Vec<&str> = done.out.lines().collect();
    assert!(told[0].starts_with("0 of 5 seeds: 0 valid, 0 invalid, 0 unknown; "), "{}", done.out);
    assert_eq!(told[1..], ["interrupted: 5 seeds were not run"]);
    let done = interrupted(&place, &["self-test", "--defects=zero-offset", "--starts=90", "--no-shrink"]);
    let told = done.expect(2).out;
    assert!(told.contains("; interrupted: ") && told.contains(" searches were not finished\n"), "{told}");

    // One that is kept goes on to the final reads.
    let run = place.run(&[&["test", "--sim", "--seed=1"], &day[..]].concat());
    place.await_sends(5);
    run.signal(libc::SIGINT);
    let done = run.end().expect(2);
    assert!(done.out.contains("interrupted: the main phase was cut short"), "{}", done.out);
}

#[test]
fn a_failure_is_kept_and_shrinks_to_a_scenario() {
    let place = Place::mine();
    let defect = "--defect=fetch-filter-skip";
    let done = place
        .run(&["sim", "--seeds=1..3", "--no-swarm", "--nemesis=none", "--time-limit=4s", defect])
        .end()
        .expect(1);
    assert!(done.out.starts_with("seed 1   invalid   "), "{}", done.out);
    let run = place.latest().canonicalize().expect("it points at the run");
    let command = json(&run.join("test.json"))["args"].clone();
    let words: Vec<&str> = command.as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    assert_eq!(words[..3], ["sim", "--seeds", "1"], "{command}");

    let scenario = place.path().join("scenario.json");
    let args = ["shrink", text(&run), "-o", text(&scenario), "--limit=2m", "--json"];
    let shrunk: Json = serde_json::from_str(&place.run(&args).end().expect(0).out).expect("JSON");
    let ops = |part: &str| shrunk[part]["ops"].as_u64().expect("a number");
    assert!(ops("after") <= 40 && ops("after") * 10 < ops("before"), "{shrunk}");
    // Cut short it leaves a whole scenario, or none.
    let cut_short = place.path().join("cut-short.json");
    let shrinking = place.run(&["shrink", text(&run), "-o", text(&cut_short)]);
    shrinking.await_catching();
    shrinking.signal(libc::SIGINT);
    let done = shrinking.end();
    match done.code {
        0 => assert!(json(&cut_short)["plan"]["ops"].is_array()),
        2 => assert!(done.err.contains("interrupted before ") && !cut_short.exists(), "{}", done.err),
        other => panic!("{other}: {}", done.err),
    }
    let replayed = riprap(["replay", text(&scenario)]).expect(1);
    assert!(replayed.out.starts_with("invalid "), "{}", replayed.out);
    assert!(replayed.out.contains(shrunk["anomaly"].as_str().expect("a name")), "{}", replayed.out);
    let before = place.latest().canonicalize().expect("it points at the run");
    let kept = place.run(&["replay", text(&scenario)]).end().expect(1);
    let again = place.latest().canonicalize().expect("it points at the run");
    assert_ne!(again, before);
    assert!(kept.out.starts_with(replayed.out.trim_end()), "{}", kept.out);
    for file in ["history.jsonl", "plan.json", "messages.jsonl", "plots/spacetime.svg"] {
        assert_eq!(fs::read(again.join(file)).ok(), fs::read(before.join(file)).ok(), "{file}");
    }
    let refused = place.run(&["replay", text(&scenario), "--trace"]).end().expect(254);
    assert!(refused.only_line().contains("--store"), "{}", refused.err);
    let traced = riprap(["replay", text(&scenario), "--trace"]).expect(1);
    for words in ["n1 starts", " -> n1 connects, connection ", " sends on ", " Produce ", "op 0 {"] {
        assert!(traced.out.contains(words), "no `{words}` in what happened");
    }
    let until = riprap(["replay", text(&scenario), "--trace", "--until=1ms"]).expect(0);
    assert!(!until.out.is_empty() && traced.out.starts_with(&until.out), "{}", until.out);

    // What is not what it says it is.
    let mut other = json(&scenario);
    other["riprap_scenario"] = 9.into();
    let wrong = place.path().join("wrong.json");
    fs::write(&wrong, other.to_string()).expect("a file");
    let refused = riprap(["replay", text(&wrong)]).expect(254);
    assert!(refused.only_line().ends_with("riprap_scenario is 9; this version reads 1"), "{}", refused.err);
    for (pointer, value, expect) in [
        ("/plan/ops/0/f", "create", "plan.ops[0].f is `create`, which workload queue does not do"),
        ("/config/workload", "que", "unknown workload `que`"),
        ("/config/defect", "none-such", "unknown defect `none-such`"),
    ] {
        let mut edited = json(&scenario);
        *edited.pointer_mut(pointer).expect("it has that") = value.into();
        fs::write(&wrong, edited.to_string()).expect("a file");
        let refused = riprap(["replay", text(&wrong)]).expect(254);
        assert!(refused.only_line().contains(expect), "{}", refused.err);
    }
    let mut edited = json(&scenario);
    edited["plan"]["faults"] = serde_json::json!([{"time": 1, "fault": "kill", "f": "kill", "value": null}]);
    fs::write(&wrong, edited.to_string()).expect("a file");
    let refused = riprap(["replay", text(&wrong)]).expect(254);
    assert!(refused.only_line().contains("plan.faults[0].fault is `kill`, which"), "{}", refused.err);
    // The report of the shrunk run says how to see it again.
    let report = fs::read_to_string(place.latest().join("report.html")).expect("a report");
    assert!(report.contains(&format!("riprap replay {}</", text(&scenario))), "no command in the report");
    // And what happened in it, once more from the files alone.
    let latest = place.latest().canonicalize().expect("it points at the run");
    let picture = fs::read_to_string(latest.join("plots/spacetime.svg")).expect("a picture");
    let history = fs::read_to_string(latest.join("history.jsonl")).expect("a history");
    let began = |line: &&str| line.contains(r#""type":"invoke""#) && !line.contains("nemesis");
    let (bars, ops) = (picture.matches("<g class=\"op\">").count(), history.lines().filter(began).count());
    let polls = history.lines().filter(began).filter(|line| line.contains(r#""f":"poll""#)).count();
    let looks = history.lines().filter(began).filter(|line| line.contains(r#""f":"debug""#)).count();
    assert!((ops - polls - looks + 1..=ops).contains(&bars), "{bars} bars of {ops} ops, {polls} polls");
    for words in
        [">node n1<", ">leads, epoch 0, ISR ", ">Produce ", ">fetched ", ">poll-skip<", "class=\"proof\""]
    {
        assert!(picture.contains(words), "no `{words}` in the picture");
    }
    assert!(report.contains("<h2 id=\"story\">What happened</h2>"));
    fs::remove_dir_all(latest.join("plots")).expect("a folder of ours");
    riprap(["report", text(&latest)]).expect(0);
    assert_eq!(fs::read_to_string(latest.join("plots/spacetime.svg")).expect("a picture"), picture);
    // One that is too large says so.
    assert!(!run.join("messages.jsonl").exists());
    let report = fs::read_to_string(run.join("report.html")).expect("a report");
    assert!(report.contains("There is no picture of the run as a whole"));
    // Another course of events is not passed off as the same.
    other["riprap_scenario"] = 1.into();
    other["config"]["seed"] = 4_000_000.into();
    fs::write(&wrong, other.to_string()).expect("a file");
    let refused = riprap(["replay", text(&wrong)]).expect(255);
    assert!(refused.last_line().starts_with("not the same as before: the trace is "), "{}", refused.err);
}
