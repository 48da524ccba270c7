//! Fetch sessions: a fetcher names its partitions once, then only what changes, and is told only what changed.
//!
//! ```text
//! asked: session, epoch    what it is
//! any, -1                  a fetch by itself; the session, if there is one, ends
//! any, 0                   names all its partitions and wants a session; the one it had, if any, ends
//! S, n                     the n-th after that: names partitions that are new or differ, and those to forget
//! ```
//! The answer to the second names the new session, or 0: then there is no room, and the fetcher goes on without. After
//! `i32::MAX` comes epoch 1. A fetch whose epoch is not the next one is refused, and the fetcher begins anew: one of the
//! two has missed something of the other.
//!
//! A session holds what was asked of each partition and what was last said of it. An answer leaves out partitions of
//! which there is nothing to say: no records, no error, and marks that are where they were. Partitions whose records went
//! out go to the end of the line, so that each has its turn where an answer has not room for all.
//!
//! What it cannot see: whether an answer arrived. A lost one is a lost connection; the fetcher has to begin anew.
//!
//! Source: KIP-227; FetchSession, FetchManager of Apache Kafka.

use crate::ids::BrokerId;
use riprap_protocol::messages::{
    FetchRequest, FetchRequestForgottenTopic, FetchRequestPartition, FetchRequestTopic, FetchResponse,
    FetchResponsePartition,
};
use riprap_protocol::{ErrorCode, Uuid};
use std::collections::BTreeMap;

/// Most sessions at once. Source: Kafka's `max.incremental.fetch.session.cache.slots`.
const MAX_SESSIONS: usize = 1000;

/// Most partitions in all sessions together: some 30 MB. Kafka has no such limit; a thousand clients that name a thousand
/// partitions each should not cost more than their fetches do.
const MAX_PARTITIONS: usize = 200_000;

/// A session that was used within this time is not ended for the sake of another that is worth no more. Source: Kafka's
/// `min.incremental.fetch.session.eviction.ms`.
const KEPT_NS: u64 = 120_000_000_000;

/// The session of who has none.
const NO_SESSION: i32 = 0;
/// The epoch of a fetch that wants a session.
const INITIAL_EPOCH: i32 = 0;
/// The epoch of a fetch that wants none.
const FINAL_EPOCH: i32 = -1;

/// The epoch after this one.
pub(crate) fn next_epoch(epoch: i32) -> i32 {
    if epoch == i32::MAX { 1 } else { epoch + 1 }
}

/// A topic as the fetcher calls it: by id since version 13, by name before.
type TopicName = (Uuid, String);

#[derive(Debug)]
struct Cached {
    asked: FetchRequestPartition,
    /// Its place in the line.
    turn: u64,
    /// High watermark, last stable offset and log start offset as last told; none where the fetcher has to hear them
    /// again, whatever they are.
    told: Option<(i64, i64, i64)>,
}

#[derive(Debug)]
struct Session {
    /// The epoch of the next fetch.
    epoch: i32,
    names_by_id: bool,
    /// Of a follower: worth more than any client's.
    follower: Option<BrokerId>,
    partitions: BTreeMap<(TopicName, i32), Cached>,
    line: BTreeMap<u64, (TopicName, i32)>,
    next_turn: u64,
    made_ns: u64,
    used_ns: u64,
}

/// What a fetch is to its session, until it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// It has none.
    None,
    /// It begins one.
    Begin,
    /// It is one of many.
    Go {
        /// Which session.
        id: i32,
        /// Which epoch the session has after this fetch.
        epoch: i32,
    },
}

/// How much there may be of sessions.
#[derive(Clone, Copy, Debug)]
struct Limits {
    sessions: usize,
    partitions: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { sessions: MAX_SESSIONS, partitions: MAX_PARTITIONS }
    }
}

/// The sessions of a broker.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    limits: Limits,
    open: BTreeMap<i32, Session>,
    /// In all of them.
    partitions: usize,
}

