//! Topic ids and incarnation ids.

use std::cmp::Ordering;
use std::fmt;

/// 16 bytes that name something; Kafka prints them in URL-safe base64 without padding.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Ord for Uuid {
    /// That of the bytes; as one number, since a broker finds each partition by it.
    fn cmp(&self, other: &Uuid) -> Ordering {
        u128::from_be_bytes(self.0).cmp(&u128::from_be_bytes(other.0))
    }
}

impl PartialOrd for Uuid {
    fn partial_cmp(&self, other: &Uuid) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Uuid {
    /// "No id" on the wire.
    pub const ZERO: Uuid = Uuid([0; 16]);

    /// Whether this is "no id".
    pub fn is_zero(self) -> bool {
        self == Uuid::ZERO
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 128 bits and four zero bits make 22 digits of 6 bits.
        let bits = u128::from_be_bytes(self.0);
        for digit in 0..22 {
            let shift = 122 - 6 * digit;
            let six = if shift >= 0 { bits >> shift } else { bits << -shift };
            write!(f, "{}", char::from(ALPHABET[(six & 0x3f) as usize]))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_kafka_does() {
        let check = |uuid: Uuid, expect: &str| assert_eq!(uuid.to_string(), expect);
        check(Uuid::ZERO, "AAAAAAAAAAAAAAAAAAAAAA");
        check(Uuid(1u128.to_be_bytes()), "AAAAAAAAAAAAAAAAAAAAAQ");
        check(Uuid([0xff; 16]), "_____________________w");
    }
}
