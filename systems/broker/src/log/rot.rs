//! Telling a last batch that has rotted from one that was never written whole.
//!
//! A tail that a power failure tore was promised to nobody, and is cut. A batch that is whole but for one bit was durable:
//! it may be committed because this copy has it. To cut it would let a copy in sync lead without it.

use bytes::Buf;
use riprap_env::disk::rot;
use riprap_protocol::records::BATCH_HEADER_BYTES;

/// Where a batch's length, its checksum, and what that covers begin, and what the length leaves out. Units: bytes.
/// Source: Kafka's record batch, version 2.
const LENGTH_AT: usize = 8;
const CRC_AT: usize = 17;
const COVERED_FROM: usize = 21;
const LENGTH_LEAVES_OUT: usize = 12;

/// Whether bytes that are no batch, or none that belongs there, begin with one that was whole, and of which one bit has
/// flipped.
pub(super) fn has_rotted(bytes: &[u8]) -> bool {
    let Some(head) = bytes.get(..BATCH_HEADER_BYTES) else { return false };
    let (length, stored) = ((&head[LENGTH_AT..]).get_u32(), (&head[CRC_AT..]).get_u32());
    let covered = |length: u32| {
        let size = usize::try_from(length).ok()?.checked_add(LENGTH_LEAVES_OUT)?;
        bytes.get(COVERED_FROM..size).filter(|_| size >= BATCH_HEADER_BYTES)
    };
    if let Some(covered) = covered(length) {
        let computed = crc32c::crc32c(covered);
        // With the right checksum it is one of the fields before, which that does not cover: the batch is not where it was
        // written, or not as it was.
        if computed == stored || rot::has_rotted(covered, stored, computed) {
            return true;
        }
    }
    // A wrong length hides where the batch ends.
    (0..u32::BITS)
        .any(|bit| covered(length ^ (1 << bit)).is_some_and(|covered| crc32c::crc32c(covered) == stored))
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_protocol::records::BatchBuilder;

    #[test]
    fn a_single_bit_is_told_apart_from_a_torn_write() {
        let batch = BatchBuilder::new().record(100, None, Some(b"one")).record(101, Some(b"k"), Some(b"two"));
        let whole = batch.build().to_vec();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut rotten = whole.clone();
                rotten[at] ^= 1 << bit;
                assert!(has_rotted(&rotten), "byte {at} bit {bit}");
                // What follows does not matter.
                rotten.extend_from_slice(&whole);
                assert!(has_rotted(&rotten), "byte {at} bit {bit}, and another batch");
            }
            assert!(!has_rotted(&whole[..at]), "{at}");
            let mut torn = whole.clone();
            torn[at..].fill(0);
            assert!(torn == whole || !has_rotted(&torn), "{at}");
        }
    }
}
