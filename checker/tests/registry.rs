//! House rules: every check says what it finds, and every anomaly has a history with it and one that nearly has it.

use riprap_checker::registry::{ALL, AnomalyInfo, anomaly};
use riprap_checker::{Guarantees, Isolation, Options, Valid, Via, check, read_history};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn anomalies() -> impl Iterator<Item = &'static AnomalyInfo> {
    ALL.iter().flat_map(|checker| checker.anomalies)
}

fn histories() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("histories")
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    entries.sort();
    entries
}

#[test]
fn the_registry_is_sorted_and_tells() {
    let is_sorted = |names: &[&str]| names.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(is_sorted(&ALL.iter().map(|checker| checker.name).collect::<Vec<_>>()));
    for checker in ALL {
        assert!(!checker.doc.is_empty(), "{} has a line", checker.name);
        let names: Vec<&str> = checker.anomalies.iter().map(|anomaly| anomaly.name).collect();
        assert!(!names.is_empty() && is_sorted(&names), "{}: {names:?}", checker.name);
    }
    let mut names = BTreeSet::new();
    for info in anomalies() {
        assert!(names.insert(info.name), "{} is found by one check", info.name);
        assert!(
            !info.meaning.is_empty() && !info.source.is_empty(),
            "{} has a meaning and a source",
            info.name
        );
        assert_eq!(anomaly(info.name).expect("it is there").name, info.name);
    }
    assert!(anomaly("lost-writes").is_none());
}

#[test]
fn every_anomaly_has_its_histories() {
    let options = Options { rw: true, vacuity: false, ..Options::default() };
    let mut folders: BTreeSet<String> = entries(&histories())
        .iter()
        .map(|dir| dir.file_name().expect("a folder").to_string_lossy().into_owned())
        .collect();
    for info in anomalies() {
        // A group's consumers are told apart only where some subscribe.
        let via = if info.name.ends_with("-held") { Via::Subscribe } else { Via::Assign };
        let options = Options { via, ..options.clone() };
        assert!(folders.remove(info.name), "histories/{} is missing", info.name);
        for path in entries(&histories().join(info.name).join("valid")) {
            let verdict = check(&read_history(&path).expect("well formed").history, &options);
            assert_eq!(verdict.valid, Valid::True, "{}: {:?}", path.display(), verdict.why);
            assert!(!verdict.anomalies.contains_key(info.name), "{}", path.display());
        }
        for path in entries(&histories().join(info.name).join("invalid")) {
            let verdict = check(&read_history(&path).expect("well formed").history, &options);
            let found = verdict.anomalies.get(info.name);
            let found = found.unwrap_or_else(|| panic!("{}: {:?}", path.display(), verdict.why));
            assert_eq!(found.allowed, info.is_allowed(&options));
            assert_eq!(found.severity, info.severity);
            if !found.allowed {
                assert_eq!(verdict.valid, Valid::False, "{}", path.display());
            }
        }
    }
    assert!(folders.is_empty(), "no check finds {folders:?}");
}

/// The table of guarantees: what is allowed, for each way to run.
#[test]
fn what_is_allowed_depends_on_what_was_asked_for() {
    let allowed = |options: &Options| -> Vec<&str> {
        anomalies().filter(|info| info.is_allowed(options)).map(|info| info.name).collect()
    };
    let always = [
        "abort-advance",
        "abort-rewind",
        "abort-rewind-further",
        "G-single",
        "G0",
        "G0-process",
        "G0-realtime",
        "G1c",
        "G1c-process",
        "G1c-realtime",
        "G2",
        "redelivery-uncommitted",
        "int-send-skip",
    ];
    let with = |more: &[&'static str]| {
        let mut names: Vec<&str> = always.iter().chain(more).copied().collect();
        let order: Vec<&str> = anomalies().map(|info| info.name).collect();
        names.sort_by_key(|name| order.iter().position(|other| other == name));
        names
    };
    let default = Options::default();
    assert_eq!(allowed(&default), always);
    // Without ww edges, Jepsen's G1c is a cycle of wr edges alone.
    let no_ww = Options { guarantees: Guarantees::Jepsen, ww: false, ..default.clone() };
    assert_eq!(
        allowed(&no_ww),
        always.iter().copied().filter(|name| !name.starts_with("G1c")).collect::<Vec<_>>()
    );
    for (options, expect) in [
        (
            Options { isolation: Isolation::ReadUncommitted, ..default.clone() },
            &["G1a", "G1c-wr", "G1c-wr-process", "G1c-wr-realtime", "precommitted-read", "torn-txn"]
                as &[&str],
        ),
        (
            Options { via: Via::Subscribe, ..default.clone() },
            &["abort-other", "nonmonotonic-poll", "poll-skip"],
        ),
        (
            Options { acks_all: false, ..default.clone() },
            &["inconsistent-offsets", "lost-write", "redelivery", "torn-txn", "unseen"],
        ),
        (
            Options { idempotent: false, ..default.clone() },
            &["duplicate", "int-nonmonotonic-send", "nonmonotonic-send"],
        ),
        (Options { drained: false, ..default.clone() }, &["unseen"]),
    ] {
        assert_eq!(allowed(&options), with(expect), "{options:?}");
        // Jepsen looks at none of this but at how consumers get their keys.
        let jepsen = Options { guarantees: Guarantees::Jepsen, ..options.clone() };
        let expect: &[&str] =
            if options.via == Via::Subscribe { &["nonmonotonic-poll", "poll-skip"] } else { &[] };
        assert_eq!(allowed(&jepsen), with(expect), "{jepsen:?}");
    }
}
