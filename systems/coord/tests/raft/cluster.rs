//! A cluster in virtual time: nodes with disks in memory, and a network that delays, loses, repeats and reorders.

use crate::node::{App, DIR, MS, Node, NodeEnv, Rng};
use crate::safety::Safety;
use bytes::Bytes;
use riprap_coord::{Config, Index, Message, NodeId, OpenError, ProposeError, Raft, Ready, Term};
use riprap_env::Disk;
use riprap_env::disk::{Keep, MemDisk};
use std::collections::{BTreeMap, BTreeSet};

/// How the network and the nodes' drivers behave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) loss_percent: u64,
    pub(crate) repeat_percent: u64,
    pub(crate) delay_ns: (u64, u64),
    /// A message in a hundred takes up to this long.
    pub(crate) long_delay_ns: u64,
    /// Up to this long passes, and more events happen, between a step and its settle.
    pub(crate) settle_delay_ns: u64,
    /// Of settles, this many hit a disk that fails in their midst.
    pub(crate) disk_failure_percent: u64,
    /// Applications compact once this many entries were applied since the last snapshot.
    pub(crate) compact_after: u64,
}

impl Weather {
    pub(crate) fn calm() -> Weather {
        Weather {
            loss_percent: 0,
            repeat_percent: 0,
            delay_ns: (MS / 2, MS),
            long_delay_ns: MS,
            settle_delay_ns: 0,
            disk_failure_percent: 0,
            compact_after: u64::MAX,
        }
    }
}

/// An injected failure strikes one of so many operations.
const FAILURE_AHEAD: u64 = 8;

pub(crate) struct Cluster {
    pub(crate) now_ns: u64,
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    pub(crate) voters: Vec<NodeId>,
    pub(crate) weather: Weather,
    /// Who lost its disk and does not count since.
    pub(crate) disk_lost: BTreeSet<NodeId>,
    /// Directed links that lose everything.
    pub(crate) cut: BTreeSet<(NodeId, NodeId)>,
    pub(crate) safety: Safety,
    pub(crate) rng: Rng,
    /// Messages on their way, by time and sequence number.
    wire: BTreeMap<(u64, u64), (NodeId, NodeId, Bytes)>,
    sent: u64,
    /// Messages delivered.
    pub(crate) delivered: u64,
    /// What happened since the clock last moved.
    events_now: u64,
    /// Failures of disks were injected.
    disks_may_fail: bool,
}

impl Cluster {
    pub(crate) fn new(seed: u64, size: i32, tune: &dyn Fn(&mut Config)) -> Cluster {
        Cluster::observed(seed, size, 0, tune)
    }

    /// A cluster of voters, and of observers whose ids are above theirs.
    pub(crate) fn observed(seed: u64, size: i32, observers: i32, tune: &dyn Fn(&mut Config)) -> Cluster {
        let voters: Vec<NodeId> = (1..=size).map(NodeId).collect();
        let all: Vec<NodeId> = (1..=size + observers).map(NodeId).collect();
        let node = |id: NodeId| {
            let mut config = Config::new(id, voters.clone());
            config.election_timeout_ns = 100 * MS;
            config.heartbeat_interval_ns = 20 * MS;
            tune(&mut config);
            let env = NodeEnv::new(seed, id);
            Node {
                config,
                env,
                raft: None,
                app: App::default(),
                role_changes: Vec::new(),
                settle_at_ns: None,
                paused_until_ns: 0,
                has_settled: false,
                restart_at_ns: None,
            }
        };
        let nodes = all.iter().map(|id| (*id, node(*id))).collect();
        let mut cluster = Cluster {
            now_ns: 0,
            nodes,
            voters: voters.clone(),
            weather: Weather::calm(),
            disk_lost: BTreeSet::new(),
            cut: BTreeSet::new(),
            safety: Safety::default(),
            rng: Rng::new(seed),
            wire: BTreeMap::new(),
            sent: 0,
            delivered: 0,
            events_now: 0,
            disks_may_fail: false,
        };
        for id in all {
            cluster.start(id).expect("an empty disk opens");
        }
        cluster
    }

    /// A cluster whose first leader is elected and whose voters all count.
    pub(crate) fn begun(seed: u64, size: i32, tune: &dyn Fn(&mut Config)) -> Cluster {
        Cluster::new(seed, size, tune).begin()
    }

