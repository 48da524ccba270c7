//! Producers: idempotent ones that repeat themselves, and others that do not.

use crate::clients::{Io, Leaders, PARTITIONS, TOPIC, Work};
use crate::history::History;
use crate::wire::Done;
use bytes::Bytes;
use riprap_protocol::ErrorCode;
use riprap_protocol::frame::decode_response;
use riprap_protocol::messages::*;
use riprap_protocol::records::BatchBuilder;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// How often a producer makes new records.
const FILL_NS: u64 = 40_000_000;

/// How a producer works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Repeats each batch until it is acknowledged; up to so many batches are on their way.
    Idempotent(usize),
    /// acks=all, never repeats.
    Plain,
    /// acks=1, never repeats: its records may be lost.
    Weak,
}

struct Batch {
    number: u64,
    sequence: i32,
    values: Vec<u64>,
    is_sent: bool,
    /// A failed attempt may have been appended.
    tries: u32,
}

pub(crate) struct Producer {
    kind: Kind,
    history: Rc<RefCell<History>>,
    leaders: Leaders,
    producer_id: Option<i64>,
    is_asking_id: bool,
    batches: BTreeMap<i32, VecDeque<Batch>>,
    next_number: u64,
    next_sequence: BTreeMap<i32, i32>,
    is_making_topic: bool,
    pause_until_ns: u64,
    /// When new records are made next.
    fill_at_ns: u64,
    makes_topic: bool,
}

pub(crate) enum ProducerCall {
    Metadata,
    Id,
    Topic,
    Produce { partition: i32, sequence: i32 },
}

impl Producer {
    pub(crate) fn new(kind: Kind, makes_topic: bool, history: &Rc<RefCell<History>>) -> Producer {
        Producer {
            kind,
            history: history.clone(),
            leaders: Leaders::default(),
            producer_id: None,
            is_asking_id: false,
            batches: BTreeMap::new(),
            next_number: 0,
            next_sequence: BTreeMap::new(),
            is_making_topic: false,
            pause_until_ns: 0,
            fill_at_ns: 0,
            makes_topic,
        }
    }

    fn depth(&self) -> usize {
        match self.kind {
            Kind::Idempotent(depth) => depth,
            Kind::Plain | Kind::Weak => 1,
        }
    }

    fn is_idempotent(&self) -> bool {
        matches!(self.kind, Kind::Idempotent(_))
    }

    fn make_topic(&mut self, io: &mut Io<'_, ProducerCall>) {
        let topic = CreateTopicsRequestTopic {
            name: TOPIC.to_owned(),
            num_partitions: PARTITIONS,
            replication_factor: 3,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 2000, validate_only: false };
        let to = io.any_broker();
        self.is_making_topic = io.send(to, 7, &request, ProducerCall::Topic);
    }

    fn fill(&mut self, io: &mut Io<'_, ProducerCall>, partition: i32) {
        let depth = self.depth();
        let queue = self.batches.entry(partition).or_default();
        let mut history = self.history.borrow_mut();
        while queue.len() < depth && !history.is_draining {
            // A broker remembers a producer's last five batches: no sixth goes out before the first is known to be stored,
            // though others in between may be acknowledged.
            let number = self.next_number;
            if queue.front().is_some_and(|oldest| number - oldest.number >= 5) {
                break;
            }
            self.next_number += 1;
            let count = 1 + io.draws.next_u64("count") % 3;
            let values: Vec<u64> = (0..count).map(|_| history.new_value()).collect();
            let next = self.next_sequence.entry(partition).or_insert(0);
            let sequence = *next;
            *next += count as i32;
            if let Kind::Idempotent(_) = self.kind {
                history.idempotent.extend(&values);
                history.unfinished += values.len();
            }
            queue.push_back(Batch { number, sequence, values, is_sent: false, tries: 0 });
        }
    }

    fn send(&mut self, io: &mut Io<'_, ProducerCall>, partition: i32) {
        let Some((leader, _)) = self.leaders.get(partition) else { return };
        let queue = self.batches.entry(partition).or_default();
        // After a failure all go again in order, once nothing is on its way any more.
        let first_unsent = queue.iter().position(|batch| !batch.is_sent);
        let last_sent = queue.iter().rposition(|batch| batch.is_sent);
        if last_sent > first_unsent && first_unsent.is_some() {
            return;
        }
        for batch in queue.iter_mut().filter(|batch| !batch.is_sent) {
            let mut builder = BatchBuilder::new();
            if let (Kind::Idempotent(_), Some(id)) = (self.kind, self.producer_id) {
                builder = builder.producer(id, 0, batch.sequence);
            }
            for value in &batch.values {
                builder = builder.record(0, None, Some(&value.to_be_bytes()));
            }
            let partition_data = ProduceRequestPartition { index: partition, records: Some(builder.build()) };
            let topic = ProduceRequestTopic { name: TOPIC.to_owned(), partitions: vec![partition_data] };
            let acks = if self.kind == Kind::Weak { 1 } else { -1 };
            let request =
                ProduceRequest { transactional_id: None, acks, timeout_ms: 1500, topics: vec![topic] };
            let call = ProducerCall::Produce { partition, sequence: batch.sequence };
            if !io.send(leader, 9, &request, call) {
                break;
            }
            batch.is_sent = true;
            batch.tries += 1;
        }
    }

