//! What was when: the phases of a run and the time that each fault was at work.
//!
//! Both are parts of `results.json`, so that a report can be made again from the files alone:
//!
//! ```text
//! "phases": [{"name":"main","from":0,"until":30000000000}, ...]
//! "faults": {"kill":{"strikes":2,"took_effect":2,"spans":[
//!     {"from":1,"until":2,"target":["n2"],"took_effect":true,"evidence":{...}}, ...]}}
//! ```

use riprap_checker::Verdict;
use riprap_core::fault::FaultInfo;
use riprap_core::history::OpRef;
use riprap_core::op::{Kind, Process};
use riprap_core::{History, OpValue};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// A phase of a run. Units: nanoseconds since the run began.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Phase {
    /// `deploy`, `main`, `heal`, `drain`.
    pub name: String,
    /// When it began.
    #[serde(rename = "from")]
    pub from_ns: i64,
    /// When it was over.
    #[serde(rename = "until")]
    pub until_ns: i64,
}

/// Every fault of a run, by its name.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Faults(pub BTreeMap<String, FaultRecord>);

/// What one fault did.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FaultRecord {
    /// How often it struck.
    pub strikes: u64,
    /// How many of these a probe saw.
    pub took_effect: u64,
    /// From each strike to what healed it.
    pub spans: Vec<FaultSpan>,
}

/// One strike.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FaultSpan {
    /// When it was about to strike. Units: nanoseconds since the run began.
    #[serde(rename = "from")]
    pub from_ns: i64,
    /// When it was healed; `None` if it never was.
    #[serde(rename = "until")]
    pub until_ns: Option<i64>,
    /// What it was aimed at.
    pub target: Json,
    /// Whether a probe saw it; `None` if the run ended before anybody could tell.
    pub took_effect: Option<bool>,
    /// What the probe saw.
    pub evidence: Json,
}

impl Faults {
    /// The faults that a history tells of. `infos` says which words strike and which heal.
    ///
    /// The completion of a strike has the value `{"took_effect": bool, "evidence": ...}`; one with an error did not
    /// take effect.
    pub fn of(history: &History, infos: &[&FaultInfo]) -> Faults {
        let mut faults = Faults::default();
        for op in history.ops().filter(|op| op.process() == Process::Nemesis && op.kind() == Kind::Invoke) {
            let word = op.f().name();
            if let Some(info) = infos.iter().find(|info| info.strike_f == word) {
                let record = faults.0.entry(info.name.to_owned()).or_default();
                record.end_open(op.time_ns());
                record.add(span_of(op));
            } else if let Some(info) = infos.iter().find(|info| info.heal_f == word) {
                let healed_ns = op.partner().unwrap_or(op).time_ns();
                faults.0.entry(info.name.to_owned()).or_default().end_open(healed_ns);
            }
        }
        // A heal alone is the final one of a fault that never struck.
        faults.0.retain(|_, record| record.strikes > 0);
        faults
    }

    /// All strikes with their fault's name, in the order of time.
    pub fn spans(&self) -> Vec<(&str, &FaultSpan)> {
        let by_fault =
            self.0.iter().flat_map(|(name, record)| record.spans.iter().map(|span| (name.as_str(), span)));
        let mut spans: Vec<_> = by_fault.collect();
        spans.sort_by_key(|(_, span)| span.from_ns);
        spans
    }

    /// `unknown` if a strike cannot be proved to have taken effect: a run in which nothing happened says nothing.
    pub fn verdict(&self) -> Verdict {
        let inert = self.spans().into_iter().filter(|(_, span)| span.took_effect != Some(true));
        Verdict::compose(inert.map(|(name, span)| {
            let at_s = span.from_ns as f64 / 1e9;
            let (target, evidence) = (target_text(&span.target), brief(&span.evidence));
            let why = match span.took_effect {
                Some(_) => format!("{name} of {target} at {at_s:.1} s did not take effect: {evidence}"),
                None => format!("{name} of {target} at {at_s:.1} s: nobody saw whether it took effect"),
            };
            Verdict::unknown("faults", why)
        }))
    }
}

impl FaultRecord {
    fn add(&mut self, span: FaultSpan) {
        self.strikes += 1;
        self.took_effect += u64::from(span.took_effect == Some(true));
        self.spans.push(span);
    }

    fn end_open(&mut self, until_ns: i64) {
        for span in self.spans.iter_mut().filter(|span| span.until_ns.is_none()) {
            span.until_ns = Some(until_ns);
        }
    }
}

