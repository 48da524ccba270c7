//! Reads one stream in order from a sequence on, by pull consumers that nobody remembers.
//!
//! A consumer (ephemeral, in memory, without acknowledgements) sits at one replica of its stream, whichever the cluster
//! chose, and delivers what that replica has applied: a beginning of what is committed, without holes. What was delivered
//! and lost on its way it does not deliver again, so that the position is kept here, and consumers count what they
//! deliver: where a number is missing, or pulling fails, another consumer takes over from the position.
//! It is what NATS calls an ordered consumer. That of async-nats 0.51 is not used: replaced before it has delivered
//! anything it begins with the stream, wherever it was to begin (consumer/pull.rs, recreate_consumer_stream).

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::pull::{Batch, Config};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer};
use bytes::Bytes;
use futures_util::Stream as _;
use std::pin::Pin;
use std::task::{self, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// How many records one pull asks for, at most. Few, so that what goes wrong where one ends and the next begins is met even
/// on short logs.
const PULL_RECORDS: usize = 32;
/// How long a pull waits at the server for records, and how much later its end is given up on: the consumer is gone, or
/// cannot be reached.
const PULL_EXPIRES: Duration = Duration::from_secs(1);
const PULL_GRACE: Duration = Duration::from_millis(1500);
/// A consumer that nobody pulls from for so long is removed by the cluster.
const INACTIVE: Duration = Duration::from_secs(10);

/// See the module.
pub(super) struct Reader {
    stream: String,
    /// The sequence of the next record.
    next: u64,
    consumer: Option<Consumer>,
    /// Where it stood when it was last seen not to be at the end.
    behind_at: Option<u64>,
}

struct Consumer {
    of: PullConsumer,
    /// Where it was to begin.
    start: u64,
    /// How many records it has delivered here.
    delivered: u64,
    pull: Option<Pull>,
}

struct Pull {
    batch: Batch,
    given_up_at: Instant,
}

/// A record of the stream.
pub(super) struct Record {
    pub(super) sequence: u64,
    pub(super) payload: Bytes,
}

impl Reader {
    /// Reads a stream from its beginning.
    pub(super) fn new(stream: String) -> Reader {
        Reader { stream, next: 1, consumer: None, behind_at: None }
    }

    /// The sequence of the next record.
    pub(super) fn position(&self) -> u64 {
        self.next
    }

    /// Has a pull under way. Errors: why there is none.
    pub(super) async fn pull(&mut self, context: &Context) -> Result<(), String> {
        let Reader { stream, next, consumer, .. } = self;
        let consumer = match consumer {
            Some(consumer) => consumer,
            None => {
                let config = Config {
                    deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: *next },
                    ack_policy: AckPolicy::None,
                    inactive_threshold: INACTIVE,
                    num_replicas: 1,
                    memory_storage: true,
                    ..Config::default()
                };
                let made = context.create_consumer_on_stream(config, stream.as_str()).await;
                let of = made.map_err(|e| format!("no consumer of {stream}: {e}"))?;
                consumer.insert(Consumer { of, start: *next, delivered: 0, pull: None })
            }
        };
        if consumer.pull.is_none() {
            let batch = consumer.of.batch().max_messages(PULL_RECORDS).expires(PULL_EXPIRES).messages().await;
            let batch = batch.map_err(|e| format!("no pull from {stream}: {e}"))?;
            let given_up_at = Instant::now() + PULL_EXPIRES + PULL_GRACE;
            consumer.pull = Some(Pull { batch, given_up_at });
        }
        Ok(())
    }

    /// The next record, or `None` once when the pull has ended; else the task is woken for either. Where no pull is under way
    /// nothing comes.
    pub(super) fn poll_record(
        &mut self,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Record, String>>> {
        loop {
            let Some(consumer) = &mut self.consumer else { return Poll::Pending };
            let Some(pull) = &mut consumer.pull else { return Poll::Pending };
            match Pin::new(&mut pull.batch).poll_next(context) {
                Poll::Pending if Instant::now() < pull.given_up_at => return Poll::Pending,
                Poll::Pending => return self.lost("does not answer"),
                Poll::Ready(None) => {
                    consumer.pull = None;
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(e))) => return self.lost(&e.to_string()),
                Poll::Ready(Some(Ok(message))) => {
                    let Ok(info) = message.info() else { return self.lost("sends what is no record") };
                    if info.consumer_sequence != consumer.delivered + 1 {
                        return self.lost("has delivered what did not arrive");
                    }
                    consumer.delivered += 1;
                    let sequence = info.stream_sequence;
                    // Before 2.12 a server puts a start that its replica has not reached yet back to that replica's end.
                    // Source: nats-server 2.10.25, server/consumer.go, selectStartingSeqNo.
                    if sequence < consumer.start {
                        continue;
                    }
                    self.next = sequence + 1;
                    self.behind_at = None;
                    return Poll::Ready(Some(Ok(Record { sequence, payload: message.payload.clone() })));
                }
            }
        }
    }

    /// The consumer is of no use any more.
    fn lost<T>(&mut self, why: &str) -> Poll<Option<Result<T, String>>> {
        self.consumer = None;
        Poll::Ready(Some(Err(format!("the consumer of {} {why}", self.stream))))
    }

    /// The end is behind this position, and nothing came. If that was so before, the last of what the consumer has delivered
    /// may have been lost on its way, which no number tells: another takes over.
    pub(super) fn is_behind(&mut self) {
        if self.behind_at.replace(self.next) == Some(self.next) {
            self.consumer = None;
            self.behind_at = None;
        }
    }
}
