//! One connection: made when it is needed, greeted with ApiVersions, closed when a request is not answered in time.
//!
//! ```text
//! down -> connecting -> (ApiVersions) -> up -> down        after each end a pause, longer from failure to failure
//! ```
//!
//! A request whose connection is lost may have been carried out, or may yet be: its bytes may still be on their way. A
//! request that waits for a connection in vain was never sent, and who asked knows that.
//!
//! Source: Java's NetworkClient and ClusterConnectionStates; KIP-511 (ApiVersions), KIP-601 (time to connect).

use crate::backoff::{Backoff, ns};
use crate::options::Options;
use bytes::Bytes;
use riprap_env::LogLevel;
use riprap_env::task::{Conn, Io, Signal, TaskHandle};
use riprap_protocol::frame::{
    FrameReader, MAX_RESPONSE_SIZE_BYTES, RequestHeader, correlation_id, decode_response, encode_request,
};
use riprap_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use riprap_protocol::{Message as _, Request};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The highest version of a request that both sides speak.
pub(crate) const LATEST_VERSION: i16 = i16::MAX;

/// Why a request has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallError {
    /// It never went out.
    NotSent,
    /// It went out. Whether it was or will be carried out nobody knows.
    Lost,
    /// The broker speaks no version of it that will do; it never went out.
    Unsupported,
}

/// What a broker speaks.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    by_key: BTreeMap<i16, (i16, i16)>,
    /// The level of the feature `transaction.version`.
    pub(crate) transactions: i16,
}

impl Versions {
    fn of(response: &ApiVersionsResponse) -> Versions {
        let by_key =
            response.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version))).collect();
        let mut features = response.finalized_features.iter();
        let transactions = features.find(|feature| feature.name == "transaction.version");
        Versions { by_key, transactions: transactions.map_or(0, |feature| feature.max_version_level) }
    }

    /// The highest version of a request that both sides speak, and that is no higher than asked for.
    fn best<R: Request>(&self, at_most: i16) -> Option<i16> {
        let (min, max) = *self.by_key.get(&R::KEY.code())?;
        let best = max.min(at_most).min(*R::VERSIONS.end());
        (best >= min.max(*R::VERSIONS.start())).then_some(best)
    }
}

/// Where the answer to a request is put.
#[derive(Default)]
struct Slot {
    /// The frame; none if the connection was lost.
    answer: RefCell<Option<Option<Bytes>>>,
    waker: RefCell<Option<Waker>>,
}

