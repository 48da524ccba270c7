//! Files that are not what they should be: what is ill-formed is never valid, and the line and the reason are told.
//!
//! Every text is read as JSON lines and as EDN: with keys in quotes and blanks for colons they look alike.

use riprap_checker::{HistoryError, Loaded, Options, Valid, Verdict, check, read_history};
use riprap_core::op::Kind;
use std::io::Write;
use std::path::PathBuf;
use tempfile::TempDir;

/// Lines 1 to 4 of every text: a record that is sent and read.
const GOOD: &str = r#"{"time":1,"process":0,"type":"invoke","f":"send","value":[["send",5,17]]}
{"time":2,"process":0,"type":"ok","f":"send","value":[["send",5,[12,17]]]}
{"time":3,"process":1,"type":"invoke","f":"poll","value":[["poll"]]}
{"time":4,"process":1,"type":"ok","f":"poll","value":[["poll",{"5":[[12,17]]}]]}
"#;

fn as_edn(json: &str) -> String {
    json.replace("\":", "\" ").replace("null", "nil")
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    }

    fn read(&self, name: &str, bytes: &[u8]) -> Result<Loaded, HistoryError> {
        read_history(self.file(name, bytes))
    }

    /// Panics: it cannot be read.
    fn judge(&self, name: &str, bytes: &[u8]) -> (Loaded, Verdict) {
        let loaded = self.read(name, bytes).unwrap_or_else(|e| panic!("{e}"));
        let verdict = check(&loaded.history, &Options::default());
        (loaded, verdict)
    }

    /// Why it cannot be read, without the folder's name.
    fn refused(&self, name: &str, bytes: &[u8]) -> String {
        let error = self.read(name, bytes).expect_err(name).to_string();
        let folder = format!("{}/", self.0.path().display());
        error.strip_prefix(&folder).expect("it begins with the file's name").to_owned()
    }
}

/// What is said of the good lines and, from line 5 on, these.
#[track_caller]
fn check_verdict(lines: &[&str], valid: Valid, why: &[&str]) {
    let json = format!("{GOOD}{}\n", lines.join("\n"));
    let folder = Folder::new();
    for (name, text) in [("a.jsonl", json.clone()), ("a.edn", as_edn(&json))] {
        let (loaded, verdict) = folder.judge(name, text.as_bytes());
        assert_eq!(loaded.dropped, None, "{name}");
        assert_eq!(verdict.valid, valid, "{name} {lines:?}: {:?}", verdict.why);
        let found: Vec<&str> = verdict.why.iter().map(String::as_str).collect();
        assert_eq!(found, why, "{name} {lines:?}");
    }
}

/// Unknown, for this one reason.
#[track_caller]
fn check_ill_formed(lines: &[&str], why: &str) {
    check_verdict(lines, Valid::Unknown, &[&format!("ill-formed history: {why}")]);
}

