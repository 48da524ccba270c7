//! Small numbers for large ones: keys, values and offsets become places in a column.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes one integer, by the finalizer of splitmix64 (public domain): fast, and no two integers collide before the
/// table cuts the hash down.
#[derive(Clone, Copy, Default)]
pub(crate) struct IntHasher(u64);

impl Hasher for IntHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_i64(&mut self, n: i64) {
        self.write_u64(n as u64);
    }
    fn write_u64(&mut self, n: u64) {
        let mut n = self.0.rotate_left(32) ^ n.wrapping_add(0x9e37_79b9_7f4a_7c15);
        n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = n ^ (n >> 31);
    }
}

pub(crate) type IntMap<K, V> = HashMap<K, V, BuildHasherDefault<IntHasher>>;

/// Gives every number of a set its rank.
pub(crate) enum Numbering {
    /// Every number from `base`, whether it is in the set or not: where the gaps are small, there is nothing to look up.
    Dense { base: i64, len: u32 },
    /// The numbers of the set, sorted, and their ranks.
    Sparse { sorted: Vec<i64>, ranks: IntMap<i64, u32> },
}

impl Numbering {
    /// How many numbers `min..=max` are, if that is no more than `limit`.
    pub(crate) fn span(min: i64, max: i64, limit: u64) -> Option<u32> {
        let span = u64::try_from(i128::from(max) - i128::from(min) + 1).ok()?;
        (span <= limit).then(|| u32::try_from(span).ok())?
    }

    pub(crate) fn sparse(set: IntMap<i64, u32>) -> Numbering {
        let mut ranks = set;
        let mut sorted: Vec<i64> = ranks.keys().copied().collect();
        sorted.sort_unstable();
        for (rank, n) in sorted.iter().enumerate() {
            ranks.insert(*n, u32::try_from(rank).expect("fewer than 2^32 distinct numbers"));
        }
        Numbering::Sparse { sorted, ranks }
    }

    /// How many ranks there are.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Numbering::Dense { len, .. } => *len,
            Numbering::Sparse { sorted, .. } => sorted.len() as u32,
        }
    }

    /// The number's rank, if it has one.
    #[inline]
    pub(crate) fn rank(&self, n: i64) -> Option<u32> {
        match self {
            Numbering::Dense { base, len } => {
                let rank = n.wrapping_sub(*base) as u64;
                (rank < u64::from(*len)).then_some(rank as u32)
            }
            Numbering::Sparse { ranks, .. } => ranks.get(&n).copied(),
        }
    }

    /// The number of this rank.
    pub(crate) fn number(&self, rank: u32) -> i64 {
        match self {
            Numbering::Dense { base, .. } => base + i64::from(rank),
            Numbering::Sparse { sorted, .. } => sorted[rank as usize],
        }
    }
}
