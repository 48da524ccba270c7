//! Whether a server is ready, asked of its monitor: `GET /healthz?js-server-only=true`.
//!
//! The answer is about the server: it knows of a leader of the cluster's metadata, and has caught up with it. Streams
//! have leaders of their own, which this does not ask for: clients wait for those themselves, and what a stream lacks for
//! long is for the checks to see. Source: nats-server 2.12.1, server/monitor.go, healthz.

use serde_json::Value as Json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a server gets to take the question, and to answer it.
const TIMEOUT: Duration = Duration::from_secs(1);
/// An answer is a line or two; what is longer is none.
const MAX_ANSWER_BYTES: u64 = 16 << 10;

/// Whether the server is ready. Errors: what it still waits for.
pub(crate) fn ask(address: SocketAddr) -> Result<(), String> {
    let in_words = |e: std::io::Error| format!("no answer: {e}");
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).map_err(in_words)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(in_words)?;
    stream.set_write_timeout(Some(TIMEOUT)).map_err(in_words)?;
    // By 1.0 the answer comes in one piece, and the connection ends behind it.
    let question = format!("GET /healthz?js-server-only=true HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(question.as_bytes()).map_err(in_words)?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).map_err(in_words)?;
    read(&String::from_utf8_lossy(&answer))
}

/// What an answer says. Errors: what the server still waits for.
fn read(answer: &str) -> Result<(), String> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    let told: Json = serde_json::from_str(body).unwrap_or_default();
    if status == "200" && told["status"] == "ok" {
        return Ok(());
    }
    Err(match told["error"].as_str() {
        Some(error) => error.to_owned(),
        None => {
            format!("its monitor answers `{}`, not that it is ok", head.lines().next().unwrap_or_default())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let check = |answer: &str, expect: Result<(), &str>| {
            assert_eq!(read(answer).as_ref().copied().map_err(String::as_str), expect, "{answer}");
        };
        check("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"status\":\"ok\"}", Ok(()));
        check(
            "HTTP/1.0 503 Service Unavailable\r\n\r\n{\"status\":\"unavailable\",\"status_code\":503,\"error\":\"JetStream has \
             not established contact with a meta leader\"}",
            Err("JetStream has not established contact with a meta leader"),
        );
        check(
            "HTTP/1.0 404 Not Found\r\n\r\n404 page not found",
            Err("its monitor answers `HTTP/1.0 404 Not Found`, not that it is ok"),
        );
        check(
            "HTTP/1.0 200 OK\r\n\r\n{\"sta",
            Err("its monitor answers `HTTP/1.0 200 OK`, not that it is ok"),
        );
        check("", Err("its monitor answers ``, not that it is ok"));
    }
}
