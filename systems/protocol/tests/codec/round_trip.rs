//! What the tables say comes back byte for byte.

use bytes::Bytes;
use proptest::prelude::*;

use crate::bodies::{body, choices, every_message};
use crate::every_message::EVERY_MESSAGE;

proptest! {
    #![proptest_config(crate::config(24))]

    /// Each case is a body of every message in every version.
    #[test]
    fn every_message_in_every_version(choices in choices()) {
        let messages = every_message();
        prop_assert_eq!(messages.len(), EVERY_MESSAGE.len());
        for (message, codec) in messages.iter().zip(EVERY_MESSAGE) {
            prop_assert_eq!(&message.name, codec.name);
            for version in message.versions.first..=message.versions.last {
                let body = Bytes::from(body(message, version, &choices));
                let again = (codec.transcode)(body.clone(), version);
                prop_assert_eq!(again.as_ref(), Ok(&body), "{} version {}", message.name, version);
            }
        }
    }
}

/// Responses are filled in field by field from their defaults, hence every version must be able to say them.
#[test]
fn defaults_in_every_version() {
    for (message, codec) in every_message().iter().zip(EVERY_MESSAGE) {
        for version in message.versions.first..=message.versions.last {
            (codec.check_default)(version);
        }
    }
}
