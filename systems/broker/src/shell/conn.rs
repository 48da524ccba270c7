//! One connection of the shell: a task that moves bytes between a socket and the node's queues.
//!
//! How a connection ends:
//! - the other side closes or breaks it, or says nothing for too long: `Closed` is reported at once, what the node had sent before still goes out;
//! - its other side takes nothing for too long while much waits for everybody: `Stalled` is reported, and it is cut off;
//! - the node closes it: what it sent goes out, then the end of the stream, then the task reads on until the other
//!   side closes too. Closing a socket that holds unread bytes would send a reset, and a reset makes the other side
//!   forget the answer that it has not read yet;
//! - the driver aborts it: at once.

use super::Limits;
use bytes::{Buf, Bytes};
use riprap_env::ConnId;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// What the tasks report to the loop. `Stalled` also means that it is closed; `Drained`, that all that was sent is taken,
/// and the node waits for that.
pub(super) enum Incoming {
    Accepted { stream: TcpStream, peer: SocketAddr },
    AcceptFailed(io::Error),
    Connected { conn: ConnId },
    Received { conn: ConnId, bytes: Bytes },
    Drained { conn: ConnId },
    Stalled { conn: ConnId, unsent_bytes: usize },
    Closed { conn: ConnId },
}

/// What every connection's task needs.
#[derive(Clone)]
pub(super) struct Shared {
    inbox: mpsc::Sender<Incoming>,
    /// Reading goes through one buffer, so that an idle connection costs none and a short read pins no large one.
    scratch: Rc<RefCell<Vec<u8>>>,
    unsent_in_all_bytes: Rc<Cell<usize>>,
    limits: Limits,
}

impl Shared {
    pub(super) fn new(inbox: mpsc::Sender<Incoming>, limits: Limits) -> Shared {
        let scratch = Rc::new(RefCell::new(vec![0; limits.read_bytes]));
        Shared { inbox, scratch, unsent_in_all_bytes: Rc::default(), limits }
    }

    /// What was given to all connections and has not gone out.
    pub(super) fn unsent_in_all_bytes(&self) -> usize {
        self.unsent_in_all_bytes.get()
    }
}

/// What was given to a connection and has not gone out.
struct Unsent {
    bytes: Cell<usize>,
    in_all_bytes: Rc<Cell<usize>>,
    /// The node has asked while there was some.
    is_awaited: Cell<bool>,
}

impl Unsent {
    fn new(shared: &Shared) -> Rc<Unsent> {
        let in_all_bytes = shared.unsent_in_all_bytes.clone();
        Rc::new(Unsent { bytes: Cell::new(0), in_all_bytes, is_awaited: Cell::new(false) })
    }

    fn add(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes);
        self.in_all_bytes.set(self.in_all_bytes.get() + bytes);
    }

    fn take(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() - bytes);
        self.in_all_bytes.set(self.in_all_bytes.get() - bytes);
    }
}

impl Drop for Unsent {
    /// What a connection that ended had left goes nowhere.
    fn drop(&mut self) {
        self.take(self.bytes.get());
    }
}

/// The loop's end of a connection.
pub(super) struct Conn {
    /// None once the node has closed it.
    outbox: Option<mpsc::UnboundedSender<Bytes>>,
    /// The outbox itself is unbounded: this is its bound.
    unsent: Rc<Unsent>,
    /// Whether it does not stand yet.
    is_connecting: Rc<Cell<bool>>,
    task: tokio::task::AbortHandle,
}

impl Conn {
    pub(super) fn accepted(conn: ConnId, stream: TcpStream, shared: &Shared) -> Conn {
        let (unsent, shared) = (Unsent::new(shared), shared.clone());
        let idle = Some(shared.limits.idle);
        Conn::spawn(Rc::default(), unsent, |outbox, unsent| {
            transfer(conn, stream, outbox, unsent, idle, shared)
        })
    }

