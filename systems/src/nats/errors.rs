//! What JetStream's errors prove of a publish. Those of its API go by their numbers (`err_code`).

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::{Error as ApiError, ErrorCode};

use riprap_core::client::LogError;
use riprap_core::system::ErrorRule;
use std::error::Error;

/// Nothing answers on a subject.
const NO_RESPONDERS: &str = "NO_RESPONDERS";
/// The client has not reached any server.
pub(super) const NOT_CONNECTED: &str = "NOT_CONNECTED";
/// A replica answered for a stream that has no leader.
pub(super) const NO_LEADER: &str = "NO_LEADER";
/// No answer came in time.
pub(super) const TIMED_OUT: &str = "TIMED_OUT";

/// What a reader of a history meets most, sorted by code.
pub(crate) const ERRORS: &[ErrorRule] = &[
    ErrorRule {
        code: "10060",
        definite: true,
        reason: "expected stream does not match: refused by its header before anything is proposed (nats-server 2.12.1, \
                 server/jetstream_batching.go, checkMsgHeadersPreClusteredProposal)",
    },
    ErrorRule {
        code: "10063",
        definite: false,
        reason: "expected stream sequence does not match: the leader met it when it applied what is committed",
    },
    ErrorRule {
        code: "10077",
        definite: false,
        reason: "the leader could not store what is committed; other replicas may have",
    },
    ErrorRule {
        code: "10158",
        definite: false,
        reason: "duplicate message id is in process: an earlier attempt is on its way into the log",
    },
    ErrorRule {
        code: "CONNECTION_CLOSED",
        definite: false,
        reason: "the connection ended before the answer; the record may have been sent",
    },
    ErrorRule { code: NOT_CONNECTED, definite: true, reason: "no connection was made, so nothing was sent" },
    ErrorRule {
        code: NO_LEADER,
        definite: false,
        reason: "of a question only: a replica answered that knows of no leader, and may be behind",
    },
    ErrorRule {
        code: NO_RESPONDERS,
        definite: true,
        reason: "the server that the client is connected to says so of the very message (503 to its reply subject) where it \
                 queued it for nobody: no subscriber, and no route to one (nats-server 2.12.1, server/client.go, \
                 processInboundClientMsg and deliverMsg); the client sends nothing again after it reconnected (async-nats \
                 0.51, connection.rs: what is not written goes with the connection). Of a send, only where no attempt \
                 before it is in doubt",
    },
    ErrorRule {
        code: TIMED_OUT,
        definite: false,
        reason: "no acknowledgement in time: the record may be in the log, or on its way there",
    },
];

/// An error of that code, as definite as the table says.
pub(super) fn error(code: impl Into<String>, message: impl ToString) -> LogError {
    let code = code.into();
    let definite = ERRORS.iter().any(|rule| rule.code == code && rule.definite);
    LogError { code, definite, message: message.to_string() }
}

/// Why one attempt to publish failed.
pub(super) fn of_publish(failed: &PublishError) -> LogError {
    if let Some(api) = failed.source().and_then(|source| source.downcast_ref::<ApiError>()) {
        return of_api(api);
    }
    let code = match failed.kind() {
        // So async-nats calls the answer that there are no responders: of a stream it cannot know.
        PublishErrorKind::StreamNotFound => NO_RESPONDERS,
        PublishErrorKind::TimedOut => TIMED_OUT,
        PublishErrorKind::BrokenPipe => "CONNECTION_CLOSED",
        _ => "CLIENT",
    };
    error(code, failed)
}

/// What JetStream's API answered.
pub(super) fn of_api(api: &ApiError) -> LogError {
    let ErrorCode(code) = api.error_code();
    error(code.to_string(), api)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_publish() {
        let check = |failed: PublishError, code: &str, definite: bool| {
            let told = of_publish(&failed);
            assert_eq!((told.code.as_str(), told.definite), (code, definite), "{told}");
        };
        check(PublishError::new(PublishErrorKind::StreamNotFound), "NO_RESPONDERS", true);
        check(PublishError::new(PublishErrorKind::TimedOut), "TIMED_OUT", false);
        check(PublishError::new(PublishErrorKind::BrokenPipe), "CONNECTION_CLOSED", false);
        check(PublishError::new(PublishErrorKind::MaxAckPending), "CLIENT", false);
        let api = |code: u64| -> ApiError {
            serde_json::from_value(serde_json::json!({"code": 400, "err_code": code, "description": "d"}))
                .expect("as the server writes it")
        };
        let refused = |code: u64| PublishError::with_source(PublishErrorKind::Other, api(code));
        check(refused(10060), "10060", true);
        check(refused(10077), "10077", false);
        check(refused(10023), "10023", false);
    }
}
