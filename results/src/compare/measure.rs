//! What of a run is a number: how soon it recovered, how much it did, how long that took.

use crate::plots::series::{percentile, takes_time};
use riprap_checker::Verdict;
use riprap_core::op::{Kind, Process};
use riprap_core::phase::{self, HEAL, INTERRUPTED, MAIN};
use riprap_core::{F, History};
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Which percentiles of latencies are told.
const PERCENTILES: [usize; 3] = [50, 95, 99];

/// The numbers of one run, by name, the unit last: those of [`rows`]. One that the run does not tell is not there.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Measures(pub BTreeMap<String, f64>);

/// Every number that there can be, as its name and its words, in the order in which they are shown.
pub(super) fn rows() -> Vec<(String, String)> {
    let mut rows = vec![
        ("recovery_ms".to_owned(), "recovery, ms".to_owned()),
        ("ok_per_s".to_owned(), "ok ops a second".to_owned()),
    ];
    for f in F::KNOWN.iter().filter(|f| takes_time(f)) {
        for percent in PERCENTILES {
            rows.push((latency_name(f, percent), format!("{} p{percent}, ms", f.name())));
        }
    }
    rows
}

fn latency_name(f: &F, percent: usize) -> String {
    format!("{}_p{percent}_ms", f.name())
}

/// The numbers of a run. Of ops those count that ended `ok` in the main phase, and say something about the system; how long
/// the cluster took to serve again after all faults were healed is what the verdict tells. There are none of a run that was
/// cut short, whose main phase was another.
pub fn measure(verdict: &Verdict, history: &History) -> Measures {
    let mut numbers = BTreeMap::new();
    let bound =
        |wanted: &str| phase::marks(history).find(|(_, name)| *name == wanted).map(|(op, _)| op.time_ns());
    let is_cut = phase::marks(history).any(|(_, name)| name == INTERRUPTED);
    let (Some(from_ns), Some(until_ns), false) = (bound(MAIN), bound(HEAL), is_cut) else {
        return Measures(numbers);
    };
    let liveness = |name: &str| verdict.parts.get("liveness").and_then(|part| part.get(name));
    if let Some(recovery_ms) = liveness("recovery_ms").and_then(Json::as_f64)
        && liveness("recovered") == Some(&Json::Bool(true))
    {
        numbers.insert("recovery_ms".to_owned(), recovery_ms);
    }
    let (mut ok_ops, mut took_ns) = (0_u64, BTreeMap::<&F, Vec<i64>>::new());
    for (invoked, done) in history.pairs().filter_map(|(op, done)| Some((op, done?))) {
        let counts =
            invoked.process() != Process::Nemesis && done.kind() == Kind::Ok && takes_time(invoked.f());
        if counts && (from_ns..until_ns).contains(&done.time_ns()) {
            ok_ops += 1;
            took_ns.entry(invoked.f()).or_default().push(done.time_ns() - invoked.time_ns());
        }
    }
    if until_ns > from_ns {
        numbers.insert("ok_per_s".to_owned(), ok_ops as f64 * 1e9 / (until_ns - from_ns) as f64);
    }
    for (f, mut took_ns) in took_ns {
        took_ns.sort_unstable();
        for percent in PERCENTILES {
            numbers.insert(latency_name(f, percent), percentile(&took_ns, percent) as f64 / 1e6);
        }
    }
    Measures(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_core::op::{Extra, Op, OpValue};
    use serde_json::json;

    /// A history of words: `process kind f time_ms`, and `mark time_ms` of a phase.
    fn history(text: &str) -> History {
        let mut ops = Vec::new();
        for words in text.split(';').map(|part| part.split_whitespace().collect::<Vec<_>>()) {
            let (process, kind, f, value) = match words.as_slice() {
                [mark, _] => {
                    (Process::Nemesis, Kind::Invoke, F::from_name("phase"), OpValue::Json((*mark).into()))
                }
                [process, kind, f, _] => {
                    let kind = match *kind {
                        "invoke" => Kind::Invoke,
                        "ok" => Kind::Ok,
                        _ => Kind::Info,
                    };
                    (
                        Process::Client(process.parse().expect("a number")),
                        kind,
                        F::from_name(f),
                        OpValue::None,
                    )
                }
                _ => panic!("{words:?}"),
            };
            let time_ms: i64 = words.last().expect("not empty").parse().expect("a time");
            let index = ops.len() as u64;
            let mark =
                Op { index, time_ns: time_ms * 1_000_000, process, kind, f, value, extra: Extra::default() };
            let is_mark = process == Process::Nemesis;
            ops.push(mark.clone());
            if is_mark {
                ops.push(Op { index: index + 1, kind: Kind::Info, ..mark });
            }
        }
        ops.into_iter().collect()
    }

    fn check(text: &str, liveness: Json, expected: &[(&str, f64)]) {
        let verdict = Verdict::default().with_part("liveness", liveness);
        let measures = measure(&verdict, &history(text));
        let told: Vec<(&str, f64)> =
            measures.0.iter().map(|(name, number)| (name.as_str(), *number)).collect();
        assert_eq!(told, expected, "{text}");
        let names: Vec<String> = rows().into_iter().map(|(name, _)| name).collect();
        assert!(measures.0.keys().all(|name| names.contains(name)), "{names:?}");
    }

    #[test]
    fn ok_ops_of_the_main_phase_count() {
        let recovered = || json!({"recovered": true, "recovery_ms": 1500});
        let ops = "main 1000; 0 invoke send 1000; 0 ok send 1010; 1 invoke poll 1010; 1 info poll 1020; 2 invoke crash 1020; \
                   2 ok crash 1021; 0 invoke send 1500; 0 ok send 1530; 0 invoke send 2900; heal 3000; 0 ok send 3100; drain 3200";
        check(
            ops,
            recovered(),
            &[
                ("ok_per_s", 1.0),
                ("recovery_ms", 1500.0),
                ("send_p50_ms", 10.0),
                ("send_p95_ms", 30.0),
                ("send_p99_ms", 30.0),
            ],
        );
        check(
            "main 1000; heal 2000",
            json!({"recovered": false, "recovery_ms": 60000}),
            &[("ok_per_s", 0.0)],
        );
        check("main 1000; interrupted 1500; heal 1500", recovered(), &[]);
        check("0 invoke send 1; 0 ok send 2", recovered(), &[]);
    }
}
