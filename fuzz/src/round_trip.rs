//! A history, written and read again.

use riprap_checker::{read_edn, write_edn_op};
use riprap_core::History;
use riprap_core::history::{ReadError, read_jsonl, write_op};
use riprap_core::op::Op;

type Read = Result<(History, Option<String>), ReadError>;

/// The history as JSON lines and as EDN is the same history. Panics: it is not.
pub fn check(history: &History) {
    through(history, "JSON", write_op, |bytes| read_jsonl(bytes));
    through(history, "EDN", write_edn_op, |bytes| read_edn(bytes));
}

fn through(
    history: &History,
    format: &str,
    write: impl Fn(&mut Vec<u8>, &Op) -> std::io::Result<()>,
    read: impl Fn(&[u8]) -> Read,
) {
    let mut written = Vec::new();
    history.ops().for_each(|op| write(&mut written, &op.to_op()).expect("a vector takes all"));
    let (again, dropped) = read(&written).unwrap_or_else(|error| {
        panic!("{error} in what was written as {format}:\n{}", String::from_utf8_lossy(&written))
    });
    assert_eq!(dropped, None, "what was written as {format} is whole");
    let ops = |history: &History| history.ops().map(|op| op.to_op()).collect::<Vec<_>>();
    assert_eq!(ops(&again), ops(history), "read again as {format}");
}