    pub(super) fn connecting(conn: ConnId, to: String, shared: &Shared) -> Conn {
        let (unsent, shared) = (Unsent::new(shared), shared.clone());
        let is_connecting = Rc::new(Cell::new(true));
        Conn::spawn(is_connecting.clone(), unsent, |outbox, unsent| async move {
            match timeout(shared.limits.connect_timeout, TcpStream::connect(to)).await {
                Ok(Ok(stream)) => {
                    is_connecting.set(false);
                    report(&shared, Incoming::Connected { conn }).await;
                    transfer(conn, stream, outbox, unsent, None, shared).await;
                }
                Ok(Err(_)) | Err(_) => report(&shared, Incoming::Closed { conn }).await,
            }
        })
    }

    fn spawn<F>(
        is_connecting: Rc<Cell<bool>>,
        unsent: Rc<Unsent>,
        task: impl FnOnce(mpsc::UnboundedReceiver<Bytes>, Rc<Unsent>) -> F,
    ) -> Conn
    where
        F: Future<Output = ()> + 'static,
    {
        let (outbox, from_node) = mpsc::unbounded_channel();
        let task = tokio::task::spawn_local(task(from_node, unsent.clone())).abort_handle();
        Conn { outbox: Some(outbox), unsent, is_connecting, task }
    }

    /// Whether the node still wants to hear of it.
    pub(super) fn is_open(&self) -> bool {
        self.outbox.is_some()
    }

    /// Queues bytes; returns how many wait now. Ignored after [`close`](Conn::close).
    pub(super) fn send(&self, bytes: Bytes) -> usize {
        if let Some(outbox) = &self.outbox {
            let len = bytes.len();
            // The receiver is gone only when the connection is, and then its `Closed` is on the way.
            if len > 0 && outbox.send(bytes).is_ok() {
                self.unsent.add(len);
            }
        }
        self.unsent.bytes.get()
    }

    /// What waits to go out. If it is anything, the loop is told when it is nothing.
    pub(super) fn await_unsent(&self) -> usize {
        let bytes = self.unsent_bytes();
        self.unsent.is_awaited.set(bytes > 0);
        bytes
    }

    pub(super) fn close(&mut self) {
        self.outbox = None;
    }

    /// Whether closing it means to give up connecting: there is nothing that has to go out first.
    pub(super) fn is_attempt(&self) -> bool {
        self.is_connecting.get() && self.unsent.bytes.get() == 0
    }

    /// Ends it at once; what it had left counts no more, though its task is only dropped later.
    pub(super) fn abort(self) {
        self.task.abort();
        self.unsent.take(self.unsent.bytes.get());
    }

    /// What still waits to go out; nothing if the connection has ended.
    pub(super) fn unsent_bytes(&self) -> usize {
        if self.task.is_finished() { 0 } else { self.unsent.bytes.get() }
    }
}

