//! A client that keeps offsets, and complains when they are not what it committed.
//!
//! It also asks brokers that do not coordinate its group as far as it knows: one that did until lately may believe that
//! it still does.

use crate::clients::{Io, TOPIC, Work};
use crate::history::History;
use crate::wire::Done;
use riprap_protocol::frame::decode_response;
use riprap_protocol::messages::*;
use std::cell::RefCell;
use std::rc::Rc;

const GROUP: &str = "g";

/// A broker that need not be the coordinator is asked in one of so many reads.
const ANYBODY_ONE_IN: u64 = 3;

/// Commits rising offsets for a group of its own, and reads them back.
pub(crate) struct Committer {
    history: Rc<RefCell<History>>,
    coordinator: Option<i32>,
    is_busy: bool,
    pause_until_ns: u64,
    next: i64,
    /// What was committed last, by what it was told: of commits and of reads.
    known: Option<i64>,
    /// Commits of which nothing is known: any of them may come true late, once.
    in_doubt: Vec<i64>,
}

pub(crate) enum CommitterCall {
    Find,
    Commit(i64),
    /// Says whether it went to the coordinator.
    Fetch {
        is_sure: bool,
    },
}

impl Committer {
    pub(crate) fn new(history: &Rc<RefCell<History>>) -> Committer {
        Committer {
            history: history.clone(),
            coordinator: None,
            is_busy: false,
            pause_until_ns: 0,
            next: 0,
            known: None,
            in_doubt: Vec::new(),
        }
    }

    fn fetched(&mut self, offset: i64) {
        let expected = self.known.unwrap_or(-1);
        let mut history = self.history.borrow_mut();
        history.fetched_offsets += 1;
        if offset == expected {
            return;
        }
        match self.in_doubt.iter().position(|doubted| *doubted == offset) {
            // Whoever was told so relies on it: what was committed before is never told again.
            Some(at) => {
                self.in_doubt.remove(at);
                self.known = Some(offset);
            }
            None => history.violation(format!(
                "offset {expected} was committed, {offset} is fetched; in doubt: {:?}",
                self.in_doubt
            )),
        }
    }

    fn failed(&mut self, now_ns: u64) {
        self.coordinator = None;
        self.pause_until_ns = now_ns + 100_000_000;
    }
}

impl Work for Committer {
    type Call = CommitterCall;

    fn tick(&mut self, io: &mut Io<'_, CommitterCall>) {
        if self.is_busy || self.pause_until_ns > io.now_ns || !self.history.borrow().topic_is_made {
            return;
        }
        self.pause_until_ns = io.now_ns + 20_000_000;
        let Some(to) = self.coordinator else {
            let request = FindCoordinatorRequest { key: GROUP.to_owned(), ..Default::default() };
            let to = io.any_broker();
            self.is_busy = io.send(to, 3, &request, CommitterCall::Find);
            return;
        };
        if io.draws.next_u64("what").is_multiple_of(2) {
            self.next += 1;
            let partition =
                OffsetCommitRequestPartition { index: 0, committed_offset: self.next, ..Default::default() };
            let topic = OffsetCommitRequestTopic { name: TOPIC.to_owned(), partitions: vec![partition] };
            let request =
                OffsetCommitRequest { group_id: GROUP.to_owned(), topics: vec![topic], ..Default::default() };
            self.is_busy = io.send(to, 7, &request, CommitterCall::Commit(self.next));
        } else {
            let topic = OffsetFetchRequestTopic { name: TOPIC.to_owned(), partitions: vec![0] };
            let request = OffsetFetchRequest {
                group_id: GROUP.to_owned(),
                topics: Some(vec![topic]),
                ..Default::default()
            };
            let is_sure = !io.draws.next_u64("whom").is_multiple_of(ANYBODY_ONE_IN);
            let to = if is_sure { to } else { io.any_broker() };
            self.is_busy = io.send(to, 5, &request, CommitterCall::Fetch { is_sure });
            if !is_sure {
                return;
            }
        }
        if !self.is_busy {
            self.failed(io.now_ns);
        }
    }

    fn done(&mut self, io: &mut Io<'_, CommitterCall>, done: Done<CommitterCall>) {
        self.is_busy = false;
        match (done.call, done.frame) {
            (CommitterCall::Find, None) | (CommitterCall::Fetch { is_sure: true }, None) => {
                self.failed(io.now_ns)
            }
            (CommitterCall::Fetch { is_sure: false }, None) => {}
            (CommitterCall::Find, Some(frame)) => {
                let (_, found) =
                    decode_response::<FindCoordinatorRequest>(frame, 3).expect("brokers answer well");
                self.coordinator = Some(found.node_id).filter(|_| found.error_code.is_none());
                self.pause_until_ns = io.now_ns + 50_000_000;
            }
            (CommitterCall::Commit(offset), None) => {
                self.in_doubt.push(offset);
                self.failed(io.now_ns);
            }
            (CommitterCall::Commit(offset), Some(frame)) => {
                let (_, response) =
                    decode_response::<OffsetCommitRequest>(frame, 7).expect("brokers answer well");
                if response.topics[0].partitions[0].error_code.is_none() {
                    self.known = Some(offset);
                    self.history.borrow_mut().commits_acked += 1;
                } else {
                    self.in_doubt.push(offset);
                    self.failed(io.now_ns);
                }
            }
            (CommitterCall::Fetch { is_sure }, Some(frame)) => {
                let (_, response) =
                    decode_response::<OffsetFetchRequest>(frame, 5).expect("brokers answer well");
                let partition = response.topics.first().and_then(|topic| topic.partitions.first());
                let code = partition.map_or(response.error_code, |p| p.error_code);
                match partition.filter(|_| code.is_none() && response.error_code.is_none()) {
                    Some(partition) => self.fetched(partition.committed_offset),
                    None if is_sure => self.failed(io.now_ns),
                    None => {}
                }
            }
        }
    }
}
