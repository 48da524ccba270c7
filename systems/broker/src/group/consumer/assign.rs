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
