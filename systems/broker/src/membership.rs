//! This broker as a member of the cluster: it registers, says that it lives, and leaves in order.

use crate::controller::{ControlRequest, ControlResponse};
use crate::defect::DefectKind;
use crate::ids::BrokerId;
use crate::node::{Call, Cx, Running};
use crate::peers::{LinkId, Purpose};
use riprap_env::log;
use riprap_protocol::frame::decode_response;
use riprap_protocol::messages::{
    AllocateProducerIdsRequest, AlterPartitionRequest, BrokerHeartbeatRequest, BrokerRegistrationRequest,
    ForwardRequestRequest,
};
use riprap_protocol::{ErrorCode, Uuid};

/// The pause after a request that the controller did not take: an election takes longer than this.
const RETRY_NS: u64 = 50_000_000;

/// How long an orderly end may wait for the controller.
const LEAVE_TIMEOUT_NS: u64 = 1_000_000_000;

/// What a broker remembers of its membership.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    /// A request is on its way.
    is_asking: bool,
    next_at_ns: u64,
    /// When the heartbeat on its way was sent.
    sent_at_ns: u64,
    /// Until then the controller has not taken anything from this broker; see [`Membership::is_in_touch`].
    in_touch_until_ns: u64,
    /// The controller did not hear of it for a whole session. Only a planted bug looks at it.
    pub(crate) lost_its_lease: bool,
    /// The controller refused to register this life, and that was logged.
    was_refused: bool,
    /// The process is to end, at the latest then.
    leave_by_ns: Option<u64>,
}

impl Membership {
    /// Something changed that the controller is to hear of, or that may make it answer now.
    pub(crate) fn hurry(&mut self, now_ns: u64) {
        self.next_at_ns = self.next_at_ns.min(now_ns);
    }

    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        let next = (!self.is_asking).then_some(self.next_at_ns);
        next.into_iter().chain(self.leave_by_ns).min()
    }

    /// Whether the broker certainly is what it was told to be: the controller fences nobody within a session of its last
    /// heartbeat, and a new controller gives everybody a whole session more. A controller that has been replaced answers
    /// nobody, for it leads only as long as those who could vote for another one are bound to it, however late it hears
    /// from them. Only part of a session is counted on, for the clocks of two machines may not run alike.
    pub(crate) fn is_in_touch(&self, now_ns: u64) -> bool {
        now_ns < self.in_touch_until_ns && self.leave_by_ns.is_none()
    }

    fn asked(&mut self, next_at_ns: u64) {
        self.is_asking = false;
        self.next_at_ns = next_at_ns;
    }
}

/// Why the controller does not register a broker, if asking again will not help soon.
fn refusal_to_register(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::STALE_BROKER_EPOCH => Some("it was unregistered; start it anew to bring it back"),
        ErrorCode::INCONSISTENT_CLUSTER_ID => Some("it is of another cluster"),
        ErrorCode::POLICY_VIOLATION => Some("there are as many brokers as there may be"),
        _ => None,
    }
}

impl Running {
    /// The process is asked to end: leaderships move first.
    pub(crate) fn stop(&mut self, cx: &mut Cx<'_>) {
        if self.membership.leave_by_ns.is_none() {
            log!(cx.env, Info, "is asked to end");
            self.membership.leave_by_ns = Some(cx.now_ns + LEAVE_TIMEOUT_NS);
            self.membership.hurry(cx.now_ns);
        }
    }

    /// Registers, or says that the broker lives.
    pub(crate) fn tick_membership(&mut self, cx: &mut Cx<'_>) {
        if self.membership.leave_by_ns.is_some_and(|by| by <= cx.now_ns) {
            self.exit(cx);
            return;
        }
        if self.membership.is_asking || self.membership.next_at_ns > cx.now_ns {
            return;
        }
        // DEFECT lost-lease-unaware: what a broker leads and follows it does not hear of any more once its session has ended.
        let session_ns = self.config.session_timeout_ms * 1_000_000;
        if self.config.has(DefectKind::LostLeaseUnaware) && self.membership.in_touch_until_ns > 0 {
            self.membership.lost_its_lease |= cx.now_ns > self.membership.in_touch_until_ns + session_ns;
        }
        self.membership.is_asking = true;
        self.membership.next_at_ns = cx.now_ns + self.config.heartbeat_interval_ms * 1_000_000;
        self.membership.sent_at_ns = cx.now_ns;
        if self.is_registered() {
            let request = BrokerHeartbeatRequest {
                broker_id: self.config.id.0,
                broker_epoch: self.incarnation.0,
                metadata_offset: self.quorum.applied().0 as i64,
                want_shutdown: self.membership.leave_by_ns.is_some(),
            };
            self.ask_controller(ControlRequest::Heartbeat(request), Call::Heartbeat, cx);
        } else {
            let address = self.config.address();
            let mut incarnation_id = Uuid::ZERO;
            incarnation_id.0[8..].copy_from_slice(&self.incarnation.0.to_be_bytes());
            let request = BrokerRegistrationRequest {
                broker_id: self.config.id.0,
                cluster_id: self.config.cluster_id.clone(),
                incarnation_id,
                host: address.host.clone(),
                port: address.port.into(),
                may_lack_records: self.may_lack_records,
                disk_is_new: self.disk_is_new,
            };
            self.ask_controller(ControlRequest::Register(request), Call::Register, cx);
        }
    }

