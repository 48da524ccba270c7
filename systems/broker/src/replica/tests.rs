//! How a follower's log is cut until it is a prefix of its leader's: not less than must go, and not more.

use super::*;
use crate::ids::TopicId;
use crate::log::{LogConfig, ReadLimits};
use proptest::prelude::*;
use riprap_env::MemDisk;
use riprap_protocol::Uuid;
use riprap_protocol::records::{BatchBuilder, split_batches};

/// The epochs of a log's records, in order: what tells two records at one offset apart, for an epoch has one leader.
type Epochs = Vec<i32>;

fn replica(disk: &mut MemDisk, dir: &str, epochs: &[i32]) -> Replica {
    let (mut log, _) = PartitionLog::open(disk, dir, LogConfig::default()).expect("an empty log opens");
    for epoch in epochs {
        let batch = BatchBuilder::new().record(0, None, Some(b"v")).build();
        log.append_as_leader(disk, batch, *epoch, 0).expect("the log takes what it is given");
    }
    log.sync(disk).expect("the disk in memory syncs");
    Replica::new(PartitionKey { topic: TopicId(Uuid([1; 16])), index: 0 }, "t", log, Fsync::Always)
}

fn epochs_of(replica: &Replica, disk: &mut MemDisk) -> Epochs {
    let limits = ReadLimits { below_offset: i64::MAX, max_bytes: usize::MAX, at_least_one_batch: true };
    let batches = replica.log.read(disk, 0, limits).expect("the log can be read");
    split_batches(batches).map(|batch| batch.expect("it is whole").header().leader_epoch).collect()
}

/// Fetches and truncates as a follower does, until the leader finds no difference.
fn truncated(leaders: &[i32], followers: &[i32]) -> Epochs {
    let mut disk = MemDisk::new();
    let leader = replica(&mut disk, "leader", leaders);
    let mut follower = replica(&mut disk, "follower", followers);
    for _ in 0..=followers.len() {
        let end = follower.log.log_end_offset();
        let parts = follower.log.last_leader_epoch().and_then(|epoch| leader.diverges(end, epoch));
        let Some(parts) = parts else { return epochs_of(&follower, &mut disk) };
        let (before, after) =
            follower.truncate_to_leader(parts, &mut disk).expect("the disk in memory truncates");
        assert!(after < before, "a truncation that changes nothing would be asked for again and again");
    }
    panic!("{followers:?} is not cut to a prefix of {leaders:?} in as many steps as it has records");
}

fn common(a: &[i32], b: &[i32]) -> Epochs {
    a.iter().zip(b).take_while(|(a, b)| a == b).map(|(a, _)| *a).collect()
}

#[test]
fn documented_cases() {
    let check = |leader: &[i32], follower: &[i32]| {
        assert_eq!(truncated(leader, follower), common(leader, follower), "{follower:?} against {leader:?}");
    };
    check(&[], &[]);
    check(&[0, 0], &[0]);
    check(&[0], &[0, 0]);
    check(&[], &[0, 0]);
    check(&[1, 1], &[0, 0]);
    // KIP-101, scenario 1: a high watermark that lags is no reason to truncate.
    check(&[0, 0], &[0, 0]);
    // KIP-101, scenario 2: as long, but another record of another leader.
    check(&[0, 1], &[0, 0]);
    // KIP-279: each has an epoch that the other never saw, and the end of one says nothing about the other.
    check(&[0, 0, 0, 2, 2], &[0, 0, 0, 1, 1]);
    check(&[0, 0, 2, 2, 2, 2], &[0, 0, 1, 1]);
    check(&[0, 3, 3], &[0, 1, 1, 2, 2]);
    check(&[0, 1, 4], &[0, 1, 1, 2, 3, 3]);
}

/// One epoch of two replicas: who leads, how many records it appends, and how many of them the other takes; none if the
/// other does not hear of the epoch.
#[derive(Clone, Debug)]
struct Reign {
    first_leads: bool,
    appends: usize,
    other_takes: Option<usize>,
}

fn reign() -> impl Strategy<Value = Reign> {
    let takes = prop_oneof![Just(None), (0..4usize).prop_map(Some)];
    (any::<bool>(), 0..4usize, takes).prop_map(|(first_leads, appends, other_takes)| Reign {
        first_leads,
        appends,
        other_takes,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn just_what_differs_is_cut(reigns in proptest::collection::vec(reign(), 0..8)) {
        let mut logs: [Epochs; 2] = [Vec::new(), Vec::new()];
        for (epoch, reign) in (0..).zip(reigns) {
            let (leader, other) = if reign.first_leads { (0, 1) } else { (1, 0) };
            let leads = &mut logs[leader];
            leads.extend(std::iter::repeat_n(epoch, reign.appends));
            if let Some(takes) = reign.other_takes {
                let leads = logs[leader].clone();
                let shared = common(&leads, &logs[other]).len();
                logs[other] = leads[..(shared + takes).min(leads.len())].to_vec();
            }
        }
        prop_assert_eq!(truncated(&logs[0], &logs[1]), common(&logs[0], &logs[1]));
        prop_assert_eq!(truncated(&logs[1], &logs[0]), common(&logs[0], &logs[1]));
    }
}
