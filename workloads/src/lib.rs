//! Workloads, one file each.
