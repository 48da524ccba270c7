//! Everything random in a run comes from its seed.
//!
//! Each use draws from a stream of its own, named by who draws and what for, so that taking one fault or one process
//! away does not shift what the others draw. The generator is ChaCha8 by name: the `rand` crate's `StdRng` may change
//! between versions, and with it would change what a seed means.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::fmt;

/// A run's seed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Seed(pub u64);

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A stream of random numbers, the same on every machine and in every version.
pub type Stream = ChaCha8Rng;

impl Seed {
    /// The stream that `entity` draws from for `purpose`.
    pub fn stream(self, entity: &str, purpose: &str) -> Stream {
        let mut key = [0_u8; 32];
        key[0..8].copy_from_slice(&self.0.to_le_bytes());
        key[8..16].copy_from_slice(&fnv1a(entity).to_le_bytes());
        key[16..24].copy_from_slice(&fnv1a(purpose).to_le_bytes());
        ChaCha8Rng::from_seed(key)
    }
}

/// 64-bit FNV-1a: names apart is all that is asked of it.
fn fnv1a(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        // Written down when first computed; recorded seeds and scenarios rest on it.
        let mut kills = Seed(42).stream("nemesis", "kill");
        assert_eq!(
            [kills.next_u64(), kills.next_u64()],
            [5_261_597_563_592_666_314, 2_415_509_690_096_779_521]
        );
        assert_ne!(
            Seed(42).stream("nemesis", "kill").next_u64(),
            Seed(42).stream("nemesis", "partition").next_u64()
        );
        assert_ne!(Seed(42).stream("a", "b").next_u64(), Seed(43).stream("a", "b").next_u64());
    }
}
