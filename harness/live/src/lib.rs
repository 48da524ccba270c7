//! The real cluster: the local sandbox.
