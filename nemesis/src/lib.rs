//! Faults, one file each.
