//! The endpoint of metrics and health: the little of HTTP/1.1 that `curl` and a scraper speak.
//!
//! ```text
//! GET /metrics    200, Prometheus' text format
//! GET /healthz    200 `ok`, or 503 and why not
//! anything else   404, 405 or 400
//! ```
//! A connection is closed after its answer. The node is asked between two turns of its loop, so that a node that hangs does
//! not answer: that is what a scraper should see.

use super::timed_disk::SyncTimes;
use crate::observe::{Exposition, MetricKind, Observed};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// The longest request: a line and the headers of a scraper.
const MAX_REQUEST_BYTES: usize = 8192;

/// Questions that wait for the node; who comes later waits to be accepted.
const MAX_QUESTIONS: usize = 16;

/// How long a connection may take for all of it: scrapers give up after ten seconds.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is asked of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Subject {
    Metrics,
    Health,
}

/// A question to the node, and where the answer goes.
#[derive(Debug)]
pub(super) struct Question {
    subject: Subject,
    answer: oneshot::Sender<Answer>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Answer {
    status: &'static str,
    body: String,
}

impl Question {
    /// Answers it.
    pub(super) fn answer(self, node: &dyn Observed, now_ns: u64, connections: usize, syncs: &SyncTimes) {
        let answer = match self.subject {
            Subject::Metrics => {
                let mut out = Exposition::default();
                node.observe(now_ns, &mut out);
                let help = "Connections that are open.";
                out.single("riprap_connections", MetricKind::Gauge, help, connections);
                syncs.observe(&mut out);
                Answer { status: "200 OK", body: out.into_text() }
            }
            Subject::Health => match node.health(now_ns) {
                Ok(()) => Answer { status: "200 OK", body: "ok\n".to_owned() },
                Err(why) => Answer { status: "503 Service Unavailable", body: format!("{why}\n") },
            },
        };
        // Whoever asked may be gone.
        let _gone = self.answer.send(answer);
    }
}

/// Serves the endpoint for as long as the process lives. Questions come out of the receiver.
pub(super) fn serve(listener: TcpListener) -> mpsc::Receiver<Question> {
    let (sender, questions) = mpsc::channel(MAX_QUESTIONS);
    tokio::task::spawn_local(async move {
        let places = Arc::new(Semaphore::new(MAX_QUESTIONS));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let sender = sender.clone();
                    tokio::task::spawn_local(async move {
                        let _late_or_broken = tokio::time::timeout(TIMEOUT, talk(stream, sender)).await;
                        drop(place);
                    });
                }
                // No file descriptors left, say: retrying at once would spin.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    });
    questions
}

async fn talk(mut stream: TcpStream, sender: mpsc::Sender<Question>) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > MAX_REQUEST_BYTES || stream.read_buf(&mut request).await? == 0 {
            return say(&mut stream, &refusal("400 Bad Request")).await;
        }
    }
    let answer = match subject(&request) {
        Ok(subject) => {
            let (answer, answered) = oneshot::channel();
            if sender.send(Question { subject, answer }).await.is_err() {
                return Ok(());
            }
            match answered.await {
                Ok(answer) => answer,
                Err(_) => refusal("503 Service Unavailable"),
            }
        }
        Err(status) => refusal(status),
    };
    say(&mut stream, &answer).await
}

fn refusal(status: &'static str) -> Answer {
    Answer { status, body: format!("{}\n", status.get(4..).unwrap_or_default().to_lowercase()) }
}

/// What the first line asks for. Errors: the status of the refusal.
fn subject(request: &[u8]) -> Result<Subject, &'static str> {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| "400 Bad Request")?;
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else { return Err("400 Bad Request") };
    if !version.starts_with("HTTP/1.") {
        return Err("400 Bad Request");
    }
    if method != "GET" {
        return Err("405 Method Not Allowed");
    }
    match target.split('?').next() {
        Some("/metrics") => Ok(Subject::Metrics),
        Some("/healthz") => Ok(Subject::Health),
        _ => Err("404 Not Found"),
    }
}

async fn say(stream: &mut TcpStream, answer: &Answer) -> std::io::Result<()> {
    let Answer { status, body } = answer;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let check = |request: &str, expect: Result<Subject, &str>| {
            assert_eq!(subject(request.as_bytes()), expect, "{request}");
        };
        check("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Ok(Subject::Metrics));
        check("GET /metrics?x=1 HTTP/1.0\r\n\r\n", Ok(Subject::Metrics));
        check("GET /healthz HTTP/1.1\r\n\r\n", Ok(Subject::Health));
        check("GET / HTTP/1.1\r\n\r\n", Err("404 Not Found"));
        check("POST /metrics HTTP/1.1\r\n\r\n", Err("405 Method Not Allowed"));
        check("GET /metrics\r\n\r\n", Err("400 Bad Request"));
        check("\r\n\r\n", Err("400 Bad Request"));
        check("GET /metrics SPDY/3\r\n\r\n", Err("400 Bad Request"));
    }
}
