//! When what is appended to the logs reaches the disk, and what a broker remembers of what may not have.
//!
//! | `fsync` | a record counts once it is | what a power failure takes |
//! |---|---|---|
//! | `always` | synced | nothing that counts |
//! | `interval` | written; synced every `flush.interval.ms` | of one broker, the last moments of its logs |
//! | `never` | written; synced when a segment or the process ends | of one broker, whatever its kernel had not written |
//!
//! To count is to be acknowledged by a leader, and to be claimed by a follower that fetches on. With the last two, what
//! is acknowledged with acks=all is safe while one broker in sync keeps running until another has caught up: a broker
//! that comes back is out of the ISR, gets what it lost from whoever leads, and joins when it has everything; it may
//! lead neither for having been the last in the ISR, nor for having left that in time (ELR), while there is another
//! that may. If the processes of all in sync end, the last to come back leads, and what it lost is lost. That is nothing
//! unless its power failed: what a process that is killed has written, the kernel has.
//!
//! While records count that the disk may not have, a file says so, so that the next life of the broker can say it when
//! it registers: an orderly end syncs all and takes the file away. It is kept through a life that syncs always, for
//! what that life was given to begin with may lack something.
//!
//! Another file is there from the first start on an empty disk until the cluster knows that life of the broker. While it is
//! there each life says that the disk is new, for the one before may have ended before anybody heard it: a replica that was
//! in sync before its disk was lost must not be taken for one that still is.
//!
//! The metadata quorum's log, cuts of logs and ended segments are synced whatever the policy.
//!
//! Source: KIP-966, "Unclean shutdown", where a file says the opposite.

use crate::ids::PartitionKey;
use crate::node::{Cx, Fatal, Running};
use riprap_env::{Disk, DiskError, log};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// When what is appended to a log is synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fsync {
    /// Before it counts.
    Always,
    /// A moment later, together with what else was appended since the last time.
    Interval,
    /// When its segment or the process ends.
    Never,
}

/// The policies by the names that configurations use.
const NAMES: [(&str, Fsync); 3] =
    [("always", Fsync::Always), ("interval", Fsync::Interval), ("never", Fsync::Never)];

impl FromStr for Fsync {
    type Err = String;

    fn from_str(text: &str) -> Result<Fsync, String> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        let right = || format!("one of: {}", NAMES.map(|(name, _)| name).join(", "));
        found.map(|(_, fsync)| *fsync).ok_or_else(right)
    }
}

impl fmt::Display for Fsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = NAMES.iter().find(|(_, fsync)| fsync == self).expect("each policy has a name");
        f.write_str(name)
    }
}

/// The file that is there while the disk may lack records that count.
const MARK: &str = "unsynced";

/// Notes at the start of a life that the disk may come to lack records that count. Says whether it may already: a life
/// before did not end in order.
pub(crate) fn begin_life(disk: &mut dyn Disk, fsync: Fsync) -> Result<bool, DiskError> {
    let may_lack = disk.exists(MARK);
    if fsync != Fsync::Always && !may_lack {
        let file = disk.open(MARK)?;
        disk.close(file);
        disk.sync_dir("")?;
    }
    Ok(may_lack)
}

/// The file that is there until the cluster knows a broker whose disk was empty.
const NEW_MARK: &str = "unregistered";

/// Whether the cluster does not know yet that this disk began empty, which it does now if `is_unborn`.
pub(crate) fn begin_disk(disk: &mut dyn Disk, is_unborn: bool) -> Result<bool, DiskError> {
    if is_unborn && !disk.exists(NEW_MARK) {
        let file = disk.open(NEW_MARK)?;
        disk.close(file);
        disk.sync_dir("")?;
    }
    Ok(disk.exists(NEW_MARK))
}

/// The cluster knows this life of the broker: what the disk holds from now on counts.
pub(crate) fn disk_is_known(disk: &mut dyn Disk) -> Result<(), DiskError> {
    if disk.exists(NEW_MARK) {
        disk.remove(NEW_MARK)?;
        disk.sync_dir("")?;
    }
    Ok(())
}

/// Logs that wait to be synced.
#[derive(Debug)]
pub(crate) struct Flush {
    interval_ns: u64,
    unsynced: BTreeSet<PartitionKey>,
    due_ns: Option<u64>,
}

impl Flush {
    pub(crate) fn new(interval_ms: u64) -> Flush {
        Flush { interval_ns: interval_ms * 1_000_000, unsynced: BTreeSet::new(), due_ns: None }
    }

    /// Notes that a log was appended to.
    pub(crate) fn note(&mut self, key: PartitionKey, now_ns: u64) {
        self.unsynced.insert(key);
        self.due_ns.get_or_insert(now_ns + self.interval_ns);
    }

    /// The logs to sync now, if their time has come.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> BTreeSet<PartitionKey> {
        if self.due_ns.is_none_or(|due_ns| due_ns > now_ns) {
            return BTreeSet::new();
        }
        self.due_ns = None;
        std::mem::take(&mut self.unsynced)
    }

    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        self.due_ns
    }
}

impl Running {
    /// Makes all logs durable before the process ends in order, and says so to the next.
    ///
    /// Where that fails the next life is told nothing, and what it then does is what it does after a power failure.
    pub(crate) fn end_life(&mut self, cx: &mut Cx<'_>) {
        if let Err(e) = self.sync_all(cx) {
            log!(cx.env, Error, "cannot sync before the end: {e}");
        }
    }

    fn sync_all(&mut self, cx: &mut Cx<'_>) -> Result<(), Fatal> {
        let disk = cx.env.disk();
        if !disk.exists(MARK) {
            return Ok(());
        }
        for replica in self.replicas.iter_mut() {
            let synced = replica.log.sync(disk);
            synced.map_err(|error| Fatal::Log { partition: replica.name(), error })?;
        }
        if !self.may_lack_records || self.is_registered() {
            disk.remove(MARK)?;
            disk.sync_dir("")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_env::MemDisk;

    #[test]
    fn policies_are_named() {
        for (name, fsync) in NAMES {
            assert_eq!(name.parse(), Ok(fsync));
            assert_eq!(fsync.to_string(), name);
        }
        assert_eq!("sometimes".parse::<Fsync>(), Err("one of: always, interval, never".to_owned()));
    }

    #[test]
    fn a_disk_is_new_until_the_cluster_knows() {
        let mut disk = MemDisk::new();
        for is_unborn in [true, false, false] {
            assert_eq!(begin_disk(&mut disk, is_unborn), Ok(true));
            disk.power_fail(|_| riprap_env::Keep::Lost);
        }
        disk_is_known(&mut disk).expect("the disk works");
        disk.power_fail(|_| riprap_env::Keep::Lost);
        assert_eq!(begin_disk(&mut disk, false), Ok(false));
    }

    #[test]
    fn a_life_that_did_not_end_in_order_is_remembered() {
        let mut disk = MemDisk::new();
        let mut check = |fsync: Fsync, expect: bool| {
            assert_eq!(begin_life(&mut disk, fsync), Ok(expect), "{fsync}");
            disk.power_fail(|_| riprap_env::Keep::Lost);
        };
        check(Fsync::Always, false);
        check(Fsync::Interval, false);
        check(Fsync::Never, true);
        // What the life before left is not whole because this one syncs.
        check(Fsync::Always, true);
        check(Fsync::Always, true);
    }
}
