//! What is to be seen, lane by lane, before anybody knows where it goes on the page.

use super::{Source, words};
use crate::palette::Ink;
use crate::plots::fault_inks;
use crate::timeline::{brief, target_text};
use riprap_core::History;
use riprap_core::history::OpRef;
use riprap_core::op::{F, Kind, Mop, Process};
use riprap_core::phase;
use riprap_core::story::{About, Life, Seen};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// A place in [`Scene::clients`] and [`Scene::nodes`], clients first.
pub(super) type Lane = usize;

/// What a host says to several others within so long it says once to all. Units: nanoseconds.
const SAME_NS: i64 = 1_500_000;

/// See the module. Times are nanoseconds since the run began.
#[derive(Default)]
pub(super) struct Scene {
    pub(super) clients: Vec<String>,
    pub(super) nodes: Vec<String>,
    pub(super) bars: Vec<Bar>,
    pub(super) arrows: Vec<Arrow>,
    /// When nodes stood still or were gone.
    pub(super) outages: Vec<Spell>,
    /// When nodes led what the story is about.
    pub(super) leads: Vec<Spell>,
    pub(super) strikes: Vec<Strike>,
    pub(super) notes: Vec<Note>,
    /// Where a phase begins.
    pub(super) marks: Vec<(i64, String)>,
    /// The worst anomaly: its name and its story.
    pub(super) story: Option<(String, String)>,
    pub(super) until_ns: i64,
}

/// An op.
pub(super) struct Bar {
    pub(super) lane: Lane,
    pub(super) from_ns: i64,
    /// When it completed, if it did.
    pub(super) until_ns: Option<i64>,
    pub(super) f: F,
    /// How it ended; an op that did not is [`Kind::Info`].
    pub(super) kind: Kind,
    pub(super) begun: String,
    pub(super) ended: String,
    /// Where it stands in the history, and where its completion does.
    pub(super) index: u64,
    pub(super) ends_index: Option<u64>,
    /// Of one that proves the anomaly, the number that the story calls it by.
    pub(super) proof: Option<u64>,
}

/// A message.
pub(super) struct Arrow {
    pub(super) from: Lane,
    pub(super) to: Lane,
    pub(super) sent_ns: i64,
    pub(super) arrived_ns: Option<i64>,
    pub(super) about: About,
    pub(super) what: String,
    /// The arrow that says it for this one: its host said the very same to somebody else a moment before.
    pub(super) said_by: Option<usize>,
}

/// Some time of a lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Spell {
    pub(super) lane: Lane,
    pub(super) from_ns: i64,
    pub(super) until_ns: i64,
}

/// A fault at work.
pub(super) struct Strike {
    pub(super) lanes: Vec<Lane>,
    pub(super) from_ns: i64,
    pub(super) until_ns: i64,
    /// Whether what ended it was the fault's own act, not the end of all of them.
    pub(super) heals: bool,
    pub(super) ink: Ink,
    pub(super) label: String,
    pub(super) tooltip: String,
}

/// What a node said or what befell it, at a moment.
pub(super) struct Note {
    pub(super) lane: Lane,
    pub(super) time_ns: i64,
    pub(super) text: String,
    /// The node broke.
    pub(super) is_bad: bool,
}

impl Scene {
    pub(super) fn of(source: &Source<'_>) -> Scene {
        let mut scene = Scene::default();
        let example =
            source.verdict.forbidden().find_map(|(name, anomaly)| Some((name, anomaly.examples.first()?)));
        scene.story = example.map(|(name, example)| (name.to_owned(), example.story.clone()));
        let proof: BTreeSet<u64> =
            example.iter().flat_map(|(_, example)| example.ops.iter().copied()).collect();
        let processes: BTreeSet<u32> = source.history.ops().filter_map(|op| client(op.process())).collect();
        scene.clients = processes.iter().map(|process| format!("c{process}")).collect();
        scene.nodes = (1..=source.nodes).map(|node| format!("n{node}")).collect();
        scene.bars(source, &proof);
        let from_ns = scene.bars.iter().map(|bar| bar.from_ns).min().unwrap_or(0);
        scene.marks(source);
        scene.messages(source, from_ns);
        let ends = scene.bars.iter().map(|bar| bar.until_ns.unwrap_or(bar.from_ns));
        let ends = ends.chain(scene.arrows.iter().map(|arrow| arrow.sent_ns));
        scene.until_ns = ends.chain(scene.marks.iter().map(|(at_ns, _)| *at_ns)).max().unwrap_or(0);
        let keys = match example.and_then(|(_, example)| example.key) {
            Some(key) => BTreeSet::from([key]),
            None => keys_of(source),
        };
        scene.nodes_lives(source, from_ns);
        scene.leadership(source, &keys, from_ns);
        scene.strikes(source);
        scene
    }

