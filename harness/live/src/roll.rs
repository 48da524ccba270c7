//! Nodes that end in order and start again, one after another, while the run goes on.
//!
//! A system takes as long as it likes to come back, Apache Kafka some ten seconds a node: more than an act of the nemesis may
//! take, and other faults are to strike meanwhile. So whoever begins a roll waits for its first node only; a thread sees to
//! the others. To end a node and to start it again is one step, which no other fault's act comes into: the roll leaves no
//! node down, and none is ended twice.

use riprap_core::cluster::{ClusterError, NodeId, Roll, Turn, Turns};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a node gets to serve again before the next has its turn all the same. It may never, while other faults are at
/// work; and whoever strikes waits as long for the last node of the roll before.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two questions whether it serves.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Nodes that can be restarted.
pub(crate) trait Restarts: Send + Sync {
    /// Ends a node in order and starts it again; one that does not run is passed over.
    fn restart(&self, roll: Roll, node: NodeId) -> Result<Turn, ClusterError>;

    /// Whether a node serves. Errors: what it still waits for.
    fn serves(&self, node: NodeId) -> Result<(), String>;
}

/// The rolls of a cluster, of which one of each kind is under way at most.
#[derive(Default)]
pub(crate) struct Rolls {
    under_way: Mutex<BTreeMap<Roll, UnderWay>>,
    /// The node that was restarted last and has not been seen to serve since.
    not_back: Arc<Mutex<Option<NodeId>>>,
}

struct UnderWay {
    is_over: Arc<AtomicBool>,
    turns: Arc<Mutex<Turns>>,
    thread: JoinHandle<Result<(), ClusterError>>,
}

impl Rolls {
    /// Begins one, and waits until the first node is started again.
    pub(crate) fn begin(
        &self,
        roll: Roll,
        cluster: Arc<dyn Restarts>,
        nodes: &[NodeId],
    ) -> Result<Turns, ClusterError> {
        self.end(roll)?;
        let (is_over, turns) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Turns>>::default());
        let (restarted, first) = channel();
        let round = Round {
            roll,
            cluster,
            is_over: Arc::clone(&is_over),
            turns: Arc::clone(&turns),
            not_back: Arc::clone(&self.not_back),
        };
        let nodes = nodes.to_vec();
        let spawned = std::thread::Builder::new()
            .name("roll".to_owned())
            .spawn(move || round.run(&nodes, &restarted))
            .map_err(|e| ClusterError(format!("failed to start a thread that restarts nodes: {e}")))?;
        let under_way = UnderWay { is_over, turns, thread: spawned };
        // The thread's end is an answer too.
        if first.recv().is_err() {
            let told = under_way.end()?;
            return Ok(told);
        }
        let told = lock(&under_way.turns).clone();
        lock(&self.under_way).insert(roll, under_way);
        Ok(told)
    }

    /// Goes no further with the one of a kind that is under way. Returns the turns that it has had.
    pub(crate) fn end(&self, roll: Roll) -> Result<Turns, ClusterError> {
        let under_way = lock(&self.under_way).remove(&roll);
        under_way.map_or_else(|| Ok(Turns::new()), UnderWay::end)
    }
}

impl UnderWay {
    fn end(self) -> Result<Turns, ClusterError> {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.map_err(|_| ClusterError("the thread that restarts nodes panicked".to_owned()))??;
        Ok(std::mem::take(&mut *lock(&self.turns)))
    }
}

struct Round {
    roll: Roll,
    cluster: Arc<dyn Restarts>,
    is_over: Arc<AtomicBool>,
    turns: Arc<Mutex<Turns>>,
    not_back: Arc<Mutex<Option<NodeId>>>,
}

impl Round {
    /// Restarts each node in turn; says when the first was.
    fn run(&self, nodes: &[NodeId], restarted: &Sender<()>) -> Result<(), ClusterError> {
        let before = *lock(&self.not_back);
        if let Some(before) = before {
            self.await_serving(before);
        }
        for node in nodes {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let turn = self.cluster.restart(self.roll, *node)?;
            let passed_over = matches!(turn, Turn::PassedOver { .. });
            lock(&self.turns).push((*node, turn));
            if passed_over {
                continue;
            }
            *lock(&self.not_back) = Some(*node);
            // Who began it may have gone by now.
            let _ = restarted.send(());
            let after_ms = self.await_serving(*node);
            if let Some((_, Turn::Restarted { serves_after_ms, .. })) = lock(&self.turns).last_mut() {
                *serves_after_ms = after_ms;
            }
        }
        Ok(())
    }

