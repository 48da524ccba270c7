//! Who is to own what: the assignors of KIP-848.
//!
//! ```text
//! uniform   everybody gets as many as the next, give or take one, and keeps what it had where that allows it
//! range     of each topic everybody gets a run of partitions, in the order of the members
//! ```
//!
//! What uniform does not do: with different subscriptions it moves partitions one at a time from who has more to who has
//! less by at least two; a better balance that needs two moves at once is not found. Racks are not looked at.

use super::state::Partitions;
use riprap_protocol::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How partitions are given to members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Assignor {
    Uniform,
    Range,
}

impl Assignor {
    /// The first is what is used if no member asks for one, as in Kafka.
    pub(super) const ALL: [Assignor; 2] = [Assignor::Uniform, Assignor::Range];

    pub(super) fn name(self) -> &'static str {
        match self {
            Assignor::Uniform => "uniform",
            Assignor::Range => "range",
        }
    }

    pub(super) fn of(name: &str) -> Option<Assignor> {
        Assignor::ALL.into_iter().find(|assignor| assignor.name() == name)
    }
}

/// Who gets what, to be decided.
pub(super) struct Task<'a> {
    /// By member id: its instance id and the topics that it wants.
    pub(super) members: BTreeMap<&'a str, (Option<&'a str>, BTreeSet<Uuid>)>,
    /// How many partitions the topics have.
    pub(super) counts: BTreeMap<Uuid, i32>,
    /// What it was before.
    pub(super) former: &'a BTreeMap<String, Arc<Partitions>>,
}

impl Task<'_> {
    /// The partitions of each member; everyone has an entry.
    pub(super) fn assign(&self, assignor: Assignor) -> BTreeMap<String, Partitions> {
        match assignor {
            Assignor::Uniform => self.uniform(),
            Assignor::Range => self.range(),
        }
    }

    fn nothing(&self) -> BTreeMap<String, Partitions> {
        self.members.keys().map(|id| ((*id).to_owned(), Partitions::default())).collect()
    }

    fn wanting(&self, topic: Uuid) -> impl Iterator<Item = &str> {
        self.members.iter().filter(move |(_, (_, wanted))| wanted.contains(&topic)).map(|(id, _)| *id)
    }

    fn range(&self) -> BTreeMap<String, Partitions> {
        let mut all = self.nothing();
        for (topic, count) in &self.counts {
            let mut members: Vec<&str> = self.wanting(*topic).collect();
            // A static member returns under another id, and is to get the same again.
            members.sort_by_key(|id| (self.members[id].0.is_none(), self.members[id].0.unwrap_or(id)));
            let Ok(among) = i32::try_from(members.len()) else { continue };
            let mut next = 0;
            for (place, id) in (0..among).zip(members) {
                let share = count / among + i32::from(place < count % among);
                let mine = all.get_mut(id).expect("every member has an entry");
                (next..next + share).for_each(|index| mine.insert(*topic, index));
                next += share;
            }
        }
        all
    }

    fn uniform(&self) -> BTreeMap<String, Partitions> {
        let mut all = self.nothing();
        let mut free: BTreeSet<(Uuid, i32)> =
            self.counts.iter().flat_map(|(topic, count)| (0..*count).map(|index| (*topic, index))).collect();
        for (id, (_, wanted)) in &self.members {
            let mine = all.get_mut(*id).expect("every member has an entry");
            for (topic, index) in self.former.get(*id).iter().flat_map(|former| former.iter()) {
                if wanted.contains(&topic) && free.remove(&(topic, index)) {
                    mine.insert(topic, index);
                }
            }
        }
        let wanting: BTreeMap<Uuid, Vec<&str>> =
            self.counts.keys().map(|topic| (*topic, self.wanting(*topic).collect())).collect();
        // Topics that few want first: there are fewer ways to place them well.
        let mut free: Vec<(Uuid, i32)> = free.into_iter().collect();
        free.sort_by_key(|(topic, index)| (wanting[topic].len(), *topic, *index));
        for (topic, index) in free {
            if let Some(id) = least_laden(&wanting[&topic], &all) {
                all.get_mut(id).expect("every member has an entry").insert(topic, index);
            }
        }
        self.balance(&wanting, &mut all);
        all
    }

    /// Moves partitions to who has at least two fewer, the fullest first, until there is no such pair. Each move makes the
    /// sum of the squares of the loads smaller, so that it ends.
    fn balance(&self, wanting: &BTreeMap<Uuid, Vec<&str>>, all: &mut BTreeMap<String, Partitions>) {
        loop {
            let mut fullest: Vec<(usize, String)> =
                all.iter().map(|(id, mine)| (mine.len(), id.clone())).collect();
            fullest.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            let least = fullest.last().map_or(0, |(load, _)| *load);
            let mut has_moved = false;
            for (_, id) in fullest.iter().take_while(|(load, _)| *load >= least + 2) {
                // The newest partitions of the newest topics move: which ones is all the same, but always the same ones.
                for (topic, index) in all[id].iter().rev().collect::<Vec<_>>() {
                    let other = least_laden(&wanting[&topic], all).expect("its owner wants it");
                    if all[id].len() >= all[other].len() + 2 {
                        let other = other.to_owned();
                        all.get_mut(id).expect("listed").remove(topic, index);
                        all.get_mut(&other).expect("every member has an entry").insert(topic, index);
                        has_moved = true;
                    }
                }
            }
            if !has_moved {
                return;
            }
        }
    }
}

