//! A disk that notes how long each sync took.

use crate::observe::{Exposition, MetricKind};
use riprap_env::{Disk, DiskError, FileId, RealDisk};
use std::time::Instant;

/// Bounds of the histogram, from what a cache in the drive takes to what a drive under load does. Units: microseconds.
const BOUNDS_US: [u64; 12] =
    [50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 100_000, 250_000, 1_000_000];

/// How many syncs took how long.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct SyncTimes {
    /// By the first bound that was not passed; the last is for what passed all.
    counts: [u64; BOUNDS_US.len() + 1],
    sum_us: u64,
}

impl SyncTimes {
    fn note(&mut self, took_us: u64) {
        self.counts[BOUNDS_US.partition_point(|bound| *bound < took_us)] += 1;
        self.sum_us += took_us;
    }

    pub(super) fn observe(&self, out: &mut Exposition) {
        out.metric("riprap_disk_sync_seconds", MetricKind::Histogram, "How long syncs of files took.");
        let mut so_far = 0;
        for (count, bound_us) in self.counts.iter().zip(BOUNDS_US) {
            so_far += count;
            out.sample_of("_bucket", &[("le", &(bound_us as f64 / 1e6))], so_far);
        }
        let all: u64 = self.counts.iter().sum();
        out.sample_of("_bucket", &[("le", &"+Inf")], all);
        out.sample_of("_sum", &[], self.sum_us as f64 / 1e6);
        out.sample_of("_count", &[], all);
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct TimedDisk {
    disk: RealDisk,
    pub(super) syncs: SyncTimes,
}

impl TimedDisk {
    pub(super) fn new(disk: RealDisk) -> TimedDisk {
        TimedDisk { disk, syncs: SyncTimes::default() }
    }
}

impl Disk for TimedDisk {
    fn open(&mut self, path: &str) -> Result<FileId, DiskError> {
        self.disk.open(path)
    }

    fn close(&mut self, file: FileId) {
        self.disk.close(file);
    }

    fn len(&mut self, file: FileId) -> Result<u64, DiskError> {
        self.disk.len(file)
    }

    fn read_at(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<(), DiskError> {
        self.disk.read_at(file, offset, buf)
    }

    fn write_at(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.disk.write_at(file, offset, bytes)
    }

    fn truncate(&mut self, file: FileId, len: u64) -> Result<(), DiskError> {
        self.disk.truncate(file, len)
    }

    fn sync(&mut self, file: FileId) -> Result<(), DiskError> {
        let since = Instant::now();
        let synced = self.disk.sync(file);
        self.syncs.note(u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX));
        synced
    }

    fn sync_dir(&mut self, path: &str) -> Result<(), DiskError> {
        self.disk.sync_dir(path)
    }

    fn list(&mut self, path: &str) -> Result<Vec<String>, DiskError> {
        self.disk.list(path)
    }

    fn exists(&mut self, path: &str) -> bool {
        self.disk.exists(path)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.disk.rename(from, to)
    }

    fn remove(&mut self, path: &str) -> Result<(), DiskError> {
        self.disk.remove(path)
    }

    fn remove_dir_all(&mut self, path: &str) -> Result<(), DiskError> {
        self.disk.remove_dir_all(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_add_up() {
        let mut times = SyncTimes::default();
        [50, 51, 1_000_000, 2_000_000].into_iter().for_each(|took_us| times.note(took_us));
        let mut out = Exposition::default();
        times.observe(&mut out);
        let text = out.into_text();
        for expect in [
            "_bucket{le=\"0.00005\"} 1\n",
            "_bucket{le=\"0.0001\"} 2\n",
            "_bucket{le=\"1\"} 3\n",
            "_bucket{le=\"+Inf\"} 4\n",
            "_sum 3.000101\n",
            "_count 4\n",
        ] {
            assert!(text.contains(expect), "{expect} is not in\n{text}");
        }
    }
}
