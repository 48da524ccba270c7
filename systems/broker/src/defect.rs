//! Documented bugs of real systems, each planted at one marked place (`DEFECT name`), so that the harness can prove
//! that it finds them. All are off unless asked for.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A bug that can be switched on.
#[expect(missing_docs, reason = "`ALL` tells of each")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DefectKind {
    AckThenTruncate,
    AmnesiacCoordinator,
    DelayedEndtxn,
    FetchFilterSkip,
    HwTruncation,
    LastReplicaStanding,
    LateProduceHang,
    LazyFsync,
    LostLeaseUnaware,
    LsoOffByOne,
    MinIsrUnclean,
    OffsetsExpireInRebalance,
    OooInsteadOfDedup,
    PendingOffsetsDropped,
    PidOverlap,
    ReadAboveHw,
    ReadAboveLso,
    SeqReuseAfterAbort,
    StaleEndCache,
    StaleGenerationOwner,
    StrictMarkerEpoch,
    UnansweredJoin,
    UnstableOffsetFetch,
    ZeroOffset,
    ZombieCommit,
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
        kind: DefectKind::AckThenTruncate,
        name: "ack-then-truncate",
        source: "Redpanda PR #3003 (up to 21.10.2): success is told by the term at the offset, not by the commit index",
        mechanism: "a leader that is replaced answers what waits for replicas as stored if its log still has it, \
            and truncates it then",
        trigger: "--nemesis partition,pause --time-limit 60s --fault-time 3s --quiet-time 2s",
        anomalies: &["inconsistent-offsets", "lost-write", "unseen", "duplicate"],
    },
    Defect {
        kind: DefectKind::AmnesiacCoordinator,
        name: "amnesiac-coordinator",
        source: "Redpanda #6018, #6019 (to 22.2): an open transaction lived in its coordinator's memory alone",
        mechanism: "a coordinator that takes over forgets open transactions: what they had is aborted, and the \
            producer, not told, goes on and commits the rest",
        trigger: "--sim --txn --nemesis kill:one --op-timeout 10s --rate 100 --time-limit 60s",
        anomalies: &["lost-write", "torn-txn"],
    },
    Defect {
        kind: DefectKind::DelayedEndtxn,
        name: "delayed-endtxn",
        source: "KAFKA-17754, found by Jepsen in Bufstream 0.1.0 (2024); KIP-890",
        mechanism: "the cluster offers the old protocol of transactions only: an EndTxn that was long on its way \
            ends the producer's next transaction, which has the same epoch",
        trigger: "--sim --txn --nemesis hold:one-clients --set client.request.timeout.ms=400 --fault-time 1s \
            --quiet-time 1s --rate 100 --concurrency 8 --keys 2 --time-limit 5s",
        anomalies: &["G1a", "lost-write", "torn-txn"],
    },
    Defect {
        kind: DefectKind::FetchFilterSkip,
        name: "fetch-filter-skip",
        source: "Jepsen, Bufstream 0.1.0 (2024), #5: records hidden from lagging consumers by a server-side filter",
        mechanism: "a consumer's fetch that starts well below the end loses its first batch when others follow it",
        trigger: "--nemesis none --time-limit 15s",
        anomalies: &["poll-skip", "int-poll-skip", "lost-write", "unseen"],
    },
    Defect {
        kind: DefectKind::HwTruncation,
        name: "hw-truncation",
        source: "KIP-101, scenario 1; Kafka before 0.11",
        mechanism: "a follower of a new leader cuts its log at its own high watermark, which lags, and leads before \
            it has the records again",
        trigger: "--nodes 5 --nemesis kill:minority --time-limit 60s --fault-time 4s --quiet-time 3s",
        anomalies: &["lost-write", "unseen", "inconsistent-offsets"],
    },
    Defect {
        kind: DefectKind::LastReplicaStanding,
        name: "last-replica-standing",
        source: "KIP-966; Kafka before 4.1 without eligible leader replicas",
        mechanism: "the last replica in the ISR loses its unsynced tail with its power, and leads all the same; the \
            others cut theirs",
        trigger: "--sim --nodes 5 --set fsync=interval --set flush.interval.ms=4000 --set replica.fetch.wait.max.ms=200 \
                  --set replica.lag.time.max.ms=400 --nemesis partition:halves,power-loss:one --keys 24 --time-limit 60s",
        anomalies: &["lost-write", "unseen", "inconsistent-offsets"],
    },
    Defect {
        kind: DefectKind::LateProduceHang,
        name: "late-produce-hang",
        source: "KIP-890, part 1; transaction.partition.verification.enable, Kafka 3.6",
        mechanism: "a leader appends a record of a transaction that is over: no marker will ever end it, and \
            committed reads stop there, unless the next transaction takes it along",
        trigger: "--sim --txn --nemesis hold --set client.request.timeout.ms=500 --max-writes-per-key 8 \
            --fault-time 3s --quiet-time 1s --time-limit 15s --drain-limit 60s",
        anomalies: &["stuck-consumer", "G1a"],
    },
    Defect {
        kind: DefectKind::LazyFsync,
        name: "lazy-fsync",
        source: "NATS JetStream #7564 (Jepsen, 2025): acknowledged at once, synced every two minutes",
        mechanism: "records count once they are written, and are synced two minutes later: a power failure of many \
            brokers takes them",
        trigger: "--sim --nemesis power-loss:all --time-limit 30s --fault-time 2s --quiet-time 6s",
        anomalies: &["lost-write", "unseen", "inconsistent-offsets"],
    },
    Defect {
        kind: DefectKind::LostLeaseUnaware,
        name: "lost-lease-unaware",
        source: "Jepsen, Bufstream 0.1.0 (2024), #2: an agent that lost its lease in a pause was never told",
        mechanism: "a broker that was silent for a whole session does not hear any more of what it leads and \
            follows, until it is started anew",
        trigger: "--sim --nemesis pause:one --keys 4 --max-writes-per-key 8 --rate 50 --time-limit 20s \
            --drain-limit 60s",
        anomalies: &["stuck-producer", "stuck-consumer"],
    },
    Defect {
        kind: DefectKind::LsoOffByOne,
        name: "lso-off-by-one",
        source: "Redpanda #3036: the last stable offset, which is exclusive, taken for an inclusive bound",
        mechanism: "committed reads go one record too far: they see the first record of an open transaction",
        trigger: "--txn --nemesis none --time-limit 10s",
        anomalies: &["G1a", "precommitted-read"],
    },
    Defect {
        kind: DefectKind::MinIsrUnclean,
        name: "min-isr-unclean",
        source: "Jepsen, Kafka 0.8 beta (2013); KAFKA-1028; min.insync.replicas, KAFKA-1555",
        mechanism: "a leader alone in the ISR acknowledges acks=all, and when it dies a replica without the records \
            leads",
        trigger: "--nodes 5 --nemesis partition:bridge,kill:minority --time-limit 60s --fault-time 6s --quiet-time 3s",
        anomalies: &["lost-write", "unseen", "inconsistent-offsets"],
    },
    Defect {
        kind: DefectKind::OffsetsExpireInRebalance,
        name: "offsets-expire-in-rebalance",
        source: "KAFKA-13636; Kafka before 3.1",
        mechanism: "while a group rebalances, committed offsets that are older than the retention are removed, though members go on with them",
        trigger: "--sim --sub-via subscribe --keys 4 --max-writes-per-key 100000 --set offsets.retention.minutes=1 \
                  --set offsets.retention.check.interval.ms=100 --set client.session.timeout.ms=2000 \
                  --nemesis clock:all,kill:one --time-limit 120s --fault-time 2s --quiet-time 1s",
        anomalies: &["committed-offset-regression", "redelivery"],
    },
    Defect {
        kind: DefectKind::OooInsteadOfDedup,
        name: "ooo-instead-of-dedup",
        source: "Redpanda #3039 (to 21.10.2), mended by #3077; KIP-360 for the producer's part",
        mechanism: "a batch that is sent again is refused as out of order although it is stored; the producer \
            raises its epoch and sends it once more",
        trigger: "--sim --nemesis kill,reset --fault-time 2s --quiet-time 1s --time-limit 30s --rate 150",
        anomalies: &["duplicate"],
    },
    Defect {
        kind: DefectKind::PendingOffsetsDropped,
        name: "pending-offsets-dropped",
        source: "KAFKA-19163; Kafka 4.0.0",
        mechanism: "a group whose last member is gone is deleted although an open transaction has offsets for it: its commit \
            commits them to nothing",
        trigger: "--sim --txn --sub-via subscribe --keys 2 --rate 8 --concurrency 4 \
            --set client.session.timeout.ms=1000 --set client.heartbeat.interval.ms=300 \
            --set offsets.retention.check.interval.ms=100 --nemesis hold:all-clients --fault-time 6s \
            --quiet-time 1s --op-timeout 20s --time-limit 4s",
        anomalies: &["committed-offset-regression", "redelivery"],
    },
    Defect {
        kind: DefectKind::PidOverlap,
        name: "pid-overlap",
        source: "KAFKA-20031 (before 4.3.0): a block of producer ids that overlaps the one before",
        mechanism: "two brokers hand out the same producer ids: what one producer sends is taken for what the other \
            has sent, and acknowledged without being stored",
        trigger: "--nemesis none --time-limit 10s",
        anomalies: &["lost-write", "unseen", "inconsistent-offsets"],
    },
    Defect {
        kind: DefectKind::ReadAboveHw,
        name: "read-above-hw",
        source: "KAFKA-9835: a read passes its limit when an append comes in between",
        mechanism: "a consumer that finds something to read is given all that is appended behind it, committed or not",
        trigger: "--nemesis partition --time-limit 60s --fault-time 4s --quiet-time 2s",
        anomalies: &["inconsistent-offsets", "duplicate", "phantom-read"],
    },
    Defect {
        kind: DefectKind::ReadAboveLso,
        name: "read-above-lso",
        source: "KAFKA-9807: the bound of committed reads was computed from a high watermark that was read twice",
        mechanism: "a fetch that is answered as the high watermark moves is given what is between the old and the \
            new, open transactions among it",
        trigger: "--txn --nemesis none --time-limit 10s",
        anomalies: &["G1a", "precommitted-read"],
    },
    Defect {
        kind: DefectKind::SeqReuseAfterAbort,
        name: "seq-reuse-after-abort",
        source: "Redpanda #5026 (mended in 22.1): batches were compared with those of an aborted transaction",
        mechanism: "after an abort the first batches of the next transaction are taken for those of the aborted \
            one, and acknowledged without being stored",
        trigger: "--sim --txn --nemesis none --time-limit 10s",
        anomalies: &["lost-write", "torn-txn", "unseen", "inconsistent-offsets"],
    },
    Defect {
        kind: DefectKind::StaleEndCache,
        name: "stale-end-cache",
        source: "Jepsen, Bufstream 0.1.0 (2024), #1: polls are empty for ever because of a stale cache",
        mechanism: "a broker that leads again lets consumers read up to what was committed when it led last, and \
            never further",
        trigger: "--nemesis partition --time-limit 60s --fault-time 4s --quiet-time 2s",
        anomalies: &["stuck-consumer", "unseen"],
    },
    Defect {
        kind: DefectKind::StaleGenerationOwner,
        name: "stale-generation-owner",
        source: "KAFKA-19974, KAFKA-12984: commits of former owners of partitions are taken",
        mechanism: "a coordinator takes commits of members of earlier generations, and of those that it has thrown out",
        trigger: "--sim --sub-via subscribe --keys 3 --set client.session.timeout.ms=1000 \
                  --set client.heartbeat.interval.ms=300 --nemesis hold --time-limit 60s --fault-time 5s --quiet-time 1s",
        anomalies: &["committed-offset-regression", "redelivery"],
    },
    Defect {
        kind: DefectKind::StrictMarkerEpoch,
        name: "strict-marker-epoch",
        source: "KAFKA-19999 (4.2.0): the epoch of a transaction's marker had to be above the producer's",
        mechanism: "a marker whose answer was lost is sent again, and refused for ever: the transaction never ends, \
            and its producer cannot begin another",
        trigger: "--sim --txn --nemesis kill --rate 100 --time-limit 30s --drain-limit 60s",
        anomalies: &["stuck-producer"],
    },
    Defect {
        kind: DefectKind::UnansweredJoin,
        name: "unanswered-join",
        source: "KAFKA-14422 (mended in 2022): a member whose join could not be answered was never given up; Redpanda #3300",
        mechanism: "a member that is gone when its join is answered counts for ever as one that waits for that: the group \
            waits for its assignment if it leads, or gives it keys",
        trigger: "--sim --sub-via subscribe --nemesis none --keys 8 --max-writes-per-key 32 --time-limit 20s \
            --drain-limit 180s",
        anomalies: &["stuck-consumer"],
    },
    Defect {
        kind: DefectKind::UnstableOffsetFetch,
        name: "unstable-offset-fetch",
        source: "KIP-447: UNSTABLE_OFFSET_COMMIT, Kafka 2.5",
        mechanism: "a member that takes over a partition is told its committed offset while a transaction with a newer one is open, and consumes again what that has consumed",
        trigger: "--txn --sub-via subscribe --keys 4 --nemesis none --time-limit 15s",
        anomalies: &["committed-offset-regression", "redelivery"],
    },
    Defect {
        kind: DefectKind::ZeroOffset,
        name: "zero-offset",
        source: "Jepsen, Bufstream 0.1.0 (2024), #3: a spurious offset 0 on an error path",
        mechanism: "a produce that fails after its append, or while it waits for replicas, is answered as stored at \
            offset 0",
        trigger: "--nemesis kill,partition --time-limit 60s",
        anomalies: &["duplicate", "inconsistent-offsets", "lost-write", "unseen"],
    },
    Defect {
        kind: DefectKind::ZombieCommit,
        name: "zombie-commit",
        source: "KAFKA-6119 (before 1.0): a transaction that timed out was aborted without a new epoch",
        mechanism: "a producer whose transaction took too long is not fenced: what it sends after the abort is \
            another transaction, which it commits as if it were all",
        trigger: "--sim --txn --nemesis pause,partition --set client.transaction.timeout.ms=1000 --op-timeout 10s \
            --rate 100 --time-limit 20s",
        anomalies: &["lost-write", "torn-txn"],
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
        let names: Vec<&str> = ALL.iter().map(|defect| defect.name).collect();
        assert_eq!(refusal, Err(format!("unknown defect `que`; one of: {}", names.join(", "))));
    }
}