    fn lane(&self, name: &str) -> Option<Lane> {
        self.clients.iter().chain(&self.nodes).position(|lane| lane == name)
    }

    fn node_lanes(&self) -> std::ops::Range<Lane> {
        self.clients.len()..self.clients.len() + self.nodes.len()
    }

    fn bars(&mut self, source: &Source<'_>, proof: &BTreeSet<u64>) {
        // Of clients whose last op was a poll that gave nothing, the bar of that and of how many before it.
        let mut idle: BTreeMap<Lane, (usize, u64)> = BTreeMap::new();
        for (invoked, completed) in source.history.pairs() {
            let Some(process) = client(invoked.process()) else { continue };
            let lane = self.lane(&format!("c{process}")).expect("each process has a lane");
            let ends_index = completed.map(|op| op.index());
            let proof = [ends_index, Some(invoked.index())].into_iter().flatten().find(|n| proof.contains(n));
            let is_idle = proof.is_none() && is_idle(completed, idle.contains_key(&lane));
            if let Some((place, polls)) = idle.get_mut(&lane).filter(|_| is_idle) {
                *polls += u64::from(*invoked.f() == F::Poll);
                let bar = &mut self.bars[*place];
                if *polls > 1 {
                    bar.begun = format!("poll ×{polls}");
                }
                bar.until_ns = completed.map(|op| op.time_ns().max(bar.from_ns));
                bar.ends_index = ends_index;
                continue;
            }
            if is_idle {
                idle.insert(lane, (self.bars.len(), 1));
            } else {
                idle.remove(&lane);
            }
            self.bars.push(Bar {
                lane,
                from_ns: invoked.time_ns(),
                until_ns: completed.map(|op| op.time_ns().max(invoked.time_ns())),
                f: invoked.f().clone(),
                kind: completed.map_or(Kind::Info, |op| op.kind()),
                begun: words::begun(&invoked.to_op()),
                ended: completed.map(|op| words::ended(&op.to_op())).unwrap_or_default(),
                index: invoked.index(),
                ends_index,
                proof,
            });
        }
    }

    fn marks(&mut self, source: &Source<'_>) {
        let told = [(phase::HEAL, "heal: all faults end"), (phase::DRAIN, "final writes and reads")];
        let is_whole = source.faults.0.is_empty();
        for (name, text) in told.into_iter().filter(|(name, _)| !(is_whole && *name == phase::HEAL)) {
            let phases = source.phases.iter().filter(|phase| phase.name == name);
            self.marks.extend(phases.map(|phase| (phase.from_ns, text.to_owned())));
        }
    }

    fn messages(&mut self, source: &Source<'_>, from_ns: i64) {
        for seen in source.seen {
            let Seen::Message { sent_ns, arrived_ns, from, to, about, what } = seen else { continue };
            let (Some(from), Some(to)) = (self.lane(from), self.lane(to)) else { continue };
            let (sent_ns, arrived_ns) = (signed(*sent_ns), arrived_ns.map(signed));
            if sent_ns >= from_ns {
                let arrived_ns = arrived_ns.map(|at_ns| at_ns.max(sent_ns));
                let (about, what) = (*about, what.clone());
                let said_by = self.said_by(from, to, sent_ns, &what);
                self.arrows.push(Arrow { from, to, sent_ns, arrived_ns, about, what, said_by });
            }
        }
    }

