//! Nodes that ended though nobody had ended them: an anomaly that no history shows, so that it is told by who ran them.

use riprap_checker::registry::NODE_CRASH;
use riprap_checker::{Example, Verdict};
use riprap_core::cluster::NodeId;
use riprap_core::op::Process;
use riprap_core::{History, Kind};
use riprap_sim::{Crash, PanicPlace};

/// Crashes that the verdict tells one by one: a node that panics whenever it starts does so many times.
const MAX_EXAMPLES: usize = 8;
/// Ops under way that a crash's story names, of each that it was; beyond, nobody could tell which one mattered.
const MAX_OPS: usize = 12;

/// A node's process ended by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NodeCrash {
    pub(crate) node: NodeId,
    /// When, where that is known. Units: nanoseconds since the run began.
    pub(crate) at_ns: Option<u64>,
    /// The status that it ended with, or what it said when it panicked.
    pub(crate) how: String,
    /// If it panicked and that is known: where.
    pub(crate) panic: Option<PanicPlace>,
}

impl NodeCrash {
    /// Of a simulated node.
    pub(crate) fn simulated(node: NodeId, crash: Crash) -> NodeCrash {
        NodeCrash { node, at_ns: Some(crash.at_ns), how: crash.how, panic: crash.panic }
    }

    /// Of a node's process, of which nobody knows more than its status.
    pub(crate) fn live(node: NodeId, status: String) -> NodeCrash {
        NodeCrash { node, at_ns: None, how: format!("ended with {status}"), panic: None }
    }

    /// Of a node whose log has a line that says that it is broken.
    pub(crate) fn told(node: NodeId, line: &str) -> NodeCrash {
        NodeCrash { node, at_ns: None, how: format!("is broken, as its log says: {line}"), panic: None }
    }

    /// What tells one crash from another, whatever node it strikes and whatever numbers its message has: the place of the
    /// panic, or the status.
    pub(crate) fn site(&self) -> &str {
        self.panic.as_ref().map_or(&self.how, |panic| &panic.place)
    }

    fn example(&self, history: &History) -> Example {
        let ops = self.at_ns.map_or_else(Vec::new, |at_ns| under_way(history, at_ns));
        // An assertion's message has lines.
        let lines: Vec<&str> = self.how.lines().map(str::trim).collect();
        let mut story = format!("{} {}", self.node, lines.join("; "));
        if let Some(panic) = &self.panic {
            story.push_str(&format!(" ({})", panic.place));
        }
        if let Some(at_ns) = self.at_ns {
            story.push_str(&format!(" at {:.6} s", at_ns as f64 / 1e9));
        }
        let named: Vec<String> = ops.iter().take(MAX_OPS).map(ToString::to_string).collect();
        match (ops.len(), named.join(", ")) {
            (0, _) => {}
            (1, named) => story.push_str(&format!(", while op {named} was under way")),
            (2..=MAX_OPS, named) => story.push_str(&format!(", while ops {named} were under way")),
            (all, named) => story.push_str(&format!(", while {all} ops were under way: {named}, ...")),
        }
        story.push_str("; nobody had ended it. Its log has what came before.");
        let detail = self.panic.as_ref();
        let detail = detail.map(|panic| format!("{}\nat {}\n{}", self.how, panic.place, panic.backtrace));
        Example {
            story,
            key: None,
            ops: ops.into_iter().take(MAX_OPS).collect(),
            history: Vec::new(),
            detail,
        }
    }
}

/// What crashes are to a run; valid if there were none.
pub(crate) fn verdict(crashes: &[NodeCrash], history: &History) -> Verdict {
    if crashes.is_empty() {
        return Verdict::default();
    }
    let examples = crashes.iter().take(MAX_EXAMPLES).map(|crash| crash.example(history)).collect();
    Verdict::seen(&NODE_CRASH, crashes.len() as u64, examples)
}

