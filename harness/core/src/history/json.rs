//! Histories as JSON lines: one op a line.
//!
//! ```text
//! {"index":0,"time":1203,"process":3,"type":"invoke","f":"txn","value":[["send",5,17],["poll"]]}
//! {"index":1,"time":9031,"process":3,"type":"ok","f":"txn","value":[["send",5,[12,17]],["poll",{"5":[[10,15]]}]]}
//! ```
//!
//! Optional fields: `error {code,definite,message}` (or a bare string), `rebalance [{type,keys}]`, `txn {id,outcome}`,
//! `offsets {key:offset}`, `node`, `abort`, `from-beginning` (or Jepsen's
//! `seek-to-beginning?`). Unknown fields are ignored, an unknown `f` is kept with
//! its value. Offsets and values may be `null`. A last line that is cut short is what a crash leaves: it is dropped and
//! said.

mod read;
mod write;

pub use read::{ReadError, read_jsonl};
pub use write::write_op;

#[cfg(test)]
mod tests;
