//! Error codes, with the names and numbers of Kafka's protocol guide.

use std::fmt;

/// An error code as it lies on the wire; codes that this list lacks are kept as they are.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub i16);

impl ErrorCode {
    /// Whether this is no error.
    pub fn is_none(self) -> bool {
        self == ErrorCode::NONE
    }

    /// The name in the protocol guide, or none for a code that this list lacks.
    pub fn name(self) -> Option<&'static str> {
        self.known().map(|known| known.name)
    }

    /// Whether Kafka's clients try the same request again after it: those codes whose exception is a `RetriableException`.
    ///
    /// Retriable says nothing about whether the request took effect.
    pub fn is_retriable(self) -> bool {
        self.known().is_some_and(|known| known.is_retriable)
    }

    fn known(self) -> Option<&'static Known> {
        let position = KNOWN.binary_search_by_key(&self.0, |known| known.code).ok()?;
        Some(&KNOWN[position])
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "ERROR_{}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

struct Known {
    code: i16,
    name: &'static str,
    is_retriable: bool,
}

/// Makes the constants and the table that names them, in rising order of code.
macro_rules! error_codes {
    ($($code:literal $name:ident $($retriable:ident)?;)*) => {
        #[allow(missing_docs)]
        impl ErrorCode {
            $(pub const $name: ErrorCode = ErrorCode($code);)*
        }

        static KNOWN: &[Known] = &[
            $(Known { code: $code, name: stringify!($name), is_retriable: error_codes!(@ $($retriable)?) },)*
        ];
    };
    (@ retriable) => { true };
    (@) => { false };
}