    /// Waits until a node serves, or nobody waits for that any longer. Gives how long it took. Units: milliseconds.
    fn await_serving(&self, node: NodeId) -> Option<u64> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE && !self.is_over.load(Ordering::Relaxed) {
            if self.cluster.serves(node).is_ok() {
                *lock(&self.not_back) = None;
                return Some(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
            }
            std::thread::sleep(ASK_AGAIN);
        }
        None
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no holder panics")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes that are restarted at once; those that are named never serve again, or do not run.
    #[derive(Default)]
    struct Nodes {
        silent: Vec<NodeId>,
        down: Vec<NodeId>,
        restarted: Mutex<Vec<NodeId>>,
    }

    impl Restarts for Nodes {
        fn restart(&self, _: Roll, node: NodeId) -> Result<Turn, ClusterError> {
            if node.0 > 9 {
                return Err(ClusterError(format!("no node {node}")));
            }
            if self.down.contains(&node) {
                return Ok(Turn::PassedOver { was: "down".to_owned() });
            }
            let mut restarted = lock(&self.restarted);
            restarted.push(node);
            let pid = restarted.len() as i32;
            let ended = "at once".to_owned();
            Ok(Turn::Restarted { was_pid: pid + 100, ended, pid, runs: None, serves_after_ms: None })
        }

        fn serves(&self, node: NodeId) -> Result<(), String> {
            if self.silent.contains(&node) { Err("never".to_owned()) } else { Ok(()) }
        }
    }

    /// Rolls over the nodes of these numbers, of which some never serve again and some do not run, until the last that gets
    /// a turn has had it. Gives a word a turn: the node, and how it was left.
    fn check(order: &[u16], silent: &[u16], down: &[u16], expected: &str) {
        let nodes = |numbers: &[u16]| numbers.iter().copied().map(NodeId).collect::<Vec<NodeId>>();
        let cluster = Arc::new(Nodes { silent: nodes(silent), down: nodes(down), ..Nodes::default() });
        let rolls = Rolls::default();
        let first = rolls.begin(Roll::Restart, Arc::clone(&cluster) as _, &nodes(order)).expect("it begins");
        assert!(!first.is_empty());
        let last = expected.split(' ').next_back().and_then(|word| word.split_once(':')).expect("a turn").0;
        let has_had_its_turn = || {
            let under_way = lock(&rolls.under_way);
            let Some(under_way) = under_way.get(&Roll::Restart) else { return true };
            let turns = lock(&under_way.turns);
            let had = turns.iter().any(|(node, turn)| {
                let is_back = !matches!(turn, Turn::Restarted { serves_after_ms: None, .. });
                node.to_string() == last && (is_back || silent.contains(&node.0))
            });
            had || under_way.thread.is_finished()
        };
        while !has_had_its_turn() {
            std::thread::yield_now();
        }
        let turns = match rolls.end(Roll::Restart).expect("nothing breaks") {
            none if none.is_empty() => first,
            turns => turns,
        };
        let told: Vec<String> = turns
            .iter()
            .map(|(node, turn)| match turn {
                Turn::PassedOver { was } => format!("{node}:{was}"),
                Turn::Restarted { serves_after_ms: None, .. } => format!("{node}:silent"),
                Turn::Restarted { .. } => format!("{node}:serves"),
            })
            .collect();
        assert_eq!(told.join(" "), expected);
    }

    #[test]
    fn nodes_have_their_turns_in_order() {
        check(&[2, 1, 3], &[], &[], "n2:serves n1:serves n3:serves");
        check(&[2, 1, 3], &[], &[1], "n2:serves n1:down n3:serves");
        check(&[2, 1], &[], &[1, 2], "n2:down n1:down");
        // The next waits for it.
        check(&[2, 1, 3], &[1], &[], "n2:serves n1:silent");
    }

    #[test]
    fn what_cannot_be_done_is_told() {
        let rolls = Rolls::default();
        let begun = rolls.begin(Roll::Restart, Arc::new(Nodes::default()), &[NodeId(10)]);
        assert_eq!(begun, Err(ClusterError("no node n10".to_owned())));
        let later = rolls.begin(Roll::Restart, Arc::new(Nodes::default()), &[NodeId(1), NodeId(10)]);
        assert_eq!(later.map(|turns| turns.len()), Ok(1));
        while !lock(&rolls.under_way).values().all(|roll| roll.thread.is_finished()) {
            std::thread::yield_now();
        }
        assert_eq!(rolls.end(Roll::Restart), Err(ClusterError("no node n10".to_owned())));
        assert_eq!(rolls.end(Roll::Restart), Ok(Turns::new()));
    }
}
