//! The marks by which a history tells its phases apart, so that one that stands alone says what was tried when.
//!
//! A mark is an op of the nemesis whose `f` is [`PHASE`] and whose value is a name. A run leaves them in this order;
//! those in brackets only where they are true:
//!
//! ```text
//! main [interrupted] heal [unrecovered] drain [unended] [group] [interrupted] drained|undrained
//! ```
//!
//! `main`, `heal` and `drain` begin a phase, which lasts until the next begins or the final reads are over
//! ([`DRAINED`], [`UNDRAINED`]). The others say something of the phase before. A history that ends before its last mark
//! is that of a run that was killed; one without marks is another tool's. Readers pass over names that they do not know.

use crate::history::{History, OpRef};
use crate::op::{Kind, Process};

/// The `f` of a mark.
pub const PHASE: &str = "phase";

/// Clients act and faults strike.
pub const MAIN: &str = "main";
/// Every fault is healed, and the cluster gets time to serve again.
pub const HEAL: &str = "heal";
/// Every key is written once more and read to its end.
pub const DRAIN: &str = "drain";
/// Clients of the main phase still work at ops that were given up on: what they do from here on nobody tells.
pub const UNENDED: &str = "unended";
/// Whoever was in the group before the cluster was whole has had the time to leave it or to be thrown out: from here on
/// it waits for nobody but those whose polls the history tells. Only where the group has not gone on with all of its keys
/// by then; and once more if one of those has fallen silent since.
pub const GROUP: &str = "group";
/// The final reads are over, and have read every key to its end.
pub const DRAINED: &str = "drained";
/// The final reads are over, and some keys have not been read to their ends.
pub const UNDRAINED: &str = "undrained";
/// The cluster did not serve again in time after it was healed: nothing follows from it that clients made no progress
/// from here on.
pub const UNRECOVERED: &str = "unrecovered";
/// The user cut short the phase before: [`MAIN`] or, behind [`HEAL`], the wait for the cluster and the final reads.
pub const INTERRUPTED: &str = "interrupted";

/// The invocations of the marks, each with its name, in order.
pub fn marks(history: &History) -> impl Iterator<Item = (OpRef<'_>, &str)> {
    let marks = history
        .ops()
        .filter(|op| op.process() == Process::Nemesis && op.kind() == Kind::Invoke && op.f().name() == PHASE);
    marks.filter_map(|op| Some((op, op.json()?.as_str()?)))
}

/// Whether the history tells that its keys were read to their ends: `None` if it does not mark its phases at all, as
/// those of other tools.
pub fn was_drained(history: &History) -> Option<bool> {
    let mut marks = marks(history).peekable();
    marks.peek()?;
    Some(marks.any(|(_, name)| name == DRAINED))
}

/// What the user cut short, in words; `None` if nothing.
pub fn cut_short(history: &History) -> Option<&'static str> {
    let mut healing = false;
    for (_, name) in marks(history) {
        match name {
            HEAL => healing = true,
            INTERRUPTED if healing => return Some("the final reads were cut short"),
            INTERRUPTED => return Some("the main phase was cut short"),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Extra, F, Op, OpValue};

    fn op(process: Process, kind: Kind, f: &str, value: OpValue) -> Op {
        Op { index: 0, time_ns: 0, process, kind, f: F::from_name(f), value, extra: Extra::default() }
    }

    /// A history with these marks, each with its completion and another fault's ops behind it.
    fn marked(names: &[&str]) -> History {
        let ops = names.iter().flat_map(|name| {
            let value = || OpValue::Json((*name).into());
            [
                op(Process::Nemesis, Kind::Invoke, PHASE, value()),
                op(Process::Nemesis, Kind::Info, PHASE, value()),
                op(Process::Nemesis, Kind::Invoke, "kill", value()),
                op(Process::Nemesis, Kind::Info, "kill", value()),
                // A word that some client of another tool may use for its own ends.
                op(Process::Client(1), Kind::Invoke, PHASE, value()),
                op(Process::Client(1), Kind::Ok, PHASE, value()),
            ]
        });
        ops.collect()
    }

    #[test]
    fn marks_tell_how_a_run_went() {
        let check = |names: &[&str], drained, cut| {
            let history = marked(names);
            assert!(marks(&history).map(|(_, name)| name).eq(names.iter().copied()));
            assert_eq!((was_drained(&history), cut_short(&history)), (drained, cut), "{names:?}");
        };
        let (main, end) = ("the main phase was cut short", "the final reads were cut short");
        check(&[], None, None);
        check(&[MAIN], Some(false), None);
        check(&[MAIN, HEAL, DRAIN, DRAINED], Some(true), None);
        check(&[MAIN, HEAL, UNRECOVERED, DRAIN, UNDRAINED], Some(false), None);
        check(&[MAIN, INTERRUPTED, HEAL, DRAIN, DRAINED], Some(true), Some(main));
        check(&[MAIN, HEAL, DRAIN, INTERRUPTED, DRAINED], Some(true), Some(end));
        check(&[MAIN, HEAL, UNRECOVERED, DRAIN, INTERRUPTED, UNDRAINED], Some(false), Some(end));
        check(&[MAIN, HEAL, DRAIN, UNENDED, GROUP, GROUP, DRAINED], Some(true), None);
        check(&[MAIN, "intermission", HEAL, DRAIN, DRAINED], Some(true), None);
    }

    #[test]
    fn a_mark_without_a_name_is_none() {
        let nameless = [OpValue::None, OpValue::Json(7.into())]
            .map(|value| op(Process::Nemesis, Kind::Invoke, PHASE, value));
        assert_eq!(marks(&nameless.into_iter().collect()).count(), 0);
    }
}
