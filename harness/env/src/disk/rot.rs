//! Telling bytes that have rotted from bytes that were never written whole.
//!
//! A write that a power failure cut short lacks its end, or has zeros there. Bytes whose CRC-32C is wrong by just one bit
//! were there in whole, and one has flipped since: the checksum says which, for no two single bits of a message change it
//! alike. So whoever finds a broken last write need not take for a torn one, which nobody was promised anything of, what was
//! durable and has been counted on.
//!
//! What it cannot see: more bits than one; a disk that lost a whole sector.
//! Source: Alagappan et al., "Protocol-Aware Recovery for Consensus-Based Storage", FAST 2018, on why the two must be told
//! apart; Peterson, Brown, "Cyclic Codes for Error Detection", Proc. IRE 49(1), 1961, on what a checksum says of an error.

/// The polynomial of CRC-32C, with its bits reflected. Source: RFC 3720, 12.1.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Whether a message was there in whole, with the CRC-32C that is stored, and one bit has flipped since; `computed` is the
/// checksum of what is there now. Where a write that lost its end to zeros would look the same, it is taken for that.
pub fn has_rotted(message: &[u8], stored: u32, computed: u32) -> bool {
    match wrong_bit(message.len(), stored, computed) {
        None => false,
        Some(WrongBit::Checksum) => true,
        Some(WrongBit::Message { at, .. }) => message[at..].iter().any(|byte| *byte != 0),
    }
}

/// Where one bit is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WrongBit {
    /// In a byte of the message.
    Message {
        /// Which.
        at: usize,
        /// Its bit.
        mask: u8,
    },
    /// In the checksum that was stored.
    Checksum,
}

/// The one bit by which a message of that length differs from the one that its CRC-32C was made of; none if they differ by
/// more, or not at all.
fn wrong_bit(len: usize, stored: u32, computed: u32) -> Option<WrongBit> {
    let difference = stored ^ computed;
    if difference.is_power_of_two() {
        return Some(WrongBit::Checksum);
    }
    // What flipping a bit changes in the checksum, from the message's last bit on to its first.
    let mut change = POLYNOMIAL;
    for at in (0..len).rev() {
        for bit in (0..8).rev() {
            if change == difference {
                return Some(WrongBit::Message { at, mask: 1 << bit });
            }
            change = (change >> 1) ^ if change & 1 == 1 { POLYNOMIAL } else { 0 };
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, as the definition has it.
    fn crc32c(bytes: &[u8]) -> u32 {
        let step = |crc: u32, _| (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
        !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
    }

    #[test]
    fn the_checksum_is_the_known_one() {
        // Source: RFC 3720, B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn each_single_bit_is_found() {
        let message = b"a record, and what comes after it";
        let stored = crc32c(message);
        assert_eq!(wrong_bit(message.len(), stored, stored), None);
        for at in 0..message.len() {
            for mask in (0..8).map(|bit| 1 << bit) {
                let mut rotten = *message;
                rotten[at] ^= mask;
                let found = wrong_bit(message.len(), stored, crc32c(&rotten));
                assert_eq!(found, Some(WrongBit::Message { at, mask }));
            }
        }
        for bit in 0..32 {
            let found = wrong_bit(message.len(), stored ^ (1 << bit), stored);
            assert_eq!(found, Some(WrongBit::Checksum));
        }
    }

    #[test]
    fn a_torn_message_is_none() {
        let message = b"a record, and what comes after it";
        for kept in 0..message.len() {
            let mut torn = *message;
            torn[kept..].fill(0);
            let found = wrong_bit(message.len(), crc32c(message), crc32c(&torn));
            assert_eq!(found, None, "{kept}");
        }
        // But for one whose lost end had a single bit.
        let (whole, torn) = ([7, 7, 1, 0], [7, 7, 0, 0]);
        assert!(wrong_bit(4, crc32c(&whole), crc32c(&torn)).is_some());
        assert!(!has_rotted(&torn, crc32c(&whole), crc32c(&torn)));
        assert!(has_rotted(&whole, crc32c(&torn), crc32c(&whole)));
    }
}
