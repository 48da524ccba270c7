//! The binary `riprap`.
fn main() {}
