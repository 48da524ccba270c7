//! A member of a consumer group: joins, gets partitions, reads on from what was committed, commits.

use crate::clients::{Io, PARTITIONS, TOPIC, Work};
use crate::consumer::{Consumer, ConsumerCall};
use crate::history::History;
use crate::wire::Done;
use bytes::Bytes;
use riprap_protocol::frame::decode_response;
use riprap_protocol::messages::*;
use riprap_protocol::{ErrorCode, Request};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const GROUP: &str = "members";
const HEARTBEAT_NS: u64 = 300_000_000;
const PAUSE_NS: u64 = 100_000_000;

const FIND_VERSION: i16 = 3;
const JOIN_VERSION: i16 = 5;
const SYNC_VERSION: i16 = 3;
const BEAT_VERSION: i16 = 3;
const COMMIT_VERSION: i16 = 7;
const FETCH_VERSION: i16 = 5;

/// What it does next in its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Find,
    Join,
    Sync,
    FetchOffsets,
    Read,
}

pub(crate) enum MemberCall {
    Read(ConsumerCall),
    Find,
    Join,
    Sync,
    FetchOffsets,
    Beat,
    Commit(BTreeMap<i32, i64>),
}

pub(crate) struct Member {
    history: Rc<RefCell<History>>,
    consumer: Consumer,
    step: Step,
    coordinator: i32,
    member_id: String,
    generation: i32,
    /// For the leader of the group: everybody in it.
    members: Vec<String>,
    assigned: Vec<i32>,
    /// Where the reading of each partition began.
    began: BTreeMap<i32, i64>,
    is_busy: bool,
    pause_until_ns: u64,
    next_beat_ns: u64,
}

impl Member {
    pub(crate) fn new(history: &Rc<RefCell<History>>) -> Member {
        let mut consumer = Consumer::new(history);
        consumer.assign(&BTreeMap::new());
        Member {
            history: history.clone(),
            consumer,
            step: Step::Find,
            coordinator: 0,
            member_id: String::new(),
            generation: -1,
            members: Vec::new(),
            assigned: Vec::new(),
            began: BTreeMap::new(),
            is_busy: false,
            pause_until_ns: 0,
            next_beat_ns: 0,
        }
    }

    /// Notes what was read, and what is read no more.
    fn stop_reading(&mut self) {
        self.note_read();
        self.began.clear();
        self.consumer.assign(&BTreeMap::new());
    }

    fn note_read(&mut self) {
        let positions = self.consumer.positions();
        let mut history = self.history.borrow_mut();
        for (partition, from) in &self.began {
            history.group_read.push((*partition, *from, positions[partition]));
        }
    }

    /// Goes back to an earlier step for what it was told.
    fn fall_back(&mut self, now_ns: u64, code: ErrorCode) {
        self.stop_reading();
        self.pause_until_ns = now_ns + PAUSE_NS;
        self.step = match code {
            ErrorCode::REBALANCE_IN_PROGRESS => Step::Join,
            ErrorCode::MEMBER_ID_REQUIRED => {
                self.pause_until_ns = now_ns;
                Step::Join
            }
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION => {
                self.member_id.clear();
                Step::Join
            }
            _ => Step::Find,
        };
    }

    fn send<R: Request>(&mut self, io: &mut Io<'_, MemberCall>, version: i16, body: &R, call: MemberCall) {
        self.is_busy = io.send(self.coordinator, version, body, call);
        if !self.is_busy {
            self.fall_back(io.now_ns, ErrorCode::NETWORK_EXCEPTION);
        }
    }

    fn join(&mut self, io: &mut Io<'_, MemberCall>) {
        let protocol = JoinGroupRequestProtocol { name: "all".to_owned(), metadata: Bytes::new() };
        let request = JoinGroupRequest {
            group_id: GROUP.to_owned(),
            session_timeout_ms: 3000,
            rebalance_timeout_ms: 2500,
            member_id: self.member_id.clone(),
            protocol_type: "consumer".to_owned(),
            protocols: vec![protocol],
            ..Default::default()
        };
        self.send(io, JOIN_VERSION, &request, MemberCall::Join);
    }

    /// The leader gives each partition to one member; an assignment is a byte for each partition.
    fn sync(&mut self, io: &mut Io<'_, MemberCall>) {
        let count = self.members.len();
        let assign = |(at, member_id): (usize, &String)| SyncGroupRequestAssignment {
            member_id: member_id.clone(),
            assignment: (0..PARTITIONS as u8)
                .filter(|partition| usize::from(*partition) % count == at)
                .collect(),
        };
        let request = SyncGroupRequest {
            group_id: GROUP.to_owned(),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            assignments: self.members.iter().enumerate().map(assign).collect(),
            ..Default::default()
        };
        self.send(io, SYNC_VERSION, &request, MemberCall::Sync);
    }

    fn commit(&mut self, io: &mut Io<'_, MemberCall>) {
        let positions = self.consumer.positions();
        let partition = |(index, committed_offset): (&i32, &i64)| OffsetCommitRequestPartition {
            index: *index,
            committed_offset: *committed_offset,
            ..Default::default()
        };
        let partitions = positions.iter().map(partition).collect();
        let request = OffsetCommitRequest {
            group_id: GROUP.to_owned(),
            generation_id_or_member_epoch: self.generation,
            member_id: self.member_id.clone(),
            topics: vec![OffsetCommitRequestTopic { name: TOPIC.to_owned(), partitions }],
            ..Default::default()
        };
        // Before it can take effect, so that whoever begins there is not taken to skip anything.
        self.note_read();
        self.send(io, COMMIT_VERSION, &request, MemberCall::Commit(positions));
    }

