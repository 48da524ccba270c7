//! CreateTopics, CreatePartitions and DeleteTopics: passed on to the controller, wherever it is.
//!
//! A request that the controller certainly did not take is passed on again until its time is over. One whose answer was
//! lost is not: it may have taken effect, and the client is told REQUEST_TIMED_OUT.

use crate::connection::ReplyTo;
use crate::controller::{ControlRequest, ControlResponse};
use crate::node::{Call, Cx, Running};
use bytes::Bytes;
use riprap_protocol::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsResponseResult, CreateTopicsRequest,
    CreateTopicsResponse, CreateTopicsResponseTopic, DeleteTopicsRequest, DeleteTopicsResponse,
    DeleteTopicsResponseTopic, ForwardRequestRequest,
};
use riprap_protocol::{ApiKey, DecodeError, ErrorCode, Message, Reader};

/// The pause before a request is passed on again.
const RETRY_NS: u64 = 100_000_000;

/// The longest wait, whatever is asked for.
const MAX_TIMEOUT_MS: i32 = 60_000;

/// A request that waits for the controller.
#[derive(Debug)]
pub(crate) struct WaitingForward {
    pub(crate) to: ReplyTo,
    body: Bytes,
    deadline_ns: u64,
    /// None: it is on its way.
    retry_at_ns: Option<u64>,
}

impl WaitingForward {
    pub(crate) fn wake_at_ns(&self) -> u64 {
        self.retry_at_ns.unwrap_or(self.deadline_ns).min(self.deadline_ns)
    }
}

impl Running {
    pub(crate) fn on_topics(
        &mut self,
        to: ReplyTo,
        reader: &mut Reader,
        cx: &mut Cx<'_>,
    ) -> Result<(), DecodeError> {
        let body = reader.rest();
        // Read here too, so that nonsense ends at the client's connection.
        let timeout_ms = match to.api_key {
            ApiKey::CreateTopics => CreateTopicsRequest::decode(reader, to.api_version)?.timeout_ms,
            ApiKey::CreatePartitions => CreatePartitionsRequest::decode(reader, to.api_version)?.timeout_ms,
            _ => DeleteTopicsRequest::decode(reader, to.api_version)?.timeout_ms,
        };
        let timeout_ms = timeout_ms.clamp(0, MAX_TIMEOUT_MS) as u64;
        let deadline_ns = cx.now_ns + timeout_ms * 1_000_000;
        let id = self.waiting.forwarded;
        self.waiting.forwarded += 1;
        self.waiting.forwards.insert(id, WaitingForward { to, body, deadline_ns, retry_at_ns: None });
        self.forward(id, cx);
        Ok(())
    }

    fn forward(&mut self, id: u64, cx: &mut Cx<'_>) {
        let Some(waiting) = self.waiting.forwards.get_mut(&id) else { return };
        waiting.retry_at_ns = None;
        let request = ForwardRequestRequest {
            api_key: waiting.to.api_key.code(),
            api_version: waiting.to.api_version,
            body: waiting.body.clone(),
        };
        self.ask_controller(ControlRequest::Forward(request), Call::Forward { id }, cx);
    }

    /// The controller answered, or will not.
    pub(crate) fn forward_answered(&mut self, id: u64, response: ControlResponse, cx: &mut Cx<'_>) {
        let code = response.error_code();
        let Some(waiting) = self.waiting.forwards.get_mut(&id) else { return };
        match response {
            ControlResponse::Forward(body) if body.error_code.is_none() => {
                let Some(waiting) = self.waiting.forwards.remove(&id) else { return };
                self.pass_back(waiting.to, body.body, cx);
            }
            ControlResponse::Refused(ErrorCode::NOT_CONTROLLER) => {
                waiting.retry_at_ns = Some(cx.now_ns + RETRY_NS);
            }
            ControlResponse::Forward(_) if code == ErrorCode::NOT_CONTROLLER => {
                waiting.retry_at_ns = Some(cx.now_ns + RETRY_NS);
            }
            _ => {
                let Some(waiting) = self.waiting.forwards.remove(&id) else { return };
                let code =
                    if code == ErrorCode::NETWORK_EXCEPTION { ErrorCode::REQUEST_TIMED_OUT } else { code };
                self.refuse_topics(&waiting, code, cx);
            }
        }
    }