fn least_laden<'m>(members: &[&'m str], all: &BTreeMap<String, Partitions>) -> Option<&'m str> {
    members.iter().copied().min_by_key(|id| (all[*id].len(), *id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Members with what they want of the topics 0 to 2, and how many partitions those have.
    #[derive(Clone, Debug)]
    struct Case {
        members: BTreeMap<String, BTreeSet<u8>>,
        counts: [i32; 3],
    }

    fn case() -> impl Strategy<Value = Case> {
        let wanted = prop::collection::btree_set(0..3_u8, 0..4);
        let members = prop::collection::btree_map("[a-f]", wanted, 0..6);
        (members, [0..7_i32, 0..4, 0..3]).prop_map(|(members, counts)| Case { members, counts })
    }

    fn id(topic: u8) -> Uuid {
        Uuid([topic + 1; 16])
    }

    fn assign(
        case: &Case,
        assignor: Assignor,
        former: &BTreeMap<String, Partitions>,
    ) -> BTreeMap<String, Partitions> {
        let former = former.iter().map(|(id, mine)| (id.clone(), Arc::new(mine.clone()))).collect();
        let members = case.members.iter().map(|(member, wanted)| {
            let wanted: BTreeSet<Uuid> = wanted.iter().map(|topic| id(*topic)).collect();
            (member.as_str(), (None, wanted))
        });
        let wanted: BTreeSet<u8> = case.members.values().flatten().copied().collect();
        let counts = wanted.iter().map(|topic| (id(*topic), case.counts[usize::from(*topic)])).collect();
        Task { members: members.collect(), counts, former: &former }.assign(assignor)
    }

    proptest! {
        #[test]
        fn all_that_is_wanted_has_one_owner_that_wants_it(
            before in case(),
            after in case(),
            range in any::<bool>(),
        ) {
            let assignor = if range { Assignor::Range } else { Assignor::Uniform };
            let former = assign(&before, assignor, &BTreeMap::new());
            let all = assign(&after, assignor, &former);
            let mut owned = BTreeSet::new();
            for (member, mine) in &all {
                for (topic, index) in mine.iter() {
                    prop_assert!(after.members[member].contains(&(topic.0[0] - 1)));
                    prop_assert!(owned.insert((topic, index)), "{topic} {index} has two owners");
                }
            }
            let wanted: BTreeSet<u8> = after.members.values().flatten().copied().collect();
            let count: i32 = wanted.iter().map(|topic| after.counts[usize::from(*topic)]).sum();
            prop_assert_eq!(owned.len(), usize::try_from(count).expect("small"));
            prop_assert_eq!(assign(&after, assignor, &all), all, "nothing has changed");
        }

        #[test]
        fn uniform_is_balanced_and_moves_no_more_than_it_must(before in case(), after in case()) {
            let former = assign(&before, Assignor::Uniform, &BTreeMap::new());
            let all = assign(&after, Assignor::Uniform, &former);
            for (owner, mine) in &all {
                for (topic, _) in mine.iter() {
                    let others = after.members.iter().filter(|(_, wanted)| wanted.contains(&(topic.0[0] - 1)));
                    for (other, _) in others {
                        prop_assert!(mine.len() <= all[other].len() + 1, "{owner} has more than {other}");
                    }
                }
            }
            // With the same topics for all, who stays gives up only what is above its share.
            let mut wanted = after.members.values();
            let first = wanted.next().cloned().unwrap_or_default();
            if wanted.all(|it| *it == first) && !all.is_empty() {
                let total: usize = all.values().map(Partitions::len).sum();
                for (member, had) in former.iter().filter(|(member, _)| all.contains_key(*member)) {
                    let still = |(topic, index): &(Uuid, i32)| {
                        let topic = topic.0[0] - 1;
                        first.contains(&topic) && *index < after.counts[usize::from(topic)]
                    };
                    let had: Vec<_> = had.iter().filter(still).collect();
                    let kept = had.iter().filter(|(topic, index)| all[member].contains(*topic, *index)).count();
                    prop_assert!(kept >= had.len().min(total / all.len()), "{member} kept {kept} of {had:?}");
                }
            }
        }
    }

    #[test]
    fn range_gives_runs_in_the_order_of_members_static_ones_first() {
        let task = Task {
            members: [("x", Some("b")), ("y", Some("a")), ("c", None)]
                .map(|(member, instance)| (member, (instance, BTreeSet::from([id(0), id(1)]))))
                .into(),
            counts: BTreeMap::from([(id(0), 5), (id(1), 2)]),
            former: &BTreeMap::new(),
        };
        let all = task.assign(Assignor::Range);
        let of = |member: &str| {
            all[member].iter().map(|(topic, index)| (topic.0[0] - 1, index)).collect::<Vec<_>>()
        };
        assert_eq!(of("y"), [(0, 0), (0, 1), (1, 0)]);
        assert_eq!(of("x"), [(0, 2), (0, 3), (1, 1)]);
        assert_eq!(of("c"), [(0, 4)]);
    }
}