fn span_of(strike: OpRef<'_>) -> FaultSpan {
    let mut span = FaultSpan {
        from_ns: strike.time_ns(),
        until_ns: None,
        target: strike.json().cloned().unwrap_or_default(),
        took_effect: None,
        evidence: Json::Null,
    };
    let Some(done) = strike.partner() else { return span };
    if let Some(error) = done.extra().and_then(|extra| extra.error.as_ref()) {
        span.took_effect = Some(false);
        span.evidence = format!("{}: {}", error.code, error.message).into();
    } else if let OpValue::Json(value) = done.to_op().value {
        span.took_effect = value.get("took_effect").and_then(Json::as_bool);
        span.evidence = value.get("evidence").cloned().unwrap_or(value);
    }
    span
}

/// JSON for humans, on one line and not long: `n1, n2`, `dead-links: 4; live-links: 2`.
pub(crate) fn brief(json: &Json) -> String {
    const MAX_CHARS: usize = 240;
    let text = readable(json, 0);
    if text.chars().count() <= MAX_CHARS {
        return text;
    }
    text.chars().take(MAX_CHARS).chain("...".chars()).collect()
}

fn readable(json: &Json, depth: usize) -> String {
    let parts: Vec<String> = match json {
        Json::Null => return "nothing".to_owned(),
        Json::String(text) => return text.replace(['\n', '\r'], " "),
        Json::Bool(_) | Json::Number(_) => return json.to_string(),
        Json::Array(parts) => parts.iter().map(|part| readable(part, depth + 1)).collect(),
        Json::Object(fields) => {
            let told = fields.iter().filter(|(_, part)| !is_empty(part));
            told.map(|(name, part)| format!("{name}: {}", readable(part, depth + 1))).collect()
        }
    };
    let text = parts.join(if json.is_object() { "; " } else { ", " });
    match parts.len() {
        0 => "nothing".to_owned(),
        1 => text,
        _ if depth == 0 => text,
        _ => format!("({text})"),
    }
}