/// Accepts for ever. An error (no file descriptors left, a connection that was aborted in the queue) is reported and
/// followed by a pause.
pub(super) async fn accept(listener: TcpListener, inbox: mpsc::Sender<Incoming>, pause: Duration) {
    loop {
        let (incoming, wait) = match listener.accept().await {
            Ok((stream, peer)) => (Incoming::Accepted { stream, peer }, Duration::ZERO),
            Err(e) => (Incoming::AcceptFailed(e), pause),
        };
        if inbox.send(incoming).await.is_err() {
            return;
        }
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

/// Reports to the loop; where the loop has ended nobody needs to hear it.
async fn report(shared: &Shared, incoming: Incoming) {
    shared.inbox.send(incoming).await.ok();
}

/// The life of an established connection.
async fn transfer(
    conn: ConnId,
    stream: TcpStream,
    outbox: mpsc::UnboundedReceiver<Bytes>,
    unsent: Rc<Unsent>,
    idle: Option<Duration>,
    shared: Shared,
) {
    // A request and its answer are written whole: Nagle's algorithm could only delay them. Where the option cannot
    // be set the socket is already broken, and the first read says so.
    stream.set_nodelay(true).ok();
    let (reader, mut writer) = stream.into_split();
    let reading = read(conn, reader, idle, &shared);
    tokio::pin!(reading);
    {
        let writing = write(conn, &mut writer, outbox, &unsent, &shared);
        tokio::pin!(writing);
        let written = tokio::select! {
            () = &mut reading => None,
            written = &mut writing => Some(written),
        };
        match written {
            None | Some(Err(Gone::Broken)) => report(&shared, Incoming::Closed { conn }).await,
            Some(Err(Gone::Stalled)) => {
                report(&shared, Incoming::Stalled { conn, unsent_bytes: unsent.bytes.get() }).await;
            }
            Some(Ok(())) => {}
        }
        match written {
            // The other side is done. The loop drops the outbox when it hears that; then the writer ends, or gives
            // up after the linger.
            None => return writing.await.unwrap_or(()),
            Some(Err(_)) => return,
            Some(Ok(())) => {}
        }
    }
    // The node closed it, and all has gone out.
    if writer.shutdown().await.is_ok() {
        timeout(shared.limits.linger, reading).await.ok();
    }
    report(&shared, Incoming::Closed { conn }).await;
}

/// Reads until the other side has closed, or said nothing for too long, or the connection is broken.
async fn read(conn: ConnId, reader: OwnedReadHalf, idle: Option<Duration>, shared: &Shared) {
    loop {
        let readable = match idle {
            Some(idle) => timeout(idle, reader.readable()).await.unwrap_or(Err(ErrorKind::TimedOut.into())),
            None => reader.readable().await,
        };
        if readable.is_err() {
            return;
        }
        // A place in the inbox first: bytes that nobody has room for stay in the kernel, which slows the sender down.
        let Ok(place) = shared.inbox.reserve().await else { return };
        let mut scratch = shared.scratch.borrow_mut();
        match reader.try_read(&mut scratch) {
            Ok(0) => return,
            Ok(n) => place.send(Incoming::Received { conn, bytes: Bytes::copy_from_slice(&scratch[..n]) }),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return,
        }
    }
}

/// Why nothing more can be written.
enum Gone {
    /// It is broken, or it was closing and its other side took nothing for the time of `linger`.
    Broken,
    /// The other side took nothing for the time of `stalled`, and all together have too much.
    Stalled,
}

/// Writes until the outbox is closed and empty.
async fn write(
    conn: ConnId,
    writer: &mut OwnedWriteHalf,
    mut outbox: mpsc::UnboundedReceiver<Bytes>,
    unsent: &Unsent,
    shared: &Shared,
) -> Result<(), Gone> {
    /// Answers that one system call takes along.
    const SLICES: usize = 16;
    let Limits { linger, stalled, crowded_bytes, .. } = shared.limits;
    let mut queue = VecDeque::new();
    let mut waited = Duration::ZERO;
    loop {
        while queue.len() < SLICES
            && let Ok(bytes) = outbox.try_recv()
        {
            queue.push_back(bytes);
        }
        if queue.is_empty() {
            match outbox.recv().await {
                Some(bytes) => queue.push_back(bytes),
                None => return Ok(()),
            }
            continue;
        }
        let a_while = linger.min(stalled);
        match timeout(a_while, writer.writable()).await {
            Ok(writable) => writable.map_err(|_| Gone::Broken)?,
            Err(_) => {
                waited += a_while;
                if outbox.is_closed() && waited >= linger {
                    return Err(Gone::Broken);
                }
                if waited >= stalled && shared.unsent_in_all_bytes() > crowded_bytes {
                    return Err(Gone::Stalled);
                }
                continue;
            }
        }
        waited = Duration::ZERO;
        let slices: Vec<IoSlice<'_>> = queue.iter().map(|bytes: &Bytes| IoSlice::new(bytes)).collect();
        match writer.try_write_vectored(&slices) {
            Ok(n) => {
                unsent.take(n);
                advance(&mut queue, n);
                if unsent.bytes.get() == 0 && unsent.is_awaited.take() {
                    report(shared, Incoming::Drained { conn }).await;
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return Err(Gone::Broken),
        }
    }
}

/// Takes the first `n` bytes off the queue.
fn advance(queue: &mut VecDeque<Bytes>, mut n: usize) {
    while n > 0 {
        let first = queue.front_mut().expect("no more can be written than was queued");
        let taken = n.min(first.len());
        first.advance(taken);
        n -= taken;
        if first.is_empty() {
            queue.pop_front();
        }
    }
}
