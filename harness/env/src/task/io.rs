//! What tasks ask of the world and of each other.

use super::LocalFuture;
use crate::node::{ConnId, Effect, LogLevel};
use crate::random::Draws;
use bytes::Bytes;
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use thiserror::Error;

/// Nobody listens there, or the connection broke before it stood.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0} refuses connections")]
pub struct Refused(pub String);

/// The task that would have given the value was cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the task was cancelled")]
pub struct Cancelled;

/// What all tasks of a node share.
pub(super) struct Shared {
    now_ns: u64,
    wall_clock_ms: i64,
    draws: Draws,
    conns_opened: u64,
    sockets: BTreeMap<ConnId, Socket>,
    timers: BTreeMap<(u64, u64), Waker>,
    timers_made: u64,
    tasks_made: u64,
    spawned: Vec<(u64, LocalFuture)>,
    cancelled: Vec<u64>,
    effects: Vec<Effect>,
    log: Vec<(LogLevel, String)>,
}

#[derive(Default)]
struct Socket {
    stands: bool,
    is_gone: bool,
    /// Its [`Conn`] was dropped; the entry waits for the driver's last word.
    is_left: bool,
    received: VecDeque<Bytes>,
    waker: Option<Waker>,
}

impl Socket {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Shared {
    pub(super) fn set_time(&mut self, now_ns: u64, wall_clock_ms: i64) {
        (self.now_ns, self.wall_clock_ms) = (now_ns, wall_clock_ms);
    }

    pub(super) fn seed(&mut self, seed: u64) {
        self.draws = Draws::new(seed, "task");
    }

    pub(super) fn spawn(&mut self, future: LocalFuture) -> u64 {
        self.tasks_made += 1;
        self.spawned.push((self.tasks_made, future));
        self.tasks_made
    }

    pub(super) fn take_spawned(&mut self) -> Vec<(u64, LocalFuture)> {
        std::mem::take(&mut self.spawned)
    }

    pub(super) fn take_cancelled(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.cancelled)
    }

    pub(super) fn take_log(&mut self) -> Vec<(LogLevel, String)> {
        std::mem::take(&mut self.log)
    }

    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(super) fn connected(&mut self, conn: ConnId) {
        if let Some(socket) = self.sockets.get_mut(&conn) {
            socket.stands = true;
            socket.wake();
        }
    }

    pub(super) fn received(&mut self, conn: ConnId, bytes: Bytes) {
        if let Some(socket) = self.sockets.get_mut(&conn)
            && !socket.is_left
        {
            socket.received.push_back(bytes);
            socket.wake();
        }
    }

    pub(super) fn closed(&mut self, conn: ConnId) {
        let Some(socket) = self.sockets.get_mut(&conn) else { return };
        if socket.is_left {
            self.sockets.remove(&conn);
        } else {
            socket.is_gone = true;
            socket.wake();
        }
    }

    pub(super) fn fire_timers(&mut self) {
        while let Some(entry) = self.timers.first_entry()
            && entry.key().0 <= self.now_ns
        {
            entry.remove().wake();
        }
    }

    pub(super) fn next_timer_ns(&self) -> Option<u64> {
        self.timers.first_key_value().map(|((at_ns, _), _)| *at_ns)
    }
}

/// A task's hold on the world. Clones are the same.
#[derive(Clone)]
pub struct Io(Rc<RefCell<Shared>>);

impl Io {
    pub(super) fn new() -> Io {
        Io(Rc::new(RefCell::new(Shared {
            now_ns: 0,
            wall_clock_ms: 0,
            draws: Draws::new(0, "task"),
            conns_opened: 0,
            sockets: BTreeMap::new(),
            timers: BTreeMap::new(),
            timers_made: 0,
            tasks_made: 0,
            spawned: Vec::new(),
            cancelled: Vec::new(),
            effects: Vec::new(),
            log: Vec::new(),
        })))
    }

