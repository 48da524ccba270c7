//! Which of several values at one offset stands for it in the version order.
//!
//! Such a log contradicts itself, and the order around that offset means little; but the checks of order need one of
//! the values. Any will do. Taken is the one that a Clojure set lists first, which is the one that Jepsen takes: so the
//! counts of both agree. Source: clojure.lang.Murmur3#hashLong (MurmurHash3 by Austin Appleby, public domain), and
//! clojure.lang.PersistentHashMap, a trie that reads a hash in digits of five bits, the lowest first.

use riprap_core::Value;

/// The lower, the earlier.
pub(super) fn rank(value: i64) -> u64 {
    const DIGIT_BITS: u32 = 5;
    // A set lists nil before all else.
    if value == Value::NIL.0 {
        return 0;
    }
    let hash = hash(value);
    let digits = (0..u32::BITS.div_ceil(DIGIT_BITS)).map(|n| u64::from((hash >> (n * DIGIT_BITS)) & 31));
    1 + digits.fold(0, |rank, digit| (rank << DIGIT_BITS) | digit)
}

/// MurmurHash3, 32 bits, seed 0, of the number's eight bytes; 0 for 0.
fn hash(n: i64) -> u32 {
    if n == 0 {
        return 0;
    }
    let mut hash: u32 = 0;
    for word in [n as u32, (n >> 32) as u32] {
        hash ^= word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    hash ^= 8;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(hash 1)` and so on, as Clojure prints them.
    #[test]
    fn hashes_as_clojure_does() {
        for (n, expect) in [(0, 0), (1, 1_392_991_556), (2, -971_005_196), (-1, 1_651_860_712)] {
            assert_eq!(hash(n) as i32, expect, "hash of {n}");
        }
    }
}
