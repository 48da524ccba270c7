//! What holds of a group of KIP-848 whatever happens.

use super::super::{Consumer, Durable};
use crate::group::record::Entry;
use crate::group::tests::{GROUP, Play, topic_id};
use crate::group::{AppendToken, GroupConfig};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The last two are lives of one static member.
const CLIENTS: [&str; 5] = ["a", "b", "c", "x", "y"];
const SUBSCRIPTIONS: [&str; 4] = ["t", "t,u", "u", "t,u,v"];

#[derive(Clone, Debug)]
enum Action {
    /// Joins, or wants something else.
    Want {
        client: usize,
        subscription: usize,
        range: bool,
    },
    Beat {
        client: usize,
    },
    /// Says what it holds, once it has given up what it was told to.
    Ack {
        client: usize,
    },
    Leave {
        client: usize,
        for_a_while: bool,
    },
    /// A client's process starts anew, under its old id.
    Restart {
        client: usize,
    },
    Topics {
        t: usize,
        u: usize,
    },
    Pass {
        ms: u64,
    },
    /// The log commits so many appends.
    LogCommits {
        count: usize,
    },
    /// The log refuses the newest append.
    LogRefuses,
    /// Another broker leads; of what was not committed it has so many appends.
    FailOver {
        keeps: usize,
    },
}

fn action() -> impl Strategy<Value = Action> {
    let client = 0..CLIENTS.len();
    prop_oneof![
        6 => (client.clone(), 0..SUBSCRIPTIONS.len(), prop::bool::weighted(0.2)).prop_map(
            |(client, subscription, range)| Action::Want { client, subscription, range }
        ),
        8 => client.clone().prop_map(|client| Action::Beat { client }),
        8 => client.clone().prop_map(|client| Action::Ack { client }),
        1 => (client.clone(), any::<bool>())
            .prop_map(|(client, for_a_while)| Action::Leave { client, for_a_while }),
        1 => client.prop_map(|client| Action::Restart { client }),
        1 => (0..4_usize, 0..3_usize).prop_map(|(t, u)| Action::Topics { t, u }),
        3 => prop_oneof![Just(50_u64), Just(1000), Just(3000)].prop_map(|ms| Action::Pass { ms }),
        12 => (1..3_usize).prop_map(|count| Action::LogCommits { count }),
        1 => Just(Action::LogRefuses),
        1 => (0..3_usize).prop_map(|keeps| Action::FailOver { keeps }),
    ]
}

struct Subject {
    play: Play,
    topics: BTreeMap<char, usize>,
    /// The group's epoch so far; 0 if there is no group.
    epoch: i32,
    epochs: BTreeMap<&'static str, i32>,
}

impl Subject {
    fn new() -> Subject {
        let config = GroupConfig { commit_timeout_ms: 2000, ..GroupConfig::default() };
        let mut subject =
            Subject { play: Play::new(config), topics: BTreeMap::new(), epoch: 0, epochs: BTreeMap::new() };
        subject.play.run("hold");
        subject.set_topics(3, 2);
        subject
    }

    fn set_topics(&mut self, t: usize, u: usize) {
        self.topics = [('t', t), ('u', u)].into_iter().filter(|(_, count)| *count > 0).collect();
        let words: Vec<String> = self.topics.iter().map(|(name, count)| format!("{name}={count}")).collect();
        self.play.run(&format!("topics {}", words.join(" ")));
    }

    fn consumer(&self) -> Option<&Consumer> {
        self.play.coordinator.groups.get(GROUP)?.consumer.as_deref()
    }

    fn durable(&self) -> Durable {
        self.consumer().map(|consumer| consumer.durable.clone()).unwrap_or_default()
    }

    /// A client sends the next heartbeat when it has heard of the last.
    fn waits(&self, client: &str) -> bool {
        self.play.asked.iter().flatten().any(|asked| asked.who == client)
    }

    fn tell(&mut self, client: usize, what: &str) {
        let name = CLIENTS[client];
        if !self.waits(name) {
            let instance = if client >= 3 { "instance=i" } else { "" };
            self.play.run(&format!("{name} {what} {instance}"));
        }
    }