impl Sessions {
    /// Takes a fetch into its session. The request then names all partitions that it asks for, as one without a session
    /// would.
    pub(crate) fn take_in(
        &mut self,
        request: &mut FetchRequest,
        names_by_id: bool,
        now_ns: u64,
    ) -> Result<Use, ErrorCode> {
        let id = request.session_id;
        match request.session_epoch {
            FINAL_EPOCH => {
                self.end(id);
                return Ok(Use::None);
            }
            INITIAL_EPOCH => {
                self.end(id);
                return Ok(Use::Begin);
            }
            _ => {}
        }
        let session = self.open.get_mut(&id).ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if session.epoch != request.session_epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        if session.names_by_id != names_by_id {
            return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
        }
        let before = session.partitions.len();
        session.update(&request.topics, &request.forgotten_topics);
        self.partitions = self.partitions - before + session.partitions.len();
        if session.partitions.is_empty() {
            self.end(id);
            return Ok(Use::None);
        }
        session.epoch = next_epoch(session.epoch);
        session.used_ns = now_ns;
        request.topics = session.topics();
        request.forgotten_topics.clear();
        let epoch = session.epoch;
        // What a session may grow to is limited too: it ends, and the fetcher goes on without one.
        if self.partitions > self.limits.partitions {
            self.end(id);
            return Ok(Use::None);
        }
        Ok(Use::Go { id, epoch })
    }

    /// Leaves out of an answer what the fetcher knows, and names its session.
    pub(crate) fn settle(
        &mut self,
        used: Use,
        request: &FetchRequest,
        response: &mut FetchResponse,
        follower: Option<BrokerId>,
        names_by_id: bool,
        (now_ns, random): (u64, &mut dyn FnMut() -> u64),
    ) {
        let id = match used {
            Use::None => return,
            Use::Begin => {
                let mut session = Session {
                    epoch: next_epoch(INITIAL_EPOCH),
                    names_by_id,
                    follower,
                    partitions: BTreeMap::new(),
                    line: BTreeMap::new(),
                    next_turn: 0,
                    made_ns: now_ns,
                    used_ns: now_ns,
                };
                session.update(&request.topics, &[]);
                session.tell(response);
                response.session_id = self.admit(session, now_ns, random);
                return;
            }
            Use::Go { id, .. } => id,
        };
        match self.open.get_mut(&id) {
            // Another fetch of the session came in the meantime, or it was ended: this answer would say what is not so.
            Some(session) if used == (Use::Go { id, epoch: session.epoch }) => {
                session.tell(response);
                response.session_id = id;
            }
            found => {
                let code = match found {
                    Some(_) => ErrorCode::INVALID_FETCH_SESSION_EPOCH,
                    None => ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
                };
                *response = FetchResponse { error_code: code, ..Default::default() };
            }
        }
    }

    fn end(&mut self, id: i32) {
        if let Some(session) = self.open.remove(&id) {
            self.partitions -= session.partitions.len();
        }
    }

    /// Gives a session a name, if there is room or room can be made; otherwise it gets none.
    fn admit(&mut self, session: Session, now_ns: u64, random: &mut dyn FnMut() -> u64) -> i32 {
        /// A name that is in use is drawn seldom, and not so often in a row.
        const DRAWS: usize = 16;
        let size = session.partitions.len();
        if size == 0 || size > self.limits.partitions {
            return NO_SESSION;
        }
        while self.open.len() >= self.limits.sessions || self.partitions + size > self.limits.partitions {
            match self.to_end_for(&session, now_ns) {
                Some(id) => self.end(id),
                None => return NO_SESSION,
            }
        }
        let id = (0..DRAWS)
            .map(|_| (random() >> 33) as i32)
            .find(|id| *id != NO_SESSION && !self.open.contains_key(id));
        let Some(id) = id else { return NO_SESSION };
        self.partitions += size;
        self.open.insert(id, session);
        id
    }

