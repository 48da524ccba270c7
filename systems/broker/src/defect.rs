//! Documented bugs of real systems, each planted at one marked place (`DEFECT name`), so that the harness can prove
//! that it finds them. All are off unless asked for.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A bug that can be switched on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DefectKind {
    /// See [`ALL`].
    FetchFilterSkip,
    /// See [`ALL`].
    MinIsrUnclean,
    /// See [`ALL`].
    ZeroOffset,
}

/// What a defect is and how it shows.
#[derive(Clone, Copy, Debug)]
pub struct Defect {
    /// Which one.
    pub kind: DefectKind,
    /// What the command line calls it.
    pub name: &'static str,
    /// Where the bug is documented.
    pub source: &'static str,
    /// What goes wrong inside.
    pub mechanism: &'static str,
    /// Flags of `riprap test` under which it shows.
    pub trigger: &'static str,
    /// The anomalies that a checker must name; any one of them is enough.
    pub anomalies: &'static [&'static str],
}

/// Every defect, by name.
pub static ALL: &[Defect] = &[
    Defect {
        kind: DefectKind::FetchFilterSkip,
        name: "fetch-filter-skip",
        source: "Jepsen, Bufstream 0.1.0 (2024), #5: records hidden from lagging consumers by a server-side filter",
        mechanism: "a consumer's fetch that starts well below the end loses its first batch when others follow it",
        trigger: "--nemesis none --time-limit 15s",
        anomalies: &["poll-skip", "int-poll-skip", "lost-write", "unseen"],
    },
    Defect {
        kind: DefectKind::MinIsrUnclean,
        name: "min-isr-unclean",
        source: "Jepsen, Kafka 0.8 beta (2013); KAFKA-1028; min.insync.replicas, KAFKA-1555",
        mechanism: "a leader alone in the ISR acknowledges acks=all, and when it dies a replica without the records leads",
        trigger: "--nodes 5 --nemesis partition:bridge,kill:minority --time-limit 60s --fault-time 6s --quiet-time 3s",
        anomalies: &["lost-write", "unseen", "inconsistent-offsets"],
    },
    Defect {
        kind: DefectKind::ZeroOffset,
        name: "zero-offset",
        source: "Jepsen, Bufstream 0.1.0 (2024), #3: a spurious offset 0 on an error path",
        mechanism: "a produce that fails after its append, or while it waits for replicas, is answered as stored at offset 0",
        trigger: "--nemesis kill,partition --time-limit 60s",
        anomalies: &["duplicate", "inconsistent-offsets", "lost-write", "unseen"],
    },
];

/// No defect has this name.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("unknown defect `{name}`; one of: {}", ALL.iter().map(|d| d.name).collect::<Vec<_>>().join(", "))]
pub struct UnknownDefect {
    name: String,
}

impl FromStr for DefectKind {
    type Err = UnknownDefect;

    fn from_str(name: &str) -> Result<DefectKind, UnknownDefect> {
        let found = ALL.iter().find(|defect| defect.name == name);
        found.map(|defect| defect.kind).ok_or_else(|| UnknownDefect { name: name.to_owned() })
    }
}

impl fmt::Display for DefectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ALL.iter().find(|defect| defect.kind == *self).expect("every kind is listed").name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_read_back() {
        assert!(ALL.is_sorted_by_key(|defect| defect.name));
        for defect in ALL {
            assert_eq!(defect.name.parse(), Ok(defect.kind));
            assert_eq!(defect.kind.to_string(), defect.name);
        }
        let refusal = "que".parse::<DefectKind>().map_err(|e| e.to_string());
        let expect = "unknown defect `que`; one of: fetch-filter-skip, min-isr-unclean, zero-offset";
        assert_eq!(refusal, Err(expect.to_owned()));
    }
}
