//! Requests that only the controller can carry out: passed on to it, wherever it is.
//!
//! A request that the controller certainly did not take is passed on again until its time is over. One whose answer was
//! lost is not: it may have taken effect, and the client is told REQUEST_TIMED_OUT.

use crate::connection::ReplyTo;
use crate::controller::{ControlRequest, ControlResponse};
use crate::node::{Call, Cx, Running};
use bytes::Bytes;
use riprap_protocol::messages::*;
use riprap_protocol::{ApiKey, DecodeError, ErrorCode, Message, Reader, Request};

/// The pause before a request is passed on again.
const RETRY_NS: u64 = 100_000_000;

/// The longest wait, whatever is asked for.
const MAX_TIMEOUT_MS: i32 = 60_000;

/// The wait for requests that do not say how long: what Kafka's clients wait for an answer.
const DEFAULT_TIMEOUT_MS: i32 = 30_000;

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

/// A request that is passed on.
trait Forwarded: Request {
    /// How long its client waits.
    fn timeout_ms(&self) -> i32 {
        DEFAULT_TIMEOUT_MS
    }

    /// The answer that says no more than an error, of each thing that was asked for.
    fn refused(self, error_code: ErrorCode) -> Self::Response;
}

/// Calls a function of one type parameter with the request's type, if its kind is passed on.
macro_rules! by_request {
    ($key:expr, $this:ident.$call:ident($($arg:expr),*), $otherwise:expr) => {
        match $key {
            ApiKey::AlterConfigs => $this.$call::<AlterConfigsRequest>($($arg),*),
            ApiKey::AlterPartitionReassignments => {
                $this.$call::<AlterPartitionReassignmentsRequest>($($arg),*)
            }
            ApiKey::CreatePartitions => $this.$call::<CreatePartitionsRequest>($($arg),*),
            ApiKey::CreateTopics => $this.$call::<CreateTopicsRequest>($($arg),*),
            ApiKey::DeleteTopics => $this.$call::<DeleteTopicsRequest>($($arg),*),
            ApiKey::ElectLeaders => $this.$call::<ElectLeadersRequest>($($arg),*),
            ApiKey::IncrementalAlterConfigs => $this.$call::<IncrementalAlterConfigsRequest>($($arg),*),
            ApiKey::ListPartitionReassignments => {
                $this.$call::<ListPartitionReassignmentsRequest>($($arg),*)
            }
            ApiKey::UnregisterBroker => $this.$call::<UnregisterBrokerRequest>($($arg),*),
            _ => $otherwise,
        }
    };
}

impl Running {
    /// Passes a request on.
    pub(crate) fn on_forwarded(
        &mut self,
        to: ReplyTo,
        reader: &mut Reader,
        cx: &mut Cx<'_>,
    ) -> Result<(), DecodeError> {
        let body = reader.rest();
        // Read here too, so that nonsense ends at the client's connection.
        let timeout_ms =
            by_request!(to.api_key, self.timeout_of(to, reader), unreachable!("it is none of these"))?;
        let timeout_ms = timeout_ms.clamp(0, MAX_TIMEOUT_MS) as u64;
        let deadline_ns = cx.now_ns + timeout_ms * 1_000_000;
        let id = self.waiting.forwarded;
        self.waiting.forwarded += 1;
        self.waiting.forwards.insert(id, WaitingForward { to, body, deadline_ns, retry_at_ns: None });
        self.forward(id, cx);
        Ok(())
    }

    fn timeout_of<R: Forwarded>(&self, to: ReplyTo, reader: &mut Reader) -> Result<i32, DecodeError> {
        Ok(R::decode(reader, to.api_version)?.timeout_ms())
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
                let Some(WaitingForward { to, .. }) = self.waiting.forwards.remove(&id) else { return };
                by_request!(to.api_key, self.pass_back(to, body.body, cx), ());
            }
            ControlResponse::Refused(ErrorCode::NOT_CONTROLLER) => {
                waiting.retry_at_ns = Some(cx.now_ns + RETRY_NS);
            }
            ControlResponse::Forward(_) if code == ErrorCode::NOT_CONTROLLER => {
                waiting.retry_at_ns = Some(cx.now_ns + RETRY_NS);
            }
            _ => {
                let code =
                    if code == ErrorCode::NETWORK_EXCEPTION { ErrorCode::REQUEST_TIMED_OUT } else { code };
                self.give_up_forward(id, code, cx);
            }
        }
    }

    /// Passes on again what the controller did not take, and gives up what took too long.
    pub(crate) fn answer_expired(&mut self, cx: &mut Cx<'_>) {
        if self.waiting.forwards.is_empty() {
            return;
        }
        let now_ns = cx.now_ns;
        let due = |waiting: &WaitingForward| waiting.wake_at_ns() <= now_ns;
        let ids: Vec<u64> =
            self.waiting.forwards.iter().filter(|(_, waiting)| due(waiting)).map(|(id, _)| *id).collect();
        for id in ids {
            if self.waiting.forwards[&id].deadline_ns > now_ns {
                self.forward(id, cx);
            } else {
                self.give_up_forward(id, ErrorCode::REQUEST_TIMED_OUT, cx);
            }
        }
    }

    fn give_up_forward(&mut self, id: u64, error_code: ErrorCode, cx: &mut Cx<'_>) {
        let Some(WaitingForward { to, body, .. }) = self.waiting.forwards.remove(&id) else { return };
        by_request!(to.api_key, self.refuse(to, body, error_code, cx), ());
    }

    fn pass_back<R: Forwarded>(&mut self, to: ReplyTo, body: Bytes, cx: &mut Cx<'_>) {
        match R::Response::decode_all(&mut Reader::new(body), to.api_version) {
            Ok(response) => self.reply(to, &response, cx),
            Err(e) => self.drop_connection(to.conn, &e, cx),
        }
    }

    fn refuse<R: Forwarded>(&mut self, to: ReplyTo, body: Bytes, error_code: ErrorCode, cx: &mut Cx<'_>) {
        let request = R::decode(&mut Reader::new(body), to.api_version).unwrap_or_default();
        self.reply(to, &request.refused(error_code), cx);
    }
}