error_codes! {
    -1 UNKNOWN_SERVER_ERROR;
    0 NONE;
    1 OFFSET_OUT_OF_RANGE;
    2 CORRUPT_MESSAGE retriable;
    3 UNKNOWN_TOPIC_OR_PARTITION retriable;
    4 INVALID_FETCH_SIZE;
    5 LEADER_NOT_AVAILABLE retriable;
    6 NOT_LEADER_OR_FOLLOWER retriable;
    7 REQUEST_TIMED_OUT retriable;
    8 BROKER_NOT_AVAILABLE;
    9 REPLICA_NOT_AVAILABLE retriable;
    10 MESSAGE_TOO_LARGE;
    11 STALE_CONTROLLER_EPOCH;
    12 OFFSET_METADATA_TOO_LARGE;
    13 NETWORK_EXCEPTION retriable;
    14 COORDINATOR_LOAD_IN_PROGRESS retriable;
    15 COORDINATOR_NOT_AVAILABLE retriable;
    16 NOT_COORDINATOR retriable;
    17 INVALID_TOPIC_EXCEPTION;
    18 RECORD_LIST_TOO_LARGE;
    19 NOT_ENOUGH_REPLICAS retriable;
    20 NOT_ENOUGH_REPLICAS_AFTER_APPEND retriable;
    21 INVALID_REQUIRED_ACKS;
    22 ILLEGAL_GENERATION;
    23 INCONSISTENT_GROUP_PROTOCOL;
    24 INVALID_GROUP_ID;
    25 UNKNOWN_MEMBER_ID;
    26 INVALID_SESSION_TIMEOUT;
    27 REBALANCE_IN_PROGRESS;
    28 INVALID_COMMIT_OFFSET_SIZE;
    29 TOPIC_AUTHORIZATION_FAILED;
    30 GROUP_AUTHORIZATION_FAILED;
    31 CLUSTER_AUTHORIZATION_FAILED;
    32 INVALID_TIMESTAMP;
    33 UNSUPPORTED_SASL_MECHANISM;
    34 ILLEGAL_SASL_STATE;
    35 UNSUPPORTED_VERSION;
    36 TOPIC_ALREADY_EXISTS;
    37 INVALID_PARTITIONS;
    38 INVALID_REPLICATION_FACTOR;
    39 INVALID_REPLICA_ASSIGNMENT;
    40 INVALID_CONFIG;
    41 NOT_CONTROLLER retriable;
    42 INVALID_REQUEST;
    43 UNSUPPORTED_FOR_MESSAGE_FORMAT;
    44 POLICY_VIOLATION;
    45 OUT_OF_ORDER_SEQUENCE_NUMBER;
    46 DUPLICATE_SEQUENCE_NUMBER;
    47 INVALID_PRODUCER_EPOCH;
    48 INVALID_TXN_STATE;
    49 INVALID_PRODUCER_ID_MAPPING;
    50 INVALID_TRANSACTION_TIMEOUT;
    51 CONCURRENT_TRANSACTIONS retriable;
    52 TRANSACTION_COORDINATOR_FENCED;
    53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    54 SECURITY_DISABLED;
    55 OPERATION_NOT_ATTEMPTED;
    56 KAFKA_STORAGE_ERROR retriable;
    57 LOG_DIR_NOT_FOUND;
    58 SASL_AUTHENTICATION_FAILED;
    59 UNKNOWN_PRODUCER_ID;
    60 REASSIGNMENT_IN_PROGRESS;
    61 DELEGATION_TOKEN_AUTH_DISABLED;
    62 DELEGATION_TOKEN_NOT_FOUND;
    63 DELEGATION_TOKEN_OWNER_MISMATCH;
    64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED;
    65 DELEGATION_TOKEN_AUTHORIZATION_FAILED;
    66 DELEGATION_TOKEN_EXPIRED;
    67 INVALID_PRINCIPAL_TYPE;
    68 NON_EMPTY_GROUP;
    69 GROUP_ID_NOT_FOUND;
    70 FETCH_SESSION_ID_NOT_FOUND retriable;
    71 INVALID_FETCH_SESSION_EPOCH retriable;
    72 LISTENER_NOT_FOUND retriable;
    73 TOPIC_DELETION_DISABLED;
    74 FENCED_LEADER_EPOCH retriable;
    75 UNKNOWN_LEADER_EPOCH retriable;
    76 UNSUPPORTED_COMPRESSION_TYPE;
    77 STALE_BROKER_EPOCH;
    78 OFFSET_NOT_AVAILABLE retriable;
    79 MEMBER_ID_REQUIRED;
    80 PREFERRED_LEADER_NOT_AVAILABLE retriable;
    81 GROUP_MAX_SIZE_REACHED;
    82 FENCED_INSTANCE_ID;
    83 ELIGIBLE_LEADERS_NOT_AVAILABLE retriable;
    84 ELECTION_NOT_NEEDED retriable;
    85 NO_REASSIGNMENT_IN_PROGRESS;
    86 GROUP_SUBSCRIBED_TO_TOPIC;
    87 INVALID_RECORD;
    88 UNSTABLE_OFFSET_COMMIT retriable;
    89 THROTTLING_QUOTA_EXCEEDED retriable;
    90 PRODUCER_FENCED;
    91 RESOURCE_NOT_FOUND;
    92 DUPLICATE_RESOURCE;
    93 UNACCEPTABLE_CREDENTIAL;
    94 INCONSISTENT_VOTER_SET;
    95 INVALID_UPDATE_VERSION;
    96 FEATURE_UPDATE_FAILED;
    97 PRINCIPAL_DESERIALIZATION_FAILURE;
    98 SNAPSHOT_NOT_FOUND;
    99 POSITION_OUT_OF_RANGE;
    100 UNKNOWN_TOPIC_ID retriable;
    101 DUPLICATE_BROKER_REGISTRATION;
    102 BROKER_ID_NOT_REGISTERED;
    103 INCONSISTENT_TOPIC_ID retriable;
    104 INCONSISTENT_CLUSTER_ID;
    105 TRANSACTIONAL_ID_NOT_FOUND;
    106 FETCH_SESSION_TOPIC_ID_ERROR retriable;
    107 INELIGIBLE_REPLICA;
    108 NEW_LEADER_ELECTED;
    109 OFFSET_MOVED_TO_TIERED_STORAGE;
    110 FENCED_MEMBER_EPOCH;
    111 UNRELEASED_INSTANCE_ID;
    112 UNSUPPORTED_ASSIGNOR;
    113 STALE_MEMBER_EPOCH;
    114 MISMATCHED_ENDPOINT_TYPE;
    115 UNSUPPORTED_ENDPOINT_TYPE;
    116 UNKNOWN_CONTROLLER_ID;
    117 UNKNOWN_SUBSCRIPTION_ID;
    118 TELEMETRY_TOO_LARGE;
    119 INVALID_REGISTRATION;
    120 TRANSACTION_ABORTABLE;
    121 INVALID_RECORD_STATE;
    122 SHARE_SESSION_NOT_FOUND retriable;
    123 INVALID_SHARE_SESSION_EPOCH retriable;
    124 FENCED_STATE_EPOCH;
    125 INVALID_VOTER_KEY;
    126 DUPLICATE_VOTER;
    127 VOTER_NOT_FOUND;
    128 INVALID_REGULAR_EXPRESSION;
    129 REBOOTSTRAP_REQUIRED;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_codes_are_in_order() {
        assert!(KNOWN.is_sorted_by_key(|known| known.code));
        assert_eq!(KNOWN.first().map(|known| known.code), Some(-1));
    }

    #[test]
    fn names_and_retriability() {
        let check = |code: i16, name: &str, is_retriable: bool| {
            assert_eq!(
                (ErrorCode(code).to_string(), ErrorCode(code).is_retriable()),
                (name.to_owned(), is_retriable)
            );
        };
        check(-1, "UNKNOWN_SERVER_ERROR", false);
        check(0, "NONE", false);
        check(1, "OFFSET_OUT_OF_RANGE", false);
        check(6, "NOT_LEADER_OR_FOLLOWER", true);
        check(45, "OUT_OF_ORDER_SEQUENCE_NUMBER", false);
        check(74, "FENCED_LEADER_EPOCH", true);
        check(90, "PRODUCER_FENCED", false);
        check(9999, "ERROR_9999", false);
    }
}