/// The clients' ops that had begun and not ended, by the index of their invocation.
fn under_way(history: &History, at_ns: u64) -> Vec<u64> {
    let at_ns = i64::try_from(at_ns).unwrap_or(i64::MAX);
    let open = history.pairs().filter(|(op, done)| {
        op.process() != Process::Nemesis
            && op.time_ns() <= at_ns
            && done.is_none_or(|done| done.kind() != Kind::Invoke && done.time_ns() >= at_ns)
    });
    open.map(|(op, _)| op.index()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::test::Test;
    use clap::Parser as _;
    use riprap_checker::Valid;
    use riprap_core::Key;
    use riprap_core::client::{ClientConfig, LocalFuture, Log, LogError};
    use riprap_core::op::{Extra, F, Op, OpValue};
    use riprap_core::system::Deployment;
    use riprap_env::task::Io;
    use riprap_env::{Effects, Env, Event, Node};
    use riprap_systems::simulated::{Narrator, Simulated};
    use std::path::{Path, PathBuf};
    use std::sync::atomic::AtomicBool;

    /// A history of words `process kind time_ns`.
    fn history(text: &str) -> History {
        let words: Vec<&str> = text.split_whitespace().collect();
        let op = |(n, word): (usize, &[&str])| Op {
            index: n as u64,
            time_ns: word[2].parse().expect("a time"),
            process: word[0].parse().map_or(Process::Nemesis, Process::Client),
            kind: Kind::ALL.into_iter().find(|kind| kind.name() == word[1]).expect("a kind"),
            f: F::Send,
            value: OpValue::None,
            extra: Extra::default(),
        };
        words.chunks(3).enumerate().map(op).collect()
    }

    fn crash(node: u16, at_ns: Option<u64>, how: &str, place: Option<&str>) -> NodeCrash {
        let panic =
            place.map(|place| PanicPlace { place: place.to_owned(), backtrace: "0: main".to_owned() });
        NodeCrash { node: NodeId(node), at_ns, how: how.to_owned(), panic }
    }

    /// The bundled broker, of which the first node panics at this time. Units: nanoseconds.
    struct Frail {
        panics_ns: u64,
    }

    struct FrailNode {
        whole: Box<dyn Node>,
        panics_ns: u64,
    }

    impl Frail {
        fn whole() -> &'static dyn Simulated {
            riprap_systems::find("broker").and_then(|broker| broker.simulated()).expect("it can be simulated")
        }
    }

    impl Simulated for Frail {
        fn node(&self, deployment: &Deployment, nodes: u16, node: NodeId) -> Box<dyn Node> {
            let whole = Frail::whole().node(deployment, nodes, node);
            let panics_ns = self.panics_ns;
            if node == NodeId(1) { Box::new(FrailNode { whole, panics_ns }) } else { whole }
        }
        fn bootstrap(&self, node: NodeId) -> String {
            Frail::whole().bootstrap(node)
        }
        fn validate_client(&self, properties: &[(String, String)]) -> Result<(), String> {
            Frail::whole().validate_client(properties)
        }
        fn client(&self, io: &Io, config: &ClientConfig) -> Result<Box<dyn Log>, LogError> {
            Frail::whole().client(io, config)
        }
        fn describe(&self, asks: bool, bytes: &[u8]) -> String {
            Frail::whole().describe(asks, bytes)
        }
        fn narrator(&self, key: fn(&str, i32) -> Option<Key>) -> Box<dyn Narrator> {
            Frail::whole().narrator(key)
        }
        fn serves(&self, io: Io, nodes: u16, node: NodeId) -> LocalFuture<'static, Result<(), String>> {
            Frail::whole().serves(io, nodes, node)
        }
    }

    impl Node for FrailNode {
        fn step(&mut self, now_ns: u64, event: Event, env: &mut dyn Env, effects: &mut Effects) {
            assert!(now_ns < self.panics_ns, "as asked");
            self.whole.step(now_ns, event, env, effects);
        }
        fn settle(&mut self, now_ns: u64, env: &mut dyn Env, effects: &mut Effects) {
            self.whole.settle(now_ns, env, effects);
        }
    }

    /// Runs the frail broker for some seconds; gives the run's folder and its verdict.
    fn run_frail(frail: &'static Frail, store: &Path) -> (PathBuf, Verdict) {
        let words = [
            "riprap",
            "test",
            "--sim",
            "--seed=1",
            "--nemesis=none",
            "--time-limit=3s",
            "--recovery-limit=1s",
        ];
        let Command::Test(args) = Cli::try_parse_from(words).expect("it is right").command else {
            unreachable!("it asked for a test")
        };
        let mut test = Test::resolve(&args).expect("it is right");
        test.simulated = Some(frail);
        test.keep(store, Vec::new(), &AtomicBool::new(false)).expect("the harness is whole")
    }

    #[test]
    fn a_simulated_node_that_panics_makes_the_run_invalid_and_leaves_its_backtrace() {
        let store = tempfile::tempdir().expect("a folder");
        let (run, verdict) = run_frail(&Frail { panics_ns: 2_000_000_000 }, store.path());
        assert_eq!(verdict.valid, Valid::False);
        let found = &verdict.anomalies["node-crash"];
        assert_eq!((found.count, found.allowed), (1, false));
        let example = &found.examples[0];
        let story = format!("n1 panicked: as asked ({}", file!());
        assert!(example.story.starts_with(&story) && example.story.contains(" at 2.0"), "{}", example.story);
        let detail = example.detail.as_ref().expect("a backtrace");
        let log = std::fs::read_to_string(run.join("nodes/n1/node.log")).expect("a log");
        let end = log.rsplit_once("==== panicked: as asked\n").expect("it panicked").1;
        for text in [detail.as_str(), end] {
            assert!(text.contains(file!()) && text.contains("FrailNode"), "{text}");
        }
        assert!(!end.contains("Info "), "nothing is behind it: {end}");
        let report = std::fs::read_to_string(run.join("report.html")).expect("a report");
        assert!(report.contains("id=\"anomaly-node-crash\"") && report.contains("FrailNode"));
    }

    #[test]
    fn a_node_that_panics_before_it_serves_is_the_same_finding() {
        let store = tempfile::tempdir().expect("a folder");
        let (run, verdict) = run_frail(&Frail { panics_ns: 0 }, store.path());
        assert_eq!(verdict.valid, Valid::False);
        assert_eq!(verdict.anomalies["node-crash"].count, 1);
        // It can be shrunk, though no client did anything.
        let plan = riprap_results::RunDir::open(&run).and_then(|run| run.read_plan()).expect("a plan");
        assert_eq!(plan.ops, Some(Vec::new()));
    }

    #[test]
    fn no_crash_no_word() {
        assert_eq!(verdict(&[], &History::new()), Verdict::default());
    }

    #[test]
    fn a_crash_is_told_with_what_was_under_way() {
        let history = history(
            "0 invoke 10  nemesis invoke 15  1 invoke 20  0 ok 30  2 invoke 40  1 info 50  nemesis info 60  2 ok 70",
        );
        let check = |crash: NodeCrash, story: &str, ops: &[u64], detail: Option<&str>| {
            let verdict = verdict(std::slice::from_ref(&crash), &history);
            assert_eq!(verdict.valid, Valid::False);
            assert_eq!(
                verdict.why,
                [format!("node-crash: {story}; nobody had ended it. Its log has what came before.")]
            );
            let found = &verdict.anomalies["node-crash"];
            assert_eq!((found.count, found.allowed), (1, false));
            assert_eq!((&found.examples[0].ops[..], found.examples[0].detail.as_deref()), (ops, detail));
        };
        check(
            crash(2, Some(25), "panicked: no such batch", Some("log.rs:7:3")),
            "n2 panicked: no such batch (log.rs:7:3) at 0.000000 s, while ops 0, 2 were under way",
            &[0, 2],
            Some("panicked: no such batch\nat log.rs:7:3\n0: main"),
        );
        check(
            crash(1, Some(60), "ended with status 3", None),
            "n1 ended with status 3 at 0.000000 s, while op 4 was under way",
            &[4],
            None,
        );
        check(
            crash(1, Some(5), "panicked: left == right\n  left: 1\n right: 2", Some("a.rs:1:1")),
            "n1 panicked: left == right; left: 1; right: 2 (a.rs:1:1) at 0.000000 s",
            &[],
            Some("panicked: left == right\n  left: 1\n right: 2\nat a.rs:1:1\n0: main"),
        );
        check(NodeCrash::live(NodeId(3), "signal: 6".to_owned()), "n3 ended with signal: 6", &[], None);
    }

    #[test]
    fn many_crashes_are_counted_and_some_told() {
        let many: Vec<NodeCrash> =
            (0..50).map(|n| crash(1, Some(n), "panicked: x", Some("a.rs:1:1"))).collect();
        let verdict = verdict(&many, &History::new());
        let found = &verdict.anomalies["node-crash"];
        assert_eq!((found.count, found.examples.len()), (50, MAX_EXAMPLES));
        assert!(
            verdict.why[0].starts_with("node-crash, 50 times, e.g.: n1 panicked: x"),
            "{}",
            verdict.why[0]
        );
    }

    #[test]
    fn crashes_are_told_apart_by_their_place() {
        let site = |how: &str, place| crash(1, None, how, place).site().to_owned();
        assert_eq!(
            site("panicked: index 3 of 2", Some("a.rs:1:1")),
            site("panicked: index 4 of 2", Some("a.rs:1:1"))
        );
        assert_ne!(site("panicked: x", Some("a.rs:1:1")), site("panicked: x", Some("a.rs:2:1")));
        assert_ne!(site("ended with status 3", None), site("ended with status 4", None));
    }
}