    /// Sends a request to the controller, wherever it is. The answer comes to [`controller_says`].
    ///
    /// [`controller_says`]: Running::controller_says
    pub(crate) fn ask_controller(&mut self, request: ControlRequest, call: Call, cx: &mut Cx<'_>) {
        let not_there = ControlResponse::Refused(ErrorCode::NOT_CONTROLLER);
        match self.quorum.leader() {
            Some(id) if id == self.config.id => {
                self.control(crate::controller::Origin::Local(call), request, cx);
            }
            Some(to) => {
                let purpose = match &request {
                    ControlRequest::Forward(_) => Purpose::Forward,
                    _ => Purpose::Control,
                };
                let link = LinkId { to, purpose };
                let deadline_ns = cx.now_ns + self.config.peer_timeout_ms * 1_000_000;
                let peers = &mut self.peers;
                let effects = &mut *cx.effects;
                let sent = match &request {
                    ControlRequest::Register(body) => peers.send(link, 0, body, call, deadline_ns, effects),
                    ControlRequest::Heartbeat(body) => peers.send(link, 0, body, call, deadline_ns, effects),
                    ControlRequest::Alter(body) => peers.send(link, 0, body, call, deadline_ns, effects),
                    ControlRequest::Allocate(body) => peers.send(link, 0, body, call, deadline_ns, effects),
                    ControlRequest::Forward(body) => peers.send(link, 0, body, call, deadline_ns, effects),
                };
                if let Err(call) = sent {
                    self.controller_says(call, not_there, cx);
                }
            }
            None => self.controller_says(call, not_there, cx),
        }
    }

    /// The controller on another broker answered.
    pub(crate) fn controller_answered(&mut self, call: Call, frame: bytes::Bytes, cx: &mut Cx<'_>) {
        use ControlResponse as Response;
        let read = match &call {
            Call::Register => decode_response::<BrokerRegistrationRequest>(frame, 0)
                .map(|(_, body)| Response::Register(body)),
            Call::Heartbeat => {
                decode_response::<BrokerHeartbeatRequest>(frame, 0).map(|(_, body)| Response::Heartbeat(body))
            }
            Call::AlterPartition { .. } => {
                decode_response::<AlterPartitionRequest>(frame, 0).map(|(_, body)| Response::Alter(body))
            }
            Call::AllocateProducerIds => decode_response::<AllocateProducerIdsRequest>(frame, 0)
                .map(|(_, body)| Response::Allocate(body)),
            Call::CreateInternalTopic(_) | Call::Forward { .. } => {
                decode_response::<ForwardRequestRequest>(frame, 0).map(|(_, body)| Response::Forward(body))
            }
            Call::AskCoordinator { .. } | Call::EndTransactions { .. } | Call::Fetch(_) | Call::Quorum => {
                return;
            }
        };
        let response = read.unwrap_or_else(|e| {
            log!(cx.env, Warn, "cannot read the controller's answer: {e}");
            Response::Lost
        });
        self.controller_says(call, response, cx);
    }

    /// A request to another broker will not be answered.
    pub(crate) fn lost(&mut self, to: BrokerId, call: Call, cx: &mut Cx<'_>) {
        match call {
            Call::Fetch(asked) => self.fetch_lost(to, &asked, cx.now_ns),
            Call::AskCoordinator { asks } => self.asks_lost(&asks, cx.now_ns),
            Call::EndTransactions { parts } => self.orders_lost(&parts, cx.now_ns),
            call => self.controller_says(call, ControlResponse::Lost, cx),
        }
    }

    /// Takes in what the controller says, be it here or elsewhere.
    pub(crate) fn controller_says(&mut self, call: Call, response: ControlResponse, cx: &mut Cx<'_>) {
        let code = response.error_code();
        let retry_at_ns = cx.now_ns + RETRY_NS;
        match call {
            Call::Register => {
                self.membership.asked(retry_at_ns);
                // Not once: it may have been said before this life was registered, and come late.
                if let Some(why) = refusal_to_register(code)
                    && !std::mem::replace(&mut self.membership.was_refused, true)
                {
                    log!(cx.env, Error, "the controller does not register this broker: {why}");
                }
            }
            Call::Heartbeat => {
                if let ControlResponse::Heartbeat(body) = &response
                    && body.should_shutdown
                {
                    self.exit(cx);
                }
                if let ControlResponse::Heartbeat(body) = &response
                    && code.is_none()
                    && !body.is_fenced
                {
                    let session_ns = self.config.session_timeout_ms * 1_000_000;
                    self.membership.in_touch_until_ns = self.membership.sent_at_ns + session_ns / 4 * 3;
                }
                // What hurried in the meantime was not in the heartbeat.
                let next_at_ns = match code {
                    ErrorCode::NONE => self.membership.next_at_ns.max(cx.now_ns),
                    _ => retry_at_ns,
                };
                self.membership.asked(next_at_ns);
            }
            Call::AlterPartition { asked } => self.isrs_answered(&asked, &response, cx),
            Call::AllocateProducerIds => self.producer_ids_answered(&response, cx),
            Call::CreateInternalTopic(name) => self.internal_topic_answered(name, &response, cx),
            Call::Forward { id } => self.forward_answered(id, response, cx),
            Call::AskCoordinator { .. } | Call::EndTransactions { .. } | Call::Fetch(_) | Call::Quorum => {}
        }
    }
}