#[test]
fn what_contradicts_itself_is_unknown() {
    for (lines, why) in [
        (
            &[r#"{"time":5,"process":7,"type":"ok","f":"poll","value":[["poll",{}]]}"#][..],
            "line 5: op 4: process 7 completes what it did not invoke",
        ),
        (
            &["", r#"{"time":5,"process":7,"type":"info","f":"crash","value":null}"#],
            "line 6: op 4: process 7 completes what it did not invoke",
        ),
        (
            &[
                r#"{"time":5,"process":7,"type":"invoke","f":"poll","value":[["poll"]]}"#,
                r#"{"time":6,"process":7,"type":"invoke","f":"poll","value":[["poll"]]}"#,
            ],
            "line 6: op 5: process 7 invokes while its op 4 is open",
        ),
        (
            &[
                r#"{"time":5,"process":7,"type":"invoke","f":"crash","value":null}"#,
                r#"{"time":6,"process":7,"type":"ok","f":"poll","value":[["poll",{}]]}"#,
            ],
            "line 6: op 5: completes op 4, a crash, as a poll",
        ),
        (
            &[
                r#"{"time":5,"process":7,"type":"invoke","f":"crash","value":null}"#,
                r#"{"time":6,"process":7,"type":"info","f":"crash","value":null}"#,
                r#"{"time":7,"process":7,"type":"invoke","f":"poll","value":[["poll"]]}"#,
            ],
            "line 7: op 6: process 7 goes on after an info, which retires it",
        ),
        (
            &[r#"{"time":3,"process":7,"type":"invoke","f":"poll","value":[["poll"]]}"#],
            "line 5: op 4: its time 3 is before op 3's, 4",
        ),
        (
            &[r#"{"time":-9223372036854775808,"process":7,"type":"invoke","f":"poll","value":[["poll"]]}"#],
            "line 5: op 4: its time -9223372036854775808 is before op 3's, 4",
        ),
        (
            &[r#"{"index":3,"time":5,"process":7,"type":"invoke","f":"poll","value":[["poll"]]}"#],
            "line 5: op 3: its index is not above that of the op before, 3",
        ),
        (
            &[
                r#"{"time":5,"process":7,"type":"invoke","f":"poll","value":[["poll"]]}"#,
                r#"{"time":6,"process":7,"type":"fail","f":"poll","value":[["poll",{"5":[[-1,17]]}]]}"#,
            ],
            "line 6: op 5: offset -1 is negative",
        ),
        (
            &[
                r#"{"time":5,"process":7,"type":"invoke","f":"send","value":[["send",6,1]]}"#,
                r#"{"time":6,"process":7,"type":"info","f":"send","value":[["send",6,[-9223372036854775807,1]]]}"#,
            ],
            "line 6: op 5: offset -9223372036854775807 is negative",
        ),
        (
            &[
                r#"{"time":5,"process":7,"type":"invoke","f":"send","value":[["send",6,1]]}"#,
                r#"{"time":6,"process":8,"type":"invoke","f":"send","value":[["send",6,1]]}"#,
            ],
            "line 6: key 6 value 1 was sent by op 4 and by op 5; a value is sent at most once",
        ),
    ] {
        check_ill_formed(lines, why);
    }
}

#[test]
fn what_is_odd_but_no_contradiction_is_judged() {
    for lines in [
        &[][..],
        // Windows' ends of lines, blank lines, no end of the last line but this text's own.
        &["\r", "  \t", "\r"],
        // Unknown fields, of any kind.
        &[
            r#"{"time":5,"x":[{"y":[null,-1.5e3,"é\u0000"]}],"process":7,"z":{},"type":"invoke","f":"poll","value":[["poll"]]}"#,
        ],
        // An unknown word, completed or not.
        &[
            r#"{"time":5,"process":7,"type":"invoke","f":"jump","value":{"high":[1,true]}}"#,
            r#"{"time":6,"process":7,"type":"ok","f":"jump","value":[["send",5,[-1,17]]]}"#,
            r#"{"time":6,"process":7,"type":"invoke","f":"","value":null}"#,
        ],
        // Offsets that are not known.
        &[
            r#"{"time":5,"process":7,"type":"invoke","f":"send","value":[["send",6,1],["send",6,null]]}"#,
            r#"{"time":6,"process":7,"type":"ok","f":"send","value":[["send",6,[null,1]],["send",6,[null,null]]]}"#,
            r#"{"time":7,"process":1,"type":"invoke","f":"poll","value":[["poll"]]}"#,
            r#"{"time":8,"process":1,"type":"ok","f":"poll","value":[["poll",{"6":[[null,1],[null,null]]}]]}"#,
        ],
        // The nemesis is bound by nothing.
        &[
            r#"{"time":5,"process":"nemesis","type":"ok","f":"poll","value":[["poll",{"5":[[-1,99]]}]]}"#,
            r#"{"time":6,"process":"nemesis","type":"ok","f":"kill","value":"n1"}"#,
        ],
        // Optional fields that hold nothing, or something else.
        &[
            r#"{"time":5,"process":7,"type":"invoke","f":"poll","value":null,"error":[1],"rebalance":null,"offsets":null,"txn":null,"node":7,"abort":0}"#,
        ],
    ] {
        check_verdict(lines, Valid::True, &[]);
    }
    let (loaded, _) =
        Folder::new().judge("a.jsonl", br#"{"process":7,"type":"ok","f":"jump","value":{"high":1}}"#);
    let op = loaded.history.op(0);
    assert_eq!((op.f().name(), op.kind(), op.json().is_some()), ("jump", Kind::Ok, true));
}

#[test]
fn what_nobody_sent_is_an_anomaly() {
    let phantom = [
        r#"{"time":5,"process":7,"type":"invoke","f":"poll","value":[["poll"]]}"#,
        r#"{"time":6,"process":7,"type":"ok","f":"poll","value":[["poll",{"5":[[12,17],[14,99]]}]]}"#,
    ];
    let why = "phantom-read: op 5 read key 5 value 99 at offset 14, but nobody sent that value";
    check_verdict(&phantom, Valid::False, &[why]);
}

#[test]
fn a_last_line_that_is_cut_short_is_dropped_and_said() {
    let folder = Folder::new();
    let line = r#"{"time":5,"process":7,"type":"invoke","f":"send","value":[["send",5,18]],"node":"né"}"#;
    for (name, text) in [("a.jsonl", format!("{GOOD}{line}")), ("a.edn", as_edn(&format!("{GOOD}{line}")))] {
        let good = text.len() - (line.len());
        for cut in 1..line.len() {
            let (loaded, verdict) = folder.judge(name, &text.as_bytes()[..good + cut]);
            let dropped = format!("line 5 is cut short: dropped ({cut} bytes)");
            assert_eq!((loaded.history.len(), loaded.dropped), (4, Some(dropped)), "{name} cut at {cut}");
            assert_eq!(verdict.valid, Valid::True);
        }
        let (loaded, _) = folder.judge(name, text.as_bytes());
        assert_eq!((loaded.history.len(), loaded.dropped), (5, None), "{name}");
    }
}

#[test]
fn a_line_that_is_no_op_is_refused_with_its_place() {
    let folder = Folder::new();
    for (line, json, edn) in [
        ("5", "`5` where an op, a JSON object,", "`5` where an op, a map,"),
        (r#"{"f":"poll","type":"ok"}"#, "no field where `process`", "no field where `:process`"),
        (r#"{"process":0,"type":"ok"}"#, "no field where `f`", "no field where `:f`"),
        (r#"{"process":0,"f":"poll"}"#, "no field where `type`", "no field where `:type`"),
        // In the middle of a file a line is not cut short, it is damaged.
        (r#"{"process":0,"f":"po"#, "EOF while parsing a string", "`\" 1,"),
        (
            r#"{"process":0,"f":"poll","value":[["poll",{"5":[[1"#,
            "the line ends where `,` between",
            "`{\"time",
        ),
        (
            r#"{"process":0,"f":"poll","x":[{"#,
            "EOF while parsing",
            "this op has no end, though others follow",
        ),
        ("\0\0\0", "`\0\0\0` where an op", "`\0\0\0` where an op"),
    ] {
        let json_text = format!("{GOOD}{line}\n{GOOD}");
        for (name, text, expect) in [("a.jsonl", json_text.clone(), json), ("a.edn", as_edn(&json_text), edn)]
        {
            let error = folder.refused(name, text.as_bytes());
            let place = error.strip_prefix(&format!("{name}:")).expect("the file is named");
            let (place, what) = place.split_once(": ").expect("the place is told");
            assert!(place.starts_with("5:") || place.starts_with("6:"), "{error}");
            assert!(what.starts_with(expect), "{error}\nis not\n{expect}");
        }
    }
    // One kind for the other.
    assert!(folder.refused("a.edn", GOOD.as_bytes()).starts_with("a.edn:1:"));
    assert!(folder.refused("a.jsonl", as_edn(GOOD).as_bytes()).starts_with("a.jsonl:1:9: "));
}

#[test]
fn what_is_not_utf_8_is_refused_where_it_matters() {
    let folder = Folder::new();
    let text = |field: &[u8]| {
        let head = br#"{"time":5,"process":7,"type":"invoke","value":null,"#;
        [GOOD.as_bytes(), head, field, b"}\n"].concat()
    };
    let edn = |field: &[u8]| {
        let head = as_edn(r#"{"time":5,"process":7,"type":"invoke","value":null,"#);
        [as_edn(GOOD).as_bytes(), head.as_bytes(), field, b"}\n"].concat()
    };
    assert_eq!(folder.refused("a.jsonl", &text(b"\"f\":\"p\xff\"")), "a.jsonl:5:58: not UTF-8");
    assert_eq!(folder.refused("a.jsonl", &text(b"\"f\":\"poll\",\"x\":\"\xe9\"")), "a.jsonl:5:68: not UTF-8");
    assert!(folder.refused("a.edn", &edn(b":f :p\xff")).starts_with("a.edn:5:"));
    // Clojure prints whatever a client threw; nothing depends on what it says.
    let (_, verdict) = folder.judge("a.edn", &edn(b":f :poll :x \"\xe9\" :error \"\xff\""));
    assert_eq!(verdict.valid, Valid::True);
}

#[test]
fn a_gigantic_line_is_read() {
    let records: Vec<String> = (12..200_000).map(|n| format!("[{n},{}]", n + 5)).collect();
    let sends: Vec<String> = (13..200_000).map(|n| format!("[\"send\",5,[{n},{}]]", n + 5)).collect();
    let op = |time: u32, kind: &str, f: &str, value: &str| {
        format!("{{\"time\":{time},\"process\":7,\"type\":\"{kind}\",\"f\":\"{f}\",\"value\":{value}}}")
    };
    let lines = [
        op(5, "invoke", "send", "null"),
        op(6, "ok", "send", &format!("[{}]", sends.join(","))),
        op(7, "invoke", "poll", "null"),
        op(8, "ok", "poll", &format!("[[\"poll\",{{\"5\":[{}]}}]]", records.join(","))),
    ];
    check_verdict(&lines.each_ref().map(String::as_str), Valid::True, &[]);
}

#[test]
fn nothing_is_unknown() {
    let folder = Folder::new();
    for (name, text) in [
        ("a.jsonl", ""),
        ("a.jsonl", "\n \r\n"),
        ("a.edn", ""),
        ("a.edn", " ; nothing\n"),
        ("a.edn", "[]"),
        ("a.edn", "#_ {:f :send}"),
        // All that there is was cut short.
        ("a.jsonl", "{\"process\":0,"),
        ("a.edn", "{:process 0,"),
        ("a.edn", "["),
    ] {
        let (loaded, verdict) = folder.judge(name, text.as_bytes());
        assert_eq!(loaded.history.len(), 0, "{name} {text:?}");
        let why = "vacuous: no send was acknowledged and no poll returned: there is nothing to judge";
        assert_eq!((verdict.valid, verdict.why), (Valid::Unknown, vec![why.to_owned()]), "{name} {text:?}");
    }
}

#[test]
fn a_folder_is_no_history() {
    let folder = Folder::new();
    for name in ["a.jsonl", "a.edn", "a.jsonl.gz", "a.edn.zst"] {
        let path = folder.0.path().join(name);
        std::fs::create_dir(&path).expect("created");
        let error = read_history(&path).expect_err(name).to_string();
        assert!(error.contains(name) && error.contains("Is a directory"), "{error}");
    }
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).expect("a vector takes all");
    out.finish().expect("a vector takes all")
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 0).expect("a vector takes all")
}

#[test]
fn packed_files_are_read_whole_or_not_at_all() {
    let folder = Folder::new();
    let edn = as_edn(GOOD);
    for (name, text) in [("a.jsonl", GOOD), ("a.edn", edn.as_str())] {
        for (ending, pack) in [("gz", gz as fn(&[u8]) -> Vec<u8>), ("zst", zst)] {
            let name = format!("{name}.{ending}");
            let packed = pack(text.as_bytes());
            let (loaded, verdict) = folder.judge(&name, &packed);
            assert_eq!(
                (loaded.history.len(), loaded.dropped, verdict.valid),
                (4, None, Valid::True),
                "{name}"
            );
            // Several archives in one, as log rotation leaves them; the text may be cut anywhere.
            let (first, second) = text.as_bytes().split_at(100);
            let (_, verdict) = folder.judge(&name, &[pack(first), pack(second)].concat());
            assert_eq!(verdict.valid, Valid::True, "{name}");
            // A last line that is cut short is cut short here too.
            let (loaded, _) = folder.judge(&name, &pack(&text.as_bytes()[..text.len() - 9]));
            assert_eq!((loaded.history.len(), loaded.dropped.is_some()), (3, true), "{name}");
            // The archive cut anywhere, or not one at all, is told, and nothing of it is taken for the history.
            for cut in 1..packed.len() {
                let error = folder.refused(&name, &packed[..cut]);
                assert!(error.starts_with(&format!("{name}: ")), "{error}");
            }
            assert!(folder.refused(&name, text.as_bytes()).starts_with(&format!("{name}: ")));
        }
        // A byte that changed. Zstandard as it is written by default has no checksum.
        let name = format!("{name}.gz");
        let packed = gz(text.as_bytes());
        for at in 10..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x10;
            assert!(folder.refused(&name, &damaged).starts_with(&name));
        }
    }
    // A file of nothing was never packed.
    for name in ["a.jsonl.gz", "a.edn.gz"] {
        assert!(folder.refused(name, b"").starts_with(name));
    }
}