    /// The first arrow of those by which a host says the same to many, if this is another of them.
    fn said_by(&self, from: Lane, to: Lane, sent_ns: i64, what: &str) -> Option<usize> {
        let recent = self.arrows.iter().enumerate().rev();
        let mut recent = recent.take_while(|(_, arrow)| sent_ns - arrow.sent_ns <= SAME_NS);
        let is_same = |arrow: &Arrow| arrow.from == from && arrow.what == what;
        // Said to the same host again it is news.
        if recent.clone().any(|(_, arrow)| is_same(arrow) && arrow.to == to) {
            return None;
        }
        recent.find(|(_, arrow)| is_same(arrow) && arrow.said_by.is_none()).map(|(n, _)| n)
    }

    fn nodes_lives(&mut self, source: &Source<'_>, from_ns: i64) {
        let mut out: BTreeMap<Lane, i64> = BTreeMap::new();
        for seen in source.seen {
            let Seen::Host { time_ns, host, life: Some(life), what } = seen else { continue };
            let Some(lane) = self.lane(host).filter(|lane| self.node_lanes().contains(lane)) else {
                continue;
            };
            let time_ns = signed(*time_ns);
            let is_bad = ["panicked", "ended with"].iter().any(|word| what.starts_with(word));
            match life {
                Life::Up => {
                    let since_ns = out.remove(&lane);
                    self.outages.extend(since_ns.map(|from_ns| Spell { lane, from_ns, until_ns: time_ns }));
                }
                Life::Paused | Life::Down => {
                    out.entry(lane).or_insert(time_ns);
                }
            }
            // That it ended is said by the fault that ended it, unless none did.
            if time_ns >= from_ns && (is_bad || *life == Life::Up) {
                let text = what.lines().next().unwrap_or_default().to_owned();
                self.notes.push(Note { lane, time_ns, text, is_bad });
            }
        }
        let until_ns = self.until_ns;
        self.outages.extend(out.into_iter().map(|(lane, from_ns)| Spell { lane, from_ns, until_ns }));
        self.outages.retain(|spell| spell.until_ns >= from_ns);
    }

    /// Who leads, of these keys. A node that is gone does not.
    fn leadership(&mut self, source: &Source<'_>, keys: &BTreeSet<i64>, from_ns: i64) {
        let mut led: BTreeMap<(Lane, i64), i64> = BTreeMap::new();
        let mut said: BTreeMap<(Lane, i64), &str> = BTreeMap::new();
        for seen in source.seen {
            match seen {
                Seen::Partition { time_ns, host, key, leads, what } if keys.contains(key) => {
                    let Some(lane) = self.lane(host) else { continue };
                    let time_ns = signed(*time_ns);
                    if *leads == Some(true) {
                        led.entry((lane, *key)).or_insert(time_ns);
                    } else if *leads == Some(false) {
                        let since_ns = led.remove(&(lane, *key));
                        self.leads.extend(since_ns.map(|from_ns| Spell { lane, from_ns, until_ns: time_ns }));
                    }
                    let is_news = said.insert((lane, *key), what) != Some(what);
                    if time_ns >= from_ns && is_news && *leads != Some(false) {
                        let text = if keys.len() == 1 { what.clone() } else { format!("{key}: {what}") };
                        self.notes.push(Note { lane, time_ns, text, is_bad: false });
                    }
                }
                Seen::Host { time_ns, host, life: Some(Life::Down), .. } => {
                    let Some(lane) = self.lane(host) else { continue };
                    let until_ns = signed(*time_ns);
                    let of_lane: Vec<_> = led.keys().filter(|(of, _)| *of == lane).copied().collect();
                    for place in of_lane {
                        let from_ns = led.remove(&place).expect("it was just there");
                        said.remove(&place);
                        self.leads.push(Spell { lane, from_ns, until_ns });
                    }
                }
                _ => {}
            }
        }
        let until_ns = self.until_ns;
        self.leads.extend(led.into_iter().map(|((lane, _), from_ns)| Spell { lane, from_ns, until_ns }));
        self.leads.retain(|spell| spell.until_ns >= from_ns);
        self.leads = merged(std::mem::take(&mut self.leads));
    }

