//! What went wrong, and how callers are told.

use crate::net::CallError;
use riprap_core::client::LogError;
use riprap_protocol::ErrorCode;
use std::fmt;

/// Why an attempt did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// The broker said so.
    Code(ErrorCode),
    /// There is no answer.
    Call(CallError),
    /// Nobody is known to lead the partition.
    NoLeader,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Code(code) => code.fmt(f),
            Trouble::Call(CallError::NotSent) => f.write_str("no connection"),
            Trouble::Call(CallError::Lost) => f.write_str("no answer"),
            Trouble::Call(CallError::Unsupported) => f.write_str("the broker does not speak it"),
            Trouble::NoLeader => f.write_str("no leader is known"),
        }
    }
}

impl From<CallError> for Trouble {
    fn from(error: CallError) -> Trouble {
        Trouble::Call(error)
    }
}

/// Names of errors that are a client's own, as librdkafka has them.
pub(crate) const MESSAGE_TIMED_OUT: &str = "MESSAGE_TIMED_OUT";
pub(crate) const OPERATION_TIMED_OUT: &str = "OPERATION_TIMED_OUT";
/// A call that the client's state does not allow.
pub(crate) const STATE: &str = "STATE";

/// An error that a broker told.
pub(crate) fn refused(code: ErrorCode, definite: bool, what: &str) -> LogError {
    LogError { code: code.to_string(), definite, message: format!("{what} was refused with {code}") }
}

/// What had to be over by now is not; `last` is what went wrong last.
pub(crate) fn timed_out(code: &str, definite: bool, what: &str, last: Option<Trouble>) -> LogError {
    let message = match last {
        Some(last) => format!("{what} took too long; the last attempt: {last}"),
        None => format!("{what} took too long"),
    };
    LogError { code: code.to_owned(), definite, message }
}

/// The error of a question: it has no effect.
pub(crate) fn unanswered(what: &str, trouble: Trouble) -> LogError {
    match trouble {
        Trouble::Code(code) => refused(code, true, what),
        trouble => timed_out(OPERATION_TIMED_OUT, true, what, Some(trouble)),
    }
}
