//! The real cluster: processes in a local sandbox, driven by real clients.
//!
//! [`sandbox`] makes a network of nodes on this machine without root or any external program; [`cluster`] runs a
//! system's nodes in it, on a [`disk`] that forgets where a fault needs one; [`runner`] carries out what a generator decides, on threads, in real time.

pub mod clock;
pub mod cluster;
pub mod disk;
mod files;
pub mod hosts;
pub mod interrupt;
mod links;
pub mod machine;
mod members;
mod node;
mod roll;
pub mod runner;
pub mod sandbox;
