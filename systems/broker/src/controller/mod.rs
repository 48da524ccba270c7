//! The controller: the broker that leads the metadata quorum.
//!
//! It decides against its own image, which is the agreed one with all that it proposed since applied to it. That is
//! safe because the log is its alone: it begins to decide when all entries of earlier terms are applied, and from then
//! on nobody else's entry can get into the log before it stops to lead; so its proposals are agreed on in the order in
//! which it made them, or from some point on not at all. It therefore answers no request before all that the answer
//! rests on is agreed on, and when it stops to lead it says NOT_CONTROLLER to all who still wait: what they asked for
//! may have happened or may happen yet.

mod act;
mod admin;
pub(crate) mod configs;
pub(crate) mod decide;
mod reassign;
pub(crate) mod topics;

use crate::connection::ReplyTo;
use crate::defect::DefectKind;
use crate::ids::BrokerId;
use crate::metadata::{Image, Record};
use crate::node::{Call, Cx, Running};
use riprap_coord::{Index, Term};
use riprap_env::log;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, AlterPartitionRequest, AlterPartitionResponse,
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationRequest, BrokerRegistrationResponse,
    ForwardRequestRequest, ForwardRequestResponse,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// How often sessions are looked at.
const TICK_NS: u64 = 100_000_000;

/// Most requests that wait for agreement: each broker has few on its way, and clients' come through brokers.
const MAX_ANSWERS: usize = 10_000;

/// How long the maker of a topic waits for its leaders to serve, once it is agreed on: well below the time after which a
/// broker gives up a request that it passed on.
const SERVE_TIMEOUT_NS: u64 = 1_000_000_000;

/// What is asked of the controller.
#[derive(Debug)]
pub(crate) enum ControlRequest {
    Allocate(AllocateProducerIdsRequest),
    Alter(AlterPartitionRequest),
    Forward(ForwardRequestRequest),
    Heartbeat(BrokerHeartbeatRequest),
    Register(BrokerRegistrationRequest),
}

/// What it answers.
#[derive(Debug)]
pub(crate) enum ControlResponse {
    Allocate(AllocateProducerIdsResponse),
    Alter(AlterPartitionResponse),
    Forward(ForwardRequestResponse),
    Heartbeat(BrokerHeartbeatResponse),
    Register(BrokerRegistrationResponse),
    /// Nothing was done.
    Refused(ErrorCode),
    /// The connection broke before the answer came.
    Lost,
}

impl ControlResponse {
    pub(crate) fn error_code(&self) -> ErrorCode {
        match self {
            ControlResponse::Allocate(body) => body.error_code,
            ControlResponse::Alter(body) => body.error_code,
            ControlResponse::Forward(body) => body.error_code,
            ControlResponse::Heartbeat(body) => body.error_code,
            ControlResponse::Register(body) => body.error_code,
            ControlResponse::Refused(code) => *code,
            ControlResponse::Lost => ErrorCode::NETWORK_EXCEPTION,
        }
    }
}

/// Who asked.
#[derive(Debug)]
pub(crate) enum Origin {
    /// Another broker.
    Remote(ReplyTo),
    /// This broker.
    Local(Call),
}

impl ControlRequest {
    /// The same kind of answer, saying no more than an error.
    fn refusal(&self, error_code: ErrorCode) -> ControlResponse {
        match self {
            ControlRequest::Allocate(_) => {
                ControlResponse::Allocate(AllocateProducerIdsResponse { error_code, ..Default::default() })
            }
            ControlRequest::Alter(_) => {
                ControlResponse::Alter(AlterPartitionResponse { error_code, ..Default::default() })
            }
            ControlRequest::Forward(_) => {
                ControlResponse::Forward(ForwardRequestResponse { error_code, ..Default::default() })
            }
            ControlRequest::Heartbeat(_) => {
                ControlResponse::Heartbeat(BrokerHeartbeatResponse { error_code, ..Default::default() })
            }
            ControlRequest::Register(_) => {
                ControlResponse::Register(BrokerRegistrationResponse { error_code, ..Default::default() })
            }
        }
    }
}

/// An answer that waits until what it rests on is agreed on.
#[derive(Debug)]
struct Answer {
    origin: Origin,
    /// If all goes well.
    response: ControlResponse,
    /// If this broker stops to lead.
    refusal: ControlResponse,
    /// Also waits until these have applied it, or the time comes.
    serving: Option<Serving>,
}

/// Brokers that have to apply an entry before they serve what it made.
#[derive(Debug)]
struct Serving {
    leaders: BTreeSet<BrokerId>,
    deadline_ns: u64,
}

/// What the controller knows of a broker's process.
#[derive(Clone, Copy, Debug)]
struct Session {
    heard_ns: u64,
    /// A fenced broker takes part again once it has applied this.
    catch_up_to: Index,
}

/// The state of a controllership: one term.
#[derive(Debug)]
pub(crate) struct Controller {
    term: Term,
    /// The agreed image and all that was proposed since.
    image: Image,
    last_proposed: Index,
    sessions: BTreeMap<BrokerId, Session>,
    answers: BTreeMap<Index, Vec<Answer>>,
    serving: Vec<(Index, Answer)>,
    last_tick_ns: u64,
}

impl Controller {
    fn new(term: Term, image: &Image, applied: Index, now_ns: u64) -> Controller {
        // Who takes part is given a whole session to be heard by the new controller.
        let session = Session { heard_ns: now_ns, catch_up_to: applied };
        Controller {
            term,
            image: image.clone(),
            last_proposed: applied,
            sessions: image.brokers().map(|(id, _)| (id, session)).collect(),
            answers: BTreeMap::new(),
            serving: Vec::new(),
            last_tick_ns: now_ns,
        }
    }