    fn strikes(&mut self, source: &Source<'_>) {
        let inks = fault_inks(source.faults);
        let all_end_ns = source
            .phases
            .iter()
            .find(|phase| phase.name == phase::HEAL)
            .map_or(i64::MAX, |phase| phase.from_ns);
        for (name, span) in source.faults.spans() {
            let hit = nodes_hit(&span.target);
            let mut lanes: Vec<Lane> = hit.iter().filter_map(|node| self.lane(node)).collect();
            lanes.sort_unstable();
            lanes.dedup();
            if lanes.is_empty() {
                lanes = self.node_lanes().collect();
            }
            let until_ns = span.until_ns.unwrap_or(self.until_ns).max(span.from_ns);
            let effect = if span.took_effect == Some(true) { "" } else { " (no effect)" };
            let label = format!("{name}{effect} {}", target_text(&span.target));
            self.strikes.push(Strike {
                lanes,
                from_ns: span.from_ns,
                until_ns,
                // Where a node is gone or stands still, its coming back says so.
                heals: until_ns < all_end_ns && !self.outages.iter().any(|spell| spell.until_ns == until_ns),
                ink: inks[name],
                label: label.trim_end().to_owned(),
                tooltip: format!("{name} of {}; seen: {}", target_text(&span.target), brief(&span.evidence)),
            });
        }
    }
}

/// Of how many ops of clients a run's picture consists: polls one after another that give nothing are one, with the looks at
/// the log's end between them.
pub fn story_ops(history: &History) -> usize {
    let mut idle: BTreeMap<u32, bool> = BTreeMap::new();
    let mut ops = 0;
    for (invoked, completed) in history.pairs() {
        let Some(process) = client(invoked.process()) else { continue };
        let was_idle = idle.get(&process) == Some(&true);
        let is_idle = is_idle(completed, was_idle);
        idle.insert(process, is_idle);
        ops += usize::from(!(was_idle && is_idle));
    }
    ops
}

/// Whether an op was a poll that gave nothing; or, after such a one, a look at where the log ends, as the final reads take it
/// between their polls.
fn is_idle(completed: Option<OpRef<'_>>, was_idle: bool) -> bool {
    let gave_nothing = |op: OpRef<'_>| {
        op.mops().all(|mop| matches!(mop.to_mop(), Mop::Poll(Some(reads)) if reads.is_empty()))
    };
    completed.filter(|op| op.kind() == Kind::Ok).is_some_and(|op| match op.f() {
        F::Poll => gave_nothing(op),
        f => was_idle && f.name() == "debug",
    })
}

/// Spells of one lane that overlap, as one: a node may lead several keys.
fn merged(mut spells: Vec<Spell>) -> Vec<Spell> {
    spells.sort_by_key(|spell| (spell.lane, spell.from_ns));
    let mut merged: Vec<Spell> = Vec::new();
    for spell in spells {
        match merged.last_mut() {
            Some(last) if last.lane == spell.lane && spell.from_ns <= last.until_ns => {
                last.until_ns = last.until_ns.max(spell.until_ns);
            }
            _ => merged.push(spell),
        }
    }
    merged
}

fn client(process: Process) -> Option<u32> {
    if let Process::Client(process) = process { Some(process) } else { None }
}

fn signed(time_ns: u64) -> i64 {
    i64::try_from(time_ns).unwrap_or(i64::MAX)
}

/// The keys that clients send to or read from.
fn keys_of(source: &Source<'_>) -> BTreeSet<i64> {
    let mut keys = BTreeSet::new();
    for op in source.history.ops() {
        for mop in op.mops().map(|mop| mop.to_mop()) {
            match mop {
                Mop::Send { key, .. } => drop(keys.insert(key.0)),
                Mop::Poll(reads) => {
                    keys.extend(reads.into_iter().flatten().map(|(key, _)| key.0));
                }
            }
        }
    }
    keys
}