    fn beat(&mut self, io: &mut Io<'_, MemberCall>) {
        self.next_beat_ns = io.now_ns + HEARTBEAT_NS;
        let request = HeartbeatRequest {
            group_id: GROUP.to_owned(),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            ..Default::default()
        };
        self.send(io, BEAT_VERSION, &request, MemberCall::Beat);
    }

    fn take_in(&mut self, now_ns: u64, call: MemberCall, frame: Bytes) -> ErrorCode {
        const GOOD: &str = "brokers answer well";
        match call {
            MemberCall::Read(_) => unreachable!("answers to the consumer are the consumer's"),
            MemberCall::Find => {
                let (_, found) = decode_response::<FindCoordinatorRequest>(frame, FIND_VERSION).expect(GOOD);
                self.coordinator = found.node_id;
                self.step = Step::Join;
                found.error_code
            }
            MemberCall::Join => {
                let (_, joined) = decode_response::<JoinGroupRequest>(frame, JOIN_VERSION).expect(GOOD);
                if joined.error_code.is_none() || joined.error_code == ErrorCode::MEMBER_ID_REQUIRED {
                    self.member_id = joined.member_id;
                    self.generation = joined.generation_id;
                    self.members = joined.members.into_iter().map(|member| member.member_id).collect();
                    self.step = Step::Sync;
                }
                joined.error_code
            }
            MemberCall::Sync => {
                let (_, synced) = decode_response::<SyncGroupRequest>(frame, SYNC_VERSION).expect(GOOD);
                self.assigned = synced.assignment.iter().map(|partition| i32::from(*partition)).collect();
                self.step = Step::FetchOffsets;
                synced.error_code
            }
            MemberCall::FetchOffsets => {
                let (_, fetched) = decode_response::<OffsetFetchRequest>(frame, FETCH_VERSION).expect(GOOD);
                let partitions = || fetched.topics.iter().flat_map(|topic| &topic.partitions);
                let code = partitions().map(|p| p.error_code).find(|code| !code.is_none());
                let code = code.unwrap_or(fetched.error_code);
                if code.is_none() {
                    self.began = partitions().map(|p| (p.index, p.committed_offset.max(0))).collect();
                    self.consumer.assign(&self.began);
                    self.history.borrow_mut().committed(&self.began);
                    self.next_beat_ns = now_ns;
                    self.step = Step::Read;
                }
                code
            }
            MemberCall::Beat => {
                let (_, beat) = decode_response::<HeartbeatRequest>(frame, BEAT_VERSION).expect(GOOD);
                beat.error_code
            }
            MemberCall::Commit(positions) => {
                let (_, committed) =
                    decode_response::<OffsetCommitRequest>(frame, COMMIT_VERSION).expect(GOOD);
                let mut codes =
                    committed.topics.iter().flat_map(|topic| &topic.partitions).map(|p| p.error_code);
                let code = codes.find(|code| !code.is_none()).unwrap_or(ErrorCode::NONE);
                if code.is_none() {
                    self.pause_until_ns = now_ns + PAUSE_NS;
                    self.history.borrow_mut().committed(&positions);
                }
                code
            }
        }
    }
}

impl Work for Member {
    type Call = MemberCall;

    fn tick(&mut self, io: &mut Io<'_, MemberCall>) {
        if !self.history.borrow().topic_is_made {
            return;
        }
        self.consumer.go_on(io, MemberCall::Read);
        if self.is_busy || self.pause_until_ns > io.now_ns {
            return;
        }
        match self.step {
            Step::Find => {
                self.coordinator = io.any_broker();
                let request = FindCoordinatorRequest { key: GROUP.to_owned(), ..Default::default() };
                self.send(io, FIND_VERSION, &request, MemberCall::Find);
            }
            Step::Join => self.join(io),
            Step::Sync => self.sync(io),
            Step::FetchOffsets => {
                let partitions = self.assigned.clone();
                let topic = OffsetFetchRequestTopic { name: TOPIC.to_owned(), partitions };
                let request = OffsetFetchRequest {
                    group_id: GROUP.to_owned(),
                    topics: Some(vec![topic]),
                    ..Default::default()
                };
                self.send(io, FETCH_VERSION, &request, MemberCall::FetchOffsets);
            }
            Step::Read if self.next_beat_ns <= io.now_ns => self.beat(io),
            Step::Read if self.consumer.positions() != self.began => self.commit(io),
            Step::Read => {}
        }
    }

    fn done(&mut self, io: &mut Io<'_, MemberCall>, done: Done<MemberCall>) {
        let Done { call, frame } = done;
        let call = match call {
            MemberCall::Read(call) => return self.consumer.answered(io.now_ns, Done { call, frame }),
            call => call,
        };
        self.is_busy = false;
        let code = match frame {
            Some(frame) => self.take_in(io.now_ns, call, frame),
            None => ErrorCode::NETWORK_EXCEPTION,
        };
        if !code.is_none() {
            self.fall_back(io.now_ns, code);
        }
    }
}