    pub(crate) fn wake_at_ns(&self) -> u64 {
        self.last_tick_ns + TICK_NS
    }

    /// Everything that waits, to be refused.
    fn into_answers(self) -> impl Iterator<Item = Answer> {
        self.answers.into_values().flatten().chain(self.serving.into_iter().map(|(_, answer)| answer))
    }
}

impl Running {
    /// Takes up or lays down the controllership as the quorum's leadership is.
    pub(crate) fn follow_leadership(&mut self, cx: &mut Cx<'_>) {
        let term = self.quorum.leads_in();
        if self.controller.as_ref().map(|controller| controller.term) == term {
            return;
        }
        if let Some(controller) = self.controller.take() {
            log!(cx.env, Info, "controller of term {} no longer", controller.term);
            for answer in controller.into_answers() {
                self.send_answer(answer.origin, answer.refusal, cx);
            }
        }
        if let Some(term) = term {
            log!(cx.env, Info, "controller of term {term}");
            let (image, applied) = (self.quorum.image(), self.quorum.applied());
            self.controller = Some(Controller::new(term, image, applied, cx.now_ns));
            self.membership.hurry(cx.now_ns);
        }
    }

    /// Proposes records and has the controller's image include them. Errors: nothing was proposed.
    fn propose(&mut self, records: &[Record], cx: &mut Cx<'_>) -> Result<Index, ErrorCode> {
        let controller = self.controller.as_mut().ok_or(ErrorCode::NOT_CONTROLLER)?;
        let mut records = Cow::from(records);
        // DEFECT last-replica-standing: who has all that is committed without being in the ISR is not remembered, so that the
        // last in it stays the only one to lead, whatever it lost.
        if self.config.has(DefectKind::LastReplicaStanding) {
            for record in records.to_mut() {
                if let Record::SetPartition { state, .. } = record {
                    state.elr.clear();
                }
            }
        }
        match self.quorum.propose(&records) {
            Ok(index) => {
                records.iter().for_each(|record| controller.image.apply(record));
                controller.last_proposed = index;
                self.quorum_is_due = true;
                Ok(index)
            }
            Err(e) => {
                log!(cx.env, Warn, "controller: cannot propose: {e}");
                Err(ErrorCode::NOT_CONTROLLER)
            }
        }
    }

    /// Answers once all that was proposed so far is agreed on.
    fn answer_later(
        &mut self,
        origin: Origin,
        response: ControlResponse,
        refusal: ControlResponse,
        serving: Option<Serving>,
        cx: &mut Cx<'_>,
    ) {
        let applied = self.quorum.applied();
        let Some(controller) = self.controller.as_mut() else {
            self.send_answer(origin, refusal, cx);
            return;
        };
        if controller.last_proposed <= applied && serving.is_none() {
            self.send_answer(origin, response, cx);
        } else if controller.answers.values().map(Vec::len).sum::<usize>() >= MAX_ANSWERS {
            self.send_answer(origin, refusal, cx);
        } else {
            let answer = Answer { origin, response, refusal, serving };
            controller.answers.entry(controller.last_proposed).or_default().push(answer);
        }
    }

    /// Sends the answers that rest on what is agreed on by now.
    pub(crate) fn answer_agreed(&mut self, cx: &mut Cx<'_>) {
        let applied = self.quorum.applied();
        let Some(controller) = self.controller.as_mut() else { return };
        let later = controller.answers.split_off(&applied.next());
        let agreed = std::mem::replace(&mut controller.answers, later);
        let mut now = Vec::new();
        for (index, answers) in agreed {
            for answer in answers {
                match answer.serving {
                    None => now.push(answer),
                    Some(_) => controller.serving.push((index, answer)),
                }
            }
        }
        for answer in now {
            self.send_answer(answer.origin, answer.response, cx);
        }
        self.answer_served(cx);
    }

    /// Sends the answers that waited for leaders to serve.
    fn answer_served(&mut self, cx: &mut Cx<'_>) {
        let Some(controller) = self.controller.as_mut() else { return };
        let now_ns = cx.now_ns;
        let is_done = |answer: &Answer| {
            let serving = answer.serving.as_ref();
            serving.is_none_or(|serving| serving.leaders.is_empty() || serving.deadline_ns <= now_ns)
        };
        let (done, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut controller.serving).into_iter().partition(|(_, answer)| is_done(answer));
        controller.serving = waiting;
        for (_, answer) in done {
            self.send_answer(answer.origin, answer.response, cx);
        }
    }

    fn send_answer(&mut self, origin: Origin, response: ControlResponse, cx: &mut Cx<'_>) {
        match origin {
            Origin::Local(call) => self.controller_says(call, response, cx),
            Origin::Remote(to) => match response {
                ControlResponse::Allocate(body) => self.reply(to, &body, cx),
                ControlResponse::Alter(body) => self.reply(to, &body, cx),
                ControlResponse::Forward(body) => self.reply(to, &body, cx),
                ControlResponse::Heartbeat(body) => self.reply(to, &body, cx),
                ControlResponse::Register(body) => self.reply(to, &body, cx),
                ControlResponse::Refused(_) | ControlResponse::Lost => {
                    unreachable!("requests are refused in their own kind of answer")
                }
            },
        }
    }
}
