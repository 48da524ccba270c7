use super::read::read_lines;
use super::{ReadError, read_jsonl, write_op};
use crate::History;
use crate::op::{
    Extra, F, Key, Kind, Mop, Offset, Op, OpError, OpValue, Process, Reads, Rebalance, Txn, Value,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

fn print(history: &History) -> String {
    let mut out = Vec::new();
    for op in history.ops() {
        write_op(&mut out, &op.to_op()).expect("a vector takes all");
    }
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn parse(text: impl AsRef<[u8]>) -> Result<(History, Option<String>), String> {
    read_jsonl(text.as_ref()).map_err(|e| match e {
        ReadError::Io(_) => panic!("a slice can be read"),
        ReadError::Malformed { line, column, what } => format!("{line}:{column}: {what}"),
    })
}

#[track_caller]
fn check_malformed(text: impl AsRef<[u8]>, expect: &str) {
    match parse(text) {
        Ok((history, _)) => panic!("read as {} ops; expected {expect}", history.len()),
        Err(error) => assert!(error.starts_with(expect), "{error}\nis not\n{expect}"),
    }
}

#[test]
fn a_malformed_line_is_told_with_its_place() {
    for (text, expect) in [
        ("[1]\n", "1:1: `[1]` where an op, a JSON object, is expected"),
        ("\n\n{}\n", "3:1: no field where `f`, a word"),
        ("{\"f\":5}\n", "1:6: `5}` where `f`, a word"),
        ("{\"f\":\"send\"}\n", "1:1: no field where `process`"),
        ("{\"f\":\"send\",\"process\":0}\n", "1:1: no field where `type`"),
        ("{\"process\":-1}\n", "1:12: `-1}` where `process`"),
        ("{\"process\":4294967296}\n", "1:12: `4294967296}` where `process`"),
        ("{\"process\":\"thread\"}\n", "1:12: `\"thread\"}` where `process`"),
        ("{\"type\":\"okay\"}\n", "1:9: `\"okay\"}` where `type`, one of invoke, ok, fail, info,"),
        ("{\"time\":1.5}\n", "1:9: `1.5}` where `time`"),
        ("{\"time\":}\n", "1:9: `}` where `time`"),
        ("{\"time\":-}\n", "1:9: `-}` where `time`"),
        ("{\"index\":-1}\n", "1:10: `-1}` where `index`"),
        ("{\"time\":9223372036854775808}\n", "1:9: `9223372036854775808}` where `time`"),
        ("{\"f\":\"send\",\"process\":0,\"value\":7}\n", "1:33: `7}` where a list of micro-operations"),
        (
            "{\"f\":\"poll\",\"process\":0,\"value\":[[\"pull\"]]}\n",
            "1:35: `\"pull\"]]}` where a micro-operation",
        ),
        ("{\"f\":\"poll\",\"process\":0,\"value\":[[\"send\",1]]}\n", "1:43: `]]}` where `,`"),
        (
            "{\"f\":\"poll\",\"process\":0,\"value\":[[\"poll\",[]]]}\n",
            "1:42: `[]]]}` where the records by key",
        ),
        ("{\"f\":\"poll\",\"process\":0,\"value\":[[\"poll\",{\"x\":[]}]]}\n", "1:43: `x` where a key"),
        (
            "{\"f\":\"poll\",\"process\":0,\"value\":[[\"poll\",{\"1\":[[1]]}]]}\n",
            "1:50: `]]}]]}` where `,` between offset",
        ),
        (
            "{\"f\":\"poll\",\"process\":0,\"value\":[[\"poll\",{\"1\":[[1,2,3]]}]]}\n",
            "1:52: `,3]]}]]}` where `]`",
        ),
        (
            "{\"f\":\"send\",\"process\":0,\"value\":[[\"send\",1,\"a\"]]}\n",
            "1:44: `\"a\"]]}` where a value, a number",
        ),
        (
            "{\"f\":\"send\",\"process\":0,\"value\":[[\"send\",1,-9223372036854775808]]}\n",
            "1:44: `-9223372036854775808]]}` where a value, a number or null, above",
        ),
        ("{\"f\":\"assign\",\"process\":0,\"value\":[null]}\n", "1:36: `null]}` where a key, a number"),
        ("{\"rebalance\":7}\n", "1:14: `7}` where `rebalance`"),
        ("{\"offsets\":{\"1\":true}}\n", "1:17: `true}}` where an offset"),
        ("{\"txn\":\"t1\"}\n", "1:8: `\"t1\"}` where `txn`, an object"),
        ("{\"x\":tru}\n", "1:9: expected ident"),
        ("{} {}\n", "1:4: `{}` where the end of the line is expected"),
        // The reader says 0 where nothing is left.
        ("{}\0{\n", "1:3: `\0{` where the end of the line is expected"),
        ("{\"f\":\"send\",\"f\":\"poll\"}\n", "1:17: `\"poll\"}` where no second `f`"),
        ("{\"type\":\"ok\",\"type\":\"ok\"}\n", "1:21: `\"ok\"}` where no second `type`"),
        ("{\"process\":0,\"process\":1}\n", "1:24: `1}` where no second `process`"),
        ("{\"value\":[],\"value\":[]}\n", "1:21: `[]}` where no second `value`"),
        (
            "{\"f\":\"send\",\"process\":0,\"type\":\"ok\",\"value\":[[\"send\",1,[2,3]]],\"a\":\"\u{1}\"}\n",
            "1:68: control character",
        ),
    ] {
        check_malformed(text, expect);
    }
    check_malformed(b"{\"f\":\"\xff\"}\n", "1:7: not UTF-8");
}

const OPS: &str = r#"{"index":0,"time":5,"process":0,"type":"invoke","f":"txn","value":[["send",5,17],["poll"]]}
{"index":1,"time":9,"process":0,"type":"ok","f":"txn","value":[["send",5,[12,17]],["poll",{"5":[[10,15],[11,null]],"-6":[]}]],"node":"n→1"}
"#;

#[test]
fn a_last_line_cut_anywhere_is_dropped_and_said() {
    let whole = parse(OPS).expect("well formed").0;
    assert_eq!(whole.len(), 2);
    let second = OPS.find('\n').expect("two lines") + 1;
    for cut in second + 1..OPS.len() - 1 {
        let (history, dropped) =
            parse(&OPS.as_bytes()[..cut]).unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
        assert_eq!(history.len(), 1, "cut at {cut}");
        assert_eq!(dropped, Some(format!("line 2 is cut short: dropped ({} bytes)", cut - second)));
        // Nothing of the dropped op is left: the history goes on as if it had never been.
        let mut history = history;
        history.push(whole.op(1).to_op());
        assert_eq!(history, whole);
    }
    // Whole but for the line's end: nothing is missing.
    assert_eq!(parse(OPS.trim_end()).expect("well formed"), (whole, None));
}

#[test]
fn what_is_unknown_is_ignored_or_kept() {
    let text = r#"{"process":1,"type":"invoke","time":3,"value":[1,{"a":null}],"f":"jump","extra":[{"x":"\u00e9\n"}],"node":null}
 { "value" : [ [ "send" , 1 , [ null , 2 ] ] , [ "poll" , { } ] ] , "f" : "t\u0078n" , "type" : "ok" , "process" : 7 }
{"process":"nemesis","type":"info","f":"kill","value":{"n1":"killed"}}
{"process":"nemesis","type":"info","f":"send","value":[["anything"]]}
{"process":2,"type":"fail","f":"poll","value":null,"error":["timeout",5],"rebalance":null,"offsets":null,"txn":null}
"#;
    let (history, dropped) = parse(text).expect("well formed");
    assert_eq!(dropped, None);
    let ops: Vec<Op> = history.ops().map(|op| op.to_op()).collect();
    assert_eq!(ops.iter().map(|op| op.index).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(ops[0].f, F::Other("jump".into()));
    assert_eq!(ops[0].value, OpValue::Json(json!([1, {"a": null}])));
    assert_eq!(ops[1].f, F::Txn);
    assert_eq!(
        ops[1].value,
        OpValue::Mops(vec![
            Mop::Send { key: Key(1), value: Value(2), offset: None },
            Mop::Poll(Some(Reads::new()))
        ])
    );
    assert_eq!(ops[2].value, OpValue::Json(json!({"n1": "killed"})));
    assert_eq!(ops[3].value, OpValue::Json(json!([["anything"]])));
    assert_eq!(ops[4].value, OpValue::None);
    assert_eq!(ops[4].extra.error.as_ref().expect("an error").code, "[\"timeout\",5]");
}

#[test]
fn a_word_for_every_op_is_kept() {
    let line = |n: usize| format!("{{\"process\":0,\"type\":\"invoke\",\"f\":\"w{n}\",\"value\":null}}\n");
    // More than 16 bits have numbers for, and each of them twice.
    let count = 70_000;
    let text: String = (0..2 * count).map(|n| line(n % count)).collect();
    let (history, _) = parse(text).expect("well formed");
    for (n, op) in history.ops().enumerate() {
        assert_eq!(op.f().name(), format!("w{}", n % count));
    }
}

#[test]
fn a_gigantic_line_is_refused_and_not_kept() {
    let crash = "{\"process\":0,\"type\":\"invoke\",\"f\":\"crash\",\"value\":null}\n";
    for (line, fits) in [(" ".repeat(99), true), (" ".repeat(100), false), ("x".repeat(1_000_000), false)] {
        match read_lines(format!("{crash}{line}\n{crash}").as_bytes(), 100) {
            Ok((history, dropped)) => assert_eq!((history.len(), dropped, fits), (2, None, true)),
            Err(error) => {
                let expect = "line 2, column 1: longer than 100 bytes; one op a line is expected";
                assert_eq!((error.to_string(), fits), (expect.to_owned(), false));
            }
        }
    }
    // One that has no end is not waited for.
    let endless = std::io::BufReader::new(std::io::repeat(b'['));
    assert!(matches!(read_lines(endless, 1 << 20), Err(ReadError::Malformed { line: 1, .. })));
}

#[test]
fn ops_know_their_lines() {
    let op = |f: &str| format!("{{\"process\":0,\"type\":\"invoke\",\"f\":\"{f}\",\"value\":null}}\n");
    let (history, _) = parse(op("crash") + "\n  \n" + &op("send") + &op("poll")).expect("well formed");
    assert_eq!(history.ops().map(|op| op.line()).collect::<Vec<_>>(), [Some(1), Some(4), Some(5)]);
    let built: History = history.ops().map(|op| op.to_op()).collect();
    assert_eq!(built.op(1).line(), None);
}

fn offset() -> impl Strategy<Value = Offset> {
    prop_oneof![8 => 0i64..100, 1 => any::<i64>()].prop_map(Offset)
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![8 => 0i64..100, 1 => any::<i64>()].prop_map(Value)
}

fn keys() -> impl Strategy<Value = Vec<Key>> {
    vec(any::<i64>().prop_map(Key), 0..4)
}

fn mop() -> impl Strategy<Value = Mop> {
    let records = vec((offset(), value()), 0..4);
    let reads = proptest::collection::btree_map((-9i64..9).prop_map(Key), records, 0..3);
    prop_oneof![
        (-9i64..9, value(), option::of(offset())).prop_map(|(key, value, offset)| {
            let offset = offset.filter(|offset| *offset != Offset::UNKNOWN);
            Mop::Send { key: Key(key), value, offset }
        }),
        option::of(reads.prop_map(|reads| reads.into_iter().collect())).prop_map(Mop::Poll),
    ]
}

fn extra() -> impl Strategy<Value = Extra> {
    let error = (any::<String>(), any::<bool>(), any::<String>())
        .prop_map(|(code, definite, message)| OpError { code, definite, message });
    let rebalance = (any::<String>(), keys()).prop_map(|(kind, keys)| Rebalance { kind, keys });
    let txn = (any::<String>(), any::<String>()).prop_map(|(id, outcome)| Txn { id, outcome });
    let offsets = proptest::collection::btree_map((-9i64..9).prop_map(Key), offset(), 0..3);
    (
        option::of(error),
        vec(rebalance, 0..3),
        option::of(txn),
        offsets,
        option::of(any::<String>()),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(error, rebalance, txn, offsets, node, abort, from_beginning)| Extra {
            error,
            rebalance,
            txn,
            offsets: offsets.into_iter().collect(),
            node,
            abort,
            from_beginning,
        })
}

fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_filter_map("JSON has finite numbers alone", |n| {
            serde_json::Number::from_f64(n).map(Json::from)
        }),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Json::from),
            vec((any::<String>(), inner), 0..3).prop_map(|fields| fields.into_iter().collect::<Json>()),
        ]
    })
}

