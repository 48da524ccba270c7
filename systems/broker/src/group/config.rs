//! What a coordinator may be told, and its limits.

use crate::defect::DefectKind;

/// A coordinator's knobs and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// The shortest session a member may ask for.
    pub min_session_timeout_ms: u64,
    /// The longest session a member may ask for.
    pub max_session_timeout_ms: u64,
    /// How long a member of a group of KIP-848 may be silent.
    pub consumer_session_timeout_ms: u64,
    /// How often members of groups of KIP-848 are to be heard.
    pub consumer_heartbeat_interval_ms: u64,
    /// How long a group that was empty waits for more members after the first.
    pub initial_rebalance_delay_ms: u64,
    /// How long a client is kept waiting for its records to be committed.
    pub commit_timeout_ms: u64,
    /// How long offsets are kept that no member can ask for: see `expire.rs`.
    pub retention_ms: u64,
    /// How often it is looked for such offsets in a group.
    pub retention_check_ms: u64,
    /// Groups of one coordinator.
    pub max_groups: usize,
    /// Members of one group.
    pub max_members: usize,
    /// Protocols and subscriptions of one member. Units: bytes.
    pub max_subscription_bytes: usize,
    /// All assignments of one generation. Units: bytes.
    pub max_assignment_bytes: usize,
    /// Partitions that one group has offsets of.
    pub max_offsets: usize,
    /// What a client may attach to a committed offset. Units: bytes.
    pub max_offset_metadata_bytes: usize,
    /// Appends of one coordinator that are on their way to the log.
    pub max_in_flight: usize,
    /// A planted bug.
    pub defect: Option<DefectKind>,
}

impl Default for GroupConfig {
    fn default() -> GroupConfig {
        GroupConfig {
            // Kafka's is 6 s. Tests kill clients, and should not have to wait that long to see who takes over.
            min_session_timeout_ms: 1000,
            max_session_timeout_ms: 30 * 60 * 1000,
            // Kafka's are 45 s and 5 s. Here too, tests should not have to wait that long: each step of a rebalance takes
            // heartbeats of its members.
            consumer_session_timeout_ms: 6000,
            consumer_heartbeat_interval_ms: 500,
            // Kafka's is 3 s, for hundreds of members that a deployment starts. A test starts a handful at the same
            // moment and lives half a minute: this is enough to let them meet in one generation.
            initial_rebalance_delay_ms: 200,
            // Kafka's, and well below the 60 s after which clients give up a request.
            commit_timeout_ms: 5000,
            // Kafka's, both.
            retention_ms: 7 * 24 * 60 * 60 * 1000,
            retention_check_ms: 10 * 60 * 1000,
            // The three below bound memory at some hundred MB for clients that try, and are far above what tests use.
            max_groups: 10_000,
            max_members: 1000,
            max_offsets: 100_000,
            // A group's record must fit a batch (1 MiB by default): half for assignments, and a large part of the
            // rest for a subscription of thousands of topics.
            max_subscription_bytes: 256 << 10,
            max_assignment_bytes: 512 << 10,
            max_offset_metadata_bytes: 4096,
            // As many as a log that lost its followers may let pile up until clients have been turned away.
            max_in_flight: 10_000,
            defect: None,
        }
    }
}
