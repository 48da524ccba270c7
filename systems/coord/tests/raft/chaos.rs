//! Hundreds of seeds of everything that may go wrong, in any mix; then all is healed, and the cluster must work.

use crate::cluster::{Cluster, Weather};
use crate::node::{MS, Rng};
use crate::safety::Seen;
use riprap_coord::{Config, NodeId};

/// Seeds in a normal test run; `RIPRAP_SEEDS=FIRST..END` runs others.
const SEEDS: std::ops::Range<u64> = 0..300;

/// How long things go wrong.
const CHAOS_NS: u64 = 3_000 * MS;

/// A healed cluster must have a leader and agree within this time: some ten elections.
const RECOVERY_NS: u64 = 3_000 * MS;

fn seeds() -> std::ops::Range<u64> {
    let Ok(given) = std::env::var("RIPRAP_SEEDS") else { return SEEDS };
    let parsed = given.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    parsed.unwrap_or_else(|| panic!("RIPRAP_SEEDS is `{given}`; FIRST..END expected"))
}

/// Whether voters lose their disks too. That makes the rest rarer: who lost its disk is no help for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Disks {
    Stay,
    GetLost,
}

#[test]
fn safe_in_chaos_and_live_after_it() {
    let (count, total) = run_all(Disks::Stay);
    // Chaos in which nothing happens would prove nothing.
    let Seen {
        committed,
        leaders,
        overwritten,
        snapshots_installed,
        disk_failures,
        power_failures,
        rejections,
        ..
    } = total;
    let each = [
        committed / 20,
        leaders / 2,
        overwritten * 2,
        snapshots_installed,
        disk_failures,
        power_failures,
        rejections,
    ];
    assert!(each.iter().all(|n| *n >= count), "in {count} runs only {total:?}");
}

#[test]
fn safe_while_disks_are_lost_and_live_after_it() {
    let (count, total) = run_all(Disks::GetLost);
    let Seen { committed, leaders, disks_lost, admissions, .. } = total;
    let each = [committed / 20, leaders / 2, disks_lost / 3, admissions / 6];
    assert!(each.iter().all(|n| *n >= count), "in {count} runs only {total:?}");
}

/// How many seeds there were, and what happened in all of them.
fn run_all(disks: Disks) -> (u64, Seen) {
    let seeds = seeds();
    let half = seeds.start + (seeds.end - seeds.start) / 2;
    let (mut total, rest) = std::thread::scope(|scope| {
        let other = scope.spawn(|| run_some(half..seeds.end, disks));
        (run_some(seeds.start..half, disks), other.join().expect("its seed was printed"))
    });
    total += rest;
    (seeds.end - seeds.start, total)
}

