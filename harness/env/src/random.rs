//! Randomness that a seed fixes for good.
//!
//! A draw is a function of (seed, entity, purpose, counter): taking one fault or one node away does not shift what
//! the others draw. The mixing function is in this file, so that no upgrade of a library can change what a seed means.

use std::collections::BTreeMap;

/// Mixes 64 bits: the finaliser of SplitMix64.
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Hashes a name into 64 bits (FNV-1a, then mixed).
fn hash(name: &str) -> u64 {
    let fnv =
        name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    mix(fnv)
}

/// The random number that `entity` draws for `purpose` the `counter`th time.
pub fn draw(seed: u64, entity: &str, purpose: &str, counter: u64) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let key = mix(seed.wrapping_add(GOLDEN)) ^ hash(entity).rotate_left(17) ^ hash(purpose).rotate_left(41);
    mix(mix(key).wrapping_add(GOLDEN.wrapping_mul(counter.wrapping_add(1))))
}

/// The draws of one entity: counts each purpose by itself.
#[derive(Clone, Debug)]
pub struct Draws {
    seed: u64,
    entity: String,
    counters: BTreeMap<&'static str, u64>,
}

impl Draws {
    /// The draws of `entity` under `seed`, none made yet.
    pub fn new(seed: u64, entity: impl Into<String>) -> Draws {
        Draws { seed, entity: entity.into(), counters: BTreeMap::new() }
    }

    /// The next number for `purpose`.
    pub fn next_u64(&mut self, purpose: &'static str) -> u64 {
        let counter = self.counters.entry(purpose).or_insert(0);
        let drawn = draw(self.seed, &self.entity, purpose, *counter);
        *counter += 1;
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        // Written down when first computed: a change here would change what every recorded seed means.
        const FIRST: u64 = 3_242_362_571_923_773_174;
        const SECOND: u64 = 11_946_521_944_874_834_154;
        let mut draws = Draws::new(7, "n1");
        assert_eq!([draws.next_u64("election"), draws.next_u64("election")], [FIRST, SECOND]);
        assert_eq!(draw(7, "n1", "election", 1), SECOND);
    }

    #[test]
    fn purposes_do_not_shift_each_other() {
        let mut alone = Draws::new(1, "n1");
        let mut mixed = Draws::new(1, "n1");
        for _ in 0..10 {
            mixed.next_u64("other");
            assert_eq!(alone.next_u64("election"), mixed.next_u64("election"));
        }
    }
}
