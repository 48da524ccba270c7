//! Raft as a state machine.