    fn produced(
        &mut self,
        io: &mut Io<'_, ProducerCall>,
        partition: i32,
        sequence: i32,
        frame: Option<Bytes>,
    ) {
        let answer = frame.map(|frame| {
            let (_, response) = decode_response::<ProduceRequest>(frame, 9).expect("brokers answer well");
            response.topics[0].partitions[0].clone()
        });
        let queue = self.batches.get_mut(&partition).expect("it was sent from there");
        let Some(index) = queue.iter().position(|batch| batch.sequence == sequence) else { return };
        let code = answer.as_ref().map_or(ErrorCode::NETWORK_EXCEPTION, |answer| answer.error_code);
        let mut history = self.history.borrow_mut();
        if code.is_none() {
            let batch = queue.remove(index).expect("it was found");
            let base = answer.expect("there is no error").base_offset;
            if self.kind != Kind::Weak {
                for (offset, value) in (base..).zip(&batch.values) {
                    history.acked((partition, offset), *value);
                }
            }
            if let Kind::Idempotent(_) = self.kind {
                history.unfinished -= batch.values.len();
            }
            return;
        }
        self.leaders.doubt();
        self.pause_until_ns = io.now_ns + 20_000_000;
        if code == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER && index == 0 {
            history.violation(format!(
                "partition {partition}: sequence {sequence} is next, the leader says not"
            ));
        }
        let is_known = code.is_retriable() || code == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
        if !is_known {
            history.violation(format!("partition {partition}: a produce is refused with {code}"));
        }
        match self.kind {
            Kind::Idempotent(_) => queue[index].is_sent = false,
            Kind::Plain | Kind::Weak => {
                queue.remove(index);
            }
        }
    }
}

impl Work for Producer {
    type Call = ProducerCall;

    fn tick(&mut self, io: &mut Io<'_, ProducerCall>) {
        let topic_is_made = self.history.borrow().topic_is_made;
        if !topic_is_made {
            if self.makes_topic && !self.is_making_topic {
                self.make_topic(io);
            }
            return;
        }
        if self.leaders.is_due(io.now_ns) {
            self.leaders.ask(io, ProducerCall::Metadata);
        }
        if self.is_idempotent() && self.producer_id.is_none() {
            if !self.is_asking_id {
                let request = InitProducerIdRequest { transaction_timeout_ms: 1000, ..Default::default() };
                let to = io.any_broker();
                self.is_asking_id = io.send(to, 4, &request, ProducerCall::Id);
            }
            return;
        }
        if self.pause_until_ns > io.now_ns {
            return;
        }
        let fills = self.fill_at_ns <= io.now_ns;
        if fills {
            self.fill_at_ns = io.now_ns + FILL_NS;
        }
        for partition in 0..PARTITIONS {
            if fills {
                self.fill(io, partition);
            }
            self.send(io, partition);
        }
    }

    fn done(&mut self, io: &mut Io<'_, ProducerCall>, done: Done<ProducerCall>) {
        match done.call {
            ProducerCall::Metadata => self.leaders.answered(done.frame),
            ProducerCall::Topic => {
                self.is_making_topic = false;
                let Some(frame) = done.frame else { return };
                let (_, response) =
                    decode_response::<CreateTopicsRequest>(frame, 7).expect("brokers answer well");
                let code = response.topics[0].error_code;
                if code.is_none() || code == ErrorCode::TOPIC_ALREADY_EXISTS {
                    self.history.borrow_mut().topic_is_made = true;
                }
            }
            ProducerCall::Id => {
                self.is_asking_id = false;
                let Some(frame) = done.frame else { return };
                let (_, response) =
                    decode_response::<InitProducerIdRequest>(frame, 4).expect("brokers answer well");
                if response.error_code.is_none() {
                    self.producer_id = Some(response.producer_id);
                }
            }
            ProducerCall::Produce { partition, sequence } => {
                self.produced(io, partition, sequence, done.frame)
            }
        }
    }
}
