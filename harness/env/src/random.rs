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
    DrawStream { counter, ..DrawStream::new(seed, entity, purpose) }.next_u64()
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The draws of one entity for one purpose: the same numbers as [`draw`] gives with counters from 0.
#[derive(Clone, Debug)]
pub struct DrawStream {
    key: u64,
    counter: u64,
}

impl DrawStream {
    /// None drawn yet.
    pub fn new(seed: u64, entity: &str, purpose: &str) -> DrawStream {
        let of_seed = mix(seed.wrapping_add(GOLDEN));
        let key = of_seed ^ hash(entity).rotate_left(17) ^ hash(purpose).rotate_left(41);
        DrawStream { key: mix(key), counter: 0 }
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(1);
        mix(self.key.wrapping_add(GOLDEN.wrapping_mul(self.counter)))
    }

    /// The next number, from `least` to `most`, both included. Panics: `most` is less than `least`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        match (most - least).checked_add(1) {
            // The bias of the remainder is below one in 2^20 for every span that is drawn from here.
            Some(span) => least + self.next_u64() % span,
            None => self.next_u64(),
        }
    }

    /// Whether it comes to pass, as it does once in so many; never if that is 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        n != 0 && self.next_u64().is_multiple_of(n)
    }
}

/// The draws of one entity: counts each purpose by itself.
#[derive(Clone, Debug)]
pub struct Draws {
    seed: u64,
    entity: String,
    streams: BTreeMap<&'static str, DrawStream>,
}

impl Draws {
    /// The draws of `entity` under `seed`, none made yet.
    pub fn new(seed: u64, entity: impl Into<String>) -> Draws {
        Draws { seed, entity: entity.into(), streams: BTreeMap::new() }
    }

    /// The next number for `purpose`.
    pub fn next_u64(&mut self, purpose: &'static str) -> u64 {
        let (seed, entity) = (self.seed, &self.entity);
        let stream = self.streams.entry(purpose).or_insert_with(|| DrawStream::new(seed, entity, purpose));
        stream.next_u64()
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
        let mut stream = DrawStream::new(7, "n1", "election");
        assert_eq!([stream.next_u64(), stream.next_u64()], [FIRST, SECOND]);
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