impl Forwarded for CreateTopicsRequest {
    fn timeout_ms(&self) -> i32 {
        self.timeout_ms
    }

    fn refused(self, error_code: ErrorCode) -> CreateTopicsResponse {
        let refused = |topic: CreateTopicsRequestTopic| CreateTopicsResponseTopic {
            name: topic.name,
            error_code,
            ..Default::default()
        };
        CreateTopicsResponse { topics: self.topics.into_iter().map(refused).collect(), ..Default::default() }
    }
}

impl Forwarded for CreatePartitionsRequest {
    fn timeout_ms(&self) -> i32 {
        self.timeout_ms
    }

    fn refused(self, error_code: ErrorCode) -> CreatePartitionsResponse {
        let refused = |topic: CreatePartitionsRequestTopic| CreatePartitionsResponseResult {
            name: topic.name,
            error_code,
            ..Default::default()
        };
        let results = self.topics.into_iter().map(refused).collect();
        CreatePartitionsResponse { results, ..Default::default() }
    }
}

impl Forwarded for DeleteTopicsRequest {
    fn timeout_ms(&self) -> i32 {
        self.timeout_ms
    }

    fn refused(self, error_code: ErrorCode) -> DeleteTopicsResponse {
        let by_name = self.topic_names.into_iter().map(|name| DeleteTopicsResponseTopic {
            name: Some(name),
            error_code,
            ..Default::default()
        });
        let by_id = self.topics.into_iter().map(|topic| DeleteTopicsResponseTopic {
            name: topic.name,
            topic_id: topic.topic_id,
            error_code,
            ..Default::default()
        });
        DeleteTopicsResponse { topics: by_name.chain(by_id).collect(), ..Default::default() }
    }
}

impl Forwarded for AlterConfigsRequest {
    fn refused(self, error_code: ErrorCode) -> AlterConfigsResponse {
        let refused = |resource: AlterConfigsRequestResource| AlterConfigsResponseResource {
            error_code,
            error_message: None,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
        };
        let responses = self.resources.into_iter().map(refused).collect();
        AlterConfigsResponse { responses, ..Default::default() }
    }
}

impl Forwarded for IncrementalAlterConfigsRequest {
    fn refused(self, error_code: ErrorCode) -> IncrementalAlterConfigsResponse {
        let refused =
            |resource: IncrementalAlterConfigsRequestResource| IncrementalAlterConfigsResponseResource {
                error_code,
                error_message: None,
                resource_type: resource.resource_type,
                resource_name: resource.resource_name,
            };
        let responses = self.resources.into_iter().map(refused).collect();
        IncrementalAlterConfigsResponse { responses, ..Default::default() }
    }
}

impl Forwarded for ElectLeadersRequest {
    fn timeout_ms(&self) -> i32 {
        self.timeout_ms
    }

    /// Each partition that was named has the error, for version 0 has no other place for it.
    fn refused(self, error_code: ErrorCode) -> ElectLeadersResponse {
        let refused = |index| ElectLeadersResponsePartition { index, error_code, error_message: None };
        let topics = self.topics.unwrap_or_default().into_iter().map(|topic| ElectLeadersResponseTopic {
            name: topic.name,
            partitions: topic.partitions.into_iter().map(refused).collect(),
        });
        ElectLeadersResponse { topics: topics.collect(), ..Default::default() }
    }
}

impl Forwarded for AlterPartitionReassignmentsRequest {
    fn timeout_ms(&self) -> i32 {
        self.timeout_ms
    }

    fn refused(self, error_code: ErrorCode) -> AlterPartitionReassignmentsResponse {
        AlterPartitionReassignmentsResponse { error_code, ..Default::default() }
    }
}

impl Forwarded for ListPartitionReassignmentsRequest {
    fn timeout_ms(&self) -> i32 {
        self.timeout_ms
    }

    fn refused(self, error_code: ErrorCode) -> ListPartitionReassignmentsResponse {
        ListPartitionReassignmentsResponse { error_code, ..Default::default() }
    }
}

impl Forwarded for UnregisterBrokerRequest {
    fn refused(self, error_code: ErrorCode) -> UnregisterBrokerResponse {
        UnregisterBrokerResponse { error_code, ..Default::default() }
    }
}
