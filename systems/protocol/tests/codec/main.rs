//! The codec against the tables, against hostile bytes, and against another implementation.
//!
//! - `round_trip`: bodies made from the tables by an encoder that shares no code with the crate's come back byte for byte;
//! - `oracle`: the same bodies, and some that are built by field name, are what the kafka-protocol crate writes;
//! - `guards`: each guard of the reader and the writer, by example;
//! - `hostile`: no bytes panic, and none make the reader allocate more than its budget;
//! - `frames`: headers and framing;
//! - `rules`: what the reader takes for granted about the tables.

#[path = "../schema/mod.rs"]
mod schema;

mod allocations;
mod bodies;
mod every_message;
mod frames;
mod guards;
mod hostile;
mod oracle;
mod round_trip;
mod rules;

use bytes::Bytes;
use proptest::test_runner::{Config, RngSeed};
use riprap_protocol::{DecodeError, Message, Reader};

/// One message's functions without its type, so that tests can walk a list.
pub(crate) struct Codec {
    name: &'static str,
    /// Reads a whole body and throws it away.
    decode: fn(Bytes, i16) -> Result<(), DecodeError>,
    /// Reads a whole body and writes it in the same version.
    transcode: fn(Bytes, i16) -> Result<Bytes, DecodeError>,
    /// Writes the default in a version and reads it again.
    check_default: fn(i16),
}

impl Codec {
    pub(crate) const fn of<M: Message>() -> Self {
        Self {
            name: M::NAME,
            decode: decode::<M>,
            transcode: transcode::<M>,
            check_default: check_default::<M>,
        }
    }
}

/// The same cases in every run, unless `PROPTEST_RNG_SEED` or `PROPTEST_CASES` ask for others.
pub(crate) fn config(cases: u32) -> Config {
    let default = Config::default();
    let rng_seed = match default.rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        given => given,
    };
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { cases };
    Config { cases, rng_seed, failure_persistence: None, ..default }
}

fn decode<M: Message>(body: Bytes, version: i16) -> Result<(), DecodeError> {
    M::decode_all(&mut Reader::new(body), version).map(drop)
}

/// Panics: what was read cannot be written, or is another value when it is read again.
fn transcode<M: Message>(body: Bytes, version: i16) -> Result<Bytes, DecodeError> {
    let message = M::decode_all(&mut Reader::new(body), version)?;
    let written = message.to_bytes(version).expect("what a version can say can be said in it again");
    let again =
        M::decode_all(&mut Reader::new(written.clone()), version).expect("our own bytes are well-formed");
    assert_eq!(message, again, "{} version {version}", M::NAME);
    Ok(written)
}

/// Panics: the default cannot be written, or is another value when it is read again.
fn check_default<M: Message>(version: i16) {
    let body = M::default().to_bytes(version);
    let body = body.unwrap_or_else(|error| panic!("{} version {version}: {error}", M::NAME));
    assert_eq!(
        M::decode_all(&mut Reader::new(body), version),
        Ok(M::default()),
        "{} version {version}",
        M::NAME
    );
}
