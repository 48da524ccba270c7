//! Whether the history is one that can be judged: if it contradicts itself, what the checks say of it may be wrong.

use crate::index::Index;
use crate::options::Options;
use crate::verdict::{Valid, Verdict};
use riprap_core::history::FormFault;

/// Unknown, with every kind of contradiction, if the history has any.
///
/// Jepsen's checker does not look at the form of a history; some that it is asked about let a process go on after an
/// info. With its table of guarantees that is let pass: nothing that Jepsen finds depends on it.
pub(crate) fn judge(index: &Index<'_>, options: &Options) -> Verdict {
    let mut form = index.history.ill_formedness();
    if options.jepsen() {
        form = form.without(FormFault::Unretired);
    }
    let mut why: Vec<String> =
        form.first.iter().map(|found| format!("ill-formed history: {found}")).collect();
    let told = form.first.len() as u64;
    if form.count() > told {
        why.push(format!("ill-formed history: {} more contradictions", form.count() - told));
    }
    if let Some((value, earlier)) = index.resent.first() {
        let writer = index.writer[*value as usize];
        let line = index.txn_op(writer).line().map_or_else(String::new, |line| format!("line {line}: "));
        why.push(format!(
            "ill-formed history: {line}key {} value {} was sent by op {} and by op {}{}; a value is sent at most once",
            index.key_of(*value).key,
            index.value(*value),
            index.op_index(*earlier),
            index.op_index(writer),
            match index.resent.len() {
                1 => String::new(),
                more => format!(" (and {} more)", more - 1),
            },
        ));
    }
    let valid = if why.is_empty() { Valid::True } else { Valid::Unknown };
    Verdict { valid, why, ..Verdict::default() }
}
