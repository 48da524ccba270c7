//! A member's way to its target: it gives up first, and takes what others have given up.
//!
//! ```text
//!              it has nothing to give up, all is free
//!   Stable <--------------------------------------------- Unreleased
//!     |  ^                                                 ^   it takes what is free, the rest
//!     |  | it has given up, all is free                    |   when it becomes free
//!     |  |                                                 |
//!     +-> Unrevoked ---------------------------------------+
//!         it is told to give up; it stays at its epoch until it says that it did
//! ```
//!
//! Source: KIP-848, "Reconciliation of the Group"; Kafka's CurrentAssignmentBuilder.

use super::state::{Holding, Partitions, Phase};
use riprap_protocol::Uuid;

/// What a member is to come to, and what it says that it holds.
pub(super) struct Way<'a> {
    pub(super) target_epoch: i32,
    pub(super) target: &'a Partitions,
    /// None: it did not say.
    pub(super) owned: Option<&'a Partitions>,
}

/// The member's next holding. `is_taken` says whether a partition is in another member's hands.
pub(super) fn next(member: &Holding, way: &Way<'_>, is_taken: impl Fn(Uuid, i32) -> bool) -> Holding {
    let holds_none_of =
        |partitions: &Partitions| way.owned.is_some_and(|owned| owned.is_apart_from(partitions));
    match member.phase {
        Phase::Stable if member.epoch == way.target_epoch => return member.clone(),
        Phase::Unrevoked if !holds_none_of(&member.revoking) => return member.clone(),
        Phase::Stable | Phase::Unrevoked | Phase::Unreleased => {}
    }
    let is_target = |(topic, index): &(Uuid, i32)| way.target.contains(*topic, *index);
    let kept: Partitions = member.assigned.iter().filter(is_target).collect();
    let revoking: Partitions = member.assigned.iter().filter(|it| !is_target(it)).collect();
    if !revoking.is_empty() && !holds_none_of(&revoking) {
        return Holding {
            previous_epoch: member.epoch,
            epoch: member.epoch,
            phase: Phase::Unrevoked,
            assigned: kept,
            revoking,
        };
    }
    let mut assigned = kept;
    let mut phase = Phase::Stable;
    for (topic, index) in way.target.iter() {
        if is_taken(topic, index) {
            phase = Phase::Unreleased;
        } else {
            assigned.insert(topic, index);
        }
    }
    Holding {
        previous_epoch: member.epoch,
        epoch: way.target_epoch,
        phase,
        assigned,
        revoking: Partitions::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Partitions of one topic, as digits.
    fn some(digits: &str) -> Partitions {
        digits.bytes().map(|digit| (Uuid([1; 16]), i32::from(digit - b'0'))).collect()
    }

    fn show(it: &Holding) -> String {
        let digits = |partitions: &Partitions| {
            partitions.iter().map(|(_, index)| index.to_string()).collect::<String>()
        };
        let revoking =
            if it.revoking.is_empty() { String::new() } else { format!("-{}", digits(&it.revoking)) };
        format!("{:?}@{} {}{revoking}", it.phase, it.epoch, digits(&it.assigned))
    }

    /// A member in `phase` at epoch 1 with `assigned` and `revoking`, a target of epoch 2, what it says it owns (`?` if it
    /// does not), and what others hold.
    fn check(
        (phase, assigned, revoking): (Phase, &str, &str),
        target: &str,
        owned: &str,
        taken: &str,
        expect: &str,
    ) {
        let member = Holding {
            epoch: 1,
            previous_epoch: 1,
            phase,
            assigned: some(assigned),
            revoking: some(revoking),
        };
        let (target, owned) = (some(target), (owned != "?").then(|| some(owned)));
        let way = Way { target_epoch: 2, target: &target, owned: owned.as_ref() };
        let taken = some(taken);
        let next = next(&member, &way, |topic, index| taken.contains(topic, index));
        assert_eq!(show(&next), expect, "{phase:?} {assigned}-{revoking} to {target:?}");
    }

    #[test]
    fn a_member_gives_up_before_it_takes() {
        use Phase::{Stable, Unreleased, Unrevoked};
        check((Stable, "", ""), "01", "", "", "Stable@2 01");
        check((Stable, "", ""), "01", "", "1", "Unreleased@2 0");
        check((Stable, "01", ""), "01", "?", "", "Stable@2 01");
        check((Stable, "01", ""), "02", "?", "", "Unrevoked@1 0-1");
        // What it says that it does not have needs no second round.
        check((Stable, "01", ""), "02", "0", "", "Stable@2 02");
        check((Unrevoked, "0", "1"), "02", "?", "", "Unrevoked@1 0-1");
        check((Unrevoked, "0", "1"), "02", "01", "", "Unrevoked@1 0-1");
        check((Unrevoked, "0", "1"), "02", "0", "", "Stable@2 02");
        check((Unrevoked, "0", "1"), "02", "0", "2", "Unreleased@2 0");
        // The target has changed again: more is to be given up, or it gets back what it gave up.
        check((Unrevoked, "0", "1"), "2", "0", "", "Unrevoked@1 -0");
        check((Unrevoked, "0", "1"), "01", "0", "", "Stable@2 01");
        check((Unreleased, "0", ""), "02", "?", "2", "Unreleased@2 0");
        check((Unreleased, "0", ""), "02", "?", "", "Stable@2 02");
        check((Unreleased, "01", ""), "02", "?", "", "Unrevoked@1 0-1");
    }
}
