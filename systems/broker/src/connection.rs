//! Connections that others opened: bytes in, one request at a time out.
//!
//! The requests of a connection are answered in the order they came: the next frame is not looked at before the one
//! in work is answered. What arrives in the meantime waits, up to a limit; a connection that sends more is closed.

use bytes::Bytes;
use riprap_env::ConnId;
use riprap_protocol::ApiKey;
use riprap_protocol::frame::{FrameError, FrameReader, max_request_size_bytes};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Most connections at once: far above what tests and real clients of a small cluster use. Ten thousand that do nothing
/// cost some 40 MB.
const MAX_CONNECTIONS: usize = 16_384;

/// Most bytes that wait on one connection: the largest request, and as much again of what follows it.
const MAX_BUFFERED_BYTES: usize = 128 << 20;

/// Most bytes that wait on all connections. Past it, whoever sends more is closed.
const MAX_BUFFERED_IN_ALL_BYTES: usize = 512 << 20;

/// Why a connection has to be closed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum ConnectionError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("{0} bytes wait for earlier requests; at most {MAX_BUFFERED_BYTES}")]
    TooMuch(usize),
    #[error("{0} bytes wait on all connections; at most {MAX_BUFFERED_IN_ALL_BYTES}")]
    TooMuchInAll(usize),
}

/// Where an answer goes, and how it is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReplyTo {
    pub(crate) conn: ConnId,
    pub(crate) correlation_id: i32,
    pub(crate) api_key: ApiKey,
    pub(crate) api_version: i16,
}

#[derive(Debug)]
struct Connection {
    peer: String,
    reader: FrameReader,
    busy: bool,
    /// The other side is gone: what it sent in full is still worked on, and answered to nobody.
    is_closed: bool,
}

/// The connections that others opened.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: BTreeMap<ConnId, Connection>,
    /// May have a complete frame and nothing in work.
    ready: BTreeSet<ConnId>,
    /// Have sent more while a request of theirs was in work, since it was last asked.
    overtaken: BTreeSet<ConnId>,
    buffered_bytes: usize,
}

impl Connections {
    /// Takes a new connection, unless there are too many.
    pub(crate) fn accept(&mut self, conn: ConnId, peer: String) -> bool {
        if self.open.len() >= MAX_CONNECTIONS {
            return false;
        }
        let reader = FrameReader::for_requests(max_request_size_bytes);
        self.open.insert(conn, Connection { peer, reader, busy: false, is_closed: false });
        true
    }

    /// Takes in bytes. Errors: the connection is to be closed.
    pub(crate) fn received(&mut self, conn: ConnId, bytes: &[u8]) -> Result<(), ConnectionError> {
        let Some(connection) = self.open.get_mut(&conn) else { return Ok(()) };
        let waiting = connection.reader.buffered_bytes() + bytes.len();
        if waiting > MAX_BUFFERED_BYTES {
            return Err(ConnectionError::TooMuch(waiting));
        }
        let in_all = self.buffered_bytes + bytes.len();
        if in_all > MAX_BUFFERED_IN_ALL_BYTES {
            return Err(ConnectionError::TooMuchInAll(in_all));
        }
        connection.reader.push(bytes);
        self.buffered_bytes = in_all;
        if connection.busy {
            self.overtaken.insert(conn);
        } else {
            self.ready.insert(conn);
        }
        Ok(())
    }

    /// The next frame of a connection that has nothing in work; the connection is busy then, until [`done`] is called.
    ///
    /// [`done`]: Connections::done
    pub(crate) fn next_frame(&mut self) -> Option<(ConnId, Result<Bytes, ConnectionError>)> {
        while let Some(conn) = self.ready.pop_first() {
            let Some(connection) = self.open.get_mut(&conn) else { continue };
            let before = connection.reader.buffered_bytes();
            let frame = connection.reader.next_frame();
            self.buffered_bytes -= before - connection.reader.buffered_bytes();
            match frame {
                Ok(None) if connection.is_closed => {
                    self.remove(conn);
                }
                Ok(None) => {}
                Ok(Some(frame)) => {
                    connection.busy = true;
                    return Some((conn, Ok(frame)));
                }
                Err(_) if connection.is_closed => {
                    self.remove(conn);
                }
                Err(e) => return Some((conn, Err(e.into()))),
            }
        }
        None
    }

    /// Whether a connection may have a frame to work on.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The request in work is answered. Says whether somebody is there to be answered.
    pub(crate) fn done(&mut self, conn: ConnId) -> bool {
        let Some(connection) = self.open.get_mut(&conn) else { return false };
        connection.busy = false;
        if connection.reader.buffered_bytes() > 0 || connection.is_closed {
            self.ready.insert(conn);
        }
        !connection.is_closed
    }

    /// The other side has closed the connection, and wants no answers. What it sent before counts: a producer that asks
    /// for no acknowledgement may close as soon as it has sent.
    pub(crate) fn hang_up(&mut self, conn: ConnId) {
        if let Some(connection) = self.open.get_mut(&conn) {
            connection.is_closed = true;
            connection.busy = false;
            self.ready.insert(conn);
        }
    }

    /// Whether somebody is there to be answered.
    pub(crate) fn is_heard(&self, conn: ConnId) -> bool {
        self.open.get(&conn).is_some_and(|connection| !connection.is_closed)
    }

    /// The connections that have sent more while a request of theirs was in work, since the last call.
    pub(crate) fn take_overtaken(&mut self) -> BTreeSet<ConnId> {
        std::mem::take(&mut self.overtaken)
    }

    /// Whether a client has sent more while a request of its is in work.
    pub(crate) fn has_more(&self, conn: ConnId) -> bool {
        self.open.get(&conn).is_some_and(|connection| connection.reader.buffered_bytes() > 0)
    }

    /// The other side's address.
    pub(crate) fn peer(&self, conn: ConnId) -> &str {
        self.open.get(&conn).map_or("a closed connection", |connection| &connection.peer)
    }

    /// Forgets a connection. Says whether it was there, and the other side with it.
    pub(crate) fn remove(&mut self, conn: ConnId) -> bool {
        let Some(connection) = self.open.remove(&conn) else { return false };
        self.buffered_bytes -= connection.reader.buffered_bytes();
        self.ready.remove(&conn);
        !connection.is_closed
    }
}
