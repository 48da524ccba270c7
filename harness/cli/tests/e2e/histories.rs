//! `riprap check`: histories from elsewhere, whole, cut and broken.

use crate::support::{Done, NOBODY, Place, Running, myself, program, riprap};
use serde_json::Value as Json;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;

/// A value sent, acknowledged, and read by somebody else: valid.
const GOOD: &str = r#"{"index":0,"time":0,"process":0,"type":"invoke","f":"send","value":[["send",0,1]]}
{"index":1,"time":1,"process":0,"type":"ok","f":"send","value":[["send",0,[0,1]]]}
{"index":2,"time":2,"process":1,"type":"invoke","f":"poll","value":[["poll"]]}
{"index":3,"time":3,"process":1,"type":"ok","f":"poll","value":[["poll",{"0":[[0,1]]}]]}
"#;
/// One more acknowledged, below one that was read, and read by nobody: invalid.
const LOST: &str = r#"{"index":0,"time":0,"process":0,"type":"invoke","f":"send","value":[["send",0,1]]}
{"index":1,"time":1,"process":0,"type":"ok","f":"send","value":[["send",0,[0,1]]]}
{"index":2,"time":2,"process":0,"type":"invoke","f":"send","value":[["send",0,2]]}
{"index":3,"time":3,"process":0,"type":"ok","f":"send","value":[["send",0,[1,2]]]}
{"index":4,"time":4,"process":1,"type":"invoke","f":"poll","value":[["poll"]]}
{"index":5,"time":5,"process":1,"type":"ok","f":"poll","value":[["poll",{"0":[[1,2]]}]]}
"#;
/// Nothing was sent, so that there was nothing to see: unknown.
const IDLE: &str = r#"{"index":0,"time":0,"process":1,"type":"invoke","f":"poll","value":[["poll"]]}
{"index":1,"time":1,"process":1,"type":"ok","f":"poll","value":[["poll",{}]]}
"#;
const GOOD_EDN: &str = r"{:index 0, :time 0, :process 0, :type :invoke, :f :send, :value [[:send 0 1]]}
{:index 1, :time 1, :process 0, :type :ok, :f :send, :value [[:send 0 [0 1]]]}
{:index 2, :time 2, :process 1, :type :invoke, :f :poll, :value [[:poll]]}
{:index 3, :time 3, :process 1, :type :ok, :f :poll, :value [[:poll {0 [[0 1]]}]]}
";
/// The mark of a phase, as riprap's own histories have it.
fn phase(index: u32, name: &str) -> String {
    let mark = |index, kind| {
        format!(
            r#"{{"index":{index},"time":{index},"process":"nemesis","type":"{kind}","f":"phase","value":"{name}"}}"#
        )
    };
    format!("{}\n{}\n", mark(index, "invoke"), mark(index + 1, "info"))
}

/// A file of this name with this content, in a folder of its own.
fn file(name: &str, content: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    fs::write(&path, content).expect("a file in a folder of ours");
    (folder, path)
}

fn check(path: &Path, more: &[&str]) -> Done {
    riprap([&["check", path.to_str().expect("plain")], more].concat())
}

fn gz(content: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(content).expect("memory takes all");
    packer.finish().expect("memory takes all")
}

fn zst(content: &[u8]) -> Vec<u8> {
    zstd::encode_all(content, 1).expect("memory takes all")
}

