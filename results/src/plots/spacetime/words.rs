//! Ops in a few words: `send 5=54`, `→ ok @1`, `→ 5: 49@0 54@1`.

use riprap_core::op::{Kind, Mop, Op, OpValue, Txn};

/// What an op was to do.
pub(super) fn begun(op: &Op) -> String {
    let word = op.f.name();
    let what = match &op.value {
        OpValue::Mops(mops) => {
            let part = |mop: &Mop| match mop {
                Mop::Send { key, value, .. } => format!("{key}={value}"),
                Mop::Poll(_) => "poll".to_owned(),
            };
            let parts: Vec<String> = mops.iter().map(part).collect();
            if parts == [word] { String::new() } else { parts.join(" ") }
        }
        OpValue::Keys(keys) => keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        OpValue::None | OpValue::Json(_) => String::new(),
    };
    let abort = if op.extra.abort { " (to abort)" } else { "" };
    let from = if op.extra.from_beginning { " from 0" } else { "" };
    format!("{word} {what}{abort}{from}").trim_end().replace("  ", " ")
}

/// What came of it.
pub(super) fn ended(op: &Op) -> String {
    let mut parts = Vec::new();
    match op.kind {
        // What an op that is thrown away by its nature ended in says nothing.
        Kind::Info if op.extra.error.is_none() => {}
        kind => parts.push(kind.name().to_owned()),
    }
    if let Some(error) = &op.extra.error {
        parts.push(error.code.clone());
    }
    if let Some(txn) =
        op.extra.txn.as_ref().filter(|txn| txn.outcome != Txn::COMMITTED || op.kind != Kind::Ok)
    {
        parts.push(txn.outcome.clone());
    }
    if let OpValue::Mops(mops) = &op.value {
        let reads = mops.iter().filter_map(|mop| match mop {
            Mop::Poll(Some(reads)) => Some(reads),
            _ => None,
        });
        let mut polled = false;
        let mut read = Vec::new();
        for (key, records) in reads.inspect(|_| polled = true).flatten() {
            let records: Vec<String> =
                records.iter().map(|(offset, value)| format!("{value}@{offset}")).collect();
            read.push(format!("{key}: {}", records.join(" ")));
        }
        let sent = mops.iter().filter_map(|mop| match mop {
            Mop::Send { offset: Some(offset), .. } => Some(format!("@{offset}")),
            _ => None,
        });
        parts.extend(sent);
        if polled {
            // What was read says that the op is ok.
            parts.retain(|part| part != "ok");
            parts.push(if read.is_empty() { "nothing".to_owned() } else { read.join("; ") });
        }
    }
    if parts.is_empty() { String::new() } else { format!("→ {}", parts.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_core::history::read_jsonl;

    #[test]
    fn ops_are_a_few_words() {
        let check = |invoked: &str, completed: &str, expected: &str| {
            let head = r#""process":1,"time":0"#;
            let lines = format!("{{{head},\"type\":\"invoke\",{invoked}}}\n{{{head},{completed}}}\n");
            let (history, _) = read_jsonl(lines.as_bytes()).expect("well formed");
            let text = format!("{} {}", begun(&history.op(0).to_op()), ended(&history.op(1).to_op()));
            assert_eq!(text.trim_end(), expected);
        };
        check(
            r#""f":"send","value":[["send",5,54]]"#,
            r#""type":"ok","f":"send","value":[["send",5,[1,54]]]"#,
            "send 5=54 → ok @1",
        );
        check(
            r#""f":"send","value":[["send",5,54],["send",5,55]]"#,
            r#""type":"info","f":"send","value":[["send",5,54],["send",5,55]],"error":{"code":"OP_TIMED_OUT","definite":false,"message":"x"}"#,
            "send 5=54 5=55 → info OP_TIMED_OUT",
        );
        check(
            r#""f":"poll","value":[["poll"]]"#,
            r#""type":"ok","f":"poll","value":[["poll",{"5":[[0,49],[1,54]]}]]"#,
            "poll → 5: 49@0 54@1",
        );
        check(
            r#""f":"poll","value":[["poll"]]"#,
            r#""type":"ok","f":"poll","value":[["poll",{}]]"#,
            "poll → nothing",
        );
        check(
            r#""f":"txn","value":[["send",5,54],["poll"]],"abort":true"#,
            r#""type":"fail","f":"txn","value":[["send",5,54],["poll",{}]],"txn":{"id":"a","outcome":"aborted"}"#,
            "txn 5=54 poll (to abort) → fail aborted nothing",
        );
        check(
            r#""f":"assign","value":[5,6],"from-beginning":true"#,
            r#""type":"ok","f":"assign","value":[5,6]"#,
            "assign 5 6 from 0 → ok",
        );
        check(r#""f":"crash","value":null"#, r#""type":"info","f":"crash","value":null"#, "crash");
    }
}