impl Slot {
    fn put(&self, answer: Option<Bytes>) {
        *self.answer.borrow_mut() = Some(answer);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    async fn take(&self) -> Option<Bytes> {
        poll_fn(|cx| match self.answer.borrow_mut().take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                *self.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

enum State {
    Down { not_before_ns: u64 },
    Connecting,
    Up { conn: Rc<Conn>, versions: Rc<Versions> },
}

/// One connection of a client; see the module.
pub(crate) struct Link {
    io: Io,
    options: Rc<Options>,
    address: Rc<str>,
    client_id: Option<String>,
    state: RefCell<State>,
    backoff: RefCell<Backoff>,
    /// Tells of a state that changed.
    changed: Signal,
    next_correlation_id: Cell<i32>,
    /// Requests that wait for their answers, each with the time when it is given up.
    waiting: RefCell<BTreeMap<i32, (Rc<Slot>, u64)>>,
    task: RefCell<Option<TaskHandle<()>>>,
}

impl Link {
    pub(super) fn new(io: &Io, options: &Rc<Options>, address: Rc<str>, client_id: &str) -> Link {
        Link {
            io: io.clone(),
            options: Rc::clone(options),
            address,
            client_id: Some(client_id.to_owned()),
            state: RefCell::new(State::Down { not_before_ns: 0 }),
            backoff: RefCell::new(Backoff::new(options.reconnect_backoff)),
            changed: Signal::default(),
            next_correlation_id: Cell::new(0),
            waiting: RefCell::default(),
            task: RefCell::default(),
        }
    }

    /// Whether a request would be sent now or soon: it is not waited after a failure.
    pub(crate) fn may_be_tried(&self) -> bool {
        !matches!(*self.state.borrow(), State::Down { not_before_ns } if not_before_ns > self.io.now_ns())
    }

    /// Waits until the connection stands. After a failure it is not tried again for a while: then the error comes at once.
    pub(crate) async fn ready(self: &Rc<Link>) -> Result<(Rc<Conn>, Rc<Versions>), CallError> {
        loop {
            // From here on, so that no change is missed.
            let told = self.changed.told();
            if !self.may_be_tried() {
                return Err(CallError::NotSent);
            }
            let is_down = match &*self.state.borrow() {
                State::Up { conn, .. } if conn.is_gone() => return Err(CallError::NotSent),
                State::Up { conn, versions } => return Ok((Rc::clone(conn), Rc::clone(versions))),
                State::Connecting => false,
                State::Down { .. } => true,
            };
            if is_down {
                *self.state.borrow_mut() = State::Connecting;
                let task = self.io.spawn(run(Rc::clone(self)));
                let former = self.task.borrow_mut().replace(task);
                drop(former);
            }
            told.await;
        }
    }

    /// Sends a request and waits for its answer. `body` makes it for the version that was agreed on, of which there is one
    /// no higher than `at_most`. After `timeout_ns` the connection is closed.
    pub(crate) async fn call<R: Request>(
        self: &Rc<Link>,
        at_most: i16,
        timeout_ns: u64,
        body: impl FnOnce(i16) -> R,
    ) -> Result<R::Response, CallError> {
        let (conn, versions) = self.ready().await?;
        let version = versions.best::<R>(at_most).ok_or(CallError::Unsupported)?;
        let now_ns = self.io.now_ns();
        if self.waiting.borrow().values().any(|(_, by_ns)| *by_ns <= now_ns) {
            // Whoever sent that does not wait any more.
            self.fail("a request was not answered in time");
            return Err(CallError::NotSent);
        }
        let slot = Rc::new(Slot::default());
        let id = self.send(&conn, version, &body(version));
        let by_ns = now_ns.saturating_add(timeout_ns);
        self.waiting.borrow_mut().insert(id, (Rc::clone(&slot), by_ns));
        drop(conn);
        let Some(answer) = self.io.by(by_ns, slot.take()).await else {
            self.fail(format_args!("{} was not answered in time", R::KEY));
            return Err(CallError::Lost);
        };
        let frame = answer.ok_or(CallError::Lost)?;
        match decode_response::<R>(frame, version) {
            Ok((_, response)) => Ok(response),
            Err(why) => {
                self.fail(format_args!("malformed answer to {} version {version}: {why}", R::KEY));
                Err(CallError::Lost)
            }
        }
    }

    /// Sends a request that has no answer.
    pub(crate) async fn tell<R: Request>(
        self: &Rc<Link>,
        at_most: i16,
        body: impl FnOnce(i16) -> R,
    ) -> Result<(), CallError> {
        let (conn, versions) = self.ready().await?;
        let version = versions.best::<R>(at_most).ok_or(CallError::Unsupported)?;
        self.send(&conn, version, &body(version));
        Ok(())
    }

    fn send<R: Request>(&self, conn: &Conn, version: i16, body: &R) -> i32 {
        let id = self.next_correlation_id.get();
        self.next_correlation_id.set(id.wrapping_add(1) & i32::MAX);
        let header = RequestHeader {
            api_key: R::KEY,
            api_version: version,
            correlation_id: id,
            client_id: self.client_id.clone(),
        };
        conn.send(encode_request(&header, body).expect("the client's requests fit their versions"));
        id
    }

    /// Gives the connection up: whatever waits on it is lost.
    fn fail(&self, why: impl std::fmt::Display) {
        self.io.log(LogLevel::Debug, format_args!("{}: {why}", self.address));
        let task = self.task.take();
        drop(task);
        self.go_down();
    }

    fn go_down(&self) {
        let not_before_ns = self.io.now_ns() + self.backoff.borrow_mut().next_ns(&self.io);
        let former = self.state.replace(State::Down { not_before_ns });
        drop(former);
        for (slot, _) in self.waiting.take().into_values() {
            slot.put(None);
        }
        self.changed.tell();
    }

    /// Closes the connection for good.
    pub(super) fn shut_down(&self) {
        let task = self.task.take();
        drop(task);
        let former = self.state.replace(State::Down { not_before_ns: u64::MAX });
        drop(former);
    }

    async fn greet(&self) -> Result<(Conn, FrameReader, Versions), String> {
        let conn = self.io.connect(&self.address).await.map_err(|refused| refused.to_string())?;
        let version = *ApiVersionsRequest::VERSIONS.end();
        let body = ApiVersionsRequest {
            client_software_name: "riprap".to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        self.send(&conn, version, &body);
        let mut reader = FrameReader::new(MAX_RESPONSE_SIZE_BYTES);
        loop {
            let bytes = conn.receive().await.ok_or("closed before it was greeted")?;
            reader.push(&bytes);
            let Some(frame) = reader.next_frame().map_err(|why| why.to_string())? else { continue };
            // A broker that does not know the version answers in version 0. Source: KIP-511.
            let answer = decode_response::<ApiVersionsRequest>(frame.clone(), version)
                .or_else(|_| decode_response::<ApiVersionsRequest>(frame, 0));
            let (_, answer) = answer.map_err(|why| why.to_string())?;
            return Ok((conn, reader, Versions::of(&answer)));
        }
    }

    /// Hands a frame to whoever waits for it.
    fn answered(&self, frame: Bytes) -> Result<(), String> {
        let id = correlation_id(&frame).map_err(|why| why.to_string())?;
        let slot = self.waiting.borrow_mut().remove(&id);
        let (slot, _) = slot.ok_or_else(|| format!("an answer to request {id}, which was not sent"))?;
        slot.put(Some(frame));
        Ok(())
    }
}

/// The life of a connection.
async fn run(link: Rc<Link>) {
    let by_ns = link.io.now_ns() + ns(link.options.connection_setup_timeout);
    let why = match link.io.by(by_ns, link.greet()).await {
        None => "does not stand in time".to_owned(),
        Some(Err(why)) => why,
        Some(Ok((conn, mut reader, versions))) => {
            let conn = Rc::new(conn);
            *link.state.borrow_mut() = State::Up { conn: Rc::clone(&conn), versions: Rc::new(versions) };
            link.backoff.borrow_mut().reset();
            link.changed.tell();
            read(&link, &conn, &mut reader).await
        }
    };
    link.io.log(LogLevel::Debug, format_args!("{}: {why}", link.address));
    link.go_down();
}

/// Reads answers until the connection is of no more use; returns why.
async fn read(link: &Link, conn: &Conn, reader: &mut FrameReader) -> String {
    while let Some(bytes) = conn.receive().await {
        reader.push(&bytes);
        loop {
            match reader.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    if let Err(why) = link.answered(frame) {
                        return why;
                    }
                }
                Err(why) => return why.to_string(),
            }
        }
    }
    "closed".to_owned()
}
