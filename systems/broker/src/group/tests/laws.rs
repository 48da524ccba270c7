//! What holds whatever happens.

use super::{AppendToken, ErrorCode, GROUP, GroupConfig, Play, Seen, Words};
use proptest::prelude::*;
use riprap_protocol::messages::{OffsetFetchRequestGroup, OffsetFetchRequestTopic};
use std::collections::{BTreeMap, BTreeSet};

const CLIENTS: [&str; 4] = ["a", "b", "s", "z"];
const PARTITIONS: usize = 3;

#[derive(Clone, Debug)]
enum Action {
    /// A client joins as who it was, or as nobody.
    Join {
        client: usize,
        forgets: bool,
        version: i16,
        subscription: u8,
    },
    /// A client syncs; if it leads, it gives partition i to the member at i + turn.
    Sync {
        client: usize,
        turn: usize,
    },
    Beat {
        client: usize,
    },
    Leave {
        client: usize,
    },
    Commit {
        client: usize,
        partition: usize,
        simple: bool,
        old: bool,
    },
    Pass {
        ms: u64,
    },
    /// The log commits so many appends.
    LogCommits {
        count: usize,
    },
    /// The log refuses the newest append.
    LogRefuses {
        code: usize,
    },
    /// Another broker leads; of what was not committed it has so many appends.
    FailOver {
        keeps: usize,
    },
}

fn action() -> impl Strategy<Value = Action> {
    let client = 0..CLIENTS.len();
    prop_oneof![
        6 => (client.clone(), prop::bool::weighted(0.2), prop_oneof![Just(3_i16), Just(9)], 0..3_u8).prop_map(
            |(client, forgets, version, subscription)| Action::Join { client, forgets, version, subscription }
        ),
        6 => (client.clone(), 0..PARTITIONS).prop_map(|(client, turn)| Action::Sync { client, turn }),
        2 => client.clone().prop_map(|client| Action::Beat { client }),
        1 => client.clone().prop_map(|client| Action::Leave { client }),
        4 => (client, 0..PARTITIONS, prop::bool::weighted(0.2), prop::bool::weighted(0.1)).prop_map(
            |(client, partition, simple, old)| Action::Commit { client, partition, simple, old }
        ),
        4 => prop_oneof![Just(50_u64), Just(200), Just(1000), Just(6000)].prop_map(|ms| Action::Pass { ms }),
        6 => (1..4_usize).prop_map(|count| Action::LogCommits { count }),
        1 => (0..3_usize).prop_map(|code| Action::LogRefuses { code }),
        1 => (0..3_usize).prop_map(|keeps| Action::FailOver { keeps }),
    ]
}

/// What was seen so far, and must not be contradicted.
#[derive(Default)]
struct Laws {
    looked_at: usize,
    /// Who was told to own what, by generation.
    owners: BTreeMap<i32, BTreeMap<String, String>>,
    joined: i32,
    assigned: i32,
    /// The latest commit of each partition that was acknowledged, or fetched. Offsets rise with each attempt, so that
    /// they say which commit it was.
    committed: BTreeMap<i32, i64>,
    /// Commits that never took effect.
    impossible: BTreeSet<i64>,
}

impl Laws {
    fn look(&mut self, play: &Play) {
        for seen in &play.seen[self.looked_at..] {
            match seen {
                Seen::Joined { generation } => {
                    assert!(*generation >= self.joined, "generation {generation} after {}", self.joined);
                    self.joined = *generation;
                }
                Seen::Assigned { generation, owner, partitions } => {
                    assert!(*generation >= self.assigned, "{generation} is stable after {}", self.assigned);
                    self.assigned = *generation;
                    let owners = self.owners.entry(*generation).or_default();
                    for partition in partitions.split(',').filter(|it| !it.is_empty()) {
                        let other = owners.entry(partition.to_owned()).or_insert_with(|| owner.clone());
                        assert!(
                            owner == other,
                            "{owner} and {other} own {partition} in generation {generation}"
                        );
                    }
                }
                Seen::Committed { partition, offset } => {
                    let latest = self.committed.entry(*partition).or_insert(*offset);
                    *latest = (*latest).max(*offset);
                }
                Seen::Refused { offset, code } => {
                    // The others may have been appended.
                    let definite = [
                        ErrorCode::ILLEGAL_GENERATION,
                        ErrorCode::UNKNOWN_MEMBER_ID,
                        ErrorCode::FENCED_INSTANCE_ID,
                        ErrorCode::REBALANCE_IN_PROGRESS,
                        ErrorCode::INVALID_COMMIT_OFFSET_SIZE,
                    ];
                    if definite.contains(code) {
                        self.impossible.insert(*offset);
                    }
                }
                // A generation that never became stable is not in the log: its number comes again.
                Seen::Resigned => self.joined = self.assigned,
            }
        }
        self.looked_at = play.seen.len();
        for (partition, offset) in fetch(play) {
            let latest = self.committed.entry(partition).or_insert(-1);
            assert!(offset >= *latest, "partition {partition}: {offset} after {latest}");
            assert!(!self.impossible.contains(&offset), "partition {partition}: {offset} was refused");
            *latest = offset;
        }
    }
}