    /// The session that is to end so that another one can be: one that was not used for long; or one that is worth less,
    /// a client's to a follower, a smaller one that has had its time to a larger one.
    fn to_end_for(&self, other: &Session, now_ns: u64) -> Option<i32> {
        let worth = |session: &Session| (session.follower.is_some(), session.partitions.len());
        let oldest = self.open.iter().min_by_key(|(id, session)| (session.used_ns, **id))?;
        if now_ns.saturating_sub(oldest.1.used_ns) > KEPT_NS {
            return Some(*oldest.0);
        }
        let may_end = |session: &Session| {
            let is_a_followers = other.follower.is_some() && session.follower.is_none();
            is_a_followers || now_ns.saturating_sub(session.made_ns) > KEPT_NS
        };
        let least = self.open.iter().filter(|(_, session)| may_end(session));
        let (id, least) = least.min_by_key(|(id, session)| (worth(session), **id))?;
        (worth(least) < worth(other)).then_some(*id)
    }
}

impl Session {
    fn update(&mut self, topics: &[FetchRequestTopic], forgotten: &[FetchRequestForgottenTopic]) {
        for topic in topics {
            for partition in &topic.partitions {
                let key = ((topic.topic_id, topic.name.clone()), partition.index);
                match self.partitions.get_mut(&key) {
                    // It may have thrown away what it was told before, as a follower does under another leader epoch.
                    Some(cached) if cached.asked != *partition => {
                        (cached.asked, cached.told) = (partition.clone(), None);
                    }
                    Some(_) => {}
                    None => {
                        let turn = self.next_turn;
                        self.next_turn += 1;
                        self.line.insert(turn, key.clone());
                        self.partitions.insert(key, Cached { asked: partition.clone(), turn, told: None });
                    }
                }
            }
        }
        for topic in forgotten {
            for index in &topic.partitions {
                let key = ((topic.topic_id, topic.name.clone()), *index);
                if let Some(cached) = self.partitions.remove(&key) {
                    self.line.remove(&cached.turn);
                }
            }
        }
    }

    /// All partitions, each topic's together where they stand together in the line.
    fn topics(&self) -> Vec<FetchRequestTopic> {
        let mut topics: Vec<FetchRequestTopic> = Vec::new();
        for key in self.line.values() {
            let (id, name) = &key.0;
            let asked = self.partitions[key].asked.clone();
            match topics.last_mut() {
                Some(topic) if topic.topic_id == *id && topic.name == *name => topic.partitions.push(asked),
                _ => topics.push(FetchRequestTopic {
                    topic_id: *id,
                    name: name.clone(),
                    partitions: vec![asked],
                }),
            }
        }
        topics
    }

    /// Notes what an answer says, and leaves out of it what has been said.
    fn tell(&mut self, response: &mut FetchResponse) {
        for topic in &mut response.topics {
            let name = (topic.topic_id, topic.name.clone());
            topic.partitions.retain(|answer| {
                let key = (name.clone(), answer.index);
                let Some(cached) = self.partitions.get_mut(&key) else { return true };
                let marks = (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset);
                let is_new = cached.told != Some(marks);
                let has_records = answer.records.as_ref().is_some_and(|records| !records.is_empty());
                let has_to_be_said = !answer.error_code.is_none() || parts(answer);
                cached.told = (!has_to_be_said).then_some(marks);
                if has_records {
                    self.line.remove(&cached.turn);
                    cached.turn = self.next_turn;
                    self.next_turn += 1;
                    self.line.insert(cached.turn, key);
                }
                is_new || has_records || has_to_be_said
            });
        }
        response.topics.retain(|topic| !topic.partitions.is_empty());
    }
}

fn parts(answer: &FetchResponsePartition) -> bool {
    answer.diverging_epoch.epoch >= 0 || answer.diverging_epoch.end_offset >= 0
}

#[cfg(test)]
mod tests;