fn op() -> impl Strategy<Value = Op> {
    let process = prop_oneof![9 => any::<u32>().prop_map(Process::Client), 1 => Just(Process::Nemesis)];
    let f = prop_oneof![9 => proptest::sample::select(F::KNOWN.to_vec()), 1 => any::<String>().prop_map(|f| F::from_name(&f))];
    let kind = proptest::sample::select(Kind::ALL.to_vec());
    (any::<u64>(), any::<i64>(), process, kind, f, vec(mop(), 0..4), keys(), json(), extra()).prop_map(
        |(index, time_ns, process, kind, f, mops, keys, json, extra)| {
            let value = match () {
                _ if process == Process::Nemesis || !(f.has_mops() || f.has_keys()) => {
                    if json.is_null() {
                        OpValue::None
                    } else {
                        OpValue::Json(json)
                    }
                }
                // An empty list says no more than no list.
                _ if f.has_mops() && !mops.is_empty() => OpValue::Mops(mops),
                _ if f.has_keys() && !keys.is_empty() => OpValue::Keys(keys),
                _ => OpValue::None,
            };
            let index = index >> 1;
            Op { index, time_ns, process, kind, f, value, extra }
        },
    )
}

proptest! {
    #[test]
    fn what_is_printed_is_read_again(ops in vec(op(), 0..8)) {
        let history: History = ops.iter().cloned().collect();
        prop_assert_eq!(history.ops().map(|op| op.to_op()).collect::<Vec<_>>(), ops);
        let (read, dropped) = parse(print(&history)).expect("what was printed is well formed");
        prop_assert_eq!(dropped, None);
        prop_assert_eq!(print(&read), print(&history));
        prop_assert_eq!(read, history);
    }

    #[test]
    fn no_bytes_break_the_reader(bytes in vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn a_damaged_line_breaks_nothing(at in 0..OPS.len(), byte in any::<u8>(), len in 0usize..5) {
        let mut bytes = OPS.as_bytes().to_vec();
        bytes.splice(at..(at + len).min(OPS.len()), [byte]);
        if let Ok((history, _)) = parse(&bytes) {
            parse(print(&history)).expect("what was printed is well formed");
        }
    }
}
