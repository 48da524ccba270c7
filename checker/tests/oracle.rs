//! 180 histories, with what Jepsen's own checker said of each (`oracle/README.md`): the same validity, the same kinds of
//! anomalies, the same counts.

#[allow(dead_code)]
mod common;

use riprap_checker::{Guarantees, Options, Valid, Verdict, Via, check, read_edn, write_edn_op};
use riprap_core::History;
use riprap_core::history::read_jsonl;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("oracle").join(name)
}

/// The histories of a packed file, by case: a line `head` + number + `tail` stands before each.
fn cases(name: &str, head: &str, tail: &str) -> BTreeMap<String, String> {
    let packed = fs::read(file(name)).expect("the oracle is in the tree");
    let text = String::from_utf8(zstd::decode_all(&packed[..]).expect("packed")).expect("UTF-8");
    let mut cases = BTreeMap::new();
    let mut case = None;
    for line in text.lines() {
        if let Some(number) = line.strip_prefix(head).and_then(|line| line.strip_suffix(tail)) {
            case = Some(number.to_owned());
        } else {
            let case = case.clone().expect("a case begins with its number");
            let text: &mut String = cases.entry(case).or_default();
            text.push_str(line);
            text.push('\n');
        }
    }
    cases
}

fn verdicts(name: &str) -> Vec<Json> {
    let text = fs::read_to_string(file(name)).expect("the oracle is in the tree");
    text.lines().map(|line| serde_json::from_str(line).expect("a verdict")).collect()
}

/// Elle's summaries of what cycles mean for isolation levels; not anomalies of their own.
fn is_summary(name: &str) -> bool {
    name.starts_with("PL-") || name.starts_with("strong-")
}

fn is_cycle(name: &str) -> bool {
    name.starts_with("G0") || name.starts_with("G1c")
}

/// The names of anomalies in a list, without Elle's summaries.
fn names(json: &Json) -> Vec<&str> {
    let names = json.as_array().expect("a list").iter().map(|name| name.as_str().expect("a name"));
    names.filter(|name| !is_summary(name)).collect()
}

fn judge(history: &History, via: Via, ww: bool) -> Verdict {
    let options = Options { via, ww, guarantees: Guarantees::Jepsen, vacuity: false, ..Options::default() };
    check(history, &options)
}

/// Compares one case; returns what differs.
fn differences(case: &str, expect: &Json, verdict: &Verdict) -> String {
    let mut out = String::new();
    let mut compare = |what: &str, jepsen: String, riprap: String| {
        if jepsen != riprap {
            writeln!(out, "{case}: {what}: Jepsen {jepsen}, riprap {riprap}").expect("a string takes all");
        }
    };
    let kinds: Vec<&String> = verdict.anomalies.keys().collect();
    compare("kinds", format!("{:?}", names(&expect["error_types"])), format!("{kinds:?}"));
    let forbidden = verdict.anomalies.iter().filter(|(_, found)| !found.allowed).map(|(name, _)| name);
    compare("bad", format!("{:?}", names(&expect["bad"])), format!("{:?}", forbidden.collect::<Vec<_>>()));
    // How many cycles there are depends on the search.
    for (name, found) in verdict.anomalies.iter().filter(|(name, _)| !is_cycle(name)) {
        compare(name, expect["counts"][name].to_string(), found.count.to_string());
    }
    let valid = if expect["valid"].as_bool().expect("a verdict") { Valid::True } else { Valid::False };
    compare("verdict", valid.to_string(), verdict.valid.to_string());
    out
}

fn agree(histories: &BTreeMap<String, History>, verdicts: &[Json], via: Via, ww: bool) {
    assert_eq!(histories.len(), verdicts.len());
    let mut out = String::new();
    for expect in verdicts {
        let case = expect["case"].as_str().expect("a case");
        out += &differences(case, expect, &judge(&histories[case], via, ww));
    }
    assert!(out.is_empty(), "\n{out}");
}

fn from_jsonl(name: &str) -> BTreeMap<String, History> {
    let read = |(case, text): (String, String)| {
        let (history, dropped) = read_jsonl(text.as_bytes()).expect("well formed");
        assert_eq!(dropped, None);
        (case, history)
    };
    cases(name, "{\"case\":\"", "\"}").into_iter().map(read).collect()
}

fn from_edn(name: &str) -> BTreeMap<String, History> {
    let read = |(case, text): (String, String)| {
        let (history, dropped) = read_edn(text.as_bytes()).expect("well formed");
        assert_eq!(dropped, None);
        (case, history)
    };
    cases(name, "; case ", "").into_iter().map(read).collect()
}

/// A history is the same, whichever of the two it is written in, and survives being written as EDN.
#[test]
fn edn_and_json_lines_are_twins() {
    for via in ["assign", "subscribe"] {
        let jsonl = from_jsonl(&format!("{via}.jsonl.zst"));
        let edn = from_edn(&format!("{via}.edn.zst"));
        assert_eq!(jsonl.len(), edn.len());
        for (case, history) in &jsonl {
            for (a, b) in history.ops().zip(edn[case].ops()) {
                let mut a = a.to_op();
                // The EDN twins do not say why an op did not end well, nor where an assign begins.
                a.extra.error = None;
                a.extra.from_beginning = false;
                assert_eq!(a, b.to_op(), "{via} {case}");
            }
            assert_eq!(history.len(), edn[case].len(), "{via} {case}");
            let mut text = Vec::new();
            history.ops().for_each(|op| write_edn_op(&mut text, &op.to_op()).expect("a vector takes all"));
            assert!(*history == read_edn(&text[..]).expect("well formed").0, "{via} {case} written differs");
        }
    }
}

#[test]
fn every_example_proves_itself() {
    let options = Options { guarantees: Guarantees::Jepsen, vacuity: false, ..Options::default() };
    for via in ["assign", "subscribe"] {
        for history in from_jsonl(&format!("{via}.jsonl.zst")).values() {
            common::check_proofs(history, &options);
        }
    }
}

#[test]
fn agrees_with_jepsen_by_assign() {
    agree(&from_jsonl("assign.jsonl.zst"), &verdicts("assign.verdicts.jsonl"), Via::Assign, true);
}

#[test]
fn agrees_with_jepsen_by_assign_without_ww_edges() {
    agree(&from_jsonl("assign.jsonl.zst"), &verdicts("assign.verdicts-noww.jsonl"), Via::Assign, false);
}

#[test]
fn agrees_with_jepsen_by_subscribe() {
    agree(&from_jsonl("subscribe.jsonl.zst"), &verdicts("subscribe.verdicts.jsonl"), Via::Subscribe, true);
}