fn run_some(seeds: std::ops::Range<u64>, disks: Disks) -> Seen {
    let mut total = Seen::default();
    for seed in seeds {
        match std::panic::catch_unwind(|| run(seed, disks)) {
            Ok(seen) => total += seen,
            Err(panic) => {
                eprintln!("seed {seed} failed, disks {disks:?}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    total
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 1000..1005 {
        assert_eq!(run(seed, Disks::GetLost), run(seed, Disks::GetLost));
    }
}

fn run(seed: u64, disks: Disks) -> Seen {
    let mut rng = Rng::new(seed ^ 0xc4a0_5000);
    let sizes = match disks {
        Disks::Stay => [1, 2, 3, 3, 3, 4, 5, 5],
        Disks::GetLost => [3, 3, 3, 3, 4, 5, 5, 5],
    };
    let size = sizes[rng.below(8) as usize];
    let knobs = draw_knobs(&mut rng);
    // Most clusters begin in peace: the first start needs every voter, and what follows is rich only after it.
    let observers = rng.below(3) as i32;
    let cluster = Cluster::observed(seed, size, observers, &|config| knobs.apply(config));
    let mut cluster = if rng.percent(80) { cluster.begin() } else { cluster };
    let end_ns = cluster.now_ns + CHAOS_NS;
    cluster.weather = draw_weather(&mut rng);
    let mut chaos = Chaos::draw(&mut rng, disks);
    while cluster.now_ns < end_ns {
        cluster.run_for(rng.between(1, 2 * chaos.pace_ms) * MS);
        chaos.act(&mut cluster, &mut rng);
    }
    recover(&mut cluster);
    cluster.safety.seen
}

/// Limits so small that each of them is met.
struct Knobs {
    max_entries: usize,
    max_bytes: usize,
    max_inflight: usize,
    max_uncommitted: usize,
    segment_bytes: u64,
}

fn draw_knobs(rng: &mut Rng) -> Knobs {
    Knobs {
        max_entries: rng.between(1, 8) as usize,
        max_bytes: rng.between(10, 100) as usize,
        max_inflight: rng.between(1, 4) as usize,
        max_uncommitted: rng.between(5, 50) as usize,
        segment_bytes: rng.between(1, 2000),
    }
}

impl Knobs {
    fn apply(&self, config: &mut Config) {
        config.max_entries_per_message = self.max_entries;
        config.max_bytes_per_message = self.max_bytes;
        config.max_inflight_messages = self.max_inflight;
        config.max_uncommitted_entries = self.max_uncommitted;
        config.segment_bytes = self.segment_bytes;
    }
}

fn draw_weather(rng: &mut Rng) -> Weather {
    Weather {
        loss_percent: [0, 1, 5, 20][rng.below(4) as usize],
        repeat_percent: [0, 2, 20][rng.below(3) as usize],
        delay_ns: [(MS / 10, MS), (MS, 5 * MS), (1, 20 * MS)][rng.below(3) as usize],
        long_delay_ns: [MS, 100 * MS, 1_000 * MS][rng.below(3) as usize],
        settle_delay_ns: [1, MS, 5 * MS][rng.below(3) as usize],
        disk_failure_percent: [0, 0, 1, 3][rng.below(4) as usize],
        compact_after: [3, 10, 30, u64::MAX][rng.below(4) as usize],
    }
}

/// What goes wrong, how often.
struct Chaos {
    pace_ms: u64,
    kill_weight: u64,
    power_weight: u64,
    pause_weight: u64,
    partition_weight: u64,
    lose_disk_weight: u64,
    propose_weight: u64,
    proposed: u64,
}

impl Chaos {
    fn draw(rng: &mut Rng, disks: Disks) -> Chaos {
        let weights = if disks == Disks::GetLost { [0, 0, 1] } else { [0, 1, 4] };
        let mut weight = || weights[rng.below(3) as usize];
        Chaos {
            kill_weight: weight(),
            power_weight: weight(),
            pause_weight: weight(),
            partition_weight: weight(),
            lose_disk_weight: if disks == Disks::GetLost { 4 } else { 0 },
            propose_weight: 30,
            pace_ms: rng.between(2, 10),
            proposed: 0,
        }
    }

    fn act(&mut self, cluster: &mut Cluster, rng: &mut Rng) {
        let ids = cluster.ids();
        let victim = ids[rng.below(ids.len() as u64) as usize];
        let runs = cluster.node(victim).raft.is_some();
        let mut dice = rng.below(
            self.kill_weight
                + self.power_weight
                + self.pause_weight
                + self.partition_weight
                + self.lose_disk_weight
                + self.propose_weight,
        );
        let mut is = |weight: u64| {
            let hit = dice < weight;
            dice = dice.wrapping_sub(weight);
            hit
        };
        if is(self.propose_weight) {
            for _ in 0..rng.between(1, 6) {
                self.propose(cluster, rng);
            }
        } else if is(self.kill_weight) {
            if runs {
                cluster.kill(victim);
                schedule_restart(cluster, victim, rng);
            }
        } else if is(self.power_weight) {
            // Sometimes all at once.
            let victims = if rng.percent(20) { ids.clone() } else { vec![victim] };
            for id in victims.into_iter().filter(|id| cluster.node(*id).raft.is_some()).collect::<Vec<_>>() {
                cluster.power_fail(id);
                schedule_restart(cluster, id, rng);
            }
        } else if is(self.pause_weight) {
            let until_ns = cluster.now_ns + rng.between(10, 400) * MS;
            cluster.pause(victim, until_ns);
        } else if is(self.lose_disk_weight) {
            // Injected failures of its disk go with it, but so does what others take for granted.
            if cluster.may_lose_a_disk() || !cluster.voters.contains(&victim) {
                cluster.lose_disk(victim);
                schedule_restart(cluster, victim, rng);
            }
        } else {
            partition(cluster, &ids, victim, rng);
        }
    }

    fn propose(&mut self, cluster: &mut Cluster, rng: &mut Rng) {
        // Any node that thinks it leads, an outdated leader too.
        let leaders: Vec<NodeId> = cluster
            .nodes
            .values()
            .filter(|n| n.raft.as_ref().is_some_and(|r| r.is_leader()))
            .map(|n| n.config.id)
            .collect();
        if leaders.is_empty() {
            return;
        }
        let leader = leaders[rng.below(leaders.len() as u64) as usize];
        self.proposed += 1;
        let payload = format!("{}{}", self.proposed, "x".repeat(rng.below(40) as usize));
        // A full leader refuses, which is fine.
        let _ = cluster.propose(leader, &payload);
    }
}

fn schedule_restart(cluster: &mut Cluster, id: NodeId, rng: &mut Rng) {
    let at_ns = cluster.now_ns + rng.between(0, 500) * MS;
    cluster.nodes.get_mut(&id).expect("a node of the cluster").restart_at_ns = Some(at_ns);
}

fn partition(cluster: &mut Cluster, ids: &[NodeId], victim: NodeId, rng: &mut Rng) {
    match rng.below(5) {
        0 | 1 => cluster.heal(),
        2 => cluster.isolate(victim),
        3 => {
            // Halves.
            let left: Vec<bool> = ids.iter().map(|_| rng.percent(50)).collect();
            for (a, in_left) in ids.iter().zip(&left) {
                for (b, other_in_left) in ids.iter().zip(&left) {
                    if in_left != other_in_left {
                        cluster.cut_link(*a, *b);
                    }
                }
            }
        }
        _ => {
            // Links in single directions.
            for a in ids {
                for b in ids {
                    if rng.percent(30) {
                        cluster.cut.insert((*a, *b));
                    }
                }
            }
        }
    }
}

/// All is well again: one leader, one log, everybody has it, and new entries are taken.
fn recover(cluster: &mut Cluster) {
    cluster.heal();
    cluster.use_up_disk_failures();
    cluster.weather =
        Weather { settle_delay_ns: 1, compact_after: cluster.weather.compact_after, ..Weather::calm() };
    for id in cluster.ids() {
        cluster.pause(id, 0);
        if cluster.node(id).raft.is_none() {
            let now_ns = cluster.now_ns;
            cluster.nodes.get_mut(&id).expect("a node of the cluster").restart_at_ns = Some(now_ns);
        }
    }
    let before = cluster.safety.last_committed();
    let agree = |c: &Cluster| {
        let Some(leader) = c.leader() else { return false };
        let last = c.raft(leader).last_index();
        c.nodes.values().all(|n| n.raft.is_some() && n.app.applied == last)
    };
    cluster.run_until("all agree", RECOVERY_NS, agree);
    let leader = cluster.leader().expect("all agree on one");
    let (_, index) = cluster.propose(leader, "after all").expect("the leader takes proposals");
    assert!(index > before, "entry {index} overwrites what was committed up to {before}");
    let everywhere = |c: &Cluster| c.nodes.values().all(|n| n.app.applied >= index);
    cluster.run_until("a new entry is applied everywhere", RECOVERY_NS, everywhere);
    // And it stays so: a whole cluster has no reason to elect anybody.
    let terms = |c: &Cluster| c.ids().iter().map(|id| c.raft(*id).term()).collect::<Vec<_>>();
    let settled = terms(cluster);
    cluster.run_for(1_000 * MS);
    assert_eq!(terms(cluster), settled, "a whole cluster goes on electing; {}", cluster.describe());
}