    /// Passes on again what the controller did not take, and gives up what took too long.
    pub(crate) fn answer_expired(&mut self, cx: &mut Cx<'_>) {
        let now_ns = cx.now_ns;
        let due = |waiting: &WaitingForward| waiting.wake_at_ns() <= now_ns;
        let ids: Vec<u64> =
            self.waiting.forwards.iter().filter(|(_, waiting)| due(waiting)).map(|(id, _)| *id).collect();
        for id in ids {
            if self.waiting.forwards[&id].deadline_ns > now_ns {
                self.forward(id, cx);
            } else if let Some(waiting) = self.waiting.forwards.remove(&id) {
                self.refuse_topics(&waiting, ErrorCode::REQUEST_TIMED_OUT, cx);
            }
        }
    }

    fn pass_back(&mut self, to: ReplyTo, body: Bytes, cx: &mut Cx<'_>) {
        match to.api_key {
            ApiKey::CreateTopics => self.pass_back_as::<CreateTopicsResponse>(to, body, cx),
            ApiKey::CreatePartitions => self.pass_back_as::<CreatePartitionsResponse>(to, body, cx),
            _ => self.pass_back_as::<DeleteTopicsResponse>(to, body, cx),
        }
    }

    fn pass_back_as<M: Message>(&mut self, to: ReplyTo, body: Bytes, cx: &mut Cx<'_>) {
        match M::decode_all(&mut Reader::new(body), to.api_version) {
            Ok(response) => self.reply(to, &response, cx),
            Err(e) => self.drop_connection(to.conn, &e, cx),
        }
    }

    fn refuse_topics(&mut self, waiting: &WaitingForward, error_code: ErrorCode, cx: &mut Cx<'_>) {
        let to = waiting.to;
        let mut reader = Reader::new(waiting.body.clone());
        if to.api_key == ApiKey::CreateTopics {
            let request = CreateTopicsRequest::decode(&mut reader, to.api_version).unwrap_or_default();
            let refused = |topic: riprap_protocol::messages::CreateTopicsRequestTopic| {
                CreateTopicsResponseTopic { name: topic.name, error_code, ..Default::default() }
            };
            let topics = request.topics.into_iter().map(refused).collect();
            self.reply(to, &CreateTopicsResponse { topics, ..Default::default() }, cx);
        } else if to.api_key == ApiKey::CreatePartitions {
            let request = CreatePartitionsRequest::decode(&mut reader, to.api_version).unwrap_or_default();
            let refused = |topic: riprap_protocol::messages::CreatePartitionsRequestTopic| {
                CreatePartitionsResponseResult { name: topic.name, error_code, ..Default::default() }
            };
            let results = request.topics.into_iter().map(refused).collect();
            self.reply(to, &CreatePartitionsResponse { results, ..Default::default() }, cx);
        } else {
            let request = DeleteTopicsRequest::decode(&mut reader, to.api_version).unwrap_or_default();
            let by_name = request.topic_names.into_iter().map(|name| DeleteTopicsResponseTopic {
                name: Some(name),
                error_code,
                ..Default::default()
            });
            let by_id = request.topics.into_iter().map(|topic| DeleteTopicsResponseTopic {
                name: topic.name,
                topic_id: topic.topic_id,
                error_code,
                ..Default::default()
            });
            let topics = by_name.chain(by_id).collect();
            self.reply(to, &DeleteTopicsResponse { topics, ..Default::default() }, cx);
        }
    }
}
