//! Lost writes: somebody read past a committed record that nobody ever read.
//!
//! ```text
//! s5=17@12  s5=18@13  p5:13=18      17 is lost: the log was read up to 18, and 17 was not there
//! s5=17@12  s5=18@13  p5:12=17      18 is not: nobody got so far
//! ```
//!
//! One value of a transaction that was read proves that all of it committed, so parts of it may be lost writes; see
//! `torn_txn.rs` for those whose offset nobody was told.
//! How far a key was read is the highest place that a value read by an `ok` poll has; a value seen at several places
//! counts as having been read at the first of them, and must be read if the last is within reach.
//!
//! What it cannot see: where a group reads and the end of the run did not read everything. A member begins where another
//! has committed, and that one may have been given up on before it told what it had read.

use crate::found::Found;
use crate::index::{Index, NONE, TxnId, ValueId};
use crate::options::{Options, Via};
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "lost-write",
    doc: "committed records below the highest one read are read by somebody",
    anomalies: &[LOST_WRITE],
    run,
};

const LOST_WRITE: AnomalyInfo = AnomalyInfo {
    name: "lost-write",
    meaning: "a committed record was read by nobody, though a later one of its key was",
    source: "jepsen.tests.kafka, lost-write",
    severity: Severity::Data,
    allowed: |options| !options.jepsen() && !options.acks_all,
};

/// How far each key was read, in the order of [`Index::keys`]: the highest place of a value that an `ok` poll returned.
pub(super) struct Reach(Vec<Option<u32>>);

impl Reach {
    pub(super) fn new(index: &Index<'_>, options: &Options) -> Reach {
        if !options.jepsen() && !options.drained && options.via == Via::Subscribe {
            return Reach(vec![None; index.keys.len()]);
        }
        let reach = index.keys.iter().map(|key| {
            let read = key.value_ids.clone().filter(|value| index.is_read(*value));
            read.filter_map(|value| Some(index.first_place[value as usize]).filter(|place| *place != NONE))
                .max()
        });
        Reach(reach.collect())
    }

    /// Whether somebody read as far as this place, if it is one.
    pub(super) fn is_beyond(&self, index: &Index<'_>, place: u32) -> bool {
        place != NONE && {
            let key = index.keys.partition_point(|key| key.places.end <= place);
            self.0[key].is_some_and(|reach| reach >= place)
        }
    }

    /// What shows that somebody read past a value: the value read, its place, and who read it. `None` if nobody did.
    pub(super) fn shown(&self, index: &Index<'_>, value: ValueId) -> Option<(ValueId, u32, TxnId)> {
        let place = index.last_place[value as usize];
        if !self.is_beyond(index, place) {
            return None;
        }
        let key = index.keys.partition_point(|key| key.places.end <= place);
        let reach = self.0[key].expect("somebody read past the place");
        let (beyond, reader) = reached(index, reach);
        Some((beyond, reach, reader))
    }
}

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    let mut found = Found::new(options);
    let reach = Reach::new(index, options);
    for (key, reach) in index.keys.iter().zip(&reach.0) {
        let Some(reach) = *reach else { continue };
        for value in key.value_ids.clone() {
            let last = index.last_place[value as usize];
            if last == NONE || last > reach || index.is_read(value) {
                continue;
            }
            let writer = index.writer[value as usize];
            if writer != NONE && index.must_have_committed(writer) {
                found.add(u64::from(reach - last), value);
            }
        }
    }
    let told = found.tell(&LOST_WRITE, options, index, |value: ValueId, mut proof| {
        let key = index.key_of(value).key;
        let (beyond, at, reader) =
            reach.shown(index, value).expect("it was found because somebody read past it");
        proof.placed(value, index.last_place[value as usize]);
        proof.placed(beyond, at);
        proof.read_by(reader, beyond);
        let story = format!(
            "key {key} {} was read by nobody, though op {} read value {} at offset {}",
            index.tell_value(value),
            index.op_index(reader),
            index.value(beyond),
            index.order_offset[at as usize],
        );
        proof.example(Some(key), story)
    });
    told.into_iter().collect()
}

/// A value that was read and is first seen at this place, and who read it.
fn reached(index: &Index<'_>, place: u32) -> (ValueId, TxnId) {
    let conflicts = &index.conflicts[index.conflicts.partition_point(|(at, _)| *at < place)..];
    let here = conflicts.iter().take_while(|(at, _)| *at == place).map(|(_, value)| *value);
    let value = here
        .chain([index.order[place as usize]])
        .find(|value| index.is_read(*value) && index.first_place[*value as usize] == place)
        .expect("the reach is the place of a value that was read");
    (value, index.reader[value as usize])
}
