//! The bundled Kafka-compatible broker: a state machine behind [`riprap_env::Node`], and a shell that runs it live.
//!
//! ```text
//! node          one turn: events in, requests worked on, logs synced, answers out
//! connection    frames of clients and peers, in order, bounded        peers     connections that this broker opens
//! quorum        Raft among the voters; the others observe (riprap-coord) metadata records, and the image they add up to
//! controller    the quorum's leader: decides about brokers, topics, leaders, in-sync replicas
//! membership    registers with the controller, says that it lives
//! replicas      this broker's copies: roles, high watermarks          fetcher   followers' fetches, truncation, ISRs
//! upkeep        retention, compaction                                 high_watermarks   written down for the next life
//! requests      what clients ask for                                  coordinators  drive consumer groups
//! group         consumer groups as a state machine     txn       transactions as a state machine
//! transactions  drives those, asks them, carries markers
//! log           a partition's log on disk                             durability when logs are synced
//! settings      of topics and brokers, by name
//! observe       metrics and health                                    defect    planted bugs, by name
//! ```
//!
//! What is promised: with acks=all a record is durable on every replica in sync, at least `min.insync.replicas`, before
//! it is acknowledged, and no election loses it; an idempotent producer's record is in the log once; what a consumer saw
//! is never replaced.
//!
//! Not served: authentication.

mod config;
mod connection;
mod controller;
mod coordinators;
pub mod defect;
mod durability;
mod fetcher;
pub mod group;
mod high_watermarks;
mod ids;
pub mod log;
mod membership;
mod metadata;
mod node;
mod observe;
mod peers;
mod producer_ids;
mod quorum;
mod replica;
mod replicas;
mod requests;
mod schedule;
pub mod settings;
pub mod shell;
mod transactions;
pub mod txn;
mod upkeep;

pub use config::{Address, BrokerConfig, RetentionConfig};
pub use durability::Fsync;
pub use ids::BrokerId;
pub use node::Broker;
pub use observe::{Exposition, MetricKind, Observed};