    pub(crate) fn begin(self) -> Cluster {
        let mut cluster = self;
        let all_count = |c: &Cluster| c.voters.iter().all(|id| !c.raft(*id).status().is_newcomer);
        cluster.run_until("all count", 5_000 * MS, all_count);
        cluster
    }

    pub(crate) fn ids(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[&id]
    }

    pub(crate) fn raft(&self, id: NodeId) -> &Raft {
        self.nodes[&id].raft.as_ref().expect("the node runs")
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(&id).expect("ids come from the cluster")
    }

    /// The running leader of the highest term, if it is ready.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        let running = self.nodes.values().filter_map(|n| n.raft.as_ref().map(|r| (n.config.id, r)));
        let leaders = running.filter(|(_, raft)| raft.leader_is_ready());
        leaders.max_by_key(|(_, raft)| raft.term()).map(|(id, _)| id)
    }

    // ---- what happens to nodes

    pub(crate) fn start(&mut self, id: NodeId) -> Result<(), OpenError> {
        let now_ns = self.now_ns;
        let node = self.node_mut(id);
        assert!(node.raft.is_none(), "node {id} runs already");
        let raft = Raft::open(node.config.clone(), &mut node.env, DIR, now_ns)?;
        node.raft = Some(raft);
        node.restart_at_ns = None;
        node.has_settled = false;
        node.app = App::default();
        node.role_changes.clear();
        self.safety.started(id, self.nodes[&id].raft.as_ref().expect("just opened"));
        self.touch(id);
        Ok(())
    }

    /// The process ends; what it wrote stays.
    pub(crate) fn kill(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        node.raft = None;
        node.settle_at_ns = None;
        node.env.disk.process_crash();
    }

    /// The machine ends; of what was not synced, pieces stay.
    pub(crate) fn power_fail(&mut self, id: NodeId) {
        self.kill(id);
        self.safety.seen.power_failures += 1;
        let mut rng = Rng::new(self.rng.below(u64::MAX));
        self.node_mut(id).env.disk.power_fail(|_| match rng.below(4) {
            0 => Keep::Lost,
            1 => Keep::Torn(rng.below(200) as usize),
            2 => Keep::Zeros,
            _ => Keep::Whole,
        });
    }

    /// The machine ends, and comes back with another disk.
    pub(crate) fn lose_disk(&mut self, id: NodeId) {
        if self.nodes[&id].raft.is_some() {
            self.kill(id);
        }
        self.node_mut(id).env.disk = MemDisk::new();
        if self.voters.contains(&id) {
            self.disk_lost.insert(id);
        }
        self.safety.disk_lost(id);
    }

    /// Whether one more may lose its disk: who counted before and does not now are never more than those whose votes a
    /// majority can do without.
    pub(crate) fn may_lose_a_disk(&self) -> bool {
        let size = self.voters.len();
        self.disk_lost.len() < size - (size / 2 + 1)
    }

    pub(crate) fn pause(&mut self, id: NodeId, until_ns: u64) {
        self.node_mut(id).paused_until_ns = until_ns;
    }

    /// Cuts both directions between the two.
    pub(crate) fn cut_link(&mut self, a: NodeId, b: NodeId) {
        self.cut.extend([(a, b), (b, a)]);
    }

    pub(crate) fn isolate(&mut self, id: NodeId) {
        for other in self.ids() {
            if other != id {
                self.cut_link(id, other);
            }
        }
    }

    /// Lets the failures strike that were injected and not met yet, where they do no harm.
    pub(crate) fn use_up_disk_failures(&mut self) {
        for node in self.nodes.values_mut() {
            for _ in 0..FAILURE_AHEAD {
                let _ = node.env.disk.list(DIR);
            }
        }
    }

    pub(crate) fn heal(&mut self) {
        self.cut.clear();
    }

    pub(crate) fn propose(&mut self, id: NodeId, payload: &str) -> Result<(Term, Index), ProposeError> {
        let raft = self.node_mut(id).raft.as_mut().expect("the node runs");
        let at = raft.propose(Bytes::copy_from_slice(payload.as_bytes()))?;
        self.touch(id);
        Ok(at)
    }

    /// Hands a message to a node, now.
    pub(crate) fn inject(&mut self, from: NodeId, to: NodeId, message: Message) {
        let now_ns = self.now_ns;
        let node = self.node_mut(to);
        if let Some(raft) = &mut node.raft {
            raft.step(now_ns, from, message, &mut node.env);
            self.touch(to);
        }
    }

    // ---- time

    /// Lets virtual time pass.
    pub(crate) fn run_for(&mut self, ns: u64) {
        let end_ns = self.now_ns + ns;
        while self.next(end_ns) {}
        self.now_ns = end_ns;
    }

    /// Lets time pass until something holds. Panics: it does not within `limit_ns`.
    pub(crate) fn run_until(&mut self, what: &str, limit_ns: u64, holds: impl Fn(&Cluster) -> bool) {
        let end_ns = self.now_ns + limit_ns;
        while !holds(self) {
            assert!(self.next(end_ns), "{what}: not within {} ms; {}", limit_ns / MS, self.describe());
        }
    }

    /// A leader that is ready, alone in knowing itself as such.
    pub(crate) fn elect(&mut self) -> NodeId {
        self.run_until("a leader is elected", 5_000 * MS, |c| c.leader().is_some());
        self.leader().expect("just seen")
    }

    pub(crate) fn describe(&self) -> String {
        let nodes = self.nodes.values();
        let lines = nodes.map(|n| match &n.raft {
            Some(raft) => format!("\n  {:?}", raft.status()),
            None => format!("\n  {} is down", n.config.id),
        });
        format!("at {} ms: {}", self.now_ns / MS, lines.collect::<String>())
    }

    /// Does the next thing that happens before `end_ns`; false if there is none.
    pub(crate) fn next(&mut self, end_ns: u64) -> bool {
        let message = self.wire.first_key_value().map(|((at_ns, _), _)| *at_ns).unwrap_or(u64::MAX);
        let node = self.nodes.values().map(|n| (n.due_ns(), n.config.id)).min().expect("there are nodes");
        let at_ns = message.min(node.0).max(self.now_ns);
        if at_ns >= end_ns {
            return false;
        }
        self.events_now = if at_ns > self.now_ns { 0 } else { self.events_now + 1 };
        assert!(self.events_now < 100_000, "time stands still; {}", self.describe());
        self.now_ns = at_ns;
        if message <= node.0 {
            let (_, (from, to, bytes)) = self.wire.pop_first().expect("just seen");
            self.deliver(from, to, bytes);
        } else {
            self.wake(node.1);
        }
        true
    }

    fn deliver(&mut self, from: NodeId, to: NodeId, bytes: Bytes) {
        let resume_ns = self.nodes[&to].paused_until_ns;
        if resume_ns > self.now_ns {
            self.sent += 1;
            self.wire.insert((resume_ns, self.sent), (from, to, bytes));
            return;
        }
        if self.cut.contains(&(from, to)) || self.nodes[&to].raft.is_none() {
            return;
        }
        self.delivered += 1;
        let message = Message::decode(bytes).expect("what a node encodes can be decoded");
        self.inject(from, to, message);
    }

    fn wake(&mut self, id: NodeId) {
        let now_ns = self.now_ns;
        let node = self.node_mut(id);
        if node.restart_at_ns.is_some_and(|at| at <= now_ns) {
            match self.start(id) {
                Ok(()) => {}
                Err(OpenError::Disk(_)) => {
                    // An injected failure: the machine tries again.
                    self.power_fail(id);
                    self.node_mut(id).restart_at_ns = Some(now_ns + 10 * MS);
                }
                Err(error) => panic!("node {id} does not start: {error}"),
            }
            return;
        }
        if node.settle_at_ns.is_some_and(|at| at <= now_ns) {
            return self.settle(id);
        }
        let raft = node.raft.as_mut().expect("only running nodes are due");
        raft.tick(now_ns, &mut node.env);
        self.touch(id);
    }

    /// The node did something: it will settle, soon or at once.
    fn touch(&mut self, id: NodeId) {
        self.check_step(id);
        let delay_ns = self.rng.below(self.weather.settle_delay_ns + 1);
        let delay_ns = if self.rng.percent(50) { 0 } else { delay_ns };
        let at_ns = self.now_ns + delay_ns;
        let node = self.node_mut(id);
        node.settle_at_ns.get_or_insert(at_ns);
    }

    fn settle(&mut self, id: NodeId) {
        let now_ns = self.now_ns;
        if self.rng.percent(self.weather.disk_failure_percent) {
            // It may also strike in a later settle, or in a start.
            let ahead = self.rng.below(FAILURE_AHEAD);
            self.disks_may_fail = true;
            let disk = &mut self.node_mut(id).env.disk;
            disk.fail_operation(disk.operations() + ahead);
        }
        let node = self.node_mut(id);
        node.settle_at_ns = None;
        let raft = node.raft.as_mut().expect("only running nodes settle");
        match raft.settle(now_ns, &mut node.env) {
            Ok(ready) => self.act_on(id, ready),
            Err(_) => {
                assert!(self.disks_may_fail, "a disk failed unasked");
                self.safety.seen.disk_failures += 1;
                self.node_mut(id).env.errors.clear();
                if self.rng.percent(50) {
                    self.power_fail(id);
                } else {
                    self.kill(id);
                }
                self.node_mut(id).restart_at_ns = Some(now_ns + self.rng.between(1, 300) * MS);
            }
        }
    }

    fn act_on(&mut self, id: NodeId, ready: Ready) {
        let compact_after = self.weather.compact_after;
        let node = self.nodes.get_mut(&id).expect("ids come from the cluster");
        let raft = node.raft.as_mut().expect("it just settled");
        if let Some(snapshot) = ready.snapshot {
            node.app = App::restore(snapshot.data);
            assert_eq!(node.app.applied, snapshot.index);
            self.safety.seen.snapshots_installed += u64::from(node.has_settled);
            self.safety.applied(id, node.app);
        }
        for entry in &ready.committed {
            assert_eq!(entry.index, node.app.applied.next(), "entries are handed out in order");
            node.app.apply(&entry.payload);
            self.safety.committed(id, raft.term(), entry);
            self.safety.applied(id, node.app);
        }
        node.has_settled = true;
        if !raft.status().is_newcomer {
            self.disk_lost.remove(&id);
        }
        node.role_changes.extend(ready.role_changes);
        if node.app.applied.0 - raft.snapshot_index().0 >= compact_after {
            raft.compact(node.app.applied, node.app.snapshot()).expect("it is small");
            node.settle_at_ns = Some(self.now_ns);
        }
        if let Some(first) = ready.committed.first() {
            let (index, term) = (first.index, first.term);
            self.check_durable_majority(index, term);
        }
        self.check_settled(id);
        for (to, message) in ready.messages {
            self.safety.sent(id, to, &message);
            self.send(id, to, message.encode());
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, bytes: Bytes) {
        let weather = self.weather;
        if self.rng.percent(weather.loss_percent) {
            return;
        }
        let copies = if self.rng.percent(weather.repeat_percent) { 2 } else { 1 };
        for _ in 0..copies {
            let mut delay_ns = self.rng.between(weather.delay_ns.0, weather.delay_ns.1);
            if self.rng.percent(1) {
                delay_ns += self.rng.below(weather.long_delay_ns);
            }
            self.sent += 1;
            self.wire.insert((self.now_ns + delay_ns, self.sent), (from, to, bytes.clone()));
        }
    }

    // ---- checks

    fn check_step(&mut self, id: NodeId) {
        let node = &self.nodes[&id];
        assert!(node.env.errors.is_empty(), "node {id} logged {:?}; {}", node.env.errors, self.describe());
        self.safety.check_step(id, node.raft.as_ref().expect("running nodes are checked"));
    }

    fn check_settled(&mut self, id: NodeId) {
        let raft = self.nodes[&id].raft.as_ref().expect("running nodes are checked");
        if self.rng.percent(10) {
            self.safety.check(id, raft);
        } else {
            self.safety.check_step(id, raft);
        }
        for (other, node) in &self.nodes {
            if let Some(raft) = &node.raft {
                self.safety.check_leader_has_new_commits(*other, raft);
            }
        }
        self.safety.new_commits_are_checked();
    }

    /// Some of the time: what was just handed out would be found on a majority of the disks if all power failed now.
    fn check_durable_majority(&mut self, index: Index, term: Term) {
        if !self.rng.percent(4) {
            return;
        }
        let voters = self.nodes.values().filter(|node| self.voters.contains(&node.config.id));
        let durable = voters.filter(|node| {
            let mut env = node.env.clone();
            env.disk.power_fail(|_| Keep::Lost);
            let found = loop {
                match Raft::open(node.config.clone(), &mut env, DIR, 0) {
                    Ok(raft) => break raft,
                    // An injected failure that was meant for the node itself.
                    Err(OpenError::Disk(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            };
            found.snapshot_index() >= index || found.entry(index).is_some_and(|e| e.term == term)
        });
        // What was lost since was there when it counted.
        let (count, size) = (durable.count(), self.voters.len());
        assert!(
            2 * (count + self.disk_lost.len()) > size,
            "entry {index} of term {term} is durable on {count} of {size}; {}",
            self.describe()
        );
    }
}