fn fetch(play: &Play) -> Vec<(i32, i64)> {
    let partitions = (0..PARTITIONS as i32).collect();
    let topics = Some(vec![OffsetFetchRequestTopic { name: "t".to_owned(), partitions }]);
    let request = OffsetFetchRequestGroup { group_id: GROUP.to_owned(), topics, ..Default::default() };
    let response = play.coordinator.offset_fetch(&request, false);
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|partition| (partition.index, partition.committed_offset)).collect()
}

fn act(play: &mut Play, action: &Action, attempt: i64) {
    match *action {
        Action::Join { client, forgets, version, subscription } => {
            let name = CLIENTS[client];
            let instance = if matches!(name, "s" | "z") { "instance=i" } else { "" };
            let id = if forgets { "id=-" } else { "" };
            let timeouts = "session=5000 rebalance=4000";
            play.run(&format!(
                "{name} join {id} {instance} {timeouts} v={version} protocols=range/{subscription},rr"
            ));
        }
        Action::Sync { client, turn } => {
            let name = CLIENTS[client];
            let known = play.clients.entry(name.to_owned()).or_default().clone();
            let members = known.others.len();
            let assignments = known.others.iter().enumerate().map(|(at, member_id)| {
                let owned = (0..PARTITIONS).filter(|partition| (partition + turn) % members == at);
                let owned: Vec<String> = owned.map(|partition| partition.to_string()).collect();
                (member_id.clone(), owned.join(","))
            });
            let (generation, assignments) = (known.generation, assignments.collect());
            play.sync_with(name, known, generation, assignments, &Words(Vec::new()));
            play.drain(&mut Vec::new());
        }
        Action::Beat { client } => drop(play.run(&format!("{} beat", CLIENTS[client]))),
        Action::Leave { client } => drop(play.run(&format!("{} leave", CLIENTS[client]))),
        Action::Commit { client, partition, simple, old } => {
            let simple = if simple { "simple" } else { "" };
            let old = if old { "gen=1" } else { "" };
            play.run(&format!("{} commit {simple} {old} t{partition}={attempt}", CLIENTS[client]));
        }
        Action::Pass { ms } => drop(play.run(&format!("+{ms}"))),
        Action::LogCommits { count } => {
            for _ in 0..count {
                if let Some(token) = next_uncommitted(play) {
                    play.run(&format!("committed {}", token.0));
                }
            }
        }
        Action::LogRefuses { code } => {
            let code = ["NOT_ENOUGH_REPLICAS", "MESSAGE_TOO_LARGE", "KAFKA_STORAGE_ERROR"][code];
            if let Some((token, _, false)) = play.log.last() {
                play.run(&format!("refused {} {code}", token.0));
            }
        }
        Action::FailOver { keeps } => {
            let uncommitted = play.log.iter_mut().filter(|(_, _, is_committed)| !is_committed);
            for (_, _, is_committed) in uncommitted.take(keeps) {
                *is_committed = true;
            }
            play.run("failover");
            // The next coordinator counts its appends from 1 again.
            for (token, _, _) in &mut play.log {
                *token = AppendToken(0);
            }
        }
    }
}

fn next_uncommitted(play: &Play) -> Option<AppendToken> {
    play.log.iter().find(|(_, _, is_committed)| !is_committed).map(|(token, _, _)| *token)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn groups_keep_their_promises(actions in prop::collection::vec(action(), 1..120)) {
        let mut play = Play::new(GroupConfig { initial_rebalance_delay_ms: 100, ..GroupConfig::default() });
        play.run("hold");
        let mut laws = Laws::default();
        for (attempt, action) in actions.iter().enumerate() {
            act(&mut play, action, attempt as i64);
            laws.look(&play);
        }
        // Who waits when a coordinator resigns is answered; and what was acknowledged is there.
        play.run("failover");
        laws.look(&play);
    }
}
