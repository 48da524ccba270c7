//! An object store of one node, `riprap objects`: what stateless systems keep their data in, where the real thing is a service.
//!
//! It speaks as much of S3's protocol as such systems ask for, without credentials: objects are put (always, if there is none
//! of that name, or if there is a certain one), got, listed and deleted. What it promises is what S3 promises: who has been
//! answered finds what was put, whoever asks next, and a condition and its put are one. It is durable before it is answered, and
//! what is not durable yet nobody is told of.
//!
//! What it cannot do: parts of objects, copies, versions, uploads in parts, access rights. Asked for one of these it says so.

mod http;
mod s3;
mod store;

use http::{Request, Response};
use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use store::Store;

/// Connections at a time, each of which has a thread: far more than a test's systems keep open.
const MAX_CONNECTIONS: usize = 1024;
/// How long a connection may be silent, and how long it may take an answer.
const IDLE_LIMIT: Duration = Duration::from_secs(300);

/// Serves what is in a folder, until the process ends. Errors: one line.
pub fn serve(listen: SocketAddr, dir: &Path) -> Result<(), String> {
    let store = Arc::new(Store::open(dir)?);
    let listener = TcpListener::bind(listen).map_err(|e| format!("failed to listen on {listen}: {e}"))?;
    let connections = Arc::new(AtomicUsize::new(0));
    eprintln!("{} objects, listening on {listen}", store.count());
    for stream in listener.incoming() {
        // One that was given up before it was taken.
        let Ok(stream) = stream else { continue };
        if connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (store, connections) = (store.clone(), connections.clone());
        std::thread::spawn(move || {
            // A connection that breaks concerns nobody else.
            let _ = converse(&store, &stream);
            connections.fetch_sub(1, Ordering::Relaxed);
        });
    }
    Ok(())
}

/// Answers what comes on a connection, one after the other.
fn converse(store: &Store, stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IDLE_LIMIT))?;
    stream.set_write_timeout(Some(IDLE_LIMIT))?;
    let mut reader = BufReader::new(stream);
    loop {
        let (response, go_on, is_head) = match Request::read(&mut reader)? {
            None => return Ok(()),
            Some(Ok(request)) => {
                (s3::answer(store, &request), request.keeps_alive(), request.method == "HEAD")
            }
            // Where the next request begins is not known then.
            Some(Err(why)) => (Response::text(400, why), false, false),
        };
        (&mut &*stream).write_all(&response.bytes(go_on, is_head))?;
        if !go_on {
            return Ok(());
        }
    }
}

/// Whether a store serves that listens there. Errors: what it still waits for.
pub(crate) fn serves(address: SocketAddr) -> Result<(), String> {
    crate::nats::health::ask(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    /// What comes on one connection is answered on it, in order, and what was put is there after a restart.
    #[test]
    fn a_connection_and_a_restart() {
        let dir = tempfile::tempdir().expect("a folder");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let ask = |store: &Store, text: &str| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            stream.write_all(text.as_bytes()).expect("it is taken");
            let (taken, _) = listener.accept().expect("a connection");
            converse(store, &taken).expect("it ends in order");
            drop(taken);
            let mut answers = String::new();
            stream.read_to_string(&mut answers).expect("text");
            answers.split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].to_owned()).collect::<Vec<_>>()
        };
        let put = "PUT /b/k HTTP/1.1\r\nIf-None-Match: *\r\nContent-Length: 2\r\n\r\nhi";
        let end = "GET /b/k HTTP/1.1\r\nConnection: close\r\n\r\n";
        let store = Store::open(dir.path()).expect("it opens");
        assert_eq!(ask(&store, &format!("{put}{put}{end}")), ["200", "412", "200"]);
        assert_eq!(ask(&store, "nonsense\r\n\r\n"), ["400"]);
        drop(store);
        let store = Store::open(dir.path()).expect("it opens again");
        assert_eq!(ask(&store, end), ["200"]);
    }
}
