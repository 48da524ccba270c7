//! Ids for producers: each broker hands out those of a block that the controller gave to it alone.
//!
//! Source: KIP-730.

use crate::connection::ReplyTo;
use crate::controller::{ControlRequest, ControlResponse};
use crate::node::{Call, Cx, Running};
use riprap_env::ConnId;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{AllocateProducerIdsRequest, InitProducerIdRequest, InitProducerIdResponse};
use std::collections::VecDeque;

/// The pause after a request for a block that was not answered well.
const RETRY_NS: u64 = 100_000_000;

/// How long a producer may wait for its id: less than clients wait for an answer.
const WAIT_NS: u64 = 5_000_000_000;

/// The ids that this broker may hand out, and who waits for one.
#[derive(Debug, Default)]
pub(crate) struct ProducerIds {
    next: i64,
    end: i64,
    is_asking: bool,
    retry_at_ns: u64,
    waiting: VecDeque<(Waiter, u64)>,
    /// A coordinator had none to give.
    is_short: bool,
}

/// Who waits for an id.
#[derive(Debug)]
enum Waiter {
    Idempotent(ReplyTo),
    Transactional(ReplyTo, InitProducerIdRequest),
}

impl Waiter {
    fn to(&self) -> ReplyTo {
        match self {
            Waiter::Idempotent(to) | Waiter::Transactional(to, _) => *to,
        }
    }
}

impl ProducerIds {
    pub(crate) fn forget(&mut self, conn: ConnId) {
        self.waiting.retain(|(waiter, _)| waiter.to().conn != conn);
    }

    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        let deadline_ns = self.waiting.front().map(|(_, deadline_ns)| *deadline_ns);
        let asks = !self.is_asking && (self.is_short || deadline_ns.is_some());
        asks.then_some(self.retry_at_ns).into_iter().chain(deadline_ns).min()
    }

    /// An id that nobody was given; none: there is none just now.
    pub(crate) fn fresh(&mut self) -> Option<i64> {
        self.is_short = self.next >= self.end;
        (!self.is_short).then(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

impl Running {
    pub(crate) fn on_init_producer_id(
        &mut self,
        to: ReplyTo,
        request: &InitProducerIdRequest,
        cx: &mut Cx<'_>,
    ) {
        if request.transactional_id.is_some() {
            // One may be needed, and the coordinator does not wait for it.
            let waiter = Waiter::Transactional(to, request.clone());
            self.producer_ids.waiting.push_back((waiter, cx.now_ns + WAIT_NS));
            self.hand_out_producer_ids(cx);
            return;
        }
        // An idempotent producer that lost track asks again with its old id: a new one ends what the old one had in
        // flight as well as a new epoch would. Source: KIP-360.
        self.producer_ids.waiting.push_back((Waiter::Idempotent(to), cx.now_ns + WAIT_NS));
        self.hand_out_producer_ids(cx);
    }

    fn hand_out_producer_ids(&mut self, cx: &mut Cx<'_>) {
        while self.producer_ids.next < self.producer_ids.end {
            let Some((waiter, _)) = self.producer_ids.waiting.pop_front() else { return };
            let to = match waiter {
                Waiter::Idempotent(to) => to,
                Waiter::Transactional(to, request) => {
                    self.init_transactional(to, &request, cx);
                    continue;
                }
            };
            let producer_id = self.producer_ids.next;
            self.producer_ids.next += 1;
            let response = InitProducerIdResponse { producer_id, producer_epoch: 0, ..Default::default() };
            self.reply(to, &response, cx);
        }
    }

    /// Asks for a block if somebody waits, and tells those who waited too long.
    pub(crate) fn ask_for_producer_ids(&mut self, cx: &mut Cx<'_>) {
        while self.producer_ids.waiting.front().is_some_and(|(_, by)| *by <= cx.now_ns)
            && let Some((waiter, _)) = self.producer_ids.waiting.pop_front()
        {
            match waiter {
                Waiter::Idempotent(to) => {
                    let error_code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
                    let response =
                        InitProducerIdResponse { error_code, producer_epoch: -1, ..Default::default() };
                    self.reply(to, &response, cx);
                }
                // It may not need one.
                Waiter::Transactional(to, request) => self.init_transactional(to, &request, cx),
            }
        }
        let ids = &mut self.producer_ids;
        if (ids.waiting.is_empty() && !ids.is_short) || ids.is_asking || ids.retry_at_ns > cx.now_ns {
            return;
        }
        ids.is_asking = true;
        let request =
            AllocateProducerIdsRequest { broker_id: self.config.id.0, broker_epoch: self.incarnation.0 };
        self.ask_controller(ControlRequest::Allocate(request), Call::AllocateProducerIds, cx);
    }

    pub(crate) fn producer_ids_answered(&mut self, response: &ControlResponse, cx: &mut Cx<'_>) {
        self.producer_ids.is_asking = false;
        match response {
            ControlResponse::Allocate(body) if body.error_code.is_none() && body.len > 0 => {
                self.producer_ids.next = body.start;
                self.producer_ids.end = body.start + i64::from(body.len);
                self.producer_ids.is_short = false;
                self.hand_out_producer_ids(cx);
            }
            _ => self.producer_ids.retry_at_ns = cx.now_ns + RETRY_NS,
        }
    }
}
