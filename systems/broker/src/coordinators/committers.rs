//! Commits of offsets that come late: a member that got no answer asks again on another connection and goes on, and then
//! what it had sent on the first one arrives after all. Nothing in a commit says that it is older than another: member and
//! generation are the same, and the group's offset would go back, to be consumed again.
//!
//! So a member commits on one connection at a time: once it has committed on a newer one, what comes on an older one is
//! late. Kafka has no such rule. Clients send all commits of a member to its coordinator on one connection, a new one only
//! when that is lost; those without a member's id (a consumer that assigns itself) are left alone, for several may share
//! a group.
//!
//! What it cannot see: a commit to a coordinator that was replaced meanwhile and is in charge again.

use riprap_env::ConnId;
use std::collections::{BTreeMap, BTreeSet};

/// So many members are remembered: more than a broker's groups have. The one whose connection is the oldest goes first.
const MAX_MEMBERS: usize = 10_000;

/// The connection that each member committed on last, by group and member.
#[derive(Debug, Default)]
pub(crate) struct Committers {
    newest: BTreeMap<(String, String), ConnId>,
    by_age: BTreeSet<(ConnId, (String, String))>,
}

impl Committers {
    /// Whether a commit is late; if it is not, those on older connections are from now on.
    pub(crate) fn is_late(&mut self, group_id: &str, member_id: &str, conn: ConnId) -> bool {
        if member_id.is_empty() {
            return false;
        }
        let who = (group_id.to_owned(), member_id.to_owned());
        match self.newest.get(&who).copied() {
            Some(newest) if newest > conn => return true,
            Some(newest) if newest == conn => return false,
            Some(older) => {
                self.by_age.remove(&(older, who.clone()));
            }
            None => {}
        }
        self.by_age.insert((conn, who.clone()));
        self.newest.insert(who, conn);
        if self.newest.len() > MAX_MEMBERS
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.newest.remove(&oldest);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_on_an_older_connection_is_late() {
        let mut committers = Committers::default();
        for (group, member, conn, expected) in [
            ("g", "a", 5, false),
            ("g", "a", 5, false),
            // Another member, another group: nothing to do with it.
            ("g", "b", 3, false),
            ("h", "a", 3, false),
            ("g", "a", 7, false),
            ("g", "a", 5, true),
            ("g", "a", 7, false),
            ("g", "a", 9, false),
            ("g", "a", 7, true),
            // Nobody's in particular.
            ("g", "", 9, false),
            ("g", "", 3, false),
        ] {
            assert_eq!(committers.is_late(group, member, ConnId(conn)), expected, "{group} {member} {conn}");
        }
    }

    #[test]
    fn no_more_are_remembered_than_have_room() {
        let mut committers = Committers::default();
        for n in 0..2 * MAX_MEMBERS as u64 {
            committers.is_late("g", &n.to_string(), ConnId(n));
        }
        assert_eq!((committers.newest.len(), committers.by_age.len()), (MAX_MEMBERS, MAX_MEMBERS));
        let newest = (2 * MAX_MEMBERS as u64 - 1).to_string();
        assert!(committers.is_late("g", &newest, ConnId(0)));
    }
}
