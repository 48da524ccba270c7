//! Verdicts: what they are made of, how they come together, what they look like on disk.

use riprap_checker::{Examples, Isolation, Options, Valid, Verdict, check, mini, read_history};
use serde_json::json;
use std::io::Write;

fn small() -> Options {
    Options { vacuity: false, ..Options::default() }
}

#[test]
fn the_worst_wins_and_tells_first() {
    let unknown = || Verdict::unknown("faults", "kill of n1 did not take effect");
    let invalid = || Verdict::invalid("logs", "n2 logged an assertion that failed");
    let verdict = Verdict::compose([Verdict::default(), unknown(), invalid()]);
    assert_eq!(verdict.valid, Valid::False);
    assert_eq!(
        verdict.why,
        ["logs: n2 logged an assertion that failed", "faults: kill of n1 did not take effect"]
    );
    assert_eq!(Verdict::compose([unknown(), Verdict::default()]).valid, Valid::Unknown);
    assert_eq!(Verdict::compose([]).valid, Valid::True);
    for (valid, code) in [(Valid::True, 0), (Valid::False, 1), (Valid::Unknown, 2)] {
        assert_eq!(valid.exit_code(), code);
    }
    // Two histories' verdicts add up.
    let lost = check(&mini::parse("s5=17@12 1/s5=18@13 2/p5:13=18"), &small());
    let both = lost.clone().merge(lost.clone());
    assert_eq!(both.anomalies["lost-write"].count, 2);
    assert_eq!(both.stats.ok_sends, 2 * lost.stats.ok_sends);
}

#[test]
fn results_json_is_what_it_is_said_to_be() {
    let history = mini::parse("s5=17@12 1/s5=18@13 2/p5:13=18");
    let options = Options { acks_all: false, ..small() };
    let verdict = check(&history, &options).with_part("seed", 7).merge(Verdict::unknown("faults", "none"));
    let text = serde_json::to_string(&verdict).expect("it is data");
    let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(json["valid"], "unknown");
    assert_eq!(json["why"], json!(["faults: none"]));
    assert_eq!(json["seed"], 7);
    let lost = &json["anomalies"]["lost-write"];
    assert_eq!(
        (&lost["count"], &lost["allowed"], &lost["severity"]),
        (&json!(1), &json!(true), &json!("data"))
    );
    assert_eq!(
        lost["examples"],
        json!([{
            "story": "key 5 value 17 acked at offset 12 (op 1) was read by nobody, though op 5 read value 18 at offset 13",
            "key": 5,
            "ops": [1, 3, 5],
            "history": [
                {"index": 0, "time": 0, "process": 0, "type": "invoke", "f": "send", "value": [["send", 5, 17]]},
                {"index": 1, "time": 1, "process": 0, "type": "ok", "f": "send", "value": [["send", 5, [12, 17]]]},
                {"index": 2, "time": 2, "process": 1, "type": "invoke", "f": "send", "value": [["send", 5, 18]]},
                {"index": 3, "time": 3, "process": 1, "type": "ok", "f": "send", "value": [["send", 5, [13, 18]]]},
                {"index": 4, "time": 4, "process": 2, "type": "invoke", "f": "poll", "value": [["poll"]]},
                {"index": 5, "time": 5, "process": 2, "type": "ok", "f": "poll", "value": [["poll", {"5": [[13, 18]]}]]},
            ],
        }])
    );
    assert_eq!(
        json["stats"],
        json!({
            "ops": 6,
            "by_f": {
                "poll": {"invoke": 1, "ok": 1, "fail": 0, "info": 0},
                "send": {"invoke": 2, "ok": 2, "fail": 0, "info": 0},
            },
            "ok_sends": 2, "ok_polls": 1, "ok_records": 1, "keys": 1,
        })
    );
    assert_eq!(serde_json::from_str::<Verdict>(&text).expect("it is read again"), verdict);
    for valid in ["true", "false", "\"unknown\""] {
        let read: Valid = serde_json::from_str(valid).expect(valid);
        assert_eq!(serde_json::to_string(&read).expect(valid), valid);
    }
    assert!(serde_json::from_str::<Valid>("\"maybe\"").is_err());
}

#[test]
fn a_history_that_shows_nothing_is_unknown() {
    for (text, why) in [
        ("", "vacuous: no send was acknowledged and no poll returned: there is nothing to judge"),
        ("c", "vacuous: no send was acknowledged and no poll returned: there is nothing to judge"),
        ("?s5=17 1/p5:12=17", "vacuous: no send was acknowledged: nothing could be lost"),
        ("s5=17@12 ?1/p5:12=17", "vacuous: no poll returned: nobody looked"),
    ] {
        let options = Options { drained: false, ..Options::default() };
        let verdict = check(&mini::parse(text), &options);
        assert_eq!((verdict.valid, verdict.why), (Valid::Unknown, vec![why.to_owned()]), "{text}");
        assert_eq!(check(&mini::parse(text), &Options { vacuity: false, ..options }).valid, Valid::True);
    }
    // What is found in it is told all the same, and forbidden is forbidden.
    let verdict = check(&mini::parse("!s5=17 1/p5:12=17"), &Options::default());
    assert_eq!(verdict.valid, Valid::False);
    assert_eq!(verdict.why.len(), 2);
    let options = Options { isolation: Isolation::ReadUncommitted, ..Options::default() };
    let verdict = check(&mini::parse("!s5=17 1/p5:12=17"), &options);
    assert_eq!((verdict.valid, verdict.anomalies["G1a"].count), (Valid::Unknown, 1));
}