#[test]
fn a_history_is_judged_whatever_it_comes_in() {
    for (name, content, code) in [
        ("h.jsonl", GOOD.as_bytes().to_vec(), 0),
        ("h.jsonl", LOST.into(), 1),
        ("h.jsonl", IDLE.into(), 2),
        ("h.jsonl", Vec::new(), 2),
        // A text editor's last line may have no end, and another system's ends differ.
        ("h.jsonl", GOOD.trim_end().into(), 0),
        ("h.jsonl", GOOD.replace('\n', "\r\n").into(), 0),
        ("h.jsonl.gz", gz(LOST.as_bytes()), 1),
        ("h.jsonl.zst", zst(LOST.as_bytes()), 1),
        ("H.JSONL.GZ", gz(GOOD.as_bytes()), 0),
        ("h.edn", GOOD_EDN.into(), 0),
        ("h.edn.gz", gz(GOOD_EDN.as_bytes()), 0),
        ("h.edn.zst", zst(GOOD_EDN.as_bytes()), 0),
        ("h.edn", Vec::new(), 2),
        // riprap's own: with the final reads, without, and without though something is wrong already.
        ("h.jsonl", own(GOOD, Some("drained")), 0),
        ("h.jsonl", own(GOOD, Some("undrained")), 2),
        ("h.jsonl", own(GOOD, None), 2),
        ("h.jsonl", own(LOST, None), 1),
        // It was read to its end, but the user had cut it short, or the cluster did not serve again.
        ("h.jsonl", own_marked(GOOD, &["interrupted", "heal", "drain", "drained"]), 2),
        ("h.jsonl", own_marked(LOST, &["interrupted", "heal", "drain", "drained"]), 1),
        ("h.jsonl", own_marked(GOOD, &["heal", "drain", "interrupted", "drained"]), 2),
        ("h.jsonl", own_marked(GOOD, &["heal", "unrecovered", "drain", "drained"]), 2),
        ("h.jsonl", own_marked(GOOD, &["intermission", "heal", "drain", "drained"]), 0),
    ] {
        let (_folder, path) = file(name, &content);
        let text = check(&path, &[]).expect(code);
        let word = ["valid", "invalid", "unknown"][usize::try_from(code).expect("small")];
        assert!(text.out.starts_with(&format!("{word}   ")), "{name}: {}", text.out);
        assert_eq!(text.err, "", "{name}");

        let json = check(&path, &["--json"]).expect(code);
        let results: Json = serde_json::from_str(&json.out).unwrap_or_else(|e| panic!("{name}: {e}"));
        let valid = [Json::Bool(true), Json::Bool(false), Json::from("unknown")];
        assert_eq!(results["valid"], valid[usize::try_from(code).expect("small")], "{name}");
        assert!(results["why"].is_array() && results["stats"].is_object(), "{name}: {}", json.out);
        let lost = &results["anomalies"]["lost-write"];
        let expected = if code == 1 { (Some(1), Some(false)) } else { (None, None) };
        assert_eq!((lost["count"].as_u64(), lost["allowed"].as_bool()), expected, "{name}: {}", json.out);
    }
}

/// A history as riprap leaves it: its main phase, and how the final reads ended.
fn own(ops: &str, end: Option<&str>) -> Vec<u8> {
    own_marked(ops, end.as_slice())
}

/// A history as riprap leaves it: its main phase, and these marks behind it.
fn own_marked(ops: &str, marks: &[&str]) -> Vec<u8> {
    let end: String = (50..).zip(marks).map(|(n, name)| phase(2 * n, name)).collect();
    // Op 3 becomes op 13, so that a phase begins before and after.
    let ops = ops.replace("\"index\":", "\"index\":1").replace("\"time\":", "\"time\":1");
    format!("{}{ops}{end}", phase(0, "main")).into_bytes()
}

/// Every anomaly's own histories are where everybody can try them.
#[test]
fn the_histories_of_the_checker_are_judged_as_they_are_sorted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checker/histories");
    for (anomaly, code) in [("lost-write", 1), ("duplicate", 1), ("G1a", 1), ("int-send-skip", 0)] {
        let done = check(&root.join(anomaly).join("invalid/small.jsonl"), &["--json"]).expect(code);
        let results: Json = serde_json::from_str(&done.out).expect("JSON");
        assert_eq!(results["anomalies"][anomaly]["allowed"], code == 0, "{anomaly}: {}", done.out);
        check(&root.join(anomaly).join("valid/small.jsonl"), &[]).expect(0);
    }
}

