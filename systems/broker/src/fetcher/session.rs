//! The follower's end of a fetch session: what a leader was told, and need not be told again.
//!
//! ```text
//! no session ──first fetch, epoch 0──> asked for ──answer names it──> open: only what changed is said
//!     ^                                    │  meanwhile fetches are by themselves          │
//!     └──── refused, or no room ───────────┴───── refused, ended, or an answer lost ───────┘
//! ```
//! A new session names the one before, which the leader then forgets. Source: KIP-227; see
//! [`sessions`](crate::requests::fetch).

use crate::ids::{PartitionKey, TopicId};
use crate::requests::fetch::next_epoch;
use riprap_protocol::messages::{
    FetchRequest, FetchRequestForgottenTopic, FetchRequestPartition, FetchRequestTopic, FetchResponse,
};
use std::collections::BTreeMap;

/// What a fetch names: each partition, in the order of their topics.
pub(super) type Named = BTreeMap<PartitionKey, FetchRequestPartition>;

/// What a fetch was to the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Nothing: another one asks for a session.
    Alone,
    /// It asks for one.
    Begins,
    /// It is one of a session.
    Continues,
}

/// The session with one leader.
#[derive(Debug, Default)]
pub(super) struct LeaderSession {
    /// The one that is open, or was last; 0: none.
    id: i32,
    /// Of the next fetch; 0: it asks for a session.
    epoch: i32,
    is_asked_for: bool,
    told: Named,
}

impl LeaderSession {
    /// Makes the next fetch ask for `wanted`, and for nothing else.
    pub(super) fn next(&mut self, wanted: Named, request: &mut FetchRequest) -> Part {
        if self.is_asked_for {
            (request.session_id, request.session_epoch) = (0, -1);
            request.topics = topics(wanted.into_iter());
            return Part::Alone;
        }
        (request.session_id, request.session_epoch) = (self.id, self.epoch);
        if self.epoch == 0 {
            self.is_asked_for = true;
            self.told.clone_from(&wanted);
            request.topics = topics(wanted.into_iter());
            return Part::Begins;
        }
        self.epoch = next_epoch(self.epoch);
        let is_new =
            |(key, asked): &(&PartitionKey, &FetchRequestPartition)| self.told.get(key) != Some(asked);
        let changed = wanted.iter().filter(is_new).map(|(key, asked)| (*key, asked.clone()));
        request.topics = topics(changed);
        for key in self.told.keys().filter(|key| !wanted.contains_key(key)) {
            match request.forgotten_topics.last_mut() {
                Some(topic) if topic.topic_id == key.topic.0 => topic.partitions.push(key.index),
                _ => request.forgotten_topics.push(FetchRequestForgottenTopic {
                    topic_id: key.topic.0,
                    partitions: vec![key.index],
                    ..Default::default()
                }),
            }
        }
        self.told = wanted;
        Part::Continues
    }

    /// Takes in an answer.
    pub(super) fn answered(&mut self, part: Part, response: &FetchResponse) {
        match part {
            Part::Alone => {}
            Part::Begins => {
                self.is_asked_for = false;
                self.id = response.session_id;
                self.epoch = if response.session_id == 0 { 0 } else { 1 };
            }
            Part::Continues if response.session_id == 0 => self.epoch = 0,
            Part::Continues => {}
        }
    }

    /// A fetch will not be answered, or was not sent.
    pub(super) fn lost(&mut self, part: Part) {
        if part == Part::Begins {
            (self.id, self.is_asked_for) = (0, false);
        }
        if part != Part::Alone {
            self.epoch = 0;
        }
    }
}

fn topics(partitions: impl Iterator<Item = (PartitionKey, FetchRequestPartition)>) -> Vec<FetchRequestTopic> {
    let mut topics: Vec<FetchRequestTopic> = Vec::new();
    for (PartitionKey { topic: TopicId(id), .. }, partition) in partitions {
        match topics.last_mut() {
            Some(topic) if topic.topic_id == id => topic.partitions.push(partition),
            _ => topics.push(FetchRequestTopic {
                topic_id: id,
                partitions: vec![partition],
                ..Default::default()
            }),
        }
    }
    topics
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BrokerId;
    use crate::requests::fetch::Sessions;
    use proptest::prelude::*;
    use riprap_protocol::Uuid;

    #[derive(Clone, Debug)]
    enum Step {
        /// Partitions and where to go on, and whether the answer arrives.
        Fetch(BTreeMap<i32, i64>, bool),
        LeaderRestarts,
    }

    fn step() -> impl Strategy<Value = Step> {
        let wanted = || proptest::collection::btree_map(0..6, 0..3_i64, 1..6);
        prop_oneof![
            (wanted(), any::<bool>(), any::<bool>()).prop_map(|(w, a, b)| Step::Fetch(w, a || b)),
            (wanted(), any::<bool>(), any::<bool>()).prop_map(|(w, a, b)| Step::Fetch(w, a || b)),
            (wanted(), any::<bool>(), any::<bool>()).prop_map(|(w, a, b)| Step::Fetch(w, a || b)),
            Just(Step::LeaderRestarts),
        ]
    }

    fn named(wanted: &BTreeMap<i32, i64>) -> Named {
        let name = |(index, fetch_offset): (&i32, &i64)| {
            let topic = TopicId(Uuid([(index % 2) as u8; 16]));
            let asked =
                FetchRequestPartition { index: *index, fetch_offset: *fetch_offset, ..Default::default() };
            (PartitionKey { topic, index: *index }, asked)
        };
        wanted.iter().map(name).collect()
    }

    proptest! {
        /// A leader takes each fetch for what the follower wants, or refuses it, and then takes the next.
        #[test]
        fn a_leader_is_asked_for_what_is_wanted(steps in proptest::collection::vec(step(), 1..60)) {
            let (mut follower, mut leader) = (LeaderSession::default(), Sessions::default());
            let mut draws = 0;
            let mut was_refused = false;
            for step in steps {
                let Step::Fetch(wanted, arrives) = step else {
                    leader = Sessions::default();
                    continue;
                };
                let mut request = FetchRequest::default();
                let part = follower.next(named(&wanted), &mut request);
                let used = match leader.take_in(&mut request, true, 0) {
                    Ok(used) => used,
                    Err(code) => {
                        prop_assert!(!was_refused, "refused twice in a row: {:?}", code);
                        was_refused = true;
                        follower.lost(part);
                        continue;
                    }
                };
                was_refused = false;
                let asked = request.topics.iter().flat_map(|topic| &topic.partitions);
                let asked: BTreeMap<i32, i64> = asked.map(|p| (p.index, p.fetch_offset)).collect();
                prop_assert_eq!(asked, wanted);
                let mut response = FetchResponse::default();
                let mut random = || {
                    draws += 1;
                    draws << 33
                };
                leader.settle(used, &request, &mut response, Some(BrokerId(2)), true, (0, &mut random));
                if arrives {
                    follower.answered(part, &response);
                } else {
                    follower.lost(part);
                }
            }
        }
    }
}
