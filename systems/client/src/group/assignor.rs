//! Who of a classic group reads what, as its leader decides.
//!
//! ```text
//! range       each topic's partitions in a row, a part for each member; who has fewer comes last
//! sticky      everybody keeps what it has, as far as the shares stay even; what changes hands is given to nobody until
//!             its former owner has given it up, which takes a second rebalance
//! ```
//!
//! Source: Java's RangeAssignor and CooperativeStickyAssignor; KIP-54, KIP-429.

use crate::metadata::Tp;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What a member says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Subscriber {
    pub(crate) topics: BTreeSet<Rc<str>>,
    /// What it has, since the generation that it says.
    pub(crate) owned: BTreeSet<Tp>,
    pub(crate) generation: i32,
}

/// Members by their ids, and what each is to read.
pub(crate) type Assignment = BTreeMap<String, BTreeSet<Tp>>;

/// How many partitions each topic has.
pub(crate) type Counts = BTreeMap<Rc<str>, i32>;

fn nobody(members: &BTreeMap<String, Subscriber>) -> Assignment {
    members.keys().map(|id| (id.clone(), BTreeSet::new())).collect()
}

/// See the module.
pub(crate) fn range(members: &BTreeMap<String, Subscriber>, counts: &Counts) -> Assignment {
    let mut assignment = nobody(members);
    for (topic, count) in counts {
        let readers: Vec<&String> =
            members.iter().filter(|(_, member)| member.topics.contains(topic)).map(|(id, _)| id).collect();
        let Ok(readers_count) = i32::try_from(readers.len()) else { continue };
        if readers_count == 0 {
            continue;
        }
        let (each, more) = (count / readers_count, count % readers_count);
        let mut partition = 0;
        for (at, id) in (0..).zip(readers) {
            let share = each + i32::from(at < more);
            let part = (partition..partition + share).map(|p| Tp { topic: Rc::clone(topic), partition: p });
            assignment.get_mut(id).expect("every member has an entry").extend(part);
            partition += share;
        }
    }
    assignment
}

/// Who has what, as far as it is plain: of two that say so the one of the later generation, and neither if both are of one.
fn owners(members: &BTreeMap<String, Subscriber>, counts: &Counts) -> BTreeMap<Tp, String> {
    let mut owners: BTreeMap<Tp, (i32, Option<&String>)> = BTreeMap::new();
    for (id, member) in members {
        for tp in &member.owned {
            let exists = counts.get(&tp.topic).is_some_and(|count| tp.partition < *count);
            if !exists || !member.topics.contains(&tp.topic) {
                continue;
            }
            let claim = (member.generation, Some(id));
            let known = owners.entry(tp.clone()).or_insert(claim);
            if known.1 != Some(id) {
                match member.generation.cmp(&known.0) {
                    std::cmp::Ordering::Greater => *known = claim,
                    std::cmp::Ordering::Equal => known.1 = None,
                    std::cmp::Ordering::Less => {}
                }
            }
        }
    }
    owners.into_iter().filter_map(|(tp, (_, id))| Some((tp, id?.clone()))).collect()
}

/// Even shares that leave as much as possible where it is.
fn sticky(
    members: &BTreeMap<String, Subscriber>,
    counts: &Counts,
    owners: &BTreeMap<Tp, String>,
) -> Assignment {
    let mut assignment = nobody(members);
    for (tp, id) in owners {
        assignment.get_mut(id).expect("owners are members").insert(tp.clone());
    }
    let can_read = |id: &String, tp: &Tp| members[id].topics.contains(&tp.topic);
    let lightest = |assignment: &Assignment, tp: &Tp| {
        let readers = assignment.iter().filter(|(id, _)| can_read(id, tp));
        readers.min_by_key(|(_, has)| has.len()).map(|(id, has)| (id.clone(), has.len()))
    };
    for (topic, count) in counts {
        for partition in 0..*count {
            let tp = Tp { topic: Rc::clone(topic), partition };
            if !owners.contains_key(&tp)
                && let Some((id, _)) = lightest(&assignment, &tp)
            {
                assignment.get_mut(&id).expect("just found").insert(tp);
            }
        }
    }
    // Each step takes one from who has at least two more than who gets it, so that it ends.
    loop {
        let step = assignment.iter().find_map(|(id, has)| {
            has.iter().rev().find_map(|tp| {
                let (to, fewer) = lightest(&assignment, tp)?;
                (has.len() > fewer + 1).then(|| (id.clone(), to, tp.clone()))
            })
        });
        let Some((from, to, tp)) = step else { return assignment };
        assignment.get_mut(&from).expect("just found").remove(&tp);
        assignment.get_mut(&to).expect("just found").insert(tp);
    }
}

