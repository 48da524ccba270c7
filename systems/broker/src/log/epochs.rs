//! Which leader epoch begins at which offset of the log: what a follower compares with its leader to find where the
//! two logs part.
//!
//! The list is derived from the batches, each of which carries the epoch of the leader that appended it, so that it
//! cannot disagree with the log and needs no file. An epoch in which nothing was appended is not in it: asked for
//! that epoch, the answer is the end of the one before, which is where Kafka, whose list has it, sends a follower too.
//!
//! Source: KIP-101 (epochs instead of the high watermark), KIP-279 (the answer names the epoch that it is about).

/// Where a leader epoch ends in a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochEnd {
    /// The epoch that the answer is about.
    pub epoch: i32,
    /// The first offset that is not in it nor in an earlier one.
    pub end_offset: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct EpochStart {
    epoch: i32,
    start_offset: i64,
}

/// The epochs in a log, rising, each with its first offset.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct LeaderEpochs {
    starts: Vec<EpochStart>,
}

impl LeaderEpochs {
    /// Takes in a batch at the log's end. Its epoch is not below [`last`](LeaderEpochs::last).
    pub(super) fn append(&mut self, epoch: i32, base_offset: i64) {
        if self.last().is_none_or(|last| last < epoch) {
            // Of an epoch that ended where the log begins, nothing is left.
            self.truncate(base_offset);
            self.starts.push(EpochStart { epoch, start_offset: base_offset });
        }
    }

    /// Forgets the epochs that began at `end_offset` or above.
    pub(super) fn truncate(&mut self, end_offset: i64) {
        self.starts.retain(|start| start.start_offset < end_offset);
    }

    /// Forgets the epochs that ended at `start_offset` or below; the one that goes on there begins there. The last one is
    /// kept. Source: LeaderEpochFileCache#truncateFromStart.
    pub(super) fn start_at(&mut self, start_offset: i64) {
        let after = self.starts.partition_point(|start| start.start_offset <= start_offset);
        if let Some(at) = after.checked_sub(1) {
            self.starts.drain(..at);
            self.starts[0].start_offset = start_offset;
        }
    }

    /// The epochs of the batches from `base_offset` on and below `end_offset`, each with where it begins among them.
    pub(super) fn within(&self, base_offset: i64, end_offset: i64) -> Vec<(i32, i64)> {
        let first = self.of_offset(base_offset).map(|epoch| (epoch, base_offset));
        let later =
            self.starts.iter().filter(|start| (base_offset + 1..end_offset).contains(&start.start_offset));
        first.into_iter().chain(later.map(|start| (start.epoch, start.start_offset))).collect()
    }

    /// The epoch of the last batch.
    pub(super) fn last(&self) -> Option<i32> {
        self.starts.last().map(|start| start.epoch)
    }

    /// The epoch of the batch that contains `offset`, which is in the log.
    pub(super) fn of_offset(&self, offset: i64) -> Option<i32> {
        let after = self.starts.partition_point(|start| start.start_offset <= offset);
        after.checked_sub(1).map(|at| self.starts[at].epoch)
    }

    /// The largest epoch up to `requested`, and where it ends. None: the log is empty.
    ///
    /// Below the first epoch, the answer is the requested one with the log's first offset: what it held is gone.
    /// Source: LeaderEpochFileCache#endOffsetFor.
    pub(super) fn end_of(&self, requested: i32, log_end_offset: i64) -> Option<EpochEnd> {
        let after = self.starts.partition_point(|start| start.epoch <= requested);
        let end_offset = self.starts.get(after).map_or(log_end_offset, |next| next.start_offset);
        match after.checked_sub(1) {
            Some(at) => Some(EpochEnd { epoch: self.starts[at].epoch, end_offset }),
            None if self.starts.is_empty() => None,
            None => Some(EpochEnd { epoch: requested, end_offset }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_ends_where_the_next_begins() {
        let mut epochs = LeaderEpochs::default();
        assert_eq!(epochs.end_of(3, 0), None);
        for (epoch, base_offset) in [(1, 10), (1, 15), (3, 20), (3, 30), (7, 40)] {
            epochs.append(epoch, base_offset);
        }
        let check = |epochs: &LeaderEpochs, requested, expect: (i32, i64)| {
            let (epoch, end_offset) = expect;
            assert_eq!(
                epochs.end_of(requested, 50),
                Some(EpochEnd { epoch, end_offset }),
                "epoch {requested}"
            );
        };
        check(&epochs, 0, (0, 10));
        check(&epochs, 1, (1, 20));
        check(&epochs, 2, (1, 20));
        check(&epochs, 3, (3, 40));
        check(&epochs, 6, (3, 40));
        check(&epochs, 7, (7, 50));
        check(&epochs, 9, (7, 50));
        let of = [9, 10, 19, 20, 39, 40, 49].map(|offset| epochs.of_offset(offset));
        assert_eq!(of, [None, Some(1), Some(1), Some(3), Some(3), Some(7), Some(7)]);

        let mut later = epochs.clone();
        later.start_at(25);
        check(&later, 1, (1, 25));
        check(&later, 3, (3, 40));
        assert_eq!(later.of_offset(24), None);
        later.start_at(40);
        check(&later, 3, (3, 40));
        later.start_at(50);
        check(&later, 9, (7, 50));
        check(&later, 6, (6, 50));

        epochs.truncate(41);
        assert_eq!(epochs.last(), Some(7));
        epochs.truncate(40);
        assert_eq!(epochs.last(), Some(3));
        check(&epochs, 9, (3, 50));
    }
}
