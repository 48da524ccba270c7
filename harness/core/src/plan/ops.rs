//! Planned ops in a file: as the invocations of a history, with threads for processes.

use crate::generator::{Draft, PlannedOp};
use crate::history::{History, OpRef, read_jsonl, write_op};
use crate::interpreter::IDLE_CLIENT_CRASHED;
use crate::op::{Extra, Kind, Op, Process};
use crate::phase;
use serde::de::Error as _;
use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Deserialize as _, Deserializer, Serializer};
use serde_json::Value as Json;

fn to_op(index: usize, planned: &PlannedOp) -> Op {
    let Draft { f, value, from_beginning, abort } = planned.draft.clone();
    Op {
        index: index as u64,
        time_ns: i64::try_from(planned.time_ns).expect("a run is shorter than 292 years"),
        process: Process::Client(planned.thread),
        kind: Kind::Invoke,
        f,
        value,
        extra: Extra { from_beginning, abort, ..Extra::default() },
    }
}

fn from_op(op: Op) -> Result<PlannedOp, String> {
    let what = format!("op {} ({})", op.index, op.f.name());
    let (Process::Client(thread), Kind::Invoke) = (op.process, op.kind) else {
        return Err(format!("{what}: an invocation of a client is right"));
    };
    let time_ns = u64::try_from(op.time_ns)
        .map_err(|_| format!("{what}: time is {}; 0 or later is right", op.time_ns))?;
    let Extra { from_beginning, abort, .. } = op.extra;
    Ok(PlannedOp { time_ns, thread, draft: Draft { f: op.f, value: op.value, from_beginning, abort } })
}

/// What clients began in the main phase of a run, as a plan that makes them do it again. The numbers of processes are those
/// of [`crate::interpreter`].
pub(super) fn of(history: &History, concurrency: u32) -> Vec<PlannedOp> {
    let marks: Vec<(i64, u64, &str)> =
        phase::marks(history).map(|(op, name)| (op.time_ns(), op.index(), name)).collect();
    let Some((began_ns, first, _)) = marks.iter().find(|(.., name)| *name == phase::MAIN).copied() else {
        return Vec::new();
    };
    let end = marks.iter().find(|(.., name)| *name == phase::HEAL).map_or(u64::MAX, |(_, index, _)| *index);
    let begun = history.ops().filter(|op| op.kind() == Kind::Invoke && (first..end).contains(&op.index()));
    let planned = begun.filter(|op| !is_a_faults(*op)).filter_map(|op| {
        let Process::Client(process) = op.process() else { return None };
        let Op { time_ns, f, value, extra: Extra { from_beginning, abort, .. }, .. } = op.to_op();
        let time_ns = u64::try_from(time_ns - began_ns).expect("time does not run backwards in a history");
        Some(PlannedOp {
            time_ns,
            thread: process % concurrency,
            draft: Draft { f, value, from_beginning, abort },
        })
    });
    planned.collect()
}

/// When the main phase of a run was over, since it began; none if it is not. Units: nanoseconds.
pub(super) fn end_of(history: &History) -> Option<u64> {
    let time_of =
        |mark: &str| phase::marks(history).find(|(_, name)| *name == mark).map(|(op, _)| op.time_ns());
    u64::try_from(time_of(phase::HEAL)? - time_of(phase::MAIN)?).ok()
}

/// Whether no client began it, but a fault that ended the client: it does so again.
fn is_a_faults(invoked: OpRef<'_>) -> bool {
    let error = invoked.partner().and_then(|done| done.extra()?.error.as_ref());
    error.is_some_and(|error| error.code == IDLE_CLIENT_CRASHED)
}

pub(super) fn serialize<S: Serializer>(
    ops: &Option<Vec<PlannedOp>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let ops = ops.as_deref().unwrap_or_default();
    let mut list = serializer.serialize_seq(Some(ops.len()))?;
    for (index, planned) in ops.iter().enumerate() {
        let mut line = Vec::new();
        write_op(&mut line, &to_op(index, planned)).expect("memory takes it");
        let json: Json = serde_json::from_slice(&line).map_err(S::Error::custom)?;
        list.serialize_element(&json)?;
    }
    list.end()
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<PlannedOp>>, D::Error> {
    let list: Vec<Json> = Vec::deserialize(deserializer)?;
    let lines: String = list.iter().map(|json| format!("{json}\n")).collect();
    let (history, _) = read_jsonl(lines.as_bytes()).map_err(D::Error::custom)?;
    let ops = history.ops().map(|op| from_op(op.to_op()));
    ops.collect::<Result<Vec<_>, String>>().map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use crate::generator::{Draft, PlannedOp};
    use crate::op::{F, Key, Mop, OpValue, Value};
    use crate::plan::Plan;

    #[test]
    fn planned_ops_are_read_back() {
        let draft = |f, value| Draft::new(f, value);
        let send = Mop::Send { key: Key(3), value: Value(7), offset: None };
        let ops = vec![
            PlannedOp { time_ns: 5, thread: 1, draft: draft(F::Assign, OpValue::Keys(vec![Key(3), Key(4)])) },
            PlannedOp {
                time_ns: 9,
                thread: 0,
                draft: Draft { abort: true, ..draft(F::Txn, OpValue::Mops(vec![send, Mop::Poll(None)])) },
            },
            PlannedOp { time_ns: 9, thread: 1, draft: draft(F::Crash, OpValue::None) },
        ];
        let plan = Plan { ops: Some(ops), ..Plan::default() };
        let text = serde_json::to_string(&plan).expect("plans are written");
        assert_eq!(serde_json::from_str::<Plan>(&text).expect("and read"), plan, "{text}");
        // A plan whose ops are left to the workload says nothing of them.
        assert_eq!(serde_json::to_string(&Plan::default()).expect("plans are written"), r#"{"faults":[]}"#);
    }

    #[test]
    fn what_is_no_invocation_of_a_client_is_refused() {
        let check = |op: &str, expected: &str| {
            let text = format!(r#"{{"faults":[],"ops":[{op}]}}"#);
            let refused = serde_json::from_str::<Plan>(&text).expect_err("it is wrong").to_string();
            assert!(refused.starts_with(expected), "{refused}");
        };
        check(
            r#"{"index":0,"time":1,"process":0,"type":"ok","f":"poll","value":[["poll",{}]]}"#,
            "op 0 (poll): an invocation of a client is right",
        );
        check(
            r#"{"index":0,"time":1,"process":"nemesis","type":"invoke","f":"kill","value":null}"#,
            "op 0 (kill): an invocation of a client is right",
        );
        check(
            r#"{"index":0,"time":-1,"process":0,"type":"invoke","f":"poll","value":[["poll"]]}"#,
            "op 0 (poll): time is -1",
        );
        check(r#"{"index":0,"time":1,"type":"invoke","f":"poll","value":[["poll"]]}"#, "line 1");
    }
}
