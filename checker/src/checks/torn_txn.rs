//! Torn transactions: a part of one was read, another part is not there.
//!
//! ```text
//! ?(s5=17 s6=1)  p5:12=17  p6:       17 proves that the transaction committed, but 6:1 is nowhere
//! (s5=17@12 s6=1@0)  s6=2@1  p5:12=17;6:1=2
//! ```
//!
//! Where only what is committed is shown, one record that was read proves that its whole transaction committed. Another
//! of its records is missing if somebody read past it (then it is a lost write as well) or, where every key was read to
//! its end, if nobody read it; so this finds what lost writes cannot, a part whose offset nobody was told.

use super::lost_write::Reach;
use crate::found::Found;
use crate::index::{Index, NONE, TxnId, ValueId};
use crate::options::Options;
use crate::registry::{AnomalyInfo, CheckerInfo};
use crate::verdict::{Anomaly, Severity};
use riprap_core::op::{F, Kind};

/// The check.
pub(crate) static INFO: CheckerInfo = CheckerInfo {
    name: "torn-txn",
    doc: "of a transaction all is there, or nothing",
    anomalies: &[TORN_TXN],
    run,
};

const TORN_TXN: AnomalyInfo = AnomalyInfo {
    name: "torn-txn",
    meaning: "one record of a transaction was read, and another of its records is missing",
    source: "KIP-98, Atomic Writes; jepsen.tests.kafka has it as lost-write where the offset is known",
    severity: Severity::Data,
    // Who is shown open and aborted transactions has no proof that one committed.
    allowed: |options| !options.jepsen() && (!options.acks_all || !options.committed_only()),
};

/// A transaction, a value of it that was read, and one that is missing.
type Torn = (TxnId, ValueId, ValueId);

fn run(index: &Index<'_>, options: &Options) -> Vec<(&'static AnomalyInfo, Anomaly)> {
    if options.jepsen() {
        return Vec::new();
    }
    let reach = Reach::new(index, options);
    let is_missing = |value: ValueId| {
        !index.is_read(value) && (options.drained || reach.is_beyond(index, index.last_place[value as usize]))
    };
    // Mostly nothing is missing, and nothing more to look at.
    let mut suspects: Vec<TxnId> = (0..index.writer.len() as ValueId)
        .filter(|value| index.writer[*value as usize] != NONE && is_missing(*value))
        .map(|value| index.writer[value as usize])
        .filter(|txn| *index.txn_op(*txn).f() == F::Txn && index.txns[*txn as usize].kind != Kind::Fail)
        .collect();
    suspects.sort_unstable();
    suspects.dedup();
    let mut found: Found<Torn> = Found::new(options);
    for txn in suspects {
        let sent: Vec<ValueId> = index.sends(txn).map(|(_, value, _)| value).collect();
        let missing = sent.iter().filter(|value| is_missing(**value));
        if let Some(read) = sent.iter().find(|value| index.is_read(**value))
            && let Some(first) = missing.clone().next()
        {
            found.add(missing.count() as u64, (txn, *read, *first));
        }
    }
    let told = found.tell(&TORN_TXN, options, index, |(txn, read, missing), mut proof| {
        let reader = index.reader[read as usize];
        proof.sent_by(txn, read);
        proof.sent_by(txn, missing);
        proof.read_by(reader, read);
        let key = index.key_of(missing).key;
        let op = index.op_index(txn);
        let whole = format!(
            "op {op} is one transaction: its key {} {} was read by op {}, so it committed",
            index.key_of(read).key,
            index.tell_placed(read),
            index.op_index(reader),
        );
        let place = index.last_place[missing as usize];
        let story = if let Some((beyond, at, reader)) = reach.shown(index, missing) {
            proof.placed(missing, place);
            proof.placed(beyond, at);
            proof.read_by(reader, beyond);
            format!(
                "{whole}, but its key {key} {} was read by nobody, though op {} read value {} at offset {}",
                index.tell_placed(missing),
                index.op_index(reader),
                index.value(beyond),
                index.order_offset[at as usize],
            )
        } else {
            format!(
                "{whole}, but its key {key} {} was read by nobody by the end of the run",
                index.tell_placed(missing)
            )
        };
        proof.example(Some(key), story)
    });
    told.into_iter().collect()
}