#[test]
fn a_last_line_that_was_cut_is_dropped_and_said() {
    let edn = &GOOD_EDN[..GOOD_EDN.len() - 20];
    for (name, cut, line, code) in [
        // Whoever left it may have read the rest, or would have.
        ("h.jsonl", LOST[..LOST.len() - 20].to_owned(), 6, 2),
        ("h.jsonl", format!("{GOOD}{{"), 5, 2),
        ("h.jsonl", format!("{LOST}{{\"index\":6"), 7, 1),
        ("h.edn", edn.to_owned(), 4, 2),
    ] {
        let (_folder, path) = file(name, cut.as_bytes());
        let done = check(&path, &[]).expect(code);
        assert_eq!(done.err.lines().count(), 1, "{}", done.err);
        let expected = format!("{}: line {line} is cut short: dropped", path.display());
        assert!(done.last_line().starts_with(&expected), "{}", done.err);
    }
}

#[test]
fn what_is_no_history_is_told_with_file_line_and_column() {
    let second = |line: &str| GOOD.replacen(GOOD.lines().nth(1).expect("four lines"), line, 1).into_bytes();
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, content, expected) in [
        ("a.jsonl", second("nonsense"), ":2:1: "),
        ("b.jsonl", second(r#"{"index":1,"time":1,"process":0,"type":"okay","f":"send"}"#), ":2:40: "),
        (
            "b.jsonl",
            second(r#"{"index":1,"time":1,"process":0,"type":"okay","f":"send"}"#),
            "one of invoke, ok, fail, info, is expected",
        ),
        ("c.jsonl", second(r#"{"index":1,"time":1,"process":0,"f":"send"}"#), ":2:"),
        ("d.jsonl", [0xff, 0xfe, b'\n'].to_vec(), ":1:1: "),
        ("e.edn", GOOD_EDN.replacen(":ok", ":okay", 1).into(), ":2:"),
        ("f.edn", GOOD_EDN.replacen("{:index 1", "{{:index 1", 1).into(), ":2:"),
        (
            "g.txt",
            GOOD.into(),
            "unknown kind of history `.txt`; one of: .jsonl, .edn, each also with .gz or .zst",
        ),
        ("history", GOOD.into(), "unknown kind of history `history`; one of: .jsonl, .edn"),
        ("h.jsonl.gz", GOOD.into(), "h.jsonl.gz: "),
        ("i.jsonl.zst", GOOD.into(), "i.jsonl.zst: "),
        ("j.jsonl.gz", gz(GOOD.as_bytes())[..40].to_vec(), "j.jsonl.gz: "),
        ("k.jsonl.zst", zst(GOOD.as_bytes())[..40].to_vec(), "k.jsonl.zst: "),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, &content).expect("a file in a folder of ours");
        let done = check(&path, &[]).expect(254);
        let line = done.only_line();
        assert!(
            line.starts_with(path.to_str().expect("plain")) && line.contains(expected),
            "{line}\n{expected}"
        );
    }
    let missing = folder.path().join("missing.jsonl");
    assert!(check(&missing, &[]).expect(254).only_line().contains("missing.jsonl: No such file"));
    let dir = folder.path().join("dir.jsonl");
    fs::create_dir(&dir).expect("a folder in a folder of ours");
    assert!(check(&dir, &[]).expect(254).only_line().contains("dir.jsonl: Is a directory"));
}

/// Root may read everything, and tries it as nobody.
#[test]
fn a_history_that_may_not_be_read() {
    let place = Place::of((myself() == 0).then_some(NOBODY));
    let path = place.path().join("secret.jsonl");
    fs::write(&path, GOOD).expect("a file in a folder of ours");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("permissions of our own");
    let done = Running::start(place.program(["check", path.to_str().expect("plain")])).end().expect(254);
    assert!(done.only_line().contains("secret.jsonl: Permission denied"), "{}", done.err);
}

#[test]
fn a_check_needs_no_stdin_and_no_reader() {
    let (_folder, path) = file("h.jsonl", LOST.as_bytes());
    for json in [&[][..], &["--json"]] {
        let args = || [&["check", path.to_str().expect("plain")], json].concat();
        let mut command = program(args());
        // SAFETY: between fork and exec the closure makes one system call, which touches no memory.
        unsafe {
            command.pre_exec(|| {
                libc::close(0);
                Ok(())
            });
        }
        Running::start(command).end().expect(1);

        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let done = program(args()).stdout(writer).stderr(Stdio::piped()).output().expect("it runs");
        assert_eq!((done.status.code(), done.stderr.as_slice()), (Some(1), b"".as_slice()));
    }
}