#[test]
fn a_history_that_contradicts_itself_is_unknown() {
    for (text, why) in [
        ("s5=17@12 >1/p5:12=17", "ill-formed history: op 2: process 1 completes what it did not invoke"),
        ("<1/p s5=17@12 1/p5:12=17", "ill-formed history: op 3: process 1 invokes while its op 0 is open"),
        (
            "?1/s6=1 s5=17@12 1/p5:12=17",
            "ill-formed history: op 4: process 1 goes on after an info, which retires it",
        ),
        (
            "s5=17@12 s5=17@13 1/p5:12=17",
            "ill-formed history: key 5 value 17 was sent by op 1 and by op 3; a value is sent at most once",
        ),
        ("s5=17@12 1/p5:12=17,-1=17", "ill-formed history: op 3: offset -1 is negative"),
    ] {
        let verdict = check(&mini::parse(text), &small());
        let found = verdict.anomalies.values().any(|found| !found.allowed);
        assert_eq!(verdict.valid, if found { Valid::False } else { Valid::Unknown }, "{text}");
        assert!(verdict.why.iter().any(|w| w == why), "{text}: {:?}", verdict.why);
    }
    // It may be invalid all the same.
    let verdict = check(&mini::parse("!s5=17 >1/p5:12=17"), &small());
    assert_eq!((verdict.valid, verdict.why.len()), (Valid::False, 2));
    // Many are counted rather than told.
    let verdict = check(&mini::parse(&">1/p ".repeat(1000)), &small());
    assert_eq!(verdict.why.len(), 5);
    assert_eq!(verdict.why[4], "ill-formed history: 996 more contradictions");
}

#[test]
fn all_examples_are_shown_on_demand() {
    let text: String = (0..100).map(|n| format!("s5={n} ")).collect();
    let verdict = check(&mini::parse(&text), &small());
    assert_eq!(verdict.anomalies["unseen"].count, 100);
    assert!(verdict.anomalies["unseen"].examples.len() < 20);
    let verdict = check(&mini::parse(&text), &Options { examples: Examples::All, ..small() });
    assert_eq!(verdict.anomalies["unseen"].examples.len(), 100);
}

#[test]
fn files_are_read_by_their_ending() {
    let folder = tempfile::tempdir().expect("a folder");
    let jsonl = b"{\"process\":0,\"type\":\"invoke\",\"f\":\"crash\",\"value\":null}\n".to_vec();
    let edn = b"{:process 0, :type :invoke, :f :crash, :value nil}\n".to_vec();
    let gz = |bytes: &[u8]| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).expect("a vector takes all");
        out.finish().expect("a vector takes all")
    };
    let zst = |bytes: &[u8]| zstd::encode_all(bytes, 0).expect("a vector takes all");
    for (name, bytes) in [
        ("a.jsonl", jsonl.clone()),
        ("a.edn", edn.clone()),
        ("a.jsonl.gz", gz(&jsonl)),
        ("a.EDN.GZ", gz(&edn)),
        ("a.jsonl.zst", zst(&jsonl)),
        ("a.edn.zst", zst(&edn)),
        ("twice.jsonl.gz", [gz(&jsonl), gz(&jsonl)].concat()),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        let loaded = read_history(&path).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(loaded.history.len(), 1 + usize::from(name.starts_with("twice")), "{name}");
        assert_eq!(loaded.dropped, None);
    }
    let half = gz(&jsonl);
    for (name, bytes, expect) in [
        ("b.jsonl", b"\n{\"f\":5}\n".to_vec(), "b.jsonl:2:6: `5}` where `f`, a word"),
        ("b.edn", b"\n {:f 5.5}".to_vec(), "b.edn:2:2: no field where `:process`"),
        ("b.txt", jsonl.clone(), "b.txt: unknown kind of history `.txt`; one of: .jsonl, .edn, each also"),
        ("b", jsonl.clone(), "b: unknown kind of history `b`; one of"),
        ("b.gz", jsonl.clone(), "b.gz: unknown kind of history `b.gz`; one of"),
        ("b.jsonl.gz", jsonl.clone(), "b.jsonl.gz: "),
        ("b.jsonl.zst", jsonl.clone(), "b.jsonl.zst: "),
        ("half.jsonl.gz", half[..half.len() - 4].to_vec(), "half.jsonl.gz: "),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        let error = read_history(&path).expect_err(name).to_string();
        let error = error.strip_prefix(&format!("{}/", folder.path().display())).unwrap_or(&error);
        assert!(error.starts_with(expect), "{error}\nis not\n{expect}");
    }
    let missing = read_history(folder.path().join("none.jsonl")).expect_err("there is none").to_string();
    assert!(missing.ends_with("none.jsonl: No such file or directory (os error 2)"), "{missing}");
}
