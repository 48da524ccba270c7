//! A consumer that assigns itself every partition, and complains of what no consumer may meet.

use crate::clients::{Io, Leaders, PARTITIONS, TOPIC, Work};
use crate::history::History;
use crate::wire::Done;
use bytes::Bytes;
use riprap_protocol::ErrorCode;
use riprap_protocol::frame::decode_response;
use riprap_protocol::messages::*;
use riprap_protocol::records::split_batches;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Reads each partition from the beginning, for ever.
pub(crate) struct Consumer {
    history: Rc<RefCell<History>>,
    leaders: Leaders,
    positions: BTreeMap<i32, Position>,
}

#[derive(Default)]
struct Position {
    next: i64,
    last_epoch: i32,
    is_fetching: bool,
    pause_until_ns: u64,
}

pub(crate) enum ConsumerCall {
    Metadata,
    Fetch { partition: i32, epoch: i32, offset: i64 },
}

const FETCH_VERSION: i16 = 12;

impl Consumer {
    pub(crate) fn new(history: &Rc<RefCell<History>>) -> Consumer {
        let start = |partition| (partition, Position { last_epoch: -1, ..Position::default() });
        let positions = (0..PARTITIONS).map(start).collect();
        Consumer { history: history.clone(), leaders: Leaders::default(), positions }
    }

    /// Reads these partitions from these offsets on, and no others.
    pub(crate) fn assign(&mut self, from: &BTreeMap<i32, i64>) {
        let start = |(partition, next): (&i32, &i64)| {
            (*partition, Position { next: *next, last_epoch: -1, ..Position::default() })
        };
        self.positions = from.iter().map(start).collect();
    }

    /// How far each partition was read.
    pub(crate) fn positions(&self) -> BTreeMap<i32, i64> {
        self.positions.iter().map(|(partition, position)| (*partition, position.next)).collect()
    }

    fn fetched(&mut self, now_ns: u64, partition: i32, (epoch, offset): (i32, i64), frame: Option<Bytes>) {
        // What was asked for before another assignment is not wanted any more.
        let position = self.positions.get_mut(&partition).filter(|position| position.next == offset);
        let Some(position) = position else { return };
        position.is_fetching = false;
        let Some(frame) = frame else {
            self.leaders.doubt();
            return;
        };
        let (_, response) =
            decode_response::<FetchRequest>(frame, FETCH_VERSION).expect("brokers answer well");
        assert_eq!(response.error_code, ErrorCode::NONE);
        let answer = &response.topics[0].partitions[0];
        let mut history = self.history.borrow_mut();
        if answer.error_code == ErrorCode::OFFSET_OUT_OF_RANGE || answer.diverging_epoch.end_offset >= 0 {
            history.violation(format!(
                "partition {partition}: a consumer read up to {} (epoch {}), and the leader of epoch {epoch} does not \
                 have that: {} {:?}",
                position.next, position.last_epoch, answer.error_code, answer.diverging_epoch
            ));
        }
        if !answer.error_code.is_none() {
            position.pause_until_ns = now_ns + 50_000_000;
            self.leaders.doubt();
            return;
        }
        for batch in split_batches(answer.records.clone().unwrap_or_default()) {
            let batch = batch.expect("brokers serve whole batches");
            let header = *batch.header();
            if header.base_offset > position.next {
                history.violation(format!(
                    "partition {partition}: skips from {} to {}",
                    position.next, header.base_offset
                ));
            }
            for record in batch.records().expect("the test does not compress") {
                let record = record.expect("records can be read");
                let offset = header.base_offset + i64::from(record.offset_delta);
                let value = record.value.expect("the test sends values");
                let value = u64::from_be_bytes(value[..].try_into().expect("values have 8 bytes"));
                history.saw((partition, offset), value);
            }
            position.next = header.next_offset();
            position.last_epoch = header.leader_epoch;
        }
        let got_records = answer.records.as_ref().is_some_and(|records| !records.is_empty());
        if got_records && position.next > answer.high_watermark {
            let high_watermark = answer.high_watermark;
            history.violation(format!(
                "partition {partition}: read up to {} above {high_watermark}",
                position.next
            ));
        }
    }
}

impl Consumer {
    /// Does what can be done now; `wrap` makes its requests those of whoever owns it.
    pub(crate) fn go_on<C>(&mut self, io: &mut Io<'_, C>, wrap: fn(ConsumerCall) -> C) {
        if !self.history.borrow().topic_is_made {
            return;
        }
        if self.leaders.is_due(io.now_ns) {
            self.leaders.ask(io, wrap(ConsumerCall::Metadata));
        }
        for (partition, position) in &mut self.positions {
            let Some((leader, epoch)) = self.leaders.get(*partition) else { continue };
            if position.is_fetching || position.pause_until_ns > io.now_ns {
                continue;
            }
            let asked = FetchRequestPartition {
                index: *partition,
                current_leader_epoch: epoch,
                fetch_offset: position.next,
                last_fetched_epoch: position.last_epoch,
                partition_max_bytes: 2000,
                ..Default::default()
            };
            let topic =
                FetchRequestTopic { name: TOPIC.to_owned(), partitions: vec![asked], ..Default::default() };
            let request = FetchRequest {
                replica_id: -1,
                max_wait_ms: 300,
                min_bytes: 1,
                max_bytes: 1 << 20,
                session_epoch: -1,
                topics: vec![topic],
                ..Default::default()
            };
            let call = wrap(ConsumerCall::Fetch { partition: *partition, epoch, offset: position.next });
            position.is_fetching = io.send(leader, FETCH_VERSION, &request, call);
            if !position.is_fetching && !io.wire.is_up(leader) {
                self.leaders.doubt();
            }
        }
    }

    /// Takes in an answer.
    pub(crate) fn answered(&mut self, now_ns: u64, done: Done<ConsumerCall>) {
        match done.call {
            ConsumerCall::Metadata => {
                self.leaders.answered(done.frame);
                if let Some(id) = &self.leaders.topic_id {
                    self.history.borrow_mut().topic_id.clone_from(id);
                }
            }
            ConsumerCall::Fetch { partition, epoch, offset } => {
                self.fetched(now_ns, partition, (epoch, offset), done.frame);
            }
        }
    }
}

impl Work for Consumer {
    type Call = ConsumerCall;

    fn tick(&mut self, io: &mut Io<'_, ConsumerCall>) {
        self.go_on(io, |call| call);
    }

    fn done(&mut self, io: &mut Io<'_, ConsumerCall>, done: Done<ConsumerCall>) {
        self.answered(io.now_ns, done);
    }
}