    pub(super) fn shared(&self) -> RefMut<'_, Shared> {
        self.0.borrow_mut()
    }

    /// Monotonic nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.0.borrow().now_ns
    }

    /// The node's wall clock. Units: milliseconds since 1970.
    pub fn wall_clock_ms(&self) -> i64 {
        self.0.borrow().wall_clock_ms
    }

    /// A random number: a function of the seed, the node, its life, `purpose` and how often that purpose was drawn.
    pub fn random_u64(&self, purpose: &'static str) -> u64 {
        self.shared().draws.next_u64(purpose)
    }

    /// Writes a line into the node's log.
    pub fn log(&self, level: LogLevel, line: fmt::Arguments<'_>) {
        self.shared().log.push((level, line.to_string()));
    }

    /// Runs a future beside the task that spawns it. Dropping the handle cancels it.
    #[must_use = "a task whose handle is dropped is cancelled"]
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> TaskHandle<T> {
        let result = Rc::new(RefCell::new(Outcome { value: None, is_over: false, waker: None }));
        let ending = Ending(Rc::clone(&result));
        let id = self.shared().spawn(Box::pin(async move {
            let value = future.await;
            ending.0.borrow_mut().value = Some(value);
            drop(ending);
        }));
        TaskHandle { io: self.clone(), id: Some(id), result }
    }

    /// Opens a connection to `host:port`.
    pub async fn connect(&self, to: &str) -> Result<Conn, Refused> {
        let conn = {
            let mut shared = self.shared();
            let id = ConnId::opened_by_node(shared.conns_opened);
            shared.conns_opened += 1;
            shared.sockets.insert(id, Socket::default());
            shared.effects.push(Effect::Connect { conn: id, to: to.to_owned() });
            Conn { io: self.clone(), id }
        };
        poll_fn(|cx| {
            conn.with(|socket| match socket {
                Socket { is_gone: true, .. } => Poll::Ready(Err(Refused(to.to_owned()))),
                Socket { stands: true, .. } => Poll::Ready(Ok(())),
                socket => {
                    socket.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            })
        })
        .await?;
        Ok(conn)
    }

    /// Waits until that time, on the clock of [`Io::now_ns`].
    pub fn sleep_until(&self, at_ns: u64) -> Sleep {
        Sleep { io: self.clone(), at_ns, timer: None }
    }

    /// Waits for so long.
    pub fn sleep(&self, for_ns: u64) -> Sleep {
        self.sleep_until(self.now_ns().saturating_add(for_ns))
    }

    /// Waits for a future, but not beyond that time: `None` if it was not ready by then. It is then dropped where it is.
    pub async fn by<T>(&self, at_ns: u64, future: impl Future<Output = T>) -> Option<T> {
        match first(future, self.sleep_until(at_ns)).await {
            First::Left(value) => Some(value),
            First::Right(()) => None,
        }
    }
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Io")
    }
}

/// Which of two futures was ready first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum First<L, R> {
    /// The first argument; also if both were.
    Left(L),
    /// The second.
    Right(R),
}

/// Waits for either of two futures; the other is dropped where it is.
pub async fn first<L, R>(left: impl Future<Output = L>, right: impl Future<Output = R>) -> First<L, R> {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(|cx| match left.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(First::Left(value)),
        Poll::Pending => right.as_mut().poll(cx).map(First::Right),
    })
    .await
}

/// See [`Io::sleep_until`].
#[derive(Debug)]
pub struct Sleep {
    io: Io,
    at_ns: u64,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (io, at_ns) = (self.io.clone(), self.at_ns);
        let mut shared = io.shared();
        if shared.now_ns >= at_ns {
            return Poll::Ready(());
        }
        let timer = *self.timer.get_or_insert_with(|| {
            shared.timers_made += 1;
            shared.timers_made
        });
        shared.timers.insert((at_ns, timer), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.io.shared().timers.remove(&(self.at_ns, timer));
        }
    }
}

/// An open connection. Dropping it closes it, after what was sent has gone out.
#[derive(Debug)]
pub struct Conn {
    io: Io,
    id: ConnId,
}

impl Conn {
    fn with<T>(&self, f: impl FnOnce(&mut Socket) -> T) -> T {
        f(self
            .io
            .shared()
            .sockets
            .get_mut(&self.id)
            .expect("an entry lives at least as long as its connection"))
    }

    /// Sends bytes. They are lost if the connection is gone.
    pub fn send(&self, bytes: Bytes) {
        let mut shared = self.io.shared();
        let socket = shared.sockets.get(&self.id).expect("an entry lives at least as long as its connection");
        if !socket.is_gone {
            shared.effects.push(Effect::Send { conn: self.id, bytes });
        }
    }

