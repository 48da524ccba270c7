//! Random histories in which rw edges matter.

use proptest::collection::vec;
use proptest::prelude::*;
use riprap_checker::mini;
use riprap_core::History;
use std::collections::BTreeMap;

/// Histories of a log that agrees with itself, of transactions that wrote to some of three keys, mostly one after the
/// other, and read some from anywhere to anywhere, mostly of those before.
pub(crate) fn stops(max_txns: usize) -> impl Strategy<Value = History> {
    let send = (5i64..8, proptest::option::weighted(0.1, 0usize..9));
    let reads = proptest::collection::btree_map(5i64..8, (0usize..4, 1usize..4), 0..3);
    let ahead = prop_oneof![6 => Just(0usize), 1 => Just(9)];
    let txn = (vec(send, 0..3), (reads, ahead), 0usize..8, proptest::bool::weighted(0.1));
    vec(txn, 1..=max_txns).prop_map(|txns| {
        let mut logs: BTreeMap<i64, Vec<(usize, usize)>> = BTreeMap::new();
        // A value is the number of its transaction times ten, and which of its sends it is.
        for (n, (sends, ..)) in txns.iter().enumerate() {
            for (nth, (key, priority)) in sends.iter().enumerate() {
                logs.entry(*key).or_default().push((priority.unwrap_or(n), n * 10 + nth));
            }
        }
        logs.values_mut().for_each(|log| log.sort_unstable());
        let mut rows = Vec::new();
        for (n, (sends, (reads, ahead), lasts, is_info)) in txns.iter().enumerate() {
            let mut mops = Vec::new();
            for (nth, (key, _)) in sends.iter().enumerate() {
                let value = n * 10 + nth;
                let offset = logs[key].iter().position(|(_, other)| *other == value).expect("it was sent");
                mops.push(format!("s{key}={value}@{offset}"));
            }
            let groups = reads.iter().map(|(key, (from, len))| {
                let log = logs.get(key).map_or(&[][..], Vec::as_slice);
                let records = log.iter().enumerate().skip(*from).take(*len);
                let records = records.take_while(|(_, (_, value))| value / 10 < n + ahead);
                let records: Vec<String> = records.map(|(at, (_, value))| format!("{at}={value}")).collect();
                format!("{key}:{}", records.join(","))
            });
            mops.push(format!("p{}", groups.collect::<Vec<_>>().join(";")));
            let mops = mops.join(" ");
            rows.push((n, format!("<{n}/({mops})")));
            rows.push((n + 1 + lasts, format!(">{}{n}/({mops})", if *is_info { "?" } else { "" })));
        }
        rows.sort_by_key(|(at, _)| *at);
        mini::parse(&rows.into_iter().map(|(_, word)| word).collect::<Vec<_>>().join(" "))
    })
}
