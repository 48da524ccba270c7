use super::{read_edn, write_edn_op};
use proptest::prelude::*;
use riprap_core::History;
use riprap_core::history::{ReadError, read_jsonl, write_op};

fn parse(text: impl AsRef<[u8]>) -> Result<(History, Option<String>), String> {
    read_edn(text.as_ref()).map_err(|e| match e {
        ReadError::Io(_) => panic!("a slice can be read"),
        ReadError::Malformed { line, column, what } => format!("{line}:{column}: {what}"),
    })
}

fn lines(history: &History) -> String {
    let mut out = Vec::new();
    history.ops().for_each(|op| write_op(&mut out, &op.to_op()).expect("a vector takes all"));
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn print(history: &History) -> String {
    let mut out = Vec::new();
    history.ops().for_each(|op| write_edn_op(&mut out, &op.to_op()).expect("a vector takes all"));
    String::from_utf8(out).expect("EDN is UTF-8")
}

/// What an op of EDN is as a line of JSON.
#[track_caller]
fn check(edn: &str, json: &str) {
    let (history, dropped) = parse(edn).unwrap_or_else(|e| panic!("{edn}: {e}"));
    assert_eq!(dropped, None, "{edn}");
    assert_eq!(lines(&history), format!("{json}\n"), "{edn}");
}

const TXN: &str = r#"{"index":1,"time":9,"process":3,"type":"ok","f":"txn","value":[["send",5,[12,17]],["poll",{"5":[[10,15],[11,16]]}]]}"#;

#[test]
fn an_op_is_read_however_it_is_written() {
    for edn in [
        "{:index 1, :time 9, :process 3, :type :ok, :f :txn, :value [[:send 5 [12 17]] [:poll {5 [[10 15] [11 16]]}]]}",
        "#jepsen.history.Op{:value ((:send 5 (12 17)) (:poll {5 ((10 15) (11 16))})), :index 1 :f :txn :type :ok :time 9 :process 3}",
        "[{\"index\" 1 \"time\" 9 \"process\" 3 \"type\" \"ok\" \"f\" \"txn\" \"value\" [[\"send\" :5 [12 17]] [\"poll\" {\"5\" [[10 15] [11 16]]}]]}]",
        "; a comment\n{:index 1N, :time 9 ; } another\n :process 3 #_{:type :fail} :type :ok :f txn #_#_:a :b\n:value\n[[:send 5 [12 17]], [:poll {5 [[10 15],\n[11 16]]}]] :final? true, :x \"a \\\" \\\\ }\", :y \\} :z #{1 ##NaN} :e #error {:via [a.b$c 1.5M 2/3 0x1F]} :r #\"a}\\\\d\" :i #inst \"2020\"}\n",
        "\u{c} ^:meta [ {:index +1, :time 9, :process 3, :type :ok, :f :txn, :value [[:send 5 [12 17]] [:poll {5 [[10 15] [11 16]]}]]} ] ; end",
    ] {
        check(edn, TXN);
    }
}

#[test]
fn fields_find_their_meaning() {
    let op = |rest: &str| format!("{{:process 0, :type :info, :f :poll, :value [[:poll]]{rest}}}");
    let json = |rest: &str| {
        format!(r#"{{"index":0,"time":0,"process":0,"type":"info","f":"poll","value":[["poll"]]{rest}}}"#)
    };
    for (edn, expect) in [
        (", :error :timeout", r#","error":{"code":"timeout","definite":false,"message":""}"#),
        (", :error [:a \"b\" 1]", r#","error":{"code":"[\"a\",\"b\",1]","definite":false,"message":""}"#),
        (", :error nil", ""),
        (
            ", :error {:code \"X\", :definite true, :message \"m\"}",
            r#","error":{"code":"X","definite":true,"message":"m"}"#,
        ),
        (
            ", :rebalance-log [{:type :revoked, :keys [0 1]} #x{:keys (2)}]",
            r#","rebalance":[{"type":"revoked","keys":[0,1]},{"type":"","keys":[2]}]"#,
        ),
        (", :rebalance-log nil", ""),
        (", :seek-to-beginning? true", r#","from-beginning":true"#),
        (", :txn {:id \"t\", :outcome :aborted}", r#","txn":{"id":"t","outcome":"aborted"}"#),
        (", :offsets {1 2, 3 nil}", r#","offsets":{"1":2,"3":null}"#),
        (", :node \"n1\" :abort true", r#","node":"n1","abort":true"#),
    ] {
        check(&op(edn), &json(expect));
    }
}

#[test]
fn values_of_every_kind_are_read() {
    for (f, edn, json) in [
        ("send", "[[:send 1 2]]", r#"[["send",1,2]]"#),
        ("send", "[[:send 1 [nil 2]]]", r#"[["send",1,2]]"#),
        ("send", "[[:send 1 [3 nil]]]", r#"[["send",1,[3,null]]]"#),
        ("send", "[[:send 1 nil]]", r#"[["send",1,null]]"#),
        ("poll", "[[:poll {-1 [[nil 2]], 3 []}]]", r#"[["poll",{"-1":[[null,2]],"3":[]}]]"#),
        ("poll", "[[:poll nil] [:poll {}]]", r#"[["poll"],["poll",{}]]"#),
        ("poll", "nil", "null"),
        ("assign", "[1 2]", "[1,2]"),
        ("subscribe", "nil", "null"),
        ("crash", "nil", "null"),
        ("debug", "{:a #{:b}, [1] nil, nil 1.5}", r#"{"[1]":null,"a":["b"],"null":1.5}"#),
        ("jump", ":high", "\"high\""),
        (
            "jump",
            "[-1 18446744073709551615 18446744073709551616 1e400]",
            "[-1,18446744073709551615,1.8446744073709552e+19,\"1e400\"]",
        ),
        ("jump", "\"\\u00e9\\n\\ud83d\\ude00\\t\"", "\"é\\n😀\\t\""),
    ] {
        check(
            &format!("{{:process 1 :type :fail :f :{f} :value {edn}}}"),
            &format!(r#"{{"index":0,"time":0,"process":1,"type":"fail","f":"{f}","value":{json}}}"#),
        );
    }
    check(
        "{:type :info, :f :kill, :process :nemesis, :value [:n1 \"n2\" {:a -1}]}",
        r#"{"index":0,"time":0,"process":"nemesis","type":"info","f":"kill","value":["n1","n2",{"a":-1}]}"#,
    );
}

#[test]
fn a_malformed_op_is_told_with_its_place() {
    for (text, expect) in [
        ("5", "1:1: `5` where an op, a map, is expected"),
        ("{}", "1:1: no field where `:f`"),
        ("\n {:f :send}\n", "2:2: no field where `:process`"),
        ("{:f :send :process 0}", "1:1: no field where `:type`"),
        ("{:type :okay}", "1:8: `:okay}` where `:type`"),
        ("{:process -1}", "1:11: `-1}` where `:process`"),
        ("{:process 1.0}", "1:11: `1.0}` where `:process`"),
        ("{:time 9223372036854775808}", "1:8: `9223372036854775808}` where `:time`"),
        ("{:index nil}", "1:9: `nil}` where `:index`"),
        ("{:f [}", "1:5: `[}` where `:f`, a word"),
        ("{:f :send :process 0 :value 7}", "1:29: `7}` where a vector of micro-operations"),
        ("{:f :send :process 0 :value [[:pull]]}", "1:31: `:pull]]}` where a micro-operation"),
        ("{:f :send :process 0 :value [[:send 1 :x]]}", "1:39: `:x]]}` where a value"),
        ("{:f :send :process 0 :value [[:send 1 [2 3 4]]]}", "1:44: `4]]]}` where `]`"),
        ("{:f :poll :process 0 :value [[:poll [1]]]}", "1:37: `[1]]]}` where the records by key"),
        ("{:f :poll :process 0 :value [[:poll {:x []}]]}", "1:38: `:x []}]]}` where a key"),
        ("{:f :poll :process 0 :value [[:poll {1 [[1\n:x]]}]]}", "2:1: `:x]]}]]}` where a value"),
        ("{:a 1} {:f", "1:1: no field where `:f`"),
        (
            "{:f :crash :type :ok :process \"é345678901234567890123456789012345678901234567890\"}",
            "1:31: `\"é34567890123456789012345678901234567890...` where",
        ),
        ("[] 5", "1:4: `5` where the end of the file is expected"),
        ("{:a ]}", "1:5: `]}` where a form is expected"),
        ("{:a \"\\uXYZW\"}", "1:8: `XYZW\"}` where four hexadecimal digits"),
        ("{:a \"\\u+041\"}", "1:8: `+041\"}` where four hexadecimal digits"),
        ("{:f :send :f :poll}", "1:14: `:poll}` where no second `:f`"),
        ("{:type :ok :type :ok}", "1:18: `:ok}` where no second `:type`"),
        ("{:process 0 :process 1}", "1:22: `1}` where no second `:process`"),
        ("{:value [] :value []}", "1:19: `[]}` where no second `:value`"),
        // A quote that is missing in mid-file would swallow all that follows.
        (
            "{:f :crash :x \"}\n{:f :crash}\n",
            "1:1: this op has no end, though others follow: the file ends where",
        ),
        ("\n {:f :crash :x {}\n#a {:f", "2:2: this op has no end, though others follow"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.starts_with(expect), "{error}\nis not\n{expect}");
    }
    // As deep as it looks; what is discarded nests too, and so does what is said about it.
    for form in ["[", "(", "#{", "{:a ", "#_", "^", "#_[", "^{", "#_#_ "] {
        for deep in [format!("{{:a {}", form.repeat(1_000_000)), form.repeat(1_000_000)] {
            if let Err(error) = parse(&deep) {
                assert!(error.contains("nested deeper") || error.contains("an op, a map"), "{form}: {error}");
            }
        }
    }
}

#[test]
fn a_last_op_cut_anywhere_is_dropped_and_said() {
    let one = print(&read_jsonl(TXN.as_bytes()).expect("well formed").0);
    let one = one.trim_end();
    for cut in 1..one.len() {
        for (before, count) in [("", 0), ("{:f :crash :type :invoke :process 0}\n", 1)] {
            let text = format!("{before}{}", &one[..cut]);
            let (history, dropped) = parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(history.len(), count);
            assert_eq!(dropped, Some(format!("line {} is cut short: dropped ({cut} bytes)", count + 1)));
        }
    }
    for (text, expect) in [
        (format!("[{one}\n"), "line 2 is cut short: dropped (0 bytes)"),
        // After the last op there may be half a comment.
        (format!("[{one}\n] #_"), "line 2 is cut short: dropped (2 bytes)"),
        (format!("{one}\n#_"), "line 2 is cut short: dropped (2 bytes)"),
        (format!("{one}\n^"), "line 2 is cut short: dropped (1 bytes)"),
    ] {
        let (history, dropped) = parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!((history.len(), dropped.as_deref()), (1, Some(expect)), "{text}");
    }
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn strings_and_numbers_come_back(text in any::<String>(), n in any::<u64>(), x in any::<f64>()) {
        let op = serde_json::json!({"process": 0, "type": "info", "f": "jump", "value": {&text: [&text, n, x]},
            "node": &text, "error": {"code": &text, "definite": true, "message": &text}});
        let (history, _) = read_jsonl(op.to_string().as_bytes()).expect("well formed");
        let (again, _) = parse(print(&history)).expect("what was printed is well formed");
        prop_assert_eq!(again, history);
    }
}
