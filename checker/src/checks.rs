//! The checks, one file each.

pub(crate) mod abort_position;
pub(crate) mod aborted_read;
pub(crate) mod cycles;
pub(crate) mod duplicate;
pub(crate) mod group;
mod holding;
pub(crate) mod inconsistent_offsets;
pub(crate) mod lost_write;
pub(crate) mod phantom_read;
pub(crate) mod poll_order;
pub(crate) mod precommitted_read;
pub(crate) mod send_order;
pub(crate) mod stuck;
pub(crate) mod torn_txn;
pub(crate) mod unseen;
