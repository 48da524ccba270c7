//! A client that makes topics, and deletes some of them.

use crate::clients::{Io, Work};
use crate::history::History;
use crate::wire::Done;
use bytes::Bytes;
use riprap_protocol::ErrorCode;
use riprap_protocol::frame::decode_response;
use riprap_protocol::messages::*;
use std::cell::RefCell;
use std::rc::Rc;

/// How often a topic is made or deleted.
const PAUSE_NS: u64 = 300_000_000;

const CREATE_VERSION: i16 = 7;
const DELETE_VERSION: i16 = 5;

pub(crate) enum MakerCall {
    Create(String),
    /// A name and an id.
    Delete(String, String),
}

pub(crate) struct Maker {
    history: Rc<RefCell<History>>,
    made: u64,
    is_busy: bool,
    next_at_ns: u64,
    to_delete: Option<(String, String)>,
}

impl Maker {
    pub(crate) fn new(history: &Rc<RefCell<History>>) -> Maker {
        Maker { history: history.clone(), made: 0, is_busy: false, next_at_ns: 0, to_delete: None }
    }

    fn created(&mut self, io: &mut Io<'_, MakerCall>, name: String, frame: Option<Bytes>) {
        let Some(frame) = frame else { return };
        let (_, response) =
            decode_response::<CreateTopicsRequest>(frame, CREATE_VERSION).expect("a good answer");
        let topic = &response.topics[0];
        let id = topic.topic_id.to_string();
        // What is not known to be there may yet come to be: nothing is expected of it.
        if topic.error_code.is_none() {
            if io.draws.next_u64("keep").is_multiple_of(2) {
                self.to_delete = Some((name, id));
            } else {
                self.history.borrow_mut().topics.insert(id, true);
            }
        }
    }

    fn deleted(&mut self, name: &str, id: String, frame: Option<Bytes>) {
        let code = frame.map(|frame| {
            let (_, response) =
                decode_response::<DeleteTopicsRequest>(frame, DELETE_VERSION).expect("a good answer");
            response.topics[0].error_code
        });
        let mut history = self.history.borrow_mut();
        match code {
            // It may be the answer to a request that was repeated on the way to the controller.
            Some(ErrorCode::NONE | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => {
                history.topics.insert(id, false);
            }
            None | Some(ErrorCode::REQUEST_TIMED_OUT) => {}
            Some(code) => history.violation(format!("the deletion of `{name}` is answered with {code}")),
        }
    }
}

impl Work for Maker {
    type Call = MakerCall;

    fn tick(&mut self, io: &mut Io<'_, MakerCall>) {
        let is_draining = self.history.borrow().is_draining;
        if self.is_busy || self.next_at_ns > io.now_ns || is_draining {
            return;
        }
        self.next_at_ns = io.now_ns + PAUSE_NS;
        let to = io.any_broker();
        if let Some((name, id)) = self.to_delete.take() {
            let request = DeleteTopicsRequest {
                topic_names: vec![name.clone()],
                timeout_ms: 2000,
                ..Default::default()
            };
            self.is_busy = io.send(to, DELETE_VERSION, &request, MakerCall::Delete(name, id));
        } else {
            self.made += 1;
            let name = format!("made-{}", self.made);
            let topic = CreateTopicsRequestTopic {
                name: name.clone(),
                num_partitions: 1,
                replication_factor: 3,
                ..Default::default()
            };
            let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 2000, validate_only: false };
            self.is_busy = io.send(to, CREATE_VERSION, &request, MakerCall::Create(name));
        }
    }

    fn done(&mut self, io: &mut Io<'_, MakerCall>, done: Done<MakerCall>) {
        self.is_busy = false;
        match done.call {
            MakerCall::Create(name) => self.created(io, name, done.frame),
            MakerCall::Delete(name, id) => self.deleted(&name, id, done.frame),
        }
    }
}
