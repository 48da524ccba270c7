//! Fetch sessions: a broker remembers what a consumer asked for, and is told only of what changes.
//!
//! ```text
//! new      epoch 0: all partitions; the answer names the session
//! known    epoch n: what is new or moved, and what is wanted no more; the answer has what there is something to say of
//! ```
//!
//! A session that the broker does not know, or counts otherwise, is begun anew, and so is one whose fetch was lost: nobody
//! knows what the broker remembers.
//!
//! Source: KIP-227; Java's FetchSessionHandler.

use super::Wish;
use crate::metadata::Tp;
use riprap_protocol::Uuid;
use riprap_protocol::messages::{FetchRequestForgottenTopic, FetchRequestPartition, FetchRequestTopic};
use std::collections::BTreeMap;

/// No session.
const NO_SESSION: i32 = 0;
/// A fetch that begins a session.
const BEGINS: i32 = 0;
/// A fetch outside of any.
const OUTSIDE: i32 = -1;

/// What one broker remembers.
#[derive(Debug, Default)]
pub(crate) struct Session {
    id: i32,
    next_epoch: i32,
    /// What the broker knows that is wanted.
    known: BTreeMap<Tp, Wish>,
}

/// What a fetch says, as far as sessions go.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) session_id: i32,
    pub(crate) session_epoch: i32,
    pub(crate) topics: Vec<FetchRequestTopic>,
    pub(crate) forgotten_topics: Vec<FetchRequestForgottenTopic>,
}

impl Session {
    /// What to ask for, to get these partitions. If the fetch is not answered well, [`Session::lost`].
    pub(crate) fn ask(&mut self, is_used: bool, wishes: &BTreeMap<Tp, Wish>, max_bytes: i32) -> Asked {
        if !is_used {
            let topics = topics(wishes.iter(), max_bytes);
            return Asked { session_epoch: OUTSIDE, topics, ..Asked::default() };
        }
        if self.id == NO_SESSION {
            self.known.clone_from(wishes);
            let topics = topics(wishes.iter(), max_bytes);
            return Asked { session_epoch: BEGINS, topics, ..Asked::default() };
        }
        let changed = wishes.iter().filter(|(tp, wish)| self.known.get(*tp) != Some(*wish));
        let topics = topics(changed, max_bytes);
        let mut forgotten_topics: Vec<FetchRequestForgottenTopic> = Vec::new();
        // A topic that was made anew is another one.
        let is_kept = |tp: &Tp, wish: &Wish| wishes.get(tp).is_some_and(|now| now.topic_id == wish.topic_id);
        for (tp, wish) in self.known.iter().filter(|(tp, wish)| !is_kept(tp, wish)) {
            match forgotten_topics
                .iter_mut()
                .find(|topic| *topic.name == *tp.topic && topic.topic_id == wish.topic_id)
            {
                Some(topic) => topic.partitions.push(tp.partition),
                None => forgotten_topics.push(FetchRequestForgottenTopic {
                    name: tp.topic.to_string(),
                    topic_id: wish.topic_id,
                    partitions: vec![tp.partition],
                }),
            }
        }
        self.known.clone_from(wishes);
        Asked { session_id: self.id, session_epoch: self.next_epoch, topics, forgotten_topics }
    }

    /// A fetch was answered without an error; `session_id` is what the answer says.
    pub(crate) fn answered(&mut self, session_id: i32) {
        if session_id == NO_SESSION {
            // The broker remembers nothing: it has no room, or was not asked to.
            self.lost();
        } else if session_id != self.id {
            (self.id, self.next_epoch) = (session_id, 1);
        } else {
            // After the greatest comes 1: 0 begins a session.
            self.next_epoch = self.next_epoch.checked_add(1).unwrap_or(1);
        }
    }

    /// Nobody knows what the broker remembers.
    pub(crate) fn lost(&mut self) {
        *self = Session::default();
    }
}

fn topics<'a>(wishes: impl Iterator<Item = (&'a Tp, &'a Wish)>, max_bytes: i32) -> Vec<FetchRequestTopic> {
    let mut topics: Vec<FetchRequestTopic> = Vec::new();
    for (tp, wish) in wishes {
        let partition = FetchRequestPartition {
            index: tp.partition,
            current_leader_epoch: wish.leader_epoch,
            fetch_offset: wish.offset,
            partition_max_bytes: max_bytes,
            ..Default::default()
        };
        match topics.iter_mut().find(|topic| *topic.name == *tp.topic) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(FetchRequestTopic {
                name: tp.topic.to_string(),
                topic_id: wish.topic_id,
                partitions: vec![partition],
            }),
        }
    }
    topics
}

/// Whether all that is wished for can be said by the topics' ids.
pub(crate) fn has_ids(wishes: &BTreeMap<Tp, Wish>) -> bool {
    wishes.values().all(|wish| wish.topic_id != Uuid::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(list: &[(i32, i64)]) -> BTreeMap<Tp, Wish> {
        let wish = |(partition, offset): &(i32, i64)| {
            let tp = Tp { topic: "t".into(), partition: *partition };
            (tp, Wish { offset: *offset, leader_epoch: 2, topic_id: Uuid([1; 16]), generation: 0 })
        };
        list.iter().map(wish).collect()
    }

    /// `id/epoch: partition@offset..., without partition...`
    fn said(asked: &Asked) -> String {
        let partitions = asked.topics.iter().flat_map(|topic| &topic.partitions);
        let partitions: Vec<String> = partitions.map(|p| format!("{}@{}", p.index, p.fetch_offset)).collect();
        let forgotten = asked.forgotten_topics.iter().flat_map(|topic| &topic.partitions);
        let forgotten: Vec<String> = forgotten.map(i32::to_string).collect();
        let (id, epoch) = (asked.session_id, asked.session_epoch);
        format!("{id}/{epoch}: {}, without {}", partitions.join(" "), forgotten.join(" "))
    }

    #[test]
    fn only_what_changes_is_said() {
        let mut session = Session::default();
        let mut check = |list: &[(i32, i64)], answer: Option<i32>, expected: &str| {
            assert_eq!(said(&session.ask(true, &wishes(list), 100)), expected);
            match answer {
                Some(id) => session.answered(id),
                None => session.lost(),
            }
        };
        check(&[(0, 5), (1, 0)], Some(9), "0/0: 0@5 1@0, without ");
        check(&[(0, 5), (1, 0)], Some(9), "9/1: , without ");
        check(&[(0, 7), (1, 0)], Some(9), "9/2: 0@7, without ");
        check(&[(1, 0)], Some(9), "9/3: , without 0");
        check(&[(0, 8), (1, 0)], None, "9/4: 0@8, without ");
        check(&[(0, 8), (1, 0)], Some(0), "0/0: 0@8 1@0, without ");
        check(&[(0, 8)], Some(4), "0/0: 0@8, without ");
        check(&[(0, 8)], Some(4), "4/1: , without ");
    }

    #[test]
    fn without_sessions_all_is_said_each_time() {
        let mut session = Session::default();
        for _ in 0..2 {
            assert_eq!(said(&session.ask(false, &wishes(&[(0, 5)]), 100)), "0/-1: 0@5, without ");
            session.answered(0);
        }
    }

    #[test]
    fn epochs_go_round() {
        let mut session = Session { id: 3, next_epoch: i32::MAX, known: BTreeMap::new() };
        session.answered(3);
        assert_eq!(session.next_epoch, 1);
    }
}
