//! Raft in a simulated cluster, on disks that lose power, and against hostile bytes.

mod chaos;
mod cluster;
mod codec;
mod durability;
mod elections;
mod newcomers;
mod node;
mod observers;
mod one;
mod replication;
mod safety;