/// The nodes that an aim names. Of cut links it is those at an end of every one: a node that is cut off from two others is
/// hit, they are not.
fn nodes_hit(target: &Json) -> BTreeSet<String> {
    let is_node = |text: &&str| {
        text.strip_prefix('n').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    if let Some(links) = target.get("cut").and_then(Json::as_array) {
        let ends = links.iter().filter_map(Json::as_str).filter_map(|link| link.split_once("->"));
        let ends: Vec<BTreeSet<&str>> = ends.map(|(from, to)| BTreeSet::from([from, to])).collect();
        let all: BTreeSet<&str> = ends.iter().flatten().copied().filter(is_node).collect();
        let in_each: BTreeSet<&str> =
            all.iter().copied().filter(|node| ends.iter().all(|link| link.contains(node))).collect();
        let hit = if in_each.is_empty() { all } else { in_each };
        return hit.into_iter().map(str::to_owned).collect();
    }
    match target {
        Json::String(text) => Some(text.as_str()).filter(is_node).map(str::to_owned).into_iter().collect(),
        Json::Array(parts) => parts.iter().flat_map(nodes_hit).collect(),
        Json::Object(fields) => {
            let named = fields.keys().map(String::as_str).filter(is_node).map(str::to_owned);
            named.chain(fields.values().flat_map(nodes_hit)).collect()
        }
        _ => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn polls_that_give_nothing_are_one_op() {
        let check = |ops: &[(u32, &str, &str)], expected: usize| {
            let lines = ops.iter().zip(0..).map(|((process, f, value), n)| {
                let head = format!(r#""time":{n},"process":{process},"f":"{f}""#);
                let (i, j) = (2 * n, 2 * n + 1);
                format!(
                    "{{\"index\":{i},{head},\"type\":\"invoke\",\"value\":null}}\n\
                     {{\"index\":{j},{head},\"type\":\"ok\",\"value\":{value}}}\n"
                )
            });
            let (history, _) =
                riprap_core::history::read_jsonl(lines.collect::<String>().as_bytes()).expect("well formed");
            assert_eq!(story_ops(&history), expected, "{ops:?}");
        };
        let (nothing, something) = (r#"[["poll",{}]]"#, r#"[["poll",{"5":[[0,1]]}]]"#);
        check(&[], 0);
        check(&[(1, "poll", nothing), (1, "poll", nothing), (1, "poll", nothing)], 1);
        check(&[(1, "poll", nothing), (2, "poll", nothing), (1, "poll", nothing)], 2);
        check(&[(1, "poll", nothing), (1, "poll", something), (1, "poll", nothing)], 3);
        check(&[(1, "poll", nothing), (1, "assign", "[5]"), (1, "poll", nothing)], 3);
        check(&[(1, "txn", nothing), (1, "txn", nothing)], 2);
        let end = r#"{"5":{"end":3}}"#;
        check(&[(1, "poll", nothing), (1, "debug", end), (1, "poll", nothing), (1, "debug", end)], 1);
        check(&[(1, "debug", end), (1, "poll", nothing), (1, "debug", end)], 2);
    }

    #[test]
    fn spells_of_a_lane_that_overlap_are_one() {
        let spell = |(lane, from_ns, until_ns): &(Lane, i64, i64)| Spell {
            lane: *lane,
            from_ns: *from_ns,
            until_ns: *until_ns,
        };
        let spells = [(1, 5, 9), (0, 1, 4), (1, 20, 30), (0, 4, 6), (1, 6, 7), (0, 8, 9)];
        let expected = [(0, 1, 6), (0, 8, 9), (1, 5, 9), (1, 20, 30)];
        assert_eq!(
            merged(spells.iter().map(spell).collect()),
            expected.iter().map(spell).collect::<Vec<_>>()
        );
    }

    #[test]
    fn faults_hit_who_their_aim_names() {
        let check = |target: Json, expected: &[&str]| {
            assert_eq!(
                nodes_hit(&target).iter().map(String::as_str).collect::<Vec<_>>(),
                expected,
                "{target}"
            );
        };
        check(json!({"nodes": ["n1", "n2"], "shape": "majority"}), &["n1", "n2"]);
        check(json!({"cut": ["n1->n2", "n2->n1", "n1->n3"], "shape": "one"}), &["n1"]);
        check(json!({"cut": ["n1->n2"]}), &["n1", "n2"]);
        check(json!({"cut": ["n1->n2", "n2->n3", "n3->n1"]}), &["n1", "n2", "n3"]);
        check(json!({"offsets": {"n3": 250}, "shape": "nap"}), &["n3"]);
        check(json!({"shape": "all"}), &[]);
        check(Json::Null, &[]);
    }
}