    /// The next bytes, cut anywhere; `None` once the connection is gone. One task at a time may wait.
    pub async fn receive(&self) -> Option<Bytes> {
        poll_fn(|cx| {
            self.with(|socket| match socket.received.pop_front() {
                Some(bytes) => Poll::Ready(Some(bytes)),
                None if socket.is_gone => Poll::Ready(None),
                None => {
                    socket.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            })
        })
        .await
    }

    /// Whether the connection is known to be gone.
    pub fn is_gone(&self) -> bool {
        self.with(|socket| socket.is_gone)
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        let mut shared = self.io.shared();
        let socket =
            shared.sockets.get_mut(&self.id).expect("an entry lives at least as long as its connection");
        if socket.is_gone {
            shared.sockets.remove(&self.id);
            return;
        }
        socket.is_left = true;
        socket.received.clear();
        shared.effects.push(Effect::Close { conn: self.id });
    }
}

struct Outcome<T> {
    value: Option<T>,
    is_over: bool,
    waker: Option<Waker>,
}

/// Marks an outcome as over when its task ends, in whatever way.
struct Ending<T>(Rc<RefCell<Outcome<T>>>);

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        let mut outcome = self.0.borrow_mut();
        outcome.is_over = true;
        if let Some(waker) = outcome.waker.take() {
            waker.wake();
        }
    }
}

/// A task that was spawned. Dropping the handle cancels the task; awaiting it gives what the task gives.
pub struct TaskHandle<T> {
    io: Io,
    id: Option<u64>,
    result: Rc<RefCell<Outcome<T>>>,
}

impl<T> TaskHandle<T> {
    /// Lets the task go on by itself.
    pub fn detach(mut self) {
        self.id = None;
    }

    /// Whether the task has ended.
    pub fn is_over(&self) -> bool {
        self.result.borrow().is_over
    }
}

impl<T> fmt::Debug for TaskHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<T> Future for TaskHandle<T> {
    type Output = Result<T, Cancelled>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, Cancelled>> {
        let mut outcome = self.result.borrow_mut();
        match outcome.value.take() {
            Some(value) => Poll::Ready(Ok(value)),
            None if outcome.is_over => Poll::Ready(Err(Cancelled)),
            None => {
                outcome.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for TaskHandle<T> {
    fn drop(&mut self) {
        if let Some(id) = self.id
            && !self.result.borrow().is_over
        {
            self.io.shared().cancelled.push(id);
        }
    }
}

/// Something that tasks wait for and others tell of. It keeps no count: who waits afterwards waits for the next time.
#[derive(Default, Debug)]
pub struct Signal {
    waiting: RefCell<Vec<Waker>>,
    times: RefCell<u64>,
}

impl Signal {
    /// Wakes all that wait.
    pub fn tell(&self) {
        *self.times.borrow_mut() += 1;
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    /// Waits until it is told from now on: from this call, not from the first time that the future is polled.
    pub fn told(&self) -> impl Future<Output = ()> + '_ {
        let before = *self.times.borrow();
        poll_fn(move |cx| {
            if *self.times.borrow() != before {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            // One who also waits for something else asks again and again.
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }
}

/// A queue into a node: whoever drives the node puts values in, and a task takes them out. The driver then has to let the
/// node settle. Clones are the same.
#[derive(Debug)]
pub struct Inbox<T>(Rc<(RefCell<VecDeque<T>>, Signal)>);

impl<T> Clone for Inbox<T> {
    fn clone(&self) -> Inbox<T> {
        Inbox(Rc::clone(&self.0))
    }
}

impl<T> Default for Inbox<T> {
    fn default() -> Inbox<T> {
        Inbox(Rc::new((RefCell::default(), Signal::default())))
    }
}

impl<T> Inbox<T> {
    /// Puts a value in.
    pub fn put(&self, value: T) {
        self.0.0.borrow_mut().push_back(value);
        self.0.1.tell();
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.0.borrow().is_empty()
    }

    /// The oldest value, if there is one.
    pub fn try_take(&self) -> Option<T> {
        self.0.0.borrow_mut().pop_front()
    }

    /// Waits for the oldest value.
    pub async fn take(&self) -> T {
        loop {
            match self.try_take() {
                Some(value) => return value,
                None => self.0.1.told().await,
            }
        }
    }
}
