//! Jepsen's histories: EDN, one op after the other or one vector of ops.
//!
//! ```text
//! {:index 0, :time 1203, :process 3, :type :invoke, :f :txn, :value [[:send 5 17] [:poll]]}
//! {:index 1, :time 9031, :process 3, :type :ok, :f :txn, :value [[:send 5 [12 17]] [:poll {5 [[10 15] [11 16]]}]]}
//! ```
//!
//! Read is what Jepsen, and people, write: an op may be a map or a tagged one (`#jepsen.history.Op{...}`), on one line or
//! several; field names and words may be keywords, symbols or strings; keys integers, or keywords and strings that hold
//! one; offsets and values `nil`; lists for vectors; comments, `#_` and commas anywhere. `:rebalance-log`,
//! `:seek-to-beginning?` and `:error` become the fields of the same meaning, and `:txn`, `:offsets`, `:node`, `:abort` are
//! riprap's own. Everything else is ignored. A nemesis' value becomes JSON: keywords become strings, sets lists.
//!
//! The reader is our own because a history is large and simple: like that of JSON lines it puts records straight into
//! the history's columns, where a general reader builds a tree of each op first.

mod read;
mod write;

pub use read::read_edn;
pub use write::write_edn_op;

#[cfg(test)]
mod tests;