/// A field without content says nothing: `leaking: []`.
fn is_empty(json: &Json) -> bool {
    match json {
        Json::Null => true,
        Json::Array(parts) => parts.is_empty(),
        Json::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// What a strike was aimed at: its shape, then who or what: `one: n2`, `bridge: n1↔n3`.
pub(crate) fn target_text(aim: &Json) -> String {
    let Json::Object(fields) = aim else { return brief(aim) };
    let rest = fields.iter().filter(|(name, _)| *name != "shape");
    let rest: Vec<String> = rest
        .map(|(name, part)| match (name.as_str(), part) {
            ("nodes", nodes) => brief(nodes),
            ("cut", Json::Array(links)) => links_text(links),
            (name, part) => format!("{name}: {}", brief(part)),
        })
        .collect();
    match fields.get("shape").and_then(Json::as_str) {
        Some(shape) if rest.is_empty() => shape.to_owned(),
        Some(shape) => format!("{shape}: {}", rest.join("; ")),
        None => rest.join("; "),
    }
}

/// Cut links, `n1->n2`; one that is cut both ways is told once.
fn links_text(links: &[Json]) -> String {
    let links: Vec<&str> = links.iter().filter_map(Json::as_str).collect();
    let mut told = Vec::new();
    for link in &links {
        let text = match link.split_once("->") {
            Some((from, to)) if links.contains(&format!("{to}->{from}").as_str()) => {
                if from > to {
                    continue;
                }
                format!("{from}↔{to}")
            }
            Some((from, to)) => format!("{from}→{to}"),
            None => (*link).to_owned(),
        };
        told.push(Json::from(text));
    }
    brief(&Json::from(told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_checker::Valid;
    use riprap_core::op::{Extra, Op, OpError};
    use riprap_core::{F, op};
    use serde_json::json;

    static KILL: FaultInfo =
        FaultInfo { name: "kill", doc: "", strike_f: "kill", heal_f: "restart", min_copies: 1, shapes: &[] };
    static CUT: FaultInfo =
        FaultInfo { name: "partition", doc: "", strike_f: "cut", heal_f: "heal", min_copies: 1, shapes: &[] };

    fn nemesis(time_ns: i64, kind: Kind, f: &str, value: Json) -> Op {
        let value = if value.is_null() { OpValue::None } else { OpValue::Json(value) };
        let (process, f, extra) = (op::Process::Nemesis, F::from_name(f), Extra::default());
        Op { index: 0, time_ns, process, kind, f, value, extra }
    }

    /// The invocation and the completion of one op, a nanosecond apart.
    fn act(time_ns: i64, f: &str, aim: Json, effect: Json) -> [Op; 2] {
        [nemesis(time_ns, Kind::Invoke, f, aim), nemesis(time_ns + 1, Kind::Info, f, effect)]
    }

    #[test]
    fn strikes_last_until_they_are_healed() {
        let hit = |evidence: &str| json!({"took_effect": true, "evidence": evidence});
        let mut ops = Vec::new();
        ops.extend(act(10, "kill", json!({"shape": "one", "nodes": ["n2"]}), hit("gone")));
        ops.extend(act(
            20,
            "cut",
            json!({"from": "n1"}),
            json!({"took_effect": false, "evidence": "still there"}),
        ));
        ops.extend(act(30, "restart", Json::Null, hit("back")));
        ops.extend(act(40, "kill", json!(["n1"]), hit("gone")));
        ops.extend(act(50, "restart", Json::Null, hit("back")));
        let mut failed = act(60, "kill", json!(["n3"]), Json::Null);
        let message = "no such process".to_owned();
        failed[1].extra.error = Some(OpError { code: "cluster".to_owned(), definite: false, message });
        ops.extend(failed);
        ops.push(nemesis(70, Kind::Invoke, "kill", json!(["n1"])));
        let faults = Faults::of(&ops.into_iter().collect(), &[&KILL, &CUT]);

        let seen: Vec<_> = faults
            .spans()
            .into_iter()
            .map(|(name, span)| (name, span.from_ns, span.until_ns, span.took_effect, brief(&span.evidence)))
            .collect();
        let expected = [
            ("kill", 10, Some(31), Some(true), "gone"),
            ("partition", 20, None, Some(false), "still there"),
            ("kill", 40, Some(51), Some(true), "gone"),
            ("kill", 60, Some(70), Some(false), "cluster: no such process"),
            ("kill", 70, None, None, "nothing"),
        ];
        assert_eq!(
            seen,
            expected.map(|(name, from, until, took, evidence)| (
                name,
                from,
                until,
                took,
                evidence.to_owned()
            ))
        );
        assert_eq!((faults.0["kill"].strikes, faults.0["kill"].took_effect), (4, 2));

        let verdict = faults.verdict();
        assert_eq!(verdict.valid, Valid::Unknown);
        let expected = [
            "faults: partition of from: n1 at 0.0 s did not take effect: still there",
            "faults: kill of n3 at 0.0 s did not take effect: cluster: no such process",
            "faults: kill of n1 at 0.0 s: nobody saw whether it took effect",
        ];
        assert_eq!(verdict.why, expected);

        let json = serde_json::to_value(&faults).expect("it is JSON");
        assert_eq!(json["kill"]["spans"][0]["until"], 31);
        assert_eq!(serde_json::from_value::<Faults>(json).expect("it is read back"), faults);
    }

    #[test]
    fn no_strike_no_fault() {
        let ops = act(10, "restart", Json::Null, Json::Null);
        let faults = Faults::of(&ops.into_iter().collect(), &[&KILL, &CUT]);
        assert_eq!(faults, Faults::default());
        assert_eq!(faults.verdict(), Verdict::default());
    }

    #[test]
    fn targets_for_humans() {
        let check = |json: Json, expected: &str| assert_eq!(target_text(&json), expected);
        check(json!({"shape": "minority", "nodes": ["n2", "n3"]}), "minority: n2, n3");
        check(json!({"shape": "bridge", "cut": ["n1->n3", "n3->n1"]}), "bridge: n1↔n3");
        check(json!({"shape": "one-way", "cut": ["n1->n2", "n1->n3"]}), "one-way: n1→n2, n1→n3");
        check(json!({"shape": "all"}), "all");
        check(json!({"rate": 5}), "rate: 5");
        check(json!(["n1"]), "n1");
    }

    #[test]
    fn json_for_humans() {
        let check = |json: Json, expected: &str| assert_eq!(brief(&json), expected);
        check(json!(["n1", "n2"]), "n1, n2");
        check(
            json!({"halves": [["n1"], ["n2", "n3"]], "heals": false}),
            "halves: (n1, (n2, n3)); heals: false",
        );
        check(json!({"n2": "down: signal: 9"}), "n2: down: signal: 9");
        check(json!({"dead-links": 4, "leaking": []}), "dead-links: 4");
        check(Json::Null, "nothing");
        check(json!([]), "nothing");
        check(json!("two\nlines"), "two lines");
        assert_eq!(brief(&json!("x".repeat(1_000))).len(), 243);
    }
}