    fn is_member(&self, client: usize) -> bool {
        self.play.clients.get(CLIENTS[client]).is_some_and(|it| it.generation > 0)
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Want { client, subscription, range } => {
                let assignor = if range { "assignor=range" } else { "" };
                self.tell(client, &format!("ask {} {assignor}", SUBSCRIPTIONS[subscription]));
            }
            Action::Beat { client } if self.is_member(client) => self.tell(client, "ask"),
            Action::Ack { client } if self.is_member(client) => self.tell(client, "ack"),
            Action::Leave { client, for_a_while } if self.is_member(client) => {
                self.tell(client, if for_a_while && client >= 3 { "away" } else { "quit" });
            }
            Action::Beat { .. } | Action::Ack { .. } | Action::Leave { .. } => {}
            Action::Restart { client } if !self.waits(CLIENTS[client]) => {
                if let Some(it) = self.play.clients.get_mut(CLIENTS[client]) {
                    (it.generation, it.told) = (0, Vec::new());
                    it.hands.clear();
                }
            }
            Action::Restart { .. } => {}
            Action::Topics { t, u } => self.set_topics(t, u),
            Action::Pass { ms } => drop(self.play.run(&format!("+{ms}"))),
            Action::LogCommits { count } => {
                for _ in 0..count {
                    self.commit_next();
                }
            }
            Action::LogRefuses => {
                if let Some((token, _, false)) = self.play.log.last() {
                    let token = token.0;
                    self.play.run(&format!("refused {token} NOT_ENOUGH_REPLICAS"));
                }
            }
            Action::FailOver { keeps } => {
                let uncommitted = self.play.log.iter_mut().filter(|(_, _, is_committed)| !is_committed);
                uncommitted.take(keeps).for_each(|(_, _, is_committed)| *is_committed = true);
                self.play.run("failover");
                // The next coordinator counts its appends from 1 again.
                self.play.log.iter_mut().for_each(|(token, _, _)| *token = AppendToken(0));
            }
        }
    }

    fn commit_next(&mut self) -> bool {
        let next =
            self.play.log.iter().find(|(_, _, is_committed)| !is_committed).map(|(token, _, _)| *token);
        if let Some(token) = next {
            self.play.run(&format!("committed {}", token.0));
        }
        next.is_some()
    }

    fn check(&mut self) {
        let durable = self.durable();
        let mut owners = BTreeMap::new();
        for (id, member) in &durable.members {
            for partition in member.holding.assigned.iter().chain(member.holding.revoking.iter()) {
                let other = owners.insert(partition, id.clone());
                assert!(other.is_none(), "{partition:?} is in the hands of {other:?} and {id}");
            }
        }
        for (name, client) in &self.play.clients {
            if !durable.members.contains_key(name) {
                continue;
            }
            for (topic, index) in &client.hands {
                let owner = owners.get(&(topic_id(&topic.to_string()), *index));
                assert!(
                    owner == Some(name),
                    "{name} consumes {topic}{index}, which is in the hands of {owner:?}"
                );
            }
        }
        if durable != Durable::default() {
            assert!(durable.epoch >= self.epoch, "epoch {} after {}", durable.epoch, self.epoch);
            assert!(durable.target_epoch <= durable.epoch);
        }
        self.epoch = durable.epoch;
        for name in CLIENTS {
            let epoch = self.play.clients.get(name).map_or(0, |client| client.generation);
            let former = self.epochs.insert(name, epoch).unwrap_or(0);
            assert!(epoch == 0 || epoch >= former, "{name} is at epoch {epoch} after {former}");
        }
    }

    /// What the log says is what the coordinator says.
    fn check_replay(&self) {
        let mut replayed = Durable::default();
        for record in self.play.log.iter().filter(|(_, _, is_committed)| *is_committed).flat_map(|it| &it.1) {
            match Entry::from_record(&record.key, record.value.as_deref()).expect("its own records") {
                Entry::Consumer { entry, .. } => replayed.apply(entry),
                entry => assert!(matches!(entry, Entry::Group { snapshot: None, .. }), "{entry:?}"),
            }
        }
        assert_eq!(replayed, self.durable());
    }

    /// When nothing happens any more, everybody comes to own what it is to own, and all is owned.
    fn check_end(&mut self) {
        self.set_topics(3, 2);
        while self.commit_next() {}
        for _ in 0..8 {
            for client in 0..CLIENTS.len() {
                if self.is_member(client) {
                    self.tell(client, "ack");
                    while self.commit_next() {}
                    self.check();
                }
            }
            // Who went away without a word is put out, the others are heard often enough.
            self.play.run("+2000");
            while self.commit_next() {}
        }
        let durable = self.durable();
        let mut wanted = BTreeSet::new();
        for member in durable.members.values() {
            wanted.extend(member.subscription.names.iter().cloned());
        }
        let mut owned = BTreeSet::new();
        for (id, member) in &durable.members {
            let client = &self.play.clients[id];
            let hands: BTreeSet<_> =
                client.hands.iter().map(|(topic, index)| (topic_id(&topic.to_string()), *index)).collect();
            assert_eq!(hands, member.holding.assigned.iter().collect(), "{id} at the end");
            assert_eq!(hands, durable.target[id].iter().collect(), "{id} at the end");
            owned.extend(hands);
        }
        let all = self.topics.iter().filter(|(name, _)| wanted.contains(&name.to_string()));
        let all = all.flat_map(|(name, count)| (0..*count as i32).map(|i| (topic_id(&name.to_string()), i)));
        assert_eq!(owned, all.collect(), "at the end");
        assert!(["Stable", "Empty"].contains(&durable.name_of_state()), "{}", durable.name_of_state());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn consumer_groups_keep_their_promises(actions in prop::collection::vec(action(), 1..150)) {
        let mut subject = Subject::new();
        for action in &actions {
            subject.act(action);
            subject.check();
            if let Action::FailOver { .. } = action {
                subject.check_replay();
            }
        }
        subject.check_end();
        subject.check_replay();
    }
}
