//! What the targets share.
//!
//! - `jsonl`, `edn`: bytes as a history; what is read can be written, in both formats, and reads back the same;
//! - `check`: bytes as a small history, well formed or not, and options; no check breaks, and what contradicts itself is
//!   never valid;
//! - `frame`: bytes as what a connection delivers, as any message, as a batch of records; memory is bounded, and what is
//!   decoded encodes to what decodes to the same.
//!
//! A panic anywhere is a finding, one that the checker would catch too.

pub mod draft;
pub mod round_trip;