/// See the module.
pub(crate) fn cooperative(members: &BTreeMap<String, Subscriber>, counts: &Counts) -> Assignment {
    // Also what somebody has that it may not keep has to be given up first.
    let mut holders: BTreeMap<&Tp, Vec<&String>> = BTreeMap::new();
    for (id, member) in members {
        for tp in &member.owned {
            holders.entry(tp).or_default().push(id);
        }
    }
    let owners = owners(members, counts);
    let mut assignment = sticky(members, counts, &owners);
    for (id, has) in &mut assignment {
        has.retain(|tp| holders.get(tp).is_none_or(|holders| holders.iter().all(|holder| *holder == id)));
    }
    assignment
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tp(text: &str) -> Tp {
        let (topic, partition) = text.split_once('-').expect("a partition is topic-number");
        Tp { topic: topic.into(), partition: partition.parse().expect("a number") }
    }

    /// `m1: a b, a-0 a-1 /3` is a member that subscribes to a and b, and has two partitions since generation 3.
    fn members(text: &[&str]) -> BTreeMap<String, Subscriber> {
        let member = |line: &&str| {
            let (id, rest) = line.split_once(": ").expect("an id comes first");
            let (topics, owned) = rest.split_once(", ").unwrap_or((rest, ""));
            let (owned, generation) = owned.split_once(" /").unwrap_or((owned, "1"));
            let subscriber = Subscriber {
                topics: topics.split(' ').map(Rc::from).collect(),
                owned: owned.split_whitespace().map(tp).collect(),
                generation: generation.parse().expect("a number"),
            };
            (id.to_owned(), subscriber)
        };
        text.iter().map(member).collect()
    }

    fn counts(text: &str) -> Counts {
        let count = |word: &str| {
            let tp = tp(word);
            (tp.topic, tp.partition)
        };
        text.split(' ').map(count).collect()
    }

    fn shown(assignment: &Assignment) -> Vec<String> {
        let one = |(id, has): (&String, &BTreeSet<Tp>)| {
            let has: Vec<String> = has.iter().map(|tp| format!("{}-{}", tp.topic, tp.partition)).collect();
            format!("{id}: {}", has.join(" "))
        };
        assignment.iter().map(one).collect()
    }

    #[test]
    fn ranges() {
        let check = |who: &[&str], topics: &str, expected: &[&str]| {
            assert_eq!(shown(&range(&members(who), &counts(topics))), expected);
        };
        check(&["m1: a"], "a-3", &["m1: a-0 a-1 a-2"]);
        check(&["m1: a", "m2: a"], "a-3", &["m1: a-0 a-1", "m2: a-2"]);
        check(&["m1: a b", "m2: a", "m3: b"], "a-2 b-1", &["m1: a-0 b-0", "m2: a-1", "m3: "]);
        check(&["m1: a"], "b-2", &["m1: "]);
    }

    #[test]
    fn members_keep_what_they_have() {
        let check = |who: &[&str], topics: &str, expected: &[&str]| {
            assert_eq!(shown(&cooperative(&members(who), &counts(topics))), expected);
        };
        check(&["m1: a", "m2: a"], "a-4", &["m1: a-0 a-2", "m2: a-1 a-3"]);
        // One joins: what is to be its part is given up first, and is given to it in the next round.
        check(&["m1: a, a-0 a-1 a-2 a-3", "m2: a"], "a-4", &["m1: a-0 a-1", "m2: "]);
        check(&["m1: a, a-0 a-1", "m2: a"], "a-4", &["m1: a-0 a-1", "m2: a-2 a-3"]);
        // Both say that they have it: the later generation is right, and the other gives it up first.
        check(&["m1: a, a-0 /3", "m2: a, a-0 a-1 /2"], "a-2", &["m1: ", "m2: a-1"]);
        // What is not subscribed any more, or does not exist, goes.
        check(&["m1: a, a-0 a-9 b-0"], "a-1 b-1", &["m1: a-0"]);
    }

    fn drawn() -> impl Strategy<Value = (BTreeMap<String, Subscriber>, Counts)> {
        let topics = ["a", "b"];
        let owned = proptest::collection::btree_set((0..2_usize, 0..4_i32), 0..6);
        let member = (owned, 1..4_i32).prop_map(move |(owned, generation)| Subscriber {
            topics: topics.iter().map(|topic| Rc::from(*topic)).collect(),
            owned: owned.into_iter().map(|(t, p)| Tp { topic: topics[t].into(), partition: p }).collect(),
            generation,
        });
        let members = proptest::collection::vec(member, 1..5).prop_map(|members| {
            (0..).zip(members).map(|(n, member)| (format!("m{n}"), member)).collect::<BTreeMap<_, _>>()
        });
        (members, 0..5_i32, 0..5_i32)
            .prop_map(move |(members, a, b)| (members, BTreeMap::from([("a".into(), a), ("b".into(), b)])))
    }

    fn all(counts: &Counts) -> BTreeSet<Tp> {
        let of = |(topic, count): (&Rc<str>, &i32)| {
            (0..*count).map(|partition| Tp { topic: Rc::clone(topic), partition }).collect::<Vec<_>>()
        };
        counts.iter().flat_map(of).collect()
    }

    proptest! {
        #[test]
        fn each_partition_goes_to_one((members, counts) in drawn()) {
            let owners = owners(&members, &counts);
            for assignment in [range(&members, &counts), sticky(&members, &counts, &owners)] {
                let given: Vec<&Tp> = assignment.values().flatten().collect();
                prop_assert_eq!(given.len(), all(&counts).len());
                prop_assert_eq!(given.into_iter().cloned().collect::<BTreeSet<_>>(), all(&counts));
            }
        }

        #[test]
        fn shares_are_even((members, counts) in drawn()) {
            let owners = owners(&members, &counts);
            let shares = sticky(&members, &counts, &owners);
            let sizes: Vec<usize> = shares.values().map(BTreeSet::len).collect();
            let (least, most) = (sizes.iter().min(), sizes.iter().max());
            prop_assert!(most.zip(least).is_none_or(|(most, least)| most - least <= 1), "{:?}", sizes);
        }

        #[test]
        fn nothing_is_given_that_another_has((members, counts) in drawn()) {
            for (id, has) in cooperative(&members, &counts) {
                for (other, member) in &members {
                    prop_assert!(*other == id || member.owned.is_disjoint(&has));
                }
            }
        }

        #[test]
        fn rounds_come_to_an_end((mut members, counts) in drawn()) {
            // Everybody gives up and takes what it is told to, and says so: after a few rounds nothing changes any more.
            for generation in 10..14 {
                let assignment = cooperative(&members, &counts);
                for (id, has) in assignment {
                    let member = members.get_mut(&id).expect("members are assigned to");
                    (member.owned, member.generation) = (has, generation);
                }
            }
            let owned: BTreeSet<Tp> = members.values().flat_map(|member| member.owned.clone()).collect();
            prop_assert_eq!(owned, all(&counts));
            let before: Assignment = members.iter().map(|(id, member)| (id.clone(), member.owned.clone())).collect();
            prop_assert_eq!(cooperative(&members, &counts), before);
        }
    }
}
